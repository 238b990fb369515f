use super::*;
use braiddb::tools::{Salvage, SalvageOptions, salvage};

const STOP: SalvageOptions = SalvageOptions { beyond_damage: false };
const GO_ON: SalvageOptions = SalvageOptions { beyond_damage: true };

/// Returns what can be salvaged, after it was closed and opened again.
fn salvaged(from: &dyn Storage, options: SalvageOptions) -> (Database, Salvage) {
    let to = memory();
    let db = open(&to).unwrap();
    let done = salvage(from, &db, options, &mut |_| {}).unwrap();
    db.close().unwrap();
    (open(&to).unwrap(), done)
}

fn expect(rows: impl IntoIterator<Item = (Range<u64>, u8)>, bytes: usize) -> Rows {
    rows.into_iter().flat_map(|(keys, round)| keys.map(move |key| (key, value(round, bytes)))).collect()
}

#[test]
fn a_good_database_is_taken_whole() {
    // Proves that no rows, changes, deletes and kinds of tables are lost, and that nothing is reported.
    let from = memory();
    let db = open(&from).unwrap();
    put_all(&db, "t", 0..20, &value(1, 5));
    let words: Table<(u32, String), str> = db.table("words").unwrap();
    db.run(async move |tx| tx.put(words, (7, "seven".to_string()), "VII").await).wait().unwrap();
    db.checkpoint().unwrap();
    put_all(&db, "t", 10..30, &value(2, 5));
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    db.run(async move |tx| tx.delete(table, 3).await).wait().unwrap();
    let before = (rows(&db, "t"), db.tables());
    drop(db);
    let (db, done) = salvaged(&*from, STOP);
    assert!(done.is_complete(), "{done:#?}");
    assert_eq!((rows(&db, "t"), db.tables()), before);
    let words: Table<(u32, String), str> = db.table("words").unwrap();
    assert_eq!(db.begin().unwrap().get(words, (7, "seven".to_string())).unwrap(), Some("VII"));
    let error = salvage(&*from, &db, STOP, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::NotEmpty), "{error}");
}

/// Makes a log of several segments, without a checkpoint: 100 rows of 2,000 bytes.
fn long_log() -> Arc<dyn Storage> {
    let storage = memory();
    let db = open(&storage).unwrap();
    put_all(&db, "t", 0..100, &value(1, 2000));
    drop(db);
    assert!(names(&*storage, "log-").len() > 3);
    storage
}

#[test]
fn the_log_is_taken_up_to_the_first_damage() {
    // Proves that everything before the damage is there and nothing behind it. If this is asked for, reading continues
    // with the next segment.
    let from = long_log();
    let (segment, offset) = place_of(&*from, 40);
    damage(&*from, &segment, offset + 50);
    assert!(open(&from).is_err());
    let (db, done) = salvaged(&*from, STOP);
    assert_eq!(rows(&db, "t"), expect([(0..40, 1)], 2000));
    assert_eq!((done.damages.len(), done.tables[0].changes), (1, 40));
    assert_eq!(done.damages[0].file, segment);
    let next = (41..100).find(|key| place_of(&*from, *key).0 != segment).unwrap();
    assert_eq!(done.tables[0].left_out_changes, 100 - next);
    let (db, done) = salvaged(&*from, GO_ON);
    assert_eq!(rows(&db, "t"), expect([(0..40, 1), (next..100, 1)], 2000));
    assert_eq!(done.tables[0].left_out_changes, 0);
}

#[test]
fn segments_may_be_missing_or_without_a_header() {
    // Proves the same for whole segments, the first segment included, without which no table is known.
    let good = long_log();
    let segments = names(&*good, "log-");
    let of = |key| place_of(&*good, key).0;
    for (name, is_removed) in [(&segments[1], true), (&segments[1], false)] {
        let from = copy(&*good);
        if is_removed {
            from.remove(name).unwrap()
        } else {
            damage(&*from, name, 20)
        }
        let first = (0..100).find(|key| of(*key) == *name).unwrap();
        let next = (first..100).find(|key| of(*key) != *name).unwrap();
        let (db, done) = salvaged(&*from, STOP);
        assert_eq!(rows(&db, "t"), expect([(0..first, 1)], 2000), "{done:#?}");
        assert_eq!(done.damages[0].file, *name);
        let (db, done) = salvaged(&*from, GO_ON);
        assert_eq!(rows(&db, "t"), expect([(0..first, 1), (next..100, 1)], 2000), "{done:#?}");
    }
    let from = copy(&*good);
    from.remove(&segments[0]).unwrap();
    let (db, done) = salvaged(&*from, GO_ON);
    assert!(db.tables().is_empty() && done.unknown_changes > 0, "{done:#?}");
}

/// Makes two checkpoints of a table of several blocks, with changes between and behind them, and one of a small table.
fn two_checkpoints() -> Arc<dyn Storage> {
    let storage = memory();
    let db = open(&storage).unwrap();
    put_all(&db, "small", 0..10, &value(1, 1000));
    put_all(&db, "t", 0..600, &value(1, 1000));
    db.checkpoint().unwrap();
    put_all(&db, "t", 300..400, &value(2, 1000));
    db.checkpoint().unwrap();
    put_all(&db, "t", 350..450, &value(3, 1000));
    drop(db);
    storage
}

fn newest() -> Rows {
    expect([(0..300, 1), (300..350, 2), (350..450, 3), (450..600, 1)], 1000)
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_the_one_before() {
    // Proves that nothing is lost while the older checkpoint and the log are good.
    let from = two_checkpoints();
    let files = names(&*from, "rows-");
    assert_eq!(files.len(), 3);
    damage(&*from, &files[2], 300_000);
    let (db, done) = salvaged(&*from, STOP);
    assert_eq!((rows(&db, "t"), rows(&db, "small")), (newest(), expect([(0..10, 1)], 1000)));
    let of = |at: usize| (done.tables[at].checkpoint, done.tables[at].lost_rows);
    assert_eq!((of(0), of(1)), ((Some(2), 0), (Some(1), 0)));
    assert_eq!(done.damages.len(), 1);
    damage(&*from, "checkpoint-00000000000000000002", 40);
    damage(&*from, "database", 20);
    let (db, done) = salvaged(&*from, STOP);
    assert_eq!(rows(&db, "t"), newest());
    assert_eq!(done.damages.len(), 2, "the file of rows is not named any more: {done:#?}");
}

#[test]
fn of_damaged_rows_the_good_blocks_are_taken() {
    // Proves that exactly one block's rows are missing when no file of the table is complete, except rows that the log
    // has.
    let from = two_checkpoints();
    let files = names(&*from, "rows-");
    damage(&*from, &files[1], 100);
    damage(&*from, &files[2], 100);
    let (db, done) = salvaged(&*from, STOP);
    let lost = done.tables[1].lost_rows;
    assert_eq!((done.tables[1].lost_blocks, done.tables[1].rows), (1, 600 - lost));
    assert!((200..300).contains(&lost), "the rows of the first 256 KiB: {lost}");
    let rest = newest().into_iter().filter(|(key, _)| *key >= lost).collect();
    assert_eq!(rows(&db, "t"), rest);
    assert_eq!(rows(&db, "small").len(), 10);
}

#[test]
fn damage_of_the_log_ends_only_the_tables_that_need_it() {
    // Proves that a table from the newer checkpoint continues where a table from the older one has to stop.
    let from = two_checkpoints();
    let files = names(&*from, "rows-");
    damage(&*from, &files[2], 100);
    let (segment, offset) = place_of(&*from, 320);
    damage(&*from, &segment, offset + 50);
    let (db, done) = salvaged(&*from, STOP);
    assert_eq!(rows(&db, "t"), expect([(0..300, 1), (300..320, 2), (320..600, 1)], 1000), "{done:#?}");
    assert_eq!(rows(&db, "small"), expect([(0..10, 1)], 1000));
    assert!(done.tables[1].left_out_changes > 0);
}

/// Makes two tables that exchange names. One of them was made under a name that was free by then. With or without
/// checkpoints in between.
fn renamed(checkpoints: bool) -> (Arc<dyn Storage>, Vec<(&'static str, Rows)>) {
    let storage = memory();
    let db = open(&storage).unwrap();
    let checkpoint = || {
        if checkpoints {
            db.checkpoint().map(|_| ()).unwrap()
        }
    };
    put_all(&db, "a", 0..10, &value(1, 5));
    checkpoint();
    db.rename_table("a", "b").unwrap();
    put_all(&db, "a", 0..20, &value(2, 5));
    checkpoint();
    db.rename_table("b", "c").unwrap();
    db.rename_table("a", "b").unwrap();
    db.retype::<u64, [u8]>("b").unwrap();
    put_all(&db, "a", 0..3, &value(3, 5));
    put_all(&db, "c", 5..12, &value(4, 5));
    let expected = ["c", "b", "a"].map(|name| (name, rows(&db, name)));
    db.close().unwrap();
    (storage, expected.into())
}

#[test]
fn renamed_tables_keep_their_rows_and_get_their_names() {
    // Proves that tools follow names through the log, from whichever checkpoint they begin: no row goes to another
    // table, and a good database is not called damaged.
    for checkpoints in [false, true] {
        let (from, expected) = renamed(checkpoints);
        let verified = braiddb::tools::verify(&*from, &mut |_| {}).unwrap();
        assert!(verified.is_good(), "{verified:#?}");
        let opened = open(&from).unwrap();
        let of = |db: &Database| -> Vec<(String, Rows)> {
            db.tables().into_iter().map(|table| (table.name.clone(), rows(db, &table.name))).collect()
        };
        let expected: Vec<_> = expected.into_iter().map(|(name, rows)| (name.to_owned(), rows)).collect();
        assert_eq!(of(&opened), expected);
        drop(opened);
        let (db, done) = salvaged(&*from, STOP);
        assert!(done.is_complete(), "{done:#?}");
        assert_eq!(of(&db), expected);
        let reported: Vec<_> = done.tables.iter().map(|table| table.name.clone()).collect();
        assert_eq!(reported, ["c", "b", "a"]);
    }
}

#[test]
fn a_renamed_table_is_taken_from_an_older_checkpoint() {
    // Proves that a renamed table's rows are taken from an older checkpoint, in which the table has its former name.
    let from = memory();
    let db = open(&from).unwrap();
    put_all(&db, "before", 0..200, &value(1, 5));
    db.checkpoint().unwrap();
    db.rename_table("before", "after").unwrap();
    put_all(&db, "after", 100..101, &value(2, 5));
    db.checkpoint().unwrap();
    let expected = rows(&db, "after");
    db.close().unwrap();
    let newest = names(&*from, "rows-").pop().unwrap();
    damage(&*from, &newest, 60);
    let (db, done) = salvaged(&*from, STOP);
    assert!(!done.damages.is_empty());
    assert_eq!((rows(&db, "after"), done.tables[0].lost_rows), (expected, 0), "{done:#?}");
}

#[test]
fn definitions_are_salvaged() {
    // Proves that later versions that are only in the log are known in the new database.
    use braiddb::Value;
    #[derive(Value)]
    #[braid(name = "point")]
    struct First(u8);
    #[derive(Value, Debug, PartialEq)]
    #[braid(name = "point", version = 2, previous = First)]
    struct Second(u8, u8);
    impl From<First> for Second {
        fn from(first: First) -> Second {
            Second(first.0, 0)
        }
    }
    let from = memory();
    let db = open(&from).unwrap();
    let points: Table<u64, First> = db.table("points").unwrap();
    db.transact(|tx| tx.put(points, 1, &First(1))).unwrap();
    db.checkpoint().unwrap();
    let points: Table<u64, Second> = db.table("points").unwrap();
    db.transact(|tx| tx.put(points, 2, &Second(2, 2))).unwrap();
    let before = db.tables();
    db.close().unwrap();
    assert!(braiddb::tools::verify(&*from, &mut |_| {}).unwrap().is_good());
    let (db, done) = salvaged(&*from, STOP);
    assert!(done.is_complete(), "{done:#?}");
    assert_eq!(db.tables(), before);
    assert_eq!(before[0].definitions.len(), 2);
    // Versions that a migration has removed are not there again.
    let from = {
        let storage = memory();
        let db = open(&storage).unwrap();
        let points: Table<u64, First> = db.table("points").unwrap();
        db.transact(|tx| tx.put(points, 1, &First(1))).unwrap();
        let points: Table<u64, Second> = db.table("points").unwrap();
        db.migrate(points).unwrap();
        db.close().unwrap();
        storage
    };
    assert_eq!(salvaged(&*from, STOP).0.tables()[0].definitions, ["point 2: {0: u8, 1: u8}"]);
    let points: Table<u64, Second> = db.table("points").unwrap();
    let read = |key| db.transact(|tx| tx.get(points, key)).unwrap();
    assert_eq!([1, 2].map(read), [Some(Second(1, 0)), Some(Second(2, 2))]);
}
