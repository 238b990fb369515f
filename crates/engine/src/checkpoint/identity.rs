//! The file `database`: that a directory is a database, which one, and in which version of the format.

use super::error::damaged;
use super::format::{HEAD_BYTES, Name, head, seal, unseal};
use super::{Error, IDENTITY_FILE, Result, files};
use crate::storage::{Operation, Storage, StorageError};
use crate::wal::{DatabaseId, is_segment};
use std::io::ErrorKind;

const MAGIC: [u8; 8] = *b"BRAIDDIR";
/// The length of the file: the head, and zeros for future fields.
const BYTES: usize = 64;
/// A longer file is something else.
const BYTES_MAX: u64 = 512;

/// What is known of a database before anything else of it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database's id.
    pub database: DatabaseId,
}

impl Identity {
    /// The name of the file.
    pub const FILE: &str = IDENTITY_FILE;

    /// Reads the identity of the database in this directory. Returns none if there is no database yet. A directory
    /// that has a log or checkpoints but no identity is damaged, and is no place for a new database.
    pub fn read(storage: &dyn Storage) -> Result<Option<Identity>> {
        let Some(file) = files::open(storage, Name::Identity)? else {
            if has_more(storage)? {
                let missing = "it is missing, and the rest of a database is there";
                return Err(damaged(Name::Identity.to_string(), 0, missing));
            }
            return Ok(None);
        };
        let len_bytes = file.len_bytes()?;
        let mut bytes = vec![0; len_bytes.min(BYTES_MAX) as usize];
        file.read_exact_at(0, &mut bytes)?;
        if len_bytes > BYTES_MAX || (bytes.len() >= MAGIC.len() && !bytes.starts_with(&MAGIC)) {
            return Err(Error::NotADatabase { file: Name::Identity.to_string() });
        }
        let database = unseal(Name::Identity, &bytes, MAGIC)?;
        Ok(Some(Identity { database }))
    }

    /// Creates a database in a directory for which [`Identity::read`] has found none. The identity is durable when
    /// this returns. Nothing else may be written earlier.
    pub fn create(storage: &dyn Storage, database: DatabaseId) -> Result<Identity> {
        if files::open(storage, Name::Identity)?.is_some() {
            let taken = ErrorKind::AlreadyExists.into();
            return Err(StorageError::io(Operation::Create, Name::Identity.to_string(), taken).into());
        }
        let identity = Identity { database };
        identity.publish(storage)?;
        Ok(identity)
    }

    /// Ensures that an identity which [`Identity::read`] has found is durable, before anything else is written. A
    /// process that was killed, or whose sync failed, may have left an identity that can be read and that a crash of
    /// the machine would undo. That can happen only if the identity is all that exists of the database.
    pub fn secure(&self, storage: &dyn Storage) -> Result<()> {
        if has_more(storage)? { Ok(()) } else { self.publish(storage) }
    }

    /// Returns true if a file of this name is what an interrupted [`Identity::create`] leaves.
    pub fn is_unfinished(file: &str) -> bool {
        Name::parse(file) == Some(Name::NewIdentity)
    }

    fn publish(&self, storage: &dyn Storage) -> Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..HEAD_BYTES].copy_from_slice(&head(MAGIC, self.database));
        seal(&mut bytes);
        files::publish_file(storage, Name::NewIdentity, Name::Identity, &bytes)
    }
}

/// Returns true if more of a database exists than its identity.
fn has_more(storage: &dyn Storage) -> Result<bool> {
    let is_part = |name: &Name| !matches!(name, Name::Identity | Name::NewIdentity);
    let is_more = |file: &String| is_segment(file) || Name::parse(file).as_ref().is_some_and(is_part);
    Ok(storage.list()?.iter().any(is_more))
}
