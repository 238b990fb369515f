//! Writers that keep the two rows of each pair equal: every snapshot sees them equal, however it reads.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result, Table, Txn};
use std::cell::Cell;
use std::rc::Rc;

struct Pairs {
    rows: Table<u64, u64>,
    ledger: Ledger,
    /// The planted bug: a reader reads each row of a pair in a transaction of its own.
    is_torn: bool,
    half_read: Rc<Cell<Option<HalfRead>>>,
}

/// A pair, and what its first row held.
type HalfRead = (u64, Option<u64>);

const PAIRS: u64 = 5;

/// The workload.
pub fn pairs<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: readers whose two reads are two transactions.
pub fn pairs_torn<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, is_torn: bool) -> Made<C> {
    let rows = database.table("pairs")?;
    let tx = database.begin()?;
    for key in 0..2 * PAIRS {
        tx.insert(rows, key, 0)?;
    }
    tx.commit()?;
    Ok(Box::new(Pairs { rows, ledger: ledger.clone(), is_torn, half_read: Rc::default() }))
}

impl<C: ConcurrencyControl> Workload<C> for Pairs {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        if random.chance(50) {
            self.begin_writer(submitter, random);
        } else if self.is_torn {
            self.begin_torn_reader(submitter, random);
        } else {
            self.begin_reader(submitter, random);
        }
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let mut seen = 0;
        for pair in 0..PAIRS {
            let values = observer.transaction().get_many(self.rows, &[2 * pair, 2 * pair + 1])?;
            equal(&self.ledger, "from outside", values[0], values[1])?;
            seen = digest(seen, &values[0].map_or(u64::MAX, |value| value).to_le_bytes());
        }
        Ok(seen.into())
    }
}

fn equal(ledger: &Ledger, how: &str, x: Option<u64>, y: Option<u64>) -> Result<()> {
    ledger.check_open(x == y, || format!("a pair is torn, read {how}: {x:?} and {y:?}"))
}

impl Pairs {
    fn begin_writer<C: ConcurrencyControl>(&self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, pair, value) = (self.rows, random.below(PAIRS), random.any());
        let (mut x, mut y) = (2 * pair, 2 * pair + 1);
        if random.chance(50) {
            (x, y) = (y, x);
        }
        let kind = random.below(10);
        let body = async move |tx: &Txn<C>| {
            match kind {
                0 => {
                    tx.delete(rows, x).await?;
                    tx.delete(rows, y).await?;
                }
                1..4 => {
                    let (first, second) = futures::join!(tx.put(rows, x, value), tx.put(rows, y, value));
                    first.and(second)?;
                }
                4 => {
                    tx.put(rows, x, value).await?;
                    return Err(Error::user("changed its mind"));
                }
                _ => {
                    tx.put(rows, x, value).await?;
                    tx.put(rows, y, value).await?;
                }
            }
            Ok(())
        };
        submitter.spawn(body, |()| ());
    }

    fn begin_reader<C: ConcurrencyControl>(&self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, pair, ledger) = (self.rows, random.below(PAIRS), self.ledger.clone());
        let (x, y) = (2 * pair, 2 * pair + 1);
        let kind = random.below(5);
        let body = async move |tx: &Txn<C>| {
            match kind {
                0 => {
                    let (first, second) = (tx.get(rows, y).await?, tx.get(rows, x).await?);
                    equal(&ledger, "one by one", first, second)?;
                }
                1 => {
                    let [first, second] = tx.get_many(rows, &[x, y]).await?;
                    equal(&ledger, "with get_many", first, second)?;
                }
                2 => {
                    let (first, second) = futures::join!(tx.get(rows, x), tx.get(rows, y));
                    equal(&ledger, "with join", first?, second?)?;
                }
                kind => {
                    let all = tx.scan_all(rows);
                    let mut scan = if kind == 3 { all } else { all.reverse() };
                    let mut values = [[None; 2]; PAIRS as usize];
                    while let Some((key, value)) = scan.next().await? {
                        values[key as usize / 2][key as usize % 2] = Some(value);
                    }
                    for [first, second] in values {
                        equal(&ledger, "in a scan", first, second)?;
                    }
                }
            }
            Ok(())
        };
        submitter.spawn(body, |()| ());
    }

    fn begin_torn_reader<C: ConcurrencyControl>(
        &self,
        submitter: &mut Submitter<'_, C>,
        random: &mut Random,
    ) {
        let (rows, ledger, half_read) = (self.rows, self.ledger.clone(), self.half_read.clone());
        match half_read.take() {
            None => {
                let pair = random.below(PAIRS);
                let body = async move |tx: &Txn<C>| tx.get(rows, 2 * pair).await;
                submitter.spawn(body, move |x| half_read.set(Some((pair, x))));
            }
            Some((pair, x)) => {
                let body = async move |tx: &Txn<C>| tx.get(rows, 2 * pair + 1).await;
                submitter.spawn(body, move |y| {
                    ledger.check(x == y, || {
                        format!("a pair is torn, read in two transactions: {x:?} and {y:?}")
                    });
                });
            }
        }
    }
}
