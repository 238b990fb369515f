//! The index's model test on the B+-tree, and tests of what only the B+-tree promises. Trees of four entries in a node
//! meet everything that happens between nodes. Trees of full nodes meet everything that happens within a node.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{
    Checked, get, index_model, insert, key, keys_of_any_length, keys_of_eight, remove, scan, settle,
};
use crate::index::{stress, tree_tests};
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

/// Returns the nodes in use when everything that is retired has been given back.
fn nodes_used(tree: &BTree, local: &Local) -> u64 {
    settle(local);
    tree.nodes.used()
}

/// Checks that an empty tree keeps only the root, which is a leaf.
fn one_node(tree: &BTree, local: &Local) {
    tree.check_structure();
    assert_eq!(nodes_used(tree, local), 1);
}

#[test]
fn model_of_eight() {
    // Proves that trees of eight-byte keys behave like a BTreeMap.
    for capacity in [SMALL, CAPACITY_FIXED8] {
        index_model(keys_of_eight(), || make(true, capacity), one_node);
    }
}

#[test]
fn model_of_any_length() {
    // Proves that trees of keys of any length behave like a BTreeMap, prefixes included.
    for capacity in [SMALL, CAPACITY_MIXED] {
        index_model(keys_of_any_length(), || make(false, capacity), one_node);
    }
    index_model(keys_of_eight(), || make(false, CAPACITY_MIXED), one_node);
}

#[test]
fn ascending_keys_fill_nodes() {
    // Proves that keys inserted in ascending order leave full nodes behind, at the end and in several runs at once.
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
fn shared_tests() {
    // Proves what `tree_tests` asks of trees with a capacity.
    for (fixed8, capacity) in
        [(true, SMALL), (true, CAPACITY_FIXED8), (false, SMALL), (false, CAPACITY_MIXED)]
    {
        tree_tests::sliding_window(make(fixed8, capacity), fixed8, capacity, |tree| tree.nodes.used());
        tree_tests::random_removal(make(fixed8, capacity), fixed8);
    }
    let made = make(false, CAPACITY_MIXED);
    tree_tests::long_keys(&made);
    one_node(&made.0, &made.1);
}

#[test]
fn out_of_memory_changes_nothing() {
    // Proves that a refused insertion, of a node or of a key's object, leaves all other keys in place and works later,
    // and that all memory comes back.
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
            // SAFETY: no other thread uses the tree, and the key is alive.
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
    // Proves that a walk down that has read a page of a leaf finds the keys that a split has then moved to the right
    // and that are still to come.
    for fixed8 in [true, false] {
        let (tree, local) = make(fixed8, capacity(fixed8));
        let many = capacity(fixed8) as u64 - 1;
        (0..many).for_each(|n| insert(&tree, &local, &key(fixed8, n << 32), 1));
        local.enter();
        let mut page = Page::default();
        // SAFETY: inside an epoch, and there is no key that must be alive.
        let mut walk = unsafe { tree.walk(Bound::Unbounded, true, &mut page) };
        let mut next = |walk: &mut _| {
            // SAFETY: inside an epoch, and this is the walk's page.
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
    // Proves that threads may insert, remove, look up and walk eight-byte keys at the same time.
    stress_btree(true, SMALL, |n| n.to_be_bytes().to_vec(), 200_000);
    stress_btree(true, CAPACITY_FIXED8, |n| n.to_be_bytes().to_vec(), 200_000);
}

#[test]
fn threads_on_prefixes() {
    // Proves the same with keys of any length, and prefixes that come and go.
    let key_of: stress::KeyOf = |n| format!("{:05}/{:012}/{}", n / 4, n / 2, n).into_bytes();
    stress_btree(false, SMALL, key_of, 100_000);
    stress_btree(false, CAPACITY_MIXED, key_of, 100_000);
}

#[test]
fn threads_insert_only() {
    // Proves that threads that fill and split the same nodes on all levels lose no key.
    for capacity in [SMALL, CAPACITY_FIXED8] {
        stress::insert_only(NODE_BYTES, |nodes| BTree::limited(nodes, true, capacity).expect("a node"));
    }
}
