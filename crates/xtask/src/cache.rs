//! `cargo xtask cache`: counts the instructions and simulated cache misses of a transaction with
//! `valgrind --tool=callgrind`.
//!
//! These counts are available on machines without access to hardware counters, and they are repeatable. Each variant of
//! a `braid bench` command line, or of the command lines of a paper's figure, runs twice, the second time with twice as
//! many transactions. The difference is the cost of the transactions, without loading and starting. The simulated
//! processor does not prefetch, so a miss that prefetching hides counts like any other. The modes therefore show how
//! many misses there are to hide, and how many instructions the hiding costs.

use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `cargo xtask cache`.
#[derive(Args, Debug)]
pub struct CacheArgs {
    /// Compare the instructions of a fixed set of workloads and modes with results/instructions.txt
    #[arg(long, conflicts_with = "keep")]
    pub check: bool,
    /// Write results/instructions.txt
    #[arg(long)]
    pub keep: bool,
    /// Transactions of the shorter run
    #[arg(long, default_value_t = 20_000)]
    pub transactions: u64,
    /// Size of the simulated last-level cache in bytes, a power of two; as much smaller than the table as a real cache
    /// would be
    #[arg(long, default_value_t = 1 << 20)]
    pub cache_bytes: u64,
    /// The program to run [default: a release build]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// The arguments after `braid bench`: a workload, or a figure as `paper PAPER --figure N`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        default_value = "ycsb --workload r10,m,s100 --mode naive,prefetch,interleaved --records 200K",
        value_delimiter = ' '
    )]
    pub line: Vec<String>,
}

/// The counts of a run or of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The instructions executed.
    pub instructions: f64,
    /// Reads and writes that missed the first-level data cache.
    pub first_level_misses: f64,
    /// Reads and writes that missed all caches.
    pub last_level_misses: f64,
    /// Instruction fetches that missed the first-level instruction cache.
    pub instruction_misses: f64,
    /// Branches that a simple predictor predicted wrongly, if branches were simulated.
    pub mispredictions: f64,
}

/// Runs all variants and prints a line for each.
pub fn run(root: &Path, args: &CacheArgs) -> Result<(), String> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    keep_to_one_processor();
    let lines = lines(&program, &args.line)?;
    let variants: Vec<Variant> = lines.iter().flat_map(|line| variants(line)).collect();
    let names = names(&variants);
    let width = names.iter().map(String::len).max().unwrap_or(0);
    println!("simulated: last-level cache of {} bytes, 16 ways", args.cache_bytes);
    println!(
        "counts per transaction, over {} transactions; cycles: estimated, {INSTRUCTION_CYCLES} for an instruction, \
         {FIRST_LEVEL_CYCLES} for a miss of the first level, {BRANCH_CYCLES} for a misprediction, {MEMORY_CYCLES} more for a miss of \
         the last level\n",
        args.transactions
    );
    println!(
        "{:<width$} {:>12} {:>12} {:>12} {:>12} {:>12} {:>8} {:>7} {:>7} {:>7} {:>7}",
        "",
        "instructions",
        "L1 data miss",
        "memory miss",
        "L1 code miss",
        "mispredicted",
        "cycles",
        "retire",
        "branch",
        "code",
        "data"
    );
    let mut failures = 0;
    for (variant, name) in variants.iter().zip(names) {
        // Continue after an error: the other variants may have taken hours.
        let counts = match per_transaction(&program, args, variant) {
            Ok(counts) => counts,
            Err(error) => {
                println!("{name:<width$} failed");
                eprintln!("{error}");
                failures += 1;
                continue;
            }
        };
        let parts = counts.cycles();
        let cycles: f64 = parts.iter().sum();
        let shares: String = parts.iter().map(|part| format!(" {:>5.1} %", part / cycles * 100.0)).collect();
        println!(
            "{name:<width$} {:>12.0} {:>12.1} {:>12.1} {:>12.2} {:>12.2} {cycles:>8.0}{shares}",
            counts.instructions,
            counts.first_level_misses,
            counts.last_level_misses,
            counts.instruction_misses,
            counts.mispredictions,
        );
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} variants failed")) }
}

/// Restricts this process and its children to one processor. Benchmarks load with as many threads as there are
/// processors. Several threads disturb each other differently in each run, and the difference was as large as the cost
/// of a thousand TPC-C transactions.
fn keep_to_one_processor() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Ok(all) = sched_getaffinity(None) else { return };
        let mut one = CpuSet::new();
        if let Some(first) = (0..CpuSet::MAX_CPU).find(|&number| all.is_set(number)) {
            one.set(first);
            let _ = sched_setaffinity(None, &one); // counts are less exact without it
        }
    }
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["build", "--quiet", "--release", "--package", "braid-cli"]);
    cargo.args(["--features", "every-scheme"]);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("building the program failed".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("braid"))
}

/// The command lines after `braid bench`: the given one, or those of a paper's figure, which the program knows.
fn lines(program: &Path, line: &[String]) -> Result<Vec<Vec<String>>, String> {
    if line.first().is_none_or(|word| word != "paper") {
        return Ok(vec![line.to_vec()]);
    }
    let mut asked = Command::new(program);
    asked.arg("bench").args(line).arg("--commands");
    let output = asked.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| line.strip_prefix("braid bench "));
    Ok(lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect())
}

/// A command line with a single value for each flag: words, among them flags with their values.
type Variant = Vec<String>;

/// Flags for durations and repetitions, which the counting sets itself.
const TIMES: [&str; 3] = ["--seconds", "--repeats", "--transactions"];

/// All combinations of the values that a command line lists with commas.
fn variants(line: &[String]) -> Vec<Variant> {
    let mut variants = vec![Variant::new()];
    let mut words = line.iter();
    while let Some(word) = words.next() {
        if TIMES.contains(&word.as_str()) {
            words.next(); // its value
            continue;
        }
        let with = |variant: &Variant, part: &str| variant.iter().cloned().chain([part.to_owned()]).collect();
        variants = variants
            .iter()
            .flat_map(|variant| word.split(',').map(move |part| with(variant, part)))
            .collect();
    }
    variants
}

/// The names of the variants: the words that not all variants share, in order.
fn names(variants: &[Variant]) -> Vec<String> {
    let is_common = |word: &String| variants.iter().all(|variant| variant.contains(word));
    let name = |variant: &Variant| {
        let words = variant.iter().filter(|word| !is_common(word)).map(|word| word.trim_start_matches('-'));
        words.collect::<Vec<_>>().join(" ")
    };
    variants.iter().map(name).collect()
}

fn per_transaction(program: &Path, args: &CacheArgs, variant: &Variant) -> Result<Counts, String> {
    let short = counted(program, args, variant, args.transactions)?;
    let long = counted(program, args, variant, 2 * args.transactions)?;
    Ok(short.difference(&long, args.transactions as f64))
}

/// Runs the program once under callgrind.
fn counted(program: &Path, args: &CacheArgs, variant: &Variant, transactions: u64) -> Result<Counts, String> {
    let mut run = Command::new(program);
    run.arg("bench").args(variant).args(["--repeats", "1", "--seconds", "86400"]);
    run.args(["--transactions", &transactions.to_string()]);
    let simulated = format!("--LL={},16,64", args.cache_bytes);
    Ok(callgrind(&[&simulated, "--branch-sim=yes"], &run)?.0)
}

/// Runs a command under callgrind with simulated caches and further callgrind options. Returns the counts and the
/// command's output.
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
    let _ = std::fs::remove_file(&out); // the system cleans up its folder for temporary files
    let counts =
        Counts::read(&text).ok_or_else(|| format!("{}: no totals in callgrind's output", out.display()))?;
    Ok((counts, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The weights of KCachegrind's cycle estimate, for a processor that does one thing at a time.
const INSTRUCTION_CYCLES: f64 = 1.0;
const BRANCH_CYCLES: f64 = 10.0;
const FIRST_LEVEL_CYCLES: f64 = 10.0;
const MEMORY_CYCLES: f64 = 100.0;

impl Counts {
    /// The estimated cycles of retiring instructions, of branches, of waiting for code and of waiting for data.
    fn cycles(&self) -> [f64; 4] {
        let data = self.first_level_misses * FIRST_LEVEL_CYCLES + self.last_level_misses * MEMORY_CYCLES;
        [
            self.instructions * INSTRUCTION_CYCLES,
            self.mispredictions * BRANCH_CYCLES,
            self.instruction_misses * FIRST_LEVEL_CYCLES,
            data,
        ]
    }

    /// Reads the totals in callgrind's output.
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

    /// The additional counts of the longer run, per transaction.
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
    fn lists_are_unfolded_and_variants_named_by_what_differs() {
        // Proves that every combination is counted once, that durations are left out, and that names have the
        // distinguishing words.
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let all = variants(&words("micro --rows 1,10 --mode naive,interleaved --seconds 3 --cc silo"));
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], words("micro --rows 1 --mode interleaved --cc silo"));
        assert_eq!(names(&all), ["1 naive", "1 interleaved", "10 naive", "10 interleaved"]);
        let of_two = [words("micro --rows 1 --cc silo"), words("micro --write --rows 1 --cc silo")];
        assert_eq!(names(&of_two), ["", "write"]);
    }

    #[test]
    fn cycles_are_estimated_part_by_part() {
        // Proves the weight of each count.
        let counts = Counts {
            instructions: 1000.0,
            first_level_misses: 20.0,
            last_level_misses: 3.0,
            instruction_misses: 5.0,
            mispredictions: 4.0,
        };
        assert_eq!(counts.cycles(), [1000.0, 40.0, 50.0, 500.0]);
    }

    #[test]
    fn a_transaction_costs_what_the_longer_run_has_more() {
        // Proves that the part common to both runs is not counted.
        let short = Counts { instructions: 5_000.0, last_level_misses: 100.0, ..Counts::default() };
        let long = Counts { instructions: 7_000.0, last_level_misses: 150.0, ..Counts::default() };
        let each = short.difference(&long, 10.0);
        assert_eq!((each.instructions, each.last_level_misses), (200.0, 5.0));
    }
}
