//! The bytes of segment headers and record headers. All numbers are little-endian.

use super::codec::{OPTIONAL_KIND_MIN, u32_at, u64_at};
use super::{DatabaseId, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, VERSION};
use crate::storage::SECTOR_BYTES;

/// A segment's header has a sector of its own. It is written when the file is made, and again when the segment
/// begins.
pub(super) const SEGMENT_HEADER_BYTES: usize = SECTOR_BYTES;

/// The length of a record's header, which precedes its body.
pub(super) const RECORD_HEADER_BYTES: usize = 32;

/// The highest number of a segment, and the highest position at which one begins: to write that much takes decades. A
/// header with a higher value is invalid, so values that were read can be added up without overflow.
pub(super) const POSITION_MAX: u64 = 1 << 62;

const MAGIC: [u8; 8] = *b"BRAIDLOG";
/// How many bytes of the header's sector are used. The rest is zero.
const USED_BYTES: usize = 64;

/// Returns the name of a segment's file.
pub(super) fn name(number: u64) -> String {
    format!("log-{number:020}")
}

/// Returns the number of the segment whose file has this name.
pub(super) fn number(file: &str) -> Option<u64> {
    let number = file.strip_prefix("log-")?.parse().ok()?;
    (name(number) == file).then_some(number)
}

/// The head of a segment. It is durable before the first of the segment's records is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// The segment's number, from 1 on. A file whose header has another number than its name has not begun.
    pub(super) number: u64,
    pub(super) first_lsn: u64,
    /// The checksum of the last record before the segment; 0 for the first segment.
    pub(super) chain: u32,
    /// The length that the file was made with. The file is shorter only if its unused end has been given back.
    pub(super) bytes: u64,
}

/// What the first sector of a segment's file contains.
pub(super) enum Decoded {
    /// The header of this segment.
    Begun(SegmentHeader),
    /// A header of this database that belongs to an earlier segment, to no segment yet, or that is half written. The
    /// segment has not begun.
    Prepared,
    Unsupported(u32),
    /// The header of another database's segment.
    Foreign(DatabaseId),
    Invalid,
}

impl SegmentHeader {
    /// Returns the header that a file of this length begins with until it is used. It belongs to no segment.
    pub(super) fn prepared(bytes: u64) -> SegmentHeader {
        SegmentHeader { number: 0, first_lsn: 0, chain: 0, bytes }
    }

    /// Returns how long the file must be to hold the log up to `lsn`.
    pub(super) fn used_bytes(&self, lsn: u64) -> u64 {
        debug_assert!(lsn >= self.first_lsn, "the position is in the segment");
        SEGMENT_HEADER_BYTES as u64 + (lsn - self.first_lsn)
    }

    pub(super) fn encode(&self, database: DatabaseId) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&database.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_lsn.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.chain.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = header_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the database that these bytes name, if they are a segment's header.
    pub(super) fn claimed(bytes: &[u8]) -> Option<DatabaseId> {
        let is_header =
            bytes.len() >= USED_BYTES && bytes[..8] == MAGIC && header_checksum(bytes) == u32_at(bytes, 12);
        is_header.then(|| DatabaseId(u128::from(u64_at(bytes, 16)) | u128::from(u64_at(bytes, 24)) << 64))
    }

    /// Decodes the beginning of the file of this database's segment of this number.
    pub(super) fn decode(bytes: &[u8], database: DatabaseId, number: u64) -> Decoded {
        match Self::claimed(bytes) {
            None if Self::is_torn(bytes, database) => return Decoded::Prepared,
            None => return Decoded::Invalid,
            Some(other) if other != database => return Decoded::Foreign(other),
            Some(_) => {}
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Decoded::Unsupported(version);
        }
        let header = SegmentHeader::fields(bytes);
        if header.number.max(header.first_lsn).max(number) > POSITION_MAX || !header.is_length() {
            return Decoded::Invalid;
        }
        if header.number != number {
            return Decoded::Prepared;
        }
        Decoded::Begun(header)
    }

    /// Returns true if these bytes may be a mixture of the segment's header and the header that its file had before.
    /// A write that is cut short in the middle of the sector leaves such a mixture, if a crash follows.
    fn is_torn(bytes: &[u8], database: DatabaseId) -> bool {
        bytes.len() >= USED_BYTES
            && bytes[..8] == MAGIC
            && u32_at(bytes, 8) == VERSION
            && bytes[16..32] == database.0.to_le_bytes()
            && SegmentHeader::fields(bytes).is_length()
    }

    /// Reads these bytes as a header, without checking them.
    pub(super) fn fields(bytes: &[u8]) -> SegmentHeader {
        SegmentHeader {
            number: u64_at(bytes, 32),
            first_lsn: u64_at(bytes, 40),
            chain: u32_at(bytes, 48),
            bytes: u64_at(bytes, 56),
        }
    }

    fn is_length(&self) -> bool {
        self.bytes.is_multiple_of(SECTOR_BYTES as u64)
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.bytes)
    }
}

fn header_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..USED_BYTES])
}

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The changes of a transaction.
    Commit,
    /// A change of the catalog.
    Catalog,
    /// The time. Everything before this record was appended at that time or earlier.
    Time,
    /// A kind that this version does not know.
    Other(u8),
}

impl Kind {
    fn of(number: u8) -> Option<Kind> {
        match number {
            0 => None,
            1 => Some(Kind::Commit),
            2 => Some(Kind::Catalog),
            128 => Some(Kind::Time),
            other => Some(Kind::Other(other)),
        }
    }

    fn number(self) -> u8 {
        match self {
            Kind::Commit => 1,
            Kind::Catalog => 2,
            Kind::Time => 128,
            Kind::Other(number) => number,
        }
    }

    /// Returns the kind's number if this version does not know the kind and a reader has to know it.
    pub(super) fn unknown(self) -> Option<u8> {
        match self {
            Kind::Other(number) if number < OPTIONAL_KIND_MIN => Some(number),
            _ => None,
        }
    }
}

/// The length of the body of a record of the time: nanoseconds since 1970 (UTC). Later versions may add to the body.
pub(super) const TIME_BYTES: usize = 8;

/// The head of a record. Its checksum, which the next record repeats, covers the whole header, the checksum of the
/// body, and the record's place: database and lsn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) body_bytes: u32,
    pub(super) body_checksum: u32,
    /// The checksum of the record before.
    pub(super) previous: u32,
    /// The distance from the beginning of the run to this record. Everything before the run was durable when the run
    /// was written.
    pub(super) run_bytes: u32,
    pub(super) commit_timestamp: u64,
    pub(super) kind: Kind,
}

impl RecordHeader {
    /// Returns the header's bytes, and the checksum that the next record repeats.
    pub(super) fn encode(&self, database: DatabaseId, lsn: u64) -> ([u8; RECORD_HEADER_BYTES], u32) {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.body_checksum.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.previous.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.run_bytes.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.commit_timestamp.to_le_bytes());
        bytes[28] = self.kind.number();
        let checksum = record_checksum(database, lsn, &bytes);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Returns the header and its checksum, if `bytes` begin with the header of a record that belongs at `lsn`, and
    /// if they have room for its body.
    pub(super) fn decode(bytes: &[u8], database: DatabaseId, lsn: u64) -> Option<(RecordHeader, u32)> {
        let (head, behind) = bytes.split_first_chunk()?;
        Self::decode_head(head, behind.len() as u64, database, lsn)
    }

    /// Decodes a header alone, like [`RecordHeader::decode`], if `behind_bytes` bytes follow it. Cheap checks come
    /// first, because a search tries this at every byte.
    pub(super) fn decode_head(
        head: &[u8; RECORD_HEADER_BYTES],
        behind_bytes: u64,
        database: DatabaseId,
        lsn: u64,
    ) -> Option<(RecordHeader, u32)> {
        let decoded = Self::fields(head, behind_bytes, lsn)?;
        (record_checksum(database, lsn, head) == decoded.1).then_some(decoded)
    }

    /// Decodes the header without comparing its checksum.
    pub(super) fn fields(
        head: &[u8; RECORD_HEADER_BYTES],
        behind_bytes: u64,
        lsn: u64,
    ) -> Option<(RecordHeader, u32)> {
        let [kind, 0, 0, 0] = head[28..32] else { return None };
        let kind = Kind::of(kind)?;
        let header = RecordHeader {
            body_bytes: u32_at(head, 4),
            body_checksum: u32_at(head, 8),
            previous: u32_at(head, 12),
            run_bytes: u32_at(head, 16),
            commit_timestamp: u64_at(head, 20),
            kind,
        };
        let fits = u64::from(header.body_bytes) <= behind_bytes && u64::from(header.run_bytes) <= lsn;
        fits.then(|| (header, u32_at(head, 0)))
    }

    /// Returns the record's length, body included.
    pub(super) fn bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + u64::from(self.body_bytes)
    }
}

fn record_checksum(database: DatabaseId, lsn: u64, head: &[u8]) -> u32 {
    let mut place = [0; 24];
    place[..16].copy_from_slice(&database.0.to_le_bytes());
    place[16..].copy_from_slice(&lsn.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), &head[4..RECORD_HEADER_BYTES])
}
