//! Tables whose index keeps no order of keys. Under every scheme, rows are found by whole keys, absent keys count as
//! read, scans are refused, and the engine's own walks (checkpoints, copies, the making of secondary indexes) miss
//! nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::tools::{backup, verify};
use braiddb::{AnyScheme, Database, Error, IndexKind, Options, Result, SchemeName, Table, TableOptions, Txn};
use std::collections::BTreeMap;
use std::sync::Arc;

fn kinds() -> impl Iterator<Item = IndexKind> {
    let kinds = IndexKind::ALL.iter().copied().filter(|kind| !kind.is_ordered());
    assert!(kinds.clone().count() > 0);
    kinds
}

fn made(index: IndexKind) -> TableOptions {
    TableOptions { index, ..TableOptions::default() }
}

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap()
}

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            const IS_SERIALIZABLE: bool = stringify!($promise).as_bytes()[1] == b'e';

            #[test]
            fn rows_come_and_go() {
                super::kinds().for_each(|kind| super::rows_come_and_go(SCHEME, kind));
            }

            #[test]
            fn absent_rows_are_read() {
                super::kinds().for_each(|kind| super::absent_rows_are_read(SCHEME, kind, IS_SERIALIZABLE));
            }

            #[test]
            fn scans_are_refused() {
                super::kinds().for_each(|kind| super::scans_are_refused(SCHEME, kind));
            }

            #[test]
            fn secondary_indexes() {
                super::kinds().for_each(|kind| super::secondary_indexes(SCHEME, kind));
            }

            #[test]
            fn databases_are_recovered() {
                super::kinds().for_each(|kind| super::databases_are_recovered(SCHEME, kind));
            }
        }
    )*};
}

braiddb::schemes!(tests);

fn name(n: u64) -> String {
    format!("a name that has more than eight bytes {n}")
}

/// Proves that rows with keys of eight bytes, and of any length, are inserted, changed and deleted while the tables
/// grow, and are read in every way except by scans.
fn rows_come_and_go(scheme: SchemeName, kind: IndexKind) {
    const ROWS: u64 = 1_000;
    let db = database(scheme);
    let numbers: Table<u64, u64> = db.table_with("numbers", made(kind)).unwrap();
    let names: Table<String, u64> = db.table_with("names", made(kind)).unwrap();
    let mut worker = db.worker();
    for n in 0..ROWS {
        let written = worker.run(async |tx: &Txn<AnyScheme>| {
            tx.insert(numbers, n << 30, n).await?;
            assert!(matches!(tx.insert(numbers, n << 30, n).await, Err(Error::KeyExists)));
            tx.put(names, name(n), n).await?;
            tx.put(names, n.to_string(), n).await?;
            assert_eq!(tx.get(names, name(n)).await?, Some(n));
            assert_eq!(tx.get(numbers, n << 30 | 1).await?, None);
            Ok(())
        });
        written.unwrap();
    }
    for n in (0..ROWS).filter(|n| n % 3 > 0) {
        let changed = worker.run(async |tx: &Txn<AnyScheme>| match n % 3 {
            1 => {
                assert!(tx.delete(numbers, n << 30).await? && tx.delete(names, name(n)).await?);
                assert!(!tx.delete(numbers, n << 30 | 1).await?);
                Ok(())
            }
            _ => {
                assert_eq!(tx.get_for_update(numbers, n << 30).await?, Some(n));
                assert!(tx.update(numbers, n << 30, n + 1).await? && tx.update(names, name(n), n + 1).await?);
                assert!(!tx.update(names, name(n + ROWS), 0).await?);
                Ok(())
            }
        });
        changed.unwrap();
    }
    drop(worker);
    let expected = |n: u64| [Some(n), None, Some(n + 1)][n as usize % 3].filter(|_| n < ROWS);
    db.freeze(numbers).unwrap();
    let mut worker = db.worker();
    for n in (0..2 * ROWS).step_by(4) {
        let read = worker.run(async |tx: &Txn<AnyScheme>| {
            let keys = [n, n + 1, n + 2, n + 3].map(|n| n << 30);
            assert_eq!(tx.get_many(numbers, &keys).await?, [n, n + 1, n + 2, n + 3].map(expected));
            assert_eq!(tx.get(names, name(n)).await?, expected(n));
            assert_eq!(tx.get(names, n.to_string()).await?, Some(n).filter(|_| n < ROWS));
            Ok(())
        });
        read.unwrap();
    }
}

/// Each of two transactions finds a key absent that the other inserts. Proves that one of them commits, also if the
/// table grows in between, and if each finds several keys absent, in any order.
fn absent_rows_are_read(scheme: SchemeName, kind: IndexKind, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table_with("t", made(kind)).unwrap();
    let (mut next, mut both) = (1_000u64, 0);
    for round in 0..40 {
        let (x, y) = (round, round + 500);
        let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
        let absent = |found: Option<u64>| assert_eq!(found, None);
        // If a transaction has the whole database to itself, the read fails.
        let read = (a.get(t, x).map(absent), b.get(t, y).map(absent));
        if round % 2 == 1 {
            for _ in 0..20 * round {
                let other = db.begin().unwrap();
                // If these two transactions hold the whole database, each other transaction would wait for them in
                // vain.
                if other.put(t, next, 0).and_then(|()| other.commit()).is_err() {
                    break;
                }
                next += 1;
            }
        }
        let wrote = (read.0.and_then(|()| a.put(t, y, 0)), read.1.and_then(|()| b.put(t, x, 0)));
        let commits = [wrote.0.and_then(|()| a.commit()), wrote.1.and_then(|()| b.commit())];
        let commits = commits.iter().filter(|done| done.is_ok()).count();
        assert!(commits <= if is_serializable { 1 } else { 2 }, "round {round}: {commits} commits");
        both += usize::from(commits == 2);
    }
    assert!(is_serializable || both > 0, "what is refused is refused for a reason");
}

/// Proves that a scan of any form is an error that names the table, its kind of index and what to do. The scan's
/// transaction continues, and so does a transaction that asks for no row of the scan.
fn scans_are_refused(scheme: SchemeName, kind: IndexKind) {
    let db = database(scheme);
    let numbers: Table<u64, u64> = db.table_with("the numbers", made(kind)).unwrap();
    let names: Table<String, u64> = db.table_with("the names", made(kind)).unwrap();
    let refused = |error: Error, table: &str| {
        assert!(matches!(&error, Error::NoOrder { table: name, .. } if name == table), "{error}");
        let error = error.to_string();
        assert!(
            error.contains(table) && error.contains(kind.name()) && error.contains("secondary"),
            "{error}"
        );
    };
    let done = db.worker().run(async |tx: &Txn<AnyScheme>| {
        tx.put(numbers, 1, 1).await?;
        refused(tx.scan(numbers, 1..).next().await.unwrap_err(), "the numbers");
        refused(tx.scan(numbers, 1..=1).reverse().untracked().next().await.unwrap_err(), "the numbers");
        refused(tx.scan_all(names).limit(3).next_key().await.unwrap_err(), "the names");
        refused(tx.scan_prefix(names, b"a").next().await.unwrap_err(), "the names");
        refused(tx.scan_prefix(numbers, &[0; 9]).next().await.unwrap_err(), "the numbers");
        refused(tx.scan_all(numbers).for_each(|_, _| ()).await.unwrap_err(), "the numbers");
        refused(tx.scan_all(numbers).next_chunk(&mut vec![]).await.unwrap_err(), "the numbers");
        tx.get(numbers, 1).await
    });
    assert_eq!(done.unwrap(), Some(1));
    let tx = db.begin().unwrap();
    refused(tx.scan(numbers, ..5).next().unwrap_err(), "the numbers");
    assert_eq!(tx.get(numbers, 1).unwrap(), Some(1));
    tx.commit().unwrap();
}

/// Proves that a secondary index is made of all existing rows, follows their changes, and can be scanned.
fn secondary_indexes(scheme: SchemeName, kind: IndexKind) {
    const ROWS: u64 = 700;
    let db = database(scheme);
    let numbers: Table<u64, u64> = db.table_with("numbers", made(kind)).unwrap();
    let names: Table<String, u64> = db.table_with("names", made(kind)).unwrap();
    let mut worker = db.worker();
    for n in 0..ROWS {
        let put = worker.run(async |tx: &Txn<AnyScheme>| {
            tx.put(numbers, n, n % 10).await?;
            tx.put(names, name(n), n).await
        });
        put.unwrap();
    }
    drop(worker);
    let by_value = db.index(numbers, "by value", |_, value| Some(value)).unwrap();
    let by_number = db.unique_index(names, "by number", |_, value| Some(value)).unwrap();
    let found = db.worker().run(async |tx: &Txn<AnyScheme>| {
        tx.put(numbers, ROWS, 7).await?;
        tx.delete(numbers, 17).await?;
        let (mut rows, mut keys) = (tx.scan_by(by_value, 7u64..=7), vec![]);
        while let Some((_, key, _)) = rows.next().await? {
            keys.push(key);
        }
        assert_eq!(tx.scan_by(by_number, ROWS - 1..).next().await?.map(|row| row.1), Some(name(ROWS - 1)));
        Ok(keys)
    });
    let expected = (0..=ROWS).filter(|n| (n % 10 == 7 || *n == ROWS) && *n != 17);
    assert_eq!(found.unwrap(), expected.collect::<Vec<_>>());
}

fn open(scheme: SchemeName, disk: &Arc<dyn Storage>) -> Result<Database<AnyScheme>> {
    let options = Options {
        workers: 1,
        pin_workers: false,
        log_segment_bytes: 1 << 20,
        checkpoint_range_bytes: 4 << 10,
        checkpoint_bytes_per_s: u64::MAX,
        ..Options::default()
    };
    Database::open_with(disk.clone(), under(scheme, options), Arc::new(SystemClock::default()), &mut |_| {})
}

/// Returns all rows of a table as bytes, as tools see them.
fn dump(db: &Database<AnyScheme>, table: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let raw = db.raw_table(table).unwrap();
    let tx = db.begin().unwrap();
    let (mut rows, mut found) = (raw.scan(&tx), BTreeMap::new());
    while let Some((key, value)) = rows.next().unwrap() {
        assert!(found.insert(key, value.to_vec()).is_none(), "a row comes twice");
    }
    drop(rows);
    tx.commit().unwrap();
    found
}

/// Proves that rows, and the kind of a table's index, are restored from the log, from checkpoints and from copies, and
/// that a checkpoint writes what has changed.
fn databases_are_recovered(scheme: SchemeName, kind: IndexKind) {
    const ROWS: u64 = 1_500;
    let disk: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let mut expected = [BTreeMap::new(), BTreeMap::new()];
    for round in 0..5u64 {
        let db = open(scheme, &disk).unwrap();
        let numbers: Table<u64, u64> = db.table_with("numbers", made(kind)).unwrap();
        let names: Table<String, u64> = db.table_with("names", made(kind)).unwrap();
        let wrong = db.table_with::<u64, u64>("numbers", TableOptions::default()).unwrap_err().to_string();
        assert!(wrong.contains(kind.name()), "{wrong}");
        assert_eq!(dump(&db, "numbers"), expected[0], "round {round}");
        assert_eq!(dump(&db, "names"), expected[1], "round {round}");
        // All rows, then few, so that most of the last checkpoint is kept.
        let changed: Vec<u64> =
            if round == 0 { (0..ROWS).collect() } else { vec![round, 100 * round, ROWS + round] };
        for keys in changed.chunks(100) {
            let keys = keys.to_vec();
            for n in &keys {
                let value = (n + round).to_le_bytes().to_vec();
                expected[0].insert(n.to_be_bytes().to_vec(), value.clone());
                expected[1].insert(name(*n).into_bytes(), value);
            }
            let put = db.run(async move |tx: &Txn<AnyScheme>| {
                for n in &keys {
                    tx.put(numbers, *n, n + round).await?;
                    tx.put(names, name(*n), n + round).await?;
                }
                Ok(())
            });
            put.wait().unwrap();
        }
        if round == 3 {
            let gone = db.run(async move |tx: &Txn<AnyScheme>| {
                Ok(tx.delete(numbers, 700).await? && tx.delete(names, name(700)).await?)
            });
            assert!(gone.wait().unwrap());
            expected[0].remove(&700u64.to_be_bytes()[..]);
            expected[1].remove(name(700).as_bytes());
        }
        if round != 1 {
            db.checkpoint().unwrap();
        }
        assert_eq!(dump(&db, "names"), expected[1], "round {round}");
        db.close().unwrap();
    }
    let newest = disk.list().unwrap().into_iter().filter(|name| name.starts_with("rows-")).max().unwrap();
    let number = newest.split('-').nth(1).unwrap().to_string();
    let bytes = |is_own: bool| -> u64 {
        let names = disk.list().unwrap().into_iter().filter(|name| name.starts_with("rows-"));
        let names = names.filter(|name| name.contains(&number) == is_own);
        names.map(|name| disk.open(&name, OpenMode::Read).unwrap().len_bytes().unwrap()).sum()
    };
    assert!(bytes(true) < bytes(false), "{} of {} bytes are written again", bytes(true), bytes(false));
    assert!(verify(&*disk, &mut |_| {}).unwrap().is_good());
    let copy: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    backup(&*disk, &*copy).unwrap();
    let db = open(scheme, &copy).unwrap();
    assert_eq!([dump(&db, "numbers"), dump(&db, "names")], expected);
    assert!(db.tables().iter().all(|info| info.index == kind));
}
