//! What a database knows of a secondary index by columns. It is a further part of the table's entry in the catalog.

use crate::wal::codec::{pass_parts, push_varint, take, take_varint};

/// A secondary index of a table, by columns of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// The name that the application gave the index.
    pub name: String,
    /// True if no two rows may have the same key.
    pub is_unique: bool,
    /// The columns that make the index's keys, in order: their names, and their types in values.
    pub columns: Vec<(String, String)>,
}

impl IndexEntry {
    /// Encodes the entry.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_unique)];
        push_text(&mut bytes, &self.name);
        push_varint(&mut bytes, self.columns.len() as u64);
        for (name, type_name) in &self.columns {
            push_text(&mut bytes, name);
            push_text(&mut bytes, type_name);
        }
        push_varint(&mut bytes, 0); // no further parts
        bytes
    }

    /// Decodes the entry, if the bytes are exactly one. Unknown optional parts are skipped.
    pub fn decode(mut bytes: &[u8]) -> Option<IndexEntry> {
        let is_unique = match take(&mut bytes, 1)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let name = take_text(&mut bytes)?;
        let mut columns = Vec::new();
        // Each column takes bytes, so a wrong number soon meets their end.
        for _ in 0..take_varint(&mut bytes)? {
            columns.push((take_text(&mut bytes)?, take_text(&mut bytes)?));
        }
        pass_parts(&mut bytes)?;
        let is_whole = bytes.is_empty() && !columns.is_empty();
        is_whole.then_some(IndexEntry { name, is_unique, columns })
    }
}

/// Adds a text behind its length.
pub(super) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes a text that follows its length.
pub(super) fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let text_bytes = take_varint(bytes)?;
    String::from_utf8(take(bytes, text_bytes)?.to_vec()).ok()
}
