//! The stamp of a version: a commit timestamp, or the tag of the transaction that will give it one.
//!
//! Commits are [`TICK`] apart. The space between two ticks says how far back a commit is taken to be ordered (see
//! [`Timestamp::reaching`]). It never changes how two commits compare.

/// A point in the order of commits. 0 is before the first commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// The distance from one commit to the next.
pub const TICK: u64 = 1 << 8;
/// Distances below this are exact. Above it, each power of two is divided into `1 << FRACTION_BITS` parts.
const EXACT: u64 = 16;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const FRACTION_BITS: u32 = 2;
/// The bits of a moment between two commits. No commit reaches back that far.
const AFTER: u64 = TICK - 1;

impl Timestamp {
    /// Later than every possible commit.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);
    /// The latest commit that is accepted from outside: halfway to the values that mean something else in a stamp.
    pub const LAST: Timestamp = Timestamp(ABORTED_BIT >> 1);

    /// Returns the tick itself.
    #[inline(always)]
    pub fn tick(self) -> Timestamp {
        Timestamp(self.0 & !AFTER)
    }

    /// Returns the moment just after this commit, before the next.
    #[inline(always)]
    pub fn after(self) -> Timestamp {
        Timestamp(self.0 | AFTER)
    }

    /// Returns this commit with the note that it is ordered as early as `back`. A distance that cannot be stored
    /// exactly is rounded to the safe side, up to a quarter of the distance earlier.
    pub fn reaching(self, back: Timestamp) -> Timestamp {
        debug_assert!(back <= self.tick());
        let ticks = (self.tick().0 - back.tick().0) / TICK;
        let code = if ticks < EXACT {
            ticks
        } else {
            let exponent = ticks.ilog2();
            let part = 1 << (exponent - FRACTION_BITS);
            // Rounded up, which may carry into the exponent.
            let parts = ticks.div_ceil(part);
            EXACT + (u64::from(exponent - EXACT_BITS) << FRACTION_BITS) + parts - (1 << FRACTION_BITS)
        };
        debug_assert!(code < AFTER);
        Timestamp(self.tick().0 | code)
    }

    /// Returns how early the commit is ordered.
    pub fn reach(self) -> Timestamp {
        let code = self.0 & AFTER;
        debug_assert!(code != AFTER, "a commit's timestamp");
        let ticks = if code < EXACT {
            code
        } else {
            let (exponent, parts) = ((code - EXACT) >> FRACTION_BITS, (code - EXACT) % (1 << FRACTION_BITS));
            ((1 << FRACTION_BITS) + parts) << (exponent + u64::from(EXACT_BITS - FRACTION_BITS))
        };
        Timestamp(self.tick().0.saturating_sub(ticks.saturating_mul(TICK)))
    }
}

/// An open transaction's mark on its versions. It names the descriptor that tells the outcome, and the number of the
/// transaction among those of the descriptor, so that a mark that outlives its transaction is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u64);

/// The stamp word of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub u64);

const TAG_BIT: u64 = 1 << 63;
const ABORTED_BIT: u64 = 1 << 62;
const SEQUENCE_BITS: u32 = 42;
const DESCRIPTOR_BITS: u32 = 20;
const _: () = assert!(DESCRIPTOR_BITS + SEQUENCE_BITS == 62);

impl Tag {
    /// The tag of no transaction. It equals no stamp that a reader can meet.
    pub const NONE: Tag = Tag(0);
    /// The number of descriptors that a tag can name.
    pub const DESCRIPTORS_MAX: u32 = 1 << DESCRIPTOR_BITS;

    /// Makes the tag of transaction number `sequence` of descriptor `descriptor`.
    #[inline(always)]
    pub fn new(descriptor: u32, sequence: u64) -> Tag {
        debug_assert!(descriptor < Tag::DESCRIPTORS_MAX);
        Tag(TAG_BIT | u64::from(descriptor) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1))
    }

    /// Returns the descriptor that the tag names.
    #[inline(always)]
    pub fn descriptor(self) -> u32 {
        debug_assert!(self.0 & TAG_BIT != 0);
        ((self.0 & !TAG_BIT) >> SEQUENCE_BITS) as u32
    }

    /// Returns the transaction's number among those of its descriptor.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }

    /// Returns the tag in a word that `word` returned.
    pub fn from_word(word: u64) -> Tag {
        Tag(word)
    }

    /// Returns the word to store in a version or a descriptor.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the stamp of the transaction's versions until it ends.
    #[inline(always)]
    pub fn stamp(self) -> Stamp {
        Stamp(self.0)
    }
}

impl Stamp {
    /// The stamp of a slot's own place while it is unused.
    pub const FREE: Stamp = Stamp(0);

    /// Returns the stamp of a version that the transaction of `tag` has rolled back. It is later than every timestamp,
    /// so the version is invisible to all. It equals no other stamp, so a rolled-back version in a place is told from a
    /// later one.
    pub fn aborted(tag: Tag) -> Stamp {
        Stamp(ABORTED_BIT | tag.0 & (ABORTED_BIT - 1))
    }

    /// Returns the creator's tag, if the creator has not yet stamped the version.
    #[inline(always)]
    pub fn tag(self) -> Option<Tag> {
        (self.0 & TAG_BIT != 0).then_some(Tag(self.0))
    }

    /// Returns whether the version was committed at or before `at`. A tag has the highest bit set, so it is later than
    /// any time.
    #[inline(always)]
    pub fn is_committed_by(self, at: Timestamp) -> bool {
        self.0 <= at.0
    }

    /// Returns the commit timestamp, if the version has one.
    #[inline(always)]
    pub fn timestamp(self) -> Option<Timestamp> {
        (self.0 < ABORTED_BIT).then_some(Timestamp(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a tag gives back its descriptor and is invisible at every time.
    #[test]
    fn tags() {
        for descriptor in [0, 1, Tag::DESCRIPTORS_MAX - 1] {
            let tag = Tag::new(descriptor, u64::MAX);
            assert_eq!(tag.descriptor(), descriptor);
            let stamp = Stamp(tag.word());
            assert_eq!(stamp.tag(), Some(tag));
            assert!(!stamp.is_committed_by(Timestamp(ABORTED_BIT - 1)));
            assert_eq!(stamp.timestamp(), None);
        }
        let aborted = Stamp::aborted(Tag::new(3, 5));
        assert!(aborted.tag().is_none() && aborted.timestamp().is_none());
        assert_ne!(aborted, Stamp::aborted(Tag::new(3, 6)));
        assert_eq!(Stamp(7).timestamp(), Some(Timestamp(7)));
    }

    /// Proves that a commit's reach is never later than asked, and at most a quarter of the distance too early.
    #[test]
    fn reaches() {
        let at = Timestamp(TICK << 46);
        for ticks in (0..100).chain((4..45).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])) {
            let back = Timestamp(at.0 - ticks * TICK);
            let stamped = at.reaching(back);
            assert!(stamped.tick() == at && at <= stamped && stamped < at.after());
            assert!(stamped.reach() <= back, "{ticks}");
            assert!((back.0 - stamped.reach().0) / TICK <= ticks / 4, "{ticks}");
            assert_eq!(stamped.reaching(stamped.reach()), stamped, "{ticks}");
        }
        assert_eq!(Timestamp(3 * TICK).reach(), Timestamp(3 * TICK));
        assert_eq!(Timestamp(3 * TICK).reaching(Timestamp(0)).reach(), Timestamp(0));
    }
}
