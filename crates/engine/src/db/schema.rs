//! Renaming, retyping, clearing, dropping and migrating tables.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, MalformedRow, Result};
use crate::events::{IS_ON, event, ms, text};
use crate::kernel::{Which, describe_table, guarded};
use crate::table::{Definitions, Description, Key, OwnedField, Table, TableInner, TableKind, Value};
use crate::txn::{RawTable, TableKeys, Txn, clear_table, drop_table};
use std::ops::Bound;

/// The rows that one transaction of [`Database::migrate`] looks at.
const ROWS: usize = 256;
/// The bytes that one such transaction writes. One row may be longer, and small segments of the log allow less.
const BYTES: u64 = 1 << 20;
/// The time between two progress events of a migration.
const TOLD_NS: u64 = 1_000_000_000;

impl<C: ConcurrencyControl> Database<C> {
    /// Renames a table. Its handles stay valid, and the next opening uses the new name. Returns [`Error::NoTable`] if
    /// no table has the old name, and [`Error::TableExists`] if a table has the new one.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// db.transact(|tx| tx.put(names, 1, "Ada"))?;
    /// db.rename_table("names", "people")?;
    /// let people: Table<u64, str> = db.table("people")?;
    /// assert_eq!(db.transact(|tx| tx.get(people, 1).map(|name| name.map(String::from)))?.as_deref(), Some("Ada"));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        let rename = |_: &TableKind, description: &mut Description| {
            description.name = to.into();
            Ok(())
        };
        describe_table(self.engine(), Which::Named(from), rename, self.note())?;
        event!(INFO, TABLE, "table renamed", database = self.engine().id, from = from, to = to);
        Ok(())
    }

    /// Deletes all rows of a table at once, and keeps the table. This writes one short record to the log, however
    /// many rows there are. After a crash either all rows are there, or none.
    ///
    /// The call waits up to a minute for open transactions to end. (Without a log, a checkpoint that is being made is
    /// such a transaction.) Meanwhile, and until the call returns, transactions that use the table meet conflicts and
    /// run again. The calling thread deletes the rows from memory one after the other. Then transactions that have
    /// begun since must end. If that fails, or the function of an index panics ([`Error::Panicked`]), transactions
    /// that use the table get [`Error::NotCleared`] until this has been called again.
    ///
    /// # Errors
    /// After these errors nothing has changed.
    ///
    /// - [`Error::TableInUse`] if the open transactions do not end.
    /// - [`Error::WouldDeadlock`], at once, if the calling thread has a transaction open, or runs this in a closure
    ///   as a worker.
    /// - [`Error::Frozen`] for a frozen table.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let visits: Table<u64, u64> = db.table("visits")?;
    /// db.transact(|tx| tx.put(visits, 1, 10))?;
    /// db.clear(visits)?;
    /// assert_eq!(db.transact(|tx| tx.get(visits, 1))?, None);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn clear<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<()> {
        // Not by `inner`, which refuses a table that was cleared in part.
        let table = table.of_database(self.engine().id)?;
        let of_indexes = || format!("the function of an index of the table {:?}", table.name());
        guarded(of_indexes, || clear_table(self.engine(), table, self.note()))?;
        event!(INFO, TABLE, "table cleared", database = self.engine().id, table = text(table.name()));
        Ok(())
    }

    /// Deletes a table with all its rows and secondary indexes, otherwise like [`clear`](Self::clear). From now on
    /// its handles return [`Error::TableDropped`], and another table can be made under its name. Returns
    /// [`Error::NoTable`] if the table does not exist. If its rows cannot be deleted for lack of memory, that is an
    /// error: the table is gone, but the rows take memory until the database is closed.
    ///
    /// The table's number is not used again, because records of the log and old handles identify the table by it. A
    /// dropped table is not scanned, but what handles refer to takes about a kilobyte of memory until the database is
    /// closed, and with a hash index or a [front](crate::Front) the room that these have grown to. It also takes some
    /// bytes of each checkpoint, as long as the log goes back to before the drop.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let visits: Table<u64, u64> = db.table("visits")?;
    /// db.transact(|tx| tx.put(visits, 1, 10))?;
    /// db.drop_table("visits")?;
    /// assert!(matches!(db.transact(|tx| tx.get(visits, 1)), Err(Error::TableDropped)));
    /// let visits: Table<String, u64> = db.table("visits")?;
    /// assert_eq!(db.transact(|tx| tx.get(visits, "home"))?, None);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let table = self.engine().table_named(name).ok_or_else(|| Error::NoTable { table: name.into() })?;
        drop_table(self.engine(), table, name, self.note())?;
        event!(INFO, TABLE, "table dropped", database = self.engine().id, table = name);
        Ok(())
    }

    /// Sets the types of a table's keys and values. No row is changed: their bytes must be encodings of the new
    /// types. Use this when a Rust type has moved to another module or was renamed, if the database knows it by its
    /// path. These types are [`Plain`](crate::Plain) and `Serde`.
    ///
    /// Returns [`Error::NoTable`] if the table does not exist. Returns [`Error::TableMismatch`] if keys of only one
    /// of the two types have eight bytes each. Returns [`Error::IndexedColumns`] if the table has an index by columns
    /// of the values whose type would change.
    pub fn retype<K: Key, V: Value + ?Sized>(&self, table: &str) -> Result<()> {
        let mut definitions = Definitions::default();
        V::define(&mut definitions);
        let written = definitions.joined(&[], false).map_err(|disagreement| disagreement.of_table(table))?;
        let retype = |kind: &TableKind, description: &mut Description| {
            if kind.fixed8 != K::FIXED8 {
                let (name, existing) = (table.into(), format!("keys of {}", description.types.0));
                return Err(Error::TableMismatch { name, existing, requested: K::type_name() });
            }
            let types = (K::type_name(), V::type_name());
            let is_same = description.types.1 == types.1 && description.definitions == written;
            if let Some(index) = description.indexes.first().filter(|_| !is_same) {
                let reason = "values are to be of another type: drop the index first (drop_index)".into();
                return Err(Error::IndexedColumns { table: table.into(), index: index.name.clone(), reason });
            }
            (description.types, description.definitions) = (types, written);
            Ok(())
        };
        describe_table(self.engine(), Which::Named(table), retype, self.note())?;
        event!(INFO, TABLE, "table retyped", database = self.engine().id, table = table);
        Ok(())
    }

    /// Rewrites the rows whose values are of an earlier version of a type with `#[derive(Value)]`, and returns their
    /// number. Reads do not need it, because they upgrade each value they find. After a migration the program can do
    /// without the earlier versions.
    ///
    /// This works on the calling thread, in transactions of a few hundred rows, while other transactions continue. It
    /// can be interrupted and called again at any time, because each row has its version. When it returns, and no
    /// handle of the table with an earlier type is in use, all rows are of the newest version, and the catalog no
    /// longer requires the others.
    ///
    /// Returns [`Error::WouldDeadlock`] in a closure that a worker runs. Returns [`Error::Panicked`] if decoding or
    /// upgrading a value panics. No row has changed half-way then.
    pub fn migrate<K: Key, V: OwnedField>(&self, table: Table<K, V>) -> Result<u64> {
        self.engine().check_outside()?;
        let inner = table.inner(self.engine().id)?;
        let raw = RawTable::new(inner, self.engine().id);
        let (mut rewritten, mut from) = (0, Some(Bound::Unbounded));
        let engine = self.engine();
        let began_ns = engine.clock.now_ns();
        let mut told_ns = began_ns;
        while let Some(place) = from {
            let outdated = self.outdated::<V>(inner, &place)?;
            rewritten += self.rewrite::<V>(inner, raw, &outdated.keys)?;
            from = outdated.next;
            if IS_ON && engine.clock.now_ns().saturating_sub(told_ns) >= TOLD_NS {
                told_ns = engine.clock.now_ns();
                event!(
                    DEBUG,
                    TABLE,
                    "table is being migrated",
                    database = engine.id,
                    table = text(inner.name()),
                    rows = rewritten
                );
            }
        }
        let mut definitions = Definitions::default();
        V::define(&mut definitions);
        let forget = |_: &TableKind, description: &mut Description| {
            description.definitions = definitions.migrated(&description.definitions);
            Ok(())
        };
        describe_table(engine, Which::Number(inner.number()), forget, self.note())?;
        event!(
            INFO,
            TABLE,
            "table migrated",
            database = engine.id,
            table = text(inner.name()),
            rows = rewritten,
            duration_ms = ms(engine.clock.now_ns().saturating_sub(began_ns))
        );
        Ok(rewritten)
    }

    /// Returns those of the next rows that are not of the newest version.
    fn outdated<V: OwnedField>(&self, table: &TableInner, from: &Bound<Vec<u8>>) -> Result<TableKeys> {
        let is_outdated = |key: &[u8], bytes: &[u8]| Ok(renewed::<V>(table, key, bytes)?.is_some());
        self.transact(|tx| {
            table.check_usable()?;
            TableKeys::read(tx, table, from.as_ref().map(Vec::as_slice), ROWS, is_outdated)
        })
    }

    /// Brings the rows with these keys to the newest version, unless another writer has done so meanwhile. Returns
    /// how many rows it has rewritten.
    fn rewrite<V: OwnedField>(&self, table: &TableInner, raw: RawTable, keys: &[Vec<u8>]) -> Result<u64> {
        // A transaction may write far more than this, whatever the size of the log's segments.
        let bytes_max = BYTES.min(self.engine().options.log_segment_bytes / 8);
        let (mut left, mut rewritten) = (keys, 0);
        while !left.is_empty() {
            let (count, seen) = self.transact(|tx| {
                let (mut count, mut seen, mut written) = (0, 0, 0);
                for key in left {
                    seen += 1;
                    let rewrite = async |txn: &Txn<C>| {
                        let Some(bytes) = raw.get(txn, key).await? else { return Ok(0) };
                        let Some(value) = renewed::<V>(table, key, bytes)? else { return Ok(0) };
                        raw.update(txn, key, &value).await?;
                        Ok(value.len() as u64)
                    };
                    let bytes = tx.with(rewrite)?;
                    (count, written) = (count + u64::from(bytes > 0), written + bytes);
                    if written >= bytes_max {
                        break;
                    }
                }
                Ok((count, seen))
            })?;
            rewritten += count;
            left = &left[seen..];
        }
        Ok(rewritten)
    }
}

/// Returns the bytes of this value in the newest version of its type. `None` if it is of that version.
fn renewed<V: OwnedField>(table: &TableInner, key: &[u8], bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let of_values = || format!("decoding or upgrading a value of the table {:?}", table.name());
    guarded(of_values, || renewed_by_program::<V>(table, key, bytes))
}

fn renewed_by_program<V: OwnedField>(
    table: &TableInner,
    key: &[u8],
    bytes: &[u8],
) -> Result<Option<Vec<u8>>> {
    let in_row = |error: Error| error.in_row(|| Some(Box::new(MalformedRow::new(&table.name(), key))));
    if V::is_newest(bytes).map_err(in_row)? {
        return Ok(None);
    }
    let value = V::read(bytes).map_err(in_row)?;
    Ok(Some(V::encode(value.input())?.as_ref().to_vec()))
}
