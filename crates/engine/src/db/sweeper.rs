//! The thread that deletes expired rows.

use super::expiry::{Alone, Expiry};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::exec::quietly;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Background, Condvar, Mutex, lock, wait_timeout};
use crate::table::{Key, Value};
use crate::txn::Txn;
use std::fmt;
use std::ops::AsyncFn;
use std::sync::Arc;
use std::time::Duration;

/// How long the thread rests after a transaction, as a multiple of the transaction's time. It works for a quarter of
/// the time at most.
const RESTS: u64 = 3;
/// A limit, because the clock may have jumped.
const REST_MAX: Duration = Duration::from_secs(1);
/// The shortest time between two passes.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// How often the thread checks whether the database still exists.
const LOOK: Duration = Duration::from_millis(500);

/// A thread that deletes expired rows. Made by [`Expiry::sweep_every`]. The thread ends when this is dropped. The
/// drop waits for the thread's open transaction, of 64 rows at most. The thread also ends when the table was dropped,
/// and within half a second after the database has been closed. Closing does not wait for it.
#[must_use = "the thread ends when this is dropped"]
pub struct Sweeper {
    shared: Arc<Shared>,
    thread: Background<()>,
}

#[derive(Default)]
struct Shared {
    is_dropped: Mutex<bool>,
    signal: Condvar,
    deleted: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper").field("deleted", &self.deleted()).finish_non_exhaustive()
    }
}

impl<K: Key + 'static, V: Value + ?Sized + 'static, C: ConcurrencyControl> Expiry<K, V, C> {
    /// Starts a thread that deletes expired rows like [`sweep`](Self::sweep): at once, and then each time that
    /// `interval` has passed since it had deleted all, at least a millisecond. The thread rests between its
    /// transactions, and works for a quarter of the time at most.
    ///
    /// After an error it tries again after `interval`: see [`Sweeper::take_error`]. Returns [`Error::Closed`] after
    /// the database has been closed, and [`Error::NoThread`] if the system refuses a thread.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let tokens: Table<String, u64> = db.table("tokens")?; // until when they are valid, in seconds
    /// let expiry = db.expiry(tokens, "tokens by expiry", |_, valid_until_s| {
    ///     UNIX_EPOCH.checked_add(Duration::from_secs(valid_until_s))
    /// })?;
    /// let sweeper = expiry.sweep_every(Duration::from_secs(1))?;
    /// db.transact(|tx| tx.put(tokens, "a7", 1_000_000_000))?;
    /// while sweeper.deleted() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert!(sweeper.take_error().is_none());
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn sweep_every(&self, interval: Duration) -> Result<Sweeper> {
        self.sweep_every_by(interval, None::<Alone<K, V, C>>)
    }

    /// Starts a thread like [`sweep_every`](Self::sweep_every) that calls `with` for each row, in the transaction
    /// that deletes the row: see [`sweep_with`](Self::sweep_with). If `with` fails, its row stays and is tried again
    /// each time. [`Sweeper::take_error`] returns the last error.
    pub fn sweep_every_with<F>(&self, interval: Duration, with: F) -> Result<Sweeper>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()> + Send + 'static,
    {
        self.sweep_every_by(interval, Some(with))
    }

    fn sweep_every_by<F>(&self, interval: Duration, with: Option<F>) -> Result<Sweeper>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()> + Send + 'static,
    {
        self.upgraded()?;
        let shared = Arc::new(Shared::default());
        let (expiry, of_thread) = (self.clone(), shared.clone());
        let life = move || expiry.run(interval.max(INTERVAL_MIN), &of_thread, with.as_ref());
        let spawned = Background::spawn("braid sweeper", life);
        let thread = spawned.map_err(|error| Error::NoThread { reason: error.to_string() })?;
        Ok(Sweeper { shared, thread })
    }

    fn run<F>(&self, interval: Duration, shared: &Shared, with: Option<&F>)
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        let mut has_failed = false;
        loop {
            let (mut outcome, deleted_before) = (Ok(()), shared.deleted.load(Ordering::Relaxed));
            if let Err(message) = quietly(|| outcome = self.pass(shared, with)) {
                outcome = Err(Error::Panicked(message));
            }
            let deleted = shared.deleted.load(Ordering::Relaxed) - deleted_before;
            if deleted > 0 {
                event!(
                    DEBUG,
                    BACKGROUND,
                    "expired rows deleted",
                    database = self.shown().map(|shown| shown.0),
                    table = self.shown().map(|shown| text(shown.1)),
                    rows = deleted
                );
            }
            let had_failed = std::mem::replace(&mut has_failed, outcome.is_err());
            match outcome {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => {
                    // Only once, because the thread tries again after each interval.
                    if !had_failed {
                        event!(
                            WARN,
                            BACKGROUND,
                            "expired rows were not deleted",
                            database = self.shown().map(|shown| shown.0),
                            table = self.shown().map(|shown| text(shown.1)),
                            error = text(&error)
                        );
                    }
                    let is_last = matches!(error, Error::TableDropped);
                    *lock(&shared.error) = Some(error);
                    if is_last {
                        return;
                    }
                }
            }
            if !self.rest(interval, shared) {
                return;
            }
        }
    }

    /// Deletes everything that has expired by now.
    fn pass<F>(&self, shared: &Shared, with: Option<&F>) -> Result<()>
    where
        F: for<'t> AsyncFn(&'t Txn<C>, &K, V::View<'t>) -> Result<()>,
    {
        let mut pass = self.begin()?;
        while !pass.is_over {
            let engine = self.upgraded()?;
            let began_ns = engine.clock.now_ns();
            let deleted = self.step(&engine, &mut pass, u64::MAX, with)?;
            shared.deleted.fetch_add(deleted, Ordering::Relaxed); // a number, and nothing behind it
            let took_ns = engine.clock.now_ns().saturating_sub(began_ns);
            drop(engine);
            let rest = Duration::from_nanos(took_ns.saturating_mul(RESTS)).min(REST_MAX);
            if !self.rest(rest, shared) {
                break;
            }
        }
        pass.failure.map_or(Ok(()), Err)
    }

    /// Returns false if the thread must end.
    fn rest(&self, time: Duration, shared: &Shared) -> bool {
        let mut left = time;
        let mut is_dropped = lock(&shared.is_dropped);
        while !*is_dropped && !left.is_zero() && self.upgraded().is_ok() {
            let some = left.min(LOOK);
            (is_dropped, _) = wait_timeout(&shared.signal, is_dropped, some);
            left -= some;
        }
        !*is_dropped && self.upgraded().is_ok()
    }
}

impl Sweeper {
    /// Returns how many rows it has deleted so far.
    pub fn deleted(&self) -> u64 {
        self.shared.deleted.load(Ordering::Relaxed)
    }

    /// Returns the last error since the previous call. The thread continues after most errors: a frozen table may be
    /// thawed, and a full disk may get room. A panic of the closure that gives a row's expiry is [`Error::Panicked`].
    pub fn take_error(&self) -> Option<Error> {
        lock(&self.shared.error).take()
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        *lock(&self.shared.is_dropped) = true;
        self.shared.signal.notify_all();
        // This may be dropped by the thread itself, with what the closure owns. The thread then ends by itself.
        self.thread.join(|| false); // it has kept its errors
    }
}
