//! Which records are hot, and which transactions may wait in line.

use crate::cc::single::{Group, Heat, Txn, Wants};

/// Says which records are hot, and which transactions may wait. Whatever it says, committed transactions are
/// serializable.
pub trait Rules: Sized + Send + Sync + 'static {
    /// A transaction that waits looks at the lock at growing distances.
    const LOOKS_RARELY: bool = true;
    /// A transaction that waits keeps what it shares: an error for tests.
    const KEEPS_SHARES: bool = false;

    /// Whether a transaction that begins now is to look how hot records are.
    fn heeds(heat: &Heat) -> bool;

    /// Whether the record with this number, of this group, is hot for those that want this of it.
    fn is_hot(heat: &Heat, group: &Group, wants: Wants, txn: &Txn, record: u32) -> bool;

    /// Whether a transaction that shares no lock may wait for one.
    #[inline(always)]
    fn may_wait(standing: Standing) -> bool {
        let Standing { has_alone, holder, keeps_more_waiting } = standing;
        let Some(Other { waits, is_younger }) = holder.filter(|_| has_alone) else { return true };
        // (In a circle all wait: then age alone counts, so that not both give way.)
        if waits { is_younger } else { !keeps_more_waiting }
    }
}

/// What a transaction that meets a lock is to others, and they to it.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// It has locked something alone.
    pub(super) has_alone: bool,
    /// The transaction that has the wanted record alone; `None`: others share it, or it is free.
    pub(super) holder: Option<Other>,
    /// More wait for what it has locked than for what it wants.
    pub(super) keeps_more_waiting: bool,
}

/// The holder of a lock, beside the transaction that meets it.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// It waits for a lock itself.
    pub(super) waits: bool,
    pub(super) is_younger: bool,
}

/// Where transactions have lately met others.
#[derive(Clone, Copy, Debug)]
pub struct ByMeetings;

impl Rules for ByMeetings {
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

impl Rules for Everywhere {
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

impl Rules for ByChance {
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

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// In a circle of two that have each locked something, the younger gives way and the older waits on; and one that is in nobody's
    /// way, or for which nobody waits, waits whatever its age.
    #[test]
    fn one_in_a_circle_gives_way() {
        let may_wait = |has_alone, waits, is_younger| {
            let holder = Some(Other { waits, is_younger });
            ByMeetings::may_wait(Standing { has_alone, holder, keeps_more_waiting: false })
        };
        assert!(may_wait(true, true, true) && !may_wait(true, true, false));
        assert!(may_wait(true, false, false) && may_wait(false, true, false));
        let shared = Standing { has_alone: true, holder: None, keeps_more_waiting: true };
        assert!(ByMeetings::may_wait(shared), "those that share do not wait");
    }
}
