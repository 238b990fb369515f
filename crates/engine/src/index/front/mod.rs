//! A hash table in front of a tree, of keys up to eight bytes: what it has is right, and what it has not is looked for in the
//! tree. README.md of the folder above has the argument.
//!
//! Called by [`TableIndex`](super::TableIndex), for tables that have one. Knows nothing of the tree behind it, whose
//! operations it is given as closures.
//!
//! Invariant: an entry of a bucket that is not latched is in the tree. A thread that changes one of a
//! bucket's keys in the tree holds the bucket's latch, taken before any latch of the tree, and never across a suspension.

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

/// Bytes of a bucket: what the slab's blocks must have.
pub(super) const BUCKET_BYTES: usize = crate::suspend::CACHE_LINE;

/// Whether a table has a hash table in front of its index, which finds most records by one look into memory where the index
/// takes one for each of its levels.
///
/// It serves lookups of single keys of up to eight bytes, by `get`, `get_many`, and writes of rows that are there. Scans, keys
/// that are not there, and longer keys are the index's alone. An absent key costs a look more than without, as does an insert.
///
/// It costs about 32 bytes of memory per record, and pays where most operations are on single keys of a table that is much
/// larger than the processor's caches. Transactions that run one after the other gain most by it, and those that a worker
/// interleaves less: both are faster, and the ratio between them falls. Memory counts against
/// [`Options::memory_limit_bytes`](crate::Options::memory_limit_bytes): at the limit it grows no more, and further keys are
/// found by the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Front {
    /// None: all keys are found by the index. The default.
    #[default]
    None,
    /// A hash table.
    Hash,
}

impl Front {
    /// All of them.
    pub const ALL: &'static [Front] = &[Front::None, Front::Hash];

    /// Its name in commands and messages.
    pub fn name(self) -> &'static str {
        match self {
            Front::None => "none",
            Front::Hash => "hash",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Front> {
        Front::ALL.iter().copied().find(|front| front.name() == name)
    }
}

impl std::str::FromStr for Front {
    type Err = String;

    /// The one of this name, as commands take it; else an error that says which names there are.
    fn from_str(name: &str) -> Result<Front, String> {
        let names = Front::ALL.iter().map(|front| front.name()).collect::<Vec<_>>();
        Front::named(name)
            .ok_or_else(|| format!("there is no front {name:?}; there are {}", names.join(" and ")))
    }
}

/// Buckets of an empty table: a tag has its key's length in place of the four bits by which these are told apart.
const BUCKETS_MIN: u64 = 1 << LENGTH_BITS;
const LENGTH_BITS: u32 = 4;
const _: () = assert!(KEY_BYTES_MAX < 1 << LENGTH_BITS);

/// Longer keys do not fit into an entry, and records do not have their keys to compare.
const KEY_BYTES_MAX: u32 = 8;

/// Keys per bucket above which a bucket is added. With two, 32 bytes per key, full buckets keep 1 to 2 of 100 keys out, and 6 of
/// 100 when they are inserted, of which lookups take in what there is room for later; with three, 21 bytes, 5 to 8 of 100 (16). A
/// key that is kept out costs more than its own descent: transactions that are left equally often stay in step, and the worker's
/// branches are predicted.
const LOAD: u64 = 2;

/// Keys until growing is tried again when memory was refused.
const PATIENCE: u64 = 1024;

/// A key, mixed, and its length: equal for equal keys alone, as mixing is a bijection, and the bits that make place for the
/// length are those of the bucket's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    /// Which bucket.
    hash: u64,
    /// What the bucket's entry has.
    word: u64,
}

impl Tag {
    #[inline(always)]
    fn of(key: &Key) -> Option<Tag> {
        if key.len > KEY_BYTES_MAX {
            return None;
        }
        // (The finisher of SplitMix64: neighbours, and keys that differ in high bits alone, come to lie anywhere.)
        let mut hash = key.slice;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        Some(Tag { hash, word: hash & !(BUCKETS_MIN - 1) | u64::from(key.len) })
    }
}

/// A hash table that grows a bucket at a time (linear hashing: Litwin, VLDB 1980), without chains.
pub(super) struct HashFront {
    /// Where bucket 0 lies; the others follow.
    buckets: *mut u8,
    /// Buckets in use, `BUCKETS_MIN` at least: only grows.
    len: AtomicU64,
    slab: Slab,
    growth: CachePadded<Growth>,
}

// SAFETY: the buckets are in the slab, which is Sync; everything there is atomic.
unsafe impl Send for HashFront {}
// SAFETY: as above.
unsafe impl Sync for HashFront {}

struct Growth {
    /// Keys of the tree that could have an entry, whether they have one or not.
    keys: AtomicU64,
    /// How many keys call for another bucket.
    next_at: AtomicU64,
    /// Held while a bucket is added.
    latch: Latch,
}

impl HashFront {
    /// An empty one, of blocks of `slab`, [`BUCKET_BYTES`] each, which is its own.
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

    /// The bucket to look for a key in; `None`: the tree alone has it. The bucket is the key's own, or was, so that more may
    /// be found elsewhere.
    #[inline(always)]
    pub(super) fn bucket_of(&self, key: &Key) -> Option<u32> {
        Tag::of(key).map(|tag| self.number_of(tag))
    }

    /// The record of a key, if this bucket has it.
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
            held.put(tag.word, id.0); // where it is full, the tree alone has the key
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

    /// Takes a key in that was not here when the tree had it, if there is room by now. `in_tree`: what the tree has.
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
        // A lookup waits for nobody: the next one may do it.
        let Some(mut held) = self.bucket(number).try_hold() else { return };
        if self.number_of(tag) == number
            && !held.is_full()
            && held.place(tag.word).is_none()
            && let Some(id) = in_tree()
        {
            held.put(tag.word, id.0);
        }
    }

    /// The key's bucket, latched: it stays the key's own as long as that is held.
    fn hold(&self, tag: Tag) -> Held<'_> {
        loop {
            let number = self.number_of(tag);
            let held = self.bucket(number).hold();
            // Who takes entries out of a bucket publishes the new length before the latch is free.
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

    /// A bucket's address, also good for prefetching.
    #[inline(always)]
    pub(super) fn at(&self, number: u32) -> *const u8 {
        self.buckets.wrapping_add(number as usize * BUCKET_BYTES)
    }

    #[inline(always)]
    fn bucket(&self, number: u32) -> &Bucket {
        debug_assert!(u64::from(number) < self.slab.used());
        // SAFETY: a block of the slab, of the size and alignment of a bucket, which is atomics only.
        unsafe { &*self.at(number).cast::<Bucket>() }
    }
}

/// The greatest power of two that is not above `len`: buckets behind it were split off those that many places before.
#[inline(always)]
fn half_of(len: u64) -> u64 {
    debug_assert!(len >= BUCKETS_MIN);
    1 << (63 - len.leading_zeros())
}

// ---- growing
impl HashFront {
    /// The tree has a key more, of this bucket.
    fn added(&self, held: Held<'_>) {
        // Relaxed: when to grow is no more than a guess. Counted under the latch: before the key can be removed.
        let keys = self.growth.keys.fetch_add(1, Ordering::Relaxed) + 1;
        drop(held);
        if keys > self.growth.next_at.load(Ordering::Relaxed) {
            self.grow(keys);
        }
    }

    /// Adds one bucket, which takes its entries from the next one to be split; unless somebody is about either.
    #[cold]
    #[inline(never)]
    fn grow(&self, keys: u64) {
        let Some(_one_at_a_time) = self.growth.latch.try_lock() else { return };
        let len = self.len.load(Ordering::Relaxed); // changed under the latch only
        // (One may be left from a time before when the bucket to split was busy.)
        if self.slab.used() == len && self.slab.allocate_next().is_err() {
            // What does not fit any more is found by the tree.
            self.growth.next_at.store(keys + PATIENCE, Ordering::Relaxed);
            return;
        }
        let half = half_of(len);
        let mut into = self.bucket(len as u32).hold(); // nobody else knows of it
        let Some(mut from) = self.bucket((len - half) as u32).try_hold() else { return };
        for place in 0..ENTRIES {
            if let Some((word, id)) = from.entry(place).filter(|(word, _)| word & half != 0) {
                into.put(word, id);
                from.clear(place);
            }
        }
        drop(into);
        // Release: pairs with the Acquire in `number_of`. Before `from` is free: see `hold`.
        self.len.store(len + 1, Ordering::Release);
        drop(from);
        self.growth.next_at.store(LOAD * (len + 1), Ordering::Relaxed); // as in `added`
    }
}
