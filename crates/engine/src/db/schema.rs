//! Tables whose names and types change, and tables that go.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, MalformedRow, Result};
use crate::events::{IS_ON, event, ms, text};
use crate::kernel::{Which, describe_table, guarded};
use crate::table::{Definitions, Description, Key, OwnedField, Table, TableInner, TableKind, Value};
use crate::txn::{RawTable, TableKeys, Txn, clear_table, drop_table};
use std::ops::Bound;

/// Rows that are looked at in one transaction of [`Database::migrate`].
const ROWS: usize = 256;
/// Bytes that it writes, or those of one row, or as the log's segments allow.
const BYTES: u64 = 1 << 20;
/// Between two events that tell how far a migration is.
const TOLD_NS: u64 = 1_000_000_000;

impl<C: ConcurrencyControl> Database<C> {
    /// Renames a table. Handles of it stay as they are; its next opening is by the new name. [`Error::NoTable`] if there is none of the
    /// old name, [`Error::TableExists`] if there is one of the new.
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

    /// Deletes all rows of a table, which stays, at once: by one short record of the log, however many rows there are. After a crash either
    /// all of them are there, or none.
    ///
    /// Transactions that are open have to end first, which is waited for up to a minute; else it is [`Error::TableInUse`], and nothing has
    /// changed. Where the calling thread has one open itself, or runs this in a closure as a worker, it is [`Error::WouldDeadlock`] at
    /// once, and nothing has changed. A frozen table is [`Error::Frozen`]. (Without a log, a checkpoint that is being
    /// made is such a transaction.) Meanwhile and until this returns, transactions that use the table meet conflicts, and are run
    /// again. Rows are deleted from memory one after the other, by the calling thread; then transactions have to end that have begun since. If that
    /// fails, or the function of an index panics ([`Error::Panicked`]), transactions that use the table are answered [`Error::NotCleared`] until this has been called again.
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
        // (Not by `inner`, which refuses a table that was cleared in part.)
        let table = table.of_database(self.engine().id)?;
        let of_indexes = || format!("the function of an index of the table {:?}", table.name());
        guarded(of_indexes, || clear_table(self.engine(), table, self.note()))?;
        event!(INFO, TABLE, "table cleared", database = self.engine().id, table = text(table.name()));
        Ok(())
    }

    /// Deletes a table with all its rows and secondary indexes; otherwise as [`clear`](Self::clear). Handles of it are answered
    /// [`Error::TableDropped`] from now on, and another table can be made under its name. [`Error::NoTable`] if there is none. If its
    /// rows cannot be deleted, for want of memory, that is an error, and they take memory until the database is closed; but the table is gone.
    ///
    /// The number of a table is not given again, for records of the log and handles from before know the table by it. Nothing looks at a table
    /// that was dropped, but what handles lead to takes about a kilobyte of memory until the database
    /// is closed, with a hash index or a [front](crate::Front) the room that these have grown to; and some bytes of each checkpoint, as long
    /// as the log goes back to before the drop.
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

    /// Says that the keys and values of a table are of these types from now on. No row is changed: their bytes have to be the
    /// encodings of these types. For types that are known to the database by the path of a Rust type, which are
    /// [`Plain`](crate::Plain) and `Serde`, when that type has moved to another module or has got another name.
    ///
    /// [`Error::NoTable`] if there is none, [`Error::TableMismatch`] if keys of the one type have eight bytes each and of the other have not,
    /// [`Error::IndexedColumns`] if the table has an index by columns of the values whose type is to change.
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

    /// Rewrites the rows whose values are of an earlier version of a type with `#[derive(Value)]`, and returns their number. It is not
    /// needed for reading, which upgrades each value as it finds it: after a migration the program can do without the earlier
    /// versions.
    ///
    /// Works on the calling thread, in transactions of a few hundred rows, while other transactions go on. It may be
    /// interrupted and called again at any time: each row says its version. In a closure that a worker runs it is
    /// [`Error::WouldDeadlock`]. If decoding or upgrading a value panics, it is [`Error::Panicked`], and no row has changed halfway. When it returns, and no handle of the table with an earlier
    /// type is in use, all rows are of the newest version, and the catalog no longer asks for the others.
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

    /// Those of the next rows that are not of the newest version.
    fn outdated<V: OwnedField>(&self, table: &TableInner, from: &Bound<Vec<u8>>) -> Result<TableKeys> {
        let is_outdated = |key: &[u8], bytes: &[u8]| Ok(renewed::<V>(table, key, bytes)?.is_some());
        self.transact(|tx| {
            table.check_usable()?;
            TableKeys::read(tx, table, from.as_ref().map(Vec::as_slice), ROWS, is_outdated)
        })
    }

    /// Brings the rows with these keys to the newest version, unless somebody else has meanwhile; returns how many it has.
    fn rewrite<V: OwnedField>(&self, table: &TableInner, raw: RawTable, keys: &[Vec<u8>]) -> Result<u64> {
        // Whatever the log's segments are, by far as many as a transaction may write.
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

/// The bytes that this value has in the newest version of its type, unless it is of that.
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
