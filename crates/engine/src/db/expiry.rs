//! Rows that expire: an index by the moment of expiry, and the transactions that delete what has expired.
//!
//! A sweep goes through the entries of the index, the oldest first, some in a transaction, up to the present moment. In the
//! transaction each row is read again, by its key, and deleted if it has expired by what it is now; entries are read without being tracked, since
//! nothing rests on them. So a row of which the expiry is moved meanwhile stays, and writers of other rows do not meet the sweep. A
//! transaction that conflicts is not retried: its rows are tried one by one, and those that others have are passed over.

use super::Database;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::kernel::{Engine, guarded};
use crate::options::Durability;
use crate::table::{Function, Index, Key, Table, Value, decode_whole};
use crate::txn::{Transaction, Txn, run_calls};
use std::cell::Cell;
use std::fmt;
use std::future::Ready;
use std::ops::AsyncFn;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows that are deleted by one transaction at most: others wait for them, or conflict, as long as it is open.
const ROWS: usize = 64;

/// Bytes in front of a row's key in the key of its entry: the moment.
const MOMENT_BYTES: usize = size_of::<u64>();

/// When a row expires, in nanoseconds since 1970 (UTC).
type ExpiresNs<K, V> = dyn for<'v> Fn(&K, <V as Value>::View<'v>) -> Option<u64> + Send + Sync;

/// A function that does nothing with the rows that are deleted.
pub(super) type Alone<K, V, C> =
    for<'t, 'k> fn(&'t Txn<C>, &'k K, <V as Value>::View<'t>) -> Ready<Result<()>>;

/// Which rows of a table expire, and when; made by [`Database::expiry`]. Clones are handles to the same.
///
/// Rows that have expired are deleted by [`sweep`](Self::sweep), on the calling thread, or by the thread that
/// [`sweep_every`](Self::sweep_every) starts; without either they stay. Until then they are rows like others: reads return them, and
/// they can be written. A reader to whom that matters compares the row's moment with the present one.
pub struct Expiry<K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    /// Weak, as a database that is closed gives its memory back.
    pub(super) engine: Weak<Engine<C>>,
    table: Table<K, V>,
    index: Index<u64, K, V>,
    expires_ns: Arc<ExpiresNs<K, V>>,
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> Clone for Expiry<K, V, C> {
    fn clone(&self) -> Self {
        let (engine, expires_ns) = (self.engine.clone(), self.expires_ns.clone());
        Expiry { engine, table: self.table, index: self.index, expires_ns }
    }
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> fmt::Debug for Expiry<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Declares when the rows of a table expire: at the moment that `expires_at` makes of key and value, or never if that is
    /// `None`. (Moments of `jiff` and `chrono` become one by `into`.) A moment before 1970 counts as 1970, one after the year 2554 as
    /// never.
    ///
    /// `name` is that of a secondary index by this moment, and all that is said of those holds: see [`Database::index`]. So it is
    /// declared each time that the database is opened, also for the rows that are there; `expires_at` looks at the row alone, not at
    /// the clock; and no transaction of the calling thread may be open. Errors are those of `index`, and
    /// [`Error::ReadOnly`] for a database that was opened to be read.
    ///
    /// Declared again by the same function, it is the expiry that there is. Another function is [`Error::IndexMismatch`], as far as it can
    /// be told: by its type. Each closure in the program's text has a type of its own; what it has captured, and which of several functions a
    /// function pointer points to, does not show, and must make no difference.
    ///
    /// Nothing is deleted by this: see [`Expiry::sweep`], [`Expiry::sweep_with`] and [`Expiry::sweep_every`].
    ///
    /// ```
    /// use braiddb::{Database, Options, Table};
    /// use std::time::{Duration, SystemTime, UNIX_EPOCH};
    ///
    /// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// // By number: the user, and when it expires, since 1970.
    /// let sessions: Table<u64, (String, Duration)> = db.table("sessions")?;
    /// let expiry = db.expiry(sessions, "sessions by expiry", |_, (_, expires)| UNIX_EPOCH.checked_add(expires))?;
    ///
    /// let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    /// db.transact(|tx| {
    ///     tx.put(sessions, 1, ("Ada", now - Duration::from_secs(1)))?;
    ///     tx.put(sessions, 2, ("Eve", now + Duration::from_secs(3600)))
    /// })?;
    /// assert_eq!(expiry.sweep(1000)?, 1);
    /// let left = db.transact(|tx| Ok([tx.contains(sessions, 1)?, tx.contains(sessions, 2)?]))?;
    /// assert_eq!(left, [false, true]);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn expiry<K: Key + 'static, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        expires_at: impl for<'v> Fn(&K, V::View<'v>) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Result<Expiry<K, V, C>> {
        if self.engine().is_read_only() {
            return Err(Error::ReadOnly); // nothing can be deleted
        }
        let function = Function::of(&expires_at);
        let expires_ns: Arc<ExpiresNs<K, V>> =
            Arc::new(move |key, value| expires_at(key, value).and_then(unix_ns));
        let of_index = expires_ns.clone();
        let index =
            self.declare(table, name, (false, None, Some(function)), move |key, value| of_index(key, value))?;
        Ok(Expiry { engine: Arc::downgrade(self.engine()), table, index, expires_ns })
    }
}

/// Nanoseconds since 1970. `None`: there are too many.
fn unix_ns(moment: SystemTime) -> Option<u64> {
    match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => u64::try_from(since.as_nanos()).ok(),
        Err(_) => Some(0),
    }
}

/// What is left of the rows that had expired when it began.
pub(super) struct Pass {
    until_ns: u64,
    /// The key of the last entry that was looked at.
    behind: Option<Vec<u8>>,
    /// Rows of the next transaction.
    rows: usize,
    pub(super) is_over: bool,
    /// The first error of what was to be done with a row, which has stayed.
    pub(super) failure: Option<Error>,
}

impl<K: Key, V: Value + ?Sized, C: ConcurrencyControl> Expiry<K, V, C> {
    /// Deletes rows that have expired by now, by the [clock](crate::metrics::Clock) of the database, the oldest first: at most
    /// `rows_max`. Returns how many. If these are fewer, none is left but what others have used meanwhile.
    ///
    /// Works on the calling thread, in transactions of up to 64 rows, and gives way: rows that another transaction has locked, or
    /// written in a way that the scheme shows before the commit, are passed over, and left for a later sweep. A row of which the expiry
    /// is moved meanwhile stays. Deletes are in the log like any other, and are not waited for: a crash may bring the last ones
    /// back, which are swept again. At [the limit of memory](crate::Options::memory_limit_bytes) it goes on, as deletes do.
    /// Under [`HStore`](crate::HStore) each of its transactions takes all partitions, and the sweep ends where they are others'.
    ///
    /// Do not call it while the calling thread has a transaction open: the rows of that one are others'. In a closure that a worker runs it
    /// is [`Error::WouldDeadlock`]. [`Error::Closed`] after the database has been closed; [`Error::Panicked`] if the function of the expiry,
    /// or the decoding of a row, panics; and what a transaction that deletes a row can be answered, but no conflict. What was deleted before
    /// an error stays so.
    pub fn sweep(&self, rows_max: u64) -> Result<u64> {
        self.sweep_by(rows_max, None::<&Alone<K, V, C>>)
    }

    /// As [`sweep`](Self::sweep), and calls `with` for each row, in the transaction that deletes it and just before it does: so what hangs on
    /// the row goes along, or what follows from its expiry is written, in one commit. `with` is given the transaction, and the row's key and
    /// value. It may await operations of the transaction alone (else it is [`Error::WouldWait`]), and is called again if the
    /// transaction has to be run again.
    ///
    /// A row for which `with` fails or panics stays, and what `with` has written for it is undone; a panic is [`Error::Panicked`]. The sweep
    /// goes on with the other rows, and returns the first such error when it is through, or has deleted `rows_max`. A conflict is no such
    /// error: the row is passed over, as one that others use.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let sessions: Table<u64, u64> = db.table("sessions")?; // until when they last, in seconds
    /// let carts: Table<(u64, u32), str> = db.table("carts")?; // by session and number: what is in the cart
    /// let expiry = db.expiry(sessions, "sessions by expiry", |_, lasts_until_s| {
    ///     UNIX_EPOCH.checked_add(Duration::from_secs(lasts_until_s))
    /// })?;
    /// db.transact(|tx| {
    ///     tx.put(sessions, 7, 1_000_000_000)?;
    ///     tx.put(carts, (7, 1), "apples")
    /// })?;
    /// let swept = expiry.sweep_with(1000, async |tx, &session, _| {
    ///     let mut cart = tx.scan(carts, (session, 0)..=(session, u32::MAX));
    ///     while let Some((item, _)) = cart.next().await? {
    ///         tx.delete(carts, item).await?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(swept, 1);
    /// assert!(!db.transact(|tx| tx.contains(carts, (7, 1)))?);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn sweep_with<F>(&self, rows_max: u64, with: F) -> Result<u64>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        self.sweep_by(rows_max, Some(&with))
    }

    fn sweep_by<F>(&self, rows_max: u64, with: Option<&F>) -> Result<u64>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        self.upgraded()?.check_outside()?;
        let mut pass = self.begin()?;
        let mut deleted = 0;
        while deleted < rows_max && !pass.is_over {
            deleted += self.step(&self.upgraded()?, &mut pass, rows_max - deleted, with)?;
        }
        pass.failure.map_or(Ok(deleted), Err)
    }

    pub(super) fn upgraded(&self) -> Result<Arc<Engine<C>>> {
        Engine::of_open(&self.engine)
    }

    /// The number and the table's name, for events; none after the database has been closed.
    pub(super) fn shown(&self) -> Option<(u64, String)> {
        let engine = self.engine.upgrade()?;
        let name = self.table.of_database(engine.id).ok()?.name();
        Some((engine.id, name))
    }

    fn table_name(&self) -> String {
        self.shown().map_or_else(String::new, |shown| shown.1)
    }

    pub(super) fn begin(&self) -> Result<Pass> {
        let until_ns = self.upgraded()?.clock.unix_ns();
        Ok(Pass { until_ns, behind: None, rows: ROWS, is_over: false, failure: None })
    }

    /// The next transaction of a pass; returns how many rows it has deleted. Each one that deletes none is followed by a smaller one, or
    /// has brought the pass further.
    pub(super) fn step<F>(
        &self,
        engine: &Arc<Engine<C>>,
        pass: &mut Pass,
        rows_max: u64,
        with: Option<&F>,
    ) -> Result<u64>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        let rows = pass.rows.min(usize::try_from(rows_max).unwrap_or(usize::MAX));
        debug_assert!(rows > 0 && !pass.is_over);
        let (mut entries, is_with) = (Vec::new(), Cell::new(false));
        let of_row = || match is_with.get() {
            true => format!("what a sweep of the table {:?} does with a row", self.table_name()),
            false => {
                format!("the function of the expiry of the table {:?}, or decoding a row", self.table_name())
            }
        };
        let sweep = |transaction: &Transaction<C>| {
            if engine.options.durability == Durability::Sync {
                transaction.set_durability(Durability::Async)?;
            }
            transaction.with(async |txn| {
                entries = self.expired(txn, pass, rows).await?;
                self.delete(txn, &entries, pass.until_ns, with, &is_with).await
            })
        };
        let swept = guarded(of_row, || run_calls(engine, sweep, 0));
        let is_conflict = matches!(swept, Err(Error::Conflict | Error::Deadlock(_)));
        let deleted = match swept {
            // The partitions are others', whatever the row.
            Err(_) if is_conflict && C::has_partitions(&engine.shared) => {
                pass.is_over = true;
                return Ok(0);
            }
            // By itself each row may find room, or be the one that others have, or with which nothing can be done.
            Err(error) if rows > 1 && (is_conflict || is_with.get() || is_too_much(&error)) => {
                pass.rows = 1;
                return Ok(0);
            }
            Err(_) if is_conflict => 0,
            Err(error) if is_with.get() => {
                pass.failure.get_or_insert(error);
                0
            }
            swept => swept?,
        };
        pass.is_over = entries.len() < rows;
        pass.behind = entries.pop();
        pass.rows = ROWS.min(2 * rows);
        Ok(deleted)
    }

    /// The keys of the next entries.
    async fn expired(&self, txn: &Txn<C>, pass: &Pass, rows: usize) -> Result<Vec<Vec<u8>>> {
        let mut entries =
            txn.scan_by(self.index, ..=pass.until_ns).entries(pass.behind.as_deref()).limit(rows);
        let mut keys = Vec::with_capacity(rows);
        while let Some(key) = entries.next_key().await? {
            keys.push(key);
        }
        Ok(keys)
    }

    /// Deletes those of the rows that have expired by what they are in this transaction. `is_with`: `with` has been called, and has not
    /// returned that all is well.
    async fn delete<F>(
        &self,
        txn: &Txn<C>,
        entries: &[Vec<u8>],
        until_ns: u64,
        with: Option<&F>,
        is_with: &Cell<bool>,
    ) -> Result<u64>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        let mut deleted = 0;
        for entry in entries {
            let key = decode_whole::<K>(&entry[MOMENT_BYTES..])?;
            let Some(value) = txn.get(self.table, &key).for_write().await? else { continue };
            if (self.expires_ns)(&key, value).is_none_or(|expires_ns| expires_ns > until_ns) {
                continue;
            }
            if let Some(with) = with
                && let Some(value) = txn.get(self.table, &key).await?
            {
                is_with.set(true);
                with(txn, &key, value).await?;
                is_with.set(false);
            }
            // (It may have deleted the row.)
            deleted += u64::from(txn.delete(self.table, &key).await? || with.is_some());
        }
        Ok(deleted)
    }
}

/// Fewer rows in a transaction may do.
fn is_too_much(error: &Error) -> bool {
    matches!(error, Error::OutOfMemory { .. } | Error::TransactionTooLarge { .. })
}
