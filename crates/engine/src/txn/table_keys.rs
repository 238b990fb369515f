//! The keys of a table, a few at a time.

use super::{RawRows, Transaction};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::table::TableInner;
use std::ops::Bound;

/// Some of the keys of a table.
pub(crate) struct TableKeys {
    pub(crate) keys: Vec<Vec<u8>>,
    /// Where the next keys begin, in the order of the table's index. `None` if there are no more.
    pub(crate) next: Option<Bound<Vec<u8>>>,
}

impl TableKeys {
    /// Looks at `rows_max` rows from `from` on, in the order of the table's index. Takes the keys of the rows for
    /// which `is_wanted` returns true. Reads whatever access the table allows.
    pub(crate) fn read<C: ConcurrencyControl>(
        transaction: &Transaction<C>,
        table: &TableInner,
        from: Bound<&[u8]>,
        rows_max: usize,
        mut is_wanted: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<TableKeys> {
        let mut rows = RawRows::between(transaction, table, from, Bound::Unbounded).limit(rows_max);
        let (mut keys, mut count, mut last) = (Vec::new(), 0, Vec::new());
        while let Some((key, value)) = rows.next()? {
            count += 1;
            if count == rows_max {
                table.push_order(&key, &mut last);
            }
            if is_wanted(&key, value)? {
                keys.push(key);
            }
        }
        let next = (count == rows_max).then_some(Bound::Excluded(last));
        Ok(TableKeys { keys, next })
    }
}
