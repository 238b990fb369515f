//! The ledger of one simulation: counts, the first violation, the recorded history, and a hash over everything that
//! happened.

use crate::isolation::Isolation;
use crate::record::{Outcome, Record};
use braiddb::{Error, Result};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// The ledger, shared by the scheduler, the workload and its transactions.
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

/// Counts of one simulation, or the sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The workload's name.
    pub workload: &'static str,
    /// Transactions begun.
    pub transactions: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that ended with an error of their own.
    pub gave_up: u64,
    /// Attempts that failed with a conflict: they ran again, or were the last that was allowed.
    pub conflicts: u64,
    /// Transactions that the scheduler canceled.
    pub cancelled: u64,
    /// Canceled transactions whose commit was under way: they may have committed.
    pub unknown: u64,
    /// Looks from outside, through interactive transactions.
    pub looks: u64,
    /// Interactive transactions that were refused. There are none under snapshot isolation.
    pub refused: u64,
    /// Recorded histories that were checked.
    pub histories: u64,
    /// Anomalies in these histories that the engine's promise allows.
    pub anomalies: u64,
    /// A hash over everything that happened, in order. Equal seeds give equal hashes.
    pub trace: u64,
}

impl Report {
    /// Returns the sums of both reports.
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
    /// Makes an empty ledger for an engine with this promise.
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

    /// Returns the engine's promise.
    pub fn isolation(&self) -> Isolation {
        self.0.isolation
    }

    /// Returns the counts so far.
    pub fn report(&self) -> Report {
        self.0.report.get()
    }

    /// Returns the first violation, if there is one.
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

    /// Like [`check`](Self::check), but only if the engine promises at least `needs`.
    pub fn check_under(&self, needs: Isolation, holds: bool, what: impl FnOnce() -> String) {
        self.check(holds || self.0.isolation < needs, what);
    }

    /// Like [`check`](Self::check), for what a still open transaction has seen. If the reads of an open transaction may
    /// be inconsistent, the transaction has to end with the returned error. If the engine answers with this error, it
    /// is a violation. If the reads were inconsistent, the engine refuses the transaction or runs it again.
    pub fn check_open(&self, holds: bool, what: impl FnOnce() -> String) -> Result<()> {
        if holds || self.0.isolation.reads_snapshots() {
            self.check(holds, what);
            return Ok(());
        }
        Err(Error::user(Seen(what())))
    }

    /// Returns the number of outcomes that the simulation does not know. Up to this many more commits may have happened
    /// than were acknowledged.
    pub fn unknown(&self) -> u64 {
        self.report().unknown
    }

    /// Counts a refused transaction if the error is a conflict and the engine may refuse readers. Any other error is a
    /// violation.
    pub(crate) fn refused(&self, what: &str, error: &Error) {
        if matches!(error, Error::Conflict) && self.0.isolation.is_serial() {
            self.count(|report| report.refused += 1);
            self.note(4);
        } else {
            self.check(false, || format!("{what} failed: {error}"));
        }
    }

    /// Returns the number of the next event. Every event with a smaller number happened before.
    pub(crate) fn next_event(&self) -> u64 {
        self.0.events.set(self.0.events.get() + 1);
        self.0.events.get()
    }

    /// Returns a number that no other write of this simulation has. It is never 0.
    pub(crate) fn next_tag(&self) -> u32 {
        let tag = self.0.tags.get().checked_add(1).expect("a simulation has fewer than 2^32 writes");
        self.0.tags.set(tag);
        tag
    }

    /// Returns the number of commits under way: transactions that have done all their work and have not ended.
    pub(crate) fn committing(&self) -> &Cell<u32> {
        &self.0.committing
    }

    pub(crate) fn record(&self, record: Record) {
        self.0.history.borrow_mut().push(record);
    }

    /// Stamps the transaction that has just ended with this commit timestamp, if it committed and was recorded.
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

    /// Takes the transactions that were recorded since the last call, in the order of their ends.
    pub(crate) fn take_history(&self) -> Vec<Record> {
        self.0.history.take()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.0.report.get();
        change(&mut report);
        self.0.report.set(report);
    }

    /// Counts how a transaction ended. An error that no workload provokes is a violation.
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

/// The error of an open transaction that has seen something that must not be. The engine may answer with it only if the
/// transaction really saw this.
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
