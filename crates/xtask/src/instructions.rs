//! `cargo xtask cache --check`: compares the instructions per transaction with those in `results/instructions.txt`.
//!
//! The engine's example `counted` and the TPC-C example `counted_tpcc` are built in release mode and run with
//! `valgrind --tool=callgrind`, twice for each line. The additional instructions of the longer run are the cost of its
//! additional transactions. Counts of one build vary by a few instructions from run to run. Another compiler may change
//! them by a percent.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEPT: &str = "results/instructions.txt";

/// A program that runs a given number of transactions of one workload in one mode: `PROGRAM WORKLOAD MODE NUMBER`.
struct Program {
    package: &'static str,
    example: &'static str,
    workloads: &'static [&'static str],
    modes: &'static [&'static str],
    /// The numbers of transactions of the shorter run, which warms up, and of the longer run.
    short: u64,
    long: u64,
}

const PROGRAMS: [Program; 2] = [
    Program {
        package: "braiddb",
        example: "counted",
        workloads: &["r1", "r10", "m", "s100", "e100", "l10", "i10"],
        modes: &["naive", "interleaved", "interactive"],
        short: 2_000,
        long: 12_000,
    },
    // TPC-C transactions are longer, and the number of orders to deliver is limited.
    Program {
        package: "braid-tpcc",
        example: "counted_tpcc",
        workloads: &["new-order", "payment", "order-status", "delivery", "stock-level"],
        modes: &["naive", "interleaved"],
        short: 50,
        long: 250,
    },
];

/// The largest permitted increase of instructions.
const MORE_PERCENT_MAX: f64 = 3.0;

/// A workload in a mode, and its instructions per transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    workload: String,
    mode: String,
    instructions: f64,
}

/// Counts the instructions. With `keeps`, writes the counts to the file; otherwise fails if a count is too high.
pub fn run(root: &Path, keeps: bool) -> Result<(), String> {
    let folder = build(root)?;
    let mut counts = Vec::new();
    for program in &PROGRAMS {
        for (workload, mode) in program.lines() {
            let instructions = program.per_transaction(&folder, workload, mode)?;
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

/// Builds all programs with one command, so that the engine is built once. Returns their folder.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["build", "--quiet", "--release"]);
    for Program { package, example, .. } in &PROGRAMS {
        cargo.args(["--package", package, "--example", example]);
    }
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("building the examples failed".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("examples"))
}

impl Program {
    /// The program's workloads, each in all modes.
    fn lines(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let modes = self.modes;
        self.workloads.iter().flat_map(move |workload| modes.iter().map(|mode| (*workload, *mode)))
    }

    fn per_transaction(&self, folder: &Path, workload: &str, mode: &str) -> Result<f64, String> {
        let program = folder.join(self.example);
        let short = counted(&program, workload, mode, self.short)?;
        let long = counted(&program, workload, mode, self.long)?;
        Ok((long - short) / (self.long - self.short) as f64)
    }
}

/// Counts the instructions of one run.
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
        let _ = writeln!(text, "{workload:<12} {mode:<12} {instructions:>8.0}"); // a string takes everything
    }
    text
}

/// Parses the lines of a table. Other lines are ignored.
fn read(text: &str) -> Result<Vec<Count>, String> {
    let workloads = PROGRAMS.iter().flat_map(|program| program.workloads);
    let is_line = |line: &&str| {
        line.split_whitespace().next().is_some_and(|word| workloads.clone().any(|name| *name == word))
    };
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

/// A report with a line for each count, and the number of counts that are too high.
fn compare(kept: &[Count], now: &[Count]) -> (String, usize) {
    let (mut report, mut failures) = (String::from("instructions per transaction, kept and now\n"), 0);
    for Count { workload, mode, instructions } in now {
        let before = kept.iter().find(|count| count.workload == *workload && count.mode == *mode);
        let before = before.map_or(f64::NAN, |count| count.instructions);
        let more = (instructions / before - 1.0) * 100.0;
        let is_fine = more <= MORE_PERCENT_MAX; // false if the count was not kept
        failures += usize::from(!is_fine);
        let mark = if is_fine { "" } else { "  too many" };
        // A string takes everything.
        let _ = writeln!(
            report,
            "{workload:<12} {mode:<12} {before:>8.0} {instructions:>8.0} {more:>+6.1} %{mark}"
        );
    }
    (report, failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn count(workload: &str, mode: &str, instructions: f64) -> Count {
        Count { workload: workload.into(), mode: mode.into(), instructions }
    }

    #[test]
    fn what_was_kept_is_read_again() {
        // Proves, for every counted line, that the kept text is read back, and that no two lines share a name.
        let lines = || PROGRAMS.iter().flat_map(Program::lines);
        let counts: Vec<Count> = lines()
            .zip(1..)
            .map(|((workload, mode), n)| count(workload, mode, f64::from(n) * 9_999.0))
            .collect();
        assert_eq!(read(&table(&counts)).unwrap(), counts);
        assert_eq!(lines().collect::<BTreeSet<_>>().len(), counts.len());
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
            count("new-order", "naive", 1.0),
        ];
        let (report, failures) = compare(&kept, &now);
        assert_eq!(failures, 2, "{report}");
        let bad: Vec<&str> = report.lines().filter(|line| line.ends_with("too many")).collect();
        assert!(
            bad[0].starts_with("m            naive") && bad[1].starts_with("new-order    naive"),
            "{report}"
        );
    }
}
