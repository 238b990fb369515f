//! The keys of rows: numbers packed into eight bytes. All tables have keys of one width, whose order is the order of
//! the columns:
//!
//! | row | bits, from the highest |
//! |---|---|
//! | warehouse | warehouse 16 |
//! | district | warehouse 16, district 4 |
//! | customer | warehouse 16, district 4, customer 12 |
//! | order, new order | warehouse 16, district 4, order 32 |
//! | order line | warehouse 16, district 4, order 32, line 4 |
//! | a customer's order | warehouse 16, district 4, customer 12, order 32 |
//! | stock | warehouse 16, item 24 |
//! | history | source 16, number 32, warehouse 16 |
//!
//! The tables are partitioned by the warehouse's number. In most tables it is the leading bits of the key, without the
//! low bits for the other numbers. In the history it is the whole key, modulo the number of partitions.
//!
//! All numbers except the history's begin with 1. `Scale::check` keeps them within their bits.

use std::ops::RangeInclusive;

pub(crate) const WAREHOUSES_MAX: u32 = u16::MAX as u32;
pub(crate) const DISTRICTS_MAX: u32 = (1 << DISTRICT_BITS) - 1;
pub(crate) const CUSTOMERS_MAX: u32 = (1 << CUSTOMER_BITS) - 1;
/// One number stays free for the item that does not exist.
pub(crate) const ITEMS_MAX: u32 = (1 << ITEM_BITS) - 2;
/// Lines of one order.
pub(crate) const LINES_MAX: usize = 15;

const DISTRICT_BITS: u32 = 4;
const CUSTOMER_BITS: u32 = 12;
const ORDER_BITS: u32 = 32;
const LINE_BITS: u32 = 4;
const ITEM_BITS: u32 = 24;
const HISTORY_BITS: u32 = 32;
const WAREHOUSE_BITS: u32 = 16;

/// The number of leading bits of keys that end with the warehouse's number.
pub(crate) mod leading {
    use super::{CUSTOMER_BITS, DISTRICT_BITS, ITEM_BITS, LINE_BITS, ORDER_BITS};

    pub(crate) const WAREHOUSE: u32 = 64;
    pub(crate) const DISTRICT: u32 = 64 - DISTRICT_BITS;
    pub(crate) const CUSTOMER: u32 = DISTRICT - CUSTOMER_BITS;
    pub(crate) const ORDER: u32 = DISTRICT - ORDER_BITS;
    pub(crate) const LINE: u32 = ORDER - LINE_BITS;
    pub(crate) const CUSTOMER_ORDER: u32 = CUSTOMER - ORDER_BITS;
    pub(crate) const STOCK: u32 = 64 - ITEM_BITS;
    pub(crate) const HISTORY: u32 = 64;
    /// The same for a district's number in four bytes.
    pub(crate) const DISTRICT_OF_FOUR: u32 = 32 - DISTRICT_BITS;
}

const _: () = assert!(16 + DISTRICT_BITS + CUSTOMER_BITS + ORDER_BITS == 64);
const _: () = assert!(LINES_MAX < 1 << LINE_BITS);

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct District(u32);

impl District {
    #[inline(always)]
    pub(crate) fn new(warehouse: u16, number: u8) -> Self {
        debug_assert!(warehouse > 0);
        debug_assert!((1..=DISTRICTS_MAX).contains(&u32::from(number)));
        District(u32::from(warehouse) << DISTRICT_BITS | u32::from(number))
    }
    #[inline(always)]
    pub(crate) fn warehouse(self) -> u16 {
        (self.0 >> DISTRICT_BITS) as u16
    }
    #[inline(always)]
    pub(crate) fn number(self) -> u8 {
        (self.0 & DISTRICTS_MAX) as u8
    }
    #[inline(always)]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.0)
    }
    /// The district's key in four bytes.
    #[inline(always)]
    pub(crate) fn number_of_all(self) -> u32 {
        self.0
    }
    #[inline(always)]
    pub(crate) fn customer(self, customer: u16) -> u64 {
        debug_assert!((1..=CUSTOMERS_MAX).contains(&u32::from(customer)));
        self.key() << CUSTOMER_BITS | u64::from(customer)
    }
    #[inline(always)]
    pub(crate) fn order(self, order: u32) -> u64 {
        self.key() << ORDER_BITS | u64::from(order)
    }
    /// The keys of all orders, and of all new orders.
    pub(crate) fn orders(self) -> RangeInclusive<u64> {
        self.order(0)..=self.order(u32::MAX)
    }
    #[inline(always)]
    pub(crate) fn line(self, order: u32, line: u8) -> u64 {
        debug_assert!(usize::from(line) <= LINES_MAX);
        self.order(order) << LINE_BITS | u64::from(line)
    }
    /// The keys of the lines of the orders in a range.
    pub(crate) fn lines(self, orders: RangeInclusive<u32>) -> RangeInclusive<u64> {
        self.line(*orders.start(), 0)..=self.line(*orders.end(), LINES_MAX as u8)
    }
    /// The key of a customer's order in the index by customer.
    #[inline(always)]
    pub(crate) fn customer_order(self, customer: u16, order: u32) -> u64 {
        self.customer(customer) << ORDER_BITS | u64::from(order)
    }
}

/// The order's number in the key of an order, a new order or a customer's order.
#[inline(always)]
pub(crate) fn order_of(key: u64) -> u32 {
    key as u32
}

/// The district in the key of a customer.
#[inline(always)]
pub(crate) fn district_of_customer(key: u64) -> District {
    District((key >> CUSTOMER_BITS) as u32)
}

/// The customer's number in the key of a customer.
#[inline(always)]
pub(crate) fn customer_of(key: u64) -> u16 {
    (key & u64::from(CUSTOMERS_MAX)) as u16
}

/// The district in the key of an order.
#[inline(always)]
pub(crate) fn district_of_order(key: u64) -> District {
    District((key >> ORDER_BITS) as u32)
}

/// The key of the order that a line belongs to.
#[inline(always)]
pub(crate) fn order_of_line(key: u64) -> u64 {
    key >> LINE_BITS
}

#[inline(always)]
pub(crate) fn stock(warehouse: u16, item: u32) -> u64 {
    debug_assert!(item < 1 << ITEM_BITS);
    u64::from(warehouse) << ITEM_BITS | u64::from(item)
}

/// The item in the key of a stock.
#[inline(always)]
pub(crate) fn item_of_stock(key: u64) -> u32 {
    (key & ((1 << ITEM_BITS) - 1)) as u32
}

/// The key of a row in the history: the row of this number from one source, for a payment to this warehouse.
#[inline(always)]
pub(crate) fn history(source: u64, number: u64, warehouse: u16) -> u64 {
    debug_assert!(source < 1 << (64 - HISTORY_BITS - WAREHOUSE_BITS));
    debug_assert!(number < 1 << HISTORY_BITS);
    (source << HISTORY_BITS | number) << WAREHOUSE_BITS | u64::from(warehouse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_keeps_the_order_of_the_columns() {
        // Proves, for every table, that the greatest row of a district sorts before the least row of the next
        // district.
        let (least, next) = (District::new(1, 15), District::new(2, 1));
        assert!(least < next);
        assert!(least.customer(4095) < next.customer(1));
        assert!(least.order(u32::MAX) < next.order(0));
        assert!(least.line(u32::MAX, 15) < next.line(0, 0));
        assert!(least.customer_order(4095, u32::MAX) < next.customer_order(1, 0));
        assert!(stock(1, ITEMS_MAX + 1) < stock(2, 1));
        assert!(history(1, (1 << 32) - 1, 9) < history(2, 0, 1));
    }

    #[test]
    fn leading_bits_are_the_warehouse() {
        // Proves that all rows of a warehouse are in one partition: the warehouse's number modulo the number of
        // partitions.
        let (warehouse, district) = (0x1234, District::new(0x1234, 5));
        let keys = [
            (u64::from(warehouse), leading::WAREHOUSE),
            (district.key(), leading::DISTRICT),
            (district.customer(7), leading::CUSTOMER),
            (district.order(8), leading::ORDER),
            (district.line(8, 9), leading::LINE),
            (district.customer_order(7, 8), leading::CUSTOMER_ORDER),
            (stock(warehouse, 10), leading::STOCK),
            (u64::from(district.number_of_all()) << 32, leading::DISTRICT_OF_FOUR),
        ];
        assert!(keys.iter().all(|(key, bits)| key >> (64 - bits) == u64::from(warehouse)));
        assert_eq!((history(1, 2, warehouse) >> (64 - leading::HISTORY)) % 64, u64::from(warehouse) % 64);
    }

    #[test]
    fn packed_numbers_come_out_again() {
        // Proves that numbers at their limits are neither cut nor mixed up.
        let district = District::new(u16::MAX, 10);
        assert_eq!((district.warehouse(), district.number()), (u16::MAX, 10));
        assert_eq!(order_of(district.order(u32::MAX)), u32::MAX);
        assert_eq!(district_of_order(district.order(u32::MAX)), district);
        assert_eq!(district_of_customer(district.customer(4095)), district);
        assert_eq!(customer_of(district.customer(4095)), 4095);
        assert_eq!(order_of(district.customer_order(3000, 77)), 77);
        assert_eq!(order_of_line(district.line(9, 15)), district.order(9));
        assert_eq!(item_of_stock(stock(u16::MAX, 100_000)), 100_000);
    }
}
