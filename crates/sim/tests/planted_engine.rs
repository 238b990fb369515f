//! Errors planted in the engine's serializable scheme. Whole simulations must find them in the recorded history.
//! `planted_schemes.rs` finds every error by scripts. Here one workload has to be enough, because compiling all
//! workloads for every error would take minutes.

use braid_sim::workload::{MakeWorkload, indexed, mixed};
use braid_sim::{Entry, Isolation, Settings, run};
use braiddb::testing::{CHOSEN, Planted, choose, planted};

/// The number of seeds within which an error has to be found.
const SEEDS_MAX: u64 = 200;

/// Returns the first violation of a workload, which has to contain `what`.
fn found(error: u32, make: MakeWorkload<Planted<CHOSEN>>, is_recorded: bool, what: &str) -> Option<String> {
    choose(error);
    let entry = Entry::new("planted", Isolation::Snapshot, is_recorded, make);
    (0..SEEDS_MAX).find_map(|seed| {
        let settings = Settings { seed, ..Settings::default() };
        let violation = run(&entry, &settings, Isolation::Serializable).err()?;
        assert!(violation.what.contains(what), "{violation}");
        Some(violation.to_string())
    })
}

/// Returns the first history that is not strictly serializable, as text.
fn in_history(error: u32) -> Option<String> {
    found(error, mixed, true, "the history is wrong: not strict serializable")
}

/// Proves that phantoms by an index are found: a transaction that has counted by the index relies on its count.
#[test]
fn index_readers_forgotten() {
    let what = "at most 4 should";
    println!("{}", found(planted::NO_VALIDATION, indexed, false, what).expect("the error is found"));
    println!("{}", found(planted::GAP_READERS_FORGOTTEN, indexed, false, what).expect("it is found"));
}

macro_rules! planted_tests {
    ($($(#[$doc:meta])* $test:ident: $bug:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            let found = in_history(planted::$bug);
            println!("{}: {}", stringify!($bug), found.expect("the error is found"));
        }
    )*};
}

planted_tests! {
    /// Proves that a commit without validation is found.
    no_validation: NO_VALIDATION;
    /// Proves that invisible readers are found.
    readers_on_a_copy: READERS_ON_A_COPY;
    /// Proves that an insert that forgets earlier readers of the gap is found.
    gap_readers_forgotten: GAP_READERS_FORGOTTEN;
    /// Proves that snapshots that see half of a commit are found.
    torn_commit: TORN_COMMIT;
    /// Proves that an order that contradicts real time is found.
    no_real_time: NO_REAL_TIME;
    /// Proves that an unannounced declared reader is found.
    read_only_unannounced: READ_ONLY_UNANNOUNCED;
    /// Proves that the loss of a commit's early order is found.
    stamp_lost: STAMP_LOST;
    /// Proves that ranges that are not scanned again are found.
    no_rescan: NO_RESCAN;
}
