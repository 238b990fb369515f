//! What a worker counts and measures.

/// The measurements by which a worker searches for the best level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Nanoseconds since some fixed moment.
    pub ns: u64,
    /// Useful work since the worker was made, in units of about one operation. Undone work does not count.
    pub work: u64,
    /// How many attempts were undone because of others.
    pub conflicts: u64,
}

/// Plain counts of one worker since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Polls of futures.
    pub polls: u64,
    /// Steps that left an operation unfinished.
    pub suspensions: u64,
    /// Futures that ended. Cancelled futures are not counted.
    pub ended: u64,
    /// Rounds over the open futures.
    pub rounds: u64,
    /// Visits to open futures. Divided by `rounds`, the mean occupancy.
    pub visits: u64,
    /// Groups of futures that did the same next, in rounds that gather them. `visits` divided by this is their mean
    /// size.
    pub teams: u64,
    /// How many times a future was parked.
    pub parkings: u64,
    /// How many times a place stayed empty because all waiting futures would have conflicted with open ones.
    pub turned_away: u64,
}
