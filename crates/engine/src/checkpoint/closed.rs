//! The file `closed`: that a database was closed in order, and what it consisted of then.
//!
//! It is written last when a database is closed. When the database is opened, it is removed before anything is
//! written that would make it untrue. So while it exists, anything that it names and that is missing was not lost by
//! a crash.

use super::error::damaged;
use super::format::{HEAD_BYTES, Name, head, seal, unseal};
use super::{CLOSED_FILE, Result, files};
use crate::storage::Storage;
use crate::wal::codec::{u32_at, u64_at};
use crate::wal::{DatabaseId, End, Lsn};
use std::io::ErrorKind;

const MAGIC: [u8; 8] = *b"BRAIDEND";
/// The length of the file: the head, what it names, and zeros for future fields.
const BYTES: usize = 128;

/// What a database consisted of when it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Where the log ends. Without a log, this is where an earlier log ended.
    pub end: End,
    /// The number of the newest checkpoint; 0 if there is none.
    pub checkpoint: u64,
    /// True if checkpoints have what the log lacks. Then no checkpoint can replace another.
    pub is_unlogged: bool,
}

impl Closed {
    /// The name of the file.
    pub const FILE: &str = CLOSED_FILE;

    /// Reads the file. Returns none if it does not exist: then the database is in use, or was not closed in order.
    pub fn read(storage: &dyn Storage, database: DatabaseId) -> Result<Option<Closed>> {
        let Some(file) = files::open(storage, Name::Closed)? else { return Ok(None) };
        let bytes = files::read_all(&*file, BYTES as u64)?;
        if unseal(Name::Closed, &bytes, MAGIC)? != database {
            return Err(damaged(Self::FILE, 16, "it names another database than the file \"database\" does"));
        }
        let closed = Self::decode(&bytes).filter(|closed| closed.encode(database)[..] == bytes);
        closed
            .map(Some)
            .ok_or_else(|| damaged(Self::FILE, HEAD_BYTES as u64, "it is not what closing writes"))
    }

    /// Writes the file, which is durable when this returns. Everything that it names has to be durable.
    pub fn publish(&self, storage: &dyn Storage, database: DatabaseId) -> Result<()> {
        files::publish_file(storage, Name::NewClosed, Name::Closed, &self.encode(database))
    }

    /// Removes the file durably, if it exists. The directory is synced even if another process has removed the file
    /// without syncing.
    pub fn remove(storage: &dyn Storage) -> Result<()> {
        match storage.remove(Self::FILE) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(storage.sync_directory()?),
        }
    }

    fn encode(&self, database: DatabaseId) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..HEAD_BYTES].copy_from_slice(&head(MAGIC, database));
        bytes[32..40].copy_from_slice(&self.end.lsn.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.end.segment.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.end.chain.to_le_bytes());
        bytes[52] = u8::from(self.is_unlogged);
        bytes[56..64].copy_from_slice(&self.checkpoint.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Closed> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let end = End { lsn: Lsn(u64_at(bytes, 32)), segment: u64_at(bytes, 40), chain: u32_at(bytes, 48) };
        Some(Closed { end, checkpoint: u64_at(bytes, 56), is_unlogged: bytes[52] != 0 })
    }
}
