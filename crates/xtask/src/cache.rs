//! `cargo xtask cache`: instructions and simulated cache misses of a transaction, by `valgrind --tool=callgrind`.
//!
//! Where a machine lends out no hardware counters this is what can be counted, and counts repeat. Each mode is run
//! twice, with one number of transactions and with twice as many; the difference of the two is what transactions
//! cost, without loading and starting. The simulated processor does not prefetch: a miss that prefetching
//! hides is counted like any other, so what the modes show is how many misses there are to hide, and how many
//! instructions the hiding costs.

use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo xtask cache` takes.
#[derive(Args, Debug)]
pub struct CacheArgs {
    /// Compares instructions with those in results/instructions.txt, of workloads and modes of its own
    #[arg(long, conflicts_with = "keep")]
    pub check: bool,
    /// Writes that file
    #[arg(long)]
    pub keep: bool,
    /// Records in the table
    #[arg(long, default_value_t = 200_000)]
    pub records: u64,
    /// Transactions of the shorter run
    #[arg(long, default_value_t = 20_000)]
    pub transactions: u64,
    /// Workloads, as `braid bench ycsb` names them
    #[arg(long, default_value = "r10,m,s100", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Modes, as `braid bench ycsb` names them
    #[arg(long, default_value = "naive,prefetch,interleaved", value_delimiter = ',')]
    pub mode: Vec<String>,
    /// Schemes of concurrency control, as `braid bench ycsb` names them
    #[arg(long, default_value = "serializable", value_delimiter = ',')]
    pub cc: Vec<String>,
    /// Transactions open at once in the interleaved modes
    #[arg(long, default_value_t = 48)]
    pub batch: u32,
    /// Bytes of the simulated last-level cache, a power of two: smaller than the table by as much as a real one would
    /// be
    #[arg(long, default_value_t = 1 << 20)]
    pub cache_bytes: u64,
    /// The program, instead of the one that is built in release
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// What a run has counted, or a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions.
    pub instructions: f64,
    /// Reads and writes that the first-level data cache did not have.
    pub first_level_misses: f64,
    /// Those that no cache had.
    pub last_level_misses: f64,
    /// Instruction fetches that the first-level instruction cache did not have.
    pub instruction_misses: f64,
    /// Branches that went another way than a simple predictor says, where branches were simulated.
    pub mispredictions: f64,
}

/// Runs all and prints a line each.
pub fn run(root: &Path, args: &CacheArgs) -> Result<(), String> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let (cache_bytes, records) = (args.cache_bytes, args.records);
    println!("simulated: last-level cache of {cache_bytes} bytes, 16 ways; {records} records of 8 + 8 bytes");
    println!("counts per transaction, over {} transactions", args.transactions);
    println!(
        "{:<10} {:<12} {:<12} {:>13} {:>7} {:>14} {:>13} {:>12}",
        "workload", "scheme", "mode", "instructions", "ratio", "L1 data miss", "memory miss", "L1 code miss"
    );
    for workload in &args.workload {
        let mut first = None;
        for (cc, mode) in args.cc.iter().flat_map(|cc| args.mode.iter().map(move |mode| (cc, mode))) {
            let counts = per_transaction(&program, args, &Variant { workload, cc, mode })?;
            let Counts { instructions, first_level_misses, last_level_misses, instruction_misses, .. } =
                counts;
            let ratio = instructions / *first.get_or_insert(instructions);
            println!(
                "{workload:<10} {cc:<12} {mode:<12} {instructions:>13.0} {ratio:>7.2} {first_level_misses:>14.1} \
                 {last_level_misses:>13.1} {instruction_misses:>12.1}"
            );
        }
    }
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["build", "--quiet", "--release", "--package", "braid-cli"]);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("building the program failed".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("braid"))
}

/// What is run.
struct Variant<'v> {
    workload: &'v str,
    cc: &'v str,
    mode: &'v str,
}

fn per_transaction(program: &Path, args: &CacheArgs, variant: &Variant<'_>) -> Result<Counts, String> {
    let short = counted(program, args, variant, args.transactions)?;
    let long = counted(program, args, variant, 2 * args.transactions)?;
    Ok(short.difference(&long, args.transactions as f64))
}

/// One run of the program under callgrind.
fn counted(
    program: &Path,
    args: &CacheArgs,
    Variant { workload, cc, mode }: &Variant<'_>,
    transactions: u64,
) -> Result<Counts, String> {
    let mut run = Command::new(program);
    run.args(["bench", "ycsb", "--repeats", "1", "--seconds", "86400"])
        .args(["--workload", workload, "--cc", cc, "--mode", mode])
        .args(["--records", &args.records.to_string(), "--batch", &args.batch.to_string()])
        .args(["--transactions", &transactions.to_string()]);
    let simulated = format!("--LL={},16,64", args.cache_bytes);
    Ok(callgrind(&[&simulated], &run)?.0)
}

/// Runs a command under callgrind with simulated caches, and further options of callgrind's. Returns the counts, and what the command has
/// printed.
pub(crate) fn callgrind(options: &[&str], run: &Command) -> Result<(Counts, String), String> {
    let out = std::env::temp_dir().join(format!("braid-callgrind-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--cache-sim=yes"])
        .args(options)
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(run.get_program())
        .args(run.get_args());
    let output =
        valgrind.output().map_err(|error| format!("cannot run valgrind (is it installed?): {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{run:?} failed under valgrind:\n{words}"));
    }
    let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let _ = std::fs::remove_file(&out); // what is left in the folder for temporary files is the system's
    let counts =
        Counts::read(&text).ok_or_else(|| format!("{}: no totals in callgrind's output", out.display()))?;
    Ok((counts, String::from_utf8_lossy(&output.stdout).into_owned()))
}

impl Counts {
    /// The totals of callgrind's output.
    pub fn read(text: &str) -> Option<Counts> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let totals = line("totals:").or_else(|| line("summary:"))?;
        let names: Vec<&str> = line("events:")?.split_whitespace().collect();
        let values: Vec<f64> = totals.split_whitespace().map_while(|value| value.parse().ok()).collect();
        let sum = |of: &[&str]| {
            let found = names.iter().zip(&values).filter(|(name, _)| of.contains(name));
            found.map(|(_, value)| value).sum()
        };
        (names.contains(&"Ir") && values.len() == names.len()).then(|| Counts {
            instructions: sum(&["Ir"]),
            first_level_misses: sum(&["D1mr", "D1mw"]),
            last_level_misses: sum(&["DLmr", "DLmw"]),
            instruction_misses: sum(&["I1mr"]),
            mispredictions: sum(&["Bcm", "Bim"]),
        })
    }

    /// What the longer run has more, by transactions.
    pub(crate) fn difference(&self, longer: &Counts, transactions: f64) -> Counts {
        let per_transaction = |of: fn(&Counts) -> f64| (of(longer) - of(self)) / transactions;
        Counts {
            instructions: per_transaction(|counts| counts.instructions),
            first_level_misses: per_transaction(|counts| counts.first_level_misses),
            last_level_misses: per_transaction(|counts| counts.last_level_misses),
            instruction_misses: per_transaction(|counts| counts.instruction_misses),
            mispredictions: per_transaction(|counts| counts.mispredictions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim\n\
        fn=(1) main\n1 5 1 1\ntotals: 1000 200 100 7 20 10 3 5 4 90 6 9 2\n";

    #[test]
    fn totals_are_read_by_the_names_of_events() {
        // Proves that misses of reads and writes are added up, and that output without totals is refused.
        let counts = Counts::read(OUTPUT).unwrap();
        let expected = Counts {
            instructions: 1000.0,
            first_level_misses: 30.0,
            last_level_misses: 9.0,
            instruction_misses: 7.0,
            mispredictions: 8.0,
        };
        assert_eq!(counts, expected);
        assert_eq!(Counts::read("events: Ir Dr\n"), None);
        assert_eq!(Counts::read("events: Dr\ntotals: 1\n"), None);
        assert_eq!(Counts::read("events: Ir Dr\ntotals: 1\n"), None);
    }

    #[test]
    fn a_transaction_costs_what_the_longer_run_has_more() {
        // Proves that what both runs have in common is not counted.
        let short = Counts { instructions: 5_000.0, last_level_misses: 100.0, ..Counts::default() };
        let long = Counts { instructions: 7_000.0, last_level_misses: 150.0, ..Counts::default() };
        let each = short.difference(&long, 10.0);
        assert_eq!((each.instructions, each.last_level_misses), (200.0, 5.0));
    }
}
