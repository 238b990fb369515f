//! What a reader of changes knows of tables.

use crate::checkpoint::CatalogEntry;
use crate::table::Description;
use std::sync::Arc;

/// A table whose rows have changed, or that has itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedTable {
    /// Its number, which it keeps, and which no other table ever has.
    pub number: u32,
    /// What it is called.
    pub name: String,
    /// The type of its keys, as [`TableInfo`](crate::TableInfo) has it.
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// Definitions of the named types that its values consist of.
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

    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let texts = [&self.name, &self.key_type, &self.value_type].into_iter().chain(&self.definitions);
        size_of::<ChangedTable>() + texts.map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }
}

/// What a record of the catalog has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    Described,
    Cleared,
    Dropped,
}

/// All tables by their numbers, as they are at some place in the log. Transactions that were given out share the list.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    list: Arc<Vec<Arc<ChangedTable>>>,
    /// About what they take in memory.
    bytes: usize,
}

impl Tables {
    /// These, in the order of their numbers.
    pub(crate) fn new(tables: impl Iterator<Item = ChangedTable>) -> Tables {
        let list: Vec<_> = tables.map(Arc::new).collect();
        debug_assert!(list.iter().enumerate().all(|(at, table)| table.number as usize == at));
        let bytes = list.iter().map(|table| table.bytes()).sum();
        Tables { list: Arc::new(list), bytes }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<ChangedTable>> {
        self.list.get(number as usize)
    }

    /// Takes note of what the log says of a table, and says what has changed. None: it cannot be.
    pub(super) fn note(&mut self, entry: &CatalogEntry) -> Option<Vec<TableChange>> {
        let at = entry.number as usize;
        if at > self.list.len() {
            return None;
        }
        let table = ChangedTable::of_entry(entry);
        let is_news = self.list.get(at).is_none_or(|known| **known != table);
        // (A record that says only that a table was cleared, or gone, has nothing else to tell. Any other one is told, also if the
        // reader has known it from the beginning.)
        let emptied = match (entry.is_dropped, entry.is_cleared) {
            (true, _) => Some(TableChange::Dropped),
            (false, true) => Some(TableChange::Cleared),
            (false, false) => None,
        };
        let is_described = emptied.is_none() || (is_news && !entry.is_dropped);
        self.bytes += table.bytes();
        self.bytes -= self.list.get(at).map_or(0, |known| known.bytes());
        let list = Arc::make_mut(&mut self.list);
        match list.get_mut(at) {
            Some(known) => *known = Arc::new(table),
            None => list.push(Arc::new(table)),
        }
        Some(emptied.into_iter().chain(is_described.then_some(TableChange::Described)).collect())
    }

    /// About what they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
