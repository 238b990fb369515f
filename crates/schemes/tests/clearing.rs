//! Tables that are cleared and dropped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::{under, under_all_schemes};
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::tools::SalvageOptions;
use braiddb::{
    AnyScheme, Database, Durability, Error, Front, IndexKind, Options, SchemeName, Table, TableOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const KINDS: [IndexKind; 5] =
    [IndexKind::Masstree, IndexKind::BTree, IndexKind::BwTree, IndexKind::Cuckoo, IndexKind::Hopscotch];

fn open_with(scheme: SchemeName, storage: &MemoryStorage, workers: usize) -> Database<AnyScheme> {
    let durability = Durability::Async;
    let options = Options { workers, log_segment_bytes: 1 << 16, durability, ..Options::default() };
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), under(scheme, options), clock, &mut |_| {}).unwrap()
}

fn open(scheme: SchemeName, storage: &MemoryStorage) -> Database<AnyScheme> {
    open_with(scheme, storage, 0)
}

fn in_memory(scheme: SchemeName) -> Database<AnyScheme> {
    Database::in_memory_with(
        under(scheme, Options { workers: 0, ..Options::default() }),
        Arc::new(SystemClock::default()),
    )
    .unwrap()
}

fn of_kind(index: IndexKind) -> TableOptions {
    TableOptions { index, ..TableOptions::default() }
}

/// Puts rows with these keys, a hundred in each transaction.
fn fill(db: &Database<AnyScheme>, table: Table<u64, u64>, keys: std::ops::Range<u64>) {
    for start in keys.clone().step_by(100) {
        let end = keys.end.min(start + 100);
        db.transact(|tx| (start..end).try_for_each(|key| tx.put(table, key, key + 1))).unwrap();
    }
}

fn count(db: &Database<AnyScheme>, table: &str) -> u64 {
    let raw = db.raw_table(table).unwrap();
    db.transact(|tx| {
        let (mut rows, mut count) = (raw.scan(tx), 0);
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    })
    .unwrap()
}

/// Proves that a database in which tables are cleared and dropped has the same contents after it was closed and
/// opened.
fn lives(scheme: SchemeName, kind: IndexKind, with_checkpoints: bool) {
    let storage = MemoryStorage::new(1 << 30);
    let checkpoint = |db: &Database<AnyScheme>| {
        if with_checkpoints {
            db.checkpoint().unwrap();
        }
    };
    {
        let db = open(scheme, &storage);
        let cleared: Table<u64, u64> = db.table_with("cleared", of_kind(kind)).unwrap();
        let dropped: Table<u64, u64> = db.table_with("dropped", of_kind(kind)).unwrap();
        let words: Table<String, u64> = db.table_with("words", of_kind(kind)).unwrap();
        let kept: Table<u64, u64> = db.table_with("kept", of_kind(kind)).unwrap();
        for table in [cleared, dropped, kept] {
            fill(&db, table, 0..1000);
        }
        let word = |key: u64| format!("a word that is longer than eight bytes, {key}");
        db.transact(|tx| (0..600).try_for_each(|key| tx.put(words, word(key), key))).unwrap();
        checkpoint(&db);
        db.clear(cleared).unwrap();
        db.clear(words).unwrap();
        db.drop_table("dropped").unwrap();
        assert_eq!(count(&db, "cleared") + count(&db, "words"), 0);
        checkpoint(&db);
        fill(&db, cleared, 500..520);
        db.transact(|tx| tx.put(words, word(7), 70)).unwrap();
        // Another table under the name of the dropped one.
        let again: Table<String, String> = db.table_with("dropped", of_kind(kind)).unwrap();
        db.transact(|tx| tx.put(again, "one", "1")).unwrap();
        assert!(matches!(db.transact(|tx| tx.get(dropped, 1)), Err(Error::TableDropped)));
        assert!(db.transact(|tx| tx.get(again, "one").map(|value| value.is_some())).unwrap());
        db.close().unwrap();
    }
    for _ in 0..2 {
        let db = open(scheme, &storage);
        let names: Vec<_> = db.tables().into_iter().map(|table| table.name).collect();
        assert_eq!(names, ["cleared", "words", "kept", "dropped"]);
        assert_eq!([count(&db, "cleared"), count(&db, "words")], [20, 1], "{kind:?}");
        assert_eq!([count(&db, "kept"), count(&db, "dropped")], [1000, 1], "{kind:?}");
        let cleared: Table<u64, u64> = db.table("cleared").unwrap();
        assert_eq!(
            db.transact(|tx| Ok([tx.get(cleared, 499)?, tx.get(cleared, 519)?])).unwrap(),
            [None, Some(520)]
        );
        checkpoint(&db);
        db.close().unwrap();
    }
}

#[test]
fn what_is_cleared_and_dropped_stays_so() {
    for with_checkpoints in [false, true] {
        under_all_schemes!(lives(IndexKind::Masstree, with_checkpoints));
        KINDS.into_iter().for_each(|kind| lives(SchemeName::Serializable, kind, with_checkpoints));
        KINDS.into_iter().for_each(|kind| lives(SchemeName::Silo, kind, with_checkpoints));
    }
}

#[test]
fn recovery_by_several_threads_makes_changes_in_order() {
    // Proves that a late thread does not bring back what was written before a table was cleared, and that what is
    // written afterwards is there.
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open(SchemeName::Serializable, &storage);
        let (a, b): (Table<u64, u64>, Table<u64, u64>) = (db.table("a").unwrap(), db.table("b").unwrap());
        for round in 0..20 {
            fill(&db, a, 0..500);
            fill(&db, b, round * 500..round * 500 + 500);
            db.clear(a).unwrap();
        }
        fill(&db, a, 100..110);
        db.close().unwrap();
    }
    for workers in [1, 2, 4, 8] {
        let db = open_with(SchemeName::Serializable, &storage, workers);
        assert_eq!([count(&db, "a"), count(&db, "b")], [10, 10_000]);
        db.close().unwrap();
    }
}

#[test]
fn a_recovered_clearing_is_in_the_next_checkpoint() {
    // Proves that recovery notes the rows that it removes as changes, so their files are not kept.
    for kind in KINDS {
        let storage = MemoryStorage::new(1 << 30);
        {
            let db = open(SchemeName::Serializable, &storage);
            let t: Table<u64, u64> = db.table_with("t", of_kind(kind)).unwrap();
            fill(&db, t, 0..1000);
            db.checkpoint().unwrap();
            db.clear(t).unwrap();
            db.close().unwrap();
        }
        for _ in 0..2 {
            let db = open(SchemeName::Serializable, &storage);
            assert_eq!(count(&db, "t"), 0, "{kind:?}");
            db.checkpoint().unwrap();
            db.checkpoint().unwrap();
            db.close().unwrap();
        }
    }
}

/// Proves that what an open transaction has written when a table is cleared is deleted too, in memory and in the log.
fn waits_for_open_ones(scheme: SchemeName) {
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open(scheme, &storage);
        let t: Table<u64, u64> = db.table("t").unwrap();
        fill(&db, t, 0..10);
        let writer = db.begin().unwrap();
        writer.put(t, 100, 1).unwrap();
        thread::scope(|scope| {
            let clearing = scope.spawn(|| db.clear(t).unwrap());
            thread::sleep(Duration::from_millis(20));
            assert!(!clearing.is_finished());
            writer.commit().unwrap();
        });
        assert_eq!(count(&db, "t"), 0);
        db.close().unwrap();
    }
    assert_eq!(count(&open(scheme, &storage), "t"), 0);
}

#[test]
fn open_transactions_end_first() {
    under_all_schemes!(waits_for_open_ones());
}

#[test]
fn dropped_tables_are_refused_everywhere() {
    let db = in_memory(SchemeName::Serializable);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let by_value = db.index(t, "by value", |_, value| Some(value)).unwrap();
    fill(&db, t, 0..10);
    let raw = db.raw_table("t").unwrap();
    db.drop_table("t").unwrap();
    let refused =
        |result: Result<(), Error>| assert!(matches!(result, Err(Error::TableDropped)), "{result:?}");
    refused(db.transact(|tx| tx.get(t, 1).map(drop)));
    refused(db.transact(|tx| tx.put(t, 1, 2)));
    refused(db.transact(|tx| tx.insert(t, 1, 2)));
    refused(db.transact(|tx| tx.update(t, 1, 2).map(drop)));
    refused(db.transact(|tx| tx.delete(t, 1).map(drop)));
    refused(db.transact(|tx| tx.add(t, 1, 2)));
    refused(db.transact(|tx| tx.get_many(t, &[1, 2]).map(drop)));
    refused(db.transact(|tx| tx.get_for_update(t, 1).map(drop)));
    refused(db.transact(|tx| tx.scan(t, 0..).next().map(drop)));
    refused(db.transact(|tx| tx.scan_all(t).next().map(drop)));
    refused(db.transact(|tx| tx.scan_prefix(t, &[]).next().map(drop)));
    refused(db.transact(|tx| raw.scan(tx).next().map(drop)));
    refused(db.transact(|tx| tx.with(async |txn| txn.scan_by(by_value, 0..).next().await.map(drop))));
    refused(db.transact(|tx| tx.with(async |txn| raw.get(txn, &[0; 8]).await.map(drop))));
    refused(db.index(t, "another", |_, value| Some(value)).map(drop));
    refused(db.freeze(t));
    refused(db.thaw(t));
    refused(db.clear(t));
    refused(db.migrate(t).map(drop));
    assert!(matches!(db.drop_table("t"), Err(Error::NoTable { table }) if table == "t"));
    assert!(matches!(db.rename_table("t", "u"), Err(Error::NoTable { .. })));
    assert!(db.raw_table("t").is_none() && db.tables().is_empty());
    // Names of dropped tables are free, and a table of another database is not one of this database.
    db.table::<String, u64>("u").unwrap();
    db.rename_table("u", "t").unwrap();
    let other: Table<u64, u64> = in_memory(SchemeName::Serializable).table("t").unwrap();
    assert!(matches!(db.clear(other), Err(Error::WrongDatabase)));
}

/// Proves that a transaction that began while rows were being deleted, and uses the table later, finds none of them.
fn begun_meanwhile(scheme: SchemeName) {
    let db = in_memory(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    for round in 0..12 {
        db.transact(|tx| (0..3000).try_for_each(|key| tx.put(t, key, key))).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| db.clear(t).unwrap());
            thread::sleep(Duration::from_micros(round * 70));
            let late = db.begin().unwrap();
            thread::sleep(Duration::from_millis(3));
            let (mut rows, mut found) = (late.scan_all(t), 0);
            let read = loop {
                match rows.next() {
                    Ok(Some(_)) => found += 1,
                    Ok(None) => break Ok(found),
                    Err(error) => break Err(error),
                }
            };
            drop(rows);
            let committed = late.commit();
            assert!(
                matches!(read, Ok(0 | 3000) | Err(Error::Conflict)),
                "round {round}: {read:?}, {committed:?}"
            );
        });
    }
}

#[test]
fn transactions_that_begin_meanwhile_see_no_part() {
    under_all_schemes!(begun_meanwhile());
}

#[test]
fn a_table_is_dropped_by_the_name_that_it_has_then() {
    let db = in_memory(SchemeName::Serializable);
    let t: Table<u64, u64> = db.table("a").unwrap();
    fill(&db, t, 0..10);
    let open = db.begin().unwrap();
    thread::scope(|scope| {
        let dropping = scope.spawn(|| db.drop_table("a"));
        thread::sleep(Duration::from_millis(20));
        db.rename_table("a", "b").unwrap();
        open.commit().unwrap();
        assert!(matches!(dropping.join().unwrap(), Err(Error::NoTable { table }) if table == "a"));
    });
    assert_eq!(db.transact(|tx| tx.get(t, 3)).unwrap(), Some(4));
}

#[test]
fn dropping_needs_no_foreign_code() {
    // Proves that a table is dropped whatever the functions of its indexes do, and that the memory of the table and
    // the indexes is given back.
    let db = in_memory(SchemeName::Serializable);
    let used = |round: u64| {
        let t: Table<u64, u64> = db.table("t").unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let extractor = {
            let fails = fails.clone();
            move |_: &u64, value: u64| {
                assert!(!fails.load(Relaxed), "on purpose");
                Some(value)
            }
        };
        db.index(t, "by value", extractor.clone()).unwrap();
        db.unique_index(t, "by value alone", extractor).unwrap();
        fill(&db, t, 0..5000);
        fails.store(true, Relaxed);
        db.drop_table("t").unwrap();
        let other: Table<u64, u64> = db.table("other").unwrap();
        (0..300).for_each(|key| db.transact(|tx| tx.put(other, 1, key + round)).unwrap());
        db.statistics().memory.records
    };
    let first = used(0);
    assert!((1..4).map(used).all(|records| records <= first + 20));
}

#[test]
fn what_cannot_be_written_is_not_cleared() {
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open(SchemeName::Serializable, &storage);
        fill(&db, db.table("t").unwrap(), 0..10);
        db.close().unwrap();
    }
    let clock = Arc::new(SystemClock::default());
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<AnyScheme> =
        Database::read_with(Arc::new(storage), options, clock, &mut |_| {}).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let reader = db.begin().unwrap(); // the drop does not wait for this reader
    assert!(matches!(db.clear(t), Err(Error::ReadOnly)));
    assert!(matches!(db.drop_table("t"), Err(Error::ReadOnly)));
    assert_eq!(reader.get(t, 3).unwrap(), Some(4));
}

#[test]
fn a_refused_operation_undoes_its_transaction() {
    let db = in_memory(SchemeName::Serializable);
    let [gone, kept] = ["gone", "kept"].map(|name| db.table::<u64, u64>(name).unwrap());
    db.drop_table("gone").unwrap();
    for number in 0..3 {
        let tx = db.begin().unwrap();
        tx.put(kept, number, 1).unwrap();
        let refused = match number {
            0 => tx.put(gone, 1, 1),
            1 => tx.add(gone, 1, 1),
            _ => tx.get(gone, 1).map(drop),
        };
        assert!(matches!(refused, Err(Error::TableDropped)));
        assert!(matches!(tx.commit(), Err(Error::TableDropped)), "{number}");
    }
    assert_eq!(count(&db, "kept"), 0);
}

#[test]
fn names_of_dropped_tables_are_free() {
    // Proves that a table that takes the name of a dropped table, and has the smaller number, is opened again.
    for with_checkpoint in [false, true] {
        let storage = MemoryStorage::new(1 << 30);
        {
            let db = open(SchemeName::Serializable, &storage);
            let [a, b] = ["a", "b"].map(|name| db.table::<u64, u64>(name).unwrap());
            fill(&db, a, 0..10);
            fill(&db, b, 0..20);
            db.drop_table("b").unwrap();
            db.rename_table("a", "b").unwrap();
            if with_checkpoint {
                db.checkpoint().unwrap();
            }
            db.close().unwrap();
        }
        assert!(braiddb::tools::verify(&storage, &mut |_| {}).unwrap().is_good());
        let db = open(SchemeName::Serializable, &storage);
        assert_eq!((count(&db, "b"), db.tables().len()), (10, 1));
        db.table::<String, u64>("a").unwrap();
        db.drop_table("b").unwrap();
        db.rename_table("a", "b").unwrap();
        db.close().unwrap();
        let db = open(SchemeName::Serializable, &storage);
        assert_eq!(&*db.tables()[0].key_type, "string");
        let to = in_memory(SchemeName::Serializable);
        let salvage =
            braiddb::tools::salvage(&storage, &to, SalvageOptions::default(), &mut |_| {}).unwrap_err();
        assert!(matches!(salvage, Error::Storage(_)), "it is in use: {salvage}");
    }
}

/// Proves that indexes lose their entries and serve later rows, and that old entries of a unique index do not block
/// new rows.
fn indexes(scheme: SchemeName) {
    let db = in_memory(scheme);
    let people: Table<u64, str> = db.table("people").unwrap();
    let by_name = db.unique_index(people, "by name", |_, name| Some(name.to_owned())).unwrap();
    let by_length = db.index(people, "by length", |_, name| Some(name.len() as u64)).unwrap();
    let names = ["Ada", "Alan", "Grace"];
    for round in 0..3 {
        let put = |tx: &braiddb::Transaction<AnyScheme>| {
            names.iter().zip(round..).try_for_each(|(name, key)| tx.insert(people, key, name))
        };
        db.transact(put).unwrap();
        let ada = db.transact(|tx| Ok(tx.get_by(by_name, "Ada")?.map(|(key, _)| key))).unwrap();
        assert_eq!(ada, Some(round));
        let of_three = |tx: &braiddb::Transaction<AnyScheme>| {
            tx.with(async |txn| Ok(txn.scan_by(by_length, 3..4).next().await?.map(|(_, key, _)| key)))
        };
        assert_eq!(db.transact(of_three).unwrap(), Some(round));
        db.clear(people).unwrap();
        assert_eq!(db.transact(of_three).unwrap(), None);
        assert!(db.transact(|tx| Ok(tx.get_by(by_name, "Ada")?.is_none())).unwrap());
    }
}

#[test]
fn indexes_are_cleared() {
    under_all_schemes!(indexes());
}

/// Several writers add pairs of rows, and another thread clears the table now and then. Proves that a reader finds
/// both rows of a pair, or neither.
fn beside_writers(scheme: SchemeName) {
    let db = Arc::new(in_memory(scheme));
    let t: Table<u64, u64> = db.table("t").unwrap();
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (db, is_over, written) = (&db, &is_over, &written);
            scope.spawn(move || {
                let mut number = writer;
                while !is_over.load(Relaxed) {
                    let pair = |tx: &braiddb::Transaction<AnyScheme>| {
                        tx.put(t, 2 * number, number)?;
                        tx.put(t, 2 * number + 1, number)
                    };
                    match db.transact(pair) {
                        Ok(()) => number += 2,
                        Err(error) => assert!(matches!(error, Error::Conflict), "{error}"),
                    }
                    written.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let pairs = |tx: &braiddb::Transaction<AnyScheme>| {
                    let (mut rows, mut found) = (tx.scan_all(t).limit(200), Vec::new());
                    while let Some((key, _)) = rows.next()? {
                        found.push(key);
                    }
                    Ok(found)
                };
                match db.transact(pairs) {
                    Ok(found) => {
                        let pairs = found.chunks_exact(2);
                        assert!(pairs.clone().all(|pair| pair[0] + 1 == pair[1]), "{found:?}");
                        assert!(pairs.remainder().is_empty());
                    }
                    Err(error) => assert!(matches!(error, Error::Conflict), "{error}"),
                }
            }
        });
        for _ in 0..5 {
            let before = written.load(Relaxed);
            while written.load(Relaxed) < before + 200 {
                thread::yield_now();
            }
            db.clear(t).unwrap();
        }
        is_over.store(true, Relaxed);
    });
    db.clear(t).unwrap();
    assert_eq!(count(&db, "t"), 0);
}

#[test]
fn others_see_all_of_a_clearing_or_nothing() {
    under_all_schemes!(beside_writers());
}

/// Proves that the memory of rows is given back, also if a secondary index has kept their places.
fn gives_back(scheme: SchemeName, kind: IndexKind, front: Front, drops: bool) {
    let db = in_memory(scheme);
    let mut used = Vec::new();
    for round in 0..4 {
        let name = if drops { format!("table {round}") } else { "table".into() };
        let t: Table<u64, u64> = db.table_with(&name, TableOptions { index: kind, front }).unwrap();
        if kind.is_ordered() {
            db.index(t, "by value", |_, value| Some(value)).unwrap();
        }
        fill(&db, t, 0..5000);
        if drops {
            db.drop_table(&name).unwrap()
        } else {
            db.clear(t).unwrap()
        }
        // Retired memory is freed when other transactions have moved on.
        let other: Table<u64, u64> = db.table("other").unwrap();
        (0..300).for_each(|key| db.transact(|tx| tx.put(other, 1, key)).unwrap());
        let memory = db.statistics().memory;
        used.push((memory.records, memory.records_bytes + memory.versions_bytes + memory.index_bytes));
    }
    let ((first, first_bytes), (last, last_bytes)) = (used[0], used[3]);
    assert!(last <= first + 20, "{kind:?}: {used:?}");
    // Structures that find keys by hashing keep the room that they have grown to.
    let keeps = drops && (!kind.is_ordered() || front != Front::None);
    let kept_bytes = if keeps { 3 << 20 } else { 0 };
    assert!(last_bytes <= first_bytes + (1 << 18) + kept_bytes, "{kind:?}: {used:?}");
}

#[test]
fn memory_is_given_back() {
    for drops in [false, true] {
        for kind in KINDS {
            gives_back(SchemeName::Serializable, kind, Front::None, drops);
            gives_back(SchemeName::Silo, kind, Front::None, drops);
        }
        gives_back(SchemeName::Serializable, IndexKind::Masstree, Front::Hash, drops);
    }
}

/// Copies all files as they are.
fn copy(storage: &MemoryStorage) -> MemoryStorage {
    let to = MemoryStorage::new(1 << 30);
    for name in storage.list().unwrap() {
        let from = storage.open(&name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; from.len_bytes().unwrap() as usize];
        from.read_exact_at(0, &mut bytes).unwrap();
        to.open(&name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
    }
    to
}

/// Checkpoints begin and end at any moment while a table is filled and cleared. Proves that each contains a state that
/// existed: with a log the last state, without a log a state of a moment while the checkpoint was made.
fn beside_checkpoints(scheme: SchemeName, durability: Durability) {
    let open = |storage: &MemoryStorage| {
        let options = Options { workers: 0, log_segment_bytes: 1 << 20, durability, ..Options::default() };
        let options = Options { checkpoint_range_bytes: 2000, ..options };
        let (storage, clock) = (Arc::new(storage.clone()), Arc::new(SystemClock::default()));
        Database::<AnyScheme>::open_with(storage, under(scheme, options), clock, &mut |_| {}).unwrap()
    };
    let storage = MemoryStorage::new(1 << 30);
    for round in 0..8 {
        let (db, mut copies) = (open(&storage), Vec::new());
        let t: Table<u64, u64> = db.table("t").unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    // At different moments each time. A step that waits for one checkpoint's snapshot would always
                    // come right after it.
                    thread::sleep(Duration::from_micros(number * 777 % 5000));
                    if is_over.load(Relaxed) {
                        break;
                    }
                    db.checkpoint().unwrap();
                    if durability == Durability::None {
                        copies.push(copy(&storage));
                    }
                }
            });
            for step in 0..3u64 {
                db.transact(|tx| (0..5000).try_for_each(|key| tx.put(t, step * 100 + key, key))).unwrap();
                // Clearing takes longer than a checkpoint, so a checkpoint begins meanwhile.
                db.clear(t).unwrap();
            }
            fill(&db, t, 7..8);
            is_over.store(true, Relaxed);
        });
        db.close().unwrap();
        assert_eq!(count(&open(&storage), "t"), 1, "round {round}");
        for copy in copies {
            let rows = count(&open(&copy), "t");
            assert!([0, 1, 5000, 5001].contains(&rows), "round {round}: {rows}");
        }
    }
}

#[test]
fn checkpoints_have_all_rows_or_none() {
    for durability in [Durability::Async, Durability::None] {
        beside_checkpoints(SchemeName::Serializable, durability);
        beside_checkpoints(SchemeName::Snapshot, durability);
    }
    beside_checkpoints(SchemeName::Silo, Durability::Async);
    beside_checkpoints(SchemeName::NoWait, Durability::Async);
}

#[test]
fn a_clearing_that_fails_is_made_again() {
    // Proves that after a panic in an index's function no half of the rows can be seen, and that the table is not
    // locked.
    let db = in_memory(SchemeName::Serializable);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let extractor = {
        let fails = fails.clone();
        move |key: &u64, value: u64| {
            assert!(*key != 700 || !fails.load(Relaxed), "on purpose");
            Some(value)
        }
    };
    db.index(t, "by value", extractor).unwrap();
    fill(&db, t, 0..1000);
    fails.store(true, Relaxed);
    let panicked = db.clear(t);
    let Err(Error::Panicked(text)) = &panicked else { panic!("{panicked:?}") };
    assert!(text.contains("table \"t\"") && text.contains("on purpose"), "{text}");
    let read = || db.transact(|tx| tx.get(t, 800));
    assert!(matches!(read(), Err(Error::NotCleared)), "{:?}", read());
    assert!(matches!(db.freeze(t), Err(Error::NotCleared)));
    fails.store(false, Relaxed);
    db.clear(t).unwrap();
    assert_eq!([read().unwrap(), Some(count(&db, "t"))], [None, Some(0)]);
    fill(&db, t, 0..10);
    assert_eq!(count(&db, "t"), 10);
}

#[test]
fn what_was_cleared_and_dropped_is_not_salvaged() {
    for with_checkpoint in [false, true] {
        let storage = MemoryStorage::new(1 << 30);
        let db = open(SchemeName::Serializable, &storage);
        let [cleared, dropped] = ["cleared", "dropped"].map(|name| db.table::<u64, u64>(name).unwrap());
        [cleared, dropped].into_iter().for_each(|table| fill(&db, table, 0..500));
        if with_checkpoint {
            db.checkpoint().unwrap();
        }
        db.clear(cleared).unwrap();
        fill(&db, cleared, 7..10);
        db.drop_table("dropped").unwrap();
        let again: Table<u64, u64> = db.table("dropped").unwrap();
        fill(&db, again, 3..5);
        if with_checkpoint {
            db.checkpoint().unwrap();
            fill(&db, again, 5..6);
        }
        db.close().unwrap();
        let to = in_memory(SchemeName::Serializable);
        let salvage = braiddb::tools::salvage(&storage, &to, SalvageOptions::default(), &mut |_| {}).unwrap();
        assert!(salvage.is_complete(), "{salvage:?}");
        let rows = 2 + u64::from(with_checkpoint);
        assert_eq!([count(&to, "cleared"), count(&to, "dropped")], [3, rows], "{with_checkpoint}");
        assert_eq!(to.tables().len(), 2);
        assert!(braiddb::tools::verify(&storage, &mut |_| {}).unwrap().is_good());
    }
}

#[test]
fn the_log_has_one_record_of_a_clearing() {
    let storage = MemoryStorage::new(1 << 30);
    let db = open(SchemeName::Serializable, &storage);
    let t: Table<u64, u64> = db.table("t").unwrap();
    fill(&db, t, 0..10_000);
    db.checkpoint().unwrap(); // flushes the appended log
    let before = db.statistics().log.bytes;
    db.clear(t).unwrap();
    db.checkpoint().unwrap();
    assert!(db.statistics().log.bytes - before < 1000);
}

/// Proves that a frozen table is neither cleared nor dropped before it is thawed.
fn frozen_tables_stay(scheme: SchemeName) {
    let db = in_memory(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    fill(&db, t, 0..10);
    db.freeze(t).unwrap();
    assert!(matches!(db.clear(t), Err(Error::Frozen { table }) if table == "t"));
    assert!(matches!(db.drop_table("t"), Err(Error::Frozen { table }) if table == "t"));
    assert_eq!(count(&db, "t"), 10);
    db.thaw(t).unwrap();
    db.drop_table("t").unwrap();
}

#[test]
fn a_frozen_table_is_not_dropped() {
    under_all_schemes!(frozen_tables_stay());
}
