//! Models of threads that meet in the nodes of an index: another thread may go on at every access of a node's word.
//! Each model says which keys stay. These must be found at any time and walked in both directions. At the end, the tree
//! holds what the threads agree on.

use super::model::{Checked, get, order_of, scan};
use super::{Inserted, Key, Page, Paged, RecordId};
use crate::epoch::{Epochs, Local};
use crate::memory::{Kind, Memory, Slab};
use crate::suspend::Seeded;
use crate::sync::{Arc, schedules};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::collections::BTreeSet;
use std::ops::Bound;

/// The number of schedules of each scheduler.
const SCHEDULES: usize = 600;
/// The bytes of a stack. Pages and entries live on it, and the model checker makes it too small for them.
const STACK_BYTES: usize = 256 << 10;

/// An act of a thread. Each thread does a list of them, in order.
#[derive(Clone)]
pub(crate) enum Act {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    /// Looks up all staying keys.
    Look,
    /// Walks, downwards if true.
    Walk(bool),
}

/// Makes an empty index.
pub(crate) type Make<I> = fn(&Arc<Memory>) -> I;

/// Makes a slab for the nodes of one index.
pub(crate) fn slab(memory: &Arc<Memory>, node_bytes: usize) -> Arc<Slab> {
    Arc::new(Slab::reserve(memory, Kind::Index, node_bytes, 256).expect("addresses"))
}

struct Model<I> {
    tree: I,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
    staying: BTreeSet<Vec<u8>>,
}

impl<I: Checked> Model<I> {
    fn new(make: Make<I>, before: &[Act], threads: &[Vec<Act>]) -> Model<I> {
        let memory = Memory::new(1 << 24);
        let tree = make(&memory);
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
                    // SAFETY: inside an epoch, and the key is alive.
                    let result = unsafe { self.tree.insert(&local, &cursor, &key, RecordId(1)) };
                    assert_eq!(result, Ok(Inserted::New));
                }
                Act::Remove(bytes) => {
                    // SAFETY: inside an epoch, and the key is alive.
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
                    let orders: Vec<_> = found.iter().map(|(key, _)| order_of(&self.tree, key)).collect();
                    assert!(orders.is_sorted_by(|a, b| a < b));
                    let stayed: BTreeSet<_> = found
                        .into_iter()
                        .map(|(key, _)| key)
                        .filter(|key| self.staying.contains(key))
                        .collect();
                    assert!(stayed == self.staying, "reverse {reverse}");
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

/// Runs the threads in many schedules, on a tree prepared by `before`.
pub(crate) fn check<I: Checked + 'static>(make: Make<I>, before: Vec<Act>, threads: Vec<Vec<Act>>) {
    let run = move || {
        let model = Arc::new(Model::new(make, &before, &threads));
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
        assert!(found.into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>() == expected);
        local.leave();
    };
    in_many_schedules(run);
}

/// The stamp that a reader leaves.
const STAMP: u64 = 77;

/// Runs a reader that walks and leaves its stamp wherever it came, while another thread does its acts. If the reader
/// finds everything unchanged, the stamp is there for each of these keys, whether or not the tree has the key, and
/// whatever happens to the nodes.
pub(crate) fn check_stamps<I: Checked + 'static>(
    make: Make<I>,
    before: Vec<Act>,
    acts: Vec<Act>,
    keys: Vec<Vec<u8>>,
) {
    check_stamps_from(make, before, vec![acts], Bound::Unbounded, keys);
}

/// Runs the same with any number of other threads, and with a reader that walks from a key on. No key of the check is
/// below that key.
pub(crate) fn check_stamps_from<I: Checked + 'static>(
    make: Make<I>,
    before: Vec<Act>,
    threads: Vec<Vec<Act>>,
    from: Bound<Vec<u8>>,
    keys: Vec<Vec<u8>>,
) {
    in_many_schedules(move || {
        let model = Arc::new(Model::new(make, &before, &threads));
        let others: Vec<_> = (2..)
            .zip(&threads)
            .map(|(seed, acts)| {
                let (model, acts) = (model.clone(), acts.clone());
                shuttle::thread::spawn(move || model.run(&acts, seed))
            })
            .collect();
        let local = Local::new(&model.epochs, &model.memory);
        local.enter();
        let mut page = Page { is_marking: true, ..Page::default() };
        let from = from.as_ref().map(|bytes| Key::new(bytes));
        // SAFETY: the bound is alive.
        let mut walk = unsafe { model.tree.walk(from.as_ref(), false, &mut page) };
        // SAFETY: inside an epoch, and this is the walk's page.
        while unsafe { model.tree.next_page(&mut walk, &mut page, &mut Seeded::new(1)) } != Paged::End {}
        for mark in &page.marks {
            // SAFETY: inside an epoch.
            unsafe { model.tree.raise_stamp(mark, STAMP) };
        }
        let is_as_marked = page.marks.iter().all(|mark| model.tree.is_as_marked(mark));
        local.leave();
        others.into_iter().for_each(|other| other.join().expect("the thread's assertions hold"));
        local.enter();
        for bytes in &keys {
            // SAFETY: inside an epoch, and the key is alive.
            let stamp = unsafe { model.tree.stamp_of(&Key::new(bytes)) };
            assert!(!is_as_marked || stamp >= STAMP, "the stamp is lost for {bytes:?}");
        }
        local.leave();
    });
}

fn in_many_schedules(run: impl Fn() + Send + Sync + 'static) {
    let run = Arc::new(run);
    let schedulers: [Box<dyn Scheduler + Send>; 2] = [
        Box::new(RandomScheduler::new(schedules(SCHEDULES))),
        Box::new(PctScheduler::new(3, schedules(SCHEDULES))),
    ];
    for scheduler in schedulers {
        let run = run.clone();
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        Runner::new(scheduler, config).run(move || run());
    }
}

pub(crate) fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

pub(crate) fn inserts(numbers: impl Iterator<Item = u64>) -> Vec<Act> {
    numbers.map(|n| Act::Insert(key(n))).collect()
}

pub(crate) fn removes(numbers: impl Iterator<Item = u64>) -> Vec<Act> {
    numbers.map(|n| Act::Remove(key(n))).collect()
}
