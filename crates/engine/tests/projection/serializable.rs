//! Scans of columns in transactions that write. Each commits only if what it has read is unchanged, or if it can be
//! ordered before the transactions that have changed it.

use super::*;
use braiddb::worker::{Step, Worker};
use std::cell::Cell;
use std::rc::Rc;

fn sum<C: ConcurrencyControl>(
    projection: &Values<C>,
    tx: &Transaction<C>,
    range: impl RangeBounds<u64>,
) -> i64 {
    rows(projection, tx, range).unwrap().iter().map(|(_, value)| value).sum()
}

/// Each of two transactions adds up all rows, and then writes what `first` and `second` say. Returns true if one of
/// them aborts.
fn one_gives_way<C: ConcurrencyControl>(
    (db, projection): (&Database<C>, &Values<C>),
    first: impl FnOnce(&Transaction<C>),
    second: impl FnOnce(&Transaction<C>),
) -> bool {
    let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(sum(projection, &one, ..), sum(projection, &other, ..));
    first(&one);
    second(&other);
    let results = [one.commit(), other.commit()];
    assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(Error::Conflict))), "{results:?}");
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    results.iter().any(Result::is_err)
}

/// Proves that two transactions do not each write what the other has read by columns, whether or not blocks have
/// changes before. Inserted and deleted rows count like others. Under snapshot isolation, both may commit.
#[test]
fn what_is_read_is_validated() {
    fn check<C: ConcurrencyControl>(gives_way: bool) {
        let (db, table, projection) = simple::<C>(8);
        fill(&db, table, 0..40);
        projection.refresh().unwrap();
        for _ in 0..3 {
            let both = (&db, &projection);
            let put = |key: u64| move |tx: &Transaction<C>| tx.put(table, key, 7).unwrap();
            assert_eq!(one_gives_way(both, put(3), put(35)), gives_way, "updates");
            assert_eq!(one_gives_way(both, put(3), put(4)), gives_way, "updates in one block");
            assert_eq!(one_gives_way(both, put(1000), put(2000)), gives_way, "new rows");
            let delete = |key: u64| move |tx: &Transaction<C>| assert!(tx.delete(table, key).unwrap());
            assert_eq!(one_gives_way(both, delete(1000), put(5)), gives_way, "a row goes");
            db.transact(|tx| [1000, 2000].iter().try_for_each(|key| tx.delete(table, *key).map(drop)))
                .unwrap();
        }
    }
    check::<Serializable>(true);
    check::<Snapshot>(false);
}

/// Proves the same if so many rows of a block are written after it was read that they are not noted one by one.
#[test]
fn many_changes() {
    let (db, table, projection) = simple::<Serializable>(1000);
    fill(&db, table, 0..400);
    projection.refresh().unwrap();
    let tx = db.begin().unwrap();
    let before = sum(&projection, &tx, ..);
    db.transact(|other| {
        assert_eq!(sum(&projection, other, ..), before);
        (0..300).try_for_each(|key| other.put(table, key, 0))
    })
    .unwrap();
    tx.put(table, 350, before).unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict)));
}

/// Proves that changes outside the scanned range do not matter.
#[test]
fn other_ranges_do_not_count() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    for (range, written, is_read) in [(0..10, 10, false), (0..10, 9, true), (5..6, 4, false), (5..6, 5, true)]
    {
        let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
        sum(&projection, &one, range.clone());
        sum(&projection, &other, 30..40);
        other.put(table, written, 1).unwrap();
        one.put(table, 35, 1).unwrap();
        other.commit().unwrap();
        assert_eq!(one.commit().is_err(), is_read, "{range:?} and {written}");
    }
}

/// Proves that a scan that is not finished counts as a scan of its whole range.
#[test]
fn scans_that_are_left() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
    assert!(projection.scan_all(&one).unwrap().next().unwrap().is_some());
    assert_eq!(other.get(table, 3).unwrap(), Some(3));
    other.put(table, 39, 1).unwrap();
    one.put(table, 3, 1).unwrap();
    other.commit().unwrap();
    assert!(matches!(one.commit(), Err(Error::Conflict)));
}

/// Proves that a transaction that was declared read-only before it reads depends on nothing, and that it is like any
/// other if it was declared later.
#[test]
fn readers() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    for is_early in [true, false] {
        // A writer that is ordered before the reader, because it has read what another transaction has written since.
        let early = db.begin().unwrap();
        early.get(table, 30).unwrap();
        db.transact(|tx| tx.put(table, 30, 1)).unwrap();
        let tx = db.begin().unwrap();
        if is_early {
            tx.declare_read_only();
        }
        let before = sum(&projection, &tx, ..);
        tx.declare_read_only();
        early.put(table, 3, before).unwrap();
        // Either way one of the two must abort: the reader has seen the later write, and not the earlier one.
        let results = [early.commit(), tx.commit()];
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "{results:?}");
        assert!(!is_early || results[1].is_ok(), "a declared reader never gives way");
    }
}

/// Columns are read again while a transaction that has read the old columns is open. Later writes are noted only in
/// the new columns. Proves that they are found all the same.
#[test]
fn columns_are_read_again_meanwhile() {
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    db.transact(|tx| tx.put(table, 0, 1)).unwrap();
    let earlier = db.begin().unwrap();
    thread::scope(|scope| {
        let refresh = scope.spawn(|| projection.refresh().unwrap());
        thread::sleep(Duration::from_millis(100)); // so that it has begun, and waits for `earlier`
        let tx = db.begin().unwrap();
        let before = sum(&projection, &tx, ..);
        earlier.commit().unwrap();
        assert!(refresh.join().unwrap() > 0, "it did not wait for the later one");
        db.transact(|other| {
            assert_eq!(sum(&projection, other, ..), before);
            other.put(table, 2, 1) // in the block that was read again: it has the other blocks still
        })
        .unwrap();
        tx.put(table, 30, 1).unwrap();
        assert!(matches!(tx.commit(), Err(Error::Conflict)));
    });
}

/// Threads take from accounts as much as all accounts have together, and no more. They add the accounts up by columns,
/// while the columns are read again and again.
#[test]
fn threads_at_once() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 2000 };
    let (db, table, projection) = simple::<Serializable>(8);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (db, projection, is_over) = (&db, &projection, &is_over);
        let accountant = |seed: u64| {
            move || {
                for round in 0..ROUNDS as u64 {
                    db.transact(|tx| {
                        let key = seed.wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
                        let (total, value) = (sum(projection, tx, ..), tx.get(table, key)?.unwrap_or(0));
                        assert!(total >= 0, "more was taken than there was");
                        tx.put(table, key, if total >= 100 { value - 100 } else { value + 60 })
                    })
                    .unwrap();
                }
            }
        };
        let refresh = scope.spawn(move || {
            while !is_over.load(Relaxed) {
                drop(projection.refresh());
                thread::sleep(Duration::from_millis(1));
            }
        });
        let accountants = [1, 1 << 20].map(|seed| scope.spawn(accountant(seed)));
        accountants.into_iter().for_each(|thread| thread.join().unwrap());
        is_over.store(true, Relaxed);
        refresh.join().unwrap();
    });
    assert!(sum(&projection, &reader(&db), ..) >= 0);
}

/// Proves that a worker's other transactions run between the batches of a scan.
#[test]
fn others_run_meanwhile() {
    let (db, table, projection) = simple::<Serializable>(1000);
    fill(&db, table, 0..100_000);
    projection.refresh().unwrap();
    let mut worker: Worker = db.worker();
    let (batches, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (count, at) = (batches.clone(), batches.clone());
    let scan = async move |tx: &braiddb::Txn| {
        let mut scan = projection.scan_async::<u64>(tx, ..)?;
        while scan.next().await?.is_some() {
            count.set(count.get() + 1);
        }
        Ok(())
    };
    worker.spawn(scan, |result: Result<()>| result.unwrap()).unwrap();
    let end = seen.clone();
    let other = async move |tx: &braiddb::Txn| tx.put(table, 1 << 40, 1).await;
    worker.spawn(other, move |result: Result<()>| end.set(Some((result, at.get())))).unwrap();
    while worker.step() != Step::Idle {}
    let (result, at) = seen.take().unwrap();
    result.unwrap();
    assert!(at < 100 && batches.get() == 100, "the scan was at batch {at} of {}", batches.get());
}

/// A scan's future is dropped while it reads, and asked again. It is stepped by hand. Proves that no row is missing or
/// returned twice.
#[test]
fn futures_that_are_dropped() {
    let (db, table, projection) = simple::<Serializable>(4);
    fill(&db, table, 0..40);
    projection.refresh().unwrap();
    let changed = [3, 17, 18, 33, 100];
    db.transact(|tx| changed.iter().try_for_each(|key| tx.put(table, *key, -1))).unwrap();
    let mut worker = db.worker_with(Seeded::new(7), braiddb::worker::WorkerOptions::default());
    let found = worker.run(async |tx| {
        let (mut scan, mut found, mut drops) = (projection.scan_async::<u64>(tx, ..)?, Vec::new(), 0);
        loop {
            // It is polled only this often, in turn.
            let polls = drops % 3;
            drops += 1;
            let mut left: u32 = polls;
            let mut next = Box::pin(scan.next());
            let batch = std::future::poll_fn(|context| match next.as_mut().poll(context) {
                std::task::Poll::Ready(batch) => std::task::Poll::Ready(Some(batch)),
                std::task::Poll::Pending if left == 0 && drops < 60 => std::task::Poll::Ready(None),
                std::task::Poll::Pending => {
                    left = left.saturating_sub(1);
                    std::task::Poll::Pending
                }
            });
            match batch.await {
                None => {}
                Some(batch) => match batch? {
                    None => return Ok(found),
                    Some(batch) => (0..batch.len()).for_each(|row| found.push(batch.key(row).unwrap())),
                },
            }
        }
    });
    assert_eq!(found.unwrap(), (0..40).chain([100]).collect::<Vec<u64>>());
}

/// Proves that a transaction that scans so many ranges that there is no memory to note more cannot commit its writes,
/// and that all its memory is given back.
#[test]
fn more_ranges_than_there_is_memory_for() {
    let options = Options { memory_limit_bytes: 16 << 20, ..options() };
    let db = Database::in_memory(options).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    let projection = db.projection(table, "columns", |_, value| Some((value,))).unwrap();
    fill(&db, table, 0..100);
    projection.refresh().unwrap();
    let before = db.statistics().memory.total_bytes();
    let tx = db.begin().unwrap();
    for from in 0..500_000u64 {
        drop(projection.scan(&tx, from..from + 7).unwrap());
    }
    let more = db.statistics().memory.total_bytes() - before;
    tx.put(table, 1, 1).unwrap();
    assert!(matches!(tx.commit(), Err(Error::OutOfMemory { .. })), "{more} bytes");
    assert!(db.statistics().memory.total_bytes() < before + (1 << 20));
    assert_eq!(sum(&projection, &reader(&db), ..), (0..100).sum::<i64>());
}
