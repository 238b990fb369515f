//! The commit as a step machine: the parallel commit of the serial safety net.
//!
//! Waits go towards transactions that commit earlier, or are just drawing their timestamp; the earliest
//! waits for nobody. A wait suspends.

use super::planted::*;
use super::reader_log::{Readers, id_of};
use super::{SerialSafetyNet, lock};
use crate::cc::mvcc::{Mvcc, Overwritten, Txn};
use crate::cc::{Abort, Env};
use crate::index::Index;
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Timestamp, VersionKind};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};

type Scope<'e, const BUG: u32> = Env<'e, Mvcc<SerialSafetyNet<BUG>>>;
type Open<const BUG: u32> = Txn<SerialSafetyNet<BUG>>;

/// A suspended validation.
#[derive(Clone, Copy, Debug)]
pub struct Validation {
    stage: Stage,
    /// When the transaction commits; for one that has not written, just after that.
    at: Timestamp,
    /// How early it has to be ordered.
    sstamp: Timestamp,
    /// Reads that have been validated.
    validated: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Enter,
    Draw,
    Publish,
    Validate,
    Judge,
}

impl Default for Validation {
    fn default() -> Self {
        Validation { stage: Stage::Enter, at: Timestamp::NEVER, sstamp: Timestamp::NEVER, validated: 0 }
    }
}

/// Commits a transaction that has read nothing.
#[inline(always)]
pub(super) fn commit_blindly<const BUG: u32>(env: Scope<'_, BUG>, txn: &mut Open<BUG>) -> Timestamp {
    if txn.writes().is_empty() {
        return txn.begin();
    }
    env.shared.draw(txn)
}

/// A transaction that has only read, and since whose snapshot nobody has drawn a timestamp, is ordered there: there
/// is nothing to validate, and it is announced as declared readers are.
#[inline(always)]
pub(super) fn is_undisturbed<const BUG: u32>(env: Scope<'_, BUG>, txn: &Open<BUG>) -> bool {
    let now = || env.shared.now();
    now() == txn.begin() && env.worker.tracker.open_untracked(now) == txn.begin()
}

impl Validation {
    #[inline]
    pub(super) fn step<const BUG: u32, S: Suspend>(
        &mut self,
        env: Scope<'_, BUG>,
        txn: &mut Open<BUG>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        loop {
            if s.pause() {
                return None;
            }
            let next = match self.stage {
                Stage::Enter if BUG == DRAWN_TOO_EARLY && self.at == Timestamp::NEVER => {
                    self.draw(env, txn);
                    Stage::Enter
                }
                Stage::Enter if txn.reads.is_full => return Some(Err(Abort::OutOfMemory)),
                Stage::Enter => {
                    enter(env, txn);
                    Stage::Draw
                }
                Stage::Draw => {
                    if BUG != DRAWN_TOO_EARLY {
                        s.enter(Activity::Timestamps);
                        self.draw(env, txn);
                        s.enter(Activity::Control);
                    }
                    Stage::Publish
                }
                Stage::Publish => {
                    match self.publish(env, txn) {
                        Ok(true) => {}
                        Ok(false) => return Some(Err(Abort::Unserializable)),
                        Err(OutOfMemory) => return Some(Err(Abort::OutOfMemory)),
                    }
                    Stage::Validate
                }
                Stage::Validate => {
                    if !self.validate(env, txn) {
                        return None;
                    }
                    Stage::Judge
                }
                Stage::Judge => {
                    let verdict = self.judge(env, txn)?;
                    return Some(self.conclude(txn, verdict));
                }
            };
            self.stage = next;
        }
    }

    /// Draws the commit timestamp, having entered the log: a transaction that draws a later one finds us there, and we
    /// find the versions of each that has drawn an earlier one. (Of two that draw, the later acquires what the earlier
    /// has released. Who only reads the clock needs a fence to be found.)
    #[inline(always)]
    fn draw<const BUG: u32>(&mut self, env: Scope<'_, BUG>, txn: &Open<BUG>) {
        if txn.writes().is_empty() {
            fence(Ordering::SeqCst); // pairs with the fence in `last_reader`
            self.at = env.shared.now();
        } else {
            self.at = env.shared.draw(txn);
            self.sstamp = self.at;
        }
        debug_assert!(self.at >= txn.begin());
    }

    /// Tells the log and the index when we commit. Returns false if we have to give way.
    #[inline(always)]
    fn publish<const BUG: u32>(
        &mut self,
        env: Scope<'_, BUG>,
        txn: &mut Open<BUG>,
    ) -> Result<bool, OutOfMemory> {
        let mut kept = true;
        if txn.reads.has_ranges() && BUG != NO_RESCAN {
            let begin = txn.begin();
            // SAFETY: a commit is stepped inside an epoch.
            kept = unsafe { txn.reads.publish_ranges(self.at, |id| env.shared.changed_since(begin, id)) }?;
        }
        let entry = txn.reads.entry.expect("entered before");
        kept &= env.worker.tracker.stamp(entry, self.at);
        txn.reads.is_stamped = true;
        if BUG == READER_CLEARED_EARLY {
            env.worker.tracker.retract(entry);
        }
        Ok(kept)
    }

    /// Finds out how early the transaction has to be ordered. Returns false if somebody has to decide first.
    #[inline(always)]
    fn validate<const BUG: u32>(&mut self, env: Scope<'_, BUG>, txn: &Open<BUG>) -> bool {
        if self.at == txn.begin() || BUG == NO_VALIDATION {
            return true; // nobody has committed since it began
        }
        if BUG == READERS_NOT_VALIDATED && txn.writes().is_empty() {
            return true;
        }
        for read in &txn.reads.records[self.validated..] {
            // SAFETY: slots are never unmapped.
            let is_newest = unsafe { &*read.slot }.head() == read.version;
            if !is_newest || read.version.is_null() {
                // SAFETY: inside an epoch; the snapshot is open.
                match unsafe { env.shared.overwriter(read.slot, txn.begin(), self.at, txn.tag()) } {
                    Overwritten::No => {}
                    Overwritten::Wait if BUG != NO_WAIT => return false,
                    Overwritten::Wait => {}
                    Overwritten::By(_) if BUG == OVERWRITER_NOT_FOLLOWED => {}
                    Overwritten::By(stamp) => self.sstamp = self.sstamp.min(stamp.reach()),
                }
            }
            self.validated += 1;
        }
        true
    }

    /// Whether there is an order for it; `None`: somebody has to decide first.
    #[inline(always)]
    fn judge<const BUG: u32>(&self, env: Scope<'_, BUG>, txn: &mut Open<BUG>) -> Option<bool> {
        if self.sstamp >= self.at {
            return Some(true); // after every reader of what it overwrites
        }
        if BUG != NO_REAL_TIME && txn.begin() >= self.sstamp {
            return Some(false);
        }
        if txn.writes().is_empty() {
            return Some(true);
        }
        let pstamp = self.last_reader(env, txn)?;
        Some(pstamp < self.sstamp)
    }

    /// The last commit before ours among the readers of what we overwrite, if it matters: from
    /// `sstamp` on.
    #[cold]
    fn last_reader<const BUG: u32>(&self, env: Scope<'_, BUG>, txn: &mut Open<BUG>) -> Option<Timestamp> {
        fence(Ordering::SeqCst); // pairs with the fence in `draw`, and with those in `publish_ranges`
        let mut asked = std::mem::take(&mut txn.reads.overwritten);
        asked.clear();
        asked.extend(txn.writes().iter().map(|write| id_of(write.slot)));
        asked.sort_unstable();
        let logs = lock(&env.shared.tracker.logs);
        let mut last = logs.gone;
        for log in &logs.open {
            match log.readers(self.sstamp, self.at, |id| asked.binary_search(&id).is_ok()) {
                Readers::Until(at) => last = last.max(at),
                Readers::Wait => {
                    drop(logs);
                    txn.reads.keep_overwritten(asked);
                    return None;
                }
            }
        }
        drop(logs);
        txn.reads.keep_overwritten(asked);
        if BUG == READERS_ON_A_COPY {
            last = Timestamp::default();
        }
        for write in txn.writes() {
            // SAFETY: overwritten by us and not committed: not reclaimed.
            let was_absent = write.old.is_null() || unsafe { &*write.old }.kind() == VersionKind::Tombstone;
            if was_absent && BUG != GAP_READERS_FORGOTTEN {
                // SAFETY: inside an epoch; indexes live as long as the database, keys as the transaction.
                let stamp = unsafe { (*write.target.index).stamp_of(&write.target.key) };
                last = last.max(Timestamp(stamp));
            }
        }
        Some(last)
    }

    #[inline(always)]
    fn conclude<const BUG: u32>(&self, txn: &mut Open<BUG>, verdict: bool) -> Result<Timestamp, Abort> {
        if !verdict {
            return Err(Abort::Unserializable);
        }
        txn.reads.entry = None;
        if txn.writes().is_empty() {
            return Ok(self.at);
        }
        Ok(if BUG == STAMP_LOST { self.at } else { self.at.reaching(self.sstamp) })
    }
}

#[inline(always)]
fn enter<const BUG: u32>(env: Scope<'_, BUG>, txn: &mut Open<BUG>) {
    let reads = &mut txn.reads;
    let ids = reads.records.iter().map(|read| id_of(read.slot));
    reads.entry = Some(env.worker.tracker.enter(ids, reads.has_ranges(), reads.is_coarse));
    reads.is_stamped = false;
}
