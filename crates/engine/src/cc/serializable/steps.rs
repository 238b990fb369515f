//! The steps of the serial safety net: what a transaction notes of its reads, and how it finds its place in the order. Where
//! tests put another form of one step in its place, to show that the checks notice it (`planted.rs`), it is called by way
//! of [`Rules`].

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

/// The place of a committing transaction in the serial order, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// When the transaction commits; for one that has not written, just after that.
    pub(super) at: Timestamp,
    /// How early it has to be ordered.
    pub(super) sstamp: Timestamp,
    /// Reads that have been validated.
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

/// A transaction that has only read, and since whose snapshot nobody has drawn a timestamp, is ordered there: there
/// is nothing to validate, and it is announced as declared readers are.
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

    /// Draws the commit timestamp, having entered the log: a transaction that draws a later one finds us there, and we
    /// find the versions of each that has drawn an earlier one. (Of two that draw, the later acquires what the earlier
    /// has released. Who only reads the clock needs a fence to be found.)
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

    /// Tells the index when we commit. Returns false if we have to give way.
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

    /// Tells the log when we commit. Returns false if we have to give way.
    #[inline(always)]
    pub(super) fn publish_reads<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> bool {
        let entry = txn.reads.entry.expect("entered before");
        let kept = env.worker.tracker.stamp(entry, self.at);
        txn.reads.is_stamped = true;
        kept
    }

    /// Finds out how early the transaction has to be ordered. Returns false if somebody has to decide first.
    #[inline(always)]
    pub(super) fn validate<R: Rules>(&mut self, env: Scope<'_, R>, txn: &Open<R>) -> bool {
        if self.at == txn.begin() {
            return true; // nobody has committed since it began
        }
        for read in &txn.reads.records[self.validated..] {
            match R::overwriter(self, env, txn, read) {
                Overwritten::No => {}
                Overwritten::Wait => return false,
                Overwritten::By(stamp) => self.sstamp = self.sstamp.min(stamp.reach()),
            }
            self.validated += 1;
        }
        // After all that it has read was looked at: so what was removed before that, and not found, is noted by now.
        if !txn.writes().is_empty() && txn.reads.has_ranges() && env.shared.has_departed_since(txn.begin()) {
            self.follow_departed(txn);
        }
        true
    }

    /// If a key may be gone that the transaction has not found, and others had written after its snapshot, it is ordered as
    /// early as it could have to be: just after that. (No key is gone that would have it ordered earlier.)
    #[cold]
    fn follow_departed<R: Rules>(&mut self, txn: &Open<R>) {
        if txn.reads.has_missed_departed(txn.begin()) {
            self.sstamp = self.sstamp.min(Timestamp(txn.begin().0 + 1));
        }
    }

    /// Whether what was read has been overwritten by a transaction that commits before us.
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
        // SAFETY: inside an epoch; the snapshot is open.
        unsafe { env.shared.overwriter(read.slot, seen_as_of, self.at, txn.tag()) }
    }

    /// Whether there is an order for it; `None`: somebody has to decide first.
    #[inline(always)]
    pub(super) fn judge<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> Option<bool> {
        if self.sstamp >= self.at {
            return Some(true); // after every reader of what it overwrites
        }
        if txn.begin() >= self.sstamp || txn.is_late() {
            return Some(false); // before one that had ended when it began, or whose changes it may have changed
        }
        self.judge_by_readers(env, txn)
    }

    /// Whether it comes late enough for the readers of what it overwrites.
    #[inline(always)]
    pub(super) fn judge_by_readers<R: Rules>(&self, env: Scope<'_, R>, txn: &mut Open<R>) -> Option<bool> {
        if txn.writes().is_empty() {
            return Some(true);
        }
        let pstamp = R::last_reader(self, env, txn)?;
        Some(pstamp < self.sstamp)
    }

    /// The last commit before ours among the readers of what we overwrite, if it matters: from
    /// `sstamp` on.
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

    /// The same, among those that have found nothing where we insert.
    #[cold]
    pub(super) fn last_in_gaps<R: Rules>(txn: &Open<R>) -> Timestamp {
        let mut last = Timestamp::default();
        for write in txn.writes() {
            // SAFETY: overwritten by us and not committed: not reclaimed.
            let was_absent = write.old.is_null() || unsafe { &*write.old }.kind() == VersionKind::Tombstone;
            if was_absent {
                // SAFETY: inside an epoch; indexes live as long as the database, keys as the transaction.
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

/// Transactions that a log remembers, and records that they have read, all together.
const ENTRIES_MAX: usize = if cfg!(braid_shuttle) { 4 } else { 1024 };
const IDS_MAX: usize = if cfg!(braid_shuttle) { 8 } else { 8192 };

/// What a transaction notes of its reads, and the steps of its order.
pub trait Rules: Sized + Send + Sync + 'static {
    /// See [`Tracker::makes`](crate::cc::mvcc::Tracker::makes).
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }
    /// How long a worker's log is: transactions, and records that they have read.
    fn log_max() -> (usize, usize) {
        (ENTRIES_MAX, IDS_MAX)
    }

    /// The transaction has met a record of which it sees nothing.
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

    /// Whether a transaction that has only read is ordered at its snapshot, without order.
    #[inline(always)]
    fn is_undisturbed(env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        is_undisturbed(env, txn)
    }

    /// First step.
    #[inline(always)]
    fn enter(_: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        Order::enter(env, txn);
    }

    /// Second step.
    #[inline(always)]
    fn draw(order: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        order.draw(env, txn);
    }

    /// Third step: others learn when the transaction commits. Returns false if it has to give way.
    #[inline(always)]
    fn publish(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Result<bool, OutOfMemory> {
        let kept = order.publish_ranges(env, txn)?;
        Ok(order.publish_reads(env, txn) && kept)
    }

    /// Fourth step. Returns false if it has to be called again.
    #[inline(always)]
    fn validate(order: &mut Order, env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        order.validate(env, txn)
    }

    /// Part of the fourth step, for each read.
    #[inline(always)]
    fn overwriter(order: &Order, env: Scope<'_, Self>, txn: &Open<Self>, read: &ReadRecord) -> Overwritten {
        order.overwriter(env, txn, read)
    }

    /// Fifth step: whether there is an order; `None`: it has to be called again.
    #[inline(always)]
    fn judge(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<bool> {
        order.judge(env, txn)
    }

    /// Part of the fifth step: the last reader of what the transaction overwrites.
    #[inline(always)]
    fn last_reader(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<Timestamp> {
        Some(order.last_in_logs(env, txn)?.max(Order::last_in_gaps(txn)))
    }

    /// The result.
    #[inline(always)]
    fn conclude(order: &Order, txn: &mut Open<Self>, has_order: bool) -> Result<Timestamp, Abort> {
        order.conclude(txn, has_order)
    }
}

/// The rules as they are argued for.
#[derive(Clone, Copy, Debug)]
pub struct Proven;

impl Rules for Proven {}
