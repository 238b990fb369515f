//! Concurrency control decides which transactions may read and write what, and which of them commit.
//! [`ConcurrencyControl`] is the contract. Each scheme that implements it has one file or folder here. The index, the
//! executor and the transaction API are written once over the contract. `txn` calls it.
//!
//! A scheme may wait where a transaction begins, at each access to a record, and where a transaction commits:
//! `begin`, `access` and `prepare` are step machines. A row lock that another transaction has is refused. The caller
//! that wants the lock then joins the row's queue in [`Waits`].
//!
//! Rules that hold for every scheme:
//! - A step never ends while it holds a latch. Therefore no other transaction of the worker, and no operation that
//!   runs in place, can meet a latch whose holder cannot continue.
//! - What an access acquires belongs to the transaction and is released when the transaction ends. Dropping the
//!   access is harmless.
//! - What a scheme keeps per record is a [`Record`]: memory that is never unmapped while the database lives. Only the
//!   scheme interprets it.
//! - A conflict is an [`Abort`], not an error: it is expected, small, and retried by the engine.

mod adaptive;
mod any;
mod common;
mod dl_detect;
mod hstore;
mod locking;
mod mistake;
#[cfg(test)]
#[cfg_attr(not(braid_shuttle), allow(dead_code, reason = "the models of schedules use a part of it"))]
mod models;
mod multi_version;
mod mvcc;
mod no_wait;
mod occ;
mod once;
mod optimistic;
mod serializable;
mod silo;
mod single;
mod snapshot;
mod tictoc;
mod timestamp;
mod wait_die;
mod waits;

pub use adaptive::{Adaptive, AllHot, HotByChance};
pub(crate) use any::PARTITIONS_MAX;
pub use any::{AnyScheme, LabOptions, SchemeName};
pub use common::ranges::{Copies, Stale};
pub use dl_detect::DlDetect;
pub use hstore::HStore;
pub use mistake::{CHOSEN, Mistake, choose};
pub use multi_version::{MultiVersion, PlantedMultiVersion, planted as planted_multi_version};
pub use no_wait::NoWait;
pub use occ::Occ;
pub(crate) use once::once;
pub use serializable::{Planted, Serializable, planted};
pub use silo::Silo;
pub use snapshot::Snapshot;
pub use tictoc::TicToc;
pub use timestamp::TimestampOrdering;
pub use wait_die::WaitDie;
pub(crate) use waits::NEVER;
pub use waits::{Refusal, Ticket, WaitStage, Waits};

/// The table of schemes. Calls the macro `$then` with one line per scheme: its name on command lines, a name for
/// modules, its type, and what it promises. The promises are:
/// - `Snapshot`: snapshot isolation.
/// - `Serial`: committed transactions are strictly serializable.
/// - `Serializable`: both, also for transactions that do not commit.
///
/// `$first`, if given, precedes the lines.
#[doc(hidden)]
#[macro_export]
macro_rules! schemes {
    ($then:ident $($first:tt)?) => {
        $then! {
            $($first;)?
            "serializable" serializable Serializable Serializable,
            "snapshot" snapshot Snapshot Snapshot,
            "dl-detect" dl_detect DlDetect Serial,
            "wait-die" wait_die WaitDie Serial,
            "no-wait" no_wait NoWait Serial,
            "silo" silo Silo Serial,
            "occ" occ Occ Serial,
            "tictoc" tictoc TicToc Serial,
            "timestamp" timestamp TimestampOrdering Serial,
            "hstore" hstore HStore Serial,
            "auto" auto Adaptive Serial,
            "mvcc" mvcc MultiVersion Serial,
        }
    };
}
pub(crate) use schemes;

/// The number of transactions that may be open at once in a database.
pub const OPEN_TRANSACTIONS_MAX: usize = common::registry::TXNS_MAX;

/// The latest time of a commit that can be restored.
pub const RESTORED_AT_MAX: u64 = Timestamp::LAST.0;

use crate::epoch::Local;
use crate::index::{Key, Mark, TableIndex};
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::metrics::ContentionStatistics;
use crate::record::{Record, RecordId, Timestamp};
use crate::suspend::Suspend;
use std::ops::Bound;
use std::sync::Arc;

/// Why a transaction has to abort. It may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Another open transaction has written the record, or a transaction that committed after this one began.
    WriteConflict,
    /// Given what other transactions have committed meanwhile, there may be no serial order that explains what the
    /// transaction has read.
    Unserializable,
    /// The transaction waited for another transaction's commit, which did not end.
    WaitTimeout,
    /// The transaction would have waited for itself, by way of others.
    Deadlock,
    /// The database's memory limit is reached: what the transaction has read cannot be validated. Running it again
    /// does not by itself help.
    OutOfMemory,
    /// The log has refused the commit's record. Running the transaction again does not by itself help.
    Unlogged(Unlogged),
}

/// Why the log has refused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlogged {
    /// The record is longer than the log allows.
    TooLong,
    /// The log has no room for the record.
    Full,
    /// The log has stopped or is closed.
    Stopped,
}

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The transaction has to abort.
    Abort(Abort),
    /// The database's memory limit is reached.
    OutOfMemory,
    /// The row cannot be locked: another open transaction has locked or written it.
    Held(Holder),
}

impl From<OutOfMemory> for Refused {
    fn from(_: OutOfMemory) -> Self {
        Refused::OutOfMemory
    }
}

/// Why a transaction could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// Too many transactions are open already.
    TooMany,
    /// Other transactions for which it has to wait did not end.
    WaitTimeout,
    /// The database's memory limit is reached.
    OutOfMemory,
}

/// What a transaction declares about itself before it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared {
    /// The transaction will not write.
    pub is_read_only: bool,
    /// The transaction has aborted before and is run again.
    pub is_retry: bool,
    /// The transaction restores earlier contents, in a database that no other thread uses.
    pub restores: bool,
}

/// The answer to whether an operation may begin, under a scheme with partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The operation may begin, and the answer holds as long as the transaction is open.
    Granted,
    /// The scheme waits for another transaction: ask again.
    Suspended,
    /// The operation would have to wait, and the caller does not let it.
    Busy,
    /// The transaction has to abort: [`refused`](ConcurrencyControl::refused) says why.
    Refused,
}

/// What the reads of a transaction show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The database as of one moment.
    Snapshot,
    /// Each row as of the moment when it was read. Once `prepare` has decided, it is known whether the reads fit
    /// together.
    Current,
}

/// What a write asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'v> {
    /// Store this value, whether or not there is one.
    Put(&'v [u8]),
    /// Replace the value, which must exist, with this one.
    Update(&'v [u8]),
    /// Store this value where there must be none.
    Insert(&'v [u8]),
    /// Remove the value, which must exist.
    Delete,
    /// Keep the value as it is for this transaction, until the transaction ends.
    Lock,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The change is made. If the transaction aborts, it is undone.
    Done,
    /// There is no value to update or delete. Nothing was changed.
    Absent,
    /// There is a value already. Nothing was inserted.
    Exists,
    /// The record has been removed from the index meanwhile: find the key again.
    Gone,
}

/// What a transaction wants with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To read the value. What the transaction does next may depend on it.
    Read,
    /// The same, and the transaction will most likely change the record later.
    ReadToWrite,
    /// To read the value, on which nothing that the transaction does depends.
    Untracked,
    /// To read the value in order to change the record in the same operation.
    Covered,
    /// To change the record.
    Write,
    /// To lock the record and then read its value.
    Lock,
}

impl Intent {
    /// Returns the intent of a read that the scheme tracks, or does not track.
    #[inline(always)]
    pub fn of_read(is_tracked: bool) -> Intent {
        if is_tracked { Intent::Read } else { Intent::Untracked }
    }

    /// Returns true if the transaction will depend on the value, and no write or lock of its own keeps the value as
    /// it is.
    #[inline(always)]
    pub fn is_read(self) -> bool {
        matches!(self, Intent::Read | Intent::ReadToWrite | Intent::Lock)
    }
}

/// A change that a transaction makes to a row.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'c> {
    /// The record.
    pub target: &'c Target,
    /// The record's new value; `None`: the row is deleted.
    pub value: Option<&'c [u8]>,
}

/// How a transaction may wait for a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The transaction sleeps in the row's queue, and looks at the row again when it is woken.
    Asleep,
    /// The transaction stands aside for some rounds, then looks at the row again. If the row is still locked, it asks
    /// again.
    Awake,
    /// The transaction must not wait: it aborts and is run again.
    Not,
}

impl Waiting {
    /// Returns `Asleep` if the transaction may wait, and `Not` otherwise.
    pub(crate) fn asleep_if(may: bool) -> Waiting {
        if may { Waiting::Asleep } else { Waiting::Not }
    }
}

/// Another transaction that has locked or written a row, or the transactions that share the row's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Names the transaction among all that have been at its place.
    pub id: u64,
    /// The place by which [`Waits`] knows the transaction.
    pub place: u32,
    /// The transaction is committing. It ends soon, so there is no reason to sleep.
    pub is_ending: bool,
}

impl Holder {
    /// The transactions that share a row's lock. The lock counts them and does not say which they are. They are
    /// therefore waited for as one, at a place that no transaction has.
    pub const SHARERS: Holder = Holder { id: 0, place: u32::MAX, is_ending: false };

    /// Returns true for [`SHARERS`](Self::SHARERS).
    #[inline]
    pub fn is_shared(self) -> bool {
        self.place == Holder::SHARERS.place
    }
}

/// The open transactions for which a caller would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTheWay {
    /// None: the caller can continue.
    Nothing,
    /// Transactions of other threads, or workers.
    Others,
    /// Among others, a transaction of the calling thread. It cannot end while the thread waits.
    Own,
}

/// The record that an operation has found, and how to find it again.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The index that maps `key` to `id`. It lives as long as the database.
    pub index: *const TableIndex,
    /// The key. Its bytes live at least as long as the transaction.
    pub key: Key,
    /// The record.
    pub id: RecordId,
}

/// A part of an index that a scan has gone through.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'s> {
    /// The index. It lives as long as the database.
    pub index: *const TableIndex,
    /// The end at which the scan began: the lower one, or the upper one if `is_reverse`.
    pub from: Bound<&'s [u8]>,
    /// How far the scan came.
    pub to: Bound<&'s [u8]>,
    /// The scan went downwards.
    pub is_reverse: bool,
    /// Marks of everything that the scan has read of the index, as it was then. Empty: not known.
    pub marks: &'s [Mark],
    /// The number of rows found there, which may be read one by one.
    pub rows: usize,
    /// How many of the records that the transaction has accessed were accessed before, in the order in which
    /// [`accessed`](ConcurrencyControl::accessed) counts them. Those of these first records that are in the range
    /// have been found there.
    pub known: usize,
}

impl<'s> Scanned<'s> {
    /// Returns the range of the single key of `target`, under which nothing was found.
    fn of_key(target: &'s Target, short: &'s mut [u8; 8]) -> Scanned<'s> {
        let key = target.key.bytes(short);
        let (from, to) = (Bound::Included(key), Bound::Included(key));
        Scanned { index: target.index, from, to, is_reverse: false, marks: &[], rows: 0, known: 0 }
    }
}

/// What a scheme works with: its shared part, its part for this worker, and the worker's epoch and memory.
#[derive(Debug)]
pub struct Env<'e, C: ConcurrencyControl> {
    /// The scheme's shared part: one per database.
    pub shared: &'e C::Shared,
    /// The scheme's part for the worker: one per worker.
    pub worker: &'e C::Worker,
    /// The worker's epoch and memory. The epoch is entered.
    pub local: &'e Local,
}

impl<C: ConcurrencyControl> Clone for Env<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: ConcurrencyControl> Copy for Env<'_, C> {}

/// A scheme of concurrency control. Only this crate implements the trait.
///
/// # Safety
/// `value` returns bytes that stay valid and unchanged until the transaction ends (`abort` or `finish`), whatever
/// else is called in between. A record in which an access has found a value is not used for another key before then.
/// `KEEPS_UNTRACKED` says whether this includes untracked reads.
///
/// `IS_DEFAULT` is true for [`Serializable`] alone.
pub unsafe trait ConcurrencyControl: Sized + Send + Sync + 'static {
    /// True for [`Serializable`] alone. The instances of some functions for this scheme are compiled once, in the engine's library
    /// (see `once!`).
    const IS_DEFAULT: bool = false;
    /// True if the scheme wants to know what its transactions read: `read_range`, and marks of scans.
    const TRACKS_READS: bool;
    /// True if the promise for records in which an access has found a value also holds when the access was an
    /// untracked read.
    const KEEPS_UNTRACKED: bool = true;

    /// The shared part, one per database: clocks, registries.
    type Shared: Send + Sync;
    /// The part of a worker: what it has to clean up. It moves between threads while the worker has left.
    type Worker: Send;
    /// The state of a transaction, one per slot and reused: timestamps, read and write sets. It moves between threads
    /// while idle.
    type Txn: Send;
    /// A suspended access to one record. It is plain data: dropping it cancels the access.
    type Access: Copy + Default + Send;
    /// A suspended decision whether a transaction commits. It is plain data.
    type Prepare: Copy + Default + Send;

    /// Returns true if a planted scheme makes this mistake.
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }
    /// Returns what the reads of a transaction show.
    fn reads(options: LabOptions) -> Reads;
    /// Makes the shared part of a database whose records lie in `records`. Waits are charged to `memory`.
    fn open(records: Arc<Slab>, memory: Arc<Memory>, options: LabOptions) -> Self::Shared;
    /// Returns true if partitions keep transactions apart. If so, operations call `admit` before they look for
    /// anything.
    #[inline(always)]
    fn has_partitions(shared: &Self::Shared) -> bool {
        let _ = shared;
        false
    }
    /// Returns the snapshot timestamp that a transaction would get if it began now.
    fn now(shared: &Self::Shared) -> u64;
    /// Says which open transactions have a snapshot older than `at`. If there is none, no transaction that begins
    /// later has one.
    fn in_the_way(shared: &Self::Shared, at: u64) -> InTheWay;
    /// Advances the clock. If a transaction's snapshot is no less than the returned time, the transaction began after
    /// this call, and has seen what was done before it.
    fn advance(shared: &Self::Shared) -> u64;
    /// Makes a worker's part.
    fn worker(shared: &Self::Shared) -> Self::Worker;
    /// Says that the worker is about to run transactions. Until `leave`, the transactions that it begins are
    /// accounted for.
    fn enter(env: Env<'_, Self>);
    /// Says that the worker pauses. Its open transactions stay open.
    fn leave(env: Env<'_, Self>);
    /// Called now and then between `enter` and `leave`, whatever transactions are open.
    fn refresh(env: Env<'_, Self>);
    /// Cleans up a bounded amount. Returns true if there is more to do.
    fn maintain(env: Env<'_, Self>) -> bool;
    /// Cleans up all that it can when memory is short: this worker's garbage and, where other workers allow it,
    /// theirs. Returns true if there is more, which may become free when other transactions and workers have made
    /// progress.
    fn relieve(env: Env<'_, Self>) -> bool;
    /// Ends a worker. What it has not cleaned up passes to other workers.
    fn retire(shared: &Self::Shared, worker: &mut Self::Worker);

    /// Returns the number of changes after which the worker still has to clean up, including those that other workers
    /// have left.
    fn garbage(shared: &Self::Shared, worker: &Self::Worker) -> usize;

    /// Makes the state in which transactions are opened, one after the other.
    fn txn(shared: &Self::Shared) -> Self::Txn;
    /// Ends this state. No transaction is open in it.
    fn drop_txn(shared: &Self::Shared, txn: &mut Self::Txn);
    /// Returns the queues of transactions that wait for rows.
    fn waits(shared: &Self::Shared) -> &Waits;
    /// Returns where transactions meet, if the scheme keeps account of that.
    fn contention(shared: &Self::Shared) -> ContentionStatistics {
        let _ = shared;
        ContentionStatistics::default()
    }
    /// Returns the place by which `Waits` knows the transactions of `txn`.
    fn place(txn: &Self::Txn) -> u32;
    /// Says that a person or another program drives the transaction since `now_ns` of the engine's clock, and that
    /// the transaction belongs to the calling thread. The transaction is open or about to begin. Before the first
    /// transaction in `txn` begins, the call does nothing.
    fn set_interactive(shared: &Self::Shared, txn: &Self::Txn, now_ns: u64);
    /// Returns since when the transaction at `place` is open, if it is interactive.
    fn interactive_since(shared: &Self::Shared, place: u32) -> Option<u64>;
    /// Asks the transaction at `place` to tell `Waits` when it ends, if it is still the transaction that was a row's
    /// holder. A caller that is going to wait calls this, then looks at the row once more, because the holder may
    /// have ended before the call.
    fn await_end(shared: &Self::Shared, place: u32);
    /// Returns the open transaction that wrote or locked the record last, unless it is this one. Returns
    /// `Holder::SHARERS` if other transactions share the record's lock.
    ///
    /// # Safety
    /// As `access`.
    unsafe fn holder(shared: &Self::Shared, txn: &Self::Txn, record: *const Record) -> Option<Holder>;
    /// Returns true while the transaction that `holder` names is open. `holder` is not `Holder::SHARERS`.
    fn is_open(shared: &Self::Shared, holder: Holder) -> bool;
    /// Returns true if the transaction has written or locked the record.
    ///
    /// # Safety
    /// As `access`.
    unsafe fn holds(txn: &Self::Txn, record: *const Record) -> bool;
    /// Returns true if the transaction has a share of the record's lock.
    ///
    /// # Safety
    /// `access` may be called with the record.
    unsafe fn shares(txn: &Self::Txn, record: *const Record) -> bool {
        let _ = (txn, record);
        false
    }

    /// Opens a transaction; `None`: suspended. Only the first transaction in `txn` may fail, because what it takes is
    /// kept until `drop_txn`.
    fn begin<S: Suspend>(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        declared: Declared,
        s: &mut S,
    ) -> Option<Result<(), NotBegun>>;
    /// Says that the open transaction will not write. If it has done nothing yet, it may be moved to a later
    /// snapshot.
    fn declare_read_only(env: Env<'_, Self>, txn: &mut Self::Txn);
    /// Returns true if the open transaction reads rows as of a snapshot and nothing depends on which rows it reads.
    fn reads_freely(txn: &Self::Txn) -> bool {
        let _ = txn;
        false
    }
    /// Lets the open transaction read a range by copies of its rows as of its snapshot. Returns false if it must not,
    /// because it does not read as of a snapshot alone. If the result is true, the transaction depends on the range
    /// from now on as if it had gone through it.
    fn read_copies(txn: &mut Self::Txn, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        let _ = (txn, scanned, copies);
        false
    }
    /// Identifies what the open transaction sees. Later transactions have no lesser timestamp.
    fn snapshot_timestamp(txn: &Self::Txn) -> u64;
    /// Returns a time: no value that the transaction has seen or found gone was committed later. The transaction has
    /// changed nothing, and may have ended since.
    fn newest_seen(shared: &Self::Shared, txn: &Self::Txn) -> u64;
    /// Lets the open transaction, which is about to commit, see and change rows as they are now, whatever its
    /// snapshot. It commits only if what it has read before is the newest at its commit.
    fn see_newest(txn: &mut Self::Txn) {
        let _ = txn; // a scheme without snapshots always does this
    }

    /// Returns the number of changes made so far.
    fn savepoint(txn: &Self::Txn) -> usize;
    /// Undoes all changes made since `savepoint` returned `at`, the last one first. The transaction continues, and
    /// depends on what these changes have told it about the earlier state.
    ///
    /// With `keeps`, values of these changes that the transaction has read stay until `forget_undone`. Without it,
    /// none of them has been lent. If there is no memory to note the values, some changes are undone and some are
    /// not, and the transaction can only abort.
    fn rollback_to(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        at: usize,
        keeps: bool,
    ) -> Result<(), OutOfMemory>;
    /// Gives back what `rollback_to` has kept. Must be called before the next transaction begins in `txn`, when
    /// nothing is lent any more.
    fn forget_undone(env: Env<'_, Self>, txn: &mut Self::Txn);

    /// Declares that the open transaction will need these partitions, one bit each. A call of `admit` must follow,
    /// which takes them.
    fn declare_partitions(shared: &Self::Shared, txn: &mut Self::Txn, partitions: u64) {
        let _ = (shared, txn, partitions);
    }

    /// Decides whether the transaction may look for what is in these partitions, one bit each (0: in any). Each step
    /// of an operation asks before its first look into an index, and again before a change. Untracked reads do not
    /// ask. With `waits`, the call waits for other transactions: it is a step.
    #[inline(always)]
    fn admit<S: Suspend>(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        need: u64,
        waits: bool,
        s: &mut S,
    ) -> Admission {
        let _ = (env, txn, need, waits, s);
        Admission::Granted
    }

    /// Returns why the transaction was not admitted. The answer stays until the transaction ends: nothing that it
    /// finds from now on counts.
    #[inline(always)]
    fn refused(txn: &Self::Txn) -> Option<Refused> {
        let _ = txn;
        None
    }

    /// Says that the transaction no longer waits for admission. Returns the queue in `waits` in which it can wait
    /// asleep for admission, and the transaction in the way. `holder` says whether that transaction is still in the
    /// way.
    fn awaited(shared: &Self::Shared, txn: &mut Self::Txn) -> Option<(RecordId, Holder)> {
        let _ = (shared, txn);
        None
    }

    /// Decides how the transaction waits for this record, which another transaction has locked. A scheme that lets
    /// transactions wait in accesses prevents cycles that consist of both kinds of wait.
    ///
    /// # Safety
    /// As `access`.
    unsafe fn may_queue(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        let _ = (env, txn, record);
        Ok(Waiting::Asleep)
    }

    /// Steps an access. Returns true if the access has ended; `value` or `write` then gives its result. The record's
    /// line is in the cache.
    ///
    /// # Safety
    /// The index named `record` in this operation, the transaction is open, and the thread is inside an epoch that it
    /// entered before the index was read.
    unsafe fn access<S: Suspend>(
        access: &mut Self::Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        s: &mut S,
    ) -> bool;
    /// Returns the value that an access has found. May be called after the access's epoch.
    ///
    /// # Safety
    /// As `access`, which has returned true for this access. The epoch may have passed.
    unsafe fn value(
        access: &Self::Access,
        record: *const Record,
        intent: Intent,
        txn: &mut Self::Txn,
    ) -> Result<Option<*const [u8]>, Refused>;
    /// Notes that the transaction now knows which keys with values are in this range. If an operation found no value,
    /// the range is a single key. Returns false if the reads of the range's records need not be tracked one by one.
    /// If there is no memory to note the range, or a read, the commit fails if it needs to know.
    fn read_range(txn: &mut Self::Txn, scanned: &Scanned<'_>) -> bool;
    /// Notes that this record was found in the range of the last call of `read_range`, whether or not it is one of
    /// the range's `known` records.
    fn read_in_range(txn: &mut Self::Txn, record: *const Record) {
        let _ = (txn, record);
    }
    /// Returns a time: a walk that the transaction begins may skip keys that are dead as of this time and later; 0:
    /// none. Called by each batch of a scan.
    #[inline(always)]
    fn skips_dead_as_of(txn: &Self::Txn) -> u64 {
        let _ = txn;
        0
    }
    /// Notes that a scan has come to its third batch, and may have met many dead keys at this end of the index.
    /// Called inside an epoch.
    fn note_dead_end(env: Env<'_, Self>, index: &TableIndex, is_reverse: bool) {
        let _ = (env, index, is_reverse);
    }
    /// Returns true if `read_in_range` must be called for the records of the range of the last call of `read_range`:
    /// for every record in which a value was found, and every record that the transaction has written, whether or not
    /// other operations have come between.
    #[inline(always)]
    fn lists_records(txn: &Self::Txn) -> bool {
        let _ = txn;
        false
    }
    /// Returns how many records the transaction has accessed, if what it knows of a range depends on that.
    #[inline(always)]
    fn accessed(txn: &Self::Txn) -> usize {
        let _ = txn;
        0
    }
    /// Notes that the transaction knows there is no value under the key of `target`. `record` is what the index
    /// named, or null.
    #[cold]
    fn read_absent(txn: &mut Self::Txn, record: *const Record, target: &Target) {
        let _ = record;
        Self::read_range(txn, &Scanned::of_key(target, &mut [0; 8]));
    }
    /// Changes or locks an indexed record for which an access for writing has ended. Never waits.
    ///
    /// # Safety
    /// As `access`, and `record` is the record of `target.id`. Alternatively, an access of this transaction has found
    /// a value in `record` before.
    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        record: *const Record,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused>;
    /// Makes a new record's first, uncommitted value in memory that no index names yet.
    ///
    /// # Safety
    /// The caller has the record's memory to itself.
    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        record: *mut Record,
        value: &[u8],
    ) -> Result<(), OutOfMemory>;
    /// Says that the index now names the record made by `create`. The record belongs to the transaction even after an
    /// `Abort`, and goes with it.
    ///
    /// # Safety
    /// `create` was called with `record` in this transaction, and nothing else was done with it.
    unsafe fn created(txn: &mut Self::Txn, record: *const Record, target: &Target) -> Result<(), Abort>;
    /// Says that the index does not name the record of `target`: it never did, or no longer does. The scheme gives
    /// the record's memory back.
    ///
    /// # Safety
    /// `create` was called with `record`, and nothing else was done with it; or it is a restored record that no
    /// transaction has met.
    unsafe fn discard(env: Env<'_, Self>, record: *const Record, target: &Target);

    /// Makes a record's value as of a commit at `at`, at most `RESTORED_AT_MAX`, in memory that no index names yet.
    /// Every transaction sees the value once [`resume`](Self::resume) has been called with `at` or a later time.
    ///
    /// # Safety
    /// The caller has the record's memory to itself.
    unsafe fn restore(
        env: Env<'_, Self>,
        record: *mut Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory>;
    /// Replaces a restored record's value with a value as of a commit at `at`. The old value is gone at once. If two
    /// calls run at the same time, one wins.
    ///
    /// # Safety
    /// The record was made by `restore` and is still in the index. No thread reads its value until the call returns,
    /// and the calling thread is inside an epoch.
    unsafe fn restore_over(
        env: Env<'_, Self>,
        record: *const Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory>;
    /// Makes all transactions from now on begin and commit after `at`, which is at most `RESTORED_AT_MAX`.
    fn resume(shared: &Self::Shared, at: u64);

    /// Decides whether the transaction commits, and as of when; `None`: suspended. After an `Abort` the transaction
    /// is still open. If the transaction has written, the time is its place in the order of all transactions.
    ///
    /// The transaction's changes are appended to the log between `prepare` and `finish`, before other transactions
    /// can see them. A transaction that depends on it therefore comes later in the log.
    fn prepare<S: Suspend>(
        prepare: &mut Self::Prepare,
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        s: &mut S,
    ) -> Option<Result<u64, Abort>>;
    /// Returns the row of another open transaction that this transaction met in its last call of `prepare`, if that
    /// call was refused or is suspended because of it. The key's bytes are valid until the transaction does anything
    /// else.
    fn obstacle(txn: &Self::Txn) -> Option<Target> {
        let _ = txn;
        None
    }
    /// Says that a prepared transaction does not finish now, because the log has no room for its changes. Returns
    /// true if the scheme has taken the decision back because it would otherwise hold latches; `prepare` must then be
    /// called again. If the result is false, the transaction stays prepared.
    fn unprepare(env: Env<'_, Self>, txn: &mut Self::Txn, prepare: &mut Self::Prepare) -> bool {
        let _ = (env, txn, prepare);
        false
    }
    /// Returns true if the transaction has changed something.
    fn has_changes(txn: &Self::Txn) -> bool;
    /// Tells what a prepared transaction changes, each row once.
    ///
    /// # Safety
    /// The transaction is prepared, and the thread is inside an epoch.
    unsafe fn changes(txn: &Self::Txn, note: impl FnMut(Changed<'_>));
    /// Makes the changes of a prepared transaction visible, and ends it.
    fn finish(env: Env<'_, Self>, txn: &mut Self::Txn, at: u64);
    /// Undoes an open transaction, which may be prepared or about to begin, and ends it.
    fn abort(env: Env<'_, Self>, txn: &mut Self::Txn);
}
