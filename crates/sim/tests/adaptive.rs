//! The adaptive scheme with all records hot, and with some of them hot at times: what decides whether a transaction locks is chosen
//! by counters, and these forms of it see to it that locks and optimism meet in all ways.

use braid_sim::crash;
use braid_sim::script::program::Script;
use braid_sim::script::{History, Player, Schedule, check_random, check_specs, play};
use braid_sim::{Entry, Isolation, Report, Settings, WorkloadId, run};
use braiddb::testing::{AllHot, HotByChance};
use braiddb::{ConcurrencyControl, IndexKind};
use std::marker::PhantomData;

/// Random scripts of each form, on each kind of index; seeds of each workload; and of lives with crashes.
const SCRIPTS: u64 = 5_000;
const SEEDS: u64 = 6;
const LIVES: u64 = 4;

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
fn plays<C: ConcurrencyControl>() {
    for index in IndexKind::ALL {
        let form = Form::<C>(*index, PhantomData);
        let specs = check_specs(&form);
        let random = check_random(&form, 0..SCRIPTS);
        let failures: Vec<String> =
            specs.failures.iter().chain(&random.failures).map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        assert!(random.committed > random.aborted, "{random:?}");
    }
}

/// Workloads under the seeded scheduler.
fn runs<C: ConcurrencyControl>() {
    for workload in WorkloadId::all() {
        let all = (0..SEEDS).fold(Report::default(), |all, seed| {
            let settings = Settings { seed, transactions: 500, ..Settings::default() };
            let report = run(Entry::<C>::of(workload), &settings, Isolation::Serial);
            all.plus(report.unwrap_or_else(|violation| panic!("{violation}")))
        });
        assert!(all.commits > all.transactions / 10 && all.looks > 0, "{all:?}");
    }
}

/// Durable databases whose disk crashes.
fn crashes<C: ConcurrencyControl>() {
    for seed in 0..LIVES {
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
                super::plays::<$form>();
            }

            /// Proves that the workloads' conditions hold, and their histories are what the scheme promises.
            #[test]
            fn workloads() {
                super::runs::<$form>();
            }

            /// Proves that nothing is lost in crashes.
            #[test]
            fn crash_states() {
                super::crashes::<$form>();
            }
        }
    )*};
}

tests! {
    all_hot super::AllHot;
    hot_by_chance super::HotByChance;
}
