//! Q2* of TPC-CH, as in section 5.2 of the CoroBase paper. For each supplier of a region, the query finds the stock
//! with the least left, and fills the stock up if that is too little. It reads much and writes a little. How much
//! depends on the number of suppliers. A stock's supplier is `warehouse * item` modulo the number of suppliers, as in
//! the CH-benCHmark.

use crate::digest::Digest;
use crate::inputs::Query2;
use crate::keys;
use crate::many::visit_stocks;
use crate::regions::NATIONS;
use crate::rows::Stock;
use crate::scale::Scale;
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};

/// A stock with fewer than `LEFT_MIN` has too little. `ADDED` is then added.
pub(crate) const LEFT_MIN: i32 = 15;
pub(crate) const ADDED: i32 = 50;

/// Runs the transaction. Returns what the query would show.
pub(crate) async fn query2<C: Scheme>(
    tables: &Tables,
    scale: &Scale,
    tx: &Txn<C>,
    input: &Query2,
    many: bool,
) -> Result<u64> {
    let mut digest = Digest::default();
    let key = u64::from(input.region);
    let region = found(tx.get(tables.regions, key).await?, "region", key)?;
    digest.add_text(region.name.as_bytes());

    let mut is_of_region = [false; NATIONS.len()];
    let mut nations = tx.scan_all(tables.nations);
    while let Some((key, nation)) = nations.next().await? {
        if let Some(is_of_region) = is_of_region.get_mut(key as usize) {
            *is_of_region = nation.region == input.region;
        }
    }
    drop(nations);

    let mut stocks = Vec::new();
    let mut suppliers = tx.scan_all(tables.suppliers);
    while let Some((supplier, row)) = suppliers.next().await? {
        if !is_of_region.get(row.nation as usize).is_some_and(|is_of_region| *is_of_region) {
            continue;
        }
        stocks.clear();
        stocks.extend(scale.supplied(supplier as u32));
        let mut least: Option<(u64, &Stock)> = None;
        visit_stocks(tables, tx, &stocks, many, |key, stock| {
            if least.is_none_or(|(_, least)| stock.quantity < least.quantity) {
                least = Some((key, stock));
            }
        })
        .await?;
        if let Some((key, stock)) = least {
            digest.add_text(row.name.as_bytes());
            fill_up(tables, tx, key, stock, &mut digest).await?;
        }
    }
    Ok(digest.value())
}

/// Shows a supplier's lowest stock, and adds to it if too little is left.
async fn fill_up<C: Scheme>(
    tables: &Tables,
    tx: &Txn<C>,
    key: u64,
    stock: &Stock,
    digest: &mut Digest,
) -> Result<()> {
    let item = u64::from(keys::item_of_stock(key));
    let row = found(tx.get(tables.items, item).await?, "item", item)?;
    digest.add(item).add(stock.quantity as u64).add_text(row.name.as_bytes());
    if stock.quantity < LEFT_MIN {
        tx.put(tables.stocks, key, &Stock { quantity: stock.quantity + ADDED, ..*stock }).await?;
    }
    Ok(())
}
