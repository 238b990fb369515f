//! Errors that tests plant into writing and reading, to show that they would be noticed.

/// What is to be done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Nothing: what everything but those tests uses.
    None,
    /// The rows of a file that is finished are not synced.
    RowsUnsynced,
    /// A manifest is published before it is synced.
    ManifestUnsynced,
    /// A manifest is published before the names of its files are synced.
    NamesUnsynced,
    /// The directory is not synced after a manifest's rename.
    RenameUnsynced,
    /// Checksums of blocks are not looked at.
    NoChecksum,
    /// A block counts wherever in the file it lies: the offset is not in its checksum, nor compared otherwise.
    AnyPlace,
    /// A file of rows counts whatever the manifest's checksum of it is.
    StaleRows,
}
