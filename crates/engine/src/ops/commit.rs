//! A commit under way.

use crate::cc::ConcurrencyControl;

/// A suspended commit, as plain data.
pub(crate) struct Commit<C: ConcurrencyControl> {
    pub(crate) prepare: C::Prepare,
    /// The time of the commit, once it is decided.
    pub(crate) at: Option<u64>,
    /// The commit only decides whether the transaction could commit.
    pub(crate) is_trial: bool,
}

impl<C: ConcurrencyControl> Clone for Commit<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: ConcurrencyControl> Copy for Commit<C> {}

impl<C: ConcurrencyControl> Default for Commit<C> {
    fn default() -> Self {
        Commit { prepare: C::Prepare::default(), at: None, is_trial: false }
    }
}

impl<C: ConcurrencyControl> Commit<C> {
    /// Begins a trial commit: it decides whether the transaction could commit, which tells whether its reads are
    /// consistent with each other.
    pub(crate) fn trial() -> Self {
        Commit { is_trial: true, ..Commit::default() }
    }
}
