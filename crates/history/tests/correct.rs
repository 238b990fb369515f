//! Histories of faultless stores pass the checks of the models that they keep.

use braid_history::generate::{Execution, Random, Shape, generate};
use braid_history::{History, Model, Order, check};

const SEEDS: u64 = 3_000;

/// Sizes and mixes from tiny and crowded to larger.
fn shape(seed: u64) -> Shape {
    let mut random = Random::new(seed ^ 0xc0ffee);
    Shape {
        transactions: 2 + random.below(60),
        sessions: 1 + random.below(6) as usize,
        registers: random.below(8),
        lists: 1 + random.below(3),
        ops_max: 1 + random.below(7),
        scan_length: random.below(6),
        deletes_percent: [0, 10, 40][random.below(3) as usize],
        aborts_percent: random.below(20),
        unknown_percent: random.below(20),
    }
}

fn passes(execution: Execution, models: &[Model]) {
    for seed in 0..SEEDS {
        let history = generate(seed, &shape(seed), execution);
        for model in models {
            for order in [Order::Stamps, Order::Values] {
                let verdict = check(&history, *model, order);
                assert!(verdict.holds(), "seed {seed}, {execution:?}: {verdict}");
                assert_eq!(verdict.transactions, history.len());
            }
        }
    }
}

#[test]
fn serial_histories_pass() {
    // Proves that every serial execution is called serializable and snapshot isolated.
    passes(Execution::Serial, &[Model::Serializable, Model::SnapshotIsolation]);
}

#[test]
fn strict_histories_pass() {
    // Proves that executions that keep real time pass all models, the strict one included.
    let all = [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation];
    passes(Execution::Strict, &all);
}

#[test]
fn snapshot_histories_pass() {
    // Proves that the answers of a reference store under snapshot isolation are called snapshot isolated, and that the
    // check for serializability tells the two apart.
    passes(Execution::Snapshot, &[Model::SnapshotIsolation]);
    let skewed = (0..SEEDS).filter(|seed| {
        let history = generate(*seed, &shape(*seed), Execution::Snapshot);
        !check(&history, Model::Serializable, Order::Stamps).holds()
    });
    assert!(skewed.count() > SEEDS as usize / 20);
}

#[test]
fn scrambled_times_are_not_strict() {
    // Proves that the strict check looks at time: serial histories with meaningless times mostly fail it.
    let failed = (0..SEEDS).filter(|seed| {
        let history = generate(*seed, &shape(*seed), Execution::Serial);
        !check(&history, Model::StrictSerializable, Order::Values).holds()
    });
    assert!(failed.count() > SEEDS as usize / 2);
}

#[test]
fn an_empty_history_passes() {
    // Proves that an empty history passes.
    for model in [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation] {
        assert!(check(&History::new(), model, Order::Values).holds());
    }
}
