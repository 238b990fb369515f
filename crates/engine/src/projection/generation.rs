//! All blocks of a projection as they were built together, and the place where writes are noted.
//!
//! Invariants:
//! - The first block begins before all keys, and each block begins after the one before it, so every key is in the
//!   range of one block.
//! - While a generation is being built, writes are noted in it and in the present one. Blocks that both have are the
//!   same.

use super::block::{Block, Bounds, Changed, EVERY_KEY};
use super::columns::Columns;
use crate::cc::{Copies, Stale};
use crate::memory::{Memory, OutOfMemory};
use crate::sync::Arc;
use crate::sync::unmodelled::atomic::{AtomicBool, Ordering};
use std::convert::Infallible;
use std::fmt;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

pub(super) struct Generation<R: Columns> {
    /// The first eight bytes of each block's begin. Most searches need no more.
    starts: Vec<u64>,
    pub(super) blocks: Vec<Arc<Block<R>>>,
    /// The snapshot that the rows were read by.
    pub(super) readable_from: u64,
    /// True if writes from now on are noted only in another generation.
    is_superseded: AtomicBool,
}

impl<R: Columns> Generation<R> {
    pub(super) fn new(blocks: Vec<Arc<Block<R>>>, readable_from: u64) -> Self {
        debug_assert!(blocks[0].first.is_empty());
        debug_assert!(blocks.is_sorted_by(|one, next| one.first < next.first));
        let starts = blocks.iter().map(|block| prefix(&block.first)).collect();
        Generation { starts, blocks, readable_from, is_superseded: AtomicBool::new(false) }
    }

    /// Makes a generation of which nothing has been read.
    pub(super) fn unread(memory: &Arc<Memory>) -> Self {
        Generation::new(vec![Arc::new(Block::unread(memory, Box::default()))], 0)
    }

    /// Returns the number of the block whose range has this key.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let word = prefix(key);
        let (mut from, mut to) = (0, self.starts.len());
        while from < to {
            let middle = from.midpoint(to);
            let order = self.starts[middle].cmp(&word).then_with(|| (*self.blocks[middle].first).cmp(key));
            if order.is_le() { from = middle + 1 } else { to = middle }
        }
        from - 1
    }

    /// Returns the number of the first block that has keys from this bound on.
    pub(super) fn first_of(&self, from: Bound<&[u8]>) -> usize {
        match from {
            Bound::Included(key) | Bound::Excluded(key) => self.find(key),
            Bound::Unbounded => 0,
        }
    }

    /// Returns the part of these bounds that lies within the block's range, from `first`, a key of the block, on.
    pub(super) fn clip<'b>(&'b self, block: usize, first: &'b [u8], (from, to): Bounds<'b>) -> Bounds<'b> {
        let from = match from {
            Bound::Included(key) | Bound::Excluded(key) if key >= first => from,
            _ => Bound::Included(first),
        };
        let end = self.blocks.get(block + 1).map(|next| &*next.first);
        let to = match (to, end) {
            (Bound::Included(to) | Bound::Excluded(to), Some(end)) if to >= end => Bound::Excluded(end),
            (Bound::Unbounded, Some(end)) => Bound::Excluded(end),
            (to, _) => to,
        };
        (from, to)
    }

    fn note(&self, key: &[u8]) {
        self.blocks[self.find(key)].changes.note(key);
    }
}

/// Tells a transaction that has read rows of the blocks what may have been written there since.
impl<R: Columns> Copies for Generation<R> {
    fn stale(
        &self,
        (from, to): Bounds<'_>,
        found: &mut dyn FnMut(Stale<'_>) -> Result<bool, OutOfMemory>,
    ) -> Result<bool, OutOfMemory> {
        for number in self.first_of(from)..self.blocks.len() {
            let block = &self.blocks[number];
            if !begins_within(&block.first, to) {
                break;
            }
            let goes_on = block.changes.try_each((from, to), |changed| match changed {
                Changed::Nothing => Ok(true),
                Changed::Some(keys) => {
                    keys.iter().try_fold(true, |goes_on, key| Ok(goes_on && found(Stale::Key(key))?))
                }
                Changed::All => {
                    let (from, to) = self.clip(number, &block.first, (from, to));
                    found(Stale::Range(from, to))
                }
            })?;
            if !goes_on {
                return Ok(false);
            }
        }
        // Last, because everything noted here before the generation was superseded is known by now.
        match self.is_superseded.load(Ordering::Acquire) {
            true => found(Stale::Range(from, to)),
            false => Ok(true),
        }
    }
}

impl<R: Columns> fmt::Debug for Generation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

/// Returns true if a range that begins at `first` has keys up to this bound.
pub(super) fn begins_within(first: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => first <= to,
        Bound::Excluded(to) => first < to,
        Bound::Unbounded => true,
    }
}

/// Returns a number that orders keys with different first eight bytes.
fn prefix(key: &[u8]) -> u64 {
    let (head, mut word) = (key.len().min(8), [0; 8]);
    word[..head].copy_from_slice(&key[..head]);
    u64::from_be_bytes(word)
}

/// The present generation, and the next one while it is being built.
pub(super) struct Generations<R: Columns>(RwLock<Pair<R>>);

struct Pair<R: Columns> {
    present: Arc<Generation<R>>,
    next: Option<Arc<Generation<R>>>,
}

impl<R: Columns> Generations<R> {
    pub(super) fn new(present: Generation<R>) -> Self {
        Generations(RwLock::new(Pair { present: Arc::new(present), next: None }))
    }

    pub(super) fn present(&self) -> Arc<Generation<R>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).present.clone()
    }

    /// Notes that the row under this key is about to be written.
    pub(super) fn note(&self, key: &[u8]) {
        let pair = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pair.present.note(key);
        if let Some(next) = &pair.next {
            next.note(key);
        }
    }

    /// Notes writes from now on in `next` as well as in the present generation. `None`: only in the present one.
    pub(super) fn prepare(&self, next: Option<Arc<Generation<R>>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).next = next;
    }

    /// Makes `built` the present generation, and notes in it the keys that were noted in the next generation while
    /// its rows were read. Does nothing if `before`, which it replaces, was discarded meanwhile.
    pub(super) fn publish(&self, before: &Arc<Generation<R>>, built: Generation<R>) {
        let mut pair = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = pair.next.take();
        if !Arc::ptr_eq(&pair.present, before) {
            return;
        }
        if let Some(next) = next {
            next.hand_over(&built);
        }
        pair.replace(built);
    }

    /// Replaces the present generation with one of which nothing was read.
    pub(super) fn discard(&self, unread: Generation<R>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).replace(unread);
    }
}

impl<R: Columns> Pair<R> {
    fn replace(&mut self, built: Generation<R>) {
        // Under the lock, so that a write noted only in the new generation is noted after this.
        self.present.is_superseded.store(true, Ordering::Release); // pairs with the Acquire in `stale`
        self.present = Arc::new(built);
    }
}

impl<R: Columns> Generation<R> {
    /// Notes in `built`, whose blocks may begin elsewhere, everything that is noted here.
    fn hand_over(&self, built: &Generation<R>) {
        for (number, block) in self.blocks.iter().enumerate() {
            let noted: Result<bool, Infallible> = block.changes.try_each(EVERY_KEY, |changed| {
                match changed {
                    Changed::Nothing => {}
                    Changed::Some(keys) => keys.iter().for_each(|key| built.note(key)),
                    Changed::All => {
                        let end = self.blocks.get(number + 1).map(|next| &next.first);
                        let meets = |of: &&Arc<Block<R>>| end.is_none_or(|end| of.first < *end);
                        let from = built.find(&block.first);
                        built.blocks[from..].iter().take_while(meets).for_each(|of| of.changes.note_all());
                    }
                }
                Ok(true)
            });
            debug_assert_eq!(noted, Ok(true));
        }
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::super::block::Rows;
    use super::*;

    fn generation(memory: &Arc<Memory>, starts: &[&str], keys_max: usize) -> Generation<(u8,)> {
        let block = |first: &&str| {
            let rows = Rows::new(memory, false);
            Arc::new(Block::of_rows(memory, first.as_bytes().into(), rows, keys_max).expect("room"))
        };
        Generation::new(starts.iter().map(block).collect(), 1)
    }

    /// Proves that each key is in the range of the last block that begins at or before it.
    #[test]
    fn ranges() {
        let memory = Memory::new(1 << 20);
        let some = generation(&memory, &["", "a", "abcdefgh", "abcdefgh\0", "abcdefghi", "b"], 4);
        for (key, block) in [
            ("", 0),
            ("A", 0),
            ("a", 1),
            ("a\0", 1),
            ("abcdefgg", 1),
            ("abcdefgh", 2),
            ("abcdefgh\0", 3),
            ("abcdefgh\0\0", 3),
            ("abcdefghz", 4),
            ("b", 5),
            ("zzzzzzzzzzz", 5),
        ] {
            assert_eq!(some.find(key.as_bytes()), block, "{key:?}");
        }
    }

    /// Proves that if a range counts as written as a whole, all blocks of the finished generation that it meets count
    /// as written, even if it begins and ends within blocks.
    #[test]
    fn ranges_within_blocks() {
        let memory = Memory::new(1 << 20);
        for (written, expected) in [("b", "100"), ("f", "110"), ("m", "011"), ("t", "001")] {
            let all = Generations::new(generation(&memory, &[""], 8));
            all.prepare(Some(Arc::new(generation(&memory, &["", "d", "k", "s"], 0))));
            all.note(written.as_bytes());
            all.publish(&all.present(), generation(&memory, &["", "f", "n"], 8));
            let present = all.present();
            let is_all = |block: &Arc<Block<_>>| matches!(block.changes.next(EVERY_KEY), Changed::All);
            let found: String =
                present.blocks.iter().map(|block| if is_all(block) { '1' } else { '0' }).collect();
            assert_eq!(found, expected, "{written}");
        }
    }

    /// Proves that writes while a generation is being built are noted in the finished one, whatever the bounds of its
    /// blocks.
    #[test]
    fn writes_meanwhile() {
        let memory = Memory::new(1 << 20);
        let all = Generations::new(generation(&memory, &["", "m"], 8));
        all.prepare(Some(Arc::new(generation(&memory, &["", "m"], 1))));
        all.note(b"a");
        all.note(b"x");
        all.note(b"y");
        all.publish(&all.present(), generation(&memory, &["", "f", "m", "s"], 8));
        let changed = |block: usize| all.present().blocks[block].changes.next(EVERY_KEY);
        assert!(matches!(changed(0), Changed::Some(keys) if keys == [Box::from(*b"a")]));
        assert!(matches!(changed(1), Changed::Nothing));
        assert!(matches!((changed(2), changed(3)), (Changed::All, Changed::All)));
        all.note(b"g");
        assert!(matches!(changed(1), Changed::Some(_)));
    }
}
