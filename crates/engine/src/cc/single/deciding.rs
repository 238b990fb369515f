//! Decides whether a transaction commits. What it has read of records and what it has read of ranges must hold at one
//! moment.
//!
//! 1. The ranges are gone through. `Ranges` keeps the marks of the nodes in which the keys were found.
//! 2. The scheme latches what the transaction writes, and validates the records that it read.
//! 3. The marks are compared. If they are unchanged, the ranges have held since step 1, and so at the moment of step
//!    2. Otherwise keys have come or gone meanwhile: the latches are given back, and step 1 begins again.

use super::{CommitStage, Env, Policy, Single, Txn};
use crate::cc::Abort;
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::Timestamp;
use crate::suspend::Suspend;

/// Attempts to find the ranges unchanged while other transactions change them.
const LOOKS_MAX: usize = 64;

/// Returns the time at which the transaction commits, with what it writes latched. If it does not commit, returns
/// why, with nothing latched. `None`: suspended.
pub(super) fn decide<P: Policy, S: Suspend>(
    stage: &mut CommitStage,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
    s: &mut S,
) -> Option<Result<u64, Abort>> {
    for _ in 0..LOOKS_MAX {
        match P::look_at_ranges(env.shared, txn) {
            Ok(true) => {}
            Ok(false) => return Some(Err(Abort::Unserializable)),
            Err(OutOfMemory) => return Some(Err(Abort::OutOfMemory)),
        }
        let abort = match P::decide(stage, env, txn, s)? {
            Ok(_) if txn.has_ranges() && !P::ranges_hold(env.shared, txn) => {
                txn.unlatch();
                continue; // keys have come or gone meanwhile
            }
            Ok(Timestamp(at)) if !P::is_late(env, txn) => {
                s.enter(Activity::Commit);
                return Some(Ok(at));
            }
            Ok(_) => Abort::Unserializable,
            Err(abort) => abort,
        };
        txn.unlatch();
        return Some(Err(abort));
    }
    Some(Err(Abort::Unserializable)) // others change the ranges too fast
}
