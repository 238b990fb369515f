//! Schemes of concurrency control beside each other: a grid of workloads from no contention to a single row that all
//! transactions change, under each scheme, with one worker and with several, one transaction at a time and interleaved.

use crate::Result;
use crate::cells::{CELLS, CcArgs, Cell};
use crate::lines::{Point, measured, parsed, points};
use crate::report::chart::{self, Data};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::{distinct, write, write_json};
use crate::scheme::SchemeKind;
use serde::Serialize;

/// What came out of one workload under one scheme.
#[derive(Serialize)]
struct Figure {
    cell: &'static str,
    workers: usize,
    mode: String,
    cc: String,
    transactions_per_s: f64,
    spread: f64,
    aborts_per_commit: f64,
    /// Of the workers' time, by activity.
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

/// Writes what there is, after each workload: all of them take hours.
fn write_files(args: &CcArgs, environment: &Environment, figures: &[Figure]) -> Result<()> {
    if let Some(path) = &args.json {
        let CcArgs { seconds, repeats, batch, .. } = *args;
        write_json(path, &Json { environment, seconds, repeats, batch, figures })?;
    }
    match &args.svg {
        Some(path) => write(path, &svg(figures)?),
        None => Ok(()),
    }
}

fn cells(args: &CcArgs) -> &[Cell] {
    if args.cell.is_empty() { &CELLS } else { &args.cell }
}

fn line(cell: &Cell, args: &CcArgs) -> String {
    let schemes = match args.cc.is_empty() {
        true => SchemeKind::serializable(),
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

/// The figures of one workload, number of workers and mode, by scheme.
fn group<'f>(figures: &'f [Figure], of: &Figure) -> impl Iterator<Item = &'f Figure> {
    let (cell, workers, mode) = (of.cell, of.workers, of.mode.clone());
    figures.iter().filter(move |one| (one.cell, one.workers, &one.mode) == (cell, workers, &mode))
}

/// One of each group.
fn groups(figures: &[Figure]) -> impl Iterator<Item = &Figure> {
    figures
        .iter()
        .filter(|figure| group(figures, figure).next().is_some_and(|first| std::ptr::eq(first, *figure)))
}

/// The figure of a scheme in the group that this one is of.
fn of_scheme<'f>(figures: &'f [Figure], of: &Figure, cc: &str) -> Option<&'f Figure> {
    group(figures, of).find(|one| one.cc == cc)
}

fn schemes(figures: &[Figure]) -> Vec<String> {
    distinct(figures.iter().map(|figure| figure.cc.clone()))
}

fn text(figures: &[Figure]) -> String {
    let schemes = schemes(figures);
    let names = ["workload", "workers", "mode", "figure"].into_iter().map(|name| (name, name == "workers"));
    let mut grid = Grid::new(names.chain(schemes.iter().map(|name| (name.as_str(), true))));
    type Value = fn(&Figure) -> String;
    let rows: [(&str, Value); 3] = [
        ("k txn/s", |one| format!("{:.1}", one.transactions_per_s / 1e3)),
        ("spread", |one| format!("{:.0} %", one.spread * 100.0)),
        ("aborts/commit", |one| format!("{:.3}", one.aborts_per_commit)),
    ];
    for first in groups(figures) {
        grid.begin_group();
        for (at, (name, value)) in rows.iter().enumerate() {
            let labels = match at {
                0 => [first.cell.to_owned(), first.workers.to_string(), first.mode.clone()],
                _ => [const { String::new() }; 3],
            };
            let values = schemes.iter().map(|cc| of_scheme(figures, first, cc).map_or("-".to_owned(), value));
            grid.push(labels.into_iter().chain([(*name).to_owned()]).chain(values));
        }
    }
    format!("{}\n\n{}\n", grid.text(), breakdown(figures).text())
}

/// Where the workers' time went, in percent.
fn breakdown(figures: &[Figure]) -> Grid {
    let activities = distinct(figures.iter().flat_map(|one| one.shares.iter().map(|share| share.0.clone())));
    let names = ["workload", "workers", "mode", "scheme"].into_iter().map(|name| (name, name == "workers"));
    let mut grid = Grid::new(names.chain(activities.iter().map(|name| (name.as_str(), true))));
    for first in groups(figures) {
        grid.begin_group();
        for one in group(figures, first).filter(|one| !one.shares.is_empty()) {
            let labels = [one.cell.to_owned(), one.workers.to_string(), one.mode.clone(), one.cc.clone()];
            let shares = one.shares.iter().map(|share| format!("{:.1}", share.1 * 100.0));
            grid.push(labels.into_iter().chain(shares));
        }
    }
    grid
}

/// Bars: throughput by that of the first scheme, of the most workers and the last mode.
fn svg(figures: &[Figure]) -> Result<String> {
    let schemes = schemes(figures);
    let last = figures.last().expect("there are figures");
    let drawn: Vec<&Figure> =
        groups(figures).filter(|one| (one.workers, &one.mode) == (last.workers, &last.mode)).collect();
    let ratio = |first: &Figure, cc: &str| {
        let base = of_scheme(figures, first, &schemes[0])?.transactions_per_s;
        Some(of_scheme(figures, first, cc)?.transactions_per_s / base).filter(|ratio| ratio.is_finite())
    };
    chart::svg_of(&Data {
        caption: "Throughput of schemes of concurrency control by that of the first",
        x_name: format!("workload; {} workers, mode {}", last.workers, last.mode),
        y_name: "ratio",
        categories: drawn.iter().map(|first| first.cell.to_owned()).collect(),
        series: schemes
            .iter()
            .map(|cc| (cc.clone(), drawn.iter().map(|first| ratio(first, cc)).collect()))
            .collect(),
        lines: false,
    })
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
        // Proves that each workload of the grid is one that the benchmark has, under every serializable scheme.
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
        // Proves that a cell has a figure for each scheme, number of workers and mode, and that table, chart and breakdown have
        // them all.
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
        assert!(svg(&figures).unwrap().contains("hot-row"));
    }
}
