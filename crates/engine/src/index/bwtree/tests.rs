//! The index's model test on the Bw-tree, and tests of what only the Bw-tree promises. Trees of four entries in a base
//! and two records beside it meet everything that happens between nodes. Trees of full nodes meet everything that
//! happens within a node.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{
    Checked, get, index_model, insert, key, keys_of_any_length, keys_of_eight, remove, scan, settle,
    try_insert,
};
use crate::index::{stress, tree_tests};
use crate::memory::{Kind, Memory};
use crate::suspend::{Never, Seeded};

const SMALL: usize = 4;

fn capacity(is_fixed8: bool) -> usize {
    if is_fixed8 { CAPACITY_FIXED8 } else { CAPACITY_MIXED }
}

fn slots(capacity: usize) -> usize {
    if capacity == SMALL { 2 } else { SLOTS_MAX }
}

fn make(is_fixed8: bool, capacity: usize) -> (BwTree, Local) {
    let memory = Memory::new(1 << 30);
    let map = Slab::reserve(&memory, Kind::Index, NODE_BYTES, 1 << 18).expect("addresses");
    let local = Local::new(&Epochs::new(), &memory);
    let tree = BwTree::limited(Arc::new(map), is_fixed8, capacity, slots(capacity)).expect("an entry");
    (tree, local)
}

/// Returns the nodes in use when everything that is retired has been given back.
fn nodes_used(tree: &BwTree, local: &Local) -> u64 {
    settle(local);
    tree.map.used()
}

/// Checks that an empty tree keeps only the root, which is a leaf.
fn one_node(tree: &BwTree, local: &Local) {
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
    // Proves that keys inserted in ascending order leave full nodes behind.
    for is_fixed8 in [true, false] {
        let (tree, local) = make(is_fixed8, capacity(is_fixed8));
        for n in 0..100_000 {
            insert(&tree, &local, &key(is_fixed8, n), 1);
        }
        tree.check_structure();
        let full = 100_000.0 / capacity(is_fixed8) as f64;
        let used = nodes_used(&tree, &local) as f64;
        assert!(used < full * 1.15, "{used} of {full}");
    }
}

#[test]
fn shared_tests() {
    // Proves what `tree_tests` asks of trees with a capacity.
    for (is_fixed8, capacity) in
        [(true, SMALL), (true, CAPACITY_FIXED8), (false, SMALL), (false, CAPACITY_MIXED)]
    {
        tree_tests::sliding_window(make(is_fixed8, capacity), is_fixed8, capacity, |tree| tree.map.used());
        tree_tests::random_removal(make(is_fixed8, capacity), is_fixed8);
    }
    let made = make(false, CAPACITY_MIXED);
    tree_tests::long_keys(&made);
    one_node(&made.0, &made.1);
}

/// Inserts random keys until an insertion is refused. Returns the keys.
fn insert_until_refused(tree: &BwTree, local: &Local, random: &mut Seeded) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![];
    loop {
        let bytes = key(tree.is_fixed8, random.next_u64() >> 3);
        match try_insert(tree, local, &bytes, 1) {
            Ok(inserted) => assert_eq!(inserted, Inserted::New),
            Err(OutOfMemory) => {
                assert_eq!(get(tree, &Key::new(&bytes), &mut Never).1, None);
                return keys;
            }
        }
        keys.push(bytes);
        local.refresh(None);
    }
}

#[test]
fn out_of_memory_changes_nothing() {
    // Proves that a refused insertion, of an id, a block or a key's object, leaves all other keys in place; that
    // removal still works, and lets insertion work again; and that all memory comes back.
    for (is_fixed8, limit_bytes, nodes_max) in
        [(true, 1 << 30, 300), (false, 1 << 30, 300), (true, 1 << 20, 1 << 16), (false, 1 << 20, 1 << 16)]
    {
        let memory = Memory::new(limit_bytes);
        let slab = Slab::reserve(&memory, Kind::Index, NODE_BYTES, nodes_max).expect("addresses");
        let (map, local) = (Arc::new(slab), Local::new(&Epochs::new(), &memory));
        let tree = BwTree::new(map.clone(), is_fixed8).expect("an entry");
        let mut random = Seeded::new(5);
        let mut keys = insert_until_refused(&tree, &local, &mut random);
        tree.check_structure();
        keys.sort();
        let found = scan(&tree, Bound::Unbounded, false, usize::MAX, &mut Never);
        assert!(found.iter().map(|(key, _)| key).eq(&keys), "after {} keys", keys.len());
        for bytes in &keys[..keys.len() / 2] {
            remove(&tree, &local, bytes, 1);
            local.refresh(None);
        }
        tree.check_structure();
        let found = scan(&tree, Bound::Unbounded, true, usize::MAX, &mut Never);
        assert!(found.iter().rev().map(|(key, _)| key).eq(&keys[keys.len() / 2..]));
        for bytes in &keys[..keys.len() / 4] {
            insert(&tree, &local, bytes, 1);
            local.refresh(None);
        }
        for bytes in keys[..keys.len() / 4].iter().chain(&keys[keys.len() / 2..]) {
            remove(&tree, &local, bytes, 1);
            local.refresh(None);
        }
        one_node(&tree, &local);
        let again = insert_until_refused(&tree, &local, &mut random).len();
        assert!(again * 10 > keys.len() * 9, "{again} keys of {}: memory is lost", keys.len());
        local.enter();
        // SAFETY: nothing else uses the tree, now or later.
        unsafe { tree.clear(&local) };
        local.leave();
        for _ in 0..200 {
            local.refresh(None);
        }
        assert_eq!((map.used(), local.pending()), (0, 0));
    }
}

#[test]
fn memory_comes_back() {
    // Proves that trees that are filled and cleared, or filled and emptied, again and again take no more memory than
    // the first one.
    for (is_fixed8, clears) in [(true, true), (false, true), (true, false), (false, false)] {
        let memory = Memory::new(1 << 30);
        let slab = Slab::reserve(&memory, Kind::Index, NODE_BYTES, 1 << 16).expect("addresses");
        let (map, local) = (Arc::new(slab), Local::new(&Epochs::new(), &memory));
        let mut first = 0;
        for round in 0..30 {
            let tree = BwTree::limited(map.clone(), is_fixed8, SMALL, 2).expect("an entry");
            for n in 0..2_000u64 {
                insert(&tree, &local, &key(is_fixed8, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1);
            }
            if !clears {
                for n in 0..2_000u64 {
                    remove(&tree, &local, &key(is_fixed8, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1);
                }
            }
            // SAFETY: nothing else uses the tree, now or later.
            unsafe { tree.clear(&local) };
            (0..200).for_each(|_| local.refresh(None));
            assert_eq!((map.used(), local.pending()), (0, 0));
            if round == 1 {
                first = memory.total_used_bytes();
            }
        }
        assert!(
            memory.total_used_bytes() <= first + first / 4,
            "{} after {first}",
            memory.total_used_bytes()
        );
    }
}

#[test]
fn walks_down_keep_what_splits_move() {
    // Proves that a walk down that has read a page of a leaf finds the keys that a split has then moved to the right
    // and that are still to come.
    for is_fixed8 in [true, false] {
        let (tree, local) = make(is_fixed8, capacity(is_fixed8));
        let many = capacity(is_fixed8) as u64 - 1;
        (0..many).for_each(|n| insert(&tree, &local, &key(is_fixed8, n << 32), 1));
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
        (1..=many).for_each(|n| insert(&tree, &local, &key(is_fixed8, n), 2));
        let found: usize = std::iter::from_fn(|| next(&mut walk)).sum();
        local.leave();
        assert_eq!(found as u64, many - read, "eight bytes: {is_fixed8}");
    }
}

#[test]
fn marks_tell_of_changes() {
    // Proves that a mark holds until a key comes or goes in its leaf, or the leaf is split or merged, and that a stamp
    // raised by then is found for each key that the leaf had or would have had.
    let (tree, local) = make(true, SMALL);
    (0..40).for_each(|n| insert(&tree, &local, &key(true, n * 10), 1));
    local.enter();
    let mut page = Page { is_marking: true, ..Page::default() };
    // SAFETY: inside an epoch, and there is no key that must be alive.
    let mut walk = unsafe { tree.walk(Bound::Unbounded, false, &mut page) };
    // SAFETY: inside an epoch, and this is the walk's page.
    while unsafe { tree.next_page(&mut walk, &mut page, &mut Never) } != Paged::End {}
    assert!(page.marks.len() > 8);
    for mark in &page.marks {
        assert!(tree.is_as_marked(mark));
        // SAFETY: inside an epoch.
        unsafe { tree.raise_stamp(mark, 7) };
    }
    let holding = |tree: &BwTree| page.marks.iter().filter(|mark| tree.is_as_marked(mark)).count();
    let all = holding(&tree);
    insert(&tree, &local, &key(true, 5), 1);
    assert_eq!(holding(&tree), all - 1);
    remove(&tree, &local, &key(true, 390), 1);
    assert!(holding(&tree) <= all - 2);
    (100..200).for_each(|n| insert(&tree, &local, &key(true, n * 2 + 1), 1));
    (0..20).for_each(|n| remove(&tree, &local, &key(true, n * 10), 1));
    tree.check_structure();
    for n in 0..400 {
        // SAFETY: inside an epoch, and the key is alive.
        assert_eq!(unsafe { tree.stamp_of(&Key::new(&key(true, n))) }, 7, "{n}");
    }
    local.leave();
}

#[test]
fn marks_tell_trees_apart() {
    // Proves that a mark does not hold again when the id of its leaf is given to a leaf of another tree, of the same
    // age.
    let memory = Memory::new(1 << 30);
    let map = Arc::new(Slab::reserve(&memory, Kind::Index, NODE_BYTES, 1 << 18).expect("addresses"));
    let local = Local::new(&Epochs::new(), &memory);
    let [one, other] = [(); 2].map(|()| BwTree::limited(map.clone(), true, SMALL, 2).expect("an entry"));
    let split = |tree: &BwTree| (0..7).for_each(|n| insert(tree, &local, &key(true, n * 10), 1));
    let marks = |tree: &BwTree| {
        local.enter();
        let mut page = Page { is_marking: true, ..Page::default() };
        // SAFETY: inside an epoch, and there is no key that must be alive.
        let mut walk = unsafe { tree.walk(Bound::Unbounded, false, &mut page) };
        // SAFETY: inside an epoch, and this is the walk's page.
        while unsafe { tree.next_page(&mut walk, &mut page, &mut Never) } != Paged::End {}
        local.leave();
        page.marks.clone()
    };
    split(&one);
    let of_one = marks(&one);
    assert!(of_one.len() > 1);
    (0..7).for_each(|n| remove(&one, &local, &key(true, n * 10), 1));
    nodes_used(&one, &local);
    // The id that was freed last is taken first. That was the root above, and the leaf comes next.
    let _third = BwTree::limited(map.clone(), true, SMALL, 2).expect("an entry");
    split(&other);
    let of_other = marks(&other);
    assert!(
        of_one.iter().any(|mark| of_other.iter().any(|new| new.node == mark.node)),
        "an id is used again"
    );
    assert!(of_one.iter().all(|mark| !other.is_as_marked(mark)));
}

fn stress_bwtree(is_fixed8: bool, capacity: usize, key_of: stress::KeyOf, rounds: u64) {
    let make = |map| BwTree::limited(map, is_fixed8, capacity, slots(capacity)).expect("an entry");
    stress::stress(NODE_BYTES, make, key_of, rounds);
}

#[test]
fn threads_on_eight_bytes() {
    // Proves that threads may insert, remove, look up and walk eight-byte keys at the same time.
    stress_bwtree(true, SMALL, |n| n.to_be_bytes().to_vec(), 200_000);
    stress_bwtree(true, CAPACITY_FIXED8, |n| n.to_be_bytes().to_vec(), 200_000);
}

#[test]
fn threads_on_prefixes() {
    // Proves the same with keys of any length, and prefixes that come and go.
    let key_of: stress::KeyOf = |n| format!("{:05}/{:012}/{}", n / 4, n / 2, n).into_bytes();
    stress_bwtree(false, SMALL, key_of, 100_000);
    stress_bwtree(false, CAPACITY_MIXED, key_of, 100_000);
}

#[test]
fn threads_insert_only() {
    // Proves that threads that fill and split the same nodes on all levels lose no key.
    for capacity in [SMALL, CAPACITY_FIXED8] {
        let make = |map| BwTree::limited(map, true, capacity, slots(capacity)).expect("an entry");
        stress::insert_only(NODE_BYTES, make);
    }
}
