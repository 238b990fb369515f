//! The database handle: tables, workers, and the ways to run a transaction.

mod catalog;
mod changes;
mod close;
mod column_indexes;
mod expiry;
mod freeze;
mod handle;
mod indexes;
mod open;
mod projections;
mod published;
mod publisher;
mod restore;
mod schema;
mod sequence;
mod sweeper;
mod transact;
mod worker;

pub use catalog::{TableInfo, salvage};
pub use expiry::Expiry;
pub use handle::{Batch, Handle};
pub use published::{Published, published};
pub use publisher::Publisher;
pub use restore::{Past, restore, restore_with_planted};
pub use sequence::Sequence;
pub use sweeper::Sweeper;
pub use worker::Worker;

use crate::cc::{ConcurrencyControl, Serializable, once};
use crate::durable::{Durable, log_table};
use crate::error::{Error, Result};
use crate::events::event;
use crate::exec::{
    self, BatchSize, BatchTask, Executor, Fate, Hint, Job, Submission, Task, TaskError, WorkerOptions,
    pin_within_mask,
};
use crate::kernel::{Engine, Inside, Request, open_table};
use crate::metrics::{Clock, Event, Statistics, SystemClock};
use crate::ops::TxnState;
use crate::options::Options;
use crate::suspend::{OnMiss, Suspend};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::{
    AsKey, Definitions, Description, Key, Partition, Table, TableKind, TableOptions, Value, leading,
};
use crate::txn::{Closure, Each, RawTable, Transaction, Txn, WorkerHost, run_in_turn, run_to_commit};
use crate::wal;
use publisher::Publication;
use std::fmt;
use std::ops::{AsyncFn, AsyncFnMut};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A database. Clones are handles to the same database, which closes with the last handle.
///
/// A function that the database keeps, such as one given to [`index`](Self::index), [`projection`](Self::projection)
/// or [`on_event`](Self::on_event), keeps the database open if it has captured a handle. In that case close it with
/// [`shutdown`](Self::shutdown).
///
/// ```
/// use braiddb::{Database, Options, Table};
///
/// let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
/// let accounts: Table<u64, i64> = db.table("accounts")?;
/// db.run(async move |tx| {
///     tx.put(accounts, 1, 100).await?;
///     tx.put(accounts, 2, 0).await
/// })
/// .wait()?;
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Database<C: ConcurrencyControl = Serializable>(Arc<Owner<C>>);

impl<C: ConcurrencyControl> Clone for Database<C> {
    fn clone(&self) -> Self {
        Database(self.0.clone())
    }
}

once! {
    /// Opens or makes a table.
    fn open_requested<>(db: &Database<C>, request: Request) -> Result<RawTable>
        = open_table(db.engine(), request, db.note(), |table| RawTable::new(table, db.engine().id));

    /// Starts the engine's workers.
    fn serve<>(engine: Arc<Engine<C>>, durable: Option<Durable>) -> Result<Database<C>>
        = Database::serve_here(engine, durable);
}

impl<C: ConcurrencyControl> fmt::Debug for Database<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("options", &self.0.engine.options).finish_non_exhaustive()
    }
}

struct Owner<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    executor: Arc<Executor<TxnState<C>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The publication that was begun last.
    publication: Mutex<Option<Arc<Publication>>>,
    /// Dropped after the workers, which may have to wait for the log.
    durable: Option<Durable>,
    /// The result of closing the database, once it is closed.
    outcome: Mutex<Option<Result<()>>>,
}

impl From<TaskError> for Error {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Panicked(message) => Error::Panicked(message),
            TaskError::Cancelled => Error::Cancelled,
            TaskError::Closed => Error::Closed,
            TaskError::WouldDeadlock => Error::WouldDeadlock,
            TaskError::Full => Error::Busy,
            TaskError::Unknown => Error::OutcomeUnknown,
            TaskError::Stalled(stall) => stalled(stall),
        }
    }
}

/// Fails unless a key can have this number of leading bits.
fn check_leading_bits(bits: u32) -> Result<()> {
    match (1..=u64::BITS).contains(&bits) {
        true => Ok(()),
        false => Err(Error::InvalidOption { option: "leading_bits", reason: "must be from 1 to 64".into() }),
    }
}

/// Returns the result that the caller may see. An error that was held back also rests on changes that may be lost.
#[inline(always)]
fn known<R>(result: Result<R>, fate: Fate) -> Result<R> {
    match fate {
        Fate::Durable => result,
        Fate::Unknown => Err(Error::OutcomeUnknown),
        Fate::Stalled(stall) => Err(stalled(stall)),
    }
}

#[cold]
fn stalled(stall: exec::Stall) -> Error {
    Error::stalled(match stall {
        exec::Stall::NoRoom => wal::Stall::NoRoom,
        exec::Stall::Slow => wal::Stall::Slow,
    })
}

// On the default scheme alone, so that `Database::in_memory` needs no annotation.
impl Database {
    /// Makes a database in memory, under the default concurrency control. It is gone when its last handle is dropped.
    pub fn in_memory(options: Options) -> Result<Database> {
        Database::in_memory_with(options, Arc::new(SystemClock::default()))
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Makes a database in memory under any concurrency control, with the clock that its statistics read.
    pub fn in_memory_with(options: Options, clock: Arc<dyn Clock>) -> Result<Database<C>> {
        options.check()?;
        let db = serve(Engine::new(options, clock)?, None)?;
        event!(
            INFO,
            DATABASE,
            "database created",
            database = db.0.engine.id,
            kind = "memory",
            workers = db.0.engine.options.workers
        );
        Ok(db)
    }

    fn serve_here(engine: Arc<Engine<C>>, durable: Option<Durable>) -> Result<Database<C>> {
        let options = &engine.options;
        let executor = Arc::new(Executor::new(options.workers, options.inbox_capacity));
        let mut threads = Vec::with_capacity(options.workers);
        for i in 0..options.workers {
            let (engine, pins) = (engine.clone(), options.pin_workers);
            let served = executor.clone();
            let life = move || {
                if pins {
                    pin_within_mask(i);
                }
                let options = worker_options(&engine.options);
                let _inside = Inside::of(engine.id);
                served.serve(i, WorkerHost::new::<OnMiss>(&engine), OnMiss, options);
            };
            match thread::Builder::new().name(format!("braid worker {i}")).spawn(life) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    executor.close();
                    return Err(Error::NoThread { reason: error.to_string() });
                }
            }
        }
        let (threads, publication, outcome) = (Mutex::new(threads), Mutex::default(), Mutex::default());
        Ok(Database(Arc::new(Owner { engine, executor, threads, publication, durable, outcome })))
    }

    /// Opens the table of this name, or creates it if it does not exist. The types of an existing table must be the
    /// same.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let by_name: Table<String, u64> = db.table("people by name")?;
    /// let by_place: Table<(String, u32), [u8]> = db.table("people by place")?;
    /// let wrong = db.table::<u64, u64>("people by name");
    /// assert!(matches!(wrong, Err(Error::TableMismatch { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn table<K: Key, V: Value + ?Sized>(&self, name: &str) -> Result<Table<K, V>> {
        self.open_table(name, None, None)
    }

    /// Opens or creates a table like [`Database::table`], with a choice of how it is made. If the existing table was
    /// made with other options, returns [`Error::TableMismatch`]. ([`Database::table`] opens it with any options. To
    /// transactions they make no difference.)
    ///
    /// ```
    /// # use braiddb::{Database, Error, IndexKind, Options, Table, TableOptions};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let btree = TableOptions { index: IndexKind::BTree, ..TableOptions::default() };
    /// let orders: Table<(u32, u32), [u8]> = db.table_with("orders", btree)?;
    /// let again: Table<(u32, u32), [u8]> = db.table("orders")?;
    /// let wrong = db.table_with::<(u32, u32), [u8]>("orders", TableOptions::default());
    /// assert!(matches!(wrong, Err(Error::TableMismatch { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn table_with<K: Key, V: Value + ?Sized>(
        &self,
        name: &str,
        options: TableOptions,
    ) -> Result<Table<K, V>> {
        self.open_table(name, Some(options), None)
    }

    /// Opens or creates a table like [`Database::table`] whose rows are in partitions of the database. The number in
    /// the `leading_bits` (1 to 64) of a row's encoded key, modulo
    /// [`LabOptions::partitions`](crate::LabOptions::partitions), gives the row's partition. Rows with the same
    /// number are together, also rows of different tables. Partitions have an effect only under
    /// [`HStore`](crate::HStore): see [`Txn::declare_partitions`].
    ///
    /// The number of bits is not stored. Give it each time that the database is opened, before the table is opened
    /// otherwise. It may differ each time. Two different numbers at the same time are [`Error::TableMismatch`].
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let orders: Table<(u16, u32), [u8]> = db.partitioned_table("orders", 16)?; // by warehouse
    /// let stock: Table<(u16, u64), u32> = db.partitioned_table("stock", 16)?;
    /// assert_eq!(db.partition_of(orders, (7, 1)), db.partition_of(stock, (7, 99)));
    /// let wrong = db.partitioned_table::<(u16, u64), u32>("stock", 80);
    /// assert!(matches!(wrong, Err(Error::InvalidOption { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn partitioned_table<K: Key, V: Value + ?Sized>(
        &self,
        name: &str,
        leading_bits: u32,
    ) -> Result<Table<K, V>> {
        check_leading_bits(leading_bits)?;
        self.open_table(name, None, Some(leading_bits))
    }

    /// Returns the partition of a key, like [`Txn::partition_of`].
    pub fn partition_of<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Option<Partition> {
        let table = table.of_database(self.0.engine.id).ok()?;
        table.index.partitioning().number_of(&leading(&key)?).map(Partition::new)
    }

    /// Returns a function that writes the catalog's entry of a table to the log.
    fn note(&self) -> impl FnOnce(u32, &TableKind, &Description) -> Result<()> {
        |number, kind, description| {
            self.0.engine.check_open()?;
            log_table(&self.0.engine, number, kind, description)
        }
    }

    fn open_table<K: Key, V: Value + ?Sized>(
        &self,
        name: &str,
        options: Option<TableOptions>,
        leading_bits: Option<u32>,
    ) -> Result<Table<K, V>> {
        self.0.engine.check_open()?;
        let engine = &self.0.engine;
        let is_chosen = options.is_some();
        let by_default = TableOptions { index: engine.options.index, front: engine.options.front };
        let kind = TableKind { fixed8: K::FIXED8, options: options.unwrap_or(by_default) };
        let description = Description::of::<K, V>(name);
        let mut definitions = Definitions::default();
        V::define(&mut definitions);
        let request = Request { kind, description, is_chosen, leading_bits, definitions, is_raw: false };
        Ok(open_requested(self, request)?.of_database(engine.id)?.handle(engine.id))
    }

    /// Submits a transaction, from any thread. It runs on one of the database's worker threads. After a conflict the
    /// closure runs again. While all inboxes are full, the call blocks.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// let hits: Table<String, u64> = db.table("hits")?;
    /// let count = db.run(async move |tx| {
    ///     let count = tx.get(hits, "home").await?.unwrap_or(0) + 1;
    ///     tx.put(hits, "home", count).await?;
    ///     Ok(count)
    /// });
    /// assert_eq!(count.wait()?, 1); // in async code: count.await?
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn run<R, F>(&self, closure: F) -> Handle<R>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.submit(closure, self.0.engine.options.retries_max)
    }

    /// Submits a transaction like [`run`](Self::run), but does not retry: the caller gets [`Error::Conflict`].
    pub fn run_once<R, F>(&self, closure: F) -> Handle<R>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.submit(closure, 0)
    }

    fn submit<R, F>(&self, closure: F, retries_max: u32) -> Handle<R>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let (job, handle) = self.job(closure, retries_max);
        self.0.executor.submit(job);
        handle
    }

    /// Submits a transaction like [`run`](Self::run), but never blocks. While all inboxes are full, it returns
    /// [`Error::Busy`] and submits nothing.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// # let hits: Table<u64, u64> = db.table("hits")?;
    /// match db.try_run(async move |tx| tx.put(hits, 7, 1).await) {
    ///     Ok(hit) => hit.wait()?,
    ///     Err(Error::Busy) => println!("come again later"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn try_run<R, F>(&self, closure: F) -> Result<Handle<R>>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let (job, handle) = self.job(closure, self.0.engine.options.retries_max);
        self.0.executor.try_submit(job)?;
        Ok(handle)
    }

    /// Runs a transaction like [`run`](Self::run), and awaits its result. While all inboxes are full, the future
    /// waits for room without blocking its thread. Nothing is submitted before the first poll. Dropping the future
    /// cancels the transaction.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// let hits: Table<u64, u64> = db.table("hits")?;
    /// let serve = async |page: u64| {
    ///     db.run_async(async move |tx| {
    ///         let count = tx.get(hits, page).await?.unwrap_or(0) + 1;
    ///         tx.put(hits, page, count).await?;
    ///         Ok(count)
    ///     })
    ///     .await
    /// };
    /// assert_eq!(futures::executor::block_on(serve(7))?, 1);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub async fn run_async<R, F>(&self, closure: F) -> Result<R>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let (job, handle) = self.job(closure, self.0.engine.options.retries_max);
        Submission::new(&self.0.executor, job).await;
        handle.await
    }

    fn job<R, F>(&self, closure: F, retries_max: u32) -> (Arc<dyn Job<TxnState<C>>>, Handle<R>)
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let make = move |txn: &'static TxnState<C>| run_to_commit(txn, Closure(closure), retries_max);
        // SAFETY: `drive` gives the transaction to the closure alone, by a reference that it cannot keep.
        let (job, handle) = unsafe { Task::job(&self.0.executor, make) };
        (job, Handle::new(self.0.engine.id, handle))
    }

    /// Submits a transaction like [`run`](Self::run), with a hint for the worker. Transactions with equal hints go to
    /// the same worker as long as no worker is idle. There, transactions whose hints overlap run in the order of
    /// submission, and do not conflict with each other.
    ///
    /// ```
    /// # use braiddb::worker::Hint;
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// let hits: Table<u64, u64> = db.table("hits")?;
    /// let page = 7;
    /// let hit = db.run_hinted(Hint::default().touches(page), async move |tx| {
    ///     let count = tx.get(hits, page).await?.unwrap_or(0);
    ///     tx.put(hits, page, count + 1).await
    /// });
    /// hit.wait()?;
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn run_hinted<R, F>(&self, hint: Hint, closure: F) -> Handle<R>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let retries_max = self.0.engine.options.retries_max;
        let make = move |txn: &'static TxnState<C>| run_in_turn(txn, hint, Closure(closure), retries_max);
        // SAFETY: as in `submit`.
        let (job, handle) = unsafe { Task::job(&self.0.executor, make) };
        match hint.home() {
            Some(worker) => self.0.executor.submit_to(job, worker),
            None => self.0.executor.submit(job),
        }
        Handle::new(self.0.engine.id, handle)
    }

    /// Submits several transactions at once.
    pub fn run_all<R, F>(&self, closures: impl IntoIterator<Item = F>) -> Vec<Handle<R>>
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let retries_max = self.0.engine.options.retries_max;
        let (jobs, handles): (Vec<_>, _) = closures
            .into_iter()
            .map(|closure| {
                let make = move |txn: &'static TxnState<C>| run_to_commit(txn, Closure(closure), retries_max);
                // SAFETY: as in `submit`.
                let (job, handle) = unsafe { Task::job(&self.0.executor, make) };
                (job, Handle::new(self.0.engine.id, handle))
            })
            .unzip();
        self.0.executor.submit_all(jobs);
        handles
    }

    /// Submits one closure over many inputs, each in a transaction of its own. All share one allocation and one
    /// answer.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let stored = db.run_each((0..100).collect(), async move |tx, key: &u64| {
    ///     tx.insert(t, *key, key * 2).await
    /// });
    /// assert!(stored.wait()?.iter().all(Result::is_ok));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn run_each<I, R, F>(&self, inputs: Vec<I>, closure: F) -> Batch<R>
    where
        F: AsyncFn(&Txn<C>, &I) -> Result<R> + Send + Sync + 'static,
        I: Send + 'static,
        R: Send + 'static,
    {
        let retries_max = self.0.engine.options.retries_max;
        self.submit_each(inputs, closure, move |txn, closure, input| {
            run_to_commit(txn, Each(closure, input), retries_max)
        })
    }

    /// Submits inputs like [`run_each`](Self::run_each), with a hint for each transaction. Transactions whose hints
    /// overlap do not conflict on one worker.
    pub fn run_each_hinted<I, R, F>(
        &self,
        inputs: Vec<I>,
        hint: impl Fn(&I) -> Hint + Send + Sync + 'static,
        closure: F,
    ) -> Batch<R>
    where
        F: AsyncFn(&Txn<C>, &I) -> Result<R> + Send + Sync + 'static,
        I: Send + 'static,
        R: Send + 'static,
    {
        let retries_max = self.0.engine.options.retries_max;
        self.submit_each(inputs, closure, move |txn, closure, input| {
            let hint = hint(&input);
            run_in_turn(txn, hint, Each(closure, input), retries_max)
        })
    }

    /// Submits the futures that `make` returns for the closure and each input. Such a future gives the transaction
    /// and the closure's reference to no other code.
    fn submit_each<I, R, F, D>(
        &self,
        inputs: Vec<I>,
        closure: F,
        make: impl Fn(&'static TxnState<C>, &'static F, I) -> D + Send + Sync + 'static,
    ) -> Batch<R>
    where
        F: Send + Sync + 'static,
        I: Send + 'static,
        R: Send + 'static,
        D: Future<Output = Result<R>> + 'static,
    {
        let count = inputs.len();
        // SAFETY: as in `submit`; the closure is called by the future only.
        let (job, handle) = unsafe { BatchTask::job(&self.0.executor, closure, inputs, make) };
        if count > 0 {
            self.0.executor.submit_batch(job, count);
        }
        Handle::new(self.0.engine.id, handle)
    }

    /// Makes the calling thread a worker, for a stream of transactions without a queue in between.
    pub fn worker(&self) -> Worker<C, OnMiss> {
        self.worker_with(OnMiss, worker_options(&self.0.engine.options))
    }

    /// Makes the calling thread a worker with the given policy: [`Never`](crate::suspend::Never) for plain sequential
    /// execution, [`PrefetchOnly`](crate::suspend::PrefetchOnly) for sequential execution with prefetching,
    /// [`OnMiss`] for interleaved execution.
    pub fn worker_with<S: Suspend>(&self, policy: S, options: WorkerOptions) -> Worker<C, S> {
        let host = WorkerHost::new::<S>(&self.0.engine);
        let retries_max = self.0.engine.options.retries_max;
        Worker { inner: exec::Worker::new(host, policy, options), retries_max }
    }

    /// Begins an interactive transaction, which the caller drives.
    pub fn begin(&self) -> Result<Transaction<C>> {
        self.0.engine.check_open()?;
        Transaction::begin(&self.0.engine)
    }

    /// Returns the database's counters, and how much memory each part uses.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.0.engine.statistics();
        if let Some(durable) = &self.0.durable {
            durable.add_to(&mut statistics);
        }
        statistics
    }

    /// Sets the function that is called with each [`Event`] from now on, and replaces the listener before it. There
    /// are events of checkpoints, of changes in the condition of the log, and of changes in the room on the device. A
    /// database in memory has no events. [`statistics`](Self::statistics) returns the present state.
    ///
    /// The thread that makes checkpoints, or the thread that watches the disk, calls the listener within about half a
    /// second, and holds no lock. The listener may call the database, but [`checkpoint`](Self::checkpoint) can fail
    /// there. While the listener runs, checkpoints may wait. Transactions do not. A panic of the listener is ignored.
    ///
    /// ```
    /// # use braiddb::metrics::Event;
    /// # use braiddb::{Database, Options};
    /// # let directory = std::env::temp_dir().join(format!("braid-event-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&directory, options())?;
    /// let (sender, events) = std::sync::mpsc::channel();
    /// db.on_event(move |event| drop(sender.send(event.clone())));
    /// db.checkpoint()?;
    /// assert_eq!(events.recv(), Ok(Event::CheckpointMade { number: 1 }));
    /// # drop(db);
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn on_event(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        if let Some(durable) = &self.0.durable {
            durable.listen(Arc::new(listener));
        }
    }

    /// Turns on or off the workers' measurement of what they spend their time on: see
    /// [`Statistics::breakdown`](crate::metrics::Statistics::breakdown). Workers notice a change within 64 rounds. If
    /// it is on, one round in 512 is timed, or one in 64 where transactions run one after the other. Default: off;
    /// then nothing is timed. Interactive transactions are not included.
    pub fn set_profiling(&self, is_on: bool) {
        self.0.engine.profiling.store(is_on, Relaxed); // Relaxed: a wish, and nothing behind it
    }

    /// Cleans up a bounded amount of what interactive transactions could not clean up in their own calls, because
    /// older snapshots were open. Returns true if there is more to do. Workers clean up by themselves.
    pub fn maintain(&self) -> bool {
        self.0.engine.maintain()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<C>> {
        &self.0.engine
    }
}

fn worker_options(options: &Options) -> WorkerOptions {
    let usual = WorkerOptions::default();
    let batch_max = match options.batch {
        BatchSize::Auto => usual.batch_max,
        BatchSize::Fixed(batch) => batch.max(usual.batch_max),
    };
    WorkerOptions { batch: options.batch, batch_max, ..usual }
}
