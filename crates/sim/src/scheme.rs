//! The schemes of concurrency control that can be simulated, by name, and what each promises. A new one is a line in
//! [`SCHEMES`].

use crate::ledger::Report;
use crate::scheduler::{Settings, Violation, run};
use crate::workload::{Entry, WorkloadId};
use braiddb::{ConcurrencyControl, Serializable, Snapshot};

/// What a scheme promises, the weaker first. Both are in real time: who begins after a commit was acknowledged
/// sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Each transaction reads one snapshot, and of two concurrent ones that write the same row one fails. Those that
    /// only read never fail.
    Snapshot,
    /// Committed transactions are as if run one after another. Any transaction may be refused, readers too.
    Serializable,
}

/// A scheme that can be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// As on the command line.
    pub name: &'static str,
    /// What its transactions are judged by.
    pub isolation: Isolation,
    run: fn(WorkloadId, &Settings, Isolation) -> Result<Report, Violation>,
}

/// Every scheme that the engine has.
pub const SCHEMES: &[Scheme] = &[
    Scheme::of::<Serializable>("serializable", Isolation::Serializable),
    Scheme::of::<Snapshot>("snapshot", Isolation::Snapshot),
];

impl Scheme {
    /// A scheme under a name.
    pub const fn of<C: ConcurrencyControl>(name: &'static str, isolation: Isolation) -> Scheme {
        let run: fn(WorkloadId, &Settings, Isolation) -> Result<Report, Violation> =
            |workload, settings, isolation| run(Entry::<C>::of(workload), settings, isolation);
        Scheme { name, isolation, run }
    }

    /// The scheme of this name.
    pub fn named(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name == name).copied()
    }

    /// The same engine, judged by another promise: a stronger one than it makes must be found to be broken.
    pub fn judged_by(self, isolation: Isolation) -> Scheme {
        Scheme { isolation, ..self }
    }

    /// Runs one workload from one seed.
    pub fn run(&self, workload: WorkloadId, settings: &Settings) -> Result<Report, Violation> {
        (self.run)(workload, settings, self.isolation)
    }
}
