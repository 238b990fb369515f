//! What transactions did, recorded for a checker of histories: every attempt with its operations, its place in real
//! time, and its end.
//!
//! Invariants: each write carries a tag that no other write of the simulation has, so a read tells whose write it
//! saw; `begin < end` for each record; the records of one session do not overlap, and with the events of all
//! sessions in one row, `a.end < b.begin` says that `a` was acknowledged before `b` began.

/// Names the write that a row or an element of a list comes from. Never 0.
pub type Tag = u32;

/// One operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A row was read.
    Get {
        /// Its key.
        key: u64,
        /// Whose write it holds; `None`: there is no row.
        tag: Option<Tag>,
    },
    /// A row was written, whether or not there was one.
    Put {
        /// Its key.
        key: u64,
        /// This write.
        tag: Tag,
    },
    /// A row was to be inserted.
    Insert {
        /// Its key.
        key: u64,
        /// This write; `None`: there is a row already, and nothing was written.
        tag: Option<Tag>,
    },
    /// A row was to be deleted.
    Delete {
        /// Its key.
        key: u64,
        /// False: there was none, and nothing was written.
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
        /// Its elements, the oldest first: each is the tag of the append that it comes from.
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
    /// It was acknowledged.
    Committed,
    /// It was undone: nobody may see it.
    Aborted,
    /// It ended with an error of its own, and was undone.
    GaveUp,
    /// It was cancelled while its commit was under way: all of it may be seen, or nothing.
    Unknown,
}

/// One attempt of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who ran it.
    pub session: u32,
    /// The event after which it took its snapshot.
    pub begin: u64,
    /// The event at which its end was known.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did, in the order in which the operations ended.
    pub operations: Vec<Operation>,
    /// The engine's own word on the snapshot that it read, where it gives one.
    pub snapshot_timestamp: Option<u64>,
    /// The engine's own word on when it committed, where it gives one.
    pub commit_timestamp: Option<u64>,
}
