//! Which records are hot.

use crate::cc::single::{Group, Heat, Txn, Wants};

/// Says which records are hot. Whatever it says, committed transactions are serializable.
pub trait Hotness: Sized + Send + Sync + 'static {
    /// A transaction that waits looks at the lock at growing distances.
    const LOOKS_RARELY: bool = true;

    /// Whether a transaction that begins now is to look how hot records are.
    fn heeds(heat: &Heat) -> bool;

    /// Whether the record with this number, of this group, is hot for those that want this of it.
    fn is_hot(heat: &Heat, group: &Group, wants: Wants, txn: &Txn, record: u32) -> bool;
}

/// Where transactions have lately met others.
#[derive(Clone, Copy, Debug)]
pub struct ByMeetings;

impl Hotness for ByMeetings {
    #[inline(always)]
    fn heeds(heat: &Heat) -> bool {
        heat.is_any()
    }

    #[inline(always)]
    fn is_hot(heat: &Heat, group: &Group, wants: Wants, _: &Txn, _: u32) -> bool {
        heat.is_hot(group, wants)
    }
}

/// All records: for tests.
#[derive(Clone, Copy, Debug)]
pub struct Everywhere;

impl Hotness for Everywhere {
    const LOOKS_RARELY: bool = false;

    fn heeds(_: &Heat) -> bool {
        true
    }

    fn is_hot(_: &Heat, _: &Group, _: Wants, _: &Txn, _: u32) -> bool {
        true
    }
}

/// Some records, some of the time, for some transactions: for tests.
#[derive(Clone, Copy, Debug)]
pub struct ByChance;

impl Hotness for ByChance {
    const LOOKS_RARELY: bool = false;

    fn heeds(_: &Heat) -> bool {
        true
    }

    fn is_hot(_: &Heat, _: &Group, wants: Wants, txn: &Txn, record: u32) -> bool {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let (begin, accessed) = (txn.member.begin.0, txn.accesses.entries.len() as u64);
        let mixed =
            (begin ^ u64::from(txn.member.place()) << 48).wrapping_add(accessed << 8).wrapping_mul(FACTOR);
        let mixed =
            (mixed >> 20 ^ u64::from(record) << 1 ^ u64::from(wants == Wants::Read)).wrapping_mul(FACTOR);
        mixed >> 62 != 0 // three times of four
    }
}
