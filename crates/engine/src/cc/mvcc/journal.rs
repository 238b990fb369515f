//! What a commit leaves in the log: the values that it puts in place of others.

use super::{Mvcc, Tracker, Txn};
use crate::cc::{Abort, Env, Unlogged};
use crate::index::DERIVED;
use crate::record::{Timestamp, Version, VersionKind};
use crate::wal::{Change, Changes, Error, Lsn, Writer};

/// A suspended commit.
#[derive(Clone, Copy, Debug)]
pub struct Commit<D> {
    pub(super) decision: D,
    /// The decision's result, once it is made.
    pub(super) at: Option<Timestamp>,
}

impl<D: Default> Default for Commit<D> {
    fn default() -> Self {
        Commit { decision: D::default(), at: None }
    }
}

/// Appends what the transaction, which commits at `at`, has changed, and says where the record ends; 0 if there is none.
/// `None`: there is no room just now.
///
/// Nobody has seen any of it yet: who reads or overwrites it, or finds a key gone or there because of it, comes
/// later in the log. So every beginning of the log is closed under dependencies.
#[inline]
pub(super) fn append<T: Tracker>(
    env: Env<'_, Mvcc<T>>,
    txn: &Txn<T>,
    at: Timestamp,
    log: &Writer,
) -> Option<Result<Lsn, Abort>> {
    debug_assert!(env.local.is_entered(), "marks are set and changes appended within one epoch");
    let mut changes = env.worker.changes_logged.borrow_mut();
    changes.clear();
    collect(txn, &mut changes);
    if changes.is_empty() {
        return Some(Ok(Lsn(0))); // what follows from other changes, and is not logged
    }
    match log.try_append(at.0, &changes) {
        Ok(end) => Some(Ok(end)),
        Err(Error::WouldBlock) => None,
        Err(error) => Some(Err(Abort::Unlogged(match error {
            Error::RecordTooLarge { .. } => Unlogged::TooLong,
            Error::Full(_) => Unlogged::Full,
            _ => Unlogged::Stopped,
        }))),
    }
}

/// Notes what the transaction has changed: in `changes`, and for the next checkpoint.
fn collect<T: Tracker>(txn: &Txn<T>, changes: &mut Changes) {
    let mut short = [0; 8];
    for write in &txn.writes {
        // SAFETY: slots are never unmapped.
        if !std::ptr::eq(unsafe { &*write.slot }.head(), write.new) {
            continue; // the transaction has changed it again, or it was a lock and no more
        }
        // SAFETY: indexes live as long as the database.
        let index = unsafe { &*write.target.index };
        let table = index.number();
        if table == DERIVED {
            continue;
        }
        let key = write.target.key.bytes(&mut short);
        // SAFETY: a commit is an operation, inside an epoch.
        unsafe { index.touched().mark(key) };
        // SAFETY: ours, and in its chain.
        let is_value = unsafe { &*write.new }.kind() == VersionKind::Value;
        // SAFETY: as above; its value does not change.
        let value = is_value.then(|| unsafe { &*Version::value(write.new) });
        changes.push(Change { table, key, value });
    }
}
