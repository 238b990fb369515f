//! DL_DETECT: two-phase locking in which a transaction waits for a lock, unless it would wait for itself by way of others.
//!
//! After Yu, Bezerra, Pavlo, Devadas, Stonebraker: Staring into the abyss, VLDB 2014. Different here: the graph of waits has the
//! transactions of all workers and is looked through when a wait begins, under one lock; the transaction whose wait
//! would close a circle gives way.

use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Held, Single, Standing, Txn};
use crate::memory::OutOfMemory;
use crate::record::Record;

/// Two-phase locking with detection of deadlocks: serializable; a transaction that would close a circle of waits is run
/// again.
pub type DlDetect = Single<Locking<ByGraph>>;

/// One waits, unless it would wait for itself.
#[derive(Clone, Copy, Debug)]
pub struct ByGraph;

impl OnConflict for ByGraph {
    fn may_wait(env: Scope<'_, Self>, txn: &mut Txn, meeting: &Meeting) -> Result<bool, OutOfMemory> {
        if !meeting.is_first {
            if meeting.wanted.alone {
                txn.keep_out(meeting.wanted.record, meeting.lock); // another one may have let them in
            }
            return Ok(true); // it is in the graph
        }
        let entries = txn.accesses.entries.iter();
        let held = entries.filter(|entry| entry.held != Held::Not).map(|entry| entry.record);
        let standing = env.shared.graph.wait(txn.member.place(), meeting.wanted, held)?;
        txn.is_in_graph = true;
        if standing == Standing::Waits && meeting.wanted.alone {
            txn.keep_out(meeting.wanted.record, meeting.lock);
        }
        Ok(standing == Standing::Waits)
    }

    fn has_got(env: Scope<'_, Self>, txn: &mut Txn, record: *const Record) -> Result<bool, OutOfMemory> {
        let standing = env.shared.graph.got(txn.member.place(), record)?;
        txn.is_in_graph = standing != Standing::Gone;
        Ok(standing != Standing::InCircle)
    }

    #[inline(always)]
    fn ends(env: Scope<'_, Self>, txn: &mut Txn) {
        if std::mem::take(&mut txn.is_in_graph) {
            env.shared.graph.leave(txn.member.place());
        }
    }
}
