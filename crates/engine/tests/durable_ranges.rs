//! Checkpoints by ranges of keys: changed ranges are written, the rest keep their files, and nothing is lost. The
//! crate crates/sim simulates crashes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::checkpoint::{self, Block, Identity, Manifest, RowsReader};
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::{Database, Options, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

const RANGE_BYTES: u64 = 16 << 10;
const VALUE_BYTES: usize = 100;

fn open(storage: &Arc<dyn Storage>) -> Database {
    let options = Options {
        workers: 1,
        pin_workers: false,
        log_segment_bytes: 1 << 22,
        checkpoint_range_bytes: RANGE_BYTES,
        checkpoint_bytes_per_s: u64::MAX,
        ..Options::default()
    };
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {}).unwrap()
}

fn put_all(db: &Database, table: Table<u64, [u8]>, keys: impl Iterator<Item = u64>, value: u8) {
    let keys: Vec<u64> = keys.collect();
    db.run(async move |tx| {
        for key in &keys {
            tx.put(table, *key, &[value; VALUE_BYTES]).await?;
        }
        Ok(())
    })
    .wait()
    .unwrap();
}

/// The number of files of rows that a checkpoint has written, and their total bytes.
fn written(storage: &Arc<dyn Storage>, number: u64) -> (usize, u64) {
    let own = format!("rows-{number:020}-");
    let names: Vec<String> =
        storage.list().unwrap().into_iter().filter(|name| name.starts_with(&own)).collect();
    let bytes = |name: &String| storage.open(name, OpenMode::Read).unwrap().len_bytes().unwrap();
    (names.len(), names.iter().map(bytes).sum())
}

fn newest(storage: &Arc<dyn Storage>) -> Manifest {
    let database = Identity::read(&**storage).unwrap().unwrap().database;
    let number = *checkpoint::list(&**storage).unwrap().last().unwrap();
    checkpoint::read(&**storage, database, number).unwrap()
}

/// Proves that a checkpoint writes exactly the ranges that were changed since the previous one began: by transactions,
/// also while that checkpoint was written, and by the log that recovery has replayed.
#[test]
fn what_is_written_follows_what_was_changed() {
    const ROWS: u64 = 10_000;
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let db = open(&storage);
    let (table, idle): (Table<u64, [u8]>, Table<u64, [u8]>) =
        (db.table("busy").unwrap(), db.table("idle").unwrap());
    put_all(&db, table, 0..ROWS, 1);
    put_all(&db, idle, 0..ROWS / 10, 1);
    db.checkpoint().unwrap();
    let (files, bytes) = written(&storage, 1);
    assert!(files >= 60 && bytes > 1_100_000, "{files} files, {bytes} bytes");
    // The first time it is not known yet which ranges there will be. Then it is.
    put_all(&db, table, [5_000].into_iter(), 2);
    db.checkpoint().unwrap();
    let (files, bytes) = written(&storage, 2);
    assert!(files == 1 && bytes <= 2 * RANGE_BYTES, "{files} files, {bytes} bytes");
    put_all(&db, table, ROWS / 2..ROWS / 2 + ROWS / 100, 3);
    db.checkpoint().unwrap();
    let (files, bytes) = written(&storage, 3);
    assert!(files <= 2 && bytes <= 3 * RANGE_BYTES, "{files} files, {bytes} bytes");
    db.checkpoint().unwrap();
    assert_eq!(written(&storage, 4), (0, 0), "nothing has been changed");
    put_all(&db, table, [1, ROWS - 1].into_iter(), 4);
    drop(db);
    let db = open(&storage);
    assert_eq!(db.recovery().unwrap().transactions, 1);
    db.checkpoint().unwrap();
    let (files, bytes) = written(&storage, 5);
    assert!(files == 2 && bytes <= 4 * RANGE_BYTES, "{files} files, {bytes} bytes");
    drop(db);
    let db = open(&storage);
    let recovery = db.recovery().unwrap();
    assert_eq!((recovery.checkpoint, recovery.rows, recovery.transactions), (Some(5), ROWS + ROWS / 10, 0));
    let table: Table<u64, [u8]> = db.table("busy").unwrap();
    let tx = db.begin().unwrap();
    for (key, value) in [(0, 1), (1, 4), (4_999, 1), (5_000, 3), (5_099, 3), (5_100, 1), (ROWS - 1, 4)] {
        assert_eq!(tx.get(table, key).unwrap(), Some(&[value; VALUE_BYTES][..]), "{key}");
    }
}

/// Checks that every row of the newest checkpoint is in the range of its file, and that files are neither much too
/// short nor too long.
fn check_ranges(storage: &Arc<dyn Storage>, place: &str) -> usize {
    let database = Identity::read(&**storage).unwrap().unwrap().database;
    let manifest = newest(storage);
    let mut block = Block::new();
    for entry in &manifest.tables {
        for (at, range) in entry.ranges.iter().enumerate() {
            let next = entry.ranges.get(at + 1);
            let reader = RowsReader::open(&**storage, database, &range.file, entry.table.fixed8).unwrap();
            for number in 0..reader.blocks() {
                reader.read_block(number, &mut block).unwrap();
                for (key, _) in block.rows() {
                    let is_inside = *key >= *range.from && next.is_none_or(|next| *key < *next.from);
                    assert!(is_inside, "{place}: a row of {} is outside of its range", range.file.file());
                }
            }
            assert!(range.file.rows > 0 && range.file.bytes < 3 * RANGE_BYTES, "{place}: {:?}", range.file);
        }
        // If two neighboring files are short, one of them has not been looked at since.
        let bytes: u64 = entry.files().map(|file| file.bytes).sum();
        let files_max = 4 + 8 * bytes / RANGE_BYTES;
        assert!(
            entry.ranges.len() as u64 <= files_max,
            "{place}: {} files, {bytes} bytes",
            entry.ranges.len()
        );
    }
    manifest.tables.iter().map(|entry| entry.ranges.len()).sum()
}

/// Checks that both tables have exactly these rows.
fn check_contents(
    db: &Database,
    numbers: &BTreeMap<u64, Vec<u8>>,
    words: &BTreeMap<String, Vec<u8>>,
    round: u64,
) {
    let tx = db.begin().unwrap();
    let (mut rows, mut count) = (tx.scan::<u64, [u8], u64>(db.table("numbers").unwrap(), ..), 0);
    while let Some((key, value)) = rows.next().unwrap() {
        assert_eq!(numbers.get(&key).map(Vec::as_slice), Some(value), "round {round}, number {key}");
        count += 1;
    }
    assert_eq!(count, numbers.len(), "round {round}");
    let (mut rows, mut count) = (tx.scan::<String, [u8], String>(db.table("words").unwrap(), ..), 0);
    while let Some((key, value)) = rows.next().unwrap() {
        assert_eq!(words.get(&key).map(Vec::as_slice), Some(value), "round {round}, {key}");
        count += 1;
    }
    assert_eq!(count, words.len(), "round {round}");
}

/// Proves that ranges are split when a table grows, at its end or anywhere, and merged when it shrinks. Rows stay in
/// their ranges, and what is recovered is what there was, whichever ranges were written when.
#[test]
fn ranges_grow_and_shrink_with_their_table() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let word = |key: u64| {
        format!("{}{key:07}", "a prefix that all keys have in common ".repeat(1 + (key % 2) as usize * 4))
    };
    let (mut numbers, mut words) = (BTreeMap::new(), BTreeMap::new());
    let mut most = 0;
    for round in 0..24u64 {
        let db = open(&storage);
        let (by_number, by_word): (Table<u64, [u8]>, Table<String, [u8]>) =
            (db.table("numbers").unwrap(), db.table("words").unwrap());
        check_contents(&db, &numbers, &words, round);
        for checkpoint in 0..3 {
            for _ in 0..random(300) {
                let key = match round % 8 {
                    0..3 => round * 1000 + random(1000),
                    3 => random(50) + random(3) * 10_000,
                    4..6 => random(24_000),
                    _ => {
                        numbers.keys().nth(random(numbers.len().max(1) as u64) as usize).copied().unwrap_or(0)
                    }
                };
                let (deletes, value) = (round % 8 >= 6, vec![round as u8; random(400) as usize]);
                let tx = db.begin().unwrap();
                let end = if round % 8 == 7 { key + 4_000 } else { key + 1 };
                if deletes {
                    let gone: Vec<u64> = numbers.range(key..end).map(|(key, _)| *key).collect();
                    for key in gone {
                        tx.delete(by_number, key).unwrap();
                        numbers.remove(&key);
                        tx.delete(by_word, word(key).as_str()).unwrap();
                        words.remove(&word(key));
                    }
                } else {
                    tx.put(by_number, key, &value).unwrap();
                    tx.put(by_word, word(key).as_str(), &value).unwrap();
                    words.insert(word(key), value.clone());
                    numbers.insert(key, value);
                }
                tx.commit().unwrap();
            }
            if random(4) > 0 {
                db.checkpoint().unwrap();
                most = most.max(check_ranges(&storage, &format!("round {round}.{checkpoint}")));
            }
        }
        if random(2) == 0 {
            db.close().unwrap();
        }
    }
    assert!(most > 30, "{most} ranges");
    assert!(numbers.is_empty() || check_ranges(&storage, "the end") < most, "they were merged");
}
