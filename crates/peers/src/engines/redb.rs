//! redb: one writer at a time, and readers beside the writer, in memory or in a file.

use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, read_only, retry,
};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use redb::backends::InMemoryBackend;
use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};
use std::fmt::Display;

/// A database, in a file if `FILE` is true, otherwise in memory.
pub struct Redb<const FILE: bool> {
    db: Database,
    durability: Durability,
}

fn definition(table: Table) -> TableDefinition<'static, u64, u64> {
    TableDefinition::new(table.name())
}

fn failed(error: impl Display) -> braid_bench::Failure {
    peer::failed("redb", error)
}

fn fault(error: impl Display) -> Fault {
    Fault::Failed(failed(error))
}

impl<const FILE: bool> Redb<FILE> {
    fn begin_write(&self) -> Result<WriteTransaction> {
        let mut txn = self.db.begin_write().map_err(failed)?;
        txn.set_durability(self.durability).map_err(failed)?;
        Ok(txn)
    }
}

impl<const FILE: bool> Peer for Redb<FILE> {
    const FACTS: Facts = Facts {
        name: if FILE { "redb" } else { "redb-memory" },
        isolation: "serializable, one writer",
        transactional: true,
        ordered: true,
        classes: if FILE { &[Class::Memory, Class::Sync] } else { &[Class::Memory] },
        multiplexes: false,
        server: false,
    };

    type Session<'a> = &'a Redb<FILE>;

    fn open(setting: &Setting) -> Result<Self> {
        let mut builder = Database::builder();
        // All data fits, and whatever is read stays in the cache.
        builder.set_cache_size(setting.records as usize * 128 + (1 << 28));
        let db = if FILE {
            std::fs::create_dir_all(&setting.directory).map_err(failed)?;
            builder.create(setting.directory.join("redb"))
        } else {
            builder.create_with_backend(InMemoryBackend::new())
        };
        let durability = match setting.class {
            Class::Memory => Durability::None,
            Class::Sync => Durability::Immediate,
        };
        let peer = Redb { db: db.map_err(failed)?, durability };
        let txn = peer.begin_write()?;
        for table in Table::ALL {
            txn.open_table(definition(table)).map_err(failed)?;
        }
        txn.commit().map_err(failed)?;
        Ok(peer)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let txn = self.begin_write()?;
        let mut open = txn.open_table(definition(table)).map_err(failed)?;
        for (key, value) in rows {
            open.insert(key, value).map_err(failed)?;
        }
        drop(open);
        txn.commit().map_err(failed)
    }

    fn session(&self, _: Option<usize>) -> Result<&Redb<FILE>> {
        Ok(self)
    }
}

impl<const FILE: bool> Session for &Redb<FILE> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.only_reads(task) {
                let txn = self.db.begin_read().map_err(fault)?;
                return perform(&mut Reading { txn, tables: [const { None }; 5] }, work.operations(task));
            }
            let txn = self.begin_write()?;
            let outcome =
                perform(&mut Writing { txn: &txn, tables: [const { None }; 5] }, work.operations(task))?;
            txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

fn scan(
    table: &impl ReadableTable<u64, u64>,
    from: u64,
    rows: usize,
    mut seen: impl FnMut(u64),
) -> Tried<()> {
    for row in table.range(from..).map_err(fault)?.take(rows) {
        seen(row.map_err(fault)?.1.value());
    }
    Ok(())
}

/// Opens tables when they are first used, because most transactions use only one.
struct Reading {
    txn: ReadTransaction,
    tables: [Option<ReadOnlyTable<u64, u64>>; 5],
}

impl Reading {
    fn table(&mut self, table: Table) -> Tried<&ReadOnlyTable<u64, u64>> {
        let place = &mut self.tables[table.index()];
        if place.is_none() {
            *place = Some(self.txn.open_table(definition(table)).map_err(fault)?);
        }
        Ok(place.as_ref().expect("it was opened above"))
    }
}

impl Attempt for Reading {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        Ok(self.table(table)?.get(key).map_err(fault)?.map(|value| value.value()))
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(self.table(table)?, from, rows, seen)
    }
}

struct Writing<'t> {
    txn: &'t WriteTransaction,
    tables: [Option<redb::Table<'t, u64, u64>>; 5],
}

impl<'t> Writing<'t> {
    fn table(&mut self, table: Table) -> Tried<&mut redb::Table<'t, u64, u64>> {
        let place = &mut self.tables[table.index()];
        if place.is_none() {
            *place = Some(self.txn.open_table(definition(table)).map_err(fault)?);
        }
        Ok(place.as_mut().expect("it was opened above"))
    }
}

impl Attempt for Writing<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        Ok(self.table(table)?.get(key).map_err(fault)?.map(|value| value.value()))
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.table(table)?.insert(key, value).map_err(fault)?;
        Ok(())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(self.table(table)?, from, rows, seen)
    }
}
