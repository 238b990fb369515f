//! Keys that come and go, checked against a model of every state that each key has been in. A counter beside each key
//! orders the key's changes: a transaction that reads the counter knows the state. At the end only the rows of existing
//! keys are left.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::{IDLE_ROWS, Submitter};
use braiddb::{ConcurrencyControl, Database, Error, Result, Table, Txn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The key's value, by key and number of changes. A commit can be seen before it is acknowledged, so states that are
/// not here yet are looked up at the end.
#[derive(Default)]
struct History {
    states: BTreeMap<(u64, u64), Option<u64>>,
    early: Vec<Seen>,
}

/// The rows that a transaction has seen.
#[derive(Clone, Copy)]
struct Seen {
    key: u64,
    changes: u64,
    state: Option<u64>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { key, changes, state } = self;
        write!(f, "key {key} was found to be {state:?} after {changes} changes, and is not")
    }
}

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

/// The number of keys. The first half are numbers, the others names.
const KEYS: u64 = 24;

/// The workload.
pub fn churn<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
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
    let states = (0..KEYS).map(|key| ((key, 0), None)).collect();
    let history = Rc::new(RefCell::new(History { states, early: Vec::new() }));
    Ok(Box::new(Churn { tables, ledger: ledger.clone(), history }))
}

fn is_name(key: u64) -> bool {
    key >= KEYS / 2
}

/// Returns a name. Names share up to five slices, and leave layers of the index empty when they are deleted.
fn name(key: u64) -> String {
    let shared = "layer 0 layer 1 layer 2 layer 3 layer 4 ";
    format!("{}{}", &shared[..(key as usize % 6) * 8], key)
}

impl Tables {
    async fn get<C: ConcurrencyControl>(&self, tx: &Txn<C>, key: u64) -> Result<Option<u64>> {
        if is_name(key) { tx.get(self.names, name(key)).await } else { tx.get(self.numbers, key).await }
    }

    /// Gives the key another state, which depends on `how`, and returns it.
    async fn change<C: ConcurrencyControl>(
        &self,
        tx: &Txn<C>,
        key: u64,
        how: u64,
        existed: bool,
    ) -> Result<Option<u64>> {
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

impl<C: ConcurrencyControl> Workload<C> for Churn {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (tables, key, how, gives_up) = (self.tables, random.below(KEYS), random.any(), random.chance(10));
        let is_reader = random.chance(20);
        let (history, ledger) = (self.history.clone(), self.ledger.clone());
        let committed = self.history.clone();
        let body = async move |tx: &Txn<C>| {
            let changes = tx.get(tables.changes, key).await?.unwrap_or(u64::MAX);
            let seen = Seen { key, changes, state: tables.get(tx, key).await? };
            history.borrow_mut().see_open(&ledger, seen)?;
            if is_reader {
                return Ok((seen, None));
            }
            let state = seen.state;
            let state = tables.change(tx, key, how, state.is_some()).await?;
            if gives_up {
                return Err(Error::user("changed its mind"));
            }
            tx.put(tables.changes, key, changes + 1).await?;
            Ok((seen, Some(Seen { key, changes: changes + 1, state })))
        };
        let ledger = self.ledger.clone();
        submitter.spawn(body, move |(seen, made)| {
            committed.borrow_mut().see(&ledger, seen);
            if let Some(made) = made {
                committed.borrow_mut().make(&ledger, made);
            }
        });
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let (mut seen, transaction, mut all) = (0, observer.transaction(), Vec::new());
        for key in 0..KEYS {
            let changes = transaction.get(self.tables.changes, key)?.unwrap_or(u64::MAX);
            let state = match is_name(key) {
                true => transaction.get(self.tables.names, name(key))?,
                false => transaction.get(self.tables.numbers, key)?,
            };
            all.push(Seen { key, changes, state });
            seen = digest(seen, &changes.to_le_bytes());
        }
        all.iter().try_for_each(|seen| self.history.borrow_mut().see_open(&self.ledger, *seen))?;
        let (history, ledger) = (self.history.clone(), self.ledger.clone());
        let committed = move || all.iter().for_each(|seen| history.borrow_mut().see(&ledger, *seen));
        Ok(Look { digest: seen, committed: Some(Box::new(committed)) })
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        self.history.borrow().end(&self.ledger);
        if self.ledger.unknown() > 0 {
            return Ok(()); // it is unknown which keys exist
        }
        let tx = database.begin()?;
        let alive = self.history.borrow().alive();
        let (mut numbers, mut names) =
            (tx.scan(self.tables.numbers, ..KEYS), tx.scan_prefix(self.tables.names, b""));
        let mut found = 0;
        while numbers.next()?.is_some() {
            found += 1;
        }
        while names.next()?.is_some() {
            found += 1;
        }
        self.ledger.check(found == alive, || format!("scans find {found} rows, alive are {alive}"));
        let (records, expected) = (database.statistics().memory.records - IDLE_ROWS, KEYS + alive);
        self.ledger.check(records == expected, || format!("{records} records are kept for {expected} rows"));
        Ok(())
    }
}

impl History {
    /// Notes an acknowledged change.
    fn make(&mut self, ledger: &Ledger, Seen { key, changes, state }: Seen) {
        let is_new = self.states.insert((key, changes), state).is_none();
        ledger.check(is_new, || format!("key {key} was changed twice for the {changes}th time"));
    }

    /// Returns whether the key has the state that the last of its changes gave it, or `None` if this is not known yet.
    fn is_so(&self, seen: &Seen) -> Option<bool> {
        self.states.get(&(seen.key, seen.changes)).map(|expected| *expected == seen.state)
    }

    /// Notes what a transaction has seen that has committed, or that reads a snapshot.
    fn see(&mut self, ledger: &Ledger, seen: Seen) {
        match self.is_so(&seen) {
            None => self.early.push(seen),
            Some(is_so) => ledger.check(is_so, || seen.to_string()),
        }
    }

    /// Notes what a still open transaction has seen.
    fn see_open(&mut self, ledger: &Ledger, seen: Seen) -> Result<()> {
        if ledger.isolation().reads_snapshots() {
            self.see(ledger, seen);
        }
        ledger.check_open(self.is_so(&seen) != Some(false), || seen.to_string())
    }

    /// Checks the early reads, after everything that ever will be acknowledged has been.
    fn end(&self, ledger: &Ledger) {
        for seen in &self.early {
            ledger.check(self.is_so(seen).unwrap_or(ledger.unknown() > 0), || seen.to_string());
        }
    }

    /// Returns the number of keys that have a value at the end.
    fn alive(&self) -> u64 {
        let last = |key| self.states.range((key, 0)..=(key, u64::MAX)).next_back();
        (0..KEYS).filter(|&key| last(key).is_some_and(|(_, state)| state.is_some())).count() as u64
    }
}
