//! `braid sim`: the engine under a seeded scheduler, over many seeds.

use braid_sim::{Report, Settings, WORKLOADS, run};
use clap::Args;

/// What to simulate.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// The first seed; the same seed replays exactly
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Seeds per workload, one after another
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Workers in the one thread; 0: from 1 to 3, as the seed says
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Transactions per seed
    #[arg(long, default_value_t = 500)]
    transactions: u64,
}

/// Runs every workload over the seeds and prints a line for each; the first violation ends it.
pub fn simulate(args: &SimArgs) -> Result<(), Box<dyn std::error::Error>> {
    for make in WORKLOADS {
        let mut all = Report::default();
        for seed in args.seed..args.seed.saturating_add(args.seeds) {
            let settings = Settings { seed, workers: args.workers, transactions: args.transactions };
            all = all.plus(run(*make, &settings)?);
        }
        println!(
            "{}: {} seeds, {} transactions, 0 violations (trace {:016x})",
            all.workload,
            grouped(args.seeds),
            grouped(all.transactions),
            all.trace
        );
    }
    Ok(())
}

/// A number with a comma before every third digit.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that commas stand at every third digit from the right.
    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    /// Proves that a small simulation runs to its end.
    #[test]
    fn a_small_simulation() {
        simulate(&SimArgs { seed: 1, seeds: 1, workers: 0, transactions: 20 }).expect("no violation");
    }
}
