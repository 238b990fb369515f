//! The thread that publishes a database's statistics.
//!
//! Invariants:
//! - After [`Publication::end`] nothing more is written. The file is gone, unless the disk does not answer.
//! - The directory stays locked while the thread exists, so the thread writes and removes only its own database's
//!   files.

use super::Database;
use super::published::{NAME, Published, TEMPORARY, check_ours};
use crate::cc::{ConcurrencyControl, once};
use crate::durable::Observer;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::exec::quietly;
use crate::kernel::Engine;
use crate::storage::{Holder, OpenMode, Storage};
use crate::sync::{Condvar, Mutex, lock, wait_timeout};
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The shortest time between two writes.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest single wait. Longer waits consist of several.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// A thread that publishes a database's statistics. Made by [`Database::publish_statistics`]. When this is dropped,
/// or the database is closed, the thread ends and the published file is removed.
#[must_use = "the thread ends when this is dropped"]
pub struct Publisher(Arc<Publication>);

/// The state shared by the thread and its owners.
pub(super) struct Publication {
    state: Mutex<State>,
    signal: Condvar,
    /// How long to wait for the thread's end, because the disk may not answer the thread.
    end_wait: Duration,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// The thread has ended, or never existed.
    has_ended: bool,
    error: Option<Error>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

once! {
    fn publish_statistics<>(db: &Database<C>, interval: Duration) -> Result<Publisher>
        = db.publish_statistics_here(interval);
}

impl<C: ConcurrencyControl> Database<C> {
    /// Starts a thread that writes the [`statistics`](Self::statistics) to a file in the database's directory, once
    /// every `interval`, at least a hundredth of a second. The first write happens before this returns. Other
    /// processes read the file with [`tools::published`](crate::tools::published), and people with `braid stats`.
    ///
    /// The file, `statistics`, is replaced as a whole and is not synced. Backups do not include it. It is removed
    /// when the [`Publisher`] is dropped and when the database is closed. It stays if the process is killed. A
    /// database has one publisher at a time: a new one ends the one before.
    ///
    /// After an error the thread tries again after `interval`: see [`Publisher::take_error`].
    ///
    /// # Errors
    /// - [`Error::InMemory`] for a database without files.
    /// - [`Error::ReadOnly`] for a database that was opened to be read.
    /// - [`Error::Storage`] if the file cannot be written, or another file has its name.
    /// - [`Error::NoThread`] if the system refuses a thread.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # use std::time::Duration;
    /// # let directory = std::env::temp_dir().join(format!("braid-publisher-{}", std::process::id()));
    /// # let options = Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&directory, options)?;
    /// let publisher = db.publish_statistics(Duration::from_secs(1))?;
    /// assert!(directory.join("statistics").exists()); // `braid stats --watch` shows it
    /// drop(publisher);
    /// assert!(!directory.join("statistics").exists());
    /// # drop(db);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn publish_statistics(&self, interval: Duration) -> Result<Publisher> {
        publish_statistics(self, interval)
    }

    fn publish_statistics_here(&self, interval: Duration) -> Result<Publisher> {
        let owner = &self.0;
        let observer = owner.durable.as_ref().ok_or(Error::InMemory)?.observer()?;
        if owner.engine.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let storage = observer.storage().clone();
        [NAME, TEMPORARY].iter().try_for_each(|name| check_ours(&*storage, name))?;
        let mut current = lock(&owner.publication);
        owner.engine.check_open()?; // closing ends the one that is there now
        if let Some(before) = current.take() {
            before.end();
        }
        let engine = owner.engine.clone();
        let end_wait = Duration::from_nanos(engine.options.log_wait_ns_max());
        let (state, signal) = (Mutex::default(), Condvar::new());
        let publication = Arc::new(Publication { state, signal, end_wait });
        let since_unix_ns = engine.clock.unix_ns();
        let source = Source { engine, observer, since_unix_ns, interval: interval.max(INTERVAL_MIN) };
        source.publish()?;
        let of_thread = publication.clone();
        let life = move || of_thread.run(source);
        let spawned = thread::Builder::new().name("braid publisher".into()).spawn(life);
        if let Err(error) = spawned {
            remove(&*storage)?;
            return Err(Error::NoThread { reason: error.to_string() });
        }
        *current = Some(publication.clone());
        Ok(Publisher(publication))
    }
}

/// The statistics to publish, and their destination.
struct Source<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    observer: Observer,
    since_unix_ns: u64,
    interval: Duration,
}

impl<C: ConcurrencyControl> Source<C> {
    fn publish(&self) -> Result<()> {
        let mut statistics = self.engine.statistics();
        self.observer.add_to(&mut statistics);
        let clock = &self.engine.clock;
        let holder = Holder::this_process(0);
        let published = Published {
            pid: holder.pid.into(),
            program: holder.program,
            since_unix_ns: self.since_unix_ns,
            written_unix_ns: clock.unix_ns(),
            clock_ns: clock.now_ns(),
            interval_ns: u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX),
            statistics,
        };
        let storage = &**self.observer.storage();
        let create = || storage.open(TEMPORARY, OpenMode::CreateNew);
        let file = match create() {
            // An earlier attempt has left the file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                storage.remove(TEMPORARY)?;
                create()?
            }
            file => file?,
        };
        file.write_all_at(0, published.text().as_bytes())?;
        drop(file);
        Ok(storage.rename(TEMPORARY, NAME)?)
    }
}

/// Removes the published file.
fn remove(storage: &dyn Storage) -> Result<()> {
    let mut removed = Ok(());
    for name in [TEMPORARY, NAME] {
        match storage.remove(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => removed = Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    removed
}

impl Publication {
    /// Runs the thread.
    fn run<C: ConcurrencyControl>(&self, source: Source<C>) {
        let mut has_failed = false;
        while self.rest(source.interval) {
            let failed = self.note(|| source.publish());
            // Only once, because the thread tries again after each interval.
            if let Some(error) = failed.as_ref().filter(|_| !has_failed) {
                event!(
                    WARN,
                    BACKGROUND,
                    "statistics were not published",
                    database = source.engine.id,
                    error = text(error)
                );
            }
            has_failed = failed.is_some();
        }
        self.note(|| remove(&**source.observer.storage()));
        // Release the lock of the directory before the end is announced.
        drop(source);
        lock(&self.state).has_ended = true;
        self.signal.notify_all();
    }

    /// Keeps the error of an action, and returns its text if there is one.
    fn note(&self, act: impl FnOnce() -> Result<()>) -> Option<String> {
        let mut outcome = Ok(());
        if let Err(message) = quietly(|| outcome = act()) {
            outcome = Err(Error::Panicked(message));
        }
        let error = outcome.err()?;
        let text = error.to_string();
        lock(&self.state).error = Some(error);
        Some(text)
    }

    /// Returns false if the thread must end.
    fn rest(&self, time: Duration) -> bool {
        let mut left = time;
        let mut state = lock(&self.state);
        while !state.is_over && !left.is_zero() {
            let some = left.min(WAIT_MAX);
            let timed_out;
            (state, timed_out) = wait_timeout(&self.signal, state, some);
            left = if timed_out { left - some } else { left };
        }
        !state.is_over
    }

    /// Ends the thread, and waits for its end for as long as other callers wait for the disk.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        self.signal.notify_all();
        let mut left = self.end_wait;
        while !state.has_ended && !left.is_zero() {
            let some = left.min(WAIT_MAX);
            let timed_out;
            (state, timed_out) = wait_timeout(&self.signal, state, some);
            left = if timed_out { left - some } else { left };
        }
    }
}

impl Publisher {
    /// Returns the last error since the previous call: the file could not be written or removed. The thread continues
    /// after an error.
    pub fn take_error(&self) -> Option<Error> {
        lock(&self.0.state).error.take()
    }

    /// Ends the thread, as dropping does. Returns the last error since [`take_error`](Self::take_error) was called,
    /// if there is one.
    pub fn stop(self) -> Result<()> {
        self.0.end();
        self.take_error().map_or(Ok(()), Err)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.0.end();
    }
}
