//! Insertion writes a record of the addition in the leaf's block. It publishes the record by an exchange of the leaf's
//! word, from the word under which the key was seen to be absent.

use super::BwTree;
use super::descend::Cursor;
use super::node::Entry;
use super::text::{Sought, Text};
use super::word::Word;
use crate::epoch::Local;
use crate::index::{Inserted, Key, Probe};
use crate::memory::OutOfMemory;
use crate::suspend::Never;
use crate::sync::Backoff;

impl BwTree {
    /// Maps an absent key to `rid`, beginning where the descent of `c` ended.
    #[inline(never)]
    pub(super) fn insert_key(
        &self,
        local: &Local,
        c: Cursor,
        key: &Key,
        rid: u32,
    ) -> Result<Inserted, OutOfMemory> {
        debug_assert!(rid != 0 && (!self.is_fixed8 || key.len == 8));
        let mut short = [0; 8];
        let text = match self.is_fixed8 {
            true => Text { slice: key.slice, ..Text::EMPTY },
            false => Text::make(local, key.bytes(&mut short))?,
        };
        let inserted = self.insert_text(local, c, key, &text, rid);
        if inserted != Ok(Inserted::New) {
            // SAFETY: no node has it.
            unsafe { text.free(local) };
        }
        inserted
    }

    fn insert_text(
        &self,
        local: &Local,
        mut c: Cursor,
        key: &Key,
        text: &Text,
        rid: u32,
    ) -> Result<Inserted, OutOfMemory> {
        let (mut backoff, mut short) = (Backoff::new(), [0; 8]);
        let sought = Sought::new(key, self.is_fixed8, &mut short);
        loop {
            let probe;
            (c, probe) = self.descend(c, *key, &mut Never);
            if let Probe::Found(id) = probe {
                return Ok(Inserted::Exists(id));
            }
            if c.word.has(Word::FROZEN) {
                // Another thread is about to give the leaf's keys to the neighbor, or has done so.
                backoff.wait();
                c = self.begin();
                continue;
            }
            let node = self.view(c.word).node;
            let Some(slot) = node.take_slot() else {
                self.consolidate(local, c.id, c.word)?;
                c.word = Word::NONE;
                continue;
            };
            let probe = node.probe(&sought);
            let entry = Entry { slice: probe.slice, object: text.object, value: rid, code: probe.code };
            // SAFETY: the slot is this thread's.
            unsafe { node.write_added(slot, &entry, c.word.newest()) };
            if self.exchange(c.id, c.word, c.word.with_newest(slot)) {
                break;
            }
            // The slot is lost, but the next block has its own slots.
            c.word = Word::NONE;
        }
        if c.has_hopped {
            // This fails if memory is short. Descents then go by way of the neighbor.
            let _ = self.post(local, &sought);
        }
        Ok(Inserted::New)
    }
}
