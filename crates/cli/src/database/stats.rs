//! `braid stats`: prints the statistics that the program with the open database publishes.

mod reading;
mod watch;

use super::open::Failure;
use braid_bench::ending;
use braid_bench::text::grouped;
use braiddb::metrics::{LogCondition, Statistics};
use clap::Args;
use indicatif::{HumanBytes, HumanDuration};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `braid stats`.
#[derive(Args, Debug)]
pub struct StatsArgs {
    /// The database's directory, where the program that has it open publishes its statistics
    /// (`Database::publish_statistics`)
    path: PathBuf,
    #[command(flatten)]
    form: Form,
    /// Print a line of rates every SECONDS seconds, or whenever there are new statistics if that is less often, until
    /// interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
    /// Stop after this many lines
    #[arg(long, value_name = "LINES", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// The output format of statistics.
#[derive(Args, Clone, Copy, Debug)]
pub struct Form {
    /// Print a JSON object with all counters
    #[arg(long)]
    json: bool,
}

/// The maximum number of seconds between two lines.
const SECONDS_MAX: f64 = 86_400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=SECONDS_MAX).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected a number from 0.01 to {SECONDS_MAX}"))
}

/// Runs `braid stats`. Watching ends successfully at a closed pipe or an interrupt.
pub fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let Some(every) = args.watch else {
        let published = reading::read(&args.path)?;
        let to = &mut io::stdout().lock();
        if args.form.json {
            return Ok(writeln!(to, "{}", serde_json::to_string(&published)?)?);
        }
        let ago = reading::age(&published).as_secs_f64();
        writeln!(to, "process      {} ({}), {ago:.1} s ago", published.pid, published.program)?;
        return write(&published.statistics, to);
    };
    ending::succeed_on_interrupt();
    let count = args.count.unwrap_or(u64::MAX);
    match watch::watch(&args.path, every, count, args.form.json, &mut io::stdout().lock()) {
        Err(error) if ending::is_unread(&*error) => Ok(()),
        watched => watched,
    }
}

impl Form {
    /// Writes the statistics of a database that this process has open.
    pub fn write(self, statistics: &Statistics, to: &mut dyn Write) -> Result<(), Failure> {
        match self.json {
            true => Ok(writeln!(to, "{}", serde_json::to_string(statistics)?)?),
            false => write(statistics, to),
        }
    }
}

fn write(statistics: &Statistics, to: &mut dyn Write) -> Result<(), Failure> {
    let lines = [
        ("transactions", transactions(statistics)),
        ("latency", latency(statistics)),
        ("memory", memory(statistics)),
        ("log", log(statistics)),
        ("checkpoints", checkpoints(statistics)),
        ("archive", archive(statistics)),
        ("device", device(statistics)),
    ];
    lines.iter().try_for_each(|(what, text)| writeln!(to, "{what:<13}{text}"))?;
    let contention = &statistics.contention;
    if contention.meetings > 0 {
        let (met, writers, readers) =
            (grouped(contention.meetings), contention.hot_for_writers, contention.hot_for_readers);
        writeln!(
            to,
            "{:<13}{met} meetings; {writers} groups of records are hot for writers, {readers} for readers",
            "contention"
        )?;
    }
    for stall in &statistics.stalls {
        let for_s = stall.for_ns as f64 / 1e9;
        writeln!(to, "{:<13}thread {} holds up reclamation, for {for_s:.1} s", "stall", stall.thread)?;
    }
    Ok(())
}

fn transactions(of: &Statistics) -> String {
    format!(
        "{} committed, {} conflicts, {} retries, {} given up, {} aborted by the program, {} out of memory, {} waiting for rows now",
        grouped(of.commits),
        grouped(of.aborts_conflict),
        grouped(of.retries),
        grouped(of.given_up),
        grouped(of.aborts_user),
        grouped(of.aborts_out_of_memory),
        of.locks_awaited
    )
}

fn latency(of: &Statistics) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let (p50, p99, p999) = (us(of.latency.p50_ns), us(of.latency.p99_ns), us(of.latency.p999_ns));
    let samples = grouped(of.latency.samples);
    format!("p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us, from a sample of {samples}")
}

fn memory(of: &Statistics) -> String {
    let memory = &of.memory;
    let limit = memory.limit_bytes.map(|limit| format!(" of {}", HumanBytes(limit))).unwrap_or_default();
    format!(
        "{}{limit}: {} indexes, {} records, {} versions, {} transactions, {} other; {} records",
        HumanBytes(memory.total_bytes()),
        HumanBytes(memory.index_bytes),
        HumanBytes(memory.records_bytes),
        HumanBytes(memory.versions_bytes),
        HumanBytes(memory.transactions_bytes),
        HumanBytes(memory.other_bytes),
        grouped(memory.records)
    )
}

fn log(of: &Statistics) -> String {
    let log = &of.log;
    let mean_ms = log.flush_ns_sum as f64 / log.groups.max(1) as f64 / 1e6;
    format!(
        "{}; {} records, {} in {} syncs of {mean_ms:.2} ms",
        condition(&of.log_condition),
        grouped(log.records),
        HumanBytes(log.bytes),
        grouped(log.groups)
    )
}

fn condition(of: &LogCondition) -> String {
    match of {
        LogCondition::Good => "good".into(),
        LogCondition::Refusing { cause } => format!("REFUSING commits: {cause}"),
        LogCondition::Stalled { for_ns, cause } => {
            format!("STALLED for {:.1} s: {cause}", *for_ns as f64 / 1e9)
        }
        LogCondition::Stopped { cause } => format!("STOPPED: {cause}"),
        _ => "in an unknown condition".into(),
    }
}

fn checkpoints(of: &Statistics) -> String {
    let checkpoints = &of.checkpoints;
    let last = match (checkpoints.last_number, checkpoints.last_ago_ns) {
        (None, _) => "none so far".into(),
        (Some(number), None) => format!("the last is {number}, from before the database was opened"),
        (Some(number), Some(ago_ns)) => {
            format!("the last is {number}, {} ago", HumanDuration(Duration::from_nanos(ago_ns)))
        }
    };
    let error = checkpoints.last_error.as_ref().map(|error| format!("; error: {error}")).unwrap_or_default();
    format!(
        "{} made, {} failed, {last}; {} of log to replay{error}",
        grouped(checkpoints.made),
        grouped(checkpoints.failed),
        HumanBytes(checkpoints.lag_bytes)
    )
}

fn archive(of: &Statistics) -> String {
    let archive = &of.archive;
    let error = archive.last_error.as_ref().map(|error| format!("; error: {error}")).unwrap_or_default();
    format!(
        "{} segments, {} failures, {} waiting{error}",
        grouped(archive.segments),
        grouped(archive.failures),
        HumanBytes(archive.waiting_bytes)
    )
}

fn device(of: &Statistics) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".into(), |bytes| HumanBytes(bytes).to_string());
    let short = if of.room.is_short { ", SHORT of space for the next checkpoint" } else { "" };
    format!(
        "{} free of {}, {} reserved{short}",
        bytes(of.room.free_bytes),
        bytes(of.room.total_bytes),
        HumanBytes(of.room.reserve_bytes)
    )
}
