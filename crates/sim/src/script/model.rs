//! The model, which performs a script's operations on a map, one transaction at a time.

use super::history::Observed;
use super::program::{Busy, Cursor, Operation, Place, Seen, State, Transaction, Turn};

/// An update that is left for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCommit {
    /// Adds this to the value, or inserts it.
    Increase(i64),
    /// Looks at the value.
    Look,
    /// Looks at the value, and fails.
    Refuse,
}

/// The places that a transaction has touched.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// The places that it has written.
    pub written: Vec<Place>,
    /// The rows that it has locked.
    pub locked: Vec<Place>,
    /// The updates that it has left for its commit, in the order of the calls.
    pub left: Vec<(Place, AtCommit)>,
    /// Its savepoints: the state at each, and the lengths of the three lists above.
    savepoints: Vec<(State, [usize; 3])>,
}

impl Touched {
    fn savepoint(&mut self, state: &State) {
        let lengths = [self.written.len(), self.locked.len(), self.left.len()];
        self.savepoints.push((state.clone(), lengths));
    }

    /// Rolls back to the last savepoint.
    fn rollback(&mut self, state: &mut State) {
        let Some((there, [written, locked, left])) = self.savepoints.last() else { return };
        state.clone_from(there);
        self.written.truncate(*written);
        self.locked.truncate(*locked); // these rows may be free now
        self.left.truncate(*left);
    }

    /// Commits: performs the updates left for the commit, in the order of tables and keys, until one fails. Returns
    /// false if `observed` says that the transaction has seen something else, or has ended in another way. `may_miss`
    /// says of a place with a value whether a look may have seen it without one.
    pub fn conclude(
        &mut self,
        observed: &Observed,
        state: &mut State,
        may_miss: impl Fn(&Place) -> bool,
    ) -> bool {
        let mut left = std::mem::take(&mut self.left);
        left.sort_by_key(|(place, _)| *place);
        let (mut looked, mut has_failed) = (observed.looked.iter(), false);
        for (place, at_commit) in left {
            if let AtCommit::Increase(by) = at_commit {
                *state.entry(place).or_insert(0) += by;
                self.written.push(place);
                continue;
            }
            let is_seen = match looked.next() {
                None => false,
                Some(None) => !state.contains_key(&place) || may_miss(&place),
                Some(seen) => *seen == state.get(&place).copied(),
            };
            if !is_seen {
                return false;
            }
            if at_commit == AtCommit::Refuse {
                has_failed = true;
                break;
            }
        }
        looked.next().is_none() && has_failed == observed.is_refused()
    }
}

/// How an untracked read relates to the state that the transaction runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeks {
    /// It reads this state, like other reads.
    See,
    /// It may have read anything.
    Guess,
}

/// Performs the operation. The keys that it writes or locks go to `touched`.
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
        Operation::Increase(place, _) | Operation::Look(place) | Operation::Refuse(place) => {
            let at_commit = match *operation {
                Operation::Increase(_, by) => AtCommit::Increase(by),
                Operation::Look(_) => AtCommit::Look,
                _ => AtCommit::Refuse,
            };
            touched.left.push((place, at_commit));
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
        | Operation::Look(_)
        | Operation::Refuse(_)
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

/// Returns true if the observation says nothing about the state: another transaction held the row, the rollback was
/// refused, or the transaction does not depend on what it has read.
fn is_free(operation: &Operation, seen: &Seen, peeks: Peeks, touched: &Touched) -> bool {
    match operation {
        Operation::Lock(_, Busy::Fail | Busy::Skip) | Operation::Rollback => *seen == Seen::Refused,
        Operation::Peek(place) => peeks == Peeks::Guess && !touched.written.contains(place),
        _ => false,
    }
}

/// Runs a transaction alone on `state`, up to where it was observed, without what it leaves for its commit. Returns
/// what it has touched, or `None` if it does not see what was observed.
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
                    // The transaction was stopped here. A committed transaction cannot have been.
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
