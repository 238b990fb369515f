//! DL_DETECT: two-phase locking with detection of deadlocks, serializable. A transaction waits for a lock, unless it
//! would wait for itself by way of others. The steps of a transaction are those of `locking.rs`. When it meets a
//! lock:
//!
//! 1. It tells the graph of waits which lock it wants and which locks it holds, and looks for a cycle.
//! 2. If its wait would close a cycle, it aborts. Otherwise it waits.
//! 3. A lock that it gets is told to the graph as long as the transaction is in the graph. If a cycle closes then,
//!    the transaction aborts.
//! 4. It leaves the graph when it ends.
//!
//! After Yu, Bezerra, Pavlo, Devadas, Stonebraker: Staring into the abyss, VLDB 2014. Different here: the graph has
//! the transactions of all workers, and is searched when a wait begins, under one lock. The transaction whose wait
//! would close a cycle aborts.

use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Held, Single, Standing, Txn};
use crate::memory::OutOfMemory;
use crate::record::Record;

/// Two-phase locking with detection of deadlocks: serializable. A transaction that would close a cycle of waits is run
/// again.
pub type DlDetect = Single<Locking<ByGraph>>;

/// A transaction waits, unless it would wait for itself.
#[derive(Clone, Copy, Debug)]
pub struct ByGraph;

impl OnConflict for ByGraph {
    fn may_wait(env: Scope<'_, Self>, txn: &mut Txn, meeting: &Meeting) -> Result<bool, OutOfMemory> {
        if !meeting.is_first {
            if meeting.wanted.alone {
                txn.keep_out(meeting.wanted.record, meeting.lock); // another transaction may have let sharers in
            }
            return Ok(true); // the graph has this wait already
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
