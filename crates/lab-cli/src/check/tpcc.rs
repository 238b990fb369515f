//! `braid-lab check tpcc`: runs TPC-C in every mix and mode under every scheme, and checks its consistency conditions
//! after each run.

use braid_bench::args::{DurabilityKind, Mode, processors};
use braid_bench::scheme::Cc;
use braid_bench::tpcc::{Mix, Run, RunPlan, Scale, run_all};
use braiddb::IndexKind;
use clap::Args;
use serde_json::json;
use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `braid-lab check tpcc`.
#[derive(Args, Debug)]
pub struct TpccArgs {
    /// Number of warehouses
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    warehouses: u32,
    /// Load the specification's numbers of customers and items instead of a small database
    #[arg(long)]
    full_size: bool,
    /// The schemes of concurrency control [default: all]
    #[arg(long, alias = "isolation", value_delimiter = ',')]
    cc: Vec<Cc>,
    /// The durability: what a crash of the machine leaves. A database that is not only in memory is closed after each
    /// run and opened again, and the conditions are checked on the recovered database
    #[arg(long, default_value = "memory", value_delimiter = ',')]
    durability: Vec<DurabilityKind>,
    /// The kind of index of all tables, which are scanned: masstree, btree or bwtree
    #[arg(long, default_value = "masstree", value_parser = crate::ordered_index)]
    index: IndexKind,
    /// The directory in which durable databases are created, and removed afterwards [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The mixes of transactions [default: all]
    #[arg(long, value_delimiter = ',')]
    mix: Vec<Mix>,
    /// The execution modes
    #[arg(long, default_value = "naive,prefetch,interleaved,hybrid,auto", value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Worker threads [default: one per processor, and at least two]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Open transactions per worker in the interleaved modes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// Transactions per worker and run
    #[arg(long, default_value = "2000")]
    transactions: NonZeroU64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print a JSON object per run
    #[arg(long)]
    json: bool,
}

/// Runs the command. A violated condition is an error, reported after everything is printed.
pub fn tpcc(args: &TpccArgs) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let scale = if args.full_size { Scale::full(args.warehouses) } else { Scale::small(args.warehouses) };
    let plan = RunPlan {
        scale,
        cc: if args.cc.is_empty() { Cc::ALL.to_vec() } else { args.cc.clone() },
        durability: args.durability.clone(),
        index: args.index,
        directory: args.directory.clone().unwrap_or_else(std::env::temp_dir),
        mix: if args.mix.is_empty() { Mix::ALL.to_vec() } else { args.mix.clone() },
        mode: args.mode.clone(),
        workers: args.workers.map_or(processors().max(2), usize::from),
        batch: usize::from(args.batch),
        transactions: args.transactions.get(),
        seed: args.seed,
    };
    // Runs are printed as they end. A write error is reported at the end.
    let mut broken_pipe = None;
    let runs = run_all(&plan, &mut |run| {
        let text = if args.json { line_of_json(run) } else { line(run) };
        broken_pipe = writeln!(io::stdout().lock(), "{text}").err().or(broken_pipe.take());
    })?;
    if let Some(error) = broken_pipe {
        return Err(error.into());
    }
    let broken: usize = runs.iter().map(|run| run.violations.len()).sum();
    if !args.json {
        let (count, seconds) = (runs.len(), start.elapsed().as_secs_f64());
        writeln!(io::stdout().lock(), "{count} runs, {broken} conditions broken, {seconds:.1} s")?;
    }
    match broken {
        0 => Ok(()),
        1 => Err("1 condition does not hold".into()),
        many => Err(format!("{many} conditions do not hold").into()),
    }
}

fn line(run: &Run) -> String {
    let (cc, durability, mode) = (run.cc.name(), run.durability.name(), run.mode.name());
    let commits: u64 = run.commits.iter().map(|(_, commits)| commits).sum();
    let mut text = format!(
        "{cc:12} {durability:6} {:12} {mode:11} {commits:>8} committed {:>6} rolled back {:>8} retried {:>9.0}/s   {}",
        run.mix.name(),
        run.rolled_back,
        run.aborts,
        commits as f64 / run.elapsed.as_secs_f64().max(1e-9),
        if run.violations.is_empty() {
            format!("conditions 1-{} hold", run.conditions)
        } else {
            "BROKEN".into()
        }
    );
    for violation in &run.violations {
        text += &format!("\n    {violation}");
    }
    text
}

fn line_of_json(run: &Run) -> String {
    json!({
        "cc": run.cc.name(),
        "durability": run.durability.name(),
        "mix": run.mix.name(),
        "mode": run.mode.name(),
        "commits": run.commits.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        "rolled_back": run.rolled_back,
        "aborts": run.aborts,
        "seconds": run.elapsed.as_secs_f64(),
        "conditions": run.conditions,
        "violations": run.violations,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_bench::scheme::SchemeKind;
    use clap::ValueEnum;
    use std::time::Duration;

    /// A run with these violations, and otherwise without faults.
    fn run(violations: Vec<String>) -> Run {
        Run {
            cc: Cc { scheme: SchemeKind::Serializable, declares: true },
            durability: DurabilityKind::Async,
            mix: Mix::Reads,
            mode: Mode::Hybrid,
            commits: vec![("order-status", 3), ("stock-level", 4)],
            rolled_back: 5,
            aborts: 6,
            elapsed: Duration::from_millis(500),
            conditions: 12,
            violations,
        }
    }

    #[test]
    fn runs_are_shown() {
        // Proves that a line has the counts, and that violations are shown in text and in JSON.
        let good = line(&run(vec![]));
        assert!(
            good.contains("async  cr") && good.contains("7 committed") && good.contains(" 14/s"),
            "{good}"
        );
        assert!(good.ends_with("conditions 1-12 hold"), "{good}");
        let bad = run(vec!["2. it should: warehouse 1".into()]);
        assert!(line(&bad).contains("BROKEN\n    2. it should: warehouse 1"), "{}", line(&bad));
        let value: serde_json::Value = serde_json::from_str(&line_of_json(&bad)).unwrap();
        assert_eq!(value["violations"][0], "2. it should: warehouse 1");
        assert_eq!((&value["commits"]["stock-level"], &value["mix"]), (&json!(4), &json!("cr")));
        assert_eq!(value["durability"], "async");
    }

    #[test]
    fn all_modes_can_be_checked() {
        // Proves that a small check passes when started from the command line, and that a mode without a form is
        // refused.
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: TpccArgs,
        }
        let parsed = |line: &str| {
            let words = ["tpcc"].into_iter().chain(line.split_whitespace());
            <Line as clap::Parser>::try_parse_from(words).unwrap().args
        };
        assert!(tpcc(&parsed("--warehouses 1 --mix full --transactions 50 --json")).is_ok());
        let error = tpcc(&parsed("--warehouses 1 --mode coro-mk --transactions 1")).unwrap_err();
        assert!(error.to_string().contains("coro-mk"), "{error}");
        assert!(Mode::value_variants().len() > parsed("").mode.len());
    }
}
