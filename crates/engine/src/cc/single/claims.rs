//! Which partitions a transaction has, and which it wants: a bit each.
//!
//! Invariants:
//! - `owned` has partitions of `held` only, but that all are owned (`ALL`) when all are held; or `ALL`, of one that restores.
//! - `held` is what comes first in `wanted`: partitions are taken in ascending order.
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
    /// 0: nothing is declared.
    wanted: u64,
    /// It is in the queue of this one.
    queued: Option<u32>,
    /// Looks at it since it has last passed to another transaction, and which one that was.
    looks: u32,
    seen: Option<Tag>,
    /// Why the transaction cannot go on.
    refused: Option<Refused>,
    /// The partition that it has last waited for in vain. Kept until it is run again.
    awaited: Option<u32>,
    /// It has gone beyond what it had declared, and takes all when it is run again.
    takes_all: bool,
}

/// What a look at what is wanted came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Look {
    /// All of it is there.
    Got,
    /// The transaction is in a queue.
    Waits,
    /// It cannot go on.
    Refused,
}

impl Claims {
    /// The transaction begins. `restores`: nobody else uses the database.
    #[inline(always)]
    pub(in crate::cc) fn begin(&mut self, is_retry: bool, restores: bool) {
        debug_assert!(self.owned | self.held | self.wanted == 0 && self.refused.is_none());
        self.takes_all &= is_retry;
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

    /// See [`Claims::awaited`].
    pub(in crate::cc) fn awaited(&self) -> Option<u32> {
        self.awaited
    }

    /// The transaction says that it wants these, of those in `mask`.
    pub(in crate::cc) fn declare(&mut self, declared: u64, mask: u64) {
        let declared = if self.takes_all || declared & mask == mask { ALL } else { declared };
        let new = declared & !self.wanted;
        // Those that come before what it has, it cannot wait for.
        let is_behind = self.wanted == 0 || new == 0 || new.trailing_zeros() > self.wanted.ilog2();
        match is_behind {
            true => self.wanted |= declared,
            false => self.go_beyond(),
        }
    }

    /// The transaction needs more than it has declared.
    #[cold]
    fn go_beyond(&mut self) {
        self.takes_all = true;
        self.awaited = None;
        self.refuse(Refused::Abort(Abort::WriteConflict));
    }

    fn refuse(&mut self, why: Refused) {
        self.owned = 0;
        self.refused.get_or_insert(why);
    }

    /// Goes on to take what is wanted, of which `need` has to be a part; without a declaration, all. `looks_max`: before the
    /// transaction is refused.
    pub(in crate::cc) fn look(
        &mut self,
        need: u64,
        tag: Tag,
        partitions: &Partitions,
        looks_max: u32,
    ) -> Look {
        if self.refused.is_some() {
            return Look::Refused;
        }
        if self.wanted == 0 {
            self.wanted = ALL;
        }
        if need & !self.wanted != 0 {
            self.go_beyond();
            return Look::Refused;
        }
        loop {
            let missing = self.wanted & partitions.mask() & !self.held;
            if missing == 0 {
                self.owned = self.wanted;
                return Look::Got;
            }
            let at = missing.trailing_zeros();
            match self.look_at(at, tag, partitions) {
                Ok(Asked::Got) => {
                    self.held |= 1 << at;
                    self.owned |= 1 << at;
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
                Err(OutOfMemory) => {
                    self.refuse(Refused::OutOfMemory);
                    return Look::Refused;
                }
            }
        }
    }

    /// Asks for a partition, or looks whether it has come through the queue.
    #[inline(always)]
    fn look_at(&mut self, at: u32, tag: Tag, partitions: &Partitions) -> Result<Asked, OutOfMemory> {
        if self.queued.is_none() {
            let asked = partitions.ask(at, tag)?;
            if asked == Asked::Queued {
                (self.queued, self.looks, self.seen) = (Some(at), 0, None);
            }
            return Ok(asked);
        }
        debug_assert_eq!(self.queued, Some(at), "the first that is missing");
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
