//! Tables whose names and types change.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, MalformedRow, Result};
use crate::kernel::{Which, describe_table};
use crate::table::{Definitions, Description, Key, OwnedField, Table, TableInner, TableKind, Value};
use crate::txn::{RawTable, Transaction, Txn};
use std::ops::Bound;

/// Rows that are looked at in one transaction of [`Database::migrate`].
const ROWS: usize = 256;
/// Bytes that it writes, or those of one row, or as the log's segments allow.
const BYTES: u64 = 1 << 20;
/// Keys that are noted at once where a table has no order of keys.
const KEYS_MAX: usize = 1 << 16;

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
        describe_table(self.engine(), Which::Named(from), rename, self.note())
    }

    /// Says that the keys and values of a table are of these types from now on. No row is changed: their bytes have to be the
    /// encodings of these types. For types that are known to the database by the path of a Rust type, which are
    /// [`Plain`](crate::Plain) and `Serde`, when that type has moved to another module or has got another name.
    ///
    /// [`Error::NoTable`] if there is none, [`Error::TableMismatch`] if keys of the one type have eight bytes each and of the other have not.
    pub fn retype<K: Key, V: Value + ?Sized>(&self, table: &str) -> Result<()> {
        let mut definitions = Definitions::default();
        V::define(&mut definitions);
        let written = definitions.joined(&[], false).map_err(|disagreement| disagreement.of_table(table))?;
        let retype = |kind: &TableKind, description: &mut Description| {
            if kind.fixed8 != K::FIXED8 {
                let (name, existing) = (table.into(), format!("keys of {}", description.types.0));
                return Err(Error::TableMismatch { name, existing, requested: K::type_name() });
            }
            description.types = (K::type_name(), V::type_name());
            description.definitions = written;
            Ok(())
        };
        describe_table(self.engine(), Which::Named(table), retype, self.note())
    }

    /// Rewrites the rows whose values are of an earlier version of a type with `#[derive(Value)]`, and returns their number. It is not
    /// needed for reading, which upgrades each value as it finds it: after a migration the program can do without the earlier
    /// versions.
    ///
    /// Works on the calling thread, in transactions of a few hundred rows, while other transactions go on. It may be
    /// interrupted and called again at any time: each row says its version. When it returns, and no handle of the table with an earlier
    /// type is in use, all rows are of the newest version, and the catalog no longer asks for the others.
    pub fn migrate<K: Key, V: OwnedField>(&self, table: Table<K, V>) -> Result<u64> {
        let inner = table.inner(self.engine().id)?;
        let raw = RawTable::new(inner, self.engine().id);
        let rewritten = match inner.kind.options.index.is_ordered() {
            true => self.migrate_in_order::<V>(inner, raw)?,
            false => self.migrate_by_keys::<V>(inner, raw)?,
        };
        let mut definitions = Definitions::default();
        V::define(&mut definitions);
        let forget = |_: &TableKind, description: &mut Description| {
            description.definitions = definitions.migrated(&description.definitions);
            Ok(())
        };
        describe_table(self.engine(), Which::Number(inner.number()), forget, self.note())?;
        Ok(rewritten)
    }

    /// As many bytes as a transaction may write by far, whatever the log's segments are.
    fn bytes_max(&self) -> u64 {
        BYTES.min(self.engine().options.log_segment_bytes / 8)
    }

    fn migrate_in_order<V: OwnedField>(&self, table: &TableInner, raw: RawTable) -> Result<u64> {
        let (mut rewritten, mut from) = (0, Bound::Unbounded);
        loop {
            let (count, last) = self.transact(|tx| {
                let from = from.as_ref().map(Vec::as_slice);
                let mut rows = raw.range(tx, from, Bound::Unbounded)?.limit(ROWS);
                let (mut outdated, mut last, mut left, mut written) = (Vec::new(), None, ROWS, 0);
                while let Some((key, bytes)) = rows.next()? {
                    if let Some(renewed) = renewed::<V>(table, &key, bytes)? {
                        written += renewed.len() as u64;
                        outdated.push((key.clone(), renewed));
                    }
                    (last, left) = (Some(key), left - 1);
                    if written >= self.bytes_max() {
                        left = 0;
                        break;
                    }
                }
                drop(rows);
                outdated.iter().try_for_each(|(key, value)| update(tx, raw, key, value))?;
                Ok((outdated.len() as u64, last.filter(|_| left == 0)))
            })?;
            rewritten += count;
            match last {
                Some(last) => from = Bound::Excluded(last),
                None => return Ok(rewritten),
            }
        }
    }

    /// For an index without an order: notes keys in one transaction and rewrites their rows in others.
    fn migrate_by_keys<V: OwnedField>(&self, table: &TableInner, raw: RawTable) -> Result<u64> {
        let mut rewritten = 0;
        loop {
            let keys = self.transact(|tx| {
                let (mut rows, mut keys) = (raw.scan(tx), Vec::new());
                while let Some((key, bytes)) = rows.next()? {
                    if renewed::<V>(table, &key, bytes)?.is_some() {
                        keys.push(key);
                    }
                    if keys.len() == KEYS_MAX {
                        break;
                    }
                }
                Ok(keys)
            })?;
            let mut left = &keys[..];
            while !left.is_empty() {
                let (count, seen) = self.transact(|tx| {
                    let (mut count, mut seen, mut written) = (0, 0, 0);
                    for key in left.iter().take(ROWS) {
                        let renew = async |txn: &Txn<C>| {
                            let bytes = raw.get(txn, key).await?;
                            bytes.map_or(Ok(None), |bytes| renewed::<V>(table, key, bytes))
                        };
                        if let Some(value) = tx.with(renew)? {
                            update(tx, raw, key, &value)?;
                            (count, written) = (count + 1, written + value.len() as u64);
                        }
                        seen += 1;
                        if written >= self.bytes_max() {
                            break;
                        }
                    }
                    Ok((count, seen))
                })?;
                rewritten += count;
                left = &left[seen..];
            }
            if keys.len() < KEYS_MAX {
                return Ok(rewritten);
            }
        }
    }
}

/// The bytes that this value has in the newest version of its type, unless it is of that.
fn renewed<V: OwnedField>(table: &TableInner, key: &[u8], bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let in_row = |error: Error| error.in_row(|| Some(Box::new(MalformedRow::new(&table.name(), key))));
    if V::is_newest(bytes).map_err(in_row)? {
        return Ok(None);
    }
    let value = V::read(bytes).map_err(in_row)?;
    Ok(Some(V::encode(value.input())?.as_ref().to_vec()))
}

fn update<C: ConcurrencyControl>(tx: &Transaction<C>, raw: RawTable, key: &[u8], value: &[u8]) -> Result<()> {
    tx.with(async |txn| raw.update(txn, key, value).await.map(|_| ()))
}
