//! Where workers' time goes: what is measured, and that measuring does no harm.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::{Activity, Breakdown};
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Suspend};
use braiddb::worker::{BatchSize, WorkerOptions};
use braiddb::{Database, Durability, Error, Options, Serializable, Table};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

fn database() -> (Database, Table<u64, u64>) {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let table = db.table("t").unwrap();
    db.worker().run_each(0..1000u64, async |tx, key| tx.insert(table, *key, 0).await, |r| r.unwrap());
    (db, table)
}

fn fixed(batch: usize) -> WorkerOptions {
    WorkerOptions { batch: BatchSize::Fixed(batch), ..WorkerOptions::default() }
}

/// Work that takes time and is no operation.
fn think(steps: u64) {
    std::hint::black_box((0..steps).fold(1u64, |x, i| std::hint::black_box(x.wrapping_mul(31) ^ i)));
}

fn sum_of_shares(breakdown: &Breakdown) -> f64 {
    breakdown.shares().map(|(_, share)| share).sum()
}

/// Reads and writes some of the thousand rows.
fn work<S: Suspend>(db: &Database, table: Table<u64, u64>, policy: S, batch: usize) -> Breakdown {
    let before = db.statistics().breakdown;
    let mut worker = db.worker_with(policy, fixed(batch));
    worker.run_each(
        0..20_000u64,
        async |tx, i| {
            let (from, to) = (i * 7 % 1000, i * 13 % 1000);
            let value = tx.get(table, from).await?.unwrap_or(0);
            tx.put(table, to, value + 1).await
        },
        |result| assert!(matches!(result, Ok(()) | Err(Error::Conflict))),
    );
    drop(worker);
    db.statistics().breakdown.since(&before)
}

#[test]
fn every_mode_tells_where_its_time_goes() {
    // Proves that the parts of a transaction are measured in every way of running it, and that shares add up to 1.
    let (db, table) = database();
    db.set_profiling(true);
    for (mode, breakdown) in [
        ("naive", work(&db, table, Never, 1)),
        ("prefetch", work(&db, table, PrefetchOnly, 1)),
        ("interleaved", work(&db, table, OnMiss, 16)),
        ("alone", work(&db, table, OnMiss, 1)),
    ] {
        assert!(breakdown.rounds() > 10, "{mode}: {breakdown:?}");
        assert!((sum_of_shares(&breakdown) - 1.0).abs() < 1e-9, "{mode}: {breakdown:?}");
        use Activity::*;
        for activity in [Useful, Index, Versions, Control, Commit, Timestamps, Scheduling] {
            assert!(breakdown.ticks(activity) > 0, "{mode}, {}: {breakdown:?}", activity.name());
        }
    }
}

#[test]
fn nothing_is_measured_unasked() {
    // Proves that a database whose profiling is off, or off again, counts no tick.
    let (db, table) = database();
    let never = work(&db, table, OnMiss, 16);
    assert_eq!((never.total_ticks(), never.rounds()), (0, 0));
    assert_eq!(sum_of_shares(&never), 0.0);
    db.set_profiling(true);
    assert!(work(&db, table, OnMiss, 16).total_ticks() > 0);
    db.set_profiling(false);
    let after = work(&db, table, OnMiss, 16);
    assert_eq!((after.total_ticks(), after.rounds()), (0, 0));
}

#[test]
fn closures_that_think_are_useful() {
    // Proves that the time of the closure's own code is counted as such, with one open transaction and with many.
    let (db, table) = database();
    db.set_profiling(true);
    for batch in [1, 16] {
        let before = db.statistics().breakdown;
        db.worker_with(OnMiss, fixed(batch)).run_each(
            0..40_000u64,
            async |tx, i| {
                think(10_000);
                tx.get(table, i % 1000).await
            },
            |result| assert_eq!(result.unwrap(), Some(0)),
        );
        let breakdown = db.statistics().breakdown.since(&before);
        assert!(breakdown.share(Activity::Useful) > 0.7, "batch {batch}: {breakdown:?}");
    }
}

#[test]
fn conflicts_waste_time() {
    // Proves that work that conflicts undo is counted separately, with the pauses after conflicts, and that there is
    // none if nothing is undone.
    let (db, table) = database();
    db.set_profiling(true);
    let hot = |keys: u64| {
        let before = db.statistics();
        db.worker_with(OnMiss, fixed(16)).run_each(
            0..30_000u64,
            async |tx, i| {
                let key = i % keys;
                let value = tx.get(table, key).await?.unwrap_or(0);
                think(20);
                tx.put(table, key, value + 1).await?;
                tx.get(table, 999 - key).await.map(|_| ())
            },
            |result| result.unwrap(),
        );
        let after = db.statistics();
        (after.breakdown.since(&before.breakdown), after.aborts_conflict - before.aborts_conflict)
    };
    let (breakdown, conflicts) = hot(1);
    assert!(conflicts > 1000, "{conflicts}");
    assert!(breakdown.ticks(Activity::AbortedWork) > 0, "{breakdown:?}");
    assert!(breakdown.ticks(Activity::BackOff) > 0, "{breakdown:?}");
    let (breakdown, conflicts) = hot(400);
    assert_eq!((conflicts, breakdown.ticks(Activity::AbortedWork)), (0, 0), "{breakdown:?}");
}

#[test]
fn panics_and_cancellations_are_survived() {
    // Proves that a worker continues to measure after closures have panicked and transactions were cancelled, at any
    // place in a timed round.
    let (db, table) = database();
    db.set_profiling(true);
    let mut worker = db.worker_with(OnMiss, fixed(8));
    let panicked = Cell::new(0);
    for at in 0..300u64 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            worker.run_each(
                0..400u64,
                async |tx, i| {
                    tx.put(table, *i, 1).await?;
                    assert!(*i != at, "planned");
                    tx.get(table, *i).await.map(|_| ())
                },
                |result| result.unwrap(),
            );
        }));
        panicked.set(panicked.get() + u64::from(caught.is_err()));
    }
    assert_eq!(panicked.get(), 300);
    for i in 0..4_000 {
        let spawned = worker.spawn(async move |tx| tx.get(table, 1).await.map(|_| ()), |_| {}).unwrap();
        worker.round();
        if i % 3 == 0 {
            worker.cancel(spawned);
        }
    }
    while worker.open() > 0 {
        worker.round();
    }
    let before = db.statistics().breakdown;
    worker.run_each(
        0..10_000u64,
        async |tx, i| tx.get(table, i % 1000).await.map(|_| ()),
        |result| result.unwrap(),
    );
    let breakdown = db.statistics().breakdown.since(&before);
    assert!(breakdown.rounds() > 10 && breakdown.ticks(Activity::Index) > 0, "{breakdown:?}");
    assert_eq!(
        breakdown.ticks(Activity::AbortedWork),
        0,
        "what is left of others is not charged: {breakdown:?}"
    );
}

#[test]
fn it_can_be_switched_while_workers_run() {
    // Proves that switching at any time loses no transaction, and that the database's own workers follow the switch.
    let options = Options { workers: 2, durability: Durability::Sync, ..Options::default() };
    let db: Database<Serializable> = Database::in_memory(options).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, stop) = (&db, &stop);
        scope.spawn(move || {
            let mut is_on = true;
            // Relaxed: only the end is told.
            while !stop.load(Ordering::Relaxed) {
                db.set_profiling(is_on);
                is_on = !is_on;
                std::thread::yield_now();
            }
        });
        for _ in 0..20 {
            let each = db.run_each((0..2_000u64).collect(), async move |tx, key: &u64| {
                let value = tx.get(table, key % 64).await?.unwrap_or(0);
                tx.put(table, key % 64, value + 1).await
            });
            assert!(each.wait().unwrap().iter().all(Result::is_ok));
        }
        stop.store(true, Ordering::Relaxed); // Relaxed: as above
    });
    let counted: u64 = {
        let tx = db.begin().unwrap();
        (0..64).map(|key| tx.get(table, key).unwrap().unwrap()).sum()
    };
    assert_eq!(counted, 40_000);
    db.set_profiling(true);
    let before = db.statistics().breakdown;
    let each = db.run_each((0..40_000u64).collect(), async move |tx, key: &u64| {
        tx.get(table, key % 64).await.map(|_| ())
    });
    assert!(each.wait().unwrap().iter().all(Result::is_ok));
    let breakdown = db.statistics().breakdown.since(&before);
    assert!(breakdown.rounds() > 0 && breakdown.ticks(Activity::Index) > 0, "{breakdown:?}");
}
