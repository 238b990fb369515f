//! Models of what may meet in a serializable commit, over many schedules. At every atomic access another thread may
//! run. Each model fails with the planted error that it is meant to notice.

use super::{Planted, planted};
use crate::cc::models::{Bench, Hand, PLANTED_SCHEDULES_MAX, check, check_both};
use crate::cc::{Change, ConcurrencyControl, Copies, Scanned, Stale};
use crate::memory::OutOfMemory;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, lock};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Each of two transactions reads what the other writes. If both commit, one has missed the other. `read` reads the
/// first key before the second is written.
fn neither_is_missed<C: ConcurrencyControl>(
    bench: &Arc<Bench<C>>,
    read: impl Fn(&Hand<'_, C>, &mut C::Txn, u64, u64) -> Option<Vec<u8>> + Clone + Send + 'static,
) {
    let committed = Arc::new(AtomicU64::new(0));
    let one = |reads: u64, writes: u64| {
        let (bench, committed, read) = (bench.clone(), committed.clone(), read.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let seen = read(&hand, &mut txn, reads, writes);
            if hand.change(&mut txn, writes, Change::Put(b"1")).is_err() {
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) && seen.is_none_or(|value| value == b"0") {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let threads = [thread::spawn(one(1, 2)), thread::spawn(one(2, 1))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's write");
}

/// Makes a database with two rows of "0".
fn two_rows<C: ConcurrencyControl>() -> Arc<Bench<C>> {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"0")));
    drop(hand);
    bench
}

fn skew<C: ConcurrencyControl>(reads_gap: bool) {
    let bench = if reads_gap { Arc::new(Bench::<C>::new()) } else { two_rows() };
    neither_is_missed(&bench, |hand, txn, reads, _| hand.read_or_wait(txn, reads, thread::yield_now));
}

/// Proves that of two transactions, each of which reads a record that the other writes, one notices.
#[test]
fn commits_meet() {
    check_both(|| skew::<Planted<{ planted::NONE }>>(false));
}

/// Proves that the same holds if both insert what the other has found absent.
#[test]
fn inserts_meet() {
    check_both(|| skew::<Planted<{ planted::NONE }>>(true));
}

/// Proves that the model notices a commit that does not look again at what it has read.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_no_validation() {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), || skew::<Planted<{ planted::NO_VALIDATION }>>(false));
}

/// Proves that the model notices ranges that are not looked at again.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_no_rescan() {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), || skew::<Planted<{ planted::NO_RESCAN }>>(true));
}

/// Copies of all rows with their first value, "0", and the keys that were written since.
#[derive(Debug, Default)]
struct Rows(Mutex<BTreeSet<u64>>);

impl Copies for Rows {
    fn stale(
        &self,
        _: (Bound<&[u8]>, Bound<&[u8]>),
        found: &mut dyn FnMut(Stale<'_>) -> Result<bool, OutOfMemory>,
    ) -> Result<bool, OutOfMemory> {
        let keys = lock(&self.0).clone();
        keys.iter().try_fold(true, |goes_on, key| Ok(goes_on && found(Stale::Key(&key.to_be_bytes()))?))
    }
}

/// Does what `skew` does, with transactions that read all rows by copies.
fn skew_by_copies<C: ConcurrencyControl>() {
    let copies = Arc::new(Rows::default());
    neither_is_missed(&two_rows::<C>(), move |hand, txn, reads, writes| {
        let (index, all) = (&raw const hand.bench.index, Bound::Unbounded);
        let scanned = Scanned { index, from: all, to: all, is_reverse: false, marks: &[], rows: 0, known: 0 };
        assert!(C::read_copies(txn, &scanned, copies.clone()));
        let is_stale = lock(&copies.0).contains(&reads);
        let seen = is_stale.then(|| hand.read_or_wait(txn, reads, thread::yield_now)).flatten();
        lock(&copies.0).insert(writes);
        seen
    });
}

/// Proves that of two transactions, each of which reads by copies what the other writes, one notices.
#[test]
fn readers_of_copies_meet() {
    check_both(skew_by_copies::<Planted<{ planted::NONE }>>);
}

/// Proves that the model notices reads of copies that leave no trace.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_copies_untracked() {
    let model = skew_by_copies::<Planted<{ planted::COPIES_UNTRACKED }>>;
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), model);
}

/// Proves that the model notices copies that are not asked again.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_copies_not_asked() {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), skew_by_copies::<Planted<{ planted::NO_RESCAN }>>);
}

/// Begins a transaction before the last commit. It sees nothing of that commit, so it has to be validated.
fn disturbed<C: ConcurrencyControl>(hand: &Hand<'_, C>) -> C::Txn {
    let txn = hand.begin();
    hand.commit_change(1000, Change::Insert(b"0"));
    txn
}

/// Fekete's anomaly in its smallest form: `early` has read what was overwritten before the reader began, and
/// overwrites what the reader reads. The reader and `early` must not both commit as if they had not met, unless the
/// reader sees what `early` has written.
fn reader_between<C: ConcurrencyControl>(declares: bool) {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"0"));
    hand.commit_change(2, Change::Insert(b"0"));
    let mut early = hand.begin();
    assert_eq!(hand.read_or_wait(&mut early, 2, thread::yield_now), Some(b"0".to_vec()));
    hand.commit_change(2, Change::Update(b"1"));
    let begun = disturbed(&hand);
    let reader = thread::spawn({
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = if declares { hand.begin() } else { begun };
            if declares {
                C::declare_read_only(hand.env(), &mut txn);
            }
            let seen = [2, 1].map(|key| hand.read_or_wait(&mut txn, key, thread::yield_now));
            hand.try_commit(txn, thread::yield_now) && seen == [Some(b"1".to_vec()), Some(b"0".to_vec())]
        }
    });
    assert!(hand.change(&mut early, 1, Change::Update(b"1")).is_ok());
    let has_committed = hand.try_commit(early, thread::yield_now);
    let is_between = reader.join().expect("its assertions hold");
    assert!(!(has_committed && is_between), "the reader comes before and after");
}

/// Proves that a reader and the writer that overwrites what it reads find each other, whichever comes first.
#[test]
fn reader_and_overwriter_meet() {
    check_both(|| reader_between::<Planted<{ planted::NONE }>>(false));
}

/// Proves the same for a declared reader, which does nothing at its commit.
#[test]
fn declared_reader_and_overwriter_meet() {
    check_both(|| reader_between::<Planted<{ planted::NONE }>>(true));
}

/// Proves that the model notices a reader that enters itself after it has drawn its time.
#[test]
#[should_panic(expected = "before and after")]
fn planted_drawn_too_early() {
    check(PctScheduler::new(4, PLANTED_SCHEDULES_MAX), || {
        reader_between::<Planted<{ planted::DRAWN_TOO_EARLY }>>(false)
    });
}

/// Proves that the model notices a reader that is struck off when it has committed.
#[test]
#[should_panic(expected = "before and after")]
fn planted_reader_cleared_early() {
    check(PctScheduler::new(4, PLANTED_SCHEDULES_MAX), || {
        reader_between::<Planted<{ planted::READER_CLEARED_EARLY }>>(false);
    });
}

/// Proves that the model notices a declared reader that does not announce itself.
#[test]
#[should_panic(expected = "before and after")]
fn planted_read_only_unannounced() {
    check(PctScheduler::new(4, PLANTED_SCHEDULES_MAX), || {
        reader_between::<Planted<{ planted::READ_ONLY_UNANNOUNCED }>>(true);
    });
}

/// A reader finds a key absent. A writer that is ordered before the reader's snapshot inserts the key, while another
/// writer splits the node.
fn gap_and_split<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    for key in 0..13 {
        hand.commit_change(10 * key, Change::Insert(b"0")); // with the key of `disturbed`, they fill a node
    }
    let mut early = hand.begin();
    assert_eq!(hand.read_or_wait(&mut early, 0, thread::yield_now), Some(b"0".to_vec()));
    hand.commit_change(0, Change::Update(b"1"));
    let mut txn = disturbed(&hand);
    let reader = thread::spawn({
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let seen = [0, 125].map(|key| hand.read_or_wait(&mut txn, key, thread::yield_now));
            hand.try_commit(txn, thread::yield_now) && seen == [Some(b"1".to_vec()), None]
        }
    });
    let splitter = thread::spawn({
        let bench = bench.clone();
        move || bench.hand().commit_change(55, Change::Insert(b"0"))
    });
    splitter.join().expect("its assertions hold");
    assert!(hand.change(&mut early, 125, Change::Insert(b"1")).is_ok());
    let has_committed = hand.try_commit(early, thread::yield_now);
    let is_between = reader.join().expect("its assertions hold");
    assert!(!(has_committed && is_between), "the reader comes before and after");
}

/// Proves that the stamp that a reader leaves in a node is found, whatever happens to the node meanwhile.
#[test]
fn stamps_survive_splits() {
    check_both(gap_and_split::<Planted<{ planted::NONE }>>);
}

/// Proves that the model notices a split that loses the stamp.
#[test]
#[should_panic(expected = "before and after")]
fn planted_split_loses_stamp() {
    check(
        PctScheduler::new(4, PLANTED_SCHEDULES_MAX),
        gap_and_split::<Planted<{ planted::SPLIT_LOSES_STAMP }>>,
    );
}
