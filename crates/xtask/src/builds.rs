//! `cargo xtask builds`: runs a benchmark with two builds of `braid` in turns, and reports how much faster the second
//! build is.
//!
//! Machines drift, and shared machines are noisy. Each round therefore runs both builds, in alternating order, and the
//! result is the ratio within a round. The command reports the median of the ratios, with the least and the greatest.

use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `cargo xtask builds`.
#[derive(Args, Debug)]
pub struct BuildsArgs {
    /// The program built from the old state
    #[arg(long)]
    old: PathBuf,
    /// The program built from the new state
    #[arg(long)]
    new: PathBuf,
    /// Number of times to run both builds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The arguments after `braid bench`, for instance `ycsb --records 10M --workload r10,m`
    #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
    benchmark: Vec<String>,
}

/// The fields that distinguish the rows of a run, where they are present.
const NAMES: [&str; 5] = ["workload", "mix", "mode", "workers", "batch"];
const FIGURE: &str = "transactions_per_s";

/// The figure of each row.
type Figures = BTreeMap<String, f64>;

/// Runs both builds and prints the ratios.
pub fn run(args: &BuildsArgs) -> Result<(), String> {
    // A name without a folder would be searched for among the system's programs.
    let program = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (of_old, of_new) = (program(&args.old)?, program(&args.new)?);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        for is_new in order {
            let program = if is_new { &of_new } else { &of_old };
            let figures = figures_of(program, &args.benchmark)?;
            (if is_new { &mut new } else { &mut old }).push(figures);
        }
    }
    println!("braid bench {}", args.benchmark.join(" "));
    println!("{} rounds of both builds, in turns; thousands of transactions per second\n", args.rounds);
    print!("{}", table(&old, &new)?);
    Ok(())
}

fn figures_of(program: &Path, benchmark: &[String]) -> Result<Figures, String> {
    let json = std::env::temp_dir().join(format!("braid-builds-{}.json", std::process::id()));
    let of = |error: std::io::Error| format!("{}: {error}", program.display());
    let status = Command::new(program)
        .arg("bench")
        .args(benchmark)
        .arg("--json")
        .arg(&json)
        .stdout(Stdio::null())
        .status()
        .map_err(of)?;
    if !status.success() {
        return Err(format!("{} bench {}: {status}", program.display(), benchmark.join(" ")));
    }
    let text = std::fs::read_to_string(&json).map_err(of)?;
    std::fs::remove_file(&json).map_err(of)?;
    figures(&text)
}

/// The rows of a run's results.
fn figures(json: &str) -> Result<Figures, String> {
    let results: Value = serde_json::from_str(json).map_err(|error| format!("results: {error}"))?;
    let rows = results["rows"].as_array().ok_or("results: there are no rows")?;
    // A mix of transactions also has a row for each kind. If there is only one kind, it is called `transaction`.
    let is_whole = |kind: &Value| kind == "total" || kind == "transaction";
    let totals = rows.iter().filter(|row| row.get("kind").is_none_or(is_whole));
    let mut figures = Figures::new();
    for row in totals {
        let names = NAMES.iter().filter_map(|name| row.get(*name)).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let name = names.collect::<Vec<_>>().join(" ");
        let figure = row[FIGURE].as_f64().ok_or_else(|| format!("results: `{name}` has no {FIGURE}"))?;
        if figures.insert(name.clone(), figure).is_some() {
            return Err(format!("results: several rows are `{name}`: give one value for what else varies"));
        }
    }
    Ok(figures)
}

/// For each row, the medians of both builds, and the ratios within the rounds.
fn table(old: &[Figures], new: &[Figures]) -> Result<String, String> {
    let mut out = format!("{:40} {:>9} {:>9} {:>8}  {}\n", "", "old", "new", "new/old", "least to greatest");
    let names = old.first().map(|figures| figures.keys()).into_iter().flatten();
    for name in names {
        let of = |runs: &[Figures]| -> Result<Vec<f64>, String> {
            let missing = || format!("a build has no row `{name}`");
            runs.iter().map(|run| run.get(name).copied().ok_or_else(missing)).collect()
        };
        let (old, new) = (of(old)?, of(new)?);
        let mut ratios: Vec<f64> = old.iter().zip(&new).map(|(old, new)| new / old).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let (least, greatest) = (ratios[0], ratios[ratios.len() - 1]);
        let medians = (median(old) / 1e3, median(new) / 1e3, median(ratios));
        let _ = writeln!(
            out,
            "{name:40} {:9.1} {:9.1} {:8.3}  {least:.3} to {greatest:.3}",
            medians.0, medians.1, medians.2
        );
    }
    Ok(out)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(k_per_s: f64) -> Figures {
        let json = format!(
            r#"{{"rows": [{{"workload": "r10", "mode": "naive", "workers": 2, "kind": "transaction", "transactions_per_s": {}}}]}}"#,
            k_per_s * 1e3
        );
        figures(&json).expect("rows")
    }

    #[test]
    fn ratios_are_within_rounds() {
        // The machine halves its speed in the second round, and the ratio stays the same.
        let (old, new) = ([100.0, 50.0, 100.0].map(run_of), [110.0, 55.0, 120.0].map(run_of));
        let table = table(&old, &new).expect("the same rows");
        let row = table.lines().nth(1).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["r10", "naive", "2", "100.0", "110.0", "1.100", "1.100", "to", "1.200"]);
    }

    #[test]
    fn of_a_mix_the_total_counts() {
        let row = |kind: &str, per_s: u32| {
            format!(r#"{{"mix": "full", "kind": "{kind}", "mode": "naive", "transactions_per_s": {per_s}}}"#)
        };
        let json = |rows: &[String]| format!(r#"{{"rows": [{}]}}"#, rows.join(","));
        let got = figures(&json(&[row("total", 10), row("payment", 4)])).expect("one total");
        assert_eq!(got, Figures::from([("full naive".to_string(), 10.0)]));
        let twice = figures(&json(&[row("total", 10), row("total", 12)]));
        assert!(twice.expect_err("two rows of one name").contains("`full naive`"));
    }

    #[test]
    fn rows_have_to_be_the_same() {
        assert!(
            table(&[run_of(1.0)], &[Figures::new()]).expect_err("a row is missing").contains("r10 naive 2")
        );
        assert!(figures("{}").is_err() && figures("no JSON").is_err());
    }
}
