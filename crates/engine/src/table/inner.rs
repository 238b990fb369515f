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
    /// Address of record 0: a record is found by arithmetic alone.
    records: *const Record,
    /// Maintained by every write of a row.
    pub(crate) indexes: Indexes,
    pub(crate) kind: TableKind,
    /// Changed by one thread at a time, which has the list of tables.
    description: Mutex<Description>,
    /// Of the version with the longest value that was written since the table was opened, up to [`VERSION_BYTES_MAX`] of that.
    version_bytes: AtomicU32,
    /// An [`Allowed`].
    allowed: AtomicU32,
}

/// What transactions may do with the rows of a table. Between `Writes` and `FrozenReads` it goes by way of `Reads`: each step is
/// taken when all transactions have ended that may have gone by the one before. Likewise rows are deleted for good when all
/// have ended that have begun before nothing was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Allowed {
    Writes,
    /// Reads, which are tracked.
    Reads,
    /// Reads that need no concurrency control: no transaction that writes is open.
    FrozenReads,
    /// Nothing for the moment: all rows are being deleted.
    Nothing,
    /// Nothing: deleting all rows has failed.
    NothingUncleared,
    /// Nothing any more.
    NothingDropped,
}

impl Allowed {
    /// What transactions may do with a table in this state when it is opened.
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

/// What is asked for of a version ahead, at most: longer values are read in order, which processors see.
const VERSION_BYTES_MAX: usize = 1024;

// SAFETY: `records` is an address in the records' slab; records are Sync.
unsafe impl Send for TableInner {}
// SAFETY: as above.
unsafe impl Sync for TableInner {}

impl TableInner {
    /// The memory of record `id`. Pure arithmetic.
    #[inline(always)]
    pub(crate) fn record(&self, id: RecordId) -> *const Record {
        self.records.wrapping_add(id.0 as usize)
    }

    /// The id of the record with this memory.
    #[inline(always)]
    pub(crate) fn id(&self, record: *const Record) -> RecordId {
        let id = (record.addr() - self.records.addr()) / size_of::<Record>();
        debug_assert_eq!(self.record(RecordId(id as u32)), record, "a record of this table");
        RecordId(id as u32)
    }
}

// ---- what it is called
impl TableInner {
    /// What it is called, and what its rows are said to be.
    pub(crate) fn description(&self) -> MutexGuard<'_, Description> {
        lock(&self.description)
    }

    /// What it is called.
    #[cold]
    pub(crate) fn name(&self) -> String {
        self.description().name.clone()
    }
}

// ---- what versions are like
impl TableInner {
    /// Bytes of a version that are worth being asked for when it is about to be read: 0 before anything was written.
    #[inline(always)]
    pub(crate) fn version_bytes(&self) -> usize {
        self.version_bytes.load(Ordering::Relaxed) as usize // a hint
    }

    /// A value of this length is written.
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
    /// Reads need not be tracked: no row changes until the transaction has ended.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.allowed() == Allowed::FrozenReads
    }

    /// What transactions may do now.
    #[inline(always)]
    pub(crate) fn allowed(&self) -> Allowed {
        // Acquire: pairs with the Release in `allow`: all that was written before is there.
        match self.allowed.load(Ordering::Acquire) {
            WRITES => Allowed::Writes,
            READS => Allowed::Reads,
            FROZEN_READS => Allowed::FrozenReads,
            NOTHING => Allowed::Nothing,
            UNCLEARED => Allowed::NothingUncleared,
            _ => Allowed::NothingDropped,
        }
    }

    /// Refuses operations that are made by a handle while nothing is allowed.
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

    /// Refuses a write of a row while only reads are allowed. (Where nothing is, a handle has been refused, and it is the table's own
    /// deletion of all rows.)
    #[inline(always)]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.allowed() {
            Allowed::Writes => Ok(()),
            Allowed::Reads | Allowed::FrozenReads => Err(Error::Frozen { table: self.name() }),
            Allowed::Nothing | Allowed::NothingUncleared | Allowed::NothingDropped => Ok(()),
        }
    }

    /// Lets transactions do this with the rows of the table and the entries of its indexes.
    pub(crate) fn allow(&self, allowed: Allowed) {
        let entries = self.indexes.iter().map(|index| &index.entries);
        for table in entries.chain([self]) {
            table.allowed.store(allowed as u32, Ordering::Release); // pairs with the Acquire in `allowed`
        }
    }
}

// ---- places for records
impl TableInner {
    /// The place of a new record: where records' ids are noted elsewhere as well, one that served this table before,
    /// if there is one.
    #[inline(always)]
    pub(crate) fn allocate(&self, records: &Slab) -> std::result::Result<RecordId, OutOfMemory> {
        if !self.indexes.is_empty()
            && let Some(id) = self.index.kept().take()
        {
            return Ok(id);
        }
        records.allocate().map(RecordId)
    }

    /// Takes back the place of a record that came to nothing.
    ///
    /// # Safety
    /// From `allocate`, and never published.
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
    /// Lets the places that were kept for records of this table serve all tables: it is dropped.
    pub(crate) fn release_places(&self, records: &Slab) {
        for id in self.index.kept().switch_off() {
            // SAFETY: no index names it, and all transactions have ended that may follow an entry of a secondary index to it.
            unsafe { records.free(id.0) };
        }
    }
}

impl TableInner {
    /// An empty table of this number, for the records of `records`. `loses_stamps` plants an error: inserts do not mark the
    /// ranges that they change.
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

    /// The table's place in the database's list.
    pub(crate) fn number(&self) -> u32 {
        self.index.number()
    }

    /// Appends the bytes by which the index orders a row with this key: the key itself, if the index has an order of keys.
    pub(crate) fn push_order(&self, key: &[u8], order: &mut Vec<u8>) {
        self.index.order_of(&index_key(key), order);
    }

    /// How many of such bytes may make a bound of the ranges that `touched` tells apart, if that is limited.
    pub(crate) fn bound_bytes_max(&self) -> usize {
        self.index.bound_bytes_max()
    }

    /// Which ranges of its keys were changed.
    pub(crate) fn touched(&self) -> &Touched {
        self.index.touched()
    }
}

/// Appends the encoded index key of a row with this key and value, if the index has it: a typed function under the
/// types' encodings, so that writes of bytes maintain indexes as well. Foreign code: it may panic.
pub(crate) type Extract = Box<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<bool> + Send + Sync>;

/// A function of the program, as far as one can be told from another: by its type, which each closure in the program's text has for
/// itself, whatever it has captured.
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

/// Indexes of a table: an entry's change has a bit of a word.
pub(crate) const INDEXES_MAX: usize = 32;

/// What a projection has of a table.
pub(crate) trait ProjectionPart: Any + Send + Sync {
    /// Gives the memory of the columns back, as soon as no scan uses them.
    fn discard(&self);
}

/// An index as the engine sees it.
pub(crate) struct IndexInner {
    /// The entries, as a table that the database's list does not have.
    pub(crate) entries: TableInner,
    /// The table that it is an index of. Holds the index, so it is alive.
    pub(crate) base: *const TableInner,
    pub(crate) name: String,
    /// The type of its keys, by name.
    pub(crate) key_type: String,
    pub(crate) is_unique: bool,
    pub(crate) extract: Extract,
    /// The columns that its keys are made of by `extract`, where the database keeps the index.
    pub(crate) columns: Option<Arc<Columns>>,
    /// The function that `extract` calls, if the index's name stands for that function alone.
    pub(crate) function: Option<Function>,
    /// It has no entries: a projection's part, whose type is the projection's own.
    pub(crate) projection: Option<Arc<dyn ProjectionPart>>,
    /// The first snapshot that sees all entries; or [`BUILDING`], or [`DEAD`].
    pub(crate) readable_from: AtomicU64,
    /// Declared before it.
    pub(crate) next: AtomicPtr<IndexInner>,
}
// SAFETY: the pointers lead to a table and an index that live as long as the database, and are shared.
unsafe impl Send for IndexInner {}
// SAFETY: as above.
unsafe impl Sync for IndexInner {}

/// Writers maintain the index, nobody reads it yet.
pub(crate) const BUILDING: u64 = u64::MAX;
/// It could not be built, and serves nobody.
pub(crate) const DEAD: u64 = u64::MAX - 1;

impl IndexInner {
    pub(crate) fn is_dead(&self) -> bool {
        self.readable_from.load(Ordering::Relaxed) == DEAD // a caller that takes it for alive does too much, and no harm
    }

    /// Whether a transaction with this snapshot finds everything by it. If not, one that begins now will.
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

    /// The rows of its table are gone: what is known of them elsewhere goes, too.
    pub(crate) fn forget_rows(&self) {
        if let Some(projection) = &self.projection {
            projection.discard();
        }
    }

    pub(crate) fn give_up(&self) {
        self.readable_from.store(DEAD, Ordering::Relaxed);
    }
}

/// The indexes of a table, the newest first. One that is taken out of the list stays where it is, since handles and those who go through the
/// list lead to it.
pub(crate) struct Indexes {
    newest: AtomicPtr<IndexInner>,
    /// Indexes and projections that were taken out. Locked while the list changes.
    retired: Mutex<Retired>,
    /// Held while one is declared, until it is built.
    declaring: Mutex<()>,
}

impl Indexes {
    pub(crate) fn new() -> Indexes {
        let newest = AtomicPtr::new(std::ptr::null_mut());
        Indexes { newest, retired: Mutex::default(), declaring: Mutex::new(()) }
    }

    /// No index was ever declared. The one look that writes of other tables take.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null() // followed by `iter`, if at all
    }

    /// Those that there are now.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &IndexInner> {
        // Acquire: pairs with the Release in `push`.
        let follow = |link: &AtomicPtr<IndexInner>| {
            let index = link.load(Ordering::Acquire).cast_const();
            // SAFETY: boxed by `push`, and freed with the list, which is borrowed.
            unsafe { index.as_ref() }
        };
        std::iter::successors(follow(&self.newest), move |index| follow(&index.next))
    }

    /// The number of indexes and projections that serve or are being built.
    pub(crate) fn alive(&self) -> usize {
        self.iter().filter(|index| !index.is_dead()).count()
    }

    /// Takes an index out of the list that is dead, and has no entries. (The last one stays: what was written while there was an index has
    /// left places that only a table with indexes uses again.)
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

    /// Lets nobody else declare an index meanwhile.
    pub(crate) fn declaring(&self) -> MutexGuard<'_, ()> {
        lock(&self.declaring)
    }

    /// The same, unless somebody declares one.
    pub(crate) fn try_declaring(&self) -> Option<MutexGuard<'_, ()>> {
        try_lock(&self.declaring)
    }

    /// From now on writers maintain it. One at a time. Places of the table's records are kept for it since before.
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
    /// Lets indexes by columns know what rows of the table, which is called so, may be from now on; an error if one of them cannot be
    /// then. One at a time.
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
            // SAFETY: boxed by `push`, and dropped once, for one that was taken out of the list is not in it; nobody uses the table any more.
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
    /// What the entry of a row in this record says.
    pub(crate) fn entry_value(&self, id: RecordId, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&id.0.to_le_bytes());
        if self.is_unique {
            out.extend_from_slice(key);
        }
    }

    /// An entry under `entry` names the row under `row`: notes if they are not of one partition.
    pub(crate) fn note_place(&self, entry: &Key, row: &Key) {
        let partitioning = self.entries.index.partitioning();
        // SAFETY: the table holds the index.
        let base = unsafe { &*self.base }.index.partitioning();
        if partitioning.is_split() && partitioning.number_of(entry) != base.number_of(row) {
            partitioning.note_stray();
        }
    }

    /// How an entry comes: where the row's key is part of the entry's, nobody else's can be there.
    pub(crate) fn coming<'v>(&self, value: &'v [u8]) -> Change<'v> {
        if self.is_unique { Change::Insert(value) } else { Change::Put(value) }
    }
}

/// What an entry says: the row's record, and where an index key has one row at most, that row's key.
#[inline(always)]
pub(crate) fn split_entry(value: &[u8]) -> (RecordId, &[u8]) {
    let (id, key) = value.split_first_chunk().expect("entries begin with four bytes");
    (RecordId(u32::from_le_bytes(*id)), key)
}
