//! Judges whether recovery finds what must be there after a crash, and nothing else.

use super::scratch::{self, Scratch};
use super::tables::{ACCOUNTS, AMOUNT, Contents, JOURNAL, Row, Table, contents, stamp};
use super::trace::Trace;
use braiddb::{ConcurrencyControl, Database, Error, wal};
use std::collections::{BTreeMap, BTreeSet};

/// The content of a state that passed.
pub(super) struct Found {
    /// The numbers of its transactions.
    pub(super) present: BTreeSet<u64>,
    pub(super) contents: Contents,
    /// Its open tables.
    pub(super) tables: Vec<Table>,
    /// See [`Trace::renames`].
    pub(super) renames: Vec<(usize, u64, Option<u64>)>,
    pub(super) scratch: Scratch,
}

/// Judges a database that was recovered after a crash at this boundary.
pub(super) fn judge<C: ConcurrencyControl>(
    trace: &Trace,
    boundary: u64,
    database: &Database<C>,
) -> Result<Found, String> {
    for (number, durable) in trace.tables.iter().enumerate() {
        let renames = Table::renames(database, number);
        if durable.is_some_and(|at| at <= boundary) && renames.is_none() {
            return Err(format!("table {number} was durable and is gone"));
        }
        let made = trace.renames.iter().filter(|(table, ..)| *table == number);
        let durable = made.clone().filter(|(.., durable)| durable.is_some_and(|at| at <= boundary));
        let most = |renames: &mut dyn Iterator<Item = u64>| renames.max().unwrap_or(0);
        let (least, most) = (most(&mut durable.map(|made| made.1)), most(&mut made.map(|made| made.1)));
        if renames.is_some_and(|renames| renames < least || renames > most) {
            return Err(format!(
                "table {number} was renamed {least} times for good, {most} times in all, and not {renames:?}"
            ));
        }
    }
    let text = |error: braiddb::Error| format!("the tables cannot be read: {error}");
    let mut tables = Vec::new();
    for number in 0..trace.tables.len() {
        match Table::open(database, number) {
            Ok(table) => tables.push(table),
            // The table was lost, like the tables made after it, and there is no room to make it again.
            Err(Error::Log(wal::Error::Full(_))) => break,
            Err(error) => return Err(text(error)),
        }
    }
    let contents = contents(database, &tables).map_err(text)?;
    let present: BTreeSet<u64> =
        contents.keys().filter(|row| row.table == JOURNAL).map(|row| row.key).collect();
    check_acknowledged(trace, boundary, &present)?;
    check_closed(trace, &present)?;
    check_rows(trace, &present, &contents)?;
    check_sum(&contents)?;
    let scratch = Scratch::of(database)?;
    scratch::check(&trace.scratch, boundary, scratch)?;
    let renames = |number| Table::renames(database, number).map(|renames| (number, renames, Some(0)));
    let renames = (0..tables.len()).filter_map(renames).collect();
    Ok(Found { present, contents, tables, renames, scratch })
}

/// Checks that everything is there that a caller relied on, and everything that it had seen.
fn check_acknowledged(trace: &Trace, boundary: u64, present: &BTreeSet<u64>) -> Result<(), String> {
    for (number, transaction) in &trace.transactions {
        if !transaction.is_relied_on(boundary) {
            continue;
        }
        if transaction.is_writer() && !present.contains(number) {
            return Err(format!("transaction {number} was acknowledged and is lost"));
        }
        if let Some(lost) = transaction.seen.difference(present).next() {
            return Err(format!("transaction {lost} is lost, which {number} has seen and was answered"));
        }
        // While the log is stalled, a transaction that only reads waits for what it has seen, and for nothing else.
        if transaction.ended_stalled && transaction.committed.is_some() && !transaction.is_writer() {
            continue;
        }
        let began = transaction.began;
        let lost = |(other, earlier): &(&u64, &super::trace::Transaction)| {
            earlier.is_writer() && earlier.ended < began && !present.contains(other)
        };
        if let Some((lost, _)) = trace.transactions.iter().find(lost) {
            return Err(format!("transaction {lost} is lost, which ended before {number}, answered, began"));
        }
    }
    Ok(())
}

/// Checks that everything is there that a transaction which is there depends on: recovery finds a prefix of the log.
fn check_closed(trace: &Trace, present: &BTreeSet<u64>) -> Result<(), String> {
    let mut began_last = 0;
    for number in present {
        let transaction = trace.transactions.get(number).filter(|transaction| transaction.is_writer());
        let Some(transaction) = transaction else {
            return Err(format!("transaction {number} is there, and has never committed"));
        };
        if let Some(lost) = transaction.seen.difference(present).next() {
            return Err(format!("transaction {lost} is lost, and {number}, which has seen it, is there"));
        }
        began_last = began_last.max(transaction.began);
    }
    let mut all = trace.transactions.iter();
    let early = all.find(|(number, transaction)| {
        transaction.is_writer() && transaction.ended < began_last && !present.contains(number)
    });
    match early {
        Some((lost, _)) => {
            Err(format!("transaction {lost} is lost, and one that began after its end is there"))
        }
        None => Ok(()),
    }
}

/// Checks that the rows are what the transactions that are there have made of them, and that no earlier writer of a row
/// is missing.
fn check_rows(trace: &Trace, present: &BTreeSet<u64>, contents: &Contents) -> Result<(), String> {
    let mut writers: Vec<_> = trace.transactions.iter().filter(|(_, writer)| writer.is_writer()).collect();
    writers.sort_unstable_by_key(|(_, writer)| writer.committed);
    let (mut model, mut absent): (BTreeMap<Row, &[u8]>, BTreeMap<Row, u64>) = Default::default();
    for (number, writer) in writers {
        for (row, value) in &writer.writes {
            if !present.contains(number) {
                absent.insert(*row, *number);
                continue;
            }
            if let Some(lost) = absent.get(row) {
                return Err(format!("transaction {lost} is lost, and {number} has overwritten its {row:?}"));
            }
            match value {
                Some(value) => model.insert(*row, value),
                None => model.remove(row),
            };
        }
    }
    if model.len() == contents.len() && model.iter().zip(contents).all(|(a, b)| *a.0 == *b.0 && *a.1 == b.1) {
        return Ok(());
    }
    let is_wrong = |row: &&Row| model.get(row).copied() != contents.get(row).map(Vec::as_slice);
    let row = model.keys().chain(contents.keys()).find(is_wrong);
    let row = row.expect("what differs differs somewhere");
    let writer = |value: Option<&[u8]>| match value.map(stamp) {
        Some(Some((number, _))) => format!("the value of {number}"),
        Some(None) => "a value of nobody".to_string(),
        None => "nothing".to_string(),
    };
    let (expected, found) = (model.get(row).copied(), contents.get(row).map(Vec::as_slice));
    Err(format!("{row:?} holds {} instead of {}", writer(found), writer(expected)))
}

fn check_sum(contents: &Contents) -> Result<(), String> {
    let accounts = || contents.iter().filter(|(row, _)| row.table == ACCOUNTS);
    let sum: u64 = accounts().filter_map(|(_, value)| stamp(value)).map(|(_, amount)| amount).sum();
    let expected = accounts().count() as u64 * AMOUNT;
    if sum == expected { Ok(()) } else { Err(format!("the accounts add up to {sum} instead of {expected}")) }
}
