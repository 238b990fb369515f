//! Yardsticks: transactions of point reads, written by hand over the engine's own structures. They keep no
//! promises (one fixed order of work, no writes, no errors, no cancelling), and so show what those promises
//! cost.

use crate::args::Mode;
use crate::bodies::{Input, Inputs, Job, Measured, Outcome};
use crate::distribution::Rng;
use crate::engine::{self, FixedKeys, RawReader, Scheme, first};
use crate::workload::Shape;
use braiddb::suspend::prefetch;
use std::time::{Duration, Instant};

/// Cache lines of a node and of a slot that a read needs, as the engine asks for them.
const NODE_LINES: usize = 3;
const SLOT_LINES: usize = 1;

/// Runs point reads by hand. None: the workload is not of point reads alone, or the scheme keeps no versions.
pub(crate) fn execute<C: Scheme>(job: &Job<'_, C>, table: FixedKeys) -> Option<Measured> {
    let Shape::Point { reads, rmws: 0 } = job.shape else { return None };
    let reader = engine::raw_reader(job.db, table)?;
    let run = |length: Duration, seed: u64| {
        let clock = Instant::now();
        let inputs = Inputs::new(job, clock, length, seed);
        let mut measured = Measured::new();
        match job.mode {
            Mode::HandSequential => sequential(job, &reader, reads, inputs, clock, &mut measured),
            _ => interleaved(job, &reader, reads, inputs, clock, &mut measured),
        }
        measured.elapsed = clock.elapsed();
        measured
    };
    run(job.warm_up, job.seed);
    Some(run(job.slice, !job.seed))
}

/// One transaction after the other.
fn sequential<C: Scheme>(
    job: &Job<'_, C>,
    reader: &RawReader<C>,
    reads: usize,
    inputs: Inputs,
    clock: Instant,
    measured: &mut Measured,
) {
    for input in inputs {
        let mut rng = Rng::new(input.seed);
        let mut outcome = Outcome { started_ns: input.started_ns, ..Outcome::default() };
        let snapshot = reader.begin();
        for _ in 0..reads {
            match read(reader, engine::mix(job.draw(&mut rng)), snapshot) {
                Some(byte) => outcome.sum = outcome.sum.wrapping_add(byte),
                None => outcome.missing += 1,
            }
        }
        measured.committed(clock, &outcome);
    }
}

/// The first byte of the value of a key.
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
            Err(_) => {} // the node has moved on
        }
    }
}

/// A transaction in flight: its own state machine, one cache line long.
struct Flight {
    rng: Rng,
    key: u64,
    snapshot: u64,
    outcome: Outcome,
    /// The node to read next, or at stage `SLOT` the record.
    at: u32,
    /// The node's level, or another stage.
    stage: u8,
    reads_left: u32,
}

/// The slot of record `at` is to be read next.
const SLOT: u8 = u8::MAX;
/// There is no transaction.
const IDLE: u8 = u8::MAX - 1;

/// As many transactions at once as the batch says, each going on by one miss at a time.
fn interleaved<C: Scheme>(
    job: &Job<'_, C>,
    reader: &RawReader<C>,
    reads: usize,
    mut inputs: Inputs,
    clock: Instant,
    measured: &mut Measured,
) {
    let mut flights: Vec<Flight> = Vec::with_capacity(job.batch);
    for input in inputs.by_ref().take(job.batch) {
        flights.push(Flight::new(job, reader, reads, &input));
    }
    let mut open = flights.len();
    while open > 0 {
        for flight in &mut flights {
            if flight.stage == IDLE || !flight.advance(job, reader) {
                continue;
            }
            measured.committed(clock, &flight.outcome);
            match inputs.next() {
                Some(input) => *flight = Flight::new(job, reader, reads, &input),
                None => {
                    flight.stage = IDLE;
                    open -= 1;
                }
            }
        }
    }
}

impl Flight {
    #[inline(always)]
    fn new<C: Scheme>(job: &Job<'_, C>, reader: &RawReader<C>, reads: usize, input: &Input) -> Self {
        let outcome = Outcome { started_ns: input.started_ns, ..Outcome::default() };
        let (rng, snapshot) = (Rng::new(input.seed), reader.begin());
        let mut flight = Flight { rng, key: 0, snapshot, outcome, at: 0, stage: 0, reads_left: reads as u32 };
        flight.next_read(job, reader);
        flight
    }

    #[inline(always)]
    fn next_read<C: Scheme>(&mut self, job: &Job<'_, C>, reader: &RawReader<C>) {
        self.key = engine::mix(job.draw(&mut self.rng));
        self.start(reader);
    }

    #[inline(always)]
    fn start<C: Scheme>(&mut self, reader: &RawReader<C>) {
        (self.at, self.stage) = reader.root();
        prefetch::<NODE_LINES>(reader.node(self.at));
    }

    /// Goes on to the next miss. True: the transaction has ended.
    #[inline(always)]
    fn advance<C: Scheme>(&mut self, job: &Job<'_, C>, reader: &RawReader<C>) -> bool {
        match self.stage {
            SLOT => {
                match reader.value(self.at, self.snapshot) {
                    Some(value) => self.outcome.sum = self.outcome.sum.wrapping_add(first(value)),
                    None => self.outcome.missing += 1,
                }
                return self.read_ended(job, reader);
            }
            0 => match reader.record(self.at, self.key) {
                Ok(Some(record)) => {
                    (self.at, self.stage) = (record, SLOT);
                    prefetch::<SLOT_LINES>(reader.slot(record));
                }
                Ok(None) => {
                    self.outcome.missing += 1;
                    return self.read_ended(job, reader);
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
    fn read_ended<C: Scheme>(&mut self, job: &Job<'_, C>, reader: &RawReader<C>) -> bool {
        self.reads_left -= 1;
        if self.reads_left > 0 {
            self.next_read(job, reader);
        }
        self.reads_left == 0
    }
}
