//! `braid-lab check crash`: simulates crashes at every operation, corrupts files of closed databases, and kills
//! processes.

mod kill;

use crate::parallel::in_order;
use crate::sim::{Schemes, schemes};
use braid_bench::text::grouped;
use braid_sim::crash::{
    CORRUPTIONS_PER_SEED, Corruptions, Failure, Mistake, Place, Report, Settings, check_corruptions,
};
use braid_sim::{Kind, Scheme};
use braiddb::{IndexKind, SchemeName};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
pub use kill::{ChildArgs, child};
use kill::{Kills, kill};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `braid-lab check crash`.
#[derive(Args, Debug)]
pub struct CrashArgs {
    /// Simulated crash states to recover from
    #[arg(long, default_value_t = 20_000)]
    states: u64,
    /// Corruptions of closed databases: files deleted, cut off, overwritten, exchanged
    #[arg(long, default_value_t = 2_000)]
    corruptions: u64,
    /// Processes to kill
    #[arg(long, default_value_t = 60)]
    kills: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Replay one simulated crash of the seed, given as boundary:seed as a failure prints it
    #[arg(long, conflicts_with_all = ["states", "corruptions", "kills", "json"])]
    replay: Option<Place>,
    /// The scheme of concurrency control; with `all`, the schemes take turns
    #[arg(long, default_value = SchemeName::default().name(), value_parser = schemes)]
    cc: Schemes,
    /// The kind of index of tables: masstree, btree, bwtree, cuckoo or hopscotch [default: the first three take turns]
    #[arg(long)]
    index: Option<IndexKind>,
    /// The directory for the databases of killed processes [default: the system's directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The number of seeds that one scheme runs before the next scheme takes over.
const SEEDS_PER_SCHEME: u64 = 8;

/// Runs the command. Any loss is an error, reported after everything is printed.
pub fn crash(args: &CrashArgs) -> Result<(), Box<dyn Error>> {
    if let Some(place) = &args.replay {
        let report = scheme(args, args.seed).replay_crash(&settings(args, args.seed), place);
        let report = report.map_err(|failure| failure.to_string())?;
        println!("nothing is lost there, in {} recoveries", report.recoveries);
        return Ok(());
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let bar = progress(args);
    let (report, failure) = look(args, threads, &bar);
    let simulated = start.elapsed();
    let (corruptions, unnoticed) = corrupt(args, threads, &bar);
    let corrupted = start.elapsed();
    let kills = match args.kills {
        0 => Kills::default(),
        _ => kill(args.directory.as_deref(), args.kills, args.seed, &kinds(args), &bar)?,
    };
    bar.finish_and_clear();
    let elapsed = start.elapsed();
    let findings = Findings { report, failure, corruptions, unnoticed, kills, simulated, corrupted, elapsed };
    findings.print(args, &mut io::stdout().lock())?;
    match findings.lost(args).len() {
        0 => Ok(()),
        lost => Err(format!("{lost} lost").into()),
    }
}

/// The settings of a seed's simulation.
fn settings(args: &CrashArgs, seed: u64) -> Settings {
    let settings = Settings::seeded(seed);
    Settings { kind: args.index.map_or(settings.kind, Kind::from), ..settings }
}

/// The scheme that a seed runs under. The kinds of index take turns in shorter steps.
fn scheme(args: &CrashArgs, seed: u64) -> &Scheme {
    let all = &args.cc.0;
    &all[(seed / SEEDS_PER_SCHEME) as usize % all.len()]
}

/// The kinds of the databases whose processes are killed.
fn kinds(args: &CrashArgs) -> Vec<Kind> {
    let index = args.index.unwrap_or_default();
    args.cc.0.iter().map(|scheme| Kind { scheme: scheme.name, index }).collect()
}

/// A progress bar on the terminal, if there is one.
fn progress(args: &CrashArgs) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
    let bar = ProgressBar::new(args.states + args.corruptions + args.kills);
    bar.with_style(style.expect("the template is well formed")).with_message("crash states")
}

/// Checks all states, seed by seed, up to the first seed with a failure.
fn look(args: &CrashArgs, threads: usize, bar: &ProgressBar) -> (Report, Option<Failure>) {
    let of_seed = Settings::seeded(args.seed).states;
    let work = |piece: u64| {
        let seed = args.seed.saturating_add(piece);
        let states = of_seed.min(args.states - piece * of_seed);
        let settings = Settings { states, ..settings(args, seed) };
        let result = caught(seed, || scheme(args, seed).check_crashes(&settings));
        bar.inc(states);
        result
    };
    let all = in_order(args.states.div_ceil(of_seed), threads, work, Result::is_err);
    let (mut report, mut failure) = (Report::default(), None);
    for result in all {
        match result {
            Ok(more) => report = report.plus(more),
            Err(found) => failure = failure.or(Some(*found)),
        }
    }
    (report, failure)
}

/// Corrupts closed databases, seed by seed, up to the first seed with a loss.
fn corrupt(args: &CrashArgs, threads: usize, bar: &ProgressBar) -> (Corruptions, Option<Failure>) {
    bar.set_message("corruptions");
    let work = |piece: u64| {
        let seed = args.seed.saturating_add(piece);
        let count = CORRUPTIONS_PER_SEED.min(args.corruptions - piece * CORRUPTIONS_PER_SEED);
        let result = caught(seed, || check_corruptions(seed, count, Mistake::None));
        bar.inc(count);
        result
    };
    let all = in_order(args.corruptions.div_ceil(CORRUPTIONS_PER_SEED), threads, work, Result::is_err);
    let (mut report, mut failure) = (Corruptions::default(), None);
    for result in all {
        match result {
            Ok(more) => report = report.plus(more),
            Err(found) => failure = failure.or(Some(*found)),
        }
    }
    (report, failure)
}

/// Turns a panic into a failure.
fn caught<R>(seed: u64, check: impl FnOnce() -> Result<R, Box<Failure>>) -> Result<R, Box<Failure>> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| {
        let what = "the engine, or the check, has panicked".to_string();
        Err(Box::new(Failure { seed, place: Place::default(), after: String::new(), what }))
    })
}

/// The results of all checks.
#[derive(Debug)]
struct Findings {
    report: Report,
    failure: Option<Failure>,
    corruptions: Corruptions,
    /// The first corruption that was not noticed.
    unnoticed: Option<Failure>,
    kills: Kills,
    /// The time up to the end of the simulations, and up to the end of the corruptions.
    simulated: Duration,
    corrupted: Duration,
    elapsed: Duration,
}

impl Findings {
    /// Everything that is wrong, in words, and how to reproduce it.
    fn lost(&self, args: &CrashArgs) -> Vec<(String, String)> {
        let command = self.failure.as_ref().map_or_else(String::new, |failure| {
            format!("braid-lab check crash --cc {}", scheme(args, failure.seed).name)
        });
        let again = |failure: &Failure| match failure.place.crashes().len() {
            0 => format!("{command} --seed {} --states 1 --corruptions 0 --kills 0", failure.seed),
            _ => format!("{command} --seed {} --replay {}", failure.seed, failure.place),
        };
        let simulated = self.failure.iter().map(|failure| (failure.to_string(), again(failure)));
        let corrupted = self.unnoticed.iter().map(|failure| {
            let (seed, count) = (failure.seed, CORRUPTIONS_PER_SEED);
            let again =
                format!("braid-lab check crash --seed {seed} --states 0 --corruptions {count} --kills 0");
            (failure.to_string(), again)
        });
        simulated.chain(corrupted).chain(self.kills.lost.iter().cloned()).collect()
    }

    fn print(&self, args: &CrashArgs, to: &mut impl Write) -> io::Result<()> {
        if args.json {
            return writeln!(to, "{:#}", self.json(args));
        }
        let Findings { report, corruptions, kills, .. } = self;
        writeln!(
            to,
            "{} crash states in {} lives of {} transactions, {} recoveries, {} from a checkpoint; \
             {} faults of the disk, {} damaged checkpoints",
            grouped(report.states),
            grouped(report.lives),
            grouped(report.transactions),
            grouped(report.recoveries),
            grouped(report.checkpoints),
            grouped(report.faults),
            grouped(report.fallbacks)
        )?;
        writeln!(
            to,
            "{} corruptions of closed databases: {} had all, {} of them with an older checkpoint; {} were refused \
             with the damage named",
            grouped(corruptions.corruptions),
            grouped(corruptions.whole),
            grouped(corruptions.replaced),
            grouped(corruptions.refused)
        )?;
        if kills.is_possible || args.kills == 0 {
            writeln!(
                to,
                "{} processes killed, {} of them while a checkpoint was written, and {} after their directory was renamed; \
                 {} transactions acknowledged",
                grouped(kills.kills),
                grouped(kills.in_checkpoints),
                grouped(kills.renamed),
                grouped(kills.acknowledged)
            )?;
        } else {
            writeln!(to, "no process was killed: this system cannot, so that is not checked")?;
        }
        for (what, again) in self.lost(args) {
            writeln!(to, "\n{what}\nsee it again: {again}\n")?;
        }
        let (lost, seconds) = (self.lost(args).len(), self.elapsed.as_secs_f64());
        writeln!(to, "{lost} lost, {seconds:.1} s")
    }

    fn json(&self, args: &CrashArgs) -> Value {
        let lost = self.lost(args);
        let failures: Vec<Value> =
            lost.iter().map(|(what, again)| json!({ "what": what, "again": again })).collect();
        json!({
            "simulated": {
                "states": self.report.states,
                "recoveries": self.report.recoveries,
                "lives": self.report.lives,
                "transactions": self.report.transactions,
                "from_checkpoints": self.report.checkpoints,
                "faults": self.report.faults,
                "damaged_checkpoints": self.report.fallbacks,
                "torn_logs": self.report.torn,
                "trace": format!("{:016x}", self.report.trace),
                "seconds": self.simulated.as_secs_f64(),
            },
            "corrupted": {
                "corruptions": self.corruptions.corruptions,
                "with_a_log": self.corruptions.logged,
                "whole": self.corruptions.whole,
                "with_an_older_checkpoint": self.corruptions.replaced,
                "refused": self.corruptions.refused,
                "seconds": (self.corrupted - self.simulated).as_secs_f64(),
            },
            "killed": {
                "is_possible": self.kills.is_possible,
                "kills": self.kills.kills,
                "in_checkpoints": self.kills.in_checkpoints,
                "renamed": self.kills.renamed,
                "acknowledged": self.kills.acknowledged,
                "seconds": (self.elapsed - self.corrupted).as_secs_f64(),
            },
            "failures": failures,
            "lost": lost.len(),
            "seconds": self.elapsed.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: CrashArgs,
    }

    fn parsed(line: &str) -> CrashArgs {
        Alone::try_parse_from(line.split(' ')).unwrap().args
    }

    fn looked(line: &str, threads: usize) -> Findings {
        let bar = ProgressBar::hidden();
        let (report, failure) = look(&parsed(line), threads, &bar);
        let (corruptions, unnoticed) = corrupt(&parsed(line), threads, &bar);
        let (simulated, kills) = (Duration::from_secs(2), Kills::default());
        let (corrupted, elapsed) = (simulated, simulated);
        Findings { report, failure, corruptions, unnoticed, kills, simulated, corrupted, elapsed }
    }

    fn printed(findings: &Findings, line: &str) -> String {
        let mut text = Vec::new();
        findings.print(&parsed(line), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Proves that the requested number of states is checked, and that the result does not depend on the number of
    /// threads.
    #[test]
    fn states_are_counted() {
        let line = "crash --states 260 --corruptions 50 --kills 0 --seed 5";
        let findings = looked(line, 1);
        assert_eq!((findings.report.states, findings.failure.clone()), (260, None));
        assert_eq!(findings.report, looked(line, 2).report);
        let text = printed(&findings, line);
        assert!(text.starts_with("260 crash states in ") && text.ends_with("\n0 lost, 2.0 s\n"), "{text}");
        let json: Value = serde_json::from_str(&printed(&findings, &format!("{line} --json"))).unwrap();
        assert_eq!((&json["simulated"]["states"], &json["lost"]), (&json!(260), &json!(0)));
        assert_eq!(json["corrupted"]["corruptions"], json!(50));
        assert_eq!(findings.corruptions, looked(line, 2).corruptions);
    }

    /// Proves that a loss is printed with the command line that reproduces it.
    #[test]
    fn losses_are_shown() {
        let failure = |place: &str| Failure {
            seed: 7,
            place: place.parse().unwrap_or_default(),
            after: "boundary 3".into(),
            what: "transaction 2 is lost".into(),
        };
        let mut findings = looked("crash --states 1 --corruptions 0", 1);
        for (place, again) in [("3:9", "--replay 3:9"), ("", "--states 1 --corruptions 0 --kills 0")] {
            findings.failure = Some(failure(place));
            let text = printed(&findings, "crash --cc silo");
            assert!(text.contains("transaction 2 is lost"), "{text}");
            assert!(
                text.contains(&format!("see it again: braid-lab check crash --cc silo --seed 7 {again}\n")),
                "{text}"
            );
            assert!(text.ends_with("1 lost, 2.0 s\n"), "{text}");
        }
        (findings.failure, findings.unnoticed) = (None, Some(failure("")));
        let text = printed(&findings, "crash");
        assert!(text.contains("--seed 7 --states 0 --corruptions 40 --kills 0\n"), "{text}");
        assert!(crash(&parsed("crash --replay 3:9")).is_ok());
        assert!(crash(&parsed("crash --replay 999999:9")).is_err());
    }
}
