//! Errors planted in multi-version timestamp ordering that scripts on one thread can show. The other errors need
//! threads that meet within a step; the models beside the scheme find them.

use braid_sim::Isolation;
use braid_sim::Kind;
use braid_sim::script::program::Script;
use braid_sim::script::{History, Player, Schedule, check_random, check_script, play, spec};
use braiddb::testing::{CHOSEN, PlantedMultiVersion, choose, planted_multi_version as planted};

/// The scheme with an error. It has the promise of the scheme without errors.
struct Erring(u32);

impl Player for Erring {
    fn isolation(&self) -> Isolation {
        Isolation::Serial
    }

    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        choose(self.0);
        play::<PlantedMultiVersion<CHOSEN>>(script, schedule, Kind::default())
    }
}

/// The number of seeds of random scripts within which an error has to be found.
const SEEDS_MAX: u64 = 100_000;

/// Returns true if a script shows an error in its interleavings. If no script is named, random scripts run.
fn found(error: u32, name: Option<&str>) -> bool {
    let Some(name) = name else { return !check_random(&Erring(error), 0..SEEDS_MAX).failures.is_empty() };
    let script = spec(name).expect("there is a script of that name").expect("it can be read");
    let mut failures = Vec::new();
    check_script(&Erring(error), &script, u64::MAX, &mut failures);
    !failures.is_empty()
}

macro_rules! planted_tests {
    ($($(#[$doc:meta])* $test:ident: $bug:ident, $spec:expr;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            assert!(found(planted::$bug, $spec), "the error is not found");
        }
    )*};
}

planted_tests! {
    /// Proves that reads that leave no time are found.
    read_times_forgotten: READ_TIMES_FORGOTTEN, Some("otv");
    /// Proves that reads that do not wait for earlier writes are found.
    earlier_ignored: EARLIER_IGNORED, Some("g1b");
    /// Proves that forgotten reads of absent keys are found.
    absence_forgotten: ABSENCE_FORGOTTEN, None;
    /// Proves that forgotten scans of ranges are found.
    ranges_forgotten: RANGES_FORGOTTEN, None;
    /// Proves that inserts that do not check for later readers of the absent key are found.
    keys_come_unasked: KEYS_COME_UNASKED, None;
    /// Proves that a lock that leaves no time is found.
    locks_forgotten: LOCKS_FORGOTTEN, None;
}
