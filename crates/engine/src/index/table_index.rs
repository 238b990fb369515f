//! The index of one table: a tree of one of the kinds, and what is the same for all kinds.
//!
//! The table of kinds is here. Calls go through one `match`, always the same way in one table, which a processor
//! predicts; how much of a tree is compiled into its callers is the tree's own choice.

use super::front::{Front, HashFront};
use super::touched::Touched;
use super::{
    Index, Inserted, Key, Mark, Nodes, Page, Paged, Partitioning, Probe, RecordId, Unbegun, btree, masstree,
};
use crate::epoch::Local;
use crate::memory::{OutOfMemory, Slab};
use crate::record::Kept;
use crate::suspend::{Never, PrefetchOnly, Suspend, prefetch};
use crate::sync::Arc;
use std::ops::Bound;

/// The number of indexes that hold what is derived from other tables: no log and no checkpoint has their records.
pub const DERIVED: u32 = u32::MAX;

/// What an index is to be.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// Which kind.
    pub kind: IndexKind,
    /// What is in front of it.
    pub front: Front,
    /// All keys have exactly eight bytes.
    pub fixed8: bool,
    /// What its owner calls it.
    pub number: u32,
}

impl std::str::FromStr for IndexKind {
    type Err = String;

    /// The kind of this name, as commands take it; else an error that says which names there are.
    fn from_str(name: &str) -> Result<IndexKind, String> {
        let names = IndexKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        IndexKind::named(name)
            .ok_or_else(|| format!("there is no kind of index {name:?}; there are {}", names.join(" and ")))
    }
}

/// The index of one table. Dropping it leaves its nodes to their slab; [`Index::clear`] gives them back.
pub struct TableIndex {
    tree: Tree,
    /// The tree is of the default kind, and nothing is in front of it.
    is_plain: bool,
    /// What has some of the tree's entries, and is asked first.
    front: Option<Box<HashFront>>,
    fixed8: bool,
    number: u32,
    partitioning: Partitioning,
    /// Places of removed records that only this index will name again.
    kept: Kept,
    /// Which ranges of its keys were changed: noted when changes are logged. (Apart, as descents need the rest.)
    touched: Box<Touched>,
}

impl TableIndex {
    /// An empty index.
    pub fn new(nodes: &Nodes, options: IndexOptions) -> Result<TableIndex, OutOfMemory> {
        let IndexOptions { kind, front, fixed8, number } = options;
        let tree = Tree::new(kind, nodes.of(kind.node_bytes())?, fixed8)?;
        let front = match front {
            Front::None => None,
            Front::Hash => Some(Box::new(HashFront::new(nodes.of_front()?)?)),
        };
        let is_plain = front.is_none() && matches!(tree, Tree::Masstree(_));
        let partitioning = Partitioning::default();
        let (kept, touched) = (Kept::new(), Box::default());
        Ok(TableIndex { tree, is_plain, front, fixed8, number, partitioning, kept, touched })
    }

    /// Which kind it is.
    pub fn kind(&self) -> IndexKind {
        self.tree.kind()
    }

    /// What its owner calls it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether all keys have eight bytes.
    pub fn is_fixed8(&self) -> bool {
        self.fixed8
    }

    /// Where the places of the table's removed records go, if they serve no other table.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Which partition its keys belong to.
    #[inline(always)]
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }

    /// Which ranges of its keys were changed.
    pub fn touched(&self) -> &Touched {
        &self.touched
    }

    /// The tree, if it is plain: one look tells the steps of most tables which way to go.
    #[inline(always)]
    fn plain(&self) -> Option<&masstree::Masstree> {
        match &self.tree {
            _ if !self.is_plain => None,
            Tree::Masstree(tree) => Some(tree),
            // SAFETY: `new` has looked at that, and neither changes.
            _ => unsafe { std::hint::unreachable_unchecked() },
        }
    }

    /// What is in front of the tree, if that is not plain.
    ///
    /// # Safety
    /// `plain` has answered that it is not.
    #[inline(always)]
    unsafe fn front_or_other(&self) -> Option<&HashFront> {
        let front = self.front.as_deref();
        if front.is_none() && matches!(self.tree, Tree::Masstree(_)) {
            // SAFETY: by the caller's promise. (So that a plain tree is not compiled into callers a second time.)
            unsafe { std::hint::unreachable_unchecked() };
        }
        front
    }

    /// For the benchmark's hand-written lookups; `None`: they read no index of this kind.
    #[inline(always)]
    pub fn yardstick(&self) -> Option<masstree::Yardstick<'_>> {
        match &self.tree {
            Tree::Masstree(tree) => Some(tree.yardstick()),
            Tree::BTree(_) => None,
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

/// Makes enums of the table of kinds. A line says what the kind is, its name in commands and messages, and its tree,
/// which has `new(slab, fixed8)`, and a `NODE_BYTES` beside it.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $name:literal: $module:ident;)+) => {
        /// The kinds of index.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum IndexKind { $($(#[$about])* $kind,)+ }

        impl IndexKind {
            /// All kinds.
            pub const ALL: &'static [IndexKind] = &[$(IndexKind::$kind,)+];

            /// Its name in commands and messages.
            pub fn name(self) -> &'static str {
                match self { $(IndexKind::$kind => $name,)+ }
            }

            /// The kind of this name.
            pub fn named(name: &str) -> Option<IndexKind> {
                IndexKind::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Bytes of a node, which is aligned to them.
            fn node_bytes(self) -> usize {
                match self { $(IndexKind::$kind => $module::NODE_BYTES,)+ }
            }
        }

        enum Tree { $($kind($module::$kind),)+ }

        impl Tree {
            fn new(kind: IndexKind, slab: Arc<Slab>, fixed8: bool) -> Result<Tree, OutOfMemory> {
                match kind { $(IndexKind::$kind => $module::$kind::new(slab, fixed8).map(Tree::$kind),)+ }
            }

            fn kind(&self) -> IndexKind {
                match self { $(Tree::$kind(_) => IndexKind::$kind,)+ }
            }
        }

        /// A suspended point descent, for the index that began it alone: which says of what kind it is.
        #[derive(Clone, Copy)]
        pub union Cursor { none: (), $($module: <$module::$kind as Index>::Cursor,)+ }

        /// A suspended range walk, for the index that began it alone.
        #[derive(Clone, Copy)]
        pub union Walk { $($module: <$module::$kind as Index>::Walk,)+ }

        /// Calls the tree, whichever it is.
        macro_rules! call {
            ($index:expr, $tree:ident => $call:expr) => {
                match $index { $(Tree::$kind($tree) => $call,)+ }
            };
        }

        /// Begins an operation: its state, of the union `$State`, is what the tree answers.
        macro_rules! begin {
            ($State:ident, $index:expr, $tree:ident => $call:expr) => {
                match $index { $(Tree::$kind($tree) => $State { $module: $call },)+ }
            };
        }

        /// A cursor of a descent that has not begun.
        macro_rules! unbegun {
            ($index:expr, $bucket:expr) => {
                match $index { $(Tree::$kind(_) => Cursor { $module: Unbegun::unbegun($bucket) },)+ }
            };
        }

        /// Begins a descent in the place of `$cursor`, and asks for what its first step reads. True: it is a short one.
        macro_rules! begin_in {
            ($index:expr, $key:expr, $cursor:expr) => {
                match $index {
                    $(Tree::$kind(tree) => {
                        let cursor = tree.start($key);
                        tree.prepare(&cursor, &mut PrefetchOnly);
                        *$cursor = Cursor { $module: cursor };
                        tree.is_short(&cursor)
                    })+
                }
            };
        }

        /// Begins an operation where another one, in `$state`, has ended. As `go_on`.
        macro_rules! begin_behind {
            ($State:ident, $index:expr, $tree:ident, $state:ident => $call:expr) => {
                match $index {
                    $(Tree::$kind($tree) => {
                        let $state = &$state.$module;
                        $State { $module: $call }
                    })+
                }
            };
        }

        /// As `begin_behind`, where that may be refused.
        macro_rules! begin_near {
            ($index:expr, $tree:ident, $cursor:ident => $call:expr) => {
                match $index {
                    $(Tree::$kind($tree) => {
                        let $cursor = &$cursor.$module;
                        ($call).map(|near| Cursor { $module: near })
                    })+
                }
            };
        }

        /// Calls the tree with the state of an operation that it has begun. To be called in an unsafe block: that state
        /// is of this tree's kind.
        macro_rules! go_on {
            ($index:expr, $tree:ident, $state:ident => $call:expr) => {
                match $index {
                    $(Tree::$kind($tree) => {
                        let $state = &mut $state.$module;
                        $call
                    })+
                }
            };
        }

        /// As `go_on`, for calls that leave the state as it is.
        macro_rules! look_at {
            ($index:expr, $tree:ident, $state:ident => $call:expr) => {
                match $index {
                    $(Tree::$kind($tree) => {
                        let $state = &$state.$module;
                        $call
                    })+
                }
            };
        }
    };
}

kinds! {
    /// Masstree: a trie of B+-trees, each of which goes by eight bytes of the key. The default.
    #[default]
    Masstree = "masstree": masstree;
    /// A B+-tree with optimistic lock coupling.
    BTree = "btree": btree;
}

impl Cursor {
    /// No descent: one is to be begun in its place.
    pub const NONE: Cursor = Cursor { none: () };
}

impl TableIndex {
    /// Begins a descent in the place of `cursor`, and asks for the memory that its first step reads. Returns true if it is a short
    /// one, as [`Index::is_short`]. (A cursor that is returned is copied in wider words than it was stored in just before, for
    /// which a processor has to wait.)
    #[inline(always)]
    pub fn start_in(&self, key: &Key, cursor: &mut Cursor) -> bool {
        if let Some(tree) = self.plain() {
            let begun = tree.start(key);
            *cursor = Cursor { masstree: begun };
            // SAFETY: just begun by this tree.
            return unsafe {
                tree.prepare(&begun, &mut PrefetchOnly);
                tree.is_short(&begun)
            };
        }
        // SAFETY: `prepare` and `is_short` are called with what `start` of the same tree has returned.
        let is_short = unsafe { begin_in!(&self.tree, key, cursor) };
        if !is_short
            // SAFETY: it is not plain.
            && let Some(front) = unsafe { self.front_or_other() }
            && let Some(bucket) = front.bucket_of(key)
        {
            *cursor = unbegun!(&self.tree, bucket);
            prefetch::<1>(front.at(bucket));
        }
        is_short
    }
}

// ---- what is different where there is a front
impl TableIndex {
    /// Where to look for a key first, if not in the tree.
    #[inline(always)]
    fn bucket_of(&self, key: &Key) -> Option<(&HashFront, u32)> {
        let front = self.front.as_deref()?;
        front.bucket_of(key).map(|bucket| (front, bucket))
    }

    /// The bucket that a cursor is at, or has found its record in: then it is no place in the tree.
    ///
    /// # Safety
    /// The cursor is of this index.
    #[inline(always)]
    unsafe fn bucket_at(&self, cursor: &Cursor) -> Option<u32> {
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, cursor => { let _ = tree; cursor.bucket() }) }
    }

    /// As `step`: a look into the front, then as in any tree.
    ///
    /// # Safety
    /// As `step`.
    #[inline(never)]
    unsafe fn step_by<S: Suspend>(
        &self,
        front: &HashFront,
        cursor: &mut Cursor,
        key: &Key,
        s: &mut S,
    ) -> Probe {
        // SAFETY: by the caller's promise.
        if let Some(bucket) = unsafe { self.bucket_at(cursor) } {
            if let Some(id) = front.find(bucket, key) {
                return Probe::Found(id);
            }
            *cursor = begin!(Cursor, &self.tree, tree => tree.start(key));
            // SAFETY: just begun.
            if unsafe { look_at!(&self.tree, tree, cursor => tree.prepare(cursor, s)) } {
                return Probe::Suspended;
            }
        }
        // SAFETY: by the caller's promise.
        let probe = unsafe { go_on!(&self.tree, tree, cursor => tree.step(cursor, key, s)) };
        if let Probe::Found(_) = probe {
            // SAFETY: as above.
            front.note(key, || unsafe { self.find_in_tree(key) });
        }
        probe
    }

    /// What the tree has under a key.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn find_in_tree(&self, key: &Key) -> Option<RecordId> {
        let mut cursor = begin!(Cursor, &self.tree, tree => tree.start(key));
        let cursor = &mut cursor;
        loop {
            // SAFETY: by the caller's promise.
            match unsafe { go_on!(&self.tree, tree, cursor => tree.step(cursor, key, &mut Never)) } {
                Probe::Suspended => {}
                Probe::Absent => return None,
                Probe::Found(id) => return Some(id),
            }
        }
    }

    /// As `insert`, of a key that the front may have.
    ///
    /// # Safety
    /// As `insert`.
    #[inline(never)]
    unsafe fn insert_by(
        &self,
        front: &HashFront,
        local: &Local,
        cursor: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        // SAFETY: by the caller's promise.
        let cursor = &match unsafe { self.bucket_at(cursor) } {
            Some(_) => begin!(Cursor, &self.tree, tree => tree.start(key)),
            None => *cursor,
        };
        // SAFETY: by the caller's promise; the cursor is in the tree.
        let insert = || unsafe { look_at!(&self.tree, tree, cursor => tree.insert(local, cursor, key, id)) };
        front.insert(key, id, insert)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").finish_non_exhaustive()
    }
}

impl Index for TableIndex {
    type Cursor = Cursor;
    type Walk = Walk;

    #[inline(always)]
    fn start(&self, key: &Key) -> Cursor {
        if let Some((_, bucket)) = self.bucket_of(key) {
            return unbegun!(&self.tree, bucket);
        }
        begin!(Cursor, &self.tree, tree => tree.start(key))
    }

    #[inline(always)]
    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        // SAFETY: by the caller's promise.
        if self.front.is_some() && unsafe { self.bucket_at(cursor) }.is_some() {
            return self.start(key);
        }
        // SAFETY: by the caller's promise, and so the cursor is of this kind.
        unsafe { begin_behind!(Cursor, &self.tree, tree, cursor => tree.start_behind(cursor, behind, key)) }
    }

    #[inline(always)]
    unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
        // SAFETY: by the caller's promise.
        if self.front.is_some() && unsafe { self.bucket_at(cursor) }.is_some() {
            return None;
        }
        // SAFETY: by the caller's promise, and so the cursor is of this kind.
        unsafe { begin_near!(&self.tree, tree, cursor => tree.start_near(cursor, behind, key)) }
    }

    #[inline(always)]
    unsafe fn is_short(&self, cursor: &Cursor) -> bool {
        // SAFETY: by the caller's promise.
        match self.front.is_some() && unsafe { self.bucket_at(cursor) }.is_some() {
            true => false, // the front is one line of many
            // SAFETY: by the caller's promise.
            false => unsafe { look_at!(&self.tree, tree, cursor => tree.is_short(cursor)) },
        }
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        if let Some(front) = &self.front
            // SAFETY: by the caller's promise.
            && let Some(bucket) = unsafe { self.bucket_at(cursor) }
        {
            return s.miss::<1>(front.at(bucket));
        }
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, cursor => tree.prepare(cursor, s)) }
    }

    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        if let Some(tree) = self.plain() {
            // SAFETY: by the caller's promise.
            return unsafe { tree.step(&mut cursor.masstree, key, s) };
        }
        // SAFETY: it is not plain.
        if let Some(front) = unsafe { self.front_or_other() } {
            // SAFETY: by the caller's promise.
            return unsafe { self.step_by(front, cursor, key, s) };
        }
        // SAFETY: by the caller's promise.
        unsafe { go_on!(&self.tree, tree, cursor => tree.step(cursor, key, s)) }
    }

    #[inline]
    unsafe fn insert(
        &self,
        local: &Local,
        cursor: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        if let Some(front) = &self.front {
            // SAFETY: by the caller's promise.
            return unsafe { self.insert_by(front, local, cursor, key, id) };
        }
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, cursor => tree.insert(local, cursor, key, id)) }
    }

    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
        // SAFETY: by the caller's promise.
        let remove = || call!(&self.tree, tree => unsafe { tree.remove(local, key, id) });
        match &self.front {
            Some(front) => front.remove(key, id, remove),
            None => remove(),
        }
    }

    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
        // SAFETY: by the caller's promise.
        begin!(Walk, &self.tree, tree => unsafe { tree.walk(from, reverse, page) })
    }

    #[inline]
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        // SAFETY: by the caller's promise.
        unsafe { go_on!(&self.tree, tree, walk => tree.next_page(walk, page, s)) }
    }

    #[inline(always)]
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, walk => tree.prepare_page(walk, s)) };
    }

    #[inline]
    fn is_as_marked(&self, mark: &Mark) -> bool {
        call!(&self.tree, tree => tree.is_as_marked(mark))
    }

    #[inline]
    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        // SAFETY: by the caller's promise.
        call!(&self.tree, tree => unsafe { tree.raise_stamp(mark, stamp) });
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        // SAFETY: by the caller's promise.
        call!(&self.tree, tree => unsafe { tree.stamp_of(key) })
    }

    // (The front's memory goes with it; nobody looks into it any more.)
    unsafe fn clear(&self, local: &Local) {
        // SAFETY: by the caller's promise.
        call!(&self.tree, tree => unsafe { tree.clear(local) });
    }

    fn lose_stamps(&mut self) {
        call!(&mut self.tree, tree => tree.lose_stamps());
    }
}

#[cfg(test)]
impl super::model::Checked for TableIndex {
    /// The tree, and that all entries of the front are entries of the tree.
    fn check_structure(&self) {
        call!(&self.tree, tree => super::model::Checked::check_structure(tree));
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
