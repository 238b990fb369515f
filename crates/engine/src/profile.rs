//! Where workers' time goes: every so often one round over a worker's transactions is timed, and each stretch of it is
//! put down to an [`Activity`]. What it is for and what it costs: docs/design/profiling.md.
//!
//! `exec` says which rounds are timed and whose turn it is, `suspend` has the policy through which operations say what
//! they are at, `txn` says what a transaction does while its future is polled, `metrics` adds up. Off, it costs a
//! branch in a few places.
//!
//! Invariants:
//! - `is_timing` only if `is_on`; outside of a timed round nothing is charged but what is settled.
//! - What an attempt does is put down to it (`spent`) until it ends: a commit keeps it as what it was, and what is
//!   undone becomes [`Activity::AbortedWork`]. So each tick is counted once.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::ticks;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Rounds of a worker of which one is timed: powers of two. What is measured stands for so many. Where a round is a
/// step each of many transactions, timing takes several times what they do; where it is a whole one, next to nothing.
const ROUNDS_OF_ONE: u64 = 64;
const ROUNDS_OF_MANY: u64 = 512;
/// Pairs of readings of the counter by which the cost of one is told.
const CALIBRATION_PAIRS: usize = 64;
/// A stretch that takes so many times the usual round, and so many ticks, is put down to the thread's having been off
/// its core.
const AWAY_ROUNDS: u64 = 16;
const AWAY_TICKS_MIN: u64 = 1 << 20;
/// Timed rounds after which it is known what is usual.
const USUAL_ROUNDS: u64 = 16;

const ACTIVITIES: usize = Activity::ALL.len();

/// What a worker spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Activity {
    /// The transactions' own code, which begins operations and takes their results.
    Useful,
    /// Searching an index, walking it, adding to it.
    Index,
    /// Records' slots and versions: finding the one to be seen, making new ones.
    Versions,
    /// Noting what was read, and deciding whether it may commit.
    Control,
    /// Making a commit's changes seen, and noting them in the log.
    Commit,
    /// Taking a snapshot's and a commit's place in time.
    Timestamps,
    /// Standing by for another transaction's outcome, or for a row's lock.
    Waiting,
    /// Standing aside after a conflict.
    BackOff,
    /// What attempts did that were undone, and undoing them.
    AbortedWork,
    /// Going from one transaction to the next, making new ones of inputs, giving out results.
    Scheduling,
    /// Reclaiming what nobody can see any more, and what else is done between rounds.
    Housekeeping,
}

impl Activity {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Activity; 11] = [
        Activity::Useful,
        Activity::Index,
        Activity::Versions,
        Activity::Control,
        Activity::Commit,
        Activity::Timestamps,
        Activity::Waiting,
        Activity::BackOff,
        Activity::AbortedWork,
        Activity::Scheduling,
        Activity::Housekeeping,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Useful => "useful work",
            Activity::Index => "index",
            Activity::Versions => "version access",
            Activity::Control => "concurrency control",
            Activity::Commit => "commit",
            Activity::Timestamps => "timestamps",
            Activity::Waiting => "waiting",
            Activity::BackOff => "back-off",
            Activity::AbortedWork => "aborted work",
            Activity::Scheduling => "scheduling",
            Activity::Housekeeping => "housekeeping",
        }
    }

    /// Part of an attempt, and lost if that is undone.
    fn is_of_attempt(self) -> bool {
        use Activity::*;
        matches!(self, Useful | Index | Versions | Control | Commit | Timestamps)
    }
}

/// Where the time of a database's workers has gone, while it was asked for with
/// [`Database::set_profiling`](crate::Database::set_profiling): told by samples.
///
/// ```
/// # use braiddb::metrics::Activity;
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let t: Table<u64, u64> = db.table("t")?;
/// db.set_profiling(true);
/// db.worker().run_each(0..10_000, async |tx, key| tx.put(t, *key, 1).await, |result| assert!(result.is_ok()));
/// let breakdown = db.statistics().breakdown;
/// for (activity, share) in breakdown.shares() {
///     println!("{}: {:.1} %", activity.name(), share * 100.0);
/// }
/// assert!(breakdown.share(Activity::Useful) < 1.0);
/// # Ok::<(), braiddb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    ticks: [u64; ACTIVITIES],
    rounds: u64,
    dropped: u64,
}

/// As a map: the [`name`](Activity::name) of each activity with its share, and `rounds`.
#[cfg(feature = "serde")]
impl serde::Serialize for Breakdown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(ACTIVITIES + 1))?;
        map.serialize_entry("rounds", &self.rounds)?;
        for (activity, share) in self.shares() {
            map.serialize_entry(activity.name(), &share)?;
        }
        map.end()
    }
}

impl Breakdown {
    /// Ticks of the processor's counter of time that went to `activity`, extrapolated from the samples.
    pub fn ticks(&self, activity: Activity) -> u64 {
        self.ticks[activity as usize]
    }

    /// Ticks of all activities. 0: nothing was measured.
    pub fn total_ticks(&self) -> u64 {
        self.ticks.iter().sum()
    }

    /// Rounds over their transactions that workers have timed.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Stretches that were left out because they took so long that the thread was probably off its core.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The part of the time that went to `activity`: all add up to 1, or where nothing was measured, to 0.
    pub fn share(&self, activity: Activity) -> f64 {
        self.ticks(activity) as f64 / self.total_ticks().max(1) as f64
    }

    /// Every activity with its share.
    pub fn shares(&self) -> impl Iterator<Item = (Activity, f64)> {
        let me = *self;
        Activity::ALL.into_iter().map(move |activity| (activity, me.share(activity)))
    }

    /// What has come since an earlier look.
    pub fn since(&self, earlier: &Breakdown) -> Breakdown {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Breakdown {
            ticks: std::array::from_fn(|i| less(self.ticks[i], earlier.ticks[i])),
            rounds: less(self.rounds, earlier.rounds),
            dropped: less(self.dropped, earlier.dropped),
        }
    }

    /// Adds another one's.
    pub fn add(&mut self, other: &Breakdown) {
        for (sum, ticks) in self.ticks.iter_mut().zip(other.ticks) {
            *sum += ticks;
        }
        self.rounds += other.rounds;
        self.dropped += other.dropped;
    }
}

/// One worker's sums, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    ticks: [AtomicU64; ACTIVITIES],
    rounds: AtomicU64,
    dropped: AtomicU64,
}

impl Sums {
    fn add(counter: &AtomicU64, n: u64) {
        // Relaxed: one writer; readers want no order.
        counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// As they are at about this moment.
    pub(crate) fn breakdown(&self) -> Breakdown {
        // Relaxed: see `add`.
        Breakdown {
            ticks: std::array::from_fn(|i| self.ticks[i].load(Relaxed)),
            rounds: self.rounds.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }
}

/// Ticks of an attempt, as many times as the rounds stand for in which they were timed.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// There are any: of most attempts nothing is timed.
    any: bool,
    ticks: [u64; ACTIVITIES],
}

/// What one worker times.
#[derive(Debug)]
pub(crate) struct Profile {
    is_timing: Cell<bool>,
    is_on: Cell<bool>,
    /// What it is at, and since when.
    at: Cell<Activity>,
    since: Cell<u64>,
    /// The slot whose attempt it is at.
    slot: Cell<usize>,
    /// By slot, of attempts that have not ended.
    spent: RefCell<Vec<Spent>>,
    /// The round that is timed next, and how many the present one stands for.
    next: Cell<u64>,
    weight: Cell<u64>,
    /// Ticks that reading the counter takes by itself.
    read_ticks: Cell<u64>,
    /// Ticks of the present timed round, of the usual one, and of the longest stretch that is believed.
    round: Cell<u64>,
    usual: Cell<u64>,
    believed: Cell<u64>,
    rounds: Cell<u64>,
    /// The database's wish.
    switch: Arc<AtomicBool>,
    sums: Arc<Sums>,
}

impl Profile {
    /// Of a worker that adds to `sums`, and looks at `switch` when it is told to.
    pub(crate) fn new(switch: Arc<AtomicBool>, sums: Arc<Sums>) -> Self {
        Profile {
            is_timing: Cell::new(false),
            is_on: Cell::new(false),
            at: Cell::new(Activity::Scheduling),
            since: Cell::new(0),
            slot: Cell::new(0),
            spent: RefCell::default(),
            next: Cell::new(0),
            weight: Cell::new(1),
            read_ticks: Cell::new(0),
            round: Cell::new(0),
            usual: Cell::new(0),
            believed: Cell::new(u64::MAX),
            rounds: Cell::new(0),
            switch,
            sums,
        }
    }

    /// A round is being timed.
    #[inline(always)]
    pub(crate) fn is_timing(&self) -> bool {
        self.is_timing.get()
    }

    /// Rounds are timed at times, so attempts may have spent something.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Does what the database wishes from now on; not while a round is being timed. Returns true if it is on.
    fn follow_switch(&self) -> bool {
        debug_assert!(!self.is_timing());
        let is_on = self.switch.load(Relaxed); // Relaxed: a wish, and nothing behind it
        if is_on != self.is_on.replace(is_on) {
            self.spent.borrow_mut().clear();
            if is_on {
                self.calibrate();
            }
        }
        is_on
    }

    fn calibrate(&self) {
        let pair = |_| {
            let before = ticks();
            ticks().saturating_sub(before)
        };
        self.read_ticks.set((0..CALIBRATION_PAIRS).map(pair).min().unwrap_or(0));
        self.usual.set(0);
        self.rounds.set(0);
        self.believed.set(u64::MAX);
        self.next.set(0);
    }

    /// The round that is timed next, or `u64::MAX`.
    pub(crate) fn next(&self) -> u64 {
        if self.is_on() { self.next.get() } else { u64::MAX }
    }

    /// Begins to time round number `round`, over so many open transactions, if it is due.
    pub(crate) fn begin(&self, round: u64, open: usize) -> bool {
        debug_assert!(!self.is_timing());
        if round < self.next() {
            return false;
        }
        // Somewhere in the next so many rounds: a fixed distance might fall in step with the work.
        let rounds = if open > 1 { ROUNDS_OF_MANY } else { ROUNDS_OF_ONE };
        let block = round / rounds + 1;
        let within = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (rounds - 1);
        self.next.set(block * rounds + within);
        self.weight.set(rounds);
        self.at.set(Activity::Scheduling);
        self.round.set(0);
        self.is_timing.set(true);
        self.since.set(ticks());
        true
    }

    /// The round has ended, however it did.
    pub(crate) fn end(&self) {
        if !self.is_timing() {
            return;
        }
        self.enter(Activity::Scheduling);
        self.is_timing.set(false);
        Sums::add(&self.sums.rounds, 1);
        let (rounds, round) = (self.rounds.get() + 1, self.round.get());
        self.rounds.set(rounds);
        let usual = match self.usual.get() {
            0 => round,
            usual => usual - usual / 16 + round / 16,
        };
        self.usual.set(usual);
        if rounds >= USUAL_ROUNDS {
            self.believed.set(AWAY_TICKS_MIN.max(usual.saturating_mul(AWAY_ROUNDS)));
        }
    }

    /// What comes next is `activity`.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter(&self, activity: Activity) {
        if !self.is_timing() {
            return;
        }
        let now = ticks();
        let took = now.saturating_sub(self.since.get()).saturating_sub(self.read_ticks.get());
        self.charge(self.at.replace(activity), took);
        self.since.set(now);
    }

    /// What came since the last call of `enter` was `activity`, and goes on.
    pub(crate) fn was(&self, activity: Activity) {
        self.at.set(activity);
    }

    /// What comes next is of the attempt in this slot. (What has come belongs elsewhere by now.)
    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.set(slot);
        let mut spent = self.spent.borrow_mut();
        if slot >= spent.len() {
            spent.resize(slot + 1, Spent::default()); // as many as the worker has slots, at most
        }
    }

    fn charge(&self, activity: Activity, took: u64) {
        if took > self.believed.get() {
            Sums::add(&self.sums.dropped, 1);
            return;
        }
        self.round.set(self.round.get() + took);
        let stands_for = took * self.weight.get();
        if activity.is_of_attempt()
            && let Some(spent) = self.spent.borrow_mut().get_mut(self.slot.get())
        {
            spent.any = true;
            spent.ticks[activity as usize] += stands_for;
        } else {
            self.add(activity, stands_for);
        }
    }

    fn add(&self, activity: Activity, ticks: u64) {
        Sums::add(&self.sums.ticks[activity as usize], ticks);
    }

    /// The attempt in a slot has committed: what it did was what it was.
    #[cold]
    pub(crate) fn keep(&self, slot: usize) {
        self.enter(Activity::Scheduling);
        if let Some(spent) = self.take(slot) {
            for (activity, ticks) in Activity::ALL.into_iter().zip(spent) {
                self.add(activity, ticks);
            }
        }
    }

    /// The attempt in a slot has been undone.
    #[cold]
    pub(crate) fn undo(&self, slot: usize) {
        self.enter(Activity::Scheduling);
        if let Some(spent) = self.take(slot) {
            self.add(Activity::AbortedWork, spent.iter().sum());
        }
    }

    /// What was timed of the attempt in a slot, if anything was.
    fn take(&self, slot: usize) -> Option<[u64; ACTIVITIES]> {
        let mut spent = self.spent.borrow_mut();
        let spent = spent.get_mut(slot).filter(|spent| spent.any)?;
        Some(std::mem::take(spent).ticks)
    }

    /// Between rounds: does what the database wishes from now on, and tells when housekeeping began, which is timed
    /// each time.
    pub(crate) fn begin_housekeeping(&self) -> Option<u64> {
        self.follow_switch().then(ticks)
    }

    /// Housekeeping is over.
    pub(crate) fn end_housekeeping(&self, started: u64) {
        let took = ticks().saturating_sub(started);
        Sums::add(&self.sums.ticks[Activity::Housekeeping as usize], took);
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    fn make() -> (Profile, Arc<AtomicBool>, Arc<Sums>) {
        let (switch, sums) = (Arc::new(AtomicBool::new(false)), Arc::new(Sums::default()));
        (Profile::new(switch.clone(), sums.clone()), switch, sums)
    }

    fn spin() {
        let until = ticks() + 10_000;
        while ticks() < until {}
    }

    #[test]
    fn each_tick_is_counted_once() {
        // Proves that a stretch goes to what it was, under the attempt until that ends, and that shares add up to 1.
        let (profile, switch, sums) = make();
        switch.store(true, Relaxed);
        assert!(profile.follow_switch() && profile.begin(0, 1));
        profile.set_slot(3);
        profile.enter(Activity::Index);
        spin();
        profile.enter(Activity::Waiting);
        spin();
        profile.enter(Activity::Useful);
        spin();
        profile.end();
        assert_eq!(sums.breakdown().ticks(Activity::Index), 0, "the attempt has not ended");
        let waited = sums.breakdown().ticks(Activity::Waiting);
        assert!(waited >= 9_000 * ROUNDS_OF_ONE, "{waited}");
        profile.keep(3);
        let breakdown = sums.breakdown();
        for activity in [Activity::Index, Activity::Useful] {
            assert!(breakdown.ticks(activity) >= 9_000 * ROUNDS_OF_ONE, "{breakdown:?}");
        }
        assert!((breakdown.shares().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        profile.undo(3);
        assert_eq!(sums.breakdown(), breakdown, "what was kept is not undone");
    }

    #[test]
    fn what_is_undone_was_in_vain() {
        // Proves that the work of an attempt that is undone is aborted work, and its waiting is not.
        let (profile, switch, sums) = make();
        switch.store(true, Relaxed);
        assert!(profile.follow_switch() && profile.begin(0, 1));
        profile.set_slot(0);
        profile.enter(Activity::Versions);
        spin();
        profile.was(Activity::Waiting);
        profile.enter(Activity::Control);
        spin();
        profile.undo(0);
        profile.end();
        let breakdown = sums.breakdown();
        assert_eq!((breakdown.ticks(Activity::Control), breakdown.ticks(Activity::Versions)), (0, 0));
        assert!(breakdown.ticks(Activity::Waiting) > 0 && breakdown.ticks(Activity::AbortedWork) > 0);
    }

    #[test]
    fn one_round_of_a_block_is_timed() {
        // Proves that exactly one round of every so many is due, at places that differ, and none when it is off.
        for (open, rounds) in [(1, ROUNDS_OF_ONE), (2, ROUNDS_OF_MANY)] {
            let (profile, switch, sums) = make();
            assert!(!profile.follow_switch() && !profile.begin(0, open));
            switch.store(true, Relaxed);
            profile.follow_switch();
            let timed: Vec<u64> = (0..1000 * rounds)
                .filter(|&round| {
                    let is_timed = profile.begin(round, open);
                    profile.end();
                    is_timed
                })
                .collect();
            assert!((999..=1000).contains(&timed.len()), "{}", timed.len());
            assert!(timed[1..].windows(2).all(|two| two[0] / rounds + 1 == two[1] / rounds));
            let places: std::collections::BTreeSet<u64> = timed.iter().map(|round| round % rounds).collect();
            assert!(places.len() as u64 > rounds / 2, "{places:?}");
            assert_eq!(sums.breakdown().rounds(), timed.len() as u64);
        }
    }

    #[test]
    fn absences_are_left_out() {
        // Proves that a stretch far beyond the usual is counted as dropped, not as time.
        let (profile, switch, sums) = make();
        switch.store(true, Relaxed);
        profile.follow_switch();
        for block in 0..USUAL_ROUNDS + 1 {
            assert!(profile.begin(block * 2 * ROUNDS_OF_ONE, 1));
            profile.end();
        }
        let before = sums.breakdown();
        assert!(profile.begin(1 << 20, 1));
        profile.enter(Activity::Waiting);
        let until = ticks() + 4 * AWAY_TICKS_MIN;
        while ticks() < until {}
        profile.end();
        let since = sums.breakdown().since(&before);
        assert_eq!((since.ticks(Activity::Waiting), since.dropped()), (0, 1));
    }
}
