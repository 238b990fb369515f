//! OrderStatus (clause 2.6): a customer's balance and newest order, line by line.

use crate::digest::Digest;
use crate::inputs::OrderStatus;
use crate::keys::LINES_MAX;
use crate::payment::customer;
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};

/// Runs the transaction. Returns what the terminal would show.
pub(crate) async fn order_status<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    input: &OrderStatus,
) -> Result<u64> {
    let district = input.district;
    let (number, customer) = customer(tables, tx, district, input.customer, false).await?;
    let mut digest = Digest::default();
    digest
        .add(customer.balance as u64)
        .add_text(customer.first.as_bytes())
        .add_text(customer.last.as_bytes());

    // Each customer has an order from the beginning, and orders are never removed.
    let newest = tables.newest_order(tx, district, number).await?;
    let (newest, order) = found(newest, "order of customer", district.customer(number))?;
    digest.add(u64::from(newest)).add(order.entered).add(u64::from(order.carrier));

    let mut lines = tx.scan(tables.lines, district.lines(newest..=newest)).limit(LINES_MAX);
    while let Some((_, line)) = lines.next().await? {
        digest.add(u64::from(line.item)).add(u64::from(line.supply_warehouse)).add(u64::from(line.quantity));
        digest.add(line.amount as u64).add(line.delivered);
    }
    Ok(digest.value())
}
