//! The index's model test and stress test on the kinds without an order, and tests of what only these promise. Segments
//! of two buckets meet everything that happens between segments and in stashes. Full segments meet everything that
//! happens within.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{
    Checked, get, index_model, insert, key, keys_of_any_length, keys_of_eight, order_of, remove, scan,
    settle, try_insert,
};
use crate::index::stress;
use crate::memory::Memory;
use crate::suspend::{Never, Seeded};

const SMALL: u32 = 1;

fn make_in<P: Placement>(memory: &Arc<Memory>, fixed8: bool, bits: u32) -> Hashed<P> {
    let lines = Slab::reserve(memory, Kind::Index, NODE_BYTES, 1 << 20).expect("addresses");
    Hashed::limited(Arc::new(lines), fixed8, bits).expect("a segment")
}

fn make<P: Placement>(fixed8: bool, bits: u32) -> (Hashed<P>, Local) {
    let memory = Memory::new(1 << 30);
    (make_in::<P>(&memory, fixed8, bits), Local::new(&Epochs::new(), &memory))
}

/// Checks that an empty index keeps no line of a stash.
fn nothing_left<P: Placement>(index: &Hashed<P>, local: &Local) {
    index.check_structure();
    settle(local);
    assert_eq!(index.rest.lines.used(), 0);
}

/// Returns keys of eight bytes that have the same two buckets of a segment.
fn of_one_bucket<P: Placement>(index: &Hashed<P>) -> impl Iterator<Item = Vec<u8>> + use<P> {
    let bits = index.bits;
    let is_it = move |n: &u64| {
        let hash = mixed::mix(&Key::from_u64(*n));
        hash >> (64 - bits) == 0 && hash >> 48 & ((1 << bits) - 1) == 0
    };
    (0u64..).filter(is_it).map(|n| n.to_be_bytes().to_vec())
}

fn model_of_eight<P: Placement>() {
    // Proves that indexes of eight-byte keys behave like a BTreeMap.
    for bits in [SMALL, BUCKET_BITS] {
        index_model(keys_of_eight(), || make::<P>(true, bits), nothing_left);
    }
}

fn model_of_any_length<P: Placement>() {
    // Proves that indexes of keys of any length behave like a BTreeMap.
    for bits in [SMALL, BUCKET_BITS] {
        index_model(keys_of_any_length(), || make::<P>(false, bits), nothing_left);
    }
    index_model(keys_of_eight(), || make::<P>(false, SMALL), nothing_left);
}

fn few_keys_are_stashed<P: Placement>() {
    // Proves that nearly all keys have places in their buckets at the load at which segments are split, and that memory
    // is as promised.
    let (index, local) = make::<P>(true, BUCKET_BITS);
    let (mut most, mut bytes_max) = (0.0f64, 0.0f64);
    for n in 1..=200_000u64 {
        insert(&index, &local, &key(true, n << 7), n as u32);
        if n > 10_000 && n.is_multiple_of(9_973) {
            most = most.max(index.stashed() as f64 / n as f64);
            let hop_bytes = if P::HAS_HOPS { size_of::<u64>() << BUCKET_BITS } else { 0 };
            let segment_bytes = (CACHE_LINE << BUCKET_BITS) + HEAD_BYTES + hop_bytes;
            bytes_max =
                bytes_max.max(index.len.load(Ordering::Relaxed) as f64 * segment_bytes as f64 / n as f64);
        }
    }
    index.check_structure();
    assert!(most < 0.002, "{most}");
    assert!(bytes_max < if P::HAS_HOPS { 44.0 } else { 39.0 }, "{bytes_max}");
    assert!(
        (1..=200_000u64)
            .all(|n| { get(&index, &Key::from_u64(n << 7), &mut Never).1 == Some(RecordId(n as u32)) })
    );
}

fn keys_come_in_the_order_of_walks<P: Placement>() {
    // Proves that such keys find as many places as others where room was made before, and that the index is no larger.
    // Otherwise the first keys would all belong to the first segment.
    const KEYS: u64 = 30_000;
    let (index, local) = make::<P>(false, BUCKET_BITS);
    let key = |n: u64| [b"order".to_vec(), n.to_be_bytes().to_vec(), (n % 7).to_be_bytes().to_vec()].concat();
    let mut keys: Vec<_> = (0..KEYS).map(|n| (order_of(&index, &key(n)), n)).collect();
    keys.sort();
    index.reserve(&local, KEYS);
    let len = index.len.load(Ordering::Relaxed);
    assert_eq!(len, KEYS.div_ceil(load(BUCKET_BITS)));
    for (at, (_, n)) in keys.into_iter().enumerate() {
        insert(&index, &local, &key(n), n as u32 + 1);
        if at.is_multiple_of(1_009) {
            assert!(index.stashed() < KEYS as usize / 500, "{} of {at}", index.stashed());
        }
    }
    index.check_structure();
    assert_eq!(index.len.load(Ordering::Relaxed), len);
}

fn stashes_come_and_go<P: Placement>() {
    // Proves that keys that all have the same buckets are found in stashes and by walks, that they leave the stashes
    // when there is room, and that lines of stashes are given back.
    let (index, local) = make::<P>(true, BUCKET_BITS);
    let keys: Vec<Vec<u8>> = of_one_bucket(&index).take(2_000).collect();
    for (n, key) in keys.iter().enumerate() {
        insert(&index, &local, key, n as u32 + 1);
    }
    index.check_structure();
    let stashed = index.stashed();
    assert!(stashed > 100, "{stashed}");
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(get(&index, &Key::new(key), &mut Seeded::new(n as u64)).1, Some(RecordId(n as u32 + 1)));
    }
    assert_eq!(scan(&index, Bound::Unbounded, false, usize::MAX, &mut Never).len(), keys.len());
    for (n, key) in keys.iter().enumerate() {
        if n % 4 > 0 {
            remove(&index, &local, key, n as u32 + 1);
        }
    }
    index.check_structure();
    assert!(index.stashed() < stashed / 4, "{} of {stashed} stay", index.stashed());
    for (n, key) in keys.iter().enumerate().step_by(4) {
        remove(&index, &local, key, n as u32 + 1);
    }
    nothing_left(&index, &local);
}

fn churn_does_not_grow<P: Placement>() {
    // Proves that keys that come and go do not make an index grow: only more keys do.
    for (fixed8, bits) in [(true, SMALL), (true, BUCKET_BITS), (false, SMALL)] {
        let (index, local) = make::<P>(fixed8, bits);
        for n in 0..50_000 {
            insert(&index, &local, &key(fixed8, n), 7);
            if n >= 100 {
                remove(&index, &local, &key(fixed8, n - 100), 7);
            }
            local.refresh(None);
        }
        index.check_structure();
        assert!(index.len.load(Ordering::Relaxed) <= 101 / load(bits) + 1);
    }
}

fn out_of_memory_changes_nothing<P: Placement>() {
    // Proves that a refused insertion leaves all other keys in place and works later, and that all memory comes back.
    for (fixed8, is_one_bucket) in [(true, true), (false, false)] {
        let memory = Memory::new(1 << 20);
        let local = Local::new(&Epochs::new(), &memory);
        let index = make_in::<P>(&memory, fixed8, BUCKET_BITS);
        let mut crowded = of_one_bucket(&index);
        let mut keys: Vec<Vec<u8>> = vec![];
        loop {
            let bytes = match is_one_bucket {
                true => crowded.next().expect("without end"),
                false => key(fixed8, keys.len() as u64),
            };
            local.enter();
            let inserted = try_insert(&index, &local, &bytes, 1);
            local.leave();
            match inserted {
                Ok(inserted) => assert_eq!(inserted, Inserted::New),
                Err(OutOfMemory) => {
                    assert_eq!(get(&index, &Key::new(&bytes), &mut Never).1, None);
                    break;
                }
            }
            keys.push(bytes);
        }
        assert!(keys.len() > 1000, "{}", keys.len());
        index.check_structure();
        assert!(keys.iter().all(|key| get(&index, &Key::new(key), &mut Never).1.is_some()));
        let again = keys.remove(keys.len() / 2);
        remove(&index, &local, &again, 1);
        (0..10).for_each(|_| local.refresh(None));
        insert(&index, &local, &again, 1);
        local.enter();
        // SAFETY: nothing else uses the index, now or later.
        unsafe { index.clear(&local) };
        local.leave();
        (0..100).for_each(|_| local.refresh(None));
        assert_eq!((local.pending(), index.rest.lines.used()), (0, 0));
        drop((index, local));
        assert_eq!(memory.used_bytes(Kind::Index), 0);
    }
}

fn marks_and_stamps<P: Placement>() {
    // Proves that a mark of an absent key holds until a key of the same bucket comes or goes, or its segment is split,
    // and that a stamp left by the mark is found for the key whatever happens.
    let (index, local) = make::<P>(true, SMALL);
    local.enter();
    for n in 0..1_000u64 {
        let absent = Key::from_u64(n << 20 | 1);
        let mut page = Page { is_marking: true, ..Page::default() };
        // SAFETY: inside an epoch, and the key is alive.
        assert_eq!(unsafe { index.look(&absent, &mut page) }, None);
        let [mark] = page.marks[..] else { panic!("one mark") };
        // SAFETY: inside an epoch.
        unsafe { index.raise_stamp(&mark, n + 1) };
        assert!(index.is_as_marked(&mark));
        insert(&index, &local, &key(true, n << 20 | 1), 1);
        assert!(!index.is_as_marked(&mark));
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { index.stamp_of(&absent) } > n);
        if n.is_multiple_of(2) {
            remove(&index, &local, &key(true, n << 20 | 1), 1);
        }
    }
    for n in 0..1_000u64 {
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { index.stamp_of(&Key::from_u64(n << 20 | 1)) } > n);
    }
    local.leave();
}

fn threads<P: Placement>() {
    // Proves that threads may insert, remove, look up and walk keys of eight bytes, and of any length, at the same
    // time.
    let long: stress::KeyOf = |n| format!("{:05}/{:012}/{}", n / 4, n / 2, n).into_bytes();
    for bits in [SMALL, 2, BUCKET_BITS] {
        let make = |fixed8| move |lines| Hashed::<P>::limited(lines, fixed8, bits).expect("a segment");
        stress::stress(NODE_BYTES, make(true), |n| n.to_be_bytes().to_vec(), 100_000);
        stress::stress(NODE_BYTES, make(false), long, 50_000);
    }
}

fn threads_insert_only<P: Placement>() {
    // Proves that threads that fill and split the same segments lose no key.
    for bits in [SMALL, BUCKET_BITS] {
        stress::insert_only(NODE_BYTES, |lines| Hashed::<P>::limited(lines, true, bits).expect("a segment"));
    }
}

/// Returns an index whose segment is never split, and keys whose home is below this bucket.
fn crowd<P: Placement>(homes: usize) -> (Hashed<P>, Local, impl Iterator<Item = Vec<u8>>) {
    let (index, local) = make::<P>(true, BUCKET_BITS);
    index.rest.growth.next_at.store(u64::MAX, Ordering::Relaxed);
    let is_it = move |n: &u64| mixed::mix(&Key::from_u64(*n)) >> (64 - BUCKET_BITS) < homes as u64;
    let keys = (0u64..).filter(is_it).map(|n| n.to_be_bytes().to_vec());
    (index, local, keys)
}

fn a_segment_fills<P: Placement>() {
    // Proves that moves make room until nearly all places are taken, that the remaining keys are stashed, and that no
    // key is lost.
    let (index, local, keys) = crowd::<P>(64);
    let (places, mut filled) = (ENTRIES << BUCKET_BITS, 0);
    let keys: Vec<_> = keys.take(places + 50).collect();
    for key in &keys {
        insert(&index, &local, key, 7);
        filled += usize::from(index.stashed() == 0);
    }
    index.check_structure();
    assert!(filled * 10 > places * 9, "{filled} of {places}");
    assert!(keys.iter().all(|key| get(&index, &Key::new(key), &mut Never).1 == Some(RecordId(7))));
    keys.iter().for_each(|key| remove(&index, &local, key, 7));
    nothing_left(&index, &local);
}

fn crowded_neighbours<P: Placement>() {
    // Proves that keys that have few homes in common are moved away from each other, come and go, and are found at any
    // time.
    for homes in [1, 2, 20] {
        let (index, local, keys) = crowd::<P>(homes);
        let keys: Vec<_> = keys.take(300).collect();
        let (mut random, mut present) = (Seeded::new(homes as u64), vec![false; keys.len()]);
        for round in 0..4_000 {
            let n = random.next_u64() as usize % keys.len();
            match std::mem::replace(&mut present[n], round % 1_000 < 700) {
                was if was == present[n] => {}
                true => remove(&index, &local, &keys[n], 7),
                false => insert(&index, &local, &keys[n], 7),
            }
            if round % 50 == 0 {
                index.check_structure();
                for (key, is_there) in keys.iter().zip(&present) {
                    assert_eq!(get(&index, &Key::new(key), &mut random).1.is_some(), *is_there);
                }
            }
        }
    }
}

macro_rules! tests {
    ($($kind:ident $placement:ident;)*) => {$(
        mod $kind {
            use super::super::$kind::$placement;

            tests! { @each $placement model_of_eight model_of_any_length few_keys_are_stashed keys_come_in_the_order_of_walks stashes_come_and_go churn_does_not_grow out_of_memory_changes_nothing marks_and_stamps threads threads_insert_only a_segment_fills crowded_neighbours }
        }
    )*};
    (@each $placement:ident $($test:ident)*) => {$(
        #[test]
        fn $test() {
            super::$test::<$placement>();
        }
    )*};
}

tests! {
    cuckoo TwoBuckets;
    hopscotch Neighbourhood;
}
