//! `braid bench robust`: the engine's own choice of level, compared with the best fixed mode. `auto` and every fixed
//! mode run in each cell of a grid of sizes, skews and workloads. A second part measures the latency of transactions
//! that run one at a time.

use crate::args::{
    DurabilityKind, Mode, RefillKind, parse_batch, parse_count, parse_seconds, parse_theta, parse_workers,
};
use crate::distribution::Rng;
use crate::engine::{self, BatchSize, Database, Never, OnMiss, Serializable, TableOptions, Txn};
use crate::machine::median;
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::{short, write, write_json};
use crate::suite::load::fill;
use crate::suite::outcome::{Outcome, Row};
use crate::workloads::ycsb::{Access, AnyTable, YcsbArgs, YcsbPlan, first, open_table, run as run_ycsb};
use crate::{Failure, Result};
use braiddb::suspend::Suspend;
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `braid bench robust`.
#[derive(Args, Clone, Debug)]
pub struct RobustArgs {
    /// Records in the tables
    #[arg(long, default_value = "10K,1M,50M", value_delimiter = ',', value_parser = parse_count)]
    pub records: Vec<u64>,
    /// Workloads, named as for ycsb
    #[arg(long, default_value = "r1,r10,m,u10,rmw10,s100", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Skews, 0 for uniform
    #[arg(long, default_value = "0,0.99", value_delimiter = ',', value_parser = parse_theta)]
    pub theta: Vec<f64>,
    /// Worker threads
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// Batches of the interleaved mode
    #[arg(long, default_value = "8,16,48", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,
    /// Seconds per variant, divided among the repeats; auto gets half a second more each time, to find its level
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all variants of a table, one after the other; medians are reported
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws the ratios as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The result of one cell.
#[derive(Serialize)]
struct Cell {
    records: u64,
    theta: f64,
    workers: usize,
    workload: String,
    best_mode: &'static str,
    best_batch: usize,
    best_transactions_per_s: f64,
    auto_transactions_per_s: f64,
    /// Throughput of `auto`, divided by that of the best fixed mode; see `by_best`.
    ratio: f64,
    /// The larger of the two spreads.
    spread: f64,
    /// Throughput of `auto`, divided by that of the worst fixed mode: the cost of a wrong choice by hand.
    ratio_to_worst: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Median latencies of transactions that are run one at a time.
#[derive(Serialize)]
struct Lone {
    records: u64,
    reads: usize,
    naive_p50_ns: u64,
    auto_p50_ns: u64,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    seconds: f64,
    repeats: u32,
    cells: &'a [Cell],
    lone: &'a [Lone],
}

/// Runs `braid bench robust`.
pub(crate) fn run(args: &RobustArgs) -> Result<()> {
    let outcome = run_ycsb(&plan(args)?)?;
    let cells = cells(&outcome);
    if cells.is_empty() {
        return Err(Failure::new("no workload has a form in the modes that are compared"));
    }
    let lone = lone()?;
    println!("{}", text(&outcome, &cells, &lone));
    if let Some(path) = &args.json {
        let (seconds, repeats) = (args.seconds, args.repeats);
        let json = Json { environment: &outcome.environment, seconds, repeats, cells: &cells, lone: &lone };
        write_json(path, &json)?;
    }
    match &args.svg {
        Some(path) => write(path, &svg(&cells)),
        None => Ok(()),
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn plan(args: &RobustArgs) -> Result<YcsbPlan> {
    let flags = format!(
        "--records {} --workload {} --theta {} --workers {} --batch {} --seconds {} --repeats {} \
         --mode naive,prefetch,interleaved,auto",
        list(&args.records),
        list(&args.workload),
        list(&args.theta),
        list(&args.workers),
        list(&args.batch),
        args.seconds,
        args.repeats
    );
    YcsbPlan::new(&YcsbArgs::of_line(&flags)?)
}

/// Compares `auto` with the other modes in each group.
fn cells(outcome: &Outcome) -> Vec<Cell> {
    let is_auto = |row: &&Row| row.measured && row.variant.mode == Mode::Auto;
    let cell = |auto: &Row| {
        let fixed = || {
            let others = outcome.rows.iter().filter(|row| row.measured && row.variant.mode != Mode::Auto);
            others.filter(|row| row.same_group(auto))
        };
        let speed = |row: &&Row| row.transactions_per_s;
        let best = fixed().max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
        let worst = fixed().map(|row| speed(&row)).fold(f64::INFINITY, f64::min);
        Some(Cell {
            records: auto.number("records")? as u64,
            theta: auto.number("theta")?,
            workers: auto.variant.workers,
            workload: auto.text("workload")?.to_owned(),
            best_mode: best.variant.mode.name(),
            best_batch: best.variant.batch,
            best_transactions_per_s: best.transactions_per_s,
            auto_transactions_per_s: auto.transactions_per_s,
            ratio: by_best(auto, &fixed().collect::<Vec<_>>()),
            spread: auto.spread.max(best.spread),
            ratio_to_worst: auto.transactions_per_s / worst,
            p50_us: auto.p50_us,
            p99_us: auto.p99_us,
        })
    };
    outcome.rows.iter().filter(is_auto).filter_map(cell).collect()
}

/// Returns the median over the repeats of the throughput of `auto`, divided by that of the best fixed mode in the same
/// repeat. Two slices of one repeat run seconds apart, so other load on the machine affects them more equally than it
/// affects two separate medians. The other repeats decide which mode is the best, because the highest of several noisy
/// figures is one that noise has raised.
fn by_best(auto: &Row, fixed: &[&Row]) -> f64 {
    let repeats = auto.slices_per_s.len();
    let mut ratios: Vec<f64> = (0..repeats)
        .map(|repeat| {
            let elsewhere = |row: &Row| {
                let others =
                    row.slices_per_s.iter().enumerate().filter(|(at, _)| repeats == 1 || *at != repeat);
                median(&mut others.map(|(_, speed)| *speed).collect::<Vec<_>>())
            };
            let best = fixed.iter().max_by(|a, b| elsewhere(a).total_cmp(&elsewhere(b)));
            auto.slices_per_s[repeat] / best.expect("there are fixed modes").slices_per_s[repeat]
        })
        .collect();
    median(&mut ratios)
}

const LONE_RECORDS: u64 = 1_000_000;
const LONE_TURNS: u64 = 200;
const LONE_PER_TURN: u64 = 500;

/// Runs transactions one at a time, alternating between naive and `auto`.
fn lone() -> Result<Vec<Lone>> {
    let (db, _) =
        engine::open::<Serializable>(TableOptions::default(), DurabilityKind::Memory, Path::new("."))?;
    let AnyTable::Fixed(table) = open_table(&db, 8)? else {
        return Err(Failure::new("keys of eight bytes have another table"));
    };
    fill(&db, "records", LONE_RECORDS, None, async |tx, &number| table.insert(tx, number, &[1; 8]).await)?;
    let of = |reads: usize| {
        let mut ns = [0, 1].map(|_| Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds"));
        for turn in 0..LONE_TURNS {
            // Each turn reads different records. Otherwise the second turn would find those of the first in the caches.
            take_turn(&db, table, Never, (reads, 2 * turn), &mut ns[0])?;
            take_turn(&db, table, OnMiss, (reads, 2 * turn + 1), &mut ns[1])?;
        }
        let [naive_p50_ns, auto_p50_ns] = ns.map(|ns: Histogram<u64>| ns.value_at_quantile(0.5));
        Ok(Lone { records: LONE_RECORDS, reads, naive_p50_ns, auto_p50_ns })
    };
    [1, 10].into_iter().map(of).collect()
}

fn take_turn<A: Access>(
    db: &Database<Serializable>,
    table: A,
    policy: impl Suspend,
    (reads, turn): (usize, u64),
    ns: &mut Histogram<u64>,
) -> Result<()> {
    let mut worker = engine::worker(db, policy, BatchSize::Auto, RefillKind::Immediate);
    let mut seeds = Rng::new(turn);
    for _ in 0..LONE_PER_TURN {
        let (mut rng, began) = (Rng::new(seeds.next_u64()), Instant::now());
        let sum = worker.run(async |tx: &Txn| {
            let mut sum = 0;
            for _ in 0..reads {
                sum += table.get(tx, rng.below(LONE_RECORDS)).await?.map_or(0, first);
            }
            Ok(sum)
        });
        std::hint::black_box(sum.map_err(engine::failure)?);
        ns.saturating_record(began.elapsed().as_nanos() as u64);
    }
    Ok(())
}

fn text(outcome: &Outcome, cells: &[Cell], lone: &[Lone]) -> String {
    let mut grid = Grid::new(
        [
            "records",
            "theta",
            "workers",
            "workload",
            "best fixed",
            "best txn/s",
            "auto txn/s",
            "ratio",
            "spread",
        ]
        .into_iter()
        .chain(["to worst", "p50 us", "p99 us"])
        .map(|name| (name, !["workload", "best fixed"].contains(&name))),
    );
    for cell in cells {
        let best = match cell.best_batch {
            1 => cell.best_mode.to_owned(),
            batch => format!("{} {batch}", cell.best_mode),
        };
        let cells = [
            short(cell.records),
            cell.theta.to_string(),
            cell.workers.to_string(),
            cell.workload.clone(),
            best,
            format!("{:.0}", cell.best_transactions_per_s),
            format!("{:.0}", cell.auto_transactions_per_s),
            format!("{:.2}", cell.ratio),
            format!("{:.0} %", 100.0 * cell.spread),
            format!("{:.2}", cell.ratio_to_worst),
            format!("{:.1}", cell.p50_us),
            format!("{:.1}", cell.p99_us),
        ];
        grid.push(cells.into_iter());
    }
    let mut text = format!("{}\n\n{}\n\n", outcome.environment.summary(), grid.text());
    text += "best fixed: by medians; ratio: of each repeat, auto by the mode that was best in the other repeats, the median of that; \
             to worst: medians, by the worst one\n";
    let worst = cells.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio)).expect("there are cells");
    let mean = (cells.iter().map(|cell| cell.ratio.ln()).sum::<f64>() / cells.len() as f64).exp();
    let (size, theta, workers) = (short(worst.records), worst.theta, worst.workers);
    let _ = writeln!(
        text,
        "worst cell: {} at {size} records, theta {theta}, {workers} workers: {:.2}; geometric mean of all: {mean:.2}",
        worst.workload, worst.ratio
    );
    for one in lone {
        let ratio = one.auto_p50_ns as f64 / one.naive_p50_ns as f64;
        let _ = writeln!(
            text,
            "one at a time, r{} at {} records: p50 {} ns by auto, {} ns naive: {ratio:.2}",
            one.reads,
            short(one.records),
            one.auto_p50_ns,
            one.naive_p50_ns
        );
    }
    text
}

const CELL: (usize, usize) = (92, 26);
const LEFT: usize = 220;
const TOP: usize = 54;

/// Draws a map of the ratios. Columns are workloads, and rows are all other parameters.
fn svg(cells: &[Cell]) -> String {
    let place = |cell: &Cell| {
        let workers = if cell.workers == 1 { "worker" } else { "workers" };
        format!("{}, theta {}, {} {workers}", short(cell.records), cell.theta, cell.workers)
    };
    let (mut columns, mut rows): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for cell in cells {
        if !columns.contains(&cell.workload.as_str()) {
            columns.push(&cell.workload);
        }
        if !rows.contains(&place(cell)) {
            rows.push(place(cell));
        }
    }
    let (width, height) = (LEFT + columns.len() * CELL.0 + 10, TOP + rows.len() * CELL.1 + 10);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\">throughput of auto by the best fixed mode</text>\n"
    );
    for (x, column) in columns.iter().enumerate() {
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{column}</text>", LEFT + x * CELL.0 + 30, TOP - 8);
    }
    for (y, row) in rows.iter().enumerate() {
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{row}</text>", TOP + y * CELL.1 + 18);
    }
    for cell in cells {
        let x = columns.iter().position(|column| *column == cell.workload).unwrap_or_default();
        let y = rows.iter().position(|row| *row == place(cell)).unwrap_or_default();
        // White is the speed of the best fixed mode, red a quarter below, blue a quarter above.
        let off = ((cell.ratio - 1.0) * 4.0).clamp(-1.0, 1.0);
        let fade = (255.0 * (1.0 - off.abs() * 0.7)) as u8;
        let fill =
            if off < 0.0 { format!("rgb(255,{fade},{fade})") } else { format!("rgb({fade},{fade},255)") };
        let (x, y) = (LEFT + x * CELL.0, TOP + y * CELL.1);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/><text x=\"{}\" y=\"{}\">{:.2}</text>",
            CELL.0 - 2,
            CELL.1 - 2,
            x + 30,
            y + 17,
            cell.ratio
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::show::tests::example;

    #[test]
    fn a_cell_is_auto_by_the_best_of_the_others() {
        // Proves that `auto` is compared with the fastest fixed mode of its group, and that the map shows all cells.
        let modes = [Mode::Naive, Mode::Prefetch, Mode::Interleaved, Mode::Auto];
        let outcome = example(&["r10", "m"], &modes, &[48]);
        let cells = cells(&outcome);
        assert_eq!(cells.iter().map(|cell| cell.workload.as_str()).collect::<Vec<_>>(), ["r10", "m"]);
        for cell in &cells {
            let fixed = outcome
                .rows
                .iter()
                .filter(|r| r.variant.mode != Mode::Auto && r.text("workload") == Some(&cell.workload));
            let best = fixed.map(|row| row.transactions_per_s).fold(0.0, f64::max);
            assert_eq!(cell.best_transactions_per_s, best);
        }
        assert_eq!(svg(&cells).matches("</text>").count(), 1 + 2 + 1 + 2);
        assert!(text(&outcome, &cells, &[]).contains("worst cell"));
    }

    #[test]
    fn slices_of_one_repeat_are_compared() {
        // Proves that neither a machine that is twice as fast in one repeat nor a mode that was lucky once changes a
        // ratio.
        let mut rows = example(&["r10"], &[Mode::Naive, Mode::Prefetch, Mode::Auto], &[48]).rows;
        rows[0].slices_per_s = vec![100.0, 100.0, 100.0, 100.0, 200.0];
        rows[1].slices_per_s = vec![90.0, 90.0, 90.0, 90.0, 300.0];
        rows[2].slices_per_s = vec![98.0, 98.0, 98.0, 98.0, 196.0];
        assert_eq!(by_best(&rows[2], &[&rows[0], &rows[1]]), 0.98);
        // With one repeat, that repeat decides.
        rows.iter_mut().for_each(|row| row.slices_per_s.truncate(1));
        assert_eq!(by_best(&rows[2], &[&rows[0], &rows[1]]), 0.98);
    }

    #[test]
    fn the_grid_is_a_valid_command_line() {
        // Proves that the defaults make six variants per cell.
        let args = RobustArgs {
            records: vec![10_000, 1_000_000],
            workload: vec!["r1".into(), "s100".into()],
            theta: vec![0.0, 0.99],
            workers: vec![1, 2],
            batch: vec![8, 16, 48],
            seconds: 1.0,
            repeats: 3,
            json: None,
            svg: None,
        };
        assert_eq!(plan(&args).unwrap().slices(), 16 * 6);
    }
}
