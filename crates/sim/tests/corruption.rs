//! Closed databases with files that are missing, truncated, overwritten or exchanged: either everything is there, or an
//! error names the file. `braid-lab check crash --corruptions` runs further seeds.

use braid_sim::crash::{CORRUPTIONS_PER_SEED, Corruptions, Mistake, check_corruptions};
use braiddb::testing::PlantedDurability as Engine;

const SEEDS: u64 = 40;

/// Proves that the corruptions of some seeds lose nothing silently, and that they cover all cases: databases with and
/// without a log, files that do not matter, older checkpoints that are used instead, and errors.
#[test]
fn corruption_of_closed_databases_is_noticed() {
    let checked = |seed| check_corruptions(seed, CORRUPTIONS_PER_SEED, Mistake::None);
    let all = (0..SEEDS).map(|seed| checked(seed).unwrap_or_else(|failure| panic!("{failure}")));
    let all = all.fold(Corruptions::default(), Corruptions::plus);
    assert_eq!(all.corruptions, SEEDS * CORRUPTIONS_PER_SEED);
    let counts = [all.logged, all.corruptions - all.logged, all.whole, all.replaced, all.refused];
    assert!(counts.iter().all(|count| *count >= 50), "{all:?}");
}

/// Proves that a recovery that ignores the mark of an orderly close is found.
#[test]
fn a_mark_that_is_not_looked_at_is_found() {
    let checked = |seed| check_corruptions(seed, CORRUPTIONS_PER_SEED, Mistake::Engine(Engine::MarkIgnored));
    let mut found = (0..SEEDS).filter_map(|seed| checked(seed).err());
    assert!(found.any(|failure| failure.what.contains("another state")), "no loss is noticed");
}
