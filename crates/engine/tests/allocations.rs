//! Counts the calls of the global allocator: a transaction in steady state makes none. Structures that grow take
//! memory from the engine's own slabs and pools.

use braiddb::suspend::{Never, OnMiss, Suspend};
use braiddb::worker::{Worker, WorkerOptions};
use braiddb::{Database, Index, Options, Result, Table, Txn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}
static EVERYWHERE: AtomicU64 = AtomicU64::new(0);
/// Tests run one at a time, because the count covers all threads.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count() {
    let _ = HERE.try_with(|n| n.set(n.get() + 1));
    EVERYWHERE.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator, and is only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(p, layout, bytes) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const RECORDS: u64 = 20_000;
const TRANSACTIONS: u64 = 10_000;

/// A pseudo-random key from the number of a transaction and of its operation.
fn key(transaction: u64, operation: u64) -> u64 {
    (transaction * 16 + operation).wrapping_mul(0x9e37_79b9_7f4a_7c15) % RECORDS
}

fn loaded(workers: usize) -> (Database, Table<u64, u64>) {
    let db =
        Database::in_memory(Options { workers, pin_workers: false, ..Options::default() }).expect("memory");
    let table = db.table("t").expect("memory");
    let mut worker = db.worker();
    worker.run_each(0..RECORDS, async |tx, key| tx.insert(table, *key, *key).await, |r| r.expect("new"));
    (db, table)
}

/// Returns the number of allocations of 10,000 transactions: the least of several turns, up to the first turn without
/// any. The first turns warm up. A queue of garbage may grow to a new length, more often when other programs take the
/// core.
fn allocations<S: Suspend>(
    worker: &mut Worker<braiddb::Serializable, S>,
    first: u64,
    transaction: impl AsyncFn(&Txn, &u64) -> Result<()>,
) -> u64 {
    let mut turn = |turn| {
        let before = HERE.get();
        let inputs = (turn * TRANSACTIONS..(turn + 1) * TRANSACTIONS).map(|i| first + i);
        worker.run_each(inputs, &transaction, |result| result.expect("it is retried until it commits"));
        HERE.get() - before
    };
    let mut least = u64::MAX;
    for n in 0..20 {
        least = least.min(turn(n));
        if least == 0 {
            break;
        }
    }
    least
}

fn check<S: Suspend>(policy: S) {
    let (db, t) = loaded(0);
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let w = &mut worker;
    let reads = allocations(w, 0, async |tx, i| {
        for operation in 0..10 {
            assert!(tx.get(t, key(*i, operation)).await?.is_some());
        }
        Ok(())
    });
    assert_eq!(reads, 0, "ten reads");
    let many = allocations(w, 0, async |tx, i| {
        let found = tx.get_many(t, &std::array::from_fn::<u64, 10, _>(|n| key(*i, n as u64))).await?;
        assert!(found.iter().all(Option::is_some));
        Ok(())
    });
    assert_eq!(many, 0, "one get_many of ten");
    let mixed = allocations(w, 0, async |tx, i| {
        for operation in 0..8 {
            assert!(tx.get(t, key(*i, operation)).await?.is_some());
        }
        for operation in 8..10 {
            let value = tx.get(t, key(*i, operation)).await?.expect("it stays");
            tx.put(t, key(*i, operation), value + 1).await?;
        }
        Ok(())
    });
    assert_eq!(mixed, 0, "eight reads and two read-modify-writes");
    let updates = allocations(w, 0, async |tx, i| {
        for operation in 0..10 {
            tx.put(t, key(*i, operation), *i).await?;
        }
        Ok(())
    });
    assert_eq!(updates, 0, "ten updates");
    for reverse in [false, true] {
        let scans = allocations(w, 0, async |tx, i| {
            let from = key(*i, 0);
            let mut rows = tx.scan(t, from..from + 1000).limit(100);
            if reverse {
                rows = rows.reverse();
            }
            while rows.next().await?.is_some() {}
            Ok(())
        });
        assert_eq!(scans, 0, "scans of a hundred rows, reverse: {reverse}");
    }
    // New nodes and records come from slabs. A split of a node, about one in 14 insertions, takes a list.
    let inserts = allocations(w, RECORDS, async |tx, i| tx.insert(t, *i, *i).await);
    assert!(inserts < TRANSACTIONS / 10, "{inserts} in {TRANSACTIONS} inserts");
}

/// Proves that interleaved transactions of every kind allocate nothing in steady state.
#[test]
fn interleaved() {
    let _alone = alone();
    check(OnMiss);
}

/// Proves the same for sequential execution.
#[test]
fn sequential() {
    let _alone = alone();
    check(Never);
}

/// Proves that long keys and conflicts cost no allocation either.
#[test]
fn long_keys_and_conflicts() {
    let _alone = alone();
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory");
    let t: Table<(u64, Vec<u8>), u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    // Enough rows that reads suspend their transactions, which can then conflict.
    let fill = async |tx: &Txn| {
        for i in 0..2000 {
            tx.put(t, (100 + i, Vec::new()), 0).await?;
        }
        Ok(())
    };
    worker.run(fill).expect("nobody else writes");
    let counted = allocations(&mut worker, 0, async |tx, i| {
        let key = (i % 5, &b"longer than a slice"[..]);
        let value = tx.get(t, key).await?.unwrap_or(0);
        tx.put(t, key, value + 1).await
    });
    assert_eq!(counted, 0);
    assert!(db.statistics().aborts_conflict > 1000, "{:?}", db.statistics());
}

/// Proves that writes that maintain indexes, whether or not entries change, allocate nothing either, and neither do
/// reads by indexes.
#[test]
fn indexes() {
    let _alone = alone();
    let (db, t) = loaded(0);
    // Each key has a tenth of the rows, and is longer than a slice of the tree.
    let by_group =
        db.index(t, "by group", |_, value: u64| Some((*b"a long group", value % 10))).expect("memory");
    let by_value = db.unique_index(t, "by value", |_, value: u64| Some(value)).expect("memory");
    fn check<S: Suspend>(
        db: &Database,
        policy: S,
        t: Table<u64, u64>,
        by_group: Index<([u8; 12], u64), u64, u64>,
        by_value: Index<u64, u64, u64>,
    ) {
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        let w = &mut worker;
        let reads = allocations(w, 0, async |tx, i| {
            let mut rows =
                tx.scan_by(by_group, (*b"a long group", i % 10)..=(*b"a long group", i % 10)).limit(30);
            while rows.next().await?.is_some() {}
            let (mut out, keys) = ([None; 20], [1, 2, 3, key(*i, 0)]);
            tx.get_into(t, &keys, &mut out).await?;
            tx.get_by(by_value, key(*i, 0)).await.map(drop)
        });
        assert_eq!(reads, 0, "reads by indexes");
        let kept = allocations(w, 0, async |tx, i| {
            let key = key(*i, 0);
            let value = tx.get(t, key).await?.expect("it stays");
            tx.put(t, key, value).await
        });
        assert_eq!(kept, 0, "writes that change no entry");
        // There and back, so the trees stay the same in the long run.
        let moved = allocations(w, 0, async |tx, i| {
            let key = key(*i, 0);
            let value = tx.get(t, key).await?.expect("it stays");
            tx.put(t, key, value ^ 1 << 40).await
        });
        // Splits and removals of nodes take lists.
        assert!(moved < TRANSACTIONS / 2, "{moved} in {TRANSACTIONS} writes that change two entries each");
    }
    check(&db, OnMiss, t, by_group, by_value);
    check(&db, Never, t, by_group, by_value);
}

/// Proves that transactions that are submitted in batches of 256 take less than a twentieth of an allocation each.
#[test]
fn submitted_in_batches() {
    let _alone = alone();
    const BATCHES: u64 = 60;
    let (db, t) = loaded(1);
    let mut before = 0;
    for batch in 0..2 * BATCHES {
        if batch == BATCHES {
            before = EVERYWHERE.load(Ordering::Relaxed);
        }
        let inputs: Vec<u64> = (batch * 256..(batch + 1) * 256).collect();
        let results = db.run_each(inputs, async move |tx, i| {
            let value = tx.get(t, key(*i, 0)).await?.expect("it stays");
            tx.put(t, key(*i, 0), value + 1).await
        });
        assert!(results.wait().expect("the database is open").iter().all(Result::is_ok));
    }
    let per_transaction = (EVERYWHERE.load(Ordering::Relaxed) - before) as f64 / (BATCHES * 256) as f64;
    println!("{per_transaction:.4} allocations per transaction");
    assert!(per_transaction < 0.05, "{per_transaction}");
}
