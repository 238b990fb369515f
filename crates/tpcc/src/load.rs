//! Fills an empty database with several threads.

use crate::keys::{self, District};
use crate::populate;
use crate::random::{Constants, NonUniform, permutation};
use crate::regions::{NATIONS, REGIONS};
use crate::rng::{Rng, mix};
use crate::scale::Scale;
use crate::schema::Tables;
use braiddb::suspend::OnMiss;
use braiddb::worker::WorkerOptions;
use braiddb::{ConcurrencyControl as Scheme, Database, Error, Result, Txn};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of items or stocks in one piece of work.
const BLOCK: u32 = 5_000;
/// The number of transactions that a loading thread keeps open.
const BATCH: usize = 32;
/// The date of loaded rows, in 2020. It is fixed because equal seeds give equal databases.
const DATE: u64 = 1_577_836_800_000_000;
/// The source number of the loader in the history.
const SOURCE: u64 = 0;

/// The work that a thread takes at once.
#[derive(Clone, Debug)]
enum Piece {
    Items(Range<u32>),
    Stocks(u16, Range<u32>),
    Warehouse(u16),
    Customers(District),
    Orders(District),
    Suppliers,
}

fn pieces(scale: &Scale) -> Vec<Piece> {
    let blocks = || {
        let items = scale.items;
        (1..=items).step_by(BLOCK as usize).map(move |first| first..(first + BLOCK).min(items + 1))
    };
    let mut pieces: Vec<Piece> = blocks().map(Piece::Items).collect();
    pieces.push(Piece::Suppliers);
    for warehouse in scale.warehouses() {
        pieces.push(Piece::Warehouse(warehouse));
        pieces.extend(blocks().map(|block| Piece::Stocks(warehouse, block)));
    }
    for district in scale.districts() {
        pieces.extend([Piece::Customers(district), Piece::Orders(district)]);
    }
    pieces
}

impl Piece {
    /// The number of transactions that the piece takes.
    fn length(&self, scale: &Scale) -> u64 {
        u64::from(match self {
            Piece::Items(block) | Piece::Stocks(_, block) => block.end - block.start,
            Piece::Warehouse(_) => 1 + scale.districts,
            Piece::Customers(_) | Piece::Orders(_) => scale.customers,
            Piece::Suppliers => scale.suppliers + NATIONS.len() as u32 + REGIONS as u32,
        })
    }
}

/// Fills the tables of an empty database with this many threads. Calls `progress` with the number of finished
/// transactions and the total.
pub(crate) fn load<C: Scheme>(
    db: &Database<C>,
    tables: &Tables,
    scale: &Scale,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<()> {
    scale.check().map_err(Error::user)?;
    let pieces = pieces(scale);
    let total = pieces.iter().map(|piece| piece.length(scale)).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let names = Constants::new(seed).names_loaded(scale.customers);
    let loader = Loader { db, tables, scale, seed, names };
    let work = || {
        // Relaxed: each piece is taken once, and results are handed over by joining.
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            loader.load(piece)?;
            let length = piece.length(scale);
            progress(done.fetch_add(length, Ordering::Relaxed) + length, total);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("loading does not panic"))
    })
}

struct Loader<'a, C: Scheme> {
    db: &'a Database<C>,
    tables: &'a Tables,
    scale: &'a Scale,
    seed: u64,
    names: NonUniform,
}

/// The rows that one transaction inserts. All tables share this type, so each worker's loop is compiled once per scheme.
#[derive(Clone, Copy, Debug)]
enum Row {
    Item(u32),
    Stock(u16, u32),
    Warehouse(u16),
    District(District),
    /// A customer, with its line of the history.
    Customer(District, u16),
    /// An order with its lines, and the customer who ordered.
    Order(District, u32, u16),
    Region(u64),
    Nation(u64),
    Supplier(u32),
}

impl Row {
    /// The warehouse that the row belongs to.
    fn warehouse(self) -> Option<u16> {
        match self {
            Row::Stock(warehouse, _) | Row::Warehouse(warehouse) => Some(warehouse),
            Row::District(district) | Row::Customer(district, _) | Row::Order(district, ..) => {
                Some(district.warehouse())
            }
            Row::Item(_) | Row::Region(_) | Row::Nation(_) | Row::Supplier(_) => None,
        }
    }
}

impl<C: Scheme> Loader<'_, C> {
    fn load(&self, piece: &Piece) -> Result<()> {
        let scale = self.scale;
        match piece.clone() {
            Piece::Items(block) => self.insert_all(block.map(Row::Item)),
            Piece::Stocks(warehouse, block) => self.insert_all(block.map(|item| Row::Stock(warehouse, item))),
            Piece::Warehouse(warehouse) => {
                let district = |number| Row::District(District::new(warehouse, number));
                let districts = (1..=scale.districts as u8).map(district);
                self.insert_all([Row::Warehouse(warehouse)].into_iter().chain(districts))
            }
            Piece::Customers(district) => {
                self.insert_all((1..=scale.customers as u16).map(|number| Row::Customer(district, number)))
            }
            Piece::Orders(district) => {
                let customers = permutation(&mut self.rng(6, district.key()), scale.customers);
                let order = |(number, &customer)| Row::Order(district, number, customer);
                self.insert_all((1..=scale.customers).zip(&customers).map(order))
            }
            Piece::Suppliers => {
                let regions = (0..REGIONS).map(Row::Region);
                let nations = (0..NATIONS.len() as u64).map(Row::Nation);
                self.insert_all(regions.chain(nations).chain((0..scale.suppliers).map(Row::Supplier)))
            }
        }
    }

    /// Runs a transaction for each row.
    fn insert_all<'r>(&self, rows: impl Iterator<Item = Row> + 'r) -> Result<()> {
        let (mut failed, rows): (_, Box<dyn Iterator<Item = Row> + 'r>) = (None, Box::new(rows));
        let mut worker =
            self.db.worker_with(OnMiss, WorkerOptions { batch: BATCH.into(), ..WorkerOptions::default() });
        worker.run_each(
            rows,
            async |tx, &row| self.insert(tx, row).await,
            |result| failed = result.err().or(failed.take()),
        );
        failed.map_or(Ok(()), Err)
    }

    async fn insert(&self, tx: &Txn<C>, row: Row) -> Result<()> {
        let (tables, scale) = (self.tables, self.scale);
        let partition = |warehouse: u16| tx.partition_of(tables.warehouses, u64::from(warehouse));
        tx.declare_partitions(row.warehouse().and_then(partition)).await?;
        match row {
            Row::Item(item) => {
                let row = populate::item(&mut self.rng(1, u64::from(item)));
                tx.insert(tables.items, u64::from(item), &row).await
            }
            Row::Stock(warehouse, item) => {
                let key = keys::stock(warehouse, item);
                tx.insert(tables.stocks, key, &populate::stock(&mut self.rng(2, key))).await
            }
            Row::Warehouse(number) => {
                let key = u64::from(number);
                tx.insert(tables.warehouses, key, &populate::warehouse(&mut self.rng(3, key), scale)).await
            }
            Row::District(district) => {
                let key = district.key();
                tx.insert(tables.districts, key, &populate::district(&mut self.rng(4, key), scale)).await
            }
            Row::Customer(district, number) => {
                let key = district.customer(number);
                let mut rng = self.rng(5, key);
                let row = populate::customer(&mut rng, number, &self.names, scale, DATE);
                tx.insert(tables.customers, key, &row).await?;
                let row = populate::history(&mut rng, district, number, DATE);
                tx.insert(tables.history, keys::history(SOURCE, key, district.warehouse()), &row).await
            }
            Row::Order(district, number, customer) => self.insert_order(tx, district, number, customer).await,
            Row::Region(number) => {
                let row = populate::region(&mut self.rng(8, number), number as usize);
                tx.insert(tables.regions, number, &row).await
            }
            Row::Nation(number) => {
                let row = populate::nation(&mut self.rng(9, number), number as usize);
                tx.insert(tables.nations, number, &row).await
            }
            Row::Supplier(number) => {
                let key = u64::from(number);
                tx.insert(tables.suppliers, key, &populate::supplier(&mut self.rng(10, key), number)).await
            }
        }
    }

    async fn insert_order(&self, tx: &Txn<C>, district: District, number: u32, customer: u16) -> Result<()> {
        let (tables, key) = (self.tables, district.order(number));
        let mut rng = self.rng(7, key);
        let order = populate::order(&mut rng, number, customer, self.scale, DATE);
        tx.insert(tables.orders, key, &order).await?;
        if order.carrier == 0 {
            tx.insert(tables.new_orders, key, ()).await?;
        }
        for line in 1..=order.lines {
            let row = populate::line(&mut rng, district.warehouse(), &order, self.scale);
            tx.insert(tables.lines, district.line(number, line), &row).await?;
        }
        Ok(())
    }

    /// The generator of one row.
    fn rng(&self, table: u64, key: u64) -> Rng {
        Rng::new(mix(mix(self.seed ^ table << 56).wrapping_add(key)))
    }
}
