//! Restores a database as it was at a point of its past, as a new database.
//!
//! 1. The state is recovered into memory, from a checkpoint that lies before the point and from the log up to the
//!    point.
//! 2. It is written as the first checkpoint of a database with an identity of its own.
//! 3. The new log begins where the old one was left. So positions continue, and without its checkpoint the new
//!    database is known to be incomplete.
//!
//! Invariant: nothing is written before everything was read. Until everything is durable, the new directory says that
//! it is no database.

use super::Progress;
use super::checkpointer::Checkpointer;
use super::damage::{begin_copy, check_finished, end_copy, lock_empty, lock_to_read};
use super::mark::Mark;
use super::recovery::{Found, Recoverer};
use super::status::Step;
use super::steps::Steps;
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, Identity};
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::metrics::Clock;
use crate::storage::{Storage, Union};
use crate::sync::Mutex;
use crate::wal::{self, DatabaseId, Ending, Lsn, Point, Reader, Tail, Until};
use std::sync::Arc;

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restoration {
    /// The point that was reached: all transactions before it, and none behind. Its time is that of the last mark
    /// before it. By that time all of the transactions had been appended, except for those between the mark and the
    /// point.
    pub reached: Point,
    /// The checkpoint that the restoration began with; none if it used only the log.
    pub checkpoint: Option<u64>,
    /// How many rows that checkpoint has.
    pub rows: u64,
    /// How many transactions of the log were applied.
    pub transactions: u64,
}

/// A restoration to be made.
pub(crate) struct Restorer<'r> {
    /// The directory of a database or of a copy, with its checkpoints.
    pub(crate) from: Arc<dyn Storage>,
    /// Where more of its log is. If several have a segment, the last one's counts.
    pub(crate) logs: Vec<Arc<dyn Storage>>,
    /// The new directory.
    pub(crate) to: Arc<dyn Storage>,
    pub(crate) until: Until,
    /// The identity of the new database.
    pub(crate) fresh: DatabaseId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) steps: Arc<dyn Steps>,
    pub(crate) progress: &'r mut (dyn FnMut(&Progress) + Send),
}

impl Restorer<'_> {
    /// Restores by way of an engine. `make` creates empty engines.
    pub(crate) fn run<C: ConcurrencyControl>(
        self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
    ) -> Result<Restoration> {
        let Restorer { from, logs, to, until, fresh, clock, steps, progress } = self;
        // This precedes the locks: if there is no database, nothing is left behind.
        check_finished(&*from)?;
        let database = Identity::read(&*from)?.ok_or(Error::NoDatabase)?.database;
        let _from_lock = lock_to_read(&*from)?;
        let _to_lock = lock_empty(&*to)?;
        let source = Union::new(from, logs, wal::is_segment);
        let kept = Kept { source: &source, database };
        let until = kept.resolve(until)?;
        let progress = Mutex::new(progress);
        let recoverer = Recoverer {
            storage: &source,
            database,
            // The log that is kept elsewhere may continue behind the end that the directory knows.
            closed: None,
            ending: Ending::Unknown,
            steps: &*steps,
            clock: &*clock,
            progress,
            until,
        };
        let found = recoverer.run(make).map_err(|error| kept.explain(error, until))?;
        let reached = found.reached;
        if until != Lsn(u64::MAX) && reached.lsn < until && found.tail.lsn() < until {
            return Err(kept.out_of_reach(Until::Lsn(until)));
        }
        let restoration = Restoration {
            reached,
            checkpoint: found.recovery.checkpoint,
            rows: found.recovery.rows,
            transactions: found.recovery.transactions,
        };
        begin_copy(&*to)?;
        write(found, &to, fresh, steps, clock)?;
        Ok(restoration)
    }
}

/// Writes what was recovered as a new database.
fn write<C: ConcurrencyControl>(
    found: Found<C>,
    to: &Arc<dyn Storage>,
    fresh: DatabaseId,
    steps: Arc<dyn Steps>,
    clock: Arc<dyn Clock>,
) -> Result<()> {
    let Found { engine, reached, .. } = found;
    let _closing = Closing(engine.clone());
    let options =
        wal::Options { segment_bytes: engine.options.log_segment_bytes, ..wal::Options::new(fresh) };
    let (_, flusher) = wal::open(to.clone(), options, clock, Tail::at(reached.lsn)).map_err(Error::Log)?;
    let log = flusher.close().map_err(Error::Log)?;
    let mark = Mark { storage: to.clone(), database: fresh, end: log.end() };
    let mut checkpointer = Checkpointer::new(engine, to.clone(), fresh, steps, Vec::new(), reached.lsn);
    while checkpointer.step()? != Step::Done {}
    Identity::create(&**to, fresh)?;
    if let Some(newest) = checkpointer.newest() {
        mark.publish(newest, Some(log))?;
    }
    end_copy(&**to)
}

fn open_log(source: &Union, database: DatabaseId) -> wal::Result<Reader<'_>> {
    Reader::with_ending(source, database, Lsn(0), Ending::Unknown)
}

/// Releases what keeps an unused engine alive.
struct Closing<C: ConcurrencyControl>(Arc<Engine<C>>);

impl<C: ConcurrencyControl> Drop for Closing<C> {
    fn drop(&mut self) {
        self.0.drop_spares();
    }
}

/// What can be restored from.
struct Kept<'k> {
    source: &'k Union,
    database: DatabaseId,
}

impl Kept<'_> {
    /// Returns the position up to which everything counts; the greatest position stands for the end.
    fn resolve(&self, until: Until) -> Result<Lsn> {
        let unix_ns = match until {
            Until::End => return Ok(Lsn(u64::MAX)),
            // No log is this long. The value stands for the end below.
            Until::Lsn(Lsn(u64::MAX)) => return Err(self.out_of_reach(until)),
            Until::Lsn(lsn) => return Ok(lsn),
            Until::Time { unix_ns } => unix_ns,
        };
        let around = wal::marks_around(self.source, self.database, self.oldest()?.0, unix_ns)?;
        match (around.before, around.after) {
            (Some(before), Some(_)) => Ok(before.lsn),
            (Some(before), None) if before.unix_ns == unix_ns => Ok(before.lsn),
            _ => Err(self.out_of_reach(until)),
        }
    }

    /// Returns where the log has to be read from, and the first point that can be restored.
    fn oldest(&self) -> Result<(Lsn, Lsn)> {
        if open_log(self.source, self.database).is_ok_and(|reader| reader.has_begun()) {
            return Ok((Lsn(0), Lsn(0)));
        }
        let mut oldest = (Lsn(0), Lsn(0));
        for number in checkpoint::list(self.source)? {
            if let Ok(manifest) = checkpoint::read(self.source, self.database, number) {
                oldest = (manifest.start_lsn, manifest.end_lsn);
                break;
            }
        }
        Ok(oldest)
    }

    /// Returns the error that a point cannot be restored, with the points that can.
    fn out_of_reach(&self, asked: Until) -> Error {
        let whole = self.oldest().and_then(|(start, first)| {
            let end = wal::marks_around(self.source, self.database, start, u64::MAX)?.end;
            let first_mark = wal::marks_around(self.source, self.database, start, 0)?.after;
            // This is the time of the first mark that can be asked for.
            let unix_ns = first_mark.filter(|mark| mark.lsn >= first).map(|mark| mark.unix_ns);
            Ok((Point { lsn: first, unix_ns }, end))
        });
        match whole {
            Ok((first, last)) => Error::OutOfReach { asked, first, last },
            Err(error) => error,
        }
    }

    /// Turns the error of a missing log into an error about the point, because no checkpoint lies before it.
    fn explain(&self, error: Error, until: Lsn) -> Error {
        let is_missing = matches!(error, Error::Log(wal::Error::Missing { .. }));
        if is_missing && until != Lsn(u64::MAX) { self.out_of_reach(Until::Lsn(until)) } else { error }
    }
}
