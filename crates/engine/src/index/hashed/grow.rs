//! Growth by linear hashing (Litwin, VLDB 1980). One segment at a time, the next in order, is split into itself and a
//! new one. An entry stays in its bucket and place in whichever of the two segments it is, so a split cannot fail
//! halfway.

use super::bucket::{Bucket, ENTRIES, STASHED};
use super::latched::Latched;
use super::segment::STAMPS;
use super::{Hashed, PATIENCE, Placement, half_of, load};
use crate::epoch::Local;
use crate::index::atomic::{Ordering, fence};
use crate::index::nodes::Spares;
use crate::memory::OutOfMemory;

impl<P: Placement> Hashed<P> {
    /// Adds one segment, which takes its entries from the next segment to be split. Does nothing if another thread is
    /// growing the index, or holds the segment to split.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&self, local: &Local, keys: u64) {
        let Some(_one_at_a_time) = self.rest.growth.latch.try_lock() else { return };
        let len = self.len.load(Ordering::Relaxed); // changed only under the latch
        let half = half_of(len);
        let number = (len - half) as u32;
        let Some(held) = self.head(number).try_hold() else { return }; // a later insertion finds it free
        let from = Latched::new(self, number, held);
        match self.make_segment(len).and_then(|()| self.lines_for(&from)) {
            Ok(lines) => {
                self.split(local, from, half, lines);
                self.rest.growth.next_at.store(load(self.bits) * (len + 1), Ordering::Relaxed); // a guess
            }
            // Buckets and stashes have room for a while.
            Err(OutOfMemory) => self.rest.growth.next_at.store(keys + PATIENCE, Ordering::Relaxed),
        }
    }

    /// Adds the segments that this number of keys calls for, if there is memory.
    pub(super) fn grow_for(&self, local: &Local, keys: u64) {
        loop {
            let len = self.len.load(Ordering::Relaxed);
            if len.saturating_mul(load(self.bits)) >= keys {
                return;
            }
            self.grow(local, keys);
            if self.len.load(Ordering::Relaxed) == len {
                return;
            }
        }
    }

    /// Makes sure of the memory of a segment of this number. It may be left from an earlier attempt that could not go
    /// on.
    fn make_segment(&self, number: u64) -> Result<(), OutOfMemory> {
        for slab in [&self.rest.heads, &self.rest.buckets].into_iter().chain(&self.rest.hops) {
            if slab.used() == number {
                let id = slab.allocate_next()?;
                assert!(u64::from(id) == number + 1, "ids ascend");
            }
        }
        Ok(())
    }

    /// Reserves as many lines as the stashes of both halves can need.
    fn lines_for(&self, from: &Latched<'_, P>) -> Result<Spares<'_>, OutOfMemory> {
        let stashed = from.stashed();
        Spares::reserve(&self.rest.lines, if stashed == 0 { 0 } else { stashed.div_ceil(ENTRIES) + 1 })
    }

    /// Moves the entries whose numbers have the bit `half` to the segment that is as many places behind.
    fn split<'c>(&'c self, local: &Local, mut from: Latched<'c, P>, half: u64, mut lines: Spares<'_>) {
        let number = from.number + half as u32;
        debug_assert!(u64::from(number) == self.len.load(Ordering::Relaxed));
        let held = self.head(number).try_hold().expect("nobody else knows of it");
        let mut into = Latched::new(self, number, held);
        from.held.change();
        // All buckets are opened: marks of the old segment's buckets become void, also of buckets from which nothing
        // moves.
        let heads = (0..self.bucket_count()).map(|bucket| from.bucket(bucket).open() & !STASHED);
        let mut heads: Vec<[u64; 2]> = heads.map(|head| [head, 0]).collect();
        self.carry_stamps(&from, &into);
        for (bucket, [old, new]) in heads.iter_mut().enumerate() {
            for at in Bucket::places(*old) {
                let entry = from.bucket(bucket).entry(at);
                let hash = Latched::<P>::hash_of(&entry);
                if hash & half != 0 {
                    into.bucket(bucket).write(at, &entry);
                    (*old, *new) = (*old & !(1 << at), *new | 1 << at);
                    into.note_place(self.home_of(hash), bucket, at);
                    from.forget_place(self.home_of(hash), bucket, at);
                }
            }
        }
        for entry in from.empty_stash(local) {
            let hash = Latched::<P>::hash_of(&entry);
            let home = self.home_of(hash);
            let goes = usize::from(hash & half != 0);
            let to = if goes == 1 { &mut into } else { &mut from };
            let place = |bucket: usize| Some((bucket, Bucket::free_place(heads[bucket][goes])?));
            if let Some((bucket, at)) = self.buckets_of(home, entry.meta).find_map(place) {
                to.bucket(bucket).write(at, &entry);
                to.note_place(home, bucket, at);
                heads[bucket][goes] |= 1 << at;
            } else {
                let line = || lines.take().ok_or(OutOfMemory);
                to.push_to_stash(&entry, line).expect("there are lines for all");
                heads[home][goes] |= STASHED;
            }
        }
        for (bucket, [_, new]) in heads.iter().enumerate() {
            into.bucket(bucket).close(*new);
        }
        // Release: pairs with the Acquire in `segment_of`. This precedes the release of the old segment's buckets and
        // latch.
        self.len.store(u64::from(number) + 1, Ordering::Release);
        for (bucket, [old, _]) in heads.iter().enumerate() {
            from.bucket(bucket).close(*old);
        }
    }

    /// Copies the stamps. A thread that leaves a stamp has done so before this, or finds the buckets changed.
    fn carry_stamps(&self, from: &Latched<'_, P>, into: &Latched<'_, P>) {
        fence(Ordering::SeqCst); // pairs with the fence between `raise_stamp` and `is_as_marked`
        if self.rest.loses_stamps {
            return;
        }
        (0..STAMPS).for_each(|group| into.held.head.raise_stamp(group, from.held.head.stamp(group)));
    }
}
