//! Write skew: doctors leave their shift if another one stays, so at least one stays. Under snapshot isolation two can
//! leave at once, each counting on the other.

use super::{Made, Workload, digest_rows};
use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows, load};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result};

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

/// A committed transaction has counted the shift's doctors.
fn counted(ledger: &Ledger, shift: u64, doctors: usize) {
    ledger.check_under(Isolation::Serial, doctors > 0, || format!("nobody is left in shift {shift}"));
}

/// The doctors on call: found by a scan of the shift, or one by one.
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

impl<C: ConcurrencyControl> Workload<C> for Skew {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, shift, scans) = (self.rows, random.below(SHIFTS), random.chance(50));
        let (doctor, is_reader) = (shift * STRIDE + random.below(DOCTORS), random.chance(30));
        let body = async move |recording: &Recording<'_, C>| {
            let doctors = on_call(recording, rows, shift, scans).await?;
            if is_reader {
                // sees that somebody is there
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
