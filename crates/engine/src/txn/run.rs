//! A run of rows: the step machine of range scans. It walks the index page by page, asks for the
//! slots of a whole page at once, then for the versions, and collects what the transaction sees.

use super::key::index_key;
use super::table::TableInner;
use crate::cc::{Abort, ConcurrencyControl, Scanned};
use crate::index::masstree::Walk;
use crate::index::{Index, PAGE_ENTRIES_MAX, Page, Paged};
use crate::record::Slot;
use crate::suspend::Suspend;
use std::ops::Bound;

/// One row, as the run has found it.
#[derive(Clone, Copy)]
pub(super) struct Row<C: ConcurrencyControl> {
    /// The key where keys have eight bytes.
    pub(super) slice: u64,
    /// Else where it lies in the run's `keys`.
    pub(super) key: (u32, u32),
    slot: *const Slot,
    visit: C::Visit,
    /// Set by `settle`; valid until the transaction ends.
    pub(super) value: *const [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A walk has to begin at `from`.
    Begin,
    /// The walk looks for the next page.
    Walk,
    /// The page's slots have been asked for.
    Visit,
}

/// Marks of the index that there is room for: a run's, as a rule.
const MARKS_FIRST: usize = 64;

/// The part of a scan between two posts: at most `want` rows from `from` on. Reused from one scan
/// to the next, so that it allocates nothing in the long run.
pub(crate) struct Run<C: ConcurrencyControl> {
    pub(super) table: *const TableInner,
    pub(super) is_reverse: bool,
    pub(super) fixed8: bool,
    /// Where the run begins, or the next one; and where the scan ends.
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
    /// Where the present run began, if the scheme wants to know.
    began: Bound<Vec<u8>>,
    /// The scheme is told what the run reads.
    pub(super) is_tracked: bool,
    /// Rows to stop at, a page's worth more at most.
    pub(super) want: usize,
    pub(super) rows: Vec<Row<C>>,
    pub(super) keys: Vec<u8>,
    /// Nothing is left of the range.
    pub(super) is_finished: bool,
    stage: Stage,
    walk: Option<Walk>,
    page: Page,
    visits: [C::Visit; PAGE_ENTRIES_MAX],
    /// Entries of the page whose visits have not ended.
    left: u32,
}

impl<C: ConcurrencyControl> Run<C> {
    pub(super) fn new() -> Self {
        Run {
            table: std::ptr::null(),
            is_reverse: false,
            fixed8: false,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            began: Bound::Unbounded,
            is_tracked: true,
            want: 0,
            rows: Vec::new(),
            keys: Vec::new(),
            is_finished: false,
            stage: Stage::Begin,
            walk: None,
            page: Page::default(),
            visits: [C::Visit::default(); PAGE_ENTRIES_MAX],
            left: 0,
        }
    }

    /// Makes it ready for a scan of `table`.
    pub(super) fn reset(&mut self, table: &TableInner, fixed8: bool) {
        self.table = table;
        self.fixed8 = fixed8;
        self.is_reverse = false;
        self.is_tracked = true;
        self.is_finished = false;
        self.restart(0);
    }

    /// Makes it look for rows at `from` when it is stepped next.
    pub(super) fn restart(&mut self, want: usize) {
        self.rows.clear();
        self.keys.clear();
        self.want = want;
        self.stage = Stage::Begin;
    }

    /// Goes on to the next probable miss; true: the rows are there.
    ///
    /// # Safety
    /// As [`Point::step`](super::point::Point::step); the run has a table of a database that is held.
    pub(super) unsafe fn step<S: Suspend>(&mut self, shared: &C::Shared, txn: &C::Txn, s: &mut S) -> bool {
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*self.table };
        loop {
            match self.stage {
                Stage::Begin => self.begin(table),
                Stage::Walk => {
                    let walk = self.walk.as_mut().expect("begun");
                    // SAFETY: in the epoch that the walk began in.
                    match unsafe { table.index.next_page(walk, &mut self.page, s) } {
                        Paged::Suspended => return false,
                        Paged::End => {
                            self.is_finished = true;
                            return true;
                        }
                        Paged::Page if self.arrive(table, s) => return false,
                        Paged::Page => {}
                    }
                }
                Stage::Visit => {
                    if !self.visit(table, shared, txn, s) {
                        return false;
                    }
                    self.collect(table);
                    self.stage = Stage::Walk;
                    if self.is_finished || self.rows.len() >= self.want {
                        self.remember();
                        return true;
                    }
                }
            }
        }
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
        // SAFETY: the key's bytes are the run's own.
        self.walk = Some(unsafe { table.index.walk(from, self.is_reverse, &mut self.page) });
        self.stage = Stage::Walk;
    }

    /// Cuts the page off at the scan's end and asks for its slots. True: leave.
    fn arrive<S: Suspend>(&mut self, table: &TableInner, s: &mut S) -> bool {
        let within = self.page.len_within(self.to.as_ref().map(Vec::as_slice), self.is_reverse);
        if within < self.page.len {
            self.is_finished = true;
            self.page.len = within;
        }
        self.left = (1 << within) - 1;
        self.visits = [C::Visit::default(); PAGE_ENTRIES_MAX];
        self.stage = Stage::Visit;
        let mut leave = false;
        for id in &self.page.ids[..within] {
            leave |= s.miss::<1>(table.slot(*id).cast());
        }
        leave
    }

    /// Steps the visits that have not ended. True: all have.
    fn visit<S: Suspend>(&mut self, table: &TableInner, shared: &C::Shared, txn: &C::Txn, s: &mut S) -> bool {
        let mut round = self.left;
        while round != 0 {
            let i = round.trailing_zeros() as usize;
            round &= round - 1;
            let slot = table.slot(self.page.ids[i]);
            // SAFETY: the index named the record in this operation.
            if unsafe { C::visit(&mut self.visits[i], slot, shared, txn, s) } {
                self.left &= !(1 << i);
            }
        }
        self.left == 0
    }

    /// Takes over the page's entries.
    fn collect(&mut self, table: &TableInner) {
        for i in 0..self.page.len {
            let at = self.keys.len();
            if !self.fixed8 {
                self.keys.extend_from_slice(self.page.key(i));
            }
            let key = (at as u32, self.keys.len() as u32);
            let value = std::ptr::slice_from_raw_parts(std::ptr::null(), 0);
            let (slot, visit) = (table.slot(self.page.ids[i]), self.visits[i]);
            self.rows.push(Row { slice: self.page.slices[i], key, slot, visit, value });
        }
    }

    /// Reads what the finished run has visited, and keeps the rows that the transaction sees.
    ///
    /// # Safety
    /// Still inside the epoch of the run's steps.
    pub(super) unsafe fn settle(&mut self, txn: &mut C::Txn) -> Result<(), Abort> {
        let mut result = Ok(());
        let is_tracked = C::TRACKS_READS && self.is_tracked && C::read_range(txn, &self.scanned());
        // SAFETY: the visits have ended.
        self.rows.retain_mut(|row| match unsafe { C::read(&row.visit, row.slot, txn, is_tracked) } {
            Ok(Some(value)) => {
                row.value = value;
                true
            }
            Ok(None) => false,
            Err(abort) => {
                result = Err(abort);
                false
            }
        });
        result
    }

    /// What the finished run has gone through.
    fn scanned(&self) -> Scanned<'_> {
        // SAFETY: tables live as long as their database.
        let index = &raw const unsafe { &*self.table }.index;
        let to = match &self.from {
            _ if self.is_finished => self.to.as_ref(),
            // The next run begins behind the last entry of this one.
            Bound::Excluded(last) => Bound::Included(last),
            from => from.as_ref(),
        };
        Scanned {
            index,
            from: self.began.as_ref().map(Vec::as_slice),
            to: to.map(Vec::as_slice),
            is_reverse: self.is_reverse,
            marks: &self.page.marks,
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
        if self.fixed8 {
            bytes.extend_from_slice(&self.page.slices[last].to_be_bytes());
        } else {
            bytes.extend_from_slice(self.page.key(last));
        }
        self.from = Bound::Excluded(bytes);
    }
}

/// Copies a bound, using its memory again.
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

/// Makes all runs of an ended transaction free again.
pub(super) fn reclaim<C: ConcurrencyControl>(runs: &mut [Box<Run<C>>], free: &mut Vec<*mut Run<C>>) {
    if free.len() != runs.len() {
        free.clear();
        free.extend(runs.iter_mut().map(|run| &raw mut **run));
    }
}
