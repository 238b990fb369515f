//! What an error says of a row whose bytes are not of its table's types.

use super::{Error, LockedRow};
use std::fmt;

/// A row whose key or value is not of the type with which the table was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MalformedRow {
    /// The table's name.
    pub table: String,
    /// The row's key, as in [`LockedRow`].
    pub key: String,
}

impl MalformedRow {
    pub(crate) fn new(table: &str, key: &[u8]) -> Self {
        let shown = &key[..key.len().min(LockedRow::KEY_BYTES_SHOWN)];
        MalformedRow { table: table.into(), key: LockedRow::show(shown, key.len()) }
    }
}

impl fmt::Display for MalformedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of table {:?}", self.key, self.table)
    }
}

/// Says what bytes are not, and where.
pub(super) fn tell(
    f: &mut fmt::Formatter<'_>,
    expected: &str,
    bytes: usize,
    row: Option<&MalformedRow>,
) -> fmt::Result {
    row.iter().try_for_each(|row| write!(f, "{row}: "))?;
    write!(f, "{bytes} bytes are not valid as: {expected}")
}

impl Error {
    /// The same; if it is of malformed bytes and does not say where they are, in the row that `row` answers.
    #[inline(always)]
    pub(crate) fn in_row(self, row: impl FnOnce() -> Option<Box<MalformedRow>>) -> Error {
        match self {
            Error::Malformed { expected, bytes, row: None } => {
                Error::Malformed { expected, bytes, row: row() }
            }
            other => other,
        }
    }
}
