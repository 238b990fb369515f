//! OCC: optimistic, serializable. The steps of a transaction:
//!
//! 1. It reads without locks, notes when what it reads was committed, and aborts at a value that was committed after
//!    it began. It keeps its writes apart.
//! 2. At its commit it latches what it writes, and then what it has only read.
//! 3. If another transaction has one of these latches, it releases all of its own and tries again.
//! 4. It draws its time, and commits if everything that it has read is the newest.
//!
//! After Kung and Robinson: On optimistic methods for concurrency control, TODS 1981, with a validation by records as
//! in Yu, Bezerra, Pavlo, Devadas, Stonebraker: Staring into the abyss, VLDB 2014. Different here: latches are tried,
//! and released together if one is taken, instead of being waited for in the order of keys. A range whose nodes have
//! changed is gone through again.

use super::Abort;
use super::optimistic::{Optimistic, Scope, Validation, draw};
use super::single::{Entry, Single, Txn, record_of};
use crate::record::Timestamp;

/// Optimistic concurrency control with a validation under latches: serializable. A transaction that finds a value
/// committed after it began is run again.
pub type Occ = Single<Optimistic<ByBeginning>>;

/// Everything that was read was committed before the transaction began, and is the newest while all of it is latched.
#[derive(Clone, Copy, Debug)]
pub struct ByBeginning;

impl Validation for ByBeginning {
    #[inline(always)]
    fn admits(txn: &Txn, at: u64) -> bool {
        at <= txn.member.begin.0
    }

    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>> {
        let latched = only_read(txn).take_while(|entry| record_of(entry.record).try_latch()).count();
        let is_latched = latched == only_read(txn).count();
        let decided = is_latched.then(|| {
            let at = draw(env, txn);
            let is_newest =
                |entry: &Entry| entry.seen.is_none_or(|seen| record_of(entry.record).at().0 == seen);
            if txn.accesses.entries.iter().all(is_newest) { Ok(at) } else { Err(Abort::Unserializable) }
        });
        // A transaction that overwrites one of these records from now on commits later.
        only_read(txn).take(latched).for_each(|entry| record_of(entry.record).unlatch());
        decided
    }
}

/// Returns the records that the transaction has read and does not write.
fn only_read(txn: &Txn) -> impl Iterator<Item = &Entry> {
    let entries = txn.accesses.entries.iter().enumerate();
    let is_read = |(number, entry): &(usize, &Entry)| {
        entry.seen.is_some() && txn.accesses.last_write(*number).is_none()
    };
    entries.filter(is_read).map(|(_, entry)| entry)
}
