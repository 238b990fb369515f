//! Fills a database at recovery, past transactions: first the rows of a checkpoint, then the changes of the log. Each
//! thread has a [`Restorer`]; `replay` distributes the work.
//!
//! Requirements:
//!
//! - Nothing else uses the database: no transaction is open, and none begins before [`resume`].
//! - All changes of one key are made by one thread, in the order of the log. Before that, several threads may load
//!   rows at once.
//! - After an error the database is useless and is dropped.
//!
//! Then every record has one version, as if the last transaction that wrote it had committed it.

use crate::cc::{ConcurrencyControl, Declared, Intent, NotBegun, RESTORED_AT_MAX, Target};
use crate::error::{Error, Result};
use crate::index::{Index, Inserted, Key, Page, Paged};
use crate::kernel::{Context, Engine};
use crate::memory::OutOfMemory;
use crate::ops::{Point, run_all};
use crate::record::{RecordId, VALUE_BYTES_MAX};
use crate::suspend::{Never, OnMiss, PrefetchOnly};
use crate::sync::{Backoff, Fixed};
use crate::table::{KEY_BYTES_MAX, KEY_OF_EIGHT, TableInner, index_key};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// How many changes are searched for at once.
const GROUP: usize = 32;
/// How many slots a restorer takes at a time. With more slots it meets the other restorers less, and rows that are
/// loaded one after the other lie one behind the other.
const SLOTS: u32 = 64;
/// How many bytes of memory an empty batch keeps.
const BATCH_BYTES_KEPT: usize = 1 << 20;
/// How many pages of entries are removed within one epoch.
const EMPTY_PAGES: usize = if cfg!(test) { 2 } else { 256 };
/// No record.
const NOTHING: RecordId = RecordId(0);

/// Lets transactions begin and commit after `at`, which is the latest restored timestamp or a later one.
pub(crate) fn resume<C: ConcurrencyControl>(engine: &Engine<C>, at: u64) -> Result<()> {
    C::resume(&engine.shared, checked_timestamp(at)?);
    Ok(())
}

/// One thread's part in filling a database.
pub(crate) struct Restorer<C: ConcurrencyControl> {
    context: Fixed<Context<C>>,
    /// Open while changes are made: the searches for them belong to a transaction.
    txn: C::Txn,
    /// Free slots of this restorer.
    slots: Range<u32>,
}

/// Copied changes on their way from the log to a restorer, in the order of the log.
#[derive(Default)]
pub(crate) struct Batch<'t> {
    changes: Vec<Change<'t>>,
    bytes: Vec<u8>,
}

/// A change of a batch. Its key lies in the batch's bytes, with its value behind it.
struct Change<'t> {
    table: &'t TableInner,
    at: u64,
    start: usize,
    key_bytes: usize,
    /// `None` if the row is gone.
    value_bytes: Option<usize>,
}

impl<'t> Batch<'t> {
    /// Adds a change: the value that the row under `key` has from `at` on, or that it has none.
    pub(crate) fn push(&mut self, table: &'t TableInner, key: &[u8], value: Option<&[u8]>, at: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.changes.push(Change {
            table,
            at,
            start,
            key_bytes: key.len(),
            value_bytes: value.map(<[u8]>::len),
        });
    }

    /// Returns the number of changes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns the total length of the keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes the changes, and keeps memory for others.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
        self.bytes.clear();
        self.bytes.shrink_to(BATCH_BYTES_KEPT);
    }

    fn key(&self, change: &Change<'_>) -> &[u8] {
        &self.bytes[change.start..][..change.key_bytes]
    }

    fn value(&self, change: &Change<'_>) -> Option<&[u8]> {
        change.value_bytes.map(|bytes| &self.bytes[change.start + change.key_bytes..][..bytes])
    }
}

/// Inside the epoch, with a transaction open, until it is dropped. It lasts for one block or batch, so that what is
/// released can soon be used again.
struct Entered<'r, C: ConcurrencyControl> {
    context: &'r Context<C>,
    txn: &'r mut C::Txn,
    slots: &'r mut Range<u32>,
}

impl<C: ConcurrencyControl> Drop for Entered<'_, C> {
    fn drop(&mut self) {
        C::abort(self.context.env(), self.txn);
        self.context.leave();
        // What is retired is due when the other threads have moved on.
        self.context.local.refresh(None);
    }
}

impl<C: ConcurrencyControl> Restorer<C> {
    /// Makes a restorer of a database that nothing else uses.
    pub(crate) fn new(engine: &Arc<Engine<C>>) -> Result<Self> {
        Ok(Restorer { context: engine.context(), txn: C::txn(&engine.shared), slots: 0..0 })
    }

    /// Reserves room for `rows` rows in the index of a table.
    pub(crate) fn reserve(&self, table: &TableInner, rows: u64) {
        self.context.enter();
        table.index.reserve(&self.context.local, rows);
        self.context.leave();
    }

    /// Adds some thousands of rows that have committed at or before `at`. Ascending rows are fastest. A row replaces
    /// an existing row with its key.
    pub(crate) fn load<'r>(
        &mut self,
        table: &TableInner,
        rows: impl Iterator<Item = (&'r [u8], &'r [u8])>,
        at: u64,
    ) -> Result<()> {
        let at = checked_timestamp(at)?;
        let mut entered = self.enter()?;
        let mut last = None::<Point<C>>;
        for (key, value) in rows {
            let key = checked_key(table, key)?;
            let mut point = Point::new(table, key, Intent::Write);
            if let Some(last) = &last {
                // SAFETY: the rows' bytes are alive; the last search was made in this epoch.
                point.cursor = unsafe { table.index.start_behind(&last.cursor, &last.key, &key) };
            }
            probe(&mut point);
            entered.put(&point, checked_value(value)?, at)?;
            last = Some(point);
        }
        Ok(())
    }

    /// Makes the changes of a batch, in order. Making a change again, or deleting what does not exist, does no harm.
    pub(crate) fn apply(&mut self, batch: &Batch<'_>) -> Result<()> {
        let mut entered = self.enter()?;
        batch.changes.chunks(GROUP).try_for_each(|changes| entered.apply_group(batch, changes))
    }

    /// Removes all rows of a table, and notes that for the next checkpoint. No other thread changes the table
    /// meanwhile.
    pub(crate) fn empty(&mut self, table: &TableInner) -> Result<()> {
        let (mut from, mut page) = (None::<Vec<u8>>, Page::default());
        loop {
            let mut entered = self.enter()?;
            let key = from.as_deref().map_or(index_key(&[]), index_key);
            let bound = if from.is_some() { Bound::Excluded(&key) } else { Bound::Unbounded };
            // SAFETY: the bound's bytes are alive.
            let mut walk = unsafe { table.index.walk(bound, false, &mut page) };
            let mut last = None;
            for _ in 0..EMPTY_PAGES {
                // SAFETY: the walk's own page, in the epoch that it began in.
                match unsafe { table.index.next_page(&mut walk, &mut page, &mut Never) } {
                    Paged::Page => {}
                    Paged::Suspended => unreachable!("it never suspends"),
                    Paged::End => return Ok(()),
                }
                last = Some(entered.remove_page(table, &page));
            }
            from = last;
        }
    }

    fn enter(&mut self) -> Result<Entered<'_, C>> {
        self.context.enter();
        let declared = Declared { restores: true, ..Declared::default() };
        // Nothing else uses the database, so there is nothing to wait for.
        let begun = C::begin(self.context.env(), &mut self.txn, declared, &mut Never);
        if let Err(why) = begun.unwrap_or(Err(NotBegun::WaitTimeout)) {
            self.context.leave();
            return Err(self.context.engine.not_begun(why));
        }
        Ok(Entered { context: &self.context, txn: &mut self.txn, slots: &mut self.slots })
    }
}

impl<C: ConcurrencyControl> Drop for Restorer<C> {
    fn drop(&mut self) {
        C::drop_txn(&self.context.engine.shared, &mut self.txn);
        for id in self.slots.clone() {
            // SAFETY: allocated, and never used.
            unsafe { self.context.engine.records.free(id) };
        }
    }
}

impl<C: ConcurrencyControl> Entered<'_, C> {
    /// Searches for all keys at once, then makes one change after the other.
    fn apply_group(&mut self, batch: &Batch<'_>, changes: &[Change<'_>]) -> Result<()> {
        debug_assert!(changes.len() <= GROUP);
        let mut points = [const { None }; GROUP];
        for (point, change) in points.iter_mut().zip(changes) {
            let key = checked_key(change.table, batch.key(change))?;
            let begun = point.insert(Point::new(change.table, key, Intent::Write));
            begun.prepare();
        }
        let mut backoff = Backoff::new();
        // SAFETY: tables outlive the restorer's use of them, keys lie in the batch; the transaction is open, the
        // epoch entered.
        let all_found = unsafe {
            // The search waits only for latches of the index, whose holders do not wait.
            run_all(&mut points[..changes.len()], self.context, self.txn, &mut OnMiss, |_, _| {
                backoff.wait();
                true
            })
        };
        debug_assert!(all_found.is_ok());
        let mut removed = Removed::default();
        for (point, change) in points.iter_mut().flatten().zip(changes) {
            let value = batch.value(change);
            // Earlier changes of this group may concern the same key. If the key was inserted since the search, an
            // insert finds it, but a deletion does not.
            if removed.contains(point.id) || value.is_none() && point.id == NOTHING {
                *point = Point::new(change.table, point.key, Intent::Write);
                probe(point);
            }
            match value {
                Some(value) => self.put(point, checked_value(value)?, checked_timestamp(change.at)?)?,
                None if point.id == NOTHING => {}
                None => {
                    self.remove(point);
                    removed.push(point.id);
                }
            }
        }
        Ok(())
    }

    /// Gives the record of a finished search this value, or makes a record.
    fn put(&mut self, point: &Point<C>, value: &[u8], at: u64) -> Result<()> {
        self.try_put(point, value, at).map_err(|OutOfMemory| Error::OutOfMemory {
            limit_bytes: self.context.engine.memory.limit_bytes(),
        })
    }

    fn try_put(&mut self, point: &Point<C>, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
        // SAFETY: the table is alive.
        unsafe { &*point.table }.note_value(value.len());
        let id = match point.id {
            NOTHING => match self.create(point, value, at)? {
                Inserted::New => return Ok(()),
                Inserted::Exists(id) => id,
            },
            id => id,
        };
        // SAFETY: the table is alive.
        let record = unsafe { &*point.table }.record(id);
        // SAFETY: in the index, hence made by `create`; inside the epoch.
        unsafe { C::restore_over(self.context.env(), record, value, at) }
    }

    /// Makes a record, unless the key exists.
    fn create(&mut self, point: &Point<C>, value: &[u8], at: u64) -> Result<Inserted, OutOfMemory> {
        if self.slots.start == self.slots.end {
            *self.slots = self.context.engine.records.allocate_run(SLOTS)?;
        }
        let env = self.context.env();
        // SAFETY: the table is alive.
        let table = unsafe { &*point.table };
        let id = RecordId(self.slots.start);
        let record = table.record(id).cast_mut();
        // SAFETY: a free slot, ours alone.
        unsafe { C::restore(env, record, value, at) }?;
        self.slots.start += 1;
        // SAFETY: inside the epoch of the search; the key's bytes are alive.
        let inserted = unsafe { table.index.insert(env.local, &point.cursor, &point.key, id) };
        if !matches!(inserted, Ok(Inserted::New)) {
            let target = Target { index: &raw const table.index, key: point.key, id };
            // SAFETY: made above, and not in the index.
            unsafe { C::discard(env, record, &target) };
        }
        inserted
    }

    /// Removes the records of the entries on a page. Returns the place of the last entry in the order of the index.
    fn remove_page(&mut self, table: &TableInner, page: &Page) -> Vec<u8> {
        for at in 0..page.len {
            let short = page.slices[at].to_be_bytes();
            let bytes = if page.is_fixed8 { &short[..] } else { page.key(at) };
            // SAFETY: no checkpoint is made before the database is recovered, so the marks stay.
            unsafe { table.index.touch(bytes) };
            let mut point = Point::new(table, index_key(bytes), Intent::Write);
            point.id = page.ids[at];
            self.remove(&point);
        }
        let mut order = Vec::new();
        page.push_order(page.len - 1, &mut order);
        order
    }

    /// Removes the record of a finished search. Its slot is not used again before the epoch is left.
    fn remove(&self, point: &Point<C>) {
        let env = self.context.env();
        // SAFETY: the table is alive.
        let table = unsafe { &*point.table };
        // SAFETY: inside the epoch; the key's bytes are alive.
        let removed = unsafe { table.index.remove(env.local, &point.key, point.id) };
        debug_assert!(removed, "the changes of a key are one thread's");
        // SAFETY: a restored record, out of the index just now.
        unsafe { C::discard(env, table.record(point.id), &point.target()) };
    }
}

/// Searches for the key alone, in the present state.
#[inline(always)]
fn probe<C: ConcurrencyControl>(point: &mut Point<C>) {
    // SAFETY: the table and the key are alive, as in `apply_group`; the epoch is entered.
    while !unsafe { point.probe(&mut PrefetchOnly) } {}
}

/// The records that a group of changes has removed.
#[derive(Default)]
struct Removed {
    ids: [RecordId; GROUP],
    len: usize,
}

impl Removed {
    #[inline(always)]
    fn contains(&self, id: RecordId) -> bool {
        self.ids[..self.len].contains(&id)
    }

    fn push(&mut self, id: RecordId) {
        debug_assert!(id != NOTHING && !self.contains(id));
        self.ids[self.len] = id;
        self.len += 1;
    }
}

/// Returns the index's key for bytes that come from a file.
#[inline(always)]
fn checked_key(table: &TableInner, bytes: &[u8]) -> Result<Key> {
    if bytes.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: bytes.len(), bytes_max: KEY_BYTES_MAX });
    }
    if table.index.is_fixed8() && bytes.len() != 8 {
        return Err(Error::malformed(KEY_OF_EIGHT, bytes.len()));
    }
    Ok(index_key(bytes))
}

#[inline(always)]
fn checked_value(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong { bytes: bytes.len(), bytes_max: VALUE_BYTES_MAX });
    }
    Ok(bytes)
}

#[inline(always)]
fn checked_timestamp(at: u64) -> Result<u64> {
    if at > RESTORED_AT_MAX {
        return Err(Error::malformed("commit timestamp", size_of::<u64>()));
    }
    Ok(at)
}
