//! Errors planted in schemes, to show that the checks find them.
//!
//! A planted scheme replaces steps of the true scheme, in a file `planted.rs` beside it. A [`Mistake`] is an error in
//! code that schemes share.

use std::cell::Cell;

/// An error of a planted scheme in code that schemes share. The true schemes make none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Readers treat a committing transaction as one that has not begun to commit.
    TornCommits,
    /// The version that superseded what a transaction has read is unlinked from between two other versions.
    LostSuccessors,
    /// A snapshot opened just after a version was created does not hold it.
    LateIntervals,
    /// A key that has left its index since a transaction began is treated as if it had never been there.
    ForgottenDepartures,
    /// An access takes the first version that it may see, although that version was not committed when the access met
    /// it.
    EarlyValues,
    /// A split of an index node does not copy the node's stamp.
    LostStamps,
}

/// Stands for the error that the calling thread has chosen, so a planted scheme is compiled once for all errors.
pub const CHOSEN: u32 = u32::MAX;

thread_local! {
    static CHOICE: Cell<u32> = const { Cell::new(0) };
}

/// Plants this error in schemes with the error [`CHOSEN`] that the calling thread runs.
pub fn choose(error: u32) {
    CHOICE.set(error);
}

/// Returns true if a scheme with the error `BUG` has this error.
pub(in crate::cc) fn has<const BUG: u32>(error: u32) -> bool {
    if BUG == CHOSEN { CHOICE.get() == error } else { BUG == error }
}
