//! How many futures a worker keeps open, found out while it works: a search by measurement. Pure: it is
//! told what was measured and answers with a level; `core.rs` measures and applies. See
//! docs/design/adaptive.md for the arithmetic of what the search costs.
//!
//! Invariants:
//! - `levels[at]` is the incumbent; what is open meanwhile is that or the challenger of a trial.
//! - A trial has at most `PAIRS_MAX` pairs of windows; between two series of trials lies a hold of at least
//!   `HOLD_NS_MIN`, which doubles up to `HOLD_NS_MAX` while nothing better is found.

use super::level::{Execution, Known, Level};

/// What a window has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When it ended.
    pub(crate) now_ns: u64,
    /// Useful work per nanosecond.
    pub(crate) rate: f64,
    /// Failed attempts per future that ended.
    pub(crate) wasted: f64,
}

const BATCHES: [usize; 6] = [4, 8, 16, 32, 48, 64];
/// The first two levels are sequential.
const SEQUENTIAL: usize = 2;
/// Where the search starts if nothing is known: two steps from most optima.
const BATCH_FIRST: usize = 16;
/// Pairs of windows, one of the incumbent and one of the challenger, that a trial takes at most.
const PAIRS_MAX: usize = 9;
/// How many of these may speak against the challenger.
const AGAINST_MAX: usize = 2;
/// A challenger takes over if it is better by this.
const BETTER: f64 = 1.03;
/// This many failed attempts per future are contention: then fewer at once take over if they are no worse.
const CONTENDED: f64 = 0.25;
/// It has ended when there are fewer than these.
const CALM: f64 = 0.02;
/// Decides a trial early: when each of two pairs or more says at least this,
const FAR_BETTER: f64 = 1.15;
/// at most this,
const FAR_WORSE: f64 = 0.9;
/// or the first one this.
const HOPELESS: f64 = 0.6;
/// The incumbent's own rate has changed: by this,
const CHANGED: f64 = 0.15;
/// and by this multiple of what it usually is off.
const CHANGED_TIMES: f64 = 2.5;
/// Its failed attempts per future have changed.
const WASTED_CHANGED: f64 = 0.1;
/// Windows in a row that say so, to the same side, before it is believed.
const CHANGED_WINDOWS: i32 = 3;
/// What a window weighs in the incumbent's usual rate, while it has not changed.
const WEIGHT: f64 = 0.2;
/// What a window weighs in what the rate is usually off.
const OFF_WEIGHT: f64 = 0.1;
/// Without a find, trials rest for so long,
const HOLD_NS_MIN: u64 = 16_000_000;
/// doubling, and for at least this multiple of what the series before has taken that found nothing better,
const HOLD_TIMES: u64 = 16;
/// at most.
const HOLD_NS_MAX: u64 = 4_096_000_000;
/// Trials of a series, at most.
const QUEUE_MAX: usize = 3;

#[derive(Clone, Copy, Debug)]
enum State {
    Holding {
        since_ns: u64,
        /// Windows in a row whose rate is another one: above 0 for a higher one, below for a lower.
        changed: i32,
    },
    /// Windows alternate A B B A A B …, A being the incumbent: so that a drift falls on both alike.
    Trying { other: usize, windows: usize, last: f64, ratios: [f64; PAIRS_MAX] },
}

/// A running picture of the incumbent.
#[derive(Clone, Copy, Debug)]
struct Usual {
    rate: f64,
    wasted: f64,
    /// How far a window's rate is off, on average.
    off: f64,
}

impl Usual {
    /// Takes a window into account; to which side it is out of the ordinary, 0 if it is not.
    fn look(&mut self, sample: &Sample) -> i32 {
        let off = sample.rate / self.rate - 1.0;
        let wasted = sample.wasted - self.wasted;
        let towards = |old: f64, new: f64, weight: f64| old + weight * (new - old);
        let off_max = CHANGED.max(CHANGED_TIMES * self.off);
        self.off = towards(self.off, off.abs(), OFF_WEIGHT);
        let side = |by: f64| if by > 0.0 { 1 } else { -1 };
        if wasted.abs() > WASTED_CHANGED {
            return -side(wasted);
        }
        if off.abs() > off_max {
            return side(off);
        }
        self.rate = towards(self.rate, sample.rate, WEIGHT);
        self.wasted = towards(self.wasted, sample.wasted, WEIGHT);
        0
    }
}

/// The search for the best level.
#[derive(Debug)]
pub(crate) struct Search {
    levels: Vec<Level>,
    at: usize,
    state: State,
    /// Challengers that the present series has still to try.
    queue: [Option<usize>; QUEUE_MAX],
    hold_ns: u64,
    /// When the present series began; 0: with the next window.
    series_ns: u64,
    /// Series in a row that have found nothing better.
    in_vain: u32,
    /// What windows of the incumbent have shown since the last series.
    usual: Option<Usual>,
    /// In the last window of the incumbent there was contention.
    is_contended: bool,
}

impl Search {
    /// Among the levels up to `batch_max`, from the known one on if that is one of them.
    pub(crate) fn new(batch_max: usize, known: Option<Known>) -> Search {
        let mut levels = vec![
            Level { style: Execution::Sequential, batch: 1 },
            Level { style: Execution::Prefetching, batch: 1 },
        ];
        levels.extend(BATCHES.into_iter().filter(|&n| n < batch_max).map(Level::interleaved));
        if batch_max > 1 {
            levels.push(Level::interleaved(batch_max));
        }
        let known_at = known.and_then(|known| levels.iter().position(|&level| level == known.level));
        let first = levels.iter().rposition(|level| level.batch <= BATCH_FIRST).unwrap_or(0);
        let mut search = Search {
            levels,
            at: known_at.unwrap_or(first),
            state: State::Holding { since_ns: 0, changed: 0 },
            queue: [None; QUEUE_MAX],
            hold_ns: HOLD_NS_MIN,
            series_ns: 0,
            in_vain: 0,
            usual: None,
            is_contended: false,
        };
        match known.filter(|_| known_at.is_some()) {
            // It was found on other data: to be looked at soon, but not first of all, and the later the surer it was.
            Some(known) => {
                search.in_vain = known.in_vain;
                search.hold_ns *= 4 << known.in_vain;
            }
            None => search.begin_series(None),
        }
        search
    }

    /// How many transactions are to be open now, and in which style.
    pub(crate) fn level(&self) -> Level {
        match self.state {
            State::Trying { other, windows, .. } if is_challengers(windows) => self.levels[other],
            _ => self.incumbent(),
        }
    }

    /// The best level known.
    pub(crate) fn incumbent(&self) -> Level {
        self.levels[self.at]
    }

    /// The best level known, and how many series have found none better: what workers share.
    pub(crate) fn known(&self) -> Known {
        Known { level: self.incumbent(), in_vain: self.in_vain.min(Known::IN_VAIN_MAX) }
    }

    /// The sequential level to use for a future that is alone.
    pub(crate) fn alone(&self) -> Execution {
        if self.incumbent().is_sequential() { self.incumbent().style } else { Execution::Prefetching }
    }

    /// Nothing is being tried: windows may be long.
    pub(crate) fn is_holding(&self) -> bool {
        matches!(self.state, State::Holding { .. })
    }

    /// Many of the incumbent's attempts fail, or did, and still are some.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// What is open now has had this many failed attempts per future: of interest if that is the incumbent. Returns true if more at
    /// once were being tried, which is given up.
    pub(crate) fn note_waste(&mut self, wasted: f64) -> bool {
        if self.level() != self.incumbent() {
            return false;
        }
        let was_contended = self.is_contended;
        self.is_contended = wasted > if was_contended { CALM } else { CONTENDED };
        let tries_more = matches!(self.state, State::Trying { other, .. } if other > self.at);
        let gives_up = self.is_contended && !was_contended && tries_more;
        if gives_up {
            self.begin_series(None);
        }
        gives_up
    }

    /// Takes over the level of another worker, which searches for both.
    pub(crate) fn follow(&mut self, level: Level) {
        if let Some(at) = self.levels.iter().position(|&one| one == level) {
            self.at = at;
            self.usual = None;
            self.give_up(0);
        }
    }

    /// Windows could not be had: a trial under way is given up.
    pub(crate) fn give_up(&mut self, now_ns: u64) {
        self.queue = [None; QUEUE_MAX];
        self.state = State::Holding { since_ns: now_ns, changed: 0 };
    }

    /// Takes a window of `level()` into account.
    pub(crate) fn sample(&mut self, sample: Sample) {
        if self.note_waste(sample.wasted) {
            return;
        }
        match self.state {
            State::Holding { since_ns, changed } => self.watch(sample, since_ns, changed),
            State::Trying { other, windows, last, ratios } => {
                self.compare(sample, other, windows, last, ratios);
            }
        }
    }

    /// Begins a series of trials when it is time, or when the incumbent's own rate has changed.
    fn watch(&mut self, sample: Sample, since_ns: u64, changed: i32) {
        let since_ns = if since_ns == 0 { sample.now_ns } else { since_ns };
        let usual = self.usual.get_or_insert(Usual { rate: sample.rate, wasted: sample.wasted, off: 0.0 });
        let side = usual.look(&sample);
        let changed = if side == 0 || side.signum() == -changed.signum() { side } else { changed + side };
        self.state = State::Holding { since_ns, changed };
        if changed.abs() >= CHANGED_WINDOWS {
            (self.hold_ns, self.in_vain) = (HOLD_NS_MIN, 0); // the work has changed: all levels are measured again
        } else if sample.now_ns.saturating_sub(since_ns) < self.hold_ns {
            return;
        }
        self.usual = None;
        self.series_ns = sample.now_ns;
        self.in_vain += 1; // unless it is not
        self.begin_series(None);
        if self.is_holding() {
            self.state = State::Holding { since_ns: sample.now_ns, changed: 0 }; // there is one level only
        }
    }

    fn compare(
        &mut self,
        sample: Sample,
        other: usize,
        windows: usize,
        last: f64,
        mut ratios: [f64; PAIRS_MAX],
    ) {
        if self.series_ns == 0 {
            self.series_ns = sample.now_ns;
        }
        if windows.is_multiple_of(2) {
            self.state = State::Trying { other, windows: windows + 1, last: sample.rate, ratios };
            return;
        }
        let pairs = windows / 2 + 1;
        ratios[pairs - 1] = if is_challengers(windows) { sample.rate / last } else { last / sample.rate };
        match verdict(&ratios[..pairs], self.is_contended) {
            None => self.state = State::Trying { other, windows: windows + 1, last: sample.rate, ratios },
            Some(gain) if gain > BETTER || self.is_contended && other < self.at && gain >= 1.0 => {
                let from = std::mem::replace(&mut self.at, other);
                self.in_vain = 0;
                // A small gain may be noise: so it does not speed up the trials to come.
                self.hold_ns = if gain > FAR_BETTER { HOLD_NS_MIN } else { self.hold_ns };
                self.begin_series(Some(from));
                self.rest_if_idle(sample.now_ns);
            }
            Some(_) => {
                self.next_trial();
                self.rest_if_idle(sample.now_ns);
            }
        }
    }

    /// After the last trial of a series: for longer each time.
    fn rest_if_idle(&mut self, now_ns: u64) {
        if self.is_holding() {
            // A level that was found just now is compared again soon: noise hides steps of the way.
            let times = HOLD_TIMES.min(1 << (2 * self.in_vain).min(32));
            let spent_ns = now_ns.saturating_sub(self.series_ns);
            self.hold_ns = (self.hold_ns * 2).max(times * spent_ns).min(HOLD_NS_MAX);
            self.state = State::Holding { since_ns: now_ns, changed: 0 };
        }
    }

    /// Lists the levels to try: the neighbours, first the one in the direction of the last move; then one from
    /// the other side of the great divide, for the best levels of both sides need not be neighbours. From a sequential level, and
    /// under contention, those come first: the neighbour of a sequential level is hardly better or worse, which takes the longest to find
    /// out; step by step the way out of contention is long; and the loss meanwhile is large.
    fn begin_series(&mut self, from: Option<usize>) {
        let (at, top) = (self.at, self.levels.len() - 1);
        let of_batch =
            |batch| self.levels.iter().rposition(|l| l.batch <= batch).filter(|&i| i >= SEQUENTIAL);
        let (up, down) = (Some(at + 1).filter(|&i| i <= top), at.checked_sub(1));
        let all = match at {
            0 | 1 => [of_batch(BATCHES[0]), of_batch(BATCH_FIRST), Some(1 - at)],
            _ if self.is_contended => [Some(0), down, up],
            _ if from.is_some_and(|from| from > at) => [down, up, Some(0)],
            _ => [up, down, Some(0)],
        };
        self.queue = all.map(|level| level.filter(|&i| Some(i) != from && i <= top));
        if self.queue[0] == self.queue[1] {
            self.queue[1] = None; // there are few levels
        }
        if self.queue[1] == self.queue[2] {
            self.queue[2] = None;
        }
        self.next_trial();
    }

    fn next_trial(&mut self) {
        let next = self.queue.iter_mut().find_map(Option::take);
        self.state = match next {
            Some(other) => State::Trying { other, windows: 0, last: 0.0, ratios: [0.0; PAIRS_MAX] },
            None => State::Holding { since_ns: 0, changed: 0 },
        };
    }
}

/// Whose turn a window of a trial is.
fn is_challengers(window: usize) -> bool {
    matches!(window % 4, 1 | 2)
}

/// What pairs of windows say of the challenger's rate, by the incumbent's: `None`: not enough. (Under contention the first pair says
/// little: workers that fight with this one may not have followed it yet.)
fn verdict(ratios: &[f64], is_contended: bool) -> Option<f64> {
    let mut sorted = [0.0; PAIRS_MAX];
    let sorted = &mut sorted[..ratios.len()];
    sorted.copy_from_slice(ratios);
    sorted.sort_by(f64::total_cmp);
    let (least, median, most) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    let is_clear = match sorted.len() {
        1 => most < HOPELESS && !is_contended,
        2 => most < FAR_WORSE,
        PAIRS_MAX => true,
        _ => most < FAR_WORSE || least > FAR_BETTER,
    };
    // Of nine coins at most two show tails in one of eleven throws.
    let decided = if sorted.len() == PAIRS_MAX { sorted[AGAINST_MAX] } else { least };
    is_clear.then(|| if decided > 1.0 { median } else { median.min(1.0) })
}
