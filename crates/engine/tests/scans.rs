//! Scans over everything that can be in their way: values inside and outside of slots, deleted rows, limits,
//! directions, and ways to run. Also what a scan that ends early has not read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, IndexKind, Options, Result, Table, TableOptions, Txn};
use futures::stream::{FusedStream, StreamExt, TryStreamExt};

const ROWS: u64 = 1500;

fn database() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

/// Values of many lengths, so that the short ones are in their slots.
fn value(key: u64) -> Vec<u8> {
    vec![key as u8; (key % 3 * 20) as usize]
}

fn is_there(key: u64) -> bool {
    key % 7 != 3 && !(600..900).contains(&key)
}

/// Fills both tables with rows. Some are deleted again, and some get a newer version.
fn fill(db: &Database, numbers: Table<u64, [u8]>, names: Table<String, [u8]>) {
    let mut worker = db.worker();
    for round in 0..3 {
        worker.run_each(
            0..ROWS,
            async |tx: &Txn, &key| {
                let name = name(key);
                match round {
                    0 => {
                        tx.put(numbers, key, &value(key + 1)).await?;
                        tx.put(names, &*name, &value(key + 1)).await
                    }
                    1 => {
                        tx.put(numbers, key, &value(key)).await?;
                        tx.put(names, &*name, &value(key)).await
                    }
                    _ if is_there(key) => Ok(()),
                    _ => {
                        tx.delete(numbers, key).await?;
                        tx.delete(names, &*name).await.map(drop)
                    }
                }
            },
            |result: Result<()>| result.unwrap(),
        );
    }
}

/// Some names have the same first eight bytes, and continue.
fn name(key: u64) -> String {
    format!("{:07}{}{}", key / 20, if key % 20 < 10 { "" } else { "0-and-on-" }, key % 10)
}

fn check<S: Suspend>(db: &Database, numbers: Table<u64, [u8]>, names: Table<String, [u8]>, policy: S) {
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let mut names_sorted: Vec<(String, u64)> =
        (0..ROWS).filter(|&k| is_there(k)).map(|k| (name(k), k)).collect();
    names_sorted.sort();
    let inputs =
        [0, 1, 599, 1490].into_iter().flat_map(|from| [0, 1, 10, 100, 1000, usize::MAX].map(|n| (from, n)));
    let inputs = inputs.flat_map(|(from, limit)| [(from, limit, false), (from, limit, true)]);
    let ended = |result: Result<()>| result.unwrap();
    worker.run_each(
        inputs,
        async |tx: &Txn, &(from, limit, reverse)| {
            let mut rows = tx.scan(numbers, from..).limit(limit);
            let mut wanted: Vec<u64> = (from..ROWS).filter(|&key| is_there(key)).collect();
            if reverse {
                rows = rows.reverse();
                wanted.reverse();
            }
            wanted.truncate(limit);
            for &key in &wanted {
                assert_eq!(rows.next().await?, Some((key, &*value(key))), "{from} {limit} {reverse}");
            }
            assert_eq!(rows.next().await?, None, "{from} {limit} {reverse}");
            assert_eq!(rows.next().await?, None);
            let again = tx.scan(numbers, from..).limit(limit);
            let mut again = if reverse { again.reverse() } else { again };
            let mut given = vec![];
            if limit == 10 {
                given.extend(again.next().await?.map(|(key, _)| key)); // some one by one, the others given
            }
            again
                .for_each(|key, bytes| {
                    assert_eq!(bytes, value(key));
                    given.push(key);
                })
                .await?;
            assert_eq!(given, wanted, "{from} {limit} {reverse}");
            assert_eq!(again.next().await?, None);
            let in_chunks = tx.scan(numbers, from..).limit(limit);
            let mut in_chunks = if reverse { in_chunks.reverse() } else { in_chunks };
            let (mut given, mut chunk) = (vec![], vec![]);
            if limit == 10 {
                given.extend(in_chunks.next().await?.map(|(key, _)| key)); // some one by one, the others in chunks
            }
            while in_chunks.next_chunk(&mut chunk).await? {
                assert!(!chunk.is_empty() && chunk.len() <= 1024, "{} rows", chunk.len());
                assert!(chunk.iter().all(|(key, bytes)| *bytes == value(*key)));
                given.extend(chunk.iter().map(|(key, _)| *key));
            }
            assert_eq!((given, chunk.len()), (wanted, 0), "{from} {limit} {reverse}");
            let mut rows = tx.scan(names, &*name(from)..).limit(limit);
            let all = names_sorted.iter().filter(|(name_, _)| *name_ >= name(from));
            let mut wanted: Vec<_> = all.collect();
            if reverse {
                rows = rows.reverse();
                wanted.reverse();
            }
            wanted.truncate(limit);
            for (name, key) in wanted {
                assert_eq!(
                    rows.next().await?,
                    Some((name.clone(), &*value(*key))),
                    "{from} {limit} {reverse}"
                );
            }
            assert_eq!(rows.next_key().await?, None, "{from} {limit} {reverse}");
            Ok(())
        },
        ended,
    );
}

/// Proves that scans of any limit, in both directions and under every policy, return exactly the present rows,
/// wherever their versions are.
#[test]
fn rows_and_nothing_else() {
    let db = database();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    fill(&db, numbers, names);
    check(&db, numbers, names, Never);
    check(&db, numbers, names, PrefetchOnly);
    check(&db, numbers, names, OnMiss);
    for seed in 0..3 {
        check(&db, numbers, names, Seeded::new(seed));
    }
}

/// Proves that a limit that is set between two rows is kept, and that no later limit undoes it.
#[test]
fn limits_in_between() {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let found = db.worker().run(async |tx| {
        for key in 0..100 {
            tx.put(t, key, key).await?;
        }
        let mut rows = tx.scan(t, ..100).limit(50);
        assert_eq!(rows.next().await?, Some((0, 0)));
        let mut rows = rows.limit(2).limit(90);
        assert_eq!((rows.next().await?, rows.next().await?), (Some((1, 1)), Some((2, 2))));
        assert_eq!((rows.next().await?, rows.next().await?), (None, None));
        let mut rows = tx.scan(t, ..100);
        assert_eq!(rows.next().await?, Some((0, 0)));
        rows.limit(0).next().await
    });
    assert_eq!(found.unwrap(), None);
}

/// Proves that a closure that fails ends `try_for_each` with its error, that the rows after it are still there, and
/// that the closure may call the transaction whose rows it gets.
#[test]
fn rows_given_until_an_error() {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    (0..100).for_each(|key| tx.put(t, key, key).unwrap());
    let (mut seen, mut rows) = (vec![], tx.scan(t, ..100).limit(50));
    let refused = rows.try_for_each(|key, value| {
        seen.push(value);
        tx.put(t, key, 1000 + value)?;
        if key == 30 { Err(Error::user("enough")) } else { Ok(()) }
    });
    assert!(matches!(refused, Err(Error::User(_))), "{refused:?}");
    assert_eq!(seen, (0..=30).collect::<Vec<_>>());
    assert_eq!(rows.next().unwrap(), Some((31, 31)));
    rows.for_each(|_, value| seen.push(value)).unwrap();
    assert_eq!(seen[31..], (32..50).collect::<Vec<_>>());
    drop(rows);
    let (mut rows, mut chunk) = (tx.scan(t, 90..), vec![(0, 0)]);
    assert!(rows.next_chunk(&mut chunk).unwrap());
    assert_eq!(chunk, (90..100).map(|key| (key, key)).collect::<Vec<_>>());
    assert!(!rows.next_chunk(&mut chunk).unwrap() && chunk.is_empty());
    drop(rows);
    assert_eq!(tx.get(t, 30).unwrap(), Some(1030));
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    tx.put(t, 5, 7).unwrap();
    let mut sum = 0;
    tx.scan(t, 5..=6).for_each(|_, value| sum += value).unwrap();
    assert_eq!(sum, 7 + 1006, "its own writes are among the rows");
}

/// Proves that a stream has the scan's remaining rows, also if two scans take turns, and that it ends after the first
/// error.
#[test]
fn rows_as_a_stream() {
    fn check<S: Suspend>(db: &Database, numbers: Table<u64, [u8]>, names: Table<String, [u8]>, policy: S) {
        let there: Vec<u64> = (0..ROWS).filter(|key| is_there(*key)).collect();
        let mut named: Vec<String> = there.iter().map(|&key| name(key)).collect();
        named.sort_by(|a, b| b.cmp(a));
        let found = db.worker_with(policy, WorkerOptions::default()).run(async |tx| {
            let mut rows = tx.scan_all(numbers).limit(700);
            assert!(rows.next().await?.is_some_and(|(key, _)| key == 0));
            let two = rows.stream().zip(tx.scan_all(names).reverse().stream());
            two.map(|(number, name)| Ok((number?.0, name?.0))).try_collect::<Vec<_>>().await
        });
        assert!(found.unwrap().into_iter().eq(there[1..700].iter().copied().zip(named)));
    }
    let db = database();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    fill(&db, numbers, names);
    check(&db, numbers, names, Never);
    check(&db, numbers, names, OnMiss);
    check(&db, numbers, names, Seeded::new(1));

    let hashed = TableOptions { index: IndexKind::Cuckoo, ..TableOptions::default() };
    let hashed: Table<u64, u64> = db.table_with("hashed", hashed).unwrap();
    let ended = db.worker().run(async |tx| {
        let mut rows = tx.scan_all(hashed).stream();
        assert!(matches!(rows.next().await, Some(Err(Error::NoOrder { .. }))) && rows.is_terminated());
        Ok(rows.next().await.is_none())
    });
    assert!(ended.unwrap());
}

/// Proves that a scan whose closure has panicked, and the scan's transaction, stay usable: the rows that were at hand
/// are given again.
#[test]
fn rows_given_again_after_a_panic() {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    (0..100).for_each(|key| tx.put(t, key, key).unwrap());
    let mut rows = tx.scan(t, ..100);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rows.for_each(|key, _| assert!(key < 40, "enough of them"))
    }));
    assert!(caught.is_err());
    let mut seen = vec![];
    rows.for_each(|key, _| seen.push(key)).unwrap();
    let first = seen[0];
    assert!((1..=40).contains(&first), "rows that were given before the last run are not given again");
    assert_eq!(seen, (first..100).collect::<Vec<_>>());
    drop(rows);
    tx.put(t, 0, 7).unwrap();
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(t, 0).unwrap(), Some(7));
}

/// Proves that rows that a closure was given count as read: if each of two transactions has read what the other
/// changes, one aborts.
#[test]
fn rows_given_are_read() {
    let db = database();
    let (t, side) = (db.table::<u64, u64>("t").unwrap(), db.table::<u64, u64>("side").unwrap());
    let tx = db.begin().unwrap();
    (0..20).for_each(|key| tx.put(t, key, key).unwrap());
    tx.put(side, 1, 0).unwrap();
    tx.commit().unwrap();
    let (scanner, changer) = (db.begin().unwrap(), db.begin().unwrap());
    changer.get(side, 1).unwrap();
    scanner.scan(t, ..100).for_each(|_, _| {}).unwrap();
    changer.update(t, 6, 0).unwrap();
    scanner.put(side, 1, 1).unwrap();
    let ended = [changer.commit(), scanner.commit()];
    assert_eq!(ended.iter().filter(|result| result.is_ok()).count(), 1);
}

/// Proves that a row that a scan has only read ahead does not count as read, and that a returned row does: if each of
/// two transactions has read what the other changes, one aborts.
#[test]
fn rows_read_ahead_are_not_read() {
    for (returned, commits) in [(3, 2), (8, 1)] {
        let db = database();
        let t: Table<u64, u64> = db.table("t").unwrap();
        let side: Table<u64, u64> = db.table("side").unwrap();
        db.worker()
            .run(async |tx| {
                tx.put(side, 1, 0).await?;
                for key in 0..50 {
                    tx.put(t, key, key).await?;
                }
                Ok(())
            })
            .unwrap();
        let (scanner, changer) = (db.begin().unwrap(), db.begin().unwrap());
        changer.get(side, 1).unwrap();
        let mut rows = scanner.scan(t, ..50);
        for key in 0..returned {
            assert_eq!(rows.next().unwrap(), Some((key, key)));
        }
        drop(rows);
        changer.update(t, 6, 0).unwrap();
        scanner.put(side, 1, 1).unwrap();
        let ended = [changer.commit(), scanner.commit()];
        assert_eq!(ended.iter().filter(|result| result.is_ok()).count(), commits, "{returned} returned");
    }
}

/// Proves that a row that was deleted when it was read ahead stays deleted, whatever its record is when the scan comes
/// to it.
#[test]
fn a_deleted_row_that_was_read_ahead_stays_deleted() {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker
        .run(async |tx| {
            for key in 0..10 {
                tx.put(t, key, key).await?;
            }
            Ok(())
        })
        .unwrap();
    worker.run(async |tx| tx.delete(t, 5).await).unwrap();
    let scanner = db.begin().unwrap();
    let records = db.statistics().memory.records;
    let mut rows = scanner.scan(t, ..100);
    assert_eq!(rows.next().unwrap(), Some((0, 0)));
    // No snapshot sees the deleted row any more. Its record is freed, and used for another row.
    for _ in 0..100 {
        while worker.maintain() || db.maintain() {}
    }
    assert_eq!(db.statistics().memory.records, records - 1);
    let other: Table<u64, [u8]> = db.table("other").unwrap();
    for key in 0..640 {
        worker.run(async |tx| tx.put(other, key, &vec![7; key as usize / 10]).await).unwrap();
    }
    for key in (1..10).filter(|&key| key != 5) {
        assert_eq!(rows.next().unwrap(), Some((key, key)));
    }
    assert_eq!(rows.next().unwrap(), None);
}

/// Every way to change a row that the scan has just returned. `None`: the row is deleted.
fn changed(key: u64) -> Option<u64> {
    match key % 5 {
        0 => Some(key),
        1 => None,
        2 => Some(key + 1),
        3 => Some(key + 2),
        _ => Some(key + 3),
    }
}

/// Changes rows while it scans them, under every policy and in both directions.
fn change_all<S: Suspend>(policy: S, is_reverse: bool) {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let fill = async |tx: &Txn| {
        for key in 0..100 {
            tx.put(t, key, key).await?;
        }
        Ok(())
    };
    worker.run(fill).unwrap();
    let change = async |tx: &Txn| {
        tx.put(t, 2, 1000).await?; // the scan meets its own write
        let mut rows = tx.scan(t, ..100);
        if is_reverse {
            rows = rows.reverse();
        }
        while let Some((key, value)) = rows.next().await? {
            assert_eq!(value, if key == 2 { 1000 } else { key });
            match key % 5 {
                0 => {}
                1 => assert!(tx.delete(t, key).await?),
                2 => tx.put(t, key, changed(key).unwrap()).await?,
                3 => {
                    assert!(matches!(tx.insert(t, key, 0).await, Err(Error::KeyExists)));
                    assert!(tx.update(t, key, changed(key).unwrap()).await?);
                }
                _ => {
                    assert!(tx.delete(t, key).await?);
                    assert!(!tx.delete(t, key).await?);
                    assert!(!tx.update(t, key, 0).await?);
                    tx.insert(t, key, changed(key).unwrap()).await?;
                }
            }
        }
        Ok(())
    };
    worker.run(change).unwrap();
    worker
        .run(async |tx| {
            for key in 0..100 {
                assert_eq!(tx.get(t, key).await?, changed(key), "key {key}");
            }
            Ok(())
        })
        .unwrap();
}

/// Proves that rows may be changed in every way while they are scanned.
#[test]
fn rows_change_under_a_scan() {
    for is_reverse in [false, true] {
        change_all(Never, is_reverse);
        change_all(PrefetchOnly, is_reverse);
        change_all(OnMiss, is_reverse);
    }
}

/// Proves that a row that another transaction changes after the scan has returned it is a conflict for a write of the
/// row.
#[test]
fn a_scanned_row_that_another_changes_is_a_conflict() {
    let db = database();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 1).await).unwrap();
    let (scanner, changer) = (db.begin().unwrap(), db.begin().unwrap());
    let mut rows = scanner.scan(t, ..100);
    assert_eq!(rows.next().unwrap(), Some((1, 1)));
    drop(rows);
    changer.delete(t, 1).unwrap();
    changer.commit().unwrap();
    assert!(matches!(scanner.put(t, 1, 2), Err(Error::Conflict)));
}
