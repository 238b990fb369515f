//! Conditions 8 to 10 and 12: money taken, owed and paid. The sums by customer take eight bytes per customer.

use super::cursor::Cursor;
use super::{View, Violation, place};
use crate::keys::{District, order_of_line};
use crate::rows::{Customer, History};
use braiddb::{ConcurrencyControl as Scheme, Result};

impl<C: Scheme> View<'_, C> {
    /// 8: W_YTD is the sum of the warehouse's H_AMOUNT.
    pub(super) async fn history_of_warehouses(&self) -> Result<Violation> {
        let count = self.scale.warehouses as usize;
        let sums = self.history(count, |row| usize::from(row.warehouse).checked_sub(1)).await?;
        for (warehouse, sum) in self.scale.warehouses().zip(sums) {
            let ytd = self.takings(warehouse).await?;
            if ytd != sum {
                return Ok(Some(format!(
                    "warehouse {warehouse}: {ytd} of the warehouse, {sum} of the history"
                )));
            }
        }
        Ok(None)
    }

    /// 9: D_YTD is the sum of the district's H_AMOUNT.
    pub(super) async fn history_of_districts(&self) -> Result<Violation> {
        let count = self.scale.districts().count();
        let sums = self.history(count, |row| self.index(row.warehouse, row.district)).await?;
        for (district, sum) in self.scale.districts().zip(sums) {
            let (ytd, _) = self.district(district).await?;
            if ytd != sum {
                return Ok(Some(format!("{}: {ytd} of the district, {sum} of the history", place(district))));
            }
        }
        Ok(None)
    }

    /// 10: C_BALANCE is the sum of OL_AMOUNT of delivered lines less the sum of H_AMOUNT.
    pub(super) async fn balances(&self) -> Result<Violation> {
        let delivered = self.deliveries().await?;
        let customers = self.scale.customers as usize;
        let paid = self
            .history(delivered.len(), |row| {
                let district = self.index(row.customer_warehouse, row.customer_district)?;
                Some(district * customers + usize::from(row.customer).checked_sub(1)?)
            })
            .await?;
        self.customers(|index, customer| {
            let (delivered, paid) = (delivered[index], paid[index]);
            let is_right = customer.balance == delivered - paid;
            (!is_right).then(|| format!("balance {}, delivered {delivered}, paid {paid}", customer.balance))
        })
        .await
    }

    /// 12: C_BALANCE and C_YTD_PAYMENT are the sum of OL_AMOUNT of delivered lines.
    pub(super) async fn balances_and_payments(&self) -> Result<Violation> {
        let delivered = self.deliveries().await?;
        self.customers(|index, customer| {
            let (balance, paid, delivered) = (customer.balance, customer.ytd_payment, delivered[index]);
            let is_right = balance + paid == delivered;
            (!is_right).then(|| format!("balance {balance} and payments {paid}, delivered {delivered}"))
        })
        .await
    }

    /// The number of a district among all districts, if the district exists.
    fn index(&self, warehouse: u16, district: u8) -> Option<usize> {
        let is_there = (1..=self.scale.warehouses).contains(&u32::from(warehouse))
            && (1..=self.scale.districts).contains(&u32::from(district));
        is_there.then(|| self.scale.district_index(District::new(warehouse, district)))
    }

    /// Returns the sums of H_AMOUNT, grouped by the index that `of` returns for a row. All sums miss a row without an
    /// index, so a condition notices it.
    async fn history(&self, count: usize, of: impl Fn(&History) -> Option<usize>) -> Result<Vec<i64>> {
        let mut sums = vec![0; count];
        let mut rows = self.tx.scan_all(self.tables.history);
        while let Some((_, row)) = rows.next().await? {
            if let Some(sum) = of(row).and_then(|index| sums.get_mut(index)) {
                *sum += row.amount;
            }
        }
        Ok(sums)
    }

    /// Returns the sums of OL_AMOUNT of delivered lines, by customer.
    async fn deliveries(&self) -> Result<Vec<i64>> {
        let mut sums = vec![0; self.scale.districts().count() * self.scale.customers as usize];
        for district in self.scale.districts() {
            let mut lines =
                Cursor::new(self.tx.scan(self.tables.lines, district.lines(0..=u32::MAX))).await?;
            let mut orders = self.tx.scan(self.tables.orders, district.orders());
            while let Some((key, order)) = orders.next().await? {
                let mut sum = 0;
                while let Some((line, row)) = lines.next_if(|line| order_of_line(line) <= key).await? {
                    let counts = row.delivered != 0 && order_of_line(line) == key;
                    sum += if counts { row.amount } else { 0 };
                }
                if (1..=self.scale.customers).contains(&u32::from(order.customer)) {
                    sums[self.scale.customer_index(district, order.customer)] += sum;
                }
            }
        }
        Ok(sums)
    }

    /// Calls `wrong` for each customer, with the customer's number among all.
    async fn customers(&self, wrong: impl Fn(usize, &Customer) -> Option<String>) -> Result<Violation> {
        for district in self.scale.districts() {
            let all = district.customer(1)..=district.customer(self.scale.customers as u16);
            let mut rows = self.tx.scan(self.tables.customers, all);
            let mut number = 0;
            while let Some((key, row)) = rows.next().await? {
                number += 1;
                if key != district.customer(number) {
                    return Ok(Some(format!("{}: there is no customer {number}", place(district))));
                }
                if let Some(what) = wrong(self.scale.customer_index(district, number), row) {
                    return Ok(Some(format!("{}, customer {number}: {what}", place(district))));
                }
            }
            if u32::from(number) < self.scale.customers {
                return Ok(Some(format!("{}: there is no customer {}", place(district), number + 1)));
            }
        }
        Ok(None)
    }
}
