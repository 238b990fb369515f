//! The input of the advice: a table's rows, the bytes of their fields, and the recorded queries, read from JSON and
//! checked.

use crate::database::open::Failure;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The maximum size of an input file in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// With these limits, sums of bytes fit into 64 bits, and costs are finite.
const FIELDS_MAX: usize = 256;
const QUERIES_MAX: usize = 1024;
const FIELD_BYTES_MAX: u64 = 1 << 30;
const ROWS_MAX: u64 = 1_000_000_000_000_000;
const WEIGHT_MAX: f64 = 1e15;

/// A table and its queries. There is at least one field and at least one query, and each query reads a field.
pub struct Workload {
    pub rows: u64,
    pub fields: Vec<Field>,
    pub queries: Vec<Query>,
}

/// A field of a row.
pub struct Field {
    pub name: String,
    /// `bytes >= 1`.
    pub bytes: u64,
}

/// A recorded query.
pub struct Query {
    /// For each field, whether the query reads it.
    pub reads: Vec<bool>,
    /// The share of the rows that the query reads: `0 < share <= 1`.
    pub share: f64,
    /// How often the query runs: `weight > 0`.
    pub weight: f64,
}

impl Workload {
    /// The numbers of the fields that a query reads.
    pub fn read_by(&self, query: &Query) -> Vec<usize> {
        (0..self.fields.len()).filter(|&field| query.reads[field]).collect()
    }

    /// Reads and checks JSON. Errors name the field, or the number of the query, counted from 1.
    pub fn read(json: &[u8]) -> Result<Workload, Failure> {
        let file: File = serde_json::from_slice(json)
            .map_err(|error| format!("{error}; `braid advise --help` shows the format"))?;
        check_number("`rows`", file.rows, ROWS_MAX)?;
        check_count("fields", file.fields.0.len(), FIELDS_MAX)?;
        check_count("queries", file.queries.len(), QUERIES_MAX)?;
        file.fields.0.iter().try_for_each(check_field)?;
        let query = |(at, query)| {
            Query::new(query, &file.fields.0).map_err(|error| format!("query {}: {error}", at + 1))
        };
        let queries = file.queries.into_iter().enumerate().map(query).collect::<Result<_, _>>()?;
        Ok(Workload { rows: file.rows, fields: file.fields.0, queries })
    }
}

impl Query {
    fn new(from: FileQuery, fields: &[Field]) -> Result<Query, String> {
        let FileQuery { reads: names, share, weight } = from;
        let mut reads = vec![false; fields.len()];
        for name in &names {
            let found = fields.iter().position(|field| field.name == *name);
            let at = found.ok_or_else(|| {
                format!("the field {name:?} in `reads` is not in `fields`: add it there, or correct the name")
            })?;
            reads[at] = true;
        }
        if names.is_empty() {
            return Err("`reads` is empty: list the fields that the query reads, or remove the query".into());
        }
        if !(share > 0.0 && share <= 1.0) {
            return Err(format!("`share` is {share:?}, but must be greater than 0 and at most 1 (all rows)"));
        }
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            return Err(format!(
                "`weight` is {weight:?}, but must be greater than 0 and at most {WEIGHT_MAX:e}: remove a query that does not run"
            ));
        }
        Ok(Query { reads, share, weight })
    }
}

fn check_number(what: &str, number: u64, max: u64) -> Result<(), String> {
    match (1..=max).contains(&number) {
        true => Ok(()),
        false => Err(format!("{what} is {number}, but must be from 1 to {max}")),
    }
}

fn check_count(what: &str, count: usize, max: usize) -> Result<(), String> {
    match count {
        0 => Err(format!("`{what}` is empty: at least one is required")),
        _ if count > max => Err(format!(
            "`{what}` has {count} entries, and the limit is {max}: remove the least important ones"
        )),
        _ => Ok(()),
    }
}

fn check_field(field: &Field) -> Result<(), String> {
    let Field { name, bytes } = field;
    if name.is_empty() || name.contains(char::is_control) {
        return Err(format!("the field {name:?} must have a printable, non-empty name"));
    }
    check_number(&format!("the size of the field {name:?} in bytes"), *bytes, FIELD_BYTES_MAX)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `rows`, `fields` and `queries`")]
struct File {
    rows: u64,
    fields: Fields,
    queries: Vec<FileQuery>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `reads`, `share` and `weight`")]
struct FileQuery {
    reads: Vec<String>,
    #[serde(default = "one")]
    share: f64,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

/// The fields in the order of the file. A map would lose this order, and would hide duplicate names.
struct Fields(Vec<Field>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the bytes of each field")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields: Vec<Field> = Vec::new();
        // One more field than the limit is enough for the error.
        while fields.len() <= FIELDS_MAX {
            let Some((name, bytes)) = map.next_entry::<String, u64>()? else { return Ok(Fields(fields)) };
            if fields.iter().any(|field| field.name == name) {
                return Err(A::Error::custom(format!("the field {name:?} is defined twice")));
            }
            fields.push(Field { name, bytes });
        }
        Err(A::Error::custom(format!("there are more than {FIELDS_MAX} fields")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that a query leaves out are 1, a name that occurs twice counts once, and fields keep their order.
    #[test]
    fn a_file_is_read() {
        let json = br#"{"queries": [{"reads": ["b", "b"]}], "fields": {"b": 8, "a": 1}, "rows": 7}"#;
        let workload = Workload::read(json).unwrap();
        let names: Vec<_> = workload.fields.iter().map(|field| (&*field.name, field.bytes)).collect();
        assert_eq!((workload.rows, names), (7, vec![("b", 8), ("a", 1)]));
        let query = &workload.queries[0];
        assert_eq!((&*query.reads, query.share, query.weight), (&[true, false][..], 1.0, 1.0));
        assert_eq!(workload.read_by(query), [0]);
    }

    /// Each error says what is wrong, where, and what is right.
    #[test]
    fn errors_say_what_to_do() {
        let of = |fields: &str, query: &str| {
            format!(r#"{{"rows": 1, "fields": {{{fields}}}, "queries": [{query}]}}"#)
        };
        let ok = r#"{"reads": ["a"]}"#;
        let many: Vec<String> = (0..300).map(|n| format!(r#""f{n}": 1"#)).collect();
        let cases = [
            ("rows: 7".into(), "expected value at line 1 column 1; `braid advise --help` shows the format"),
            (String::new(), "EOF while parsing"),
            (
                "7".into(),
                "invalid type: integer `7`, expected an object with `rows`, `fields` and `queries` at line 1",
            ),
            (r#"{"rows": 1, "fields": {"a": 8}}"#.into(), "missing field `queries`"),
            (of(r#""a": 8"#, ok).replace("rows", "row"), "unknown field `row`"),
            (of(r#""a": 8"#, ok).replace(": 1", ": 0"), "`rows` is 0, but must be from 1 to"),
            (
                of(r#""a": 8"#, ok).replace(": 1", ": 18446744073709551615"),
                "`rows` is 18446744073709551615, but must",
            ),
            (of(r#""a": 8"#, ok).replace(": 1", ": 1e400"), "number out of range at line 1"),
            (of("", ok), "`fields` is empty: at least one is required"),
            (of(r#""a": 8"#, ""), "`queries` is empty: at least one is required"),
            (of(r#""a": 8"#, &vec![ok; 1025].join(",")), "`queries` has 1025 entries, and the limit is 1024"),
            (of(&many.join(","), ok), "there are more than 256 fields"),
            (of(r#""a": 8, "a": 8"#, ok), r#"the field "a" is defined twice at line 1"#),
            (of(r#""a": 8, "": 8"#, ok), r#"the field "" must have a printable, non-empty name"#),
            (of(r#""a": 8, "\n": 8"#, ok), r#"the field "\n" must have a printable"#),
            (
                of(r#""a": 0"#, ok),
                r#"the size of the field "a" in bytes is 0, but must be from 1 to 1073741824"#,
            ),
            (of(r#""a": 4294967296"#, ok), r#"the size of the field "a" in bytes is 4294967296, but must"#),
            (of(r#""a": -8"#, ok), "invalid value: integer `-8`"),
            (
                of(r#""a": 8"#, &format!(r#"{ok}, {{"reads": ["z"]}}"#)),
                r#"query 2: the field "z" in `reads` is not in `fields`: add it"#,
            ),
            (of(r#""a": 8"#, r#"{"reads": []}"#), "query 1: `reads` is empty: list the fields"),
            (
                of(r#""a": 8"#, r#"{"reads": ["a"], "share": 0}"#),
                "query 1: `share` is 0.0, but must be greater than 0 and at most 1",
            ),
            (of(r#""a": 8"#, r#"{"reads": ["a"], "share": 1.5}"#), "query 1: `share` is 1.5, but must"),
            (
                of(r#""a": 8"#, r#"{"reads": ["a"], "weight": -1}"#),
                "query 1: `weight` is -1.0, but must be greater than 0",
            ),
            (of(r#""a": 8"#, r#"{"reads": ["a"], "weight": 1e300}"#), "query 1: `weight` is 1e300, but must"),
            (of(r#""a": 8"#, r#"{"reads": ["a"], "weight": NaN}"#), "expected value at line 1"),
            ("[".repeat(100_000), "invalid type"),
        ];
        for (json, expected) in cases {
            let error = Workload::read(json.as_bytes()).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} is not {expected:?}");
        }
        assert!(Workload::read(&[0xff, 0xfe]).is_err());
    }
}
