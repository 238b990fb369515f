//! A commit under way, as plain data.

use crate::cc::ConcurrencyControl;

/// A suspended commit. Plain data.
pub(crate) struct Commit<C: ConcurrencyControl> {
    pub(crate) prepare: C::Prepare,
    /// When it commits, once that is decided.
    pub(crate) at: Option<u64>,
    /// It is decided whether the transaction could commit, and nothing more.
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
    /// Decides whether the transaction could commit: whether what it has read fits together.
    pub(crate) fn trial() -> Self {
        Commit { is_trial: true, ..Commit::default() }
    }
}
