//! Checkpoints on a disk that crashes and fails. In every state that a crash can leave, each manifest that is there is
//! whole with all of its rows, and the newest is at least as new as the last published one. Omitted syncs, and errors
//! planted into reading, are caught.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::crash::Careless;
use braid_sim::storage::{Fault, FaultRule, SimulatedStorage};
use braiddb::checkpoint::{
    Block, CatalogEntry, Error, Identity, Manifest, Planted, Result, RowsOf, RowsRange, RowsReader,
    RowsWriter, TableEntry, list, number_next, publish, read, remove_unneeded,
};
use braiddb::storage::{OpenMode, Operation, Storage};
use braiddb::wal::{DatabaseId, Lsn};

const CAPACITY: u64 = 1 << 20;
const DATABASE: DatabaseId = DatabaseId(77);
/// The number of checkpoints that are kept.
const KEPT: usize = 2;

/// Tables: the number, whether the keys have eight bytes, and the number of key ranges. The first range of table 1
/// changes with every checkpoint. Its second range and table 2 change with every other checkpoint. Table 3 has no rows.
const TABLES: [(u32, bool, u32); 3] = [(1, true, 2), (2, false, 1), (3, true, 0)];

/// Returns the least key of a range. It is empty for the first.
fn from(range: u32) -> Vec<u8> {
    if range == 0 { Vec::new() } else { (u64::from(range) * 1000).to_be_bytes()[..7].to_vec() }
}

/// Returns the rows of the file that checkpoint `checkpoint` writes for a table's range.
fn rows(checkpoint: u64, table: u32, range: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |i: u64| {
        let mut key = (u64::from(range) * 1000 + i * 3).to_be_bytes().to_vec();
        if table == 2 {
            key.resize(8 + i as usize % 40, 1);
        }
        (key, vec![(checkpoint * 16 + i) as u8 | 1; (i * 13 % 90) as usize])
    };
    (0..10 + checkpoint % 7).map(row).collect()
}

/// The events, with the boundaries of the storage's history.
#[derive(Clone, Debug, Default)]
struct Trace {
    /// When the database existed.
    created: Option<u64>,
    /// Each checkpoint, with when it was begun and when it was published.
    checkpoints: Vec<(u64, u64, Option<u64>)>,
}

impl Trace {
    /// Returns the newest checkpoint that had been published at this boundary.
    fn published(&self, boundary: u64) -> Option<u64> {
        let is_before = |at: &Option<u64>| at.is_some_and(|at| at <= boundary);
        self.checkpoints.iter().rev().find(|(.., at)| is_before(at)).map(|(number, ..)| *number)
    }

    /// Returns the trace for a history that begins with what a crash has left.
    fn after_crash(newest: Option<u64>) -> Trace {
        Trace { created: None, checkpoints: newest.map(|number| (number, 0, Some(0))).into_iter().collect() }
    }
}

/// Writes the rows of a table's range for this checkpoint. Uses the old file if the range has not changed.
fn write_range(
    storage: &dyn Storage,
    of: RowsOf,
    fixed8: bool,
    before: Option<&Manifest>,
) -> Result<RowsRange> {
    let old = before.and_then(|manifest| manifest.tables.iter().find(|entry| entry.table.number == of.table));
    if let Some(old) = old.filter(|_| (of.table, of.part) != (1, 0) && of.checkpoint.is_multiple_of(2)) {
        return Ok(old.ranges[of.part as usize].clone());
    }
    let mut writer = RowsWriter::create(storage, DATABASE, of, fixed8)?;
    for (key, value) in &rows(of.checkpoint, of.table, of.part) {
        writer.push(key, value)?;
    }
    Ok(RowsRange { from: from(of.part), file: writer.finish()? })
}

/// Opens or creates the database, makes `count` checkpoints, and keeps the newest.
fn work(inner: &SimulatedStorage, count: u64, trace: &mut Trace) -> Result<()> {
    work_over(inner, inner, count, trace)
}

/// The same, through `storage`, which lies over the disk `inner`.
fn work_over(inner: &SimulatedStorage, storage: &dyn Storage, count: u64, trace: &mut Trace) -> Result<()> {
    if Identity::read(storage)?.is_none() {
        Identity::create(storage, DATABASE)?;
    }
    trace.created = Some(inner.boundary());
    let mut manifests = Vec::new();
    for number in list(storage)? {
        manifests.push(read(storage, DATABASE, number)?);
    }
    remove_unneeded(storage, &manifests)?;
    for _ in 0..count {
        let number = number_next(storage)?;
        trace.checkpoints.push((number, inner.boundary(), None));
        let mut tables = Vec::new();
        for (table, fixed8, parts) in TABLES {
            let mut ranges = Vec::new();
            for part in 0..parts {
                let of = RowsOf { checkpoint: number, table, part };
                ranges.push(write_range(storage, of, fixed8, manifests.last())?);
            }
            let text = |what: &str| format!("{what} {table}");
            let (name, key_type, value_type) = (text("table"), text("key"), text("value"));
            let number = table;
            let table =
                CatalogEntry { number, fixed8, name, key_type, value_type, ..CatalogEntry::default() };
            tables.push(TableEntry { table, ranges });
        }
        let (start_lsn, end_lsn) = (Lsn(number * 10), Lsn(number * 10 + 5));
        let manifest = Manifest { number, start_lsn, end_lsn, timestamp: number * 256, tables };
        publish(storage, DATABASE, &manifest)?;
        trace.checkpoints.last_mut().unwrap().2 = Some(inner.boundary());
        manifests.push(manifest);
        manifests.drain(..manifests.len().saturating_sub(KEPT));
        remove_unneeded(storage, &manifests)?;
    }
    Ok(())
}

fn run(count: u64) -> (SimulatedStorage, Trace) {
    let (storage, mut trace) = (SimulatedStorage::new(1, CAPACITY), Trace::default());
    work(&storage, count, &mut trace).unwrap();
    (storage, trace)
}

/// Checks that a checkpoint can be read with all of its rows, as they were written.
fn check_checkpoint(storage: &dyn Storage, number: u64, planted: Option<Planted>) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let manifest = read(storage, DATABASE, number).map_err(text)?;
    let numbers: Vec<u32> = manifest.tables.iter().map(|entry| entry.table.number).collect();
    if (manifest.start_lsn, manifest.timestamp, &numbers[..]) != (Lsn(number * 10), number * 256, &[1, 2, 3])
    {
        return Err(format!("checkpoint {number} is not what was published: {manifest:?}"));
    }
    for entry in &manifest.tables {
        for file in entry.files() {
            let fixed8 = entry.table.fixed8;
            let reader = match planted {
                Some(planted) => planted.open(storage, DATABASE, file, fixed8).map_err(text)?,
                None => RowsReader::open(storage, DATABASE, file, fixed8).map_err(text)?,
            };
            let (mut block, mut found) = (Block::new(), Vec::new());
            for number in 0..reader.blocks() {
                reader.read_block(number, &mut block).map_err(text)?;
                found.extend(block.rows().map(|(key, value)| (key.to_vec(), value.to_vec())));
            }
            if found != rows(file.checkpoint, file.table, file.part) {
                return Err(format!("the rows of table {} in checkpoint {number} are wrong", file.table));
            }
        }
    }
    Ok(())
}

/// Checks that a crash at this boundary has left what it must. Returns the newest checkpoint.
fn check(trace: &Trace, boundary: u64, storage: &dyn Storage) -> Result<Option<u64>, String> {
    let identity = Identity::read(storage).map_err(|error| error.to_string())?;
    if identity.is_none() && trace.created.is_some_and(|created| created <= boundary) {
        return Err("the identity is gone".to_string());
    }
    if identity.is_some_and(|identity| identity.database != DATABASE) {
        return Err("it is another database".to_string());
    }
    let numbers = list(storage).map_err(|error| error.to_string())?;
    for number in &numbers {
        check_checkpoint(storage, *number, None)?;
    }
    let (newest, published) = (numbers.last().copied(), trace.published(boundary));
    if newest < published {
        return Err(format!("checkpoint {published:?} was published, {newest:?} is the newest"));
    }
    let begun = trace.checkpoints.iter().rev().find(|(_, at, _)| *at <= boundary).map(|(number, ..)| *number);
    if newest > begun {
        return Err(format!("checkpoint {newest:?} is there, {begun:?} was begun last"));
    }
    Ok(newest)
}

/// Returns what is wrong in the first bad crash state, and how many states were looked at.
fn first_loss(storage: &SimulatedStorage, trace: &Trace, states: u64) -> (Option<String>, u64) {
    let mut looked_at = 0;
    for crash in storage.crash_states(7, states) {
        looked_at += 1;
        if let Err(loss) = check(trace, crash.boundary, &crash.storage) {
            let place = storage.describe(crash.boundary);
            return (Some(format!("{place}, seed {}: {loss}", crash.seed)), looked_at);
        }
    }
    (None, looked_at)
}

/// Proves that in every crash state, also during removals, all checkpoints that are there are whole, and the last
/// published one or a newer one is there.
#[test]
fn checkpoints_survive_every_crash() {
    let (storage, trace) = run(5);
    assert!(storage.operations(Operation::Remove) >= 6);
    assert_eq!(list(&storage).unwrap(), [4, 5]);
    let (loss, looked_at) = first_loss(&storage, &trace, 150);
    assert_eq!(loss, None);
    assert!(looked_at >= 10_000, "{looked_at} states");
}

/// Proves that continuing after a crash loses nothing, also if this crashes too, and leaves no unneeded file.
#[test]
fn going_on_survives_crashes_too() {
    let (storage, trace) = run(3);
    for crash in storage.crash_states(3, 4) {
        let place = format!("{}, seed {}", storage.describe(crash.boundary), crash.seed);
        let newest = check(&trace, crash.boundary, &crash.storage).unwrap();
        let mut again = Trace::after_crash(newest);
        work(&crash.storage, 2, &mut again).unwrap();
        let (loss, _) = first_loss(&crash.storage, &again, 4);
        assert_eq!(loss, None, "{place}");
        // The identity, two manifests, two files of the first range, and one or two of each other range.
        assert!(crash.storage.list().unwrap().len() <= 9, "{place}");
    }
}

/// Proves that missing syncs are caught: of rows, of a manifest, and of names before and after the rename.
#[test]
fn careless_writers_are_caught() {
    for careless in [
        Careless::DataUnsynced("rows-"),
        Careless::DataUnsynced("checkpoint-"),
        Careless::CreationUnsynced("checkpoint-"),
        Careless::RenameUnsynced("checkpoint-"),
    ] {
        let (storage, mut trace) = (SimulatedStorage::new(1, CAPACITY), Trace::default());
        work_over(&storage, &careless.over(&storage), 4, &mut trace).unwrap();
        let (loss, looked_at) = first_loss(&storage, &trace, 50);
        let loss = loss.unwrap_or_else(|| panic!("{careless:?} is not caught in {looked_at} states"));
        println!("{careless:?}: state {looked_at}, {loss}");
    }
}

/// Proves that after a single failure of any operation nothing that was published is lost, also in a crash, and that
/// checkpoints can be made again.
#[test]
fn checkpoints_survive_failures() {
    let (clean, _) = run(4);
    for (operation, fault) in [
        (Operation::SyncData, Fault::DropUnsynced),
        (Operation::SyncDirectory, Fault::DropUnsynced),
        (Operation::Write, Fault::Torn),
        (Operation::Write, Fault::Full),
        (Operation::Write, Fault::Short),
        (Operation::Create, Fault::Full),
        (Operation::Rename, Fault::Fail),
        (Operation::Remove, Fault::Fail),
        (Operation::List, Fault::Fail),
    ] {
        for nth in 1..=clean.operations(operation) {
            let (storage, mut trace) = (SimulatedStorage::new(nth, CAPACITY), Trace::default());
            storage.inject(FaultRule::once(operation, nth, fault));
            let worked = work(&storage, 4, &mut trace);
            let place = format!("{fault:?} at {operation} {nth}");
            assert_eq!((storage.faults_injected(), worked.is_err()), (1, fault != Fault::Short), "{place}");
            let (loss, _) = first_loss(&storage, &trace, 4);
            assert_eq!(loss, None, "{place}");
            // A fresh start after a crash of the machine. Names that a failed sync has lost are gone now.
            let boundary = storage.boundary();
            let fresh = storage.crash(boundary, nth);
            let mut again = Trace::after_crash(check(&trace, boundary, &fresh).unwrap());
            work(&fresh, 2, &mut again).unwrap();
            let (loss, _) = first_loss(&fresh, &again, 2);
            assert_eq!(loss, None, "{place}, again");
        }
    }
}

/// Proves that a writer completes no file after a failed write, although later writes succeed, nor after a failed sync.
#[test]
fn a_failure_ends_the_file() {
    // The first write is the write of the file's head.
    for (operation, nth, fault) in
        [(Operation::Write, 2, Fault::Torn), (Operation::SyncData, 1, Fault::DropUnsynced)]
    {
        let storage = SimulatedStorage::new(1, CAPACITY);
        storage.inject(FaultRule::once(operation, nth, fault));
        let of = RowsOf { checkpoint: 1, table: 1, part: 0 };
        let mut writer = RowsWriter::create(&storage, DATABASE, of, true).unwrap();
        // Longer than a block, so each row is written at once.
        let large = vec![7; 300 << 10];
        let pushed = writer.push(&[0; 8], &large);
        assert_eq!(pushed.is_err(), operation == Operation::Write);
        let again = writer.push(&[1; 8], &large);
        assert_eq!(matches!(again, Err(Error::Storage(_))), operation == Operation::Write);
        assert!(matches!(writer.finish(), Err(Error::Storage(_))));
    }
}

/// Proves that a file of rows is synced once, however long it is, because each sync would delay syncs of the log.
#[test]
fn a_file_is_synced_once() {
    let storage = SimulatedStorage::new(1, 8 << 20);
    let of = RowsOf { checkpoint: 1, table: 1, part: 0 };
    let mut writer = RowsWriter::create(&storage, DATABASE, of, true).unwrap();
    for i in 0..20_u64 {
        writer.push(&i.to_be_bytes(), &vec![7; 300 << 10]).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(storage.operations(Operation::SyncData), 1);
}

/// Proves that files that a checkpoint replaces are not removed before the checkpoint is durable. This also holds if a
/// fresh start finds the checkpoint after a failure of the sync that should have made it durable.
#[test]
fn what_is_replaced_goes_last() {
    let (storage, mut trace) = run(1);
    // Two syncs of the directory publish a manifest. The second fails without an effect.
    storage.inject(FaultRule::once(Operation::SyncDirectory, 2, Fault::Fail));
    assert!(work(&storage, 1, &mut trace).is_err());
    let second = read(&storage, DATABASE, 2).unwrap();
    remove_unneeded(&storage, &[second]).unwrap();
    assert_eq!(list(&storage).unwrap(), [2]);
    let (loss, _) = first_loss(&storage, &trace, 20);
    assert_eq!(loss, None);
}

/// Returns what was read wrongly from a disk that lies, or `None` if everything is read as published or as damaged.
fn read_wrongly(storage: &SimulatedStorage, planted: Option<Planted>) -> Option<String> {
    let is_wrong = |loss: &String| loss.contains("not what was published") || loss.contains("are wrong");
    list(storage)
        .unwrap()
        .iter()
        .find_map(|number| check_checkpoint(storage, *number, planted).err().filter(is_wrong))
}

/// Proves that readers never return anything but what was written, whatever the disk does: a bit flips in a write or a
/// read, or a write is lost or goes elsewhere. Readers that look at no checksum are caught.
#[test]
fn lies_of_the_disk_are_noticed() {
    let (clean, _) = run(2);
    let (mut noticed, mut caught) = (0, false);
    for fault in [Fault::BitFlip, Fault::Lost, Fault::Misdirected] {
        for nth in 1..=clean.operations(Operation::Write) {
            for seed in 0..8 {
                let (storage, mut trace) = (SimulatedStorage::new(seed, CAPACITY), Trace::default());
                storage.inject(FaultRule::once(Operation::Write, nth, fault));
                // Reading a damaged identity or manifest may end it early.
                let _ = work(&storage, 2, &mut trace);
                assert_eq!(read_wrongly(&storage, None), None, "{fault:?} at write {nth}, seed {seed}");
                let numbers = list(&storage).unwrap();
                let is_good = |number: &u64| check_checkpoint(&storage, *number, None).is_ok();
                noticed += u32::from(!numbers.iter().all(is_good));
                caught |= read_wrongly(&storage, Some(Planted::NoChecksum)).is_some();
            }
        }
    }
    assert!(noticed > 50 && caught, "{noticed} noticed, without checksums caught: {caught}");
    for nth in 1..20 {
        clean.inject(FaultRule::once(Operation::Read, nth, Fault::BitFlip));
        assert_eq!(read_wrongly(&clean, None), None, "read {nth}");
        clean.heal();
    }
}

/// Proves that a file of rows that an earlier attempt wrote, and that a lying disk has brought back, is not taken for
/// the published file, and that a reader that does not compare is caught.
#[test]
fn stale_rows_are_noticed() {
    let (storage, _) = run(1);
    let name = "rows-00000000000000000001-0000000001-0000000000";
    storage.remove(name).unwrap();
    let of = RowsOf { checkpoint: 1, table: 1, part: 0 };
    let mut writer = RowsWriter::create(&storage, DATABASE, of, true).unwrap();
    for (key, value) in rows(1, 1, 0) {
        writer.push(&key, &vec![0; value.len()]).unwrap();
    }
    let stale = writer.finish().unwrap();
    assert_eq!(storage.open(name, OpenMode::Read).unwrap().len_bytes().unwrap(), stale.bytes);
    assert!(check_checkpoint(&storage, 1, None).is_err() && read_wrongly(&storage, None).is_none());
    assert!(read_wrongly(&storage, Some(Planted::StaleRows)).is_some());
}
