//! What a finished point operation leads to: a value, or a change.

use super::blocker::{Blocker, Wanted};
use super::point::Point;
use super::state::TxnState;
use crate::cc::{Abort, Admission, Change, ConcurrencyControl, Holder, Intent, Refused, Target, Written};
use crate::index::{Index, Inserted, Key, TableIndex};
use crate::kernel::Context;
use crate::profile::Activity;
use crate::record::{Record, VALUE_BYTES_MAX};
use crate::suspend::PrefetchOnly;
use crate::table::Fault;

/// Returns the open transaction that is in the way of `txn` at this record and is not committing. A null record stands
/// for the partition that `txn` waits for.
///
/// # Safety
/// The index named the record in this operation, inside its epoch.
#[cold]
pub(super) unsafe fn open_holder<C: ConcurrencyControl>(
    context: &Context<C>,
    txn: &C::Txn,
    record: *const Record,
) -> Option<Holder> {
    if record.is_null() && !C::has_partitions(&context.engine.shared) {
        return None;
    }
    // SAFETY: a record that the index named in this epoch is not reclaimed before the epoch ends; a null record is not
    // read.
    let holder = unsafe { C::holder(&context.engine.shared, txn, record) };
    holder.filter(|holder| !holder.is_ending)
}

/// Returns the index that maps the key of this operation.
fn index_of<C: ConcurrencyControl>(point: &Point<C>) -> *const TableIndex {
    // SAFETY: tables live as long as their database.
    unsafe { &raw const (*point.table).index }
}

/// Tells the scheme that there was nothing under this key.
#[inline(always)]
fn note_absent<C: ConcurrencyControl>(txn: &mut C::Txn, point: &Point<C>, is_tracked: bool) {
    if C::TRACKS_READS && is_tracked {
        C::read_absent(txn, point.record, &point.target());
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Returns the bytes that a finished point operation has found. They last as long as the transaction: see
    /// [`ConcurrencyControl::value`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn found(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        match self.context().profile.is_timing() {
            false => self.find(point),
            true => self.find_timed(point),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_timed(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        self.enter(Activity::Control);
        let found = self.find(point);
        self.enter(Activity::Useful);
        found
    }

    #[inline(always)]
    fn find(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        if let Some(refused) = C::refused(txn) {
            return Err(self.refuse(refused));
        }
        let is_read = point.intent.is_read();
        if point.record.is_null() {
            note_absent::<C>(txn, point, is_read);
            return Ok(None);
        }
        // SAFETY: the access has ended.
        let value = unsafe { C::value(&point.access, point.record, point.intent, txn) };
        let value = value.map_err(|refused| self.refuse_point(refused, point))?;
        if value.is_none() {
            note_absent::<C>(txn, point, is_read);
        }
        // SAFETY: `value` promises the bytes until the transaction ends.
        Ok(value.map(|bytes| unsafe { &*bytes }))
    }

    /// Makes a change to what a finished point operation has found. `Ok(Gone)`: look again.
    pub(crate) fn change(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Fault> {
        self.check_change(change)?;
        self.make_change(point, change).or_else(|refused| self.refuse_change(refused, point))
    }

    /// Locks the row like `change`, or returns the transaction that holds the lock.
    pub(crate) fn lock(&self, point: &Point<C>) -> Result<Result<Written, Holder>, Fault> {
        self.check_change(Change::Lock)?;
        match self.make_change(point, Change::Lock) {
            Err(Refused::Held(holder)) => Ok(Err(holder)),
            made => made.or_else(|refused| self.refuse_change(refused, point)).map(Ok),
        }
    }

    #[inline(always)]
    fn check_change(&self, change: Change<'_>) -> Result<(), Fault> {
        if self.read_only.get() {
            return Err(self.doom(Fault::ReadOnly));
        }
        match change {
            Change::Put(value) | Change::Insert(value) | Change::Update(value)
                if value.len() > VALUE_BYTES_MAX =>
            {
                Err(self.doom(Fault::ValueTooLong { bytes: value.len() }))
            }
            _ => Ok(()),
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn make_change(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Refused> {
        if C::has_partitions(self.shared()) && (point.is_unsought() || !self.is_admitted(point)?) {
            return Ok(Written::Gone);
        }
        self.enter(Activity::Versions);
        if let Change::Put(value) | Change::Insert(value) | Change::Update(value) = change {
            // SAFETY: the table is alive.
            unsafe { &*point.table }.note_value(value.len());
        }
        let made = match change {
            _ if !point.record.is_null() => self.write(point, change),
            Change::Update(_) | Change::Delete | Change::Lock => {
                // SAFETY: not borrowed outside of single calls.
                note_absent::<C>(unsafe { &mut *self.scheme.get() }, point, true);
                Ok(Written::Absent)
            }
            Change::Put(value) | Change::Insert(value) => self.create(point, value, change),
        };
        self.enter(Activity::Useful);
        made
    }

    /// Returns true if the transaction has the partitions that a change of this row touches. It may not have them
    /// although it knows the row, by an untracked read. If the result is false, the transaction must look for the row
    /// again.
    #[inline(always)]
    fn is_admitted(&self, point: &Point<C>) -> Result<bool, Refused> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        // SAFETY: the table is alive.
        let need = unsafe { &*point.table }.index.partitioning().of_key(&point.key, true);
        match C::admit(self.context().env(), txn, need, false, &mut PrefetchOnly) {
            Admission::Granted => Ok(true),
            Admission::Suspended | Admission::Busy => Ok(false),
            Admission::Refused => Err(C::refused(txn).expect("it has been")),
        }
    }

    /// Handles a change that was refused. `Ok(Gone)`: look again, because memory has been given back meanwhile.
    #[cold]
    #[inline(never)]
    fn refuse_change(&self, refused: Refused, point: &Point<C>) -> Result<Written, Fault> {
        if refused == Refused::OutOfMemory && self.relieve_in_place(point) {
            return Ok(Written::Gone);
        }
        Err(self.refuse(refused))
    }

    /// Handles a read that was refused.
    #[cold]
    #[inline(never)]
    fn refuse_point(&self, refused: Refused, point: &Point<C>) -> Fault {
        self.refuse_read(refused, index_of(point), &point.key, point.record)
    }

    /// Fails the transaction because its read of the record that this index names under this key was refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_read(
        &self,
        refused: Refused,
        index: *const TableIndex,
        key: &Key,
        record: *const Record,
    ) -> Fault {
        self.note_refusal(refused, index, key, record);
        self.refuse(refused)
    }

    /// Notes the transaction that may be in the way at `point`, after an operation in place has waited there as long as
    /// it may. Returns false.
    #[cold]
    pub(crate) fn waited_at(&self, point: Option<&Point<C>>) -> bool {
        // On a worker the operation goes on waiting, in a place.
        if let Some(point) = point.filter(|point| !point.record.is_null() && self.is_interactive.get()) {
            self.note_blocker(index_of(point), &point.key, point.record);
        }
        false
    }

    fn write(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Refused> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        // SAFETY: the index named the record in this operation, inside its epoch.
        let result = unsafe { C::write(self.context().env(), txn, point.record, &point.target(), change) };
        if let Err(refused) = result {
            self.note_refusal(refused, index_of(point), &point.key, point.record);
        }
        result
    }

    /// Notes which transaction was in the way, if it was the reason why an operation was refused at this record. The
    /// next attempt waits for that transaction.
    #[cold]
    fn note_refusal(&self, refused: Refused, index: *const TableIndex, key: &Key, record: *const Record) {
        if let Refused::Abort(why @ (Abort::WriteConflict | Abort::WaitTimeout)) = refused {
            self.note_blocker(index, key, record);
            let was_awaited = why == Abort::WaitTimeout;
            self.blocker.update(|blocker| blocker.map(|blocker| Blocker { was_awaited, ..blocker }));
        }
    }

    /// Notes the open transaction that is in the way at the record that this index names under this key, if there is
    /// one.
    #[cold]
    pub(crate) fn note_blocker(&self, index: *const TableIndex, key: &Key, record: *const Record) {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &*self.scheme.get() };
        // SAFETY: the index named the record in this operation, inside its epoch.
        let holder = unsafe { C::holder(self.shared(), txn, record) };
        let (what, row) = (Wanted::new(index, key), self.context().engine.id_of(record));
        self.blocker.set(holder.map(|holder| Blocker::new(what, row, holder)));
    }

    /// Notes the row of another open transaction that was in the way of a commit, if the scheme names one.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_obstacle(&self) {
        // SAFETY: not borrowed outside of single calls.
        if let Some(Target { index, key, id }) = C::obstacle(unsafe { &*self.scheme.get() }) {
            self.note_blocker(index, &key, self.context().engine.record(id));
        }
    }

    /// Returns the open transaction that is in the way of the commit and is not committing itself.
    #[cold]
    pub(crate) fn open_obstacle(&self) -> Option<Holder> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &*self.scheme.get() };
        C::obstacle(txn).and_then(|Target { id, .. }| {
            // SAFETY: the index named the record in this commit, inside its epoch.
            unsafe { open_holder::<C>(self.context(), txn, self.context().engine.record(id)) }
        })
    }

    /// Returns true if the one transaction that was in the way of the last attempt is still open.
    pub(crate) fn is_blocked_by_one(&self) -> bool {
        self.blocker.get().is_some_and(|blocker| !blocker.holder.is_shared()) && self.is_blocked()
    }

    /// Returns true if the transaction that was in the way of the last attempt is still open, or the row is still
    /// shared.
    pub(crate) fn is_blocked(&self) -> bool {
        let Some(Blocker { what, row, holder, .. }) = self.blocker.get() else { return false };
        if !holder.is_shared() {
            return C::is_open(self.shared(), holder);
        }
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &*self.scheme.get() };
        debug_assert!(!what.is_partition(), "partitions are not shared");
        let record = self.context().engine.record(row);
        // SAFETY: schemes that share locks have one value per record, in memory that is never unmapped. Another row may
        // have the record by now.
        unsafe { C::holder(self.shared(), txn, record) }.is_some_and(Holder::is_shared)
    }

    /// Makes a record for a key that the index does not have.
    fn create(&self, point: &Point<C>, value: &[u8], change: Change<'_>) -> Result<Written, Refused> {
        let context = self.context();
        let records = &context.engine.records;
        // SAFETY: the table is alive.
        let table = unsafe { &*point.table };
        let id = table.allocate(records)?;
        let record = table.record(id).cast_mut();
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        // SAFETY: the record was allocated just now, so no other transaction knows it.
        if let Err(error) = unsafe { C::create(context.env(), txn, record, value) } {
            // SAFETY: the record is not published.
            unsafe { table.free(records, id) };
            return Err(error.into());
        }
        self.enter(Activity::Index);
        // SAFETY: inside the operation's epoch; the key's bytes live as long as the transaction.
        let inserted = unsafe { table.index.insert(&context.local, &point.cursor, &point.key, id) };
        self.enter(Activity::Versions);
        self.created.set(id);
        let target = Target { index: &raw const table.index, key: point.key, id };
        if let Ok(Inserted::New) = inserted {
            // SAFETY: `create` has just been called with the record.
            unsafe { C::created(txn, record, &target) }.map_err(Refused::Abort)?;
            self.last_insert.note(point, context);
            return Ok(Written::Done);
        }
        // SAFETY: made just above.
        unsafe { C::discard(context.env(), record, &target) };
        match inserted? {
            Inserted::New => unreachable!("handled above"),
            // The row's entries were looked for while there was no row. By now it may have a value.
            Inserted::Exists(_) if point.intent == Intent::Covered => Ok(Written::Gone),
            Inserted::Exists(id) => {
                self.created.set(id);
                self.write(&Point { id, record: table.record(id), ..*point }, change)
            }
        }
    }
}
