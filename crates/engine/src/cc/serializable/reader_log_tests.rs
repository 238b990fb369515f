//! Tests of the log: which readers are found in it, which are waited for, and what is lost when it wraps around.

use super::reader_log::{ReaderLog, Readers};
use crate::record::{TICK, Timestamp};

fn at(tick: u64) -> Timestamp {
    Timestamp(tick * TICK)
}

/// Returns the last reader of record 7 that committed from `since` on and before `until`.
fn readers(log: &ReaderLog, since: u64, until: u64) -> Readers {
    log.readers(at(since), at(until), |id| id == 7)
}

fn enter(log: &ReaderLog, ids: &[u32], tick: u64) -> u64 {
    let number = log.enter(ids.iter().copied(), false, false);
    assert!(log.stamp(number, at(tick)));
    number
}

const NOBODY: Readers = Readers::Until(Timestamp(0));

/// Proves that the last reader in question is found, and that other readers and aborted readers are not.
#[test]
fn readers_are_found() {
    let log = ReaderLog::new(16, 64);
    assert_eq!(readers(&log, 1, 100), NOBODY);
    enter(&log, &[3, 7], 10);
    enter(&log, &[3], 20);
    let last = enter(&log, &[7, 7], 30);
    enter(&log, &[], 40);
    assert_eq!(readers(&log, 1, 100), Readers::Until(at(30)));
    assert_eq!(readers(&log, 1, 30), Readers::Until(at(10)), "who commits later is none");
    assert_eq!(readers(&log, 31, 100), NOBODY);
    log.retract(last);
    assert_eq!(readers(&log, 1, 100), Readers::Until(at(10)));
}

/// Proves that a reader of the record, and any reader of ranges, is waited for while it draws its timestamp.
#[test]
fn pending_readers_are_waited_for() {
    let log = ReaderLog::new(16, 64);
    let other = log.enter([3].into_iter(), false, false);
    assert_eq!(readers(&log, 1, 100), NOBODY);
    let reader = log.enter([7].into_iter(), false, false);
    assert_eq!(readers(&log, 1, 100), Readers::Wait);
    assert!(log.stamp(reader, at(50)) && log.stamp(other, at(60)));
    assert_eq!(readers(&log, 1, 100), Readers::Until(at(50)));
    let ranges = log.enter([].into_iter(), true, false);
    assert_eq!(readers(&log, 1, 100), Readers::Wait);
    assert!(log.stamp(ranges, at(70)));
    assert_eq!(readers(&log, 1, 100), Readers::Until(at(50)), "what it read is in the index");
}

/// Proves that a reader is found behind a reader that was entered later and committed earlier.
#[test]
fn overtaken_readers_are_found() {
    let log = ReaderLog::new(16, 64);
    let slow = log.enter([7].into_iter(), false, false);
    enter(&log, &[3], 10);
    assert!(log.stamp(slow, at(20)));
    assert_eq!(readers(&log, 15, 100), Readers::Until(at(20)));
}

/// Proves that transactions for which the log no longer has room count as having read everything, and no others do.
#[test]
fn what_is_lost_counts() {
    for (entries_max, ids_max) in [(4, 64), (16, 8)] {
        let log = ReaderLog::new(entries_max, ids_max);
        let first = log.enter([1, 2].into_iter(), false, false);
        for tick in 10..14 {
            enter(&log, &[3, 4], tick);
        }
        assert!(!log.stamp(first, at(9)), "it is told that nobody will find it");
        assert_eq!(readers(&log, 9, 100), NOBODY, "it has given up, and the others are there");
        enter(&log, &[3, 4], 20);
        assert_eq!(readers(&log, 9, 100), Readers::Until(at(10)), "the first of them is lost");
        assert_eq!(readers(&log, 11, 100), NOBODY);
    }
}

/// Proves that a transaction that has read more than the log holds counts as having read everything.
#[test]
fn much_counts_as_everything() {
    let log = ReaderLog::new(4, 8);
    let ids: Vec<u32> = (100..105).collect();
    enter(&log, &ids, 10);
    assert_eq!(readers(&log, 1, 100), Readers::Until(at(10)));
    enter(&log, &[1, 2, 3, 4], 20);
    assert_eq!(readers(&log, 11, 100), NOBODY);
}

/// Proves that the snapshot of a reader that is in no log counts for everything that commits afterwards.
#[test]
fn untracked_snapshots_count() {
    let log = ReaderLog::new(4, 8);
    assert_eq!(log.open_untracked(|| at(5).after()), at(5).after());
    assert_eq!(readers(&log, 5, 100), Readers::Until(at(5).after()));
    assert_eq!(readers(&log, 6, 100), NOBODY);
    assert_eq!(log.open_untracked(|| at(5).after()), at(5).after(), "announced before");
    let mut clock = [6, 7].into_iter().map(|tick| at(tick).after());
    assert_eq!(log.open_untracked(|| clock.next().expect("it is looked at twice")), at(7).after());
    assert_eq!(log.last(), at(7).after());
}
