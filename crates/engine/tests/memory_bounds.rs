//! Memory is bounded: at the limit, under endless updates, and while a snapshot is held.

use braiddb::suspend::{Never, OnMiss, Seeded, Suspend};
use braiddb::worker::{Worker, WorkerOptions};
use braiddb::{Database, Error, Options, Serializable, Table};

fn database(memory_limit_bytes: u64) -> Database {
    Database::in_memory(Options { workers: 0, memory_limit_bytes, ..Options::default() })
        .expect("memory for an empty database")
}

/// Returns the bytes that data takes. Transactions have a separate share.
fn total_bytes(db: &Database) -> u64 {
    let memory = db.statistics().memory;
    memory.total_bytes() - memory.transactions_bytes
}

/// Cleans up until nothing is left.
fn clean<S: Suspend>(worker: &mut Worker<Serializable, S>) {
    for _ in 0..100_000 {
        worker.maintain();
        if worker.garbage() == 0 {
            return;
        }
    }
    panic!("{} changes are never cleaned up", worker.garbage());
}

/// Inserts rows from `first` on until memory runs out. Returns how many were inserted.
fn fill<S: Suspend>(
    worker: &mut Worker<Serializable, S>,
    table: Table<u64, [u8]>,
    bytes: usize,
    first: u64,
) -> u64 {
    let value = vec![7; bytes];
    for key in first.. {
        match worker.run(async |tx| tx.insert(table, key, &value).await) {
            Ok(()) => {}
            Err(Error::OutOfMemory { .. }) => return key - first,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("memory is limited")
}

/// Checks that inserts fail at the limit, that reads continue, and that there is room again after deletions.
fn check_limit<S: Suspend>(policy: S, bytes: usize) {
    const LIMIT: u64 = 4 << 20;
    let db = database(LIMIT);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let mut counts = vec![];
    // Room for some tombstones.
    worker.run_each(0..300, async |tx, key| tx.put(table, key, &[]).await, |put| put.expect("memory"));
    let deleted = worker.run(async |tx| {
        for key in 0..300 {
            assert!(tx.delete(table, key).await?);
        }
        Ok(())
    });
    deleted.expect("memory");
    clean(&mut worker);
    for round in 0..4 {
        let count = fill(&mut worker, table, bytes, round << 32);
        counts.push(count);
        assert!(count > 100, "room for {count} rows of {bytes} bytes in round {round}");
        assert!(total_bytes(&db) <= LIMIT, "{:?}", db.statistics().memory);
        let rows = worker.run(async |tx| {
            let (mut rows, mut count) = (tx.scan_all(table), 0);
            while let Some((key, value)) = rows.next().await? {
                assert!(key >> 32 == round && value.len() == bytes);
                count += 1;
            }
            Ok(count)
        });
        assert_eq!(rows.expect("reads need no memory"), count, "what failed left nothing behind");
        for i in 0..count {
            let found = worker.run(async |tx| tx.delete(table, round << 32 | i).await);
            assert!(found.expect("room for tombstones"), "round {round}, {i} of {count}");
            if i % 100 == 0 {
                clean(&mut worker);
            }
        }
        clean(&mut worker);
        assert_eq!(db.statistics().memory.records, 0);
    }
    assert!(db.statistics().aborts_out_of_memory >= 4);
    let (least, most) = (counts.iter().min().expect("four"), counts.iter().max().expect("four"));
    assert!(least * 10 >= most * 9, "room gets lost: {counts:?} rows of {bytes} bytes");
}

/// Proves that small values meet the memory limit cleanly and that deletions make room, interleaved.
#[test]
fn limit_with_inline_values() {
    check_limit(OnMiss, 8);
    check_limit(Never, 8);
}

/// Proves the same for values with their own memory.
#[test]
fn limit_with_long_values() {
    check_limit(OnMiss, 100);
    check_limit(Never, 1000);
    check_limit(Seeded::new(1), 9000);
}

/// Proves that room can be made in a full database, as the error says: deletions work at the limit.
#[test]
fn deletions_at_the_limit() {
    for bytes in [8, 32, 1000] {
        let db = database(4 << 20);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let mut worker = db.worker();
        let count = fill(&mut worker, table, bytes, 0);
        for key in 0..count {
            let found = worker.run(async |tx| tx.delete(table, key).await);
            assert!(matches!(found, Ok(true)), "{key} of {count} rows of {bytes} bytes: {found:?}");
            if key % 100 == 0 {
                clean(&mut worker);
            }
        }
        clean(&mut worker);
        assert!(fill(&mut worker, table, bytes, 0) * 10 >= count * 9, "{bytes} bytes");
    }
}

/// Proves that a transaction that runs out of memory halfway is undone as a whole.
#[test]
fn out_of_memory_undoes_everything() {
    let db = database(2 << 20);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let mut worker = db.worker();
    for _ in 0..3 {
        let all = worker.run(async |tx| {
            for key in 0..1_000_000u64 {
                tx.insert(table, key, &[1; 50]).await?;
            }
            Ok(())
        });
        assert!(matches!(all, Err(Error::OutOfMemory { limit_bytes }) if limit_bytes == 2 << 20), "{all:?}");
        let first = worker.run(async |tx| Ok(tx.scan_all(table).next().await?.is_none()));
        assert!(first.expect("reads need no memory"), "it left something behind");
        clean(&mut worker);
        assert_eq!(db.statistics().memory.records, 0);
    }
    // A failure cannot be ignored: the transaction does not commit.
    let swallowed = worker.run(async |tx| {
        for key in 0..1_000_000u64 {
            if tx.insert(table, key, &[1; 50]).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    });
    assert!(matches!(swallowed, Err(Error::OutOfMemory { .. })), "{swallowed:?}");
    drop(worker);
    let tx = db.begin().expect("room");
    assert_eq!(tx.get(table, 0).expect("reads need no memory"), None);
}

const KEYS: u64 = 100;

/// Checks that many more updates take no more memory than some updates.
fn check_steady(db: &Database, what: &str, mut update: impl FnMut(u64)) {
    (0..10).for_each(&mut update);
    let before = total_bytes(db);
    (10..60).for_each(&mut update);
    let after = total_bytes(db);
    // Between one moment and another, one chunk more of version memory may be in use.
    assert!(after <= before + (4 << 20), "{what}: {before} bytes grew to {after}");
}

/// Runs transactions of `WRITES` updates each.
fn check_updates<S: Suspend, const WRITES: u64>(policy: S, what: &str, bytes: usize) {
    let db = database(u64::MAX);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let (value, per_round) = (vec![1; bytes], 40_000 / WRITES);
    let what = format!("{what}, {WRITES} writes of {bytes} bytes");
    check_steady(&db, &what, |round| {
        worker.run_each(
            0..per_round,
            async |tx, i| {
                for write in 0..WRITES {
                    tx.put(table, (round + i * WRITES + write) % KEYS, &value).await?;
                }
                Ok(())
            },
            |result| result.expect("it is retried until it commits"),
        );
    });
    assert!(worker.garbage() < 20_000, "{what}: {} changes wait", worker.garbage());
    clean(&mut worker);
    assert_eq!(db.statistics().memory.records, KEYS);
}

/// Proves that garbage is collected as fast as it is made, for every policy and every length of transactions.
#[test]
fn updates_in_workers() {
    check_updates::<_, 1>(OnMiss, "interleaved", 100);
    check_updates::<_, 10>(OnMiss, "interleaved", 100);
    check_updates::<_, 1>(Never, "sequential", 100);
    check_updates::<_, 10>(Never, "sequential", 100);
    check_updates::<_, 50>(Never, "sequential", 100);
    check_updates::<_, 2>(Never, "sequential", 8);
}

/// Proves the same for interactive transactions.
#[test]
fn updates_in_interactive_transactions() {
    fn check<const WRITES: u64>() {
        let db = database(u64::MAX);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let what = format!("interactive, {WRITES} writes");
        check_steady(&db, &what, |round| {
            for i in 0..10_000 / WRITES {
                let tx = db.begin().expect("room");
                for write in 0..WRITES {
                    tx.put(table, (round + i * WRITES + write) % KEYS, &[1; 1000]).expect("alone");
                }
                tx.commit().expect("alone");
            }
        });
    }
    check::<1>();
    check::<20>();
}

/// Proves that records are made and removed without growing memory.
#[test]
fn inserts_and_deletes() {
    let db = database(u64::MAX);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let mut worker = db.worker();
    check_steady(&db, "inserts and deletes", |round| {
        worker.run_each(
            0..10_000u64,
            async |tx, i| {
                let key = (round * 10_000 + i) * 7919;
                tx.insert(table, key, &[1; 20]).await?;
                if round > 0 || *i >= 100 {
                    tx.delete(table, key - 100 * 7919).await?;
                }
                Ok(())
            },
            |result| result.expect("it is retried until it commits"),
        );
    });
    assert!(db.statistics().memory.nodes < 20_000, "{:?}", db.statistics().memory);
}

/// Proves that an open snapshot keeps what it can see, and little of what was inserted and deleted since.
#[test]
fn one_long_snapshot() {
    fn check<S: Suspend>(policy: S, writes: u64) {
        let db = database(u64::MAX);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        let put_all = async |tx: &braiddb::Txn, i: &u64| {
            for write in 0..writes {
                tx.put(table, (i * writes + write) % KEYS, &[*i as u8; 1000]).await?;
            }
            Ok(())
        };
        worker.run_each(0..KEYS, put_all, |result| result.expect("it is retried"));
        let snapshot = db.begin().expect("room");
        let seen = snapshot.get(table, 5).expect("it reads").expect("put above");
        let copy = seen.to_vec();
        for round in 1..=200_000 / writes / 1000 {
            worker.run_each(round..round + 1000, put_all, |result| result.expect("it is retried"));
        }
        // Some thousands of changes wait for the pass around snapshots: at 1,000 bytes each, some MiB.
        let held_bytes = db.statistics().memory.versions_bytes;
        assert!(held_bytes < 24 << 20, "{writes} writes: {held_bytes} bytes are held");
        assert!(worker.garbage() < 20_000, "{writes} writes: {} changes wait", worker.garbage());
        assert_eq!(seen, copy);
        drop(snapshot);
        clean(&mut worker);
    }
    check(OnMiss, 1);
    check(Never, 1);
    check(OnMiss, 10);
    check(Never, 10);
}

/// Proves that a record of an eight-byte key and an eight-byte value takes at most 96 bytes.
#[test]
fn bytes_per_record() {
    const RECORDS: u64 = 1_000_000;
    let db = database(u64::MAX);
    let table: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    worker.run_each(
        0..RECORDS,
        // A bijection, so all keys differ and arrive in no order.
        async |tx, i| tx.insert(table, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), *i).await,
        |result| result.expect("all keys differ"),
    );
    let memory = db.statistics().memory;
    assert_eq!(memory.records, RECORDS);
    let bytes_per_record = memory.total_bytes() as f64 / RECORDS as f64;
    println!("{bytes_per_record:.1} bytes per record: {memory:?}");
    assert!(bytes_per_record <= 96.0, "{bytes_per_record} bytes per record: {memory:?}");
}

/// Proves that `Database::maintain` cleans up what an interactive transaction left when it was rolled back.
#[test]
fn tend_after_interactive_transactions() {
    let db = database(u64::MAX);
    let table: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    worker.run_each(0..1000u64, async |tx, i| tx.put(table, *i, 1).await, |r| r.expect("nothing in its way"));
    let reader = db.begin().expect("room");
    worker.run_each(0..1000u64, async |tx, i| tx.delete(table, *i).await.map(drop), |r| r.expect("as above"));
    drop(reader);
    let inserter = db.begin().expect("room");
    for i in 0..1000 {
        inserter.insert(table, i, 2).expect("deleted");
    }
    while worker.maintain() {} // passes the tombstones, which are covered
    drop(inserter);
    // The rounds that an epoch needs, and no more.
    let rounds = (0..100).take_while(|_| db.maintain() | worker.maintain()).count();
    assert!(rounds < 100, "{:?}", db.statistics().memory);
    assert_eq!(db.statistics().memory.records, 0);
}
