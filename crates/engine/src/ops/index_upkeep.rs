//! The write of a row of a table that has indexes. The row and its entries change together:
//! 1. The write notes how many changes the transaction has made, then locates and reads the row (`restart`).
//! 2. It asks each index for the keys of the old and the new value, and lists the entries that go and the entries that
//!    come (`find_entries`). If the two keys are the same, the index has none.
//! 3. It locates all these entries at once, suspended like any other operation (`indexed_write.rs`). If the write is
//!    posted, a second place holds the epoch in which the row was found.
//! 4. In the poll that finds all of them nothing is suspended any more. If the transaction has changed anything since
//!    step 1, the write begins again, because another operation may have written the row. Otherwise the row is changed,
//!    then the entries that go, then the entries that come (`make_changes`).
//! 5. If a record turns out to be gone, or another row has the key, the changes of step 4 are taken back. The write
//!    then begins again, or fails with `UniqueViolation`.
//!
//! A write whose future is dropped has therefore done all or nothing.
//!
//! Extractors are foreign code and may use the transaction themselves. What an extractor writes counts as a change
//! since step 1.

use super::NO_SLOT;
use super::indexed_write::{Entry, IndexedWrite};
use super::point::Point;
use super::point_lookup::PointLookup;
use super::state::{Op, TxnState};
use crate::cc::{Abort, Change, ConcurrencyControl, Intent, Written};
use crate::error::{Error, Result};
use crate::index::Key;
use crate::record::RecordId;
use crate::suspend::PrefetchOnly;
use crate::table::{Fault, IndexInner, Indexes, TableInner, index_key, split_entry};
use std::task::{Context, Poll};
use zerocopy::IntoBytes;

impl<C: ConcurrencyControl> Entry<C> {
    /// Returns the change by which the entry of the row in record `id` goes. While a unique index is being built,
    /// another row may have the entry. The entry then stays and is locked. The lock meets a conflict if another
    /// transaction has changed the entry meanwhile.
    ///
    /// On a worker nothing waits here. If the entry needs a wait, all entries are located again by steps that wait. If
    /// such steps have already come to this entry (`was_stepped`) and were refused, the call fails as they did.
    fn going(
        &mut self,
        txn: &TxnState<C>,
        id: RecordId,
        was_stepped: bool,
    ) -> Result<Change<'static>, Result<Undone<'static>, Fault>> {
        // SAFETY: indexes live as long as their database.
        let is_unique = unsafe { &*self.index }.is_unique;
        if !is_unique || self.point.record.is_null() {
            return Ok(Change::Delete);
        }
        let stepped = std::mem::take(&mut self.point.access); // looks at the entry as it is now
        if !txn.run_point(&mut self.point) {
            if txn.is_interactive.get() {
                return Err(Err(txn.doom(Fault::Abort(Abort::WaitTimeout))));
            }
            if was_stepped {
                self.point.access = stepped;
                txn.found(&self.point).map_err(Err)?;
            }
            return Err(Ok(Undone::Gone));
        }
        let there = txn.found(&self.point).map_err(Err)?;
        Ok(if there.is_some_and(|entry| split_entry(entry).0 != id) { Change::Lock } else { Change::Delete })
    }
}

/// How many times a write begins again because an extractor has written. Once is enough for an extractor that writes
/// the first time that it meets something. An extractor that writes at every call would never let the write end.
const EXTRACTOR_WRITES_MAX: u32 = 8;

/// Why changes of entries were not made.
enum Undone<'i> {
    /// A record has been removed meanwhile, or is being changed.
    Gone,
    /// Another row has the key.
    Violated(&'i IndexInner),
}

impl<C: ConcurrencyControl> IndexedWrite<C> {
    fn base(&self) -> &Point<C> {
        self.base.as_ref().expect("begun")
    }

    /// Begins to look for the row, from the start.
    fn restart(&mut self, txn: &TxnState<C>, table: &TableInner, key: Key) {
        let base = self.base.insert(Point::new(table, key, Intent::Covered));
        base.prepare();
        self.savepoint = txn.changes();
        self.entries.clear();
        (self.is_read, self.left) = (false, 1);
        self.release_hold(txn);
    }

    fn restart_same(&mut self, txn: &TxnState<C>) {
        let Point { table, key, .. } = *self.base();
        // SAFETY: tables live as long as their database.
        self.restart(txn, unsafe { &*table }, key);
    }

    fn release_hold(&mut self, txn: &TxnState<C>) {
        if self.hold != NO_SLOT {
            txn.release(self.hold);
            self.hold = NO_SLOT;
        }
    }

    /// Goes on with what has been found. `None`: there is more to look for.
    fn advance(&mut self, txn: &TxnState<C>, change: Change<'_>) -> Result<Option<Written>> {
        if txn.changes() != self.savepoint {
            // Another operation of the transaction has written, perhaps this row.
            self.restart_same(txn);
            return Ok(None);
        }
        if !self.is_read {
            if let Some(index) = self.find_entries(txn, change)? {
                self.extractor_writes += 1;
                if self.extractor_writes > EXTRACTOR_WRITES_MAX {
                    return Err(Error::ExtractorWrites { index: index.name.clone() });
                }
                self.restart_same(txn);
                return Ok(None);
            }
            if !self.entries.is_empty() {
                self.is_read = true;
                self.left = u64::MAX >> (u64::BITS as usize - self.entries.len());
                if self.is_inline {
                    return Ok(None);
                }
                // Without a place, nothing would hold the epoch.
                let Some(hold) = txn.hold() else {
                    return Err(txn.doom(Fault::Abort(Abort::WaitTimeout)).into());
                };
                self.hold = hold;
                return Ok(None);
            }
        }
        self.make_changes(txn, change)
    }

    /// Lists the entries that go and come with a change of the row as it is. Returns an index if its extractor has
    /// written in this transaction, because the row may be another by now.
    fn find_entries<'t>(
        &mut self,
        txn: &'t TxnState<C>,
        change: Change<'_>,
    ) -> Result<Option<&'t IndexInner>> {
        let base = *self.base();
        let old = txn.found(&base)?;
        let new = match change {
            Change::Insert(_) if old.is_some() => return Ok(None), // refused
            Change::Update(_) | Change::Delete if old.is_none() => return Ok(None), // the row is absent
            Change::Put(value) | Change::Insert(value) | Change::Update(value) => Some(value),
            Change::Delete => None,
            Change::Lock => unreachable!("a lock changes nothing"),
        };
        let mut aligned = std::mem::take(&mut self.aligned);
        let mut bytes = std::mem::take(&mut self.bytes);
        let new = new.map(|value| align(value, &mut aligned));
        // SAFETY: tables live as long as their database.
        let indexes: &'t Indexes = &unsafe { &*base.table }.indexes;
        let result = self.compare(txn, indexes, old, new, &mut bytes);
        (self.aligned, self.bytes) = (aligned, bytes);
        result
    }

    /// Compares the index keys of the old and the new value. Calls foreign code, so nothing of the transaction is
    /// borrowed meanwhile.
    fn compare<'i>(
        &mut self,
        txn: &TxnState<C>,
        indexes: &'i Indexes,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<&'i IndexInner>> {
        let key = self.base().key;
        let mut short = [0; 8];
        let key = key.bytes(&mut short);
        for index in indexes.iter().filter(|index| !index.is_dead()) {
            bytes.clear();
            let goes = old.map_or(Ok(false), |old| (index.extract)(key, old, bytes))?;
            let split = bytes.len();
            let comes = new.map_or(Ok(false), |new| (index.extract)(key, new, bytes))?;
            if txn.changes() != self.savepoint {
                return Ok(Some(index));
            }
            if goes && comes && bytes[..split] == bytes[split..] {
                continue;
            }
            for (is_there, comes) in [(goes, false), (comes, true)] {
                if is_there {
                    let part = if comes { split..bytes.len() } else { 0..split };
                    let end = bytes.len();
                    let point = index.entry(txn, bytes, part, key);
                    bytes.truncate(end);
                    point.prepare();
                    self.entries.push(Entry { index, point, comes });
                }
            }
        }
        Ok(None)
    }

    /// Changes the row and its entries, all or nothing. `None`: the write looks for all of them again.
    fn make_changes(&mut self, txn: &TxnState<C>, change: Change<'_>) -> Result<Option<Written>> {
        match txn.change(self.base(), change)? {
            Written::Done => {}
            Written::Gone => {
                self.restart_same(txn);
                return Ok(None);
            }
            written => return Ok(Some(written)),
        }
        let id = if self.base().record.is_null() { txn.created.get() } else { self.base().id };
        match self.change_entries(txn, id) {
            Ok(()) => Ok(Some(Written::Done)),
            Err(Ok(undone)) => {
                txn.take_back(self.savepoint);
                match undone {
                    Undone::Gone => self.restart_same(txn),
                    Undone::Violated(index) => {
                        return Err(Error::UniqueViolation { index: index.name.clone() });
                    }
                }
                Ok(None)
            }
            Err(Err(fault)) => Err(fault.into()),
        }
    }

    /// Changes the entries. Those that go are first, because a row may hand an index key to itself.
    fn change_entries(
        &mut self,
        txn: &TxnState<C>,
        id: RecordId,
    ) -> Result<(), Result<Undone<'static>, Fault>> {
        for entry in self.entries.iter_mut().filter(|entry| !entry.comes) {
            let was_stepped = !entry.point.record.is_null();
            if !was_stepped {
                // The row is changed, so the builder of an index makes no entry of it any more: this look is final.
                txn.look_again(&mut entry.point);
            }
            let going = entry.going(txn, id, was_stepped)?;
            match txn.change(&entry.point, going).map_err(Err)? {
                Written::Gone => return Err(Ok(Undone::Gone)),
                // Absent: the builder of the index has not come to the row yet.
                written => debug_assert!(matches!(written, Written::Done | Written::Absent)),
            }
        }
        let base_key = self.base.as_ref().expect("begun").key;
        let mut short = [0; 8];
        let key = base_key.bytes(&mut short);
        for entry in self.entries.iter().filter(|entry| entry.comes) {
            // SAFETY: indexes live as long as their database.
            let index = unsafe { &*entry.index };
            index.entry_value(id, key, &mut self.bytes);
            if C::has_partitions(txn.shared()) {
                index.note_place(&entry.point.key, &base_key);
            }
            match txn.change(&entry.point, index.coming(&self.bytes)).map_err(Err)? {
                Written::Done => {}
                Written::Gone => return Err(Ok(Undone::Gone)),
                written => {
                    debug_assert_eq!(written, Written::Exists);
                    return Err(Ok(Undone::Violated(index)));
                }
            }
        }
        Ok(())
    }
}

impl IndexInner {
    /// Begins to look for the entry of the row under `key`. Its index key is the part `index_key` of `bytes`; the
    /// entry's own key is appended to `bytes`.
    pub(crate) fn entry<C: ConcurrencyControl>(
        &self,
        txn: &TxnState<C>,
        bytes: &mut Vec<u8>,
        index_key: std::ops::Range<usize>,
        key: &[u8],
    ) -> Point<C> {
        let start = bytes.len();
        bytes.extend_from_within(index_key);
        if !self.is_unique {
            bytes.extend_from_slice(key);
        }
        Point::new(&self.entries, txn.keep(&bytes[start..]), Intent::Covered)
    }
}

/// Returns the value, aligned as it will be in its record, so that a reader of structs can look at it.
fn align<'v>(value: &'v [u8], aligned: &'v mut Vec<u64>) -> &'v [u8] {
    if value.as_ptr().addr().is_multiple_of(align_of::<u64>()) {
        return value;
    }
    aligned.clear();
    aligned.resize(value.len().div_ceil(size_of::<u64>()), 0);
    let bytes = aligned.as_mut_slice().as_mut_bytes();
    bytes[..value.len()].copy_from_slice(value);
    &bytes[..value.len()]
}

// ---- what upkeep asks of the transaction
impl<C: ConcurrencyControl> TxnState<C> {
    /// Takes back the changes made in this poll. None of their values has been lent.
    fn take_back(&self, changes: usize) {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        C::rollback_to(self.context().env(), txn, changes, false).expect("nothing is kept");
    }

    /// Returns these bytes as a key of the index. They stay until the transaction ends.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Key {
        let mut key = index_key(bytes);
        if bytes.len() > 8 {
            // SAFETY: used within this call only.
            key.bytes = unsafe { (*self.arena.get()).copy_anyway(bytes) };
        }
        key
    }

    /// Looks again for a record where there was none.
    fn look_again(&self, point: &mut Point<C>) {
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*point.table };
        *point = Point::new(table, point.key, point.intent);
        self.probe_now(point);
        if point.id != RecordId(0) {
            point.record = table.record(point.id);
        }
    }
}

/// The place of an upkeep that runs where it is polled.
const INLINE: u8 = NO_SLOT - 1;

// ---- the future's side
impl<C: ConcurrencyControl> PointLookup<'_, C> {
    /// Does what `poll_change` does, in a table that has indexes.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_indexed(
        &mut self,
        context: &Context<'_>,
        change: Change<'_>,
    ) -> Poll<Result<Written>> {
        let txn = self.txn;
        if !self.has_upkeep {
            self.begin_upkeep();
        }
        let upkeep = self.upkeep();
        loop {
            if self.place == INLINE {
                // SAFETY: lent to this operation, and in no place.
                if !txn.run_upkeep(unsafe { &mut *upkeep }) {
                    return self.post_upkeep(context);
                }
            } else if !txn.is_done(self.place) {
                return txn.pend(context);
            }
            // SAFETY: lent to this operation; not stepped while it is done.
            match unsafe { &mut *upkeep }.advance(txn, change) {
                Ok(None) if self.place == INLINE => {}
                Ok(None) => txn.go_on(self.place),
                Ok(Some(written)) => {
                    self.end_upkeep();
                    return Poll::Ready(Ok(written));
                }
                Err(error) => {
                    self.end_upkeep();
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    fn begin_upkeep(&mut self) {
        let txn = self.txn;
        let recent = txn.recent_point(self.table, self.key(), Intent::Covered);
        let taken = txn.upkeeps.take(IndexedWrite::new);
        // SAFETY: lent to this operation, and in no place yet.
        let upkeep = unsafe { &mut *taken };
        upkeep.extractor_writes = 0;
        upkeep.hold = NO_SLOT; // a place that a leaked future has held is free by now
        // SAFETY: tables live as long as their database.
        upkeep.restart(self.txn, unsafe { &*self.table }, self.key());
        if let Some(recent) = recent {
            // The transaction read the row just now, and may have written it since. Its record is known, so the row is
            // accessed again without a descent.
            let base = upkeep.base.insert(recent);
            if txn.step_point(base, &mut PrefetchOnly) {
                upkeep.left = 0;
            } else {
                upkeep.restart_same(self.txn);
            }
        }
        // Posting may make the transaction leave sequential execution, so this is decided only here.
        self.place = match txn.post(Op::IndexedWrite(taken)) {
            Some(place) => {
                upkeep.is_inline = false;
                if upkeep.left == 0 {
                    txn.set_done(place);
                }
                place
            }
            None => {
                upkeep.is_inline = true;
                INLINE
            }
        };
        self.bytes = taken.cast_const().cast();
        self.has_upkeep = true;
    }

    /// Posts an upkeep that has run where it was polled and has to wait.
    #[cold]
    fn post_upkeep<R>(&mut self, context: &Context<'_>) -> Poll<Result<R>> {
        let (txn, upkeep) = (self.txn, self.upkeep());
        match txn.post_waiting(Op::IndexedWrite(upkeep)) {
            Ok(place) => {
                // SAFETY: lent to this operation, and not stepped within this poll.
                unsafe { &mut *upkeep }.is_inline = false;
                self.place = place;
                txn.pend(context)
            }
            Err(fault) => {
                self.end_upkeep();
                Poll::Ready(Err(fault.into()))
            }
        }
    }

    fn upkeep(&self) -> *mut IndexedWrite<C> {
        debug_assert!(self.has_upkeep);
        self.bytes.cast_mut().cast()
    }

    /// Gives everything back. Also called when the future is dropped on the way.
    #[inline(never)]
    pub(crate) fn end_upkeep(&mut self) {
        let (txn, upkeep) = (self.txn, self.upkeep());
        // SAFETY: lent to this operation. The key goes back to where it is looked for if the future is polled again.
        self.bytes = unsafe { &*upkeep }.base().key.bytes;
        if self.place != INLINE {
            txn.release(self.place);
        }
        self.place = NO_SLOT;
        self.has_upkeep = false;
        // SAFETY: lent to this operation, and in no place any more.
        unsafe { &mut *upkeep }.release_hold(self.txn);
        txn.upkeeps.give_back(upkeep);
    }
}
