//! The model: a script's operations on a map, one transaction at a time.

use super::history::Observed;
use super::program::{Cursor, Operation, Place, Seen, State, Transaction, Turn};

/// Does the operation. Keys that it writes go to `written`.
pub fn perform(state: &mut State, operation: &Operation, written: &mut Vec<Place>) -> Seen {
    match *operation {
        Operation::Get(place) => return Seen::Value(state.get(&place).copied()),
        Operation::Scan(table, from, to) if from < to => {
            let rows = state.range((table, from)..(table, to)).map(|((_, key), value)| (*key, *value));
            return Seen::Rows(rows.collect());
        }
        Operation::Scan(..) => return Seen::Rows(Vec::new()),
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
        Operation::Get(_) | Operation::Scan(..) => unreachable!("handled above"),
    };
    written.push(place);
    match value {
        Some(value) => state.insert(place, value),
        None => state.remove(&place),
    };
    seen
}

/// Runs a transaction on `state`, alone, as far as it was observed. Returns the keys that it has written;
/// `None`: it does not see what was observed.
pub fn replay(transaction: &Transaction, observed: &Observed, state: &mut State) -> Option<Vec<Place>> {
    let (mut cursor, mut written) = (Cursor::new(transaction), Vec::new());
    let mut observations = observed.seen.iter();
    loop {
        match cursor.advance() {
            Turn::Step => {}
            Turn::Commit | Turn::Abort => {
                return observations.next().is_none().then_some(written);
            }
            Turn::Operation(operation) => {
                let Some(expected) = observations.next() else {
                    // It was stopped here; one that has committed was not.
                    return (!observed.is_committed()).then_some(written);
                };
                let seen = perform(state, &operation, &mut written);
                if seen != *expected {
                    return None;
                }
                cursor.see(&seen);
            }
        }
    }
}
