//! The feed of a database's commits.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::durable::LogFiles;
use crate::error::{Error, Result};
use crate::feed::{self, ChangedTable, Changes, Source, Tables};
use crate::kernel::Inside;
use crate::wal::ChangePosition;
use std::sync::Arc;

impl<C: ConcurrencyControl> Database<C> {
    /// Returns a reader of all changes committed since a position, and of those to come: see [`Changes`]. While the
    /// reader exists, the log keeps what it has not read, up to
    /// [`Options::log_held_bytes`](crate::Options::log_held_bytes). Without a reader the log is kept from the last
    /// checkpoint but one on.
    ///
    /// In a database that was opened to be read, the reader comes to an end.
    ///
    /// # Errors
    /// - [`Error::ChangesRemoved`] if the log no longer goes back to the position.
    /// - [`Error::NoSuchPosition`] if it is not a position of this database's log.
    /// - [`Error::NoLog`] if there is no log.
    ///
    /// To begin a copy of the present rows and keep it up to date:
    ///
    /// ```
    /// use braiddb::changes::ChangeKind;
    /// use braiddb::{Database, Options, Table};
    /// use std::collections::BTreeMap;
    /// # let directory = std::env::temp_dir().join(format!("braid-replica-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    ///
    /// let db = Database::open(&directory, options())?;
    /// let stock: Table<u64, u64> = db.table("stock")?;
    /// db.transact(|tx| tx.put(stock, 1, 10))?;
    ///
    /// let mut changes = db.changes(db.change_position()?)?; // first, so that nothing is missed
    /// let mut copy = BTreeMap::new();
    /// db.transact(|tx| {
    ///     copy.clear(); // it may be run again
    ///     let mut rows = tx.scan_all(stock);
    ///     while let Some((item, count)) = rows.next()? {
    ///         copy.insert(item, count);
    ///     }
    ///     Ok(())
    /// })?;
    ///
    /// db.transact(|tx| tx.put(stock, 2, 20))?;
    /// let reached = db.change_position()?;
    /// while let Some(transaction) = changes.next_before(reached)? {
    ///     for change in &transaction {
    ///         match (change.kind, change.decode::<u64, u64>()?) {
    ///             (_, Some((item, Some(count)))) => drop(copy.insert(item, count)),
    ///             (_, Some((item, None))) => drop(copy.remove(&item)),
    ///             (ChangeKind::Cleared | ChangeKind::Dropped, None) => copy.clear(),
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// assert_eq!(copy, BTreeMap::from([(1, 10), (2, 20)]));
    /// # drop((changes, db));
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn changes(&self, from: ChangePosition) -> Result<Changes> {
        let (_, tables) = self.engine().described_tables(|| ());
        let tables =
            tables.into_iter().map(|(table, description)| ChangedTable::new(table.number(), description));
        feed::open(self.source()?, from, Tables::new(tables))
    }

    /// Returns the end of the log. Everything that committed before this call lies before that position, and is
    /// durable when the call returns. A transaction that begins later sees all of it. The call waits for the log as a
    /// commit does.
    ///
    /// In a database that was opened to be read, returns the end of the log that is known to be durable.
    pub fn change_position(&self) -> Result<ChangePosition> {
        let source = self.source()?;
        let lsn = match &source.log {
            feed::Log::Live { writer, .. } => writer.appended_lsn(),
            feed::Log::Still { durable, .. } => *durable,
        };
        if let Some(log) = self.engine().log.get() {
            log.wait(lsn)?;
        }
        let Source { database, generation, .. } = source;
        Ok(ChangePosition { database, generation, lsn, chain: None })
    }

    /// Returns the first position from which changes can be read now. The changes from there on do not tell what the
    /// database held before, unless [`lsn`](ChangePosition::lsn) is 0 and the database has always had a log.
    pub fn oldest_change_position(&self) -> Result<ChangePosition> {
        let source = self.source()?;
        let lsn = feed::oldest_lsn(&source)?;
        let Source { database, generation, .. } = source;
        Ok(ChangePosition { database, generation, lsn, chain: None })
    }

    fn source(&self) -> Result<Source> {
        let engine = self.engine();
        let durable = self.0.durable.as_ref().ok_or(Error::NoLog)?;
        self.0.engine.check_open()?;
        let LogFiles { database, generation, durable: known, end } = durable.log_files();
        let log = match engine.log.get() {
            Some(log) => {
                let (is_stepped, id) = (log.is_stepped, engine.id); // stepped by the caller: no thread can wait for it
                let would_deadlock = Box::new(move || is_stepped || Inside::is_here(id));
                feed::Log::Live { writer: log.writer.clone(), would_deadlock }
            }
            None if engine.is_read_only() => feed::Log::Still { durable: known, end },
            None => return Err(Error::NoLog),
        };
        let (storage, memory) = (durable.storage().clone(), Arc::downgrade(&engine.memory));
        Ok(Source { storage, database, generation, log, memory })
    }
}
