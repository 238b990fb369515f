//! A transaction's place in the registry.

use super::registry::{Floor, NOWHERE, Registry};
use crate::cc::{NotBegun, Waits};
use crate::record::{Tag, Timestamp};

/// A transaction's place and what the registry knows it by, open or not. One per transaction, reused.
#[derive(Debug)]
pub(in crate::cc) struct Participant {
    /// When the transaction began.
    pub(in crate::cc) begin: Timestamp,
    /// What others know the transaction by, once it has announced itself.
    pub(in crate::cc) tag: Tag,
    place: u32,
    /// See [`Registry::set_keeping`].
    keeps: bool,
    sequence: u64,
}

impl Participant {
    /// Makes a participant without a place.
    pub(in crate::cc) const fn new() -> Participant {
        Participant { begin: Timestamp(0), tag: Tag::NONE, place: NOWHERE, keeps: false, sequence: 0 }
    }

    #[inline(always)]
    pub(in crate::cc) fn place(&self) -> u32 {
        self.place
    }

    /// Opens the transaction on the worker of `floor`. The first call takes a place, which is kept until `leave`.
    #[inline(always)]
    pub(in crate::cc) fn open(&mut self, registry: &Registry, floor: &Floor) -> Result<(), NotBegun> {
        self.open_by(registry, floor, Registry::open)
    }

    /// Opens the transaction as of a time of its own, which others can ask for.
    #[inline(always)]
    pub(in crate::cc) fn open_at_own_time(
        &mut self,
        registry: &Registry,
        floor: &Floor,
    ) -> Result<(), NotBegun> {
        self.open_by(registry, floor, Registry::open_at_own_time)?;
        registry.set_age(self.place, self.begin.0);
        Ok(())
    }

    #[inline(always)]
    fn open_by(
        &mut self,
        registry: &Registry,
        floor: &Floor,
        open: impl FnOnce(&Registry, u32) -> Timestamp,
    ) -> Result<(), NotBegun> {
        debug_assert!(self.tag == Tag::NONE);
        if self.place == NOWHERE {
            self.take_place(registry)?;
        }
        self.begin = open(registry, self.place);
        registry.follow(floor, self.begin);
        Ok(())
    }

    #[cold]
    fn take_place(&mut self, registry: &Registry) -> Result<(), NotBegun> {
        self.place = registry.join()?;
        self.sequence = registry.last_sequence(self.place);
        Ok(())
    }

    /// Makes the next transaction here keep keys in their indexes until it ends, if they are deleted after its
    /// snapshot.
    #[cold]
    pub(in crate::cc) fn keep_keys(&mut self, registry: &Registry) {
        if self.has_place() {
            registry.set_keeping(self.place, true);
            self.keeps = true;
        }
    }

    #[cold]
    fn keep_no_keys(&mut self, registry: &Registry) {
        registry.set_keeping(self.place, false);
        self.keeps = false;
    }

    /// Returns true if the participant was ever opened.
    pub(in crate::cc) fn has_place(&self) -> bool {
        self.place != NOWHERE
    }

    /// Moves the transaction, which has done nothing yet, to the present.
    pub(in crate::cc) fn open_again(&mut self, registry: &Registry) -> Timestamp {
        self.begin = registry.open(self.place);
        self.begin
    }

    /// Returns the transaction's tag. The first call makes the tag known.
    #[inline(always)]
    pub(in crate::cc) fn announce(&mut self, registry: &Registry) -> Tag {
        if self.tag == Tag::NONE {
            self.sequence += 1;
            self.tag = Tag::new(self.place, self.sequence);
            registry.announce(self.place, self.tag);
        }
        self.tag
    }

    /// Closes the transaction, and tells the transactions that wait for its end.
    #[inline(always)]
    pub(in crate::cc) fn close(&mut self, registry: &Registry, waits: &Waits) {
        let was_known = self.tag != Tag::NONE;
        self.tag = Tag::NONE;
        registry.close(self.place);
        if self.keeps {
            self.keep_no_keys(registry);
        }
        if was_known {
            registry.end(self.place);
            if registry.is_awaited(self.place) {
                self.tell(registry, waits);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, registry: &Registry, waits: &Waits) {
        registry.clear_awaited(self.place);
        waits.ended(self.place);
    }

    /// Gives the place back.
    pub(in crate::cc) fn leave(&mut self, registry: &Registry) {
        if self.place != NOWHERE {
            registry.part(self.place);
            self.place = NOWHERE;
        }
    }
}
