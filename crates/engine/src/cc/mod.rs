//! Concurrency control: which transactions may read and write what, and which commit. [`ConcurrencyControl`] is the
//! contract; one scheme per file or folder. The index, the executor and the transaction API are
//! written once over it.
//!
//! Called by `txn`. A scheme may wait where a transaction begins, at each access to a record, and where it commits:
//! `begin`, `access` and `prepare` are step machines. A row lock that cannot be had is refused, and the caller that
//! wants it joins the row's queue in [`Waits`].
//! Rules that hold for every scheme:
//! - A step never ends while it holds a latch; so no other transaction of the worker, and no
//!   operation run in place, can meet a latch whose holder cannot go on.
//! - What an access acquires is the transaction's, and is released when that ends: dropping the access is harmless.
//! - What a scheme keeps per record is a [`Record`], memory that is never unmapped while the
//!   database lives; the scheme alone interprets it.
//! - A conflict is an [`Abort`], not an error: expected, small, and retried by the engine.

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
pub use serializable::{Planted, Serializable, planted};
pub use silo::Silo;
pub use snapshot::Snapshot;
pub use tictoc::TicToc;
pub use timestamp::TimestampOrdering;
pub use wait_die::WaitDie;
pub(crate) use waits::NEVER;
pub use waits::{Refusal, Ticket, WaitStage, Waits};

/// The table of schemes: calls the macro `$then` with a line for each, which has its name on command lines, a name for
/// modules, its type, and what it promises (`Snapshot`: snapshot isolation; `Serial`: committed transactions are strictly
/// serializable; `Serializable`: both, also of those that do not commit). `$first`, if there is one, precedes the lines.
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

/// Transactions that may be open at once in a database.
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

/// Why a transaction has to give way to another. It may be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Another open transaction has written the record, or one that committed after this one began.
    WriteConflict,
    /// Together with what others have committed meanwhile, no serial order might explain what it has read.
    Unserializable,
    /// Another one's commit was waited for, and did not end.
    WaitTimeout,
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

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The transaction has to give way.
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
    /// Too many are open already.
    TooMany,
    /// Others that it has to wait for did not end.
    WaitTimeout,
    /// The database's memory limit is reached.
    OutOfMemory,
}

/// What a transaction declares of itself before it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared {
    /// It will not write.
    pub is_read_only: bool,
    /// It has given way before, and is run again.
    pub is_retry: bool,
    /// It restores what there was, in a database that nobody else uses.
    pub restores: bool,
}

/// Whether an operation may begin, under a scheme with partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may, as long as the transaction is open.
    Granted,
    /// Another transaction is waited for: ask again.
    Suspended,
    /// It would have to wait, and is not to.
    Busy,
    /// The transaction has to give way: [`refused`](ConcurrencyControl::refused) says why.
    Refused,
}

/// What the reads of a transaction show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The database as of one moment.
    Snapshot,
    /// Each row as of the moment when it was read. Whether the reads fit together is known once `prepare` has decided.
    Current,
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
}

/// What a transaction wants with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Its value: what the transaction goes on to do may depend on it.
    Read,
    /// The same, and most likely to change the record later.
    ReadToWrite,
    /// Its value, on which nothing that the transaction does depends.
    Untracked,
    /// Its value, in order to change the record in the same operation.
    Covered,
    /// To change it.
    Write,
    /// To lock it, and then its value.
    Lock,
}

impl Intent {
    /// Of a read that the caller has the scheme track, or not.
    #[inline(always)]
    pub fn of_read(is_tracked: bool) -> Intent {
        if is_tracked { Intent::Read } else { Intent::Untracked }
    }

    /// The transaction goes on to depend on the value, and no write or lock of its own keeps it as it is.
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
    /// Its new value; `None`: the row is deleted.
    pub value: Option<&'c [u8]>,
}

/// How a transaction may wait for a row that another one has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The transaction sleeps in the row's queue, and looks at the row again when it is woken.
    Asleep,
    /// The transaction stands aside for some rounds, then looks at the row again, and asks again if it has to.
    Awake,
    /// The transaction must not wait: it aborts, and is run again.
    Not,
}

impl Waiting {
    /// Returns `Asleep` if the transaction may wait, and `Not` otherwise.
    pub(crate) fn asleep_if(may: bool) -> Waiting {
        if may { Waiting::Asleep } else { Waiting::Not }
    }
}

/// Another transaction that has locked or written a row; or those that share its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Names it among all that have been in its place.
    pub id: u64,
    /// What [`Waits`] knows it by.
    pub place: u32,
    /// It is committing: that is over soon, and is no reason to sleep.
    pub is_ending: bool,
}

impl Holder {
    /// The transactions that share a row's lock. The lock counts them and does not say which they are, so they are waited for as
    /// one, at a place that no transaction has.
    pub const SHARERS: Holder = Holder { id: 0, place: u32::MAX, is_ending: false };

    /// It is [`SHARERS`](Self::SHARERS).
    #[inline]
    pub fn is_shared(self) -> bool {
        self.place == Holder::SHARERS.place
    }
}

/// The open transactions that a caller would have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTheWay {
    /// Nothing: it can go on.
    Nothing,
    /// Transactions of other threads, or workers.
    Others,
    /// A transaction of the calling thread among them, which cannot end while the thread waits.
    Own,
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
    /// Of the records that the transaction has accessed, as [`accessed`](ConcurrencyControl::accessed) counts them, the
    /// first so many: those of them that are in the range have been found there.
    pub known: usize,
}

impl<'s> Scanned<'s> {
    /// The range of the one key of `target`, under which nothing was found.
    fn of_key(target: &'s Target, short: &'s mut [u8; 8]) -> Scanned<'s> {
        let key = target.key.bytes(short);
        let (from, to) = (Bound::Included(key), Bound::Included(key));
        Scanned { index: target.index, from, to, is_reverse: false, marks: &[], rows: 0, known: 0 }
    }
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
/// `value` returns bytes that stay valid and unchanged until the transaction ends (`abort` or `finish`), whatever else
/// is called in between. A record of which an access has found a value is not used for another key before then (but see
/// `KEEPS_UNTRACKED`).
pub unsafe trait ConcurrencyControl: Sized + Send + Sync + 'static {
    /// The scheme wants to know what its transactions read: `read_range`, and marks of scans.
    const TRACKS_READS: bool;
    /// What is said of records of which an access has found a value holds if that was an untracked read, too.
    const KEEPS_UNTRACKED: bool = true;

    /// One per database: clocks, registries.
    type Shared: Send + Sync;
    /// One per worker: what it has to clean up. Moves between threads while it is left.
    type Worker: Send;
    /// One per slot, reused: timestamps, read and write sets. Moves between threads while idle.
    type Txn: Send;
    /// A suspended access to one record. Plain data: dropping it is how it is cancelled.
    type Access: Copy + Default + Send;
    /// A suspended decision whether a transaction commits. Plain data.
    type Prepare: Copy + Default + Send;

    /// Returns true if a planted scheme makes this mistake.
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }
    /// Returns what the reads of a transaction show.
    fn reads(options: LabOptions) -> Reads;
    /// The shared part of a database whose records lie in `records`. Waits are charged to `memory`.
    fn open(records: Arc<Slab>, memory: Arc<Memory>, options: LabOptions) -> Self::Shared;
    /// Returns true if partitions keep transactions apart. Then operations call `admit` before they look for anything.
    #[inline(always)]
    fn has_partitions(shared: &Self::Shared) -> bool {
        let _ = shared;
        false
    }
    /// What a transaction that began now would have for its snapshot's timestamp.
    fn now(shared: &Self::Shared) -> u64;
    /// Says which open transactions have a snapshot older than `at`. (If none has, none that begins later will.)
    fn in_the_way(shared: &Self::Shared, at: u64) -> InTheWay;
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
    /// Cleans up a bounded amount. Returns true if there is more to do.
    fn maintain(env: Env<'_, Self>) -> bool;
    /// Memory is short: cleans up all that can be, of this worker and, as far as they let it, of others. Returns true if there is
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
    /// Where transactions meet, if the scheme keeps that.
    fn contention(shared: &Self::Shared) -> ContentionStatistics {
        let _ = shared;
        ContentionStatistics::default()
    }
    /// What `Waits` knows the transactions of this place by.
    fn place(txn: &Self::Txn) -> u32;
    /// The transaction, which is open or about to begin, is one that a person or another program drives, since `now_ns` of the engine's
    /// clock, and the calling thread's. (Before its first beginning this does nothing.)
    fn set_interactive(shared: &Self::Shared, txn: &Self::Txn, now_ns: u64);
    /// Since when the transaction at `place` is open, if it is interactive.
    fn interactive_since(shared: &Self::Shared, place: u32) -> Option<u64>;
    /// The transaction at `place`, if it is still the one that was a row's holder, will tell `Waits` when it ends. A
    /// caller that is going to wait calls this, then looks at the row once more: the holder may have ended before.
    fn await_end(shared: &Self::Shared, place: u32);
    /// The open transaction that has written or locked the record last, unless it is this one; `Holder::SHARERS` if others share
    /// its lock.
    ///
    /// # Safety
    /// As `access`.
    unsafe fn holder(shared: &Self::Shared, txn: &Self::Txn, record: *const Record) -> Option<Holder>;
    /// Returns true while the transaction that `holder` names is open. `holder` is not `Holder::SHARERS`.
    fn is_open(shared: &Self::Shared, holder: Holder) -> bool;
    /// The transaction has written or locked the record.
    ///
    /// # Safety
    /// As `access`.
    unsafe fn holds(txn: &Self::Txn, record: *const Record) -> bool;
    /// Returns true if the transaction has a share of the record's lock.
    ///
    /// # Safety
    /// The record is one that `access` may be called with.
    unsafe fn shares(txn: &Self::Txn, record: *const Record) -> bool {
        let _ = (txn, record);
        false
    }

    /// Opens a transaction; `None`: suspended. (Only the first one may fail: what it takes is kept until `drop_txn`.)
    fn begin<S: Suspend>(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        declared: Declared,
        s: &mut S,
    ) -> Option<Result<(), NotBegun>>;
    /// The open transaction will not write. If it has done nothing yet, it may be moved to a later snapshot.
    fn declare_read_only(env: Env<'_, Self>, txn: &mut Self::Txn);
    /// Whether the open transaction reads rows as of a snapshot, and nothing depends on which it reads.
    fn reads_freely(txn: &Self::Txn) -> bool {
        let _ = txn;
        false
    }
    /// The open transaction reads a range by copies of its rows that are as of its snapshot. Returns false if it must not, as it does not
    /// read as of a snapshot alone. Otherwise it depends on the range from now on as if it had gone through it.
    fn read_copies(txn: &mut Self::Txn, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        let _ = (txn, scanned, copies);
        false
    }
    /// Identifies what the open transaction sees: later transactions have no lesser ones.
    fn snapshot_timestamp(txn: &Self::Txn) -> u64;
    /// No value that the transaction, which has changed nothing, has seen or found gone was committed later than this;
    /// also if it has ended since.
    fn newest_seen(shared: &Self::Shared, txn: &Self::Txn) -> u64;
    /// From now on the open transaction, which is about to commit, sees and changes rows as they are, whatever its snapshot: it
    /// commits only if what it has read before is the newest at its commit.
    fn see_newest(txn: &mut Self::Txn) {
        let _ = txn; // (where there are no snapshots it does so all the time)
    }

    /// Changes made so far.
    fn savepoint(txn: &Self::Txn) -> usize;
    /// Undoes all changes made since `savepoint` returned `at`, the last one first. The transaction goes on, and depends on what these
    /// changes have told it of what was there before. With `keeps`, values of theirs that it has read stay until
    /// `forget_undone`; else none of them has been lent. If there is no memory to note that, some are undone and some are not: the
    /// transaction can only abort then.
    fn rollback_to(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        at: usize,
        keeps: bool,
    ) -> Result<(), OutOfMemory>;
    /// Gives back what `rollback_to` has kept. To be called before the next transaction begins in `txn`, and nothing is lent any more.
    fn forget_undone(env: Env<'_, Self>, txn: &mut Self::Txn);

    /// The open transaction is going to need these partitions, a bit each. To be followed by `admit`, which takes them.
    fn declare_partitions(shared: &Self::Shared, txn: &mut Self::Txn, partitions: u64) {
        let _ = (shared, txn, partitions);
    }

    /// Whether the transaction may look for what is in these partitions, a bit each (0: in any one). Asked at each step of an operation
    /// before its first look into an index, and again before a change; not for untracked reads. With `waits`, others are
    /// waited for: a step.
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

    /// Why the transaction was not admitted. It stays so until it ends: nothing that it finds from now on counts.
    #[inline(always)]
    fn refused(txn: &Self::Txn) -> Option<Refused> {
        let _ = txn;
        None
    }

    /// The transaction does not wait for admission any longer. The queue in `waits` in which it can wait for it asleep, and the
    /// transaction that is in the way: `holder` says whether it is so still.
    fn awaited(shared: &Self::Shared, txn: &mut Self::Txn) -> Option<(RecordId, Holder)> {
        let _ = (shared, txn);
        None
    }

    /// Decides how the transaction waits for this record, which another one has locked. (A scheme that lets transactions wait in accesses keeps
    /// circles from closing by way of both.)
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

    /// Steps an access; returns true if it has ended, and `value` or `write` tells what came of it. The record's line is in the
    /// cache.
    ///
    /// # Safety
    /// `record` is one that the index named in this operation, the transaction open, the thread inside an epoch
    /// entered before.
    unsafe fn access<S: Suspend>(
        access: &mut Self::Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        s: &mut S,
    ) -> bool;
    /// The value that an access has found. May be called after the access's epoch.
    ///
    /// # Safety
    /// As `access`, which has returned true for this one; but the epoch may have passed.
    unsafe fn value(
        access: &Self::Access,
        record: *const Record,
        intent: Intent,
        txn: &mut Self::Txn,
    ) -> Result<Option<*const [u8]>, Refused>;
    /// The transaction knows now which keys with values there are in this range (of one key, where an
    /// operation found none). Returns false if the reads of its records need not be tracked one by one.
    /// (Where there is no memory to note that, as to note a read, the commit fails if it needs to know.)
    fn read_range(txn: &mut Self::Txn, scanned: &Scanned<'_>) -> bool;
    /// This record has been found in the range that `read_range` was told of last, whether or not it is one of its
    /// `known`.
    fn read_in_range(txn: &mut Self::Txn, record: *const Record) {
        let _ = (txn, record);
    }
    /// A walk that the transaction begins may skip keys that are dead as of this time and later; 0: none. Called by each batch of a scan.
    #[inline(always)]
    fn skips_dead_as_of(txn: &Self::Txn) -> u64 {
        let _ = txn;
        0
    }
    /// A scan has come to its third batch, and may have met many dead keys at this end of the index. Called inside an epoch.
    fn note_dead_end(env: Env<'_, Self>, index: &TableIndex, is_reverse: bool) {
        let _ = (env, index, is_reverse);
    }
    /// Returns true if `read_in_range` has to be called for every record of the range that `read_range` was told of last in which
    /// a value was found, or which the transaction has written, whether or not other operations have come between.
    #[inline(always)]
    fn lists_records(txn: &Self::Txn) -> bool {
        let _ = txn;
        false
    }
    /// How many records the transaction has accessed, if what it knows of a range depends on that.
    #[inline(always)]
    fn accessed(txn: &Self::Txn) -> usize {
        let _ = txn;
        0
    }
    /// The transaction knows now that there is no value under the key of `target`; `record`: what the index named, or null.
    #[cold]
    fn read_absent(txn: &mut Self::Txn, record: *const Record, target: &Target) {
        let _ = record;
        Self::read_range(txn, &Scanned::of_key(target, &mut [0; 8]));
    }
    /// Changes an indexed record to which an access for writing has ended, or locks it. Never waits.
    ///
    /// # Safety
    /// As `access`, with `record` that of `target.id`; or it is one of which an access of this transaction has found a
    /// value before.
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
    /// The record's memory is the caller's alone.
    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        record: *mut Record,
        value: &[u8],
    ) -> Result<(), OutOfMemory>;
    /// The index names the record made by `create` now. After an `Abort` it is the transaction's all the same, and goes with it.
    ///
    /// # Safety
    /// `record` is what `create` was called with in this transaction, and nothing else was done with it.
    unsafe fn created(txn: &mut Self::Txn, record: *const Record, target: &Target) -> Result<(), Abort>;
    /// The index does not name it, after all or any more. The scheme gives the memory of the record of `target` back.
    ///
    /// # Safety
    /// `record` is what `create` was called with, and nothing else was done with it; or that of a restored record
    /// which no transaction has met.
    unsafe fn discard(env: Env<'_, Self>, record: *const Record, target: &Target);

    /// Makes a record's value as of a commit at `at`, at most `RESTORED_AT_MAX`, in memory that no index names
    /// yet. It is there for every transaction once [`resume`](Self::resume) has been called with that or later.
    ///
    /// # Safety
    /// The record's memory is the caller's alone.
    unsafe fn restore(
        env: Env<'_, Self>,
        record: *mut Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory>;
    /// Puts a value as of a commit at `at` in the place of a restored record's value, which is gone at once. Of
    /// two calls at the same time one wins.
    ///
    /// # Safety
    /// The record was made by `restore` and is still in the index; nobody reads its value until
    /// this is done, and the thread is inside an epoch.
    unsafe fn restore_over(
        env: Env<'_, Self>,
        record: *const Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory>;
    /// From now on transactions begin and commit after `at`, which is at most `RESTORED_AT_MAX`.
    fn resume(shared: &Self::Shared, at: u64);

    /// Decides whether the transaction commits, and as of when; `None`: suspended. After an `Abort` the transaction is
    /// still open. The time is the transaction's place in the order of all, if it has written.
    ///
    /// What it has changed is appended to the log between this and `finish`, before others can see it. So a transaction
    /// that depends on it comes later in the log.
    fn prepare<S: Suspend>(
        prepare: &mut Self::Prepare,
        env: Env<'_, Self>,
        txn: &mut Self::Txn,
        s: &mut S,
    ) -> Option<Result<u64, Abort>>;
    /// The row of another open transaction that this one has met in its last call of `prepare`, if that was refused or is suspended for
    /// it. The key's bytes are valid until the transaction does anything else.
    fn obstacle(txn: &Self::Txn) -> Option<Target> {
        let _ = txn;
        None
    }
    /// A prepared transaction does not finish now, as the log has no room for what it has changed. Returns true if the
    /// scheme has taken the decision back, for it would hold latches meanwhile: then `prepare` has to be called again.
    /// Otherwise the transaction stays prepared.
    fn unprepare(env: Env<'_, Self>, txn: &mut Self::Txn, prepare: &mut Self::Prepare) -> bool {
        let _ = (env, txn, prepare);
        false
    }
    /// The transaction has changed something.
    fn has_changes(txn: &Self::Txn) -> bool;
    /// What a prepared transaction changes, each row once.
    ///
    /// # Safety
    /// The transaction is prepared, the thread inside an epoch.
    unsafe fn changes(txn: &Self::Txn, note: impl FnMut(Changed<'_>));
    /// Makes the changes of a transaction that is prepared visible, and ends it.
    fn finish(env: Env<'_, Self>, txn: &mut Self::Txn, at: u64);
    /// Undoes an open transaction, which may be prepared or about to begin, and ends it.
    fn abort(env: Env<'_, Self>, txn: &mut Self::Txn);
}
