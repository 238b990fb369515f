//! Operations of every kind on a few keys, all recorded. The checker of the history says what must hold.

use super::{Made, Workload, digest_rows};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result};

struct Mixed {
    rows: Rows,
    keys: u64,
}

const KEYS_MAX: u64 = 12;
const OPERATIONS_MAX: u64 = 6;

/// The workload.
pub fn mixed<C: ConcurrencyControl>(database: &Database<C>, random: &mut Random, _: &Ledger) -> Made<C> {
    Ok(Box::new(Mixed { rows: database.table("mixed")?, keys: random.between(2, KEYS_MAX) }))
}

impl<C: ConcurrencyControl> Workload<C> for Mixed {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, keys, seed) = (self.rows, self.keys, random.any());
        let (operations, gives_up) = (random.between(1, OPERATIONS_MAX), random.chance(5));
        let is_reader = random.chance(25);
        let is_declared = is_reader && random.chance(50);
        let body = async move |recording: &Recording<'_, C>| {
            if is_declared {
                recording.tx().declare_read_only();
            }
            let mut random = Random::new(seed); // a retry does the same again
            for _ in 0..operations {
                let kind = random.below(if is_reader { 4 } else { 10 });
                operate(recording, rows, keys, kind, &mut random).await?;
            }
            if gives_up { Err(Error::user("changed its mind")) } else { Ok(()) }
        };
        submitter.spawn_recorded(body, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let (rows, keys) = (self.rows, self.keys);
        let found = observer.recorded(async |recording| recording.scan(rows, 0..=keys, false).await)?;
        Ok(digest_rows(&found).into())
    }
}

/// Performs one operation. The kinds below 4 only read.
async fn operate<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    keys: u64,
    kind: u64,
    random: &mut Random,
) -> Result<()> {
    let (key, other) = (random.below(keys), random.below(keys));
    match kind {
        0 | 1 => recording.get(rows, key).await.map(drop),
        2 => recording.get_both(rows, [key, other]).await.map(drop),
        3 => {
            let (range, is_reverse, read) =
                (key.min(other)..=key.max(other), random.chance(50), random.below(keys));
            let scan = recording.scan(rows, range, is_reverse);
            if random.chance(70) {
                return scan.await.map(drop);
            }
            let (scanned, got) = futures::join!(scan, recording.get(rows, read));
            scanned.and(got.map(drop))
        }
        4..7 => recording.put(rows, key, 0).await,
        7 => recording.insert(rows, key, 0).await.map(drop),
        8 => recording.delete(rows, key).await.map(drop),
        _ => {
            let row = recording.get(rows, key).await?;
            recording.put(rows, key, row.unwrap_or(0) + 1).await
        }
    }
}
