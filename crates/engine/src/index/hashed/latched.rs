//! A segment under its latch: the places of entries, and how entries are moved. Readers may be in its buckets and in
//! its stash meanwhile.
//!
//! Invariant: whenever an entry comes, goes or moves, the head of its home changes, and so do the heads of the buckets
//! that have or had it.

use super::bucket::{Bucket, ENTRIES, Entry, LIVE, STASHED};
use super::segment::Held;
use super::{Hashed, Placement};
use crate::epoch::Local;
use crate::index::atomic::Ordering;
use crate::index::{Key, nodes};
use crate::memory::OutOfMemory;

/// The place of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Bucket {
        bucket: usize,
        at: usize,
    },
    Stash {
        line: u32,
        /// The previous line, or 0.
        before: u32,
        at: usize,
    },
}

/// A latched segment. Dropping this releases the latch.
pub struct Latched<'c, P: Placement> {
    pub(super) index: &'c Hashed<P>,
    pub(super) number: u32,
    pub(super) held: Held<'c>,
}

/// Open buckets. Dropping this closes them.
pub(super) struct Opened<'c> {
    /// Each bucket with the head that it will have.
    buckets: [Option<(usize, &'c Bucket, u64)>; 3],
}

impl Opened<'_> {
    /// Returns the head that an open bucket will have.
    pub(super) fn head(&mut self, bucket: usize) -> &mut u64 {
        let (_, _, head) =
            self.buckets.iter_mut().flatten().find(|open| open.0 == bucket).expect("it has been opened");
        head
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.buckets.iter().flatten().for_each(|(_, bucket, head)| bucket.close(*head));
    }
}

impl<'c, P: Placement> Latched<'c, P> {
    pub(super) fn new(index: &'c Hashed<P>, number: u32, held: Held<'c>) -> Self {
        Latched { index, number, held }
    }

    /// Opens these buckets, some of which may be the same.
    pub(super) fn open(&mut self, buckets: &[usize]) -> Opened<'c> {
        self.held.change();
        let mut opened = Opened { buckets: [None; 3] };
        for (i, &bucket) in buckets.iter().enumerate() {
            if !buckets[..i].contains(&bucket) {
                opened.buckets[i] = Some((bucket, self.bucket(bucket), self.bucket(bucket).open()));
            }
        }
        opened
    }

    pub(super) fn bucket(&self, bucket: usize) -> &'c Bucket {
        self.index.bucket(self.number, bucket)
    }

    /// Returns the entry of a key, with its place.
    pub(super) fn find(&self, hash: u64, meta: u16, key: &Key) -> Option<(Place, Entry)> {
        // SAFETY: the latch keeps the entry, which keeps its object.
        let is_it = |entry: &Entry| entry.meta == meta && unsafe { entry.is_of(key) };
        let home = self.index.home_of(hash);
        for nth in 0..self.index.reach() {
            let places = self.index.places_in(self.number, home, nth);
            if places == 0 {
                continue;
            }
            let bucket = P::bucket(self.index, home, meta, nth);
            for at in Bucket::places(self.bucket(bucket).head() & places) {
                let entry = self.bucket(bucket).entry(at);
                if is_it(&entry) {
                    return Some((Place::Bucket { bucket, at }, entry));
                }
            }
        }
        if self.bucket(home).head() & STASHED == 0 {
            return None; // none of the home's keys is there: under the latch, this is certain
        }
        self.find_in_stash(is_it)
    }

    /// Returns the first entry of the stash for which this holds, with its place.
    fn find_in_stash(&self, is_it: impl Fn(&Entry) -> bool) -> Option<(Place, Entry)> {
        let (mut before, mut line) = (0, self.held.head.stash());
        while line != 0 {
            let (live, next) = self.index.line(line).in_stash();
            for at in Bucket::places(live) {
                let entry = self.index.line(line).entry(at);
                if is_it(&entry) {
                    return Some((Place::Stash { line, before, at }, entry));
                }
            }
            (before, line) = (line, next);
        }
        None
    }

    pub(super) fn has_room(&self, bucket: usize) -> bool {
        self.bucket(bucket).head() & LIVE != LIVE
    }

    /// Puts an entry into one of its buckets. Returns false if there is no room, and none can be made.
    pub(super) fn put(&mut self, home: usize, entry: &Entry) -> bool {
        let roomy = self.index.buckets_of(home, entry.meta).find(|bucket| self.has_room(*bucket));
        match roomy.or_else(|| P::make_room(self, home, entry.meta)) {
            Some(bucket) => {
                self.put_into(home, bucket, entry);
                true
            }
            None => false,
        }
    }

    /// Puts an entry into a bucket that has room.
    fn put_into(&mut self, home: usize, bucket: usize, entry: &Entry) {
        let mut opened = self.open(&[home, bucket]);
        let at = Bucket::free_place(*opened.head(bucket)).expect("it has room");
        self.bucket(bucket).write(at, entry);
        *opened.head(bucket) |= 1 << at;
        self.note_place(home, bucket, at);
    }

    /// Moves an entry to another bucket, which has room. `home` is the entry's home, which may be neither of the two.
    pub(super) fn relocate(&mut self, home: usize, (from, at): (usize, usize), to: usize) {
        let mut opened = self.open(&[home, from, to]);
        let entry = self.bucket(from).entry(at);
        let place = Bucket::free_place(*opened.head(to)).expect("it has room");
        self.bucket(to).write(place, &entry);
        *opened.head(to) |= 1 << place;
        *opened.head(from) &= !(1 << at);
        self.note_place(home, to, place);
        self.forget_place(home, from, at);
    }

    /// Takes an entry out of its place. If a bucket then has room, fills it from the stash.
    pub(super) fn take(&mut self, local: &Local, hash: u64, place: Place) {
        let home = self.index.home_of(hash);
        match place {
            Place::Bucket { bucket, at } => {
                let mut opened = self.open(&[home, bucket]);
                *opened.head(bucket) &= !(1 << at);
                self.forget_place(home, bucket, at);
                drop(opened);
                if self.held.head.stash() != 0 {
                    self.fill(local, bucket);
                }
            }
            Place::Stash { line, before, at } => self.unstash(local, home, line, before, at),
        }
    }

    /// Returns the bit of the home's word for a place.
    fn hop(&self, home: usize, bucket: usize, at: usize) -> u64 {
        let distance = bucket.wrapping_sub(home) & (self.index.bucket_count() - 1);
        debug_assert!(distance < self.index.reach());
        1 << (distance * ENTRIES + at)
    }

    /// Notes in the home's word, if there are such words, that an entry is in a place. The home is open.
    pub(super) fn note_place(&self, home: usize, bucket: usize, at: usize) {
        if P::HAS_HOPS {
            let word = self.index.hop_word(self.number, home);
            let hops = word.load(Ordering::Relaxed) | self.hop(home, bucket, at); // under the latch
            word.store(hops, Ordering::Relaxed); // readers validate
        }
    }

    /// Notes that an entry is no longer in a place.
    pub(super) fn forget_place(&self, home: usize, bucket: usize, at: usize) {
        if P::HAS_HOPS {
            let word = self.index.hop_word(self.number, home);
            let hops = word.load(Ordering::Relaxed) & !self.hop(home, bucket, at); // as in `note_place`
            word.store(hops, Ordering::Relaxed);
        }
    }
}

// ---- the stash
impl<P: Placement> Latched<'_, P> {
    /// Returns the number of an entry's key.
    pub(super) fn hash_of(entry: &Entry) -> u64 {
        // SAFETY: the latch keeps the entry, which keeps its object.
        unsafe { entry.hash() }
    }

    /// Returns whether the stash has a key whose home is this bucket.
    fn has_stashed(&self, home: usize) -> bool {
        self.find_in_stash(|entry| self.index.home_of(Self::hash_of(entry)) == home).is_some()
    }

    /// Puts an entry into the stash. If `new_line` fails, nothing has changed.
    pub(super) fn stash(
        &mut self,
        home: usize,
        entry: &Entry,
        new_line: impl FnOnce() -> Result<u32, OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.push_to_stash(entry, new_line)?;
        *self.open(&[home]).head(home) |= STASHED;
        Ok(())
    }

    /// Puts an entry into the stash like `stash`, and leaves the head of its home to the caller.
    pub(super) fn push_to_stash(
        &mut self,
        entry: &Entry,
        new_line: impl FnOnce() -> Result<u32, OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        let mut id = self.held.head.stash();
        while id != 0 {
            let (live, next) = self.index.line(id).in_stash();
            if let Some(at) = Bucket::free_place(live) {
                self.held.change();
                self.index.line(id).write(at, entry);
                self.index.line(id).set_in_stash(live | 1 << at, next);
                return Ok(());
            }
            id = next;
        }
        let id = new_line()?;
        self.index.line(id).write(0, entry);
        self.index.line(id).set_in_stash(1, self.held.head.stash());
        self.held.set_stash(id);
        Ok(())
    }

    fn take_from_stash(&mut self, local: &Local, line: u32, before: u32, at: usize) {
        let (live, next) = self.index.line(line).in_stash();
        let live = live & !(1 << at);
        self.index.line(line).set_in_stash(live, next);
        if live != 0 {
            return;
        }
        match before {
            0 => self.held.set_stash(next),
            _ => {
                let (live, _) = self.index.line(before).in_stash();
                self.index.line(before).set_in_stash(live, next);
            }
        }
        // SAFETY: the line is unlinked, so no operation that starts from now on gets there.
        unsafe { nodes::retire(local, &self.index.rest.lines, line) };
    }

    /// Moves an entry from the stash to this bucket, which has room and is one of the entry's.
    fn fill(&mut self, local: &Local, bucket: usize) {
        let goes_there = |entry: &Entry| {
            let home = self.index.home_of(Self::hash_of(entry));
            self.index.buckets_of(home, entry.meta).any(|own| own == bucket)
        };
        let Some((Place::Stash { line, before, at }, entry)) = self.find_in_stash(goes_there) else { return };
        let home = self.index.home_of(Self::hash_of(&entry));
        self.put_into(home, bucket, &entry);
        self.unstash(local, home, line, before, at);
    }

    /// Takes an entry with this home out of the stash.
    fn unstash(&mut self, local: &Local, home: usize, line: u32, before: u32, at: usize) {
        let mut opened = self.open(&[home]);
        self.take_from_stash(local, line, before, at);
        if !self.has_stashed(home) {
            *opened.head(home) &= !STASHED;
        }
    }

    /// Takes all entries out of the stash. The caller changes the heads of their buckets.
    pub(super) fn empty_stash(&mut self, local: &Local) -> Vec<Entry> {
        let mut entries = vec![];
        let mut id = self.held.head.stash();
        self.held.set_stash(0);
        while id != 0 {
            let (live, next) = self.index.line(id).in_stash();
            entries.extend(Bucket::places(live).map(|at| self.index.line(id).entry(at)));
            // SAFETY: the line is unlinked, so no operation that starts from now on gets there.
            unsafe { nodes::retire(local, &self.index.rest.lines, id) };
            id = next;
        }
        entries
    }

    /// Returns how many entries the stash has.
    pub(super) fn stashed(&self) -> usize {
        let (mut count, mut id) = (0, self.held.head.stash());
        while id != 0 {
            let (live, next) = self.index.line(id).in_stash();
            (count, id) = (count + Bucket::places(live).count(), next);
        }
        count
    }
}
