//! What one simulation has seen: counts, the first violation, and a hash over everything that happened.

use braiddb::{Error, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Shared by the scheduler, the workload and its transactions.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Rc<Entries>);

#[derive(Debug, Default)]
struct Entries {
    report: Cell<Report>,
    violation: RefCell<Option<String>>,
}

/// What one simulation, or several added up, have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The workload's name.
    pub workload: &'static str,
    /// Transactions begun.
    pub transactions: u64,
    /// Those that committed.
    pub commits: u64,
    /// Those that gave up by themselves.
    pub gave_up: u64,
    /// Those that met more conflicts than retries are allowed.
    pub conflicts: u64,
    /// Those that the scheduler cancelled.
    pub cancelled: u64,
    /// Looks from outside, through interactive transactions.
    pub looks: u64,
    /// Over everything that happened, in its order: equal for equal seeds.
    pub trace: u64,
}

impl Report {
    /// This and another one.
    pub fn plus(self, other: Report) -> Report {
        Report {
            workload: other.workload,
            transactions: self.transactions + other.transactions,
            commits: self.commits + other.commits,
            gave_up: self.gave_up + other.gave_up,
            conflicts: self.conflicts + other.conflicts,
            cancelled: self.cancelled + other.cancelled,
            looks: self.looks + other.looks,
            trace: mixed(self.trace, other.trace),
        }
    }
}

impl Ledger {
    /// The counts so far.
    pub fn report(&self) -> Report {
        self.0.report.get()
    }

    /// The first violation, if there is one.
    pub fn violation(&self) -> Option<String> {
        self.0.violation.borrow().clone()
    }

    /// Adds to the trace.
    pub fn note(&self, what: u64) {
        self.count(|report| report.trace = mixed(report.trace, what));
    }

    /// Notes a violation unless `holds`.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.violation.borrow_mut().get_or_insert_with(what);
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.0.report.get();
        change(&mut report);
        self.0.report.set(report);
    }

    /// Counts how a transaction ended; an error that no workload provokes is a violation.
    pub(crate) fn ended<R>(&self, result: Result<R>) -> Option<R> {
        let (kind, value) = match result {
            Ok(value) => (0, Some(value)),
            Err(Error::User(_)) => (1, None),
            Err(Error::Conflict) => (2, None),
            Err(error) => {
                self.check(false, || format!("a transaction failed: {error}"));
                (3, None)
            }
        };
        self.count(|report| match kind {
            0 => report.commits += 1,
            1 => report.gave_up += 1,
            _ => report.conflicts += 1,
        });
        self.note(kind);
        value
    }
}

/// One step of a hash: a wide product, folded.
fn mixed(hash: u64, what: u64) -> u64 {
    let product = u128::from(hash ^ what ^ 0xcbf2_9ce4_8422_2325) * 0x9e37_79b9_7f4a_7c15;
    ((product >> 64) as u64 ^ product as u64).wrapping_add(what)
}
