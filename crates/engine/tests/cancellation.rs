//! Transactions that end at the wrong moment: cancelled, dropped with their worker, panicking, or forgotten by their
//! caller, at every step and at every await. Each is undone, others continue, and nothing leaks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::suspend::Seeded;
use braiddb::worker::{Spawned, Worker, WorkerOptions};
use braiddb::{Database, Error, Options, Result, Serializable, Table, Txn};
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Tables {
    numbers: Table<u64, u64>,
    names: Table<String, [u8]>,
    /// The rows in which the bystanders count.
    others: Table<u64, u64>,
}

const ROWS: u64 = 40;
const LONG: &str = "a name of several slices, row";

fn database(workers: usize) -> (Database, Tables) {
    let db = Database::in_memory(Options { workers, pin_workers: false, ..Options::default() }).unwrap();
    let tables = Tables {
        numbers: db.table("numbers").unwrap(),
        names: db.table("names").unwrap(),
        others: db.table("others").unwrap(),
    };
    let tx = db.begin().unwrap();
    for i in 0..ROWS {
        tx.insert(tables.numbers, i, i).unwrap();
        tx.insert(tables.names, format!("{LONG} {i}"), &[i as u8; 100]).unwrap();
        tx.insert(tables.others, i, 0).unwrap();
    }
    tx.commit().unwrap();
    (db, tables)
}

/// Runs every operation once, and calls `at` after each await.
async fn everything(tx: &Txn, tables: Tables, at: impl Fn()) -> Result<()> {
    let Tables { numbers, names, .. } = tables;
    tx.get(numbers, 1).await?;
    at();
    tx.get_many(numbers, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).await?;
    at();
    tx.insert(numbers, 1000, 1).await?;
    at();
    tx.insert(names, "a new and rather long name", &[1; 500]).await?;
    at();
    tx.put(numbers, 2, 2000).await?;
    at();
    tx.update(names, format!("{LONG} 3"), &[2; 3000]).await?;
    at();
    tx.delete(names, format!("{LONG} 4")).await?;
    at();
    tx.delete(numbers, 5).await?;
    at();
    let mut rows = tx.scan_prefix(names, b"a");
    for _ in 0..20 {
        rows.next().await?;
        at();
    }
    let mut rows = tx.scan(numbers, 3..30).reverse();
    rows.next().await?;
    at();
    let (a, b, c, d, e) = futures::join!(
        tx.get(numbers, 7),
        tx.put(numbers, 8, 8000),
        tx.delete(numbers, 9),
        tx.contains(names, format!("{LONG} 9")),
        rows.next(),
    );
    at();
    let (_, (), _, _, _) = (a?, b?, c?, d?, e?);
    tx.put(names, "one more", b"!").await?;
    at();
    Ok(())
}

const AWAITS: u64 = 8 + 20 + 3;

async fn count_up(tx: &Txn, tables: Tables, key: u64) -> Result<()> {
    let count = tx.get(tables.others, key).await?.unwrap();
    tx.put(tables.others, key, count + 1).await
}

/// Checks that the rows that `everything` changes are as they were loaded, and so are records and versions.
fn assert_undone(db: &Database, tables: Tables, versions_bytes_max: u64) {
    let mut worker = db.worker();
    while worker.maintain() {}
    drop(worker);
    let tx = db.begin().unwrap();
    let (mut rows, mut names) = (tx.scan(tables.numbers, 0..), tx.scan_prefix(tables.names, b""));
    for i in 0..ROWS {
        assert_eq!(rows.next().unwrap(), Some((i, i)));
    }
    assert_eq!(rows.next().unwrap(), None);
    let mut count = 0;
    while let Some((name, value)) = names.next().unwrap() {
        assert!(name.starts_with(LONG) && value.len() == 100, "{name}");
        count += 1;
    }
    assert_eq!(count, ROWS);
    let memory = db.statistics().memory;
    assert_eq!(memory.records, 3 * ROWS, "{memory:?}");
    assert!(memory.versions_bytes <= versions_bytes_max, "{memory:?}");
}

fn others(db: &Database, tables: Tables) -> u64 {
    let tx = db.begin().unwrap();
    (0..ROWS).map(|key| tx.get(tables.others, key).unwrap().unwrap()).sum()
}

fn clean<S: braiddb::suspend::Suspend>(worker: &mut Worker<Serializable, S>) {
    for _ in 0..100 {
        if !worker.maintain() && worker.garbage() == 0 {
            return;
        }
    }
    panic!("{} changes are never cleaned up", worker.garbage());
}

fn seeded(db: &Database, seed: u64) -> Worker<Serializable, Seeded> {
    db.worker_with(
        Seeded::new(seed),
        WorkerOptions { batch: 4.into(), batch_max: 4, ..WorkerOptions::default() },
    )
}

/// Spawns the body, which holds `token` until it is dropped, and one bystander. Returns the body's id.
fn spawn(worker: &mut Worker<Serializable, Seeded>, tables: Tables, token: &Arc<()>, key: u64) -> Spawned {
    let (token, done) = (token.clone(), token.clone());
    let body = async move |tx: &Txn| {
        let _held = token.clone();
        everything(tx, tables, || ()).await?;
        Err::<(), _>(Error::user("undone in any case"))
    };
    let spawned = worker.spawn(body, move |_| drop(done)).unwrap();
    worker.spawn(async move |tx: &Txn| count_up(tx, tables, key).await, |result| result.unwrap()).unwrap();
    spawned
}

/// Proves that a transaction that is cancelled after any number of steps is undone, and that its bystander commits.
#[test]
fn cancelled_after_any_number_of_steps() {
    for seed in 0..4 {
        let (db, tables) = database(0);
        let mut worker = seeded(&db, seed);
        let (token, mut steps, mut bytes, mut late) = (Arc::new(()), 0, u64::MAX, 0);
        loop {
            let slot = spawn(&mut worker, tables, &token, steps % ROWS);
            for _ in 0..steps {
                worker.step();
            }
            let was_open = Arc::strong_count(&token) > 1;
            if !worker.cancel(slot) && was_open {
                // The transaction's reads are being checked before its error is the answer.
                late += 1;
                while Arc::strong_count(&token) > 1 {
                    worker.step();
                }
            }
            assert_eq!(Arc::strong_count(&token), 1, "seed {seed}, {steps} steps");
            while worker.open() > 0 {
                worker.step();
            }
            clean(&mut worker);
            assert_undone(&db, tables, bytes.saturating_add(64 << 10));
            if steps == 10 {
                bytes = db.statistics().memory.versions_bytes;
            }
            steps += 1;
            if !was_open {
                break;
            }
        }
        assert!(
            steps > AWAITS + late && late < 10,
            "the body took {steps} steps only, and {late} to be checked"
        );
        assert_eq!(others(&db, tables), steps);
    }
}

/// Proves that all open transactions are undone when their worker is dropped after any number of steps.
#[test]
fn dropped_with_the_worker_after_any_number_of_steps() {
    let (db, tables) = database(0);
    let token = Arc::new(());
    let mut bytes = u64::MAX;
    for steps in 0..400 {
        let mut worker = seeded(&db, steps);
        spawn(&mut worker, tables, &token, steps % ROWS);
        spawn(&mut worker, tables, &token, (steps + 1) % ROWS);
        for _ in 0..steps {
            worker.step();
        }
        drop(worker);
        assert_eq!(Arc::strong_count(&token), 1, "{steps} steps");
        clean(&mut seeded(&db, 0));
        assert_undone(&db, tables, bytes.saturating_add(64 << 10));
        if steps == 10 {
            bytes = db.statistics().memory.versions_bytes;
        }
    }
}

/// The `n`th call panics; 0: none.
fn panics_at(n: u64) -> impl Fn() {
    let calls = AtomicU64::new(0);
    move || assert!(calls.fetch_add(1, Ordering::Relaxed) + 1 != n, "planted")
}

/// Proves that a panic at any await of a local transaction reaches the caller, and that the worker can be used as
/// before.
#[test]
fn a_local_panic_at_every_await() {
    let (db, tables) = database(0);
    let mut worker = db.worker();
    let token = Arc::new(());
    for n in 1..=AWAITS {
        let mut ended = 0;
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let inputs = (0..20).map(|i| (i, token.clone()));
            worker.run_each(
                inputs,
                async |tx, (i, _token)| match i {
                    10 => everything(tx, tables, panics_at(n)).await,
                    key => count_up(tx, tables, *key).await,
                },
                |result| {
                    result.unwrap();
                    ended += 1;
                },
            );
        }));
        assert!(unwound.is_err(), "await {n}");
        assert!(ended < 20);
        assert_eq!((Arc::strong_count(&token), worker.open()), (1, 0), "await {n}");
        worker.run(async |tx| count_up(tx, tables, 0).await).unwrap();
        clean(&mut worker);
        assert_undone(&db, tables, u64::MAX);
    }
}

/// Proves that a panic out of a step undoes its own transaction. Another spawned transaction stays open: it commits
/// when the worker continues, and is undone with the worker.
#[test]
fn spawned_transactions_outlive_the_panic_of_another() {
    for goes_on in [true, false] {
        let (db, tables) = database(0);
        let mut worker = db.worker();
        let (commits, waits) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(true)));
        let (committed, is_waiting) = (commits.clone(), waits.clone());
        let bystander = async move |tx: &Txn| {
            count_up(tx, tables, 0).await?;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if is_waiting.get() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            Ok(())
        };
        let count = move |result: Result<()>| committed.set(committed.get() + u64::from(result.is_ok()));
        worker.spawn(bystander, count).unwrap();
        (0..100).for_each(|_| _ = worker.round());
        worker.spawn(async move |tx| everything(tx, tables, panics_at(AWAITS)).await, |_| ()).unwrap();
        let unwound = catch_unwind(AssertUnwindSafe(|| (0..100_000).for_each(|_| _ = worker.step())));
        assert!(unwound.is_err());
        assert_eq!((worker.open(), commits.get()), (1, 0));
        waits.set(false);
        if goes_on {
            while worker.round() {}
            assert_eq!((worker.open(), commits.get()), (0, 1));
        }
        drop(worker);
        clean(&mut db.worker());
        assert_eq!(others(&db, tables), u64::from(goes_on));
        assert_undone(&db, tables, u64::MAX);
    }
}

/// Proves that a panic at any await of a submitted transaction is its caller's error, and that others on the worker
/// continue.
#[test]
fn a_submitted_panic_at_every_await() {
    let (db, tables) = database(1);
    let token = Arc::new(());
    for n in 1..=AWAITS {
        let held = token.clone();
        let planted = panics_at(n);
        let before = others(&db, tables);
        let failing = db.run(async move |tx| {
            let _held = held.clone();
            everything(tx, tables, &planted).await
        });
        let going = db.run_all((0..10).map(|key| async move |tx: &Txn| count_up(tx, tables, key).await));
        match failing.wait() {
            Err(Error::Panicked(message)) => assert!(message.contains("planted"), "{message}"),
            other => panic!("await {n}: {other:?}"),
        }
        for handle in going {
            handle.wait().unwrap();
        }
        assert_eq!(others(&db, tables), before + 10);
        assert_eq!(Arc::strong_count(&token), 1, "await {n}");
    }
    settled(&db, tables);
}

/// Waits until the database's own workers have cleaned up. Idle workers do so, too.
fn settled(db: &Database, tables: Tables) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while db.statistics().memory.records != 3 * ROWS {
        assert!(Instant::now() < deadline, "records are not given back: {:?}", db.statistics());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_undone(db, tables, u64::MAX);
}

/// Proves that handles that are dropped at random times cancel their own transactions, or come too late, and have no
/// other effect.
#[test]
fn handles_dropped_at_any_time() {
    let (db, tables) = database(2);
    let token = Arc::new(());
    let mut random = Seeded::new(17);
    for _ in 0..500 {
        let held = token.clone();
        let handle = db.run(async move |tx| {
            let _held = held.clone();
            everything(tx, tables, || ()).await?;
            Err::<(), _>(Error::user("undone in any case"))
        });
        let counting = db.run(async move |tx| count_up(tx, tables, 3).await);
        for _ in 0..random.next_u64() % 4000 {
            std::hint::spin_loop();
        }
        drop(handle);
        counting.wait().unwrap();
    }
    for _ in 0..10_000 {
        if Arc::strong_count(&token) == 1 {
            break;
        }
        std::thread::yield_now();
        db.run(async move |_| Ok(())).wait().unwrap();
    }
    assert_eq!(Arc::strong_count(&token), 1);
    assert_eq!(others(&db, tables), 500);
    settled(&db, tables);
}

struct PanicsWhenDropped;
impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("planted in drop");
        }
    }
}

/// Proves that a captured value whose drop panics harms no other transaction: cancelled, locally, and submitted.
#[test]
fn a_panic_in_drop_is_survived() {
    let (db, tables) = database(0);
    for steps in [0, 1, 5, 20, 60] {
        let mut worker = seeded(&db, steps);
        let bomb = PanicsWhenDropped;
        let body = async move |tx: &Txn| {
            let _bomb = &bomb;
            everything(tx, tables, || ()).await?;
            std::future::pending::<()>().await;
            Ok(())
        };
        let slot = worker.spawn(body, |_| ()).unwrap();
        worker.spawn(async move |tx: &Txn| count_up(tx, tables, 1).await, |result| result.unwrap()).unwrap();
        for _ in 0..steps {
            worker.step();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| worker.cancel(slot))).is_err(), "{steps} steps");
        while worker.open() > 0 {
            worker.step();
        }
        worker.run(async |tx| count_up(tx, tables, 2).await).unwrap();
        clean(&mut worker);
        assert_undone(&db, tables, u64::MAX);
    }
    assert_eq!(others(&db, tables), 10);
    let (db, tables) = database(1);
    let bomb = PanicsWhenDropped;
    let failing = db.run(async move |tx| {
        let _bomb = &bomb;
        everything(tx, tables, || ()).await?;
        Err::<(), _>(Error::user("undone"))
    });
    let answer = failing.wait();
    assert!(matches!(answer, Err(Error::User(_) | Error::Panicked(_))), "{answer:?}");
    db.run(async move |tx| count_up(tx, tables, 2).await).wait().unwrap();
    settled(&db, tables);
}
