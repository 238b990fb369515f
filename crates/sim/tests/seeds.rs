//! Many seeds, and equal results for equal seeds.

use braid_sim::{Isolation, Report, SCHEMES, Scheme, Settings, WorkloadId};

const SEEDS: u64 = 600;
/// The number of seeds for schemes in which readers block writers, and conflicts take most of the time.
const SEEDS_WITHOUT_SNAPSHOTS: u64 = 60;

fn run(scheme: &Scheme, workload: WorkloadId, settings: &Settings) -> Report {
    scheme.run(workload, settings).unwrap_or_else(|violation| panic!("{}: {violation}", scheme.name))
}

/// Hundreds of seeds over all workloads show no violation, under any scheme.
#[test]
fn hundreds_of_seeds() {
    for scheme in SCHEMES {
        for (i, workload) in WorkloadId::all().enumerate() {
            let (count, commits_min) = match scheme.isolation {
                // Under no-wait, a transaction that would share a row fails while another one sleeps until the row is
                // free.
                Isolation::Serial => (SEEDS_WITHOUT_SNAPSHOTS, 15),
                Isolation::Snapshot | Isolation::Serializable => (SEEDS, 3),
            };
            let seeds = (0..count).filter(|seed| *seed as usize % WorkloadId::all().len() == i);
            let all = seeds.fold(Report::default(), |all, seed| {
                let settings = Settings { seed, transactions: 500, ..Settings::default() };
                all.plus(run(scheme, workload, &settings))
            });
            assert!(all.commits > all.transactions / commits_min, "{}: {all:?}", scheme.name);
            assert!(all.looks > 0 && all.cancelled > 0, "{}: {all:?}", scheme.name);
        }
    }
}

/// The same seed replays exactly: every step and every result. Another seed does not.
#[test]
fn a_seed_decides_everything() {
    for scheme in SCHEMES {
        for workload in WorkloadId::all() {
            let report =
                |seed| run(scheme, workload, &Settings { seed, transactions: 100, ..Settings::default() });
            let once = report(5000);
            assert_eq!(once, report(5000));
            assert_ne!(once.trace, report(5001).trace);
        }
    }
}

/// Proves that every workload is found by its name, and that the history of each recorded workload is judged.
#[test]
fn workloads_have_names_and_histories() {
    for workload in WorkloadId::all() {
        assert_eq!(WorkloadId::named(workload.name()), Some(workload));
        let report = run(&SCHEMES[0], workload, &Settings::default());
        assert_eq!(report.histories == 1, workload.is_recorded(), "{report:?}");
    }
    assert_eq!(WorkloadId::all().filter(|workload| workload.is_recorded()).count(), 9);
    assert_eq!(WorkloadId::named("no such workload"), None);
}

/// However many updates run behind an open snapshot, garbage stays bounded.
#[test]
fn a_long_snapshot_holds_little() {
    let long = WorkloadId::named("long").expect("it is in the table");
    for scheme in SCHEMES.iter().filter(|scheme| scheme.isolation.reads_snapshots()) {
        for seed in 0..2 {
            run(scheme, long, &Settings { seed, workers: 1, transactions: 20_000, ..Settings::default() });
        }
    }
}
