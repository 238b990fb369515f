//! A transaction's state: operation slots, and one word that tells the worker what to do before it polls.
//!
//! Invariants:
//! - Bit `i < SLOTS` of `todo` is set only if slot `i` is taken (bit `i` of `used`) and holds an operation with steps
//!   left.
//! - Bit 0 alone is the common case, and the only case that the hot path knows.
//! - Bit `WAKE` of `todo` is set exactly while there are `wakers`.
//! - Bit `LATE` of `todo` and bit `LATE_TAKEN` of `used` say of the `late` places what the other bits say of the slots.
//! - `COMMIT` is set only while no operation is posted. Operations whose futures were leaked are cancelled when the
//!   closure has ended.
//! - Operations are plain data: releasing a slot cancels its operation.

use super::at_commit::AtCommits;
use super::blocker::Blocker;
use super::bounded_wait::BoundedWait;
use super::commit::Commit;
use super::indexed_write::IndexedWrite;
use super::last_insert::LastInsert;
use super::late::{LatePlaces, SLOTS};
use super::point::Point;
use super::pool::Pool;
use super::recent_reads::RecentReads;
use super::savepoints::Savepoints;
use super::scan_batch::ScanBatch;
use crate::cc::{Abort, ConcurrencyControl, Copies, NotBegun, Scanned, Serializable, Ticket};
use crate::error::Result;
use crate::exec::Execution;
use crate::kernel::Context;
use crate::memory::Arena;
use crate::options::Durability;
use crate::profile::Activity;
use crate::record::RecordId;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::table::Fault;
use crate::wal::Lsn;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::{Poll, Waker};

pub(crate) const SLOTS_MASK: u32 = (1 << SLOTS) - 1;
// Bits of `todo` beyond the places:
pub(crate) const COMMIT: u32 = 1 << 16;
pub(crate) const STEP_ASIDE: u32 = 1 << 17;
pub(crate) const VACANT: u32 = 1 << 18;
/// Some of the transaction's futures are polled with wakers of their own. These are called when nothing is left.
pub(crate) const WAKE: u32 = 1 << 19;
pub(crate) const BEGIN: u32 = 1 << 20;
/// One of the `late` places has steps left.
pub(crate) const LATE: u32 = 1 << 21;
/// The operations that are left wait for another transaction, and the worker gives its core away between two looks at
/// them.
pub(crate) const YIELDS: u32 = 1 << 22;
/// A bit of `used`: one of the `late` places is taken.
pub(crate) const LATE_TAKEN: u32 = 1 << 30;
/// A bit of `used`: what operations in no place have found is being handed out one by one.
pub(crate) const HANDS_OUT: u32 = 1 << 31;
// Bits of `marks`:
/// There are updates that were left for the commit.
pub(crate) const UPDATES: u8 = 1;
/// A savepoint has been made.
pub(crate) const SAVEPOINTS: u8 = 2;
/// A transaction with more operations is long. This number takes about a tenth of a millisecond if all memory is in
/// caches.
pub(crate) const OPERATIONS_SHORT_MAX: u32 = 1024;

/// What a place holds.
pub(crate) enum Op<C: ConcurrencyControl> {
    Point(Point<C>),
    /// A point operation that ends before it visits the record.
    Probe(Point<C>),
    ScanBatch(*mut ScanBatch<C>),
    IndexedWrite(*mut IndexedWrite<C>),
    /// The transaction waits for these partitions.
    Admission(u64),
    /// The place only holds the epoch of what the future itself walks.
    Hold,
}

/// The inside of [`Txn`](crate::Txn).
///
/// With dozens of transactions open on a worker, their states do not fit into the first-level cache together. The first
/// line therefore has all that a step of a descent touches. What each operation and each commit touches comes next.
#[repr(C, align(64))]
pub(crate) struct TxnState<C: ConcurrencyControl> {
    pub(crate) todo: Cell<u32>,
    pub(crate) used: Cell<u32>,
    /// The first of the slots. Most transactions use no other.
    first_slot: UnsafeCell<MaybeUninit<Op<C>>>,
    // What begins, posts and ends operations.
    pub(crate) execution: Cell<Execution>,
    /// Transactions begin and commit through operation slots even if they do not have to wait, because the worker's
    /// policy wants to leave them there.
    pub(crate) pauses: bool,
    pub(crate) read_only: Cell<bool>,
    /// This attempt is not the transaction's first.
    pub(crate) is_retry: Cell<bool>,
    /// The transaction may have read something that the scheme was not told of.
    pub(crate) reads_untracked: Cell<bool>,
    /// What has to be done at the end of the attempt: `UPDATES`, `SAVEPOINTS`.
    marks: Cell<u8>,
    /// Operations of this attempt so far; four rows of a scan count as one.
    pub(crate) operations: Cell<u32>,
    pub(crate) shared: *const C::Shared,
    /// The context of the worker, or of the operation that a `Transaction` runs now.
    pub(crate) context: Cell<NonNull<Context<C>>>,
    pub(crate) database: u64,
    /// The scheme's part. Borrowed only within single calls.
    pub(crate) scheme: UnsafeCell<C::Txn>,
    pub(crate) recent: RecentReads<C>,
    pub(crate) last_insert: LastInsert,
    other_slots: [UnsafeCell<MaybeUninit<Op<C>>>; SLOTS - 1],
    pub(crate) late: LatePlaces<Op<C>>,
    /// The wait of a worker that gives its core away, while `YIELDS` is set.
    pub(crate) patience: Cell<BoundedWait>,
    pub(crate) doomed: Cell<Option<Fault>>,
    /// The value of `read_only` at the beginning of a transaction.
    pub(crate) read_only_default: bool,
    /// When the present transaction is acknowledged.
    pub(crate) durability: Cell<Durability>,
    /// The value of `durability` at the beginning of a transaction.
    pub(crate) durability_default: Durability,
    /// The position up to which the log must be durable before the output of the transaction that has just ended goes
    /// out.
    pub(crate) held_until: Cell<u64>,
    /// The end of the last commit's record in the log. 0 if it has no record.
    pub(crate) end_lsn: Cell<Lsn>,
    /// The transaction is known, or was found, to be long.
    pub(crate) is_long: Cell<bool>,
    /// A number that differs between the transaction states of a database. Unlike an address, it is the same in each
    /// run.
    pub(crate) number: u32,
    /// The number of the worker's slot that has this state.
    pub(crate) slot: usize,
    pub(crate) rounds: Cell<u32>,
    /// The transaction's activity while the worker passes by.
    pub(crate) aside: Cell<Activity>,
    pub(crate) commit: Cell<Commit<C>>,
    pub(crate) committed: Cell<Option<Result<(), Abort>>>,
    pub(crate) begun: Cell<Option<Result<(), NotBegun>>>,
    pub(crate) arena: UnsafeCell<Arena>,
    pub(crate) scratch: Cell<Vec<u8>>,
    /// The machines of scans.
    pub(crate) runs: Pool<ScanBatch<C>>,
    /// A person or another program drives the transaction, so it may block its thread.
    pub(crate) is_interactive: Cell<bool>,
    /// The number of queues for rows that the transaction is in, including those of leaked operations.
    pub(crate) waits: Cell<u32>,
    /// The transaction's turn for a row for which it was run again. Other transactions in the queue wait until this
    /// attempt is over.
    pub(crate) turn: Cell<Option<Ticket>>,
    /// The waker of the slot that has this state. Null in a `Transaction`.
    pub(crate) slot_waker: Cell<*const Waker>,
    /// See `pend`.
    pub(crate) wakers: RefCell<Vec<Waker>>,
    /// What the last conflict was about.
    pub(crate) blocker: Cell<Option<Blocker>>,
    /// The machines of writes of tables that have indexes.
    pub(crate) upkeeps: Pool<IndexedWrite<C>>,
    /// How many times the transaction has cleaned up because memory was short.
    pub(crate) reliefs: Cell<u32>,
    /// Memory was short, and some will be given back soon.
    pub(crate) is_relieved: Cell<bool>,
    /// The record of the last write under a key that the index did not have.
    pub(crate) created: Cell<RecordId>,
    /// Updates that are left for the commit.
    pub(crate) at_commits: RefCell<AtCommits>,
    /// The updates in `at_commits` are being made, and rows are locked as they are now.
    pub(crate) is_at_end: Cell<bool>,
    pub(crate) savepoints: RefCell<Savepoints>,
}

/// Everything before the `key` of a point operation in the first slot is in the first line.
const _: () = assert!(
    cfg!(any(braid_shuttle, braid_loom))
        || std::mem::offset_of!(TxnState<Serializable>, first_slot)
            + (size_of::<Op<Serializable>>() - size_of::<Point<Serializable>>())
            + std::mem::offset_of!(Point<Serializable>, key)
            <= 64
);

impl<C: ConcurrencyControl> TxnState<C> {
    /// Makes the state of slot number `slot` of the worker with this context, or of a `Transaction`.
    pub(crate) fn new(context: NonNull<Context<C>>, slot: usize, execution: Execution, pauses: bool) -> Self {
        // SAFETY: a worker's context outlives its slots; a `Transaction`'s is lent for this call.
        let engine = unsafe { &context.as_ref().engine };
        TxnState {
            todo: Cell::new(VACANT),
            used: Cell::new(0),
            execution: Cell::new(execution),
            pauses,
            recent: RecentReads::default(),
            last_insert: LastInsert::default(),
            database: engine.id,
            shared: &raw const engine.shared,
            scheme: UnsafeCell::new(C::txn(&engine.shared)),
            first_slot: UnsafeCell::new(MaybeUninit::uninit()),
            other_slots: [const { UnsafeCell::new(MaybeUninit::uninit()) }; SLOTS - 1],
            late: LatePlaces::default(),
            patience: Cell::default(),
            context: Cell::new(context),
            doomed: Cell::new(None),
            read_only: Cell::new(engine.is_read_only()),
            read_only_default: engine.is_read_only(),
            reads_untracked: Cell::new(false),
            marks: Cell::new(0),
            durability: Cell::new(engine.options.durability),
            durability_default: engine.options.durability,
            held_until: Cell::new(0),
            end_lsn: Cell::new(Lsn(0)),
            operations: Cell::new(0),
            is_long: Cell::new(false),
            number: engine.states.fetch_add(1, Ordering::Relaxed), // only distinctness counts
            slot,
            rounds: Cell::new(0),
            aside: Cell::new(Activity::BackOff),
            commit: Cell::default(),
            committed: Cell::new(None),
            begun: Cell::new(None),
            arena: UnsafeCell::new(Arena::new(&engine.memory)),
            scratch: Cell::default(),
            runs: Pool::default(),
            is_retry: Cell::new(false),
            is_interactive: Cell::new(false),
            waits: Cell::new(0),
            slot_waker: Cell::new(ptr::null()),
            wakers: RefCell::default(),
            turn: Cell::new(None),
            blocker: Cell::new(None),
            upkeeps: Pool::default(),
            reliefs: Cell::new(0),
            is_relieved: Cell::new(false),
            created: Cell::new(RecordId(0)),
            at_commits: RefCell::new(AtCommits::new(&engine.memory)),
            is_at_end: Cell::new(false),
            savepoints: RefCell::new(Savepoints::new(&engine.memory)),
        }
    }

    /// Returns the memory of a slot, or of a place beside the slots.
    #[inline(always)]
    pub(crate) fn slot_at(&self, place: usize) -> *mut MaybeUninit<Op<C>> {
        match place.checked_sub(1) {
            None => self.first_slot.get(),
            Some(other) => match self.other_slots.get(other) {
                Some(slot) => slot.get(),
                None => self.late.op(place).cast(),
            },
        }
    }

    #[inline(always)]
    pub(crate) fn context(&self) -> &Context<C> {
        // SAFETY: the worker that owns the slot sets it, or it is set for the present operation.
        unsafe { self.context.get().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &C::Shared {
        // SAFETY: the engine is held by the worker or the `Transaction`.
        unsafe { &*self.shared }
    }

    /// Notes that `activity` comes next, if activities are being noted.
    #[inline(always)]
    pub(crate) fn enter(&self, activity: Activity) {
        let profile = &self.context().profile;
        if profile.is_timing() {
            profile.enter(activity);
        }
    }

    /// Returns what a future answers while an operation that it has posted is left.
    ///
    /// The worker polls the transaction when nothing is left, without a call of its waker. A combinator that polls a
    /// future only if the future's waker was called, like `FuturesUnordered`, polls it with a waker of its own. This
    /// waker is called then.
    #[inline(always)]
    pub(crate) fn pend<T>(&self, context: &std::task::Context<'_>) -> Poll<T> {
        if !ptr::eq(context.waker(), self.slot_waker.get()) {
            self.wake_later(context.waker());
        }
        Poll::Pending
    }

    #[cold]
    fn wake_later(&self, waker: &Waker) {
        // SAFETY: null, or the waker of the slot that has this state.
        let Some(slot_waker) = (unsafe { self.slot_waker.get().as_ref() }) else { return };
        if slot_waker.will_wake(waker) {
            return;
        }
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.todo.set(self.todo.get() | WAKE);
    }

    /// Drops the wakers, before `todo` is cleared.
    #[inline(always)]
    pub(crate) fn forget_wakers(&self) {
        if self.todo.get() & WAKE != 0 {
            self.drop_wakers();
        }
    }

    #[cold]
    fn drop_wakers(&self) {
        drop(self.wakers.take());
    }

    /// Counts an operation. With it the transaction may turn out to be long.
    #[inline(always)]
    pub(crate) fn count_operation(&self) {
        // The count wraps after 2^32 operations. By then the transaction is long.
        self.operations.set(self.operations.get().wrapping_add(1));
        if self.operations.get() > OPERATIONS_SHORT_MAX {
            self.become_long();
        }
    }

    /// Adds `n` to the operations of the attempt.
    #[inline(always)]
    pub(crate) fn count_operations(&self, n: u32) {
        self.operations.set(self.operations.get().saturating_add(n));
    }

    /// Makes the transaction a long one, because it is known or has turned out to be long. From now on other
    /// transactions may run between its operations, and it can be cancelled there.
    #[cold]
    pub(crate) fn become_long(&self) {
        if !self.is_long.get() && self.start_interleaving() {
            self.is_long.set(true);
            self.context().longs.update(|n| n + 1);
        }
    }

    /// Lets operations go through operation slots from now on, for the rest of the transaction. Operations in place
    /// have ended, because no poll leaves one behind. Returns false if the worker does not step the transaction.
    #[cold]
    pub(crate) fn start_interleaving(&self) -> bool {
        let may = self.context().may_interleave.get();
        if may {
            self.execution.set(Execution::Interleaved);
        }
        may
    }

    /// Lets other transactions run first, if the transaction is one of several. It is about to do something long that
    /// is no operation.
    pub(crate) async fn let_others_run(&self) {
        self.become_long();
        let mut has_waited = self.execution.get() != Execution::Interleaved;
        poll_fn(|context| match std::mem::replace(&mut has_waited, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    /// Notes that the transaction will not write. The scheme may move the transaction to a later snapshot. It is
    /// therefore told only if no operation is under way in the present snapshot, and no operation has lent out a value
    /// that this snapshot alone keeps alive.
    pub(crate) fn declare_read_only(&self) {
        self.read_only.set(true);
        if self.used.get() == 0 && !self.reads_untracked.get() {
            // SAFETY: not borrowed outside of single calls.
            C::declare_read_only(self.context().env(), unsafe { &mut *self.scheme.get() });
        }
    }

    /// Returns true if rows are read as of a snapshot and reads are noted nowhere. What is read may then be taken from
    /// elsewhere.
    pub(crate) fn reads_freely(&self) -> bool {
        // SAFETY: not borrowed outside of single calls.
        C::reads_freely(unsafe { &*self.scheme.get() })
    }

    /// Lets the transaction read a range by copies of its rows as of its snapshot: see
    /// [`ConcurrencyControl::read_copies`].
    pub(crate) fn read_copies(&self, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        // SAFETY: not borrowed outside of single calls.
        C::read_copies(unsafe { &mut *self.scheme.get() }, scanned, copies)
    }

    /// See [`Txn::snapshot_timestamp`](crate::Txn::snapshot_timestamp).
    pub(crate) fn snapshot_timestamp(&self) -> u64 {
        // SAFETY: not borrowed outside of single calls.
        C::snapshot_timestamp(unsafe { &*self.scheme.get() })
    }

    /// Passes the turn that was kept, if any, to the next transaction in the queue.
    #[inline(always)]
    pub(crate) fn leave_turn(&self) {
        if let Some(ticket) = self.turn.take() {
            C::waits(self.shared()).leave(ticket);
        }
    }

    /// Cancels the operations whose futures the closure, which has ended, has leaked. No such operation may go on
    /// beside the commit. After the commit it would be worse: the transaction has given up its snapshot then, and would
    /// never give back what the operation takes.
    #[inline(always)]
    pub(crate) fn end_operations(&self) {
        if self.todo.get() | self.used.get() != 0 {
            self.cancel_operations();
        }
    }

    /// Cancels what is posted. The futures are gone, or leaked and never polled again.
    #[cold]
    pub(crate) fn cancel_operations(&self) {
        self.forget_wakers();
        self.todo.set(0);
        self.forget_places();
    }

    /// Makes all places free.
    #[inline(always)]
    pub(crate) fn forget_places(&self) {
        if self.used.replace(0) & LATE_TAKEN != 0 {
            self.late.clear();
        }
    }

    /// Forgets whatever is posted or lent. The futures of operations may have been leaked.
    pub(crate) fn clear(&self) {
        self.forget_wakers();
        self.todo.set(0);
        self.forget_places();
        self.recent.clear();
        self.last_insert.clear();
        self.doomed.set(None);
        self.read_only.set(self.read_only_default);
        self.reads_untracked.set(false);
        self.durability.set(self.durability_default);
        self.committed.set(None);
        if self.marks.get() != 0 {
            self.clear_marked();
        }
        if self.waits.take() != 0 {
            // SAFETY: not borrowed outside of single calls.
            C::waits(self.shared()).leave_all(C::place(unsafe { &*self.scheme.get() }));
            self.turn.set(None); // its ticket was one of these
        }
        // SAFETY: the attempt is over, so nothing that it copied is used any more.
        unsafe { (*self.arena.get()).reset() };
    }

    /// Sets a mark: there is, or has been, what it says.
    pub(crate) fn mark(&self, what: u8) {
        self.marks.set(self.marks.get() | what);
    }

    pub(crate) fn unmark(&self, what: u8) {
        self.marks.set(self.marks.get() & !what);
    }

    /// Returns true if there are updates in `at_commits`.
    #[inline(always)]
    pub(crate) fn has_at_commits(&self) -> bool {
        self.marks.get() & UPDATES != 0
    }

    #[cold]
    fn clear_marked(&self) {
        self.marks.set(0);
        self.is_at_end.set(false);
        self.at_commits.borrow_mut().clear();
        self.savepoints.borrow_mut().end();
        // SAFETY: not borrowed outside of single calls.
        C::forget_undone(self.context().env(), unsafe { &mut *self.scheme.get() });
    }
}

impl<C: ConcurrencyControl> Drop for TxnState<C> {
    fn drop(&mut self) {
        // SAFETY: the worker or the `Transaction` that this is a part of holds the engine.
        C::drop_txn(unsafe { &*self.shared }, self.scheme.get_mut());
    }
}
