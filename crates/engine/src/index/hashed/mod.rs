//! Hash tables in segments that grow by linear hashing, whose readers take no latch: the kinds of index without an
//! order of keys. The kinds differ in where an entry may lie in its segment ([`Placement`]). README.md of this folder
//! says what their aims are, and why they are correct.
//!
//! They are called through [`Index`], by way of [`crate::index::TableIndex`].

mod bucket;
mod change;
pub mod cuckoo;
mod grow;
pub mod hopscotch;
mod latched;
mod search;
mod segment;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
#[cfg(test)]
mod tests_structure;
mod walk;

pub use search::Cursor;
pub use walk::Walk;

use super::atomic::AtomicU64 as Word;
use super::mixed;
use crate::epoch::Local;
use crate::index::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId};
use crate::memory::{Kind, OutOfMemory, Slab};
use crate::suspend::{CACHE_LINE, Suspend};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, CachePadded, Latch};
use bucket::{Bucket, ENTRIES, LIVE};
use latched::Latched;
use segment::{HEAD_BYTES, Head, STAMPS};
use std::marker::PhantomData;
use std::ops::Bound;

/// The bytes of a line of a stash. The blocks of the common slab must have this size.
pub const NODE_BYTES: usize = CACHE_LINE;

/// A segment has 2^6 buckets. These are so many keys that few segments are much fuller than others, and so few that a
/// split takes a moment.
const BUCKET_BITS: u32 = 6;
/// The most segments. A mark names a bucket by a number of 31 bits.
const SEGMENTS_MAX: u64 = 1 << 24;
const _: () = assert!(SEGMENTS_MAX << BUCKET_BITS <= 1 << 31);

/// The number of keys after which growing is tried again when memory was refused.
const PATIENCE: u64 = 1024;

/// The rule by which an entry may lie in places of its segment. These are plain functions, in which the kinds of this
/// folder differ.
pub trait Placement: Sized + Send + Sync + 'static {
    /// Whether a word of each bucket says where the entries are whose home it is.
    const HAS_HOPS: bool;

    /// Returns the number of buckets that an entry may be in, in segments of `buckets`.
    fn reach(buckets: usize) -> usize;

    /// Returns the `nth` bucket that an entry may be in, below the reach. The first one is its home.
    fn bucket(index: &Hashed<Self>, home: usize, meta: u16, nth: usize) -> usize;

    /// Requests what a lookup reads first.
    fn ask<S: Suspend>(index: &Hashed<Self>, segment: u32, home: usize, meta: u16, s: &mut S) -> bool;

    /// Moves other entries until one of an entry's buckets, which are all full, has room. Returns that bucket.
    fn make_room(segment: &mut Latched<'_, Self>, home: usize, meta: u16) -> Option<usize>;
}

/// An index without an order of keys. Dropping it gives its segments back, and leaves lines of stashes and keys to the
/// slab and the pools. [`Index::clear`] gives those back.
pub struct Hashed<P> {
    /// The address of the buckets of segment 0. Those of the others follow.
    buckets_at: *mut u8,
    /// The number of segments in use, at least one. It only grows.
    len: AtomicU64,
    /// The binary logarithm of the number of buckets in a segment.
    bits: u32,
    /// The number of buckets that an entry may be in.
    reach: u32,
    /// The other fields. They are apart, because an index of any kind is as large as the largest.
    rest: Box<Rest>,
    placement: PhantomData<fn() -> P>,
}

/// The fields that most lookups do not read.
struct Rest {
    /// The address of the head of segment 0, and that of its hop words, if it has such. Those of the other segments
    /// follow.
    heads_at: *mut u8,
    hops_at: *mut u8,
    fixed8: bool,
    /// A planted error, for tests.
    loses_stamps: bool,
    buckets: Slab,
    heads: Slab,
    hops: Option<Slab>,
    lines: Arc<Slab>,
    growth: CachePadded<Growth>,
}

// SAFETY: the addresses are of the slabs, which are Sync, and everything there is atomic.
unsafe impl<P> Send for Hashed<P> {}
// SAFETY: as for Send, everything that is reached through the addresses is atomic.
unsafe impl<P> Sync for Hashed<P> {}

struct Growth {
    /// The number of keys of the index.
    keys: AtomicU64,
    /// The number of keys that calls for another segment.
    next_at: AtomicU64,
    /// Held by the thread that adds a segment.
    latch: Latch,
}

impl<P: Placement> Hashed<P> {
    /// Makes an empty index whose stashes have lines of `lines`, of [`NODE_BYTES`] each. With `fixed8`, all keys have
    /// exactly eight bytes.
    pub fn new(lines: Arc<Slab>, fixed8: bool) -> Result<Self, OutOfMemory> {
        Hashed::limited(lines, fixed8, BUCKET_BITS)
    }

    /// Makes an empty index with 2 to the power of `bits` buckets in a segment.
    fn limited(lines: Arc<Slab>, fixed8: bool, bits: u32) -> Result<Self, OutOfMemory> {
        assert!(
            (1..=BUCKET_BITS).contains(&bits),
            "a key has two buckets, and a mark has room for their numbers"
        );
        let segments_max = (lines.capacity() >> bits).clamp(1, SEGMENTS_MAX) as u32;
        let reserve = |bytes| Slab::reserve(lines.memory(), Kind::Index, bytes, segments_max);
        let (buckets, heads) = (reserve(CACHE_LINE << bits)?, reserve(HEAD_BYTES)?);
        let hops = if P::HAS_HOPS { Some(reserve(size_of::<u64>() << bits)?) } else { None };
        for slab in [&buckets, &heads].into_iter().chain(&hops) {
            let id = slab.allocate_next()?;
            assert!(id == 1, "ids ascend from one");
        }
        let (buckets_at, heads_at) = (buckets.at(1), heads.at(1));
        let hops_at = hops.as_ref().map_or(std::ptr::null_mut(), |hops| hops.at(1));
        assert!(buckets_at.addr().is_multiple_of(CACHE_LINE), "the slab's blocks are aligned");
        assert!(heads_at.addr().is_multiple_of(HEAD_BYTES), "the slab's blocks are aligned");
        let growth =
            Growth { keys: AtomicU64::new(0), next_at: AtomicU64::new(load(bits)), latch: Latch::new() };
        let (growth, loses_stamps) = (CachePadded::new(growth), false);
        let rest = Rest { heads_at, hops_at, fixed8, loses_stamps, buckets, heads, hops, lines, growth };
        let (len, reach) = (AtomicU64::new(1), P::reach(1 << bits) as u32);
        Ok(Hashed { buckets_at, len, bits, reach, rest: Box::new(rest), placement: PhantomData })
    }

    /// Returns the number of buckets that an entry may be in.
    #[inline(always)]
    fn reach(&self) -> usize {
        self.reach as usize
    }

    /// Returns the number of buckets of a segment.
    #[inline(always)]
    fn bucket_count(&self) -> usize {
        1 << self.bits
    }

    /// Returns the segment to which a key with this number belongs.
    #[inline(always)]
    fn segment_of(&self, hash: u64) -> u32 {
        // Acquire: pairs with the Release in `split`: the last segment's entries are there.
        let len = self.len.load(Ordering::Acquire);
        let low = half_of(len) - 1;
        let number = hash & (low << 1 | 1);
        (if number < len { number } else { number & low }) as u32
    }

    /// Returns the bucket of its segment to which a key goes first.
    #[inline(always)]
    fn home_of(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.bits)) as usize
    }

    /// Returns the buckets that an entry may be in.
    fn buckets_of(&self, home: usize, meta: u16) -> impl Iterator<Item = usize> + use<'_, P> {
        (0..self.reach()).map(move |nth| P::bucket(self, home, meta, nth))
    }

    /// Returns a bucket's address, which may also be prefetched.
    #[inline(always)]
    fn bucket_at(&self, segment: u32, bucket: usize) -> *mut u8 {
        self.buckets_at.wrapping_add((((segment as usize) << self.bits) + bucket) * CACHE_LINE)
    }

    #[inline(always)]
    fn bucket(&self, segment: u32, bucket: usize) -> &Bucket {
        debug_assert!(u64::from(segment) < self.rest.buckets.used() && bucket < self.bucket_count());
        // SAFETY: this is within a block of the slab, of the size and alignment of a bucket, which consists of atomics
        // only.
        unsafe { &*self.bucket_at(segment, bucket).cast::<Bucket>() }
    }

    /// Returns the address of a segment's head, which may also be prefetched.
    #[inline(always)]
    fn head_at(&self, segment: u32) -> *mut u8 {
        self.rest.heads_at.wrapping_add(segment as usize * HEAD_BYTES)
    }

    #[inline(always)]
    fn head(&self, segment: u32) -> &Head {
        debug_assert!(u64::from(segment) < self.rest.heads.used());
        // SAFETY: this is a block of the slab, of the size and alignment of a head, which consists of atomics only.
        unsafe { &*self.head_at(segment).cast::<Head>() }
    }

    /// Returns the address of the word that says where the entries are whose home is this bucket, if there are such
    /// words.
    #[inline(always)]
    fn hops_of(&self, segment: u32, home: usize) -> *mut u8 {
        self.rest.hops_at.wrapping_add((((segment as usize) << self.bits) + home) * size_of::<u64>())
    }

    #[inline(always)]
    fn hop_word(&self, segment: u32, home: usize) -> &Word {
        debug_assert!(P::HAS_HOPS && home < self.bucket_count());
        // SAFETY: this is within a block of the slab, of the size and alignment of a word, which is atomic.
        unsafe { &*self.hops_of(segment, home).cast::<Word>() }
    }

    /// Returns the places to look at in the `nth` bucket of entries with this home, one bit each.
    #[inline(always)]
    fn places_in(&self, segment: u32, home: usize, nth: usize) -> u64 {
        if !P::HAS_HOPS {
            return LIVE;
        }
        // The caller validates by the head of the home, or has the latch.
        self.hop_word(segment, home).load(Ordering::Relaxed) >> (nth * ENTRIES) & LIVE
    }

    /// Returns a line of a stash, whose id was read inside the present epoch.
    fn line(&self, id: u32) -> &Bucket {
        debug_assert!(id != 0);
        // SAFETY: this is a block of the slab, of the size and alignment of a bucket, which consists of atomics only.
        unsafe { &*self.rest.lines.at(id).cast::<Bucket>() }
    }

    /// Returns which of its segment's stamps a bucket has.
    #[inline(always)]
    fn group_of(&self, bucket: usize) -> usize {
        bucket >> self.bits.saturating_sub(STAMPS.ilog2())
    }
}

/// Returns the average number of keys per segment above which a segment is added: seven of sixteen places. Segments
/// that have not been split in a round have up to twice as many, seven of eight, and the others half of that.
fn load(bits: u32) -> u64 {
    ((ENTRIES as u64) << bits) * 7 / 16
}

/// Returns the greatest power of two that is not above `len`. A segment from there on was split off the segment that
/// many places before it.
#[inline(always)]
fn half_of(len: u64) -> u64 {
    debug_assert!(len > 0);
    1 << (63 - len.leading_zeros())
}

impl<P: Placement> Index for Hashed<P> {
    type Cursor = Cursor;
    type Walk = Walk;

    const IS_ORDERED: bool = false;

    #[inline(always)]
    fn start(&self, key: &Key) -> Cursor {
        self.begin(key)
    }

    unsafe fn start_behind(&self, _: &Cursor, _: &Key, key: &Key) -> Cursor {
        self.begin(key)
    }

    unsafe fn start_near(&self, _: &Cursor, _: &Key, _: &Key) -> Option<Cursor> {
        None
    }

    #[inline(always)]
    unsafe fn is_short(&self, _: &Cursor) -> bool {
        self.len.load(Ordering::Relaxed) == 1 // a hint
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        self.ask(cursor, s)
    }

    // By value, like `step` of the B+-tree.
    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        let probe;
        (*cursor, probe) = self.look_up(*cursor, *key, s);
        probe
    }

    unsafe fn insert(
        &self,
        local: &Local,
        _: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        self.insert_key(local, key, id.0)
    }

    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
        self.remove_key(local, key, id.0)
    }

    unsafe fn look(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
        self.look_and_mark(key, page)
    }

    fn order_of(&self, key: &Key, order: &mut Vec<u8>) {
        mixed::push_order(key, self.rest.fixed8, order);
    }

    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
        Walk::new(from, reverse, self.rest.fixed8, page)
    }

    unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        self.walk_on(walk, page, s)
    }

    unsafe fn prepare_page<S: Suspend>(&self, _: &Walk, _: &mut S) {}

    fn is_as_marked(&self, mark: &Mark) -> bool {
        self.holds_mark(mark)
    }

    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        self.raise_stamps(mark, stamp);
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        self.find_stamp(key)
    }

    fn reserve(&self, local: &Local, keys: u64) {
        self.grow_for(local, keys);
    }

    unsafe fn clear(&self, local: &Local) {
        // SAFETY: the caller has made the promise that `clear` asks for, and `clear_all` asks for the same.
        unsafe { self.clear_all(local) };
    }

    fn lose_stamps(&mut self) {
        self.rest.loses_stamps = true;
    }
}
