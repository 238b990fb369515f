//! Restoring databases to points of their past: every point, against a model that remembers all states.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::{Clock, SystemClock};
use braiddb::recovery::{Past, Restoration};
use braiddb::storage::{Archive, ArchiveError, DirectoryArchive, File, MemoryStorage, OpenMode, Storage};
use braiddb::testing::{PlantedDurability, Stepped, restore_with_planted};
use braiddb::wal::{Lsn, Point, Until};
use braiddb::{Database, Durability, Error, Options, Serializable, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The contents of the tables: the name of each, and its rows.
type Model = BTreeMap<String, BTreeMap<u64, Vec<u8>>>;

const SECOND: u64 = 1_000_000_000;

/// A clock that tests set.
#[derive(Debug, Default)]
struct Hand {
    now_ns: AtomicU64,
    unix_ns: AtomicU64,
}

impl Clock for Hand {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn unix_ns(&self) -> u64 {
        self.unix_ns.load(Ordering::Relaxed)
    }
}

impl Hand {
    fn pass(&self, seconds: u64) {
        self.now_ns.fetch_add(seconds * SECOND, Ordering::Relaxed);
        self.unix_ns.fetch_add(seconds * SECOND, Ordering::Relaxed);
    }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 28))
}

fn options() -> Options {
    // Nothing waits for what the test itself flushes.
    Options { workers: 0, log_segment_bytes: 4096, durability: Durability::Async, ..Options::default() }
}

fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// A state, the position from which on it was the database's state, and the time at which its last transaction
/// committed.
struct State {
    lsn: Lsn,
    unix_ns: u64,
    model: Model,
}

/// A life of a database: transactions, checkpoints and openings, with all states that there were.
struct Life {
    storage: Arc<dyn Storage>,
    archive: Option<Arc<dyn Archive>>,
    clock: Arc<Hand>,
    states: Vec<State>,
    seed: u64,
}

impl Life {
    fn new(seed: u64, archive: Option<Arc<dyn Archive>>) -> Life {
        let clock = Arc::new(Hand::default());
        clock.pass(1000);
        let states = vec![State { lsn: Lsn(0), unix_ns: 0, model: Model::new() }];
        Life { storage: memory(), archive, clock, states, seed }
    }

    /// Opens the database, runs this many transactions, and closes it or leaves it as a kill does.
    fn live(&mut self, transactions: u64, checkpoints: bool) {
        let options = Options { archive: self.archive.clone(), ..options() };
        let clock = self.clock.clone();
        let opened = Database::open_stepped(self.storage.clone(), options, clock, PlantedDurability::None);
        let (db, mut stepped): (Database, Stepped<Serializable>) = opened.unwrap();
        let mut model = self.states.last().unwrap().model.clone();
        for _ in 0..transactions {
            self.transact(&db, &mut model);
            match random(&mut self.seed, 8) {
                0 => self.clock.pass(1),
                1 => self.clock.pass(random(&mut self.seed, 30)),
                // The clock is set back.
                2 => {
                    let back = random(&mut self.seed, 3) * SECOND;
                    self.clock.unix_ns.fetch_sub(back, Ordering::Relaxed);
                }
                _ => {}
            }
            if random(&mut self.seed, 3) > 0 {
                stepped.flush().unwrap();
            }
            if checkpoints && random(&mut self.seed, 12) == 0 {
                while !stepped.checkpoint_step().unwrap() {
                    stepped.flush().unwrap();
                }
            }
            if random(&mut self.seed, 4) == 0 {
                stepped.archive_step();
            }
        }
        stepped.flush().unwrap();
        if random(&mut self.seed, 2) == 0 {
            stepped.close().unwrap();
        }
    }

    fn transact(&mut self, db: &Database, model: &mut Model) {
        let name = format!("t{}", random(&mut self.seed, 3));
        if !model.contains_key(&name) {
            db.table::<u64, [u8]>(&name).unwrap();
            model.insert(name.clone(), BTreeMap::new());
            self.note(db, model);
        }
        let table: Table<u64, [u8]> = db.table(&name).unwrap();
        let rows = model.get_mut(&name).unwrap();
        let tx = db.begin().unwrap();
        for _ in 0..1 + random(&mut self.seed, 3) {
            let key = random(&mut self.seed, 12);
            if random(&mut self.seed, 4) == 0 {
                tx.delete(table, key).unwrap();
                rows.remove(&key);
            } else {
                let value = vec![self.seed as u8; 1 + random(&mut self.seed, 90) as usize];
                tx.put(table, key, &value).unwrap();
                rows.insert(key, value);
            }
        }
        tx.commit().unwrap();
        self.note(db, model);
    }

    fn note(&mut self, db: &Database, model: &Model) {
        let (lsn, unix_ns) = (db.log_position().unwrap(), self.clock.unix_ns());
        self.states.push(State { lsn, unix_ns, model: model.clone() });
    }

    /// The last state at or before a position.
    fn at(&self, lsn: Lsn) -> &State {
        self.states.iter().rfind(|state| state.lsn <= lsn).unwrap()
    }

    fn past(&self, from: &Arc<dyn Storage>, logs: &[Arc<dyn Storage>], until: Until) -> Past {
        Past { from: from.clone(), logs: logs.to_vec(), until }
    }
}

fn restore(past: &Past, planted: PlantedDurability) -> (Result<Restoration, Error>, Arc<dyn Storage>) {
    let to = memory();
    let clock = Arc::new(Hand::default());
    let done = restore_with_planted(past, to.clone(), &options(), clock, planted, &mut |_| {});
    (done, to)
}

fn contents(storage: &Arc<dyn Storage>) -> Model {
    let clock = Arc::new(SystemClock::default());
    let db: Database = Database::open_with(storage.clone(), options(), clock, &mut |_| {}).unwrap();
    let tx = db.begin().unwrap();
    let rows = |name: &String| {
        let (mut rows, mut found) = (db.raw_table(name).unwrap().scan(&tx), BTreeMap::new());
        while let Some((key, value)) = rows.next().unwrap() {
            found.insert(u64::from_be_bytes(key[..].try_into().unwrap()), value.to_vec());
        }
        found
    };
    let tables: Vec<String> = db.tables().into_iter().map(|table| table.name).collect();
    tables.iter().map(|name| (name.clone(), rows(name))).collect()
}

/// Restores to this position. The error says what is wrong with the result.
fn check(life: &Life, past: &Past, lsn: Lsn, planted: PlantedDurability) -> Result<Point, String> {
    let (done, to) = restore(past, planted);
    let done = done.map_err(|error| format!("{lsn}: {error}"))?;
    if contents(&to) != life.at(lsn).model {
        return Err(format!("{lsn}: another state"));
    }
    Ok(done.reached)
}

/// Proves that every commit, and every position one byte before and behind it, is restored to the right state: from
/// the log alone, over checkpoints, and over crashes and closes.
#[test]
fn every_commit_is_restored() {
    for seed in 0..2 {
        let mut life = Life::new(seed, None);
        (0..3).for_each(|_| life.live(12, false));
        let last = life.states.last().unwrap().lsn;
        for state in &life.states {
            for lsn in [state.lsn.0.saturating_sub(1), state.lsn.0, state.lsn.0 + 1].map(Lsn) {
                let past = life.past(&life.storage, &[], Until::Lsn(lsn));
                if lsn > last {
                    continue; // a mark may follow
                }
                let reached = check(&life, &past, lsn, PlantedDurability::None).unwrap();
                assert!(reached.lsn <= lsn && reached.lsn >= life.at(lsn).lsn, "{reached:?}");
            }
        }
        let past = life.past(&life.storage, &[], Until::End);
        check(&life, &past, last, PlantedDurability::None).unwrap();
    }
}

/// Proves that one record too many, or too few, is noticed.
#[test]
fn a_wrong_end_is_caught() {
    for planted in [PlantedDurability::PointOneLate, PlantedDurability::PointOneEarly] {
        let mut life = Life::new(1, None);
        life.live(12, false);
        let wrong = |state: &State| {
            let lsn = match planted {
                PlantedDurability::PointOneLate => Lsn(state.lsn.0.saturating_sub(1)),
                _ => state.lsn,
            };
            let past = life.past(&life.storage, &[], Until::Lsn(lsn));
            check(&life, &past, lsn, planted).is_err()
        };
        assert!(life.states.iter().any(wrong), "{planted:?}");
    }
}

/// Checkpoints have given up the beginning of the log. Proves that every position behind the end of the oldest
/// checkpoint is restored, and that any other position is an error that says so. A backup with an archive reaches all
/// positions behind the backup.
#[test]
fn what_is_kept_is_restored() {
    for seed in 0..2 {
        let archived = memory();
        let archive = Arc::new(DirectoryArchive::new(Shared(archived.clone())));
        let mut life = Life::new(seed, Some(archive));
        life.live(6, false);
        let backup = memory();
        braiddb::tools::backup(&*life.storage, &*backup).unwrap();
        (0..3).for_each(|_| life.live(25, true));
        let (mut restored, mut refused) = (0, 0);
        for state in &life.states {
            let alone = life.past(&life.storage, &[], Until::Lsn(state.lsn));
            match restore(&alone, PlantedDurability::None) {
                (Ok(_), to) => {
                    assert!(contents(&to) == state.model, "{}", state.lsn);
                    restored += 1;
                }
                (Err(Error::OutOfReach { first, last, .. }), to) => {
                    assert!(
                        restored == 0 && state.lsn < first.lsn && first.lsn <= last.lsn,
                        "{first} {last}"
                    );
                    assert!(matches!(
                        braiddb::tools::verify(&*to, &mut |_| {}),
                        Err(Error::Unfinished | Error::NoDatabase)
                    ));
                    refused += 1;
                }
                (Err(error), _) => panic!("{}: {error}", state.lsn),
            }
            // Everything that was given up is in the archive. The rest is where it was.
            let logs = [archived.clone(), life.storage.clone()];
            let with_archive = life.past(&backup, &logs, Until::Lsn(state.lsn));
            check(&life, &with_archive, state.lsn, PlantedDurability::None).unwrap();
        }
        assert!(restored > 0 && refused > 0, "seed {seed}: {restored} {refused}");
    }
}

/// Proves that a time is restored to a state of that time or before, no more than a mark's interval before, and that
/// times before the first mark and behind the last are refused.
#[test]
fn times_are_restored() {
    for seed in 0..2 {
        let mut life = Life::new(seed, None);
        (0..3).for_each(|_| life.live(15, false));
        let end = life.clock.unix_ns() + 100 * SECOND;
        let (mut hits, mut reached_before) = (0, Lsn(0));
        for unix_ns in (990 * SECOND..=end).step_by((3 * SECOND / 2) as usize) {
            let past = life.past(&life.storage, &[], Until::Time { unix_ns });
            let (done, to) = restore(&past, PlantedDurability::None);
            match done {
                Ok(done) => {
                    hits += 1;
                    assert!(done.reached.lsn >= reached_before, "time goes on");
                    reached_before = done.reached.lsn;
                    assert!(contents(&to) == life.at(done.reached.lsn).model, "{unix_ns}");
                }
                Err(Error::OutOfReach { asked, first, last }) => {
                    assert_eq!(asked, Until::Time { unix_ns });
                    let is_outside = first.unix_ns.unwrap() > unix_ns || last.unix_ns.unwrap() < unix_ns;
                    assert!(is_outside, "{unix_ns}: {first} {last}");
                }
                Err(error) => panic!("{unix_ns}: {error}"),
            }
        }
        assert!(hits > 0, "seed {seed}");
    }
}

/// Proves, with a clock that only moves forward, that a restored time has exactly the transactions of that time and
/// before, if each is followed by its mark.
#[test]
fn marked_transactions_are_told_by_their_time() {
    let life_of = |is_closed: bool| {
        let mut life = Life::new(9, None);
        let clock = life.clock.clone();
        let opened =
            Database::open_stepped(life.storage.clone(), options(), clock.clone(), PlantedDurability::None);
        let (db, mut stepped): (Database, Stepped<Serializable>) = opened.unwrap();
        let mut model = Model::new();
        for _ in 0..20 {
            life.transact(&db, &mut model);
            clock.pass(1);
            stepped.flush().unwrap();
            // Nothing follows the mark, so there is no other mark.
            let position = db.log_position();
            clock.pass(5);
            stepped.flush().unwrap();
            assert_eq!(db.log_position(), position);
        }
        if is_closed {
            stepped.close().unwrap();
        }
        life
    };
    for life in [life_of(true), life_of(false)] {
        let last = life.states.last().unwrap().unix_ns + SECOND;
        for state in life.states.iter().skip(1) {
            for unix_ns in [state.unix_ns + SECOND, state.unix_ns + 5 * SECOND] {
                if unix_ns > last {
                    continue;
                }
                let past = life.past(&life.storage, &[], Until::Time { unix_ns });
                let (done, to) = restore(&past, PlantedDurability::None);
                assert_eq!(done.unwrap().reached.unix_ns, Some(state.unix_ns + SECOND));
                let expected = life.states.iter().rfind(|other| other.unix_ns == state.unix_ns).unwrap();
                assert!(contents(&to) == expected.model);
            }
        }
    }
}

/// Proves that the two databases are separate: another identity, positions that continue, and no file of one that the
/// other takes for its own.
#[test]
fn a_restored_database_is_another() {
    let mut life = Life::new(3, None);
    life.live(20, false);
    let until = life.states[10].lsn;
    let past = life.past(&life.storage, &[], Until::Lsn(until));
    let (done, to) = restore(&past, PlantedDurability::None);
    let done = done.unwrap();
    assert_eq!(done.reached.lsn, until);
    let id = |storage: &Arc<dyn Storage>| {
        let found = braiddb::tools::verify(&**storage, &mut |_| {}).unwrap();
        assert!(found.is_good() && found.was_closed, "{found:?}");
        found.database.unwrap()
    };
    life.live(1, false);
    assert_ne!(id(&to), braiddb::tools::verify(&*life.storage, &mut |_| {}).unwrap().database.unwrap());
    let copy = |from: &Arc<dyn Storage>, name: &str, to: &Arc<dyn Storage>, as_name: &str| {
        let file = from.open(name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        to.open(as_name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
    };
    // Its log begins at the point, and the other's log does not continue it.
    copy(&life.storage, "log-00000000000000000001", &to, "log-00000000000000000002");
    let clock = Arc::new(SystemClock::default());
    let opened: Result<Database, Error> = Database::open_with(to.clone(), options(), clock, &mut |_| {});
    match opened {
        Ok(db) => drop(db),
        Err(error) => assert!(error.to_string().contains("log-"), "{error}"),
    }
    // Without its checkpoint, it is not taken for an empty database.
    let (_, to) = restore(&past, PlantedDurability::None);
    to.remove("checkpoint-00000000000000000001").unwrap();
    let clock = Arc::new(SystemClock::default());
    let opened: Result<Database, Error> = Database::open_with(to, options(), clock, &mut |_| {});
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("checkpoint-00000000000000000001"), "{error}");
}

/// A directory shared with a test.
#[derive(Clone, Debug)]
struct Shared(Arc<dyn Storage>);

impl Storage for Shared {
    fn open(&self, name: &str, mode: OpenMode) -> braiddb::storage::Result<Box<dyn File>> {
        self.0.open(name, mode)
    }
    fn list(&self) -> braiddb::storage::Result<Vec<String>> {
        self.0.list()
    }
    fn remove(&self, name: &str) -> braiddb::storage::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> braiddb::storage::Result<()> {
        self.0.rename(from, to)
    }
    fn sync_directory(&self) -> braiddb::storage::Result<()> {
        self.0.sync_directory()
    }
    fn lock(
        &self,
        holder: &braiddb::storage::Holder,
    ) -> braiddb::storage::Result<braiddb::storage::LockGuard> {
        self.0.lock(holder)
    }
    fn space(&self) -> braiddb::storage::Result<Option<braiddb::storage::Space>> {
        self.0.space()
    }
}

/// An archive that can be made to fail.
#[derive(Debug)]
struct Fickle {
    within: DirectoryArchive<Shared>,
    fails: AtomicBool,
}

impl Archive for Fickle {
    fn keep(&self, file: &dyn File, name: &str) -> Result<(), ArchiveError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err("the archive is away".into());
        }
        self.within.keep(file, name)
    }
}

/// Proves that the log is kept while the archive fails, that statistics report the failure, and that everything is
/// archived and given up when the archive works again.
#[test]
fn an_archive_that_fails_keeps_the_log() {
    let archived = memory();
    let within = DirectoryArchive::new(Shared(archived.clone()));
    let fickle = Arc::new(Fickle { within, fails: AtomicBool::new(true) });
    let storage = memory();
    let options = Options { archive: Some(fickle.clone()), ..options() };
    let clock = Arc::new(Hand::default());
    let opened = Database::open_stepped(storage.clone(), options, clock, PlantedDurability::None);
    let (db, mut stepped): (Database, Stepped<Serializable>) = opened.unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let segments = |storage: &Arc<dyn Storage>| {
        storage.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).count()
    };
    let fill = |stepped: &mut Stepped<Serializable>| {
        for key in 0..60 {
            let tx = db.begin().unwrap();
            tx.put(table, key, &[7; 500]).unwrap();
            tx.commit().unwrap();
            stepped.flush().unwrap();
        }
        for _ in 0..2 {
            while !stepped.checkpoint_step().unwrap() {
                stepped.flush().unwrap();
            }
        }
        stepped.archive_step();
        stepped.flush().unwrap();
    };
    fill(&mut stepped);
    fill(&mut stepped);
    let statistics = db.statistics().archive;
    assert!(segments(&storage) > 14 && segments(&archived) == 0, "{}", segments(&storage));
    assert_eq!((statistics.segments, statistics.failures), (0, 2));
    assert_eq!(statistics.last_error.as_deref(), Some("the archive is away"));
    assert_eq!(statistics.waiting_bytes, db.log_position().unwrap().0);
    fickle.fails.store(false, Ordering::Relaxed);
    fill(&mut stepped);
    let statistics = db.statistics().archive;
    assert!(segments(&storage) < 6 && segments(&archived) > 20, "{}", segments(&storage));
    assert_eq!((statistics.segments, statistics.last_error), (segments(&archived) as u64, None));
    assert!(statistics.waiting_bytes < 4096, "{}", statistics.waiting_bytes);
    // Files that another database has put there are not overwritten.
    let other = memory();
    let file = other.open("log-00000000000000000001", OpenMode::CreateNew).unwrap();
    file.write_all_at(0, b"another").unwrap();
    let error = fickle.keep(&*file, "log-00000000000000000001").unwrap_err();
    assert!(error.to_string().contains("has another \"log-00000000000000000001\""), "{error}");
}
