//! Hopscotch hashing (Herlihy, Shavit, Tzafrir, DISC 2008). An entry lies in the neighborhood of its home, 64 places.
//! A word of the home says in which of these places its entries are. A free place that is too far away is moved closer
//! by moves of other entries.

use super::bucket::{Bucket, ENTRIES};
use super::latched::Latched;
use super::{Hashed, Placement};
use crate::suspend::Suspend;

pub use super::NODE_BYTES;

/// Hopscotch hashing.
pub type Hopscotch = Hashed<Neighbourhood>;

/// The placement of hopscotch hashing: the home, and the buckets behind it.
#[derive(Debug)]
pub struct Neighbourhood;

/// The buckets of a neighborhood. Each of their places has a bit of a word.
const BUCKETS: usize = u64::BITS as usize / ENTRIES;

/// Returns the bucket `distance` places behind another one of its segment. The first bucket follows the last.
#[inline(always)]
fn behind(index: &Hopscotch, bucket: usize, distance: usize) -> usize {
    (bucket + distance) & (index.bucket_count() - 1)
}

impl Placement for Neighbourhood {
    const HAS_HOPS: bool = true;

    fn reach(buckets: usize) -> usize {
        BUCKETS.min(buckets)
    }

    #[inline(always)]
    fn bucket(index: &Hopscotch, home: usize, _: u16, nth: usize) -> usize {
        behind(index, home, nth)
    }

    /// Requests the home and its word.
    #[inline(always)]
    fn ask<S: Suspend>(index: &Hopscotch, segment: u32, home: usize, _: u16, s: &mut S) -> bool {
        let leave = s.miss::<1>(index.hops_of(segment, home));
        s.miss::<1>(index.bucket_at(segment, home)) | leave
    }

    /// Looks for the first bucket with room, and brings the room closer, in each move as much as possible.
    fn make_room(segment: &mut Latched<'_, Self>, home: usize, _: u16) -> Option<usize> {
        let index = segment.index;
        let distances = index.reach()..index.bucket_count();
        let mut distance = distances.into_iter().find(|far| segment.has_room(behind(index, home, *far)))?;
        while distance >= index.reach() {
            let room = behind(index, home, distance);
            let (back, moved) = (1..index.reach()).rev().find_map(|back| {
                let bucket = behind(index, home, distance - back);
                Some((back, movable(segment, bucket, back)?))
            })?;
            let (owner, at) = moved;
            segment.relocate(owner, (behind(index, home, distance - back), at), room);
            distance -= back;
        }
        Some(behind(index, home, distance))
    }
}

/// Returns the home and place of an entry of a bucket that may also be `back` buckets further behind.
fn movable(segment: &Latched<'_, Neighbourhood>, bucket: usize, back: usize) -> Option<(usize, usize)> {
    let index = segment.index;
    (0..index.reach() - back).find_map(|distance| {
        let home = behind(index, bucket, index.bucket_count() - distance);
        let places = index.places_in(segment.number, home, distance);
        Bucket::places(places).next().map(|at| (home, at))
    })
}
