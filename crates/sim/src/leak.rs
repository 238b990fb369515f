//! Operations that are polled once and forgotten, as safe code can do to any future. Everything that they could touch
//! ends with their transaction, so they break nothing that must hold.

use crate::random::Random;
use braiddb::{ConcurrencyControl, Table, Txn, Value};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls an operation once, and forgets it.
pub(crate) async fn leak<F: Future>(operation: F) {
    let mut operation = Box::pin(operation);
    poll_fn(|context| {
        let _ = operation.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    std::mem::forget(operation);
}

/// The leaks of one transaction, drawn from a seed.
#[derive(Debug)]
pub(crate) struct Leaks(RefCell<Random>);

/// Transactions that leak, per hundred, and the operations of these transactions beside which they leak, per hundred.
const TRANSACTIONS: u64 = 15;
const OPERATIONS: u64 = 40;

impl Leaks {
    /// Returns the leaks of the transaction with this seed. Most transactions have none.
    pub(crate) fn seeded(seed: u64) -> Option<Leaks> {
        let mut random = Random::new(seed ^ 0x1eac);
        random.chance(TRANSACTIONS).then(|| Leaks(RefCell::new(random)))
    }

    /// Returns the leaks of a transaction that certainly leaks.
    pub(crate) fn always(seed: u64) -> Leaks {
        Leaks(RefCell::new(Random::new(seed)))
    }

    /// Leaks a read of the row under `key` or of rows around it, or does nothing. The leaked operation may complete at
    /// its first poll. Therefore it changes nothing, and locks nothing that its transaction may not lock.
    pub(crate) async fn read<C: ConcurrencyControl, V: Value + ?Sized>(
        &self,
        tx: &Txn<C>,
        table: Table<u64, V>,
        key: u64,
    ) {
        let (is_due, kind) = {
            let mut random = self.0.borrow_mut();
            (random.chance(OPERATIONS), random.below(6))
        };
        match kind {
            _ if !is_due => {}
            0 | 1 => leak(tx.get(table, key)).await,
            2 => leak(tx.contains(table, key)).await,
            3 => leak(tx.get_many(table, &[key, key + 1, key / 2])).await,
            4 => leak(async { pin!(tx.scan(table, key..)).next().await.map(drop) }).await,
            _ => leak(async { pin!(tx.scan(table, ..=key).reverse()).next().await.map(drop) }).await,
        }
    }
}

/// Leaks an operation that takes a row: a lock or a write. Its first poll may have completed it.
pub(crate) async fn leak_change<C: ConcurrencyControl>(
    tx: &Txn<C>,
    table: Table<u64, u64>,
    key: u64,
    kind: u64,
) {
    match kind % 5 {
        0 => leak(tx.get_for_update(table, key)).await,
        1 => leak(tx.get_for_update(table, key).skip_locked()).await,
        2 => leak(tx.put(table, key, 0)).await,
        3 => leak(tx.insert(table, key, 0)).await,
        _ => leak(tx.delete(table, key)).await,
    }
}
