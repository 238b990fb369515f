//! [`Local`]: one participant.
//!
//! Invariants: `announced` is what the others see in `shared`, but for the mark of a pause, and for its revocation, of
//! which `resume` tells; entered means `announced != LEFT`,
//! and then `announced <= now`. References into `limbo` and `versions` never outlive a method of
//! those: reclamations call back into the participant.

use super::limbo::{Limbo, Retired};
use super::{Announced, Epochs, GRACE, LEFT, PAUSED, Reclaim};
use crate::memory::{Kind, Memory, OutOfMemory, Pool};
use crate::sync::atomic::{Ordering, fence};
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

/// One participant: a worker, or an interactive transaction's operation. Not `Sync`; may move
/// between threads while left.
pub struct Local {
    now: Cell<u64>,
    announced: Cell<u64>,
    is_paused: Cell<bool>,
    shared: Arc<Announced>,
    limbo: UnsafeCell<Limbo>,
    /// Bytes of large versions among what is retired; more or less, as some may have been adopted.
    large_bytes: Cell<u64>,
    /// Growth of memory, or large versions retired, that something should be done about.
    much_bytes: u64,
    versions: UnsafeCell<Pool>,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}

/// Reclamations of one `refresh`, at least.
const RECLAIMED_MAX: usize = 256;
/// The part of a long backlog that one `refresh` reclaims: as many times what is retired between two calls may wait. (With a
/// quarter, a worker of a wide batch of transactions of ten writes kept 11,400 versions, with half 5,500.)
const BACKLOG_PART: usize = 2;
/// Orphans that one `refresh` adopts.
const ADOPTED_MAX: usize = 256;

/// So many things retired say that a participant holds the epoch up.
const MANY: usize = if cfg!(braid_shuttle) { 1 } else { 4096 };
/// Versions of this size and more count by their bytes as well: few of them are much.
const LARGE_BYTES: u64 = 4 << 10;
/// What is much: this part of the memory limit, within these bounds. Some participants together have several times
/// that unused.
const MUCH_PART: u64 = 64;
const MUCH_BYTES_MIN: u64 = 64 << 10;
const MUCH_BYTES_MAX: u64 = 1 << 20;

/// The [`Reclaim`] of versions: frees `bytes` at `p`.
///
/// # Safety
/// `p` is from `allocate(bytes)` of a participant of this database, and nobody reaches it any more.
pub unsafe fn free_versions(local: &Local, p: *mut u8, bytes: u64) {
    if bytes >= LARGE_BYTES {
        local.large_bytes.set(local.large_bytes.get().saturating_sub(bytes));
        // Relaxed: a hint.
        local.epochs.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { local.free(p, bytes as usize) };
}

impl Local {
    /// As [`Epochs::moment`].
    pub fn moment(&self) -> u64 {
        self.epochs.moment()
    }

    /// As [`Epochs::is_past`].
    pub fn is_past(&self, moment: u64) -> bool {
        self.epochs.is_past(moment)
    }

    /// Joins the participants of `epochs`, left; versions come from `memory`.
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

    /// Announces the present epoch; until `leave`, nothing that is reachable from now on is reclaimed.
    pub fn enter(&self) {
        self.enter_with::<true>();
    }

    /// No operation is in flight any more.
    pub fn leave(&self) {
        debug_assert!(self.is_entered(), "left without having entered");
        self.is_paused.set(false);
        self.announced.set(LEFT);
        self.shared.set(LEFT);
    }

    /// Between `enter` and `leave`.
    #[inline]
    pub fn is_entered(&self) -> bool {
        self.announced.get() != LEFT
    }

    /// The operations in flight are not stepped for now: if that holds others up, they may go on as if this participant had
    /// left. Until `resume`, what those operations have read is not looked at.
    pub fn pause(&self) {
        debug_assert!(self.is_entered() && !self.is_paused.get());
        self.is_paused.set(true);
        self.shared.set(self.announced.get() | PAUSED);
    }

    /// Between `pause` and `resume`.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// Ends a pause. Returns false if others have gone on, and the participant has left. What its operations have read may be
    /// gone: they have to begin again, in an epoch that is entered first.
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

    /// The epoch of the last `enter` or `refresh`: what an operation that starts now is stamped with.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// What this participant announces: at most the stamp of each operation in flight.
    #[inline(always)]
    pub fn announced(&self) -> u64 {
        debug_assert!(self.is_entered());
        self.announced.get()
    }

    /// Announces anew: the oldest stamp of an operation still in flight, or the present epoch where there is none.
    /// Advances the global epoch where all have caught up, and reclaims what is due.
    ///
    /// A participant that has left may call this too: it announces nothing, but advances and
    /// reclaims. One that goes idle with something `pending` should, until nothing is.
    pub fn refresh(&self, oldest_in_flight: Option<u64>) {
        self.refresh_with_grace::<GRACE>(oldest_in_flight);
    }

    /// Version memory (`Kind::Versions`).
    #[inline]
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        // SAFETY: not `Sync`, and the pool never calls back: this is the only reference.
        unsafe { &mut *self.versions.get() }.allocate(bytes)
    }

    /// As `allocate`, with the reserve beyond the memory limit at hand: for small objects that help to give
    /// memory back.
    #[inline]
    pub fn allocate_from_reserve(&self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        // SAFETY: as in `allocate`.
        unsafe { &mut *self.versions.get() }.allocate_from_reserve(bytes)
    }

    /// Frees at once.
    ///
    /// # Safety
    /// `p` is from `allocate(bytes)` of a participant of this database, and was never published or
    /// is past its grace.
    #[inline]
    pub unsafe fn free(&self, p: *mut u8, bytes: usize) {
        // SAFETY: not `Sync`, and the pool never calls back: this is the only reference.
        let versions = unsafe { &mut *self.versions.get() };
        // SAFETY: the caller's promise.
        unsafe { versions.free(p, bytes) };
    }

    /// Retires a version: `bytes` at `p`.
    ///
    /// # Safety
    /// As `retire`, with [`free_versions`].
    #[inline]
    pub unsafe fn retire_version(&self, p: *mut u8, bytes: u64) {
        if bytes >= LARGE_BYTES {
            self.large_bytes.set(self.large_bytes.get() + bytes);
            // Relaxed: a hint.
            self.epochs.large_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { self.retire(p, bytes, free_versions) };
    }

    /// Version memory has grown by much since `forget_growth`: perhaps because too little is given back.
    #[inline(always)]
    pub fn has_grown(&self) -> bool {
        // SAFETY: as in `allocate`.
        unsafe { &*self.versions.get() }.grown_bytes() as u64 >= self.much_bytes
    }

    /// Something is done about it.
    pub fn forget_growth(&self) {
        // SAFETY: as in `allocate`.
        unsafe { &mut *self.versions.get() }.forget_growth();
    }

    /// Much is retired: `refresh` had better be called soon, and again.
    #[inline(always)]
    pub fn is_pressed(&self) -> bool {
        self.large_bytes.get() >= self.much_bytes
    }

    /// Much is retired, or many things are: a participant may hold the epoch up.
    #[inline]
    pub fn has_much_retired(&self) -> bool {
        self.pending() >= MANY || self.is_pressed()
    }

    /// Asks for what is retired to be given back soon, whatever its size: `is_pressed` until the next `refresh`.
    pub fn hurry(&self) {
        self.large_bytes.set(self.large_bytes.get().max(self.much_bytes));
    }

    /// Takes over all that others have left.
    pub fn adopt(&self) {
        self.epochs.adopt(usize::MAX, |orphan| self.with_limbo(|limbo| limbo.push(orphan)));
    }

    /// Memory is on its way: something is retired here, or large versions are elsewhere.
    pub fn awaits_memory(&self) -> bool {
        self.pending() > 0 || self.epochs.large_bytes.load(Ordering::Relaxed) > 0 // a hint
    }

    /// Sees to it that what is retired is given back without this participant, which has left and may not come back for
    /// long: where that is much, others get it.
    #[inline]
    pub fn entrust(&self) {
        if self.is_pressed() {
            self.entrust_much();
        }
    }

    #[cold]
    fn entrust_much(&self) {
        debug_assert!(!self.is_entered());
        // As many as it takes where no other participant is inside.
        for _ in 0..=GRACE {
            self.refresh(None);
        }
        if self.is_pressed() {
            self.with_limbo(|limbo| self.epochs.keep_orphans(limbo.take_all()));
            self.large_bytes.set(0);
        }
    }

    /// Runs `reclaim(local, p, word)` when no operation now in flight is still there.
    ///
    /// # Safety
    /// What it reclaims is unreachable for operations that start from now on, and `reclaim` may be
    /// called with this on any thread, once.
    #[inline]
    pub unsafe fn retire(&self, p: *mut u8, word: u64, reclaim: Reclaim) {
        let announced = self.announced.get();
        let stamp = if announced != LEFT { announced } else { self.stamp_while_left() };
        self.with_limbo(|limbo| limbo.push(Retired { stamp, p, word, reclaim }));
    }

    /// Retired and not yet reclaimed.
    #[inline]
    pub fn pending(&self) -> usize {
        self.with_limbo(|limbo| limbo.len())
    }

    /// The account that versions are charged to.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// `enter`, or for models that show what it is for, without looking again.
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

    /// `refresh` with another grace, for models that show what too short a one does.
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
            // An older operation of our own would hold the epoch back: no need to look at others then.
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

    /// Reclaims what has a stamp below `end`, a bounded part of it.
    fn reclaim_due(&self, end: u64, pending: usize) {
        for _ in 0..RECLAIMED_MAX.max(pending / BACKLOG_PART) {
            let Some(due) = self.with_limbo(|limbo| limbo.pop_below(end)) else { break };
            // SAFETY: the caller of `retire` promised that this is fine after the grace, which is over
            // as the module head shows.
            unsafe { (due.reclaim)(self, due.p, due.word) };
        }
        self.with_limbo(Limbo::trim);
    }

    /// The global epoch, read after all that this participant did before.
    #[cold]
    fn stamp_while_left(&self) -> u64 {
        // Pairs with the SeqCst exchange in `Epochs::try_advance` (step 3 of the module head).
        fence(Ordering::SeqCst);
        self.epochs.global()
    }

    #[inline(always)]
    fn with_limbo<R>(&self, f: impl FnOnce(&mut Limbo) -> R) -> R {
        // SAFETY: not `Sync`, and the closures of this module do not call back into the
        // participant: this is the only reference.
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
