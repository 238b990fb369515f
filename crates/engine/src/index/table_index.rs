//! The index of one table: a tree of one of the kinds, the front before it if there is one, and everything that is the
//! same for all kinds.
//!
//! Calls on the path of every lookup look at one flag, which says that the tree is of the default kind and has no
//! front. In that case the tree is compiled into them. All other trees are called, by code that is compiled once for
//! all schemes of concurrency control.

use super::dead_end::{BOUND_BYTES_MAX, DeadEnd, DeadEnds};
use super::departed::Departed;
use super::front::{Front, HashFront};
use super::kinds::{Cursor, IndexKind, Tree, Walk};
use super::touched::Touched;
use super::{Index, Inserted, Key, Mark, Nodes, Page, Paged, Partitioning, Probe, RecordId, masstree, mixed};
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::record::Kept;
use crate::suspend::{Never, PrefetchOnly, Suspend, prefetch};
use std::ops::Bound;

/// The number of indexes whose contents are derived from other tables. Neither a log nor a checkpoint has their
/// records.
pub const DERIVED: u32 = u32::MAX;

/// The options with which an index is made.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// The kind of the index.
    pub kind: IndexKind,
    /// The front before the index.
    pub front: Front,
    /// Whether all keys have exactly eight bytes.
    pub fixed8: bool,
    /// The number by which the index's owner knows it.
    pub number: u32,
}

/// The index of one table. Dropping it leaves its nodes to their slab; [`Index::clear`] gives them back.
pub struct TableIndex {
    tree: Tree,
    /// Whether the tree is of the default kind and has no front.
    is_plain: bool,
    /// A table of some of the tree's entries, which is asked first.
    front: Option<Box<HashFront>>,
    fixed8: bool,
    number: u32,
    partitioning: Partitioning,
    /// Places of removed records that only this index will name again.
    kept: Kept,
    /// Keys that have left the index while older transactions were open.
    departed: Departed,
    /// Keys at the ends of the index that only older transactions see.
    dead_ends: DeadEnds,
    /// The ranges of keys that were changed, noted when changes are logged. They are apart, because descents need the
    /// other fields.
    touched: Box<Touched>,
}

impl TableIndex {
    /// Makes an empty index.
    pub fn new(nodes: &Nodes, options: IndexOptions) -> Result<TableIndex, OutOfMemory> {
        let IndexOptions { kind, front, fixed8, number } = options;
        let tree = Tree::new(kind, nodes.of(kind.node_bytes())?, fixed8)?;
        let front = match front {
            Front::None => None,
            Front::Hash => Some(Box::new(HashFront::new(nodes.of_front()?)?)),
        };
        let is_plain = front.is_none() && matches!(tree, Tree::Masstree(_));
        let partitioning = Partitioning::default();
        let (kept, departed, touched) = (Kept::new(), Departed::default(), Box::default());
        let dead_ends = DeadEnds::default();
        Ok(TableIndex {
            tree,
            is_plain,
            front,
            fixed8,
            number,
            partitioning,
            kept,
            departed,
            dead_ends,
            touched,
        })
    }

    /// Begins a walk behind the dead keys that it may skip.
    ///
    /// # Safety
    /// As for `walk`.
    #[cold]
    #[inline(never)]
    unsafe fn walk_behind(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
        let mut bound = [0; BOUND_BYTES_MAX];
        let Some((len, mark)) = self.dead_ends.of(reverse).skip(from, page.as_of, &mut bound) else {
            // SAFETY: the caller has made the promise that `walk` asks for, and the tree's `walk` asks for the same.
            return unsafe { self.tree.walk(from, reverse, page) };
        };
        // SAFETY: the bound's bytes are in `bound`, which is alive during the call.
        let walk = unsafe { self.tree.walk(Bound::Included(&Key::new(&bound[..len])), reverse, page) };
        page.leave_mark(mark.node, mark.head);
        walk
    }

    /// Returns the kind of the index.
    pub fn kind(&self) -> IndexKind {
        self.tree.kind()
    }

    /// Returns the number by which the index's owner knows it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether all keys have eight bytes.
    pub fn is_fixed8(&self) -> bool {
        self.fixed8
    }

    /// Returns the kept places of the table's removed records, for places that serve no other table.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Returns the keys that have left the index although a transaction is open that began before they were deleted.
    #[inline(always)]
    pub fn departed(&self) -> &Departed {
        &self.departed
    }

    /// Returns the end at which walks in this direction begin, if keys have an order.
    pub fn dead_end(&self, is_reverse: bool) -> Option<&DeadEnd> {
        self.kind().is_ordered().then(|| self.dead_ends.of(is_reverse))
    }

    /// Tells the dead ends that a value is written over the deletion of this key, and not yet committed.
    #[inline(always)]
    pub fn revive(&self, key: &Key) {
        self.dead_ends.came(key);
    }

    /// Returns the partitioning of the keys.
    #[inline(always)]
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }

    /// Returns the ranges of keys that were changed.
    pub fn touched(&self) -> &Touched {
        &self.touched
    }

    /// Notes that a key is about to be changed: see [`Touched::mark`]. If keys have no order, notes the key's position
    /// instead, which is as long as any bound: see [`bound_bytes_max`](Self::bound_bytes_max).
    ///
    /// # Safety
    /// As for `Touched::mark`.
    #[inline]
    pub unsafe fn touch(&self, key: &[u8]) {
        if self.is_plain || self.kind().is_ordered() {
            // SAFETY: the caller has made the promise that `Touched::mark` asks for.
            return unsafe { self.touched.mark(key) };
        }
        let position = mixed::position_of(mixed::mix(&Key::new(key)));
        // SAFETY: the caller has made the promise that `Touched::mark` asks for.
        unsafe { self.touched.mark(&position.to_be_bytes()) };
    }

    /// Returns how many bytes of a key's order may make a bound of the ranges that `touch` tells apart, if there is a
    /// limit.
    pub fn bound_bytes_max(&self) -> usize {
        if self.kind().is_ordered() { usize::MAX } else { size_of::<u64>() }
    }

    /// Returns the tree, if it is plain.
    #[inline(always)]
    fn plain(&self) -> Option<&masstree::Masstree> {
        match &self.tree {
            _ if !self.is_plain => None,
            Tree::Masstree(tree) => Some(tree),
            // SAFETY: `is_plain` is true only if `new` found a Masstree, and neither changes.
            _ => unsafe { std::hint::unreachable_unchecked() },
        }
    }

    /// Returns the nodes for the benchmark's hand-written lookups, or `None` if these read no index of this kind.
    #[inline(always)]
    pub fn yardstick(&self) -> Option<masstree::Yardstick<'_>> {
        match &self.tree {
            Tree::Masstree(tree) => Some(tree.yardstick()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for TableIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableIndex")
            .field("kind", &self.kind())
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl TableIndex {
    /// Begins a descent in the place of `cursor`, and requests the memory that its first step reads. Returns whether it
    /// is short, like [`Index::is_short`]. The cursor is written in place, because a returned cursor is copied in wider
    /// words than it was just stored in, for which a processor has to wait.
    #[inline(always)]
    pub fn start_in(&self, key: &Key, cursor: &mut Cursor) -> bool {
        let Some(tree) = self.plain() else { return self.start_other_in(key, cursor) };
        let begun = tree.start(key);
        *cursor = Cursor { masstree: begun };
        // SAFETY: this tree has just begun the descent.
        unsafe {
            tree.prepare(&begun, &mut PrefetchOnly);
            tree.is_short(&begun)
        }
    }
}

// ---- where the tree is not plain
impl TableIndex {
    /// Begins a descent like `start_in`.
    #[inline(never)]
    fn start_other_in(&self, key: &Key, cursor: &mut Cursor) -> bool {
        *cursor = self.tree.start(key);
        // SAFETY: this tree has just begun the descent.
        let is_short = unsafe {
            self.tree.prepare(cursor, &mut PrefetchOnly);
            self.tree.is_short(cursor)
        };
        if !is_short && let Some((front, bucket)) = self.bucket_of(key) {
            *cursor = self.tree.unbegun(bucket);
            prefetch::<1>(front.at(bucket));
        }
        is_short
    }

    /// Begins a descent like `start`.
    #[inline(never)]
    fn start_other(&self, key: &Key) -> Cursor {
        match self.bucket_of(key) {
            Some((_, bucket)) => self.tree.unbegun(bucket),
            None => self.tree.start(key),
        }
    }

    /// Requests memory like `prepare`.
    ///
    /// # Safety
    /// As for `prepare`.
    #[inline(never)]
    unsafe fn prepare_other<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        // SAFETY: the caller has promised that the cursor is of this index, which is what both calls ask for.
        unsafe {
            match self.bucket_at(cursor) {
                Some((front, bucket)) => s.miss::<1>(front.at(bucket)),
                None => self.tree.prepare(cursor, s),
            }
        }
    }

    /// Steps like `step`: looks into the front, then goes on as in any tree.
    ///
    /// # Safety
    /// As for `step`.
    #[inline(never)]
    unsafe fn step_other<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        let Some(front) = self.front.as_deref() else {
            // SAFETY: the caller has made the promise that `step` asks for. Without a front, the cursor is in the tree.
            return unsafe { self.tree.step(cursor, key, s) };
        };
        // SAFETY: the caller has promised that the cursor is of this index.
        if let Some((_, bucket)) = unsafe { self.bucket_at(cursor) } {
            if let Some(id) = front.find(bucket, key) {
                return Probe::Found(id);
            }
            *cursor = self.tree.start(key);
            // SAFETY: this tree has just begun the descent.
            if unsafe { self.tree.prepare(cursor, s) } {
                return Probe::Suspended;
            }
        }
        // SAFETY: the caller has made the promise that `step` asks for, and the cursor is in the tree.
        let probe = unsafe { self.tree.step(cursor, key, s) };
        if let Probe::Found(_) = probe {
            // SAFETY: the caller has made the promise that `step` asks for, for this key.
            front.note(key, || unsafe { self.find_in_tree(key) });
        }
        probe
    }

    /// Inserts like `insert` a key that the front may have.
    ///
    /// # Safety
    /// As for `insert`.
    #[inline(never)]
    unsafe fn insert_other(
        &self,
        local: &Local,
        cursor: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        // SAFETY: the caller has promised that the cursor is of this index.
        let begun = unsafe { self.bucket_at(cursor) }.map(|_| self.tree.start(key));
        let cursor = begun.as_ref().unwrap_or(cursor);
        // SAFETY: the caller has made the promise that `insert` asks for, and the cursor is in the tree.
        let insert = || unsafe { self.tree.insert(local, cursor, key, id) };
        match self.front.as_deref() {
            Some(front) => front.insert(key, id, insert),
            None => insert(),
        }
    }

    /// Returns the bucket in which to look for a key first, unless it is the tree that is asked first.
    fn bucket_of(&self, key: &Key) -> Option<(&HashFront, u32)> {
        let front = self.front.as_deref()?;
        front.bucket_of(key).map(|bucket| (front, bucket))
    }

    /// Returns the bucket that a cursor is at or has found its record in. Such a cursor is no place in the tree.
    ///
    /// # Safety
    /// The cursor is of this index.
    #[inline(always)]
    unsafe fn bucket_at(&self, cursor: &Cursor) -> Option<(&HashFront, u32)> {
        let front = self.front.as_deref()?;
        // SAFETY: the caller has promised that the cursor is of this index, so it is of this tree.
        unsafe { self.tree.unbegun_bucket(cursor) }.map(|bucket| (front, bucket))
    }

    /// Returns the record that the tree has under a key.
    ///
    /// # Safety
    /// As for `step`.
    unsafe fn find_in_tree(&self, key: &Key) -> Option<RecordId> {
        let mut cursor = self.tree.start(key);
        loop {
            // SAFETY: this tree has just begun the descent, and the caller has made the rest of the promise that `step`
            // asks for.
            match unsafe { self.tree.step(&mut cursor, key, &mut Never) } {
                Probe::Suspended => {}
                Probe::Absent => return None,
                Probe::Found(id) => return Some(id),
            }
        }
    }
}

impl Index for TableIndex {
    type Cursor = Cursor;
    type Walk = Walk;

    #[inline(always)]
    fn start(&self, key: &Key) -> Cursor {
        match self.plain() {
            Some(tree) => Cursor { masstree: tree.start(key) },
            None => self.start_other(key),
        }
    }

    #[inline]
    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        // SAFETY: the caller has promised that the cursor is of this index and the keys' bytes are alive. Where the
        // tree gets the cursor, the cursor is in the tree.
        unsafe {
            match (self.plain(), self.bucket_at(cursor)) {
                (Some(tree), _) => Cursor { masstree: tree.start_behind(&cursor.masstree, behind, key) },
                (None, Some(_)) => self.start_other(key),
                (None, None) => self.tree.start_behind(cursor, behind, key),
            }
        }
    }

    #[inline]
    unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
        // SAFETY: the caller has promised that the cursor is of this index and the keys' bytes are alive. Where the
        // tree gets the cursor, the cursor is in the tree.
        unsafe {
            match (self.plain(), self.bucket_at(cursor)) {
                (Some(tree), _) => Some(Cursor { masstree: tree.start_near(&cursor.masstree, behind, key)? }),
                (None, Some(_)) => None,
                (None, None) => self.tree.start_near(cursor, behind, key),
            }
        }
    }

    #[inline(always)]
    unsafe fn is_short(&self, cursor: &Cursor) -> bool {
        // SAFETY: the caller has promised that the cursor is of this index. Where the tree gets it, it is in the tree.
        unsafe {
            match self.plain() {
                Some(tree) => tree.is_short(&cursor.masstree),
                // The front is one line of many.
                None => self.bucket_at(cursor).is_none() && self.tree.is_short(cursor),
            }
        }
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        // SAFETY: the caller has promised that the cursor is of this index, which both calls ask for.
        unsafe {
            match self.plain() {
                Some(tree) => tree.prepare(&cursor.masstree, s),
                None => self.prepare_other(cursor, s),
            }
        }
    }

    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        // SAFETY: the caller has made the promise that `step` asks for, and both calls ask for the same.
        unsafe {
            match self.plain() {
                Some(tree) => tree.step(&mut cursor.masstree, key, s),
                None => self.step_other(cursor, key, s),
            }
        }
    }

    #[inline]
    unsafe fn insert(
        &self,
        local: &Local,
        cursor: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        // SAFETY: the caller has made the promise that `insert` asks for, and both calls ask for the same.
        let inserted = unsafe {
            match self.plain() {
                Some(tree) => tree.insert(local, &cursor.masstree, key, id),
                None => self.insert_other(local, cursor, key, id),
            }
        };
        self.dead_ends.came(key);
        inserted
    }

    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
        // SAFETY: the caller has made the promise that `remove` asks for, and the tree asks for the same.
        let remove = || unsafe { self.tree.remove(local, key, id) };
        match &self.front {
            Some(front) => front.remove(key, id, remove),
            None => remove(),
        }
    }

    unsafe fn look(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
        page.is_mixed = !self.kind().is_ordered();
        // SAFETY: the caller has made the promise that `look` asks for, and the tree asks for the same.
        unsafe { self.tree.look(key, page) }
    }

    fn order_of(&self, key: &Key, order: &mut Vec<u8>) {
        self.tree.order_of(key, order);
    }

    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
        page.is_mixed = !self.kind().is_ordered();
        if page.as_of > 0 && self.dead_ends.of(reverse).is_skipping() {
            // SAFETY: the caller has made the promise that `walk` asks for, and `walk_behind` asks for the same.
            return unsafe { self.walk_behind(from, reverse, page) };
        }
        // SAFETY: the caller has made the promise that `walk` asks for, and the tree asks for the same.
        unsafe { self.tree.walk(from, reverse, page) }
    }

    #[inline]
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        // SAFETY: the caller has made the promise that `next_page` asks for. The walk is of the tree.
        unsafe { self.tree.next_page(walk, page, s) }
    }

    #[inline(always)]
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
        // SAFETY: the caller has promised that the walk is of this index, so it is of the tree.
        unsafe { self.tree.prepare_page(walk, s) };
    }

    #[inline]
    fn is_as_marked(&self, mark: &Mark) -> bool {
        match self.dead_ends.marked(mark) {
            Some(end) => end.is_as_marked(mark),
            None => self.tree.is_as_marked(mark),
        }
    }

    #[inline]
    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        match self.dead_ends.marked(mark) {
            Some(end) => end.raise_stamp(mark, stamp),
            // SAFETY: the caller has promised that the call is inside an epoch.
            None => unsafe { self.tree.raise_stamp(mark, stamp) },
        }
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        // SAFETY: the caller has made the promise that `stamp_of` asks for, and the tree asks for the same.
        unsafe { self.tree.stamp_of(key) }.max(self.dead_ends.stamp_of(key))
    }

    fn reserve(&self, local: &Local, keys: u64) {
        self.tree.reserve(local, keys);
    }

    // The front's memory is freed with the front, and no operation looks into it any more.
    unsafe fn clear(&self, local: &Local) {
        // SAFETY: the caller has made the promise that `clear` asks for, and the tree asks for the same.
        unsafe { self.tree.clear(local) };
    }

    fn lose_stamps(&mut self) {
        self.tree.lose_stamps();
    }
}

#[cfg(test)]
impl super::model::Checked for TableIndex {
    /// Checks the tree, and that all entries of the front are entries of the tree.
    fn check_structure(&self) {
        super::model::Checked::check_structure(&self.tree);
        let Some(front) = &self.front else { return };
        let found = super::model::scan(self, Bound::Unbounded, false, usize::MAX, &mut Never);
        let is_in_front = |(bytes, id): &(Vec<u8>, RecordId)| {
            let in_front = front.look_up(&Key::new(bytes));
            assert!(in_front.is_none_or(|other| other == *id), "{bytes:?}");
            in_front.is_some()
        };
        assert_eq!(found.iter().filter(|entry| is_in_front(entry)).count() as u64, front.check_structure());
        assert_eq!(found.iter().filter(|(bytes, _)| bytes.len() <= 8).count() as u64, front.keys());
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
impl TableIndex {
    pub(super) fn hash_front(&self) -> Option<&HashFront> {
        self.front.as_deref()
    }
}
