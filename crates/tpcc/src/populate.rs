//! The rows that a database begins with (clause 4.3.3). Each row is made from a generator of its own, so the order in
//! which rows are made, and how often, does not matter.

use crate::keys::District;
use crate::payment::BAD_CREDIT;
use crate::random::{self, NonUniform, between, digits, letters, text};
use crate::regions::{NATIONS, REGION_NAMES};
use crate::rng::Rng;
use crate::rows::{
    Customer, DistrictRow, History, Item, Nation, Order, OrderLine, Region, Stock, Supplier, Text, Warehouse,
    zeroed,
};
use crate::scale::Scale;

/// The amount that each customer has paid, and still owes, at the beginning: 10.00.
pub(crate) const PAID: i64 = 1_000;
const CREDIT_LIMIT: i64 = 5_000_000;

pub(crate) fn item(rng: &mut Rng) -> Item {
    Item {
        image: between(rng, 1, 10_000) as u32,
        name: text(rng, 14),
        price: between(rng, 100, 10_000) as i64,
        data: random::data(rng),
        ..zeroed()
    }
}

pub(crate) fn warehouse(rng: &mut Rng, scale: &Scale) -> Warehouse {
    Warehouse {
        name: text(rng, 6),
        address: random::address(rng),
        tax: random::tax(rng),
        ytd: PAID * i64::from(scale.customers) * i64::from(scale.districts),
        ..zeroed()
    }
}

pub(crate) fn district(rng: &mut Rng, scale: &Scale) -> DistrictRow {
    DistrictRow {
        name: text(rng, 6),
        address: random::address(rng),
        tax: random::tax(rng),
        ytd: PAID * i64::from(scale.customers),
        next_order: scale.customers + 1,
        ..zeroed()
    }
}

pub(crate) fn stock(rng: &mut Rng) -> Stock {
    let mut district_infos = [[0; 24]; 10];
    for info in &mut district_infos {
        letters(rng, info);
    }
    Stock { quantity: between(rng, 10, 100) as i32, district_infos, data: random::data(rng), ..zeroed() }
}

/// Makes a customer. The last names of the first thousand are in order.
pub(crate) fn customer(rng: &mut Rng, number: u16, names: &NonUniform, scale: &Scale, date: u64) -> Customer {
    let in_order = u32::from(number) - 1;
    let name = if in_order < scale.names() { in_order as u16 } else { names.draw(rng) as u16 };
    let has_bad_credit = rng.below(10) == 0;
    Customer {
        balance: -PAID,
        ytd_payment: PAID,
        credit_limit: CREDIT_LIMIT,
        since: date,
        discount: between(rng, 0, 5_000) as u32,
        payments: 1,
        first: text(rng, 8),
        middle: *b"OE",
        last: random::last_name(name),
        address: random::address(rng),
        phone: digits(rng),
        credit: if has_bad_credit { BAD_CREDIT } else { *b"GC" },
        data: text(rng, 300),
        ..zeroed()
    }
}

/// Makes the history's row of a customer's first payment.
pub(crate) fn history(rng: &mut Rng, district: District, customer: u16, date: u64) -> History {
    History {
        date,
        amount: PAID,
        customer_warehouse: district.warehouse(),
        warehouse: district.warehouse(),
        customer,
        customer_district: district.number(),
        district: district.number(),
        data: text(rng, 12),
        ..zeroed()
    }
}

/// Makes an order. The last 900 of 3,000 are not delivered yet.
pub(crate) fn order(rng: &mut Rng, number: u32, customer: u16, scale: &Scale, date: u64) -> Order {
    let is_delivered = number <= scale.delivered();
    Order {
        entered: date,
        customer,
        carrier: if is_delivered { between(rng, 1, 10) as u8 } else { 0 },
        lines: between(rng, 5, 15) as u8,
        all_local: 1,
        ..zeroed()
    }
}

/// Makes a line of an order. Delivered lines cost nothing.
pub(crate) fn line(rng: &mut Rng, warehouse: u16, order: &Order, scale: &Scale) -> OrderLine {
    let is_delivered = order.carrier != 0;
    let mut district_info = [0; 24];
    letters(rng, &mut district_info);
    OrderLine {
        delivered: if is_delivered { order.entered } else { 0 },
        amount: if is_delivered { 0 } else { between(rng, 1, 999_999) as i64 },
        item: between(rng, 1, u64::from(scale.items)) as u32,
        supply_warehouse: warehouse,
        quantity: 5,
        district_info,
        ..zeroed()
    }
}

/// Makes a supplier. Nations take turns, so every region has about as many suppliers.
pub(crate) fn supplier(rng: &mut Rng, number: u32) -> Supplier {
    Supplier {
        balance: between(rng, 0, 1_099_998) as i64 - 99_999,
        nation: number % NATIONS.len() as u32,
        name: Text::new(format!("Supplier#{number:09}").as_bytes()),
        address: text(rng, 10),
        phone: digits(rng),
        comment: text(rng, 26),
        ..zeroed()
    }
}

pub(crate) fn nation(rng: &mut Rng, number: usize) -> Nation {
    let (name, region) = NATIONS[number];
    Nation { region, name: Text::new(name.as_bytes()), comment: text(rng, 31), ..zeroed() }
}

pub(crate) fn region(rng: &mut Rng, number: usize) -> Region {
    Region { name: Text::new(REGION_NAMES[number].as_bytes()), comment: text(rng, 31) }
}
