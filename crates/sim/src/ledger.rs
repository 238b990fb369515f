//! What one simulation has seen: counts, the first violation, the recorded history, and a hash over everything
//! that happened.

use crate::isolation::Isolation;
use crate::record::{Outcome, Record};
use braiddb::{Error, Result};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Shared by the scheduler, the workload and its transactions.
#[derive(Clone, Debug)]
pub struct Ledger(Rc<Entries>);

#[derive(Debug)]
struct Entries {
    isolation: Isolation,
    report: Cell<Report>,
    violation: RefCell<Option<String>>,
    history: RefCell<Vec<Record>>,
    events: Cell<u64>,
    tags: Cell<u32>,
    committing: Cell<u32>,
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
    /// Attempts that gave way to others: run again, or the last that was allowed.
    pub conflicts: u64,
    /// Those that the scheduler cancelled.
    pub cancelled: u64,
    /// Of these, those whose commit was under way: they may have committed.
    pub unknown: u64,
    /// Looks from outside, through interactive transactions.
    pub looks: u64,
    /// Interactive transactions that were refused; none under snapshot isolation.
    pub refused: u64,
    /// Recorded histories that were checked.
    pub histories: u64,
    /// Anomalies in them that the engine's promise allows.
    pub anomalies: u64,
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
            unknown: self.unknown + other.unknown,
            looks: self.looks + other.looks,
            refused: self.refused + other.refused,
            histories: self.histories + other.histories,
            anomalies: self.anomalies + other.anomalies,
            trace: mixed(self.trace, other.trace),
        }
    }
}

impl Ledger {
    /// An empty one, for an engine that promises this.
    pub fn new(isolation: Isolation) -> Ledger {
        Ledger(Rc::new(Entries {
            isolation,
            report: Cell::default(),
            violation: RefCell::default(),
            history: RefCell::default(),
            events: Cell::new(0),
            tags: Cell::new(0),
            committing: Cell::new(0),
        }))
    }

    /// What the engine promises.
    pub fn isolation(&self) -> Isolation {
        self.0.isolation
    }

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

    /// As [`check`](Self::check), where the engine promises this much; a weaker engine need not keep it.
    pub fn check_under(&self, needs: Isolation, holds: bool, what: impl FnOnce() -> String) {
        self.check(holds || self.0.isolation < needs, what);
    }

    /// As [`check`](Self::check), of what a transaction has seen that is still open. Where that need not fit together,
    /// the transaction has to end with the error: if the engine answers it, it is a violation; if what was seen did not
    /// fit together, the transaction is refused, or run again.
    pub fn check_open(&self, holds: bool, what: impl FnOnce() -> String) -> Result<()> {
        if holds || self.0.isolation.reads_snapshots() {
            self.check(holds, what);
            return Ok(());
        }
        Err(Error::user(Seen(what())))
    }

    /// Outcomes that the simulation does not know: as many more commits there may have been than were
    /// acknowledged.
    pub fn unknown(&self) -> u64 {
        self.report().unknown
    }

    /// An error is taken for what it is: a transaction that was refused, where the engine may refuse readers, or a
    /// violation.
    pub(crate) fn refused(&self, what: &str, error: &Error) {
        if matches!(error, Error::Conflict) && self.0.isolation.is_serial() {
            self.count(|report| report.refused += 1);
            self.note(4);
        } else {
            self.check(false, || format!("{what} failed: {error}"));
        }
    }

    /// The number of what happens next: whatever has a smaller one has happened before.
    pub(crate) fn next_event(&self) -> u64 {
        self.0.events.set(self.0.events.get() + 1);
        self.0.events.get()
    }

    /// A number that no other write of this simulation has, and is not 0.
    pub(crate) fn next_tag(&self) -> u32 {
        let tag = self.0.tags.get().checked_add(1).expect("a simulation has fewer than 2^32 writes");
        self.0.tags.set(tag);
        tag
    }

    /// Commits that are under way: whose transactions have done all that they wanted, and have not ended.
    pub(crate) fn committing(&self) -> &Cell<u32> {
        &self.0.committing
    }

    pub(crate) fn record(&self, record: Record) {
        self.0.history.borrow_mut().push(record);
    }

    /// What has just ended was, if it committed and was recorded, this commit in the order of all.
    pub(crate) fn stamp_last(&self, commit_timestamp: u64) {
        let is_just_now = |last: &&mut Record| last.end == self.0.events.get();
        let mut history = self.0.history.borrow_mut();
        if let Some(last) = history.last_mut().filter(is_just_now)
            && last.outcome == Outcome::Committed
        {
            assert!(last.commit_timestamp.is_none(), "a transaction ends once");
            last.commit_timestamp = Some(commit_timestamp);
        }
    }

    /// The transactions that were recorded since the last call, by their ends.
    pub(crate) fn take_history(&self) -> Vec<Record> {
        self.0.history.take()
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
            Err(Error::User(error)) => {
                if let Some(Seen(what)) = error.downcast_ref() {
                    self.check(false, || format!("seen, and answered: {what}"));
                }
                (1, None)
            }
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

/// What an open transaction has seen that must not be: its own error, which the engine may answer only if it was so.
#[derive(Debug)]
pub(crate) struct Seen(pub(crate) String);

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Seen {}

/// One step of a hash: a wide product, folded.
fn mixed(hash: u64, what: u64) -> u64 {
    let product = u128::from(hash ^ what ^ 0xcbf2_9ce4_8422_2325) * 0x9e37_79b9_7f4a_7c15;
    ((product >> 64) as u64 ^ product as u64).wrapping_add(what)
}
