//! A worker that the calling thread drives: streams of transactions, and transactions spawned among a thread's other work.

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

/// A worker of the calling thread's own: for a stream of transactions ([`run_each`](Self::run_each) and the other `run`s), whose
/// closures may borrow from the caller; or for transactions that are [spawned](Self::spawn) among the thread's other work. Closures
/// need not be `Send`.
///
/// A stream has the worker to itself: it panics if spawned transactions are open, or wait for a place.
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

/// A worker while it runs, on a thread that knows it.
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

    /// One closure over a stream of inputs, a transaction each; results go to `sink` as transactions
    /// end. No queue, no type erasure, no allocation.
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

    /// As [`run_each`](Self::run_each), with what the worker should know of each transaction before it starts. Two
    /// whose hints overlap are not open together, and run in the order of the inputs: so they do not conflict. Up to
    /// 64 inputs that have to wait are put aside, while later ones go on.
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

    /// A stream of closures of one type.
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

    /// One transaction, here and now.
    pub fn run<R>(&mut self, closure: impl AsyncFnMut(&Txn<C>) -> Result<R>) -> Result<R> {
        let mut got = None;
        self.inner.set_alone(true);
        self.run_all([closure], |result| got = Some(result));
        self.inner.set_alone(false);
        got.expect("run_all has run it")
    }

    /// Has the worker run a transaction, among others, when it is driven: by [`step`](Self::step), [`round`](Self::round) or
    /// [`run_rounds`](Self::run_rounds). It begins in a free place of the batch if there is one, or waits for one; they
    /// begin in the order in which they were spawned. A transaction that awaits something outside the engine gives up its
    /// place. `end` is called with its result, in a later call of the worker.
    ///
    /// Returns a name for [`cancel`](Self::cancel). A transaction that is cancelled, or dropped with the worker before it
    /// has ended, is undone, and `end` is not called.
    ///
    /// Errors: [`Error::QueueFull`] where [`queued_max`](crate::worker::WorkerOptions::queued_max) transactions wait already, and
    /// [`Error::OutOfMemory`] where the memory limit leaves no room for one more. Then `closure` and `end` have been
    /// dropped, and nothing else has happened.
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

    /// As [`spawn`](Self::spawn), with what the worker should know of the transaction before it starts. It waits for its
    /// turn when it has a place, which it gives up until then: of those whose hints overlap, in the order of spawning.
    pub fn spawn_hinted<R: 'static>(
        &mut self,
        hint: Hint,
        closure: impl AsyncFnMut(&Txn<C>) -> Result<R> + 'static,
        end: impl FnOnce(Result<R>) + 'static,
    ) -> Result<Spawned> {
        let retries_max = self.retries_max;
        self.spawn_future(move |txn| run_in_turn(txn, hint, Closure(closure), retries_max), end)
    }

    /// Spawns what `make` makes: a future that gives the transaction to nobody else.
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

    /// The place, in the order of all commits of the database, of the last transaction that this worker has
    /// committed; for one that has written nothing, that of the last commit it may have seen, or a moment
    /// later. When [`step`](Self::step) answers [`Step::Ended`] it is that transaction's.
    pub fn last_commit_timestamp(&self) -> u64 {
        self.inner.host().context().last_commit.get()
    }

    /// Looks at one open transaction, as the policy picks: the unit that a scheduler outside deals in.
    pub fn step(&mut self) -> Step {
        self.inside().attended(exec::Worker::step)
    }

    /// Looks at every open transaction once; returns true if one of them moved.
    pub fn round(&mut self) -> bool {
        self.inside().attended(exec::Worker::round)
    }

    /// Goes round until nothing moves, `rounds_max` times at most: so that a thread with sockets of its own comes back to
    /// these, however many transactions there are. A transaction that is run again and again, because another one holds what
    /// it needs, moves in every round.
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

    /// The file descriptor that wakes the calling thread for the worker, to be waited for together with sockets: see
    /// [`prepare_to_sleep`](Self::prepare_to_sleep). It is made by the first call. Error: [`Error::NoDescriptor`]; on Windows
    /// always.
    pub fn wake_fd(&mut self) -> Result<WakeFd> {
        self.inner.wake_fd().map_err(|error| Error::NoDescriptor { reason: error.to_string() })
    }

    /// Says whether the calling thread may wait for sockets, and for how long. It cleans up first, a bounded amount. Where
    /// the answer is [`Sleep::UntilWoken`], the [descriptor](Self::wake_fd) becomes readable as soon as there is something
    /// to do: a waker of a transaction was called, from any thread; a row that one waits for was released; a result
    /// that was held back is due. The answer says as well when the worker has to be called at the latest: when a wait for
    /// a row times out, or to clean up again.
    ///
    /// Nothing but the wait comes between this call and the end of the wait. The next call of the worker ends the sleep, and
    /// resets the descriptor. While the worker is not asleep nothing is written to it.
    ///
    /// Before the descriptor was asked for, the answer is always [`Sleep::NotNow`].
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

    /// Cleans up a bounded amount; returns true if there is more to do.
    pub fn maintain(&mut self) -> bool {
        self.inside().attended(exec::Worker::maintain)
    }

    /// Drops a spawned transaction: it is undone, or if it waits for a place, never begins. Returns false if it has ended
    /// or is about to: it commits, or what it has read is checked before its error is answered.
    pub fn cancel(&mut self, spawned: Spawned) -> bool {
        self.inside().attended(|worker| worker.cancel(spawned))
    }

    /// Transactions that have ended, and whose results are held back until it is known that they last.
    pub fn held(&self) -> usize {
        self.inner.held()
    }

    /// Transactions open.
    pub fn open(&self) -> usize {
        self.inner.open()
    }

    /// Spawned transactions that wait for a place.
    pub fn queued(&self) -> usize {
        self.inner.queued()
    }

    /// No place is free: a transaction that is spawned now waits.
    pub fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    /// Transactions to keep open at once, from now on: 1 to the `batch_max` that it was made with.
    pub fn set_batch(&mut self, batch: impl Into<BatchSize>) {
        self.inner.set_batch(batch);
    }

    /// When places are filled again, from now on.
    pub fn set_refill(&mut self, refill: Refill) {
        self.inner.set_refill(refill);
    }

    /// How often a transaction is run again after a conflict, from now on.
    pub fn set_retries_max(&mut self, retries_max: u32) {
        self.retries_max = retries_max;
    }

    /// Changes that wait to be cleaned up by this worker, or by any.
    pub fn garbage(&self) -> usize {
        let context = self.inner.host().context();
        C::garbage(&context.engine.shared, &context.worker) + context.local.pending()
    }
}
