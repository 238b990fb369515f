//! What simulated transactions do, and what must hold. Each workload is a file of its own, with a line in
//! [`WORKLOADS`].

mod bank;
mod churn;
mod counters;
mod long;
mod own;
mod pairs;

pub use bank::bank;
pub use churn::churn;
pub use counters::{counters, counters_losing_updates};
pub use long::long;
pub use own::own;
pub use pairs::{pairs, pairs_torn};

use crate::ledger::Ledger;
use crate::random::Random;
use crate::scheduler::Stage;
use braiddb::{Database, Result, Transaction};

/// Transactions and their invariants. Violations go to the ledger.
pub trait Workload {
    /// The name, for reports.
    fn name(&self) -> &'static str;

    /// Begins one transaction on the stage.
    fn begin(&mut self, stage: &mut Stage<'_>, random: &mut Random);

    /// Reads through an interactive transaction and checks what it sees. Returns a hash of it: within one
    /// transaction it must not change.
    fn look(&self, transaction: &Transaction) -> Result<u64>;

    /// All transactions have ended; `garbage` changes wait to be cleaned up by so many workers.
    fn before_cleaning(&mut self, _database: &Database, _garbage: usize, _workers: usize) -> Result<()> {
        Ok(())
    }

    /// The last look: all transactions have ended, and garbage is collected.
    fn end(&mut self, database: &Database) -> Result<()>;
}

/// Makes a workload in an empty database and loads its first rows.
pub type MakeWorkload = fn(&Database, &mut Random, &Ledger) -> Result<Box<dyn Workload>>;

/// Every workload that the engine must pass.
pub const WORKLOADS: &[MakeWorkload] = &[pairs, bank, counters, own, churn, long];

/// A hash over bytes, to compare what was seen.
pub(crate) fn digest(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(step(hash, &(bytes.len() as u8)), step)
}
