//! `braid bench recovery`: how fast a database recovers rows from a checkpoint, and then transactions from the log.

use crate::args::{RefillKind, parse_count, parse_operations, parse_workers};
use crate::engine::{self, Database, Directory, OnMiss, Options, Serializable, mix};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::{short, write_json};
use crate::{Failure, Result};
use braiddb::recovery::Recovery;
use braiddb::{Durability, Table};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// `braid bench recovery`.
#[derive(Args, Clone, Debug)]
pub struct RecoveryArgs {
    /// Records in the table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Transactions in the log after the checkpoint
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub transactions: u64,
    /// Records that each transaction updates
    #[arg(long, default_value = "2", value_parser = parse_operations)]
    pub updates: usize,
    /// Threads that recover, or `all`
    #[arg(long, default_value = "1,all", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// Number of measurements of each; medians are reported
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Directory in which the database is made; it is removed afterwards [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

type Records = Table<u64, u64>;

/// A line of the results.
#[derive(Serialize)]
struct Line {
    workers: usize,
    records: u64,
    transactions: u64,
    updates: usize,
    repeats: u32,
    rows_per_s: f64,
    transactions_per_s: f64,
    /// Both rates, divided by the number of workers.
    rows_per_s_worker: f64,
    transactions_per_s_worker: f64,
}

#[derive(Serialize)]
struct Json {
    environment: Environment,
    rows: Vec<Line>,
}

/// Runs `braid bench recovery`.
pub(crate) fn run(args: &RecoveryArgs) -> Result<()> {
    let parent = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let directory = Directory::new(&parent)?;
    fill(&directory, args)?;
    let mut measured: Vec<Vec<Recovery>> = args.workers.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.repeats {
        for (workers, measured) in args.workers.iter().zip(&mut measured) {
            let db: Database<Serializable> = engine::open_in(&directory, options(*workers))?;
            let recovery =
                db.recovery().ok_or_else(|| Failure::new("a database in a directory is recovered"))?;
            if (recovery.rows, recovery.transactions) != (args.records, args.transactions) {
                return Err(Failure::new(format!("not all was recovered: {recovery:?}")));
            }
            measured.push(recovery);
        }
    }
    let lines = args.workers.iter().zip(&measured).map(|(workers, measured)| line(args, *workers, measured));
    show(lines.collect(), args)
}

/// The engine makes no checkpoints by itself here. Runs differ only in the number of workers.
fn options(workers: usize) -> Options {
    Options {
        workers,
        pin_workers: true,
        durability: Durability::Async,
        checkpoint_log_bytes: 0,
        checkpoint_interval_s: 0,
        checkpoint_bytes_per_s: u64::MAX,
        ..Options::default()
    }
}

/// Makes a database with a checkpoint of all records, and a log of all transactions.
fn fill(directory: &Directory, args: &RecoveryArgs) -> Result<()> {
    let db: Database<Serializable> = engine::open_in(directory, options(0))?;
    let table: Records = db.table("records").map_err(engine::failure)?;
    let mut failed = None;
    let mut keep = |result: braiddb::Result<()>| failed = result.err().or(failed.take());
    let mut worker = engine::worker(&db, OnMiss, 32.into(), RefillKind::Immediate);
    worker.run_each(
        0..args.records,
        async |tx, number| tx.put(table, mix(*number), *number).await,
        &mut keep,
    );
    db.checkpoint().map_err(engine::failure)?;
    let (records, updates) = (args.records, args.updates as u64);
    worker.run_each(
        0..args.transactions,
        async |tx, number| {
            for i in 0..updates {
                // Any record; one can be updated several times.
                let of = mix(number * updates + i) % records;
                tx.put(table, mix(of), *number).await?;
            }
            Ok(())
        },
        &mut keep,
    );
    drop(worker);
    failed.map_or(Ok(()), |error| Err(engine::failure(error)))?;
    db.close().map_err(engine::failure)
}

fn line(args: &RecoveryArgs, workers: usize, measured: &[Recovery]) -> Line {
    let median = |of: fn(&Recovery) -> u64| {
        let mut ns: Vec<u64> = measured.iter().map(of).collect();
        ns.sort_unstable();
        ns[ns.len() / 2].max(1) as f64 / 1e9
    };
    let rows_per_s = args.records as f64 / median(|recovery| recovery.load_ns);
    let transactions_per_s = args.transactions as f64 / median(|recovery| recovery.replay_ns);
    Line {
        workers,
        records: args.records,
        transactions: args.transactions,
        updates: args.updates,
        repeats: args.repeats,
        rows_per_s,
        transactions_per_s,
        rows_per_s_worker: rows_per_s / workers as f64,
        transactions_per_s_worker: transactions_per_s / workers as f64,
    }
}

fn show(lines: Vec<Line>, args: &RecoveryArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let columns = ["workers", "M rows/s", "per worker", "M txn/s", "per worker"];
    let mut grid = Grid::new(columns.map(|name| (name, true)).into_iter());
    for line in &lines {
        let figures = [
            line.rows_per_s,
            line.rows_per_s_worker,
            line.transactions_per_s,
            line.transactions_per_s_worker,
        ];
        let cells = figures.map(|per_s| format!("{:.2}", per_s / 1e6));
        grid.push([line.workers.to_string()].into_iter().chain(cells));
    }
    println!(
        "{}\n\n{}\n\n{} rows of 8 + 8 bytes from a checkpoint; {} transactions of {} updates from the log; \
         medians of {}",
        environment.summary(),
        grid.text(),
        short(args.records),
        short(args.transactions),
        args.updates,
        args.repeats
    );
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, &Json { environment, rows: lines }))
}
