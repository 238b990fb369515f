//! Finding the record under a key. The futures of all operations on one key share this.

use super::NO_SLOT;
use super::malformed::in_row;
use super::point::Point;
use super::state::{Op, TxnState};
use crate::cc::{Abort, Change, ConcurrencyControl, Intent, Refused, Written};
use crate::error::Result;
use crate::index::Key;
use crate::table::{Fault, TableInner, Value};
use std::ptr;
use std::task::{Context, Poll};

/// Finds the record under a key. Posts the operation. If no slot is free, runs the operation in place until it has to
/// wait.
///
/// The value lives in the user's future, and few bytes make few instructions at every poll. A fault that was found when
/// the value was made is therefore kept in place of the key.
pub(crate) struct PointLookup<'t, C: ConcurrencyControl> {
    pub(crate) txn: &'t TxnState<C>,
    /// Null: there is a fault.
    pub(crate) table: *const TableInner,
    /// The key, in parts. If it were copied whole, it would be loaded in wider words than those in which it was stored
    /// just before, and the processor would have to wait.
    pub(crate) slice: u64,
    /// The key's bytes; or the upkeep, if there is one, which has the key.
    pub(crate) bytes: *const u8,
    pub(crate) len: u32,
    pub(crate) place: u8,
    pub(crate) intent: Intent,
    /// The operation is a write of a table that has indexes, and it is under way.
    pub(crate) has_upkeep: bool,
}

/// Stand for a key's length if there is a fault instead of a key.
const TOO_LONG: u32 = 1;
const NOT_OF_EIGHT: u32 = 2;
const OUT_OF_MEMORY: u32 = 3;
const DROPPED: u32 = 4;
const UNCLEARED: u32 = 5;
const BEING_CLEARED: u32 = 6;

/// Returns what stands for the key if there is a fault: see `PointLookup::fault`.
#[cold]
#[inline(never)]
fn no_key(fault: Fault) -> Key {
    let (slice, len) = match fault {
        Fault::KeyTooLong { bytes } => (bytes as u64, TOO_LONG),
        Fault::KeyNotOfEight { bytes } => (bytes as u64, NOT_OF_EIGHT),
        Fault::OutOfMemory { .. } => (0, OUT_OF_MEMORY),
        Fault::Dropped => (0, DROPPED),
        Fault::Uncleared => (0, UNCLEARED),
        Fault::Abort(_) => (0, BEING_CLEARED),
        _ => (0, 0),
    };
    Key { slice, len, bytes: ptr::null() }
}

impl<'t, C: ConcurrencyControl> PointLookup<'t, C> {
    /// Makes a lookup of the record under this key.
    #[inline(always)]
    pub(crate) fn new(txn: &'t TxnState<C>, table: *const TableInner, key: Key) -> Self {
        let Key { slice, len, bytes } = key;
        PointLookup {
            txn,
            table,
            slice,
            bytes,
            len,
            place: NO_SLOT,
            intent: Intent::Write,
            has_upkeep: false,
        }
    }

    /// Makes a lookup that fails when it is polled.
    #[inline(always)]
    pub(crate) fn of_fault(txn: &'t TxnState<C>, fault: Fault) -> Self {
        PointLookup::new(txn, ptr::null(), no_key(fault))
    }

    pub(crate) fn txn(&self) -> &'t TxnState<C> {
        self.txn
    }

    #[inline]
    pub(crate) fn untrack(&mut self) {
        self.intent = Intent::Untracked;
        self.txn.reads_untracked.set(true);
    }

    /// Forgets the place, after `poll` has been ready.
    pub(crate) fn forget(&mut self) {
        self.place = NO_SLOT;
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        Key { slice: self.slice, len: self.len, bytes: self.bytes }
    }

    #[cold]
    fn fault(&self) -> Fault {
        let bytes = self.slice as usize;
        let fault = match self.len {
            TOO_LONG => Fault::KeyTooLong { bytes },
            NOT_OF_EIGHT => Fault::KeyNotOfEight { bytes },
            OUT_OF_MEMORY => return self.txn.refuse(Refused::OutOfMemory),
            DROPPED => Fault::Dropped,
            UNCLEARED => Fault::Uncleared,
            BEING_CLEARED => Fault::Abort(Abort::WaitTimeout),
            _ => Fault::WrongDatabase,
        };
        self.txn.doom(fault)
    }

    /// When the operation is done, passes it to `end` and releases its place. The caller then forgets the place.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn poll<R>(
        &mut self,
        context: &Context<'_>,
        end: impl FnOnce(&'t TxnState<C>, &Point<C>) -> Result<R, Fault>,
    ) -> Poll<Result<R, Fault>> {
        let txn = self.txn;
        if self.place == NO_SLOT {
            if self.table.is_null() {
                return Poll::Ready(Err(self.fault()));
            }
            // SAFETY: tables live as long as their database, which the transaction's worker holds.
            let table = unsafe { &*self.table };
            let Some(posted) = txn.post_point(table, self.key(), self.intent) else {
                let mut point = Point::new(table, self.key(), self.intent);
                if txn.run_point(&mut point) {
                    return Poll::Ready(end(txn, &point));
                }
                self.post_waiting(&point)?;
                return txn.pend(context);
            };
            self.place = posted.place;
            if !posted.is_cached || !txn.step_at_once(posted.place) {
                return txn.pend(context);
            }
        } else if !txn.is_done(self.place) {
            return txn.pend(context);
        }
        let result = end(txn, txn.point(self.place));
        txn.release(self.place);
        Poll::Ready(result)
    }

    /// Lets the worker step an operation that was run in place and has to wait.
    #[cold]
    #[inline(never)]
    fn post_waiting(&mut self, point: &Point<C>) -> Result<(), Fault> {
        self.place = self.txn.post_waiting(Op::Point(*point))?;
        Ok(())
    }

    /// Returns a finished operation on a row that is known without a descent: a row that was read lately, or a row
    /// whose key follows the key that was inserted last.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn known_point(&self, change: Change<'_>) -> Option<Point<C>> {
        if self.place != NO_SLOT || self.table.is_null() {
            return None;
        }
        if let Some(point) = self.txn.recent_point(self.table, self.key(), Intent::Write) {
            return Some(point);
        }
        if !matches!(change, Change::Insert(_) | Change::Put(_)) {
            return None;
        }
        // SAFETY: tables live as long as their database.
        self.txn.point_behind_insert(unsafe { &*self.table }, self.key())
    }

    /// Makes this a lookup for a read.
    #[inline(always)]
    pub(crate) fn for_reading(mut self) -> Self {
        self.intent = Intent::of_read(!self.is_frozen());
        self
    }

    /// Notes that the row that is read will be written.
    pub(crate) fn for_write(&mut self) {
        if self.intent == Intent::Read {
            self.intent = Intent::ReadToWrite;
        }
    }

    /// Makes this a lookup that locks the row and then reads it.
    pub(crate) fn for_locking(mut self) -> Self {
        self.intent = Intent::Lock;
        self
    }

    /// Returns true if the row cannot change. Reading it then needs no concurrency control.
    #[inline(always)]
    fn is_frozen(&self) -> bool {
        // SAFETY: tables live as long as their database.
        !self.table.is_null() && unsafe { &*self.table }.is_frozen()
    }

    /// Refuses a write of a row of a frozen table.
    #[inline(always)]
    fn check_writable(&self) -> Result<()> {
        if self.place != NO_SLOT || self.table.is_null() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { &*self.table }.check_writable()
    }

    /// Returns true if a write of the row also maintains indexes.
    #[inline(always)]
    fn is_indexed(&self) -> bool {
        // SAFETY: tables live as long as their database.
        !self.table.is_null() && !unsafe { &*self.table }.indexes.is_empty()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn poll_found(&mut self, context: &Context<'_>) -> Poll<Result<Option<&'t [u8]>, Fault>> {
        let result = self.poll(context, |txn, point| {
            let found = txn.found(point)?;
            if found.is_some() {
                txn.recent.note(point);
            }
            Ok(found)
        });
        if result.is_ready() {
            self.place = NO_SLOT;
        }
        result
    }

    /// Decodes the bytes that were found just now. An error names the row by what was noted of the last read, so that
    /// no more of the future has to be kept to its end for the error's sake.
    #[inline(always)]
    pub(crate) fn view<V: Value + ?Sized>(&self, found: &'t [u8]) -> Result<V::View<'t>> {
        match V::view(found) {
            Ok(view) => Ok(view),
            Err(error) => {
                let (table, slice) = self.txn.recent.last();
                Err(in_row(error, table, Key { slice, len: self.len, bytes: self.bytes }))
            }
        }
    }

    /// Makes the change when the record is found. Looks for the record again as often as it turns out to be gone.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn poll_change(&mut self, context: &Context<'_>, change: Change<'_>) -> Poll<Result<Written>> {
        self.check_writable()?;
        if self.has_upkeep || self.place == NO_SLOT && self.is_indexed() {
            return self.poll_indexed(context, change);
        }
        if let Some(point) = self.known_point(change) {
            match self.txn.change(&point, change)? {
                Written::Gone => {}
                written => return Poll::Ready(Ok(written)),
            }
        }
        loop {
            let result = self.poll(context, |txn, point| txn.change(point, change));
            if result.is_ready() {
                self.place = NO_SLOT;
            }
            match result {
                Poll::Ready(Ok(Written::Gone)) => {}
                Poll::Ready(result) => return Poll::Ready(Ok(result?)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<C: ConcurrencyControl> Drop for PointLookup<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.place != NO_SLOT {
            if self.has_upkeep {
                return self.end_upkeep();
            }
            self.txn.release(self.place);
        }
        // The copy of a read's key goes with the read.
        if matches!(self.intent, Intent::Read | Intent::ReadToWrite | Intent::Untracked) && self.len > 8 {
            // The key is passed by value, because a reference would keep the future in memory.
            self.txn.release_key(self.bytes, self.len);
        }
    }
}

impl<C: ConcurrencyControl> std::fmt::Debug for PointLookup<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PointLookup").field("key", &self.key()).finish_non_exhaustive()
    }
}
