//! What all transactions of a database share ([`Engine`]), and what each worker brings to them ([`Context`]).

use super::log::Log;
use super::spares::Spares;
use super::tables::Tables;
use super::waiter::Waiter;
use crate::cc::{ConcurrencyControl, Env, Mistake, NotBegun, OPEN_TRANSACTIONS_MAX, Unlogged};
use crate::epoch::{Epochs, Local};
use crate::error::{Error, Result};
use crate::events::{IS_ON, event, text};
use crate::exec::{ConflictQueue, Execution, SharedLevel};
use crate::index::{Nodes, TableIndex};
use crate::memory::{Kind, Memory, OutOfMemory, Slab};
use crate::metrics::{ArchiveStatistics, Clock, Metrics, Stall, Statistics, WorkerMetrics};
use crate::options::Options;
use crate::profile::Profile;
use crate::record::{RECORD_BYTES, Record, RecordId};
use crate::sync::Fixed;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::table::{Description, TableInner, TableKind, TableState};
use crate::wal::{self, Changes, Lsn};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The limit for each kind of index.
const NODES_MAX: u32 = 1 << 30;
const RECORDS_MAX: u32 = u32::MAX - 1;
/// A worker that makes no progress for this long is not merely waiting for its core.
const STALL_NS: u64 = 100_000_000;
/// The least time between two events that report the memory limit.
const FULL_TOLD_NS: u64 = 1_000_000_000;

/// The shared part of a database: memory, tables, the scheme. Threads and inboxes belong to the database itself.
pub(crate) struct Engine<C: ConcurrencyControl> {
    /// States of interactive transactions that have ended, for reuse. This module does not know their type. The field
    /// is declared first because the states must be dropped before what they point to.
    pub(crate) spare_states: Spares<Box<dyn Any + Send>>,
    pub(crate) id: u64,
    pub(crate) options: Options,
    pub(crate) memory: Arc<Memory>,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) records: Arc<Slab>,
    pub(crate) nodes: Nodes,
    pub(crate) shared: C::Shared,
    /// The log of commits. Set when a durable database has been recovered.
    pub(crate) log: OnceLock<Log>,
    /// The outcome of archiving segments of the log.
    pub(crate) archive_statistics: Arc<Mutex<ArchiveStatistics>>,
    /// True if transactions can only read. Set before the first transaction begins.
    is_read_only: AtomicBool,
    /// True if the database is closed. What has begun may continue.
    is_closed: AtomicBool,
    /// Held while a table is frozen, thawed, cleared or dropped.
    pub(crate) freezing: Mutex<()>,
    /// Tables never move, because transactions hold their addresses.
    pub(crate) tables: Mutex<Tables>,
    /// Contexts for interactive transactions. One operation at a time uses a context. A closed database keeps none,
    /// because contexts hold the engine.
    spare_contexts: Spares<Fixed<Context<C>>>,
    pub(crate) epochs: Arc<Epochs>,
    /// The last epoch that was noticed, and the clock's time then.
    epoch_noticed: Mutex<(u64, u64)>,
    /// How many contexts have been made. Contexts are numbered by this.
    contexts: AtomicUsize,
    /// How many transaction states have been made. States are numbered by this.
    pub(crate) states: AtomicU32,
    /// The bits of what a worker has learnt last, for new workers to start from. 0 means nothing.
    pub(crate) known: AtomicU32,
    /// The level that workers share when they conflict with each other.
    pub(crate) shared_level: Arc<SharedLevel>,
    /// True if workers record where their time goes.
    pub(crate) profiling: Arc<AtomicBool>,
    /// Until this time, no further event reports that memory is used up.
    full_told_until_ns: AtomicU64,
}

impl<C: ConcurrencyControl> Engine<C> {
    pub(crate) fn new(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        // An id is never used twice, so the id in a table handle identifies the handle's database for good. The counter
        // belongs to the process and is no part of what a model checker sees.
        static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let memory = Memory::new(options.memory_limit_bytes);
        let out_of_memory = |_: OutOfMemory| Error::OutOfMemory { limit_bytes: options.memory_limit_bytes };
        let records = Slab::reserve(&memory, Kind::Records, RECORD_BYTES, RECORDS_MAX)
            .map(Arc::new)
            .map_err(out_of_memory)?;
        Ok(Arc::new(Engine {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed), // only uniqueness counts
            shared: C::open(records.clone(), memory.clone(), options.lab),
            log: OnceLock::new(),
            archive_statistics: Arc::default(),
            is_read_only: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            metrics: Metrics::default(),
            clock,
            freezing: Mutex::default(),
            tables: Mutex::default(),
            spare_contexts: Spares::default(),
            spare_states: Spares::default(),
            epochs: Epochs::new(),
            epoch_noticed: Mutex::default(),
            contexts: AtomicUsize::new(0),
            states: AtomicU32::new(1),
            known: AtomicU32::new(0),
            shared_level: Arc::default(),
            profiling: Arc::default(),
            full_told_until_ns: AtomicU64::new(0),
            nodes: Nodes::new(&memory, NODES_MAX),
            memory,
            records,
            options,
        }))
    }

    /// From now on, transactions that begin cannot write, and no table can be made.
    pub(crate) fn forbid_writes(&self) {
        // Relaxed: threads that begin transactions receive the engine afterwards.
        self.is_read_only.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    /// From now on nothing begins. Without a log, no transaction that has written commits either.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release); // pairs with the Acquire in `is_closed`
        // A commit that draws its time after this sees that the database is closed. All other commits are in the
        // checkpoint that may follow.
        C::advance(&self.shared);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) // pairs with the Release in `close`
    }

    /// Returns [`Error::Closed`] if the database is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the engine, for what lives beside its database, or [`Error::Closed`] if the database is closed or gone.
    pub(crate) fn of_open(engine: &Weak<Self>) -> Result<Arc<Self>> {
        let engine = engine.upgrade().ok_or(Error::Closed)?;
        engine.check_open().map(|()| engine)
    }

    /// Makes the part of the engine that belongs to one worker.
    pub(crate) fn context(self: &Arc<Self>) -> Fixed<Context<C>> {
        let metrics = self.metrics.worker();
        Fixed::new(Context {
            local: Local::new(&self.epochs, &self.memory),
            worker: C::worker(&self.shared),
            profile: Profile::new(self.profiling.clone(), metrics.profile.clone()),
            metrics,
            changes: RefCell::new(Changes::of_appender(self.contexts.fetch_add(1, Ordering::Relaxed))), // only difference counts
            last_commit: Cell::new(0),
            execution: Cell::new(Execution::Prefetching),
            may_interleave: Cell::new(false),
            longs: Cell::new(0),
            ended: Cell::new(0),
            work: Cell::new(0),
            awaited_at: Cell::new(None),
            waits_from_ns: Cell::new(0),
            turns: RefCell::new(ConflictQueue::new()),
            engine: self.clone(),
        })
    }

    /// Runs `f` with a spare context that has entered.
    pub(crate) fn with_context<R>(self: &Arc<Self>, f: impl FnOnce(&Context<C>) -> R) -> R {
        /// Gives the context back, also when `f` panics.
        struct Entered<'e, C: ConcurrencyControl>(&'e Engine<C>, Option<Fixed<Context<C>>>);
        impl<C: ConcurrencyControl> Drop for Entered<'_, C> {
            fn drop(&mut self) {
                let Some(context) = self.1.take() else { return };
                context.leave();
                context.local.entrust();
                drop(self.0.spare_contexts.give_back(context));
            }
        }
        let spare = self.spare_contexts.take().unwrap_or_else(|| self.context());
        let entered = Entered(self, Some(spare));
        let context = entered.1.as_deref().expect("put there just now");
        context.enter();
        f(context)
    }

    /// Cleans up after interactive transactions. Returns true if there is more to do.
    pub(crate) fn maintain(&self) -> bool {
        let mut more = false;
        self.spare_contexts
            .visit_all(|context| context.has_remains(), |context| more |= context.tidy_alone());
        more
    }

    /// Cleans up after a transaction that has ended with this context. Some calls also clean up spare contexts of other
    /// threads, because those threads may not come back.
    pub(crate) fn tidy_after(&self, context: &Context<C>) {
        /// One call in this many visits spare contexts.
        const VISIT_EACH: u32 = 16;
        context.tidy();
        context.ended.update(|n| n.wrapping_add(1));
        if context.ended.get().is_multiple_of(VISIT_EACH) {
            self.spare_contexts.visit_some(|context| context.has_remains(), |other| _ = other.tidy_alone());
        }
    }

    /// Checks whether reclamation makes progress. Returns the workers that have delayed it for at least [`STALL_NS`].
    #[cold]
    pub(crate) fn notice_stalls(&self) -> Vec<Stall> {
        let (epoch, awaited) = self.epochs.awaited();
        let now_ns = self.clock.now_ns();
        let mut noticed = self.epoch_noticed.lock().expect("no panic while it is held");
        if noticed.0 != epoch {
            *noticed = (epoch, now_ns);
        }
        let for_ns = now_ns.saturating_sub(noticed.1);
        let stalled = awaited.into_iter().filter(|_| for_ns >= STALL_NS);
        stalled.map(|thread| Stall { thread, for_ns }).collect()
    }

    /// Returns the position up to which the log must be durable before a transaction that ends now is acknowledged. 0
    /// means that the log is already durable that far. Everything that the transaction has seen was appended before its
    /// own record, which ends at `end_lsn`. If it has no record (0), everything was appended before now.
    #[inline(always)]
    pub(crate) fn hold(&self, end_lsn: Lsn) -> u64 {
        let Some(log) = self.log.get() else { return 0 };
        let until = if end_lsn == Lsn(0) { log.writer.appended_lsn() } else { end_lsn };
        if log.writer.durable_lsn() >= until { 0 } else { until.0 }
    }

    /// Like `hold`, for a transaction that has committed. If the disk is slow and the transaction has changed nothing,
    /// this returns 0 when everything that the transaction has seen is durable, even if later appended records are not.
    #[inline(always)]
    pub(crate) fn hold_committed(&self, end_lsn: Lsn, txn: &C::Txn) -> u64 {
        match self.hold(end_lsn) {
            until if until > 0 && end_lsn == Lsn(0) && self.has_seen_settled(txn) => 0,
            until => until,
        }
    }

    #[inline(always)]
    fn has_seen_settled(&self, txn: &C::Txn) -> bool {
        let Some(log) = self.log.get().filter(|log| log.writer.is_slow()) else { return false };
        // The order matters: what the transaction has seen had been appended by then, so `settled_before` does not
        // overlook it.
        C::newest_seen(&self.shared, txn) < log.writer.settled_before()
    }

    /// Makes an empty table with this number, which is in no list yet.
    pub(crate) fn new_table(
        &self,
        number: u32,
        kind: TableKind,
        description: Description,
    ) -> Result<TableInner> {
        TableInner::new(
            &self.nodes,
            &self.records,
            number,
            (kind, description),
            C::makes(Mistake::LostStamps),
        )
        .map_err(|OutOfMemory| self.out_of_memory())
    }

    /// Returns the memory of record `id`. The record may belong to any table.
    pub(crate) fn record(&self, id: RecordId) -> *const Record {
        self.records.at(id.0).cast_const().cast()
    }

    /// Returns the id of the record with this memory.
    pub(crate) fn id_of(&self, record: *const Record) -> RecordId {
        let id = (record.addr() - self.records.at(0).addr()) / size_of::<Record>();
        debug_assert_eq!(self.record(RecordId(id as u32)), record, "a record of this database");
        RecordId(id as u32)
    }

    /// Returns all tables that are not dropped, in the order of their numbers.
    pub(crate) fn all_tables(&self) -> Vec<&TableInner> {
        let tables = self.tables.lock().expect("no panic while it is held");
        tables.there().map(|table| self.outlasting(table)).collect()
    }

    /// Returns the table with this number if the database knows it. A dropped table is known for as long as the log may
    /// mention it.
    pub(crate) fn table(&self, number: u32) -> Option<&TableInner> {
        let tables = self.tables.lock().expect("no panic while it is held");
        tables.get(number).map(|table| self.outlasting(table))
    }

    /// Returns the table with this name.
    pub(crate) fn table_named(&self, name: &str) -> Option<&TableInner> {
        let tables = self.tables.lock().expect("no panic while it is held");
        tables.find(name).map(|table| self.outlasting(table))
    }

    /// Returns true if a table has ever been made, even if it was dropped since.
    pub(crate) fn has_had_tables(&self) -> bool {
        self.tables.lock().expect("no panic while it is held").next() > 0
    }

    /// Returns a table of the list without the list's lock.
    fn outlasting<'e>(&'e self, table: &TableInner) -> &'e TableInner {
        // SAFETY: tables stay where they are, and none is removed while the engine exists.
        unsafe { NonNull::from(table).as_ref() }
    }

    /// Returns the present name of the table with this number, for events.
    pub(crate) fn name_of(&self, number: u32) -> String {
        self.table(number).map(TableInner::name).unwrap_or_default()
    }

    /// Returns the present name of the table or secondary index whose keys this index maps.
    #[cold]
    pub(crate) fn name_of_index(&self, index: *const TableIndex) -> String {
        let is_it = |table: &TableInner| std::ptr::eq(&raw const table.index, index);
        let named = self.all_tables().into_iter().find_map(|table| {
            let mut tables = std::iter::once(table).chain(table.indexes.iter().map(|index| &index.entries));
            tables.find(|table| is_it(table)).map(TableInner::name)
        });
        named.unwrap_or_default()
    }

    /// Returns all tables in the order of their numbers, with their descriptions at one moment, and the result of `f`,
    /// which is called at the same moment. Dropped tables that the log may mention are included, and so is the last
    /// table. The descriptions are of one moment because a name passes from one table to another in several steps.
    pub(crate) fn described_tables<R>(&self, f: impl FnOnce() -> R) -> (R, Vec<(&TableInner, Description)>) {
        let mut tables = self.tables.lock().expect("no panic while it is held");
        // Nothing can be forgotten from a log that is only read.
        let (oldest, end) = match self.log.get().map(|log| &log.writer) {
            Some(writer) => (writer.oldest_lsn(), writer.appended_lsn()),
            None if self.is_read_only() => (Lsn(0), Lsn(u64::MAX)),
            None => (Lsn(u64::MAX), Lsn(0)),
        };
        let result = f();
        let dropped: Vec<_> = tables.forget(oldest, end).map(|table| self.outlasting(table)).collect();
        let mut all: Vec<_> = tables.there().map(|table| self.outlasting(table)).chain(dropped).collect();
        all.sort_unstable_by_key(|table| table.number());
        (result, all.into_iter().map(|table| (table, table.description().clone())).collect())
    }

    /// Puts a table whose rows have been deleted into use again.
    pub(crate) fn use_again(&self, table: &TableInner) {
        let _unchanged = self.tables.lock().expect("no panic while it is held");
        table.description().state = TableState::InUse;
    }

    /// Waits until the present flush of the log has ended. Returns false if there is no flush to wait for.
    #[cold]
    pub(crate) fn await_flush(&self) -> bool {
        let Some(log) = self.log.get().filter(|log| !log.is_stepped) else { return false };
        let durable = log.writer.durable_lsn();
        durable < log.writer.appended_lsn() && log.writer.wait_settled(Lsn(durable.0 + 1)).is_ok()
    }

    /// Returns the error for a commit that the log has refused, or that came after the end of the log.
    #[cold]
    pub(crate) fn unlogged(&self, why: Unlogged) -> Error {
        let Some(log) = self.log.get().map(|log| &log.writer) else { return Error::Closed };
        match (why, log.refusal()) {
            (Unlogged::TooLong, _) => Error::TransactionTooLarge { bytes_max: log.record_bytes_max() },
            (Unlogged::Full, Some(cause)) => Error::Log(cause),
            // The log has room again.
            (Unlogged::Full, None) => Error::Conflict,
            (Unlogged::Stopped, Some(cause @ wal::Error::Stopped(_))) => Error::Log(cause),
            (Unlogged::Stopped, _) => Error::Closed,
        }
    }

    #[cold]
    pub(crate) fn not_begun(&self, why: NotBegun) -> Error {
        match why {
            NotBegun::TooMany => Error::TooManyTransactions { open_max: OPEN_TRANSACTIONS_MAX },
            NotBegun::OutOfMemory => self.out_of_memory(),
            NotBegun::WaitTimeout => Error::Conflict,
        }
    }

    #[cold]
    pub(crate) fn out_of_memory(&self) -> Error {
        Error::OutOfMemory { limit_bytes: self.memory.limit_bytes() }
    }

    /// Counts and reports a transaction that has failed because of others and is not run again. Does nothing for other
    /// errors.
    #[cold]
    pub(crate) fn tell_given_up(&self, metrics: &WorkerMetrics, error: &Error, retries: u32) {
        if matches!(error, Error::Conflict | Error::Deadlock(_) | Error::LockTimeout(_)) {
            metrics.given_up.add(1);
            event!(
                DEBUG,
                TRANSACTION,
                "transaction given up because of others",
                database = self.id,
                retries = retries,
                error = text(error)
            );
        }
    }

    /// Reports that a transaction has failed for lack of memory. Reports at most once per second, because many
    /// transactions fail then.
    #[cold]
    pub(crate) fn tell_out_of_memory(&self) {
        if !IS_ON {
            return;
        }
        // Relaxed: only the number counts.
        let (now_ns, until_ns) = (self.clock.now_ns(), self.full_told_until_ns.load(Ordering::Relaxed));
        if now_ns >= until_ns {
            self.full_told_until_ns.store(now_ns.saturating_add(FULL_TOLD_NS), Ordering::Relaxed);
            event!(
                WARN,
                TRANSACTION,
                "a transaction has failed at the memory limit",
                database = self.id,
                limit_bytes = self.memory.limit_bytes(),
                used_bytes = self.data_bytes()
            );
        }
    }

    /// Drops the spare contexts, which hold the engine, and the spare states, which belong to its transactions.
    pub(crate) fn drop_spares(&self) {
        self.spare_contexts.close();
        self.spare_states.close();
    }
}

/// A worker's part of the engine: epoch and memory, the scheme's part, metrics.
pub(crate) struct Context<C: ConcurrencyControl> {
    pub(crate) local: Local,
    pub(crate) worker: C::Worker,
    pub(crate) metrics: Arc<WorkerMetrics>,
    /// Where the worker's time goes. Off in contexts that belong to no worker.
    pub(crate) profile: Profile,
    /// What the last commit has appended to the log. The memory is reused.
    pub(crate) changes: RefCell<Changes>,
    /// The place of the last commit in the order of all commits.
    pub(crate) last_commit: Cell<u64>,
    /// How transactions in slots run.
    pub(crate) execution: Cell<Execution>,
    /// True if transactions that run in place may continue through operation slots, because the worker's policy steps
    /// these.
    pub(crate) may_interleave: Cell<bool>,
    /// How many open transactions are long.
    pub(crate) longs: Cell<usize>,
    /// How many interactive transactions have ended with this context.
    ended: Cell<u32>,
    /// How much work ended transactions have done, in operations.
    pub(crate) work: Cell<u64>,
    /// The epoch in which a transaction has waited for memory for the whole bound and got none.
    pub(crate) awaited_at: Cell<Option<u64>>,
    /// Until this time, no transaction that meets the memory limit waits, because another transaction has waited and
    /// got nothing.
    pub(crate) waits_from_ns: Cell<u64>,
    /// The order of submitted transactions with hints: which waits for which.
    pub(crate) turns: RefCell<ConflictQueue<Arc<Waiter>>>,
    pub(crate) engine: Arc<Engine<C>>,
}

impl<C: ConcurrencyControl> Context<C> {
    /// Returns what a scheme works with.
    #[inline(always)]
    pub(crate) fn env(&self) -> Env<'_, C> {
        Env { shared: &self.engine.shared, worker: &self.worker, local: &self.local }
    }

    pub(crate) fn enter(&self) {
        self.local.enter();
        C::enter(self.env());
    }

    /// Does the cleanup that is due. Returns true if there is more.
    fn tidy(&self) -> bool {
        const PASSES_MAX: usize = 16;
        let has_garbage = C::garbage(&self.engine.shared, &self.worker) > 0;
        let more = has_garbage && (0..PASSES_MAX).all(|_| C::maintain(self.env()));
        self.local.refresh(None);
        if self.local.has_much_retired() {
            self.engine.notice_stalls();
        }
        more
    }

    /// Like `tidy`, for a context that no operation uses.
    fn tidy_alone(&self) -> bool {
        self.enter();
        let more = self.tidy();
        self.leave();
        // Retired memory is due when the other participants have moved on.
        self.local.refresh(None);
        more || self.local.pending() > 0
    }

    /// Returns true if the context has something to clean up.
    fn has_remains(&self) -> bool {
        C::garbage(&self.engine.shared, &self.worker) + self.local.pending() > 0
    }

    pub(crate) fn leave(&self) {
        C::leave(self.env());
        self.local.leave();
    }
}

impl<C: ConcurrencyControl> Drop for Context<C> {
    fn drop(&mut self) {
        C::retire(&self.engine.shared, &mut self.worker);
    }
}

impl<C: ConcurrencyControl> Engine<C> {
    /// Returns how many bytes rows and their keys take in memory.
    pub(crate) fn data_bytes(&self) -> u64 {
        [Kind::Index, Kind::Records, Kind::Versions].map(|kind| self.memory.used_bytes(kind)).iter().sum()
    }

    /// Returns the sum of the metrics, and where memory is used.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = self.metrics.sum();
        let used = |kind| self.memory.used_bytes(kind);
        statistics.stalls = self.notice_stalls();
        statistics.memory.index_bytes = used(Kind::Index);
        statistics.memory.records_bytes = used(Kind::Records);
        statistics.memory.versions_bytes = used(Kind::Versions);
        statistics.memory.transactions_bytes = used(Kind::Transactions);
        statistics.memory.other_bytes = used(Kind::Other);
        statistics.memory.limit_bytes = Some(self.memory.limit_bytes()).filter(|limit| *limit < u64::MAX);
        // A place that is kept for a table's next record holds no record now.
        let kept = self.all_tables().iter().map(|table| table.index.kept().len()).sum();
        statistics.memory.records = self.records.used().saturating_sub(kept);
        statistics.memory.nodes = self.nodes.used();
        statistics.locks_awaited = C::waits(&self.shared).waiting() as u64;
        statistics.contention = C::contention(&self.shared);
        statistics.log = self.log.get().map(|log| log.writer.statistics()).unwrap_or_default();
        statistics.archive = self.archive_statistics.lock().expect("no panic while it is held").clone();
        statistics
    }
}
