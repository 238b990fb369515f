//! How fast a database is recovered: rows of a checkpoint, then transactions of the log.

use crate::args::RecoveryArgs;
use crate::engine::{self, Database, Directory, OnMiss, Options, Serializable, mix};
use crate::environment::Environment;
use crate::{Failure, Result, report};
use braiddb::recovery::Recovery;
use braiddb::{Durability, Table};
use comfy_table::{CellAlignment, presets};
use serde::Serialize;

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
    /// Of both, by the number of workers.
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
    let directory = Directory::new(&parent);
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
    show(&lines.collect::<Vec<_>>(), args)
}

/// Checkpoints are made when this program says so; nothing but the workers' number differs between runs.
fn options(workers: usize) -> Options {
    Options {
        workers,
        durability: Durability::Async,
        checkpoint_log_bytes: 0,
        checkpoint_interval_s: 0,
        checkpoint_bytes_per_s: u64::MAX,
        ..Options::default()
    }
}

/// Makes a database of a checkpoint with all records, and a log with all transactions.
fn fill(directory: &Directory, args: &RecoveryArgs) -> Result<()> {
    let db: Database<Serializable> = engine::open_in(directory, options(0))?;
    let table: Records = db.table("records").map_err(engine::failure)?;
    let mut failed = None;
    let mut keep = |result: braiddb::Result<()>| failed = result.err().or(failed.take());
    let mut worker = engine::worker(&db, OnMiss, 32.into(), crate::args::RefillKind::Immediate);
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
                // (Any record, again and again.)
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

fn show(lines: &[Line], args: &RecoveryArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["workers", "M rows/s", "per worker", "M txn/s", "per worker"]);
    for line in lines {
        let figures = [
            line.rows_per_s,
            line.rows_per_s_worker,
            line.transactions_per_s,
            line.transactions_per_s_worker,
        ];
        let cells = figures.map(|per_s| format!("{:.2}", per_s / 1e6));
        table.add_row([line.workers.to_string()].into_iter().chain(cells));
    }
    for column in 0..5 {
        table.column_mut(column).expect("it is there").set_cell_alignment(CellAlignment::Right);
    }
    println!(
        "{}\n\n{table}\n\n{} rows of 8 + 8 bytes from a checkpoint; {} transactions of {} updates from the log; \
         medians of {}",
        environment.summary(),
        report::short(args.records),
        report::short(args.transactions),
        args.updates,
        args.repeats
    );
    let Some(path) = &args.json else { return Ok(()) };
    let rows = lines.iter().map(|line| Line { ..*line }).collect();
    let text = serde_json::to_string_pretty(&Json { environment, rows });
    report::write(path, &text.map_err(|error| Failure::new(error.to_string()))?)
}
