//! Models of a reader that looks twice for a key that comes and goes, and of two writers that find no key before they
//! write it.

use super::super::optimistic::Optimistic;
use super::super::silo::ByNewest;
use super::super::tictoc::ByReadTimes;
use super::Single;
use super::shuttle_tests::{Careless, RANGES_BY_CONTENT, notices_with_few_switches, read};
use crate::cc::models::{Bench, Hand, SCHEDULES, check, check_both};
use crate::cc::{
    AllHot, Change, ConcurrencyControl, DlDetect, HotByChance, Intent, NoWait, Occ, Refused, Silo, TicToc,
    TimestampOrdering, WaitDie, Written,
};
use crate::sync::{Arc, schedules};
use shuttle::scheduler::PctScheduler;
use shuttle::thread;

/// A first transaction brings a key and says so in another record, and a second takes both back. A third looks for the
/// key, reads the record, and looks for the key again. It commits only if what it has read fits together.
fn coming_and_going<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(b"0"));
    let writer = thread::spawn({
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let both = |change, says: &[u8]| {
                let mut txn = hand.begin();
                let is_made = hand.change(&mut txn, 5, change) == Ok(Written::Done)
                    && hand.change(&mut txn, 1, Change::Put(says)) == Ok(Written::Done);
                hand.commit_if(is_made, txn)
            };
            _ = both(Change::Insert(b"1"), b"1") && both(Change::Delete, b"0");
        }
    });
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    let mut all = || {
        let before = read(&hand, &mut txn, 5, Intent::Read)?;
        let says = read(&hand, &mut txn, 1, Intent::Read)?;
        Ok::<_, Refused>((before, says, read(&hand, &mut txn, 5, Intent::Read)?))
    };
    match all() {
        Ok((before, says, after)) if hand.try_commit_open(&mut txn, thread::yield_now) => {
            assert_eq!(before, after, "a key was there and was not");
            assert_eq!(before.is_some(), says == Some(b'1'), "a key does not fit a record");
        }
        _ => C::abort(hand.env(), &mut txn),
    }
    C::drop_txn(&bench.shared, &mut txn);
    writer.join().expect("its assertions hold");
}

/// Enough switches for one writer to commit between two steps of the other's commit.
const SWITCHES: usize = 5;

/// Two transactions look for a key and write it. The second that commits has found what the first wrote.
fn first_values<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let writer = || {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let found = read(&hand, &mut txn, 5, Intent::Read);
            let is_made = found.is_ok() && hand.change(&mut txn, 5, Change::Put(b"1")) == Ok(Written::Done);
            hand.commit_if(is_made, txn) && found == Ok(None)
        }
    };
    let threads = [writer(), writer()].map(thread::spawn);
    let first = threads.map(|thread| thread.join().expect("its assertions hold"));
    assert_ne!(first, [true; 2], "both have found nothing");
}

macro_rules! models {
    ($($test:ident $first:ident $scheme:ty;)*) => {$(
        /// Proves that a reader that commits has not seen a key come or go.
        #[test]
        fn $test() {
            check_both(coming_and_going::<$scheme>);
        }

        /// Proves that of two transactions that found no key and write it, one does not commit.
        #[test]
        fn $first() {
            check(PctScheduler::new(SWITCHES, schedules(10 * SCHEDULES)), first_values::<$scheme>);
        }
    )*};
}

models! {
    silo silo_first_values Silo;
    occ occ_first_values Occ;
    tictoc tictoc_first_values TicToc;
    timestamp timestamp_first_values TimestampOrdering;
    no_wait no_wait_first_values NoWait;
    wait_die wait_die_first_values WaitDie;
    dl_detect dl_detect_first_values DlDetect;
    all_hot all_hot_first_values AllHot;
    hot_by_chance hot_by_chance_first_values HotByChance;
}

/// Proves that the models notice ranges that are compared by their content after the records.
#[test]
#[should_panic(expected = "a key was there and was not")]
fn planted_ranges_by_content() {
    notices_with_few_switches(coming_and_going::<Single<Careless<Optimistic<ByNewest>, RANGES_BY_CONTENT>>>);
}

/// Proves the same for a scheme whose transactions may commit as of an earlier time than others.
#[test]
#[should_panic(expected = "a key was there and was not")]
fn planted_ranges_by_content_with_times() {
    notices_with_few_switches(
        coming_and_going::<Single<Careless<Optimistic<ByReadTimes>, RANGES_BY_CONTENT>>>,
    );
}
