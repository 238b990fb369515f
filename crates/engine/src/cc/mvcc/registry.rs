//! Which snapshots are open, and what became of the transaction behind a tag.
//!
//! Invariants:
//! - `begin <= clock` for every open snapshot; a commit timestamp is drawn once, by raising `clock`.
//! - A begin lies between two ticks: after the last commit drawn, before the next.
//! - Outside of `enter`..`leave` a worker begins no transaction. Within, every begin it takes is at
//!   least its published floor: the clock only rises, and the floor was read from it before.
//! - So `oldest()`, the least of the clock, then all floors, then all begins, read in this order,
//!   is at most every snapshot open now or opened later. A worker that `oldest` did not see enter
//!   read the clock after its fence, so after `oldest` had read it; one that it did not see leave
//!   any more had published its transactions' begins before.

use crate::record::{TICK, Tag, Timestamp};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{CachePadded, Mutex, lock};
use std::sync::Arc;

const CHUNK: usize = if cfg!(any(braid_shuttle, braid_loom)) { 4 } else { 64 };
const CHUNKS_MAX: usize = if cfg!(any(braid_shuttle, braid_loom)) { 4 } else { 16384 };
/// Places for transactions per database.
pub(in crate::cc) const TXNS_MAX: usize = CHUNK * CHUNKS_MAX;
const CLOSED: u64 = u64::MAX;

const _: () = assert!(TXNS_MAX <= Tag::DESCRIPTORS_MAX as usize);

/// What a transaction's descriptor says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has not asked for a commit timestamp: whatever it gets will be later than now.
    Active,
    /// It is drawing its timestamp: ask again.
    Committing,
    /// It will commit at this time, or abort.
    Pending(Timestamp),
    /// It has committed at this time, and its versions will say so soon.
    Committed(Timestamp),
    /// It has ended, and its versions say how.
    Ended,
}

const ACTIVE: u64 = 0;
const COMMITTING: u64 = 1;
/// Beside a timestamp: it may still abort.
const PENDING: u64 = 1 << 63;
/// Timestamps start above the marks.
pub(super) const FIRST: Timestamp = Timestamp(TICK);
const _: () = assert!(COMMITTING < FIRST.0);

#[derive(Debug)]
struct Descriptor {
    tag: AtomicU64,
    outcome: AtomicU64,
    /// Others wait for the end of the present transaction, or did for that of one before it.
    is_awaited: AtomicBool,
    /// Since when an interactive transaction is open; 0: it is none.
    interactive_since: AtomicU64,
}

/// Begins lie densely: `oldest` reads them all.
#[derive(Debug)]
struct Chunk {
    begins: CachePadded<[AtomicU64; CHUNK]>,
    descriptors: [Descriptor; CHUNK],
}

/// A worker's lower bound on the snapshots that it will open.
pub(super) type Floor = CachePadded<AtomicU64>;

/// One per database.
#[derive(Debug)]
pub(super) struct Registry {
    clock: CachePadded<AtomicU64>,
    chunks: Box<[AtomicPtr<Chunk>]>,
    chunk_count: AtomicUsize,
    free: Mutex<Vec<u32>>,
    floors: Mutex<Vec<Arc<Floor>>>,
}

impl Registry {
    pub(super) fn new() -> Registry {
        Registry {
            clock: CachePadded::new(AtomicU64::new(FIRST.0)),
            chunks: (0..CHUNKS_MAX).map(|_| AtomicPtr::default()).collect(),
            chunk_count: AtomicUsize::new(0),
            free: Mutex::new(Vec::new()),
            floors: Mutex::new(Vec::new()),
        }
    }

    /// A place for transactions, as a number to give to the methods below.
    pub(super) fn join(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        if free.is_empty() {
            let count = self.chunk_count.load(Ordering::Relaxed);
            if count == CHUNKS_MAX {
                return None;
            }
            let chunk = Box::into_raw(Box::new(Chunk {
                begins: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(CLOSED))),
                descriptors: std::array::from_fn(|_| Descriptor {
                    tag: AtomicU64::new(Tag::NONE.word()),
                    outcome: AtomicU64::new(ACTIVE),
                    is_awaited: AtomicBool::new(false),
                    interactive_since: AtomicU64::new(0),
                }),
            }));
            self.chunks[count].store(chunk, Ordering::Release); // pairs with the Acquire in `chunk`
            self.chunk_count.store(count + 1, Ordering::Release); // pairs with the Acquire in `each_begin`
            let first = (count * CHUNK) as u32;
            free.extend((first..first + CHUNK as u32).rev());
        }
        free.pop()
    }

    /// Of the last transaction that announced itself at this place.
    pub(super) fn last_sequence(&self, place: u32) -> u64 {
        // Relaxed: whoever parted from the place did so under the lock that `join` took since.
        Tag::from_word(self.descriptor(place).tag.load(Ordering::Relaxed)).sequence()
    }

    /// Gives a place back.
    pub(super) fn part(&self, place: u32) {
        self.set_interactive_since(place, 0);
        debug_assert_eq!(self.begin_word(place).load(Ordering::Relaxed), CLOSED);
        lock(&self.free).push(place);
    }

    #[inline(always)]
    fn chunk(&self, place: u32) -> &Chunk {
        let chunk = self.chunks[place as usize / CHUNK].load(Ordering::Acquire); // pairs with the Release in `join`
        debug_assert!(!chunk.is_null());
        // SAFETY: a place is handed out after its chunk was stored; chunks live as long as the registry.
        unsafe { &*chunk }
    }

    #[inline(always)]
    fn begin_word(&self, place: u32) -> &AtomicU64 {
        &self.chunk(place).begins[place as usize % CHUNK]
    }

    #[inline(always)]
    fn descriptor(&self, place: u32) -> &Descriptor {
        &self.chunk(place).descriptors[place as usize % CHUNK]
    }

    /// Just after the last commit.
    #[inline(always)]
    pub(super) fn now(&self) -> Timestamp {
        // Acquire: pairs with the AcqRel in `draw`: who sees a timestamp sees its owner COMMITTING.
        Timestamp(self.clock.load(Ordering::Acquire)).after()
    }

    /// Lets the clock be no earlier than the tick of `at`: what is drawn from now on is later.
    pub(super) fn resume(&self, at: Timestamp) {
        debug_assert!(at <= Timestamp::LAST);
        self.clock.fetch_max(at.tick().0, Ordering::AcqRel); // pairs with the Acquire in `now`
        debug_assert!(self.now() >= at);
    }

    /// Lets a tick pass that is nobody's commit.
    pub(super) fn advance(&self) -> Timestamp {
        // AcqRel: pairs with the Acquire in `now`: whoever has a snapshot from here on has seen what came before.
        self.clock.fetch_add(TICK, Ordering::AcqRel);
        self.now()
    }

    /// Opens a snapshot. The worker has entered.
    #[inline(always)]
    pub(super) fn open(&self, place: u32) -> Timestamp {
        let begin = self.now();
        self.begin_word(place).store(begin.0, Ordering::Release); // pairs with the Acquire in `each_begin`
        begin
    }

    #[inline(always)]
    pub(super) fn close(&self, place: u32) {
        self.begin_word(place).store(CLOSED, Ordering::Release); // what the transaction read is read
    }

    /// Makes `tag` known, before any version carries it.
    pub(super) fn announce(&self, place: u32, tag: Tag) {
        let d = self.descriptor(place);
        // In this order: who sees the outcome reset sees the new tag (pairs with `outcome`).
        d.tag.store(tag.word(), Ordering::Release);
        d.outcome.store(ACTIVE, Ordering::Release);
    }

    /// Draws the transaction's commit timestamp. Others wait for its outcome from now on.
    pub(super) fn draw(&self, place: u32) -> Timestamp {
        let outcome = &self.descriptor(place).outcome;
        outcome.store(COMMITTING, Ordering::Release);
        // AcqRel: pairs with the Acquire in `now`: a snapshot that includes the timestamp knows its
        // owner to be committing at least.
        let at = self.clock.fetch_add(TICK, Ordering::AcqRel) + TICK;
        outcome.store(PENDING | at, Ordering::Release); // pairs with the Acquire in `outcome`
        Timestamp(at)
    }

    /// The transaction has committed, at the tick that it has drawn.
    pub(super) fn settle(&self, place: u32, stamp: Timestamp) {
        let outcome = &self.descriptor(place).outcome;
        debug_assert_eq!(outcome.load(Ordering::Relaxed), PENDING | stamp.tick().0);
        outcome.store(stamp.0, Ordering::Release); // pairs with the Acquire in `outcome`
    }

    /// Marks the transaction at this place as awaited, and lets whoever ends a transaction there see it: one that draws a
    /// commit timestamp after this call, or passes a fence after it has undone its writes. Who calls looks at the row
    /// after that: what ended earlier than that shows there.
    pub(super) fn await_end(&self, place: u32) {
        self.descriptor(place).is_awaited.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence in `abort` of the scheme
        // AcqRel: of this and the one in `draw` the later acquires what came before the earlier.
        self.clock.fetch_or(0, Ordering::AcqRel);
    }

    /// Whether the transaction that ends at this place is awaited.
    #[inline(always)]
    pub(super) fn is_awaited(&self, place: u32) -> bool {
        self.descriptor(place).is_awaited.load(Ordering::Relaxed)
    }

    /// Those who wait for the transaction that has ended at this place are going to be told.
    pub(super) fn clear_awaited(&self, place: u32) {
        self.descriptor(place).is_awaited.store(false, Ordering::Relaxed);
    }

    /// See `ConcurrencyControl::set_interactive`; 0: it is none.
    pub(super) fn set_interactive_since(&self, place: u32, now_ns: u64) {
        self.descriptor(place).interactive_since.store(now_ns, Ordering::Relaxed); // for messages
    }

    /// Since when an interactive transaction is open there.
    pub(super) fn interactive_since(&self, place: u32) -> Option<u64> {
        Some(self.descriptor(place).interactive_since.load(Ordering::Relaxed)).filter(|&since| since != 0)
    }

    /// Halts a commit half-way, for tests.
    #[cfg(test)]
    pub(super) fn pretend_committing(&self, place: u32) {
        self.descriptor(place).outcome.store(COMMITTING, Ordering::Release);
    }

    /// What became of the transaction of `tag`.
    pub(super) fn outcome(&self, tag: Tag) -> Outcome {
        let d = self.descriptor(tag.descriptor());
        let outcome = d.outcome.load(Ordering::Acquire); // pairs with the Releases in `announce`, `draw`
        // If the descriptor is still this transaction's after that, so was the outcome.
        if d.tag.load(Ordering::Acquire) != tag.word() {
            return Outcome::Ended;
        }
        match outcome {
            ACTIVE => Outcome::Active,
            COMMITTING => Outcome::Committing,
            at if at & PENDING != 0 => Outcome::Pending(Timestamp(at & !PENDING)),
            at => Outcome::Committed(Timestamp(at)),
        }
    }

    /// A worker's floor, closed.
    pub(super) fn floor(&self) -> Arc<Floor> {
        let floor = Arc::new(CachePadded::new(AtomicU64::new(CLOSED)));
        lock(&self.floors).push(floor.clone());
        floor
    }

    pub(super) fn drop_floor(&self, floor: &Arc<Floor>) {
        lock(&self.floors).retain(|f| !Arc::ptr_eq(f, floor));
    }

    /// Publishes or raises a worker's floor.
    pub(super) fn raise(&self, floor: &Floor) {
        floor.store(self.now().0, Ordering::Release);
        // Pairs with the fence in `oldest`: either it sees this floor, or what is read of the clock
        // from now on is no less than what it saw.
        fence(Ordering::SeqCst);
    }

    pub(super) fn lower(&self, floor: &Floor) {
        floor.store(CLOSED, Ordering::Release); // pairs with the Acquire in `oldest`: begins come first
    }

    /// No snapshot that is open now or opened later is older than `floor`, but for those in `open`.
    pub(super) fn floor_now(&self) -> Timestamp {
        let mut least = self.now().0;
        fence(Ordering::SeqCst); // pairs with the fence in `raise`
        for floor in lock(&self.floors).iter() {
            least = least.min(floor.load(Ordering::Acquire)); // pairs with the Release in `lower`
        }
        Timestamp(least)
    }

    /// At most every snapshot open now or later.
    pub(super) fn oldest(&self) -> Timestamp {
        let mut least = self.floor_now();
        self.each_begin(|begin| least = least.min(begin));
        least
    }

    /// The open snapshots, sorted, into `out`; and `floor_now` from before.
    pub(super) fn snapshots(&self, out: &mut Vec<Timestamp>) -> Timestamp {
        let floor = self.floor_now();
        out.clear();
        self.each_begin(|begin| out.push(begin));
        out.sort_unstable();
        out.dedup();
        floor
    }

    fn each_begin(&self, mut f: impl FnMut(Timestamp)) {
        for i in 0..self.chunk_count.load(Ordering::Acquire) {
            for begin in self.chunk((i * CHUNK) as u32).begins.iter() {
                let begin = begin.load(Ordering::Acquire); // pairs with the Release in `open`
                if begin != CLOSED {
                    f(Timestamp(begin));
                }
            }
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for chunk in &self.chunks[..self.chunk_count.load(Ordering::Relaxed)] {
            // SAFETY: boxed by `join`, dropped once.
            drop(unsafe { Box::from_raw(chunk.load(Ordering::Relaxed)) });
        }
    }
}

#[cfg(all(test, not(braid_loom)))]
mod tests {
    use super::*;
    use crate::record::Stamp;

    /// The oldest snapshot counts, whether a transaction or a worker's floor holds it.
    #[test]
    fn oldest() {
        let r = Registry::new();
        let (a, b) = (r.join().expect("room"), r.join().expect("room"));
        let floor = r.floor();
        r.raise(&floor);
        let first = r.open(a);
        for _ in 0..5 {
            r.draw(b);
        }
        assert_eq!(r.oldest(), first);
        r.raise(&floor);
        assert_eq!((r.floor_now(), r.oldest()), (r.now(), first));
        let mut open = vec![];
        r.snapshots(&mut open);
        assert_eq!(open, [first]);
        r.close(a);
        assert_eq!(r.oldest(), r.now());
        r.draw(b);
        assert!(r.oldest() < r.now());
        r.lower(&floor);
        assert_eq!(r.oldest(), r.now());
    }

    /// A tag tells its transaction's outcome, and no later one's of the same place.
    #[test]
    fn outcomes() {
        let r = Registry::new();
        let place = r.join().expect("room");
        let (first, second) = (Tag::new(place, 1), Tag::new(place, 2));
        r.announce(place, first);
        assert_eq!(r.outcome(first), Outcome::Active);
        let at = r.draw(place);
        assert_eq!((r.outcome(first), r.now()), (Outcome::Pending(at), at.after()));
        r.settle(place, at);
        assert_eq!((r.outcome(first), r.now()), (Outcome::Committed(at), at.after()));
        r.announce(place, second);
        assert_eq!((r.outcome(first), r.outcome(second)), (Outcome::Ended, Outcome::Active));
    }

    /// A resumed clock gives no timestamp again, and never goes back.
    #[test]
    fn resumes() {
        let r = Registry::new();
        let place = r.join().expect("room");
        let at = Timestamp(1000 * TICK + 7);
        r.resume(at);
        assert!(r.now() >= at && r.oldest() >= at);
        r.resume(FIRST);
        assert_eq!(r.draw(place), Timestamp(1001 * TICK));
        r.resume(Timestamp::LAST);
        assert!(Stamp(r.draw(place).0).timestamp().is_some(), "there is room behind the last");
    }

    /// Places run out at the limit, and come back.
    #[test]
    fn places_are_bounded() {
        let r = Registry::new();
        let all: Vec<u32> = std::iter::from_fn(|| r.join()).collect();
        assert_eq!(all.len(), TXNS_MAX);
        r.part(all[7]);
        assert_eq!(r.join(), Some(all[7]));
    }
}
