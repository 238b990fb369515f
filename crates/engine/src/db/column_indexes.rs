//! Secondary indexes by columns, which the database keeps: declared, built when the database is opened, and dropped.

use super::Database;
use crate::cc::{ConcurrencyControl, once};
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::kernel::{Which, describe_table};
use crate::secondary::{Declared, column_extractor, open_index};
use crate::table::{
    Columns, Description, Index, IndexInfo, IndexInner, Key, Table, TableInner, TableKind, TableState, Value,
};
use crate::txn::drop_index;
use std::sync::Arc;

once! {
    fn keep_index<'d, 't>(
        db: &'d Database<C>,
        table: &'t TableInner,
        asked: &'d IndexInfo,
        key_type: Option<String>,
    ) -> Result<&'t IndexInner> = db.keep_index_here(table, asked, key_type);
}

impl<C: ConcurrencyControl> Database<C> {
    /// Declares an index of a table by columns of its rows, which the database keeps. It is declared once. From then
    /// on it exists whenever any program has the database open. Columns are fields of the table's values: by name if
    /// the values have `#[derive(Value)]`, by number (`"0"`) if they are tuples. The key of a row in the index is the
    /// single column, or the tuple of the columns in the given order. Several rows may have the same key.
    ///
    /// Every write of a row maintains the index in the same transaction. This includes programs and tools that do not
    /// know the index, and writes of rows as bytes ([`RawTable`](crate::tools::RawTable)). The entries are built from
    /// the rows each time the database is opened to be written. If it is opened to be read, they are built when the
    /// index is requested. All rows are in the index: `None` is a key like others.
    ///
    /// A second declaration with the same columns returns the existing index. A declaration with other columns
    /// returns [`Error::IndexMismatch`]. It returns [`Error::IndexedColumns`] if a column does not exist, if there
    /// are no keys of its type, or if the keys are not of type `I`. In all else this call is like
    /// [`index`](Self::index): open transactions have to end first.
    ///
    /// If values have versions, each version that rows may have must have the columns, with the same types. A table
    /// with this index cannot be opened with a version that lacks a column or has it with another type
    /// ([`Error::IndexedColumns`]). [Drop](Self::drop_index) the index first, [migrate](Self::migrate) the table, and
    /// declare the index again. A row of an earlier version has the key that its stored bytes give, whatever an
    /// upgrade would make of them.
    ///
    /// ```
    /// # #[cfg(feature = "derive")] {
    /// use braiddb::{Database, Index, Options, Table, Value};
    ///
    /// #[derive(Value)]
    /// #[braid(name = "person")]
    /// struct Person { name: String, city: String, born: u16 }
    ///
    /// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let people: Table<u64, Person> = db.table("people")?;
    /// let by_city: Index<(String, u16), _, _> = db.index_on(people, "by city", &["city", "born"])?;
    /// let ada = Person { name: "Ada".into(), city: "London".into(), born: 1815 };
    /// db.transact(|tx| tx.put(people, 1, &ada))?;
    /// let tx = db.begin()?;
    /// let mut rows = tx.scan_by(by_city, ("London", 1800)..("London", 1900));
    /// assert_eq!(rows.next()?.map(|(_, id, person)| (id, person.name)), Some((1, "Ada".into())));
    /// # }
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn index_on<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        columns: &[&str],
    ) -> Result<Index<I, K, V>> {
        self.typed_index(table, &IndexInfo::new(name, columns, false))
    }

    /// Declares an index like [`index_on`](Self::index_on) in which no two rows may have the same key, whichever
    /// program writes them: see [`unique_index`](Self::unique_index).
    pub fn unique_index_on<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        columns: &[&str],
    ) -> Result<Index<I, K, V>> {
        self.typed_index(table, &IndexInfo::new(name, columns, true))
    }

    fn typed_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        asked: &IndexInfo,
    ) -> Result<Index<I, K, V>> {
        let id = self.engine().id;
        let index = self.keep_index(table.of_database(id)?, asked, Some(I::type_name()))?;
        Ok(Index::new(index, id))
    }

    /// Returns the requested index of a table, built and kept. `key_type`: the required type of its keys.
    pub(super) fn keep_index<'t>(
        &self,
        table: &'t TableInner,
        asked: &IndexInfo,
        key_type: Option<String>,
    ) -> Result<&'t IndexInner> {
        keep_index(self, table, asked, key_type)
    }

    fn keep_index_here<'t>(
        &self,
        table: &'t TableInner,
        asked: &IndexInfo,
        key_type: Option<String>,
    ) -> Result<&'t IndexInner> {
        let engine = self.engine();
        let description = table.description().clone();
        let not_possible = |reason| Error::IndexedColumns {
            table: description.name.clone(),
            index: asked.name.clone(),
            reason,
        };
        let is_kept = description.indexes.iter().any(|kept| kept.name == asked.name);
        let info = match description.indexes.iter().find(|kept| kept.name == asked.name) {
            Some(kept) if kept.is_as(asked) => kept.clone(),
            Some(kept) => {
                let (existing, requested) = (kept.to_string(), asked.to_string());
                return Err(Error::IndexMismatch { name: asked.name.clone(), existing, requested });
            }
            None if engine.is_read_only() => return Err(Error::ReadOnly),
            None => Columns::resolve(asked, &description).map_err(not_possible)?,
        };
        let columns = Arc::new(Columns::new(&info).map_err(not_possible)?);
        if let Some(wanted) = key_type.filter(|wanted| *wanted != columns.key_type()) {
            return Err(not_possible(format!("its keys are {}, not {wanted}", columns.key_type())));
        }
        let declared = Declared {
            name: info.name.clone(),
            key_type: columns.key_type(),
            is_unique: info.is_unique,
            leading_bits: None,
            extract: column_extractor(columns.clone()),
            columns: Some(columns),
            function: None,
            projection: None,
        };
        let change = |_: &TableKind, description: &mut Description| {
            if description.state == TableState::Dropped {
                return Err(Error::TableDropped);
            }
            if !description.indexes.contains(&info) {
                description.indexes.push(info);
            }
            Ok(())
        };
        let keep = || describe_table(engine, Which::Number(table.number()), change, self.note());
        let index = open_index(engine, table, declared, keep)?;
        if !is_kept {
            event!(
                INFO,
                TABLE,
                "index declared",
                database = engine.id,
                table = text(table.name()),
                index = index.name.as_str(),
                is_unique = index.is_unique,
                columns =
                    text(asked.columns.iter().map(|column| &*column.name).collect::<Vec<_>>().join(", "))
            );
        }
        Ok(index)
    }

    /// Builds all indexes that the database keeps, before the first write. In a database opened to be read, an index
    /// is built when it is requested.
    pub(super) fn build_kept_indexes(&self) -> Result<()> {
        debug_assert!(!self.engine().is_read_only());
        for table in self.engine().all_tables() {
            let Description { indexes, state, .. } = table.description().clone();
            if state != TableState::Dropped {
                indexes.iter().try_for_each(|kept| self.keep_index(table, kept, None).map(drop))?;
            }
        }
        Ok(())
    }

    /// Deletes an index by columns for good. From now on its handles return [`Error::TableDropped`], and its name is
    /// free. Returns [`Error::NoTable`] or [`Error::NoIndex`] if there is none.
    ///
    /// The calling thread waits up to a minute for open transactions to end, then deletes the entries. Returns
    /// [`Error::WouldDeadlock`] at once if the calling thread has a transaction open itself, or runs this in a
    /// closure as a worker.
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        let engine = self.engine();
        let found = engine.table_named(table);
        let found = found.ok_or_else(|| Error::NoTable { table: table.into() })?;
        drop_index(engine, found, index, self.note())?;
        event!(INFO, TABLE, "index dropped", database = engine.id, table = table, index = index);
        Ok(())
    }
}
