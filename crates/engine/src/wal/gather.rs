//! Takes records from the lanes and puts them into one order: runs, ready to be written.

use super::buffer::Shared;
use super::format::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::lane::{LANES, Taken};
use super::write_group::WriteGroup;
use super::{DatabaseId, End, Lsn, Tail};
use std::collections::VecDeque;

/// The flusher's side of the lanes. The log is gathered up to `at`, without a gap.
#[derive(Debug)]
pub(super) struct Gatherer {
    database: DatabaseId,
    lanes: [Taken; LANES],
    /// The lanes from which something was taken.
    active: Vec<usize>,
    at: u64,
    /// The checksum of the record before `at`.
    chain: u32,
    /// The segment in which `at` lies.
    segment: SegmentHeader,
    /// Where the later segments begin.
    cuts: VecDeque<u64>,
    /// A buffer that has been written. While one buffer is on its way to the disk, the other is filled.
    spare_buffer: Vec<u8>,
}

impl Gatherer {
    /// Continues behind a tail and behind a segment.
    pub(super) fn new(database: DatabaseId, tail: &Tail, segment: SegmentHeader) -> Gatherer {
        let lanes = std::array::from_fn(|_| Taken::default());
        let (active, cuts, spare_buffer) = (Vec::with_capacity(LANES), VecDeque::new(), Vec::new());
        Gatherer { database, lanes, active, at: tail.lsn, chain: tail.chain, segment, cuts, spare_buffer }
    }

    /// Returns the header of the segment that begins behind what has been gathered.
    pub(super) fn header_next(&self) -> SegmentHeader {
        let number = self.segment.number + 1;
        SegmentHeader { number, first_lsn: self.at, chain: self.chain, ..self.segment }
    }

    /// Notes that this segment has begun, before anything is gathered for it.
    pub(super) fn begin(&mut self, header: SegmentHeader) {
        self.segment = header;
    }

    /// Returns the position before which everything has been gathered.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns where the log ends, with what has been gathered.
    pub(super) fn end(&self) -> End {
        End { lsn: Lsn(self.at), chain: self.chain, segment: self.segment.number }
    }

    /// Returns true if an appender has begun a segment that no run has begun yet.
    pub(super) fn has_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Adds runs of everything that had been appended when this was called.
    pub(super) fn gather(&mut self, shared: &Shared, runs: &mut VecDeque<WriteGroup>) {
        let until = shared.appended().0;
        // Every record with a place before `until` is in a lane, or the holder of the lane's lock is putting it
        // there.
        let durable = shared.durable().0;
        let lanes = self.lanes.iter_mut().zip(shared.lanes());
        lanes.for_each(|(taken, mut lane)| taken.take(&mut lane, durable));
        // The cuts are taken after the lanes: the beginning of a segment is noted before its first record is in a
        // lane.
        self.cuts.extend(shared.state().cuts.drain(..));
        self.active.clear();
        self.active.extend((0..LANES).filter(|lane| self.lanes[*lane].lsn().is_some()));
        let mut run = None;
        let mut turn = 0;
        while let Some(next) = self.turn_of_next(turn) {
            turn = next;
            if self.cuts.front() == Some(&self.at) {
                self.cuts.pop_front();
                self.segment = self.header_next();
                runs.extend(run.take());
                run = Some(self.begin_run(Some(self.segment)));
            }
            let mut open = run.take().unwrap_or_else(|| self.begin_run(None));
            self.add(self.active[turn], &mut open);
            run = Some(open);
        }
        runs.extend(run);
        assert!(self.at >= until, "every record before is in a lane");
        assert!(self.cuts.front().is_none_or(|cut| *cut >= self.at), "no segment's begin was passed over");
    }

    /// Returns the turn of the active lane that has the record at `at`. Often it is the lane of the record before, or
    /// the next one.
    fn turn_of_next(&self, turn: usize) -> Option<usize> {
        let has_next = |turn: &usize| self.lanes[self.active[*turn]].lsn() == Some(self.at);
        (turn..self.active.len()).chain(0..turn.min(self.active.len())).find(has_next)
    }

    /// Adds the lane's next record to the run, which ends where the record belongs.
    fn add(&mut self, lane: usize, run: &mut WriteGroup) {
        debug_assert_eq!(run.first_lsn + run.bytes.len() as u64, self.at);
        let (mut header, body) = self.lanes[lane].next();
        header.previous = self.chain;
        header.run_bytes = (self.at - run.first_lsn) as u32;
        let (bytes, checksum) = header.encode(self.database, self.at);
        run.bytes.extend_from_slice(&bytes);
        run.bytes.extend_from_slice(body);
        run.records += 1;
        self.chain = checksum;
        self.at += (RECORD_HEADER_BYTES + body.len()) as u64;
    }

    fn begin_run(&mut self, begins: Option<SegmentHeader>) -> WriteGroup {
        let offset = SEGMENT_HEADER_BYTES as u64 + self.at - self.segment.first_lsn;
        let bytes = std::mem::take(&mut self.spare_buffer);
        WriteGroup { begins, first_lsn: self.at, offset, bytes, records: 0 }
    }

    /// Takes back the buffer of a run that is durable.
    pub(super) fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare_buffer = bytes;
    }
}
