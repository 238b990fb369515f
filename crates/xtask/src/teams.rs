//! `cargo xtask teams`: counts the instruction misses and branch mispredictions of transactions that are gathered into
//! teams, with `valgrind --tool=callgrind`, for the charts of "STEPS towards Cache-Resident Transaction Processing"
//! (VLDB 2004).
//!
//! The programs are those of `cargo xtask cache --check`. Each line takes two runs, and shows the additional counts of
//! the longer run per additional transaction. The simulated data caches have callgrind's defaults.

use crate::cache::{Counts, callgrind};
use std::path::Path;
use std::process::Command;

/// A simulated first-level instruction cache with lines of 64 bytes.
#[derive(Clone, Copy)]
struct CodeCache {
    kib: u32,
    ways: u32,
}

/// The cache of many current processors.
const TODAY: CodeCache = CodeCache { kib: 32, ways: 8 };
const SIZES: [u32; 4] = [8, 16, 32, 64];
/// Associativities to simulate with 16 KiB, besides the caches above.
const WAYS: [u32; 3] = [1, 2, 8];

/// A program's transactions: the program's name, the workload, and the numbers of transactions of the shorter and of
/// the longer run.
#[derive(Clone, Copy)]
struct Work {
    program: &'static str,
    workload: &'static str,
    transactions: [u64; 2],
}

const FETCH: Work = Work { program: "counted", workload: "r1", transactions: [2_000, 12_000] };
const MIXES: [Work; 2] = [
    Work { program: "counted_tpcc", workload: "payment", transactions: [200, 1_200] },
    Work { program: "counted_tpcc", workload: "full", transactions: [200, 1_200] },
];

/// Runs all programs, and prints a line for each.
pub fn run(root: &Path) -> Result<(), String> {
    let folder = crate::instructions::build(root)?;
    let line = |work: &Work, mode: &str, open: Option<u32>, cache: CodeCache| -> Result<(), String> {
        let program = folder.join(work.program);
        let [short, long] = [0, 1].map(|which| counted(&program, work, which, mode, open, cache));
        let ((short, _), (long, team)) = (short?, long?);
        let counts = short.difference(&long, (work.transactions[1] - work.transactions[0]) as f64);
        println!(
            "{:<10} {mode:<12} {:>4} {:>6} {:>4} {:>12.0} {:>12.2} {:>12.2} {:>6}",
            work.workload,
            open.map_or_else(String::new, |open| open.to_string()),
            cache.kib,
            cache.ways,
            counts.instructions,
            counts.instruction_misses,
            counts.mispredictions,
            team
        );
        Ok(())
    };
    let title = |text: &str| {
        println!("\n{text}, counts per transaction");
        println!(
            "{:<10} {:<12} {:>4} {:>6} {:>4} {:>12} {:>12} {:>12} {:>6}",
            "workload", "mode", "open", "KiB", "ways", "instructions", "code misses", "mispredicted", "team"
        );
    };
    title("index fetch by the number of open transactions");
    line(&FETCH, "naive", None, TODAY)?;
    for open in [2, 5, 10, 20] {
        for mode in ["interleaved", "teams"] {
            line(&FETCH, mode, Some(open), TODAY)?;
        }
    }
    title("index fetch by the instruction cache");
    let caches = SIZES.map(|kib| CodeCache { kib, ways: 4 }).into_iter();
    for cache in caches.chain(WAYS.map(|ways| CodeCache { kib: 16, ways })) {
        line(&FETCH, "naive", None, cache)?;
        line(&FETCH, "interleaved", Some(10), cache)?;
        line(&FETCH, "teams", Some(10), cache)?;
    }
    for work in &MIXES {
        title(&format!("TPC-C, {}, by the instruction cache", work.workload));
        for kib in SIZES {
            for mode in ["naive", "interleaved", "teams"] {
                line(work, mode, None, CodeCache { kib, ..TODAY })?;
            }
        }
    }
    Ok(())
}

/// Runs a program once. Returns its counts, and the mean size of its teams if the program reports it.
fn counted(
    program: &Path,
    work: &Work,
    which: usize,
    mode: &str,
    open: Option<u32>,
    CodeCache { kib, ways }: CodeCache,
) -> Result<(Counts, String), String> {
    let mut run = Command::new(program);
    run.args([work.workload, mode, &work.transactions[which].to_string()]);
    run.args(open.map(|open| open.to_string()));
    let cache = format!("--I1={},{ways},64", kib << 10);
    let (counts, words) = callgrind(&["--branch-sim=yes", &cache], &run)?;
    let team = words.lines().find_map(|line| line.strip_suffix(" transactions in a team"));
    Ok((counts, team.unwrap_or("").to_owned()))
}
