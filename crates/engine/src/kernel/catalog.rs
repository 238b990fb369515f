//! Changes to the database's list of tables: creating, opening, describing and restoring tables.

use super::engine::Engine;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::table::{
    Allowed, Definitions, Description, TableInner, TableKind, TableState, joined_types, unlike,
};

/// A request for a table.
pub(crate) struct Request {
    pub(crate) kind: TableKind,
    pub(crate) description: Description,
    /// If the table exists, its index must be of this kind.
    pub(crate) is_chosen: bool,
    /// How many leading bits of a key decide to which partition the row belongs. `None`: what was declared before
    /// holds; if nothing was, rows belong to no partition.
    pub(crate) leading_bits: Option<u32>,
    /// The definitions of the types that values consist of.
    pub(crate) definitions: Definitions,
    /// The caller moves rows as bytes. Therefore types that the catalog knows and `definitions` lacks do no harm.
    pub(crate) is_raw: bool,
}

impl Request {
    /// Requests a table whose rows the caller moves as bytes.
    pub(crate) fn raw(kind: TableKind, description: Description) -> Request {
        let definitions = Definitions::default();
        Request { kind, description, is_chosen: false, leading_bits: None, definitions, is_raw: true }
    }
}

/// Creates the table, or opens it if it exists with these types, and makes a handle of it. `note` records what the
/// catalog says of the table from now on. It is called before anyone can use the table with the new description. If
/// `note` fails, nothing has changed.
pub(crate) fn open_table<C: ConcurrencyControl, R>(
    engine: &Engine<C>,
    request: Request,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
    handle: impl FnOnce(&TableInner) -> R,
) -> Result<R> {
    let Request { mut kind, mut description, is_chosen, leading_bits, definitions, is_raw } = request;
    let joined = |existing: &[String], name: &str| {
        definitions.joined(existing, is_raw).map_err(|disagreement| disagreement.of_table(name))
    };
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if let Some(table) = tables.find(&description.name) {
        if !is_chosen {
            kind.options = table.kind.options;
        }
        let existing = table.description().clone();
        let key_type = joined_types(&existing.types.0, &description.types.0);
        let has_same_values = existing.types.1 == description.types.1;
        let Some(key_type) = key_type.filter(|_| table.kind == kind && has_same_values) else {
            let (held, wanted) = ((&existing, &table.kind), (&description, &kind));
            let (existing, requested) = (unlike(held, wanted), unlike(wanted, held));
            return Err(Error::TableMismatch { name: description.name, existing, requested });
        };
        description.types.0 = key_type;
        description.definitions = joined(&existing.definitions, &description.name)?;
        description.state = existing.state; // the table may be in the middle of being cleared
        description.indexes.clone_from(&existing.indexes);
        partition(engine, table, &description.name, leading_bits)?;
        // A read-only database keeps the description that it has: no row of a new version or variant can be written.
        if description != existing && !engine.is_read_only() {
            table.indexes.learn(&description.name, &description)?;
            note(table.number(), &kind, &description)?;
            *table.description() = description; // name and state are unchanged
        }
        let (handle, number) = (handle(table), table.number());
        drop(tables);
        event!(DEBUG, TABLE, "table opened", database = engine.id, table = text(engine.name_of(number)));
        return Ok(handle);
    }
    description.definitions = joined(&[], &description.name)?;
    let number = tables.next();
    let table = engine.new_table(number, kind, description.clone())?;
    partition(engine, &table, &description.name, leading_bits)?;
    note(number, &kind, &description)?;
    let handle = handle(tables.add(table));
    drop(tables);
    event!(INFO, TABLE, "table created", database = engine.id, table = text(engine.name_of(number)));
    Ok(handle)
}

/// Names a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'n> {
    Named(&'n str),
    /// The table with this number, whatever its present name.
    Number(u32),
}

/// Changes what the catalog says of a table. `change` makes the change; `note` is as for [`open_table`].
pub(crate) fn describe_table<C: ConcurrencyControl>(
    engine: &Engine<C>,
    which: Which<'_>,
    change: impl FnOnce(&TableKind, &mut Description) -> Result<()>,
    note: impl FnOnce(u32, &TableKind, &Description) -> Result<()>,
) -> Result<()> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    let table = match which {
        Which::Named(name) => tables.find(name).ok_or_else(|| Error::NoTable { table: name.into() })?,
        Which::Number(number) => tables.get(number).ok_or(Error::TableDropped)?,
    };
    let before = table.description().clone();
    let mut described = before.clone();
    change(&table.kind, &mut described)?;
    if described.name != before.name && tables.find(&described.name).is_some() {
        return Err(Error::TableExists { table: described.name });
    }
    if described != before {
        let number = table.number();
        note(number, &table.kind, &described)?;
        let end = engine.log.get().map(|log| log.writer.appended_lsn());
        tables.describe(number, described, end);
    }
    Ok(())
}

/// Declares how the table is partitioned, before a handle of the table is made.
fn partition<C: ConcurrencyControl>(
    engine: &Engine<C>,
    table: &TableInner,
    name: &str,
    leading_bits: Option<u32>,
) -> Result<()> {
    let said = table.index.partitioning().say(leading_bits, engine.options.lab.partitions);
    match (said, leading_bits) {
        (Err(existing), Some(_)) => {
            let shown = |bits: Option<u32>| match bits {
                None => "rows in no partition, as opened before".into(),
                Some(bits) => format!("rows in partitions by the first {bits} bits of their keys"),
            };
            let (existing, requested) = (shown(existing), shown(leading_bits));
            Err(Error::TableMismatch { name: name.into(), existing, requested })
        }
        _ => Ok(()),
    }
}

/// Restores a table at recovery, as the next table in the database's list. A table that is already in the list gets the
/// new description and keeps its rows. `has_gaps` is true if a checkpoint names the table: a checkpoint leaves out
/// tables that were dropped long before. Returns false if another table has the number or the name.
pub(crate) fn restore_table<C: ConcurrencyControl>(
    engine: &Engine<C>,
    number: u32,
    kind: TableKind,
    description: Description,
    has_gaps: bool,
) -> Result<bool> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if let Some(table) = tables.get(number) {
        // A checkpoint's description may be newer than this one. The log then repeats the newer description later, and
        // until then two tables may have the same name.
        let is_same = table.kind == kind;
        if is_same {
            table.allow(Allowed::of(description.state));
            tables.describe(number, description, None);
        }
        return Ok(is_same);
    }
    let is_next = number == tables.next() || has_gaps && number > tables.next();
    let is_taken = || tables.find(&description.name).is_some();
    if !is_next || description.state != TableState::Dropped && is_taken() {
        return Ok(false);
    }
    tables.add(engine.new_table(number, kind, description)?);
    Ok(true)
}
