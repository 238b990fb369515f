//! `braid bench` without a subcommand: measures on any machine, in under three minutes, whether interleaving pays and
//! how much.

use crate::Result;
use crate::args::{Mode, processors};
use crate::report::environment::memory_available_bytes;
use crate::report::{short, write};
use crate::suite::outcome::Outcome;
use crate::workloads::ycsb::{YcsbArgs, YcsbPlan, run as run_ycsb};
use std::path::Path;
use std::time::Duration;

/// A table of this size exceeds every cache. A larger one would only take longer to load.
const RECORDS_MAX: u64 = 50_000_000;
const RECORDS_MIN: u64 = 100_000;
/// An upper bound of the memory for a record of 8 + 8 bytes, used to choose the table's size.
const BYTES_PER_RECORD_MAX: u64 = 128;
/// Share of the available memory that the table may take, in percent.
const MEMORY_PERCENT_MAX: u64 = 40;
const LOAD_TIME_MAX: Duration = Duration::from_secs(60);
/// Seconds for all slices of all variants together. With loading, the job takes less than three minutes.
const RUN_SECONDS: f64 = 84.0;
const REPEATS: u32 = 3;
const BATCH: usize = 48;
const SVG: &str = "braid-bench.svg";

/// Runs the main job.
pub fn run() -> Result<()> {
    let records = records_for(memory_available_bytes());
    let plan = plan(records, processors())?;
    println!(
        "{} records of 8 + 8 bytes; r10 is 10 reads per transaction, m is 8 reads and 2 read-modify-writes",
        short(records)
    );
    let outcome = run_ycsb(&plan)?;
    println!("{}", outcome.text());
    println!("{}\n", meaning(&outcome));
    write(Path::new(SVG), &outcome.throughput()?)
}

/// Returns the size of the table: as large as memory allows, within limits.
fn records_for(memory_bytes: Option<u64>) -> u64 {
    let affordable = memory_bytes.unwrap_or(4 << 30) / 100 * MEMORY_PERCENT_MAX / BYTES_PER_RECORD_MAX;
    let million = 1_000_000;
    let rounded = if affordable > million { affordable / million * million } else { affordable };
    rounded.clamp(RECORDS_MIN, RECORDS_MAX)
}

fn plan(records: u64, processors: usize) -> Result<YcsbPlan> {
    let of = |workers: usize, modes: &str| {
        YcsbPlan::new(&YcsbArgs::of_line(&format!(
            "--workload r10,m --records {records} --batch {BATCH} --repeats {REPEATS} --workers {workers} --mode {modes}"
        ))?)
    };
    let mut all = of(1, "naive,prefetch,amac-mk,coro-mk,coro-fn-mk,corobase-fn,interleaved,hybrid")?;
    all.plan.extend(of(processors, "naive,interleaved")?.plan);
    all.plan.slice = Duration::from_secs_f64(RUN_SECONDS / (all.slices() as f64 * f64::from(REPEATS)));
    all.tables[0].load_time_max = Some(LOAD_TIME_MAX);
    Ok(all)
}

/// Returns one sentence that says what the figures mean.
fn meaning(outcome: &Outcome) -> String {
    let ratio = |workload: &str, of: Mode, to: Mode| {
        let speed = |mode: Mode| {
            let mut rows = outcome.rows.iter().filter(|row| row.measured && row.variant.workers == 1);
            let row = rows.find(|row| row.text("workload") == Some(workload) && row.variant.mode == mode);
            row.map_or(f64::NAN, |row| row.transactions_per_s)
        };
        speed(of) / speed(to)
    };
    format!(
        "With {}, one worker that switches between {BATCH} open transactions wherever one would wait for \
         memory commits {:.1} times the transactions of ten reads that it commits running them one \
         after the other ({:.1} times with prefetching), and {:.1} times those that also write.",
        size(outcome),
        ratio("r10", Mode::Interleaved, Mode::Naive),
        ratio("r10", Mode::Interleaved, Mode::Prefetch),
        ratio("m", Mode::Interleaved, Mode::Naive),
    )
}

/// Describes the table's size, compared with that of the cache if it is known.
fn size(outcome: &Outcome) -> String {
    let Some(row) = outcome.rows.iter().find(|row| row.measured) else { return "no records".to_owned() };
    let records = row.number("records").unwrap_or_default();
    let bytes = row.bytes_per_record.unwrap_or_default() * records;
    let cache = outcome.environment.l3_bytes.or(outcome.environment.l2_bytes);
    let times = cache.map(|cache| format!(", {:.1} times the last-level cache", bytes / cache as f64));
    format!("{} records in {:.1} GB{}", short(records as u64), bytes / 1e9, times.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::show::tests::example;

    #[test]
    fn the_table_fits_the_machine() {
        // Proves that the plan uses at most its share of memory, within the limits.
        assert_eq!(records_for(Some(64 << 30)), RECORDS_MAX);
        assert_eq!(records_for(Some(1 << 20)), RECORDS_MIN);
        assert_eq!(records_for(None), 13_000_000);
        let records = records_for(Some(8 << 30));
        assert!(records * BYTES_PER_RECORD_MAX <= (8 << 30) / 100 * MEMORY_PERCENT_MAX);
    }

    #[test]
    fn loading_and_running_stay_under_three_minutes() {
        // Proves that the limits add up to less than three minutes, on machines with one processor and with many.
        for processors in [1, 2, 64] {
            let plan = plan(RECORDS_MAX, processors).unwrap();
            let running = plan.plan.slice.as_secs_f64() * 1.1 * plan.slices() as f64 * f64::from(REPEATS);
            assert!(running + LOAD_TIME_MAX.as_secs_f64() < 170.0);
            assert_eq!(plan.slices(), if processors == 1 { 16 } else { 20 });
        }
    }

    #[test]
    fn the_sentence_states_the_ratios() {
        // Proves that the sentence takes its figures from the rows.
        let outcome = example(&["r10", "m"], &[Mode::Naive, Mode::Prefetch, Mode::Interleaved], &[48]);
        let text = meaning(&outcome);
        assert!(text.contains("4.0 times the transactions of ten reads"), "{text}");
        assert!(text.contains("(2.0 times with prefetching), and 4.0 times"), "{text}");
    }
}
