//! The adaptive scheme with all records hot, and with some of them hot at times. Counters decide whether a transaction
//! locks. These forms of the scheme make locks and optimism meet in all ways.

use braid_sim::crash;
use braid_sim::script::{Failure, check_random, check_specs};
use braid_sim::{Isolation, Report, Scheme, Settings, WorkloadId};
use braiddb::{IndexKind, SchemeName};

/// The extent of a run.
struct Extent {
    /// The kinds of index on which the anomalies run in every interleaving.
    specs: &'static [IndexKind],
    /// Random scripts on each kind of index.
    scripts: u64,
    /// Seeds of each workload.
    seeds: u64,
    /// Lives with crashes.
    lives: u64,
}

const SMALL: Extent = Extent { specs: &[], scripts: 1_000, seeds: 1, lives: 2 };
const LARGE: Extent =
    Extent { specs: &[IndexKind::Masstree, IndexKind::BTree], scripts: 200_000, seeds: 100, lives: 200 };

/// Returns a form of the scheme.
fn form(name: SchemeName) -> Scheme {
    Scheme { name, isolation: Isolation::Serial, index: IndexKind::default() }
}

/// Plays every interleaving of the known anomalies, and random scripts.
fn plays(form: Scheme, extent: &Extent) {
    let check = |failures: &[Failure]| {
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    };
    for index in extent.specs {
        check(&check_specs(&form.indexed_by(*index)).failures);
    }
    for index in IndexKind::ordered() {
        let random = check_random(&form.indexed_by(index), 0..extent.scripts);
        check(&random.failures);
        assert!(random.committed > random.aborted, "{random:?}");
    }
}

/// Runs workloads under the seeded scheduler.
fn runs(form: Scheme, extent: &Extent) {
    for workload in WorkloadId::all() {
        let all = (0..extent.seeds).fold(Report::default(), |all, seed| {
            let settings = Settings { seed, transactions: 500, ..Settings::default() };
            let report = form.run(workload, &settings);
            all.plus(report.unwrap_or_else(|violation| panic!("{violation}")))
        });
        assert!(all.commits > all.transactions / 10 && all.looks > 0, "{all:?}");
    }
}

/// Checks durable databases whose disk crashes.
fn crashes(form: Scheme, extent: &Extent) {
    for seed in 0..extent.lives {
        let settings = crash::Settings::seeded(seed);
        form.check_crashes(&settings).unwrap_or_else(|failure| panic!("{failure}, with {settings:?}"));
    }
}

macro_rules! tests {
    ($($module:ident $form:ident;)*) => {$(
        mod $module {
            use braiddb::SchemeName;

            /// Proves that scripts show what the scheme promises.
            #[test]
            fn scripts() {
                super::plays(super::form(SchemeName::$form), &super::SMALL);
            }

            /// Proves that the workloads' conditions hold, and that their histories are what the scheme promises.
            #[test]
            fn workloads() {
                super::runs(super::form(SchemeName::$form), &super::SMALL);
            }

            /// Proves that nothing is lost in crashes.
            #[test]
            fn crash_states() {
                super::crashes(super::form(SchemeName::$form), &super::SMALL);
            }

            /// Proves the same with many more seeds.
            #[test]
            #[ignore = "takes hours: see .ci/deep"]
            fn at_length() {
                super::plays(super::form(SchemeName::$form), &super::LARGE);
                super::runs(super::form(SchemeName::$form), &super::LARGE);
                super::crashes(super::form(SchemeName::$form), &super::LARGE);
            }
        }
    )*};
}

tests! {
    all_hot AllHot;
    hot_by_chance HotByChance;
}
