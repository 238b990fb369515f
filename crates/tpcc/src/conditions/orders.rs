//! Conditions 5 to 7: orders compared with their new orders and their lines.

use super::cursor::Cursor;
use super::{View, Violation, place};
use crate::keys::{order_of, order_of_line};
use braiddb::{ConcurrencyControl as Scheme, Result};

impl<C: Scheme> View<'_, C> {
    /// 5: O_CARRIER_ID is null if and only if there is a new order.
    pub(super) async fn carriers(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let mut new_orders = Cursor::new(self.tx.scan(self.tables.new_orders, district.orders())).await?;
            let mut orders = self.tx.scan(self.tables.orders, district.orders());
            while let Some((key, order)) = orders.next().await? {
                let is_new = new_orders.next_if(|new| new == key).await?.is_some();
                if is_new != (order.carrier == 0) {
                    let (number, carrier) = (order_of(key), order.carrier);
                    return Ok(Some(format!(
                        "{}: order {number} has carrier {carrier}, is new: {is_new}",
                        place(district)
                    )));
                }
            }
            if let Some((key, ())) = new_orders.next_if(|_| true).await? {
                let number = order_of(key);
                return Ok(Some(format!("{}: no order is new order {number}", place(district))));
            }
        }
        Ok(None)
    }

    /// 6: O_OL_CNT is the number of the order's lines.
    pub(super) async fn lines_of_orders(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let mut lines =
                Cursor::new(self.tx.scan(self.tables.lines, district.lines(0..=u32::MAX))).await?;
            let mut orders = self.tx.scan(self.tables.orders, district.orders());
            while let Some((key, order)) = orders.next().await? {
                let mut count = 0u8;
                // A line without an order stops this loop. The next order, or the check below, then finds it.
                while lines.next_if(|line| order_of_line(line) == key).await?.is_some() {
                    count += 1;
                }
                if count != order.lines {
                    let (number, said) = (order_of(key), order.lines);
                    return Ok(Some(format!(
                        "{}: order {number} has {count} lines, and says {said}",
                        place(district)
                    )));
                }
            }
            if let Some((key, _)) = lines.next_if(|_| true).await? {
                let number = order_of(order_of_line(key));
                return Ok(Some(format!("{}: a line of order {number} has no order", place(district))));
            }
        }
        Ok(None)
    }

    /// 7: OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is.
    pub(super) async fn dates_of_delivery(&self) -> Result<Violation> {
        for district in self.scale.districts() {
            let mut orders = Cursor::new(self.tx.scan(self.tables.orders, district.orders())).await?;
            let mut lines = self.tx.scan(self.tables.lines, district.lines(0..=u32::MAX));
            let mut order = None;
            while let Some((key, line)) = lines.next().await? {
                while let Some(next) = orders.next_if(|order| order <= order_of_line(key)).await? {
                    order = Some(next);
                }
                // Condition 6 reports a line without an order.
                let Some((_, order)) = order.filter(|(order, _)| *order == order_of_line(key)) else {
                    continue;
                };
                if (line.delivered == 0) != (order.carrier == 0) {
                    let number = order_of(order_of_line(key));
                    return Ok(Some(format!(
                        "{}: order {number} has carrier {}, a line of it date {}",
                        place(district),
                        order.carrier,
                        line.delivered
                    )));
                }
            }
        }
        Ok(None)
    }
}
