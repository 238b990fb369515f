//! [`Local`]: one participant.
//!
//! Invariants:
//! - `announced` is the epoch that the other participants see in `shared`, apart from two things: the mark of a pause,
//!   and its revocation, of which `resume` tells.
//! - A participant is entered if and only if `announced != LEFT`, and then `announced <= now`.
//! - References into `limbo` and `versions` never outlive a method of these two, because reclamations call back into
//!   the participant.

use super::limbo::{Limbo, Retired};
use super::{Announced, Epochs, GRACE, LEFT, PAUSED, Reclaim};
use crate::memory::{Kind, Memory, OutOfMemory, Pool};
use crate::sync::atomic::{Ordering, fence};
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

/// One participant: a worker, or an operation of an interactive transaction. A participant is not `Sync`. It may move
/// between threads while it has left.
pub struct Local {
    now: Cell<u64>,
    announced: Cell<u64>,
    is_paused: Cell<bool>,
    shared: Arc<Announced>,
    limbo: UnsafeCell<Limbo>,
    /// The bytes of large versions among the retired objects. The figure is not exact, because some may have been
    /// adopted.
    large_bytes: Cell<u64>,
    /// The amount of memory growth, or of large retired versions, at which something should be done.
    much_bytes: u64,
    versions: UnsafeCell<Pool>,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}

/// The least number of due objects that one `refresh` reclaims, if there are as many.
const RECLAIMED_MAX: usize = 256;
/// The part of a long backlog that one `refresh` reclaims. The backlog may therefore grow to this many times what is
/// retired between two calls. Measured with a worker of a wide batch of transactions of ten writes: a quarter kept
/// 11,400 versions, half keeps 5,500.
const BACKLOG_PART: usize = 2;
/// The number of orphans that one `refresh` adopts.
const ADOPTED_MAX: usize = 256;

/// The number of retired objects from which a participant is taken to hold the epoch up.
const MANY: usize = if cfg!(braid_shuttle) { 1 } else { 4096 };
/// Versions of this size and more also count by their bytes, because a few of them are already much.
const LARGE_BYTES: u64 = 4 << 10;
/// Bounds of `much_bytes`: it is this part of the memory limit, within the two bounds below. Several participants
/// together have several times that amount unused.
const MUCH_PART: u64 = 64;
const MUCH_BYTES_MIN: u64 = 64 << 10;
const MUCH_BYTES_MAX: u64 = 1 << 20;

/// Frees the `bytes` bytes of a version at `p`: the [`Reclaim`] of versions.
///
/// # Safety
/// `p` is from `allocate(bytes)` of a participant of this database, and no thread reaches it any more.
pub unsafe fn free_versions(local: &Local, p: *mut u8, bytes: u64) {
    if bytes >= LARGE_BYTES {
        local.large_bytes.set(local.large_bytes.get().saturating_sub(bytes));
        // Relaxed: a hint.
        local.epochs.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    // SAFETY: the caller has promised that `p` is from `allocate` with this size and unreachable, which `free` asks
    // for.
    unsafe { local.free(p, bytes as usize) };
}

impl Local {
    /// Returns the present moment. See [`Epochs::moment`].
    pub fn moment(&self) -> u64 {
        self.epochs.moment()
    }

    /// Returns whether a moment is past. See [`Epochs::is_past`].
    pub fn is_past(&self, moment: u64) -> bool {
        self.epochs.is_past(moment)
    }

    /// Joins the participants of `epochs`, without entering. Versions come from `memory`.
    pub fn new(epochs: &Arc<Epochs>, memory: &Arc<Memory>) -> Local {
        Local {
            now: Cell::new(epochs.global()),
            announced: Cell::new(LEFT),
            is_paused: Cell::new(false),
            shared: epochs.join(),
            limbo: UnsafeCell::new(Limbo::default()),
            large_bytes: Cell::new(0),
            much_bytes: (memory.limit_bytes() / MUCH_PART).clamp(MUCH_BYTES_MIN, MUCH_BYTES_MAX),
            versions: UnsafeCell::new(Pool::new(memory, Kind::Versions)),
            epochs: Arc::clone(epochs),
            memory: Arc::clone(memory),
        }
    }

    /// Announces the present epoch. Until `leave`, nothing that is reachable from now on is reclaimed.
    pub fn enter(&self) {
        self.enter_with::<true>();
    }

    /// Leaves the epoch: no operation is in flight any more.
    pub fn leave(&self) {
        debug_assert!(self.is_entered(), "left without having entered");
        self.is_paused.set(false);
        self.announced.set(LEFT);
        self.shared.set(LEFT);
    }

    /// Returns whether the participant is between `enter` and `leave`.
    #[inline]
    pub fn is_entered(&self) -> bool {
        self.announced.get() != LEFT
    }

    /// Pauses: the operations in flight are not stepped for now. If they hold other participants up, the others may go
    /// on as if this participant had left. Until `resume`, nothing may look at what those operations have read.
    pub fn pause(&self) {
        debug_assert!(self.is_entered() && !self.is_paused.get());
        self.is_paused.set(true);
        self.shared.set(self.announced.get() | PAUSED);
    }

    /// Returns whether the participant is between `pause` and `resume`.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// Ends a pause. Returns false if others have gone on, which means that this participant has left. What its
    /// operations have read may then be gone: they begin again, in an epoch that is entered first.
    #[must_use]
    pub fn resume(&self) -> bool {
        debug_assert!(self.is_paused.get());
        self.is_paused.set(false);
        let announced = self.announced.get();
        let is_still_in = self.shared.exchange(announced | PAUSED, announced);
        if !is_still_in {
            self.announced.set(LEFT);
        }
        is_still_in
    }

    /// Returns the epoch of the last `enter` or `refresh`. An operation that starts now gets it as its stamp.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Returns what this participant announces. It is at most the stamp of each operation in flight.
    #[inline(always)]
    pub fn announced(&self) -> u64 {
        debug_assert!(self.is_entered());
        self.announced.get()
    }

    /// Announces anew: the oldest stamp of an operation in flight, or the present epoch if there is none. Advances the
    /// global epoch if all participants have caught up, and reclaims what is due.
    ///
    /// A participant that has left may call this too: it announces nothing, but advances and reclaims. A participant
    /// that goes idle with something `pending` should call this until nothing is pending.
    pub fn refresh(&self, oldest_in_flight: Option<u64>) {
        self.refresh_with_grace::<GRACE>(oldest_in_flight);
    }

    /// Allocates memory of versions (`Kind::Versions`).
    #[inline]
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        // SAFETY: the participant is not `Sync` and the pool never calls back, so this is the only reference.
        unsafe { &mut *self.versions.get() }.allocate(bytes)
    }

    /// Allocates like `allocate`, and may use the reserve beyond the memory limit. It is for small objects that help to
    /// give memory back.
    #[inline]
    pub fn allocate_from_reserve(&self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        // SAFETY: as in `allocate`.
        unsafe { &mut *self.versions.get() }.allocate_from_reserve(bytes)
    }

    /// Frees at once.
    ///
    /// # Safety
    /// `p` is from `allocate(bytes)` of a participant of this database. It was never published, or its grace is over.
    #[inline]
    pub unsafe fn free(&self, p: *mut u8, bytes: usize) {
        // SAFETY: the participant is not `Sync` and the pool never calls back, so this is the only reference.
        let versions = unsafe { &mut *self.versions.get() };
        // SAFETY: the caller has promised that `p` is from `allocate(bytes)` and that no operation can reach it.
        unsafe { versions.free(p, bytes) };
    }

    /// Retires a version: `bytes` at `p`.
    ///
    /// # Safety
    /// As for `retire`, with [`free_versions`].
    #[inline]
    pub unsafe fn retire_version(&self, p: *mut u8, bytes: u64) {
        if bytes >= LARGE_BYTES {
            self.large_bytes.set(self.large_bytes.get() + bytes);
            // Relaxed: a hint.
            self.epochs.large_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        // SAFETY: the caller has made the promise that `retire` asks for, for `free_versions`.
        unsafe { self.retire(p, bytes, free_versions) };
    }

    /// Returns whether the memory of versions has grown by much since `forget_growth`. If so, perhaps too little is
    /// given back.
    #[inline(always)]
    pub fn has_grown(&self) -> bool {
        // SAFETY: as in `allocate`.
        unsafe { &*self.versions.get() }.grown_bytes() as u64 >= self.much_bytes
    }

    /// Starts to measure growth anew, because something is being done about it.
    pub fn forget_growth(&self) {
        // SAFETY: as in `allocate`.
        unsafe { &mut *self.versions.get() }.forget_growth();
    }

    /// Returns whether many bytes are retired. If so, the caller should call `refresh` soon and repeatedly.
    #[inline(always)]
    pub fn is_pressed(&self) -> bool {
        self.large_bytes.get() >= self.much_bytes
    }

    /// Returns whether many bytes or many objects are retired. If so, a participant may hold the epoch up.
    #[inline]
    pub fn has_much_retired(&self) -> bool {
        self.pending() >= MANY || self.is_pressed()
    }

    /// Asks that retired objects are given back soon, whatever their size: `is_pressed` holds until the next `refresh`
    /// that leaves nothing pending.
    pub fn hurry(&self) {
        self.large_bytes.set(self.large_bytes.get().max(self.much_bytes));
    }

    /// Adopts everything that other participants have left behind.
    pub fn adopt(&self) {
        self.epochs.adopt(usize::MAX, |orphan| self.with_limbo(|limbo| limbo.push(orphan)));
    }

    /// Returns whether memory is about to be given back: something is retired here, or large versions are retired
    /// elsewhere.
    pub fn awaits_memory(&self) -> bool {
        self.pending() > 0 || self.epochs.large_bytes.load(Ordering::Relaxed) > 0 // a hint
    }

    /// Hands retired objects to other participants if they are many bytes. The caller has left and may not come back
    /// for long.
    #[inline]
    pub fn entrust(&self) {
        if self.is_pressed() {
            self.entrust_much();
        }
    }

    #[cold]
    fn entrust_much(&self) {
        debug_assert!(!self.is_entered());
        // As many turns as reclamation takes while no other participant is inside.
        for _ in 0..=GRACE {
            self.refresh(None);
        }
        if self.is_pressed() {
            self.with_limbo(|limbo| self.epochs.keep_orphans(limbo.take_all()));
            self.large_bytes.set(0);
        }
    }

    /// Runs `reclaim(local, p, word)` when all operations that are now in flight have ended.
    ///
    /// # Safety
    /// Operations that start from now on cannot reach what is reclaimed. `reclaim` may be called with these arguments
    /// on any thread, once.
    #[inline]
    pub unsafe fn retire(&self, p: *mut u8, word: u64, reclaim: Reclaim) {
        let announced = self.announced.get();
        let stamp = if announced != LEFT { announced } else { self.stamp_while_left() };
        self.with_limbo(|limbo| limbo.push(Retired { stamp, p, word, reclaim }));
    }

    /// Returns the number of objects that are retired and not yet reclaimed.
    #[inline]
    pub fn pending(&self) -> usize {
        self.with_limbo(|limbo| limbo.len())
    }

    /// Returns the account that versions are charged to.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Enters. Models that show what the second look at the epoch is for leave it out.
    #[inline]
    pub(super) fn enter_with<const LOOK_AGAIN: bool>(&self) {
        debug_assert!(!self.is_entered() && !self.is_paused(), "entered twice");
        let mut epoch = self.epochs.global();
        loop {
            self.shared.set(epoch);
            // Pairs with the fence in `Epochs::try_advance` (step 1 of the module head).
            fence(Ordering::SeqCst);
            let present = self.epochs.global();
            if present == epoch || !LOOK_AGAIN {
                break;
            }
            epoch = present;
        }
        self.announced.set(epoch);
        self.now.set(epoch);
    }

    /// Refreshes with a given grace. Models use it to show what too short a grace does.
    #[inline]
    pub(super) fn refresh_with_grace<const GRACE_EPOCHS: u64>(&self, oldest_in_flight: Option<u64>) {
        debug_assert!(!self.is_paused());
        if self.is_entered() {
            self.announce(oldest_in_flight);
        } else {
            debug_assert!(oldest_in_flight.is_none(), "left with an operation in flight");
        }
        self.epochs.adopt(ADOPTED_MAX, |orphan| self.with_limbo(|limbo| limbo.push(orphan)));
        let pending = self.pending();
        if pending > 0 {
            // An older operation of this participant holds the epoch back; then there is no need to look at others.
            if self.announced.get() >= self.now.get() {
                self.epochs.try_advance(self.has_much_retired());
            }
            self.reclaim_due(self.epochs.global().saturating_sub(GRACE_EPOCHS), pending);
        }
        if self.pending() == 0 {
            self.large_bytes.set(0);
        }
    }

    #[inline]
    fn announce(&self, oldest_in_flight: Option<u64>) {
        let present = self.epochs.global();
        let oldest = oldest_in_flight.map_or(present, |stamp| stamp.min(present));
        debug_assert!(oldest >= self.announced.get(), "an operation older than what was announced");
        self.announced.set(oldest);
        self.now.set(present);
        self.shared.set(oldest);
    }

    /// Reclaims a bounded part of the objects with a stamp below `end`.
    fn reclaim_due(&self, end: u64, pending: usize) {
        for _ in 0..RECLAIMED_MAX.max(pending / BACKLOG_PART) {
            let Some(due) = self.with_limbo(|limbo| limbo.pop_below(end)) else { break };
            // SAFETY: the caller of `retire` has promised that the call is sound after the grace. The grace is over, as
            // the module head shows.
            unsafe { (due.reclaim)(self, due.p, due.word) };
        }
        self.with_limbo(Limbo::trim);
    }

    /// Returns the global epoch, read after everything that this participant did before.
    #[cold]
    fn stamp_while_left(&self) -> u64 {
        // Pairs with the SeqCst exchange in `Epochs::try_advance` (step 3 of the module head).
        fence(Ordering::SeqCst);
        self.epochs.global()
    }

    #[inline(always)]
    fn with_limbo<R>(&self, f: impl FnOnce(&mut Limbo) -> R) -> R {
        // SAFETY: the participant is not `Sync`, and the closures of this module do not call back into it, so this is
        // the only reference.
        f(unsafe { &mut *self.limbo.get() })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.is_entered() {
            self.leave();
        }
        self.epochs.part(&self.shared);
        if self.pending() > 0 {
            self.with_limbo(|limbo| self.epochs.keep_orphans(limbo.take_all()));
        }
    }
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local")
            .field("now", &self.now())
            .field("entered", &self.is_entered())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
