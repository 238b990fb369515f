//! SurrealMX: versions in a radix tree in memory, with an append-only file for durability. It has no tables, so a byte
//! before the key identifies the table.

use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, in_groups, perform, retry,
};
use crate::work::{Operation, Outcome, Table, Task, Work};
use braid_bench::Result;
use surrealmx::{AolMode, Database, DatabaseOptions, Error, FsyncMode, PersistenceOptions, Transaction};

/// A database.
pub struct Surreal(Database);

fn fault(error: Error) -> Fault {
    match error {
        Error::KeyReadConflict | Error::KeyWriteConflict => Fault::Conflict,
        error => Fault::Failed(failed(error)),
    }
}

fn failed(error: impl std::fmt::Display) -> braid_bench::Failure {
    peer::failed("surrealmx", error)
}

fn key_of(table: Table, key: u64) -> [u8; 9] {
    let mut bytes = [table.index() as u8; 9];
    bytes[1..].copy_from_slice(&key.to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl Peer for Surreal {
    const FACTS: Facts = Facts {
        name: "surrealmx",
        isolation: "serializable",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a> = &'a Surreal;

    fn open(setting: &Setting) -> Result<Self> {
        let options = DatabaseOptions::default();
        if setting.class == Class::Memory {
            return Ok(Surreal(Database::new_with_options(options)));
        }
        let persistence = PersistenceOptions::new(&setting.directory)
            .with_aol_mode(AolMode::SynchronousOnCommit)
            .with_fsync_mode(FsyncMode::EveryAppend);
        Database::new_with_persistence(options, persistence).map(Surreal).map_err(failed)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        in_groups(rows, |group| {
            let mut tx = self.0.transaction(true);
            for (key, value) in group {
                tx.set(key_of(table, *key), value.to_le_bytes()).map_err(failed)?;
            }
            tx.commit().map_err(failed)
        })
    }

    fn session(&self, _: Option<usize>) -> Result<&Surreal> {
        Ok(self)
    }
}

impl Session for &Surreal {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        // A single read has its own call, without a transaction.
        if work.is_single(task)
            && let Some(Operation::Get(table, key)) = work.operations(task).next()
        {
            let mut outcome = Outcome::default();
            outcome.saw(self.0.with_value(key_of(table, key), number).map_err(failed)?.flatten());
            return Ok(outcome);
        }
        retry(|| {
            let only_reads = work.only_reads(task);
            let mut open = Open(self.0.transaction(!only_reads));
            let outcome = perform(&mut open, work.operations(task))?;
            if !only_reads {
                open.0.commit().map_err(fault)?;
            }
            Ok(outcome)
        })
    }
}

struct Open(Transaction);

impl Attempt for Open {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        Ok(self.0.with_value(key_of(table, key), number).map_err(fault)?.flatten())
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.0.set(key_of(table, key), value.to_le_bytes()).map_err(fault)
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, mut seen: impl FnMut(u64)) -> Tried<()> {
        // After every key of the table.
        let end = [table.index() as u8 + 1; 1];
        let show = |_: &_, bytes: &[u8]| {
            number(bytes).into_iter().for_each(&mut seen);
            true
        };
        let range = key_of(table, from).to_vec()..end.to_vec();
        self.0.scan_with(range, None, Some(rows), show).map(drop).map_err(fault)
    }
}
