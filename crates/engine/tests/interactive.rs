//! Interactive transactions, one after another and on many threads. Each begins as if it were the first.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{Database, Durability, Error, Options, Table, Transaction};

fn database() -> (Database, Table<u64, u64>) {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let table = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    (0..100).for_each(|key| tx.put(table, key, key).unwrap());
    tx.commit().unwrap();
    (db, table)
}

fn count(tx: &Transaction, table: Table<u64, u64>) -> usize {
    let (mut rows, mut count) = (tx.scan::<_, _, u64>(table, ..), 0);
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// Proves that a transaction inherits nothing from the previous user of its memory: no failure, no declaration, no
/// leaked scan, and no write.
#[test]
fn each_begins_anew() {
    let (db, table) = database();
    let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
    first.put(table, 1, 7).unwrap();
    assert!(matches!(second.put(table, 1, 8), Err(Error::Conflict)));
    assert!(matches!(second.commit(), Err(Error::Conflict)), "it is doomed");
    drop(first);
    let reader = db.begin().unwrap();
    reader.declare_read_only();
    reader.set_durability(Durability::Async).unwrap();
    assert!(reader.put(table, 1, 9).is_err(), "it is declared to read only");
    let mut rows = reader.scan(table, 10u64..);
    assert_eq!(rows.next().unwrap(), Some((10, 10)));
    std::mem::forget(rows);
    drop(reader);
    for round in 0..20 {
        let tx = db.begin().unwrap();
        assert_eq!(tx.get(table, 1).unwrap(), Some(1), "undone");
        assert_eq!(count(&tx, table), 100 + round as usize);
        tx.insert(table, 1000 + round, round).unwrap();
        assert_eq!(count(&tx, table), 101 + round as usize);
        tx.commit().unwrap();
    }
}

/// Proves that rows that a scan has read ahead are handed out, between two operations, as they were when they were
/// read.
#[test]
fn rows_read_ahead_stay_as_they_were() {
    let (db, table) = database();
    let reader = db.begin().unwrap();
    let mut rows = reader.scan::<_, _, u64>(table, ..);
    for key in 0..100 {
        let writer = db.begin().unwrap();
        match key % 3 {
            0 => writer.put(table, key, 1_000_000).unwrap(),
            1 => drop(writer.delete(table, key).unwrap()),
            _ => {}
        }
        writer.commit().unwrap();
        db.maintain();
        assert_eq!(rows.next().unwrap(), Some((key, key)));
    }
    assert_eq!(rows.next().unwrap(), None);
}

/// Proves that many transactions at once can end on other threads than they began on, and that what is kept of them is
/// bounded.
#[test]
fn they_move_between_threads_and_leave_little() {
    const OPEN: u64 = 2000;
    let (db, table) = database();
    let used = |db: &Database| db.statistics().memory.transactions_bytes;
    let before = used(&db);
    let open: Vec<Transaction> = std::thread::scope(|scope| {
        let begin = |n: u64| {
            let tx = db.begin().unwrap();
            tx.put(table, 10_000 + n, n).unwrap();
            tx
        };
        let threads: Vec<_> = (0..4)
            .map(|t| scope.spawn(move || (0..OPEN / 4).map(|i| begin(t * OPEN / 4 + i)).collect()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| thread.join().unwrap())
            .collect()
    });
    let while_open = used(&db) - before;
    std::thread::scope(|scope| {
        for tx in open {
            scope.spawn(move || tx.commit().unwrap());
        }
    });
    let tx = db.begin().unwrap();
    assert_eq!(count(&tx, table), 100 + OPEN as usize);
    drop(tx);
    let kept = used(&db) - before;
    assert!(kept * 5 < while_open, "{kept} bytes of {while_open} are kept when none is open");
}

/// Proves that transactions that outlive their database's last handle continue to read and end by themselves, and that
/// their writes are refused.
#[test]
fn they_may_outlive_the_database() {
    let (db, table) = database();
    let (ended, open) = (db.begin().unwrap(), db.begin().unwrap());
    ended.commit().unwrap();
    drop(db);
    assert_eq!(open.get(table, 5).unwrap(), Some(5));
    open.put(table, 5, 6).unwrap();
    assert!(matches!(open.commit(), Err(braiddb::Error::Closed)));
}
