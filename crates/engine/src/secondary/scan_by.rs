//! Scans of an index: entries page by page, and the rows that they name.

use super::extract::{encode_prefix, encode_range};
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::ops::{Rows, TxnState, in_row};
use crate::table::{AsKey, Index, Key, PrefixMatch, Value, decode_whole, index_key, split_entry};
use crate::txn::{Transaction, Txn};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A row's key in the index, its own key, and its value.
type IndexRow<'t, I, K, V> = (I, K, <V as Value>::View<'t>);

/// Rows in the order of an index's keys. Rows with the same index key are in the order of their own keys. Made by
/// [`Txn::scan_by`](crate::Txn::scan_by) and [`Txn::scan_by_prefix`](crate::Txn::scan_by_prefix).
///
/// Values are borrowed until the transaction ends. Keys are decoded. Rows that the transaction itself has written are
/// included as they are when the scan reaches them.
pub struct IndexRows<'t, I, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    /// The entries, by their bytes.
    rows: Rows<'t, Vec<u8>, [u8], C>,
    is_unique: bool,
    /// The prefix of the keys, if the bounds of the scan include other keys.
    prefix: Option<Box<[u8]>>,
    types: PhantomData<fn(I, K, &V)>,
}

impl<I, K, V: Value + ?Sized, C: ConcurrencyControl> fmt::Debug for IndexRows<'_, I, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexRows").field("entries", &self.rows).finish_non_exhaustive()
    }
}

impl<'t, I: Key, K: Key, V: Value + ?Sized, C: ConcurrencyControl> IndexRows<'t, I, K, V, C> {
    fn all(txn: &'t TxnState<C>, index: Index<I, K, V>) -> Self {
        let index = index.inner(txn.database);
        let mut rows = Rows::over(txn, index.map(|index| &index.entries));
        let mut is_unique = false;
        if let Ok(index) = index {
            is_unique = index.is_unique;
            rows.run().base = index.base;
            rows.fault = index.check_snapshot(txn.snapshot_timestamp()).err();
        }
        IndexRows { rows, is_unique, prefix: None, types: PhantomData }
    }

    fn new<A: AsKey<I>>(txn: &'t TxnState<C>, index: Index<I, K, V>, range: impl RangeBounds<A>) -> Self {
        let mut all = IndexRows::all(txn, index);
        let (is_unique, run) = (all.is_unique, all.rows.run());
        let bounds = (range.start_bound(), range.end_bound());
        match encode_range(bounds, is_unique, &mut run.from, &mut run.to) {
            Ok(true) => {}
            Ok(false) => all.rows.left = 0,
            Err(fault) => all.rows.fault = Some(fault),
        }
        all
    }

    fn with_prefix(txn: &'t TxnState<C>, index: Index<I, K, V>, prefix: &[u8]) -> Self {
        let mut all = IndexRows::all(txn, index);
        let (is_unique, run) = (all.is_unique, all.rows.run());
        match encode_prefix::<I>(prefix, is_unique, &mut run.from, &mut run.to) {
            PrefixMatch::All => {}
            PrefixMatch::Some => all.prefix = Some(prefix.into()),
            PrefixMatch::None => all.rows.left = 0,
        }
        all
    }

    /// Returns the rows in descending order. Call this before the first row is read.
    pub fn reverse(mut self) -> Self {
        self.rows = self.rows.reverse();
        self
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get). Call this before the first row is read.
    pub fn untracked(mut self) -> Self {
        self.rows = self.rows.untracked();
        self
    }

    /// Returns at most `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.rows = self.rows.limit(rows);
        self
    }

    /// Returns only the entries, by their whole keys, from after the one with the key `behind` on, untracked. The
    /// rows that they name are not read.
    pub(crate) fn entries(mut self, behind: Option<&[u8]>) -> Rows<'t, Vec<u8>, [u8], C> {
        let run = self.rows.run();
        run.base = std::ptr::null();
        if let Some(key) = behind {
            run.from = Bound::Excluded(key.to_vec());
        }
        self.rows.untracked()
    }

    /// Returns the next row, with its key in the index, or `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "it is an asynchronous iterator's next")]
    pub fn next(&mut self) -> NextIndexRow<'_, 't, I, K, V, C> {
        NextIndexRow(self)
    }

    fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Option<IndexRow<'t, I, K, V>>>> {
        let (txn, is_unique, prefix) = (self.rows.txn, self.is_unique, self.prefix.as_deref());
        self.rows.poll_row(context, |run, at, _, entry| {
            // SAFETY: not borrowed outside of single calls.
            let state = unsafe { &mut *txn.scheme.get() };
            // SAFETY: the transaction's own run, which is settled.
            let value = unsafe { run.read_followed(at, state) };
            let refuse = |refused| {
                let (index, key, record) = run.name_followed(at);
                txn.refuse_read(refused, index, &key, record)
            };
            let Some(value) = value.map_err(refuse)? else { return Ok(None) };
            let bytes = run.key_bytes(at);
            let mut rest = bytes;
            // An entry that cannot be read is named by the index's own key.
            let malformed = || in_row(Error::malformed(I::NAME, bytes.len()), run.table, index_key(bytes));
            let entry_key = I::decode(is_unique, &mut rest).ok_or_else(malformed)?;
            if prefix.is_some_and(|prefix| !begins_with(&entry_key, prefix)) {
                return Ok(None);
            }
            let key_bytes = if is_unique { split_entry(entry).1 } else { rest };
            let in_base = |error| in_row(error, run.base, index_key(key_bytes));
            let key = decode_whole(key_bytes).map_err(in_base)?;
            // SAFETY: `value` promises the bytes until the transaction ends.
            let value = V::view(unsafe { &*value }).map_err(in_base)?;
            Ok(Some((entry_key, key, value)))
        })
    }
}

/// Returns true if a key, encoded with nothing after it, begins with `prefix`.
#[cold]
fn begins_with<I: Key>(key: &I, prefix: &[u8]) -> bool {
    let mut bytes = Vec::new();
    key.encode(true, &mut bytes);
    bytes.starts_with(prefix)
}

/// The future of [`IndexRows::next`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct NextIndexRow<'r, 't, I, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable>(
    &'r mut IndexRows<'t, I, K, V, C>,
);

impl<'t, I: Key, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Future
    for NextIndexRow<'_, 't, I, K, V, C>
{
    type Output = Result<Option<(I, K, V::View<'t>)>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_next(context)
    }
}

// ---- the closure's side
impl<C: ConcurrencyControl> Txn<C> {
    /// Scans the rows whose keys in an index are in a range, in order: see [`IndexRows`].
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let people: Table<u64, str> = db.table("people")?;
    /// let by_length = db.index(people, "by length", |_, name: &str| Some(name.len() as u32))?;
    /// let mut worker = db.worker();
    /// let found = worker.run(async |tx| {
    ///     for (key, name) in [(1, "Ada"), (2, "Grace"), (3, "Eve")] {
    ///         tx.put(people, key, name).await?;
    ///     }
    ///     let (mut rows, mut found) = (tx.scan_by(by_length, 2..=3), vec![]);
    ///     while let Some((length, key, name)) = rows.next().await? {
    ///         found.push((length, key, name.to_string()));
    ///     }
    ///     Ok(found)
    /// })?;
    /// assert_eq!(found, [(3, 1, "Ada".into()), (3, 3, "Eve".into())]);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan_by<I: Key, K: Key, V: Value + ?Sized, A: AsKey<I>>(
        &self,
        index: Index<I, K, V>,
        range: impl RangeBounds<A>,
    ) -> IndexRows<'_, I, K, V, C> {
        IndexRows::new(self.state(), index, range)
    }

    /// Scans the rows whose encoded keys in an index begin with `prefix`: the first components of a tuple, each as
    /// [`Key::encode`] writes it before another component, or the first bytes of a string. It makes no difference
    /// whether the index is unique.
    ///
    /// In an index that is not unique, keys of a type that implements [`Key`] itself, rather than with `derive` or
    /// [`KeyAs`](crate::KeyAs), are compared one by one. If the type is the last component of a tuple, this applies
    /// to keys with the same components before it.
    ///
    /// ```
    /// # use braiddb::{Database, Key, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let people: Table<u64, str> = db.table("people")?;
    /// let by_name = db.index(people, "by length and name", |_, name: &str| {
    ///     Some((name.len() as u32, name.to_string()))
    /// })?;
    /// let tx = db.begin()?;
    /// for (key, name) in [(1, "Ada"), (2, "Grace"), (3, "Eve")] {
    ///     tx.put(people, key, name)?;
    /// }
    /// let mut prefix = vec![];
    /// 3u32.encode(false, &mut prefix);
    /// let mut rows = tx.scan_by_prefix(by_name, &prefix).reverse();
    /// assert_eq!(rows.next()?, Some(((3, "Eve".to_string()), 3, "Eve")));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan_by_prefix<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        index: Index<I, K, V>,
        prefix: &[u8],
    ) -> IndexRows<'_, I, K, V, C> {
        IndexRows::with_prefix(self.state(), index, prefix)
    }
}

/// The rows of a [`Transaction::scan_by`](crate::Transaction::scan_by).
pub struct OwnedIndexRows<'t, I, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    rows: IndexRows<'t, I, K, V, C>,
    of: &'t Transaction<C>,
}

impl<I, K, V: Value + ?Sized, C: ConcurrencyControl> fmt::Debug for OwnedIndexRows<'_, I, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}

impl<'t, I: Key, K: Key, V: Value + ?Sized, C: ConcurrencyControl> OwnedIndexRows<'t, I, K, V, C> {
    /// Reverses the order, like [`IndexRows::reverse`].
    pub fn reverse(self) -> Self {
        OwnedIndexRows { rows: self.rows.reverse(), of: self.of }
    }

    /// Limits the number of rows, like [`IndexRows::limit`].
    pub fn limit(self, rows: usize) -> Self {
        OwnedIndexRows { rows: self.rows.limit(rows), of: self.of }
    }

    /// Returns the next row, or `None` at the end.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and an iterator's item would say so twice"
    )]
    pub fn next(&mut self) -> Result<Option<(I, K, V::View<'t>)>> {
        let rows = &mut self.rows;
        self.of.now(move |_| rows.next())
    }
}

impl<C: ConcurrencyControl> Transaction<C> {
    /// Scans a range of an index like [`Txn::scan_by`](crate::Txn::scan_by). [`OwnedIndexRows::next`] returns its
    /// rows.
    pub fn scan_by<I: Key, K: Key, V: Value + ?Sized, A: AsKey<I>>(
        &self,
        index: Index<I, K, V>,
        range: impl RangeBounds<A>,
    ) -> OwnedIndexRows<'_, I, K, V, C> {
        OwnedIndexRows { rows: self.txn().scan_by(index, range), of: self }
    }

    /// Scans the rows with a prefix like [`Txn::scan_by_prefix`](crate::Txn::scan_by_prefix).
    pub fn scan_by_prefix<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        index: Index<I, K, V>,
        prefix: &[u8],
    ) -> OwnedIndexRows<'_, I, K, V, C> {
        OwnedIndexRows { rows: self.txn().scan_by_prefix(index, prefix), of: self }
    }

    /// Reads a row by a unique index like [`Txn::get_by`](crate::Txn::get_by).
    pub fn get_by<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        index: Index<I, K, V>,
        key: impl AsKey<I>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.get_by(index, key))
    }
}
