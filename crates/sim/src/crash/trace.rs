//! What has happened in a life of a database, as the oracle needs it: which transaction wrote and saw what, in which order, and
//! what was acknowledged at which boundary of the storage's history.

use super::scratch::Scratch;
use super::tables::Row;
use braiddb::{Durability, Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A trace that transactions on their way write to.
pub(super) type Shared = Rc<RefCell<Trace>>;

/// One transaction; of its last attempt, where there were several.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) durability: Durability,
    /// When it began and ended, in the order of all events.
    pub(super) began: u64,
    pub(super) ended: u64,
    /// The rows that it has changed: the new values, or none.
    pub(super) writes: BTreeMap<Row, Option<Vec<u8>>>,
    /// Whose writes it has seen.
    pub(super) seen: BTreeSet<u64>,
    /// The log was stalled when it ended.
    pub(super) ended_stalled: bool,
    /// Its closure was content.
    is_content: bool,
    /// It has committed in memory, at this place in the order of all.
    pub(super) committed: Option<u64>,
    /// At which boundary its caller learned what it relies on: its output, or an error that tells what it saw.
    pub(super) acknowledged: Option<u64>,
    /// What its caller was told.
    pub(super) answer: Option<Result<(), String>>,
}

impl Transaction {
    /// It has committed, and there is something to be seen of that.
    pub(super) fn is_writer(&self) -> bool {
        self.committed.is_some() && !self.writes.is_empty()
    }

    /// Whether its caller relied on it at this boundary.
    pub(super) fn is_relied_on(&self, boundary: u64) -> bool {
        self.durability == Durability::Sync && self.acknowledged.is_some_and(|at| at <= boundary)
    }
}

/// What has happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) transactions: BTreeMap<u64, Transaction>,
    /// How many were answered that they are not known to be durable, for the log was stalled for too long.
    pub(super) stalled: u64,
    /// Since which boundary each table is durable, in the order of their numbers.
    pub(super) tables: Vec<Option<u64>>,
    /// Which table was renamed, for which time, and since which boundary that is durable.
    pub(super) renames: Vec<(usize, u64, Option<u64>)>,
    /// What the scratch table was, one state after the other, and since which boundary each is durable.
    pub(super) scratch: Vec<(Scratch, Option<u64>)>,
    /// At which boundary the database was open.
    pub(super) opened: u64,
    /// From which boundary to which the database was closed in order, with all that it has.
    pub(super) closed: Option<(u64, u64)>,
    /// Checkpoints, and at which boundary each was published.
    pub(super) checkpoints: Vec<(u64, u64)>,
    /// What must not be, the first of it.
    pub(super) violation: Option<String>,
    /// Nothing becomes durable any more.
    pub(super) is_stopped: bool,
    /// Nothing becomes durable for now: the disk finds no room for what the log has been promised room for.
    pub(super) is_stalled: bool,
    /// Who has ended since this was asked last.
    just_ended: Option<u64>,
    /// The latest commit of those that a recovery has found.
    timestamp_restored: u64,
    /// Numbers up to this are in use.
    number_last: u64,
    events: u64,
}

impl Trace {
    /// The number of a new transaction.
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

    /// An attempt begins.
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

    /// The closure has returned.
    pub(super) fn returns(&mut self, number: u64, is_content: bool) {
        self.of(number).is_content = is_content;
    }

    /// Transactions whose closures have returned and which have not ended.
    pub(super) fn has_committing(&self) -> bool {
        let mut all = self.transactions.values();
        all.any(|transaction| transaction.is_content && transaction.ended == u64::MAX)
    }

    /// The caller of a transaction learns of its outcome.
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

    /// A transaction has ended; the worker says whether it has by itself.
    pub(super) fn ends(&mut self, number: u64) {
        let (event, is_stalled) = (self.event(), self.is_stalled);
        let transaction = self.of(number);
        (transaction.ended, transaction.ended_stalled) = (event, is_stalled);
        self.just_ended = Some(number);
    }

    /// Who has just ended has committed, unless it is known that it has not, at this place.
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

    /// The newest checkpoint that had been published at this boundary.
    pub(super) fn published(&self, boundary: u64) -> Option<u64> {
        self.checkpoints.iter().filter(|(_, at)| *at <= boundary).map(|(number, _)| *number).max()
    }

    /// Whether the database was closed in order at this boundary.
    pub(super) fn is_closed(&self, boundary: u64) -> bool {
        self.closed.is_some_and(|(from, to)| (from..=to).contains(&boundary))
    }

    /// A promise, and what is wrong if it is not kept.
    pub(super) fn check(&mut self, is_kept: bool, what: impl FnOnce() -> String) {
        if !is_kept && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// For a life that begins with what was left at this boundary: these transactions, all of which are there for good
    /// when it has begun, at the boundary `opened` of its own storage.
    pub(super) fn afterwards(&self, boundary: u64, present: &BTreeSet<u64>, opened: u64) -> Trace {
        let survives = |transaction: &Transaction| Transaction {
            durability: Durability::Sync,
            began: 0,
            ended: 0,
            // The others count when the database is open again: until then nobody has been told of them.
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
