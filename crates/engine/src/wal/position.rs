//! A place in the changes of one database, from which reading can continue.

use super::codec::{u32_at, u64_at};
use super::{DatabaseId, Lsn};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// Where a reader of changes begins or continues: a place in the log of one database. It outlives the process. As
/// bytes or text, it can be stored beside what a consumer has applied so far.
///
/// Positions of one database are ordered; positions of two databases are not.
///
/// ```
/// use braiddb::changes::ChangePosition;
/// # let directory = std::env::temp_dir().join(format!("braid-position-{}", std::process::id()));
/// # let options = braiddb::Options { workers: 1, log_segment_bytes: 1 << 20, ..Default::default() };
/// let db = braiddb::Database::open(&directory, options)?;
/// let position = db.change_position()?;
/// assert_eq!(ChangePosition::from_bytes(&position.to_bytes()), Ok(position));
/// assert_eq!(position.to_string().parse(), Ok(position));
/// # drop(db);
/// # std::fs::remove_dir_all(directory).expect("it was made above");
/// # Ok::<(), braiddb::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ChangePosition {
    pub(crate) database: DatabaseId,
    /// How often the database had been opened without a log. No log has the changes of those times.
    pub(crate) generation: u32,
    pub(crate) lsn: Lsn,
    /// The checksum of the record before, if it is known. Through it, the position identifies all earlier records.
    pub(crate) chain: Option<u32>,
}

/// The length of an encoded position.
const BYTES: usize = 40;

const VERSION: u8 = 1;

/// The input is no position, or was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPosition;

impl fmt::Display for InvalidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no position of changes, or not as it was written")
    }
}

impl std::error::Error for InvalidPosition {}

impl ChangePosition {
    /// Returns the place in the log.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Encodes the position, always in the same number of bytes.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = VERSION;
        bytes[1] = u8::from(self.chain.is_some());
        bytes[4..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.database.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.chain.unwrap_or(0).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a position that was stored as these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<ChangePosition, InvalidPosition> {
        let is_whole = bytes.len() == BYTES && u32_at(bytes, 36) == crc32c::crc32c(&bytes[..36]);
        if !is_whole || bytes[0] != VERSION || bytes[1] > 1 {
            return Err(InvalidPosition);
        }
        Ok(ChangePosition {
            database: DatabaseId(u128::from(u64_at(bytes, 8)) | u128::from(u64_at(bytes, 16)) << 64),
            generation: u32_at(bytes, 4),
            lsn: Lsn(u64_at(bytes, 24)),
            chain: (bytes[1] == 1).then(|| u32_at(bytes, 32)),
        })
    }

    /// Returns the log, and the place in it.
    fn place(&self) -> (u128, u32, u64) {
        (self.database.0, self.generation, self.lsn.0)
    }
}

impl PartialEq for ChangePosition {
    fn eq(&self, other: &ChangePosition) -> bool {
        self.place() == other.place()
    }
}

impl Eq for ChangePosition {}

impl Hash for ChangePosition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl PartialOrd for ChangePosition {
    /// Returns none if the positions are of two logs.
    fn partial_cmp(&self, other: &ChangePosition) -> Option<Ordering> {
        let is_of_same = (self.database, self.generation) == (other.database, other.generation);
        is_of_same.then(|| self.lsn.cmp(&other.lsn))
    }
}

impl fmt::Debug for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChangePosition").field(&self.lsn.0).finish()
    }
}

impl fmt::Display for ChangePosition {
    /// Writes the position's bytes as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ChangePosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<ChangePosition, InvalidPosition> {
        if text.len() != 2 * BYTES || !text.is_ascii() {
            return Err(InvalidPosition);
        }
        let mut bytes = [0; BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| InvalidPosition)?;
        }
        ChangePosition::from_bytes(&bytes)
    }
}
