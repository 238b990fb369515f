//! Invariants under concurrency: workers of several policies and interactive transactions on a few keys, for about a
//! second each. A failure prints the seed. What one thread does follows from the seed, how the threads interleave does
//! not.

use braiddb::metrics::Statistics;
use braiddb::suspend::{Never, OnMiss, Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Front, IndexKind, Options, Result, Table, TableOptions, Txn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SEED: u64 = 0x00b2_a1d0;
const SECONDS: f64 = 1.5;
/// For tables whose rows are inserted and deleted.
const FRONTED: TableOptions = TableOptions { index: IndexKind::Masstree, front: Front::Hash };

fn database() -> Database {
    println!("seed {SEED:#x}");
    Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory")
}

/// Tells when time is up. The first thread that fails ends the time early.
#[derive(Clone)]
struct Until(Instant, Arc<AtomicBool>);

impl Until {
    fn new() -> Until {
        Until(Instant::now() + Duration::from_secs_f64(SECONDS), Arc::default())
    }

    fn is_over(&self) -> bool {
        self.1.load(Ordering::Relaxed) || Instant::now() >= self.0
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        if thread::panicking() {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `transaction` on random numbers in a worker until time is up. Returns how often it committed.
fn work<S: Suspend, R>(
    db: &Database,
    policy: S,
    seed: u64,
    until: &Until,
    transaction: impl AsyncFn(&Txn, &u64) -> Result<R>,
) -> u64 {
    let mut worker = db.worker_with(policy, WorkerOptions { batch: 16.into(), ..WorkerOptions::default() });
    let (mut random, mut commits) = (Seeded::new(SEED ^ seed), 0);
    while !until.is_over() {
        let inputs = (0..500).map(|_| random.next_u64());
        worker.run_each(inputs, &transaction, |result| match result {
            Ok(_) => commits += 1,
            // Conflicts until it gave up: the transaction in its way may have lost its core.
            Err(Error::User(_) | Error::Conflict) => {}
            Err(error) => panic!("{error}"),
        });
    }
    commits
}

/// The same in interactive transactions, which abort on conflict.
fn interact<R>(
    db: &Database,
    seed: u64,
    until: &Until,
    transaction: impl AsyncFn(&Txn, &u64) -> Result<R>,
) -> u64 {
    let (mut random, mut commits) = (Seeded::new(SEED ^ seed), 0);
    while !until.is_over() {
        let input = random.next_u64();
        let tx = db.begin().expect("room");
        match tx.with(async |tx| transaction(tx, &input).await) {
            Ok(_) => match tx.commit() {
                Ok(()) => commits += 1,
                Err(error) => assert!(matches!(error, Error::Conflict), "{error}"),
            },
            Err(Error::Conflict | Error::User(_)) => tx.abort(),
            Err(error) => panic!("{error}"),
        }
    }
    commits
}

/// Two workers of different kinds and a thread of interactive transactions run `write`, and another worker runs
/// `read`.
fn storm<R>(
    db: &Database,
    write: impl AsyncFn(&Txn, &u64) -> Result<R> + Sync,
    read: impl AsyncFn(&Txn, &u64) -> Result<()> + Sync,
) -> Statistics {
    let until = Until::new();
    let (write, read) = (&write, &read);
    let (writes, reads) = thread::scope(|scope| {
        let (a, b, c, d) = (until.clone(), until.clone(), until.clone(), until.clone());
        let writers = [
            scope.spawn(move || work(db, OnMiss, 1, &a, write)),
            scope.spawn(move || work(db, Never, 2, &b, write)),
            scope.spawn(move || interact(db, 3, &c, write)),
        ];
        let readers = [scope.spawn(move || work(db, Seeded::new(4), 4, &d, read))];
        let sum = |threads: Vec<thread::ScopedJoinHandle<'_, u64>>| {
            threads.into_iter().map(|thread| thread.join().expect("its assertions hold")).sum::<u64>()
        };
        (sum(writers.into()), sum(readers.into()))
    });
    let statistics = db.statistics();
    println!("{writes} writers and {reads} readers committed; {} conflicts", statistics.aborts_conflict);
    assert!(writes > 100 && reads > 10, "{statistics:?}");
    statistics
}

/// Cleans up after all and counts the records left.
fn records_left(db: &Database, table: Table<u64, [u8]>) -> u64 {
    // Interactive transactions' garbage is freed when others commit.
    for _ in 0..2000 {
        let tx = db.begin().expect("room");
        tx.put(table, u64::MAX, &[]).expect("nothing is in its way");
        tx.commit().expect("nothing is in its way");
    }
    let mut worker = db.worker();
    worker.run(async |tx| tx.delete(table, u64::MAX).await).expect("nothing is in its way");
    for _ in 0..100_000 {
        worker.maintain();
        if worker.garbage() == 0 && db.statistics().memory.records == 0 {
            break;
        }
        drop(db.begin());
    }
    db.statistics().memory.records
}

/// Proves that transfers between accounts never change the sum that a snapshot sees.
#[test]
fn bank() {
    const ACCOUNTS: u64 = 50;
    const BALANCE: i64 = 1000;
    let db = database();
    let accounts: Table<u64, i64> = db.table("accounts").expect("memory");
    let mut worker = db.worker();
    worker.run_each(
        0..ACCOUNTS,
        async |tx, key| tx.insert(accounts, *key, BALANCE).await,
        |r| r.expect("new"),
    );
    drop(worker);
    let transfer = async |tx: &Txn, random: &u64| {
        let (from, to) = (random % ACCOUNTS, (random >> 8) % ACCOUNTS);
        let amount = (random >> 16) as i64 % 100;
        let have = tx.get(accounts, from).await?.expect("an account stays");
        if have < amount {
            return Err(Error::user("not enough money"));
        }
        tx.put(accounts, from, have - amount).await?;
        let have = tx.get(accounts, to).await?.expect("an account stays");
        assert!(tx.update(accounts, to, have + amount).await?);
        if random >> 60 == 0 { Err(Error::user("changed my mind")) } else { Ok(()) }
    };
    let sum = async |tx: &Txn, random: &u64| {
        for turn in 0..2 {
            let mut rows = tx.scan_all(accounts);
            if random >> turn & 1 == 0 {
                rows = rows.reverse();
            }
            let (mut sum, mut count) = (0, 0);
            while let Some((_, balance)) = rows.next().await? {
                assert!(balance >= 0, "balances are checked before they are lowered");
                (sum, count) = (sum + balance, count + 1);
            }
            assert_eq!((sum, count), (BALANCE * ACCOUNTS as i64, ACCOUNTS), "money came or went");
        }
        Ok(())
    };
    let statistics = storm(&db, transfer, sum);
    assert!(statistics.aborts_conflict > 0, "threads met");
    db.worker().run(async |tx| sum(tx, &0).await).expect("it only reads");
}

/// The contents of a row of the churned table: its key, and a varying length.
fn row(key: u64, random: u64) -> Vec<u8> {
    let length = [8, 8, 9, 40, 300][(random % 5) as usize];
    key.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn check_row(key: u64, value: &[u8]) {
    let expected = key.to_le_bytes();
    assert!(value.len() >= 8, "key {key} has {} bytes", value.len());
    for (i, byte) in value.iter().enumerate() {
        assert_eq!(*byte, expected[i % 8], "key {key} has another key's value, or a mixture: {value:?}");
    }
}

/// Keys are inserted and deleted, and their records are used again. Proves that a reader sees its key's value or none,
/// and that all records are given back in the end.
#[test]
fn churn() {
    const KEYS: u64 = 40;
    let db = database();
    let table: Table<u64, [u8]> = db.table_with("t", FRONTED).expect("memory");
    let write = async |tx: &Txn, random: &u64| {
        for i in 0..3 {
            let random = random >> (i * 16);
            let key = random % KEYS * 0x0101_0101_0101;
            match random >> 8 & 3 {
                0 => match tx.insert(table, key, &row(key, random)).await {
                    Ok(()) | Err(Error::KeyExists) => {}
                    Err(error) => return Err(error),
                },
                1 => tx.put(table, key, &row(key, random)).await?,
                _ => drop(tx.delete(table, key).await?),
            }
        }
        if random >> 61 == 0 { Err(Error::user("changed my mind")) } else { Ok(()) }
    };
    let read = async |tx: &Txn, random: &u64| {
        let key = random % KEYS * 0x0101_0101_0101;
        let first = tx.get(table, key).await?;
        let mut rows = tx.scan_all(table);
        while let Some((key, value)) = rows.next().await? {
            check_row(key, value);
        }
        if let Some(value) = first {
            check_row(key, value);
        }
        assert_eq!(tx.get(table, key).await?, first, "a snapshot changed");
        Ok(())
    };
    storm(&db, write, read);
    let left = db.worker().run(async |tx| {
        for i in 0..KEYS {
            tx.delete(table, i * 0x0101_0101_0101).await?;
        }
        Ok(())
    });
    left.expect("nothing is in its way");
    assert_eq!(records_left(&db, table), 0);
}

/// Proves that runs of ascending keys, whose later keys are inserted without a descent, are inserted and deleted as
/// wholes while other threads split and empty nodes beside them: in each kind of index, with and without a front.
#[test]
fn ascending_runs() {
    const RUNS: u64 = 400;
    const LENGTH: u64 = 10;
    for index in IndexKind::ordered() {
        for front in Front::ALL {
            let db = database();
            let options = TableOptions { index, front: *front };
            let table: Table<u64, [u8]> = db.table_with("t", options).expect("memory");
            let write = async |tx: &Txn, random: &u64| {
                let from = (random % RUNS) << 8;
                let is_there = tx.get(table, from).await?.is_some();
                for key in from..from + LENGTH {
                    match is_there {
                        true => assert!(tx.delete(table, key).await?, "half a run"),
                        false => tx.insert(table, key, &row(key, *random)).await?,
                    }
                }
                if random >> 61 == 0 { Err(Error::user("changed my mind")) } else { Ok(()) }
            };
            let read = async |tx: &Txn, _: &u64| {
                let (mut rows, mut found) = (tx.scan_all(table), 0);
                while let Some((key, value)) = rows.next().await? {
                    check_row(key, value);
                    assert_eq!(key & 0xff, found % LENGTH, "half a run");
                    found += 1;
                }
                assert_eq!(found % LENGTH, 0, "half a run");
                Ok(())
            };
            storm(&db, write, read);
            let clear = async |tx: &Txn, run: &u64| {
                for key in (run << 8)..(run << 8) + LENGTH {
                    tx.delete(table, key).await?;
                }
                Ok(())
            };
            db.worker().run_each(0..RUNS, clear, |result| result.expect("nothing is in its way"));
            assert_eq!(records_left(&db, table), 0);
        }
    }
}

/// Proves that no reader sees half of a commit: both rows of a pair are always equal.
#[test]
fn pairs() {
    const PAIRS: u64 = 4;
    let db = database();
    let (xs, ys): (Table<u64, u64>, Table<String, [u8]>) =
        (db.table("x").expect("memory"), db.table("y").expect("memory"));
    let name = |i: u64| format!("a longer name of pair {i}");
    let write = async |tx: &Txn, random: &u64| {
        let i = random % PAIRS;
        let x = tx.get(xs, i).await?.unwrap_or(0);
        let y = tx.get(ys, name(i)).await?.map_or(0, |y| u64::from_le_bytes(y[..8].try_into().unwrap()));
        assert_eq!(x, y, "a writer saw half of a commit");
        let next = (x + 1).to_le_bytes();
        // In either order, with an inline value or another.
        if random >> 8 & 1 == 0 {
            tx.put(xs, i, x + 1).await?;
        }
        tx.put(ys, name(i), &next.repeat(1 + (random >> 9) as usize % 3)).await?;
        if random >> 8 & 1 == 1 {
            tx.put(xs, i, x + 1).await?;
        }
        Ok(())
    };
    let read = async |tx: &Txn, random: &u64| {
        for i in (0..PAIRS).map(|i| (i + random) % PAIRS) {
            let (x, y) = match random >> 8 & 1 {
                0 => {
                    let x = tx.get(xs, i).await?;
                    (x, tx.get(ys, name(i)).await?)
                }
                _ => {
                    let y = tx.get(ys, name(i)).await?;
                    (tx.get(xs, i).await?, y)
                }
            };
            let y = y.map(|y| u64::from_le_bytes(y[..8].try_into().unwrap()));
            assert_eq!(x, y, "a reader saw half of a commit");
        }
        Ok(())
    };
    storm(&db, write, read);
    // Every commit of a writer added one to one pair, and none was lost.
    let sum = db.worker().run(async |tx| {
        let (mut rows, mut sum) = (tx.scan_all(xs), 0);
        while let Some((_, x)) = rows.next().await? {
            sum += x;
        }
        Ok(sum)
    });
    let sum = sum.expect("it only reads");
    assert!(sum > 0 && sum <= db.statistics().commits, "{sum}");
}

/// Proves that what snapshots of any age have borrowed stays unchanged, byte for byte, while others update, delete and
/// collect garbage.
#[test]
fn held_snapshots() {
    const KEYS: u64 = 20;
    let db = database();
    let table: Table<u64, [u8]> = db.table_with("t", FRONTED).expect("memory");
    let written = AtomicU64::new(0);
    let write = async |tx: &Txn, random: &u64| {
        let key = random % KEYS;
        written.fetch_add(1, Ordering::Relaxed);
        match random >> 8 & 7 {
            0 => drop(tx.delete(table, key).await?),
            _ => tx.put(table, key, &row(key, random >> 16)).await?,
        }
        Ok(())
    };
    let until = Until::new();
    let (db, write) = (&db, &write);
    thread::scope(|scope| {
        let (a, b, c) = (until.clone(), until.clone(), until.clone());
        scope.spawn(move || work(db, OnMiss, 1, &a, write));
        scope.spawn(move || work(db, Seeded::new(2), 2, &b, write));
        scope.spawn(move || hold_snapshots(db, table, KEYS, &c));
    });
    assert!(written.into_inner() > 1000);
    db.worker()
        .run(async |tx| {
            for key in 0..KEYS {
                tx.delete(table, key).await?;
            }
            Ok(())
        })
        .expect("nothing is in its way");
    assert_eq!(records_left(db, table), 0);
}

/// Holds several snapshots, old and young, and checks again and again everything that they have borrowed.
fn hold_snapshots(db: &Database, table: Table<u64, [u8]>, keys: u64, until: &Until) {
    let mut random = Seeded::new(SEED ^ 9);
    while !until.is_over() {
        let transactions: Vec<_> = (0..3)
            .map(|_| {
                thread::sleep(Duration::from_millis(random.next_u64() % 20));
                db.begin().expect("room")
            })
            .collect();
        let read =
            |tx: &'_ braiddb::Transaction, key| tx.get(table, key).expect("it reads").map(<[u8]>::to_vec);
        let copies: Vec<Vec<_>> =
            transactions.iter().map(|tx| (0..keys).map(|key| read(tx, key)).collect()).collect();
        let borrowed: Vec<Vec<_>> = transactions
            .iter()
            .map(|tx| (0..keys).map(|key| tx.get(table, key).expect("it reads")).collect())
            .collect();
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
            for (of, tx) in transactions.iter().enumerate() {
                for key in 0..keys {
                    let copy = copies[of][key as usize].as_deref();
                    copy.inspect(|value| check_row(key, value));
                    assert_eq!(borrowed[of][key as usize], copy, "borrowed bytes of key {key} changed");
                    assert_eq!(tx.get(table, key).expect("it reads"), copy, "key {key} changed");
                }
            }
        }
    }
}
