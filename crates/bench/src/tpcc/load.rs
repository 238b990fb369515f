//! Fills an empty database, by several threads.

use super::keys::{self, District};
use super::populate;
use super::query2::{NATIONS, REGIONS};
use super::random::{Constants, permutation};
use super::scale::Scale;
use super::schema::Tables;
use crate::args::RefillKind;
use crate::distribution::Rng;
use crate::engine::{self, Database, OnMiss, Result, Scheme, Txn, mix};
use crate::{Failure, Result as Outcome};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Items or stocks of one piece of work.
const BLOCK: u32 = 5_000;
/// Transactions that a loading thread keeps open.
const BATCH: usize = 32;
/// The date of what is loaded, 2020: equal seeds give equal databases.
const DATE: u64 = 1_577_836_800_000_000;
/// The history's source that stands for the loader.
const SOURCE: u64 = 0;

/// What a thread takes on at once.
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
    /// Transactions that it takes.
    fn length(&self, scale: &Scale) -> u64 {
        u64::from(match self {
            Piece::Items(block) | Piece::Stocks(_, block) => block.end - block.start,
            Piece::Warehouse(_) => 1 + scale.districts,
            Piece::Customers(_) | Piece::Orders(_) => scale.customers,
            Piece::Suppliers => scale.suppliers + NATIONS.len() as u32 + REGIONS as u32,
        })
    }
}

/// Fills the tables of an empty database by so many threads; tells `progress` how many transactions of how many are
/// done.
pub(crate) fn load<C: Scheme>(
    db: &Database<C>,
    tables: &Tables,
    scale: &Scale,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Outcome<()> {
    scale.check()?;
    let pieces = pieces(scale);
    let total = pieces.iter().map(|piece| piece.length(scale)).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let loader = Loader { db, tables, scale, seed };
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
}

impl<C: Scheme> Loader<'_, C> {
    fn load(&self, piece: &Piece) -> Outcome<()> {
        let tables = self.tables;
        match piece.clone() {
            Piece::Items(block) => self.rows("item", block, async |tx, &item| {
                let row = populate::item(&mut self.rng(1, u64::from(item)));
                tx.insert(tables.items, u64::from(item), &row).await
            }),
            Piece::Stocks(warehouse, block) => self.rows("stock", block, async |tx, &item| {
                let key = keys::stock(warehouse, item);
                tx.insert(tables.stocks, key, &populate::stock(&mut self.rng(2, key))).await
            }),
            Piece::Warehouse(warehouse) => self.warehouse(warehouse),
            Piece::Customers(district) => self.customers(district),
            Piece::Orders(district) => self.orders(district),
            Piece::Suppliers => self.suppliers(),
        }
    }

    fn warehouse(&self, warehouse: u16) -> Outcome<()> {
        let (tables, scale) = (self.tables, self.scale);
        self.rows("warehouse", [warehouse], async |tx, &number| {
            let key = u64::from(number);
            tx.insert(tables.warehouses, key, &populate::warehouse(&mut self.rng(3, key), scale)).await
        })?;
        self.rows("district", 1..=scale.districts as u8, async |tx, &number| {
            let key = District::new(warehouse, number).key();
            tx.insert(tables.districts, key, &populate::district(&mut self.rng(4, key), scale)).await
        })
    }

    fn customers(&self, district: District) -> Outcome<()> {
        let (tables, scale) = (self.tables, self.scale);
        let names = Constants::new(self.seed).names_loaded(scale.customers);
        self.rows("customer", 1..=scale.customers as u16, async |tx, &number| {
            let key = district.customer(number);
            let mut rng = self.rng(5, key);
            let row = populate::customer(&mut rng, number, &names, scale, DATE);
            tx.insert(tables.customers, key, &row).await?;
            let row = populate::history(&mut rng, district, number, DATE);
            tx.insert(tables.history, keys::history(SOURCE, key), &row).await
        })
    }

    fn orders(&self, district: District) -> Outcome<()> {
        let (tables, scale) = (self.tables, self.scale);
        let customers = permutation(&mut self.rng(6, district.key()), scale.customers);
        self.rows("order", 1..=scale.customers, async |tx, &number| {
            let key = district.order(number);
            let mut rng = self.rng(7, key);
            let customer = customers[number as usize - 1];
            let order = populate::order(&mut rng, number, customer, scale, DATE);
            tx.insert(tables.orders, key, &order).await?;
            if order.carrier == 0 {
                tx.insert(tables.new_orders, key, ()).await?;
            }
            for line in 1..=order.lines {
                let row = populate::line(&mut rng, district.warehouse(), &order, scale);
                tx.insert(tables.lines, district.line(number, line), &row).await?;
            }
            Ok(())
        })
    }

    fn suppliers(&self) -> Outcome<()> {
        let tables = self.tables;
        self.rows("region", 0..REGIONS, async |tx, &number| {
            let row = populate::region(&mut self.rng(8, number), number as usize);
            tx.insert(tables.regions, number, &row).await
        })?;
        self.rows("nation", 0..NATIONS.len() as u64, async |tx, &number| {
            let row = populate::nation(&mut self.rng(9, number), number as usize);
            tx.insert(tables.nations, number, &row).await
        })?;
        self.rows("supplier", 0..self.scale.suppliers, async |tx, &number| {
            let key = u64::from(number);
            tx.insert(tables.suppliers, key, &populate::supplier(&mut self.rng(10, key), number)).await
        })
    }

    /// Runs a transaction for each number.
    fn rows<I: Copy>(
        &self,
        table: &str,
        numbers: impl IntoIterator<Item = I>,
        insert: impl AsyncFn(&Txn<C>, &I) -> Result<()>,
    ) -> Outcome<()> {
        let mut failed = None;
        let mut worker = engine::worker(self.db, OnMiss, BATCH.into(), RefillKind::Immediate);
        worker.run_each(numbers, insert, |result| failed = result.err().or(failed.take()));
        match failed {
            None => Ok(()),
            Some(error) => Err(Failure::new(format!("loading a row of table {table} failed: {error}"))),
        }
    }

    /// The generator of one row.
    fn rng(&self, table: u64, key: u64) -> Rng {
        Rng::new(mix(mix(self.seed ^ table << 56).wrapping_add(key)))
    }
}
