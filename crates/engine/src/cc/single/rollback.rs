//! Writes that a transaction takes back: all of them when it is undone, or those since a savepoint, after which it
//! continues.
//!
//! Invariant: a transaction that continues depends on the absence of a value where it had made a record. This is
//! noted for the key, because the record is gone. What else its writes have told it is noted or locked as before. If
//! another transaction has removed a record that it has written, the index no longer leads to the record, and the
//! transaction may not have found its own write. Such a write keeps it from committing, even when it is undone.

use super::record::{Content, drop_value, record_of};
use super::{Entry, Held, Policy, Removal, Single, Txn, note_absent};
use crate::cc::{Env, Target};
use crate::record::Record;

/// Undoes changes: see [`ConcurrencyControl::rollback_to`](crate::cc::ConcurrencyControl::rollback_to).
pub(super) fn rollback_to<P: Policy>(env: Env<'_, Single<P>>, txn: &mut Txn, at: usize, keeps: bool) {
    debug_assert!(at <= txn.accesses.writes.len() && !txn.has_latched);
    let keeps = keeps && txn.undone.has_read_own();
    let mut removal = Removal::new(env);
    while txn.accesses.writes.len() > at {
        let write = txn.accesses.pop().expect("longer than `at`");
        match write.new {
            Some(new) if keeps => txn.undone.keep(new),
            // SAFETY: the value is not published, and not lent.
            Some(new) => unsafe { drop_value(new, env.local) },
            None => {}
        }
        let number = txn.accesses.entry_of(&write);
        let record = txn.accesses.entries[number].record;
        txn.has_lost_own |= record_of(record).content() == Content::Gone;
        if write.is_new && take_back(&mut removal, record, &write.target) {
            forget_record(&mut txn.accesses.entries[number]);
            note_absent::<P>(txn, record, &write.target);
        }
    }
}

/// Takes back all writes of a transaction that ends.
pub(super) fn undo_all<P: Policy>(env: Env<'_, Single<P>>, txn: &mut Txn) {
    let mut removal = Removal::new(env);
    while let Some(write) = txn.accesses.pop() {
        if let Some(new) = write.new {
            // SAFETY: the value is not published, and whatever it was lent to is gone.
            unsafe { drop_value(new, env.local) };
        }
        if write.is_new {
            take_back(&mut removal, txn.accesses.record_of(&write), &write.target);
        }
    }
}

/// Takes back a record that the transaction has made. Returns false if another transaction has given it a value.
fn take_back<P: Policy>(removal: &mut Removal<'_, P>, record: *const Record, target: &Target) -> bool {
    let env = removal.env;
    let made = record_of(record);
    made.latch();
    if made.content() != Content::Nothing {
        made.unlatch();
        return false;
    }
    // The time belongs to no commit, so a transaction that has found the record without a value finds it changed.
    made.install(None, env.shared.registry.now(), P::INLINES, env.local);
    removal.add(target);
    true
}

/// Forgets a record that the transaction had made: it no longer depends on the record, nor has it locked it. No
/// transaction finds the record.
fn forget_record(entry: &mut Entry) {
    entry.seen = None;
    if entry.held == Held::Alone {
        entry.held = Held::Not;
        record_of(entry.record).unlock();
    }
}
