//! The size of the database. The default is the specification's numbers. Tests shrink everything.

use crate::keys::{CUSTOMERS_MAX, DISTRICTS_MAX, District, ITEMS_MAX, WAREHOUSES_MAX};
use crate::rows::{Stock, zeroed};
use crate::{keys, random};

/// The number of suppliers of TPC-CH among which all stocks are divided.
const SUPPLIERS_FULL: u32 = 10_000;

/// Numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Districts of a warehouse.
    pub districts: u32,
    /// Customers of a district, each with one order at the beginning.
    pub customers: u32,
    /// Items, each in stock in every warehouse.
    pub items: u32,
    /// Suppliers of TPC-CH in the table. All stocks are divided among `supplied_by` suppliers, some of which may be
    /// missing.
    pub suppliers: u32,
}

impl Scale {
    /// The specification's numbers for this many warehouses.
    pub fn full(warehouses: u32) -> Scale {
        Scale { warehouses, districts: 10, customers: 3000, items: 100_000, suppliers: 100 }
    }

    /// A small database with rows in every table, for checks.
    pub fn small(warehouses: u32) -> Scale {
        Scale { warehouses, districts: 10, customers: 60, items: 200, suppliers: 10 }
    }

    /// Refuses, with a message, numbers for which keys have no room.
    pub fn check(&self) -> Result<(), String> {
        let districts_max = DISTRICTS_MAX.min(size_of_val(&zeroed::<Stock>().district_infos) as u32 / 24);
        let supplied_max = self.supplied_by();
        for (name, number, max) in [
            ("warehouses", self.warehouses, WAREHOUSES_MAX),
            ("districts", self.districts, districts_max),
            ("customers", self.customers, CUSTOMERS_MAX),
            ("items", self.items, ITEMS_MAX),
            ("suppliers", self.suppliers, supplied_max),
        ] {
            if !(1..=max).contains(&number) {
                return Err(format!("there can be 1 to {max} {name}, not {number}"));
            }
        }
        Ok(())
    }

    /// The number of orders, from 1 on, that the loader has already delivered: 2,100 of 3,000.
    pub(crate) fn delivered(&self) -> u32 {
        self.customers * 7 / 10
    }

    /// The number of an item that does not exist.
    pub(crate) fn unused_item(&self) -> u32 {
        self.items + 1
    }

    pub(crate) fn warehouses(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.warehouses as u16
    }

    /// All districts, in the order of their keys.
    pub(crate) fn districts(&self) -> impl Iterator<Item = District> + use<> {
        let districts = self.districts as u8;
        self.warehouses().flat_map(move |warehouse| {
            (1..=districts).map(move |district| District::new(warehouse, district))
        })
    }

    /// The number of a district among all, from 0.
    pub(crate) fn district_index(&self, district: District) -> usize {
        (usize::from(district.warehouse()) - 1) * self.districts as usize + usize::from(district.number()) - 1
    }

    /// The number of a customer among all, from 0.
    pub(crate) fn customer_index(&self, district: District, customer: u16) -> usize {
        self.district_index(district) * self.customers as usize + usize::from(customer) - 1
    }

    /// The number of suppliers among which all stocks are divided. A stock's supplier is `warehouse * item` modulo
    /// this number, as in the CH-benCHmark, which has 10,000 suppliers for 100,000 items.
    pub fn supplied_by(&self) -> u32 {
        (self.items / 10).clamp(1, SUPPLIERS_FULL)
    }

    /// The keys of all stocks of a supplier. Solves `warehouse * item = supplier` for each warehouse.
    pub(crate) fn supplied(&self, supplier: u32) -> impl Iterator<Item = u64> + use<> {
        let (modulus, items) = (self.supplied_by(), self.items);
        self.warehouses().flat_map(move |warehouse| {
            let common = greatest_common_divisor(u32::from(warehouse), modulus);
            let period = modulus / common;
            let first = if supplier.is_multiple_of(common) {
                let factor = inverse(u32::from(warehouse) / common % period, period);
                (u64::from(supplier / common) * factor % u64::from(period)) as u32
            } else {
                items + 1 // none
            };
            let first = if first == 0 { period } else { first };
            (first..=items).step_by(period as usize).map(move |item| keys::stock(warehouse, item))
        })
    }

    /// The number of last names among the customers of a district.
    pub(crate) fn names(&self) -> u32 {
        random::names(self.customers)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Returns the x with a x = 1 modulo m, for an a that is coprime to m, by Euclid's algorithm.
fn inverse(a: u32, m: u32) -> u64 {
    let (mut r, mut next_r) = (i64::from(m), i64::from(a));
    let (mut t, mut next_t) = (0, 1);
    while next_r != 0 {
        let quotient = r / next_r;
        (r, next_r) = (next_r, r - quotient * next_r);
        (t, next_t) = (next_t, t - quotient * next_t);
    }
    debug_assert!(r == 1);
    t.rem_euclid(i64::from(m)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stock_has_one_supplier() {
        // Proves that solving the equation finds exactly the stocks that trying all stocks finds.
        for (warehouses, items) in [(1, 1), (3, 100), (12, 200), (25, 1000)] {
            let scale = Scale { warehouses, items, ..Scale::small(1) };
            let modulus = scale.supplied_by();
            let mut total = 0;
            for supplier in 0..modulus {
                let found: Vec<u64> = scale.supplied(supplier).collect();
                let tried = scale.warehouses().flat_map(|w| (1..=items).map(move |i| (w, i)));
                let tried = tried.filter(|&(w, i)| u32::from(w) * i % modulus == supplier);
                assert_eq!(found, tried.map(|(w, i)| keys::stock(w, i)).collect::<Vec<_>>(), "{scale:?}");
                total += found.len();
            }
            assert_eq!(total as u32, warehouses * items);
        }
    }

    #[test]
    fn sizes_beyond_the_keys_are_refused() {
        // Proves each limit, and that full size is within all of them.
        assert!(Scale::full(1000).check().is_ok());
        assert!(Scale::full(1000).delivered() == 2100);
        for wrong in [
            Scale { warehouses: 0, ..Scale::full(1) },
            Scale { warehouses: 65_536, ..Scale::full(1) },
            Scale { districts: 11, ..Scale::full(1) },
            Scale { customers: 4096, ..Scale::full(1) },
            Scale { items: 1 << 24, ..Scale::full(1) },
            Scale { suppliers: 10_001, ..Scale::full(1) },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
