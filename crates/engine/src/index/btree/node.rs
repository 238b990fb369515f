//! The layout of a node: one block of the slab. The whole folder uses it.
//!
//! ```text
//! head | stamp | next, prev | first, skip | prefix | keys … | values …                     keys of eight bytes
//! head | stamp | next, prev | first, skip | prefix | keys … | objects … | values … | codes …   keys of any length
//! ```
//!
//! An entry is a key and a value. In a leaf the value is a record's id. In an interior it is the child that has the
//! keys from this key on, below the next key. The keys below all of an interior's keys are in the child `first`.
//! Entries lie in the order of their keys, from place 0 to `count - 1`.
//!
//! `keys[i]` is a *slice*: eight bytes of the key, big-endian, zero-padded. In a tree of eight-byte keys, the slice is
//! the whole key. In a tree of keys of any length, slices begin behind the `skip` bytes that all keys of the node have
//! in common, to which `prefix` points. `codes[i]` says how many bytes there are from there on. A key has all its bytes
//! in an object of its own ([`crate::index::object`]) if it is not whole in its slice, or if its node has a prefix.
//!
//! Invariants, for every node that is neither latched nor deleted:
//! * Keys ascend, and `count` is at most the tree's capacity.
//! * All keys begin with the same `skip` bytes. If `skip > 0`, every entry has an object, and `prefix` is one of them.
//! * An entry without an object has at most eight bytes, and `skip` is 0.
//!
//! All writes happen under the node's latch ([`Latched`]), with two exceptions: `prev` is written under the left
//! neighbor's latch, and the stamp without one. Readers take no latch. They read the head, then what they want, then
//! the head again. They discard the result if the head has changed.

use crate::index::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use crate::index::{object, slice_of};
use crate::sync::Backoff;
use std::cmp::Ordering as Order;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// The bytes of a node. The slab's blocks must have this size. See decision 16.
pub const NODE_BYTES: usize = 512;
const HEADER_BYTES: usize = 40;
/// The entries of a node if keys have eight bytes: a slice and a value each.
pub(super) const CAPACITY_FIXED8: usize = (NODE_BYTES - HEADER_BYTES) / (8 + 4);
/// The entries of a node if keys have any length: a slice, an object, a value and a code each.
pub(super) const CAPACITY_MIXED: usize = (NODE_BYTES - HEADER_BYTES) / (8 + 8 + 4 + 1);

/// One block of the node slab.
#[repr(C, align(512))]
pub(super) struct Node {
    head: AtomicU64,
    /// For phantom protection: the last commit of a transaction that has found keys absent in this leaf.
    stamp: AtomicU64,
    /// The right neighbor of a leaf, or 0 if there is none.
    next: AtomicU32,
    /// The left neighbor of a leaf, or 0 if there is none. It is written under that neighbor's latch.
    prev: AtomicU32,
    /// Of an interior: the child to the left of all keys. Of a leaf: a [`Run`].
    first: AtomicU32,
    skip: AtomicU32,
    prefix: AtomicPtr<u8>,
    body: Body,
}

/// The keys and values of a node. The tree decides which form they have, and never changes it.
union Body {
    fixed8: ManuallyDrop<Fixed8>,
    mixed: ManuallyDrop<Mixed>,
}

#[repr(C)]
struct Fixed8 {
    keys: [AtomicU64; CAPACITY_FIXED8],
    values: [AtomicU32; CAPACITY_FIXED8],
}

#[repr(C)]
struct Mixed {
    keys: [AtomicU64; CAPACITY_MIXED],
    objects: [AtomicPtr<u8>; CAPACITY_MIXED],
    values: [AtomicU32; CAPACITY_MIXED],
    codes: [AtomicU8; CAPACITY_MIXED],
}

// The weak memory checker's atomics are larger. No node is made there.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Node>() == NODE_BYTES);
#[cfg(not(braid_loom))]
const _: () = assert!(std::mem::offset_of!(Node, body) == HEADER_BYTES);

/// The code of a longer key. Codes 0 to 8 mean a key of that many bytes from its slice on.
pub(super) const LONG: u8 = 9;

/// A node's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub(super) u64);

impl Head {
    const LOCKED: u64 = 1;
    /// The node is out of the tree.
    pub(super) const DELETED: u64 = 2;
    const LEVEL_SHIFT: u32 = 8;
    const COUNT_SHIFT: u32 = 16;
    const VERSION: u64 = 1 << 32;

    #[inline(always)]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    /// Returns the head without the latch.
    pub(super) fn unlocked(self) -> u64 {
        self.0 & !Head::LOCKED
    }
    /// Returns whether the node is being changed, or out of the tree.
    #[inline(always)]
    pub(super) fn is_unstable(self) -> bool {
        self.has(Head::LOCKED | Head::DELETED)
    }
    /// Returns the level, which is 0 for a leaf.
    #[inline(always)]
    pub(super) fn level(self) -> u8 {
        (self.0 >> Head::LEVEL_SHIFT) as u8
    }
    /// Returns the number of entries.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 >> Head::COUNT_SHIFT & 0xffff) as usize
    }
    pub(super) fn set_count(&mut self, count: usize) {
        debug_assert!(count <= CAPACITY_FIXED8);
        self.0 = self.0 & !(0xffff << Head::COUNT_SHIFT) | (count as u64) << Head::COUNT_SHIFT;
    }
}

/// The contents of one place of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slice: u64,
    pub(super) code: u8,
    pub(super) value: u32,
    /// The whole key, or null.
    pub(super) object: *mut u8,
}

impl Entry {
    pub(super) const NONE: Entry = Entry { slice: 0, code: 0, value: 0, object: null_mut() };

    /// Makes the entry of a key in a node of this `skip`. Without an object, the key must be short and `skip` must be
    /// 0.
    pub(super) fn new(key: &[u8], skip: usize, value: u32, object: *mut u8) -> Entry {
        debug_assert!(!object.is_null() || skip == 0 && key.len() <= 8);
        let rest = &key[skip..];
        Entry { slice: slice_of(rest), code: rest.len().min(usize::from(LONG)) as u8, value, object }
    }

    /// Returns all bytes of the key. If there is no object, the entry must be in a node whose `skip` is 0.
    ///
    /// # Safety
    /// The epoch keeps the object as long as the result is used.
    pub(super) unsafe fn key<'k>(&self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.object.is_null() {
            *short = self.slice.to_be_bytes();
            return &short[..usize::from(self.code).min(8)];
        }
        // SAFETY: the caller has promised that the epoch keeps the object.
        unsafe { object::bytes(self.object) }
    }
}

/// A record of whether insertions into a leaf have come in ascending order. The lowest byte has the number of such
/// insertions in a row; the place of the last one is above it.
#[derive(Clone, Copy)]
pub(super) struct Run(u32);

impl Run {
    /// The number of insertions in a row that is taken for a run that continues. Few random keys reach it.
    const LONG: u32 = 2;

    /// Returns whether a key that would come to `place` continues a run.
    pub(super) fn leads_to(self, place: usize) -> bool {
        self.0 & 0xff >= Run::LONG && (self.0 >> 8) as usize + 1 == place
    }

    fn with(self, place: usize) -> Run {
        let follows = (self.0 >> 8) as usize + 1 == place;
        let length = if follows { (self.0 & 0xff).saturating_add(1).min(Run::LONG) } else { 1 };
        Run((place as u32) << 8 | length)
    }
}

// ---- what readers use; they validate
impl Node {
    #[inline(always)]
    pub(super) fn head(&self) -> Head {
        // Acquire: pairs with the Release in `Latched::drop`.
        Head(self.head.load(Ordering::Acquire))
    }

    /// Returns whether everything read since `head` is what the node held then.
    #[inline(always)]
    pub(super) fn is_still(&self, head: Head) -> bool {
        // The fence pairs with the Release fence in `Latched::try_lock`. If we have read a word written after it, we
        // see the head of that time or a later one.
        fence(Ordering::Acquire);
        self.head.load(Ordering::Relaxed) == head.0
    }

    #[inline(always)]
    fn fixed8(&self) -> &Fixed8 {
        // SAFETY: the body consists of atomics, for which any bytes are valid. The tree knows what is in them.
        unsafe { &self.body.fixed8 }
    }

    #[inline(always)]
    fn mixed(&self) -> &Mixed {
        // SAFETY: the body consists of atomics, for which any bytes are valid. Pointers are used only in trees that
        // have written them.
        unsafe { &self.body.mixed }
    }

    /// Returns the slice in a place. Both bodies begin with the slices.
    #[inline(always)]
    pub(super) fn slice(&self, place: usize) -> u64 {
        self.fixed8().keys[place].load(Ordering::Relaxed)
    }

    /// Returns the value in a place.
    #[inline(always)]
    pub(super) fn value(&self, is_fixed8: bool, place: usize) -> u32 {
        match is_fixed8 {
            true => self.fixed8().values[place].load(Ordering::Relaxed),
            false => self.mixed().values[place].load(Ordering::Relaxed),
        }
    }

    /// Returns the child for the keys from number `place - 1` on, below number `place`.
    #[inline(always)]
    pub(super) fn child(&self, is_fixed8: bool, place: usize) -> u32 {
        match place.checked_sub(1) {
            None => self.first.load(Ordering::Relaxed),
            Some(place) => self.value(is_fixed8, place),
        }
    }

    #[inline(always)]
    pub(super) fn entry(&self, is_fixed8: bool, place: usize) -> Entry {
        let (slice, value) = (self.slice(place), self.value(is_fixed8, place));
        if is_fixed8 {
            return Entry { slice, code: 8, value, object: null_mut() };
        }
        Entry {
            slice,
            code: self.mixed().codes[place].load(Ordering::Relaxed),
            value,
            object: self.object(place),
        }
    }

    /// Returns the object of a key of a tree of any length, or null. It may be read if the node's head was read before,
    /// in the same epoch: the epoch keeps everything that a place has held since then.
    #[inline(always)]
    pub(super) fn object(&self, place: usize) -> *mut u8 {
        // Acquire: pairs with the Release in `set_entry`: the object is whole.
        self.mixed().objects[place].load(Ordering::Acquire)
    }

    /// Returns how many bytes all keys of the node have in common.
    #[inline(always)]
    pub(super) fn skip(&self) -> usize {
        self.skip.load(Ordering::Relaxed) as usize
    }

    /// Returns an object that begins with these bytes, or null if there are none.
    #[inline(always)]
    pub(super) fn prefix(&self) -> *mut u8 {
        // Acquire: pairs with the Release in `set_prefix`: the object is whole.
        self.prefix.load(Ordering::Acquire)
    }

    /// Returns how many of the first `count` slices precede the first one that is not `left`, by halving.
    #[inline(always)]
    fn partition(&self, count: usize, left: impl Fn(u64) -> bool) -> usize {
        let (mut base, mut len) = (0, count);
        while len > 1 {
            let half = len / 2;
            base += if left(self.slice(base + half - 1)) { half } else { 0 };
            len -= half;
        }
        base + usize::from(len == 1 && left(self.slice(base)))
    }

    /// Returns how many of the first `count` slices are less than this one.
    #[inline(always)]
    pub(super) fn below(&self, count: usize, slice: u64) -> usize {
        self.partition(count, |key| key < slice)
    }

    /// Returns how many of the first `count` slices are at most this one.
    #[inline(always)]
    pub(super) fn up_to(&self, count: usize, slice: u64) -> usize {
        self.partition(count, |key| key <= slice)
    }

    /// Returns the place of a key among the first `count`, or the place at which it would be. For a tree of any length.
    pub(super) fn locate(&self, count: usize, key: &[u8]) -> Result<usize, usize> {
        let skip = self.skip();
        if skip > 0 {
            match self.compare_prefix(key, skip) {
                Order::Less => return Err(0),
                Order::Greater => return Err(count),
                Order::Equal => {}
            }
        }
        let rest = key.get(skip..).unwrap_or(&[]);
        let slice = slice_of(rest);
        let mut from = self.below(count, slice);
        if from == count || self.slice(from) != slice {
            return Err(from);
        }
        let mut to = self.up_to(count, slice);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.compare_rest(middle, rest, skip) {
                Order::Less => from = middle + 1,
                Order::Greater => to = middle,
                Order::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// Compares a key with the keys of the node, if their prefix decides.
    fn compare_prefix(&self, key: &[u8], skip: usize) -> Order {
        let prefix = self.prefix();
        if prefix.is_null() {
            return Order::Equal; // the node is being changed: the caller will see that
        }
        // SAFETY: the object was in the node when its head was read, or later, inside this epoch, which keeps it.
        let prefix = unsafe { object::bytes(prefix) };
        let prefix = prefix.get(..skip).unwrap_or(prefix);
        key[..key.len().min(skip)].cmp(prefix)
    }

    /// Compares the key in a place with a key of the same slice that has the bytes `rest` from there on.
    fn compare_rest(&self, place: usize, rest: &[u8], skip: usize) -> Order {
        let code = self.mixed().codes[place].load(Ordering::Relaxed);
        let sought = rest.len().min(usize::from(LONG)) as u8;
        let object = self.object(place);
        if code != LONG || sought != LONG || object.is_null() {
            return code.cmp(&sought);
        }
        // SAFETY: the object was in the node when its head was read, or later, inside this epoch, which keeps it.
        let bytes = unsafe { object::bytes(object) };
        bytes.get(skip + 8..).unwrap_or(&[]).cmp(&rest[8..])
    }

    /// Returns the right neighbor of a leaf, or 0 if there is none.
    pub(super) fn next(&self) -> u32 {
        // Acquire: pairs with the Release in `set_next`: the new neighbor is whole.
        self.next.load(Ordering::Acquire)
    }

    /// Returns the left neighbor of a leaf, or a recent one; 0 if there is none.
    pub(super) fn prev(&self) -> u32 {
        // Acquire: pairs with the Release in `set_prev`: the new neighbor is whole.
        self.prev.load(Ordering::Acquire)
    }

    pub(super) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire) // pairs with the AcqRel in raise_stamp
    }

    pub(super) fn raise_stamp(&self, stamp: u64) {
        if self.stamp() < stamp {
            self.stamp.fetch_max(stamp, Ordering::AcqRel); // pairs with the Acquire in stamp
        }
    }

    /// Takes over the stamp of `from`, if it is greater. This leaf is latched or unpublished, and takes keys or a range
    /// from `from`, which is latched, so readers find it changed.
    pub(super) fn carry_stamp(&self, from: &Latched<'_>) {
        // Pairs with the fence between `raise_stamp` and `is_as_marked`: either this thread sees the stamp, or the
        // thread that raised it sees the latch.
        fence(Ordering::SeqCst);
        self.raise_stamp(from.node.stamp());
    }
}

// ---- what holders of the latch use
impl Node {
    pub(super) fn run(&self) -> Run {
        Run(self.first.load(Ordering::Relaxed))
    }

    pub(super) fn set_first(&self, child: u32) {
        self.first.store(child, Ordering::Relaxed);
    }

    pub(super) fn set_value(&self, is_fixed8: bool, place: usize, value: u32) {
        match is_fixed8 {
            true => self.fixed8().values[place].store(value, Ordering::Relaxed),
            false => self.mixed().values[place].store(value, Ordering::Relaxed),
        }
    }

    pub(super) fn set_next(&self, next: u32) {
        // Release: pairs with the Acquire in `next`.
        self.next.store(next, Ordering::Release);
    }

    pub(super) fn set_prev(&self, prev: u32) {
        // Release: pairs with the Acquire in `prev`.
        self.prev.store(prev, Ordering::Release);
    }

    pub(super) fn set_entry(&self, is_fixed8: bool, place: usize, entry: &Entry) {
        self.fixed8().keys[place].store(entry.slice, Ordering::Relaxed);
        self.set_value(is_fixed8, place, entry.value);
        if !is_fixed8 {
            self.mixed().codes[place].store(entry.code, Ordering::Relaxed);
            // Release: pairs with the Acquire in `object`.
            self.mixed().objects[place].store(entry.object, Ordering::Release);
        }
    }

    fn set_prefix(&self, skip: usize, prefix: *mut u8) {
        debug_assert!(skip == 0 || !prefix.is_null());
        self.skip.store(skip as u32, Ordering::Relaxed);
        // Release: pairs with the Acquire in `prefix`.
        self.prefix.store(prefix, Ordering::Release);
    }

    /// Makes slices begin behind `skip` bytes, which all keys have in common.
    fn slice_behind(&self, count: usize, skip: usize) {
        for place in 0..count {
            let entry = self.entry(false, place);
            debug_assert!(!entry.object.is_null() || skip == 0 && self.skip() == 0);
            if !entry.object.is_null() {
                // SAFETY: the object is the entry's own, and the latch keeps it.
                let key = unsafe { object::bytes(entry.object) };
                self.set_entry(false, place, &Entry::new(key, skip, entry.value, entry.object));
            }
        }
        self.set_prefix(skip, if skip > 0 { self.object(0) } else { null_mut() });
    }

    /// Takes over the prefix of another node, for entries that come from there.
    pub(super) fn copy_prefix(&self, from: &Node) {
        self.set_prefix(from.skip(), from.prefix());
    }

    /// Makes slices begin as far behind as possible.
    pub(super) fn tighten(&self, is_fixed8: bool, count: usize) {
        if is_fixed8 {
            return;
        }
        let skip = if count < 2 || (0..count).any(|place| self.object(place).is_null()) {
            0
        } else {
            // SAFETY: the objects are the entries' own, and the latch keeps them.
            let (first, last) =
                unsafe { (object::bytes(self.object(0)), object::bytes(self.object(count - 1))) };
            common(first, last)
        };
        self.slice_behind(count, skip);
    }

    /// Makes this unpublished node an empty node of `level`, and returns its head.
    pub(super) fn clear(&self, level: u8) -> Head {
        let version = Head(self.head.load(Ordering::Relaxed)).0 & !(Head::VERSION - 1);
        self.stamp.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.prev.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
        self.set_prefix(0, null_mut());
        let head = Head(version.wrapping_add(Head::VERSION) | u64::from(level) << Head::LEVEL_SHIFT);
        self.set_head(head);
        head
    }

    /// Sets the head of an unpublished node.
    pub(super) fn set_head(&self, head: Head) {
        // Relaxed: the node is published with a Release.
        self.head.store(head.0, Ordering::Relaxed);
    }

    /// Makes these the entries of a node that no thread reads now. `head` is the head that the node will have.
    pub(super) fn fill(&self, is_fixed8: bool, head: &mut Head, entries: impl Iterator<Item = Entry>) {
        let mut count = 0;
        for entry in entries {
            self.set_entry(is_fixed8, count, &entry);
            count += 1;
        }
        head.set_count(count);
    }
}

/// Returns how many bytes two keys have in common at their beginnings.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A node under its latch, which is released when this is dropped. No thread waits for a latch while it holds another,
/// and no latch is held across a suspension.
pub(super) struct Latched<'a> {
    pub(super) node: &'a Node,
    pub(super) id: u32,
    /// The head that the node will have when the latch is released. It is the old head unless [`change`](Self::change)
    /// is called.
    pub(super) head: Head,
}

impl<'a> Latched<'a> {
    /// Takes the latch if it is free.
    pub(super) fn try_lock(node: &'a Node, id: u32) -> Option<Latched<'a>> {
        // Acquire: pairs with the Release in `drop`.
        let head = Head(node.head.fetch_or(Head::LOCKED, Ordering::Acquire));
        if head.has(Head::LOCKED) {
            return None;
        }
        // The fence pairs with the one in `is_still`.
        fence(Ordering::Release);
        Some(Latched { node, id, head })
    }

    /// Takes the latch if it is free and the node still has this head.
    pub(super) fn try_lock_as(node: &'a Node, id: u32, head: Head) -> Option<Latched<'a>> {
        if node.head() != head {
            return None;
        }
        Latched::try_lock(node, id).filter(|latched| latched.head == head)
    }

    /// Waits for the holder of the latch, if there is one, and takes the latch.
    pub(super) fn lock(node: &'a Node, id: u32) -> Latched<'a> {
        let mut backoff = Backoff::new();
        loop {
            if !node.head().has(Head::LOCKED)
                && let Some(latched) = Latched::try_lock(node, id)
            {
                return latched;
            }
            backoff.wait();
        }
    }

    /// Announces a change of the node: readers that have read it will see that it has changed.
    pub(super) fn change(&mut self) {
        self.head.0 = self.head.0.wrapping_add(Head::VERSION);
    }

    /// Marks the node as out of the tree.
    pub(super) fn delete(&mut self) {
        self.change();
        self.head.0 |= Head::DELETED;
    }

    pub(super) fn count(&self) -> usize {
        self.head.count()
    }

    /// Adds an entry at a place. In a tree of any length it must fit the node's prefix: see [`Latched::fit`].
    pub(super) fn insert(&mut self, is_fixed8: bool, place: usize, entry: &Entry) {
        let (node, count) = (self.node, self.count());
        self.change();
        for at in (place..count).rev() {
            node.set_entry(is_fixed8, at + 1, &node.entry(is_fixed8, at));
        }
        node.set_entry(is_fixed8, place, entry);
        self.head.set_count(count + 1);
        if self.head.level() == 0 {
            node.set_first(node.run().with(place).0);
        }
    }

    /// Removes an entry, and returns it. Its object belongs to the caller.
    pub(super) fn remove(&mut self, is_fixed8: bool, place: usize) -> Entry {
        let (node, count) = (self.node, self.count());
        let entry = node.entry(is_fixed8, place);
        self.change();
        for at in place + 1..count {
            node.set_entry(is_fixed8, at - 1, &node.entry(is_fixed8, at));
        }
        self.head.set_count(count - 1);
        if !entry.object.is_null() && node.prefix() == entry.object {
            match count - 1 {
                0 => node.set_prefix(0, null_mut()),
                _ => node.set_prefix(node.skip(), node.object(0)),
            }
        }
        entry
    }

    /// Prepares the node for an entry with this key, which may have no object. Returns the node's `skip` for it.
    pub(super) fn fit(&mut self, key: &[u8], has_object: bool) -> usize {
        let (node, skip) = (self.node, self.node.skip());
        if skip == 0 {
            return 0;
        }
        let fits = match has_object {
            // SAFETY: the prefix is the object of an entry, which the latch keeps.
            true => common(key, &unsafe { object::bytes(node.prefix()) }[..skip]),
            false => 0,
        };
        if fits < skip {
            self.change();
            node.slice_behind(self.count(), fits);
        }
        fits
    }

    /// Cuts off the entries from place `count` on, which are elsewhere now.
    pub(super) fn truncate(&mut self, is_fixed8: bool, count: usize) {
        self.change();
        self.head.set_count(count);
        self.node.tighten(is_fixed8, count);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        debug_assert!(!self.head.has(Head::LOCKED));
        // Release: pairs with the Acquire in `head` and `try_lock`.
        self.node.head.store(self.head.0, Ordering::Release);
    }
}
