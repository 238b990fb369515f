//! What can change of a table without its rows: what it is called, the names of its types, their definitions.

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
}

impl Description {
    /// Of a table of this name for these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str) -> Description {
        Description { name: name.into(), types: (K::type_name(), V::type_name()), definitions: Vec::new() }
    }
}
