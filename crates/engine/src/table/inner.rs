//! A table and its secondary indexes, as the engine sees them.

use super::columns::Columns;
use super::description::{Description, TableState};
use super::fault::Fault;
use super::key::index_key;
use super::kind::{TableKind, TableOptions};
use crate::cc::{Abort, Change};
use crate::error::{Error, Result};
use crate::index::touched::Touched;
use crate::index::{Index, IndexOptions, Key, Nodes, TableIndex};
use crate::memory::{OutOfMemory, Slab};
use crate::record::{Record, RecordId, Version};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, lock, try_lock};
use std::any::{Any, TypeId, type_name};
use std::fmt;

/// A table as the engine sees it.
pub(crate) struct TableInner {
    pub(crate) index: TableIndex,
    /// The address of record 0. A record's address is computed from it alone.
    records: *const Record,
    /// Every write of a row maintains these indexes.
    pub(crate) indexes: Indexes,
    pub(crate) kind: TableKind,
    /// Changed by one thread at a time, the holder of the list of tables.
    description: Mutex<Description>,
    /// The size of the version with the longest value written since the table was opened, up to [`VERSION_BYTES_MAX`]
    /// of that value.
    version_bytes: AtomicU32,
    /// An [`Allowed`].
    allowed: AtomicU32,
}

/// The access of transactions to the rows of a table. The way between `Writes` and `FrozenReads` leads through
/// `Reads`. Each step is taken when all transactions that may have acted on the previous state have ended. Similarly,
/// rows are deleted for good when all transactions that began before `Nothing` have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Allowed {
    Writes,
    /// Reads, which are tracked.
    Reads,
    /// Reads without concurrency control. No transaction that writes is open.
    FrozenReads,
    /// Nothing for the moment: all rows are being deleted.
    Nothing,
    /// Nothing: deleting all rows has failed.
    NothingUncleared,
    /// Nothing any more.
    NothingDropped,
}

impl Allowed {
    /// Returns what transactions may do with a table that has this state when it is opened.
    pub(crate) fn of(state: TableState) -> Allowed {
        match state {
            TableState::InUse => Allowed::Writes,
            TableState::Cleared => Allowed::NothingUncleared,
            TableState::Dropped => Allowed::NothingDropped,
        }
    }
}

const WRITES: u32 = Allowed::Writes as u32;
const READS: u32 = Allowed::Reads as u32;
const FROZEN_READS: u32 = Allowed::FrozenReads as u32;
const NOTHING: u32 = Allowed::Nothing as u32;
const UNCLEARED: u32 = Allowed::NothingUncleared as u32;

/// The most bytes of a version to prefetch. Longer values are read in order, which processors detect.
const VERSION_BYTES_MAX: usize = 1024;

// SAFETY: `records` is an address in the records' slab; records are Sync.
unsafe impl Send for TableInner {}
// SAFETY: as above.
unsafe impl Sync for TableInner {}

impl TableInner {
    /// Returns the memory of record `id`, by arithmetic alone.
    #[inline(always)]
    pub(crate) fn record(&self, id: RecordId) -> *const Record {
        self.records.wrapping_add(id.0 as usize)
    }

    /// Returns the id of the record with this memory.
    #[inline(always)]
    pub(crate) fn id(&self, record: *const Record) -> RecordId {
        let id = (record.addr() - self.records.addr()) / size_of::<Record>();
        debug_assert_eq!(self.record(RecordId(id as u32)), record, "a record of this table");
        RecordId(id as u32)
    }
}

// ---- what it is called
impl TableInner {
    /// Returns the table's name and the types of its rows.
    pub(crate) fn description(&self) -> MutexGuard<'_, Description> {
        lock(&self.description)
    }

    /// Returns the table's name.
    #[cold]
    pub(crate) fn name(&self) -> String {
        self.description().name.clone()
    }
}

// ---- what versions are like
impl TableInner {
    /// Returns how many bytes of a version to prefetch before it is read. 0 before anything was written.
    #[inline(always)]
    pub(crate) fn version_bytes(&self) -> usize {
        self.version_bytes.load(Ordering::Relaxed) as usize // a hint
    }

    /// Records that a value of this length is written.
    #[inline(always)]
    pub(crate) fn note_value(&self, length: usize) {
        let bytes = Version::bytes_for(length.min(VERSION_BYTES_MAX));
        if bytes > self.version_bytes() {
            self.version_bytes.store(bytes as u32, Ordering::Relaxed); // of two threads' values either will do
        }
    }
}

// ---- whether rows are read and written
impl TableInner {
    /// Returns true if reads need not be tracked: no row changes until the transaction has ended.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.allowed() == Allowed::FrozenReads
    }

    /// Returns what transactions may do now.
    #[inline(always)]
    pub(crate) fn allowed(&self) -> Allowed {
        // Acquire: pairs with the Release in `allow`: everything written before is visible.
        match self.allowed.load(Ordering::Acquire) {
            WRITES => Allowed::Writes,
            READS => Allowed::Reads,
            FROZEN_READS => Allowed::FrozenReads,
            NOTHING => Allowed::Nothing,
            UNCLEARED => Allowed::NothingUncleared,
            _ => Allowed::NothingDropped,
        }
    }

    /// Refuses operations through a handle while nothing is allowed.
    #[inline(always)]
    pub(crate) fn check_usable(&self) -> Result<(), Fault> {
        // Acquire: as in `allowed`.
        if self.allowed.load(Ordering::Acquire) < NOTHING { Ok(()) } else { Err(self.unusable()) }
    }

    #[cold]
    fn unusable(&self) -> Fault {
        match self.allowed() {
            Allowed::NothingDropped => Fault::Dropped,
            Allowed::NothingUncleared => Fault::Uncleared,
            _ => Fault::Abort(Abort::WaitTimeout),
        }
    }

    /// Refuses a write of a row while only reads are allowed. While nothing is allowed, handles are refused already,
    /// and the write is the table's own deletion of all rows.
    #[inline(always)]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.allowed() {
            Allowed::Writes => Ok(()),
            Allowed::Reads | Allowed::FrozenReads => Err(Error::Frozen { table: self.name() }),
            Allowed::Nothing | Allowed::NothingUncleared | Allowed::NothingDropped => Ok(()),
        }
    }

    /// Sets what transactions may do with the rows of the table and the entries of its indexes.
    pub(crate) fn allow(&self, allowed: Allowed) {
        let entries = self.indexes.iter().map(|index| &index.entries);
        for table in entries.chain([self]) {
            table.allowed.store(allowed as u32, Ordering::Release); // pairs with the Acquire in `allowed`
        }
    }
}

// ---- places for records
impl TableInner {
    /// Returns the place of a new record. If records' ids are also kept elsewhere, it is a place that served this
    /// table before, if there is one.
    #[inline(always)]
    pub(crate) fn allocate(&self, records: &Slab) -> std::result::Result<RecordId, OutOfMemory> {
        if !self.indexes.is_empty()
            && let Some(id) = self.index.kept().take()
        {
            return Ok(id);
        }
        records.allocate().map(RecordId)
    }

    /// Takes back the place of a record that was never used.
    ///
    /// # Safety
    /// The place is from `allocate`, and was never published.
    #[cold]
    pub(crate) unsafe fn free(&self, records: &Slab, id: RecordId) {
        match self.index.kept().is_on() {
            true => self.index.kept().give(id),
            // SAFETY: the caller's promise.
            false => unsafe { records.free(id.0) },
        }
    }
}

impl TableInner {
    /// Frees the places that were kept for records of this table for all tables, because the table is dropped.
    pub(crate) fn release_places(&self, records: &Slab) {
        for id in self.index.kept().switch_off() {
            // SAFETY: no index names it, and all transactions have ended that may follow an entry of a secondary
            // index to it.
            unsafe { records.free(id.0) };
        }
    }
}

impl TableInner {
    /// Makes an empty table of this number, for the records of `records`. `loses_stamps` plants an error: inserts do
    /// not mark the ranges that they change.
    pub(crate) fn new(
        nodes: &Nodes,
        records: &Slab,
        number: u32,
        (kind, description): (TableKind, Description),
        loses_stamps: bool,
    ) -> std::result::Result<TableInner, OutOfMemory> {
        let TableOptions { index, front } = kind.options;
        let options = IndexOptions { kind: index, front, fixed8: kind.fixed8, number };
        let mut index = TableIndex::new(nodes, options)?;
        if loses_stamps {
            index.lose_stamps();
        }
        let records = records.at(0).cast::<Record>().cast_const();
        let allowed = AtomicU32::new(Allowed::of(description.state) as u32);
        let version_bytes = AtomicU32::new(0);
        let (indexes, description) = (Indexes::new(), Mutex::new(description));
        Ok(TableInner { index, records, indexes, kind, description, version_bytes, allowed })
    }

    /// Returns the table's place in the database's list.
    pub(crate) fn number(&self) -> u32 {
        self.index.number()
    }

    /// Appends the bytes by which the index orders a row with this key. That is the key itself if the index has an
    /// order of keys.
    pub(crate) fn push_order(&self, key: &[u8], order: &mut Vec<u8>) {
        self.index.order_of(&index_key(key), order);
    }

    /// Returns how many of these bytes a bound of the ranges in `touched` may have, if that is limited.
    pub(crate) fn bound_bytes_max(&self) -> usize {
        self.index.bound_bytes_max()
    }

    /// Returns the ranges of its keys that were changed.
    pub(crate) fn touched(&self) -> &Touched {
        self.index.touched()
    }
}

/// Appends the encoded index key of a row with this key and value, if the index has the row. It is a typed function
/// below the types' encodings, so that writes of bytes also maintain indexes. Foreign code: it may panic.
pub(crate) type Extract = Box<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<bool> + Send + Sync>;

/// The identity of a function of the program: its type. Each closure in the program's text has a type of its own,
/// whatever it has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    id: TypeId,
    name: &'static str,
}

impl Function {
    pub(crate) fn of<F: 'static>(_: &F) -> Function {
        Function { id: TypeId::of::<F>(), name: type_name::<F>() }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The most indexes of a table. A change of an index's entry has one bit of a word.
pub(crate) const INDEXES_MAX: usize = 32;

/// A projection's part of a table.
pub(crate) trait ProjectionPart: Any + Send + Sync {
    /// Frees the memory of the columns as soon as no scan uses them.
    fn discard(&self);
}

/// An index as the engine sees it.
pub(crate) struct IndexInner {
    /// The entries, as a table that is not in the database's list.
    pub(crate) entries: TableInner,
    /// The table that it is an index of. The table holds the index, so it is alive.
    pub(crate) base: *const TableInner,
    pub(crate) name: String,
    /// The type of its keys, by name.
    pub(crate) key_type: String,
    pub(crate) is_unique: bool,
    pub(crate) extract: Extract,
    /// The columns that `extract` makes the keys of, if the database keeps the index.
    pub(crate) columns: Option<Arc<Columns>>,
    /// The function that `extract` calls, if the index's name stands for that function alone.
    pub(crate) function: Option<Function>,
    /// Set if this is a projection's part, which has no entries. The projection knows its type.
    pub(crate) projection: Option<Arc<dyn ProjectionPart>>,
    /// The first snapshot that sees all entries, or [`BUILDING`], or [`DEAD`].
    pub(crate) readable_from: AtomicU64,
    /// The index declared before this one.
    pub(crate) next: AtomicPtr<IndexInner>,
}
// SAFETY: the pointers lead to a table and an index that live as long as the database, and are shared.
unsafe impl Send for IndexInner {}
// SAFETY: as above.
unsafe impl Sync for IndexInner {}

/// Writers maintain the index, and no transaction reads it yet.
pub(crate) const BUILDING: u64 = u64::MAX;
/// The index could not be built, and is not used.
pub(crate) const DEAD: u64 = u64::MAX - 1;

impl IndexInner {
    pub(crate) fn is_dead(&self) -> bool {
        self.readable_from.load(Ordering::Relaxed) == DEAD // a caller that takes it for alive does too much, and no harm
    }

    /// Fails unless a transaction with this snapshot finds everything by the index. If it does not, a transaction
    /// that begins now does.
    pub(crate) fn check_snapshot(&self, snapshot: u64) -> Result<(), Fault> {
        // Acquire: pairs with the Release in `serve`.
        match snapshot >= self.readable_from.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Fault::Abort(Abort::WaitTimeout)),
        }
    }

    pub(crate) fn serve(&self, from: u64) {
        debug_assert!(from < DEAD);
        self.readable_from.store(from, Ordering::Release); // pairs with the Acquire in `check_snapshot`
    }

    /// Forgets what is known elsewhere of the rows of its table, because the rows are gone.
    pub(crate) fn forget_rows(&self) {
        if let Some(projection) = &self.projection {
            projection.discard();
        }
    }

    pub(crate) fn give_up(&self) {
        self.readable_from.store(DEAD, Ordering::Relaxed);
    }
}

/// The indexes of a table, newest first. An index that is taken out of the list stays in memory, because handles and
/// walks of the list still refer to it.
pub(crate) struct Indexes {
    newest: AtomicPtr<IndexInner>,
    /// Indexes and projections that were taken out. Locked while the list changes.
    retired: Mutex<Retired>,
    /// Held from the declaration of an index until it is built.
    declaring: Mutex<()>,
}

impl Indexes {
    pub(crate) fn new() -> Indexes {
        let newest = AtomicPtr::new(std::ptr::null_mut());
        Indexes { newest, retired: Mutex::default(), declaring: Mutex::new(()) }
    }

    /// Returns true if no index was ever declared. Writes of tables without indexes make only this check.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null() // followed by `iter`, if at all
    }

    /// Returns the present indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &IndexInner> {
        // Acquire: pairs with the Release in `push`.
        let follow = |link: &AtomicPtr<IndexInner>| {
            let index = link.load(Ordering::Acquire).cast_const();
            // SAFETY: boxed by `push`, and freed with the list, which is borrowed.
            unsafe { index.as_ref() }
        };
        std::iter::successors(follow(&self.newest), move |index| follow(&index.next))
    }

    /// Returns the number of indexes and projections that serve or are being built.
    pub(crate) fn alive(&self) -> usize {
        self.iter().filter(|index| !index.is_dead()).count()
    }

    /// Takes a dead index without entries out of the list. The last index stays: writes made while there was an index
    /// have left places that only a table with indexes reuses.
    pub(crate) fn retire(&self, index: &IndexInner) {
        debug_assert!(index.is_dead());
        let mut retired = lock(&self.retired);
        let is_it = |link: &AtomicPtr<IndexInner>| std::ptr::eq(link.load(Ordering::Relaxed), index);
        let behind = index.next.load(Ordering::Relaxed); // changed under the lock, as all links
        if is_it(&self.newest) && behind.is_null() {
            return;
        }
        let mut links = [&self.newest].into_iter().chain(self.iter().map(|before| &before.next));
        if let Some(link) = links.find(|link| is_it(link)) {
            let index = link.load(Ordering::Relaxed);
            link.store(behind, Ordering::Release); // pairs with the Acquire in `iter`
            retired.0.push(index);
        }
    }

    /// Keeps other callers from declaring an index meanwhile.
    pub(crate) fn declaring(&self) -> MutexGuard<'_, ()> {
        lock(&self.declaring)
    }

    /// Like `declaring`, unless another caller is declaring one.
    pub(crate) fn try_declaring(&self) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.declaring)
    }

    /// Has writers maintain the index from now on. One call at a time. Places of the table's records have been kept
    /// for it before.
    pub(crate) fn push(&self, index: IndexInner, _: &MutexGuard<'_, ()>) -> &IndexInner {
        let _unchanged = lock(&self.retired);
        let next = AtomicPtr::new(self.newest.load(Ordering::Relaxed)); // changed under the lock
        let index = Box::into_raw(Box::new(IndexInner { next, ..index }));
        self.newest.store(index, Ordering::Release); // pairs with the Acquire in `iter`
        // SAFETY: just boxed, and freed with the list.
        unsafe { &*index }
    }
}

impl Indexes {
    /// Tells indexes by columns which rows the table of this name may have from now on. Fails if one of the indexes
    /// could not exist then. One call at a time.
    pub(crate) fn learn(&self, table: &str, description: &Description) -> Result<()> {
        let columns =
            || self.iter().filter(|index| !index.is_dead()).filter_map(|index| index.columns.as_ref());
        for of in columns() {
            of.check(description).map_err(|reason| {
                let reason = format!(
                    "{reason}: before the table is opened with such values, drop the index (drop_index); declare it anew when \
                     all rows are of the new version (migrate)"
                );
                Error::IndexedColumns { table: table.into(), index: of.info.name.clone(), reason }
            })?;
        }
        columns().try_for_each(|of| of.learn(description)).expect("checked just now");
        Ok(())
    }
}

impl Drop for Indexes {
    fn drop(&mut self) {
        let retired = std::mem::take(&mut lock(&self.retired).0);
        let mut at = self.newest.load(Ordering::Relaxed);
        let listed = std::iter::from_fn(move || {
            let index = at;
            // SAFETY: those of the list are alive until they are dropped below, each after it was left.
            at = unsafe { index.as_ref() }?.next.load(Ordering::Relaxed);
            Some(index)
        });
        for index in listed.chain(retired) {
            // SAFETY: boxed by `push`, and dropped once, because an index that was taken out of the list is not in
            // it. Nothing uses the table any more.
            drop(unsafe { Box::from_raw(index) });
        }
    }
}

/// Indexes that are in no list.
#[derive(Default)]
struct Retired(Vec<*mut IndexInner>);

// SAFETY: they lead to indexes that live as long as the table, and are shared.
unsafe impl Send for Retired {}

impl IndexInner {
    /// Writes the entry's value for a row in this record.
    pub(crate) fn entry_value(&self, id: RecordId, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&id.0.to_le_bytes());
        if self.is_unique {
            out.extend_from_slice(key);
        }
    }

    /// Records whether the entry under `entry` and the row under `row`, which it names, are in different partitions.
    pub(crate) fn note_place(&self, entry: &Key, row: &Key) {
        let partitioning = self.entries.index.partitioning();
        // SAFETY: the table holds the index.
        let base = unsafe { &*self.base }.index.partitioning();
        if partitioning.is_split() && partitioning.number_of(entry) != base.number_of(row) {
            partitioning.note_stray();
        }
    }

    /// Returns how an entry is added. If the row's key is part of the entry's key, no other row's entry can be there.
    pub(crate) fn coming<'v>(&self, value: &'v [u8]) -> Change<'v> {
        if self.is_unique { Change::Insert(value) } else { Change::Put(value) }
    }
}

/// Splits an entry's value into the row's record and, if an index key has one row at most, the row's key.
#[inline(always)]
pub(crate) fn split_entry(value: &[u8]) -> (RecordId, &[u8]) {
    let (id, key) = value.split_first_chunk().expect("entries begin with four bytes");
    (RecordId(u32::from_le_bytes(*id)), key)
}
