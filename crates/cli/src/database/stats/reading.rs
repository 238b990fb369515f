//! Reads published statistics, and checks whether they are current.

use crate::database::open::{Failure, existing};
use braiddb::metrics::{Clock, SystemClock};
use braiddb::storage::{Cause, FileStorage, Holder, Storage};
use braiddb::tools::{self, Published};
use std::path::Path;
use std::time::Duration;

/// Statistics are late if they are older than this many of their intervals plus `LATE`.
const LATE_INTERVALS: u32 = 3;
const LATE: Duration = Duration::from_secs(2);

/// Reads what a process publishes about the database in this directory. The process must still be publishing.
pub fn read(path: &Path) -> Result<Published, Failure> {
    let storage = existing(path)?;
    let published = tools::published(path)?.ok_or_else(|| nothing(path))?;
    check(&storage, &published, path)?;
    Ok(published)
}

/// The time since the statistics were published.
pub fn age(published: &Published) -> Duration {
    Duration::from_nanos(now_unix_ns().saturating_sub(published.written_unix_ns))
}

fn now_unix_ns() -> u64 {
    SystemClock::default().unix_ns()
}

fn nothing(path: &Path) -> String {
    let path = path.display();
    format!(
        "no statistics are published in {path}: the program that has the database open must call \
         Database::publish_statistics; `braid info {path}` describes a database that no process has open"
    )
}

/// Fails if no process continues to publish. Takes the lock only if this seems to be the case, because no program can
/// open the database while the lock is held.
fn check(storage: &FileStorage, published: &Published, path: &Path) -> Result<(), Failure> {
    let age = age(published);
    let is_late = age > Duration::from_nanos(published.interval_ns).saturating_mul(LATE_INTERVALS) + LATE;
    if !is_late && may_run(published.pid) {
        return Ok(());
    }
    let (path, age_s) = (path.display(), age.as_secs_f64());
    let Published { pid, program, .. } = published;
    let gone = format!(
        "the statistics in {path} are {age_s:.1} s old and come from process {pid} ({program}), which ended without \
         closing the database: start it again, or run `braid info {path}`"
    );
    match storage.lock(&Holder::this_process(now_unix_ns() / 1_000_000_000)) {
        Ok(_free) => Err(gone.into()),
        Err(error) => match error.cause() {
            Cause::Locked(Some(holder)) if u64::from(holder.pid) != *pid => Err(format!(
                "{gone}; process {} ({}) has the database open, but publishes no statistics",
                holder.pid, holder.program
            )
            .into()),
            Cause::Locked(_) if !is_late => Ok(()), // the process cannot be seen from here
            _ => Err(late(published, age).into()),
        },
    }
}

fn late(published: &Published, age: Duration) -> String {
    let Published { pid, program, interval_ns, .. } = published;
    let (age_s, every_s) = (age.as_secs_f64(), Duration::from_nanos(*interval_ns).as_secs_f64());
    format!(
        "process {pid} ({program}) last published statistics {age_s:.1} s ago, but should publish every {every_s} s: \
         it is stopped, or cannot write; `Publisher::take_error` returns the reason"
    )
}

/// Returns false if there is certainly no such process among the visible ones.
fn may_run(pid: u64) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(pid.to_string()).exists()
}
