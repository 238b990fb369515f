//! `braid-lab check isolation`: runs the known anomalies in every interleaving, random scripts, and simulated
//! histories.

use crate::parallel::in_order;
use crate::sim::{Schemes, replay, schemes};
use braid_bench::text::grouped;
use braid_sim::script::{Failure, RandomReport, SPECS, SpecReport, check_random, check_script, spec};
use braid_sim::{Isolation, Report, Scheme, Settings, Violation, WorkloadId};
use braiddb::{IndexKind, SchemeName};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `braid-lab check isolation`.
#[derive(Args, Debug)]
pub struct IsolationArgs {
    /// The scheme of concurrency control, which sets the guarantee to check; with `all`, every scheme in turn
    #[arg(long, alias = "scheme", default_value = SchemeName::default().name(), value_parser = schemes)]
    cc: Schemes,
    /// The kind of index of all tables, which are scanned: masstree, btree or bwtree
    #[arg(long, default_value = "masstree", value_parser = crate::ordered_index)]
    index: IndexKind,
    /// The known anomalies to run in every interleaving [default: all]
    #[arg(long, value_delimiter = ',', value_parser = spec_name)]
    spec: Vec<&'static str>,
    /// Maximum number of interleavings per known anomaly, evenly spread [default: all]
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..))]
    interleavings: u64,
    /// Random scripts under each scheme, one seed each
    #[arg(long, default_value_t = 100_000)]
    random: u64,
    /// Simulations of each workload, one seed each
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed of scripts and simulations
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl IsolationArgs {
    /// The schemes, with the requested index on all tables.
    fn schemes(&self) -> impl ExactSizeIterator<Item = Scheme> {
        self.cc.0.iter().map(|scheme| scheme.indexed_by(self.index))
    }
}

fn spec_name(name: &str) -> Result<&'static str, String> {
    let mut names = SPECS.iter().map(|(known, _)| *known);
    names.find(|known| *known == name).ok_or_else(|| format!("there is no spec {name} in crates/sim/specs"))
}

/// Random scripts in a piece of work.
const SCRIPTS_PER_PIECE: u64 = 500;
/// Transactions of a simulation.
const TRANSACTIONS: u64 = 500;
/// The maximum number of failures that are printed.
const SHOWN_MAX: usize = 5;

/// Runs the command. A broken promise is an error, reported after everything is printed.
pub fn isolation(args: &IsolationArgs) -> Result<(), Box<dyn Error>> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (bar, mut broken, mut all) = (progress(args), 0, Vec::new());
    for scheme in args.schemes() {
        let start = Instant::now();
        let findings = find(args, scheme, threads, &bar);
        broken += findings.broken().len();
        match args.json {
            true => all.push(findings.json(start.elapsed())),
            false => bar.suspend(|| findings.print(start.elapsed(), &mut io::stdout().lock()))?,
        }
    }
    bar.finish_and_clear();
    if args.json {
        let (one, many) = (all.len() == 1, Value::Array(all));
        println!("{:#}", if one { &many[0] } else { &many });
    }
    match broken {
        0 => Ok(()),
        1 => Err("1 promise was broken".into()),
        many => Err(format!("{many} promises were broken").into()),
    }
}

/// A progress bar on the terminal, if there is one. It counts pieces of work.
fn progress(args: &IsolationArgs) -> ProgressBar {
    let of_one =
        specs(args).len() as u64 + args.random.div_ceil(SCRIPTS_PER_PIECE) + runs(args).count() as u64;
    let pieces = args.schemes().len() as u64 * of_one;
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
    ProgressBar::new(pieces).with_style(style.expect("the template is well formed"))
}

/// The results under one scheme.
#[derive(Debug)]
struct Findings {
    scheme: Scheme,
    specs: SpecReport,
    random: RandomReport,
    /// The sum over all histories.
    histories: Report,
    workloads: usize,
    violations: Vec<Violation>,
}

/// Runs all requested checks under one scheme.
fn find(args: &IsolationArgs, scheme: Scheme, threads: usize, bar: &ProgressBar) -> Findings {
    let say = |what: &str| bar.set_message(format!("{what} under {}", scheme.name));
    say("specs");
    let specs = check_specs(args, scheme, threads, bar);
    say("random scripts");
    let random = check_scripts(args, scheme, threads, bar);
    say("histories");
    let mut findings =
        Findings { scheme, specs, random, histories: Report::default(), workloads: 0, violations: vec![] };
    findings.simulate(args, threads, bar);
    findings
}

/// The names of the specs to run.
fn specs(args: &IsolationArgs) -> Vec<&'static str> {
    if args.spec.is_empty() { SPECS.iter().map(|(name, _)| *name).collect() } else { args.spec.clone() }
}

fn check_specs(args: &IsolationArgs, scheme: Scheme, threads: usize, bar: &ProgressBar) -> SpecReport {
    let names = specs(args);
    let check = |piece: u64| {
        let name = names[piece as usize];
        let script =
            spec(name).expect("it is in the table").expect("every spec can be read, as a test shows");
        let mut failures = Vec::new();
        let result = check_script(&scheme, &script, args.interleavings, &mut failures);
        bar.inc(1);
        (result, failures)
    };
    let all = in_order(names.len() as u64, threads, check, |_| false);
    let (specs, failures): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    SpecReport { specs, failures: failures.into_iter().flatten().collect() }
}

/// Checks random scripts, up to the first piece with a failure.
fn check_scripts(args: &IsolationArgs, scheme: Scheme, threads: usize, bar: &ProgressBar) -> RandomReport {
    let seed_end = args.seed.saturating_add(args.random);
    let check = |piece: u64| {
        let first = args.seed + piece * SCRIPTS_PER_PIECE;
        let report = check_random(&scheme, first..seed_end.min(first.saturating_add(SCRIPTS_PER_PIECE)));
        bar.inc(1);
        report
    };
    let pieces = (seed_end - args.seed).div_ceil(SCRIPTS_PER_PIECE);
    let all = in_order(pieces, threads, check, |report| !report.failures.is_empty());
    all.into_iter().fold(RandomReport::default(), RandomReport::plus)
}

/// The simulations: every workload that records a history, from every seed.
fn runs(args: &IsolationArgs) -> impl Iterator<Item = (WorkloadId, Settings)> {
    let seeds = args.seed..args.seed.saturating_add(args.seeds);
    seeds.flat_map(|seed| {
        let settings = Settings { seed, transactions: TRANSACTIONS, ..Settings::default() };
        WorkloadId::all().filter(|workload| workload.is_recorded()).map(move |workload| (workload, settings))
    })
}

impl Findings {
    fn simulate(&mut self, args: &IsolationArgs, threads: usize, bar: &ProgressBar) {
        let runs: Vec<_> = runs(args).collect();
        let simulate = |piece: u64| {
            let (workload, settings) = &runs[piece as usize];
            let result = self.scheme.run(*workload, settings);
            bar.inc(1);
            result
        };
        for result in in_order(runs.len() as u64, threads, simulate, |_| false) {
            match result {
                Ok(report) => self.histories = self.histories.plus(report),
                Err(violation) => self.violations.push(violation),
            }
        }
        self.workloads = WorkloadId::all().filter(|workload| workload.is_recorded()).count();
    }

    /// Everything that is wrong, in words, and the command line that reproduces it.
    fn broken(&self) -> Vec<(String, String)> {
        let command = {
            let Scheme { name, index, .. } = self.scheme;
            format!("braid-lab check isolation --cc {name} --index {}", index.name())
        };
        let script = |failure: &Failure| {
            let again = match failure.seed {
                Some(seed) => format!("{command} --seed {seed} --random 1 --seeds 0"),
                None => {
                    let name = failure.script.trim_end_matches(".spec");
                    format!("{command} --spec {name} --random 0 --seeds 0")
                }
            };
            (failure.to_string(), again)
        };
        let history = |violation: &Violation| {
            let settings =
                Settings { seed: violation.seed, transactions: TRANSACTIONS, ..Settings::default() };
            (violation.to_string(), replay(self.scheme, violation, &settings))
        };
        let scripts = self.specs.failures.iter().chain(&self.random.failures).map(script);
        scripts.chain(self.violations.iter().map(history)).collect()
    }

    /// Runs of specs that no serial order in real time explains.
    fn spec_anomalies(&self) -> u64 {
        self.specs.specs.iter().map(|spec| spec.anomalies + spec.stale).sum()
    }

    /// Runs of random scripts that no serial order in real time explains.
    fn random_anomalies(&self) -> u64 {
        self.random.anomalies + self.random.stale
    }

    /// The groups of transactions, in all histories, that no serial order in real time explains, plus the histories
    /// that break a promise.
    fn history_anomalies(&self) -> u64 {
        self.histories.anomalies + self.violations.len() as u64
    }

    fn print(&self, elapsed: Duration, to: &mut impl Write) -> io::Result<()> {
        let broken = self.broken();
        self.print_counts(to)?;
        for (what, again) in broken.iter().take(SHOWN_MAX) {
            writeln!(to, "\n{what}\nsee it again: {again}\n")?;
        }
        let models: Vec<String> = self.scheme.isolation.models().iter().map(ToString::to_string).collect();
        let verdict = if broken.is_empty() { "as promised" } else { "NOT as promised" };
        let seconds = elapsed.as_secs_f64();
        writeln!(to, "{}: {verdict} ({}), {seconds:.1} s", self.scheme.name, models.join(", "))
    }

    fn print_counts(&self, to: &mut impl Write) -> io::Result<()> {
        let anomalies = |count: u64| match self.scheme.isolation {
            Isolation::Serial | Isolation::Serializable => format!("{} anomalies", grouped(count)),
            Isolation::Snapshot => format!("{} anomalies, which snapshot isolation allows", grouped(count)),
        };
        writeln!(
            to,
            "{} specs, {} interleavings, {} runs, {}",
            grouped(self.specs.specs.len() as u64),
            grouped(self.specs.interleavings()),
            grouped(self.specs.runs()),
            anomalies(self.spec_anomalies())
        )?;
        writeln!(
            to,
            "{} random scripts, {} transactions committed, {} gave way, {}",
            grouped(self.random.scripts),
            grouped(self.random.committed),
            grouped(self.random.aborted),
            anomalies(self.random_anomalies())
        )?;
        writeln!(
            to,
            "{} histories of {} workloads, {} transactions, {}",
            grouped(self.histories.histories + self.violations.len() as u64),
            self.workloads,
            grouped(self.histories.transactions),
            anomalies(self.history_anomalies())
        )
    }

    fn json(&self, elapsed: Duration) -> Value {
        let broken = self.broken();
        let failures: Vec<Value> =
            broken.iter().map(|(what, again)| json!({ "what": what, "again": again })).collect();
        json!({
            "scheme": self.scheme.name.name(),
            "index": self.scheme.index.name(),
            "models": self.scheme.isolation.models(),
            "specs": {
                "specs": self.specs.specs.len(),
                "interleavings": self.specs.interleavings(),
                "runs": self.specs.runs(),
                "anomalies": self.spec_anomalies(),
            },
            "random": {
                "scripts": self.random.scripts,
                "committed": self.random.committed,
                "gave_way": self.random.aborted,
                "anomalies": self.random_anomalies(),
            },
            "histories": {
                "histories": self.histories.histories + self.violations.len() as u64,
                "workloads": self.workloads,
                "transactions": self.histories.transactions,
                "anomalies": self.history_anomalies(),
            },
            "failures": failures,
            "holds": broken.is_empty(),
            "seconds": elapsed.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: IsolationArgs,
    }

    fn parsed(flags: &str) -> IsolationArgs {
        Alone::try_parse_from(flags.split_whitespace()).unwrap().args
    }

    /// The output of the findings, with a constant elapsed time.
    fn printed(findings: &Findings) -> String {
        let mut printed = Vec::new();
        findings.print(Duration::from_secs(2), &mut printed).unwrap();
        String::from_utf8(printed).unwrap()
    }

    /// The findings under the first requested scheme.
    fn found(args: &IsolationArgs, threads: usize) -> Findings {
        find(args, args.schemes().next().unwrap(), threads, &ProgressBar::hidden())
    }

    /// Proves that a scheme of each guarantee keeps its promises, that anomalies which snapshot isolation allows are
    /// counted and are no failure, and that the number of threads changes nothing.
    #[test]
    fn promises_are_kept() {
        for scheme in ["serializable", "timestamp", "snapshot"].map(|name| Scheme::named(name).unwrap()) {
            let args =
                parsed(&format!("isolation --cc {} --spec g1c,p4 --random 1200 --seeds 2", scheme.name));
            let findings = found(&args, 2);
            let text = printed(&findings);
            assert_eq!(text, printed(&found(&args, 1)));
            let anomalies =
                [findings.spec_anomalies(), findings.random_anomalies(), findings.history_anomalies()];
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[0].starts_with("2 specs, 40 interleavings, 80 runs, "), "{text}");
            assert!(lines[1].starts_with("1,200 random scripts, "), "{text}");
            assert!(lines[2].starts_with("18 histories of 9 workloads, 9,000 transactions, "), "{text}");
            let (ending, models) = match scheme.isolation {
                Isolation::Serializable => (" 0 anomalies", "strict serializable, snapshot isolation"),
                Isolation::Serial => (" 0 anomalies", "strict serializable"),
                Isolation::Snapshot => {
                    assert!(anomalies.iter().all(|count| *count > 0), "{anomalies:?}");
                    (" anomalies, which snapshot isolation allows", "snapshot isolation")
                }
            };
            assert!(lines[..3].iter().all(|line| line.ends_with(ending)), "{text}");
            assert_eq!(lines[3..], [format!("{}: as promised ({models}), 2.0 s", scheme.name)]);
        }
    }

    /// Proves that broken promises of each kind are found, and printed with a command line that reproduces them.
    #[test]
    fn broken_promises_are_shown() {
        let claims = |flags: &str| {
            let mut args = parsed(&format!("isolation --cc snapshot {flags}"));
            args.cc.0[0] = args.cc.0[0].judged_by(Isolation::Serializable);
            found(&args, 2)
        };
        let findings = claims("--spec g2 --random 100 --seeds 1");
        let kinds =
            [findings.specs.failures.len(), findings.random.failures.len(), findings.violations.len()];
        assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
        let (broken, text) = (findings.broken(), printed(&findings));
        assert_eq!(broken.len(), kinds.iter().sum::<usize>());
        assert!(
            text.contains(&broken[0].0) && text.contains("see it again: braid-lab check isolation"),
            "{text}"
        );
        assert!(
            text.ends_with("snapshot: NOT as promised (strict serializable, snapshot isolation), 2.0 s\n"),
            "{text}"
        );

        let (what, again) = &broken[0];
        let command = "braid-lab check isolation --cc snapshot --index masstree";
        assert_eq!(*again, format!("{command} --spec g2 --random 0 --seeds 0"), "{what}");
        let (what, again) = &broken[kinds[0]];
        let flags = again.split_once("snapshot ").unwrap().1.to_string() + " --spec g2";
        assert_eq!(&claims(&flags).random.failures[0].to_string(), what, "{again}");
        let (what, again) = broken.last().unwrap();
        assert!(what.contains(": seed ") && again.starts_with("braid-lab sim --cc snapshot "), "{again}");
    }

    /// Proves that a limit selects interleavings from the first to the last, and that they need not contain an anomaly.
    #[test]
    fn interleavings_are_limited() {
        let counts = |flags: &str| {
            let args = parsed(&format!("isolation --cc snapshot --random 0 --seeds 0 {flags}"));
            let findings = found(&args, 2);
            assert!(findings.broken().is_empty(), "{flags}");
            (findings.specs.interleavings(), findings.spec_anomalies())
        };
        let all = counts("--spec g2,p4");
        assert_eq!(all, counts("--spec g2,p4 --interleavings 1000000"));
        let some = counts("--spec g2,p4 --interleavings 7");
        assert!((8..=14).contains(&some.0) && some.1 < all.1, "{some:?} of {all:?}");
        assert_eq!(counts("--spec g2,p4 --interleavings 1"), (2, 0));
    }

    /// Proves that all specs run if none is named, that all schemes can be requested at once, and that errors about
    /// unknown names list the known names.
    #[test]
    fn specs_and_schemes_are_named() {
        assert_eq!(parsed("isolation --cc all").schemes().len(), SchemeName::ALL.len());
        assert_eq!(parsed("isolation --scheme silo").schemes().next().unwrap().name, SchemeName::Silo);
        let error = Alone::try_parse_from(["isolation", "--cc", "none"]).err().unwrap().to_string();
        let names: Vec<&str> = SchemeName::ALL.iter().map(|scheme| scheme.name()).collect();
        assert!(
            error.contains(&format!("unknown scheme \"none\": expected one of {}, all", names.join(", "))),
            "{error}"
        );
        assert_eq!(specs(&parsed("isolation")).len(), SPECS.len());
        assert_eq!(specs(&parsed("isolation --spec g2,p4")), ["g2", "p4"]);
        assert!(Alone::try_parse_from(["isolation", "--spec", "g3"]).is_err());
    }

    /// Proves that the JSON has the counts, the failures and the verdict, and that seeds make a difference.
    #[test]
    fn counts_are_printed_as_json() {
        let json = |seed| -> Value {
            let args = parsed(&format!("isolation --json --spec p4 --random 50 --seeds 1 --seed {seed}"));
            found(&args, 1).json(Duration::from_secs(2))
        };
        let (first, second) = (json(0), json(1000));
        assert_eq!(first["specs"], second["specs"]);
        assert_ne!(first["random"], second["random"]);
        assert_eq!((&first["random"]["scripts"], &first["histories"]["histories"]), (&json!(50), &json!(9)));
        assert_eq!((&first["holds"], &first["failures"]), (&json!(true), &json!([])));
        assert_eq!(first["models"], json!(["strict_serializable", "snapshot_isolation"]));
    }
}
