//! Runs command lines given as text, without showing their results.

use crate::command::BenchCommand;
use crate::suite::outcome::{Outcome, TOTAL};
use crate::workloads::{micro, smallbank, tpcb, tpcc, ycsb};
use crate::{Failure, Result};
use clap::{FromArgMatches, Subcommand};
use serde_json::{Map, Value};

/// Parses a command line that begins with `bench`.
pub(crate) fn parsed(line: &str) -> Result<BenchCommand> {
    let words = line.split_whitespace();
    let command = BenchCommand::augment_subcommands(clap::Command::new("bench"));
    let found = command.try_get_matches_from(words).and_then(|found| BenchCommand::from_arg_matches(&found));
    found.map_err(|error| Failure::new(format!("the command line {line:?} is wrong: {error}")))
}

/// Runs a parsed command line, and returns its results.
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

/// A row of results, with the field names of the JSON files.
#[derive(Clone, Debug)]
pub(crate) struct Point(Map<String, Value>);

impl Point {
    /// Returns a field as readable text, or an empty text if the field is missing.
    pub(crate) fn text(&self, field: &str) -> String {
        match self.0.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Returns a numeric field, or 0 if it is missing.
    pub(crate) fn number(&self, field: &str) -> f64 {
        self.0.get(field).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Returns a field that is a list of numbers, or an empty list if it is missing.
    pub(crate) fn numbers(&self, field: &str) -> Vec<f64> {
        let list = self.0.get(field).and_then(Value::as_array);
        list.map_or(Vec::new(), |list| list.iter().filter_map(Value::as_f64).collect())
    }

    /// Returns true if the row has the parameter `write` and it is true.
    pub(crate) fn writes(&self) -> bool {
        self.0.get("write").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the shares of the workers' time by activity, if they were measured.
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

/// Returns the rows that cover whole variants.
pub(crate) fn points(outcome: &Outcome) -> Vec<Point> {
    let rows = list(&outcome.json(), "rows");
    let has_total = rows.iter().any(|row| row["kind"] == TOTAL);
    let is_whole = |row: &Map<String, Value>| !has_total || row["kind"] == TOTAL;
    rows.into_iter().filter(is_whole).map(Point).collect()
}

/// Returns the objects of a list in JSON that this program has written.
pub(crate) fn list(json: &str, name: &str) -> Vec<Map<String, Value>> {
    let mut all: Value = serde_json::from_str(json).expect("results are valid JSON");
    let objects = all[name].as_array_mut().map(std::mem::take).unwrap_or_default();
    objects
        .into_iter()
        .filter_map(|one| if let Value::Object(fields) = one { Some(fields) } else { None })
        .collect()
}
