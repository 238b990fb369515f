//! Epoch-based reclamation. Workers enter an epoch around operations in flight, never around whole transactions.
//!
//! A global epoch `G` counts up. A participant ([`Local`]) with operations in flight announces an epoch `A`; a
//! participant without any announces `LEFT`. An unlinked object is retired with the announced epoch of the participant
//! that retires it. It is reclaimed once `G` is more than `GRACE` beyond that stamp.
//!
//! # Why nothing is reclaimed while an operation can reach it
//!
//! 1. *`A <= G <= A + 1` while a participant is entered.* `enter` writes `A = e`, fences, and repeats with the new
//!    value until it reads `G = e`. A thread that advances `G` from `g` reads `g`, fences, and reads all announcements.
//!    It advances only if each of them is `g` or `LEFT`, and only if `G` is still `g`. If its fence is ordered after
//!    the fence of `enter`, it sees `A = e` or a later one, and cannot advance beyond `e + 1`. If its fence is ordered
//!    earlier, the read of `G` in `enter` sees `g` or more. Then `e >= g`, and the thread advances to `e + 1` at most.
//!    A participant that `refresh`es raises `A` while the old announcement still holds `G` back. No fence is needed
//!    there: a reader that sees the old announcement is only more careful.
//! 2. *Stamps.* An operation starts with the stamp `s = now`, the epoch that its participant last read from `G`.
//!    Announcements never exceed the stamps of operations in flight: `A <= s`.
//! 3. *An unlink that is retired with stamp `r` is seen by every operation with `s >= r + 2`.* `r` is the announcement
//!    of the retiring participant. By 1, `G` reaches `r + 2` only after that participant has announced a later epoch or
//!    left. It does this (Release) after the unlink. The advancing thread reads the announcement (Acquire) and then
//!    writes `G` (Release). The operation's participant has read this `G` (Acquire) to have that `s`. All writes of `G`
//!    are read-modify-writes, so each carries what the earlier writes carried. A participant that has left retires with
//!    `G` read after a fence. Then `G > r` is written after the unlink is visible, and 3 holds too.
//! 4. An operation that can reach the object therefore has `A <= s <= r + 1`. By 1, `G <= r + 2` until it ends. Objects
//!    are reclaimed at `G >= r + 3`. The thread that reclaims sees that the last reader has ended, by the same chain as
//!    in 3. In terms of the least announcement `min`, where `min + 1 >= G` by 1: an object is reclaimed when
//!    `r + GRACE <= min`, with `GRACE = 2`.
//!
//! Progress: a participant that waits for something advances the epoch. Participants that are entered must refresh or
//! leave to let it. An operation that is in flight for ever holds everything back.
//!
//! # Pauses
//!
//! A participant whose operations are not stepped for now *pauses*:
//!
//! 1. It marks its announcement, which allows others to revoke it.
//! 2. A participant that has waited for long to advance exchanges the marked announcement for `LEFT`.
//! 3. To go on, the paused participant exchanges the marked announcement for the unmarked one. Only one of the two
//!    exchanges succeeds.
//! 4. If the announcement was revoked, the participant has left, whatever its operations had read. It enters anew, and
//!    the operations begin again. The exchange acquires what the pause released, so 3 and 4 of the proof hold as if the
//!    participant had left by itself.

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

/// A deferred reclamation, called with `(local, p, word)`.
///
/// It may run on any participant's thread. It may `free` and `retire`. It must not `enter`, `leave` or `refresh`.
pub type Reclaim = unsafe fn(&Local, *mut u8, u64);

/// All participants of one database.
///
/// Objects that are still retired when the last participant and this object are dropped are not reclaimed. Their memory
/// goes with the account that it came from.
pub struct Epochs {
    /// The global epoch. It starts at 1, and only the compare-exchange in `try_advance` changes it.
    global: CachePadded<AtomicU64>,
    /// Locked to join, to leave for good, and to try to advance.
    participants: Mutex<Vec<Arc<Announced>>>,
    /// Objects retired by participants that are gone, or have left for long.
    orphans: Mutex<Vec<Retired>>,
    /// The length of `orphans`. It changes under the lock of `orphans`; without the lock it is a hint.
    orphans_len: AtomicUsize,
    /// The bytes of large versions that are retired and not given back, over all participants.
    large_bytes: AtomicU64,
}

/// The announcement of one participant: the epoch of its oldest operation in flight, or `LEFT`. `PAUSED` marks an epoch
/// that others may revoke.
#[derive(Debug)]
struct Announced {
    epoch: CachePadded<AtomicU64>,
    /// The name of the thread that made the participant, for reports.
    of: String,
}

/// The announcement of a participant without operations in flight.
const LEFT: u64 = u64::MAX;
/// The mark beside an epoch that others may revoke.
const PAUSED: u64 = 1 << 63;
const _: () = assert!(LEFT & PAUSED != 0);
/// How far the least announcement is beyond an object's stamp when the object is reclaimed.
const GRACE: u64 = 2;

impl Epochs {
    /// Makes a set without participants, at epoch 1.
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

    /// Returns the present moment, for [`is_past`](Self::is_past). When the moment is past, every operation that starts
    /// sees the unlinks that were made before it.
    pub fn moment(&self) -> u64 {
        // Pairs with the SeqCst exchange in `try_advance` (step 3 of the module head).
        fence(Ordering::SeqCst);
        self.global()
    }

    /// Returns whether all operations that were in flight at this moment are over, and their effects are visible to the
    /// caller. Advances the global epoch towards that.
    pub fn is_past(&self, moment: u64) -> bool {
        // The condition is that of an object retired with this stamp (step 4).
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

    /// Returns the epoch, after an attempt to advance it, and the names of the threads whose participants it waits for.
    /// Paused participants are left out. This also finds a participant that holds up garbage before anything is
    /// retired.
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

    /// Advances the global epoch if all participants inside have announced it. If another participant is joining or
    /// trying to advance, this does nothing. With `may_revoke`, paused participants are taken as having left.
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
        // Release: pairs with the Acquire in `global`. SeqCst: orders the fence of a participant that retires after it
        // has left before this (step 3). If the exchange fails, another participant has advanced.
        let _ = self.global.compare_exchange(global, global + 1, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Keeps, for others, what a departing participant had retired.
    fn keep_orphans(&self, retired: impl Iterator<Item = Retired>) {
        let mut orphans = lock(&self.orphans);
        orphans.extend(retired);
        // Relaxed: a hint, pairs with the Relaxed in `adopt`.
        self.orphans_len.store(orphans.len(), Ordering::Relaxed);
    }

    /// Hands up to `max` orphans to `take`.
    #[inline]
    fn adopt(&self, max: usize, take: impl FnMut(Retired)) {
        // Relaxed: a hint. The lock orders the objects themselves.
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
        // Release: pairs with the Acquire in `Epochs::try_advance`. When the announcement is seen, this participant's
        // earlier reads and unlinks are done.
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Ends a pause, by resumption or revocation. Returns false if the other of the two has ended it.
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
