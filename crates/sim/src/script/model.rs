//! The model: a script's operations on a map, one transaction at a time.

use super::history::Observed;
use super::program::{Busy, Cursor, Operation, Place, Seen, State, Transaction, Turn};

/// What a transaction has touched.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// What it has written.
    pub written: Vec<Place>,
    /// The rows that it has locked.
    pub locked: Vec<Place>,
    /// What it adds to where when it commits.
    pub increased: Vec<(Place, i64)>,
    /// Its savepoints: the state there, and how much of the three there was.
    savepoints: Vec<(State, [usize; 3])>,
}

impl Touched {
    fn savepoint(&mut self, state: &State) {
        let lengths = [self.written.len(), self.locked.len(), self.increased.len()];
        self.savepoints.push((state.clone(), lengths));
    }

    /// Goes back to the last savepoint.
    fn rollback(&mut self, state: &mut State) {
        let Some((there, [written, locked, increased])) = self.savepoints.last() else { return };
        state.clone_from(there);
        self.written.truncate(*written);
        self.locked.truncate(*locked); // they may be free
        self.increased.truncate(*increased);
    }

    /// Commits: adds what is to be added.
    pub fn increase(&mut self, state: &mut State) {
        for (place, by) in self.increased.drain(..) {
            *state.entry(place).or_insert(0) += by;
            self.written.push(place);
        }
    }
}

/// Is an untracked read one of the state that the transaction runs on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeks {
    /// It reads what others read.
    See,
    /// It may have read anything.
    Guess,
}

/// Does the operation. Keys that it writes or locks go to `touched`.
pub fn perform(state: &mut State, operation: &Operation, touched: &mut Touched) -> Seen {
    match *operation {
        Operation::Lock(place, _) => {
            let value = state.get(&place).copied();
            if value.is_some() {
                touched.locked.push(place);
            }
            return Seen::Value(value);
        }
        Operation::Get(place) | Operation::Peek(place) => return Seen::Value(state.get(&place).copied()),
        Operation::Scan(table, from, to) if from < to => {
            let rows = state.range((table, from)..(table, to)).map(|((_, key), value)| (*key, *value));
            return Seen::Rows(rows.collect());
        }
        Operation::Scan(..) => return Seen::Rows(Vec::new()),
        Operation::Increase(place, by) => {
            touched.increased.push((place, by));
            return Seen::Done;
        }
        Operation::Savepoint => {
            touched.savepoint(state);
            return Seen::Done;
        }
        Operation::Rollback => {
            touched.rollback(state);
            return Seen::Done;
        }
        Operation::Insert(place, _) if state.contains_key(&place) => return Seen::Exists,
        Operation::Update(place, _) | Operation::Delete(place) if !state.contains_key(&place) => {
            return Seen::Found(false);
        }
        _ => {}
    }
    let (place, value, seen) = match *operation {
        Operation::Put(place, value) | Operation::Insert(place, value) => (place, Some(value), Seen::Done),
        Operation::Update(place, value) => (place, Some(value), Seen::Found(true)),
        Operation::Delete(place) => (place, None, Seen::Found(true)),
        Operation::Get(_)
        | Operation::Peek(_)
        | Operation::Lock(..)
        | Operation::Scan(..)
        | Operation::Increase(..)
        | Operation::Savepoint
        | Operation::Rollback => unreachable!("handled above"),
    };
    touched.written.push(place);
    match value {
        Some(value) => state.insert(place, value),
        None => state.remove(&place),
    };
    seen
}

/// Says nothing of the state: the row was another's, nothing was undone, or the transaction does not depend on what it has read.
fn is_free(operation: &Operation, seen: &Seen, peeks: Peeks, touched: &Touched) -> bool {
    match operation {
        Operation::Lock(_, Busy::Fail | Busy::Skip) | Operation::Rollback => *seen == Seen::Refused,
        Operation::Peek(place) => peeks == Peeks::Guess && !touched.written.contains(place),
        _ => false,
    }
}

/// Runs a transaction on `state`, alone, as far as it was observed, but for what it leaves for its commit. Returns what it has
/// touched; `None`: it does not see what was observed.
pub fn replay(
    transaction: &Transaction,
    observed: &Observed,
    peeks: Peeks,
    state: &mut State,
) -> Option<Touched> {
    let (mut cursor, mut touched) = (Cursor::new(transaction), Touched::default());
    let mut observations = observed.seen.iter();
    loop {
        match cursor.advance() {
            Turn::Step => {}
            Turn::Commit | Turn::Abort => {
                return observations.next().is_none().then_some(touched);
            }
            Turn::Operation(operation) => {
                let Some(expected) = observations.next() else {
                    // It was stopped here; one that has committed was not.
                    return (!observed.is_committed()).then_some(touched);
                };
                if is_free(&operation, expected, peeks, &touched) {
                    cursor.see(expected);
                    continue;
                }
                let seen = perform(state, &operation, &mut touched);
                if seen != *expected {
                    return None;
                }
                cursor.see(&seen);
            }
        }
    }
}
