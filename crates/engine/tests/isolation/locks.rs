//! Rows read for update.

use super::{database, put, skew, table_of, value};
use braiddb::suspend::{Never, OnMiss, Seeded, Suspend};
use braiddb::worker::{Spawned, Worker, WorkerOptions};
use braiddb::{
    Claim, ConcurrencyControl, Database, Error, Options, Result, Serializable, Snapshot, Table, Transaction,
    Txn,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

/// A transaction on a worker that locks row 1 while a younger transaction holds it, and adds 1 to it.
struct Waiter<C: ConcurrencyControl> {
    worker: Worker<C, OnMiss>,
    spawned: Spawned,
    result: Rc<RefCell<Option<Result<Option<u64>>>>>,
    attempts: Rc<Cell<u32>>,
}

impl<C: ConcurrencyControl> Waiter<C> {
    /// Makes the waiter and the holder that it waits for.
    fn new(db: &Database<C>, table: Table<u64, u64>) -> (Waiter<C>, Transaction<C>) {
        let mut worker = db.worker();
        let (is_held, attempts) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let result = Rc::new(RefCell::new(None));
        let (flag, count, end) = (is_held.clone(), attempts.clone(), result.clone());
        let body = async move |tx: &Txn<C>| {
            count.set(count.get() + 1);
            while !flag.get() {
                tx.contains(table, 99).untracked().await?;
            }
            let old = tx.get_for_update(table, 1).await?;
            tx.put(table, 1, old.unwrap_or(0) + 1).await?;
            Ok(old)
        };
        let spawned = worker.spawn(body, move |result| *end.borrow_mut() = Some(result)).unwrap();
        worker.step();
        put(db, table, &[(98, 0)]); // time passes, so the holder is younger
        let holder = db.begin().unwrap();
        assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
        is_held.set(true);
        let mut waiter = Waiter { worker, spawned, result, attempts };
        waiter.step(1000);
        assert!(waiter.result.borrow().is_none(), "it waits");
        (waiter, holder)
    }

    fn step(&mut self, times: usize) {
        for _ in 0..times {
            self.worker.step();
        }
    }

    /// Returns what the waiter found under its lock, and at which attempt.
    fn end(mut self) -> (Option<u64>, u32) {
        while self.worker.open() > 0 {
            self.worker.step();
        }
        (self.result.take().unwrap().unwrap(), self.attempts.get())
    }
}

fn check_waiter<C: ConcurrencyControl>() {
    type End<C> = fn(Transaction<C>, Table<u64, u64>);
    let ends: [(End<C>, Option<u64>, u32); 5] = [
        (|holder, _| holder.commit().unwrap(), Some(10), 1),
        (|holder, _| holder.abort(), Some(10), 1),
        (|holder, _| drop(holder), Some(10), 1),
        (|holder, t| holder.put(t, 1, 20).and_then(|()| holder.commit()).unwrap(), Some(20), 2),
        (|holder, t| holder.delete(t, 1).and_then(|_| holder.commit()).unwrap(), None, 2),
    ];
    for (end, found, attempts) in ends {
        let db = database::<C>();
        let table = table_of(&db, &[(1, 10)]);
        let (waiter, holder) = Waiter::new(&db, table);
        end(holder, table);
        assert_eq!(waiter.end(), (found, attempts));
        assert_eq!(value(&db, table, 1), Some(found.unwrap_or(0) + 1));
    }
}

/// Proves that a transaction waits for a row, and continues with it if the holder has not changed it, however the
/// holder ends. If the holder has changed the row, the waiting transaction is run again.
#[test]
fn a_waiter_gets_the_row() {
    check_waiter::<Serializable>();
    check_waiter::<Snapshot>();
}

/// Proves that a waiter that is cancelled leaves the holder alone.
#[test]
fn a_cancelled_waiter_is_gone() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 10)]);
    let (mut waiter, holder) = Waiter::new(&db, table);
    assert!(waiter.worker.cancel(waiter.spawned));
    waiter.step(10);
    assert!(holder.update(table, 1, 11).unwrap());
    holder.commit().unwrap();
    assert_eq!(value(&db, table, 1), Some(11));
}

/// Proves that a lock that is no longer awaited does not delay what its transaction does instead.
#[test]
fn a_lock_may_be_given_up() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 10), (2, 0)]);
    let mut worker = db.worker();
    let mut holder = None;
    let begun = worker.run(async |tx| {
        let older = tx.snapshot_timestamp();
        if holder.is_none() {
            put(&db, table, &[(98, 0)]);
            let tx = db.begin()?;
            tx.put(table, 1, 11)?;
            holder = Some(tx);
        }
        let mut lock = pin!(tx.get_for_update(table, 1));
        let found = poll_fn(|context| match lock.as_mut().poll(context) {
            Poll::Ready(found) => Poll::Ready(Some(found)),
            Poll::Pending if db.statistics().locks_awaited == 1 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        assert!(found.await.is_none(), "it waits");
        assert_eq!(tx.get(table, 1).await?, Some(10));
        tx.put(table, 2, 1).await?;
        Ok(older)
    });
    assert!(begun.unwrap() < holder.as_ref().unwrap().with(async |tx| Ok(tx.snapshot_timestamp())).unwrap());
    assert_eq!(value(&db, table, 2), Some(1));
    drop(holder);
}

/// Proves that a waiter on another thread gets the row once its holder ends.
#[test]
fn a_waiter_on_another_thread() {
    for writes in [false, true] {
        let db = database::<Serializable>();
        let table = table_of(&db, &[(1, 10)]);
        let asks = AtomicBool::new(false);
        thread::scope(|scope| {
            let holder = db.begin().unwrap();
            assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
            let waiter = scope.spawn(|| {
                db.worker().run(async |tx| {
                    asks.store(true, Ordering::Release); // pairs with the Acquire below
                    let old = tx.get_for_update(table, 1).await?;
                    tx.put(table, 1, old.unwrap() + 1).await
                })
            });
            while !asks.load(Ordering::Acquire) {
                thread::yield_now();
            }
            if writes {
                holder.put(table, 1, 20).unwrap();
            }
            holder.commit().unwrap();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(value(&db, table, 1), Some(if writes { 21 } else { 11 }));
    }
}

fn check_no_wait<C: ConcurrencyControl>(takes: fn(&Transaction<C>, Table<u64, u64>)) {
    let db = database::<C>();
    let table = table_of(&db, &[(1, 10), (2, 0), (3, 0)]);
    let older = db.begin().unwrap();
    put(&db, table, &[(98, 0)]);
    let holder = db.begin().unwrap();
    takes(&holder, table);
    put(&db, table, &[(98, 0)]);
    let younger = db.begin().unwrap();
    for (tx, own) in [(older, 2), (younger, 3)] {
        let refused = tx.with(async |tx| tx.get_for_update(table, 1).no_wait().await.map(drop));
        assert!(matches!(&refused, Err(Error::RowLocked(row)) if row.table == "t"), "{refused:?}");
        let skipped = tx.with(async |tx| tx.get_for_update(table, 1).skip_locked().await);
        assert_eq!(skipped.unwrap(), Claim::Locked);
        assert_eq!(tx.get(table, 1).unwrap(), Some(10), "reading needs no lock");
        tx.put(table, own, 1).unwrap();
        tx.commit().unwrap();
        assert_eq!(value(&db, table, own), Some(1));
    }
    holder.commit().unwrap();
}

/// Proves that a transaction that does not wait gets an error, or skips the row, whether the row is locked or written
/// and whichever transaction is older. The transaction can continue and commit.
#[test]
fn who_will_not_wait_goes_on() {
    let locks = |tx: &Transaction, t| assert_eq!(tx.get_for_update(t, 1).unwrap(), Some(10));
    check_no_wait::<Serializable>(locks);
    check_no_wait::<Serializable>(|tx, t| assert!(tx.delete(t, 1).unwrap()));
    check_no_wait::<Snapshot>(|tx, t| assert_eq!(tx.get_for_update(t, 1).unwrap(), Some(10)));
    check_no_wait::<Snapshot>(|tx, t| tx.put(t, 1, 11).unwrap());
}

/// Proves that transactions that each take the first row that is not locked take different rows.
#[test]
fn skipping_takes_different_rows() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 0), (2, 0), (3, 0)]);
    let open: Vec<_> = (0..4).map(|_| db.begin().unwrap()).collect();
    let take = async |tx: &Txn| {
        for key in 1..=3 {
            if tx.get_for_update(table, key).skip_locked().await?.row().is_some() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    };
    let taken: Vec<_> = open.iter().map(|tx| tx.with(take).unwrap()).collect();
    assert_eq!(taken, [Some(1), Some(2), Some(3), None]);
    for (tx, key) in open.into_iter().zip(taken) {
        key.into_iter().for_each(|key| assert!(tx.delete(table, key).unwrap()));
        tx.commit().unwrap();
    }
}

/// Runs transactions that lock two rows, half of them in the opposite order, and add 1 to each.
fn add_in_both_orders<C: ConcurrencyControl, S: Suspend>(db: &Database<C>, policy: S, first: u64) {
    let table = db.table::<u64, u64>("t").unwrap();
    let mut worker = db.worker_with(policy, WorkerOptions { batch: 8.into(), ..WorkerOptions::default() });
    let add = async |tx: &Txn<C>, number: &u64| {
        let keys = if number.is_multiple_of(2) { [1, 2] } else { [2, 1] };
        let first = tx.get_for_update(table, keys[0]).await?.unwrap();
        let second = tx.get_for_update(table, keys[1]).await?.unwrap();
        assert_eq!(first, second, "both change together");
        assert!(tx.update(table, keys[0], first + 1).await? && tx.update(table, keys[1], first + 1).await?);
        Ok(())
    };
    worker.run_each(first..first + 300, add, |result| result.unwrap());
}

fn check_opposite_orders<C: ConcurrencyControl>() {
    let db = database::<C>();
    let table = table_of(&db, &[(1, 0), (2, 0)]);
    add_in_both_orders(&db, OnMiss, 0);
    add_in_both_orders(&db, Seeded::new(7), 0);
    thread::scope(|scope| {
        scope.spawn(|| add_in_both_orders(&db, OnMiss, 0));
        scope.spawn(|| add_in_both_orders(&db, Never, 1));
    });
    assert_eq!((value(&db, table, 1), value(&db, table, 2)), (Some(1200), Some(1200)));
}

/// Proves that transactions that would wait for each other all commit in the end, on one worker and on two threads.
#[test]
fn opposite_orders_all_commit() {
    check_opposite_orders::<Serializable>();
    check_opposite_orders::<Snapshot>();
}

/// Proves that an absent row is not locked, but that its absence counts as read.
#[test]
fn an_absent_row_is_not_locked() {
    let db = database::<Snapshot>();
    let table = table_of(&db, &[]);
    let (mine, yours) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(mine.get_for_update(table, 1).unwrap(), None);
    assert_eq!(yours.get_for_update(table, 1).unwrap(), None);
    yours.insert(table, 1, 1).unwrap();
    yours.commit().unwrap();
    mine.commit().unwrap();
    let lock = async |tx: &Txn<_>, t, key| tx.get_for_update(t, key).await.map(drop);
    assert_eq!(skew::<Snapshot>(&[], lock), 2);
    assert_eq!(skew::<Serializable>(&[], async |tx, t, key| tx.get_for_update(t, key).await.map(drop)), 1);
}

fn check_own_lock<C: ConcurrencyControl>() {
    let db = database::<C>();
    let table: Table<String, [u8]> = db.table("names").unwrap();
    let (long, longer) = (vec![1; 9000], vec![2; 20_000]);
    for key in ["short", "a key that is longer than two slices of the index"] {
        for value in [&[7; 3][..], &long] {
            let change = |how: &dyn Fn(&Transaction<C>) -> Result<()>, expected: Option<&[u8]>| {
                let tx = db.begin().unwrap();
                tx.put(table, key, value).unwrap();
                tx.commit().unwrap();
                let tx = db.begin().unwrap();
                let found = tx.get_for_update(table, key).unwrap().unwrap();
                assert_eq!(
                    tx.get_for_update(table, key).unwrap(),
                    Some(value),
                    "its own lock is not in its way"
                );
                assert!(matches!(tx.insert(table, key, &[]), Err(Error::KeyExists)));
                how(&tx).unwrap();
                assert_eq!(found, value, "what was read stays as it was");
                assert_eq!(tx.get(table, key).unwrap(), expected);
                tx.commit().unwrap();
                assert_eq!(db.begin().unwrap().get(table, key).unwrap(), expected);
            };
            change(&|_| Ok(()), Some(value));
            change(&|tx| tx.update(table, key, &longer).map(|found| assert!(found)), Some(&longer));
            change(&|tx| tx.put(table, key, b"x"), Some(b"x"));
            change(&|tx| tx.delete(table, key).map(|found| assert!(found)), None);
            change(&|tx| tx.delete(table, key).and_then(|_| tx.insert(table, key, &longer)), Some(&longer));
        }
    }
}

/// Proves that a transaction that has locked a row can change it in every way, whatever the length of key and value.
#[test]
fn a_locked_row_can_be_changed() {
    check_own_lock::<Serializable>();
    check_own_lock::<Snapshot>();
}

fn check_nothing_is_left<C: ConcurrencyControl>() {
    let db = database::<C>();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(table, 1, &[5; 3000]).await).unwrap();
    let (writer, reader) = (db.begin().unwrap(), db.begin().unwrap());
    let mut lock = || worker.run(async |tx| Ok(tx.get_for_update(table, 1).await?.map(<[u8]>::len)));
    assert_eq!(lock().unwrap(), Some(3000));
    let before = db.statistics().memory.total_bytes();
    for _ in 0..5000 {
        assert_eq!(lock().unwrap(), Some(3000));
    }
    assert!(db.statistics().memory.total_bytes() <= before + (1 << 20), "versions pile up");
    while worker.maintain() {}
    assert_eq!(db.statistics().aborts_conflict, 0);
    assert_eq!(reader.get(table, 1).unwrap(), Some(&[5; 3000][..]));
    reader.commit().unwrap();
    assert_eq!(writer.get_for_update(table, 1).unwrap(), Some(&[5; 3000][..]), "as if nobody had been there");
    writer.put(table, 1, &[6]).unwrap();
    writer.commit().unwrap();
}

/// Proves that a lock without a write leaves no version behind, and causes no conflict for readers, lockers and
/// writers that began before it.
#[test]
fn a_mere_lock_leaves_nothing() {
    check_nothing_is_left::<Serializable>();
    check_nothing_is_left::<Snapshot>();
}

/// Proves that nothing is locked in a transaction that was declared read-only.
#[test]
fn readers_do_not_lock() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 10)]);
    let tx = db.begin().unwrap();
    tx.declare_read_only();
    assert!(matches!(tx.get_for_update(table, 1), Err(Error::ReadOnly)));
    let other = db.begin().unwrap();
    assert_eq!(other.get_for_update(table, 1).unwrap(), Some(10));
    other.commit().unwrap();
    assert!(matches!(tx.commit(), Err(Error::ReadOnly)));
}

/// Proves that interactive transactions of one thread, of which none can be released, wait for each other no longer
/// than allowed, whichever is older, and that all continue.
#[test]
fn interactive_transactions_of_one_thread() {
    let options = Options { workers: 0, lock_wait_ms: 20, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let table = table_of(&db, &[(1, 10)]);
    let older = db.begin().unwrap();
    put(&db, table, &[(98, 0)]);
    let holder = db.begin().unwrap();
    put(&db, table, &[(98, 0)]);
    let younger = db.begin().unwrap();
    assert_eq!(holder.get_for_update(table, 1).unwrap(), Some(10));
    for (other, own) in [(older, 2), (younger, 3)] {
        assert!(matches!(other.get_for_update(table, 1), Err(Error::LockTimeout(_))));
        other.put(table, own, 0).unwrap();
        other.commit().unwrap();
    }
    assert!(holder.update(table, 1, 11).unwrap());
    holder.commit().unwrap();
    assert_eq!(value(&db, table, 1), Some(11));
}
