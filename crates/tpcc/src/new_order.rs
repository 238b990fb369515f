//! NewOrder (clause 2.4): an order of 5 to 15 lines, each taken from a stock. One order in a hundred is rolled back.

use crate::digest::Digest;
use crate::inputs::{Line, NewOrder};
use crate::keys::{self, LINES_MAX};
use crate::random::is_original;
use crate::rows::{Item, Order, OrderLine, Stock, zeroed};
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Error, Result, Txn};

/// Why an order was rolled back: it asks for an item that does not exist. One order in a hundred does so on purpose.
#[derive(Debug)]
pub struct UnusedItem;

impl std::fmt::Display for UnusedItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("item number is not valid")
    }
}

impl std::error::Error for UnusedItem {}

/// The quantity that is added to a stock that runs low.
pub(crate) const REORDERED: i32 = 91;
pub(crate) const LEFT_MIN: i32 = 10;

/// Runs the transaction. Returns what the terminal would show.
pub(crate) async fn new_order<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    input: &NewOrder,
    many: bool,
) -> Result<u64> {
    let district = input.district;
    // The rows that other transactions want as well are written first: if there is a conflict, little work is lost.
    let row = tx.get(tables.districts, district.key()).for_write().await?;
    let mut district_row = *found(row, "district", district.key())?;
    let (number, district_tax) = (district_row.next_order, district_row.tax);
    district_row.next_order = number + 1;
    tx.put(tables.districts, district.key(), &district_row).await?;

    let key = u64::from(district.warehouse());
    let warehouse_tax = found(tx.get(tables.warehouses, key).await?, "warehouse", key)?.tax;
    let key = district.customer(input.customer);
    let customer = found(tx.get(tables.customers, key).await?, "customer", key)?;
    let order = Order {
        entered: input.date,
        customer: input.customer,
        lines: input.count,
        all_local: u8::from(input.is_local),
        ..zeroed()
    };
    tx.insert(tables.orders, district.order(number), &order).await?;
    tx.insert(tables.new_orders, district.order(number), ()).await?;

    let mut digest = Digest::default();
    let mut total = 0;
    let (mut items, mut stocks) = ([None; LINES_MAX], [None; LINES_MAX]);
    if many {
        fetch(tables, tx, input, &mut items, &mut stocks).await?;
    }
    for (i, line) in input.lines().iter().enumerate() {
        let item = match items[i] {
            Some(item) => item,
            None => match tx.get(tables.items, u64::from(line.item)).await? {
                Some(item) => item,
                None if input.rolls_back => return Err(Error::user(UnusedItem)),
                None => found(None, "item", u64::from(line.item))?,
            },
        };
        let key = keys::stock(line.warehouse, line.item);
        let stock = match stocks[i] {
            Some(stock) => stock,
            None => found(tx.get(tables.stocks, key).for_write().await?, "stock", key)?,
        };
        let taken = take(stock, line, district.warehouse());
        tx.put(tables.stocks, key, &taken).await?;
        let ordered = order_line(line, item, stock, district.number());
        tx.insert(tables.lines, district.line(number, i as u8 + 1), &ordered).await?;
        total += ordered.amount;
        let is_original = is_original(item.data.as_bytes()) && is_original(stock.data.as_bytes());
        digest.add(ordered.amount as u64).add(taken.quantity as u64).add(u64::from(is_original));
        digest.add_text(item.name.as_bytes());
    }
    let total = total * i64::from(10_000 - customer.discount) / 10_000
        * i64::from(10_000 + warehouse_tax + district_tax)
        / 10_000;
    digest.add(total as u64).add(u64::from(number)).add_text(customer.last.as_bytes());
    Ok(digest.value())
}

/// Reads all items, and all stocks before the order changes them.
async fn fetch<'t, C: Scheme>(
    tables: &Tables,
    tx: &'t Txn<C>,
    input: &NewOrder,
    items: &mut [Option<&'t Item>; LINES_MAX],
    stocks: &mut [Option<&'t Stock>; LINES_MAX],
) -> Result<()> {
    let lines = input.lines();
    let mut keys = [0; LINES_MAX];
    let keys = &mut keys[..lines.len()];
    for (key, line) in keys.iter_mut().zip(lines) {
        *key = u64::from(line.item);
    }
    tx.get_into(tables.items, keys, &mut items[..lines.len()]).await?;
    for (key, line) in keys.iter_mut().zip(lines) {
        *key = keys::stock(line.warehouse, line.item);
    }
    tx.get_into(tables.stocks, keys, &mut stocks[..lines.len()]).await?;
    for i in (0..lines.len()).filter(|&i| input.is_repeat(i)) {
        stocks[i] = None; // an earlier line changes it
    }
    Ok(())
}

/// Returns the stock after the line has been taken from it.
fn take(stock: &Stock, line: &Line, home: u16) -> Stock {
    let quantity = i32::from(line.quantity);
    let reordered = if stock.quantity - quantity >= LEFT_MIN { 0 } else { REORDERED };
    Stock {
        quantity: stock.quantity - quantity + reordered,
        ytd: stock.ytd + u64::from(line.quantity),
        orders: stock.orders + 1,
        remote_orders: stock.remote_orders + u32::from(line.warehouse != home),
        ..*stock
    }
}

fn order_line(line: &Line, item: &Item, stock: &Stock, district: u8) -> OrderLine {
    OrderLine {
        amount: i64::from(line.quantity) * item.price,
        item: line.item,
        supply_warehouse: line.warehouse,
        quantity: line.quantity,
        district_info: stock.district_infos[usize::from(district) - 1],
        ..zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stocks_are_filled_up_before_they_run_out() {
        // Proves the rule of clause 2.4.2.2 at its limit, and the counters.
        let line = Line { item: 1, warehouse: 2, quantity: 5 };
        let with = |quantity| Stock { quantity, ..zeroed() };
        assert_eq!(take(&with(15), &line, 2).quantity, 10);
        assert_eq!(take(&with(14), &line, 2).quantity, 100);
        let (home, away) = (take(&with(50), &line, 2), take(&with(50), &line, 1));
        assert_eq!((home.ytd, home.orders, home.remote_orders), (5, 1, 0));
        assert_eq!((away.ytd, away.orders, away.remote_orders), (5, 1, 1));
    }
}
