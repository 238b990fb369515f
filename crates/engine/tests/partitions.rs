//! Transactions that declare their partitions, under the scheme that has partitions. Whatever they declare, they do
//! their work beside other transactions of other partitions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::SystemClock;
use braiddb::{
    Claim, Database, Error, HStore, Index, LabOptions, Options, Partition, Result, Silo, Table, Transaction,
    Txn,
};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

fn database(options: Options) -> Database<HStore> {
    Database::in_memory_with(options, Arc::new(SystemClock::default())).unwrap()
}

fn parts(partitions: u32) -> LabOptions {
    LabOptions { partitions, ..LabOptions::default() }
}

fn small() -> Database<HStore> {
    database(Options { workers: 0, lab: parts(4), retries_max: u32::MAX, ..Options::default() })
}

/// Makes a table whose keys' numbers decide the partition, with rows 0 to 15 that are 0.
fn rows(db: &Database<HStore>) -> Table<u64, u64> {
    let t = db.partitioned_table("t", 64).unwrap();
    let tx = db.begin().unwrap();
    (0..16).for_each(|key| tx.put(t, key, 0).unwrap());
    tx.commit().unwrap();
    t
}

fn holder(db: &Database<HStore>, t: Table<u64, u64>, keys: &[u64]) -> Transaction<HStore> {
    let tx = db.begin().unwrap();
    tx.declare_partitions(keys.iter().filter_map(|key| db.partition_of(t, key))).unwrap();
    tx
}

fn is_conflict<T: std::fmt::Debug>(done: Result<T>) -> bool {
    match done {
        Err(Error::Conflict) => true,
        other => panic!("{other:?}"),
    }
}

/// Proves that transactions with different partitions run beside each other, and read what is in no partition.
#[test]
fn other_partitions_are_free() {
    let db = small();
    let (t, all): (_, Table<u64, u64>) = (rows(&db), db.table("replicated").unwrap());
    let tx = db.begin().unwrap();
    tx.put(all, 7, 70).unwrap();
    tx.commit().unwrap();
    let (a, b) = (holder(&db, t, &[1]), holder(&db, t, &[2, 3]));
    a.put(t, 1, 10).unwrap();
    b.put(t, 2, 20).unwrap();
    a.insert(t, 17, 1).unwrap();
    assert_eq!((a.get(all, 7).unwrap(), b.get(all, 7).unwrap()), (Some(70), Some(70)));
    assert_eq!(
        (a.get(t, 5).unwrap(), b.get(t, 7).unwrap(), b.get(t, 102).unwrap()),
        (Some(0), Some(0), None)
    );
    assert!(b.delete(t, 3).unwrap() && !a.delete(t, 101).unwrap());
    a.commit().unwrap();
    b.commit().unwrap();
    let tx = db.begin().unwrap();
    let seen = [1, 2, 3, 17].map(|key| tx.get(t, key).unwrap());
    assert_eq!(seen, [Some(10), Some(20), None, Some(1)]);
}

/// Proves that a transaction can also do what it has not declared, of any kind, unless another transaction has a
/// partition for it that is ordered before its own. Then the operation is a conflict, and has changed nothing. In a
/// closure, it is run again.
#[test]
fn more_than_declared() {
    let db = small();
    let (t, all): (_, Table<u64, u64>) = (rows(&db), db.table("replicated").unwrap());
    type Act = fn(&Transaction<HStore>, Table<u64, u64>) -> Result<()>;
    let beyond: [(Act, Table<u64, u64>); 10] = [
        (|tx, t| tx.get(t, 0).map(|_| ()), t),
        (|tx, t| tx.get(t, 100).map(|_| ()), t),
        (|tx, t| tx.put(t, 0, 1), t),
        (|tx, t| tx.insert(t, 100, 1), t),
        (|tx, t| tx.delete(t, 0).map(|_| ()), t),
        (|tx, t| tx.get_for_update(t, 0).map(|_| ()), t),
        (|tx, t| tx.get_many(t, &[1u64, 0]).map(|_| ()), t),
        (|tx, t| tx.scan(t, 0..2).next().map(|_| ()), t),
        (|tx, t| tx.put(t, 1, 1), all),
        (
            |tx, t| {
                tx.with(async |tx| tx.get(t, 0).untracked().await.map(|_| ()))?;
                tx.put(t, 0, 1)
            },
            t,
        ),
    ];
    for (at, (act, table)) in beyond.into_iter().enumerate() {
        let other = holder(&db, t, &[0]);
        let tx = holder(&db, t, &[1]);
        tx.put(t, 1, 9).unwrap();
        assert!(is_conflict(act(&tx, table)), "{at}");
        let after = tx.get(t, 1);
        assert!(matches!(after, Err(Error::Conflict)), "{at}: nothing counts any more: {after:?}");
        assert!(is_conflict(tx.commit()), "{at}");
        drop(other);
        let tx = holder(&db, t, &[1]);
        assert!(act(&tx, table).is_ok(), "{at}: it is free");
    }
    assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), Some(0));
    let (runs, other) = (Cell::new(0), Cell::new(Some(holder(&db, t, &[0]))));
    let sum = db.worker().run(async |tx| {
        runs.set(runs.get() + 1);
        if runs.get() == 2 {
            other.take();
        }
        tx.declare_partitions(tx.partition_of(t, 1)).await?;
        tx.put(t, 1, 5).await?;
        tx.put(t, 0, 6).await?;
        tx.put(all, 1, 7).await?;
        Ok(tx.get(t, 1).await?.unwrap_or(0) + tx.get(t, 0).await?.unwrap_or(0))
    });
    assert_eq!((sum.unwrap(), runs.get()), (11, 2));
}

/// Proves that other transactions wait for what a transaction without declarations has used, and for nothing else.
#[test]
fn nothing_declared() {
    let db = small();
    let (t, all): (_, Table<u64, u64>) = (rows(&db), db.table("replicated").unwrap());
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    a.put(t, 2, 20).unwrap();
    b.put(t, 1, 10).unwrap();
    a.put(t, 3, 30).unwrap();
    a.put(t, 0, 5).unwrap(); // it is free, although it is ordered before
    assert!(is_conflict(a.get(t, 1)));
    b.put(t, 5, 50).unwrap();
    b.commit().unwrap();
    drop(a);
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(all, 1).unwrap(), None); // in no partition; `tx` has none and takes all
    let values = [0, 1, 2, 3, 5].map(|key| tx.get(t, key).unwrap());
    assert_eq!(values, [0, 10, 0, 0, 50].map(Some));
}

/// Proves that a range is in one partition if the beginnings of its bounds are equal.
#[test]
fn ranges() {
    let db = small();
    let t: Table<(u32, u32), u64> = db.partitioned_table("pairs", 32).unwrap();
    let tx = db.begin().unwrap();
    (0..20u32).for_each(|n| tx.put(t, (n % 5, n), u64::from(n)).unwrap());
    tx.commit().unwrap();
    let holder_of = |db: &Database<HStore>, first: u32| {
        let tx = db.begin().unwrap();
        tx.declare_partitions(db.partition_of(t, (first, 0))).unwrap();
        tx
    };
    let own = |db: &Database<HStore>| holder_of(db, 3);
    let tx = own(&db);
    let count = |mut rows: braiddb::futures::OwnedRows<'_, (u32, u32), u64, HStore>| {
        let mut count = 0;
        rows.for_each(|_, _| count += 1).map(|()| count)
    };
    assert_eq!(count(tx.scan(t, (3, 0)..(3, 10))).unwrap(), 2);
    assert_eq!(count(tx.scan(t, (3, 0)..=(3, u32::MAX)).reverse()).unwrap(), 4);
    assert_eq!(count(tx.scan_prefix(t, &3u32.to_be_bytes())).unwrap(), 4);
    let other = holder_of(&db, 0);
    assert!(is_conflict(count(tx.scan(t, (3, 0)..=(4, 0)))));
    drop(tx); // it has its partition until then
    for reverse in [false, true] {
        let tx = own(&db);
        let rows = tx.scan::<_, _, (u32, u32)>(t, ..);
        assert!(is_conflict(count(if reverse { rows.reverse() } else { rows })));
    }
    drop(other);
    let all = db.begin().unwrap();
    assert_eq!(count(all.scan::<_, _, (u32, u32)>(t, ..)).unwrap(), 20);
}

/// Proves that several declarations add up. If a later declaration names a partition that is ordered before and taken,
/// the transaction aborts and does not wait in a circle.
#[test]
fn declarations_add_up() {
    let db = small();
    let t = rows(&db);
    let tx = holder(&db, t, &[1]);
    tx.declare_partitions(db.partition_of(t, 3)).unwrap();
    tx.declare_partitions(db.partition_of(t, 1)).unwrap();
    tx.put(t, 3, 1).unwrap();
    let other = holder(&db, t, &[2]);
    assert!(is_conflict(tx.declare_partitions(db.partition_of(t, 2))));
    drop((tx, other));
    let tx = db.begin().unwrap();
    tx.declare_partitions([]).unwrap();
    assert_eq!(tx.get(t, 2).unwrap(), Some(0));
    tx.declare_partitions(db.partition_of(t, 0)).unwrap();
    tx.put(t, 3, 1).unwrap();
    let (runs, other) = (Cell::new(0), Cell::new(Some(holder(&db, t, &[1]))));
    drop(tx);
    let done = db.worker().run(async |tx| {
        runs.set(runs.get() + 1);
        if runs.get() == 2 {
            other.take();
        }
        tx.declare_partitions(tx.partition_of(t, 2)).await?;
        tx.declare_partitions(tx.partition_of(t, 1)).await?;
        tx.put(t, 0, 1).await
    });
    assert_eq!((done.is_ok(), runs.get()), (true, 2));
}

/// Proves that a taken partition is waited for in order, by transactions of one worker and of several, and that
/// transactions that are dropped meanwhile leave the queue.
#[test]
fn partitions_are_waited_for() {
    let db = small();
    let t = rows(&db);
    let mut worker = db.worker();
    let increments = (0..300u64).map(|n| {
        async move |tx: &Txn<HStore>| {
            let key = n % 3;
            tx.declare_partitions(tx.partition_of(t, key)).await?;
            let value = tx.get(t, key).await?.unwrap_or(0);
            tx.get(t, key + 100).await?;
            tx.put(t, key, value + 1).await
        }
    });
    worker.run_all(increments, |done: Result<()>| done.unwrap());
    let tx = db.begin().unwrap();
    assert_eq!([0, 1, 2].map(|key| tx.get(t, key).unwrap()), [Some(100); 3]);
    drop(tx);

    std::thread::scope(|threads| {
        for seed in 0..3u64 {
            let db = &db;
            threads.spawn(move || {
                let mut worker = db.worker();
                for n in 0..200u64 {
                    let (from, to) = ((seed * 7 + n * 5) % 8, (seed * 3 + n) % 8);
                    let declares = n % 4;
                    let done = worker.run(async |tx| {
                        let keys = [from, to];
                        let declared = if declares == 0 { &keys[..1] } else { &keys[..] };
                        if declares != 1 {
                            tx.declare_partitions(declared.iter().filter_map(|key| tx.partition_of(t, key)))
                                .await?;
                        }
                        let [a, b] = tx.get_many(t, &keys).await?;
                        if from != to && a > Some(0) {
                            tx.put(t, from, a.unwrap_or(0) - 1).await?;
                            tx.put(t, to, b.unwrap_or(0) + 1).await?;
                        }
                        Ok(())
                    });
                    done.unwrap();
                }
            });
        }
    });
    let tx = db.begin().unwrap();
    let sum: u64 = (0..8).map(|key| tx.get(t, key).unwrap().unwrap()).sum();
    assert_eq!(sum, 300);
}

/// Proves that transactions sleep while they wait for a transaction that keeps a partition for long, no longer than
/// for rows.
#[test]
fn idle_holders_are_not_spun_for() {
    let options = Options { workers: 1, lab: parts(4), lock_wait_ms: 2000, ..Options::default() };
    let db = database(options);
    let t = rows(&db);
    let tx = holder(&db, t, &[1]);
    let waits = db.run(async move |tx| {
        tx.declare_partitions(tx.partition_of(t, 1)).await?;
        tx.get(t, 1).await.map(|_| ())
    });
    let refused = waits.wait().unwrap_err();
    assert!(matches!(refused, Error::LockTimeout(_)), "{refused}");
    assert!(refused.to_string().contains("partitions"), "{refused}");
    let passes = db.run(async move |tx| {
        tx.declare_partitions(tx.partition_of(t, 2)).await?;
        tx.get(t, 2).await
    });
    assert_eq!(passes.wait().unwrap(), Some(0));
    let waits = db.run(async move |tx| {
        tx.declare_partitions(tx.partition_of(t, 1)).await?;
        tx.get(t, 1).await
    });
    std::thread::sleep(Duration::from_millis(50));
    tx.put(t, 1, 5).unwrap();
    tx.commit().unwrap();
    assert_eq!(waits.wait().unwrap(), Some(5));
}

/// Proves that a row in another transaction's partition counts as locked.
#[test]
fn rows_of_others_are_locked() {
    let db = small();
    let t = rows(&db);
    let tx = holder(&db, t, &[1]);
    let claim = |key: u64| {
        db.worker().run(async |tx| {
            tx.declare_partitions(None::<Partition>).await?;
            Ok(tx.get_for_update(t, key).skip_locked().await?.is_locked())
        })
    };
    assert!(claim(1).unwrap());
    let own = tx.with(async |tx| tx.get_for_update(t, 5).skip_locked().await).unwrap();
    assert_eq!(own, Claim::Row(0));
    let refused: Result<()> = db
        .worker()
        .run(async |tx| tx.get_for_update(t, 1).timeout(Duration::from_millis(20)).await.map(|_| ()));
    assert!(matches!(refused, Err(Error::LockTimeout(_))));
    drop(tx);
    assert!(!claim(1).unwrap());
}

fn by_group(db: &Database<HStore>, t: Table<u64, u64>) -> Index<u64, u64, u64> {
    db.partitioned_index(t, "by group", 64, |_, value: u64| Some(value)).unwrap()
}

/// Proves that an index is read with the partition of its entries if all rows are in the same partitions as their
/// entries, and with all partitions otherwise.
#[test]
fn indexes() {
    let db = small();
    let t: Table<u64, u64> = db.partitioned_table("t", 64).unwrap();
    let index = by_group(&db, t);
    let plain = db.index(t, "plain", |_, value: u64| Some(value)).unwrap();
    let tx = db.begin().unwrap();
    (0..16).for_each(|key| tx.put(t, key, key % 4).unwrap());
    tx.commit().unwrap();
    let count = |tx: &Transaction<HStore>, index, group: u64| {
        let (mut rows, mut count) = (tx.scan_by(index, group..=group), 0);
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok::<_, Error>(count)
    };
    let other = holder(&db, t, &[0]);
    let tx = holder(&db, t, &[1]);
    assert_eq!(count(&tx, index, 1).unwrap(), 4);
    assert!(is_conflict(count(&tx, plain, 1)));
    drop(tx);
    let tx = holder(&db, t, &[1]);
    assert!(is_conflict(tx.put(t, 1, 5)), "an entry of an index without partitions");
    drop((tx, other));
    let tx = db.begin().unwrap();
    tx.put(t, 1, 2).unwrap(); // its entry is in another partition now
    tx.commit().unwrap();
    let other = holder(&db, t, &[0]);
    assert!(is_conflict(count(&holder(&db, t, &[2]), index, 2)));
    drop(other);
    let found = db.worker().run(async |tx| {
        tx.declare_partitions(tx.partition_of(t, 2)).await?;
        let (mut rows, mut found) = (tx.scan_by(index, 2u64..=2), Vec::new());
        while let Some((_, key, _)) = rows.next().await? {
            found.push(key);
        }
        Ok(found)
    });
    assert_eq!(found.unwrap(), [1, 2, 6, 10, 14]);
    let wrong = db.index(t, "by group", |_, value: u64| Some(value));
    assert!(matches!(wrong, Err(Error::IndexMismatch { .. })));
}

/// Proves that a table's partitioning cannot be declared in a second way, that the table has it again when it is opened
/// as a plain table, and that impossible numbers of bits and of partitions are refused.
#[test]
fn said_once() {
    let db = small();
    let t: Table<u64, u64> = db.partitioned_table("t", 60).unwrap();
    assert_eq!(db.partition_of(t, 0x35).map(Partition::number), Some(3));
    let again: Table<u64, u64> = db.table("t").unwrap();
    assert_eq!(db.partition_of(again, 0x35), db.partition_of(t, 0x35));
    let plain: Table<u64, u64> = db.table("plain").unwrap();
    assert_eq!(db.partition_of(plain, 1), None);
    for (name, bits) in [("t", 61), ("plain", 64)] {
        let wrong = db.partitioned_table::<u64, u64>(name, bits);
        assert!(matches!(wrong, Err(Error::TableMismatch { .. })), "{name}");
    }
    for bits in [0, 65] {
        let wrong = db.partitioned_table::<u64, u64>("t", bits);
        assert!(matches!(wrong, Err(Error::InvalidOption { .. })));
    }
    for partitions in [0, 3, 128] {
        let options = Options { workers: 0, lab: parts(partitions), ..Options::default() };
        let opened = Database::<HStore>::in_memory_with(options, Arc::new(SystemClock::default()));
        assert!(matches!(opened, Err(Error::InvalidOption { .. })));
    }
}

/// Proves that another scheme does not ask for partitions, and that nothing waits.
#[test]
fn other_schemes_do_not_ask() {
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<Silo> = Database::in_memory_with(options, Arc::new(SystemClock::default())).unwrap();
    let t: Table<u64, u64> = db.partitioned_table("t", 64).unwrap();
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    let asked = Cell::new(false);
    let partitions = || {
        std::iter::once(1).filter_map(|key: u64| {
            asked.set(true);
            db.partition_of(t, key)
        })
    };
    a.declare_partitions(partitions()).unwrap();
    b.declare_partitions(partitions()).unwrap();
    a.put(t, 1, 1).unwrap();
    b.put(t, 2, 2).unwrap();
    assert!(a.commit().is_ok() && b.commit().is_ok() && !asked.get());
}
