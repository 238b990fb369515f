//! Random scripts and schedules, each from a seed, judged by the oracle.

use super::Failure;
use super::history::Outcome;
use super::oracle::holds;
use super::player::Player;
use super::program::Script;
use super::shrink::shrink;
use super::stage::{Move, Schedule, Variant};
use super::text::{TRANSACTIONS_MAX, parse};
use crate::random::Random;
use braid_history::Model;
use std::fmt::Write;
use std::ops::Range;

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
pub struct RandomReport {
    /// Scripts run, one per seed.
    pub scripts: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that the scheme aborted.
    pub aborted: u64,
    /// Runs that no serial order explains.
    pub anomalies: u64,
    /// Runs that some serial order explains, but no order that keeps real time.
    pub stale: u64,
    /// Failures. There are none if the scheme keeps its promises.
    pub failures: Vec<Failure>,
}

impl RandomReport {
    /// Returns the sums of both reports.
    pub fn plus(mut self, other: RandomReport) -> RandomReport {
        self.failures.extend(other.failures);
        RandomReport {
            scripts: self.scripts + other.scripts,
            committed: self.committed + other.committed,
            aborted: self.aborted + other.aborted,
            anomalies: self.anomalies + other.anomalies,
            stale: self.stale + other.stale,
            failures: self.failures,
        }
    }
}

/// Failures after which no more seeds are tried.
const FAILURES_MAX: usize = 5;

/// Generates a script and a schedule from each seed, and judges the result.
pub fn check_random(player: &dyn Player, seeds: Range<u64>) -> RandomReport {
    let mut report = RandomReport::default();
    for seed in seeds {
        random(player, seed, &mut report);
        if report.failures.len() >= FAILURES_MAX {
            break;
        }
    }
    report
}

/// Runs and judges the script of one seed.
fn random(player: &dyn Player, seed: u64, report: &mut RandomReport) {
    let (script, schedule) = generate(seed);
    report.scripts += 1;
    let history = match player.play(&script, &schedule) {
        Ok(history) => history,
        Err(_) => return report.failures.push(smallest(player, seed, script, schedule)),
    };
    for observed in &history.transactions {
        report.committed += u64::from(observed.is_committed());
        report.aborted += u64::from(observed.outcome == Outcome::Conflict);
    }
    if !holds(Model::Serializable, &script, &history) {
        report.anomalies += 1;
    } else if !holds(Model::StrictSerializable, &script, &history) {
        report.stale += 1;
    }
    if player.broken(&script, &history).is_some() {
        report.failures.push(smallest(player, seed, script, schedule));
    }
}

/// Returns the smallest run found that fails in the same way.
fn smallest(player: &dyn Player, seed: u64, script: Script, schedule: Schedule) -> Failure {
    let fault = |script: &Script, schedule: &Schedule| match player.play(script, schedule) {
        Ok(history) => {
            let broken = player.broken(script, &history)?;
            Some((format!("not {broken}"), Some(history)))
        }
        Err(fault) => Some((fault, None)),
    };
    let (script, schedule) = shrink(script, schedule, |script, schedule| fault(script, schedule).is_some());
    let (what, history) =
        fault(&script, &schedule).expect("it failed just now, and nothing is left to chance");
    Failure { seed: Some(seed), ..Failure::new(what, &script, Some(&schedule), history.as_ref()) }
}

/// Returns the script and the schedule of a seed.
pub fn generate(seed: u64) -> (Script, Schedule) {
    let mut random = Random::new(seed);
    let random = &mut random;
    let text = Writer::new(random).script(random);
    let script = parse(&format!("seed {seed}"), &text);
    let script = script.unwrap_or_else(|error| unreachable!("{error} in a text of our own:\n{text}"));
    let schedule = schedule(&script, random);
    (script, schedule)
}

/// Keys range from 1 to a number between `KEYS_MIN` and `KEYS_MAX`. They are few, so that transactions meet.
const KEYS_MIN: u64 = 3;
const KEYS_MAX: u64 = 6;
const STATEMENTS_MAX: u64 = 4;

/// Writes a script.
struct Writer {
    text: String,
    keys: u64,
    tables: &'static [&'static str],
    /// The last value written. No two constants are equal, so a read value shows which transaction has written it.
    value: u64,
}

impl Writer {
    fn new(random: &mut Random) -> Writer {
        let tables: &[&str] = if random.chance(80) { &["a"] } else { &["a", "b"] };
        Writer { text: String::new(), keys: random.between(KEYS_MIN, KEYS_MAX), tables, value: 0 }
    }

    fn script(mut self, random: &mut Random) -> String {
        for table in self.tables {
            for key in 1..=self.keys {
                if random.chance(60) {
                    let value = self.next_value();
                    self.line(format_args!("row {table}[{key}] = {value}"));
                }
            }
        }
        if random.chance(25) {
            self.line(format_args!("filler {}", random.between(1, 30)));
        }
        for number in 0..random.between(2, TRANSACTIONS_MAX as u64) {
            self.transaction(number, random);
        }
        self.text
    }

    fn transaction(&mut self, number: u64, random: &mut Random) {
        let is_read_only = random.chance(10);
        self.line(format_args!("transaction t{number}{}", if is_read_only { " readonly" } else { "" }));
        if random.chance(25) {
            self.line(format_args!("  begin"));
        }
        let mut variables = 0;
        // The greater of two draws, because it takes several statements to go wrong.
        let statements = random.between(1, STATEMENTS_MAX).max(random.between(1, STATEMENTS_MAX));
        for _ in 0..statements {
            if is_read_only || random.chance(55) {
                self.read(is_read_only, &mut variables, random);
            } else {
                self.write(variables, random);
            }
        }
        let end = if random.chance(95) { "commit" } else { "abort" };
        self.line(format_args!("  {end}"));
    }

    fn read(&mut self, is_read_only: bool, variables: &mut u64, random: &mut Random) {
        let table = *random.one_of(self.tables);
        let variable = *variables;
        *variables += 1;
        if random.chance(60) {
            let (reading, manner) = *match random.below(100) {
                0..70 => &("get", ""),
                70..80 => &("peek", ""),
                _ if is_read_only => &("get", ""),
                _ => random.one_of(&[("lock", ""), ("lock", ""), ("lock", " nowait"), ("lock", " skip")]),
            };
            let key = random.between(1, self.keys);
            return self.line(format_args!("  x{variable} = {reading} {table}[{key}]{manner}"));
        }
        let from = random.between(1, self.keys);
        let to = random.between(from + 1, self.keys + 1);
        let fold = random.one_of(&["count", "sum", "first", "last"]);
        self.line(format_args!("  x{variable} = {fold} {table}[{from}..{to}]"));
    }

    fn write(&mut self, variables: u64, random: &mut Random) {
        let (table, key, value) =
            (*random.one_of(self.tables), random.between(1, self.keys), self.next_value());
        let known = (variables > 0).then(|| format!("x{}", random.below(variables.max(1))));
        let condition = match &known {
            Some(known) if random.chance(15) => format!("if {known} % 2 == {} then ", random.below(2)),
            _ => String::new(),
        };
        let value = match known {
            Some(known) if random.chance(30) => format!("{known} + {value}"),
            _ => value.to_string(),
        };
        match random.below(100) {
            0..28 => self.line(format_args!("  {condition}put {table}[{key}] = {value}")),
            28..49 => self.line(format_args!("  {condition}insert {table}[{key}] = {value}")),
            49..53 => self.line(format_args!("  {condition}insert {table}[{key}] = {value} else abort")),
            53..71 => self.line(format_args!("  {condition}delete {table}[{key}]")),
            71..83 => self.line(format_args!("  {condition}update {table}[{key}] = {value}")),
            83..85 => self.line(format_args!("  {condition}add {table}[{key}] by {value}")),
            85..88 => self.line(format_args!("  {condition}increase {table}[{key}] by {value}")),
            88..92 => self.line(format_args!("  {condition}look {table}[{key}]")),
            92 => self.line(format_args!("  {condition}refuse {table}[{key}]")),
            93..95 => self.undone(&condition, format_args!("{table}[{key}]"), &value),
            _ => {
                let to = random.between(key + 1, self.keys + 1);
                self.line(format_args!("  {condition}remove {table}[{key}..{to}] where value % 2 == 0"));
            }
        }
    }

    /// Adds a write and a rollback to before it.
    fn undone(&mut self, condition: &str, place: std::fmt::Arguments<'_>, value: &str) {
        self.line(format_args!("  {condition}savepoint"));
        match self.value % 4 {
            0 => self.line(format_args!("  {condition}insert {place} = {value}")),
            1 => self.line(format_args!("  {condition}delete {place}")),
            2 => self.line(format_args!("  {condition}update {place} = {value}")),
            _ => self.line(format_args!("  {condition}lock {place}")),
        }
        self.line(format_args!("  {condition}rollback"));
    }

    fn next_value(&mut self) -> u64 {
        self.value += 11;
        self.value
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes everything");
    }
}

/// Returns steps in a random order, with other moves between them from time to time.
fn schedule(script: &Script, random: &mut Random) -> Schedule {
    let mut left: Vec<usize> =
        script.transactions.iter().map(|transaction| transaction.steps.len()).collect();
    let (disturbs, is_hasty) = (random.chance(20), random.chance(30));
    let mut moves = Vec::new();
    while left.iter().any(|steps| *steps > 0) {
        if disturbs && random.chance(25) {
            moves.push(*random.one_of(&[Move::Fill, Move::Clear, Move::Tend]));
        }
        let at = random.below(left.len() as u64) as usize;
        if left[at] > 0 {
            left[at] -= 1;
            let is_start = is_hasty && random.chance(60);
            moves.push(if is_start { Move::Start(at as u8) } else { Move::Step(at as u8) });
        }
    }
    let (workers, seed) = (random.between(1, 2) as usize, random.any());
    Schedule { moves, workers, seed, variant: Variant::seeded(seed) }
}
