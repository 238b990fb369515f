//! The kind of database that is simulated.

use braiddb::{IndexKind, LabOptions, Options, SchemeName};

/// The kind of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The scheme, where the type of the database leaves it open.
    pub scheme: SchemeName,
    /// The kind of index of all tables.
    pub index: IndexKind,
}

impl Kind {
    /// Options of such a database, the others by default.
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
