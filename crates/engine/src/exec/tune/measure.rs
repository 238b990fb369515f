//! What a worker counts and measures.

/// What a worker is judged by when it looks for the level that pays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Nanoseconds since some fixed moment.
    pub ns: u64,
    /// Useful work since the worker was made, in units of about one operation. What was undone is none.
    pub work: u64,
    /// Attempts that were undone because of others.
    pub conflicts: u64,
}

/// Plain counts of one worker, from its making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Polls of futures.
    pub polls: u64,
    /// Steps that left an operation unfinished.
    pub suspensions: u64,
    /// Futures that ended (cancelled ones are not counted).
    pub ended: u64,
    /// Rounds over the open futures.
    pub rounds: u64,
    /// Visits to open futures; by `rounds`: the mean occupancy.
    pub visits: u64,
    /// Groups of futures that did the same next, in rounds that gather them; `visits` by this: their mean size.
    pub teams: u64,
    /// Times a future was parked.
    pub parkings: u64,
    /// Times that a place stayed empty because all that waited would have conflicted with open ones.
    pub turned_away: u64,
}
