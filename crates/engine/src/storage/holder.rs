//! The holder of a directory.

use std::fmt;

/// Longer program names are cut, so that a lock file stays a line or three.
const PROGRAM_BYTES_MAX: usize = 256;

/// The process that has locked a directory, as others are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process's id.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// When it began to use the directory, in seconds since 1970. Only for people to read.
    pub started_s: u64,
}

impl Holder {
    /// Returns this process. The caller has the clock and says when the process started.
    pub fn this_process(started_s: u64) -> Holder {
        let path = std::env::current_exe().unwrap_or_default();
        let program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Holder { pid: std::process::id(), program, started_s }
    }

    /// Returns the text of a lock file, which [`Holder::parse`] reads.
    pub(super) fn text(&self) -> String {
        let program: String = self.program.chars().filter(|c| !c.is_control()).collect();
        let end = program.floor_char_boundary(PROGRAM_BYTES_MAX);
        format!("pid {}\nstarted_s {}\nprogram {}\n", self.pid, self.started_s, &program[..end])
    }

    /// Returns the holder that a lock file names. Returns none if the file is empty or half written.
    pub(super) fn parse(text: &str) -> Option<Holder> {
        let mut lines = text.strip_suffix('\n')?.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let pid = field("pid")?.parse().ok()?;
        let started_s = field("started_s")?.parse().ok()?;
        Some(Holder { pid, program: field("program")?.to_string(), started_s })
    }

    /// Returns true if these bytes are exactly the text of a holder.
    pub(super) fn is_text(bytes: &[u8]) -> bool {
        let text = str::from_utf8(bytes).ok();
        text.is_some_and(|text| Holder::parse(text).is_some_and(|holder| holder.text() == text))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.started_s / 86_400);
        let of_day = self.started_s % 86_400;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{} (process {}) since ", self.program, self.pid)?;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Returns the year, month and day of a day counted from 1970-01-01. This is Howard Hinnant's `civil_from_days`, in
/// which a year begins in March so that the leap day is its last.
pub(crate) fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    debug_assert!((1..=12).contains(&month));
    debug_assert!((1..=31).contains(&day));
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A held directory. Dropping the guard releases it.
pub struct LockGuard {
    _held: Box<dyn Send + Sync>,
}

impl LockGuard {
    /// Makes a guard for implementations of [`Storage`](super::Storage). The directory is held until the guard drops
    /// `held`.
    pub fn new(held: impl Send + Sync + 'static) -> LockGuard {
        LockGuard { _held: Box::new(held) }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a lock file names its writer, and that a half-written lock file names no holder.
    #[test]
    fn a_holder_is_read_back() {
        let holder = Holder { pid: 42, program: "my program".to_string(), started_s: 7 };
        let text = holder.text();
        assert_eq!(Holder::parse(&text), Some(holder));
        assert!(Holder::is_text(text.as_bytes()));
        assert!(!Holder::is_text(format!("{text}and a line of somebody's\n").as_bytes()));
        for end in 0..text.len() {
            assert_eq!(Holder::parse(&text[..end]), None, "{end}");
        }
        let odd = Holder { pid: 1, program: "é\n".repeat(300), started_s: 0 };
        let read = Holder::parse(&odd.text()).unwrap();
        assert_eq!(read.program, "é".repeat(PROGRAM_BYTES_MAX / 2));
    }

    /// Proves that times are displayed in the calendar, leap days included.
    #[test]
    fn a_holder_is_told_to_people() {
        let at = |started_s| Holder { pid: 42, program: "braid".to_string(), started_s }.to_string();
        assert_eq!(at(0), "braid (process 42) since 1970-01-01 00:00:00 UTC");
        assert!(at(951_782_399).ends_with("2000-02-28 23:59:59 UTC"), "{}", at(951_782_399));
        assert!(at(951_782_400).ends_with("2000-02-29 00:00:00 UTC"), "{}", at(951_782_400));
        assert!(at(1_767_225_599).ends_with("2025-12-31 23:59:59 UTC"), "{}", at(1_767_225_599));
        assert!(at(4_107_542_400).ends_with("2100-03-01 00:00:00 UTC"), "{}", at(4_107_542_400));
    }
}
