//! A block: rows with neighboring keys, column by column, as they were when the block was built, and the keys of
//! the rows that have been written since.
//!
//! Invariants:
//! - Keys ascend, and are in the block's range.
//! - Each column has as many values as there are keys.
//! - Rows are never changed.
//! - A key is among the changes before the row under it is written, and stays.

use super::columns::Columns;
use super::keys::Keys;
use crate::memory::{Kind, Memory, OutOfMemory};
use crate::sync::Arc;
use crate::sync::unmodelled::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::unmodelled::{Mutex, lock};
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

/// A range of encoded keys.
pub(super) type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// Every key.
pub(super) const EVERY_KEY: Bounds<'_> = (Bound::Unbounded, Bound::Unbounded);

/// Rows, column by column, with their memory in the account.
pub(super) struct Rows<R: Columns> {
    pub(super) keys: Keys,
    pub(super) columns: R::Vectors,
    /// The approximate memory of these rows. Never more than is charged.
    bytes: u64,
    charged: Charged,
}

/// Memory is charged in steps of this size while rows are added.
const STEP_BYTES: u64 = 64 << 10;

impl<R: Columns> Rows<R> {
    pub(super) fn new(memory: &Arc<Memory>, are_words: bool) -> Rows<R> {
        Rows {
            keys: Keys::new(are_words),
            columns: R::vectors(),
            bytes: 0,
            charged: Charged::nothing(memory),
        }
    }

    pub(super) fn push(&mut self, key: &[u8], row: R) -> Result<(), OutOfMemory> {
        self.make_room((Self::row_bytes() + R::heap_bytes(&row) + key.len()) as u64)?;
        self.keys.push(key);
        R::push(row, &mut self.columns);
        Ok(())
    }

    /// Removes all rows, and keeps the room for the next ones.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        R::clear(&mut self.columns);
        self.bytes = 0;
    }

    /// Frees unused room.
    fn shrink(&mut self) -> Result<(), OutOfMemory> {
        let bytes = (self.keys.shrink() + R::shrink(&mut self.columns)) as u64;
        match self.charged.bytes().checked_sub(bytes) {
            Some(less) => self.charged.give_back(less),
            None => self.charged.add(bytes - self.charged.bytes())?,
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The fixed memory of a row. A key of eight bytes is counted with its number, or with its end.
    fn row_bytes() -> usize {
        size_of::<R>() + size_of::<usize>()
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let more = (self.bytes + bytes).saturating_sub(self.charged.bytes());
        if more > 0 {
            self.charged.add(more.next_multiple_of(STEP_BYTES))?;
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// A block: see the head of this file.
pub(super) struct Block<R: Columns> {
    /// The begin of its range, which ends where the next block's begins.
    pub(super) first: Box<[u8]>,
    pub(super) rows: Rows<R>,
    pub(super) zones: R::Zones,
    pub(super) changes: Changes,
}

impl<R: Columns> Block<R> {
    /// Makes a block of rows that are read later, if at all. All count as written since.
    pub(super) fn unread(memory: &Arc<Memory>, first: Box<[u8]>) -> Block<R> {
        let block = Block::awaited(memory, first, 0);
        block.changes.note_all();
        block
    }

    /// Makes a block of rows that are being read. Writes meanwhile are noted.
    pub(super) fn awaited(memory: &Arc<Memory>, first: Box<[u8]>, changes_max: usize) -> Block<R> {
        let rows = Rows::new(memory, false);
        let (zones, changes) = (R::zones(&rows.columns), Changes::new(memory, changes_max));
        Block { first, rows, zones, changes }
    }

    /// Makes a block of these rows.
    pub(super) fn of_rows(
        memory: &Arc<Memory>,
        first: Box<[u8]>,
        mut rows: Rows<R>,
        changes_max: usize,
    ) -> Result<Block<R>, OutOfMemory> {
        rows.shrink()?;
        rows.charged.add((size_of::<Block<R>>() + first.len()) as u64)?;
        let (zones, changes) = (R::zones(&rows.columns), Changes::new(memory, changes_max));
        Ok(Block { first, rows, zones, changes })
    }
}

/// The keys that have been written since the rows of a block were read.
#[derive(Debug)]
pub(super) struct Changes {
    /// `NOTHING`, `SOME` or `ALL`. Only grows.
    state: AtomicU32,
    keys: Mutex<BTreeSet<Box<[u8]>>>,
    /// With more keys, or without memory for another key, all keys count as written.
    keys_max: usize,
    charged: Charged,
}

const NOTHING: u32 = 0;
const SOME: u32 = 1;
const ALL: u32 = 2;

/// The part of a range to look up in the table.
pub(super) enum Changed {
    /// Nothing more.
    Nothing,
    /// The rows under these keys, and perhaps others after them.
    Some(Vec<Box<[u8]>>),
    /// The whole range.
    All,
}

/// The most keys that are read from the changes at once.
pub(super) const KEYS_AT_ONCE: usize = 64;

/// The approximate bytes of an entry in the set, in addition to its key.
const ENTRY_BYTES: usize = 48;

impl Changes {
    fn new(memory: &Arc<Memory>, keys_max: usize) -> Changes {
        let charged = Charged::nothing(memory);
        Changes { state: AtomicU32::new(NOTHING), keys: Mutex::default(), keys_max, charged }
    }

    pub(super) fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `note`.
        self.state.load(Ordering::Acquire) == NOTHING
    }

    /// Notes that the row under this key is about to be written.
    pub(super) fn note(&self, key: &[u8]) {
        if self.state.load(Ordering::Relaxed) == ALL {
            return; // the state never goes back
        }
        let mut keys = lock(&self.keys);
        if self.state.load(Ordering::Relaxed) == ALL || keys.contains(key) {
            return;
        }
        if keys.len() == self.keys_max || self.charged.add((key.len() + ENTRY_BYTES) as u64).is_err() {
            return self.drop_keys(&mut keys);
        }
        keys.insert(key.into());
        self.state.store(SOME, Ordering::Release); // pairs with the Acquire of readers
    }

    /// Notes that all rows count as written.
    pub(super) fn note_all(&self) {
        self.drop_keys(&mut lock(&self.keys));
    }

    fn drop_keys(&self, keys: &mut BTreeSet<Box<[u8]>>) {
        self.state.store(ALL, Ordering::Release); // pairs with the Acquire of readers
        *keys = BTreeSet::new();
        self.charged.give_back(self.charged.bytes());
    }

    /// Returns the first noted keys of a range, at most [`KEYS_AT_ONCE`].
    pub(super) fn next(&self, (from, to): Bounds<'_>) -> Changed {
        if self.is_empty() {
            return Changed::Nothing;
        }
        let keys = lock(&self.keys);
        if self.state.load(Ordering::Acquire) == ALL {
            return Changed::All;
        }
        // A range may end before it begins.
        let within = keys
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|key| (Bound::Unbounded, to).contains(&***key));
        let next: Vec<_> = within.take(KEYS_AT_ONCE).cloned().collect();
        if next.is_empty() { Changed::Nothing } else { Changed::Some(next) }
    }

    /// Passes everything in a range, as `next` returns it, to `f`. If `f` returns false, stops and returns false.
    pub(super) fn try_each<E>(
        &self,
        (from, to): Bounds<'_>,
        mut f: impl FnMut(&Changed) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut from = from.map(Box::<[u8]>::from);
        loop {
            let changed = self.next((from.as_ref().map(|key| &**key), to));
            let last = match &changed {
                Changed::Nothing => return Ok(true),
                Changed::Some(keys) => keys.last().cloned(),
                Changed::All => None,
            };
            match (f(&changed)?, last) {
                (false, _) => return Ok(false),
                (true, None) => return Ok(true),
                (true, Some(last)) => from = Bound::Excluded(last),
            }
        }
    }
}

/// Bytes in the account, until it is dropped. Changed by one thread at a time.
#[derive(Debug)]
struct Charged {
    memory: Arc<Memory>,
    bytes: AtomicU64,
}

impl Charged {
    fn nothing(memory: &Arc<Memory>) -> Charged {
        Charged { memory: memory.clone(), bytes: AtomicU64::new(0) }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) // of the one thread
    }

    /// Charges more, or fails and charges nothing.
    fn add(&self, bytes: u64) -> Result<(), OutOfMemory> {
        self.memory.charge(Kind::Other, bytes)?;
        self.bytes.store(self.bytes() + bytes, Ordering::Relaxed); // as above
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.memory.release(Kind::Other, bytes);
        self.bytes.store(self.bytes() - bytes, Ordering::Relaxed); // as above
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.memory.release(Kind::Other, self.bytes());
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Proves that changes are noted by key up to the limit, then as a whole, and that their memory is charged and
    /// given back.
    #[test]
    fn changes_are_bounded() {
        let memory = Memory::new(1 << 20);
        let before = memory.used_bytes(Kind::Other);
        let mut rows = Rows::<(u64,)>::new(&memory, true);
        (0..8u64).for_each(|key| rows.push(&key.to_be_bytes(), (key,)).unwrap());
        let block = Block::of_rows(&memory, Box::default(), rows, 2).unwrap();
        let built = memory.used_bytes(Kind::Other);
        assert!(built > before && block.changes.is_empty());
        let note = |key: u64| block.changes.note(&key.to_be_bytes());
        [3, 3, 9].into_iter().for_each(note);
        assert!(memory.used_bytes(Kind::Other) > built);
        let Changed::Some(keys) = block.changes.next(EVERY_KEY) else { panic!("two keys") };
        assert_eq!(keys, [3u64, 9].map(|key| Box::from(key.to_be_bytes())));
        note(4);
        assert!(matches!(block.changes.next(EVERY_KEY), Changed::All));
        assert_eq!(memory.used_bytes(Kind::Other), built);
        drop(block);
        assert_eq!(memory.used_bytes(Kind::Other), before);
    }

    /// Proves that without memory for a key all count as written, and rows are refused, whatever there was before.
    #[test]
    fn without_memory() {
        let memory = Memory::new(1 << 20);
        let before = memory.used_bytes(Kind::Other);
        let block = Block::<(u64,)>::awaited(&memory, Box::default(), 8);
        let all = (1 << 20) - memory.total_used_bytes();
        memory.charge(Kind::Other, all).unwrap();
        let mut rows = Rows::<(u64,)>::new(&memory, true);
        assert_eq!(rows.push(&[0; 8], (1,)), Err(OutOfMemory));
        block.changes.note(b"a key");
        assert!(matches!(block.changes.next(EVERY_KEY), Changed::All));
        memory.release(Kind::Other, all);
        drop((block, rows));
        assert_eq!(memory.used_bytes(Kind::Other), before);
    }
}
