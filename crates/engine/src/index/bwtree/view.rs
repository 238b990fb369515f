//! A node as of one moment: its block, and the chain of records from one record on. A view never changes, so data read
//! from it needs no second look.

use super::node::{Entry, Node, SLOTS_MAX, TARGETS_MAX};
use super::text::{Probe, Sought};
use super::word::Word;
use std::cmp::Ordering as Order;
use std::ops::Range;

/// A node as of one moment.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) node: Node<'a>,
    newest: u8,
}

/// The sum of the records of a chain.
pub(super) struct Chain {
    /// The targets that were removed, one bit each.
    pub(super) dead: u128,
    /// The slots of live added entries, the newest first, or sorted by [`View::sorted`].
    slots: [u8; SLOTS_MAX],
    slots_len: usize,
    /// The number of records.
    pub(super) len: usize,
}

impl Chain {
    pub(super) fn slots(&self) -> &[u8] {
        &self.slots[..self.slots_len]
    }

    fn is_dead(&self, target: usize) -> bool {
        self.dead >> target & 1 != 0
    }
}

/// A child of an interior.
#[derive(Clone, Copy)]
pub(super) enum Which<'k> {
    /// The last child that begins at or before this key.
    UpTo(Sought<'k>),
    /// The last child that begins before this key.
    Below(Sought<'k>),
    Last,
}

impl<'a> View<'a> {
    /// # Safety
    /// The word was found in this epoch, or its block is not published yet.
    #[inline(always)]
    pub(super) unsafe fn of(word: Word) -> View<'a> {
        // SAFETY: the caller has promised that the word was found in this epoch, which keeps the block, or that the
        // block is not published, so that its maker keeps it.
        View { node: unsafe { Node::at(word.block()) }, newest: word.newest() }
    }

    /// Returns the part of a mark that tells this state of the node.
    pub(super) fn mark(&self) -> u64 {
        self.node.header().number << 8 | u64::from(self.newest)
    }

    pub(super) fn level(&self) -> u8 {
        self.node.header().level
    }

    /// Returns the right neighbor, if the key is there or further on.
    #[inline(always)]
    pub(super) fn beyond(&self, sought: &Sought<'_>) -> Option<u32> {
        let header = self.node.header();
        if header.next == 0 {
            return None;
        }
        // SAFETY: the object is the neighbor's, and is there as long as this block is.
        let order = unsafe { header.high.order(header.is_fixed8, sought) };
        (order != Order::Greater).then_some(header.next)
    }

    /// Returns the right neighbor like `beyond`, for the keys below this one.
    pub(super) fn beyond_below(&self, sought: &Sought<'_>) -> Option<u32> {
        let header = self.node.header();
        if header.next == 0 {
            return None;
        }
        // SAFETY: the object is the neighbor's, and is there as long as this block is.
        let order = unsafe { header.high.order(header.is_fixed8, sought) };
        (order == Order::Less).then_some(header.next)
    }

    /// Walks the chain, the newest record first. `added` sees each live added entry until it returns false. Returns the
    /// dead targets, and the number of records seen.
    #[inline(always)]
    fn walk(&self, mut added: impl FnMut(u8, &Entry) -> bool) -> (u128, usize) {
        let (node, count, slots) = (self.node, self.node.count(), self.node.slots());
        let (mut dead, mut len, mut at) = (0u128, 0, self.newest);
        while at != 0 {
            debug_assert!(len < TARGETS_MAX + SLOTS_MAX, "a chain has an end");
            len += 1;
            let number = usize::from(at);
            if number > slots {
                let target = number - slots - 1;
                dead |= 1 << target;
                at = node.before_removal(target);
                continue;
            }
            let (entry, before) = node.added(at);
            if dead >> (count + number - 1) & 1 == 0 && !added(at, &entry) {
                break;
            }
            at = before;
        }
        (dead, len)
    }

    pub(super) fn chain(&self) -> Chain {
        let (mut slots, mut slots_len) = ([0; SLOTS_MAX], 0);
        let (dead, len) = self.walk(|slot, _| {
            slots[slots_len] = slot;
            slots_len += 1;
            true
        });
        Chain { dead, slots, slots_len, len }
    }

    /// Returns the number of live entries.
    pub(super) fn live(&self, chain: &Chain) -> usize {
        let dead = chain.dead & ((1 << self.node.count()) - 1);
        self.node.count() - dead.count_ones() as usize + chain.slots_len
    }

    /// Returns the target that has a key, and its value.
    #[inline(always)]
    pub(super) fn find(&self, probe: &Probe<'_>) -> Option<(usize, u32)> {
        let (node, mut found) = (self.node, None);
        let (dead, _) = self.walk(|slot, entry| {
            if node.order(entry, probe) == Order::Equal {
                found = Some((node.count() + usize::from(slot) - 1, entry.value));
            }
            found.is_none()
        });
        if found.is_some() {
            return found;
        }
        let place = node.locate(probe).ok()?;
        (dead >> place & 1 == 0).then(|| (place, node.value(place)))
    }

    /// Returns a child of an interior.
    #[inline(always)]
    pub(super) fn child(&self, which: Which<'_>) -> u32 {
        match which {
            Which::UpTo(sought) => {
                let probe = self.node.probe(&sought);
                let end = self.node.locate(&probe).map_or_else(|place| place, |place| place + 1);
                self.last_child(end, |entry| self.node.order(entry, &probe) != Order::Greater)
            }
            Which::Below(sought) => {
                let probe = self.node.probe(&sought);
                let (Ok(end) | Err(end)) = self.node.locate(&probe);
                self.last_child(end, |entry| self.node.order(entry, &probe) == Order::Less)
            }
            Which::Last => self.last_child(self.node.count(), |_| true),
        }
    }

    /// Returns the first child, whose entry has the node's least key.
    pub(super) fn first_child(&self) -> u32 {
        self.node.value(0)
    }

    /// Returns the last child among those of the base up to `end` and the added ones that are `within`.
    #[inline(always)]
    fn last_child(&self, end: usize, within: impl Fn(&Entry) -> bool) -> u32 {
        let (node, mut last) = (self.node, None::<Entry>);
        let (dead, _) = self.walk(|_, entry| {
            let is_later = || last.is_none_or(|last| node.order_of(entry, &last) == Order::Greater);
            if within(entry) && is_later() {
                last = Some(*entry);
            }
            true
        });
        debug_assert!(end > 0 && dead & 1 == 0, "the first child of an interior has its least key");
        let place = (0..end).rev().find(|place| dead >> place & 1 == 0).unwrap_or(0);
        match last {
            Some(last) if node.order_of(&last, &node.base(place)) == Order::Greater => last.value,
            _ => node.value(place),
        }
    }

    /// Returns the chain, with its added entries in the order of keys.
    pub(super) fn sorted(&self) -> Chain {
        let mut chain = self.chain();
        let slots = &mut chain.slots[..chain.slots_len];
        slots.sort_unstable_by(|&a, &b| self.node.order_of(&self.node.added(a).0, &self.node.added(b).0));
        chain
    }

    /// Returns the live entries, in order.
    pub(super) fn entries<'c>(&self, chain: &'c Chain) -> Merged<'a, 'c> {
        Merged { node: self.node, chain, base: 0..self.node.count(), slots: chain.slots() }
    }

    /// Returns the live entries from a place on, or up to it. `is_left` says whether an entry is to the left of the
    /// place.
    pub(super) fn entries_from<'c>(
        &self,
        chain: &'c Chain,
        place: usize,
        reverse: bool,
        is_left: impl Fn(&Entry) -> bool,
    ) -> Merged<'a, 'c> {
        let cut = chain.slots().iter().take_while(|&&slot| is_left(&self.node.added(slot).0)).count();
        let (left, right) = chain.slots().split_at(cut);
        let (base, slots) = if reverse { (0..place, left) } else { (place..self.node.count(), right) };
        Merged { node: self.node, chain, base, slots }
    }

    /// Returns the entries that no longer live.
    pub(super) fn dead_entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let (node, dead) = (self.node, self.chain().dead);
        (0..TARGETS_MAX).filter(move |target| dead >> target & 1 != 0).map(move |target| node.target(target))
    }
}

/// The entries of a base and added entries, in order from either end, with the slots of added entries.
pub(super) struct Merged<'a, 'c> {
    node: Node<'a>,
    chain: &'c Chain,
    base: Range<usize>,
    slots: &'c [u8],
}

impl Merged<'_, '_> {
    fn added(&self, slot: u8) -> (Entry, u8) {
        (self.node.added(slot).0, slot)
    }
}

impl Iterator for Merged<'_, '_> {
    type Item = (Entry, u8);

    fn next(&mut self) -> Option<(Entry, u8)> {
        while !self.base.is_empty() && self.chain.is_dead(self.base.start) {
            self.base.start += 1;
        }
        let base = (!self.base.is_empty()).then(|| self.node.base(self.base.start));
        let added = self.slots.first().map(|&slot| self.added(slot));
        let is_base = match (&base, &added) {
            (Some(base), Some(added)) => self.node.order_of(base, &added.0) == Order::Less,
            (base, _) => base.is_some(),
        };
        if is_base {
            self.base.start += 1;
            return base.map(|entry| (entry, 0));
        }
        self.slots = self.slots.get(1..).unwrap_or(&[]);
        added
    }
}

impl DoubleEndedIterator for Merged<'_, '_> {
    fn next_back(&mut self) -> Option<(Entry, u8)> {
        while !self.base.is_empty() && self.chain.is_dead(self.base.end - 1) {
            self.base.end -= 1;
        }
        let base = (!self.base.is_empty()).then(|| self.node.base(self.base.end - 1));
        let added = self.slots.last().map(|&slot| self.added(slot));
        let is_base = match (&base, &added) {
            (Some(base), Some(added)) => self.node.order_of(base, &added.0) == Order::Greater,
            (base, _) => base.is_some(),
        };
        if is_base {
            self.base.end -= 1;
            return base.map(|entry| (entry, 0));
        }
        self.slots = self.slots.split_last().map_or(&[], |(_, rest)| rest);
        added
    }
}
