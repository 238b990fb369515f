//! The queues of transactions that wait for locked rows: one for each row that is waited for, first come, first served,
//! except that a transaction that holds a row which others wait for goes before those that hold none. If it is waiting already when
//! others come to wait for its row, it is moved forward (`State::promote`).
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
//! ([`Holder::SHARERS`]), whose place no transaction has: it waits for nothing, so no cycle goes through it. (A transaction that
//! holds what others may wait for does not sleep for sharers: see `ConcurrencyControl::may_queue`.) So all in a queue are asked when its
//! row comes to be shared, also those that joined it before. While any row has this holder,
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
//! begins, when a queue gets another holder, and when a transaction is moved forward. Each happens under the lock, and the caller looks
//! for a cycle there: so the last edge of a cycle finds it. The search goes by way of holders, and of those in a queue that wait elsewhere as well: a cycle that
//! goes through another one has a shorter cycle beside it. A row can be taken by a transaction that was not in its queue, since plain writes do
//! not ask; then the cycle is found by the first of the queue, or by the next one that joins it, without being in it.

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

/// What an entry takes, with its part of the four tables: charged to the account while it is there.
const ENTRY_BYTES: u64 = 256;
/// Added to the numbers of transactions that hold no row which others wait for: they come after those that do, and among
/// each other in the order in which they came.
const LATER: u64 = 1 << 63;
/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

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
    /// Transactions that searches for cycles have come to.
    #[cfg(test)]
    searched: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct Queue {
    /// The place of the transaction that holds the row, as far as is known.
    holder: Option<u32>,
    entries: BTreeMap<u64, Entry>,
    /// The entries of transactions that have other entries as well, in this queue or another one.
    of_several: BTreeSet<u64>,
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
    /// The ticket with the number that its entry has now: see `promote`.
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

    /// The transaction at `place` holds a row which others wait for: its waits go before those of transactions that hold none. Returns true
    /// if there is more than one of them, so that a cycle may go through those that it has overtaken.
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
            queue.turn(woken);
        }
        !later.is_empty() && waiters.range((place, 0)..=(place, u64::MAX)).nth(1).is_some()
    }

    /// Names the row's holder on behalf of the entry `by`, as `set_holder`. If that is those that share the row now, the others in the queue
    /// look again: they may have rows by now for which the sharers wait, and each has to ask whether it may wait for sharers. Returns true as
    /// well if the holder has overtaken others where it waits itself, so that there may be a cycle through it.
    fn meet_holder(&mut self, by: Ticket, holder: u32, woken: &mut Woken) -> bool {
        let by = self.current(by);
        let has_overtaken = self.promote(holder, woken);
        let is_news = self.set_holder(by.row, Some(holder));
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

    /// Takes an entry out, and lets the next one have its turn. Returns false if it is not there.
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
            queue.turn(woken);
        }
        woken.extend(entry.waker); // to be dropped outside; a wake more does no harm
        self.note_several(entry.place);
        true
    }

    /// An entry of the transaction at `place` has come or gone: notes which of its entries are not its only one.
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

    /// Returns the transactions that the one at `place` waits for: for each of its waits those before it in the queue, then the row's holder.
    /// Leaves out those before it that have no other wait, for a queue may be thousands long. A cycle through one of these has a shorter one beside
    /// it: it waits only for others that are before it, and for the holder.
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

    /// The rows for which operations of the transaction at `place` sleep, each with its queue.
    fn slept_for(&self, place: u32) -> impl Iterator<Item = (RecordId, &Queue)> {
        let own = self.waiters.range((place, 0)..=(place, u64::MAX));
        own.filter_map(|(&(_, number), &row)| {
            let queue = self.rows.get(&row)?;
            let entry = queue.entries.get(&number)?;
            (entry.stage == WaitStage::Waiting).then_some((row, queue))
        })
    }

    /// The first of the entries for a row of the transaction at `place`.
    fn first_entry(&self, place: u32, row: RecordId) -> Option<u64> {
        let mut own = self.waiters.range((place, 0)..=(place, u64::MAX));
        own.find(|(_, waited)| **waited == row).map(|(&(_, number), _)| number)
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

    /// Breaks the cycles that the new wait of the transaction at `place` has closed. If others wait for another holder than before, `holder`
    /// is that one, and the cycles through it are broken as well. Returns false if the transaction at `place` is a victim: it must abort.
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
            queue.turn(woken);
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

    /// Joins the queue for a row, on behalf of the transaction at `place`. The row is held by the one at `holder`, or free but for those in
    /// the queue. At `deadline_ns` of the engine's clock the wait is over. `is_held` marks the holder, and looks whether it has the row
    /// still.
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
        // A transaction that others wait for goes before those that hold nothing. Otherwise each of these would take the row, wait for
        // that transaction in turn, and be the victim of a deadlock.
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
        // The others in the queue may have waited for another holder: then they have a new edge, too.
        let news = holder.filter(|&holder| state.meet_holder(ticket, holder, &mut woken));
        state.rows.get_mut(&row).expect("it has an entry").turn(&mut woken);
        // (A transaction that nobody waits for closes no cycle: that is the usual case, and costs no walk.)
        let may_close = news.is_some() || state.may_be_awaited(place);
        if may_close && !state.break_cycles(place, news, &mut woken) {
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
        let is_news = state.meet_holder(ticket, holder, &mut woken);
        let goes_on = state.break_cycles(place, is_news.then_some(holder), &mut woken);
        self.unlock(state, woken);
        if goes_on { WaitStage::Waiting } else { WaitStage::Deadlocked }
    }

    /// The entry is kept for another wait, which ends at `deadline_ns`, or until there is one (`NEVER`). A wait that is over stays so.
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
        if others {
            state.promote(place, &mut woken);
        }
        let Some(queue) = state.rows.get_mut(&ticket.row) else { return false };
        // The same transaction may have asked for the row twice at once, and then has it twice.
        let own = queue.entries.values_mut().filter(|entry| entry.place == place);
        own.filter(|entry| entry.stage == WaitStage::Waiting)
            .for_each(|entry| entry.stop(WaitStage::Turn, &mut woken));
        if is_news {
            state.break_cycles(place, None, &mut woken); // others of its operations may wait
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
        state
            .slept_for(place)
            .any(|(row, queue)| Some(row) != but && queue.holder == Some(Holder::SHARERS.place))
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
