//! Runs a number of equal transactions on a small table. `cargo xtask cache --check` runs this example and counts its
//! instructions.
//!
//! `counted WORKLOAD MODE TRANSACTIONS [OPEN]`. Keys are uniformly distributed.
//!
//! - The workload is one or ten reads (`r1`, `r10`), eight reads and two read-modify-writes (`m`), a scan of a hundred
//!   rows one by one (`s100`) or by `for_each` (`e100`), ten read-modify-writes of rows of 300 bytes (`l10`), or ten
//!   new rows under ascending keys (`i10`).
//! - The mode is `naive`, `interleaved` or `teams` for a stream on one worker, or `interactive` for transactions by
//!   calls.
//! - OPEN is the number of transactions that `interleaved` and `teams` keep open at a time. The default is 16.

use braiddb::suspend::{Never, OnMiss, Suspend, Teams};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Options, Result, Table, Transaction, Txn};

const RECORDS: u64 = 100_000;
const BATCH: usize = 16;
const ROWS: usize = 100;

/// Bytes of a long row.
const LONG: usize = 300;

#[derive(Clone, Copy)]
struct Tables {
    rows: Table<u64, u64>,
    long: Table<u64, [u8]>,
}

/// What one transaction does: reads, then reads of rows that it also writes, by keys; or a scan from the first key on.
#[derive(Clone, Copy)]
enum Work {
    Points { reads: usize, writes: usize },
    Rows,
    EachRow,
    LongRows,
    NewRows,
}

fn work(name: &str) -> Option<Work> {
    Some(match name {
        "r1" => Work::Points { reads: 1, writes: 0 },
        "r10" => Work::Points { reads: 10, writes: 0 },
        "m" => Work::Points { reads: 8, writes: 2 },
        "s100" => Work::Rows,
        "e100" => Work::EachRow,
        "l10" => Work::LongRows,
        "i10" => Work::NewRows,
        _ => return None,
    })
}

/// The key at which a transaction puts its new rows, after all others.
fn behind_all(keys: &[u64; 10]) -> u64 {
    (1 << 60) + ((keys[0] * RECORDS + keys[1]) << 8)
}

/// Returns a long row, changed.
fn changed(row: Option<&[u8]>) -> [u8; LONG] {
    let mut changed = [0; LONG];
    changed.copy_from_slice(row.expect("rows stay"));
    changed[LONG / 2] = changed[LONG / 2].wrapping_add(1);
    changed
}

/// Makes keys, the same in each run.
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

async fn points(tx: &Txn, tables: Tables, reads: usize, writes: usize, keys: &[u64; 10]) -> Result<u64> {
    let (rows, mut sum) = (tables.rows, 0);
    for key in &keys[..reads] {
        sum += tx.get(rows, *key).await?.unwrap_or(0);
    }
    for key in &keys[reads..reads + writes] {
        let value = tx.get(rows, *key).await?.unwrap_or(0);
        tx.put(rows, *key, value + 1).await?;
    }
    Ok(sum)
}

async fn scan(tx: &Txn, tables: Tables, from: u64) -> Result<u64> {
    let (mut found, mut sum) = (tx.scan(tables.rows, from..).limit(ROWS), 0);
    while let Some((_, value)) = found.next().await? {
        sum += value;
    }
    Ok(sum)
}

async fn scan_each(tx: &Txn, tables: Tables, from: u64) -> Result<u64> {
    let mut sum = 0;
    tx.scan(tables.rows, from..).limit(ROWS).for_each(|_, value| sum += value).await?;
    Ok(sum)
}

async fn change_long(tx: &Txn, tables: Tables, keys: &[u64; 10]) -> Result<u64> {
    for key in keys {
        let row = changed(tx.get(tables.long, *key).await?);
        tx.put(tables.long, *key, &row).await?;
    }
    Ok(0)
}

async fn add_rows(tx: &Txn, tables: Tables, keys: &[u64; 10]) -> Result<u64> {
    for key in (behind_all(keys)..).take(10) {
        tx.put(tables.rows, key, key).await?;
    }
    Ok(0)
}

fn stream<S: Suspend + Default>(db: &Database, tables: Tables, work: Work, transactions: u64, batch: usize) {
    let mut worker =
        db.worker_with(S::default(), WorkerOptions { batch: batch.into(), ..WorkerOptions::default() });
    let mut keys = Keys(88_172_645_463_325_252);
    let inputs = (0..transactions).map(|_| keys.ten());
    let done = |result: Result<u64>| assert!(result.is_ok(), "nothing is in its way");
    type Ten = [u64; 10];
    match work {
        Work::Points { reads, writes } => {
            worker.run_each(
                inputs,
                async |tx, keys: &Ten| points(tx, tables, reads, writes, keys).await,
                done,
            );
        }
        Work::Rows => worker.run_each(inputs, async |tx, keys: &Ten| scan(tx, tables, keys[0]).await, done),
        Work::EachRow => {
            worker.run_each(inputs, async |tx, keys: &Ten| scan_each(tx, tables, keys[0]).await, done);
        }
        Work::LongRows => {
            worker.run_each(inputs, async |tx, keys: &Ten| change_long(tx, tables, keys).await, done);
        }
        Work::NewRows => {
            worker.run_each(inputs, async |tx, keys: &Ten| add_rows(tx, tables, keys).await, done)
        }
    }
}

fn call(tx: &Transaction, tables: Tables, work: Work, keys: &[u64; 10]) -> Result<u64> {
    let (Tables { rows, long }, mut sum) = (tables, 0);
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
        Work::LongRows => {
            for key in keys {
                let row = changed(tx.get(long, *key)?);
                tx.put(long, *key, &row)?;
            }
        }
        Work::NewRows => (behind_all(keys)..).take(10).try_for_each(|key| tx.put(rows, key, key))?,
    }
    Ok(sum)
}

fn main() -> Result<()> {
    let usage = || {
        Error::user(
            "usage: counted r1|r10|m|s100|e100|l10|i10 naive|interleaved|teams|interactive TRANSACTIONS [OPEN]",
        )
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, mode, numbers @ ..] = arguments.as_slice() else { return Err(usage()) };
    let work = work(name).ok_or_else(usage)?;
    let (transactions, batch) = match numbers {
        [transactions] => (transactions.parse().map_err(|_| usage())?, BATCH),
        [transactions, open] => {
            (transactions.parse().map_err(|_| usage())?, open.parse().map_err(|_| usage())?)
        }
        _ => return Err(usage()),
    };
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let tables = Tables { rows: db.table("rows")?, long: db.table("long")? };
    let load = async |tx: &Txn, from: &u64| {
        for key in *from..*from + 100 {
            match work {
                Work::LongRows => tx.put(tables.long, key, &[0; LONG]).await?,
                _ => tx.put(tables.rows, key, key).await?,
            }
        }
        Ok(())
    };
    let mut loader = db.worker_with(Never, WorkerOptions { batch: 1.into(), ..WorkerOptions::default() });
    loader.run_each((0..RECORDS).step_by(100), load, |result| result.expect("room"));
    drop(loader);
    match mode.as_str() {
        "naive" => stream::<Never>(&db, tables, work, transactions, 1),
        "interleaved" => stream::<OnMiss>(&db, tables, work, transactions, batch),
        "teams" => {
            let loaded = db.statistics();
            stream::<Teams>(&db, tables, work, transactions, batch);
            let counts = db.statistics();
            let team = (counts.visits - loaded.visits) as f64 / counts.teams as f64;
            println!("{team:.1} transactions in a team");
        }
        "interactive" => {
            let mut keys = Keys(88_172_645_463_325_252);
            for _ in 0..transactions {
                let tx = db.begin()?;
                call(&tx, tables, work, &keys.ten())?;
                tx.commit()?;
            }
        }
        _ => return Err(usage()),
    }
    Ok(())
}
