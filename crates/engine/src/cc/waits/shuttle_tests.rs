//! Models of waiters for locks that are given back before their transactions end.

use super::*;
use crate::cc::models::{Bench, Hand, PLANTED_SCHEDULES_MAX, check, check_both, lock_in_queue};
use crate::cc::{Adaptive, Change, ConcurrencyControl, Silo, TicToc};
use shuttle::scheduler::PctScheduler;
use shuttle::thread;

/// The last share of a row's lock is given back while a transaction joins the queue for the lock.
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

/// Proves that a waiter gets its turn whenever the last share is given back.
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

/// Two transactions lock one row, while a third commits a value there without the lock. Under an optimistic scheme a
/// transaction that has the lock may find the row latched by that commit. It then gives the lock back at once.
fn locks_beside_a_commit<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(b"0"));
    let spawn = |work: fn(&Hand<'_, C>)| {
        let bench = bench.clone();
        thread::spawn(move || work(&bench.hand()))
    };
    let locks = |hand: &Hand<'_, C>| {
        let mut txn = hand.begin();
        lock_in_queue(hand, &mut txn, 1, true);
        hand.abort(txn);
    };
    let writes = |hand: &Hand<'_, C>| {
        let mut txn = hand.begin();
        let is_made = hand.change(&mut txn, 1, Change::Put(b"1")).is_ok();
        hand.commit_if(is_made, txn);
    };
    let threads = [spawn(locks), spawn(writes), spawn(locks)];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(!C::waits(&bench.shared).is_any(), "the queue is empty");
}

/// Proves that no transaction waits for a transaction that has given the lock back and waits itself.
#[test]
fn locks_that_are_given_back_at_once() {
    check_both(locks_beside_a_commit::<Silo>);
    check_both(locks_beside_a_commit::<TicToc>);
    check_both(locks_beside_a_commit::<Adaptive>);
}
