//! A hash table before a tree, for keys of up to eight bytes. What it finds is right; what it does not find is looked
//! for in the tree. README.md of the folder above has the argument.
//!
//! [`TableIndex`](super::TableIndex) calls it, for tables that have a front. It knows nothing of the tree behind it,
//! whose operations it gets as closures.
//!
//! Invariant: an entry of a bucket that is not latched is in the tree. A thread that changes one of a bucket's keys in
//! the tree holds the bucket's latch. It takes the latch before any latch of the tree, and never holds it across a
//! suspension.

mod bucket;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
#[cfg(test)]
mod tests_structure;

use super::{Inserted, Key, RecordId};
use crate::memory::{OutOfMemory, Slab};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, Latch};
use bucket::{Bucket, ENTRIES, Held};

/// The bytes of a bucket. The slab's blocks must have this size.
pub(super) const BUCKET_BYTES: usize = crate::suspend::CACHE_LINE;

/// Whether a table has a hash table before its index. The hash table finds most records by one look into memory, where
/// the index takes one look for each of its levels.
///
/// It serves lookups of single keys of up to eight bytes, by `get`, `get_many`, and writes of existing rows. Scans,
/// absent keys and longer keys go to the index alone. An absent key costs one look more than without a front, and so
/// does an insert.
///
/// It costs about 32 bytes of memory per record. It pays if most operations are on single keys of a table that is much
/// larger than the processor's caches. Transactions that run one after the other gain most, and transactions that a
/// worker interleaves gain less: both are faster, and the ratio between them falls. Its memory counts against
/// [`Options::memory_limit_bytes`](crate::Options::memory_limit_bytes). At the limit it stops growing, and the index
/// finds the further keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Front {
    /// No front: the index finds all keys. The default.
    #[default]
    None,
    /// A hash table.
    Hash,
}

impl Front {
    /// All fronts.
    pub const ALL: &'static [Front] = &[Front::None, Front::Hash];

    /// Returns the name in commands and messages.
    pub fn name(self) -> &'static str {
        match self {
            Front::None => "none",
            Front::Hash => "hash",
        }
    }

    /// Returns the front of this name.
    pub fn named(name: &str) -> Option<Front> {
        Front::ALL.iter().copied().find(|front| front.name() == name)
    }
}

impl std::str::FromStr for Front {
    type Err = String;

    /// Returns the front of this name, as commands take it. The error says which names there are.
    fn from_str(name: &str) -> Result<Front, String> {
        let names = Front::ALL.iter().map(|front| front.name()).collect::<Vec<_>>();
        Front::named(name)
            .ok_or_else(|| format!("there is no front {name:?}; there are {}", names.join(" and ")))
    }
}

/// The buckets of an empty table. A tag has its key's length in place of the four bits that tell these buckets apart.
const BUCKETS_MIN: u64 = 1 << LENGTH_BITS;
const LENGTH_BITS: u32 = 4;
const _: () = assert!(KEY_BYTES_MAX < 1 << LENGTH_BITS);

/// The longest key in bytes. A longer key does not fit into an entry, and a record does not have its key to compare.
const KEY_BYTES_MAX: u32 = 8;

/// The keys per bucket above which a bucket is added. With two, a key costs 32 bytes, and full buckets keep out 1 to 2
/// of 100 keys. At the insertion they keep out 6 of 100, and later lookups take in those for which there is room. With
/// three, a key costs 21 bytes, and full buckets keep out 5 to 8 of 100 keys (16 at the insertion). A key that is kept
/// out costs more than its own descent: transactions that are left equally often stay in step, and the worker's
/// branches are predicted.
const LOAD: u64 = 2;

/// The number of keys after which growing is tried again when memory was refused.
const PATIENCE: u64 = 1024;

/// A mixed key and its length. Tags in one bucket are equal only for equal keys, because mixing is a bijection, and the
/// bits that make place for the length are those of the bucket's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    /// The mixed key, which chooses the bucket.
    hash: u64,
    /// The word in the bucket's entry.
    word: u64,
}

impl Tag {
    #[inline(always)]
    fn of(key: &Key) -> Option<Tag> {
        if key.len > KEY_BYTES_MAX {
            return None;
        }
        // This is the finisher of SplitMix64. It spreads neighboring keys, and keys that differ only in high bits.
        let mut hash = key.slice;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        Some(Tag { hash, word: hash & !(BUCKETS_MIN - 1) | u64::from(key.len) })
    }
}

/// A hash table that grows a bucket at a time (linear hashing: Litwin, VLDB 1980), without chains.
pub(super) struct HashFront {
    /// The address of bucket 0; the others follow it.
    buckets: *mut u8,
    /// The number of buckets in use, at least `BUCKETS_MIN`. It only grows.
    len: AtomicU64,
    slab: Slab,
    growth: CachePadded<Growth>,
}

// SAFETY: the buckets are in the slab, which is Sync, and everything there is atomic.
unsafe impl Send for HashFront {}
// SAFETY: as for Send, everything that is reached through `buckets` is atomic.
unsafe impl Sync for HashFront {}

struct Growth {
    /// The keys of the tree that could have an entry, whether they have one or not.
    keys: AtomicU64,
    /// The number of keys that calls for another bucket.
    next_at: AtomicU64,
    /// Held while a bucket is added.
    latch: Latch,
}

impl HashFront {
    /// Makes an empty table of blocks of `slab`, of [`BUCKET_BYTES`] each. The slab is the table's own.
    pub(super) fn new(slab: Slab) -> Result<HashFront, OutOfMemory> {
        for number in 0..BUCKETS_MIN {
            let id = slab.allocate_next()?;
            assert!(u64::from(id) == number + 1, "ids ascend");
        }
        let buckets = slab.at(1);
        assert!(buckets.addr().is_multiple_of(BUCKET_BYTES), "the slab's blocks are aligned");
        let growth = Growth {
            keys: AtomicU64::new(0),
            next_at: AtomicU64::new(LOAD * BUCKETS_MIN),
            latch: Latch::new(),
        };
        Ok(HashFront { buckets, len: AtomicU64::new(BUCKETS_MIN), slab, growth: CachePadded::new(growth) })
    }

    /// Returns the bucket in which to look for a key, or `None` if only the tree can have the key. The bucket is or was
    /// the key's own, so the key may be elsewhere by now.
    #[inline(always)]
    pub(super) fn bucket_of(&self, key: &Key) -> Option<u32> {
        Tag::of(key).map(|tag| self.number_of(tag))
    }

    /// Returns the record of a key, if this bucket has it.
    #[inline(always)]
    pub(super) fn find(&self, number: u32, key: &Key) -> Option<RecordId> {
        self.bucket(number).find(Tag::of(key)?.word).map(RecordId)
    }

    /// Inserts a key into the tree, and here.
    pub(super) fn insert(
        &self,
        key: &Key,
        id: RecordId,
        into_tree: impl FnOnce() -> Result<Inserted, OutOfMemory>,
    ) -> Result<Inserted, OutOfMemory> {
        let Some(tag) = Tag::of(key) else { return into_tree() };
        let mut held = self.hold(tag);
        let inserted = into_tree();
        if inserted == Ok(Inserted::New) {
            held.put(tag.word, id.0); // if it is full, only the tree has the key
            self.added(held);
        }
        inserted
    }

    /// Removes a key from here, and from the tree.
    pub(super) fn remove(&self, key: &Key, id: RecordId, from_tree: impl FnOnce() -> bool) -> bool {
        let Some(tag) = Tag::of(key) else { return from_tree() };
        let mut held = self.hold(tag);
        if let Some(place) = held.place(tag.word)
            && held.entry(place) == Some((tag.word, id.0))
        {
            held.clear(place);
        }
        let removed = from_tree();
        if removed {
            self.growth.keys.fetch_sub(1, Ordering::Relaxed); // as in `added`
        }
        removed
    }

    /// Adds a key that was not here when the tree had it, if there is room now. `in_tree` asks the tree.
    #[inline(always)]
    pub(super) fn note(&self, key: &Key, in_tree: impl FnOnce() -> Option<RecordId>) {
        let Some(tag) = Tag::of(key) else { return };
        let number = self.number_of(tag);
        if self.bucket(number).has_room() {
            self.note_tag(tag, number, in_tree);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_tag(&self, tag: Tag, number: u32, in_tree: impl FnOnce() -> Option<RecordId>) {
        // A lookup does not wait for other threads. The next lookup may do it.
        let Some(mut held) = self.bucket(number).try_hold() else { return };
        if self.number_of(tag) == number
            && !held.is_full()
            && held.place(tag.word).is_none()
            && let Some(id) = in_tree()
        {
            held.put(tag.word, id.0);
        }
    }

    /// Latches the key's bucket, which stays the key's own as long as the latch is held.
    fn hold(&self, tag: Tag) -> Held<'_> {
        loop {
            let number = self.number_of(tag);
            let held = self.bucket(number).hold();
            // A thread that takes entries out of a bucket publishes the new length before it releases the latch.
            if self.number_of(tag) == number {
                return held;
            }
        }
    }

    #[inline(always)]
    fn number_of(&self, tag: Tag) -> u32 {
        // Acquire: pairs with the Release in `grow`: the last bucket's entries are there.
        let len = self.len.load(Ordering::Acquire);
        let low = half_of(len) - 1;
        let number = tag.hash & (low << 1 | 1);
        (if number < len { number } else { number & low }) as u32
    }

    /// Returns a bucket's address, which may also be prefetched.
    #[inline(always)]
    pub(super) fn at(&self, number: u32) -> *const u8 {
        self.buckets.wrapping_add(number as usize * BUCKET_BYTES)
    }

    #[inline(always)]
    fn bucket(&self, number: u32) -> &Bucket {
        debug_assert!(u64::from(number) < self.slab.used());
        // SAFETY: this is a block of the slab, of the size and alignment of a bucket, which consists of atomics only.
        unsafe { &*self.at(number).cast::<Bucket>() }
    }
}

/// Returns the greatest power of two that is not above `len`. A bucket from there on was split off the bucket that many
/// places before it.
#[inline(always)]
fn half_of(len: u64) -> u64 {
    debug_assert!(len >= BUCKETS_MIN);
    1 << (63 - len.leading_zeros())
}

// ---- growing
impl HashFront {
    /// Counts a key that the tree has gained, of this bucket, and adds a bucket if it is time.
    fn added(&self, held: Held<'_>) {
        // Relaxed: when to grow is only a guess. The key is counted under the latch, before it can be removed.
        let keys = self.growth.keys.fetch_add(1, Ordering::Relaxed) + 1;
        drop(held);
        if keys > self.growth.next_at.load(Ordering::Relaxed) {
            self.grow(keys);
        }
    }

    /// Adds one bucket, which takes its entries from the next bucket to be split. Does nothing if another thread grows
    /// the table or holds the bucket to split.
    #[cold]
    #[inline(never)]
    fn grow(&self, keys: u64) {
        let Some(_one_at_a_time) = self.growth.latch.try_lock() else { return };
        let len = self.len.load(Ordering::Relaxed); // changed under the latch only
        // A bucket may be left from an earlier attempt, when the bucket to split was busy.
        if self.slab.used() == len && self.slab.allocate_next().is_err() {
            // The tree finds the keys that no longer fit.
            self.growth.next_at.store(keys + PATIENCE, Ordering::Relaxed);
            return;
        }
        let half = half_of(len);
        let mut into = self.bucket(len as u32).hold(); // no other thread knows of it
        let Some(mut from) = self.bucket((len - half) as u32).try_hold() else { return };
        for place in 0..ENTRIES {
            if let Some((word, id)) = from.entry(place).filter(|(word, _)| word & half != 0) {
                into.put(word, id);
                from.clear(place);
            }
        }
        drop(into);
        // Release: pairs with the Acquire in `number_of`. This precedes the release of `from`: see `hold`.
        self.len.store(len + 1, Ordering::Release);
        drop(from);
        self.growth.next_at.store(LOAD * (len + 1), Ordering::Relaxed); // as in `added`
    }
}
