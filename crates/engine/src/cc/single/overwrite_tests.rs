//! A model of values that are overwritten where they lie, beside a thread that copies them.

use super::record::{Content, record_of};
use crate::cc::models::{Bench, PLANTED_SCHEDULES_MAX, check, check_both};
use crate::cc::{Change, Silo};
use crate::sync::Arc;
use shuttle::scheduler::PctScheduler;
use shuttle::thread;

/// A reader copies a value while it is overwritten twice. What the reader accepts is one whole value. `LOOKS_AGAIN`:
/// the reader checks whether the record has changed meanwhile.
fn overwritten<const LOOKS_AGAIN: bool>() {
    let bench = Arc::new(Bench::<Silo>::new());
    bench.hand().commit_change(1, Change::Insert(&[1; 20]));
    let writer = {
        let bench = bench.clone();
        thread::spawn(move || [2, 3].map(|value| bench.hand().commit_change(1, Change::Update(&[value; 20]))))
    };
    let hand = bench.hand();
    let mut txn = hand.begin();
    let record = record_of(bench.record(hand.find(1).expect("it has been inserted")));
    let copy = loop {
        let Some(read) = record.read() else {
            thread::yield_now();
            continue;
        };
        assert!(matches!(read.content, Content::At(_)), "it is too long for the record");
        // SAFETY: the content was read in the epoch that the hand has entered.
        let copy = unsafe { txn.copy_content(read.content) }.expect("memory").expect("a value");
        if !LOOKS_AGAIN || record.is_still(read.at) {
            break copy;
        }
        txn.drop_copy(copy);
    };
    // SAFETY: the transaction is open.
    let copy = unsafe { &*copy };
    assert!(copy == [copy[0]; 20], "one value in part, and another one");
    hand.abort(txn);
    writer.join().expect("no panic");
}

/// Proves that a copy is one whole value.
#[test]
fn copies_are_whole() {
    check_both(overwritten::<true>);
}

/// Proves that the model notices a reader that does not look again.
#[test]
#[should_panic(expected = "one value in part")]
fn planted_not_looked_again() {
    check(PctScheduler::new(3, PLANTED_SCHEDULES_MAX), overwritten::<false>);
}
