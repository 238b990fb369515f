//! Transactions of plain calls that are run until they commit, and operations that consist of other operations, under
//! every scheme.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::{AnyScheme, Database, Error, KEY_BYTES_MAX, Options, Result, SchemeName, Table};
use std::sync::Arc;

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            #[test]
            fn ends_of_tables() {
                super::ends_of_tables(SCHEME);
            }

            #[test]
            fn each_row_is_popped_once() {
                super::each_row_is_popped_once(SCHEME);
            }

            #[test]
            fn keys_that_are_too_long() {
                super::keys_that_are_too_long(SCHEME);
            }

            #[test]
            fn calls_are_run_again() {
                super::calls_are_run_again(SCHEME);
            }
        }
    )*};
}

braiddb::schemes!(tests);

/// Makes a database without threads of its own. A transaction that meets conflicts is run again without limit.
fn database(scheme: SchemeName) -> (Database<AnyScheme>, Table<u64, u64>) {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    let db = Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap();
    let table = db.table("t").unwrap();
    (db, table)
}

fn put(db: &Database<AnyScheme>, t: Table<u64, u64>, rows: impl Iterator<Item = (u64, u64)> + Clone) {
    db.transact(|tx| rows.clone().try_for_each(|(key, value)| tx.put(t, key, value))).unwrap();
}

/// Proves that the first and last rows of a table are found and taken, and that rows are counted and removed,
/// including rows that the transaction itself has written.
fn ends_of_tables(scheme: SchemeName) {
    let (db, t) = database(scheme);
    put(&db, t, (1..=1_000).map(|key| (key, key * 10)));
    let done = db.worker().run(async |tx| {
        tx.put(t, 0, 7).await?;
        assert_eq!((tx.first(t).await?, tx.last(t).await?), (Some((0, 7)), Some((1_000, 10_000))));
        assert_eq!(tx.pop_first(t).await?, Some((0, 7)));
        assert_eq!((tx.pop_first(t).await?, tx.pop_last(t).await?), (Some((1, 10)), Some((1_000, 10_000))));
        assert_eq!(tx.count(t).await?, 998);
        assert_eq!(tx.delete_range(t, 3..=998).await?, 996);
        assert_eq!(tx.delete_range(t, 3..=998).await?, 0);
        tx.count(t).await
    });
    assert_eq!(done.unwrap(), 2);
    let tx = db.begin().unwrap();
    assert_eq!((tx.first(t).unwrap(), tx.last(t).unwrap()), (Some((2, 20)), Some((999, 9_990))));
    assert_eq!((tx.pop_last(t).unwrap(), tx.pop_first(t).unwrap()), (Some((999, 9_990)), Some((2, 20))));
    assert_eq!((tx.pop_first(t).unwrap(), tx.count(t).unwrap()), (None, 0));
    tx.put(t, 5, 5).unwrap();
    assert_eq!((tx.delete_range(t, ..9).unwrap(), tx.first(t).unwrap()), (1, None));
    tx.commit().unwrap();
    assert_eq!(db.transact(|tx| tx.count(t)).unwrap(), 0);
}

/// Proves that threads that take rows from the same end take each row once.
fn each_row_is_popped_once(scheme: SchemeName) {
    const ROWS: u64 = 40;
    let (db, t) = database(scheme);
    put(&db, t, (0..ROWS).map(|key| (key, key)));
    let pop_all = || {
        let mut popped = Vec::new();
        while let Some(key) = db.transact(|tx| Ok(tx.pop_first(t)?.map(|row| row.0))).unwrap() {
            popped.push(key);
        }
        popped
    };
    let popped = std::thread::scope(|scope| {
        [scope.spawn(pop_all), scope.spawn(pop_all)].map(|thread| thread.join().unwrap())
    });
    assert!(popped.iter().all(|keys| keys.is_sorted()));
    let mut all = popped.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROWS));
}

/// Proves that closures of calls are run again after conflicts, so no count is lost, and that their own error or panic
/// undoes them.
fn calls_are_run_again(scheme: SchemeName) {
    const COUNTS: u64 = 100;
    let (db, t) = database(scheme);
    let count = || {
        for _ in 0..COUNTS {
            let counted = db.transact(|tx| {
                let count = tx.get(t, 1)?.unwrap_or(0) + 1;
                tx.put(t, 1, count)?;
                Ok(count)
            });
            assert!(counted.unwrap() <= 2 * COUNTS);
        }
    };
    std::thread::scope(|scope| [scope.spawn(count), scope.spawn(count)].map(|thread| thread.join().unwrap()));
    let mut runs = 0;
    let failed: Result<()> = db.transact(|tx| {
        runs += 1;
        tx.put(t, 1, 0)?;
        Err(Error::user("no"))
    });
    assert_eq!((failed.unwrap_err().to_string(), runs), ("no".to_owned(), 1));
    // So does a panic, and nothing remains of it.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.transact(|tx| -> Result<()> {
            tx.put(t, 1, 0)?;
            std::panic::resume_unwind(Box::new("in the closure"))
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(db.transact(|tx| tx.get(t, 1)).unwrap(), Some(2 * COUNTS));
}

/// Proves that nothing is found under a key that is longer than any row's key, and that such a key bounds a scan like
/// any other key. Only adding such a row fails.
fn keys_that_are_too_long(scheme: SchemeName) {
    let (db, _) = database(scheme);
    let t: Table<Vec<u8>, u64> = db.table("long").unwrap();
    let (most, more) = (vec![7; KEY_BYTES_MAX], vec![7; 2 * KEY_BYTES_MAX]);
    db.transact(|tx| {
        tx.put(t, &most, 1)?;
        tx.put(t, b"\x08", 2)
    })
    .unwrap();
    let mut worker = db.worker();
    let done = worker.run(async |tx| {
        assert_eq!(tx.get(t, &more).await?, None);
        assert!(!tx.contains(t, &more).await?);
        assert_eq!(tx.get_for_update(t, &more).await?, None);
        assert!(!tx.update(t, &more, 3).await?);
        assert!(!tx.delete(t, &more).await?);
        assert_eq!(tx.get_many(t, &[&more, &most]).await?, [None, Some(1)]);
        assert_eq!(tx.scan::<_, _, &Vec<u8>>(t, &more..).next().await?, Some((b"\x08".to_vec(), 2)));
        assert_eq!(tx.scan::<_, _, &Vec<u8>>(t, ..&more).reverse().next().await?, Some((most.clone(), 1)));
        tx.put(t, &most, 4).await
    });
    done.unwrap();
    let refused = worker.run(async |tx| tx.put(t, &more, 3).await);
    assert!(matches!(refused, Err(Error::KeyTooLong { bytes: 2048, .. })), "{refused:?}");
    assert_eq!(db.transact(|tx| tx.count(t)).unwrap(), 2);
}
