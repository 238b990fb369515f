//! Errors, in one concrete type, so that `?` and `Ok(..)` in a transaction's closure need no annotation.

mod locked;
mod malformed;

pub use locked::{HolderKind, LockHolder, LockedRow};
pub use malformed::MalformedRow;

use crate::storage::StorageError;
use crate::{checkpoint, wal};
use std::fmt;
use std::sync::Arc;

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a transaction or a call did not succeed.
///
/// A closure's own errors travel in [`Error::User`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction was in the way, and the engine has used up its retries.
    Conflict,
    /// `insert` found a value under the key.
    KeyExists,
    /// Another row already has the row's key in a unique index. Nothing was changed.
    UniqueViolation {
        /// The index's name.
        index: String,
    },
    /// A single row was requested by an index in which several rows may have the same key.
    IndexNotUnique {
        /// The index's name.
        index: String,
    },
    /// The table has an index of this name with keys of another type, or with other uniqueness.
    IndexMismatch {
        /// The index's name.
        name: String,
        /// The existing index.
        existing: String,
        /// The requested index.
        requested: String,
    },
    /// A table cannot have an index by these columns. The column does not exist, its type is not a type of keys, or
    /// the index's keys are of another type. Also returned if rows of the version of the value type that the table is
    /// being opened with could not stay in an existing index.
    IndexedColumns {
        /// The table's name.
        table: String,
        /// The index's name.
        index: String,
        /// The reason.
        reason: String,
    },
    /// The table has no index by columns of this name.
    NoIndex {
        /// The table's name.
        table: String,
        /// The index's name.
        index: String,
    },
    /// An index could not be built. Rows have the same key in a unique index, transactions stayed open or held rows
    /// locked for too long, or the table has no room for another index.
    IndexNotBuilt {
        /// The index's name.
        index: String,
        /// The reason.
        reason: String,
    },
    /// The function that extracts a row's key for an index writes, at every call, in the transaction that it is
    /// called for. The row was not changed. Such a function must look only at the row.
    ExtractorWrites {
        /// The index's name.
        index: String,
    },
    /// Another open transaction has locked or written the row, and the call was not allowed to wait for it.
    RowLocked(Box<LockedRow>),
    /// Another open transaction has locked or written the row, and kept it for as long as the call was allowed to
    /// wait.
    LockTimeout(Box<LockedRow>),
    /// The row's holder waits, directly or through other transactions, for a row of this transaction. Waiting would
    /// never end, so this transaction fails.
    Deadlock(Box<LockedRow>),
    /// The key is longer than the limit.
    KeyTooLong {
        /// The key's encoded length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The value is longer than the limit.
    ValueTooLong {
        /// The value's length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Stored bytes are not a key or value of the table's type.
    Malformed {
        /// The expected type.
        expected: &'static str,
        /// The number of bytes.
        bytes: usize,
        /// The row that has the bytes. `None` if the bytes are not part of a row, or the row is not known.
        row: Option<Box<MalformedRow>>,
    },
    /// The database's memory limit is reached. The database continues. Delete rows, or end long transactions, whose
    /// snapshots keep old versions.
    OutOfMemory {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// A number of the table's type cannot hold the sum: see [`Txn::add`](crate::Txn::add). The transaction is
    /// undone.
    Overflow {
        /// The table's name.
        table: String,
    },
    /// The table belongs to another database.
    WrongDatabase,
    /// A table of that name exists with other types, or with another kind of index.
    TableMismatch {
        /// The table's name.
        name: String,
        /// The types and index that the table was created with.
        existing: String,
        /// The requested types and index.
        requested: String,
    },
    /// The table may have rows of a named type that differs from the program's: its shape has changed under the same
    /// version, or the program does not know the version.
    ShapeMismatch {
        /// The table's name.
        table: String,
        /// The definition that rows may have been written by.
        existing: String,
        /// The program's definition under the same name and version.
        requested: Option<String>,
    },
    /// A named type of a table's values contains itself. Such values could be nested without end.
    RecursiveType {
        /// The table's name.
        table: String,
        /// The type's name.
        name: String,
    },
    /// The line is not a definition of a type, of the form `user 2: {name: string}`.
    NoDefinition {
        /// The name of the table that the definition was for.
        table: String,
        /// The line.
        line: String,
    },
    /// No table has this name.
    NoTable {
        /// The name.
        table: String,
    },
    /// A table of this name already exists.
    TableExists {
        /// The name.
        table: String,
    },
    /// A table has an index of a kind that this version does not know. A later version has made it.
    UnknownIndex {
        /// The table's name.
        table: String,
        /// The kind's name.
        index: String,
    },
    /// The table's index keeps no order of keys, so the table cannot be scanned by key: see
    /// [`IndexKind::is_ordered`](crate::IndexKind::is_ordered). Nothing was read, and the transaction continues.
    NoOrder {
        /// The table's name.
        table: String,
        /// The kind of the table's index.
        index: &'static str,
    },
    /// Columns of a table were requested in a transaction that has no snapshot to read them by: see
    /// [`Projection::scan`](crate::Projection::scan).
    NoSnapshot {
        /// The table's name.
        table: String,
    },
    /// A table has a front of its index that this version does not know. A later version has made it.
    UnknownFront {
        /// The table's name.
        table: String,
        /// The front's name.
        front: String,
    },
    /// A row of a frozen table was to be written: see [`Database::freeze`](crate::Database::freeze). Nothing was
    /// changed.
    Frozen {
        /// The table's name.
        table: String,
    },
    /// A table could not be frozen, thawed, cleared or dropped, because a transaction that was already open has not
    /// ended. Nothing has changed, unless the table was being cleared already: see
    /// [`Database::clear`](crate::Database::clear).
    TableInUse {
        /// The table's name.
        table: String,
    },
    /// The table was dropped after the handle was made: see [`Database::drop_table`](crate::Database::drop_table).
    /// The transaction is undone.
    TableDropped,
    /// Clearing the table has failed half-way: see [`Database::clear`](crate::Database::clear). The transaction is
    /// undone.
    NotCleared,
    /// A write, or a new table, in a transaction declared read-only or in a database opened to be read.
    ReadOnly,
    /// More transactions are open at once than the database has room for.
    TooManyTransactions {
        /// The limit.
        open_max: usize,
    },
    /// The savepoint does not exist. It is of another transaction or of an earlier run of this closure, or the
    /// transaction was rolled back to an earlier savepoint. Nothing has changed: see
    /// [`Txn::rollback_to`](crate::Txn::rollback_to).
    NoSavepoint,
    /// The transaction cannot be rolled back to a savepoint now. Operations of it are in flight, or a scan has found
    /// rows since the savepoint and not returned them yet. Nothing has changed: see
    /// [`Txn::rollback_to`](crate::Txn::rollback_to).
    OperationsInFlight,
    /// A closure given to `Transaction::with` awaited something other than its transaction's operations.
    WouldWait,
    /// Waiting here would never end, or would keep a worker from its transactions. The call was made in a closure
    /// that a worker runs, or it would have had to wait for a transaction of the calling thread. Nothing has changed.
    WouldDeadlock,
    /// All inboxes are full and the call may not wait.
    Busy,
    /// The closure panicked with this message. The transaction was rolled back. Some calls run other functions of the
    /// program on the calling thread: of indexes, projections and expiries, or to decode values. Their messages begin
    /// with the name of the function, and the call's changes were undone.
    Panicked(String),
    /// The handle was dropped before the transaction committed. The transaction was rolled back.
    Cancelled,
    /// The database is closed: see [`Database::shutdown`](crate::Database::shutdown). What was to begin has not
    /// begun, and what was to be committed is undone.
    Closed,
    /// The log stopped before the transaction was known to be durable. After the database is opened again, the
    /// transaction is there as a whole or not at all.
    OutcomeUnknown,
    /// The transaction has committed, but what it has done or seen did not become durable within
    /// [`Options::log_wait_ms`](crate::Options::log_wait_ms). It becomes durable when the log continues. A crash
    /// before that may lose it.
    Stalled {
        /// The reason.
        reason: &'static str,
    },
    /// The log has refused the transaction, because it has no room or has stopped after a failure of the storage.
    /// Reads continue. Commits continue when there is room again. After a failure the database must be opened again.
    Log(wal::Error),
    /// The directory of the database cannot be read or written, or another process has the database open.
    Storage(StorageError),
    /// A checkpoint cannot be read or written.
    Checkpoint(checkpoint::Error),
    /// The last checkpoint failed. Nothing is lost: the log is kept for as long as it is needed.
    CheckpointFailed(Arc<Error>),
    /// The log and the checkpoint disagree on which tables exist.
    CatalogDamaged {
        /// The name of a table that cannot exist.
        table: String,
        /// The table's number.
        number: u32,
    },
    /// The worker's queue of spawned transactions is full. The transaction was dropped.
    QueueFull {
        /// The worker's [`queued_max`](crate::worker::WorkerOptions::queued_max).
        queued_max: usize,
    },
    /// The system refused a file descriptor.
    NoDescriptor {
        /// The system's message.
        reason: String,
    },
    /// The system refused a thread.
    NoThread {
        /// The system's message.
        reason: String,
    },
    /// The database cannot be restored to this point from its files and those of its archive.
    OutOfReach {
        /// The requested point.
        asked: wal::Until,
        /// The first point that can be restored.
        first: wal::Point,
        /// The last point that can be restored.
        last: wal::Point,
    },
    /// The database has no log, so its changes cannot be followed. It is in memory, or was opened with
    /// [`Durability::None`](crate::Durability::None).
    NoLog,
    /// The changes after this position are no longer kept: see [`Database::changes`](crate::Database::changes). Begin
    /// again with the present rows.
    ChangesRemoved {
        /// The requested position in the log.
        asked: wal::Lsn,
        /// The first position that is kept.
        oldest: wal::Lsn,
    },
    /// Changes cannot be read from this position, because it is not a position of this database's log.
    NoSuchPosition {
        /// The reason.
        reason: &'static str,
    },
    /// There is no database in the directory.
    NoDatabase,
    /// The directory holds no database, but other files. No database is made among them unless
    /// [`Options::among_others`](crate::Options::among_others) is set.
    Occupied {
        /// The names of the files found.
        found: Vec<String>,
    },
    /// The directory holds an unfinished copy of a database.
    Unfinished,
    /// The destination of a copy already holds something.
    NotEmpty,
    /// The database is in memory, and has no files.
    InMemory,
    /// The copy is not whole. Other programs may have changed the files too fast, or the files are damaged.
    BackupFailed {
        /// The number of attempts.
        attempts: u32,
        /// Why the last attempt failed.
        reason: String,
    },
    /// The database cannot be closed while other handles of it exist.
    InUse,
    /// The transaction's changes do not fit into one file of the log. Nothing was committed.
    TransactionTooLarge {
        /// The limit of the changes with their keys, in bytes.
        bytes_max: u64,
    },
    /// An option has a value that cannot work.
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong with the value, and what would be right.
        reason: String,
    },
    /// The closure's own error. The transaction was rolled back.
    User(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps a closure's own error.
    ///
    /// ```
    /// let error = braiddb::Error::user("not enough money");
    /// assert_eq!(error.to_string(), "not enough money");
    /// assert!(!error.is_retryable());
    /// ```
    pub fn user(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::User(error.into().into())
    }

    /// Returns the error for bytes that are no value of a type, for implementations of [`Value`](crate::Value). Reads
    /// add the row.
    pub fn malformed(expected: &'static str, bytes: usize) -> Error {
        Error::Malformed { expected, bytes, row: None }
    }

    /// Returns true if the same transaction may succeed when it runs again.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict
                | Error::Deadlock(_)
                | Error::Busy
                | Error::QueueFull { .. }
                | Error::TooManyTransactions { .. }
        )
    }
}

impl Error {
    /// Writes the message of an error about a locked row.
    fn fmt_lock(&self, f: &mut fmt::Formatter<'_>, row: &LockedRow) -> fmt::Result {
        match self {
            Error::LockTimeout(_) => {
                write!(f, "{row} was not released within {} ms", row.waited.as_millis())
            }
            Error::Deadlock(_) => {
                write!(f, "deadlock: {row} is locked by one that waits for this transaction")
            }
            _ => write!(f, "{row} is locked"),
        }
    }

    /// Writes the message of an error about a worker and its thread.
    fn fmt_of_worker(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("all inboxes are full"),
            Error::QueueFull { queued_max } => write!(
                f,
                "{queued_max} spawned transactions wait for a place in the worker already: run rounds of it before \
                 spawning more, or make it with a greater queued_max"
            ),
            Error::NoDescriptor { reason } => write!(f, "the system refused a file descriptor: {reason}"),
            Error::NoThread { reason } => write!(f, "the system refused a thread: {reason}"),
            Error::UnknownFront { table, front } => {
                write!(f, "table {table:?} has a front {front:?}, which this version does not know")
            }
            _ => Ok(()),
        }
    }

    /// Writes the message of an error about the past that the log holds.
    fn fmt_of_log(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfReach { asked, first, last } => write!(
                f,
                "the database cannot be restored to {asked}: what there is reaches from {first} to {last}"
            ),
            Error::NoLog => f.write_str(
                "the database has no log to read changes from: open it in a directory, with Durability::Sync or \
                 Durability::Async",
            ),
            Error::ChangesRemoved { asked, oldest } => write!(
                f,
                "the changes from position {asked} of the log on are not kept any more, which begins at {oldest}: begin \
                 again with the present rows, and read faster, or open the database with a greater log_held_bytes"
            ),
            Error::NoSuchPosition { reason } => write!(f, "changes cannot be read from this position: {reason}"),
            _ => Ok(()),
        }
    }

    /// Writes the message of an error about tables and their rows.
    fn fmt_of_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyExists => f.write_str("the key to insert exists already"),
            Error::KeyTooLong { bytes, bytes_max } => {
                write!(f, "a key of {bytes} bytes is longer than the limit of {bytes_max}")
            }
            Error::ValueTooLong { bytes, bytes_max } => {
                write!(f, "a value of {bytes} bytes is longer than the limit of {bytes_max}")
            }
            Error::WrongDatabase => f.write_str("the table belongs to another database"),
            Error::CatalogDamaged { table, number } => write!(
                f,
                "the database is damaged: its log makes table {table:?} number {number}, which it cannot be"
            ),
            Error::TableMismatch { name, existing, requested } => {
                write!(f, "table {name:?} holds {existing}, not {requested}")
            }
            Error::ShapeMismatch { table, existing, requested: Some(requested) } => write!(
                f,
                "table {table:?} has rows of {existing}, and here the same version is {requested}: give the changed type a \
                 higher version, and keep the one before as its `previous`"
            ),
            Error::ShapeMismatch { table, existing, requested: None } => write!(
                f,
                "table {table:?} may have rows of {existing}, which this program does not know: a newer program has written \
                 them, or the type was left out from `previous` before the table was migrated"
            ),
            Error::NoDefinition { table, line } => {
                write!(
                    f,
                    "for table {table:?}: {line:?} is no definition, such as \"user 2: {{name: string}}\""
                )
            }
            Error::RecursiveType { table, name } => write!(
                f,
                "{name:?} of table {table:?} consists of itself: keep what is nested in rows of its own, or in a field with \
                 #[braid(serde)]"
            ),
            Error::NoTable { table } => write!(f, "there is no table {table:?}"),
            Error::TableExists { table } => write!(f, "there is a table {table:?} already"),
            Error::Overflow { table } => write!(f, "a number of table {table:?} cannot hold the sum"),
            Error::Frozen { table } => write!(f, "table {table:?} {FROZEN}"),
            Error::TableInUse { table } => write!(f, "table {table:?} {IN_USE}"),
            Error::TableDropped => f.write_str("the table was dropped: open it anew by its name"),
            Error::NotCleared => f.write_str("clearing the table has failed half-way: clear it again"),
            _ => unreachable!("asked for these alone"),
        }
    }

    /// Writes the message of an error about what a transaction cannot do.
    fn fmt_of_transaction(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TransactionTooLarge { bytes_max } => write!(
                f,
                "the transaction's changes are longer than the limit of {bytes_max} bytes: \
                 split it, or open the database with a greater log_segment_bytes"
            ),
            Error::OutOfMemory { limit_bytes } => {
                write!(
                    f,
                    "the memory limit of {limit_bytes} bytes is reached: delete rows, end long transactions, or open the database \
                     with a greater memory_limit_bytes"
                )
            }
            Error::NoSavepoint => f.write_str(NO_SAVEPOINT),
            Error::OperationsInFlight => f.write_str(IN_FLIGHT),
            Error::WouldWait => f.write_str("only the transaction's own operations can be awaited here"),
            Error::WouldDeadlock => f.write_str("a thread cannot wait for what it has to do itself"),
            _ => unreachable!("asked for these alone"),
        }
    }

    /// Writes the message of an error about an index or a missing order of keys.
    fn fmt_of_index(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UniqueViolation { index } => write!(f, "another row has this key of index {index:?}"),
            Error::IndexNotUnique { index } => {
                write!(f, "several rows may have the same key of index {index:?}: scan it")
            }
            Error::IndexMismatch { name, existing, requested } => {
                write!(f, "index {name:?} is {existing}, not {requested}")
            }
            Error::IndexNotBuilt { index, reason } => {
                write!(f, "index {index:?} could not be built: {reason}")
            }
            Error::IndexedColumns { table, index, reason } => {
                write!(f, "table {table:?} cannot have index {index:?} by these columns: {reason}")
            }
            Error::NoIndex { table, index } => {
                write!(f, "table {table:?} has no index {index:?} by columns")
            }
            Error::ExtractorWrites { index } => write!(
                f,
                "the extractor of index {index:?} writes in the transaction that it is called for: \
                 it may look at the row alone"
            ),
            Error::NoOrder { table, index } => write!(
                f,
                "table {table:?} cannot be scanned: its index, of the kind {index}, has no order of keys; get rows by their whole \
                 keys, scan by a secondary index, or keep them in a table with an index that has one, as masstree and btree do"
            ),
            Error::NoSnapshot { table } => write!(
                f,
                "columns of table {table:?} are read as of a snapshot, which the transactions of this scheme do not have: freeze the \
                 table, or use serializable or snapshot"
            ),
            Error::UnknownIndex { table, index } => {
                write!(
                    f,
                    "table {table:?} has an index of the kind {index:?}, which this version does not know"
                )
            }
            Error::UnknownFront { table, front } => {
                write!(f, "table {table:?} has a front {front:?}, which this version does not know")
            }
            _ => Ok(()),
        }
    }
}

const UNFINISHED: &str = "a backup or a restoration into this directory was not finished: remove the directory and \
                          make the copy again";

const ARE_OPEN: &str = "transactions are open at once";

const FROZEN: &str = "is frozen: its rows cannot be written until it is thawed";

const IN_USE: &str = "is in use: a transaction that was open before has not ended";

const READ_ONLY: &str = "a write in a transaction declared read-only, or in a database opened to be read";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict => f.write_str("another transaction was in the way"),
            Error::RowLocked(row) | Error::LockTimeout(row) | Error::Deadlock(row) => self.fmt_lock(f, row),
            Error::UniqueViolation { .. }
            | Error::IndexNotUnique { .. }
            | Error::IndexMismatch { .. }
            | Error::IndexNotBuilt { .. }
            | Error::IndexedColumns { .. }
            | Error::NoIndex { .. }
            | Error::ExtractorWrites { .. }
            | Error::UnknownIndex { .. }
            | Error::NoOrder { .. }
            | Error::NoSnapshot { .. }
            | Error::UnknownFront { .. } => self.fmt_of_index(f),
            Error::Malformed { expected, bytes, row } => malformed::tell(f, expected, *bytes, row.as_deref()),
            Error::KeyExists
            | Error::KeyTooLong { .. }
            | Error::ValueTooLong { .. }
            | Error::WrongDatabase
            | Error::CatalogDamaged { .. }
            | Error::TableMismatch { .. }
            | Error::ShapeMismatch { .. }
            | Error::NoDefinition { .. }
            | Error::RecursiveType { .. }
            | Error::NoTable { .. }
            | Error::TableExists { .. }
            | Error::Overflow { .. }
            | Error::Frozen { .. }
            | Error::TableInUse { .. }
            | Error::TableDropped
            | Error::NotCleared => self.fmt_of_table(f),
            Error::ReadOnly => f.write_str(READ_ONLY),
            Error::TooManyTransactions { open_max } => write!(f, "more than {open_max} {ARE_OPEN}"),
            Error::OutcomeUnknown => f.write_str(OUTCOME_UNKNOWN),
            Error::Stalled { reason } => write!(f, "{STALLED}: {reason}"),
            Error::Log(error) => error.fmt(f),
            Error::Storage(error) => error.fmt(f),
            Error::Checkpoint(error) => error.fmt(f),
            Error::CheckpointFailed(error) => write!(f, "the checkpoint failed: {error}"),
            Error::OutOfReach { .. }
            | Error::NoLog
            | Error::ChangesRemoved { .. }
            | Error::NoSuchPosition { .. } => self.fmt_of_log(f),
            Error::NoDatabase => f.write_str("there is no database in this directory"),
            Error::Occupied { found } => occupied(f, found),
            Error::Unfinished => f.write_str(UNFINISHED),
            Error::NotEmpty => f.write_str("the destination is not empty: choose a new one"),
            Error::BackupFailed { attempts, reason } => {
                write!(f, "no copy of {attempts} was whole, the last because of this: {reason}")
            }
            Error::Busy | Error::QueueFull { .. } | Error::NoDescriptor { .. } | Error::NoThread { .. } => {
                self.fmt_of_worker(f)
            }
            Error::NoSavepoint
            | Error::OperationsInFlight
            | Error::WouldWait
            | Error::WouldDeadlock
            | Error::OutOfMemory { .. }
            | Error::TransactionTooLarge { .. } => self.fmt_of_transaction(f),
            Error::InUse => f.write_str("the database cannot be closed: there are other handles of it"),
            Error::InMemory => f.write_str("the database is in memory and has no files"),
            Error::Panicked(message) => write!(f, "a closure or function of the program panicked: {message}"),
            Error::Cancelled => f.write_str("the transaction was cancelled"),
            Error::Closed => f.write_str("the database is closed"),
            Error::InvalidOption { option, reason } => write!(f, "option {option}: {reason}"),
            Error::User(error) => error.fmt(f),
        }
    }
}

const STALLED: &str = "the transaction has committed and is not known to be durable; it becomes so when the log goes \
                       on, and a crash before that may lose it";

const NO_SAVEPOINT: &str = "the savepoint does not exist: it is of another transaction or of an earlier run of this one, or the \
                            transaction was rolled back to an earlier savepoint";

const IN_FLIGHT: &str = "the transaction cannot be rolled back to a savepoint while operations of it are in flight, or a scan has \
                         rows to return that it has found since";

const OUTCOME_UNKNOWN: &str = "the log stopped before the transaction was known to be durable: after the database is \
                               opened again, it is there as a whole or not at all";

/// Writes what a directory holds that is refused for a new database.
fn occupied(f: &mut fmt::Formatter<'_>, found: &[String]) -> fmt::Result {
    const SHOWN_MAX: usize = 3;
    let shown: Vec<String> = found.iter().take(SHOWN_MAX).map(|name| format!("{name:?}")).collect();
    let more = match found.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    write!(
        f,
        "there is no database in this directory, but there is {}{more}: choose an empty directory, or open it with \
         among_others to make a database beside them",
        shown.join(", ")
    )
}

impl Error {
    /// Returns the answer for a transaction of which it is not known whether it lasts, for this reason.
    pub(crate) fn stalled(why: wal::Stall) -> Error {
        Error::Stalled {
            reason: match why {
                wal::Stall::NoRoom => "the disk has no room for what was appended to the log",
                wal::Stall::Slow => "a write or a sync of the log does not return",
            },
        }
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Error {
        Error::Storage(error)
    }
}

impl From<wal::Error> for Error {
    fn from(error: wal::Error) -> Error {
        Error::Log(error)
    }
}

impl From<checkpoint::Error> for Error {
    fn from(error: checkpoint::Error) -> Error {
        Error::Checkpoint(error)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::User(error) => error.source(),
            Error::Log(error) => error.source(),
            Error::Checkpoint(error) => error.source(),
            Error::Storage(error) => error.source(),
            Error::CheckpointFailed(error) => error.source(),
            _ => None,
        }
    }
}
