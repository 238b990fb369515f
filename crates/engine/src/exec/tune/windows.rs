//! Measures windows of a worker's own work for the search in `search.rs`. `core.rs` calls it between rounds.

use crate::exec::tune::group::Member;
use crate::exec::tune::level::{Execution, Known, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::exec::tune::search::{Sample, Search};

/// A window of a trial lasts at least this long,
const TRIAL_NS_MIN: u64 = 1_000_000;
/// and until this many futures have ended or this much work is done (a thousand short futures, or fewer long ones),
const TRIAL_ENDED_MIN: u64 = 1000;
const TRIAL_WORK_MIN: u64 = 10_000;
/// but lasts no longer than this.
const TRIAL_NS_MAX: u64 = 10_000_000;
/// How many futures must end before their failed attempts are meaningful.
const WASTE_ENDED_MIN: u64 = 100;
/// The length of a window of the incumbent, between trials.
const HOLD_NS: u64 = 16_000_000;
/// While nothing is tried, one look in this many reads the clock.
const HOLD_LOOKS: u32 = 16;
/// The percentage of the level's places that must be taken on average. With fewer, there is too little to do for a
/// window to be meaningful.
const OCCUPANCY_MIN_PERCENT: u64 = 70;
/// How many windows without a result end a trial.
const VOID_MAX: u32 = 8;

/// How many looks after a change of level are not measured. Meanwhile the futures that were let in before end, and the
/// places are filled.
const SETTLING_LOOKS: u32 = 8;

/// The thread was off its core if the time between two looks was at least this long, and at least this multiple of the
/// time that the work usually takes.
const AWAY_NS_MIN: u64 = 500_000;
const AWAY_TIMES: u64 = 8;
/// How many looks it takes to know what is usual.
const USUAL_LOOKS: u64 = 4;

/// The counts at a moment.
#[derive(Clone, Copy)]
struct Mark {
    reading: Reading,
    counters: Counters,
}

/// A window in progress.
#[derive(Clone, Copy)]
struct Window {
    began: Mark,
    looks: u64,
    last: Reading,
    /// How long the thread has been off its core during the window.
    away_ns: u64,
}

impl Window {
    fn new(began: Mark) -> Window {
        Window { began, looks: 0, last: began.reading, away_ns: 0 }
    }

    /// Returns the length of the window up to now, without the time off the core. What the system gives to other
    /// threads says nothing of the level.
    fn ns(&mut self, now: Reading) -> u64 {
        let began = self.began.reading;
        let worked_ns = self.last.ns.saturating_sub(began.ns).saturating_sub(self.away_ns);
        let worked = self.last.work.saturating_sub(began.work);
        if self.looks >= USUAL_LOOKS && worked > 0 {
            let took = now.ns.saturating_sub(self.last.ns);
            // A look in which little was done took little time, not none.
            let least = worked_ns / self.looks;
            let work = now.work.saturating_sub(self.last.work);
            let usual = least.max((u128::from(worked_ns) * u128::from(work) / u128::from(worked)) as u64);
            if took > AWAY_NS_MIN.max(AWAY_TIMES * usual) {
                self.away_ns += took.saturating_sub(usual);
            }
        }
        self.looks += 1;
        self.last = now;
        now.ns.saturating_sub(began.ns).saturating_sub(self.away_ns)
    }
}

/// The level of one worker.
pub(crate) struct Tuner {
    search: Search,
    level: Level,
    /// `None`: a window begins with the next look.
    window: Option<Window>,
    /// How many looks to pass over. What is open after a change of level was let in before it.
    pass_over: u32,
    voids: u32,
    /// Membership in the group of workers that search together when they conflict.
    member: Option<Member>,
    follows: bool,
}

impl Tuner {
    pub(crate) fn new(search: Search, member: Option<Member>) -> Tuner {
        let level = search.level();
        Tuner { search, level, window: None, pass_over: 0, voids: 0, member, follows: false }
    }

    /// Returns the level to work at now.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Returns the best level known, or `None` while another worker leads the search.
    pub(crate) fn known(&self) -> Option<Known> {
        (!self.follows).then(|| self.search.known())
    }

    /// Returns the style for a future that is alone.
    pub(crate) fn alone(&self) -> Execution {
        self.search.alone()
    }

    /// Returns true if it is time to read the clock: once in this many calls.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.pass_over = self.pass_over.saturating_sub(1);
        self.pass_over == 0
    }

    /// Notes that the worker had nothing to do. The window says nothing then.
    pub(crate) fn interrupt(&mut self) {
        self.voids += u32::from(self.window.take().is_some());
        self.rest();
    }

    /// Notes that the worker is idle, and so does not lead others.
    pub(crate) fn rest(&self) {
        self.member.iter().for_each(Member::resign);
    }

    /// Looks at the window. Returns the new level if it changes.
    pub(crate) fn look(&mut self, reading: Reading, counters: Counters) -> Option<Level> {
        let now = Mark { reading, counters };
        if self.follow() {
            return self.change();
        }
        if self.voids >= VOID_MAX {
            self.voids = 0;
            self.search.give_up(reading.ns);
            self.window = None;
        }
        let is_holding = self.search.is_holding();
        self.pass_over = if is_holding && !self.follows { HOLD_LOOKS } else { 1 };
        let Some(window) = &mut self.window else {
            self.window = Some(Window::new(now));
            return self.change();
        };
        let (began, ns) = (window.began, window.ns(reading));
        let ended = counters.ended - began.counters.ended;
        let work = reading.work.saturating_sub(began.reading.work);
        // This comes early, because workers that conflict with this one may wait for it to follow.
        if ended >= WASTE_ENDED_MIN && self.search.note_waste(waste(&began, &now)) {
            return self.change();
        }
        let is_enough = ended >= TRIAL_ENDED_MIN || work >= TRIAL_WORK_MIN;
        let is_over = match is_holding {
            true => ns >= HOLD_NS,
            false => ns >= TRIAL_NS_MAX || ns >= TRIAL_NS_MIN && is_enough,
        };
        if !is_over {
            return None;
        }
        self.window = Some(Window::new(now));
        match sample(&began, &now, ns, self.level) {
            Some(_) if self.follows => {}
            Some(sample) => {
                self.voids = 0;
                self.search.sample(sample);
            }
            None => self.voids += 1,
        }
        self.change()
    }

    /// Follows the leader, or leads. Returns true if the level changes.
    fn follow(&mut self) -> bool {
        let Some(member) = &self.member else { return false };
        let leaders = member.follow(self.search.level(), self.search.is_contended());
        self.follows = leaders.is_some();
        let is_at = |level| self.search.is_holding() && self.search.incumbent() == level;
        if let Some(level) = leaders.filter(|&level| !is_at(level)) {
            self.search.follow(level);
        }
        self.search.level() != self.level
    }

    /// Changes to the level that the search wants, if it is another one.
    fn change(&mut self) -> Option<Level> {
        let level = self.search.level();
        if level == self.level {
            return None;
        }
        self.level = level;
        self.window = None;
        self.pass_over = 2 + SETTLING_LOOKS; // and one look that begins the window
        Some(level)
    }
}

/// Returns what lies between two marks that are `ns` nanoseconds apart, or `None` if that says nothing.
fn sample(began: &Mark, now: &Mark, ns: u64, level: Level) -> Option<Sample> {
    let since = |of: fn(&Counters) -> u64| of(&now.counters) - of(&began.counters);
    let (rounds, visits) = (since(|c| c.rounds), since(|c| c.visits));
    // The difference is negative if more was undone than done.
    let work = now.reading.work.saturating_sub(began.reading.work);
    let wanted = rounds * level.batch as u64 * OCCUPANCY_MIN_PERCENT / 100;
    // If hints leave places empty, there is enough to do all the same.
    let is_full = visits >= wanted || since(|c| c.turned_away) > 0;
    if work == 0 || level.batch > 1 && !is_full {
        return None;
    }
    Some(Sample { now_ns: now.reading.ns, rate: work as f64 / ns.max(1) as f64, wasted: waste(began, now) })
}

/// Returns the failed attempts per future that ended between two marks.
fn waste(began: &Mark, now: &Mark) -> f64 {
    let conflicts = now.reading.conflicts - began.reading.conflicts;
    conflicts as f64 / (now.counters.ended - began.counters.ended).max(1) as f64
}
