//! The events of a database's life, as the oracle needs them: which transaction wrote and saw what, in which order, and
//! what was acknowledged at which boundary of the storage's history.

use super::scratch::Scratch;
use super::tables::Row;
use braiddb::{Durability, Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A trace that open transactions write to.
pub(super) type Shared = Rc<RefCell<Trace>>;

/// One transaction. If it had several attempts, this is about the last.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) durability: Durability,
    /// When the transaction began and ended, in the order of all events.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// The rows that it has changed, with their new values, or `None` if deleted.
    pub(super) writes: BTreeMap<Row, Option<Vec<u8>>>,
    /// The transactions whose writes it has seen.
    pub(super) seen: BTreeSet<u64>,
    /// The log was stalled when it ended.
    pub(super) ended_stalled: bool,
    /// True if its closure succeeded.
    is_content: bool,
    /// Its place in the order of all commits, if it has committed in memory.
    pub(super) committed: Option<u64>,
    /// The boundary at which its caller learned something to rely on: the output, or an error that tells what the
    /// transaction saw.
    pub(super) acknowledged: Option<u64>,
    /// The answer to its caller.
    pub(super) answer: Option<Result<(), String>>,
}

impl Transaction {
    /// Returns true if it has committed and has written something.
    pub(super) fn is_writer(&self) -> bool {
        self.committed.is_some() && !self.writes.is_empty()
    }

    /// Returns true if its caller relied on it at this boundary.
    pub(super) fn is_relied_on(&self, boundary: u64) -> bool {
        self.durability == Durability::Sync && self.acknowledged.is_some_and(|at| at <= boundary)
    }
}

/// The events of a life.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) transactions: BTreeMap<u64, Transaction>,
    /// Transactions that were answered that they are not known to be durable, because the log was stalled for too long.
    pub(super) stalled: u64,
    /// The boundary since which each table is durable, by the table's number.
    pub(super) tables: Vec<Option<u64>>,
    /// Each rename: the table, the number of its renames so far, and the boundary since which this rename is durable.
    pub(super) renames: Vec<(usize, u64, Option<u64>)>,
    /// The states of the scratch table in order, each with the boundary since which it is durable.
    pub(super) scratch: Vec<(Scratch, Option<u64>)>,
    /// The boundary at which the database was open.
    pub(super) opened: u64,
    /// The boundaries from and to which the database was closed in order, with everything that it has.
    pub(super) closed: Option<(u64, u64)>,
    /// Checkpoints, each with the boundary at which it was published.
    pub(super) checkpoints: Vec<(u64, u64)>,
    /// The first thing that must not happen.
    pub(super) violation: Option<String>,
    /// True if nothing becomes durable any more.
    pub(super) is_stopped: bool,
    /// True if nothing becomes durable for now, because the disk has no room although room was promised to the log.
    pub(super) is_stalled: bool,
    /// The transaction that has ended since this was last taken.
    just_ended: Option<u64>,
    /// The timestamp of the latest commit that a recovery has found.
    timestamp_restored: u64,
    /// The last number in use.
    number_last: u64,
    events: u64,
}

impl Trace {
    /// Returns the number of a new transaction.
    pub(super) fn number(&mut self, durability: Durability) -> u64 {
        self.number_last += 1;
        let transaction = Transaction {
            durability,
            began: 0,
            ended: u64::MAX,
            writes: BTreeMap::new(),
            seen: BTreeSet::new(),
            ended_stalled: false,
            is_content: false,
            committed: None,
            acknowledged: None,
            answer: None,
        };
        self.transactions.insert(self.number_last, transaction);
        self.number_last
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    pub(super) fn of(&mut self, number: u64) -> &mut Transaction {
        self.transactions.get_mut(&number).expect("a transaction is noted before it begins")
    }

    /// Notes that an attempt begins.
    pub(super) fn begins(&mut self, number: u64) {
        let event = self.event();
        let transaction = self.of(number);
        transaction.began = event;
        transaction.writes.clear();
        transaction.seen.clear();
        transaction.is_content = false;
    }

    pub(super) fn sees(&mut self, number: u64, other: u64) {
        self.of(number).seen.insert(other);
    }

    pub(super) fn writes(&mut self, number: u64, row: Row, value: Option<Vec<u8>>) {
        self.of(number).writes.insert(row, value);
    }

    /// Notes that the closure has returned.
    pub(super) fn returns(&mut self, number: u64, is_content: bool) {
        self.of(number).is_content = is_content;
    }

    /// Returns true if some transaction's closure has returned and the transaction has not ended.
    pub(super) fn has_committing(&self) -> bool {
        let mut all = self.transactions.values();
        all.any(|transaction| transaction.is_content && transaction.ended == u64::MAX)
    }

    /// Notes that the caller of a transaction learns its outcome.
    pub(super) fn is_answered(&mut self, number: u64, result: Result<()>, boundary: u64) {
        self.stalled += u64::from(matches!(result, Err(Error::Stalled { .. })));
        let transaction = self.of(number);
        assert!(transaction.answer.is_none(), "a transaction is answered once");
        let tells = matches!(result, Err(Error::KeyExists | Error::User(_)));
        if result.is_ok() || tells {
            transaction.acknowledged = Some(boundary);
        }
        transaction.answer = Some(result.map_err(|error| error.to_string()));
    }

    /// Notes that a transaction has ended. Whether it committed is known only after the worker's step; see `stamp`.
    pub(super) fn ends(&mut self, number: u64) {
        let (event, is_stalled) = (self.event(), self.is_stalled);
        let transaction = self.of(number);
        (transaction.ended, transaction.ended_stalled) = (event, is_stalled);
        self.just_ended = Some(number);
    }

    /// Notes that the transaction that has just ended committed at this place, unless it is known not to have
    /// committed.
    pub(super) fn stamp(&mut self, commit_timestamp: u64) {
        let Some(number) = self.just_ended.take() else { return };
        let (newest, is_stopped) = (self.timestamp_restored, self.is_stopped);
        let transaction = self.of(number);
        let is_refused = transaction.answer.as_ref().is_some_and(Result::is_err);
        if !transaction.is_content || is_refused {
            return;
        }
        transaction.committed = Some(commit_timestamp);
        if transaction.is_writer() {
            self.check(commit_timestamp > newest, || {
                format!("transaction {number} commits at {commit_timestamp}, and {newest} was restored")
            });
            self.check(!is_stopped, || format!("transaction {number} commits though the log has stopped"));
        }
    }

    /// Returns the newest checkpoint that had been published at this boundary.
    pub(super) fn published(&self, boundary: u64) -> Option<u64> {
        self.checkpoints.iter().filter(|(_, at)| *at <= boundary).map(|(number, _)| *number).max()
    }

    /// Returns true if the database was closed in order at this boundary.
    pub(super) fn is_closed(&self, boundary: u64) -> bool {
        self.closed.is_some_and(|(from, to)| (from..=to).contains(&boundary))
    }

    /// Checks a promise. Notes `what` if the promise is broken.
    pub(super) fn check(&mut self, is_kept: bool, what: impl FnOnce() -> String) {
        if !is_kept && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// Returns the trace for a life that begins with what was left at this boundary: the transactions in `present`.
    /// They are all durable when the life has begun, at the boundary `opened` of its own storage.
    pub(super) fn afterwards(&self, boundary: u64, present: &BTreeSet<u64>, opened: u64) -> Trace {
        let survives = |transaction: &Transaction| Transaction {
            durability: Durability::Sync,
            began: 0,
            ended: 0,
            // The other transactions count from the moment that the database is open again: before, no caller knew
            // their outcome.
            acknowledged: Some(if transaction.is_relied_on(boundary) { 0 } else { opened }),
            ..transaction.clone()
        };
        let left = self.transactions.iter().filter(|(number, _)| present.contains(number));
        let committed = left.clone().filter_map(|(_, transaction)| transaction.committed);
        Trace {
            opened,
            timestamp_restored: committed.max().unwrap_or_default(),
            transactions: left.map(|(number, transaction)| (*number, survives(transaction))).collect(),
            tables: self.tables.iter().map(|at| at.filter(|at| *at <= boundary).map(|_| 0)).collect(),
            checkpoints: self.published(boundary).into_iter().map(|number| (number, 0)).collect(),
            number_last: self.number_last,
            ..Trace::default()
        }
    }
}
