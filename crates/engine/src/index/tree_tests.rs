//! Tests of trees whose nodes have a capacity, whatever is in the nodes: how many nodes there are, and that neighbors
//! stay.

use super::model::{Checked, get, insert, key, remove, scan};
use super::{Key, RecordId};
use crate::epoch::Local;
use crate::suspend::{Never, Seeded};
use std::ops::Bound;

/// Checks that nodes do not pile up when keys are inserted first in, first out, in either direction. `used` returns the
/// number of nodes.
pub(super) fn sliding_window<I: Checked>(
    (tree, local): (I, Local),
    fixed8: bool,
    capacity: usize,
    used: impl Fn(&I) -> u64,
) {
    for ascending in [true, false] {
        let key = |n: u64| key(fixed8, if ascending { n } else { u64::MAX - n });
        let mut most = 0;
        for n in 0..40_000 {
            insert(&tree, &local, &key(n), 1);
            if n >= 1000 {
                remove(&tree, &local, &key(n - 1000), 1);
            }
            local.refresh(None);
            most = most.max(used(&tree));
        }
        tree.check_structure();
        assert!(most < 5000 / capacity as u64, "{most} nodes of {capacity} for 1000 keys");
        (39_000..40_000).for_each(|n| remove(&tree, &local, &key(n), 1));
    }
}

/// Checks that keys that stay are found and walked in order while others come and go at random.
pub(super) fn random_removal<I: Checked>((tree, local): (I, Local), fixed8: bool) {
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

/// Checks keys far longer than a kilobyte that differ only in the last byte, their prefixes, and the longest possible
/// keys.
pub(super) fn long_keys<I: Checked>((tree, local): &(I, Local)) {
    let base = vec![7u8; 65_535];
    let keys: Vec<Vec<u8>> = (0..50u8)
        .map(|n| [&base[..5_000], &[n]].concat())
        .chain((0..5_000).step_by(7).map(|len| base[..len].to_vec()))
        .chain((0..50).map(|n| [&base[..65_534], &[n]].concat()))
        .collect();
    for (i, key) in keys.iter().enumerate() {
        insert(tree, local, key, i as u32 + 1);
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(get(tree, &Key::new(key), &mut Never).1, Some(RecordId(i as u32 + 1)));
    }
    tree.check_structure();
    let found = scan(tree, Bound::Unbounded, true, usize::MAX, &mut Never);
    assert_eq!(found.len(), keys.len());
    assert!(found.is_sorted_by(|a, b| a.0 > b.0));
    for (i, key) in keys.iter().enumerate() {
        remove(tree, local, key, i as u32 + 1);
    }
}
