//! A queue of jobs. Several threads take jobs, each the first job that no other thread has taken. A job is deleted
//! when it is done. If a thread gives up, the next thread finds the job in its old place.
//!
//! `cargo run --example queue`

use braiddb::{Claim, Database, Options, Result, Table, Txn};
use std::sync::atomic::{AtomicU64, Ordering};

type Jobs = Table<u64, String>;

/// Takes a job and does it. Returns `None` if no job is free.
async fn work_once(tx: &Txn, jobs: Jobs) -> Result<Option<String>> {
    // The first jobs may belong to other threads. They are passed over and not waited for. The scan is untracked
    // because nothing depends on which jobs it finds.
    let mut numbers = Vec::new();
    tx.scan_all(jobs).untracked().limit(100).for_each(|number, _| numbers.push(number)).await?;
    for number in numbers {
        if let Claim::Row(job) = tx.get_for_update(jobs, number).skip_locked().await? {
            // Here the job is done, in as many steps as it takes. The row is locked.
            tx.delete(jobs, number).await?;
            return Ok(Some(job));
        }
    }
    Ok(None)
}

/// Runs the example.
pub fn main() -> Result<()> {
    const JOBS: u64 = 1000;
    let db = Database::in_memory(Options { workers: 2, ..Options::default() })?;
    let jobs: Jobs = db.table("jobs")?;
    let filled = db.run_each((0..JOBS).collect(), async move |tx, number: &u64| {
        tx.insert(jobs, *number, &format!("job {number}")).await
    });
    assert!(filled.wait()?.iter().all(Result::is_ok));

    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < JOBS {
                    let worked = db.run(async move |tx| work_once(tx, jobs).await).wait();
                    if worked.expect("jobs do not fail").is_some() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("{} jobs are done", done.load(Ordering::Relaxed));
    assert_eq!(done.into_inner(), JOBS, "each once");
    assert!(db.begin()?.scan_all(jobs).next()?.is_none());
    Ok(())
}
