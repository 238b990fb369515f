//! What a database knows of a table. The bytes are the same in manifests and in the log.

use super::index_entry::{IndexEntry, push_text, take_text};
use crate::wal::codec::{push_varint, take, take_parts, take_varint};

/// A table, without its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The number by which changes in the log and files of rows name the table.
    pub number: u32,
    /// True if all keys are eight bytes long.
    pub fixed8: bool,
    /// The name that the application gave the table.
    pub name: String,
    /// The type of the table's keys.
    pub key_type: String,
    /// The type of the table's values.
    pub value_type: String,
    /// The name of the index's kind; none for Masstree.
    pub index: Option<String>,
    /// The name of what is in front of the index; none for nothing.
    pub front: Option<String>,
    /// Definitions of the named types that the table's values consist of, as lines of text.
    pub definitions: Vec<String>,
    /// In the log: no row that the table had before is left.
    pub is_cleared: bool,
    /// Like `is_cleared`, and the table gets no more rows. Its name may belong to another table.
    pub is_dropped: bool,
    /// The table's secondary indexes by columns.
    pub indexes: Vec<IndexEntry>,
}

/// The further part that names the kind of index.
const INDEX: u8 = 1;
/// The further part that names what is in front of the index.
const FRONT: u8 = 2;
/// A further part that is a definition. It may occur any number of times.
const DEFINITION: u8 = 3;
/// The further parts, without content, that say that the table is cleared, and that it is dropped.
const CLEARED: u8 = 4;
const DROPPED: u8 = 5;
/// A further part that is a secondary index by columns. It may occur any number of times.
const INDEX_ON: u8 = 6;

impl CatalogEntry {
    /// Returns true if both entries are of one table, which may have been renamed, retyped or given other definitions
    /// in between.
    pub fn is_of_same_table(&self, other: &CatalogEntry) -> bool {
        let has_same_keys = self.number == other.number && self.fixed8 == other.fixed8;
        has_same_keys && self.index == other.index && self.front == other.front
    }

    /// Returns true if this entry says that a table of this name exists.
    pub fn is_of(&self, name: &str) -> bool {
        !self.is_dropped && self.name == name
    }

    /// Returns true if no row that the table had before this entry is left.
    pub fn is_emptied(&self) -> bool {
        self.is_cleared || self.is_dropped
    }

    /// Adds the encoded entry to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        push_varint(bytes, u64::from(self.number));
        bytes.push(u8::from(self.fixed8));
        for text in [&self.name, &self.key_type, &self.value_type] {
            push_text(bytes, text);
        }
        let names = [(INDEX, &self.index), (FRONT, &self.front)].into_iter();
        let names = names.filter_map(|(kind, name)| Some((kind, name.as_deref()?)));
        let flags = [(CLEARED, self.is_cleared), (DROPPED, self.is_dropped)].into_iter();
        let flags = flags.filter(|(_, is_set)| *is_set).map(|(kind, _)| (kind, ""));
        let definitions = self.definitions.iter().map(|line| (DEFINITION, line.as_str()));
        let texts =
            names.chain(definitions).chain(flags).map(|(kind, text)| (kind, text.as_bytes().to_vec()));
        let indexes = self.indexes.iter().map(|index| (INDEX_ON, index.encode()));
        let parts: Vec<_> = texts.chain(indexes).collect();
        push_varint(bytes, parts.len() as u64);
        for (kind, part) in parts {
            bytes.push(kind);
            push_varint(bytes, part.len() as u64);
            bytes.extend_from_slice(&part);
        }
    }

    /// Decodes the entry, if the bytes are exactly one. Unknown optional parts are skipped, and are not written again
    /// with the entry.
    pub fn decode(mut bytes: &[u8]) -> Option<CatalogEntry> {
        let number = u32::try_from(take_varint(&mut bytes)?).ok()?;
        let fixed8 = match take(&mut bytes, 1)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let name = take_text(&mut bytes)?;
        let key_type = take_text(&mut bytes)?;
        let value_type = take_text(&mut bytes)?;
        let (mut index, mut front, mut definitions) = (None, None, Vec::new());
        let (mut is_cleared, mut is_dropped, mut indexes) = (false, false, Vec::new());
        take_parts(&mut bytes, |kind, part| {
            let text = String::from_utf8(part.to_vec());
            match (kind, text) {
                (INDEX_ON, _) => IndexEntry::decode(part).map(|index| indexes.push(index)).is_some(),
                (INDEX, Ok(text)) => index.replace(text).is_none(), // it may occur once
                (FRONT, Ok(text)) => front.replace(text).is_none(),
                (DEFINITION, Ok(text)) => {
                    definitions.push(text);
                    true
                }
                (CLEARED, Ok(text)) => !std::mem::replace(&mut is_cleared, true) && text.is_empty(),
                (DROPPED, Ok(text)) => !std::mem::replace(&mut is_dropped, true) && text.is_empty(),
                _ => false,
            }
        })?;
        let entry = CatalogEntry {
            number,
            fixed8,
            name,
            key_type,
            value_type,
            index,
            front,
            definitions,
            is_cleared,
            is_dropped,
            indexes,
        };
        bytes.is_empty().then_some(entry)
    }
}
