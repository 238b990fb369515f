//! Planted errors: a reader without one of its checks, for tests which show that the missing check would be noticed.
//! Such readers are made only here. Omitted syncs are errors of a storage, which the simulation has.

use super::block::{Owner, Placed};
use super::checks::{Checks, Proven};
use super::{Result, RowsFile, RowsReader};
use crate::storage::Storage;
use crate::wal::DatabaseId;

/// The check that a reader omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Checksums of blocks.
    NoChecksum,
    /// The place of a block in the file, and the file that it belongs to.
    AnyPlace,
    /// The manifest's checksum of the file.
    StaleRows,
}

impl Planted {
    /// Opens a reader like [`RowsReader::open`], with this error.
    pub fn open(
        self,
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
    ) -> Result<RowsReader> {
        let checks = match self {
            Planted::NoChecksum => &Planted::NoChecksum,
            Planted::AnyPlace => &Planted::AnyPlace,
            Planted::StaleRows => &Planted::StaleRows,
        };
        RowsReader::with_checks(storage, database, rows, fixed8, checks)
    }
}

impl Checks for Planted {
    fn is_named(&self, rows: &RowsFile, footer_checksum: u32) -> bool {
        *self == Planted::StaleRows || Proven.is_named(rows, footer_checksum)
    }

    fn place(&self, owner: &Owner, placed: &Placed, previous: u32, head: &[u8]) -> Result<(), &'static str> {
        match self {
            Planted::NoChecksum | Planted::AnyPlace => Ok(()),
            Planted::StaleRows => Proven.place(owner, placed, previous, head),
        }
    }

    fn rows(&self, head: &[u8], rows: &[u8]) -> Result<(), &'static str> {
        if *self == Planted::NoChecksum { Ok(()) } else { Proven.rows(head, rows) }
    }
}
