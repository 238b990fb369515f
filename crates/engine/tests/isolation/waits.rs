//! Waits for a commit that cannot continue meanwhile.

use super::{database, put, table_of, value};
use braiddb::suspend::{Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Result, Serializable, Table, Transaction, research};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Begins a transaction on a worker of this thread and leaves it after this many steps, perhaps within its commit.
/// Then runs `act` in an interactive transaction, and lets the first transaction end. Returns true if `act` failed
/// with a conflict or a timeout, and `None` if the transaction has fewer steps.
fn meet(
    seed: u64,
    steps: u32,
    prepare: impl FnOnce(&Transaction, Table<u64, u64>) -> Result<()>,
    act: impl FnOnce(Transaction, Table<u64, u64>, &Database) -> Result<()>,
) -> Option<bool> {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 10), (2, 10)]);
    let mut worker = db.worker_with(Seeded::new(seed), WorkerOptions::default());
    let early = db.begin().unwrap();
    prepare(&early, table).unwrap();
    let is_done = Rc::new(Cell::new(false));
    let end = is_done.clone();
    let body = async move |tx: &braiddb::Txn| {
        let old = tx.get(table, 2).await?.unwrap();
        tx.put(table, 1, old + 10).await
    };
    worker.spawn(body, move |result| end.set(result.is_ok())).unwrap();
    for _ in 0..steps {
        worker.step();
        if is_done.get() {
            return None;
        }
    }
    let gave_way = match act(early, table, &db) {
        Ok(()) => false,
        Err(Error::Conflict | Error::LockTimeout(_)) => true,
        Err(error) => panic!("{error}"),
    };
    while !is_done.get() {
        worker.step();
    }
    assert_eq!(value(&db, table, 1), Some(20));
    Some(gave_way)
}

/// Lets the two meet after every number of steps. Some meet within the commit, and `act` then fails.
fn check(
    prepare: impl Fn(&Transaction, Table<u64, u64>) -> Result<()>,
    act: impl Fn(Transaction, Table<u64, u64>, &Database) -> Result<()>,
) {
    let (mut met, mut gave_way) = (0, 0);
    for seed in 0..3 {
        for steps in 0..100 {
            let Some(gave) = meet(seed, steps, &prepare, &act) else { break };
            met += 1;
            gave_way += u32::from(gave);
        }
    }
    assert!(gave_way > 0 && gave_way < met, "{gave_way} of {met}");
}

/// Checks that a new transaction finds the old or the new value of row 1.
fn finds(db: &Database, find: impl Fn(&Transaction) -> Result<Option<u64>>) -> Result<()> {
    let tx = db.begin()?;
    let found = find(&tx)?.unwrap();
    assert!(found == 10 || found == 20, "{found}");
    tx.commit()
}

/// Proves that a read of what a suspended commit on the same thread has written ends: it fails with a conflict or a
/// timeout.
#[test]
fn reads_end() {
    let nothing = |_: &Transaction, _| Ok(());
    check(nothing, |_, t, db| finds(db, |tx| tx.get(t, 1)));
    check(nothing, |_, t, db| finds(db, |tx| Ok(tx.get_many(t, &[1, 2])?[0])));
    check(nothing, |_, t, db| finds(db, |tx| Ok(tx.scan(t, 1..2).next()?.map(|(_, value)| value))));
    let at_most = Duration::from_millis(5); // nothing steps the worker meanwhile
    let lock = async |tx: &braiddb::Txn, t| tx.get_for_update(t, 1).timeout(at_most).await;
    check(nothing, |_, t, db| finds(db, |tx| tx.with(async |tx| lock(tx, t).await)));
}

/// Proves that the papers' ways to schedule reads, run within one poll, end in the same way.
#[test]
fn reads_of_the_variants_end() {
    let nothing = |_: &Transaction, _| Ok(());
    let both = |found: [Option<u64>; 2]| found[0];
    check(nothing, |_, t, db| {
        finds(db, |tx| tx.with(async |tx| research::get_many_coroutines(tx, t, &[1u64, 2]).await.map(both)))
    });
    check(nothing, |_, t, db| {
        finds(db, |tx| tx.with(async |tx| research::get_many_nested(tx, t, &[1u64, 2]).await.map(both)))
    });
    // If as many operations as there is room for are in flight, this operation runs within its poll.
    check(nothing, |_, t, db| {
        finds(db, |tx| {
            tx.with(async |tx| {
                let mut others =
                    std::array::from_fn::<_, 8, _>(|_| Box::pin(research::get_nested(tx, t, 2u64)));
                let mut context = Context::from_waker(Waker::noop());
                assert!(others.iter_mut().all(|other| other.as_mut().poll(&mut context).is_pending()));
                research::get_nested(tx, t, 1u64).await
            })
        })
    });
}

/// Proves that a commit that depends on the outcome of a suspended commit ends: it fails with a conflict or a timeout.
#[test]
fn commits_end() {
    check(
        |tx, t| tx.get(t, 1).map(|found| assert_eq!(found, Some(10))),
        |tx, t, _| tx.put(t, 3, 1).and_then(|()| tx.commit()),
    );
}

/// Proves that other transactions are not held up: rows that a suspended commit has not touched are read and written.
#[test]
fn others_go_on() {
    for steps in 0..100 {
        let others = |_, t, db: &Database| {
            put(db, t, &[(5, 1)]);
            finds(db, |tx| tx.get(t, 2))
        };
        match meet(1, steps, |_, _| Ok(()), others) {
            Some(gave_way) => assert!(!gave_way),
            None => return,
        }
    }
    panic!("it never ends");
}

/// A policy that picks operations that do not exist.
struct Astray(usize);

impl Suspend for Astray {
    const SUSPENDS: bool = true;
    fn miss<const LINES: usize>(&mut self, _: *const u8) -> bool {
        true
    }
    fn pick(&mut self, _: usize, n: usize) -> usize {
        self.0 += 1;
        [n, n + 1, usize::MAX, 63, 64][self.0 % 5]
    }
}

/// Proves that a policy whose answers are out of range steps no ended transaction: each transaction ends once, and has
/// read what is there.
#[test]
fn a_policy_that_picks_astray_harms_nobody() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 10), (2, 20)]);
    let mut worker = db.worker_with(Astray(0), WorkerOptions::default());
    let ended = Rc::new(Cell::new(0));
    for round in 0..50 {
        for _ in 0..5 {
            let end = ended.clone();
            let body = async move |tx: &braiddb::Txn| {
                let (a, b) = (tx.get(table, 1).await?, tx.get(table, 2).await?);
                tx.get(table, 3).await.map(|c| (a, b, c))
            };
            let end = move |result: Result<_>| {
                assert_eq!(result.unwrap(), (Some(10), Some(20), None));
                end.set(end.get() + 1);
            };
            worker.spawn(body, end).unwrap();
        }
        while ended.get() < 5 * (round + 1) {
            worker.step();
        }
    }
}
