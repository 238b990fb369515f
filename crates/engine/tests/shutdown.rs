//! Closing a database that has other handles, workers and transactions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod troubled;

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{Database, Durability, Error, Options, Table, wal};
use futures::executor::block_on;
use std::future::pending;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, UNIX_EPOCH};
use troubled::{Trouble, Troubled};

fn options() -> Options {
    Options {
        workers: 2,
        batch: 8.into(),
        log_segment_bytes: 1 << 20,
        log_wait_ms: 300,
        ..Options::default()
    }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 28))
}

fn open(storage: &Arc<dyn Storage>, options: Options) -> Result<Database, Error> {
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
}

fn table(db: &Database) -> Table<u64, u64> {
    db.table("t").unwrap()
}

fn put(db: &Database, key: u64, value: u64) -> Result<(), Error> {
    let table = table(db);
    db.run(async move |tx| tx.put(table, key, value).await).wait()
}

fn get(db: &Database, key: u64) -> Option<u64> {
    db.begin().unwrap().get(table(db), key).unwrap()
}

fn is_closed<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Closed))
}

/// Fails unless everything that begins something is refused, and everything that asks for something answers.
fn check_refusals(db: &Database, table: Table<u64, u64>) {
    let get = async move |tx: &braiddb::Txn| tx.get(table, 1).await;
    assert!(is_closed(&db.run(get).wait()) && is_closed(&db.run_once(get).wait()));
    assert!(is_closed(&db.try_run(get)) && is_closed(&block_on(db.run_async(get))));
    assert!(db.run_all([get, get]).into_iter().all(|handle| is_closed(&handle.wait())));
    let each = db.run_each(vec![1, 2], async move |tx, key: &u64| tx.get(table, *key).await);
    assert!(each.wait().unwrap().iter().all(is_closed));
    assert!(is_closed(&db.begin()) && is_closed(&db.transact(|tx| tx.get(table, 1))));
    assert!(is_closed(&db.table::<u64, u64>("t")) && is_closed(&db.table::<u64, u64>("new")));
    for refused in [db.clear(table), db.rename_table("t", "u"), db.drop_table("t"), db.checkpoint()] {
        assert!(is_closed(&refused), "{refused:?}");
    }
    assert!(is_closed(&db.index(table, "i", |_, value: u64| Some(value))));
    assert!(is_closed(&db.projection(table, "p", |_, value| Some((value,)))));
    assert!(is_closed(&db.freeze(table)) && is_closed(&db.thaw(table)));
    assert!(db.statistics().memory.records > 0);
    let clone = db.clone();
    assert!(matches!(clone.close(), Err(Error::InUse)));
}

/// Proves that all handles are closed, that the directory is free and as after an orderly close, and that what remains
/// of the closed database does nothing to the database that is open then.
#[test]
fn a_directory_is_free_again() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    let (other, t) = (db.clone(), table(&db));
    (0..100).for_each(|key| put(&db, key, key).unwrap());
    assert!(matches!(open(&storage, options()), Err(Error::Storage(_))));
    let publisher = db.publish_statistics(Duration::from_secs(1)).unwrap();
    other.shutdown().unwrap();
    assert!(publisher.take_error().is_none());

    let again = open(&storage, options()).unwrap();
    assert!(again.recovery().unwrap().was_closed);
    check_refusals(&db, t);
    assert!(is_closed(&db.publish_statistics(Duration::from_secs(1)).map(drop)));
    let position = db.change_position();
    assert!(is_closed(&position) && is_closed(&db.oldest_change_position()));
    db.on_event(|_| {});
    assert!(db.recovery().is_some());
    db.shutdown().unwrap();
    put(&again, 1, 1000).unwrap();
    drop((db, other, publisher));
    put(&again, 2, 2000).unwrap();
    again.shutdown().unwrap();
    drop(again);

    let last = open(&storage, options()).unwrap();
    assert!(last.recovery().unwrap().was_closed);
    assert_eq!([0, 1, 2].map(|key| get(&last, key)), [Some(0), Some(1000), Some(2000)]);
}

/// Proves the same of a database in memory.
#[test]
fn a_database_in_memory_is_closed() {
    let db = Database::in_memory(options()).unwrap();
    let t = table(&db);
    put(&db, 1, 1).unwrap();
    db.shutdown().unwrap();
    check_refusals(&db, t);
    db.close().unwrap();
}

/// Proves that a database that was opened read-only is closed, and others can then write.
#[test]
fn a_reader_is_closed() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    put(&db, 1, 1).unwrap();
    db.close().unwrap();
    let clock = Arc::new(SystemClock::default());
    let reader = Database::read_with(storage.clone(), options(), clock, &mut |_| {}).unwrap();
    assert_eq!(get(&reader, 1), Some(1));
    assert!(open(&storage, options()).is_err());
    reader.shutdown().unwrap();
    put(&open(&storage, options()).unwrap(), 1, 2).unwrap();
    assert!(is_closed(&reader.begin()));
}

/// Proves that every submitted transaction has an answer when the call returns, to whichever of several threads, and
/// that what was reported as committed is there.
#[test]
fn all_get_answers() {
    for round in 0..20 {
        let storage = memory();
        let db = open(&storage, options()).unwrap();
        let t = table(&db);
        let stuck = db.run(async |_| pending::<Result<(), Error>>().await);
        let start = Barrier::new(5);
        let committed: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (db, start) = (db.clone(), &start);
                    scope.spawn(move || {
                        start.wait();
                        let keys = (writer..).step_by(2).map(|key| {
                            let put = db.run(async move |tx| tx.put(t, key, key).await).wait();
                            assert!(matches!(put, Ok(()) | Err(Error::Closed | Error::Cancelled)), "{put:?}");
                            put.map(|()| key)
                        });
                        keys.map_while(Result::ok).collect::<Vec<u64>>()
                    })
                })
                .collect();
            for _ in 0..3 {
                scope.spawn(|| {
                    start.wait();
                    std::thread::sleep(Duration::from_millis(round % 5));
                    db.shutdown().unwrap();
                    assert!(stuck.is_done());
                });
            }
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        assert!(matches!(stuck.wait(), Err(Error::Cancelled | Error::Closed)));
        let again = open(&storage, options()).unwrap();
        let tx = again.begin().unwrap();
        let t = table(&again);
        assert!(committed.iter().all(|&key| tx.get(t, key).unwrap() == Some(key)));
    }
}

/// Makes calls of every kind until the database is closed. Returns the keys that were committed.
fn use_until_closed(db: &Database, t: Table<u64, u64>, user: u64) -> Vec<u64> {
    let mut committed = Vec::new();
    let mut worker = db.worker();
    for call in 0u64.. {
        let key = call * 10 + user;
        let result = match (call + user) % 10 {
            0 => db.table::<u64, u64>(&format!("table {call}")).map(drop),
            1 => db.checkpoint(),
            2 => db.change_position().and_then(|from| db.changes(from).map(drop)),
            3 => db.publish_statistics(Duration::from_secs(1)).map(drop),
            4 => db.begin().and_then(|tx| tx.get(t, key)).map(drop),
            5 => db.rename_table(&format!("table {user}"), "renamed").map(drop),
            6 => worker.run(async |tx| tx.put(t, key, key).await),
            7 => db.transact(|tx| tx.put(t, key, key)),
            8 => block_on(db.run_async(async move |tx| tx.put(t, key, key).await)),
            _ => db.run(async move |tx| tx.put(t, key, key).await).wait(),
        };
        match result {
            Ok(()) if (call + user) % 10 >= 6 => committed.push(key),
            Err(Error::Closed | Error::Cancelled) => break,
            Err(Error::CheckpointFailed(cause)) if matches!(*cause, Error::Closed) => break,
            Ok(()) | Err(Error::NoTable { .. } | Error::TableExists { .. }) => {}
            Err(_) if (call + user) % 10 == 2 => {} // without a log there are no changes to follow
            Err(error) => panic!("call {call} of user {user}: {error:?}"),
        }
    }
    committed
}

/// Options with a log and without.
fn both_kinds() -> [Options; 2] {
    [options(), Options { durability: Durability::None, ..options() }]
}

/// Proves that the call ends whatever other threads do, that they learn it by `Closed`, and that what was committed is
/// there.
#[test]
fn whatever_others_do() {
    for (round, options) in (0..10).flat_map(|round| both_kinds().map(|options| (round, options))) {
        let storage = memory();
        let db = open(&storage, options.clone()).unwrap();
        let t = table(&db);
        let committed: Vec<u64> = std::thread::scope(|scope| {
            let users: Vec<_> = (0..4)
                .map(|user| {
                    let db = db.clone();
                    scope.spawn(move || use_until_closed(&db, t, user))
                })
                .collect();
            std::thread::sleep(Duration::from_millis(round * 5));
            db.shutdown().unwrap();
            users.into_iter().flat_map(|user| user.join().unwrap()).collect()
        });
        let again = open(&storage, options.clone()).unwrap();
        assert!(again.recovery().unwrap().was_closed || options.durability == Durability::None);
        let (tx, t) = (again.begin().unwrap(), table(&again));
        let is_lost = |key: &&u64| tx.get(t, **key).unwrap() != Some(**key);
        let lost: Vec<&u64> = committed.iter().filter(is_lost).collect();
        assert!(lost.is_empty(), "{:?}: {lost:?} of {}", options.durability, committed.len());
    }
}

/// Proves that remaining workers and transactions continue to read, that their commits are refused, and that they
/// leave nothing behind.
#[test]
fn what_is_left_reads_on() {
    both_kinds().into_iter().for_each(reads_on);
}

fn reads_on(options: Options) {
    let storage = memory();
    let db = open(&storage, options.clone()).unwrap();
    let t = table(&db);
    put(&db, 1, 1).unwrap();
    let mut worker = db.worker();
    let (reader, writer, idle) = (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
    writer.put(t, 1, 2).unwrap();
    db.shutdown().unwrap();
    let again = open(&storage, options).unwrap();
    assert!(is_closed(&db.worker().run(async |tx| tx.put(t, 3, 5).await)));
    drop(db);
    assert_eq!(reader.get(t, 1).unwrap(), Some(1));
    reader.commit().unwrap();
    writer.put(t, 3, 3).unwrap();
    assert!(is_closed(&writer.commit()));
    assert_eq!(worker.run(async |tx| tx.get(t, 1).await).unwrap(), Some(1));
    assert!(is_closed(&worker.run(async |tx| tx.put(t, 1, 4).await)));
    idle.abort();
    drop(worker);
    assert_eq!([1, 3].map(|key| get(&again, key)), [Some(1), None]);
}

/// Proves that other objects made of the database do nothing any more: a sweeper, a sequence, an expiry.
#[test]
fn what_lives_beside_it_ends() {
    let db = Database::in_memory(options()).unwrap();
    let t = table(&db);
    let expiry =
        db.expiry(t, "t by expiry", |_, at_ms| UNIX_EPOCH.checked_add(Duration::from_millis(at_ms))).unwrap();
    let sweeper = expiry.sweep_every(Duration::from_millis(1)).unwrap();
    let (sequence, mut worker) = (db.sequence(db.table::<u64, u64>("numbers").unwrap(), 1), db.worker());
    put(&db, 1, 1).unwrap();
    while sweeper.deleted() == 0 {
        std::thread::yield_now();
    }
    let soon = UNIX_EPOCH.elapsed().unwrap() + Duration::from_millis(300);
    put(&db, 2, soon.as_millis() as u64).unwrap();
    db.shutdown().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let left = worker.run(async |tx| tx.get(t, 2).await).unwrap();
    assert_eq!((sweeper.deleted(), left.is_some()), (1, true));
    assert!(sweeper.take_error().is_none());
    assert!(is_closed(&sequence.next()) && is_closed(&expiry.sweep(1)));
}

/// Proves that a call that waits for a transaction which stays open gets an answer when the database is closed.
#[test]
fn calls_that_wait_for_transactions_are_answered() {
    let db = Database::in_memory(options()).unwrap();
    let t = table(&db);
    let projection = db.projection(t, "p", |_, value| Some((value,))).unwrap();
    let open = db.begin().unwrap();
    open.put(t, 1, 1).unwrap();
    std::thread::scope(|scope| {
        let (refreshing, freezing) = (scope.spawn(|| projection.refresh()), scope.spawn(|| db.freeze(t)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!refreshing.is_finished() && !freezing.is_finished());
        db.shutdown().unwrap();
        assert!(is_closed(&refreshing.join().unwrap()) && is_closed(&freezing.join().unwrap()));
    });
    assert!(is_closed(&projection.refresh()));
}

/// Proves that callers that wait for room in an inbox get an answer.
#[test]
fn callers_that_wait_for_room_are_answered() {
    let narrow = Options { workers: 1, batch: 2.into(), inbox_capacity: 2, ..options() };
    let db = Database::in_memory(narrow).unwrap();
    let forever = async |_: &braiddb::Txn| pending::<Result<(), Error>>().await;
    std::thread::scope(|scope| {
        let blocked: Vec<_> = (0..10).map(|_| scope.spawn(|| db.run(forever).wait())).collect();
        let awaiting: Vec<_> = (0..10).map(|_| scope.spawn(|| block_on(db.run_async(forever)))).collect();
        while !matches!(db.try_run(forever), Err(Error::Busy)) {
            std::thread::yield_now();
        }
        db.shutdown().unwrap();
        for caller in blocked.into_iter().chain(awaiting) {
            assert!(matches!(caller.join().unwrap(), Err(Error::Closed | Error::Cancelled)));
        }
    });
}

/// Proves that a call gets an error on a thread for which it would have to wait, and that the database continues.
#[test]
fn inside_is_an_error() {
    let db = open(&memory(), options()).unwrap();
    put(&db, 1, 1).unwrap();
    let inside = db.clone();
    let answer = db.run(async move |_| inside.shutdown());
    assert!(matches!(answer.wait(), Err(Error::WouldDeadlock)));
    let (inside, (sender, answers)) = (db.clone(), mpsc::channel());
    db.on_event(move |_| drop(sender.send(inside.shutdown())));
    db.checkpoint().unwrap();
    assert!(matches!(answers.recv().unwrap(), Err(Error::WouldDeadlock)));
    put(&db, 2, 2).unwrap();
    db.on_event(|_| {}); // the listener has a handle
    db.shutdown().unwrap();
}

/// Proves that without a log a checkpoint is made, that the directory stays locked while it cannot be made, and that a
/// second call tries again.
#[test]
fn a_checkpoint_that_fails_is_tried_again() {
    let troubled = Troubled::new();
    let storage: Arc<dyn Storage> = Arc::new(troubled.clone());
    let unlogged = || Options { durability: Durability::None, ..options() };
    let db = open(&storage, unlogged()).unwrap();
    put(&db, 1, 1).unwrap();
    troubled.begin(Trouble::Full);
    for _ in 0..2 {
        let error = db.shutdown().unwrap_err();
        assert!(matches!(error, Error::CheckpointFailed(_)), "{error}");
    }
    assert!(matches!(open(&storage, unlogged()), Err(Error::Storage(_))));
    assert!(is_closed(&db.begin()));
    troubled.end(Trouble::Full);
    db.shutdown().unwrap();
    db.shutdown().unwrap();
    assert_eq!(get(&open(&storage, unlogged()).unwrap(), 1), Some(1));
}

/// Proves that a disk that does not answer is an error in time, that no other process gets the directory, and that a
/// second call waits again.
#[test]
fn a_disk_that_does_not_answer_for_a_while() {
    let troubled = Troubled::new();
    let storage: Arc<dyn Storage> = Arc::new(troubled.clone());
    let db = open(&storage, options()).unwrap();
    put(&db, 1, 1).unwrap();
    troubled.begin(Trouble::SyncsHang);
    let t = table(&db);
    let late = db.run(async move |tx| tx.put(t, 2, 2).await);
    while get(&db, 2).is_none() {
        std::thread::yield_now(); // until it has committed, which others see before it is on disk
    }
    for _ in 0..2 {
        let error = db.shutdown().unwrap_err();
        assert!(matches!(error, Error::Log(wal::Error::Full(_))), "{error}");
    }
    assert!(matches!(late.wait(), Err(Error::Stalled { .. })));
    assert!(matches!(open(&storage, options()), Err(Error::Storage(_))));
    troubled.end(Trouble::SyncsHang);
    while let Err(error) = db.shutdown() {
        assert!(matches!(error, Error::Log(wal::Error::Full(_))), "{error}");
    }
    assert_eq!([1, 2].map(|key| get(&open(&storage, options()).unwrap(), key)), [Some(1), Some(2)]);
}

/// Proves that a failed log is reported each time, and that the directory is free.
#[test]
fn a_disk_that_fails() {
    let troubled = Troubled::new();
    let storage: Arc<dyn Storage> = Arc::new(troubled.clone());
    let db = open(&storage, options()).unwrap();
    put(&db, 1, 1).unwrap();
    troubled.begin(Trouble::SyncsFail);
    assert!(put(&db, 2, 2).is_err());
    let errors = [0; 2].map(|_| db.shutdown().unwrap_err().to_string());
    assert!(errors[0].contains("the disk is broken") && errors[0] == errors[1], "{errors:?}");
    troubled.end(Trouble::SyncsFail);
    assert_eq!(get(&open(&storage, options()).unwrap(), 1), Some(1));
}
