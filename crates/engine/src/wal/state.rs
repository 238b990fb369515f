//! What appenders, waiters and the flusher share: the records that wait to be written, and how far the log is.

use super::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, SegmentHeader};
use super::{Error, Lsn, Options, Result, Tail};
use crate::metrics::Clock;
use crate::storage::StorageError;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, lock};
use std::fmt;
use std::task::Waker;

/// What a log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Groups made durable: each is one write and one sync.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The most records in one group.
    pub group_records_max: u64,
    /// The most bytes in one group.
    pub group_bytes_max: u64,
    /// The fastest group, from the start of its write to the end of its sync.
    pub flush_ns_min: u64,
    /// The slowest.
    pub flush_ns_max: u64,
    /// All together; by `groups`, the mean.
    pub flush_ns_sum: u64,
}

impl Statistics {
    fn add(&mut self, run: &Run, flush_ns: u64) {
        let bytes = run.bytes.len() as u64;
        self.flush_ns_min = if self.groups == 0 { flush_ns } else { self.flush_ns_min.min(flush_ns) };
        self.flush_ns_max = self.flush_ns_max.max(flush_ns);
        self.flush_ns_sum += flush_ns;
        self.groups += 1;
        self.records += run.records;
        self.bytes += bytes;
        self.group_records_max = self.group_records_max.max(run.records);
        self.group_bytes_max = self.group_bytes_max.max(bytes);
    }
}

/// Records that one write puts behind what is durable.
#[derive(Debug)]
pub(super) struct Run {
    /// The segment that the run begins, unless it goes on in one.
    pub(super) begins: Option<SegmentHeader>,
    pub(super) first_lsn: u64,
    /// Where in the segment's file.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}

/// Under one lock; `durable_lsn <= next_lsn`, and what lies between is in `queue` or with the flusher:
/// `buffered_bytes == next_lsn - durable_lsn`.
pub(super) struct State {
    pub(super) queue: Vec<Run>,
    /// A buffer that has been written: while one is on its way to the disk, the other is filled.
    spare_buffer: Vec<u8>,
    next_lsn: u64,
    chain: u32,
    /// The segment that records go to now.
    segment: SegmentHeader,
    /// Whether the segment after it can be begun.
    pub(super) has_spare: bool,
    pub(super) durable_lsn: u64,
    /// Why there is no next segment.
    pub(super) no_spare: Option<Arc<StorageError>>,
    /// Why a write that there should be room for was refused. It is tried again.
    pub(super) stalled: Option<Arc<StorageError>>,
    /// Whether the flusher has something to do although the queue is empty.
    pub(super) has_request: bool,
    pub(super) truncate_before: u64,
    pub(super) stopped: Option<Arc<StorageError>>,
    pub(super) is_closed: bool,
    /// Whether nobody will flush any more.
    pub(super) is_abandoned: bool,
    pub(super) wakers: Vec<(u64, Waker)>,
    pub(super) statistics: Statistics,
}

impl State {
    pub(super) fn new(tail: &Tail, segment: SegmentHeader) -> State {
        State {
            queue: Vec::new(),
            spare_buffer: Vec::new(),
            next_lsn: tail.lsn,
            chain: tail.chain,
            segment,
            has_spare: false,
            durable_lsn: tail.lsn,
            no_spare: None,
            stalled: None,
            has_request: false,
            truncate_before: 0,
            stopped: None,
            is_closed: false,
            is_abandoned: false,
            wakers: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Puts a record behind all others and says where it ends.
    pub(super) fn push(&mut self, options: &Options, kind: Kind, body: Body<'_>) -> Result<Lsn> {
        if let Some(error) = &self.stopped {
            return Err(Error::Stopped(Arc::clone(error)));
        }
        let (bytes, bytes_max) = ((RECORD_HEADER_BYTES + body.bytes.len()) as u64, options.room_bytes());
        if bytes > bytes_max {
            return Err(Error::RecordTooLarge { bytes, bytes_max });
        }
        if let Some(error) = &self.stalled {
            self.has_request = true;
            return Err(Error::Full(Arc::clone(error)));
        }
        let buffered_bytes = self.next_lsn - self.durable_lsn;
        if buffered_bytes > 0 && buffered_bytes + bytes > options.buffer_bytes_max as u64 {
            return Err(Error::WouldBlock);
        }
        let used_bytes = self.next_lsn - self.segment.first_lsn;
        assert!(used_bytes <= bytes_max, "a segment is not longer than it is");
        let begins = (used_bytes + bytes > bytes_max).then(|| self.begin_segment()).transpose()?;
        if begins.is_some() || self.queue.is_empty() {
            self.begin_run(begins);
        }
        let run = self.queue.last_mut().expect("a run is open");
        let header = RecordHeader {
            body_bytes: body.bytes.len() as u32,
            body_checksum: body.checksum,
            previous: self.chain,
            run_bytes: (self.next_lsn - run.first_lsn) as u32,
            commit_timestamp: body.commit_timestamp,
            kind,
        };
        let (header, checksum) = header.encode(options.database, self.next_lsn);
        run.bytes.extend_from_slice(&header);
        run.bytes.extend_from_slice(body.bytes);
        run.records += 1;
        (self.chain, self.next_lsn) = (checksum, self.next_lsn + bytes);
        debug_assert_eq!(run.first_lsn + run.bytes.len() as u64, self.next_lsn);
        Ok(Lsn(self.next_lsn))
    }

    fn begin_segment(&mut self) -> Result<SegmentHeader> {
        if !self.has_spare {
            self.has_request = true;
            return Err(self.no_spare.clone().map_or(Error::WouldBlock, Error::Full));
        }
        self.has_spare = false;
        self.segment =
            SegmentHeader { number: self.segment.number + 1, first_lsn: self.next_lsn, chain: self.chain };
        Ok(self.segment)
    }

    fn begin_run(&mut self, begins: Option<SegmentHeader>) {
        let offset = super::format::SEGMENT_HEADER_BYTES as u64 + self.next_lsn - self.segment.first_lsn;
        let bytes = std::mem::take(&mut self.spare_buffer);
        self.queue.push(Run { begins, first_lsn: self.next_lsn, offset, bytes, records: 0 });
    }

    /// Notes that a run is durable. Who has waited for that is to be woken without the lock.
    pub(super) fn publish(&mut self, mut run: Run, flush_ns: u64) -> Vec<Waker> {
        assert_eq!(run.first_lsn, self.durable_lsn, "runs become durable in order");
        self.durable_lsn += run.bytes.len() as u64;
        assert!(self.durable_lsn <= self.next_lsn, "what is durable was appended");
        self.statistics.add(&run, flush_ns);
        run.bytes.clear();
        self.spare_buffer = run.bytes;
        let durable_lsn = self.durable_lsn;
        let woken = self.wakers.extract_if(.., |(lsn, _)| *lsn <= durable_lsn);
        woken.map(|(_, waker)| waker).collect()
    }

    /// Whether a position is durable; an error if it never will be, as far as this process knows.
    pub(super) fn is_durable(&self, lsn: Lsn) -> Result<bool> {
        match (&self.stopped, lsn.0 <= self.durable_lsn) {
            (_, true) => Ok(true),
            (Some(error), _) => Err(Error::Stopped(Arc::clone(error))),
            (None, _) if self.is_abandoned => Err(Error::Closed),
            (None, _) => Ok(false),
        }
    }
}

/// What a record is to hold.
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

/// The state with its lock and what is signalled about it.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Something became durable, or failed, or there is room again.
    pub(super) progress: Condvar,
    /// There is something for the flusher.
    pub(super) work: Condvar,
}

impl Shared {
    pub(super) fn new(options: Options, clock: Arc<dyn Clock>, state: State) -> Shared {
        let state = Mutex::new(state);
        Shared { options, clock, state, progress: Condvar::new(), work: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let lsns = (state.durable_lsn, state.next_lsn);
        f.debug_struct("Shared").field("options", &self.options).field("durable_next", &lsns).finish()
    }
}
