//! `braid bench index`: kinds of index side by side. Inserts, lookups, scans and a mix run uniform and skewed, with one
//! worker and with several, sequentially and interleaved. PiBench (Lersch, Hao, Oukid, Wang, Willhalm, PVLDB 2019)
//! measures the same of an index alone; here it is an index in the engine.

use crate::beside::{self, Beside, Row};
use crate::index_args::{IndexArgs, Work};
use crate::lines::{Point, measured, parsed, points};
use crate::report::environment::Environment;
use crate::report::{write, write_json};
use crate::{Failure, Result};
use braiddb::IndexKind;
use serde::Serialize;

/// The result of one kind of work with one kind of index.
#[derive(Serialize)]
struct Figure {
    work: &'static str,
    theta: f64,
    workers: usize,
    mode: String,
    index: &'static str,
    transactions_per_s: f64,
    spread: f64,
    p50_us: f64,
    p99_us: f64,
    /// Memory of the whole database after loading, values included.
    bytes_per_record: f64,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    records: u64,
    seconds: f64,
    repeats: u32,
    figures: &'a [Figure],
}

/// Runs `braid bench index`.
pub(crate) fn run(args: &IndexArgs) -> Result<()> {
    let (mut figures, mut environment) = (Vec::new(), None);
    for (kind, work) in kinds(args).into_iter().flat_map(|kind| loads(kind, args)) {
        let line = line(kind, &work, args);
        println!("braid {line}");
        let outcome = measured(&parsed(&line)?)?;
        let environment = environment.get_or_insert(outcome.environment.clone());
        let begin = figures.len();
        figures.extend(points(&outcome).iter().map(|point| figure(kind, &work, point)));
        println!("{}", beside::text(&figures[begin..]));
        write_files(args, environment, &figures)?;
    }
    let environment = environment.ok_or_else(|| {
        Failure::new("nothing to run: the kinds of index that were chosen keep no order of keys to scan by")
    })?;
    println!("{}\n\n{}", environment.summary(), beside::text(&figures));
    Ok(())
}

/// Writes the results so far. It is called after each load of a table.
fn write_files(args: &IndexArgs, environment: &Environment, figures: &[Figure]) -> Result<()> {
    if let Some(path) = &args.json {
        let IndexArgs { records, seconds, repeats, .. } = *args;
        write_json(path, &Json { environment, records, seconds, repeats, figures })?;
    }
    match &args.svg {
        Some(path) => write(path, &svg(figures, environment.notes())?),
        None => Ok(()),
    }
}

fn kinds(args: &IndexArgs) -> Vec<IndexKind> {
    if args.index.is_empty() { IndexKind::ALL.to_vec() } else { args.index.clone() }
}

/// Groups the work by loaded table: first the work that adds no records, then inserts.
fn loads(kind: IndexKind, args: &IndexArgs) -> Vec<(IndexKind, Vec<Work>)> {
    let is_asked = |work: &Work| args.work.is_empty() || args.work.contains(work);
    let has_form = |work: &Work| kind.is_ordered() || *work != Work::Scan;
    let all = [&[Work::Lookup, Work::Mixed, Work::Scan][..], &[Work::Insert]];
    let loads = all.map(|load| load.iter().copied().filter(is_asked).filter(has_form).collect::<Vec<_>>());
    loads.into_iter().filter(|load| !load.is_empty()).map(|load| (kind, load)).collect()
}

fn line(kind: IndexKind, work: &[Work], args: &IndexArgs) -> String {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
    format!(
        "bench ycsb --index {} --records {} --workload {} --theta {} --workers {} --mode {} --seconds {} --repeats {}",
        kind.name(),
        args.records,
        list(&mut work.iter().map(|work| work.workload().to_owned())),
        // Inserted keys are new, whatever the skew.
        if work == [Work::Insert] { "0".into() } else { list(&mut args.theta.iter().map(f64::to_string)) },
        list(&mut args.workers.iter().map(usize::to_string)),
        list(&mut args.mode.iter().map(|mode| mode.name().to_owned())),
        args.seconds,
        args.repeats
    )
}

fn figure(kind: IndexKind, work: &[Work], point: &Point) -> Figure {
    let workload = point.text("workload");
    let work = work.iter().find(|work| work.workload() == workload).expect("asked for");
    Figure {
        work: work.name(),
        theta: point.number("theta"),
        workers: point.number("workers") as usize,
        mode: point.text("mode"),
        index: kind.name(),
        transactions_per_s: point.number("transactions_per_s"),
        spread: point.number("spread"),
        p50_us: point.number("p50_us"),
        p99_us: point.number("p99_us"),
        bytes_per_record: point.number("bytes_per_record"),
    }
}

impl Beside for Figure {
    const SETTING: &'static [(&'static str, bool)] =
        &[("work", false), ("theta", false), ("workers", true), ("mode", false)];
    const ROWS: &'static [Row<Self>] = &[
        ("k txn/s", |one| format!("{:.0}", one.transactions_per_s / 1e3)),
        ("spread", |one| format!("{:.0} %", one.spread * 100.0)),
        ("p50 us", |one| format!("{:.2}", one.p50_us)),
        ("p99 us", |one| format!("{:.2}", one.p99_us)),
        ("bytes/record", |one| format!("{:.1}", one.bytes_per_record)),
    ];

    fn setting(&self) -> Vec<String> {
        vec![self.work.to_owned(), self.theta.to_string(), self.workers.to_string(), self.mode.clone()]
    }
    fn variant(&self) -> &str {
        self.index
    }
    fn transactions_per_s(&self) -> f64 {
        self.transactions_per_s
    }
}

/// Draws the results of the largest number of workers and the last mode.
fn svg(figures: &[Figure], notes: Vec<String>) -> Result<String> {
    let last = figures.last().expect("there are figures");
    let x_name = format!("work and skew; {} workers, mode {}", last.workers, last.mode);
    let is_drawn = |one: &Figure| (one.workers, &one.mode) == (last.workers, &last.mode);
    beside::svg(figures, ("Throughput of kinds of index by that of the first", x_name), notes, |one| {
        is_drawn(one).then(|| format!("{} {}", one.work, one.theta))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn args(flags: &str) -> IndexArgs {
        let command = IndexArgs::augment_args(clap::Command::new("index").no_binary_name(true));
        let found = command.try_get_matches_from(flags.split_whitespace()).unwrap();
        IndexArgs::from_arg_matches(&found).unwrap()
    }

    #[test]
    fn kinds_are_run_beside_each_other() {
        // Proves that each kind of index has a figure for all work that it supports, and that the table and the chart
        // contain all of them.
        let args =
            args("--records 2K --theta 0,0.9 --workers 2 --mode interleaved --seconds 0.02 --repeats 1");
        let mut figures = Vec::new();
        for (kind, work) in kinds(&args).into_iter().flat_map(|kind| loads(kind, &args)) {
            let outcome = measured(&parsed(&line(kind, &work, &args)).unwrap()).unwrap();
            figures.extend(points(&outcome).iter().map(|point| figure(kind, &work, point)));
        }
        for kind in IndexKind::ALL {
            let of: Vec<&Figure> = figures.iter().filter(|figure| figure.index == kind.name()).collect();
            assert_eq!(of.len(), if kind.is_ordered() { 7 } else { 5 }, "{}", kind.name());
            assert!(of.iter().all(|one| one.transactions_per_s > 0.0 && one.bytes_per_record > 16.0));
        }
        let text = beside::text(&figures);
        assert!(IndexKind::ALL.iter().all(|kind| text.contains(kind.name())), "{text}");
        assert!(svg(&figures, Vec::new()).unwrap().contains("lookup 0.9"));
    }
}
