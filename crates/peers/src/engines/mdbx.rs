//! MDBX, a descendant of LMDB: a memory map with one writer at a time, and readers beside the writer. Keys are MDBX's
//! integers.

use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, read_only, retry,
};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use signet_libmdbx::tx::Tx;
use signet_libmdbx::tx::aliases::{RoTxUnsync, RwTxUnsync};
use signet_libmdbx::{
    Database, DatabaseFlags, Environment, EnvironmentFlags, Geometry, Mode, SyncMode, TransactionKind,
    WriteFlags,
};
use std::fmt::Display;

/// Address space for the map. The file behind it is only as long as its contents.
const MAP_BYTES: usize = 1 << 37;
/// The file grows in steps of this size. Growth is rare, because the map grows with the file.
const GROWTH_BYTES: isize = 1 << 28;

/// An environment and its databases.
pub struct Mdbx {
    env: Environment,
    tables: [Database; 5],
}

fn failed(error: impl Display) -> braid_bench::Failure {
    peer::failed("mdbx", error)
}

fn fault(error: impl Display) -> Fault {
    Fault::Failed(failed(error))
}

impl Peer for Mdbx {
    const FACTS: Facts = Facts {
        name: "mdbx",
        isolation: "serializable, one writer",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a> = &'a Mdbx;

    fn open(setting: &Setting) -> Result<Self> {
        std::fs::create_dir_all(&setting.directory).map_err(failed)?;
        let mut options = Environment::builder();
        options.set_max_dbs(Table::ALL.len()).set_max_readers(setting.threads as u64 + 8).set_geometry(
            Geometry { size: Some(0..MAP_BYTES), growth_step: Some(GROWTH_BYTES), ..Default::default() },
        );
        if setting.class == Class::Memory {
            let mode = Mode::ReadWrite { sync_mode: SyncMode::UtterlyNoSync };
            options.write_map().set_flags(EnvironmentFlags { mode, ..Default::default() });
        }
        let env = options.open(&setting.directory).map_err(failed)?;
        let txn = env.begin_rw_unsync().map_err(failed)?;
        let mut tables = Vec::new();
        for table in Table::ALL {
            tables.push(txn.create_db(Some(table.name()), DatabaseFlags::INTEGER_KEY).map_err(failed)?);
        }
        txn.commit().map_err(failed)?;
        Ok(Mdbx { env, tables: tables.try_into().expect("a database for each") })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let txn = self.env.begin_rw_unsync().map_err(failed)?;
        for (key, value) in rows {
            put(&txn, self.tables[table.index()], key, value).map_err(failed)?;
        }
        txn.commit().map_err(failed)
    }

    fn session(&self, _: Option<usize>) -> Result<&Mdbx> {
        Ok(self)
    }
}

impl Session for &Mdbx {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.only_reads(task) {
                let txn = self.env.begin_ro_unsync().map_err(fault)?;
                return perform(&mut Reading { tables: &self.tables, txn }, work.operations(task));
            }
            let txn = self.env.begin_rw_unsync().map_err(fault)?;
            let mut writing = Writing { tables: &self.tables, txn };
            let outcome = perform(&mut writing, work.operations(task))?;
            writing.txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

fn put(txn: &RwTxUnsync, table: Database, key: u64, value: u64) -> signet_libmdbx::MdbxResult<()> {
    txn.put(table, key.to_ne_bytes(), value.to_le_bytes(), WriteFlags::UPSERT)
}

fn get<K: TransactionKind>(txn: &Tx<K>, table: Database, key: u64) -> Tried<Option<u64>> {
    let value = txn.get::<[u8; 8]>(table.dbi(), &key.to_ne_bytes()).map_err(fault)?;
    Ok(value.map(u64::from_le_bytes))
}

fn scan<K: TransactionKind>(
    txn: &Tx<K>,
    table: Database,
    from: u64,
    rows: usize,
    mut seen: impl FnMut(u64),
) -> Tried<()> {
    let mut cursor = txn.cursor(table).map_err(fault)?;
    let found = cursor.iter_from::<(), [u8; 8]>(&from.to_ne_bytes()).map_err(fault)?;
    for row in found.take(rows) {
        seen(u64::from_le_bytes(row.map_err(fault)?.1));
    }
    Ok(())
}

struct Reading<'a> {
    tables: &'a [Database; 5],
    txn: RoTxUnsync,
}

impl Attempt for Reading<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        get(&self.txn, self.tables[table.index()], key)
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.txn, self.tables[table.index()], from, rows, seen)
    }
}

struct Writing<'a> {
    tables: &'a [Database; 5],
    txn: RwTxUnsync,
}

impl Attempt for Writing<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        get(&self.txn, self.tables[table.index()], key)
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        put(&self.txn, self.tables[table.index()], key, value).map_err(fault)
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.txn, self.tables[table.index()], from, rows, seen)
    }
}
