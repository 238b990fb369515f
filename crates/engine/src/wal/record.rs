//! The body of a record: a transaction's changes, as varints and bytes.

use super::codec::{push_varint, take, take_varint};

/// One change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The table's number.
    pub table: u32,
    /// The encoded key.
    pub key: &'a [u8],
    /// The new value, or none if the row is gone.
    pub value: Option<&'a [u8]>,
}

/// How many bytes of memory are kept from one record to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A transaction's changes, ready to be appended. The value can be cleared and used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
    lane: usize,
}

impl Changes {
    /// Returns an empty list of changes.
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Returns an empty list for the appender of this number. Up to a few appenders with different numbers do not
    /// hinder each other.
    pub(crate) fn of_appender(number: usize) -> Changes {
        Changes { lane: number, ..Changes::default() }
    }

    /// Adds a change.
    pub fn push(&mut self, change: Change<'_>) {
        push_varint(&mut self.bytes, u64::from(change.table));
        push_varint(&mut self.bytes, change.key.len() as u64);
        self.bytes.extend_from_slice(change.key);
        // A value's length is stored plus one: 0 says that there is no value.
        push_varint(&mut self.bytes, change.value.map_or(0, |value| value.len() as u64 + 1));
        self.bytes.extend_from_slice(change.value.unwrap_or_default());
    }

    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    /// Returns the encoded changes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the lane of the log that the changes go into.
    pub(super) fn lane(&self) -> usize {
        self.lane
    }
}

/// Iterates over the changes in a record's body.
#[derive(Clone, Debug)]
pub struct ChangeIter<'a>(&'a [u8]);

impl<'a> ChangeIter<'a> {
    /// Returns the changes, or none if the bytes are anything else than a list of changes.
    pub(super) fn new(bytes: &'a [u8]) -> Option<ChangeIter<'a>> {
        let mut rest = bytes;
        while !rest.is_empty() {
            take_change(&mut rest)?;
        }
        Some(ChangeIter(bytes))
    }
}

impl<'a> Iterator for ChangeIter<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        take_change(&mut self.0)
    }
}

fn take_change<'a>(bytes: &mut &'a [u8]) -> Option<Change<'a>> {
    let table = u32::try_from(take_varint(bytes)?).ok()?;
    let key_bytes = take_varint(bytes)?;
    let key = take(bytes, key_bytes)?;
    let value = match take_varint(bytes)? {
        0 => None,
        more => Some(take(bytes, more - 1)?),
    };
    Some(Change { table, key, value })
}
