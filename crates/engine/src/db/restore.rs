//! Databases as they were at some point of their past.

use super::Database;
use super::open::fresh_id;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::durable::{Planted, Progress, Restoration, Restorer};
use crate::error::Result;
use crate::kernel::Engine;
use crate::metrics::{Clock, SystemClock};
use crate::options::Options;
use crate::storage::{FileStorage, Storage};
use crate::wal::{Lsn, Until};
use std::path::Path;
use std::sync::Arc;

/// A past state of a database, and where its files are.
#[derive(Clone, Debug)]
pub struct Past {
    /// The directory of the database, or of a backup of it. It must have a checkpoint from before the point, or the
    /// log from its beginning.
    pub from: Arc<dyn Storage>,
    /// Where more of its log is: archives, or the database's own directory if `from` is a backup. If several have a
    /// segment, the last one's is used.
    pub logs: Vec<Arc<dyn Storage>>,
    /// The point.
    pub until: Until,
}

/// Makes a new database in an empty directory, with another database's state at a point of its past.
///
/// The other database is only read, and no process may have it open. The new database has an identity of its own, so
/// files of the two cannot be mistaken for each other's. Its positions in the log continue from the point. It is
/// durable when this returns. Until then every attempt to open its directory is refused.
///
/// The rows must fit into memory, within `options`. The point must lie after the end of an existing checkpoint, or
/// the log must be there from its beginning. Otherwise the error says which points can be restored. The design is in
/// `docs/design/durability.md`.
pub fn restore(
    past: &Past,
    to: Arc<dyn Storage>,
    options: &Options,
    clock: Arc<dyn Clock>,
    progress: &mut (dyn FnMut(&Progress) + Send),
) -> Result<Restoration> {
    restore_with_planted(past, to, options, clock, Planted::None, progress)
}

/// Restores like [`restore`], with an error planted for tests.
#[doc(hidden)]
pub fn restore_with_planted(
    past: &Past,
    to: Arc<dyn Storage>,
    options: &Options,
    clock: Arc<dyn Clock>,
    planted: Planted,
    progress: &mut (dyn FnMut(&Progress) + Send),
) -> Result<Restoration> {
    options.check()?;
    let Past { from, logs, until } = past.clone();
    let (fresh, restored_by) = (fresh_id(), clock.clone());
    let steps = planted.steps();
    let restorer = Restorer { from, logs, to, until, fresh, clock, steps, progress };
    restorer.run::<Serializable>(&|| Engine::new(options.clone(), restored_by.clone()))
}

impl Database {
    /// Makes a new database in the directory `to`, which must be empty or not exist, with the state of the database
    /// in `from` at a point of its past. See [`restore`], which also takes archived segments of the log.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table, wal::Until};
    /// # let directory = std::env::temp_dir().join(format!("braid-at-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// # std::fs::create_dir_all(&directory).expect("a place for temporary files");
    /// let db = Database::open(directory.join("database"), options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// db.run(async move |tx| tx.put(names, 1, "Ada").await).wait()?;
    /// let before = db.log_position().expect("it has a log");
    /// db.run(async move |tx| tx.delete(names, 1).await).wait()?;
    /// db.close()?;
    ///
    /// let (from, to) = (directory.join("database"), directory.join("restored"));
    /// let db = Database::open_at(from, to, Until::Lsn(before), options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// assert_eq!(db.begin()?.get(names, 1)?, Some("Ada"));
    /// # drop(db);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn open_at(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        until: Until,
        options: Options,
    ) -> Result<Database> {
        let past = Past { from: Arc::new(FileStorage::open(from.as_ref())?), logs: Vec::new(), until };
        FileStorage::create_for(to.as_ref(), |storage| {
            let storage = Arc::new(storage.clone());
            restore(&past, storage.clone(), &options, Arc::new(SystemClock::default()), &mut |_| {})?;
            // The same directory, wherever its path leads by now.
            Database::open_with(storage, options, Arc::new(SystemClock::default()), &mut |_| {})
        })
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Returns the end of the log. Everything that committed before this call lies before it. Record it before a
    /// risky change, to restore the database to it. `None` without a log.
    pub fn log_position(&self) -> Option<Lsn> {
        self.engine().log.get().map(|log| log.writer.appended_lsn())
    }
}
