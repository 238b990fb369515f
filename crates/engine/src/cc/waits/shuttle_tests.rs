//! The model of a waiter beside the last share of a lock.

use super::*;
use crate::cc::models::{PLANTED_SCHEDULES_MAX, check, check_both};
use shuttle::scheduler::PctScheduler;
use shuttle::thread;

/// The last share of a row's lock is given back beside a transaction that joins the queue for it.
fn last_share<const LOOKS_FIRST: bool>() {
    const ROW: RecordId = RecordId(7);
    let waits = Arc::new(Waits::new(Memory::new(u64::MAX)));
    let shares = Arc::new(AtomicU64::new(1));
    let reader = thread::spawn({
        let (waits, shares) = (waits.clone(), shares.clone());
        move || {
            let was_awaited = LOOKS_FIRST && waits.are_shares_awaited();
            shares.store(0, Ordering::SeqCst);
            if was_awaited || !LOOKS_FIRST && waits.are_shares_awaited() {
                waits.unshared(ROW);
            }
        }
    });
    let is_shared = || {
        waits.await_shares();
        shares.load(Ordering::SeqCst) > 0
    };
    let joined = waits.join(ROW, 2, Some(Holder::SHARERS.place), NEVER, is_shared);
    reader.join().expect("its assertions hold");
    let stage = waits.look(joined.expect("no cycle"), Waker::noop());
    assert_eq!(stage, WaitStage::Turn, "the row is free, and the waiter sleeps");
}

/// Proves that a waiter has its turn, whenever the last share is given back.
#[test]
fn last_share_wakes() {
    check_both(last_share::<false>);
}

/// Proves that the model notices a transaction that looks for waiters before it gives its share back.
#[test]
#[should_panic(expected = "the row is free, and the waiter sleeps")]
fn planted_look_before() {
    check(PctScheduler::new(3, PLANTED_SCHEDULES_MAX), last_share::<true>);
}
