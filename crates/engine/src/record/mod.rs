//! Records: a 32-byte [`Slot`] per record in the indirection array, and the chain of versions it
//! heads, newest first. A record's id names its slot and never changes.
//!
//! Invariants:
//! - `head` is null in a slot that holds no record (free, or its record has been removed).
//! - The slot of a removed record serves any table, or where ids of the table's records are noted elsewhere, the same
//!   one ([`Kept`]).
//! - Along a chain, commit timestamps strictly decrease, after at most one transaction's
//!   uncommitted versions, which are in front.
//! - The slot's own place for a small value belongs to one version at a time: claimed by the thread that
//!   turns its stamp from [`Stamp::FREE`] to its own tag, free again only when an epoch has
//!   passed after the version was unlinked. So bytes lent to a reader never change.
//!
//! Best-effort inlining is from Cicada (Lim, Kaminsky, Andersen, SIGMOD 2017); the chains behind an
//! indirection array from ERMIA (Kim et al., SIGMOD 2016).

mod kept;
mod slot;
mod stamp;
mod version;

use std::cell::UnsafeCell;

pub use kept::Kept;
pub use slot::{INLINE_BYTES_MAX, Slot};
pub use stamp::{Stamp, TICK, Tag, Timestamp};
pub use version::{VALUE_BYTES_MAX, Version, VersionKind};

/// Bytes of a record's memory.
pub const RECORD_BYTES: usize = 32;

/// The memory of a record: never unmapped while the database lives, and interpreted by its concurrency-control scheme
/// alone.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Record(UnsafeCell<[u8; RECORD_BYTES]>);

// SAFETY: no bytes are accessed through this type.
unsafe impl Sync for Record {}

/// Names a record for its whole life: the number of its slot. Never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u32);
