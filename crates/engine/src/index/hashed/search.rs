//! The lookup as a step machine. The memory that usually has the key is requested at once, and read between two looks
//! at heads. This file also has the marks and stamps for transactions that look for absent keys.

use super::bucket::{BUSY, Bucket, LONG, STASHED, meta_of};
use super::segment::{Head, STAMPS};
use super::{Hashed, Placement};
use crate::index::atomic::{Ordering, fence};
use crate::index::{Key, Mark, Page, Probe, RecordId, Unbegun, mixed};
use crate::suspend::{Never, Suspend};
use crate::sync::Backoff;

/// A suspended lookup.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The key's number.
    hash: u64,
    /// The segment to which the key belonged when its buckets were requested. With [`UNBEGUN`], the number of a bucket
    /// of the front.
    segment: u32,
    /// The other memory that was requested.
    asked: u32,
}

const UNBEGUN: u32 = 1 << 31;
/// Bits of `asked`: the head of the segment, the first line of its stash, an object.
const HEAD: u32 = 1;
const LINE: u32 = 2;
const OBJECT: u32 = 4;
/// Buckets other than the home.
const BESIDE: u32 = 8;

/// The bit of a mark's number that says that the mark is of a segment, as walks leave it. Without it, the mark is of a
/// bucket.
const SEGMENT: u32 = 1 << 31;

impl Unbegun for Cursor {
    fn unbegun(bucket: u32) -> Cursor {
        Cursor { hash: 0, segment: bucket, asked: UNBEGUN }
    }

    fn bucket(&self) -> Option<u32> {
        (self.asked == UNBEGUN).then_some(self.segment)
    }
}

/// The outcome of a look at some entries.
enum Looked {
    Found(u32),
    Nothing,
    /// The data read must not be used.
    Again,
    Suspended,
}

impl<P: Placement> Hashed<P> {
    #[inline(always)]
    pub(super) fn begin(&self, key: &Key) -> Cursor {
        let hash = mixed::mix(key);
        Cursor { hash, segment: self.segment_of(hash), asked: 0 }
    }

    /// Requests what is read first.
    #[inline(always)]
    pub(super) fn ask<S: Suspend>(&self, c: &Cursor, s: &mut S) -> bool {
        // The length of the key says nothing of its buckets.
        P::ask(self, c.segment, self.home_of(c.hash), meta_of(c.hash, 0), s)
    }

    /// Goes on to the next probable miss.
    #[inline(never)]
    pub(super) fn look_up<S: Suspend>(&self, mut c: Cursor, key: Key, s: &mut S) -> (Cursor, Probe) {
        let (home, meta) = (self.home_of(c.hash), meta_of(c.hash, key.len));
        let mut backoff = Backoff::new();
        loop {
            let bucket = self.bucket(c.segment, home);
            let head = bucket.head();
            if head & BUSY != 0 {
                // No latch is held across a suspension, so its holder is running, or soon will be.
                if backoff.is_long() && S::SUSPENDS {
                    return (c, Probe::Suspended);
                }
                backoff.wait();
                continue;
            }
            // This is read after the head: a thread that moves keys to another segment publishes this before it frees
            // the head.
            let segment = self.segment_of(c.hash);
            if segment != c.segment {
                c = Cursor { segment, asked: 0, ..c };
                if self.ask(&c, s) {
                    return (c, Probe::Suspended);
                }
                continue;
            }
            let mut looked = self.look_in_buckets(&mut c, home, head, meta, &key, s);
            if let Looked::Nothing = looked
                && head & STASHED != 0
            {
                looked = self.look_in_stash(&mut c, meta, &key, s);
            }
            match looked {
                Looked::Found(id) => return (c, Probe::Found(RecordId(id))),
                Looked::Suspended => return (c, Probe::Suspended),
                Looked::Nothing if bucket.is_still(head) => return (c, Probe::Absent),
                Looked::Nothing | Looked::Again if backoff.is_long() && S::SUSPENDS => {
                    return (c, Probe::Suspended);
                }
                Looked::Nothing | Looked::Again => backoff.wait(),
            }
        }
    }

    /// Looks for the key in the buckets that it may be in.
    #[inline(always)]
    fn look_in_buckets<S: Suspend>(
        &self,
        c: &mut Cursor,
        home: usize,
        home_head: u64,
        meta: u16,
        key: &Key,
        s: &mut S,
    ) -> Looked {
        for nth in 0..self.reach() {
            let places = self.places_in(c.segment, home, nth);
            if places == 0 {
                continue;
            }
            let bucket = P::bucket(self, home, meta, nth);
            if P::HAS_HOPS
                && nth > 0
                && ask_once(&mut c.asked, BESIDE, self.bucket_at(c.segment, bucket).addr(), s)
            {
                return Looked::Suspended;
            }
            let bucket = self.bucket(c.segment, bucket);
            let head = if nth == 0 { home_head } else { bucket.head() };
            if head & BUSY != 0 {
                return Looked::Again;
            }
            match self.look_in(c, bucket, head, places, meta, key, s) {
                Looked::Nothing => {}
                looked => return looked,
            }
        }
        Looked::Nothing
    }

    /// Looks for the key in some places of a bucket.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "it is one loop of the lookup")]
    fn look_in<S: Suspend>(
        &self,
        c: &mut Cursor,
        bucket: &Bucket,
        head: u64,
        places: u64,
        meta: u16,
        key: &Key,
        s: &mut S,
    ) -> Looked {
        let mut hits = bucket.with_meta(head, meta) & places;
        while hits != 0 {
            let entry = bucket.entry(hits.trailing_zeros() as usize);
            hits &= hits - 1;
            if entry.code() != LONG && entry.word != key.slice {
                continue;
            }
            // An object is read only if the entry has been there, in this epoch.
            if !bucket.is_still(head) {
                return Looked::Again;
            }
            if entry.code() == LONG && ask_once(&mut c.asked, OBJECT, entry.word as usize, s) {
                return Looked::Suspended;
            }
            // SAFETY: the entry has been there in this epoch, which keeps its object.
            if unsafe { entry.is_of(key) } {
                return Looked::Found(entry.id);
            }
        }
        Looked::Nothing
    }

    /// Looks for the key in the stash of its segment.
    #[cold]
    #[inline(never)]
    fn look_in_stash<S: Suspend>(&self, c: &mut Cursor, meta: u16, key: &Key, s: &mut S) -> Looked {
        if ask_once(&mut c.asked, HEAD, self.head_at(c.segment).addr(), s) {
            return Looked::Suspended;
        }
        let head = self.head(c.segment);
        let word = head.word();
        if Head::is_latched(word) {
            return Looked::Again;
        }
        let mut id = head.stash();
        if id != 0 && ask_once(&mut c.asked, LINE, self.rest.lines.at(id).addr(), s) {
            return Looked::Suspended;
        }
        while id != 0 {
            let line = self.line(id);
            let (live, next) = line.in_stash();
            let mut hits = line.with_meta(live, meta);
            while hits != 0 {
                let entry = line.entry(hits.trailing_zeros() as usize);
                hits &= hits - 1;
                if !head.is_still(word) {
                    return Looked::Again;
                }
                // SAFETY: the entry has been there in this epoch, which keeps its object.
                if unsafe { entry.is_of(key) } {
                    return Looked::Found(entry.id);
                }
            }
            // The epoch keeps removed lines, which still lead on. This check ends the search if the stash has changed.
            if !head.is_still(word) {
                return Looked::Again;
            }
            id = next;
        }
        Looked::Nothing
    }
}

/// Requests a line, unless it was requested before.
#[inline(always)]
fn ask_once<S: Suspend>(asked: &mut u32, what: u32, address: usize, s: &mut S) -> bool {
    let is_asked = *asked & what != 0;
    *asked |= what;
    !is_asked && s.miss::<1>(std::ptr::without_provenance(address))
}

// ---- marks and stamps
impl<P: Placement> Hashed<P> {
    /// Returns the record of a key, if there is one. Leaves a mark of the key's home. The home's head changes whenever
    /// a key with the same home comes or goes, wherever that key lies.
    pub(super) fn look_and_mark(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
        let mut backoff = Backoff::new();
        loop {
            let c = self.begin(key);
            let home = self.home_of(c.hash);
            let bucket = self.bucket(c.segment, home);
            let head = bucket.head();
            let (c, probe) = self.look_up(c, *key, &mut Never);
            // The lookup has gone to another segment if the key belongs there by now.
            let is_it = head & BUSY == 0 && std::ptr::eq(bucket, self.bucket(c.segment, home));
            if is_it && bucket.is_still(head) {
                page.leave_mark((c.segment << self.bits) + home as u32, head);
                return match probe {
                    Probe::Found(id) => Some(id),
                    Probe::Absent | Probe::Suspended => None, // the policy does not suspend
                };
            }
            backoff.wait();
        }
    }

    /// Returns the number of a segment in a mark.
    pub(super) fn mark_of(segment: u32) -> u32 {
        segment | SEGMENT
    }

    pub(super) fn holds_mark(&self, mark: &Mark) -> bool {
        match mark.node & SEGMENT {
            0 => {
                let (segment, bucket) = self.marked(mark);
                self.bucket(segment, bucket).head() == mark.head
            }
            _ => self.head(mark.node & !SEGMENT).word() == mark.head,
        }
    }

    fn marked(&self, mark: &Mark) -> (u32, usize) {
        (mark.node >> self.bits, mark.node as usize & (self.bucket_count() - 1))
    }

    /// Raises the stamps of a marked bucket or segment, whether or not it is unchanged: a stamp that is too great does
    /// no harm.
    pub(super) fn raise_stamps(&self, mark: &Mark, stamp: u64) {
        match mark.node & SEGMENT {
            0 => {
                let (segment, bucket) = self.marked(mark);
                self.head(segment).raise_stamp(self.group_of(bucket), stamp);
            }
            _ => {
                let head = self.head(mark.node & !SEGMENT);
                (0..STAMPS).for_each(|group| head.raise_stamp(group, stamp));
            }
        }
    }

    /// Returns the stamp of the group of buckets in which the key's home is.
    pub(super) fn find_stamp(&self, key: &Key) -> u64 {
        let hash = mixed::mix(key);
        let home = self.home_of(hash);
        loop {
            let segment = self.segment_of(hash);
            let stamp = self.head(segment).stamp(self.group_of(home));
            // A segment to which the key has moved has received the stamps.
            fence(Ordering::Acquire);
            if self.segment_of(hash) == segment {
                return stamp;
            }
        }
    }
}
