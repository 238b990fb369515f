//! Models of what may meet in one node: every access of a node's word is a place where another
//! thread may go on. Each model says which keys stay; they must be found at any time and walked
//! both ways, and at the end the tree holds what the threads agree on.

use super::*;
use crate::epoch::Epochs;
use crate::index::model::{get, scan};
use crate::memory::{Kind, Memory};
use crate::suspend::Seeded;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::collections::BTreeSet;

const SCHEDULES: usize = 1_500;
/// Pages and entries live on the stack, which the model checker makes too small for them.
const STACK_BYTES: usize = 256 << 10;

/// What one thread does, in this order.
#[derive(Clone)]
enum Act {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    /// Looks all staying keys up.
    Look,
    /// Walks; true: downwards.
    Walk(bool),
}

struct Model {
    tree: Masstree,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
    staying: BTreeSet<Vec<u8>>,
}

impl Model {
    fn new(fixed8: bool, before: &[Act], threads: &[Vec<Act>]) -> Model {
        let memory = Memory::new(1 << 24);
        let nodes = Arc::new(Slab::reserve(&memory, Kind::Index, NODE_BYTES, 256).expect("addresses"));
        let tree = Masstree::searched_by(nodes, fixed8, Simd::Portable).expect("a node");
        let mut staying = inserted(before);
        let removed = removed(before.iter().chain(threads.iter().flatten()));
        staying.retain(|key| !removed.contains(key));
        let model = Model { tree, epochs: Epochs::new(), memory, staying };
        model.run(before, 1);
        model
    }

    fn run(&self, acts: &[Act], seed: u64) {
        let local = Local::new(&self.epochs, &self.memory);
        let mut s = Seeded::new(seed);
        for act in acts {
            local.enter();
            match act {
                Act::Insert(bytes) => {
                    let key = Key::new(bytes);
                    let (cursor, _) = get(&self.tree, &key, &mut s);
                    // SAFETY: inside an epoch; the key lives.
                    let result = unsafe { self.tree.insert(&local, &cursor, &key, RecordId(1)) };
                    assert_eq!(result, Ok(Inserted::New));
                }
                Act::Remove(bytes) => {
                    // SAFETY: inside an epoch; the key lives.
                    let removed = unsafe { self.tree.remove(&local, &Key::new(bytes), RecordId(1)) };
                    assert!(removed);
                }
                Act::Look => {
                    for bytes in &self.staying {
                        let found = get(&self.tree, &Key::new(bytes), &mut s).1;
                        assert_eq!(found, Some(RecordId(1)), "{bytes:?}");
                    }
                }
                Act::Walk(reverse) => {
                    let mut found = scan(&self.tree, Bound::Unbounded, *reverse, usize::MAX, &mut s);
                    if *reverse {
                        found.reverse();
                    }
                    assert!(found.is_sorted_by(|a, b| a.0 < b.0));
                    let stayed =
                        found.into_iter().map(|(key, _)| key).filter(|key| self.staying.contains(key));
                    assert!(stayed.eq(self.staying.iter().cloned()), "reverse {reverse}");
                }
            }
            local.leave();
            local.refresh(None);
        }
    }
}

fn inserted<'a>(acts: impl IntoIterator<Item = &'a Act>) -> BTreeSet<Vec<u8>> {
    let keys = acts.into_iter().filter_map(|act| match act {
        Act::Insert(key) => Some(key.clone()),
        _ => None,
    });
    keys.collect()
}

fn removed<'a>(acts: impl IntoIterator<Item = &'a Act>) -> BTreeSet<Vec<u8>> {
    let keys = acts.into_iter().filter_map(|act| match act {
        Act::Remove(key) => Some(key.clone()),
        _ => None,
    });
    keys.collect()
}

/// Runs the threads in many schedules, on a tree to which this has been done before.
fn check(fixed8: bool, before: Vec<Act>, threads: Vec<Vec<Act>>) {
    let run = move || {
        let model = Arc::new(Model::new(fixed8, &before, &threads));
        let handles: Vec<_> = threads
            .iter()
            .cloned()
            .enumerate()
            .map(|(i, acts)| {
                let model = model.clone();
                shuttle::thread::spawn(move || model.run(&acts, i as u64 + 2))
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().expect("the thread's assertions hold"));
        let mut expected = model.staying.clone();
        expected.extend(inserted(threads.iter().flatten()));
        let removed = removed(threads.iter().flatten());
        expected.retain(|key| !removed.contains(key));
        model.tree.check_structure();
        let local = Local::new(&model.epochs, &model.memory);
        local.enter();
        let found = scan(&model.tree, Bound::Unbounded, false, usize::MAX, &mut Seeded::new(1));
        assert!(found.into_iter().map(|(key, _)| key).eq(expected));
        local.leave();
    };
    let run = Arc::new(run);
    let schedulers: [Box<dyn Scheduler + Send>; 2] =
        [Box::new(RandomScheduler::new(SCHEDULES)), Box::new(PctScheduler::new(3, SCHEDULES))];
    for scheduler in schedulers {
        let run = run.clone();
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        Runner::new(scheduler, config).run(move || run());
    }
}

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn inserts(numbers: impl Iterator<Item = u64>) -> Vec<Act> {
    numbers.map(|n| Act::Insert(key(n))).collect()
}

fn removes(numbers: impl Iterator<Item = u64>) -> Vec<Act> {
    numbers.map(|n| Act::Remove(key(n))).collect()
}

/// Three full borders: 0 to 130, 140 to 270, 280 to 410.
fn three_borders() -> Vec<Act> {
    inserts((0..42).map(|n| n * 10))
}

#[test]
fn split_meets_lookup_and_walk() {
    // A border splits while its keys are looked up and walked.
    let before = inserts((0..14).map(|n| n * 10));
    check(true, before, vec![inserts(65..66), vec![Act::Look, Act::Walk(true), Act::Walk(false)]]);
}

#[test]
fn split_meets_split() {
    // Two threads fill and split the same borders.
    let before = inserts((0..14).map(|n| n * 10));
    check(true, before, vec![inserts(61..64), inserts(65..68), vec![Act::Look]]);
}

#[test]
fn removal_meets_lookup_and_walk() {
    // The middle or the first border goes while its neighbours are looked up and walked.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 12).map(|n| n * 10)));
        let last = removes((first + 12..first + 14).map(|n| n * 10));
        check(true, before.clone(), vec![last.clone(), vec![Act::Look, Act::Walk(true)]]);
        check(true, before, vec![last, vec![Act::Walk(false), Act::Walk(true)]]);
    }
}

#[test]
fn removal_meets_insertion() {
    // The middle or the first border goes while others insert into it.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 13).map(|n| n * 10)));
        let last = removes((first + 13..first + 14).map(|n| n * 10));
        let into = inserts((first..first + 2).map(|n| n * 10 + 5));
        check(true, before, vec![last, into, vec![Act::Look]]);
    }
}

#[test]
fn removal_meets_split() {
    // The middle or the first border goes while its neighbours split.
    for first in [0, 14] {
        let mut before = three_borders();
        before.extend(removes((first..first + 13).map(|n| n * 10)));
        let last = removes((first + 13..first + 14).map(|n| n * 10));
        check(true, before.clone(), vec![last.clone(), inserts(5..6), vec![Act::Look]]);
        check(true, before.clone(), vec![last.clone(), inserts(145..146), vec![Act::Walk(true)]]);
        check(true, before, vec![last, inserts(285..286), vec![Act::Walk(false)]]);
    }
}

#[test]
fn layers_come_and_go() {
    // A suffix becomes a layer, and the layer goes, while its keys are looked up and inserted.
    let insert = |text: &str| Act::Insert(text.as_bytes().to_vec());
    let remove = |text: &str| Act::Remove(text.as_bytes().to_vec());
    let mut acts =
        vec![insert("prefix 1 and less"), remove("prefix 1 and less"), remove("prefix 1 and more")];
    let others = vec![Act::Look, insert("prefix 1 xyz"), Act::Walk(true), Act::Walk(false)];
    check(false, vec![insert("a"), insert("prefix 1 and more")], vec![acts.clone(), others.clone()]);
    // The same from the moment at which the layer is about to go.
    let layer = acts.remove(0);
    check(false, vec![insert("a"), insert("prefix 1 and more"), layer], vec![acts, others]);
}
