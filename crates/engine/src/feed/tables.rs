//! What a reader of changes knows of tables.

use crate::checkpoint::CatalogEntry;
use crate::table::Description;
use std::collections::BTreeMap;
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
    list: Arc<BTreeMap<u32, Arc<ChangedTable>>>,
    /// No table has had this number yet.
    next: u32,
    /// The table that was dropped last: nothing tells of it any more, but what was given out then.
    gone: Option<u32>,
    /// About what they take in memory.
    bytes: usize,
}

impl Tables {
    /// These, the last table among them, if there ever was one.
    pub(crate) fn new(tables: impl Iterator<Item = ChangedTable>) -> Tables {
        let list: BTreeMap<_, _> = tables.map(|table| (table.number, Arc::new(table))).collect();
        let bytes = list.values().map(|table| table.bytes()).sum();
        let next = list.last_key_value().map_or(0, |(number, _)| number + 1);
        Tables { list: Arc::new(list), next, gone: None, bytes }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<ChangedTable>> {
        self.list.get(&number)
    }

    /// Takes note of what the log says of a table, and says what has changed. None: it cannot be.
    pub(super) fn note(&mut self, entry: &CatalogEntry) -> Option<Vec<TableChange>> {
        let known = self.list.get(&entry.number);
        if known.is_none() && entry.number != self.next {
            return None;
        }
        self.next = self.next.max(entry.number + 1);
        let table = ChangedTable::of_entry(entry);
        let is_news = known.is_none_or(|known| **known != table);
        // (A record that says only that a table was cleared, or gone, has nothing else to tell. Any other one is told, also if the
        // reader has known it from the beginning.)
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

    /// About what they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
