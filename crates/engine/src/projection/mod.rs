//! Projections: some columns of a table's rows, kept column by column beside the table, for scans of many rows that
//! read little of each.
//!
//! The table stays unchanged: transactions read and write its rows, and nothing of a projection is in a log or a
//! checkpoint. A projection is a list of blocks ([`Block`](block::Block)) of rows with neighboring keys, read in one
//! snapshot. A write first notes its key in the block whose range has the key. A scan reads the columns of blocks in
//! place, and reads rows that are noted from the table, so it sees what its transaction sees. [`Projection::refresh`]
//! reads blocks again in which something is noted. Why this is right is in `docs/design/projections.md`.
//!
//! After Stonebraker et al.: C-Store, a column-oriented DBMS, VLDB 2005 (projections, a writable store beside the
//! columns), and Lahiri et al.: Oracle Database In-Memory, a dual format in-memory database, ICDE 2015 (columns
//! beside rows, with a journal of stale rows). Here the journal is by block, and writes touch nothing else.

mod block;
mod columns;
mod ends;
mod generation;
mod interactive;
mod keys;
mod refresh;
mod scan;
mod selection;
mod text;

pub use columns::{Column, Columns, Zone};
pub use interactive::ProjectionScan;
pub use scan::{AsyncProjectionScan, ColumnBatch};
pub use selection::Selection;
pub use text::{Text, TextZone, Texts};

use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::kernel::{Engine, guarded};
use crate::memory::Memory;
use crate::ops::in_row;
use crate::secondary::{Declared, open_index};
use crate::sync::unmodelled::Mutex;
use crate::table::{Key, ProjectionPart, Table, TableInner, Value, decode_whole, index_key};
use crate::txn::Transaction;
use generation::{Generation, Generations};
use std::any::{Any, type_name};
use std::fmt;
use std::sync::{Arc, Weak};

/// How a projection is kept: see [`Database::projection_with`](crate::Database::projection_with).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProjectionOptions {
    /// The most rows in a block. Default: 8192. A batch of a scan is a block, so a few of its columns should fit into
    /// a cache. A block is skipped, and read again, as a whole.
    pub block_rows: usize,
}

impl Default for ProjectionOptions {
    fn default() -> Self {
        ProjectionOptions { block_rows: 8192 }
    }
}

/// The upper limit of `block_rows`, because a [`Selection`] numbers rows in 32 bits.
const BLOCK_ROWS_MAX: usize = u32::MAX as usize;

impl ProjectionOptions {
    fn check(&self) -> Result<()> {
        match (1..=BLOCK_ROWS_MAX).contains(&self.block_rows) {
            true => Ok(()),
            false => Err(Error::InvalidOption {
                option: "block_rows",
                reason: format!("must be from 1 to {BLOCK_ROWS_MAX}"),
            }),
        }
    }

    /// Returns how many keys are noted in a block before all its rows count as written. Looking up one row takes as
    /// long as reading about forty rows of a range.
    fn changes_max(&self) -> usize {
        (self.block_rows / 32).max(16)
    }
}

/// Makes a row's columns from its encoded key and value.
type Make<R> = dyn Fn(&[u8], &[u8]) -> Result<Option<R>> + Send + Sync;

struct Inner<R: Columns> {
    options: ProjectionOptions,
    make: Box<Make<R>>,
    generations: Generations<R>,
    memory: Arc<Memory>,
    /// Held while blocks are read.
    refreshing: Mutex<()>,
}

impl<R: Columns> Inner<R> {
    fn out_of_memory(&self) -> Error {
        Error::OutOfMemory { limit_bytes: self.memory.limit_bytes() }
    }

    /// Returns the columns of a row, if the row is in the projection.
    fn row(&self, table: &TableInner, key: &[u8], value: &[u8]) -> Result<Option<R>> {
        let of_projection = || format!("the function of a projection of the table {:?}", table.name());
        guarded(of_projection, || (self.make)(key, value))
            .map_err(|error| in_row(error, table, index_key(key)))
    }
}

/// Columns of a table's rows. Made by [`Database::projection`](crate::Database::projection), which shows how it is
/// used. Clones are handles to the same projection.
pub struct Projection<K, V: ?Sized, R: Columns, C: ConcurrencyControl = Serializable> {
    /// Weak, so that a closed database can free its memory.
    engine: Weak<Engine<C>>,
    table: Table<K, V>,
    /// Weak for the same reason: the table owns it.
    inner: Weak<Inner<R>>,
}

impl<K, V: ?Sized, R: Columns, C: ConcurrencyControl> Clone for Projection<K, V, R, C> {
    fn clone(&self) -> Self {
        Projection { engine: self.engine.clone(), table: self.table, inner: self.inner.clone() }
    }
}

impl<K, V: ?Sized, R: Columns, C: ConcurrencyControl> fmt::Debug for Projection<K, V, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.inner.upgrade().map(|inner| inner.options.clone());
        f.debug_struct("Projection")
            .field("table", &self.table)
            .field("options", &options)
            .finish_non_exhaustive()
    }
}

/// Returns the projection of this name of a table, or makes it.
pub(crate) fn open_projection<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: Table<K, V>,
    name: &str,
    options: ProjectionOptions,
    make: impl for<'v> Fn(&K, V::View<'v>) -> Option<R> + Send + Sync + 'static,
) -> Result<Projection<K, V, R, C>> {
    options.check()?;
    let base = table.of_database(engine.id)?;
    if !base.kind.options.index.is_ordered() {
        return Err(Error::NoOrder { table: base.name(), index: base.kind.options.index.name() });
    }
    let key_type = format!("{} in columns, {} rows in a block", type_name::<R>(), options.block_rows);
    let inner = Arc::new(Inner {
        options,
        make: Box::new(move |key, value| Ok(make(&decode_whole::<K>(key)?, V::view(value)?))),
        generations: Generations::new(Generation::unread(&engine.memory)),
        memory: engine.memory.clone(),
        refreshing: Mutex::default(),
    });
    let noted = inner.clone();
    let declared = Declared {
        name: name.into(),
        key_type,
        is_unique: false,
        leading_bits: None,
        extract: Box::new(move |key, _, _| {
            noted.generations.note(key);
            Ok(false)
        }),
        columns: None,
        function: None,
        projection: Some(inner),
    };
    let index = open_index(engine, base, declared, || Ok(()))?;
    let part: Option<Arc<dyn Any + Send + Sync>> = index.projection.clone().map(|part| part as _);
    let inner = part.and_then(|part| part.downcast().ok()).expect("its type is a part of what is compared");
    Ok(Projection { engine: Arc::downgrade(engine), table, inner: Arc::downgrade(&inner) })
}

impl<K, V: ?Sized, R: Columns, C: ConcurrencyControl> Projection<K, V, R, C> {
    /// Frees the memory of the columns when no scan uses them any more. Scans that begin now read the table, until
    /// [`refresh`](Self::refresh) has read all rows again.
    pub fn discard(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.discard();
        }
    }

    fn inner(&self) -> Result<Arc<Inner<R>>> {
        self.inner.upgrade().ok_or(Error::Closed)
    }
}

impl<R: Columns> ProjectionPart for Inner<R> {
    fn discard(&self) {
        self.generations.discard(Generation::unread(&self.memory)); // also what is being read just now
    }
}

/// Checks that a transaction can read copies of the table's rows: either no row changes until it ends, or it reads as
/// of a snapshot and nothing depends on its reads.
fn check_snapshot<C: ConcurrencyControl>(transaction: &Transaction<C>, table: &TableInner) -> Result<()> {
    match table.is_frozen() || transaction.txn().state().reads_freely() {
        true => Ok(()),
        false => Err(Error::NoSnapshot { table: table.name() }),
    }
}
