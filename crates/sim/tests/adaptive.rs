//! The adaptive scheme with all records hot, and with some of them hot at times: what decides whether a transaction locks is chosen
//! by counters, and these forms of it see to it that locks and optimism meet in all ways.

use braid_sim::crash;
use braid_sim::script::program::Script;
use braid_sim::script::{Failure, History, Player, Schedule, check_random, check_specs, play};
use braid_sim::{Entry, Isolation, Report, Settings, WorkloadId, run};
use braiddb::testing::{AllHot, HotByChance};
use braiddb::{ConcurrencyControl, IndexKind};
use std::marker::PhantomData;

/// How much is run.
struct Extent {
    /// The anomalies in every interleaving, on each of these.
    specs: &'static [IndexKind],
    /// Random scripts, on each kind of index.
    scripts: u64,
    /// Seeds of each workload.
    seeds: u64,
    /// Lives with crashes.
    lives: u64,
}

const SMALL: Extent = Extent { specs: &[], scripts: 1_000, seeds: 1, lives: 2 };
const LARGE: Extent =
    Extent { specs: &[IndexKind::Masstree, IndexKind::BTree], scripts: 200_000, seeds: 100, lives: 200 };

/// A form of the scheme.
struct Form<C>(IndexKind, PhantomData<fn() -> C>);

impl<C: ConcurrencyControl> Player for Form<C> {
    fn isolation(&self) -> Isolation {
        Isolation::Serial
    }

    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        play::<C>(script, schedule, self.0)
    }
}

/// Every interleaving of the known anomalies, and random scripts.
fn plays<C: ConcurrencyControl>(extent: &Extent) {
    let check = |failures: &[Failure]| {
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    };
    for index in extent.specs {
        check(&check_specs(&Form::<C>(*index, PhantomData)).failures);
    }
    for index in IndexKind::ordered() {
        let random = check_random(&Form::<C>(index, PhantomData), 0..extent.scripts);
        check(&random.failures);
        assert!(random.committed > random.aborted, "{random:?}");
    }
}

/// Workloads under the seeded scheduler.
fn runs<C: ConcurrencyControl>(extent: &Extent) {
    for workload in WorkloadId::all() {
        let all = (0..extent.seeds).fold(Report::default(), |all, seed| {
            let settings = Settings { seed, transactions: 500, ..Settings::default() };
            let report = run(Entry::<C>::of(workload), &settings, Isolation::Serial);
            all.plus(report.unwrap_or_else(|violation| panic!("{violation}")))
        });
        assert!(all.commits > all.transactions / 10 && all.looks > 0, "{all:?}");
    }
}

/// Durable databases whose disk crashes.
fn crashes<C: ConcurrencyControl>(extent: &Extent) {
    for seed in 0..extent.lives {
        let settings = crash::Settings::seeded(seed);
        crash::check::<C>(&settings).unwrap_or_else(|failure| panic!("{failure}, with {settings:?}"));
    }
}

macro_rules! tests {
    ($($module:ident $form:ty;)*) => {$(
        mod $module {
            /// Proves that scripts show what the scheme promises.
            #[test]
            fn scripts() {
                super::plays::<$form>(&super::SMALL);
            }

            /// Proves that the workloads' conditions hold, and their histories are what the scheme promises.
            #[test]
            fn workloads() {
                super::runs::<$form>(&super::SMALL);
            }

            /// Proves that nothing is lost in crashes.
            #[test]
            fn crash_states() {
                super::crashes::<$form>(&super::SMALL);
            }

            /// Proves all of that with many more.
            #[test]
            #[ignore = "takes hours: see .ci/deep"]
            fn at_length() {
                super::plays::<$form>(&super::LARGE);
                super::runs::<$form>(&super::LARGE);
                super::crashes::<$form>(&super::LARGE);
            }
        }
    )*};
}

tests! {
    all_hot super::AllHot;
    hot_by_chance super::HotByChance;
}
