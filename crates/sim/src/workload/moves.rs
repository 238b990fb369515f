//! Amounts that move between rows, and rows that move between keys: they are split, joined, moved as a whole, inserted
//! and deleted. Every scan of all rows finds the same sum, and finds each row exactly once.

use super::{Made, Workload, digest_rows};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows, load};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result};
use std::cell::Cell;
use std::rc::Rc;

struct Moves {
    rows: Rows,
    ledger: Ledger,
    /// The planted bug: a reader scans each half of the keys in a transaction of its own.
    is_torn: bool,
    half_read: Rc<Cell<Option<u32>>>,
}

const KEYS: u64 = 48;
const EACH: u32 = 100;
/// The sum of all amounts. At the beginning every second key has a row.
const TOTAL: u32 = KEYS as u32 / 2 * EACH;

/// The workload.
pub fn moves<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: readers whose sum comes from two transactions.
pub fn moves_torn<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, is_torn: bool) -> Made<C> {
    let rows = database.table("moves")?;
    load(database, ledger, async |recording| {
        for key in (0..KEYS).step_by(2) {
            recording.insert(rows, key, EACH).await?;
        }
        Ok(())
    })?;
    Ok(Box::new(Moves { rows, ledger: ledger.clone(), is_torn, half_read: Rc::default() }))
}

fn sum(rows: &[(u64, u32)]) -> u32 {
    rows.iter().map(|(_, amount)| amount).sum()
}

fn check(ledger: &Ledger, how: &str, sum: u32) -> Result<()> {
    ledger.check_open(sum == TOTAL, || format!("rows scanned {how} add up to {sum}, not {TOTAL}"))
}

impl<C: ConcurrencyControl> Workload<C> for Moves {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, ledger, is_reverse) = (self.rows, self.ledger.clone(), random.chance(50));
        if random.chance(60) {
            let (from, to) = (random.below(KEYS), random.below(KEYS));
            let (amount, gives_up) = (random.between(1, 2 * u64::from(EACH)) as u32, random.chance(5));
            let body = async move |recording: &Recording<'_, C>| {
                let is_free = shift(recording, rows, from, to, amount).await?;
                ledger.check_open(is_free, || {
                    format!("an insert of {to} met a row that its snapshot has not")
                })?;
                if gives_up { Err(Error::user("changed its mind")) } else { Ok(()) }
            };
            return submitter.spawn_recorded(body, |()| ());
        }
        if self.is_torn {
            return self.begin_torn_reader(submitter);
        }
        let middle = random.below(KEYS + 1);
        let body = async move |recording: &Recording<'_, C>| {
            let mut total = sum(&recording.scan(rows, middle..=KEYS, is_reverse).await?);
            if middle > 0 {
                total += sum(&recording.scan(rows, 0..=middle - 1, !is_reverse).await?);
            }
            check(&ledger, "in two parts", total)
        };
        submitter.spawn_recorded(body, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let found = observer.recorded(async |recording| recording.scan(rows, 0..=KEYS, true).await)?;
        check(&self.ledger, "from outside", sum(&found))?;
        Ok(digest_rows(&found).into())
    }
}

/// Moves an amount to a key that may have a row, or moves the whole row if it has no more than this amount. Returns
/// false if the key seemed to have no row and has one.
async fn shift<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    from: u64,
    to: u64,
    amount: u32,
) -> Result<bool> {
    let [Some(there), target] = recording.get_both(rows, [from, to]).await? else { return Ok(true) };
    if from == to {
        return Ok(true);
    }
    let amount = amount.min(there);
    if amount == there {
        recording.delete(rows, from).await?;
    } else {
        recording.put(rows, from, there - amount).await?;
    }
    match target {
        Some(target) => recording.put(rows, to, target + amount).await.map(|()| true),
        None => recording.insert(rows, to, amount).await,
    }
}

impl Moves {
    fn begin_torn_reader<C: ConcurrencyControl>(&self, submitter: &mut Submitter<'_, C>) {
        let (rows, ledger, half_read) = (self.rows, self.ledger.clone(), self.half_read.clone());
        let first = half_read.take();
        let range = if first.is_none() { 0..=KEYS / 2 } else { KEYS / 2 + 1..=KEYS };
        let body = async move |recording: &Recording<'_, C>| {
            recording.scan(rows, range.clone(), false).await.map(|found| sum(&found))
        };
        submitter.spawn_recorded(body, move |sum| match first {
            None => half_read.set(Some(sum)),
            Some(first) => {
                let total = first + sum;
                ledger.check(total == TOTAL, || {
                    format!("rows scanned in two transactions add up to {total}, not {TOTAL}")
                });
            }
        });
    }
}
