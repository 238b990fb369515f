//! The work of simulated transactions, and what must hold. Each workload is a file of its own, with a line in
//! [`Entry::ALL`].

mod append;
mod bank;
mod churn;
mod counters;
mod crowd;
mod fork;
mod indexed;
mod long;
mod mixed;
mod monotonic;
mod moves;
mod own;
mod pairs;
mod receipts;
mod sets;
mod skew;

pub use append::append;
pub use bank::bank;
pub use churn::churn;
pub use counters::{counters, counters_losing_updates};
pub use crowd::crowd;
pub use fork::{fork, fork_torn};
pub use indexed::{indexed, indexed_torn};
pub use long::long;
pub use mixed::mixed;
pub use monotonic::{monotonic, monotonic_stale};
pub use moves::{moves, moves_torn};
pub use own::own;
pub use pairs::{pairs, pairs_torn};
pub use receipts::receipts;
pub use sets::{sets, sets_losing_elements};
pub use skew::skew;

use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result, Snapshot, Table, Txn};
use std::fmt;

/// Transactions and their invariants. Violations go to the ledger.
///
/// Under most schemes the reads of an open transaction are consistent. [`Ledger::check_open`] checks at once what
/// follows from this. What holds only for committed transactions is checked when they have committed.
pub trait Workload<C: ConcurrencyControl> {
    /// Begins one transaction through the submitter.
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random);

    /// Reads through an interactive transaction and checks what it sees. Also called as the last look, when all
    /// transactions have ended and garbage is collected.
    fn look(&self, observer: &Observer<C>) -> Result<Look>;

    /// Called when all transactions have ended, while `garbage` changes wait to be cleaned up by this many workers.
    fn before_cleaning(&mut self, _database: &Database<C>, _garbage: usize, _workers: usize) -> Result<()> {
        Ok(())
    }

    /// Checks the state after the last look.
    fn end(&mut self, _database: &Database<C>) -> Result<()> {
        Ok(())
    }
}

/// Makes a workload in an empty database and loads its first rows.
pub type MakeWorkload<C> = fn(&Database<C>, &mut Random, &Ledger) -> Made<C>;

/// A workload, if its first rows could be loaded.
pub type Made<C> = Result<Box<dyn Workload<C>>>;

/// Says in a workload's line whether its transactions are recorded.
const RECORDED: bool = true;
const PLAIN: bool = false;

/// A workload's line in the table.
pub struct Entry<C: ConcurrencyControl> {
    /// The name on the command line.
    pub name: &'static str,
    /// The promise that an engine needs to keep all invariants. An engine with a weaker promise runs the workload too,
    /// and is judged by its own promise: by the other invariants, and by the recorded history.
    pub needs: Isolation,
    /// If true, the transactions are recorded and the history is judged. If false, only the invariants are checked.
    pub is_recorded: bool,
    /// Makes the workload.
    pub make: MakeWorkload<C>,
}

impl<C: ConcurrencyControl> fmt::Debug for Entry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Entry<C> {
    /// Every workload that the engine must pass.
    pub const ALL: &'static [Entry<C>] = &[
        Entry::new("pairs", Isolation::Snapshot, PLAIN, pairs::<C>),
        Entry::new("bank", Isolation::Snapshot, PLAIN, bank::<C>),
        Entry::new("counters", Isolation::Snapshot, PLAIN, counters::<C>),
        Entry::new("own", Isolation::Snapshot, PLAIN, own::<C>),
        Entry::new("churn", Isolation::Snapshot, PLAIN, churn::<C>),
        Entry::new("long", Isolation::Snapshot, PLAIN, long::<C>),
        Entry::new("indexed", Isolation::Serial, PLAIN, indexed::<C>),
        Entry::new("append", Isolation::Snapshot, RECORDED, append::<C>),
        Entry::new("sets", Isolation::Serial, RECORDED, sets::<C>),
        Entry::new("fork", Isolation::Snapshot, RECORDED, fork::<C>),
        Entry::new("receipts", Isolation::Serial, RECORDED, receipts::<C>),
        Entry::new("moves", Isolation::Snapshot, RECORDED, moves::<C>),
        Entry::new("skew", Isolation::Serial, RECORDED, skew::<C>),
        Entry::new("monotonic", Isolation::Snapshot, RECORDED, monotonic::<C>),
        Entry::new("mixed", Isolation::Snapshot, RECORDED, mixed::<C>),
        Entry::new("crowd", Isolation::Snapshot, RECORDED, crowd::<C>),
    ];

    /// Makes a line of the table.
    pub const fn new(
        name: &'static str,
        needs: Isolation,
        is_recorded: bool,
        make: MakeWorkload<C>,
    ) -> Entry<C> {
        Entry { name, needs, is_recorded, make }
    }

    /// Returns the workload's line.
    pub fn of(workload: WorkloadId) -> &'static Entry<C> {
        &Self::ALL[workload.0]
    }
}

/// A workload of the table, independent of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadId(usize);

impl WorkloadId {
    /// Returns all workloads in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = WorkloadId> {
        (0..Entry::<Snapshot>::ALL.len()).map(WorkloadId)
    }

    /// Returns the workload with this name.
    pub fn named(name: &str) -> Option<WorkloadId> {
        WorkloadId::all().find(|workload| workload.name() == name)
    }

    /// Returns the workload's name.
    pub fn name(self) -> &'static str {
        Entry::<Snapshot>::of(self).name // names do not depend on the scheme
    }

    /// Returns true if its transactions are recorded and the history is judged.
    pub fn is_recorded(self) -> bool {
        Entry::<Snapshot>::of(self).is_recorded
    }

    /// Returns the promise that an engine needs to keep all of its invariants.
    pub fn needs(self) -> Isolation {
        Entry::<Snapshot>::of(self).needs
    }
}

/// The `pick` in [`declare`] that declares exactly the needed partitions.
pub(crate) const EXACT: u64 = 3;

/// Declares partitions, if the scheme has some. `pick` stands for a random number and chooses: nothing, the partitions
/// of the `needed` keys, too few, or additional ones.
pub(crate) async fn declare<C: ConcurrencyControl>(
    tx: &Txn<C>,
    table: Table<u64, impl braiddb::Value + ?Sized>,
    pick: u64,
    needed: &[u64],
) -> Result<()> {
    let (declared, more) = match pick % 5 {
        0 => (&[][..], None),
        1 => (&needed[1..], None),
        2 => (needed, Some(pick / 5)),
        _ => (needed, None),
    };
    let keys = declared.iter().copied().chain(more);
    tx.declare_partitions(keys.filter_map(|key| tx.partition_of(table, key))).await
}

/// Hashes bytes, to compare what was seen.
pub(crate) fn digest(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(step(hash, &(bytes.len() as u8)), step)
}

/// Hashes rows like [`digest`].
pub(crate) fn digest_rows(rows: &[(u64, u32)]) -> u64 {
    rows.iter().fold(0, |seen, (key, number)| digest(digest(seen, &key.to_le_bytes()), &number.to_le_bytes()))
}
