//! The twelve consistency conditions (clause 3.3.2). Each is checked over a snapshot of its own. They hold in every
//! snapshot, also while transactions run.
//!
//! Condition 11 of the specification describes the database as it was loaded. Here it is a little stronger, and holds
//! at any time: the orders that are not new are the orders that the loader delivered and the orders for which a
//! customer's deliveries were counted.

mod cursor;
mod districts;
mod money;
mod orders;

use crate::keys::District;
use crate::scale::Scale;
use crate::schema::Tables;
use braiddb::suspend::PrefetchOnly;
use braiddb::worker::WorkerOptions;
use braiddb::{ConcurrencyControl as Scheme, Database, Result, Txn};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each condition as a sentence, in the specification's order.
pub const CONDITIONS: [&str; 12] = [
    "a warehouse's takings are those of its districts",
    "a district's next order comes after its newest",
    "a district's new orders have numbers without gaps",
    "a district has as many lines as its orders say",
    "an order has a carrier unless it is new",
    "an order has as many lines as it says",
    "a line has a date of delivery if its order has a carrier",
    "a warehouse's takings are those of the history",
    "a district's takings are those of the history",
    "a customer's balance is deliveries less payments",
    "a district's orders are new, loaded as delivered, or counted as deliveries",
    "a customer's balance and payments are the deliveries",
];

/// A snapshot, and what to look at.
pub(super) struct View<'t, C: Scheme> {
    tx: &'t Txn<C>,
    tables: &'t Tables,
    scale: &'t Scale,
}

/// A place where a condition does not hold: the first place that was found, with both values. `None` if the condition holds.
pub type Violation = Option<String>;

impl<C: Scheme> View<'_, C> {
    async fn violation(&self, index: usize) -> Result<Violation> {
        match index + 1 {
            1 => self.takings_of_districts().await,
            2 => self.next_orders().await,
            3 => self.new_orders_without_gaps().await,
            4 => self.lines_of_districts().await,
            5 => self.carriers().await,
            6 => self.lines_of_orders().await,
            7 => self.dates_of_delivery().await,
            8 => self.history_of_warehouses().await,
            9 => self.history_of_districts().await,
            10 => self.balances().await,
            11 => self.orders_of_districts().await,
            _ => self.balances_and_payments().await,
        }
    }
}

/// Checks all conditions, several at a time.
pub(crate) fn check<C: Scheme>(
    db: &Database<C>,
    tables: &Tables,
    scale: &Scale,
    threads: usize,
) -> Result<Vec<Violation>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            // Relaxed: each condition is drawn once, and results are handed over by the lock.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= CONDITIONS.len() {
                return Ok(());
            }
            let violation = violation(db, tables, scale, index)?;
            results.lock().expect("no panic while it is held").push((index, violation));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.clamp(1, CONDITIONS.len())).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a check does not panic"))
    })?;
    let mut results = results.into_inner().expect("no panic while it is held");
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, violation)| violation).collect())
}

fn violation<C: Scheme>(db: &Database<C>, tables: &Tables, scale: &Scale, index: usize) -> Result<Violation> {
    let mut worker =
        db.worker_with(PrefetchOnly, WorkerOptions { batch: 1.into(), ..WorkerOptions::default() });
    worker.run(async |tx: &Txn<C>| {
        tx.declare_read_only();
        View { tx, tables, scale }.violation(index).await
    })
}

/// Names a district in messages.
fn place(district: District) -> String {
    format!("warehouse {}, district {}", district.warehouse(), district.number())
}
