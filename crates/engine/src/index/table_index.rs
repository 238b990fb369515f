//! The index of one table: a tree of one of the kinds, and what is the same for all kinds.
//!
//! The table of kinds is here. Calls go through one `match`, always the same way in one table, which a processor
//! predicts; how much of a tree is compiled into its callers is the tree's own choice.

use super::touched::Touched;
use super::{Index, Inserted, Key, Mark, Nodes, Page, Paged, Probe, RecordId, btree, masstree};
use crate::epoch::Local;
use crate::memory::{OutOfMemory, Slab};
use crate::record::Kept;
use crate::suspend::Suspend;
use crate::sync::Arc;
use std::ops::Bound;

/// The number of indexes that hold what is derived from other tables: no log and no checkpoint has their records.
pub const DERIVED: u32 = u32::MAX;

/// What an index is to be.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// Which kind.
    pub kind: IndexKind,
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
    fixed8: bool,
    number: u32,
    /// Places of removed records that only this index will name again.
    kept: Kept,
    /// Which ranges of its keys were changed: noted when changes are logged. (Apart, as descents need the rest.)
    touched: Box<Touched>,
}

impl TableIndex {
    /// An empty index.
    pub fn new(nodes: &Nodes, options: IndexOptions) -> Result<TableIndex, OutOfMemory> {
        let IndexOptions { kind, fixed8, number } = options;
        let tree = Tree::new(kind, nodes.of(kind.node_bytes())?, fixed8)?;
        Ok(TableIndex { tree, fixed8, number, kept: Kept::new(), touched: Box::default() })
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

    /// Which ranges of its keys were changed.
    pub fn touched(&self) -> &Touched {
        &self.touched
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

        /// Begins a descent in the place of `$cursor`, and asks for what its first step reads.
        macro_rules! begin_in {
            ($index:expr, $key:expr, $cursor:expr) => {
                match $index {
                    $(Tree::$kind(tree) => {
                        let cursor = tree.start($key);
                        tree.prepare(&cursor);
                        *$cursor = Cursor { $module: cursor };
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
    /// Begins a descent in the place of `cursor`, and asks for the memory that its first step reads. (A cursor that is returned
    /// is copied in wider words than it was stored in just before, for which a processor has to wait.)
    #[inline(always)]
    pub fn start_in(&self, key: &Key, cursor: &mut Cursor) {
        // SAFETY: `prepare` is called with what `start` of the same tree has returned.
        unsafe { begin_in!(&self.tree, key, cursor) };
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
        begin!(Cursor, &self.tree, tree => tree.start(key))
    }

    #[inline(always)]
    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        // SAFETY: by the caller's promise, and so the cursor is of this kind.
        unsafe { begin_behind!(Cursor, &self.tree, tree, cursor => tree.start_behind(cursor, behind, key)) }
    }

    #[inline(always)]
    unsafe fn prepare(&self, cursor: &Cursor) {
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, cursor => tree.prepare(cursor)) };
    }

    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
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
        // SAFETY: by the caller's promise.
        unsafe { look_at!(&self.tree, tree, cursor => tree.insert(local, cursor, key, id)) }
    }

    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
        // SAFETY: by the caller's promise.
        call!(&self.tree, tree => unsafe { tree.remove(local, key, id) })
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

    unsafe fn clear(&self, local: &Local) {
        // SAFETY: by the caller's promise.
        call!(&self.tree, tree => unsafe { tree.clear(local) });
    }

    fn lose_stamps(&mut self) {
        call!(&mut self.tree, tree => tree.lose_stamps());
    }
}
