//! Whether a durable database loses anything: lives of the real engine on a disk that crashes at every operation and
//! fails by seed, and an oracle for what recovery finds.
//!
//! A *life* opens a database and runs transactions on it in one thread, in an order that a seed decides, with flushes,
//! checkpoints and new tables in between. What happened is noted, with the boundary of the storage's history at
//! which it did. Then crash states are made at boundaries all over that history. Each is recovered from and judged:
//!
//! - what was acknowledged before the crash is there, and what acknowledged readers had seen;
//! - any other transaction is there as a whole or not at all, and if it is, so is all that it has read or overwritten,
//!   and all that had ended when it began: a beginning of the log;
//! - the rows are what the transactions that are there have made of them, and the accounts add up.
//!
//! With some seeds the device is small, and others take all its room at times: the database opens all the same, also in
//! states that a crash leaves then; and in the end, when it has what it keeps back and no other room, checkpoints go on,
//! give up log, and transactions commit again.
//!
//! Of some states more is asked: that recovering again finds the same; that it does with the newest checkpoint
//! damaged; that nothing is acknowledged any more once the files have been removed while it is open; and that a further life can be lived there, whose own crashes, those of its recovery included, lose
//! nothing either.
//!
//! `tables`, `plan` and `scratch` are the workload, `trace` is the record of it. `life` runs it, `oracle` judges what was recovered, `explore`
//! chooses the states to look at, `others` takes room on the disk, `careless` has mistakes that must be found. `corrupt` has no crashes: databases that were closed,
//! with files that are not any more what they were. Called by `braid-lab check crash` and by tests.
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
    /// None: what everything but tests uses.
    None,
    /// One in the engine.
    Engine(PlantedDurability),
    /// One below it.
    Storage(Careless),
    /// Every transaction is acknowledged when it has committed in memory.
    AsyncAsSync,
    /// Every reader is acknowledged although what it has seen may not be durable.
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

/// What to check.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Everything follows from it.
    pub seed: u64,
    /// Crash states to look at, those of later lives included.
    pub states: u64,
    /// Transactions of the first life.
    pub transactions: u64,
    /// What goes wrong with the disk in the first life, and when it is opened again after that.
    pub fault: Option<FaultRule>,
    /// Whether the device is small, and others take the rest of its room now and then; not on a disk that fails.
    pub others: bool,
    /// What is done wrong.
    pub mistake: Mistake,
    /// The kind of database.
    pub kind: Kind,
}

/// In so many seeds there is one whose disk fails, and another one whose disk is full now and then.
const SEEDS_PER_FAULT: u64 = 4;

impl Settings {
    /// Those of a seed: a short life, on a disk that fails with one of four, and is full with another. The kinds of index
    /// take turns.
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

/// Faults that are reported, each with the operations that it strikes.
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

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Crash states that were recovered from and judged.
    pub states: u64,
    /// All recoveries.
    pub recoveries: u64,
    /// Lives.
    pub lives: u64,
    /// Transactions that have ended in them.
    pub transactions: u64,
    /// Faults of the disk that struck.
    pub faults: u64,
    /// Transactions that were answered while the log was stalled, that they are not known to be durable.
    pub stalled: u64,
    /// States in which a checkpoint was loaded.
    pub checkpoints: u64,
    /// Damaged checkpoints that the one before stood in for.
    pub fallbacks: u64,
    /// States in which the end of the log was torn.
    pub torn: u64,
    /// A hash of all states: equal settings, equal traces.
    pub trace: u64,
}

impl Report {
    /// Both together.
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
