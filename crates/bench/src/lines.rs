//! Command lines as text, run without showing what came of them.

use crate::command::BenchCommand;
use crate::suite::outcome::{Outcome, TOTAL};
use crate::workloads::{micro, smallbank, tpcb, tpcc, ycsb};
use crate::{Failure, Result};
use clap::{FromArgMatches, Subcommand};
use serde_json::{Map, Value};

/// A command line that begins with `bench`.
pub(crate) fn parsed(line: &str) -> Result<BenchCommand> {
    let words = line.split_whitespace();
    let command = BenchCommand::augment_subcommands(clap::Command::new("bench"));
    let found = command.try_get_matches_from(words).and_then(|found| BenchCommand::from_arg_matches(&found));
    found.map_err(|error| Failure::new(format!("the command line {line:?} is wrong: {error}")))
}

/// Runs what a parsed command line asks for.
pub(crate) fn measured(command: &BenchCommand) -> Result<Outcome> {
    match command {
        BenchCommand::Ycsb(args) => ycsb::run(&ycsb::YcsbPlan::new(args)?),
        BenchCommand::Tpcb(args) => tpcb::run(args),
        BenchCommand::Smallbank(args) => smallbank::run(args),
        BenchCommand::Micro(args) => micro::run(args),
        BenchCommand::Tpcc(args) => tpcc::run(args),
        _ => Err(Failure::new("only workloads are run by such command lines")),
    }
}

/// A row of results, under the names of the JSON files.
#[derive(Clone, Debug)]
pub(crate) struct Point(Map<String, Value>);

impl Point {
    /// A field for people; empty where there is none.
    pub(crate) fn text(&self, field: &str) -> String {
        match self.0.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// A field that is a number; 0 where there is none.
    pub(crate) fn number(&self, field: &str) -> f64 {
        self.0.get(field).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// A field that is a list of numbers; empty where there is none.
    pub(crate) fn numbers(&self, field: &str) -> Vec<f64> {
        let list = self.0.get(field).and_then(Value::as_array);
        list.map_or(Vec::new(), |list| list.iter().filter_map(Value::as_f64).collect())
    }

    /// Whether its transactions write, where that is a parameter.
    pub(crate) fn writes(&self) -> bool {
        self.0.get("write").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Shares of the workers' time by activity, if they were asked for.
    pub(crate) fn shares(&self) -> Vec<(String, f64)> {
        let shares = self.0.get("breakdown").and_then(|breakdown| breakdown["shares"].as_object());
        let share = |(name, share): (&String, &Value)| (name.clone(), share.as_f64().unwrap_or(0.0));
        shares.map_or(Vec::new(), |shares| shares.iter().map(share).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(value: Value) -> Point {
        let Value::Object(fields) = value else { panic!("a row is an object") };
        Point(fields)
    }
}

/// The rows of whole variants.
pub(crate) fn points(outcome: &Outcome) -> Vec<Point> {
    let rows = list(&outcome.json(), "rows");
    let has_total = rows.iter().any(|row| row["kind"] == TOTAL);
    let is_whole = |row: &Map<String, Value>| !has_total || row["kind"] == TOTAL;
    rows.into_iter().filter(is_whole).map(Point).collect()
}

/// The objects of a list in JSON that this program has written.
pub(crate) fn list(json: &str, name: &str) -> Vec<Map<String, Value>> {
    let mut all: Value = serde_json::from_str(json).expect("results are valid JSON");
    let objects = all[name].as_array_mut().map(std::mem::take).unwrap_or_default();
    objects
        .into_iter()
        .filter_map(|one| if let Value::Object(fields) = one { Some(fields) } else { None })
        .collect()
}
