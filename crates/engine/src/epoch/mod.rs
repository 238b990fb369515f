//! Epoch-based reclamation, entered by workers around operations in flight, never by
//! transactions as such.
//!
//! A global epoch `G` counts up. A participant ([`Local`]) that has operations in flight announces
//! an epoch `A`; one that has none announces `LEFT`. An object that is unlinked is retired with
//! the announced epoch of the participant that retires it, and reclaimed `GRACE` epochs later.
//!
//! # Why nothing is reclaimed while an operation can reach it
//!
//! 1. *`A <= G <= A + 1` while a participant is entered.* `enter` writes `A = e`, fences, and reads
//!    `G` again until it is still `e`. Whoever advances `G` from `g` reads `g`, fences, reads all
//!    announcements, advances only if each is `g` or `LEFT`, and only if `G` is still `g`. If its
//!    fence comes after that of `enter`, it sees `A = e` (or a later one) and cannot advance beyond
//!    `e + 1`. If it comes before, the read of `G` in `enter` sees `g` or more, so `e >= g`, and
//!    its advance is to `e + 1` at most. A participant that `refresh`es raises `A` while the old
//!    one still holds `G` back; no fence is needed there, and a reader that sees the old
//!    announcement is only more careful.
//! 2. *Stamps.* An operation starts with the stamp `s = now`, the epoch that its participant read
//!    from `G` last. Announcements never exceed the stamps of operations in flight: `A <= s`.
//! 3. *An unlink that is retired with stamp `r` is seen by every operation with `s >= r + 2`.*
//!    `r` is the announcement of the retiring participant, so by 1 `G` gets to `r + 2` only after
//!    that participant announces a later epoch or leaves, which it does (Release) after the unlink;
//!    the advancing thread reads this (Acquire) and then writes `G` (Release), which the operation's
//!    participant read (Acquire) to have that `s`. All writes of `G` are read-modify-writes, so
//!    each carries what the ones before it carried. A participant that has left retires with
//!    `G` read after a fence: then `G > r` is written after the unlink is visible, and 3 holds too.
//! 4. So an operation that can reach the object has `A <= s <= r + 1`, hence by 1 `G <= r + 2` until it ends.
//!    Objects are reclaimed at `G >= r + 3`, and that their last reader has ended is visible to the thread that
//!    reclaims by the same chain as in 3. In terms of the least announcement `min`, and as
//!    `min + 1 >= G` by 1: reclaimed when `r + GRACE <= min`, with `GRACE = 2`.
//!
//! Progress: a participant that waits for something advances; participants that are entered must refresh or leave
//! for that. An operation in flight for ever holds everything back.
//!
//! # Pauses
//!
//! A participant whose operations are not stepped for now *pauses*: it marks its announcement as one that others may
//! revoke. A participant that has waited for long to advance exchanges it for `LEFT`. To go on, the paused one exchanges
//! it for the unmarked one: one of the two exchanges succeeds. If it was revoked, the participant has left, whatever its
//! operations had read: it enters anew, and they begin again. (The exchange acquires what the pause released, so 3
//! and 4 hold as if it had left by itself.)

mod limbo;
mod local;
#[cfg(all(test, braid_loom))]
mod loom_tests;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;

pub use local::Local;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{CachePadded, Mutex, lock, try_lock};
use limbo::Retired;
use std::sync::Arc;

/// What a deferred reclamation does: `(local, p, word)`.
///
/// It may run on any participant's thread. It may `free` and `retire`; it must not `enter`, `leave`
/// or `refresh`.
pub type Reclaim = unsafe fn(&Local, *mut u8, u64);

/// All participants of one database.
///
/// What is still retired when the last participant and this go is not reclaimed: its memory goes
/// with the account that it came from.
pub struct Epochs {
    /// The global epoch. Starts at 1, changed by compare-exchange in `try_advance` only.
    global: CachePadded<AtomicU64>,
    /// Locked to join, to leave for good, and to try to advance.
    participants: Mutex<Vec<Arc<Announced>>>,
    /// What participants had retired that are gone, or have left for long.
    orphans: Mutex<Vec<Retired>>,
    /// Length of `orphans`, changed under its lock; a hint without the lock.
    orphans_len: AtomicUsize,
    /// Bytes of large versions that are retired and not given back, of all participants.
    large_bytes: AtomicU64,
}

/// What one participant announces: the epoch of its oldest operation in flight, marked by `PAUSED` while others may
/// revoke it, or `LEFT`.
#[derive(Debug)]
struct Announced {
    epoch: CachePadded<AtomicU64>,
    /// The name of the thread that made it, for reports.
    of: String,
}

/// Announced by a participant without operations in flight.
const LEFT: u64 = u64::MAX;
/// Beside an epoch: it may be revoked.
const PAUSED: u64 = 1 << 63;
const _: () = assert!(LEFT & PAUSED != 0);
/// How far the least announcement is beyond an object's stamp when it is reclaimed.
const GRACE: u64 = 2;

impl Epochs {
    /// No participants yet, at epoch 1.
    pub fn new() -> Arc<Epochs> {
        Arc::new(Epochs {
            global: CachePadded::new(AtomicU64::new(1)),
            participants: Mutex::new(Vec::new()),
            orphans: Mutex::new(Vec::new()),
            orphans_len: AtomicUsize::new(0),
            large_bytes: AtomicU64::new(0),
        })
    }

    #[inline]
    fn global(&self) -> u64 {
        // Acquire: pairs with the Release in `try_advance` (steps 3 and 4 of the module head).
        self.global.load(Ordering::Acquire)
    }

    /// Now, for [`is_past`](Self::is_past). What was made unreachable before is visible to every operation that starts
    /// when this moment is past.
    pub fn moment(&self) -> u64 {
        // Pairs with the SeqCst exchange in `try_advance` (step 3 of the module head).
        fence(Ordering::SeqCst);
        self.global()
    }

    /// Whether all operations are over that were in flight at this moment, and what they have done is visible to the
    /// caller. Advances the global epoch towards that.
    pub fn is_past(&self, moment: u64) -> bool {
        // As for an object that was retired with this stamp (step 4).
        let is_past = || self.global() > moment + GRACE;
        (0..=GRACE).any(|_| {
            if !is_past() {
                self.try_advance(false);
            }
            is_past()
        })
    }

    fn join(&self) -> Arc<Announced> {
        let announced =
            Arc::new(Announced { epoch: CachePadded::new(AtomicU64::new(LEFT)), of: thread_name() });
        lock(&self.participants).push(Arc::clone(&announced));
        announced
    }

    /// The epoch, which goes on first if it can, and the threads that made those participants for which it waits, unless
    /// they pause. (A participant that holds up garbage before anything is retired is found by this as well.)
    pub fn awaited(&self) -> (u64, Vec<String>) {
        self.try_advance(false);
        let participants = lock(&self.participants);
        let global = self.global();
        let awaited = participants.iter().filter(|other| {
            // Relaxed: a statistic. (`LEFT` bears the mark of a pause.)
            let announced = other.epoch.load(Ordering::Relaxed);
            announced & PAUSED == 0 && announced < global
        });
        (global, awaited.map(|other| other.of.clone()).collect())
    }

    fn part(&self, announced: &Arc<Announced>) {
        lock(&self.participants).retain(|other| !Arc::ptr_eq(other, announced));
    }

    /// Advances the global epoch if all participants inside have announced it. If another participant is
    /// trying or joining, that is left to it. With `may_revoke` those that pause are taken for left.
    fn try_advance(&self, may_revoke: bool) {
        let Some(participants) = try_lock(&self.participants) else { return };
        let global = self.global();
        // Pairs with the fence in `Local::enter` (step 1 of the module head).
        fence(Ordering::SeqCst);
        for other in participants.iter() {
            // Acquire: pairs with the Release in `Announced::set` (steps 3 and 4).
            let announced = other.epoch.load(Ordering::Acquire);
            let epoch = announced & !PAUSED;
            if announced == LEFT || epoch == global {
                continue;
            }
            debug_assert!(epoch < global, "announced an epoch that is yet to come");
            if announced == epoch || !may_revoke || !other.exchange(announced, LEFT) {
                return;
            }
        }
        // Release: pairs with the Acquire in `global`. SeqCst: orders the fence of a participant
        // that retires while left before this (step 3). A failure means that another has advanced.
        let _ = self.global.compare_exchange(global, global + 1, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Keeps what a participant that goes had retired, for others.
    fn keep_orphans(&self, retired: impl Iterator<Item = Retired>) {
        let mut orphans = lock(&self.orphans);
        orphans.extend(retired);
        // Relaxed: a hint, pairs with the Relaxed in `adopt`.
        self.orphans_len.store(orphans.len(), Ordering::Relaxed);
    }

    /// Hands up to `max` orphans to `take`.
    #[inline]
    fn adopt(&self, max: usize, take: impl FnMut(Retired)) {
        // Relaxed: a hint; the lock orders the objects themselves.
        if self.orphans_len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(mut orphans) = try_lock(&self.orphans) else { return };
        let kept = orphans.len().saturating_sub(max);
        orphans.drain(kept..).for_each(take);
        // Relaxed: as above.
        self.orphans_len.store(kept, Ordering::Relaxed);
    }
}

fn thread_name() -> String {
    let thread = std::thread::current();
    thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned)
}

impl Announced {
    #[inline(always)]
    fn set(&self, epoch: u64) {
        // Release: pairs with the Acquire in `Epochs::try_advance`: what this participant read and
        // unlinked before is done when the announcement is seen.
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Where a pause ends, one way or the other. Returns false if by the other.
    fn exchange(&self, from: u64, to: u64) -> bool {
        // Acquire: pairs with the Release in `set`, as the load in `try_advance` does.
        self.epoch.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl std::fmt::Debug for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epochs").field("global", &self.global()).finish_non_exhaustive()
    }
}
