//! Nodes under weak memory. What readers take for a state of a node was one, and what it leads to is whole.

use super::border::{Entry, Shape};
use super::node::{Find8, Head, Latched, Node};
use super::search::Simd;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::loom::{Planted, check};
use loom::thread;
use std::ptr::null_mut;

const SHAPE: Shape = Shape { simd: Simd::Portable, fixed8: true };

fn entry(key: u64) -> Entry {
    Entry { slice: key, code: 8, rid: record_of(key), suffix: null_mut() }
}

fn record_of(key: u64) -> u32 {
    key as u32 * 10
}

/// Makes a border of eight-byte keys with these keys in it.
fn border(keys: &[u64]) -> Node {
    let node = Node::unused();
    let mut head = node.clear(0, Head::INFINITE | Head::LEFTMOST);
    let entries: Vec<Entry> = keys.iter().copied().map(entry).collect();
    head.set_live(node.fill(SHAPE, &entries));
    node.set_head(head);
    node
}

fn insert(node: &Node, key: u64) {
    Latched::lock(node, 1).insert_entry(SHAPE, &entry(key));
}

/// Proves that a reader that finds a key that has just been inserted finds the key's own record, written.
#[test]
fn insertions_publish() {
    check("node insertion", &[Planted::Stores], || {
        let model = Arc::new((border(&[3]), AtomicU64::new(0)));
        let reader = thread::spawn({
            let model = Arc::clone(&model);
            move || {
                if let Find8::Found(id) = model.0.find8(Simd::Portable, 5) {
                    assert_eq!((id, model.1.load(Ordering::Relaxed)), (record_of(5), 1));
                }
            }
        });
        model.1.store(1, Ordering::Relaxed);
        insert(&model.0, 5);
        reader.join().expect("no panic");
    });
}

/// Proves that a slot that is given up and used again for another key never leads a reader of the one key to the
/// other's record.
#[test]
fn slots_are_used_again() {
    check("node slot used again", &[Planted::Fences], || {
        let node = Arc::new(border(&[3]));
        let writer = thread::spawn({
            let node = Arc::clone(&node);
            move || {
                Latched::lock(&node, 1).remove_entry(0);
                insert(&node, 5);
            }
        });
        match node.find8(Simd::Portable, 3) {
            Find8::Found(id) => assert_eq!(id, record_of(3)),
            Find8::Absent | Find8::Unstable => {}
        }
        writer.join().expect("no panic");
        assert_eq!(node.find8(Simd::Portable, 5), Find8::Found(record_of(5)));
    });
}

/// Proves that a walk copies entries in order, each key with its own record, or finds that it has not done so.
#[test]
fn walks_meet_changes() {
    check("node walk", &[Planted::Fences], || {
        let node = Arc::new(border(&[3, 5]));
        let writer = thread::spawn({
            let node = Arc::clone(&node);
            move || {
                let mut border = Latched::lock(&node, 1);
                border.change();
                let live = node.fill(SHAPE, &[entry(4), entry(6)]);
                border.head.set_live(live);
            }
        });
        let head = node.head();
        if !head.is_unstable() {
            let order = node.permutation();
            let slots = (0..order.len()).map(|place| order.slot(place)).filter(|&slot| head.is_live(slot));
            let found: Vec<(u64, u32)> = slots.map(|slot| (node.key(slot), node.rid(slot))).collect();
            if node.is_still(head) {
                assert!(found == [(3, 30), (5, 50)] || found == [(4, 40), (6, 60)], "{found:?}");
            }
        }
        writer.join().expect("no panic");
    });
}

/// Proves that a stamp raised while a node gives its keys away goes with the keys, or the thread that raised it finds
/// the node changed.
#[test]
fn stamps_go_along() {
    const STAMP: u64 = 77;
    check("node stamp", &[Planted::Fences], || {
        let (left, right) = (Arc::new(border(&[3])), Arc::new(border(&[])));
        let splitter = thread::spawn({
            let (left, right) = (Arc::clone(&left), Arc::clone(&right));
            move || {
                let mut border = Latched::lock(&left, 1);
                border.change();
                right.carry_stamp(&left);
                let live = left.fill(SHAPE, &[]);
                border.head.set_live(live);
            }
        });
        let mark = left.head().mark();
        let is_whole = !left.head().is_unstable();
        left.raise_stamp(STAMP);
        fence(Ordering::SeqCst); // as in `publish_ranges`
        let is_as_marked = left.head().mark() == mark;
        splitter.join().expect("no panic");
        if is_whole && is_as_marked {
            let was_changed = left.head().mark() != mark;
            assert!(!was_changed || right.stamp() == STAMP, "the stamp is lost");
        }
    });
}

/// Proves that the checker knows weak memory: two threads that each write one word and read the other's may both read
/// the old one, unless there are fences in between.
#[test]
fn store_buffers() {
    check("store buffers", &[Planted::Fences], || {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let other = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                words[0].store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                words[1].load(Ordering::Relaxed)
            }
        });
        words[1].store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let seen = words[0].load(Ordering::Relaxed);
        assert!(seen + other.join().expect("no panic") > 0);
    });
}
