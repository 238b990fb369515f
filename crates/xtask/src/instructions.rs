//! `cargo xtask cache --check`: instructions per transaction beside those in `results/instructions.txt`.
//!
//! The engine's example `counted` is built in release and run by `valgrind --tool=callgrind`, twice for each line: what the longer run
//! has more is what transactions cost. Counts are the same in each run of a build; another compiler may change them by a
//! percent.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEPT: &str = "results/instructions.txt";
const WORKLOADS: [&str; 7] = ["r1", "r10", "m", "s100", "e100", "l10", "i10"];
const MODES: [&str; 3] = ["naive", "interleaved", "interactive"];
/// Transactions of the shorter run and of the longer one: the first ones warm up.
const SHORT: u64 = 2_000;
const LONG: u64 = 12_000;
/// How many more instructions are too many.
const MORE_PERCENT_MAX: f64 = 3.0;

/// A workload in a mode, and its instructions per transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    workload: String,
    mode: String,
    instructions: f64,
}

/// Counts, and fails where there are more instructions than were kept; or keeps them.
pub fn run(root: &Path, keeps: bool) -> Result<(), String> {
    let program = build(root)?;
    let mut counts = Vec::new();
    for workload in WORKLOADS {
        for mode in MODES {
            let instructions = (counted(&program, workload, mode, LONG)?
                - counted(&program, workload, mode, SHORT)?)
                / (LONG - SHORT) as f64;
            counts.push(Count { workload: workload.into(), mode: mode.into(), instructions });
        }
    }
    let path = root.join(KEPT);
    if keeps {
        return std::fs::write(&path, table(&counts)).map_err(|error| format!("{}: {error}", path.display()));
    }
    let kept = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (report, failures) = compare(&read(&kept)?, &counts);
    print!("{report}");
    match failures {
        0 => Ok(()),
        _ => Err(format!(
            "{failures} take over {MORE_PERCENT_MAX} % more than {KEPT} has. Where that is meant, keep the new counts: cargo xtask cache \
             --keep"
        )),
    }
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "braiddb",
        "--example",
        "counted",
    ]);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("building the example failed".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("examples").join("counted"))
}

/// Instructions of one run.
fn counted(program: &Path, workload: &str, mode: &str, transactions: u64) -> Result<f64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args([workload, mode, &transactions.to_string()]);
    let output =
        valgrind.output().map_err(|error| format!("cannot run valgrind (is it installed?): {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let collected = words.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match collected {
        Some(instructions) if output.status.success() => Ok(instructions),
        _ => Err(format!("{workload} in mode {mode} failed under valgrind:\n{words}")),
    }
}

fn table(counts: &[Count]) -> String {
    let mut text = String::from("$ cargo xtask cache --keep\n\ninstructions per transaction\n");
    for Count { workload, mode, instructions } in counts {
        let _ = writeln!(text, "{workload:<6} {mode:<12} {instructions:>8.0}"); // a string takes everything
    }
    text
}

/// The lines of a table; others are left out.
fn read(text: &str) -> Result<Vec<Count>, String> {
    let is_line = |line: &&str| WORKLOADS.iter().any(|name| line.split_whitespace().next() == Some(name));
    let count = |line: &str| {
        let [workload, mode, instructions] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Count { workload: workload.into(), mode: mode.into(), instructions: instructions.parse().ok()? })
    };
    let lines = text.lines().filter(is_line);
    lines
        .map(|line| count(line).ok_or_else(|| format!("{KEPT}: no workload, mode and count: {line}")))
        .collect()
}

/// A line each, and how many take too much.
fn compare(kept: &[Count], now: &[Count]) -> (String, usize) {
    let (mut report, mut failures) = (String::from("instructions per transaction, kept and now\n"), 0);
    for Count { workload, mode, instructions } in now {
        let before = kept.iter().find(|count| count.workload == *workload && count.mode == *mode);
        let before = before.map_or(f64::NAN, |count| count.instructions);
        let more = (instructions / before - 1.0) * 100.0;
        let is_fine = more <= MORE_PERCENT_MAX; // not of a number that was not kept
        failures += usize::from(!is_fine);
        let mark = if is_fine { "" } else { "  too many" };
        // A string takes everything.
        let _ = writeln!(
            report,
            "{workload:<6} {mode:<12} {before:>8.0} {instructions:>8.0} {more:>+6.1} %{mark}"
        );
    }
    (report, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(workload: &str, mode: &str, instructions: f64) -> Count {
        Count { workload: workload.into(), mode: mode.into(), instructions }
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let counts = vec![count("r1", "naive", 1000.0), count("s100", "interleaved", 123_456.0)];
        assert_eq!(read(&table(&counts)).unwrap(), counts);
        assert!(read("r10 naive many\n").unwrap_err().contains("r10 naive many"));
    }

    #[test]
    fn more_than_three_percent_and_what_was_not_kept_are_too_many() {
        let kept =
            [count("r1", "naive", 1000.0), count("m", "naive", 1000.0), count("m", "interleaved", 1000.0)];
        let now = [
            count("r1", "naive", 1029.0),
            count("m", "naive", 1031.0),
            count("m", "interleaved", 500.0),
            count("r10", "naive", 1.0),
        ];
        let (report, failures) = compare(&kept, &now);
        assert_eq!(failures, 2, "{report}");
        let bad: Vec<&str> = report.lines().filter(|line| line.ends_with("too many")).collect();
        assert!(bad[0].starts_with("m      naive") && bad[1].starts_with("r10"), "{report}");
    }
}
