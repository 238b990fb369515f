//! `braid-lab sim`: runs the engine under a seeded scheduler, over many seeds or for some hours.

use braid_bench::text::grouped;
use braid_sim::{Report, SCHEMES, Scheme, Settings, Violation, WorkloadId};
use braiddb::{IndexKind, SchemeName};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::time::{Duration, Instant};

/// Arguments of `braid-lab sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// The first seed; the same seed replays exactly
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Seeds per workload, one after another
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Continue with further seeds for this many hours, for example 0.5
    #[arg(long, conflicts_with = "seeds", value_parser = hours)]
    hours: Option<Duration>,
    /// The scheme of concurrency control, which sets the guarantee to check
    #[arg(long = "cc", alias = "scheme", default_value = SchemeName::default().name(), value_parser = scheme)]
    scheme: Scheme,
    /// The kind of index of all tables, which are scanned: masstree, btree or bwtree
    #[arg(long, default_value = "masstree", value_parser = crate::ordered_index)]
    index: IndexKind,
    /// The workloads [default: all]
    #[arg(long, value_delimiter = ',', value_parser = workload)]
    workload: Vec<WorkloadId>,
    /// Workers in the single thread; 0 lets the seed choose from 1 to 3
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Transactions per seed
    #[arg(long, default_value_t = 500)]
    transactions: u64,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| "not a number of hours".to_string())?;
    Duration::try_from_secs_f64(hours * 3600.0).map_err(|error| error.to_string())
}

/// Parses the name of a scheme.
pub fn scheme(name: &str) -> Result<Scheme, String> {
    let names = SCHEMES.iter().map(|scheme| scheme.name.name()).collect();
    Scheme::named(name).ok_or_else(|| unknown("scheme", name, names))
}

/// The schemes that a flag names: one, or all.
#[derive(Clone, Debug)]
pub struct Schemes(pub Vec<Scheme>);

/// The name that stands for all schemes.
const ALL: &str = "all";

/// Parses the name of a scheme, or the name for all schemes.
pub fn schemes(name: &str) -> Result<Schemes, String> {
    if name == ALL {
        return Ok(Schemes(SCHEMES.to_vec()));
    }
    let names = SCHEMES.iter().map(|scheme| scheme.name.name()).chain([ALL]).collect();
    Scheme::named(name).map(|scheme| Schemes(vec![scheme])).ok_or_else(|| unknown("scheme", name, names))
}

fn workload(name: &str) -> Result<WorkloadId, String> {
    let names = WorkloadId::all().map(WorkloadId::name).collect();
    WorkloadId::named(name).ok_or_else(|| unknown("workload", name, names))
}

fn unknown(what: &str, name: &str, known: Vec<&str>) -> String {
    format!("unknown {what} {name:?}: expected one of {}", known.join(", "))
}

/// Runs the workloads over the seeds and prints a line for each workload. Stops at the first violation.
pub fn simulate(args: &SimArgs) -> Result<(), Box<dyn std::error::Error>> {
    let (counts, violation) = play(args, &progress(args));
    for count in &counts {
        println!("{count}");
    }
    match violation {
        None => Ok(()),
        Some(violation) => Err(format!(
            "{violation}\nreplay it: {}",
            replay(args.scheme.indexed_by(args.index), &violation, &settings(args, violation.seed))
        )
        .into()),
    }
}

/// The totals of one workload over all seeds.
#[derive(Debug)]
struct Count {
    workload: WorkloadId,
    is_judged_in_full: bool,
    seeds: u64,
    violations: u64,
    all: Report,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            (self.seeds, "seeds"),
            (self.all.transactions, "transactions"),
            (self.all.commits, "commits"),
            (self.all.conflicts + self.all.refused, "conflicts"),
            (self.all.histories, "histories checked"),
            (self.violations, "violations"),
        ];
        write!(f, "{}:", self.workload.name())?;
        for (i, (number, what)) in numbers.into_iter().enumerate() {
            write!(f, "{} {} {what}", if i > 0 { "," } else { "" }, grouped(number))?;
        }
        write!(f, " (trace {:016x})", self.all.trace)?;
        if self.is_judged_in_full {
            Ok(())
        } else {
            f.write_str(" (without the invariant that needs serializable transactions)")
        }
    }
}

/// Runs every workload with one seed, then with the next, until the seeds or the time run out or there is a violation.
fn play(args: &SimArgs, bar: &ProgressBar) -> (Vec<Count>, Option<Violation>) {
    let all = if args.workload.is_empty() { WorkloadId::all().collect() } else { args.workload.clone() };
    let judged = |workload: WorkloadId| workload.needs() <= args.scheme.isolation;
    let mut counts: Vec<Count> = all
        .into_iter()
        .map(|workload| Count {
            workload,
            is_judged_in_full: judged(workload),
            seeds: 0,
            violations: 0,
            all: Report::default(),
        })
        .collect();
    let start = Instant::now();
    let seed_end = if args.hours.is_some() { u64::MAX } else { args.seed.saturating_add(args.seeds) };
    for seed in args.seed..seed_end {
        for count in &mut counts {
            match args.hours {
                Some(hours) if start.elapsed() >= hours => return (counts, None),
                Some(_) => bar.set_position(start.elapsed().as_secs()),
                None => bar.set_position(seed - args.seed),
            }
            bar.set_message(format!("{}, seed {seed}", count.workload.name()));
            count.seeds += 1;
            match args.scheme.indexed_by(args.index).run(count.workload, &settings(args, seed)) {
                Ok(report) => count.all = count.all.plus(report),
                Err(violation) => {
                    count.violations += 1;
                    return (counts, Some(violation));
                }
            }
        }
    }
    (counts, None)
}

fn settings(args: &SimArgs, seed: u64) -> Settings {
    Settings { seed, workers: args.workers, transactions: args.transactions, ..Settings::default() }
}

/// A progress bar on the terminal, if there is one. It counts seconds if hours are given, otherwise seeds.
fn progress(args: &SimArgs) -> ProgressBar {
    let length = args.hours.map_or(args.seeds, |hours| hours.as_secs());
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
    ProgressBar::new(length).with_style(style.expect("the template is well formed"))
}

/// The command line that reproduces a violation.
pub fn replay(scheme: Scheme, violation: &Violation, settings: &Settings) -> String {
    let Settings { seed, workers, transactions, .. } = settings;
    debug_assert_eq!(*seed, violation.seed);
    format!(
        "braid-lab sim --cc {} --index {} --workload {} --seed {seed} --seeds 1 --workers {workers} --transactions {transactions}",
        scheme.name,
        scheme.index.name(),
        violation.workload
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_sim::Isolation;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SimArgs,
    }

    fn parsed(line: &str) -> Result<SimArgs, clap::Error> {
        Command::try_parse_from(line.split(' ').skip(1)).map(|command| command.args)
    }

    /// Proves that a small simulation of every workload runs to its end.
    #[test]
    fn a_small_simulation() {
        simulate(&parsed("braid-lab sim --seed 1 --seeds 1 --transactions 20").unwrap())
            .expect("no violation");
    }

    /// Proves that a simulation by the hour runs more than one seed, ends in time, and counts its work.
    #[test]
    fn a_simulation_by_the_hour() {
        let args = parsed("braid-lab sim --hours 0.0001 --transactions 5 --workload skew,mixed").unwrap();
        let (start, (counts, violation)) = (Instant::now(), play(&args, &ProgressBar::hidden()));
        assert!(violation.is_none() && start.elapsed() >= args.hours.unwrap());
        assert!(counts.len() == 2 && counts[1].seeds > 1, "{counts:?}");
        let line = counts[0].to_string();
        assert!(line.starts_with("skew: ") && line.contains(" 0 violations (trace "), "{line}");
    }

    /// Proves that a violation is counted, and that the printed command line reproduces it.
    #[test]
    fn a_violation_is_replayed() {
        let mut args = parsed("braid-lab sim --cc snapshot --workload bank,skew --transactions 200").unwrap();
        args.scheme = args.scheme.judged_by(Isolation::Serializable);
        let (counts, violation) = play(&args, &ProgressBar::hidden());
        let violation = violation.expect("snapshot isolation is not serializable");
        assert_eq!((counts[0].violations, counts[1].violations), (0, 1));
        let mut again =
            parsed(&replay(args.scheme.indexed_by(args.index), &violation, &settings(&args, violation.seed)))
                .unwrap();
        again.scheme = args.scheme;
        let (counts, found) = play(&again, &ProgressBar::hidden());
        let found = found.expect("the same seed finds it again");
        assert_eq!((found.seed, found.what), (violation.seed, violation.what));
        assert_eq!(counts[0].seeds, 1);
    }

    /// Proves that errors about unknown names and numbers list the valid ones.
    #[test]
    fn wrong_names_are_refused() {
        for line in ["--cc none", "--cc all", "--workload bank,none", "--hours -1", "--hours 1 --seeds 1"] {
            assert!(parsed(&format!("braid-lab sim {line}")).is_err(), "{line}");
        }
        let error = parsed("braid-lab sim --workload none").unwrap_err().to_string();
        assert!(error.contains("expected one of pairs, bank"), "{error}");
    }
}
