//! Finds out how many futures a worker should keep open, by measurement while the worker works. The search is pure: it
//! is told what was measured and answers with a level. `core.rs` measures and applies the level. See
//! docs/design/adaptive.md for the arithmetic of what the search costs.
//!
//! Invariants:
//! - `levels[at]` is the incumbent. The worker uses the incumbent or the challenger of a trial.
//! - A trial has at most `PAIRS_MAX` pairs of windows. Between two series of trials lies a hold of at least
//!   `HOLD_NS_MIN`, which doubles up to `HOLD_NS_MAX` while nothing better is found.

use super::level::{Execution, Known, Level};

/// The result of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When the window ended.
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
/// The most pairs of windows that a trial takes. A pair is one window of the incumbent and one of the challenger.
const PAIRS_MAX: usize = 9;
/// How many of these pairs may speak against the challenger.
const AGAINST_MAX: usize = 2;
/// A challenger takes over if it is better by this factor.
const BETTER: f64 = 1.03;
/// This many failed attempts per future are contention. Under contention a smaller batch takes over if it is no worse.
const CONTENDED: f64 = 0.25;
/// Contention has ended when there are fewer failed attempts per future than this.
const CALM: f64 = 0.02;
/// A trial is decided early if each of at least two pairs says at least this,
const FAR_BETTER: f64 = 1.15;
/// or at most this,
const FAR_WORSE: f64 = 0.9;
/// or if the first pair says at most this.
const HOPELESS: f64 = 0.6;
/// The incumbent's own rate has changed if it differs by this,
const CHANGED: f64 = 0.15;
/// and by this multiple of its usual deviation.
const CHANGED_TIMES: f64 = 2.5;
/// The incumbent's failed attempts per future have changed if they differ by this.
const WASTED_CHANGED: f64 = 0.1;
/// How many windows in a row must say so, to the same side, before a change is believed.
const CHANGED_WINDOWS: i32 = 3;
/// The weight of a window in the incumbent's usual rate, while that has not changed.
const WEIGHT: f64 = 0.2;
/// The weight of a window in the rate's usual deviation.
const OFF_WEIGHT: f64 = 0.1;
/// If nothing better is found, trials rest for this long,
const HOLD_NS_MIN: u64 = 16_000_000;
/// then twice as long each time, for at least this multiple of the time that the last series has taken,
const HOLD_TIMES: u64 = 16;
/// and for at most this long.
const HOLD_NS_MAX: u64 = 4_096_000_000;
/// The most trials of a series.
const QUEUE_MAX: usize = 3;

#[derive(Clone, Copy, Debug)]
enum State {
    Holding {
        since_ns: u64,
        /// How many windows in a row had a different rate: positive if higher, negative if lower.
        changed: i32,
    },
    /// Windows alternate A B B A A B …, where A is the incumbent, so that a drift affects both alike.
    Trying { other: usize, windows: usize, last: f64, ratios: [f64; PAIRS_MAX] },
}

/// A running average of the incumbent's measurements.
#[derive(Clone, Copy, Debug)]
struct Usual {
    rate: f64,
    wasted: f64,
    /// How much a window's rate deviates on average.
    off: f64,
}

impl Usual {
    /// Takes a window into account. Returns the side to which it is out of the ordinary, or 0 if it is not.
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
    /// The challengers that the present series still has to try.
    queue: [Option<usize>; QUEUE_MAX],
    hold_ns: u64,
    /// When the present series began. 0 means that it begins with the next window.
    series_ns: u64,
    /// How many series in a row have found nothing better.
    in_vain: u32,
    /// What windows of the incumbent have shown since the last series.
    usual: Option<Usual>,
    /// True if there was contention in the last window of the incumbent.
    is_contended: bool,
}

impl Search {
    /// Makes a search among the levels up to `batch_max`. It starts from the known level if that is one of them.
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
            // The level was found on other data. Therefore it is checked soon, but not at once, and the more certain it
            // was, the later.
            Some(known) => {
                search.in_vain = known.in_vain;
                search.hold_ns *= 4 << known.in_vain;
            }
            None => search.begin_series(None),
        }
        search
    }

    /// Returns how many transactions should be open now, and in which style.
    pub(crate) fn level(&self) -> Level {
        match self.state {
            State::Trying { other, windows, .. } if is_challengers(windows) => self.levels[other],
            _ => self.incumbent(),
        }
    }

    /// Returns the best level known.
    pub(crate) fn incumbent(&self) -> Level {
        self.levels[self.at]
    }

    /// Returns the best level known, and how many series have found none better. Workers share this.
    pub(crate) fn known(&self) -> Known {
        Known { level: self.incumbent(), in_vain: self.in_vain.min(Known::IN_VAIN_MAX) }
    }

    /// Returns the sequential level to use for a future that is alone.
    pub(crate) fn alone(&self) -> Execution {
        if self.incumbent().is_sequential() { self.incumbent().style } else { Execution::Prefetching }
    }

    /// Returns true if nothing is being tried. Windows may be long then.
    pub(crate) fn is_holding(&self) -> bool {
        matches!(self.state, State::Holding { .. })
    }

    /// Returns true if many of the incumbent's attempts fail, or if many failed before and some still do.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Takes the failed attempts per future at the present level, which count only if it is the incumbent. Returns true
    /// if a larger batch was being tried. That trial is given up.
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

    /// Gives up the present trial because no windows could be measured.
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
        self.in_vain += 1; // reset to 0 if the series finds something better
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
                // A small gain may be noise. Therefore it does not make the next trials come sooner.
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

    /// Rests after the last trial of a series, for longer each time.
    fn rest_if_idle(&mut self, now_ns: u64) {
        if self.is_holding() {
            // A level that was just found is compared again soon, because noise hides steps of the way.
            let times = HOLD_TIMES.min(1 << (2 * self.in_vain).min(32));
            let spent_ns = now_ns.saturating_sub(self.series_ns);
            self.hold_ns = (self.hold_ns * 2).max(times * spent_ns).min(HOLD_NS_MAX);
            self.state = State::Holding { since_ns: now_ns, changed: 0 };
        }
    }

    /// Lists the levels to try: first the neighbors, beginning with the one in the direction of the last move; then a
    /// level from the other side of the great divide, because the best levels of both sides need not be neighbors.
    ///
    /// From a sequential level, and under contention, the levels of the other side are tried first:
    /// - The neighbor of a sequential level is hardly better or worse, which takes the longest to find out.
    /// - Leaving contention step by step takes long.
    /// - The loss meanwhile is large.
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

/// Returns true if this window of a trial is the challenger's.
fn is_challengers(window: usize) -> bool {
    matches!(window % 4, 1 | 2)
}

/// Returns what pairs of windows say of the challenger's rate relative to the incumbent's. `None` means not enough.
/// Under contention the first pair says little, because workers that conflict with this worker may not have followed it
/// yet.
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
    // Of nine coins, at most two show tails in one of eleven throws.
    let decided = if sorted.len() == PAIRS_MAX { sorted[AGAINST_MAX] } else { least };
    is_clear.then(|| if decided > 1.0 { median } else { median.min(1.0) })
}
