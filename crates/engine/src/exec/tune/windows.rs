//! Measures windows of a worker's own work for the search in `search.rs`. Called between rounds, by `core.rs`.

use crate::exec::tune::group::Member;
use crate::exec::tune::level::{Execution, Known, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::exec::tune::search::{Sample, Search};

/// A window of a trial lasts so long at least,
const TRIAL_NS_MIN: u64 = 1_000_000;
/// has at least so many futures end, or so much work done: a thousand short ones, or fewer long ones,
const TRIAL_ENDED_MIN: u64 = 1000;
const TRIAL_WORK_MIN: u64 = 10_000;
/// but lasts no longer than this.
const TRIAL_NS_MAX: u64 = 10_000_000;
/// Futures that end before their failed attempts say something.
const WASTE_ENDED_MIN: u64 = 100;
/// A window of the incumbent, between trials.
const HOLD_NS: u64 = 16_000_000;
/// While nothing is tried the clock is read at every so many-th look.
const HOLD_LOOKS: u32 = 16;
/// Of the places of the level, in a hundred, that have to be taken on average: else there is too little to do
/// for a window to say anything.
const OCCUPANCY_MIN_PERCENT: u64 = 70;
/// Windows that said nothing, after which a trial is given up.
const VOID_MAX: u32 = 8;

/// Looks after a change of level that are not measured: what was let in before ends, and the places are filled.
const SETTLING_LOOKS: u32 = 8;

/// The thread was off its core, if from one look to the next it took so long, and so many times what the work done
/// usually takes.
const AWAY_NS_MIN: u64 = 500_000;
const AWAY_TIMES: u64 = 8;
/// Looks after which it is known what is usual.
const USUAL_LOOKS: u64 = 4;

/// What was counted at a moment.
#[derive(Clone, Copy)]
struct Mark {
    reading: Reading,
    counters: Counters,
}

/// A window under way.
#[derive(Clone, Copy)]
struct Window {
    began: Mark,
    looks: u64,
    last: Reading,
    /// Time in it that the thread has been away.
    away_ns: u64,
}

impl Window {
    fn new(began: Mark) -> Window {
        Window { began, looks: 0, last: began.reading, away_ns: 0 }
    }

    /// How long it has been, as of this moment, without the time away: what the system gives to other threads says
    /// nothing of the level.
    fn ns(&mut self, now: Reading) -> u64 {
        let began = self.began.reading;
        let worked_ns = self.last.ns.saturating_sub(began.ns).saturating_sub(self.away_ns);
        let worked = self.last.work.saturating_sub(began.work);
        if self.looks >= USUAL_LOOKS && worked > 0 {
            let took = now.ns.saturating_sub(self.last.ns);
            // (A look in which little was done is a short one, not one that took no time.)
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
    /// `None`: one begins with the next look.
    window: Option<Window>,
    /// Looks to pass over: what is open after a change of level was let in before it.
    pass_over: u32,
    voids: u32,
    /// Among the workers that search together when they fight.
    member: Option<Member>,
    follows: bool,
}

impl Tuner {
    pub(crate) fn new(search: Search, member: Option<Member>) -> Tuner {
        let level = search.level();
        Tuner { search, level, window: None, pass_over: 0, voids: 0, member, follows: false }
    }

    /// The level to work at now.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// The best one known; `None` while another worker knows.
    pub(crate) fn known(&self) -> Option<Known> {
        (!self.follows).then(|| self.search.known())
    }

    /// The style for a future that is alone.
    pub(crate) fn alone(&self) -> Execution {
        self.search.alone()
    }

    /// It is time to read the clock: once in this many calls.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.pass_over = self.pass_over.saturating_sub(1);
        self.pass_over == 0
    }

    /// The worker had nothing to do: the window says nothing.
    pub(crate) fn interrupt(&mut self) {
        self.voids += u32::from(self.window.take().is_some());
        self.rest();
    }

    /// The worker is not at work: it does not lead others.
    pub(crate) fn rest(&self) {
        self.member.iter().for_each(Member::resign);
    }

    /// Looks at the window; a change of level, if there is one.
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
        // (Soon, for others that fight with this worker may wait for it to follow.)
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

    /// Looks at what the leader is at, or leads. Returns true if the level is another one.
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

    /// Takes over the level that the search wants, if it is another one.
    fn change(&mut self) -> Option<Level> {
        let level = self.search.level();
        if level == self.level {
            return None;
        }
        self.level = level;
        self.window = None;
        self.pass_over = 2 + SETTLING_LOOKS; // and one that begins the window
        Some(level)
    }
}

/// What lies between two marks, in so many nanoseconds; `None`: it says nothing.
fn sample(began: &Mark, now: &Mark, ns: u64, level: Level) -> Option<Sample> {
    let since = |of: fn(&Counters) -> u64| of(&now.counters) - of(&began.counters);
    let (rounds, visits) = (since(|c| c.rounds), since(|c| c.visits));
    // (Less, where more was undone than done.)
    let work = now.reading.work.saturating_sub(began.reading.work);
    let wanted = rounds * level.batch as u64 * OCCUPANCY_MIN_PERCENT / 100;
    // (Where hints leave places empty there is enough to do all the same.)
    let is_full = visits >= wanted || since(|c| c.turned_away) > 0;
    if work == 0 || level.batch > 1 && !is_full {
        return None;
    }
    Some(Sample { now_ns: now.reading.ns, rate: work as f64 / ns.max(1) as f64, wasted: waste(began, now) })
}

/// Failed attempts for each future that ended between two marks.
fn waste(began: &Mark, now: &Mark) -> f64 {
    let conflicts = now.reading.conflicts - began.reading.conflicts;
    conflicts as f64 / (now.counters.ended - began.counters.ended).max(1) as f64
}
