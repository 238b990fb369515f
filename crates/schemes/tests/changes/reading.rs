//! When a change is handed out, how to wait for it, and logs that are not as they were written.

use crate::{Replica, memory, open, open_async, options, put};
use braiddb::metrics::SystemClock;
use braiddb::storage::{OpenMode, Storage};
use braiddb::testing::PlantedDurability;
use braiddb::{AnyScheme, Database, Durability, Error, Options, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Proves that nothing arrives before it is durable, and that everything arrives once it is.
#[test]
fn only_what_is_durable() {
    let storage = memory();
    let stepped = Options { durability: Durability::Async, ..options() };
    let clock = Arc::new(SystemClock::default());
    let (db, mut threads) =
        Database::<AnyScheme>::open_stepped(storage.clone(), stepped, clock, PlantedDurability::None)
            .unwrap();
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut expected = 1; // the table's creation
    for round in 0..200 {
        for key in 0..round % 5 {
            put(&db, table, key, round);
            expected += 1;
        }
        assert!(changes.try_next().unwrap().is_none(), "it is not durable");
        assert!(matches!(changes.wait_next(), Err(Error::WouldDeadlock)));
        threads.flush().unwrap();
        while let Some(transaction) = changes.try_next().unwrap() {
            assert_eq!(transaction.changes().count(), 1);
            expected -= 1;
        }
        assert_eq!(expected, 0);
    }
    put(&db, table, 1, 1);
    assert!(matches!(db.change_position(), Err(Error::OutcomeUnknown)));
    threads.flush().unwrap();
    assert!(db.change_position().is_ok());
    drop(changes);
    drop(db);
    threads.close().unwrap();
}

/// Proves that waiting ends when a change arrives, when the time is over, and when the database is closed.
#[test]
fn waiting() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut changes = db.changes(db.change_position().unwrap()).unwrap();
    let begin = Instant::now();
    assert!(changes.next_timeout(Duration::from_millis(30)).unwrap().is_none());
    assert!(begin.elapsed() >= Duration::from_millis(30));
    assert!(changes.next_timeout(Duration::ZERO).unwrap().is_none());
    let waits = thread::spawn(move || {
        let next = changes.wait_next().unwrap();
        assert!(next.is_some());
        changes
    });
    thread::sleep(Duration::from_millis(20));
    put(&db, table, 1, 1);
    let mut changes = waits.join().unwrap();
    let waits = thread::spawn(move || changes.wait_next().map(drop));
    thread::sleep(Duration::from_millis(20));
    db.close().unwrap();
    assert!(matches!(waits.join().unwrap(), Err(Error::Closed)));
}

/// Proves that nothing more is read from the files of a closed database, because another process may own them.
#[test]
fn closed_databases() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    put(&db, table, 1, 1);
    changes.wait_next().unwrap().unwrap();
    let position = changes.position();
    db.close().unwrap();
    assert!(matches!(changes.try_next(), Err(Error::Closed)));
    assert!(matches!(changes.next_timeout(Duration::from_secs(5)), Err(Error::Closed)));
    assert_eq!(changes.position(), position);
    let db = open(&storage);
    assert!(matches!(changes.try_next(), Err(Error::Closed)));
    let next = db.changes(position).unwrap().wait_next().unwrap().unwrap();
    assert_eq!(next.changes().next().unwrap().decode::<u64, u64>().unwrap(), Some((1, Some(1))));
}

#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Proves that a task is woken when a change has arrived, and when no more can arrive. Asking twice does not make a
/// second waiter.
#[test]
fn tasks_are_woken() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut changes = db.changes(db.change_position().unwrap()).unwrap();
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    for round in 1..=3 {
        assert!(changes.poll_next(&mut context).is_pending());
        {
            let mut future = std::pin::pin!(changes.next_async());
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        put(&db, table, round, round);
        let begin = Instant::now();
        while wakes.0.load(Relaxed) < round {
            assert!(begin.elapsed() < Duration::from_secs(20));
            thread::yield_now();
        }
        let Poll::Ready(Ok(Some(transaction))) = changes.poll_next(&mut context) else {
            panic!("it was woken")
        };
        let row = transaction.changes().next().unwrap().decode::<u64, u64>().unwrap();
        assert_eq!(row, Some((round, Some(round))));
    }
    assert!(changes.poll_next(&mut context).is_pending());
    assert_eq!(wakes.0.load(Relaxed), 3);
    db.close().unwrap();
    assert_eq!(wakes.0.load(Relaxed), 4);
    assert!(matches!(changes.poll_next(&mut context), Poll::Ready(Err(Error::Closed))));
}

/// Proves that a reader keeps only the last waker, whatever number of tasks have asked while nothing arrived, and no
/// waker once it was dropped.
#[test]
fn wakers_do_not_pile_up() {
    let db = open(&memory());
    let mut changes = db.changes(db.change_position().unwrap()).unwrap();
    let tasks: Vec<Arc<Wakes>> = (0..10_000).map(|_| Arc::default()).collect();
    for task in &tasks {
        let waker = Waker::from(task.clone());
        assert!(changes.poll_next(&mut Context::from_waker(&waker)).is_pending());
    }
    let kept = |tasks: &[Arc<Wakes>]| tasks.iter().filter(|task| Arc::strong_count(task) > 1).count();
    assert_eq!((kept(&tasks), kept(&tasks[..tasks.len() - 1])), (1, 0));
    drop(changes);
    assert_eq!(kept(&tasks), 0);
}

fn read_only(storage: &Arc<dyn Storage>) -> Database<AnyScheme> {
    Database::read_with(storage.clone(), options(), Arc::new(SystemClock::default()), &mut |_| {}).unwrap()
}

/// Proves that the log of a database that was closed in order can be read to its end, where nothing is waited for.
#[test]
fn databases_that_are_only_read() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    (0..500).for_each(|key| put(&db, table, key % 90, key));
    let middle = db.change_position().unwrap();
    db.clear(table).unwrap();
    put(&db, table, 1, 1);
    db.close().unwrap();
    let db = read_only(&storage);
    let mut replica = Replica::from_oldest(&db);
    let mut changes = db.changes(replica.position).unwrap();
    while let Some(transaction) = changes.wait_next().unwrap() {
        replica.apply(&transaction);
    }
    replica.check(&db);
    assert_eq!(changes.position(), db.change_position().unwrap());
    let mut changes = db.changes(middle).unwrap();
    assert_eq!(std::iter::from_fn(|| changes.wait_next().unwrap()).count(), 2);
    drop(db);
    assert!(matches!(changes.try_next(), Err(Error::Closed)));
}

/// Proves that after a crash the last run of the log, which was only found there, does not arrive until it was made
/// durable.
#[test]
fn the_last_run_of_a_log_that_was_not_closed() {
    let storage = crate::lossy::Lossy::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let db = open(&shared);
    let table: Table<u64, u64> = db.table("t").unwrap();
    (0..5).for_each(|key| put(&db, table, key, key)); // one run each
    let seen = db.change_position().unwrap();
    let left: Arc<dyn Storage> = Arc::new(storage.crash(&mut crate::Random(5)));
    drop(db);
    let db = read_only(&left);
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    let count = std::iter::from_fn(|| changes.try_next().unwrap()).count();
    assert_eq!((count, crate::contents(&db)["t"].len()), (5, 5), "the table, and four of five rows");
    assert!(db.changes(seen).unwrap().wait_next().unwrap().is_none());
    drop(db);
    let db = open(&left);
    let mut replica = Replica::from_oldest(&db);
    replica.catch_up(&db).unwrap();
    replica.check(&db);
}

/// Proves that every flipped bit of a log is an error or belongs to no record. What was written before it is
/// unchanged, and nothing panics.
#[test]
fn damaged_logs() {
    let storage = memory();
    let db = open_async(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    let oldest = db.oldest_change_position().unwrap();
    (0..300).for_each(|key| put(&db, table, key, key)); // more than one segment
    let reached = db.change_position().unwrap();
    let read = || -> (Vec<u64>, bool) {
        let mut changes = match db.changes(oldest) {
            Ok(changes) => changes,
            Err(error) => panic!("{error}"),
        };
        let mut found = Vec::new();
        loop {
            match changes.next_before(reached) {
                Ok(Some(transaction)) => found.push(transaction.position().lsn().0),
                Ok(None) => return (found, true),
                Err(Error::Log(_) | Error::NoSuchPosition { .. }) => {
                    // The reader does not continue behind damage.
                    assert!(changes.try_next().is_err());
                    return (found, false);
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let (whole, is_whole) = read();
    assert!(is_whole && whole.len() == 301);
    let first = storage.list().unwrap().into_iter().find(|name| name.starts_with("log-")).unwrap();
    let file = storage.open(&first, OpenMode::ReadWrite).unwrap();
    let mut damaged = 0;
    for at in (0..file.len_bytes().unwrap()).step_by(7) {
        let mut byte = [0];
        file.read_exact_at(at, &mut byte).unwrap();
        file.write_all_at(at, &[byte[0] ^ 1 << (at % 8)]).unwrap();
        let (found, is_whole) = read();
        assert!(whole.starts_with(&found));
        assert_eq!(is_whole, found.len() == whole.len());
        damaged += u64::from(!is_whole);
        file.write_all_at(at, &byte).unwrap();
    }
    assert!(damaged > 2000, "{damaged}");
    assert!(read().1);
}
