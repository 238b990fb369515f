//! The point descent, the engine's hottest path. Under `Never` it compiles to plain sequential code. Under a policy
//! that suspends, it leaves at every node. Rare cases are cold and out of line.

use super::Masstree;
use super::border::Find;
use super::node::{Find8, Head, Node};
use super::suffix;
use crate::index::{Key, Probe, RecordId, Unbegun};
use crate::suspend::{Never, Suspend};
use crate::sync::Backoff;

/// A suspended point descent.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The eight key bytes that this layer indexes.
    pub(super) slice: u64,
    /// The node to read next.
    pub(super) node: u32,
    /// A leftmost node of this layer, from which the layer's root can be found.
    pub(super) layer: u32,
    /// The number of layers above.
    pub(super) depth: u16,
    /// The level of `node`; 0 for a border. With [`UNBEGUN`] there is no descent, and `node` is the number of a bucket.
    pub(super) level: u8,
    /// The number of misses reported at this border beyond its own lines: for its suffix block, then for the suffix.
    asked: u8,
    /// Whether keys come in ascending order. If so, a border that is full at its end will get no more keys.
    pub(super) ascends: bool,
}

/// The mark of a cursor that has not begun, in place of a level. No tree has so many levels.
const UNBEGUN: u8 = u8::MAX;

impl Unbegun for Cursor {
    #[inline(always)]
    fn unbegun(bucket: u32) -> Cursor {
        Cursor { slice: 0, node: bucket, layer: 0, depth: 0, level: UNBEGUN, asked: 0, ascends: false }
    }

    #[inline(always)]
    fn bucket(&self) -> Option<u32> {
        (self.level == UNBEGUN).then_some(self.node)
    }
}

/// The outcome of a look into a border.
enum Probed {
    Done(Probe),
    /// Look again, at the cursor's node.
    Again,
    /// The border could not be read.
    Unstable,
}

/// The reaction to a node that could not be read.
pub(super) enum Settled {
    /// Read it again.
    Stay,
    /// Read its right neighbor.
    Right(u32),
    /// Begin anew: the node is out of the tree.
    Gone,
}

impl Cursor {
    #[inline(always)]
    pub(super) fn new(key: &Key) -> Cursor {
        Cursor { slice: key.slice, node: 0, layer: 0, depth: 0, level: 0, asked: 0, ascends: false }
    }

    /// Returns a cursor that continues for `key` where a descent for `behind` has ended, if `key` is greater and in the
    /// same layer. The key is then in that border or to the right of it, which is where descents that meet a split go
    /// as well.
    #[inline(always)]
    pub(super) fn follow(&self, behind: &Key, key: &Key) -> Option<Cursor> {
        let above = 8 * self.depth as usize;
        let is_same_layer = self.depth == 0
            || behind.len as usize > above
                && key.len as usize > above
                && suffix::bytes_of(behind)[..above] == suffix::bytes_of(key)[..above];
        if self.node == 0 || self.level > 0 || !is_same_layer {
            return None;
        }
        let slice = suffix::slice_at(key, self.depth);
        (slice > self.slice).then_some(Cursor { slice, asked: 0, ascends: true, ..*self })
    }

    /// Goes to a layer's root from the border entry that links to the layer.
    pub(super) fn enter_layer(&mut self, key: &Key, root: u32, level: u8) {
        self.depth += 1;
        self.slice = suffix::slice_at(key, self.depth);
        (self.node, self.layer, self.level) = (root, root, level);
        self.asked = 0;
    }

    /// Returns the number of key bytes from this layer on.
    #[inline(always)]
    pub(super) fn remaining(&self, key: &Key) -> usize {
        key.len as usize - 8 * self.depth as usize
    }
}

impl Masstree {
    /// Goes on to the next probable miss. Functions that are out of line take and return the cursor and the key by
    /// value: if their address is not taken, the cursor and key of a sequential lookup stay in registers.
    #[inline(always)]
    pub(super) fn descend<S: Suspend>(&self, c: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        loop {
            while c.level > 0 {
                let Some(child) = self.node(c.node).child(self.simd, c.slice) else {
                    let long;
                    (*c, long) = self.settle_cursor(*c, *key);
                    if long && S::SUSPENDS {
                        return Probe::Suspended;
                    }
                    continue;
                };
                c.node = child;
                c.level -= 1;
                if self.miss(child, c.level, s) {
                    return Probe::Suspended;
                }
            }
            let probed = if self.fixed8 {
                match self.node(c.node).find8(self.simd, c.slice) {
                    Find8::Found(rid) => return Probe::Found(RecordId(rid)),
                    Find8::Absent => return Probe::Absent,
                    Find8::Unstable => Probed::Unstable,
                }
            } else {
                let probed;
                (*c, probed) = self.probe_border(*c, *key, s);
                probed
            };
            match probed {
                Probed::Done(probe) => return probe,
                Probed::Again => {}
                Probed::Unstable => {
                    let long;
                    (*c, long) = self.settle_cursor(*c, *key);
                    if long && S::SUSPENDS {
                        return Probe::Suspended;
                    }
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn begin(&self, mut c: Cursor) -> Cursor {
        (c.node, c.level) = self.root();
        c.layer = c.node;
        c
    }

    /// Returns whether the cursor's border may have its key: the key is not to the right of the border.
    #[inline(always)]
    pub(super) fn is_near(&self, c: &Cursor) -> bool {
        let node = self.node(c.node);
        let head = node.head();
        !head.is_unstable() && !node.is_beyond(head, c.slice) && node.is_still(head)
    }

    /// Reports that a node is about to be read: all of its lines that a lookup may need.
    #[inline(always)]
    pub(super) fn miss<S: Suspend>(&self, node: u32, level: u8, s: &mut S) -> bool {
        if self.fixed8 || level > 0 { s.miss::<3>(self.at(node)) } else { s.miss::<4>(self.at(node)) }
    }

    /// Looks in the border at the cursor, and moves the cursor on if the key continues in another layer.
    #[inline(never)]
    fn probe_border<S: Suspend>(&self, mut c: Cursor, key: Key, s: &mut S) -> (Cursor, Probed) {
        let node = self.node(c.node);
        let head = node.head();
        if head.is_unstable() || node.is_beyond(head, c.slice) {
            return (c, Probed::Unstable);
        }
        let probed = match node.find(self.simd, head, c.slice, c.remaining(&key)) {
            Find::Absent if node.is_still(head) => Probed::Done(Probe::Absent),
            Find::Inline(slot) => {
                let rid = node.rid(slot);
                if node.is_still(head) { Probed::Done(Probe::Found(RecordId(rid))) } else { Probed::Again }
            }
            Find::Suffix(slot) => self.probe_suffix(&mut c, &key, s, node, head, slot),
            Find::Layer(slot, level) => {
                let root = node.rid(slot);
                if node.is_still(head) {
                    c.enter_layer(&key, root, level);
                    if self.miss(root, level, s) {
                        return (c, Probed::Done(Probe::Suspended));
                    }
                }
                Probed::Again
            }
            Find::Absent => Probed::Again,
        };
        (c, probed)
    }

    /// Compares the key with the suffix in `slot`, which takes two more objects to read. After each suspension the
    /// descent comes back here through the border, which is thus validated again.
    #[inline]
    fn probe_suffix<S: Suspend>(
        &self,
        c: &mut Cursor,
        key: &Key,
        s: &mut S,
        node: &Node,
        head: Head,
        slot: usize,
    ) -> Probed {
        if c.asked == 0 {
            c.asked = 1;
            if s.miss::<2>(suffix::block_of(node).cast()) {
                return Probed::Done(Probe::Suspended);
            }
        }
        let object = suffix::get(node, slot);
        if c.asked == 1 {
            c.asked = 2;
            if s.miss::<1>(object) {
                return Probed::Done(Probe::Suspended);
            }
        }
        let rid = node.rid(slot);
        // The border is validated before the suffix is read. The suffix is then this slot's, and the epoch keeps it.
        if object.is_null() || !node.is_still(head) {
            return Probed::Again;
        }
        // SAFETY: the suffix is published, and read inside the epoch, which keeps it.
        let same = unsafe { suffix::bytes(object) } == suffix::rest_of(key, c.depth);
        Probed::Done(if same { Probe::Found(RecordId(rid)) } else { Probe::Absent })
    }

    /// Moves the cursor on from a node that could not be read. Returns true if another thread holds the node for long.
    #[cold]
    #[inline(never)]
    fn settle_cursor(&self, mut c: Cursor, key: Key) -> (Cursor, bool) {
        let mut backoff = Backoff::new();
        c.asked = 0;
        match self.settle(self.node(c.node), c.slice, &mut backoff) {
            Settled::Right(next) => c.node = next,
            Settled::Gone => c = self.begin(Cursor::new(&key)),
            Settled::Stay => {}
        }
        (c, backoff.is_long())
    }

    /// Finds out why a node could not be read. If a thread is changing the node, waits a moment: no latch is held
    /// across a suspension, so its holder is running, or soon will be.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&self, node: &Node, slice: u64, backoff: &mut Backoff) -> Settled {
        let head = node.head();
        if head.has(Head::DELETED) {
            return Settled::Gone;
        }
        if head.has(Head::DIRTY) {
            while node.head().has(Head::DIRTY) && !backoff.is_long() {
                backoff.wait();
            }
            if backoff.is_long() {
                backoff.wait();
            }
            return Settled::Stay;
        }
        if !node.is_beyond(head, slice) {
            return Settled::Stay;
        }
        let next = node.next();
        if next != 0 && node.is_still(head) { Settled::Right(next) } else { Settled::Stay }
    }

    /// Returns the stamp of the border that has the key or would have it.
    pub(super) fn find_stamp(&self, key: &Key) -> u64 {
        let mut c = self.begin(Cursor::new(key));
        loop {
            let _ = self.descend(&mut c, key, &mut Never);
            let node = self.node(c.node);
            let head = node.head();
            if head.is_unstable() || node.is_beyond(head, c.slice) {
                (c, _) = self.settle_cursor(c, *key);
                continue;
            }
            let stamp = node.stamp();
            // The key may have gone to another layer since the descent. Then either the head has changed since, or the
            // search finds a link.
            let found = match self.fixed8 {
                true => Find::Absent,
                false => node.find(self.simd, head, c.slice, c.remaining(key)),
            };
            if node.is_still(head) {
                match found {
                    Find::Layer(slot, level) => c.enter_layer(key, node.rid(slot), level),
                    _ => return stamp,
                }
            }
        }
    }

    /// Returns the root of a layer and its level, from any leftmost node of the layer.
    pub(super) fn top(&self, mut leftmost: u32) -> (u32, u8) {
        loop {
            let node = self.node(leftmost);
            match node.up() {
                0 => return (leftmost, node.head().level()),
                up => leftmost = up,
            }
        }
    }

    /// Returns the node of `level` that covers `slice` (or did a moment ago), in the layer of `leftmost`. Returns
    /// `None` if the layer is gone or has no such level.
    pub(super) fn find_level(&self, leftmost: u32, level: u8, slice: u64) -> Option<u32> {
        let mut backoff = Backoff::new();
        loop {
            let (mut id, mut at) = self.top(leftmost);
            if at < level {
                return None;
            }
            while at > level {
                let node = self.node(id);
                match node.child(self.simd, slice) {
                    Some(child) => (id, at) = (child, at - 1),
                    None => match self.settle(node, slice, &mut backoff) {
                        Settled::Stay => {}
                        Settled::Right(next) => id = next,
                        Settled::Gone => break,
                    },
                }
            }
            if at == level {
                return Some(id);
            }
            if self.node(leftmost).head().has(Head::DELETED) {
                return None; // leftmost nodes go with their layer only
            }
        }
    }
}
