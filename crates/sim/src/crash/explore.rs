//! Chooses the crash states to look at, and what to check in each.

use super::life::{Course, live, manifest_numbers, open};
use super::oracle::{Found, judge};
use super::tables::{Contents, contents};
use super::trace::Trace;
use super::{Failure, Place, Report, Settings};
use crate::Random;
use crate::storage::{Crash, EVERYTHING, SimulatedStorage};
use braiddb::metrics::LogCondition;
use braiddb::recovery::Recovery;
use braiddb::storage::{OpenMode, Storage};
use braiddb::testing::SpinningWaits;
use braiddb::{ConcurrencyControl, Error, wal};
use std::marker::PhantomData;

/// The capacity of the simulated device.
pub(super) const CAPACITY: u64 = 4 << 20;

/// A scarce capacity: less than the room that the engine takes for plenty beyond its least reserve, and more than it
/// needs.
const CAPACITY_SMALL: u64 = 512 << 10;

/// Of this many states, one is recovered from twice, one has its newest checkpoint damaged, and one loses its files
/// while the database is open.
const STATES_PER_EXTRA: u64 = 8;
/// One in this many states has a further life. All further lives together get `LATER_STATES_PER_CENT` of the states.
const STATES_PER_LIFE: u64 = 50;
const LATER_STATES_PER_CENT: u64 = 60;
/// With fewer states than this there are no further lives.
const STATES_MIN: u64 = 20;
/// The minimum number of candidate states at each boundary. In one of them nothing survives, in another everything.
const STATES_PER_BOUNDARY_MIN: u64 = 6;
/// Checkpoint steps that would finish a checkpoint, or nearly so.
const CHECKPOINT_STEPS: u64 = 20;
/// Transactions of each further life.
const LATER_TRANSACTIONS: u64 = 10;

/// Lives as the settings say, and looks at crash states. Stops at the first failure.
pub fn check<C: ConcurrencyControl>(settings: &Settings) -> Result<Report, Box<Failure>> {
    let _spinning = SpinningWaits::begin();
    let mut explorer = Explorer::<C>::new(settings);
    let lived = explorer.first_lives()?;
    explorer.explore(&lived, &Place::default(), settings.states)?;
    Ok(explorer.report)
}

/// Looks at one crash state again, with all additional checks.
pub fn replay<C: ConcurrencyControl>(settings: &Settings, place: &Place) -> Result<Report, Box<Failure>> {
    let _spinning = SpinningWaits::begin();
    let mut explorer = Explorer::<C>::new(settings);
    let (mut lived, mut here) = (explorer.first_lives()?, Place::default());
    for (at, (boundary, seed)) in place.crashes().iter().enumerate() {
        let described = lived.storage.describe(*boundary);
        if *boundary < lived.storage.boundary_first() || *boundary > lived.storage.boundary() {
            return Err(explorer.failure(&here, described, "the life has no such boundary".into()));
        }
        let storage = lived.storage.crash(*boundary, *seed);
        let crash = Crash { boundary: *boundary, seed: *seed, storage };
        here = here.then(*boundary, *seed);
        let trace = lived.trace_at(*boundary);
        let is_last = at + 1 == place.crashes().len();
        let looked = if is_last { explorer.look(trace, &crash, Extra::All) } else { Ok(()) };
        let later = looked.and_then(|()| explorer.later_life(trace, crash, &here));
        lived = later.map_err(|what| explorer.failure(&here, described, what))?;
    }
    Ok(explorer.report)
}

/// A storage with the traces of its lives. There are several lives if the database was opened again without a crash.
struct Lived {
    storage: SimulatedStorage,
    traces: Vec<Trace>,
}

impl Lived {
    /// Returns the trace to judge by after a crash at this boundary. While a database is being opened again, the trace
    /// of the life before counts.
    fn trace_at(&self, boundary: u64) -> &Trace {
        let begun = self.traces.iter().rev().find(|trace| trace.opened <= boundary);
        begun.unwrap_or(&self.traces[0])
    }
}

/// The additional check of a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Nothing,
    Again,
    Damage,
    Removal,
    All,
}

struct Explorer<'s, C> {
    settings: &'s Settings,
    report: Report,
    scheme: PhantomData<fn() -> C>,
}

impl<'s, C: ConcurrencyControl> Explorer<'s, C> {
    fn new(settings: &'s Settings) -> Self {
        Explorer { settings, report: Report::default(), scheme: PhantomData }
    }

    fn failure(&self, place: &Place, after: String, what: String) -> Box<Failure> {
        Box::new(Failure { seed: self.settings.seed, place: place.clone(), after, what })
    }

    /// Lives the first life. If it was closed, or the disk fails in it, a second life follows without a crash in
    /// between, in which the disk fails again. There is no second life after a fault that loses names, because the
    /// running machine still sees such names: they are lost only after a restart.
    fn first_lives(&mut self) -> Result<Lived, Box<Failure>> {
        let Settings { seed, transactions, mistake, kind, .. } = *self.settings;
        let others = self.has_others();
        let capacity = if others { CAPACITY_SMALL } else { CAPACITY };
        let mut lived = Lived { storage: SimulatedStorage::new(seed, capacity), traces: Vec::new() };
        let may_fail = self.settings.fault.is_some();
        let reopens = self.settings.fault.as_ref().is_some_and(|fault| !fault.loses_names());
        let closes = seed % 5 == 4;
        let first = Course { seed, transactions, mistake, may_fail, others, reopens, closes, kind };
        let again = Course { transactions: LATER_TRANSACTIONS, ..first };
        let courses = [Some(first), (reopens || (first.closes && !may_fail)).then_some(again)];
        for course in courses.iter().flatten() {
            if let Some((_, until)) = lived.traces.last_mut().and_then(|trace| trace.closed.as_mut()) {
                *until = lived.storage.boundary();
            }
            self.settings.fault.iter().for_each(|fault| lived.storage.inject(fault.clone()));
            let nothing = Trace::default();
            let before = lived.traces.last().unwrap_or(&nothing);
            let trace = live::<C>(&lived.storage, before, lived.storage.boundary(), course);
            lived.storage.heal();
            let trace = trace.map_err(|what| self.failure(&Place::default(), String::new(), what))?;
            self.count_life(&trace);
            lived.traces.push(trace);
        }
        self.report.faults += lived.storage.faults_injected();
        Ok(lived)
    }

    /// Returns true if other users of the device are simulated. They never meet faults, because faults are meant for
    /// the engine.
    fn has_others(&self) -> bool {
        self.settings.others && self.settings.fault.is_none()
    }

    /// Returns the seed of the choices at a place. It follows from the place.
    fn seed_at(&self, place: &Place) -> u64 {
        let mix = |seed: u64, (boundary, of_state): &(u64, u64)| {
            Random::new(seed ^ boundary.rotate_left(20) ^ of_state).any()
        };
        place.crashes().iter().fold(self.settings.seed, mix)
    }

    fn count_life(&mut self, trace: &Trace) {
        self.report.lives += 1;
        self.report.transactions += trace.transactions.len() as u64;
        self.report.stalled += trace.stalled;
    }

    /// Looks at `states` states, spread evenly over all boundaries of the life.
    fn explore(&mut self, lived: &Lived, place: &Place, states: u64) -> Result<(), Box<Failure>> {
        let storage = &lived.storage;
        let lives = if states < STATES_MIN { 0 } else { (states / STATES_PER_LIFE).max(1) };
        let later_states = (states * LATER_STATES_PER_CENT / 100).checked_div(lives).unwrap_or_default();
        let states = states - lives * later_states;
        let boundaries = storage.boundary() - storage.boundary_first() + 1;
        let per_boundary = states.div_ceil(boundaries).max(STATES_PER_BOUNDARY_MIN);
        let mut random = Random::new(self.seed_at(place));
        let mut crashes = storage.crash_states(random.any(), per_boundary).enumerate();
        // One state is drawn from each of `states` equally long runs of candidates, so that all boundaries and all
        // kinds of states are represented.
        let ends = |at: u64| at * boundaries * per_boundary / states;
        for at in 0..states {
            let chosen = random.between(ends(at), ends(at + 1) - 1) as usize;
            let (_, crash) = crashes.find(|(number, _)| *number == chosen).expect("there are so many");
            let here = place.then(crash.boundary, crash.seed);
            let extra = match at % STATES_PER_EXTRA {
                2 => Extra::Again,
                5 => Extra::Damage,
                7 => Extra::Removal,
                _ => Extra::Nothing,
            };
            let (trace, described) = (lived.trace_at(crash.boundary), storage.describe(crash.boundary));
            self.look(trace, &crash, extra).map_err(|what| self.failure(&here, described.clone(), what))?;
            if (at + 1) * lives / states > at * lives / states {
                let later = self.later_life(trace, crash, &here);
                let later = later.map_err(|what| self.failure(&here, described, what))?;
                self.explore(&later, &here, later_states)?;
            }
        }
        Ok(())
    }

    /// Recovers from a copy of the state and judges it.
    fn look(&mut self, trace: &Trace, crash: &Crash, extra: Extra) -> Result<(), String> {
        let copy = copy_of(&crash.storage);
        let (found, recovery) = self.recover(trace, crash.boundary, &copy)?;
        if trace.is_closed(crash.boundary) && !(recovery.was_closed && recovery.cut.is_none()) {
            return Err("it was closed in order, and recovery does not say so".into());
        }
        self.report.states += 1;
        self.report.note(crash.boundary << 32 ^ crash.seed ^ found.present.len() as u64);
        if matches!(extra, Extra::Again | Extra::All) {
            let again = self.recover(trace, crash.boundary, &copy);
            let (again, _) = again.map_err(|what| format!("again: {what}"))?;
            if again.contents != found.contents {
                return Err("recovering again gives another state".into());
            }
        }
        if matches!(extra, Extra::Damage | Extra::All) {
            self.look_at_damage(trace, crash, &found.contents)?;
        }
        if matches!(extra, Extra::Removal | Extra::All) {
            let lost = self.look_at_removal(trace, crash, &found.contents);
            lost.map_err(|what| format!("with files removed while it is open: {what}"))?;
        }
        Ok(())
    }

    /// Recovers from what a crash has left. Every checkpoint that had been published must be there and whole.
    fn recover(
        &mut self,
        trace: &Trace,
        boundary: u64,
        storage: &SimulatedStorage,
    ) -> Result<(Found, Recovery), String> {
        let (found, recovery) = self.recover_any(trace, boundary, storage)?;
        if let Some((number, reason)) = recovery.damaged_checkpoints.first() {
            return Err(format!("checkpoint {number} is damaged by a crash: {reason}"));
        }
        if recovery.checkpoint < trace.published(boundary) {
            let (found, published) = (recovery.checkpoint, trace.published(boundary));
            return Err(format!("checkpoint {published:?} was published, and {found:?} is the newest"));
        }
        Ok((found, recovery))
    }

    fn recover_any(
        &mut self,
        trace: &Trace,
        boundary: u64,
        storage: &SimulatedStorage,
    ) -> Result<(Found, Recovery), String> {
        let opened = open::<C>(storage, self.settings.mistake, self.settings.seed, self.settings.kind);
        let (database, stepped) = opened.map_err(|error| format!("recovery fails: {error}"))?;
        let recovery = database.recovery().expect("it is durable");
        self.report.recoveries += 1;
        self.report.checkpoints += u64::from(recovery.checkpoint.is_some());
        self.report.torn += u64::from(recovery.cut.is_some());
        self.report.fallbacks += recovery.damaged_checkpoints.len() as u64;
        let found = judge(trace, boundary, &database);
        drop((stepped, database));
        Ok((found?, recovery))
    }

    /// Damages a file that only the newest checkpoint has, and recovers. The checkpoint before it must give the same
    /// state.
    fn look_at_damage(&mut self, trace: &Trace, crash: &Crash, expected: &Contents) -> Result<(), String> {
        let copy = copy_of(&crash.storage);
        let Some(file) = file_of_newest_checkpoint(&copy, crash.seed) else { return Ok(()) };
        damage(&copy, &file, crash.seed);
        let found = self.recover_any(trace, crash.boundary, &copy);
        let (found, _) = found.map_err(|what| format!("with {file} damaged: {what}"))?;
        if found.contents != *expected {
            return Err(format!("with {file} damaged, recovery gives another state"));
        }
        Ok(())
    }

    /// Opens a copy and removes its files while it is open, all of them or some that it cannot do without. After the
    /// engine has next looked, nothing is acknowledged, no checkpoint counts and no file comes back; the rows can still
    /// be read.
    fn look_at_removal(&mut self, trace: &Trace, crash: &Crash, expected: &Contents) -> Result<(), String> {
        let copy = copy_of(&crash.storage);
        let opened = open::<C>(&copy, self.settings.mistake, self.settings.seed, self.settings.kind);
        let (database, mut stepped) = opened.map_err(|error| error.to_string())?;
        self.report.recoveries += 1;
        let tables = judge(trace, crash.boundary, &database)?.tables;
        let doomed = *Random::new(crash.seed).one_of(&["", "log-", "database"]);
        let names = copy.list().expect("the disk does not fail");
        if database.statistics().log_condition != LogCondition::Good {
            return Ok(()); // there is no room to continue the log, so there are no commits
        }
        for name in names.iter().filter(|name| name.starts_with(doomed)) {
            copy.remove(name).expect("the disk does not fail");
        }
        if !matches!(stepped.flush(), Err(Error::Log(wal::Error::Stopped(_)))) {
            return Err(format!("the log goes on without {doomed:?}"));
        }
        let left = copy.list().expect("the disk does not fail");
        if database.table::<u64, u64>("made without files").is_ok() {
            return Err("a table is made".into());
        }
        for _ in 0..CHECKPOINT_STEPS {
            if let Ok(true) = stepped.checkpoint_step() {
                return Err("a checkpoint counts".into());
            }
        }
        if contents(&database, &tables).map_err(|error| error.to_string())? != *expected {
            return Err("something else can be read".into());
        }
        if stepped.close().is_ok() {
            return Err("it is closed in order".into());
        }
        let now = copy.list().expect("the disk does not fail");
        if now.iter().any(|name| !left.contains(name)) {
            return Err(format!("of {left:?} has become {now:?}"));
        }
        Ok(())
    }

    /// Lives a further life on the state that a crash has left.
    fn later_life(&mut self, trace: &Trace, crash: Crash, place: &Place) -> Result<Lived, String> {
        let (seed, mistake) = (self.seed_at(place), self.settings.mistake);
        let closes = crash.seed % 3 == 2;
        let course = Course {
            seed,
            transactions: LATER_TRANSACTIONS,
            mistake,
            may_fail: false,
            others: self.has_others(),
            reopens: false,
            closes,
            kind: self.settings.kind,
        };
        let later = live::<C>(&crash.storage, trace, crash.boundary, &course);
        let later = later.map_err(|what| format!("in the life after it: {what}"))?;
        self.count_life(&later);
        Ok(Lived { storage: crash.storage, traces: vec![later] })
    }
}

/// Returns an independent storage with the same files.
pub(super) fn copy_of(storage: &SimulatedStorage) -> SimulatedStorage {
    storage.crash(storage.boundary(), EVERYTHING)
}

/// Returns the newest manifest, or a file of rows that was written for it.
fn file_of_newest_checkpoint(storage: &SimulatedStorage, seed: u64) -> Option<String> {
    let names = storage.list().expect("the disk does not fail");
    let newest = manifest_numbers(&names).next_back()?;
    let (manifest, rows) = (format!("checkpoint-{newest:020}"), format!("rows-{newest:020}-"));
    let files: Vec<_> =
        names.into_iter().filter(|name| *name == manifest || name.starts_with(&rows)).collect();
    Some(Random::new(seed).one_of(&files).clone())
}

/// Flips a random bit of the file.
fn damage(storage: &SimulatedStorage, name: &str, seed: u64) {
    let file = storage.open(name, OpenMode::ReadWrite).expect("it is there");
    let len_bytes = file.len_bytes().expect("the disk does not fail");
    if len_bytes == 0 {
        return; // there is nothing to damage
    }
    let at = Random::new(seed).below(len_bytes);
    let mut byte = [0];
    file.read_exact_at(at, &mut byte).expect("it is inside of the file");
    byte[0] ^= 1 << (seed % 8);
    file.write_all_at(at, &byte).expect("there is room");
}
