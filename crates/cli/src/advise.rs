//! `braid advise`: recommends which fields of a table's rows to put into one column of a projection.

mod groups;
mod workload;

use crate::database::open::Failure;
use braid_bench::text::grouped;
use clap::Args;
use groups::{Advice, Group, LINE_BYTES};
use serde_json::json;
use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use workload::{FILE_BYTES_MAX, Workload};

const FORM: &str = r#"The file is JSON: the number of rows of the table, the bytes of each field, and the recorded queries.

  {"rows": 10000000,
   "fields": {"id": 8, "price": 8, "note": 24},
   "queries": [{"reads": ["price"], "weight": 5},
               {"reads": ["id", "price", "note"], "share": 0.01}]}

`reads` lists the fields that a query reads. `share` is the share of the rows that it reads, spread over the table
(default 1, all rows). `weight` says how often the query runs (default 1).
A query with a condition counts as two queries: one reads the condition's fields of all rows, the other reads the
remaining fields of a share of the rows.

The cost is the number of 64-byte cache lines that queries read: all lines of a column if all rows are read, otherwise
the lines that probably contain the selected rows. docs/design/projections.md describes the model."#;

/// Arguments of `braid advise`.
#[derive(Args, Debug)]
#[command(after_long_help = FORM)]
pub struct AdviseArgs {
    /// A JSON file with the fields and queries (`--help` shows the format); `-` reads the standard input
    file: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The maximum number of columns of a projection that is a tuple.
const COLUMNS_MAX: usize = 12;

/// Runs `braid advise`.
pub fn advise(args: &AdviseArgs) -> Result<(), Failure> {
    let name = args.file.display();
    let json = read(&args.file).map_err(|error| format!("{name}: {error}"))?;
    let workload = Workload::read(&json).map_err(|error| format!("{name}: {error}"))?;
    let answer = Answer::new(&workload);
    let to = &mut io::stdout().lock();
    match args.json {
        true => Ok(writeln!(to, "{}", answer.json())?),
        false => Ok(to.write_all(answer.text().as_bytes())?),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let from: Box<dyn Read> =
        if file.as_os_str() == "-" { Box::new(io::stdin().lock()) } else { Box::new(File::open(file)?) };
    let mut json = Vec::new();
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut json)?;
    match json.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("the file has more than {FILE_BYTES_MAX} bytes: record fewer queries").into()),
        false => Ok(json),
    }
}

/// A workload, the advice for it, and the two layouts that need no advice.
struct Answer<'w> {
    workload: &'w Workload,
    advice: Advice,
    /// Whole rows, a column for each field, and the advised layout.
    layouts: [(&'static str, Vec<Group>); 3],
}

impl<'w> Answer<'w> {
    fn new(workload: &'w Workload) -> Self {
        let (advice, fields) = (groups::advise(workload), 0..workload.fields.len());
        let layouts = [
            ("nsm", vec![fields.clone().collect()]),
            ("dsm", fields.map(|field| vec![field]).collect()),
            ("advised", advice.groups.clone()),
        ];
        Answer { workload, advice, layouts }
    }

    /// The misses of each query in each layout.
    fn misses(&self) -> Vec<[f64; 3]> {
        let of =
            |query| self.layouts.each_ref().map(|(_, groups)| groups::misses(self.workload, query, groups));
        self.workload.queries.iter().map(of).collect()
    }

    fn totals(&self) -> [f64; 3] {
        self.layouts.each_ref().map(|(_, groups)| groups::cost(self.workload, groups))
    }

    fn names(&self, fields: &[usize]) -> Vec<&'w str> {
        fields.iter().map(|&field| &*self.workload.fields[field].name).collect()
    }

    /// The type of the projection's columns: a tuple of the groups.
    fn columns(&self) -> String {
        let columns: Vec<String> = self.advice.groups.iter().map(|group| self.column(group)).collect();
        tuple(&columns)
    }

    fn column(&self, group: &Group) -> String {
        let names = self.names(group);
        if names.len() == 1 { names[0].to_owned() } else { tuple(&names) }
    }

    fn json(&self) -> serde_json::Value {
        let by_layout =
            |misses: [f64; 3]| json!({ "nsm": misses[0], "dsm": misses[1], "advised": misses[2] });
        let group = |group: &Group| json!({ "fields": self.names(group), "bytes": groups::bytes(self.workload, group) });
        let queries = self.workload.queries.iter().zip(self.misses()).map(|(query, misses)| {
            let reads = self.names(&self.workload.read_by(query));
            json!({ "reads": reads, "share": query.share, "weight": query.weight, "misses": by_layout(misses) })
        });
        json!({
            "rows": self.workload.rows, "line_bytes": LINE_BYTES,
            "queries": queries.collect::<Vec<_>>(), "misses": by_layout(self.totals()),
            "groups": self.advice.groups.iter().map(group).collect::<Vec<_>>(),
            "unread": self.names(&self.advice.unread),
            "columns": self.columns(), "is_best": self.advice.is_best,
        })
    }

    fn text(&self) -> String {
        let mut text = self.table();
        text += "\ncolumn  bytes  fields\n";
        for (at, group) in self.advice.groups.iter().enumerate() {
            let (bytes, names) = (groups::bytes(self.workload, group), self.names(group).join(", "));
            text += &format!("{:>6}  {bytes:>5}  {names}\n", at + 1);
        }
        if !self.advice.unread.is_empty() {
            let (bytes, names) =
                (groups::bytes(self.workload, &self.advice.unread), self.names(&self.advice.unread));
            text += &format!("     -  {bytes:>5}  {} (read by no query: leave them out)\n", names.join(", "));
        }
        text + "\n" + &self.declaration()
    }

    /// A line for each query, and a line for the total.
    fn table(&self) -> String {
        let line = |cells: [&str; 3], [nsm, dsm, advised]: [String; 3], reads: &str| {
            let [first, share, weight] = cells;
            format!("{first:>5}  {share:>8}  {weight:>8}  {nsm:>16}  {dsm:>16}  {advised:>16}  {reads}")
        };
        let heads = ["whole rows (NSM)", "each field (DSM)", "advised"].map(String::from);
        let mut lines = vec![line(["query", "share", "weight"], heads, "reads")];
        for (at, (query, misses)) in self.workload.queries.iter().zip(self.misses()).enumerate() {
            let cells = [(at + 1).to_string(), short(query.share), short(query.weight)];
            let reads = self.names(&self.workload.read_by(query)).join(", ");
            lines.push(line(cells.each_ref().map(String::as_str), misses.map(number), &reads));
        }
        lines.push(line(["all", "", ""], self.totals().map(number), "").trim_end().to_owned());
        let what = "Cache lines read: by each run of a query, and by all queries with their weights.";
        format!("{what}\n\n{}\n", lines.join("\n"))
    }

    /// The declaration to write in a program.
    fn declaration(&self) -> String {
        let mut text = format!(
            "Declare the projection with these columns; each group is a tuple or a struct:\n\n    {}\n",
            self.columns()
        );
        if self.advice.groups.len() > COLUMNS_MAX {
            text += "\nA tuple has at most twelve columns: use an array for columns of one type, or divide the columns among projections.\n";
        }
        if !self.advice.is_best {
            text += "\nToo many fields have different readers to try every partition: there may be a better one.\n";
        }
        text
    }
}

fn tuple<S: Borrow<str>>(elements: &[S]) -> String {
    let comma = if elements.len() == 1 { "," } else { "" };
    format!("({}{comma})", elements.join(", "))
}

/// Formats a share or a weight in at most eight characters.
fn short(number: f64) -> String {
    let text = number.to_string();
    if text.len() > 8 { format!("{number:.1e}") } else { text }
}

/// Formats a number of lines compactly.
fn number(lines: f64) -> String {
    match lines {
        ..100.0 => format!("{lines:.2}"),
        ..1e12 => grouped(lines.round() as u64),
        _ => format!("{lines:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"rows": 10000000, "fields": {"id": 8, "price": 8, "note": 24, "old": 1},
        "queries": [{"reads": ["price"], "weight": 5}, {"reads": ["id", "price", "note"], "share": 0.01}]}"#;

    fn answer(json: &str, f: impl Fn(Answer)) {
        f(Answer::new(&Workload::read(json.as_bytes()).unwrap()));
    }

    /// Text and JSON say the same of each query: all layouts, their sums, the groups, the unread fields and the type to
    /// declare.
    #[test]
    fn an_answer_is_text_or_json() {
        answer(EXAMPLE, |answer| {
            let text = answer.text();
            let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>().join(" ");
            let lines: Vec<String> = text.lines().map(words).collect();
            assert_eq!(lines[3], "1 1 5 6,406,250 1,250,000 1,250,000 price", "{text}");
            assert!(lines.contains(&"1 32 id, note".into()) && lines.contains(&"2 8 price".into()), "{text}");
            assert!(text.contains("old (read by no query: leave them out)"), "{text}");
            assert!(text.ends_with("\n    ((id, note), price)\n"), "{text}");
            let json = answer.json();
            assert_eq!(json["queries"][0]["misses"]["nsm"], 6_406_250.0);
            assert_eq!(
                (&json["columns"], &json["unread"][0]),
                (&json!("((id, note), price)"), &json!("old"))
            );
            assert_eq!((&json["groups"][0]["bytes"], &json["is_best"]), (&json!(32), &json!(true)));
            let [_, dsm, advised] = answer.totals();
            assert!(advised < dsm && json["misses"]["advised"] == advised);
        });
    }

    /// The example that `--help` shows can be read, and means what the text below it says.
    #[test]
    fn the_example_is_right() {
        let (from, to) = (FORM.find('{').unwrap(), FORM.rfind('}').unwrap());
        answer(&FORM[from..=to], |answer| assert_eq!(answer.columns(), "((id, note), price)"));
    }

    /// One-element tuples have their comma. The answer mentions more columns than a tuple can have, and an incomplete
    /// search.
    #[test]
    fn what_can_be_declared_is_said() {
        let fields: Vec<String> = (0..15).map(|at| format!(r#""f{at}": 8"#)).collect();
        let queries: Vec<String> = (0..15).map(|at| format!(r#"{{"reads": ["f{at}"]}}"#)).collect();
        let json = format!(
            r#"{{"rows": 9, "fields": {{{}}}, "queries": [{}]}}"#,
            fields.join(","),
            queries.join(",")
        );
        answer(&json, |answer| {
            let text = answer.text();
            assert!(
                text.contains("at most twelve columns") && text.contains("there may be a better one"),
                "{text}"
            );
        });
        let one = r#"{"rows": 1, "fields": {"a": 1, "b": 1}, "queries": [{"reads": ["a", "b"]}]}"#;
        answer(one, |answer| assert_eq!(answer.columns(), "((a, b),)"));
        assert_eq!([1.0, 0.01, 1e-300, 1.0 / 3.0].map(short), ["1", "0.01", "1.0e-300", "3.3e-1"]);
        assert_eq!([1.5, 99_999.6, 1.5e15].map(number), ["1.50", "100,000", "1.500e15"]);
    }

    /// The command's error names a missing file.
    #[test]
    fn a_missing_file_is_named() {
        let args = AdviseArgs { file: "no/such.json".into(), json: false };
        let error = advise(&args).unwrap_err().to_string();
        assert!(error.starts_with("no/such.json: "), "{error}");
    }
}
