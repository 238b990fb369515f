//! Numbers that are given out once, without a row on which all transactions would conflict.

use super::Database;
use crate::cc::{ConcurrencyControl, Serializable, once};
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::options::Durability;
use crate::table::{Key, Table};
use crate::txn::{Transaction, run_calls};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The numbers that one transaction reserves.
const BLOCK: u64 = 1024;

/// Ascending numbers, for keys of new rows. Made by [`Database::sequence`].
///
/// Numbers are reserved in blocks of 1024, each by a transaction of its own, so [`next`](Self::next) costs only a
/// lock held for a moment. Numbers left in a block when the program ends are not given out, so there are gaps. After
/// a crash they may be given out: see [`next`](Self::next).
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
/// let orders: Table<u64, str> = db.table("orders")?;
/// let sequences: Table<String, u64> = db.table("sequences")?;
/// let numbers = db.sequence(sequences, "orders".to_string());
/// let number = numbers.next()?;
/// db.run(async move |tx| tx.insert(orders, number, "3 apples").await).wait()?;
/// assert_eq!([number, numbers.next()?], [0, 1]);
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Sequence<K, C: ConcurrencyControl = Serializable> {
    /// Weak, so that a closed database can free its memory.
    engine: Weak<Engine<C>>,
    table: Table<K, u64>,
    key: K,
    /// Numbers that are reserved and not yet given out.
    block: Mutex<Range<u64>>,
}

impl<K, C: ConcurrencyControl> fmt::Debug for Sequence<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Returns a sequence. The row under `key` has its first number that is not reserved. Without a row, that is 0.
    /// If a program makes the same sequence twice, or opens the database again, each gets other numbers. To begin or
    /// continue elsewhere, put another number into the row.
    pub fn sequence<K: Key>(&self, table: Table<K, u64>, key: K) -> Sequence<K, C> {
        Sequence { engine: Arc::downgrade(self.engine()), table, key, block: Mutex::default() }
    }
}

impl<K: Key, C: ConcurrencyControl> Sequence<K, C> {
    /// Returns the next number. As long as the row exists, no other call of any thread gets the same number. After a
    /// crash or a kill, a number that a durable transaction has used is not given out again. A number that no durable
    /// transaction has used may be. Leave the row to the sequence: a transaction that locks the row keeps all callers
    /// waiting.
    ///
    /// Once in 1024 calls this runs a transaction on the calling thread, separate from any other transaction. A
    /// closure that is undone does not give its number back. Under [`HStore`](crate::HStore) call this before the
    /// transaction that uses the number, not within it, because the reserving transaction may need that transaction's
    /// partition.
    ///
    /// Returns [`Error::Overflow`] at the end of the numbers, [`Error::Closed`] after the database has been closed,
    /// and the errors of a transaction that changes a row.
    pub fn next(&self) -> Result<u64> {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        if block.is_empty() {
            *block = self.reserve()?;
        }
        Ok(block.next().expect("filled just now"))
    }

    /// The reservation need not be durable at once. A transaction that uses one of the numbers comes later in the
    /// log.
    fn reserve(&self) -> Result<Range<u64>> {
        let engine = Engine::of_open(&self.engine)?;
        let (table, key) = (self.table, &self.key);
        let reserve = |transaction: &Transaction<C>| {
            if engine.options.durability == Durability::Sync {
                transaction.set_durability(Durability::Async)?;
            }
            let start = transaction.get(table, key)?.unwrap_or(0);
            let name = || table.of_database(engine.id).map_or_else(|_| String::new(), |table| table.name());
            let end = start.checked_add(BLOCK).ok_or_else(|| Error::Overflow { table: name() })?;
            transaction.put(table, key, end)?;
            Ok(start..end)
        };
        run_range(&engine, &reserve, engine.options.retries_max)
    }
}

/// A closure that reserves numbers.
type Reserve<'c, C> = &'c dyn Fn(&Transaction<C>) -> Result<Range<u64>>;

once! {
    /// Runs the reservation of numbers in a transaction.
    fn run_range<'c>(engine: &Arc<Engine<C>>, reserve: Reserve<'c, C>, retries_max: u32) -> Result<Range<u64>>
        = run_calls(engine, reserve, retries_max);
}
