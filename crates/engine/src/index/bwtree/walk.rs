//! Range walks in both directions. A walk's place is a position among keys, and a leaf as of the moment at which its
//! word was read. The walk hands out pages of that state, whatever happens to the leaf. Going up, it continues at the
//! leaf's upper fence with the right neighbor. Going down, it continues at the lower fence with a descent for the keys
//! below.

use super::node::Entry;
use super::text::Sought;
use super::view::{Merged, View, Which};
use super::word::Word;
use super::{BwTree, LINES};
use crate::index::{Key, PAGE_ENTRIES_MAX, Page, Paged, RecordId};
use crate::suspend::Suspend;
use std::cmp::Ordering as Order;
use std::ops::Bound;

/// A suspended range walk. If keys vary in length, its position is in its page.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The position, or its first bytes.
    slice: u64,
    /// The node's word, if it has been read.
    word: Word,
    /// The node. 0 means the root.
    id: u32,
    /// The memory that has been requested.
    asked: Asked,
    reverse: bool,
    /// Whether there is a position. Without one, all entries are still to come.
    is_bounded: bool,
    /// Whether the position itself is still to come.
    inclusive: bool,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nothing,
    /// The mapping entry.
    Entry,
    /// The block.
    Block,
    /// The objects of keys.
    Keys,
}

/// The outcome of reading a leaf.
enum Gathered {
    /// Memory has been requested.
    Suspended,
    /// There is nothing to show; the walk has moved on.
    Moved,
    Page,
}

impl Walk {
    pub(super) fn new(from: Bound<&Key>, reverse: bool, is_fixed8: bool, page: &mut Page) -> Walk {
        page.clear();
        page.is_fixed8 = is_fixed8;
        page.position.clear();
        let inclusive = matches!(from, Bound::Included(_));
        let mut walk = Walk {
            slice: 0,
            word: Word::NONE,
            id: 0,
            asked: Asked::Nothing,
            reverse,
            is_bounded: false,
            inclusive,
            done: false,
        };
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            walk.is_bounded = true;
            walk.slice = key.slice;
            if !is_fixed8 {
                page.position.extend_from_slice(key.bytes(&mut [0; 8]));
            }
            // Nothing is below the least key.
            let is_least = if is_fixed8 { key.slice == 0 } else { key.len == 0 };
            walk.done = reverse && !inclusive && is_least;
        }
        walk
    }

    fn go(&mut self, id: u32) {
        (self.id, self.word, self.asked) = (id, Word::NONE, Asked::Nothing);
    }

    fn position<'p>(&self, page: &'p Page) -> Option<Sought<'p>> {
        self.is_bounded.then_some(Sought { slice: self.slice, bytes: &page.position })
    }

    /// Returns the right neighbor, if the walk goes on there or further on.
    fn beyond(&self, view: &View<'_>, position: Option<&Sought<'_>>) -> Option<u32> {
        let next = view.node.header().next;
        match position {
            None => (self.reverse && next != 0).then_some(next),
            Some(position) if self.reverse && !self.inclusive => view.beyond_below(position),
            Some(position) => view.beyond(position),
        }
    }

    fn child(&self, view: &View<'_>, position: Option<&Sought<'_>>) -> u32 {
        match position {
            None if self.reverse => view.child(Which::Last),
            None => view.first_child(),
            Some(&position) if self.reverse && !self.inclusive => view.child(Which::Below(position)),
            Some(&position) => view.child(Which::UpTo(position)),
        }
    }
}

impl BwTree {
    /// Goes on to the next probable miss or the next page.
    #[inline(never)]
    pub(super) fn walk_on<S: Suspend>(&self, w: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        page.clear();
        while !w.done {
            if w.id == 0 {
                w.go(self.root().id());
                w.asked = Asked::Entry; // all descents read this entry
            }
            if w.asked == Asked::Nothing {
                w.asked = Asked::Entry;
                if s.miss::<1>(self.at(w.id)) {
                    return Paged::Suspended;
                }
            }
            if w.word == Word::NONE {
                (w.word, w.asked) = (self.word(w.id), Asked::Block);
                if s.miss::<LINES>(w.word.block()) {
                    return Paged::Suspended;
                }
            }
            let view = self.view(w.word);
            let position = w.position(page);
            if let Some(next) = w.beyond(&view, position.as_ref()) {
                w.go(next);
            } else if view.level() > 0 {
                w.go(w.child(&view, position.as_ref()));
            } else {
                match self.gather(w, &view, page, s) {
                    Gathered::Page => return Paged::Page,
                    Gathered::Suspended => return Paged::Suspended,
                    Gathered::Moved => {}
                }
            }
        }
        Paged::End
    }

    /// Requests the mapping entry that the walk reads next, if it is known.
    #[inline(always)]
    pub(super) fn prepare_walk<S: Suspend>(&self, w: &Walk, s: &mut S) {
        if w.asked == Asked::Nothing && w.id != 0 && !w.done {
            let _ = s.miss::<1>(self.at(w.id));
        }
    }

    /// Copies the entries that are still to come from a leaf, up to a page.
    fn gather<S: Suspend>(&self, w: &mut Walk, view: &View<'_>, page: &mut Page, s: &mut S) -> Gathered {
        let mut entries = [Entry::NONE; PAGE_ENTRIES_MAX];
        let (mut len, mut is_more) = (0, false);
        {
            let chain = view.sorted();
            let mut merged = self.still_to_come(w, view, page, &chain);
            while let Some((entry, _)) = if w.reverse { merged.next_back() } else { merged.next() } {
                if len == PAGE_ENTRIES_MAX {
                    is_more = true;
                    break;
                }
                entries[len] = entry;
                len += 1;
            }
        }
        let entries = &entries[..len];
        if !self.is_fixed8 && w.asked < Asked::Keys {
            w.asked = Asked::Keys;
            let mut leave = false;
            for entry in entries.iter().filter(|entry| !entry.object.is_null()) {
                leave |= s.miss::<1>(entry.object);
            }
            if leave {
                return Gathered::Suspended;
            }
        }
        self.copy_to_page(view, entries, page);
        page.leave_mark(w.id, view.mark());
        w.pass(page);
        if is_more {
            w.asked = Asked::Block;
        } else if w.reverse {
            w.pass_down(view, page);
        } else {
            w.done = view.node.header().next == 0;
            w.go(view.node.header().next);
        }
        if len > 0 { Gathered::Page } else { Gathered::Moved }
    }

    /// Returns the entries of a leaf that are still to come.
    fn still_to_come<'a, 'c>(
        &self,
        w: &Walk,
        view: &View<'a>,
        page: &Page,
        chain: &'c super::view::Chain,
    ) -> Merged<'a, 'c> {
        let Some(position) = w.position(page) else { return view.entries(chain) };
        let node = view.node;
        // SAFETY: the key is the leaf's, which was in the tree in this epoch.
        if unsafe { node.header().low.order(self.is_fixed8, &position) } == Order::Greater {
            return view.entries(chain); // the walk comes from the left neighbor
        }
        let probe = node.probe(&position);
        // Does the position itself lie to the left of where the walk goes on?
        let is_left = w.reverse == w.inclusive;
        let place = node.locate(&probe).map_or_else(|place| place, |place| place + usize::from(is_left));
        view.entries_from(chain, place, w.reverse, |entry| match node.order(entry, &probe) {
            Order::Less => true,
            Order::Equal => is_left,
            Order::Greater => false,
        })
    }

    fn copy_to_page(&self, view: &View<'_>, entries: &[Entry], page: &mut Page) {
        page.len = entries.len();
        for (i, entry) in entries.iter().enumerate() {
            (page.ids[i], page.slices[i]) = (RecordId(entry.value), entry.slice);
            if !self.is_fixed8 {
                let (mut short, text) = ([0; 8], view.node.text(entry));
                // SAFETY: the key is that of an entry that lived in this epoch.
                page.bytes.extend_from_slice(unsafe { text.bytes(&mut short) });
                page.ends[i] = page.bytes.len() as u32;
            }
        }
    }
}

impl Walk {
    /// Moves the position to the last entry of the page, which is then behind the walk.
    #[inline(always)]
    fn pass(&mut self, page: &mut Page) {
        let Some(last) = page.len.checked_sub(1) else { return };
        (self.is_bounded, self.inclusive) = (true, false);
        if page.is_fixed8 {
            self.slice = page.slices[last];
            return;
        }
        let start = if last == 0 { 0 } else { page.ends[last - 1] as usize };
        page.position.clear();
        page.position.extend_from_slice(&page.bytes[start..]);
        self.slice = crate::index::slice_of(&page.position);
    }

    /// Moves the position below all keys of the leaf.
    fn pass_down(&mut self, view: &View<'_>, page: &mut Page) {
        let low = view.node.header().low;
        self.done = low.is_empty();
        (self.is_bounded, self.inclusive, self.slice) = (true, false, low.slice);
        if !page.is_fixed8 {
            let mut short = [0; 8];
            page.position.clear();
            // SAFETY: the key is the leaf's, which was in the tree in this epoch.
            page.position.extend_from_slice(unsafe { low.bytes(&mut short) });
        }
        self.go(0);
    }
}
