//! A worker that the calling thread drives, for streams of transactions and for transactions spawned among other
//! work.

use super::known;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::exec::{self, BatchSize, Hint, NotSpawned, Refill, Sleep, Spawned, Step, WakeFd, WorkerProgress};
use crate::kernel::Inside;
use crate::ops::TxnState;
use crate::suspend::{OnMiss, Suspend};
use crate::txn::{Closure, Each, Txn, WorkerHost, run_in_turn, run_to_commit};
use std::fmt;
use std::ops::{AsyncFn, AsyncFnMut, Deref, DerefMut};

/// A worker of the calling thread. Use it for a stream of transactions ([`run_each`](Self::run_each) and the other
/// `run`s), whose closures may borrow from the caller, or for transactions [spawned](Self::spawn) among the thread's
/// other work. Closures need not be `Send`.
///
/// # Panics
/// A stream panics if spawned transactions are open or wait for a place. It needs the worker for itself.
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let t: Table<u64, u64> = db.table("t")?;
/// let mut worker = db.worker();
/// let keys: Vec<u64> = (0..1000).collect();
/// let mut stored = 0;
/// worker.run_each(&keys, async |tx, key| tx.insert(t, **key, 1).await, |result| {
///     stored += result.is_ok() as u32;
/// });
/// assert_eq!(stored, 1000);
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Worker<C: ConcurrencyControl = Serializable, S: Suspend = OnMiss> {
    pub(super) inner: exec::Worker<WorkerHost<C>, S>,
    pub(super) retries_max: u32,
}

impl<C: ConcurrencyControl, S: Suspend> fmt::Debug for Worker<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("open", &self.open()).finish_non_exhaustive()
    }
}

/// A worker while it runs, on a thread that is marked as a worker's.
struct Running<'w, C: ConcurrencyControl, S: Suspend> {
    inner: &'w mut exec::Worker<WorkerHost<C>, S>,
    _inside: Inside,
}

impl<C: ConcurrencyControl, S: Suspend> Deref for Running<'_, C, S> {
    type Target = exec::Worker<WorkerHost<C>, S>;

    fn deref(&self) -> &Self::Target {
        self.inner
    }
}

impl<C: ConcurrencyControl, S: Suspend> DerefMut for Running<'_, C, S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.inner
    }
}

impl<C: ConcurrencyControl, S: Suspend> Worker<C, S> {
    fn inside(&mut self) -> Running<'_, C, S> {
        let engine = self.inner.host().context().engine.id;
        Running { inner: &mut self.inner, _inside: Inside::of(engine) }
    }

    /// Runs one closure over a stream of inputs, each in a transaction of its own. `sink` gets the results as
    /// transactions end. There is no queue, no type erasure and no allocation.
    pub fn run_each<I, R>(
        &mut self,
        inputs: impl IntoIterator<Item = I>,
        closure: impl AsyncFn(&Txn<C>, &I) -> Result<R>,
        mut sink: impl FnMut(Result<R>),
    ) {
        let (mut inputs, closure, retries_max) = (inputs.into_iter(), &closure, self.retries_max);
        self.inside().stream(
            |txn| inputs.next().map(|input| run_to_commit(txn, Each(closure, input), retries_max)),
            |result, fate| sink(known(result, fate)),
        );
    }

    /// Runs a stream like [`run_each`](Self::run_each), with a hint for each transaction. Transactions whose hints
    /// overlap are not open together and run in the order of the inputs, so they do not conflict. Up to 64 inputs
    /// that have to wait are put aside, while later ones continue.
    ///
    /// ```
    /// # use braiddb::worker::Hint;
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let counts: Table<u64, u64> = db.table("counts")?;
    /// let mut worker = db.worker();
    /// worker.run_each_hinted(
    ///     (0..1000).map(|i| i % 3),
    ///     |key| Hint::default().touches(*key),
    ///     async |tx, key| {
    ///         let count = tx.get(counts, *key).await?.unwrap_or(0);
    ///         tx.put(counts, *key, count + 1).await
    ///     },
    ///     |result| assert!(result.is_ok()),
    /// );
    /// assert_eq!(db.statistics().aborts_conflict, 0);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn run_each_hinted<I, R>(
        &mut self,
        inputs: impl IntoIterator<Item = I>,
        hint: impl FnMut(&I) -> Hint,
        closure: impl AsyncFn(&Txn<C>, &I) -> Result<R>,
        mut sink: impl FnMut(Result<R>),
    ) {
        let (closure, retries_max) = (&closure, self.retries_max);
        self.inside().stream_hinted(
            inputs.into_iter(),
            hint,
            |txn, input| run_to_commit(txn, Each(closure, input), retries_max),
            |result, fate| sink(known(result, fate)),
        );
    }

    /// Runs a stream of closures of one type.
    pub fn run_all<F, R>(&mut self, closures: impl IntoIterator<Item = F>, mut sink: impl FnMut(Result<R>))
    where
        F: AsyncFnMut(&Txn<C>) -> Result<R>,
    {
        let (mut closures, retries_max) = (closures.into_iter(), self.retries_max);
        self.inside().stream(
            |txn| closures.next().map(|closure| run_to_commit(txn, Closure(closure), retries_max)),
            |result, fate| sink(known(result, fate)),
        );
    }

    /// Runs one transaction, and returns its result.
    pub fn run<R>(&mut self, closure: impl AsyncFnMut(&Txn<C>) -> Result<R>) -> Result<R> {
        let mut got = None;
        self.inner.set_alone(true);
        self.run_all([closure], |result| got = Some(result));
        self.inner.set_alone(false);
        got.expect("run_all has run it")
    }

    /// Adds a transaction, which runs among others when the worker is driven by [`step`](Self::step),
    /// [`round`](Self::round) or [`run_rounds`](Self::run_rounds). It begins in a free place of the batch, or waits
    /// for one. Transactions begin in the order in which they were spawned. A transaction that awaits something
    /// outside the engine gives up its place. A later call of the worker calls `end` with the result.
    ///
    /// Returns a name for [`cancel`](Self::cancel). If the transaction is cancelled, or dropped with the worker
    /// before it has ended, it is undone and `end` is not called.
    ///
    /// Returns [`Error::QueueFull`] if [`queued_max`](crate::worker::WorkerOptions::queued_max) transactions are
    /// already waiting, and [`Error::OutOfMemory`] if the memory limit leaves no room for another. Then `closure` and
    /// `end` have been dropped, and nothing else has happened.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # use std::cell::Cell;
    /// # use std::rc::Rc;
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let counts: Table<u64, u64> = db.table("counts")?;
    /// let mut worker = db.worker();
    /// let stored = Rc::new(Cell::new(0));
    /// for key in 0..1000 {
    ///     let stored = stored.clone();
    ///     worker.spawn(
    ///         async move |tx| tx.put(counts, key, 1).await,
    ///         move |result| stored.set(stored.get() + u32::from(result.is_ok())),
    ///     )?;
    /// }
    /// while worker.round() {}
    /// assert_eq!(stored.get(), 1000);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn spawn<R: 'static>(
        &mut self,
        closure: impl AsyncFnMut(&Txn<C>) -> Result<R> + 'static,
        end: impl FnOnce(Result<R>) + 'static,
    ) -> Result<Spawned> {
        let retries_max = self.retries_max;
        self.spawn_future(move |txn| run_to_commit(txn, Closure(closure), retries_max), end)
    }

    /// Adds a transaction like [`spawn`](Self::spawn), with a hint. When it has a place it waits for its turn, and
    /// gives up the place until then. Transactions whose hints overlap run in the order of spawning.
    pub fn spawn_hinted<R: 'static>(
        &mut self,
        hint: Hint,
        closure: impl AsyncFnMut(&Txn<C>) -> Result<R> + 'static,
        end: impl FnOnce(Result<R>) + 'static,
    ) -> Result<Spawned> {
        let retries_max = self.retries_max;
        self.spawn_future(move |txn| run_in_turn(txn, hint, Closure(closure), retries_max), end)
    }

    /// Spawns the future that `make` returns. It must give the transaction to no other code.
    fn spawn_future<R: 'static, D: Future<Output = Result<R>> + 'static>(
        &mut self,
        make: impl FnOnce(&'static TxnState<C>) -> D + 'static,
        end: impl FnOnce(Result<R>) + 'static,
    ) -> Result<Spawned> {
        let end = move |result, fate| end(known(result, fate));
        // SAFETY: as in `Database::submit`.
        unsafe { self.inner.spawn(make, end) }.map_err(|refused| match refused {
            NotSpawned::QueueFull { queued_max } => Error::QueueFull { queued_max },
            NotSpawned::OutOfMemory => self.inner.host().context().engine.out_of_memory(),
        })
    }

    /// Returns the place, in the order of all commits of the database, of the last transaction that this worker has
    /// committed. For a transaction that has written nothing, this is the place of the last commit that it may have
    /// seen, or a moment later. After [`step`](Self::step) returns [`Step::Ended`], it is that transaction's place.
    pub fn last_commit_timestamp(&self) -> u64 {
        self.inner.host().context().last_commit.get()
    }

    /// Looks at one open transaction, chosen by the policy. This is the unit of work for an external scheduler.
    pub fn step(&mut self) -> Step {
        self.inside().attended(exec::Worker::step)
    }

    /// Looks at every open transaction once. Returns true if one of them moved.
    pub fn round(&mut self) -> bool {
        self.inside().attended(exec::Worker::round)
    }

    /// Runs rounds until nothing moves, at most `rounds_max`. A thread with sockets of its own returns to them,
    /// however many transactions there are. A transaction that runs again and again, because another holds what it
    /// needs, moves in every round.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let counts: Table<u64, u64> = db.table("counts")?;
    /// let mut worker = db.worker();
    /// for key in 0..1000 {
    ///     worker.spawn(async move |tx| tx.put(counts, key, 1).await, |result| result.expect("a row"))?;
    /// }
    /// let mut ended = 0;
    /// loop {
    ///     let progress = worker.run_rounds(40);
    ///     ended += progress.ended;
    ///     if progress.is_idle {
    ///         break;
    ///     }
    ///     // ... here sockets are read and written ...
    /// }
    /// assert_eq!(ended, 1000);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn run_rounds(&mut self, rounds_max: u32) -> WorkerProgress {
        self.inside().attended(|worker| worker.run_rounds(rounds_max))
    }

    /// Returns the file descriptor that wakes the calling thread for the worker, to be polled together with sockets:
    /// see [`prepare_to_sleep`](Self::prepare_to_sleep). The first call makes it. Returns [`Error::NoDescriptor`] if
    /// the system refuses one, and always on Windows.
    pub fn wake_fd(&mut self) -> Result<WakeFd> {
        self.inner.wake_fd().map_err(|error| Error::NoDescriptor { reason: error.to_string() })
    }

    /// Returns whether the calling thread may wait for sockets, and for how long. It first cleans up a bounded
    /// amount.
    ///
    /// After [`Sleep::UntilWoken`], the [descriptor](Self::wake_fd) becomes readable as soon as there is something to
    /// do: a transaction's waker was called, from any thread; a row that a transaction waits for was released; or a
    /// result that was held back is due. The answer also gives the latest time to call the worker: when a wait for a
    /// row times out, or to clean up again.
    ///
    /// Do nothing except the wait between this call and the end of the wait. The next call of the worker ends the
    /// sleep, and resets the descriptor. While the worker is not asleep, nothing is written to the descriptor.
    ///
    /// Before the first call of [`wake_fd`](Self::wake_fd), the answer is always [`Sleep::NotNow`].
    ///
    /// ```ignore-windows
    /// # use braiddb::{Database, Error, Options, Table};
    /// use futures::FutureExt;
    /// use rustix::event::{PollFd, PollFlags, Timespec, poll};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// # let counts: Table<u64, u64> = db.table("counts")?;
    ///
    /// let mut worker = db.worker();
    /// let wake_fd = worker.wake_fd()?;
    /// // A transaction that waits for another thread.
    /// let (sender, value) = futures::channel::oneshot::channel();
    /// let value = value.shared();
    /// let body = async move |tx: &braiddb::Txn| {
    ///     let value = value.clone().await.map_err(Error::user)?;
    ///     tx.put(counts, 1, value).await
    /// };
    /// worker.spawn(body, |result| result.expect("the value is sent"))?;
    /// let other = std::thread::spawn(move || sender.send(7));
    ///
    /// loop {
    ///     worker.run_rounds(40);
    ///     if worker.open() + worker.queued() + worker.held() == 0 {
    ///         break;
    ///     }
    ///     let timeout = worker.prepare_to_sleep().timeout().map(|timeout| Timespec {
    ///         tv_sec: timeout.as_secs() as i64,
    ///         tv_nsec: timeout.subsec_nanos().into(),
    ///     });
    ///     let mut ready = [PollFd::new(&wake_fd, PollFlags::IN)]; // ... and the sockets
    ///     poll(&mut ready, timeout.as_ref()).expect("descriptors that are open");
    ///     // ... here sockets that are ready are read and written, and transactions spawned for what they say ...
    /// }
    /// # other.join().expect("no panic").expect("it is received");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn prepare_to_sleep(&mut self) -> Sleep {
        self.inside().attended(exec::Worker::prepare_to_sleep)
    }

    /// Cleans up a bounded amount. Returns true if there is more to do.
    pub fn maintain(&mut self) -> bool {
        self.inside().attended(exec::Worker::maintain)
    }

    /// Cancels a spawned transaction. It is undone, or never begins if it waits for a place. Returns false if it has
    /// ended or is about to: it is committing, or its reads are being checked before its error is returned.
    pub fn cancel(&mut self, spawned: Spawned) -> bool {
        self.inside().attended(|worker| worker.cancel(spawned))
    }

    /// Returns the number of transactions that have ended and whose results are held back until it is known that they
    /// last.
    pub fn held(&self) -> usize {
        self.inner.held()
    }

    /// Returns the number of open transactions.
    pub fn open(&self) -> usize {
        self.inner.open()
    }

    /// Returns the number of spawned transactions that wait for a place.
    pub fn queued(&self) -> usize {
        self.inner.queued()
    }

    /// Returns true if no place is free. A transaction spawned now waits.
    pub fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    /// Sets how many transactions to keep open at once: 1 to the `batch_max` that the worker was made with.
    pub fn set_batch(&mut self, batch: impl Into<BatchSize>) {
        self.inner.set_batch(batch);
    }

    /// Sets when places are filled again.
    pub fn set_refill(&mut self, refill: Refill) {
        self.inner.set_refill(refill);
    }

    /// Sets how often a transaction runs again after a conflict.
    pub fn set_retries_max(&mut self, retries_max: u32) {
        self.retries_max = retries_max;
    }

    /// Returns the number of changes that wait to be cleaned up by this worker or by any.
    pub fn garbage(&self) -> usize {
        let context = self.inner.host().context();
        C::garbage(&context.engine.shared, &context.worker) + context.local.pending()
    }
}
