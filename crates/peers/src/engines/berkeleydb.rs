//! Berkeley DB: a storage manager with pages, a buffer pool, a log and two-phase locking of pages. Each table is a
//! B-tree. Deadlocks are detected whenever a transaction has to wait.

use super::libdb::{Error, Options, Rows, Store, Transaction};
use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, in_groups, perform, retry,
};
use crate::work::{Operation, Outcome, Table, Task, Work};
use braid_bench::Result;

/// An environment and its tables.
pub struct BerkeleyDb {
    store: Store,
    class: Class,
}

fn failed(error: Error) -> braid_bench::Failure {
    peer::failed("berkeleydb", error)
}

fn fault(error: Error) -> Fault {
    if error.is_conflict() { Fault::Conflict } else { Fault::Failed(failed(error)) }
}

/// Encodes a key so that the library's default order, by bytes, is the order of keys.
fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

impl Peer for BerkeleyDb {
    const FACTS: Facts = Facts {
        name: "berkeleydb",
        isolation: "serializable",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a> = Open<'a>;

    fn open(setting: &Setting) -> Result<Self> {
        std::fs::create_dir_all(&setting.directory).map_err(|error| peer::failed("berkeleydb", error))?;
        let options = Options {
            directory: &setting.directory,
            tables: &Table::ALL.map(Table::name),
            in_memory: setting.class == Class::Memory,
            // More than all data needs, including what is added during measurements.
            cache_bytes: setting.records * 128 + (1 << 29),
            transactions: setting.threads as u32 + 16,
        };
        Ok(BerkeleyDb { store: Store::open(&options).map_err(failed)?, class: setting.class })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        in_groups(rows, |group| {
            let txn = self.store.begin().map_err(failed)?;
            for (key, value) in group {
                txn.put(table.index(), bytes(*key), value.to_le_bytes()).map_err(failed)?;
            }
            txn.commit().map_err(failed)
        })
    }

    fn settle(&self) -> Result<()> {
        match self.class {
            Class::Memory => Ok(()),
            Class::Sync => self.store.checkpoint().map_err(failed),
        }
    }

    fn session(&self, _: Option<usize>) -> Result<Open<'_>> {
        Ok(Open { store: &self.store })
    }
}

/// A thread's use of the environment.
pub struct Open<'a> {
    store: &'a Store,
}

impl Session for Open<'_> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        let single = if work.is_single(task) { work.operations(task).next() } else { None };
        retry(|| {
            let mut outcome = Outcome::default();
            match single {
                Some(Operation::Get(table, key)) => {
                    let value = self.store.get(table.index(), bytes(key)).map_err(fault)?;
                    outcome.saw(value.map(u64::from_le_bytes));
                    return Ok(outcome);
                }
                Some(Operation::Update(table, key, value) | Operation::Insert(table, key, value)) => {
                    self.store.put(table.index(), bytes(key), value.to_le_bytes()).map_err(fault)?;
                    return Ok(outcome);
                }
                _ => {}
            }
            let txn = self.store.begin().map_err(fault)?;
            let outcome = perform(&mut Running(&txn), work.operations(task))?;
            txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

/// A transaction.
struct Running<'a>(&'a Transaction<'a>);

impl Attempt for Running<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        let value = self.0.get(table.index(), bytes(key)).map_err(fault)?;
        Ok(value.map(u64::from_le_bytes))
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.0.put(table.index(), bytes(key), value.to_le_bytes()).map_err(fault)
    }

    /// A cursor finds the record once, and takes a writer's lock from the start. If two transactions read first and
    /// wrote later, they would deadlock.
    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        let mut cursor = self.0.cursor(table.index()).map_err(fault)?;
        let Some(old) = cursor.get_for_update(bytes(key)).map_err(fault)? else { return Ok(None) };
        let new = u64::from_le_bytes(old).wrapping_add(delta);
        cursor.put(new.to_le_bytes()).map_err(fault)?;
        Ok(Some(new))
    }

    /// Reads many records per call.
    fn scan(&mut self, table: Table, from: u64, rows: usize, mut seen: impl FnMut(u64)) -> Tried<()> {
        let mut cursor = self.0.cursor(table.index()).map_err(fault)?;
        let (mut found, mut left) = (Rows::with_room_for(rows), rows);
        let mut is_there = cursor.read_from(bytes(from), &mut found).map_err(fault)?;
        while is_there && left > 0 {
            for value in found.values().take(left) {
                let value =
                    value.try_into().map_err(|_| peer::failed("berkeleydb", "a value is not of 8 bytes"))?;
                seen(u64::from_le_bytes(value));
                left -= 1;
            }
            is_there = left > 0 && cursor.read_on(&mut found).map_err(fault)?;
        }
        Ok(())
    }
}
