//! What all files of checkpoints share: their names, and the head that each begins with.

use super::error::damaged;
use super::{CLOSED_FILE, Error, IDENTITY_FILE, Result, VERSION};
use crate::wal::DatabaseId;
use crate::wal::codec::u32_at;

/// The length of the head of every file: magic, version, checksum, database.
pub(super) const HEAD_BYTES: usize = 32;

const NEW: &str = ".new";

/// The files of a database, except those of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// The database's identity.
    Identity,
    /// The manifest of this checkpoint.
    Manifest(u64),
    /// A file of rows: the checkpoint that wrote it, the table, and the number of the part.
    Rows(u64, u32, u32),
    /// The mark that the database was closed in order.
    Closed,
    /// The identity before it is published.
    NewIdentity,
    /// The mark of closing before it is published.
    NewClosed,
    /// A manifest before it is published.
    NewManifest(u64),
}

impl Name {
    /// Returns what a file of this name is, if it is any of these.
    pub(super) fn parse(file: &str) -> Option<Name> {
        let (stem, is_new) = file.strip_suffix(NEW).map_or((file, false), |stem| (stem, true));
        let name = if stem == IDENTITY_FILE {
            if is_new { Name::NewIdentity } else { Name::Identity }
        } else if stem == CLOSED_FILE {
            if is_new { Name::NewClosed } else { Name::Closed }
        } else if let Some(number) = stem.strip_prefix("checkpoint-") {
            let number = number.parse().ok()?;
            if is_new { Name::NewManifest(number) } else { Name::Manifest(number) }
        } else {
            let (checkpoint, of_checkpoint) = stem.strip_prefix("rows-")?.split_once('-')?;
            let (table, part) = of_checkpoint.split_once('-')?;
            Name::Rows(checkpoint.parse().ok()?, table.parse().ok()?, part.parse().ok()?)
        };
        // Numbers have one spelling.
        (name.to_string() == file).then_some(name)
    }

    /// Returns the checkpoint that wrote the file, if a checkpoint did.
    pub(super) fn checkpoint(self) -> Option<u64> {
        match self {
            Name::Identity | Name::NewIdentity | Name::Closed | Name::NewClosed => None,
            Name::Manifest(number) | Name::NewManifest(number) | Name::Rows(number, ..) => Some(number),
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Identity => f.write_str(IDENTITY_FILE),
            Name::NewIdentity => write!(f, "{IDENTITY_FILE}{NEW}"),
            Name::Closed => f.write_str(CLOSED_FILE),
            Name::NewClosed => write!(f, "{CLOSED_FILE}{NEW}"),
            Name::Manifest(number) => write!(f, "checkpoint-{number:020}"),
            Name::NewManifest(number) => write!(f, "checkpoint-{number:020}{NEW}"),
            Name::Rows(checkpoint, table, part) => write!(f, "rows-{checkpoint:020}-{table:010}-{part:010}"),
        }
    }
}

/// Returns the head, without its checksum.
pub(super) fn head(magic: [u8; 8], database: DatabaseId) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&database.0.to_le_bytes());
    bytes
}

/// Puts the checksum of all the other bytes into the head that the bytes begin with, and returns it.
pub(super) fn seal(bytes: &mut [u8]) -> u32 {
    let checksum = checksum(bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// Returns the database that the file belongs to. Fails unless the bytes begin with a head of this version and are as
/// they were sealed.
pub(super) fn unseal(file: Name, bytes: &[u8], magic: [u8; 8]) -> Result<DatabaseId> {
    if bytes.len() < HEAD_BYTES {
        return Err(damaged(file.to_string(), bytes.len() as u64, "the file ends before its head does"));
    }
    if bytes[..8] != magic {
        return Err(damaged(file.to_string(), 0, "the file does not begin as one of its kind does"));
    }
    if checksum(bytes) != u32_at(bytes, 12) {
        return Err(damaged(file.to_string(), 0, "the checksum is wrong"));
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(Error::UnsupportedVersion { file: file.to_string(), version });
    }
    Ok(DatabaseId(bytes[16..32].iter().rev().fold(0, |id, byte| id << 8 | u128::from(*byte))))
}

/// Checks the bytes like [`unseal`], for a file that has to belong to a known database.
pub(super) fn unseal_of(file: Name, bytes: &[u8], magic: [u8; 8], database: DatabaseId) -> Result<()> {
    if unseal(file, bytes, magic)? != database {
        return Err(damaged(file.to_string(), 16, "the file belongs to another database"));
    }
    Ok(())
}
