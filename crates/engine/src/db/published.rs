//! Statistics as a file in the database's directory: writing and reading its text.
//!
//! The text has one line for each number, by its name. The first line identifies the file. The last line has a
//! checksum of all lines before it: the file is not synced, so after a crash of the machine it may hold anything.
//! Unknown names are skipped, because a later version may have more of them.

use crate::error::Result;
use crate::metrics::{
    ArchiveStatistics, CheckpointStatistics, ContentionStatistics, LatencyStatistics, LogCondition,
    LogStatistics, MemoryStatistics, RoomStatistics, Stall, Statistics,
};
use crate::storage::{FileStorage, OpenMode, Operation, Storage, StorageError};
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file's name, and its name while it is written.
pub(super) const NAME: &str = "statistics";
pub(super) const TEMPORARY: &str = "statistics.new";

/// The first line.
const HEAD: &str = "braid statistics 1\n";
/// The first line without the number of the version.
const KIND: &str = "braid statistics ";
/// The beginning of the last line.
const CHECKSUM: &str = "crc32c ";

/// Longer files are not published statistics.
const BYTES_MAX: u64 = 64 << 10;
/// Longer texts are cut, and further stalls are left out.
const TEXT_CHARS_MAX: usize = 512;
const STALLS_MAX: usize = 16;

/// Statistics that a program has published: see
/// [`Database::publish_statistics`](crate::Database::publish_statistics).
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Published {
    /// The process that has the database open.
    pub pid: u64,
    /// The name of its program.
    pub program: String,
    /// When it began to publish, in nanoseconds since 1970 (UTC).
    pub since_unix_ns: u64,
    /// When it published this, in nanoseconds since 1970 (UTC).
    pub written_unix_ns: u64,
    /// The same moment by a clock that never goes back, for differences between two readings with the same
    /// `since_unix_ns`.
    pub clock_ns: u64,
    /// How often it publishes, in nanoseconds.
    pub interval_ns: u64,
    /// The statistics, without [`breakdown`](Statistics::breakdown).
    pub statistics: Statistics,
}

/// Reads the published statistics of the database in this directory, which may be open or not. `None` if there are
/// none. The file stays if the process is killed, so check [`Published::written_unix_ns`]. Returns an error if the
/// file cannot be read or is damaged.
///
/// ```
/// # use braiddb::{Database, Options, Table, tools};
/// # use std::time::Duration;
/// # let directory = std::env::temp_dir().join(format!("braid-published-{}", std::process::id()));
/// # let options = Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
/// let db = Database::open(&directory, options)?;
/// let publisher = db.publish_statistics(Duration::from_secs(1))?;
/// let published = tools::published(&directory)?.expect("it was published just now"); // from any process
/// assert_eq!((published.pid, published.statistics.commits), (std::process::id().into(), 0));
/// publisher.stop()?;
/// assert!(tools::published(&directory)?.is_none());
/// # drop(db);
/// # std::fs::remove_dir_all(directory).expect("it was made above");
/// # Ok::<(), braiddb::Error>(())
/// ```
pub fn published(directory: impl AsRef<Path>) -> Result<Option<Published>> {
    let storage = FileStorage::open(directory.as_ref())?;
    let Some((name, bytes)) = read(&storage, NAME)? else { return Ok(None) };
    let parsed = Published::parse(&bytes);
    Ok(Some(parsed.map_err(|why| StorageError::io(Operation::Read, name, io::Error::other(why)))?))
}

/// Returns up to [`BYTES_MAX`] bytes of the file of this name and one more, and the name that errors show. `None` if
/// it does not exist.
fn read(storage: &dyn Storage, name: &str) -> Result<Option<(String, Vec<u8>)>> {
    let file = match storage.open(name, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; file.len_bytes()?.min(BYTES_MAX + 1) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some((file.name().to_owned(), bytes)))
}

/// Fails if the file of this name is neither published statistics nor what a crash can have left of them.
pub(super) fn check_ours(storage: &dyn Storage, name: &str) -> Result<()> {
    let Some((shown, bytes)) = read(storage, name)? else { return Ok(()) };
    let is_begun = KIND.as_bytes().starts_with(&bytes) || bytes.iter().all(|byte| *byte == 0);
    if is_begun || bytes.starts_with(KIND.as_bytes()) {
        return Ok(());
    }
    let why = io::Error::other("it holds something else than published statistics: move it away");
    Err(StorageError::io(Operation::Create, shown, why).into())
}

/// A field of [`Statistics`], to be written or read.
enum Slot<'s> {
    Number(&'s mut u64),
    /// Left out if there is none.
    Maybe(&'s mut Option<u64>),
    Flag(&'s mut bool),
    /// Left out if there is none.
    Text(&'s mut Option<String>),
}

/// Adds the fields of a part of the statistics. The pattern makes sure that it has no others.
macro_rules! part {
    ($slots:ident, $of:expr, $name:literal, $type:ident { $($kind:ident $field:ident,)* }) => {
        let $type { $($field,)* } = $of;
        $($slots.push((concat!($name, ".", stringify!($field)), Slot::$kind($field)));)*
    };
}

/// Returns all fields except lists and the condition of the log, by their names.
fn slots(statistics: &mut Statistics) -> Vec<(&'static str, Slot<'_>)> {
    let (counters, parts) = statistics.split();
    let mut slots: Vec<_> = counters.into_iter().map(|(name, of)| (name, Slot::Number(of))).collect();
    part!(slots, parts.contention, "contention", ContentionStatistics {
        Number meetings, Number hot_for_writers, Number hot_for_readers,
    });
    part!(slots, parts.memory, "memory", MemoryStatistics {
        Number index_bytes, Number records_bytes, Number versions_bytes, Number transactions_bytes,
        Number other_bytes, Maybe limit_bytes, Number records, Number nodes,
    });
    part!(slots, parts.log, "log", LogStatistics {
        Number groups, Number records, Number bytes, Number group_records_max, Number group_bytes_max,
        Number flush_ns_min, Number flush_ns_max, Number flush_ns_sum, Number stalls, Number held_bytes,
    });
    part!(slots, parts.archive, "archive", ArchiveStatistics {
        Number segments, Number failures, Text last_error, Number waiting_bytes,
    });
    part!(slots, parts.checkpoints, "checkpoints", CheckpointStatistics {
        Number made, Number failed, Flag is_under_way, Maybe last_number, Maybe last_lsn, Maybe last_ago_ns,
        Number lag_bytes, Text last_error, Maybe last_error_ago_ns,
    });
    part!(slots, parts.room, "room", RoomStatistics {
        Maybe free_bytes, Maybe total_bytes, Number reserve_bytes, Number checkpoint_bytes, Flag is_short,
    });
    part!(slots, parts.latency, "latency", LatencyStatistics {
        Number samples, Number p50_ns, Number p99_ns, Number p999_ns,
    });
    slots
}

impl Published {
    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = String::from(HEAD);
        let mut line = |name: &str, what: &dyn std::fmt::Display| {
            writeln!(text, "{name} {what}").expect("a string takes everything");
        };
        line("pid", &self.pid);
        line("program", &one_line(&self.program));
        line("since_unix_ns", &self.since_unix_ns);
        line("written_unix_ns", &self.written_unix_ns);
        line("clock_ns", &self.clock_ns);
        line("interval_ns", &self.interval_ns);
        for (name, slot) in slots(&mut self.statistics.clone()) {
            match slot {
                Slot::Number(number) | Slot::Maybe(Some(number)) => line(name, number),
                Slot::Flag(flag) => line(name, flag),
                Slot::Text(Some(text)) => line(name, &one_line(text)),
                Slot::Maybe(None) | Slot::Text(None) => {}
            }
        }
        line("log_condition", &one_line(&condition_text(&self.statistics.log_condition)));
        for stall in self.statistics.stalls.iter().take(STALLS_MAX) {
            line("stall", &format_args!("{} {}", stall.for_ns, one_line(&stall.thread)));
        }
        let sum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "{CHECKSUM}{sum:08x}").expect("a string takes everything");
        debug_assert!(text.len() as u64 <= BYTES_MAX);
        text
    }

    /// Parses the text of the file.
    fn parse(bytes: &[u8]) -> Result<Published, String> {
        const DAMAGED: &str = "it is damaged: a program that publishes writes it anew, else remove it";
        let text = str::from_utf8(bytes).map_err(|_| DAMAGED)?;
        if text.starts_with(KIND) && !text.starts_with(HEAD) && text.contains('\n') {
            return Err("it is of another version: use the software that wrote it".into());
        }
        let body = text.strip_prefix(HEAD).and_then(|_| sealed(text)).ok_or(DAMAGED)?;
        let mut published = Published::default();
        let mut slots = slots(&mut published.statistics);
        let (mut condition, mut stalls) = (LogCondition::Good, Vec::new());
        let (mut pid, mut program, mut times) = (0, String::new(), [0; 4]);
        for line in body.lines() {
            let (name, value) = line.split_once(' ').ok_or(DAMAGED)?;
            let wrong = || format!("the line {line:?} is damaged");
            match name {
                "pid" => pid = value.parse().map_err(|_| wrong())?,
                "program" => program = value.into(),
                "since_unix_ns" => times[0] = value.parse().map_err(|_| wrong())?,
                "written_unix_ns" => times[1] = value.parse().map_err(|_| wrong())?,
                "clock_ns" => times[2] = value.parse().map_err(|_| wrong())?,
                "interval_ns" => times[3] = value.parse().map_err(|_| wrong())?,
                "log_condition" => condition = parse_condition(value).ok_or_else(wrong)?,
                "stall" => stalls.push(parse_stall(value).ok_or_else(wrong)?),
                _ => {
                    if let Some((_, slot)) = slots.iter_mut().find(|slot| slot.0 == name) {
                        slot.set(value).ok_or_else(wrong)?;
                    }
                }
            }
        }
        let [since_unix_ns, written_unix_ns, clock_ns, interval_ns] = times;
        let mut statistics = published.statistics;
        (statistics.log_condition, statistics.stalls) = (condition, stalls);
        Ok(Published { pid, program, since_unix_ns, written_unix_ns, clock_ns, interval_ns, statistics })
    }
}

/// Returns the lines between the first and the last, if the checksum matches everything before it.
fn sealed(text: &str) -> Option<&str> {
    let (before, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let before = &text[..=before.len()];
    let sum = u32::from_str_radix(sum.strip_prefix(CHECKSUM)?, 16).ok()?;
    (crc32c::crc32c(before.as_bytes()) == sum).then_some(before.strip_prefix(HEAD)?)
}

impl Slot<'_> {
    /// Takes a line's value. `None` if the value does not parse.
    fn set(&mut self, value: &str) -> Option<()> {
        match self {
            Slot::Number(number) => **number = value.parse().ok()?,
            Slot::Maybe(number) => **number = Some(value.parse().ok()?),
            Slot::Flag(flag) => **flag = value.parse().ok()?,
            Slot::Text(text) => **text = Some(value.into()),
        }
        Some(())
    }
}

fn condition_text(condition: &LogCondition) -> String {
    match condition {
        LogCondition::Good => "good".into(),
        LogCondition::Refusing { cause } => format!("refusing {cause}"),
        LogCondition::Stalled { for_ns, cause } => format!("stalled {for_ns} {cause}"),
        LogCondition::Stopped { cause } => format!("stopped {cause}"),
    }
}

fn parse_condition(text: &str) -> Option<LogCondition> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let cause = String::from(rest);
    match word {
        "good" => Some(LogCondition::Good),
        "refusing" => Some(LogCondition::Refusing { cause }),
        "stopped" => Some(LogCondition::Stopped { cause }),
        "stalled" => {
            let (for_ns, cause) = rest.split_once(' ')?;
            Some(LogCondition::Stalled { for_ns: for_ns.parse().ok()?, cause: cause.into() })
        }
        _ => None,
    }
}

fn parse_stall(text: &str) -> Option<Stall> {
    let (for_ns, thread) = text.split_once(' ')?;
    Some(Stall { thread: thread.into(), for_ns: for_ns.parse().ok()? })
}

/// Makes a text fit on one line.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS_MAX).map(plain).collect()
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Statistics in which every field has a different value.
    fn unlike_any() -> Published {
        let mut statistics = Statistics::default();
        for (at, (_, slot)) in slots(&mut statistics).into_iter().enumerate() {
            let taken = match slot {
                mut slot @ (Slot::Number(_) | Slot::Maybe(_)) => slot.set(&(at + 1).to_string()),
                mut slot @ Slot::Flag(_) => slot.set("true"),
                mut slot @ Slot::Text(_) => slot.set("cannot write file: no room"),
            };
            assert_eq!(taken, Some(()));
        }
        statistics.stalls = vec![Stall { thread: "my worker".into(), for_ns: 5 }];
        let program = "my program".into();
        Published {
            pid: 42,
            program,
            since_unix_ns: 1,
            written_unix_ns: 2,
            clock_ns: 3,
            interval_ns: 4,
            statistics,
        }
    }

    /// Proves that everything published is read back, under every condition of the log.
    #[test]
    fn a_text_is_read_back() {
        let cause = || "no room: 7 bytes".to_string();
        let mut published = unlike_any();
        for condition in [
            LogCondition::Good,
            LogCondition::Refusing { cause: cause() },
            LogCondition::Stalled { for_ns: 9, cause: cause() },
            LogCondition::Stopped { cause: cause() },
        ] {
            published.statistics.log_condition = condition;
            let read = Published::parse(published.text().as_bytes()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{published:?}"));
        }
        published.program = "é\n".repeat(3000);
        let read = Published::parse(published.text().as_bytes()).unwrap();
        assert_eq!(read.program, "é ".repeat(TEXT_CHARS_MAX / 2));
    }

    /// Proves that a file that is cut, or has one byte changed, is refused, and that unknown names are skipped.
    #[test]
    fn damage_is_noticed() {
        let text = unlike_any().text().into_bytes();
        for end in 0..text.len() {
            assert!(Published::parse(&text[..end]).is_err(), "{end}");
            let mut changed = text.clone();
            changed[end] ^= 1;
            assert!(Published::parse(&changed).is_err(), "{end}");
        }
        assert!(Published::parse(&vec![0; 4096]).is_err());
        let with = |line: &str| {
            let body = format!("{HEAD}{line}");
            Published::parse(format!("{body}{CHECKSUM}{:08x}\n", crc32c::crc32c(body.as_bytes())).as_bytes())
        };
        assert_eq!(with("of_the_future 1 2\ncommits 7\n").unwrap().statistics.commits, 7);
        assert!(with("commits x\n").unwrap_err().contains("\"commits x\""));
        let later = Published::parse(b"braid statistics 2\n\x7f").unwrap_err();
        assert!(later.contains("another version"), "{later}");
    }
}
