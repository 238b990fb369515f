//! `braid bench paper corobase --figure N`: presets for the figures, and the paper's ratio beside ours.

use crate::args::{BenchCommand, Paper, PaperArgs};
use crate::plan::Plan;
use crate::report::Outcome;
use crate::{Failure, Result, report, runner};
use clap::{FromArgMatches, Subcommand};

/// A figure: what it shows, what the paper says, and the flags that give its shape.
struct Figure {
    number: u32,
    title: &'static str,
    paper: &'static str,
    /// Command lines of `braid bench ycsb`; `{records}` and `{workers}` are filled in.
    runs: &'static [&'static str],
}

const COROBASE: &[Figure] = &[
    Figure {
        number: 5,
        title: "index probes, 10 per request",
        paper: "AMAC-MK up to 2.3 x naive and 2.96 x prefetch (as printed), CORO-MK up to 2.56 x and \
            1.99 x",
        runs: &["--workload probe --records {records} --workers {workers} --mode \
                 naive,prefetch,interleaved"],
    },
    Figure {
        number: 6,
        title: "10 reads per transaction",
        paper: "CoroBase 1.8 x prefetch (1.3 x with hyperthreads), 15-18 % below AMAC-MK; CoroBase-FN \
            1.25 x prefetch",
        runs: &["--workload r10 --records {records} --workers {workers} --batch 8,48 \
             --mode naive,prefetch,amac-mk,coro-mk,coro-fn-mk,corobase-fn,interleaved,hybrid"],
    },
    Figure {
        number: 7,
        title: "reads per transaction",
        paper: "CoroBase above every multi-get at 1-4 reads, and above all but AMAC-MK beyond",
        runs: &["--workload r1,r2,r4,r8,r16,r32,r64 --records {records} --workers {workers} \
             --mode naive,prefetch,amac-mk,coro-mk,interleaved"],
    },
    Figure {
        number: 8,
        title: "10 blind updates; 8 reads and 2 read-modify-writes",
        paper: "updates up to 1.77 x naive and 1.45 x prefetch; the mix gains less",
        runs: &["--workload u10,m --records {records} --workers {workers} --mode \
                 naive,prefetch,interleaved"],
    },
    Figure {
        number: 9,
        title: "scans",
        paper: "the gain diminishes with longer scans until all modes converge",
        runs: &["--workload s1,s10,s100,s1000 --records {records} --workers {workers} --batch 16 --mode \
             naive,prefetch,interleaved"],
    },
    Figure {
        number: 10,
        title: "key and value sizes, 10 reads per transaction",
        paper: "CoroBase keeps its place at every key length and value size; CoroBase-FN loses with \
            long keys",
        runs: &[
            "--workload r10 --records 5M --workers {workers} --key-bytes 8,16,32,64 \
             --mode naive,prefetch,amac-mk,corobase-fn,interleaved",
            "--workload r10 --records 5M --workers {workers} --value-bytes 8,64,256,1024 \
             --mode naive,prefetch,amac-mk,corobase-fn,interleaved",
        ],
    },
    Figure {
        number: 11,
        title: "table sizes, 10 reads per transaction",
        paper: "up to 12.6 % below naive at 10 K records, which the caches hold (nested: up to 50 %); \
            gains grow with size",
        runs: &["--workload r10 --records 10K,100K,1M,10M,{records} --workers {workers} \
             --mode naive,prefetch,amac-mk,coro-fn-mk,corobase-fn,interleaved"],
    },
    Figure {
        number: 12,
        title: "skew: probes, reads, updates, read-modify-writes",
        paper: "all modes gain from skew on reads; updates under high skew contend, and CoroBase falls \
            below prefetch",
        runs: &["--workload probe,r10,u10,rmw10 --records {records} --workers {workers} \
             --theta 0,0.5,0.9,0.99,1.2 --mode naive,prefetch,interleaved"],
    },
    Figure {
        number: 16,
        title: "latency by batch, 8 reads and 2 read-modify-writes",
        paper: "batch 4 is best; beyond it latency grows in proportion to the batch",
        runs: &["--workload m --records {records} --workers {workers} --batch 1,2,4,8,16,32,48 --mode \
             naive,prefetch,interleaved"],
    },
];

/// Runs the preset of a figure.
pub fn run(args: &PaperArgs) -> Result<()> {
    let Paper::Corobase = args.paper;
    let figure = COROBASE.iter().find(|figure| figure.number == args.figure).ok_or_else(|| {
        let numbers: Vec<String> = COROBASE.iter().map(|figure| figure.number.to_string()).collect();
        Failure::new(format!("figure {} has no preset: expected {}", args.figure, numbers.join(", ")))
    })?;
    let title = format!("CoroBase (PVLDB 14(3), 2021), figure {}: {}", figure.number, figure.title);
    println!("{title}");
    let mut outcome: Option<Outcome> = None;
    for flags in figure.runs {
        let line = fill(flags, args);
        println!("braid {line}");
        let one = runner::run(&plan(&line)?)?;
        match &mut outcome {
            None => outcome = Some(one),
            Some(outcome) => outcome.rows.extend(one.rows),
        }
    }
    let outcome = outcome.expect("a figure has at least one run");
    let (json, svg, page) = (args.json.as_deref(), args.svg.as_deref(), args.report.as_deref());
    report::show(&outcome, &report::Outputs { title: &title, json, svg, page })?;
    println!("paper: {}", figure.paper);
    println!("ours:  {}", best_ratios(&outcome));
    Ok(())
}

fn fill(flags: &str, args: &PaperArgs) -> String {
    let line =
        flags.replace("{records}", &args.records.to_string()).replace("{workers}", &args.workers.to_string());
    format!("bench ycsb {line} --seconds {}", args.seconds)
}

/// The plan of a command line that begins with `bench ycsb`.
pub(crate) fn plan(line: &str) -> Result<Plan> {
    let words = line.split_whitespace();
    let command = BenchCommand::augment_subcommands(clap::Command::new("bench"));
    let parsed = command.try_get_matches_from(words).and_then(|found| BenchCommand::from_arg_matches(&found));
    match parsed {
        Ok(BenchCommand::Ycsb(args)) => Plan::new(&args),
        Ok(_) => Err(Failure::new("a preset runs nothing but ycsb")),
        Err(error) => Err(Failure::new(format!("the preset is wrong: {error}"))),
    }
}

/// Per mode, the lowest and the highest ratio to the first mode of its group.
fn best_ratios(outcome: &Outcome) -> String {
    let mut ranges: Vec<(&str, f64, f64)> = Vec::new();
    for row in &outcome.rows {
        let Some(ratio) = outcome.ratio(row) else { continue };
        let name = row.variant.mode.name();
        match ranges.iter_mut().find(|range| range.0 == name) {
            Some((_, low, high)) => (*low, *high) = (low.min(ratio), high.max(ratio)),
            None => ranges.push((name, ratio, ratio)),
        }
    }
    let parts = ranges.iter().skip(1).map(|(name, low, high)| format!("{name} {low:.2}-{high:.2} x"));
    let first = ranges.first().map_or("", |range| range.0);
    format!("{} of {first}", parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_command_line() {
        // Proves that each figure's flags unfold into variants.
        let args = PaperArgs {
            paper: Paper::Corobase,
            figure: 0,
            records: 50_000_000,
            workers: 2,
            seconds: 1.0,
            json: None,
            svg: None,
            report: None,
        };
        for figure in COROBASE {
            for flags in figure.runs {
                let plan =
                    plan(&fill(flags, &args)).unwrap_or_else(|e| panic!("figure {}: {e}", figure.number));
                assert!(plan.variants.len() > 1, "figure {}", figure.number);
            }
        }
    }
}
