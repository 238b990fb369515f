//! Decides which futures with hints may be open together.
//!
//! Invariants:
//! - The key sets of the futures that are let in are disjoint.
//! - Of two futures that overlap, the one offered first is let in first.
//! - At most `longs_max` long futures are in.
//! - The obstacles of a waiting future are those of its keys that a future that is in has, or that an earlier waiting
//!   future wants. Futures without obstacles are `free`: the next call of `next` lets in a short one, and a long one
//!   when there is a place.
//! - If none is in, the first waiting future can be let in. Therefore none waits forever.

use crate::exec::order::hint::{BITS, Hint};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a waiting future, to forget it. A lesser number has come earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Lets in a future that overlaps with no future that is in or came earlier. Each call takes time proportional to the
/// number of keys times the logarithm of how many futures wait.
pub(crate) struct ConflictQueue<T> {
    keys: Box<[Key; BITS]>,
    waiting: BTreeMap<Ticket, Waiting<T>>,
    free: BTreeSet<Ticket>,
    free_longs: BTreeSet<Ticket>,
    longs: usize,
    longs_max: usize,
    number_next: Ticket,
}

/// One bit of the key sets.
#[derive(Default)]
struct Key {
    /// A future that is in has the key.
    is_taken: bool,
    /// The waiting futures that want the key.
    waiting: BTreeSet<Ticket>,
}

struct Waiting<T> {
    hint: Hint,
    one: T,
    obstacles: usize,
}

impl<T> ConflictQueue<T> {
    pub(crate) fn new() -> ConflictQueue<T> {
        ConflictQueue {
            keys: Box::new(std::array::from_fn(|_| Key::default())),
            waiting: BTreeMap::new(),
            free: BTreeSet::new(),
            free_longs: BTreeSet::new(),
            longs: 0,
            longs_max: 1,
            number_next: Ticket(0),
        }
    }

    /// Sets how many long futures may be in at once: a quarter of `places`.
    pub(crate) fn set_places(&mut self, places: usize) {
        self.longs_max = (places / 4).max(1);
    }

    /// Returns how many futures wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn has_place(&self) -> bool {
        self.longs < self.longs_max
    }

    /// Lets a future in and returns it, or makes it wait.
    pub(crate) fn offer(&mut self, hint: Hint, one: T) -> Result<T, Ticket> {
        let is_obstacle = |key: &Key| key.is_taken || !key.waiting.is_empty();
        let obstacles = hint.bits().filter(|bit| is_obstacle(&self.keys[*bit])).count();
        if obstacles == 0 && (!hint.is_long() || self.has_place()) {
            self.enter(hint);
            return Ok(one);
        }
        let number = self.number_next;
        self.number_next.0 += 1;
        hint.bits().for_each(|bit| {
            self.keys[bit].waiting.insert(number);
        });
        self.waiting.insert(number, Waiting { hint, one, obstacles });
        if obstacles == 0 {
            self.free_longs.insert(number);
        }
        Err(number)
    }

    /// Lets in the first waiting future that may go.
    pub(crate) fn next(&mut self) -> Option<(Hint, T)> {
        let long = self.free_longs.first().filter(|_| self.has_place());
        let number = *self.free.first().into_iter().chain(long).min()?;
        let (hint, one) = self.remove(number)?;
        self.enter(hint);
        Some((hint, one))
    }

    /// Notes that a future that was let in has ended.
    pub(crate) fn leave(&mut self, hint: Hint) {
        for bit in hint.bits() {
            let key = &mut self.keys[bit];
            debug_assert!(key.is_taken, "it was in");
            key.is_taken = false;
            let first = key.waiting.first().copied();
            self.lose_obstacle(first);
        }
        self.longs -= usize::from(hint.is_long());
    }

    /// Forgets a waiting future.
    pub(crate) fn forget(&mut self, number: Ticket) {
        let Some((hint, _)) = self.remove(number) else { return };
        for bit in hint.bits() {
            let key = &self.keys[bit];
            let first = key.waiting.first().copied().filter(|first| *first > number && !key.is_taken);
            self.lose_obstacle(first);
        }
    }

    /// Takes out a waiting future. The futures behind it have not learned of this yet.
    fn remove(&mut self, number: Ticket) -> Option<(Hint, T)> {
        let Waiting { hint, one, .. } = self.waiting.remove(&number)?;
        self.free.remove(&number);
        self.free_longs.remove(&number);
        hint.bits().for_each(|bit| {
            self.keys[bit].waiting.remove(&number);
        });
        Some((hint, one))
    }

    fn lose_obstacle(&mut self, number: Option<Ticket>) {
        let Some((number, waiting)) =
            number.and_then(|number| Some((number, self.waiting.get_mut(&number)?)))
        else {
            return;
        };
        waiting.obstacles -= 1;
        if waiting.obstacles == 0 {
            let free = if waiting.hint.is_long() { &mut self.free_longs } else { &mut self.free };
            free.insert(number);
        }
    }

    fn enter(&mut self, hint: Hint) {
        for bit in hint.bits() {
            debug_assert!(!self.keys[bit].is_taken, "those that are in are disjoint");
            self.keys[bit].is_taken = true;
        }
        self.longs += usize::from(hint.is_long());
        debug_assert!(self.longs <= self.longs_max || !hint.is_long());
    }
}
