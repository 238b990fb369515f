//! What came out: a table for people, JSON for programs. The chart is in `chart`.

use crate::args::RefillKind;
use crate::bodies::LATENCY_SAMPLE_EVERY;
use crate::breakdown;
use crate::chart;
use crate::distribution::Kind;
use crate::engine::Breakdown;
use crate::environment::Environment;
use crate::grid::Grid;
use crate::hardware::Events;
use crate::page::{Page, Part};
use crate::plan::{Plan, Variant};
use crate::{Failure, Result};
use braiddb::IndexKind;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// The results of a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Where they were made.
    pub environment: Environment,
    /// One per variant, in the order of the plan.
    pub rows: Vec<Row>,
    /// The kind of index of all tables.
    pub index: IndexKind,
    /// Slices per variant.
    pub repeats: u32,
    /// Seconds of a slice.
    pub slice_s: f64,
    /// Workers have told where their time goes.
    pub breakdown: bool,
}

/// The result of one variant: medians over its slices.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was run.
    pub variant: Variant,
    /// False: the mode has no form of this workload, and there are no figures.
    pub measured: bool,
    /// Committed transactions, all workers together.
    pub transactions_per_s: f64,
    /// Their operations.
    pub operations_per_s: f64,
    /// Those of each slice, in the order of the repeats.
    pub slices_per_s: Vec<f64>,
    /// (Highest - lowest) / median of the slices' throughputs.
    pub spread: f64,
    /// Median latency of a transaction, from its start in a slot to its end, retries included.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// Its mean.
    pub mean_us: f64,
    /// Aborted attempts per commit.
    pub aborts_per_commit: f64,
    /// Memory of the engine after loading, by records.
    pub bytes_per_record: f64,
    /// Transactions that were written and synced together, on average; 0 without a log.
    pub group_records: f64,
    /// From the start of such a write to the end of its sync, on average.
    pub flush_us: f64,
    /// Where the workers' time went, of all slices together; empty where it was not asked for.
    pub breakdown: Breakdown,
    /// What the processor counted meanwhile; likewise.
    pub(crate) events: Events,
}

impl Row {
    pub(crate) fn unmeasured(variant: Variant) -> Self {
        Row {
            variant,
            measured: false,
            transactions_per_s: 0.0,
            operations_per_s: 0.0,
            slices_per_s: Vec::new(),
            spread: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            mean_us: 0.0,
            aborts_per_commit: 0.0,
            bytes_per_record: 0.0,
            group_records: 0.0,
            flush_us: 0.0,
            breakdown: Breakdown::default(),
            events: Events::default(),
        }
    }
}

/// A row as the JSON file has it: parameters under their flags' names, figures with their units.
#[derive(Serialize)]
struct JsonRow<'a> {
    workload: &'a str,
    cc: &'static str,
    durability: &'static str,
    mode: &'static str,
    workers: usize,
    batch: usize,
    refill: RefillKind,
    records: u64,
    key_bytes: usize,
    value_bytes: usize,
    distribution: Kind,
    theta: f64,
    reads: usize,
    seconds: f64,
    repeats: u32,
    index: &'static str,
    transactions_per_s: f64,
    operations_per_s: f64,
    spread: f64,
    p50_us: f64,
    p99_us: f64,
    mean_us: f64,
    aborts_per_commit: f64,
    bytes_per_record: f64,
    group_records: f64,
    flush_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    breakdown: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    rows: Vec<JsonRow<'a>>,
}

impl Outcome {
    pub(crate) fn new(rows: Vec<Row>, plan: &Plan) -> Self {
        let environment = Environment::of_this_machine();
        let (repeats, slice_s, breakdown) = (plan.repeats, plan.slice.as_secs_f64(), plan.breakdown);
        Outcome { environment, rows, index: plan.index, repeats, slice_s, breakdown }
    }

    /// The throughput of a row by that of the first measured row of its group.
    pub fn ratio(&self, row: &Row) -> Option<f64> {
        let base = self.rows.iter().find(|r| r.variant.same_group(&row.variant) && r.measured)?;
        row.measured.then(|| row.transactions_per_s / base.transactions_per_s)
    }

    /// The JSON text.
    pub fn json(&self) -> String {
        let rows = self.rows.iter().filter(|row| row.measured).map(|row| self.json_row(row)).collect();
        serde_json::to_string_pretty(&Json { environment: &self.environment, rows })
            .expect("text and finite numbers serialise")
    }

    fn json_row<'a>(&self, row: &'a Row) -> JsonRow<'a> {
        let variant = &row.variant;
        JsonRow {
            workload: &variant.workload.name,
            cc: variant.cc.name(),
            durability: variant.durability.name(),
            mode: variant.mode.name(),
            workers: variant.workers,
            batch: variant.batch,
            refill: variant.refill,
            records: variant.records,
            key_bytes: variant.key_bytes,
            value_bytes: variant.value_bytes,
            distribution: variant.distribution,
            theta: variant.theta,
            reads: variant.workload.shape.operations(),
            seconds: self.slice_s * f64::from(self.repeats),
            repeats: self.repeats,
            index: self.index.name(),
            transactions_per_s: row.transactions_per_s,
            operations_per_s: row.operations_per_s,
            spread: row.spread,
            p50_us: row.p50_us,
            p99_us: row.p99_us,
            mean_us: row.mean_us,
            aborts_per_commit: row.aborts_per_commit,
            bytes_per_record: row.bytes_per_record,
            group_records: row.group_records,
            flush_us: row.flush_us,
            breakdown: self.breakdown.then(|| {
                breakdown::fields(&row.breakdown, &row.events, variant.workers, row.transactions_per_s)
            }),
        }
    }

    /// The table, and notes on how to read it.
    pub fn text(&self) -> String {
        let mut text =
            format!("{}\n\n{}\n\n{}", self.environment.summary(), self.grid().text(), self.notes());
        if self.breakdown {
            let _ = write!(text, "\n{}", breakdown::text(&self.breakdowns()));
        }
        text
    }

    /// Where the time went, by variant.
    fn breakdowns(&self) -> Vec<breakdown::Line> {
        let line = |row: &Row| {
            let v = &row.variant;
            let mut name = format!("{} {}, {}", v.workload.name, short(v.records), v.mode.name());
            if v.mode.interleaves() {
                let _ = write!(name, " {}", v.batch);
            }
            for usual in [(v.cc.name(), "serializable"), (v.durability.name(), "memory")] {
                name += &if usual.0 == usual.1 { String::new() } else { format!(", {}", usual.0) };
            }
            if v.workers > 1 {
                let _ = write!(name, ", {} workers", v.workers);
            }
            let (workers, transactions_per_s) = (v.workers, row.transactions_per_s);
            let events = row.events.clone();
            breakdown::Line { name, workers, transactions_per_s, breakdown: row.breakdown, events }
        };
        self.rows.iter().filter(|row| row.measured).map(line).collect()
    }

    /// The table.
    fn grid(&self) -> Grid {
        let columns: Vec<&(&str, Column)> =
            COLUMNS.iter().filter(|(name, column)| self.is_wanted(name, *column)).collect();
        let is_text =
            |name| matches!(name, "workload" | "cc" | "durability" | "mode" | "distribution" | "refill");
        let mut grid = Grid::new(columns.iter().map(|(name, _)| (*name, !is_text(*name))));
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 && !row.variant.same_group(&self.rows[index - 1].variant) {
                grid.begin_group();
            }
            grid.push(columns.iter().map(|(_, column)| column(self, row)));
        }
        grid
    }

    /// Whether a column says something: those for parameters do where they vary or are unusual.
    fn is_wanted(&self, name: &str, column: Column) -> bool {
        let usual = match name {
            "key B" | "value B" => "8",
            "theta" | "aborts/commit" => "0",
            "refill" => "immediate",
            "cc" => "serializable",
            "durability" => "memory",
            "group" | "flush us" => "0.0",
            "distribution" => "uniform",
            _ => return true,
        };
        self.rows
            .iter()
            .any(|row| !matches!(column(self, row).as_str(), value if value == usual || value == "-"))
    }

    fn notes(&self) -> String {
        let mut notes = format!(
            "medians of {} interleaved slices of {:.2} s; spread is (highest - lowest) / median; ratio \
             is to the first \
             mode of the group\nlatency from a transaction's start in its slot to its end, retries \
              included, of one \
             transaction in {LATENCY_SAMPLE_EVERY} (all, where one touches 50 records or more)\n",
            self.repeats, self.slice_s
        );
        if self.index != IndexKind::default() {
            let _ = writeln!(notes, "tables with an index of the kind {}", self.index.name());
        }
        if self.rows.iter().any(|row| !row.measured) {
            notes += "-: the mode has no form of this workload, or of the scheme's records\n";
        }
        let mut tables: Vec<&Row> = self.rows.iter().filter(|row| row.measured).collect();
        tables.dedup_by(|a, b| a.variant.same_table(&b.variant));
        for row in tables {
            let v = &row.variant;
            let _ = writeln!(
                notes,
                "{} records of {} + {} bytes took {:.1} bytes each, index included",
                short(v.records),
                v.key_bytes,
                v.value_bytes,
                row.bytes_per_record
            );
        }
        notes
    }
}

/// A number of records in few characters.
pub fn short(n: u64) -> String {
    let (value, suffix) = match n {
        0..1_000 => (n as f64, ""),
        1_000..1_000_000 => (n as f64 / 1e3, "K"),
        _ => (n as f64 / 1e6, "M"),
    };
    if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}{suffix}")
    } else {
        format!("{value:.1}{suffix}")
    }
}

/// The text of one cell.
type Column = fn(&Outcome, &Row) -> String;

const COLUMNS: &[(&str, Column)] = &[
    ("workload", |_, row| row.variant.workload.name.clone()),
    ("records", |_, row| short(row.variant.records)),
    ("key B", |_, row| row.variant.key_bytes.to_string()),
    ("value B", |_, row| row.variant.value_bytes.to_string()),
    ("distribution", |_, row| format!("{:?}", row.variant.distribution).to_lowercase()),
    ("theta", |_, row| row.variant.theta.to_string()),
    ("workers", |_, row| row.variant.workers.to_string()),
    ("cc", |_, row| row.variant.cc.name().to_owned()),
    ("durability", |_, row| row.variant.durability.name().to_owned()),
    ("mode", |_, row| row.variant.mode.name().to_owned()),
    ("batch", |_, row| row.variant.batch.to_string()),
    ("refill", |_, row| format!("{:?}", row.variant.refill).to_lowercase()),
    ("k txn/s", |_, row| figure(row, row.transactions_per_s / 1e3, 1)),
    ("M op/s", |_, row| figure(row, row.operations_per_s / 1e6, 2)),
    ("ratio", |all, row| all.ratio(row).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
    ("spread", |_, row| figure(row, row.spread * 100.0, 1) + if row.measured { " %" } else { "" }),
    ("mean us", |_, row| figure(row, row.mean_us, 1)),
    ("p50 us", |_, row| figure(row, row.p50_us, 1)),
    ("p99 us", |_, row| figure(row, row.p99_us, 1)),
    ("aborts/commit", |_, row| match row.aborts_per_commit {
        0.0 => "0".to_owned(),
        aborts => figure(row, aborts, 4),
    }),
    ("group", |_, row| figure(row, row.group_records, 1)),
    ("flush us", |_, row| figure(row, row.flush_us, 1)),
];

fn figure(row: &Row, value: f64, digits: usize) -> String {
    if row.measured { format!("{value:.digits$}") } else { "-".to_owned() }
}

/// What is asked for beside the table on the terminal.
pub(crate) struct Outputs<'a> {
    /// What was measured, in a few words.
    pub(crate) title: &'a str,
    pub(crate) json: Option<&'a Path>,
    pub(crate) svg: Option<&'a Path>,
    /// The directory of a page.
    pub(crate) page: Option<&'a Path>,
}

/// Prints the table and writes the files that were asked for.
pub(crate) fn show(outcome: &Outcome, outputs: &Outputs<'_>) -> Result<()> {
    println!("{}", outcome.text());
    if let Some(path) = outputs.json {
        write(path, &outcome.json())?;
    }
    if let Some(path) = outputs.svg {
        write(path, &chart::svg(outcome)?)?;
    }
    let Some(directory) = outputs.page else { return Ok(()) };
    page(outcome, outputs.title)?.write(directory, &outcome.json())
}

/// The page.
pub(crate) fn page<'a>(outcome: &'a Outcome, title: &'a str) -> Result<Page<'a>> {
    let mut parts = vec![
        Part::Heading("Throughput"),
        Part::Chart(chart::svg(outcome)?),
        Part::Heading("All figures"),
        Part::Table(outcome.grid()),
        Part::Notes(outcome.notes()),
    ];
    if outcome.breakdown {
        parts.extend(breakdown::parts(&outcome.breakdowns()));
    }
    Ok(Page { title, environment: &outcome.environment, parts })
}

/// Writes a file and says so.
pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    println!("wrote {}", path.display());
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::{DurabilityKind, Mode};
    use crate::scheme::SchemeKind;
    use crate::workload::Workload;
    use std::time::Duration;

    /// Results with made-up figures: per workload, each mode twice as fast as the one before.
    pub(crate) fn example(workloads: &[&str], modes: &[Mode], batches: &[usize]) -> Outcome {
        let mut rows = Vec::new();
        for name in workloads {
            let mut speed = 100_000.0;
            for &mode in modes {
                for &batch in batches {
                    rows.push(Row {
                        measured: true,
                        transactions_per_s: speed,
                        operations_per_s: speed * 10.0,
                        slices_per_s: vec![speed; 3],
                        spread: 0.02,
                        ..Row::unmeasured(variant(name, mode, batch))
                    });
                    speed *= 2.0;
                }
            }
        }
        let plan = Plan {
            variants: vec![],
            repeats: 3,
            slice: Duration::from_secs(1),
            transactions_max: u64::MAX,
            load_time_max: None,
            index: IndexKind::default(),
            directory: std::env::temp_dir(),
            checkpoints: false,
            breakdown: false,
        };
        Outcome::new(rows, &plan)
    }

    fn variant(name: &str, mode: Mode, batch: usize) -> Variant {
        Variant {
            workload: Workload::parse(name, None).unwrap(),
            distribution: Kind::Uniform,
            theta: 0.0,
            cc: SchemeKind::Serializable.into(),
            durability: DurabilityKind::Memory,
            mode,
            workers: 1,
            batch,
            refill: RefillKind::Immediate,
            records: 10_000_000,
            key_bytes: 8,
            value_bytes: 8,
        }
    }

    #[test]
    fn json_has_the_fields_that_readers_rely_on() {
        // Proves the names of the JSON file's fields; other programs read them.
        let json: serde_json::Value =
            serde_json::from_str(&example(&["r10"], &[Mode::Naive, Mode::AmacMk], &[48]).json()).unwrap();
        assert!(json["environment"]["command"].is_string());
        let row = json["rows"][1].as_object().unwrap();
        for field in [
            "workers",
            "batch",
            "records",
            "key_bytes",
            "value_bytes",
            "theta",
            "transactions_per_s",
            "operations_per_s",
            "spread",
            "p50_us",
            "p99_us",
            "aborts_per_commit",
            "bytes_per_record",
            "reads",
        ] {
            assert!(row[field].is_number(), "{field}");
        }
        assert_eq!((&row["workload"], &row["mode"]), (&"r10".into(), &"amac-mk".into()));
        assert_eq!((&row["distribution"], &row["refill"]), (&"uniform".into(), &"immediate".into()));
    }

    #[test]
    fn ratios_are_to_the_first_mode_of_the_group() {
        // Proves that groups are compared within themselves, and that unmeasured rows have no figures.
        let mut outcome = example(&["r10", "m"], &[Mode::Naive, Mode::Interleaved], &[48]);
        outcome.rows[3].transactions_per_s = 500_000.0;
        assert_eq!(outcome.ratio(&outcome.rows[1]), Some(2.0));
        assert_eq!(outcome.ratio(&outcome.rows[3]), Some(5.0));
        outcome.rows[3].measured = false;
        assert_eq!(outcome.ratio(&outcome.rows[3]), None);
        assert!(outcome.text().contains("no form of this workload"), "{}", outcome.text());
        assert!(!outcome.text().contains("theta"));
    }

    #[test]
    fn the_page_has_every_row() {
        // Proves that each variant's line is in the page, and that groups of them are set off.
        let outcome = example(&["r10", "m"], &[Mode::Naive, Mode::Interleaved], &[8, 48]);
        let html = page(&outcome, "YCSB").unwrap().html();
        assert_eq!(html.matches("<tr").count(), 1 + outcome.rows.len());
        assert_eq!(html.matches("<tr class=\"g\">").count(), 1);
        for row in &outcome.rows {
            let cell = figure(row, row.transactions_per_s / 1e3, 1);
            assert!(html.contains(&format!(">{cell}</td>")), "{cell}");
        }
    }

    #[test]
    fn breakdowns_are_shown_when_asked_for() {
        // Proves that where the time goes is in the text, the JSON and the page with the flag, and only then.
        let mut outcome = example(&["r10"], &[Mode::Naive, Mode::Interleaved], &[48]);
        for (breakdown, times) in [(false, 0), (true, 1)] {
            outcome.breakdown = breakdown;
            assert_eq!(outcome.text().matches("concurrency control").count(), times);
            assert_eq!(outcome.json().matches("\"breakdown\"").count(), times * outcome.rows.len());
            let html = page(&outcome, "YCSB").unwrap().html();
            assert_eq!(html.matches("Where the time goes").count(), times);
        }
        assert!(outcome.text().contains("r10 10M, interleaved 48"), "{}", outcome.text());
    }

    #[test]
    fn numbers_of_records_are_short() {
        // Proves the form of axis and table entries.
        for (n, text) in [(10, "10"), (10_000, "10K"), (23_465_984, "23.5M"), (50_000_000, "50M")] {
            assert_eq!(short(n), text);
        }
    }
}
