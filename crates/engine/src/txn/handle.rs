//! The transaction as its closure sees it.

use super::fault::Fault;
use super::key::{AsKey, Key, encode_whole, index_key};
use super::lock::GetForUpdate;
use super::mailbox::{Desk, InPlace};
use super::many::{GetInto, GetMany};
use super::point::Point;
use super::point_futures::{Contains, Delete, Get, Insert, Locate, Put, Update};
use super::row_wait::{Blocker, Wanted};
use super::rows::Rows;
use super::table::Table;
use super::value::Value;
use crate::cc::{Abort, Change, ConcurrencyControl, Holder, Refused, Serializable, Target, Written};
use crate::error::{Error, Result};
use crate::exec::Operations;
use crate::index::DERIVED;
use crate::index::{self, Index, Inserted};
use crate::options::Durability;
use crate::profile::Activity;
use crate::record::VALUE_BYTES_MAX;
use crate::suspend::Suspend;
use crate::wal::Lsn;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::task::Waker;
use std::time::Duration;

/// An open transaction. Closures get `&Txn`; it is neither `Send` nor `Sync`.
///
/// Every operation is a future. What reads return is borrowed until the transaction ends; later
/// writes do not disturb it.
pub struct Txn<C: ConcurrencyControl = Serializable> {
    pub(crate) desk: Desk<C>,
}

impl<C: ConcurrencyControl> fmt::Debug for Txn<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("read_only", &self.desk.read_only.get()).finish_non_exhaustive()
    }
}

// ---- the closure's side
impl<C: ConcurrencyControl> Txn<C> {
    /// The value under `key`, if there is one.
    ///
    /// Under serializable isolation the read is tracked: if others change what was read, the transaction may
    /// have to give way. `.untracked()` on the future reads the snapshot and no more (under the schemes
    /// without snapshots, what is committed at that moment): what the transaction does then must not depend on it.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// let length = db.worker().run(async |tx| {
    ///     tx.put(names, 1, "Ada").await?;
    ///     Ok(tx.get(names, 1).await?.map(str::len))
    /// })?;
    /// assert_eq!(length, Some(3));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    #[inline(always)]
    pub fn get<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Get<'_, V, C> {
        Get::new(self.locate(table, &key))
    }

    /// The value under `key`, if there is one, which nobody else can change until the transaction ends.
    ///
    /// A row that another open transaction has locked or written is waited for, in the queue behind those who came before,
    /// for [`Options::lock_wait_ms`] at most: then the call fails with [`Error::LockTimeout`]. `.timeout(…)` on the
    /// future says how long instead; `.no_wait()` fails at once, with [`Error::RowLocked`]; `.skip_locked()` answers
    /// [`Claim::Locked`](crate::Claim::Locked). Of transactions that would wait for each other in a cycle, one gives way when the wait that would
    /// close the cycle begins, with [`Error::Deadlock`]: in a closure it is run again. Nothing is locked where there
    /// is no row.
    ///
    /// [`Options::lock_wait_ms`]: crate::Options::lock_wait_ms
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let jobs: Table<u64, str> = db.table("jobs")?;
    /// db.worker().run(async |tx| tx.put(jobs, 1, "to do").await)?;
    /// let (mine, yours) = (db.begin()?, db.begin()?);
    /// assert_eq!(mine.get_for_update(jobs, 1)?, Some("to do"));
    /// let is_locked = |job| yours.with(async |tx| Ok(tx.get_for_update(jobs, job).skip_locked().await?.is_locked()));
    /// assert!(is_locked(1)?);
    /// assert!(!is_locked(2)?, "there is no such row");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_for_update<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> GetForUpdate<'_, V, C> {
        GetForUpdate::new(self.locate(table, &key))
    }

    /// Several keys, their cache misses overlapped. The values come in the order of the keys.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let squares: Table<u64, u64> = db.table("squares")?;
    /// let found = db.worker().run(async |tx| {
    ///     tx.put(squares, 3, 9).await?;
    ///     tx.get_many(squares, &[3, 4]).await
    /// })?;
    /// assert_eq!(found, [Some(9), None]);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    #[inline(always)]
    pub fn get_many<'t, K: Key, V: Value + ?Sized, A: AsKey<K>, const N: usize>(
        &'t self,
        table: Table<K, V>,
        keys: &[A; N],
    ) -> GetMany<'t, V, N, C> {
        GetMany::new(self, table, keys)
    }

    /// As many keys as `keys` has, their cache misses overlapped; without an allocation, whatever their number. The
    /// values go to `out`, in the order of the keys: keys for which `out` has no place are not read, and places for
    /// which there is no key are emptied.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let squares: Table<u64, u64> = db.table("squares")?;
    /// let sum = db.worker().run(async |tx| {
    ///     tx.put(squares, 3, 9).await?;
    ///     let (keys, mut found) = (vec![3u64, 4], [None; 16]);
    ///     tx.get_into(squares, &keys, &mut found).await?;
    ///     Ok(found.iter().flatten().sum::<u64>())
    /// })?;
    /// assert_eq!(sum, 9);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn get_into<'t, 'k, K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &'t self,
        table: Table<K, V>,
        keys: &'k [A],
        out: &'k mut [Option<V::View<'t>>],
    ) -> GetInto<'t, 'k, K, V, A, C> {
        GetInto::new(self, table, keys, out)
    }

    /// Is there a value under `key`?
    #[inline(always)]
    pub fn contains<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Contains<'_, C> {
        Contains::new(self.locate(table, &key))
    }

    /// Sets the value under `key`, whether or not there is one.
    #[inline(always)]
    pub fn put<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Put<'t, 'v, V, C> {
        Put::new(self.locate(table, &key), V::encode(value))
    }

    /// Adds a value under a key that has none; [`Error::KeyExists`] otherwise.
    #[inline(always)]
    pub fn insert<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Insert<'t, 'v, V, C> {
        Insert::new(self.locate(table, &key), V::encode(value))
    }

    /// Replaces the value under `key`; false: there is none, and nothing was changed.
    #[inline(always)]
    pub fn update<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Update<'t, 'v, V, C> {
        Update::new(self.locate(table, &key), V::encode(value))
    }

    /// Removes the value under `key`; false: there was none.
    #[inline(always)]
    pub fn delete<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Delete<'_, C> {
        Delete::new(self.locate(table, &key))
    }

    /// The rows of a range of keys, in order; see [`Rows`].
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let sum = db.worker().run(async |tx| {
    ///     for key in 0..10 {
    ///         tx.put(t, key, key * key).await?;
    ///     }
    ///     let (mut rows, mut sum) = (tx.scan(t, 3..6), 0);
    ///     while let Some((_, value)) = rows.next().await? {
    ///         sum += value;
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 9 + 16 + 25);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> Rows<'_, K, V, C> {
        Rows::new(self, table, range.start_bound(), range.end_bound())
    }

    /// All rows of a table, in the order of their keys.
    pub fn scan_all<K: Key + AsKey<K>, V: Value + ?Sized>(&self, table: Table<K, V>) -> Rows<'_, K, V, C> {
        Rows::new(self, table, Bound::<&K>::Unbounded, Bound::Unbounded)
    }

    /// The rows whose keys begin with the encoded bytes of `prefix`: the first components of a tuple, or the
    /// first bytes of a string.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<String, u64> = db.table("t")?;
    /// let count = db.worker().run(async |tx| {
    ///     for key in ["car", "cart", "cat", "dog"] {
    ///         tx.put(t, key, 0).await?;
    ///     }
    ///     let (mut rows, mut count) = (tx.scan_prefix(t, b"car"), 0);
    ///     while rows.next().await?.is_some() {
    ///         count += 1;
    ///     }
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan_prefix<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        prefix: &[u8],
    ) -> Rows<'_, K, V, C> {
        Rows::with_prefix(self, table, prefix)
    }

    /// Declares that this transaction will not write: from now on writes fail with [`Error::ReadOnly`].
    ///
    /// Declared before anything else is done, it makes the transaction cheaper, and it will meet no conflict:
    /// what it reads is the database as of one moment, and needs no tracking. (Not so under the schemes without snapshots,
    /// `NoWait` and `Silo`, where it is a transaction like any other.)
    pub fn declare_read_only(&self) {
        self.desk.declare_read_only();
    }

    /// Chooses when this transaction is acknowledged, instead of the database's [`Options::durability`]. One that
    /// only reads is acknowledged, under `Sync`, when what it may have seen is durable.
    ///
    /// [`Durability::None`] is for whole databases: an error here, unless it is the database's own.
    ///
    /// [`Options::durability`]: crate::Options::durability
    pub fn set_durability(&self, durability: Durability) -> Result<()> {
        if durability == Durability::None && self.desk.durability_default != Durability::None {
            let reason = "a transaction cannot be left out of a log that others are in: Sync or Async".into();
            return Err(Error::InvalidOption { option: "durability", reason });
        }
        self.desk.durability.set(durability);
        Ok(())
    }

    /// Identifies the snapshot that the transaction reads: two transactions with the same one see the same
    /// database but for their own writes, and one that begins later has no lesser one.
    pub fn snapshot_timestamp(&self) -> u64 {
        // SAFETY: not borrowed outside of single calls.
        C::snapshot_timestamp(unsafe { &*self.desk.state.get() })
    }
}

/// Times that a transaction waits for memory and tries again: once for what is found to be garbage only then, and some more in
/// case others take at once what is given back.
const RELIEFS_MAX: u32 = 8;
/// After a transaction has waited so often and got nothing, the others of its worker fail at once for this long: without that, a
/// full database would take a tenth of a second to refuse each write.
const RELIEF_REST_NS: u64 = 1_000_000_000;
/// Rounds of each wait, at most: with their pauses some tens of milliseconds, in which a thread that has lost its core inside
/// the epoch gets it back.
pub(super) const RELIEF_ROUNDS_MAX: u32 = 256;
/// The first rounds only yield: a thread that is running leaves the epoch within them.
const RELIEF_YIELDS: u32 = 16;
/// How long each later round sleeps.
const RELIEF_PAUSE: Duration = Duration::from_micros(200);

/// One round of waiting until other threads leave the epoch.
pub(super) fn let_others_leave(round: u32) {
    match round < RELIEF_YIELDS {
        true => std::thread::yield_now(),
        false => std::thread::sleep(RELIEF_PAUSE),
    }
}

/// What beginning and ending a transaction is worth, in operations.
const WORK_OF_ENDS: u64 = 2;

/// Tells the scheme of a key under which there was nothing.
#[inline(always)]
fn note_absent<C: ConcurrencyControl>(txn: &mut C::Txn, point: &Point<C>, is_tracked: bool) {
    if C::TRACKS_READS && is_tracked {
        C::read_absent(txn, &point.target());
    }
}

// ---- what the operations are made of
impl<C: ConcurrencyControl> Txn<C> {
    /// The index's form of a key; long ones are copied to where they stay.
    #[inline(always)]
    pub(super) fn index_key<K: Key>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        let key = match key.short() {
            Some((slice, 8)) => index::Key { slice, len: 8, bytes: std::ptr::null() },
            Some((slice, len)) if len < 8 => {
                // The rest is zeros in every key of the index, whatever the type's own code says.
                index::Key { slice: slice & !(u64::MAX >> (8 * len)), len, bytes: std::ptr::null() }
            }
            _ => self.long_key(key)?,
        };
        match K::FIXED8 && key.len != 8 {
            false => Ok(key),
            true => Err(Fault::KeyNotOfEight { bytes: key.len as usize }),
        }
    }

    fn long_key<K: Key>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        // Taken out meanwhile: encoding is foreign code, and may use the transaction itself.
        let mut scratch = self.desk.scratch.take();
        let encoded = encode_whole(key, &mut scratch).and_then(|()| {
            let mut encoded = index_key(&scratch);
            if scratch.len() > 8 {
                // SAFETY: used within this call only, which runs no foreign code.
                let copied = unsafe { (*self.desk.arena.get()).copy(&scratch) };
                encoded.bytes = copied.map_err(|full| self.refuse(full.into()))?;
            }
            Ok(encoded)
        });
        self.desk.scratch.set(scratch);
        encoded
    }

    /// The copy of a long key is not looked at any more.
    #[cold]
    pub(super) fn release_key(&self, bytes: *const u8, len: u32) {
        // SAFETY: used within this call only.
        unsafe { (*self.desk.arena.get()).release(bytes, len as usize) };
    }

    #[inline(always)]
    fn locate<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: &impl AsKey<K>) -> Locate<'_, C> {
        let point = match (table.inner(self.desk.database), self.index_key(key)) {
            (Ok(table), Ok(key)) => Ok((std::ptr::from_ref(table), key)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        };
        Locate::new(self, point)
    }

    /// The bytes that a finished point operation has found. They last as long as the transaction: see
    /// [`ConcurrencyControl::value`].
    #[inline(always)]
    pub(super) fn found(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        match self.desk.context().profile.is_timing() {
            false => self.find(point),
            true => self.find_timed(point),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_timed(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        self.desk.enter(Activity::Control);
        let found = self.find(point);
        self.desk.enter(Activity::Useful);
        found
    }

    #[inline(always)]
    fn find(&self, point: &Point<C>) -> Result<Option<&[u8]>, Fault> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.desk.state.get() };
        let is_read = point.intent.is_read();
        if point.record.is_null() {
            note_absent::<C>(txn, point, is_read);
            return Ok(None);
        }
        // SAFETY: the access has ended.
        let value = unsafe { C::value(&point.access, point.record, point.intent, txn) };
        let value = value.map_err(|refused| self.refuse(refused))?;
        if value.is_none() {
            note_absent::<C>(txn, point, is_read);
        }
        // SAFETY: `value` promises the bytes until the transaction ends.
        Ok(value.map(|bytes| unsafe { &*bytes }))
    }

    /// Makes a change where a finished point operation has led. `Ok(Gone)`: look again.
    pub(super) fn change(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Fault> {
        self.check_change(change)?;
        self.make_change(point, change).or_else(|refused| self.refuse_change(refused, point))
    }

    /// As `change`, of a lock: or which transaction holds it.
    pub(super) fn lock(&self, point: &Point<C>) -> Result<Result<Written, Holder>, Fault> {
        self.check_change(Change::Lock)?;
        match self.make_change(point, Change::Lock) {
            Err(Refused::Held(holder)) => Ok(Err(holder)),
            made => made.or_else(|refused| self.refuse_change(refused, point)).map(Ok),
        }
    }

    #[inline(always)]
    fn check_change(&self, change: Change<'_>) -> Result<(), Fault> {
        if self.desk.read_only.get() {
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

    #[inline(always)]
    fn make_change(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Refused> {
        self.desk.enter(Activity::Versions);
        let made = match change {
            _ if !point.record.is_null() => self.write(point, change),
            Change::Update(_) | Change::Delete | Change::Lock => {
                // SAFETY: not borrowed outside of single calls.
                note_absent::<C>(unsafe { &mut *self.desk.state.get() }, point, true);
                Ok(Written::Absent)
            }
            Change::Put(value) | Change::Insert(value) => self.create(point, value, change),
        };
        self.desk.enter(Activity::Useful);
        made
    }

    /// What becomes of a change that was refused. `Ok(Gone)`: look again, memory has been given back meanwhile.
    #[cold]
    #[inline(never)]
    fn refuse_change(&self, refused: Refused, point: &Point<C>) -> Result<Written, Fault> {
        if refused == Refused::OutOfMemory && self.relieve_in_place(point) {
            return Ok(Written::Gone);
        }
        Err(self.refuse(refused))
    }

    /// Cleans up because memory is short, and waits for the epochs that have to pass before memory is given back: in an
    /// interactive transaction, which has nothing else in flight. True: some may have been; what was found before is to
    /// be looked for again.
    fn relieve_in_place(&self, point: &Point<C>) -> bool {
        let context = self.desk.context();
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*point.table };
        // (The maintenance of an index has looked at more than this row, and needs the epoch for that.)
        let is_alone =
            table.indexes.is_empty() && table.index.number() != DERIVED && self.desk.used.get() == 0;
        if !self.desk.is_interactive.get() || !is_alone || !self.may_wait_for_memory(self.desk.reliefs.get())
        {
            return false;
        }
        self.desk.reliefs.set(self.desk.reliefs.get() + 1);
        let more = C::relieve(context.env());
        context.local.adopt();
        if !more && !context.local.awaits_memory() {
            return false;
        }
        let epochs = &context.engine.epochs;
        let moment = epochs.moment();
        context.leave();
        for round in 0..RELIEF_ROUNDS_MAX {
            context.local.refresh(None);
            let is_past = epochs.is_past(moment) && context.local.pending() == 0;
            if is_past && round >= 1 << self.desk.reliefs.get() {
                break;
            }
            let_others_leave(round);
        }
        context.enter();
        true
    }

    /// Returns true if the transaction, which has waited for memory this often, may do so once more; notes it when one has waited
    /// as often as any does.
    #[cold]
    pub(super) fn may_wait_for_memory(&self, reliefs: u32) -> bool {
        let context = self.desk.context();
        let now_ns = context.engine.clock.now_ns();
        if now_ns < context.waits_from_ns.get() {
            return false;
        }
        if reliefs >= RELIEFS_MAX {
            context.waits_from_ns.set(now_ns.saturating_add(RELIEF_REST_NS));
        }
        reliefs < RELIEFS_MAX
    }

    /// The transaction cannot go on.
    #[cold]
    pub(super) fn refuse(&self, refused: Refused) -> Fault {
        if refused == Refused::OutOfMemory {
            let context = self.desk.context();
            let more = C::relieve(context.env());
            context.engine.notice_stalls();
            context.local.adopt();
            self.desk.is_relieved.set(more || context.local.awaits_memory());
        }
        self.doom(Fault::refused(refused, self.desk.context().engine.memory.limit_bytes()))
    }

    fn write(&self, point: &Point<C>, change: Change<'_>) -> Result<Written, Refused> {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.desk.state.get() };
        // SAFETY: the index named the record in this operation, inside its epoch.
        let result =
            unsafe { C::write(self.desk.context().env(), txn, point.record, &point.target(), change) };
        if result == Err(Refused::Abort(Abort::WriteConflict)) {
            self.note_blocker(point);
        }
        result
    }

    /// Another transaction is in the way: if it is an open one, that is to be known when this one is run again.
    #[cold]
    fn note_blocker(&self, point: &Point<C>) {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &*self.desk.state.get() };
        // SAFETY: the index named the record in this operation, inside its epoch.
        let holder = unsafe { C::holder(self.desk.shared(), txn, point.record) };
        let what = Wanted::new(point.table, &point.key);
        self.desk.blocker.set(holder.map(|holder| Blocker { what, row: point.id, holder }));
    }

    /// What its waits are known by.
    pub(super) fn place(&self) -> u32 {
        // SAFETY: not borrowed outside of single calls.
        C::place(unsafe { &*self.desk.state.get() })
    }

    /// A new record for a key that the index does not have.
    fn create(&self, point: &Point<C>, value: &[u8], change: Change<'_>) -> Result<Written, Refused> {
        let context = self.desk.context();
        let records = &context.engine.records;
        // SAFETY: the table is alive.
        let table = unsafe { &*point.table };
        let id = table.allocate(records)?;
        let record = table.record(id).cast_mut();
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.desk.state.get() };
        // SAFETY: just allocated, so ours alone.
        if let Err(error) = unsafe { C::create(context.env(), txn, record, value) } {
            // SAFETY: not published.
            unsafe { table.free(records, id) };
            return Err(error.into());
        }
        self.desk.enter(Activity::Index);
        // SAFETY: inside the operation's epoch; the key's bytes live as long as the transaction.
        let inserted = unsafe { table.index.insert(&context.local, &point.cursor, &point.key, id) };
        self.desk.enter(Activity::Versions);
        self.desk.created.set(id);
        let target = Target { index: &raw const table.index, key: point.key, id };
        if let Ok(Inserted::New) = inserted {
            // SAFETY: `create` has just been called with the record.
            unsafe { C::created(txn, record, &target) };
            return Ok(Written::Done);
        }
        // SAFETY: made just above.
        unsafe { C::discard(context.env(), record, &target) };
        match inserted? {
            Inserted::New => unreachable!("handled above"),
            Inserted::Exists(id) => {
                self.desk.created.set(id);
                self.write(&Point { id, record: table.record(id), ..*point }, change)
            }
        }
    }

    /// Lets the transaction not commit any more: one of its operations has failed half-way, or has
    /// to give way.
    #[cold]
    pub(super) fn doom(&self, fault: Fault) -> Fault {
        self.desk.doomed.set(Some(fault));
        fault
    }
}

// ---- life of one attempt
impl<C: ConcurrencyControl> Txn<C> {
    /// Undoes the attempt, and cancels what the mailbox holds, whose futures may have been leaked.
    pub(crate) fn abort(&self) {
        self.desk.enter(Activity::Control);
        // SAFETY: the attempt's futures are gone, or leaked and never polled again.
        C::abort(self.desk.context().env(), unsafe { &mut *self.desk.state.get() });
        self.desk.clear();
        if self.desk.context().profile.is_on() {
            self.desk.context().profile.undo(self.desk.slot);
        }
    }

    /// After a successful commit.
    #[inline(always)]
    pub(crate) fn ended(&self) {
        if self.desk.durability.get() == Durability::Sync {
            // SAFETY: not borrowed outside of single calls.
            let state = unsafe { &*self.desk.state.get() };
            let engine = &self.desk.context().engine;
            self.desk.held_until.set(engine.hold_committed(self.desk.end_lsn.get(), state));
        }
        self.desk.clear();
        if self.desk.context().profile.is_on() {
            self.desk.context().profile.keep(self.desk.slot);
        }
    }

    /// The closure has failed. What it says by that may rest on what it has seen, so it is held back likewise.
    #[cold]
    pub(super) fn failed(&self, error: &Error) {
        let tells = matches!(
            error,
            Error::KeyExists | Error::UniqueViolation { .. } | Error::User(_) | Error::Malformed { .. }
        );
        if tells && self.desk.durability.get() == Durability::Sync {
            self.desk.held_until.set(self.desk.context().engine.hold(Lsn(0)));
        }
    }

    /// What a commit that failed is answered.
    #[cold]
    pub(super) fn commit_error(&self, fault: Fault) -> Error {
        match fault {
            Fault::Abort(Abort::Unlogged(why)) => self.desk.context().engine.unlogged(why),
            Fault::Abort(Abort::OutOfMemory) => self.desk.context().engine.out_of_memory(),
            fault => fault.into(),
        }
    }
}

// ---- what is counted
impl<C: ConcurrencyControl> Txn<C> {
    /// When it began, if it is one to be measured.
    #[inline(always)]
    pub(super) fn sample_start(&self) -> Option<u64> {
        let context = self.desk.context();
        context.metrics.samples_now().then(|| context.engine.clock.now_ns())
    }

    #[inline(always)]
    pub(super) fn count_commit(&self, sample: Option<u64>) {
        let context = self.desk.context();
        context.metrics.commits.add(1);
        self.count_work();
        if let Some(start_ns) = sample {
            context.metrics.record_latency(context.engine.clock.now_ns().saturating_sub(start_ns));
        }
    }

    #[cold]
    pub(super) fn count_conflict(&self, is_retried: bool) {
        let metrics = &self.desk.context().metrics;
        metrics.aborts_conflict.add(1);
        metrics.retries.add(u64::from(is_retried));
        self.desk.operations.set(0); // they were in vain
    }

    #[cold]
    pub(super) fn count_failure(&self, error: &Error) {
        let metrics = &self.desk.context().metrics;
        match error {
            Error::Conflict | Error::Deadlock(_) => self.count_conflict(false),
            Error::OutOfMemory { .. } => metrics.aborts_out_of_memory.add(1),
            _ => {
                metrics.aborts_user.add(1);
                self.count_work(); // as it wanted
            }
        }
    }

    /// What it has done was not in vain.
    #[inline(always)]
    fn count_work(&self) {
        let work = &self.desk.context().work;
        work.set(work.get() + WORK_OF_ENDS + u64::from(self.desk.operations.get()));
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.desk.in_place.get() != InPlace::Not
    }
}

impl<C: ConcurrencyControl> Operations for Txn<C> {
    #[inline(always)]
    fn step<S: Suspend>(&self, s: &mut S) -> bool {
        self.desk.step(s)
    }
    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.desk.has_pending()
    }
    #[inline(always)]
    fn has_unfetched(&self) -> bool {
        self.desk.has_unfetched()
    }
    fn must_finish(&self) -> bool {
        self.desk.must_finish()
    }
    fn can_restart(&self) -> bool {
        self.desk.can_restart()
    }
    fn restart(&self) {
        self.desk.restart();
    }
    #[inline(always)]
    fn held_until(&self) -> u64 {
        self.desk.held_until.take()
    }
    fn started(&self) {
        self.desk.started();
    }
    fn work_under_way(&self) -> u64 {
        self.desk.work_under_way()
    }
    fn set_long(&self) {
        self.desk.set_long();
    }
    fn placed(&self, slot_waker: &Waker) {
        self.desk.placed(slot_waker);
    }
    fn ended(&self) {
        Operations::ended(&self.desk);
    }
}
