//! Where transactions meet. This table says how hot records are: how often transactions have lately been in each
//! other's way there. It also says which workers' transactions wait for a hot record, which worker has had it in a
//! row, and what transactions go on to do with it.
//!
//! All of this only affects speed, and nothing depends on it being right. It is kept for groups of records, in
//! counters that are changed without regard to each other.
//!
//! Time passes with transactions, not by a clock: there is a tick for each [`TICK_EVERY`] transactions of a worker.
//! Records at which transactions no longer meet cool down, to half within [`HALVES_IN`] ticks. The table therefore
//! follows the phases of a workload. Where nothing is hot, one comparison tells so.

use crate::events::event;
use crate::metrics::ContentionStatistics;
use crate::record::Record;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of groups of records, and of guesses about what transactions do with them. A power of two.
const GROUPS: usize = if cfg!(braid_shuttle) { 16 } else { 4096 };
/// The number of a worker's transactions between two ticks.
const TICK_EVERY: u32 = 256;
/// The number of ticks after which half of a group's heat is gone.
const HALVES_IN: u32 = 4;
/// What one meeting adds.
const STEP: u32 = 8;
/// The heat from which a group is hot: about one in a hundred transactions meets another there.
const HOT: u32 = 96;
const HEAT_MAX: u32 = 60_000;
/// The number of transactions of one worker that have a record one after the other while transactions of other
/// workers wait for it. The record's line, and what it leads to, is in the cache of that worker meanwhile.
const RUN_MAX: u32 = 128;
/// The number of looks at a free record that is left to workers that have waited longer.
const POLITE_MAX: u32 = 256;

/// What is known about a group of records.
#[derive(Debug, Default)]
pub struct Group {
    /// The heat for transactions that write: when the group was that hot, in ticks, and how hot.
    writes: AtomicU32,
    /// The heat for transactions that only read.
    reads: AtomicU32,
    /// A bit for each worker, or for several, that has a transaction waiting to have one of the records alone.
    awaited: AtomicU32,
    /// The last worker that had a record alone, how often in a row, and how often one of its transactions has left it
    /// to others.
    run: AtomicU32,
}

/// What a transaction wants with a record at which it may meet others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To write the record.
    Write,
    /// To read it.
    Read,
}

/// The time, beside the value with which it is compared.
#[derive(Debug, Default)]
struct Clock {
    ticks: AtomicU64,
    /// Something may be hot until then.
    hot_until: AtomicU64,
}

/// The heat of all groups. One per database.
#[derive(Debug)]
pub struct Heat {
    clock: CachePadded<Clock>,
    groups: Box<[Group]>,
    guesses: Box<[AtomicU32]>,
    workers: AtomicU32,
    meetings: AtomicU64,
}

impl Heat {
    /// Makes a table in which everything is cold.
    pub(super) fn new() -> Heat {
        Heat {
            clock: CachePadded::new(Clock::default()),
            groups: (0..GROUPS).map(|_| Group::default()).collect(),
            guesses: (0..GROUPS).map(|_| AtomicU32::new(GUESS_FIRST)).collect(),
            workers: AtomicU32::new(0),
            meetings: AtomicU64::new(0),
        }
    }

    /// Returns the statistics that people see.
    pub(super) fn contention(&self) -> ContentionStatistics {
        let hot = |wants| self.groups.iter().filter(|group| self.is_hot(group, wants)).count() as u64;
        let meetings = self.meetings.load(Ordering::Relaxed);
        ContentionStatistics {
            meetings,
            hot_for_writers: hot(Wants::Write),
            hot_for_readers: hot(Wants::Read),
        }
    }

    /// Returns a number for a worker.
    pub(super) fn number_worker(&self) -> u32 {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if some group may be hot.
    #[inline(always)]
    pub(in crate::cc) fn is_any(&self) -> bool {
        self.clock.ticks.load(Ordering::Relaxed) < self.clock.hot_until.load(Ordering::Relaxed)
    }

    /// Advances the clock once in `TICK_EVERY` transactions of a worker, of which it has begun `begun`.
    #[inline(always)]
    pub(in crate::cc) fn pass(&self, begun: u32) {
        if begun.is_multiple_of(TICK_EVERY) {
            self.clock.ticks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the group of the record with this number.
    #[inline(always)]
    pub(in crate::cc) fn group(&self, record: u32) -> &Group {
        &self.groups[hash(u64::from(record))]
    }

    /// Returns true if the group is hot.
    #[inline(always)]
    pub(in crate::cc) fn is_hot(&self, group: &Group, wants: Wants) -> bool {
        self.heat_of(group, wants) >= HOT
    }

    #[inline(always)]
    pub(in crate::cc) fn heat_of(&self, group: &Group, wants: Wants) -> u32 {
        warmth(group.of(wants).load(Ordering::Relaxed), self.clock.ticks.load(Ordering::Relaxed) as u16).1
    }

    /// Notes that two transactions have met at a record of the group.
    #[cold]
    pub(in crate::cc) fn raise(&self, group: &Group, wants: Wants) {
        self.meetings.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.ticks.load(Ordering::Relaxed);
        let (since, heat) = warmth(group.of(wants).load(Ordering::Relaxed), now as u16);
        let since = if heat == 0 { now as u16 } else { since };
        let heat = (heat + STEP).min(HEAT_MAX);
        group.of(wants).store(u32::from(since) << 16 | heat, Ordering::Relaxed);
        if heat >= HOT {
            let until = now + u64::from((heat / HOT).ilog2() + 1) * u64::from(HALVES_IN);
            let before = self.clock.hot_until.load(Ordering::Relaxed);
            if until > before {
                self.clock.hot_until.store(until, Ordering::Relaxed);
                if before <= now {
                    event!(
                        TRACE,
                        WORKER,
                        "rows have become hot, and are locked",
                        from = "optimistic",
                        to = "locks"
                    );
                }
            }
        }
    }

    /// Names the position of a transaction that reads this record, by the numbers of records that it has accessed and
    /// written. Transactions of one kind take the same path. Never 0.
    #[inline(always)]
    pub(in crate::cc) fn path(record: u32, accessed: usize, written: usize) -> u16 {
        const COUNTED: usize = 3;
        let path = (accessed.min(COUNTED) << 2 | written.min(COUNTED)) as u64;
        (hash(u64::from(record) | path << 32) as u16).max(1)
    }

    /// Returns true if transactions that have come by this path have usually gone on to write the record.
    #[inline(always)]
    pub(in crate::cc) fn guesses_write(&self, path: u16) -> bool {
        self.guesses[usize::from(path)].load(Ordering::Relaxed) >= GUESS_WRITE
    }

    /// Notes whether a transaction on this path has gone on to write the record.
    #[inline(always)]
    pub(in crate::cc) fn learn(&self, path: u16, has_written: bool) {
        let guess = &self.guesses[usize::from(path)];
        let old = guess.load(Ordering::Relaxed);
        let new = if has_written { (old + 1).min(GUESS_MAX) } else { old.saturating_sub(1) };
        if new != old {
            guess.store(new, Ordering::Relaxed);
        }
    }
}

/// What is known about a path. From `GUESS_WRITE` on, it leads to a write. The first guess is just below.
const GUESS_WRITE: u32 = 2;
const GUESS_FIRST: u32 = 1;
const GUESS_MAX: u32 = 3;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn hash(of: u64) -> usize {
    (of.wrapping_mul(FACTOR) >> 40) as usize % GROUPS
}

/// Converts a word that says how hot a group was to the present. Returns when it was last as hot as it is now, and
/// how hot that is.
#[inline(always)]
fn warmth(word: u32, now: u16) -> (u16, u32) {
    let since = (word >> 16) as u16;
    let halvings = u32::from(now.wrapping_sub(since)) / HALVES_IN;
    let since = since.wrapping_add((halvings * HALVES_IN) as u16);
    (since, (word & 0xffff) >> halvings.min(16))
}

const COUNT_BITS: u32 = 12;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;

impl Group {
    #[inline(always)]
    fn of(&self, wants: Wants) -> &AtomicU32 {
        match wants {
            Wants::Write => &self.writes,
            Wants::Read => &self.reads,
        }
    }

    /// Returns true if a transaction waits to have a record alone.
    #[inline(always)]
    pub(in crate::cc) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) != 0
    }

    /// Notes that a transaction of this worker waits to have a record alone.
    pub(in crate::cc) fn wait(&self, worker: u32) {
        let bit = bit_of(worker);
        if self.awaited.load(Ordering::Relaxed) & bit == 0 {
            self.awaited.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Forgets the waiting transactions: they have gone, or do not come.
    pub(in crate::cc) fn forget_waits(&self) {
        self.awaited.store(0, Ordering::Relaxed);
    }

    /// Asks, for a transaction of this worker that would take a free record, whether to leave it to other workers.
    /// Returns true if it is the turn of their transactions, which have waited while transactions of this worker had
    /// the record.
    #[inline(always)]
    pub(in crate::cc) fn leaves_to_others(&self, worker: u32) -> bool {
        if self.awaited.load(Ordering::Relaxed) & !bit_of(worker) == 0 {
            return false;
        }
        let run = self.run.load(Ordering::Relaxed);
        let (owner, count, polite) = parts(run);
        if owner != worker & 0xff || count < RUN_MAX {
            return false;
        }
        if polite >= POLITE_MAX {
            self.forget_waits();
            return false;
        }
        self.run.store(run + 1, Ordering::Relaxed);
        true
    }

    /// Notes that a transaction of this worker has got a record alone.
    #[inline(always)]
    pub(in crate::cc) fn take(&self, worker: u32) {
        let (owner, count, _) = parts(self.run.load(Ordering::Relaxed));
        let count = if owner == worker & 0xff { (count + 1).min(COUNT_MAX) } else { 1 };
        self.run.store((worker & 0xff) << 24 | count << COUNT_BITS, Ordering::Relaxed);
        let bit = bit_of(worker);
        if self.awaited.load(Ordering::Relaxed) & bit != 0 {
            self.awaited.fetch_and(!bit, Ordering::Relaxed); // others of this worker say so at their next look
        }
    }
}

fn bit_of(worker: u32) -> u32 {
    1 << (worker % u32::BITS)
}

fn parts(run: u32) -> (u32, u32, u32) {
    (run >> 24, run >> COUNT_BITS & COUNT_MAX, run & COUNT_MAX)
}

/// Returns the number of a record among those that begin at `records`.
#[inline(always)]
pub(super) fn number_of(record: *const Record, records: *const u8) -> u32 {
    ((record.addr() - records.addr()) / size_of::<Record>()) as u32
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Lets time pass.
    fn pass(heat: &Heat, ticks: u64) {
        heat.clock.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// A record at which transactions meet becomes hot, stays hot while they meet, and cools down.
    #[test]
    fn heat_follows_meetings() {
        let heat = Heat::new();
        let group = heat.group(7);
        let meet = |times: u32| (0..times).for_each(|_| heat.raise(group, Wants::Write));
        meet(HOT / STEP - 1);
        assert!(!heat.is_any() && !heat.is_hot(group, Wants::Write));
        meet(1);
        assert!(heat.is_any() && heat.is_hot(group, Wants::Write) && !heat.is_hot(group, Wants::Read));
        let meetings = u64::from(HOT / STEP);
        assert_eq!(
            heat.contention(),
            ContentionStatistics { meetings, hot_for_writers: 1, hot_for_readers: 0 }
        );
        for _ in 0..100 {
            meet(HOT / STEP);
            pass(&heat, 1);
            assert!(heat.is_any() && heat.is_hot(group, Wants::Write));
        }
        pass(&heat, 16 * u64::from(HALVES_IN));
        assert!(!heat.is_any() && !heat.is_hot(group, Wants::Write));
        assert_eq!(
            heat.contention(),
            ContentionStatistics { meetings: 101 * meetings, ..ContentionStatistics::default() }
        );
    }

    /// Heat halves by time, however it is spread over looks and meetings. It is known how long anything can be hot.
    #[test]
    fn heat_halves() {
        for meetings in [12, 13, 24, 100, 5000, 10_000] {
            let heat = Heat::new();
            let group = heat.group(0);
            pass(&heat, u64::from(u16::MAX) - 5); // ticks wrap around
            (0..meetings).for_each(|_| heat.raise(group, Wants::Read));
            let first = heat.heat_of(group, Wants::Read);
            assert_eq!(first, (meetings * STEP).min(HEAT_MAX));
            pass(&heat, u64::from(HALVES_IN) - 1);
            heat.raise(group, Wants::Read);
            pass(&heat, 1);
            assert_eq!(heat.heat_of(group, Wants::Read), (first + STEP).min(HEAT_MAX) / 2);
            while heat.is_hot(group, Wants::Read) {
                assert!(heat.is_any());
                pass(&heat, 1);
            }
        }
    }

    /// A worker whose transactions have had a record often leaves it to the waiting transactions, for as long as
    /// these may take to come.
    #[test]
    fn runs_are_bounded() {
        let heat = Heat::new();
        let group = heat.group(3);
        group.wait(1);
        for _ in 0..RUN_MAX {
            assert!(!group.leaves_to_others(0));
            group.take(0);
        }
        assert!(group.leaves_to_others(0) && !group.leaves_to_others(1));
        group.take(1);
        assert!(!group.leaves_to_others(0) && !group.is_awaited());
        group.wait(0);
        (0..RUN_MAX).for_each(|_| group.take(1));
        let looks = (0..).take_while(|_| group.leaves_to_others(1)).count();
        assert_eq!((looks as u32, group.is_awaited()), (POLITE_MAX, false));
    }

    /// It is learned whether a path leads to a write, and unlearned.
    #[test]
    fn paths_are_learned() {
        let heat = Heat::new();
        let path = Heat::path(5, 0, 0);
        assert!(path != 0 && path != Heat::path(5, 1, 1) && !heat.guesses_write(path));
        heat.learn(path, true);
        assert!(heat.guesses_write(path));
        heat.learn(path, true);
        heat.learn(path, false);
        assert!(heat.guesses_write(path), "one exception proves nothing");
        heat.learn(path, false);
        assert!(!heat.guesses_write(path));
    }
}
