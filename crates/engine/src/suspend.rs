//! Prefetching and suspension, for the whole engine. An operation is written once against [`Suspend`]. Each policy
//! compiles it to a different machine: plain sequential code, sequential code with prefetching, or a step machine that
//! leaves at every probable cache miss.
//!
//! The step machines of `index`, `record`, `cc` and `txn` call this; their caller chooses the policy.

use crate::profile::{Activity, Profile};

/// The size of a cache line in bytes.
pub const CACHE_LINE: usize = 64;

/// A policy for probable cache misses. Operations tell it of each one.
pub trait Suspend {
    /// True for a policy that leaves operations at misses. A worker steps a lone transaction with [`PrefetchOnly`]
    /// instead: leaving only costs when there is nothing to overlap.
    const SUSPENDS: bool;

    /// False for a policy that does not ask for memory ahead.
    const PREFETCHES: bool = true;

    /// True for a policy that also leaves at places without a miss: see [`pause`](Self::pause).
    const PAUSES: bool = false;

    /// True for a policy under which a worker steps transactions with the same next activity one after the other: see
    /// [`Teams`].
    const GATHERS: bool = false;

    /// Tells that the first `LINES` cache lines of the object at `p` are about to be read. Returns true if the
    /// operation should be left here and resumed later.
    fn miss<const LINES: usize>(&mut self, p: *const u8) -> bool;

    /// Offers a place to leave where nothing is missed: at the beginning of a transaction, and between two phases of a
    /// commit, where other transactions may come in. Returns true if the caller should leave here and resume later. It
    /// serves simulation; a policy that aims at speed never wants it.
    #[inline(always)]
    fn pause(&mut self) -> bool {
        false
    }

    /// Tells that `activity` begins now. It serves policies that time operations.
    #[inline(always)]
    fn enter(&mut self, activity: Activity) {
        let _ = activity;
    }

    /// Tells that everything since the last [`enter`](Self::enter) has turned out to be `activity`.
    #[inline(always)]
    fn was(&mut self, activity: Activity) {
        let _ = activity;
    }

    /// Picks the open transaction, of `n`, to step after number `last`. An answer that is not less than `n` names the
    /// last one.
    #[inline(always)]
    fn pick(&mut self, last: usize, n: usize) -> usize {
        if last + 1 < n { last + 1 } else { 0 }
    }
}

/// Plain sequential code ("naive" in the CoroBase paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

/// Sequential code that asks for all lines of the next object at once ("ERMIA" in the CoroBase paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchOnly;

/// Prefetches and leaves at every probable miss, including the upper levels of an index. Leaving there gives the
/// prefetches of other transactions time, which measured better than staying.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnMiss;

/// Works like [`OnMiss`], but in each round a worker visits its open transactions by what they do next. There are teams
/// of transactions that search an index, that read a record, that step through a scan, and that commit. The
/// instructions for an activity are therefore fetched once for each team, and branches go the way that they went for
/// the transaction before: "STEPS" (Harizopoulos and Ailamaki, VLDB 2004). A transaction that reaches the end of an
/// operation goes on in the next round, together with others that have done so.
///
/// This pays if the instruction cache is too small for what an operation runs. With the engine's own operations, on
/// today's processors, it costs more than it gains (`docs/papers.md` has the figures). It is here for the comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Teams;

/// Leaves (or does not) and picks transactions by a seeded generator: the simulator's policy.
#[derive(Clone, Copy, Debug)]
pub struct Seeded(u64);

/// Another policy, timed: a worker's profile records what operations do.
#[derive(Debug)]
pub(crate) struct Timed<'p, S> {
    policy: &'p mut S,
    profile: &'p Profile,
}

impl<'p, S> Timed<'p, S> {
    /// Wraps `policy` to time it.
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

/// Passes on everything except misses to the wrapped policy.
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

/// Another policy, for the memory that a one-line object leads to: a miss on the object's own line is no miss, because
/// that line is in the cache.
#[derive(Debug)]
pub(crate) struct Beside<'s, S> {
    policy: &'s mut S,
    object: *const u8,
}

impl<'s, S> Beside<'s, S> {
    /// Wraps `policy` for the memory that the object at `object` leads to.
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

/// Another policy, for versions of about a given size: the whole version is prefetched.
#[derive(Debug)]
pub(crate) struct Whole<'s, S> {
    policy: &'s mut S,
    bytes: usize,
}

impl<'s, S> Whole<'s, S> {
    /// Wraps `policy` for objects of `bytes` bytes.
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

/// Another policy that always leaves at a miss. It serves a caller that asks for several objects and then comes back to
/// each.
#[derive(Debug)]
pub(crate) struct Leaving<'s, S> {
    policy: &'s mut S,
}

impl<'s, S> Leaving<'s, S> {
    /// Wraps `policy` to leave at each miss.
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
    /// Makes the policy of one seed. Equal seeds behave equally.
    pub fn new(seed: u64) -> Self {
        Seeded(seed)
    }

    /// Returns the next pseudo-random number (wyrand).
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

/// Prefetches the first `LINES` cache lines at `p` into the second-level cache. A prefetch into the first level holds
/// one of its few fill buffers until memory answers, and measured a quarter to a third slower with many in flight. Any
/// address will do.
#[inline(always)]
pub fn prefetch<const LINES: usize>(p: *const u8) {
    for line in 0..LINES {
        prefetch_line(p.wrapping_add(line * CACHE_LINE));
    }
}

/// Prefetches the lines of `bytes` bytes at `p`, from line number `first` on. A loop inlined into the callers' loops
/// takes fewer instructions there than a call does.
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
        // SAFETY: a prefetch accepts any address, and reads nothing that the program can see.
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
