//! The memory that transactions take beside rows is bounded: places, notes of what they have read, and buffers. So is
//! what stays behind because a transaction is open for long, or because its worker is not driven.

use braiddb::metrics::Clock;
use braiddb::suspend::{Never, OnMiss, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Options, Table};
use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};

const MIB: u64 = 1 << 20;

fn database(memory_limit_bytes: u64) -> Database {
    Database::in_memory(Options { workers: 0, memory_limit_bytes, ..Options::default() })
        .expect("memory for an empty database")
}

fn total_bytes(db: &Database) -> u64 {
    db.statistics().memory.total_bytes()
}

/// Proves that open interactive transactions are in the memory account. At the limit, another one is refused with an
/// error, while workers continue. What the transactions had is given back.
#[test]
fn interactive_transactions_are_counted() {
    const LIMIT: u64 = 16 * MIB;
    let db = database(LIMIT);
    let table: Table<u64, u64> = db.table("t").expect("memory");
    db.worker().run(async |tx| tx.put(table, 1, 1).await).expect("room");
    let before = total_bytes(&db);
    let mut open = vec![];
    let refused = loop {
        match db.begin() {
            Ok(tx) => open.push(tx),
            Err(error) => break error,
        }
        assert!(open.len() < 100_000, "{} are open: {:?}", open.len(), db.statistics().memory);
    };
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    assert!(open.len() > 1000, "room for {}", open.len());
    assert!(total_bytes(&db) > LIMIT / 2, "{:?}", db.statistics().memory);
    let mut worker = db.worker();
    let read = worker.run(async |tx| tx.get(table, 1).await);
    assert_eq!(read.expect("a worker needs little"), Some(1));
    assert_eq!(open[0].get(table, 1).expect("so do those that are open"), Some(1));
    drop((open, worker));
    let after = total_bytes(&db);
    assert!(after < before + MIB, "{before} bytes became {after}");
    db.begin().expect("there is room again");
}

/// Proves that reading one absent key again and again takes no memory, and that the notes of what a transaction has
/// read are counted and given back.
fn check_absent<S: Suspend>(policy: S) {
    let db = database(64 * MIB);
    let table: Table<Vec<u8>, u64> = db.table("t").expect("memory");
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    worker.run(async |tx| tx.put(table, b"present", 1).await).expect("room");
    let absent = [7; 1000];
    worker.run(async |tx| tx.get(table, absent).await.map(drop)).expect("room");
    let before = total_bytes(&db);
    let read = worker.run(async |tx| {
        for _ in 0..30_000 {
            assert_eq!(tx.get(table, absent).await?, None);
        }
        Ok(total_bytes(&db))
    });
    let during = read.expect("it needs no memory");
    assert!(during <= before + MIB / 4, "{before} bytes grew to {during}");
}

#[test]
fn equal_reads_are_kept_once() {
    check_absent(OnMiss);
    check_absent(Never);
}

/// Proves that a transaction that has read more than there is memory to note fails at its commit if others have
/// committed meanwhile. All its memory is given back, and others continue.
#[test]
fn reads_beyond_the_limit() {
    let db = database(8 * MIB);
    let (rows, absent): (Table<u64, u64>, Table<u64, u64>) =
        (db.table("rows").expect("memory"), db.table("absent").expect("memory"));
    let (mut worker, mut other) = (db.worker(), db.worker());
    worker.run(async |tx| tx.put(rows, 1, 1).await).expect("room");
    let before = total_bytes(&db);
    let mut most = 0;
    let failed = worker.run(async |tx| {
        for key in 0..400_000 {
            assert_eq!(tx.get(absent, key).await?, None);
        }
        most = total_bytes(&db);
        other.run(async |tx| tx.put(rows, 1, 2).await)?;
        Ok(())
    });
    assert!(matches!(failed, Err(Error::OutOfMemory { .. })), "{failed:?}");
    assert!(most > 4 * MIB && most < 10 * MIB, "{most}");
    assert!(total_bytes(&db) < before + MIB / 2, "{:?}", db.statistics().memory);
    assert_eq!(worker.run(async |tx| tx.get(rows, 1).await).expect("it goes on"), Some(2));
}

const KEYS: u64 = 8;

/// Puts values of a MiB while a snapshot is open that sees `KEYS` of them. Then, when it has closed, puts many more
/// rows.
fn check_large_values(what: &str, db: &Database, mut put: impl FnMut(u64, &[u8]) -> Result<(), Error>) {
    let value = vec![1; MIB as usize];
    for key in 0..KEYS {
        put(key, &value).expect("room for them");
    }
    let table: Table<u64, [u8]> = db.table("t").expect("it is there");
    let snapshot = db.begin().expect("room");
    assert_eq!(snapshot.get(table, 0).expect("it reads").map(<[u8]>::len), Some(value.len()));
    for i in 0..60 {
        let done = put(i % KEYS, &value);
        assert!(done.is_ok(), "{what}: put {i}: {done:?}, {:?}", db.statistics().memory);
    }
    assert_eq!(snapshot.get(table, 7).expect("it reads").map(|seen| seen[5]), Some(1));
    drop(snapshot);
    for i in 0..200 {
        let done = put(1000 + i, &value[..MIB as usize / 8]);
        assert!(done.is_ok(), "{what}: insert {i}: {done:?}, {:?}", db.statistics().memory);
    }
}

/// Proves that an open snapshot keeps only the large values that it sees, and that they are given back when it has
/// closed: in workers of all kinds, and in interactive transactions.
#[test]
fn large_values_beside_a_snapshot() {
    fn check<S: Suspend>(policy: S, what: &str) {
        let db = database(64 * MIB);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        check_large_values(what, &db, |key, value| worker.run(async |tx| tx.put(table, key, value).await));
    }
    check(OnMiss, "interleaved");
    check(Never, "sequential");
    let db = database(64 * MIB);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    check_large_values("interactive", &db, |key, value| {
        let tx = db.begin()?;
        tx.put(table, key, value)?;
        tx.commit()
    });
}

/// Proves the same if the values come from a stream of a worker.
#[test]
fn streams_of_large_values_beside_a_snapshot() {
    fn check<S: Suspend>(policy: S) {
        let db = database(64 * MIB);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        let value = vec![1; MIB as usize];
        let put = async |tx: &braiddb::Txn, i: &u64| tx.put(table, i % KEYS, &value).await;
        worker.run_each(0..KEYS, put, |done| done.expect("room for them"));
        let snapshot = db.begin().expect("room");
        assert!(snapshot.get(table, 0).expect("it reads").is_some());
        worker.run_each(0..100, put, |done| done.expect("no more is needed than is seen"));
        assert_eq!(snapshot.get(table, 7).expect("it reads").map(|seen| seen[5]), Some(1));
    }
    check(OnMiss);
    check(Never);
}

/// Proves that threads that replace large values, one transaction at a time, do not fail because of what the other
/// threads have replaced or see. This memory is given back whichever thread continues.
#[test]
fn large_values_of_several_threads() {
    fn check(workers: u64, clients: u64) {
        let db = database(64 * MIB);
        let table: Table<u64, [u8]> = db.table("t").expect("memory");
        let value = vec![1; MIB as usize];
        let (db, value) = (&db, &value);
        std::thread::scope(|scope| {
            for thread in 0..workers {
                scope.spawn(move || {
                    let mut worker = db.worker();
                    for i in 0..200 {
                        let done = worker.run(async |tx| tx.put(table, (2 * thread + i) % KEYS, value).await);
                        assert!(done.is_ok(), "put {i}: {done:?}, {:?}", db.statistics().memory);
                    }
                });
            }
            for client in 0..clients {
                scope.spawn(move || {
                    for i in 0..200 {
                        let tx = db.begin().expect("memory");
                        let done = tx.put(table, KEYS + client, value).and_then(|()| tx.commit());
                        assert!(done.is_ok(), "interactive put {i}: {done:?}, {:?}", db.statistics().memory);
                    }
                });
            }
        });
    }
    check(4, 0);
    check(2, 2);
}

/// Proves that the garbage of an idle worker does not make another worker fail.
#[test]
fn garbage_of_an_idle_worker() {
    let db = database(32 * MIB);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let (mut idle, mut busy) = (db.worker(), db.worker());
    let value = vec![1; MIB as usize / 2];
    let snapshot = db.begin().expect("room");
    for i in 0..20 {
        idle.run(async |tx| tx.put(table, i, &value).await).expect("room for them");
    }
    let holder = db.begin().expect("room");
    for i in 0..20 {
        idle.run(async |tx| tx.put(table, i, &value).await).expect("room for both");
    }
    drop((holder, snapshot));
    for i in 0..20 {
        let done = busy.run(async |tx| tx.put(table, 100 + i, &value).await);
        assert!(done.is_ok(), "put {i}: {done:?}, {:?}", db.statistics().memory);
    }
}

/// A worker updates a thousand rows beside another worker that is no longer driven while it has an open transaction.
/// This transaction then continues, and sees its own snapshot.
fn check_undriven(what: &str, steps: usize) {
    const ROWS: u64 = 1000;
    let db = database(16 * MIB);
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let mut busy = db.worker();
    let value = |i: u64| [i as u8; 100];
    let put = async |tx: &braiddb::Txn, i: &u64| tx.put(table, i % ROWS, &value(*i)).await;
    busy.run_each(0..ROWS, put, |done| done.expect("room for them"));
    let (mut undriven, read) = (db.worker(), Rc::new(Cell::new(0)));
    let counted = read.clone();
    let spawned = undriven.spawn(
        async move |tx| {
            let before = tx.get(table, 0).await?.map(<[u8]>::to_vec);
            for i in 1..ROWS {
                let seen = tx.get(table, i).await?.map(|bytes| bytes[0]);
                let is_first = before.as_deref() == Some(&value(0));
                assert!(!is_first || seen == Some(i as u8), "row {i} is of another snapshot: {seen:?}");
                counted.set(i + 1);
            }
            pending::<Result<(), Error>>().await
        },
        drop,
    );
    spawned.expect("there is room");
    for _ in 0..steps {
        undriven.step();
    }
    busy.run_each(0..200_000, put, |done| {
        assert!(done.is_ok(), "{what}: {done:?}, {:?}", db.statistics().memory);
    });
    for _ in 0..20 * ROWS {
        undriven.step();
    }
    assert_eq!(read.get(), ROWS, "{what}: it goes on");
}

/// Proves that a worker that is not driven while it has an open transaction blocks no reclamation, except of what that
/// transaction's snapshot sees.
#[test]
fn undriven_workers() {
    check_undriven("before its first step", 0);
    check_undriven("within an operation", 3);
    check_undriven("after some operations", 1500);
    check_undriven("parked", 1_000_000);
}

/// Proves that a worker that is left between two steps of a scan still accounts for the snapshots that it opens next.
/// A build with assertions checks that at every begin.
#[test]
fn snapshots_beside_a_scan_that_is_left() {
    let db = database(u64::MAX);
    let table: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    worker.run_each(0..1000, async |tx, &i| tx.put(table, i, i).await, |done| done.expect("room"));
    let scanned = Rc::new(Cell::new(0));
    let (all, mut begun_within) = (scanned.clone(), 0);
    let scan = async move |tx: &braiddb::Txn| {
        let mut rows = tx.scan(table, 0..);
        while rows.next().await?.is_some() {
            all.set(all.get() + 1);
        }
        Ok(())
    };
    worker.spawn(scan, |done: Result<(), Error>| done.expect("nothing in its way")).expect("room");
    let read = Rc::new(Cell::new(0));
    for _ in 0..100_000 {
        if worker.open() == 1 && scanned.get() < 1000 {
            begun_within += 1;
            let seen = read.clone();
            let get = async move |tx: &braiddb::Txn| tx.get(table, 7).await;
            worker
                .spawn(get, move |got| seen.set(got.expect("it reads").expect("it is there")))
                .expect("room");
        }
        worker.step();
    }
    assert_eq!((scanned.get(), read.get(), worker.open()), (1000, 7, 0));
    assert!(begun_within > 1, "{begun_within}");
}

/// A clock that a test sets.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn unix_ns(&self) -> u64 {
        self.now_ns()
    }
}

/// Proves that a closure that blocks its worker is reported, that the memory limit bounds what it holds up, and that
/// all is well when it continues.
#[test]
fn blocked_workers_are_told_of() {
    let clock = Hand::default();
    let options =
        Options { workers: 1, pin_workers: false, memory_limit_bytes: 8 * MIB, ..Options::default() };
    let db: Database = Database::in_memory_with(options, Arc::new(clock.clone())).expect("memory");
    let table: Table<u64, [u8]> = db.table("t").expect("memory");
    let blocks = Arc::new(Barrier::new(2));
    let blocked = blocks.clone();
    // If an assertion fails, `end` is dropped, and the closure continues as well.
    let (end, ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let blocker = db.run(async move |tx| {
        assert!(tx.get(table, 0).await?.is_none());
        blocked.wait();
        _ = ended.lock().expect("nobody else has it").recv();
        Ok(())
    });
    blocks.wait();
    let mut busy = db.worker();
    let update = |busy: &mut braiddb::worker::Worker, count: u64| {
        let mut failed = 0;
        let put = async |tx: &braiddb::Txn, i: &u64| tx.put(table, i % 100, &[1; 100]).await;
        busy.run_each(0..count, put, |done| match done {
            Ok(()) => {}
            Err(Error::OutOfMemory { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        });
        failed
    };
    update(&mut busy, 10_000);
    for _ in 0..10 {
        busy.maintain(); // moves the epoch as far as it can go
    }
    assert_eq!(db.statistics().stalls, [], "nothing is known yet of how long");
    clock.0.fetch_add(5_000_000_000, Ordering::Relaxed);
    let stalls = db.statistics().stalls;
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    assert_eq!((stalls[0].thread.as_str(), stalls[0].for_ns), ("braid worker 0", 5_000_000_000));
    // A transaction that fails has waited for memory before.
    let fails = (0..500).any(|_| update(&mut busy, 200) > 0);
    assert!(fails, "what is held up is bounded");
    drop(end);
    blocker.wait().expect("it commits");
    for _ in 0..100 {
        busy.maintain();
    }
    clock.0.fetch_add(5_000_000_000, Ordering::Relaxed);
    assert_eq!(db.statistics().stalls, []);
    assert_eq!(update(&mut busy, 100_000), 0, "it goes on");
}

/// Proves that any number of insertions over one tombstone that are rolled back leave no more to clean up, and that
/// the record is reclaimed in the end.
#[test]
fn rollbacks_over_a_tombstone() {
    let db = database(u64::MAX);
    let table: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(table, 1, 1).await).expect("nothing in its way");
    let snapshot = db.begin().expect("room");
    assert_eq!(snapshot.get(table, 1).expect("it reads"), Some(1));
    worker.run(async |tx| tx.delete(table, 1).await.map(drop)).expect("nothing in its way");
    let roll_back = |worker: &mut braiddb::worker::Worker, count: u64| {
        worker.run_each(
            0..count,
            async |tx, _| {
                tx.insert(table, 1, 2).await?;
                Err::<(), _>(Error::user("no"))
            },
            |result| assert!(matches!(result, Err(Error::User(_)))),
        );
        while worker.maintain() {}
        worker.garbage()
    };
    let few = roll_back(&mut worker, 10);
    let many = roll_back(&mut worker, 1000);
    assert!(many <= few + 2, "{few} changes to clean up became {many}");
    drop(snapshot);
    let inserter = db.begin().expect("room");
    inserter.insert(table, 1, 3).expect("deleted");
    for _ in 0..20 {
        worker.maintain(); // passes the tombstone, which is covered
    }
    drop(inserter);
    let rounds = (0..100).take_while(|_| db.maintain() | worker.maintain()).count();
    assert!(rounds < 100 && db.statistics().memory.records == 0, "{:?}", db.statistics().memory);
}
