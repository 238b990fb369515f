//! Conditions 1 to 4 and 11: sums and counts of warehouses and districts.

use super::{View, Violation, place};
use crate::keys::{District, order_of};
use crate::schema::found;
use braiddb::{ConcurrencyControl as Scheme, Result};

impl<C: Scheme> View<'_, C> {
    /// 1: W_YTD is the sum of D_YTD.
    pub(super) async fn takings_of_districts(&self) -> Result<Violation> {
        for warehouse in self.scale.warehouses() {
            let mut sum = 0;
            for number in 1..=self.scale.districts as u8 {
                sum += self.district(District::new(warehouse, number)).await?.0;
            }
            let ytd = self.takings(warehouse).await?;
            if ytd != sum {
                return Ok(Some(format!(
                    "warehouse {warehouse}: {ytd} of the warehouse, {sum} of its districts"
                )));
            }
        }
        Ok(None)
    }

    /// 2: D_NEXT_O_ID - 1 is the greatest O_ID, and the greatest NO_O_ID if there is one.
    pub(super) async fn next_orders(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let (_, next) = self.district(district).await?;
            let newest = self.tx.scan(self.tables.orders, district.orders()).reverse().limit(1);
            let newest = { newest }.next_key().await?.map_or(0, order_of);
            let newest_new = self.tx.scan(self.tables.new_orders, district.orders()).reverse().limit(1);
            let newest_new = { newest_new }.next_key().await?.map_or(newest, order_of);
            if next != newest + 1 || newest_new != newest {
                return Ok(Some(format!(
                    "{}: next order {next}, newest order {newest}, newest new order {newest_new}",
                    place(district)
                )));
            }
        }
        Ok(None)
    }

    /// 3: the numbers of new orders go from the least to the greatest without gaps.
    pub(super) async fn new_orders_without_gaps(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let (mut least, mut greatest, mut count) = (0, 0, 0u32);
            let mut keys = self.tx.scan(self.tables.new_orders, district.orders());
            while let Some(key) = keys.next_key().await? {
                greatest = order_of(key);
                least = if count == 0 { greatest } else { least };
                count += 1;
            }
            if count > 0 && greatest - least + 1 != count {
                return Ok(Some(format!(
                    "{}: {count} new orders from {least} to {greatest}",
                    place(district)
                )));
            }
        }
        Ok(None)
    }

    /// 4: the sum of O_OL_CNT is the number of lines.
    pub(super) async fn lines_of_districts(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let (mut said, mut count) = (0, 0u64);
            let mut orders = self.tx.scan(self.tables.orders, district.orders());
            while let Some((_, order)) = orders.next().await? {
                said += u64::from(order.lines);
            }
            let mut lines = self.tx.scan(self.tables.lines, district.lines(0..=u32::MAX));
            while lines.next_key().await?.is_some() {
                count += 1;
            }
            if said != count {
                return Ok(Some(format!("{}: {said} lines by the orders, {count} there", place(district))));
            }
        }
        Ok(None)
    }

    /// 11: orders that are not new were delivered, by the loader or by a delivery that the customer's row has counted.
    pub(super) async fn orders_of_districts(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let (mut orders, mut new_orders) = (0u64, 0u64);
            let mut keys = self.tx.scan(self.tables.orders, district.orders());
            while keys.next_key().await?.is_some() {
                orders += 1;
            }
            let mut keys = self.tx.scan(self.tables.new_orders, district.orders());
            while keys.next_key().await?.is_some() {
                new_orders += 1;
            }
            let mut delivered = u64::from(self.scale.delivered());
            let all = district.customer(1)..=district.customer(self.scale.customers as u16);
            let mut customers = self.tx.scan(self.tables.customers, all);
            while let Some((_, customer)) = customers.next().await? {
                delivered += u64::from(customer.deliveries);
            }
            if orders.checked_sub(new_orders) != Some(delivered) {
                return Ok(Some(format!(
                    "{}: {orders} orders, {new_orders} new, {delivered} delivered",
                    place(district)
                )));
            }
        }
        Ok(None)
    }

    /// W_YTD.
    pub(super) async fn takings(&self, warehouse: u16) -> Result<i64> {
        let key = u64::from(warehouse);
        Ok(found(self.tx.get(self.tables.warehouses, key).await?, "warehouse", key)?.ytd)
    }

    /// D_YTD and D_NEXT_O_ID.
    pub(super) async fn district(&self, district: District) -> Result<(i64, u32)> {
        let row = self.tx.get(self.tables.districts, district.key()).await?;
        let row = found(row, "district", district.key())?;
        Ok((row.ytd, row.next_order))
    }
}
