//! Long forks. In each round some transactions write one row and some write another, and readers of both see in which
//! order the rows came. No two committed readers may disagree.

use super::{Made, Workload, digest_rows};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

struct Fork {
    rows: Rows,
    ledger: Ledger,
    orders: Rc<RefCell<Orders>>,
    begun: u64,
    /// The planted bug: a reader reads each row in a transaction of its own.
    is_torn: bool,
    half_read: Rc<RefCell<VecDeque<HalfRead>>>,
}

/// The key of a row, and whether the row was there.
type HalfRead = (u64, bool);

/// By round, the key of the row that came first, according to the first reader that could tell.
type Orders = BTreeMap<u64, u64>;

const TRANSACTIONS_PER_ROUND: u64 = 12;

/// The workload.
pub fn fork<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: readers whose two reads are two transactions.
pub fn fork_torn<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, is_torn: bool) -> Made<C> {
    let (rows, ledger, orders, half_read) =
        (database.table("fork")?, ledger.clone(), Rc::default(), Rc::default());
    Ok(Box::new(Fork { rows, ledger, orders, begun: 0, is_torn, half_read }))
}

/// Notes that a committed reader saw one of the round's rows. If it saw both or none, this tells nothing.
fn saw(orders: &RefCell<Orders>, ledger: &Ledger, round: u64, is_there: [bool; 2]) {
    if is_there[0] == is_there[1] {
        return;
    }
    let first = 2 * round + u64::from(is_there[1]);
    let agreed = *orders.borrow_mut().entry(round).or_insert(first);
    ledger.check(agreed == first, || {
        format!("of the rows {} and {}, each came first to some reader", 2 * round, 2 * round + 1)
    });
}

impl<C: ConcurrencyControl> Workload<C> for Fork {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, round) = (self.rows, self.begun / TRANSACTIONS_PER_ROUND);
        self.begun += 1;
        if random.chance(30) {
            let key = 2 * round + random.below(2);
            let body = async move |recording: &Recording<'_, C>| recording.put(rows, key, 0).await;
            submitter.spawn_recorded(body, |()| ());
        } else if self.is_torn {
            self.begin_torn_reader(submitter, round, random);
        } else {
            self.begin_reader(submitter, round, random);
        }
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let found = observer.recorded(async |recording| recording.scan(rows, 0..=u64::MAX, false).await)?;
        let digest = digest_rows(&found);
        let keys: BTreeSet<u64> = found.into_iter().map(|(key, _)| key).collect();
        let (orders, ledger) = (self.orders.clone(), self.ledger.clone());
        let committed = move || {
            for round in keys.iter().map(|key| key / 2) {
                let is_there = [2 * round, 2 * round + 1].map(|key| keys.contains(&key));
                saw(&orders, &ledger, round, is_there);
            }
        };
        Ok(Look { digest, committed: Some(Box::new(committed)) })
    }
}

impl Fork {
    fn begin_reader<C: ConcurrencyControl>(
        &self,
        submitter: &mut Submitter<'_, C>,
        round: u64,
        random: &mut Random,
    ) {
        let (rows, kind, is_reverse) = (self.rows, random.below(4), random.chance(50));
        let (x, y) = (2 * round, 2 * round + 1);
        let body = async move |recording: &Recording<'_, C>| {
            let is_there = match kind {
                0 => {
                    let found = recording.scan(rows, x..=y, is_reverse).await?;
                    [x, y].map(|key| found.iter().any(|row| row.0 == key))
                }
                1 => recording.get_both(rows, [x, y]).await?.map(|row| row.is_some()),
                2 => {
                    let first = recording.get(rows, x).await?;
                    [first, recording.get(rows, y).await?].map(|row| row.is_some())
                }
                _ => {
                    let second = recording.get(rows, y).await?;
                    [recording.get(rows, x).await?, second].map(|row| row.is_some())
                }
            };
            Ok(is_there)
        };
        let (orders, ledger) = (self.orders.clone(), self.ledger.clone());
        submitter.spawn_recorded(body, move |is_there| saw(&orders, &ledger, round, is_there));
    }

    fn begin_torn_reader<C: ConcurrencyControl>(
        &self,
        submitter: &mut Submitter<'_, C>,
        round: u64,
        random: &mut Random,
    ) {
        let (rows, half_read) = (self.rows, self.half_read.clone());
        let (orders, ledger) = (self.orders.clone(), self.ledger.clone());
        let first = if random.chance(50) { half_read.borrow_mut().pop_front() } else { None };
        let key = first.map_or_else(|| 2 * round + random.below(2), |(first, _)| first ^ 1);
        let body =
            async move |recording: &Recording<'_, C>| Ok(recording.tx().get(rows, key).await?.is_some());
        submitter.spawn_recorded(body, move |is_there| match first {
            None => half_read.borrow_mut().push_back((key, is_there)),
            Some((_, was_there)) => {
                let pair = if key % 2 == 0 { [is_there, was_there] } else { [was_there, is_there] };
                saw(&orders, &ledger, key / 2, pair);
            }
        });
    }
}
