//! Results of a benchmark: a row per variant and kind of transaction, also as JSON.

use super::plan::{DatabaseKind, Plan, Variant};
use super::slice::Slice;
use super::worker::Counts;
use super::{Condition, Parameters};
use crate::args::RefillKind;
use crate::engine::{Breakdown, LogStatistics};
use crate::machine::median;
use crate::report::breakdown;
use crate::report::environment::Environment;
use crate::report::hardware::Events;
use serde::Serialize;
use serde_json::{Map, Value};

/// The name of the row that covers all kinds.
pub(crate) const TOTAL: &str = "total";

/// The results of one load of tables.
pub(crate) struct Part {
    pub(crate) rows: Vec<Row>,
    pub(crate) databases: Vec<DatabaseLine>,
}

/// A database in which variants ran.
pub(crate) struct DatabaseLine {
    pub(crate) kind: DatabaseKind,
    /// Parameters that all of its suites share.
    pub(crate) parameters: Parameters,
    /// Memory of the engine after the tables were loaded.
    pub(crate) memory_before_bytes: u64,
    /// Memory of the engine after the last repeat.
    pub(crate) memory_after_bytes: u64,
    /// The conditions as found after the last repeat. All of them held after every repeat.
    pub(crate) conditions: Vec<Condition>,
}

/// The parameters and kinds of a suite.
pub(crate) struct Work<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) kinds: &'static [&'static str],
    pub(crate) operations: Option<usize>,
    pub(crate) sample_every: u32,
}

/// The results of one kind of transaction in one variant, or of all kinds together: medians over the slices.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) parameters: Parameters,
    pub(crate) variant: Variant,
    /// False if the mode does not support this workload. The row then has no figures.
    pub(crate) measured: bool,
    /// The kind of transaction.
    pub(crate) kind: &'static str,
    /// Operations per transaction, if all have the same number.
    pub(crate) operations: Option<usize>,
    /// One transaction in this many had its latency measured.
    pub(crate) sample_every: u32,
    /// Transactions done in all slices.
    pub(crate) transactions: u64,
    /// The number of them that rolled back on purpose.
    pub(crate) rolled_back: u64,
    /// Transactions done per second, by all workers together.
    pub(crate) transactions_per_s: f64,
    /// The same for each slice, in the order of the repeats.
    pub(crate) slices_per_s: Vec<f64>,
    /// (Highest - lowest) / median of the throughputs of slices.
    pub(crate) spread: f64,
    /// Median latency of a transaction, from its start in a slot to its end, retries included. With hints, the wait for
    /// its turn is included.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) mean_us: f64,
    /// Attempts that ended with a conflict, per transaction done.
    pub(crate) aborts_per_commit: f64,
    /// Transactions of all kinds that never committed because of conflicts.
    pub(crate) given_up: u64,
    /// Memory of the engine after loading, per record, if `records` is a parameter.
    pub(crate) bytes_per_record: Option<f64>,
    /// Average number of transactions that were written and synced together; 0 without a log.
    pub(crate) group_records: f64,
    /// Average time from the start of such a write to the end of its sync.
    pub(crate) flush_us: f64,
    /// In the first row of a variant: the workers' time by activity, if it was measured.
    pub(crate) breakdown: Option<Breakdown>,
    /// The processor's counts during the variant.
    pub(crate) events: Events,
}

impl Row {
    /// Makes the rows of a variant. If there are several kinds, the total comes first.
    pub(crate) fn of(work: &Work<'_>, variant: &Variant, loaded_bytes: u64, slices: &[Slice]) -> Vec<Row> {
        let mut whole = Row::unmeasured(work.parameters, variant, "");
        (whole.operations, whole.sample_every) = (work.operations, work.sample_every);
        whole.bytes_per_record = whole.number("records").map(|records| loaded_bytes as f64 / records);
        if slices.is_empty() {
            return vec![whole];
        }
        let sum =
            |of: fn(&LogStatistics) -> u64| slices.iter().map(|slice| of(&slice.log)).sum::<u64>() as f64;
        let groups = sum(|log| log.groups).max(1.0);
        whole.group_records = sum(|log| log.records) / groups;
        whole.flush_us = sum(|log| log.flush_ns_sum) / groups / 1e3;
        whole.given_up = slices.iter().map(|slice| slice.given_up).sum();
        let all: Vec<usize> = (0..work.kinds.len()).collect();
        let mut rows = Vec::new();
        if all.len() > 1 {
            rows.push(whole.with(TOTAL, &all, slices));
        }
        rows.extend(all.iter().map(|&at| whole.with(work.kinds[at], &[at], slices)));
        let mut breakdown = Breakdown::default();
        slices.iter().for_each(|slice| breakdown.add(&slice.breakdown));
        slices.iter().for_each(|slice| rows[0].events.add(&slice.events));
        rows[0].breakdown = (breakdown.rounds() > 0).then_some(breakdown);
        rows
    }

    /// Makes a row without figures.
    pub(crate) fn unmeasured(parameters: &Parameters, variant: &Variant, kind: &'static str) -> Row {
        Row {
            parameters: parameters.clone(),
            variant: *variant,
            measured: false,
            kind,
            operations: None,
            sample_every: 1,
            transactions: 0,
            rolled_back: 0,
            transactions_per_s: 0.0,
            slices_per_s: Vec::new(),
            spread: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            mean_us: 0.0,
            aborts_per_commit: 0.0,
            given_up: 0,
            bytes_per_record: None,
            group_records: 0.0,
            flush_us: 0.0,
            breakdown: None,
            events: Events::default(),
        }
    }

    /// Returns a row of the same variant with the figures of these kinds.
    fn with(&self, kind: &'static str, of: &[usize], slices: &[Slice]) -> Row {
        let (mut counts, mut speeds) = (Counts::new(), Vec::new());
        for slice in slices {
            of.iter().for_each(|&kind| counts.add(&slice.kinds[kind]));
            speeds.push(of.iter().map(|&kind| slice.per_s[kind]).sum());
        }
        let slices_per_s = speeds.clone();
        let middle = median(&mut speeds);
        let us = |quantile| counts.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        Row {
            measured: true,
            kind,
            transactions: counts.done(),
            rolled_back: counts.rolled_back,
            transactions_per_s: middle,
            slices_per_s,
            spread: if middle > 0.0 { (speeds[speeds.len() - 1] - speeds[0]) / middle } else { 0.0 },
            p50_us: us(0.5),
            p99_us: us(0.99),
            mean_us: counts.latency_ns.mean() / 1e3,
            aborts_per_commit: counts.aborts() as f64 / counts.done().max(1) as f64,
            ..self.clone()
        }
    }

    fn parameter(&self, name: &str) -> Option<&Value> {
        self.parameters.iter().find(|parameter| parameter.0 == name).map(|parameter| &parameter.1)
    }

    /// Returns a numeric parameter.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.parameter(name)?.as_f64()
    }

    /// Returns a text parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameter(name)?.as_str()
    }

    /// Returns the operations per second, if transactions have a fixed number of operations.
    pub(crate) fn operations_per_s(&self) -> Option<f64> {
        Some(self.transactions_per_s * self.operations? as f64)
    }

    /// Returns true if both rows do the same work with the same number of workers, so that the ratio of their
    /// throughputs is meaningful.
    pub(crate) fn same_group(&self, other: &Row) -> bool {
        (&self.parameters, self.variant.workers) == (&other.parameters, other.variant.workers)
    }

    pub(crate) fn same_variant(&self, other: &Row) -> bool {
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
    pub(crate) repeats: u32,
    pub(crate) slice_s: f64,
    seed: u64,
}

/// A row of the JSON file: parameters under the names of their flags, figures with their units.
#[derive(Serialize)]
struct JsonRow<'a> {
    benchmark: &'static str,
    #[serde(flatten)]
    parameters: Map<String, Value>,
    workers: usize,
    cc: &'static str,
    durability: &'static str,
    index: &'static str,
    front: &'static str,
    mode: &'static str,
    batch: usize,
    refill: RefillKind,
    hints: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<usize>,
    seconds: f64,
    repeats: u32,
    seed: u64,
    kind: &'a str,
    transactions: u64,
    rolled_back: u64,
    given_up: u64,
    transactions_per_s: f64,
    /// Throughput of each slice, in the order of the repeats. The variants took turns within a repeat.
    slices_per_s: &'a [f64],
    #[serde(skip_serializing_if = "Option::is_none")]
    operations_per_s: Option<f64>,
    /// Throughput, divided by that of the first mode; null if the first mode did none of the kind.
    ratio: Option<f64>,
    spread: f64,
    p50_us: f64,
    p99_us: f64,
    mean_us: f64,
    aborts_per_commit: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_record: Option<f64>,
    group_records: f64,
    flush_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    breakdown: Option<Value>,
}

#[derive(Serialize)]
struct JsonDatabase<'a> {
    #[serde(flatten)]
    parameters: Map<String, Value>,
    cc: &'static str,
    durability: &'static str,
    index: &'static str,
    front: &'static str,
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
    /// Makes an outcome without rows.
    pub(crate) fn new(name: &'static str, plan: &Plan) -> Outcome {
        Outcome {
            name,
            environment: Environment::of_this_machine(),
            rows: Vec::new(),
            databases: Vec::new(),
            repeats: plan.repeats,
            slice_s: plan.slice.as_secs_f64(),
            seed: plan.seed,
        }
    }

    /// Adds the results of another load.
    pub(crate) fn extend(&mut self, part: Part) {
        self.rows.extend(part.rows);
        self.databases.extend(part.databases);
    }

    /// Returns a row's throughput, divided by that of the same kind in the first measured variant of its group.
    pub(crate) fn ratio(&self, row: &Row) -> Option<f64> {
        let is_base = |other: &&Row| other.measured && other.same_group(row) && other.kind == row.kind;
        let base = self.rows.iter().find(is_base)?;
        (row.measured && base.transactions_per_s > 0.0)
            .then(|| row.transactions_per_s / base.transactions_per_s)
    }

    /// Returns the JSON text.
    pub(crate) fn json(&self) -> String {
        let databases = self.databases.iter().map(|database| JsonDatabase {
            parameters: fields(&database.parameters),
            cc: database.kind.scheme.name(),
            durability: database.kind.durability.name(),
            index: database.kind.index.name(),
            front: database.kind.front.name(),
            memory_before_bytes: database.memory_before_bytes,
            memory_after_bytes: database.memory_after_bytes,
            conditions: &database.conditions,
        });
        let json = Json {
            environment: &self.environment,
            rows: self.rows.iter().filter(|row| row.measured).map(|row| self.json_row(row)).collect(),
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
            index: variant.index.name(),
            front: variant.front.name(),
            mode: variant.mode.name(),
            batch: variant.batch,
            refill: variant.refill,
            hints: variant.hints.name(),
            reads: row.operations,
            seconds: self.slice_s * f64::from(self.repeats),
            repeats: self.repeats,
            seed: self.seed,
            kind: row.kind,
            transactions: row.transactions,
            rolled_back: row.rolled_back,
            given_up: row.given_up,
            transactions_per_s: row.transactions_per_s,
            slices_per_s: &row.slices_per_s,
            operations_per_s: row.operations_per_s(),
            ratio: self.ratio(row),
            spread: row.spread,
            p50_us: row.p50_us,
            p99_us: row.p99_us,
            mean_us: row.mean_us,
            aborts_per_commit: row.aborts_per_commit,
            bytes_per_record: row.bytes_per_record,
            group_records: row.group_records,
            flush_us: row.flush_us,
            breakdown: row.breakdown.map(|breakdown| {
                breakdown::fields(&breakdown, &row.events, variant.workers, row.transactions_per_s)
            }),
        }
    }
}

/// Returns parameters as JSON fields. The names of the flags become identifiers.
fn fields(parameters: &Parameters) -> Map<String, Value> {
    parameters.iter().map(|(name, value)| (name.replace('-', "_"), value.clone())).collect()
}
