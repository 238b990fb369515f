//! The point descent. A node is read as of the moment at which its word was read, so it is the same before and after a
//! suspension. A key beyond the node's upper fence is at its right neighbor, or further on.

use super::text::Sought;
use super::view::{View, Which};
use super::word::Word;
use super::{BwTree, LINES};
use crate::index::{Key, Probe, RecordId, Unbegun};
use crate::suspend::{Never, Suspend};

/// A suspended point descent.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The node's word. None means that it is to be read next.
    pub(super) word: Word,
    /// The node. 0 means that there is no descent, and that `word` has the number of a bucket.
    pub(super) id: u32,
    /// Whether the first step has been made.
    is_stepped: bool,
    /// Whether the object of the key that may match has been requested.
    asked: bool,
    /// Whether a node was reached that its parent does not name.
    pub(super) has_hopped: bool,
}

impl Unbegun for Cursor {
    #[inline(always)]
    fn unbegun(bucket: u32) -> Cursor {
        Cursor { word: Word(u64::from(bucket)), ..Cursor::at(0, Word::NONE) }
    }

    #[inline(always)]
    fn bucket(&self) -> Option<u32> {
        (self.id == 0).then_some(self.word.0 as u32)
    }
}

impl Cursor {
    /// Makes a cursor at a node that has this word.
    #[inline(always)]
    fn at(id: u32, word: Word) -> Cursor {
        Cursor { word, id, is_stepped: false, asked: false, has_hopped: false }
    }

    /// Moves to another node.
    #[inline(always)]
    fn go(&mut self, id: u32) {
        (self.id, self.word, self.asked) = (id, Word::NONE, false);
    }
}

impl BwTree {
    /// Begins a descent at the root.
    #[inline(always)]
    pub(super) fn begin(&self) -> Cursor {
        let id = self.root().id();
        Cursor::at(id, self.word(id))
    }

    /// Returns a cursor for `key` at the leaf where a descent for a lesser key has ended, if `key` belongs there.
    pub(super) fn near(&self, c: Cursor, key: &Key) -> Option<Cursor> {
        let word = self.word(c.id);
        // A leaf that is not frozen is in the tree, and its least key has not changed.
        if word.has(Word::FROZEN) || c.word == Word::NONE {
            return None;
        }
        let (view, mut short) = (self.view(word), [0; 8]);
        let sought = Sought::new(key, self.is_fixed8, &mut short);
        let is_it = view.level() == 0 && view.beyond(&sought).is_none();
        is_it.then_some(Cursor::at(c.id, word))
    }

    /// Goes on to the next probable miss.
    #[inline(never)]
    pub(super) fn descend<S: Suspend>(&self, mut c: Cursor, key: Key, s: &mut S) -> (Cursor, Probe) {
        let mut short = [0; 8];
        let sought = Sought::new(&key, self.is_fixed8, &mut short);
        if !c.is_stepped {
            // The word from the start only served to request memory.
            c.word = self.word(c.id);
            if c.word.has(Word::FROZEN) {
                c = self.begin();
            }
            c.is_stepped = true;
        }
        loop {
            if c.word == Word::NONE {
                c.word = self.word(c.id);
                if s.miss::<LINES>(c.word.block()) {
                    return (c, Probe::Suspended);
                }
            }
            let view = self.view(c.word);
            if let Some(next) = view.beyond(&sought) {
                c.go(next);
                c.has_hopped = true;
            } else if view.level() > 0 {
                c.go(view.child(Which::UpTo(sought)));
            } else {
                if !self.is_fixed8 && !c.asked {
                    c.asked = true;
                    if ask_key(&view, &sought, s) {
                        return (c, Probe::Suspended);
                    }
                }
                let found = view.find(&view.node.probe(&sought));
                let probe = found.map_or(Probe::Absent, |(_, value)| Probe::Found(RecordId(value)));
                return (c, probe);
            }
            if s.miss::<1>(self.at(c.id)) {
                return (c, Probe::Suspended);
            }
        }
    }

    /// Returns the leaf that has the key or would have it.
    pub(super) fn leaf_of(&self, key: &Key) -> u32 {
        self.descend(self.begin(), *key, &mut Never).0.id
    }
}

/// Requests the object of the first key of a leaf's base that may match.
fn ask_key<S: Suspend>(view: &View<'_>, sought: &Sought<'_>, s: &mut S) -> bool {
    let (node, probe) = (view.node, view.node.probe(sought));
    let place = node.below(probe.slice);
    if place == node.count() || node.slice(place) != probe.slice {
        return false;
    }
    let object = node.base(place).object;
    !object.is_null() && s.miss::<1>(object)
}
