//! The models of schedules on Masstree's nodes.

use super::*;
use crate::index::schedules::{Act, check, inserts, removes, slab};
use crate::memory::Memory;

fn make(memory: &Arc<Memory>, fixed8: bool) -> Masstree {
    Masstree::new(slab(memory, NODE_BYTES), fixed8).expect("a node")
}

fn of_eight(memory: &Arc<Memory>) -> Masstree {
    make(memory, true)
}

fn of_any_length(memory: &Arc<Memory>) -> Masstree {
    make(memory, false)
}

/// Makes three full borders: 0 to 130, 140 to 270, 280 to 410.
fn three_borders() -> Vec<Act> {
    inserts((0..42).map(|n| n * 10))
}

#[test]
fn split_meets_lookup_and_walk() {
    // Proves that the keys of a border that splits are found and walked meanwhile.
    let before = inserts((0..14).map(|n| n * 10));
    check(of_eight, before, vec![inserts(65..66), vec![Act::Look, Act::Walk(true), Act::Walk(false)]]);
}

#[test]
fn split_meets_split() {
    // Proves that two threads may fill and split the same borders.
    let before = inserts((0..14).map(|n| n * 10));
    check(of_eight, before, vec![inserts(61..64), inserts(65..68), vec![Act::Look]]);
}

#[test]
fn removal_meets_lookup_and_walk() {
    // Proves that the middle or the first border may be removed while its neighbors are looked up and walked.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 12).map(|n| n * 10)));
        let last = removes((first + 12..first + 14).map(|n| n * 10));
        check(of_eight, before.clone(), vec![last.clone(), vec![Act::Look, Act::Walk(true)]]);
        check(of_eight, before, vec![last, vec![Act::Walk(false), Act::Walk(true)]]);
    }
}

#[test]
fn removal_meets_insertion() {
    // Proves that the middle or the first border may be removed while others insert into it.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 13).map(|n| n * 10)));
        let last = removes((first + 13..first + 14).map(|n| n * 10));
        let into = inserts((first..first + 2).map(|n| n * 10 + 5));
        check(of_eight, before, vec![last, into, vec![Act::Look]]);
    }
}

#[test]
fn removal_meets_split() {
    // Proves that the middle or the first border may be removed while its neighbors split.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 13).map(|n| n * 10)));
        let last = removes((first + 13..first + 14).map(|n| n * 10));
        check(of_eight, before.clone(), vec![last.clone(), inserts(5..6), vec![Act::Look]]);
        check(of_eight, before.clone(), vec![last.clone(), inserts(145..146), vec![Act::Walk(true)]]);
        check(of_eight, before, vec![last, inserts(285..286), vec![Act::Walk(false)]]);
    }
}

#[test]
fn layers_come_and_go() {
    // Proves that a suffix may become a layer, and the layer be removed, while its keys are looked up and inserted.
    let insert = |text: &str| Act::Insert(text.as_bytes().to_vec());
    let remove = |text: &str| Act::Remove(text.as_bytes().to_vec());
    let mut acts =
        vec![insert("prefix 1 and less"), remove("prefix 1 and less"), remove("prefix 1 and more")];
    let others = vec![Act::Look, insert("prefix 1 xyz"), Act::Walk(true), Act::Walk(false)];
    check(of_any_length, vec![insert("a"), insert("prefix 1 and more")], vec![acts.clone(), others.clone()]);
    // The same, from the moment at which the layer is about to be removed.
    let layer = acts.remove(0);
    check(of_any_length, vec![insert("a"), insert("prefix 1 and more"), layer], vec![acts, others]);
}
