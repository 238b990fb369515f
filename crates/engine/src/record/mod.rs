//! Records: one 32-byte [`Slot`] per record in the indirection array, and the chain of versions that the slot heads,
//! newest first. A record's id names its slot and never changes.
//!
//! Invariants:
//! - `head` is null in a slot that holds no record: the slot is free, or its record has been removed.
//! - The slot of a removed record may serve any table. If ids of the table's records are noted elsewhere, the slot
//!   serves only the same table again ([`Kept`]).
//! - Along a chain, commit timestamps strictly decrease. The uncommitted versions of at most one transaction precede
//!   the committed ones.
//! - The slot's own place for a small value belongs to one version at a time. A thread claims it by turning its stamp
//!   from [`Stamp::FREE`] to the thread's own tag. The place is free again only when an epoch has passed since the
//!   version was unlinked. Bytes lent to a reader therefore never change.
//!
//! Best-effort inlining is from Cicada (Lim, Kaminsky, Andersen, SIGMOD 2017). Chains behind an indirection array are
//! from ERMIA (Kim et al., SIGMOD 2016).

mod kept;
mod slot;
mod stamp;
mod version;

use std::cell::UnsafeCell;

pub use kept::Kept;
pub use slot::{INLINE_BYTES_MAX, Slot};
pub use stamp::{Stamp, TICK, Tag, Timestamp};
pub use version::{VALUE_BYTES_MAX, Version, VersionKind};

/// The size of a record's memory in bytes.
pub const RECORD_BYTES: usize = 32;

/// The memory of a record. It is never unmapped while the database lives, and only its concurrency-control scheme
/// interprets it.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Record(UnsafeCell<[u8; RECORD_BYTES]>);

// SAFETY: this type gives access to no bytes.
unsafe impl Sync for Record {}

/// Names a record for its whole life: the number of its slot. Never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u32);
