//! Savepoints of other transactions, and rollbacks at the wrong moment.

use super::*;

/// Proves that a savepoint is an error without effect if it belongs to another transaction, open or ended, to another
/// database, or to the previous transaction in the same place.
pub fn savepoints_of_others_are_refused(scheme: SchemeName) {
    let (db, other) = (database(scheme), database(scheme));
    let t: Table<u64, u64> = db.table("t").unwrap();
    let elsewhere = other.begin().unwrap().savepoint();
    let first = db.begin().unwrap();
    let of_first = first.savepoint();
    first.put(t, 1, 1).unwrap();
    first.commit().unwrap();
    let open = db.begin().unwrap();
    let of_open = open.savepoint();
    let tx = db.begin().unwrap(); // in the state of the first, or in another
    drop(open);
    let next = db.begin().unwrap();
    for tx in [tx, next] {
        let made = tx.savepoint();
        tx.put(t, 2, 2).unwrap();
        for foreign in [&elsewhere, &of_first, &of_open] {
            assert!(matches!(tx.rollback_to(foreign), Err(Error::NoSavepoint)));
        }
        assert_eq!(tx.get(t, 2).unwrap(), Some(2));
        tx.rollback_to(&made).unwrap();
        tx.put(t, 3, 3).unwrap();
        drop(tx);
    }
}

/// Proves that a closure that is run again cannot roll back to a savepoint of its earlier run or of the previous
/// transaction.
pub fn savepoints_of_earlier_runs_are_refused(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let (kept, runs) = (Cell::new(None), Cell::new(0));
    let mut worker = db.worker();
    for number in 0..3 {
        worker
            .run(async |tx| {
                runs.set(runs.get() + 1);
                if let Some(kept) = kept.get() {
                    assert!(matches!(tx.rollback_to(&kept), Err(Error::NoSavepoint)));
                }
                tx.put(t, 1, number).await?;
                kept.set(Some(tx.savepoint()));
                tx.put(t, 2, number).await?;
                if runs.get() % 2 == 1 { Err(Error::Conflict) } else { Ok(()) }
            })
            .unwrap();
    }
    assert_eq!((runs.get(), get(&db, t, 2)), (6, Some(2)));
}

/// Proves that there is no rollback while a future has been polled and has not ended. A future that was not polled yet
/// works as usual afterwards.
pub fn operations_in_flight_refuse(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<String, u64> = db.table("t").unwrap();
    let indexed: Table<u64, u64> = db.table("indexed").unwrap();
    db.index(indexed, "by value", |_, value| Some(value)).unwrap();
    for n in 0..50 {
        db.worker().run(async |tx| tx.put(t, key(n), n).await).unwrap();
    }
    let mut worker = db.worker_with(Seeded::new(7), WorkerOptions::default());
    let refused = Cell::new(0);
    worker
        .run(async |tx| {
            let before = tx.savepoint();
            tx.put(t, key(1), 100).await?;
            let check = || match tx.rollback_to(&before) {
                Err(Error::OperationsInFlight) => refused.set(refused.get() + 1),
                other => panic!("{other:?}"),
            };
            let mut reading = pin!(tx.get(t, key(1)));
            if !poll_once(&mut reading).await {
                check();
                assert_eq!(reading.await?, Some(100));
            }
            let mut writing = pin!(tx.put(indexed, 1, 1));
            if !poll_once(&mut writing).await {
                check();
                writing.await?;
            }
            let waiting = tx.put(t, key(2), 200);
            {
                let mut dropped = pin!(tx.get(t, key(3)));
                poll_once(&mut dropped).await;
            }
            tx.rollback_to(&before)?;
            waiting.await?;
            assert_eq!(tx.get(t, key(1)).await?, Some(1));
            assert_eq!(tx.get(indexed, 1).await?, None);
            Ok(())
        })
        .unwrap();
    assert!(refused.get() > 0, "something has suspended");
    let tx = db.begin().unwrap();
    assert_eq!([1, 2].map(|n| tx.get(t, key(n)).unwrap()), [Some(1), Some(200)]);
}

/// Proves that a scan blocks the rollback while it has rows left that it has found since, until the scan is dropped.
pub fn scans_with_rows_left_refuse(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let by_value = db.index(t, "by value", |_, value| Some(value)).unwrap();
    let tx = db.begin().unwrap();
    (0..5).for_each(|key| tx.put(t, key, key).unwrap());
    let before = tx.savepoint();
    (5..10).for_each(|key| tx.put(t, key, key).unwrap());
    {
        let mut rows = tx.scan(t, 0..);
        assert_eq!(rows.next().unwrap(), Some((0, 0)));
        let error = tx.rollback_to(&before).unwrap_err();
        assert!(matches!(error, Error::OperationsInFlight), "{error}");
        assert_eq!(rows.next().unwrap(), Some((1, 1)));
    }
    {
        let mut rows = tx.scan_by(by_value, 0..);
        assert!(rows.next().unwrap().is_some());
        assert!(matches!(tx.rollback_to(&before), Err(Error::OperationsInFlight)));
    }
    let mut given = 0;
    tx.scan(t, 0..)
        .for_each(|_, _| {
            assert!(matches!(tx.rollback_to(&before), Err(Error::OperationsInFlight)));
            given += 1;
        })
        .unwrap();
    assert_eq!(given, 10);
    tx.rollback_to(&before).unwrap();
    assert_eq!(tx.count(t).unwrap(), 5);
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    std::mem::forget(tx.scan(t, 0..)); // it has found nothing yet
    let before = tx.savepoint();
    tx.put(t, 1, 1).unwrap();
    tx.rollback_to(&before).unwrap();
    let mut rows = tx.scan(t, 0..);
    rows.next().unwrap();
    std::mem::forget(rows);
    tx.put(t, 1, 1).unwrap();
    tx.rollback_to(&before).unwrap();
}

/// Proves that a scan continues past rollbacks to savepoints that were made after it found its rows, one for each row.
pub fn scans_go_on(scheme: SchemeName) {
    const ROWS: u64 = 300; // more than a scan finds at a time
    let db = database(scheme);
    let (t, done): (Table<u64, u64>, Table<u64, u64>) = (db.table("t").unwrap(), db.table("done").unwrap());
    let tx = db.begin().unwrap();
    (0..ROWS).for_each(|key| tx.put(t, key, key).unwrap());
    let before = tx.savepoint();
    tx.put(t, 0, 99).unwrap();
    let (mut rows, mut keys) = (tx.scan(t, 0..), 0..);
    while let Some((key, value)) = rows.next().unwrap() {
        assert_eq!((Some(key), value), (keys.next(), if key == 0 { 99 } else { key }));
        let before = tx.savepoint();
        tx.put(done, key, key).unwrap();
        tx.put(t, key, 1000).unwrap();
        if key % 3 > 0 {
            tx.rollback_to(&before).unwrap();
        }
    }
    assert_eq!(keys, ROWS..);
    drop(rows);
    assert_eq!(tx.count(done).unwrap(), ROWS / 3);
    assert_eq!([0, 1, 3].map(|key| tx.get(t, key).unwrap()), [Some(1000), Some(1), Some(1000)]);
    tx.rollback_to(&before).unwrap();
    assert_eq!([0, 1, 3].map(|key| tx.get(t, key).unwrap()), [Some(0), Some(1), Some(3)]);
    assert_eq!(tx.count(done).unwrap(), 0);
}
