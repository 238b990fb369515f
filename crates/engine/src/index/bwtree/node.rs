//! The layout of a node's block: an object of the account's pools, used by the whole folder. As a rule, all blocks for
//! one kind of keys have the same size, so that each can serve for any other when it has been given back.
//!
//! ```text
//! header | records … | slices … | objects … | values … | codes … | before removals …
//! ```
//!
//! The *base* of a block, `count` entries in the order of their keys, never changes once the block is published.
//! *Records* change the node. Each record names the previous one, and the word of the mapping entry names the newest
//! ([`super::word`]). Records lie in the block, in room that it has from the beginning:
//! * Number 1 to `slots`: an entry was added.
//! * Number `slots + 1 + target`: the entry `target` was removed. Targets are the entries of the base, and then the
//!   entries that the records add. There is therefore always room for a removal, which needs no memory.
//!
//! An entry is a key and a value. In a leaf the value is a record's id. In an interior it is the child that has the
//! keys from this key on, below the next key. The first entry of an interior has the key `low`, and is never removed.
//!
//! `slices[i]` is eight bytes of the key, big-endian, zero-padded. In a tree of eight-byte keys, the slice is the whole
//! key. In a tree of keys of any length, slices begin behind the `skip` bytes that `low` and `high` have in common, and
//! with them all keys in between. `codes[i]` says how many bytes there are from there on. A key of more than eight
//! bytes has all of them in an object of its own ([`crate::index::object`]), which goes with the entry. Only such trees
//! have `objects` and `codes`.
//!
//! Invariants:
//! * All keys are at least `low`, and less than `high` if there is a `next`. Keys of the base ascend.
//! * No key has two live entries, and `count + slots <= TARGETS_MAX`.
//! * A published record is never written again. An unpublished record belongs to the thread that took the slot or
//!   claimed the target.
//! * The object of `low` belongs to the node. The object of `high` belongs to the right neighbor, as its `low`. The
//!   objects of entries belong to the node.

use super::text::{LONG, Probe, Sought, Text, code_of, common};
use crate::epoch::Local;
use crate::index::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::index::{object, slice_of};
use crate::memory::OutOfMemory;
use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::null_mut;

/// The most records of additions in a block. As a rule, a lookup goes through half of them before it comes to the base.
pub(super) const SLOTS_MAX: usize = 8;
/// The most entries that a block may have, including added ones. Each is one bit of 128 in the set of removals.
pub(super) const TARGETS_MAX: usize = 128;
/// The most entries of a base.
pub(super) const COUNT_MAX: usize = TARGETS_MAX - SLOTS_MAX;
/// The most entries of a usual base if keys have eight bytes: a slice and a value each.
pub(super) const CAPACITY_FIXED8: usize = 36;
/// The most entries of a usual base if keys have any length: a slice, an object, a value and a code each.
pub(super) const CAPACITY_MIXED: usize = 27;
/// The bytes of usual blocks, for keys of eight bytes and for keys of any length. Both are sizes of the pools.
const USUAL_BYTES: [usize; 2] = [768, 896];
#[cfg(not(braid_loom))]
const _: () =
    assert!(Places::of(true, SLOTS_MAX, CAPACITY_FIXED8).end(SLOTS_MAX, CAPACITY_FIXED8) <= USUAL_BYTES[0]);
#[cfg(not(braid_loom))]
const _: () =
    assert!(Places::of(false, SLOTS_MAX, CAPACITY_MIXED).end(SLOTS_MAX, CAPACITY_MIXED) <= USUAL_BYTES[1]);
const _: () = assert!(1 + SLOTS_MAX + TARGETS_MAX <= u8::MAX as usize, "records have numbers of a byte");

/// The beginning of a block.
#[repr(C, align(16))]
pub(super) struct Header {
    /// The targets whose removal a thread is about to publish, or has published.
    claims: [AtomicU64; 2],
    /// The number of the block, different for each block of a node. Marks go by it.
    pub(super) number: u64,
    pub(super) low: Text,
    pub(super) high: Text,
    /// The slots that were requested. Requests beyond `slots` were in vain.
    taken: AtomicU32,
    /// The bytes of the whole block. 0 means that it is not from a pool.
    pub(super) bytes: u32,
    /// The right neighbor. 0 means that there is none, and no `high`.
    pub(super) next: u32,
    skip: u16,
    pub(super) count: u8,
    pub(super) slots: u8,
    pub(super) level: u8,
    pub(super) is_fixed8: bool,
}

const HEADER_BYTES: usize = size_of::<Header>();
const RECORD_BYTES: usize = size_of::<Record>();

#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    slice: u64,
    object: *mut u8,
    value: u32,
    code: u8,
    before: u8,
}

/// A key and a value in a node. The key has the form that the node uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slice: u64,
    /// The whole key, or null.
    pub(super) object: *mut u8,
    pub(super) value: u32,
    pub(super) code: u8,
}

impl Entry {
    pub(super) const NONE: Entry = Entry { slice: 0, object: null_mut(), value: 0, code: 0 };

    /// Makes an entry of a node whose keys have nothing in common.
    pub(super) fn whole(text: &Text, value: u32) -> Entry {
        Entry { slice: text.slice, object: text.object, value, code: text.len }
    }

    /// Retires the key's object: it is freed when no operation can be reading it any more.
    ///
    /// # Safety
    /// The entry is in no node that an operation that begins from now on reaches.
    pub(super) unsafe fn retire(&self, local: &Local) {
        // SAFETY: the caller has promised that new operations cannot reach the entry, so they cannot reach its object.
        unsafe { Text { slice: 0, object: self.object, len: 0 }.retire(local) };
    }
}

/// The shape of a new block: everything but its entries.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) level: u8,
    pub(super) slots: u8,
    pub(super) is_fixed8: bool,
    pub(super) low: Text,
    pub(super) high: Text,
    pub(super) next: u32,
    pub(super) number: u64,
}

impl Shape {
    fn skip(&self) -> usize {
        if self.is_fixed8 || self.next == 0 || self.low.is_empty() {
            return 0;
        }
        let (mut low, mut high) = ([0; 8], [0; 8]);
        // SAFETY: the fences are those of nodes that are in the tree, or about to be.
        unsafe { common(self.low.bytes(&mut low), self.high.bytes(&mut high)) }
    }

    /// Makes the header of a block.
    pub(super) fn header(&self, count: usize, bytes: usize) -> Header {
        assert!(count <= COUNT_MAX);
        assert!(usize::from(self.slots) <= SLOTS_MAX);
        Header {
            claims: [AtomicU64::new(0), AtomicU64::new(0)],
            number: self.number,
            low: self.low,
            high: self.high,
            taken: AtomicU32::new(0),
            bytes: bytes as u32,
            next: self.next,
            skip: self.skip() as u16,
            count: count as u8,
            slots: self.slots,
            level: self.level,
            is_fixed8: self.is_fixed8,
        }
    }
}

/// Entries of a node. If they are of no node, their keys are whole.
pub(super) type Part<'a, 'n> = (&'a [Entry], Option<Node<'n>>);

/// Makes a new block with these entries, which ascend from part to part. The block is not published.
pub(super) fn build(local: &Local, shape: &Shape, parts: &[Part<'_, '_>]) -> Result<*mut u8, OutOfMemory> {
    let (count, bytes) = size_of_block(shape, parts);
    let block = local.allocate(bytes)?;
    // SAFETY: the block has that size, and only this thread has it.
    unsafe { fill(block, shape.header(count, bytes), parts) };
    Ok(block)
}

/// Builds like `build`, and may use memory that is set aside for operations that give memory back in the end.
pub(super) fn build_from_reserve(
    local: &Local,
    shape: &Shape,
    parts: &[Part<'_, '_>],
) -> Result<*mut u8, OutOfMemory> {
    let (count, bytes) = size_of_block(shape, parts);
    let block = local.allocate_from_reserve(bytes)?;
    // SAFETY: the block has that size, and only this thread has it.
    unsafe { fill(block, shape.header(count, bytes), parts) };
    Ok(block)
}

fn size_of_block(shape: &Shape, parts: &[Part<'_, '_>]) -> (usize, usize) {
    let count: usize = parts.iter().map(|(entries, _)| entries.len()).sum();
    let slots = usize::from(shape.slots);
    let bytes = Places::of(shape.is_fixed8, slots, count).end(slots, count);
    (count, bytes.max(USUAL_BYTES[usize::from(!shape.is_fixed8)]))
}

/// # Safety
/// The block has the size that `size_of_block` returns, and no other thread has it.
unsafe fn fill(block: *mut u8, header: Header, parts: &[Part<'_, '_>]) {
    // SAFETY: the caller has promised a block of this size, and blocks of pools are aligned for a header.
    unsafe { block.cast::<Header>().write(header) };
    // SAFETY: the header was just written.
    let node = unsafe { Node::at(block) };
    let places = node.places();
    let mut at = 0;
    for (entries, from) in parts {
        let (skip, prefix) = from.map_or((0, 0), |from| (from.skip(), from.header().low.slice));
        for entry in *entries {
            let entry = rebase(entry, skip, prefix, node.skip());
            debug_assert!(at < node.count());
            // SAFETY: within the block, which has room for `count` of them.
            unsafe {
                block.add(places.slices).cast::<u64>().add(at).write(entry.slice);
                block.add(places.values).cast::<u32>().add(at).write(entry.value);
            }
            if !node.header().is_fixed8 {
                // SAFETY: within the block, which has room for `count` of them.
                unsafe {
                    block.add(places.objects).cast::<*mut u8>().add(at).write(entry.object);
                    block.add(places.codes).add(at).write(entry.code);
                }
            }
            at += 1;
        }
    }
}

/// Frees a block that was never published.
///
/// # Safety
/// The block is from `build`.
pub(super) unsafe fn free(local: &Local, block: *mut u8) {
    // SAFETY: the caller has promised that the block is from `build`, which has written the header.
    let bytes = unsafe { Node::at(block) }.header().bytes as usize;
    // SAFETY: the block was allocated with this size.
    unsafe { local.free(block, bytes) };
}

/// Retires a block: it is freed when no operation can be reading it any more.
///
/// # Safety
/// No operation that begins from now on reaches the block.
pub(super) unsafe fn retire(local: &Local, node: Node<'_>) {
    let bytes = node.header().bytes;
    if bytes > 0 {
        // SAFETY: the caller has promised that new operations cannot reach the block, and it was allocated with this
        // size.
        unsafe { local.retire(node.block, u64::from(bytes), object::reclaim) };
    }
}

/// Converts an entry of a node whose keys have `skip` bytes in common, and begin with `prefix`, for a node where `to`
/// bytes are in common.
fn rebase(entry: &Entry, skip: usize, prefix: u64, to: usize) -> Entry {
    if skip == to {
        return *entry;
    }
    if entry.object.is_null() {
        let slice = shift_left(whole_slice(entry, skip, prefix), to);
        return Entry { slice, code: (skip + usize::from(entry.code) - to) as u8, ..*entry };
    }
    // SAFETY: the entry lives, or is of a block that the epoch keeps.
    let rest = &unsafe { object::bytes(entry.object) }[to..];
    Entry { slice: slice_of(rest), code: code_of(rest), ..*entry }
}

/// Returns the slice of a whole key of up to eight bytes.
fn whole_slice(entry: &Entry, skip: usize, prefix: u64) -> u64 {
    let begin = prefix & !u64::MAX.checked_shr(8 * skip as u32).unwrap_or(0);
    begin | entry.slice.checked_shr(8 * skip as u32).unwrap_or(0)
}

fn shift_left(slice: u64, bytes: usize) -> u64 {
    slice.checked_shl(8 * bytes as u32).unwrap_or(0)
}

/// The offsets of the parts of a block.
struct Places {
    slices: usize,
    objects: usize,
    values: usize,
    codes: usize,
    befores: usize,
}

impl Places {
    #[inline(always)]
    const fn of(is_fixed8: bool, slots: usize, count: usize) -> Places {
        let slices = HEADER_BYTES + slots * RECORD_BYTES;
        let objects = slices + count * size_of::<u64>();
        let values = if is_fixed8 { objects } else { objects + count * size_of::<*mut u8>() };
        let codes = values + count * size_of::<u32>();
        let befores = if is_fixed8 { codes } else { codes + count };
        Places { slices, objects, values, codes, befores }
    }

    /// Returns the bytes of the whole block.
    const fn end(&self, slots: usize, count: usize) -> usize {
        self.befores + count + slots
    }
}

/// The block of a node.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    block: *mut u8,
    kept: PhantomData<&'a Header>,
}

impl<'a> Node<'a> {
    /// # Safety
    /// The memory is a block, and lives for `'a`: it is not published yet, or was found in this epoch.
    #[inline(always)]
    pub(super) unsafe fn at(block: *mut u8) -> Node<'a> {
        debug_assert!(!block.is_null());
        Node { block, kept: PhantomData }
    }

    #[inline(always)]
    pub(super) fn header(self) -> &'a Header {
        // SAFETY: the caller of `at` has promised that the block lives. Only the header's atomics change.
        unsafe { &*self.block.cast::<Header>() }
    }

    #[inline(always)]
    pub(super) fn count(self) -> usize {
        usize::from(self.header().count)
    }

    #[inline(always)]
    pub(super) fn slots(self) -> usize {
        usize::from(self.header().slots)
    }

    #[inline(always)]
    pub(super) fn skip(self) -> usize {
        usize::from(self.header().skip)
    }

    #[inline(always)]
    fn places(self) -> Places {
        Places::of(self.header().is_fixed8, self.slots(), self.count())
    }

    /// Returns the slice of an entry of the base.
    #[inline(always)]
    pub(super) fn slice(self, place: usize) -> u64 {
        debug_assert!(place < self.count());
        let slices = HEADER_BYTES + self.slots() * RECORD_BYTES;
        // SAFETY: within the block, and never written once the block is published.
        unsafe { self.block.add(slices).cast::<u64>().add(place).read() }
    }

    #[inline(always)]
    pub(super) fn value(self, place: usize) -> u32 {
        debug_assert!(place < self.count());
        // SAFETY: within the block, and never written once the block is published.
        unsafe { self.block.add(self.places().values).cast::<u32>().add(place).read() }
    }

    /// Returns an entry of the base.
    #[inline(always)]
    pub(super) fn base(self, place: usize) -> Entry {
        let (slice, value) = (self.slice(place), self.value(place));
        if self.header().is_fixed8 {
            return Entry { slice, object: null_mut(), value, code: 8 };
        }
        let places = self.places();
        // SAFETY: within the block, and never written once the block is published.
        let object = unsafe { self.block.add(places.objects).cast::<*mut u8>().add(place).read() };
        // SAFETY: within the block, and never written once the block is published.
        let code = unsafe { self.block.add(places.codes).add(place).read() };
        Entry { slice, object, value, code }
    }

    /// Returns the entry that a record of an addition has, and the previous record.
    #[inline(always)]
    pub(super) fn added(self, slot: u8) -> (Entry, u8) {
        // SAFETY: the record is published, or this thread's own.
        let record = unsafe { self.record(slot).read() };
        let Record { slice, object, value, code, before } = record;
        (Entry { slice, object, value, code }, before)
    }

    fn record(self, slot: u8) -> *mut Record {
        debug_assert!(slot > 0 && usize::from(slot) <= self.slots());
        self.block.wrapping_add(HEADER_BYTES).cast::<Record>().wrapping_add(usize::from(slot) - 1)
    }

    /// Returns the record before the removal of a target.
    #[inline(always)]
    pub(super) fn before_removal(self, target: usize) -> u8 {
        // SAFETY: the record is published, or this thread's own.
        unsafe { self.before_removal_at(target).read() }
    }

    fn before_removal_at(self, target: usize) -> *mut u8 {
        debug_assert!(target < self.count() + self.slots());
        self.block.wrapping_add(self.places().befores + target)
    }

    /// Returns the number of the record that says that a target was removed.
    pub(super) fn removal_of(self, target: usize) -> u8 {
        (self.slots() + 1 + target) as u8
    }

    /// Returns an entry that may be removed.
    pub(super) fn target(self, target: usize) -> Entry {
        match target.checked_sub(self.count()) {
            None => self.base(target),
            Some(slot) => self.added(slot as u8 + 1).0,
        }
    }

    /// Returns a key in the form that the node's entries have.
    #[inline(always)]
    pub(super) fn probe<'k>(self, sought: &Sought<'k>) -> Probe<'k> {
        if self.header().is_fixed8 {
            return Probe { slice: sought.slice, code: 8, rest: &[] };
        }
        let rest = match self.skip() {
            0 => return Probe { slice: sought.slice, code: code_of(sought.bytes), rest: sought.bytes },
            skip => sought.bytes.get(skip..).unwrap_or(&[]),
        };
        Probe { slice: slice_of(rest), code: code_of(rest), rest }
    }

    /// Returns the whole key of an entry.
    pub(super) fn text(self, entry: &Entry) -> Text {
        let skip = self.skip();
        let slice = match skip {
            0 => entry.slice,
            _ if entry.object.is_null() => whole_slice(entry, skip, self.header().low.slice),
            // SAFETY: the entry is of this node, which the epoch keeps.
            _ => slice_of(unsafe { object::bytes(entry.object) }),
        };
        let len = if entry.object.is_null() { skip as u8 + entry.code } else { LONG };
        Text { slice, object: entry.object, len }
    }

    /// Compares an entry with a key.
    #[inline(always)]
    pub(super) fn order(self, entry: &Entry, probe: &Probe<'_>) -> Order {
        if entry.slice != probe.slice {
            return entry.slice.cmp(&probe.slice);
        }
        if entry.code != LONG || probe.code != LONG {
            return entry.code.cmp(&probe.code);
        }
        // SAFETY: the entry is of this node, which the epoch keeps.
        let bytes = unsafe { object::bytes(entry.object) };
        bytes[self.skip() + 8..].cmp(&probe.rest[8..])
    }

    /// Compares two entries.
    #[inline(always)]
    pub(super) fn order_of(self, a: &Entry, b: &Entry) -> Order {
        let mut rest: &[u8] = &[];
        if a.slice == b.slice && b.code == LONG {
            // SAFETY: the entry is of this node, which the epoch keeps.
            rest = &unsafe { object::bytes(b.object) }[self.skip()..];
        }
        self.order(a, &Probe { slice: b.slice, code: b.code, rest })
    }

    /// Returns the place of a key in the base, or the place at which it would be.
    #[inline(always)]
    pub(super) fn locate(self, probe: &Probe<'_>) -> Result<usize, usize> {
        let count = self.count();
        let mut from = self.below(probe.slice);
        if from == count || self.slice(from) != probe.slice {
            return Err(from);
        }
        if self.header().is_fixed8 {
            return Ok(from);
        }
        let mut to = self.partition(|slice| slice <= probe.slice);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.order(&self.base(middle), probe) {
                Order::Less => from = middle + 1,
                Order::Greater => to = middle,
                Order::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// Returns how many slices of the base are less than this one.
    #[inline(always)]
    pub(super) fn below(self, slice: u64) -> usize {
        self.partition(|other| other < slice)
    }

    /// Returns how many slices of the base precede the first one that is not `left`, by halving.
    #[inline(always)]
    fn partition(self, left: impl Fn(u64) -> bool) -> usize {
        let (mut base, mut len) = (0, self.count());
        while len > 1 {
            let half = len / 2;
            base += if left(self.slice(base + half - 1)) { half } else { 0 };
            len -= half;
        }
        base + usize::from(len == 1 && left(self.slice(base)))
    }
}

impl Header {
    /// Marks all slots as taken, because there is no room for records: an addition has to make another block first.
    pub(super) fn fill_slots(&self) {
        self.taken.store(u32::from(self.slots), Ordering::Relaxed); // before it is published
    }
}

// ---- records
impl Node<'_> {
    /// Takes room for a record of an addition, which then belongs to the caller.
    pub(super) fn take_slot(self) -> Option<u8> {
        let (taken, slots) = (&self.header().taken, u32::from(self.header().slots));
        // Relaxed: a slot is only a place. What is in it is published with the word.
        if taken.load(Ordering::Relaxed) >= slots {
            return None;
        }
        let slot = taken.fetch_add(1, Ordering::Relaxed);
        (slot < slots).then_some(slot as u8 + 1)
    }

    /// Writes a record of an addition.
    ///
    /// # Safety
    /// The slot is the caller's, and not published.
    pub(super) unsafe fn write_added(self, slot: u8, entry: &Entry, before: u8) {
        let Entry { slice, object, value, code } = *entry;
        // SAFETY: the caller has promised that the slot is its own and unpublished, so no thread reads it.
        unsafe { self.record(slot).write(Record { slice, object, value, code, before }) };
    }

    /// Makes the caller the only thread that may remove a target. Returns false if another thread may.
    pub(super) fn claim(self, target: usize) -> bool {
        let bit = 1 << (target % 64);
        // Acquire: pairs with the Release in `unclaim`, so no two threads write the record at once.
        self.header().claims[target / 64].fetch_or(bit, Ordering::Acquire) & bit == 0
    }

    /// Gives up a claim: the target was not removed after all.
    pub(super) fn unclaim(self, target: usize) {
        // Release: pairs with the Acquire in `claim`.
        self.header().claims[target / 64].fetch_and(!(1 << (target % 64)), Ordering::Release);
    }

    /// Writes the record of a removal.
    ///
    /// # Safety
    /// The caller has claimed the target, and its removal is not published.
    pub(super) unsafe fn write_removal(self, target: usize, before: u8) {
        // SAFETY: the caller has promised that it has claimed the target, so no other thread writes the record, and
        // that the record is unpublished, so no thread reads it.
        unsafe { self.before_removal_at(target).write(before) };
    }
}
