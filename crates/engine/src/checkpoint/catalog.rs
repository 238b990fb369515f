//! What a database knows of a table: the same bytes in manifests and in the log.

use crate::wal::codec::{push_varint, take, take_parts, take_varint};

/// A table, but for its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// What changes in the log and files of rows call it.
    pub number: u32,
    /// Whether all keys are eight bytes long.
    pub fixed8: bool,
    /// What the application calls it.
    pub name: String,
    /// The type of its keys.
    pub key_type: String,
    /// The type of its values.
    pub value_type: String,
    /// The kind of its index, by name; none: Masstree.
    pub index: Option<String>,
    /// What is in front of its index, by name; none: nothing.
    pub front: Option<String>,
}

/// The further part that names the kind of index.
const INDEX: u8 = 1;
/// The further part that names what is in front of it.
const FRONT: u8 = 2;

impl CatalogEntry {
    /// Adds the encoded entry to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        push_varint(bytes, u64::from(self.number));
        bytes.push(u8::from(self.fixed8));
        for text in [&self.name, &self.key_type, &self.value_type] {
            push_varint(bytes, text.len() as u64);
            bytes.extend_from_slice(text.as_bytes());
        }
        // How many further parts follow.
        push_varint(bytes, u64::from(self.index.is_some()) + u64::from(self.front.is_some()));
        for (kind, name) in [(INDEX, &self.index), (FRONT, &self.front)] {
            if let Some(name) = name {
                bytes.push(kind);
                push_varint(bytes, name.len() as u64);
                bytes.extend_from_slice(name.as_bytes());
            }
        }
    }

    /// The entry, if these bytes are one and nothing else. Optional parts that are not known are passed over, and not
    /// written again with the entry.
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
        let (mut index, mut front) = (None, None);
        take_parts(&mut bytes, |kind, part| {
            let place = match kind {
                INDEX => &mut index,
                FRONT => &mut front,
                _ => return false,
            };
            // (Each part comes once.)
            place.is_none() && {
                *place = String::from_utf8(part.to_vec()).ok();
                place.is_some()
            }
        })?;
        bytes.is_empty().then_some(CatalogEntry { number, fixed8, name, key_type, value_type, index, front })
    }
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let text_bytes = take_varint(bytes)?;
    String::from_utf8(take(bytes, text_bytes)?.to_vec()).ok()
}
