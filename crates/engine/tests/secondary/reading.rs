//! Reads and writes at awkward moments: in old snapshots, dropped halfway, without memory, and while the transaction
//! changes what it reads.

use super::*;
use braiddb::Error;
use braiddb::suspend::{Never, OnMiss, Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

const fn row(color: u32, number: u32) -> Row {
    Row { color, number, payload: 1 }
}

/// Proves that an old snapshot finds by every index what it saw, whatever others do to the rows afterwards.
#[test]
fn old_snapshots() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let mut worker = db.worker();
    let mut seed = 1;
    let mut snapshots = vec![];
    for round in 0..60 {
        let writes: Vec<(Id, Row)> =
            (0..6).map(|_| (id(random(&mut seed) % 20), random_row(&mut seed))).collect();
        let write = async |tx: &Txn, (id, row): &(Id, Row)| match row.payload {
            0..2 => tx.delete(t.rows, id).await.map(drop),
            _ => tx.put(t.rows, id, row).await,
        };
        worker.run_each(
            &writes,
            async |tx, one| write(tx, one).await,
            |result| match result {
                Ok(()) | Err(Error::UniqueViolation { .. }) => {}
                Err(error) => panic!("{error}"),
            },
        );
        let tx = db.begin().unwrap();
        let rows = tx.with(async |tx| check_consistent(tx, t).await).unwrap();
        snapshots.push((tx, rows));
        if round % 3 == 2 {
            snapshots.remove(random(&mut seed) as usize % snapshots.len());
        }
        worker.maintain();
        for (tx, rows) in &snapshots {
            tx.with(async |tx| check_indexes(tx, t, rows).await).unwrap();
        }
    }
}

/// Polls a future this many times, and drops it if it has not ended.
async fn polled<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Proves that a write that is dropped after any number of steps has changed the row and its entries, or nothing, and
/// that the transaction can continue and commit. Proves the same of dropped reads.
#[test]
fn dropped_half_way() {
    for seed in 0..40 {
        for polls in 0..5 {
            let db: Database = database(0);
            let t = Tables::new(&db);
            let mut worker = db.worker_with(Seeded::new(seed), WorkerOptions::default());
            worker.run(async |tx| tx.put(t.rows, id(1), &row(1, 1)).await).unwrap();
            worker
                .run(async |tx| {
                    let put = polled(tx.put(t.rows, id(1), &row(2, 2)), polls).await.transpose()?;
                    let there = tx.get(t.rows, id(1)).await?.copied();
                    assert_eq!(there, Some(if put.is_some() { row(2, 2) } else { row(1, 1) }));
                    check_consistent(tx, t).await?;
                    let inserted = polled(tx.insert(t.rows, id(2), &row(2, 7)), polls).await.transpose()?;
                    assert_eq!(tx.contains(t.rows, id(2)).await?, inserted.is_some());
                    let deleted = polled(tx.delete(t.rows, id(1)), polls).await.transpose()?;
                    assert_eq!(tx.contains(t.rows, id(1)).await?, deleted.is_none());
                    polled(tx.get_by(t.by_number, 7), polls).await.transpose()?;
                    polled(tx.scan_by(t.by_color, 0u32..9).next(), polls).await.transpose()?;
                    check_consistent(tx, t).await.map(drop)
                })
                .unwrap();
            worker.run(async |tx| check_consistent(tx, t).await).unwrap();
        }
    }
}

/// Proves that a cursor over an index and the transaction's own changes of the rows under the cursor do not disturb
/// each other, and that deleted rows are left out.
#[test]
fn changes_under_a_cursor() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let mut worker = db.worker();
    let put = async |tx: &Txn, n: &u32| tx.put(t.rows, id(*n), &row(n % 2, n + 1)).await;
    worker.run_each(0..400, put, |result| result.unwrap());
    let (evens, odds) = worker
        .run(async |tx| {
            let (mut evens, mut odds) = (0, 0);
            let mut rows = tx.scan_by(t.by_color, 0u32..=0);
            while let Some((_, key, row)) = rows.next().await? {
                // Moves to the end of the index, or back to where the cursor has been.
                tx.put(t.rows, &key, &Row { color: 9, ..*row }).await?;
                evens += 1;
            }
            let mut rows = tx.scan_by(t.by_color, 1u32..=1).reverse();
            while let (Some((_, key, _)), _) = futures::join!(async { rows.next().await.unwrap() }, async {
                tx.delete(t.rows, id(odds * 2 + 1)).await.unwrap()
            }) {
                tx.delete(t.rows, &key).await?;
                odds += 1;
            }
            check_consistent(tx, t).await?;
            Ok((evens, odds))
        })
        .unwrap();
    assert_eq!(evens, 200);
    assert!(odds <= 200);
    worker.run(async |tx| check_consistent(tx, t).await).unwrap();
}

/// Fills a database up to its limit, then writes more, in vain.
fn fill_up<S: Suspend>(policy: S) {
    let options = Options { workers: 0, memory_limit_bytes: 4 << 20, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let t = Tables::new(&db);
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let put = async |tx: &Txn, n: &u32| tx.put(t.rows, id(*n), &row(n % 7, n + 1)).await;
    let (mut stored, mut refused) = (0, 0);
    for first in (0..).step_by(1000) {
        worker.run_each(first..first + 1000, put, |result| match result {
            Ok(()) => stored += 1,
            Err(Error::OutOfMemory { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        });
        if refused >= 1000 {
            break;
        }
    }
    assert!(stored > 1000, "{stored}");
    let rows = worker.run(async |tx| {
        tx.declare_read_only(); // its reads are not noted, which would take memory
        check_consistent(tx, t).await
    });
    assert_eq!(rows.unwrap().len(), stored);
}

/// Proves that a write that runs out of memory in any of its parts leaves nothing behind.
#[test]
fn out_of_memory() {
    fill_up(OnMiss);
    fill_up(Never);
}

/// Proves that a transaction that is declared read-only reads by indexes and writes nothing. Its writes, and values
/// that are too long, are refused as without indexes.
#[test]
fn refused_writes() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t.rows, id(1), &row(1, 1)).await).unwrap();
    let result = worker.run(async |tx| {
        tx.declare_read_only();
        assert!(tx.get_by(t.by_number, 1).await?.is_some());
        check_consistent(tx, t).await?;
        tx.put(t.rows, id(1), &row(2, 2)).await
    });
    assert!(matches!(result, Err(Error::ReadOnly)));
    let texts: Table<u64, str> = db.table("texts").unwrap();
    let by_text = db.index(texts, "by text", |_, text: &str| Some(text.to_string())).unwrap();
    let long = "x".repeat(braiddb::KEY_BYTES_MAX + 1);
    let result = worker.run(async |tx| tx.put(texts, 1, &long).await);
    assert!(matches!(result, Err(Error::KeyTooLong { .. })), "{result:?}");
    let nothing = worker.run(async |tx| Ok(tx.scan_by_prefix(by_text, &[7; 5000]).next().await?.is_none()));
    assert!(nothing.unwrap());
}

/// Proves that several keys whose number is known at run time are read as by single reads, under every policy,
/// whatever their lengths.
#[test]
fn get_into() {
    fn check<S: Suspend>(db: &Database, t: Table<Id, Plain<Row>>, policy: S) {
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        for (count, places) in [(0, 0), (0, 3), (3, 0), (1, 1), (7, 9), (9, 7), (40, 40), (100, 100)] {
            let ids: Vec<Id> = (0..count).map(|n| id(n * 7 % 64)).collect();
            let stale = row(99, 99);
            let found = worker.run(async |tx| {
                let mut out = vec![Some(&stale); places];
                tx.get_into(t, &ids, &mut out).await?;
                Ok(out.into_iter().map(|row| row.copied()).collect::<Vec<_>>())
            });
            let expected = |at: usize| {
                let n = at as u32 * 7 % 64;
                (at < ids.len() && n.is_multiple_of(2)).then(|| row(n, n + 1))
            };
            assert!(found.unwrap().into_iter().eq((0..places).map(expected)));
        }
    }
    let db: Database = database(0);
    let t = Tables::new(&db);
    let put = async |tx: &Txn, n: &u32| tx.put(t.rows, id(*n), &row(*n, n + 1)).await;
    db.worker().run_each((0..64).step_by(2), put, |result| result.unwrap());
    check(&db, t.rows, OnMiss);
    check(&db, t.rows, Never);
    check(&db, t.rows, Seeded::new(3));
    let tx = db.begin().unwrap();
    let mut out = [None; 2];
    tx.get_into(t.rows, &[id(2), id(3)], &mut out).unwrap();
    assert_eq!(out, [Some(&row(2, 3)), None]);
}
