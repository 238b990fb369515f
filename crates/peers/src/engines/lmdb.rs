//! LMDB through heed: a memory map with one writer at a time, and readers beside the writer. Keys are LMDB's integers,
//! its fastest order.

use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, read_only, retry,
};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use heed::byteorder::NativeEndian;
use heed::types::U64;
use heed::{
    AnyTls, CommitOrAbort, Database, DatabaseOpener, Env, EnvFlags, EnvOpenOptions, IntegerComparator, RoTxn,
    RwTxn, WithTls,
};

type Number = U64<NativeEndian>;
type Numbers = Database<'static, Number, Number, IntegerComparator>;

/// Address space for the map. The file behind it is only as long as its contents.
const MAP_BYTES: usize = 1 << 37;

/// An environment and its databases.
pub struct Lmdb {
    env: Env,
    tables: [Numbers; 5],
}

fn failed(error: heed::Error) -> braid_bench::Failure {
    peer::failed("lmdb", error)
}

fn fault(error: heed::Error) -> Fault {
    Fault::Failed(failed(error))
}

/// A database of integers.
fn create<'e>(
    opener: &DatabaseOpener<'e, WithTls>,
    txn: &mut RwTxn<'e>,
    name: &str,
) -> heed::Result<CommitOrAbort<Database<'e, Number, Number, IntegerComparator>, ()>> {
    let options = opener.database_options().types::<Number, Number>();
    options.key_comparator::<IntegerComparator>().name(name).create(txn).map(CommitOrAbort::Commit)
}

impl Peer for Lmdb {
    const FACTS: Facts = Facts {
        name: "lmdb",
        isolation: "serializable, one writer",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a> = &'a Lmdb;

    fn open(setting: &Setting) -> Result<Self> {
        std::fs::create_dir_all(&setting.directory).map_err(|error| peer::failed("lmdb", error))?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(Table::ALL.len() as u32).max_readers(setting.threads as u32 + 8);
        if setting.class == Class::Memory {
            let flags = EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
            // SAFETY: these flags only risk the file after a crash, and the file is never opened again.
            unsafe { options.flags(flags) };
        }
        // SAFETY: the directory is new and belongs to this process, so no other process changes the file under the map.
        let env = unsafe { options.open(&setting.directory) }.map_err(failed)?;
        let mut tables = Vec::new();
        for table in Table::ALL {
            let txn = env.write_txn().map_err(failed)?;
            let created =
                env.create_databases_and_commit(txn, |opener, txn| create(opener, txn, table.name()));
            tables.push(created.map_err(failed)?.unwrap_commit());
        }
        Ok(Lmdb { env, tables: tables.try_into().expect("a database for each") })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let table = self.tables[table.index()];
        let mut txn = self.env.write_txn().map_err(failed)?;
        for (key, value) in rows {
            table.put(&mut txn, &key, &value).map_err(failed)?;
        }
        txn.commit().map_err(failed)
    }

    fn session(&self, _: Option<usize>) -> Result<&Lmdb> {
        Ok(self)
    }
}

impl Session for &Lmdb {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.only_reads(task) {
                let txn = self.env.read_txn().map_err(fault)?;
                return perform(&mut Reading { tables: &self.tables, txn: &txn }, work.operations(task));
            }
            let txn = self.env.write_txn().map_err(fault)?;
            let mut writing = Writing { tables: &self.tables, txn };
            let outcome = perform(&mut writing, work.operations(task))?;
            writing.txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

fn scan(
    table: Numbers,
    txn: &RoTxn<'_, AnyTls>,
    from: u64,
    rows: usize,
    mut seen: impl FnMut(u64),
) -> Tried<()> {
    for row in table.range(txn, &(from..)).map_err(fault)?.take(rows) {
        seen(row.map_err(fault)?.1);
    }
    Ok(())
}

struct Reading<'a> {
    tables: &'a [Numbers; 5],
    txn: &'a RoTxn<'a, AnyTls>,
}

impl Attempt for Reading<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        self.tables[table.index()].get(self.txn, &key).map_err(fault)
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(self.tables[table.index()], self.txn, from, rows, seen)
    }
}

struct Writing<'a> {
    tables: &'a [Numbers; 5],
    txn: RwTxn<'a>,
}

impl Attempt for Writing<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        self.tables[table.index()].get(&self.txn, &key).map_err(fault)
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.tables[table.index()].put(&mut self.txn, &key, &value).map_err(fault)
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(self.tables[table.index()], &self.txn, from, rows, seen)
    }
}
