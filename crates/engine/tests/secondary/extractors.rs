//! Extractors that use the transaction that calls them.

use braiddb::{Database, Error, Index, Options, Table, Transaction};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Writer = (Rc<Transaction>, Table<u64, u64>);

thread_local! {
    /// The transaction and the table with which an extractor on this thread writes, and the number of writes that it
    /// still makes.
    static WRITER: RefCell<Option<Writer>> = const { RefCell::new(None) };
    static WRITES_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// The value that an extractor writes under the key for which it is called, in the table of `WRITER`.
const WRITTEN: u64 = 300;

/// An extractor that returns the value's hundreds. Before that it writes, if writes are left.
fn hundreds(key: u64, value: u64) -> Option<u64> {
    if WRITES_LEFT.get() > 0 {
        WRITES_LEFT.set(WRITES_LEFT.get() - 1);
        let writer = WRITER.with_borrow(Option::clone);
        if let Some((tx, table)) = writer {
            tx.put(table, key, WRITTEN).unwrap();
        }
    }
    Some(value / 100)
}

struct Setting {
    db: Database,
    rows: Table<u64, u64>,
    others: Table<u64, u64>,
    by_hundreds: Index<u64, u64, u64>,
}

impl Setting {
    /// Row 1 is 100.
    fn new() -> Setting {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let (rows, others) = (db.table("rows").unwrap(), db.table("others").unwrap());
        let by_hundreds = db.index(rows, "by hundreds", |&key: &u64, value: u64| hundreds(key, value));
        let by_hundreds = by_hundreds.unwrap();
        let tx = db.begin().unwrap();
        tx.put(rows, 1, 100).unwrap();
        tx.commit().unwrap();
        Setting { db, rows, others, by_hundreds }
    }

    /// Runs `act` in a transaction in which the extractor writes row 1 of a table this many times, then commits.
    fn with_writes<R>(&self, table: Table<u64, u64>, writes: u32, act: impl FnOnce(&Transaction) -> R) -> R {
        let tx = Rc::new(self.db.begin().unwrap());
        WRITER.set(Some((tx.clone(), table)));
        WRITES_LEFT.set(writes);
        let result = act(&tx);
        WRITES_LEFT.set(0);
        WRITER.set(None);
        Rc::into_inner(tx).expect("the only one left").commit().unwrap();
        result
    }

    /// The rows that the index finds, in its order. Each entry must be its row's.
    fn indexed(&self) -> Vec<(u64, u64)> {
        let tx = self.db.begin().unwrap();
        let mut rows = tx.scan_by(self.by_hundreds, 0u64..);
        let mut found = Vec::new();
        while let Some((hundreds, key, row)) = rows.next().unwrap() {
            assert_eq!(hundreds, row / 100);
            found.push((key, row));
        }
        found
    }
}

#[test]
fn a_write_by_an_extractor_counts_as_written_before() {
    // Proves that a row is looked at again if its own index's extractor has changed it during the write, so that no
    // entry remains of what the extractor wrote.
    let setting = Setting::new();
    let rows = setting.rows;
    // The new row has the index key that the row had when the write began.
    setting.with_writes(rows, 1, |tx| tx.put(rows, 1, 101)).unwrap();
    assert_eq!(setting.indexed(), [(1, 101)]);
    setting.with_writes(rows, 1, |tx| tx.put(rows, 1, 200)).unwrap();
    assert_eq!(setting.indexed(), [(1, 200)]);
    let updated = setting.with_writes(rows, 1, |tx| tx.update(rows, 1, 250));
    assert!(updated.unwrap());
    assert_eq!(setting.indexed(), [(1, 250)]);
    let deleted = setting.with_writes(rows, 1, |tx| tx.delete(rows, 1));
    assert!(deleted.unwrap());
    assert_eq!(setting.indexed(), []);
    // The row was absent when the write began.
    let inserted = setting.with_writes(rows, 1, |tx| tx.insert(rows, 1, 400));
    assert!(matches!(inserted, Err(Error::KeyExists)), "{inserted:?}");
    assert_eq!(setting.indexed(), [(1, WRITTEN)]);
}

#[test]
fn an_extractor_that_always_writes_is_an_error() {
    // Proves that a write does not begin again for ever: it changes nothing, says why, and the transaction continues.
    let setting = Setting::new();
    let (rows, others) = (setting.rows, setting.others);
    let result = setting.with_writes(others, u32::MAX, |tx| {
        let result = tx.put(rows, 1, 200);
        WRITES_LEFT.set(0);
        tx.put(rows, 2, 50).unwrap();
        result
    });
    let Err(Error::ExtractorWrites { index }) = result else { panic!("{result:?}") };
    assert_eq!(index, "by hundreds");
    assert_eq!(setting.indexed(), [(2, 50), (1, 100)]);
    assert_eq!(setting.db.begin().unwrap().get(others, 1).unwrap(), Some(WRITTEN));
}
