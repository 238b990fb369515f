//! The models of schedules on segments of two buckets, which are split at every fourth key.

use super::hopscotch::Hopscotch;
use super::*;
use crate::index::schedules::{Act, check, check_stamps, inserts, key, removes, slab};
use crate::memory::Memory;

fn make<P: Placement>(memory: &Arc<Memory>, fixed8: bool) -> Hashed<P> {
    Hashed::limited(slab(memory, NODE_BYTES), fixed8, 1).expect("a segment")
}

fn of_eight<P: Placement>(memory: &Arc<Memory>) -> Hashed<P> {
    make(memory, true)
}

fn of_any_length<P: Placement>(memory: &Arc<Memory>) -> Hashed<P> {
    make(memory, false)
}

/// Makes an index that is never split, so that keys are moved and stashed.
fn crowded<P: Placement>(memory: &Arc<Memory>) -> Hashed<P> {
    let index = make(memory, true);
    index.rest.growth.next_at.store(u64::MAX, Ordering::Relaxed);
    index
}

fn losing_stamps<P: Placement>(memory: &Arc<Memory>) -> Hashed<P> {
    let mut index = make(memory, true);
    index.lose_stamps();
    index
}

fn split_meets_lookup_and_walk<P: Placement>() {
    // Proves that a segment may be split while its keys are looked up and walked.
    let looks = vec![Act::Look, Act::Walk(true), Act::Walk(false)];
    check(of_eight::<P>, inserts(0..3), vec![inserts(3..5), looks]);
}

fn split_meets_changes<P: Placement>() {
    // Proves that segments may be split while others insert into them and remove from them.
    check(
        of_eight::<P>,
        inserts(0..6),
        vec![inserts(10..13), inserts(20..22), removes(1..3), vec![Act::Look]],
    );
}

fn moves_meet_lookup<P: Placement>() {
    // Proves that keys may be moved from bucket to bucket, and to the stash, while they are looked up and walked.
    check(crowded::<P>, inserts(0..6), vec![inserts(10..16), vec![Act::Look, Act::Walk(false), Act::Look]]);
}

fn stash_meets_all<P: Placement>() {
    // Proves that a stash may grow and shrink, and its lines be removed, while its keys are looked up and others come.
    let threads = vec![removes(4..10), inserts(30..32), vec![Act::Look, Act::Walk(true)]];
    check(crowded::<P>, inserts(0..16), threads);
}

fn long_keys_come_and_go<P: Placement>() {
    // Proves that keys with bytes out of line may come and go while others are looked up and walked.
    let text = |n: u64| format!("a key that is long {n}").into_bytes();
    let insert = |from: u64, to: u64| (from..to).map(|n| Act::Insert(text(n))).collect::<Vec<_>>();
    let other = [insert(3, 5), vec![Act::Remove(text(1)), Act::Remove(text(4))]].concat();
    check(of_any_length::<P>, insert(0, 3), vec![other, vec![Act::Look, Act::Walk(true), Act::Walk(false)]]);
}

fn stamps_go_along<P: Placement>() {
    // Proves that a stamp left while segments are split is found for every key afterwards.
    let keys: Vec<Vec<u8>> = (0..14).map(key).collect();
    check_stamps(of_eight::<P>, inserts(0..3), inserts(3..6), keys.clone());
    check_stamps(of_eight::<P>, inserts(0..8), removes(2..4), keys);
}

fn planted_lost_stamp<P: Placement>() {
    // Proves that the model notices a split that leaves the stamp behind.
    check_stamps(losing_stamps::<P>, inserts(0..3), inserts(3..6), (0..14).map(key).collect());
}

/// Makes an index of four buckets, with neighborhoods of two, so that room is moved closer.
fn near(memory: &Arc<Memory>) -> Hopscotch {
    let mut index: Hopscotch = Hashed::limited(slab(memory, NODE_BYTES), true, 2).expect("a segment");
    index.reach = 2;
    index.rest.growth.next_at.store(u64::MAX, Ordering::Relaxed);
    index
}

#[test]
fn hops_meet_lookup() {
    // Proves that room may be moved closer by moves of keys that are looked up and walked meanwhile.
    let homes = |n: &u64| mixed::mix(&Key::from_u64(*n)) >> 62 < 2;
    let keys: Vec<u64> = (0..).filter(homes).take(12).collect();
    let inserts = |keys: &[u64]| inserts(keys.iter().copied());
    check(near, inserts(&keys[..8]), vec![inserts(&keys[8..]), vec![Act::Look, Act::Walk(false), Act::Look]]);
    let both = vec![inserts(&keys[8..]), removes(keys[1..3].iter().copied()), vec![Act::Look]];
    check(near, inserts(&keys[..8]), both);
}

macro_rules! models {
    ($($kind:ident $placement:ident;)*) => {$(
        mod $kind {
            use super::super::$kind::$placement;

            models! { @each $placement split_meets_lookup_and_walk split_meets_changes moves_meet_lookup stash_meets_all long_keys_come_and_go stamps_go_along }

            #[test]
            #[should_panic(expected = "the stamp is lost")]
            fn planted_lost_stamp() {
                super::planted_lost_stamp::<$placement>();
            }
        }
    )*};
    (@each $placement:ident $($test:ident)*) => {$(
        #[test]
        fn $test() {
            super::$test::<$placement>();
        }
    )*};
}

models! {
    cuckoo TwoBuckets;
    hopscotch Neighbourhood;
}
