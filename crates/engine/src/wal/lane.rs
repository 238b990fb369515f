//! Lanes: where appenders leave records for the flusher. Each lane has its own lock. Usually only one appender takes
//! it and, once per flush, the flusher.
//!
//! Invariant: a record gets its place in the log and is put into its lane while the lane's lock is held once. So the
//! records of a lane are in ascending order. After every lane has been locked once, every record that had a place
//! before then is in a lane or was taken from one.

use super::format::{Kind, RECORD_HEADER_BYTES, RecordHeader};

/// What a record contains.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) checksum: u32,
    pub(super) commit_timestamp: u64,
}

impl Body<'_> {
    pub(super) fn new(bytes: &[u8], commit_timestamp: u64) -> Body<'_> {
        Body { bytes, checksum: crc32c::crc32c(bytes), commit_timestamp }
    }
}

/// The number of lanes: more than most databases have workers, and few enough to lock one after the other for each
/// flush. If there are more appenders than lanes, they share them.
pub(super) const LANES: usize = 16;

/// How many bytes of memory a lane keeps from one flush to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Records in the order of the log, with gaps where records of other lanes lie.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The records' places and headers, without the fields that depend on the record before and on the run.
    heads: Vec<(u64, RecordHeader)>,
    /// The records' bodies, one behind the other.
    bodies: Vec<u8>,
}

impl Records {
    fn clear(&mut self) {
        self.heads.clear();
        self.heads.shrink_to(KEPT_BYTES_MAX / size_of::<(u64, RecordHeader)>());
        self.bodies.clear();
        self.bodies.shrink_to(KEPT_BYTES_MAX);
    }
}

/// One lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    records: Records,
    /// Where the last record that was put here ends.
    pub(super) end: u64,
    /// The earliest commit of `records`. `taken_earliest` is that of the records that were taken, unless the log is
    /// durable up to `taken_end`.
    earliest: Earliest,
    taken_earliest: Earliest,
    taken_end: u64,
}

/// A commit's timestamp. Without a commit it is above all others.
#[derive(Clone, Copy, Debug)]
struct Earliest(u64);

impl Default for Earliest {
    fn default() -> Earliest {
        Earliest(u64::MAX)
    }
}

impl Lane {
    /// Puts a record here. Its place was reserved under this hold of the lock.
    pub(super) fn push(&mut self, lsn: u64, kind: Kind, body: Body<'_>) {
        debug_assert!(lsn >= self.end, "the records of a lane ascend");
        let header = RecordHeader {
            body_bytes: body.bytes.len() as u32,
            body_checksum: body.checksum,
            previous: 0,
            run_bytes: 0,
            commit_timestamp: body.commit_timestamp,
            kind,
        };
        self.records.heads.push((lsn, header));
        self.records.bodies.extend_from_slice(body.bytes);
        self.end = lsn + (RECORD_HEADER_BYTES + body.bytes.len()) as u64;
        if kind == Kind::Commit {
            self.earliest.0 = self.earliest.0.min(body.commit_timestamp);
        }
    }

    /// Returns the earliest commit of what was put here and is not durable, if the log is durable up to
    /// `durable_lsn`.
    pub(super) fn unsettled(&self, durable_lsn: u64) -> u64 {
        let is_taken_durable = self.taken_end <= durable_lsn;
        if is_taken_durable { self.earliest.0 } else { self.earliest.0.min(self.taken_earliest.0) }
    }

    /// Notes that all records are taken.
    fn taken(&mut self, durable_lsn: u64) {
        self.taken_earliest = Earliest(self.unsettled(durable_lsn));
        (self.earliest, self.taken_end) = (Earliest::default(), self.end);
    }
}

/// Records that were taken from a lane, to be read from the front.
#[derive(Debug, Default)]
pub(super) struct Taken {
    records: Records,
    /// How many records, and how many bytes of bodies, have been read.
    read: (usize, usize),
}

impl Taken {
    /// Takes the lane's records, to be read behind the records that are left here. The log is durable at least up to
    /// `durable_lsn`.
    pub(super) fn take(&mut self, lane: &mut Lane, durable_lsn: u64) {
        lane.taken(durable_lsn);
        if self.read.0 == self.records.heads.len() {
            self.records.clear();
            self.read = (0, 0);
            std::mem::swap(&mut self.records, &mut lane.records);
        } else {
            self.records.heads.append(&mut lane.records.heads);
            self.records.bodies.append(&mut lane.records.bodies);
        }
    }

    /// Returns the place of the next record.
    pub(super) fn lsn(&self) -> Option<u64> {
        self.records.heads.get(self.read.0).map(|(lsn, _)| *lsn)
    }

    /// Reads the next record, which must exist.
    pub(super) fn next(&mut self) -> (RecordHeader, &[u8]) {
        let (_, header) = self.records.heads[self.read.0];
        let begin = self.read.1;
        self.read = (self.read.0 + 1, begin + header.body_bytes as usize);
        (header, &self.records.bodies[begin..self.read.1])
    }
}
