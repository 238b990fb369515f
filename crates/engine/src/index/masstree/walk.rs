//! Range walks in both directions. A walk hands out a page for each border, copied optimistically and validated by the
//! border's version, and descends into layers where it meets them. The walk's place is a key position, not a node. The
//! node that it holds is a guess, checked by the node's fences. Splits and removals in between therefore cost a step to
//! the right or a new descent, and never an entry.

use super::border::{Entry, Find};
use super::descend::Settled;
use super::node::{Head, KEYS, Node, code};
use super::search::Simd;
use super::{Masstree, suffix};
use crate::index::{Key, Page, Paged, RecordId, slice_of};
use crate::suspend::Suspend;
use crate::sync::Backoff;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::ops::Bound;

/// A suspended range walk. Its bytes beyond the present slice are in its page.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The position in the present layer is `(slice, turn)`. Going up, the entries with (slice, 2 * rank) of at least
    /// this are still to come. Going down, those with (slice, 2 * rank + 1) of at most this are.
    slice: u64,
    /// The node to read next. 0 means to descend from the root.
    node: u32,
    /// The border in the layer above that led here. 0 means that it is unknown.
    upper: u32,
    /// The number of layers above the position.
    depth: u16,
    /// The number of layers above `node`, which is less than `depth` during a descent.
    at: u16,
    level: u8,
    turn: u8,
    reverse: bool,
    /// Whether the bound goes on beyond `slice`. The whole bound is in the page.
    partial: bool,
    /// Whether the bound itself belongs to the range.
    inclusive: bool,
    done: bool,
}

/// The turns below and above all ranks, and the turn of a slice's long key.
const TURN_MIN: u8 = 0;
const TURN_MAX: u8 = 2 * code::SUFFIX + 1;
const TURN_LONG: u8 = 2 * code::SUFFIX;

/// What a border says of itself and its neighbors.
struct Around {
    head: Head,
    low: u64,
    high: u64,
    prev: u32,
    next: u32,
}

/// The outcome of reading a border.
enum Gathered {
    /// The border could not be read.
    Unstable,
    /// There is nothing to show; the walk has moved on.
    Moved,
    Page,
}

impl Walk {
    pub(super) fn new(from: Bound<&Key>, reverse: bool, fixed8: bool, page: &mut Page) -> Walk {
        page.clear();
        page.is_fixed8 = fixed8;
        page.position.clear();
        let mut walk = Walk {
            slice: if reverse { u64::MAX } else { 0 },
            node: 0,
            upper: 0,
            depth: 0,
            at: 0,
            level: 0,
            turn: if reverse { TURN_MAX } else { TURN_MIN },
            reverse,
            partial: false,
            inclusive: matches!(from, Bound::Included(_)),
            done: false,
        };
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            page.position.extend_from_slice(suffix::bytes_of(key));
            walk.set_bound(key.slice, key.len as usize);
        }
        walk
    }

    /// Places the walk at a bound that has this slice and `remaining` bytes from this layer on.
    fn set_bound(&mut self, slice: u64, remaining: usize) {
        self.slice = slice;
        self.partial = remaining > 8;
        self.turn = match remaining {
            9.. => TURN_LONG + u8::from(self.reverse),
            // Going up, the turn means "at least" the bound's own turn or the next; going down, it means "at most".
            len => 2 * len as u8 + u8::from(self.inclusive == self.reverse),
        };
    }

    /// Returns whether an entry is still to come.
    #[inline]
    fn admits(&self, slice: u64, code: u8) -> bool {
        let turn = 2 * code::rank(code);
        let in_turn = if self.reverse { turn < self.turn } else { turn >= self.turn };
        let is_beyond = if self.reverse { slice < self.slice } else { slice > self.slice };
        is_beyond | ((slice == self.slice) & in_turn)
    }

    /// Returns the slice by which to descend.
    fn target(&self, page: &Page) -> u64 {
        if self.at < self.depth { slice_of(&page.position[8 * self.at as usize..]) } else { self.slice }
    }

    /// Makes the walk descend anew.
    fn restart(&mut self) {
        (self.node, self.upper, self.at) = (0, 0, 0);
    }

    /// Forgets the bound's further bytes, on which the position no longer depends.
    fn forget_bound(&mut self, page: &mut Page) {
        self.partial = false;
        page.position.truncate(8 * self.depth as usize);
    }

    /// Goes down into the layer of `link`.
    fn enter_layer(&mut self, link: &Entry, page: &mut Page) {
        let bounded = self.partial && link.slice == self.slice;
        self.upper = self.node;
        self.depth += 1;
        self.at = self.depth;
        (self.node, self.level) = (link.rid, link.code - code::LAYER);
        let prefix = 8 * self.depth as usize;
        if bounded {
            self.set_bound(slice_of(&page.position[prefix..]), page.position.len() - prefix);
            page.position.truncate(if self.partial { usize::MAX } else { prefix });
        } else {
            page.position.truncate(prefix - 8);
            page.position.extend_from_slice(&link.slice.to_be_bytes());
            self.partial = false;
            self.slice = if self.reverse { u64::MAX } else { 0 };
            self.turn = if self.reverse { TURN_MAX } else { TURN_MIN };
        }
    }

    /// Returns the outcome if what has been read of a border must not be used.
    #[inline(always)]
    fn misread(&mut self, node: &Node, around: &Around) -> Option<Gathered> {
        if !node.is_still(around.head) {
            return Some(Gathered::Unstable);
        }
        if self.slice < around.low && !around.head.has(Head::LEFTMOST) {
            self.restart(); // not a left neighbor any more
            return Some(Gathered::Moved);
        }
        None
    }

    /// Moves on behind what the page shows: behind `link`, or behind the whole border.
    #[inline(always)]
    fn pass(&mut self, around: &Around, link: Option<Entry>, page: &mut Page) -> Gathered {
        let is_end = around.head.has(if self.reverse { Head::LEFTMOST } else { Head::INFINITE });
        match link {
            Some(link) => (self.slice, self.turn) = (link.slice, TURN_LONG + u8::from(self.reverse)),
            None if is_end => self.leave_layer(page),
            None if self.reverse => {
                (self.node, self.slice, self.turn) = (around.prev, around.low - 1, TURN_MAX);
            }
            None => (self.node, self.slice, self.turn) = (around.next, around.high, TURN_MIN),
        }
        if page.len > 0 { Gathered::Page } else { Gathered::Moved }
    }

    /// Leaves the layer at `depth`, which is read or gone, for the place behind its link in the layer above.
    fn leave_layer(&mut self, page: &mut Page) {
        if self.depth == 0 {
            self.done = true;
            return;
        }
        self.depth -= 1;
        self.slice = slice_of(&page.position[8 * self.depth as usize..]);
        self.turn = if self.reverse { TURN_LONG } else { TURN_MAX };
        self.forget_bound(page);
        (self.node, self.upper, self.level) = (self.upper, 0, 0);
        self.at = if self.node == 0 { 0 } else { self.depth };
    }
}

impl Page {
    fn push(&mut self, entry: &Entry, suffix: &[u8]) {
        self.ids[self.len] = RecordId(entry.rid);
        self.slices[self.len] = entry.slice;
        if !self.is_fixed8 {
            self.bytes.extend_from_slice(&self.position);
            self.bytes.extend_from_slice(&entry.slice.to_be_bytes()[..usize::from(entry.code).min(8)]);
            self.bytes.extend_from_slice(suffix);
            self.ends[self.len] = self.bytes.len() as u32;
        }
        self.len += 1;
    }
}

impl Masstree {
    /// Goes on to the next probable miss or the next page.
    #[inline]
    pub(super) fn walk_on<S: Suspend>(&self, w: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        while !w.done {
            if w.node == 0 {
                (w.node, w.level) = self.root();
                if self.walk_miss(w, s) {
                    return Paged::Suspended;
                }
            }
            let mut read = true;
            while w.level > 0 && read {
                match self.node(w.node).child(self.simd, w.target(page)) {
                    Some(child) => {
                        (w.node, w.level) = (child, w.level - 1);
                        if self.walk_miss(w, s) {
                            return Paged::Suspended;
                        }
                    }
                    None => read = false,
                }
            }
            let gathered = match read {
                false => Gathered::Unstable,
                true if w.at < w.depth => self.pass_layer(w, page),
                true => self.gather(w, page),
            };
            match gathered {
                Gathered::Page => return Paged::Page,
                Gathered::Moved if w.node != 0 && !w.done => {
                    if self.walk_miss(w, s) {
                        return Paged::Suspended;
                    }
                }
                Gathered::Moved => {}
                Gathered::Unstable => {
                    if self.settle_walk(w, page) && S::SUSPENDS {
                        return Paged::Suspended;
                    }
                }
            }
        }
        Paged::End
    }

    /// Requests the node that the walk reads next, if it is known.
    #[inline(always)]
    pub(super) fn prepare_walk<S: Suspend>(&self, w: &Walk, s: &mut S) {
        if w.node != 0 && !w.done {
            let _ = self.walk_miss(w, s);
        }
    }

    #[inline(always)]
    fn walk_miss<S: Suspend>(&self, w: &Walk, s: &mut S) -> bool {
        if w.level > 0 { s.miss::<3>(self.at(w.node)) } else { s.miss::<4>(self.at(w.node)) }
    }

    /// Moves the walk on from a node that could not be read. Returns true if another thread holds the node for long.
    #[cold]
    fn settle_walk(&self, w: &mut Walk, page: &Page) -> bool {
        let mut backoff = Backoff::new();
        match self.settle(self.node(w.node), w.target(page), &mut backoff) {
            Settled::Right(next) => w.node = next,
            Settled::Gone => w.restart(),
            Settled::Stay => {}
        }
        backoff.is_long()
    }

    /// Moves on from a border on the way down to the position's layer.
    fn pass_layer(&self, w: &mut Walk, page: &mut Page) -> Gathered {
        let (node, slice) = (self.node(w.node), w.target(page));
        let head = node.head();
        if head.is_unstable() || node.is_beyond(head, slice) {
            return Gathered::Unstable;
        }
        let found = match node.find(self.simd, head, slice, usize::MAX) {
            Find::Layer(slot, level) => Some((node.rid(slot), level)),
            _ => None,
        };
        if !node.is_still(head) {
            return Gathered::Unstable;
        }
        if found.is_none() {
            page.leave_mark(w.node, head.mark());
        }
        match found {
            Some((root, level)) => {
                w.upper = if w.at + 1 == w.depth { w.node } else { 0 };
                (w.node, w.level, w.at) = (root, level, w.at + 1);
            }
            None => {
                // The layer has become empty, and the walk is past its link. A key that has come since was not there
                // all the time.
                (w.depth, w.upper) = (w.at + 1, w.node);
                w.leave_layer(page);
            }
        }
        Gathered::Moved
    }

    /// Copies the entries that are still to come from a border of the position's layer, up to a link to a layer.
    #[inline]
    fn gather(&self, w: &mut Walk, page: &mut Page) -> Gathered {
        let node = self.node(w.node);
        let head = node.head();
        if head.is_unstable() || node.is_beyond(head, w.slice) {
            return Gathered::Unstable;
        }
        let around =
            Around { head, low: node.low(), high: node.high(), prev: node.prev(), next: node.next() };
        page.clear();
        if !self.fixed8 {
            return self.gather_mixed(w, page, node, &around);
        }
        let len = copy_eight(self.simd, w, node, head, page);
        if let Some(misread) = w.misread(node, &around) {
            return misread;
        }
        page.leave_mark(w.node, head.mark());
        page.len = len;
        w.pass(&around, None, page)
    }

    /// Does the rest of `gather` if keys vary in length.
    fn gather_mixed(&self, w: &mut Walk, page: &mut Page, node: &Node, around: &Around) -> Gathered {
        let mut entries = [Entry::NONE; KEYS];
        let (len, link) = self.copy_entries(w, node, around.head, &mut entries);
        if let Some(misread) = w.misread(node, around) {
            return misread;
        }
        page.leave_mark(w.node, around.head.mark());
        match link {
            Some(link) if len == 0 => {
                w.enter_layer(&link, page);
                return Gathered::Moved;
            }
            _ => show(w, page, &entries[..len]),
        }
        w.pass(around, link, page)
    }

    /// Copies the entries before the first link to a layer. Returns their number and the link. The caller validates.
    fn copy_entries(
        &self,
        w: &Walk,
        node: &Node,
        head: Head,
        entries: &mut [Entry; KEYS],
    ) -> (usize, Option<Entry>) {
        let order = node.permutation();
        let mut len = 0;
        for i in 0..order.len() {
            let slot = order.slot(if w.reverse { order.len() - 1 - i } else { i });
            if !head.is_live(slot) {
                continue; // being inserted
            }
            let entry = node.entry(self.shape(), slot);
            if !w.admits(entry.slice, entry.code) {
                continue;
            }
            if entry.code >= code::LAYER {
                return (len, Some(entry));
            }
            entries[len] = entry;
            len += 1;
        }
        (len, None)
    }
}

/// Copies the entries of a border of eight-byte keys to the page. The caller validates.
#[inline]
fn copy_eight(simd: Simd, w: &Walk, node: &Node, head: Head, page: &mut Page) -> usize {
    let permutation = node.permutation();
    let (count, order) = (permutation.len(), permutation.sequence(w.reverse));
    node.gather(simd, order, count, &mut page.slices, &mut page.ids);
    let mut len = count;
    if head.live().count_ones() as usize != count {
        len = 0;
        for (i, slot) in order.take(count).enumerate() {
            (page.slices[len], page.ids[len]) = (page.slices[i], page.ids[i]);
            len += usize::from(head.is_live(slot)); // else it is being inserted
        }
    }
    // Entries are in order. Entries that the walk has passed are at the front, and only in the border in which it
    // begins.
    let mut passed = 0;
    while passed < len && !w.admits(page.slices[passed], 8) {
        passed += 1;
    }
    if passed > 0 {
        page.slices.copy_within(passed..len, 0);
        page.ids.copy_within(passed..len, 0);
    }
    len - passed
}

/// Puts validated entries on the page, without the entry of the bound's slice if the bound's further bytes exclude it.
fn show(w: &mut Walk, page: &mut Page, entries: &[Entry]) {
    let mut excluded = false;
    if let (true, Some(first)) = (w.partial, entries.first())
        && (first.code == code::SUFFIX && first.slice == w.slice)
    {
        let rest = &page.position[8 * (w.depth as usize + 1)..];
        // SAFETY: this was the slot's suffix when the border was validated, and the epoch keeps it.
        excluded = match unsafe { suffix::bytes(first.suffix) }.cmp(rest) {
            Less => !w.reverse,
            Equal => !w.inclusive,
            Greater => w.reverse,
        };
    }
    if w.partial {
        w.forget_bound(page);
    }
    for entry in &entries[usize::from(excluded)..] {
        // SAFETY: this was the slot's suffix when the border was validated, and the epoch keeps it.
        let suffix = if entry.suffix.is_null() { &[] } else { unsafe { suffix::bytes(entry.suffix) } };
        page.push(entry, suffix);
    }
}
