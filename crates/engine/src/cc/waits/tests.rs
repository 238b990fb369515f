//! Tests of queues, times and cycles, step by step.

use super::*;
use std::sync::atomic::AtomicUsize as Count;
use std::task::Wake;

#[derive(Default)]
struct Rings(Count);
impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const ROW: RecordId = RecordId(7);

fn waits() -> Waits {
    Waits::new(Memory::new(1 << 20))
}

/// Proves that turns come in the order of the queue, whichever waiter leaves, and that all memory is given back.
#[test]
fn turns() {
    let waits = waits();
    let rings = Arc::new(Rings::default());
    let waker = Waker::from(rings.clone());
    let join = |place| waits.join(ROW, place, Some(1), NEVER, || true).expect("no cycle");
    let [a, b, c, d] = [2, 3, 4, 5].map(join);
    let look = |ticket| waits.look(ticket, &waker);
    assert_eq!([a, b, c, d].map(look), [WaitStage::Waiting; 4]);
    assert_eq!(waits.memory.used_bytes(Kind::Other), 4 * ENTRY_BYTES);
    waits.leave(b);
    waits.ended(9);
    assert_eq!(look(a), WaitStage::Waiting);
    waits.ended(1);
    assert_eq!([a, c, d].map(look), [WaitStage::Turn, WaitStage::Waiting, WaitStage::Waiting]);
    assert_eq!(waits.stay(a, 8, || true), WaitStage::Waiting);
    waits.ended(8);
    assert_eq!([a, c].map(look), [WaitStage::Turn, WaitStage::Waiting]);
    assert!(waits.took(a), "others wait");
    assert_eq!(look(c), WaitStage::Waiting);
    waits.ended(2);
    waits.leave(c);
    assert_eq!(look(d), WaitStage::Turn);
    assert!(!waits.took(d));
    assert!(!waits.is_any() && !waits.has_queue(ROW));
    let state = lock(&waits.state);
    assert!(state.held.is_empty() && state.waiters.is_empty() && state.rows.is_empty());
    assert_eq!(waits.memory.used_bytes(Kind::Other), 0);
    assert!(rings.0.load(Ordering::SeqCst) >= 4);
}

/// Proves that a transaction moves forward in its queue, with its ticket and its deadline, when others come to wait for
/// what it holds, and that it can close a cycle in this way.
#[test]
fn awaited_ones_go_first() {
    const OTHER: RecordId = RecordId(8);
    const THIRD: RecordId = RecordId(9);
    let waits = waits();
    let join = |row, place, holder| waits.join(row, place, Some(holder), 100, || true);
    let look = |ticket| waits.look(ticket, Waker::noop());
    let [first, awaited, last] = [2, 3, 4].map(|place| join(ROW, place, 1).expect("no cycle"));
    let waiter = join(OTHER, 5, 3).expect("no cycle");
    waits.ended(1);
    assert_eq!([first, awaited, last].map(look), [WaitStage::Waiting, WaitStage::Turn, WaitStage::Waiting]);
    assert!(waits.took(awaited), "others wait");
    assert_eq!(look(first), WaitStage::Waiting);
    waits.ended(3);
    assert_eq!([first, waiter].map(look), [WaitStage::Turn; 2]);
    waits.expire(100);
    assert!([first, last, waiter].map(look).iter().all(|&stage| stage == WaitStage::Expired));
    [first, last, waiter].into_iter().for_each(|ticket| waits.leave(ticket));
    assert_eq!((waits.is_any(), waits.first_deadline_ns()), (false, None));
    // 3 waits for the row behind 2, which came later and is awaited, and for another row of 2. Then 3 overtakes 2.
    let behind = join(ROW, 3, 1).expect("no cycle");
    join(OTHER, 9, 2).expect("no cycle");
    let front = join(ROW, 2, 1).expect("no cycle");
    let beside = join(OTHER, 3, 2).expect("2 is in front of 3 for both");
    join(THIRD, 5, 3).expect("5 is in no cycle");
    assert!([front, behind, beside].map(look).contains(&WaitStage::Deadlocked));
}

/// Proves that a wait ends at its deadline, not before, and does not hold up the next waiter in the queue.
#[test]
fn times() {
    let waits = waits();
    let first = waits.join(ROW, 2, Some(1), 100, || true).expect("no cycle");
    let second = waits.join(ROW, 3, Some(1), 200, || true).expect("no cycle");
    assert_eq!(waits.first_deadline_ns(), Some(100));
    waits.expire(99);
    let look = |ticket| waits.look(ticket, Waker::noop());
    assert_eq!(look(first), WaitStage::Waiting);
    waits.expire(100);
    assert_eq!(
        (look(first), look(second), waits.first_deadline_ns()),
        (WaitStage::Expired, WaitStage::Waiting, Some(200))
    );
    waits.ended(1);
    assert_eq!((look(first), look(second)), (WaitStage::Expired, WaitStage::Turn));
    assert_eq!(waits.stay(first, 4, || true), WaitStage::Expired);
    waits.renew(second, 300);
    waits.expire(299);
    assert_eq!((look(second), waits.first_deadline_ns()), (WaitStage::Turn, Some(300)));
    waits.renew(first, 400);
    assert_eq!((look(first), waits.first_deadline_ns()), (WaitStage::Expired, Some(300)));
    waits.leave_all(2);
    waits.leave_all(3);
    assert_eq!((waits.is_any(), waits.first_deadline_ns()), (false, None));
}

/// Proves that the wait that closes a cycle finds it, through any number of rows and along a queue, and that chains
/// are not taken for cycles.
#[test]
fn cycles() {
    for length in [2, 3, 10, 1000] {
        let waits = waits();
        let row = RecordId;
        for place in 0..length - 1 {
            waits.join(row(place), place, Some(place + 1), NEVER, || true).expect("a chain");
        }
        let closing = waits.join(row(length), length - 1, Some(0), NEVER, || true);
        assert_eq!(closing, Err(Refusal::Deadlocked));
        assert_eq!(lock(&waits.state).waiters.len(), length as usize - 1);
        waits.join(row(length), length - 1, Some(length), NEVER, || true).expect("a longer chain");
    }
    // 1 holds the row, 2 is first in the queue, and 3 is behind 2. 2 would wait for 3 elsewhere. If 2 held nothing, 3
    // would overtake it.
    let waits = waits();
    waits.join(ROW, 2, Some(1), NEVER, || true).expect("no cycle");
    waits.join(ROW, 3, Some(1), NEVER, || true).expect("no cycle");
    waits.join(RecordId(9), 4, Some(2), NEVER, || true).expect("no cycle");
    assert_eq!(waits.join(RecordId(8), 2, Some(3), NEVER, || true), Err(Refusal::Deadlocked));
}

/// Proves that a transaction from outside the queue that takes the row can close a cycle. The first waiter in the queue
/// finds the cycle although it is not part of it.
#[test]
fn cycles_of_others() {
    let waits = waits();
    let (taken, other) = (RecordId(1), RecordId(2));
    let first = waits.join(taken, 10, Some(1), NEVER, || true).expect("no cycle");
    let second = waits.join(taken, 11, Some(1), NEVER, || true).expect("no cycle");
    waits.join(RecordId(3), 13, Some(10), NEVER, || true).expect("10 stays in front of 11");
    let third = waits.join(other, 12, Some(11), NEVER, || true).expect("no cycle");
    waits.ended(1);
    // 12 has taken the row past the queue, and waits for 11, which waits for the row.
    assert_eq!(waits.stay(first, 12, || true), WaitStage::Waiting);
    let stages = [first, second, third].map(|ticket| waits.look(ticket, Waker::noop()));
    assert_eq!(stages, [WaitStage::Waiting, WaitStage::Waiting, WaitStage::Deadlocked]);
}

/// Proves that a transaction that joins the queue with the news of another holder finds the cycle that this closes
/// for the transactions already there.
#[test]
fn cycles_by_news() {
    let waits = waits();
    let (row, other) = (RecordId(1), RecordId(2));
    let first = waits.join(row, 10, Some(1), NEVER, || true).expect("no cycle");
    // 12 has taken the row past the queue, although 1 has not told that it has ended, and waits for 10.
    let second = waits.join(other, 12, Some(10), NEVER, || true).expect("no cycle as far as is known");
    let third = waits.join(row, 11, Some(12), NEVER, || true).expect("it is in no cycle");
    let stages = [first, second, third].map(|ticket| waits.look(ticket, Waker::noop()));
    assert_eq!(stages, [WaitStage::Waiting, WaitStage::Deadlocked, WaitStage::Waiting]);
}

/// Proves that a cycle is found through a transaction that waits twice for a row, with another transaction between
/// its two entries.
#[test]
fn cycles_between_two_entries_of_one() {
    let waits = waits();
    let [row, other, third] = [1, 2, 3].map(RecordId);
    let join = |row, place, holder| waits.join(row, place, Some(holder), NEVER, || true);
    join(row, 20, 1).expect("no cycle");
    join(row, 10, 1).expect("no cycle");
    join(row, 20, 1).expect("no cycle");
    join(row, 30, 1).expect("no cycle");
    join(RecordId(4), 41, 20).expect("20 stays in front of the others");
    join(RecordId(5), 42, 10).expect("10 stays in front of 30");
    join(third, 40, 30).expect("30 has a row that is waited for");
    assert_eq!(join(other, 10, 30), Err(Refusal::Deadlocked), "30 is behind 10");
}

/// Proves that a cycle is found past a transaction that has its turn and will soon be gone, to a transaction that has
/// its turn and waits elsewhere.
#[test]
fn cycles_past_turns() {
    let waits = waits();
    let (row, other, third) = (RecordId(1), RecordId(2), RecordId(3));
    let join = |row, place, holder| waits.join(row, place, holder, NEVER, || true);
    let keeper = join(other, 20, None).expect("no cycle");
    let running = join(row, 11, None).expect("no cycle");
    join(RecordId(4), 98, Some(20)).expect("20 stays in front of 10");
    join(other, 10, None).expect("no cycle");
    // 10 holds what another transaction waits for, so it is put before 11, which already has its turn.
    join(third, 99, Some(10)).expect("no cycle");
    let first = join(row, 10, None).expect("no cycle");
    let look = |ticket| waits.look(ticket, Waker::noop());
    assert_eq!([keeper, running, first].map(look), [WaitStage::Turn; 3]);
    assert_eq!(join(row, 20, None), Err(Refusal::Deadlocked), "10 is in front of 11, and waits for 20");
    waits.leave(running);
    assert_eq!(look(first), WaitStage::Turn);
}

/// Proves that the turns of a deadlock's victim go to the next transactions in the queues, which would otherwise wait
/// in vain.
#[test]
fn turns_of_a_victim() {
    let waits = waits();
    let [held, free, other] = [1, 2, 3].map(RecordId);
    let join = |row, place, holder| waits.join(row, place, holder, NEVER, || true);
    let turn = join(free, 10, None).expect("no cycle");
    let next = join(free, 11, None).expect("no cycle");
    join(held, 20, Some(10)).expect("no cycle");
    let look = |ticket| waits.look(ticket, Waker::noop());
    assert_eq!([turn, next].map(look), [WaitStage::Turn, WaitStage::Waiting]);
    assert_eq!(join(other, 10, Some(20)), Err(Refusal::Deadlocked));
    assert_eq!([turn, next].map(look), [WaitStage::Deadlocked, WaitStage::Turn]);
}

/// Proves that the search for cycles stays short when hundreds of transactions wait for several rows each and close one
/// cycle after another.
#[test]
fn many_cycles_are_found_in_few_searches() {
    const PLACES: u32 = 200;
    let waits = waits();
    let searched = || lock(&waits.state).searched.load(Ordering::Relaxed);
    // Each transaction holds a row, and waits for the rows of the next three.
    let mut refused = 0;
    for place in 0..PLACES {
        let before = searched();
        for next in 1..=3 {
            let holder = (place + next) % PLACES;
            refused += u32::from(waits.join(RecordId(holder), place, Some(holder), NEVER, || true).is_err());
        }
        assert!(searched() - before <= 8 * PLACES as usize, "{} searched for {place}", searched() - before);
    }
    assert!(refused > 0, "the last ones close cycles");
    assert!((0..PLACES).all(|place| lock(&waits.state).cycle(place).is_none()));
}

/// Proves that a search skips a queue of transactions that wait for nothing else, and visits each transaction once in a
/// queue of transactions that also wait elsewhere.
#[test]
fn long_queues_are_not_searched() {
    const LONG: u32 = 1000;
    let (other, third) = (RecordId(8), RecordId(9));
    for waits_for_several in [false, true] {
        let waits = waits();
        let join = |row, place, holder| waits.join(row, place, Some(holder), NEVER, || true);
        let searched = || lock(&waits.state).searched.load(Ordering::Relaxed);
        for place in 10..LONG {
            join(ROW, place, 1).expect("no cycle");
            if waits_for_several {
                join(third, place, 2).expect("no cycle");
            }
        }
        // The last transaction has a row that is waited for, so its wait may close a cycle.
        join(other, 3, LONG).expect("no cycle");
        let before = searched();
        join(ROW, LONG, 1).expect("no cycle");
        let places = if waits_for_several { LONG as usize } else { 3 };
        assert!(searched() - before <= places, "{} searched, {waits_for_several}", searched() - before);
        assert_eq!(
            join(RecordId(10), 1, LONG),
            Err(Refusal::Deadlocked),
            "1 has the row, {waits_for_several}"
        );
    }
}

/// Proves that transactions that wait for a shared row get their turns when a share is given back, and otherwise wait
/// until their deadline. The flag is set as long as there are such transactions.
#[test]
fn shared_rows() {
    let waits = waits();
    let shared = Some(Holder::SHARERS.place);
    let join = |place, deadline| {
        let is_shared = || {
            waits.await_shares();
            true
        };
        waits.join(ROW, place, shared, deadline, is_shared).expect("no cycle")
    };
    let look = |ticket| waits.look(ticket, Waker::noop());
    assert!(!waits.are_shares_awaited());
    let (first, second) = (join(2, NEVER), join(3, 100));
    assert!(waits.are_shares_awaited());
    waits.unshared(RecordId(8));
    assert_eq!([first, second].map(look), [WaitStage::Waiting; 2]);
    waits.unshared(ROW);
    assert_eq!([first, second].map(look), [WaitStage::Turn, WaitStage::Waiting]);
    let is_shared = || {
        waits.await_shares();
        true
    };
    assert_eq!(waits.stay(first, Holder::SHARERS.place, is_shared), WaitStage::Waiting);
    waits.expire(100);
    assert_eq!([first, second].map(look), [WaitStage::Waiting, WaitStage::Expired]);
    waits.leave(second);
    assert!(waits.are_shares_awaited());
    waits.leave(first);
    assert!(!waits.is_any() && !waits.are_shares_awaited());
    // A transaction that finds the row free by then has its turn at once, and leaves no flag.
    let free = waits.join(ROW, 2, shared, NEVER, || {
        waits.await_shares();
        false
    });
    assert_eq!((look(free.expect("no cycle")), waits.are_shares_awaited()), (WaitStage::Turn, false));
}

/// Proves that `awaits_sharers` knows which transactions sleep until a row is no longer shared, and which row.
#[test]
fn sleepers_for_shares_are_known() {
    let waits = waits();
    waits.join(ROW, 2, Some(Holder::SHARERS.place), NEVER, || true).expect("no cycle");
    waits.join(RecordId(8), 3, Some(1), NEVER, || true).expect("no cycle");
    assert!(waits.awaits_sharers(2, None) && !waits.awaits_sharers(2, Some(ROW)));
    assert!(!waits.awaits_sharers(3, None) && !waits.awaits_sharers(4, None));
}

/// Proves that waiters in a queue look again, once, when transactions come to share the row, because they may not be
/// allowed to wait for the sharers.
#[test]
fn sharers_are_news() {
    let waits = waits();
    let join = |place, holder| waits.join(ROW, place, Some(holder), NEVER, || true).expect("no cycle");
    let look = |ticket| waits.look(ticket, Waker::noop());
    let (first, second) = (join(2, 1), join(3, 1));
    waits.ended(1);
    assert_eq!([first, second].map(look), [WaitStage::Turn, WaitStage::Waiting]);
    let sharers = Holder::SHARERS.place;
    let third = join(4, sharers);
    assert_eq!([first, second, third].map(look), [WaitStage::Turn, WaitStage::Turn, WaitStage::Waiting]);
    assert_eq!([first, second].map(|ticket| waits.stay(ticket, sharers, || true)), [WaitStage::Waiting; 2]);
    assert_eq!([first, second, third].map(look), [WaitStage::Waiting; 3]);
}

/// Proves that all operations of a transaction that wait for the same row get their turn together, because the first
/// may have been forgotten.
#[test]
fn a_turn_is_the_transactions() {
    let waits = waits();
    let join = |place| waits.join(ROW, place, Some(1), NEVER, || true).expect("no cycle");
    let look = |ticket| waits.look(ticket, Waker::noop());
    let [forgotten, other, second] = [2, 3, 2].map(join);
    waits.ended(1);
    assert_eq!([forgotten, other, second].map(look), [WaitStage::Turn, WaitStage::Waiting, WaitStage::Turn]);
    assert!(waits.took(second));
    waits.leave_all(2);
    waits.ended(2);
    assert_eq!(look(other), WaitStage::Turn);
}

/// Proves that an operation is called when its transaction has got the row past the queue. Otherwise it would wait for
/// itself.
#[test]
fn owners_are_called() {
    let waits = waits();
    let join = |place| waits.join(ROW, place, Some(1), NEVER, || true).expect("no cycle");
    let look = |ticket| waits.look(ticket, Waker::noop());
    let (first, own) = (join(3), join(2));
    waits.ended(1);
    assert_eq!([first, own].map(look), [WaitStage::Turn, WaitStage::Waiting]);
    assert_eq!(waits.stay(first, 2, || true), WaitStage::Waiting, "another operation of 2 has got the row");
    assert_eq!([first, own].map(look), [WaitStage::Waiting, WaitStage::Turn]);
}

/// Proves that a wait does not begin if the account has no room for it.
#[test]
fn accounts() {
    let waits = Waits::new(Memory::new(2 * ENTRY_BYTES));
    assert!(waits.join(ROW, 2, Some(1), NEVER, || true).is_ok());
    assert!(waits.join(ROW, 3, Some(1), NEVER, || true).is_ok());
    assert_eq!(waits.join(ROW, 4, Some(1), NEVER, || true), Err(Refusal::OutOfMemory));
    waits.leave_all(2);
    assert!(waits.join(ROW, 4, Some(1), NEVER, || true).is_ok());
}
