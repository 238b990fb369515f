//! Interactive transactions: owned, held across awaits, moved between threads.

use super::run_to_commit::{blocked_wait, commit_with_updates, validate};
use super::txn::Txn;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::exec::{Execution, Operations};
use crate::kernel::{Context, Engine};
use crate::memory::{Charge, OutOfMemory};
use crate::ops::{Rows, TxnState};
use crate::options::Durability;
use crate::sync::{Backoff, thread_number};
use crate::table::{AsKey, Fault, Key, NewValue, Number, Partition, Table, TableInner, Value};
use crate::wal::Lsn;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::ops::{AsyncFnOnce, Bound, RangeBounds};
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A transaction that the caller drives. `Database::begin` makes it, and [`commit`](Self::commit) or
/// [`abort`](Self::abort) ends it. Dropping it aborts it. Its operations run at once, on the calling thread. While it
/// is idle it holds a snapshot, but no epoch and no latch.
///
/// It belongs to the thread that began it or used it last. While it is open, calls on that thread that wait for open
/// transactions to end (`freeze`, `clear`, `drop_table`, `index`, `refresh` and others) return
/// [`Error::WouldDeadlock`].
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let stock: Table<String, u64> = db.table("stock")?;
/// let tx = db.begin()?;
/// tx.put(stock, "apples", 12)?;
/// assert_eq!(tx.get(stock, "apples")?, Some(12));
/// tx.commit()?;
/// assert_eq!(db.begin()?.get(stock, "apples")?, Some(12));
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Transaction<C: ConcurrencyControl = Serializable> {
    /// Boxed, because the scheme may know its address. Always there, except while it is dropped.
    state: Option<Box<OwnedState<C>>>,
    is_open: bool,
    /// The number of the thread that began it or used it last.
    thread: Cell<u64>,
    engine: Arc<Engine<C>>,
}

/// How often to check the conflicting transaction before sleeping. Most checks yield the core.
const LOOKS_AT_HOLDER_MAX: u32 = 16;

/// The state of a transaction outside of workers, used by one transaction after another.
struct OwnedState<C: ConcurrencyControl> {
    txn: TxnState<C>,
    /// The memory that it takes by itself.
    _charge: Charge,
}

// SAFETY: a `TxnState` is used by one thread at a time: through `&mut` or owned, or through `&Transaction`,
// which is not `Sync`; between calls it points to no thread's context, and the scheme's part is `Send`.
unsafe impl<C: ConcurrencyControl> Send for OwnedState<C> {}

impl<C: ConcurrencyControl> fmt::Debug for Transaction<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> OwnedState<C> {
    #[cold]
    fn make(context: &Context<C>) -> Result<Box<Self>> {
        let engine = &context.engine;
        let charge = Charge::of_transaction(&engine.memory, size_of::<Self>());
        let charge = charge.map_err(|OutOfMemory| engine.out_of_memory())?;
        let txn = TxnState::new(NonNull::from(context), 0, Execution::Prefetching, false);
        txn.is_interactive.set(true);
        Ok(Box::new(OwnedState { txn, _charge: charge }))
    }
}

impl<C: ConcurrencyControl> Transaction<C> {
    pub(crate) fn begin(engine: &Arc<Engine<C>>) -> Result<Self> {
        Transaction::begin_with(engine, None, false)
    }

    /// Begins a transaction that writes only what follows from rows and is stored nowhere, also where nothing can be
    /// written.
    pub(crate) fn begin_derived(engine: &Arc<Engine<C>>) -> Result<Self> {
        Transaction::begin_with(engine, None, true)
    }

    /// Begins again a transaction that met a conflict and was undone. Some schemes let a transaction go first that
    /// has aborted before.
    pub(super) fn begin_again(mut self) -> Result<Self> {
        debug_assert!(!self.is_open);
        self.lend(|txn| txn.context().metrics.retries.add(1));
        let state = self.state.take().expect("there until it is dropped");
        state.txn.ended();
        Transaction::begin_with(&self.engine, Some(state), false)
    }

    /// Begins a transaction. `again`: the state of an attempt that has ended.
    fn begin_with(
        engine: &Arc<Engine<C>>,
        again: Option<Box<OwnedState<C>>>,
        is_derived: bool,
    ) -> Result<Self> {
        let state = engine.with_context(|context| {
            let is_retry = again.is_some();
            let spare = || engine.spare_states.take().and_then(|spare| spare.downcast().ok());
            let state = match again.or_else(spare) {
                Some(state) => state,
                None => OwnedState::make(context)?,
            };
            let txn = &state.txn;
            txn.context.set(NonNull::from(context));
            txn.is_retry.set(is_retry);
            if is_derived {
                txn.read_only.set(false); // until it ends
            }
            let now_ns = engine.clock.now_ns();
            // First, so that a thread that finds the transaction open also finds its thread.
            set_interactive(txn, now_ns);
            txn.started();
            txn.begin_or_post().expect("in place")?;
            if interactive_since(txn).is_none() {
                set_interactive(txn, now_ns); // it had no place before
            }
            Ok::<_, Error>(state)
        })?;
        let thread = Cell::new(thread_number());
        Ok(Transaction { state: Some(state), is_open: true, thread, engine: engine.clone() })
    }

    /// Records that the transaction has come from another thread, for the transactions that wait for it.
    #[cold]
    fn moved(&self) {
        self.thread.set(thread_number());
        let txn = self.state();
        set_interactive(txn, interactive_since(txn).unwrap_or(1));
    }

    fn state(&self) -> &TxnState<C> {
        &self.state.as_ref().expect("there until it is dropped").txn
    }

    /// Lends the transaction a context for one call.
    pub(crate) fn lend<R>(&self, f: impl FnOnce(&TxnState<C>) -> R) -> R {
        /// Puts back the context of the enclosing call, because `f` may call back into the transaction.
        struct Lent<'t, C: ConcurrencyControl>(&'t TxnState<C>, NonNull<Context<C>>);
        impl<C: ConcurrencyControl> Drop for Lent<'_, C> {
            fn drop(&mut self) {
                self.0.context.set(self.1);
            }
        }
        if self.thread.get() != thread_number() {
            self.moved();
        }
        self.engine.with_context(|context: &Context<C>| {
            let txn = self.state();
            let outer = txn.context.replace(NonNull::from(context));
            let _lent = Lent(txn, outer);
            f(txn)
        })
    }

    /// Runs a future of the transaction's own operations, which end at their first poll.
    pub(crate) fn now<'t, F: Future>(&'t self, f: impl FnOnce(&'t Txn<C>) -> F) -> F::Output {
        self.lend(|_| {
            let mut future = pin!(f(self.txn()));
            match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
                Poll::Ready(output) => output,
                Poll::Pending => unreachable!("operations run in place do not suspend"),
            }
        })
    }

    pub(crate) fn txn(&self) -> &Txn<C> {
        Txn::of(self.state())
    }

    /// Returns a value like [`Txn::get`](crate::Txn::get).
    pub fn get<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Result<Option<V::View<'_>>> {
        self.now(|txn| txn.get(table, key))
    }

    /// Reads and locks a row like [`Txn::get_for_update`](crate::Txn::get_for_update). While it waits, the thread is
    /// blocked. Do not hold the row in another transaction of the same thread: it could not be released before the
    /// time is over.
    pub fn get_for_update<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Result<Option<V::View<'_>>> {
        self.now(|txn| txn.get_for_update(table, key))
    }

    /// Reads several values like [`Txn::get_many`](crate::Txn::get_many).
    pub fn get_many<K: Key, V: Value + ?Sized, A: AsKey<K>, const N: usize>(
        &self,
        table: Table<K, V>,
        keys: &[A; N],
    ) -> Result<[Option<V::View<'_>>; N]> {
        self.now(|txn| txn.get_many(table, keys))
    }

    /// Reads any number of values like [`Txn::get_into`](crate::Txn::get_into).
    pub fn get_into<'t, K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &'t self,
        table: Table<K, V>,
        keys: &[A],
        out: &mut [Option<V::View<'t>>],
    ) -> Result<()> {
        self.now(|txn| txn.get_into(table, keys, out))
    }

    /// Returns true if there is a value, like [`Txn::contains`](crate::Txn::contains).
    pub fn contains<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Result<bool> {
        self.now(|txn| txn.contains(table, key))
    }

    /// Sets a value like [`Txn::put`](crate::Txn::put).
    pub fn put<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'_>,
    ) -> Result<()> {
        self.now(|txn| txn.put(table, key, value))
    }

    /// Adds a value like [`Txn::insert`](crate::Txn::insert).
    pub fn insert<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'_>,
    ) -> Result<()> {
        self.now(|txn| txn.insert(table, key, value))
    }

    /// Replaces a value like [`Txn::update`](crate::Txn::update).
    pub fn update<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'_>,
    ) -> Result<bool> {
        self.now(|txn| txn.update(table, key, value))
    }

    /// Removes a value like [`Txn::delete`](crate::Txn::delete).
    pub fn delete<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Result<bool> {
        self.now(|txn| txn.delete(table, key))
    }

    /// Updates a row at the commit, like [`Txn::update_at_commit`](crate::Txn::update_at_commit).
    pub fn update_at_commit<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        update: impl FnOnce(Option<V::View<'_>>, NewValue<'_, V>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.lend(|_| self.txn().update_at_commit(table, key, update))
    }

    /// Adds to a number at the commit, like [`Txn::add`](crate::Txn::add).
    pub fn add<K: Key + 'static, V: Number>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        amount: V,
    ) -> Result<()> {
        self.lend(|_| self.txn().add(table, key, amount))
    }

    /// Scans a range of keys like [`Txn::scan`](crate::Txn::scan). [`OwnedRows::next`] returns its rows.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let tx = db.begin()?;
    /// tx.put(t, 1, 10)?;
    /// tx.put(t, 2, 20)?;
    /// let mut rows = tx.scan(t, 1..).reverse();
    /// assert_eq!(rows.next()?, Some((2, 20)));
    /// assert_eq!(rows.next()?, Some((1, 10)));
    /// assert_eq!(rows.next()?, None);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> OwnedRows<'_, K, V, C> {
        OwnedRows { rows: self.txn().scan(table, range), of: self }
    }

    /// Scans in the order of the index, like [`Txn::walk`](crate::Txn::walk).
    pub(crate) fn walk<K: Key, V: Value + ?Sized>(
        &self,
        table: Result<&TableInner, Fault>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> OwnedRows<'_, K, V, C> {
        OwnedRows { rows: self.txn().walk(table, from, to), of: self }
    }

    /// Scans all rows like [`Txn::scan_all`](crate::Txn::scan_all).
    pub fn scan_all<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> OwnedRows<'_, K, V, C> {
        OwnedRows { rows: self.txn().scan_all(table), of: self }
    }

    /// Scans the rows with a prefix like [`Txn::scan_prefix`](crate::Txn::scan_prefix).
    pub fn scan_prefix<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        prefix: &[u8],
    ) -> OwnedRows<'_, K, V, C> {
        OwnedRows { rows: self.txn().scan_prefix(table, prefix), of: self }
    }

    /// Declares that it will not write, like [`Txn::declare_read_only`](crate::Txn::declare_read_only).
    pub fn declare_read_only(&self) {
        self.lend(TxnState::declare_read_only);
    }

    /// Declares partitions like [`Txn::declare_partitions`](crate::Txn::declare_partitions). The thread waits only
    /// for moments. Then the call returns [`Error::Conflict`](crate::Error::Conflict).
    pub fn declare_partitions(&self, partitions: impl IntoIterator<Item = Partition>) -> Result<()> {
        self.now(|txn| txn.declare_partitions(partitions))
    }

    /// Returns the timestamp of its snapshot, like [`Txn::snapshot_timestamp`](crate::Txn::snapshot_timestamp).
    pub fn snapshot_timestamp(&self) -> u64 {
        self.txn().snapshot_timestamp()
    }

    /// Keeps its changes out of the log, for changes that follow from rows that exist already.
    pub(super) fn leave_out_of_log(&self) {
        self.state().durability.set(Durability::None);
    }

    /// Chooses when it is acknowledged, like [`Txn::set_durability`](crate::Txn::set_durability).
    pub fn set_durability(&self, durability: Durability) -> Result<()> {
        self.txn().set_durability(durability)
    }

    /// Runs an async closure written for `run` in this transaction. It may await only the transaction's operations.
    /// Awaiting anything else returns [`Error::WouldWait`].
    pub fn with<R>(&self, f: impl AsyncFnOnce(&Txn<C>) -> Result<R>) -> Result<R> {
        self.lend(|txn| {
            let mut future = pin!(f(Txn::of(txn)));
            match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(Error::WouldWait),
            }
        })
    }

    /// Commits the transaction. Its changes become visible to transactions that begin from now on. Waits until they
    /// are durable, with everything that the transaction has seen, unless its durability says otherwise.
    pub fn commit(mut self) -> Result<()> {
        self.commit_in_place()
    }

    pub(super) fn commit_in_place(&mut self) -> Result<()> {
        self.state().end_operations();
        // The updates are foreign code. If one panics, the transaction is dropped while it is open, and undone.
        let updated = self.state().has_at_commits().then(|| self.now(|txn| commit_with_updates(txn.state())));
        self.is_open = false;
        let held_until = self.lend(|txn| {
            let ended = match updated.unwrap_or_else(|| txn.commit_or_post().expect("in place")) {
                Ok(()) => {
                    txn.after_commit();
                    txn.count_commit(None);
                    Ok(txn.held_until.take())
                }
                Err(fault) => {
                    let error = txn.commit_error(fault);
                    txn.abort();
                    txn.count_failure(&error);
                    Err(error)
                }
            };
            self.engine.tidy_after(txn.context());
            ended
        })?;
        self.wait_for_log(held_until)
    }

    fn wait_for_log(&self, held_until: u64) -> Result<()> {
        match self.engine.log.get() {
            Some(log) if held_until > 0 => log.wait(Lsn(held_until)),
            _ => Ok(()),
        }
    }

    /// Undoes the transaction after an error of its closure, and returns the resulting error, as for a closure of
    /// `Database::run`. That is a conflict if the transaction's reads do not fit together. Otherwise it is the error
    /// itself, once what the error rests on is durable.
    pub(super) fn fail_in_place(&mut self, error: Error) -> Error {
        let error = self.now(|txn| validate(txn.state(), error));
        self.is_open = false;
        let held_until = self.lend(|txn| {
            txn.after_failure(&error);
            txn.abort();
            txn.count_failure(&error);
            self.engine.tidy_after(txn.context());
            txn.held_until.take()
        });
        self.wait_for_log(held_until).err().unwrap_or(error)
    }

    /// Counts and emits that this transaction, which has been undone, has failed because of other transactions, if it
    /// has. It is not run again.
    pub(super) fn tell_given_up(&self, error: &Error, retries: u32) {
        self.lend(|txn| txn.tell_given_up(error, retries));
    }

    /// Waits a little for the transaction that was in the way of this undone transaction. Returns true if it is still
    /// open then.
    pub(super) fn is_blocked_for_long(&self) -> bool {
        self.lend(|txn| {
            let mut backoff = Backoff::new();
            for _ in 0..LOOKS_AT_HOLDER_MAX {
                if !txn.is_blocked() {
                    return false;
                }
                backoff.wait();
            }
            true
        })
    }

    /// Waits for the transaction that was in the way of this undone transaction. Returns false if it is no longer
    /// open. Transactions that wait for its row take turns. Returns [`Error::LockTimeout`] if it stays open for
    /// longer than the options allow.
    pub(super) fn await_blocker(&self) -> Result<bool> {
        debug_assert!(!self.is_open, "a transaction that holds rows may close a cycle");
        self.lend(|txn| {
            let Some(mut line) = blocked_wait(txn) else { return Ok(false) };
            line.poll(&mut std::task::Context::from_waker(Waker::noop()))?; // in place: the wait is over then
            Ok(true)
        })
    }

    /// Undoes the transaction, as dropping it does.
    pub fn abort(self) {
        drop(self);
    }
}

impl<C: ConcurrencyControl> Drop for Transaction<C> {
    fn drop(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.lend(|txn| {
                txn.abort();
                self.engine.tidy_after(txn.context());
            });
        }
        if let Some(state) = self.state.take() {
            state.txn.ended();
            drop(self.engine.spare_states.give_back(state));
        }
    }
}

fn set_interactive<C: ConcurrencyControl>(txn: &TxnState<C>, since_ns: u64) {
    // SAFETY: not borrowed outside of single calls.
    let scheme = unsafe { &*txn.scheme.get() };
    C::set_interactive(txn.shared(), scheme, since_ns);
}

fn interactive_since<C: ConcurrencyControl>(txn: &TxnState<C>) -> Option<u64> {
    // SAFETY: as above.
    let scheme = unsafe { &*txn.scheme.get() };
    C::interactive_since(txn.shared(), C::place(scheme))
}

/// The rows of a [`Transaction::scan`](crate::Transaction::scan).
pub struct OwnedRows<'t, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    rows: Rows<'t, K, V, C>,
    of: &'t Transaction<C>,
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> fmt::Debug for OwnedRows<'_, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> OwnedRows<'t, K, V, C> {
    /// Reverses the order, like [`Rows::reverse`].
    pub fn reverse(self) -> Self {
        OwnedRows { rows: self.rows.reverse(), of: self.of }
    }

    /// Limits the number of rows, like [`Rows::limit`].
    pub fn limit(self, rows: usize) -> Self {
        OwnedRows { rows: self.rows.limit(rows), of: self.of }
    }

    /// Returns the next row, or `None` at the end.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and an iterator's item would say so twice"
    )]
    pub fn next(&mut self) -> Result<Option<(K, V::View<'t>)>> {
        let rows = &mut self.rows;
        match rows.take_pair() {
            Some(Ok(row)) => row,
            Some(Err(refused)) => Err(self.of.lend(|_| rows.refuse_last(refused))),
            None => self.of.now(move |_| rows.next()),
        }
    }

    /// Calls `f` for each row left, like [`Rows::for_each`]. `f` may call the transaction.
    pub fn for_each(&mut self, f: impl FnMut(K, V::View<'t>)) -> Result<()> {
        let rows = &mut self.rows;
        self.of.now(move |_| rows.for_each(f))
    }

    /// Calls `f` for each row left until it fails, like [`Rows::try_for_each`].
    pub fn try_for_each(&mut self, f: impl FnMut(K, V::View<'t>) -> Result<()>) -> Result<()> {
        let rows = &mut self.rows;
        self.of.now(move |_| rows.try_for_each(f))
    }

    /// Reads the next rows into `chunk`, like [`Rows::next_chunk`].
    pub fn next_chunk(&mut self, chunk: &mut Vec<(K, V::View<'t>)>) -> Result<bool> {
        let rows = &mut self.rows;
        self.of.now(move |_| rows.next_chunk(chunk))
    }
}
