//! Closing a database: first its workers end, then its files are closed.

use super::{Database, Owner};
use crate::cc::{ConcurrencyControl, once};
use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::sync::lock;
use std::sync::Arc;
use std::thread;

impl<C: ConcurrencyControl> Database<C> {
    /// Closes the database for all its handles, and returns whether all went well.
    ///
    /// 1. Transactions that were submitted and have not begun are answered with [`Error::Closed`].
    /// 2. Transactions that are open on the database's workers are rolled back and answered with
    ///    [`Error::Cancelled`]. The call waits for both.
    /// 3. A checkpoint is made if there is no log ([`Durability::None`](crate::Durability::None)). With a log, one is
    ///    made only if that takes less time than it saves at the next opening
    ///    ([`checkpoint_log_bytes`](crate::Options::checkpoint_log_bytes)).
    /// 4. When the call returns, the directory can be opened again.
    ///
    /// From then on, every call that begins something returns [`Error::Closed`]: to submit, to begin, or to make a
    /// table, a checkpoint or a backup. [`Sweeper`](crate::Sweeper)s end. [`Worker`](crate::worker::Worker)s of other
    /// threads, and transactions that are still open, can continue to read. If they have written, their commit
    /// returns [`Error::Closed`].
    ///
    /// Several threads may call this, and call it again. All get the same answer. If the checkpoint could not be
    /// made, or the disk does not answer, the directory stays locked and a further call tries again.
    ///
    /// Returns [`Error::WouldDeadlock`], and does nothing, inside a transaction that a worker of the database runs
    /// and in a listener to its events.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let directory = std::env::temp_dir().join(format!("braid-shutdown-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&directory, options())?;
    /// let hits: Table<u64, u64> = db.table("hits")?;
    /// let of_handler = db.clone(); // as a service's handlers have one each
    /// of_handler.run(async move |tx| tx.put(hits, 1, 1).await).wait()?;
    ///
    /// db.shutdown()?; // when the service is told to end
    /// let late = of_handler.run(async move |tx| tx.put(hits, 1, 2).await);
    /// assert!(matches!(late.wait(), Err(Error::Closed)));
    /// let again = Database::open(&directory, options())?;
    /// # drop(again);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shutdown(&self) -> Result<()> {
        let owner = &*self.0;
        let is_file_thread = owner.durable.as_ref().is_some_and(Durable::is_here);
        if is_file_thread {
            return Err(Error::WouldDeadlock);
        }
        owner.engine.check_outside()?;
        close(owner, true)
    }

    /// Closes the database like [`shutdown`](Self::shutdown), if this is the only handle. Otherwise returns
    /// [`Error::InUse`] and does nothing. Dropping the last handle also closes the database, silently and without a
    /// checkpoint.
    pub fn close(self) -> Result<()> {
        let sole = Arc::try_unwrap(self.0).map_err(|_| Error::InUse)?;
        Database(Arc::new(sole)).shutdown()
    }
}

once! {
    /// Closes the database, once. `saves`: makes a checkpoint first if there is no log.
    fn close<>(owner: &Owner<C>, saves: bool) -> Result<()> = owner.close_here(saves);
}

impl<C: ConcurrencyControl> Owner<C> {
    fn close_here(&self, saves: bool) -> Result<()> {
        let mut outcome = lock(&self.outcome);
        if let Some(outcome) = &*outcome {
            return outcome.clone();
        }
        self.end_threads();
        if let Some(durable) = self.durable.as_ref().filter(|_| saves) {
            durable.last_checkpoint(self.engine.options.durability)?;
        }
        let ended = self.durable.as_ref().map_or(Ok(()), Durable::close);
        self.tell_closed(&ended);
        if self.durable.as_ref().is_none_or(Durable::is_closed) {
            *outcome = Some(ended.clone());
        }
        ended
    }

    fn end_threads(&self) {
        self.engine.close();
        self.executor.close();
        let publication = lock(&self.publication).take();
        if let Some(publication) = publication {
            publication.end();
        }
        for t in lock(&self.threads).drain(..) {
            // The last handle may be dropped inside a transaction, on a worker. That worker ends by itself.
            if t.thread().id() != thread::current().id() {
                let _ = t.join(); // a worker that panicked has answered its transactions
            }
        }
        self.engine.drop_spares();
    }

    fn tell_closed(&self, ended: &Result<()>) {
        match ended {
            Ok(()) => event!(INFO, DATABASE, "database closed", database = self.engine.id),
            Err(error) => event!(
                WARN,
                DATABASE,
                "database not closed in order",
                database = self.engine.id,
                error = text(error)
            ),
        }
    }
}

impl<C: ConcurrencyControl> Drop for Owner<C> {
    fn drop(&mut self) {
        // If the database is closed, or could not be, there is nothing to wait for.
        if self.engine.check_open().is_ok() {
            let _ = close(self, false); // a caller that wants to know calls `shutdown`
        }
    }
}
