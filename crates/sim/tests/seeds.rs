//! Many seeds, the same result for the same seed, and planted bugs that must be found.

use braid_sim::workload::{counters_losing_updates, long, pairs_torn};
use braid_sim::{MakeWorkload, Report, Settings, WORKLOADS, run};

const SEEDS: u64 = 1000;

/// A thousand seeds over all workloads show no violation.
#[test]
fn a_thousand_seeds() {
    for (i, make) in WORKLOADS.iter().enumerate() {
        let seeds = (0..SEEDS).filter(|seed| *seed as usize % WORKLOADS.len() == i);
        let all = seeds.fold(Report::default(), |all, seed| {
            let report = run(*make, &Settings { seed, transactions: 500, ..Settings::default() });
            all.plus(report.unwrap_or_else(|violation| panic!("{violation}")))
        });
        assert!(all.commits > all.transactions / 2, "{all:?}");
        assert!(all.looks > 0 && all.cancelled > 0, "{all:?}");
    }
}

/// The same seed replays exactly: every step, every result. Another one does not.
#[test]
fn a_seed_decides_everything() {
    for make in WORKLOADS {
        let trace =
            |seed| run(*make, &Settings { seed, transactions: 100, ..Settings::default() }).expect("holds");
        for seed in 5000..5005 {
            assert_eq!(trace(seed), trace(seed), "seed {seed}");
        }
        assert_ne!(trace(5000).trace, trace(5001).trace);
    }
}

fn finds(make: MakeWorkload) {
    let found = (0..20).filter(|&seed| run(make, &Settings { seed, ..Settings::default() }).is_err()).count();
    assert!(found > 10, "only {found} of 20 seeds found the planted bug");
}

/// A reader that is torn over two transactions is found.
#[test]
fn torn_reads_are_found() {
    finds(pairs_torn);
}

/// An increment whose read and write are two transactions is found.
#[test]
fn lost_updates_are_found() {
    finds(counters_losing_updates);
}

/// However many updates run behind an open snapshot, garbage stays bounded.
#[test]
fn a_long_snapshot_holds_little() {
    for seed in 0..2 {
        let settings = Settings { seed, workers: 1, transactions: 20_000 };
        run(long, &settings).unwrap_or_else(|violation| panic!("{violation}"));
    }
}
