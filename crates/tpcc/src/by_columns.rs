//! StockLevel with order lines and stocks in columns beside their tables. Zhang, Wei, Xiang and Xiao, "A Performance
//! Evaluation of DRAM Access for In-Memory Databases" (IEEE Access, 2021), run it this way on layouts of blocks.

use crate::Tpcc;
use crate::inputs::{Input, StockLevel};
use crate::keys;
use crate::rows::{OrderLine, Stock};
use crate::schema::{Tables, found};
use crate::stock_level::{self, ORDERS};
use braiddb::{Columns, Database, Plain, Projection, ProjectionOptions, Result, Transaction};

/// The place from which StockLevel reads order lines and stocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// In the tables' records
    Records,
    /// In blocks of whole rows
    Nsm,
    /// In blocks, with a column for each field
    Pax,
    /// In one block, with a column for each field
    Dsm,
    /// Order lines as by `pax`, stocks in the records
    Lines,
}

impl Layout {
    /// The layout's name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Records => "records",
            Layout::Nsm => "nsm",
            Layout::Pax => "pax",
            Layout::Dsm => "dsm",
            Layout::Lines => "lines",
        }
    }
}

type Line = (u64, i64, u32, u16, u8, u8, [u8; 24]);
type Lines<C> = Projection<u64, Plain<OrderLine>, C>;
type StockRow = (u64, i32, u32, u32, [[u8; 24]; 10], [u8; 50]);
type Stocks<C> = Projection<u64, Plain<Stock>, C>;

fn line(row: &OrderLine) -> Line {
    let OrderLine { delivered, amount, item, supply_warehouse, quantity, reserved, district_info } = *row;
    (delivered, amount, item, supply_warehouse, quantity, reserved, district_info)
}

fn stock_row(row: &Stock) -> StockRow {
    let Stock { ytd, quantity, orders, remote_orders, district_infos, data } = *row;
    (ytd, quantity, orders, remote_orders, district_infos, *data.padded())
}

#[derive(Debug)]
enum Place {
    Records,
    Whole(Lines<(Line,)>, Stocks<(StockRow,)>),
    Split(Lines<Line>, Stocks<StockRow>),
    Lines(Lines<Line>),
}

/// StockLevel on one layout.
#[derive(Debug)]
pub struct StockLevels {
    tables: Tables,
    place: Place,
}

impl StockLevels {
    /// Reads the columns of this layout. What is written later is looked up in the tables.
    pub fn new(tpcc: &Tpcc, db: &Database, layout: Layout) -> Result<StockLevels> {
        let (tables, name) = (tpcc.tables, layout.name());
        let mut options = ProjectionOptions::default();
        if layout == Layout::Dsm {
            options.block_rows = u32::MAX as usize;
        }
        let split = || db.projection_with(tables.lines, name, options.clone(), |_, row| Some(line(row)));
        let place = match layout {
            Layout::Records => Place::Records,
            Layout::Nsm => Place::Whole(
                db.projection(tables.lines, name, |_, row| Some((line(row),)))?,
                db.projection(tables.stocks, name, |_, row| Some((stock_row(row),)))?,
            ),
            Layout::Pax | Layout::Dsm => {
                let stocks = |_: &u64, row: &Stock| Some(stock_row(row));
                Place::Split(split()?, db.projection_with(tables.stocks, name, options.clone(), stocks)?)
            }
            Layout::Lines => Place::Lines(split()?),
        };
        match &place {
            Place::Records => {}
            Place::Whole(lines, stocks) => drop((lines.refresh()?, stocks.refresh()?)),
            Place::Split(lines, stocks) => drop((lines.refresh()?, stocks.refresh()?)),
            Place::Lines(lines) => drop(lines.refresh()?),
        }
        Ok(StockLevels { tables, place })
    }

    /// Runs the transaction, which must have been declared read-only. Returns the number of items below the threshold.
    ///
    /// # Panics
    /// If the input is of another kind.
    pub fn run(&self, tx: &Transaction, input: &Input) -> Result<u64> {
        let Input::StockLevel(input) = input else { panic!("{input:?} is no StockLevel") };
        let tables = &self.tables;
        match &self.place {
            Place::Records => tx.with(async |tx| stock_level::stock_level(tables, tx, input, true).await),
            Place::Whole(lines, stocks) => {
                let keys = self.stocks(tx, input, lines, |(rows,), items| {
                    items.extend(rows.iter().map(|row| row.2));
                })?;
                low(tx, input, stocks, &keys, |(rows,)| rows[0].1)
            }
            Place::Split(lines, stocks) => {
                let keys = self.stocks(tx, input, lines, |columns, items| items.extend(columns.2))?;
                low(tx, input, stocks, &keys, |columns| columns.1[0])
            }
            Place::Lines(lines) => {
                let keys = self.stocks(tx, input, lines, |columns, items| items.extend(columns.2))?;
                tx.with(async |tx| stock_level::low(tables, tx, input, &keys, true).await)
            }
        }
    }

    /// Returns the keys of the stocks of the items in the district's last orders, each once.
    fn stocks<C: Columns>(
        &self,
        tx: &Transaction,
        input: &StockLevel,
        lines: &Lines<C>,
        add_items: impl Fn(C::Slices<'_>, &mut Vec<u32>),
    ) -> Result<Vec<u64>> {
        let district = input.district;
        let row = found(tx.get(self.tables.districts, district.key())?, "district", district.key())?;
        let orders = row.next_order.saturating_sub(ORDERS)..=row.next_order - 1;
        let mut items = Vec::with_capacity(ORDERS as usize * keys::LINES_MAX);
        let mut scan = lines.scan(tx, district.lines(orders))?;
        while let Some(batch) = scan.next()? {
            add_items(batch.columns(), &mut items);
        }
        let mut stocks: Vec<u64> =
            items.into_iter().map(|item| keys::stock(district.warehouse(), item)).collect();
        stocks.sort_unstable();
        stocks.dedup();
        Ok(stocks)
    }
}

/// Counts the low stocks among these, by their columns.
fn low<C: Columns>(
    tx: &Transaction,
    input: &StockLevel,
    columns: &Stocks<C>,
    stocks: &[u64],
    quantity: impl Fn(C::Slices<'_>) -> i32,
) -> Result<u64> {
    let mut low = 0;
    for key in stocks {
        let mut scan = columns.scan(tx, *key..=*key)?;
        let batch = scan.next()?;
        let quantity = found(batch.map(|batch| quantity(batch.columns())), "stock", *key)?;
        low += u64::from(quantity < input.threshold);
    }
    Ok(low)
}
