//! Models of what may meet, over many schedules. At every atomic access another thread may run. Each model fails with
//! the planted error that it is meant to notice.

use super::{MultiVersion, PlantedMultiVersion, planted};
use crate::cc::models::{Bench, Hand, PLANTED_SCHEDULES_MAX, check, check_both};
use crate::cc::single::shuttle_tests::{checkpoint, increments, read, skew, transfers};
use crate::cc::{Change, ConcurrencyControl, Intent, Refused, Scanned};
use crate::index::{Index, Key, Page, Paged};
use crate::suspend::Never;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::ops::Bound;

/// Counts the values from key `from` to before key `to`.
fn count<C: ConcurrencyControl>(
    hand: &Hand<'_, C>,
    txn: &mut C::Txn,
    from: u64,
    to: u64,
) -> Result<usize, Refused> {
    let (mut short, mut other, mut page) = ([0; 8], [0; 8], Page::default());
    let (index, key, end) = (&hand.bench.index, Key::from_u64(from), Key::from_u64(to));
    let end = Bound::Excluded(end.bytes(&mut other));
    page.is_marking = true;
    // SAFETY: inside the hand's epoch, here and below.
    let mut walk = unsafe { index.walk(Bound::Included(&key), false, &mut page) };
    let (mut records, mut found, known) = (vec![], vec![], C::accessed(txn));
    // SAFETY: as above.
    while let Paged::Page = unsafe { index.next_page(&mut walk, &mut page, &mut Never) } {
        records.extend(page.ids[..page.len_within(end, false)].iter().map(|&id| hand.bench.record(id)));
    }
    for &record in &records {
        let mut access = C::Access::default();
        // SAFETY: as above.
        while !unsafe { C::access(&mut access, record, Intent::Read, hand.env(), txn, &mut Never) } {
            thread::yield_now();
        }
        // SAFETY: the access has ended.
        if unsafe { C::value(&access, record, Intent::Untracked, txn) }?.is_some() {
            found.push(record);
        }
    }
    let from = Bound::Included(key.bytes(&mut short));
    let (marks, rows) = (&page.marks[..], records.len());
    C::read_range(txn, &Scanned { index, from, to: end, is_reverse: false, marks, rows, known });
    if C::lists_records(txn) {
        found.iter().for_each(|&record| C::read_in_range(txn, record));
    }
    Ok(found.len())
}

/// Each of two transactions counts the keys of a range, and brings a key if there is none. If both commit, one has
/// missed the other.
fn empty_ranges<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let committed = Arc::new(AtomicU64::new(0));
    let one = |key: u64| {
        let (bench, committed) = (bench.clone(), committed.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let is_empty = count(&hand, &mut txn, 1, 9) == Ok(0);
            if !is_empty || hand.change(&mut txn, key, Change::Insert(b"1")).is_err() {
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let threads = [thread::spawn(one(3)), thread::spawn(one(5))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's key");
}

/// A transaction writes a record twice. Another sees the second value or neither.
fn written_twice<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(b"0"));
    let writer = thread::spawn({
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let written =
                [b"1", b"2"].iter().all(|value| hand.change(&mut txn, 1, Change::Put(*value)).is_ok());
            hand.commit_if(written, txn);
        }
    });
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    let seen = read(&hand, &mut txn, 1, Intent::Read);
    assert!(seen != Ok(Some(b'1')), "a value was seen that was never committed");
    hand.abort(txn);
    writer.join().expect("its assertions hold");
}

/// A transaction reads a first record and writes a second. Another transaction locks the second record, reads it,
/// leaves it as it is, and writes the first.
fn locks<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    {
        let hand = bench.hand();
        [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"0")));
    }
    let committed = Arc::new(AtomicU64::new(0));
    let one = |reads: u64, locks: bool, writes: u64| {
        let (bench, committed) = (bench.clone(), committed.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let is_locked = !locks || hand.change(&mut txn, reads, Change::Lock).is_ok();
            let intent = if locks { Intent::Lock } else { Intent::Read };
            let seen = is_locked.then(|| read(&hand, &mut txn, reads, intent));
            if !is_locked || hand.change(&mut txn, writes, Change::Put(b"1")).is_err() {
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) && seen == Some(Ok(Some(b'0'))) {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let threads = [thread::spawn(one(1, false, 2)), thread::spawn(one(2, true, 1))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's write");
}

/// Proves that of two transactions, each of which reads a record that the other writes, one notices.
#[test]
fn commits_meet() {
    check_both(|| skew::<MultiVersion>(true));
}

/// Proves that the same holds if both insert what the other has found absent.
#[test]
fn inserts_meet() {
    check_both(|| skew::<MultiVersion>(false));
}

/// Proves that of two transactions, each of which brings a key into a range that the other has scanned, one notices.
#[test]
fn ranges_meet() {
    check_both(empty_ranges::<MultiVersion>);
}

/// Proves that no update is lost.
#[test]
fn updates_add_up() {
    check_both(increments::<MultiVersion>);
}

/// Proves that what a committed transaction has read fits together, ranges included.
#[test]
fn transfers_are_read_whole() {
    check_both(transfers::<MultiVersion>);
}

/// Proves that a checkpoint that reads row by row has what was appended before it began, and nothing from after its
/// end.
#[test]
fn checkpoints_and_commits() {
    for change in [Change::Update(b"1"), Change::Insert(b"1"), Change::Delete] {
        static CHANGE: std::sync::Mutex<Change<'static>> = std::sync::Mutex::new(Change::Delete);
        *CHANGE.lock().expect("no panic") = change;
        check_both(|| checkpoint::<MultiVersion>(*CHANGE.lock().expect("no panic")));
    }
}

/// Proves that only the last of a transaction's values is seen.
#[test]
fn last_values_are_seen() {
    check_both(written_twice::<MultiVersion>);
}

/// Proves that a row that was locked counts as read even when the lock is gone.
#[test]
fn locks_are_reads() {
    check_both(locks::<MultiVersion>);
}

macro_rules! planted_models {
    ($($(#[$doc:meta])* $test:ident: $bug:ident, $model:expr, $expected:literal;)*) => {$(
        $(#[$doc])*
        #[test]
        #[should_panic(expected = $expected)]
        fn $test() {
            type Erring = PlantedMultiVersion<{ planted::$bug }>;
            let model: fn() = $model;
            check(PctScheduler::new(3, PLANTED_SCHEDULES_MAX / 10), model);
            check(RandomScheduler::new(PLANTED_SCHEDULES_MAX / 10), model);
        }
    )*};
}

planted_models! {
    /// Proves that the models notice reads that leave no time.
    planted_read_times_forgotten: READ_TIMES_FORGOTTEN, || skew::<Erring>(true), "both have missed";
    /// Proves that the models notice reads that leave their time too late.
    planted_read_times_late: READ_TIMES_LATE, || skew::<Erring>(true), "both have missed";
    /// Proves that the models notice writes that look for the time of reads too early.
    planted_writes_unseen: WRITES_UNSEEN, || skew::<Erring>(true), "both have missed";
    /// Proves that the models notice reads that do not wait.
    planted_earlier_ignored: EARLIER_IGNORED, || skew::<Erring>(true), "both have missed";
    /// Proves that the models notice looks for absent keys that leave no time.
    planted_absence_forgotten: ABSENCE_FORGOTTEN, || skew::<Erring>(false), "both have missed";
    /// Proves that the models notice scans of ranges that leave no time.
    planted_ranges_forgotten: RANGES_FORGOTTEN, empty_ranges::<Erring>, "both have missed";
    /// Proves that the models notice keys that come whatever times were left.
    planted_keys_come_unasked: KEYS_COME_UNASKED, empty_ranges::<Erring>, "both have missed";
    /// Proves that the models notice ranges that are not scanned again.
    planted_no_rescan: NO_RESCAN, empty_ranges::<Erring>, "both have missed";
    /// Proves that the models notice locks that leave no time.
    planted_locks_forgotten: LOCKS_FORGOTTEN, locks::<Erring>, "both have missed";
    /// Proves that the models notice reads that do not look for a later value of the same transaction.
    planted_early_values_seen: EARLY_VALUES_SEEN, written_twice::<Erring>, "never committed";
    /// Proves that the models notice checkpoints that do not wait for a commit under way.
    planted_commits_ignored: COMMITS_IGNORED, || checkpoint::<Erring>(Change::Update(b"1")), "lacks a change";
}

/// Proves that every error that can be planted has its test, here or among the tests of the scripts.
#[test]
fn none_is_left_out() {
    let source = include_str!("shuttle_tests.rs");
    for (_, name) in planted::ALL.iter().filter(|&&(bug, _)| bug != planted::SPLITS_LOSE_STAMPS) {
        assert!(source.contains(&format!(": {name},")), "{name}");
    }
}
