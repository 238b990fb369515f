//! The queues of transactions that wait for locked rows: one for each row that is waited for, first come, first served,
//! except that a transaction that holds a row which others wait for goes before those that hold none.
//!
//! Called by `txn`: by an operation that has found a row locked, and by a transaction that gave way to a row's writer,
//! before it is run again. Called by the scheme when a transaction ends that the registry has marked as awaited. A row
//! that is not waited for is in no table here, and the end of a transaction that is not awaited costs one load.
//!
//! # No lost wake-up
//! Under the lock, a waiter marks the holder as awaited (`ConcurrencyControl::await_end`), and looks at the row once more
//! after that, before it names the holder. The holder ends, which the row shows, and then looks at the mark, and calls
//! `ended` if it is set. Whichever of the two is first, the other one sees it. So a transaction that is named as a holder
//! has not called `ended` since: it is open, or is about to call it and waits for nothing.
//!
//! # Shared locks
//! The lock of a row that transactions share counts them and does not name them. They are a holder of their own
//! ([`Holder::SHARERS`]), whose place no transaction has: it waits for nothing, so no cycle goes through it. (The schemes that share
//! locks see to it that no cycle closes by way of one: see `ConcurrencyControl::may_queue`.) While any row has this holder,
//! `shares_awaited` is set, and a transaction that gives a share back calls `unshared`, as does one whose share becomes the whole
//! lock: its waiters are to know it by name. A waiter sets the flag before it looks at the row once more, and a transaction looks at
//! the flag after its share is gone: both sequentially consistent, so that one sees the other.
//!
//! # Invariants, whenever the lock is free
//! - A queue is not empty.
//! - The first of a queue's entries that still wants the row has its turn, or the queue names a holder.
//! - `held` has a row under a place exactly while the row's queue names that place as its holder.
//! - Every entry is under its transaction in `waiters` and, if its wait has an end, in `deadlines`.
//!
//! # Deadlocks
//! A transaction waits for the row's holder, and for all in front of it in the queue. Such an edge arises when a wait
//! begins, and when a queue gets another holder. Either happens under the lock, and the caller looks for a cycle there: so the
//! last edge of a cycle finds it. A row can be taken by a transaction that was not in its queue, since plain writes do
//! not ask; then the cycle is found by the first of the queue, or by the next one that joins it, without being in it.

use super::Holder;
use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::RecordId;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// What an entry takes, with its part of the four tables: charged to the account while it is there.
const ENTRY_BYTES: u64 = 256;
/// Added to the numbers of transactions that hold no row which others wait for: they come after those that do, and among
/// each other in the order in which they came.
const LATER: u64 = 1 << 63;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// All waits of a database.
pub struct Waits {
    state: Mutex<State>,
    /// Entries. A hint when read without the lock: a transaction that comes at the same moment as another may overtake it.
    waiting: AtomicUsize,
    /// The first deadline: a hint likewise.
    first_deadline_ns: AtomicU64,
    /// Some row is waited for that transactions share.
    shares_awaited: AtomicBool,
    memory: Arc<Memory>,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    row: RecordId,
    number: u64,
}

impl Ticket {
    /// The row that it is for.
    pub fn row(self) -> RecordId {
        self.row
    }
}

/// How far a wait has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStage {
    /// Its waker will be called.
    Waiting,
    /// The row was free at that time: try to take it.
    Turn,
    /// It would have waited for itself, and has to give way.
    Deadlocked,
    /// Its time is over.
    Expired,
}

/// Why a wait did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It would wait for itself.
    Deadlocked,
    /// The database's memory limit is reached.
    OutOfMemory,
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Refusal::OutOfMemory
    }
}

#[derive(Default)]
struct State {
    rows: BTreeMap<RecordId, Queue>,
    held: BTreeSet<(u32, RecordId)>,
    waiters: BTreeMap<(u32, u64), RecordId>,
    deadlines: BTreeSet<(u64, u64, RecordId)>,
    /// Given out so far: a lesser number has come before.
    tickets: u64,
}

#[derive(Default)]
struct Queue {
    /// The place of the transaction that holds the row, as far as is known.
    holder: Option<u32>,
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    place: u32,
    deadline_ns: u64,
    stage: WaitStage,
    waker: Option<Waker>,
}

/// Wakers to be called once the lock is free: they may run any code.
type Woken = Vec<Waker>;

impl Queue {
    /// Gives the first that still wants the row its turn, if the row is free as far as is known.
    fn turn(&mut self, woken: &mut Woken) {
        if self.holder.is_some() {
            return;
        }
        let first = self.entries.values_mut().find(|entry| entry.wants());
        if let Some(entry) = first
            && entry.stage == WaitStage::Waiting
        {
            entry.stage = WaitStage::Turn;
            woken.extend(entry.waker.take());
        }
    }
}

impl Entry {
    fn wants(&self) -> bool {
        matches!(self.stage, WaitStage::Waiting | WaitStage::Turn)
    }

    fn stop(&mut self, why: WaitStage, woken: &mut Woken) {
        self.stage = why;
        woken.extend(self.waker.take());
    }
}

impl State {
    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.rows.get_mut(&ticket.row)?.entries.get_mut(&ticket.number)
    }

    /// Names the row's holder. Returns true if another one than before, and more than one transaction waits for it.
    fn set_holder(&mut self, row: RecordId, holder: Option<u32>) -> bool {
        let Some(queue) = self.rows.get_mut(&row) else { return false };
        let old = std::mem::replace(&mut queue.holder, holder);
        let is_news = old != holder && queue.entries.len() > 1;
        if let Some(old) = old {
            self.held.remove(&(old, row));
        }
        self.held.extend(holder.map(|place| (place, row)));
        is_news
    }

    /// Takes an entry out, and lets the next one have its turn. Returns false if it is not there.
    fn remove(&mut self, ticket: Ticket, woken: &mut Woken) -> bool {
        let Some(queue) = self.rows.get_mut(&ticket.row) else { return false };
        let Some(entry) = queue.entries.remove(&ticket.number) else { return false };
        self.waiters.remove(&(entry.place, ticket.number));
        self.deadlines.remove(&(entry.deadline_ns, ticket.number, ticket.row));
        if queue.entries.is_empty() {
            self.set_holder(ticket.row, None);
            self.rows.remove(&ticket.row);
        } else {
            queue.turn(woken);
        }
        woken.extend(entry.waker); // to be dropped outside; a wake more does no harm
        true
    }

    /// The transactions that the one at `place` waits for: of each wait those before it in the queue, as far as they do not
    /// follow from others, then the row's holder.
    fn awaited_by(&self, place: u32) -> Vec<u32> {
        let (mut awaited, mut rows) = (Vec::new(), BTreeSet::new());
        for (&(_, number), row) in self.waiters.range((place, 0)..=(place, u64::MAX)) {
            // Of several waits for one row the first ends them all.
            let Some(queue) = self.rows.get(row).filter(|_| rows.insert(row)) else { continue };
            if queue.entries.get(&number).is_none_or(|entry| entry.stage != WaitStage::Waiting) {
                continue;
            }
            for (_, entry) in queue.entries.range(..number).rev().filter(|(_, entry)| entry.wants()) {
                awaited.push(entry.place);
                // It waits for all that are before it; but one that has its turn, and may be waiting elsewhere, does not.
                if entry.stage == WaitStage::Waiting {
                    break;
                }
            }
            awaited.extend(queue.holder.filter(|&holder| holder != place));
        }
        awaited
    }

    /// Another one waits for the transaction at `place`, or may come to, beside the one wait that has just begun.
    fn may_be_awaited(&self, place: u32) -> bool {
        let holds = self.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        holds || self.waiters.range((place, 0)..=(place, u64::MAX)).nth(1).is_some()
    }

    /// A cycle that can be reached from `start`: its members.
    fn cycle(&self, start: u32) -> Option<Vec<u32>> {
        let mut on_path = BTreeMap::from([(start, true)]);
        let mut path = vec![(start, self.awaited_by(start))];
        while let Some((place, next)) = path.last_mut() {
            let Some(other) = next.pop() else {
                on_path.insert(*place, false); // no cycle goes through it
                path.pop();
                continue;
            };
            match on_path.get(&other) {
                None => {
                    on_path.insert(other, true);
                    path.push((other, self.awaited_by(other)));
                }
                Some(false) => {}
                Some(true) => {
                    let members = path.iter().map(|&(place, _)| place);
                    return Some(members.skip_while(|&place| place != other).collect());
                }
            }
        }
        None
    }

    /// Breaks the cycles that the wait of the one at `place` has closed. Returns false if it has to give way.
    ///
    /// Cycles by way of holders come first: one that goes along a line is no more if they are broken.
    fn break_cycles(&mut self, place: u32, woken: &mut Woken) -> bool {
        let (mut roots, mut goes_on) = (vec![place], true);
        while let Some(cycle) = roots.iter().find_map(|&root| self.cycle(root)) {
            // (One that has nothing and waits once is only in the queue before a member that would wait for the next one
            // without it as well.)
            let of_use = cycle.iter().copied().filter(|&member| self.may_be_awaited(member));
            // The one whose wait closes the cycle has come last. It is not in a cycle that another transaction closed
            // when it took a row past the queue.
            let last = of_use.clone().find(|&member| member == place);
            let victim = last.or_else(|| of_use.max()).unwrap_or(place);
            goes_on &= victim != place;
            let waits = self.waiters.range((victim, 0)..=(victim, u64::MAX));
            let waits: Vec<_> = waits.map(|(&(_, number), &row)| Ticket { row, number }).collect();
            for ticket in waits {
                if let Some(entry) = self.entry(ticket).filter(|entry| entry.wants()) {
                    entry.stop(WaitStage::Deadlocked, woken);
                }
            }
            roots.extend(cycle);
        }
        goes_on
    }
}

impl Waits {
    pub(in crate::cc) fn new(memory: Arc<Memory>) -> Waits {
        Waits {
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            first_deadline_ns: AtomicU64::new(NEVER),
            shares_awaited: AtomicBool::new(false),
            memory,
        }
    }

    /// Waits that are under way, for any row.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Some row is waited for.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// This row is waited for, so that a newcomer is to join its queue.
    #[cold]
    pub fn has_queue(&self, row: RecordId) -> bool {
        lock(&self.state).rows.contains_key(&row)
    }

    /// Joins the queue for a row, on behalf of the transaction at `place`, which `shares` the row's lock or not: held by the one at
    /// `holder`, or free but for those in the queue. At `deadline_ns` of the engine's clock the wait is over. `is_held` marks the
    /// holder, and looks whether it has the row still.
    #[cold]
    pub fn join(
        &self,
        row: RecordId,
        (place, shares): (u32, bool),
        holder: Option<u32>,
        deadline_ns: u64,
        is_held: impl FnOnce() -> bool,
    ) -> Result<Ticket, Refusal> {
        self.memory.charge(Kind::Other, ENTRY_BYTES)?;
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let holder = holder.filter(|_| is_held());
        state.tickets += 1;
        // One that others wait for goes before those that hold nothing: else these would each take the row, wait for that
        // one in turn, and have to give way. Those in the queue wait for one that shares the row's lock.
        let is_awaited =
            shares || state.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        let number = state.tickets | if is_awaited { 0 } else { LATER };
        let entry = Entry { place, deadline_ns, stage: WaitStage::Waiting, waker: None };
        state.rows.entry(row).or_default().entries.insert(number, entry);
        state.waiters.insert((place, number), row);
        if deadline_ns != NEVER {
            state.deadlines.insert((deadline_ns, number, row));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { row, number };
        // The others in the queue may have waited for another holder: then they have a new edge, too.
        let is_news = holder.is_some() && state.set_holder(row, holder);
        state.rows.get_mut(&row).expect("it has an entry").turn(&mut woken);
        // (A transaction that nobody waits for closes no cycle: that is the usual case, and costs no walk.)
        let may_close = is_news || state.may_be_awaited(place);
        if may_close && !state.break_cycles(place, &mut woken) {
            self.remove(state, ticket, woken);
            return Err(Refusal::Deadlocked);
        }
        self.unlock(state, woken);
        Ok(ticket)
    }

    /// The row was found held by the one at `holder`: waits on, at the same place in the queue, unless that one does not
    /// have it any more (`is_held`, as for `join`). A wait that is over stays so.
    #[cold]
    pub fn stay(&self, ticket: Ticket, holder: u32, is_held: impl FnOnce() -> bool) -> WaitStage {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let Some(entry) = state.entry(ticket) else { return WaitStage::Turn };
        if !entry.wants() || !is_held() {
            return entry.stage;
        }
        entry.stage = WaitStage::Waiting;
        let place = entry.place;
        state.set_holder(ticket.row, Some(holder));
        let goes_on = state.break_cycles(place, &mut woken);
        self.unlock(state, woken);
        if goes_on { WaitStage::Waiting } else { WaitStage::Deadlocked }
    }

    /// How far the wait has come; while it waits, `waker` will be called when that changes.
    #[cold]
    pub fn look(&self, ticket: Ticket, waker: &Waker) -> WaitStage {
        let mut state = lock(&self.state);
        let Some(entry) = state.entry(ticket) else { return WaitStage::Turn };
        let mut old = None;
        if entry.stage == WaitStage::Waiting && !entry.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            old = entry.waker.replace(waker.clone());
        }
        let stage = entry.stage;
        drop(state);
        drop(old); // any code may run then
        stage
    }

    /// Leaves the queue; if it had its turn, the next one has it now.
    #[cold]
    pub fn leave(&self, ticket: Ticket) {
        self.remove(lock(&self.state), ticket, Woken::new());
    }

    /// As `leave`, and the row is this one's now. Returns true if others wait for it.
    #[cold]
    pub fn took(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let Some(place) = state.entry(ticket).map(|entry| entry.place) else { return false };
        let is_news = state.set_holder(ticket.row, Some(place));
        let Some(queue) = state.rows.get_mut(&ticket.row) else { return false };
        let others = queue.entries.len() > 1;
        // The same transaction may have asked for the row twice at once, and then has it twice.
        let own = queue.entries.values_mut().filter(|entry| entry.place == place);
        own.filter(|entry| entry.stage == WaitStage::Waiting)
            .for_each(|entry| entry.stop(WaitStage::Turn, &mut woken));
        if is_news {
            state.break_cycles(place, &mut woken); // others of its operations may wait
        }
        self.remove(state, ticket, woken);
        others
    }

    /// The transaction at `place` waits for a row.
    #[cold]
    pub(in crate::cc) fn is_waiting(&self, place: u32) -> bool {
        lock(&self.state).waiters.range((place, 0)..=(place, u64::MAX)).next().is_some()
    }

    /// The transaction at `place` sleeps until others share the lock of a row no more: of another row than `but`.
    #[cold]
    pub(in crate::cc) fn awaits_sharers(&self, place: u32, but: Option<RecordId>) -> bool {
        let state = lock(&self.state);
        let mut rows =
            state.waiters.range((place, 0)..=(place, u64::MAX)).map(|(&(_, number), &row)| (number, row));
        rows.any(|(number, row)| {
            let Some(queue) = state.rows.get(&row).filter(|_| Some(row) != but) else { return false };
            let waits = queue.entries.get(&number).is_some_and(|entry| entry.stage == WaitStage::Waiting);
            waits && queue.holder == Some(Holder::SHARERS.place)
        })
    }

    /// Takes out all that is left of the transaction at `place`: of operations that were forgotten.
    #[cold]
    pub fn leave_all(&self, place: u32) {
        loop {
            let state = lock(&self.state);
            let first = state.waiters.range((place, 0)..=(place, u64::MAX)).next();
            let Some((&(_, number), &row)) = first else { return };
            self.remove(state, Ticket { row, number }, Woken::new());
        }
    }

    /// The transaction at `place` has ended, and the rows that it held show it; or some of them do, and for the others it is waited on.
    #[cold]
    pub fn ended(&self, place: u32) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        while let Some(&(_, row)) =
            state.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next()
        {
            state.set_holder(row, None);
            if let Some(queue) = state.rows.get_mut(&row) {
                queue.turn(&mut woken);
            }
        }
        self.unlock(state, woken);
    }

    /// A waiter is about to look whether transactions share the row that it waits for. Called within `is_held` of `join` or `stay`.
    #[cold]
    pub(crate) fn await_shares(&self) {
        self.shares_awaited.store(true, Ordering::SeqCst); // before the row is looked at: see the head of the module
    }

    /// A transaction that has just given a share of a row's lock back is to call `unshared`.
    #[inline(always)]
    pub(in crate::cc) fn are_shares_awaited(&self) -> bool {
        self.shares_awaited.load(Ordering::SeqCst) // after the share was given back: see the head of the module
    }

    /// A row may be free of those that share its lock, or can be shared again: the first in its queue looks.
    #[cold]
    pub(in crate::cc) fn unshared(&self, row: RecordId) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        if state.held.contains(&(Holder::SHARERS.place, row)) {
            state.set_holder(row, None);
            if let Some(queue) = state.rows.get_mut(&row) {
                queue.turn(&mut woken);
            }
        }
        self.unlock(state, woken);
    }

    /// The first moment at which a wait is over; `None`: none has an end.
    #[inline]
    pub fn first_deadline_ns(&self) -> Option<u64> {
        Some(self.first_deadline_ns.load(Ordering::Relaxed)).filter(|&at| at != NEVER)
    }

    /// Ends the waits whose time is over.
    #[cold]
    pub fn expire(&self, now_ns: u64) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        while let Some(&(at, number, row)) = state.deadlines.first().filter(|(at, ..)| *at <= now_ns) {
            state.deadlines.remove(&(at, number, row));
            if let Some(queue) = state.rows.get_mut(&row) {
                if let Some(entry) = queue.entries.get_mut(&number)
                    && entry.wants()
                {
                    entry.stop(WaitStage::Expired, &mut woken);
                }
                queue.turn(&mut woken);
            }
        }
        self.unlock(state, woken);
    }

    fn remove(&self, mut state: MutexGuard<'_, State>, ticket: Ticket, mut woken: Woken) {
        if state.remove(ticket, &mut woken) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.memory.release(Kind::Other, ENTRY_BYTES);
        }
        self.unlock(state, woken);
    }

    /// Frees the lock, then calls the wakers.
    fn unlock(&self, state: MutexGuard<'_, State>, woken: Woken) {
        let first = state.deadlines.first().map_or(NEVER, |(at, ..)| *at);
        self.first_deadline_ns.store(first, Ordering::Relaxed);
        if self.shares_awaited.load(Ordering::Relaxed) {
            let mut shared = state.held.range((Holder::SHARERS.place, RecordId(0))..);
            self.shares_awaited.store(shared.next().is_some(), Ordering::SeqCst);
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
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

    /// Proves that turns come in the order of the queue, whichever leaves, and that all is given back.
    #[test]
    fn turns() {
        let waits = waits();
        let rings = Arc::new(Rings::default());
        let waker = Waker::from(rings.clone());
        let join = |place| waits.join(ROW, (place, false), Some(1), NEVER, || true).expect("no cycle");
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

    /// Proves that a wait is over at its time, not before, and that the next in the queue is not held up by it.
    #[test]
    fn times() {
        let waits = waits();
        let first = waits.join(ROW, (2, false), Some(1), 100, || true).expect("no cycle");
        let second = waits.join(ROW, (3, false), Some(1), 200, || true).expect("no cycle");
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
        waits.leave_all(2);
        waits.leave_all(3);
        assert_eq!((waits.is_any(), waits.first_deadline_ns()), (false, None));
    }

    /// Proves that a cycle is found by the wait that closes it, through any number of rows and along a line; and that
    /// chains are none.
    #[test]
    fn cycles() {
        for length in [2, 3, 10, 1000] {
            let waits = waits();
            let row = RecordId;
            for place in 0..length - 1 {
                waits.join(row(place), (place, false), Some(place + 1), NEVER, || true).expect("a chain");
            }
            let closing = waits.join(row(length), (length - 1, false), Some(0), NEVER, || true);
            assert_eq!(closing, Err(Refusal::Deadlocked));
            assert_eq!(lock(&waits.state).waiters.len(), length as usize - 1);
            waits
                .join(row(length), (length - 1, false), Some(length), NEVER, || true)
                .expect("a longer chain");
        }
        // 1 holds the row, 2 is first in the queue, 3 behind it; 2 would wait for 3 elsewhere.
        let waits = waits();
        waits.join(ROW, (2, false), Some(1), NEVER, || true).expect("no cycle");
        waits.join(ROW, (3, false), Some(1), NEVER, || true).expect("no cycle");
        assert_eq!(waits.join(RecordId(8), (2, false), Some(3), NEVER, || true), Err(Refusal::Deadlocked));
    }

    /// Proves that a row taken by one that was not in the queue closes a cycle which the first in the queue finds, although it is
    /// not in it.
    #[test]
    fn cycles_of_others() {
        let waits = waits();
        let (taken, other) = (RecordId(1), RecordId(2));
        let first = waits.join(taken, (10, false), Some(1), NEVER, || true).expect("no cycle");
        let second = waits.join(taken, (11, false), Some(1), NEVER, || true).expect("no cycle");
        let third = waits.join(other, (12, false), Some(11), NEVER, || true).expect("no cycle");
        waits.ended(1);
        // 12 has taken the row past the queue, and waits for 11, which waits for the row.
        assert_eq!(waits.stay(first, 12, || true), WaitStage::Waiting);
        let stages = [first, second, third].map(|ticket| waits.look(ticket, Waker::noop()));
        assert_eq!(stages, [WaitStage::Waiting, WaitStage::Waiting, WaitStage::Deadlocked]);
    }

    /// Proves that one that joins the queue, and brings the news of another holder, finds the cycle that this closes for those
    /// that are there already.
    #[test]
    fn cycles_by_news() {
        let waits = waits();
        let (row, other) = (RecordId(1), RecordId(2));
        let first = waits.join(row, (10, false), Some(1), NEVER, || true).expect("no cycle");
        // 12 has taken the row past the queue, without 1's having told that it has ended, and waits for 10.
        let second =
            waits.join(other, (12, false), Some(10), NEVER, || true).expect("no cycle as far as is known");
        let third = waits.join(row, (11, false), Some(12), NEVER, || true).expect("it is in no cycle");
        let stages = [first, second, third].map(|ticket| waits.look(ticket, Waker::noop()));
        assert_eq!(stages, [WaitStage::Waiting, WaitStage::Deadlocked, WaitStage::Waiting]);
    }

    /// Proves that of a cycle one gives way that holds a row, not one that is merely in the queue between two members.
    #[test]
    fn cycles_past_bystanders() {
        let waits = waits();
        let (row, other) = (RecordId(1), RecordId(2));
        let bystander = waits.join(row, (99, false), Some(1), NEVER, || true).expect("no cycle");
        let member = waits.join(row, (3, false), Some(1), NEVER, || true).expect("no cycle");
        let taker = waits.join(other, (2, false), Some(3), NEVER, || true).expect("no cycle");
        waits.ended(1);
        assert_eq!(waits.stay(bystander, 2, || true), WaitStage::Waiting);
        let stages = [bystander, member, taker].map(|ticket| waits.look(ticket, Waker::noop()));
        assert_eq!(stages, [WaitStage::Waiting, WaitStage::Deadlocked, WaitStage::Waiting]);
    }

    /// Proves that a cycle is found that goes past one that has its turn and will be gone soon, to one that has its turn and
    /// waits elsewhere.
    #[test]
    fn cycles_past_turns() {
        let waits = waits();
        let (row, other, third) = (RecordId(1), RecordId(2), RecordId(3));
        let join = |row, place, holder| waits.join(row, (place, false), holder, NEVER, || true);
        let keeper = join(other, 20, None).expect("no cycle");
        let running = join(row, 11, None).expect("no cycle");
        join(other, 10, None).expect("no cycle");
        // 10 holds what another one waits for, so it comes before 11, which has its turn already.
        join(third, 99, Some(10)).expect("no cycle");
        let first = join(row, 10, None).expect("no cycle");
        let look = |ticket| waits.look(ticket, Waker::noop());
        assert_eq!([keeper, running, first].map(look), [WaitStage::Turn; 3]);
        assert_eq!(join(row, 20, None), Err(Refusal::Deadlocked), "10 is in front of 11, and waits for 20");
        waits.leave(running);
        assert_eq!(look(first), WaitStage::Turn);
    }

    /// Proves that those that wait for a row which transactions share have their turns when a share is given back, that the flag is set as
    /// long as there are such, and that they wait until their time is over otherwise.
    #[test]
    fn shared_rows() {
        let waits = waits();
        let shared = Some(Holder::SHARERS.place);
        let join = |place, deadline| {
            let is_shared = || {
                waits.await_shares();
                true
            };
            waits.join(ROW, (place, false), shared, deadline, is_shared).expect("no cycle")
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
        // One that finds it free by then has its turn at once, and leaves no flag.
        let free = waits.join(ROW, (2, false), shared, NEVER, || {
            waits.await_shares();
            false
        });
        assert_eq!((look(free.expect("no cycle")), waits.are_shares_awaited()), (WaitStage::Turn, false));
    }

    /// Proves that one that shares the row goes before those that do not, and that all are known to sleep for the others' shares.
    #[test]
    fn sharers_go_first() {
        let waits = waits();
        let join = |who| waits.join(ROW, who, Some(Holder::SHARERS.place), NEVER, || true).expect("no cycle");
        let [last, first] = [(2, false), (3, true)].map(join);
        assert!([2, 3].iter().all(|place| waits.awaits_sharers(*place, None)));
        assert!(!waits.awaits_sharers(3, Some(ROW)) && !waits.awaits_sharers(4, None));
        waits.unshared(ROW);
        let look = |ticket| waits.look(ticket, Waker::noop());
        assert_eq!([last, first].map(look), [WaitStage::Waiting, WaitStage::Turn]);
    }

    /// Proves that a wait that the account has no room for does not begin.
    #[test]
    fn accounts() {
        let waits = Waits::new(Memory::new(2 * ENTRY_BYTES));
        assert!(waits.join(ROW, (2, false), Some(1), NEVER, || true).is_ok());
        assert!(waits.join(ROW, (3, false), Some(1), NEVER, || true).is_ok());
        assert_eq!(waits.join(ROW, (4, false), Some(1), NEVER, || true), Err(Refusal::OutOfMemory));
        waits.leave_all(2);
        assert!(waits.join(ROW, (4, false), Some(1), NEVER, || true).is_ok());
    }
}

#[cfg(all(test, braid_shuttle))]
mod shuttle_tests {
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
        let joined = waits.join(ROW, (2, false), Some(Holder::SHARERS.place), NEVER, is_shared);
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
}
