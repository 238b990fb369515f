//! `braid stats --watch`: prints the rates between two readings, line by line.

use super::reading;
use crate::database::open::Failure;
use braiddb::metrics::{LogCondition, Statistics};
use braiddb::tools::Published;
use indicatif::HumanBytes;
use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The column heads are printed again after this many lines.
const LINES_OF_HEAD: u64 = 20;

/// The rates between two readings.
#[derive(Debug, PartialEq, Serialize)]
struct Rates {
    seconds: f64,
    commits_per_s: f64,
    conflicts_per_s: f64,
    retries_per_s: f64,
    log_bytes_per_s: f64,
    syncs_per_s: f64,
    /// The mean duration of a sync; 0 if there was none.
    sync_ms: f64,
}

impl Rates {
    /// Returns `None` if the counters do not continue those of the earlier reading.
    fn between(before: &Published, now: &Published) -> Option<Rates> {
        let is_same = (before.pid, before.since_unix_ns) == (now.pid, now.since_unix_ns);
        let ns = now.clock_ns.checked_sub(before.clock_ns).filter(|ns| is_same && *ns > 0)?;
        let seconds = ns as f64 / 1e9;
        let grown =
            |of: fn(&Statistics) -> u64| of(&now.statistics).saturating_sub(of(&before.statistics)) as f64;
        let groups = grown(|of| of.log.groups);
        Some(Rates {
            seconds,
            commits_per_s: grown(|of| of.commits) / seconds,
            conflicts_per_s: grown(|of| of.aborts_conflict) / seconds,
            retries_per_s: grown(|of| of.retries) / seconds,
            log_bytes_per_s: grown(|of| of.log.bytes) / seconds,
            syncs_per_s: groups / seconds,
            sync_ms: grown(|of| of.log.flush_ns_sum) / groups.max(1.0) / 1e6,
        })
    }

    fn line(&self, now: &Statistics) -> String {
        let bytes = |bytes: u64| HumanBytes(bytes).to_string();
        format!(
            "{:>12.0} {:>12.0} {:>12.0} {:>12} {:>9.0} {:>9.2} {:>12} {:>12} {:>9}",
            self.commits_per_s,
            self.conflicts_per_s,
            self.retries_per_s,
            bytes(self.log_bytes_per_s as u64),
            self.syncs_per_s,
            self.sync_ms,
            bytes(now.memory.total_bytes()),
            bytes(now.checkpoints.lag_bytes),
            word(&now.log_condition)
        )
    }
}

fn head() -> String {
    format!(
        "{:>12} {:>12} {:>12} {:>12} {:>9} {:>9} {:>12} {:>12} {:>9}",
        "commits/s",
        "conflicts/s",
        "retries/s",
        "log bytes/s",
        "syncs/s",
        "sync ms",
        "memory",
        "to replay",
        "log"
    )
}

fn word(condition: &LogCondition) -> &'static str {
    match condition {
        LogCondition::Good => "good",
        LogCondition::Refusing { .. } => "REFUSING",
        LogCondition::Stalled { .. } => "STALLED",
        LogCondition::Stopped { .. } => "STOPPED",
        _ => "unknown",
    }
}

/// Prints a line for each reading; with `json`, also for the first one. Ends after `count` lines, or with an error when
/// no process publishes any more.
pub fn watch(
    path: &Path,
    every: Duration,
    count: u64,
    json: bool,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let mut before = reading::read(path)?;
    let mut lines = 0;
    if json {
        write_json(&before, None, to)?;
        lines += 1;
    }
    while lines < count {
        if !json && lines.is_multiple_of(LINES_OF_HEAD) {
            writeln!(to, "{}", head())?;
        }
        let (now, rates) = next(path, every, &before)?;
        match json {
            true => write_json(&now, rates.as_ref(), to)?,
            false => match &rates {
                Some(rates) => writeln!(to, "{}", rates.line(&now.statistics))?,
                None => writeln!(to, "the database was reopened by process {}", now.pid)?,
            },
        }
        to.flush()?;
        before = now;
        lines += 1;
    }
    Ok(())
}

/// Waits for the next reading that differs from `before`.
fn next(path: &Path, every: Duration, before: &Published) -> Result<(Published, Option<Rates>), Failure> {
    loop {
        thread::sleep(every);
        let now = reading::read(path)?;
        let is_same = (now.since_unix_ns, now.clock_ns) == (before.since_unix_ns, before.clock_ns);
        if !is_same {
            let rates = Rates::between(before, &now);
            return Ok((now, rates));
        }
    }
}

fn write_json(now: &Published, rates: Option<&Rates>, to: &mut dyn Write) -> Result<(), Failure> {
    let mut object = serde_json::to_value(now)?;
    object["rates"] = json!(rates);
    writeln!(to, "{object}")?;
    Ok(to.flush()?)
}
