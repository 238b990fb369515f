//! A transaction's place in the queue for a row, and how it waits there.

use super::blocker::{Blocker, Wanted};
use super::bounded_wait::BoundedWait;
use super::state::TxnState;
use crate::cc::{Abort, ConcurrencyControl, Holder, NEVER, Refusal, Ticket, WaitStage, Waiting};
use crate::error::{Error, HolderKind, LockHolder, LockedRow, Result};
use crate::index::Key;
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Record, RecordId};
use crate::sync::{Condvar, Mutex, lock, wait_timeout};
use crate::table::{Fault, TableInner};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// How a wait goes on.
pub(crate) enum Wait {
    /// It does: the transaction will be woken.
    On,
    /// The row may be free: try.
    Over,
}

/// A place in the queue for a row. Given up when dropped; and if that is forgotten, when the transaction ends.
pub(crate) struct RowWait<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    what: Wanted,
    began_ns: u64,
    deadline_ns: u64,
    holder: Option<Holder>,
    ticket: Option<Ticket>,
    /// Times that it has stood aside for a commit under way.
    asides: u32,
    /// An interactive transaction's, with these commits.
    patience: BoundedWait,
}

/// A commit under way is a matter of microseconds, unless it waits for the log: rounds of the worker between two
/// looks, at most.
const ASIDE_ROUNDS_MAX: u32 = 256;
/// Times that an update at the commit stands aside before it joins the queue and sleeps: some thousand rounds.
const ASIDES_PATIENT: u32 = 64;

impl<C: ConcurrencyControl> Drop for RowWait<'_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<'t, C: ConcurrencyControl> RowWait<'t, C> {
    /// About to join the queue for the row under `key`; for `timeout` at most, or as long as the options
    /// say. Fails if it is not to wait.
    #[cold]
    pub(crate) fn new(
        txn: &'t TxnState<C>,
        table: *const TableInner,
        key: Key,
        timeout: Option<Duration>,
        holder: Option<Holder>,
    ) -> Result<Self> {
        // SAFETY: tables live as long as their database.
        let index = unsafe { &raw const (*table).index };
        RowWait::of(txn, Wanted::new(index, &key), timeout, holder)
    }

    /// As `new`.
    pub(crate) fn of(
        txn: &'t TxnState<C>,
        what: Wanted,
        timeout: Option<Duration>,
        holder: Option<Holder>,
    ) -> Result<Self> {
        let engine = &txn.context().engine;
        let timeout = timeout.unwrap_or(Duration::from_millis(engine.options.lock_wait_ms));
        let began_ns = engine.clock.now_ns();
        // (A wait of 584 years has no end.)
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = began_ns.saturating_add(timeout_ns);
        let (ticket, asides, patience) = (None, 0, BoundedWait::default());
        let line = RowWait { txn, what, began_ns, deadline_ns, holder, ticket, asides, patience };
        if timeout.is_zero() { Err(Error::RowLocked(line.describe())) } else { Ok(line) }
    }

    /// Keeps the turn for the next attempt: the row has been changed since this one began, so that it cannot have it, nor
    /// could any other in the queue. An interactive transaction is not run again, and leaves.
    pub(crate) fn keep(mut self) {
        let txn = self.txn;
        if txn.is_interactive.get() || txn.turn.get().is_some() {
            return;
        }
        if let Some(ticket) = self.ticket.take() {
            txn.waits.update(|n| n.saturating_sub(1));
            C::waits(txn.shared()).renew(ticket, NEVER); // it does not wait while it is run again
            txn.turn.set(Some(ticket));
        }
    }

    /// Goes on with the turn that was kept, if it is for this row.
    fn adopt(&mut self, row: RecordId) {
        let txn = self.txn;
        if self.ticket.is_none()
            && let Some(ticket) = txn.turn.get().filter(|ticket| ticket.row() == row)
        {
            txn.turn.set(None);
            txn.waits.update(|n| n + 1);
            C::waits(txn.shared()).renew(ticket, self.deadline_ns);
            self.ticket = Some(ticket);
        }
    }

    /// Leaves the queue that it is in.
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.txn.waits.update(|n| n.saturating_sub(1));
            C::waits(self.txn.shared()).leave(ticket);
        }
    }

    /// It is in a queue, where its turn will come.
    pub(crate) fn is_queued(&self) -> bool {
        self.ticket.is_some()
    }

    fn now_ns(&self) -> u64 {
        self.txn.context().engine.clock.now_ns()
    }

    /// Joins the queue for a row, or stays there. The row is the holder's; without a holder it is free but for those in the queue. Returns
    /// true if the transaction stands aside instead, and is to be polled again.
    pub(crate) fn wait_for(
        &mut self,
        row: RecordId,
        record: *const Record,
        holder: Option<Holder>,
    ) -> Result<bool> {
        let (shared, place) = (self.txn.shared(), self.txn.place());
        let waits = C::waits(shared);
        self.holder = holder.or(self.holder);
        // A row that was deleted and made anew is another record, with a queue of its own.
        if self.ticket.is_some_and(|ticket| ticket.row() != row) {
            self.leave();
        }
        self.adopt(row);
        let is_held = || {
            let Some(holder) = holder else { return false };
            match holder.is_shared() {
                true => waits.await_shares(),
                false => C::await_end(shared, holder.place),
            }
            // SAFETY: not borrowed outside of single calls.
            let state = unsafe { &*self.txn.scheme.get() };
            // SAFETY: the record was found in this poll, within the epoch.
            let now = unsafe { C::holder(shared, state, record) };
            now.is_some_and(|now| now.id == holder.id && !now.is_ending)
        };
        let by = holder.map(|holder| holder.place);
        // (Also when those that share the lock have come after the wait began.)
        let asks = self.ticket.is_none() || holder.is_some_and(Holder::is_shared);
        if asks && !self.ask_to_sleep(row, record)? {
            self.leave();
            return self.stand_aside(holder.unwrap_or(Holder::SHARERS)); // (without a holder, they have come since)
        }
        let stage = match (self.ticket, by) {
            (Some(ticket), Some(by)) => waits.stay(ticket, by, is_held),
            (Some(_), None) => WaitStage::Turn,
            (None, _) => match waits.join(row, place, by, self.deadline_ns, is_held) {
                Ok(ticket) => {
                    self.ticket = Some(ticket);
                    self.txn.waits.update(|n| n + 1);
                    WaitStage::Waiting
                }
                Err(Refusal::Deadlocked) => WaitStage::Deadlocked,
                Err(Refusal::OutOfMemory) => return Err(self.out_of_memory()),
            },
        };
        self.judge(stage, row).map(|()| false)
    }

    /// Returns true if the scheme lets the transaction sleep until it can have this record, and false if it is to look for a while. Fails if
    /// it may not wait with what it holds: it waits before it is run again.
    fn ask_to_sleep(&self, row: RecordId, record: *const Record) -> Result<bool> {
        let env = self.txn.context().env();
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &mut *self.txn.scheme.get() };
        // SAFETY: the record was found in this poll, within the epoch.
        match unsafe { C::may_queue(env, state, record) } {
            Ok(Waiting::Asleep) => Ok(true),
            Ok(Waiting::Awake) if self.is_patient() => Ok(false),
            Ok(Waiting::Awake | Waiting::Not) => {
                // (Under a scheme with partitions it takes all that it needs before anything else then.)
                let holder = self.holder.filter(|_| !C::has_partitions(self.txn.shared()));
                self.txn.blocker.set(holder.map(|holder| Blocker::new(self.what, row, holder)));
                Err(self.txn.doom(Fault::Abort(Abort::WriteConflict)).into())
            }
            Err(OutOfMemory) => Err(self.out_of_memory()),
        }
    }

    fn out_of_memory(&self) -> Error {
        Fault::OutOfMemory { limit_bytes: self.txn.context().engine.memory.limit_bytes() }.into()
    }

    /// Whether it goes on. On a worker the transaction is parked until `context` is woken; an interactive one waits here.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Result<Wait> {
        let Some(ticket) = self.ticket else { return Ok(Wait::Over) };
        let waits = C::waits(self.txn.shared());
        let mut stage = waits.look(ticket, context.waker());
        if stage == WaitStage::Waiting && self.txn.is_interactive.get() {
            stage = self.block(ticket);
        }
        self.judge(stage, ticket.row())?;
        Ok(if stage == WaitStage::Waiting { Wait::On } else { Wait::Over })
    }

    /// Blocks the thread until the wait is over.
    #[cold]
    fn block(&self, ticket: Ticket) -> WaitStage {
        let (txn, waits) = (self.txn, C::waits(self.txn.shared()));
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(alarm.clone());
        // What was found before is looked for again afterwards; unless a future of this very transaction, which has left
        // an operation half-way, goes on with it.
        let context = (txn.used.get() == 0).then(|| txn.context());
        if let Some(context) = context {
            context.leave();
        }
        let stage = loop {
            match waits.look(ticket, &waker) {
                WaitStage::Waiting => {}
                stage => break stage,
            }
            let left = Duration::from_nanos(self.deadline_ns.saturating_sub(self.now_ns()));
            if alarm.is_late(left) {
                waits.expire(self.deadline_ns);
            }
        };
        if let Some(context) = context {
            context.enter();
        }
        stage
    }

    /// It has not stood aside for long: one that has its row for a moment only would be gone.
    pub(crate) fn is_patient(&self) -> bool {
        self.asides < ASIDES_PATIENT
    }

    /// The holder's commit is under way: a little later the row is free. Returns true if the transaction has been left, to be
    /// polled again.
    pub(crate) fn stand_aside(&mut self, holder: Holder) -> Result<bool> {
        self.holder = Some(holder);
        self.asides = self.asides.saturating_add(1);
        if !self.txn.is_interactive.get() {
            if self.now_ns() >= self.deadline_ns {
                return Err(Error::LockTimeout(self.describe()));
            }
            self.txn.post_step_aside(self.asides.min(ASIDE_ROUNDS_MAX), Activity::Waiting);
            return Ok(true);
        }
        match self.patience.wait(&self.txn.context().engine, || None) {
            true => Ok(false),
            false => Err(self.txn.doom(Fault::Abort(Abort::WaitTimeout)).into()),
        }
    }

    /// The row is this transaction's.
    pub(crate) fn took(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.txn.waits.update(|n| n.saturating_sub(1));
            took(self.txn, ticket);
        }
    }

    fn judge(&self, stage: WaitStage, row: RecordId) -> Result<()> {
        match stage {
            WaitStage::Waiting | WaitStage::Turn => Ok(()),
            WaitStage::Expired => Err(Error::LockTimeout(self.describe())),
            WaitStage::Deadlocked => {
                let blocker = self.holder.map(|holder| Blocker::new(self.what, row, holder));
                self.txn.blocker.set(blocker);
                self.txn.doom(Fault::Abort(Abort::Deadlock));
                Err(Error::Deadlock(self.describe()))
            }
        }
    }

    #[cold]
    fn describe(&self) -> Box<LockedRow> {
        let (shared, now_ns) = (self.txn.shared(), self.now_ns());
        let holder = self.holder.map(|holder| {
            if holder.is_shared() {
                return LockHolder { transaction: 0, kind: HolderKind::Readers, open_for: None };
            }
            let since = C::interactive_since(shared, holder.place);
            LockHolder {
                transaction: holder.id,
                kind: if since.is_some() { HolderKind::Interactive } else { HolderKind::Worker },
                open_for: since.map(|since| Duration::from_nanos(now_ns.saturating_sub(since))),
            }
        });
        let shown = self.what.len.min(self.what.bytes.len());
        Box::new(LockedRow {
            table: match self.what.is_partition() {
                true => "(partitions)".into(),
                false => self.txn.context().engine.name_of_index(self.what.index),
            },
            key: LockedRow::show(&self.what.bytes[..shown], self.what.len),
            holder,
            waited: Duration::from_nanos(now_ns.saturating_sub(self.began_ns)),
        })
    }
}

/// The transaction has the row that it was in the queue for. If others are, it tells them when it ends.
#[cold]
pub(crate) fn took<C: ConcurrencyControl>(txn: &TxnState<C>, ticket: Ticket) {
    let shared = txn.shared();
    if C::waits(shared).took(ticket) {
        C::await_end(shared, txn.place());
    }
}

/// Wakes a thread.
#[derive(Default)]
struct Alarm {
    rings: Mutex<bool>,
    rung: Condvar,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        *lock(&self.rings) = true;
        self.rung.notify_one();
    }
}

impl Alarm {
    /// Waits until it rings, so long at most. Returns true if it has not, and that time has passed.
    fn is_late(&self, at_most: Duration) -> bool {
        let (mut rings, mut is_late) = (lock(&self.rings), false);
        if !*rings {
            (rings, is_late) = wait_timeout(&self.rung, rings, at_most);
        }
        !std::mem::take(&mut *rings) && is_late
    }
}
