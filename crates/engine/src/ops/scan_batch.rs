//! A run of rows: the step machine of range scans. The run walks the index page by page, and for each page:
//! 1. It prefetches the records of the whole page, and the node after it.
//! 2. It accesses the records of the page before, which have arrived meanwhile.
//!
//! Invariants:
//! - `seen <= rows.len()`. The accesses to the rows below `seen` have begun. All of them have ended, except those that
//!   `late` lists.
//! - All accesses of a run that is done have ended.

use super::entry_rows::EntryRows;
use crate::cc::{Admission, ConcurrencyControl, Env, Intent, Refused, Scanned};
use crate::index::{Index, Key, Page, Paged, TableIndex, Walk};
use crate::kernel::Context;
use crate::profile::Activity;
use crate::record::Record;
use crate::suspend::{Beside, CACHE_LINE, Leaving, Suspend, Whole};
use crate::table::{TableInner, index_key};
use std::ops::Bound;

/// A row, as the run has found it.
#[derive(Clone, Copy)]
pub(crate) struct Row<C: ConcurrencyControl> {
    /// The key, if keys have eight bytes. Otherwise the end of the key in the run's `keys`.
    key: u64,
    record: *const Record,
    access: C::Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A walk has to begin at `from`.
    Begin,
    /// The walk looks for the next page.
    Walk,
    /// All rows are there. The last accesses have to end.
    Access,
    /// The rows are entries of an index. The rows that they name are accessed.
    EntryRows,
}

/// A scan of few rows that comes to this batch has met as many dead keys as a page has.
const BATCHES_OF_DEAD: u8 = 3;

/// The number of marks of the index that there is room for at first. As a rule it is enough for a run.
const MARKS_FIRST: usize = 64;

/// How many rows a run looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// This number of rows and no more.
    Exactly(usize),
    /// At least this number of rows, if there are as many, and at most a page more.
    About(usize),
}

/// The part of a scan between two posts: rows from `from` on. It is reused from one scan to the next, so that it
/// allocates nothing in the long run.
pub(crate) struct ScanBatch<C: ConcurrencyControl> {
    pub(crate) table: *const TableInner,
    pub(crate) is_reverse: bool,
    pub(crate) fixed8: bool,
    /// The beginning of this run, or of the next one, and the end of the scan, in the order of the index.
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
    /// The beginning of the present run, if the scheme wants to know it.
    began: Bound<Vec<u8>>,
    /// The scheme is told what the run reads.
    pub(crate) is_tracked: bool,
    /// The scheme wants to know of each row.
    notes_rows: bool,
    /// The number of records that the transaction had accessed when the walk began, and how many the run has added.
    accessed: usize,
    entered: usize,
    pub(crate) want: Want,
    /// The number of changes that the transaction had made when the run was done. The accesses to its rows may have
    /// ended at any number up to this.
    pub(crate) changes: usize,
    rows: Vec<Row<C>>,
    keys: Vec<u8>,
    seen: usize,
    late: Vec<u32>,
    /// The number of batches of this scan, while it may have met nothing but dead keys.
    pub(crate) batches: u8,
    /// Nothing is left of the range.
    pub(crate) is_finished: bool,
    stage: Stage,
    walk: Option<Walk>,
    page: Page,
    /// If `rows` are entries of an index, the table whose records the values begin with. Otherwise null.
    pub(crate) base: *const TableInner,
    follow: EntryRows<C>,
}

impl<C: ConcurrencyControl> Row<C> {
    /// Returns the key, if keys have eight bytes.
    #[inline(always)]
    pub(crate) fn key_of_eight(&self) -> [u8; 8] {
        self.key.to_be_bytes()
    }
}

impl<C: ConcurrencyControl> ScanBatch<C> {
    pub(crate) fn new() -> Self {
        ScanBatch {
            table: std::ptr::null(),
            is_reverse: false,
            fixed8: false,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            began: Bound::Unbounded,
            is_tracked: true,
            notes_rows: false,
            accessed: 0,
            entered: 0,
            want: Want::About(0),
            changes: 0,
            rows: Vec::new(),
            keys: Vec::new(),
            seen: 0,
            late: Vec::new(),
            batches: 0,
            is_finished: false,
            stage: Stage::Begin,
            walk: None,
            page: Page::default(),
            base: std::ptr::null(),
            follow: EntryRows::new(),
        }
    }

    /// Makes the batch ready for a scan of `table`.
    pub(crate) fn reset(&mut self, table: &TableInner, fixed8: bool) {
        self.table = table;
        self.fixed8 = fixed8;
        self.is_reverse = false;
        self.is_tracked = !table.is_frozen();
        self.is_finished = false;
        self.base = std::ptr::null();
        self.restart(Want::About(0));
        self.batches = 0;
    }

    /// Makes the batch look for rows at `from` when it is stepped next.
    pub(crate) fn restart(&mut self, want: Want) {
        self.rows.clear();
        self.keys.clear();
        self.late.clear();
        self.follow.clear();
        self.seen = 0;
        self.changes = 0;
        self.batches = self.batches.saturating_add(1);
        self.want = want;
        self.stage = Stage::Begin;
    }

    /// Returns the number of rows that the run has found, including those that the transaction does not see.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns row `at`.
    #[inline(always)]
    pub(crate) fn row(&self, at: usize) -> &Row<C> {
        &self.rows[at]
    }

    /// Returns the rows from `from` on, before `end`.
    #[inline(always)]
    pub(crate) fn rows(&self, from: usize, end: usize) -> &[Row<C>] {
        &self.rows[from..end]
    }

    /// Returns the key of row `at`, if keys vary in length.
    #[inline(always)]
    pub(crate) fn key_bytes(&self, at: usize) -> &[u8] {
        debug_assert!(!self.fixed8);
        let start = if at == 0 { 0 } else { self.rows[at - 1].key };
        &self.keys[start as usize..self.rows[at].key as usize]
    }

    /// Returns the index that named row `at`, the row's key, whose bytes belong to the run, and the row's record.
    #[cold]
    pub(crate) fn name(&self, at: usize) -> (*const TableIndex, Key, *const Record) {
        let Row { key, record, .. } = self.rows[at];
        let key = if self.fixed8 { Key::from_u64(key) } else { index_key(self.key_bytes(at)) };
        // SAFETY: tables live as long as their database.
        (unsafe { &raw const (*self.table).index }, key, record)
    }

    /// Returns the index, key and record, as `name` does, of a row whose access has begun and waits for another
    /// transaction. If rows are entries of an index, the key is the entry's, and the record belongs to the row that the
    /// entry names.
    #[cold]
    pub(crate) fn awaited(&self) -> Option<(*const TableIndex, Key, *const Record)> {
        match self.stage {
            Stage::EntryRows => self.follow.awaited().map(|at| self.name_followed(at)),
            _ => self.late.first().map(|&at| self.name(at as usize)),
        }
    }

    /// Returns the record of the row that `awaited` names. Null: the run has come to no such row, or waits for a
    /// partition.
    #[cold]
    pub(crate) fn awaited_record(&self) -> Option<*const Record> {
        Some(self.awaited().map_or(std::ptr::null(), |(_, _, record)| record))
    }

    /// Returns the index and key of entry `at`, with the record of the row that the entry names.
    #[cold]
    pub(crate) fn name_followed(&self, at: usize) -> (*const TableIndex, Key, *const Record) {
        let (index, key, _) = self.name(at);
        (index, key, self.follow.record(at))
    }

    /// Returns the value of a row of this run, which is settled. The value is valid until the transaction ends. `None`:
    /// the transaction sees no row. Called for each row of whose value or absence the transaction learns, and for no
    /// other row.
    ///
    /// # Safety
    /// `txn` is the transaction for which the run was stepped, still open.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, row: &Row<C>, txn: &mut C::Txn) -> Result<Option<*const [u8]>, Refused> {
        // SAFETY: the accesses have ended.
        unsafe { C::value(&row.access, row.record, Intent::of_read(self.notes_rows), txn) }
    }

    /// Returns the record of the row with this key of eight bytes, if the run is done and has found a value there.
    ///
    /// # Safety
    /// As for `read`.
    #[inline(never)]
    pub(crate) unsafe fn find(&self, key: u64, txn: &mut C::Txn) -> Option<*const Record> {
        let is_done = self.stage == Stage::Access && self.seen == self.rows.len() && self.late.is_empty();
        if !is_done || !self.fixed8 {
            return None;
        }
        let order = |row: &Row<C>| if self.is_reverse { key.cmp(&row.key) } else { row.key.cmp(&key) };
        let row = &self.rows[self.rows.binary_search_by(order).ok()?];
        // SAFETY: the run is done, so the access has ended.
        let value = unsafe { C::value(&row.access, row.record, Intent::Covered, txn) };
        value.ok().flatten().map(|_| row.record)
    }

    /// Returns the value of the row that entry `at` names, like `read`. The row has been read.
    ///
    /// # Safety
    /// As for `read`.
    pub(crate) unsafe fn read_followed(
        &self,
        at: usize,
        txn: &mut C::Txn,
    ) -> Result<Option<*const [u8]>, Refused> {
        // SAFETY: the caller guarantees it.
        unsafe { self.follow.read(at, txn, self.intent()) }
    }

    /// Goes on to the next probable miss. Returns true if the rows are there.
    ///
    /// # Safety
    /// As for [`Point::step`](super::point::Point::step). The run has a table of a database that is held.
    pub(crate) unsafe fn step<S: Suspend>(
        &mut self,
        context: &Context<C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
        let env = context.env();
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*self.table };
        if self.stage == Stage::Begin {
            if C::has_partitions(&context.engine.shared) && self.is_tracked {
                match C::admit(env, txn, self.need(table), true, s) {
                    Admission::Granted => {}
                    Admission::Suspended => return false,
                    Admission::Refused | Admission::Busy => return true, // what it has found is not read
                }
            }
            if self.batches == BATCHES_OF_DEAD {
                C::note_dead_end(env, &table.index, self.is_reverse);
            }
            self.page.as_of = C::skips_dead_as_of(txn);
            self.begin(table);
            (self.accessed, self.entered) = (C::accessed(txn), 0);
        }
        while self.stage == Stage::Walk {
            s.enter(Activity::Index);
            let walk = self.walk.as_mut().expect("begun");
            // SAFETY: in the epoch that the walk began in.
            match unsafe { table.index.next_page(walk, &mut self.page, s) } {
                Paged::Suspended => return false,
                Paged::End => {
                    self.is_finished = true;
                    self.stage = Stage::Access;
                }
                Paged::Page => {
                    // A policy that prefetches accesses a page while the records of the next page are on their way.
                    let before = self.rows.len();
                    let leave = self.take_page(table, s);
                    // SAFETY: the caller guarantees it.
                    unsafe { self.access(if S::PREFETCHES { before } else { self.rows.len() }, env, txn, s) };
                    if leave {
                        return false;
                    }
                }
            }
        }
        if self.stage == Stage::EntryRows {
            // SAFETY: tables live as long as their database.
            let version_bytes = unsafe { &*self.base }.version_bytes();
            // SAFETY: as above.
            return unsafe { self.follow.step(self.intent(), version_bytes, env, txn, s) };
        }
        // SAFETY: as above.
        unsafe { self.access(self.rows.len(), env, txn, s) };
        if !S::SUSPENDS && !self.late.is_empty() {
            // SAFETY: as above.
            unsafe { self.access(self.rows.len(), env, txn, s) };
        }
        self.late.is_empty()
    }

    /// Returns the partitions that the run reads from: those of the range and, if the run goes on from entries to rows,
    /// those of the rows.
    fn need(&self, table: &TableInner) -> u64 {
        // SAFETY: tables live as long as their database.
        let base = unsafe { self.base.as_ref() };
        let partitioning = table.index.partitioning();
        if base.is_some_and(|base| base.index.partitioning().is_split()) && !partitioning.is_aligned() {
            return u64::MAX; // the rows can be in any partition
        }
        if !table.kind.options.index.is_ordered() {
            return partitioning.of_range(Bound::Unbounded, Bound::Unbounded, self.fixed8);
        }
        let (mut from, mut to) = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        if self.is_reverse {
            std::mem::swap(&mut from, &mut to);
        }
        partitioning.of_range(from, to, table.index.is_fixed8())
    }

    fn begin(&mut self, table: &TableInner) {
        let key = match &self.from {
            Bound::Included(bytes) | Bound::Excluded(bytes) => index_key(bytes),
            Bound::Unbounded => index_key(&[]),
        };
        let from = self.from.as_ref().map(|_| &key);
        self.page.marks.clear();
        self.page.is_marking = C::TRACKS_READS && self.is_tracked;
        if self.page.is_marking {
            self.page.marks.reserve(MARKS_FIRST);
            copy_bound(&self.from, &mut self.began);
        }
        // SAFETY: the key's bytes belong to the run.
        self.walk = Some(unsafe { table.index.walk(from, self.is_reverse, &mut self.page) });
        self.stage = Stage::Walk;
    }

    /// Takes over the page's entries up to the scan's end, and prefetches their records and the next node. Returns true
    /// if the operation is to be left.
    #[inline]
    fn take_page<S: Suspend>(&mut self, table: &TableInner, s: &mut S) -> bool {
        let mut within = self.page.len_within(self.to.as_ref().map(Vec::as_slice), self.is_reverse);
        self.is_finished = within < self.page.len;
        let found = self.rows.len() + within;
        let is_enough = match self.want {
            Want::Exactly(want) => {
                if found > want {
                    within -= found - want;
                    self.is_finished = false;
                }
                found >= want
            }
            Want::About(want) => found >= want,
        };
        self.page.len = within;
        let mut leave = false;
        let entries = self.page.ids[..within].iter().zip(&self.page.slices[..within]);
        self.rows.extend(entries.map(|(id, slice)| {
            let record = table.record(*id);
            leave |= s.miss::<1>(record.cast());
            Row { key: *slice, record, access: C::Access::default() }
        }));
        if !self.fixed8 {
            self.take_keys(within);
        }
        if self.is_finished || is_enough {
            self.remember();
            self.stage = Stage::Access;
        } else if let Some(walk) = &self.walk {
            // SAFETY: made by this table's index.
            unsafe { table.index.prepare_page(walk, s) };
        }
        leave
    }

    /// Takes over the keys of the rows that were taken over just now.
    fn take_keys(&mut self, within: usize) {
        let (before, first) = (self.keys.len(), self.rows.len() - within);
        for (row, end) in self.rows[first..].iter_mut().zip(self.page.ends) {
            row.key = (before + end as usize) as u64;
        }
        let end = within.checked_sub(1).map_or(0, |last| self.page.ends[last] as usize);
        self.keys.extend_from_slice(&self.page.bytes[..end]);
    }

    /// Goes on with the accesses that are late, and begins those of the rows below `until`.
    ///
    /// # Safety
    /// As for `step`.
    #[inline]
    unsafe fn access<S: Suspend>(&mut self, until: usize, env: Env<'_, C>, txn: &mut C::Txn, s: &mut S) {
        // SAFETY: tables live as long as their database.
        let bytes = unsafe { &*self.table }.version_bytes();
        // SAFETY: the caller guarantees it.
        unsafe {
            match bytes > CACHE_LINE {
                true => self.access_by(until, env, txn, &mut Whole::new(s, bytes)),
                false => self.access_by(until, env, txn, s),
            }
        }
    }

    /// Does what `access` does, under a policy that knows how long versions are.
    ///
    /// # Safety
    /// As for `step`.
    #[inline]
    unsafe fn access_by<S: Suspend>(&mut self, until: usize, env: Env<'_, C>, txn: &mut C::Txn, s: &mut S) {
        debug_assert!(self.seen <= until && until <= self.rows.len());
        s.enter(Activity::Versions);
        let (intent, accessed) = (self.intent(), C::accessed(txn));
        if !self.late.is_empty() {
            let rows = &mut self.rows;
            self.late.retain(|&at| {
                let Row { record, access, .. } = &mut rows[at as usize];
                // SAFETY: the index named the record in this operation.
                !unsafe { C::access(access, *record, intent, env, txn, s) }
            });
        }
        for (row, at) in self.rows[self.seen..until].iter_mut().zip(self.seen as u32..) {
            let Row { record, access, .. } = row;
            let near = record.cast();
            // A policy that does not leave also prefetches what lies elsewhere, for all rows together.
            // SAFETY: as above.
            let is_done = unsafe {
                if S::PREFETCHES && !S::SUSPENDS {
                    C::access(access, *record, intent, env, txn, &mut Beside::new(&mut Leaving::new(s), near))
                } else {
                    C::access(access, *record, intent, env, txn, &mut Beside::new(s, near))
                }
            };
            if !is_done {
                self.late.push(at);
            }
        }
        self.seen = until;
        self.entered += C::accessed(txn) - accessed;
    }

    #[inline(always)]
    fn intent(&self) -> Intent {
        Intent::of_read(self.is_tracked)
    }

    /// Tells the scheme what the finished run has gone through. Returns true if the rows are entries, and the run must
    /// be stepped on to the rows that they name. If a row was refused, fails with its number.
    pub(crate) fn settle(&mut self, txn: &mut C::Txn) -> Result<bool, (Option<usize>, Refused)> {
        debug_assert!(self.seen == self.rows.len() && self.late.is_empty());
        if let Some(refused) = C::refused(txn) {
            return Err((None, refused));
        }
        if self.stage == Stage::EntryRows {
            return Ok(false);
        }
        self.notes_rows = C::TRACKS_READS && self.is_tracked && self.note_range(txn);
        // SAFETY: tables live as long as their database.
        match unsafe { self.base.as_ref() } {
            Some(base) if !self.rows.is_empty() => self.set_out(base, txn).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Tells the scheme what the run has gone through. Returns true if the scheme wants to know of each row.
    fn note_range(&self, txn: &mut C::Txn) -> bool {
        let now = C::accessed(txn);
        // Other operations of the transaction have accessed records meanwhile, perhaps records that have come into the
        // range behind the walk.
        let is_mixed = now != self.accessed + self.entered;
        let notes_rows = C::read_range(txn, &self.scanned(if is_mixed { self.accessed } else { now }));
        if C::lists_records(txn) {
            self.list_records(txn);
        } else if is_mixed {
            self.rows.iter().for_each(|row| C::read_in_range(txn, row.record));
        }
        notes_rows
    }

    /// Tells the scheme in which records the run has found a value, or a change of its own transaction.
    #[cold]
    fn list_records(&self, txn: &mut C::Txn) {
        for Row { access, record, .. } in &self.rows {
            // SAFETY: the accesses have ended.
            let value = unsafe { C::value(access, *record, Intent::Untracked, txn) };
            // SAFETY: the record was found in this operation, whose epoch is held.
            let is_kept = value.is_ok_and(|value| value.is_some()) || unsafe { C::holds(txn, *record) };
            if is_kept {
                C::read_in_range(txn, *record);
            }
        }
    }

    /// Makes the run look for the rows that its entries name. An entry counts as read when the closure comes to it.
    #[inline(never)]
    fn set_out(&mut self, base: &TableInner, txn: &mut C::Txn) -> Result<(), (Option<usize>, Refused)> {
        for (at, row) in self.rows.iter().enumerate() {
            // SAFETY: the accesses have ended.
            let entry = unsafe { C::value(&row.access, row.record, Intent::Untracked, txn) };
            self.follow.push(base, entry.map_err(|refused| (Some(at), refused))?);
        }
        self.stage = Stage::EntryRows;
        Ok(())
    }

    /// Returns what the finished run has gone through.
    fn scanned(&self, known: usize) -> Scanned<'_> {
        // SAFETY: tables live as long as their database.
        let index = &raw const unsafe { &*self.table }.index;
        let to = match &self.from {
            _ if self.is_finished => self.to.as_ref(),
            // The next run begins behind the last entry of this run.
            Bound::Excluded(last) => Bound::Included(last),
            from => from.as_ref(),
        };
        Scanned {
            index,
            from: self.began.as_ref().map(Vec::as_slice),
            to: to.map(Vec::as_slice),
            is_reverse: self.is_reverse,
            marks: &self.page.marks,
            rows: self.rows.len(),
            known,
        }
    }

    /// Moves `from` behind the page, for the next run.
    fn remember(&mut self) {
        let Some(last) = self.page.len.checked_sub(1) else { return };
        let mut bytes = match std::mem::replace(&mut self.from, Bound::Unbounded) {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
            Bound::Unbounded => Vec::new(),
        };
        bytes.clear();
        self.page.push_order(last, &mut bytes);
        self.from = Bound::Excluded(bytes);
    }
}

/// Copies a bound, and reuses the memory of `to`.
fn copy_bound(from: &Bound<Vec<u8>>, to: &mut Bound<Vec<u8>>) {
    let mut bytes = match std::mem::replace(to, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    bytes.clear();
    *to = match from {
        Bound::Included(from) => {
            bytes.extend_from_slice(from);
            Bound::Included(bytes)
        }
        Bound::Excluded(from) => {
            bytes.extend_from_slice(from);
            Bound::Excluded(bytes)
        }
        Bound::Unbounded => Bound::Unbounded,
    };
}
