//! A table that is made, filled, cleared and dropped in turn. After a crash it is in one of these states, and in none
//! that is older than the last durable state.

use crate::Random;
use braiddb::{ConcurrencyControl, Database, Durability, Result};

/// The state of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scratch {
    #[default]
    Gone,
    /// Each key below `rows` has the number of the transaction that put it there.
    There { rows: u64, of: u64 },
}

const NAME: &str = "scratch";
const ROWS_MAX: u64 = 40;

impl Scratch {
    /// Returns the state that a database has.
    pub(super) fn of<C: ConcurrencyControl>(database: &Database<C>) -> Result<Scratch, String> {
        let Some(raw) = database.raw_table(NAME) else { return Ok(Scratch::Gone) };
        let text = |error: braiddb::Error| format!("the scratch table cannot be read: {error}");
        let snapshot = database.begin().map_err(text)?;
        let mut rows = raw.scan(&snapshot);
        let (mut found, mut of) = (Vec::new(), 0);
        while let Some((key, value)) = rows.next().map_err(text)? {
            let words = <[u8; 8]>::try_from(key).ok().zip(value.try_into().ok());
            let (key, value) = words.ok_or("a row of the scratch table is no pair of numbers")?;
            found.push(u64::from_be_bytes(key));
            let value = u64::from_le_bytes(value);
            if found.len() > 1 && value != of {
                return Err(format!("the scratch table has rows of {of} and of {value}"));
            }
            of = value;
        }
        found.sort_unstable();
        let rows = found.len() as u64;
        match found.into_iter().eq(0..rows) {
            true => Ok(Scratch::There { rows, of }),
            false => Err(format!("the scratch table has {rows} rows, and not the first ones")),
        }
    }

    /// Makes, fills, clears or drops the table, and returns its new state. `number` is the number of a transaction. No
    /// transaction may be open.
    pub(super) fn change<C: ConcurrencyControl>(
        self,
        database: &Database<C>,
        number: u64,
        random: &mut Random,
    ) -> Result<Scratch> {
        let table = match (self, random.below(4)) {
            (Scratch::There { .. }, 0) => {
                database.drop_table(NAME)?;
                return Ok(Scratch::Gone);
            }
            (Scratch::There { .. }, 1) => {
                database.clear(database.table::<u64, u64>(NAME)?)?;
                return Ok(Scratch::There { rows: 0, of: 0 });
            }
            _ => database.table::<u64, u64>(NAME)?,
        };
        let Scratch::There { rows: before, .. } = self else { return Ok(Scratch::There { rows: 0, of: 0 }) };
        let rows = 1 + random.below(ROWS_MAX);
        let transaction = database.begin()?;
        transaction.set_durability(Durability::Async)?;
        (0..rows).try_for_each(|key| transaction.put(table, key, number))?;
        (rows..before).try_for_each(|key| transaction.delete(table, key).map(drop))?;
        transaction.commit()?;
        Ok(Scratch::There { rows, of: number })
    }
}

/// Checks that the state found after a crash at this boundary is the last durable state of the table, or a later one.
/// Each state has the boundary since which it was durable, if it was.
pub(super) fn check(states: &[(Scratch, Option<u64>)], boundary: u64, found: Scratch) -> Result<(), String> {
    let is_durable = |(_, at): &(Scratch, Option<u64>)| at.is_some_and(|at| at <= boundary);
    let first = states.iter().rposition(is_durable);
    // At first the table was not there.
    let mut possible = states[first.unwrap_or(0)..].iter().map(|(state, _)| *state);
    if first.is_none() && found == Scratch::Gone || possible.any(|state| state == found) {
        return Ok(());
    }
    Err(format!(
        "the scratch table is {found:?}, and not one of {:?} or later",
        states.get(first.unwrap_or(0))
    ))
}
