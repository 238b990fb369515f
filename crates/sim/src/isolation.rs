//! The promises of concurrency control schemes.

use braid_history::Model;

/// The isolation that a scheme promises, weakest first. All levels hold in real time: a transaction that begins after a
/// commit was acknowledged sees this commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Each transaction reads one snapshot. Of two concurrent transactions that write the same row, one fails.
    /// Transactions that only read never fail.
    Snapshot,
    /// Committed transactions behave as if run one after another. A transaction that ends with an error of its own has
    /// read what it would have read in its place in this order. The reads of an open transaction may be inconsistent;
    /// then the transaction is refused. Any transaction may be refused, also a reader.
    Serial,
    /// Like `Serial`. In addition, each transaction reads one snapshot, whether or not it commits.
    Serializable,
}

impl Isolation {
    /// All levels.
    pub const ALL: [Isolation; 3] = [Isolation::Snapshot, Isolation::Serial, Isolation::Serializable];
    /// The levels for which scripts state expectations.
    pub const EXPECTED: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

    /// Returns the level whose expectations in scripts also apply to this level. Expectations are about transactions
    /// that commit.
    pub fn expected(self) -> Isolation {
        if self.is_serial() { Isolation::Serializable } else { self }
    }

    /// Returns true if committed transactions behave as if run one after another, and readers may be refused.
    pub fn is_serial(self) -> bool {
        self >= Isolation::Serial
    }

    /// Returns true if the reads of an open transaction are consistent.
    pub fn reads_snapshots(self) -> bool {
        self != Isolation::Serial
    }

    /// Returns the level's name.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Snapshot => "snapshot",
            Isolation::Serial => "serial",
            Isolation::Serializable => "serializable",
        }
    }

    /// Returns the models that every history must satisfy. A serializable transaction also reads one snapshot, whether
    /// or not it commits, and the first updater wins.
    pub fn models(self) -> &'static [Model] {
        match self {
            Isolation::Snapshot => &[Model::SnapshotIsolation],
            Isolation::Serial => &[Model::StrictSerializable],
            Isolation::Serializable => &[Model::StrictSerializable, Model::SnapshotIsolation],
        }
    }
}
