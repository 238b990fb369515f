//! What can change of a table without its rows: what it is called, the names of its types, their definitions, whether it is in use.

use super::key::Key;
use super::value::Value;

/// What a table is called and what its rows are said to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// Definitions of the named types that values consist of, as lines in order.
    pub(crate) definitions: Vec<String>,
    pub(crate) state: TableState,
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
