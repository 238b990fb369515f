//! Opening durable databases.

use super::{Database, serve};
use crate::cc::{ConcurrencyControl, once};
use crate::durable::{
    Durable, Making, Opening, Planted, Progress, Proven, Recovery, Stepped, check_scheme, holder,
};
use crate::error::{Error, Result};
use crate::events::{event, ms, text};
use crate::kernel::Engine;
use crate::metrics::{Clock, SystemClock};
use crate::options::Options;
use crate::storage::{FileStorage, Holder, Storage};
use crate::wal::DatabaseId;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Is told how far the recovery has come.
type Reporter<'p> = &'p mut (dyn FnMut(&Progress) + Send);

once! {
    fn make_or_open<'p>(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        making: Making,
        progress: Reporter<'p>,
    ) -> Result<Database<C>> = Database::make_or_open_here(storage, options, clock, making, progress);

    fn read<'p>(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: Reporter<'p>,
    ) -> Result<Database<C>> = Database::read_here(storage, options, clock, progress);
}

// On the default scheme alone, so that `Database::open` needs no annotation.
impl Database {
    /// Opens the database in this directory, or makes it if it does not exist. The database has every transaction
    /// that was acknowledged as durable, even after a crash of the process or the machine. A directory that holds
    /// other files and no database is refused ([`Options::among_others`]). A file system's `lost+found` does not
    /// count.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let directory = std::env::temp_dir().join(format!("braid-open-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&directory, options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// db.run(async move |tx| tx.put(names, 1, "Ada").await).wait()?; // on disk when this returns
    /// db.close()?;
    ///
    /// let db = Database::open(&directory, options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// assert_eq!(db.begin()?.get(names, 1)?, Some("Ada"));
    /// # drop(db);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let storage = Arc::new(FileStorage::create(path.as_ref())?);
        Database::open_with(storage, options, Arc::new(SystemClock::default()), &mut |_| {})
    }

    /// Opens the existing database in this directory. Where [`Database::open`] would make a database, this returns
    /// [`Error::NoDatabase`] and changes nothing. Use it if a missing database means that the path is wrong.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options};
    /// # let directory = std::env::temp_dir().join(format!("braid-existing-{}", std::process::id()));
    /// # let options = || Options { workers: 1, ..Options::default() };
    /// assert!(matches!(Database::open_existing(&directory, options()), Err(Error::NoDatabase)));
    /// Database::open(&directory, options())?.close()?;
    /// Database::open_existing(&directory, options())?.close()?;
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let storage = match FileStorage::open(path.as_ref()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::NoDatabase),
            storage => Arc::new(storage?),
        };
        Database::open_existing_with(storage, options, Arc::new(SystemClock::default()), &mut |_| {})
    }

    /// Opens the database in this directory only to be read. Nothing in the directory is changed, so it may be on a
    /// read-only medium. Writes, and tables that do not exist, return [`Error::ReadOnly`]. A directory without a
    /// database is [`Error::NoDatabase`].
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let directory = std::env::temp_dir().join(format!("braid-read-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// # let db = Database::open(&directory, options())?;
    /// # let names: Table<u64, str> = db.table("names")?;
    /// # db.run(async move |tx| tx.put(names, 1, "Ada").await).wait()?;
    /// # db.close()?;
    /// let db = Database::open_read_only(&directory, options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// assert_eq!(db.begin()?.get(names, 1)?, Some("Ada"));
    /// assert!(matches!(db.begin()?.put(names, 1, "Eve"), Err(Error::ReadOnly)));
    /// # drop(db);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let storage = Arc::new(FileStorage::open(path.as_ref())?);
        Database::read_with(storage, options, Arc::new(SystemClock::default()), &mut |_| {})
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Opens or makes the database in this storage, under any concurrency control. Statistics and checkpoints read
    /// `clock`. `progress` is called with the progress of recovery, perhaps from several threads in turn.
    pub fn open_with(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Database<C>> {
        let making = Making::of(&options);
        make_or_open(storage, options, clock, making, progress)
    }

    /// Opens the existing database in this storage: [`Database::open_existing`] with the arguments of
    /// [`Database::open_with`].
    pub fn open_existing_with(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Database<C>> {
        make_or_open(storage, options, clock, Making::No, progress)
    }

    fn make_or_open_here(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        making: Making,
        progress: Reporter<'_>,
    ) -> Result<Database<C>> {
        options.check()?;
        check_scheme::<C>(&options)?;
        let began_ns = clock.now_ns();
        let opening = Opening {
            storage,
            clock: clock.clone(),
            holder: holder(),
            fresh: fresh_id(),
            steps: Arc::new(Proven),
            making,
            progress,
        };
        let make = || Engine::new(options.clone(), clock.clone());
        let recovered = opening.recover(&make, false)?;
        let (engine, is_new) = (recovered.engine.clone(), recovered.is_new);
        let db = serve(engine, Some(recovered.start()?))?;
        db.build_kept_indexes()?;
        db.tell_opened("disk", is_new, began_ns);
        Ok(db)
    }

    /// Opens the database in this storage only to be read: [`Database::open_read_only`] with the arguments of
    /// [`Database::open_with`]. Other processes cannot write meanwhile, unless the storage does not even allow a
    /// lock.
    pub fn read_with(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Database<C>> {
        read(storage, options, clock, progress)
    }

    fn read_here(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: Reporter<'_>,
    ) -> Result<Database<C>> {
        options.check()?;
        let began_ns = clock.now_ns();
        let opening = Opening {
            storage,
            clock: clock.clone(),
            holder: holder(),
            fresh: fresh_id(),
            steps: Arc::new(Proven),
            making: Making::No,
            progress,
        };
        let (engine, durable) = opening.read(&|| Engine::new(options.clone(), clock.clone()))?;
        let db = serve(engine, Some(durable))?;
        db.tell_opened("read only", false, began_ns);
        Ok(db)
    }

    fn tell_opened(&self, kind: &str, is_new: bool, began_ns: u64) {
        let engine = self.engine();
        let path = || self.0.durable.as_ref()?.storage().path().map(|path| text(path.display()));
        let duration_ms = || ms(engine.clock.now_ns().saturating_sub(began_ns));
        match is_new {
            true => event!(
                INFO,
                DATABASE,
                "database created",
                database = engine.id,
                kind = kind,
                path = path(),
                workers = engine.options.workers,
                duration_ms = duration_ms(),
            ),
            false => event!(
                INFO,
                DATABASE,
                "database opened",
                database = engine.id,
                kind = kind,
                path = path(),
                tables = engine.all_tables().len(),
                records = engine.statistics().memory.records,
                workers = engine.options.workers,
                duration_ms = duration_ms(),
            ),
        }
    }

    /// Opens the database like [`Database::open_with`], but without threads for the log and checkpoints. The holder
    /// of the [`Stepped`] does their work. For simulations, and for tests with a planted error.
    #[doc(hidden)]
    pub fn open_stepped(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        planted: Planted,
    ) -> Result<(Database<C>, Stepped<C>)> {
        options.check()?;
        check_scheme::<C>(&options)?;
        let (holder, fresh) = (Holder { pid: 0, program: "simulation".into(), started_s: 0 }, DatabaseId(1));
        let opening = Opening {
            storage,
            clock: clock.clone(),
            holder,
            fresh,
            steps: planted.steps(),
            making: Making::of(&options),
            progress: &mut |_| {},
        };
        let make = || Engine::new(options.clone(), clock.clone());
        let recovered = opening.recover(&make, true)?;
        let engine = recovered.engine.clone();
        let (stepped, durable) = recovered.into_stepped();
        planted.strike(&engine);
        let db = serve(engine, Some(durable))?;
        db.build_kept_indexes()?;
        Ok((db, stepped))
    }

    /// Makes a checkpoint while transactions continue. Recovery then begins with it, and the log from before the last
    /// but one is given up. The engine also makes checkpoints by itself: see [`Options`]. In a database in memory
    /// this does nothing.
    ///
    /// Returns [`Error::ReadOnly`] in a database that was opened to be read, and [`Error::WouldDeadlock`] in a
    /// closure that a worker runs. If the disk does not answer for [`Options::log_wait_ms`], the error says so, and
    /// the checkpoint continues when the disk answers.
    pub fn checkpoint(&self) -> Result<()> {
        if self.0.engine.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.0.engine.check_open()?;
        self.0.engine.check_outside()?;
        self.0.durable.as_ref().map_or(Ok(()), Durable::checkpoint)
    }

    /// Returns what was found when the database was opened. `None` for a database in memory.
    pub fn recovery(&self) -> Option<Recovery> {
        self.0.durable.as_ref().map(|durable| durable.recovery().clone())
    }
}

/// Returns a number that in all likelihood no other database has. It comes from the seeds of the system's randomness
/// that the standard library gives each hasher.
pub(super) fn fresh_id() -> DatabaseId {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    DatabaseId(half() << 64 | half())
}
