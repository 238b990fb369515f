//! The point operation as a step machine: the index's descent, then the scheme's access to the record. Reads and writes
//! of one key both begin with it.

use crate::cc::{Admission, ConcurrencyControl, Intent, Target};
use crate::index::{Cursor, Index, Key, Probe};
use crate::kernel::Context;
use crate::profile::Activity;
use crate::record::{Record, RecordId};
use crate::suspend::{PrefetchOnly, Suspend, Whole};
use crate::table::TableInner;

/// An access to one key, which may be suspended anywhere. It owns nothing and points into no future, because a future
/// may be leaked. The key is therefore copied (long keys into the transaction's arena).
///
/// What each step of a descent touches comes first: see [`TxnState`](super::state::TxnState).
#[repr(C)]
pub(crate) struct Point<C: ConcurrencyControl> {
    /// Null until the index has answered, and if the index has nothing under the key.
    pub(crate) record: *const Record,
    pub(crate) table: *const TableInner,
    pub(crate) cursor: Cursor,
    pub(crate) access: C::Access,
    pub(crate) key: Key,
    pub(crate) id: RecordId,
    pub(crate) intent: Intent,
}

/// The id of an operation that has not looked for its key, because the transaction was not admitted. No record has this
/// id.
const UNSOUGHT: RecordId = RecordId(u32::MAX);

/// The number of rounds over several operations in which each is taken to be getting on.
pub(crate) const ROUNDS_BUSY: u32 = 1000;

/// Runs several operations to their ends, with their misses overlapped. It makes rounds over an array, which the
/// CoroBase paper calls AMAC. After [`ROUNDS_BUSY`] rounds, `wait` is called before each round with the first operation
/// that is left. If `wait` returns false because it has waited as long as it may, this fails with the number of that
/// operation.
///
/// # Safety
/// As for each [`Point::step`].
pub(crate) unsafe fn run_all<C: ConcurrencyControl>(
    points: &mut [Option<Point<C>>],
    context: &Context<C>,
    txn: &mut C::Txn,
    s: &mut impl Suspend,
    mut wait: impl FnMut(&Point<C>, &C::Txn) -> bool,
) -> Result<(), usize> {
    assert!(points.len() < 64, "one bit per operation");
    let mut left: u64 = (1 << points.len()) - 1;
    let mut rounds = 0u32;
    while left != 0 {
        rounds = rounds.saturating_add(1);
        let first = left.trailing_zeros() as usize;
        if rounds > ROUNDS_BUSY && points[first].as_ref().is_some_and(|point| !wait(point, txn)) {
            return Err(first);
        }
        let mut round = left;
        while round != 0 {
            let i = round.trailing_zeros() as usize;
            round &= round - 1;
            let Some(point) = &mut points[i] else { continue };
            // SAFETY: the caller guarantees it.
            if unsafe { point.step(context, txn, s) } {
                left &= !(1 << i);
            }
        }
    }
    Ok(())
}

impl<C: ConcurrencyControl> Clone for Point<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: ConcurrencyControl> Copy for Point<C> {}

impl<C: ConcurrencyControl> Point<C> {
    #[inline(always)]
    pub(crate) fn new(table: &TableInner, key: Key, intent: Intent) -> Self {
        Point { cursor: table.index.start(&key), ..Point::unbegun(table, key, intent) }
    }

    /// Makes an operation whose descent is begun by `begin`, where the operation stays.
    #[inline(always)]
    pub(crate) fn unbegun(table: &TableInner, key: Key, intent: Intent) -> Self {
        Point {
            key,
            table,
            cursor: Cursor::NONE,
            record: std::ptr::null(),
            id: RecordId(0),
            intent,
            access: C::Access::default(),
        }
    }

    /// Makes an operation that has found its record.
    #[inline(always)]
    pub(crate) fn at(table: &TableInner, key: Key, record: *const Record, intent: Intent) -> Self {
        Point { record, id: table.id(record), ..Point::new(table, key, intent) }
    }

    /// Begins the descent, and prefetches the memory that the first step reads. Returns true if the descent is short:
    /// see [`Index::is_short`].
    #[inline(always)]
    pub(crate) fn begin(&mut self, table: &TableInner) -> bool {
        debug_assert!(std::ptr::eq(table, self.table));
        table.index.start_in(&self.key, &mut self.cursor)
    }

    /// Prefetches the memory that the first step reads.
    #[inline(always)]
    pub(crate) fn prepare(&self) {
        // SAFETY: the table is alive.
        let table = unsafe { &*self.table };
        // SAFETY: made by this table's index.
        unsafe { table.index.prepare(&self.cursor, &mut PrefetchOnly) };
    }

    /// Goes on to the next probable miss. Returns true if done. Reads top to bottom as the sequential function would.
    /// The field that each part fills tells where to enter again.
    ///
    /// # Safety
    /// The table and the key's bytes are alive, `txn` is open, and the thread is inside an epoch that was entered
    /// before the first step.
    #[inline(always)]
    pub(crate) unsafe fn step<S: Suspend>(
        &mut self,
        context: &Context<C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
        // SAFETY: the caller guarantees it.
        let table = unsafe { &*self.table };
        if C::has_partitions(&context.engine.shared) && self.intent != Intent::Untracked {
            let need = table.index.partitioning().of_key(&self.key, self.intent != Intent::Read);
            match C::admit(context.env(), txn, need, self.intent != Intent::Lock, s) {
                Admission::Granted => {}
                Admission::Suspended => return false,
                Admission::Refused => return true, // what it has found is not read
                Admission::Busy => {
                    self.id = UNSOUGHT;
                    return true;
                }
            }
        }
        if self.record.is_null() {
            s.enter(Activity::Index);
            // SAFETY: the caller guarantees it.
            match unsafe { table.index.step(&mut self.cursor, &self.key, s) } {
                Probe::Suspended => return false,
                Probe::Absent => return true,
                Probe::Found(id) => {
                    self.id = id;
                    self.record = table.record(id);
                }
            }
            if s.miss::<1>(self.record.cast()) {
                return false;
            }
        }
        s.enter(Activity::Versions);
        let s = &mut Whole::new(s, table.version_bytes());
        // SAFETY: the index named the record in this operation.
        unsafe { C::access(&mut self.access, self.record, self.intent, context.env(), txn, s) }
    }

    /// Does the index's part alone.
    ///
    /// # Safety
    /// As for `step`.
    pub(crate) unsafe fn probe<S: Suspend>(&mut self, s: &mut S) -> bool {
        s.enter(Activity::Index);
        // SAFETY: the caller guarantees it.
        let table = unsafe { &*self.table };
        // SAFETY: as above.
        match unsafe { table.index.step(&mut self.cursor, &self.key, s) } {
            Probe::Suspended => return false,
            Probe::Absent => {}
            Probe::Found(id) => self.id = id,
        }
        true
    }

    /// Returns true if the operation has not looked for the key.
    #[inline(always)]
    pub(crate) fn is_unsought(&self) -> bool {
        self.id == UNSOUGHT
    }

    /// Returns what names the record to the scheme's writes.
    pub(crate) fn target(&self) -> Target {
        // SAFETY: the table is alive.
        let index = &raw const unsafe { &*self.table }.index;
        Target { index, key: self.key, id: self.id }
    }
}
