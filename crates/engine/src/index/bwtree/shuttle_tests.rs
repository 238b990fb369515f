//! The models of schedules on a Bw-tree's nodes, of four entries and two records each.

use super::*;
use crate::index::schedules::{Act, check, check_stamps, check_stamps_from, inserts, key, removes, slab};
use crate::memory::Memory;
use std::ops::Bound;

fn make(memory: &Arc<Memory>, is_fixed8: bool) -> BwTree {
    BwTree::limited(slab(memory, NODE_BYTES), is_fixed8, 4, 2).expect("an entry")
}

fn of_eight(memory: &Arc<Memory>) -> BwTree {
    make(memory, true)
}

fn of_any_length(memory: &Arc<Memory>) -> BwTree {
    make(memory, false)
}

fn losing_stamps(memory: &Arc<Memory>) -> BwTree {
    let mut tree = make(memory, true);
    tree.lose_stamps();
    tree
}

/// Makes leaves with a few of 0, 10, 20, ….
fn leaves(count: u64) -> Vec<Act> {
    inserts((0..3 * count + 1).map(|n| n * 10))
}

/// Makes leaves of which the last has one key, 90. When that key is removed, the leaf is merged into the previous one.
fn sparse_leaves() -> Vec<Act> {
    [leaves(3), removes([40, 50].into_iter())].concat()
}

/// Returns a bound from which on a walk is within the last of these leaves, and keys of that leaf.
fn last_leaf() -> (Bound<Vec<u8>>, Vec<Vec<u8>>) {
    (Bound::Included(key(90)), (90..100).map(key).collect())
}

#[test]
fn additions_meet_in_a_leaf() {
    // Proves that three threads may add to the same leaf and consolidate it while its keys are looked up.
    check(of_eight, inserts(0..2), vec![inserts(2..4), inserts(4..6), vec![Act::Look, Act::Walk(true)]]);
}

#[test]
fn split_meets_lookup_and_walk() {
    // Proves that a leaf, and with it the root, may split while its keys are looked up and walked.
    let before = inserts((0..5).map(|n| n * 10));
    check(of_eight, before, vec![inserts(15..18), vec![Act::Look, Act::Walk(true), Act::Walk(false)]]);
}

#[test]
fn split_meets_split() {
    // Proves that two threads may fill and split the same leaves and their parents.
    check(of_eight, leaves(1), vec![inserts(11..15), inserts(16..19), vec![Act::Look]]);
    check(of_eight, leaves(4), vec![inserts(31..34), inserts(5..9), vec![Act::Walk(true)]]);
}

#[test]
fn removal_meets_addition() {
    // Proves that keys may be removed from a leaf and added to it, while it is consolidated between the two.
    let before = inserts((0..4).map(|n| n * 10));
    let threads = vec![removes([0, 20].into_iter()), inserts(11..14), vec![Act::Look, Act::Walk(false)]];
    check(of_eight, before, threads);
}

#[test]
fn merge_meets_lookup_and_walk() {
    // Proves that leaves may be merged into their neighbors while these are looked up and walked.
    for first in [0, 4, 8] {
        let last = removes((first..first + 4).map(|n| n * 10));
        check(of_eight, leaves(4), vec![last.clone(), vec![Act::Look, Act::Walk(true)]]);
        check(of_eight, leaves(4), vec![last, vec![Act::Walk(false), Act::Walk(true)]]);
    }
}

#[test]
fn merge_meets_insertion() {
    // Proves that leaves may be merged into their neighbors while others insert into both, and split them.
    for first in [0, 4] {
        let last = removes((first..first + 4).map(|n| n * 10));
        let into = inserts((first..first + 3).map(|n| n * 10 + 5));
        check(of_eight, leaves(4), vec![last.clone(), into, vec![Act::Look]]);
        let beside = inserts((first + 4..first + 7).map(|n| n * 10 + 5));
        check(of_eight, leaves(4), vec![last, beside, vec![Act::Walk(false)]]);
    }
}

#[test]
fn merge_meets_merge() {
    // Proves that neighboring leaves may be merged at once, with their parents, until the root is a leaf again.
    let threads = vec![removes((0..8).map(|n| n * 10)), removes((8..15).map(|n| n * 10)), vec![Act::Look]];
    check(of_eight, leaves(5), threads);
}

#[test]
fn root_that_comes_back() {
    // Proves that a root that has split may get a root above it and become the root again, while another thread is
    // about to put a root above it.
    let insert = |n: u64| inserts([n].into_iter());
    let and_back = [insert(55), removes([55, 40, 50].into_iter())].concat();
    let before = inserts((0..6).map(|n| n * 10));
    check(of_eight, before.clone(), vec![insert(60), and_back.clone()]);
    check(
        of_eight,
        before,
        vec![insert(60), [and_back, removes([30, 20].into_iter())].concat(), vec![Act::Look]],
    );
}

#[test]
fn keys_of_any_length() {
    // Proves that keys that have much in common, and one that has not, may come and go while they are looked up and
    // walked.
    let insert = |text: &str| Act::Insert(text.as_bytes().to_vec());
    let remove = |text: &str| Act::Remove(text.as_bytes().to_vec());
    let shared = ["prefix 1, one", "prefix 1, two", "prefix 1, six", "prefix 1, ten", "prefix 1, nine", "p"];
    let before: Vec<Act> = shared.iter().map(|text| insert(text)).collect();
    let other = vec![insert("prefix 2"), insert("pre"), remove("prefix 1, six"), remove("pre")];
    let looks = vec![Act::Look, Act::Walk(true), Act::Walk(false)];
    check(of_any_length, before, vec![other, looks]);
}

#[test]
fn stamps_go_along() {
    // Proves that a stamp left while leaves split or are removed is found for every key afterwards.
    let keys: Vec<Vec<u8>> = (0..14).map(|n| key(n * 5)).collect();
    check_stamps(of_eight, leaves(2), inserts(31..36), keys.clone());
    for first in [0, 3] {
        let removals = removes((first..first + 4).map(|n| n * 10));
        check_stamps(of_eight, leaves(3), removals, keys.clone());
    }
    // The same while a leaf is merged into its neighbor, on which the stamp was not left.
    let (last, keys) = last_leaf();
    check_stamps_from(of_eight, sparse_leaves(), vec![removes([90].into_iter())], last, keys);
}

#[test]
fn split_that_comes_to_nothing() {
    // Proves that marks of a leaf can hold again if it was to be split for a removal and takes an addition instead.
    // `check_structure` checks this.
    let merged = [sparse_leaves(), inserts(61..63), removes([90].into_iter()), inserts(63..64)].concat();
    check(of_eight, merged, vec![removes([80].into_iter()), inserts(64..65)]);
}

#[test]
fn stamps_of_leaves_that_stay() {
    // Proves that a stamp is also found if the leaf was about to be merged into its neighbor and stays because the
    // neighbor splits.
    let (last, keys) = last_leaf();
    let nearly_split = [sparse_leaves(), inserts(61..63)].concat();
    let threads = vec![removes([90].into_iter()), inserts(63..64)];
    check_stamps_from(of_eight, nearly_split, threads, last, keys);
}

#[test]
#[should_panic(expected = "the stamp is lost")]
fn planted_lost_stamp() {
    // Proves that the model notices a split that leaves the stamp behind.
    check_stamps(losing_stamps, leaves(2), inserts(31..36), (0..14).map(|n| key(n * 5)).collect());
}

#[test]
#[should_panic(expected = "the stamp is lost")]
fn planted_stamp_lost_in_merge() {
    // Proves that the model notices a merge that leaves the stamp behind.
    let (last, keys) = last_leaf();
    check_stamps_from(losing_stamps, sparse_leaves(), vec![removes([90].into_iter())], last, keys);
}
