//! Who waits for which row: a queue for each row that is waited for, first come, first served; but for a transaction that
//! holds a row which others wait for, and so goes first.
//!
//! Called by `txn`, by the operation that has found a row locked (or by a transaction that gave way to a row's
//! writer, before it is run again); and by the scheme, when a transaction ends of which the registry says that it is
//! awaited. Nobody else comes here: a row that nobody waits for is in no table, and a transaction that ends pays one
//! load for it.
//!
//! How a waiter and its holder do not miss each other: the waiter is in its queue, with the holder's name, before it
//! marks the holder as awaited (`ConcurrencyControl::await_end`), and looks at the row once more after that. The holder ends,
//! which the row shows, and then looks at the mark. Whichever of the two is first, the other one sees it.
//!
//! Invariants, whenever the lock is free:
//! - A queue is not empty.
//! - The first of a queue's entries that still wants the row has its turn, or the queue names a holder.
//! - `held` has a row under a place exactly while the row's queue names that place as its holder.
//! - Every entry is under its transaction in `waiters` and, if its wait has an end, in `deadlines`.
//!
//! # Circles
//!
//! A transaction waits for the row's holder, and for the one in front of it in the queue. Edges come about when a wait begins, and when a row that is waited for gets a new holder. In both cases the one that
//! then waits looks for a circle, under the lock under which all waits begin: so the last edge of a circle finds it.
//! A row may be taken by one that never was in its queue; then it is the first of the queue that finds the circle,
//! perhaps without being in it.

use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::RecordId;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// What an entry takes, with its part of the four tables: charged to the account while it is there.
const ENTRY_BYTES: u64 = 256;
/// Added to the numbers of those that hold nothing which others wait for: they come after the others, and among each
/// other in the order in which they came.
const LATER: u64 = 1 << 63;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// All waits of a database.
pub struct Waits {
    state: Mutex<State>,
    /// Entries. A hint to those who have not locked: who comes at the same moment as another may overtake it.
    waiting: AtomicUsize,
    /// The first deadline: a hint likewise.
    first_deadline_ns: AtomicU64,
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
pub enum Stage {
    /// It is to be woken.
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
pub enum Unfit {
    /// It would wait for itself.
    Deadlocked,
    /// The database's memory limit is reached.
    OutOfMemory,
}

impl From<OutOfMemory> for Unfit {
    fn from(_: OutOfMemory) -> Self {
        Unfit::OutOfMemory
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
    stage: Stage,
    waker: Option<Waker>,
}

/// Wakers to be called, and what is to be dropped, once the lock is free: both may run any code.
type Woken = Vec<Waker>;

impl Queue {
    /// Gives the first that still wants the row its turn, if the row is free as far as is known.
    fn turn(&mut self, woken: &mut Woken) {
        if self.holder.is_some() {
            return;
        }
        let first = self.entries.values_mut().find(|entry| entry.wants());
        if let Some(entry) = first
            && entry.stage == Stage::Waiting
        {
            entry.stage = Stage::Turn;
            woken.extend(entry.waker.take());
        }
    }
}

impl Entry {
    fn wants(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Turn)
    }

    fn stop(&mut self, why: Stage, woken: &mut Woken) {
        self.stage = why;
        woken.extend(self.waker.take());
    }
}

impl State {
    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.rows.get_mut(&ticket.row)?.entries.get_mut(&ticket.number)
    }

    fn set_holder(&mut self, row: RecordId, holder: Option<u32>) {
        let Some(queue) = self.rows.get_mut(&row) else { return };
        if let Some(old) = std::mem::replace(&mut queue.holder, holder) {
            self.held.remove(&(old, row));
        }
        self.held.extend(holder.map(|place| (place, row)));
    }

    /// Takes an entry out, and lets the next one have its turn. False: it is not there.
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

    /// The transactions that the one at `place` waits for: of each wait the one in front of it in the line, then the
    /// row's holder.
    fn awaited_by(&self, place: u32) -> Vec<u32> {
        let mut awaited = Vec::new();
        for (&(_, number), row) in self.waiters.range((place, 0)..=(place, u64::MAX)) {
            let Some(queue) = self.rows.get(row) else { continue };
            if queue.entries.get(&number).is_none_or(|entry| entry.stage != Stage::Waiting) {
                continue;
            }
            let mut before = queue.entries.range(..number).rev().map(|(_, entry)| entry);
            let before = before.find(|entry| entry.wants() && entry.place != place).map(|entry| entry.place);
            awaited.extend(before);
            awaited.extend(queue.holder.filter(|&holder| holder != place));
        }
        awaited
    }

    /// Another one waits for the transaction at `place`, or may come to, beside the one wait that has just begun.
    fn may_be_awaited(&self, place: u32) -> bool {
        let holds = self.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        holds || self.waiters.range((place, 0)..=(place, u64::MAX)).nth(1).is_some()
    }

    /// A circle that can be reached from `start`: its members.
    fn circle(&self, start: u32) -> Option<Vec<u32>> {
        let mut on_path = BTreeMap::from([(start, true)]);
        let mut path = vec![(start, self.awaited_by(start))];
        while let Some((place, next)) = path.last_mut() {
            let Some(other) = next.pop() else {
                on_path.insert(*place, false); // no circle goes through it
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

    /// Breaks the circles that the wait of the one at `place` has closed. False: by its giving way.
    ///
    /// Circles by way of holders come first: one that goes along a line is no more if they are broken.
    fn break_circles(&mut self, place: u32, woken: &mut Woken) -> bool {
        let (mut roots, mut goes_on) = (vec![place], true);
        while let Some(circle) = roots.iter().find_map(|&root| self.circle(root)) {
            // The one that has come last has done least. (One that is not in the circle has found that some other
            // transaction has taken a row past the line.)
            let is_own = circle.contains(&place);
            goes_on &= !is_own;
            let victim = if is_own { place } else { circle.iter().copied().max().unwrap_or(place) };
            let waits = self.waiters.range((victim, 0)..=(victim, u64::MAX));
            let waits: Vec<_> = waits.map(|(&(_, number), &row)| Ticket { row, number }).collect();
            for ticket in waits {
                if let Some(entry) = self.entry(ticket).filter(|entry| entry.wants()) {
                    entry.stop(Stage::Deadlocked, woken);
                }
            }
            roots.extend(circle);
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
            memory,
        }
    }

    /// Those who wait, for whatever row.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Somebody waits for some row.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Somebody waits for this row, so that whoever comes now is to get in line.
    #[cold]
    pub fn has_queue(&self, row: RecordId) -> bool {
        lock(&self.state).rows.contains_key(&row)
    }

    /// Gets in line for a row, on behalf of the transaction at `place`: held by the one at `holder`, or free but for
    /// those in line. At `deadline_ns` of the engine's clock the wait is over.
    #[cold]
    pub fn join(
        &self,
        row: RecordId,
        place: u32,
        holder: Option<u32>,
        deadline_ns: u64,
    ) -> Result<Ticket, Unfit> {
        self.memory.charge(Kind::Other, ENTRY_BYTES)?;
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        state.tickets += 1;
        // One that others wait for goes before those that hold nothing: else these would each take the row, wait for that
        // one in turn, and have to give way.
        let is_awaited =
            state.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        let number = state.tickets | if is_awaited { 0 } else { LATER };
        let entry = Entry { place, deadline_ns, stage: Stage::Waiting, waker: None };
        state.rows.entry(row).or_default().entries.insert(number, entry);
        state.waiters.insert((place, number), row);
        if deadline_ns != NEVER {
            state.deadlines.insert((deadline_ns, number, row));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { row, number };
        if holder.is_some() {
            state.set_holder(row, holder);
        }
        state.rows.get_mut(&row).expect("it has an entry").turn(&mut woken);
        // (A transaction that nobody waits for closes no circle: that is the usual case, and costs no walk.)
        if state.may_be_awaited(place) && !state.break_circles(place, &mut woken) {
            self.remove(state, ticket, woken);
            return Err(Unfit::Deadlocked);
        }
        self.unlock(state, woken);
        Ok(ticket)
    }

    /// The row is held by the one at `holder`, by now or still: waits on, at the same place in the line. A wait that is
    /// over stays so.
    #[cold]
    pub fn stay(&self, ticket: Ticket, holder: u32) -> Stage {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let Some(entry) = state.entry(ticket) else { return Stage::Turn };
        if !entry.wants() {
            return entry.stage;
        }
        entry.stage = Stage::Waiting;
        let place = entry.place;
        state.set_holder(ticket.row, Some(holder));
        let goes_on = state.break_circles(place, &mut woken);
        self.unlock(state, woken);
        if goes_on { Stage::Waiting } else { Stage::Deadlocked }
    }

    /// How far the wait has come; while it waits, `waker` will be called when that changes.
    #[cold]
    pub fn look(&self, ticket: Ticket, waker: &Waker) -> Stage {
        let mut state = lock(&self.state);
        let Some(entry) = state.entry(ticket) else { return Stage::Turn };
        let mut old = None;
        if entry.stage == Stage::Waiting && !entry.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            old = entry.waker.replace(waker.clone());
        }
        let stage = entry.stage;
        drop(state);
        drop(old); // any code may run then
        stage
    }

    /// Gets out of line; whoever is next has its turn if it was this one's.
    #[cold]
    pub fn leave(&self, ticket: Ticket) {
        self.remove(lock(&self.state), ticket, Woken::new());
    }

    /// As `leave`, and the row is this one's now. True: others wait for it.
    #[cold]
    pub fn took(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let Some(place) = state.entry(ticket).map(|entry| entry.place) else { return false };
        state.set_holder(ticket.row, Some(place));
        let Some(queue) = state.rows.get_mut(&ticket.row) else { return false };
        let others = queue.entries.len() > 1;
        // The same transaction may have asked for the row twice at once, and then has it twice.
        let own = queue.entries.values_mut().filter(|entry| entry.place == place);
        own.filter(|entry| entry.stage == Stage::Waiting)
            .for_each(|entry| entry.stop(Stage::Turn, &mut woken));
        self.remove(state, ticket, woken);
        others
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

    /// The transaction at `place` turns out not to hold the row any more.
    #[cold]
    pub fn freed(&self, row: RecordId, place: u32) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        if state.rows.get(&row).is_some_and(|queue| queue.holder == Some(place)) {
            state.set_holder(row, None);
            state.rows.get_mut(&row).expect("it is there").turn(&mut woken);
        }
        self.unlock(state, woken);
    }

    /// The transaction at `place` has ended, and the rows that it held show it.
    #[cold]
    pub(in crate::cc) fn ended(&self, place: u32) {
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
                    entry.stop(Stage::Expired, &mut woken);
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

    /// Lets others in, then calls the wakers.
    fn unlock(&self, state: MutexGuard<'_, State>, woken: Woken) {
        let first = state.deadlines.first().map_or(NEVER, |(at, ..)| *at);
        self.first_deadline_ns.store(first, Ordering::Relaxed);
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

    /// Proves that turns come in the order of the line, whoever leaves it, and that all is given back.
    #[test]
    fn turns() {
        let waits = waits();
        let rings = Arc::new(Rings::default());
        let waker = Waker::from(rings.clone());
        let join = |place| waits.join(ROW, place, Some(1), NEVER).expect("no circle");
        let [a, b, c, d] = [2, 3, 4, 5].map(join);
        let look = |ticket| waits.look(ticket, &waker);
        assert_eq!([a, b, c, d].map(look), [Stage::Waiting; 4]);
        assert_eq!(waits.memory.used_bytes(Kind::Other), 4 * ENTRY_BYTES);
        waits.leave(b);
        waits.ended(9);
        assert_eq!(look(a), Stage::Waiting);
        waits.ended(1);
        assert_eq!([a, c, d].map(look), [Stage::Turn, Stage::Waiting, Stage::Waiting]);
        assert_eq!(waits.stay(a, 8), Stage::Waiting);
        waits.ended(8);
        assert_eq!([a, c].map(look), [Stage::Turn, Stage::Waiting]);
        assert!(waits.took(a), "others wait");
        assert_eq!(look(c), Stage::Waiting);
        waits.ended(2);
        waits.leave(c);
        assert_eq!(look(d), Stage::Turn);
        assert!(!waits.took(d));
        assert!(!waits.is_any() && !waits.has_queue(ROW));
        let state = lock(&waits.state);
        assert!(state.held.is_empty() && state.waiters.is_empty() && state.rows.is_empty());
        assert_eq!(waits.memory.used_bytes(Kind::Other), 0);
        assert!(rings.0.load(Ordering::SeqCst) >= 4);
    }

    /// Proves that a wait is over at its time, not before, and that the next in line is not held up by it.
    #[test]
    fn times() {
        let waits = waits();
        let first = waits.join(ROW, 2, Some(1), 100).expect("no circle");
        let second = waits.join(ROW, 3, Some(1), 200).expect("no circle");
        assert_eq!(waits.first_deadline_ns(), Some(100));
        waits.expire(99);
        let look = |ticket| waits.look(ticket, Waker::noop());
        assert_eq!(look(first), Stage::Waiting);
        waits.expire(100);
        assert_eq!(
            (look(first), look(second), waits.first_deadline_ns()),
            (Stage::Expired, Stage::Waiting, Some(200))
        );
        waits.ended(1);
        assert_eq!((look(first), look(second)), (Stage::Expired, Stage::Turn));
        assert_eq!(waits.stay(first, 4), Stage::Expired);
        waits.leave_all(2);
        waits.leave_all(3);
        assert_eq!((waits.is_any(), waits.first_deadline_ns()), (false, None));
    }

    /// Proves that a circle is found by the wait that closes it, through any number of rows and along a line; and that
    /// chains are none.
    #[test]
    fn circles() {
        for length in [2, 3, 10, 1000] {
            let waits = waits();
            let row = RecordId;
            for place in 0..length - 1 {
                waits.join(row(place), place, Some(place + 1), NEVER).expect("a chain");
            }
            let closing = waits.join(row(length), length - 1, Some(0), NEVER);
            assert_eq!(closing, Err(Unfit::Deadlocked));
            assert_eq!(lock(&waits.state).waiters.len(), length as usize - 1);
            waits.join(row(length), length - 1, Some(length), NEVER).expect("a longer chain");
        }
        // 1 holds the row, 2 is first in line, 3 behind it; 2 would wait for 3 elsewhere.
        let waits = waits();
        waits.join(ROW, 2, Some(1), NEVER).expect("no circle");
        waits.join(ROW, 3, Some(1), NEVER).expect("no circle");
        assert_eq!(waits.join(RecordId(8), 2, Some(3), NEVER), Err(Unfit::Deadlocked));
    }

    /// Proves that a row taken by one that was not in line closes a circle which the first in line finds, although it is
    /// not in it.
    #[test]
    fn circles_of_others() {
        let waits = waits();
        let (taken, other) = (RecordId(1), RecordId(2));
        let first = waits.join(taken, 10, Some(1), NEVER).expect("no circle");
        let second = waits.join(taken, 11, Some(1), NEVER).expect("no circle");
        let third = waits.join(other, 12, Some(11), NEVER).expect("no circle");
        waits.ended(1);
        // 12 has taken the row past the line, and waits for 11, which waits for the row.
        assert_eq!(waits.stay(first, 12), Stage::Waiting);
        let stages = [first, second, third].map(|ticket| waits.look(ticket, Waker::noop()));
        assert_eq!(stages, [Stage::Waiting, Stage::Waiting, Stage::Deadlocked]);
    }

    /// Proves that a wait that the account has no room for does not begin.
    #[test]
    fn accounts() {
        let waits = Waits::new(Memory::new(2 * ENTRY_BYTES));
        assert!(waits.join(ROW, 2, Some(1), NEVER).is_ok());
        assert!(waits.join(ROW, 3, Some(1), NEVER).is_ok());
        assert_eq!(waits.join(ROW, 4, Some(1), NEVER), Err(Unfit::OutOfMemory));
        waits.leave_all(2);
        assert!(waits.join(ROW, 4, Some(1), NEVER).is_ok());
    }
}
