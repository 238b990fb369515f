//! Transactions that their thread drives by calls, one after the other, with `Database::begin`. The mode shows the cost
//! for a program that neither submits closures nor keeps a batch open. Conflicts are retried here.

use super::access::{FixedKeys, first, increased};
use super::table::{Draws, Ycsb};
use super::workload::Shape;
use crate::distribution::Rng;
use crate::engine::{Result, Scheme, mix};
use crate::suite::worker::{self, Done, Measured, RETRIES_MAX, slices};
use braiddb::{Error, Transaction};

type Job<'a, C> = worker::Job<'a, C, Ycsb>;

/// Runs the job by calls. Returns `None` if the workload is not supported.
pub(super) fn execute<C: Scheme>(job: &Job<'_, C>, draws: &Draws<'_>, table: FixedKeys) -> Option<Measured> {
    let has_form = matches!(
        draws.shape,
        Shape::Point { .. }
            | Shape::Update { .. }
            | Shape::Increase { .. }
            | Shape::Scan { .. }
            | Shape::Insert { .. }
    );
    has_form.then(|| {
        slices(job, &draws.attempts, |inputs, clock, measured| {
            for ticket in inputs {
                match committed(job, draws, table, ticket.input) {
                    Ok(effect) => {
                        measured.committed(clock, &Done { kind: 0, started_ns: ticket.started_ns, effect });
                    }
                    Err(Error::Conflict | Error::Deadlock(_)) => measured.given_up += 1,
                    Err(error) => measured.error = Some(error),
                }
            }
        })
    })
}

/// Runs a transaction until it has committed. Returns the number of records that it did not find.
fn committed<C: Scheme>(job: &Job<'_, C>, draws: &Draws<'_>, table: FixedKeys, input: u64) -> Result<i64> {
    let once = || {
        draws.attempted();
        let tx = job.db.begin()?;
        let missing = attempt(&tx, draws, table, input)?;
        tx.commit().map(|()| missing)
    };
    for _ in 0..RETRIES_MAX {
        match once() {
            Err(Error::Conflict | Error::Deadlock(_)) => {}
            ended => return ended,
        }
    }
    once()
}

fn attempt<C: Scheme>(tx: &Transaction<C>, draws: &Draws<'_>, table: FixedKeys, input: u64) -> Result<i64> {
    let (table, mut rng, mut missing, mut sum) = (table.table(), Rng::new(input), 0, 0u64);
    let mut saw = |value: Option<&[u8]>| match value {
        Some(value) => sum = sum.wrapping_add(first(value)),
        None => missing += 1,
    };
    match draws.shape {
        Shape::Point { reads, rmws } => {
            if draws.declares && rmws == 0 {
                tx.declare_read_only();
            }
            for _ in 0..reads {
                saw(tx.get(table, mix(draws.draw(&mut rng)))?);
            }
            for _ in 0..rmws {
                let number = draws.draw(&mut rng);
                saw(tx.get(table, mix(number))?);
                tx.put(table, mix(number), draws.payload.value(input.wrapping_add(number)))?;
            }
        }
        Shape::Update { updates } => {
            for _ in 0..updates {
                let value = draws.payload.value(input);
                missing += i64::from(!tx.update(table, mix(draws.draw(&mut rng)), value)?);
            }
        }
        Shape::Increase { rows } => {
            for _ in 0..rows {
                tx.update_at_commit(table, mix(draws.draw(&mut rng)), increased)?;
            }
        }
        Shape::Scan { rows, for_each } => {
            if draws.declares {
                tx.declare_read_only();
            }
            let mut scan = tx.scan(table, mix(draws.draw(&mut rng))..).limit(rows);
            if for_each {
                scan.for_each(|_, value| saw(Some(value)))?;
            } else {
                while let Some((_, value)) = scan.next()? {
                    saw(Some(value));
                }
            }
        }
        Shape::Insert { inserts } => {
            for _ in 0..inserts {
                tx.insert(table, mix(draws.fresh()), draws.payload.value(input))?;
            }
        }
        Shape::Probe { .. } | Shape::Mixed { .. } => unreachable!("asked before"),
    }
    std::hint::black_box(sum);
    Ok(missing)
}
