//! The kind of database that is simulated.

use braiddb::{IndexKind, LabOptions, Options, SchemeName};

/// The kind of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The scheme, if the type of the database leaves it open.
    pub scheme: SchemeName,
    /// The kind of index of all tables.
    pub index: IndexKind,
}

impl Kind {
    /// Returns the options of such a database. All others are defaults.
    pub fn options(self) -> Options {
        let lab = LabOptions { scheme: self.scheme, ..LabOptions::default() };
        Options { index: self.index, lab, ..Options::default() }
    }
}

impl From<IndexKind> for Kind {
    fn from(index: IndexKind) -> Kind {
        Kind { index, ..Kind::default() }
    }
}
