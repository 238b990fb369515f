//! A number of like transactions on a small table, for `cargo xtask cache --check`, which counts their instructions.
//!
//! `counted WORKLOAD MODE TRANSACTIONS`: one or ten reads (`r1`, `r10`), eight reads and two read-modify-writes (`m`), or a
//! scan of a hundred rows one by one (`s100`) or by `for_each` (`e100`), of uniformly distributed keys; `naive` and `interleaved` as a stream on one worker, and
//! `interactive` by calls.

use braiddb::suspend::{Never, OnMiss, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Options, Result, Table, Transaction, Txn};

const RECORDS: u64 = 100_000;
const BATCH: usize = 16;
const ROWS: usize = 100;

type Rows = Table<u64, u64>;

/// What one transaction does: reads, then reads that are written, by keys; or a scan from the first of them.
#[derive(Clone, Copy)]
enum Work {
    Points { reads: usize, writes: usize },
    Rows,
    EachRow,
}

fn work(name: &str) -> Option<Work> {
    Some(match name {
        "r1" => Work::Points { reads: 1, writes: 0 },
        "r10" => Work::Points { reads: 10, writes: 0 },
        "m" => Work::Points { reads: 8, writes: 2 },
        "s100" => Work::Rows,
        "e100" => Work::EachRow,
        _ => return None,
    })
}

/// Keys, the same in each run.
struct Keys(u64);

impl Keys {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % (RECORDS - ROWS as u64)
    }

    fn ten(&mut self) -> [u64; 10] {
        std::array::from_fn(|_| self.next())
    }
}

async fn points(tx: &Txn, rows: Rows, reads: usize, writes: usize, keys: &[u64; 10]) -> Result<u64> {
    let mut sum = 0;
    for key in &keys[..reads] {
        sum += tx.get(rows, *key).await?.unwrap_or(0);
    }
    for key in &keys[reads..reads + writes] {
        let value = tx.get(rows, *key).await?.unwrap_or(0);
        tx.put(rows, *key, value + 1).await?;
    }
    Ok(sum)
}

async fn scan(tx: &Txn, rows: Rows, from: u64) -> Result<u64> {
    let (mut found, mut sum) = (tx.scan(rows, from..).limit(ROWS), 0);
    while let Some((_, value)) = found.next().await? {
        sum += value;
    }
    Ok(sum)
}

async fn scan_each(tx: &Txn, rows: Rows, from: u64) -> Result<u64> {
    let mut sum = 0;
    tx.scan(rows, from..).limit(ROWS).for_each(|_, value| sum += value).await?;
    Ok(sum)
}

fn stream<S: Suspend + Default>(db: &Database, rows: Rows, work: Work, transactions: u64, batch: usize) {
    let mut worker =
        db.worker_with(S::default(), WorkerOptions { batch: batch.into(), ..WorkerOptions::default() });
    let mut keys = Keys(88_172_645_463_325_252);
    let inputs = (0..transactions).map(|_| keys.ten());
    let done = |result: Result<u64>| assert!(result.is_ok(), "nothing is in its way");
    type Ten = [u64; 10];
    match work {
        Work::Points { reads, writes } => {
            worker.run_each(inputs, async |tx, keys: &Ten| points(tx, rows, reads, writes, keys).await, done);
        }
        Work::Rows => worker.run_each(inputs, async |tx, keys: &Ten| scan(tx, rows, keys[0]).await, done),
        Work::EachRow => {
            worker.run_each(inputs, async |tx, keys: &Ten| scan_each(tx, rows, keys[0]).await, done);
        }
    }
}

fn call(tx: &Transaction, rows: Rows, work: Work, keys: &[u64; 10]) -> Result<u64> {
    let mut sum = 0;
    match work {
        Work::Points { reads, writes } => {
            for key in &keys[..reads] {
                sum += tx.get(rows, *key)?.unwrap_or(0);
            }
            for key in &keys[reads..reads + writes] {
                let value = tx.get(rows, *key)?.unwrap_or(0);
                tx.put(rows, *key, value + 1)?;
            }
        }
        Work::Rows => {
            let mut found = tx.scan(rows, keys[0]..).limit(ROWS);
            while let Some((_, value)) = found.next()? {
                sum += value;
            }
        }
        Work::EachRow => tx.scan(rows, keys[0]..).limit(ROWS).for_each(|_, value| sum += value)?,
    }
    Ok(sum)
}

fn main() -> Result<()> {
    let usage =
        || Error::user("usage: counted r1|r10|m|s100|e100 naive|interleaved|interactive TRANSACTIONS");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, mode, transactions] = arguments.as_slice() else { return Err(usage()) };
    let work = work(name).ok_or_else(usage)?;
    let transactions: u64 = transactions.parse().map_err(|_| usage())?;
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let rows: Rows = db.table("rows")?;
    let load = async |tx: &Txn, from: &u64| {
        for key in *from..*from + 100 {
            tx.put(rows, key, key).await?;
        }
        Ok(())
    };
    let mut loader = db.worker_with(Never, WorkerOptions { batch: 1.into(), ..WorkerOptions::default() });
    loader.run_each((0..RECORDS).step_by(100), load, |result| result.expect("room"));
    drop(loader);
    match mode.as_str() {
        "naive" => stream::<Never>(&db, rows, work, transactions, 1),
        "interleaved" => stream::<OnMiss>(&db, rows, work, transactions, BATCH),
        "interactive" => {
            let mut keys = Keys(88_172_645_463_325_252);
            for _ in 0..transactions {
                let tx = db.begin()?;
                call(&tx, rows, work, &keys.ten())?;
                tx.commit()?;
            }
        }
        _ => return Err(usage()),
    }
    Ok(())
}
