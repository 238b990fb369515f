//! Results as presets know them: rows, by the names that the JSON files have for their fields.

use crate::suite::outcome::{Outcome, TOTAL};
use serde_json::{Map, Value};

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

/// The rows of whole variants.
pub(super) fn points(outcome: &Outcome) -> Vec<Point> {
    let rows = list(&outcome.json(), "rows");
    let has_total = rows.iter().any(|row| row["kind"] == TOTAL);
    let is_whole = |row: &Map<String, Value>| !has_total || row["kind"] == TOTAL;
    rows.into_iter().filter(is_whole).map(Point).collect()
}

/// The objects of a list in JSON that this program has written.
pub(super) fn list(json: &str, name: &str) -> Vec<Map<String, Value>> {
    let mut all: Value = serde_json::from_str(json).expect("results are valid JSON");
    let objects = all[name].as_array_mut().map(std::mem::take).unwrap_or_default();
    objects
        .into_iter()
        .filter_map(|one| if let Value::Object(fields) = one { Some(fields) } else { None })
        .collect()
}
