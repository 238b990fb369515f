//! What makes a database survive: its directory, its log, checkpoints, and recovery. The design is in
//! `docs/design/durability.md`.
//!
//! Invariants:
//! - What is appended to the log is visible to nobody yet; so the log's order respects every dependency.
//! - A checkpoint counts only when the log is durable up to `end_lsn`, and the log is kept from the `start_lsn` of the
//!   older of two checkpoints on.
//! - But for the lock and the identity, recovery writes nothing before it has read everything.
//! - While the mark of an orderly close is there, the files are what it says.
//!
//! The decisions that these rest on are in `steps.rs`; the other files say when they are taken.

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
    /// What others are told that find it in use.
    pub(crate) holder: Holder,
    /// What the database is called if it is made now: a number that no other has.
    pub(crate) fresh: DatabaseId,
    pub(crate) steps: Arc<dyn Steps>,
    /// Where it may be made.
    pub(crate) making: Making,
    pub(crate) progress: &'o mut (dyn FnMut(&Progress) + Send),
}

/// Where a database may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// Nowhere: it has to be there.
    No,
    /// Where nobody keeps files.
    Alone,
    /// Anywhere.
    AmongOthers,
}

impl Making {
    /// As [`Options::among_others`] says.
    pub(crate) fn of(options: &Options) -> Making {
        if options.among_others { Making::AmongOthers } else { Making::Alone }
    }
}

/// A recovered database whose background has not been started.
pub(crate) struct Recovered<C: ConcurrencyControl> {
    pub(crate) engine: Arc<Engine<C>>,
    pub(crate) recovery: Recovery,
    /// It was made just now.
    pub(crate) is_new: bool,
    files: LogFiles,
    storage: Arc<dyn Storage>,
    stepped: Stepped<C>,
    lock: LockGuard,
}

/// Whose log is in a directory, and what of it was found there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFiles {
    pub(crate) database: DatabaseId,
    /// How often the database has been opened without a log.
    pub(crate) generation: u32,
    /// Everything before is durable, also if nothing is written.
    pub(crate) durable: Lsn,
    /// Where it ended.
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
    /// Makes or opens the database, in an empty engine that `make` makes. `is_stepped`: no thread will flush.
    pub(crate) fn recover<C: ConcurrencyControl>(
        self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
        is_stepped: bool,
    ) -> Result<Recovered<C>> {
        let Opening { storage, clock, holder, fresh, steps, making, progress } = self;
        // Before the lock: a directory that is refused is left as it was.
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
        // What room a checkpoint needs is known before the log takes any.
        checkpointer.watch();
        // Segments that nobody needs are used again at once.
        checkpointer.release_log();
        flusher.as_mut().map(wal::Flusher::begin).transpose().map_err(Error::Log)?;
        mark.remove()?;
        let stepped = Stepped { flusher, checkpointer, mark };
        Ok(Recovered { engine, recovery, is_new, files, storage, stepped, lock })
    }

    /// Recovers the database as [`Opening::recover`] does, and writes nothing: not even the lock, where nothing can
    /// be written. The engine that was filled takes no writes.
    pub(crate) fn read<C: ConcurrencyControl>(
        self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
    ) -> Result<(Arc<Engine<C>>, Durable)> {
        let Opening { storage, clock, steps, progress, .. } = self;
        // Before the lock: a directory without a database is left as it was.
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

/// What a file system makes in the root of a device by itself.
const OF_DEVICES: &str = "lost+found";

/// Where there is no database, one may be made if nobody has put anything there.
fn check_place(storage: &dyn Storage, making: Making) -> Result<()> {
    match making {
        Making::No => return Err(Error::NoDatabase),
        Making::AmongOthers => return Ok(()),
        Making::Alone => {}
    }
    let mut found = storage.list()?;
    // (What is left of making one.)
    found.retain(|name| !Identity::is_unfinished(name));
    found.extend(storage.strangers()?.into_iter().filter(|name| name != OF_DEVICES));
    if found.is_empty() { Ok(()) } else { Err(Error::Occupied { found }) }
}

/// Refuses databases without a log under schemes whose reads are not of one snapshot: their checkpoints would be of no
/// moment.
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
    /// Leaves the background work to the caller, which keeps the lock, too.
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

/// The durable side of an open database. Dropped, it closes the database in order; no appender may be left.
pub(crate) struct Durable {
    /// Before what it looks at.
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
    /// None where the threads' work is a simulation's.
    mark: Option<Mark>,
    /// The newest checkpoint, once the thread that makes them has ended.
    newest: Option<u64>,
    /// Whether it was to be closed, and could not be.
    was_asked: bool,
    /// Given back last: then another process may open the directory; unless a write is on its way still. None where there can be
    /// no lock, as nothing is written.
    lock: Arc<Option<LockGuard>>,
}

/// What is asked about a database while it is open.
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

/// What a thread has that tells others of an open database. The directory stays locked as long as there is one.
pub(crate) struct Observer {
    told: Arc<Told>,
    storage: Arc<dyn Storage>,
    _lock: Arc<Option<LockGuard>>,
}

impl Observer {
    /// As [`Durable::add_to`].
    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        self.told.add_to(statistics);
    }

    /// Where the files are.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }
}

impl Durable {
    /// Of a database without threads.
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

    /// For a thread that tells others of the database; [`Error::Closed`] if it is closed.
    pub(crate) fn observer(&self) -> Result<Observer> {
        let (told, storage) = (self.told.clone(), self.storage.clone());
        let lock = lock(&self.held).as_ref().ok_or(Error::Closed)?.lock.clone();
        Ok(Observer { told, storage, _lock: lock })
    }

    /// Has this one told of events from now on.
    pub(crate) fn listen(&self, listener: Listener) {
        self.told.listeners.set(listener);
    }

    /// What recovery has found.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Where its files are.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// What was known of its log when it was opened.
    pub(crate) fn log_files(&self) -> LogFiles {
        self.files
    }

    /// Has a checkpoint made that begins now, and waits for it.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let checkpoints = self.checkpoints.as_ref().ok_or(Error::Closed)?;
        checkpoints.checkpoint()
    }

    /// Has a checkpoint made before the database is closed: without a log always; with one if it pays, and whether or not it
    /// succeeds, for the log has everything.
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

    /// Closes the database in order, and says whether it could. It is closed then, unless the disk does not answer the log:
    /// then this can be called again. Nothing happens where it [is closed](Self::is_closed).
    pub(crate) fn close(&self) -> Result<()> {
        let mut held = lock(&self.held);
        let Some(Held { newest, was_asked, .. }) = &mut *held else { return Ok(()) };
        *was_asked = true;
        self.watch.iter().for_each(WatchThread::end);
        // Before the log, which a checkpoint under way waits for.
        *newest = newest.or(self.checkpoints.as_ref().and_then(CheckpointThread::close));
        let log = self.flusher.as_ref().map(FlusherThread::close).transpose();
        if self.flusher.as_ref().is_some_and(|flusher| !flusher.has_ended()) {
            return log.map(drop).map_err(Error::Log);
        }
        let Some(Held { mark, newest, lock: _lock, .. }) = held.take() else { unreachable!("it is there") };
        let log = log.map_err(Error::Log)?;
        mark.zip(newest).map_or(Ok(()), |(mark, newest)| mark.publish(newest, log))
    }

    /// Whether the database is closed: its directory may be another process's.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.held).is_none()
    }

    /// Whether the calling thread is one of those of the database's files.
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

/// Notes in the log what the catalog says of a table from now on; where that lasts, it has lasted when this returns.
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
            // The record is in the log, so it holds; and nothing that builds on it is durable before that.
            Err(wal::Error::Full(_)) => Ok(()),
            settled => settled.map_err(Error::Log),
        };
    }
    Ok(())
}
