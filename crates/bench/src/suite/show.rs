//! Presentation of results for readers: the table with its notes, charts, and the page.

use super::Parameter;
use super::outcome::{Outcome, Row, TOTAL};
use super::plan::DatabaseKind;
use crate::args::RunArgs;
use crate::engine::{Front, IndexKind};
use crate::report::chart::{self, Data, Measured};
use crate::report::grid::Grid;
use crate::report::page::{Page, Part};
use crate::report::{breakdown, distinct, short, size, write};
use crate::{Failure, Result};
use serde_json::Value;
use std::fmt::Write as _;

/// Prints the table and writes the requested files.
pub(crate) fn show(outcome: &Outcome, title: &str, args: &RunArgs) -> Result<()> {
    println!("{}", outcome.text());
    if let Some(path) = &args.json {
        write(path, &outcome.json())?;
    }
    if let Some(path) = &args.svg {
        write(path, &outcome.throughput()?)?;
    }
    let Some(directory) = &args.report else { return Ok(()) };
    page(outcome, title)?.write(directory, &outcome.json())
}

/// The page.
pub(crate) fn page<'a>(outcome: &'a Outcome, title: &'a str) -> Result<Page<'a>> {
    let [usual, slow] = outcome.latencies()?;
    let mut parts = vec![
        Part::Heading("Throughput"),
        Part::Chart(outcome.throughput()?),
        Part::Heading("Latency"),
        Part::Chart(usual),
        Part::Chart(slow),
        Part::Heading("All figures"),
        Part::Table(outcome.grid()),
        Part::Notes(outcome.notes()),
    ];
    let lines = outcome.breakdowns();
    if !lines.is_empty() {
        parts.extend(breakdown::parts(&lines));
    }
    Ok(Page { title, environment: &outcome.environment, parts })
}

impl Outcome {
    /// Returns the table, with notes on how to read it.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("{}\n\n{}\n\n{}", self.environment.summary(), self.grid().text(), self.notes());
        let lines = self.breakdowns();
        if !lines.is_empty() {
            let _ = write!(text, "\n{}", breakdown::text(&lines));
        }
        text
    }

    /// Returns the breakdown of each variant; none if it was not measured.
    fn breakdowns(&self) -> Vec<breakdown::Line> {
        let (category, series) = (self.categories(), self.series());
        let line = |row: &Row| {
            let (workers, transactions_per_s) = (row.variant.workers, row.transactions_per_s);
            let name = format!("{}, {}", category(row), series(row));
            let (breakdown, events) = (row.breakdown?, row.events.clone());
            Some(breakdown::Line { name, workers, transactions_per_s, breakdown, events })
        };
        self.rows.iter().filter_map(line).collect()
    }

    /// Returns the table. Each row has the parameters first, then what varies among the variants, then the figures.
    pub(crate) fn grid(&self) -> Grid {
        // Parameters with one value everywhere are in the notes, except those that a reader looks for first.
        let is_shown = |p: &&Parameter| {
            ["workload", "records"].contains(&p.0) || self.rows.iter().any(|row| !row.parameters.contains(p))
        };
        let parameters = distinct(
            self.rows.iter().flat_map(|row| row.parameters.iter().filter(is_shown).map(|p| p.0.to_owned())),
        );
        let columns: Vec<&Column> = COLUMNS.iter().filter(|column| self.is_wanted(column)).collect();
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

    /// Returns true if a column is shown. Some columns are shown only if a value is unusual.
    fn is_wanted(&self, (name, _, cell): &Column) -> bool {
        let usual = match *name {
            "cc" => "serializable",
            "durability" => "memory",
            "index" => IndexKind::default().name(),
            "front" => "none",
            "refill" => "immediate",
            "hints" => "off",
            "kind" => "transaction",
            "rolled back" | "given up" => "0",
            "group" | "flush us" => "0.0",
            "M op/s" => "-",
            _ => return true,
        };
        self.rows.iter().any(|row| row.measured && cell(self, row) != usual)
    }

    pub(crate) fn notes(&self) -> String {
        let sampled = distinct(self.rows.iter().map(|row| row.sample_every.to_string())).join(" or ");
        let mut notes = format!(
            "medians of {} slices of {:.2} s, the variants in turns; spread is (highest - lowest) / median; ratio is \
             to the first mode, of the same kind\nk txn/s: transactions done, those included that roll back on \
             purpose; aborts/commit: attempts that a conflict ended, for each\nlatency from a transaction's start in \
             its slot to its end, retries included, and with hints its wait for its turn, of one transaction in {sampled}\n",
            self.repeats, self.slice_s
        );
        if self.rows.iter().any(|row| !row.measured) {
            notes += "-: the mode has no form of this workload, or none under this scheme\n";
        }
        for database in &self.databases {
            for parameter in &database.parameters {
                let _ = write!(notes, "{}, ", named(parameter));
            }
            let (before, after) = (database.memory_before_bytes, database.memory_after_bytes);
            let _ = write!(
                notes,
                "{}, durability {}{}: {} of memory after loading",
                database.kind.scheme.name(),
                database.kind.durability.name(),
                of_index(&database.kind),
                size(before)
            );
            let records = database.parameters.iter().find(|p| p.0 == "records").and_then(|p| p.1.as_f64());
            if let Some(records) = records {
                let _ = write!(notes, " ({:.1} bytes a record, index included)", before as f64 / records);
            }
            let _ = writeln!(notes, ", {} at the end", size(after));
            for condition in &database.conditions {
                let _ = writeln!(notes, "  it holds that {}: {}", condition.name, condition.detail);
            }
        }
        notes
    }

    /// The chart of throughput.
    pub(crate) fn throughput(&self) -> Result<String> {
        let y_name = "thousand transactions per second";
        self.chart("Transactions per second: median, lowest and highest", y_name, |row| {
            let thousands = row.slices_per_s.iter().map(|per_s| per_s / 1e3);
            let (lowest, highest) = (thousands.clone().reduce(f64::min), thousands.reduce(f64::max));
            let range = lowest.zip(highest).filter(|_| row.slices_per_s.len() > 1);
            Measured { value: row.transactions_per_s / 1e3, range }
        })
    }

    /// Returns the charts of the median latency and of the 99th percentile.
    pub(crate) fn latencies(&self) -> Result<[String; 2]> {
        Ok([
            self.chart("Latency: median", "microseconds", |row| row.p50_us.into())?,
            self.chart("Latency: 99th percentile", "microseconds", |row| row.p99_us.into())?,
        ])
    }

    fn chart(
        &self,
        caption: &'static str,
        y_name: &'static str,
        value: fn(&Row) -> Measured,
    ) -> Result<String> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.measured).collect();
        if rows.is_empty() {
            return Err(Failure::new("there is nothing to draw: no variant was run"));
        }
        let data = match self.sweep(&rows) {
            Some(axis) => self.lines(&rows, &axis, value),
            None => self.bars(&rows, value),
        };
        chart::svg_of(&Data { caption, y_name, notes: self.environment.notes(), ..data })
    }

    /// Returns the only number that varies, if no other parameter changes the work.
    fn sweep(&self, rows: &[&Row]) -> Option<String> {
        let varies = |of: &dyn Fn(&Row) -> String| rows.iter().any(|row| of(row) != of(rows[0]));
        let interleaved = rows.iter().filter(|row| row.variant.mode.interleaves());
        let batches = distinct(interleaved.map(|row| row.variant.batch.to_string())).len() > 1;
        let mut swept: Vec<String> = batches.then(|| BATCH.to_owned()).into_iter().collect();
        if varies(&|row| row.variant.workers.to_string()) {
            swept.push(WORKERS.to_owned());
        }
        for (name, value) in rows.iter().flat_map(|row| &row.parameters) {
            if varies(&|row| axis_value(row, name)) && !swept.iter().any(|other| other == name) {
                if !value.is_number() {
                    return None;
                }
                swept.push((*name).to_owned());
            }
        }
        let others = varies(&|row| format!("{} {:?} {:?}", row.kind, row.variant.refill, row.variant.hints));
        (swept.len() == 1 && !others).then(|| swept.remove(0))
    }

    /// Draws lines over the values of one axis, a series per mode, scheme and durability. Modes without batches are
    /// level lines.
    fn lines(&self, rows: &[&Row], axis: &str, value: fn(&Row) -> Measured) -> Data {
        let name = means(rows);
        let has_axis = |row: &&&Row| axis != BATCH || row.variant.mode.interleaves();
        let categories = distinct(rows.iter().filter(has_axis).map(|row| axis_value(row, axis)));
        let series = distinct(rows.iter().map(|row| name(row))).into_iter().map(|series| {
            let of = |category: &String| {
                let mut rows = rows.iter().filter(|row| name(row) == series);
                rows.find(|row| !has_axis(row) || axis_value(row, axis) == *category).map(|row| value(row))
            };
            let values = categories.iter().map(of).collect();
            (series, values)
        });
        let (x_name, series) = (axis.to_owned(), series.collect());
        Data { caption: "", x_name, y_name: "", categories, series, lines: true, notes: Vec::new() }
    }

    /// Draws bars: a category per kind and work, and a series per mode and whatever else varies.
    fn bars(&self, rows: &[&Row], value: fn(&Row) -> Measured) -> Data {
        let (category, series) = (self.categories(), self.series());
        // Ordered by kind. If one panel has no room, the next panel then shows other kinds, not the same kind with more
        // workers.
        let kinds = distinct(rows.iter().map(|row| row.kind.to_owned()));
        let by_kind = kinds.iter().flat_map(|kind| rows.iter().filter(move |row| row.kind == *kind));
        let categories = distinct(by_kind.map(|row| category(row)));
        let of_series = |name: String| {
            let of = |wanted: &String| {
                let mut rows = rows.iter();
                rows.find(|row| series(row) == name && category(row) == *wanted).map(|row| value(row))
            };
            let values = categories.iter().map(of).collect();
            (name, values)
        };
        let series = distinct(rows.iter().map(|row| series(row))).into_iter().map(of_series).collect();
        let x_name = if rows.iter().any(|row| row.kind == TOTAL) { "transaction" } else { "work" };
        Data {
            caption: "",
            x_name: x_name.to_owned(),
            y_name: "",
            categories,
            series,
            lines: false,
            notes: Vec::new(),
        }
    }

    /// Returns the function that names a row's category: its kind if there are several, and the parameters that vary.
    fn categories(&self) -> impl Fn(&Row) -> String {
        let rows = &self.rows;
        let names = distinct(rows.iter().flat_map(|row| row.parameters.iter().map(|p| p.0.to_owned())));
        let varies =
            |name: &String| rows.iter().any(|row| axis_value(row, name) != axis_value(&rows[0], name));
        let varied: Vec<String> = names.into_iter().filter(varies).collect();
        let has_kinds = rows.iter().any(|row| row.kind != rows[0].kind);
        let has_workers = rows.iter().any(|row| row.variant.workers != rows[0].variant.workers);
        move |row| {
            let is_named = |parameter: &&Parameter| {
                parameter.0 == "workload" || varied.iter().any(|name| name == parameter.0)
            };
            let values: Vec<String> = row.parameters.iter().filter(is_named).map(named).collect();
            let kind = (has_kinds || values.is_empty()).then(|| row.kind.to_owned());
            let workers = has_workers.then(|| format!("workers {}", row.variant.workers));
            kind.into_iter().chain(values).chain(workers).collect::<Vec<_>>().join(", ")
        }
    }

    /// Returns the function that names a row's series: the mode, scheme, durability, index and front that vary, and the
    /// batch, refill and hints that vary.
    fn series(&self) -> impl Fn(&Row) -> String {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let name = means(&rows);
        let interleaved = || self.rows.iter().filter(|row| row.variant.mode.interleaves());
        let batches = distinct(interleaved().map(|row| row.variant.batch.to_string())).len() > 1;
        let refills = distinct(interleaved().map(refill)).len() > 1;
        let hints = distinct(interleaved().map(|row| row.variant.hints.name().to_owned())).len() > 1;
        move |row| {
            let mut name = name(row);
            if row.variant.mode.interleaves() {
                name += &if batches { format!(" {}", row.variant.batch) } else { String::new() };
                name += &if refills { format!(" {}", refill(row)) } else { String::new() };
                name += &if hints { format!(", hints {}", row.variant.hints.name()) } else { String::new() };
            }
            name
        }
    }
}

const BATCH: &str = "transactions open at once (batch)";
const WORKERS: &str = "workers";

/// Returns the value of an axis or parameter, or an empty text if there is none.
fn axis_value(row: &Row, axis: &str) -> String {
    match axis {
        BATCH => row.variant.batch.to_string(),
        WORKERS => row.variant.workers.to_string(),
        _ => row.parameters.iter().find(|p| p.0 == axis).map(shown).unwrap_or_default(),
    }
}

/// Returns the function that names a series by those of mode, scheme, durability, index and front that vary. If none
/// varies, the mode is the name.
fn means(rows: &[&Row]) -> impl Fn(&Row) -> String + use<> {
    const MEANS: [fn(&Row) -> &'static str; 5] = [
        |row| row.variant.mode.name(),
        |row| row.variant.cc.name(),
        |row| row.variant.durability.name(),
        |row| row.variant.index.name(),
        |row| row.variant.front.name(),
    ];
    let varies = |of: &fn(&Row) -> &'static str| rows.iter().any(|row| of(row) != of(rows[0]));
    let mut varied: Vec<_> = MEANS.into_iter().filter(varies).collect();
    if varied.is_empty() {
        varied.push(MEANS[0]);
    }
    move |row| varied.iter().map(|of| of(row)).collect::<Vec<_>>().join(", ")
}

/// Returns what a note says about the index and the front of a database's tables, unless they are the defaults.
fn of_index(kind: &DatabaseKind) -> String {
    let (index, front) = (kind.index.name(), kind.front.name());
    let index = if kind.index == IndexKind::default() { String::new() } else { format!(", index {index}") };
    if kind.front == Front::None { index } else { format!("{index}, front {front}") }
}

fn refill(row: &Row) -> String {
    format!("{:?}", row.variant.refill).to_lowercase()
}

/// Formats the value of a parameter for readers.
fn shown((name, value): &Parameter) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if *name == "size" => size(bytes),
            Some(number) => short(number),
            None => number.as_f64().map_or_else(|| number.to_string(), |real| real.to_string()),
        },
        other => other.to_string(),
    }
}

/// Formats a parameter with its name, unless the value alone is clear.
fn named(parameter: &Parameter) -> String {
    let value = shown(parameter);
    let speaks = parameter.1.is_string() || parameter.0 == "size";
    if speaks { value } else { format!("{} {value}", parameter.0) }
}

/// A column: its name, whether it is numeric, and the text of a cell.
type Column = (&'static str, bool, fn(&Outcome, &Row) -> String);

const COLUMNS: &[Column] = &[
    ("workers", true, |_, row| row.variant.workers.to_string()),
    ("cc", false, |_, row| row.variant.cc.name().to_owned()),
    ("durability", false, |_, row| row.variant.durability.name().to_owned()),
    ("index", false, |_, row| row.variant.index.name().to_owned()),
    ("front", false, |_, row| row.variant.front.name().to_owned()),
    ("mode", false, |_, row| row.variant.mode.name().to_owned()),
    ("batch", true, |_, row| row.variant.batch.to_string()),
    ("refill", false, |_, row| refill(row)),
    ("hints", false, |_, row| row.variant.hints.name().to_owned()),
    ("kind", false, |_, row| row.kind.to_owned()),
    ("k txn/s", true, |_, row| figure(row, row.transactions_per_s / 1e3, 1)),
    ("M op/s", true, |_, row| {
        row.operations_per_s().map_or("-".to_owned(), |per_s| figure(row, per_s / 1e6, 2))
    }),
    ("ratio", true, |all, row| all.ratio(row).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
    ("spread", true, |_, row| figure(row, row.spread * 100.0, 1) + if row.measured { " %" } else { "" }),
    ("mean us", true, |_, row| figure(row, row.mean_us, 1)),
    ("p50 us", true, |_, row| figure(row, row.p50_us, 1)),
    ("p99 us", true, |_, row| figure(row, row.p99_us, 1)),
    ("aborts/commit", true, |_, row| match row.aborts_per_commit {
        0.0 => figure(row, 0.0, 0),
        aborts => format!("{aborts:.4}"),
    }),
    ("rolled back", true, |_, row| match row.rolled_back {
        0 => "0".to_owned(),
        some => format!("{:.2} %", some as f64 / row.transactions as f64 * 100.0),
    }),
    ("given up", true, |_, row| row.given_up.to_string()),
    ("group", true, |_, row| figure(row, row.group_records, 1)),
    ("flush us", true, |_, row| figure(row, row.flush_us, 1)),
];

fn figure(row: &Row, value: f64, digits: usize) -> String {
    if row.measured { format!("{value:.digits$}") } else { "-".to_owned() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::args::HintsKind;
    use super::super::plan::{Plan, Variant};
    use super::*;
    use crate::args::{DurabilityKind, Mode, RefillKind};
    use crate::scheme::SchemeKind;
    use std::time::Duration;

    /// Makes results with invented figures: in each workload, each mode is twice as fast as the previous one.
    pub(crate) fn example(workloads: &[&str], modes: &[Mode], batches: &[usize]) -> Outcome {
        let plan = Plan {
            variants: vec![],
            repeats: 3,
            slice: Duration::from_secs(1),
            transactions_max: u64::MAX,
            directory: std::env::temp_dir(),
            seed: 1,
            checkpoints: false,
            breakdown: false,
        };
        let mut outcome = Outcome::new("ycsb", &plan);
        for workload in workloads {
            let mut speed = 100_000.0;
            for &mode in modes {
                for &batch in batches {
                    let parameters = vec![
                        ("workload", (*workload).into()),
                        ("records", 10_000_000.into()),
                        ("theta", 0.0.into()),
                    ];
                    let variant = Variant {
                        workers: 1,
                        cc: SchemeKind::Serializable.into(),
                        durability: DurabilityKind::Memory,
                        index: IndexKind::default(),
                        front: Front::None,
                        mode,
                        batch,
                        refill: RefillKind::Immediate,
                        hints: HintsKind::Off,
                    };
                    outcome.rows.push(Row {
                        measured: true,
                        operations: Some(10),
                        transactions_per_s: speed,
                        slices_per_s: vec![speed; 3],
                        spread: 0.02,
                        bytes_per_record: Some(48.0),
                        ..Row::unmeasured(&parameters, &variant, "transaction")
                    });
                    speed *= 2.0;
                }
            }
        }
        outcome
    }

    #[test]
    fn json_has_the_fields_that_readers_rely_on() {
        // Proves the names of the JSON file's fields, which other programs read.
        let json: Value =
            serde_json::from_str(&example(&["r10"], &[Mode::Naive, Mode::AmacMk], &[48]).json()).unwrap();
        assert!(json["environment"]["command"].is_string());
        let row = json["rows"][1].as_object().unwrap();
        let numbers = "workers batch records theta transactions_per_s operations_per_s spread p50_us p99_us \
                       aborts_per_commit bytes_per_record group_records flush_us reads seed";
        for field in numbers.split_whitespace() {
            assert!(row[field].is_number(), "{field}");
        }
        assert_eq!((&row["workload"], &row["mode"]), (&"r10".into(), &"amac-mk".into()));
        assert_eq!((&row["cc"], &row["refill"]), (&"serializable".into(), &"immediate".into()));
    }

    #[test]
    fn ratios_are_to_the_first_mode_of_the_group() {
        // Proves that rows are compared only within their group, and that unmeasured rows have no figures.
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
        // Proves that the page has a line for each variant, and separates groups of lines.
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
    fn a_sweep_makes_lines_and_a_comparison_bars() {
        // Proves which chart is chosen, and that it contains axes, units and legend.
        let check = |outcome: &Outcome, axis: Option<&str>| {
            let rows: Vec<&Row> = outcome.rows.iter().collect();
            assert_eq!(outcome.sweep(&rows).as_deref(), axis);
            let svg = outcome.throughput().unwrap();
            for part in ["thousand transactions per second", "interleaved", "naive", "</svg>"] {
                assert!(svg.contains(part), "{part}");
            }
        };
        let modes = [Mode::Naive, Mode::Interleaved];
        check(&example(&["r10"], &modes, &[8, 16, 32]), Some(BATCH));
        check(&example(&["r10", "m"], &modes, &[48]), None);
        let mut sizes = example(&["r10"], &modes, &[48]);
        for records in [1_000, 10_000] {
            let more = example(&["r10"], &modes, &[48]).rows.into_iter();
            sizes.rows.extend(more.map(|row| Row {
                parameters: vec![
                    ("workload", "r10".into()),
                    ("records", records.into()),
                    ("theta", 0.0.into()),
                ],
                ..row
            }));
        }
        check(&sizes, Some("records"));
        sizes.rows[0].variant.workers = 2;
        check(&sizes, None);
    }

    #[test]
    fn schemes_side_by_side_are_told_apart() {
        // Proves that variants that differ only in the scheme become separate series, named after the scheme.
        let mut outcome = example(&["r10", "m"], &[Mode::Interleaved, Mode::Interleaved], &[48]);
        for (i, row) in outcome.rows.iter_mut().enumerate() {
            row.variant.cc = [SchemeKind::Snapshot, SchemeKind::Serializable][i % 2].into();
        }
        let rows: Vec<&Row> = outcome.rows.iter().collect();
        let data = outcome.bars(&rows, |row| row.transactions_per_s.into());
        let names: Vec<&str> = data.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["snapshot", "serializable"]);
        assert!(data.series.iter().all(|(_, values)| values.iter().all(Option::is_some)));
    }
}
