//! Reading what is published, and whether it can be believed.

use crate::database::open::{Failure, existing};
use braiddb::metrics::{Clock, SystemClock};
use braiddb::storage::{Cause, FileStorage, Holder, Storage};
use braiddb::tools::{self, Published};
use std::path::Path;
use std::time::Duration;

/// Statistics are late when they are older than this many of their intervals, and `LATE`.
const LATE_INTERVALS: u32 = 3;
const LATE: Duration = Duration::from_secs(2);

/// What is published of the database in this directory, by a process that goes on to.
pub fn read(path: &Path) -> Result<Published, Failure> {
    let storage = existing(path)?;
    let published = tools::published(path)?.ok_or_else(|| nothing(path))?;
    check(&storage, &published, path)?;
    Ok(published)
}

/// How long ago it was published.
pub fn age(published: &Published) -> Duration {
    Duration::from_nanos(now_unix_ns().saturating_sub(published.written_unix_ns))
}

fn now_unix_ns() -> u64 {
    SystemClock::default().unix_ns()
}

fn nothing(path: &Path) -> String {
    let path = path.display();
    format!(
        "no statistics are published in {path}: the program that has the database open has to call \
         Database::publish_statistics; `braid info {path}` tells of a database that no process has open"
    )
}

/// Fails if no process goes on to publish. (The lock is taken only if it seems so: while it is held, no program can open the
/// database.)
fn check(storage: &FileStorage, published: &Published, path: &Path) -> Result<(), Failure> {
    let age = age(published);
    let is_late = age > Duration::from_nanos(published.interval_ns).saturating_mul(LATE_INTERVALS) + LATE;
    if !is_late && may_run(published.pid) {
        return Ok(());
    }
    let (path, age_s) = (path.display(), age.as_secs_f64());
    let Published { pid, program, .. } = published;
    let gone = format!(
        "the statistics in {path} are {age_s:.1} s old, of process {pid} ({program}), which has ended without closing the \
         database: start it again, or see `braid info {path}`"
    );
    match storage.lock(&Holder::this_process(now_unix_ns() / 1_000_000_000)) {
        Ok(_free) => Err(gone.into()),
        Err(error) => match error.cause() {
            Cause::Locked(Some(holder)) if u64::from(holder.pid) != *pid => Err(format!(
                "{gone}; process {} ({}) has the database open, and publishes nothing",
                holder.pid, holder.program
            )
            .into()),
            Cause::Locked(_) if !is_late => Ok(()), // a process that cannot be seen from here
            _ => Err(late(published, age).into()),
        },
    }
}

fn late(published: &Published, age: Duration) -> String {
    let Published { pid, program, interval_ns, .. } = published;
    let (age_s, every_s) = (age.as_secs_f64(), Duration::from_nanos(*interval_ns).as_secs_f64());
    format!(
        "process {pid} ({program}) has published statistics {age_s:.1} s ago and not since, though it was to every {every_s} s: \
         it is stopped, or cannot write; `Publisher::take_error` says why"
    )
}

/// Returns false if there surely is no such process that could be seen from here.
fn may_run(pid: u64) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(pid.to_string()).exists()
}
