//! Keys come and go, against a model of every state that each has been in. A counter beside each key puts its
//! changes in a row: who reads the counter knows the state. In the end, nothing is left but what lives.

use super::{Workload, digest};
use crate::ledger::Ledger;
use crate::random::Random;
use crate::scheduler::Stage;
use braiddb::{Database, Error, Result, Table, Transaction, Txn};
use std::cell::RefCell;
use std::rc::Rc;

/// By key: its value after so many changes.
type History = Vec<Vec<Option<u64>>>;

#[derive(Clone, Copy)]
struct Tables {
    changes: Table<u64, u64>,
    numbers: Table<u64, u64>,
    names: Table<String, u64>,
}

struct Churn {
    tables: Tables,
    ledger: Ledger,
    history: Rc<RefCell<History>>,
}

/// The first half of the keys are numbers, the others names.
const KEYS: u64 = 24;

/// The workload.
pub fn churn(database: &Database, _: &mut Random, ledger: &Ledger) -> Result<Box<dyn Workload>> {
    let tables = Tables {
        changes: database.table("changes")?,
        numbers: database.table("numbers")?,
        names: database.table("names")?,
    };
    let tx = database.begin()?;
    for key in 0..KEYS {
        tx.insert(tables.changes, key, 0)?;
    }
    tx.commit()?;
    let history = Rc::new(RefCell::new(vec![vec![None]; KEYS as usize]));
    Ok(Box::new(Churn { tables, ledger: ledger.clone(), history }))
}

fn is_name(key: u64) -> bool {
    key >= KEYS / 2
}

/// Names that share up to five slices, and leave layers of the index empty when they go.
fn name(key: u64) -> String {
    let shared = "layer 0 layer 1 layer 2 layer 3 layer 4 ";
    format!("{}{}", &shared[..(key as usize % 6) * 8], key)
}

impl Tables {
    async fn get(&self, tx: &Txn, key: u64) -> Result<Option<u64>> {
        if is_name(key) { tx.get(self.names, name(key)).await } else { tx.get(self.numbers, key).await }
    }

    /// Gives the key another state, which depends on `how`. Returns it.
    async fn change(&self, tx: &Txn, key: u64, how: u64, existed: bool) -> Result<Option<u64>> {
        if existed && !how.is_multiple_of(3) {
            let deleted = match is_name(key) {
                true => tx.delete(self.names, name(key)).await?,
                false => tx.delete(self.numbers, key).await?,
            };
            return if deleted { Ok(None) } else { Err(Error::Cancelled) };
        }
        match (is_name(key), existed) {
            (true, true) => tx.put(self.names, name(key), how).await?,
            (true, false) => tx.insert(self.names, name(key), how).await?,
            (false, true) => tx.put(self.numbers, key, how).await?,
            (false, false) => tx.insert(self.numbers, key, how).await?,
        }
        Ok(Some(how))
    }
}

impl Workload for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn begin(&mut self, stage: &mut Stage<'_>, random: &mut Random) {
        let (tables, key, how, gives_up) = (self.tables, random.below(KEYS), random.any(), random.chance(10));
        let is_reader = random.chance(20);
        let (history, ledger) = (self.history.clone(), self.ledger.clone());
        let committed = self.history.clone();
        let body = async move |tx: &Txn| {
            let changes = tx.get(tables.changes, key).await?.unwrap_or(u64::MAX);
            let state = tables.get(tx, key).await?;
            expect(&history, &ledger, key, changes, state);
            if is_reader {
                return Ok(None);
            }
            let state = tables.change(tx, key, how, state.is_some()).await?;
            if gives_up {
                return Err(Error::user("changed its mind"));
            }
            tx.put(tables.changes, key, changes + 1).await?;
            Ok(Some(state))
        };
        stage.spawn(body, move |state| {
            if let Some(state) = state {
                committed.borrow_mut()[key as usize].push(state);
            }
        });
    }

    fn look(&self, transaction: &Transaction) -> Result<u64> {
        let mut seen = 0;
        for key in 0..KEYS {
            let changes = transaction.get(self.tables.changes, key)?.unwrap_or(u64::MAX);
            let state = match is_name(key) {
                true => transaction.get(self.tables.names, name(key))?,
                false => transaction.get(self.tables.numbers, key)?,
            };
            expect(&self.history, &self.ledger, key, changes, state);
            seen = digest(seen, &changes.to_le_bytes());
        }
        Ok(seen)
    }

    fn end(&mut self, database: &Database) -> Result<()> {
        let tx = database.begin()?;
        self.look(&tx)?;
        let alive: Vec<u64> = (0..KEYS)
            .filter(|&key| self.history.borrow()[key as usize].last().is_some_and(Option::is_some))
            .collect();
        let (mut numbers, mut names) =
            (tx.scan(self.tables.numbers, ..KEYS), tx.scan_prefix(self.tables.names, b""));
        let mut found = 0;
        while numbers.next()?.is_some() {
            found += 1;
        }
        while names.next()?.is_some() {
            found += 1;
        }
        self.ledger
            .check(found == alive.len(), || format!("scans find {found} rows, alive are {}", alive.len()));
        let (records, expected) = (database.statistics().memory.records, KEYS + alive.len() as u64);
        self.ledger.check(records == expected, || format!("{records} records are kept for {expected} rows"));
        Ok(())
    }
}

/// After so many changes, the key's state is the one that the last of them gave it.
fn expect(history: &RefCell<History>, ledger: &Ledger, key: u64, changes: u64, state: Option<u64>) {
    let history = history.borrow();
    let expected = history[key as usize].get(changes as usize);
    ledger.check(expected == Some(&state), || {
        format!("key {key} is {state:?} after {changes} changes, not {expected:?}")
    });
}
