//! What can change of a table without its rows: what it is called, the names of its types, their definitions, its secondary indexes
//! by columns, whether it is in use.

use super::key::Key;
use super::value::Value;
use std::fmt;

/// What a table is called and what its rows are said to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// Definitions of the named types that values consist of, as lines in order.
    pub(crate) definitions: Vec<String>,
    pub(crate) state: TableState,
    /// Secondary indexes by columns, in the order in which they were declared.
    pub(crate) indexes: Vec<IndexInfo>,
}

/// A secondary index by columns, as the database keeps it: see [`Database::index_on`](crate::Database::index_on).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// What it is called.
    pub name: String,
    /// Whether no two rows may have the same key.
    pub is_unique: bool,
    /// The columns that make its keys, in order.
    pub columns: Vec<IndexColumn>,
}

/// A column by which there is an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexColumn {
    /// The field's name in the table's values; in tuples its number.
    pub name: String,
    /// Its type there: `string`, `option of u32`, …
    pub type_name: String,
}

impl IndexInfo {
    /// An index of this name, by columns of which the types are not known yet.
    pub fn new(name: impl Into<String>, columns: &[&str], is_unique: bool) -> IndexInfo {
        let column = |name: &&str| IndexColumn::new(*name, "");
        IndexInfo { name: name.into(), is_unique, columns: columns.iter().map(column).collect() }
    }

    /// Whether both are by the same columns, whatever is known of their types, in the same way.
    pub(crate) fn is_as(&self, other: &IndexInfo) -> bool {
        let (one, another) = (self.columns.iter(), other.columns.iter());
        self.is_unique == other.is_unique && one.map(|of| &of.name).eq(another.map(|of| &of.name))
    }
}

impl IndexColumn {
    /// A column of this name, of a type of this name.
    pub fn new(name: impl Into<String>, type_name: impl Into<String>) -> IndexColumn {
        IndexColumn { name: name.into(), type_name: type_name.into() }
    }
}

/// What it is an index by: `unique by (city, name)`.
impl fmt::Display for IndexInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        write!(f, "{}by ({})", if self.is_unique { "unique " } else { "" }, names.join(", "))
    }
}

/// Whether a table is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TableState {
    #[default]
    InUse,
    /// It has no rows from now on, and those that are still in memory are being deleted.
    Cleared,
    /// As `Cleared`, and no rows come any more. Its name is free; its number is not given again.
    Dropped,
}

impl Description {
    /// Of a table of this name for these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str) -> Description {
        let types = (K::type_name(), V::type_name());
        Description { name: name.into(), types, ..Description::default() }
    }

    /// Returns true if the table is called so.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.state != TableState::Dropped && self.name == name
    }
}
