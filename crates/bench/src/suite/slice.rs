//! The work of all workers together in one slice.

use super::worker::{Counts, Measured};
use crate::Result;
use crate::engine::{self, Breakdown, LogStatistics};
use crate::machine::pin;
use crate::report::hardware::Events;

/// The results of a slice.
pub(crate) struct Slice {
    /// Counts, in the order of the suite's kinds.
    pub(crate) kinds: Vec<Counts>,
    /// Transactions done per second, in the same order.
    pub(crate) per_s: Vec<f64>,
    pub(crate) given_up: u64,
    /// Statistics of the log during the slice.
    pub(crate) log: LogStatistics,
    /// The workers' time by activity, if it was measured.
    pub(crate) breakdown: Breakdown,
    pub(crate) events: Events,
}

/// Runs this many workers at once, each on its own processor, and sums up their results.
pub(crate) fn together(
    workers: usize,
    run: impl Fn(usize) -> Option<Measured> + Sync,
) -> Result<Option<Slice>> {
    let measured: Option<Vec<Measured>> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    pin(worker);
                    run(worker)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    let Some(measured) = measured else { return Ok(None) };
    let kinds = measured.first().map_or(0, |one| one.kinds.len());
    let mut all = Slice {
        kinds: (0..kinds).map(|_| Counts::new()).collect(),
        per_s: vec![0.0; kinds],
        given_up: 0,
        log: LogStatistics::default(),
        breakdown: Breakdown::default(),
        events: Events::default(),
    };
    for one in measured {
        if let Some(error) = one.error {
            return Err(engine::failure(error));
        }
        all.given_up += one.given_up;
        for (kind, counts) in one.kinds.iter().enumerate() {
            all.per_s[kind] += counts.done() as f64 / one.elapsed.as_secs_f64();
            all.kinds[kind].add(counts);
        }
    }
    Ok(Some(all))
}
