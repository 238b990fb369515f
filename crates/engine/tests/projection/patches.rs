//! Scans of blocks in which rows were written, and in which rows are written during the scan.

use super::*;

/// A block has more changes than a scan reads at once. While the scan is at the changes, all rows of the block are
/// written, so the changes are no longer noted one by one. Proves that the scan returns what the table has at its
/// snapshot.
#[test]
fn all_changes_while_it_is_scanned() {
    let bounds = [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Excluded(90), Bound::Excluded(10_150)),
        (Bound::Excluded(5_000), Bound::Included(10_000)),
        (Bound::Included(9_999), Bound::Unbounded),
    ];
    for (at, bounds) in bounds.into_iter().enumerate() {
        for batches in [0, 1, 2, 100, 200] {
            let (db, table, projection) = simple::<Snapshot>(5000);
            fill(&db, table, 0..10_000);
            projection.refresh().unwrap();
            db.transact(|tx| {
                (0..140).try_for_each(|n| tx.put(table, n * 73, -1))?;
                (0..100).try_for_each(|n| tx.put(table, 10_000 + 2 * n, -1))?;
                tx.delete(table, 146).map(drop)
            })
            .unwrap();
            let (tx, mut found) = (reader(&db), Vec::new());
            let expected = rows_of_table(table, &tx, bounds);
            let mut scan = projection.scan(&tx, bounds).unwrap();
            for batch in 0.. {
                if batch == batches {
                    fill(&db, table, 0..10_100);
                }
                let Some(batch) = scan.next().unwrap() else { break };
                for (row, value) in batch.columns().0.iter().enumerate() {
                    found.push((batch.key(row).unwrap(), *value));
                }
            }
            assert!(found == expected, "bounds {at}, after {batches} batches");
        }
    }
}

/// Proves that the memory of a scan that looks at many changes is bounded.
#[test]
fn memory_of_many_changes() {
    let (db, table, projection) = simple::<Serializable>(1 << 20);
    fill(&db, table, 0..100_000);
    projection.refresh().unwrap();
    db.transact(|tx| (0..30_000).try_for_each(|n| tx.put(table, 3 * n, -1))).unwrap();
    let (tx, mut rows) = (reader(&db), 0);
    let mut scan = projection.scan_all(&tx).unwrap();
    let before = db.statistics().memory.other_bytes;
    while let Some(batch) = scan.next().unwrap() {
        rows += batch.len();
    }
    drop(scan);
    assert_eq!(rows, 100_000);
    assert!(db.statistics().memory.other_bytes <= before + (128 << 10));
}
