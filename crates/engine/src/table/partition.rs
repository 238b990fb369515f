//! Partitions of a database.

use super::key::{AsKey, Key, encode_sought};
use crate::index::{self, slice_of};

/// A part of a database. A transaction can have one or more partitions to itself: see
/// [`Txn::declare_partitions`](crate::Txn::declare_partitions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u32);

impl Partition {
    pub(crate) fn new(number: u32) -> Partition {
        debug_assert!(number < u64::BITS);
        Partition(number)
    }

    /// Returns the number: from 0 to [`LabOptions::partitions`](crate::LabOptions::partitions), exclusive.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Returns a key with the same leading bits as this key, enough to find the partition. `None` if it is no key.
pub(crate) fn leading<K: Key>(key: &impl AsKey<K>) -> Option<index::Key> {
    let slice = match key.short() {
        Some((slice, 8)) => slice,
        Some((slice, len)) if len < 8 => slice & !(u64::MAX >> (8 * len)),
        _ => {
            let mut bytes = Vec::new();
            encode_sought(key, &mut bytes).ok()?;
            slice_of(&bytes)
        }
    };
    Some(index::Key::from_u64(slice))
}
