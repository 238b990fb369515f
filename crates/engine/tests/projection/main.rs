//! Projections: columns of a table's rows beside the table.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod patches;
mod refreshing;
mod serializable;
mod texts;

use braiddb::storage::MemoryStorage;
use braiddb::suspend::Seeded;
use braiddb::{
    Columns, ConcurrencyControl, Database, Error, HStore, IndexKind, MultiVersion, NoWait, Options,
    Projection, ProjectionOptions, Result, Selection, Serializable, Silo, Snapshot, Table, TableOptions,
    Transaction,
};
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

fn options() -> Options {
    Options { workers: 0, ..Options::default() }
}

fn in_memory<C: ConcurrencyControl>() -> Database<C> {
    Database::in_memory_with(options(), Arc::new(braiddb::metrics::SystemClock::default())).unwrap()
}

fn blocks_of(block_rows: usize) -> ProjectionOptions {
    let mut options = ProjectionOptions::default();
    options.block_rows = block_rows;
    options
}

type Numbers = Table<u64, i64>;
/// A projection of these rows, with the value as the only column.
type Values<C> = Projection<u64, i64, (i64,), C>;

/// Writes rows `keys`, each with its key as its value.
fn fill<C: ConcurrencyControl>(db: &Database<C>, table: Numbers, keys: std::ops::Range<u64>) {
    db.transact(|tx| keys.clone().try_for_each(|key| tx.put(table, key, key as i64))).unwrap();
}

fn reader<C: ConcurrencyControl>(db: &Database<C>) -> Transaction<C> {
    let tx = db.begin().unwrap();
    tx.declare_read_only();
    tx
}

/// Returns the rows of a projection with one column, with their keys.
fn rows<C: ConcurrencyControl>(
    projection: &Values<C>,
    tx: &Transaction<C>,
    range: impl RangeBounds<u64>,
) -> Result<Vec<(u64, i64)>> {
    let (mut scan, mut rows) = (projection.scan(tx, range)?, vec![]);
    while let Some(batch) = scan.next()? {
        let (column,) = batch.columns();
        assert_eq!(column.len(), batch.len());
        for (row, &value) in column.iter().enumerate() {
            rows.push((batch.key(row)?, value));
        }
    }
    Ok(rows)
}

/// Returns the same from the table.
fn rows_of_table<C: ConcurrencyControl>(
    table: Numbers,
    tx: &Transaction<C>,
    range: impl RangeBounds<u64>,
) -> Vec<(u64, i64)> {
    let mut rows = vec![];
    tx.scan(table, range).for_each(|key, value| rows.push((key, value))).unwrap();
    rows
}

fn all<C: ConcurrencyControl>(projection: &Values<C>, db: &Database<C>) -> Vec<(u64, i64)> {
    rows(projection, &reader(db), ..).unwrap()
}

fn simple<C: ConcurrencyControl>(block_rows: usize) -> (Database<C>, Numbers, Values<C>) {
    let db = in_memory();
    let table = db.table("numbers").unwrap();
    let projection = db.projection_with(table, "columns", blocks_of(block_rows), |_, value| Some((value,)));
    (db, table, projection.unwrap())
}

/// Ends the other threads of a test when it is dropped, also if an assertion has failed.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Compares random writes, refreshes and scans of random ranges with the table itself.
fn behaves_as_the_table<C: ConcurrencyControl>(seed: u64) {
    let mut random = Seeded::new(seed);
    let is_large = seed.is_multiple_of(4); // so that parts of blocks are batches
    let block_rows = match seed % 8 {
        0 => 500,
        4 => 2500, // more changes than are looked for together
        _ => 1,
    } + random.next_u64() % 20;
    let (db, table, projection) = simple::<C>(block_rows as usize);
    let keys = if is_large { 3000 } else { 1 + random.next_u64() % 300 };
    if is_large {
        fill(&db, table, 0..keys);
    }
    for _ in 0..60 {
        let written = db.transact(|tx| {
            for _ in 0..random.next_u64() % 30 {
                let (key, value) = (random.next_u64() % keys, random.next_u64() as i64 >> 8);
                match random.next_u64() % 6 {
                    0 => drop(tx.delete(table, key)?),
                    1 => drop(tx.add(table, key, 1)?),
                    2 => drop(tx.update(table, key, value)?),
                    _ => tx.put(table, key, value)?,
                }
            }
            match random.next_u64().is_multiple_of(8) {
                true => Err(Error::user("undone")),
                false => Ok(()),
            }
        });
        assert!(matches!(written, Ok(()) | Err(Error::User(_))), "{written:?}");
        match random.next_u64() % 8 {
            0 | 1 => drop(projection.refresh().unwrap()),
            2 if random.next_u64().is_multiple_of(4) => projection.discard(),
            3 if random.next_u64().is_multiple_of(4) => db.clear(table).unwrap(),
            _ => {}
        }
        let tx = reader(&db);
        let mut bound = || {
            let key = random.next_u64() % (keys + 2);
            [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded][(random.next_u64() % 3) as usize]
        };
        for range in [(Bound::Unbounded, Bound::Unbounded), (bound(), bound()), (bound(), bound())] {
            let (from, to) = (range.0, range.1);
            let key = |bound: Bound<u64>| match bound {
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
                Bound::Unbounded => None,
            };
            if key(from).zip(key(to)).is_some_and(|(from, to)| from >= to) {
                let found = rows(&projection, &tx, range).unwrap();
                assert!(found.iter().all(|(key, _)| range.contains(key)), "seed {seed:#x}, {range:?}");
                continue;
            }
            let found = rows(&projection, &tx, range).unwrap();
            assert_eq!(found, rows_of_table(table, &tx, range), "seed {seed:#x}, {range:?}");
        }
    }
}

#[test]
fn model() {
    for seed in 0..40 {
        behaves_as_the_table::<Serializable>(seed);
        behaves_as_the_table::<Snapshot>(seed);
    }
}

/// Proves keys of any length, several columns, rows that are left out, and columns that are arrays.
#[test]
fn types() {
    let db = Database::in_memory(options()).unwrap();
    let table: Table<String, (u32, f64)> = db.table("names").unwrap();
    let make = |name: &String, (number, factor): (u32, f64)| {
        (number % 3 != 0).then_some((number, factor, name.len() as u8))
    };
    let columns = db.projection_with(table, "columns", blocks_of(10), make).unwrap();
    let names: Vec<String> =
        (0..200u32).map(|n| "name ".repeat(1 + n as usize % 7) + &n.to_string()).collect();
    let put = |step: usize, factor: f64| {
        db.transact(|tx| {
            let mut some = names.iter().enumerate().step_by(step);
            some.try_for_each(|(n, name)| tx.put(table, name.as_str(), (n as u32, n as f64 * factor)))
        })
        .unwrap();
    };
    let check = || {
        let (tx, mut found, mut expected) = (reader(&db), vec![], vec![]);
        let mut scan = columns.scan_all(&tx).unwrap();
        while let Some(batch) = scan.next().unwrap() {
            let (numbers, factors, lengths) = batch.columns();
            for row in 0..batch.len() {
                found.push((batch.key(row).unwrap(), (numbers[row], factors[row], lengths[row])));
            }
        }
        let collect = |name, value| {
            if let Some(row) = make(&name, value) {
                expected.push((name, row));
            }
        };
        tx.scan_all(table).for_each(collect).unwrap();
        assert_eq!(found, expected);
    };
    put(2, 1.0);
    check();
    assert_eq!(columns.refresh().unwrap(), 66);
    check();
    put(1, 2.0);
    check();
    assert!(columns.refresh().unwrap() > 66);
    check();
    put(9, 3.0);
    check();

    let pairs =
        db.projection(table, "pairs", |_, (number, factor)| Some([f64::from(number), factor])).unwrap();
    pairs.refresh().unwrap();
    let (tx, mut sums) = (reader(&db), [0.0, 0.0]);
    let mut scan = pairs.scan::<&str>(&tx, "name 1".."name 2").unwrap();
    while let Some(batch) = scan.next().unwrap() {
        for (sum, column) in sums.iter_mut().zip(batch.columns()) {
            *sum += column.iter().sum::<f64>();
        }
    }
    let mut expected = [0.0, 0.0];
    let add = |_, (number, factor)| {
        expected[0] += f64::from(number);
        expected[1] += factor;
    };
    tx.scan(table, "name 1".."name 2").for_each(add).unwrap();
    assert_eq!(sums, expected);
    assert!(sums[0] > 0.0);
}

/// Proves that a transaction that was open before sees by columns what it sees by rows, whatever is written and
/// refreshed meanwhile.
#[test]
fn old_snapshots() {
    let (db, table, projection) = simple::<Snapshot>(8);
    fill(&db, table, 0..50);
    projection.refresh().unwrap();
    let before = reader(&db);
    db.transact(|tx| tx.put(table, 7, -1)).unwrap();
    db.transact(|tx| tx.delete(table, 9)).unwrap();
    fill(&db, table, 50..60);
    let between = reader(&db);
    db.transact(|tx| tx.put(table, 8, -1)).unwrap();
    let found = |tx: &Transaction<Snapshot>| {
        let found = rows(&projection, tx, ..).unwrap();
        assert_eq!(found, rows_of_table(table, tx, ..));
        found
    };
    let (first, second) = (found(&before), found(&between));
    assert_eq!((first.len(), second.len()), (50, 59));
    drop((before, between));
    let last = reader(&db);
    // On this thread, a refresh would wait for the transaction.
    let refreshed = thread::spawn({
        let projection = projection.clone();
        move || projection.refresh().unwrap()
    });
    let written = found(&last);
    drop(last);
    assert!(refreshed.join().unwrap() >= 19);
    let after = reader(&db);
    assert_eq!(found(&after), written);
    db.transact(|tx| tx.put(table, 0, -1)).unwrap();
    assert_eq!(found(&after), written);
}

/// Proves that a refresh waits for what an open transaction has written, which is then in the columns or among the
/// changes.
#[test]
fn open_writers() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..50);
    projection.refresh().unwrap();
    let writer = db.begin().unwrap();
    writer.put(table, 3, 300).unwrap();
    writer.insert(table, 60, 600).unwrap();
    thread::scope(|scope| {
        let refresh = scope.spawn(|| projection.refresh().unwrap());
        thread::sleep(Duration::from_millis(50));
        writer.commit().unwrap();
        assert!(refresh.join().unwrap() > 0);
    });
    let found = all(&projection, &db);
    assert_eq!((found.len(), found[3], found[50]), (51, (3, 300), (60, 600)));
}

/// Proves that a snapshot that is older than the columns reads the table.
#[test]
fn columns_that_are_too_new() {
    let (db, table, projection) = simple::<Snapshot>(8);
    fill(&db, table, 0..50);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&is_over);
            for value in 0.. {
                if is_over.load(Relaxed) {
                    break;
                }
                db.transact(|tx| tx.put(table, value as u64 % 50, value)).unwrap();
                projection.refresh().unwrap();
            }
        });
        let _ends = Ends(&is_over);
        for _ in 0..300 {
            // It may begin before or after a refresh, which has waited for older transactions, opens its snapshot.
            let tx = reader(&db);
            thread::yield_now();
            assert_eq!(rows(&projection, &tx, ..).unwrap(), rows_of_table(table, &tx, ..));
        }
    });
}

/// Proves that a writing transaction sees its own rows by columns, and no longer what it has undone.
#[test]
fn own_writes() {
    let (db, table, projection) = simple::<Snapshot>(8);
    fill(&db, table, 0..20);
    projection.refresh().unwrap();
    let tx = db.begin().unwrap();
    tx.put(table, 3, 300).unwrap();
    tx.delete(table, 4).unwrap();
    assert_eq!(rows(&projection, &tx, 2..6).unwrap(), [(2, 2), (3, 300), (5, 5)]);
    let savepoint = tx.savepoint();
    tx.put(table, 5, 500).unwrap();
    tx.insert(table, 99, 99).unwrap();
    assert_eq!(rows(&projection, &tx, 5..).unwrap().last(), Some(&(99, 99)));
    tx.rollback_to(&savepoint).unwrap();
    assert_eq!(rows(&projection, &tx, 2..6).unwrap(), [(2, 2), (3, 300), (5, 5)]);
    assert_eq!(all(&projection, &db)[2..6], [(2, 2), (3, 3), (4, 4), (5, 5)]);
    tx.abort();
    assert_eq!(all(&projection, &db), (0..20).map(|key| (key, key as i64)).collect::<Vec<_>>());
}

/// Threads move amounts from row to row, and insert and delete rows. Others refresh, discard and scan. Proves that
/// each finds the same sum by columns, and the table's rows.
fn under_concurrency<C: ConcurrencyControl>() {
    const KEYS: u64 = 500;
    let (db, table, projection) = simple::<C>(32);
    fill(&db, table, 0..KEYS);
    let (sum, is_over) = (KEYS as i64 * (KEYS as i64 - 1) / 2, AtomicBool::new(false));
    let write = |seed: u64| {
        let (mut random, _ends) = (Seeded::new(seed), Ends(&is_over));
        while !is_over.load(Relaxed) {
            let (from, to) = (random.next_u64() % KEYS, random.next_u64() % (2 * KEYS));
            let moved = db.transact(|tx| {
                let Some(amount) = tx.get(table, from)? else { return Ok(()) };
                if from == to {
                    return Ok(());
                }
                let there = tx.get(table, to)?.unwrap_or(0);
                tx.delete(table, from)?;
                tx.put(table, to, there + amount / 2)?;
                tx.put(table, from, amount - amount / 2)
            });
            assert!(matches!(moved, Ok(()) | Err(Error::Conflict)), "{moved:?}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| write(1));
        scope.spawn(|| write(2));
        for discards_in in [u64::MAX, 20] {
            let (projection, is_over) = (&projection, &is_over);
            scope.spawn(move || {
                let _ends = Ends(is_over);
                for round in 1.. {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    projection.refresh().unwrap();
                    if round % discards_in == 0 {
                        projection.discard();
                    }
                }
            });
        }
        let _ends = Ends(&is_over);
        for _ in 0..150 {
            let tx = reader(&db);
            let found = rows(&projection, &tx, ..).unwrap();
            assert_eq!(found.iter().map(|(_, amount)| amount).sum::<i64>(), sum);
            assert_eq!(found, rows_of_table(table, &tx, ..));
        }
    });
}

#[test]
fn concurrency() {
    under_concurrency::<Serializable>();
    under_concurrency::<Snapshot>();
}

/// Proves that blocks without writes stay as they are, and that scans skip them by their contents.
#[test]
fn blocks() {
    let (db, table, projection) = simple::<Serializable>(10);
    fill(&db, table, 0..100);
    assert_eq!(projection.refresh().unwrap(), 100);
    assert_eq!(projection.refresh().unwrap(), 0);
    let batches = |least: i64| {
        let (tx, mut batches) = (reader(&db), vec![]);
        let mut scan = projection.scan_all(&tx).unwrap();
        while let Some(batch) = scan.next_where(|(value,)| value.meets(least..)).unwrap() {
            batches.push(batch.len());
        }
        batches
    };
    assert_eq!(batches(0), [10; 10]);
    assert_eq!(batches(75), [10; 3]);
    assert_eq!(batches(100), []);
    db.transact(|tx| tx.put(table, 33, 1000)).unwrap();
    assert_eq!(batches(75), [3, 1, 6, 10, 10, 10], "a block that was written is looked at");
    assert_eq!(projection.refresh().unwrap(), 10);
    assert_eq!(batches(75), [10; 4], "by its greatest value now");
    assert_eq!(batches(2000), []);
    fill(&db, table, 100..125);
    assert_eq!(projection.refresh().unwrap(), 35);
    assert_eq!(batches(95), [10, 10, 10, 10, 5]);
    db.transact(|tx| (0..100).try_for_each(|key| tx.delete(table, key).map(drop))).unwrap();
    projection.refresh().unwrap();
    assert_eq!(batches(0).iter().sum::<usize>(), 25);
}

/// Proves that the rest of a row is read in the table after a selection by columns.
#[test]
fn rows_by_columns() {
    let db = Database::in_memory(options()).unwrap();
    let table: Table<u32, (u16, String)> = db.table("people").unwrap();
    let born = db.projection(table, "born", |_, (born, _)| Some((born,))).unwrap();
    db.transact(|tx| {
        tx.put(table, 1, (1815, "Ada"))?;
        tx.put(table, 2, (1912, "Alan"))?;
        tx.put(table, 3, (1906, "Grace"))
    })
    .unwrap();
    born.refresh().unwrap();
    let (tx, mut selection, mut names) = (reader(&db), Selection::default(), vec![]);
    let mut scan = born.scan_all(&tx).unwrap();
    while let Some(batch) = scan.next().unwrap() {
        let (years,) = batch.columns();
        selection.select(years, |year| year > 1900);
        for &row in &*selection {
            names.push(tx.get(table, batch.key(row as usize).unwrap()).unwrap().unwrap().1);
        }
        assert!(catch_unwind(AssertUnwindSafe(|| batch.key(3))).is_err());
    }
    assert_eq!(names, ["Alan", "Grace"]);
}

fn refused<T>(result: Result<T>) -> Error {
    result.err().expect("refused")
}

/// Proves that impossible requests are refused with the reason and what to do, and leave everything as it was.
#[test]
fn refusals() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..5);
    let make = |_: &u64, value: i64| Some((value,));
    for block_rows in [0, usize::MAX] {
        let error = refused(db.projection_with(table, "p", blocks_of(block_rows), make));
        assert!(matches!(error, Error::InvalidOption { option: "block_rows", .. }), "{error}");
    }
    let same = db.projection_with(table, "columns", blocks_of(8), make).unwrap();
    projection.refresh().unwrap();
    assert_eq!(same.refresh().unwrap(), 0, "it is the same");
    let error = refused(db.projection_with(table, "columns", blocks_of(9), make));
    assert!(matches!(error, Error::IndexMismatch { .. }), "{error}");
    let error = refused(db.projection_with(table, "columns", blocks_of(8), |_, value| Some((value as u8,))));
    assert!(error.to_string().contains("u8"), "{error}");
    let error = refused(db.index(table, "columns", |_, value| Some(value)));
    assert!(matches!(error, Error::IndexMismatch { .. }), "{error}");
    db.index(table, "an index", |_, value| Some(value)).unwrap();
    let error = refused(db.projection(table, "an index", make));
    assert!(matches!(error, Error::IndexMismatch { .. }), "{error}");

    let hashed = TableOptions { index: IndexKind::Cuckoo, ..TableOptions::default() };
    let hashed: Numbers = db.table_with("hashed", hashed).unwrap();
    assert!(matches!(db.projection(hashed, "p", make), Err(Error::NoOrder { .. })));

    let other = Database::in_memory(options()).unwrap();
    assert!(matches!(other.projection(table, "p", make), Err(Error::WrongDatabase)));
    assert!(matches!(projection.scan_all(&reader(&other)), Err(Error::WrongDatabase)));
    drop(db);
    assert!(matches!(projection.refresh(), Err(Error::Closed)));
    projection.discard();
}

/// Proves that, without snapshots, columns of a frozen table are read, and no others.
fn frozen<C: ConcurrencyControl>() {
    let (db, table, projection) = simple::<C>(8);
    fill(&db, table, 0..30);
    assert!(matches!(projection.refresh(), Err(Error::NoSnapshot { .. })));
    let error = refused(projection.scan_all(&reader(&db)));
    assert!(matches!(&error, Error::NoSnapshot { table } if table == "numbers"), "{error}");
    assert!(error.to_string().contains("freeze"), "{error}");
    db.freeze(table).unwrap();
    assert_eq!(projection.refresh().unwrap(), 30);
    assert_eq!(all(&projection, &db).len(), 30);
    db.thaw(table).unwrap();
    db.transact(|tx| tx.put(table, 7, 70)).unwrap();
    fill(&db, table, 30..40);
    assert!(matches!(projection.scan_all(&db.begin().unwrap()), Err(Error::NoSnapshot { .. })));
    db.freeze(table).unwrap();
    for _ in 0..2 {
        let found = all(&projection, &db);
        assert_eq!((found.len(), found[7]), (40, (7, 70)));
        projection.refresh().unwrap();
    }
}

#[test]
fn frozen_tables() {
    frozen::<Silo>();
    frozen::<NoWait>();
    frozen::<HStore>();
    frozen::<MultiVersion>();
}

/// Proves that a cleared table has no rows in columns, that a dropped table is refused, and that a database that is
/// opened again has its columns when they are declared.
#[test]
fn tables_that_go_and_come() {
    let storage = MemoryStorage::new(u64::MAX);
    let open = || {
        let db = Database::open_with(
            Arc::new(storage.clone()),
            options(),
            Arc::new(braiddb::metrics::SystemClock::default()),
            &mut |_| {},
        );
        let db: Database = db.unwrap();
        let table: Numbers = db.table("numbers").unwrap();
        let projection = db.projection(table, "columns", |_, value| Some((value,))).unwrap();
        (db, table, projection)
    };
    let (db, table, projection) = open();
    fill(&db, table, 0..20);
    projection.refresh().unwrap();
    db.clear(table).unwrap();
    assert_eq!(all(&projection, &db), []);
    fill(&db, table, 5..8);
    assert_eq!(all(&projection, &db), [(5, 5), (6, 6), (7, 7)]);
    projection.refresh().unwrap();
    db.close().unwrap();

    let (db, _, projection) = open();
    assert_eq!(all(&projection, &db), [(5, 5), (6, 6), (7, 7)]);
    assert_eq!(projection.refresh().unwrap(), 3);
    assert_eq!(all(&projection, &db), [(5, 5), (6, 6), (7, 7)]);
    let tx = reader(&db);
    let _scan = projection.scan_all(&tx).unwrap();
    drop(tx);
    db.drop_table("numbers").unwrap();
    assert!(matches!(projection.scan_all(&reader(&db)), Err(Error::TableDropped)));
    assert!(matches!(projection.refresh(), Err(Error::TableDropped)));
}

/// Proves that columns are in the memory account, that at the limit a refresh is refused and scans continue, and that
/// discarded columns are given back.
#[test]
fn memory() {
    let db = Database::in_memory(Options { memory_limit_bytes: 24 << 20, ..options() }).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    for start in (0..60_000).step_by(1000) {
        fill(&db, table, start..start + 1000);
    }
    let used = || db.statistics().memory.other_bytes;
    let before = used();
    let narrow = db.projection(table, "narrow", |_, value| Some((value,))).unwrap();
    narrow.refresh().unwrap();
    let bytes = used() - before;
    assert!((960_000..1_100_000).contains(&bytes), "{bytes}");
    let wide = db.projection(table, "wide", |_, value| Some([value; 64])).unwrap();
    assert!(matches!(wide.refresh(), Err(Error::OutOfMemory { .. })));
    assert_eq!(used() - before, bytes, "nothing is left of it");
    let tx = reader(&db);
    let (mut scan, mut count) = (wide.scan_all(&tx).unwrap(), 0);
    while let Some(batch) = scan.next().unwrap() {
        count += batch.len();
        assert_eq!(batch.columns()[63].len(), batch.len());
    }
    assert_eq!(count, 60_000);
    drop(scan);
    drop(tx);
    narrow.discard();
    assert!(used() - before < 10_000, "{}", used() - before);
    assert_eq!(all(&narrow, &db).len(), 60_000);
}

/// Proves that a panic of the application's function is an error of the call, and that the next refresh does all of
/// the work.
#[test]
fn panics() {
    let db = Database::in_memory(options()).unwrap();
    let (table, is_bad): (Numbers, _) = (db.table("numbers").unwrap(), Arc::new(AtomicBool::new(true)));
    let bad = is_bad.clone();
    let make = move |key: &u64, value| {
        assert!(!(*key == 13 && bad.load(Relaxed)), "a bad row");
        Some((value,))
    };
    let projection: Values<Serializable> = db.projection_with(table, "columns", blocks_of(4), make).unwrap();
    fill(&db, table, 0..20);
    let refreshed = projection.refresh();
    let Err(Error::Panicked(text)) = &refreshed else { panic!("{refreshed:?}") };
    assert!(text.contains("\"numbers\"") && text.contains("a bad row"), "{text}");
    fill(&db, table, 20..30);
    let tx = reader(&db);
    let mut scan = projection.scan_all(&tx).unwrap();
    let scanned = loop {
        if let Err(error) = scan.next() {
            break error;
        }
    };
    assert!(matches!(&scanned, Error::Panicked(text) if text.contains("a bad row")), "{scanned}");
    drop(scan);
    drop(tx);
    is_bad.store(false, Relaxed);
    assert_eq!(all(&projection, &db).len(), 30);
    assert_eq!(projection.refresh().unwrap(), 30);
    assert_eq!(all(&projection, &db).len(), 30);
}

/// Proves that a block can still be read after the condition on it has panicked.
#[test]
fn panics_of_conditions() {
    let (db, table, projection) = simple::<Serializable>(10);
    fill(&db, table, 0..30);
    projection.refresh().unwrap();
    let tx = reader(&db);
    let (mut scan, mut found) = (projection.scan_all(&tx).unwrap(), 0);
    found += scan.next().unwrap().unwrap().len();
    assert!(
        catch_unwind(AssertUnwindSafe(|| scan.next_where(|_| panic!("a bad condition")).is_ok())).is_err()
    );
    while let Some(batch) = scan.next().unwrap() {
        found += batch.len();
    }
    assert_eq!(found, 30);
}

/// Proves that the columns of a cleared or dropped table are given back, although the projection remains.
#[test]
fn memory_of_tables_that_go() {
    let db = Database::in_memory(options()).unwrap();
    let used = || db.statistics().memory.other_bytes;
    let before = used();
    let mut left = Vec::new();
    for _ in 0..3 {
        let table: Numbers = db.table("numbers").unwrap();
        let projection = db.projection(table, "columns", |_, value| Some([value; 8])).unwrap();
        for empty in [Database::clear, |db: &Database, _: Numbers| db.drop_table("numbers")] {
            fill(&db, table, 0..5000);
            assert_eq!(projection.refresh().unwrap(), 5000);
            assert!(used() - before > 300_000);
            empty(&db, table).unwrap();
            assert!(used() - before < 100_000, "{}", used() - before);
        }
        left.push(projection);
    }
}

/// A glob's imports shadow no methods of the standard library.
mod glob {
    #[allow(unused_imports, reason = "that is what is tested")]
    use braiddb::*;

    #[test]
    fn import() {
        let (mut numbers, mut text) = (vec![1u64], String::new());
        numbers.push(2);
        text.push('x');
        numbers.clear();
        assert!(numbers.is_empty() && text.len() == 1);
    }
}

/// Proves that a row that cannot be decoded is named in the error.
#[test]
fn malformed_rows() {
    let db = Database::in_memory(options()).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    let projection = db.projection(table, "columns", |_, value| Some((value,))).unwrap();
    fill(&db, table, 0..3);
    let raw = db.raw_table("numbers").unwrap();
    db.worker().run(async |tx| raw.put(tx, &1u64.to_be_bytes(), b"x").await).unwrap();
    for error in [refused(projection.refresh()), refused(rows(&projection, &reader(&db), ..))] {
        assert!(
            matches!(&error, Error::Malformed { row: Some(row), .. } if row.table == "numbers"),
            "{error}"
        );
    }
}

/// Proves that a scan that has failed tries the same rows again and skips none, in a range that is read and in a
/// patched block.
#[test]
fn errors_pass_over_nothing() {
    for is_discarded in [false, true] {
        let (db, table, projection) = simple::<Serializable>(8);
        fill(&db, table, 0..40);
        projection.refresh().unwrap();
        let raw = db.raw_table("numbers").unwrap();
        db.worker().run(async |tx| raw.put(tx, &1u64.to_be_bytes(), b"x").await).unwrap();
        if is_discarded {
            projection.discard();
        }
        let tx = reader(&db);
        let mut scan = projection.scan_all(&tx).unwrap();
        if !is_discarded {
            assert_eq!(scan.next().unwrap().unwrap().columns().0, [0]);
        }
        for _ in 0..3 {
            assert!(matches!(scan.next(), Err(Error::Malformed { .. })));
        }
    }
    let (db, table, projection) = simple::<Snapshot>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    let raw = db.raw_table("numbers").unwrap();
    db.transact(|tx| [0, 3].into_iter().try_for_each(|key| tx.put(table, key, -1))).unwrap();
    db.worker().run(async |tx| raw.put(tx, &2u64.to_be_bytes(), b"x").await).unwrap();
    let tx = db.begin().unwrap();
    let mut scan = projection.scan_all(&tx).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().columns().0, [-1]);
    assert_eq!(scan.next().unwrap().unwrap().columns().0, [1]);
    assert!(matches!(scan.next(), Err(Error::Malformed { .. })));
    tx.put(table, 2, -2).unwrap();
    assert_eq!(scan.next().unwrap().unwrap().columns().0, [-2, -1], "it is mended");
    assert_eq!(scan.next().unwrap().unwrap().columns().0, [4, 5, 6, 7]);
}

/// Proves that batches that are read from the table are short, however long a block is and whatever was written.
#[test]
fn long_blocks() {
    const ROWS: u64 = 40_000;
    const READ: usize = 8192;
    let (db, table, projection) = simple::<Serializable>(ROWS as usize);
    fill(&db, table, 0..ROWS);
    let longest = || {
        let tx = reader(&db);
        assert_eq!(rows(&projection, &tx, ..).unwrap(), rows_of_table(table, &tx, ..));
        let (mut scan, mut longest) = (projection.scan_all(&tx).unwrap(), 0);
        while let Some(batch) = scan.next().unwrap() {
            longest = longest.max(batch.len());
        }
        longest
    };
    let write = |step: usize| {
        db.transact(|tx| (0..ROWS).step_by(step).try_for_each(|key| tx.put(table, key, -1))).unwrap();
    };
    assert_eq!(longest(), READ, "read from the table");
    projection.refresh().unwrap();
    assert_eq!(longest(), ROWS as usize);
    write(100);
    assert_eq!(longest(), 99, "those between two that were written");
    write(10);
    assert_eq!(longest(), READ, "so much was written that it is read from the table");
}

/// Proves that a table has up to 32 indexes and projections, that one more is refused, and that the others continue.
#[test]
fn as_many_as_there_can_be() {
    let (db, table, projection) = simple::<Serializable>(8);
    let make = |_: &u64, value: i64| Some((value,));
    for number in 1..32 {
        db.projection(table, &format!("p{number}"), make).unwrap();
    }
    let error = refused(db.projection(table, "one more", make));
    assert!(matches!(&error, Error::IndexNotBuilt { .. }) && error.to_string().contains("32"), "{error}");
    fill(&db, table, 0..5);
    assert_eq!(all(&projection, &db).len(), 5);
}

/// Proves that an application's own type can be a column.
#[test]
fn columns_of_own_types() {
    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
    enum Size {
        Small,
        Large(u8),
    }
    fn is_columns<R: Columns>() {}
    is_columns::<(Size, [u8; 3], Option<bool>, char)>();
    let db = Database::in_memory(options()).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    let size = |value: i64| if value < 2 { Size::Small } else { Size::Large(value as u8) };
    let projection = db.projection(table, "sizes", move |_, value| Some((size(value),))).unwrap();
    fill(&db, table, 0..4);
    projection.refresh().unwrap();
    let tx = reader(&db);
    let mut scan = projection.scan_all(&tx).unwrap();
    let batch = scan.next_where(|(size,)| size.max() == Some(Size::Large(3))).unwrap().unwrap();
    assert_eq!(batch.columns().0, [Size::Small, Size::Small, Size::Large(2), Size::Large(3)]);
}
