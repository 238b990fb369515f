//! Many stocks, by multi-get or one after the other.

use super::keys;
use super::rows::Stock;
use super::schema::{Tables, found};
use crate::engine::{Result, Scheme, Txn};

/// Rows of one multi-get: the transaction has room for so many results.
const TOGETHER: usize = 32;

/// Shows every one of some stocks to `visit`, with its key.
pub(crate) async fn visit_stocks<'t, C: Scheme>(
    tables: &Tables,
    tx: &'t Txn<C>,
    keys: &[u64],
    many: bool,
    mut visit: impl FnMut(u64, &'t Stock),
) -> Result<()> {
    debug_assert!(keys.iter().all(|key| keys::item_of_stock(*key) > 0));
    let width = if many { TOGETHER } else { 1 };
    for keys in keys.chunks(width) {
        let mut rows = [None; TOGETHER];
        let rows = &mut rows[..keys.len()];
        if many {
            tx.get_into(tables.stocks, keys, rows).await?;
        } else {
            rows[0] = tx.get(tables.stocks, keys[0]).await?;
        }
        for (key, row) in keys.iter().zip(rows) {
            visit(*key, found(*row, "stock", *key)?);
        }
    }
    Ok(())
}
