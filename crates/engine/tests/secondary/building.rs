//! Declaring indexes: of tables that are full and in use, a second time, with other types, and after a restart.

use super::*;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{Error, Snapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const fn row(color: u32, number: u32) -> Row {
    Row { color, number, payload: 2 }
}

fn fill<C: ConcurrencyControl>(db: &Database<C>, count: u32) {
    let rows = Tables::table(db);
    let put = async |tx: &Txn<C>, n: &u32| tx.put(rows, id(*n), &row(n % 7, n + 1)).await;
    db.worker().run_each(0..count, put, |result| result.unwrap());
}

/// Builds an index while two threads write. Checks that what they leave behind is found, and that every later snapshot
/// is right.
fn build_under_writers<C: ConcurrencyControl>() {
    const ROWS: u32 = 2000;
    let db: Database<C> = database(0);
    let rows = Tables::table(&db);
    fill(&db, ROWS);
    let ends = AtomicBool::new(false);
    let t = thread::scope(|scope| {
        for thread in 0..2u32 {
            let (db, ends) = (&db, &ends);
            scope.spawn(move || {
                let (mut worker, mut seed) = (db.worker(), u64::from(thread));
                while !ends.load(Ordering::Relaxed) {
                    let writes: Vec<(u32, u32)> =
                        (0..64).map(|_| (random(&mut seed) % ROWS, random(&mut seed))).collect();
                    let write = async |tx: &Txn<C>, (n, what): &(u32, u32)| match what % 4 {
                        0 => tx.delete(rows, id(*n)).await.map(drop),
                        1 => tx.update(rows, id(*n), &row(what % 11, n + 1)).await.map(drop),
                        _ => tx.put(rows, id(*n), &row(what % 11, n + 1)).await,
                    };
                    worker.run_each(writes, async |tx, one| write(tx, one).await, |result| result.unwrap());
                }
            });
        }
        let t = Tables::declare(&db);
        for _ in 0..8 {
            let Ok(t) = t else { break };
            db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        t.unwrap()
    });
    let left = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert!(left.len() > ROWS as usize / 2, "{} rows", left.len());
}

/// Proves this of writers under serializability.
#[test]
fn under_writers_serializable() {
    build_under_writers::<braiddb::Serializable>();
}

/// Proves the same under snapshot isolation.
#[test]
fn under_writers_snapshots() {
    build_under_writers::<Snapshot>();
}

/// Proves that the declaration of an index waits for a transaction that was open before, and that the transaction's
/// writes are found.
#[test]
fn waits_for_open_transactions() {
    let db: Database = database(0);
    fill(&db, 10);
    let table = Tables::table(&db);
    let open = db.begin().unwrap();
    open.put(table, id(3), &row(70, 4)).unwrap();
    let t = thread::scope(|scope| {
        let declaring = scope.spawn(|| Tables::new(&db));
        thread::sleep(Duration::from_millis(30));
        assert!(!declaring.is_finished());
        open.put(table, id(4), &row(71, 5)).unwrap();
        open.commit().unwrap();
        declaring.join().unwrap()
    });
    let rows = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert_eq!((rows[&id(3)].color, rows[&id(4)].color), (70, 71));
}

/// Proves that a transaction whose snapshot is older than an index gets a conflict by it, which running again cures.
#[test]
fn older_snapshots_conflict() {
    let db: Database = database(0);
    fill(&db, 10);
    let (table, declared) = (Tables::table(&db), AtomicBool::new(false));
    thread::scope(|scope| {
        let declaring = scope.spawn(|| {
            let index = db.index(table, "late", |_, row: &Row| Some(row.color)).unwrap();
            declared.store(true, Ordering::Relaxed);
            index
        });
        // Opened one after the other, some while the index is being built.
        let mut open = vec![];
        while !declared.load(Ordering::Relaxed) {
            open.push(db.begin().unwrap());
            thread::sleep(Duration::from_millis(1));
            if open.len() > 5 {
                open.remove(0);
            }
        }
        let late = declaring.join().unwrap();
        for tx in open {
            match tx.scan_by(late, 0u32..).next() {
                Err(error) => assert!(error.is_retryable()),
                Ok(found) => assert!(found.is_some()),
            }
        }
        assert!(db.begin().unwrap().scan_by(late, 0u32..).next().unwrap().is_some());
    });
}

/// Proves that a unique index of rows that are not unique is refused with the rows' keys, does no harm then, and can
/// be declared once they are unique.
#[test]
fn not_unique() {
    let db: Database = database(0);
    let table = Tables::table(&db);
    let unique = |db: &Database| db.unique_index(table, "u", |_, row: &Row| Some(row.color));
    fill(&db, 5);
    db.begin().unwrap().commit().unwrap();
    let tx = db.begin().unwrap();
    tx.put(table, id(9), &row(3, 99)).unwrap();
    tx.commit().unwrap();
    let error = unique(&db).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("number 3") && message.contains("number 9"), "{message}");
    let tx = db.begin().unwrap();
    tx.put(table, id(10), &row(3, 98)).unwrap();
    assert!(tx.delete(table, id(9)).unwrap() && tx.delete(table, id(10)).unwrap());
    tx.commit().unwrap();
    let index = unique(&db).unwrap();
    let tx = db.begin().unwrap();
    assert_eq!(tx.get_by(index, 3).unwrap(), Some((id(3), &row(3, 4))));
    assert!(matches!(tx.put(table, id(9), &row(3, 99)), Err(Error::UniqueViolation { .. })));
}

/// Proves that a second declaration gives the same index, that another kind of index under the name is an error, and
/// how many indexes there can be.
#[test]
fn declared_again() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    fill(&db, 20);
    let again = Tables::new(&db);
    db.worker().run(async |tx| check_consistent(tx, again).await).unwrap();
    let other = db.index(t.rows, "by color", |_, row: &Row| Some(u64::from(row.color)));
    let message = other.unwrap_err().to_string();
    assert_eq!(message, "index \"by color\" is by u32, not by u64");
    let other = db.unique_index(t.rows, "by color", |_, row: &Row| Some(row.color));
    assert!(matches!(other, Err(Error::IndexMismatch { .. })));
    let wrong = db.begin().unwrap().get_by(t.by_color, 1u32).map(drop);
    assert!(matches!(wrong, Err(Error::IndexNotUnique { .. })));
    let many = (0..40).find_map(|i| db.index(t.rows, &format!("{i}"), |_, row: &Row| Some(row.color)).err());
    assert!(matches!(many, Some(Error::IndexNotBuilt { .. })), "{many:?}");
    let elsewhere: Database = database(0);
    let tx = elsewhere.begin().unwrap();
    assert!(matches!(tx.get_by(t.by_number, 1), Err(Error::WrongDatabase)));
    assert!(matches!(tx.scan_by(t.by_color, 1u32..).next(), Err(Error::WrongDatabase)));
}

/// Proves that a panic of the function is an error of the declaration, and that a function that panics harms only the
/// declaration or the transaction that calls it.
#[test]
fn panics() {
    let db: Database = database(1);
    let table = Tables::table(&db);
    fill(&db, 20);
    let declare = |bad: u32| {
        let db = db.clone();
        let extract = move |_: &Id, row: &Row| {
            assert!(row.number != bad, "a number that it cannot bear");
            Some(row.number)
        };
        db.unique_index(table, "by number", extract)
    };
    let panicked = declare(7);
    let Err(Error::Panicked(text)) = &panicked else { panic!("{panicked:?}") };
    assert!(text.contains("\"by number\"") && text.contains("a number that it cannot bear"), "{text}");
    let index = declare(1000).unwrap();
    let results = db.run_each((0..30u32).collect(), async move |tx, n: &u32| {
        let number = if *n == 13 { 1000 } else { 100 + n };
        tx.put(table, id(*n), &row(0, number)).await
    });
    let results = results.wait().unwrap();
    for (n, result) in results.into_iter().enumerate() {
        match n {
            13 => assert!(matches!(result, Err(Error::Panicked(_))), "{result:?}"),
            _ => result.unwrap(),
        }
    }
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(table, id(13)).unwrap(), Some(&row(13 % 7, 14)));
    assert_eq!(tx.get_by(index, 14).unwrap(), Some((id(13), &row(13 % 7, 14))));
    assert_eq!(tx.get_by(index, 105).unwrap(), Some((id(5), &row(0, 105))));
}

/// Proves that an index of a durable database is right when it is declared again after a restart, that it leaves
/// nothing in the log or the checkpoint, and that writes by bytes maintain it.
#[test]
fn after_a_restart() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let open = || -> Database {
        let options = Options { workers: 1, log_segment_bytes: 1 << 18, ..Options::default() };
        Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {}).unwrap()
    };
    let db = open();
    let t = Tables::new(&db);
    fill(&db, 300);
    db.checkpoint().unwrap();
    db.worker()
        .run(async |tx| {
            tx.put(t.rows, id(7), &row(5, 1007)).await?;
            tx.delete(t.rows, id(8)).await
        })
        .unwrap();
    let before = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert_eq!(db.tables().len(), 1);
    db.close().unwrap();

    let db = open();
    assert_eq!(db.tables().len(), 1);
    // The slot of the deleted row may be given back a little later.
    assert!(db.statistics().memory.records <= 300, "rows are restored, and no entries");
    let t = Tables::new(&db);
    let after = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert_eq!(after, before);

    // By bytes, at any alignment.
    let raw = db.raw_table("rows").unwrap();
    let encoded = |n: u32| {
        let mut key = vec![];
        braiddb::Key::encode(&id(n), true, &mut key);
        key
    };
    for shift in 0..8 {
        let n = 400 + shift as u32;
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(row(50 + n, n).as_bytes());
        let (key, gone) = (encoded(n), encoded(n - 400));
        let write = async move |tx: &Txn| {
            raw.put(tx, &key, &bytes[shift..]).await?;
            assert!(raw.delete(tx, &gone).await?);
            Ok(())
        };
        db.run(write).wait().unwrap();
    }
    let short = encoded(500);
    let malformed = db.run(async move |tx| raw.put(tx, &short, b"no row").await).wait();
    assert!(matches!(malformed, Err(Error::Malformed { .. })));
    let rows = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert_eq!(rows[&id(407)], row(457, 407));
    db.close().unwrap();
}

/// Proves that a row that loses its duplicate key while a unique index is being built leaves the other row's entry in
/// place.
#[test]
fn a_duplicate_mended_meanwhile_harms_no_other_row() {
    const ROWS: u64 = 600;
    for change in ["update", "delete"] {
        let db: Database = database(0);
        let rows: Table<u64, u64> = db.table("numbers").unwrap();
        // The first row and a row near the end have the same number. The builder comes to the first long before.
        let number = |key: u64| if key == 500 { 0 } else { key };
        let put = async |tx: &Txn, key: &u64| tx.put(rows, *key, number(*key)).await;
        db.worker().run_each(0..ROWS, put, |result| result.unwrap());
        let mends = std::sync::Mutex::new(Some(db.clone()));
        let by_number = db
            .unique_index(rows, change, move |key: &u64, number: u64| {
                let mend = if *key == 400 { mends.lock().unwrap().take() } else { None };
                if let Some(db) = mend {
                    let tx = db.begin().unwrap();
                    match change {
                        "update" => assert!(tx.update(rows, 500, 5000).unwrap()),
                        _ => assert!(tx.delete(rows, 500).unwrap()),
                    }
                    tx.commit().unwrap();
                }
                Some(number)
            })
            .unwrap();
        let tx = db.begin().unwrap();
        assert_eq!(tx.get_by(by_number, 0).unwrap(), Some((0, 0)), "{change}");
        assert_eq!(tx.get_by(by_number, 5000).unwrap(), (change == "update").then_some((500, 5000)));
        drop(tx);
        let tx = db.begin().unwrap();
        assert!(matches!(tx.insert(rows, 1000, 0), Err(Error::UniqueViolation { .. })), "{change}");
    }
}

/// Proves that an index that cannot be built leaves no entries in memory.
#[test]
fn what_cannot_be_built_is_given_back() {
    let db: Database = database(0);
    let numbers: Table<u64, u64> = db.table("numbers").unwrap();
    let put = async |tx: &Txn, &key: &u64| tx.put(numbers, key, key.min(4999)).await;
    db.worker().run_each(0..=5000, put, |result| result.unwrap());
    let records = || {
        db.worker().maintain();
        db.statistics().memory.records
    };
    let before = records();
    for name in ["one", "again", "and again"] {
        let refused = db.unique_index(numbers, name, |_, number: u64| Some(number));
        assert!(matches!(refused, Err(Error::IndexNotBuilt { .. })));
        let wait = (0..1000).find(|_| {
            thread::sleep(Duration::from_millis(1));
            records() < before + 600 // some hundreds wait to be reclaimed
        });
        assert!(wait.is_some(), "{} records, {before} before", records());
    }
}

/// Proves the same of an index that does not fit into memory: rows as long as its entries can be written in its place.
#[test]
fn what_does_not_fit_is_given_back() {
    let options = Options { workers: 0, memory_limit_bytes: 24 << 20, ..Options::default() };
    let db: Database = Database::in_memory(options).unwrap();
    let rows: Table<u64, [u8]> = db.table("rows").unwrap();
    for first in (0..60_000u64).step_by(1000) {
        db.transact(|tx| (first..first + 1000).try_for_each(|key| tx.put(rows, key, &[1; 100]))).unwrap();
    }
    let by_much = |key: &u64, _: &[u8]| Some(format!("{key:08}{}", "x".repeat(480)));
    let refused = db.index(rows, "by much", by_much).map(drop).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
    let is_written = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(10));
        db.worker().maintain();
        let put = |key| db.transact(|tx| tx.put(rows, key, &[2; 480]));
        (1 << 20..(1 << 20) + 5000).all(|key| put(key).is_ok())
    });
    assert!(is_written, "{:?}", db.statistics().memory);
}
