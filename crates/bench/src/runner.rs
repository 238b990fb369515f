//! Loads tables and runs variants: for each table, `repeats` times over all its variants, so that what the
//! machine does meanwhile falls on all of them alike.

use crate::args::{DurabilityKind, Mode, RefillKind};
use crate::bodies::{self, Job, Measured};
use crate::distribution::Source;
use crate::engine::{
    self, Access, AnyTable, Breakdown, Counters, Database, LogStatistics, OnMiss, Scheme, Txn,
};
use crate::hardware::{Counting, Events};
use crate::machine::{median, pin, progress};
use crate::payload::Payload;
use crate::plan::{Plan, Variant};
use crate::report::{Outcome, Row};
use crate::scheme::{SchemeKind, WithScheme};
use crate::{Failure, Result, hand};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// Records that a loading worker takes on at once.
const LOAD_BLOCK: u64 = 8192;
const LOAD_BATCH: usize = 32;

/// Runs the plan.
pub(crate) fn run(plan: &Plan) -> Result<Outcome> {
    let mut rows = Vec::new();
    for variants in plan.variants.chunk_by(Variant::same_table) {
        let loaded = Tables::load(variants, plan)?;
        rows.extend(interleaved(&loaded, variants, plan)?);
    }
    Ok(Outcome::new(rows, plan))
}

/// The same table in a database of each scheme and durability that is asked for.
struct Tables(Vec<(Home, Box<dyn Runs + Sync>)>);

/// What tells the databases of one table apart: its scheme and its durability.
type Home = (SchemeKind, DurabilityKind);

fn home(variant: &Variant) -> Home {
    (variant.cc.scheme, variant.durability)
}

impl Tables {
    fn load(variants: &[Variant], plan: &Plan) -> Result<Tables> {
        let mut tables: Vec<(Home, Box<dyn Runs + Sync>)> = Vec::new();
        for variant in variants {
            let home = home(variant);
            if tables.iter().any(|(other, _)| *other == home) {
                continue;
            }
            tables.push((home, variant.cc.scheme.with(Load { variant, plan })?));
        }
        Ok(Tables(tables))
    }

    /// The database that a variant runs in.
    fn of(&self, variant: &Variant) -> &(dyn Runs + Sync) {
        let mut tables = self.0.iter();
        let found = tables.find(|(other, _)| *other == home(variant));
        &*found.expect("a table is loaded for each home of its variants").1
    }
}

/// Loads the table of a variant.
struct Load<'a> {
    variant: &'a Variant,
    plan: &'a Plan,
}

impl WithScheme for Load<'_> {
    type Output = Result<Box<dyn Runs + Sync>>;
    fn with<C: Scheme>(self) -> Self::Output {
        Ok(Box::new(Loaded::<C>::load(self.variant, self.plan)?))
    }
}

/// A database under any scheme.
trait Runs {
    fn records(&self) -> u64;
    fn bytes_per_record(&self) -> f64;
    fn counters(&self) -> Counters;
    fn checkpoint(&self) -> Result<()>;
    /// One worker's slice.
    fn run(
        &self,
        index: usize,
        variant: &Variant,
        source: &Source,
        plan: &Plan,
        repeat: u32,
    ) -> Option<Measured>;
}

/// A table with its records.
struct Loaded<C: Scheme> {
    db: Database<C>,
    table: AnyTable,
    payload: Payload,
    records: u64,
    /// Numbers from here on are free.
    next_number: AtomicU64,
    bytes_per_record: f64,
    /// Removed after the database.
    _directory: Option<engine::Directory>,
}

/// What one variant did in one slice.
struct Slice {
    transactions_per_s: f64,
    latency_ns: Histogram<u64>,
    aborts_per_commit: f64,
    /// What the log did meanwhile.
    log: LogStatistics,
    /// Where the workers' time went, if that was asked for.
    breakdown: Breakdown,
    events: Events,
}

impl<C: Scheme> Loaded<C> {
    /// Fills a table by all processors, in random order of keys.
    fn load(variant: &Variant, plan: &Plan) -> Result<Self> {
        let (db, directory) = engine::open(plan.index, variant.durability, &plan.directory)?;
        let table = engine::table(&db, variant.key_bytes)?;
        let payload = Payload::new(variant.value_bytes);
        let bar = progress(variant.records, "loading {msg} [{bar:40}] {percent}% {eta}");
        bar.set_message(format!("{} records", variant.records));
        let loader = Loader {
            claimed: AtomicU64::new(0),
            records: variant.records,
            until: plan.load_time_max.map(|max| Instant::now() + max),
            bar: &bar,
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..crate::args::processors())
                .map(|index| {
                    let (db, payload, loader) = (&db, &payload, &loader);
                    scope.spawn(move || {
                        pin(index);
                        match table {
                            AnyTable::Fixed(table) => loader.work(db, table, payload),
                            AnyTable::Long(table) => loader.work(db, table, payload),
                        }
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("loading does not panic"))
        })?;
        bar.finish_and_clear();
        // Relaxed: the threads have been joined.
        let records = loader.claimed.load(Ordering::Relaxed).min(variant.records);
        let bytes_per_record = engine::counters(&db).memory_bytes as f64 / records as f64;
        let next_number = AtomicU64::new(records);
        db.checkpoint().map_err(engine::failure)?; // so that the log is short
        db.set_profiling(plan.breakdown);
        Ok(Loaded { db, table, payload, records, next_number, bytes_per_record, _directory: directory })
    }
}

/// Hands out blocks of record numbers to loading workers.
struct Loader<'a> {
    claimed: AtomicU64,
    records: u64,
    until: Option<Instant>,
    bar: &'a ProgressBar,
}

impl Loader<'_> {
    fn work<C: Scheme, A: Access>(&self, db: &Database<C>, table: A, payload: &Payload) -> Result<()> {
        let mut worker = engine::worker(db, OnMiss, LOAD_BATCH.into(), RefillKind::Immediate);
        let mut failed = None;
        while let Some(block) = self.claim() {
            let length = block.end - block.start;
            worker.run_each(
                block,
                async |tx: &Txn<C>, &number: &u64| table.insert(tx, number, payload.value(number)).await,
                |result| failed = result.err().or(failed.take()),
            );
            if let Some(error) = failed {
                return Err(Failure::new(format!(
                    "loading failed near record {}: {error}",
                    self.bar.position()
                )));
            }
            self.bar.inc(length);
        }
        Ok(())
    }

    fn claim(&self) -> Option<std::ops::Range<u64>> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        // Relaxed: only uniqueness is asked for.
        let start = self.claimed.fetch_add(LOAD_BLOCK, Ordering::Relaxed);
        (start < self.records).then(|| start..(start + LOAD_BLOCK).min(self.records))
    }
}

/// All variants of one table, slice by slice.
fn interleaved(loaded: &Tables, variants: &[Variant], plan: &Plan) -> Result<Vec<Row>> {
    let mut slices: Vec<Vec<Slice>> = variants.iter().map(|_| Vec::new()).collect();
    let sources: Vec<Source> =
        variants.iter().map(|v| Source::new(v.distribution, loaded.of(v).records(), v.theta)).collect();
    let bar = progress(
        variants.len() as u64 * u64::from(plan.repeats),
        "running {msg} [{bar:40}] {pos}/{len} {eta}",
    );
    for repeat in 0..plan.repeats {
        for ((variant, source), slices) in variants.iter().zip(&sources).zip(&mut slices) {
            bar.set_message(format!("{} {}", variant.workload.name, variant.mode.name()));
            slices.extend(run_slice(loaded.of(variant), variant, source, plan, repeat)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let row = |(variant, slices): (&Variant, Vec<Slice>)| summarise(loaded.of(variant), variant, slices);
    Ok(variants.iter().zip(slices).map(row).collect())
}

/// One variant for one slice. None: its mode has no form of the workload.
fn run_slice(
    loaded: &(dyn Runs + Sync),
    variant: &Variant,
    source: &Source,
    plan: &Plan,
    repeat: u32,
) -> Result<Option<Slice>> {
    let (before, is_over) = (loaded.counters(), AtomicBool::new(false));
    let counting = plan.breakdown.then(Counting::start);
    let measured: Option<Vec<Measured>> = std::thread::scope(|scope| {
        if plan.checkpoints {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    loaded.checkpoint().expect("a checkpoint succeeds");
                }
            });
        }
        let threads: Vec<_> = (0..variant.workers)
            .map(|index| {
                scope.spawn(move || {
                    pin(index);
                    loaded.run(index, variant, source, plan, repeat)
                })
            })
            .collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("a worker does not panic");
        let measured = threads.into_iter().map(join).collect();
        is_over.store(true, Ordering::Relaxed); // a checkpoint under way is waited for
        measured
    });
    let Some(measured) = measured else { return Ok(None) };
    let events = counting.map(Counting::end).unwrap_or_default();
    let after = loaded.counters();
    let commits = after.commits.saturating_sub(before.commits).max(1);
    let aborts_per_commit = after.aborts.saturating_sub(before.aborts) as f64 / commits as f64;
    let log = after.log.since(&before.log);
    let breakdown = after.breakdown.since(&before.breakdown);
    Ok(Some(Slice { log, breakdown, events, ..merge(variant, measured, aborts_per_commit)? }))
}

impl<C: Scheme> Runs for Loaded<C> {
    fn records(&self) -> u64 {
        self.records
    }
    fn bytes_per_record(&self) -> f64 {
        self.bytes_per_record
    }
    fn counters(&self) -> Counters {
        engine::counters(&self.db)
    }
    fn checkpoint(&self) -> Result<()> {
        self.db.checkpoint().map_err(engine::failure)
    }
    fn run(
        &self,
        index: usize,
        variant: &Variant,
        source: &Source,
        plan: &Plan,
        repeat: u32,
    ) -> Option<Measured> {
        let job = Job {
            db: &self.db,
            declares: variant.cc.declares,
            shape: variant.workload.shape,
            mode: variant.mode,
            batch: variant.batch,
            refill: variant.refill,
            source,
            payload: &self.payload,
            next_number: &self.next_number,
            slack: (variant.workers
                * variant.mode.open_max(variant.batch)
                * variant.workload.shape.operations()) as u64,
            slice: plan.slice,
            warm_up: plan.warm_up(variant.mode),
            transactions_max: plan.transactions_max,
            seed: (u64::from(repeat) << 32) + index as u64,
        };
        match (job.mode, self.table) {
            (Mode::HandSequential | Mode::HandInterleaved, AnyTable::Fixed(table)) => {
                hand::execute(&job, table)
            }
            (Mode::HandSequential | Mode::HandInterleaved, AnyTable::Long(_)) => None,
            (_, AnyTable::Fixed(table)) => bodies::execute(&job, table),
            (_, AnyTable::Long(table)) => bodies::execute(&job, table),
        }
    }
}

/// What the workers did together: their throughputs added up.
fn merge(variant: &Variant, measured: Vec<Measured>, aborts_per_commit: f64) -> Result<Slice> {
    let mut all = Measured::new();
    let mut transactions_per_s = 0.0;
    for one in measured {
        if let Some(error) = one.error {
            return Err(engine::failure(error));
        }
        transactions_per_s += one.transactions as f64 / one.elapsed.as_secs_f64();
        all.missing += one.missing;
        all.latency_ns.add(&one.latency_ns).expect("histograms have the same bounds");
    }
    if all.missing > 0 && !variant.workload.shape.inserts() {
        let (name, mode) = (&variant.workload.name, variant.mode.name());
        return Err(Failure::new(format!(
            "{name} in mode {mode} missed {} records that are there",
            all.missing
        )));
    }
    let log = LogStatistics::default();
    Ok(Slice {
        transactions_per_s,
        latency_ns: all.latency_ns,
        aborts_per_commit,
        log,
        breakdown: Breakdown::default(),
        events: Events::default(),
    })
}

/// Medians over the slices.
fn summarise(loaded: &(dyn Runs + Sync), variant: &Variant, slices: Vec<Slice>) -> Row {
    let mut row = Row::unmeasured(Variant { records: loaded.records(), ..variant.clone() });
    if slices.is_empty() {
        return row;
    }
    let mut latency_ns = Measured::new().latency_ns;
    for slice in &slices {
        latency_ns.add(&slice.latency_ns).expect("histograms have the same bounds");
    }
    let mut speeds: Vec<f64> = slices.iter().map(|s| s.transactions_per_s).collect();
    let mut aborts: Vec<f64> = slices.iter().map(|s| s.aborts_per_commit).collect();
    row.slices_per_s.clone_from(&speeds);
    let middle = median(&mut speeds);
    row.measured = true;
    row.transactions_per_s = middle;
    row.operations_per_s = middle * variant.workload.shape.operations() as f64;
    row.spread = (speeds[speeds.len() - 1] - speeds[0]) / middle;
    row.p50_us = latency_ns.value_at_quantile(0.5) as f64 / 1e3;
    row.p99_us = latency_ns.value_at_quantile(0.99) as f64 / 1e3;
    row.mean_us = latency_ns.mean() / 1e3;
    row.aborts_per_commit = median(&mut aborts);
    row.bytes_per_record = loaded.bytes_per_record();
    for slice in &slices {
        row.breakdown.add(&slice.breakdown);
        row.events.add(&slice.events);
    }
    let sum = |of: fn(&LogStatistics) -> u64| slices.iter().map(|slice| of(&slice.log)).sum::<u64>() as f64;
    let groups = sum(|log| log.groups).max(1.0);
    row.group_records = sum(|log| log.records) / groups;
    row.flush_us = sum(|log| log.flush_ns_sum) / groups / 1e3;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_runs_in_every_mode_that_has_a_form_of_it() {
        // Proves that all transactions commit and find their records, in tables of short and of long keys.
        const RUN: &str = "bench ycsb --records 2K --seconds 0.01 --repeats 1 --batch 4 --workers 2";
        const MODES: &str = "naive,prefetch,amac-mk,coro-mk,coro-fn-mk,corobase-fn,interleaved,hybrid,auto";
        for key_bytes in [8, 20] {
            let line = format!(
                "{RUN} --key-bytes {key_bytes} --mode {MODES} --workload a,b,c,d,e,f,r4,r7,r10,m,u10,rmw2,s10,i,probe"
            );
            let outcome = run(&crate::paper::plan(&line).unwrap()).unwrap();
            for row in &outcome.rows {
                let (shape, mode) = (row.variant.workload.shape, row.variant.mode);
                let point = matches!(shape, crate::workload::Shape::Point { .. });
                let expected =
                    point || matches!(mode, Mode::Naive | Mode::Prefetch | Mode::Interleaved | Mode::Auto);
                let no_reads = shape == crate::workload::Shape::Point { reads: 0, rmws: 2 };
                assert!(row.measured == expected || no_reads, "{} {mode:?}", row.variant.workload.name);
                assert!(!row.measured || row.transactions_per_s > 0.0);
            }
        }
    }

    #[test]
    fn yardsticks_agree_with_the_engine() {
        // Proves that the reads written by hand find every record that the engine has loaded, under the schemes whose
        // records they know.
        let line = "bench ycsb --records 20K --seconds 0.01 --repeats 1 --mode naive,hand-sequential,hand-interleaved \
                    --cc serializable,snapshot,no-wait,silo";
        let outcome = run(&crate::paper::plan(line).unwrap()).unwrap();
        for row in &outcome.rows {
            let has_versions =
                matches!(row.variant.cc.scheme, SchemeKind::Serializable | SchemeKind::Snapshot);
            assert_eq!(row.measured, has_versions || row.variant.mode == Mode::Naive);
            assert_eq!(row.measured, row.transactions_per_s > 0.0);
        }
    }

    #[test]
    fn every_scheme_runs_every_kind_of_work() {
        // Proves that the schemes of the engine's table run side by side, writes and scans that conflict included.
        let line = "bench ycsb --records 1K --seconds 0.02 --repeats 1 --batch 4 --workers 2 --mode naive,interleaved,auto \
                    --workload a,e,f,m,u10,s10,i --cc ";
        let names: Vec<&str> = SchemeKind::ALL.iter().map(|scheme| scheme.name()).collect();
        let outcome = run(&crate::paper::plan(&(line.to_owned() + &names.join(","))).unwrap()).unwrap();
        assert_eq!(outcome.rows.len(), 7 * 3 * names.len());
        assert!(outcome.rows.iter().all(|row| row.measured && row.transactions_per_s > 0.0));
    }
}
