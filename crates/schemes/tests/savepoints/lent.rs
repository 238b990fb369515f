//! Values that a transaction has been lent stay, and memory that is no longer visible is given back.

use super::*;

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + n) as u8).collect()
}

/// Proves that values of its own writes that a transaction has been lent, of any length, stay when the writes are
/// undone, whatever other transactions write into free memory.
pub fn values_lent_stay(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let lengths = [0, 1, 8, 9, 24, 100, 1000, 2000, 10_000];
    let tx = db.begin().unwrap();
    for key in 0..20 {
        tx.put(t, key, &bytes(key as usize)).unwrap();
        tx.put(t, key + 100, &bytes(50)).unwrap();
    }
    tx.commit().unwrap();
    (100..120).for_each(|key| {
        let tx = db.begin().unwrap();
        tx.delete(t, key).unwrap();
        tx.commit().unwrap();
    });
    let tx = db.begin().unwrap();
    let mut lent = Vec::new();
    for round in 0..3 {
        let before = tx.savepoint();
        // Rows that exist, that were deleted, and that never existed. Each is written twice.
        for (key, n) in [0, 100, 1000].iter().flat_map(|from| (*from..).zip(lengths)) {
            tx.put(t, key, &bytes(n)).unwrap();
            lent.push((tx.get(t, key).unwrap().unwrap(), n));
            tx.put(t, key, &bytes(n + round)).unwrap();
            lent.push((tx.get(t, key).unwrap().unwrap(), n + round));
        }
        let many = tx.get_many(t, &[0, 101, 1002]).unwrap();
        lent.extend(many.into_iter().flatten().zip(lengths.map(|n| n + round)));
        let mut rows = tx.scan(t, 1000..);
        let mut found = 0;
        while let Some((_, value)) = rows.next().unwrap() {
            lent.push((value, lengths[found] + round));
            found += 1;
        }
        drop(rows);
        assert_eq!(found, lengths.len());
        lent.push((tx.get_for_update(t, 1008).unwrap().unwrap(), 10_000 + round));
        tx.rollback_to(&before).unwrap();
        assert_eq!(tx.get(t, 1000).unwrap(), None);
        churn(&db);
    }
    for (value, n) in &lent {
        assert_eq!(*value, bytes(*n), "{n}");
    }
    tx.put(t, 1, &bytes(7)).unwrap();
    match lent.len() % 2 {
        0 => tx.commit().unwrap(),
        _ => tx.abort(),
    }
}

/// Proves that a short value in the memory of a record stays when the record is removed because its row was deleted
/// long ago, also once other rows have the memory.
pub fn values_in_removed_records_stay(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    for round in 0..5u8 {
        for key in 0..50 {
            db.worker().run(async |tx| tx.put(t, key, &[1; 30]).await).unwrap();
        }
        let watcher = db.begin().unwrap();
        watcher.get(t, 1000).unwrap();
        let is_alone = (0..50).all(|key| {
            let tx = db.begin().unwrap();
            tx.delete(t, key).is_ok() && tx.commit().is_ok()
        });
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        let mut lent = Vec::new();
        for key in 0..50 {
            if tx.put(t, key, &[key as u8, round, 3]).is_err() {
                assert!(!is_alone);
                break;
            }
            tx.put(t, key, &[round, key as u8]).unwrap();
            lent.push(tx.get(t, key).unwrap().unwrap());
        }
        drop(watcher);
        if is_alone {
            db.maintain(); // the deleted row's turn comes while it is covered
            tx.rollback_to(&before).unwrap();
            churn(&db);
        }
        for (key, value) in lent.iter().enumerate() {
            assert_eq!(**value, [round, key as u8]);
        }
    }
}

/// A multi-get in pieces. Proves that what it has found is not undone before it is handed out.
pub fn multi_gets_do_not_lose_what_they_have_found(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<String, u64> = db.table("t").unwrap();
    let mut worker = db.worker_with(OnMiss, WorkerOptions::default());
    worker
        .run(async |tx| {
            let before = tx.savepoint();
            let keys: Vec<String> = (0..30).map(key).collect();
            for (n, key) in keys.iter().enumerate() {
                tx.put(t, key, n as u64).await?;
            }
            let mut found = [None; 30];
            {
                let mut reading = pin!(tx.get_into(t, &keys, &mut found));
                while !poll_once(&mut reading).await {
                    assert!(matches!(tx.rollback_to(&before), Err(Error::OperationsInFlight)));
                    let mut is_polled = false;
                    poll_fn(|_| match std::mem::replace(&mut is_polled, true) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    })
                    .await;
                }
            }
            assert_eq!(found, std::array::from_fn(|n| Some(n as u64)));
            tx.rollback_to(&before)?;
            assert_eq!(tx.get_many(t, &[key(0), key(29)]).await?, [None, None]);
            Ok(())
        })
        .unwrap();
}

std::thread_local! {
    /// Called first when the next value is read.
    static WHEN_READ: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Bytes. Reading them is foreign code that may use the transaction again.
struct Back;

impl braiddb::Value for Back {
    const NAME: &'static str = "bytes";
    type Input<'v> = &'v [u8];
    type Encoded<'v> = &'v [u8];
    type View<'t> = &'t [u8];
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    fn view(bytes: &[u8]) -> Result<&[u8]> {
        if let Some(act) = WHEN_READ.take() {
            act();
        }
        Ok(bytes)
    }
}

/// Proves that foreign code that an operation calls may use the transaction, and may roll it back if that takes
/// nothing from the operation.
pub fn views_may_come_back(scheme: SchemeName) {
    type Act = Box<dyn Fn() -> Result<()>>;
    std::thread_local! {
        static HERE: Cell<Option<Act>> = const { Cell::new(None) };
        static CAME_TO: Cell<Option<Result<()>>> = const { Cell::new(None) };
    }
    let db = database(scheme);
    let t: Table<u64, Back> = db.table("t").unwrap();
    let tx = std::rc::Rc::new(db.begin().unwrap());
    let before = tx.savepoint();
    let write = || (0..5).for_each(|key| tx.put(t, key, &[key as u8; 40]).unwrap());
    let arm = || {
        let again = tx.clone();
        HERE.set(Some(Box::new(move || again.rollback_to(&before))));
        WHEN_READ.set(Some(|| {
            let act = HERE.take().unwrap();
            CAME_TO.set(Some(act()));
        }));
    };
    write();
    arm();
    let found = tx.get_many(t, &[0, 1, 2, 3, 4]).unwrap();
    assert!(matches!(CAME_TO.take(), Some(Err(Error::OperationsInFlight))));
    churn(&db);
    assert!(found.iter().zip(0..).all(|(value, key)| *value == Some(&[key; 40][..])));
    arm();
    let found = tx.get(t, 3).unwrap();
    assert!(matches!(CAME_TO.take(), Some(Ok(()))), "it is done but for this");
    churn(&db);
    assert_eq!(found, Some(&[3; 40][..]));
    assert_eq!(tx.get(t, 3).unwrap(), None);
    write();
    arm();
    let mut rows = tx.scan(t, 0..);
    assert_eq!(rows.next().unwrap(), Some((0, &[0; 40][..])));
    assert!(matches!(CAME_TO.take(), Some(Err(Error::OperationsInFlight))));
}

/// Proves that rolling back again and again takes no memory. Writes in between take none either, unless they were
/// read. `has_versions`: neither do inserts.
pub fn pairs_take_no_memory(scheme: SchemeName, has_versions: bool) {
    const PAIRS: u64 = 1_000_000;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let rows: Table<u64, [u8]> = db.table("rows").unwrap();
    db.worker().run(async |tx| tx.put(rows, 1, &[0; 100]).await).unwrap();
    let tx = db.begin().unwrap();
    tx.put(rows, 2, &[0; 100]).unwrap();
    let outer = tx.savepoint();
    let mut settled = 0;
    for pair in 0..PAIRS {
        let point = tx.savepoint();
        match pair % 4 {
            0 => {}
            1 => tx.put(rows, 1 + pair / 4 % 2, &[1; 90]).unwrap(),
            2 => tx.add(t, 1, 1).unwrap(),
            _ if has_versions => tx.insert(t, 3, 3).unwrap(),
            _ => tx.put(rows, 2, &[2; 100]).unwrap(),
        }
        tx.rollback_to(if pair % 3 == 0 { &outer } else { &point }).unwrap();
        if pair == PAIRS / 10 {
            settled = db.statistics().memory.total_bytes();
        }
    }
    let grown = db.statistics().memory.total_bytes().saturating_sub(settled);
    assert!(grown < 256 << 10, "{grown} bytes");
    tx.abort();
    // What was read and undone stays as long as the transaction, and is freed with it. Other transactions use the
    // memory again.
    let [first, second] = [(); 2].map(|()| {
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        for _ in 0..10_000 {
            tx.put(rows, 1, &[3; 100]).unwrap();
            assert!(tx.get(rows, 1).unwrap().is_some_and(|value| value == [3; 100]));
            tx.rollback_to(&before).unwrap();
        }
        let kept = db.statistics().memory.total_bytes();
        tx.commit().unwrap();
        (0..100).for_each(|_| _ = db.maintain());
        kept
    });
    assert!(
        first > settled + (1 << 20) && second < first + (512 << 10),
        "{settled}, {first}, {second} bytes"
    );
    assert!(db.statistics().memory.transactions_bytes < 1 << 20);
    assert_eq!(get(&db, t, 1), None);
}

/// Proves the same of a closure on a worker.
pub fn pairs_on_workers_take_no_memory(scheme: SchemeName) {
    let db = database(scheme);
    let rows: Table<u64, [u8]> = db.table("rows").unwrap();
    let mut worker = db.worker_with(OnMiss, WorkerOptions::default());
    let total_bytes = |pairs: u64| {
        let run = async |tx: &Txn<AnyScheme>| {
            for pair in 0..pairs {
                let before = tx.savepoint();
                tx.put(rows, 1 + pair % 2, &[1; 90]).await?;
                tx.rollback_to(&before)?;
            }
            tx.put(rows, 1, &[1; 90]).await?;
            tx.put(rows, 2, &[1; 90]).await
        };
        worker.run(run).unwrap();
        db.statistics().memory.total_bytes()
    };
    let mut total_bytes = total_bytes;
    let settled = total_bytes(20_000);
    let grown = total_bytes(200_000).saturating_sub(settled);
    assert!(grown < 512 << 10, "{grown} bytes");
}

/// Proves that threads that write the same rows, and undo the writes, do not see each other's undone changes, and keep
/// what they have been lent.
pub fn threads_do_not_disturb_each_other(scheme: SchemeName) {
    const ROWS: u64 = 8;
    let db = database(scheme);
    let (t, scratch): (Table<u64, u64>, Table<u64, [u8]>) =
        (db.table("t").unwrap(), db.table("scratch").unwrap());
    db.worker()
        .run(async |tx| {
            for key in 0..ROWS {
                tx.put(t, key, 100).await?;
            }
            Ok(())
        })
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let db = &db;
            scope.spawn(move || {
                let mut worker = db.worker();
                for round in 0..300u64 {
                    let (from, to) = ((round * 5 + thread) % ROWS, (round * 3 + 1) % ROWS);
                    let value = [thread as u8, round as u8, 7];
                    let run = async |tx: &Txn<AnyScheme>| {
                        let before = tx.savepoint();
                        tx.put(t, from, 1_000_000).await?;
                        tx.put(scratch, to, &value).await?;
                        tx.put(scratch, from, &[9; 40]).await?;
                        let lent = (tx.get(scratch, to).await?, tx.get(scratch, from).await?);
                        tx.delete(scratch, to).await?;
                        tx.rollback_to(&before)?;
                        let (a, b) = (tx.get(t, from).await?, tx.get(t, to).await?);
                        tx.put(t, from, a.unwrap() - u64::from(a.unwrap() > 0 && from != to)).await?;
                        if from != to && a.unwrap() > 0 {
                            tx.put(t, to, b.unwrap() + 1).await?;
                        }
                        // Rows are inserted and deleted, so records come and go.
                        match round % 2 {
                            0 => tx.put(scratch, to, &[5; 3]).await?,
                            _ => _ = tx.delete(scratch, to).await?,
                        }
                        // An attempt under a scheme that validates may find its row gone, if other transactions have
                        // removed it. It is then refused, whatever its answer.
                        let is_whole =
                            (from == to || lent.0 == Some(&value[..])) && lent.1 == Some(&[9; 40][..]);
                        if is_whole { Ok(()) } else { Err(Error::user("its own rows are not there")) }
                    };
                    match worker.run(run) {
                        Ok(()) | Err(Error::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let tx = db.begin().unwrap();
    let sum: u64 = (0..ROWS).map(|key| tx.get(t, key).unwrap().unwrap()).sum();
    assert_eq!(sum, 100 * ROWS);
    let mut rows = tx.scan(scratch, 0..);
    while let Some((_, value)) = rows.next().unwrap() {
        assert_eq!(value, [5; 3]);
    }
}
