//! Where workers' time goes. From time to time, one round over a worker's transactions is timed, and each stretch of it
//! is charged to an [`Activity`]. docs/design/profiling.md says what this is for and what it costs.
//!
//! `exec` says which rounds are timed, and which transaction is stepped. `suspend` has the policy through which
//! operations report their activity. `txn` reports what a transaction does while its future is polled. `metrics` adds
//! up. While profiling is off, it costs a branch in a few places.
//!
//! Invariants:
//! - `is_timing` implies `is_on`. Outside of a timed round, only settled time is charged.
//! - The activity of an attempt is charged to the attempt (`spent`) until it ends. A commit keeps each activity as it
//!   was; the time of an undone attempt becomes [`Activity::AbortedWork`]. Each tick is therefore counted once.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::ticks;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// One of so many rounds of a worker is timed, and its figures stand for so many rounds. Both numbers are powers of
/// two. If a round is one step of each of many transactions, timing takes several times as long as the steps. If a
/// round is a whole transaction, timing costs next to nothing.
const ROUNDS_OF_ONE: u64 = 64;
const ROUNDS_OF_MANY: u64 = 512;
/// The number of pairs of readings by which the cost of reading the counter is measured.
const CALIBRATION_PAIRS: usize = 64;
/// A stretch that takes so many times the usual round, and so many ticks, is taken as time in which the thread was off
/// its core.
const AWAY_ROUNDS: u64 = 16;
const AWAY_TICKS_MIN: u64 = 1 << 20;
/// The number of timed rounds after which the usual length of a round is known.
const USUAL_ROUNDS: u64 = 16;

const ACTIVITIES: usize = Activity::ALL.len();

/// An activity that a worker spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Activity {
    /// The transactions' own code, which begins operations and takes their results.
    Useful,
    /// Searching an index, walking it, adding to it.
    Index,
    /// Records' slots and versions: finding the visible version, making new versions.
    Versions,
    /// Noting what was read, and deciding whether the transaction may commit.
    Control,
    /// Making a commit's changes visible, and noting them in the log.
    Commit,
    /// Taking the timestamps of a snapshot and of a commit.
    Timestamps,
    /// Waiting for another transaction's outcome, or for a row's lock.
    Waiting,
    /// Backing off after a conflict.
    BackOff,
    /// The work of attempts that were undone, and undoing them.
    AbortedWork,
    /// Going from one transaction to the next, making new transactions from inputs, giving out results.
    Scheduling,
    /// Reclaiming what no transaction can see any more, and other work between rounds.
    Housekeeping,
}

impl Activity {
    /// All activities, in the order in which they are shown.
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

    /// Returns the activity's name in words.
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

    /// Returns whether the activity is part of an attempt, and lost if the attempt is undone.
    fn is_of_attempt(self) -> bool {
        use Activity::*;
        matches!(self, Useful | Index | Versions | Control | Commit | Timestamps)
    }
}

/// Where the time of a database's workers went while profiling was on, estimated from samples. See
/// [`Database::set_profiling`](crate::Database::set_profiling).
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

/// Serializes as a map: the [`name`](Activity::name) of each activity with its share, and `rounds`.
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
    /// Returns the ticks of the processor's counter that went to `activity`, extrapolated from the samples.
    pub fn ticks(&self, activity: Activity) -> u64 {
        self.ticks[activity as usize]
    }

    /// Returns the ticks of all activities. 0 means that nothing was measured.
    pub fn total_ticks(&self) -> u64 {
        self.ticks.iter().sum()
    }

    /// Returns the number of rounds that workers have timed.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns the number of stretches that were left out. They took so long that the thread was probably off its core.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the share of the time that went to `activity`. All shares add up to 1, or to 0 if nothing was measured.
    pub fn share(&self, activity: Activity) -> f64 {
        self.ticks(activity) as f64 / self.total_ticks().max(1) as f64
    }

    /// Returns every activity with its share.
    pub fn shares(&self) -> impl Iterator<Item = (Activity, f64)> {
        let me = *self;
        Activity::ALL.into_iter().map(move |activity| (activity, me.share(activity)))
    }

    /// Returns what was added since an earlier breakdown.
    pub fn since(&self, earlier: &Breakdown) -> Breakdown {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Breakdown {
            ticks: std::array::from_fn(|i| less(self.ticks[i], earlier.ticks[i])),
            rounds: less(self.rounds, earlier.rounds),
            dropped: less(self.dropped, earlier.dropped),
        }
    }

    /// Adds another breakdown.
    pub fn add(&mut self, other: &Breakdown) {
        for (sum, ticks) in self.ticks.iter_mut().zip(other.ticks) {
            *sum += ticks;
        }
        self.rounds += other.rounds;
        self.dropped += other.dropped;
    }
}

/// The sums of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    ticks: [AtomicU64; ACTIVITIES],
    rounds: AtomicU64,
    dropped: AtomicU64,
}

impl Sums {
    fn add(counter: &AtomicU64, n: u64) {
        // Relaxed: there is one writer, and readers want no order.
        counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Returns the sums as they are at about this moment.
    pub(crate) fn breakdown(&self) -> Breakdown {
        // Relaxed: see `add`.
        Breakdown {
            ticks: std::array::from_fn(|i| self.ticks[i].load(Relaxed)),
            rounds: self.rounds.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }
}

/// The ticks of an attempt, multiplied by the number of rounds that the timed ones stand for.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Whether there are any ticks. Nothing is timed of most attempts.
    any: bool,
    ticks: [u64; ACTIVITIES],
}

/// The state of one worker's timing.
#[derive(Debug)]
pub(crate) struct Profile {
    is_timing: Cell<bool>,
    is_on: Cell<bool>,
    /// The present activity, and the ticks at which it began.
    at: Cell<Activity>,
    since: Cell<u64>,
    /// The slot of the present attempt.
    slot: Cell<usize>,
    /// The ticks of attempts that have not ended, by slot.
    spent: RefCell<Vec<Spent>>,
    /// The round that is timed next, and the number of rounds that the present one stands for.
    next: Cell<u64>,
    weight: Cell<u64>,
    /// The ticks that reading the counter takes by itself.
    read_ticks: Cell<u64>,
    /// The ticks of the present timed round, of the usual round, and of the longest stretch that is believed.
    round: Cell<u64>,
    usual: Cell<u64>,
    believed: Cell<u64>,
    rounds: Cell<u64>,
    /// The setting of the database: whether profiling is on.
    switch: Arc<AtomicBool>,
    sums: Arc<Sums>,
}

impl Profile {
    /// Makes the profile of a worker that adds to `sums`, and that looks at `switch` when told to.
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

    /// Returns whether a round is being timed.
    #[inline(always)]
    pub(crate) fn is_timing(&self) -> bool {
        self.is_timing.get()
    }

    /// Returns whether rounds are timed at times, so that attempts may have spent something.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Adopts the database's setting. Not called while a round is being timed. Returns true if profiling is on.
    fn follow_switch(&self) -> bool {
        debug_assert!(!self.is_timing());
        let is_on = self.switch.load(Relaxed); // Relaxed: a setting, and no data behind it
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

    /// Returns the round that is timed next, or `u64::MAX`.
    pub(crate) fn next(&self) -> u64 {
        if self.is_on() { self.next.get() } else { u64::MAX }
    }

    /// Begins to time round number `round`, over so many open transactions, if it is due.
    pub(crate) fn begin(&self, round: u64, open: usize) -> bool {
        debug_assert!(!self.is_timing());
        if round < self.next() {
            return false;
        }
        // The next timed round is at a varying place in the next block: a fixed distance might fall in step with the
        // work.
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

    /// Ends the round, whatever its outcome.
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

    /// Begins `activity`, and charges the stretch that has ended.
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

    /// Renames the present stretch: since the last call of `enter` it was `activity`, and it continues.
    pub(crate) fn was(&self, activity: Activity) {
        self.at.set(activity);
    }

    /// Makes the attempt in this slot the present one. The caller has already charged the time before.
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

    /// Keeps the activities of the attempt in a slot, which has committed, as what they were.
    #[cold]
    pub(crate) fn keep(&self, slot: usize) {
        self.enter(Activity::Scheduling);
        if let Some(spent) = self.take(slot) {
            for (activity, ticks) in Activity::ALL.into_iter().zip(spent) {
                self.add(activity, ticks);
            }
        }
    }

    /// Turns the time of the attempt in a slot, which has been undone, into aborted work.
    #[cold]
    pub(crate) fn undo(&self, slot: usize) {
        self.enter(Activity::Scheduling);
        if let Some(spent) = self.take(slot) {
            self.add(Activity::AbortedWork, spent.iter().sum());
        }
    }

    /// Takes the timed ticks of the attempt in a slot, if there are any.
    fn take(&self, slot: usize) -> Option<[u64; ACTIVITIES]> {
        let mut spent = self.spent.borrow_mut();
        let spent = spent.get_mut(slot).filter(|spent| spent.any)?;
        Some(std::mem::take(spent).ticks)
    }

    /// Adopts the database's setting between rounds. Returns when housekeeping began, if profiling is on: housekeeping
    /// is timed each time.
    pub(crate) fn begin_housekeeping(&self) -> Option<u64> {
        self.follow_switch().then(ticks)
    }

    /// Charges housekeeping that began at `started`.
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
        // Proves that a stretch goes to its activity, under the attempt until that ends, and that shares add up to 1.
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
        // Proves that the work of an undone attempt is aborted work, and that its waiting is not.
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
        // Proves that exactly one round of each block is due, at varying places, and none while profiling is off.
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
