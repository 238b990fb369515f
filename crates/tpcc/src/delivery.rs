//! Delivery (clause 2.7): delivers the oldest new order of each district of a warehouse, all in one transaction.

use crate::digest::Digest;
use crate::inputs::Delivery;
use crate::keys::{District, LINES_MAX, order_of};
use crate::rows::{Customer, Order, OrderLine};
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};

/// Runs the transaction. Returns what would be written to the file of results.
pub(crate) async fn delivery<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    input: &Delivery,
    districts: u8,
) -> Result<u64> {
    let mut digest = Digest::default();
    for number in 1..=districts {
        let district = District::new(input.warehouse, number);
        let oldest = tx.scan(tables.new_orders, district.orders()).limit(1).next_key().await?;
        // A district without a new order is skipped.
        let Some(key) = oldest else { continue };
        let order = order_of(key);
        tx.delete(tables.new_orders, key).await?;

        let row = found(tx.get(tables.orders, key).await?, "order", key)?;
        tx.put(tables.orders, key, &Order { carrier: input.carrier, ..*row }).await?;

        let mut amount = 0;
        let mut lines = tx.scan(tables.lines, district.lines(order..=order)).limit(LINES_MAX);
        while let Some((key, line)) = lines.next().await? {
            amount += line.amount;
            tx.put(tables.lines, key, &OrderLine { delivered: input.date, ..*line }).await?;
        }
        drop(lines);

        let key = district.customer(row.customer);
        let customer = found(tx.get(tables.customers, key).await?, "customer", key)?;
        let (balance, deliveries) = (customer.balance + amount, customer.deliveries + 1);
        tx.put(tables.customers, key, &Customer { balance, deliveries, ..*customer }).await?;
        digest.add(u64::from(order)).add(amount as u64);
    }
    Ok(digest.value())
}
