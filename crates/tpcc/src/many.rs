//! Reads many stocks, by multi-get or one after the other.

use crate::keys;
use crate::rows::Stock;
use crate::schema::{Tables, found};
use braiddb::{ConcurrencyControl as Scheme, Result, Txn};

/// Rows of one multi-get. The transaction has room for this many results.
const TOGETHER: usize = 32;

/// Calls `visit` with each of some stocks and its key.
pub(crate) async fn visit_stocks<'t, C: Scheme>(
    tables: &Tables,
    tx: &'t Txn<C>,
    keys: &[u64],
    many: bool,
    mut visit: impl FnMut(u64, &'t Stock),
) -> Result<()> {
    debug_assert!(keys.iter().all(|key| keys::item_of_stock(*key) > 0));
    if !many {
        for key in keys {
            visit(*key, found(tx.get(tables.stocks, *key).await?, "stock", *key)?);
        }
        return Ok(());
    }
    for keys in keys.chunks(TOGETHER) {
        let mut rows = [None; TOGETHER];
        let rows = &mut rows[..keys.len()];
        tx.get_into(tables.stocks, keys, rows).await?;
        for (key, row) in keys.iter().zip(rows) {
            visit(*key, found(*row, "stock", *key)?);
        }
    }
    Ok(())
}
