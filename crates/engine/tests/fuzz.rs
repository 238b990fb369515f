//! Runs the fuzzer's target on pseudo-random bytes, so the target is exercised without the fuzzer.

use braiddb::suspend::Seeded;

#[path = "../../../fuzz/keys_and_scans.rs"]
mod keys_and_scans;

/// Proves that none of 400 inputs makes the engine panic or differ from a `BTreeMap`. Prints the seed.
#[test]
fn keys_and_scans() {
    for seed in 0..400 {
        let mut random = Seeded::new(seed);
        // Few different bytes in some inputs, so that keys meet.
        let mask = [0xff, 0x0f, 0x03, 0x83][seed as usize % 4];
        let bytes: Vec<u8> = (0..4000).map(|_| random.next_u64() as u8 & mask).collect();
        let outcome = std::panic::catch_unwind(|| keys_and_scans::run(&bytes));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
