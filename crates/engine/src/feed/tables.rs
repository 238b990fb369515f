//! The tables that a reader of changes knows.

use crate::checkpoint::CatalogEntry;
use crate::table::Description;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table that has changed, or whose rows have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedTable {
    /// The table's number, which never changes and which no other table ever has.
    pub number: u32,
    /// The table's name.
    pub name: String,
    /// The type of its keys, as in [`TableInfo`](crate::TableInfo).
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// Definitions of the named types in its values.
    pub definitions: Vec<String>,
}

impl ChangedTable {
    pub(crate) fn new(number: u32, description: Description) -> ChangedTable {
        let Description { name, types: (key_type, value_type), definitions, .. } = description;
        ChangedTable { number, name, key_type, value_type, definitions }
    }

    fn of_entry(entry: &CatalogEntry) -> ChangedTable {
        let CatalogEntry { number, name, key_type, value_type, definitions, .. } = entry.clone();
        ChangedTable { number, name, key_type, value_type, definitions }
    }

    /// Returns the approximate memory that it takes.
    fn bytes(&self) -> usize {
        let texts = [&self.name, &self.key_type, &self.value_type].into_iter().chain(&self.definitions);
        size_of::<ChangedTable>() + texts.map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }
}

/// The change in a record of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    Described,
    Cleared,
    Dropped,
}

/// All tables by their numbers, as of some place in the log. Transactions that were given out share the list.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    list: Arc<BTreeMap<u32, Arc<ChangedTable>>>,
    /// The first number that no table has had.
    next: u32,
    /// The table that was dropped last. Only transactions given out at that time refer to it.
    gone: Option<u32>,
    /// The approximate memory that the tables take.
    bytes: usize,
}

impl Tables {
    /// Makes the list of these tables. It includes the table made last, if there ever was one.
    pub(crate) fn new(tables: impl Iterator<Item = ChangedTable>) -> Tables {
        let list: BTreeMap<_, _> = tables.map(|table| (table.number, Arc::new(table))).collect();
        let bytes = list.values().map(|table| table.bytes()).sum();
        let next = list.last_key_value().map_or(0, |(number, _)| number + 1);
        Tables { list: Arc::new(list), next, gone: None, bytes }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<ChangedTable>> {
        self.list.get(&number)
    }

    /// Records what the log says of a table, and returns what has changed. `None`: the record cannot be right.
    pub(super) fn note(&mut self, entry: &CatalogEntry) -> Option<Vec<TableChange>> {
        let known = self.list.get(&entry.number);
        if known.is_none() && entry.number != self.next {
            return None;
        }
        self.next = self.next.max(entry.number + 1);
        let table = ChangedTable::of_entry(entry);
        let is_news = known.is_none_or(|known| **known != table);
        // A record that says only that a table was cleared or dropped describes nothing else. Any other record is
        // reported, even if the reader has known the table from the beginning.
        let emptied = match (entry.is_dropped, entry.is_cleared) {
            (true, _) => Some(TableChange::Dropped),
            (false, true) => Some(TableChange::Cleared),
            (false, false) => None,
        };
        let is_described = emptied.is_none() || (is_news && !entry.is_dropped);
        let gone = std::mem::replace(&mut self.gone, entry.is_dropped.then_some(entry.number));
        let gone = gone.filter(|gone| *gone != entry.number);
        self.bytes += table.bytes();
        let list = Arc::make_mut(&mut self.list);
        let before = [gone.and_then(|gone| list.remove(&gone)), list.insert(entry.number, Arc::new(table))];
        self.bytes -= before.iter().flatten().map(|table| table.bytes()).sum::<usize>();
        Some(emptied.into_iter().chain(is_described.then_some(TableChange::Described)).collect())
    }

    /// Returns the approximate memory that the tables take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
