//! Reads what is committed, beside transactions that commit.

use super::{Access, Content, Policy, Txn, record_of};
use crate::cc::Refused;
use crate::profile::Activity;
use crate::record::Record;
use crate::suspend::Suspend;

/// Reads what is committed, or what the transaction itself has written. Tells `note` when the value was committed.
///
/// # Safety
/// As [`ConcurrencyControl::access`](crate::cc::ConcurrencyControl::access).
#[inline(always)]
pub(in crate::cc) unsafe fn read_committed<P: Policy, S: Suspend>(
    access: &mut Access,
    record: *const Record,
    txn: &mut Txn,
    s: &mut S,
    note: impl FnOnce(&mut Txn, u64) -> Result<(), Refused>,
) -> bool {
    if let Access::New = *access
        && let Some(own) = P::read_own(txn, record)
    {
        *access = own.map_or(Access::Absent, Access::Value);
        return true;
    }
    let (at, content) = match *access {
        Access::Fetching(at, version) => (at, Content::At(version)),
        _ => match record_of(record).read() {
            Some(read) => (read.at, read.content),
            None => {
                s.was(Activity::Waiting);
                return false; // it is being changed
            }
        },
    };
    if let (Access::New, Content::At(version)) = (*access, content) {
        *access = Access::Fetching(at, version);
        if s.miss::<1>(version.cast::<u8>()) {
            return false;
        }
    }
    // SAFETY: read in this operation, inside its epoch.
    let copied = unsafe { txn.copy_content(content) };
    if let (Content::At(_), Ok(Some(copy))) = (content, copied)
        && !record_of(record).is_still(at)
    {
        txn.drop_copy(copy);
        *access = Access::New;
        s.was(Activity::Waiting);
        return false; // it has been or is being overwritten
    }
    *access = match copied.map_err(Refused::from).and_then(|copy| note(txn, at).map(|()| copy)) {
        Ok(Some(value)) => Access::Value(value),
        Ok(None) => Access::Absent,
        Err(refused) => Access::Refused(refused),
    };
    true
}
