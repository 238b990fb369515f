//! Write skew. Doctors leave their shift if another doctor stays, so at least one stays. Under snapshot isolation two
//! can leave at once, each relying on the other. Some transactions count the doctors before one leaves. Others use
//! updates at the commit, which look at the rows of the other doctors and fail if there is none.

use super::{Made, Workload, digest_rows};
use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows, load};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Skew {
    rows: Rows,
    ledger: Ledger,
}

const SHIFTS: u64 = 3;
const DOCTORS: u64 = 3;
/// Keys per shift.
const STRIDE: u64 = 8;

/// The workload.
pub fn skew<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let rows = database.table("on call")?;
    load(database, ledger, async |recording| {
        for shift in 0..SHIFTS {
            for doctor in 0..DOCTORS {
                recording.insert(rows, shift * STRIDE + doctor, 0).await?;
            }
        }
        Ok(())
    })?;
    Ok(Box::new(Skew { rows, ledger: ledger.clone() }))
}

/// Notes that a committed transaction has counted the shift's doctors.
fn counted(ledger: &Ledger, shift: u64, doctors: usize) {
    ledger.check_under(Isolation::Serial, doctors > 0, || format!("nobody is left in shift {shift}"));
}

/// Returns the doctors on call, found by a scan of the shift or one by one.
async fn on_call<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    shift: u64,
    scans: bool,
) -> Result<Vec<u64>> {
    let first = shift * STRIDE;
    if scans {
        let found = recording.scan(rows, first..=first + STRIDE - 1, false).await?;
        return Ok(found.into_iter().map(|(key, _)| key).collect());
    }
    let mut found = Vec::new();
    for key in first..first + DOCTORS {
        if recording.get(rows, key).await?.is_some() {
            found.push(key);
        }
    }
    Ok(found)
}

/// Counts the doctors of the shift when the transaction commits, and leaves their rows unchanged. If `leaving` is one
/// of them, only the others are counted, and the commit fails if there is none.
fn count_at_commit<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    (shift, leaving): (u64, Option<u64>),
    count: &Arc<AtomicUsize>,
) -> Result<()> {
    count.store(0, Ordering::Relaxed); // only one thread
    let last = shift * STRIDE + DOCTORS - 1;
    for other in shift * STRIDE..=last {
        let count = count.clone();
        recording.look_at_commit(rows, other, move |row| {
            if row.is_some() && leaving != Some(other) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let is_nobody = other == last && count.load(Ordering::Relaxed) == 0;
            if is_nobody && leaving.is_some() { Err(Error::user("nobody else is there")) } else { Ok(()) }
        })?;
    }
    Ok(())
}

impl Skew {
    /// Begins a transaction in which a doctor leaves and checks at the commit that another doctor stays, or which only
    /// checks at the commit that a doctor is there.
    fn begin_late<C: ConcurrencyControl>(
        &self,
        submitter: &mut Submitter<'_, C>,
        shift: u64,
        leaving: Option<u64>,
    ) {
        let (rows, count) = (self.rows, Arc::new(AtomicUsize::new(0)));
        let counts = count.clone();
        let body = async move |recording: &Recording<'_, C>| {
            if let Some(doctor) = leaving {
                recording.delete(rows, doctor).await?;
            }
            count_at_commit(recording, rows, (shift, leaving), &counts)
        };
        let ledger = self.ledger.clone();
        submitter.spawn_recorded(body, move |()| counted(&ledger, shift, count.load(Ordering::Relaxed)));
    }
}

impl<C: ConcurrencyControl> Workload<C> for Skew {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        if random.chance(25) {
            let (shift, doctor) = (random.below(SHIFTS), random.below(DOCTORS));
            let leaving = random.chance(80).then_some(shift * STRIDE + doctor);
            return self.begin_late(submitter, shift, leaving);
        }
        let (rows, shift, scans) = (self.rows, random.below(SHIFTS), random.chance(50));
        let (doctor, is_reader) = (shift * STRIDE + random.below(DOCTORS), random.chance(30));
        let body = async move |recording: &Recording<'_, C>| {
            let doctors = on_call(recording, rows, shift, scans).await?;
            if is_reader {
                // checks that a doctor is there
            } else if !doctors.contains(&doctor) {
                recording.insert(rows, doctor, 0).await?;
            } else if doctors.len() > 1 {
                recording.delete(rows, doctor).await?;
            }
            Ok(doctors.len())
        };
        let ledger = self.ledger.clone();
        submitter.spawn_recorded(body, move |doctors| counted(&ledger, shift, doctors));
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let found =
            observer.recorded(async |recording| recording.scan(rows, 0..=SHIFTS * STRIDE, false).await)?;
        let digest = digest_rows(&found);
        let ledger = self.ledger.clone();
        let committed = move || {
            for shift in 0..SHIFTS {
                counted(&ledger, shift, found.iter().filter(|(key, _)| key / STRIDE == shift).count());
            }
        };
        Ok(Look { digest, committed: Some(Box::new(committed)) })
    }
}
