//! Cuckoo hashing (Pagh, Rodler, ESA 2001; J. Algorithms 2004): an entry has two buckets of four places, and moves to its other one
//! where room is needed (Fan, Andersen, Kaminsky, NSDI 2013; Li, Andersen, Kaminsky, Freedman, EuroSys 2014).

use super::bucket::{ENTRIES, tag_of};
use super::latched::Latched;
use super::{Hashed, Placement};
use crate::suspend::Suspend;

pub use super::NODE_BYTES;

/// Cuckoo hashing.
pub type Cuckoo = Hashed<TwoBuckets>;

/// A home, and another bucket that the tag leads to.
#[derive(Debug)]
pub struct TwoBuckets;

/// Buckets that are looked at for one with room, at most.
const PATH_MAX: usize = 64;
/// In place of the step before the first.
const NONE: u8 = u8::MAX;

/// A bucket that an entry could be moved to, from a place of the bucket of an earlier step.
#[derive(Clone, Copy)]
struct Step {
    bucket: u8,
    before: u8,
    at: u8,
}

/// The other bucket of an entry with this meta: from each of its two it leads to the other one.
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

    /// For both buckets.
    #[inline(always)]
    fn ask<S: Suspend>(index: &Cuckoo, segment: u32, home: usize, meta: u16, s: &mut S) -> bool {
        let leave = s.miss::<1>(index.bucket_at(segment, home));
        s.miss::<1>(index.bucket_at(segment, other(index, home, meta))) | leave
    }

    /// Moves entries, each to its other bucket. The path is searched by breadth, so that few are moved.
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

/// Moves entries along the path to the last of these steps, the last one first. Returns the bucket where it begins, which has room
/// then.
fn move_along(segment: &mut Latched<'_, TwoBuckets>, steps: &[Step]) -> usize {
    let mut to = *steps.last().expect("a path has an end");
    while to.before != NONE {
        let from = steps[usize::from(to.before)];
        let (source, at) = (usize::from(from.bucket), usize::from(to.at));
        // (The home of what is moved is one of the two buckets.)
        segment.relocate(source, (source, at), to.bucket.into());
        to = from;
    }
    to.bucket.into()
}
