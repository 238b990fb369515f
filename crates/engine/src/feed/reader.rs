//! Readers of committed changes.

use super::change::ChangedTransaction;
use super::tables::Tables;
use crate::checkpoint::CatalogEntry;
use crate::error::{Error, Result};
use crate::memory::{Kind, Memory};
use crate::storage::Storage;
use crate::wal::{self, ChangePosition, DatabaseId, Follower, Hold, Lsn, Next, Record, Writer};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// How far a reader continues before it gives up what it holds of the log.
const HELD_BYTES: u64 = 256 << 10;

/// A position after the end of every log.
const END: Lsn = Lsn(u64::MAX);

/// The log of a database, as readers of its changes see it.
pub(crate) struct Source {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) database: DatabaseId,
    pub(crate) generation: u32,
    pub(crate) log: Log,
    /// The database's account.
    pub(crate) memory: Weak<Memory>,
}

/// How a log continues.
pub(crate) enum Log {
    /// It is being written. `would_deadlock`: the calling thread must not wait for it.
    Live { writer: Writer, would_deadlock: Box<dyn Fn() -> bool + Send + Sync> },
    /// It is only read. It is known to be durable up to `durable`, and ends at `end`.
    Still { durable: Lsn, end: Lsn },
}

/// A reader of the changes that a database commits, from a position on: see
/// [`Database::changes`](crate::Database::changes).
///
/// It returns transactions when they are durable, each once, in the order of the log. For each row this is the order
/// of commits, and no transaction comes before another on which it depends. While the reader exists, the log is kept
/// from the reader's place on. A reader that does not continue is cut off at
/// [`Options::log_held_bytes`](crate::Options::log_held_bytes), or when there is no room. It then returns
/// [`Error::ChangesRemoved`].
///
/// The reader does not keep the database open. After the database is closed, it returns [`Error::Closed`]. After any
/// other error it can be called again.
///
/// ```
/// use braiddb::changes::ChangeKind;
/// use braiddb::{Database, Options, Table};
/// # let directory = std::env::temp_dir().join(format!("braid-changes-{}", std::process::id()));
/// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
///
/// let db = Database::open(&directory, options())?;
/// let names: Table<u64, str> = db.table("names")?;
/// let start = db.change_position()?;
/// db.transact(|tx| tx.put(names, 1, "Ada"))?;
/// db.transact(|tx| tx.delete(names, 1))?;
///
/// let mut changes = db.changes(start)?;
/// let first = changes.wait_next()?.expect("it is open to be written");
/// assert!(matches!(first.changes().next().map(|change| change.kind), Some(ChangeKind::Put { value: b"Ada", .. })));
/// let noted = first.position().to_bytes(); // to be stored with what was applied
///
/// let position = braiddb::changes::ChangePosition::from_bytes(&noted).expect("as it was noted");
/// let mut changes = db.changes(position)?;
/// let second = changes.wait_next()?.expect("it is open to be written");
/// assert!(matches!(second.changes().next().map(|change| change.kind), Some(ChangeKind::Delete { .. })));
/// assert!(changes.try_next()?.is_none(), "nothing else has happened yet");
/// # drop((changes, db));
/// # std::fs::remove_dir_all(directory).expect("it was made above");
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Changes {
    source: Source,
    follower: Follower,
    /// The hold on the part of the log that was not read yet, if the log would not keep that part by itself.
    hold: Option<Hold>,
    /// True if something was read, so the position was one of this log.
    has_begun: bool,
    tables: Tables,
    /// The bytes in the account for this reader.
    charged_bytes: u64,
}

/// Makes a reader of this log from a position on. `tables`: the tables as the catalog has them now.
pub(crate) fn open(source: Source, from: ChangePosition, tables: Tables) -> Result<Changes> {
    if from.database != source.database {
        return Err(Error::NoSuchPosition { reason: "it is of another database" });
    }
    if from.generation != source.generation {
        return Err(Error::NoSuchPosition {
            reason: "the database has been open without a log since, and what was changed then is not known",
        });
    }
    let end = match &source.log {
        Log::Live { writer, .. } => writer.appended_lsn(),
        Log::Still { end, .. } => *end,
    };
    if from.lsn > end {
        return Err(Error::NoSuchPosition { reason: BEHIND });
    }
    let removed = |oldest| Error::ChangesRemoved { asked: from.lsn, oldest };
    let hold = match &source.log {
        Log::Live { writer, .. } => Some(writer.hold(from.lsn).map_err(removed)?),
        Log::Still { .. } => {
            let oldest = oldest_lsn(&source)?;
            if from.lsn < oldest {
                return Err(removed(oldest));
            }
            None
        }
    };
    let follower = Follower::new(source.storage.clone(), source.database, from.lsn, from.chain);
    let mut changes = Changes { source, follower, hold, has_begun: false, tables, charged_bytes: 0 };
    changes.charge(0)?;
    Ok(changes)
}

/// Returns where the log begins.
pub(crate) fn oldest_lsn(source: &Source) -> Result<Lsn> {
    match &source.log {
        Log::Live { writer, .. } => Ok(writer.oldest_lsn()),
        Log::Still { end, .. } => {
            let oldest = wal::oldest_lsn(&*source.storage, source.database).map_err(Error::Log)?;
            Ok(oldest.unwrap_or(*end))
        }
    }
}

const BEHIND: &str = "it lies behind the end of the log: it is of a copy that has gone on by itself";

impl Changes {
    /// Returns the position after the last transaction that was given out, from which a new reader can continue.
    pub fn position(&self) -> ChangePosition {
        let (lsn, chain) = self.follower.place();
        let Source { database, generation, .. } = self.source;
        ChangePosition { database, generation, lsn, chain }
    }

    /// Returns the next transaction, if one is durable by now. Waits only for files to be read.
    pub fn try_next(&mut self) -> Result<Option<ChangedTransaction>> {
        self.next_up_to(END)
    }

    /// Returns the next transaction, and waits until one is durable. `None` only if no more can come, because the
    /// database was opened to be read. Do not call this on a worker's thread, because the worker itself may have to
    /// do what the call waits for.
    pub fn wait_next(&mut self) -> Result<Option<ChangedTransaction>> {
        self.wait(END, None)
    }

    /// Returns the next transaction like [`wait_next`](Self::wait_next). Returns `None` if there is none within this
    /// time.
    pub fn next_timeout(&mut self, at_most: Duration) -> Result<Option<ChangedTransaction>> {
        self.wait(END, Some(at_most))
    }

    /// Returns the next transaction before a position, like [`wait_next`](Self::wait_next). `None` if all of them
    /// have been given out. Then [`position`](Self::position) is not before `until`.
    pub fn next_before(&mut self, until: ChangePosition) -> Result<Option<ChangedTransaction>> {
        if until.partial_cmp(&self.position()).is_none() {
            return Err(Error::NoSuchPosition { reason: "it is of another log" });
        }
        self.wait(until.lsn, None)
    }

    fn wait(&mut self, limit: Lsn, at_most: Option<Duration>) -> Result<Option<ChangedTransaction>> {
        let deadline_ns = match &self.source.log {
            Log::Live { writer, .. } => at_most.map(|at_most| writer.deadline_ns(at_most)),
            Log::Still { .. } => None,
        };
        loop {
            if let Some(next) = self.next_up_to(limit)? {
                return Ok(Some(next));
            }
            let place = self.follower.place().0;
            let Log::Live { writer, would_deadlock } = &self.source.log else { return Ok(None) };
            if place >= limit {
                return Ok(None);
            }
            if would_deadlock() {
                return Err(Error::WouldDeadlock);
            }
            // Only a record of the time may have become durable.
            if !writer.wait_beyond(place, deadline_ns).map_err(ended)? {
                return Ok(None);
            }
        }
    }

    /// Returns the next transaction before `limit` that is durable by now, if there is one.
    fn next_up_to(&mut self, limit: Lsn) -> Result<Option<ChangedTransaction>> {
        loop {
            let until = self.durable()?.min(limit);
            self.charge(0)?;
            let (place, chain) = self.follower.place();
            self.let_go(place, false)?;
            let room_bytes = match self.follower.next_record(until) {
                Ok(Next::End) => {
                    // The reader may have skipped something.
                    let place = self.follower.place().0;
                    return self.let_go(place, true).map(|()| None);
                }
                Ok(Next::Room(bytes)) => bytes,
                Ok(Next::Record(record, checksum)) => {
                    self.has_begun = true;
                    let Source { database, generation, .. } = self.source;
                    let lsn = record.end_lsn;
                    let position = ChangePosition { database, generation, lsn, chain: Some(checksum) };
                    let taken = take(&mut self.tables, position, &record);
                    return taken.map(Some).map_err(|reason| self.refuse(place, chain, reason));
                }
                Err(error) => return Err(self.explain(error)),
            };
            self.charge(room_bytes)?;
            self.follower.make_room(room_bytes);
        }
    }

    /// Gives up the log before `place`, from time to time or if there is nothing more to read.
    fn let_go(&mut self, place: Lsn, is_at_end: bool) -> Result<()> {
        let Some(hold) = &mut self.hold else { return Ok(()) };
        let passed_bytes = place.0 - hold.lsn().0;
        if passed_bytes >= HELD_BYTES || (is_at_end && passed_bytes > 0) {
            hold.move_to(place).map_err(|oldest| Error::ChangesRemoved { asked: place, oldest })?;
        }
        Ok(())
    }

    /// Returns the next transaction like [`wait_next`](Self::wait_next), for tasks. It holds no thread while it
    /// waits, and works with any runtime. Files are read during the poll, 256 KiB or one longer record at a time,
    /// usually from the system's cache. Dropping the future loses nothing.
    pub async fn next_async(&mut self) -> Result<Option<ChangedTransaction>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next transaction, like [`next_async`](Self::next_async), for hand-written streams.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<ChangedTransaction>>> {
        loop {
            if let Some(next) = self.try_next()? {
                return Poll::Ready(Ok(Some(next)));
            }
            let Some(hold) = &self.hold else { return Poll::Ready(Ok(None)) };
            ready!(hold.poll_beyond(self.follower.place().0, context.waker())).map_err(ended)?;
        }
    }

    /// Returns how far the log is durable. Fails once its files may belong to another process.
    fn durable(&self) -> Result<Lsn> {
        match &self.source.log {
            Log::Live { writer, .. } => writer.check_open().map(|()| writer.durable_lsn()).map_err(ended),
            Log::Still { .. } if self.source.memory.strong_count() == 0 => Err(Error::Closed),
            Log::Still { durable, .. } => Ok(*durable),
        }
    }

    /// Returns the error for a record that is intact but makes no sense. Such a record is not skipped.
    fn refuse(&mut self, place: Lsn, chain: Option<u32>, reason: &'static str) -> Error {
        let Source { storage, database, .. } = &self.source;
        self.follower = Follower::new(storage.clone(), *database, place, chain);
        Error::Log(wal::Error::Damaged { file: "log".into(), offset: 0, lsn: place, reason })
    }

    /// Returns why a record could not be read.
    fn explain(&mut self, error: wal::Error) -> Error {
        let place = self.follower.place().0;
        if let Some(hold) = &mut self.hold {
            // The hold is still at its place, unless it was cut.
            let at = hold.lsn();
            if let Err(oldest) = hold.move_to(at) {
                return Error::ChangesRemoved { asked: place, oldest };
            }
        }
        if let Err(closed) = self.durable() {
            return closed;
        }
        match error {
            wal::Error::Damaged { reason, .. } if !self.has_begun => Error::NoSuchPosition { reason },
            error => Error::Log(error),
        }
    }

    /// Charges this reader to the account, with a buffer of at least so many bytes.
    fn charge(&mut self, room_bytes: usize) -> Result<()> {
        let memory = self.source.memory.upgrade().ok_or(Error::Closed)?;
        let buffer_bytes = self.follower.room_bytes().max(room_bytes);
        let bytes = (size_of::<Changes>() + buffer_bytes + self.tables.bytes()) as u64;
        if bytes == self.charged_bytes {
            return Ok(());
        }
        if bytes > self.charged_bytes {
            let charged = memory.charge(Kind::Other, bytes - self.charged_bytes);
            charged.map_err(|_| Error::OutOfMemory { limit_bytes: memory.limit_bytes() })?;
        } else {
            memory.release(Kind::Other, self.charged_bytes - bytes);
        }
        self.charged_bytes = bytes;
        Ok(())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(memory) = self.source.memory.upgrade() {
            memory.release(Kind::Other, self.charged_bytes);
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.position()).finish_non_exhaustive()
    }
}

/// Returns the contents of a record, or what is wrong with it.
fn take(
    tables: &mut Tables,
    position: ChangePosition,
    record: &Record<'_>,
) -> Result<ChangedTransaction, &'static str> {
    let Some(bytes) = record.catalog() else {
        return ChangedTransaction::of_commit(tables, position, record).ok_or("a change of no table");
    };
    let entry = CatalogEntry::decode(bytes).ok_or("no table")?;
    let changes = tables.note(&entry).ok_or("a table out of turn")?;
    Ok(ChangedTransaction::of_table(tables, position, entry.number, changes))
}

/// Returns why there is nothing to wait for.
fn ended(error: wal::Error) -> Error {
    if matches!(error, wal::Error::Closed) { Error::Closed } else { Error::Log(error) }
}
