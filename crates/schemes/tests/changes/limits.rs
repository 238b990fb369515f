//! How long the log is kept for readers.

use crate::{Replica, memory, open, open_as, options, put};
use braiddb::changes::Changes;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{AnyScheme, Database, Durability, Error, Options, Table};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn segments(storage: &Arc<dyn Storage>) -> usize {
    storage.list().unwrap().iter().filter(|name| name.starts_with("log-")).count()
}

/// Writes much, and makes the log of it unneeded by checkpoints.
fn write_much(db: &Database<AnyScheme>, table: Table<u64, u64>, rounds: u64) {
    for round in 0..rounds {
        for chunk in 0..10 {
            db.transact(|tx| (0..100).try_for_each(|key| tx.put(table, chunk * 100 + key, round))).unwrap();
        }
        db.checkpoint().unwrap();
    }
}

/// Waits until at most this many segments are left.
fn await_segments(storage: &Arc<dyn Storage>, most: usize) {
    let begin = Instant::now();
    while segments(storage) > most {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} segments are left", segments(storage));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Proves that what a reader has not read is kept, whatever checkpoints are made, and is deleted when the reader has
/// moved on or was dropped.
#[test]
fn readers_hold_the_log() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    write_much(&db, table, 3);
    await_segments(&storage, 8);
    let start = db.change_position().unwrap();
    let mut slow = db.changes(start).unwrap();
    let other = db.changes(start).unwrap();
    write_much(&db, table, 12);
    let held = segments(&storage);
    assert!(held > 14, "{held} segments are there");
    assert!(db.statistics().log.held_bytes > 100_000, "{:?}", db.statistics().log);
    assert_eq!(db.oldest_change_position().unwrap(), start);
    // The reader gets all of it. Then the log is released, except what the other reader needs.
    let mut transactions = 0;
    while slow.try_next().unwrap().is_some() {
        transactions += 1;
    }
    assert_eq!(transactions, 120);
    assert!(segments(&storage) >= held - 2);
    drop(other);
    await_segments(&storage, 8);
    assert_eq!(db.statistics().log.held_bytes, 0);
    // A reader that is dropped releases what it held.
    let dropped = db.changes(slow.position()).unwrap();
    write_much(&db, table, 12);
    while slow.try_next().unwrap().is_some() {}
    assert!(segments(&storage) > 14);
    drop(dropped);
    await_segments(&storage, 8);
}

fn is_cut(changes: &mut Changes) -> bool {
    loop {
        match changes.try_next() {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(error @ Error::ChangesRemoved { asked, oldest }) => {
                assert!(asked < oldest, "{error}");
                return true;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Proves that a reader that holds too much is cut off and gets the same error again and again, and that other readers
/// are not cut off.
#[test]
fn slow_readers_are_cut_off() {
    let storage = memory();
    let bounded = Options { log_held_bytes: 1 << 16, ..options() };
    let db: Database<AnyScheme> = open_as(&storage, bounded).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    write_much(&db, table, 2);
    let start = db.change_position().unwrap();
    let (mut slow, mut fast) = (db.changes(start).unwrap(), db.changes(start).unwrap());
    for _ in 0..20 {
        write_much(&db, table, 1);
        assert!(!is_cut(&mut fast));
        let begin = Instant::now();
        while db.statistics().log.held_bytes > 1 << 16 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", db.statistics().log);
            thread::sleep(Duration::from_millis(1));
        }
    }
    await_segments(&storage, 16);
    assert!(is_cut(&mut slow));
    assert!(is_cut(&mut slow));
    assert!(matches!(db.changes(slow.position()), Err(Error::ChangesRemoved { .. })));
    drop(slow);
    assert!(!is_cut(&mut fast));
    put(&db, table, 1, 1);
    assert!(fast.wait_next().unwrap().is_some());
}

/// Proves that commits have precedence over readers: on a full device, what readers hold is given up before any commit
/// is refused.
#[test]
fn a_full_device_is_not_kept_full_by_readers() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 19));
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    put(&db, table, 0, 0);
    let mut slow = db.changes(db.change_position().unwrap()).unwrap();
    write_much(&db, table, 40); // three times the device's room
    assert!(is_cut(&mut slow));
}

/// Proves that several readers on several threads get the same changes while they are written.
#[test]
fn several_readers() {
    let storage = memory();
    let db = open_as(&storage, Options { durability: Durability::Async, ..options() }).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut replica = Replica::from_oldest(&db);
                let mut changes = db.changes(replica.position).unwrap();
                scope.spawn(move || {
                    let mut count = 0;
                    while count < 301 {
                        let transaction = changes.wait_next().unwrap().unwrap();
                        replica.apply(&transaction);
                        count += 1;
                    }
                    replica
                })
            })
            .collect();
        for key in 0..300 {
            put(&db, table, key % 50, key);
            if key % 100 == 99 {
                db.checkpoint().unwrap();
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap().check(&db));
    });
}

/// Proves that a reader's memory is in the account, and that a reader reports missing memory and continues when there
/// is some.
#[test]
fn memory_is_accounted_for() {
    let storage = memory();
    let segment = Options { log_segment_bytes: 1 << 20, ..options() };
    let db: Database<AnyScheme> = open_as(&storage, segment.clone()).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let start = db.change_position().unwrap();
    db.transact(|tx| tx.put(table, 1, &vec![7; 50_000])).unwrap();
    let before = db.statistics().memory.other_bytes;
    let mut changes = db.changes(start).unwrap();
    changes.wait_next().unwrap().unwrap();
    let with = db.statistics().memory.other_bytes;
    assert!(with >= before + (256 << 10), "{before} {with}");
    // Longer records take more memory while they are held.
    db.transact(|tx| (0..10).try_for_each(|key| tx.put(table, key, &vec![7; 60_000]))).unwrap();
    changes.wait_next().unwrap().unwrap();
    assert!(db.statistics().memory.other_bytes >= before + 600_000);
    db.transact(|tx| tx.put(table, 1, b"short")).unwrap();
    changes.wait_next().unwrap().unwrap();
    put_and_read(&db, table, &mut changes);
    assert!(db.statistics().memory.other_bytes < before + 600_000);
    drop(changes);
    assert_eq!(db.statistics().memory.other_bytes, before);
    drop(db);

    let used = 24 << 20;
    let db: Database<AnyScheme> = open_as(&storage, Options { memory_limit_bytes: used, ..segment }).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let mut changes = db.changes(start).unwrap();
    let mut filled = 0;
    while db.transact(|tx| tx.put(table, 1000 + filled, &vec![1; 60_000])).is_ok() {
        filled += 1;
    }
    let refused = changes.try_next();
    assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    for key in 0..filled {
        db.transact(|tx| tx.delete(table, 1000 + key)).unwrap();
    }
    while db.maintain() {}
    let begin = Instant::now();
    while changes.try_next().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        db.transact(|tx| tx.put(table, 1, b"x")).unwrap();
        db.maintain();
    }
}

fn put_and_read(db: &Database<AnyScheme>, table: Table<u64, [u8]>, changes: &mut Changes) {
    for _ in 0..3 {
        db.transact(|tx| tx.put(table, 1, b"short")).unwrap();
        changes.wait_next().unwrap().unwrap();
    }
}
