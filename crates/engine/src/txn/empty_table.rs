//! Clearing a table, and dropping it: deleting all its rows by one record of the log. Likewise dropping an index by columns.
//!
//! 1. Nothing is allowed with the table any more: a transaction that uses it is undone, and run again. Those that are open end.
//! 2. The catalog says that the table has no rows. From this record of the log on it has none: recovery deletes what it had, and
//!    a checkpoint leaves out what is still in memory. Nothing of the table is logged between this and the last step.
//! 3. The rows are deleted, by transactions that are not logged.
//! 4. Transactions end that have begun since: they may have a snapshot in which some of the rows are deleted.
//! 5. The table can be used again. (One that is dropped is not, so it needs no 4.)

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

/// Rows that are deleted by one transaction.
const ROWS: usize = 256;

/// Deletes all rows of a table, and lets it be used again. `note` as for [`describe_table`]. After an error nothing has changed, or the table
/// has to be cleared again before it can be used.
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

/// Deletes a table, which is to have this name, with all its rows. `note` as for [`describe_table`]. After an error nothing has changed, or the
/// table is gone, and rows that were left take memory.
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
    // So rows are deleted without a look at foreign code, which tells what an index has of them.
    table.indexes.iter().for_each(IndexInner::give_up);
    table.indexes.iter().for_each(IndexInner::forget_rows);
    delete_all(engine, table)?;
    table.indexes.iter().try_for_each(|index| delete_all(engine, &index.entries))?;
    table.release_places(&engine.records); // and of those that were on their way
    Ok(())
}

/// Deletes an index by columns. `note` as for [`describe_table`].
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

/// Deletes the entries of an index that is dead. (A transaction that has seen it alive may still make some: where it stays open, all stay
/// until the table is dropped, or the database closed.)
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

/// Before anybody is waited for, and anything has changed.
fn check_may_begin<C: ConcurrencyControl>(engine: &Engine<C>) -> Result<()> {
    if engine.is_read_only() { Err(Error::ReadOnly) } else { engine.check_may_wait() }
}

/// Steps 1 and 2. `name`: what the table has to be called by then.
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

/// Some rows may be left: also after a panic, of foreign code that tells which entries of indexes are theirs.
struct Uncleared<'t>(&'t TableInner);

impl Drop for Uncleared<'_> {
    fn drop(&mut self) {
        self.0.allow(Allowed::NothingUncleared);
    }
}

/// Step 3. Memory for it is waited for, as open transactions are.
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

/// Deletes some rows from `from` on, and returns where the next ones begin, if there may be more.
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
            // (Copied: it is needed until the transaction ends.)
            let key = txn.index_key::<Vec<u8>>(&key.as_slice())?;
            Delete::new(PointLookup::new(txn, table, key)).await?;
        }
        Ok(())
    })?;
    Ok(next)
}
