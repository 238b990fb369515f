//! Strictness: counters only grow, for all transactions and in real time. A transaction that begins after a value was
//! acknowledged, read or written, sees this value or a later one.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

struct Monotonic {
    rows: Rows,
    ledger: Ledger,
    acknowledged: Rc<RefCell<Counts>>,
    /// The planted bug: a reader returns what the reader before it has read.
    is_stale: bool,
    cached: Rc<Cell<Counts>>,
}

const COUNTERS: u64 = 3;
const KEYS: [u64; COUNTERS as usize] = [0, 1, 2];

type Counts = [u32; COUNTERS as usize];

/// The workload.
pub fn monotonic<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: readers that answer from a cache.
pub fn monotonic_stale<C: ConcurrencyControl>(
    database: &Database<C>,
    _: &mut Random,
    ledger: &Ledger,
) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, is_stale: bool) -> Made<C> {
    let (rows, acknowledged, cached) = (database.table("monotonic")?, Rc::default(), Rc::default());
    Ok(Box::new(Monotonic { rows, ledger: ledger.clone(), acknowledged, is_stale, cached }))
}

/// Reads counters in this order. Counters that are not read are `None`.
async fn read<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    keys: &[u64],
) -> Result<[Option<u32>; COUNTERS as usize]> {
    let mut counts = [None; COUNTERS as usize];
    for &key in keys {
        counts[key as usize] = Some(recording.get(rows, key).await?.unwrap_or(0));
    }
    Ok(counts)
}

/// Notes that a transaction was acknowledged with these counts. It began when `floor` was acknowledged.
fn acknowledge(
    acknowledged: &RefCell<Counts>,
    ledger: &Ledger,
    floor: Counts,
    counts: [Option<u32>; COUNTERS as usize],
) {
    for (key, count) in counts.into_iter().enumerate() {
        let Some(count) = count else { continue };
        ledger.check(count >= floor[key], || {
            format!("counter {key} is {count} to one who began when {} had been acknowledged", floor[key])
        });
        let mut acknowledged = acknowledged.borrow_mut();
        acknowledged[key] = acknowledged[key].max(count);
    }
}

impl<C: ConcurrencyControl> Workload<C> for Monotonic {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, key, is_writer) = (self.rows, random.below(COUNTERS), random.chance(40));
        let mut keys = KEYS;
        keys.rotate_left(random.below(COUNTERS) as usize);
        let stale = self.is_stale.then(|| self.cached.clone());
        let acknowledged = self.acknowledged.clone();
        let body = async move |recording: &Recording<'_, C>| {
            let floor = *acknowledged.borrow();
            if is_writer {
                let mut counts = read(recording, rows, &[key]).await?;
                let count = counts[key as usize].map_or(1, |count| count + 1);
                recording.put(rows, key, count).await?;
                counts[key as usize] = Some(count);
                return Ok((floor, counts));
            }
            let counts = read(recording, rows, &keys).await?;
            let Some(cached) = &stale else { return Ok((floor, counts)) };
            let before = cached.replace(counts.map(|count| count.unwrap_or(0)));
            Ok((floor, before.map(Some)))
        };
        let (acknowledged, ledger) = (self.acknowledged.clone(), self.ledger.clone());
        submitter.spawn_recorded(body, move |(floor, counts)| {
            acknowledge(&acknowledged, &ledger, floor, counts);
        });
    }

    /// A look has no floor of its own, because it may be one of many in a transaction that began long ago.
    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let counts = observer.recorded(async |recording| read(recording, rows, &KEYS).await)?;
        let seen = counts.iter().flatten().fold(0, |seen, count| digest(seen, &count.to_le_bytes()));
        let (acknowledged, ledger) = (self.acknowledged.clone(), self.ledger.clone());
        let committed = move || acknowledge(&acknowledged, &ledger, Counts::default(), counts);
        Ok(Look { digest: seen, committed: Some(Box::new(committed)) })
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let (tx, floor) = (database.begin()?, *self.acknowledged.borrow());
        let rows = tx.get_many(self.rows, &KEYS)?;
        let counts = rows.map(|row| Some(row.map_or(0, |row| (row >> 32) as u32)));
        acknowledge(&self.acknowledged, &self.ledger, floor, counts);
        Ok(())
    }
}
