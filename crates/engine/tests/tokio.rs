//! The engine beside tokio: handles in its tasks, and its futures inside transactions.
#![cfg(not(any(braid_shuttle, braid_loom)))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{Database, Error, Options, Table};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

fn database() -> (Database, Table<u64, u64>) {
    let db = Database::in_memory(Options { workers: 2, ..Options::default() }).unwrap();
    let rows = db.table("rows").unwrap();
    (db, rows)
}

/// Proves that tasks that may move between threads can await transactions.
#[test]
fn tasks_await_handles() {
    let (db, rows) = database();
    runtime().block_on(async {
        let tasks: Vec<_> = (0..1000)
            .map(|i: u64| {
                let db = db.clone();
                tokio::spawn(async move {
                    db.run(async move |tx| {
                        let count = tx.get(rows, i % 10).await?.unwrap_or(0);
                        tx.put(rows, i % 10, count + 1).await
                    })
                    .await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let sum = db.run(async move |tx| {
            let mut sum = 0;
            tx.scan_all(rows).for_each(|_, count| sum += count).await?;
            Ok(sum)
        });
        assert_eq!(sum.await.unwrap(), 1000);
    });
}

/// Proves that a timeout drops the handle, which undoes the transaction and frees what it has locked.
#[test]
fn a_timeout_cancels() {
    let (db, rows) = database();
    runtime().block_on(async {
        let never = db.run(async move |tx| {
            tx.put(rows, 1, 1).await?;
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(timeout(Duration::from_millis(20), never).await.is_err());
        // Meanwhile the row is not locked for other transactions.
        db.run(async move |tx| tx.insert(rows, 1, 2).await).await.unwrap();
    });
    assert_eq!(db.begin().unwrap().get(rows, 1).unwrap(), Some(2));
}

/// Proves that while the only inbox is full, `try_run` fails and `run_async` waits, without its thread. A timeout
/// gives up before anything is submitted.
#[test]
fn a_full_inbox_keeps_no_thread_waiting() {
    let options = Options { workers: 1, inbox_capacity: 2, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (started, starts) = std::sync::mpsc::channel();
    let blocked = db.run(async move |_| {
        started.send(()).unwrap();
        let _ = released.recv(); // the worker's thread
        Ok(())
    });
    starts.recv().unwrap();
    let one_thread = Builder::new_current_thread().enable_time().build().unwrap();
    one_thread.block_on(async {
        let mut queued = Vec::new();
        let refused = loop {
            match db.try_run(async move |tx| tx.put(rows, 1, 1).await) {
                Ok(handle) => queued.push(handle),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Busy) && queued.len() == 2, "{refused} after {}", queued.len());
        let put = |key| {
            let db = db.clone();
            async move { db.run_async(async move |tx| tx.put(rows, key, key).await).await }
        };
        assert!(timeout(Duration::from_millis(10), put(1000)).await.is_err());
        let waiting: Vec<_> = (2..200).map(|key| tokio::spawn(put(key))).collect();
        sleep(Duration::from_millis(10)).await; // the thread is free meanwhile
        assert!(waiting.iter().all(|task| !task.is_finished()));
        drop(release);
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        for handle in queued {
            handle.await.unwrap();
        }
        blocked.await.unwrap();
    });
    let tx = db.begin().unwrap();
    assert_eq!((tx.count(rows).unwrap(), tx.get(rows, 1000).unwrap()), (199, None));
}

/// Proves that a future that needs a runtime can be spawned on it, and awaited by its task's handle. The transaction
/// is parked meanwhile.
#[test]
fn a_transaction_awaits_a_task() {
    let (db, rows) = database();
    let runtime = runtime();
    let on_runtime = runtime.handle().clone();
    let stored = db.run(async move |tx| {
        let price = on_runtime.spawn(async {
            sleep(Duration::from_millis(5)).await;
            250
        });
        let price = price.await.map_err(Error::user)?;
        tx.put(rows, 1, price).await
    });
    stored.wait().unwrap();
    assert_eq!(db.begin().unwrap().get(rows, 1).unwrap(), Some(250));
}

/// Proves that a future of tokio's that panics without its runtime is an error that says so, and that nothing remains
/// of the transaction.
#[test]
fn a_timer_without_its_runtime_is_an_error() {
    let (db, rows) = database();
    let failed = db.run(async move |tx| {
        tx.put(rows, 1, 1).await?;
        sleep(Duration::from_millis(1)).await;
        Ok(())
    });
    let error = failed.wait().unwrap_err();
    assert!(matches!(error, Error::Panicked(_)), "{error}");
    assert!(error.to_string().contains("Tokio"), "{error}");
    assert_eq!(db.begin().unwrap().get(rows, 1).unwrap(), None);
}
