//! A transaction's state: operation slots, and one word that tells the worker
//! what to do before it polls.
//!
//! Invariants:
//! - Bit `i < SLOTS` of `todo` is set only if slot `i` is taken (bit `i` of `used`) and holds an
//!   operation with steps left.
//! - Bit 0 alone is the common case, and the only one that the hot path knows.
//! - Bit `WAKE` of `todo` is set exactly while there are `wakers`.
//! - Bits `LATE` of `todo` and `LATE_TAKEN` of `used` say of the `late` places what others say of the slots.
//! - `COMMIT` is set only while no operation is posted: those whose futures were leaked are cancelled when the closure has ended.
//! - Operations are plain data: releasing a slot cancels one.

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
/// Some of the transaction's futures are polled with wakers of their own, which are to be called when nothing is left.
pub(crate) const WAKE: u32 = 1 << 19;
pub(crate) const BEGIN: u32 = 1 << 20;
/// One of the `late` places has steps left.
pub(crate) const LATE: u32 = 1 << 21;
/// The operations that are left wait for another transaction, and the worker gives its core away between two looks at them.
pub(crate) const YIELDS: u32 = 1 << 22;
/// A bit of `used`: one of the `late` places is taken.
pub(crate) const LATE_TAKEN: u32 = 1 << 30;
/// Of `used`: operations that are in no place have found what is being handed out one by one.
pub(crate) const HANDS_OUT: u32 = 1 << 31;
// Of `marks`:
/// There are updates that were left for the commit.
pub(crate) const UPDATES: u8 = 1;
/// A savepoint has been made.
pub(crate) const SAVEPOINTS: u8 = 2;
/// A transaction that has more operations is long: about a tenth of a millisecond where all memory is in caches.
pub(crate) const OPERATIONS_SHORT_MAX: u32 = 1024;

/// What a place holds.
pub(crate) enum Op<C: ConcurrencyControl> {
    Point(Point<C>),
    /// A point operation that ends where it would visit the record.
    Probe(Point<C>),
    ScanBatch(*mut ScanBatch<C>),
    IndexedWrite(*mut IndexedWrite<C>),
    /// The transaction waits for these partitions.
    Admission(u64),
    /// Nothing but the epoch of what the future itself is walking.
    Hold,
}

/// The inside of [`Txn`](crate::Txn).
///
/// With dozens of transactions open on a worker, their states do not fit into the first-level cache together: so the
/// first line is all that a step of a descent touches, and what each operation and each commit touches comes next.
#[repr(C, align(64))]
pub(crate) struct TxnState<C: ConcurrencyControl> {
    pub(crate) todo: Cell<u32>,
    pub(crate) used: Cell<u32>,
    /// The first of the slots, which is the only one that most transactions use.
    first_slot: UnsafeCell<MaybeUninit<Op<C>>>,
    // What begins, posts and ends operations.
    pub(crate) execution: Cell<Execution>,
    /// Transactions begin and commit through operation slots even if they need not: the worker's policy wants to leave them there.
    pub(crate) pauses: bool,
    pub(crate) read_only: Cell<bool>,
    /// This attempt is not the transaction's first.
    pub(crate) is_retry: Cell<bool>,
    /// Something may have been read of which the scheme has not been told.
    pub(crate) reads_untracked: Cell<bool>,
    /// What has to be done at the end of the attempt: `UPDATES`, `SAVEPOINTS`.
    marks: Cell<u8>,
    /// Operations of this attempt so far; four rows of a scan count as one.
    pub(crate) operations: Cell<u32>,
    pub(crate) shared: *const C::Shared,
    /// Of the worker, or of the operation that a `Transaction` runs now.
    pub(crate) context: Cell<NonNull<Context<C>>>,
    pub(crate) database: u64,
    /// The scheme's part. Borrowed only within single calls.
    pub(crate) scheme: UnsafeCell<C::Txn>,
    pub(crate) recent: RecentReads<C>,
    pub(crate) last_insert: LastInsert,
    other_slots: [UnsafeCell<MaybeUninit<Op<C>>>; SLOTS - 1],
    pub(crate) late: LatePlaces<Op<C>>,
    /// While `YIELDS` is set.
    pub(crate) patience: Cell<BoundedWait>,
    pub(crate) doomed: Cell<Option<Fault>>,
    /// What `read_only` is before a transaction says anything.
    pub(crate) read_only_default: bool,
    /// When the present transaction is acknowledged.
    pub(crate) durability: Cell<Durability>,
    /// What that is if it does not say.
    pub(crate) durability_default: Durability,
    /// Until where the log has to be durable before the output of the transaction that has just ended goes out.
    pub(crate) held_until: Cell<u64>,
    /// Where the record of the last commit ends in the log; 0 if it has none.
    pub(crate) end_lsn: Cell<Lsn>,
    /// Known to be a long transaction, or found to be.
    pub(crate) is_long: Cell<bool>,
    /// Differs between the transaction states of a database. (An address would make runs differ, too.)
    pub(crate) number: u32,
    /// Of the worker's slots, the one that this is beside.
    pub(crate) slot: usize,
    pub(crate) rounds: Cell<u32>,
    /// What the transaction is at while the worker passes by.
    pub(crate) aside: Cell<Activity>,
    pub(crate) commit: Cell<Commit<C>>,
    pub(crate) committed: Cell<Option<Result<(), Abort>>>,
    pub(crate) begun: Cell<Option<Result<(), NotBegun>>>,
    pub(crate) arena: UnsafeCell<Arena>,
    pub(crate) scratch: Cell<Vec<u8>>,
    /// Of scans.
    pub(crate) runs: Pool<ScanBatch<C>>,
    /// A person or another program drives the transaction: it may block its thread.
    pub(crate) is_interactive: Cell<bool>,
    /// Places in line for rows that it has, those of forgotten operations included.
    pub(crate) waits: Cell<u32>,
    /// Its turn for a row that it has had to be run again for: others in line for that wait until this attempt is over.
    pub(crate) turn: Cell<Option<Ticket>>,
    /// Of the slot that this is in; null: of a `Transaction`.
    pub(crate) slot_waker: Cell<*const Waker>,
    /// See `pend`.
    pub(crate) wakers: RefCell<Vec<Waker>>,
    /// What the last conflict was about.
    pub(crate) blocker: Cell<Option<Blocker>>,
    /// Of writes of tables that have indexes.
    pub(crate) upkeeps: Pool<IndexedWrite<C>>,
    /// Times that it has cleaned up because memory was short.
    pub(crate) reliefs: Cell<u32>,
    /// Memory was short, and some is on its way.
    pub(crate) is_relieved: Cell<bool>,
    /// The record of the last write under a key that the index did not have.
    pub(crate) created: Cell<RecordId>,
    /// Updates that are left for the commit.
    pub(crate) at_commits: RefCell<AtCommits>,
    /// They are being made, and rows are locked as they are now.
    pub(crate) is_at_end: Cell<bool>,
    pub(crate) savepoints: RefCell<Savepoints>,
}

/// Up to the access of a point operation in the first slot, all is in the first line.
const _: () = assert!(
    cfg!(any(braid_shuttle, braid_loom))
        || std::mem::offset_of!(TxnState<Serializable>, first_slot)
            + (size_of::<Op<Serializable>>() - size_of::<Point<Serializable>>())
            + std::mem::offset_of!(Point<Serializable>, key)
            <= 64
);

impl<C: ConcurrencyControl> TxnState<C> {
    /// Of slot number `slot` of the worker with this context, or of a `Transaction`.
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
            number: engine.states.fetch_add(1, Ordering::Relaxed), // only difference counts
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

    /// The memory of a slot, or of a place beside them.
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
        // SAFETY: set by the worker that owns the slot, or for the present operation.
        unsafe { self.context.get().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &C::Shared {
        // SAFETY: the engine is held by the worker or the `Transaction`.
        unsafe { &*self.shared }
    }

    /// What comes next is `activity`, if that is being noted.
    #[inline(always)]
    pub(crate) fn enter(&self, activity: Activity) {
        let profile = &self.context().profile;
        if profile.is_timing() {
            profile.enter(activity);
        }
    }

    /// What a future answers while an operation that it has posted is left.
    ///
    /// The worker polls the transaction when nothing is left, without a call of its waker. A combinator that polls a future
    /// only if that one's waker was called, as `FuturesUnordered` does, polls it with a waker of its own: that is called then.
    #[inline(always)]
    pub(crate) fn pend<T>(&self, context: &std::task::Context<'_>) -> Poll<T> {
        if !ptr::eq(context.waker(), self.slot_waker.get()) {
            self.wake_later(context.waker());
        }
        Poll::Pending
    }

    #[cold]
    fn wake_later(&self, waker: &Waker) {
        // SAFETY: null, or the waker of the slot that this is in.
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

    /// Before `todo` is cleared.
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

    /// Counts an operation, by which the transaction may turn out to be long.
    #[inline(always)]
    pub(crate) fn count_operation(&self) {
        // (After 2^32 of them it begins anew, and is long since.)
        self.operations.set(self.operations.get().wrapping_add(1));
        if self.operations.get() > OPERATIONS_SHORT_MAX {
            self.become_long();
        }
    }

    /// Counts what the attempt does.
    #[inline(always)]
    pub(crate) fn count_operations(&self, n: u32) {
        self.operations.set(self.operations.get().saturating_add(n));
    }

    /// It is known to be long, or has turned out to be: others may run between its operations from now on, and it can
    /// be cancelled there.
    #[cold]
    pub(crate) fn become_long(&self) {
        if !self.is_long.get() && self.start_interleaving() {
            self.is_long.set(true);
            self.context().longs.update(|n| n + 1);
        }
    }

    /// Operations go through operation slots from now on, for the rest of the transaction. (Those in place have ended: no
    /// poll leaves one behind.) Returns false if the worker does not step it.
    #[cold]
    pub(crate) fn start_interleaving(&self) -> bool {
        let may = self.context().may_interleave.get();
        if may {
            self.execution.set(Execution::Interleaved);
        }
        may
    }

    /// It does something at length that is no operation. Lets other transactions run first, where it is one of several.
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

    /// The transaction will not write. The scheme, which may move it to a later snapshot, is told so only while no
    /// operation is under way in the present one, and none has lent out what that alone keeps alive.
    pub(crate) fn declare_read_only(&self) {
        self.read_only.set(true);
        if self.used.get() == 0 && !self.reads_untracked.get() {
            // SAFETY: not borrowed outside of single calls.
            C::declare_read_only(self.context().env(), unsafe { &mut *self.scheme.get() });
        }
    }

    /// Whether rows are read as of a snapshot, and what was read is noted nowhere: so it may be known from elsewhere.
    pub(crate) fn reads_freely(&self) -> bool {
        // SAFETY: not borrowed outside of single calls.
        C::reads_freely(unsafe { &*self.scheme.get() })
    }

    /// The transaction reads a range by copies of its rows that are as of its snapshot: see [`ConcurrencyControl::read_copies`].
    pub(crate) fn read_copies(&self, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        // SAFETY: not borrowed outside of single calls.
        C::read_copies(unsafe { &mut *self.scheme.get() }, scanned, copies)
    }

    /// See [`Txn::snapshot_timestamp`](crate::Txn::snapshot_timestamp).
    pub(crate) fn snapshot_timestamp(&self) -> u64 {
        // SAFETY: not borrowed outside of single calls.
        C::snapshot_timestamp(unsafe { &*self.scheme.get() })
    }

    /// Lets the next one in line have the turn that was kept, if one was.
    #[inline(always)]
    pub(crate) fn leave_turn(&self) {
        if let Some(ticket) = self.turn.take() {
            C::waits(self.shared()).leave(ticket);
        }
    }

    /// The closure has ended: cancels the operations whose futures it has leaked. Nothing of them may go on beside the commit, let alone
    /// after it, when the transaction has given up its snapshot and what it takes it would never give back.
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

    /// No place is taken any more.
    #[inline(always)]
    pub(crate) fn forget_places(&self) {
        if self.used.replace(0) & LATE_TAKEN != 0 {
            self.late.clear();
        }
    }

    /// Forgets whatever is posted or lent; operations' futures may have been leaked.
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
            self.turn.set(None); // it was one of them
        }
        // SAFETY: the attempt is over: nothing that it copied is used any more.
        unsafe { (*self.arena.get()).reset() };
    }

    /// There is, or has been, what this mark says.
    pub(crate) fn mark(&self, what: u8) {
        self.marks.set(self.marks.get() | what);
    }

    pub(crate) fn unmark(&self, what: u8) {
        self.marks.set(self.marks.get() & !what);
    }

    /// There are `at_commits`.
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
        // SAFETY: the engine is held by the worker or `Transaction` that this is a part of.
        C::drop_txn(unsafe { &*self.shared }, self.scheme.get_mut());
    }
}
