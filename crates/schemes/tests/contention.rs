//! The statistics of conflicts, which only the adaptive scheme keeps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::{ContentionStatistics, SystemClock};
use braiddb::{Adaptive, ConcurrencyControl, Database, Options, Silo, Table};
use std::sync::Arc;

/// Runs `meetings` transactions that read a row which another transaction changes before they commit.
fn meet<C: ConcurrencyControl>(db: &Database<C>, rows: Table<u64, u64>, meetings: u64) {
    for number in 0..meetings {
        let tx = db.begin().unwrap();
        tx.get(rows, 1).unwrap();
        let other = db.begin().unwrap();
        other.put(rows, 1, number).unwrap();
        other.commit().unwrap();
        tx.put(rows, 2, number).unwrap();
        assert!(tx.commit().is_err(), "what it has read has been changed");
    }
}

fn met<C: ConcurrencyControl>(meetings: u64) -> ContentionStatistics {
    let options = Options { workers: 0, ..Options::default() };
    let db = Database::<C>::in_memory_with(options, Arc::new(SystemClock::default())).unwrap();
    let rows = db.table("rows").unwrap();
    db.transact(|tx| tx.put(rows, 1, 0)).unwrap();
    assert_eq!(db.statistics().contention, ContentionStatistics::default());
    meet(&db, rows, meetings);
    db.statistics().contention
}

/// Proves that a few meetings are counted, and that many on one row make its group hot.
#[test]
fn meetings_are_counted() {
    let (few, many) = (met::<Adaptive>(3), met::<Adaptive>(12));
    assert_eq!((few.meetings, few.hot_for_writers + few.hot_for_readers), (3, 0));
    assert_eq!((many.meetings, many.hot_for_writers, many.hot_for_readers), (12, 0, 1));
    assert_eq!(met::<Silo>(12), ContentionStatistics::default());
}
