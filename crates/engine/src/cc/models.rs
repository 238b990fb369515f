//! A bench for tests of schemes: a database of one table without executor and API, whose transactions a test takes
//! step by step.

use super::{
    Abort, Change, ConcurrencyControl, Declared, Env, Intent, LabOptions, Mistake, Refused, Target, Written,
};
use crate::epoch::{Epochs, Local};
use crate::index::{Front, Index, IndexKind, IndexOptions, Inserted, Key, Nodes, Probe, TableIndex};
use crate::memory::{Kind, Memory, Slab};
use crate::record::{RECORD_BYTES, Record, RecordId};
use crate::suspend::Never;
use crate::sync::Arc;
#[cfg(braid_shuttle)]
use {super::Holder, super::WaitStage, crate::sync::schedules};

/// The number of partitions of a bench.
pub(super) const PARTITIONS: u32 = 4;

/// A database of one table, without executor and API.
pub(super) struct Bench<C: ConcurrencyControl> {
    pub(super) shared: C::Shared,
    pub(super) index: TableIndex,
    pub(super) records: Arc<Slab>,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}

/// A worker of a bench, entered.
pub(super) struct Hand<'b, C: ConcurrencyControl> {
    pub(super) bench: &'b Bench<C>,
    pub(super) worker: C::Worker,
    pub(super) local: Local,
}

impl<C: ConcurrencyControl> Bench<C> {
    pub(super) fn new() -> Self {
        let memory = Memory::new(1 << 26);
        let records =
            Slab::reserve(&memory, Kind::Records, RECORD_BYTES, 4096).map(Arc::new).expect("addresses");
        let options =
            IndexOptions { kind: IndexKind::default(), front: Front::None, fixed8: true, number: 0 };
        let mut index = TableIndex::new(&Nodes::new(&memory, 4096), options).expect("memory");
        if C::makes(Mistake::LostStamps) {
            index.lose_stamps();
        }
        Bench {
            shared: C::open(
                records.clone(),
                memory.clone(),
                LabOptions { partitions: PARTITIONS, ..LabOptions::default() },
            ),
            index,
            records,
            epochs: Epochs::new(),
            memory,
        }
    }

    pub(super) fn hand(&self) -> Hand<'_, C> {
        let hand = Hand {
            bench: self,
            worker: C::worker(&self.shared),
            local: Local::new(&self.epochs, &self.memory),
        };
        hand.local.enter();
        C::enter(hand.env());
        hand
    }

    pub(super) fn record(&self, id: RecordId) -> *const Record {
        self.records.at(id.0).cast_const().cast()
    }
}

impl<C: ConcurrencyControl> Hand<'_, C> {
    pub(super) fn env(&self) -> Env<'_, C> {
        Env { shared: &self.bench.shared, worker: &self.worker, local: &self.local }
    }

    pub(super) fn begin(&self) -> C::Txn {
        let mut txn = C::txn(&self.bench.shared);
        let begun = C::begin(self.env(), &mut txn, Declared::default(), &mut Never);
        begun.expect("nothing to wait for").expect("room");
        txn
    }

    /// Begins an aborted transaction again.
    #[cfg(braid_shuttle)]
    pub(super) fn begin_again(&self, mut txn: C::Txn) -> C::Txn {
        C::abort(self.env(), &mut txn);
        let declared = Declared { is_retry: true, ..Declared::default() };
        let begun = C::begin(self.env(), &mut txn, declared, &mut Never);
        begun.expect("nothing to wait for").expect("room");
        txn
    }

    pub(super) fn find(&self, key: u64) -> Option<RecordId> {
        let key = Key::from_u64(key);
        let mut cursor = self.bench.index.start(&key);
        loop {
            // SAFETY: inside the hand's epoch.
            match unsafe { self.bench.index.step(&mut cursor, &key, &mut Never) } {
                Probe::Suspended => {}
                Probe::Absent => return None,
                Probe::Found(id) => return Some(id),
            }
        }
    }

    /// Inserts a new record, or changes the record under the key.
    pub(super) fn change(&self, txn: &mut C::Txn, key: u64, change: Change<'_>) -> Result<Written, Refused> {
        let (bench, index_key) = (self.bench, Key::from_u64(key));
        let target = |id| Target { index: &raw const bench.index, key: index_key, id };
        if let Some(id) = self.find(key) {
            // SAFETY: found inside the hand's epoch.
            return unsafe { C::write(self.env(), txn, bench.record(id), &target(id), change) };
        }
        let (Change::Put(value) | Change::Insert(value)) = change else { return Ok(Written::Absent) };
        let id = RecordId(bench.records.allocate()?);
        let record = bench.record(id).cast_mut();
        // SAFETY: just allocated.
        unsafe { C::create(self.env(), txn, record, value)? };
        let cursor = bench.index.start(&index_key);
        // SAFETY: inside the hand's epoch.
        match unsafe { bench.index.insert(&self.local, &cursor, &index_key, id)? } {
            Inserted::New => {
                // SAFETY: made by `create` just above.
                unsafe { C::created(txn, record, &target(id)) }.map_err(Refused::Abort)?;
                Ok(Written::Done)
            }
            Inserted::Exists(_) => {
                // SAFETY: not indexed.
                unsafe { C::discard(self.env(), record, &target(id)) };
                Ok(Written::Gone)
            }
        }
    }

    /// Makes one step of a read; `None`: the read has to wait.
    pub(super) fn try_read(&self, txn: &mut C::Txn, key: u64) -> Option<Option<Vec<u8>>> {
        let Some(id) = self.find(key) else {
            self.note_absent(txn, std::ptr::null(), key);
            return Some(None);
        };
        let (mut access, record) = (C::Access::default(), self.bench.record(id));
        // SAFETY: found inside the hand's epoch.
        if !unsafe { C::access(&mut access, record, Intent::Read, self.env(), txn, &mut Never) } {
            return None;
        }
        // SAFETY: the access has ended.
        let value = unsafe { C::value(&access, record, Intent::Read, txn) }.expect("reads never give way");
        if value.is_none() {
            self.note_absent(txn, record, key);
        }
        // SAFETY: the transaction is open.
        Some(value.map(|value| unsafe { &*value }.to_vec()))
    }

    fn note_absent(&self, txn: &mut C::Txn, record: *const Record, key: u64) {
        let (index, id) = (&raw const self.bench.index, RecordId(0));
        C::read_absent(txn, record, &Target { index, key: Key::from_u64(key), id });
    }

    pub(super) fn commit(&self, txn: C::Txn) {
        assert!(self.try_commit(txn, || unreachable!("no other is open")), "the commit failed");
    }

    /// Commits or aborts. `wait` lets other threads run.
    pub(super) fn try_commit(&self, mut txn: C::Txn, wait: impl Fn()) -> bool {
        let has_committed = self.try_commit_open(&mut txn, wait);
        if !has_committed {
            C::abort(self.env(), &mut txn);
        }
        C::drop_txn(&self.bench.shared, &mut txn);
        has_committed
    }

    /// Does the same, but a transaction that cannot commit stays open.
    pub(super) fn try_commit_open(&self, txn: &mut C::Txn, wait: impl Fn()) -> bool {
        let mut prepare = C::Prepare::default();
        let result: Result<u64, Abort> = loop {
            match C::prepare(&mut prepare, self.env(), txn, &mut Never) {
                Some(result) => break result,
                None => wait(),
            }
        };
        result.inspect(|at| C::finish(self.env(), txn, *at)).is_ok()
    }

    /// Commits if `is_made`, and aborts otherwise. Returns true if the transaction has committed.
    #[cfg(braid_shuttle)]
    pub(super) fn commit_if(&self, is_made: bool, txn: C::Txn) -> bool {
        if is_made {
            return self.try_commit(txn, shuttle::thread::yield_now);
        }
        self.abort(txn);
        false
    }

    pub(super) fn abort(&self, mut txn: C::Txn) {
        C::abort(self.env(), &mut txn);
        C::drop_txn(&self.bench.shared, &mut txn);
    }

    /// Makes one change in a transaction of its own.
    pub(super) fn commit_change(&self, key: u64, change: Change<'_>) {
        let mut txn = self.begin();
        assert_eq!(self.change(&mut txn, key, change), Ok(Written::Done));
        self.commit(txn);
    }

    /// Does the same, unless another transaction is in the way.
    #[cfg(braid_shuttle)]
    pub(super) fn commit_change_if_free(&self, key: u64, value: &[u8]) {
        let mut txn = self.begin();
        match self.change(&mut txn, key, Change::Put(value)) {
            Ok(_) => self.commit(txn),
            Err(_) => self.abort(txn),
        }
    }

    /// Reads until the read has ended.
    #[cfg(braid_shuttle)]
    pub(super) fn read_or_wait(&self, txn: &mut C::Txn, key: u64, wait: impl Fn()) -> Option<Vec<u8>> {
        loop {
            match self.try_read(txn, key) {
                Some(value) => return value,
                None => wait(),
            }
        }
    }

    /// Collects garbage until nothing more is due and what was retired is free.
    pub(super) fn clean(&self) {
        while C::maintain(self.env()) {}
        (0..6).for_each(|_| self.local.refresh(None));
    }
}

impl<C: ConcurrencyControl> Drop for Hand<'_, C> {
    fn drop(&mut self) {
        C::leave(self.env());
        self.local.leave();
        C::retire(&self.bench.shared, &mut self.worker);
    }
}

/// The number of schedules of each scheduler in which a model runs.
#[cfg(braid_shuttle)]
pub(super) const SCHEDULES: usize = 400;

/// The number of schedules in which a model certainly notices a planted error. Most errors need a few, the hardest ten
/// thousand.
#[cfg(braid_shuttle)]
pub(super) const PLANTED_SCHEDULES_MAX: usize = 1_000_000;

/// Runs a model in the schedules of one scheduler.
#[cfg(braid_shuttle)]
pub(super) fn check<S: shuttle::scheduler::Scheduler + 'static>(scheduler: S, run: fn()) {
    let mut config = shuttle::Config::new();
    config.stack_size = 512 << 10;
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(run);
}

/// Runs a model in random schedules, and in schedules with few switches.
#[cfg(braid_shuttle)]
pub(super) fn check_both(run: fn()) {
    check(shuttle::scheduler::RandomScheduler::new(schedules(SCHEDULES)), run);
    check(shuttle::scheduler::PctScheduler::new(3, schedules(SCHEDULES)), run);
}

/// Reads a record until the access has ended.
#[cfg(braid_shuttle)]
pub(super) fn read<C: ConcurrencyControl>(
    hand: &Hand<'_, C>,
    txn: &mut C::Txn,
    key: u64,
    intent: Intent,
) -> Result<Option<u8>, Refused> {
    let index = &raw const hand.bench.index;
    let target = |id| Target { index, key: Key::from_u64(key), id };
    let Some(id) = hand.find(key) else {
        if intent.is_read() {
            C::read_absent(txn, std::ptr::null(), &target(RecordId(0)));
        }
        return Ok(None);
    };
    let (mut access, record) = (C::Access::default(), hand.bench.record(id));
    // SAFETY: found inside the hand's epoch.
    while !unsafe { C::access(&mut access, record, intent, hand.env(), txn, &mut Never) } {
        shuttle::thread::yield_now();
    }
    // SAFETY: the access has ended.
    let value = unsafe { C::value(&access, record, intent, txn) }?;
    if value.is_none() && intent.is_read() {
        C::read_absent(txn, record, &target(id));
    }
    // SAFETY: the transaction is open.
    Ok(value.map(|value| unsafe { &*value }[0]))
}

/// Locks a key as operations do, and waits in the queue of its row. Returns false if the transaction must abort.
/// `looks`: the transaction looks at the row once more when it is in the queue.
#[cfg(braid_shuttle)]
pub(super) fn lock_in_queue<C: ConcurrencyControl>(
    hand: &Hand<'_, C>,
    txn: &mut C::Txn,
    key: u64,
    looks: bool,
) -> bool {
    let (shared, place) = (&hand.bench.shared, C::place(txn));
    let waits = C::waits(shared);
    let waker = std::task::Waker::from(Arc::new(Unpark(shuttle::thread::current())));
    let mut ticket = None;
    let is_locked = loop {
        let row = hand.find(key).expect("it is there");
        let record = hand.bench.record(row);
        // A newcomer joins the queue, if there is one.
        let holder = match ticket.is_none() && waits.has_queue(row) {
            // SAFETY: found inside the hand's epoch.
            true => unsafe { C::holder(shared, txn, record) },
            false => match try_lock(hand, txn, key) {
                Ok(None) => break true,
                Ok(holder) => holder,
                Err(_) => break false,
            },
        };
        if holder.is_some_and(|holder| holder.is_ending) {
            shuttle::thread::yield_now();
            continue;
        }
        let is_held = || {
            let Some(holder) = holder else { return false };
            match holder.is_shared() {
                true => waits.await_shares(),
                false => C::await_end(shared, holder.place),
            }
            // SAFETY: found inside the hand's epoch.
            let now = unsafe { C::holder(shared, txn, record) };
            !looks || now.is_some_and(|now| now.id == holder.id && !now.is_ending)
        };
        let by = holder.map(|holder| holder.place);
        match (ticket, by) {
            (Some(ticket), Some(by)) if waits.stay(ticket, by, is_held) == WaitStage::Deadlocked => {
                break false;
            }
            (Some(_), _) => {}
            (None, _) => match waits.join(row, place, by, u64::MAX, is_held) {
                Ok(joined) => ticket = Some(joined),
                Err(_) => break false,
            },
        }
        let ticket = ticket.expect("in the queue");
        let stage = loop {
            match waits.look(ticket, &waker) {
                WaitStage::Waiting => shuttle::thread::park(),
                stage => break stage,
            }
        };
        if stage == WaitStage::Deadlocked {
            break false;
        }
    };
    match ticket {
        Some(ticket) if is_locked => {
            if waits.took(ticket) {
                C::await_end(shared, place);
            }
        }
        Some(ticket) => waits.leave(ticket),
        None => {}
    }
    is_locked
}

/// Locks a key, or returns the transaction that has locked it.
#[cfg(braid_shuttle)]
fn try_lock<C: ConcurrencyControl>(
    hand: &Hand<'_, C>,
    txn: &mut C::Txn,
    key: u64,
) -> Result<Option<Holder>, Refused> {
    loop {
        match hand.change(txn, key, Change::Lock) {
            Ok(Written::Done) => return Ok(None),
            Ok(Written::Gone) => shuttle::thread::yield_now(),
            Ok(other) => unreachable!("the key is there: {other:?}"),
            Err(Refused::Held(holder)) => return Ok(Some(holder)),
            Err(refused) => return Err(refused),
        }
    }
}

/// Unparks a thread.
#[cfg(braid_shuttle)]
struct Unpark(shuttle::thread::Thread);

#[cfg(braid_shuttle)]
impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
