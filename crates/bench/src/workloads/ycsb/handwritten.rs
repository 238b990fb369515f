//! Yardsticks: handwritten transactions of point reads over the engine's own structures. They give no guarantees: they
//! have one fixed order of work, and no writes, errors or cancellation. They therefore show what the engine's
//! guarantees cost.

use super::access::{FixedKeys, first};
use super::reader::RawReader;
use super::table::{Draws, Ycsb};
use super::workload::Shape;
use crate::args::Mode;
use crate::distribution::Rng;
use crate::engine::{Scheme, mix};
use crate::suite::worker::{self, Done, Measured, Ticket, slices};
use braiddb::suspend::prefetch;
use std::time::Instant;

type Job<'a, C> = worker::Job<'a, C, Ycsb>;
type Inputs<'a> = worker::Inputs<'a, Ycsb>;

/// Cache lines of a node and of a slot that a read needs. The engine prefetches the same.
const NODE_LINES: usize = 3;
const SLOT_LINES: usize = 1;

/// Runs point reads by hand. Returns `None` if the workload does anything else, or if the scheme keeps no versions.
pub(super) fn execute<C: Scheme>(job: &Job<'_, C>, draws: &Draws<'_>, table: FixedKeys) -> Option<Measured> {
    let Shape::Point { reads, rmws: 0 } = draws.shape else { return None };
    let reader = RawReader::new(job.db, table)?;
    let work = Work { draws, reader: &reader, reads };
    Some(slices(job, &[], |inputs, clock, measured| match job.variant.mode {
        Mode::HandSequential => work.sequential(inputs, clock, measured),
        _ => work.interleaved(job.variant.batch, inputs, clock, measured),
    }))
}

/// State that all transactions of a slice use.
struct Work<'a, C: Scheme> {
    draws: &'a Draws<'a>,
    reader: &'a RawReader<C>,
    reads: usize,
}

/// The result of a transaction.
#[derive(Default)]
struct Outcome {
    started_ns: u64,
    missing: i64,
    sum: u64,
}

impl Outcome {
    #[inline(always)]
    fn done(&self) -> Done {
        std::hint::black_box(self.sum);
        Done { kind: 0, started_ns: self.started_ns, effect: self.missing }
    }
}

impl<C: Scheme> Work<'_, C> {
    /// Runs one transaction after the other.
    fn sequential(&self, inputs: Inputs<'_>, clock: Instant, measured: &mut Measured) {
        for ticket in inputs {
            let mut rng = Rng::new(ticket.input);
            let mut outcome = Outcome { started_ns: ticket.started_ns, ..Outcome::default() };
            let snapshot = self.reader.begin();
            for _ in 0..self.reads {
                match read(self.reader, mix(self.draws.draw(&mut rng)), snapshot) {
                    Some(byte) => outcome.sum = outcome.sum.wrapping_add(byte),
                    None => outcome.missing += 1,
                }
            }
            measured.committed(clock, &outcome.done());
        }
    }

    /// Runs `batch` transactions at once. Each advances by one miss at a time.
    fn interleaved(&self, batch: usize, mut inputs: Inputs<'_>, clock: Instant, measured: &mut Measured) {
        let mut flights: Vec<Flight> = Vec::with_capacity(batch);
        for ticket in inputs.by_ref().take(batch) {
            flights.push(Flight::new(self, &ticket));
        }
        let mut open = flights.len();
        while open > 0 {
            for flight in &mut flights {
                if flight.stage == IDLE || !flight.advance(self) {
                    continue;
                }
                measured.committed(clock, &flight.outcome.done());
                match inputs.next() {
                    Some(ticket) => *flight = Flight::new(self, &ticket),
                    None => {
                        flight.stage = IDLE;
                        open -= 1;
                    }
                }
            }
        }
    }
}

/// Returns the first byte of a key's value.
#[inline(always)]
fn read<C: Scheme>(reader: &RawReader<C>, key: u64, snapshot: u64) -> Option<u64> {
    'root: loop {
        let (mut node, mut level) = reader.root();
        while level > 0 {
            let Some(child) = reader.child(node, key) else { continue 'root };
            (node, level) = (child, level - 1);
        }
        match reader.record(node, key) {
            Ok(Some(record)) => return reader.value(record, snapshot).map(first),
            Ok(None) => return None,
            Err(_) => {} // the node has changed: restart
        }
    }
}

/// A transaction in flight: a state machine that is one cache line long.
struct Flight {
    rng: Rng,
    key: u64,
    snapshot: u64,
    outcome: Outcome,
    /// The node to read next, or the record in stage `SLOT`.
    at: u32,
    /// The node's level, or another stage.
    stage: u8,
    reads_left: u32,
}

/// The next read is the slot of record `at`.
const SLOT: u8 = u8::MAX;
/// There is no transaction.
const IDLE: u8 = u8::MAX - 1;

impl Flight {
    #[inline(always)]
    fn new<C: Scheme>(work: &Work<'_, C>, ticket: &Ticket<u64>) -> Self {
        let outcome = Outcome { started_ns: ticket.started_ns, ..Outcome::default() };
        let (rng, snapshot, reads_left) = (Rng::new(ticket.input), work.reader.begin(), work.reads as u32);
        let mut flight = Flight { rng, key: 0, snapshot, outcome, at: 0, stage: 0, reads_left };
        flight.next_read(work);
        flight
    }

    #[inline(always)]
    fn next_read<C: Scheme>(&mut self, work: &Work<'_, C>) {
        self.key = mix(work.draws.draw(&mut self.rng));
        self.start(work.reader);
    }

    #[inline(always)]
    fn start<C: Scheme>(&mut self, reader: &RawReader<C>) {
        (self.at, self.stage) = reader.root();
        prefetch::<NODE_LINES>(reader.node(self.at));
    }

    /// Advances to the next miss. Returns true if the transaction has ended.
    #[inline(always)]
    fn advance<C: Scheme>(&mut self, work: &Work<'_, C>) -> bool {
        let reader = work.reader;
        match self.stage {
            SLOT => {
                match reader.value(self.at, self.snapshot) {
                    Some(value) => self.outcome.sum = self.outcome.sum.wrapping_add(first(value)),
                    None => self.outcome.missing += 1,
                }
                return self.read_ended(work);
            }
            0 => match reader.record(self.at, self.key) {
                Ok(Some(record)) => {
                    (self.at, self.stage) = (record, SLOT);
                    prefetch::<SLOT_LINES>(reader.slot(record));
                }
                Ok(None) => {
                    self.outcome.missing += 1;
                    return self.read_ended(work);
                }
                Err(_) => self.start(reader),
            },
            _ => match reader.child(self.at, self.key) {
                Some(child) => {
                    (self.at, self.stage) = (child, self.stage - 1);
                    prefetch::<NODE_LINES>(reader.node(child));
                }
                None => self.start(reader),
            },
        }
        false
    }

    #[inline(always)]
    fn read_ended<C: Scheme>(&mut self, work: &Work<'_, C>) -> bool {
        self.reads_left -= 1;
        if self.reads_left > 0 {
            self.next_read(work);
        }
        self.reads_left == 0
    }
}
