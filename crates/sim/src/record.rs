//! Records what transactions did, for a checker of histories: every attempt with its operations, its place in real
//! time, and its end.
//!
//! Invariants:
//! - Each write carries a tag that no other write of the simulation has, so a read tells whose write it saw.
//! - `begin < end` for each record.
//! - The records of one session do not overlap.
//! - The events of all sessions are in one order, so `a.end < b.begin` says that `a` was acknowledged before `b` began.

/// Names the write that a row or a list's element comes from. Never 0.
pub type Tag = u32;

/// One operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A row was read.
    Get {
        /// Its key.
        key: u64,
        /// The write that the row holds. `None` if there is no row.
        tag: Option<Tag>,
    },
    /// A row was written, whether or not there was one before.
    Put {
        /// Its key.
        key: u64,
        /// This write.
        tag: Tag,
    },
    /// An insert of a row.
    Insert {
        /// Its key.
        key: u64,
        /// This write. `None` if there was a row already and nothing was written.
        tag: Option<Tag>,
    },
    /// A deletion of a row.
    Delete {
        /// Its key.
        key: u64,
        /// False if there was no row and nothing was written.
        existed: bool,
    },
    /// All rows between two keys were read, both included.
    Scan {
        /// The lowest key.
        from: u64,
        /// The highest.
        to: u64,
        /// The rows in the order of their keys, with the writes that they hold.
        rows: Vec<(u64, Tag)>,
    },
    /// A list was read.
    List {
        /// Its key.
        key: u64,
        /// Its elements, oldest first. Each is the tag of the append that it comes from.
        elements: Vec<Tag>,
    },
    /// An element was added to the end of a list.
    Append {
        /// The list's key.
        key: u64,
        /// The element.
        tag: Tag,
    },
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed and was acknowledged.
    Committed,
    /// It was undone. No transaction may see it.
    Aborted,
    /// It ended with an error of its own, and was undone.
    GaveUp,
    /// It was canceled while its commit was under way. Either all of it may be seen, or nothing.
    Unknown,
}

/// One attempt of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The session that ran it.
    pub session: u32,
    /// The event after which it took its snapshot.
    pub begin: u64,
    /// The event at which its end was known.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Its operations, in the order in which they ended.
    pub operations: Vec<Operation>,
    /// The timestamp of its snapshot according to the engine, if the engine gives one.
    pub snapshot_timestamp: Option<u64>,
    /// The timestamp of its commit according to the engine, if the engine gives one.
    pub commit_timestamp: Option<u64>,
}
