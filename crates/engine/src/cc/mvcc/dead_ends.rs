//! Finds the dead ends of indexes. See [`index::dead_end`](crate::index::dead_end) for what they are and for the
//! steps.
//!
//! A key is dead if the newest version of its record is a committed deletion. Until another version is written, no
//! transaction that begins later sees a value under it.

use super::{Env, Mvcc, Tracker};
use crate::index::dead_end::Task;
use crate::index::{Index, Key, Page, Paged, RecordId, TableIndex};
use crate::record::{Timestamp, VersionKind};
use crate::suspend::PrefetchOnly;
use std::ops::Bound;

/// The least number of dead keys that are worth skipping.
const DEAD_MIN: usize = if cfg!(braid_shuttle) { 1 } else { 16 };
/// The number of keys that are gone through at once.
const LOOKED_MAX: usize = 4096;

/// The dead keys at an end of an index that a search has found so far.
#[derive(Debug, Default)]
struct Found {
    /// The number of dead keys in a row.
    dead: usize,
    /// The time of the latest of their deletions.
    as_of: Timestamp,
    /// All keys before this one are dead. It is the first key that is not dead, or the last key that was looked at.
    bound: Option<Vec<u8>>,
    /// All keys in question were dead.
    is_all: bool,
}

/// Makes the next step towards skipping dead keys, on behalf of a transaction that has met some at this end of the
/// index.
#[cold]
#[inline(never)]
pub(super) fn note<T: Tracker>(env: Env<'_, Mvcc<T>>, index: &TableIndex, is_reverse: bool) {
    let Some(end) = index.dead_end(is_reverse) else { return };
    match end.task(|moment| env.local.is_past(moment)) {
        Task::Nothing => {}
        Task::Claim { from } => {
            let found = go_through(env, index, is_reverse, from.as_deref(), None);
            if let Some(bound) = found.bound
                && found.dead >= DEAD_MIN
            {
                end.claim(bound, || env.local.moment());
            }
        }
        Task::Prove { number, from, to } => {
            let found = go_through(env, index, is_reverse, from.as_deref(), Some(&to));
            match found.is_all {
                true => end.prove(number, found.as_of.0),
                false => end.give_up(number),
            }
        }
    }
}

/// Returns the time of the deletion if the record is dead.
fn died<T: Tracker>(env: Env<'_, Mvcc<T>>, id: RecordId) -> Option<Timestamp> {
    // SAFETY: slots are never unmapped.
    let head = unsafe { &*env.shared.slot(id) }.head();
    // SAFETY: it is the head, and the thread is inside an epoch.
    let newest = unsafe { head.as_ref() }.filter(|newest| newest.kind() == VersionKind::Tombstone)?;
    newest.stamp().timestamp()
}

/// Searches from the bound `from` on for the first key that is not dead. Ends at `to`, which is excluded, or after
/// [`LOOKED_MAX`] keys.
fn go_through<T: Tracker>(
    env: Env<'_, Mvcc<T>>,
    index: &TableIndex,
    is_reverse: bool,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Found {
    let (mut found, mut page) = (Found::default(), Page::default());
    let key = from.map(Key::new);
    let bound = key.as_ref().map_or(Bound::Unbounded, Bound::Included);
    // SAFETY: the thread is inside an epoch, and the key's bytes are alive.
    let mut walk = unsafe { index.walk(bound, is_reverse, &mut page) };
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    while found.dead < LOOKED_MAX || to != Bound::Unbounded {
        // SAFETY: the thread is in the epoch in which the walk began.
        match unsafe { index.next_page(&mut walk, &mut page, &mut PrefetchOnly) } {
            Paged::Suspended => continue,
            Paged::End => {
                found.is_all = true;
                return found;
            }
            Paged::Page => {}
        }
        let within = page.len_within(to, is_reverse);
        for i in 0..within {
            let died = died(env, page.ids[i]);
            let bound = found.bound.get_or_insert_default();
            bound.clear();
            page.push_order(i, bound);
            let Some(died) = died else { return found };
            found.dead += 1;
            found.as_of = found.as_of.max(died);
        }
        if within < page.len {
            found.is_all = true;
            return found;
        }
    }
    found
}
