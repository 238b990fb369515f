//! What a table is called, and what it holds.

use super::key::Key;
use super::value::Value;
use crate::error::{Error, Result};
use crate::index::{Front, IndexKind};

/// How a table is made: for [`Database::table_with`](crate::Database::table_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The kind of index. Default: [`IndexKind::Masstree`].
    pub index: IndexKind,
    /// What is in front of the index. Default: [`Front::None`].
    pub front: Front,
}

/// What a table is called, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableKind {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// All keys have eight bytes.
    pub(crate) fixed8: bool,
    /// How keys find their records.
    pub(crate) options: TableOptions,
}

impl TableKind {
    /// A table of this name for these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str, options: TableOptions) -> TableKind {
        let types = (K::type_name(), V::type_name());
        TableKind { name: name.into(), types, fixed8: K::FIXED8, options }
    }

    /// The same, with options of these names; without one, of the default kind.
    pub(crate) fn named(
        name: &str,
        types: (String, String),
        fixed8: bool,
        index: Option<&str>,
        front: Option<&str>,
    ) -> Result<TableKind> {
        let unknown = |index: &str| Error::UnknownIndex { table: name.into(), index: index.into() };
        let index = index.map_or(Ok(IndexKind::default()), |index| {
            IndexKind::named(index).ok_or_else(|| unknown(index))
        })?;
        let unknown = |front: &str| Error::UnknownFront { table: name.into(), front: front.into() };
        let front =
            front.map_or(Ok(Front::default()), |front| Front::named(front).ok_or_else(|| unknown(front)))?;
        Ok(TableKind { name: name.into(), types, fixed8, options: TableOptions { index, front } })
    }

    /// The name of its kind of index, if that is not the default one.
    pub(crate) fn index_name(&self) -> Option<&'static str> {
        (self.options.index != IndexKind::default()).then(|| self.options.index.name())
    }

    /// The name of what is in front of its index, if there is something.
    pub(crate) fn front_name(&self) -> Option<&'static str> {
        (self.options.front != Front::default()).then(|| self.options.front.name())
    }

    /// What it holds, for people, in so far as that tells it from another one.
    pub(crate) fn unlike(&self, other: &TableKind) -> String {
        let (key_type, value_type) = &self.types;
        let how = if self.types != other.types {
            String::new()
        } else if self.fixed8 != other.fixed8 {
            format!(" of {}", if self.fixed8 { "eight bytes" } else { "any length" })
        } else {
            let TableOptions { index, front } = self.options;
            format!(" in an index of the kind {} with front {}", index.name(), front.name())
        };
        format!("{value_type} by {key_type}{how}")
    }
}
