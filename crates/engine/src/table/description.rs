//! The properties of a table that can change without its rows: its name, the names of its types, their definitions,
//! its secondary indexes by columns, and whether it is in use.

use super::key::Key;
use super::value::Value;
use std::fmt;

/// A table's name and the types of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// Definitions of the named types in values, as lines in order.
    pub(crate) definitions: Vec<String>,
    pub(crate) state: TableState,
    /// Secondary indexes by columns, in the order in which they were declared.
    pub(crate) indexes: Vec<IndexInfo>,
}

/// A secondary index by columns, which the database keeps: see [`Database::index_on`](crate::Database::index_on).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The index's name.
    pub name: String,
    /// True if no two rows may have the same key.
    pub is_unique: bool,
    /// The columns that make the keys, in order.
    pub columns: Vec<IndexColumn>,
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexColumn {
    /// The field's name in the table's values, or its number in tuples.
    pub name: String,
    /// The field's type: `string`, `option of u32`, …
    pub type_name: String,
}

impl IndexInfo {
    /// Describes an index of this name, by columns whose types are not known yet.
    pub fn new(name: impl Into<String>, columns: &[&str], is_unique: bool) -> IndexInfo {
        let column = |name: &&str| IndexColumn::new(*name, "");
        IndexInfo { name: name.into(), is_unique, columns: columns.iter().map(column).collect() }
    }

    /// Returns true if both have the same columns and uniqueness, whatever is known of the columns' types.
    pub(crate) fn is_as(&self, other: &IndexInfo) -> bool {
        let (one, another) = (self.columns.iter(), other.columns.iter());
        self.is_unique == other.is_unique && one.map(|of| &of.name).eq(another.map(|of| &of.name))
    }
}

impl IndexColumn {
    /// Describes a column of this name, of a type of this name.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> IndexColumn {
        IndexColumn { name: name.into(), type_name: type_name.into() }
    }
}

/// Shows uniqueness and columns: `unique by (city, name)`.
impl fmt::Display for IndexInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        write!(f, "{}by ({})", if self.is_unique { "unique " } else { "" }, names.join(", "))
    }
}

/// The state of a table: in use, cleared or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TableState {
    #[default]
    InUse,
    /// The table has no rows from now on. Rows that are still in memory are being deleted.
    Cleared,
    /// As `Cleared`, and no rows are added. The table's name is free. Its number is not used again.
    Dropped,
}

impl Description {
    /// Describes a table of this name with these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str) -> Description {
        let types = (K::type_name(), V::type_name());
        Description { name: name.into(), types, ..Description::default() }
    }

    /// Returns true if the table has this name and was not dropped.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.state != TableState::Dropped && self.name == name
    }
}
