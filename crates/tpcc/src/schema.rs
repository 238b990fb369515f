//! The tables, and the two ways to rows other than by primary key: customers by last name, and a customer's newest
//! order. Both are indexes that the engine keeps up to date. All rows of a warehouse are in its partition of the
//! database.

use crate::keys::{self, District, leading};
use crate::rows::{
    Customer, DistrictRow, History, Item, Nation, Order, OrderLine, Region, Stock, Supplier, Text, Warehouse,
};
use braiddb::{ConcurrencyControl as Scheme, Database, Error, Index, Plain, Result, Table, Txn};

/// The key by which customers are sorted: district, last name, first name. The engine adds the row's key at the end,
/// so equal names are sorted by the customer's number. The key has a fixed width, so making and reading it allocates
/// nothing.
type Name = (u32, [u8; 16], [u8; 16]);

/// The tables of a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) warehouses: Table<u64, Plain<Warehouse>>,
    pub(crate) districts: Table<u64, Plain<DistrictRow>>,
    pub(crate) customers: Table<u64, Plain<Customer>>,
    pub(crate) history: Table<u64, Plain<History>>,
    pub(crate) orders: Table<u64, Plain<Order>>,
    pub(crate) new_orders: Table<u64, ()>,
    pub(crate) lines: Table<u64, Plain<OrderLine>>,
    pub(crate) items: Table<u64, Plain<Item>>,
    pub(crate) stocks: Table<u64, Plain<Stock>>,
    pub(crate) suppliers: Table<u64, Plain<Supplier>>,
    pub(crate) nations: Table<u64, Plain<Nation>>,
    pub(crate) regions: Table<u64, Plain<Region>>,
    customers_by_name: Index<Name, u64, Plain<Customer>>,
    /// By `District::customer_order`. This key also has the order's number, so it has eight bytes and is unique.
    orders_by_customer: Index<u64, u64, Plain<Order>>,
}

impl Tables {
    /// Opens the tables of this database, and makes missing ones.
    pub(crate) fn open<C: Scheme>(db: &Database<C>) -> Result<Tables> {
        let customers = db.partitioned_table("customer", leading::CUSTOMER)?;
        let by_name = |key: &u64, row: &Customer| {
            Some(name(keys::district_of_customer(*key), &row.last, *row.first.padded()))
        };
        let customers_by_name =
            db.partitioned_index(customers, "customer by name", leading::DISTRICT_OF_FOUR, by_name)?;
        let orders = db.partitioned_table("order", leading::ORDER)?;
        let by_customer = |key: &u64, row: &Order| {
            Some(keys::district_of_order(*key).customer_order(row.customer, keys::order_of(*key)))
        };
        let orders_by_customer =
            db.partitioned_unique_index(orders, "order by customer", leading::CUSTOMER_ORDER, by_customer)?;
        Ok(Tables {
            warehouses: db.partitioned_table("warehouse", leading::WAREHOUSE)?,
            districts: db.partitioned_table("district", leading::DISTRICT)?,
            customers,
            history: db.partitioned_table("history", leading::HISTORY)?,
            orders,
            new_orders: db.partitioned_table("new order", leading::ORDER)?,
            lines: db.partitioned_table("order line", leading::LINE)?,
            items: db.table("item")?,
            stocks: db.partitioned_table("stock", leading::STOCK)?,
            suppliers: db.table("supplier")?,
            nations: db.table("nation")?,
            regions: db.table("region")?,
            customers_by_name,
            orders_by_customer,
        })
    }

    pub(crate) fn freeze<C: Scheme>(&self, db: &Database<C>) -> Result<()> {
        db.freeze(self.items)?;
        db.freeze(self.suppliers)?;
        db.freeze(self.nations)?;
        db.freeze(self.regions)
    }

    /// Finds the customers with this last name, sorted by first name and then by number, and returns the one in the
    /// middle (the earlier of two), with its number.
    pub(crate) async fn customer_by_last_name<'t, C: Scheme>(
        &self,
        tx: &'t Txn<C>,
        district: District,
        last: &Text<16>,
    ) -> Result<Option<(u16, &'t Customer)>> {
        // Few names are shared by more customers than this. If there are more, a second scan finds the middle one.
        let mut customers = [None; 32];
        let mut count = 0;
        let (least, most) = (name(district, last, [0; 16]), name(district, last, [u8::MAX; 16]));
        let mut rows = tx.scan_by(self.customers_by_name, least..=most);
        while let Some((_, key, row)) = rows.next().await? {
            if let Some(place) = customers.get_mut(count) {
                *place = Some((keys::customer_of(key), row));
            }
            count += 1;
        }
        drop(rows);
        let middle = count.div_ceil(2).saturating_sub(1);
        if let Some(customer) = customers.get(middle) {
            return Ok(*customer);
        }
        let mut rows = tx.scan_by(self.customers_by_name, least..=most).limit(middle + 1);
        let mut found = None;
        while let Some((_, key, row)) = rows.next().await? {
            found = Some((keys::customer_of(key), row));
        }
        Ok(found)
    }

    /// Returns a customer's newest order, with its number.
    pub(crate) async fn newest_order<'t, C: Scheme>(
        &self,
        tx: &'t Txn<C>,
        district: District,
        customer: u16,
    ) -> Result<Option<(u32, &'t Order)>> {
        let all = district.customer_order(customer, 0)..=district.customer_order(customer, u32::MAX);
        let mut newest = tx.scan_by(self.orders_by_customer, all).reverse().limit(1);
        Ok(newest.next().await?.map(|(_, key, row)| (keys::order_of(key), row)))
    }
}

#[inline(always)]
fn name(district: District, last: &Text<16>, first: [u8; 16]) -> Name {
    (district.number_of_all(), *last.padded(), first)
}

/// Returns a row that must exist.
#[inline(always)]
pub(crate) fn found<T>(row: Option<T>, table: &'static str, key: u64) -> Result<T> {
    match row {
        Some(row) => Ok(row),
        None => Err(missing(table, key)),
    }
}

#[cold]
fn missing(table: &'static str, key: u64) -> Error {
    Error::user(format!("there is no {table} with key {key:#x}: the tables are not as they were loaded"))
}
