//! The database's list of tables.

use super::engine::Engine;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::sync::Fixed;
use crate::table::{TableInner, TableKind};

/// Creates the table, or opens it if it exists with these types, and makes a handle of it. A table that exists may have
/// an index of another kind, unless that one `is_chosen`. `created` notes that there is one more, before anybody can use
/// it; if it fails, there is not.
pub(crate) fn open_table<C: ConcurrencyControl, R>(
    engine: &Engine<C>,
    mut kind: TableKind,
    is_chosen: bool,
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
        return Ok(handle(table));
    }
    let number = tables.len() as u32;
    let table = Fixed::new(engine.new_table(number, kind)?);
    created(number, &table.kind)?;
    let handle = handle(&table);
    tables.push(table);
    Ok(handle)
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
