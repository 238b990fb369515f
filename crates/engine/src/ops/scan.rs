//! Range scans as the closure sees them.

use super::NO_SLOT;
use super::malformed::in_row;
use super::scan_batch::{Row, ScanBatch, Want};
use super::state::{Op, TxnState};
use crate::cc::{ConcurrencyControl, Refused, Serializable};
use crate::error::{Error, Result};
use crate::table::{AsKey, Fault, Key, Table, TableInner, Value, decode_whole, encode_sought, index_key};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The number of rows in the first run, and the most in a later run. Runs grow, so that a short scan reads little more
/// than it returns and a long scan seldom begins anew. If the limit is known, it sets the size of a run, up to twice
/// the largest run.
const RUN_FIRST: usize = 16;
const RUN_MAX: usize = 256;
/// The number of rows of a scan that count as one operation, because a row is less work than a search for a key.
const ROWS_PER_OPERATION: u32 = 4;
/// The length of every key in a table with keys of fixed length.
const FIXED_BYTES: usize = 8;

/// The rows of a range, in the order of their keys. Made by [`Txn::scan`](crate::Txn::scan) and similar methods.
///
/// Values are borrowed until the transaction ends. Keys are decoded. Rows that the transaction itself has written are
/// included as they are when the scan reaches them.
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let t: Table<(u32, String), u64> = db.table("t")?;
/// let last = db.worker().run(async |tx| {
///     tx.put(t, (1, "a"), 10).await?;
///     tx.put(t, (1, "b"), 11).await?;
///     tx.put(t, (2, "a"), 20).await?;
///     let mut newest = tx.scan(t, (1, "")..(2, "")).reverse().limit(1);
///     newest.next().await
/// })?;
/// assert_eq!(last, Some(((1, "b".to_string()), 11)));
/// # Ok::<(), braiddb::Error>(())
/// ```
pub struct Rows<'t, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    pub(crate) txn: &'t TxnState<C>,
    /// The transaction's own run, lent to this scan. Null after a fault.
    run: *mut ScanBatch<C>,
    pub(crate) fault: Option<Fault>,
    /// The next row of the run, and the end of the rows that may be read now. Equal to `at` if `left` is 0.
    at: usize,
    end: usize,
    /// The number of rows still to return.
    pub(crate) left: usize,
    is_started: bool,
    /// The table has no order of keys to scan by.
    is_refused: bool,
    place: u8,
    types: PhantomData<fn(K, &V)>,
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> fmt::Debug for Rows<'_, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("left", &self.left).finish_non_exhaustive()
    }
}

fn encode_bound<K: Key, A: AsKey<K>>(bound: Bound<&A>, to: &mut Bound<Vec<u8>>) -> Result<(), Fault> {
    let mut bytes = match std::mem::replace(to, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    if let Bound::Included(key) | Bound::Excluded(key) = bound {
        encode_sought(key, &mut bytes)?;
    }
    *to = match bound {
        Bound::Included(_) => Bound::Included(bytes),
        Bound::Excluded(_) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    };
    Ok(())
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Rows<'t, K, V, C> {
    fn empty(txn: &'t TxnState<C>, table: Table<K, V>) -> Self {
        let inner = table.inner(txn.database);
        let mut rows = Rows::over(txn, inner);
        rows.is_refused = inner.is_ok_and(|inner| !inner.kind.options.index.is_ordered());
        rows
    }

    /// Scans all rows between two bounds in the order of the table's index, whatever that is: see
    /// [`Index::order_of`](crate::index::Index::order_of).
    pub(crate) fn in_order_of_index(
        txn: &'t TxnState<C>,
        table: Result<&TableInner, Fault>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Self {
        let mut rows = Rows::over(txn, table);
        let run = rows.run();
        for (bound, to) in [(from, &mut run.from), (to, &mut run.to)] {
            *to = bound.map(|bytes| {
                let mut bytes = bytes.to_vec();
                if K::FIXED8 {
                    bytes.resize(FIXED_BYTES, 0);
                }
                bytes
            });
        }
        rows
    }

    /// Makes a scan of a table whose keys are of type `K`.
    pub(crate) fn over(txn: &'t TxnState<C>, table: Result<&TableInner, Fault>) -> Self {
        let run = txn.runs.take(ScanBatch::new);
        let mut rows = Rows {
            txn,
            run,
            fault: None,
            at: 0,
            end: 0,
            left: usize::MAX,
            is_started: false,
            is_refused: false,
            place: NO_SLOT,
            types: PhantomData,
        };
        let fixed8 = K::FIXED8;
        match table {
            Ok(inner) => rows.run().reset(inner, fixed8),
            Err(fault) => rows.fault = Some(fault),
        }
        rows
    }

    pub(crate) fn new<A: AsKey<K>>(
        txn: &'t TxnState<C>,
        table: Table<K, V>,
        from: Bound<&A>,
        to: Bound<&A>,
    ) -> Self {
        let mut rows = Rows::empty(txn, table);
        let run = rows.run();
        let encoded = encode_bound(from, &mut run.from).and_then(|()| encode_bound(to, &mut run.to));
        if let Err(fault) = encoded {
            rows.fault = Some(fault);
        }
        rows
    }

    pub(crate) fn with_prefix(txn: &'t TxnState<C>, table: Table<K, V>, prefix: &[u8]) -> Self {
        let mut rows = Rows::empty(txn, table);
        if K::FIXED8 && prefix.len() > FIXED_BYTES && !rows.is_refused {
            rows.left = 0; // no key is that long
            return rows;
        }
        let run = rows.run();
        let mut start = prefix.to_vec();
        // The least byte string that is greater than all with the prefix.
        let mut end = prefix.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let has_end = match end.last_mut() {
            Some(byte) => {
                *byte += 1;
                true
            }
            None => false,
        };
        if K::FIXED8 {
            start.resize(FIXED_BYTES, 0);
            end.resize(FIXED_BYTES, 0);
        }
        run.from = Bound::Included(start);
        run.to = if has_end { Bound::Excluded(end) } else { Bound::Unbounded };
        rows
    }

    /// Returns the rows in descending order of keys. Call this before the first row is read.
    pub fn reverse(mut self) -> Self {
        assert!(!self.is_started, "the direction is chosen before the scan starts");
        let run = self.run();
        run.is_reverse = !run.is_reverse;
        std::mem::swap(&mut run.from, &mut run.to);
        self
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get). Call this before the first row is read.
    pub fn untracked(mut self) -> Self {
        assert!(!self.is_started, "tracking is chosen before the scan starts");
        self.run().is_tracked = false;
        self.txn.reads_untracked.set(true);
        self
    }

    /// Returns at most `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.left = self.left.min(rows);
        if self.left == 0 {
            self.end = self.at;
        }
        self
    }

    /// Returns the next row, or `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "it is an asynchronous iterator's next")]
    pub fn next(&mut self) -> NextRow<'_, 't, K, V, C> {
        NextRow(self)
    }

    /// Returns only the next row's key. Values are neither decoded nor checked.
    pub async fn next_key(&mut self) -> Result<Option<K>> {
        std::future::poll_fn(|context| {
            self.poll_row(context, |run, at, row, _| Ok(Some(key_of(run, at, row)?)))
        })
        .await
    }

    /// Calls `f` with the key and the value of each remaining row, in order. This costs a little less per row than a
    /// loop over [`next`](Self::next), because rows that have already been read need no future. If `f` panics and the
    /// scan continues, `f` may get rows again.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let sum = db.worker().run(async |tx| {
    ///     tx.put(t, 1, 10).await?;
    ///     tx.put(t, 2, 20).await?;
    ///     let mut sum = 0;
    ///     tx.scan(t, 1..).for_each(|_, value| sum += value).await?;
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 30);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub async fn for_each(&mut self, mut f: impl FnMut(K, V::View<'t>)) -> Result<()> {
        self.try_for_each(|key, value| {
            f(key, value);
            Ok(())
        })
        .await
    }

    /// Calls `f` like [`for_each`](Self::for_each) until `f` fails, and returns that error. The remaining rows can
    /// still be read.
    pub async fn try_for_each(&mut self, mut f: impl FnMut(K, V::View<'t>) -> Result<()>) -> Result<()> {
        std::future::poll_fn(|context| self.poll_each(context, &mut f)).await
    }

    /// Replaces the content of `chunk` with the next rows, in order: the rows that were read ahead together, at most
    /// some hundreds. Returns false, and an empty chunk, at the end. If a key or a value cannot be decoded, returns
    /// that error, and the chunk has the rows before it.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let sum: u64 = db.worker().run(async |tx| {
    ///     tx.put(t, 1, 10).await?;
    ///     tx.put(t, 2, 20).await?;
    ///     let (mut rows, mut chunk, mut sum) = (tx.scan(t, 0..), Vec::new(), 0);
    ///     while rows.next_chunk(&mut chunk).await? {
    ///         sum += chunk.iter().map(|(_, value)| value).sum::<u64>();
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 30);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub async fn next_chunk(&mut self, chunk: &mut Vec<(K, V::View<'t>)>) -> Result<bool> {
        chunk.clear();
        std::future::poll_fn(|context| self.poll_chunk(context, chunk)).await
    }

    fn poll_chunk(&mut self, context: &Context<'_>, chunk: &mut Vec<(K, V::View<'t>)>) -> Poll<Result<bool>> {
        loop {
            self.give_all(&mut |key, value| {
                chunk.push((key, value));
                Ok(())
            })?;
            if !chunk.is_empty() {
                return Poll::Ready(Ok(true));
            }
            match self.poll_filled(context) {
                Poll::Ready(Ok(true)) => {}
                end => return end,
            }
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn poll_each(
        &mut self,
        context: &Context<'_>,
        f: &mut impl FnMut(K, V::View<'t>) -> Result<()>,
    ) -> Poll<Result<()>> {
        loop {
            self.give_all(f)?;
            match self.poll_filled(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Passes the rows that have already been read to `f`, one by one like `take_row`. The position is kept in
    /// registers, because to the compiler `f` may change any memory. If `f` panics, it gets these rows again.
    #[inline(always)]
    fn give_all(&mut self, f: &mut impl FnMut(K, V::View<'t>) -> Result<()>) -> Result<()> {
        let txn = self.txn;
        // SAFETY: lent to this scan; settled if there is a row to read.
        let run = unsafe { &*self.run };
        let (mut at, mut left) = (self.at, self.left);
        let failed = 'rows: {
            for row in run.rows(self.at, self.end) {
                at += 1;
                // SAFETY: not borrowed outside of single calls.
                let state = unsafe { &mut *txn.scheme.get() };
                // SAFETY: the transaction's own run.
                let value = match unsafe { run.read(row, state) } {
                    Ok(Some(value)) => value,
                    Ok(None) => continue,
                    Err(refused) => break 'rows Some(refuse_row(txn, run, at - 1, refused)),
                };
                left -= 1;
                // SAFETY: `read` promises the bytes until the transaction ends.
                let (key, view) = match row_of::<K, V, C>(run, at - 1, row, unsafe { &*value }) {
                    Ok(row) => row,
                    Err(error) => break 'rows Some(error),
                };
                if let Err(error) = f(key, view) {
                    break 'rows Some(error);
                }
                if left == 0 {
                    break;
                }
            }
            None
        };
        (self.at, self.left) = (at, left);
        if left == 0 {
            self.end = at;
        }
        failed.map_or(Ok(()), Err)
    }

    pub(crate) fn run(&mut self) -> &mut ScanBatch<C> {
        // SAFETY: lent to this scan, and not posted: a posted run is touched by `poll_filled` alone.
        unsafe { &mut *self.run }
    }

    /// Polls for the next row that `view` accepts. `view` may skip rows.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn poll_row<R>(
        &mut self,
        context: &Context<'_>,
        view: impl Fn(&ScanBatch<C>, usize, &Row<C>, &'t [u8]) -> Result<Option<R>>,
    ) -> Poll<Result<Option<R>>> {
        loop {
            // Not `&view`: a call through a reference is not inlined in builds without link-time optimization.
            match self.take_row(|run, at, row, value| view(run, at, row, value)) {
                Some(Ok(viewed)) => return Poll::Ready(viewed),
                Some(Err(refused)) => return Poll::Ready(Err(self.refuse_last(refused))),
                None => {}
            }
            match self.poll_filled(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the next row that has already been read and that `view` accepts. Needs neither an epoch nor a worker's
    /// context. `None` if no such row is left.
    #[inline(always)]
    pub(crate) fn take_row<R>(
        &mut self,
        view: impl Fn(&ScanBatch<C>, usize, &Row<C>, &'t [u8]) -> Result<Option<R>>,
    ) -> Option<Taken<R>> {
        // SAFETY: lent to this scan; settled if there is a row to read.
        let run = unsafe { &*self.run };
        while self.at < self.end {
            let (at, row) = (self.at, run.row(self.at));
            self.at += 1;
            // SAFETY: not borrowed outside of single calls.
            let state = unsafe { &mut *self.txn.scheme.get() };
            // SAFETY: the transaction's own run.
            let value = match unsafe { run.read(row, state) } {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                Err(refused) => return Some(Err(refused)),
            };
            // SAFETY: `read` promises the bytes until the transaction ends.
            let viewed = view(run, at, row, unsafe { &*value });
            if let Ok(None) = viewed {
                continue;
            }
            self.left -= 1;
            if self.left == 0 {
                self.end = self.at;
            }
            return Some(Ok(viewed));
        }
        None
    }

    /// Fails the scan because the row that was taken last was refused.
    #[cold]
    pub(crate) fn refuse_last(&mut self, refused: Refused) -> Error {
        let (txn, at) = (self.txn, self.at - 1);
        refuse_row(txn, self.run(), at, refused)
    }

    /// Waits until more rows are there (true) or nothing is left to return (false).
    fn poll_filled(&mut self, context: &Context<'_>) -> Poll<Result<bool>> {
        debug_assert!(self.at == self.end);
        loop {
            if self.place != NO_SLOT {
                if !self.txn.is_done(self.place) {
                    return self.txn.pend(context);
                }
                self.txn.release(self.place);
                self.place = NO_SLOT;
                if self.settle()? {
                    self.post()?;
                    continue;
                }
            }
            if self.left == 0 || self.fault.is_none() && self.at < self.end {
                return Poll::Ready(Ok(self.left > 0));
            }
            if let Some(fault) = self.fault {
                return Poll::Ready(Err(self.txn.doom(fault).into()));
            }
            if self.run().is_finished {
                return Poll::Ready(Ok(false));
            }
            self.refill()?;
        }
    }

    /// Posts the next run, or runs it in place as long as it does not have to wait.
    fn refill(&mut self) -> Result<()> {
        if self.is_refused {
            return Err(self.no_order());
        }
        let is_first = !std::mem::replace(&mut self.is_started, true);
        let last = self.run().want;
        let want = match last {
            _ if self.left <= 2 * RUN_MAX && is_first => Want::Exactly(self.left),
            // The scan did not see some rows, so more may come.
            _ if self.left <= 2 * RUN_MAX => Want::About(self.left),
            _ if self.left < usize::MAX => Want::About(RUN_MAX),
            Want::About(last) if !is_first => Want::About(RUN_MAX.min(2 * last)),
            _ => Want::About(RUN_FIRST),
        };
        (self.at, self.end) = (0, 0);
        // A scan that has returned rows, or will return many, reaches later batches without having met dead keys.
        let goes_on = (2 * RUN_MAX + 1..usize::MAX).contains(&self.left);
        let run = self.run();
        if goes_on {
            run.batches = 0;
        }
        run.restart(want);
        self.post()
    }

    #[cold]
    fn no_order(&mut self) -> Error {
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*self.run().table };
        Error::NoOrder { table: table.name(), index: table.kind.options.index.name() }
    }

    fn post(&mut self) -> Result<()> {
        loop {
            if let Some(place) = self.txn.post(Op::ScanBatch(self.run)) {
                self.place = place;
                return Ok(());
            }
            if !self.txn.run_run(self.run) {
                self.place = self.txn.post_waiting(Op::ScanBatch(self.run))?;
                return Ok(());
            }
            if self.run().len() >= RUN_MAX {
                // A long scan in place: its worker does nothing else, and must not hold up what other transactions
                // supersede meanwhile.
                C::refresh(self.txn.context().env());
            }
            if !self.settle()? {
                return Ok(());
            }
        }
    }

    /// Returns true if the run has more to do.
    fn settle(&mut self) -> Result<bool> {
        let txn = self.txn;
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &mut *txn.scheme.get() };
        txn.count_operations(self.run().len() as u32 / ROWS_PER_OPERATION);
        let run = self.run();
        match run.settle(state) {
            Ok(false) => {}
            Ok(true) => return Ok(true),
            Err((at, refused)) => {
                return Err(
                    at.map_or_else(|| txn.refuse(refused).into(), |at| refuse_row(txn, run, at, refused))
                );
            }
        }
        self.run().changes = C::savepoint(state);
        self.end = if self.left == 0 { 0 } else { self.run().len() };
        txn.recent.note_rows(self.run);
        Ok(false)
    }
}

/// Fails a scan because this row was refused, and records the transaction that is in the way, if there is one.
#[cold]
#[inline(never)]
fn refuse_row<C: ConcurrencyControl>(
    txn: &TxnState<C>,
    run: &ScanBatch<C>,
    at: usize,
    refused: Refused,
) -> Error {
    let (index, key, record) = run.name(at);
    txn.refuse_read(refused, index, &key, record).into()
}

/// Returns the key of a row.
#[inline(always)]
fn key_of<K: Key, C: ConcurrencyControl>(run: &ScanBatch<C>, at: usize, row: &Row<C>) -> Result<K> {
    let decoded = match K::FIXED8 {
        true => decode_whole(&row.key_of_eight()),
        false => decode_whole(run.key_bytes(at)),
    };
    match decoded {
        Ok(key) => Ok(key),
        Err(error) => Err(in_row_at::<K, C>(error, run, at, row)),
    }
}

/// Returns a row with these bytes as its value.
#[inline(always)]
fn row_of<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl>(
    run: &ScanBatch<C>,
    at: usize,
    row: &Row<C>,
    value: &'t [u8],
) -> Result<(K, V::View<'t>)> {
    let view = match V::view(value) {
        Ok(view) => view,
        Err(error) => return Err(in_row_at::<K, C>(error, run, at, row)),
    };
    Ok((key_of(run, at, row)?, view))
}

/// Adds the row to a decoding error.
#[inline(always)]
fn in_row_at<K: Key, C: ConcurrencyControl>(
    error: Error,
    run: &ScanBatch<C>,
    at: usize,
    row: &Row<C>,
) -> Error {
    match K::FIXED8 {
        true => in_row(error, run.table, index_key(&row.key_of_eight())),
        false => in_row(error, run.table, index_key(run.key_bytes(at))),
    }
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> Drop for Rows<'_, K, V, C> {
    fn drop(&mut self) {
        if self.place != NO_SLOT {
            self.txn.release(self.place);
        }
        self.txn.runs.give_back(self.run);
    }
}

/// The future of [`Rows::next`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct NextRow<'r, 't, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable>(
    &'r mut Rows<'t, K, V, C>,
);

/// The next key and its value, or `None` at the end.
type NextPair<'t, K, V> = Result<Option<(K, <V as Value>::View<'t>)>>;

/// A row as it was viewed, or why the scheme does not show it.
type Taken<R> = Result<Result<Option<R>>, Refused>;

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Rows<'t, K, V, C> {
    /// Takes a row like `take_row`, with its key and its value.
    #[inline(always)]
    pub(crate) fn take_pair(&mut self) -> Option<Taken<(K, V::View<'t>)>> {
        self.take_row(|run, at, row, value| Ok(Some(row_of::<K, V, C>(run, at, row, value)?)))
    }

    /// Polls for a row like `poll_row`, with its key and its value.
    #[inline(always)]
    pub(super) fn poll_pair(&mut self, context: &Context<'_>) -> Poll<NextPair<'t, K, V>> {
        self.poll_row(context, |run, at, row, value| Ok(Some(row_of::<K, V, C>(run, at, row, value)?)))
    }
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Future for NextRow<'_, 't, K, V, C> {
    type Output = NextPair<'t, K, V>;
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_pair(context)
    }
}
