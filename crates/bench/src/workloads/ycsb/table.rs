//! The loaded table, and what transactions draw from it: existing records, fresh numbers, and values.

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
    /// State that all workloads on the table share.
    pub(super) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    payload: Payload,
    /// Numbers from here on are free.
    next_number: AtomicU64,
    /// Its effects count the records that were not found, in workloads where none can be missing.
    pub(super) ledger: Ledger,
}

/// Makes and fills the table, and returns a suite for each workload.
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

/// The sources from which transactions of one worker draw in one slice.
pub(super) struct Draws<'a> {
    pub(super) shape: Shape,
    pub(super) payload: &'a Payload,
    /// The number of attempts.
    pub(super) attempts: [Cell<u64>; 1],
    source: &'a Source,
    next_number: &'a AtomicU64,
    /// Records whose number is at least this far below `next_number` are certainly committed.
    slack: u64,
    /// True if read-only transactions declare themselves.
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

    /// Declares a transaction read-only, if it is read-only and `declares` is true.
    #[inline(always)]
    pub(super) fn declare<C: Scheme>(&self, tx: &Txn<C>, only_reads: bool) {
        if self.declares && only_reads {
            tx.declare_read_only();
        }
    }

    /// Draws the number of an existing record.
    #[inline(always)]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let newest = if self.source.follows_inserts() {
            // Relaxed: it is only a number. The record itself becomes visible through the table.
            self.next_number.load(Ordering::Relaxed).saturating_sub(1 + self.slack)
        } else {
            0
        };
        self.source.number(rng, newest)
    }

    /// Returns a number that no record has.
    #[inline(always)]
    pub(super) fn fresh(&self) -> u64 {
        // Relaxed: the number must only be unique.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}

/// Values to write. They are slices of one pool of random bytes, so that writing a value allocates nothing.
pub(super) struct Payload {
    bytes: Vec<u8>,
    value_bytes: usize,
}

/// Bytes of the pool beyond one value: enough for values to differ, and few enough to stay in the cache.
const POOL_BYTES: usize = 4096;

impl Payload {
    fn new(value_bytes: usize) -> Self {
        let mut rng = Rng::new(1);
        Payload { bytes: (0..POOL_BYTES + value_bytes).map(|_| rng.next_u64() as u8).collect(), value_bytes }
    }

    /// Returns the value that belongs to a number.
    #[inline(always)]
    pub(super) fn value(&self, number: u64) -> &[u8] {
        let at = number as usize % POOL_BYTES;
        &self.bytes[at..at + self.value_bytes]
    }
}
