//! Refreshes beside commits.

use super::{Numbers, all, fill, in_memory};
use braiddb::suspend::Seeded;
use braiddb::worker::{Worker, WorkerOptions};
use braiddb::{Result, Serializable, Txn};
use std::cell::RefCell;

/// The worker of the next test, whose transactions write the rows that a refresh is about to read.
type Writers = Worker<Serializable, Seeded>;

thread_local! {
    static WRITERS: RefCell<Option<(Writers, u32)>> = const { RefCell::new(None) };
}

/// Commits are suspended after any number of steps when a refresh comes to the first of their rows. Proves that a
/// refresh that meets a commit in progress reads again, and does not fail with a conflict.
#[test]
fn a_refresh_meets_commits_under_way() {
    const ROWS: u64 = 1000;
    // So far behind the first row that these rows are not read together with it.
    const WRITTEN: std::ops::Range<u64> = 900..904;
    for steps in 0..60 {
        let db = in_memory::<Serializable>();
        let table: Numbers = db.table("t").unwrap();
        let row = move |key: &u64, value| {
            // The worker is taken out, because a transaction of the worker calls this function, too.
            if *key == 0
                && let Some((mut writers, steps)) = WRITERS.take()
            {
                if writers.open() == 0 && steps > 0 {
                    let body = async move |tx: &Txn<Serializable>| {
                        for key in WRITTEN {
                            tx.put(table, key, 100).await?;
                        }
                        Ok(())
                    };
                    writers.spawn(body, |ended: Result<()>| ended.unwrap()).unwrap();
                    (0..steps).for_each(|_| _ = writers.step());
                } else {
                    while writers.round() {}
                }
                WRITERS.set(Some((writers, 0)));
            }
            Some((value,))
        };
        let projection = db.projection(table, "p", row).unwrap();
        fill(&db, table, 0..ROWS);
        let writers = db.worker_with(Seeded::new(u64::from(steps)), WorkerOptions::default());
        WRITERS.set(Some((writers, steps)));
        assert_eq!(projection.refresh().unwrap(), ROWS, "{steps} steps");
        let (mut writers, _) = WRITERS.take().unwrap();
        while writers.round() {}
        drop(writers);
        let expected = |key| (key, if steps > 0 && WRITTEN.contains(&key) { 100 } else { key as i64 });
        assert_eq!(all(&projection, &db), (0..ROWS).map(expected).collect::<Vec<_>>(), "{steps} steps");
    }
}
