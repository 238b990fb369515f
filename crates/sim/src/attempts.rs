//! Records the attempts of a transaction as they happen.

use crate::ledger::Ledger;
use crate::record::{Operation, Outcome, Record, Tag};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

/// The rows that a transaction looked at when it committed. Shared, because the functions that look may be called on
/// any thread.
pub(crate) type Looked = Arc<Mutex<Vec<(u64, Option<Tag>)>>>;

/// The attempts of one transaction, in order, on their way to the ledger. An attempt without recorded operations leaves
/// no record.
#[derive(Debug)]
pub(crate) struct Attempts {
    ledger: Ledger,
    session: u32,
    open: RefCell<Option<Record>>,
    looked: Looked,
    is_committing: Cell<bool>,
}

impl Attempts {
    pub(crate) fn new(ledger: &Ledger, session: u32) -> Attempts {
        Attempts {
            ledger: ledger.clone(),
            session,
            open: RefCell::default(),
            looked: Looked::default(),
            is_committing: Cell::new(false),
        }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The rows that the attempt looks at when it commits.
    pub(crate) fn looked(&self) -> &Looked {
        &self.looked
    }

    /// Takes the rows that the attempt looked at when it committed, as reads. Under schemes with snapshots, returns
    /// none: these reads are of the present, and a history cannot tell them from reads of the snapshot.
    fn take_looked(&self, outcome: Outcome) -> impl Iterator<Item = Operation> {
        let looked = std::mem::take(&mut *self.looked.lock().unwrap_or_else(PoisonError::into_inner));
        let counts = outcome == Outcome::Committed && !self.ledger.isolation().reads_snapshots();
        let reads = looked.into_iter().map(|(key, tag)| Operation::Get { key, tag });
        reads.filter(move |_| counts)
    }

    /// Begins an attempt. If the attempt before it is still open, that attempt failed with a conflict.
    pub(crate) fn begin(&self) {
        self.ledger.count(|report| report.conflicts += u64::from(self.open.borrow().is_some()));
        self.end(Outcome::Aborted);
        let begin = self.ledger.next_event();
        self.open.replace(Some(Record {
            session: self.session,
            begin,
            end: begin,
            outcome: Outcome::Aborted,
            operations: Vec::new(),
            snapshot_timestamp: None,
            commit_timestamp: None,
        }));
    }

    /// Notes that the attempt has done its work and now commits.
    pub(crate) fn commits(&self) {
        self.set_committing(true);
    }

    fn set_committing(&self, is_committing: bool) {
        let committing = self.ledger.committing();
        let was_committing = self.is_committing.replace(is_committing);
        committing.set(committing.get() + u32::from(is_committing) - u32::from(was_committing));
    }

    /// Records an operation that has ended, and the snapshot that it read.
    pub(crate) fn operation(&self, operation: Operation, snapshot_timestamp: u64) {
        let mut open = self.open.borrow_mut();
        let record = open.as_mut().expect("operations come from an open attempt");
        let before = record.snapshot_timestamp.replace(snapshot_timestamp);
        self.ledger.check(before.is_none_or(|before| before == snapshot_timestamp), || {
            format!("a snapshot has moved from {before:?} to {snapshot_timestamp}")
        });
        record.operations.push(operation);
    }

    /// Ends the open attempt. Does nothing if no attempt is open.
    pub(crate) fn end(&self, outcome: Outcome) {
        self.set_committing(false);
        let looked = self.take_looked(outcome);
        let Some(mut record) = self.open.take() else { return };
        record.operations.extend(looked);
        record.end = self.ledger.next_event();
        record.outcome = outcome;
        assert!(record.begin < record.end, "events are counted upwards");
        if !record.operations.is_empty() {
            self.ledger.record(record);
        }
    }

    /// Notes that the transaction was dropped before its end was known.
    pub(crate) fn cancel(&self) {
        if !self.is_committing.get() {
            return self.end(Outcome::Aborted);
        }
        self.ledger.count(|report| report.unknown += 1);
        self.end(Outcome::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::Isolation;

    /// Proves that each attempt of a transaction leaves its record with its outcome, also if the transaction is
    /// canceled, and that afterwards no commit counts as under way.
    #[test]
    fn attempts_leave_records() {
        for (is_committing, last, unknown) in [(false, Outcome::Aborted, 0), (true, Outcome::Unknown, 1)] {
            let ledger = Ledger::new(Isolation::Serializable);
            let attempts = Attempts::new(&ledger, 7);
            for tag in 1..=2 {
                attempts.begin(); // the second time, after a conflict
                attempts.operation(Operation::Put { key: 1, tag }, 5);
            }
            if is_committing {
                attempts.commits();
                assert_eq!(ledger.committing().get(), 1);
            }
            attempts.cancel();
            attempts.cancel(); // the attempt has ended already
            let history = ledger.take_history();
            let outcomes: Vec<_> = history.iter().map(|record| record.outcome).collect();
            assert_eq!(outcomes, [Outcome::Aborted, last]);
            assert!(history.iter().all(|record| record.snapshot_timestamp == Some(5)));
            assert_eq!(ledger.report().conflicts, 1);
            assert!(history[0].end < history[1].begin && history[1].begin < history[1].end);
            assert_eq!((ledger.unknown(), ledger.committing().get()), (unknown, 0));
        }
    }

    /// Proves that a commit timestamp goes to the record of the transaction that has just committed, and to no other
    /// record if that transaction left none.
    #[test]
    fn commits_are_stamped() {
        let ledger = Ledger::new(Isolation::Serializable);
        let run = |operations: u32, outcome| {
            let attempts = Attempts::new(&ledger, 7);
            attempts.begin();
            for tag in 1..=operations {
                attempts.operation(Operation::Put { key: 1, tag }, 5);
            }
            attempts.end(outcome);
        };
        for (operations, outcome, timestamp) in
            [(2, Outcome::Committed, 6), (0, Outcome::Committed, 7), (1, Outcome::Aborted, 8)]
        {
            run(operations, outcome);
            ledger.stamp_last(timestamp);
        }
        let stamps: Vec<_> = ledger.take_history().iter().map(|record| record.commit_timestamp).collect();
        assert_eq!(stamps, [Some(6), None]);
    }

    /// Proves that a transaction whose snapshot moves between two operations is found.
    #[test]
    fn a_snapshot_that_moves_is_found() {
        let ledger = Ledger::new(Isolation::Snapshot);
        let attempts = Attempts::new(&ledger, 7);
        attempts.begin();
        for snapshot in [5, 5, 6] {
            assert_eq!(ledger.violation(), None);
            attempts.operation(Operation::Get { key: 1, tag: None }, snapshot);
        }
        assert_eq!(ledger.violation().as_deref(), Some("a snapshot has moved from Some(5) to 6"));
    }
}
