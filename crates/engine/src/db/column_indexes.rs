//! Secondary indexes by columns, which the database keeps: declaring them, building them when it is opened, dropping them.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::kernel::{Which, describe_table};
use crate::secondary::{Declared, column_extractor, open_index};
use crate::table::{
    Columns, Description, Index, IndexInfo, IndexInner, Key, Table, TableInner, TableKind, TableState, Value,
};
use crate::txn::drop_index;
use std::sync::Arc;

impl<C: ConcurrencyControl> Database<C> {
    /// An index of a table by columns of its rows, which the database keeps: it is declared once, and there whenever the database is
    /// open, for every program that opens it. Columns are fields of the table's values, by name if these have `#[derive(Value)]`, and
    /// by number (`"0"`) if they are tuples. The key of a row in the index is the one column, or the tuple of them, in the order in which they are
    /// given. Several rows may have the same key.
    ///
    /// Whatever writes rows maintains the index in the same transaction, also programs and tools that know nothing of it, and those that
    /// write rows as bytes ([`RawTable`](crate::tools::RawTable)). Its entries are built from the rows each time that the database is opened to
    /// be written; if it is opened to be read, when the index is asked for. All rows are in it: `None` is a key like others.
    ///
    /// Declared again by the same columns, it is the index that there is; by others it is [`Error::IndexMismatch`]. What cannot be is
    /// [`Error::IndexedColumns`]: a column that is not there, or of a type of which there are no keys, or keys that are not of type `I`.
    /// Otherwise this is as [`index`](Self::index): transactions that are open have to end first.
    ///
    /// Of values that have versions, each that rows may have must have the columns, with the same types: a table with this index is not
    /// opened with a version in which one is missing or of another type ([`Error::IndexedColumns`]). [Drop](Self::drop_index) the index
    /// first, [migrate](Self::migrate) the table, and declare the index anew. A row of an earlier version has the key that its bytes say,
    /// whatever an upgrade would make of them.
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

    /// As [`index_on`](Self::index_on), but no two rows may have the same key, by whichever program they are written: see
    /// [`unique_index`](Self::unique_index).
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

    /// The index of a table that is asked for, built and kept. `key_type`: what its keys have to be.
    pub(super) fn keep_index<'t>(
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

    /// Builds all indexes that the database keeps, before the first write. (In a database that is opened to be read, an index is built when it is asked for.)
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

    /// Ends an index by columns, for good. Handles of it are answered [`Error::TableDropped`] from now on, and its name is free.
    /// [`Error::NoTable`] or [`Error::NoIndex`] if there is none.
    ///
    /// Its entries are deleted by the calling thread, when transactions have ended that are open, which is waited for up to a minute;
    /// where the calling thread has one open itself, or runs this in a closure as a worker, it is [`Error::WouldDeadlock`] at once.
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        let engine = self.engine();
        let found = engine.table_named(table);
        let found = found.ok_or_else(|| Error::NoTable { table: table.into() })?;
        drop_index(engine, found, index, self.note())?;
        event!(INFO, TABLE, "index dropped", database = engine.id, table = table, index = index);
        Ok(())
    }
}
