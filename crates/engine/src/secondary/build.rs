//! Builds an index of a table that is in use.
//!
//! 1. Publish the index. Writes that begin from now on maintain it.
//! 2. Wait until every transaction that was open then has ended. The following steps see their writes.
//! 3. Row by row, a few in each transaction: lock the row, so that no other transaction changes it, and add its entry
//!    if it is missing.
//! 4. Transactions that begin now find everything.

use crate::cc::{Abort, Change, ConcurrencyControl, Intent, Written, once};
use crate::error::{Error, Result};
use crate::events::{event, ms, text};
use crate::index::{DERIVED, IndexKind};
use crate::kernel::{Engine, WAIT, WAITS_MAX, guarded, pause};
use crate::ops::{Point, TxnState};
use crate::options::Durability;
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::table::{
    BUILDING, Columns, DEAD, Description, Extract, Fault, Function, INDEXES_MAX, IndexInner, ProjectionPart,
    TableInner, TableKind, TableOptions, index_key, split_entry,
};
use crate::txn::{TableKeys, Transaction, delete_entries};
use std::ops::Bound;
use std::sync::Arc;

/// Rows whose entries one transaction adds.
const ROWS: usize = if cfg!(test) { 4 } else { 256 };

/// The properties of an index before it exists.
pub(crate) struct Declared {
    pub(crate) name: String,
    /// The type of its keys, by name.
    pub(crate) key_type: String,
    pub(crate) is_unique: bool,
    /// The number of leading bits of its keys that give an entry's partition.
    pub(crate) leading_bits: Option<u32>,
    pub(crate) extract: Extract,
    /// The columns that `extract` makes the keys of, if the database keeps the index.
    pub(crate) columns: Option<Arc<Columns>>,
    /// The function that `extract` calls, if the index's name stands for that function alone.
    pub(crate) function: Option<Function>,
    /// Set if this is a projection's part and no index. `extract` tells it of each write.
    pub(crate) projection: Option<Arc<dyn ProjectionPart>>,
}

impl Declared {
    fn check_same(&self, index: &IndexInner) -> Result<()> {
        let leading_bits = index.entries.index.partitioning().leading_bits();
        let is_same = self.is_unique == index.is_unique && self.key_type == index.key_type;
        let has_same_columns = match (&self.columns, &index.columns) {
            (None, None) => true,
            (Some(one), Some(other)) => one.info == other.info,
            _ => false,
        };
        if is_same && has_same_columns && self.leading_bits == leading_bits {
            return self.check_same_function(index);
        }
        let existing = describe(index.is_unique, &index.key_type, leading_bits, index.columns.as_deref());
        let columns = self.columns.as_deref();
        let requested = describe(self.is_unique, &self.key_type, self.leading_bits, columns);
        Err(Error::IndexMismatch { name: self.name.clone(), existing, requested })
    }

    fn check_same_function(&self, index: &IndexInner) -> Result<()> {
        let (Some(one), Some(other)) = (self.function, index.function) else { return Ok(()) };
        if one == other {
            return Ok(());
        }
        let (existing, requested) = (format!("of {other}"), format!("of another function, {one}"));
        Err(Error::IndexMismatch { name: self.name.clone(), existing, requested })
    }

    /// Fails if the database keeps an index of this name. Such an index need not be in memory if nothing is written.
    fn check_free(&self, base: &TableInner) -> Result<()> {
        let description = base.description();
        match description.indexes.iter().find(|kept| kept.name == self.name && self.columns.is_none()) {
            Some(kept) => Err(Error::IndexMismatch {
                name: self.name.clone(),
                existing: kept.to_string(),
                requested: describe(self.is_unique, &self.key_type, self.leading_bits, None),
            }),
            None => Ok(()),
        }
    }
}

fn describe(is_unique: bool, key_type: &str, leading_bits: Option<u32>, columns: Option<&Columns>) -> String {
    if let Some(columns) = columns {
        return format!("{}, which are {key_type}", columns.info);
    }
    let parts = leading_bits.map_or_else(String::new, |bits| format!(", in partitions by {bits} bits"));
    format!("{}by {key_type}{parts}", if is_unique { "unique " } else { "" })
}

/// Returns the index of this name on a table: builds it, or finds the existing one. `keep` is called when a new index
/// has been built and before a transaction can read by it. If `keep` fails, there is no index.
pub(crate) fn open_index<'b, C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    base: &'b TableInner,
    declared: Declared,
    keep: impl FnOnce() -> Result<()>,
) -> Result<&'b IndexInner> {
    let mut keep = Some(keep);
    open_index_of(engine, base, declared, &mut || keep.take().map_or(Ok(()), |keep| keep()))
}

once! {
    fn open_index_of<'b, 'k>(
        engine: &Arc<Engine<C>>,
        base: &'b TableInner,
        declared: Declared,
        keep: &'k mut dyn FnMut() -> Result<()>,
    ) -> Result<&'b IndexInner> = open_index_here(engine, base, declared, keep);
}

fn open_index_here<'b, C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    base: &'b TableInner,
    declared: Declared,
    keep: &mut dyn FnMut() -> Result<()>,
) -> Result<&'b IndexInner> {
    engine.check_open()?;
    let began_ns = engine.clock.now_ns();
    let index = {
        let free = base.indexes.try_declaring();
        let declaring = engine.lock_or_refuse(free, || base.indexes.declaring())?;
        base.check_usable()?; // (Clearing it has been waited for.)
        let same = base.indexes.iter().find(|index| !index.is_dead() && index.name == declared.name);
        if let Some(index) = same {
            drop(declaring);
            declared.check_same(index)?;
            return await_other(engine, index).map(|()| index);
        }
        declared.check_free(base)?;
        engine.check_may_wait()?;
        publish(engine, base, declared, &declaring)?
    };
    let mut unless_built = GiveUp { engine, index, has_begun: false };
    await_older(engine, index)?;
    let from = match &index.projection {
        Some(_) => C::advance(&engine.shared),
        None => {
            unless_built.has_begun = true;
            build(engine, index)?
        }
    };
    keep()?;
    std::mem::forget(unless_built);
    index.serve(from);
    tell_built(engine, index, began_ns);
    Ok(index)
}

fn tell_built<C: ConcurrencyControl>(engine: &Engine<C>, index: &IndexInner, began_ns: u64) {
    // SAFETY: the table holds the index.
    let table = || unsafe { &*index.base }.name();
    let duration_ms = || ms(engine.clock.now_ns().saturating_sub(began_ns));
    match index.projection {
        Some(_) => event!(
            DEBUG,
            TABLE,
            "projection declared",
            database = engine.id,
            table = text(table()),
            projection = index.name.as_str()
        ),
        None => event!(
            DEBUG,
            TABLE,
            "index built",
            database = engine.id,
            table = text(table()),
            index = index.name.as_str(),
            is_unique = index.is_unique,
            duration_ms = duration_ms()
        ),
    }
}

/// Has writers maintain a new index from now on.
fn publish<'b, C: ConcurrencyControl>(
    engine: &Engine<C>,
    base: &'b TableInner,
    declared: Declared,
    declaring: &MutexGuard<'_, ()>,
) -> Result<&'b IndexInner> {
    if base.indexes.alive() >= INDEXES_MAX {
        let reason = format!("a table can have {INDEXES_MAX} indexes and projections");
        return Err(not_built(&declared.name, reason));
    }
    let Declared { name, key_type, is_unique, leading_bits, extract, columns, function, projection } =
        declared;
    let kind = TableKind {
        fixed8: false,
        // Entries are found by ranges of keys.
        options: TableOptions { index: entries_kind(base.kind.options.index), ..TableOptions::default() },
    };
    let description = Description { name: name.clone(), ..Description::default() };
    let entries = engine.new_table(DERIVED, kind, description)?;
    let said = entries.index.partitioning().say(leading_bits, engine.options.lab.partitions);
    debug_assert_eq!(said, Ok(()), "no other thread has the index");
    // A caller that opens the table with another version of its type has finished before this, or sees the index.
    let _catalog = engine.tables.lock().expect("no panic while it is held");
    if let Some(columns) = &columns {
        let not_possible = |reason| Error::IndexedColumns { table: base.name(), index: name.clone(), reason };
        let description = base.description().clone();
        columns.learn(&description).map_err(not_possible)?;
    }
    let index = IndexInner {
        entries,
        base,
        name,
        key_type,
        is_unique,
        extract,
        columns,
        function,
        projection,
        readable_from: AtomicU64::new(BUILDING),
        next: AtomicPtr::new(std::ptr::null_mut()),
    };
    if index.projection.is_none() {
        base.index.kept().switch_on(); // before there is an entry
    }
    Ok(base.indexes.push(index, declaring))
}

/// Returns the kind of index for the entries: that of the table, if it has an order of keys.
fn entries_kind(of_table: IndexKind) -> IndexKind {
    if of_table.is_ordered() { of_table } else { IndexKind::default() }
}

/// Takes an index out of use that could not be built, and deletes its entries. Foreign code may have panicked.
struct GiveUp<'i, C: ConcurrencyControl> {
    engine: &'i Arc<Engine<C>>,
    index: &'i IndexInner,
    /// Building has begun: all rows so far have entries.
    has_begun: bool,
}

impl<C: ConcurrencyControl> Drop for GiveUp<'_, C> {
    fn drop(&mut self) {
        self.index.give_up();
        if self.has_begun {
            // Entries that cannot be deleted take memory until the table is dropped.
            let _ = delete_entries(self.engine, self.index);
        }
    }
}

fn not_built(name: &str, reason: impl Into<String>) -> Error {
    Error::IndexNotBuilt { index: name.into(), reason: reason.into() }
}

/// Waits until another caller has built the index.
fn await_other<C: ConcurrencyControl>(engine: &Engine<C>, index: &IndexInner) -> Result<()> {
    for _ in 0..WAITS_MAX {
        // Acquire: pairs with the Release in `serve`.
        if index.readable_from.load(Ordering::Acquire) != BUILDING {
            break;
        }
        engine.check_may_wait()?;
        std::thread::sleep(WAIT);
    }
    match index.readable_from.load(Ordering::Acquire) < DEAD {
        true => Ok(()),
        false => Err(not_built(&index.name, "another thread is building it, or has given up just now")),
    }
}

/// Waits until all transactions have ended that began before the index was published.
fn await_older<C: ConcurrencyControl>(engine: &Engine<C>, index: &IndexInner) -> Result<()> {
    if engine.await_older()? {
        return Ok(());
    }
    Err(not_built(&index.name, "a transaction that was open when it was declared has not ended"))
}

/// Adds the entries of all rows. Returns the first snapshot that sees them.
fn build<C: ConcurrencyControl>(engine: &Arc<Engine<C>>, index: &IndexInner) -> Result<u64> {
    // SAFETY: the table holds the index.
    let base = unsafe { &*index.base };
    let (mut from, mut waits) = (Some(Bound::Unbounded), 0);
    while let Some(place) = &from {
        match add_some(engine, index, base, place) {
            Ok(next) => (from, waits) = (next, 0),
            Err(Error::Conflict) if waits < WAITS_MAX => {
                pause(waits);
                waits += 1;
            }
            Err(Error::Conflict) => {
                return Err(not_built(&index.name, "other transactions kept one of its rows locked"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(C::advance(&engine.shared))
}

/// Adds the entries of the next rows. Returns where the rows after them begin. Writers add the entries of rows that
/// come later.
fn add_some<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    index: &IndexInner,
    base: &TableInner,
    from: &Bound<Vec<u8>>,
) -> Result<Option<Bound<Vec<u8>>>> {
    base.check_usable()?;
    let transaction = Transaction::begin(engine)?;
    transaction.declare_read_only();
    let from = from.as_ref().map(Vec::as_slice);
    let TableKeys { keys, next } = TableKeys::read(&transaction, base, from, ROWS, |_, _| Ok(true))?;
    drop(transaction);
    add_all(engine, index, &keys)?;
    Ok(next)
}

/// Adds the entries of some rows, in a transaction of its own.
fn add_all<C: ConcurrencyControl>(
    engine: &Arc<Engine<C>>,
    index: &IndexInner,
    keys: &[Vec<u8>],
) -> Result<()> {
    let transaction = Transaction::begin_derived(engine)?;
    if engine.options.durability != Durability::None {
        transaction.set_durability(Durability::Async)?; // nothing of it is in the log
    }
    let mut bytes = Vec::new();
    transaction.lend(|txn| keys.iter().try_for_each(|key| add(txn, index, key, &mut bytes)))?;
    transaction.commit()
}

/// Adds the entry of the row under `key`, if the row exists and its entry is missing. The bytes of `key` live as long
/// as the transaction.
fn add<C: ConcurrencyControl>(
    txn: &TxnState<C>,
    index: &IndexInner,
    key: &[u8],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    // SAFETY: the table holds the index.
    let base = unsafe { &*index.base };
    let mut row = Point::new(base, index_key(key), Intent::Lock);
    locate(txn, &mut row)?;
    match txn.change(&row, Change::Lock)? {
        Written::Done => {}
        Written::Absent => return Ok(()),
        Written::Gone | Written::Exists => return Err(Error::Conflict),
    }
    let Some(value) = txn.found(&row)? else { return Ok(()) };
    bytes.clear();
    let of_index = || format!("the function of the index {:?} of the table {:?}", index.name, base.name());
    if !guarded(of_index, || (index.extract)(key, value, bytes))? {
        return Ok(());
    }
    let length = bytes.len();
    let mut entry = index.entry(txn, bytes, 0..length, key);
    locate(txn, &mut entry)?;
    if let Some(there) = txn.found(&entry)? {
        let (id, other) = split_entry(there);
        if id == row.id {
            return Ok(());
        }
        if index.is_unique {
            return Err(not_unique(index, key, other));
        }
    }
    index.entry_value(row.id, key, bytes);
    if C::has_partitions(txn.shared()) {
        index.note_place(&entry.key, &row.key);
    }
    match txn.change(&entry, index.coming(bytes))? {
        Written::Done => Ok(()),
        _ => Err(Error::Conflict), // look again
    }
}

fn locate<C: ConcurrencyControl>(txn: &TxnState<C>, point: &mut Point<C>) -> Result<()> {
    match txn.run_point(point) {
        true => Ok(()),
        false => Err(txn.doom(Fault::Abort(Abort::WaitTimeout)).into()),
    }
}

fn not_unique(index: &IndexInner, key: &[u8], other: &[u8]) -> Error {
    let (key, other) = (key.escape_ascii(), other.escape_ascii());
    not_built(&index.name, format!("the rows under \"{other}\" and \"{key}\" (encoded) have the same key"))
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use crate::{Database, Options, Table};
    use std::sync::{Arc, Mutex};

    /// Proves that a declaration that is kept waiting, by a transaction that stays open or by a row that stays
    /// locked, ends with an error that says so, and that the name is free again.
    #[test]
    fn kept_waiting() {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory");
        let table: Table<u64, u64> = db.table("t").expect("memory");
        let open = db.begin().expect("room");
        for key in 0..10 {
            open.put(table, key, key % 3).expect("no conflict");
        }
        let open = std::thread::spawn(move || open.with(async |_| Ok(())).map(|()| open)).join();
        let open = open.expect("no panic").expect("it is another thread's now");
        let refused = db.index(table, "i", |_, value: u64| Some(value)).expect_err("one is open");
        assert!(refused.to_string().contains("has not ended"), "{refused}");
        open.commit().expect("no conflict");

        // This transaction begins when the first rows are looked at, and locks one of the last.
        let holder = Arc::new(Mutex::new(None));
        let (held, starts) = (holder.clone(), Mutex::new(Some(db.clone())));
        let locking = move |_: &u64, value: u64| {
            if let Some(db) = starts.lock().expect("no panic").take() {
                let tx = db.begin().expect("room");
                assert_eq!(tx.get_for_update(table, 9).expect("no conflict"), Some(0));
                *held.lock().expect("no panic") = Some(tx);
            }
            Some(value)
        };
        let refused = db.index(table, "i", locking).expect_err("a row is locked");
        assert!(refused.to_string().contains("locked"), "{refused}");
        drop(holder.lock().expect("no panic").take());

        let index = db.index(table, "i", |_, value: u64| Some(value)).expect("nothing is in the way");
        let tx = db.begin().expect("room");
        let (mut rows, mut found) = (tx.scan_by(index, 0u64..=0), vec![]);
        while let Some((_, key, _)) = rows.next().expect("no conflict") {
            found.push(key);
        }
        assert_eq!(found, [0, 3, 6, 9]);
    }
}
