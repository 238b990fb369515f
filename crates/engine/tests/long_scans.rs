//! Transactions that read so many rows that only the bounds of their scans are kept. This file has one test, so
//! nothing else in the process uses memory meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{Database, Options, Result, Table, Transaction};

const ROWS: u64 = 120_000;
const STEP: u64 = 10;

fn sum(tx: &Transaction, table: Table<u64, u64>) -> Result<u64> {
    let (mut rows, mut sum) = (tx.scan(table, ..ROWS * STEP), 0);
    while let Some((_, value)) = rows.next()? {
        sum += value;
    }
    Ok(sum)
}

type Change = fn(&Transaction, Table<u64, u64>, u64) -> Result<()>;

const CHANGES: [Change; 3] = [
    |tx, t, key| tx.insert(t, key * STEP + 5, 1),
    |tx, t, key| tx.update(t, key * STEP, 7).map(|found| assert!(found)),
    |tx, t, key| tx.delete(t, key * STEP).map(|found| assert!(found)),
];

/// One transaction scans everything and writes a row that the other has read. The other changes row number `key` of
/// the scanned rows. Returns how many commit.
fn skew(db: &Database, table: Table<u64, u64>, change: Change, key: u64, order: u64) -> usize {
    let side = db.table::<u64, u64>("side").unwrap();
    let (scanner, changer) = (db.begin().unwrap(), db.begin().unwrap());
    changer.get(side, 1).unwrap();
    if order & 1 == 0 {
        change(&changer, table, key).unwrap();
    }
    sum(&scanner, table).unwrap();
    if order & 1 == 1 {
        change(&changer, table, key).unwrap();
    }
    scanner.put(side, 1, key).unwrap();
    let results = match order & 2 {
        0 => [scanner.commit(), changer.commit()],
        _ => [changer.commit(), scanner.commit()],
    };
    assert!(results[0].is_ok(), "nobody has committed before it");
    results.iter().filter(|result| result.is_ok()).count()
}

/// The resident memory of this process in KiB, if the system reports it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Proves that a scan of more rows than are noted one by one is serializable, together with transactions that insert,
/// update or delete within it, and that scanning again and again takes no more memory.
#[test]
fn long_scans_are_serializable_and_bounded() {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run_each(0..ROWS, async |tx, key| tx.insert(table, key * STEP, 1).await, |put| put.unwrap());
    for (which, change) in CHANGES.into_iter().enumerate() {
        for order in 0..4 {
            // Near the beginning, in the middle, and at the end.
            let key = [3, 50_000, ROWS / 2 + 1, ROWS - 20][order as usize] + which as u64;
            assert_eq!(skew(&db, table, change, key, order), 1, "change {which}, order {order}");
        }
    }
    let scan = |key| {
        let tx = db.begin().unwrap();
        let total = sum(&tx, table).unwrap();
        tx.put(table, ROWS * STEP + key, total).unwrap();
        tx.commit().unwrap();
        total
    };
    let total = scan(0);
    let before = (resident_kib(), db.statistics().memory.total_bytes());
    for round in 0..20 {
        assert_eq!(scan(round % 3), total);
    }
    assert!(db.statistics().memory.total_bytes() <= before.1 + (1 << 20));
    if let (Some(before), Some(after)) = (before.0, resident_kib()) {
        assert!(after < before + 4096, "from {before} to {after} KiB");
    }
}
