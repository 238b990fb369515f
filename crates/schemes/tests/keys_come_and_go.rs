//! Transactions that see a key inserted and deleted by other threads, under every scheme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Txn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            #[test]
            fn readers_see_whole_changes() {
                super::readers_see_whole_changes(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn the_answer_of_an_insert_fits_what_was_read() {
                super::the_answer_of_an_insert_fits_what_was_read(braiddb::SchemeName::$scheme);
            }
        }
    )*};
}
braiddb::schemes!(tests);

/// The duration of each test.
const LOOKED_FOR: Duration = Duration::from_millis(1000);

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap()
}

/// Calls `each` in its own thread until `ends`, or until one of the threads fails.
fn again_and_again<'s>(
    scope: &'s thread::Scope<'s, '_>,
    db: &'s Database<AnyScheme>,
    fails: &'s AtomicBool,
    mut each: impl FnMut(&mut braiddb::worker::Worker<AnyScheme, braiddb::suspend::OnMiss>) -> Result<(), String>
    + Send
    + 's,
) {
    let ends = Instant::now() + LOOKED_FOR;
    scope.spawn(move || {
        let mut worker = db.worker();
        worker.set_retries_max(u32::MAX);
        while Instant::now() < ends && !fails.load(Ordering::Relaxed) {
            if let Err(what) = each(&mut worker) {
                fails.store(true, Ordering::Relaxed);
                panic!("{what}");
            }
        }
    });
}

/// Key 5 exists exactly if row 0 says so, and key 6 exists exactly if key 5 does not. A transaction changes all three.
/// Others read them, and key 5 twice. Proves that what a committed transaction has seen is never of two moments.
fn readers_see_whole_changes(scheme: SchemeName) {
    let (db, fails) = (database(scheme), AtomicBool::new(false));
    let (t, says): (Table<u64, u64>, Table<u64, u64>) = (db.table("t").unwrap(), db.table("says").unwrap());
    let fill = async |tx: &Txn<AnyScheme>| {
        tx.put(says, 0, 0).await?;
        tx.put(t, 6, 0).await
    };
    db.worker().run(fill).unwrap();
    thread::scope(|scope| {
        again_and_again(scope, &db, &fails, |worker| {
            let changed = worker.run(async |tx| {
                let was_there = tx.get(says, 0).for_write().await?.unwrap();
                let (comes, goes) = if was_there == 1 { (6, 5) } else { (5, 6) };
                tx.insert(t, comes, 0).await?;
                tx.delete(t, goes).await?;
                tx.put(says, 0, 1 - was_there).await
            });
            changed.map_err(|error| format!("it is not changed: {error}"))
        });
        for _ in 0..2 {
            again_and_again(scope, &db, &fails, |worker| {
                let seen = worker.run(async |tx| {
                    let before = tx.contains(t, 5).await?;
                    let other = tx.contains(t, 6).await?;
                    let says = tx.get(says, 0).await?;
                    Ok((before, other, says, tx.contains(t, 5).await?))
                });
                match seen.unwrap() {
                    (true, false, Some(1), true) | (false, true, Some(0), false) => Ok(()),
                    seen => Err(format!("a committed transaction has seen {seen:?}")),
                }
            });
        }
    });
}

/// A transaction inserts a key if it has read that the key is absent, and otherwise deletes it. Other transactions do
/// the same. Proves that none is told that the key exists.
fn the_answer_of_an_insert_fits_what_was_read(scheme: SchemeName) {
    let (db, fails) = (database(scheme), AtomicBool::new(false));
    let t: Table<u64, u64> = db.table("t").unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            again_and_again(scope, &db, &fails, |worker| {
                let changed = worker.run(async |tx| match tx.get(t, 5).await? {
                    None => tx.insert(t, 5, 1).await,
                    Some(_) => tx.delete(t, 5).await.map(drop),
                });
                match changed {
                    Err(Error::KeyExists) => Err("a key is there that its transaction has not found".into()),
                    changed => changed.map_err(|error| format!("it is not changed: {error}")),
                }
            });
        }
    });
}
