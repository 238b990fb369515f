//! Filling tables with all processors, and reading them back.

use crate::Failure;
use crate::args::{RefillKind, processors};
use crate::engine::{self, Database, OnMiss, Result, Scheme, Txn};
use crate::machine::{pin, progress};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rows that a loading worker claims at a time.
const BLOCK: u64 = 8192;
const BATCH: usize = 32;

/// Inserts rows 0 to `rows` (exclusive) into the database, one transaction each, with all processors. After `time_max`
/// it stops early, with the first rows inserted. Returns the number of rows. `what` names the rows for the user.
pub(crate) fn fill<C: Scheme>(
    db: &Database<C>,
    what: &str,
    rows: u64,
    time_max: Option<Duration>,
    put: impl AsyncFn(&Txn<C>, &u64) -> Result<()> + Sync,
) -> crate::Result<u64> {
    let until = time_max.map(|max| Instant::now() + max);
    let bar = progress(rows, "loading {msg} [{bar:40}] {percent}% {eta}");
    bar.set_message(format!("{rows} {what}"));
    let (claimed, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let claim = || {
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        // Relaxed: claims must only be unique, and a failure is noticed soon enough.
        let start = claimed.fetch_add(BLOCK, Ordering::Relaxed);
        let is_needed = start < rows && !has_failed.load(Ordering::Relaxed);
        is_needed.then(|| start..(start + BLOCK).min(rows))
    };
    let work = || {
        let mut worker = engine::worker(db, OnMiss, BATCH.into(), RefillKind::Immediate);
        let mut failed = None;
        while let Some(block) = claim() {
            let length = block.end - block.start;
            worker.run_each(block, &put, |result| failed = result.err().or(failed.take()));
            if let Some(error) = failed.take() {
                has_failed.store(true, Ordering::Relaxed);
                return Err(Failure::new(format!("loading {what}: {}", engine::failure(error))));
            }
            bar.inc(length);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors())
            .map(|index| {
                let work = &work;
                scope.spawn(move || {
                    pin(index);
                    work()
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("loading does not panic"))
    })?;
    bar.finish_and_clear();
    Ok(claimed.into_inner().min(rows))
}

/// Runs one transaction, which may read all tables, while no other is open.
pub(crate) fn read_all<C: Scheme, R>(
    db: &Database<C>,
    read: impl AsyncFn(&Txn<C>) -> Result<R>,
) -> crate::Result<R> {
    let mut worker = engine::worker(db, OnMiss, 1.into(), RefillKind::Immediate);
    let read = async |tx: &Txn<C>| {
        tx.declare_read_only();
        read(tx).await
    };
    worker.run(read).map_err(engine::failure)
}
