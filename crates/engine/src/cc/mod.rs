//! Concurrency control: which transactions may read and write what, and which commit. [`ConcurrencyControl`] is the
//! contract; one scheme per file or folder. The index, the executor and the transaction API are
//! written once over it.
//!
//! Called by `txn`. All of a scheme's waiting is in two step machines, `visit` and `commit`; a lock that cannot be
//! had is refused, and the caller that wants it joins the row's queue in [`Waits`].
//! Rules that hold for every scheme:
//! - A step never ends while it holds a latch; so no other transaction of the worker, and no
//!   operation run in place, can meet a latch whose holder cannot go on.
//! - What a scheme keeps per record is [`Slot`]-sized memory that is never unmapped while the
//!   database lives; the scheme alone interprets it.
//! - A conflict is an [`Abort`], not an error: expected, small, and retried by the engine.

#[cfg(test)]
#[cfg_attr(not(braid_shuttle), allow(dead_code, reason = "the models of schedules use a part of it"))]
mod models;
mod mvcc;
mod serializable;
mod snapshot;
mod waits;

pub use serializable::{Planted, Serializable, planted};
pub use snapshot::Snapshot;
pub use waits::{Refusal, Stage, Ticket, Waits};

/// Transactions that may be open at once in a database.
pub const OPEN_TRANSACTIONS_MAX: usize = mvcc::TXNS_MAX;

/// The latest time of a commit that can be restored.
pub const RESTORED_AT_MAX: u64 = Timestamp::LAST.0;

use crate::epoch::Local;
use crate::index::{Key, Mark, TableIndex};
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::record::{RecordId, Slot, Timestamp};
use crate::suspend::Suspend;
use crate::wal::{Lsn, Writer};
use std::ops::Bound;
use std::sync::Arc;

/// Why a transaction has to give way to another. It may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Another open transaction has written the record, or one that committed after this one began.
    WriteConflict,
    /// Together with what others have committed meanwhile, no serial order might explain what it has read.
    Unserializable,
    /// Another one's commit was waited for, and did not end.
    Waited,
    /// It would have waited for itself, by way of others.
    Deadlock,
    /// The database's memory limit is reached: what it has read cannot be validated. Running it again does not help by
    /// itself.
    OutOfMemory,
    /// The log has refused the commit's record. Running it again does not help by itself.
    Unlogged(Unlogged),
}

/// Why the log has refused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlogged {
    /// It is longer than a record can be.
    TooLong,
    /// There is no room for it.
    Full,
    /// The log has stopped, or is closed.
    Stopped,
}

/// Where a commit has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// In the order of all, if the transaction has written.
    pub at: u64,
    /// Where its record in the log ends; 0 if it has none. All that it depends on lies before.
    pub end_lsn: Lsn,
}

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The transaction has to give way.
    Abort(Abort),
    /// The database's memory limit is reached.
    OutOfMemory,
}

impl From<OutOfMemory> for Refused {
    fn from(_: OutOfMemory) -> Self {
        Refused::OutOfMemory
    }
}

/// Why a transaction could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// Too many are open already.
    TooMany,
    /// The database's memory limit is reached.
    OutOfMemory,
}

/// What a write asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'v> {
    /// This value, whether or not there is one.
    Put(&'v [u8]),
    /// This value in place of the one that must be there.
    Update(&'v [u8]),
    /// This value where there must be none.
    Insert(&'v [u8]),
    /// No value, where there must be one.
    Delete,
    /// The value that is there, kept as it is for this transaction until it ends.
    Lock,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The change is made (and undone if the transaction aborts).
    Done,
    /// There is no value to update or delete; nothing was changed.
    Absent,
    /// There is a value already; nothing was inserted.
    Exists,
    /// The record has been removed from the index meanwhile: find the key again.
    Gone,
    /// It could not be locked, for another open transaction has locked or written it.
    Locked(Holder),
}

/// Another transaction that has locked or written a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Names it among all that have been in its place.
    pub id: u64,
    /// What [`Waits`] knows it by.
    pub place: u32,
    /// It is committing: that is over soon, and is no reason to sleep.
    pub is_ending: bool,
}

/// The record that an operation has found, and how to find it again.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The index that maps `key` to `id`. Alive as long as the database.
    pub index: *const TableIndex,
    /// Its bytes live at least as long as the transaction.
    pub key: Key,
    /// The record.
    pub id: RecordId,
}

/// A part of an index that a scan has gone through.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'s> {
    /// Alive as long as the database.
    pub index: *const TableIndex,
    /// The end that the scan began at: the lower, or where `is_reverse` the upper.
    pub from: Bound<&'s [u8]>,
    /// How far it came.
    pub to: Bound<&'s [u8]>,
    /// Downwards.
    pub is_reverse: bool,
    /// All that the scan has read of the index, as it was then. Empty: not known.
    pub marks: &'s [Mark],
    /// Rows found there, which may be read one by one.
    pub rows: usize,
}

/// What a scheme works with: its shared part, its part of this worker, and the worker's epoch and
/// memory.
#[derive(Debug)]
pub struct Env<'e, C: ConcurrencyControl> {
    /// One per database.
    pub shared: &'e C::Shared,
    /// One per worker.
    pub worker: &'e C::Worker,
    /// The worker's epoch and memory; entered.
    pub local: &'e Local,
    /// Where commits that change something are noted before anybody sees them; none: nowhere.
    pub log: Option<&'e Writer>,
}

impl<C: ConcurrencyControl> Clone for Env<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: ConcurrencyControl> Copy for Env<'_, C> {}

/// A scheme. (A trait that only this crate implements.)
///
/// # Safety
/// `read` returns bytes that stay valid and unchanged until the transaction ends (`abort`, or
/// `commit` having returned `Some`), whatever else is called in between.
pub unsafe trait ConcurrencyControl: Sized + Send + Sync + 'static {
    /// A record of which an open transaction has read a value stays that record until the transaction
    /// ends: neither removed nor its slot used again.
    const READ_PINS_RECORD: bool;
    /// The scheme wants to know what its transactions read: `read_range`, and marks of scans.
    const TRACKS_READS: bool;
    /// True only in tests: nodes of the index lose their stamps when they split.
    const LOSES_STAMPS: bool = false;

    /// One per database: clocks, registries.
    type Shared: Send + Sync;
    /// One per worker: what it has to clean up. Moves between threads while it is left.
    type Worker: Send;
    /// One per slot, reused: timestamps, read and write sets. Moves between threads while idle.
    type Txn: Send;
    /// A suspended visit to one record. Plain data: dropping it is how it is cancelled.
    type Visit: Copy + Default + Send;
    /// A suspended commit. Plain data.
    type Commit: Copy + Default + Send;

    /// The shared part of a database whose records lie in `records`. Waits are charged to `memory`.
    fn open(records: Arc<Slab>, memory: Arc<Memory>) -> Self::Shared;
    /// What a transaction that began now would have for its snapshot's timestamp.
    fn now(shared: &Self::Shared) -> u64;
    /// No transaction that is open or begins later has a lesser snapshot.
    fn oldest(shared: &Self::Shared) -> u64;
    /// Lets time go on. Transactions with a snapshot that is no less than what this returns have begun after the call
    /// did, and have seen what was done before it.
    fn advance(shared: &Self::Shared) -> u64;
    /// A worker's part.
    fn worker(shared: &Self::Shared) -> Self::Worker;
    /// The worker is going to run transactions; until `leave`, those that it begins are accounted for.
    fn enter(env: Env<'_, Self>);
    /// The worker pauses; its open transactions stay open.
    fn leave(env: Env<'_, Self>);
    /// Called now and then between `enter` and `leave`, whatever transactions are open.
    fn refresh(env: Env<'_, Self>);
    /// Cleans up a bounded amount. True: there is more to do.
    fn tend(env: Env<'_, Self>) -> bool;
    /// Memory is short: cleans up all that can be, of this worker and, as far as they let it, of others. True: there is
    /// more, which may become free when other transactions and workers have gone on.
    fn relieve(env: Env<'_, Self>) -> bool;
    /// The worker goes; what it has not cleaned up passes to others.
    fn retire(shared: &Self::Shared, worker: &mut Self::Worker);

    /// Changes that the worker has still to clean up after, those that others have left included.
    fn garbage(shared: &Self::Shared, worker: &Self::Worker) -> usize;

    /// What transactions are opened in, one after the other.
    fn txn(shared: &Self::Shared) -> Self::Txn;
    /// It goes; no transaction is open in it.
    fn drop_txn(shared: &Self::Shared, txn: &mut Self::Txn);
    /// The queues of transactions that wait for rows.
    fn waits(shared: &Self::Shared) -> &Waits;
    /// What `Waits` knows the transactions of this place by.
    fn place(txn: &Self::Txn) -> u32;
    /// The open transaction is one that a person or another program drives, since `now_ns` of the engine's clock.
    fn set_interactive(shared: &Self::Shared, txn: &Self::Txn, now_ns: u64);
    /// Since when the transaction at `place` is open, if it is interactive.
    fn interactive_since(shared: &Self::Shared, place: u32) -> Option<u64>;
    /// The transaction at `place`, if it is still the one that was a row's holder, will tell `Waits` when it ends. A
    /// caller that is going to wait calls this, then looks at the row once more: the holder may have ended before.
    fn await_end(shared: &Self::Shared, place: u32);
    /// The open transaction that has written or locked the record last, unless it is this one.
    ///
    /// # Safety
    /// As `visit`.
    unsafe fn holder(shared: &Self::Shared, txn: &Self::Txn, slot: *const Slot) -> Option<Holder>;
    /// The transaction has written or locked the record.
    ///
    /// # Safety
    /// As `visit`.
    unsafe fn holds(txn: &Self::Txn, slot: *const Slot) -> bool;

    /// Opens a transaction. (Only the first one may fail: what it takes is kept until `drop_txn`.)
    fn begin(env: Env<'_, Self>, txn: &mut Self::Txn) -> Result<(), NotBegun>;
    /// The open transaction will not write. If it has done nothing yet, it may be moved to a later snapshot.
    fn declare_read_only(env: Env<'_, Self>, txn: &mut Self::Txn);
    /// Identifies what the open transaction sees: later transactions have no lesser ones.
    fn snapshot_timestamp(txn: &Self::Txn) -> u64;
    /// No value that the transaction, which has changed nothing, has seen or found gone was committed later than this;
    /// also if it has ended since.
    fn newest_seen(shared: &Self::Shared, txn: &Self::Txn) -> u64;
    /// Changes made so far.
    fn savepoint(txn: &Self::Txn) -> usize;
    /// Undoes all changes made since `savepoint` returned `at`.
    fn rollback_to(env: Env<'_, Self>, txn: &mut Self::Txn, at: usize);

    /// Steps a visit; true: it is at what the transaction sees. The record's line is at hand.
    ///
    /// # Safety
    /// `slot` is a record's that the index named in this operation, the transaction open, the
    /// thread inside an epoch entered before.
    unsafe fn visit<S: Suspend>(
        visit: &mut Self::Visit,
        slot: *const Slot,
        shared: &Self::Shared,
        txn: &Self::Txn,
        s: &mut S,
    ) -> bool;
    /// Begins and ends a visit where nothing but the slot needs to be looked at; false: nothing has happened, and
    /// `visit` has to be called. For a caller that makes many visits, and suspends between all of them or none.
    ///
    /// # Safety
    /// As `visit`.
    unsafe fn visit_at_hand(visit: &mut Self::Visit, slot: *const Slot, txn: &Self::Txn) -> bool;
    /// Lets `read` be called after the epoch, for a visit that has ended by `visit`. (One that has ended by
    /// `visit_at_hand` needs no more.)
    ///
    /// # Safety
    /// As `visit`, which has returned true for this one.
    unsafe fn outlast(visit: &mut Self::Visit, txn: &Self::Txn);
    /// The value at the end of a visit. `tracked`: what the transaction goes on to do may depend on it.
    ///
    /// # Safety
    /// As `visit`, which has returned true for this one; but the epoch may have passed if `outlast` was called in it.
    unsafe fn read(
        visit: &Self::Visit,
        slot: *const Slot,
        txn: &mut Self::Txn,
        tracked: bool,
    ) -> Result<Option<*const [u8]>, Abort>;
    /// The transaction knows now which keys with values there are in this range (of one key, where an
    /// operation found none). False: the reads of its records need not be tracked one by one.
    /// (Where there is no memory to note that, as to note a read, the commit fails if it needs to know.)
    fn read_range(txn: &mut Self::Txn, scanned: &Scanned<'_>) -> bool;
    /// The transaction knows now that there is no value under the key of `target`.
    #[cold]
    fn read_absent(txn: &mut Self::Txn, target: &Target) {
        let mut short = [0; 8];
        let key = target.key.bytes(&mut short);
        let (from, to) = (Bound::Included(key), Bound::Included(key));
        Self::read_range(
            txn,
            &Scanned { index: target.index, from, to, is_reverse: false, marks: &[], rows: 0 },
        );
    }
    /// Changes an indexed record that a visit has brought to the cache.
    ///
    /// # Safety
    /// As `visit`, with `slot` the slot of `target.id`; where reads pin records, it may be one that this
    /// transaction has read a value of instead.
    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        slot: *const Slot,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused>;
    /// Makes a new record's first, uncommitted value in a slot that no index names yet.
    ///
    /// # Safety
    /// The slot is the caller's alone.
    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        slot: *mut Slot,
        value: &[u8],
    ) -> Result<(), OutOfMemory>;
    /// The index names the record made by `create` now.
    ///
    /// # Safety
    /// `slot` is what `create` was called with in this transaction, and nothing else was done with it.
    unsafe fn created(txn: &mut Self::Txn, slot: *const Slot, target: &Target);
    /// The index does not name it, after all or any more. The scheme gives the slot of the record of `target` back.
    ///
    /// # Safety
    /// `slot` is what `create` was called with, and nothing else was done with it; or that of a restored record
    /// which no transaction has met.
    unsafe fn discard(env: Env<'_, Self>, slot: *const Slot, target: &Target);

    /// Makes a record's value as of a commit at `at`, at most `RESTORED_AT_MAX`, in a slot that no index names
    /// yet. It is there for every transaction once [`resume`](Self::resume) has been called with that or later.
    ///
    /// # Safety
    /// The slot is the caller's alone.
    unsafe fn restore(env: Env<'_, Self>, slot: *mut Slot, value: &[u8], at: u64) -> Result<(), OutOfMemory>;
    /// Puts a value as of a commit at `at` in the place of a restored record's value, which is gone at once. Of
    /// two calls at the same time one wins.
    ///
    /// # Safety
    /// The slot is a record's that was made by `restore` and is still in the index; nobody reads its value until
    /// this is done, and the thread is inside an epoch.
    unsafe fn restore_over(
        env: Env<'_, Self>,
        slot: *const Slot,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory>;
    /// From now on transactions begin and commit after `at`, which is at most `RESTORED_AT_MAX`.
    fn resume(shared: &Self::Shared, at: u64);

    /// Steps a commit; `None`: suspended. After an `Abort` the transaction is still open.
    ///
    /// What it has changed is appended to the log before anybody can see it. So a transaction that depends on it comes
    /// later in the log.
    fn commit<S: Suspend>(
        commit: &mut Self::Commit,
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        s: &mut S,
    ) -> Option<Result<Committed, Abort>>;
    /// Undoes an open transaction and ends it.
    fn abort(env: Env<'_, Self>, txn: &mut Self::Txn);
}
