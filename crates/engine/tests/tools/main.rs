//! The tools for the files of a database: what verification reports, what salvage takes, and what a backup has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod closed;
mod salvage;
mod verify;

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::{Database, Error, Options, Table};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a table.
type Rows = BTreeMap<u64, Vec<u8>>;

fn options() -> Options {
    Options { workers: 2, pin_workers: false, log_segment_bytes: 1 << 16, ..Options::default() }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 30))
}

fn open(storage: &Arc<dyn Storage>) -> Result<Database, Error> {
    Database::open_with(storage.clone(), options(), Arc::new(SystemClock::default()), &mut |_| {})
}

/// A value of this many bytes that tells when it was written.
fn value(round: u8, bytes: usize) -> Vec<u8> {
    vec![round; bytes]
}

fn put_all(db: &Database, table: &str, keys: Range<u64>, value: &[u8]) {
    let (table, value): (Table<u64, [u8]>, _) = (db.table(table).unwrap(), value.to_vec());
    // One after the other, so the log has the order of the keys.
    for key in keys {
        let value = value.clone();
        db.run(async move |tx| tx.put(table, key, &value).await).wait().unwrap();
    }
}

fn rows(db: &Database, table: &str) -> Rows {
    let table: Table<u64, [u8]> = db.table(table).unwrap();
    let tx = db.begin().unwrap();
    let (mut rows, mut found) = (tx.scan::<u64, [u8], u64>(table, ..), Rows::new());
    while let Some((key, value)) = rows.next().unwrap() {
        found.insert(key, value.to_vec());
    }
    found
}

fn names(storage: &dyn Storage, prefix: &str) -> Vec<String> {
    storage.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

fn contents(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// The same files in another directory.
fn copy(storage: &dyn Storage) -> Arc<dyn Storage> {
    let to = memory();
    for name in storage.list().unwrap() {
        let file = to.open(&name, OpenMode::CreateNew).unwrap();
        file.write_all_at(0, &contents(storage, &name)).unwrap();
    }
    to
}

/// Flips the bits of a byte.
fn damage(storage: &dyn Storage, name: &str, offset: u64) {
    let file = storage.open(name, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(offset, &mut byte).unwrap();
    file.write_all_at(offset, &[!byte[0]]).unwrap();
}

/// The offset of these bytes in a segment.
fn find(storage: &dyn Storage, name: &str, bytes: &[u8]) -> Option<u64> {
    let contents = contents(storage, name);
    contents.windows(bytes.len()).position(|window| window == bytes).map(|at| at as u64)
}

/// The segment of the log, and the offset in it, at which the key's last change is written.
fn place_of(storage: &dyn Storage, key: u64) -> (String, u64) {
    let mut change = vec![8];
    change.extend_from_slice(&key.to_be_bytes());
    let segments = names(storage, "log-").into_iter().rev();
    let mut places = segments.filter_map(|name| find(storage, &name, &change).map(|at| (name, at)));
    places.next().expect("the key was written")
}
