//! The tables of a durable workload, and its values. Each value names the transaction that wrote it.

use braiddb::{ConcurrencyControl, Database, Error, Result, Transaction, Txn};
use std::collections::BTreeMap;

/// Has a row for every transaction that writes. The transaction is there exactly if the row is.
pub(super) const JOURNAL: usize = 0;
/// Has amounts whose sum no transaction changes.
pub(super) const ACCOUNTS: usize = 1;
/// The number of tables that every life begins with. The last of them is a general table.
pub(super) const TABLES_FIRST: usize = 3;
/// The maximum number of tables: more are made during a life.
pub(super) const TABLES_MAX: usize = 6;

/// The initial amount of each account.
pub(super) const AMOUNT: u64 = 100;

/// The length of a value's number and amount.
const STAMP_BYTES: usize = 16;

/// A row of any table. In tables with odd numbers its key is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) table: usize,
    pub(super) key: u64,
}

/// All rows of all tables.
pub(super) type Contents = BTreeMap<Row, Vec<u8>>;

/// How a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Put,
    Insert,
    Update,
    Delete,
}

/// Makes a value of this transaction. The shortest value is empty and says nothing.
pub(super) fn value(number: u64, amount: u64, bytes: usize) -> Vec<u8> {
    if bytes == 0 {
        return Vec::new();
    }
    let mut value = [number.to_le_bytes(), amount.to_le_bytes()].concat();
    value.extend((STAMP_BYTES..bytes).map(|at| (number as usize * 31 + at) as u8));
    value
}

/// Returns the number and the amount in a value.
pub(super) fn stamp(value: &[u8]) -> Option<(u64, u64)> {
    let (number, rest) = value.split_first_chunk()?;
    let (amount, _) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), u64::from_le_bytes(*amount)))
}

/// Makes a key that is a word. Some words are longer than others, and all have a long prefix in common.
fn word(key: u64) -> String {
    format!("the row of number {key:06}{}", "!".repeat(key as usize % 5 * 9))
}

fn of_word(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("the row of number ")?.get(..6)?;
    digits.parse().ok()
}

/// An open table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    Numbers(braiddb::Table<u64, [u8]>),
    Words(braiddb::Table<String, [u8]>),
}

impl Table {
    /// Opens the table with this number, and makes it first if it is missing.
    pub(super) fn open<C: ConcurrencyControl>(database: &Database<C>, number: usize) -> Result<Table> {
        let name = Table::name(number, Table::renames(database, number).unwrap_or(0));
        Ok(match number % 2 {
            0 => Table::Numbers(database.table(&name)?),
            _ => Table::Words(database.table(&name)?),
        })
    }

    /// Returns how often the table with this number has been renamed. `None` if the table is missing, or if it exists
    /// under two names.
    pub(super) fn renames<C: ConcurrencyControl>(database: &Database<C>, number: usize) -> Option<u64> {
        let base = Table::name(number, 0);
        let renames = |name: &str| match name.strip_prefix(&base)? {
            "" => Some(0),
            more => more.strip_prefix(", ")?.parse().ok(),
        };
        let tables = database.tables();
        let mut found = tables.iter().filter_map(|table| renames(&table.name));
        found.next().filter(|_| found.next().is_none())
    }

    /// Renames the table once more.
    pub(super) fn rename<C: ConcurrencyControl>(
        database: &Database<C>,
        number: usize,
        renames: u64,
    ) -> Result<()> {
        database.rename_table(&Table::name(number, renames), &Table::name(number, renames + 1))
    }

    fn name(number: usize, renames: u64) -> String {
        let base = match number {
            JOURNAL => "journal".into(),
            ACCOUNTS => "accounts".into(),
            other => format!("table {other}"),
        };
        if renames == 0 { base } else { format!("{base}, {renames}") }
    }

    pub(super) async fn get<C: ConcurrencyControl>(self, tx: &Txn<C>, key: u64) -> Result<Option<&[u8]>> {
        match self {
            Table::Numbers(table) => tx.get(table, key).await,
            Table::Words(table) => tx.get(table, word(key)).await,
        }
    }

    /// Writes a row. Returns true if this changed anything.
    pub(super) async fn write<C: ConcurrencyControl>(
        self,
        tx: &Txn<C>,
        act: Act,
        key: u64,
        value: &[u8],
    ) -> Result<bool> {
        let done = |()| true;
        match (self, act) {
            (Table::Numbers(table), Act::Put) => tx.put(table, key, value).await.map(done),
            (Table::Numbers(table), Act::Insert) => tx.insert(table, key, value).await.map(done),
            (Table::Numbers(table), Act::Update) => tx.update(table, key, value).await,
            (Table::Numbers(table), Act::Delete) => tx.delete(table, key).await,
            (Table::Words(table), Act::Put) => tx.put(table, word(key), value).await.map(done),
            (Table::Words(table), Act::Insert) => tx.insert(table, word(key), value).await.map(done),
            (Table::Words(table), Act::Update) => tx.update(table, word(key), value).await,
            (Table::Words(table), Act::Delete) => tx.delete(table, word(key)).await,
        }
    }
}

/// Adds the rows of the table with this number, read as tools read them, in any order.
fn read<C: ConcurrencyControl>(
    database: &Database<C>,
    snapshot: &Transaction<C>,
    table: usize,
    contents: &mut Contents,
) -> Result<()> {
    let name = Table::renames(database, table).map(|renames| Table::name(table, renames));
    let raw =
        name.and_then(|name| database.raw_table(&name)).ok_or_else(|| Error::user("a table is gone"))?;
    let mut rows = raw.scan(snapshot);
    while let Some((bytes, value)) = rows.next()? {
        let key = match table % 2 {
            0 => bytes.as_slice().try_into().ok().map(u64::from_be_bytes),
            _ => std::str::from_utf8(&bytes).ok().and_then(of_word),
        };
        let key = key.ok_or_else(|| Error::user(format!("a key {bytes:?}")))?;
        if contents.insert(Row { table, key }, value.to_vec()).is_some() {
            return Err(Error::user(format!("the key {key} comes twice")));
        }
    }
    Ok(())
}

/// Returns all rows of these tables.
pub(super) fn contents<C: ConcurrencyControl>(database: &Database<C>, tables: &[Table]) -> Result<Contents> {
    let snapshot = database.begin()?;
    snapshot.declare_read_only();
    let mut contents = Contents::new();
    for number in 0..tables.len() {
        read(database, &snapshot, number, &mut contents)?;
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that values and words can be read back, and that the empty value says nothing.
    #[test]
    fn values_and_words_are_read_back() {
        for bytes in [1, 16, 17, 3000] {
            let value = value(7, 12, bytes);
            assert_eq!((stamp(&value), value.len()), (Some((7, 12)), bytes.max(16)));
        }
        assert_eq!((value(7, 12, 0), stamp(&[])), (vec![], None));
        for key in [0, 3, 999_999] {
            assert_eq!(of_word(&word(key)), Some(key));
        }
        assert_eq!(of_word("another word"), None);
    }
}
