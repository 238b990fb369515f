//! Tests of the workloads with several kinds of transactions in all modes, and of faults that their conditions must
//! find.

use super::{micro, smallbank, tpcb};
use crate::args::{DurabilityKind, Mode, RefillKind};
use crate::distribution::Rng;
use crate::engine::{self, Database, Result, Scheme, Txn};
use crate::scheme::{Cc, SchemeKind};
use crate::suite::args::{HintsKind, KindsArgs};
use crate::suite::outcome::Outcome;
use crate::suite::plan::{Plan, Variant};
use crate::suite::show::page;
use crate::suite::worker::{Job, Length, Measured, execute};
use crate::suite::{Benchmark, Condition, Loaded, Suite, Transactions, driver};
use braiddb::{Front, IndexKind, TableOptions};
use clap::Parser;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    kinds: KindsArgs,
}

fn plan(line: &str) -> crate::Result<Plan> {
    let words = std::iter::once("suite").chain(line.split_whitespace());
    Plan::of_kinds(&Line::try_parse_from(words).expect("the line is valid").kinds)
}

fn small_tpcb() -> tpcb::Setup {
    tpcb::Setup { scale: 3, accounts_of_branch: 50 }
}

fn small_bank() -> smallbank::Setup {
    smallbank::Setup { customers: 300, hot: Some(smallbank::Hot { customers: 10, share: 0.5 }) }
}

fn small_table<T: micro::Column>(writes: bool) -> micro::Setup<T> {
    let procedures = vec![super::ProcedureKind::Compiled, super::ProcedureKind::Interpreted];
    micro::Setup { size_bytes: 20_000, rows: vec![1, 25], writes, procedures, column: PhantomData }
}

/// Runs everything in every mode under every scheme, and checks the results.
fn check_all(benchmark: &impl Benchmark, line: &str) -> Outcome {
    let plan = plan(line).unwrap();
    let mut outcome = Outcome::new(benchmark.name(), &plan);
    let part = driver::run(benchmark, &plan).unwrap_or_else(|error| panic!("{}: {error}", benchmark.name()));
    outcome.extend(part);
    assert_eq!(outcome.databases.len(), plan.databases().len());
    for database in &outcome.databases {
        assert!(!database.conditions.is_empty() && database.conditions.iter().all(|one| one.holds));
    }
    for row in &outcome.rows {
        let has_run = row.transactions > 0 || row.given_up > 0;
        assert!(has_run || !row.measured || row.kind != "total", "{row:?}");
    }
    outcome
}

/// Flags for every mode under every scheme.
fn everything() -> String {
    let schemes = Cc::ALL.iter().map(|cc| cc.name()).collect::<Vec<_>>().join(",");
    format!(
        "--mode naive,prefetch,interleaved,hybrid --cc {schemes} --workers 2 --batch 4 --seconds 0.03 --repeats 2"
    )
}

#[test]
fn conditions_hold_in_every_mode_and_scheme() {
    // Proves that no workload loses an update under contention in any mode, and that the page and the JSON have every
    // row.
    let outcomes = [
        check_all(&small_tpcb(), &everything()),
        check_all(&small_bank(), &everything()),
        check_all(&small_table::<micro::Long>(true), &everything()),
        check_all(&small_table::<micro::Text50>(true), &everything()),
        check_all(&small_table::<micro::Long>(false), &everything()),
    ];
    for (outcome, rows_of_variant) in outcomes.iter().zip([1, 7, 4, 4, 4]) {
        let measured = || outcome.rows.iter().filter(|row| row.measured);
        let modes = |cc: &Cc| 3 + usize::from(Mode::Prefetch.is_there(cc.scheme));
        assert_eq!(measured().count(), Cc::ALL.iter().map(modes).sum::<usize>() * rows_of_variant);
        let html = page(outcome, "title").unwrap().html();
        assert_eq!(html.matches("<tr").count(), 1 + outcome.rows.len());
        for row in measured() {
            for cell in [
                format!("{:.1}", row.transactions_per_s / 1e3),
                format!("{:.1}", row.p99_us),
                row.kind.into(),
            ] {
                assert!(html.contains(&format!(">{cell}</td>")), "{cell}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), measured().count());
        assert_eq!(json["databases"].as_array().unwrap().len(), SchemeKind::ALL.len());
    }
}

#[test]
fn breakdowns_are_shown_when_asked_for() {
    // Proves that each variant has one breakdown, in the text, the JSON and the page, and that there is none without
    // the flag.
    let line = "--mode naive,interleaved --seconds 0.4 --repeats 2 --batch 4";
    let outcome = check_all(&small_bank(), &format!("{line} --breakdown"));
    assert_eq!(outcome.rows.iter().filter(|row| row.breakdown.is_some()).count(), 2);
    assert!(outcome.text().contains("concurrency control"), "{}", outcome.text());
    let json: serde_json::Value = serde_json::from_str(&outcome.json()).unwrap();
    assert!(json["rows"][0]["breakdown"]["shares"]["index"].as_f64() > Some(0.0));
    assert!(page(&outcome, "title").unwrap().html().contains("Where the time goes"));
    let without = check_all(&small_bank(), line);
    assert!(!without.text().contains("concurrency control") && !without.json().contains("\"breakdown\""));
}

#[test]
fn charts_go_kind_by_kind() {
    // Proves that a kind's bars for one worker and for two are next to each other.
    let outcome = check_all(&small_bank(), "--mode naive --workers 1,2 --seconds 0.03 --repeats 1");
    let svg = outcome.throughput().unwrap();
    let kinds = outcome.rows.iter().filter(|row| row.variant.workers == 1).map(|row| row.kind);
    let expected: Vec<_> = kinds.flat_map(|kind| [1, 2].map(|n| format!("{kind}, workers {n}"))).collect();
    let places: Vec<_> = expected.iter().map(|name| svg.find(name).expect("it is drawn")).collect();
    assert!(expected.len() > 4 && places.is_sorted(), "{expected:?} at {places:?}");
}

#[test]
fn durable_databases_hold_them_too() {
    // Proves that workloads run on databases on disk, whose results come late.
    let line = "--mode interleaved --durability none,async,sync --seconds 0.03 --repeats 1 --batch 4";
    check_all(&small_tpcb(), line);
    check_all(&small_bank(), line);
}

#[test]
fn json_has_the_fields_that_readers_rely_on() {
    // Proves the names of the JSON file's fields, which other programs read.
    let outcome = check_all(&small_bank(), "--mode naive,interleaved --seconds 0.03 --repeats 1");
    let json: serde_json::Value = serde_json::from_str(&outcome.json()).unwrap();
    let row = json["rows"][0].as_object().unwrap();
    let numbers = "accounts hot hot_share workers batch seconds repeats seed transactions rolled_back given_up \
                   transactions_per_s ratio spread p50_us p99_us mean_us aborts_per_commit";
    for field in numbers.split_whitespace() {
        assert!(row[field].is_number(), "{field}");
    }
    for (field, value) in [
        ("benchmark", "smallbank"),
        ("mode", "naive"),
        ("hints", "off"),
        ("kind", "total"),
        ("cc", "serializable"),
    ] {
        assert_eq!(row[field], value);
    }
    assert_eq!(row["ratio"], 1.0);
    assert!(json["environment"]["command"].is_string());
    assert!(json["databases"][0]["conditions"][0]["holds"].as_bool().unwrap());
    assert!(json["databases"][0]["memory_before_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn modes_without_a_form_are_refused() {
    // Proves which modes are accepted, that sequential ones have one batch, and that an error names the others.
    assert_eq!(
        plan("--mode naive,interleaved,hybrid --batch 8,16 --workers 1,2").unwrap().variants.len(),
        10
    );
    assert_eq!(plan("--cc serializable,declared,snapshot").unwrap().databases().len(), 2);
    let error = plan("--mode naive,amac-mk").unwrap_err().to_string();
    assert!(error.contains("amac-mk"), "{error}");
}

/// A suite that can run a transaction with a fault.
trait Loses: Transactions {
    /// Runs the transaction with fault number `what`, if it has that fault. Returns true if it does.
    async fn losing<C: Scheme>(&self, tx: &Txn<C>, input: &Self::Input, what: usize) -> Result<bool>;
}

impl Loses for tpcb::Tpcb {
    async fn losing<C: Scheme>(&self, tx: &Txn<C>, input: &tpcb::Input, what: usize) -> Result<bool> {
        let places =
            [(self.accounts, input.account), (self.tellers, input.teller), (self.branches, input.branch)];
        let Some(&(table, key)) = places.get(what) else {
            self.run(tx, input, false).await?;
            return tx.delete(self.history, input.entry).await;
        };
        let before = tx.get(table, key).await?.expect("it is loaded");
        self.run(tx, input, false).await?;
        tx.update(table, key, before).await
    }
}

impl Loses for smallbank::Smallbank {
    async fn losing<C: Scheme>(&self, tx: &Txn<C>, input: &smallbank::Input, what: usize) -> Result<bool> {
        let before = tx.get(self.checking, input.customer).await?.expect("it is loaded");
        self.run(tx, input, false).await?;
        match what {
            0 if input.act == smallbank::Act::DepositChecking => {
                tx.update(self.checking, input.customer, before).await
            }
            0 => Ok(false),
            // One row too many, of no customer.
            1 => tx.insert(self.savings, u64::MAX, -1).await.map(|()| true),
            _ => tx.insert(self.checking, u64::MAX, 0).await.map(|()| true),
        }
    }
}

impl<T: micro::Column> Loses for micro::Micro<T> {
    async fn losing<C: Scheme>(&self, tx: &Txn<C>, input: &micro::Input, what: usize) -> Result<bool> {
        let number = self.draw(&mut Rng::new(input.seed));
        let before = T::count(tx.get(self.table, T::key(number)).await?.expect("it is loaded"));
        self.run(tx, input, false).await?;
        match what {
            0 => tx.update(self.table, T::key(number), T::input(&T::hold(before))).await,
            _ => tx.insert(self.table, T::key(u64::MAX), T::input(&T::hold(0))).await.map(|()| true),
        }
    }
}

/// A suite in which one transaction has a fault.
struct Planted<S> {
    suite: S,
    what: usize,
    is_lost: AtomicBool,
}

impl<S: Loses> Suite for Planted<S> {
    type Input = S::Input;
    type Source = S::Source;
    fn kinds(&self) -> &'static [&'static str] {
        self.suite.kinds()
    }
    fn source(&self, worker: usize, workers: usize, seed: u64) -> S::Source {
        self.suite.source(worker, workers, seed)
    }
    fn next(&self, source: &mut S::Source) -> S::Input {
        self.suite.next(source)
    }
    fn kind(&self, input: &S::Input) -> usize {
        self.suite.kind(input)
    }
    fn settle(&self, commits: u64, effects: i64) {
        self.suite.settle(commits, effects);
    }
    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        self.suite.check(db)
    }
    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl<S: Loses> Transactions for Planted<S> {
    fn rolls_back(&self, input: &S::Input) -> bool {
        self.suite.rolls_back(input)
    }
    async fn run<C: Scheme>(&self, tx: &Txn<C>, input: &S::Input, many: bool) -> Result<()> {
        if self.is_lost.load(Ordering::Relaxed) {
            return self.suite.run(tx, input, many).await;
        }
        self.is_lost.store(self.suite.losing(tx, input, self.what).await?, Ordering::Relaxed);
        Ok(())
    }
    fn effect(&self, input: &S::Input) -> i64 {
        self.suite.effect(input)
    }
}

struct PlantedSetup<B>(B, usize);

impl<B: Benchmark<Suite: Loses + 'static>> Benchmark for PlantedSetup<B> {
    type Suite = Planted<B::Suite>;
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Planted<B::Suite>>>> {
        let planted = |suite| Planted { suite, what: self.1, is_lost: AtomicBool::new(false) };
        let loaded = self.0.load(db)?.into_iter();
        Ok(loaded.map(|one| Loaded { parameters: one.parameters, suite: planted(one.suite) }).collect())
    }
}

/// Runs one worker with one fault, and returns which conditions are broken.
fn broken(benchmark: &impl Benchmark<Suite: Loses + 'static>, what: usize) -> Vec<bool> {
    let (db, _directory) = engine::open::<braiddb::Snapshot>(
        TableOptions::default(),
        DurabilityKind::Memory,
        &std::env::temp_dir(),
    )
    .unwrap();
    let loaded = benchmark.load(&db).unwrap().remove(0);
    let suite = Planted { suite: loaded.suite, what, is_lost: AtomicBool::new(false) };
    let variant = &Variant {
        workers: 1,
        cc: SchemeKind::Snapshot.into(),
        durability: DurabilityKind::Memory,
        index: IndexKind::default(),
        front: Front::None,
        mode: Mode::Naive,
        batch: 1,
        refill: RefillKind::Immediate,
        hints: HintsKind::Off,
    };
    let slice = Duration::from_millis(10);
    let length = Length { warm_up: slice, slice, transactions_max: u64::MAX };
    let job = Job { db: &db, suite: &suite, variant, worker: 0, length, seed: 1 };
    let measured = execute(&job).unwrap();
    assert!(measured.error.is_none() && suite.is_lost.load(Ordering::Relaxed), "{:?}", measured.error);
    suite.check(&db).unwrap().iter().map(|condition| !condition.holds).collect()
}

/// Checks that each fault, by number, breaks the conditions with these numbers, and that every condition is broken by
/// some fault.
fn check_losses(benchmark: &impl Benchmark<Suite: Loses + 'static>, losses: &[&[usize]], conditions: usize) {
    for (what, expected) in losses.iter().enumerate() {
        let broken = broken(benchmark, what);
        let numbers: Vec<usize> = (0..broken.len()).filter(|&at| broken[at]).collect();
        assert_eq!(
            (numbers.as_slice(), broken.len()),
            (*expected, conditions),
            "{} {what}",
            benchmark.name()
        );
    }
    assert!((0..conditions).all(|at| losses.iter().any(|broken| broken.contains(&at))));
}

#[test]
fn a_lost_update_is_found_by_each_condition() {
    // Proves that one lost write, or one row too many, breaks the conditions that cover it.
    check_losses(&small_tpcb(), &[&[2, 3], &[0], &[0, 1], &[1, 2, 4]], 5);
    check_losses(&small_bank(), &[&[0], &[0, 1, 2], &[3]], 4);
    check_losses(&small_table::<micro::Long>(true), &[&[1], &[0]], 2);
    check_losses(&small_table::<micro::Text50>(true), &[&[1], &[0]], 2);
}

#[test]
fn a_condition_that_does_not_hold_fails_the_run_by_its_name() {
    // Proves that the driver fails with a message that names the condition, the database and the figures.
    let plan = plan("--mode naive --isolation snapshot --seconds 0.02 --repeats 1").unwrap();
    let error =
        driver::run(&PlantedSetup(small_bank(), 0), &plan).err().expect("an update is lost").to_string();
    for part in ["smallbank under snapshot, ", "all money is what was loaded", "in the accounts: "] {
        assert!(error.contains(part), "{error}");
    }
}
