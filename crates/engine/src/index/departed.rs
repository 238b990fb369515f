//! Keys that have left an index although a transaction is open that began before they were deleted.
//!
//! Such a transaction finds nothing under the key, and the key had no value in its snapshot. The transaction must not
//! conclude that the key was never written. An index therefore notes here when the latest of these keys was deleted:
//! for all keys together, and for places that keys' hashes choose.
//!
//! Invariants:
//! - A deletion is noted here before its key leaves the index. A thread that does not find the key therefore finds the
//!   note.
//! - Times only rise. A place may name a later deletion of another key, but never an earlier deletion.

use super::{Key, mixed};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// The number of places of an index. They take 2 KiB, and are made when the first key departs.
const PLACES: usize = 256;

/// The departed keys of one index.
#[derive(Debug, Default)]
pub struct Departed {
    newest: AtomicU64,
    places: OnceLock<Box<[AtomicU64]>>,
}

impl Departed {
    /// Notes that `key`, deleted at this time, is about to leave the index.
    pub fn note(&self, key: &Key, deleted: u64) {
        let places = self.places.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        places[place_of(key)].fetch_max(deleted, Ordering::AcqRel); // pairs with the Acquire in `is_later`
        // Release, after the place: a thread that sees this looks there. Pairs with the Acquire in `newest`.
        self.newest.fetch_max(deleted, Ordering::AcqRel);
    }

    /// Returns when the latest of these keys was deleted, or 0 if there is none.
    #[inline(always)]
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire) // pairs with the Release in `note`
    }

    /// Returns whether `key` may have departed, deleted after `time`.
    #[inline(always)]
    pub fn is_later(&self, key: &Key, time: u64) -> bool {
        self.newest() > time && self.is_later_at(key, time)
    }

    #[cold]
    fn is_later_at(&self, key: &Key, time: u64) -> bool {
        let place = |places: &[AtomicU64]| places[place_of(key)].load(Ordering::Acquire); // pairs with `note`
        self.places.get().is_some_and(|places| place(places) > time)
    }
}

fn place_of(key: &Key) -> usize {
    mixed::mix(key) as usize % PLACES
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Proves that a departed key is found at its time and before, and that keys of other places are not.
    #[test]
    fn times() {
        let departed = Departed::default();
        let keys: Vec<Key> = (0..PLACES as u64).map(Key::from_u64).collect();
        assert!(keys.iter().all(|key| !departed.is_later(key, 0)));
        departed.note(&keys[3], 20);
        departed.note(&keys[3], 10);
        assert_eq!(departed.newest(), 20);
        assert!(departed.is_later(&keys[3], 19) && !departed.is_later(&keys[3], 20));
        let others = keys.iter().filter(|key| place_of(key) != place_of(&keys[3]));
        assert!(
            others.clone().count() > PLACES / 2 && others.into_iter().all(|key| !departed.is_later(key, 0))
        );
    }
}
