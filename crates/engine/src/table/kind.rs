//! The properties of a table that are fixed when it is made.

use super::description::Description;
use crate::error::{Error, Result};
use crate::index::{Front, IndexKind};

/// How a table is made: for [`Database::table_with`](crate::Database::table_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The kind of index. Default: [`IndexKind::Masstree`].
    pub index: IndexKind,
    /// The front of the index. Default: [`Front::None`].
    pub front: Front,
}

/// The properties of a table that are fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableKind {
    /// All keys have eight bytes.
    pub(crate) fixed8: bool,
    /// How keys find their records.
    pub(crate) options: TableOptions,
}

impl TableKind {
    /// Returns the kind with options of these names. Without a name, the default is used. `table`: the table's name,
    /// for errors.
    pub(crate) fn named(
        table: &str,
        fixed8: bool,
        index: Option<&str>,
        front: Option<&str>,
    ) -> Result<TableKind> {
        let unknown = |index: &str| Error::UnknownIndex { table: table.into(), index: index.into() };
        let index = index.map_or(Ok(IndexKind::default()), |index| {
            IndexKind::named(index).ok_or_else(|| unknown(index))
        })?;
        let unknown = |front: &str| Error::UnknownFront { table: table.into(), front: front.into() };
        let front =
            front.map_or(Ok(Front::default()), |front| Front::named(front).ok_or_else(|| unknown(front)))?;
        Ok(TableKind { fixed8, options: TableOptions { index, front } })
    }

    /// Returns the name of its kind of index, if that is not the default.
    pub(crate) fn index_name(&self) -> Option<&'static str> {
        (self.options.index != IndexKind::default()).then(|| self.options.index.name())
    }

    /// Returns the name of the front of its index, if it has one.
    pub(crate) fn front_name(&self) -> Option<&'static str> {
        (self.options.front != Front::default()).then(|| self.options.front.name())
    }
}

/// Describes for readers what a table holds, as far as it differs from another table.
pub(crate) fn unlike(one: (&Description, &TableKind), other: (&Description, &TableKind)) -> String {
    let ((description, kind), (key_type, value_type)) = (one, &one.0.types);
    let how = if description.types != other.0.types {
        String::new()
    } else if kind.fixed8 != other.1.fixed8 {
        format!(" of {}", if kind.fixed8 { "eight bytes" } else { "any length" })
    } else {
        let TableOptions { index, front } = kind.options;
        format!(" in an index of the kind {} with front {}", index.name(), front.name())
    };
    format!("{value_type} by {key_type}{how}")
}
