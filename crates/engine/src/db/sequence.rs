//! Numbers that are given out once, without a row that all transactions want.

use super::Database;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::options::Durability;
use crate::table::{Key, Table};
use crate::txn::run_calls;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Numbers that are reserved by one transaction.
const BLOCK: u64 = 1024;

/// Ascending numbers, for keys of new rows; made by [`Database::sequence`].
///
/// Numbers are reserved in blocks of 1024, by a transaction of its own for each block, so [`next`](Self::next) costs a lock that
/// is held for a moment. What is left of a block when the program ends is not given out any more: there are gaps. (After a crash it may be,
/// as [`next`](Self::next) says.)
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
    /// Weak, as a database that is closed gives its memory back.
    engine: Weak<Engine<C>>,
    table: Table<K, u64>,
    key: K,
    /// Reserved, and not given out.
    block: Mutex<Range<u64>>,
}

impl<K, C: ConcurrencyControl> fmt::Debug for Sequence<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// The sequence whose first number that is not reserved stands in the row under `key`; without one, that is 0. A program that makes the
    /// same sequence twice, or opens the database again, gets other numbers from each; put another number in the row to begin or to go
    /// on elsewhere.
    pub fn sequence<K: Key>(&self, table: Table<K, u64>, key: K) -> Sequence<K, C> {
        Sequence { engine: Arc::downgrade(self.engine()), table, key, block: Mutex::default() }
    }
}

impl<K: Key, C: ConcurrencyControl> Sequence<K, C> {
    /// The next number. No other call gets it, of any thread, as long as the row is there. After a crash, or a kill, no number is given out
    /// again that a durable transaction has used; one that was given out and used by nothing durable may be. Leave the row to the sequence: one that keeps it locked keeps all callers waiting.
    ///
    /// Once in 1024 calls it runs a transaction on the calling thread, outside of any other one: a closure that is undone does not give its
    /// number back. Under [`HStore`](crate::HStore) call it before the transaction that uses the number, not within: that one's
    /// partition may be wanted.
    ///
    /// [`Error::Overflow`] at the end of the numbers, [`Error::Closed`] after the database has been closed; and what a transaction that changes a row
    /// can be answered.
    pub fn next(&self) -> Result<u64> {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        if block.is_empty() {
            *block = self.reserve()?;
        }
        Ok(block.next().expect("filled just now"))
    }

    /// (It need not be durable at once: a transaction that uses one of the numbers comes later in the log.)
    fn reserve(&self) -> Result<Range<u64>> {
        let engine = Engine::of_open(&self.engine)?;
        let (table, key) = (self.table, &self.key);
        let reserve = |transaction: &crate::txn::Transaction<C>| {
            if engine.options.durability == Durability::Sync {
                transaction.set_durability(Durability::Async)?;
            }
            let start = transaction.get(table, key)?.unwrap_or(0);
            let name = || table.of_database(engine.id).map_or_else(|_| String::new(), |table| table.name());
            let end = start.checked_add(BLOCK).ok_or_else(|| Error::Overflow { table: name() })?;
            transaction.put(table, key, end)?;
            Ok(start..end)
        };
        run_calls(&engine, reserve, engine.options.retries_max)
    }
}
