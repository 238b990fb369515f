//! The database's list of tables.

use super::engine::Engine;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::sync::Fixed;
use crate::table::{TableInner, TableKind};

/// Creates the table, or opens it if it exists with these types, and makes a handle of it. A table that exists may have
/// an index of another kind, unless that one `is_chosen`. `leading_bits` of its keys say to which partition rows
/// belong; without, what has been said before holds, and if nothing has, none do. `created` notes that there is one more, before anybody can use
/// it; if it fails, there is not.
pub(crate) fn open_table<C: ConcurrencyControl, R>(
    engine: &Engine<C>,
    mut kind: TableKind,
    is_chosen: bool,
    leading_bits: Option<u32>,
    created: impl FnOnce(u32, &TableKind) -> Result<()>,
    handle: impl FnOnce(&TableInner) -> R,
) -> Result<R> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if let Some(table) = tables.iter().find(|table| table.kind.name == kind.name) {
        if !is_chosen {
            kind.options = table.kind.options;
        }
        if table.kind != kind {
            let (existing, requested) = (table.kind.unlike(&kind), kind.unlike(&table.kind));
            return Err(Error::TableMismatch { name: kind.name, existing, requested });
        }
        partition(engine, table, leading_bits)?;
        return Ok(handle(table));
    }
    let number = tables.len() as u32;
    let table = Fixed::new(engine.new_table(number, kind)?);
    partition(engine, &table, leading_bits)?;
    created(number, &table.kind)?;
    let handle = handle(&table);
    tables.push(table);
    Ok(handle)
}

/// Says how the table is partitioned, before a handle of it is made.
fn partition<C: ConcurrencyControl>(
    engine: &Engine<C>,
    table: &TableInner,
    leading_bits: Option<u32>,
) -> Result<()> {
    let said = table.index.partitioning().say(leading_bits, engine.options.partitions);
    match (said, leading_bits) {
        (Err(existing), Some(_)) => {
            let shown = |bits: Option<u32>| match bits {
                None => "rows in no partition, as opened before".into(),
                Some(bits) => format!("rows in partitions by the first {bits} bits of their keys"),
            };
            let (existing, requested) = (shown(existing), shown(leading_bits));
            Err(Error::TableMismatch { name: table.kind.name.clone(), existing, requested })
        }
        _ => Ok(()),
    }
}

/// Creates a table that there was, at recovery: the next in the database's list, if it is not in it already.
/// Returns false if another one has its number or name.
pub(crate) fn restore_table<C: ConcurrencyControl>(
    engine: &Engine<C>,
    number: u32,
    kind: TableKind,
) -> Result<bool> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if tables.get(number as usize).is_some_and(|table| table.kind == kind) {
        return Ok(true);
    }
    if number as usize != tables.len() || tables.iter().any(|table| table.kind.name == kind.name) {
        return Ok(false);
    }
    tables.push(Fixed::new(engine.new_table(number, kind)?));
    Ok(true)
}
