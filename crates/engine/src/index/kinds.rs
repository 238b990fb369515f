//! The kinds of index: the table of kinds, and calls of a tree of any of them.
//!
//! A call goes through one `match`, always the same way in one table, which a processor predicts; how much of a tree is compiled
//! into its callers is the tree's own choice.

use super::hashed::{cuckoo, hopscotch};
use super::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId, Unbegun, btree, bwtree, masstree};
use crate::epoch::Local;
use crate::memory::{OutOfMemory, Slab};
use crate::suspend::Suspend;
use crate::sync::Arc;
use std::ops::Bound;

impl std::str::FromStr for IndexKind {
    type Err = String;

    /// The kind of this name, as commands take it; else an error that says which names there are.
    fn from_str(name: &str) -> Result<IndexKind, String> {
        let names = IndexKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        IndexKind::named(name)
            .ok_or_else(|| format!("there is no kind of index {name:?}; there are {}", names.join(" and ")))
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

            /// Those that keep keys in their order.
            pub fn ordered() -> impl Iterator<Item = IndexKind> + Clone {
                IndexKind::ALL.iter().copied().filter(|kind| kind.is_ordered())
            }

            /// Whether it keeps keys in their order. A table with an index that does not has no scans: its rows are found by
            /// their keys alone.
            pub fn is_ordered(self) -> bool {
                match self { $(IndexKind::$kind => <$module::$kind as Index>::IS_ORDERED,)+ }
            }

            /// Bytes of a node, which is aligned to them.
            pub(super) fn node_bytes(self) -> usize {
                match self { $(IndexKind::$kind => $module::NODE_BYTES,)+ }
            }
        }

        /// A tree (or a hash table) of any kind.
        pub(super) enum Tree { $($kind($module::$kind),)+ }

        impl Tree {
            pub(super) fn new(kind: IndexKind, slab: Arc<Slab>, fixed8: bool) -> Result<Tree, OutOfMemory> {
                match kind { $(IndexKind::$kind => $module::$kind::new(slab, fixed8).map(Tree::$kind),)+ }
            }

            pub(super) fn kind(&self) -> IndexKind {
                match self { $(Tree::$kind(_) => IndexKind::$kind,)+ }
            }

            /// A cursor of a descent that has not begun: see [`Unbegun`].
            pub(super) fn unbegun(&self, bucket: u32) -> Cursor {
                match self { $(Tree::$kind(_) => Cursor { $module: Unbegun::unbegun(bucket) },)+ }
            }

            /// The number that it was made with, if it has not begun.
            ///
            /// # Safety
            /// The cursor is of this tree.
            pub(super) unsafe fn unbegun_bucket(&self, cursor: &Cursor) -> Option<u32> {
                // SAFETY: by the caller's promise it is of this kind.
                match self { $(Tree::$kind(_) => unsafe { cursor.$module }.bucket(),)+ }
            }
        }

        /// A suspended point descent, for the index that began it alone: which says of what kind it is.
        #[derive(Clone, Copy)]
        pub union Cursor { none: (), $(pub(super) $module: <$module::$kind as Index>::Cursor,)+ }

        /// A suspended range walk, for the index that began it alone.
        #[derive(Clone, Copy)]
        pub union Walk { $($module: <$module::$kind as Index>::Walk,)+ }

        // SAFETY (of every block): by the caller's promise a cursor or a walk is of this tree, and so of its kind; the rest of the
        // promise is passed on.
        impl Index for Tree {
            type Cursor = Cursor;
            type Walk = Walk;

            fn start(&self, key: &Key) -> Cursor {
                match self { $(Tree::$kind(tree) => Cursor { $module: tree.start(key) },)+ }
            }

            unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe {
                    Cursor { $module: tree.start_behind(&cursor.$module, behind, key) }
                },)+ }
            }

            unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe {
                    tree.start_near(&cursor.$module, behind, key).map(|near| Cursor { $module: near })
                },)+ }
            }

            unsafe fn is_short(&self, cursor: &Cursor) -> bool {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.is_short(&cursor.$module) },)+ }
            }

            #[inline]
            unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.prepare(&cursor.$module, s) },)+ }
            }

            #[inline]
            unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.step(&mut cursor.$module, key, s) },)+ }
            }

            #[inline]
            unsafe fn insert(
                &self,
                local: &Local,
                cursor: &Cursor,
                key: &Key,
                id: RecordId,
            ) -> Result<Inserted, OutOfMemory> {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.insert(local, &cursor.$module, key, id) },)+ }
            }

            unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.remove(local, key, id) },)+ }
            }

            unsafe fn look(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.look(key, page) },)+ }
            }

            fn order_of(&self, key: &Key, order: &mut Vec<u8>) {
                match self { $(Tree::$kind(tree) => tree.order_of(key, order),)+ }
            }

            unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { Walk { $module: tree.walk(from, reverse, page) } },)+ }
            }

            #[inline]
            unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.next_page(&mut walk.$module, page, s) },)+ }
            }

            #[inline(always)]
            unsafe fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.prepare_page(&walk.$module, s) },)+ }
            }

            #[inline]
            fn is_as_marked(&self, mark: &Mark) -> bool {
                match self { $(Tree::$kind(tree) => tree.is_as_marked(mark),)+ }
            }

            #[inline]
            unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.raise_stamp(mark, stamp) },)+ }
            }

            unsafe fn stamp_of(&self, key: &Key) -> u64 {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.stamp_of(key) },)+ }
            }

            fn reserve(&self, local: &Local, keys: u64) {
                match self { $(Tree::$kind(tree) => tree.reserve(local, keys),)+ }
            }

            unsafe fn clear(&self, local: &Local) {
                // SAFETY: see above.
                match self { $(Tree::$kind(tree) => unsafe { tree.clear(local) },)+ }
            }

            fn lose_stamps(&mut self) {
                match self { $(Tree::$kind(tree) => tree.lose_stamps(),)+ }
            }
        }

        #[cfg(test)]
        impl super::model::Checked for Tree {
            fn check_structure(&self) {
                match self { $(Tree::$kind(tree) => super::model::Checked::check_structure(tree),)+ }
            }
        }
    };
}

kinds! {
    /// Masstree: a trie of B+-trees, each of which goes by eight bytes of the key. The default.
    #[default]
    Masstree = "masstree": masstree;
    /// A B+-tree with optimistic lock coupling.
    BTree = "btree": btree;
    /// An Open Bw-tree: nodes that are changed by records in front of what they were.
    BwTree = "bwtree": bwtree;
    /// Cuckoo hashing, for tables whose rows are found by whole keys alone: two lines of memory per lookup, which are asked for at once,
    /// whatever the size of the table. It has no scans: see [`Error::NoOrder`](crate::Error::NoOrder).
    Cuckoo = "cuckoo": cuckoo;
    /// Hopscotch hashing, for the same tables: as a rule two lines of memory per lookup, which are asked for at once. It takes an eighth
    /// more memory than cuckoo hashing, and reads one bucket where that reads two.
    Hopscotch = "hopscotch": hopscotch;
}

impl Cursor {
    /// No descent: one is to be begun in its place.
    pub const NONE: Cursor = Cursor { none: () };
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
