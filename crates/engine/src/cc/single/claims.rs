//! The partitions that a transaction has and wants: one bit each.
//!
//! Invariants:
//! - `owned` contains only partitions of `held`. There are two exceptions: all partitions are owned (`ALL`) when all
//!   are held, and a transaction that restores owns `ALL`.
//! - The transaction waits for a partition only if its number is higher than all of `held`. It may therefore be in
//!   the queue of one partition (`queued`) and take others with lower numbers. Any other partition is taken only if
//!   it is free.
//! - Once `refused`, nothing is owned. What is held is given back when the transaction ends.

use super::partitions::{Asked, Partitions};
use crate::cc::{Abort, Refused};
use crate::memory::OutOfMemory;
use crate::record::Tag;

/// All partitions, however many there are.
pub(in crate::cc) const ALL: u64 = u64::MAX;

/// The claims of a transaction. One per transaction, reused.
#[derive(Debug, Default)]
pub(in crate::cc) struct Claims {
    /// The partitions that operations may touch.
    owned: u64,
    held: u64,
    /// What was declared, and what operations needed beyond it.
    wanted: u64,
    /// The partition in whose queue the transaction is.
    queued: Option<u32>,
    /// The number of looks at this partition since it last passed to another transaction, and that transaction.
    looks: u32,
    seen: Option<Tag>,
    /// Why the transaction cannot continue.
    refused: Option<Refused>,
    /// The partition that another transaction had when this one last asked for it. Kept until the transaction is run
    /// again.
    awaited: Option<u32>,
    /// What the transaction takes before anything else. When it was run before, it needed these partitions and could
    /// not wait for one of them.
    again: u64,
}

/// The result of a look at what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Look {
    /// The transaction has everything that it wants.
    Got,
    /// The transaction is in a queue.
    Waits,
    /// Another transaction has the awaited partition.
    Busy,
    /// The transaction cannot continue.
    Refused,
}

impl Claims {
    /// Begins the transaction. `restores`: no other thread uses the database.
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

    /// Returns true if the transaction may do something that touches these partitions (0: any one).
    #[inline(always)]
    pub(in crate::cc) fn has(&self, need: u64) -> bool {
        need & !self.owned == 0 && self.owned != 0
    }

    #[inline(always)]
    pub(in crate::cc) fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// Returns true if the transaction has some partition.
    pub(in crate::cc) fn is_any(&self) -> bool {
        self.owned != 0
    }

    /// Returns the partition in whose queue the transaction is, or that another transaction had when this one last
    /// asked for it.
    pub(in crate::cc) fn awaited(&self) -> Option<u32> {
        self.queued.or(self.awaited)
    }

    /// Declares that the transaction wants these partitions.
    pub(in crate::cc) fn declare(&mut self, declared: u64) {
        self.wanted |= declared;
    }

    fn refuse(&mut self, why: Refused) {
        self.owned = 0;
        self.refused.get_or_insert(why);
    }

    /// Continues to take what is wanted, and `need`, or all partitions if there is neither. Without `waits`, it waits
    /// only for what the transaction takes before anything else. The transaction is refused after `looks_max` looks.
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

    /// Asks for a partition for which the transaction may wait, or checks whether the partition has come through the
    /// queue. Takes any other partition only if it is free.
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
            (self.seen, self.looks) = (owner, 0); // the queue has advanced
        }
        Ok(Asked::Queued)
    }

    /// Returns true if waiting for this partition cannot close a cycle.
    fn may_wait_for(&self, at: u32) -> bool {
        self.held >> at == 0
    }

    /// Returns true if the transaction may wait for the awaited partition. If not, the transaction cannot continue.
    pub(in crate::cc) fn may_wait(&mut self) -> bool {
        let Some(at) = self.awaited.filter(|&at| !self.may_wait_for(at)) else { return true };
        self.wanted |= 1 << at;
        self.begin_anew();
        false
    }

    /// Refuses the transaction, because another transaction has what this one wants and may not wait for. When it is
    /// run again, it takes what it wants first.
    #[cold]
    fn begin_anew(&mut self) {
        self.again = self.wanted;
        self.awaited = None;
        self.refuse(Refused::Abort(Abort::WriteConflict));
    }

    /// Leaves the queue in which the transaction is. That partition is then the awaited one.
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

    /// Forgets the queue without leaving it, for tests.
    #[cfg(all(test, braid_shuttle))]
    pub(super) fn forget_queue(&mut self) {
        self.queued = None;
    }

    /// Ends the transaction: gives everything back.
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
