//! The index's model test on Masstree, and tests of what only Masstree promises.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{Checked, get, index_model, keys_of_any_length, keys_of_eight, scan, settle};
use crate::index::stress;
use crate::memory::{Kind, Memory};
use crate::suspend::Never;

fn make(fixed8: bool, simd: Simd) -> (Masstree, Local) {
    let memory = Memory::new(1 << 30);
    let nodes = Slab::reserve(&memory, Kind::Index, NODE_BYTES, 1 << 16).expect("addresses");
    let local = Local::new(&Epochs::new(), &memory);
    (Masstree::searched_by(Arc::new(nodes), fixed8, simd).expect("a node"), local)
}

fn key8(n: u64) -> Key {
    Key::from_u64(n)
}

fn insert(tree: &Masstree, local: &Local, key: &Key, id: u32) {
    let (cursor, _) = get(tree, key, &mut Never);
    // SAFETY: no other thread uses the tree, and the key is alive.
    assert_eq!(unsafe { tree.insert(local, &cursor, key, RecordId(id)) }, Ok(Inserted::New));
}

fn remove(tree: &Masstree, local: &Local, key: &Key, id: u32) {
    // SAFETY: no other thread uses the tree, and the key is alive.
    assert!(unsafe { tree.remove(local, key, RecordId(id)) });
}

/// Returns the nodes in use when everything that is retired has been given back.
fn nodes_used(tree: &Masstree, local: &Local) -> u64 {
    settle(local);
    tree.nodes.used()
}

/// Checks that an empty tree keeps only one node for each level that it once had.
fn few_nodes(tree: &Masstree, local: &Local) {
    tree.check_structure();
    assert!(nodes_used(tree, local) <= 4);
}

#[test]
fn model_of_eight() {
    // Proves that trees of eight-byte keys behave like a BTreeMap, whatever searches the nodes.
    for simd in [Simd::Detect, Simd::Avx2, Simd::Portable] {
        index_model(keys_of_eight(), || make(true, simd), few_nodes);
    }
}

#[test]
fn model_of_any_length() {
    // Proves that trees of keys of any length behave like a BTreeMap, layers included.
    index_model(keys_of_any_length(), || make(false, Simd::Detect), few_nodes);
    index_model(keys_of_eight(), || make(false, Simd::Detect), few_nodes);
}

#[test]
fn ascending_keys_fill_nodes() {
    // Proves that keys inserted in ascending order leave full borders and full interiors behind.
    let (tree, local) = make(true, Simd::Detect);
    for n in 0..100_000 {
        insert(&tree, &local, &key8(n), 1);
    }
    tree.check_structure();
    let borders = 100_000f64 / 14.0;
    assert!((nodes_used(&tree, &local) as f64) < borders * 1.08, "{}", nodes_used(&tree, &local));
}

#[test]
fn ascending_runs_fill_nodes() {
    // The same holds for keys that ascend in several runs at once, both if each search begins behind the previous key
    // and if the tree has to see it by itself.
    for (fixed8, is_known) in [(true, true), (false, true), (true, false)] {
        let (tree, local) = make(fixed8, Simd::Detect);
        let mut last: Vec<Option<(Cursor, Vec<u8>)>> = vec![None; 10];
        for n in 0..10_000u64 {
            for (run, last) in (0..).zip(&mut last) {
                let number = (run << 32) + n;
                let bytes =
                    if fixed8 { number.to_be_bytes().to_vec() } else { format!("{number:020}").into() };
                let key = Key::new(&bytes);
                let mut cursor = match last {
                    // SAFETY: both keys are alive.
                    Some((cursor, behind)) if is_known => unsafe {
                        tree.start_behind(cursor, &Key::new(behind), &key)
                    },
                    _ => tree.start(&key),
                };
                // SAFETY: no other thread uses the tree, and the key is alive.
                assert_eq!(unsafe { tree.step(&mut cursor, &key, &mut Never) }, Probe::Absent);
                // SAFETY: no other thread uses the tree, and the key is alive.
                assert_eq!(unsafe { tree.insert(&local, &cursor, &key, RecordId(1)) }, Ok(Inserted::New));
                *last = Some((cursor, bytes));
            }
        }
        tree.check_structure();
        // With keys of twenty digits, ten at a time have a layer of their own half-way.
        let most = if fixed8 { 100_000.0 / 14.0 * 1.2 } else { 100_000.0 / 10.0 * 1.3 };
        assert!((nodes_used(&tree, &local) as f64) < most, "{}", nodes_used(&tree, &local));
    }
}

#[test]
fn sliding_window_keeps_its_size() {
    // Proves that nodes do not pile up when keys go first in, first out, in either direction.
    for ascending in [true, false] {
        for fixed8 in [true, false] {
            let (tree, local) = make(fixed8, Simd::Detect);
            let key = |n: u64| key8(if ascending { n } else { u64::MAX - n });
            let mut most = 0;
            for n in 0..60_000 {
                insert(&tree, &local, &key(n), 1);
                if n >= 1000 {
                    remove(&tree, &local, &key(n - 1000), 1);
                }
                local.refresh(None);
                most = most.max(tree.nodes.used());
            }
            assert!(most < 300, "{most} nodes for 1000 keys");
        }
    }
}

#[test]
fn random_removal_keeps_neighbours() {
    // Proves that keys that stay are found and walked in order while others come and go at random.
    let (tree, local) = make(true, Simd::Detect);
    let mut random = crate::suspend::Seeded::new(3);
    for n in 0..5_000 {
        insert(&tree, &local, &key8(n * 3), 1);
    }
    let mut present = vec![false; 15_000];
    for _ in 0..60_000 {
        let n = random.next_u64() % 15_000;
        match (n % 3, std::mem::replace(&mut present[n as usize], !n.is_multiple_of(3))) {
            (0, _) => assert_eq!(get(&tree, &key8(n), &mut Never).1, Some(RecordId(1))),
            (_, false) => insert(&tree, &local, &key8(n), 2),
            (_, true) => {
                remove(&tree, &local, &key8(n), 2);
                present[n as usize] = false;
            }
        }
    }
    tree.check_structure();
    let found: Vec<_> = scan(&tree, Bound::Unbounded, false, usize::MAX, &mut Never);
    let expected = (0..15_000u64).filter(|&n| n % 3 == 0 || present[n as usize]);
    assert!(found.iter().map(|(key, _)| key.clone()).eq(expected.map(|n| n.to_be_bytes().to_vec())));
}

#[test]
fn long_keys_share_long_prefixes() {
    // Proves that keys far longer than a kilobyte that differ only in the last byte are told apart, and their prefixes
    // too.
    let (tree, local) = make(false, Simd::Detect);
    let base = vec![7u8; 5_000];
    let keys: Vec<Vec<u8>> = (0..50u8)
        .map(|n| [&base[..], &[n]].concat())
        .chain((0..5_000).step_by(7).map(|len| base[..len].to_vec()))
        .collect();
    for (i, key) in keys.iter().enumerate() {
        insert(&tree, &local, &Key::new(key), i as u32 + 1);
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(get(&tree, &Key::new(key), &mut Never).1, Some(RecordId(i as u32 + 1)));
    }
    tree.check_structure();
    let found = scan(&tree, Bound::Unbounded, true, usize::MAX, &mut Never);
    assert_eq!(found.len(), keys.len());
    assert!(found.is_sorted_by(|a, b| a.0 > b.0));
    for (i, key) in keys.iter().enumerate() {
        remove(&tree, &local, &Key::new(key), i as u32 + 1);
    }
    few_nodes(&tree, &local);
}

#[test]
fn out_of_memory_changes_nothing() {
    // Proves that a refused insertion leaves all other keys in place, and works later.
    let memory = Memory::new(1 << 30);
    let nodes = Arc::new(Slab::reserve(&memory, Kind::Index, NODE_BYTES, 600).expect("addresses"));
    let local = Local::new(&Epochs::new(), &memory);
    for fixed8 in [true, false] {
        let tree = Masstree::searched_by(nodes.clone(), fixed8, Simd::Detect).expect("a node");
        let mut random = crate::suspend::Seeded::new(5);
        let mut keys: Vec<Vec<u8>> = vec![];
        loop {
            let (shared, n) = (random.next_u64() % 8, random.next_u64());
            let bytes =
                if fixed8 { n.to_be_bytes().to_vec() } else { format!("{shared:08}{n}").into_bytes() };
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
        keys.sort();
        let found = scan(&tree, Bound::Unbounded, false, usize::MAX, &mut Never);
        assert!(found.iter().map(|(key, _)| key).eq(&keys), "after {} keys", keys.len());
        // SAFETY: nothing else uses the tree, now or later.
        unsafe { tree.clear(&local) };
        for _ in 0..100 {
            local.refresh(None);
        }
        assert_eq!(nodes.used(), 0);
    }
}

fn stress_masstree(fixed8: bool, key_of: stress::KeyOf, rounds: u64) {
    stress::stress(NODE_BYTES, |nodes| Masstree::new(nodes, fixed8).expect("a node"), key_of, rounds);
}

#[test]
fn threads_on_eight_bytes() {
    // Proves that threads may insert, remove, look up and walk eight-byte keys at the same time.
    stress_masstree(true, |n| n.to_be_bytes().to_vec(), 400_000);
}

#[test]
fn threads_on_layers() {
    // Proves the same with suffixes, and with layers that come and go.
    stress_masstree(false, |n| format!("{:05}/{:012}/{}", n / 4, n / 2, n).into_bytes(), 200_000);
}

#[test]
fn threads_on_one_layer() {
    // Proves the same with inline keys and many borders within one layer.
    stress_masstree(false, |n| format!("8 bytes.{n:06}").into_bytes(), 200_000);
}

#[test]
fn threads_insert_only() {
    // Proves that threads that fill and split the same nodes on all levels lose no key.
    stress::insert_only(NODE_BYTES, |nodes| Masstree::new(nodes, true).expect("a node"));
}
