//! Clearing and dropping a table: all its rows are deleted by one record of the log. Dropping an index by columns works
//! in the same way.
//!
//! 1. The table refuses all use. A transaction that uses it is undone and run again. The call waits until all open
//!    transactions have ended.
//! 2. The catalog says that the table has no rows. From this record of the log on the table is empty: recovery deletes
//!    the rows that it had, and a checkpoint leaves out the rows that are still in memory. From here to the last step,
//!    nothing of the table is logged.
//! 3. Transactions that are not logged delete the rows.
//! 4. The call waits until all transactions that have begun since then have ended. They may have a snapshot in which
//!    some of the rows are deleted.
//! 5. The table can be used again. A dropped table cannot, so it skips step 4.

use super::Transaction;
use super::run_calls::run_calls;
use super::table_keys::TableKeys;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::kernel::{Engine, WAITS_MAX, Which, describe_table, pause};
use crate::ops::{Delete, PointLookup};
use crate::table::{Allowed, Description, IndexInner, TableInner, TableKind, TableState};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

/// How many rows one transaction deletes.
const ROWS: usize = 256;

/// Deletes all rows of a table, and lets it be used again. `note` is as for [`describe_table`]. After an error, either
/// nothing has changed, or the table must be cleared again before it can be used.
pub(crate) fn clear_table<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: &TableInner,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    check_may_begin(engine)?;
    let _one_at_a_time = engine.freezing.lock().unwrap_or_else(PoisonError::into_inner);
    let _no_index_comes = table.indexes.declaring();
    if table.allowed() == Allowed::FrozenReads {
        return Err(Error::Frozen { table: table.name() });
    }
    begin(engine, table, TableState::Cleared, None, note)?;
    let unless_deleted = Uncleared(table);
    delete_all(engine, table)?;
    table.indexes.iter().for_each(IndexInner::forget_rows);
    engine.await_users(table)?;
    std::mem::forget(unless_deleted);
    engine.use_again(table);
    table.allow(Allowed::Writes);
    Ok(())
}

/// Deletes a table with all its rows. The table must have the given name. `note` is as for [`describe_table`]. After an
/// error, either nothing has changed, or the table is gone and its remaining rows take memory.
pub(crate) fn drop_table<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: &TableInner,
    name: &str,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    check_may_begin(engine)?;
    let _one_at_a_time = engine.freezing.lock().unwrap_or_else(PoisonError::into_inner);
    let _no_index_comes = table.indexes.declaring();
    if table.allowed() == Allowed::FrozenReads {
        return Err(Error::Frozen { table: table.name() });
    }
    begin(engine, table, TableState::Dropped, Some(name), note)?;
    table.allow(Allowed::NothingDropped);
    table.release_places(&engine.records);
    // The indexes are given up first. Otherwise the deletion of rows would call foreign code, which says which entries
    // a row has.
    table.indexes.iter().for_each(IndexInner::give_up);
    table.indexes.iter().for_each(IndexInner::forget_rows);
    delete_all(engine, table)?;
    table.indexes.iter().try_for_each(|index| delete_all(engine, &index.entries))?;
    table.release_places(&engine.records); // the places of rows that were still being deleted
    Ok(())
}

/// Deletes an index by columns. `note` is as for [`describe_table`].
pub(crate) fn drop_index<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: &TableInner,
    name: &str,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    engine.check_may_wait()?;
    let index = {
        let _no_index_comes = table.indexes.declaring();
        let change = |_: &TableKind, description: &mut Description| {
            let at = description.indexes.iter().position(|index| index.name == name);
            let no_index = || Error::NoIndex { table: description.name.clone(), index: name.into() };
            let at = at.ok_or_else(no_index)?;
            description.indexes.remove(at);
            Ok(())
        };
        describe_table(engine, Which::Number(table.number()), change, note)?;
        let mut alive = table.indexes.iter().filter(|index| !index.is_dead());
        let Some(index) = alive.find(|index| index.name == name) else { return Ok(()) };
        index.give_up();
        index
    };
    delete_entries(engine, index)
}

/// Deletes the entries of a dead index. A transaction that has seen the index alive may still add entries. If such a
/// transaction stays open, all entries stay until the table is dropped or the database is closed.
pub(crate) fn delete_entries<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    index: &IndexInner,
) -> Result<()> {
    debug_assert!(index.is_dead());
    index.entries.allow(Allowed::NothingDropped);
    if engine.await_older()? {
        delete_all(engine, &index.entries)?;
        // SAFETY: the table holds the index.
        unsafe { &*index.base }.indexes.retire(index);
    }
    Ok(())
}

/// Runs before anything is waited for or changed.
fn check_may_begin<C: ConcurrencyControl>(engine: &Engine<C>) -> Result<()> {
    if engine.is_read_only() { Err(Error::ReadOnly) } else { engine.check_may_wait() }
}

/// Steps 1 and 2. If `name` is given, the table must have this name when step 2 is done.
fn begin<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    table: &TableInner,
    state: TableState,
    name: Option<&str>,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    let before = table.allowed();
    if before == Allowed::NothingDropped {
        return Err(Error::TableDropped);
    }
    table.allow(Allowed::Nothing);
    let change = |_: &TableKind, description: &mut Description| {
        if let Some(name) = name.filter(|name| !description.is_of(name)) {
            return Err(Error::NoTable { table: name.into() });
        }
        description.state = state;
        Ok(())
    };
    let begun = engine
        .await_users(table)
        .and_then(|()| describe_table(engine, Which::Number(table.number()), change, note));
    begun.inspect_err(|_| table.allow(before))
}

/// Marks the table as not fully cleared when dropped. Some rows may be left, also after a panic of the foreign code
/// that says which index entries belong to a row.
struct Uncleared<'t>(&'t TableInner);

impl Drop for Uncleared<'_> {
    fn drop(&mut self) {
        self.0.allow(Allowed::NothingUncleared);
    }
}

/// Step 3. Waits for memory as it waits for open transactions.
fn delete_all<C: ConcurrencyControl>(engine: &Arc<Engine<C>>, table: &TableInner) -> Result<()> {
    let (mut from, mut waits) = (Some(Bound::Unbounded), 0);
    while let Some(place) = &from {
        match run_calls(engine, |transaction| delete_some(transaction, table, place), u32::MAX) {
            Ok(next) => (from, waits) = (next, 0),
            Err(Error::OutOfMemory { .. } | Error::TooManyTransactions { .. }) if waits < WAITS_MAX => {
                pause(waits);
                waits += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Deletes some rows from `from` on. If there may be more, returns where they begin.
fn delete_some<C: ConcurrencyControl>(
    transaction: &Transaction<C>,
    table: &TableInner,
    from: &Bound<Vec<u8>>,
) -> Result<Option<Bound<Vec<u8>>>> {
    transaction.leave_out_of_log();
    let from = from.as_ref().map(Vec::as_slice);
    let TableKeys { keys, next } = TableKeys::read(transaction, table, from, ROWS, |_, _| Ok(true))?;
    transaction.with(async |txn| {
        let txn = txn.state();
        for key in &keys {
            // The key is copied because it is needed until the transaction ends.
            let key = txn.index_key::<Vec<u8>>(&key.as_slice())?;
            Delete::new(PointLookup::new(txn, table, key)).await?;
        }
        Ok(())
    })?;
    Ok(next)
}
