//! The work of a worker between rounds: slots, epochs, wake-ups, housekeeping.
//!
//! Invariant: while a future is polled, stepped or dropped, the worker is inside an epoch no later than the stamp of
//! any slot.

use crate::exec::contract::{Host, Operations};
use crate::exec::slot::{NO_STAMP, Slot, Slots, State};
use crate::exec::tune::group::Member;
use crate::exec::tune::level::{BatchSize, Execution, Level};
use crate::exec::tune::measure::Counters;
use crate::exec::tune::search::Search;
use crate::exec::tune::windows::Tuner;
use crate::exec::wake::notifier::Notifier;
use crate::profile::Profile;
use crate::suspend::Suspend;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// Rounds between two announcements of the epoch: a power of two.
const REFRESH_EVERY_ROUNDS: u64 = 64;
/// The same in sequential execution, where a round is a whole transaction with everything that it leaves behind.
const REFRESH_EVERY_SEQUENTIAL: u64 = 8;
/// Ended futures between two calls of `Host::maintain`.
const MAINTAIN_EVERY_ENDED: u64 = 256;
/// The most calls of `Host::maintain` in a row, before the worker looks for work again.
const MAINTAIN_IN_A_ROW_MAX: usize = 16;

/// When a free place is filled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// At once.
    #[default]
    Immediate,
    /// When all futures of a batch have ended, as in the CoroBase paper.
    Strict,
}

/// The settings of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// The number of futures open at once, not counting parked ones. Default: automatic, found by measuring.
    /// Measuring needs a policy made for speed, [`OnMiss`](crate::suspend::OnMiss). With other policies the default
    /// is 48.
    pub batch: BatchSize,
    /// The limit of `batch`, also for `set_batch`. Default: 64.
    pub batch_max: usize,
    /// The limit of parked futures, which are open in addition to the batch. At the limit no other future is
    /// admitted. Default: 1024.
    pub parked_max: usize,
    /// The limit of outputs of ended futures that are held back. At the limit no other future is admitted. Futures
    /// that are open then still add theirs. Default: 65,536, which allows a million to end each second and be held
    /// for 65 ms.
    pub held_max: usize,
    /// The limit of spawned futures that wait for a place. At the limit the next one is refused. Their memory is also
    /// in the account. Default: 65,536.
    pub queued_max: usize,
    /// When a free place is filled again. Default: at once.
    pub refill: Refill,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            batch: BatchSize::Auto,
            batch_max: 64,
            parked_max: 1024,
            held_max: 1 << 16,
            queued_max: 1 << 16,
            refill: Refill::Immediate,
        }
    }
}

/// `BatchSize::Auto` with policies that are not tuned.
const BATCH_DEFAULT: usize = 48;

/// Slots of open futures that are not parked, in the order of visits. They are the first slots of an array, and the
/// loop keeps their count. Each is valid as long as the worker's slots.
pub(crate) type LiveList<M> = Box<[NonNull<Slot<M>>]>;

pub(crate) struct Core<H: Host> {
    pub(crate) slots: Slots<H::Operations>, // before `host`
    pub(crate) host: H,
    pub(crate) parked: usize,
    /// Parked futures with a stamp: they hold a result that they have not fetched. Rare.
    parked_stamped: usize,
    pub(crate) batch_max: usize,
    pub(crate) held_max: usize,
    pub(crate) refill: Refill,
    pub(crate) counters: Counters,
    batch: usize,
    refresh_every: u64,
    /// The round of the next announcement of the epoch and the rest of housekeeping.
    house_at: u64,
    /// The first round with work before it that most rounds do not have.
    mark_at: u64,
    /// True if the present round is timed.
    pub(crate) is_timing: bool,
    policy: Policy,
    /// Chooses the batch by measuring. `None`: the batch is fixed.
    tuner: Option<Tuner>,
    maintained_at_ended: u64,
}

/// The properties of a policy that its worker needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The style of its futures.
    style: Execution,
    /// True if the policy is made for speed, so that the clock tells what pays with it.
    is_tunable: bool,
}

impl Policy {
    pub(crate) fn of<S: Suspend>() -> Policy {
        let style = match (S::SUSPENDS, S::PREFETCHES) {
            (true, _) => Execution::Interleaved,
            (false, true) => Execution::Prefetching,
            (false, false) => Execution::Sequential,
        };
        Policy { style, is_tunable: S::SUSPENDS && !S::PAUSES }
    }

    fn suspends(self) -> bool {
        self.style == Execution::Interleaved
    }
}

impl<H: Host> Core<H> {
    pub(crate) fn new(host: H, policy: Policy, options: WorkerOptions, notifier: Arc<Notifier>) -> Self {
        let batch_max = if policy.suspends() { options.batch_max.max(1) } else { 1 };
        let slots = Slots::new(&host, batch_max, batch_max + options.parked_max, notifier);
        let mut core = Core {
            slots,
            host,
            parked: 0,
            parked_stamped: 0,
            batch_max,
            held_max: options.held_max,
            refill: options.refill,
            counters: Counters::default(),
            batch: 1,
            refresh_every: REFRESH_EVERY_ROUNDS,
            house_at: REFRESH_EVERY_ROUNDS,
            mark_at: REFRESH_EVERY_ROUNDS,
            is_timing: false,
            policy,
            tuner: None,
            maintained_at_ended: 0,
        };
        core.set_batch(options.batch);
        core
    }

    /// Returns the number of free places in the batch, of which `open` are taken by live futures.
    ///
    /// A parked future takes no place: while it waits for something outside, others run. But if futures wait for each
    /// other, admitting more lengthens the queues and makes deadlocks frequent. Therefore no place is free if more
    /// than a batch are parked and as many wait for each other, until no future is live.
    #[inline(always)]
    pub(crate) fn free_places(&self, open: usize) -> usize {
        if self.parked > self.batch && open > 0 && self.is_contended() {
            return 0;
        }
        self.batch.saturating_sub(open)
    }

    #[cold]
    #[inline(never)]
    fn is_contended(&self) -> bool {
        self.host.waiting() > self.batch
    }

    /// Returns how many futures to keep open: 1 if operations do not suspend, because there is nothing to overlap.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    pub(crate) fn set_batch(&mut self, batch: BatchSize) {
        self.tuner = None;
        let batch = match batch {
            BatchSize::Auto if self.policy.is_tunable => {
                let search = Search::new(self.batch_max, self.host.known());
                let tuner = Tuner::new(search, self.host.shared_level().map(Member::new));
                let level = tuner.level();
                self.tuner = Some(tuner);
                return self.set_level(level);
            }
            BatchSize::Auto => BATCH_DEFAULT,
            BatchSize::Fixed(batch) => batch,
        };
        self.set_level(Level { style: self.policy.style, batch: batch.clamp(1, self.batch_max) });
    }

    fn set_level(&mut self, level: Level) {
        self.batch = level.batch;
        self.tell(level);
        self.make_room_beside_longs();
    }

    /// Tells the host the level. The style may differ from the worker's own level for a while.
    fn tell(&mut self, level: Level) {
        self.host.set_level(level);
        let is_sequential = self.policy.is_tunable && level.is_sequential();
        self.refresh_every = if is_sequential { REFRESH_EVERY_SEQUENTIAL } else { REFRESH_EVERY_ROUNDS };
        self.set_house_at();
        self.mark_at = self.mark_at.min(self.house_at);
    }

    /// Makes room for one short future beside the long ones, if the level runs futures one after the other.
    pub(crate) fn make_room_beside_longs(&mut self) {
        if let Some(level) = self.tuner.as_ref().map(Tuner::level)
            && level.is_sequential()
        {
            // The most futures that may be long at once. With more it would be another level.
            let longs_max = (self.batch_max / 4).max(1);
            self.batch = (1 + self.host.longs().min(longs_max)).min(self.batch_max);
        }
    }

    /// Records whether the next futures are alone in the worker. Alone they run as in sequential execution.
    pub(crate) fn set_alone(&mut self, is_alone: bool) {
        if let Some(tuner) = &mut self.tuner {
            tuner.interrupt();
            let level = tuner.level();
            let level = if is_alone { Level { style: tuner.alone(), ..level } } else { level };
            self.tell(level);
        }
    }

    /// Discards what is being measured, because there is nothing to do.
    pub(crate) fn interrupt(&mut self) {
        self.stop_timing();
        if let Some(tuner) = &mut self.tuner {
            tuner.interrupt();
        }
    }

    /// Stops measuring, because the worker's caller may not come back.
    pub(crate) fn rest(&mut self) {
        self.stop_timing();
        self.tuner.iter().for_each(Tuner::rest);
    }

    /// Measures the effect of the present level.
    fn tune(&mut self, open: usize) {
        self.make_room_beside_longs();
        if open > self.batch {
            return; // some were let in at the level before
        }
        let Some(tuner) = &mut self.tuner else { return };
        if !tuner.is_due() {
            return;
        }
        let known = tuner.known();
        let mut reading = self.host.reading();
        // The work of long futures counts when it is done. Otherwise a level would be charged for futures that it
        // began, and credited for those that another level did. (With one future open at a time, that future is
        // short, and looks are frequent.)
        if !tuner.level().is_sequential() || self.host.longs() > 0 {
            reading.work += self.slots.iter().map(|slot| slot.operations.work_under_way()).sum::<u64>();
        }
        let changed = tuner.look(reading, self.counters);
        if let Some(now_known) = tuner.known()
            && known != Some(now_known)
        {
            self.host.learn(now_known);
        }
        if let Some(level) = changed {
            self.set_level(level);
        }
    }

    /// Makes an array that can hold every slot.
    pub(crate) fn live_list(&self) -> LiveList<H::Operations> {
        let first = self.slots.at(0).expect("there is a slot");
        vec![first; self.slots.slots_max()].into()
    }

    pub(crate) fn enter(&self) {
        if !self.host.local().is_entered() {
            self.host.enter();
        } else if self.host.local().is_paused() {
            self.resume();
        }
    }

    /// Prepares for a perhaps long time in which the worker is not stepped, so that reclamation does not wait for it.
    /// Operations in flight that can begin again may be revoked. Any other holds the epoch, and with it what the
    /// worker accounts for.
    pub(crate) fn pause(&self, live: &[NonNull<Slot<H::Operations>>]) {
        if !self.host.local().is_entered() {
            return;
        }
        if self.oldest_stamp(live).is_none() {
            return self.leave();
        }
        let can_restart =
            |slot: &Slot<H::Operations>| slot.stamp.get() == NO_STAMP || slot.operations.can_restart();
        // SAFETY: slots live as long as the worker.
        let of_live = live.iter().all(|slot| can_restart(unsafe { slot.as_ref() }));
        if of_live && (self.parked_stamped == 0 || self.slots.iter().all(can_restart)) {
            self.host.paused();
            self.host.local().pause();
        }
    }

    #[cold]
    fn resume(&self) {
        let local = self.host.local();
        if local.resume() {
            return self.host.resumed();
        }
        self.host.enter();
        for slot in self.slots.iter().filter(|slot| slot.stamp.get() != NO_STAMP) {
            slot.operations.restart();
            slot.stamp.set(local.now());
        }
    }

    /// Leaves the epoch when nothing runs, unless a parked future still holds a result that needs it.
    pub(crate) fn settle(&self) {
        let local = self.host.local();
        if !local.is_entered() {
            return;
        }
        match self.oldest_stamp(&[]) {
            None => self.leave(),
            oldest => self.host.refresh(oldest),
        }
    }

    fn leave(&self) {
        self.host.leave();
        self.host.local().entrust();
    }

    /// Brings woken futures back among the `n` live ones. Returns how many live ones there are now, and whether one
    /// of them must be polled although its operations are not done.
    #[cold]
    pub(crate) fn wake(&mut self, live: &mut LiveList<H::Operations>, mut n: usize) -> (usize, bool) {
        let (wakes, mut has_early_wake) = (self.slots.wakes.clone(), false);
        wakes.take(|index| {
            let Some(at) = self.slots.at(index) else { return };
            // SAFETY: slots live as long as the worker.
            let slot = unsafe { at.as_ref() };
            match slot.state.get() {
                State::Parked => {
                    self.unpark(slot);
                    slot.state.set(State::Live);
                    live[n] = at;
                    n += 1;
                }
                State::Live => {
                    slot.woken.set(true);
                    has_early_wake = true;
                }
                State::Vacant => {} // woken after its end
            }
        });
        (n, has_early_wake)
    }

    /// Counts a round over `live`. Called once per round.
    #[inline(always)]
    pub(crate) fn count_round(&mut self, live: &[NonNull<Slot<H::Operations>>]) {
        self.counters.rounds += 1;
        self.counters.visits += live.len() as u64;
        if self.counters.rounds >= self.mark_at || self.host.local().is_pressed() || self.is_overdue() {
            self.pass_mark(live);
        }
    }

    /// Sets the next multiple of `refresh_every`.
    fn set_house_at(&mut self) {
        debug_assert!(self.refresh_every.is_power_of_two());
        self.house_at = (self.counters.rounds | (self.refresh_every - 1)) + 1;
    }

    /// Does what is due before this round, and finds when something is due next.
    #[cold]
    #[inline(never)]
    fn pass_mark(&mut self, live: &[NonNull<Slot<H::Operations>>]) {
        self.stop_timing();
        let round = self.counters.rounds;
        if round >= self.house_at || self.host.local().is_pressed() || self.is_overdue() {
            self.keep_house(live);
            self.set_house_at();
        }
        self.mark_at = self.house_at;
        if let Some(profile) = self.host.profile() {
            self.is_timing = profile.begin(round, live.len());
            let next = if self.is_timing { round + 1 } else { profile.next() };
            self.mark_at = self.mark_at.min(next);
        }
    }

    /// Ends the timed round, if the last round was timed.
    pub(crate) fn stop_timing(&mut self) {
        if std::mem::take(&mut self.is_timing)
            && let Some(profile) = self.host.profile()
        {
            profile.end();
        }
    }

    /// Returns the oldest stamp of an operation in flight, of live and parked futures.
    fn oldest_stamp(&self, live: &[NonNull<Slot<H::Operations>>]) -> Option<u64> {
        // SAFETY: slots live as long as the worker.
        let of_live = live.iter().map(|slot| unsafe { slot.as_ref() }.stamp.get()).min();
        let of_all =
            if self.parked_stamped > 0 { self.slots.iter().map(|slot| slot.stamp.get()).min() } else { None };
        of_all.or(of_live).filter(|&stamp| stamp != NO_STAMP)
    }

    fn keep_house(&mut self, live: &[NonNull<Slot<H::Operations>>]) {
        let started = self.host.profile().and_then(Profile::begin_housekeeping);
        self.host.refresh(self.oldest_stamp(live));
        self.host.expire();
        if self.tuner.is_some() {
            self.tune(live.len());
        }
        if self.is_overdue() || self.host.local().is_pressed() {
            self.maintain();
        }
        if let (Some(profile), Some(started)) = (self.host.profile(), started) {
            profile.end_housekeeping(started);
        }
    }

    /// Returns true if enough futures have ended since the last call of `Host::maintain`, in however few rounds.
    #[inline(always)]
    fn is_overdue(&self) -> bool {
        self.counters.ended - self.maintained_at_ended >= MAINTAIN_EVERY_ENDED
    }

    /// Calls `Host::maintain`. Returns true if there is more to do.
    pub(crate) fn maintain(&mut self) -> bool {
        self.maintained_at_ended = self.counters.ended;
        self.enter();
        self.host.maintain(&self.counters)
    }

    /// Does housekeeping while nothing runs, then leaves the epoch. Returns true if there is more to do.
    pub(crate) fn maintain_idle(&mut self) -> bool {
        self.stop_timing();
        let more = (0..MAINTAIN_IN_A_ROW_MAX).all(|_| self.maintain());
        self.settle();
        // Retired memory is due when other participants have moved on. Give it some chances, then wait for better
        // times.
        for _ in 0..MAINTAIN_IN_A_ROW_MAX {
            self.host.local().refresh(self.oldest_stamp(&[])); // takes over what departed workers have left
            if self.host.local().pending() == 0 {
                break;
            }
        }
        more
    }

    /// For `Notifier::sleep`: returns true if the host will notify the worker when something held until `first` is
    /// released, or if nothing is held.
    pub(crate) fn awaits_release(&self, first: Option<u64>) -> bool {
        let waker = || Waker::from(self.slots.wakes.notifier.clone());
        first.is_none_or(|until| self.host.wake_when_released(until, &waker()))
    }

    /// Parks a slot that the caller has taken out of the live list.
    pub(crate) fn park(&mut self, slot: &Slot<H::Operations>) {
        debug_assert_eq!(slot.state.get(), State::Live);
        slot.state.set(State::Parked);
        self.parked += 1;
        self.parked_stamped += usize::from(slot.stamp.get() != NO_STAMP);
        self.counters.parkings += 1;
    }

    /// Takes a slot out of the parked ones.
    pub(crate) fn unpark(&mut self, slot: &Slot<H::Operations>) {
        debug_assert_eq!(slot.state.get(), State::Parked);
        self.parked -= 1;
        self.parked_stamped -= usize::from(slot.stamp.get() != NO_STAMP);
    }

    /// Drops every future, also while a panic unwinds. No future outlives what it borrows.
    pub(crate) fn clear(&mut self) {
        struct Settled<'c, H: Host>(&'c mut Core<H>);
        impl<H: Host> Drop for Settled<'_, H> {
            fn drop(&mut self) {
                (self.0.parked, self.0.parked_stamped) = (0, 0);
                self.0.settle();
            }
        }
        self.stop_timing();
        self.enter();
        let me = Settled(self);
        me.0.slots.clear();
    }
}
