//! Checks the invariants of a front that no thread is changing.

use super::*;

impl HashFront {
    /// Panics if an entry is not in its bucket, or is there twice. Returns the number of entries.
    pub(in crate::index) fn check_structure(&self) -> u64 {
        let len = self.len.load(Ordering::Relaxed);
        let mut count = 0;
        for number in 0..len {
            let held = self.bucket(number as u32).try_hold().expect("nobody is changing it");
            let entries: Vec<_> = (0..ENTRIES).filter_map(|place| held.entry(place)).collect();
            for (i, &(word, id)) in entries.iter().enumerate() {
                let hash = (word & !(BUCKETS_MIN - 1)) | (number % BUCKETS_MIN);
                assert_eq!(self.number_of(Tag { hash, word }), number as u32, "it is its key's bucket");
                assert!(id != 0 && entries[..i].iter().all(|other| other.0 != word), "a key is there once");
            }
            count += entries.len() as u64;
        }
        assert!(count <= self.keys());
        count
    }

    /// Returns the number of keys of the tree that could have an entry.
    pub(in crate::index) fn keys(&self) -> u64 {
        self.growth.keys.load(Ordering::Relaxed)
    }

    /// Returns the front's record of a key.
    pub(in crate::index) fn look_up(&self, key: &Key) -> Option<RecordId> {
        self.find(self.bucket_of(key)?, key)
    }
}
