//! The databases whose files are kept: how they are made, and what they contain. The example `golden` makes them. The
//! test of that name opens the databases that the first release of a version of the format has made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the example makes what the test only looks at")]

use braiddb::checkpoint::{
    self, CatalogEntry, Identity, Manifest, RowsOf, RowsRange, RowsWriter, TableEntry,
};
use braiddb::metrics::Clock;
use braiddb::recovery::Past;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::testing::{PlantedDurability, Stepped};
use braiddb::wal::{DatabaseId, Lsn, Until};
use braiddb::{Database, Durability, Options, Plain, Serializable, Table, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names of the databases.
pub const NAMES: [&str; 6] = ["closed", "crashed", "checkpointed", "ranges", "unlogged", "restored"];

/// Rows of the table of counters, before and after its updates and deletions.
pub const COUNTERS: u64 = 40;

/// A clock that always gives the same times: one second from each reading to the next, beginning on a day of 2020.
#[derive(Debug, Default)]
pub struct Steady(AtomicU64);

impl Clock for Steady {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, Ordering::Relaxed)
    }

    fn unix_ns(&self) -> u64 {
        1_600_000_000_000_000_000 + self.0.load(Ordering::Relaxed)
    }
}

pub fn options() -> Options {
    // By this clock, any wait would soon be too long.
    Options { workers: 0, log_segment_bytes: 8192, log_wait_ms: 0, ..Options::default() }
}

pub fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 28))
}

fn open(storage: &Arc<dyn Storage>, durability: Durability) -> (Database, Stepped<Serializable>) {
    // Nothing waits for what is flushed here.
    let options = Options { durability, ..options() };
    let clock = Arc::new(Steady::default());
    Database::open_stepped(storage.clone(), options, clock, PlantedDurability::None).unwrap()
}

/// Puts a row, or checks that it is there.
macro_rules! row {
    ($puts:expr, $db:expr, $tx:expr, $name:literal, $key_type:ty, $value_type:ty, $key:expr, $value:expr) => {{
        let table: Table<$key_type, $value_type> = $db.table($name).unwrap();
        if $puts {
            $tx.put(table, $key, $value).unwrap();
        } else {
            assert_eq!($tx.get(table, $key).unwrap(), Some($value), $name);
        }
    }};
}

/// Puts a row of each type of keys and of values, or checks that they are there.
pub fn every_type(db: &Database, tx: &Transaction, puts: bool) {
    row!(puts, db, tx, "u8 by u8", u8, u8, 200, 7);
    row!(puts, db, tx, "u16 by u16", u16, u16, 1, 65_535);
    row!(puts, db, tx, "u32 by u32", u32, u32, u32::MAX, 1 << 20);
    row!(puts, db, tx, "u64 by u64", u64, u64, u64::MAX, u64::MAX - 1);
    row!(puts, db, tx, "i8 by i8", i8, i8, -128, -1);
    row!(puts, db, tx, "i16 by i16", i16, i16, -2, i16::MIN);
    row!(puts, db, tx, "i32 by i32", i32, i32, i32::MIN, 5);
    row!(puts, db, tx, "i64 by i64", i64, i64, -1, i64::MIN);
    row!(puts, db, tx, "u128 by string", String, u128, "one", u128::MAX);
    row!(puts, db, tx, "i128 by bytes", Vec<u8>, i128, [0u8, 255], i128::MIN);
    row!(puts, db, tx, "f32 by array", [u8; 3], f32, [1u8, 2, 3], 0.5);
    row!(puts, db, tx, "f64 by eight", [u8; 8], f64, [9u8; 8], -1e300);
    row!(puts, db, tx, "string by pair", (u32, String), str, (7u32, "a\0b".to_string()), "ä line\n");
    let nested = (-1i16, (vec![0u8, 1], 3u64), "end".to_string());
    row!(puts, db, tx, "bytes by nested", (i16, (Vec<u8>, u64), String), [u8], nested, &[3u8; 5000][..]);
    row!(puts, db, tx, "nothing by string", String, (), "", ());
    row!(puts, db, tx, "plain by u64", u64, Plain<[u32; 2]>, 1, &[1, u32::MAX]);
    let empty: Table<u64, [u8]> = db.table("empty").unwrap();
    assert_eq!(tx.get(empty, 1).unwrap(), None);
}

/// The rows of the table of counters after this number of its transactions.
pub fn counters(transactions: u64) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for i in 0..transactions {
        let key = i % COUNTERS;
        if i % 7 == 6 {
            rows.remove(&key)
        } else {
            rows.insert(key, i)
        };
    }
    rows
}

/// Runs the transactions with these numbers on the table of counters.
fn count(db: &Database, stepped: &mut Stepped<Serializable>, transactions: std::ops::Range<u64>) {
    let table: Table<u64, u64> = db.table("counters").unwrap();
    for i in transactions {
        let (tx, key) = (db.begin().unwrap(), i % COUNTERS);
        if i % 7 == 6 {
            let _ = tx.delete(table, key).unwrap();
        } else {
            tx.put(table, key, i).unwrap()
        }
        tx.commit().unwrap();
        stepped.flush().unwrap();
    }
}

fn put_every_type(db: &Database, stepped: &mut Stepped<Serializable>) {
    let tx = db.begin().unwrap();
    every_type(db, &tx, true);
    tx.commit().unwrap();
    stepped.flush().unwrap();
}

fn checkpoint(stepped: &mut Stepped<Serializable>) {
    while !stepped.checkpoint_step().unwrap() {
        stepped.flush().unwrap();
    }
    stepped.flush().unwrap();
}

/// The number of transactions of the table of counters in the database of this name.
pub fn transactions(name: &str) -> u64 {
    match name {
        "closed" | "crashed" | "unlogged" => 60,
        "checkpointed" => 90,
        "restored" => 30,
        "ranges" => 0,
        name => panic!("there is no {name}"),
    }
}

/// Makes the files of the database of this name.
pub fn make(name: &str) -> Arc<dyn Storage> {
    let storage = memory();
    match name {
        "closed" => drop(closed(&storage)),
        "crashed" => crashed(&storage),
        "checkpointed" => {
            let (db, mut stepped) = open(&storage, Durability::Async);
            put_every_type(&db, &mut stepped);
            count(&db, &mut stepped, 0..30);
            checkpoint(&mut stepped);
            count(&db, &mut stepped, 30..60);
            checkpoint(&mut stepped);
            count(&db, &mut stepped, 60..90);
            stepped.close().unwrap();
        }
        "ranges" => ranges(&storage),
        "unlogged" => {
            let (db, mut stepped) = open(&storage, Durability::None);
            put_every_type(&db, &mut stepped);
            count(&db, &mut stepped, 0..60);
            checkpoint(&mut stepped);
            stepped.close().unwrap();
        }
        "restored" => {
            let from = memory();
            let lsn = closed(&from);
            let past = Past { from, logs: Vec::new(), until: Until::Lsn(lsn) };
            let clock = Arc::new(Steady::default());
            braiddb::recovery::restore(&past, storage.clone(), &options(), clock, &mut |_| {}).unwrap();
        }
        name => panic!("there is no {name}"),
    }
    storage
}

/// Makes a log over several segments. Returns the position behind its first 30 transactions of counters.
fn closed(storage: &Arc<dyn Storage>) -> Lsn {
    let (db, mut stepped) = open(storage, Durability::Async);
    put_every_type(&db, &mut stepped);
    count(&db, &mut stepped, 0..30);
    let lsn = db.log_position().unwrap();
    count(&db, &mut stepped, 30..60);
    stepped.close().unwrap();
    lsn
}

/// Makes a log whose last run, of two records, has lost the first of them.
fn crashed(storage: &Arc<dyn Storage>) {
    let (db, mut stepped) = open(storage, Durability::Async);
    put_every_type(&db, &mut stepped);
    count(&db, &mut stepped, 0..60);
    let table: Table<u64, [u8]> = db.table("empty").unwrap();
    for key in 0..2 {
        let tx = db.begin().unwrap();
        tx.put(table, key, &[0x5a; 300]).unwrap();
        tx.commit().unwrap();
    }
    stepped.flush().unwrap();
    drop((db, stepped));
    let segments = storage.list().unwrap().into_iter().filter(|name| name.starts_with("log-"));
    let torn = segments.rev().any(|name| {
        let file = storage.open(&name, OpenMode::ReadWrite).unwrap();
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        let Some(at) = bytes.windows(300).position(|window| window == [0x5a; 300]) else { return false };
        file.write_all_at(at as u64 + 100, &[0; 100]).unwrap();
        true
    });
    assert!(torn, "the run is in a segment");
}

/// The contents of the table of several ranges.
pub fn ranged() -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..300).map(|key| (key * 3, vec![key as u8; (key * 7 % 50) as usize]))
}

/// Makes a checkpoint in which a table has several files, of two checkpoints, and no log.
fn ranges(storage: &Arc<dyn Storage>) {
    let database = DatabaseId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    Identity::create(&**storage, database).unwrap();
    storage.open("unlogged", OpenMode::CreateNew).unwrap();
    let mut ranges = Vec::new();
    let rows: Vec<(u64, Vec<u8>)> = ranged().collect();
    for (at, part) in rows.chunks(100).enumerate() {
        let of = RowsOf { checkpoint: 1 + at as u64 / 2, table: 0, part: at as u32 };
        let mut writer = RowsWriter::create(&**storage, database, of, true).unwrap();
        for (key, value) in part {
            writer.push(&key.to_be_bytes(), value).unwrap();
        }
        let from = if at == 0 { Vec::new() } else { part[0].0.to_be_bytes().to_vec() };
        ranges.push(RowsRange { from, file: writer.finish().unwrap() });
    }
    let text = |text: &str| text.to_string();
    let (name, key_type, value_type) = (text("ranged"), text("u64"), text("bytes"));
    let table = CatalogEntry { fixed8: true, name, key_type, value_type, ..CatalogEntry::default() };
    let tables = vec![TableEntry { table, ranges }];
    let manifest = Manifest { number: 2, start_lsn: Lsn(0), end_lsn: Lsn(0), timestamp: 1000, tables };
    checkpoint::publish(&**storage, database, &manifest).unwrap();
}
