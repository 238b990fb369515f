//! Calls that wait, on a thread that is needed by what they wait for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::{under, under_all_schemes};
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::{
    AnyScheme, Database, Durability, Error, Expiry, Options, Projection, Result, SchemeName, Table,
    Transaction, Txn,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

type Rows = Table<u64, u64>;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The call continues when all open transactions have ended.
    ForTransactions,
    /// The call takes a long time.
    Long,
}
use Waits::{ForTransactions, Long};

struct World {
    db: Database<AnyScheme>,
    rows: Rows,
    frozen: Rows,
    projection: Projection<u64, u64, (u64,), AnyScheme>,
    expiry: Expiry<u64, u64, AnyScheme>,
    names: AtomicU32,
}

impl World {
    fn new(scheme: SchemeName) -> Arc<World> {
        let options = Options {
            workers: 1,
            log_segment_bytes: 1 << 16,
            durability: Durability::Async,
            ..Options::default()
        };
        let (storage, clock) = (Arc::new(MemoryStorage::new(1 << 28)), Arc::new(SystemClock::default()));
        let db =
            Database::<AnyScheme>::open_with(storage, under(scheme, options), clock, &mut |_| {}).unwrap();
        let (rows, frozen): (Rows, Rows) = (db.table("rows").unwrap(), db.table("frozen").unwrap());
        db.index(rows, "there", |_, value| Some(value)).unwrap();
        db.index_on::<u64, _, _>(db.table::<u64, (u64, u64)>("pairs").unwrap(), "kept", &["0"]).unwrap();
        let projection = db.projection(rows, "columns", |_, value| Some((value,))).unwrap();
        let expiry = db.expiry(rows, "by expiry", |_, _| None).unwrap();
        db.transact(|tx| tx.put(rows, 1, 1)).unwrap();
        db.freeze(frozen).unwrap();
        Arc::new(World { db, rows, frozen, projection, expiry, names: AtomicU32::new(0) })
    }

    fn name(&self) -> String {
        format!("new {}", self.names.fetch_add(1, Relaxed))
    }
}

type Call = fn(&World) -> Result<()>;

/// Returns all calls that wait, except `shutdown` and `close`, which end the database for the calls after them.
fn calls() -> Vec<(&'static str, Waits, Call)> {
    vec![
        ("clear", ForTransactions, |w| w.db.clear(w.rows)),
        ("drop_table", ForTransactions, |w| {
            w.db.table::<u64, u64>("to go")?;
            w.db.drop_table("to go")
        }),
        ("index", ForTransactions, |w| w.db.index(w.rows, &w.name(), |_, v| Some(v)).map(drop)),
        ("unique_index", ForTransactions, |w| {
            w.db.unique_index(w.rows, &w.name(), |key, _| Some(*key)).map(drop)
        }),
        ("partitioned_index", ForTransactions, |w| {
            w.db.partitioned_index(w.rows, &w.name(), 8, |_, v| Some(v)).map(drop)
        }),
        ("index_on", ForTransactions, |w| {
            let pairs: Table<u64, (u64, u64)> = w.db.table("pairs")?;
            w.db.index_on::<u64, _, _>(pairs, &w.name(), &["1"]).map(drop)
        }),
        ("drop_index", ForTransactions, |w| w.db.drop_index("pairs", "kept")),
        ("freeze", ForTransactions, |w| w.db.freeze(w.rows)),
        ("thaw", ForTransactions, |w| w.db.thaw(w.frozen)),
        ("expiry", ForTransactions, |w| w.db.expiry(w.rows, &w.name(), |_, _| None).map(drop)),
        ("projection", ForTransactions, |w| {
            w.db.projection(w.rows, &w.name(), |_, value| Some((value,))).map(drop)
        }),
        ("refresh", ForTransactions, |w| w.projection.refresh().map(drop)),
        ("sweep", Long, |w| w.expiry.sweep(10).map(drop)),
        ("migrate", Long, |w| w.db.migrate(w.rows).map(drop)),
        ("checkpoint", Long, |w| w.db.checkpoint()),
        ("backup", Long, |w| {
            static COPIES: AtomicU32 = AtomicU32::new(0);
            let (process, copy) = (std::process::id(), COPIES.fetch_add(1, Relaxed));
            let to = std::env::temp_dir().join(format!("braid-waiting-{process}-{copy}"));
            let result = w.db.backup(&to).map(drop);
            let _ = std::fs::remove_dir_all(&to);
            result
        }),
        ("wait for a submitted transaction", Long, |w| {
            w.db.run(async |_| {
                thread::sleep(Duration::from_millis(20));
                Ok(())
            })
            .wait()
        }),
        ("wait for a batch", Long, |w| {
            let sleep = async |_: &Txn<AnyScheme>, ms: &u64| {
                thread::sleep(Duration::from_millis(*ms));
                Ok(())
            };
            w.db.run_each(vec![20], sleep).wait()?.into_iter().collect()
        }),
        ("changes", Long, |w| {
            let mut changes = w.db.changes(w.db.change_position()?)?;
            changes.next_timeout(Duration::ZERO).map(drop)
        }),
    ]
}

fn is_refused(result: &Result<()>) -> bool {
    matches!(result, Err(Error::WouldDeadlock))
}

/// Makes each call in `place`, and checks that exactly the calls that `refuses` names are refused.
fn check(
    scheme: SchemeName,
    place: &str,
    refuses: impl Fn(Waits) -> bool,
    mut call_there: impl FnMut(&Arc<World>, Call) -> Result<()>,
) {
    let w = World::new(scheme);
    for (name, waits, call) in calls() {
        if refuses(waits) {
            let result = call_there(&w, call);
            assert!(is_refused(&result), "{name} {place}: {result:?}");
        }
    }
    // Nothing has changed, so all calls can be made now.
    assert_eq!(w.db.transact(|tx| tx.get(w.rows, 1)).unwrap(), Some(1), "{place}");
    for (name, waits, call) in calls() {
        let result = if refuses(waits) { call(&w) } else { call_there(&w, call) };
        // Only snapshots read rows of columns.
        let may_fail = name == "refresh" && matches!(result, Err(Error::NoSnapshot { .. }));
        assert!(result.is_ok() || may_fail, "{name} {place}: {result:?}");
        if name == "freeze" {
            w.db.thaw(w.rows).unwrap();
        }
    }
}

fn on_a_worker_of_the_database(scheme: SchemeName) {
    check(
        scheme,
        "in a submitted closure",
        |_| true,
        |w, call| {
            let inside = w.clone();
            w.db.run(async move |_| call(&inside)).wait()
        },
    );
    let w = World::new(scheme);
    let inside = w.clone();
    assert!(is_refused(&w.db.run(async move |_| inside.db.shutdown()).wait()));
    w.db.shutdown().unwrap();
}

fn on_a_worker_of_the_caller(scheme: SchemeName) {
    check(scheme, "in a closure of an own worker", |_| true, |w, call| w.db.worker().run(async |_| call(w)));
    check(
        scheme,
        "between the steps of an own worker",
        |waits| waits == ForTransactions,
        |w, call| {
            let mut worker = w.db.worker();
            worker.spawn(async |_| std::future::pending::<Result<()>>().await, |_| {}).unwrap();
            while worker.round() {}
            assert_eq!(worker.open(), 1);
            call(w)
        },
    );
    let w = World::new(scheme);
    let mut refused = 0;
    w.db.worker().run_each(
        0..100,
        async |tx, key| tx.put(w.rows, *key, 1).await,
        |result| {
            result.unwrap();
            let frozen = w.db.freeze(w.frozen); // it is frozen already, but the call has to wait
            assert!(is_refused(&frozen), "{frozen:?}");
            refused += 1;
        },
    );
    assert_eq!(refused, 100);
}

fn beside_an_interactive_transaction(scheme: SchemeName) {
    let waits = |waits| waits == ForTransactions;
    check(scheme, "beside a transaction", waits, |w, call| {
        let _open = w.db.begin().unwrap();
        call(w)
    });
    check(scheme, "in a closure of transact", waits, |w, call| {
        let mut result = Ok(());
        w.db.transact(|_| {
            result = call(w);
            Ok(())
        })?;
        result
    });
    check(scheme, "beside a transaction that has come from another thread", waits, |w, call| {
        let open = thread::scope(|scope| scope.spawn(|| w.db.begin().unwrap()).join().unwrap());
        open.with(async |_| Ok(())).unwrap();
        call(w)
    });
}

/// Hands the transaction to another thread, which uses it and keeps it until the receiver is told.
fn elsewhere<'s>(
    scope: &'s thread::Scope<'s, '_>,
    open: Transaction<AnyScheme>,
) -> std::sync::mpsc::Sender<()> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (used, is_used) = std::sync::mpsc::channel();
    scope.spawn(move || {
        open.with(async |_| Ok(())).unwrap();
        used.send(()).unwrap();
        let _ = ended.recv();
        drop(open);
    });
    is_used.recv().unwrap();
    end
}

fn other_threads_are_waited_for(scheme: SchemeName) {
    let w = World::new(scheme);
    thread::scope(|scope| {
        let end = elsewhere(scope, w.db.begin().unwrap());
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(20));
            end.send(()).unwrap();
        });
        w.db.freeze(w.rows).unwrap();
        w.db.thaw(w.rows).unwrap();
    });
}

/// Proves that a call does not wait for a lock that another call holds while this other call waits for open
/// transactions.
fn calls_that_are_waited_for(scheme: SchemeName) {
    let w = World::new(scheme);
    thread::scope(|scope| {
        let open = w.db.begin().unwrap();
        let clearing = scope.spawn(|| w.db.clear(w.rows));
        while w.db.begin().unwrap().get(w.rows, 1).is_ok() {
            thread::yield_now();
        }
        let again = w.db.index(w.rows, "there", |_, value| Some(value)).map(drop);
        assert!(is_refused(&again), "{again:?}");
        assert!(is_refused(&w.db.freeze(w.frozen)));
        w.projection.discard();
        assert!(!clearing.is_finished());
        drop(open);
        clearing.join().unwrap().unwrap();
    });
    w.db.index(w.rows, "there", |_, value| Some(value)).unwrap();
}

#[test]
fn calls_in_a_submitted_closure_are_refused() {
    under_all_schemes!(on_a_worker_of_the_database());
}

#[test]
fn calls_on_the_thread_of_an_own_worker_are_refused() {
    under_all_schemes!(on_a_worker_of_the_caller());
}

#[test]
fn calls_beside_an_open_transaction_of_the_thread_are_refused() {
    under_all_schemes!(beside_an_interactive_transaction());
}

#[test]
fn transactions_of_other_threads_are_waited_for() {
    under_all_schemes!(other_threads_are_waited_for());
}

#[test]
fn calls_do_not_wait_for_calls_that_wait_for_them() {
    under_all_schemes!(calls_that_are_waited_for());
}
