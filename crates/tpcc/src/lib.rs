//! TPC-C (revision 5.11) with its nine tables and five transactions, and two additions of papers: Q2* of TPC-CH, and
//! the read-only mix TPC-CR. There is no terminal, so there are no keying and thinking times. The results are not
//! official results.
//!
//! - `schema`: the tables, and the ways to their rows.
//! - `populate`, `load`: the rows at the beginning.
//! - `inputs`: the inputs of transactions.
//! - One file for each transaction. `interpreted` has two of them in the form of a system that looks columns up by
//!   name.
//! - `conditions`: the conditions that hold at any time.
//!
//! The code that runs, counts and times transactions is in the benchmark. The example `counted_tpcc` has a minimal
//! form.
#![forbid(unsafe_code)]

mod by_columns;
mod catalog;
mod columns;
mod conditions;
mod delivery;
mod digest;
mod inputs;
mod interpreted;
mod keys;
mod load;
mod many;
mod new_order;
mod order_status;
mod payment;
mod populate;
mod query2;
mod random;
mod regions;
mod rng;
mod rows;
mod scale;
mod schema;
mod settings;
mod stock_level;
#[cfg(test)]
mod tests;

pub use by_columns::{Layout, StockLevels};
pub use conditions::{CONDITIONS, Violation};
pub use inputs::{Input, KINDS, Source};
pub use new_order::UnusedItem;
pub use rng::{Rng, mix};
pub use scale::Scale;
pub use settings::{Home, Mix, Settings};

use braiddb::{ConcurrencyControl as Scheme, Database, Result, Txn};
use catalog::Catalog;
use random::Constants;
use schema::Tables;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tables of a filled database, and the transactions on them.
#[derive(Debug)]
pub struct Tpcc {
    tables: Tables,
    settings: Settings,
    constants: Constants,
    /// The number of the next source of this database. Sources write into the history under their numbers.
    next_source: Arc<AtomicU64>,
    catalog: Arc<Catalog>,
}

impl Tpcc {
    /// Fills an empty database with this many threads. Calls `progress` with the number of finished transactions and
    /// the total. Equal seeds give equal databases. Fails if the scale is refused, or if there is no room.
    pub fn load<C: Scheme>(
        db: &Database<C>,
        settings: Settings,
        seed: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Tpcc> {
        let tables = Tables::open(db)?;
        load::load(db, &tables, &settings.scale, seed, threads, progress)?;
        Ok(Tpcc {
            tables,
            settings,
            constants: Constants::new(seed),
            next_source: Arc::new(AtomicU64::new(1)),
            catalog: Arc::new(Catalog::open(db)?),
        })
    }

    /// Freezes the tables that no transaction writes: items, suppliers, nations and regions.
    pub fn freeze<C: Scheme>(&self, db: &Database<C>) -> Result<()> {
        self.tables.freeze(db)
    }

    /// Finds the tables in another database: the database that was filled, opened again.
    pub fn of<C: Scheme>(self, db: &Database<C>) -> Result<Tpcc> {
        Ok(Tpcc { tables: Tables::open(db)?, catalog: Arc::new(Catalog::open(db)?), ..self })
    }

    /// Returns a suite with other settings on the same tables.
    pub fn with(&self, settings: Settings) -> Tpcc {
        assert_eq!(self.settings.scale, settings.scale, "the database is loaded");
        let Tpcc { tables, constants, .. } = *self;
        let (next_source, catalog) = (self.next_source.clone(), self.catalog.clone());
        Tpcc { tables, settings, constants, next_source, catalog }
    }

    /// The settings by which transactions are made.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The inputs of one worker, given by its number and the number of workers. Equal seeds give equal inputs, except
    /// dates.
    pub fn inputs(&self, place: (usize, usize), seed: u64) -> Source {
        // Relaxed: only uniqueness is needed.
        let number = self.next_source.fetch_add(1, Ordering::Relaxed);
        Source::new(self.settings, &self.constants, number, place, seed)
    }

    /// Runs the transaction of an input, and computes what a terminal would show. With `many`, reads that do not
    /// depend on each other go together. A transaction that rolls back ends with [`UnusedItem`].
    #[inline]
    pub async fn transaction<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        let (tables, scale) = (&self.tables, &self.settings.scale);
        let partition = |warehouse: u16| tx.partition_of(tables.warehouses, u64::from(warehouse));
        tx.declare_partitions(input.warehouses().filter_map(partition)).await?;
        let shown = match input {
            // Boxed, because the other transactions then do not need the room of these two.
            Input::NewOrder(input) if self.settings.interpreted => {
                Box::pin(interpreted::new_order(&self.catalog, tx, input)).await?
            }
            Input::Payment(input) if self.settings.interpreted => {
                Box::pin(interpreted::payment(&self.catalog, tables, tx, input)).await?
            }
            Input::NewOrder(input) => new_order::new_order(tables, tx, input, many).await?,
            Input::Payment(input) => payment::payment(tables, tx, input).await?,
            Input::OrderStatus(input) => order_status::order_status(tables, tx, input).await?,
            Input::Delivery(input) => delivery::delivery(tables, tx, input, scale.districts as u8).await?,
            Input::StockLevel(input) => stock_level::stock_level(tables, tx, input, many).await?,
            Input::Query2(input) => query2::query2(tables, scale, tx, input, many).await?,
        };
        std::hint::black_box(shown);
        Ok(())
    }

    /// Returns where each of [`CONDITIONS`] does not hold, in their order. Several threads check them.
    pub fn violations<C: Scheme>(&self, db: &Database<C>, threads: usize) -> Result<Vec<Violation>> {
        conditions::check(db, &self.tables, &self.settings.scale, threads)
    }
}
