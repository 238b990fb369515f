//! The kinds of index: the table of kinds, and calls of a tree of any kind.
//!
//! A call goes through one `match`. In one table it always takes the same branch, which a processor predicts. Each tree
//! chooses how much of it is compiled into its callers.

use super::hashed::{cuckoo, hopscotch};
use super::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId, Unbegun, btree, bwtree, masstree};
use crate::epoch::Local;
use crate::memory::{OutOfMemory, Slab};
use crate::suspend::Suspend;
use crate::sync::Arc;
use std::ops::Bound;

impl std::str::FromStr for IndexKind {
    type Err = String;

    /// Returns the kind of this name, as commands take it. The error says which names there are.
    fn from_str(name: &str) -> Result<IndexKind, String> {
        let names = IndexKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        IndexKind::named(name)
            .ok_or_else(|| format!("there is no kind of index {name:?}; there are {}", names.join(" and ")))
    }
}

/// Makes enums from the table of kinds. A line of the table has the kind's description, its name in commands and
/// messages, and its tree, which has `new(slab, fixed8)` and a `NODE_BYTES` beside it.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $name:literal: $module:ident;)+) => {
        /// The kinds of index.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum IndexKind { $($(#[$about])* $kind,)+ }

        impl IndexKind {
            /// All kinds.
            pub const ALL: &'static [IndexKind] = &[$(IndexKind::$kind,)+];

            /// Returns the kind's name in commands and messages.
            pub fn name(self) -> &'static str {
                match self { $(IndexKind::$kind => $name,)+ }
            }

            /// Returns the kind of this name.
            pub fn named(name: &str) -> Option<IndexKind> {
                IndexKind::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns the kinds that keep keys in order.
            pub fn ordered() -> impl Iterator<Item = IndexKind> + Clone {
                IndexKind::ALL.iter().copied().filter(|kind| kind.is_ordered())
            }

            /// Returns whether the kind keeps keys in order. A table whose index does not has no scans: its rows are
            /// found only by their keys.
            pub fn is_ordered(self) -> bool {
                match self { $(IndexKind::$kind => <$module::$kind as Index>::IS_ORDERED,)+ }
            }

            /// Returns the bytes of a node, which are also its alignment.
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

            /// Makes a cursor of a descent that has not begun: see [`Unbegun`].
            pub(super) fn unbegun(&self, bucket: u32) -> Cursor {
                match self { $(Tree::$kind(_) => Cursor { $module: Unbegun::unbegun(bucket) },)+ }
            }

            /// Returns the bucket number that the cursor was made with, if its descent has not begun.
            ///
            /// # Safety
            /// The cursor is of this tree.
            pub(super) unsafe fn unbegun_bucket(&self, cursor: &Cursor) -> Option<u32> {
                // SAFETY: the caller has promised that the cursor is of this tree, so it is of this kind.
                match self { $(Tree::$kind(_) => unsafe { cursor.$module }.bucket(),)+ }
            }
        }

        /// A suspended point descent. Only the index that began it may use it, because the index knows its kind.
        #[derive(Clone, Copy)]
        pub union Cursor { none: (), $(pub(super) $module: <$module::$kind as Index>::Cursor,)+ }

        /// A suspended range walk. Only the index that began it may use it.
        #[derive(Clone, Copy)]
        pub union Walk { $($module: <$module::$kind as Index>::Walk,)+ }

        // SAFETY (of every block): the caller has promised that a cursor or a walk is of this tree, so it is of the
        // tree's kind, and the union's field is the one that was written. The rest of the caller's promise is what the
        // tree's method asks for.
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
    /// Masstree: a trie of B+-trees, each of which indexes eight bytes of the key. The default.
    #[default]
    Masstree = "masstree": masstree;
    /// A B+-tree with optimistic lock coupling.
    BTree = "btree": btree;
    /// An Open Bw-tree: its nodes are changed by records that are added before them.
    BwTree = "bwtree": bwtree;
    /// Cuckoo hashing, for tables whose rows are found only by whole keys. A lookup reads two lines of memory, which
    /// are requested at once, whatever the size of the table. There are no scans: see
    /// [`Error::NoOrder`](crate::Error::NoOrder).
    Cuckoo = "cuckoo": cuckoo;
    /// Hopscotch hashing, for the same tables. As a rule, a lookup reads two lines of memory, which are requested at
    /// once. It takes an eighth more memory than cuckoo hashing, and reads one bucket where cuckoo hashing reads two.
    Hopscotch = "hopscotch": hopscotch;
}

impl Cursor {
    /// The cursor of no descent. A descent is to be begun in its place.
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
