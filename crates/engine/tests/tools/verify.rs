use super::*;
use braiddb::storage::Holder;
use braiddb::tools::{OpenCheck, Verification, verify};

fn verified(storage: &dyn Storage) -> Verification {
    verify(storage, &mut |_| {}).unwrap()
}

/// Makes two checkpoints, with one table that changes and one that does not, and a log beyond, closed in order.
fn small() -> Arc<dyn Storage> {
    let storage = memory();
    let db = open(&storage).unwrap();
    put_all(&db, "idle", 0..3, &value(1, 5));
    put_all(&db, "busy", 0..5, &value(1, 5));
    db.checkpoint().unwrap();
    put_all(&db, "busy", 3..8, &value(2, 5));
    db.checkpoint().unwrap();
    put_all(&db, "busy", 7..12, &value(3, 5));
    db.close().unwrap();
    storage
}

#[test]
fn a_good_database_is_good() {
    // Proves what is counted, and that the database opens as the report says.
    let storage = small();
    let found = verified(&*storage);
    assert!(found.is_good() && found.was_closed && found.was_locked, "{found:#?}");
    assert_eq!(found.outlook, OpenCheck::Opens { checkpoint: Some(2) });
    assert_eq!(found.rows, 3 + 8);
    assert_eq!(found.records, 10, "from the start of the older checkpoint on");
    let recovery = open(&storage).unwrap().recovery().unwrap();
    assert_eq!((recovery.checkpoint, recovery.rows), (Some(2), found.rows));
}

#[test]
fn a_database_in_use_and_an_empty_directory_are_refused() {
    // Proves that nothing is reported of files that a process may be writing, or that are missing.
    let storage = memory();
    assert!(matches!(verify(&*storage, &mut |_| {}), Err(Error::NoDatabase)));
    let db = open(&storage).unwrap();
    assert!(matches!(verify(&*storage, &mut |_| {}), Err(Error::Storage(_))));
    drop(db);
    assert!(verified(&*storage).is_good());
    let _lock = storage.lock(&Holder { pid: 1, program: "other".into(), started_s: 0 }).unwrap();
    assert!(verify(&*storage, &mut |_| {}).is_err());
}

#[test]
fn every_damage_is_named_and_the_outlook_is_what_happens() {
    // Proves, for a flipped byte in every part of every file, that damage is found in that file, and that the database
    // opens with the checkpoint that is named, or does not open, as reported.
    let good = small();
    let (mut damaged, mut refused) = (0, 0);
    for name in good.list().unwrap() {
        let last = contents(&*good, &name).iter().rposition(|byte| *byte != 0);
        // The segment that has not begun has nothing.
        let Some(used) = last.map(|last| last as u64) else { continue };
        for offset in (0..=used).step_by(7) {
            let storage = copy(&*good);
            damage(&*storage, &name, offset);
            let found = verified(&*storage);
            let is_named = found.damages().any(|damage| damage.file == name);
            let is_log = name.starts_with("log-");
            let is_padding = is_log && (64..512).contains(&offset);
            assert!(is_named || is_padding, "{name} {offset}: {found:#?}");
            assert!(found.damages().all(|damage| damage.file == name), "{name} {offset}: {found:#?}");
            damaged += u32::from(is_named);
            match (open(&storage), found.outlook) {
                (Ok(db), OpenCheck::Opens { checkpoint }) => {
                    assert_eq!(db.recovery().unwrap().checkpoint, checkpoint, "{name} {offset}");
                }
                (Err(_), OpenCheck::Refused { .. }) => refused += 1,
                (opened, outlook) => panic!("{name} {offset}: {outlook:?}, but {opened:?}"),
            }
        }
    }
    assert!(damaged > 100 && refused > 10, "{damaged} damaged, {refused} refused");
}

#[test]
fn missing_files_are_found() {
    // Proves the same for every missing file. An older checkpoint is not missed while the newest is there.
    let good = small();
    for name in good.list().unwrap() {
        let storage = copy(&*good);
        storage.remove(&name).unwrap();
        let (found, opened) = (verified(&*storage), open(&storage));
        assert_eq!(opened.is_ok(), found.would_open(), "{name}: {found:#?}, {opened:?}");
        let is_missed = name != "checkpoint-00000000000000000001";
        assert_eq!(found.is_good(), !is_missed, "{name}: {found:#?}");
    }
}

#[test]
fn a_torn_end_is_no_damage() {
    // Proves that a log whose last write was cut off is good, as for recovery, and that damage before is not.
    let storage = memory();
    let db = open(&storage).unwrap();
    put_all(&db, "busy", 0..10, &value(1, 100));
    let torn = copy(&*storage); // as after a crash: not closed
    drop(db);
    let found = verified(&*torn);
    assert!(found.is_good() && !found.was_closed, "{found:#?}");
    let (segment, offset) = place_of(&*torn, 9);
    damage(&*torn, &segment, offset + 20);
    let found = verified(&*torn);
    assert!(found.is_good(), "{found:#?}");
    assert_eq!(found.records, 1 + 9, "the table, and all transactions but the last");
    let (segment, offset) = place_of(&*torn, 4);
    damage(&*torn, &segment, offset + 20);
    let found = verified(&*torn);
    assert!(!found.is_good() && !found.would_open(), "{found:#?}");
    let damage = found.damages().next().unwrap();
    assert_eq!((&damage.file, damage.lsn.is_some()), (&segment, true));
    assert!(damage.offset.unwrap() < offset, "{damage}");
}
