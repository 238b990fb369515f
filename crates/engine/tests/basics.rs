//! The operations of a transaction, one by one, in every way of running a transaction.

use braiddb::{Database, Error, Options, Result, Table, Txn};

fn local() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory for an empty database")
}

/// Checks the effect of every operation, on keys of both kinds.
async fn every_operation(tx: &Txn, numbers: Table<u64, u64>, names: Table<String, [u8]>) -> Result<()> {
    assert_eq!(tx.get(numbers, 1).await?, None);
    assert!(!tx.update(numbers, 1, 5).await?);
    tx.insert(numbers, 1, 10).await?;
    assert!(matches!(tx.insert(numbers, 1, 11).await, Err(Error::KeyExists)));
    assert_eq!(tx.get(numbers, 1).await?, Some(10));
    assert!(tx.update(numbers, 1, 12).await?);
    tx.put(numbers, 2, 20).await?;
    assert_eq!(tx.get_many(numbers, &[1, 2, 3]).await?, [Some(12), Some(20), None]);
    assert!(tx.contains(numbers, 2).await? && !tx.contains(numbers, 3).await?);
    assert!(tx.delete(numbers, 2).await?);
    assert!(!tx.delete(numbers, 2).await?);
    assert!(!tx.contains(numbers, 2).await?);
    tx.insert(numbers, 2, 21).await?;
    let long = "a name that is longer than two slices".to_string();
    for (name, value) in [("", "none"), ("a", "one"), ("a\0", "zero"), ("abcdefgh", "8"), ("abcdefghi", "9")]
    {
        tx.put(names, name, value.as_bytes()).await?;
    }
    tx.put(names, &long, &[7; 5000]).await?;
    assert_eq!(tx.get(names, &long).await?, Some(&[7; 5000][..]));
    assert_eq!(tx.get(names, "abcdefghi").await?, Some(&b"9"[..]));
    let mut rows = tx.scan(names, "a".."b");
    let mut keys = vec![];
    while let Some((key, _)) = rows.next().await? {
        keys.push(key);
    }
    assert_eq!(keys, ["a", &long, "a\0", "abcdefgh", "abcdefghi"].map(String::from).tap_sort());
    Ok(())
}

trait TapSort {
    fn tap_sort(self) -> Self;
}
impl<const N: usize> TapSort for [String; N] {
    fn tap_sort(mut self) -> Self {
        self.sort();
        self
    }
}

#[test]
fn in_a_local_worker() {
    let db = local();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    db.worker().run(async |tx| every_operation(tx, numbers, names).await).unwrap();
    assert_eq!(db.worker().run(async |tx| tx.get(numbers, 2).await).unwrap(), Some(21));
}

#[test]
fn in_a_submitted_closure() {
    let db = Database::in_memory(Options { workers: 2, ..Options::default() }).unwrap();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    db.run(async move |tx| every_operation(tx, numbers, names).await).wait().unwrap();
}

#[test]
fn in_an_interactive_transaction() {
    let db = local();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    let tx = db.begin().unwrap();
    tx.with(async |tx| every_operation(tx, numbers, names).await).unwrap();
    let other = db.begin().unwrap();
    assert_eq!(other.get(numbers, 1).unwrap(), None);
    assert!(matches!(other.put(numbers, 1, 0), Err(Error::Conflict)));
    drop(other);
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(numbers, 1).unwrap(), Some(12));
}

/// Proves that a transaction that ends with an error leaves nothing behind.
#[test]
fn rolled_back() {
    let db = local();
    let (numbers, names) = (db.table("numbers").unwrap(), db.table("names").unwrap());
    let failed = db.worker().run(async |tx| {
        every_operation(tx, numbers, names).await?;
        Err::<(), _>(Error::user("no"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    let left = db.worker().run(async |tx| {
        let (mut numbers, mut names) = (tx.scan_all(numbers), tx.scan_all(names));
        Ok((numbers.next().await?.is_none(), names.next().await?.is_none()))
    });
    assert_eq!(left.unwrap(), (true, true));
}

/// Proves that no update is lost when one worker runs many transactions, interleaved, with conflicts.
#[test]
fn no_lost_updates() {
    let db = local();
    let counters: Table<u64, u64> = db.table("counters").unwrap();
    let mut worker = db.worker();
    // More rows, because reads of a small table do not suspend.
    worker.run_each(1000..3000, async |tx, key| tx.put(counters, *key, 0).await, |result| result.unwrap());
    worker.run_each(
        0..20_000u64,
        async |tx, i| {
            let key = i % 3;
            let count = tx.get(counters, key).await?.unwrap_or(0);
            tx.put(counters, key, count + 1).await
        },
        |result| result.unwrap(),
    );
    let sum = worker.run(async |tx| {
        let mut sum = 0;
        for key in 0..3 {
            sum += tx.get(counters, key).await?.unwrap();
        }
        Ok(sum)
    });
    assert_eq!(sum.unwrap(), 20_000);
    let statistics = db.statistics();
    assert!(statistics.retries > 0 && statistics.commits == 22_001, "{statistics:?}");
}

#[test]
fn statistics_outlive_workers() {
    // Proves that workers' counts only grow when workers end and others take their places.
    let db = local();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut before = db.statistics();
    for count in [10_000_u64, 100, 1000] {
        let mut worker = db.worker();
        worker.run_each(0..count, async |tx, key| tx.put(table, *key, 1).await, |result| result.unwrap());
        while worker.maintain() {}
        drop(worker);
        let after = db.statistics();
        assert!(after.polls >= before.polls + count && after.rounds > before.rounds, "{before:?}\n{after:?}");
        before = after;
    }
}
