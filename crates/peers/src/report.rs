//! The results of all peers: tables for readers, JSON for programs.

use crate::args::Args;
use crate::measure::{Cell, CellOrder, Found};
use crate::peer::{Class, Facts};
use braid_bench::environment::Environment;
use braid_bench::{Failure, Result, report};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// The peer's name of Braid with a batch of open transactions per thread.
const BRAID: &str = "braid";
/// The peer's name of Braid with one transaction at a time, like the other peers.
const BRAID_ONE: &str = "braid-interactive";

/// The turns of one peer.
#[derive(Clone, Debug)]
pub struct Turns {
    facts: &'static Facts,
    /// One result per repeat.
    pub found: Vec<Found>,
    /// Why there are no further results.
    pub failure: Option<String>,
}

impl Turns {
    /// Makes an empty list of turns.
    pub fn new(facts: &'static Facts) -> Self {
        Turns { facts, found: Vec::new(), failure: None }
    }
}

/// A line of the results: one peer in one workload, with medians over its turns.
#[derive(Clone, Debug, Serialize)]
struct Row {
    workload: String,
    class: &'static str,
    clients: usize,
    peer: &'static str,
    isolation: &'static str,
    transactional: bool,
    /// True if a thread keeps a batch of transactions open. False if it has one at a time.
    batches: bool,
    server: bool,
    repeats: usize,
    transactions_per_s: f64,
    spread: f64,
    p50_us: f64,
    p99_us: f64,
    retries_per_commit: f64,
    memory_bytes_per_record: f64,
    huge_share: f64,
    file_bytes_per_record: f64,
}

/// Braid compared with the best of the others in one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Comparison {
    workload: String,
    class: &'static str,
    clients: usize,
    /// Throughput with a batch of open transactions per thread.
    braid_transactions_per_s: f64,
    /// Throughput with one transaction at a time, if measured.
    braid_one_transactions_per_s: Option<f64>,
    /// The fastest peer with transactions.
    best_transactional: Option<Best>,
    /// The fastest of all peers.
    best_of_all: Option<Best>,
}

/// The best of some peers, and Braid's throughput divided by that peer's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Best {
    peer: &'static str,
    batching_ratio: f64,
    one_at_a_time_ratio: Option<f64>,
}

#[derive(Serialize)]
struct FailedPeer<'a> {
    peer: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    records: u64,
    theta: f64,
    seconds: f64,
    repeats: usize,
    rows: &'a [Row],
    comparisons: &'a [Comparison],
    failed: Vec<FailedPeer<'a>>,
}

/// The results of all peers.
#[derive(Debug)]
pub struct Outcome {
    environment: Environment,
    records: u64,
    theta: f64,
    seconds: f64,
    repeats: usize,
    rows: Vec<Row>,
    comparisons: Vec<Comparison>,
    failed: Vec<(&'static str, String)>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// (Highest - lowest) / median.
fn spread(values: &[f64]) -> f64 {
    let (low, high) = (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max));
    let middle = median(values.to_vec());
    if middle > 0.0 { (high.unwrap_or(0.0) - low.unwrap_or(0.0)) / middle } else { 0.0 }
}

fn row(turns: &Turns, number: usize, order: &CellOrder, class: Class, records: u64) -> Option<Row> {
    let cells: Vec<Cell> = turns.found.iter().filter_map(|found| *found.cells.get(number)?).collect();
    if cells.is_empty() {
        return None;
    }
    let of = |value: fn(&Cell) -> f64| median(cells.iter().map(value).collect());
    let bytes =
        |value: fn(&Found) -> u64| median(turns.found.iter().map(|found| value(found) as f64).collect());
    let throughputs: Vec<f64> = cells.iter().map(|cell| cell.transactions_per_s).collect();
    Some(Row {
        workload: order.workload.clone(),
        class: class.name(),
        clients: order.clients,
        peer: turns.facts.name,
        isolation: turns.facts.isolation,
        transactional: turns.facts.transactional,
        batches: turns.facts.multiplexes,
        server: turns.facts.server,
        repeats: cells.len(),
        transactions_per_s: of(|cell| cell.transactions_per_s),
        spread: spread(&throughputs),
        p50_us: of(|cell| cell.p50_us),
        p99_us: of(|cell| cell.p99_us),
        retries_per_commit: of(|cell| cell.retries_per_commit),
        memory_bytes_per_record: bytes(|found| found.memory_bytes) / records as f64,
        huge_share: median(turns.found.iter().map(|found| found.huge_share).collect()),
        file_bytes_per_record: bytes(|found| found.file_bytes) / records as f64,
    })
}

/// Compares Braid with the others in one workload, if Braid was measured.
fn comparison(rows: &[Row]) -> Option<Comparison> {
    let speed = |name| rows.iter().find(|row| row.peer == name).map(|row| row.transactions_per_s);
    let (braid, one) = (rows.iter().find(|row| row.peer == BRAID)?, speed(BRAID_ONE));
    let best = |may: fn(&Row) -> bool| {
        // Braid's other forms are not counted among the others.
        let others = rows.iter().filter(|row| !row.peer.starts_with(BRAID) && may(row));
        let best = others.max_by(|a, b| a.transactions_per_s.total_cmp(&b.transactions_per_s))?;
        Some(Best {
            peer: best.peer,
            batching_ratio: braid.transactions_per_s / best.transactions_per_s,
            one_at_a_time_ratio: one.map(|one| one / best.transactions_per_s),
        })
    };
    Some(Comparison {
        workload: braid.workload.clone(),
        class: braid.class,
        clients: braid.clients,
        braid_transactions_per_s: braid.transactions_per_s,
        braid_one_transactions_per_s: one,
        best_transactional: best(|row| row.transactional),
        best_of_all: best(|_| true),
    })
}

impl Outcome {
    /// Combines the turns.
    pub fn new(environment: Environment, args: &Args, cells: Vec<CellOrder>, turns: Vec<Turns>) -> Self {
        let (mut rows, mut comparisons) = (Vec::new(), Vec::new());
        for (number, order) in cells.iter().enumerate() {
            let group: Vec<Row> = turns
                .iter()
                .filter_map(|turns| row(turns, number, order, args.class, args.records))
                .collect();
            comparisons.extend(comparison(&group));
            rows.extend(group);
        }
        let failed = turns.into_iter().filter_map(|turns| Some((turns.facts.name, turns.failure?))).collect();
        let (records, theta, seconds, repeats) = (args.records, args.theta, args.seconds, args.repeats);
        Outcome { environment, records, theta, seconds, repeats, rows, comparisons, failed }
    }

    /// Prints the tables and writes the requested file. A peer that has failed causes an error at the end.
    pub fn show(&self, json: Option<&Path>) -> Result<()> {
        println!("{}", self.text());
        if let Some(path) = json {
            report::write(path, &self.json()?)?;
        }
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => Err(Failure::new(format!("{} peers have failed", failed.len()))),
        }
    }

    fn json(&self) -> Result<String> {
        let failed = self.failed.iter().map(|(peer, reason)| FailedPeer { peer, reason }).collect();
        let json = Json {
            environment: &self.environment,
            records: self.records,
            theta: self.theta,
            seconds: self.seconds,
            repeats: self.repeats,
            rows: &self.rows,
            comparisons: &self.comparisons,
            failed,
        };
        serde_json::to_string_pretty(&json).map_err(|error| Failure::new(error.to_string()))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n{}\n\n", self.environment.summary(), self.table(), self.ratios());
        let skew = if self.theta == 0.0 { "uniform".to_owned() } else { format!("Zipf {}", self.theta) };
        let _ = writeln!(
            text,
            "{} records of 8 + 8 bytes, {skew}; medians of {} repeats of {} s in which peers take turns, each in a \
             process of its own\nspread is (highest - lowest) / median; latency includes retries; memory B and \
             file B: of the process and its files after loading, by records; huge: how much of its memory is in huge \
             pages\nopen: transactions that a thread has open at once, a batch or one\n*: no transactions, a \
             ceiling; (server): another process, over a connection",
            report::short(self.records),
            self.repeats,
            self.seconds,
        );
        for (peer, reason) in &self.failed {
            let _ = writeln!(text, "{peer} failed: {reason}");
        }
        text
    }

    fn table(&self) -> Table {
        let head = [
            "workload",
            "class",
            "clients",
            "peer",
            "open",
            "isolation",
            "k txn/s",
            "braid/peer",
            "spread",
            "p50 us",
            "p99 us",
            "retries",
            "memory B",
            "huge",
            "file B",
        ];
        let mut table = table(&head, 6);
        let mut last = None;
        for row in &self.rows {
            let group = (&row.workload, row.clients);
            if last.is_some_and(|last| last != group) {
                table.add_row(head.map(|_| ""));
            }
            last = Some(group);
            let braid = self.comparisons.iter().find(|c| (&c.workload, c.clients) == group);
            let ratio = braid.map(|braid| braid.braid_transactions_per_s / row.transactions_per_s);
            table.add_row([
                row.workload.clone(),
                row.class.to_owned(),
                row.clients.to_string(),
                row.marked(),
                (if row.batches { "batch" } else { "one" }).to_owned(),
                row.isolation.to_owned(),
                format!("{:.1}", row.transactions_per_s / 1e3),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
                format!("{:.0} %", row.spread * 100.0),
                format!("{:.1}", row.p50_us),
                format!("{:.1}", row.p99_us),
                format!("{:.3}", row.retries_per_commit),
                format!("{:.0}", row.memory_bytes_per_record),
                format!("{:.0} %", row.huge_share * 100.0),
                format!("{:.0}", row.file_bytes_per_record),
            ]);
        }
        table
    }

    fn ratios(&self) -> Table {
        let head = [
            "workload",
            "class",
            "clients",
            "batch k txn/s",
            "one k txn/s",
            "best with transactions",
            "batch ratio",
            "one ratio",
            "best of all",
            "batch ratio",
            "one ratio",
        ];
        let mut table = table(&head, 3);
        let figure = |value: Option<f64>, digits| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        for c in &self.comparisons {
            let mut line = vec![
                c.workload.clone(),
                c.class.to_owned(),
                c.clients.to_string(),
                figure(Some(c.braid_transactions_per_s / 1e3), 1),
                figure(c.braid_one_transactions_per_s.map(|one| one / 1e3), 1),
            ];
            for best in [c.best_transactional, c.best_of_all] {
                line.push(best.map_or("-".to_owned(), |best| best.peer.to_owned()));
                line.push(figure(best.map(|best| best.batching_ratio), 2));
                line.push(figure(best.and_then(|best| best.one_at_a_time_ratio), 2));
            }
            table.add_row(line);
        }
        table
    }
}

impl Row {
    /// Returns the peer's name with a mark for what sets it apart.
    fn marked(&self) -> String {
        let mark = match (self.transactional, self.server) {
            (false, _) => " *",
            (true, true) => " (server)",
            (true, false) => "",
        };
        format!("{}{mark}", self.peer)
    }
}

/// Makes a table without lines. From the column `right` on, numbers are aligned to the right.
fn table(head: &[&str], right: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.iter().copied());
    for number in right..head.len() {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::PEERS;
    use clap::Parser;

    fn turns(name: &str, speeds: &[f64]) -> Turns {
        let facts = PEERS.iter().find(|facts| facts.name == name).unwrap();
        let found = |speed: &f64| {
            let cell = Cell { transactions_per_s: *speed, ..Cell::default() };
            Found { memory_bytes: 64_000, cells: vec![Some(cell), None], ..Found::default() }
        };
        Turns { found: speeds.iter().map(found).collect(), ..Turns::new(facts) }
    }

    fn outcome(turns: Vec<Turns>) -> Outcome {
        let args = Args::parse_from(["braid-peers", "--records", "1000"]);
        let cells = ["r1", "s10"].map(|name| CellOrder { workload: name.into(), clients: 1 });
        Outcome::new(Environment::of_this_machine(), &args, cells.into(), turns)
    }

    #[test]
    fn braid_is_compared_with_the_best_of_both_kinds() {
        // Proves that medians are compared, that ceilings are separate from transactions, and that Braid is compared in
        // both forms and not with itself.
        let all = outcome(vec![
            turns("braid", &[100.0, 200.0, 900.0]),
            turns("braid-interactive", &[100.0]),
            turns("lmdb", &[40.0]),
            turns("surrealmx", &[50.0]),
            turns("congee", &[400.0]),
        ]);
        let [only] = all.comparisons.as_slice() else { panic!("one workload was measured") };
        assert_eq!(only.braid_transactions_per_s, 200.0);
        assert_eq!(only.braid_one_transactions_per_s, Some(100.0));
        let best =
            |peer, batching_ratio, one| Some(Best { peer, batching_ratio, one_at_a_time_ratio: Some(one) });
        assert_eq!(only.best_transactional, best("surrealmx", 4.0, 2.0));
        assert_eq!(only.best_of_all, best("congee", 0.5, 0.25));
        let open: Vec<bool> = all.rows.iter().map(|row| row.batches).collect();
        assert_eq!(open, [true, false, false, false, false]);
        assert_eq!(all.rows.len(), 5);
        assert_eq!(all.rows[0].spread, 4.0);
        assert_eq!(all.rows[0].memory_bytes_per_record, 64.0);
        assert!(all.text().contains("congee *") && all.json().unwrap().contains("\"best_of_all\""));
    }

    #[test]
    fn servers_and_ceilings_are_marked() {
        // Proves that the table marks every peer that is not an embedded engine with transactions.
        let text =
            outcome(vec![turns("postgres", &[1.0]), turns("papaya", &[2.0]), turns("braid", &[3.0])]).text();
        for mark in ["postgres (server)", "papaya *", "batch"] {
            assert!(text.contains(mark), "{mark}");
        }
    }

    #[test]
    fn a_failed_peer_is_an_error_and_named() {
        // Proves that the results of other peers are shown and the failure is reported.
        let failed = Turns { failure: Some("it fell over".into()), ..turns("lmdb", &[]) };
        let all = outcome(vec![turns("braid", &[1.0]), failed]);
        assert!(all.text().contains("lmdb failed: it fell over"));
        assert!(all.show(None).is_err());
        assert_eq!(all.comparisons[0].best_of_all, None);
    }
}
