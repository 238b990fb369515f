//! What the command lines of a preset gave, of whatever benchmark, as one.

use super::figure::{Compared, Preset, Publication};
use crate::args::{BenchCommand, PaperArgs};
use crate::environment::Environment;
use crate::page::{Page, Part, size};
use crate::report::{self, short, write};
use crate::{Failure, Result, chart, kit, plan, runner, tpcc};
use serde_json::{Map, Value, json};

/// The results of one benchmark.
pub(super) enum Outcome {
    Ycsb(report::Outcome),
    Kit(kit::Outcome),
}

/// A row of results, under the names of the JSON files.
#[derive(Clone, Debug)]
pub(super) struct Point(Map<String, Value>);

impl Point {
    /// A field for people; empty where there is none.
    pub(super) fn text(&self, field: &str) -> String {
        match self.0.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// A field that is a number; 0 where there is none.
    pub(super) fn number(&self, field: &str) -> f64 {
        self.0.get(field).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Whether its transactions write, where that is a parameter.
    pub(super) fn writes(&self) -> bool {
        self.0.get("write").and_then(Value::as_bool).unwrap_or(false)
    }

    #[cfg(test)]
    pub(super) fn of(value: Value) -> Point {
        let Value::Object(fields) = value else { panic!("a row is an object") };
        Point(fields)
    }
}

impl Outcome {
    /// Runs what a parsed command line asks for.
    pub(super) fn of(command: &BenchCommand) -> Result<Outcome> {
        Ok(match command {
            BenchCommand::Ycsb(args) => Outcome::Ycsb(runner::run(&plan::Plan::new(args)?)?),
            BenchCommand::Tpcb(args) => Outcome::Kit(kit::tpcb::run(args)?),
            BenchCommand::Micro(args) => Outcome::Kit(kit::micro::run(args)?),
            BenchCommand::Tpcc(args) => Outcome::Kit(tpcc::run(args)?),
            _ => return Err(Failure::new("a preset runs workloads and nothing else")),
        })
    }

    /// Takes in what another run of the same benchmark gave; returns that of another benchmark.
    pub(super) fn join(&mut self, other: Outcome) -> Option<Outcome> {
        match (self, other) {
            (Outcome::Ycsb(all), Outcome::Ycsb(other)) => all.rows.extend(other.rows),
            (Outcome::Kit(all), Outcome::Kit(other)) if all.name == other.name => {
                all.rows.extend(other.rows);
                all.databases.extend(other.databases);
            }
            (_, other) => return Some(other),
        }
        None
    }

    fn environment(&self) -> &Environment {
        match self {
            Outcome::Ycsb(outcome) => &outcome.environment,
            Outcome::Kit(outcome) => &outcome.environment,
        }
    }

    fn text(&self) -> String {
        match self {
            Outcome::Ycsb(outcome) => outcome.text(),
            Outcome::Kit(outcome) => outcome.text(),
        }
    }

    fn svg(&self) -> Result<String> {
        match self {
            Outcome::Ycsb(outcome) => chart::svg(outcome),
            Outcome::Kit(outcome) => outcome.throughput(),
        }
    }

    fn parts(&self) -> Result<Vec<Part>> {
        Ok(match self {
            Outcome::Ycsb(outcome) => report::page(outcome, "")?.parts,
            Outcome::Kit(outcome) => kit::page(outcome, "")?.parts,
        })
    }

    /// The rows as the JSON file has them, each with its benchmark and its ratio to the first mode.
    fn rows(&self) -> Vec<Map<String, Value>> {
        let (text, ratios) = match self {
            Outcome::Ycsb(outcome) => {
                let measured = outcome.rows.iter().filter(|row| row.measured);
                (outcome.json(), measured.map(|row| outcome.ratio(row)).collect())
            }
            Outcome::Kit(outcome) => (outcome.json(), Vec::new()),
        };
        let mut rows = list(&text, "rows");
        for (row, ratio) in rows.iter_mut().zip(ratios) {
            row.insert("benchmark".to_owned(), "ycsb".into());
            row.insert("ratio".to_owned(), ratio.into());
        }
        rows
    }

    fn databases(&self) -> Vec<Map<String, Value>> {
        match self {
            Outcome::Ycsb(_) => Vec::new(),
            Outcome::Kit(outcome) => list(&outcome.json(), "databases"),
        }
    }

    /// The rows of whole variants.
    pub(super) fn points(&self) -> Vec<Point> {
        let rows = self.rows();
        let has_total = rows.iter().any(|row| row.get("kind").is_some_and(|kind| kind == "total"));
        let is_whole = |row: &Map<String, Value>| !has_total || row["kind"] == "total";
        rows.into_iter().filter(is_whole).map(Point).collect()
    }
}

/// The objects of a list in JSON that this program has written.
fn list(json: &str, name: &str) -> Vec<Map<String, Value>> {
    let mut all: Value = serde_json::from_str(json).expect("results are valid JSON");
    let objects = all[name].as_array_mut().map(std::mem::take).unwrap_or_default();
    objects
        .into_iter()
        .filter_map(|one| if let Value::Object(fields) = one { Some(fields) } else { None })
        .collect()
}

/// All that came of a preset.
pub(super) struct Results {
    pub(super) publication: &'static Publication,
    pub(super) preset: &'static Preset,
    pub(super) outcomes: Vec<Outcome>,
}

impl Results {
    /// The title, for people.
    pub(super) fn title(publication: &Publication, preset: &Preset) -> String {
        format!("{}, {}: {}", publication.title, preset.id, preset.title)
    }

    fn points(&self) -> Vec<Point> {
        self.outcomes.iter().flat_map(Outcome::points).collect()
    }

    fn compared(&self) -> Vec<Compared> {
        let points = self.points();
        self.preset.comparisons.iter().map(|comparison| comparison.of(&points)).collect()
    }

    /// Prints everything and writes the files that were asked for.
    pub(super) fn show(&self, args: &PaperArgs) -> Result<()> {
        for outcome in &self.outcomes {
            println!("{}", outcome.text());
        }
        let compared = self.compared();
        for one in &compared {
            println!("{}\n", one.grid().text());
        }
        print!("{}", self.notes());
        if let Some(path) = &args.json {
            write(path, &self.json(&compared))?;
        }
        if let Some(path) = &args.svg {
            write(path, &self.svg(&compared)?)?;
        }
        let Some(directory) = &args.report else { return Ok(()) };
        self.page(&compared)?.write(directory, &self.json(&compared))
    }

    /// The chart of ratios, or where there are none that of throughput.
    pub(super) fn svg(&self, compared: &[Compared]) -> Result<String> {
        match (self.preset.comparisons.first(), compared.first()) {
            (Some(comparison), Some(compared)) => comparison.svg(compared),
            _ => self.outcomes[0].svg(),
        }
    }

    /// All results, with what the paper says.
    pub(super) fn json(&self, compared: &[Compared]) -> String {
        let all = json!({
            "environment": self.outcomes[0].environment(),
            "paper": {
                "title": self.publication.title,
                "preset": self.preset.id.to_string(),
                "says": self.preset.paper,
                "machine": self.publication.machine,
                "scale": self.preset.scale,
            },
            "comparisons": compared,
            "rows": self.outcomes.iter().flat_map(Outcome::rows).collect::<Vec<_>>(),
            "databases": self.outcomes.iter().flat_map(Outcome::databases).collect::<Vec<_>>(),
        });
        serde_json::to_string_pretty(&all).expect("text and finite numbers serialise")
    }

    fn page(&self, compared: &[Compared]) -> Result<Page<'_>> {
        let mut parts = vec![Part::Heading("Beside the paper")];
        for (comparison, compared) in self.preset.comparisons.iter().zip(compared) {
            parts.push(Part::Chart(comparison.svg(compared)?));
            parts.push(Part::Table(compared.grid()));
        }
        parts.push(Part::Notes(self.notes()));
        for outcome in &self.outcomes {
            parts.extend(outcome.parts()?);
        }
        let environment = self.outcomes[0].environment();
        Ok(Page { title: self.preset.title, environment, parts })
    }

    /// What the paper says, what is found here, and how the set-ups differ.
    pub(super) fn notes(&self) -> String {
        let points = self.points();
        let counters = if self.preset.counts_hardware { counters() } else { String::new() };
        format!(
            "paper: {}\nours:  {}\nset-up: there {}; {}\n        here {}; {}\n{counters}",
            self.preset.paper,
            ranges(&points),
            self.publication.machine,
            self.preset.scale,
            self.outcomes[0].environment().summary(),
            scale(&points),
        )
    }
}

/// How large and how many we are: the parameters of a set-up that papers name, with their values.
fn scale(points: &[Point]) -> String {
    const NAMES: [(&str, &str); 6] = [
        ("records", "records"),
        ("size", "of keys and values"),
        ("scale", "branches"),
        ("warehouses", "warehouses"),
        ("workers", "workers"),
        ("cc", "concurrency control"),
    ];
    let shown = |field: &str, point: &Point| match field {
        "size" => size(point.number(field) as u64),
        "cc" => point.text(field),
        _ => short(point.number(field) as u64),
    };
    let values = |(field, name): (&str, &str)| {
        let found = points.iter().filter(|point| !point.text(field).is_empty());
        let values = chart::distinct(found.map(|point| shown(field, point)));
        (!values.is_empty()).then(|| format!("{} {name}", values.join(", ")))
    };
    NAMES.into_iter().filter_map(values).collect::<Vec<_>>().join("; ")
}

/// Per mode, the lowest and the highest ratio to the first mode of its group.
fn ranges(points: &[Point]) -> String {
    let mut ranges: Vec<(String, f64, f64)> = Vec::new();
    for point in points.iter().filter(|point| point.number("ratio") > 0.0) {
        let (name, ratio) = (point.text("mode"), point.number("ratio"));
        match ranges.iter_mut().find(|range| range.0 == name) {
            Some((_, low, high)) => (*low, *high) = (low.min(ratio), high.max(ratio)),
            None => ranges.push((name, ratio, ratio)),
        }
    }
    let parts = ranges.iter().skip(1).map(|(name, low, high)| format!("{name} {low:.2}-{high:.2} x"));
    let first = ranges.first().map_or("", |range| range.0.as_str());
    format!("{} of {first}", parts.collect::<Vec<_>>().join(", "))
}

/// Where the kernel shows the counters of the processor: on x86, on x86 with two kinds of cores, on Arm.
const COUNTERS: [&str; 3] = ["cpu", "cpu_core", "armv8_pmuv3_0"];

/// What a figure of stall cycles takes, in a line.
fn counters() -> String {
    let devices = std::path::Path::new("/sys/bus/event_source/devices");
    match COUNTERS.iter().find(|name| devices.join(name).exists()) {
        Some(_) => "hardware counters: this machine has them; `--breakdown` on the commands above counts them, \
                    and `perf stat --topdown` tells the stall cycles themselves\n"
            .to_owned(),
        None => "hardware counters: this machine shows none, so no stall cycles, only what they cost; `cargo xtask \
                 cache` simulates the misses, and `--breakdown` on the commands above says where the time goes\n"
            .to_owned(),
    }
}
