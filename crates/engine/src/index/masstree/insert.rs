//! Insertion:
//!
//! 1. Latch the border at which the descent ended, and look again.
//! 2. Add the key to a free slot.
//! 3. If the border is full, continue in [`super::split`].
//! 4. If another key has the same slice, make a new layer here.

use super::border::{Entries, Entry, Find};
use super::descend::Cursor;
use super::node::{Head, Latched, Node, code};
use super::{Masstree, suffix};
use crate::epoch::Local;
use crate::index::nodes::Spares;
use crate::index::{Inserted, Key, Probe, RecordId, slice_of};
use crate::memory::OutOfMemory;
use crate::suspend::Never;
use std::ptr::null_mut;

impl Masstree {
    /// Maps an absent key to `rid`, beginning where the descent of `c` ended.
    pub(super) fn insert_key(
        &self,
        local: &Local,
        mut c: Cursor,
        key: &Key,
        rid: u32,
    ) -> Result<Inserted, OutOfMemory> {
        debug_assert!(rid != 0 && (!self.fixed8 || key.len == 8));
        loop {
            if (c.node == 0 || c.level > 0)
                && let Probe::Found(id) = self.descend(&mut c, key, &mut Never)
            {
                return Ok(Inserted::Exists(id));
            }
            let border = Latched::lock(self.node(c.node), c.node);
            if border.head.has(Head::DELETED) {
                c = self.begin(Cursor::new(key));
                continue;
            }
            if border.node.is_beyond(border.head, c.slice) {
                c.node = border.node.next();
                continue;
            }
            match border.node.find_latched(self.shape(), border.head, c.slice, c.remaining(key)) {
                Find::Inline(slot) => return Ok(Inserted::Exists(RecordId(border.node.rid(slot)))),
                Find::Layer(slot, level) => c.enter_layer(key, border.node.rid(slot), level),
                Find::Absent => {
                    self.insert_absent(local, border, &c, key, rid)?;
                    return Ok(Inserted::New);
                }
                Find::Suffix(slot) => {
                    // SAFETY: the suffix is that of a live slot, and the border is latched.
                    let present = unsafe { suffix::bytes(suffix::get(border.node, slot)) };
                    if present == suffix::rest_of(key, c.depth) {
                        return Ok(Inserted::Exists(RecordId(border.node.rid(slot))));
                    }
                    self.push_down(local, border, slot, suffix::rest_of(key, c.depth), rid)?;
                    return Ok(Inserted::New);
                }
            }
        }
    }

    #[inline]
    fn insert_absent(
        &self,
        local: &Local,
        mut border: Latched<'_>,
        c: &Cursor,
        key: &Key,
        rid: u32,
    ) -> Result<(), OutOfMemory> {
        let remaining = c.remaining(key);
        let mut entry = Entry { slice: c.slice, code: remaining.min(9) as u8, rid, suffix: null_mut() };
        if remaining > 8 {
            if suffix::block_of(border.node).is_null() {
                suffix::set_block(border.node, suffix::make_block(local)?);
            }
            entry.code = code::SUFFIX;
            entry.suffix = suffix::make(local, suffix::rest_of(key, c.depth))?;
        }
        if !border.is_full() {
            border.insert_entry(self.shape(), &entry);
            return Ok(());
        }
        let result = self.split_border(local, border, &entry, c, key);
        if result.is_err() && !entry.suffix.is_null() {
            // SAFETY: the suffix was made above, and is not published.
            unsafe { suffix::free(local, entry.suffix) };
        }
        result
    }

    /// Moves the key of a slot with a suffix down into a new layer, together with the new key, because both share the
    /// slot's slice. The new key's bytes from that layer on are `rest`.
    #[cold]
    fn push_down(
        &self,
        local: &Local,
        mut border: Latched<'_>,
        slot: usize,
        rest: &[u8],
        rid: u32,
    ) -> Result<(), OutOfMemory> {
        let old = suffix::get(border.node, slot);
        // SAFETY: the suffix is that of a live slot, and the border is latched.
        let old_rest = unsafe { suffix::bytes(old) };
        let layer = self.make_layers(local, (old_rest, border.node.rid(slot)), (rest, rid))?;
        border.change();
        self.carry_stamp_down(border.node, layer);
        border.node.set_code(slot, code::LAYER);
        border.node.set_rid(slot, layer);
        suffix::set(border.node, slot, null_mut());
        drop(border);
        // SAFETY: the suffix is out of its slot, so operations that start from now on cannot reach it.
        unsafe { suffix::retire(local, old) };
        Ok(())
    }

    /// Makes a layer of two different keys: one link to a further layer for each slice that they have in common, then a
    /// border of two. Returns the layer's root.
    fn make_layers(
        &self,
        local: &Local,
        (a, a_rid): (&[u8], u32),
        (b, b_rid): (&[u8], u32),
    ) -> Result<u32, OutOfMemory> {
        debug_assert!(a != b);
        let common = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count();
        // If one of the keys ends with a common slice, that slice has no layer below.
        let links = common.min(a.len().min(b.len()).saturating_sub(1) / 8);
        let mut spares = Spares::reserve(&self.nodes, links + 1)?;
        let (entries, block) = make_pair(local, (&a[8 * links..], a_rid), (&b[8 * links..], b_rid))?;
        let mut below = self.make_border(&mut spares, &entries, block);
        for link in (0..links).rev() {
            let mut entries = Entries::new();
            let slice = slice_of(&a[8 * link..]);
            entries.insert(Entry { slice, code: code::LAYER, rid: below, suffix: null_mut() });
            below = self.make_border(&mut spares, &entries, null_mut());
        }
        Ok(below)
    }

    /// Carries the stamp of the border down: a reader that has found a key absent here has also found it absent in
    /// these unpublished layers.
    fn carry_stamp_down(&self, border: &Node, mut layer: u32) {
        loop {
            let node = self.node(layer);
            node.carry_stamp(border);
            match node.entry(self.shape(), 0) {
                Entry { code, rid, .. } if code >= code::LAYER => layer = rid,
                _ => return,
            }
        }
    }

    /// Makes a layer of one border, not yet published.
    fn make_border(&self, spares: &mut Spares<'_>, entries: &Entries, block: *mut suffix::Block) -> u32 {
        let id = spares.take().expect("as many reserved as are made");
        let node = self.node(id);
        let mut head = node.clear(0, Head::INFINITE | Head::LEFTMOST);
        suffix::set_block(node, block);
        head.set_live(node.fill(self.shape(), entries.as_slice()));
        node.set_head(head);
        id
    }
}

/// Makes the entries of two keys, of which these bytes are left, and a block for their suffixes if they have any.
fn make_pair(
    local: &Local,
    (a, a_rid): (&[u8], u32),
    (b, b_rid): (&[u8], u32),
) -> Result<(Entries, *mut suffix::Block), OutOfMemory> {
    let needs_block = a.len().max(b.len()) > 8;
    let block = if needs_block { suffix::make_block(local)? } else { null_mut() };
    let mut entries = Entries::new();
    let made = make_entry(local, a, a_rid)
        .map(|entry| _ = entries.insert(entry))
        .and_then(|()| make_entry(local, b, b_rid))
        .map(|entry| _ = entries.insert(entry));
    if let Err(error) = made {
        for entry in entries.as_slice().iter().filter(|entry| !entry.suffix.is_null()) {
            // SAFETY: the suffix was made above, and is not published.
            unsafe { suffix::free(local, entry.suffix) };
        }
        if needs_block {
            // SAFETY: the block was made above, and is not published.
            unsafe { suffix::free_block(local, block) };
        }
        return Err(error);
    }
    Ok((entries, block))
}

/// Makes an entry for a key of which these bytes are left.
fn make_entry(local: &Local, bytes: &[u8], rid: u32) -> Result<Entry, OutOfMemory> {
    let mut entry = Entry { slice: slice_of(bytes), code: bytes.len().min(9) as u8, rid, suffix: null_mut() };
    if bytes.len() > 8 {
        entry.code = code::SUFFIX;
        entry.suffix = suffix::make(local, &bytes[8..])?;
    }
    Ok(entry)
}
