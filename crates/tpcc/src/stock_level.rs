//! StockLevel (clause 2.8): counts the items with low stock among the items in a district's last 20 orders.

use crate::inputs::StockLevel;
use crate::keys;
use crate::many::visit_stocks;
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};

/// The number of orders that are looked at.
pub(crate) const ORDERS: u32 = 20;

/// Runs the transaction. Returns the number of items below the threshold.
pub(crate) async fn stock_level<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    input: &StockLevel,
    many: bool,
) -> Result<u64> {
    let district = input.district;
    let row = found(tx.get(tables.districts, district.key()).await?, "district", district.key())?;
    let (first, last) = (row.next_order.saturating_sub(ORDERS), row.next_order - 1);
    // On the heap, because as a part of the future it would make the futures of all kinds longer.
    let mut stocks = Vec::with_capacity(ORDERS as usize * keys::LINES_MAX);
    let mut lines = tx.scan(tables.lines, district.lines(first..=last));
    while let Some((_, line)) = lines.next().await? {
        stocks.push(keys::stock(district.warehouse(), line.item));
    }
    drop(lines);
    stocks.sort_unstable();
    stocks.dedup();
    low(tables, tx, input, &stocks, many).await
}

/// Counts the stocks below the threshold among these.
pub(crate) async fn low<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    input: &StockLevel,
    stocks: &[u64],
    many: bool,
) -> Result<u64> {
    let mut low = 0;
    visit_stocks(tables, tx, stocks, many, |_, stock| low += u64::from(stock.quantity < input.threshold))
        .await?;
    Ok(low)
}
