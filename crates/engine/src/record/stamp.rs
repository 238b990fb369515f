//! What a version says of its creation: a commit timestamp, or the transaction that is about to give it one.
//!
//! Commits are ticks of [`TICK`] apart. The space between two ticks says how far back a commit is to be
//! taken for ordered (see [`Timestamp::reaching`]); it never changes how two commits compare.

/// A point in the order of commits; 0 is before the first commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// From one commit to the next.
pub const TICK: u64 = 1 << 8;
/// Distances below this are exact; above, a power of two is divided into `1 << FRACTION_BITS` parts.
const EXACT: u64 = 16;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const FRACTION_BITS: u32 = 2;
/// Of a moment between two commits. No commit reaches that far.
const AFTER: u64 = TICK - 1;

impl Timestamp {
    /// Later than all that could happen.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);
    /// No commit that is read from outside may be later: half of the way to where stamps mean something else.
    pub const LAST: Timestamp = Timestamp(ABORTED_BIT >> 1);

    /// The tick itself.
    #[inline(always)]
    pub fn tick(self) -> Timestamp {
        Timestamp(self.0 & !AFTER)
    }

    /// Just after this commit, and before the next.
    #[inline(always)]
    pub fn after(self) -> Timestamp {
        Timestamp(self.0 | AFTER)
    }

    /// This commit, with the note that it is ordered as early as `back`, or up to a quarter of the distance
    /// earlier: what cannot be said exactly is said on the safe side.
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

    /// How early the commit is ordered.
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

/// An open transaction's mark on its versions: which descriptor tells its outcome, and which of
/// that descriptor's transactions it is, so that a mark outliving its transaction is recognised.
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
    /// No transaction's tag: equal to no stamp that a reader can meet.
    pub const NONE: Tag = Tag(0);
    /// Descriptors that a tag can name.
    pub const DESCRIPTORS_MAX: u32 = 1 << DESCRIPTOR_BITS;

    /// The tag of descriptor `descriptor`'s transaction number `sequence`.
    #[inline(always)]
    pub fn new(descriptor: u32, sequence: u64) -> Tag {
        debug_assert!(descriptor < Tag::DESCRIPTORS_MAX);
        Tag(TAG_BIT | u64::from(descriptor) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1))
    }

    /// Which descriptor it names.
    #[inline(always)]
    pub fn descriptor(self) -> u32 {
        debug_assert!(self.0 & TAG_BIT != 0);
        ((self.0 & !TAG_BIT) >> SEQUENCE_BITS) as u32
    }

    /// The transaction's number among those of its descriptor.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }

    /// The tag that a word written by `word` holds.
    pub fn from_word(word: u64) -> Tag {
        Tag(word)
    }

    /// The word to store in a version or a descriptor.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The stamp of the transaction's versions until it ends.
    #[inline(always)]
    pub fn stamp(self) -> Stamp {
        Stamp(self.0)
    }
}

impl Stamp {
    /// The slot's own place is unused.
    pub const FREE: Stamp = Stamp(0);

    /// Rolled back by the transaction of `tag`: later than every timestamp, hence invisible to all,
    /// and like no other stamp, so that a place's rolled-back version is told from a later one.
    pub fn aborted(tag: Tag) -> Stamp {
        Stamp(ABORTED_BIT | tag.0 & (ABORTED_BIT - 1))
    }

    /// The creator's tag, if it had not stamped the version yet.
    #[inline(always)]
    pub fn tag(self) -> Option<Tag> {
        (self.0 & TAG_BIT != 0).then_some(Tag(self.0))
    }

    /// Committed at or before `at`. (A tag has the highest bit set, so it is later than any time.)
    #[inline(always)]
    pub fn is_committed_by(self, at: Timestamp) -> bool {
        self.0 <= at.0
    }

    /// The commit timestamp of a stamped version.
    #[inline(always)]
    pub fn timestamp(self) -> Option<Timestamp> {
        (self.0 < ABORTED_BIT).then_some(Timestamp(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag gives back its descriptor, and is invisible at every time.
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

    /// What a commit is said to reach back to is never later than it is, and at most a quarter too early.
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
