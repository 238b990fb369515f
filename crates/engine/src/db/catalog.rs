//! Database tools: tables without their types, copies of a database's files, and salvage of a damaged database.

use super::{Database, open_requested};
use crate::cc::ConcurrencyControl;
use crate::durable::{Backup, Durable, Progress, Salvage, SalvageOptions, Salvager};
use crate::error::{Error, Result};
use crate::events::{event, ms};
use crate::index::{Front, IndexKind};
use crate::kernel::Request;
use crate::options::Durability;
use crate::storage::{FileStorage, Storage};
use crate::table::{Definitions, Description, IndexInfo, TableInner, TableKind, TableOptions, TableState};
use crate::txn::RawTable;
use std::path::Path;

/// A table, with the names of its types.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// The table's name.
    pub name: String,
    /// The type of its keys: `u64`, `string`, `(u32, bytes)`, `one of u8 (User {0: u64} = 1, Nobody = 2)`, …
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// The kind of its index.
    pub index: IndexKind,
    /// The front of its index.
    pub front: Front,
    /// Definitions of the named types in its values, with the versions that rows may have: lines such as `user 2:
    /// {name: string, age: u32}`.
    pub definitions: Vec<String>,
    /// Its secondary indexes by columns, in the order in which they were declared.
    pub indexes: Vec<IndexInfo>,
}

impl TableInfo {
    /// Describes a table of this name with types of these names, and an index of the default kind without a front.
    pub fn new(
        name: impl Into<String>,
        key_type: impl Into<String>,
        value_type: impl Into<String>,
    ) -> TableInfo {
        let (name, key_type, value_type) = (name.into(), key_type.into(), value_type.into());
        let (index, front) = (IndexKind::default(), Front::default());
        let (definitions, indexes) = (Vec::new(), Vec::new());
        TableInfo { name, key_type, value_type, index, front, definitions, indexes }
    }
}

impl<C: ConcurrencyControl> Database<C> {
    /// Returns all tables, in the order in which they were created.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let people: Table<(u32, String), i64> = db.table("people")?;
    /// let tables = db.tables();
    /// assert_eq!(tables[0].name, "people");
    /// assert_eq!((&*tables[0].key_type, &*tables[0].value_type), ("(u32, string)", "i64"));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |table: &TableInner| {
            let Description { name, types: (key_type, value_type), definitions, state, indexes } =
                table.description().clone();
            let TableOptions { index, front } = table.kind.options;
            let info = TableInfo { name, key_type, value_type, index, front, definitions, indexes };
            (state != TableState::Dropped).then_some(info)
        };
        self.engine().all_tables().into_iter().filter_map(info).collect()
    }

    /// Returns the table of this name, to be used by the bytes of its keys and values. `None` if there is no such
    /// table.
    pub fn raw_table(&self, name: &str) -> Option<RawTable> {
        let engine = self.engine();
        let table = engine.table_named(name)?;
        _ = table.index.partitioning().say(None, engine.options.lab.partitions); // if nothing has been said
        Some(RawTable::new(table, engine.id))
    }

    /// Opens or makes a table like [`Database::table`], with types known only by name. `fixed8`: every key has eight
    /// bytes, as with types whose [`Key::FIXED8`](crate::Key::FIXED8) is true. An existing table may have other
    /// options, more definitions, and more indexes. Indexes that it lacks are declared.
    pub fn create_raw_table(&self, info: &TableInfo, fixed8: bool) -> Result<RawTable> {
        let engine = &**self.engine();
        let TableInfo { name, key_type, value_type, index, front, definitions, indexes } = info.clone();
        let kind = TableKind { fixed8, options: TableOptions { index, front } };
        let wrong = |line| Error::NoDefinition { table: name.clone(), line };
        let definitions = Definitions::of_lines(&definitions).map_err(wrong)?;
        let description = Description { name, types: (key_type, value_type), ..Description::default() };
        let request = Request { definitions, ..Request::raw(kind, description) };
        let raw = open_requested(self, request)?;
        let table = raw.of_database(engine.id)?;
        indexes.iter().try_for_each(|index| self.keep_index(table, index, None).map(drop))?;
        Ok(raw)
    }

    /// Copies the database to an empty directory while transactions continue. The directory is made if it does not
    /// exist. The copy has every transaction that committed before the call. Without a log ([`Durability::None`]) the
    /// call makes a checkpoint first. It returns [`Error::WouldDeadlock`] in a closure that a worker runs.
    ///
    /// To copy a database that another process has open, use [`backup`](crate::tools::backup()).
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let directory = std::env::temp_dir().join(format!("braid-backup-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// # std::fs::create_dir_all(&directory).expect("a place for temporary files");
    /// let db = Database::open(directory.join("database"), options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// db.run(async move |tx| tx.put(names, 1, "Ada").await).wait()?;
    /// db.backup(directory.join("copy"))?;
    ///
    /// let copy = Database::open(directory.join("copy"), options())?;
    /// let names: Table<u64, str> = copy.table("names")?;
    /// assert_eq!(copy.begin()?.get(names, 1)?, Some("Ada"));
    /// # drop((db, copy));
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Backup> {
        let durable = self.0.durable.as_ref().ok_or(Error::InMemory)?;
        self.0.engine.check_open()?;
        self.0.engine.check_outside()?;
        FileStorage::create_for(path.as_ref(), |to| self.backup_to(durable, to))
    }

    fn backup_to(&self, durable: &Durable, to: &dyn Storage) -> Result<Backup> {
        match &self.engine().log.get() {
            Some(log) => log.writer.wait_settled(log.writer.appended_lsn()).map_err(Error::Log)?,
            None if self.engine().is_read_only() => {}
            None => {
                debug_assert_eq!(self.engine().options.durability, Durability::None);
                durable.checkpoint()?;
            }
        }
        let began_ns = self.engine().clock.now_ns();
        let backup = crate::durable::backup(&**durable.storage(), to)?;
        event!(
            INFO,
            DATABASE,
            "backup made",
            database = self.engine().id,
            rows = backup.rows,
            records = backup.records,
            bytes = backup.bytes,
            duration_ms = ms(self.engine().clock.now_ns().saturating_sub(began_ns))
        );
        Ok(backup)
    }
}

/// Copies everything that can be read of a damaged database into a new one without tables. No process may have the
/// damaged database open. The call reads the rows of the newest checkpoint, and the log after it up to the first
/// damage. It returns what was left out. Everything copied is durable when it returns. The design is in
/// `docs/design/durability.md`.
pub fn salvage<C: ConcurrencyControl>(
    from: &dyn Storage,
    to: &Database<C>,
    options: SalvageOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Salvage> {
    let mut done = Salvager { from, engine: to.engine(), options, progress }.run()?;
    for salvaged in &mut done.tables {
        let table = to.engine().table_named(&salvaged.name);
        let table = table.ok_or_else(|| Error::NoTable { table: salvaged.name.clone() })?;
        for index in std::mem::take(&mut salvaged.indexes) {
            match to.keep_index(table, &index, None) {
                Ok(_) => salvaged.indexes.push(index),
                Err(error) => salvaged.lost_indexes.push((index, error.to_string())),
            }
        }
    }
    Ok(done)
}
