//! Rules that say which records are hot, and which transactions may wait in line.

use crate::cc::single::{Group, Heat, Txn, Wants};

/// Says which records are hot, and which transactions may wait. Committed transactions are serializable whatever the
/// rules say.
pub trait Rules: Sized + Send + Sync + 'static {
    /// A waiting transaction looks at the lock at growing intervals.
    const LOOKS_RARELY: bool = true;
    /// A waiting transaction keeps its shares: an error for tests.
    const KEEPS_SHARES: bool = false;

    /// Returns true if a transaction that begins now looks how hot records are.
    fn heeds(heat: &Heat) -> bool;

    /// Returns true if the record with this number, of this group, is hot for transactions that want `wants` of it.
    fn is_hot(heat: &Heat, group: &Group, wants: Wants, txn: &Txn, record: u32) -> bool;

    /// Returns true if a transaction that shares no lock may wait for a lock.
    #[inline(always)]
    fn may_wait(standing: Standing) -> bool {
        let Standing { has_alone, holder, keeps_more_waiting } = standing;
        let Some(Other { waits, is_younger }) = holder.filter(|_| has_alone) else { return true };
        // In a cycle all transactions wait. Age alone counts then, so that only one aborts.
        if waits { is_younger } else { !keeps_more_waiting }
    }
}

/// How a transaction that meets a lock stands to the holder of the lock and to the transactions that wait.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The transaction has locked a record alone.
    pub(super) has_alone: bool,
    /// The transaction that has the wanted record alone; `None`: other transactions share it, or it is free.
    pub(super) holder: Option<Other>,
    /// More transactions wait for what the transaction has locked than for what it wants.
    pub(super) keeps_more_waiting: bool,
}

/// The holder of a lock, compared with the transaction that meets the lock.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// The holder waits for a lock itself.
    pub(super) waits: bool,
    pub(super) is_younger: bool,
}

/// Records are hot where transactions have lately met.
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

/// All records are hot: for tests.
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

/// Some records are hot, some of the time, for some transactions: for tests.
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
        mixed >> 62 != 0 // three times out of four
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Proves that in a cycle of two transactions, each with a lock alone, the younger aborts and the older waits on. A
    /// transaction waits whatever its age if the holder does not wait, or if it has itself locked nothing alone.
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
