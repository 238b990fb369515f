//! The models of schedules on a B+-tree's nodes, of four entries each.

use super::*;
use crate::index::schedules::{Act, check, check_stamps, inserts, key, removes, slab};
use crate::memory::Memory;

fn make(memory: &Arc<Memory>, fixed8: bool) -> BTree {
    BTree::limited(slab(memory, NODE_BYTES), fixed8, 4).expect("a node")
}

fn of_eight(memory: &Arc<Memory>) -> BTree {
    make(memory, true)
}

fn of_any_length(memory: &Arc<Memory>) -> BTree {
    make(memory, false)
}

fn losing_stamps(memory: &Arc<Memory>) -> BTree {
    let mut tree = make(memory, true);
    tree.lose_stamps();
    tree
}

/// Makes full leaves of 0, 10, 20; 30, 40, 50; …, and one with the last key too.
fn leaves(count: u64) -> Vec<Act> {
    inserts((0..3 * count + 1).map(|n| n * 10))
}

#[test]
fn split_meets_lookup_and_walk() {
    // Proves that a leaf, and with it the root, may split while its keys are looked up and walked.
    let before = inserts((0..4).map(|n| n * 10));
    check(of_eight, before, vec![inserts(15..16), vec![Act::Look, Act::Walk(true), Act::Walk(false)]]);
}

#[test]
fn split_meets_split() {
    // Proves that two threads may fill and split the same leaves and their parents.
    check(of_eight, leaves(1), vec![inserts(11..14), inserts(15..18), vec![Act::Look]]);
    check(of_eight, leaves(4), vec![inserts(31..33), inserts(5..7), vec![Act::Walk(true)]]);
}

#[test]
fn removal_meets_lookup_and_walk() {
    // Proves that the first, a middle, or the last leaf may be removed while its neighbors are looked up and walked.
    for first in [0, 3, 6] {
        let mut before = leaves(3);
        before.extend(removes((first..first + 2).map(|n| n * 10)));
        let last = removes((first + 2..first + 3).map(|n| n * 10));
        check(of_eight, before.clone(), vec![last.clone(), vec![Act::Look, Act::Walk(true)]]);
        check(of_eight, before, vec![last, vec![Act::Walk(false), Act::Walk(true)]]);
    }
}

#[test]
fn removal_meets_insertion() {
    // Proves that the first or a middle leaf may be removed while others insert into it.
    for first in [0, 3] {
        let mut before = leaves(3);
        before.extend(removes((first..first + 2).map(|n| n * 10)));
        let last = removes((first + 2..first + 3).map(|n| n * 10));
        let into = inserts((first..first + 2).map(|n| n * 10 + 5));
        check(of_eight, before, vec![last, into, vec![Act::Look]]);
    }
}

#[test]
fn removal_meets_split() {
    // Proves that the first or a middle leaf may be removed while its neighbors split.
    for first in [0, 3] {
        let mut before = leaves(3);
        before.extend(removes((first..first + 2).map(|n| n * 10)));
        before.extend(inserts(61..62));
        let last = removes((first + 2..first + 3).map(|n| n * 10));
        check(of_eight, before.clone(), vec![last.clone(), inserts(62..64), vec![Act::Walk(true)]]);
        check(of_eight, before, vec![last, inserts(32..35), vec![Act::Look, Act::Walk(false)]]);
    }
}

#[test]
fn removal_meets_removal() {
    // Proves that neighboring leaves may be removed at once, with their parents, until the root is a leaf again.
    let before = leaves(5);
    let threads = vec![removes((0..8).map(|n| n * 10)), removes((8..15).map(|n| n * 10)), vec![Act::Look]];
    check(of_eight, before, threads);
}

#[test]
fn prefixes_come_and_go() {
    // Proves that keys that share a prefix, and one that does not, may come and go while they are looked up and walked.
    let insert = |text: &str| Act::Insert(text.as_bytes().to_vec());
    let remove = |text: &str| Act::Remove(text.as_bytes().to_vec());
    let shared = ["prefix 1, one", "prefix 1, two", "prefix 1, six", "prefix 1, ten", "prefix 1, nine"];
    let before: Vec<Act> = shared.iter().map(|text| insert(text)).collect();
    let other = vec![insert("prefix 2"), insert("pre"), remove("prefix 1, six"), remove("pre")];
    let looks = vec![Act::Look, Act::Walk(true), Act::Walk(false)];
    check(of_any_length, before, vec![other, looks]);
}

#[test]
fn stamps_go_along() {
    // Proves that a stamp left while leaves split or are removed is found for every key afterwards.
    let keys: Vec<Vec<u8>> = (0..14).map(|n| key(n * 5)).collect();
    check_stamps(of_eight, leaves(2), inserts(31..34), keys.clone());
    for first in [0, 3] {
        let removals = removes((first..first + 3).map(|n| n * 10));
        check_stamps(of_eight, leaves(3), removals, keys.clone());
    }
}

#[test]
#[should_panic(expected = "the stamp is lost")]
fn planted_lost_stamp() {
    // Proves that the model notices a split that leaves the stamp behind.
    check_stamps(losing_stamps, leaves(2), inserts(31..34), (0..14).map(|n| key(n * 5)).collect());
}
