//! Rows with two secondary indexes: by their color, each of which has a limited number of rows, and by their badge,
//! which only one row has. However the rows change:
//! - A snapshot finds the same by each index as without it.
//! - The limit holds if every transaction that counts by the index keeps it.
//! - At the end, entries have gone with their rows.

use super::{Made, Workload, declare, digest};
use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::{IDLE_ROWS, Submitter};
use braiddb::{ConcurrencyControl, Database, Error, Index, Result, Table, Txn};
use std::cell::RefCell;
use std::rc::Rc;

const KEYS: u64 = 20;
const COLORS: u64 = 4;
/// The maximum number of rows of one color.
const OF_A_COLOR_MAX: usize = 4;
/// The number of badges, which count from 1. A row with badge 0 has none.
const BADGES: u64 = 8;

/// Packs a row's columns into one number.
fn row(color: u64, badge: u64) -> u64 {
    color << 8 | badge
}

fn color_of(row: u64) -> u64 {
    row >> 8
}

fn badge_of(row: u64) -> Option<u64> {
    Some(row & 0xff).filter(|badge| *badge > 0)
}

#[derive(Clone, Copy)]
struct Tables {
    rows: Table<u64, u64>,
    by_color: Index<u64, u64, u64>,
    by_badge: Index<u64, u64, u64>,
}

struct Indexed {
    tables: Tables,
    ledger: Ledger,
    /// The planted bug: a reader finds rows by index in one transaction, and without in another.
    is_torn: bool,
    found: Rc<RefCell<Option<Found>>>,
}

/// The workload.
pub fn indexed<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: readers that look in two transactions.
pub fn indexed_torn<C: ConcurrencyControl>(
    database: &Database<C>,
    _: &mut Random,
    ledger: &Ledger,
) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, is_torn: bool) -> Made<C> {
    // With this number of bits, entries are seldom in the partitions of their rows.
    const BITS: u32 = u64::BITS - 1;
    let rows = database.partitioned_table("indexed", BITS)?;
    let tables = Tables {
        rows,
        by_color: database.partitioned_index(rows, "by color", BITS, |_, row| Some(color_of(row)))?,
        by_badge: database.partitioned_unique_index(rows, "by badge", BITS, |_, row| badge_of(row))?,
    };
    let tx = database.begin()?;
    for key in 0..COLORS {
        tx.insert(rows, key, row(key, key))?;
    }
    tx.commit()?;
    Ok(Box::new(Indexed { tables, ledger: ledger.clone(), is_torn, found: Rc::default() }))
}

/// The keys and rows that a reader has found by the two indexes: by color, and by badge.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    by_color: Vec<(u64, u64, u64)>,
    by_badge: Vec<(u64, u64, u64)>,
}

impl Found {
    /// Returns what must be found of these rows.
    fn of(rows: &[(u64, u64)]) -> Found {
        let by = |of: fn(u64) -> Option<u64>| {
            let mut all: Vec<_> = rows.iter().filter_map(|&(key, row)| Some((of(row)?, key, row))).collect();
            all.sort_unstable();
            all
        };
        Found { by_color: by(|row| Some(color_of(row))), by_badge: by(badge_of) }
    }

    fn check(&self, ledger: &Ledger, rows: &[(u64, u64)]) -> Result<()> {
        ledger.check_open(*self == Found::of(rows), || {
            format!("the indexes find {self:?} of the rows {rows:?}")
        })?;
        let is_unique = self.by_badge.windows(2).all(|two| two[0].0 < two[1].0);
        ledger.check_open(is_unique, || format!("two rows have a badge: {:?}", self.by_badge))
    }

    /// Checks the limit, which holds if all earlier transactions have kept it.
    fn check_limit(&self, ledger: &Ledger) {
        for color in 0..COLORS {
            let count = self.by_color.iter().filter(|(of, _, _)| *of == color).count();
            check_limit(ledger, color, count);
        }
    }
}

fn check_limit(ledger: &Ledger, color: u64, count: usize) {
    ledger.check_under(Isolation::Serial, count <= OF_A_COLOR_MAX, || {
        format!("{count} rows have color {color}, at most {OF_A_COLOR_MAX} should")
    });
}

/// Returns the index keys, keys and rows, in this order, of everything that an index finds.
async fn all_by<C: ConcurrencyControl>(
    tx: &Txn<C>,
    index: Index<u64, u64, u64>,
    is_reverse: bool,
) -> Result<Vec<(u64, u64, u64)>> {
    let scan = tx.scan_by::<u64, u64, u64, u64>(index, ..);
    let (mut scan, mut found) = (if is_reverse { scan.reverse() } else { scan }, Vec::new());
    while let Some(one) = scan.next().await? {
        found.push(one);
    }
    if is_reverse {
        found.reverse();
    }
    Ok(found)
}

impl Tables {
    /// Finds all rows by the indexes alone.
    async fn find<C: ConcurrencyControl>(&self, tx: &Txn<C>, is_reverse: bool) -> Result<Found> {
        Ok(Found {
            by_color: all_by(tx, self.by_color, is_reverse).await?,
            by_badge: all_by(tx, self.by_badge, is_reverse).await?,
        })
    }

    /// Returns all rows, read without an index.
    async fn all<C: ConcurrencyControl>(&self, tx: &Txn<C>) -> Result<Vec<(u64, u64)>> {
        let (mut scan, mut rows) = (tx.scan_all(self.rows), Vec::new());
        while let Some(row) = scan.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Gives a row a color, and inserts the row if necessary, unless there are enough rows of this color. Returns how
    /// many there were.
    async fn paint<C: ConcurrencyControl>(&self, tx: &Txn<C>, key: u64, color: u64) -> Result<usize> {
        let (mut scan, mut count) = (tx.scan_by(self.by_color, color..=color), 0);
        while scan.next().await?.is_some() {
            count += 1;
        }
        drop(scan);
        if count < OF_A_COLOR_MAX {
            match tx.get(self.rows, key).await? {
                Some(old) => tx.put(self.rows, key, row(color, badge_of(old).unwrap_or(0))).await?,
                None => tx.insert(self.rows, key, row(color, 0)).await?,
            }
        }
        Ok(count)
    }

    /// Gives a row a badge that no row has. If another row has it, takes it away from that row; or, if `rudely`, asks
    /// for it nevertheless.
    async fn hand<C: ConcurrencyControl>(
        &self,
        tx: &Txn<C>,
        ledger: &Ledger,
        (key, badge, rudely): (u64, u64, bool),
    ) -> Result<()> {
        let (holder, old) = (tx.get_by(self.by_badge, badge).await?, tx.get(self.rows, key).await?);
        let is_another = holder.is_some_and(|(holder, _)| holder != key);
        match (holder, old) {
            (Some(_), Some(old)) if rudely && is_another => {
                let result = tx.put(self.rows, key, row(color_of(old), badge)).await;
                if let Err(error @ Error::Conflict) = result {
                    return Err(error);
                }
                let is_refused = matches!(result, Err(Error::UniqueViolation { .. }));
                ledger.check_open(is_refused, || format!("a badge that is taken was given: {result:?}"))?;
                let after = tx.get(self.rows, key).await?;
                ledger.check_open(after == Some(old), || {
                    "a write that was refused has changed the row".into()
                })?;
            }
            (Some((holder, row_of_holder)), _) => {
                tx.put(self.rows, holder, row(color_of(row_of_holder), 0)).await?;
            }
            (None, Some(old)) => match tx.put(self.rows, key, row(color_of(old), badge)).await {
                Err(Error::UniqueViolation { .. }) => {
                    ledger.check_open(false, || "a badge that is free was refused".into())?;
                }
                result => result?,
            },
            (None, None) => {}
        }
        Ok(())
    }

    /// Moves a row with its color and its badge to another key, if this key has no row. Otherwise deletes both rows.
    async fn shift<C: ConcurrencyControl>(&self, tx: &Txn<C>, from: u64, to: u64) -> Result<()> {
        let [Some(row), target] = tx.get_many(self.rows, &[from, to]).await? else { return Ok(()) };
        tx.delete(self.rows, from).await?;
        match target {
            None => tx.insert(self.rows, to, row).await,
            Some(_) => tx.delete(self.rows, to).await.map(|_| ()),
        }
    }
}

impl Indexed {
    fn begin_torn_reader<C: ConcurrencyControl>(&self, submitter: &mut Submitter<'_, C>) {
        let (tables, ledger, found) = (self.tables, self.ledger.clone(), self.found.clone());
        match found.take() {
            None => submitter.spawn(
                async move |tx: &Txn<C>| tables.find(tx, false).await,
                move |now| *found.borrow_mut() = Some(now),
            ),
            Some(before) => {
                submitter.spawn(
                    async move |tx: &Txn<C>| tables.all(tx).await,
                    move |rows| {
                        let checked = before.check(&ledger, &rows);
                        ledger.check(checked.is_ok(), || format!("{checked:?}"));
                    },
                );
            }
        }
    }
}

impl<C: ConcurrencyControl> Workload<C> for Indexed {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (tables, ledger, committed) = (self.tables, self.ledger.clone(), self.ledger.clone());
        let (key, other, color) = (random.below(KEYS), random.below(KEYS), random.below(COLORS));
        let (badge, rudely, gives_up) = (random.between(1, BADGES), random.chance(30), random.chance(10));
        let changed_mind = move || if gives_up { Err(Error::user("changed its mind")) } else { Ok(()) };
        match random.below(100) {
            0..35 => submitter.spawn(
                async move |tx: &Txn<C>| {
                    declare(tx, tables.rows, key * COLORS + other, &[key, color]).await?;
                    let count = tables.paint(tx, key, color).await?;
                    changed_mind().map(|()| count)
                },
                move |count| check_limit(&committed, color, count),
            ),
            35..65 => submitter.spawn(
                async move |tx: &Txn<C>| {
                    declare(tx, tables.rows, key + other, &[key, badge, other]).await?;
                    tables.hand(tx, &ledger, (key, badge, rudely)).await?;
                    changed_mind()
                },
                |()| (),
            ),
            65..80 if key != other => submitter.spawn(
                async move |tx: &Txn<C>| {
                    declare(tx, tables.rows, badge, &[key, other, color, badge]).await?;
                    tables.shift(tx, key, other).await?;
                    changed_mind()
                },
                |()| (),
            ),
            _ if self.is_torn => self.begin_torn_reader(submitter),
            _ => submitter.spawn(
                async move |tx: &Txn<C>| {
                    let (found, rows) = (tables.find(tx, rudely).await?, tables.all(tx).await?);
                    found.check(&ledger, &rows)?;
                    Ok(found)
                },
                move |found| found.check_limit(&committed),
            ),
        }
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let (tables, ledger) = (self.tables, self.ledger.clone());
        let (found, rows) = observer.recorded(async |recording| {
            Ok((tables.find(recording.tx(), true).await?, tables.all(recording.tx()).await?))
        })?;
        found.check(&ledger, &rows)?;
        let seen = rows
            .iter()
            .fold(0, |seen, (key, row)| digest(digest(seen, &key.to_le_bytes()), &row.to_le_bytes()));
        Ok(Look { digest: seen, committed: Some(Box::new(move || found.check_limit(&ledger))) })
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let (tx, tables) = (database.begin()?, self.tables);
        let found = tx.with(async |tx| tables.find(tx, false).await)?;
        let (rows, badges) = (found.by_color.len(), found.by_badge.len());
        let (records, expected) = (database.statistics().memory.records - IDLE_ROWS, 2 * rows + badges);
        self.ledger.check(records == expected as u64, || {
            format!("{records} records are kept for {rows} rows, with their colors, and {badges} badges")
        });
        Ok(())
    }
}
