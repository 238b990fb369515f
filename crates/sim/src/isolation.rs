//! What schemes of concurrency control promise.

use braid_history::Model;

/// What a scheme promises, the weaker first. All are in real time: a transaction that begins after a commit was
/// acknowledged sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Each transaction reads one snapshot, and of two concurrent ones that write the same row one fails. Those that
    /// only read never fail.
    Snapshot,
    /// Committed transactions are as if run one after another, and those that end with an error of their own have read
    /// what one of them in their place would have read. What an open transaction has read may not fit together; then
    /// it is refused. Any transaction may be refused, readers too.
    Serial,
    /// As `Serial`, and each transaction reads one snapshot, whether or not it commits.
    Serializable,
}

impl Isolation {
    /// Every one.
    pub const ALL: [Isolation; 3] = [Isolation::Snapshot, Isolation::Serial, Isolation::Serializable];
    /// Those that scripts state expectations for.
    pub const EXPECTED: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

    /// The one whose expectations in scripts are this one's as well: they are about transactions that commit.
    pub fn expected(self) -> Isolation {
        if self.is_serial() { Isolation::Serializable } else { self }
    }

    /// Committed transactions are as if run one after another, and readers may be refused.
    pub fn is_serial(self) -> bool {
        self >= Isolation::Serial
    }

    /// What an open transaction has read fits together.
    pub fn reads_snapshots(self) -> bool {
        self != Isolation::Serial
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Snapshot => "snapshot",
            Isolation::Serial => "serial",
            Isolation::Serializable => "serializable",
        }
    }

    /// What every history must keep, each of these. (A serializable transaction reads one snapshot too, whether or
    /// not it commits, and the first updater wins.)
    pub fn models(self) -> &'static [Model] {
        match self {
            Isolation::Snapshot => &[Model::SnapshotIsolation],
            Isolation::Serial => &[Model::StrictSerializable],
            Isolation::Serializable => &[Model::StrictSerializable, Model::SnapshotIsolation],
        }
    }
}
