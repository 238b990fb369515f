//! Secondary indexes: whatever transactions do to rows, every snapshot finds by an index exactly the rows that it
//! finds without.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod building;
mod concurrent;
mod extractors;
mod model;
mod phantoms;
mod prefixes;
mod reading;
mod unique;

use braiddb::metrics::SystemClock;
use braiddb::{ConcurrencyControl, Database, Index, Options, Plain, Result, Table, Txn};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A row of several columns.
#[derive(
    Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, PartialEq, Eq, PartialOrd, Ord,
)]
#[repr(C)]
struct Row {
    color: u32,
    number: u32,
    payload: u64,
}

type Id = (u32, String);
type Rows = BTreeMap<Id, Row>;

/// Keys longer than a slice of the tree, some with the same beginning.
fn id(n: u32) -> Id {
    (n % 3, format!("the row of number {n}{}", "\0".repeat(n as usize % 4)))
}

fn name_of(color: u32) -> String {
    let name = ["", "a color", "a color that has a long name", "\0"][color as usize % 4];
    name.into()
}

fn database<C: ConcurrencyControl>(workers: usize) -> Database<C> {
    let options = Options { workers, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(options, Arc::new(SystemClock::default())).unwrap()
}

/// A table with indexes of every kind.
#[derive(Clone, Copy, Debug)]
struct Tables {
    rows: Table<Id, Plain<Row>>,
    by_color: Index<u32, Id, Plain<Row>>,
    by_name: Index<(String, u32), Id, Plain<Row>>,
    /// Only even rows. The index key includes the row's own key.
    evens: Index<(u64, u32), Id, Plain<Row>>,
    /// No two rows have the same number, except number 0, which any number of rows can have.
    by_number: Index<u32, Id, Plain<Row>>,
}

impl Tables {
    fn table<C: ConcurrencyControl>(db: &Database<C>) -> Table<Id, Plain<Row>> {
        db.table("rows").unwrap()
    }

    fn new<C: ConcurrencyControl>(db: &Database<C>) -> Tables {
        Tables::declare(db).unwrap()
    }

    fn declare<C: ConcurrencyControl>(db: &Database<C>) -> Result<Tables> {
        let rows = Tables::table(db);
        Ok(Tables {
            rows,
            by_color: db.index(rows, "by color", |_, row: &Row| Some(row.color))?,
            by_name: db.index(rows, "by name", |_, row: &Row| Some((name_of(row.color), row.number)))?,
            evens: db.index(rows, "evens", |id: &Id, row: &Row| {
                row.payload.is_multiple_of(2).then_some((row.payload, id.0))
            })?,
            by_number: db
                .unique_index(rows, "by number", |_, row: &Row| (row.number > 0).then_some(row.number))?,
        })
    }
}

/// Returns everything that a scan finds by an index.
async fn all_by<I, C: ConcurrencyControl>(
    tx: &Txn<C>,
    index: Index<I, Id, Plain<Row>>,
    is_reverse: bool,
) -> Result<Vec<(I, Id, Row)>>
where
    I: braiddb::Key + braiddb::AsKey<I>,
{
    let mut rows = tx.scan_by::<I, Id, Plain<Row>, I>(index, ..);
    if is_reverse {
        rows = rows.reverse();
    }
    let mut found = vec![];
    while let Some((key, id, row)) = rows.next().await? {
        found.push((key, id, *row));
    }
    Ok(found)
}

/// The expected contents of an index of these rows.
fn indexed<I: Ord>(rows: &Rows, extract: impl Fn(&Id, &Row) -> Option<I>) -> Vec<(I, Id, Row)> {
    let entry = |(id, row): (&Id, &Row)| Some((extract(id, row)?, id.clone(), *row));
    let mut all: Vec<_> = rows.iter().filter_map(entry).collect();
    all.sort();
    all
}

async fn check_index<I, C: ConcurrencyControl>(
    tx: &Txn<C>,
    index: Index<I, Id, Plain<Row>>,
    mut expected: Vec<(I, Id, Row)>,
) -> Result<()>
where
    I: braiddb::Key + braiddb::AsKey<I> + Debug + PartialEq,
{
    assert_eq!(all_by(tx, index, false).await?, expected);
    expected.reverse();
    assert_eq!(all_by(tx, index, true).await?, expected);
    Ok(())
}

/// Checks that every index finds exactly these rows.
async fn check_indexes<C: ConcurrencyControl>(tx: &Txn<C>, t: Tables, rows: &Rows) -> Result<()> {
    check_index(tx, t.by_color, indexed(rows, |_, row| Some(row.color))).await?;
    check_index(tx, t.by_name, indexed(rows, |_, row| Some((name_of(row.color), row.number)))).await?;
    let even = |id: &Id, row: &Row| row.payload.is_multiple_of(2).then_some((row.payload, id.0));
    check_index(tx, t.evens, indexed(rows, even)).await?;
    let numbered = indexed(rows, |_, row| (row.number > 0).then_some(row.number));
    for (number, id, row) in &numbered {
        let found = tx.get_by(t.by_number, *number).await?;
        assert_eq!(found.map(|(id, row)| (id, *row)), Some((id.clone(), *row)));
    }
    assert_eq!(tx.get_by(t.by_number, u32::MAX).await?, None);
    check_index(tx, t.by_number, numbered).await
}

/// Checks that the transaction finds by every index the rows that it sees.
async fn check_consistent<C: ConcurrencyControl>(tx: &Txn<C>, t: Tables) -> Result<Rows> {
    let (mut all, mut rows) = (tx.scan_all(t.rows), Rows::new());
    while let Some((id, row)) = all.next().await? {
        rows.insert(id, *row);
    }
    check_indexes(tx, t, &rows).await?;
    Ok(rows)
}

/// Returns a pseudo-random number of a seed.
fn random(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*seed >> 33) as u32
}

fn random_row(seed: &mut u64) -> Row {
    let number = random(seed) % 40;
    // Half of the rows have number 0, which is never taken.
    Row {
        color: random(seed) % 5,
        number: if number >= 20 { 0 } else { number },
        payload: u64::from(random(seed) % 7),
    }
}
