//! The test that every index must pass: random operations, compared with a `BTreeMap`.

use super::{Index, Inserted, Key, Page, Paged, Probe, RecordId};
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::suspend::{Never, Seeded, Suspend};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// What tests ask of an index beyond the contract.
pub(crate) trait Checked: Index {
    /// Panics if an invariant of the nodes does not hold. No thread is changing the index.
    fn check_structure(&self);
}

/// One operation of the model.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    RemoveOther(Vec<u8>),
    Get(Vec<u8>),
    /// Inserts or removes keys. Each is searched for behind the previous one, whether they ascend or not.
    Run(Vec<(Vec<u8>, bool)>),
    Scan {
        from: Bound<Vec<u8>>,
        reverse: bool,
        pages: usize,
    },
}

/// Makes keys of eight bytes, few enough to recur, dense or far apart, including the extremes.
pub(crate) fn keys_of_eight() -> BoxedStrategy<Vec<u8>> {
    let number = prop_oneof![
        6 => 0..200u64,
        3 => (0..200u64).prop_map(|n| n << 40),
        1 => (0..3u64).prop_map(|n| u64::MAX - n),
    ];
    number.prop_map(|n| n.to_be_bytes().to_vec()).boxed()
}

/// Makes keys that share prefixes of up to three layers, end around slice boundaries, and differ only in trailing
/// zeros.
pub(crate) fn keys_of_any_length() -> BoxedStrategy<Vec<u8>> {
    let prefix = prop_oneof![
        4 => Just(vec![]),
        2 => Just(b"8bytes..".to_vec()),
        2 => Just(b"8bytes..and more".to_vec()),
        1 => Just(b"8bytes..and more, and a third layer".to_vec()),
        1 => Just(vec![0; 8]),
        1 => Just(vec![0xff; 16]),
    ];
    let rest = prop_oneof![
        3 => vec(prop_oneof![Just(0), Just(1), Just(b'a'), Just(0xff)], 0..4),
        2 => vec(Just(0), 0..20),
        2 => (0..100u64).prop_map(|n| n.to_be_bytes()[5..].to_vec()),
        1 => (0..40u64).prop_map(|n| n.to_be_bytes().to_vec()),
        1 => (0..20u8).prop_map(|n| [vec![n; 9], vec![7; 11]].concat()),
    ];
    (prefix, rest).prop_map(|(prefix, rest)| [prefix, rest].concat()).boxed()
}

/// Makes sequences of operations on such keys.
pub(crate) fn operations(keys: BoxedStrategy<Vec<u8>>, len: usize) -> BoxedStrategy<Vec<Op>> {
    let bound = prop_oneof![
        1 => Just(Bound::Unbounded),
        4 => keys.clone().prop_map(Bound::Included),
        4 => keys.clone().prop_map(Bound::Excluded),
    ];
    let scan = (bound, any::<bool>(), 0..8usize);
    let run = (vec((keys.clone(), prop::bool::weighted(0.8)), 0..40), prop::bool::weighted(0.8)).prop_map(
        |(mut keys, is_sorted)| {
            if is_sorted {
                keys.sort();
            }
            Op::Run(keys)
        },
    );
    let op = prop_oneof![
        1 => run,
        8 => keys.clone().prop_map(Op::Insert),
        4 => keys.clone().prop_map(Op::Remove),
        1 => keys.clone().prop_map(Op::RemoveOther),
        3 => keys.prop_map(Op::Get),
        2 => scan.prop_map(|(from, reverse, pages)| Op::Scan { from, reverse, pages }),
    ];
    // Phases of growth and of shrinkage make nodes split and disappear.
    (vec(op, 0..len), any::<u8>())
        .prop_map(|(mut ops, phase)| {
            for (i, op) in ops.iter_mut().enumerate() {
                if let Op::Insert(key) = op
                    && (i / 200 + usize::from(phase)) % 3 == 2
                {
                    *op = Op::Remove(key.clone());
                }
            }
            ops
        })
        .boxed()
}

/// Runs a descent from beginning to end. Returns its last cursor too.
pub(crate) fn get<I: Index, S: Suspend>(index: &I, key: &Key, s: &mut S) -> (I::Cursor, Option<RecordId>) {
    get_from(index, index.start(key), key, s)
}

/// Runs a descent like `get`, from a cursor that has begun.
pub(super) fn get_from<I: Index, S: Suspend>(
    index: &I,
    mut cursor: I::Cursor,
    key: &Key,
    s: &mut S,
) -> (I::Cursor, Option<RecordId>) {
    loop {
        // SAFETY: the tests enter an epoch around everything, and the key is alive.
        match unsafe { index.step(&mut cursor, key, s) } {
            Probe::Suspended => {}
            Probe::Absent => return (cursor, None),
            Probe::Found(id) => return (cursor, Some(id)),
        }
    }
}

/// Returns all entries of a walk, up to a number of pages.
pub(crate) fn scan<I: Index, S: Suspend>(
    index: &I,
    from: Bound<&[u8]>,
    reverse: bool,
    pages: usize,
    s: &mut S,
) -> Vec<(Vec<u8>, RecordId)> {
    let mut page = Page::default();
    let mut found = vec![];
    let mut order = vec![];
    if let Bound::Included(key) | Bound::Excluded(key) = from {
        index.order_of(&Key::new(key), &mut order);
    }
    let key = Key::new(&order);
    let from = match from {
        Bound::Included(_) => Bound::Included(&key),
        Bound::Excluded(_) => Bound::Excluded(&key),
        Bound::Unbounded => Bound::Unbounded,
    };
    // SAFETY: the key is alive.
    let mut walk = unsafe { index.walk(from, reverse, &mut page) };
    let mut seen = 0;
    while seen < pages {
        // SAFETY: the tests enter an epoch around everything, and this is the walk's page.
        match unsafe { index.next_page(&mut walk, &mut page, s) } {
            Paged::Suspended => continue,
            Paged::End => break,
            Paged::Page => seen += 1,
        }
        assert!(page.len > 0, "a page has an entry");
        let mut begin = 0;
        for i in 0..page.len {
            let key = if page.is_fixed8 {
                page.slices[i].to_be_bytes().to_vec()
            } else {
                let end = page.ends[i] as usize;
                page.bytes[std::mem::replace(&mut begin, end)..end].to_vec()
            };
            found.push((key, page.ids[i]));
        }
    }
    found
}

/// Sorts entries in the order of ascending walks.
pub(crate) fn in_order<I: Index, T>(
    index: &I,
    entries: impl IntoIterator<Item = (Vec<u8>, T)>,
) -> Vec<(Vec<u8>, T)> {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_cached_key(|(key, _)| order_of(index, key));
    entries
}

/// Returns the bytes that order a key.
pub(crate) fn order_of<I: Index>(index: &I, key: &[u8]) -> Vec<u8> {
    let mut order = vec![];
    index.order_of(&Key::new(key), &mut order);
    order
}

/// Inserts an absent key. Here and in what follows, nothing else is done to the index meanwhile.
pub(crate) fn insert<I: Index>(index: &I, local: &Local, bytes: &[u8], id: u32) {
    assert_eq!(try_insert(index, local, bytes, id), Ok(Inserted::New));
}

/// Inserts like `insert`, and returns the answer.
pub(crate) fn try_insert<I: Index>(
    index: &I,
    local: &Local,
    bytes: &[u8],
    id: u32,
) -> Result<Inserted, OutOfMemory> {
    let key = Key::new(bytes);
    let (cursor, _) = get(index, &key, &mut Never);
    // SAFETY: no other thread uses the index, and the key is alive.
    unsafe { index.insert(local, &cursor, &key, RecordId(id)) }
}

/// Removes a key that is there with this id.
pub(crate) fn remove<I: Index>(index: &I, local: &Local, bytes: &[u8], id: u32) {
    // SAFETY: no other thread uses the index, and the key is alive.
    assert!(unsafe { index.remove(local, &Key::new(bytes), RecordId(id)) });
}

/// Returns the n-th key, of eight bytes or of more.
pub(crate) fn key(fixed8: bool, n: u64) -> Vec<u8> {
    if fixed8 { n.to_be_bytes().to_vec() } else { format!("customer/{n:020}").into_bytes() }
}

/// Lets everything that is retired be given back.
pub(crate) fn settle(local: &Local) {
    for _ in 0..200 {
        local.refresh(None);
    }
    assert_eq!(local.pending(), 0);
}

/// Runs the operations on an index and on a map. Every answer must agree, whatever the policy.
pub(crate) fn check<I: Index, S: Suspend>(index: &I, local: &Local, ops: &[Op], s: &mut S) {
    let mut model: BTreeMap<Vec<u8>, RecordId> = BTreeMap::new();
    let mut last_id = 0;
    for op in ops {
        local.enter();
        match op {
            Op::Insert(bytes) => {
                let key = Key::new(bytes);
                let (cursor, found) = get(index, &key, s);
                assert_eq!(found, model.get(bytes).copied(), "before {op:?}");
                last_id += 1;
                // SAFETY: inside an epoch, and the key is alive.
                let inserted = unsafe { index.insert(local, &cursor, &key, RecordId(last_id)) };
                let expected = match found {
                    Some(id) => Inserted::Exists(id),
                    None => Inserted::New,
                };
                assert_eq!(inserted, Ok(expected), "{op:?}");
                model.entry(bytes.clone()).or_insert(RecordId(last_id));
            }
            Op::Remove(bytes) => {
                let id = model.remove(bytes);
                // SAFETY: inside an epoch, and the key is alive.
                let removed = unsafe { index.remove(local, &Key::new(bytes), id.unwrap_or(RecordId(1))) };
                assert_eq!(removed, id.is_some(), "{op:?}");
            }
            Op::RemoveOther(bytes) => {
                // SAFETY: inside an epoch, and the key is alive.
                assert!(!unsafe { index.remove(local, &Key::new(bytes), RecordId(u32::MAX)) }, "{op:?}");
            }
            Op::Get(bytes) => {
                assert_eq!(get(index, &Key::new(bytes), s).1, model.get(bytes).copied(), "{op:?}");
            }
            Op::Run(keys) => check_run(index, local, &mut model, &mut last_id, keys, s),
            Op::Scan { from, reverse, pages } => check_scan(index, &model, from, *reverse, *pages, s),
        }
        local.leave();
        local.refresh(None);
    }
    local.enter();
    for reverse in [false, true] {
        check_scan(index, &model, &Bound::Unbounded, reverse, usize::MAX, s);
    }
    for (bytes, id) in model {
        let key = Key::new(&bytes);
        assert_eq!(get(index, &key, s).1, Some(id));
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { index.remove(local, &key, id) });
        assert_eq!(get(index, &key, s).1, None);
    }
    assert_eq!(scan(index, Bound::Unbounded, false, 1, s), vec![]);
    local.leave();
    local.refresh(None);
}

fn check_run<I: Index, S: Suspend>(
    index: &I,
    local: &Local,
    model: &mut BTreeMap<Vec<u8>, RecordId>,
    last_id: &mut u32,
    keys: &[(Vec<u8>, bool)],
    s: &mut S,
) {
    let mut behind = None;
    for (bytes, is_insert) in keys {
        let key = Key::new(bytes);
        let near = behind.as_ref().and_then(|(cursor, behind)| {
            // SAFETY: both keys are alive.
            unsafe { index.start_near(cursor, behind, &key) }
        });
        if let Some(near) = near {
            let found = get_from(index, near, &key, s).1;
            assert_eq!(found, model.get(bytes).copied(), "near: {bytes:?} in {keys:?}");
        }
        let cursor = match &behind {
            // SAFETY: both keys are alive.
            Some((cursor, behind)) => unsafe { index.start_behind(cursor, behind, &key) },
            None => index.start(&key),
        };
        let (cursor, found) = get_from(index, cursor, &key, s);
        assert_eq!(found, model.get(bytes).copied(), "{bytes:?} in {keys:?}");
        match found {
            Some(id) if !is_insert => {
                // SAFETY: inside an epoch, and the key is alive.
                assert!(unsafe { index.remove(local, &key, id) });
                model.remove(bytes);
            }
            None if *is_insert => {
                *last_id += 1;
                // SAFETY: inside an epoch, and the key is alive.
                let inserted = unsafe { index.insert(local, &cursor, &key, RecordId(*last_id)) };
                assert_eq!(inserted, Ok(Inserted::New), "{bytes:?} in {keys:?}");
                model.insert(bytes.clone(), RecordId(*last_id));
            }
            _ => {}
        }
        behind = Some((cursor, key));
    }
}

fn check_scan<I: Index, S: Suspend>(
    index: &I,
    model: &BTreeMap<Vec<u8>, RecordId>,
    from: &Bound<Vec<u8>>,
    reverse: bool,
    pages: usize,
    s: &mut S,
) {
    let bound = from.as_ref().map(Vec::as_slice);
    let found = scan(index, bound, reverse, pages, s);
    let mut expected = in_order(index, model.iter().map(|(key, id)| (key.clone(), *id)));
    let bound = bound.map(|key| order_of(index, key));
    let range = if reverse { (Bound::Unbounded, bound) } else { (bound, Bound::Unbounded) };
    expected.retain(|(key, _)| range.contains(&order_of(index, key)));
    if reverse {
        expected.reverse();
    }
    let len = if pages == usize::MAX { expected.len() } else { found.len() };
    assert_eq!(found, expected[..len], "scan from {from:?}, reverse {reverse}");
    assert!(found.len() >= pages.min(expected.len()), "a page has an entry");
}

/// Checks that a lookup takes effect after its first step, whatever has happened between its start and that step.
fn check_starts<I: Index>(index: &I, local: &Local) {
    let key = |n: u64| (n * 10).to_be_bytes();
    let found = |mut cursor: I::Cursor, key: &Key| {
        loop {
            // SAFETY: inside an epoch, and the key is alive.
            match unsafe { index.step(&mut cursor, key, &mut Never) } {
                Probe::Suspended => {}
                Probe::Absent => return None,
                Probe::Found(id) => return Some(id),
            }
        }
    };
    let last = |n: u64| get(index, &Key::new(&key(n)), &mut Never).0;
    for n in 1..300 {
        local.enter();
        let (before, bytes) = (key(n - 1), key(n));
        let (behind, key, at) = (Key::new(&before), Key::new(&bytes), last(n - 1));
        // SAFETY: the cursor is of this epoch, and the keys are alive.
        let starts = [index.start(&key), unsafe { index.start_behind(&at, &behind, &key) }];
        // SAFETY: inside an epoch, and the key is alive.
        assert_eq!(unsafe { index.insert(local, &last(n), &key, RecordId(n as u32)) }, Ok(Inserted::New));
        assert_eq!(starts.map(|start| found(start, &key)), [Some(RecordId(n as u32)); 2]);
        local.leave();
    }
    for n in 1..300 {
        local.enter();
        let bytes = key(n);
        let key = Key::new(&bytes);
        let start = index.start(&key);
        // SAFETY: inside an epoch, and the key is alive.
        assert!(unsafe { index.remove(local, &key, RecordId(n as u32)) });
        assert_eq!(found(start, &key), None);
        local.leave();
    }
}

/// Runs the test itself. `make` gives an empty index and a participant of its epochs. `after` looks at the index when
/// everything has been removed.
pub(crate) fn index_model<I: Index>(
    keys: BoxedStrategy<Vec<u8>>,
    make: impl Fn() -> (I, Local),
    after: impl Fn(&I, &Local),
) {
    let (index, local) = make();
    check_starts(&index, &local);
    after(&index, &local);
    let cases = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(cases, |(ops in operations(keys, 1200), seed in any::<u64>())| {
        let (index, local) = make();
        check(&index, &local, &ops, &mut Never);
        after(&index, &local);
        check(&index, &local, &ops, &mut Seeded::new(seed));
        after(&index, &local);
    });
}
