//! Tests of every mix in every mode under every scheme, and of the conditions afterwards.

use super::check::{RunPlan, Work, run, run_all};
use super::*;
use crate::args::{DurabilityKind, Mode};
use crate::engine::Serializable;
use crate::scheme::{Cc, SchemeKind};
use braiddb::{IndexKind, TableOptions};
use clap::Parser;

const SEED: u64 = 3;

const MODES: [Mode; 6] =
    [Mode::Naive, Mode::Prefetch, Mode::Interleaved, Mode::Hybrid, Mode::Teams, Mode::Auto];
const TRANSACTIONS: u64 = 200;

/// Returns a plan of all modes in memory.
fn plan(cc: Cc, mix: &[Mix]) -> RunPlan {
    RunPlan {
        scale: Scale::small(2),
        cc: vec![cc],
        durability: vec![DurabilityKind::Memory],
        index: IndexKind::default(),
        directory: std::env::temp_dir(),
        mix: mix.to_vec(),
        mode: MODES.to_vec(),
        workers: 2,
        batch: 8,
        transactions: TRANSACTIONS,
        seed: SEED,
    }
}

/// Runs the plan, and checks that all kinds of each mix have committed and that all conditions hold.
fn check(plan: &RunPlan) {
    let runs = run_all(plan, &mut |_| {}).unwrap();
    let modes = plan.mode.iter().filter(|mode| mode.is_there(plan.cc[0].scheme)).count();
    assert_eq!(runs.len(), plan.durability.len() * plan.mix.len() * modes);
    for run in &runs {
        assert_eq!(run.violations, [""; 0], "{run:?}");
        let commits: u64 = run.commits.iter().map(|(_, commits)| commits).sum();
        assert_eq!(commits + run.rolled_back, 2 * TRANSACTIONS, "{run:?}");
        assert_eq!(run.commits.len(), run.mix.kinds().len());
        assert!(run.commits.iter().all(|(_, commits)| *commits > 0), "{run:?}");
    }
    // Every run compares the orders that rolled back with those that had to.
    assert!(runs.iter().any(|run| run.rolled_back > 0));
}

macro_rules! mixes {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn every_mode_holds_the_conditions() {
                // Proves the conditions after the standard's mix in every mode, with two workers and eight open
                // transactions on each. Under snapshot isolation TPC-C is serializable.
                check(&plan(SchemeKind::$scheme.into(), &[Mix::Full]));
            }

            #[test]
            fn databases_that_are_opened_again_hold_the_conditions() {
                // Proves that the log and the scheme's checkpoints restore tables and indexes between two runs.
                let (durability, mode) = (vec![DurabilityKind::Async], vec![Mode::Naive, Mode::Interleaved]);
                check(&RunPlan { durability, mode, ..plan(SchemeKind::$scheme.into(), &[Mix::Full, Mix::Narrow]) });
            }
        }
    )*};
}

braiddb::schemes!(mixes);

#[test]
fn every_mix_holds_the_conditions() {
    // Proves that the conditions also hold after the other mixes.
    check(&RunPlan {
        mode: vec![Mode::Naive, Mode::Interleaved],
        ..plan(SchemeKind::Serializable.into(), &Mix::ALL)
    });
}

#[test]
fn declared_readers_hold_the_conditions() {
    // Proves that OrderStatus and StockLevel can be declared read-only, because they write nothing.
    check(&plan(Cc { scheme: SchemeKind::Serializable, declares: true }, &[Mix::Full]));
}

#[test]
fn databases_without_a_log_hold_the_conditions_when_they_are_opened_again() {
    // Proves that a checkpoint alone, and a synced log, restore tables and indexes between any two runs.
    let (durability, mode) =
        (vec![DurabilityKind::None, DurabilityKind::Sync], vec![Mode::Naive, Mode::Interleaved]);
    check(&RunPlan { durability, mode, ..plan(SchemeKind::Serializable.into(), &[Mix::Full, Mix::Narrow]) });
}

#[test]
fn the_benchmark_runs_several_mixes_on_one_load() {
    // Proves that the driver of all workloads runs every mode and scheme with and without hints, that tables are loaded
    // once for all mixes, that the twelve conditions are checked, and that rows name the mix's kinds.
    let line = "tpcc --warehouses 1 --scale-down 50 --mix full,cr,ch --mode naive,prefetch,interleaved,hybrid,auto \
                --cc serializable,declared,snapshot --hints on,off --workers 2 --batch 4 --seconds 0.02 \
                --repeats 1";
    let args = args::Line::try_parse_from(line.split_whitespace()).unwrap().args;
    let plan = suite::plan::Plan::of_kinds(&args.kinds).unwrap();
    let part = suite::driver::run(&Setup(&args), &plan).unwrap();
    assert_eq!(part.databases.len(), 2);
    for database in &part.databases {
        let names: Vec<&str> = database.conditions.iter().map(|condition| condition.name.as_str()).collect();
        assert!(names.len() == 12 && names[11].starts_with("12. a customer's balance"), "{names:?}");
    }
    // Two modes have no hints to leave out. The mixes have 5, 2 and 6 kinds, and each has a total.
    assert_eq!((plan.variants.len(), part.rows.len()), (24, 24 * (6 + 3 + 7)));
    for row in part.rows.iter().filter(|row| row.kind == "total") {
        assert!(row.transactions > 0 && row.given_up == 0, "{row:?}");
    }
    let of = |mix: &str, kind: &str| {
        let of_mix = |row: &&suite::outcome::Row| row.parameters.contains(&("mix", mix.into()));
        part.rows.iter().filter(of_mix).filter(|row| row.kind == kind).count()
    };
    assert_eq!((of("cr", "new-order"), of("cr", "stock-level"), of("full", "query2")), (0, 24, 0));
}

#[test]
fn other_modes_are_refused() {
    // Proves that a mode that TPC-C does not support is an error, and no other mode runs instead.
    let (kind, parent) = (DurabilityKind::Memory, std::env::temp_dir());
    let (db, _) = engine::open::<Serializable>(TableOptions::default(), kind, &parent).unwrap();
    let suite = load(&db, Settings::new(Scale::small(1)), SEED, 2, &|_, _| {}).unwrap();
    let work = Work { cc: SchemeKind::Serializable.into(), mode: Mode::CoroMk, workers: 1, batch: 8 };
    let message = run(&db, &suite, &work, 1, SEED).err().unwrap().to_string();
    assert!(message.contains("coro-mk"), "{message}");
}
