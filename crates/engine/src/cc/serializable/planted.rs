//! Errors that can be planted, to show that the checks find them. Each is a scheme of its own,
//! [`Planted`](super::Planted): no database that is not a test's ever runs one.

/// Nothing is planted.
pub const NONE: u32 = 0;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $($(#[$doc])* pub const $name: u32 = $number;)*
        /// The errors, with their names.
        pub const ALL: &[(u32, &str)] = &[$(($name, stringify!($name))),*];
    };
}

bugs! {
    /// How early a commit is ordered is lost: its versions say that it is ordered where it committed.
    STAMP_LOST = 1;
    /// A record that is met by a scan or a read, but has nothing to see, leaves no trace.
    INVISIBLE_UNTRACKED = 2;
    /// Who inserts does not ask who has read that the key was absent.
    GAP_READERS_FORGOTTEN = 3;
    /// A declared read-only transaction is tracked by nobody, and its snapshot is not announced.
    READ_ONLY_UNANNOUNCED = 4;
    /// A reader takes who is committing for one that has not begun to.
    TORN_COMMIT = 5;
    /// Readers are noted on a copy that nobody looks at.
    READERS_ON_A_COPY = 6;
    /// What was read is not looked at again when a transaction commits.
    NO_VALIDATION = 7;
    /// Ranges are not gone through again when a transaction commits.
    NO_RESCAN = 8;
    /// The commit timestamp is drawn before the reader is entered into the log.
    DRAWN_TOO_EARLY = 9;
    /// A reader is struck off when it has committed.
    READER_CLEARED_EARLY = 10;
    /// Who has overwritten a read, and is about to commit earlier, is not waited for.
    NO_WAIT = 11;
    /// A transaction may be ordered before one that had ended when it began.
    NO_REAL_TIME = 12;
    /// Only those who have written are validated.
    READERS_NOT_VALIDATED = 13;
    /// The version that superseded what a transaction has read is unlinked between two others.
    SUCCESSOR_UNLINKED = 14;
    /// A read that found nothing under its key leaves no trace.
    ABSENCE_UNTRACKED = 15;
    /// A split of an index node does not take the stamp along.
    SPLIT_LOSES_STAMP = 16;
    /// A transaction's own order counts as its commit's, even if it has read what was overwritten before.
    OVERWRITER_NOT_FOLLOWED = 17;
}

/// Nothing is wrong with it: the logs are small, so that they wrap around in a test.
pub const SMALL_LOGS: u32 = 100;
