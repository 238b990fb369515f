//! The anomaly table: well-known scripts, each run in every interleaving.

use super::Failure;
use super::history::{Described, History, Outcome};
use super::interleavings::{count, count_of_phases, interleavings, interleavings_of_phases, is_serial};
use super::oracle::holds;
use super::player::Player;
use super::program::{Expectation, Script};
use super::stage::{Move, Schedule, Variant};
use super::text::{ParseError, parse};
use braid_history::Model;

macro_rules! specs {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../specs/", $name, ".spec")))),*]
    };
}

/// The names and texts of the files in `specs/`.
pub const SPECS: &[(&str, &str)] = specs! {
    "g0" "g1a" "g1a-answer" "g1b" "g1c" "otv" "pmp" "pmp-write" "p4" "g-single" "g-single-predicate"
    "g-single-write" "g2-item" "g2" "g2-two-edges" "g2-read-only"
    "simple-write-skew" "read-only-anomaly-1" "read-only-anomaly-2" "read-only-anomaly-3" "receipt-report"
    "project-manager" "temporal-range-integrity" "classroom-scheduling" "referential-integrity" "ri-trigger"
    "update-conflict-out" "total-cash" "partial-index" "index-only-scan" "two-ids"
    "read-write-unique-1" "read-write-unique-2" "read-write-unique-3" "read-write-unique-4"
    "multiple-row-versions" "three-ring" "insert-overwritten"
    "lock-write-skew" "lock-lost-update" "lock-opposite-orders" "lock-nowait" "lock-job-queue" "lock-no-write"
    "peek-write-skew" "increase" "increase-write-skew" "increase-late"
    "look-write-skew" "look-late" "look-absent" "refuse-late" "absent-present-absent" "insert-answer"
    "read-only-anomaly-answer"
};

/// The result of one script.
#[derive(Clone, Debug)]
pub struct SpecResult {
    /// The script.
    pub name: String,
    /// Interleavings of its steps, and of its commits' phases.
    pub interleavings: u64,
    /// Runs. Each interleaving of steps runs with the transactions on one worker and on two. With phases, each
    /// transaction has a worker of its own.
    pub runs: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that the scheme aborted.
    pub aborted: u64,
    /// Runs in which all transactions committed that tried to.
    pub whole: u64,
    /// Runs that no serial order explains.
    pub anomalies: u64,
    /// Runs that some serial order explains, but no order that keeps real time.
    pub stale: u64,
    /// The first run that is not serializable.
    pub first_anomaly: Option<String>,
}

/// The results of all scripts.
#[derive(Clone, Debug, Default)]
pub struct SpecReport {
    /// The results, one per script.
    pub specs: Vec<SpecResult>,
    /// Failures. There are none if the scheme keeps its promises.
    pub failures: Vec<Failure>,
}

impl SpecReport {
    /// Returns the number of interleavings of all scripts.
    pub fn interleavings(&self) -> u64 {
        self.specs.iter().map(|spec| spec.interleavings).sum()
    }

    /// Returns the number of runs of all scripts.
    pub fn runs(&self) -> u64 {
        self.specs.iter().map(|spec| spec.runs).sum()
    }

    /// Returns the number of transactions that the scheme aborted, of all scripts.
    pub fn aborted(&self) -> u64 {
        self.specs.iter().map(|spec| spec.aborted).sum()
    }

    /// Returns the number of runs that no serial order explains, of all scripts.
    pub fn anomalies(&self) -> u64 {
        self.specs.iter().map(|spec| spec.anomalies).sum()
    }
}

/// Returns the script with this name in [`SPECS`].
pub fn spec(name: &str) -> Option<Result<Script, ParseError>> {
    let (name, text) = SPECS.iter().find(|(known, _)| *known == name)?;
    Some(parse(&format!("{name}.spec"), text))
}

/// Runs all of [`SPECS`], each in every interleaving.
pub fn check_specs(player: &dyn Player) -> SpecReport {
    let mut report = SpecReport::default();
    for (name, text) in SPECS {
        match parse(&format!("{name}.spec"), text) {
            Ok(script) => {
                report.specs.push(check_script(player, &script, u64::MAX, &mut report.failures));
            }
            Err(error) => {
                let (what, script) = (error.to_string(), name.to_string());
                report.failures.push(Failure { what, how: String::new(), script, seed: None });
            }
        }
    }
    report
}

/// Runs one script in every interleaving of its steps. If the script has phases and the scheme's commits have some, it
/// also runs in every interleaving of steps and phases. If there are more than `max` interleavings of a kind, `max` of
/// them run, spread evenly. The first failure goes to `failures`.
pub fn check_script(
    player: &dyn Player,
    script: &Script,
    max: u64,
    failures: &mut Vec<Failure>,
) -> SpecResult {
    let mut check = Check { player, script, result: SpecResult::of(script), failure: None };
    let apart = |all: u64| all.div_ceil(max.max(1)) as usize;
    let all = count(script);
    for (number, moves) in (1..).zip(interleavings(script)).step_by(apart(all)) {
        check.play(&moves, number, &[1, 2]);
    }
    if script.phases > 0 && player.has_phases() {
        let apart = apart(count_of_phases(script));
        for (number, moves) in (all + 1..).zip(interleavings_of_phases(script)).step_by(apart) {
            check.play(&moves, number, &[script.transactions.len()]);
        }
    }
    check.conclude(all <= max);
    failures.extend(check.failure);
    check.result
}

impl SpecResult {
    fn of(script: &Script) -> SpecResult {
        SpecResult {
            name: script.name.clone(),
            interleavings: 0,
            runs: 0,
            committed: 0,
            aborted: 0,
            whole: 0,
            anomalies: 0,
            stale: 0,
            first_anomaly: None,
        }
    }
}

struct Check<'s> {
    player: &'s dyn Player,
    script: &'s Script,
    result: SpecResult,
    failure: Option<Failure>,
}

impl Check<'_> {
    /// Runs one interleaving, the one with this number, on each of these numbers of workers.
    fn play(&mut self, moves: &[Move], number: u64, workers: &[usize]) {
        self.result.interleavings += 1;
        for workers in workers {
            let schedule = Schedule {
                moves: moves.to_vec(),
                workers: *workers,
                seed: number,
                variant: Variant::default(),
            };
            match self.player.play(self.script, &schedule) {
                Ok(history) => self.judge(&schedule, &history),
                Err(fault) => self.fail(fault, &schedule, None),
            }
        }
    }

    fn judge(&mut self, schedule: &Schedule, history: &History) {
        let with = |outcome| history.transactions.iter().filter(|one| one.outcome == outcome).count() as u64;
        let conflicts = with(Outcome::Conflict);
        self.result.runs += 1;
        self.result.committed += with(Outcome::Committed);
        self.result.aborted += conflicts;
        self.result.whole += u64::from(conflicts == 0);
        if !holds(Model::Serializable, self.script, history) {
            self.result.anomalies += 1;
            self.result
                .first_anomaly
                .get_or_insert_with(|| format!("{schedule}\n{}", Described(self.script, history)));
        } else if !holds(Model::StrictSerializable, self.script, history) {
            self.result.stale += 1;
        }
        if let Some(broken) = self.player.broken(self.script, history) {
            self.fail(format!("not {broken}"), schedule, Some(history));
        }
        if conflicts > 0 && is_serial(&schedule.moves) {
            self.fail("a conflict where no two transactions overlap".into(), schedule, Some(history));
        }
    }

    /// Compares the result with the expectation. `has_all` says that no interleaving of steps was left out.
    fn conclude(&mut self, has_all: bool) {
        let name = self.player.isolation().expected().name();
        let Some((_, expected)) = self.script.expectations.iter().find(|(scheme, _)| scheme == name) else {
            return self.fail_as_a_whole(format!("it does not say what to expect under {name}"));
        };
        match (expected, self.result.anomalies) {
            (Expectation::Anomaly, 0) if has_all => {
                self.fail_as_a_whole("the anomaly was expected, and no interleaving shows it".into());
            }
            (Expectation::None, 1..) => {
                let first = self.result.first_anomaly.clone().unwrap_or_default();
                self.fail_as_a_whole(format!("no anomaly was expected\n{first}"));
            }
            _ => {}
        }
    }

    fn fail(&mut self, what: String, schedule: &Schedule, history: Option<&History>) {
        let script = self.script;
        self.failure.get_or_insert_with(|| Failure::new(what, script, Some(schedule), history));
    }

    fn fail_as_a_whole(&mut self, what: String) {
        let script = self.script;
        self.failure.get_or_insert_with(|| Failure::new(what, script, None, None));
    }
}
