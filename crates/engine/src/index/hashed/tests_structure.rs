//! Checks the invariants of segments and their stashes on an index that no thread is changing.

use super::bucket::{BUSY, Entry, STASHED};
use super::*;
use crate::index::model::Checked;

impl<P: Placement> Hashed<P> {
    /// Returns all entries of a segment, with the bucket of each, or `None` for an entry in the stash.
    fn entries(&self, segment: u32) -> Vec<(Option<usize>, Entry)> {
        let mut entries = vec![];
        for number in 0..self.bucket_count() {
            let bucket = self.bucket(segment, number);
            assert!(bucket.head() & BUSY == 0);
            entries.extend(Bucket::places(bucket.head()).map(|at| (Some(number), bucket.entry(at))));
        }
        let mut line = self.head(segment).stash();
        while line != 0 {
            let (live, next) = self.line(line).in_stash();
            assert!(live != 0, "an empty line stays");
            entries.extend(Bucket::places(live).map(|at| (None, self.line(line).entry(at))));
            line = next;
        }
        entries
    }

    /// Returns the number of keys in stashes.
    pub(super) fn stashed(&self) -> usize {
        let segments = 0..self.len.load(Ordering::Relaxed) as u32;
        segments.map(|segment| self.entries(segment).iter().filter(|(at, _)| at.is_none()).count()).sum()
    }
}

impl<P: Placement> Checked for Hashed<P> {
    fn check_structure(&self) {
        let len = self.len.load(Ordering::Relaxed);
        assert!(self.rest.buckets.used() >= len && self.rest.heads.used() >= len);
        let mut keys = vec![];
        for segment in 0..len as u32 {
            assert!(!Head::is_latched(self.head(segment).word()));
            let entries = self.entries(segment);
            for (bucket, entry) in &entries {
                // SAFETY: no thread changes the index.
                let (hash, key) = unsafe { (entry.hash(), entry.key(&mut [0; 8]).to_vec()) };
                assert_eq!(self.segment_of(hash), segment, "{key:?}");
                assert_eq!(entry.meta, bucket::meta_of(hash, key.len() as u32), "{key:?}");
                let home = self.home_of(hash);
                match bucket {
                    Some(bucket) => {
                        let nth = self.buckets_of(home, entry.meta).position(|own| own == *bucket);
                        let places = self.places_in(segment, home, nth.expect("a bucket of its own"));
                        let bucket = self.bucket(segment, *bucket);
                        let is_it = |at: &usize| places >> at & 1 != 0 && bucket.entry(*at) == *entry;
                        assert!(Bucket::places(bucket.head()).any(|at| is_it(&at)), "{key:?}");
                    }
                    None => assert!(self.bucket(segment, home).head() & STASHED != 0, "{key:?}"),
                }
                keys.push(key);
            }
            let is_stashed = |home: usize| {
                // SAFETY: no thread changes the index.
                let is_home = |entry: &Entry| self.home_of(unsafe { entry.hash() }) == home;
                entries.iter().any(|(at, entry)| at.is_none() && is_home(entry))
            };
            for home in 0..self.bucket_count() {
                assert_eq!(self.bucket(segment, home).head() & STASHED != 0, is_stashed(home));
            }
            if P::HAS_HOPS {
                let hops = |home| self.hop_word(segment, home).load(Ordering::Relaxed).count_ones() as usize;
                let noted: usize = (0..self.bucket_count()).map(hops).sum();
                assert_eq!(
                    noted,
                    entries.iter().filter(|(at, _)| at.is_some()).count(),
                    "words of what has gone"
                );
            }
        }
        assert_eq!(keys.len() as u64, self.rest.growth.keys.load(Ordering::Relaxed));
        keys.sort();
        assert!(keys.is_sorted_by(|a, b| a < b), "a key is there twice");
    }
}
