//! The one place that prefetches and suspends. An operation is written once against [`Suspend`];
//! each policy compiles it to a different machine: plain sequential code, sequential code with
//! prefetching, or a step machine that leaves at every probable cache miss.
//!
//! Called by the step machines of `index`, `record`, `cc` and `txn`; chosen by their caller.

use crate::profile::{Activity, Profile};

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Told of every probable cache miss.
pub trait Suspend {
    /// True for a policy that leaves operations at misses. A worker steps a transaction that is
    /// alone with [`PrefetchOnly`] instead: with nothing to overlap, leaving only costs.
    const SUSPENDS: bool;

    /// False for a policy that does not ask for memory ahead.
    const PREFETCHES: bool = true;

    /// True for a policy that also leaves where nothing is missed: see [`pause`](Self::pause).
    const PAUSES: bool = false;

    /// True for a policy under which a worker steps those transactions one after the other that do the same next: see
    /// [`Teams`].
    const GATHERS: bool = false;

    /// The object at `p`, the first `LINES` cache lines of it, is about to be read.
    /// Returns true if the operation is to be left here and come back to later.
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool;

    /// Where a transaction begins, and between two phases of a commit, where others may come in. Returns true if the caller is to leave here and come back
    /// later. For simulation: no policy that is after speed wants that.
    #[inline(always)]
    fn pause(&mut self) -> bool {
        false
    }

    /// What comes next is `activity`; for a policy that times operations.
    #[inline(always)]
    fn enter(&mut self, activity: Activity) {
        let _ = activity;
    }

    /// What has come since the last [`enter`](Self::enter) has turned out to be `activity`.
    #[inline(always)]
    fn was(&mut self, activity: Activity) {
        let _ = activity;
    }

    /// Which of `n` open transactions to step after number `last`; an answer that is not less than `n` names the
    /// last one.
    #[inline(always)]
    fn pick(&mut self, last: usize, n: usize) -> usize {
        if last + 1 < n { last + 1 } else { 0 }
    }
}

/// Plain sequential code ("naive" in the CoroBase paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

/// Sequential, but all lines of the next object are asked for at once ("ERMIA" in the CoroBase
/// paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchOnly;

/// Prefetches and leaves at every probable miss, upper levels of an index included: leaving there
/// gives the prefetches of other transactions time, which measured better than staying.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnMiss;

/// As [`OnMiss`], and in each of its rounds a worker goes over its open transactions by what they do next: teams of those that search
/// an index, that read a record, that step through a scan, that commit. So the instructions for that are fetched once
/// for each team, and branches go the way that they went for the transaction before: "STEPS" (Harizopoulos and Ailamaki, VLDB 2004). A
/// transaction that has come to the end of an operation goes on in the next round, together with others that have.
///
/// It pays where the instruction cache is too small for what an operation runs. With the engine's own operations, on processors of today, it
/// costs more than it brings (`docs/papers.md` has the figures): it is here for the comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Teams;

/// Leaves (or does not) and picks transactions by a seeded generator: the simulator's policy.
#[derive(Clone, Copy, Debug)]
pub struct Seeded(u64);

/// Another policy, timed: what operations are at goes into a worker's profile.
#[derive(Debug)]
pub(crate) struct Timed<'p, S> {
    policy: &'p mut S,
    profile: &'p Profile,
}

impl<'p, S> Timed<'p, S> {
    /// `policy`, timed.
    pub(crate) fn new(policy: &'p mut S, profile: &'p Profile) -> Self {
        Timed { policy, profile }
    }
}

impl<S: Suspend> Suspend for Timed<'_, S> {
    const SUSPENDS: bool = S::SUSPENDS;
    const PREFETCHES: bool = S::PREFETCHES;
    const PAUSES: bool = S::PAUSES;
    const GATHERS: bool = S::GATHERS;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        self.policy.miss::<LINES>(p)
    }
    fn pause(&mut self) -> bool {
        self.policy.pause()
    }
    fn enter(&mut self, activity: Activity) {
        self.profile.enter(activity);
    }
    fn was(&mut self, activity: Activity) {
        self.profile.was(activity);
    }
    fn pick(&mut self, last: usize, n: usize) -> usize {
        self.policy.pick(last, n)
    }
}

/// What a policy that changes another one's answers to misses leaves to that.
macro_rules! leave_the_rest_to_policy {
    () => {
        #[inline(always)]
        fn pause(&mut self) -> bool {
            self.policy.pause()
        }
        #[inline(always)]
        fn enter(&mut self, activity: Activity) {
            self.policy.enter(activity);
        }
        #[inline(always)]
        fn was(&mut self, activity: Activity) {
            self.policy.was(activity);
        }
        #[inline(always)]
        fn pick(&mut self, last: usize, n: usize) -> usize {
            self.policy.pick(last, n)
        }
    };
}

/// Another policy, for what an object of one line leads to: that line is in the cache.
#[derive(Debug)]
pub(crate) struct Beside<'s, S> {
    policy: &'s mut S,
    object: *const u8,
}

impl<'s, S> Beside<'s, S> {
    /// `policy`, for what the object at `object` leads to.
    #[inline(always)]
    pub(crate) fn new(policy: &'s mut S, object: *const u8) -> Self {
        Beside { policy, object }
    }
}

impl<S: Suspend> Suspend for Beside<'_, S> {
    const SUSPENDS: bool = S::SUSPENDS;
    const PREFETCHES: bool = S::PREFETCHES;
    const PAUSES: bool = S::PAUSES;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        let is_beside = LINES == 1 && (p.addr() ^ self.object.addr()) < CACHE_LINE;
        !is_beside && self.policy.miss::<LINES>(p)
    }
    leave_the_rest_to_policy!();
}

/// Another policy, for versions of about so many bytes: they are asked for as a whole.
#[derive(Debug)]
pub(crate) struct Whole<'s, S> {
    policy: &'s mut S,
    bytes: usize,
}

impl<'s, S> Whole<'s, S> {
    /// `policy`, for objects of `bytes` bytes.
    #[inline(always)]
    pub(crate) fn new(policy: &'s mut S, bytes: usize) -> Self {
        Whole { policy, bytes }
    }
}

impl<S: Suspend> Suspend for Whole<'_, S> {
    const SUSPENDS: bool = S::SUSPENDS;
    const PREFETCHES: bool = S::PREFETCHES;
    const PAUSES: bool = S::PAUSES;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        if S::PREFETCHES && self.bytes > LINES * CACHE_LINE {
            prefetch_bytes(p, LINES, self.bytes);
        }
        self.policy.miss::<LINES>(p)
    }
    leave_the_rest_to_policy!();
}

/// Another policy, but for leaving at each miss: for a caller that asks for several objects and then comes back to each.
#[derive(Debug)]
pub(crate) struct Leaving<'s, S> {
    policy: &'s mut S,
}

impl<'s, S> Leaving<'s, S> {
    /// As `policy`, and leaves.
    #[inline(always)]
    pub(crate) fn new(policy: &'s mut S) -> Self {
        Leaving { policy }
    }
}

impl<S: Suspend> Suspend for Leaving<'_, S> {
    const SUSPENDS: bool = true;
    const PREFETCHES: bool = S::PREFETCHES;
    const PAUSES: bool = S::PAUSES;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        self.policy.miss::<LINES>(p);
        true
    }
    leave_the_rest_to_policy!();
}

impl Suspend for Never {
    const SUSPENDS: bool = false;
    const PREFETCHES: bool = false;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, _: *const u8) -> bool {
        false
    }
}

impl Suspend for PrefetchOnly {
    const SUSPENDS: bool = false;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        prefetch::<LINES>(p);
        false
    }
}

impl Suspend for OnMiss {
    const SUSPENDS: bool = true;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        prefetch::<LINES>(p);
        true
    }
}

impl Suspend for Teams {
    const SUSPENDS: bool = true;
    const GATHERS: bool = true;
    #[inline(always)]
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool {
        OnMiss.miss::<LINES>(p)
    }
}

impl Seeded {
    /// The policy of one seed; equal seeds behave equally.
    pub fn new(seed: u64) -> Self {
        Seeded(seed)
    }

    /// The next pseudo-random number (wyrand).
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let t = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (t >> 64) as u64 ^ t as u64
    }
}

impl Suspend for Seeded {
    const SUSPENDS: bool = true;
    const PAUSES: bool = true;
    fn pause(&mut self) -> bool {
        self.next_u64() & 1 == 0
    }
    fn miss<const LINES: usize>(&mut self, _: *const u8) -> bool {
        self.next_u64() & 1 == 0
    }
    fn pick(&mut self, _: usize, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }
}

/// Asks for the first `LINES` cache lines at `p`, into the second-level cache: a prefetch into the
/// first level holds one of its few fill buffers until memory answers, and measured a quarter to a
/// third slower with many in flight. Any address will do.
#[inline(always)]
pub fn prefetch<const LINES: usize>(p: *const u8) {
    for line in 0..LINES {
        prefetch_line(p.wrapping_add(line * CACHE_LINE));
    }
}

/// As `prefetch`, for the lines of `bytes` bytes at `p` from number `first` on. (A loop in its callers' loops takes them fewer
/// instructions than a call there does.)
#[inline(always)]
pub(crate) fn prefetch_bytes(p: *const u8, first: usize, bytes: usize) {
    let end = p.addr() + bytes;
    let mut line = p.map_addr(|p| p & !(CACHE_LINE - 1)).wrapping_add(first * CACHE_LINE);
    while line.addr() < end {
        prefetch_line(line);
        line = line.wrapping_add(CACHE_LINE);
    }
}

#[inline(always)]
fn prefetch_line(p: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see, from any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast::<i8>()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{p}]", p = in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = p;
}
