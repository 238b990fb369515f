//! Payment (clause 2.5): a customer pays. Six customers in ten are given by last name, and 15 in 100 pay elsewhere.

use crate::digest::Digest;
use crate::inputs::{Payment, Who};
use crate::keys::District;
use crate::random::last_name;
use crate::rows::{Customer, DistrictRow, History, Text, Warehouse, zeroed};
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};
use std::io::Write;

/// The mark of customers whose payments are noted in C_DATA.
pub(crate) const BAD_CREDIT: [u8; 2] = *b"BC";

/// Runs the transaction. Returns what the terminal would show.
pub(crate) async fn payment<C: Scheme>(tables: &Tables, tx: &Txn<C>, input: &Payment) -> Result<u64> {
    // The rows that other transactions want as well are written first: if there is a conflict, little work is lost.
    let key = u64::from(input.district.warehouse());
    let warehouse = found(tx.get(tables.warehouses, key).for_write().await?, "warehouse", key)?;
    let row = Warehouse { ytd: warehouse.ytd + input.amount, ..*warehouse };
    tx.put(tables.warehouses, key, &row).await?;

    let key = input.district.key();
    let district = found(tx.get(tables.districts, key).for_write().await?, "district", key)?;
    let row = DistrictRow { ytd: district.ytd + input.amount, ..*district };
    tx.put(tables.districts, key, &row).await?;

    let (number, customer) = customer(tables, tx, input.customer_district, input.customer, true).await?;
    let paid = pay(customer, input, number);
    tx.put(tables.customers, input.customer_district.customer(number), &paid).await?;

    let history = history(input, number, warehouse, district);
    tx.insert(tables.history, input.history, &history).await?;

    let mut digest = Digest::default();
    digest.add(paid.balance as u64).add(u64::from(paid.discount)).add_text(paid.data.as_bytes());
    digest.add_text(paid.last.as_bytes()).add_text(paid.address.city.as_bytes());
    digest.add_text(warehouse.address.city.as_bytes()).add_text(district.address.city.as_bytes());
    Ok(digest.value())
}

/// Returns the requested customer, with the customer's number. `is_written`: the row is going to be changed.
pub(crate) async fn customer<'t, C: Scheme>(
    tables: &Tables,
    tx: &'t Txn<C>,
    district: District,
    who: Who,
    is_written: bool,
) -> Result<(u16, &'t Customer)> {
    match who {
        Who::Number(number) => {
            let key = district.customer(number);
            let row = tx.get(tables.customers, key);
            let row = if is_written { row.for_write() } else { row };
            Ok((number, found(row.await?, "customer", key)?))
        }
        Who::Name(name) => {
            let customer = tables.customer_by_last_name(tx, district, &last_name(name)).await?;
            found(customer, "customer by name", district.key())
        }
    }
}

/// Returns the customer after the payment.
fn pay(customer: &Customer, input: &Payment, number: u16) -> Customer {
    let mut paid = *customer;
    paid.balance -= input.amount;
    paid.ytd_payment += input.amount;
    paid.payments += 1;
    if paid.credit == BAD_CREDIT {
        let (note, length) = note(input, number);
        paid.data.prepend(&note[..length]);
    }
    paid
}

/// Returns the note that is put before the text in C_DATA, and the note's length.
pub(crate) fn note(input: &Payment, number: u16) -> ([u8; 64], usize) {
    let (theirs, ours) = (input.customer_district, input.district);
    let mut text = [0; 64];
    let mut rest = &mut text[..];
    write!(
        rest,
        "{number} {} {} {} {} {}.{:02} ",
        theirs.number(),
        theirs.warehouse(),
        ours.number(),
        ours.warehouse(),
        input.amount / 100,
        input.amount % 100
    )
    .expect("six numbers of a few digits each fit");
    let length = 64 - rest.len();
    (text, length)
}

fn history(input: &Payment, number: u16, warehouse: &Warehouse, district: &DistrictRow) -> History {
    History {
        date: input.date,
        amount: input.amount,
        customer_warehouse: input.customer_district.warehouse(),
        customer_district: input.customer_district.number(),
        customer: number,
        warehouse: input.district.warehouse(),
        district: input.district.number(),
        data: history_data(warehouse.name.as_bytes(), district.name.as_bytes()),
        ..zeroed()
    }
}

/// H_DATA: the names of the warehouse and the district.
pub(crate) fn history_data(warehouse: &[u8], district: &[u8]) -> Text<24> {
    let mut data = [b' '; 24];
    data[..warehouse.len()].copy_from_slice(warehouse);
    data[warehouse.len() + 4..][..district.len()].copy_from_slice(district);
    Text::new(&data[..warehouse.len() + 4 + district.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(amount: i64) -> Payment {
        let (district, customer_district) = (District::new(65_535, 10), District::new(65_534, 9));
        Payment { district, customer_district, customer: Who::Number(4095), amount, date: 1, history: 1 }
    }

    #[test]
    fn bad_credit_is_noted() {
        // Proves the amounts, that the note is put before the data, that the longest note fits, and that other
        // customers get no note.
        let mut customer = zeroed::<Customer>();
        customer.data = Text::new(&[b'x'; 490]);
        let paid = pay(&customer, &input(12_305), 4095);
        assert_eq!((paid.balance, paid.ytd_payment, paid.payments), (-12_305, 12_305, 1));
        assert_eq!(paid.data, customer.data);
        customer.credit = BAD_CREDIT;
        let paid = pay(&customer, &input(500_000), 4095);
        assert!(paid.data.as_bytes().starts_with(b"4095 9 65534 10 65535 5000.00 xxx"));
        assert_eq!(paid.data.len(), 500);
    }

    #[test]
    fn the_history_has_both_names() {
        // Proves that the longest names fit into H_DATA with four spaces between them.
        let warehouse = Warehouse { name: Text::new(b"0123456789"), ..zeroed() };
        let district = DistrictRow { name: Text::new(b"abcdefghij"), ..zeroed() };
        let row = history(&input(5), 3, &warehouse, &district);
        assert_eq!(row.data.as_bytes(), b"0123456789    abcdefghij");
        assert_eq!((row.amount, row.customer, row.customer_district, row.district), (5, 3, 9, 10));
    }
}
