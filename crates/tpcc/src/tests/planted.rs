//! Plants corruptions, each of which as few conditions as possible can notice.

use super::*;
use crate::rows::{DistrictRow, OrderLine, Warehouse};

/// The district that is corrupted. It is not the first in any order.
const PLACE: (u16, u8) = (2, 2);

fn place() -> District {
    District::new(PLACE.0, PLACE.1)
}

/// Customers of each district.
const CUSTOMERS: u32 = 40;

/// Corrupts a database after some transactions. Exactly the expected conditions must notice, and say where.
fn check(expected: &[usize], corrupt: impl AsyncFn(&Txn, &Tables) -> Result<()>) {
    let scale = Scale { warehouses: 2, districts: 2, customers: CUSTOMERS, items: 50, suppliers: 5 };
    let (db, suite) = loaded::<Serializable>(Settings::new(scale), SEED, 2).unwrap();
    run(&db, &suite, 1, 100, SEED);
    assert_eq!(violated(&db, &suite).0, [0; 0]);
    alone(&db, async |tx: &Txn| corrupt(tx, &suite.tables).await).unwrap();
    let (numbers, details) = violated(&db, &suite);
    assert_eq!(numbers, expected, "{details:?}");
    assert!(details.iter().all(|detail| detail.contains("warehouse 2")), "{details:?}");
}

async fn edit<T>(tx: &Txn, table: Table<u64, Plain<T>>, key: u64, change: impl FnOnce(&mut T)) -> Result<()>
where
    T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static,
{
    let mut row = *tx.get(table, key).await?.expect("it is there");
    change(&mut row);
    tx.put(table, key, &row).await
}

/// The second-oldest new order of the corrupted district.
async fn second_new_order(tx: &Txn, tables: &Tables) -> Result<u64> {
    let mut keys = tx.scan(tables.new_orders, place().orders());
    keys.next_key().await?;
    Ok(keys.next_key().await?.expect("several orders are new"))
}

/// Gives an order's lines a date, and the order's customer the amount.
async fn pay_out(tx: &Txn, tables: &Tables, order: u64, deliveries: u32) -> Result<()> {
    let mut amount = 0;
    let mut lines = tx.scan(tables.lines, place().lines(order_of(order)..=order_of(order)));
    while let Some((key, line)) = lines.next().await? {
        amount += line.amount;
        tx.put(tables.lines, key, &OrderLine { delivered: 9, ..*line }).await?;
    }
    let customer = tx.get(tables.orders, order).await?.expect("it is there").customer;
    edit(tx, tables.customers, place().customer(customer), |row| {
        row.balance += amount;
        row.deliveries += deliveries;
    })
    .await
}

#[test]
fn wrong_takings_are_noticed() {
    // Proves that conditions 1, 8 and 9 notice too much money in a warehouse or a district.
    let warehouse = u64::from(PLACE.0);
    check(&[1, 8], async |tx, tables| {
        edit(tx, tables.warehouses, warehouse, |row: &mut Warehouse| row.ytd += 1).await
    });
    check(&[1, 9], async |tx, tables| {
        edit(tx, tables.districts, place().key(), |row: &mut DistrictRow| row.ytd -= 1).await
    });
    check(&[8, 9], async |tx, tables| {
        edit(tx, tables.warehouses, warehouse, |row: &mut Warehouse| row.ytd += 1).await?;
        edit(tx, tables.districts, place().key(), |row: &mut DistrictRow| row.ytd += 1).await
    });
}

#[test]
fn a_payment_of_another_district_is_noticed() {
    // Proves that condition 9 alone distinguishes districts of one warehouse.
    check(&[9], async |tx, tables| {
        let mut rows = tx.scan_all(tables.history);
        while let Some((key, row)) = rows.next().await? {
            if (row.warehouse, row.district) == PLACE {
                return edit(tx, tables.history, key, |row| row.district = 1).await;
            }
        }
        panic!("the place has payments")
    });
}

#[test]
fn a_skipped_order_number_is_noticed() {
    // Proves that condition 2 alone checks the number of the next order.
    check(&[2], async |tx, tables| {
        edit(tx, tables.districts, place().key(), |row: &mut DistrictRow| row.next_order += 1).await
    });
}

#[test]
fn a_delivery_out_of_turn_is_noticed() {
    // Proves that condition 3 alone notices an order that is delivered correctly, but before an older order.
    check(&[3], async |tx, tables| {
        let order = second_new_order(tx, tables).await?;
        tx.delete(tables.new_orders, order).await?;
        edit(tx, tables.orders, order, |row| row.carrier = 3).await?;
        pay_out(tx, tables, order, 1).await
    });
}

#[test]
fn a_new_order_without_its_order_is_noticed() {
    // Proves that conditions 5 and 11, in addition to 2, notice a new order whose order was never inserted.
    check(&[2, 5, 11], async |tx, tables| {
        let next = tx.get(tables.districts, place().key()).await?.expect("it is there").next_order;
        tx.insert(tables.new_orders, place().order(next), ()).await
    });
}

#[test]
fn a_lost_line_is_noticed() {
    // Proves that conditions 4 and 6 notice a missing line. The line's order was free, so no sum changes.
    check(&[4, 6], async |tx, tables| tx.delete(tables.lines, place().line(3, 2)).await.map(drop));
}

#[test]
fn a_line_of_another_order_is_noticed() {
    // Proves that condition 6 alone notices a line that moved from one order to another.
    check(&[6], async |tx, tables| {
        let mut moved = None;
        let mut lines = tx.scan(tables.lines, place().lines(3..=3));
        while let Some((key, line)) = lines.next().await? {
            moved = Some((key, *line));
        }
        let (key, line) = moved.expect("orders have lines");
        tx.delete(tables.lines, key).await?;
        tx.insert(tables.lines, place().line(4, 0), &line).await
    });
}

#[test]
fn an_order_with_a_carrier_that_is_still_new_is_noticed() {
    // Proves that condition 5 alone notices a delivery that did everything but remove the new order.
    check(&[5], async |tx, tables| {
        let order = second_new_order(tx, tables).await?;
        edit(tx, tables.orders, order, |row| row.carrier = 3).await?;
        pay_out(tx, tables, order, 0).await
    });
}

#[test]
fn a_delivered_line_without_a_date_is_noticed() {
    // Proves that condition 7 alone notices a wrong date of delivery. The line's order was free, so no sum changes.
    check(&[7], async |tx, tables| {
        edit(tx, tables.lines, place().line(3, 1), |row: &mut OrderLine| row.delivered = 0).await
    });
}

#[test]
fn wrong_balances_are_noticed() {
    // Proves what distinguishes conditions 10 and 12.
    let customer = place().customer(7);
    check(&[10, 12], async |tx, tables| {
        edit(tx, tables.customers, customer, |row: &mut Customer| row.balance += 1).await
    });
    check(&[12], async |tx, tables| {
        edit(tx, tables.customers, customer, |row: &mut Customer| row.ytd_payment += 1).await
    });
    check(&[10], async |tx, tables| {
        edit(tx, tables.customers, customer, |row: &mut Customer| {
            row.balance += 1;
            row.ytd_payment -= 1;
        })
        .await
    });
}

#[test]
fn a_delivery_that_was_not_counted_is_noticed() {
    // Proves that condition 11 alone compares orders with the customers' deliveries.
    let customer = place().customer(7);
    check(&[11], async |tx, tables| {
        edit(tx, tables.customers, customer, |row: &mut Customer| row.deliveries += 1).await
    });
}

#[test]
fn a_lost_customer_is_noticed() {
    // Proves that conditions 10 and 12, which check every customer, notice a missing customer in the middle of a
    // district or at its end. The customer at the end has had a delivery, which condition 11 counts.
    for (number, expected) in [(2, &[10, 12][..]), (CUSTOMERS as u16, &[10, 11, 12])] {
        check(expected, async |tx, tables| {
            tx.delete(tables.customers, place().customer(number)).await.map(drop)
        });
    }
}
