//! What a table is called, and what it holds.

use super::key::Key;
use super::value::Value;
use crate::error::{Error, Result};
use crate::index::IndexKind;

/// What a table is called, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableKind {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// All keys have eight bytes.
    pub(crate) fixed8: bool,
    /// How keys find their records.
    pub(crate) index: IndexKind,
}

impl TableKind {
    /// A table of this name for these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str, index: IndexKind) -> TableKind {
        let types = (K::type_name(), V::type_name());
        TableKind { name: name.into(), types, fixed8: K::FIXED8, index }
    }

    /// The same, with an index of the kind of this name; without one, of the default kind.
    pub(crate) fn named(
        name: &str,
        types: (String, String),
        fixed8: bool,
        index: Option<&str>,
    ) -> Result<TableKind> {
        let unknown = |index: &str| Error::UnknownIndex { table: name.into(), index: index.into() };
        let index = index.map_or(Ok(IndexKind::default()), |index| {
            IndexKind::named(index).ok_or_else(|| unknown(index))
        })?;
        Ok(TableKind { name: name.into(), types, fixed8, index })
    }

    /// The name of its kind of index, if that is not the default one.
    pub(crate) fn index_name(&self) -> Option<&'static str> {
        (self.index != IndexKind::default()).then(|| self.index.name())
    }

    /// What it holds, for people, in so far as that tells it from another one.
    pub(crate) fn unlike(&self, other: &TableKind) -> String {
        let (key_type, value_type) = &self.types;
        let how = if self.types != other.types {
            String::new()
        } else if self.fixed8 != other.fixed8 {
            format!(" of {}", if self.fixed8 { "eight bytes" } else { "any length" })
        } else {
            format!(" in an index of the kind {}", self.index.name())
        };
        format!("{value_type} by {key_type}{how}")
    }
}
