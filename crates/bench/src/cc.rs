//! `braid bench cc`: concurrency control schemes side by side. A grid of workloads, from no contention to a single row
//! that all transactions change, runs under each scheme, with one worker and with several, sequentially and
//! interleaved.

use crate::Result;
use crate::beside::{self, Beside, Row};
use crate::cells::{CELLS, CcArgs, Cell};
use crate::lines::{Point, measured, parsed, points};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::{distinct, write, write_json};
use crate::scheme;
use serde::Serialize;

/// The result of one workload under one scheme.
#[derive(Serialize)]
struct Figure {
    cell: &'static str,
    workers: usize,
    mode: String,
    cc: String,
    transactions_per_s: f64,
    spread: f64,
    aborts_per_commit: f64,
    /// Shares of the workers' time, by activity.
    shares: Vec<(String, f64)>,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    seconds: f64,
    repeats: u32,
    batch: usize,
    figures: &'a [Figure],
}

/// Runs `braid bench cc`.
pub(crate) fn run(args: &CcArgs) -> Result<()> {
    let (mut figures, mut environment) = (Vec::new(), None);
    for cell in cells(args) {
        let line = line(cell, args);
        println!("braid {line}");
        let outcome = measured(&parsed(&line)?)?;
        let environment = environment.get_or_insert(outcome.environment.clone());
        let begin = figures.len();
        figures.extend(points(&outcome).iter().map(|point| figure(cell.name, point)));
        println!("{}", text(&figures[begin..]));
        write_files(args, environment, &figures)?;
    }
    let environment = environment.expect("there is a workload");
    println!("{}\n\n{}", environment.summary(), text(&figures));
    Ok(())
}

/// Writes the results so far. It is called after each workload, because the whole grid takes hours.
fn write_files(args: &CcArgs, environment: &Environment, figures: &[Figure]) -> Result<()> {
    if let Some(path) = &args.json {
        let CcArgs { seconds, repeats, batch, .. } = *args;
        write_json(path, &Json { environment, seconds, repeats, batch, figures })?;
    }
    match &args.svg {
        Some(path) => write(path, &svg(figures, environment.notes())?),
        None => Ok(()),
    }
}

fn cells(args: &CcArgs) -> &[Cell] {
    if args.cell.is_empty() { &CELLS } else { &args.cell }
}

fn line(cell: &Cell, args: &CcArgs) -> String {
    let schemes = match args.cc.is_empty() {
        true => scheme::serializable(),
        false => args.cc.iter().map(|cc| cc.name()).collect::<Vec<_>>().join(","),
    };
    let modes: Vec<&str> = args.mode.iter().map(|mode| mode.name()).collect();
    let workers: Vec<String> = args.workers.iter().map(usize::to_string).collect();
    format!(
        "bench {} --cc {} --workers {} --mode {} --batch {} --seconds {} --repeats {} --breakdown",
        cell.line,
        schemes,
        workers.join(","),
        modes.join(","),
        args.batch,
        args.seconds,
        args.repeats
    )
}

fn figure(cell: &'static str, point: &Point) -> Figure {
    Figure {
        cell,
        workers: point.number("workers") as usize,
        mode: point.text("mode"),
        cc: point.text("cc"),
        transactions_per_s: point.number("transactions_per_s"),
        spread: point.number("spread"),
        aborts_per_commit: point.number("aborts_per_commit"),
        shares: point.shares(),
    }
}

impl Beside for Figure {
    const SETTING: &'static [(&'static str, bool)] =
        &[("workload", false), ("workers", true), ("mode", false)];
    const ROWS: &'static [Row<Self>] = &[
        ("k txn/s", |one| format!("{:.1}", one.transactions_per_s / 1e3)),
        ("spread", |one| format!("{:.0} %", one.spread * 100.0)),
        ("aborts/commit", |one| format!("{:.3}", one.aborts_per_commit)),
    ];

    fn setting(&self) -> Vec<String> {
        vec![self.cell.to_owned(), self.workers.to_string(), self.mode.clone()]
    }
    fn variant(&self) -> &str {
        &self.cc
    }
    fn transactions_per_s(&self) -> f64 {
        self.transactions_per_s
    }
}

fn text(figures: &[Figure]) -> String {
    format!("{}\n\n{}\n", beside::text(figures), breakdown(figures).text())
}

/// The shares of the workers' time, in percent.
fn breakdown(figures: &[Figure]) -> Grid {
    let activities = distinct(figures.iter().flat_map(|one| one.shares.iter().map(|share| share.0.clone())));
    let names = Figure::SETTING.iter().copied().chain([("scheme", false)]);
    let mut grid = Grid::new(names.chain(activities.iter().map(|name| (name.as_str(), true))));
    for first in beside::groups(figures) {
        grid.begin_group();
        for one in beside::group(figures, first).filter(|one| !one.shares.is_empty()) {
            let shares = one.shares.iter().map(|share| format!("{:.1}", share.1 * 100.0));
            grid.push(one.setting().into_iter().chain([one.cc.clone()]).chain(shares));
        }
    }
    grid
}

/// Draws the results of the largest number of workers and the last mode.
fn svg(figures: &[Figure], notes: Vec<String>) -> Result<String> {
    let last = figures.last().expect("there are figures");
    let x_name = format!("workload; {} workers, mode {}", last.workers, last.mode);
    let is_drawn = |one: &Figure| (one.workers, &one.mode) == (last.workers, &last.mode);
    let names = ("Throughput of schemes of concurrency control by that of the first", x_name);
    beside::svg(figures, names, notes, |one| is_drawn(one).then(|| one.cell.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn args(flags: &str) -> CcArgs {
        let command = CcArgs::augment_args(clap::Command::new("cc").no_binary_name(true));
        let found = command.try_get_matches_from(flags.split_whitespace()).unwrap();
        CcArgs::from_arg_matches(&found).unwrap()
    }

    #[test]
    fn every_cell_is_a_valid_command_line() {
        // Proves that the benchmark has each workload of the grid under every serializable scheme.
        let args = args("");
        assert_eq!(cells(&args).len(), CELLS.len());
        for cell in cells(&args) {
            let line = line(cell, &args);
            assert!(line.contains("serializable,dl-detect") && !line.contains("snapshot"), "{line}");
            parsed(&line).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn schemes_are_run_beside_each_other() {
        // Proves that a cell has a figure for each scheme, number of workers and mode, and that the table, the chart
        // and the breakdown contain all of them.
        let args = args(
            "--cell hot-row --cc silo,no-wait --workers 1,2 --mode naive,auto --seconds 0.04 --repeats 1",
        );
        let cell = &cells(&args)[0];
        let outcome = measured(&parsed(&line(cell, &args)).unwrap()).unwrap();
        let figures: Vec<Figure> = points(&outcome).iter().map(|point| figure(cell.name, point)).collect();
        assert_eq!(figures.len(), 8);
        assert!(figures.iter().all(|one| one.transactions_per_s > 0.0));
        let text = text(&figures);
        assert_eq!(text.matches("aborts/commit").count(), 4);
        assert!(text.contains("silo") && text.contains("no-wait"));
        assert!(svg(&figures, Vec::new()).unwrap().contains("hot-row"));
    }
}
