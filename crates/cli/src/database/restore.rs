//! `braid restore`: creates a new database with the state of another at a point in its past.

use super::open::{Failure, advise, existing, fill_empty};
use super::progress::Watched;
use braid_bench::text::grouped;
use braiddb::Options;
use braiddb::metrics::SystemClock;
use braiddb::recovery::{Past, Progress, Restoration};
use braiddb::storage::{FileStorage, Storage};
use braiddb::wal::{Lsn, Until, Utc};
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `braid restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The directory of the database, which no process may have open, or of a backup of it; it is only read
    path: PathBuf,
    /// A new directory for the new database
    new: PathBuf,
    /// Restore the transactions up to this position in the log
    #[arg(long, conflicts_with = "time")]
    lsn: Option<u64>,
    /// Restore the transactions up to this time, such as 2026-03-01T12:00:00Z or 2026-03-01T13:00:00.5+01:00
    #[arg(long, value_parser = unix_ns)]
    time: Option<u64>,
    /// A directory with more of the log: an archive, or the database's directory if PATH is a backup; may be repeated
    #[arg(long)]
    archive: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let (from, watch) = Watched::new(existing(&args.path)?);
    let from = Arc::new(from);
    let mut logs: Vec<Arc<dyn Storage>> = Vec::new();
    for archive in &args.archive {
        logs.push(Arc::new(FileStorage::open(archive)?));
    }
    let until = match (args.lsn, args.time) {
        (Some(lsn), _) => Until::Lsn(Lsn(lsn)),
        (None, Some(unix_ns)) => Until::Time { unix_ns },
        (None, None) => Until::End,
    };
    let past = Past { from, logs, until };
    let done = fill_empty(&args.new, |to| {
        let (to, clock) = (Arc::new(to.clone()), Arc::new(SystemClock::default()));
        let show = &mut |progress: &Progress| watch.show(progress);
        let done = braiddb::recovery::restore(&past, to, &Options::default(), clock, show);
        done.map_err(|error| advise(error, &args.path))
    })?;
    drop(watch);
    if args.json {
        let Restoration { reached, checkpoint, rows, transactions, .. } = done;
        let time = reached.unix_ns.map(|unix_ns| Utc(unix_ns).to_string());
        let object = json!({
            "lsn": reached.lsn.0, "time": time, "checkpoint": checkpoint, "rows": rows, "transactions": transactions
        });
        return Ok(writeln!(io::stdout(), "{object:#}")?);
    }
    let from = match done.checkpoint {
        Some(number) => format!("{} rows from checkpoint {number}", grouped(done.rows)),
        None => "no checkpoint".into(),
    };
    println!(
        "restored to {}: {from}, {} transactions from the log",
        done.reached,
        grouped(done.transactions)
    );
    Ok(())
}

/// Parses a time in RFC 3339 format. Returns nanoseconds since 1970.
fn unix_ns(text: &str) -> Result<u64, String> {
    parse(text).ok_or_else(|| {
        "expected a time between 1970 and 2500, such as 2026-03-01T12:00:00Z, 2026-03-01T12:00:00.25Z or \
         2026-03-01T13:00:00+01:00"
            .into()
    })
}

fn parse(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(at);
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_date = (1970..=2500).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day);
    // A leap second counts as the second after it.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    let is_fraction = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_date && is_time && is_fraction) {
        return None;
    }
    let ns: u64 = format!("{fraction:0<9}").parse().ok()?;
    let offset_s = match zone {
        "Z" | "z" => 0,
        zone => {
            let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let days = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum::<i64>()
        + (1..month).map(|month| days_in(year, month)).sum::<i64>()
        + day
        - 1;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset_s;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Parses numbers with these digit counts, with a separator between them.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let (mut numbers, mut parts) = ([0; N], text.split(between));
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = if is_number { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then_some(numbers)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        // Proves that times have the meaning of RFC 3339, and that everything else is refused.
        for (text, s) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59z", 951_868_799),
            ("2400-01-01T00:00:00Z", 13_569_465_600),
            ("2026-11-22T11:23:04Z", 1_795_346_584),
            ("2026-11-22 12:23:04+01:00", 1_795_346_584),
            ("2026-11-22t05:53:04-05:30", 1_795_346_584),
        ] {
            assert_eq!(unix_ns(text), Ok(s * 1_000_000_000), "{text}");
        }
        assert_eq!(unix_ns("1970-01-01T00:00:01.5Z"), Ok(1_500_000_000));
        assert_eq!(unix_ns("1970-01-01T00:00:00.000000001Z"), Ok(1));
        let utc = braiddb::wal::Utc(1_795_346_584_000_000_009).to_string();
        assert_eq!((&*utc, unix_ns(&utc)), ("2026-11-22T11:23:04.000000009Z", Ok(1_795_346_584_000_000_009)));
        for text in [
            "",
            "now",
            "2026-11-22",
            "2026-11-22T11:23:04",
            "2026-11-22T11:23Z",
            "2026-13-22T11:23:04Z",
            "2025-02-29T11:23:04Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T11:23:04.Z",
            "2026-11-22T11:23:04.1234567890Z",
            "2026-11-22T11:23:04+1:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-11-22T11:23:04Zé",
            "é026-11-22T11:23:04Z",
        ] {
            assert!(unix_ns(text).is_err(), "{text}");
        }
    }
}
