//! What came out of a kit: a row per variant and kind of transaction, as a table, JSON, charts and a page.

use super::args::KitArgs;
use super::driver::Slice;
use super::plan::{Home, Plan, Variant};
use super::worker::{Counts, LATENCY_SAMPLE_EVERY};
use super::{Condition, Parameter, Parameters};
use crate::breakdown;
use crate::chart::{self, Data, distinct};
use crate::engine::Breakdown;
use crate::environment::Environment;
use crate::grid::Grid;
use crate::hardware::Events;
use crate::machine::median;
use crate::page::{Page, Part as PagePart, size};
use crate::report::{short, write};
use crate::{Failure, Result};
use braiddb::IndexKind;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The name of the row of all kinds together.
const TOTAL: &str = "total";

/// What one load of tables gave.
pub(crate) struct Part {
    pub(crate) rows: Vec<Row>,
    pub(crate) databases: Vec<DatabaseLine>,
}

/// A database that variants ran in.
pub(crate) struct DatabaseLine {
    pub(crate) home: Home,
    /// What all its kits have in common.
    pub(crate) parameters: Parameters,
    /// Memory of the engine when the tables were loaded.
    pub(crate) memory_before_bytes: u64,
    /// The same after the last repeat.
    pub(crate) memory_after_bytes: u64,
    /// As found after the last repeat; all of them held after every one.
    pub(crate) conditions: Vec<Condition>,
}

/// One kind of transaction in one variant, or all kinds: medians over the slices.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) parameters: Parameters,
    pub(crate) variant: Variant,
    /// The kind of transaction.
    pub(crate) kind: &'static str,
    /// Transactions done in all slices together.
    pub(crate) transactions: u64,
    /// Those of them that rolled back on purpose.
    pub(crate) rolled_back: u64,
    /// Transactions done, all workers together.
    pub(crate) transactions_per_s: f64,
    /// (Highest - lowest) / median of the slices' throughputs.
    pub(crate) spread: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) mean_us: f64,
    /// Attempts that conflicts ended, by transactions done.
    pub(crate) aborts_per_commit: f64,
    /// Transactions of all kinds that conflicts have kept from committing at all.
    pub(crate) given_up: u64,
    /// In the first row of a variant: where the workers' time went, if that was asked for.
    pub(crate) breakdown: Option<Breakdown>,
    /// What the processor counted meanwhile.
    pub(crate) events: Events,
}

impl Row {
    /// The rows of a variant: the total first, if there are several kinds.
    pub(crate) fn of(
        parameters: &Parameters,
        variant: &Variant,
        kinds: &[&'static str],
        slices: &[Slice],
    ) -> Vec<Row> {
        let row = |kind: &'static str, of: &[usize]| {
            let (mut counts, mut speeds) = (Counts::new(), Vec::new());
            for slice in slices {
                of.iter().for_each(|&kind| counts.add(&slice.kinds[kind]));
                speeds.push(of.iter().map(|&kind| slice.per_s[kind]).sum());
            }
            let middle = median(&mut speeds);
            let us = |quantile| counts.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
            Row {
                parameters: parameters.clone(),
                variant: *variant,
                kind,
                transactions: counts.done(),
                rolled_back: counts.rolled_back,
                transactions_per_s: middle,
                spread: if middle > 0.0 { (speeds[speeds.len() - 1] - speeds[0]) / middle } else { 0.0 },
                p50_us: us(0.5),
                p99_us: us(0.99),
                mean_us: counts.latency_ns.mean() / 1e3,
                aborts_per_commit: counts.aborts() as f64 / counts.done().max(1) as f64,
                given_up: slices.iter().map(|slice| slice.given_up).sum(),
                breakdown: None,
                events: Events::default(),
            }
        };
        let all: Vec<usize> = (0..kinds.len()).collect();
        let mut rows = Vec::new();
        if kinds.len() > 1 {
            rows.push(row(TOTAL, &all));
        }
        rows.extend(all.iter().map(|&at| row(kinds[at], &[at])));
        let mut breakdown = Breakdown::default();
        slices.iter().for_each(|slice| breakdown.add(&slice.breakdown));
        slices.iter().for_each(|slice| rows[0].events.add(&slice.events));
        rows[0].breakdown = (breakdown.rounds() > 0).then_some(breakdown);
        rows
    }

    /// True if both do the same work with the same number of workers, so that their throughputs make a ratio.
    fn same_group(&self, other: &Row) -> bool {
        (&self.parameters, self.variant.workers) == (&other.parameters, other.variant.workers)
    }

    fn same_variant(&self, other: &Row) -> bool {
        self.same_group(other) && self.variant == other.variant
    }
}

/// The results of a benchmark.
pub(crate) struct Outcome {
    /// The benchmark's name.
    pub(crate) name: &'static str,
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<Row>,
    pub(crate) databases: Vec<DatabaseLine>,
    index: IndexKind,
    repeats: u32,
    slice_s: f64,
    seed: u64,
}

/// A row as the JSON file has it: parameters under their flags' names, figures with their units.
#[derive(Serialize)]
struct JsonRow<'a> {
    benchmark: &'static str,
    #[serde(flatten)]
    parameters: Map<String, Value>,
    workers: usize,
    cc: &'static str,
    durability: &'static str,
    mode: &'static str,
    batch: usize,
    hints: &'static str,
    seconds: f64,
    repeats: u32,
    index: &'static str,
    seed: u64,
    kind: &'a str,
    transactions: u64,
    rolled_back: u64,
    given_up: u64,
    transactions_per_s: f64,
    /// To the first mode's; absent where that did none of the kind.
    ratio: Option<f64>,
    spread: f64,
    p50_us: f64,
    p99_us: f64,
    mean_us: f64,
    aborts_per_commit: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    breakdown: Option<Value>,
}

#[derive(Serialize)]
struct JsonDatabase<'a> {
    #[serde(flatten)]
    parameters: Map<String, Value>,
    cc: &'static str,
    durability: &'static str,
    memory_before_bytes: u64,
    memory_after_bytes: u64,
    conditions: &'a [Condition],
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    rows: Vec<JsonRow<'a>>,
    databases: Vec<JsonDatabase<'a>>,
}

impl Outcome {
    /// One without rows.
    pub(crate) fn new(name: &'static str, plan: &Plan) -> Outcome {
        Outcome {
            name,
            environment: Environment::of_this_machine(),
            rows: Vec::new(),
            databases: Vec::new(),
            index: plan.index,
            repeats: plan.repeats,
            slice_s: plan.slice.as_secs_f64(),
            seed: plan.seed,
        }
    }

    /// Adds what another load gave.
    pub(crate) fn extend(&mut self, part: Part) {
        self.rows.extend(part.rows);
        self.databases.extend(part.databases);
    }

    /// The throughput of a row by that of the same kind in the first variant of its group.
    pub(crate) fn ratio(&self, row: &Row) -> Option<f64> {
        let base = self.rows.iter().find(|other| other.same_group(row) && other.kind == row.kind)?;
        (base.transactions_per_s > 0.0).then(|| row.transactions_per_s / base.transactions_per_s)
    }

    /// The JSON text.
    pub(crate) fn json(&self) -> String {
        let databases = self.databases.iter().map(|database| JsonDatabase {
            parameters: fields(&database.parameters),
            cc: database.home.scheme.name(),
            durability: database.home.durability.name(),
            memory_before_bytes: database.memory_before_bytes,
            memory_after_bytes: database.memory_after_bytes,
            conditions: &database.conditions,
        });
        let json = Json {
            environment: &self.environment,
            rows: self.rows.iter().map(|row| self.json_row(row)).collect(),
            databases: databases.collect(),
        };
        serde_json::to_string_pretty(&json).expect("text and finite numbers serialise")
    }

    fn json_row<'a>(&self, row: &'a Row) -> JsonRow<'a> {
        let variant = &row.variant;
        JsonRow {
            benchmark: self.name,
            parameters: fields(&row.parameters),
            workers: variant.workers,
            cc: variant.cc.name(),
            durability: variant.durability.name(),
            mode: variant.form.name(),
            batch: variant.batch,
            hints: variant.hints.name(),
            seconds: self.slice_s * f64::from(self.repeats),
            repeats: self.repeats,
            index: self.index.name(),
            seed: self.seed,
            kind: row.kind,
            transactions: row.transactions,
            rolled_back: row.rolled_back,
            given_up: row.given_up,
            transactions_per_s: row.transactions_per_s,
            ratio: self.ratio(row),
            spread: row.spread,
            p50_us: row.p50_us,
            p99_us: row.p99_us,
            mean_us: row.mean_us,
            aborts_per_commit: row.aborts_per_commit,
            breakdown: row.breakdown.map(|breakdown| {
                breakdown::fields(&breakdown, &row.events, variant.workers, row.transactions_per_s)
            }),
        }
    }

    /// The table, and notes on how to read it.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("{}\n\n{}\n\n{}", self.environment.summary(), self.grid().text(), self.notes());
        let lines = self.breakdowns();
        if !lines.is_empty() {
            let _ = write!(text, "\n{}", breakdown::text(&lines));
        }
        text
    }

    /// Where the time went, by variant; none where that was not asked for.
    fn breakdowns(&self) -> Vec<breakdown::Line> {
        let (category, series) = (self.categories(), self.series());
        let line = |row: &Row| {
            let (workers, transactions_per_s) = (row.variant.workers, row.transactions_per_s);
            let name = format!("{}, {}", category(row), series(row));
            Some(breakdown::Line {
                name,
                workers,
                transactions_per_s,
                breakdown: row.breakdown?,
                events: row.events.clone(),
            })
        };
        self.rows.iter().filter_map(line).collect()
    }

    /// The table: parameters first, those of the variant where they vary, then the figures.
    pub(crate) fn grid(&self) -> Grid {
        // Those that are the same everywhere are in the notes.
        let varies = |p: &&Parameter| self.rows.iter().any(|row| !row.parameters.contains(p));
        let parameters = distinct(
            self.rows.iter().flat_map(|row| row.parameters.iter().filter(varies).map(|p| p.0.to_owned())),
        );
        let columns: Vec<&(&str, bool, Cell)> =
            COLUMNS.iter().filter(|column| self.is_wanted(column)).collect();
        let is_number = |name: &str| {
            let mut values = self.rows.iter().flat_map(|row| row.parameters.iter().filter(|p| p.0 == name));
            values.all(|parameter| parameter.1.is_number())
        };
        let has_kinds = self.rows.iter().any(|row| row.kind == TOTAL);
        let begins = |row: &Row, last: &Row| {
            if has_kinds { !row.same_variant(last) } else { !row.same_group(last) }
        };
        let of_parameters = parameters.iter().map(|name| (name.as_str(), is_number(name)));
        let mut grid = Grid::new(of_parameters.chain(columns.iter().map(|column| (column.0, column.1))));
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 && begins(row, &self.rows[index - 1]) {
                grid.begin_group();
            }
            let value = |name: &String| row.parameters.iter().find(|p| p.0 == name).map_or("-".into(), shown);
            let cells = columns.iter().map(|column| column.2(self, row));
            grid.push(parameters.iter().map(value).chain(cells));
        }
        grid
    }

    /// Whether a column says something: some do where they are unusual.
    fn is_wanted(&self, (name, _, cell): &(&str, bool, Cell)) -> bool {
        let usual = match *name {
            "cc" => "serializable",
            "durability" => "memory",
            "rolled back" | "given up" => "0",
            _ => return true,
        };
        self.rows.iter().any(|row| cell(self, row) != usual)
    }

    pub(crate) fn notes(&self) -> String {
        let mut notes = format!(
            "medians of {} slices of {:.2} s, the variants in turns; spread is (highest - lowest) / median; ratio is \
             to the first mode, of the same kind\nk txn/s: transactions done, those included that roll back on \
             purpose; aborts/commit: attempts that a conflict ended, for each\nlatency from a transaction's start in \
             its slot to its end, retries included, and with hints its wait for its turn, of one transaction in {LATENCY_SAMPLE_EVERY}\n",
            self.repeats, self.slice_s
        );
        if self.index != IndexKind::default() {
            let _ = writeln!(notes, "tables with an index of the kind {}", self.index.name());
        }
        for database in &self.databases {
            for parameter in &database.parameters {
                let _ = write!(notes, "{}, ", named(parameter));
            }
            let _ = writeln!(
                notes,
                "{}, durability {}: {} of memory after loading, {} at the end",
                database.home.scheme.name(),
                database.home.durability.name(),
                size(database.memory_before_bytes),
                size(database.memory_after_bytes)
            );
            for condition in &database.conditions {
                let _ = writeln!(notes, "  it holds that {}: {}", condition.name, condition.detail);
            }
        }
        notes
    }

    /// The chart of throughput.
    pub(crate) fn throughput(&self) -> Result<String> {
        let y_name = "thousand transactions per second";
        self.chart("Transactions per second", y_name, |row| row.transactions_per_s / 1e3)
    }

    /// The charts of the usual latency, and of that of the slow ones.
    pub(crate) fn latencies(&self) -> Result<[String; 2]> {
        Ok([
            self.chart("Latency: median", "microseconds", |row| row.p50_us)?,
            self.chart("Latency: 99th percentile", "microseconds", |row| row.p99_us)?,
        ])
    }

    /// Bars: a category per kind and work, a series per mode and whatever else varies.
    fn chart(&self, caption: &'static str, y_name: &'static str, value: fn(&Row) -> f64) -> Result<String> {
        if self.rows.is_empty() {
            return Err(Failure::new("there is nothing to draw: no variant was run"));
        }
        let (category, series) = (self.categories(), self.series());
        // Kind by kind: what one panel has no room for is another kind, not the same one with more workers.
        let kinds = distinct(self.rows.iter().map(|row| row.kind.to_owned()));
        let by_kind = kinds.iter().flat_map(|kind| self.rows.iter().filter(move |row| row.kind == *kind));
        let categories = distinct(by_kind.map(&category));
        let of_series = |name: String| {
            let of = |wanted: &String| {
                let mut rows = self.rows.iter();
                rows.find(|row| series(row) == name && category(row) == *wanted).map(value)
            };
            let values = categories.iter().map(of).collect();
            (name, values)
        };
        let series = distinct(self.rows.iter().map(&series)).into_iter().map(of_series).collect();
        let x_name = if self.rows.iter().any(|row| row.kind == TOTAL) { "transaction" } else { "work" };
        chart::svg_of(&Data { caption, x_name: x_name.to_owned(), y_name, categories, series, lines: false })
    }

    /// The name of a row's category: its kind where there are several, and the parameters that vary.
    fn categories(&self) -> impl Fn(&Row) -> String {
        let rows = &self.rows;
        let names = distinct(rows.iter().flat_map(|row| row.parameters.iter().map(|p| p.0.to_owned())));
        let text = |row: &Row, name: &str| row.parameters.iter().find(|p| p.0 == name).map(shown);
        let varies = |name: &String| rows.iter().any(|row| text(row, name) != text(&rows[0], name));
        let varied: Vec<String> = names.into_iter().filter(varies).collect();
        let has_kinds = rows.iter().any(|row| row.kind != rows[0].kind) || varied.is_empty();
        let has_workers = rows.iter().any(|row| row.variant.workers != rows[0].variant.workers);
        move |row| {
            let kind = has_kinds.then(|| row.kind.to_owned());
            let is_varied = |parameter: &&Parameter| varied.iter().any(|name| name == parameter.0);
            let values = row.parameters.iter().filter(is_varied).map(named);
            let workers = has_workers.then(|| format!("workers {}", row.variant.workers));
            kind.into_iter().chain(values).chain(workers).collect::<Vec<_>>().join(", ")
        }
    }

    /// The name of a row's series: its mode, and of scheme, durability and batch what varies.
    fn series(&self) -> impl Fn(&Row) -> String {
        const MEANS: [fn(&Variant) -> String; 2] =
            [|v| v.cc.name().to_owned(), |v| v.durability.name().to_owned()];
        let first = self.rows.first().map(|row| row.variant);
        let varies = |of: &fn(&Variant) -> String| {
            self.rows.iter().any(|row| first.is_some_and(|first| of(&row.variant) != of(&first)))
        };
        let varied: Vec<_> = MEANS.into_iter().filter(varies).collect();
        let interleaved = self.rows.iter().filter(|row| row.variant.form.interleaves());
        let batches = distinct(interleaved.map(|row| row.variant.batch.to_string())).len() > 1;
        move |row| {
            let mut name = row.variant.form.name().to_owned();
            if batches && row.variant.form.interleaves() {
                let _ = write!(name, " {}", row.variant.batch);
            }
            varied.iter().fold(name, |name, of| name + ", " + &of(&row.variant))
        }
    }
}

/// Parameters as JSON has them: the flags' names, as identifiers.
fn fields(parameters: &Parameters) -> Map<String, Value> {
    parameters.iter().map(|(name, value)| (name.replace('-', "_"), value.clone())).collect()
}

/// The value of a parameter for people.
fn shown((name, value): &Parameter) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if *name == "size" => size(bytes),
            Some(number) => short(number),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A parameter with its name, unless the value says what it is.
fn named(parameter: &Parameter) -> String {
    let value = shown(parameter);
    let speaks = parameter.1.is_string() || parameter.0 == "size";
    if speaks { value } else { format!("{} {value}", parameter.0) }
}

/// The text of one cell.
type Cell = fn(&Outcome, &Row) -> String;

const COLUMNS: &[(&str, bool, Cell)] = &[
    ("workers", true, |_, row| row.variant.workers.to_string()),
    ("cc", false, |_, row| row.variant.cc.name().to_owned()),
    ("durability", false, |_, row| row.variant.durability.name().to_owned()),
    ("mode", false, |_, row| row.variant.form.name().to_owned()),
    ("batch", true, |_, row| row.variant.batch.to_string()),
    ("hints", false, |_, row| row.variant.hints.name().to_owned()),
    ("kind", false, |_, row| row.kind.to_owned()),
    ("k txn/s", true, |_, row| format!("{:.1}", row.transactions_per_s / 1e3)),
    ("ratio", true, |all, row| all.ratio(row).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
    ("spread", true, |_, row| format!("{:.1} %", row.spread * 100.0)),
    ("mean us", true, |_, row| format!("{:.1}", row.mean_us)),
    ("p50 us", true, |_, row| format!("{:.1}", row.p50_us)),
    ("p99 us", true, |_, row| format!("{:.1}", row.p99_us)),
    ("aborts/commit", true, |_, row| match row.aborts_per_commit {
        0.0 => "0".to_owned(),
        aborts => format!("{aborts:.4}"),
    }),
    ("rolled back", true, |_, row| match row.rolled_back {
        0 => "0".to_owned(),
        some => format!("{:.2} %", some as f64 / row.transactions as f64 * 100.0),
    }),
    ("given up", true, |_, row| row.given_up.to_string()),
];

/// Prints the table and writes the files that were asked for.
pub(crate) fn show(outcome: &Outcome, title: &str, args: &KitArgs) -> Result<()> {
    println!("{}", outcome.text());
    if let Some(path) = &args.run.json {
        write(path, &outcome.json())?;
    }
    if let Some(path) = &args.run.svg {
        write(path, &outcome.throughput()?)?;
    }
    let Some(directory) = &args.run.report else { return Ok(()) };
    page(outcome, title)?.write(directory, &outcome.json())
}

/// The page.
pub(crate) fn page<'a>(outcome: &'a Outcome, title: &'a str) -> Result<Page<'a>> {
    let [usual, slow] = outcome.latencies()?;
    let mut parts = vec![
        PagePart::Heading("Throughput"),
        PagePart::Chart(outcome.throughput()?),
        PagePart::Heading("Latency"),
        PagePart::Chart(usual),
        PagePart::Chart(slow),
        PagePart::Heading("All figures"),
        PagePart::Table(outcome.grid()),
        PagePart::Notes(outcome.notes()),
    ];
    let lines = outcome.breakdowns();
    if !lines.is_empty() {
        parts.extend(breakdown::parts(&lines));
    }
    Ok(Page { title, environment: &outcome.environment, parts })
}
