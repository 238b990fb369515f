//! H-STORE: serializable. A transaction has the partitions of its rows to itself. Nothing else keeps other
//! transactions away.
//!
//! The steps of a transaction:
//! 1. It takes the partitions that it has declared, in ascending order.
//! 2. Before an operation looks for anything, the partitions that it needs are compared with those that the
//!    transaction has. Missing partitions are taken then. If a missing partition comes after all that the transaction
//!    has, the transaction waits for it. Any other partition it takes only if it is free.
//! 3. If such a partition is not free, the transaction aborts. When it is run again, it first takes all partitions
//!    that it has needed.
//! 4. It reads in place, notes no reads, and keeps its writes apart.
//! 5. At its commit it latches what it writes, draws its time, installs its writes, and gives its partitions back.
//!
//! After Stonebraker, Madden, Abadi, Harizopoulos, Hachem, Helland: The end of an architectural era, VLDB 2007, and
//! Kallman et al.: H-Store, VLDB 2008, in the form with one lock for each partition of Yu, Bezerra, Pavlo, Devadas,
//! Stonebraker: Staring into the abyss, VLDB 2014. Different here:
//!
//! - A partition belongs to no worker: any worker runs any transaction.
//! - No result depends on the declaration, because of steps 2 and 3.
//! - Tables that are not partitioned are replicated in the sense of H-Store, but are read in place. A transaction
//!   with any partition can read them; a transaction without one takes all. A transaction that writes them has all.
//! - Writes are kept apart until the commit for the sake of readers without a partition: untracked reads and
//!   checkpoints.
//!
//! The lock word of a record is the number of its entry among the accesses of the transaction that has its partition,
//! counted from 1; 0: no entry.

use super::locking::STEPS_MAX;
use super::single::{
    ALL, Access, CommitStage, Content, Held, Look, Policy, Shared, Single, Txn, read_committed, record_of,
};
use super::{Abort, Admission, Declared, Env, Holder, Intent, Refused, Waiting};
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Record, RecordId, Timestamp};
use crate::suspend::Suspend;

/// A lock for each partition: serializable. A transaction is run again if it needs a partition that another transaction
/// has and that comes before one of its own.
pub type HStore = Single<ByPartition>;

/// A transaction has the partitions of everything that its operations touch.
#[derive(Clone, Copy, Debug)]
pub struct ByPartition;

type Scope<'e> = Env<'e, HStore>;

impl Policy for ByPartition {
    const TRACKS_READS: bool = false;
    const HAS_PARTITIONS: bool = true;
    const HELD_WHEN_NEW: Held = Held::Not;

    #[inline(always)]
    fn begun(_: Scope<'_>, txn: &mut Txn, declared: Declared) {
        txn.claims.begin(declared.is_retry, declared.restores);
    }

    #[inline(always)]
    fn ends(env: Scope<'_>, txn: &mut Txn) {
        for entry in &txn.accesses.entries {
            record_of(entry.record).set_lock(0);
        }
        txn.claims.end(txn.member.tag, env.shared.partitions());
    }

    fn declare_partitions(_: &Shared, txn: &mut Txn, partitions: u64) {
        txn.claims.declare(partitions);
    }

    #[inline(always)]
    fn admit<S: Suspend>(env: Scope<'_>, txn: &mut Txn, need: u64, waits: bool, s: &mut S) -> Admission {
        if txn.claims.has(need) {
            return Admission::Granted;
        }
        s.enter(Activity::Control);
        let admission = look(env, txn, need, waits);
        if admission == Admission::Suspended {
            s.was(Activity::Waiting);
        }
        admission
    }

    #[inline(always)]
    fn refused(txn: &Txn) -> Option<Refused> {
        txn.claims.refused()
    }

    fn awaited(shared: &Shared, txn: &mut Txn) -> Option<(RecordId, Holder)> {
        txn.claims.give_way(txn.member.tag, shared.partitions());
        let holder = holder(shared, txn)?;
        Some((RecordId(txn.claims.awaited()?), holder))
    }

    /// Partitions are locked, and no single row.
    unsafe fn holder(shared: &Shared, txn: &Txn, _: *const Record) -> Option<Holder> {
        holder(shared, txn)
    }

    unsafe fn holds(txn: &Txn, _: *const Record) -> bool {
        txn.claims.is_any()
    }

    fn may_queue(_: Scope<'_>, txn: &mut Txn, _: *const Record) -> Result<Waiting, OutOfMemory> {
        Ok(Waiting::asleep_if(txn.claims.may_wait()))
    }

    fn lock_of_new(_: Scope<'_>, _: &mut Txn) -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        _: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        match intent {
            Intent::Write => *access = Access::Absent, // the value is not asked for
            Intent::Lock => *access = Access::Unread,
            Intent::Untracked => {
                // SAFETY: the caller has made the promise that `access` asks for, and `read_committed` asks for the
                // same.
                return unsafe { read_committed::<Self, S>(access, record, txn, s, |_, _| Ok(())) };
            }
            Intent::Read | Intent::ReadToWrite | Intent::Covered => {
                let row = record_of(record);
                if let (Access::New, Content::At(version)) = (*access, row.content())
                    && row.lock() == 0
                {
                    *access = Access::Fetching(0, version);
                    if s.miss::<1>(version.cast::<u8>()) {
                        return false;
                    }
                }
                let value = Self::read_own(txn, record).unwrap_or_else(|| row.stable_bytes());
                *access = value.map_or(Access::Absent, Access::Value);
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn will_write(
        _: Scope<'_>,
        _: &mut Txn,
        record: *const Record,
        _: bool,
    ) -> Result<Option<bool>, Refused> {
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(content != Content::Nothing),
        })
    }

    unsafe fn lock(_: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(Self::own(txn, record).map_or(content != Content::Nothing, |own| own.is_some())),
        })
    }

    #[inline(always)]
    fn find(txn: &Txn, record: *const Record) -> Option<usize> {
        let number = (record_of(record).lock() as usize).checked_sub(1)?;
        // If the record is read without its partition, the number may be another transaction's.
        let entry = txn.accesses.entries.get(number)?;
        std::ptr::eq(entry.record, record).then_some(number)
    }

    #[inline(always)]
    fn reserve(txn: &mut Txn) -> Result<(), OutOfMemory> {
        txn.accesses.reserve_untabled()
    }

    #[inline(always)]
    fn enter_reserved(txn: &mut Txn, record: *const Record) -> usize {
        Self::find(txn, record).unwrap_or_else(|| {
            let number = txn.accesses.add(record);
            record_of(record).set_lock(number as u64 + 1);
            number
        })
    }

    #[inline(always)]
    fn decide<S: Suspend>(
        _: &mut CommitStage,
        env: Scope<'_>,
        txn: &mut Txn,
        _: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if txn.accesses.writes.is_empty() {
            return Some(Ok(env.shared.registry.now()));
        }
        // For transactions that read without partitions.
        txn.latch_alone();
        Some(Ok(env.shared.registry.draw(txn.member.place())))
    }
}

/// Continues to take the partitions that the transaction wants.
#[cold]
#[inline(never)]
fn look(env: Scope<'_>, txn: &mut Txn, need: u64, waits: bool) -> Admission {
    let partitions = env.shared.partitions();
    let tag = txn.member.announce(&env.shared.registry);
    match txn.claims.look(need, waits, tag, partitions, STEPS_MAX) {
        Look::Got => Admission::Granted,
        Look::Waits => Admission::Suspended,
        Look::Busy => Admission::Busy,
        Look::Refused => Admission::Refused,
    }
}

/// Returns the transaction that has the partition for which `txn` has last waited without getting it.
fn holder(shared: &Shared, txn: &Txn) -> Option<Holder> {
    let owner = shared.partitions().owner_for_waiter(txn.claims.awaited()?)?;
    if owner == txn.member.tag {
        return None;
    }
    shared.holder(owner)
}

const _: () = assert!(ALL == u64::MAX, "what is needed of tables that are not partitioned");
