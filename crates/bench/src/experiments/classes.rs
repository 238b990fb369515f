//! `braid bench classes`: the latency of short transactions on one worker. They run alone, beside long scans without
//! hints, and beside scans hinted as long. The variants take turns.

use crate::args::{DurabilityKind, RefillKind, parse_count, parse_seconds};
use crate::distribution::Rng;
use crate::engine::{self, BatchSize, Database, OnMiss, Serializable, TableOptions, Txn, Worker};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::write_json;
use crate::suite::load::fill;
use crate::workloads::ycsb::{Access, AnyTable, FixedKeys, first, open_table};
use crate::{Failure, Result};
use braiddb::worker::Hint;
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `braid bench classes`.
#[derive(Args, Clone, Debug)]
pub struct ClassesArgs {
    /// Records in the table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Records that a long transaction scans
    #[arg(long, default_value = "100K", value_parser = parse_count)]
    pub rows: u64,
    /// Short transactions, of ten reads each, per long transaction
    #[arg(long, default_value = "10K", value_parser = parse_count)]
    pub every: u64,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "6", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all variants, one after the other
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Reads in a short transaction.
const READS: usize = 10;
/// Time before each slice in which the worker finds its level.
const WARM_UP: Duration = Duration::from_millis(500);

/// The long transactions that run beside the short ones.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    Unhinted,
    Hinted,
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Unhinted => "beside scans",
            Beside::Hinted => "beside scans hinted as long",
        }
    }
}

/// A way to run the short transactions, and its result.
struct Way {
    name: &'static str,
    batch: BatchSize,
    beside: Beside,
    /// Nanoseconds from a short transaction's start in its slot to its end.
    short_ns: Histogram<u64>,
    longs: u64,
    shorts: u64,
    elapsed: Duration,
}

#[derive(Serialize)]
struct Line {
    mode: &'static str,
    beside: &'static str,
    short_per_s: f64,
    long_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// The 99th percentile, divided by that of short transactions alone in the same mode.
    p99_ratio: f64,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    records: u64,
    rows_per_scan: u64,
    every: u64,
    rows: &'a [Line],
}

/// Runs `braid bench classes`.
pub(crate) fn run(args: &ClassesArgs) -> Result<()> {
    let (db, _) =
        engine::open::<Serializable>(TableOptions::default(), DurabilityKind::Memory, Path::new("."))?;
    let AnyTable::Fixed(table) = open_table(&db, 8)? else {
        return Err(Failure::new("keys of eight bytes have another table"));
    };
    load(&db, table, args.records)?;
    let mut ways = Vec::new();
    for (name, batch) in [("interleaved 48", BatchSize::Fixed(48)), ("auto", BatchSize::Auto)] {
        for beside in [Beside::Nothing, Beside::Unhinted, Beside::Hinted] {
            let short_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
            ways.push(Way { name, batch, beside, short_ns, longs: 0, shorts: 0, elapsed: Duration::ZERO });
        }
    }
    let slice = Duration::from_secs_f64(args.seconds / f64::from(args.repeats));
    for repeat in 0..args.repeats {
        for way in &mut ways {
            let mut worker = engine::worker(&db, OnMiss, way.batch, RefillKind::Immediate);
            work(&mut worker, table, way, args, (WARM_UP, u64::from(repeat)), false)?;
            work(&mut worker, table, way, args, (slice, !u64::from(repeat)), true)?;
        }
    }
    show(&lines(&ways), args)
}

fn load(db: &Database<Serializable>, table: FixedKeys, records: u64) -> Result<()> {
    fill(db, "records", records, None, async |tx, &number| table.insert(tx, number, &[1; 8]).await)
        .map(|_| ())
}

/// One transaction.
struct Input {
    seed: u64,
    is_long: bool,
    started_ns: u64,
}

/// Runs one slice in one way.
fn work(
    worker: &mut Worker<Serializable, OnMiss>,
    table: FixedKeys,
    way: &mut Way,
    args: &ClassesArgs,
    (length, seed): (Duration, u64),
    counts: bool,
) -> Result<()> {
    let (clock, mut rng, mut number, mut failed) = (Instant::now(), Rng::new(seed), 0_u64, None);
    let beside = way.beside;
    let inputs = std::iter::from_fn(|| {
        number += 1;
        let now = clock.elapsed();
        let is_long = beside != Beside::Nothing && number.is_multiple_of(args.every);
        let started_ns = now.as_nanos() as u64;
        (now < length).then(|| Input { seed: rng.next_u64(), is_long, started_ns })
    });
    let (rows, records) = (args.rows as usize, args.records);
    let body = async |tx: &Txn, input: &Input| {
        let mut rng = Rng::new(input.seed);
        let mut sum = 0_u64;
        if input.is_long {
            sum = table.scan(tx, rng.below(records), rows).await?;
        } else {
            for _ in 0..READS {
                sum += table.get(tx, rng.below(records)).await?.map_or(0, first);
            }
        }
        Ok((input.is_long, input.started_ns, sum))
    };
    let sink = |result: braiddb::Result<(bool, u64, u64)>| match result {
        Ok((is_long, started_ns, sum)) => {
            std::hint::black_box(sum);
            if !counts {
            } else if is_long {
                way.longs += 1;
            } else {
                way.shorts += 1;
                way.short_ns.saturating_record(clock.elapsed().as_nanos() as u64 - started_ns);
            }
        }
        Err(error) => failed = Some(error),
    };
    match beside {
        Beside::Hinted => {
            let hint = |input: &Input| if input.is_long { Hint::default().long() } else { Hint::default() };
            worker.run_each_hinted(inputs, hint, body, sink);
        }
        Beside::Nothing | Beside::Unhinted => worker.run_each(inputs, body, sink),
    }
    if counts {
        way.elapsed += clock.elapsed();
    }
    failed.map_or(Ok(()), |error| Err(engine::failure(error)))
}

fn lines(ways: &[Way]) -> Vec<Line> {
    let us = |way: &Way, quantile| way.short_ns.value_at_quantile(quantile) as f64 / 1e3;
    let line = |way: &Way| {
        let alone = ways.iter().find(|other| other.name == way.name && other.beside == Beside::Nothing);
        Line {
            mode: way.name,
            beside: way.beside.name(),
            short_per_s: way.shorts as f64 / way.elapsed.as_secs_f64(),
            long_per_s: way.longs as f64 / way.elapsed.as_secs_f64(),
            p50_us: us(way, 0.5),
            p99_us: us(way, 0.99),
            p999_us: us(way, 0.999),
            p99_ratio: us(way, 0.99) / us(alone.unwrap_or(way), 0.99),
        }
    };
    ways.iter().map(line).collect()
}

fn show(lines: &[Line], args: &ClassesArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let texts = ["mode", "short ones"].map(|name| (name, false));
    let numbers = ["short/s", "long/s", "p50 us", "p99 us", "p99.9 us", "p99 ratio"].map(|name| (name, true));
    let mut grid = Grid::new(texts.into_iter().chain(numbers));
    for line in lines {
        let cells = [
            line.mode.to_owned(),
            line.beside.to_owned(),
            format!("{:.0}", line.short_per_s),
            format!("{:.1}", line.long_per_s),
            format!("{:.1}", line.p50_us),
            format!("{:.1}", line.p99_us),
            format!("{:.1}", line.p999_us),
            format!("{:.2}", line.p99_ratio),
        ];
        grid.push(cells.into_iter());
    }
    let (summary, table) = (environment.summary(), grid.text());
    println!("{summary}\n\n{table}\n\np99 ratio: to that of short ones alone in the same mode");
    let Some(path) = &args.json else { return Ok(()) };
    let (records, rows_per_scan, every) = (args.records, args.rows, args.every);
    write_json(path, &Json { environment: &environment, records, rows_per_scan, every, rows: lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_runs_what_it_is_to_run() {
        // Proves that scans run only in the ways that have them, beside short transactions, and that ratios are to
        // short transactions alone in the same mode.
        let args =
            ClassesArgs { records: 20_000, rows: 2000, every: 100, seconds: 0.06, repeats: 1, json: None };
        run(&args).unwrap();
        let (db, _) =
            engine::open::<Serializable>(TableOptions::default(), DurabilityKind::Memory, Path::new("."))
                .unwrap();
        let AnyTable::Fixed(table) = open_table(&db, 8).unwrap() else { panic!("keys of eight bytes") };
        load(&db, table, args.records).unwrap();
        for beside in [Beside::Nothing, Beside::Unhinted, Beside::Hinted] {
            let short_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
            let (batch, elapsed) = (BatchSize::Fixed(8), Duration::ZERO);
            let mut way = Way { name: "", batch, beside, short_ns, longs: 0, shorts: 0, elapsed };
            let mut worker = engine::worker(&db, OnMiss, way.batch, RefillKind::Immediate);
            work(&mut worker, table, &mut way, &args, (Duration::from_millis(50), 1), true).unwrap();
            assert_eq!(way.longs > 0, beside != Beside::Nothing);
            assert!(way.shorts > 0);
        }
    }
}
