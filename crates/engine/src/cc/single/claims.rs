//! Which partitions a transaction has, and which it wants: a bit each.
//!
//! Invariants:
//! - `owned` has partitions of `held` only, but that all are owned (`ALL`) when all are held; or `ALL`, of one that restores.
//! - The transaction waits for a partition only if it comes after all of `held`; so it may be in the queue of one (`queued`) and take
//!   others that come before. Another partition is taken if it is free.
//! - Once `refused`, nothing is owned. What is held is given back when the transaction ends.

use super::partitions::{Asked, Partitions};
use crate::cc::{Abort, Refused};
use crate::memory::OutOfMemory;
use crate::record::Tag;

/// All partitions, however many there are.
pub(in crate::cc) const ALL: u64 = u64::MAX;

/// One per transaction, reused.
#[derive(Debug, Default)]
pub(in crate::cc) struct Claims {
    /// Operations may be about these.
    owned: u64,
    held: u64,
    /// What is declared, and what operations needed beyond it.
    wanted: u64,
    /// It is in the queue of this one.
    queued: Option<u32>,
    /// Looks at it since it has last passed to another transaction, and which one that was.
    looks: u32,
    seen: Option<Tag>,
    /// Why the transaction cannot go on.
    refused: Option<Refused>,
    /// The partition that another transaction had when this one last asked for it. Kept until the transaction is run again.
    awaited: Option<u32>,
    /// What it takes before anything else: when it was run before, it needed these, and could not wait for one of them.
    again: u64,
}

/// What a look at what is wanted came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Look {
    /// All of it is there.
    Got,
    /// The transaction is in a queue.
    Waits,
    /// Another transaction has the awaited partition.
    Busy,
    /// The transaction cannot go on.
    Refused,
}

impl Claims {
    /// The transaction begins. `restores`: nobody else uses the database.
    #[inline(always)]
    pub(in crate::cc) fn begin(&mut self, is_retry: bool, restores: bool) {
        debug_assert!(self.owned | self.held | self.wanted == 0 && self.refused.is_none());
        if !is_retry {
            self.again = 0;
        }
        self.awaited = None;
        if restores {
            self.owned = ALL;
        }
    }

    /// The transaction may do something that is about these partitions (0: about any one).
    #[inline(always)]
    pub(in crate::cc) fn has(&self, need: u64) -> bool {
        need & !self.owned == 0 && self.owned != 0
    }

    #[inline(always)]
    pub(in crate::cc) fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// The transaction has some partition.
    pub(in crate::cc) fn is_any(&self) -> bool {
        self.owned != 0
    }

    /// The partition in whose queue the transaction is, or that another one had when this one asked for it last.
    pub(in crate::cc) fn awaited(&self) -> Option<u32> {
        self.queued.or(self.awaited)
    }

    /// The transaction says that it wants these.
    pub(in crate::cc) fn declare(&mut self, declared: u64) {
        self.wanted |= declared;
    }

    fn refuse(&mut self, why: Refused) {
        self.owned = 0;
        self.refused.get_or_insert(why);
    }

    /// Goes on to take what is wanted, and `need`; all, if that is nothing. Without `waits`, it waits for nothing but what the transaction
    /// takes before anything else. `looks_max`: before the transaction is refused.
    pub(in crate::cc) fn look(
        &mut self,
        need: u64,
        waits: bool,
        tag: Tag,
        partitions: &Partitions,
        looks_max: u32,
    ) -> Look {
        if self.refused.is_some() {
            return Look::Refused;
        }
        let before = self.wanted | self.again;
        self.wanted = if before | need == 0 { ALL } else { before | need };
        loop {
            let missing = self.wanted & partitions.mask() & !self.held;
            if missing == 0 {
                self.owned = if self.held == partitions.mask() { ALL } else { self.held };
                return Look::Got;
            }
            let again = missing & self.again;
            let at = if again == 0 { missing } else { again }.trailing_zeros();
            let waits = waits || again != 0;
            match self.ask(at, tag, partitions) {
                Ok(Asked::Got) => {
                    self.held |= 1 << at;
                    self.owned |= 1 << at;
                }
                Ok(Asked::Queued | Asked::Taken) if !waits => {
                    self.give_way(tag, partitions);
                    self.awaited = Some(at);
                    if self.held >> at & 1 == 0 {
                        self.wanted = before;
                        return Look::Busy;
                    }
                }
                Ok(Asked::Queued) if self.looks < looks_max => {
                    self.looks += 1;
                    return Look::Waits;
                }
                Ok(Asked::Queued) => {
                    self.give_way(tag, partitions);
                    self.refuse(Refused::Abort(Abort::WaitTimeout));
                    return Look::Refused;
                }
                Ok(Asked::Taken) => {
                    self.begin_anew();
                    return Look::Refused;
                }
                Err(OutOfMemory) => {
                    self.refuse(Refused::OutOfMemory);
                    return Look::Refused;
                }
            }
        }
    }

    /// Asks for a partition for which the transaction may wait, or looks whether it has come through the queue; takes another one
    /// only if it is free.
    fn ask(&mut self, at: u32, tag: Tag, partitions: &Partitions) -> Result<Asked, OutOfMemory> {
        let Some(queued) = self.queued else {
            if !self.may_wait_for(at) {
                return Ok(partitions.take(at, tag));
            }
            let asked = partitions.ask(at, tag)?;
            if asked == Asked::Queued {
                (self.queued, self.looks, self.seen) = (Some(at), 0, None);
            }
            return Ok(asked);
        };
        if queued != at {
            return Ok(partitions.take(at, tag));
        }
        let owner = partitions.owner(at);
        if owner == Some(tag) {
            self.queued = None;
            return Ok(Asked::Got);
        }
        if owner != self.seen {
            (self.seen, self.looks) = (owner, 0); // the queue goes on
        }
        Ok(Asked::Queued)
    }

    /// Whether no circle of waits can close by it.
    fn may_wait_for(&self, at: u32) -> bool {
        self.held >> at == 0
    }

    /// Whether the transaction may wait for the awaited partition. If not, it cannot go on.
    pub(in crate::cc) fn may_wait(&mut self) -> bool {
        let Some(at) = self.awaited.filter(|&at| !self.may_wait_for(at)) else { return true };
        self.wanted |= 1 << at;
        self.begin_anew();
        false
    }

    /// Another transaction has what this one wants and may not wait for: it takes what it wants first when it is run again.
    #[cold]
    fn begin_anew(&mut self) {
        self.again = self.wanted;
        self.awaited = None;
        self.refuse(Refused::Abort(Abort::WriteConflict));
    }

    /// Leaves the queue that it is in. That partition is the awaited one.
    #[cold]
    pub(in crate::cc) fn give_way(&mut self, tag: Tag, partitions: &Partitions) {
        let Some(at) = self.queued.take() else { return };
        if partitions.leave(at, tag) {
            self.held |= 1 << at;
            if self.refused.is_none() {
                self.owned |= 1 << at;
            }
        }
        self.awaited = Some(at);
    }

    /// It ends without leaving the queue that it is in, for tests.
    #[cfg(all(test, braid_shuttle))]
    pub(super) fn forget_queue(&mut self) {
        self.queued = None;
    }

    /// The transaction ends: gives everything back.
    #[inline(always)]
    pub(in crate::cc) fn end(&mut self, tag: Tag, partitions: &Partitions) {
        if self.queued.is_some() {
            let awaited = self.awaited;
            self.give_way(tag, partitions);
            self.awaited = awaited;
        }
        let mut held = std::mem::take(&mut self.held);
        while held != 0 {
            partitions.give_back(held.trailing_zeros(), tag);
            held &= held - 1;
        }
        (self.owned, self.wanted, self.refused) = (0, 0, None);
    }
}
