//! Rows that expire: an index by the moment of expiry, and the transactions that delete expired rows.
//!
//! A sweep reads the entries of the index, oldest first, up to the present moment, a few in each transaction. The
//! transaction reads each row again by its key, and deletes it if its present value has expired. It reads the entries
//! untracked, because nothing rests on them. Therefore a row whose expiry is moved meanwhile stays, and the sweep
//! does not conflict with writers of other rows. A transaction that conflicts is not retried. Its rows are tried one
//! by one, and rows that other transactions use are skipped.

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

/// The most rows that one transaction deletes. While it is open, other transactions wait for these rows or conflict.
const ROWS: usize = 64;

/// The bytes of the moment, which precedes a row's key in the key of its entry.
const MOMENT_BYTES: usize = size_of::<u64>();

/// Returns when a row expires, in nanoseconds since 1970 (UTC).
type ExpiresNs<K, V> = dyn for<'v> Fn(&K, <V as Value>::View<'v>) -> Option<u64> + Send + Sync;

/// The type of a function that does nothing with the deleted rows.
pub(super) type Alone<K, V, C> =
    for<'t, 'k> fn(&'t Txn<C>, &'k K, <V as Value>::View<'t>) -> Ready<Result<()>>;

/// Which rows of a table expire, and when. Made by [`Database::expiry`]. Clones are handles to the same expiry.
///
/// Expired rows are deleted by [`sweep`](Self::sweep), on the calling thread, or by the thread that
/// [`sweep_every`](Self::sweep_every) starts. Without either they stay. Until they are deleted they are ordinary
/// rows: reads return them, and they can be written. If that matters to a reader, it compares the row's moment with
/// the present one.
pub struct Expiry<K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    /// Weak, so that a closed database can free its memory.
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
    /// Declares when the rows of a table expire. `expires_at` returns the moment for a key and value, or `None` for
    /// never. (Moments of `jiff` and `chrono` are converted by `into`.) A moment before 1970 counts as 1970, a moment
    /// after the year 2554 as never.
    ///
    /// `name` names a secondary index by this moment, and the rules of [`Database::index`] apply:
    ///
    /// - Declare the expiry each time that the database is opened. It covers existing rows.
    /// - `expires_at` looks only at the row, not at the clock.
    /// - The calling thread must have no transaction open.
    ///
    /// A second declaration with the same function returns the existing expiry. Functions are compared by type, and
    /// another function is [`Error::IndexMismatch`]. Each closure in the program's text has a type of its own. The
    /// comparison does not see what a closure has captured, or which function a function pointer points to, so these
    /// must make no difference.
    ///
    /// This call deletes nothing: see [`Expiry::sweep`], [`Expiry::sweep_with`] and [`Expiry::sweep_every`].
    ///
    /// Its errors are those of `index`, and [`Error::ReadOnly`] for a database that was opened to be read.
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

/// Returns nanoseconds since 1970. `None` if there are too many.
fn unix_ns(moment: SystemTime) -> Option<u64> {
    match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => u64::try_from(since.as_nanos()).ok(),
        Err(_) => Some(0),
    }
}

/// The rest of the rows that had expired when the pass began.
pub(super) struct Pass {
    until_ns: u64,
    /// The key of the last entry that was looked at.
    behind: Option<Vec<u8>>,
    /// The number of rows in the next transaction.
    rows: usize,
    pub(super) is_over: bool,
    /// The first error of a `with` call. Its row has stayed.
    pub(super) failure: Option<Error>,
}

impl<K: Key, V: Value + ?Sized, C: ConcurrencyControl> Expiry<K, V, C> {
    /// Deletes up to `rows_max` expired rows, oldest first, by the [clock](crate::metrics::Clock) of the database.
    /// Returns the number deleted. If it is less than `rows_max`, the only expired rows left are those that other
    /// transactions have used meanwhile.
    ///
    /// The sweep works on the calling thread, in transactions of up to 64 rows. It skips rows that another
    /// transaction has locked, or has written in a way that the scheme shows before the commit, and leaves them for a
    /// later sweep. A row whose expiry is moved meanwhile stays. Deletes are logged like any other, but the sweep
    /// does not wait for the log. A crash may bring the last rows back, and they are swept again. The sweep also
    /// works at [the limit of memory](crate::Options::memory_limit_bytes), as deletes do. Under
    /// [`HStore`](crate::HStore) each of its transactions takes all partitions, and the sweep ends if other
    /// transactions have them.
    ///
    /// Do not call this while the calling thread has a transaction open, because its rows count as another
    /// transaction's.
    ///
    /// # Errors
    /// - [`Error::WouldDeadlock`] in a closure that a worker runs.
    /// - [`Error::Closed`] after the database has been closed.
    /// - [`Error::Panicked`] if the function of the expiry, or the decoding of a row, panics.
    /// - Any error of a transaction that deletes a row, except conflicts.
    ///
    /// Rows deleted before an error stay deleted.
    pub fn sweep(&self, rows_max: u64) -> Result<u64> {
        self.sweep_by(rows_max, None::<&Alone<K, V, C>>)
    }

    /// Sweeps like [`sweep`](Self::sweep), and calls `with` for each row, in the transaction that deletes the row and
    /// just before the delete. Use it to delete what belongs to the row, or to write what follows from its expiry, in
    /// the same commit. `with` gets the transaction, and the row's key and value. It may await only operations of the
    /// transaction (otherwise [`Error::WouldWait`]), and is called again if the transaction runs again.
    ///
    /// If `with` fails or panics, its row stays and its writes are undone. A panic is [`Error::Panicked`]. The sweep
    /// continues with the other rows, and at its end, or after `rows_max` deletes, returns the first such error. A
    /// conflict is not such an error: the row is skipped, like a row that another transaction uses.
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

    /// Returns the index's number and the table's name, for events. `None` after the database has been closed.
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

    /// Runs the next transaction of a pass, and returns how many rows it has deleted. A transaction that deletes none
    /// either has moved the pass forward or is followed by a smaller one.
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
            // Other transactions have the partitions, whichever row is tried.
            Err(_) if is_conflict && C::has_partitions(&engine.shared) => {
                pass.is_over = true;
                return Ok(0);
            }
            // Alone, each row may find room, or turn out to be the row that another transaction has or that `with`
            // fails for.
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

    /// Returns the keys of the next entries.
    async fn expired(&self, txn: &Txn<C>, pass: &Pass, rows: usize) -> Result<Vec<Vec<u8>>> {
        let mut entries =
            txn.scan_by(self.index, ..=pass.until_ns).entries(pass.behind.as_deref()).limit(rows);
        let mut keys = Vec::with_capacity(rows);
        while let Some(key) = entries.next_key().await? {
            keys.push(key);
        }
        Ok(keys)
    }

    /// Deletes those of the rows that have expired by their values in this transaction. `is_with`: a call of `with`
    /// has begun and has not returned successfully.
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
            // `with` may have deleted the row.
            deleted += u64::from(txn.delete(self.table, &key).await? || with.is_some());
        }
        Ok(deleted)
    }
}

/// Returns true if a transaction with fewer rows may succeed.
fn is_too_much(error: &Error) -> bool {
    matches!(error, Error::OutOfMemory { .. } | Error::TransactionTooLarge { .. })
}
