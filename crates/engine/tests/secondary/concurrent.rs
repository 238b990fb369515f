//! Many transactions at once.

use super::*;
use braiddb::suspend::{OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::{Worker, WorkerOptions};
use braiddb::{Error, Snapshot};
use futures::future::{join, join_all};

/// Makes some random writes, a comparison now and then, and ends in one way or the other. Expected answers of writes
/// are no errors.
async fn transact<C: ConcurrencyControl>(tx: &Txn<C>, t: Tables, number: u64) -> Result<()> {
    let mut seed = number;
    random(&mut seed);
    if random(&mut seed).is_multiple_of(16) {
        tx.declare_read_only();
        return check_consistent(tx, t).await.map(drop);
    }
    for _ in 0..random(&mut seed) % 4 {
        let (id, row) = (id(random(&mut seed) % 60), random_row(&mut seed));
        let result = match random(&mut seed) % 8 {
            0..3 => tx.put(t.rows, &id, &row).await,
            3 => tx.insert(t.rows, &id, &row).await,
            4 => tx.update(t.rows, &id, &row).await.map(drop),
            5 => tx.delete(t.rows, &id).await.map(drop),
            6 => match tx.get_for_update(t.rows, &id).await?.copied() {
                Some(there) => tx.put(t.rows, &id, &Row { color: there.color + 1, ..there }).await,
                None => Ok(()),
            },
            // Several writes at once, perhaps of the same row.
            _ => {
                let other = (super::id(random(&mut seed) % 60), random_row(&mut seed));
                let deleted = super::id(random(&mut seed) % 60);
                let writes = join(tx.put(t.rows, &id, &row), tx.put(t.rows, &other.0, &other.1));
                let ((a, b), c) = join(writes, tx.delete(t.rows, &deleted)).await;
                tolerate(a).and(tolerate(b)).and(c.map(drop))
            }
        };
        tolerate(result)?;
    }
    match random(&mut seed) % 128 {
        0..16 => Err(Error::user("rolled back")),
        // A transaction that has written, and has also read everything, conflicts with many others.
        16 => check_consistent(tx, t).await.map(drop),
        _ => Ok(()),
    }
}

fn tolerate(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::KeyExists | Error::UniqueViolation { .. }) => Ok(()),
        result => result,
    }
}

fn run_many<C: ConcurrencyControl, S: Suspend>(
    db: &Database<C>,
    t: Tables,
    policy: S,
    numbers: std::ops::Range<u64>,
) {
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    worker.run_each(
        numbers,
        async |tx, number| transact(tx, t, *number).await,
        |result| match result {
            Ok(()) | Err(Error::User(_)) => {}
            Err(error) => panic!("{error}"),
        },
    );
}

fn check<C: ConcurrencyControl, S: Suspend + Send + Clone>(policy: S) {
    let db: Database<C> = database(0);
    let t = Tables::new(&db);
    run_many(&db, t, policy.clone(), 0..2000);
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let (db, policy) = (db.clone(), policy.clone());
            scope.spawn(move || run_many(&db, t, policy, thread * 100_000..thread * 100_000 + 2000));
        }
    });
    let rows = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert!(rows.len() > 3, "{rows:?}");
}

/// Proves that every snapshot finds the same rows by every index as without, while interleaved transactions on two
/// threads conflict, roll back and are run again, under serializability.
#[test]
fn interleaved_serializable() {
    check::<braiddb::Serializable, _>(OnMiss);
}

/// Proves the same under snapshot isolation.
#[test]
fn interleaved_snapshots() {
    check::<Snapshot, _>(OnMiss);
}

/// Proves the same of sequential workers.
#[test]
fn sequential() {
    check::<braiddb::Serializable, _>(PrefetchOnly);
}

/// Proves the same under schedules that leave operations anywhere.
#[test]
fn seeded() {
    for seed in 0..3 {
        check::<braiddb::Serializable, _>(Seeded::new(seed));
    }
}

/// Proves that the indexes are right after more concurrent writes of one transaction than it has places for.
#[test]
fn many_joined_writes() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let mut worker = db.worker();
    for round in 0..20u32 {
        let row = |n: u32| Row { color: n + round, number: 0, payload: u64::from(n * round) };
        let rows: Vec<_> = (0..30).map(|n| (id((n + round) % 17), row(n))).collect();
        worker
            .run(async |tx| {
                let puts = rows.iter().map(|(id, row)| tx.put(t.rows, id, row));
                join_all(puts).await.into_iter().collect::<Result<Vec<()>>>()?;
                check_consistent(tx, t).await.map(drop)
            })
            .unwrap();
        worker.run(async |tx| check_consistent(tx, t).await).unwrap();
    }
}

/// Proves that entries and their nodes are removed with their rows, and with keys that rows no longer have.
#[test]
fn memory_comes_back() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let mut worker = db.worker();
    let mut left = vec![];
    for round in 0..3u32 {
        let mut full = vec![];
        for change in 0..6 {
            let row = |n: u32| Row { color: n * 31 + change, number: n + 1, payload: u64::from(change) };
            let put = async |tx: &Txn, n: &u32| tx.put(t.rows, id(*n), &row(*n)).await;
            worker.run_each(0..300, put, |result| result.unwrap());
            full.push(clean(&mut worker, &db).0);
        }
        assert!(full[5] < full[0] + full[0] / 4, "entries of former keys pile up: {full:?}");
        let delete = async |tx: &Txn, n: &u32| tx.delete(t.rows, id(*n)).await;
        worker.run_each(0..300, delete, |found| assert!(found.unwrap()));
        left.push(clean(&mut worker, &db));
        assert_eq!(left[round as usize].0, 0, "records are left");
    }
    assert!(left[2].1 <= left[0].1 && left[0].1 < 30, "nodes pile up: {left:?}");
}

/// Cleans up, and returns the numbers of records and nodes that are in use when nothing is left to clean up.
fn clean(worker: &mut Worker<braiddb::Serializable>, db: &Database) -> (u64, u64) {
    for _ in 0..200 {
        while worker.maintain() {}
    }
    assert_eq!(worker.garbage(), 0);
    let memory = db.statistics().memory;
    (memory.records, memory.nodes)
}
