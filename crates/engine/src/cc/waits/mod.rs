//! Queues of transactions that wait for locked rows: one queue for each row that is waited for.
//!
//! A queue is first come, first served, with one exception: a transaction that holds a row which others wait for goes before the
//! transactions that hold none. A transaction that already waits when others come to wait for its row is moved forward
//! (`State::promote`).
//!
//! Three callers enter here: an operation that finds a row locked, a transaction that is about to be run again after another transaction
//! had its row, and a scheme when a transaction ends that the registry has marked as awaited. A row that is not waited for has no entry in
//! any table, and the end of a transaction that is not awaited costs one load.
//!
//! # A wait, step by step
//! 1. `join` puts an entry into the row's queue and names the row's holder. It refuses if the wait would close a cycle.
//! 2. `look` leaves the waiter's waker, and the waiter sleeps.
//! 3. The holder ends and calls `ended`. The first entry of the queue gets its turn, and its waker is called.
//! 4. The waiter tries to lock the row. If it succeeds, `took` removes its entry and makes the waiter the holder for whoever is left. If
//!    the row has another holder by now, `stay` names that holder, and the wait goes on at step 2. If the waiter cannot have the row any
//!    more, `leave` gives the turn to the next entry.
//!
//! # No lost wake-up
//! Under the lock, a waiter marks the holder as awaited (`ConcurrencyControl::await_end`) and then looks at the row once more, before it names
//! the holder. A holder that ends first lets the row show it, and then looks at the mark and calls `ended` if it is set. Whichever of the two
//! is first, the other one sees it. Therefore a transaction that is named as a holder has not called `ended` since: it is open, or it is
//! about to call `ended` and waits for nothing.
//!
//! # Shared locks
//! The lock of a shared row counts its transactions and does not name them. All sharers together are one holder,
//! [`Holder::SHARERS`], whose place belongs to no transaction. This holder waits for nothing, so no cycle goes through it; a transaction that
//! holds what others may wait for does not sleep for sharers (`ConcurrencyControl::may_queue`). When a row comes to be shared, all entries
//! of its queue get a turn, because each transaction has to ask again whether it may sleep.
//!
//! While any row has this holder, `shares_awaited` is set. A transaction that gives back a share then calls `unshared`, as does a transaction
//! whose share becomes the whole lock, because its waiters need to know it by name. A waiter sets the flag before it looks at the row
//! once more, and a transaction reads the flag after its share is gone. Both accesses are sequentially consistent, so one of the two sees the
//! other.
//!
//! # Invariants, whenever the lock is free
//! - A queue is not empty.
//! - The first of a queue's entries that still wants the row has its turn, or the queue names a holder.
//! - `held` has a row under a place exactly while the row's queue names that place as its holder.
//! - Every entry is under its transaction in `waiters` and, if its wait has an end, in `deadlines`.
//!
//! # Deadlocks
//! A transaction waits for the row's holder and for all entries before its own in the queue. Such an edge arises when a wait begins, when a
//! queue gets another holder, and when a transaction is moved forward. Each happens under the lock, and the caller searches for a
//! cycle there, so the last edge of a cycle finds it. The search follows holders, and of the earlier entries in a queue only those whose
//! transactions also wait elsewhere: a cycle through any other entry has a shorter cycle beside it.
//!
//! Plain writes do not ask the queue, so a transaction can take a row past it. The first of the queue, or the next transaction that
//! joins, finds the cycle then, although it may not be a member.

#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;

use super::Holder;
use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::RecordId;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter;
use std::sync::Arc;
use std::task::Waker;

/// Memory that an entry takes, with its part of the four tables. It is charged to the account as long as the entry exists.
const ENTRY_BYTES: u64 = 256;
/// Added to the number of an entry whose transaction holds no row that others wait for. It sorts such entries behind all others, and
/// among each other in the order of their arrival.
const LATER: u64 = 1 << 63;
/// The number of looks at a held row between two questions whether the row's holder sleeps.
const LOOKS_PER_QUESTION: u32 = 64;
/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// All waits for rows of a database.
pub struct Waits {
    state: Mutex<State>,
    /// The number of entries. Without the lock it is a hint: a transaction that arrives at the same moment as another may overtake it.
    waiting: AtomicUsize,
    /// The earliest deadline. Without the lock it is a hint.
    first_deadline_ns: AtomicU64,
    /// Set while some row that transactions share is waited for.
    shares_awaited: AtomicBool,
    memory: Arc<Memory>,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Names an entry by its row and by the number that it was given (see `State::current`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    row: RecordId,
    number: u64,
}

impl Ticket {
    /// Returns the row that the entry waits for.
    pub fn row(self) -> RecordId {
        self.row
    }
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStage {
    /// The waiter sleeps; its waker will be called.
    Waiting,
    /// The row was free when this was decided: the waiter tries to lock it.
    Turn,
    /// The transaction would have waited for itself, and has to abort.
    Deadlocked,
    /// The wait has reached its deadline.
    Expired,
}

/// The reason why a wait did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The transaction would wait for itself.
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
    waiters: Waiters,
    deadlines: BTreeSet<(u64, u64, RecordId)>,
    /// The last number that was given out. A lesser number was given earlier.
    tickets: u64,
    /// The number of transactions that searches for cycles have visited.
    #[cfg(test)]
    searched: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct Queue {
    /// The place of the transaction that is known to hold the row.
    holder: Option<u32>,
    entries: BTreeMap<u64, Entry>,
    /// The numbers of entries whose transactions have further entries, in this queue or another one.
    of_several: BTreeSet<u64>,
}

struct Entry {
    place: u32,
    deadline_ns: u64,
    stage: WaitStage,
    waker: Option<Waker>,
}

/// The row for which each entry waits, by the place of its transaction and by its number.
type Waiters = BTreeMap<(u32, u64), RecordId>;

/// Wakers to be called after the lock is released, because they may run any code.
type Woken = Vec<Waker>;

impl Queue {
    /// Gives the first entry that still wants the row its turn, if no holder is known, and with it the other entries of its transaction:
    /// the operation that is first may have been forgotten.
    fn turn(&mut self, row: RecordId, waiters: &Waiters, woken: &mut Woken) {
        if self.holder.is_some() {
            return;
        }
        if let Some(first) = self.entries.values().find(|entry| entry.wants())
            && first.stage == WaitStage::Waiting
        {
            self.call(row, first.place, waiters, woken);
        }
    }

    /// Gives a turn to all entries of the transaction at `place`.
    fn call(&mut self, row: RecordId, place: u32, waiters: &Waiters, woken: &mut Woken) {
        for (&(_, number), _) in waiters.range((place, 0)..=(place, u64::MAX)).filter(|(_, at)| **at == row) {
            if let Some(entry) = self.entries.get_mut(&number)
                && entry.stage == WaitStage::Waiting
            {
                entry.stop(WaitStage::Turn, woken);
            }
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
    /// Returns the ticket with the present number of its entry, which `promote` may have changed.
    fn current(&self, ticket: Ticket) -> Ticket {
        let Ticket { row, number } = ticket;
        match self.rows.get(&row).is_some_and(|queue| queue.entries.contains_key(&number)) {
            true => ticket,
            false => Ticket { row, number: number & !LATER },
        }
    }

    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let ticket = self.current(ticket);
        self.rows.get_mut(&ticket.row)?.entries.get_mut(&ticket.number)
    }

    /// Names the row's holder. Returns true if it is another holder than before and the queue has more than one entry.
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

    /// Moves the waits of the transaction at `place`, which holds a row that others wait for, before those of transactions that hold none.
    /// Otherwise all entries before its own would have their turns first, and each would fail because of the row that it holds. Returns true
    /// if an entry was moved and the transaction has several: the move may have closed a cycle then.
    fn promote(&mut self, place: u32, woken: &mut Woken) -> bool {
        let State { rows, waiters, deadlines, .. } = self;
        let later: Vec<_> =
            waiters.range((place, LATER)..=(place, u64::MAX)).map(|(&at, &row)| (at, row)).collect();
        for &((_, number), row) in &later {
            let first = number & !LATER;
            waiters.remove(&(place, number));
            waiters.insert((place, first), row);
            let Some(queue) = rows.get_mut(&row) else { continue };
            let Some(entry) = queue.entries.remove(&number) else { continue };
            if deadlines.remove(&(entry.deadline_ns, number, row)) {
                deadlines.insert((entry.deadline_ns, first, row));
            }
            if queue.of_several.remove(&number) {
                queue.of_several.insert(first);
            }
            queue.entries.insert(first, entry);
            queue.turn(row, waiters, woken);
        }
        !later.is_empty() && waiters.range((place, 0)..=(place, u64::MAX)).nth(1).is_some()
    }

    /// Names the row's holder on behalf of the entry `by`, and moves the holder's own waits forward. If the row has come to be shared, the
    /// other entries get a turn: their transactions may hold rows by now for which the sharers wait, and each has to ask whether it may
    /// sleep. Returns true if there may be a new cycle through the holder.
    fn meet_holder(&mut self, by: Ticket, holder: u32, woken: &mut Woken) -> bool {
        let by = self.current(by);
        let has_overtaken = self.promote(holder, woken);
        let is_news = self.set_holder(by.row, Some(holder));
        self.call_owner(by.row, holder, woken);
        if is_news
            && holder == Holder::SHARERS.place
            && let Some(queue) = self.rows.get_mut(&by.row)
        {
            let others = queue.entries.iter_mut().filter(|(number, _)| **number != by.number);
            let waiting = others.filter(|(_, entry)| entry.stage == WaitStage::Waiting);
            waiting.for_each(|(_, entry)| entry.stop(WaitStage::Turn, woken));
        }
        is_news || has_overtaken
    }

    /// Gives the first in the row's queue its turn, if it can have it.
    fn turn(&mut self, row: RecordId, woken: &mut Woken) {
        if let Some(queue) = self.rows.get_mut(&row) {
            queue.turn(row, &self.waiters, woken);
        }
    }

    /// Gives a turn to the entries that the transaction at `place`, which has the row, has in the row's queue. It may have asked for the row
    /// twice at once, or have got it past the queue while another of its operations slept there.
    fn call_owner(&mut self, row: RecordId, place: u32, woken: &mut Woken) {
        if let Some(queue) = self.rows.get_mut(&row) {
            queue.call(row, place, &self.waiters, woken);
        }
    }

    /// Removes an entry, and gives the next one its turn. Returns false if the entry does not exist.
    fn remove(&mut self, ticket: Ticket, woken: &mut Woken) -> bool {
        let ticket = self.current(ticket);
        let Some(queue) = self.rows.get_mut(&ticket.row) else { return false };
        let Some(entry) = queue.entries.remove(&ticket.number) else { return false };
        queue.of_several.remove(&ticket.number);
        self.waiters.remove(&(entry.place, ticket.number));
        self.deadlines.remove(&(entry.deadline_ns, ticket.number, ticket.row));
        if queue.entries.is_empty() {
            self.set_holder(ticket.row, None);
            self.rows.remove(&ticket.row);
        } else {
            queue.turn(ticket.row, &self.waiters, woken);
        }
        woken.extend(entry.waker); // to be dropped outside; a wake more does no harm
        self.note_several(entry.place);
        true
    }

    /// Brings `of_several` up to date after an entry of the transaction at `place` was added or removed.
    fn note_several(&mut self, place: u32) {
        let State { rows, waiters, .. } = self;
        let mut own = waiters.range((place, 0)..=(place, u64::MAX)).map(|(&(_, number), row)| (number, row));
        let (first, second) = (own.next(), own.next());
        for (number, row) in first.into_iter().chain(second).chain(own) {
            let Some(queue) = rows.get_mut(row) else { continue };
            match second {
                Some(_) => queue.of_several.insert(number),
                None => queue.of_several.remove(&number),
            };
        }
    }

    /// Returns the transactions that the one at `place` waits for: for each of its waits the earlier entries of the queue, then the row's holder.
    /// Leaves out earlier entries whose transactions have no other wait, because a queue may be thousands long. Such a transaction
    /// waits only for still earlier entries and for the holder, so a cycle through it has a shorter cycle beside it.
    fn awaited_by(&self, place: u32) -> Vec<u32> {
        #[cfg(test)]
        self.searched.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (mut awaited, mut rows) = (Vec::new(), BTreeSet::new());
        for (&(_, number), row) in self.waiters.range((place, 0)..=(place, u64::MAX)) {
            // Of several waits for one row the first ends them all.
            let Some(queue) = self.rows.get(row).filter(|_| rows.insert(row)) else { continue };
            if queue.entries.get(&number).is_none_or(|entry| entry.stage != WaitStage::Waiting) {
                continue;
            }
            for before in queue.of_several.range(..number).rev() {
                let Some(entry) =
                    queue.entries.get(before).filter(|entry| entry.wants() && entry.place != place)
                else {
                    continue;
                };
                awaited.push(entry.place);
                // It waits for all that are before it, if this is its first entry here; but one that has its turn, and may be waiting
                // elsewhere, does not.
                if entry.stage == WaitStage::Waiting && self.first_entry(entry.place, *row) == Some(*before) {
                    break;
                }
            }
            awaited.extend(queue.holder.filter(|&holder| holder != place));
        }
        awaited
    }

    /// Returns the rows for which operations of the transaction at `place` sleep, each with its queue.
    fn slept_for(&self, place: u32) -> impl Iterator<Item = (RecordId, &Queue)> {
        let own = self.waiters.range((place, 0)..=(place, u64::MAX));
        own.filter_map(|(&(_, number), &row)| {
            let queue = self.rows.get(&row)?;
            let entry = queue.entries.get(&number)?;
            (entry.stage == WaitStage::Waiting).then_some((row, queue))
        })
    }

    /// Returns the number of the first entry that the transaction at `place` has for a row.
    fn first_entry(&self, place: u32, row: RecordId) -> Option<u64> {
        let mut own = self.waiters.range((place, 0)..=(place, u64::MAX));
        own.find(|(_, waited)| **waited == row).map(|(&(_, number), _)| number)
    }

    /// Returns true if others wait for the transaction at `place`, or could because it has several waits.
    fn may_be_awaited(&self, place: u32) -> bool {
        let holds = self.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        holds || self.waiters.range((place, 0)..=(place, u64::MAX)).nth(1).is_some()
    }

    /// Returns the members of a cycle that can be reached from `start`.
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

    /// Breaks the cycles that the new wait of the transaction at `place` has closed, and those through `holder` if the queue has got that
    /// holder just now. Returns false if the transaction at `place` is a victim, which must abort.
    ///
    /// Each search of the graph finds one cycle, and a victim breaks it. There was no cycle before, so each new one goes through `place` or
    /// `holder`: a search begins at these two alone.
    fn break_cycles(&mut self, place: u32, holder: Option<u32>, woken: &mut Woken) -> bool {
        let mut goes_on = true;
        for root in iter::once(place).chain(holder) {
            while let Some(cycle) = self.cycle(root) {
                debug_assert!(
                    cycle.iter().all(|&member| self.may_be_awaited(member)),
                    "the one before it waits for it"
                );
                // The one whose wait closes the cycle has come last. It is not in a cycle that another transaction closed
                // when it took a row past the queue.
                let last = cycle.iter().find(|&&member| member == place);
                let victim = *last.or_else(|| cycle.iter().max()).expect("a cycle has members");
                goes_on &= victim != place;
                self.stop_waits(victim, woken);
            }
        }
        goes_on
    }

    /// Ends all waits of the victim at `place`. Where the victim had its turn, the next transaction in the queue gets it.
    fn stop_waits(&mut self, place: u32, woken: &mut Woken) {
        let State { rows, waiters, .. } = self;
        for (&(_, number), row) in waiters.range((place, 0)..=(place, u64::MAX)) {
            let Some(queue) = rows.get_mut(row) else { continue };
            if let Some(entry) = queue.entries.get_mut(&number).filter(|entry| entry.wants()) {
                entry.stop(WaitStage::Deadlocked, woken);
            }
            queue.turn(*row, waiters, woken);
        }
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

    /// Returns the number of waits that are under way, for all rows.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns true if some row is waited for.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Returns true if this row is waited for, so that a newcomer has to join its queue.
    #[cold]
    pub fn has_queue(&self, row: RecordId) -> bool {
        lock(&self.state).rows.contains_key(&row)
    }

    /// Joins the queue for a row, on behalf of the transaction at `place`. `holder` is the place of the row's holder, or `None` if the row is
    /// free and only has a queue. The wait ends at `deadline_ns` of the engine's clock. `is_held` marks the holder, and returns true if it
    /// still has the row.
    ///
    /// # Errors
    /// [`Refusal`]: the wait would close a cycle, or there is no memory for the entry.
    #[cold]
    pub fn join(
        &self,
        row: RecordId,
        place: u32,
        holder: Option<u32>,
        deadline_ns: u64,
        is_held: impl FnOnce() -> bool,
    ) -> Result<Ticket, Refusal> {
        self.memory.charge(Kind::Other, ENTRY_BYTES)?;
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let holder = holder.filter(|_| is_held());
        state.tickets += 1;
        // A transaction that others wait for goes before those that hold nothing. Otherwise each of those would take the row, wait for
        // this transaction in turn, and be the victim of a deadlock.
        let is_awaited =
            state.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next().is_some();
        let number = state.tickets | if is_awaited { 0 } else { LATER };
        let entry = Entry { place, deadline_ns, stage: WaitStage::Waiting, waker: None };
        state.rows.entry(row).or_default().entries.insert(number, entry);
        state.waiters.insert((place, number), row);
        state.note_several(place);
        if deadline_ns != NEVER {
            state.deadlines.insert((deadline_ns, number, row));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { row, number };
        // If the others in the queue have waited for another holder, they have a new edge, too.
        let news = holder.filter(|&holder| state.meet_holder(ticket, holder, &mut woken));
        state.turn(row, &mut woken);
        // (In the usual case no other transaction waits for this one. Then it closes no cycle, and no search is needed.)
        let may_close = news.is_some() || state.may_be_awaited(place);
        if may_close && !state.break_cycles(place, news, &mut woken) {
            self.remove(state, ticket, woken);
            return Err(Refusal::Deadlocked);
        }
        self.unlock(state, woken);
        Ok(ticket)
    }

    /// Waits on at the same place in the queue, because the row was found held by the transaction at `holder`; unless that transaction does not
    /// have the row any more (`is_held`, as for `join`). A wait that is over stays so.
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
        let is_news = state.meet_holder(ticket, holder, &mut woken);
        let goes_on = state.break_cycles(place, is_news.then_some(holder), &mut woken);
        self.unlock(state, woken);
        if goes_on { WaitStage::Waiting } else { WaitStage::Deadlocked }
    }

    /// Keeps the entry for another wait, which ends at `deadline_ns`, or until such a wait begins (`NEVER`). A wait that is over stays so.
    #[cold]
    pub fn renew(&self, ticket: Ticket, deadline_ns: u64) {
        let mut state = lock(&self.state);
        let Ticket { row, number } = state.current(ticket);
        let Some(entry) = state.entry(ticket).filter(|entry| entry.wants()) else { return };
        let old = std::mem::replace(&mut entry.deadline_ns, deadline_ns);
        state.deadlines.remove(&(old, number, row));
        if deadline_ns != NEVER {
            state.deadlines.insert((deadline_ns, number, row));
        }
        self.unlock(state, Woken::new());
    }

    /// Returns the state of the wait. If that is `Waiting`, `waker` will be called when it changes.
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

    /// Leaves the queue. If the entry had its turn, the next one has it now.
    #[cold]
    pub fn leave(&self, ticket: Ticket) {
        self.remove(lock(&self.state), ticket, Woken::new());
    }

    /// Leaves the queue, because the transaction has locked the row. Returns true if others wait for the row.
    #[cold]
    pub fn took(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let Some(place) = state.entry(ticket).map(|entry| entry.place) else { return false };
        let is_news = state.set_holder(ticket.row, Some(place));
        let Some(queue) = state.rows.get_mut(&ticket.row) else { return false };
        let others = queue.entries.len() > 1;
        if others {
            state.promote(place, &mut woken);
        }
        state.call_owner(ticket.row, place, &mut woken);
        if is_news {
            state.break_cycles(place, None, &mut woken); // others of its operations may wait
        }
        self.remove(state, ticket, woken);
        others
    }

    /// Returns true if the transaction at `place` sleeps in a queue. `looks`: how often the caller, which is awake, has looked at what that
    /// transaction holds. The answer is true only at every [`LOOKS_PER_QUESTION`]th look, because the question takes the lock.
    #[inline(always)]
    pub(in crate::cc) fn is_asleep(&self, place: u32, looks: u32) -> bool {
        looks.is_multiple_of(LOOKS_PER_QUESTION) && self.is_any() && self.sleeps(place)
    }

    #[cold]
    fn sleeps(&self, place: u32) -> bool {
        lock(&self.state).slept_for(place).next().is_some()
    }

    /// Returns true if the transaction at `place` waits for a row.
    #[cold]
    pub(in crate::cc) fn is_waiting(&self, place: u32) -> bool {
        lock(&self.state).waiters.range((place, 0)..=(place, u64::MAX)).next().is_some()
    }

    /// Returns true if the transaction at `place` sleeps until a row, other than `but`, is not shared any more.
    #[cold]
    pub(in crate::cc) fn awaits_sharers(&self, place: u32, but: Option<RecordId>) -> bool {
        let state = lock(&self.state);
        state
            .slept_for(place)
            .any(|(row, queue)| Some(row) != but && queue.holder == Some(Holder::SHARERS.place))
    }

    /// Lets all waits of the transaction at `place` look again, because it can no longer commit: its operations fail instead of sleeping on
    /// with its locks, perhaps behind a turn of its own.
    #[cold]
    pub fn call(&self, place: u32) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        let State { rows, waiters, .. } = &mut *state;
        for (&(_, number), row) in waiters.range((place, 0)..=(place, u64::MAX)) {
            let entry = rows.get_mut(row).and_then(|queue| queue.entries.get_mut(&number));
            if let Some(entry) = entry.filter(|entry| entry.stage == WaitStage::Waiting) {
                entry.stop(WaitStage::Turn, &mut woken);
            }
        }
        self.unlock(state, woken);
    }

    /// Removes all entries that forgotten operations of the transaction at `place` have left.
    #[cold]
    pub fn leave_all(&self, place: u32) {
        loop {
            let state = lock(&self.state);
            let first = state.waiters.range((place, 0)..=(place, u64::MAX)).next();
            let Some((&(_, number), &row)) = first else { return };
            self.remove(state, Ticket { row, number }, Woken::new());
        }
    }

    /// Gives turns in the queues of the rows that the transaction at `place` held. The caller has ended the transaction, or has given back
    /// some of its rows; waiters that find a row still held go on waiting.
    #[cold]
    pub fn ended(&self, place: u32) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        while let Some(&(_, row)) =
            state.held.range((place, RecordId(0))..=(place, RecordId(u32::MAX))).next()
        {
            state.set_holder(row, None);
            state.turn(row, &mut woken);
        }
        self.unlock(state, woken);
    }

    /// Announces that a waiter is about to look whether its row is shared. Called within `is_held` of `join` or `stay`.
    #[cold]
    pub(crate) fn await_shares(&self) {
        self.shares_awaited.store(true, Ordering::SeqCst); // before the row is looked at: see the head of the module
    }

    /// Returns true if a transaction that has just given back a share of a row's lock has to call `unshared`.
    #[inline(always)]
    pub(in crate::cc) fn are_shares_awaited(&self) -> bool {
        self.shares_awaited.load(Ordering::SeqCst) // after the share was given back: see the head of the module
    }

    /// Gives the first in the row's queue its turn, if the queue waits for sharers: the row may be free of them, or can be shared again.
    #[cold]
    pub(in crate::cc) fn unshared(&self, row: RecordId) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        if state.held.contains(&(Holder::SHARERS.place, row)) {
            state.set_holder(row, None);
            state.turn(row, &mut woken);
        }
        self.unlock(state, woken);
    }

    /// Returns the earliest deadline of all waits; `None` if no wait has one.
    #[inline]
    pub fn first_deadline_ns(&self) -> Option<u64> {
        Some(self.first_deadline_ns.load(Ordering::Relaxed)).filter(|&at| at != NEVER)
    }

    /// Ends the waits whose deadline has passed.
    #[cold]
    pub fn expire(&self, now_ns: u64) {
        let mut state = lock(&self.state);
        let mut woken = Woken::new();
        while let Some(&(at, number, row)) = state.deadlines.first().filter(|(at, ..)| *at <= now_ns) {
            state.deadlines.remove(&(at, number, row));
            let entry = state.rows.get_mut(&row).and_then(|queue| queue.entries.get_mut(&number));
            if let Some(entry) = entry.filter(|entry| entry.wants()) {
                entry.stop(WaitStage::Expired, &mut woken);
            }
            state.turn(row, &mut woken);
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

    /// Releases the lock, then calls the wakers.
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
