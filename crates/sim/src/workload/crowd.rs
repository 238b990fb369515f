//! Transactions that read more rows at once than they have slots for, and that leak locks and writes of other rows. At
//! the end all of these other rows are free.

use super::{Made, Workload, digest_rows};
use crate::leak::leak_change;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows, load};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result, Table};
use futures::future::join_all;

struct Crowd {
    rows: Rows,
    /// The rows that leaked operations lock and write.
    spoils: Table<u64, u64>,
}

const KEYS: u64 = 14;
const SPOILS: u64 = 6;
/// The number of concurrent reads, which is more than a transaction has slots.
const READS_MIN: u64 = 9;
const READS_MAX: u64 = 12;

/// The workload.
pub fn crowd<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let rows = database.table("crowd")?;
    load(database, ledger, async |recording| {
        for key in 0..KEYS {
            recording.insert(rows, key, 0).await?;
        }
        Ok(())
    })?;
    let spoils = database.table("spoils")?;
    database.transact(|tx| (0..SPOILS).try_for_each(|key| tx.insert(spoils, key, 0)))?;
    Ok(Box::new(Crowd { rows, spoils }))
}

impl<C: ConcurrencyControl> Workload<C> for Crowd {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, spoils, seed) = (self.rows, self.spoils, random.any());
        let (reads, leaks) = (random.between(READS_MIN, READS_MAX), random.chance(30));
        let body = async move |recording: &Recording<'_, C>| {
            let mut random = Random::new(seed); // a retry does the same again
            let first = random.below(KEYS);
            let all = join_all((0..reads).map(|at| recording.get(rows, (first + at) % KEYS))).await;
            let numbers: Vec<_> = all.into_iter().collect::<Result<_>>()?;
            let sum = numbers
                .iter()
                .map(|number| number.ok_or_else(|| Error::user("a row is gone")))
                .sum::<Result<u32>>()?;
            if leaks {
                leak_change(recording.tx(), spoils, random.below(2 * SPOILS), random.any()).await;
            }
            recording.put(rows, random.below(KEYS), sum % 1000).await?;
            if leaks {
                leak_change(recording.tx(), spoils, random.below(2 * SPOILS), random.any()).await;
            }
            Ok(())
        };
        submitter.spawn_recorded(body, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let found = observer.recorded(async |recording| recording.scan(rows, 0..=KEYS, false).await)?;
        Ok(digest_rows(&found).into())
    }

    /// Checks that every row on which operations have leaked can be locked without waiting.
    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let tx = database.begin()?;
        for key in 0..2 * SPOILS {
            tx.get_for_update(self.spoils, key)?;
            tx.put(self.spoils, key, 1)?;
        }
        tx.commit()
    }
}
