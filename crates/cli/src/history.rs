//! `braid history check`: checks a history of transactions, of Braid or of any other engine, for anomalies.

use braid_history::{Checker, Class, History, Model, Order, Verdict};
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Arguments of `braid history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    #[command(subcommand)]
    command: HistoryCommand,
}

#[derive(Subcommand, Debug)]
enum HistoryCommand {
    /// Check a file of JSON lines against a model; docs/design/history-format.md describes the format
    Check(CheckArgs),
}

#[derive(Args, Debug)]
struct CheckArgs {
    /// The history file; `-` reads the standard input
    file: PathBuf,
    /// The isolation model that the history must satisfy
    #[arg(long, value_enum, default_value_t = ModelArg::Serializable)]
    model: ModelArg,
    /// The source of the version order; by default the values, and the stamps too if the history has any
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// Require the order within each session under every model; `strict` always requires it
    #[arg(long)]
    sessions: bool,
    /// Maximum number of anomalies to print
    #[arg(long, default_value_t = 10)]
    anomalies: usize,
    /// Print a JSON array with one verdict per order
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelArg {
    Serializable,
    Strict,
    Si,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArg {
    Stamps,
    Values,
}

/// Runs the command. An anomaly is an error, reported after everything is printed.
pub fn history(args: &HistoryArgs) -> Result<(), Box<dyn Error>> {
    let HistoryCommand::Check(args) = &args.command;
    let history = read(&args.file)?;
    let verdicts = verdicts(&history, args);
    let holds = verdicts.iter().all(Verdict::holds);
    print(verdicts, args, &mut io::stdout().lock())?;
    if holds { Ok(()) } else { Err("the history violates the model".into()) }
}

fn read(file: &Path) -> Result<History, Box<dyn Error>> {
    let name = file.display();
    let from: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file).map_err(|error| format!("{name}: {error}"))?))
    };
    History::read(from).map_err(|error| format!("{name}: {error}").into())
}

fn verdicts(history: &History, args: &CheckArgs) -> Vec<Verdict> {
    let model = match args.model {
        ModelArg::Serializable => Model::Serializable,
        ModelArg::Strict => Model::StrictSerializable,
        ModelArg::Si => Model::SnapshotIsolation,
    };
    let stamped = || history.transactions().iter().any(|transaction| transaction.commit.is_some());
    let orders = match args.order {
        Some(OrderArg::Stamps) => vec![Order::Stamps],
        Some(OrderArg::Values) => vec![Order::Values],
        None if stamped() => vec![Order::Stamps, Order::Values],
        None => vec![Order::Values],
    };
    let check = |order| Checker::new(history, order).with_sessions(args.sessions).verdict(model);
    orders.into_iter().map(check).collect()
}

fn print(mut verdicts: Vec<Verdict>, args: &CheckArgs, to: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut classes: Vec<BTreeMap<Class, u64>> = Vec::new();
    for verdict in &mut verdicts {
        let mut counts = BTreeMap::new();
        for anomaly in &verdict.anomalies {
            *counts.entry(anomaly.class).or_default() += 1;
        }
        classes.push(counts);
        verdict.anomalies.truncate(args.anomalies);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *to, &verdicts)?;
        writeln!(to)?;
        return Ok(());
    }
    for (verdict, classes) in verdicts.iter().zip(classes) {
        writeln!(to, "{verdict}")?;
        for (class, count) in classes {
            writeln!(to, "{count} x {class}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: HistoryArgs,
    }

    const SKEW: &str = concat!(
        r#"{"id":1,"session":1,"status":"committed","ops":[{"read":{"key":1,"value":null}},{"write":{"key":2,"value":5}}]}"#,
        "\n",
        r#"{"id":2,"session":2,"status":"committed","ops":[{"read":{"key":2,"value":null}},{"write":{"key":1,"value":6}}]}"#,
    );

    /// Runs the command. Returns whether the history is accepted, and the output.
    fn run(text: &str, flags: &[&str]) -> (bool, String) {
        let line = ["history", "check", "-"].iter().chain(flags);
        let HistoryCommand::Check(args) = Alone::parse_from(line).args.command;
        let verdicts = verdicts(&History::read(text.as_bytes()).unwrap(), &args);
        let holds = verdicts.iter().all(Verdict::holds);
        let mut printed = Vec::new();
        print(verdicts, &args, &mut printed).unwrap();
        (holds, String::from_utf8(printed).unwrap())
    }

    #[test]
    fn write_skew_is_judged_by_the_model() {
        // Proves that the model is taken from the command line, and that anomalies are counted and shown.
        let (holds, printed) = run(SKEW, &[]);
        assert!(!holds);
        assert!(printed.contains("1 anomaly\nG2-item (write skew)"), "{printed}");
        assert!(printed.contains("1 -rw-> 2: key 1, nothing was read, then came 6"), "{printed}");
        assert!(printed.ends_with("1 x G2-item (write skew)\n"), "{printed}");
        assert!(run(SKEW, &["--model", "si"]).0);
        assert!(!run(SKEW, &["--model", "strict", "--order", "values"]).0);
    }

    #[test]
    fn verdicts_are_printed_as_json() {
        // Proves that the JSON is one readable array, with the anomalies limited to the requested number.
        let (_, printed) = run(SKEW, &["--json"]);
        let verdicts: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(verdicts[0]["anomalies"][0]["class"], "write_skew");
        let (_, printed) = run(SKEW, &["--json", "--anomalies", "0"]);
        let verdicts: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(verdicts[0]["violations"], 1);
        assert_eq!(verdicts[0]["anomalies"].as_array().unwrap().len(), 0);
    }

    #[test]
    fn a_missing_file_is_named() {
        // Proves that the error names the file that could not be opened.
        let error = read(Path::new("no/such/file.jsonl")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/file.jsonl: "), "{error}");
    }
}
