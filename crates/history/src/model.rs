//! The parts of a history: transactions, their operations, and what the operations saw.

use serde::{Deserialize, Deserializer, Serialize};

/// A history: transactions in any order. Their ids are expected to be unique. Nothing else depends on the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    transactions: Vec<Transaction>,
}

impl History {
    /// Makes an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction.
    pub fn push(&mut self, transaction: Transaction) {
        self.transactions.push(transaction);
    }

    /// All transactions, in the order in which they were added.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// All transactions, to be changed in place.
    pub fn transactions_mut(&mut self) -> &mut Vec<Transaction> {
        &mut self.transactions
    }

    /// The number of transactions.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Returns true if there is no transaction.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }
}

impl FromIterator<Transaction> for History {
    fn from_iter<I: IntoIterator<Item = Transaction>>(transactions: I) -> Self {
        Self { transactions: transactions.into_iter().collect() }
    }
}

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// A number that names this transaction in reports. It is unique in the history.
    pub id: u64,
    /// The client. Its transactions are ordered by `begin`, or by their place in the history if they have no `begin`.
    pub session: u64,
    /// When the client asked for the transaction to begin: nanoseconds, a counter of events, or any unit that only
    /// grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<u64>,
    /// When the client knew the outcome, on the clock of `begin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// How the transaction ended.
    pub status: Status,
    /// The engine's own stamp of the snapshot that was read. Versions with `commit <= snapshot` are visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The engine's own stamp of the commit, which orders the versions of each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

impl Transaction {
    /// Makes a committed transaction without operations, times or stamps.
    pub fn new(id: u64, session: u64) -> Self {
        Self {
            id,
            session,
            begin: None,
            end: None,
            status: Status::Committed,
            snapshot: None,
            commit: None,
            ops: Vec::new(),
        }
    }

    /// Adds an operation.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }
}

/// How a transaction ended, to its client's knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Acknowledged as committed.
    Committed,
    /// Known to have had no effect.
    Aborted,
    /// The answer was lost. It counts as committed if and only if a committed transaction saw its writes.
    Unknown,
}

/// The name of an item. Numbers sort before texts, and texts sort by their bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// A number.
    Number(u64),
    /// A text.
    Text(Box<str>),
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// An operation and what it saw. A key names a register or a list. A key that is used as both names two items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Op {
    /// A register was read.
    Read {
        /// The register.
        key: Key,
        /// The value that was seen. `None` if the key was absent.
        #[serde(deserialize_with = "required")]
        value: Option<i64>,
    },
    /// A register was written or deleted. No two writes of a key share a value.
    Write {
        /// The register.
        key: Key,
        /// The new value. `None` deletes.
        #[serde(deserialize_with = "required")]
        value: Option<i64>,
    },
    /// An element was appended to a list. No two appends to a key share an element.
    Append {
        /// The list.
        key: Key,
        /// The new last element.
        value: i64,
    },
    /// A whole list was read.
    List {
        /// The list.
        key: Key,
        /// All elements of the list, in order. Empty if the key was absent.
        values: Vec<i64>,
    },
    /// All registers with keys from `from` to `to`, both included, were read. Keys that are not among the rows were
    /// seen to be absent.
    Scan {
        /// The first key of the range.
        from: Key,
        /// The last key of the range.
        to: Key,
        /// The keys that were present, each with its value.
        rows: Vec<(Key, i64)>,
    },
}

/// A field that may be null, but may not be left out.
fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Option::deserialize(from)
}
