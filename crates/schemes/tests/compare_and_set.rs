//! Writes that depend on what the row is (`compare_and_set`), under every scheme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Txn};
use std::sync::Arc;
use std::thread;

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            #[test]
            fn a_row_is_written_if_it_is_as_expected() {
                super::a_row_is_written_if_it_is_as_expected(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn of_transactions_that_expect_the_same_one_succeeds() {
                super::of_transactions_that_expect_the_same_one_succeeds(braiddb::SchemeName::$scheme);
            }
        }
    )*};
}
braiddb::schemes!(tests);

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap()
}

/// Proves every combination of the present value, the expected value and the new value, by closures and by plain
/// calls.
fn a_row_is_written_if_it_is_as_expected(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<String, str> = db.table("t").unwrap();
    let mut worker = db.worker();
    let values = [None, Some("one"), Some("the other, longer")];
    let cases = (0..27).map(|i| (values[i / 9], values[i / 3 % 3], values[i % 3]));
    for (there, expected, new) in cases {
        for is_interactive in [false, true] {
            let set = async |tx: &Txn<AnyScheme>| match there {
                Some(value) => tx.put(t, "key", value).await,
                None => tx.delete(t, "key").await.map(|_| ()),
            };
            worker.run(set).unwrap();
            let was_equal = match is_interactive {
                false => worker.run(async |tx| tx.compare_and_set(t, "key", expected, new).await),
                true => db.transact(|tx| tx.compare_and_set(t, "key", expected, new)),
            };
            assert_eq!(was_equal.unwrap(), there == expected, "{there:?}, {expected:?}, {new:?}");
            let after = if there == expected { new } else { there };
            assert_eq!(db.begin().unwrap().get(t, "key").unwrap(), after, "{there:?}, {expected:?}, {new:?}");
        }
    }
}

/// Threads take numbers from a row, each by the value that it has seen before. Proves that no number is taken twice.
fn of_transactions_that_expect_the_same_one_succeeds(scheme: SchemeName) {
    const TAKEN: u64 = 300;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let take = || -> Result<u64> {
        let (mut worker, mut expected, mut taken) = (db.worker(), None, 0);
        while taken < TAKEN {
            let next = Some(expected.map_or(1, |last| last + 1));
            let (was_equal, seen) = worker.run(async |tx| {
                let was_equal = tx.compare_and_set(t, 1, expected, next).await?;
                Ok((was_equal, tx.get(t, 1).await?))
            })?;
            taken += u64::from(was_equal);
            expected = seen;
        }
        Ok(taken)
    };
    thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(take));
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap().unwrap());
    });
    assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), Some(3 * TAKEN));
}

/// Proves that a transaction compares with what it has written itself.
#[test]
fn own_writes_are_compared() {
    let db = database(SchemeName::Serializable);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    assert!(tx.compare_and_set(t, 1, None, Some(1)).unwrap());
    assert!(!tx.compare_and_set(t, 1, None, Some(2)).unwrap());
    assert!(tx.compare_and_set(t, 1, Some(1), Some(3)).unwrap());
    assert!(tx.compare_and_set(t, 1, Some(3), None).unwrap());
    assert!(tx.compare_and_set(t, 1, None, Some(4)).unwrap());
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), Some(4));
}

/// Proves that a value that was not as expected is tracked: a transaction that acted on it is told if it changes
/// before the commit.
#[test]
fn a_comparison_is_a_read() {
    let db = database(SchemeName::Serializable);
    let (t, other): (Table<u64, u64>, Table<u64, u64>) = (db.table("t").unwrap(), db.table("other").unwrap());
    db.transact(|tx| tx.put(t, 1, 1)).unwrap();
    let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
    assert!(!first.compare_and_set(t, 1, Some(2), Some(3)).unwrap());
    assert!(!second.compare_and_set(other, 1, Some(2), Some(3)).unwrap());
    first.put(other, 1, 1).unwrap();
    second.put(t, 1, 2).unwrap();
    let ends = [first.commit(), second.commit()];
    assert!(ends.iter().any(|end| matches!(end, Err(Error::Conflict))), "{ends:?}");
}

/// Proves that a value that is not of the table's type is an error that names its row, and that the value stays.
#[test]
fn malformed_rows_are_named() {
    let db = database(SchemeName::Serializable);
    let t: Table<u64, str> = db.table("names").unwrap();
    let raw = db.raw_table("names").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| raw.put(tx, &7u64.to_be_bytes(), b"\xff").await).unwrap();
    let error = worker.run(async |tx| tx.compare_and_set(t, 7, Some("a"), None).await).unwrap_err();
    let Error::Malformed { row: Some(row), .. } = error else { panic!("{error}") };
    assert_eq!((row.table.as_str(), row.key.as_str()), ("names", "0x0000000000000007"));
    assert_eq!(
        worker.run(async |tx| Ok(raw.get(tx, &7u64.to_be_bytes()).await?.map(<[u8]>::len))).unwrap(),
        Some(1)
    );
}
