//! One transaction of a script on the engine: its closure, which performs what the cursor says, and what the stage
//! knows of it.

use super::gate::Gate;
use super::history::{Observed, Outcome};
use super::program::{Busy, Cursor, Operation, Place, Seen, Transaction, Turn};
use crate::leak::Leaks;
use braiddb::futures::Get;
use braiddb::{Claim, ConcurrencyControl, Error, Projection, Result, Savepoint, Table, Txn};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// A projection of a table's values.
pub(super) type Values<C> = Projection<u64, i64, (i64,), C>;

/// The distance between two keys of a script.
pub(super) const SPREAD: u64 = 1024;

/// Returns the engine's key for a script's key.
pub(super) fn engine_key(key: u32) -> u64 {
    u64::from(key) * SPREAD
}

/// The state that the stage and a transaction's closure share.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) gate: Gate,
    clock: Rc<Cell<u32>>,
    pub(super) observed: Rc<RefCell<Observed>>,
    /// The values that its updates at the commit have seen. Shared, because the functions of these updates may be
    /// called on any thread.
    looked: Arc<Mutex<Vec<Option<i64>>>>,
    /// An error that no scheme may return.
    fault: Rc<RefCell<Option<String>>>,
    /// True until the transaction has ended.
    pub(super) is_open: Rc<Cell<bool>>,
}

impl Actor {
    /// Makes the actor of a transaction that has not begun. Clock and fault are those of its run.
    pub(super) fn new(clock: &Rc<Cell<u32>>, fault: &Rc<RefCell<Option<String>>>) -> Actor {
        let observed = Observed {
            seen: Vec::new(),
            looked: Vec::new(),
            outcome: Outcome::Conflict,
            begins: 0,
            begun: 0,
            ends: 0,
            ended: 0,
        };
        Actor {
            gate: Gate::default(),
            clock: clock.clone(),
            observed: Rc::new(RefCell::new(observed)),
            looked: Arc::default(),
            fault: fault.clone(),
            is_open: Rc::new(Cell::new(true)),
        }
    }

    /// Notes that the transaction is about to begin. Returns false if it has begun already.
    pub(super) fn begins(&self) -> bool {
        let is_first = self.observed.borrow().begins == 0;
        if is_first {
            let now = self.now();
            self.observed.borrow_mut().begins = now;
        }
        is_first
    }

    fn now(&self) -> u32 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Notes that the transaction has ended.
    pub(super) fn end(&self, result: Result<()>) {
        let ended = self.now();
        let mut observed = self.observed.borrow_mut();
        observed.ended = ended;
        observed.looked.append(&mut self.looked.lock().unwrap_or_else(PoisonError::into_inner));
        match result {
            Ok(()) => observed.outcome = Outcome::Committed,
            Err(Error::Conflict | Error::Deadlock(_)) => observed.outcome = Outcome::Conflict,
            Err(Error::User(_) | Error::KeyExists) => observed.outcome = Outcome::GaveUp,
            Err(error) => *self.fault.borrow_mut() = Some(error.to_string()),
        }
        self.is_open.set(false);
    }
}

/// At least the number of a transaction's operation slots.
const PLACES: u64 = 8;

/// Takes all operation slots of the transaction, until the returned futures are polled again. Its other operations then
/// run where they are polled.
async fn take_places<C: ConcurrencyControl>(tx: &Txn<C>, table: Table<u64, i64>) -> Vec<Get<'_, i64, C>> {
    let mut reads: Vec<_> = (0..PLACES).map(|key| tx.get(table, key)).collect();
    poll_fn(|context| {
        reads.retain_mut(|read| Future::poll(Pin::new(read), context).is_pending());
        Poll::Ready(())
    })
    .await;
    reads
}

/// A transaction's closure. `idle` is a frozen table, if the operations are to run where they are polled. `leaks` is
/// what the transaction leaks, if it leaks.
pub(super) async fn act<C: ConcurrencyControl>(
    tx: &Txn<C>,
    transaction: &Transaction,
    (tables, columns): (&[Table<u64, i64>], &[Values<C>]),
    declared: &[u32],
    (idle, leaks): (Option<Table<u64, i64>>, Option<&Leaks>),
    actor: &Actor,
) -> Result<()> {
    let begun = actor.now();
    actor.observed.borrow_mut().begun = begun;
    if transaction.is_read_only {
        tx.declare_read_only();
    }
    let partition = |key: &u32| tx.partition_of(*tables.first()?, engine_key(*key));
    tx.declare_partitions(declared.iter().filter_map(partition)).await?;
    let _held = match idle {
        Some(table) => take_places(tx, table).await,
        None => Vec::new(),
    };
    let (mut cursor, mut savepoint) = (Cursor::new(transaction), None);
    let mut exists = false;
    loop {
        match cursor.advance() {
            Turn::Step => actor.gate.pass().await,
            Turn::Operation(operation) => {
                leak_beside(tx, tables, operation, leaks).await;
                let seen = match operation {
                    Operation::Savepoint => {
                        savepoint = Some(tx.savepoint());
                        Seen::Done
                    }
                    Operation::Rollback => roll_back(tx, savepoint)?,
                    Operation::Look(place) => look(tx, tables, place, &actor.looked, false)?,
                    Operation::Refuse(place) => look(tx, tables, place, &actor.looked, true)?,
                    operation => perform(tx, tables, columns, operation).await?,
                };
                cursor.see(&seen);
                exists = seen == Seen::Exists;
                actor.observed.borrow_mut().seen.push(seen);
            }
            Turn::Commit => {
                let ends = actor.now();
                actor.observed.borrow_mut().ends = ends;
                return Ok(());
            }
            Turn::Abort if exists => return Err(Error::KeyExists),
            Turn::Abort => return Err(Error::user("given up")),
        }
    }
}

/// May leak a read of the row that an operation is about.
async fn leak_beside<C: ConcurrencyControl>(
    tx: &Txn<C>,
    tables: &[Table<u64, i64>],
    operation: Operation,
    leaks: Option<&Leaks>,
) {
    let place = match operation {
        Operation::Get(place)
        | Operation::Peek(place)
        | Operation::Lock(place, _)
        | Operation::Put(place, _)
        | Operation::Insert(place, _)
        | Operation::Update(place, _)
        | Operation::Delete(place)
        | Operation::Increase(place, _)
        | Operation::Look(place)
        | Operation::Refuse(place) => place,
        Operation::Scan(table, from, _) => (table, from),
        Operation::Savepoint | Operation::Rollback => return,
    };
    if let Some(leaks) = leaks {
        leaks.read(tx, tables[place.0 as usize], engine_key(place.1)).await;
    }
}

/// Leaves an update for the commit. The update notes what it finds, and then does nothing, or fails.
fn look<C: ConcurrencyControl>(
    tx: &Txn<C>,
    tables: &[Table<u64, i64>],
    place: Place,
    looked: &Arc<Mutex<Vec<Option<i64>>>>,
    fails: bool,
) -> Result<Seen> {
    let looked = looked.clone();
    tx.update_at_commit(tables[place.0 as usize], engine_key(place.1), move |value, _| {
        looked.lock().unwrap_or_else(PoisonError::into_inner).push(value);
        if fails { Err(Error::user("refused")) } else { Ok(()) }
    })?;
    Ok(Seen::Done)
}

fn roll_back<C: ConcurrencyControl>(tx: &Txn<C>, savepoint: Option<Savepoint>) -> Result<Seen> {
    match savepoint.map_or(Ok(()), |savepoint| tx.rollback_to(&savepoint)) {
        // All slots are taken if operations are to run where they are polled.
        Err(Error::OperationsInFlight) => Ok(Seen::Refused),
        done => done.map(|()| Seen::Done),
    }
}

async fn perform<C: ConcurrencyControl>(
    tx: &Txn<C>,
    tables: &[Table<u64, i64>],
    columns: &[Values<C>],
    operation: Operation,
) -> Result<Seen> {
    let at = |place: Place| (tables[place.0 as usize], engine_key(place.1));
    Ok(match operation {
        Operation::Get(place) => {
            let (table, key) = at(place);
            Seen::Value(tx.get(table, key).await?)
        }
        Operation::Peek(place) => {
            let (table, key) = at(place);
            Seen::Value(tx.get(table, key).untracked().await?)
        }
        Operation::Lock(place, busy) => {
            let (table, key) = at(place);
            let lock = tx.get_for_update(table, key);
            match busy {
                Busy::Wait => Seen::Value(lock.await?),
                Busy::Fail => match lock.no_wait().await {
                    Err(Error::RowLocked(_)) => Seen::Refused,
                    found => Seen::Value(found?),
                },
                Busy::Skip => match lock.skip_locked().await? {
                    Claim::Locked => Seen::Refused,
                    found => Seen::Value(found.row()),
                },
            }
        }
        Operation::Scan(table, from, to) => {
            let (table, range) = (table as usize, engine_key(from)..engine_key(to));
            Seen::Rows(scan(tx, tables[table], columns.get(table), range).await?)
        }
        Operation::Put(place, value) => {
            let (table, key) = at(place);
            tx.put(table, key, value).await?;
            Seen::Done
        }
        Operation::Insert(place, value) => {
            let (table, key) = at(place);
            match tx.insert(table, key, value).await {
                Ok(()) => Seen::Done,
                Err(Error::KeyExists) => Seen::Exists,
                Err(error) => return Err(error),
            }
        }
        Operation::Update(place, value) => {
            let (table, key) = at(place);
            Seen::Found(tx.update(table, key, value).await?)
        }
        Operation::Delete(place) => {
            let (table, key) = at(place);
            Seen::Found(tx.delete(table, key).await?)
        }
        Operation::Increase(place, by) => {
            let (table, key) = at(place);
            tx.add(table, key, by)?;
            Seen::Done
        }
        Operation::Look(_) | Operation::Refuse(_) | Operation::Savepoint | Operation::Rollback => {
            unreachable!("handled by the caller")
        }
    })
}

/// Returns the rows of a range that a script sees, read from columns if there are some.
async fn scan<C: ConcurrencyControl>(
    tx: &Txn<C>,
    table: Table<u64, i64>,
    columns: Option<&Values<C>>,
    range: Range<u64>,
) -> Result<Vec<(u32, i64)>> {
    let mut seen = Vec::new();
    let mut see = |key: u64, value| {
        if key.is_multiple_of(SPREAD) {
            seen.push(((key / SPREAD) as u32, value));
        }
    };
    if let Some(columns) = columns {
        let mut scan = columns.scan_async(tx, range)?;
        while let Some(batch) = scan.next().await? {
            for (row, value) in batch.columns().0.iter().enumerate() {
                see(batch.key(row)?, *value);
            }
        }
    } else {
        let mut rows = tx.scan(table, range);
        while let Some((key, value)) = rows.next().await? {
            see(key, value);
        }
    }
    Ok(seen)
}
