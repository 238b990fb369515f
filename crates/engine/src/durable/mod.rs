//! A database that survives: its directory, its log, checkpoints, and recovery. `docs/design/durability.md` has the
//! design.
//!
//! Invariants:
//!
//! - What is appended to the log is not yet visible to any transaction. So the log's order respects every dependency.
//! - A checkpoint counts only when the log is durable up to its `end_lsn`. The log is kept from the `start_lsn` of
//!   the older of two checkpoints on.
//! - Except for the lock and the identity, recovery writes nothing before it has read everything.
//! - While the mark of an orderly close exists, the files are what it says.
//!
//! `steps.rs` has the decisions that the invariants rest on. The other files say when they are taken.

mod archiver;
mod background;
mod backup;
mod checkpointer;
mod damage;
mod load;
mod mark;
mod planted;
mod recovery;
mod restore;
mod salvage;
mod status;
mod steps;
mod table_rows;
mod verify;
mod watch;

pub use background::Stepped;
use background::{CheckpointThread, Last};
pub use backup::{Backup, backup};
use checkpointer::Checkpointer;
pub use damage::Damage;
pub(crate) use damage::holder;
pub use planted::Planted;
pub use recovery::{Progress, Recovery, RecoveryStage};
pub use restore::Restoration;
pub(crate) use restore::Restorer;
pub(crate) use salvage::Salvager;
pub use salvage::{Salvage, SalvageOptions, SalvagedTable};
use status::Status;
pub(crate) use steps::{Proven, Steps};
pub use verify::{FileReport, OpenCheck, Verification, verify};
pub(crate) use watch::Listener;
use watch::{Listeners, WatchThread};

use crate::cc::{ConcurrencyControl, Reads};
use crate::checkpoint::Identity;
use crate::error::{Error, Result};
use crate::kernel::{Engine, Log};
use crate::metrics::{Clock, Statistics};
use crate::options::{Durability, Options};
use crate::storage::{Holder, LockGuard, Storage};
use crate::sync::{Mutex, lock};
use crate::table::{Description, TableKind};
use crate::wal::{self, Cut, DatabaseId, FlusherThread, Lsn, Tail, Writer};
use mark::Mark;
use recovery::{Found, Recoverer};
use std::sync::Arc;

/// How a directory is opened.
pub(crate) struct Opening<'o> {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    /// What other processes are told that find the directory in use.
    pub(crate) holder: Holder,
    /// The identity of the database if it is created now: a number that no other database has.
    pub(crate) fresh: DatabaseId,
    pub(crate) steps: Arc<dyn Steps>,
    /// Where a database may be created.
    pub(crate) making: Making,
    pub(crate) progress: &'o mut (dyn FnMut(&Progress) + Send),
}

/// Where a database may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// Nowhere: the database has to exist.
    No,
    /// In a directory without other files.
    Alone,
    /// Anywhere.
    AmongOthers,
}

impl Making {
    /// Returns what [`Options::among_others`] asks for.
    pub(crate) fn of(options: &Options) -> Making {
        if options.among_others { Making::AmongOthers } else { Making::Alone }
    }
}

/// A recovered database whose background work has not been started.
pub(crate) struct Recovered<C: ConcurrencyControl> {
    pub(crate) engine: Arc<Engine<C>>,
    pub(crate) recovery: Recovery,
    /// True if the database was created just now.
    pub(crate) is_new: bool,
    files: LogFiles,
    storage: Arc<dyn Storage>,
    stepped: Stepped<C>,
    lock: LockGuard,
}

/// The database whose log is in a directory, and what was found of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFiles {
    pub(crate) database: DatabaseId,
    /// How often the database has been opened without a log.
    pub(crate) generation: u32,
    /// Everything before this position is durable, even if nothing is written.
    pub(crate) durable: Lsn,
    /// Where the log ended.
    pub(crate) end: Lsn,
}

impl LogFiles {
    fn find(storage: &dyn Storage, database: DatabaseId, tail: &Tail, was_closed: bool) -> Result<LogFiles> {
        let generation = damage::unlogged_times(storage)?;
        let durable = if was_closed { tail.lsn() } else { tail.durable_lsn() };
        Ok(LogFiles { database, generation, durable, end: tail.lsn() })
    }
}

impl Opening<'_> {
    /// Creates or opens the database, in an empty engine that `make` creates. If `is_stepped` is true, no thread will
    /// flush.
    pub(crate) fn recover<C: ConcurrencyControl>(
        self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
        is_stepped: bool,
    ) -> Result<Recovered<C>> {
        let Opening { storage, clock, holder, fresh, steps, making, progress } = self;
        // This precedes the lock: a directory that is refused stays as it was.
        damage::check_finished(&*storage)?;
        if let Ok(None) = Identity::read(&*storage) {
            check_place(&*storage, making)?;
        }
        let lock = storage.lock(&holder)?;
        let (identity, is_new) = match Identity::read(&*storage)? {
            Some(identity) => {
                identity.secure(&*storage)?;
                (identity, false)
            }
            None => {
                check_place(&*storage, making)?;
                (Identity::create(&*storage, fresh)?, true)
            }
        };
        let database = identity.database;
        wal::check_writable(&*storage).map_err(Error::Log)?;
        let found = Recoverer::of_all(&*storage, database, &*steps, &*clock, progress)?.run(make)?;
        let Found { engine, tail, kept, recovery, .. } = found;
        if !is_new {
            recovery.tell(engine.id);
        }
        let (base_lsn, end) = (tail.lsn(), tail.end());
        let files = LogFiles::find(&*storage, database, &tail, recovery.was_closed)?;
        let mark = Mark { storage: storage.clone(), database, end };
        let mut flusher = match engine.options.durability {
            Durability::None => {
                damage::note_unlogged(&*storage, damage::unlogged_times(&*storage)?.saturating_add(1))?;
                // What was read counts from now on, whether or not it was durable.
                wal::secure(storage.clone(), database, tail)?;
                None
            }
            Durability::Sync | Durability::Async => {
                let (writer, flusher) = open_log(&engine, storage.clone(), database, tail)?;
                let set = engine.log.set(Log { writer, is_stepped });
                assert!(set.is_ok(), "a log is begun once");
                Some(flusher)
            }
        };
        let checkpointer =
            Checkpointer::new(engine.clone(), storage.clone(), database, steps, kept, base_lsn);
        // The room that a checkpoint needs is known before the log takes any.
        checkpointer.watch();
        // Segments that are no longer needed are used again at once.
        checkpointer.release_log();
        flusher.as_mut().map(wal::Flusher::begin).transpose().map_err(Error::Log)?;
        mark.remove()?;
        let stepped = Stepped { flusher, checkpointer, mark };
        Ok(Recovered { engine, recovery, is_new, files, storage, stepped, lock })
    }

    /// Recovers the database like [`Opening::recover`], but writes nothing: if nothing can be written, not even the
    /// lock. The engine takes no writes.
    pub(crate) fn read<C: ConcurrencyControl>(
        self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
    ) -> Result<(Arc<Engine<C>>, Durable)> {
        let Opening { storage, clock, steps, progress, .. } = self;
        // This precedes the lock: a directory without a database stays as it was.
        damage::check_finished(&*storage)?;
        let database = Identity::read(&*storage)?.ok_or(Error::NoDatabase)?.database;
        let lock = damage::lock_to_read(&*storage)?;
        let found = Recoverer::of_all(&*storage, database, &*steps, &*clock, progress)?.run(make)?;
        let Found { engine, tail, recovery, .. } = found;
        recovery.tell(engine.id);
        let files = LogFiles::find(&*storage, database, &tail, recovery.was_closed)?;
        engine.forbid_writes();
        let (clock, listeners) = (engine.clock.clone(), Arc::default());
        let told = Told { status: Arc::default(), log: None, clock, listeners };
        Ok((engine, Durable::unattended(told, recovery, files, storage, lock)))
    }
}

/// What a file system itself creates in the root of a device.
const OF_DEVICES: &str = "lost+found";

/// Checks that a database may be created here, where there is none: with [`Making::Alone`], only if the directory has
/// no other files.
fn check_place(storage: &dyn Storage, making: Making) -> Result<()> {
    match making {
        Making::No => return Err(Error::NoDatabase),
        Making::AmongOthers => return Ok(()),
        Making::Alone => {}
    }
    let mut found = storage.list()?;
    // Files that remain of an unfinished creation do not count.
    found.retain(|name| !Identity::is_unfinished(name));
    found.extend(storage.strangers()?.into_iter().filter(|name| name != OF_DEVICES));
    if found.is_empty() { Ok(()) } else { Err(Error::Occupied { found }) }
}

/// Refuses a database without a log under a scheme whose reads do not come from one snapshot. Its checkpoints would
/// show no single moment.
pub(crate) fn check_scheme<C: ConcurrencyControl>(options: &Options) -> Result<()> {
    match (C::reads(options.lab), options.durability) {
        (Reads::Current, Durability::None) => Err(Error::InvalidOption {
            option: "durability",
            reason: "without a log, checkpoints need snapshots, which this concurrency control has not: use \
                     Durability::Sync or Durability::Async, or Serializable or Snapshot"
                .into(),
        }),
        _ => Ok(()),
    }
}

fn open_log<C: ConcurrencyControl>(
    engine: &Engine<C>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    tail: Tail,
) -> Result<(Writer, wal::Flusher)> {
    let options: &Options = &engine.options;
    let options = wal::Options {
        database,
        segment_bytes: options.log_segment_bytes,
        buffer_bytes_max: options.log_buffer_bytes,
        lag_ns_max: options.log_lag_ms.saturating_mul(1_000_000),
        held_bytes_max: options.log_held_bytes,
        number: engine.id,
        ..wal::Options::new(database)
    };
    wal::open_unbegun(storage, options, engine.clock.clone(), tail).map_err(Error::Log)
}

impl<C: ConcurrencyControl> Recovered<C> {
    /// Leaves the background work and the lock to the caller.
    pub(crate) fn into_stepped(self) -> (Stepped<C>, Durable) {
        let Recovered { engine, recovery, files, storage, stepped, lock, .. } = self;
        let told = Told::new(&engine, &stepped);
        (stepped, Durable::unattended(told, recovery, files, storage, Some(lock)))
    }

    /// Starts the threads.
    pub(crate) fn start(self) -> Result<Durable> {
        let told = Told::new(&self.engine, &self.stepped);
        let Recovered { engine, recovery, files, storage, stepped, lock, .. } = self;
        let Stepped { flusher, checkpointer, mark } = stepped;
        let refused = |error: std::io::Error| Error::NoThread { reason: error.to_string() };
        let (lock, wait_ns_max) = (Arc::new(Some(lock)), engine.options.log_wait_ns_max());
        let spawn = |flusher| FlusherThread::spawn(flusher, lock.clone(), wait_ns_max);
        let flusher = flusher.map(spawn).transpose().map_err(refused)?;
        let listeners = told.listeners.clone();
        let checkpoints =
            CheckpointThread::spawn(checkpointer, &engine.options, listeners.clone(), lock.clone());
        let checkpoints = Some(checkpoints.map_err(refused)?);
        let watch = |log: &Writer| WatchThread::spawn(log.clone(), wait_ns_max, listeners, engine.id);
        let watch = told.log.as_ref().map(watch).transpose().map_err(refused)?;
        let held = Mutex::new(Some(Held { mark: Some(mark), newest: None, was_asked: false, lock }));
        Ok(Durable { watch, checkpoints, flusher, told: Arc::new(told), recovery, files, storage, held })
    }
}

/// The durable side of an open database. Dropping it closes the database in order; no appender may be left.
pub(crate) struct Durable {
    /// Declared first, so that it is dropped before what it watches.
    watch: Option<WatchThread>,
    checkpoints: Option<CheckpointThread>,
    flusher: Option<FlusherThread>,
    told: Arc<Told>,
    recovery: Recovery,
    files: LogFiles,
    storage: Arc<dyn Storage>,
    /// None once the database is closed.
    held: Mutex<Option<Held>>,
}

/// What an open database has to itself.
struct Held {
    /// None if a simulation does the threads' work.
    mark: Option<Mark>,
    /// The number of the newest checkpoint, once the thread that makes checkpoints has ended.
    newest: Option<u64>,
    /// True if a close was asked for and did not succeed.
    was_asked: bool,
    /// Released last. After that another process may open the directory, unless a write is still on its way. None if
    /// there can be no lock because nothing is written.
    lock: Arc<Option<LockGuard>>,
}

/// What can be asked about an open database.
struct Told {
    status: Arc<Status>,
    log: Option<Writer>,
    clock: Arc<dyn Clock>,
    listeners: Arc<Listeners>,
}

impl Told {
    fn new<C: ConcurrencyControl>(engine: &Engine<C>, stepped: &Stepped<C>) -> Told {
        let log = engine.log.get().map(|log| log.writer.clone());
        Told {
            status: stepped.checkpointer.status(),
            log,
            clock: engine.clock.clone(),
            listeners: Arc::default(),
        }
    }

    fn add_to(&self, statistics: &mut Statistics) {
        let Told { status, log, clock, .. } = self;
        statistics.checkpoints = status.statistics(log.as_ref().map(Writer::appended_lsn), clock.now_ns());
        if let Some(log) = log {
            (statistics.log_condition, statistics.room) = (log.condition(), log.room().statistics());
        }
    }
}

/// What a thread holds that reports on an open database. The directory stays locked as long as one exists.
pub(crate) struct Observer {
    told: Arc<Told>,
    storage: Arc<dyn Storage>,
    _lock: Arc<Option<LockGuard>>,
}

impl Observer {
    /// Adds statistics like [`Durable::add_to`].
    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        self.told.add_to(statistics);
    }

    /// Returns the storage of the files.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }
}

impl Durable {
    /// Makes the durable side of a database without threads.
    fn unattended(
        told: Told,
        recovery: Recovery,
        files: LogFiles,
        storage: Arc<dyn Storage>,
        lock: Option<LockGuard>,
    ) -> Durable {
        let held =
            Mutex::new(Some(Held { mark: None, newest: None, was_asked: false, lock: Arc::new(lock) }));
        let (watch, checkpoints, flusher) = (None, None, None);
        Durable { watch, checkpoints, flusher, told: Arc::new(told), recovery, files, storage, held }
    }

    /// Adds what is known of the log, of checkpoints and of room.
    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        self.told.add_to(statistics);
    }

    /// Returns an observer for a thread that reports on the database. Fails with [`Error::Closed`] if the database is
    /// closed.
    pub(crate) fn observer(&self) -> Result<Observer> {
        let (told, storage) = (self.told.clone(), self.storage.clone());
        let lock = lock(&self.held).as_ref().ok_or(Error::Closed)?.lock.clone();
        Ok(Observer { told, storage, _lock: lock })
    }

    /// Calls `listener` for events from now on.
    pub(crate) fn listen(&self, listener: Listener) {
        self.told.listeners.set(listener);
    }

    /// Returns what recovery has found.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns the storage of the files.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns what was known of the log when it was opened.
    pub(crate) fn log_files(&self) -> LogFiles {
        self.files
    }

    /// Makes a checkpoint that begins now, and waits for it.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let checkpoints = self.checkpoints.as_ref().ok_or(Error::Closed)?;
        checkpoints.checkpoint()
    }

    /// Makes a checkpoint before the database is closed. Without a log it is always made. With a log it is made if it
    /// pays, and its failure does not matter, because the log has everything.
    pub(crate) fn last_checkpoint(&self, durability: Durability) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        match durability {
            Durability::None => checkpoints.last_checkpoint(Last::Always),
            Durability::Sync | Durability::Async => {
                let _ = checkpoints.last_checkpoint(Last::IfItPays);
                Ok(())
            }
        }
    }

    /// Closes the database in order, and returns an error if that failed. The database is closed in both cases,
    /// except when the disk does not answer the log: then this can be called again. If the database [is
    /// closed](Self::is_closed), nothing happens.
    pub(crate) fn close(&self) -> Result<()> {
        let mut held = lock(&self.held);
        let Some(Held { newest, was_asked, .. }) = &mut *held else { return Ok(()) };
        *was_asked = true;
        self.watch.iter().for_each(WatchThread::end);
        // The checkpoints are closed before the log, because a checkpoint in progress waits for the log.
        *newest = newest.or(self.checkpoints.as_ref().and_then(CheckpointThread::close));
        let log = self.flusher.as_ref().map(FlusherThread::close).transpose();
        if self.flusher.as_ref().is_some_and(|flusher| !flusher.has_ended()) {
            return log.map(drop).map_err(Error::Log);
        }
        let Some(Held { mark, newest, lock: _lock, .. }) = held.take() else { unreachable!("it is there") };
        let log = log.map_err(Error::Log)?;
        mark.zip(newest).map_or(Ok(()), |(mark, newest)| mark.publish(newest, log))
    }

    /// Returns true if the database is closed. Its directory may then belong to another process.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.held).is_none()
    }

    /// Returns true if the calling thread is one of the threads of the database's files.
    pub(crate) fn is_here(&self) -> bool {
        self.watch.as_ref().is_some_and(WatchThread::is_here)
            || self.checkpoints.as_ref().is_some_and(CheckpointThread::is_here)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        let was_asked = lock(&self.held).as_ref().is_none_or(|held| held.was_asked);
        if !was_asked {
            let _ = self.close(); // a caller that wants to know calls it
        }
    }
}

/// Writes the table's catalog entry to the log. If the database syncs its commits, the entry is durable when this
/// returns.
pub(crate) fn log_table<C: ConcurrencyControl>(
    engine: &Engine<C>,
    number: u32,
    kind: &TableKind,
    description: &Description,
) -> Result<()> {
    if engine.is_read_only() {
        return Err(Error::ReadOnly);
    }
    let Some(log) = engine.log.get() else { return Ok(()) };
    let mut bytes = Vec::new();
    checkpointer::entry(number, kind, description).encode(&mut bytes);
    let lsn = log.writer.append_catalog(&bytes).map_err(Error::Log)?;
    if engine.options.durability == Durability::Sync && !log.is_stepped {
        return match log.writer.wait_settled(lsn) {
            // The record is in the log, so it holds. Nothing that builds on it becomes durable before it does.
            Err(wal::Error::Full(_)) => Ok(()),
            settled => settled.map_err(Error::Log),
        };
    }
    Ok(())
}
