use super::*;
use braiddb::Durability;
use braiddb::tools::verify;

/// Returns the rows of all tables.
fn all_rows(db: &Database) -> BTreeMap<String, Rows> {
    db.tables().into_iter().map(|table| (table.name.clone(), rows(db, &table.name))).collect()
}

fn open_as(storage: &Arc<dyn Storage>, durability: Durability) -> Result<Database, Error> {
    let options = Options { durability, workers: 1, log_segment_bytes: 4096, ..options() };
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
}

/// Returns a database that was closed twice: its first closed state, and the last. There are several checkpoints, with
/// changes between and behind them.
fn closed_twice(durability: Durability) -> [Arc<dyn Storage>; 2] {
    let storage = memory();
    let db = open_as(&storage, durability).unwrap();
    put_all(&db, "idle", 0..3, &value(1, 50));
    put_all(&db, "busy", 0..20, &value(1, 500));
    db.checkpoint().unwrap();
    put_all(&db, "busy", 15..30, &value(2, 500));
    db.close().unwrap();
    let earlier = copy(&*storage);
    let db = open_as(&storage, durability).unwrap();
    put_all(&db, "busy", 25..45, &value(3, 500));
    db.checkpoint().unwrap();
    put_all(&db, "busy", 40..60, &value(4, 500));
    db.close().unwrap();
    [earlier, storage]
}

/// A file's name without its numbers.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap()
}

/// What may be found in the place of a file, and its name. `None`: nothing.
fn corruptions(
    name: &str,
    good: &dyn Storage,
    earlier: &dyn Storage,
    foreign: &dyn Storage,
) -> Vec<(String, Option<Vec<u8>>)> {
    let bytes = contents(good, name);
    let noise = (0..bytes.len()).map(|at| (at * 167 + at / 251 + 1) as u8).collect();
    let mut all = vec![
        ("nothing".to_string(), None),
        ("zeros".to_string(), Some(vec![0; bytes.len()])),
        ("noise".to_string(), Some(noise)),
    ];
    let len = bytes.len();
    let cuts = [0, 1, len / 3, len / 2, len.saturating_sub(100), len.saturating_sub(1)];
    all.extend(
        cuts.iter()
            .filter(|at| **at < len)
            .map(|at| (format!("its first {at} bytes"), Some(bytes[..*at].to_vec()))),
    );
    let flip = |at: usize| bytes.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == at)).collect();
    all.extend(
        [13, 40, len / 2]
            .iter()
            .filter(|at| **at < len)
            .map(|at| (format!("a flip at {at}"), Some(flip(*at)))),
    );
    for (which, other) in
        [("of this database", good), ("as it was earlier", earlier), ("of another one", foreign)]
    {
        let same_kind = other.list().unwrap().into_iter().filter(|other| kind(other) == kind(name));
        all.extend(same_kind.map(|file| (format!("{file} {which}"), Some(contents(other, &file)))));
    }
    all.retain(|(_, change)| change.as_ref() != Some(&bytes));
    all
}

/// A database was closed in order, and something has happened to one of its files. Proves that everything is there, or
/// that the database does not open and names the damaged file. Verification reports the same, and nothing is changed.
#[test]
fn what_is_missing_of_a_closed_database_is_named() {
    for durability in [Durability::Sync, Durability::None] {
        let [earlier, good] = closed_twice(durability);
        let [_, foreign] = closed_twice(durability);
        let expected = all_rows(&open_as(&copy(&*good), durability).unwrap());
        assert_eq!(expected["busy"].len(), 60);
        let (mut opened_count, mut refused_count) = (0, 0);
        for name in good.list().unwrap() {
            for (what, change) in corruptions(&name, &*good, &*earlier, &*foreign) {
                let place = format!("{durability:?}: {what} in the place of {name}");
                let storage = copy(&*good);
                storage.remove(&name).unwrap();
                if let Some(bytes) = &change {
                    storage.open(&name, OpenMode::CreateNew).unwrap().write_all_at(0, bytes).unwrap();
                }
                let before = copy(&*storage);
                let verified = verify(&*storage, &mut |_| {});
                match open_as(&storage, durability) {
                    Ok(db) => {
                        assert_eq!(all_rows(&db), expected, "{place}");
                        assert!(verified.unwrap().would_open(), "{place}");
                        opened_count += 1;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains(&name), "{place}: {text}");
                        let found = verified.unwrap();
                        assert!(!found.would_open() && !found.is_good(), "{place}: {found:#?}");
                        let is_named =
                            found.damages().any(|d| d.file == name || d.to_string().contains(&name));
                        assert!(is_named, "{place}: {found:#?}");
                        assert_eq!(all_files(&*storage), all_files(&*before), "{place}");
                        refused_count += 1;
                    }
                }
            }
        }
        println!("{durability:?}: {opened_count} opened, {refused_count} refused");
        assert!(opened_count > 20 && refused_count > 50, "{opened_count} opened, {refused_count} refused");
    }
}

fn all_files(storage: &dyn Storage) -> BTreeMap<String, Vec<u8>> {
    storage.list().unwrap().into_iter().map(|name| (name.clone(), contents(storage, &name))).collect()
}

/// Proves that the mark is there while a database is closed, also if its last handle was dropped, that an opening that
/// fails leaves the mark, and that a crash leaves none.
#[test]
fn the_mark_is_there_while_a_database_is_closed() {
    for durability in [Durability::Sync, Durability::None] {
        let storage = memory();
        let has_mark = || storage.list().unwrap().contains(&"closed".to_string());
        for closes in [true, false, true] {
            let db = open_as(&storage, durability).unwrap();
            assert!(!has_mark());
            put_all(&db, "t", 0..5, &value(1, 100));
            let killed = copy(&*storage);
            if closes {
                db.close().unwrap()
            } else {
                drop(db)
            }
            assert!(has_mark());
            assert!(open_as(&copy(&*storage), durability).unwrap().recovery().unwrap().was_closed);
            let recovery = open_as(&killed, durability).unwrap().recovery().unwrap();
            assert!(!recovery.was_closed && recovery.cut.is_none(), "{recovery:?}");
        }
        let last = names(&*storage, "").into_iter().rfind(|name| kind(name) == "log" || kind(name) == "rows");
        storage.remove(&last.unwrap()).unwrap();
        open_as(&storage, durability).unwrap_err();
        assert!(has_mark(), "{durability:?}");
    }
}
