//! The result of a check: classes of anomalies after Adya (PhD thesis, MIT 1999), and the cycles behind them.

use crate::model::Key;
use serde::Serialize;
use std::fmt;

/// The model that a history is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Some serial order of the committed transactions explains all that was seen (PL-3).
    Serializable,
    /// Serializable in an order that keeps real time, and therefore the order within each session.
    StrictSerializable,
    /// Every cycle of dependencies has two adjacent anti-dependencies. If the history has stamps, every read is of its
    /// snapshot, and no two concurrent transactions write the same item.
    SnapshotIsolation,
}

/// Where the order of the versions of an item comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// From the commit stamps, for each item whose writers all have them. By values for the other items.
    Stamps,
    /// From what was seen alone. The stamps are ignored.
    Values,
}

/// The kinds of anomalies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A cycle of writes over writes.
    G0,
    /// A committed transaction saw a write of an aborted one.
    G1a,
    /// A transaction saw a value that its writer later overwrote.
    G1b,
    /// A cycle of writes over writes and reads of writes.
    G1c,
    /// A cycle with exactly one anti-dependency: a fractured or stale view.
    GSingle,
    /// A cycle with several anti-dependencies, no two of them adjacent (long fork and the like).
    GNonadjacent,
    /// Two transactions each overwrote what the other had read, on different items.
    WriteSkew,
    /// A cycle with adjacent anti-dependencies, all on single items.
    G2Item,
    /// A cycle with adjacent anti-dependencies, one of them on a range: a phantom.
    G2,
    /// Two transactions read one version and both replaced it.
    LostUpdate,
    /// A cycle that only the order within a session closes.
    SessionViolation,
    /// A cycle that only real time closes.
    RealTimeViolation,
    /// An acknowledged append is missing where it must be seen.
    LostWrite,
    /// One value was written twice to an item, or a list holds an element twice.
    Duplicate,
    /// A transaction saw a value that was never written, or a row outside of the range that it asked for.
    GarbageRead,
    /// A transaction did not see its own write, or saw it before making it.
    OwnWrite,
    /// A transaction read an item twice and saw two versions.
    NonRepeatableRead,
    /// Two reads of a list contradict each other on the order of its elements.
    IncompatibleOrder,
    /// A commit stamp contradicts what was seen.
    StampMismatch,
    /// A read was not of its transaction's snapshot (G-SI of Adya).
    SnapshotMismatch,
    /// Two concurrent transactions wrote the same item (G-SIa of Adya).
    Interference,
}

/// Why one transaction is before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dependency {
    /// The second overwrote what the first wrote (ww).
    WriteWrite,
    /// The second read what the first wrote (wr).
    WriteRead,
    /// The second overwrote what the first read (rw).
    ReadWrite,
    /// The second overwrote what the first saw, or did not see, in a range (rw on a predicate).
    PredicateReadWrite,
    /// The first came before the second in their session.
    Session,
    /// The first ended before the second began.
    RealTime,
}

/// One edge of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The id of the earlier transaction.
    pub from: u64,
    /// The id of the later transaction.
    pub to: u64,
    /// Why the later transaction is later.
    pub dependency: Dependency,
    /// The item, if the dependency has one.
    pub key: Option<Key>,
    /// The edge in words, with values.
    pub text: String,
}

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    /// The violation's class.
    pub class: Class,
    /// The ids of the transactions that take part.
    pub transactions: Vec<u64>,
    /// What happened, in words.
    pub text: String,
    /// The edges of a smallest cycle that was found. Empty if a single observation is the violation.
    pub cycle: Vec<Step>,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The model that was checked.
    pub model: Model,
    /// Where the order of versions came from.
    pub order: Order,
    /// The number of transactions in the history.
    pub transactions: usize,
    /// The number of transactions that count as committed.
    pub committed: usize,
    /// The number of dependencies that were looked at.
    pub dependencies: usize,
    /// The number of violations. At most one cycle is counted per tangle of transactions.
    pub violations: u64,
    /// The first violations.
    pub anomalies: Vec<Anomaly>,
}

impl Verdict {
    /// Returns true if the history keeps the model, to the extent that the check can know.
    pub fn holds(&self) -> bool {
        self.violations == 0
    }

    /// Returns true if an anomaly of this class was reported.
    pub fn has(&self, class: Class) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.class == class)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serializable => "serializable",
            Self::StrictSerializable => "strict serializable",
            Self::SnapshotIsolation => "snapshot isolation",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stamps => "stamps",
            Self::Values => "values",
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::G0 => "G0 (write cycle)",
            Self::G1a => "G1a (aborted read)",
            Self::G1b => "G1b (intermediate read)",
            Self::G1c => "G1c (circular information flow)",
            Self::GSingle => "G-single (read skew)",
            Self::GNonadjacent => "G-nonadjacent",
            Self::WriteSkew => "G2-item (write skew)",
            Self::G2Item => "G2-item",
            Self::G2 => "G2 (phantom)",
            Self::LostUpdate => "lost update",
            Self::SessionViolation => "session violation",
            Self::RealTimeViolation => "real-time violation",
            Self::LostWrite => "lost write",
            Self::Duplicate => "duplicate",
            Self::GarbageRead => "garbage read",
            Self::OwnWrite => "own write not seen",
            Self::NonRepeatableRead => "non-repeatable read",
            Self::IncompatibleOrder => "incompatible order",
            Self::StampMismatch => "stamp mismatch",
            Self::SnapshotMismatch => "G-SI (read outside of its snapshot)",
            Self::Interference => "G-SIa (concurrent writes)",
        })
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.text)?;
        for step in &self.cycle {
            write!(f, "\n  {}", step.text)?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (order by {}): {} transactions, {} committed, {} dependencies: ",
            self.model, self.order, self.transactions, self.committed, self.dependencies
        )?;
        match self.violations {
            0 => f.write_str("no anomaly")?,
            1 => f.write_str("1 anomaly")?,
            many => write!(f, "{many} anomalies")?,
        }
        for anomaly in &self.anomalies {
            write!(f, "\n{anomaly}")?;
        }
        Ok(())
    }
}
