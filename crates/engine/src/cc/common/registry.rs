//! The clock, the open transactions with their begins, and the outcome of the transaction behind a tag.
//!
//! Invariants:
//! - `begin <= clock` for every open snapshot. A commit timestamp is drawn once, by raising `clock`.
//! - A begin lies between two ticks: after the last commit drawn, and before the next one. Under schemes in which a
//!   transaction has a time from its beginning on, the begin is this time, a tick of its own.
//! - Outside of `enter`..`leave` a worker begins no transaction. Within it, every begin that the worker takes is at
//!   least its published floor, because the clock only rises and the floor was read from it earlier. The floor is
//!   raised with every begin, and by the worker's housekeeping.
//! - `oldest()` is the least of the clock, all floors and all begins, read in this order. It is therefore at most
//!   every snapshot that is open now or opened later. If `oldest` did not see a worker enter, the worker read the
//!   clock after its fence, and thus after `oldest` had read it. If `oldest` no longer saw a worker that has left,
//!   the worker had published its transactions' begins before.
//! - A place is marked as taken before a transaction begins there, and until the last transaction there has closed. A
//!   search for begins therefore looks only at the marks and at taken places, however many places there have been.

use crate::cc::{Holder, InTheWay, NotBegun};
use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::{TICK, Tag, Timestamp};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{CachePadded, Mutex, lock, thread_number};
use std::sync::Arc;

/// The number of places in a chunk: the bits of a word, which marks the places that are taken.
const CHUNK: usize = if cfg!(any(braid_shuttle, braid_loom)) { 4 } else { 64 };
const CHUNKS_MAX: usize = if cfg!(any(braid_shuttle, braid_loom)) { 4 } else { 16384 };
/// The number of chunks that a word marks.
const GROUP: usize = u64::BITS as usize;
const GROUPS_MAX: usize = CHUNKS_MAX.div_ceil(GROUP);
const FULL: u64 = u64::MAX >> (u64::BITS as usize - CHUNK);
/// The number of places for transactions in a database.
pub(in crate::cc) const TXNS_MAX: usize = CHUNK * CHUNKS_MAX;
const CLOSED: u64 = u64::MAX;
/// Stands for a place: there is none yet.
pub(in crate::cc) const NOWHERE: u32 = u32::MAX;
const _: () = assert!(TXNS_MAX < NOWHERE as usize);

const _: () = assert!(TXNS_MAX <= Tag::DESCRIPTORS_MAX as usize);

/// Returns the number by which a transaction is known outside.
fn id_of(tag: Tag) -> u64 {
    tag.word() & (u64::MAX >> 1)
}

/// What a transaction's descriptor says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Outcome {
    /// The transaction has not asked for a commit timestamp. The timestamp that it gets will be later than now.
    Active,
    /// The transaction is drawing its timestamp: ask again.
    Committing,
    /// The transaction will commit at this time, or abort.
    Pending(Timestamp),
    /// The transaction has committed at this time, and its versions will soon say so.
    Committed(Timestamp),
    /// The transaction has ended, and its versions say how.
    Ended,
}

const ACTIVE: u64 = 0;
const COMMITTING: u64 = 1;
const ENDED: u64 = 2;
/// A bit beside a timestamp: the transaction may still abort.
const PENDING: u64 = 1 << 63;
/// The first timestamp. Timestamps start above the marks.
pub(in crate::cc) const FIRST: Timestamp = Timestamp(TICK);
const _: () = assert!(ENDED < FIRST.0);

#[derive(Debug)]
struct Descriptor {
    tag: AtomicU64,
    outcome: AtomicU64,
    /// True if other transactions wait for the end of the present transaction, or waited for that of an earlier
    /// transaction here.
    is_awaited: AtomicBool,
    /// Since when an interactive transaction is open; 0: the transaction is not interactive.
    interactive_since: AtomicU64,
    /// The thread that runs the transactions of this place. For interactive transactions, it is the thread that began
    /// or used the last one.
    thread: AtomicU64,
    /// How old the present transaction is, under schemes that compare ages.
    age: AtomicU64,
}

/// A group of places. Begins lie densely because `oldest` reads them all.
#[derive(Debug)]
struct Chunk {
    begins: CachePadded<[AtomicU64; CHUNK]>,
    /// One bit for each place that is taken. Changed under the lock on `Registry::places`.
    taken: AtomicU64,
    /// One bit for each place whose transaction keeps keys: see [`Registry::set_keeping`].
    keeping: AtomicU64,
    descriptors: [Descriptor; CHUNK],
}

/// Which chunks have free places.
#[derive(Debug)]
struct Places {
    /// One bit for each chunk with a free place.
    vacant: [u64; GROUPS_MAX],
    /// The first group that may have such a chunk.
    first: usize,
}

/// A worker's lower bound on the snapshots that it will open.
pub(in crate::cc) type Floor = CachePadded<AtomicU64>;

/// The clock and all transactions. One per database.
#[derive(Debug)]
pub(in crate::cc) struct Registry {
    clock: CachePadded<AtomicU64>,
    /// The number of ages given out.
    ages: CachePadded<AtomicU64>,
    chunks: Box<[AtomicPtr<Chunk>]>,
    chunk_count: AtomicUsize,
    /// One bit for each chunk with a place that is taken. Changed under the lock on `places`.
    occupied: [AtomicU64; GROUPS_MAX],
    places: Mutex<Places>,
    floors: Mutex<Vec<Arc<Floor>>>,
    memory: Arc<Memory>,
}

impl Registry {
    /// Makes an empty registry. Places are charged to `memory`.
    pub(in crate::cc) fn new(memory: &Arc<Memory>) -> Registry {
        Registry {
            clock: CachePadded::new(AtomicU64::new(FIRST.0)),
            ages: CachePadded::new(AtomicU64::new(0)),
            chunks: (0..CHUNKS_MAX).map(|_| AtomicPtr::default()).collect(),
            chunk_count: AtomicUsize::new(0),
            occupied: std::array::from_fn(|_| AtomicU64::new(0)),
            places: Mutex::new(Places { vacant: [0; GROUPS_MAX], first: 0 }),
            floors: Mutex::new(Vec::new()),
            memory: Arc::clone(memory),
        }
    }

    /// Takes a place for transactions, and returns its number for the methods below. It is the lowest free place, so
    /// that places in use lie densely.
    pub(in crate::cc) fn join(&self) -> Result<u32, NotBegun> {
        let mut places = lock(&self.places);
        let group = match (places.first..GROUPS_MAX).find(|&group| places.vacant[group] != 0) {
            Some(group) => group,
            None => self.grow(&mut places)?,
        };
        places.first = group;
        let chunk_number = group * GROUP + places.vacant[group].trailing_zeros() as usize;
        let chunk = self.chunk((chunk_number * CHUNK) as u32);
        // Relaxed: changed under the lock.
        let taken = chunk.taken.load(Ordering::Relaxed);
        let at = (!taken).trailing_zeros() as usize;
        debug_assert!(at < CHUNK, "a vacant chunk has a place");
        let now_taken = taken | 1 << at;
        // Release: pairs with the Acquire in `each_open`, as does the next store.
        chunk.taken.store(now_taken, Ordering::Release);
        if taken == 0 {
            self.mark_chunk(chunk_number, true);
        }
        if now_taken == FULL {
            places.vacant[group] &= !(1 << (chunk_number % GROUP));
        }
        let place = (chunk_number * CHUNK + at) as u32;
        self.set_thread(place);
        Ok(place)
    }

    /// Makes a chunk of places, and returns its group.
    #[cold]
    fn grow(&self, places: &mut Places) -> Result<usize, NotBegun> {
        let count = self.chunk_count.load(Ordering::Relaxed);
        if count == CHUNKS_MAX {
            return Err(NotBegun::TooMany);
        }
        let bytes = size_of::<Chunk>() as u64;
        self.memory.charge_transaction(bytes, true).map_err(|OutOfMemory| NotBegun::OutOfMemory)?;
        let chunk = Box::into_raw(Box::new(Chunk {
            begins: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(CLOSED))),
            taken: AtomicU64::new(0),
            keeping: AtomicU64::new(0),
            descriptors: std::array::from_fn(|_| Descriptor {
                tag: AtomicU64::new(Tag::NONE.word()),
                outcome: AtomicU64::new(ACTIVE),
                is_awaited: AtomicBool::new(false),
                interactive_since: AtomicU64::new(0),
                thread: AtomicU64::new(0),
                age: AtomicU64::new(0),
            }),
        }));
        self.chunks[count].store(chunk, Ordering::Release); // pairs with the Acquire in `chunk`
        self.chunk_count.store(count + 1, Ordering::Release); // pairs with the Acquire in `each_open`
        places.vacant[count / GROUP] |= 1 << (count % GROUP);
        Ok(count / GROUP)
    }

    /// Notes whether places of this chunk are taken. The caller holds the lock on `places`.
    fn mark_chunk(&self, chunk: usize, is_occupied: bool) {
        let (word, bit) = (&self.occupied[chunk / GROUP], 1 << (chunk % GROUP));
        let others = word.load(Ordering::Relaxed) & !bit; // changed under the lock
        word.store(if is_occupied { others | bit } else { others }, Ordering::Release);
    }

    /// Returns the sequence number of the last transaction that announced itself at this place.
    pub(in crate::cc) fn last_sequence(&self, place: u32) -> u64 {
        // Relaxed: the place was parted from under the lock that `join` has taken since.
        Tag::from_word(self.descriptor(place).tag.load(Ordering::Relaxed)).sequence()
    }

    /// Gives a place back.
    pub(in crate::cc) fn part(&self, place: u32) {
        self.set_interactive_since(place, 0);
        debug_assert_eq!(self.begin_word(place).load(Ordering::Relaxed), CLOSED);
        let (chunk_number, chunk) = (place as usize / CHUNK, self.chunk(place));
        let mut places = lock(&self.places);
        let taken = chunk.taken.load(Ordering::Relaxed); // changed under the lock
        debug_assert!(taken >> (place as usize % CHUNK) & 1 == 1, "given back twice");
        let now_taken = taken & !(1 << (place as usize % CHUNK));
        chunk.taken.store(now_taken, Ordering::Release);
        if now_taken == 0 {
            self.mark_chunk(chunk_number, false);
        }
        let group = chunk_number / GROUP;
        places.vacant[group] |= 1 << (chunk_number % GROUP);
        places.first = places.first.min(group);
    }

    #[inline(always)]
    fn chunk(&self, place: u32) -> &Chunk {
        let chunk = self.chunks[place as usize / CHUNK].load(Ordering::Acquire); // pairs with the Release in `grow`
        debug_assert!(!chunk.is_null());
        // SAFETY: a place is handed out only after its chunk was stored, and chunks live as long as the registry.
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

    /// Returns the time just after the last commit.
    #[inline(always)]
    pub(in crate::cc) fn now(&self) -> Timestamp {
        // Acquire: pairs with the AcqRel in `draw`. A thread that sees a timestamp sees its owner as COMMITTING.
        Timestamp(self.clock.load(Ordering::Acquire)).after()
    }

    /// Sets the clock to the tick of `at` at least. What is drawn from now on is later.
    pub(in crate::cc) fn resume(&self, at: Timestamp) {
        debug_assert!(at <= Timestamp::LAST);
        self.clock.fetch_max(at.tick().0, Ordering::AcqRel); // pairs with the Acquire in `now`
        debug_assert!(self.now() >= at);
    }

    /// Lets a tick pass that belongs to no commit.
    pub(in crate::cc) fn advance(&self) -> Timestamp {
        // AcqRel: pairs with the Acquire in `now`. Snapshots from here on have seen what was done before.
        self.clock.fetch_add(TICK, Ordering::AcqRel);
        self.now()
    }

    /// Opens a snapshot. The worker has entered.
    #[inline(always)]
    pub(in crate::cc) fn open(&self, place: u32) -> Timestamp {
        let begin = self.now();
        self.begin_word(place).store(begin.0, Ordering::Release); // pairs with the Acquire in `each_open`
        begin
    }

    /// Opens a snapshot as of a time that no other transaction has. What is committed as of that time is within the
    /// snapshot.
    pub(in crate::cc) fn open_at_own_time(&self, place: u32) -> Timestamp {
        let begin = self.draw_time(); // read from the clock, as in `open`, so no less than the worker's floor
        self.begin_word(place).store(begin.0, Ordering::Release); // pairs with the Acquire in `each_open`
        begin
    }

    #[inline(always)]
    pub(in crate::cc) fn close(&self, place: u32) {
        self.begin_word(place).store(CLOSED, Ordering::Release); // all of its reads are complete
    }

    /// Sets whether keys that are deleted after the snapshot at this place stay in their indexes. This is a hint: a
    /// thread that has looked at the snapshots before the call acts on that earlier look.
    #[cold]
    pub(in crate::cc) fn set_keeping(&self, place: u32, keeps: bool) {
        let (word, bit) = (&self.chunk(place).keeping, 1 << (place as usize % CHUNK));
        match keeps {
            true => word.fetch_or(bit, Ordering::Relaxed), // a hint
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Makes `tag` known, before any version carries it.
    pub(in crate::cc) fn announce(&self, place: u32, tag: Tag) {
        let d = self.descriptor(place);
        // In this order: a thread that sees the outcome reset sees the new tag (pairs with `outcome`).
        d.tag.store(tag.word(), Ordering::Release);
        d.outcome.store(ACTIVE, Ordering::Release);
    }

    /// Draws the transaction's commit timestamp. Other transactions wait for its outcome from now on.
    pub(in crate::cc) fn draw(&self, place: u32) -> Timestamp {
        let outcome = &self.descriptor(place).outcome;
        outcome.store(COMMITTING, Ordering::Release);
        // AcqRel: pairs with the Acquire in `now`. A snapshot that includes the timestamp knows that its owner is at
        // least committing.
        let at = self.clock.fetch_add(TICK, Ordering::AcqRel) + TICK;
        outcome.store(PENDING | at, Ordering::Release); // pairs with the Acquire in `outcome`
        Timestamp(at)
    }

    /// Returns a time that no other transaction has, for a transaction that must know its time before it commits.
    pub(in crate::cc) fn draw_time(&self) -> Timestamp {
        Timestamp(self.clock.fetch_add(TICK, Ordering::AcqRel) + TICK) // as in `advance`
    }

    /// Lets the transaction commit at `earliest`. If it `draws` a time of its own, it commits at the next tick that
    /// is no earlier. The clock is no earlier than that time afterwards. What `draw` says about other transactions
    /// holds.
    pub(in crate::cc) fn commit_at(&self, place: u32, earliest: Timestamp, draws: bool) -> Timestamp {
        let outcome = &self.descriptor(place).outcome;
        outcome.store(COMMITTING, Ordering::Release);
        let next = |clock: u64| earliest.0.max(if draws { clock + TICK } else { clock });
        // AcqRel: as in `draw`, even if the clock stays as it is.
        let clock = self.clock.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |clock| Some(next(clock)));
        let at = if draws { next(clock.expect("it is always set")) } else { earliest.0 };
        outcome.store(PENDING | at, Ordering::Release); // pairs with the Acquire in `outcome`
        Timestamp(at)
    }

    /// Marks the transaction as committed, at the tick that it has drawn.
    pub(in crate::cc) fn settle(&self, place: u32, stamp: Timestamp) {
        let outcome = &self.descriptor(place).outcome;
        debug_assert_eq!(outcome.load(Ordering::Relaxed), PENDING | stamp.tick().0);
        outcome.store(stamp.0, Ordering::Release); // pairs with the Acquire in `outcome`
    }

    /// Marks the transaction at this place as ended. Its versions say how it ended.
    #[inline(always)]
    pub(in crate::cc) fn end(&self, place: u32) {
        self.descriptor(place).outcome.store(ENDED, Ordering::Release); // pairs with the Acquire in `outcome`
    }

    /// Marks the transaction at this place as awaited, and makes sure that its end sees the mark. This holds if the
    /// transaction draws a commit timestamp after this call, or passes a fence after it has undone its writes. The
    /// caller looks at the row afterwards, because there it sees the result of a transaction that ended earlier.
    pub(in crate::cc) fn await_end(&self, place: u32) {
        self.descriptor(place).is_awaited.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence in `abort` of the scheme
        // AcqRel: of this operation and the one in `draw`, the later acquires what precedes the earlier.
        self.clock.fetch_or(0, Ordering::AcqRel);
    }

    /// Returns true if the transaction that ends at this place is awaited.
    #[inline(always)]
    pub(in crate::cc) fn is_awaited(&self, place: u32) -> bool {
        self.descriptor(place).is_awaited.load(Ordering::Relaxed)
    }

    /// Clears the mark: the waiters for the transaction that has ended at this place are about to be told.
    pub(in crate::cc) fn clear_awaited(&self, place: u32) {
        self.descriptor(place).is_awaited.store(false, Ordering::Relaxed);
    }

    /// Sets since when the transaction is interactive: see `ConcurrencyControl::set_interactive`. 0: it is not.
    pub(in crate::cc) fn set_interactive_since(&self, place: u32, now_ns: u64) {
        if place != NOWHERE {
            self.descriptor(place).interactive_since.store(now_ns, Ordering::Relaxed); // for messages
            self.set_thread(place);
        }
    }

    /// Gives the transactions of this place to the calling thread from now on. Called before a transaction begins, so
    /// a thread that sees it open sees whose it is.
    fn set_thread(&self, place: u32) {
        self.descriptor(place).thread.store(thread_number(), Ordering::Relaxed); // the begin is stored with Release
    }

    /// Returns since when an interactive transaction is open at this place.
    pub(in crate::cc) fn interactive_since(&self, place: u32) -> Option<u64> {
        Some(self.descriptor(place).interactive_since.load(Ordering::Relaxed)).filter(|&since| since != 0)
    }

    /// Returns an age for a transaction. Later calls return greater ages.
    pub(in crate::cc) fn draw_age(&self) -> u64 {
        self.ages.fetch_add(1, Ordering::Relaxed) // only the difference counts
    }

    /// Makes the age of the transaction that has begun at this place known, before its tag is.
    pub(in crate::cc) fn set_age(&self, place: u32, age: u64) {
        // Release: pairs with the Acquire in `age_of`. All actions of the previous transaction at this place are
        // complete.
        self.descriptor(place).age.store(age, Ordering::Release); // `announce` comes later
    }

    /// Returns how old the transaction of `tag` is; `None`: it has ended. If the transaction ends during the call,
    /// the age may be that of the next transaction at its place.
    pub(in crate::cc) fn age_of(&self, tag: Tag) -> Option<u64> {
        let d = self.descriptor(tag.descriptor());
        let is_open = d.tag.load(Ordering::Acquire) == tag.word(); // pairs with the Release in `announce`
        is_open.then(|| d.age.load(Ordering::Acquire)) // pairs with the Release in `set_age`
    }

    /// Halts a commit halfway, for tests.
    #[cfg(test)]
    pub(in crate::cc) fn pretend_committing(&self, place: u32) {
        self.descriptor(place).outcome.store(COMMITTING, Ordering::Release);
    }

    /// Returns the outcome of the transaction of `tag`.
    pub(in crate::cc) fn outcome(&self, tag: Tag) -> Outcome {
        let d = self.descriptor(tag.descriptor());
        let outcome = d.outcome.load(Ordering::Acquire); // pairs with the Releases in `announce`, `draw`
        // If the descriptor still belongs to this transaction after that read, so did the outcome.
        if d.tag.load(Ordering::Acquire) != tag.word() {
            return Outcome::Ended;
        }
        match outcome {
            ACTIVE => Outcome::Active,
            COMMITTING => Outcome::Committing,
            ENDED => Outcome::Ended,
            at if at & PENDING != 0 => Outcome::Pending(Timestamp(at & !PENDING)),
            at => Outcome::Committed(Timestamp(at)),
        }
    }

    /// Returns the transaction of `tag`, while it is open.
    pub(in crate::cc) fn holder(&self, tag: Tag) -> Option<Holder> {
        let is_ending = match self.outcome(tag) {
            Outcome::Active => false,
            Outcome::Committing | Outcome::Pending(_) => true,
            Outcome::Committed(_) | Outcome::Ended => return None,
        };
        Some(Holder { id: id_of(tag), place: tag.descriptor(), is_ending })
    }

    /// Returns true if `holder` is still open.
    pub(in crate::cc) fn is_open(&self, holder: Holder) -> bool {
        let tag = Tag::from_word(self.descriptor(holder.place).tag.load(Ordering::Acquire)); // as in `outcome`
        id_of(tag) == holder.id && self.holder(tag).is_some()
    }

    /// Makes a worker's floor, closed.
    pub(in crate::cc) fn floor(&self) -> Arc<Floor> {
        let floor = Arc::new(CachePadded::new(AtomicU64::new(CLOSED)));
        lock(&self.floors).push(floor.clone());
        floor
    }

    pub(in crate::cc) fn drop_floor(&self, floor: &Arc<Floor>) {
        lock(&self.floors).retain(|f| !Arc::ptr_eq(f, floor));
    }

    /// Publishes or raises a worker's floor.
    pub(in crate::cc) fn raise(&self, floor: &Floor) {
        floor.store(self.now().0, Ordering::Release);
        // Pairs with the fence in `floor_now`: either that thread sees this floor, or this thread reads no lesser
        // clock from now on than that thread saw.
        fence(Ordering::SeqCst);
    }

    /// Raises the floor of a worker that has entered to the begin of its latest transaction. This costs one store.
    /// The less the floor lags behind the clock, the fewer versions reclamation has to leave. No fence is needed: for
    /// a thread that does not see this floor, the earlier one holds, and a thread that sees it sees all earlier
    /// begins.
    #[inline(always)]
    pub(in crate::cc) fn follow(&self, floor: &Floor, begin: Timestamp) {
        debug_assert!(floor.load(Ordering::Relaxed) <= begin.0, "a snapshot begins above its worker's floor");
        floor.store(begin.0, Ordering::Release); // pairs with the Acquire in `floor_now`
    }

    pub(in crate::cc) fn lower(&self, floor: &Floor) {
        floor.store(CLOSED, Ordering::Release); // pairs with the Acquire in `floor_now`: begins come first
    }

    /// Returns a time `floor`: no snapshot that is open now or opened later is older, except those in `open`.
    pub(in crate::cc) fn floor_now(&self) -> Timestamp {
        let mut least = self.now().0;
        fence(Ordering::SeqCst); // pairs with the fence in `raise`
        for floor in lock(&self.floors).iter() {
            least = least.min(floor.load(Ordering::Acquire)); // pairs with the Release in `lower`
        }
        Timestamp(least)
    }

    /// Returns a time that is at most every snapshot open now or later.
    pub(in crate::cc) fn oldest(&self) -> Timestamp {
        self.oldest_and_looks().0
    }

    /// Returns the same time, and the number of open transactions that had to be looked at.
    pub(in crate::cc) fn oldest_and_looks(&self) -> (Timestamp, usize) {
        let (mut least, mut looks) = (self.floor_now(), 0);
        self.each_open(|_, begin, _| {
            least = least.min(begin);
            looks += 1;
        });
        (least, looks)
    }

    /// Says which open transactions have a snapshot older than `at`.
    pub(in crate::cc) fn in_the_way(&self, at: Timestamp) -> InTheWay {
        let (here, mut found) = (thread_number(), InTheWay::Nothing);
        if self.floor_now() < at {
            found = InTheWay::Others;
        }
        self.each_open(|place, begin, _| {
            if begin < at && found != InTheWay::Own {
                let is_own = self.descriptor(place).thread.load(Ordering::Relaxed) == here; // as in `set_thread`
                found = if is_own { InTheWay::Own } else { InTheWay::Others };
            }
        });
        found
    }

    /// Collects the open snapshots in `out`, in no order and with repetitions, and those of transactions that keep
    /// keys in `keeping` as well. Returns `floor_now`, taken before.
    pub(in crate::cc) fn snapshots(
        &self,
        out: &mut Vec<Timestamp>,
        keeping: &mut Vec<Timestamp>,
    ) -> Timestamp {
        let floor = self.floor_now();
        out.clear();
        keeping.clear();
        self.each_open(|_, begin, keeps| {
            out.push(begin);
            if keeps {
                keeping.push(begin);
            }
        });
        floor
    }

    /// Looks at the taken places, by their marks. A place is marked before a transaction begins there, so a thread
    /// that has to see the begin sees the mark.
    fn each_open(&self, mut f: impl FnMut(u32, Timestamp, bool)) {
        let groups = self.chunk_count.load(Ordering::Acquire).div_ceil(GROUP);
        for (group, occupied) in self.occupied[..groups].iter().enumerate() {
            for chunk in bits(occupied.load(Ordering::Acquire)) {
                let first = ((group * GROUP + chunk) * CHUNK) as u32;
                let chunk = self.chunk(first);
                let keeping = chunk.keeping.load(Ordering::Relaxed); // a hint
                for at in bits(chunk.taken.load(Ordering::Acquire)) {
                    let begin = chunk.begins[at].load(Ordering::Acquire); // pairs with the Release in `open`
                    if begin != CLOSED {
                        f(first + at as u32, Timestamp(begin), keeping >> at & 1 == 1);
                    }
                }
            }
        }
    }
}

/// Returns the numbers of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (at < u64::BITS).then_some(at as usize)
    })
}

impl Drop for Registry {
    fn drop(&mut self) {
        for chunk in &self.chunks[..self.chunk_count.load(Ordering::Relaxed)] {
            // SAFETY: `grow` boxed the chunk, and it is dropped once.
            drop(unsafe { Box::from_raw(chunk.load(Ordering::Relaxed)) });
            self.memory.release(Kind::Transactions, size_of::<Chunk>() as u64);
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
        let r = registry();
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
        let (mut open, mut keeping) = (vec![], vec![]);
        r.snapshots(&mut open, &mut keeping);
        assert_eq!((&open[..], &keeping[..]), (&[first][..], &[][..]));
        r.set_keeping(a, true);
        r.snapshots(&mut open, &mut keeping);
        assert_eq!((&open[..], &keeping[..]), (&[first][..], &[first][..]));
        r.set_keeping(a, false);
        r.close(a);
        assert_eq!(r.oldest(), r.now());
        r.draw(b);
        assert!(r.oldest() < r.now());
        r.lower(&floor);
        assert_eq!(r.oldest(), r.now());
    }

    /// A tag tells its transaction's outcome, and not that of a later transaction at the same place.
    #[test]
    fn outcomes() {
        let r = registry();
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

    /// A holder is known to be open until it ends, whether it commits or aborts. It is not taken for the next
    /// transaction at its place.
    #[test]
    fn holders() {
        let r = registry();
        let place = r.join().expect("room");
        let [aborts, commits, next] = [1, 2, 3].map(|sequence| Tag::new(place, sequence));
        r.announce(place, aborts);
        let holder = r.holder(aborts).expect("open");
        assert!(r.is_open(holder) && !holder.is_ending);
        r.end(place);
        assert!(!r.is_open(holder) && r.holder(aborts).is_none());
        r.announce(place, commits);
        assert!(!r.is_open(holder));
        let holder = r.holder(commits).expect("open");
        let at = r.draw(place);
        assert!(r.is_open(holder) && r.holder(commits).is_some_and(|holder| holder.is_ending));
        r.settle(place, at);
        assert!(!r.is_open(holder));
        r.end(place);
        r.announce(place, next);
        assert!(!r.is_open(holder) && r.holder(next).is_some());
    }

    /// A resumed clock never gives a timestamp twice and never goes back.
    #[test]
    fn resumes() {
        let r = registry();
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
        let r = registry();
        let all: Vec<u32> = std::iter::from_fn(|| r.join().ok()).collect();
        assert_eq!((all.len(), r.join()), (TXNS_MAX, Err(NotBegun::TooMany)));
        assert!(all.iter().zip(0..).all(|(&place, i)| place == i), "the lowest first");
        for i in [9, 7, TXNS_MAX - 1, 8] {
            r.part(all[i]);
        }
        for i in [7, 8, 9, TXNS_MAX - 1] {
            assert_eq!(r.join(), Ok(all[i]));
        }
    }

    /// Places that are given back are no longer looked at, and the remaining ones are all found.
    #[test]
    fn looks_follow_open_transactions() {
        let r = registry();
        let all: Vec<u32> = std::iter::from_fn(|| r.join().ok()).collect();
        let kept = [1, CHUNK as u32, (TXNS_MAX - 1) as u32];
        for &place in all.iter().filter(|place| !kept.contains(place)) {
            r.part(place);
        }
        let is_marked = |place: u32| r.chunk(place).taken.load(Ordering::Relaxed) != 0;
        for chunk in 0..CHUNKS_MAX {
            let marked = r.occupied[chunk / GROUP].load(Ordering::Relaxed) >> (chunk % GROUP) & 1 == 1;
            let is_kept = kept.iter().any(|&place| place as usize / CHUNK == chunk);
            assert_eq!((marked, is_marked((chunk * CHUNK) as u32)), (is_kept, is_kept), "{chunk}");
        }
        let begins: Vec<Timestamp> = kept.iter().map(|&place| (r.draw(place), r.open(place)).1).collect();
        let mut found = vec![];
        r.snapshots(&mut found, &mut vec![]);
        assert_eq!(found, begins);
        assert_eq!(r.oldest(), begins[0]);
    }

    /// Places that would exceed the memory limit are refused. Places are charged as long as the registry lives.
    #[test]
    fn places_are_charged() {
        let memory = Memory::new(0);
        let r = Registry::new(&memory);
        let count = std::iter::from_fn(|| r.join().ok()).count();
        let bytes = memory.used_bytes(Kind::Transactions);
        assert_eq!(r.join(), Err(NotBegun::OutOfMemory));
        assert!(count > 0 && count < TXNS_MAX && bytes == (count / CHUNK * size_of::<Chunk>()) as u64);
        drop(r);
        assert_eq!(memory.total_used_bytes(), 0);
    }

    fn registry() -> Registry {
        Registry::new(&Memory::new(u64::MAX))
    }
}
