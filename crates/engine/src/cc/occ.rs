//! OCC: optimistic; a transaction reads no value that was committed after it began, and latches all that it has read or writes
//! while it looks whether that has changed.
//!
//! After Kung and Robinson: On optimistic methods for concurrency control, TODS 1981, with a validation by records as in Yu,
//! Bezerra, Pavlo, Devadas, Stonebraker: Staring into the abyss, VLDB 2014. Different here: latches are tried, and let go together
//! where one is taken, rather than waited for in the order of keys; ranges are gone through again where their nodes have changed.

use super::Abort;
use super::optimistic::{Optimistic, Scope, Validation, draw};
use super::single::{Entry, Single, Txn, record_of};
use crate::record::Timestamp;

/// Optimistic concurrency control with a validation under latches: serializable; a transaction that comes upon what was committed
/// after it began is run again.
pub type Occ = Single<Optimistic<ByBeginning>>;

/// What is read was committed before the transaction began, and is the newest while all of it is latched.
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
        // Whoever overwrites it from now on commits later.
        only_read(txn).take(latched).for_each(|entry| record_of(entry.record).unlatch());
        decided
    }
}

/// What it has read and does not write.
fn only_read(txn: &Txn) -> impl Iterator<Item = &Entry> {
    let entries = txn.accesses.entries.iter().enumerate();
    let is_read = |(number, entry): &(usize, &Entry)| {
        entry.seen.is_some() && txn.accesses.last_write(*number).is_none()
    };
    entries.filter(is_read).map(|(_, entry)| entry)
}
