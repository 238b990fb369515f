//! Which futures with hints may be open beside each other.
//!
//! Invariants:
//! - The sets of those that are let in are disjoint.
//! - Of two that overlap, the one offered first is let in first.
//! - At most `longs_max` long ones are in.
//! - A waiting one's obstacles are those of its keys that one that is in has, or one that came before. Those without obstacles
//!   are `free`: short ones are let in by the next call of `next`, long ones when they have a place.
//! - With none in, the first of those that wait can be let in: so none waits for ever.

use crate::exec::order::hint::{BITS, Hint};
use std::collections::{BTreeMap, BTreeSet};

/// What one that waits is forgotten by. A lesser number has come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Lets in a future that overlaps with none that is in, or that has come before. Each call takes time for each key, and the logarithm of
/// how many wait.
pub(crate) struct ConflictQueue<T> {
    keys: Box<[Key; BITS]>,
    waiting: BTreeMap<Ticket, Waiting<T>>,
    free: BTreeSet<Ticket>,
    free_longs: BTreeSet<Ticket>,
    longs: usize,
    longs_max: usize,
    number_next: Ticket,
}

/// A bit of the sets.
#[derive(Default)]
struct Key {
    /// One that is in has it.
    is_taken: bool,
    /// Those that wait and want it.
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

    /// Long ones that may be in at once: a quarter of so many places.
    pub(crate) fn set_places(&mut self, places: usize) {
        self.longs_max = (places / 4).max(1);
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn has_place(&self) -> bool {
        self.longs < self.longs_max
    }

    /// Lets one in, which is given back, or has it wait.
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

    /// Lets in the first of those that wait and may go.
    pub(crate) fn next(&mut self) -> Option<(Hint, T)> {
        let long = self.free_longs.first().filter(|_| self.has_place());
        let number = *self.free.first().into_iter().chain(long).min()?;
        let (hint, one) = self.remove(number)?;
        self.enter(hint);
        Some((hint, one))
    }

    /// One that was let in has gone.
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

    /// Forgets one that waits.
    pub(crate) fn forget(&mut self, number: Ticket) {
        let Some((hint, _)) = self.remove(number) else { return };
        for bit in hint.bits() {
            let key = &self.keys[bit];
            let first = key.waiting.first().copied().filter(|first| *first > number && !key.is_taken);
            self.lose_obstacle(first);
        }
    }

    /// Takes out one that waits, before those behind it have learnt of that.
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
