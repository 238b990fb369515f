//! Partitions, each of which one transaction has at a time, and the queue of the transactions that want it: first
//! come, first served.
//!
//! Invariants:
//! - `word` is the tag of the transaction that has the partition, or 0. Beside a tag, [`QUEUED`] says that the queue
//!   may not be empty.
//! - With `QUEUED`, `word` changes only under the lock of the queue. A transaction that joins the queue and sets the
//!   mark is therefore seen by the transaction that gives the partition back.
//! - A transaction is in one queue at most, and once. It is the queue of a partition with a higher number than all
//!   partitions that the transaction has, so no cycle of waits closes.

use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::Tag;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, Mutex, lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of bits in a word.
const PARTITIONS_MAX: u32 = u64::BITS;

const FREE: u64 = 0;
/// No tag has this bit.
const QUEUED: u64 = 1 << 62;
/// What a place in a queue takes. It is charged to the account while it is there.
const ENTRY_BYTES: u64 = 32;
/// The number of places that an empty queue keeps.
const PLACES_KEPT: usize = 64;

#[derive(Debug)]
struct Partition {
    word: AtomicU64,
    queue: Mutex<VecDeque<Tag>>,
}

/// All partitions of a database.
#[derive(Debug)]
pub(in crate::cc) struct Partitions {
    all: Box<[CachePadded<Partition>]>,
    memory: Arc<Memory>,
}

/// The result of asking for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Asked {
    /// The transaction has the partition.
    Got,
    /// The transaction is in the partition's queue.
    Queued,
    /// Another transaction has the partition.
    Taken,
}

impl Partitions {
    /// Makes `count` partitions, all free.
    pub(in crate::cc) fn new(count: u32, memory: Arc<Memory>) -> Partitions {
        assert!((1..=PARTITIONS_MAX).contains(&count) && count.is_power_of_two());
        let free = || Partition { word: AtomicU64::new(FREE), queue: Mutex::default() };
        Partitions { all: (0..count).map(|_| CachePadded::new(free())).collect(), memory }
    }

    /// Returns a word with one bit set for each partition.
    #[inline(always)]
    pub(in crate::cc) fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.all.len() as u32)
    }

    /// Takes a partition for the transaction of `tag` if it is free.
    #[inline(always)]
    pub(in crate::cc) fn take(&self, at: u32, tag: Tag) -> Asked {
        let word = &self.all[at as usize].word;
        // Acquire: pairs with the Release in `give_back`.
        match word.compare_exchange(FREE, tag.word(), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Asked::Got,
            Err(_) => Asked::Taken,
        }
    }

    /// Takes a partition for the transaction of `tag`, or joins its queue.
    #[inline(always)]
    pub(in crate::cc) fn ask(&self, at: u32, tag: Tag) -> Result<Asked, OutOfMemory> {
        match self.take(at, tag) {
            Asked::Got => Ok(Asked::Got),
            _ => self.join(at, tag),
        }
    }

    #[cold]
    #[inline(never)]
    fn join(&self, at: u32, tag: Tag) -> Result<Asked, OutOfMemory> {
        self.memory.charge(Kind::Other, ENTRY_BYTES)?;
        let Partition { word, queue } = &*self.all[at as usize];
        let mut queue = lock(queue);
        loop {
            let now = word.load(Ordering::Relaxed);
            let next = if now == FREE { tag.word() } else { now | QUEUED };
            // Acquire: as in `take`.
            if word.compare_exchange(now, next, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue; // given back, or taken, just now
            }
            if now == FREE {
                drop(queue);
                self.memory.release(Kind::Other, ENTRY_BYTES);
                return Ok(Asked::Got);
            }
            debug_assert!(!queue.contains(&tag), "in a queue once");
            queue.push_back(tag);
            return Ok(Asked::Queued);
        }
    }

    /// Returns the transaction that has the partition.
    #[inline(always)]
    pub(in crate::cc) fn owner(&self, at: u32) -> Option<Tag> {
        // Acquire: pairs with the Release in `hand_over`.
        owner_of(self.all[at as usize].word.load(Ordering::Acquire))
    }

    /// Returns the transaction that has the partition, after the caller has marked it as awaited. That transaction
    /// has not given the partition back yet, and sees the mark when it does.
    #[cold]
    pub(in crate::cc) fn owner_for_waiter(&self, at: u32) -> Option<Tag> {
        // AcqRel: of this operation and the change in `give_back`, the later acquires what precedes the earlier.
        owner_of(self.all[at as usize].word.fetch_or(0, Ordering::AcqRel))
    }

    /// Gives a partition back.
    #[inline(always)]
    pub(in crate::cc) fn give_back(&self, at: u32, tag: Tag) {
        let word = &self.all[at as usize].word;
        // AcqRel: pairs with the Acquire in `take`; see also `owner_for_waiter`.
        if word.compare_exchange(tag.word(), FREE, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            self.hand_over(at, tag);
        }
    }

    /// Gives the partition to the next transaction of the queue.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, at: u32, tag: Tag) {
        let Partition { word, queue } = &*self.all[at as usize];
        let mut queue = lock(queue);
        debug_assert_eq!(word.load(Ordering::Relaxed), tag.word() | QUEUED, "it is this transaction's");
        let next = queue.pop_front();
        let others = if queue.is_empty() { 0 } else { QUEUED };
        // AcqRel: pairs with the Acquire in `owner`; see also `owner_for_waiter`.
        word.swap(next.map_or(FREE, |next| next.word() | others), Ordering::AcqRel);
        if queue.is_empty() && queue.capacity() > PLACES_KEPT {
            *queue = VecDeque::new();
        }
        drop(queue);
        if next.is_some() {
            self.memory.release(Kind::Other, ENTRY_BYTES);
        }
    }

    /// Leaves the queue. Returns true if the transaction had got the partition by then. It keeps it.
    #[cold]
    pub(in crate::cc) fn leave(&self, at: u32, tag: Tag) -> bool {
        let Partition { word, queue } = &*self.all[at as usize];
        let mut queue = lock(queue);
        if owner_of(word.load(Ordering::Acquire)) == Some(tag) {
            return true;
        }
        let place = queue.iter().position(|&other| other == tag).expect("it is in the queue");
        queue.remove(place);
        drop(queue);
        self.memory.release(Kind::Other, ENTRY_BYTES);
        false
    }
}

#[inline(always)]
fn owner_of(word: u64) -> Option<Tag> {
    (word != FREE).then(|| Tag::from_word(word & !QUEUED))
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Proves that a partition goes through its queue in order. It skips transactions that have left the queue, and
    /// the queue is charged.
    #[test]
    fn first_come_first_served() {
        let memory = Memory::new(1 << 20);
        let partitions = Partitions::new(4, memory.clone());
        let [a, b, c, d] = [1, 2, 3, 4].map(|place| Tag::new(place, 7));
        assert_eq!(partitions.ask(3, a), Ok(Asked::Got));
        for tag in [b, c, d] {
            assert_eq!(partitions.ask(3, tag), Ok(Asked::Queued));
        }
        assert_eq!(memory.used_bytes(Kind::Other), 3 * ENTRY_BYTES);
        assert!(!partitions.leave(3, c));
        partitions.give_back(3, a);
        assert_eq!(partitions.owner(3), Some(b));
        partitions.give_back(3, b);
        assert!(partitions.leave(3, d), "it has it");
        assert_eq!(memory.used_bytes(Kind::Other), 0);
        partitions.give_back(3, d);
        assert_eq!((partitions.owner(3), partitions.ask(3, a)), (None, Ok(Asked::Got)));
        assert_eq!(partitions.ask(3, b), Ok(Asked::Queued));
        assert!(!partitions.leave(3, b));
        partitions.give_back(3, a); // the mark has outlived the queue
        assert_eq!(partitions.owner(3), None);
        assert_eq!((partitions.mask(), partitions.ask(2, b)), (0b1111, Ok(Asked::Got)));
    }

    /// Proves that a wait does not begin if the account has no room for it.
    #[test]
    fn accounts() {
        let partitions = Partitions::new(1, Memory::new(ENTRY_BYTES));
        let [a, b, c] = [1, 2, 3].map(|place| Tag::new(place, 7));
        assert_eq!(partitions.ask(0, a), Ok(Asked::Got));
        assert_eq!(partitions.ask(0, b), Ok(Asked::Queued));
        assert_eq!(partitions.ask(0, c), Err(OutOfMemory));
        partitions.give_back(0, a);
        assert_eq!(partitions.ask(0, c), Ok(Asked::Queued));
    }
}
