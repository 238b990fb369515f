//! NewOrder and Payment by the names of tables and columns, which are looked up when they are used. The results are
//! the same as those of `new_order` and `payment`.

use crate::catalog::{Catalog, NamedRow};
use crate::digest::Digest;
use crate::inputs::{Line, NewOrder, Payment, Who};
use crate::keys::{self, District};
use crate::new_order::{LEFT_MIN, REORDERED, UnusedItem};
use crate::payment::{BAD_CREDIT, history_data, note};
use crate::random::{is_original, last_name};
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Error, Result, Txn};

/// Room in C_DATA.
const CUSTOMER_DATA_BYTES: usize = 500;

/// NewOrder, like [`new_order`](crate::new_order::new_order).
pub(crate) async fn new_order<C: Scheme>(catalog: &Catalog, tx: &Txn<C>, input: &NewOrder) -> Result<u64> {
    let district = input.district;
    let mut district_row = catalog.get(tx, "district", district.key()).await?;
    let (number, district_tax) = (district_row.number("next_order")?, district_row.number("tax")?);
    district_row.set("next_order", number + 1)?;
    district_row.put(tx, district.key()).await?;

    let warehouse = catalog.get(tx, "warehouse", u64::from(district.warehouse())).await?;
    let warehouse_tax = warehouse.number("tax")?;
    let customer = catalog.get(tx, "customer", district.customer(input.customer)).await?;
    let mut order = catalog.new_row("order")?;
    order.set("entered", input.date as i64)?;
    order.set("customer", i64::from(input.customer))?;
    order.set("lines", i64::from(input.count))?;
    order.set("all_local", i64::from(input.is_local))?;
    order.insert(tx, district.order(number as u32)).await?;
    catalog.new_row("new order")?.insert(tx, district.order(number as u32)).await?;

    let mut digest = Digest::default();
    let mut total = 0;
    for (i, line) in input.lines().iter().enumerate() {
        let item = match catalog.find(tx, "item", u64::from(line.item)).await? {
            None if input.rolls_back => return Err(Error::user(UnusedItem)),
            item => found(item, "item", u64::from(line.item))?,
        };
        let key = keys::stock(line.warehouse, line.item);
        let mut stock = catalog.get(tx, "stock", key).await?;
        take(&mut stock, line, district.warehouse())?;
        stock.put(tx, key).await?;
        let amount = i64::from(line.quantity) * item.number("price")?;
        let mut ordered = catalog.new_row("order line")?;
        ordered.set("amount", amount)?;
        ordered.set("item", i64::from(line.item))?;
        ordered.set("supply_warehouse", i64::from(line.warehouse))?;
        ordered.set("quantity", i64::from(line.quantity))?;
        ordered.set("district_info", stock.text(&format!("district_infos_{}", district.number()))?)?;
        ordered.insert(tx, district.line(number as u32, i as u8 + 1)).await?;
        total += amount;
        let is_original = is_original(&item.text("data")?) && is_original(&stock.text("data")?);
        digest.add(amount as u64).add(stock.number("quantity")? as u64).add(u64::from(is_original));
        digest.add_text(&item.text("name")?);
    }
    let total = total * (10_000 - customer.number("discount")?) / 10_000
        * (10_000 + warehouse_tax + district_tax)
        / 10_000;
    digest.add(total as u64).add(number as u64).add_text(&customer.text("last")?);
    Ok(digest.value())
}

/// Takes an order's line from its stock.
fn take(stock: &mut NamedRow<'_, '_>, line: &Line, home: u16) -> Result<()> {
    let (had, taken) = (stock.number("quantity")?, i64::from(line.quantity));
    let reordered = if had - taken >= i64::from(LEFT_MIN) { 0 } else { i64::from(REORDERED) };
    stock.set("quantity", had - taken + reordered)?;
    stock.add("ytd", taken)?;
    stock.add("orders", 1)?;
    stock.add("remote_orders", i64::from(line.warehouse != home))
}

/// Payment, like [`payment`](crate::payment::payment).
pub(crate) async fn payment<C: Scheme>(
    catalog: &Catalog,
    tables: &Tables,
    tx: &Txn<C>,
    input: &Payment,
) -> Result<u64> {
    let key = u64::from(input.district.warehouse());
    let mut warehouse = catalog.get(tx, "warehouse", key).await?;
    warehouse.add("ytd", input.amount)?;
    warehouse.put(tx, key).await?;

    let key = input.district.key();
    let mut district = catalog.get(tx, "district", key).await?;
    district.add("ytd", input.amount)?;
    district.put(tx, key).await?;

    let number = customer(tables, tx, input.customer_district, input.customer).await?;
    let key = input.customer_district.customer(number);
    let mut customer = catalog.get(tx, "customer", key).await?;
    customer.add("balance", -input.amount)?;
    customer.add("ytd_payment", input.amount)?;
    customer.add("payments", 1)?;
    if customer.text("credit")? == BAD_CREDIT {
        let (note, length) = note(input, number);
        let mut data = note[..length].to_vec();
        data.extend_from_slice(&customer.text("data")?);
        data.truncate(CUSTOMER_DATA_BYTES);
        customer.set("data", data)?;
    }
    customer.put(tx, key).await?;

    let mut history = catalog.new_row("history")?;
    history.set("date", input.date as i64)?;
    history.set("amount", input.amount)?;
    history.set("customer_warehouse", i64::from(input.customer_district.warehouse()))?;
    history.set("customer_district", i64::from(input.customer_district.number()))?;
    history.set("customer", i64::from(number))?;
    history.set("warehouse", i64::from(input.district.warehouse()))?;
    history.set("district", i64::from(input.district.number()))?;
    let data = history_data(&warehouse.text("name")?, &district.text("name")?);
    history.set("data", data.as_bytes().to_vec())?;
    history.insert(tx, input.history).await?;

    let mut digest = Digest::default();
    digest.add(customer.number("balance")? as u64).add(customer.number("discount")? as u64);
    digest
        .add_text(&customer.text("data")?)
        .add_text(&customer.text("last")?)
        .add_text(&customer.text("city")?);
    digest.add_text(&warehouse.text("city")?).add_text(&district.text("city")?);
    Ok(digest.value())
}

/// Returns the number of the requested customer. The index by last name is the program's, not the catalog's.
async fn customer<C: Scheme>(tables: &Tables, tx: &Txn<C>, district: District, who: Who) -> Result<u16> {
    match who {
        Who::Number(number) => Ok(number),
        Who::Name(name) => {
            let customer = tables.customer_by_last_name(tx, district, &last_name(name)).await?;
            Ok(found(customer, "customer by name", district.key())?.0)
        }
    }
}
