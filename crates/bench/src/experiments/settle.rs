//! `braid bench settle`: how soon a worker under `auto` reaches its full speed after the work has changed. Batches of
//! fixed sizes run for comparison. They show how much of the variation is the machine's.

use crate::args::{DurabilityKind, RefillKind, parse_count, parse_seconds};
use crate::distribution::Rng;
use crate::engine::{self, BatchSize, Database, OnMiss, Serializable, TableOptions, Txn, Worker};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::write_json;
use crate::suite::load::fill;
use crate::workloads::ycsb::{Access, AnyTable, FixedKeys, first, open_table};
use crate::{Failure, Result};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `braid bench settle`.
#[derive(Args, Clone, Debug)]
pub struct SettleArgs {
    /// Records in the table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Seconds until the work changes again
    #[arg(long, default_value = "2", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all kinds of work in each mode, one after the other
    #[arg(long, default_value = "7", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Operations of a transaction.
const OPERATIONS: usize = 10;
/// Throughput is counted in windows of this length.
const WINDOW: Duration = Duration::from_millis(10);
/// Spans after a change, by their ends in windows. Each is reported as its throughput, divided by that of the second
/// half.
const SPANS: [(&str, usize, usize); 5] = [
    ("to 50 ms", 0, 5),
    ("to 0.1 s", 5, 10),
    ("to 0.2 s", 10, 20),
    ("to 0.3 s", 20, 30),
    ("to 0.5 s", 30, 50),
];
/// The least duration of a kind of work: its second half must begin after all spans.
const SECONDS_MIN: f64 = 1.0;

/// Kinds of work that need different numbers of open transactions, in the order in which they take turns.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Reads across the whole table.
    Memory,
    /// Reads of few records, which a cache holds.
    Cache,
    /// Updates of so few records that open transactions conflict.
    Contended,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Memory, Kind::Cache, Kind::Contended];

    fn name(self) -> &'static str {
        match self {
            Kind::Memory => "reads of all",
            Kind::Cache => "reads of 1,000",
            Kind::Contended => "updates of 50",
        }
    }

    /// Returns how many of the table's records are read or written.
    fn records(self, all: u64) -> u64 {
        match self {
            Kind::Memory => all,
            Kind::Cache => all.min(1000),
            Kind::Contended => all.min(50),
        }
    }
}

const MODES: [(&str, BatchSize); 3] =
    [("naive", BatchSize::Fixed(1)), ("interleaved 16", BatchSize::Fixed(16)), ("auto", BatchSize::Auto)];

/// The result of one kind of work in one mode.
#[derive(Serialize)]
struct Line {
    work: &'static str,
    mode: &'static str,
    /// Transactions per second in the second half; a median.
    settled_per_s: f64,
    /// Throughput of each span, divided by that of the second half; medians.
    shares: Vec<f64>,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    records: u64,
    seconds: f64,
    repeats: u32,
    rows: &'a [Line],
}

/// Runs `braid bench settle`.
pub(crate) fn run(args: &SettleArgs) -> Result<()> {
    if args.seconds < SECONDS_MIN {
        return Err(Failure::new(format!("--seconds {}: at least {SECONDS_MIN} are needed", args.seconds)));
    }
    let (db, _) =
        engine::open::<Serializable>(TableOptions::default(), DurabilityKind::Memory, Path::new("."))?;
    let AnyTable::Fixed(table) = open_table(&db, 8)? else {
        return Err(Failure::new("keys of eight bytes have another table"));
    };
    fill(&db, "records", args.records, None, async |tx, &number| table.insert(tx, number, &[1; 8]).await)?;
    let mut runs: Vec<Vec<Vec<u32>>> = vec![Vec::new(); MODES.len() * Kind::ALL.len()];
    for repeat in 0..args.repeats {
        for (mode, (_, batch)) in MODES.into_iter().enumerate() {
            runs_of_mode(&db, table, args, (batch, u64::from(repeat)), |kind, windows| {
                runs[mode * Kind::ALL.len() + kind].push(windows);
            })?;
        }
    }
    show(&lines(&runs), args)
}

/// Runs all kinds of work one after the other on one worker. The first kind runs again at the end, and only that run
/// counts, because its first run follows the loading.
fn runs_of_mode(
    db: &Database<Serializable>,
    table: FixedKeys,
    args: &SettleArgs,
    (batch, seed): (BatchSize, u64),
    mut keep: impl FnMut(usize, Vec<u32>),
) -> Result<()> {
    let mut worker = engine::worker(db, OnMiss, batch, RefillKind::Immediate);
    for turn in 0..=Kind::ALL.len() {
        let kind = turn % Kind::ALL.len();
        let windows = work(&mut worker, table, Kind::ALL[kind], args, seed)?;
        if turn > 0 {
            keep(kind, windows);
        }
    }
    Ok(())
}

/// Returns how many transactions of one kind ended in each window.
fn work(
    worker: &mut Worker<Serializable, OnMiss>,
    table: FixedKeys,
    kind: Kind,
    args: &SettleArgs,
    seed: u64,
) -> Result<Vec<u32>> {
    let length = Duration::from_secs_f64(args.seconds);
    let mut windows = vec![0; (length.as_nanos() / WINDOW.as_nanos()) as usize];
    let (clock, mut rng, mut failed) = (Instant::now(), Rng::new(seed), None);
    let inputs = std::iter::from_fn(|| (clock.elapsed() < length).then(|| rng.next_u64()));
    let records = kind.records(args.records);
    let body = async |tx: &Txn, &seed: &u64| {
        let (mut rng, mut sum) = (Rng::new(seed), 0);
        for _ in 0..OPERATIONS {
            let number = rng.below(records);
            match kind {
                Kind::Contended => drop(table.update(tx, number, &seed.to_ne_bytes()).await?),
                _ => sum += table.get(tx, number).await?.map_or(0, first),
            }
        }
        Ok(sum)
    };
    let sink = |result: braiddb::Result<u64>| match result {
        Ok(sum) => {
            std::hint::black_box(sum);
            let window = clock.elapsed().as_nanos() / WINDOW.as_nanos();
            if let Some(count) = windows.get_mut(window as usize) {
                *count += 1;
            }
        }
        Err(error) => failed = Some(error),
    };
    worker.run_each(inputs, body, sink);
    failed.map_or(Ok(windows), |error| Err(engine::failure(error)))
}

fn lines(runs: &[Vec<Vec<u32>>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        for (mode, (name, _)) in MODES.into_iter().enumerate() {
            let of = &runs[mode * Kind::ALL.len() + at];
            let settled = |windows: &Vec<u32>| mean(&windows[windows.len() / 2..]);
            let share = |(_, from, to): (&str, usize, usize)| {
                median(of.iter().map(|windows| mean(&windows[from..to]) / settled(windows)))
            };
            lines.push(Line {
                work: kind.name(),
                mode: name,
                settled_per_s: median(of.iter().map(settled)) / WINDOW.as_secs_f64(),
                shares: SPANS.map(share).to_vec(),
            });
        }
    }
    lines
}

fn mean(windows: &[u32]) -> f64 {
    windows.iter().map(|&count| f64::from(count)).sum::<f64>() / windows.len() as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn show(lines: &[Line], args: &SettleArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let spans = SPANS.map(|(name, ..)| (name, true));
    let mut grid = Grid::new([("work", false), ("mode", false), ("k txn/s", true)].into_iter().chain(spans));
    for line in lines {
        let cells = [line.work.to_owned(), line.mode.to_owned(), format!("{:.1}", line.settled_per_s / 1e3)];
        grid.push(cells.into_iter().chain(line.shares.iter().map(|share| format!("{share:.2}"))));
    }
    println!(
        "{}\n\n{}\n\nk txn/s: in the second half of {} s; spans after the work has changed: throughput in them by that; medians of {}",
        environment.summary(),
        grid.text(),
        args.seconds,
        args.repeats
    );
    let Some(path) = &args.json else { return Ok(()) };
    let (records, seconds, repeats) = (args.records, args.seconds, args.repeats);
    write_json(path, &Json { environment: &environment, records, seconds, repeats, rows: lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that shares are relative to the throughput of the second half, span by span.
    #[test]
    fn shares() {
        let windows: Vec<u32> = (0..200).map(|window| if window < 20 { 5 } else { 10 }).collect();
        let lines = lines(&vec![vec![windows]; MODES.len() * Kind::ALL.len()]);
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[0].shares, [0.5, 0.5, 0.5, 1.0, 1.0]);
        assert_eq!(lines[0].settled_per_s, 1000.0);
    }

    /// Proves that all kinds of work run in all modes, and that too short a time is refused.
    #[test]
    fn runs() {
        let args = SettleArgs { records: 2000, seconds: 1.0, repeats: 1, json: None };
        run(&args).unwrap();
        let error = run(&SettleArgs { seconds: 0.5, ..args }).unwrap_err();
        assert!(error.to_string().contains("--seconds 0.5"), "{error}");
    }
}
