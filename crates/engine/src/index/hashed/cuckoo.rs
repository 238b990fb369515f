//! Cuckoo hashing (Pagh, Rodler, ESA 2001; J. Algorithms 2004). An entry has two buckets of four places, and moves to
//! its other bucket where room is needed (Fan, Andersen, Kaminsky, NSDI 2013; Li, Andersen, Kaminsky, Freedman, EuroSys
//! 2014).

use super::bucket::{ENTRIES, tag_of};
use super::latched::Latched;
use super::{Hashed, Placement};
use crate::suspend::Suspend;

pub use super::NODE_BYTES;

/// Cuckoo hashing.
pub type Cuckoo = Hashed<TwoBuckets>;

/// The placement of cuckoo hashing: a home, and another bucket to which the tag leads.
#[derive(Debug)]
pub struct TwoBuckets;

/// The most buckets that are searched for one with room.
const PATH_MAX: usize = 64;
/// The mark of a first step, in place of the step before.
const NONE: u8 = u8::MAX;

/// A bucket to which an entry could be moved from a place of an earlier step's bucket.
#[derive(Clone, Copy)]
struct Step {
    bucket: u8,
    before: u8,
    at: u8,
}

/// Returns the other bucket of an entry with this meta. From each of its two buckets, this leads to the other.
#[inline(always)]
fn other(index: &Cuckoo, bucket: usize, meta: u16) -> usize {
    bucket ^ (usize::from(tag_of(meta)) & (index.bucket_count() - 1) | 1)
}

impl Placement for TwoBuckets {
    const HAS_HOPS: bool = false;

    fn reach(_: usize) -> usize {
        2
    }

    #[inline(always)]
    fn bucket(index: &Cuckoo, home: usize, meta: u16, nth: usize) -> usize {
        if nth == 0 { home } else { other(index, home, meta) }
    }

    /// Requests both buckets.
    #[inline(always)]
    fn ask<S: Suspend>(index: &Cuckoo, segment: u32, home: usize, meta: u16, s: &mut S) -> bool {
        let leave = s.miss::<1>(index.bucket_at(segment, home));
        s.miss::<1>(index.bucket_at(segment, other(index, home, meta))) | leave
    }

    /// Makes room by moving entries, each to its other bucket. The path is searched breadth-first, so that few entries
    /// are moved.
    fn make_room(segment: &mut Latched<'_, Self>, home: usize, meta: u16) -> Option<usize> {
        let index = segment.index;
        let mut steps = [Step { bucket: 0, before: NONE, at: 0 }; PATH_MAX];
        let (mut len, mut seen) = (0, 0u64);
        for bucket in index.buckets_of(home, meta) {
            steps[len] = Step { bucket: bucket as u8, before: NONE, at: 0 };
            (len, seen) = (len + 1, seen | 1 << bucket);
        }
        let mut next = 0;
        while next < len {
            let from = usize::from(steps[next].bucket);
            for at in 0..ENTRIES {
                let to = other(index, from, segment.bucket(from).entry(at).meta);
                if seen >> to & 1 != 0 || len == PATH_MAX {
                    continue;
                }
                steps[len] = Step { bucket: to as u8, before: next as u8, at: at as u8 };
                (len, seen) = (len + 1, seen | 1 << to);
                if segment.has_room(to) {
                    return Some(move_along(segment, &steps[..len]));
                }
            }
            next += 1;
        }
        None
    }
}

/// Moves entries along the path to the last of these steps, beginning with the last one. Returns the bucket where the
/// path begins, which then has room.
fn move_along(segment: &mut Latched<'_, TwoBuckets>, steps: &[Step]) -> usize {
    let mut to = *steps.last().expect("a path has an end");
    while to.before != NONE {
        let from = steps[usize::from(to.before)];
        let (source, at) = (usize::from(from.bucket), usize::from(to.at));
        // The home of the moved entry is one of the two buckets.
        segment.relocate(source, (source, at), to.bucket.into());
        to = from;
    }
    to.bucket.into()
}
