//! Secondary indexes: rows by what is in them.
//!
//! An index is a tree of its own whose entries are records, under the same rules as rows: the key is the encoded index
//! key, followed by the row's key where several rows may have the same; the value is the row's record id, followed by
//! the row's key where they may not. Whoever writes a row writes its entries in the same transaction (`upkeep`); readers
//! go from the entries that they see to the rows without a second descent (`rows`, `get_by`). `build` makes an index of
//! a table in use. Why that is sound is in `docs/design/secondary-indexes.md`.
//!
//! Invariants, of an index that is neither dead nor being built:
//! - A snapshot sees an entry exactly if it sees a row with that index key, under that key, in that record.
//! - Entries are in no log and no checkpoint: their trees have the number `DERIVED`.

mod build;
mod bytes;
mod get_by;
mod rows;
mod upkeep;

pub(crate) use build::{Declared, open};
pub(super) use bytes::Extract;
pub(crate) use bytes::extractor;
pub use get_by::GetBy;
pub use rows::{IndexRows, NextIndexRow, OwnedIndexRows};
pub(super) use upkeep::Upkeep;

use super::fault::Fault;
use super::table::TableInner;
use crate::cc::Abort;
use crate::record::RecordId;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Indexes of a table, those included that could not be built: an entry's change has a bit of a word.
pub(super) const INDEXES_MAX: usize = 32;

/// An index as the engine sees it.
pub(crate) struct IndexInner {
    /// The entries, as a table that the database's list does not have.
    pub(super) entries: TableInner,
    /// The table that it is an index of. Holds the index, so it is alive.
    pub(super) base: *const TableInner,
    pub(super) name: String,
    /// The type of its keys, by name.
    key_type: String,
    pub(super) is_unique: bool,
    pub(super) extract: Extract,
    /// The first snapshot that sees all entries; or [`BUILDING`], or [`DEAD`].
    readable_from: AtomicU64,
    /// Declared before it.
    next: *const IndexInner,
}
// SAFETY: the pointers lead to a table and an index that live as long as the database, and are shared.
unsafe impl Send for IndexInner {}
// SAFETY: as above.
unsafe impl Sync for IndexInner {}

/// Writers maintain the index, nobody reads it yet.
const BUILDING: u64 = u64::MAX;
/// It could not be built, and serves nobody.
const DEAD: u64 = u64::MAX - 1;

impl IndexInner {
    pub(super) fn is_dead(&self) -> bool {
        self.readable_from.load(Ordering::Relaxed) == DEAD // whoever takes it for alive does too much, and no harm
    }

    /// Whether a transaction with this snapshot finds everything by it. If not, one that begins now will.
    pub(super) fn check_snapshot(&self, snapshot: u64) -> Result<(), Fault> {
        // Acquire: pairs with the Release in `serve`.
        match snapshot >= self.readable_from.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Fault::Abort(Abort::Waited)),
        }
    }

    fn serve(&self, from: u64) {
        debug_assert!(from < DEAD);
        self.readable_from.store(from, Ordering::Release); // pairs with the Acquire in `check_snapshot`
    }

    fn give_up(&self) {
        self.readable_from.store(DEAD, Ordering::Relaxed);
    }
}

/// The indexes of a table, the newest first: a list that only grows.
pub(crate) struct Indexes {
    newest: AtomicPtr<IndexInner>,
    /// Held by who declares one, until it is built.
    declaring: Mutex<()>,
}

impl Indexes {
    pub(super) fn new() -> Indexes {
        Indexes { newest: AtomicPtr::new(std::ptr::null_mut()), declaring: Mutex::new(()) }
    }

    /// No index was ever declared. The one look that writes of other tables take.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null() // followed by `iter`, if at all
    }

    /// Those that there are now.
    pub(super) fn iter(&self) -> impl Iterator<Item = &IndexInner> {
        // Acquire: pairs with the Release in `push`.
        let newest = self.newest.load(Ordering::Acquire).cast_const();
        // SAFETY: boxed by `push`, and freed with the list, which is borrowed.
        let deref = |index: *const IndexInner| unsafe { index.as_ref() };
        std::iter::successors(deref(newest), move |index| deref(index.next))
    }

    /// Lets nobody else declare an index meanwhile.
    fn declaring(&self) -> MutexGuard<'_, ()> {
        lock(&self.declaring)
    }

    /// From now on writers maintain it. One at a time. Places of the table's records are kept for it since before.
    fn push(&self, index: IndexInner, _: &MutexGuard<'_, ()>) -> &IndexInner {
        let next = self.newest.load(Ordering::Relaxed).cast_const(); // only who declares changes it
        let index = Box::into_raw(Box::new(IndexInner { next, ..index }));
        self.newest.store(index, Ordering::Release); // pairs with the Acquire in `iter`
        // SAFETY: just boxed, and freed with the list.
        unsafe { &*index }
    }
}

impl Drop for Indexes {
    fn drop(&mut self) {
        let mut at = self.newest.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: boxed by `push`, dropped once; nobody uses the table any more.
            let index = unsafe { Box::from_raw(at) };
            at = index.next.cast_mut();
        }
    }
}

/// An index of one table with keys `K` and values `V`, by keys `I`; made by [`Database::index`] and
/// [`Database::unique_index`]. `Copy`: closures take it along without ado.
///
/// [`Database::index`]: crate::Database::index
/// [`Database::unique_index`]: crate::Database::unique_index
pub struct Index<I, K, V: ?Sized> {
    inner: NonNull<IndexInner>,
    database: u64,
    types: PhantomData<fn(I, K, &V)>,
}

impl<I, K, V: ?Sized> Clone for Index<I, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I, K, V: ?Sized> Copy for Index<I, K, V> {}
// SAFETY: dereferenced in `inner` only; an `IndexInner` is shared between threads.
unsafe impl<I, K, V: ?Sized> Send for Index<I, K, V> {}
// SAFETY: as above.
unsafe impl<I, K, V: ?Sized> Sync for Index<I, K, V> {}

impl<I, K, V: ?Sized> fmt::Debug for Index<I, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("database", &self.database).finish_non_exhaustive()
    }
}

impl<I, K, V: ?Sized> Index<I, K, V> {
    pub(crate) fn new(inner: &IndexInner, database: u64) -> Self {
        Index { inner: NonNull::from(inner), database, types: PhantomData }
    }

    /// The index, for as long as its database is held: as [`Table`](super::table::Table)'s.
    #[inline(always)]
    fn inner(&self, database: u64) -> Result<&IndexInner, Fault> {
        if self.database != database {
            return Err(Fault::WrongDatabase);
        }
        // SAFETY: indexes are boxed and live as long as their database, which the caller holds.
        Ok(unsafe { self.inner.as_ref() })
    }
}

/// What an entry says: the row's record, and where an index key has one row at most, that row's key.
#[inline(always)]
fn split_entry(value: &[u8]) -> (RecordId, &[u8]) {
    let (id, key) = value.split_first_chunk().expect("entries begin with four bytes");
    (RecordId(u32::from_le_bytes(*id)), key)
}
