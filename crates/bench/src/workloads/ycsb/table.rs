//! The loaded table, and what transactions draw from it: records to work on, fresh numbers, and values.

use super::access::{Access, AnyTable, KEY_BYTES_MAX, open_table};
use super::plan::TableSetup;
use super::workload::Shape;
use crate::distribution::{Rng, Source};
use crate::engine::{Database, Scheme, Txn};
use crate::suite::load::fill;
use crate::suite::plan::Variant;
use crate::suite::{Ledger, Loaded};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One workload on the table.
pub(crate) struct Ycsb {
    pub(super) table: AnyTable,
    pub(super) shape: Shape,
    source: Source,
    /// What all workloads on the table share.
    pub(super) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    payload: Payload,
    /// Numbers from here on are free.
    next_number: AtomicU64,
    /// Its effects are the records that were missed, where none can be missing.
    pub(super) ledger: Ledger,
}

/// Makes and fills the table; a suite for each workload.
pub(super) fn load<C: Scheme>(db: &Database<C>, setup: &TableSetup) -> crate::Result<Vec<Loaded<Ycsb>>> {
    assert!(setup.key_bytes <= KEY_BYTES_MAX, "the command line has a limit");
    let table = open_table(db, setup.key_bytes)?;
    let payload = Payload::new(setup.value_bytes);
    let records = match table {
        AnyTable::Fixed(table) => fill_table(db, setup, table, &payload),
        AnyTable::Long(table) => fill_table(db, setup, table, &payload),
    }?;
    let shared =
        Arc::new(Shared { payload, next_number: AtomicU64::new(records), ledger: Ledger::default() });
    let suites = setup.works.iter().map(|work| {
        let (workload, shared) = (&work.workload, shared.clone());
        let source = Source::new(work.distribution, records, work.theta);
        Loaded {
            parameters: vec![
                ("workload", workload.name.as_str().into()),
                ("records", records.into()),
                ("key-bytes", setup.key_bytes.into()),
                ("value-bytes", setup.value_bytes.into()),
                ("distribution", format!("{:?}", work.distribution).to_lowercase().into()),
                ("theta", work.theta.into()),
            ],
            suite: Ycsb { table, shape: workload.shape, source, shared },
        }
    });
    Ok(suites.collect())
}

fn fill_table<C: Scheme, A: Access>(
    db: &Database<C>,
    setup: &TableSetup,
    table: A,
    payload: &Payload,
) -> crate::Result<u64> {
    fill(db, "records", setup.records, setup.load_time_max, async |tx, &number| {
        table.insert(tx, number, payload.value(number)).await
    })
}

/// What the transactions of one worker in one slice draw from.
pub(super) struct Draws<'a> {
    pub(super) shape: Shape,
    pub(super) payload: &'a Payload,
    /// How often transactions have been attempted.
    pub(super) attempts: [Cell<u64>; 1],
    source: &'a Source,
    next_number: &'a AtomicU64,
    /// How far behind `next_number` records are surely committed.
    slack: u64,
    /// Transactions that only read declare it.
    pub(super) declares: bool,
}

impl<'a> Draws<'a> {
    pub(super) fn new(ycsb: &'a Ycsb, variant: &Variant) -> Draws<'a> {
        let slack = (variant.workers * variant.open_max() * ycsb.shape.operations()) as u64;
        Draws {
            shape: ycsb.shape,
            payload: &ycsb.shared.payload,
            attempts: [Cell::new(0)],
            source: &ycsb.source,
            next_number: &ycsb.shared.next_number,
            slack,
            declares: variant.cc.declares,
        }
    }

    /// Counts an attempt.
    #[inline(always)]
    pub(super) fn attempted(&self) {
        self.attempts[0].set(self.attempts[0].get() + 1);
    }

    /// Declares a transaction read-only, if it is and transactions are to do so.
    #[inline(always)]
    pub(super) fn declare<C: Scheme>(&self, tx: &Txn<C>, only_reads: bool) {
        if self.declares && only_reads {
            tx.declare_read_only();
        }
    }

    /// The number of a record to work on.
    #[inline(always)]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let newest = if self.source.follows_inserts() {
            // Relaxed: only a number; that its record is there is seen through the table.
            self.next_number.load(Ordering::Relaxed).saturating_sub(1 + self.slack)
        } else {
            0
        };
        self.source.number(rng, newest)
    }

    /// A number that no record has.
    #[inline(always)]
    pub(super) fn fresh(&self) -> u64 {
        // Relaxed: only uniqueness is asked for.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}

/// Values to write: slices of one pool of random bytes, so that writing a value allocates nothing.
pub(super) struct Payload {
    bytes: Vec<u8>,
    value_bytes: usize,
}

/// Bytes of the pool beyond one value: enough for values to differ, little enough to stay in the cache.
const POOL_BYTES: usize = 4096;

impl Payload {
    fn new(value_bytes: usize) -> Self {
        let mut rng = Rng::new(1);
        Payload { bytes: (0..POOL_BYTES + value_bytes).map(|_| rng.next_u64() as u8).collect(), value_bytes }
    }

    /// The value that a number picks.
    #[inline(always)]
    pub(super) fn value(&self, number: u64) -> &[u8] {
        let at = number as usize % POOL_BYTES;
        &self.bytes[at..at + self.value_bytes]
    }
}
