//! Range scans as the closure sees them.

use super::fault::Fault;
use super::handle::Txn;
use super::key::{AsKey, Key, decode_whole, encode_whole};
use super::mailbox::{NOWHERE, Op};
use super::run::Run;
use super::table::Table;
use super::value::Value;
use crate::cc::{Abort, ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Rows of the first run, and the most of a later one. Runs grow, so that a short scan reads little
/// more than it returns and a long one seldom begins anew.
const RUN_FIRST: usize = 16;
const RUN_MAX: usize = 128;
/// Length of every key of a table whose keys are all of that length.
const FIXED_BYTES: usize = 8;

/// The rows of a range, in the order of their keys; made by [`Txn::scan`] and its kin.
///
/// Values are borrowed until the transaction ends; keys are decoded. Rows that the transaction
/// itself has written are included as they are when the scan comes to them.
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
    txn: &'t Txn<C>,
    /// The transaction's own, lent to this scan; null after a fault.
    run: *mut Run<C>,
    fault: Option<Fault>,
    /// Rows of the run that have been returned, and rows to return yet.
    at: usize,
    left: usize,
    is_started: bool,
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
    if let Bound::Included(key) | Bound::Excluded(key) = bound
        && let Err(Error::KeyTooLong { bytes, .. }) = encode_whole(key, &mut bytes)
    {
        return Err(Fault::KeyTooLong { bytes });
    }
    *to = match bound {
        Bound::Included(_) => Bound::Included(bytes),
        Bound::Excluded(_) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    };
    Ok(())
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Rows<'t, K, V, C> {
    fn empty(txn: &'t Txn<C>, table: Table<K, V>) -> Self {
        let run = txn.take_run();
        let mut rows = Rows {
            txn,
            run,
            fault: None,
            at: 0,
            left: usize::MAX,
            is_started: false,
            place: NOWHERE,
            types: PhantomData,
        };
        let fixed8 = K::FIXED8;
        match table.inner(txn.desk.database) {
            Ok(inner) => rows.run().reset(inner, fixed8),
            Err(fault) => rows.fault = Some(fault),
        }
        rows
    }

    pub(super) fn new<A: AsKey<K>>(
        txn: &'t Txn<C>,
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

    pub(super) fn with_prefix(txn: &'t Txn<C>, table: Table<K, V>, prefix: &[u8]) -> Self {
        let mut rows = Rows::empty(txn, table);
        if K::FIXED8 && prefix.len() > FIXED_BYTES {
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

    /// In descending order of keys. To be called before the first row is asked for.
    pub fn reverse(mut self) -> Self {
        assert!(!self.is_started, "the direction is chosen before the scan starts");
        let run = self.run();
        run.is_reverse = !run.is_reverse;
        std::mem::swap(&mut run.from, &mut run.to);
        self
    }

    /// Reads without being tracked: see [`Txn::get`]. To be called before the first row is asked for.
    pub fn untracked(mut self) -> Self {
        assert!(!self.is_started, "tracking is chosen before the scan starts");
        self.run().is_tracked = false;
        self.txn.desk.reads_untracked.set(true);
        self
    }

    /// At most `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.left = self.left.min(rows);
        self
    }

    /// The next row, or `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "it is an asynchronous iterator's next")]
    pub fn next(&mut self) -> NextRow<'_, 't, K, V, C> {
        NextRow(self)
    }

    /// The next row's key alone: values are neither decoded nor their types checked.
    pub async fn next_key(&mut self) -> Result<Option<K>> {
        std::future::poll_fn(|_| self.poll_filled()).await?;
        let Some(at) = self.take() else { return Ok(None) };
        self.key_at(at).map(Some)
    }

    fn run(&mut self) -> &mut Run<C> {
        // SAFETY: lent to this scan, and not posted: a posted run is touched by `poll_filled` alone.
        unsafe { &mut *self.run }
    }

    /// Waits until a row is there or the range has ended.
    #[inline(always)]
    fn poll_filled(&mut self) -> Poll<Result<()>> {
        loop {
            if self.place != NOWHERE {
                if !self.txn.desk.is_done(self.place) {
                    return Poll::Pending;
                }
                self.txn.desk.release(self.place);
                self.place = NOWHERE;
                self.settle()?;
            }
            if self.left == 0 || self.fault.is_none() && self.at < self.run().rows.len() {
                return Poll::Ready(Ok(()));
            }
            if let Some(fault) = self.fault {
                return Poll::Ready(Err(self.txn.doom(fault).into()));
            }
            if self.run().is_finished {
                return Poll::Ready(Ok(()));
            }
            self.refill()?;
        }
    }

    /// Posts the next run, or runs it in place.
    fn refill(&mut self) -> Result<()> {
        let last = if self.is_started { self.run().want * 2 } else { RUN_FIRST };
        // A known limit is better than a guess; two runs' worth at most, to bound what a run holds.
        let want = if self.left <= 2 * RUN_MAX { self.left } else { last.min(RUN_MAX) };
        self.is_started = true;
        self.at = 0;
        self.run().restart(want);
        match self.txn.desk.post(Op::Run(self.run)) {
            Some(place) => self.place = place,
            None => {
                if !self.txn.desk.run_run(self.run) {
                    return Err(self.txn.doom(Fault::Abort(Abort::Waited)).into());
                }
                self.settle()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let txn = self.txn;
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &mut *txn.desk.state.get() };
        // SAFETY: in the poll that ends the operation, hence in its epoch.
        unsafe { self.run().settle(state) }.map_err(|abort| txn.doom(Fault::Abort(abort)).into())
    }

    /// The number of the next row in the run.
    #[inline(always)]
    fn take(&mut self) -> Option<usize> {
        if self.left == 0 || self.at == self.run().rows.len() {
            return None;
        }
        self.left -= 1;
        self.at += 1;
        Some(self.at - 1)
    }

    #[inline(always)]
    fn key_at(&mut self, at: usize) -> Result<K> {
        let run = self.run();
        let row = &run.rows[at];
        if K::FIXED8 {
            return decode_whole(&row.slice.to_be_bytes());
        }
        decode_whole(&run.keys[row.key.0 as usize..row.key.1 as usize])
    }

    #[inline(always)]
    fn next_now(&mut self) -> Result<Option<(K, V::View<'t>)>> {
        let Some(at) = self.take() else { return Ok(None) };
        let key = self.key_at(at)?;
        // SAFETY: `read` promises the bytes until the transaction ends.
        let value = unsafe { &*self.run().rows[at].value };
        Ok(Some((key, V::view(value)?)))
    }
}

impl<K, V: Value + ?Sized, C: ConcurrencyControl> Drop for Rows<'_, K, V, C> {
    fn drop(&mut self) {
        if self.place != NOWHERE {
            self.txn.desk.release(self.place);
        }
        self.txn.give_run_back(self.run);
    }
}

/// Future of [`Rows::next`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct NextRow<'r, 't, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable>(
    &'r mut Rows<'t, K, V, C>,
);

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Future for NextRow<'_, 't, K, V, C> {
    type Output = Result<Option<(K, V::View<'t>)>>;
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.poll_filled() {
            Poll::Ready(Ok(())) => Poll::Ready(self.0.next_now()),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

// ---- the transaction's store of runs
impl<C: ConcurrencyControl> Txn<C> {
    fn take_run(&self) -> *mut Run<C> {
        // SAFETY: used within this call only.
        let free = unsafe { &mut *self.desk.runs_free.get() };
        if let Some(run) = free.pop() {
            return run;
        }
        // SAFETY: as above.
        let runs = unsafe { &mut *self.desk.runs.get() };
        runs.push(Box::new(Run::new()));
        free.reserve(runs.len());
        &raw mut **runs.last_mut().expect("pushed just now")
    }

    fn give_run_back(&self, run: *mut Run<C>) {
        // SAFETY: used within this call only.
        unsafe { &mut *self.desk.runs_free.get() }.push(run);
    }
}
