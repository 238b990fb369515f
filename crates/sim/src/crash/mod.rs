//! Checks whether a durable database loses anything. Lives of the real engine run on a disk that crashes at every
//! operation and fails by seed, and an oracle judges what recovery finds.
//!
//! A *life* opens a database and runs transactions on it in one thread, in an order that a seed decides, with flushes,
//! checkpoints and new tables in between. A trace notes each event with the boundary of the storage's history at which
//! it happened. Then crash states are made at boundaries all over that history. Each state is recovered from and
//! judged:
//!
//! - Everything that was acknowledged before the crash is there, and everything that acknowledged readers had seen.
//! - Any other transaction is there as a whole or not at all. If it is there, so is everything that it has read or
//!   overwritten, and everything that had ended when it began: recovery finds a prefix of the log.
//! - The rows are what the transactions that are there have made of them, and the accounts add up.
//!
//! With some seeds the device is small, and other users take all its room at times. The database opens all the same,
//! also in the crash states of these times. At the end it has only the room that it keeps back. Even then checkpoints
//! continue, log is given up, and transactions commit again.
//!
//! Some states get an additional check:
//! - Recovering again finds the same.
//! - Recovery with the newest checkpoint damaged finds the same.
//! - Once the files have been removed while the database is open, nothing is acknowledged any more.
//! - A further life starts from the state, and its own crashes, including those during recovery, lose nothing either.
//!
//! `tables`, `plan` and `scratch` are the workload, and `trace` records it. `life` runs it, `oracle` judges what was
//! recovered, `explore` chooses the states to look at, `others` takes room on the disk, and `careless` has mistakes
//! that must be found. `lies` has disks that report success falsely. `corrupt` has no crashes: it damages files of
//! closed databases. Called by `braid-lab check crash` and by tests.
//!
//! ```
//! use braid_sim::crash::{Settings, check};
//!
//! let settings = Settings { states: 20, ..Settings::seeded(7) };
//! let report = check::<braiddb::Serializable>(&settings).expect("nothing is lost");
//! assert_eq!(report.states, 20);
//! ```

mod careless;
mod corrupt;
mod explore;
mod lies;
mod life;
mod oracle;
mod others;
mod place;
mod plan;
mod scratch;
mod tables;
mod trace;

pub use careless::Careless;
pub use corrupt::{CORRUPTIONS_PER_SEED, Corruptions, check_corruptions};
pub use explore::{check, replay};
pub use lies::{Lie, check_lie};
pub use place::{Failure, Place};

use crate::Random;
use crate::kind::Kind;
use crate::storage::{Fault, FaultRule};
use braiddb::IndexKind;
use braiddb::storage::Operation;
use braiddb::testing::PlantedDurability;

/// A mistake that a check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// No mistake. Only tests use another value.
    None,
    /// A mistake in the engine.
    Engine(PlantedDurability),
    /// A mistake in the storage below the engine.
    Storage(Careless),
    /// Every transaction is acknowledged when it has committed in memory.
    AsyncAsSync,
    /// Every reader is acknowledged, although what it has seen may not be durable.
    ReadersAsyncAsSync,
}

impl Mistake {
    fn of_engine(self) -> PlantedDurability {
        match self {
            Mistake::Engine(planted) => planted,
            _ => PlantedDurability::None,
        }
    }
}

/// The settings of a check.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed, from which everything follows.
    pub seed: u64,
    /// Crash states to look at, including those of later lives.
    pub states: u64,
    /// Transactions of the first life.
    pub transactions: u64,
    /// The fault of the disk in the first life, and when the database is opened again after it.
    pub fault: Option<FaultRule>,
    /// If true, the device is small, and other users take the rest of its room from time to time. Ignored on a disk
    /// that fails.
    pub others: bool,
    /// The planted mistake.
    pub mistake: Mistake,
    /// The kind of database.
    pub kind: Kind,
}

/// Of this many seeds, one has a disk that fails, and another has a disk that is full at times.
const SEEDS_PER_FAULT: u64 = 4;

impl Settings {
    /// Returns the settings of a seed: a short life, on a disk that fails with one seed in four and is full at times
    /// with another. The kinds of index take turns.
    pub fn seeded(seed: u64) -> Settings {
        let mut random = Random::new(seed ^ 0xfa17);
        let fault = seed % SEEDS_PER_FAULT == SEEDS_PER_FAULT - 1;
        let fault = fault.then(|| random_fault(&mut random));
        let (transactions, others) = (random.between(10, 60), seed % SEEDS_PER_FAULT == 1);
        let kinds: Vec<IndexKind> = IndexKind::ordered().collect();
        let index = kinds[(seed / SEEDS_PER_FAULT) as usize % kinds.len()];
        Settings {
            seed,
            states: 250,
            transactions,
            fault,
            others,
            mistake: Mistake::None,
            kind: index.into(),
        }
    }
}

/// Faults that the disk reports, each with the operation that it strikes.
const FAULTS: [(Operation, Fault); 13] = [
    (Operation::SyncData, Fault::DropUnsynced),
    (Operation::SyncData, Fault::Fail),
    (Operation::SyncDirectory, Fault::DropUnsynced),
    (Operation::SyncDirectory, Fault::Fail),
    (Operation::Write, Fault::Torn),
    (Operation::Write, Fault::Full),
    (Operation::Write, Fault::Short),
    (Operation::Create, Fault::Full),
    (Operation::Preallocate, Fault::Full),
    (Operation::Rename, Fault::Fail),
    (Operation::Remove, Fault::Fail),
    (Operation::List, Fault::Fail),
    (Operation::Write, Fault::Slow { ticks: 1000 }),
];

fn random_fault(random: &mut Random) -> FaultRule {
    let (operation, fault) = *random.one_of(&FAULTS);
    let nth = random.between(1, 40);
    match random.below(3) {
        0 => FaultRule::once(operation, nth, fault),
        1 => FaultRule::for_ever(operation, nth, fault),
        _ => FaultRule::every(operation, nth.min(9) + 1, fault),
    }
}

/// Counts of what a check has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Crash states that were recovered from and judged.
    pub states: u64,
    /// All recoveries.
    pub recoveries: u64,
    /// Lives.
    pub lives: u64,
    /// Transactions that have ended in these lives.
    pub transactions: u64,
    /// Faults of the disk that struck.
    pub faults: u64,
    /// Transactions that were answered, during a stall of the log, that they are not known to be durable.
    pub stalled: u64,
    /// States in which a checkpoint was loaded.
    pub checkpoints: u64,
    /// Damaged checkpoints in whose place recovery used an older checkpoint.
    pub fallbacks: u64,
    /// States in which the end of the log was torn.
    pub torn: u64,
    /// A hash of all states. Equal settings give equal hashes.
    pub trace: u64,
}

impl Report {
    /// Returns the sums of both reports.
    pub fn plus(self, other: Report) -> Report {
        Report {
            states: self.states + other.states,
            recoveries: self.recoveries + other.recoveries,
            lives: self.lives + other.lives,
            transactions: self.transactions + other.transactions,
            faults: self.faults + other.faults,
            stalled: self.stalled + other.stalled,
            checkpoints: self.checkpoints + other.checkpoints,
            fallbacks: self.fallbacks + other.fallbacks,
            torn: self.torn + other.torn,
            trace: self.trace.rotate_left(5) ^ other.trace,
        }
    }

    fn note(&mut self, what: u64) {
        self.trace = (self.trace.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
