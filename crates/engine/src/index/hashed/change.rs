//! Insertion and removal. Each latches the segment of its key, looks for the key, and changes one entry.

use super::bucket::{Bucket, Entry, LONG, meta_of};
use super::latched::Latched;
use super::{Hashed, Placement};
use crate::epoch::Local;
use crate::index::atomic::Ordering;
use crate::index::{Inserted, Key, RecordId, mixed, object};
use crate::memory::OutOfMemory;
use std::ptr::null_mut;

impl<P: Placement> Hashed<P> {
    /// Latches the segment to which a key belongs. It stays the key's segment as long as the latch is held.
    fn hold(&self, hash: u64) -> Latched<'_, P> {
        loop {
            let number = self.segment_of(hash);
            let held = self.head(number).hold();
            // A thread that moves keys to another segment publishes this before it releases the latch.
            if self.segment_of(hash) == number {
                return Latched::new(self, number, held);
            }
        }
    }

    /// Maps an absent key to `rid`.
    pub(super) fn insert_key(&self, local: &Local, key: &Key, rid: u32) -> Result<Inserted, OutOfMemory> {
        debug_assert!(rid != 0 && (!self.rest.fixed8 || key.len == 8));
        let hash = mixed::mix(key);
        let meta = meta_of(hash, key.len);
        let home = self.home_of(hash);
        let mut segment = self.hold(hash);
        if let Some((_, entry)) = segment.find(hash, meta, key) {
            return Ok(Inserted::Exists(RecordId(entry.id)));
        }
        let object = match key.len {
            ..=8 => null_mut(),
            // SAFETY: a key's bytes are alive during an operation.
            _ => object::make(local, unsafe { key.long_bytes() })?,
        };
        let word = if object.is_null() { key.slice } else { object.expose_provenance() as u64 };
        let entry = Entry { word, id: rid, meta };
        if !segment.put(home, &entry)
            && let Err(error) = segment.stash(home, &entry, || self.rest.lines.allocate())
        {
            if !object.is_null() {
                // SAFETY: the object was made above, and is in no place.
                unsafe { object::free(local, object) };
            }
            return Err(error);
        }
        // Relaxed: when to grow is only a guess. The key is counted under the latch, before it can be removed.
        let keys = self.rest.growth.keys.fetch_add(1, Ordering::Relaxed) + 1;
        drop(segment);
        if keys > self.rest.growth.next_at.load(Ordering::Relaxed) {
            self.grow(local, keys);
        }
        Ok(Inserted::New)
    }

    /// Removes the key if it maps to `rid`, and returns true if it did.
    pub(super) fn remove_key(&self, local: &Local, key: &Key, rid: u32) -> bool {
        let hash = mixed::mix(key);
        let mut segment = self.hold(hash);
        let Some((place, entry)) = segment.find(hash, meta_of(hash, key.len), key) else { return false };
        if entry.id != rid {
            return false;
        }
        segment.take(local, hash, place);
        self.rest.growth.keys.fetch_sub(1, Ordering::Relaxed); // as in `insert_key`
        drop(segment);
        retire_key(local, &entry);
        true
    }

    /// Retires all keys and lines of stashes: they are freed when no operation can be reading them any more.
    ///
    /// # Safety
    /// As for [`clear`](crate::index::Index::clear).
    pub(super) unsafe fn clear_all(&self, local: &Local) {
        for number in 0..self.len.load(Ordering::Acquire) as u32 {
            let mut segment = Latched::new(self, number, self.head(number).hold());
            for bucket in (0..self.bucket_count()).map(|bucket| segment.bucket(bucket)) {
                let head = bucket.open();
                Bucket::places(head).for_each(|at| retire_key(local, &bucket.entry(at)));
                bucket.close(head & !super::bucket::LIVE);
            }
            segment.empty_stash(local).iter().for_each(|entry| retire_key(local, entry));
        }
    }
}

/// Retires the object of a key that is no longer in any place: it is freed when no operation can be reading it.
fn retire_key(local: &Local, entry: &Entry) {
    if entry.code() == LONG {
        let object = std::ptr::with_exposed_provenance_mut(entry.word as usize);
        // SAFETY: the entry is out of its place, and readers that look there from now on find another version.
        unsafe { object::retire(local, object) };
    }
}
