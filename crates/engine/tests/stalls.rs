//! A disk that does not answer, or has no room although room was promised. No caller waits without end, and each
//! learns why. Transactions that do not need the disk continue, and all continue when the disk does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod troubled;

use braiddb::metrics::{Event, LogCondition, SystemClock};
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend, Teams};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Durability, Error, Options, Snapshot, Table, Txn, wal};
use futures::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use troubled::{Trouble, Troubled};

/// How long calls wait here, and the time below which a call counts as not having waited.
const WAIT: Duration = Duration::from_millis(1500);
const AT_ONCE: Duration = Duration::from_millis(700);

fn open(storage: &Troubled) -> Result<Database, Error> {
    let log_wait_ms = WAIT.as_millis() as u64;
    let options = Options {
        workers: 2,
        pin_workers: false,
        log_segment_bytes: 1 << 20,
        log_wait_ms,
        ..Options::default()
    };
    Database::open_with(Arc::new(storage.clone()), options, Arc::new(SystemClock::default()), &mut |_| {})
}

fn put(db: &Database, table: Table<u64, u64>, key: u64, value: u64) -> Result<(), Error> {
    db.run(async move |tx| tx.put(table, key, value).await).wait()
}

fn get(db: &Database, table: Table<u64, u64>, key: u64) -> Result<Option<u64>, Error> {
    db.run(async move |tx| tx.get(table, key).await).wait()
}

fn sum(db: &Database, table: Table<u64, u64>) -> Result<u64, Error> {
    let scan = db.run(async move |tx| {
        let (mut rows, mut sum) = (tx.scan_all(table), 0);
        while let Some((_, value)) = rows.next().await? {
            sum += value;
        }
        Ok(sum)
    });
    scan.wait()
}

fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    (act(), start.elapsed())
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Log(wal::Error::Full(_)))
}

/// While the disk is in this trouble, a commit waits for `WAIT` and is told that it is not known to be durable. Later
/// commits are refused. Readers of durable data are answered at once, and readers of other data are not.
fn stalls(trouble: Trouble, reason: &str, cause: &str) {
    let storage = Troubled::new();
    let db = open(&storage).unwrap();
    let (events, told) = std::sync::mpsc::channel();
    db.on_event(move |event| drop(events.send(event.clone())));
    let (old, new): (Table<u64, u64>, Table<u64, u64>) = (db.table("old").unwrap(), db.table("new").unwrap());
    (0..100).for_each(|key| put(&db, old, key, 1).unwrap());
    put(&db, new, 1, 1).unwrap();
    storage.begin(trouble);
    let interactive = db.begin().unwrap();
    interactive.put(new, 3, 3).unwrap();
    let (results, waited) = timed(|| {
        std::thread::scope(|scope| {
            // If writes are refused, the log takes nothing more, so only one of the two commits would be appended.
            let other = (trouble == Trouble::SyncsHang).then(|| scope.spawn(|| interactive.commit()));
            let result = put(&db, new, 2, 2);
            [Some(result), other.map(|other| other.join().unwrap())]
        })
    });
    for error in results.into_iter().flatten().map(Result::unwrap_err) {
        assert!(matches!(error, Error::Stalled { .. }) && error.to_string().contains(reason), "{error}");
    }
    assert!(waited >= WAIT - AT_ONCE && waited < 5 * WAIT, "{waited:?}");

    // Reads of durable data, in each way, and of data that is not durable.
    let ((read, scanned), waited) = timed(|| (get(&db, old, 7), sum(&db, old)));
    assert_eq!((read.unwrap(), scanned.unwrap()), (Some(1), 100));
    assert!(waited < AT_ONCE, "{waited:?}");
    assert_eq!(get(&db, new, 1).unwrap(), Some(1));
    for result in [get(&db, new, 2).map(drop), sum(&db, new).map(drop)] {
        assert!(matches!(result, Err(Error::Stalled { .. })), "{result:?}");
    }
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(old, 7).unwrap(), Some(1));
    tx.commit().unwrap();
    let declared = db.run(async move |tx| {
        tx.declare_read_only();
        tx.get(old, 8).await
    });
    assert_eq!(declared.wait().unwrap(), Some(1));

    // A write is refused, and leaves nothing.
    let (result, waited) = timed(|| put(&db, old, 3, 3));
    let error = result.unwrap_err();
    assert!(is_refused(&error) && error.to_string().contains(cause), "{error}");
    assert!(waited < AT_ONCE, "{waited:?}");
    let tx = db.begin().unwrap();
    tx.put(old, 3, 3).unwrap();
    assert!(is_refused(&tx.commit().unwrap_err()));
    let mut worker = db.worker();
    assert!(is_refused(&worker.run(async |tx| tx.put(old, 3, 3).await).unwrap_err()));
    drop(worker);
    assert!(matches!(db.checkpoint(), Err(Error::CheckpointFailed(_))));
    let statistics = db.statistics();
    assert!(
        matches!(&statistics.log_condition, LogCondition::Stalled { for_ns, cause: why }
        if u128::from(*for_ns) >= WAIT.as_nanos() && why.contains(cause)),
        "{:?}",
        statistics.log_condition
    );
    assert_eq!((statistics.log.stalls, statistics.checkpoints.failed), (1, 1));
    assert!(statistics.checkpoints.last_error.is_some());

    storage.end(trouble);
    let deadline = Instant::now() + 20 * WAIT;
    while let Err(error) = put(&db, old, 3, 4) {
        assert!(is_refused(&error) && Instant::now() < deadline, "{error}");
    }
    assert_eq!(get(&db, new, 2).unwrap(), Some(2));
    db.checkpoint().unwrap();
    let statistics = db.statistics();
    assert_eq!(statistics.log_condition, LogCondition::Good);
    assert_eq!((statistics.checkpoints.made, statistics.checkpoints.last_number.is_some()), (1, true));
    assert!(statistics.checkpoints.last_ago_ns.is_some() && statistics.checkpoints.lag_bytes < 4096);
    db.close().unwrap();
    let events: Vec<Event> = told.try_iter().collect();
    let is_told = |is: &dyn Fn(&Event) -> bool| assert!(events.iter().any(is), "{events:?}");
    is_told(&|event| matches!(event, Event::Log(LogCondition::Stalled { .. })));
    is_told(&|event| matches!(event, Event::CheckpointFailed { .. }));
    is_told(&|event| matches!(event, Event::CheckpointMade { .. }));
}

#[test]
fn a_sync_that_does_not_return() {
    let slow = "a write or a sync of";
    stalls(Trouble::SyncsHang, slow, slow);
}

#[test]
fn a_write_that_finds_no_room() {
    stalls(Trouble::Full, "the disk has no room", "make room on the device");
}

/// Proves that a reader that has found a row deleted, whose deletion is not durable, is not answered as if it were,
/// also when nothing remains of the row. A reader that has found nothing where there never was a row is answered.
#[test]
fn a_row_that_is_gone() {
    let storage = Troubled::new();
    let db = open(&storage).unwrap();
    let table = db.table("t").unwrap();
    put(&db, table, 1, 1).unwrap();
    storage.begin(Trouble::SyncsHang);
    let mut worker = db.worker();
    let deleted = worker.run(async |tx| {
        tx.set_durability(Durability::Async)?;
        tx.delete(table, 1).await
    });
    assert!(deleted.unwrap());
    while db.statistics().log.stalls == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    while worker.maintain() || db.maintain() {}
    for _ in 0..100 {
        worker.maintain();
        db.maintain();
    }
    assert!(matches!(get(&db, table, 1), Err(Error::Stalled { .. })));
    storage.end(Trouble::SyncsHang);
    drop(worker);
    let deadline = Instant::now() + 20 * WAIT;
    let found = loop {
        match get(&db, table, 1) {
            Ok(found) => break found,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(found, None);
}

/// Proves that closing ends with an error while the disk does not answer, that no other process gets the directory
/// before the write has returned, and that everything acknowledged is there then.
#[test]
fn closing_a_disk_that_does_not_answer() {
    let storage = Troubled::new();
    let db = open(&storage).unwrap();
    let table = db.table("t").unwrap();
    put(&db, table, 1, 1).unwrap();
    storage.begin(Trouble::SyncsHang);
    let waits = db.run(async move |tx| tx.put(table, 2, 2).await);
    std::thread::sleep(Duration::from_millis(50));
    let (closed, waited) = timed(|| db.close());
    let error = closed.unwrap_err();
    assert!(is_refused(&error), "{error}");
    assert!(waited < 5 * WAIT, "{waited:?}");
    let error = waits.wait().unwrap_err();
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert!(matches!(open(&storage).unwrap_err(), Error::Storage(_)));
    storage.end(Trouble::SyncsHang);
    let deadline = Instant::now() + 20 * WAIT;
    let db = loop {
        match open(&storage) {
            Ok(db) => break db,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let table = db.table("t").unwrap();
    assert_eq!((get(&db, table, 1).unwrap(), get(&db, table, 2).unwrap()), (Some(1), Some(2)));
}

/// Proves that a call for a checkpoint does not wait without end for a disk that does not answer, also if the log's
/// disk does, and that the next checkpoint is made when the disk answers again.
#[test]
fn a_checkpoint_on_a_disk_that_does_not_answer() {
    let storage = Troubled::new();
    let db = open(&storage).unwrap();
    let table = db.table("t").unwrap();
    put(&db, table, 1, 1).unwrap();
    storage.begin(Trouble::OtherSyncsHang);
    let (made, waited) = timed(|| db.checkpoint());
    let error = made.unwrap_err();
    assert!(matches!(error, Error::CheckpointFailed(_)), "{error}");
    assert!(WAIT <= waited && waited < 5 * WAIT, "{waited:?}: {error}");
    storage.end(Trouble::OtherSyncsHang);
    db.checkpoint().unwrap();
    assert_eq!(get(&db, table, 1).unwrap(), Some(1));
    db.close().unwrap();
}

/// Commits wait for room in the log while other transactions of their worker read what they write, with more reads at
/// once than a transaction has slots. Proves that none aborts, under any policy, because nothing conflicts.
#[test]
fn reads_beside_commits_that_want_room() {
    reads_beside_commits(Never);
    reads_beside_commits(PrefetchOnly);
    reads_beside_commits(OnMiss);
    reads_beside_commits(Teams);
    reads_beside_commits(Seeded::new(3));
}

fn reads_beside_commits<S: Suspend>(policy: S) {
    const ROWS: u64 = 64;
    const VALUE: [u8; 4096] = [1; 4096];
    const HANG: Duration = Duration::from_millis(300);
    let storage = Troubled::new();
    let options = Options { workers: 0, log_buffer_bytes: 64 << 10, ..Options::default() };
    let clock = Arc::new(SystemClock::default());
    let db: Database<Snapshot> =
        Database::open_with(Arc::new(storage.clone()), options, clock, &mut |_| {}).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    db.transact(|tx| tx.put(table, 0, &VALUE)).unwrap();
    let options = WorkerOptions { batch: 16.into(), batch_max: 16, ..WorkerOptions::default() };
    let mut worker = db.worker_with(policy, options);
    worker.set_retries_max(0);
    let body = async |tx: &Txn<Snapshot>, key: &u64| {
        for row in join_all((0..12).map(|at| tx.get(table, (key + ROWS - at) % ROWS))).await {
            row?;
        }
        tx.put(table, key, &VALUE).await
    };
    storage.begin(Trouble::SyncsHang);
    let mut committed = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(HANG);
            storage.end(Trouble::SyncsHang);
        });
        worker.run_each(0..ROWS, body, |ended| {
            ended.unwrap();
            committed += 1;
        });
    });
    assert_eq!(committed, ROWS);
}
