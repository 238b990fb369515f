//! Insertion:
//!
//! 1. Latch the leaf at which the descent ended, and look again.
//! 2. Add the key, if the leaf has room.
//! 3. If the leaf is full, split it ([`super::split`]), and look for the key's place again.

use super::BTree;
use super::descend::Cursor;
use super::node::{Entry, Head, Latched};
use crate::epoch::Local;
use crate::index::{Inserted, Key, Probe, RecordId, object};
use crate::memory::OutOfMemory;
use crate::suspend::Never;
use std::ptr::null_mut;

impl BTree {
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
            // A cursor that has not been stepped is at the root.
            if self.node(c.node).head().level() > 0 {
                let probe;
                (c, probe) = self.descend(c, *key, &mut Never);
                if let Probe::Found(id) = probe {
                    return Ok(Inserted::Exists(id));
                }
            }
            let Some(mut leaf) = self.latch_leaf(&c) else {
                c = self.begin(c.ascends);
                continue;
            };
            let place = match self.place_of(leaf.node, leaf.head, key) {
                Ok(place) => return Ok(Inserted::Exists(RecordId(leaf.node.value(self.fixed8, place)))),
                Err(place) => place,
            };
            if leaf.count() < self.capacity {
                self.insert_absent(local, &mut leaf, place, key, rid)?;
                return Ok(Inserted::New);
            }
            let ascends = c.ascends || leaf.node.run().leads_to(place);
            drop(leaf);
            self.make_room(local, key, ascends)?;
            c = self.begin(ascends);
        }
    }

    /// Latches the leaf of a cursor. Returns `None` if it is no longer the key's leaf, or is not a leaf.
    fn latch_leaf(&self, c: &Cursor) -> Option<Latched<'_>> {
        let leaf = Latched::lock(self.node(c.node), c.node);
        let is_it = !leaf.head.has(Head::DELETED) && leaf.head.level() == 0 && self.is_named(c);
        is_it.then_some(leaf)
    }

    fn insert_absent(
        &self,
        local: &Local,
        leaf: &mut Latched<'_>,
        place: usize,
        key: &Key,
        rid: u32,
    ) -> Result<(), OutOfMemory> {
        if self.fixed8 {
            let entry = Entry { slice: key.slice, code: 8, value: rid, object: null_mut() };
            leaf.insert(true, place, &entry);
            return Ok(());
        }
        let mut short = [0; 8];
        let bytes = key.bytes(&mut short);
        let object = match bytes.len() <= 8 && leaf.node.skip() == 0 {
            true => null_mut(),
            false => object::make(local, bytes)?,
        };
        let skip = leaf.fit(bytes, !object.is_null());
        leaf.insert(false, place, &Entry::new(bytes, skip, rid, object));
        Ok(())
    }
}
