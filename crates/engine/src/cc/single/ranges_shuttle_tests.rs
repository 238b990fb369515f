//! A model of a reader that looks for a key, twice, while it comes and goes.

use super::super::optimistic::Optimistic;
use super::super::silo::ByNewest;
use super::super::tictoc::ByReadTimes;
use super::Single;
use super::shuttle_tests::{Careless, RANGES_BY_CONTENT, notices_with_few_switches, read};
use crate::cc::models::{Bench, Hand, check_both};
use crate::cc::{
    AllHot, Change, ConcurrencyControl, DlDetect, HotByChance, Intent, NoWait, Occ, Refused, Silo, TicToc,
    TimestampOrdering, WaitDie, Written,
};
use crate::sync::Arc;
use shuttle::thread;

/// One transaction brings a key and says so in another record, and the next one takes both back. A third looks for the key, reads the
/// record, and looks for the key again. It commits only with what fits together.
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
                match is_made {
                    true => hand.try_commit(txn, thread::yield_now),
                    false => {
                        hand.abort(txn);
                        false
                    }
                }
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

macro_rules! models {
    ($($test:ident $scheme:ty;)*) => {$(
        /// Proves that a reader that commits has not seen a key come or go.
        #[test]
        fn $test() {
            check_both(coming_and_going::<$scheme>);
        }
    )*};
}

models! {
    silo Silo;
    occ Occ;
    tictoc TicToc;
    timestamp TimestampOrdering;
    no_wait NoWait;
    wait_die WaitDie;
    dl_detect DlDetect;
    all_hot AllHot;
    hot_by_chance HotByChance;
}

/// Proves that the models notice ranges that are compared with what is there later than the records are.
#[test]
#[should_panic(expected = "a key was there and was not")]
fn planted_ranges_by_content() {
    notices_with_few_switches(coming_and_going::<Single<Careless<Optimistic<ByNewest>, RANGES_BY_CONTENT>>>);
}

/// The same, where transactions commit as of earlier than others.
#[test]
#[should_panic(expected = "a key was there and was not")]
fn planted_ranges_by_content_with_times() {
    notices_with_few_switches(
        coming_and_going::<Single<Careless<Optimistic<ByReadTimes>, RANGES_BY_CONTENT>>>,
    );
}
