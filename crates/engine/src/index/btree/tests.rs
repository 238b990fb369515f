//! The index's model test on the B+-tree, and what only that promises. Trees of four entries in a node meet all that
//! happens between nodes; those of full nodes, what happens within.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{Checked, get, index_model, keys_of_any_length, keys_of_eight, scan};
use crate::index::stress;
use crate::memory::{Kind, Memory};
use crate::suspend::{Never, Seeded};

const SMALL: usize = 4;

fn capacity(fixed8: bool) -> usize {
    if fixed8 { CAPACITY_FIXED8 } else { CAPACITY_MIXED }
}

fn make(fixed8: bool, capacity: usize) -> (BTree, Local) {
    let memory = Memory::new(1 << 30);
    let nodes = Slab::reserve(&memory, Kind::Index, NODE_BYTES, 1 << 16).expect("addresses");
    let local = Local::new(&Epochs::new(), &memory);
    (BTree::limited(Arc::new(nodes), fixed8, capacity).expect("a node"), local)
}

fn insert(tree: &BTree, local: &Local, bytes: &[u8], id: u32) {
    let key = Key::new(bytes);
    let (cursor, _) = get(tree, &key, &mut Never);
    // SAFETY: alone; the key lives.
    assert_eq!(unsafe { tree.insert(local, &cursor, &key, RecordId(id)) }, Ok(Inserted::New));
}

fn remove(tree: &BTree, local: &Local, bytes: &[u8], id: u32) {
    // SAFETY: alone; the key lives.
    assert!(unsafe { tree.remove(local, &Key::new(bytes), RecordId(id)) });
}

fn key(fixed8: bool, n: u64) -> Vec<u8> {
    if fixed8 { n.to_be_bytes().to_vec() } else { format!("customer/{n:020}").into_bytes() }
}

/// Nodes in use when all that is retired has been given back.
fn nodes_used(tree: &BTree, local: &Local) -> u64 {
    for _ in 0..100 {
        local.refresh(None);
    }
    assert_eq!(local.pending(), 0);
    tree.nodes.used()
}

/// Of an empty tree the root stays, which is a leaf.
fn one_node(tree: &BTree, local: &Local) {
    tree.check_structure();
    assert_eq!(nodes_used(tree, local), 1);
}

#[test]
fn model_of_eight() {
    // Trees of eight-byte keys behave like a BTreeMap.
    for capacity in [SMALL, CAPACITY_FIXED8] {
        index_model(keys_of_eight(), || make(true, capacity), one_node);
    }
}

#[test]
fn model_of_any_length() {
    // Trees of keys of any length behave like a BTreeMap, prefixes and all.
    for capacity in [SMALL, CAPACITY_MIXED] {
        index_model(keys_of_any_length(), || make(false, capacity), one_node);
    }
    index_model(keys_of_eight(), || make(false, CAPACITY_MIXED), one_node);
}

#[test]
fn ascending_keys_fill_nodes() {
    // Keys inserted in ascending order leave full nodes behind: at the end, and in several runs at once.
    for (fixed8, runs) in [(true, 1), (false, 1), (true, 10), (false, 10)] {
        let (tree, local) = make(fixed8, capacity(fixed8));
        for n in 0..100_000 / runs {
            for run in 0..runs {
                insert(&tree, &local, &key(fixed8, (run << 32) + n), 1);
            }
        }
        tree.check_structure();
        let full = 100_000.0 / capacity(fixed8) as f64;
        let most = full * if fixed8 { 1.15 } else { 1.2 };
        assert!((nodes_used(&tree, &local) as f64) < most, "{} of {full}", nodes_used(&tree, &local));
    }
}

#[test]
fn sliding_window_keeps_its_size() {
    // First in, first out: nodes do not pile up, whatever the direction.
    for (fixed8, ascending) in [(true, true), (true, false), (false, true), (false, false)] {
        for capacity in [SMALL, capacity(fixed8)] {
            let (tree, local) = make(fixed8, capacity);
            let key = |n: u64| key(fixed8, if ascending { n } else { u64::MAX - n });
            let mut most = 0;
            for n in 0..40_000 {
                insert(&tree, &local, &key(n), 1);
                if n >= 1000 {
                    remove(&tree, &local, &key(n - 1000), 1);
                }
                local.refresh(None);
                most = most.max(tree.nodes.used());
            }
            tree.check_structure();
            assert!(most < 5000 / capacity as u64, "{most} nodes of {capacity} for 1000 keys");
        }
    }
}

#[test]
fn random_removal_keeps_neighbours() {
    // While keys come and go at random, those that stay are found and walked in order.
    for (fixed8, capacity) in
        [(true, SMALL), (true, CAPACITY_FIXED8), (false, SMALL), (false, CAPACITY_MIXED)]
    {
        let (tree, local) = make(fixed8, capacity);
        let mut random = Seeded::new(3);
        for n in 0..5_000 {
            insert(&tree, &local, &key(fixed8, n * 3), 1);
        }
        let mut present = vec![false; 15_000];
        for _ in 0..60_000 {
            let n = random.next_u64() % 15_000;
            let bytes = key(fixed8, n);
            match (n % 3, std::mem::replace(&mut present[n as usize], !n.is_multiple_of(3))) {
                (0, _) => assert_eq!(get(&tree, &Key::new(&bytes), &mut Never).1, Some(RecordId(1))),
                (_, false) => insert(&tree, &local, &bytes, 2),
                (_, true) => {
                    remove(&tree, &local, &bytes, 2);
                    present[n as usize] = false;
                }
            }
        }
        tree.check_structure();
        let found = scan(&tree, Bound::Unbounded, false, usize::MAX, &mut Never);
        let expected = (0..15_000u64).filter(|&n| n % 3 == 0 || present[n as usize]);
        assert!(found.iter().map(|(key, _)| key.clone()).eq(expected.map(|n| key(fixed8, n))));
    }
}

#[test]
fn long_keys_share_long_prefixes() {
    // Keys far longer than a kilobyte that differ in the last byte only, their prefixes, and the longest there can be.
    let (tree, local) = make(false, CAPACITY_MIXED);
    let base = vec![7u8; 65_535];
    let keys: Vec<Vec<u8>> = (0..50u8)
        .map(|n| [&base[..5_000], &[n]].concat())
        .chain((0..5_000).step_by(7).map(|len| base[..len].to_vec()))
        .chain((0..50).map(|n| [&base[..65_534], &[n]].concat()))
        .collect();
    for (i, key) in keys.iter().enumerate() {
        insert(&tree, &local, key, i as u32 + 1);
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(get(&tree, &Key::new(key), &mut Never).1, Some(RecordId(i as u32 + 1)));
    }
    tree.check_structure();
    let found = scan(&tree, Bound::Unbounded, true, usize::MAX, &mut Never);
    assert_eq!(found.len(), keys.len());
    assert!(found.is_sorted_by(|a, b| a.0 > b.0));
    for (i, key) in keys.iter().enumerate() {
        remove(&tree, &local, key, i as u32 + 1);
    }
    one_node(&tree, &local);
}

#[test]
fn out_of_memory_changes_nothing() {
    // An insertion that is refused, of a node or of a key's object, leaves all other keys in place, and works later; and
    // all memory comes back.
    for (fixed8, limit_bytes, nodes_max) in
        [(true, 1 << 30, 300), (false, 1 << 30, 300), (false, 1 << 20, 1 << 16)]
    {
        let memory = Memory::new(limit_bytes);
        let slab = Slab::reserve(&memory, Kind::Index, NODE_BYTES, nodes_max).expect("addresses");
        let (nodes, local) = (Arc::new(slab), Local::new(&Epochs::new(), &memory));
        let tree = BTree::new(nodes.clone(), fixed8).expect("a node");
        let mut random = Seeded::new(5);
        let mut keys: Vec<Vec<u8>> = vec![];
        loop {
            let bytes = key(fixed8, random.next_u64() >> 3);
            let key = Key::new(&bytes);
            let (cursor, _) = get(&tree, &key, &mut Never);
            // SAFETY: alone; the key lives.
            match unsafe { tree.insert(&local, &cursor, &key, RecordId(1)) } {
                Ok(inserted) => assert_eq!(inserted, Inserted::New),
                Err(OutOfMemory) => {
                    assert_eq!(get(&tree, &key, &mut Never).1, None);
                    break;
                }
            }
            keys.push(bytes);
        }
        tree.check_structure();
        keys.sort();
        let found = scan(&tree, Bound::Unbounded, false, usize::MAX, &mut Never);
        assert!(found.iter().map(|(key, _)| key).eq(&keys), "after {} keys", keys.len());
        let again = keys.remove(keys.len() / 2);
        remove(&tree, &local, &again, 1);
        (0..10).for_each(|_| local.refresh(None));
        insert(&tree, &local, &again, 1);
        local.enter();
        // SAFETY: nothing else uses the tree, now or later.
        unsafe { tree.clear(&local) };
        local.leave();
        for _ in 0..100 {
            local.refresh(None);
        }
        assert_eq!(nodes.used(), 0);
    }
}

fn stress_btree(fixed8: bool, capacity: usize, key_of: stress::KeyOf, rounds: u64) {
    let make = |nodes| BTree::limited(nodes, fixed8, capacity).expect("a node");
    stress::stress(NODE_BYTES, make, key_of, rounds);
}

#[test]
fn leaves_that_split_under_a_walk_down_lose_nothing() {
    // A walk down that has read a page of a leaf finds what a split has moved from there to the right, to keys that it has not
    // come to.
    for fixed8 in [true, false] {
        let (tree, local) = make(fixed8, capacity(fixed8));
        let many = capacity(fixed8) as u64 - 1;
        (0..many).for_each(|n| insert(&tree, &local, &key(fixed8, n << 32), 1));
        local.enter();
        let mut page = Page::default();
        // SAFETY: inside an epoch, and there is no key to live.
        let mut walk = unsafe { tree.walk(Bound::Unbounded, true, &mut page) };
        let mut next = |walk: &mut _| {
            // SAFETY: as above; this is the walk's page.
            let paged = unsafe { tree.next_page(walk, &mut page, &mut Never) };
            (paged == Paged::Page).then(|| page.ids[..page.len].iter().filter(|id| id.0 == 1).count())
        };
        let read = next(&mut walk).expect("a page") as u64;
        ((many - read + 1)..many).for_each(|n| remove(&tree, &local, &key(fixed8, n << 32), 1));
        (1..=many).for_each(|n| insert(&tree, &local, &key(fixed8, n), 2));
        let found: usize = std::iter::from_fn(|| next(&mut walk)).sum();
        local.leave();
        assert_eq!(found as u64, many - read, "eight bytes: {fixed8}");
    }
}

#[test]
fn threads_on_eight_bytes() {
    // Threads inserting, removing, looking up and walking eight-byte keys.
    stress_btree(true, SMALL, |n| n.to_be_bytes().to_vec(), 200_000);
    stress_btree(true, CAPACITY_FIXED8, |n| n.to_be_bytes().to_vec(), 200_000);
}

#[test]
fn threads_on_prefixes() {
    // The same with keys of any length, and prefixes that come and go.
    let key_of: stress::KeyOf = |n| format!("{:05}/{:012}/{}", n / 4, n / 2, n).into_bytes();
    stress_btree(false, SMALL, key_of, 100_000);
    stress_btree(false, CAPACITY_MIXED, key_of, 100_000);
}

#[test]
fn threads_insert_only() {
    // Threads that fill and split the same nodes on all levels lose no key.
    for capacity in [SMALL, CAPACITY_FIXED8] {
        stress::insert_only(NODE_BYTES, |nodes| BTree::limited(nodes, true, capacity).expect("a node"));
    }
}
