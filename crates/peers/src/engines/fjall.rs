//! fjall: optimistic, serializable transactions over log-structured trees. Each table is a keyspace.

use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, read_only, retry,
};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use fjall::{
    Error, Guard, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx,
    PersistMode, Readable, Snapshot,
};
use std::thread;
use std::time::Duration;

/// A database and its keyspaces.
pub struct Fjall {
    db: OptimisticTxDatabase,
    tables: [OptimisticTxKeyspace; 5],
    /// None stands for the database's default, which at most writes to the system's buffers.
    persist: Option<PersistMode>,
}

fn failed(error: Error) -> braid_bench::Failure {
    peer::failed("fjall", error)
}

fn fault(error: Error) -> Fault {
    Fault::Failed(failed(error))
}

impl Peer for Fjall {
    const FACTS: Facts = Facts {
        name: "fjall",
        isolation: "serializable",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a> = &'a Fjall;

    fn open(setting: &Setting) -> Result<Self> {
        let builder = OptimisticTxDatabase::builder(&setting.directory)
            .cache_size(setting.records * 64 + (1 << 28))
            .manual_journal_persist(setting.class == Class::Memory);
        let db = builder.open().map_err(failed)?;
        let mut tables = Vec::new();
        for table in Table::ALL {
            let options = || KeyspaceCreateOptions::default().expect_point_read_hits(true);
            tables.push(db.keyspace(table.name(), options).map_err(failed)?);
        }
        let tables = tables.try_into().unwrap_or_else(|_| unreachable!("a keyspace for each"));
        let persist = (setting.class == Class::Sync).then_some(PersistMode::SyncData);
        Ok(Fjall { db, tables, persist })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        // The keyspace's own insert, which bypasses transactions.
        let table = self.tables[table.index()].inner();
        for (key, value) in rows {
            table.insert(key.to_be_bytes(), value.to_le_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        // Afterwards no data in memory waits to be written, and none on disk waits for compaction.
        for table in &self.tables {
            table.inner().rotate_memtable_and_wait().map_err(failed)?;
            table.inner().major_compact().map_err(failed)?;
        }
        let db = self.db.inner();
        for _ in 0..1200 {
            if db.active_compactions() == 0 && db.outstanding_flushes() == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn session(&self, _: Option<usize>) -> Result<&Fjall> {
        Ok(self)
    }
}

impl Session for &Fjall {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.only_reads(task) {
                let snapshot = self.db.read_tx();
                return perform(&mut Reading { tables: &self.tables, snapshot }, work.operations(task));
            }
            let txn = self.db.write_tx().map_err(fault)?.durability(self.persist);
            let mut writing = Writing { tables: &self.tables, txn };
            let outcome = perform(&mut writing, work.operations(task))?;
            match writing.txn.commit().map_err(fault)? {
                Ok(()) => Ok(outcome),
                Err(fjall::Conflict) => Err(Fault::Conflict),
            }
        })
    }
}

fn number(bytes: &[u8]) -> Tried<u64> {
    let bytes = bytes.try_into().map_err(|_| peer::failed("fjall", "a value is not of 8 bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn get(on: &impl Readable, table: &OptimisticTxKeyspace, key: u64) -> Tried<Option<u64>> {
    on.get(table, key.to_be_bytes()).map_err(fault)?.map(|bytes| number(&bytes)).transpose()
}

fn scan(
    on: &impl Readable,
    table: &OptimisticTxKeyspace,
    from: u64,
    rows: usize,
    mut seen: impl FnMut(u64),
) -> Tried<()> {
    for row in on.range(table, from.to_be_bytes()..).take(rows) {
        seen(number(&Guard::value(row).map_err(fault)?)?);
    }
    Ok(())
}

struct Reading<'a> {
    tables: &'a [OptimisticTxKeyspace; 5],
    snapshot: Snapshot,
}

impl Attempt for Reading<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        get(&self.snapshot, &self.tables[table.index()], key)
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.snapshot, &self.tables[table.index()], from, rows, seen)
    }
}

struct Writing<'a> {
    tables: &'a [OptimisticTxKeyspace; 5],
    txn: OptimisticWriteTx,
}

impl Attempt for Writing<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        get(&self.txn, &self.tables[table.index()], key)
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        let table = &self.tables[table.index()];
        self.txn.insert(table, key.to_be_bytes(), value.to_le_bytes());
        Ok(())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.txn, &self.tables[table.index()], from, rows, seen)
    }
}
