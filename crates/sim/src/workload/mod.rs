//! What simulated transactions do, and what must hold. Each workload is a file of its own, with a line in
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
/// What a transaction sees while it is open fits together under most schemes; what follows from that is checked at
/// once, by [`Ledger::check_open`]. What holds for committed transactions only is checked when they have committed.
pub trait Workload<C: ConcurrencyControl> {
    /// Begins one transaction through the submitter.
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random);

    /// Reads through an interactive transaction and checks what it sees. Also the last look of all, when all
    /// transactions have ended and garbage is collected.
    fn look(&self, observer: &Observer<C>) -> Result<Look>;

    /// All transactions have ended; `garbage` changes wait to be cleaned up by so many workers.
    fn before_cleaning(&mut self, _database: &Database<C>, _garbage: usize, _workers: usize) -> Result<()> {
        Ok(())
    }

    /// What is checked after the last look.
    fn end(&mut self, _database: &Database<C>) -> Result<()> {
        Ok(())
    }
}

/// Makes a workload in an empty database and loads its first rows.
pub type MakeWorkload<C> = fn(&Database<C>, &mut Random, &Ledger) -> Made<C>;

/// A workload, if its first rows could be loaded.
pub type Made<C> = Result<Box<dyn Workload<C>>>;

/// In a workload's line: its transactions are recorded, or not.
const RECORDED: bool = true;
const PLAIN: bool = false;

/// A workload's line in the table.
pub struct Entry<C: ConcurrencyControl> {
    /// As on the command line.
    pub name: &'static str,
    /// What an engine must promise to keep all of its invariants. A weaker one runs it too, and is judged by what it
    /// promises: by the other invariants, and by the recorded history.
    pub needs: Isolation,
    /// Its transactions are recorded, and the history is judged; else its invariants say it all.
    pub is_recorded: bool,
    /// Makes it.
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

    /// A line.
    pub const fn new(
        name: &'static str,
        needs: Isolation,
        is_recorded: bool,
        make: MakeWorkload<C>,
    ) -> Entry<C> {
        Entry { name, needs, is_recorded, make }
    }

    /// The workload's line.
    pub fn of(workload: WorkloadId) -> &'static Entry<C> {
        &Self::ALL[workload.0]
    }
}

/// A workload of the table, whatever it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadId(usize);

impl WorkloadId {
    /// Every workload, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = WorkloadId> {
        (0..Entry::<Snapshot>::ALL.len()).map(WorkloadId)
    }

    /// The workload of this name.
    pub fn named(name: &str) -> Option<WorkloadId> {
        WorkloadId::all().find(|workload| workload.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Entry::<Snapshot>::of(self).name // names do not depend on the scheme
    }

    /// Its transactions are recorded, and the history is judged.
    pub fn is_recorded(self) -> bool {
        Entry::<Snapshot>::of(self).is_recorded
    }

    /// What an engine must promise to keep all of its invariants.
    pub fn needs(self) -> Isolation {
        Entry::<Snapshot>::of(self).needs
    }
}

/// A pick of those that are needed, in [`declare`].
pub(crate) const EXACT: u64 = 3;

/// Declares partitions, where the scheme has some: nothing, those of the keys that are `needed`, too few, or others as well, by
/// `pick`, which stands for a random number.
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

/// A hash over bytes, to compare what was seen.
pub(crate) fn digest(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(step(hash, &(bytes.len() as u8)), step)
}

/// A hash over rows, as [`digest`].
pub(crate) fn digest_rows(rows: &[(u64, u32)]) -> u64 {
    rows.iter().fold(0, |seen, (key, number)| digest(digest(seen, &key.to_le_bytes()), &number.to_le_bytes()))
}
