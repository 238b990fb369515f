//! Restorations, backups and archives on a disk that crashes. In every state that a crash can leave, the new directory
//! is refused or is the whole database, and a segment that the archive has reported as kept is kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::crash::Careless;
use braid_sim::storage::SimulatedStorage;
use braiddb::metrics::Clock;
use braiddb::recovery::Past;
use braiddb::storage::{Archive, DirectoryArchive, MemoryStorage, OpenMode, Storage};
use braiddb::testing::{PlantedDurability, Stepped};
use braiddb::wal::{Lsn, Until};
use braiddb::{Database, Durability, Error, Options, Serializable, Table};
use std::sync::Arc;

const CAPACITY: u64 = 1 << 20;

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }
    fn unix_ns(&self) -> u64 {
        0
    }
}

fn options() -> Options {
    // Asynchronous, because nothing waits for what the test itself flushes.
    Options { workers: 0, log_segment_bytes: 4096, durability: Durability::Async, ..Options::default() }
}

/// Makes a database with one row per transaction. Returns also the log position after the first half of them.
fn source(transactions: u64) -> (Arc<dyn Storage>, Lsn) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(CAPACITY));
    let opened = Database::open_stepped(storage.clone(), options(), Arc::new(Still), PlantedDurability::None);
    let (db, mut stepped): (Database, Stepped<Serializable>) = opened.unwrap();
    let (table, mut half): (Table<u64, [u8]>, _) = (db.table("t").unwrap(), Lsn(0));
    for key in 0..transactions {
        let tx = db.begin().unwrap();
        tx.put(table, key, &[key as u8; 200]).unwrap();
        tx.commit().unwrap();
        stepped.flush().unwrap();
        if key + 1 == transactions / 2 {
            half = db.log_position().unwrap();
        }
    }
    stepped.close().unwrap();
    (storage, half)
}

/// Returns true if a crash has left the database with this many rows, and false if the database is refused as missing
/// or unfinished.
fn is_whole(storage: SimulatedStorage, rows: u64) -> Result<bool, String> {
    let opened = Database::read_with(Arc::new(storage), options(), Arc::new(Still), &mut |_| {});
    let db: Database = match opened {
        Ok(db) => db,
        Err(Error::Unfinished | Error::NoDatabase) => return Ok(false),
        Err(error) => return Err(format!("it is taken for a database that is damaged: {error}")),
    };
    let table = db.table::<u64, [u8]>("t").map_err(|error| error.to_string())?;
    let (tx, mut found) = (db.begin().unwrap(), 0);
    let mut all = tx.scan::<_, _, u64>(table, ..);
    while let Some((key, value)) = all.next().unwrap() {
        if key != found || value != [key as u8; 200] {
            return Err(format!("row {key} is wrong"));
        }
        found += 1;
    }
    if found == rows { Ok(true) } else { Err(format!("{found} rows of {rows}")) }
}

/// Makes a copy on a disk, and looks at everything that crashes leave of it. Returns how many states were whole, and
/// how many were refused.
fn crashes(
    rows: u64,
    over: impl Fn(&SimulatedStorage) -> Arc<dyn Storage>,
    copy: impl Fn(Arc<dyn Storage>),
) -> Result<(u64, u64), String> {
    let storage = SimulatedStorage::new(1, CAPACITY);
    copy(over(&storage));
    let (mut whole, mut refused) = (0, 0);
    for crash in storage.crash_states(11, 12) {
        let place = format!("{}, seed {}", storage.describe(crash.boundary), crash.seed);
        match is_whole(crash.storage, rows) {
            Ok(true) => whole += 1,
            Ok(false) => refused += 1,
            Err(error) => return Err(format!("{place}: {error}")),
        }
    }
    // It was durable when the copy was done.
    assert!(is_whole(storage.crash(storage.boundary(), 1), rows).unwrap());
    Ok((whole, refused))
}

fn careful(storage: &SimulatedStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn restore_half(to: Arc<dyn Storage>) {
    let (from, half) = source(40);
    let past = Past { from, logs: Vec::new(), until: Until::Lsn(half) };
    braiddb::recovery::restore(&past, to, &options(), Arc::new(Still), &mut |_| {}).unwrap();
}

/// Proves that what a crash leaves of a restoration is refused or is whole.
#[test]
fn a_restoration_is_whole_or_none() {
    let (whole, refused) = crashes(20, careful, restore_half).unwrap();
    assert!(whole > 0 && refused > 100, "{whole} {refused}");
}

/// Proves the same for a backup.
#[test]
fn a_backup_is_whole_or_none() {
    let (from, _) = source(40);
    let copy = |to: Arc<dyn Storage>| assert_eq!(braiddb::tools::backup(&*from, &*to).unwrap().attempts, 1);
    let (whole, refused) = crashes(40, careful, copy).unwrap();
    assert!(whole > 0 && refused > 100, "{whole} {refused}");
}

/// Proves that the disk reveals it if data, or names, are not synced.
#[test]
fn careless_restorations_are_caught() {
    let of = Careless::DataUnsynced;
    for careless in [of("rows-"), of("checkpoint-"), of("database"), of("log."), Careless::NamesUnsynced] {
        let over = |storage: &SimulatedStorage| -> Arc<dyn Storage> { Arc::new(careless.over(storage)) };
        let caught = std::panic::catch_unwind(|| crashes(20, over, restore_half));
        assert!(!matches!(caught, Ok(Ok(_))), "{careless:?}");
    }
}

/// Proves that a segment is in the archive as a whole after any crash since it was reported as kept. Any other segment
/// is there as a whole, or under another name.
#[test]
fn what_is_archived_stays() {
    let (from, _) = source(40);
    let names: Vec<String> =
        from.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).collect();
    assert!(names.len() > 2);
    let storage = SimulatedStorage::new(1, CAPACITY);
    let archive = DirectoryArchive::new(storage.clone());
    let mut kept = Vec::new();
    for name in &names {
        let file = from.open(name, OpenMode::Read).unwrap();
        archive.keep(&*file, name).unwrap();
        kept.push(storage.boundary());
        // After it is offered again, it is there.
        archive.keep(&*file, name).unwrap();
    }
    let contents = |storage: &dyn Storage, name: &str| {
        let file = storage.open(name, OpenMode::Read).ok()?;
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        Some(bytes)
    };
    for crash in storage.crash_states(5, 8) {
        for (name, kept) in names.iter().zip(&kept) {
            let (original, found) = (contents(&*from, name), contents(&crash.storage, name));
            assert!(found == original || (found.is_none() && crash.boundary < *kept), "{name}");
        }
    }
}
