//! A transaction's place in the queue for a row, and how the transaction waits there. `cc/waits/` has the queues.
//!
//! A lock operation (`get_for_update.rs`) that finds its row held by another transaction waits in these steps:
//! 1. It makes a [`RowWait`], which has the deadline. With a timeout of 0 it fails with `RowLocked` instead.
//! 2. If the holder's commit is under way, the transaction stands aside (`stand_aside`) and then tries to lock the row
//!    again. An update at the commit does the same for any holder but sharers, up to `ASIDES_PATIENT` times.
//! 3. Otherwise `wait_for` asks the scheme how the transaction may wait (`may_queue`). If the answer is `Awake`, the
//!    transaction stands aside as in step 2, up to `ASIDES_PATIENT` times. If the answer is `Not`, or the patience is
//!    used up, the transaction aborts, and waits for the holder before it is run again.
//! 4. `wait_for` joins the row's queue, or stays in it. A wait that would close a cycle dooms the transaction with
//!    `Deadlock`.
//! 5. `poll` looks at the wait. On a worker the transaction is parked until its waker is called. An interactive
//!    transaction blocks its thread (`block`).
//! 6. When the wait is over, the operation tries to lock the row again.
//!    - If it succeeds, it calls `took`.
//!    - If another transaction holds the row, the operation goes on with step 2.
//!    - If the row was changed after this attempt began, `keep` reserves the turn for the next attempt.
//!    - If the deadline has passed, the operation fails with `LockTimeout`.
//!
//! A transaction that is about to be run again after a conflict waits in the same queue for the transaction that was
//! in the way, before its next attempt begins (`txn/run_to_commit.rs`).

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
    /// The wait goes on. The transaction will be woken.
    On,
    /// The wait is over. The row may be free, so the transaction tries to lock it.
    Over,
}

/// A place in the queue for a row. Dropping it leaves the queue. If it is leaked, the transaction leaves the queue when
/// it ends.
pub(crate) struct RowWait<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    what: Wanted,
    began_ns: u64,
    deadline_ns: u64,
    holder: Option<Holder>,
    ticket: Option<Ticket>,
    /// How many times the transaction has stood aside.
    asides: u32,
    /// How long an interactive transaction has waited in place while it stood aside.
    patience: BoundedWait,
}

/// The most rounds of the worker between two looks at the row. A commit under way takes microseconds, unless it waits
/// for the log.
const ASIDE_ROUNDS_MAX: u32 = 256;
/// How many times a transaction stands aside before it stops being patient: some thousand rounds. After that, an update
/// at the commit joins the queue and sleeps.
const ASIDES_PATIENT: u32 = 64;

impl<C: ConcurrencyControl> Drop for RowWait<'_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<'t, C: ConcurrencyControl> RowWait<'t, C> {
    /// Prepares to join the queue for the row under `key`, for at most `timeout`, or `lock_wait_ms` of the options
    /// without one. Fails with `RowLocked` if the timeout is 0.
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

    /// Does what `new` does, for a row or a partition.
    pub(crate) fn of(
        txn: &'t TxnState<C>,
        what: Wanted,
        timeout: Option<Duration>,
        holder: Option<Holder>,
    ) -> Result<Self> {
        let engine = &txn.context().engine;
        let timeout = timeout.unwrap_or(Duration::from_millis(engine.options.lock_wait_ms));
        let began_ns = engine.clock.now_ns();
        // A timeout of more than 584 years means no deadline.
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = began_ns.saturating_add(timeout_ns);
        let (ticket, asides, patience) = (None, 0, BoundedWait::default());
        let line = RowWait { txn, what, began_ns, deadline_ns, holder, ticket, asides, patience };
        if timeout.is_zero() { Err(Error::RowLocked(line.describe())) } else { Ok(line) }
    }

    /// Keeps the turn for the next attempt. The row was changed after this attempt began, so neither this attempt nor
    /// any other transaction in the queue can have it. An interactive transaction is not run again, so it leaves the
    /// queue.
    pub(crate) fn keep(mut self) {
        let txn = self.txn;
        if txn.is_interactive.get() || txn.turn.get().is_some() {
            return;
        }
        if let Some(ticket) = self.ticket.take() {
            txn.waits.update(|n| n.saturating_sub(1));
            C::waits(txn.shared()).renew(ticket, NEVER); // the transaction does not wait while it is run again
            txn.turn.set(Some(ticket));
        }
    }

    /// Takes over the turn that was kept, if it is for this row.
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

    /// Leaves the queue, if the transaction is in one.
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.txn.waits.update(|n| n.saturating_sub(1));
            C::waits(self.txn.shared()).leave(ticket);
        }
    }

    /// Returns true if the transaction is in a queue, where its turn will come.
    pub(crate) fn is_queued(&self) -> bool {
        self.ticket.is_some()
    }

    fn now_ns(&self) -> u64 {
        self.txn.context().engine.clock.now_ns()
    }

    /// Joins the queue for a row, or stays there. `holder` has the row. Without a holder the row is free, and
    /// only its queue is in the way. Returns true if the transaction stands aside instead; it must then be polled
    /// again.
    pub(crate) fn wait_for(
        &mut self,
        row: RecordId,
        record: *const Record,
        holder: Option<Holder>,
    ) -> Result<bool> {
        let (shared, place) = (self.txn.shared(), self.txn.place());
        let waits = C::waits(shared);
        self.holder = holder.or(self.holder);
        // A row that was deleted and inserted again is another record, with a queue of its own.
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
        // A transaction that is already in the queue asks again if the row is shared, because sharers may have come
        // after its wait began.
        let asks = self.ticket.is_none() || holder.is_some_and(Holder::is_shared);
        if asks && !self.ask_to_sleep(row, record)? {
            self.leave();
            return self.stand_aside(holder.unwrap_or(Holder::SHARERS)); // no holder was found: sharers have come since
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

    /// Returns true if the scheme lets the transaction sleep until it can have this record, and false if the
    /// transaction is to stand aside and look again. Fails if the transaction must not wait with what it holds. It then
    /// waits before it is run again.
    fn ask_to_sleep(&self, row: RecordId, record: *const Record) -> Result<bool> {
        let env = self.txn.context().env();
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &mut *self.txn.scheme.get() };
        // SAFETY: the record was found in this poll, within the epoch.
        match unsafe { C::may_queue(env, state, record) } {
            Ok(Waiting::Asleep) => Ok(true),
            Ok(Waiting::Awake) if self.is_patient() => Ok(false),
            Ok(Waiting::Awake | Waiting::Not) => {
                // Under a scheme with partitions, the next attempt takes all partitions that it needs before anything
                // else, so it needs no blocker.
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

    /// Returns whether the wait goes on. On a worker the transaction is parked until `context` is woken. An interactive
    /// transaction waits here.
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
        // The thread leaves the epoch, because what the operation found is looked for again after the wait. It stays in
        // the epoch if another future of this transaction has an operation in flight, because that operation goes on
        // with what it has found.
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

    /// Returns true if the transaction has stood aside fewer than `ASIDES_PATIENT` times. By then, a holder that needs
    /// the row only for a moment would be gone.
    pub(crate) fn is_patient(&self) -> bool {
        self.asides < ASIDES_PATIENT
    }

    /// Stands aside, because the holder will have the row only a little longer. Returns true if the transaction has
    /// been left and must be polled again.
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

    /// Ends the wait, because this transaction has locked the row.
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

/// Ends the queue entry of a transaction that has locked the row. If other transactions are in the queue, this
/// transaction will tell them when it ends.
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
    /// Waits until the alarm rings, for at most `at_most`. Returns true if that time has passed and the alarm has not
    /// rung.
    fn is_late(&self, at_most: Duration) -> bool {
        let (mut rings, mut is_late) = (lock(&self.rings), false);
        if !*rings {
            (rings, is_late) = wait_timeout(&self.rung, rings, at_most);
        }
        !std::mem::take(&mut *rings) && is_late
    }
}
