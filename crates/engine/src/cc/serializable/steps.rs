//! The steps of the serial safety net: what a transaction notes of its reads, and how it finds its place in the
//! order. Tests replace single steps by another form, to show that the checks notice it (`planted.rs`). Such steps
//! are called by way of [`Rules`].

use super::reader_log::{Readers, id_of};
use super::reads::{ReadRecord, ReadSet};
use super::{SerialSafetyNet, lock};
use crate::cc::mvcc::{Mvcc, Overwritten, Txn};
use crate::cc::{Abort, Copies, Env, Mistake, Scanned};
use crate::index::Index;
use crate::memory::OutOfMemory;
use crate::record::{Slot, Timestamp, VersionKind};
use crate::sync::Arc;
use crate::sync::atomic::{Ordering, fence};

pub(super) type Scope<'e, R> = Env<'e, Mvcc<SerialSafetyNet<R>>>;
pub(super) type Open<R> = Txn<SerialSafetyNet<R>>;

/// The place of a committing transaction in the serial order, as known so far.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// When the transaction commits. If it has not written, this is the time just after the last commit.
    pub(super) at: Timestamp,
    /// How early the transaction has to be ordered.
    pub(super) sstamp: Timestamp,
    /// The number of reads that have been validated.
    validated: usize,
}

impl Default for Order {
    fn default() -> Self {
        Order { at: Timestamp::NEVER, sstamp: Timestamp::NEVER, validated: 0 }
    }
}

/// Commits a transaction that has read nothing.
#[inline(always)]
pub(super) fn commit_blindly<R: Rules>(env: Scope<'_, R>, txn: &mut Open<R>) -> Timestamp {
    if txn.writes().is_empty() {
        return txn.begin();
    }
    env.shared.draw(txn)
}

/// Returns true if a transaction that has only read can be ordered at its snapshot, because no timestamp has been
/// drawn since. There is nothing to validate, and the transaction is announced as declared readers are.
#[inline(always)]
pub(super) fn is_undisturbed<R: Rules>(env: Scope<'_, R>, txn: &Open<R>) -> bool {
    let now = || env.shared.now();
    now() == txn.begin() && env.worker.tracker.open_untracked(now) == txn.begin()
}

impl Order {
    /// Enters what the transaction has read into the worker's log.
    #[inline(always)]
    pub(super) fn enter<R: Rules>(env: Scope<'_, R>, txn: &mut Open<R>) {
        let reads = &mut txn.reads;
        let ids = reads.records.iter().map(|read| id_of(read.slot));
        reads.entry = Some(env.worker.tracker.enter(ids, reads.has_ranges(), reads.is_coarse));
        reads.is_stamped = false;
    }

    /// Draws the commit timestamp, after the transaction has entered the log. A transaction that draws a later
    /// timestamp finds it there, and it finds the versions of every transaction that has drawn an earlier one: of two
    /// draws, the later acquires what the earlier has released. A transaction that only reads the clock needs a fence
    /// to be found.
    #[inline(always)]
    pub(super) fn draw<R: Rules>(&mut self, env: Scope<'_, R>, txn: &Open<R>) {
        if txn.writes().is_empty() {
            fence(Ordering::SeqCst); // pairs with the fence in `last_in_logs`
            self.at = env.shared.now();
        } else {
            self.at = env.shared.draw(txn);
            self.sstamp = self.at;
        }
        debug_assert!(self.at >= txn.begin());
    }

    /// Tells the index when the transaction commits. Returns false if the transaction has to abort.
    #[inline(always)]
    pub(super) fn publish_ranges<R: Rules>(
        &self,
        env: Scope<'_, R>,
        txn: &mut Open<R>,
    ) -> Result<bool, OutOfMemory> {
        if !txn.reads.has_ranges() {
            return Ok(true);
        }
        let begin = txn.begin();
        // SAFETY: a commit is stepped inside an epoch.
        unsafe { txn.reads.publish_ranges(begin, self.at, |id| env.shared.changed_since(begin, id)) }
    }

    /// Tells the log when the transaction commits. Returns false if the transaction has to abort.
    #[inline(always)]
    pub(super) fn publish_reads<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> bool {
        let entry = txn.reads.entry.expect("entered before");
        let kept = env.worker.tracker.stamp(entry, self.at);
        txn.reads.is_stamped = true;
        kept
    }

    /// Finds out how early the transaction has to be ordered. Returns false if another transaction has to decide
    /// first.
    #[inline(always)]
    pub(super) fn validate<R: Rules>(&mut self, env: Scope<'_, R>, txn: &Open<R>) -> bool {
        if self.at == txn.begin() {
            return true; // no transaction has committed since this one began
        }
        for read in &txn.reads.records[self.validated..] {
            match R::overwriter(self, env, txn, read) {
                Overwritten::No => {}
                Overwritten::Wait => return false,
                Overwritten::By(stamp) => self.sstamp = self.sstamp.min(stamp.reach()),
            }
            self.validated += 1;
        }
        // After all that the transaction has read was looked at. A key that was removed before, and was not found, is
        // noted by now.
        if !txn.writes().is_empty() && txn.reads.has_ranges() && env.shared.has_departed_since(txn.begin()) {
            self.follow_departed(txn);
        }
        true
    }

    /// Orders the transaction as early as it might have to be, if a key may be gone that the transaction has not
    /// found and that others wrote after its snapshot. This is just after the snapshot. No key is gone that would
    /// order it earlier.
    #[cold]
    fn follow_departed<R: Rules>(&mut self, txn: &Open<R>) {
        if txn.reads.has_missed_departed(txn.begin()) {
            self.sstamp = self.sstamp.min(Timestamp(txn.begin().0 + 1));
        }
    }

    /// Finds out whether a transaction that commits before this one has overwritten what was read.
    #[inline(always)]
    pub(super) fn overwriter<R: Rules>(
        &self,
        env: Scope<'_, R>,
        txn: &Open<R>,
        read: &ReadRecord,
    ) -> Overwritten {
        // SAFETY: slots are never unmapped.
        let is_newest = unsafe { &*read.slot }.head() == read.version;
        if is_newest && !read.version.is_null() {
            return Overwritten::No;
        }
        let seen_as_of = read.present().unwrap_or_else(|| txn.begin());
        // SAFETY: the thread is inside an epoch, and the snapshot is open.
        unsafe { env.shared.overwriter(read.slot, seen_as_of, self.at, txn.tag()) }
    }

    /// Decides whether there is an order for the transaction; `None`: another transaction has to decide first.
    #[inline(always)]
    pub(super) fn judge<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> Option<bool> {
        if self.sstamp >= self.at {
            return Some(true); // after every reader of what it overwrites
        }
        if txn.begin() >= self.sstamp || txn.is_late() {
            return Some(false); // it would precede one that had ended at its begin, or whose changes it may have changed
        }
        self.judge_by_readers(env, txn)
    }

    /// Decides whether the transaction is late enough for the readers of what it overwrites.
    #[inline(always)]
    pub(super) fn judge_by_readers<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> Option<bool> {
        if txn.writes().is_empty() {
            return Some(true);
        }
        let pstamp = R::last_reader(self, env, txn)?;
        Some(pstamp < self.sstamp)
    }

    /// Returns the last commit before this transaction's among the readers of what it overwrites. Only commits from
    /// `sstamp` on matter.
    #[cold]
    pub(super) fn last_in_logs<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> Option<Timestamp> {
        fence(Ordering::SeqCst); // pairs with the fence in `draw`, and with those in `publish_ranges`
        let mut asked = std::mem::take(&mut txn.reads.overwritten);
        asked.clear();
        asked.extend(txn.writes().iter().map(|write| id_of(write.slot)));
        asked.sort_unstable();
        let logs = lock(&env.shared.tracker.logs);
        let mut last = Some(logs.gone);
        for log in &logs.open {
            match log.readers(self.sstamp, self.at, |id| asked.binary_search(&id).is_ok()) {
                Readers::Until(at) => last = last.max(Some(at)),
                Readers::Wait => {
                    last = None;
                    break;
                }
            }
        }
        drop(logs);
        txn.reads.keep_overwritten(asked);
        last
    }

    /// Returns the last commit among the transactions that have found nothing where this transaction inserts.
    #[cold]
    pub(super) fn last_in_gaps<R: Rules>(txn: &Open<R>) -> Timestamp {
        let mut last = Timestamp::default();
        for write in txn.writes() {
            // SAFETY: this transaction has overwritten the version and has not committed, so the version is not
            // reclaimed.
            let was_absent = write.old.is_null() || unsafe { &*write.old }.kind() == VersionKind::Tombstone;
            if was_absent {
                // SAFETY: the thread is inside an epoch, indexes live as long as the database, and keys as the
                // transaction.
                let stamp = unsafe { (*write.target.index).stamp_of(&write.target.key) };
                last = last.max(Timestamp(stamp));
            }
        }
        last
    }

    #[inline(always)]
    pub(super) fn conclude<R: Rules>(&self, txn: &mut Open<R>, has_order: bool) -> Result<Timestamp, Abort> {
        if !has_order {
            txn.has_missed = txn.reads.has_missed_departed(txn.begin());
            return Err(Abort::Unserializable);
        }
        txn.reads.entry = None;
        Ok(if txn.writes().is_empty() { self.at } else { self.at.reaching(self.sstamp) })
    }
}

/// The number of transactions that a log remembers, and the number of records that they have read, all together.
const ENTRIES_MAX: usize = if cfg!(braid_shuttle) { 4 } else { 1024 };
const IDS_MAX: usize = if cfg!(braid_shuttle) { 8 } else { 8192 };

/// What a transaction notes of its reads, and the steps of its order.
pub trait Rules: Sized + Send + Sync + 'static {
    /// True for the rules without a mistake.
    const IS_DEFAULT: bool = false;
    /// See [`Tracker::makes`](crate::cc::mvcc::Tracker::makes).
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }
    /// Returns the length of a worker's log: in transactions, and in records that they have read.
    fn log_max() -> (usize, usize) {
        (ENTRIES_MAX, IDS_MAX)
    }

    /// Notes that the transaction has met a record in which it sees nothing.
    #[inline(always)]
    fn read_nothing(reads: &mut ReadSet, slot: *const Slot) {
        reads.push(slot, std::ptr::null());
    }

    /// See [`Tracker::read_present`](crate::cc::mvcc::Tracker::read_present).
    fn read_present(reads: &mut ReadSet, slot: *const Slot, committed: Timestamp) {
        reads.push_present(slot, committed);
    }

    /// See [`Tracker::read_range`](crate::cc::mvcc::Tracker::read_range).
    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) -> bool {
        reads.push_range(scanned)
    }

    /// See [`Tracker::read_copies`](crate::cc::mvcc::Tracker::read_copies).
    fn read_copies(reads: &mut ReadSet, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) {
        reads.push_copies(scanned, copies);
    }

    /// Announces the snapshot of a transaction that is not tracked.
    fn open_untracked(env: Scope<'_, Self>, txn: &mut Open<Self>) {
        env.worker.tracker.open_untracked(|| txn.begin_again(env.shared));
    }

    /// Returns true if a transaction that has only read is ordered at its snapshot, without the five steps.
    #[inline(always)]
    fn is_undisturbed(env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        is_undisturbed(env, txn)
    }

    /// First step: enters the transaction into the log.
    #[inline(always)]
    fn enter(_: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        Order::enter(env, txn);
    }

    /// Second step: draws the timestamp.
    #[inline(always)]
    fn draw(order: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        order.draw(env, txn);
    }

    /// Third step: tells others when the transaction commits. Returns false if it has to abort.
    #[inline(always)]
    fn publish(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Result<bool, OutOfMemory> {
        let kept = order.publish_ranges(env, txn)?;
        Ok(order.publish_reads(env, txn) && kept)
    }

    /// Fourth step: validates the reads. Returns false if it has to be called again.
    #[inline(always)]
    fn validate(order: &mut Order, env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        order.validate(env, txn)
    }

    /// Part of the fourth step, for each read.
    #[inline(always)]
    fn overwriter(order: &Order, env: Scope<'_, Self>, txn: &Open<Self>, read: &ReadRecord) -> Overwritten {
        order.overwriter(env, txn, read)
    }

    /// Fifth step: decides whether there is an order; `None`: it has to be called again.
    #[inline(always)]
    fn judge(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<bool> {
        order.judge(env, txn)
    }

    /// Part of the fifth step: returns the last reader of what the transaction overwrites.
    #[inline(always)]
    fn last_reader(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<Timestamp> {
        Some(order.last_in_logs(env, txn)?.max(Order::last_in_gaps(txn)))
    }

    /// Returns the result.
    #[inline(always)]
    fn conclude(order: &Order, txn: &mut Open<Self>, has_order: bool) -> Result<Timestamp, Abort> {
        order.conclude(txn, has_order)
    }
}

/// The rules that the argument covers.
#[derive(Clone, Copy, Debug)]
pub struct Proven;

impl Rules for Proven {
    const IS_DEFAULT: bool = true;
}
