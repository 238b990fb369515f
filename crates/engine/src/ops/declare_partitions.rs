//! The declaration of the partitions that a transaction needs. It waits until the transaction has them.

use super::NO_SLOT;
use super::inline::Admit;
use super::state::{Op, TxnState};
use crate::cc::{Admission, ConcurrencyControl, Serializable};
use crate::error::Result;
use crate::suspend::PrefetchOnly;
use crate::table::Partition;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Txn::declare_partitions`](crate::Txn::declare_partitions).
#[must_use = "futures do nothing unless awaited"]
pub struct DeclarePartitions<'t, C: ConcurrencyControl = Serializable> {
    txn: &'t TxnState<C>,
    /// A bit for each partition. 0: nothing is declared.
    partitions: u64,
    /// The place in which it waits.
    place: u8,
}

impl<C: ConcurrencyControl> fmt::Debug for DeclarePartitions<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclarePartitions").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

impl<'t, C: ConcurrencyControl> DeclarePartitions<'t, C> {
    /// Makes a declaration. If the scheme has no partitions, the iterator is not read.
    #[inline(always)]
    pub(crate) fn new(txn: &'t TxnState<C>, partitions: impl IntoIterator<Item = Partition>) -> Self {
        let mut bits = 0;
        if C::has_partitions(txn.shared()) {
            bits = partitions.into_iter().fold(0, |bits, partition| bits | 1 << partition.number());
        }
        DeclarePartitions { txn, partitions: bits, place: NO_SLOT }
    }

    /// Declares the partitions, and takes those that are free at once.
    fn begin(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        let txn = self.txn;
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &mut *txn.scheme.get() };
        C::declare_partitions(txn.shared(), state, self.partitions);
        match C::admit(txn.context().env(), state, self.partitions, true, &mut PrefetchOnly) {
            Admission::Suspended => {}
            _ => return self.end(),
        }
        if let Some(place) = txn.post(Op::Admission(self.partitions)) {
            self.place = place;
            return txn.pend(context);
        }
        if txn.run_admission(&mut Admit(self.partitions)) {
            return self.end();
        }
        self.place = txn.post_waiting(Op::Admission(self.partitions))?;
        txn.pend(context)
    }

    fn end(&mut self) -> Poll<Result<()>> {
        self.partitions = 0;
        // SAFETY: not borrowed outside of single calls.
        match C::refused(unsafe { &*self.txn.scheme.get() }) {
            None => Poll::Ready(Ok(())),
            Some(refused) => Poll::Ready(Err(self.txn.refuse(refused).into())),
        }
    }
}

impl<C: ConcurrencyControl> Future for DeclarePartitions<'_, C> {
    type Output = Result<()>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.partitions == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.place == NO_SLOT {
            return self.begin(context);
        }
        if !self.txn.is_done(self.place) {
            return self.txn.pend(context);
        }
        self.txn.release(self.place);
        self.place = NO_SLOT;
        self.end()
    }
}

impl<C: ConcurrencyControl> Drop for DeclarePartitions<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.place != NO_SLOT {
            self.txn.release(self.place);
            // The transaction keeps the partitions that it has, and leaves the queue for the others.
            // SAFETY: not borrowed outside of single calls.
            let _ = C::awaited(self.txn.shared(), unsafe { &mut *self.txn.scheme.get() });
        }
    }
}
