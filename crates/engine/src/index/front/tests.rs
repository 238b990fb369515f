//! The index's model test and stress test on trees with a front, and tests of what only a front promises.

use super::*;
use crate::epoch::{Epochs, Local};
use crate::index::model::{Checked, get, index_model, keys_of_any_length, keys_of_eight};
use crate::index::{Index, IndexKind, IndexOptions, Nodes, TableIndex, stress};
use crate::memory::{Kind, Memory};
use crate::suspend::Never;
use crate::sync::Arc;

fn index_in(memory: &Arc<Memory>, kind: IndexKind, fixed8: bool) -> TableIndex {
    let options = IndexOptions { kind, front: Front::Hash, fixed8, number: 0 };
    TableIndex::new(&Nodes::new(memory, 1 << 20), options).expect("memory for a node and some buckets")
}

fn make(kind: IndexKind, fixed8: bool) -> (TableIndex, Local) {
    let memory = Memory::new(1 << 30);
    (index_in(&memory, kind, fixed8), Local::new(&Epochs::new(), &memory))
}

fn front(index: &TableIndex) -> &HashFront {
    index.hash_front().expect("it was made with one")
}

/// Looks up a key, and inserts it.
fn insert(index: &TableIndex, local: &Local, key: &Key, id: u32) -> Result<Inserted, OutOfMemory> {
    local.enter();
    let (cursor, _) = get(index, key, &mut Never);
    // SAFETY: inside an epoch, and the key is alive.
    let inserted = unsafe { index.insert(local, &cursor, key, RecordId(id)) };
    local.leave();
    inserted
}

fn remove(index: &TableIndex, local: &Local, key: &Key, id: u32) -> bool {
    local.enter();
    // SAFETY: inside an epoch, and the key is alive.
    let removed = unsafe { index.remove(local, key, RecordId(id)) };
    local.leave();
    removed
}

fn nothing_left(index: &TableIndex, _: &Local) {
    index.check_structure();
    assert_eq!((front(index).check_structure(), front(index).keys()), (0, 0));
}

/// Proves that a tree of any kind behaves like a `BTreeMap` also with a front, whatever the lengths of keys, while the
/// front grows from its least size.
#[test]
fn model() {
    for &kind in IndexKind::ALL {
        index_model(keys_of_eight(), || make(kind, true), nothing_left);
        index_model(keys_of_any_length(), || make(kind, false), nothing_left);
    }
    // Keys of eight bytes in a table for keys of any length.
    index_model(keys_of_eight(), || make(IndexKind::default(), false), nothing_left);
}

/// Proves that many threads find keys that never leave, while others come and go, the front grows, and readers add keys
/// that it does not have.
#[test]
fn threads() {
    let short = |n: u64| n.to_be_bytes()[8 - 2 - (n % 3) as usize..].to_vec();
    for &kind in IndexKind::ALL {
        let make = |fixed8: bool| {
            move |nodes: Arc<Slab>| {
                let index = index_in(nodes.memory(), kind, fixed8);
                let first = front(&index);
                assert!(first.growth.next_at.load(Ordering::Relaxed) < 100, "it begins small");
                index
            }
        };
        stress::stress(256, make(true), |n| n.to_be_bytes().to_vec(), 20_000);
        stress::stress(256, make(false), short, 20_000);
    }
}

/// Proves that growing keeps most keys in the front at the promised size, and that lookups add the keys that did not
/// fit once there is room.
#[test]
fn most_keys_are_there() {
    const KEYS: u64 = 100_000;
    let (index, local) = make(IndexKind::default(), true);
    let key = |n: u64| Key::from_u64(n << 20);
    for n in 1..=KEYS {
        assert_eq!(insert(&index, &local, &key(n), n as u32), Ok(Inserted::New));
    }
    let front = front(&index);
    let share = || (1..=KEYS).filter(|&n| front.look_up(&key(n)).is_some()).count() as f64 / KEYS as f64;
    let before = share();
    assert!(before > 0.9, "{before}");
    assert!((1..=KEYS).all(|n| get(&index, &key(n), &mut Never).1 == Some(RecordId(n as u32))));
    index.check_structure();
    assert!(share() > 0.97, "{before}, then {}", share());
    let bytes = front.len.load(Ordering::Relaxed) * BUCKET_BYTES as u64;
    assert!((bytes as f64 / KEYS as f64) < 33.0, "{bytes} bytes");
}

/// Proves that keys that come and go do not make a front grow: only more keys do.
#[test]
fn churn_does_not_grow() {
    let (index, local) = make(IndexKind::default(), true);
    for n in 1..=100_000u64 {
        assert_eq!(insert(&index, &local, &Key::from_u64(n), 7), Ok(Inserted::New));
        if n > 100 {
            assert!(remove(&index, &local, &Key::from_u64(n - 100), 7));
        }
        local.refresh(None);
    }
    index.check_structure();
    assert!(front(&index).len.load(Ordering::Relaxed) <= 101 / LOAD + 2);
}

/// Proves that a front stops growing at the memory limit while inserts go on, that it grows again when there is memory,
/// and that it gives its memory back when it is dropped.
#[test]
fn limit() {
    let memory = Memory::new(1 << 20);
    let taken = memory.limit_bytes() - (128 << 10);
    memory.charge(Kind::Other, taken).expect("there is as much");
    let slab = Slab::reserve(&memory, Kind::Index, BUCKET_BYTES, 1 << 20).expect("addresses");
    let front = HashFront::new(slab).expect("memory for some buckets");
    let insert = |n: u64| {
        let inserted = front.insert(&Key::from_u64(n), RecordId(n as u32 + 1), || Ok(Inserted::New));
        assert_eq!(inserted, Ok(Inserted::New));
    };
    let check = |keys: u64| {
        let is_there = |n: &u64| {
            let id = front.look_up(&Key::from_u64(*n));
            assert!(id.is_none_or(|id| id == RecordId(*n as u32 + 1)));
            id.is_some()
        };
        assert_eq!(front.check_structure(), (0..keys).filter(is_there).count() as u64);
        front.len.load(Ordering::Relaxed)
    };
    (0..20_000).for_each(insert);
    let full = check(20_000);
    assert!(full > 1000 && full < 2048, "{full} buckets");

    memory.release(Kind::Other, taken);
    (20_000..25_000).for_each(insert);
    assert!(check(25_000) > full + 3000);
    drop(front);
    assert_eq!(memory.total_used_bytes(), 0);
}

/// Proves that a record that was inserted again is found only under its new id, and that a removal of another id
/// changes nothing.
#[test]
fn ids_change() {
    let (index, local) = make(IndexKind::default(), true);
    let key = Key::from_u64(77);
    for id in 1..100 {
        assert_eq!(insert(&index, &local, &key, id), Ok(Inserted::New));
        assert_eq!(insert(&index, &local, &key, id + 1), Ok(Inserted::Exists(RecordId(id))));
        assert!(!remove(&index, &local, &key, id + 1));
        assert_eq!(front(&index).look_up(&key), Some(RecordId(id)));
        assert!(remove(&index, &local, &key, id));
        assert_eq!(front(&index).look_up(&key), None);
    }
}
