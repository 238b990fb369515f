//! A failed closure answers by what its changes have told it. This answer fits into the serial order, under every
//! scheme that promises one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::suspend::Seeded;
use braiddb::worker::WorkerOptions;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Transaction, Txn};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    let options = Options { workers: 0, retries_max: 0, lock_wait_ms: 1, ..Options::default() };
    Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap()
}

type Numbers = Table<u64, u64>;

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            #[test]
            fn what_changes_have_told_holds() {
                // `Snapshot` promises no serial order.
                if stringify!($promise) != "Snapshot" {
                    super::what_changes_have_told_holds(braiddb::SchemeName::$scheme);
                }
            }

            #[test]
            fn errors_after_a_conflict_are_conflicts() {
                super::errors_after_a_conflict_are_conflicts(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn own_writes_are_read() {
                super::own_writes_are_read(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn leaked_operations_do_no_harm() {
                super::leaked_operations_do_no_harm(braiddb::SchemeName::$scheme);
            }
        }
    )*};
}
braiddb::schemes!(tests);

/// A change of a row, whose result tells something about the row.
#[derive(Clone, Copy, Debug)]
enum Told {
    Insert,
    Update,
    Delete,
}

impl Told {
    async fn make(self, tx: &Txn<AnyScheme>, table: Numbers) -> Result<()> {
        match self {
            Told::Insert => tx.insert(table, 3, 30).await,
            Told::Update => tx.update(table, 1, 10).await.map(|was_there| assert!(was_there)),
            Told::Delete => tx.delete(table, 2).await.map(|was_there| assert!(was_there)),
        }
    }

    /// Makes wrong what the change has told.
    fn contradict(self, tx: &Transaction<AnyScheme>, table: Numbers) -> Result<()> {
        match self {
            Told::Insert => tx.insert(table, 3, 3),
            Told::Update => tx.delete(table, 1).map(|_| ()),
            Told::Delete => tx.delete(table, 2).map(|_| ()),
        }
    }
}

/// Proves that what a change has told a failed transaction stays true. The first transaction is ordered before the
/// second, because it has not seen the second one's change. A third transaction, which begins after the second, makes
/// a change and fails: its change was told the state after the second transaction. The first transaction would be
/// ordered before that, so it can no longer commit a write that makes it wrong.
fn what_changes_have_told_holds(scheme: SchemeName) {
    for told in [Told::Insert, Told::Update, Told::Delete] {
        let db = database(scheme);
        let t: Numbers = db.table("t").unwrap();
        db.transact(|tx| [1, 2].into_iter().try_for_each(|key| tx.insert(t, key, key))).unwrap();
        let mut worker = db.worker();
        let first = db.begin().unwrap();
        assert_eq!(first.get(t, 5).unwrap(), None);
        let second = worker.run(async |tx| tx.put(t, 5, 1).await);
        let third = worker.run(async |tx| {
            told.make(tx, t).await?;
            Err::<(), _>(Error::user("given up"))
        });
        let is_told = matches!(third, Err(Error::User(_)));
        let ended = told.contradict(&first, t).and_then(|()| first.commit());
        assert!(second.is_err() || !is_told || ended.is_err(), "{told:?}");
    }
}

/// Proves that a closure gets the conflict as its answer if it continues after an operation that met a conflict and
/// then fails with its own error. Its later operations may have seen half of the failed operation's changes.
fn errors_after_a_conflict_are_conflicts(scheme: SchemeName) {
    let db = database(scheme);
    let t: Numbers = db.table("t").unwrap();
    db.transact(|tx| tx.insert(t, 1, 1)).unwrap();
    let open = db.begin().unwrap();
    open.put(t, 1, 2).unwrap();
    let has_met = std::cell::Cell::new(false);
    let ended = db.worker().run(async |tx| match tx.put(t, 1, 3).await {
        Err(Error::Conflict) => {
            has_met.set(true);
            Err(Error::user("given up"))
        }
        other => other,
    });
    assert!(!has_met.get() || matches!(ended, Err(Error::Conflict)), "{ended:?}");
}

/// Another transaction removes a row that this transaction has written. Proves that the transaction does not commit if
/// it does not find what it has written, even if it has undone the write, and that its own error about the missing row
/// is not its answer.
fn own_writes_are_read(scheme: SchemeName) {
    for (row_is_there, is_undone) in [(true, false), (true, true), (false, false), (false, true)] {
        let db = database(scheme);
        let t: Numbers = db.table("t").unwrap();
        if row_is_there {
            db.transact(|tx| tx.insert(t, 1, 1)).unwrap();
        }
        // Under locks, these wait for the transaction and give up.
        let remove = || {
            let _ = db.transact(|tx| tx.put(t, 1, 3));
            let _ = db.transact(|tx| tx.delete(t, 1));
        };
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        tx.put(t, 1, 2).unwrap();
        remove();
        let found = tx.get(t, 1);
        let undone = if is_undone { tx.rollback_to(&before) } else { Ok(()) };
        let ended = undone.and_then(|()| tx.commit());
        assert!(matches!(found, Ok(Some(2)) | Err(_)) || ended.is_err(), "{found:?}");

        let ended = db.worker().run(async |tx| {
            tx.put(t, 1, 2).await?;
            remove();
            match tx.get(t, 1).await? {
                Some(2) => Ok(()),
                found => Err(Error::user(format!("found {found:?}"))),
            }
        });
        assert!(!matches!(ended, Err(Error::User(_))), "{ended:?}");
    }
}

/// A closure fails while operations are in flight that will not be polled again, on rows that it has written and on
/// others. Proves that its changes are undone, that its error is the answer, and that later transactions find the rows
/// as they were.
fn leaked_operations_do_no_harm(scheme: SchemeName) {
    const ROWS: u64 = 300;
    /// Polls an operation once, and leaks it. Returns true if it was still in flight.
    async fn leak<F: Future>(operation: F) -> bool {
        let mut operation = Box::pin(operation);
        let is_done = poll_fn(|context| Poll::Ready(operation.as_mut().poll(context).is_ready())).await;
        std::mem::forget(operation);
        !is_done
    }
    let db = database(scheme);
    let t: Numbers = db.table("t").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|key| tx.insert(t, key, key))).unwrap();
    let in_flight = std::cell::Cell::new(0);
    for seed in 0..40 {
        let mut worker = db.worker_with(Seeded::new(seed), WorkerOptions::default());
        let ended = worker.run(async |tx| {
            for key in 0..20 {
                tx.insert(t, ROWS + key, 0).await?;
                tx.put(t, key, 1000).await?;
            }
            let leaked = [
                leak(tx.get(t, ROWS + seed % 20)).await,
                leak(tx.put(t, seed % 20, 2000)).await,
                leak(tx.insert(t, 2 * ROWS, 0)).await,
                leak(tx.delete(t, 100 + seed)).await,
                leak(tx.scan(t, ROWS..).next()).await,
            ];
            in_flight.set(in_flight.get() + leaked.iter().filter(|&&is_in_flight| is_in_flight).count());
            Err::<(), _>(Error::user("given up"))
        });
        assert!(matches!(ended, Err(Error::User(_))), "{ended:?}");
        let rows = worker.run(async |tx| {
            let (mut rows, mut found) = (tx.scan_all(t), Vec::new());
            while let Some(row) = rows.next().await? {
                found.push(row);
            }
            Ok(found)
        });
        assert!(rows.unwrap().into_iter().eq((0..ROWS).map(|key| (key, key))), "seed {seed}");
    }
    assert!(in_flight.get() > 40, "{} were in flight", in_flight.get());
}
