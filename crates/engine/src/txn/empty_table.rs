//! Clearing a table, and dropping it: deleting all its rows by one record of the log.
//!
//! 1. Nothing is allowed with the table any more; who tries is undone, and tries again. Transactions that are open end.
//! 2. The catalog says that the table has no rows. From this record of the log on it has none: recovery deletes what it had, and
//!    a checkpoint leaves out what is still in memory. Nothing of the table is logged between this and the last step.
//! 3. The rows are deleted, by transactions that are not logged.
//! 4. The table can be used again; unless it is dropped.

use super::Transaction;
use super::run_calls::run_calls;
use super::table_keys::TableKeys;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::kernel::{Engine, Which, describe_table};
use crate::ops::{Delete, PointLookup};
use crate::table::{Allowed, Description, Standing, TableInner, TableKind};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

/// Rows that are deleted by one transaction.
const ROWS: usize = 256;

/// Deletes all rows of a table, for good; `standing` says whether it is cleared or dropped. `note` as for
/// [`describe_table`]. After an error nothing has changed, or the rows that are left are not seen any more.
pub(crate) fn empty_table<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: &TableInner,
    standing: Standing,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    let _one_at_a_time = engine.freezing.lock().unwrap_or_else(PoisonError::into_inner);
    let _no_index_comes = table.indexes.declaring();
    let is_dropped = standing == Standing::Dropped;
    let before = table.allowed();
    match before {
        Allowed::NothingDropped => return Err(Error::TableDropped),
        Allowed::FrozenReads if !is_dropped => return Err(Error::Frozen { table: table.name() }),
        _ => {}
    }
    table.allow(Allowed::Nothing);
    let change = |_: &TableKind, description: &mut Description| {
        description.standing = standing;
        Ok(())
    };
    let described = match engine.await_older() {
        true => describe_table(engine, Which::Number(table.number()), change, note),
        false => Err(Error::TableInUse { table: table.name() }),
    };
    if let Err(error) = described {
        table.allow(before);
        return Err(error);
    }
    if is_dropped {
        table.allow(Allowed::NothingDropped);
        table.release_places(&engine.records);
    }
    let unless_deleted = Uncleared(table);
    delete_all(engine, table)?;
    std::mem::forget(unless_deleted);
    if is_dropped {
        table.release_places(&engine.records); // and of those that were on their way
    } else {
        engine.use_again(table);
        table.allow(Allowed::Writes);
    }
    Ok(())
}

/// Some rows may be left: also after a panic, of foreign code that tells which entries of indexes are theirs.
struct Uncleared<'t>(&'t TableInner);

impl Drop for Uncleared<'_> {
    fn drop(&mut self) {
        if self.0.allowed() == Allowed::Nothing {
            self.0.allow(Allowed::NothingUncleared);
        }
    }
}

fn delete_all<C: ConcurrencyControl>(engine: &Arc<Engine<C>>, table: &TableInner) -> Result<()> {
    let mut from = Some(Bound::Unbounded);
    while let Some(place) = from {
        from = run_calls(engine, |transaction| delete_some(transaction, table, &place), u32::MAX)?;
    }
    Ok(())
}

/// Deletes some rows from `from` on, and returns where the next ones begin, if there may be more.
fn delete_some<C: ConcurrencyControl>(
    transaction: &Transaction<C>,
    table: &TableInner,
    from: &Bound<Vec<u8>>,
) -> Result<Option<Bound<Vec<u8>>>> {
    transaction.leave_out_of_log();
    let from = from.as_ref().map(Vec::as_slice);
    let TableKeys { keys, next } = TableKeys::from(transaction, table, from, ROWS, |_, _| Ok(true))?;
    transaction.with(async |txn| {
        let txn = txn.state();
        for key in &keys {
            // (Copied: it is needed until the transaction ends.)
            let key = txn.index_key::<Vec<u8>>(&key.as_slice())?;
            Delete::new(PointLookup::new(txn, Ok((table, key)))).await?;
        }
        Ok(())
    })?;
    Ok(next)
}
