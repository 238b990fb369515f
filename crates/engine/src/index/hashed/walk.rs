//! Walks, in the order of positions ([`crate::index::mixed`]). A segment has all keys from one position to another. It
//! is copied as of one moment, put in order, and handed out page by page.

use super::bucket::{Bucket, Entry};
use super::segment::Head;
use super::{Hashed, Placement, half_of};
use crate::index::atomic::Ordering;
use crate::index::mixed::{cmp_order, position_of};
use crate::index::{Key, PAGE_ENTRIES_MAX, Page, Paged, RecordId};
use crate::suspend::Suspend;
use crate::sync::Backoff;
use std::cmp::Ordering as Order;
use std::ops::Bound;

/// A suspended walk. Until it has come to its first segment, the page's `position` has the bound at which it began.
/// After that, `position` has the entries copied from the present segment, in the walk's order.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// A position of the next segment.
    next: u64,
    /// The number of copied entries, and of those handed out.
    len: u32,
    at: u32,
    is_reverse: bool,
    /// Whether nothing follows the present segment.
    is_last: bool,
    /// Whether the next segment has been requested.
    is_asked: bool,
    bound: FirstBound,
}

/// The meaning of a page's position before the first segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstBound {
    None,
    Included,
    Excluded,
}

/// The lines of a segment that are requested before it is copied. The rest follows in order.
const LINES: usize = 8;

/// The bytes of a copied entry: position, word, id, meta.
const COPIED_BYTES: usize = 8 + 8 + 4 + 2;

#[derive(Clone, Copy)]
struct Copied {
    position: u64,
    entry: Entry,
}

impl Copied {
    fn push_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&self.entry.word.to_le_bytes());
        bytes.extend_from_slice(&self.entry.id.to_le_bytes());
        bytes.extend_from_slice(&self.entry.meta.to_le_bytes());
    }

    fn from(bytes: &[u8]) -> Option<Copied> {
        let (position, bytes) = bytes.split_first_chunk()?;
        let (word, bytes) = bytes.split_first_chunk()?;
        let (id, bytes) = bytes.split_first_chunk()?;
        let entry = Entry {
            word: u64::from_le_bytes(*word),
            id: u32::from_le_bytes(*id),
            meta: u16::from_le_bytes(*bytes.first_chunk()?),
        };
        Some(Copied { position: u64::from_le_bytes(*position), entry })
    }

    /// Returns the key, whose object the epoch keeps.
    fn key<'k>(&self, short: &'k mut [u8; 8]) -> &'k [u8] {
        // SAFETY: the entry was in its segment in the walk's epoch, which keeps its object.
        unsafe { self.entry.key(short) }
    }

    fn cmp(&self, other: &Copied) -> Order {
        let by_key = || self.key(&mut [0; 8]).cmp(other.key(&mut [0; 8]));
        self.position.cmp(&other.position).then_with(by_key)
    }
}

impl Walk {
    /// Makes a walk that has not been stepped. The bound is a position and a key behind it, in the form that `order_of`
    /// makes.
    pub(super) fn new(from: Bound<&Key>, is_reverse: bool, fixed8: bool, page: &mut Page) -> Walk {
        page.clear();
        page.is_fixed8 = fixed8;
        page.position.clear();
        let (next, bound) = match from {
            Bound::Unbounded => (if is_reverse { u64::MAX } else { 0 }, FirstBound::None),
            Bound::Included(key) | Bound::Excluded(key) => {
                page.position.extend_from_slice(key.bytes(&mut [0; 8]));
                let is_included = matches!(from, Bound::Included(_));
                (key.slice, if is_included { FirstBound::Included } else { FirstBound::Excluded })
            }
        };
        Walk { next, len: 0, at: 0, is_reverse, is_last: false, is_asked: false, bound }
    }
}

impl<P: Placement> Hashed<P> {
    pub(super) fn walk_on<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        let mut backoff = Backoff::new();
        page.clear();
        loop {
            if walk.at < walk.len {
                self.give_out(walk, page);
                return Paged::Page;
            }
            if walk.is_last {
                return Paged::End;
            }
            let segment = self.segment_of(walk.next.reverse_bits());
            if !walk.is_asked {
                walk.is_asked = true;
                let leave = s.miss::<1>(self.head_at(segment));
                if s.miss::<LINES>(self.bucket_at(segment, 0)) | leave {
                    return Paged::Suspended;
                }
            }
            // If other threads change the segment all the time, it is latched for the copy.
            if self.copy(walk, page, segment, backoff.is_long()) {
                walk.is_asked = false;
                continue;
            }
            backoff.wait();
        }
    }

    /// Copies a segment as it is at one moment, and moves on behind it. Returns false if the segment is being changed
    /// and must not be latched, or has become another one.
    fn copy(&self, walk: &mut Walk, page: &mut Page, segment: u32, latch: bool) -> bool {
        let head = self.head(segment);
        let held = latch.then(|| head.hold());
        let word = head.word();
        let (first, last) = self.positions(segment);
        let is_free = held.is_some() || !Head::is_latched(word);
        if !is_free || !(first..=last).contains(&walk.next) {
            return false;
        }
        let mut entries = vec![];
        for bucket in (0..self.bucket_count()).map(|bucket| self.bucket(segment, bucket)) {
            entries.extend(Bucket::places(bucket.head()).map(|at| bucket.entry(at)));
        }
        let mut line = head.stash();
        while line != 0 {
            let (live, next) = self.line(line).in_stash();
            entries.extend(Bucket::places(live).map(|at| self.line(line).entry(at)));
            if !head.is_still(word) {
                return false;
            }
            line = next;
        }
        if !head.is_still(word) {
            return false;
        }
        drop(held);
        page.leave_mark(Self::mark_of(segment), Head::version(word));
        self.put_in_order(walk, page, &entries);
        let beyond = if walk.is_reverse { first.checked_sub(1) } else { last.checked_add(1) };
        (walk.is_last, walk.next) = (beyond.is_none(), beyond.unwrap_or(walk.next));
        true
    }

    /// Returns the first and the last position of a segment. The caller validates.
    fn positions(&self, segment: u32) -> (u64, u64) {
        let len = self.len.load(Ordering::Acquire); // as in `segment_of`
        let half = half_of(len);
        let number = u64::from(segment);
        let is_split = number >= half || number + half < len;
        let low = if is_split { half << 1 } else { half } - 1; // the bits that all its keys' numbers share
        let first = number.reverse_bits();
        (first, first | (!low).reverse_bits())
    }

    /// Leaves the entries within the walk's bound in the page, in the walk's order.
    fn put_in_order(&self, walk: &mut Walk, page: &mut Page, entries: &[Entry]) {
        let copied = |entry: &Entry| {
            // SAFETY: the entry was in its segment in the walk's epoch, which keeps its object.
            let hash = unsafe { entry.hash() };
            Copied { position: position_of(hash), entry: *entry }
        };
        let is_within = |copied: &Copied| {
            let mut short = [0; 8];
            let key = if self.rest.fixed8 { &[] } else { copied.key(&mut short) };
            let order = match walk.bound {
                FirstBound::None => return true,
                _ => cmp_order(copied.position, key, &page.position),
            };
            let order = if walk.is_reverse { order.reverse() } else { order };
            order.is_gt() || order.is_eq() && walk.bound == FirstBound::Included
        };
        let mut entries: Vec<Copied> = entries.iter().map(copied).filter(is_within).collect();
        entries.sort_unstable_by(|a, b| if walk.is_reverse { b.cmp(a) } else { a.cmp(b) });
        page.position.clear();
        entries.iter().for_each(|entry| entry.push_to(&mut page.position));
        (walk.at, walk.len, walk.bound) = (0, entries.len() as u32, FirstBound::None);
    }

    fn give_out(&self, walk: &mut Walk, page: &mut Page) {
        let copied = &page.position[walk.at as usize * COPIED_BYTES..];
        for (i, bytes) in copied.chunks_exact(COPIED_BYTES).take(PAGE_ENTRIES_MAX).enumerate() {
            let copied = Copied::from(bytes).expect("as it was put there");
            page.ids[i] = RecordId(copied.entry.id);
            page.positions[i] = copied.position;
            let mut short = [0; 8];
            let key = copied.key(&mut short);
            page.slices[i] = crate::index::slice_of(key);
            if !self.rest.fixed8 {
                page.bytes.extend_from_slice(key);
                page.ends[i] = page.bytes.len() as u32;
            }
            page.len = i + 1;
        }
        walk.at += page.len as u32;
        debug_assert!(page.len > 0 && walk.at <= walk.len);
    }
}
