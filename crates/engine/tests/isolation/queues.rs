//! Waits for a row that another transaction has: sleeping, the order of wake-ups, timeouts and deadlocks.

use super::{put, table_of, value};
use braiddb::error::{HolderKind, LockedRow};
use braiddb::suspend::{Never, OnMiss};
use braiddb::worker::WorkerOptions;
use braiddb::{Claim, Database, Error, Options, Result, Serializable, Snapshot, Table, Transaction, Txn};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

type Numbers = Table<u64, u64>;

/// Longer than any test takes, so no wait in a test ends because its time is over.
const LONG_MS: u64 = 120_000;

fn database(workers: usize, lock_wait_ms: u64) -> (Database, Numbers) {
    let options = Options { workers, lock_wait_ms, pin_workers: false, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let table = table_of(&db, &[(1, 10), (2, 20), (3, 30)]);
    (db, table)
}

/// Waits until this many waits for rows are charged to the account.
fn until_waiting(db: &Database, waiting: u64) {
    let began = Instant::now();
    while db.statistics().locks_awaited < waiting {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody waits");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The nanoseconds that the thread has been on a core, if the system reports them.
fn time_on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[test]
fn an_interactive_waiter_sleeps() {
    // Proves that a waiting thread takes next to no processor time, however long the holder is idle.
    let (db, table) = database(0, LONG_MS);
    let holder = db.begin().unwrap();
    holder.put(table, 1, 11).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let tx = db.begin().unwrap();
            let before = time_on_core_ns();
            let result = tx.get_for_update(table, 1).map(|found| found.is_some());
            (result, before.zip(time_on_core_ns()).map(|(before, after)| after - before))
        });
        until_waiting(&db, 1);
        thread::sleep(Duration::from_millis(400));
        drop(holder);
        let (result, on_core_ns) = waiter.join().unwrap();
        assert!(result.unwrap());
        assert!(on_core_ns.unwrap_or(0) < 40_000_000, "{on_core_ns:?} ns of 400 ms");
    });
}

/// Checks that a worker whose transaction waits for the holder of row 1 makes no rounds meanwhile, and at most
/// `rounds_max` in all.
fn check_worker_sleeps(
    rounds_max: u64,
    act: impl AsyncFn(&Txn, Numbers) -> Result<()> + Send + Copy + 'static,
) {
    let (db, table) = database(1, LONG_MS);
    let holder = db.begin().unwrap();
    holder.put(table, 1, 11).unwrap();
    let before = db.statistics().rounds;
    let waiter = db.run(async move |tx| act(tx, table).await);
    until_waiting(&db, 1);
    // The worker publishes its counts before it sleeps.
    let mut rounds = db.statistics().rounds;
    for calm in 0.. {
        assert!(calm < 100, "it does not come to rest");
        thread::sleep(Duration::from_millis(200));
        if std::mem::replace(&mut rounds, db.statistics().rounds) == db.statistics().rounds {
            break;
        }
    }
    assert!(rounds - before < rounds_max, "{} rounds", rounds - before);
    assert!(!waiter.is_done());
    holder.commit().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn a_worker_whose_transaction_waits_sleeps() {
    // Proves that neither a lock that is waited for nor a write that meets an idle transaction's write keeps a worker
    // busy, and that both continue when the idle transaction ends.
    check_worker_sleeps(200, async |tx, table| tx.get_for_update(table, 1).await.map(drop));
    check_worker_sleeps(50_000, async |tx, table| tx.put(table, 1, 12).await);
}

#[test]
fn a_write_that_meets_an_open_transaction_is_run_again_when_that_has_ended() {
    // Proves that a transaction that wants to write a row runs only once in vain, however long an open transaction has
    // the row, on a worker that interleaves and on a worker that does not.
    for interleaves in [true, false] {
        let (db, table) = database(0, LONG_MS);
        let holder = db.begin().unwrap();
        holder.put(table, 1, 11).unwrap();
        let attempts = AtomicUsize::new(0);
        let attempt = async |tx: &Txn| {
            attempts.fetch_add(1, SeqCst);
            tx.put(table, 1, 12).await
        };
        thread::scope(|scope| {
            let waiter = scope.spawn(|| match interleaves {
                true => db
                    .worker_with(OnMiss, WorkerOptions { batch: 4.into(), ..Default::default() })
                    .run(attempt),
                false => db.worker_with(Never, WorkerOptions::default()).run(attempt),
            });
            until_waiting(&db, 1);
            assert_eq!(attempts.load(SeqCst), 1, "interleaves: {interleaves}");
            holder.commit().unwrap();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(attempts.load(SeqCst), 2, "interleaves: {interleaves}");
        assert_eq!(value(&db, table, 1), Some(12));
    }
}

#[test]
fn a_waiter_is_woken_however_the_holder_ends() {
    // Proves that commit, abort, drop, and a panic of the holder end the wait, interactive and on a worker, for older
    // and younger holders.
    type End = fn(Transaction);
    let ends: [End; 4] = [
        |holder| holder.commit().unwrap(),
        |holder| holder.abort(),
        drop,
        |holder| {
            let result = catch_unwind(AssertUnwindSafe(move || {
                let _holder = holder;
                panic!("on purpose");
            }));
            assert!(result.is_err());
        },
    ];
    for end in ends {
        for is_older in [false, true] {
            let (db, table) = database(1, LONG_MS);
            let early = is_older.then(|| db.begin().unwrap());
            put(&db, table, &[(98, 0)]);
            let holder = db.begin().unwrap();
            assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
            let on_worker =
                db.run(async move |tx| tx.get_for_update(table, 1).await.map(|found| found.is_some()));
            until_waiting(&db, 1);
            thread::scope(|scope| {
                let db = &db;
                let interactive = scope.spawn(move || {
                    let tx = early.unwrap_or_else(|| db.begin().unwrap());
                    tx.get_for_update(table, 1).map(|found| found == Some(10))
                });
                until_waiting(db, 2);
                end(holder);
                assert!(interactive.join().unwrap().unwrap());
            });
            assert!(on_worker.wait().unwrap());
            assert_eq!(db.statistics().locks_awaited, 0);
        }
    }
}

fn locked_row(error: Error) -> Box<LockedRow> {
    match error {
        Error::LockTimeout(row) => row,
        other => panic!("{other}"),
    }
}

#[test]
fn a_wait_ends_by_its_time() {
    // Proves that a wait for a holder that never ends takes no longer than the database or the call says. The error
    // names table, key and holder, and the waiting transaction continues.
    let (db, table) = database(1, 150);
    let named: Table<String, u64> = db.table("names").unwrap();
    put(&db, table, &[(5, 0)]);
    let setting = db.begin().unwrap();
    setting.put(named, "Ada", 1).unwrap();
    setting.commit().unwrap();
    let holder = db.begin().unwrap();
    holder.put(table, 1, 11).unwrap();
    holder.put(named, "Ada", 2).unwrap();
    std::mem::forget(holder);

    let began = Instant::now();
    let tx = db.begin().unwrap();
    let row = locked_row(tx.get_for_update(named, "Ada").unwrap_err());
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert_eq!((&*row.table, &*row.key), ("names", "\"Ada\""));
    let holder = row.holder.unwrap();
    assert_eq!(holder.kind, HolderKind::Interactive);
    assert!(holder.open_for.unwrap() >= row.waited && row.waited >= Duration::from_millis(150));
    let asked = tx.with(async |tx| tx.get_for_update(table, 1).timeout(Duration::from_millis(20)).await);
    assert_eq!(locked_row(asked.unwrap_err()).key, "0x0000000000000001");
    let refused = tx.with(async |tx| tx.get_for_update(table, 1).timeout(Duration::ZERO).await);
    assert!(matches!(refused, Err(Error::RowLocked(_))), "{refused:?}");
    tx.put(table, 2, 21).unwrap();
    tx.commit().unwrap();

    // On a worker of the database, on a worker of the caller, and for a write that meets conflicts.
    let row =
        locked_row(db.run(async move |tx| tx.get_for_update(table, 1).await.map(drop)).wait().unwrap_err());
    assert!(row.waited >= Duration::from_millis(150), "{row:?}");
    let row =
        locked_row(db.worker().run(async |tx| tx.get_for_update(table, 1).await.map(drop)).unwrap_err());
    assert!(row.to_string().contains("interactive transaction"), "{row}");
    let error = db.run(async move |tx| tx.put(table, 1, 12).await).wait().unwrap_err();
    assert!(error.to_string().starts_with("row 0x0000000000000001 of table \"t\""), "{error}");
    let row = locked_row(error);
    assert_eq!(row.holder.unwrap().kind, HolderKind::Interactive);
    // On a worker that is only stepped.
    let mut worker = db.worker_with(OnMiss, WorkerOptions::default());
    let ended = std::rc::Rc::new(Cell::new(false));
    let end = ended.clone();
    let body = async move |tx: &Txn| tx.get_for_update(table, 1).await.map(drop);
    worker.spawn(body, move |result| end.set(matches!(result, Err(Error::LockTimeout(_))))).unwrap();
    while worker.open() > 0 {
        worker.step();
    }
    assert!(ended.get());
    assert_eq!(db.statistics().locks_awaited, 0);
}

#[test]
fn those_in_a_queue_are_served_in_order() {
    // Proves that the transaction that has waited longest gets the row next, on workers and threads, and that a
    // transaction that arrives when the row is free does not overtake it.
    let (db, table) = database(1, LONG_MS);
    let order = Mutex::new(Vec::new());
    let holder = db.begin().unwrap();
    assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
    let (tell, told) = channel();
    thread::scope(|scope| {
        for number in 0..10 {
            if number % 2 == 0 {
                let (db, order) = (&db, &order);
                scope.spawn(move || {
                    let tx = db.begin().unwrap();
                    tx.get_for_update(table, 1).unwrap();
                    order.lock().unwrap().push(number);
                    tx.commit().unwrap();
                });
            } else {
                let tell = tell.clone();
                let handle = db.run(async move |tx| {
                    tx.get_for_update(table, 1).await?;
                    tell.send(number).unwrap();
                    Ok(())
                });
                handle.detach();
            }
            until_waiting(&db, number + 1);
        }
        holder.commit().unwrap();
        assert_eq!(told.iter().take(5).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 2, 4, 6, 8]);
    until_nobody_waits(&db);
}

fn until_nobody_waits(db: &Database) {
    while db.statistics().locks_awaited > 0 {
        thread::yield_now();
    }
}

#[test]
fn one_that_leaves_the_queue_lets_the_next_have_its_turn() {
    // Proves that a cancelled waiter, first in the queue or not, delays no other transaction. Neither does a leaked
    // waiter once its transaction has ended.
    let (db, table) = database(1, LONG_MS);
    let holder = db.begin().unwrap();
    assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
    let lock = || db.run(async move |tx| tx.get_for_update(table, 1).await.map(drop));
    let handles: Vec<_> = (1..=4)
        .map(|waiting| {
            let handle = lock();
            until_waiting(&db, waiting);
            handle
        })
        .collect();
    let [first, second, third, last] = handles.try_into().ok().unwrap();
    drop(first);
    drop(third);
    let mut worker = db.worker();
    let forgets = worker.run(async |tx| {
        let mut lock = Box::pin(tx.get_for_update(table, 1));
        let polled = std::future::poll_fn(|context| {
            let polled = lock.as_mut().poll(context).is_pending();
            if db.statistics().locks_awaited > 2 || !polled { Poll::Ready(polled) } else { Poll::Pending }
        });
        assert!(polled.await, "it waits");
        std::mem::forget(lock);
        tx.put(table, 2, 21).await
    });
    forgets.unwrap();
    holder.commit().unwrap();
    second.wait().unwrap();
    last.wait().unwrap();
    until_nobody_waits(&db);
}

/// Runs this many transactions, each of which holds a row and asks for the next transaction's row. Every other one is
/// on a worker.
fn check_circle(members: u64) {
    let (db, table) = database(0, LONG_MS);
    put(&db, table, &(1..=members).map(|key| (key, 0)).collect::<Vec<_>>());
    let (all_hold, victims, began) = (Barrier::new(members as usize), AtomicUsize::new(0), Instant::now());
    thread::scope(|scope| {
        for key in 1..=members {
            let (db, all_hold, victims, next) = (&db, &all_hold, &victims, key % members + 1);
            scope.spawn(move || {
                if key % 2 == 0 {
                    let tx = db.begin().unwrap();
                    tx.get_for_update(table, key).unwrap();
                    all_hold.wait();
                    match tx.get_for_update(table, next) {
                        Ok(_) => tx.commit().unwrap(),
                        Err(Error::Deadlock(row)) => {
                            assert_eq!(row.table, "t");
                            victims.fetch_add(1, SeqCst);
                            assert!(matches!(tx.commit(), Err(Error::Conflict)), "it has to give way");
                        }
                        Err(error) => panic!("{error}"),
                    }
                    return;
                }
                let mut attempts = 0;
                let result = db.worker().run(async |tx| {
                    attempts += 1;
                    tx.get_for_update(table, key).await?;
                    if attempts == 1 {
                        all_hold.wait();
                    }
                    let found = tx.get_for_update(table, next).await;
                    assert!(matches!(found, Ok(_) | Err(Error::Deadlock(_))), "{found:?}");
                    found.map(drop)
                });
                result.unwrap();
                victims.fetch_add(attempts - 1, SeqCst);
            });
        }
    });
    assert_eq!(victims.into_inner(), 1, "one gives way, and is enough");
    assert!(began.elapsed() < Duration::from_millis(LONG_MS / 2), "found, not timed out");
    assert_eq!(db.statistics().locks_awaited, 0);
}

#[test]
fn a_cycle_is_found_when_it_closes() {
    // Proves that of 2, 3 and 10 transactions that would wait for each other, on workers and threads, exactly one
    // aborts, long before any time is over.
    [2, 3, 10].into_iter().for_each(check_circle);
}

#[test]
fn a_transaction_that_waits_twice_at_once_is_found_in_a_cycle() {
    // Proves that all edges of a transaction that waits for two rows are looked at. Asking twice for one row, while
    // the transaction waits for it and when it has it, is no cycle.
    let (db, table) = database(0, LONG_MS);
    let mut worker = db.worker();
    let holders = [1, 2].map(|key| {
        let tx = db.begin().unwrap();
        tx.get_for_update(table, key).unwrap();
        Cell::new(Some(tx))
    });
    let result = worker.run(async |tx| {
        tx.get_for_update(table, 3).await?;
        let mut locks = [1, 2, 2].map(|key| Box::pin(tx.get_for_update(table, key)));
        let mut left = 3;
        let mut is_done = [false; 3];
        std::future::poll_fn(|context| {
            for (lock, is_done) in locks.iter_mut().zip(&mut is_done) {
                if !*is_done && lock.as_mut().poll(context).map(|found| found.unwrap()).is_ready() {
                    *is_done = true;
                    left -= 1;
                }
            }
            if db.statistics().locks_awaited == 3 {
                let second = holders[1].take().unwrap();
                assert!(matches!(second.get_for_update(table, 3), Err(Error::Deadlock(_))));
                drop(second);
                drop(holders[0].take());
            }
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(tx.get_for_update(table, 1).await?, Some(10));
        Ok(())
    });
    result.unwrap();
    assert_eq!(db.statistics().locks_awaited, 0);
}

#[test]
fn a_row_taken_past_the_queue_closes_a_cycle_too() {
    // Proves that a row that a plain write takes, while others are in the queue for it, is known to be held by the
    // writer.
    let (db, table) = database(0, LONG_MS);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let holder = db.begin().unwrap();
        holder.get_for_update(table, 1).unwrap();
        let (db, barrier) = (&db, &barrier);
        let waiter = scope.spawn(move || {
            let tx = db.begin().unwrap();
            tx.put(table, 2, 21).unwrap();
            barrier.wait();
            let found = tx.get_for_update(table, 1).map(drop);
            (found, drop(tx)).0
        });
        barrier.wait();
        until_waiting(db, 1);
        let writer = db.begin().unwrap();
        drop(holder);
        // Either the waiter, whose turn it is, or this write is faster.
        if writer.put(table, 1, 11).is_ok() {
            let found = writer.get_for_update(table, 2).map(drop);
            drop(writer);
            let waited = waiter.join().unwrap();
            assert!(
                found.is_ok() || waited.is_ok() || matches!(waited, Err(Error::Conflict)),
                "{found:?} {waited:?}"
            );
        } else {
            drop(writer);
            waiter.join().unwrap().unwrap();
        }
        assert_eq!(db.statistics().locks_awaited, 0);
    });
}

#[test]
fn skipping_tells_locked_from_absent() {
    // Proves that a row that another transaction has is distinguished from a row that is absent or deleted.
    let (db, table) = database(0, LONG_MS);
    let holder = db.begin().unwrap();
    holder.put(table, 1, 11).unwrap();
    holder.delete(table, 2).unwrap();
    let claims = db.worker().run(async |tx| {
        let claim = async |key| tx.get_for_update(table, key).skip_locked().await;
        Ok([claim(1).await?, claim(2).await?, claim(3).await?, claim(4).await?])
    });
    assert_eq!(claims.unwrap(), [Claim::Locked, Claim::Locked, Claim::Row(30), Claim::Absent]);
    holder.commit().unwrap();
    let claims = db.worker().run(async |tx| {
        let claim = async |key| tx.get_for_update(table, key).skip_locked().await;
        Ok([claim(1).await?, claim(2).await?])
    });
    assert_eq!(claims.unwrap(), [Claim::Row(11), Claim::Absent]);
}

#[test]
fn many_threads_lock_few_rows() {
    // Workers and interactive transactions lock rows in any order and add to them. Proves that no addition is lost,
    // that no wait is endless, and that nothing remains in the queue.
    fn check<C: braiddb::ConcurrencyControl>() {
        const ROWS: u64 = 4;
        let options = Options { workers: 2, lock_wait_ms: LONG_MS, pin_workers: false, ..Options::default() };
        let db: Database<C> =
            Database::in_memory_with(options, std::sync::Arc::new(braiddb::metrics::SystemClock::default()))
                .unwrap();
        let table = table_of(&db, &[(0, 0), (1, 0), (2, 0), (3, 0)]);
        let handles: Vec<_> = (0..400_u64)
            .map(|number| {
                db.run(async move |tx| {
                    for key in [number % ROWS, (number / ROWS + 1) % ROWS] {
                        let old = tx.get_for_update(table, key).await?.unwrap();
                        tx.update(table, key, old + 1).await?;
                    }
                    Ok(())
                })
            })
            .collect();
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    for number in 0..60 {
                        let keys = [(thread + number) % ROWS, (thread + number / 7) % ROWS];
                        let tx = db.begin().unwrap();
                        let add = |key| {
                            let old = tx.get_for_update(table, key)?.unwrap();
                            tx.update(table, key, old + 1).map(drop)
                        };
                        match add(keys[0]).and_then(|()| add(keys[1])).and_then(|()| tx.commit()) {
                            Ok(()) => drop(done.fetch_add(2, SeqCst)),
                            Err(Error::Conflict | Error::Deadlock(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        for handle in handles {
            handle.wait().unwrap();
        }
        let sum: u64 = (0..ROWS).map(|key| value(&db, table, key).unwrap()).sum();
        assert_eq!(sum, 800 + done.into_inner() as u64);
        assert_eq!(db.statistics().locks_awaited, 0);
    }
    check::<Serializable>();
    check::<Snapshot>();
}

#[test]
fn a_future_that_is_polled_by_hand_waits_and_leaves() {
    // Proves that a lock that is dropped while it waits leaves the queue at once.
    let (db, table) = database(0, LONG_MS);
    let holder = db.begin().unwrap();
    holder.get_for_update(table, 1).unwrap();
    let mut worker = db.worker();
    worker
        .run(async |tx| {
            {
                let mut lock = pin!(tx.get_for_update(table, 1));
                std::future::poll_fn(|context| {
                    assert!(lock.as_mut().poll(context).is_pending());
                    let waits = db.statistics().locks_awaited == 1;
                    if waits { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                let mut context = Context::from_waker(Waker::noop());
                assert!(lock.as_mut().poll(&mut context).is_pending());
            }
            assert_eq!(db.statistics().locks_awaited, 0);
            tx.put(table, 2, 21).await
        })
        .unwrap();
}

/// Returns the next of a sequence of pseudo-random numbers.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn every_deadlock_is_found() {
    // Proves that transactions of a worker and of threads, which lock three of six rows in any order, all commit in
    // the end, and that none waits until its time is over. The worker's transactions are run again by the engine.
    const KEYS: u64 = 6;
    const THREADS: u64 = 8;
    const TRANSACTIONS: u64 = 150;
    const JOBS: u64 = 300;
    let (db, table) = database(1, 30_000);
    let tx = db.begin().unwrap();
    (0..KEYS).for_each(|key| tx.put(table, key, 0).unwrap());
    tx.commit().unwrap();
    let jobs = (0..JOBS).map(|mut seed| {
        db.run(async move |tx| {
            for _ in 0..3 {
                let key = random(&mut seed) % KEYS;
                let value = tx.get_for_update(table, key).await?.unwrap_or(0);
                tx.put(table, key, value + 1).await?;
            }
            Ok(())
        })
    });
    let jobs: Vec<_> = jobs.collect();
    let transact = |keys: &[u64]| {
        let tx = db.begin()?;
        for key in keys {
            let value = tx.get_for_update(table, *key)?.unwrap_or(0);
            tx.put(table, *key, value + 1)?;
        }
        tx.commit()
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut seed = 1000 + thread;
                for _ in 0..TRANSACTIONS {
                    let keys = [(); 3].map(|()| random(&mut seed) % KEYS);
                    while let Err(error) = transact(&keys) {
                        assert!(error.is_retryable(), "{error}");
                    }
                }
            });
        }
    });
    jobs.into_iter().for_each(|job| job.wait().unwrap());
    let tx = db.begin().unwrap();
    let sum: u64 = (0..KEYS).map(|key| tx.get(table, key).unwrap().unwrap()).sum();
    assert_eq!((sum, db.statistics().locks_awaited), (3 * (JOBS + THREADS * TRANSACTIONS), 0));
}

#[test]
fn a_forgotten_wait_takes_no_kept_turn_along() {
    // A transaction is run again with its turn for a row, has forgotten another wait before, and another transaction
    // has taken the row meanwhile. Proves that it joins the row's queue again. Otherwise it would try again and again
    // in one poll, for ever.
    let (db, table) = database(0, LONG_MS);
    let (other, holder) = (db.begin().unwrap(), db.begin().unwrap());
    other.put(table, 1, 11).unwrap();
    holder.put(table, 2, 21).unwrap();
    let (attempts, goes_on) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (of_body, gate, shared) = (attempts.clone(), goes_on.clone(), db.clone());
    let body = async move |tx: &Txn| {
        of_body.set(of_body.get() + 1);
        if of_body.get() == 1 {
            let mut lock = Box::pin(tx.get_for_update(table, 1));
            let until_queued = std::future::poll_fn(|context| {
                let polled = lock.as_mut().poll(context);
                assert!(polled.is_pending(), "it waits");
                if shared.statistics().locks_awaited == 1 { Poll::Ready(()) } else { Poll::Pending }
            });
            until_queued.await;
            std::mem::forget(lock);
        } else {
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if gate.get() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        tx.get_for_update(table, 2).await.map(drop)
    };
    let mut worker = db.worker_with(OnMiss, WorkerOptions::default());
    worker.spawn(body, |result| result.unwrap()).unwrap();
    while db.statistics().locks_awaited < 2 {
        worker.step();
    }
    holder.commit().unwrap();
    while attempts.get() < 2 {
        worker.step();
    }
    let taker = db.begin().unwrap();
    taker.put(table, 2, 22).unwrap();
    goes_on.set(true);
    while db.statistics().locks_awaited == 0 {
        worker.step();
    }
    taker.commit().unwrap();
    while worker.open() > 0 {
        worker.step();
    }
    assert_eq!(db.statistics().locks_awaited, 0);
}

#[test]
fn one_transaction_waits_many_times_for_a_row() {
    // Proves that the transaction takes all of its places at once, and is not taken for waiting for itself through
    // another transaction between the places.
    const WAITS: u64 = 2000;
    let (db, table) = database(1, LONG_MS);
    let holder = db.begin().unwrap();
    holder.get_for_update(table, 1).unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let (of_body, shared) = (attempts.clone(), db.clone());
    let many = db.run(async move |tx| {
        of_body.fetch_add(1, SeqCst);
        let mut first = pin!(tx.get_for_update(table, 1));
        let until_between = std::future::poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending(), "it waits");
            context.waker().wake_by_ref();
            if shared.statistics().locks_awaited >= 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        until_between.await;
        let rest = (1..WAITS).map(|_| tx.get_for_update(table, 1));
        let (first, rest) = futures::join!(first, futures::future::join_all(rest));
        first?;
        rest.into_iter().try_for_each(|lock| lock.map(drop))
    });
    until_waiting(&db, 1);
    let between = db.run(async move |tx| tx.get_for_update(table, 1).await.map(drop));
    until_waiting(&db, WAITS + 1);
    holder.abort();
    many.wait().unwrap();
    between.wait().unwrap();
    assert_eq!((attempts.load(SeqCst), db.statistics().locks_awaited), (1, 0));
}
