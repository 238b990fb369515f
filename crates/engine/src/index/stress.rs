//! The stress test that every index must pass: many threads on one tree. Keys that never leave are always found, and
//! always walked in order.

use super::model::{Checked, get, get_from, in_order, order_of, scan};
use super::{Inserted, Key, RecordId};
use crate::epoch::{Epochs, Local};
use crate::memory::{Kind, Memory, Slab};
use crate::suspend::{Never, Seeded};
use crate::sync::Arc;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const THREADS: u64 = 4;
const KEYS: u64 = 3_000;

/// Returns key `n`. Keys with `n` divisible by three stay; the others belong to thread `n / 3 % THREADS`.
pub(crate) type KeyOf = fn(u64) -> Vec<u8>;

fn stays(n: u64) -> bool {
    n.is_multiple_of(3)
}

/// Inserts and removes the thread's own keys at random, and looks at the others. A search begins where the last one has
/// ended if the same epoch is announced, even if it was left in between. A search may be in flight while another epoch
/// is announced.
fn write<I: Checked>(tree: &I, local: &Local, key_of: KeyOf, thread: u64, rounds: u64) {
    let mut random = Seeded::new(thread + 1);
    let mut s = Seeded::new(thread + 100);
    let mut present = vec![false; KEYS as usize];
    let mut last: Option<(I::Cursor, Vec<u8>, u64)> = None;
    for round in 0..rounds {
        let n = match round / 2_000 % 2 {
            0 => random.next_u64() % KEYS, // anywhere
            _ => round % KEYS,             // in a row, so that neighbors go together
        };
        let bytes = key_of(n);
        let key = Key::new(&bytes);
        local.enter();
        let near =
            last.as_ref().filter(|last| last.2 == local.announced()).and_then(|(cursor, behind, _)| {
                // SAFETY: everything that the cursor's descent could reach is there (see `ops::last_insert`), and the
                // keys are alive.
                unsafe { tree.start_near(cursor, &Key::new(behind), &key) }
            });
        let stamp = local.now();
        let (cursor, found) = get_from(tree, near.unwrap_or_else(|| tree.start(&key)), &key, &mut s);
        if round % 5 == 0 {
            local.refresh(Some(stamp));
        }
        last = Some((cursor, bytes.clone(), local.announced()));
        if stays(n) {
            assert_eq!(found, Some(RecordId(1)), "key {n} has gone");
        } else if n / 3 % THREADS == thread {
            let is_present = present[n as usize];
            assert_eq!(found, is_present.then_some(RecordId(2)), "own key {n}");
            if is_present {
                // SAFETY: inside an epoch, and the key is alive.
                assert!(unsafe { tree.remove(local, &key, RecordId(2)) });
            } else {
                // SAFETY: inside an epoch, and the key is alive.
                let inserted = unsafe { tree.insert(local, &cursor, &key, RecordId(2)) };
                assert_eq!(inserted, Ok(Inserted::New));
            }
            present[n as usize] = !is_present;
        }
        local.leave();
        if round % 16 == 0 {
            local.refresh(None);
        }
    }
    for n in (0..KEYS).filter(|n| present[*n as usize]) {
        local.enter();
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { tree.remove(local, &Key::new(&key_of(n)), RecordId(2)) }, "own key {n}");
        local.leave();
    }
}

/// Walks up and down. Keys that stay are there, in order, and no key appears twice.
fn read<I: Checked>(tree: &I, local: &Local, key_of: KeyOf, done: &AtomicBool) {
    let mut s = Seeded::new(9);
    let staying = in_order(tree, (0..KEYS).filter(|n| stays(*n)).map(|n| (key_of(n), ())));
    let mut reverse = false;
    while !done.load(Relaxed) {
        local.enter();
        let mut found = scan(tree, Bound::Unbounded, reverse, usize::MAX, &mut s);
        local.leave();
        if reverse {
            found.reverse();
        }
        let orders: Vec<_> = found.iter().map(|(key, _)| order_of(tree, key)).collect();
        assert!(orders.is_sorted_by(|a, b| a < b), "reverse {reverse}");
        let stayed = found.iter().filter(|(_, id)| *id == RecordId(1)).map(|(key, _)| key);
        assert!(stayed.eq(staying.iter().map(|(key, ())| key)), "reverse {reverse}");
        local.refresh(None);
        reverse = !reverse;
    }
}

/// Makes a slab for trees of one kind.
fn slab(memory: &Arc<Memory>, node_bytes: usize) -> Arc<Slab> {
    Arc::new(Slab::reserve(memory, Kind::Index, node_bytes, 1 << 19).expect("addresses"))
}

/// Runs threads that insert, remove, look up and walk. Each writer does so `rounds` times.
pub(crate) fn stress<I: Checked>(
    node_bytes: usize,
    make: impl Fn(Arc<Slab>) -> I,
    key_of: KeyOf,
    rounds: u64,
) {
    let memory = Memory::new(1 << 30);
    let nodes = slab(&memory, node_bytes);
    let epochs = Epochs::new();
    let local = Local::new(&epochs, &memory);
    let tree = make(nodes.clone());
    for n in (0..KEYS).filter(|n| stays(*n)) {
        let bytes = key_of(n);
        let key = Key::new(&bytes);
        local.enter();
        let (cursor, _) = get(&tree, &key, &mut Never);
        // SAFETY: inside an epoch, and the key is alive.
        assert_eq!(unsafe { tree.insert(&local, &cursor, &key, RecordId(1)) }, Ok(Inserted::New));
        local.leave();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (tree, epochs, memory) = (&tree, &epochs, &memory);
                scope.spawn(move || write(tree, &Local::new(epochs, memory), key_of, thread, rounds))
            })
            .collect();
        scope.spawn(|| read(&tree, &Local::new(&epochs, &memory), key_of, &done));
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.expect("a writer's assertions hold"));
    });
    tree.check_structure();
    for n in (0..KEYS).filter(|n| stays(*n)) {
        local.enter();
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { tree.remove(&local, &Key::new(&key_of(n)), RecordId(1)) });
        local.leave();
    }
    for _ in 0..100 {
        local.refresh(None);
    }
    assert!(nodes.used() < 10, "{} nodes stay", nodes.used());
}

/// Checks that threads that fill and split the same nodes on all levels lose no key. `make` gives a tree of eight-byte
/// keys.
pub(crate) fn insert_only<I: Checked>(node_bytes: usize, make: impl Fn(Arc<Slab>) -> I) {
    let memory = Memory::new(1 << 30);
    let tree = make(slab(&memory, node_bytes));
    let epochs = Epochs::new();
    let count = 200_000u64;
    let key_of = |n: u64| Key::from_u64((n % 8) << 40 | n); // eight places where keys ascend
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tree, local) = (&tree, Local::new(&epochs, &memory));
            scope.spawn(move || {
                local.enter();
                for n in (0..count).filter(|n| n / 8 % THREADS == thread) {
                    let (cursor, found) = get(tree, &key_of(n), &mut Never);
                    assert_eq!(found, None);
                    // SAFETY: inside an epoch, and the key has no bytes elsewhere.
                    let result = unsafe { tree.insert(&local, &cursor, &key_of(n), RecordId(n as u32 + 1)) };
                    assert_eq!(result, Ok(Inserted::New));
                }
                local.leave();
            });
        }
    });
    tree.check_structure();
    for n in 0..count {
        assert_eq!(get(&tree, &key_of(n), &mut Never).1, Some(RecordId(n as u32 + 1)));
    }
}
