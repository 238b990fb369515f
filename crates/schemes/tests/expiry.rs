//! Rows that expire.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::{under, under_all_schemes};
use braiddb::changes::ChangeKind;
use braiddb::metrics::{Clock, SystemClock};
use braiddb::storage::MemoryStorage;
use braiddb::{
    AnyScheme, Database, Durability, Error, Expiry, IndexKind, Options, Result, SchemeName, Sweeper, Table,
    TableOptions, Transaction,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that a test sets, in seconds.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn at(seconds: u64) -> Hand {
        let hand = Hand::default();
        hand.set(seconds);
        hand
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Relaxed);
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_ns(&self) -> u64 {
        self.0.load(Relaxed) * 1_000_000_000
    }
}

/// A row's value is the second at which the row expires. Rows with 0 never expire.
type Rows = Table<u64, u64>;
const NEVER: u64 = 0;

fn second(seconds: u64) -> Option<SystemTime> {
    (seconds != NEVER).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

fn options() -> Options {
    Options { workers: 0, log_segment_bytes: 1 << 16, ..Options::default() }
}

fn in_memory(scheme: SchemeName, clock: &Hand) -> Database<AnyScheme> {
    Database::in_memory_with(under(scheme, options()), Arc::new(clock.clone())).unwrap()
}

fn open(scheme: SchemeName, storage: &MemoryStorage, options: Options, clock: &Hand) -> Database<AnyScheme> {
    Database::open_with(
        Arc::new(storage.clone()),
        under(scheme, options),
        Arc::new(clock.clone()),
        &mut |_| {},
    )
    .unwrap()
}

fn declare(db: &Database<AnyScheme>) -> (Rows, Expiry<u64, u64, AnyScheme>) {
    let table = db.table("rows").unwrap();
    (table, expiry_of(db, table))
}

fn expiry_of(db: &Database<AnyScheme>, table: Rows) -> Expiry<u64, u64, AnyScheme> {
    db.expiry(table, "by expiry", |_, seconds| second(seconds)).unwrap()
}

/// Makes a database at the second 100, with rows 0 to `rows` that expired at 50.
fn expired(scheme: SchemeName, rows: u64) -> (Database<AnyScheme>, Rows, Expiry<u64, u64, AnyScheme>) {
    let db = in_memory(scheme, &Hand::at(100));
    let (table, expiry) = declare(&db);
    fill(&db, table, 0..rows, 50);
    (db, table, expiry)
}

fn fill(db: &Database<AnyScheme>, table: Rows, keys: std::ops::Range<u64>, seconds: u64) {
    for start in keys.clone().step_by(100) {
        let end = keys.end.min(start + 100);
        db.transact(|tx| (start..end).try_for_each(|key| tx.put(table, key, seconds))).unwrap();
    }
}

/// Returns the keys in the table.
fn keys(db: &Database<AnyScheme>, table: Rows) -> Vec<u64> {
    db.transact(|tx| {
        let mut keys = Vec::new();
        tx.scan_all(table).for_each(|key, _| keys.push(key))?;
        Ok(keys)
    })
    .unwrap()
}

/// Waits until a condition is true.
fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_micros(100));
    }
}

fn rows_expire_at_their_moment(scheme: SchemeName) {
    let clock = Hand::at(9);
    let db = in_memory(scheme, &clock);
    let table: Rows = db.table("rows").unwrap();
    let moments = [(0, 10), (1, NEVER), (2, 20), (3, 30), (4, 20)];
    let put = |moments: &[(u64, u64)]| {
        db.transact(|tx| moments.iter().try_for_each(|(key, seconds)| tx.put(table, key, *seconds))).unwrap();
    };
    put(&moments[..3]); // before the expiry is declared
    let (_, expiry) = declare(&db);
    put(&moments[3..]);
    for (now, deleted, left) in [
        (9, 0, &[0, 1, 2, 3, 4][..]),
        (10, 1, &[1, 2, 3, 4]),
        (19, 0, &[1, 2, 3, 4]),
        (5, 0, &[1, 2, 3, 4]), // the clock has gone back
        (20, 2, &[1, 3]),
        (29, 0, &[1, 3]),
        (u64::MAX / 1_000_000_000, 1, &[1]),
    ] {
        clock.set(now);
        assert_eq!((expiry.sweep(1000).unwrap(), &*keys(&db, table)), (deleted, left), "at {now}");
    }
}

#[test]
fn a_row_is_deleted_from_its_moment_on() {
    under_all_schemes!(rows_expire_at_their_moment());
}

#[test]
fn the_oldest_go_first_and_no_more_than_wanted() {
    let clock = Hand::at(1000);
    let db = in_memory(SchemeName::Serializable, &clock);
    let (table, expiry) = declare(&db);
    db.transact(|tx| (0..200).try_for_each(|key| tx.put(table, key, 500 - key))).unwrap();
    for (rows_max, left) in [(0, 200), (1, 199), (64, 135), (65, 70), (69, 1)] {
        assert_eq!(expiry.sweep(rows_max).unwrap(), rows_max);
        // The row that expires last has the least key.
        assert_eq!(keys(&db, table), (0..left).collect::<Vec<_>>());
    }
    assert_eq!((expiry.sweep(u64::MAX).unwrap(), expiry.sweep(u64::MAX).unwrap()), (1, 0));
}

/// Proves the order of all possible moments: moments before 1970 are the first, and moments too late to count are
/// never.
#[test]
fn moments_beyond_all_measure_are_the_first_and_never() {
    let db = in_memory(SchemeName::Serializable, &Hand::default()); // which is at 1970
    let table: Table<u64, ()> = db.table("rows").unwrap();
    let moment = |key: &u64, ()| match key {
        0 => UNIX_EPOCH.checked_sub(Duration::from_secs(1)),
        1 => Some(UNIX_EPOCH),
        2 => Some(UNIX_EPOCH + Duration::from_nanos(1)),
        3 => UNIX_EPOCH.checked_add(Duration::new(18_446_744_073, 709_551_616)), // 2 to the power of 64 ns
        _ => None,
    };
    let expiry = db.expiry(table, "by expiry", moment).unwrap();
    db.transact(|tx| (0..5).try_for_each(|key| tx.put(table, key, ()))).unwrap();
    assert_eq!(expiry.sweep(1000).unwrap(), 2);
    let left = db.transact(|tx| (0..5).map(|key| tx.contains(table, key)).collect::<Result<Vec<_>>>());
    assert_eq!(left.unwrap(), [false, false, true, true, true]);
}

#[test]
fn an_expired_row_is_read_and_written_as_others_until_it_is_swept() {
    let (db, table, expiry) = expired(SchemeName::Serializable, 3);
    assert_eq!(db.transact(|tx| tx.get(table, 1)).unwrap(), Some(50));
    assert!(matches!(db.transact(|tx| tx.insert(table, 1, 200)), Err(Error::KeyExists)));
    db.transact(|tx| tx.put(table, 1, 200)).unwrap();
    assert_eq!(expiry.sweep(1000).unwrap(), 2);
    assert_eq!(keys(&db, table), [1]);
    db.transact(|tx| tx.insert(table, 2, 200)).unwrap();
    assert_eq!((expiry.sweep(1000).unwrap(), keys(&db, table)), (0, vec![1, 2]));
}

/// What another transaction does with a table between two rows of a sweep.
type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// When the sweep is at row 1, another transaction changes later rows, and then row 1 itself. Proves that the sweep
/// keeps to what has committed.
fn moved_meanwhile(scheme: SchemeName) {
    let db = Database::<AnyScheme>::in_memory_with(
        under(scheme, Options { lock_wait_ms: 0, ..options() }),
        Arc::new(Hand::at(100)),
    )
    .unwrap();
    let table: Rows = db.table("rows").unwrap();
    let meanwhile = Meanwhile::default();
    let of_closure = meanwhile.clone();
    let expires_at = move |key: &u64, seconds| {
        let act = of_closure.lock().unwrap().take_if(|_| *key == 1);
        if let Some(act) = act {
            act();
        }
        second(seconds)
    };
    let expiry = db.expiry(table, "by expiry", expires_at).unwrap();
    let on_next_visit = |change: fn(&Transaction<AnyScheme>, Rows) -> Result<()>| {
        let (of_others, (sender, outcome)) = (db.clone(), mpsc::channel());
        *meanwhile.lock().unwrap() = Some(Box::new(move || {
            let tx = of_others.begin().unwrap();
            sender.send(change(&tx, table).and_then(|()| tx.commit())).unwrap();
        }));
        outcome
    };
    fill(&db, table, 0..10, 50);
    let outcome =
        on_next_visit(|tx, table| tx.put(table, 5, 200).and_then(|()| tx.delete(table, 6)).map(drop));
    assert_eq!(expiry.sweep(1000).unwrap(), 8);
    outcome.recv().unwrap().unwrap();
    assert_eq!(keys(&db, table), [5]);

    fill(&db, table, 0..3, 50);
    let outcome = on_next_visit(|tx, table| tx.put(table, 1, 200));
    let deleted = expiry.sweep(1000).unwrap();
    match outcome.recv().unwrap() {
        Ok(()) => assert_eq!((deleted, keys(&db, table)), (2, vec![1, 5])),
        Err(Error::Conflict | Error::Deadlock(_)) => assert_eq!((deleted, keys(&db, table)), (3, vec![5])),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_row_of_which_the_expiry_is_moved_meanwhile_stays() {
    moved_meanwhile(SchemeName::Serializable);
    moved_meanwhile(SchemeName::Snapshot);
    moved_meanwhile(SchemeName::NoWait);
    moved_meanwhile(SchemeName::WaitDie);
    moved_meanwhile(SchemeName::DlDetect);
    moved_meanwhile(SchemeName::Silo);
    moved_meanwhile(SchemeName::Occ);
    moved_meanwhile(SchemeName::TicToc);
    moved_meanwhile(SchemeName::TimestampOrdering);
    moved_meanwhile(SchemeName::MultiVersion);
    moved_meanwhile(SchemeName::Adaptive);
    // `HStore` is left out, because a sweep has all partitions, so nothing happens meanwhile.
}

/// Sweeps beside transactions that extend rows and let them expire. Proves that no extended row is lost.
fn extended(scheme: SchemeName) {
    let db = in_memory(scheme, &Hand::at(100));
    let (table, expiry) = declare(&db);
    let sweeper = expiry.sweep_every(Duration::ZERO).unwrap();
    thread::scope(|scope| {
        for of in 0..2 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..300 {
                    let key = of * 100 + round % 7;
                    db.transact(|tx| tx.put(table, key, 50)).unwrap();
                    db.transact(|tx| tx.put(table, key, 200)).unwrap();
                    assert_eq!(db.transact(|tx| tx.get(table, key)).unwrap(), Some(200));
                    db.transact(|tx| tx.put(table, key, 50)).unwrap();
                }
            });
        }
    });
    until(|| keys(&db, table).is_empty());
    assert!(sweeper.take_error().is_none());
}

#[test]
fn a_row_that_was_extended_is_not_lost_beside_a_sweeper() {
    under_all_schemes!(extended());
}

/// Proves that a sweep leaves the rows of an open transaction and deletes all others, and that the transaction
/// commits.
fn passes_over(scheme: SchemeName, deleted_beside: u64) {
    let (db, table, expiry) = expired(scheme, 200);
    let open = db.begin().unwrap();
    for key in [0, 3, 100, 101, 199] {
        assert_eq!(open.get_for_update(table, key).unwrap(), Some(50));
        open.put(table, key, 200).unwrap();
    }
    let begin = db.statistics().aborts_conflict;
    assert_eq!(expiry.sweep(1000).unwrap(), deleted_beside);
    let conflicts = db.statistics().aborts_conflict - begin;
    assert!(conflicts <= 50, "{conflicts} conflicts for 5 rows");
    open.commit().unwrap();
    assert_eq!(expiry.sweep(1000).unwrap(), 195 - deleted_beside);
    assert_eq!(keys(&db, table), [0, 3, 100, 101, 199]);
}

#[test]
fn rows_that_others_have_are_passed_over() {
    passes_over(SchemeName::Serializable, 195);
    passes_over(SchemeName::Snapshot, 195);
    passes_over(SchemeName::NoWait, 195);
    passes_over(SchemeName::WaitDie, 195);
    passes_over(SchemeName::DlDetect, 195);
    passes_over(SchemeName::Silo, 195);
    passes_over(SchemeName::Occ, 195);
    passes_over(SchemeName::TicToc, 195);
    passes_over(SchemeName::TimestampOrdering, 195);
    passes_over(SchemeName::HStore, 0); // one transaction at a time has these partitions
    passes_over(SchemeName::MultiVersion, 195);
    passes_over(SchemeName::Adaptive, 195);
}

#[test]
fn a_reader_with_a_snapshot_sees_what_it_saw() {
    let (db, table, expiry) = expired(SchemeName::Serializable, 200);
    let reader = db.begin().unwrap();
    assert_eq!(reader.get(table, 7).unwrap(), Some(50));
    assert_eq!(expiry.sweep(1000).unwrap(), 200);
    assert_eq!(reader.count(table).unwrap(), 200);
    reader.commit().unwrap();
    assert_eq!(keys(&db, table), []);
}

/// A log that shows every transaction of a sweep.
#[test]
fn many_rows_go_in_short_transactions() {
    const ROWS: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let storage = MemoryStorage::new(1 << 32);
    let durability = Durability::Async;
    let db = open(SchemeName::Serializable, &storage, Options { durability, ..options() }, &Hand::at(100));
    let (table, expiry) = declare(&db);
    fill(&db, table, 0..ROWS, 50);
    let mut changes = db.changes(db.change_position().unwrap()).unwrap();
    assert_eq!(expiry.sweep(u64::MAX).unwrap(), ROWS);
    assert_eq!(keys(&db, table), []);
    let (reached, mut deleted, mut transactions) = (db.change_position().unwrap(), 0, 0);
    while let Some(transaction) = changes.next_before(reached).unwrap() {
        let count =
            transaction.into_iter().filter(|change| matches!(change.kind, ChangeKind::Delete { .. })).count()
                as u64;
        assert!((1..=64).contains(&count), "{count} rows");
        (deleted, transactions) = (deleted + count, transactions + 1);
    }
    assert_eq!((deleted, transactions), (ROWS, ROWS.div_ceil(64)));
}

#[test]
fn what_was_swept_is_gone_when_the_database_is_opened_again() {
    for durability in [Durability::Sync, Durability::Async, Durability::None] {
        let storage = MemoryStorage::new(1 << 30);
        let options = Options { durability, ..options() };
        let clock = Hand::at(100);
        {
            let db = open(SchemeName::Serializable, &storage, options.clone(), &clock);
            let (table, expiry) = declare(&db);
            fill(&db, table, 0..300, 50);
            fill(&db, table, 300..400, 150);
            assert_eq!(expiry.sweep(250).unwrap(), 250);
            db.close().unwrap();
            assert!(matches!(expiry.sweep(1000), Err(Error::Closed)));
        }
        let db = open(SchemeName::Serializable, &storage, options, &clock);
        let (table, expiry) = declare(&db);
        assert_eq!(keys(&db, table), (250..400).collect::<Vec<_>>());
        assert_eq!(expiry.sweep(1000).unwrap(), 50);
        clock.set(150);
        assert_eq!(expiry.sweep(1000).unwrap(), 100);
        db.close().unwrap();
    }
}

#[test]
fn a_transaction_that_the_log_cannot_take_is_made_smaller() {
    let storage = MemoryStorage::new(1 << 30);
    let options = Options { log_segment_bytes: 4096, ..options() };
    let db = open(SchemeName::Serializable, &storage, options, &Hand::at(100));
    let table: Table<String, u64> = db.table("rows").unwrap();
    let expiry = db.expiry(table, "by expiry", |_, seconds| second(seconds)).unwrap();
    let key = |number: u64| format!("{number:0900}");
    (0..20).for_each(|number| db.transact(|tx| tx.put(table, key(number), 50)).unwrap());
    assert_eq!(expiry.sweep(1000).unwrap(), 20);
    assert_eq!(db.transact(|tx| tx.count(table)).unwrap(), 0);
    db.close().unwrap();
}

/// Proves that expired rows can be deleted at the memory limit, and that there is then room for as many new rows.
fn gives_back(scheme: SchemeName) {
    let options = Options { memory_limit_bytes: 4 << 20, ..options() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(Hand::at(100))).unwrap();
    let table: Table<u64, [u8]> = db.table("rows").unwrap();
    let expiry = db.expiry(table, "by expiry", |_, _| second(50)).unwrap();
    let value = [7; 400];
    let fill = || {
        (0..).take_while(|key| match db.transact(|tx| tx.put(table, key, &value)) {
            Ok(()) => true,
            Err(Error::OutOfMemory { .. }) => false,
            Err(error) => panic!("{error}"),
        })
    };
    let first = fill().count() as u64;
    let mut count = first;
    for _ in 0..3 {
        assert_eq!(expiry.sweep(u64::MAX).unwrap(), count);
        while db.maintain() {}
        count = fill().count() as u64;
        assert!(count * 10 >= first * 9, "{count} rows, and first {first}");
    }
}

#[test]
fn expired_rows_give_their_memory_back_at_its_limit() {
    under_all_schemes!(gives_back());
}

#[test]
fn a_transaction_that_takes_too_much_memory_is_made_smaller() {
    let options = Options { memory_limit_bytes: 4 << 20, ..options() };
    let db: Database = Database::in_memory_with(options, Arc::new(Hand::at(100))).unwrap();
    let table: Table<String, [u8]> = db.table("rows").unwrap();
    let expiry = db.expiry(table, "by expiry", |_, _| second(50)).unwrap();
    let key = |number: u64| format!("{number}{}", "k".repeat(990));
    let count = 300;
    (0..count).for_each(|number| db.transact(|tx| tx.put(table, key(number), &[])).unwrap());
    // Other transactions hold nearly all the memory that transactions can have.
    let mut others: Vec<_> = (0..).map_while(|_| db.begin().ok()).collect();
    let is_made_smaller = |others: &mut Vec<_>| {
        drop(others.pop().expect("there is no room that some rows fit into and 64 do not"));
        let begin = db.statistics().aborts_out_of_memory;
        match expiry.sweep(100) {
            Ok(deleted) => deleted == 100 && db.statistics().aborts_out_of_memory > begin,
            Err(Error::OutOfMemory { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    };
    while !is_made_smaller(&mut others) {}
}

#[test]
fn tables_of_every_kind_of_index_have_rows_that_expire() {
    for index in
        [IndexKind::Masstree, IndexKind::BTree, IndexKind::BwTree, IndexKind::Cuckoo, IndexKind::Hopscotch]
    {
        let db = in_memory(SchemeName::Serializable, &Hand::at(100));
        let table: Rows = db.table_with("rows", TableOptions { index, ..TableOptions::default() }).unwrap();
        let expiry = db.expiry(table, "by expiry", |_, seconds| second(seconds)).unwrap();
        fill(&db, table, 0..150, 50);
        fill(&db, table, 150..160, 150);
        assert_eq!(expiry.sweep(u64::MAX).unwrap(), 150, "{index:?}");
        assert_eq!(db.transact(|tx| tx.count(table)).unwrap(), 10);
    }
}

#[test]
fn keys_of_any_length_are_found_again() {
    let db = in_memory(SchemeName::Serializable, &Hand::at(100));
    let table: Table<(String, u32), u64> = db.table("rows").unwrap();
    let expiry = db.expiry(table, "by expiry", |_, seconds| second(seconds)).unwrap();
    let texts = ["".to_string(), "\0".to_string(), "a".to_string(), "b".repeat(braiddb::KEY_BYTES_MAX - 6)];
    for text in &texts {
        db.transact(|tx| {
            (0..40).try_for_each(|number| tx.put(table, (text, number), 50 + u64::from(number)))
        })
        .unwrap();
    }
    assert_eq!(expiry.sweep(u64::MAX).unwrap(), 160);
    assert_eq!(db.transact(|tx| tx.count(table)).unwrap(), 0);
}

#[test]
fn tables_that_are_frozen_renamed_cleared_and_dropped() {
    let (db, table, expiry) = expired(SchemeName::Serializable, 10);
    db.freeze(table).unwrap();
    assert!(matches!(expiry.sweep(1000), Err(Error::Frozen { table }) if table == "rows"));
    db.thaw(table).unwrap();
    db.rename_table("rows", "others").unwrap();
    assert_eq!(expiry.sweep(5).unwrap(), 5);
    db.clear(table).unwrap();
    assert_eq!(expiry.sweep(1000).unwrap(), 0);
    fill(&db, table, 0..3, 50);
    assert_eq!(expiry.sweep(1000).unwrap(), 3);
    // A second declaration gives a handle to the same expiry.
    let again = expiry_of(&db, table);
    assert!(matches!(db.index(table, "by expiry", |_, _| Some(1u32)), Err(Error::IndexMismatch { .. })));
    db.drop_table("others").unwrap();
    for expiry in [expiry, again] {
        assert!(matches!(expiry.sweep(1000), Err(Error::TableDropped)));
    }
    assert!(matches!(db.expiry(table, "other", |_, _| None), Err(Error::TableDropped)));
    let other = in_memory(SchemeName::Serializable, &Hand::at(100));
    assert!(matches!(other.expiry(table, "by expiry", |_, _| None), Err(Error::WrongDatabase)));
}

#[test]
fn a_database_that_was_opened_to_be_read_refuses_the_declaration() {
    let storage = MemoryStorage::new(1 << 30);
    let db = open(SchemeName::Serializable, &storage, options(), &Hand::at(100));
    let (table, _) = declare(&db);
    fill(&db, table, 0..10, 50);
    db.close().unwrap();
    let clock = Arc::new(Hand::at(100));
    let db: Database<AnyScheme> =
        Database::read_with(Arc::new(storage), options(), clock, &mut |_| {}).unwrap();
    let table: Rows = db.table("rows").unwrap();
    assert!(matches!(db.expiry(table, "by expiry", |_, seconds| second(seconds)), Err(Error::ReadOnly)));
    assert_eq!(keys(&db, table).len(), 10);
}

/// Proves, under every scheme, that a sweeper deletes rows that have expired and rows that expire later, until it is
/// dropped.
fn by_itself(scheme: SchemeName) {
    let clock = Hand::at(100);
    let db = in_memory(scheme, &clock);
    let (table, expiry) = declare(&db);
    fill(&db, table, 0..200, 50);
    fill(&db, table, 200..300, 150);
    let sweeper = expiry.sweep_every(Duration::from_millis(1)).unwrap();
    until(|| sweeper.deleted() == 200);
    assert_eq!(keys(&db, table), (200..300).collect::<Vec<_>>());
    clock.set(150);
    until(|| sweeper.deleted() == 300);
    assert!(sweeper.take_error().is_none());
    drop(sweeper);
    fill(&db, table, 0..10, 50);
    assert_eq!(expiry.sweep(1000).unwrap(), 10, "it has ended");
}

#[test]
fn a_sweeper_deletes_rows_by_itself() {
    under_all_schemes!(by_itself());
}

#[test]
fn a_sweeper_that_rests_for_long_ends_at_once() {
    let (db, table, expiry) = expired(SchemeName::Serializable, 10);
    for interval in [Duration::from_secs(1 << 20), Duration::MAX] {
        fill(&db, table, 0..10, 50);
        let sweeper = expiry.sweep_every(interval).unwrap();
        until(|| sweeper.deleted() == 10);
        drop(sweeper);
    }
}

#[test]
fn a_sweeper_ends_with_its_database() {
    for is_closed in [true, false] {
        let storage = MemoryStorage::new(1 << 30);
        let db = open(SchemeName::Serializable, &storage, options(), &Hand::at(100));
        let table: Rows = db.table("rows").unwrap();
        fill(&db, table, 0..100, 50);
        // The engine and the thread hold the closure.
        let token = Arc::new(());
        let weak = Arc::downgrade(&token);
        let expires_at = move |_: &u64, seconds| {
            let _ = &token;
            second(seconds)
        };
        let sweeper = db
            .expiry(table, "by expiry", expires_at)
            .unwrap()
            .sweep_every(Duration::from_secs(1 << 20))
            .unwrap();
        until(|| sweeper.deleted() == 100);
        assert!(weak.upgrade().is_some());
        match is_closed {
            true => db.close().unwrap(),
            false => drop(db),
        }
        until(|| weak.upgrade().is_none());
        assert!(sweeper.take_error().is_none());
    }
}

/// A clock by which every action takes 20 ms or more.
#[derive(Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(20_000_000, Relaxed)
    }

    fn unix_ns(&self) -> u64 {
        100_000_000_000
    }
}

#[test]
fn a_sweeper_rests_between_its_transactions() {
    let db = Database::in_memory_with(options(), Arc::new(Slow::default())).unwrap();
    let (table, expiry) = declare(&db);
    fill(&db, table, 0..256, 50);
    let begin = Instant::now();
    let sweeper = expiry.sweep_every(Duration::from_secs(1)).unwrap();
    until(|| sweeper.deleted() == 256);
    // Three rests, each three times as long as a transaction took. One would do, but the system may cut others short.
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

/// Holds up the thread of a sweeper in the closure of an expiry, once, when the gate is armed.
struct Gate {
    is_armed: AtomicBool,
    inside: mpsc::Sender<()>,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    /// Returns the gate, a receiver that is told that the thread is in the gate, and a sender that lets the thread
    /// continue.
    fn new() -> (Arc<Gate>, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((inside, is_inside), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let gate = Gate { is_armed: AtomicBool::new(false), inside, goes_on: Mutex::new(goes_on) };
        (Arc::new(gate), is_inside, go_on)
    }

    fn pass(&self) {
        if self.is_armed.swap(false, Relaxed) {
            self.inside.send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        }
    }
}

#[test]
fn a_sweeper_that_is_dropped_ends_its_transaction_first() {
    let db = in_memory(SchemeName::Serializable, &Hand::at(100));
    let table: Rows = db.table("rows").unwrap();
    fill(&db, table, 0..100, 50);
    let (gate, is_inside, go_on) = Gate::new();
    let of_closure = gate.clone();
    let expiry = db.expiry(table, "by expiry", move |_, seconds| {
        of_closure.pass();
        second(seconds)
    });
    gate.is_armed.store(true, Relaxed);
    let sweeper = expiry.unwrap().sweep_every(Duration::from_secs(1)).unwrap();
    is_inside.recv().unwrap();
    thread::scope(|scope| {
        let dropping = scope.spawn(|| {
            drop(sweeper);
            keys(&db, table).len()
        });
        thread::sleep(Duration::from_millis(20)); // so that a drop that does not wait is early
        go_on.send(()).unwrap();
        assert!(dropping.join().unwrap() <= 36, "a transaction has ended meanwhile");
    });
}

/// Tells when the closure of an expiry is dropped, and if that happens in a panic. Owns the sweeper.
struct Last(Mutex<Option<Sweeper>>, mpsc::Sender<bool>);

impl Drop for Last {
    fn drop(&mut self) {
        drop(self.0.get_mut().unwrap().take());
        let _ = self.1.send(thread::panicking());
    }
}

#[test]
fn a_database_can_go_while_a_transaction_of_the_sweeper_is_open() {
    // Proves that closing does not wait for a sweeper. The sweeper may then be the last to hold the engine, its
    // closure and itself.
    let db = in_memory(SchemeName::Serializable, &Hand::at(100));
    let table: Rows = db.table("rows").unwrap();
    fill(&db, table, 0..100, 50);
    let ((gate, is_inside, go_on), (gone, is_gone)) = (Gate::new(), mpsc::channel());
    let last = Arc::new(Last(Mutex::default(), gone));
    let of_closure = (gate.clone(), last.clone());
    let expires_at = move |_: &u64, seconds| {
        let (gate, _last) = &of_closure;
        gate.pass();
        second(seconds)
    };
    let expiry = db.expiry(table, "by expiry", expires_at).unwrap();
    gate.is_armed.store(true, Relaxed);
    *last.0.lock().unwrap() = Some(expiry.sweep_every(Duration::from_millis(1)).unwrap());
    is_inside.recv().unwrap();
    drop((db, expiry, last));
    go_on.send(()).unwrap();
    assert!(!is_gone.recv_timeout(Duration::from_secs(60)).unwrap());
}

#[test]
fn a_sweeper_keeps_its_errors_and_goes_on() {
    let (db, table, expiry) = expired(SchemeName::Serializable, 10);
    db.freeze(table).unwrap();
    let sweeper = expiry.sweep_every(Duration::from_millis(1)).unwrap();
    until(|| matches!(sweeper.take_error(), Some(Error::Frozen { table }) if table == "rows"));
    db.thaw(table).unwrap();
    until(|| sweeper.deleted() == 10);
    db.drop_table("rows").unwrap();
    until(|| matches!(sweeper.take_error(), Some(Error::TableDropped)));

    // A panic of the closure.
    let table: Rows = db.table("rows").unwrap();
    let is_bad = Arc::new(AtomicBool::new(false));
    let of_closure = is_bad.clone();
    let expiry = db.expiry(table, "by expiry", move |_, seconds| {
        assert!(!of_closure.load(Relaxed), "the closure is bad");
        second(seconds)
    });
    fill(&db, table, 0..10, 50);
    is_bad.store(true, Relaxed);
    let sweeper = expiry.unwrap().sweep_every(Duration::from_millis(1)).unwrap();
    until(
        || matches!(sweeper.take_error(), Some(Error::Panicked(text)) if text.ends_with("the closure is bad")),
    );
    is_bad.store(false, Relaxed);
    until(|| sweeper.deleted() == 10);
    assert_eq!(keys(&db, table), []);
}

#[test]
fn the_clock_of_the_system_is_the_usual_one() {
    let db = Database::in_memory_with(options(), Arc::new(SystemClock::default())).unwrap();
    let (table, expiry) = declare(&db);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    db.transact(|tx| [now - 1, now, now + 1000].iter().try_for_each(|moment| tx.put(table, moment, *moment)))
        .unwrap();
    assert_eq!((expiry.sweep(1000).unwrap(), keys(&db, table)), (2, vec![now + 1000]));
}
