//! Writing a row of a table that has indexes: the row and its entries change together.
//!
//! First the row is located and read, then the entries that go and come are located, all at once and suspended like
//! any other operation. In the poll that finds all of them nothing is suspended any more: if the transaction has written
//! nothing meanwhile, the row is changed, then the entries; so a write that is dropped has done all or nothing.
//!
//! Extractors are foreign code, and may come back to the transaction. What one has written there counts as written
//! meanwhile.

use super::{IndexInner, Indexes};
use crate::cc::{Abort, Change, ConcurrencyControl, Env, Intent, Written};
use crate::error::{Error, Result};
use crate::index::Key;
use crate::record::RecordId;
use crate::suspend::{PrefetchOnly, Suspend};
use crate::txn::fault::Fault;
use crate::txn::handle::Txn;
use crate::txn::key::index_key;
use crate::txn::mailbox::{NOWHERE, Op};
use crate::txn::point::Point;
use crate::txn::point_futures::Locate;
use crate::txn::table::TableInner;
use std::task::{Context, Poll};
use zerocopy::IntoBytes;

/// A change of one entry.
struct Entry<C: ConcurrencyControl> {
    index: *const IndexInner,
    point: Point<C>,
    /// It comes; else it goes.
    comes: bool,
}

/// One write under way. Lent by the transaction's pool.
pub(crate) struct Upkeep<C: ConcurrencyControl> {
    base: Option<Point<C>>,
    /// Changes that the transaction had made when `base` set out.
    savepoint: usize,
    /// Times that an extractor has written since the write began.
    extractor_writes: u32,
    /// Those of the entries that change, once the row has been read.
    entries: Vec<Entry<C>>,
    is_read: bool,
    /// Entries that are being looked for.
    left: u64,
    /// A place that keeps the epoch in which the row was found, while entries are looked for.
    hold: u8,
    /// Runs where it is polled: it has no place.
    is_in_place: bool,
    /// Memory for an entry's key or value.
    bytes: Vec<u8>,
    /// Memory for a value that does not lie as values in records do.
    aligned: Vec<u64>,
}

impl<C: ConcurrencyControl> Entry<C> {
    /// How it goes, being that of the row in record `id`. While a unique index is being built another row may have it:
    /// then it stays, and is locked, so that whoever has changed it meanwhile is met.
    fn going(&mut self, txn: &Txn<C>, id: RecordId) -> Result<Change<'static>, Fault> {
        // SAFETY: indexes live as long as their database.
        let is_unique = unsafe { &*self.index }.is_unique;
        if !is_unique || self.point.record.is_null() {
            return Ok(Change::Delete);
        }
        self.point.access = C::Access::default(); // as of now
        if !txn.desk.run_point(&mut self.point) {
            return Err(txn.doom(Fault::Abort(Abort::Waited)));
        }
        let there = txn.found(&self.point)?;
        Ok(if there.is_some_and(|entry| super::split_entry(entry).0 != id) {
            Change::Lock
        } else {
            Change::Delete
        })
    }
}

const _: () = assert!(2 * super::INDEXES_MAX <= u64::BITS as usize, "one bit per entry");

/// Times that a write begins anew because an extractor has written: once is enough for one that does so the first time
/// that it meets something, and one that does so at every call would never let the write end.
const EXTRACTOR_WRITES_MAX: u32 = 8;

/// Why changes of entries were not made.
enum Undone<'i> {
    /// A record has been removed meanwhile.
    Gone,
    /// Another row has the key.
    Violated(&'i IndexInner),
}

impl<C: ConcurrencyControl> Upkeep<C> {
    fn new() -> Self {
        Upkeep {
            base: None,
            savepoint: 0,
            extractor_writes: 0,
            entries: Vec::new(),
            is_read: false,
            left: 0,
            hold: NOWHERE,
            is_in_place: false,
            bytes: Vec::new(),
            aligned: Vec::new(),
        }
    }

    /// Goes on to the next probable miss; true: what is looked for has been found.
    ///
    /// # Safety
    /// As [`Point::step`], for each.
    #[inline(never)] // not into the loop that steps the others
    pub(in crate::txn) unsafe fn step<S: Suspend>(
        &mut self,
        env: Env<'_, C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
        if !self.is_read {
            // SAFETY: by the caller's promise.
            return unsafe { self.base.as_mut().expect("begun").step(env, txn, s) };
        }
        let mut round = self.left;
        while round != 0 {
            let i = round.trailing_zeros() as usize;
            round &= round - 1;
            // SAFETY: by the caller's promise.
            if unsafe { self.entries[i].point.step(env, txn, s) } {
                self.left &= !(1 << i);
            }
        }
        self.left == 0
    }

    fn base(&self) -> &Point<C> {
        self.base.as_ref().expect("begun")
    }

    /// Sets out for the row, from the beginning.
    fn restart(&mut self, txn: &Txn<C>, table: &TableInner, key: Key) {
        let base = self.base.insert(Point::new(table, key, Intent::Covered));
        base.prepare();
        self.savepoint = txn.savepoint();
        self.entries.clear();
        self.is_read = false;
        self.release_hold(txn);
    }

    fn restart_same(&mut self, txn: &Txn<C>) {
        let Point { table, key, .. } = *self.base();
        // SAFETY: tables live as long as their database.
        self.restart(txn, unsafe { &*table }, key);
    }

    fn release_hold(&mut self, txn: &Txn<C>) {
        if self.hold != NOWHERE {
            txn.desk.release(self.hold);
            self.hold = NOWHERE;
        }
    }

    /// Goes on with what has been found. `None`: there is more to look for.
    fn advance(&mut self, txn: &Txn<C>, change: Change<'_>) -> Result<Option<Written>> {
        if txn.savepoint() != self.savepoint {
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
                if self.is_in_place {
                    return Ok(None);
                }
                self.hold = txn.desk.hold().unwrap_or(NOWHERE);
                if self.hold != NOWHERE {
                    return Ok(None);
                }
                // Nothing would keep the epoch: so no suspension.
                if !txn.desk.run_upkeep(self) {
                    return Err(txn.doom(Fault::Abort(Abort::Waited)).into());
                }
            }
        }
        self.make_changes(txn, change)
    }

    /// Which entries go and come with a change of the row as it is. Returns an index whose extractor has written in
    /// this transaction: then the row may be another by now.
    fn find_entries<'t>(&mut self, txn: &'t Txn<C>, change: Change<'_>) -> Result<Option<&'t IndexInner>> {
        let base = *self.base();
        let old = txn.found(&base)?;
        let new = match change {
            Change::Insert(_) if old.is_some() => return Ok(None), // refused
            Change::Update(_) | Change::Delete if old.is_none() => return Ok(None), // likewise
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

    /// Calls foreign code: of the transaction nothing is borrowed meanwhile.
    fn compare<'i>(
        &mut self,
        txn: &Txn<C>,
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
            if txn.savepoint() != self.savepoint {
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

    /// Changes the row and its entries, all or nothing. `None`: look for all of them again.
    fn make_changes(&mut self, txn: &Txn<C>, change: Change<'_>) -> Result<Option<Written>> {
        match txn.change(self.base(), change)? {
            Written::Done => {}
            Written::Gone => {
                self.restart_same(txn);
                return Ok(None);
            }
            written => return Ok(Some(written)),
        }
        let id = if self.base().record.is_null() { txn.desk.created.get() } else { self.base().id };
        match self.change_entries(txn, id) {
            Ok(()) => Ok(Some(Written::Done)),
            Err(Ok(undone)) => {
                txn.rollback_to(self.savepoint);
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

    /// First the entries that go: a row may hand an index key to itself.
    fn change_entries(&mut self, txn: &Txn<C>, id: RecordId) -> Result<(), Result<Undone<'static>, Fault>> {
        for entry in self.entries.iter_mut().filter(|entry| !entry.comes) {
            if entry.point.record.is_null() {
                // Since the row has been changed nobody builds entries of it: this look is the last word.
                txn.look_again(&mut entry.point);
            }
            let going = entry.going(txn, id).map_err(Err)?;
            match txn.change(&entry.point, going).map_err(Err)? {
                Written::Gone => return Err(Ok(Undone::Gone)),
                // Absent: an index that is being built has not come to the row.
                written => debug_assert!(matches!(written, Written::Done | Written::Absent)),
            }
        }
        let key = self.base.as_ref().expect("begun").key;
        let mut short = [0; 8];
        let key = key.bytes(&mut short);
        for entry in self.entries.iter().filter(|entry| entry.comes) {
            // SAFETY: indexes live as long as their database.
            let index = unsafe { &*entry.index };
            index.entry_value(id, key, &mut self.bytes);
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
    /// Sets out for the entry of the row under `key` whose index key is this part of `bytes`, behind which there is
    /// room.
    pub(super) fn entry<C: ConcurrencyControl>(
        &self,
        txn: &Txn<C>,
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

    /// What the entry of a row in this record says.
    pub(super) fn entry_value(&self, id: RecordId, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&id.0.to_le_bytes());
        if self.is_unique {
            out.extend_from_slice(key);
        }
    }

    /// How an entry comes: where the row's key is part of the entry's, nobody else's can be there.
    pub(super) fn coming<'v>(&self, value: &'v [u8]) -> Change<'v> {
        if self.is_unique { Change::Insert(value) } else { Change::Put(value) }
    }
}

/// The value where a reader of structs can look at it: aligned as it will be in its record.
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
impl<C: ConcurrencyControl> Txn<C> {
    pub(super) fn savepoint(&self) -> usize {
        // SAFETY: not borrowed outside of single calls.
        C::savepoint(unsafe { &*self.desk.state.get() })
    }

    /// Takes back what was changed in this very poll.
    fn rollback_to(&self, savepoint: usize) {
        // SAFETY: not borrowed outside of single calls.
        C::rollback_to(self.desk.context().env(), unsafe { &mut *self.desk.state.get() }, savepoint);
    }

    /// The index's form of these bytes, which stay until the transaction ends.
    pub(super) fn keep(&self, bytes: &[u8]) -> Key {
        let mut key = index_key(bytes);
        if bytes.len() > 8 {
            // SAFETY: used within this call only.
            key.bytes = unsafe { (*self.desk.arena.get()).copy_anyway(bytes) };
        }
        key
    }

    /// Whether there is a record now where there was none.
    fn look_again(&self, point: &mut Point<C>) {
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*point.table };
        *point = Point::new(table, point.key, point.intent);
        self.desk.probe_now(point);
        if point.id != RecordId(0) {
            point.record = table.record(point.id);
        }
    }
}

/// The place of an upkeep that runs where it is polled.
const IN_PLACE: u8 = NOWHERE - 1;

// ---- the future's side
impl<C: ConcurrencyControl> Locate<'_, C> {
    /// As `poll_change`, of a table that has indexes.
    #[cold]
    #[inline(never)]
    pub(in crate::txn) fn poll_indexed(
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
            if self.place == IN_PLACE {
                // SAFETY: lent to this operation, and in no place.
                if !txn.desk.run_upkeep(unsafe { &mut *upkeep }) {
                    self.end_upkeep();
                    return Poll::Ready(Err(txn.doom(Fault::Abort(Abort::Waited)).into()));
                }
            } else if !txn.desk.is_done(self.place) {
                return txn.desk.pend(context);
            }
            // SAFETY: lent to this operation; not stepped while it is done.
            match unsafe { &mut *upkeep }.advance(txn, change) {
                Ok(None) if self.place == IN_PLACE => {}
                Ok(None) => txn.desk.go_on(self.place),
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
        let desk = &self.txn.desk;
        let recent = desk.recent_point(self.table, self.key(), Intent::Covered);
        let taken = desk.upkeeps.take(Upkeep::new);
        // SAFETY: lent to this operation, and in no place yet.
        let upkeep = unsafe { &mut *taken };
        upkeep.extractor_writes = 0;
        upkeep.hold = NOWHERE; // what a leaked future has held is free by now
        // SAFETY: tables live as long as their database.
        upkeep.restart(self.txn, unsafe { &*self.table }, self.key());
        let mut is_located = false;
        if let Some(recent) = recent {
            // It was read just now, but perhaps written since: look at it again, where it is.
            let base = upkeep.base.insert(recent);
            is_located = desk.step_point(base, &mut PrefetchOnly);
            if !is_located {
                upkeep.restart_same(self.txn);
            }
        }
        // (Posting may be what makes the transaction leave its place.)
        self.place = match desk.post(Op::Upkeep(taken)) {
            Some(place) => {
                upkeep.is_in_place = false;
                if is_located {
                    desk.set_done(place);
                }
                place
            }
            None => {
                upkeep.is_in_place = true;
                IN_PLACE
            }
        };
        self.bytes = taken.cast_const().cast();
        self.has_upkeep = true;
    }

    fn upkeep(&self) -> *mut Upkeep<C> {
        debug_assert!(self.has_upkeep);
        self.bytes.cast_mut().cast()
    }

    /// Gives everything back; also when the future is dropped on the way.
    #[inline(never)]
    pub(in crate::txn) fn end_upkeep(&mut self) {
        let (desk, upkeep) = (&self.txn.desk, self.upkeep());
        // SAFETY: lent to this operation. The key goes back to where it is looked for if the future is polled again.
        self.bytes = unsafe { &*upkeep }.base().key.bytes;
        if self.place != IN_PLACE {
            desk.release(self.place);
        }
        self.place = NOWHERE;
        self.has_upkeep = false;
        // SAFETY: lent to this operation, and in no place any more.
        unsafe { &mut *upkeep }.release_hold(self.txn);
        desk.upkeeps.give_back(upkeep);
    }
}
