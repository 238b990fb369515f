//! Crashes of the simulated storage, checked against a model that knows nothing of how they are made. The model notes
//! random operations as the contract of `braiddb::storage` sees them, and it must allow every state after a crash.
//! Further tests show that the states are not too kind: whatever may be lost is lost in some state.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::storage::{EVERYTHING, NOTHING, SimulatedStorage};
use braiddb::storage::{File, OpenMode, SECTOR_BYTES, Storage};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CAPACITY: u64 = 1 << 20;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Remove(usize),
    Rename(usize, usize),
    SyncDirectory,
    Write { name: usize, offset: u64, len: usize, byte: u8 },
    Preallocate { name: usize, offset: u64, bytes: u64 },
    Truncate { name: usize, len_bytes: u64 },
    Sync(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let offset = || prop_oneof![0..2500_u64, (0..5_u64).prop_map(|sector| sector * 512)];
    prop_oneof![
        2 => name().prop_map(Step::Create),
        1 => name().prop_map(Step::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => Just(Step::SyncDirectory),
        6 => (name(), offset(), 1..1500_usize, 1..=255_u8)
            .prop_map(|(name, offset, len, byte)| Step::Write { name, offset, len, byte }),
        1 => (name(), offset(), 1..1500_u64)
            .prop_map(|(name, offset, bytes)| Step::Preallocate { name, offset, bytes }),
        1 => (name(), offset()).prop_map(|(name, len_bytes)| Step::Truncate { name, len_bytes }),
        3 => name().prop_map(Step::Sync),
    ]
}

/// The contract for one file: its bytes at the last sync, and at each moment since.
#[derive(Clone, Debug, Default)]
struct FileModel {
    versions: Vec<Vec<u8>>,
    /// Sectors that hold data, and in `durable` those sectors whose data is durable. Others may hold anything.
    written: BTreeSet<usize>,
    durable: BTreeSet<usize>,
    /// Sectors that were preallocated, or written and not yet synced, while they held no durable data.
    loose: BTreeSet<usize>,
}

impl FileModel {
    fn bytes(&self) -> Vec<u8> {
        self.versions.last().cloned().unwrap_or_default()
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes();
        change(&mut bytes);
        self.versions.push(bytes);
    }

    fn touch(&mut self, offset: u64, len: usize, is_data: bool) {
        let end = offset as usize + len;
        for sector in offset as usize / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            if is_data {
                self.written.insert(sector);
            }
            let is_kept =
                if is_data { self.durable.contains(&sector) } else { self.written.contains(&sector) };
            if !is_kept {
                self.loose.insert(sector);
            }
        }
    }

    fn sync(&mut self) {
        self.versions = vec![self.bytes()];
        let sectors = self.bytes().len().div_ceil(SECTOR_BYTES);
        self.written.retain(|sector| *sector < sectors);
        self.loose.retain(|sector| *sector < sectors && !self.written.contains(sector));
        self.durable.clone_from(&self.written);
    }

    /// Checks that a crash may leave the file like this.
    fn allows(&self, found: &[u8]) -> Result<(), String> {
        let is_len = |version: &Vec<u8>| version.len() == found.len();
        let is_known_len = self.versions.iter().any(is_len) || (self.versions.is_empty() && found.is_empty());
        if !is_known_len {
            return Err(format!("it has never been {} bytes long", found.len()));
        }
        for (number, sector) in found.chunks(SECTOR_BYTES).enumerate() {
            if self.loose.contains(&number) {
                continue;
            }
            let start = number * SECTOR_BYTES;
            let was = |version: &Vec<u8>| {
                (0..sector.len()).all(|i| sector[i] == version.get(start + i).copied().unwrap_or_default())
            };
            if !self.versions.iter().any(was) {
                return Err(format!("sector {number} has never been so"));
            }
        }
        Ok(())
    }
}

/// The contract for the directory: which files had each name since the last sync, and which cannot be lost.
#[derive(Clone, Debug, Default)]
struct Model {
    files: Vec<FileModel>,
    names: BTreeMap<&'static str, usize>,
    /// For each name, every file that it led to since the last sync, and `None` if it was free at some time.
    histories: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
    /// Files with a durable name that was neither removed nor reused since.
    safe: BTreeSet<usize>,
}

impl Model {
    fn new() -> Model {
        let mut model = Model::default();
        model.sync_directory();
        model
    }

    fn sync_directory(&mut self) {
        self.safe = self.names.values().copied().collect();
        self.histories =
            NAMES.iter().map(|name| (*name, BTreeSet::from([self.names.get(name).copied()]))).collect();
    }

    fn name(&mut self, name: &'static str, file: Option<usize>) {
        let former = match file {
            Some(file) => self.names.insert(name, file),
            None => self.names.remove(name),
        };
        assert!(former != file || file.is_none());
        self.histories.get_mut(name).unwrap().insert(file);
    }

    /// Makes the step on the storage and notes it, if the step is possible.
    fn step(&mut self, storage: &SimulatedStorage, step: &Step) {
        let open = |name: &str| storage.open(name, OpenMode::ReadWrite).unwrap();
        let file = |model: &Model, name: usize| model.names.get(NAMES[name]).copied();
        match *step {
            Step::Create(name) => {
                if file(self, name).is_none() {
                    drop(storage.open(NAMES[name], OpenMode::CreateNew).unwrap());
                    self.files.push(FileModel { versions: vec![Vec::new()], ..FileModel::default() });
                    self.name(NAMES[name], Some(self.files.len() - 1));
                }
            }
            Step::Remove(name) => {
                if let Some(gone) = file(self, name) {
                    storage.remove(NAMES[name]).unwrap();
                    self.name(NAMES[name], None);
                    self.safe.remove(&gone);
                }
            }
            Step::Rename(from, to) => {
                let Some(moved) = file(self, from).filter(|_| from != to) else { return };
                let replaced = file(self, to);
                storage.rename(NAMES[from], NAMES[to]).unwrap();
                self.name(NAMES[from], None);
                self.name(NAMES[to], Some(moved));
                if let Some(replaced) = replaced {
                    self.safe.remove(&replaced);
                }
            }
            Step::SyncDirectory => {
                storage.sync_directory().unwrap();
                self.sync_directory();
            }
            Step::Write { name, offset, len, byte } => {
                let Some(at) = file(self, name) else { return };
                open(NAMES[name]).write_all_at(offset, &vec![byte; len]).unwrap();
                let end = offset as usize + len;
                self.files[at].change(|bytes| {
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[offset as usize..end].fill(byte);
                });
                self.files[at].touch(offset, len, true);
            }
            Step::Preallocate { name, offset, bytes } => {
                let Some(at) = file(self, name) else { return };
                open(NAMES[name]).preallocate(offset, bytes).unwrap();
                let end = (offset + bytes) as usize;
                self.files[at].change(|bytes| bytes.resize(bytes.len().max(end), 0));
                self.files[at].touch(offset, bytes as usize, false);
            }
            Step::Truncate { name, len_bytes } => {
                let Some(at) = file(self, name) else { return };
                open(NAMES[name]).truncate(len_bytes).unwrap();
                self.files[at].change(|bytes| bytes.resize(len_bytes as usize, 0));
                let sectors = (len_bytes as usize).div_ceil(SECTOR_BYTES);
                self.files[at].written.retain(|sector| *sector < sectors);
            }
            Step::Sync(name) => {
                let Some(at) = file(self, name) else { return };
                open(NAMES[name]).sync_data().unwrap();
                self.files[at].sync();
            }
        }
    }

    /// Checks that a crash may leave the directory like this: some choice of a file for each name explains it.
    fn allows(&self, found: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let mut reasons = Vec::new();
        if self.explains(found, 0, &mut BTreeSet::new(), &mut reasons) {
            Ok(())
        } else {
            Err(reasons.join("; "))
        }
    }

    fn explains(
        &self,
        found: &BTreeMap<String, Vec<u8>>,
        at: usize,
        used: &mut BTreeSet<usize>,
        reasons: &mut Vec<String>,
    ) -> bool {
        let Some(name) = NAMES.get(at) else {
            let lost = self.safe.difference(used).next();
            reasons.extend(lost.map(|lost| format!("file {lost} is lost")));
            return lost.is_none();
        };
        let Some(bytes) = found.get(*name) else {
            let may_be_free = self.histories[name].contains(&None);
            if !may_be_free {
                reasons.push(format!("{name} cannot be missing"));
            }
            return may_be_free && self.explains(found, at + 1, used, reasons);
        };
        self.histories[name].iter().flatten().any(|file| {
            if let Err(reason) = self.files[*file].allows(bytes) {
                reasons.push(format!("{name} as file {file}: {reason}"));
                return false;
            }
            used.insert(*file) && {
                let explains = self.explains(found, at + 1, used, reasons);
                used.remove(file);
                explains
            }
        })
    }
}

fn contents(storage: &SimulatedStorage) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = storage.open(&name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    storage.list().unwrap().into_iter().map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Every state after a crash, at every boundary, is one that the contract allows; and reads before it agree with
    /// the model.
    #[test]
    fn crashes_keep_the_contract(steps in prop::collection::vec(step(), 1..40), seed in any::<u64>()) {
        let storage = SimulatedStorage::new(seed, CAPACITY);
        let mut model = Model::new();
        let mut models = BTreeMap::from([(0, model.clone())]);
        for step in &steps {
            model.step(&storage, step);
            models.insert(storage.boundary(), model.clone());
        }
        let expected: BTreeMap<String, Vec<u8>> =
            model.names.iter().map(|(name, file)| (name.to_string(), model.files[*file].bytes())).collect();
        prop_assert!(contents(&storage) == expected, "without a crash everything is there");
        for crash in storage.crash_states(seed, 6) {
            // A step may make more than one change, and only its last change completes it.
            let (boundary, model) = models.range(crash.boundary..).next().unwrap();
            if *boundary != crash.boundary {
                continue;
            }
            let found = contents(&crash.storage);
            if let Err(reason) = model.allows(&found) {
                let place = storage.describe(crash.boundary);
                prop_assert!(false, "{place}, seed {}: {reason}\n{model:?}\n{found:?}", crash.seed);
            }
            if crash.seed == EVERYTHING {
                let names: Vec<&str> = model.names.keys().copied().collect();
                prop_assert_eq!(found.keys().collect::<Vec<_>>(), names);
            }
        }
    }
}

/// Returns the states of one unsynced situation, with how often each outcome came.
fn outcomes<T: Ord>(
    prepare: impl Fn(&SimulatedStorage),
    look: impl Fn(&SimulatedStorage) -> T,
) -> BTreeMap<T, u32> {
    let storage = SimulatedStorage::new(1, CAPACITY);
    prepare(&storage);
    let mut found = BTreeMap::new();
    for seed in 0..400 {
        *found.entry(look(&storage.crash(storage.boundary(), seed))).or_default() += 1;
    }
    found
}

fn write(storage: &SimulatedStorage, name: &str, byte: u8, sectors: usize) -> Box<dyn File> {
    let mode = if storage.list().unwrap().contains(&name.to_string()) {
        OpenMode::ReadWrite
    } else {
        OpenMode::CreateNew
    };
    let file = storage.open(name, mode).unwrap();
    file.write_all_at(0, &vec![byte; sectors * SECTOR_BYTES]).unwrap();
    file
}

/// Synced data is in every state. An unsynced write survives in any subset of its sectors, and every subset occurs.
#[test]
fn any_subset_of_unsynced_sectors_survives() {
    let prepare = |storage: &SimulatedStorage| {
        write(storage, "a", 1, 3).sync_data().unwrap();
        storage.sync_directory().unwrap();
        write(storage, "a", 2, 3);
    };
    let found = outcomes(prepare, |storage| {
        let bytes = &contents(storage)["a"];
        bytes.chunks(SECTOR_BYTES).map(|sector| (sector[0], sector[511])).collect::<Vec<_>>()
    });
    assert!(found.keys().flatten().all(|sector| [(1, 1), (2, 2)].contains(sector)), "{found:?}");
    assert_eq!(found.len(), 8, "{found:?}");
}

/// A sector that was written several times holds any of its versions.
#[test]
fn any_version_of_a_sector_survives() {
    let prepare = |storage: &SimulatedStorage| {
        write(storage, "a", 1, 1).sync_data().unwrap();
        storage.sync_directory().unwrap();
        for byte in 2..=4 {
            write(storage, "a", byte, 1);
        }
    };
    let found = outcomes(prepare, |storage| contents(storage)["a"][0]);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// A file whose name was not synced may be missing although its data was synced, and a renamed file may lack its data.
#[test]
fn names_and_data_are_durable_apart() {
    let found = outcomes(|storage| write(storage, "a", 1, 1).sync_data().unwrap(), contents);
    let there = BTreeMap::from([("a".to_string(), vec![1; 512])]);
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), [BTreeMap::new(), there]);

    let prepare = |storage: &SimulatedStorage| {
        write(storage, "a", 1, 1).sync_data().unwrap();
        storage.sync_directory().unwrap();
        write(storage, "b", 2, 1);
        storage.rename("b", "a").unwrap();
    };
    let found = outcomes(prepare, |storage| contents(storage)["a"].first().copied());
    for outcome in [Some(1), Some(2), None] {
        assert!(found.contains_key(&outcome), "the old file, the new one, and the new one empty: {found:?}");
    }
}

/// Operations on names survive independently: a later one may survive without an earlier one.
#[test]
fn any_subset_of_names_survives() {
    let prepare = |storage: &SimulatedStorage| {
        drop(write(storage, "a", 1, 1));
        storage.sync_directory().unwrap();
        drop(write(storage, "b", 1, 1));
        storage.rename("a", "c").unwrap();
    };
    let found = outcomes(prepare, |storage| storage.list().unwrap().concat());
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "ab", "bc", "c"]);
}

/// Preallocated space holds zeros, noise, or the content of a deleted file, until a synced write gives it data.
#[test]
fn space_without_content_holds_anything() {
    let prepare = |storage: &SimulatedStorage| {
        write(storage, "old", 7, 8).sync_data().unwrap();
        storage.remove("old").unwrap();
        let file = storage.open("a", OpenMode::CreateNew).unwrap();
        file.preallocate(0, 64 * 512).unwrap();
        file.write_all_at(0, &[1; 512]).unwrap();
        file.sync_data().unwrap();
        storage.sync_directory().unwrap();
    };
    let found = outcomes(prepare, |storage| {
        let bytes = &contents(storage)["a"];
        assert_eq!(bytes[..512], [1; 512], "what was synced is there");
        let has = |wanted: fn(&[u8]) -> bool| bytes.chunks(512).skip(1).any(wanted);
        let is_noise = |sector: &[u8]| sector.iter().collect::<BTreeSet<_>>().len() > 2;
        (has(|sector| sector == [0; 512]), has(|sector| sector == [7; 512]), has(is_noise))
    });
    assert!(
        found.contains_key(&(true, true, true)) && found.contains_key(&(true, false, false)),
        "{found:?}"
    );
}

/// A state after a crash is a disk like any other. It can be used from there, and what was found in it is durable.
#[test]
fn a_crash_state_can_crash() {
    let storage = SimulatedStorage::new(1, CAPACITY);
    drop(write(&storage, "a", 1, 2));
    for crash in storage.crash_states(3, 20) {
        let before = contents(&crash.storage);
        assert_eq!(contents(&crash.storage.crash(0, NOTHING)), before);
        write(&crash.storage, "b", 2, 1).sync_data().unwrap();
        crash.storage.sync_directory().unwrap();
        let again = contents(&crash.storage.crash(crash.storage.boundary(), NOTHING));
        assert_eq!(again.get("b"), Some(&vec![2; 512]));
        assert_eq!(again.get("a"), before.get("a"));
    }
}
