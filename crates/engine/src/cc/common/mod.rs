//! What several schemes share: the clock and the registry of open transactions, the key ranges that transactions have
//! gone through, a hash of keys, and the memory of records that are gone.

pub(super) mod hash;
pub(super) mod participant;
pub(super) mod ranges;
pub(super) mod registry;
pub(super) mod retire;
