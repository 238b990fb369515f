//! A model of threads that meet in a bucket, before a tree that is a map under a lock. Another thread may go on at
//! every access of a bucket's word, and of the tree. A record found in the front must have been in the tree at some
//! moment of the lookup, and must be there at the end. The same model with a planted error must fail.

use super::*;
use crate::memory::{Kind, Memory};
use crate::sync::{Arc, Mutex, lock};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

const SCHEDULES: usize = 10_000;

/// The planted error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A key is put into the front although its bucket was free since the tree has the key.
    FilledLate,
    /// A key is removed from the tree when its bucket is free again.
    RemovedLate,
    /// A missing key is put into the front because it was in the tree before.
    NotedUnseen,
}

/// What the tree has under the key, and had after each change.
#[derive(Default)]
struct Tree {
    now: Option<u32>,
    past: Vec<Option<u32>>,
}

struct Model {
    front: HashFront,
    tree: Mutex<Tree>,
    planted: Planted,
}

/// Returns a key of the bucket that is split first. The split moves the key.
fn key() -> Key {
    let moves = |key: &Key| Tag::of(key).is_some_and(|tag| tag.hash % (2 * BUCKETS_MIN) == BUCKETS_MIN);
    (0..).map(Key::from_u64).find(moves).expect("one in 32 is")
}

impl Model {
    fn new(planted: Planted) -> Arc<Model> {
        let memory = Memory::new(1 << 20);
        let slab = Slab::reserve(&memory, Kind::Index, BUCKET_BYTES, 1 << 10).expect("addresses");
        let front = HashFront::new(slab).expect("memory");
        front.growth.next_at.store(0, Ordering::Relaxed); // the first entry makes it grow
        // Lookups should find planted errors, not a count below zero.
        front.growth.keys.store(100, Ordering::Relaxed);
        Arc::new(Model { front, tree: Mutex::new(Tree::default()), planted })
    }

    fn insert(&self, id: u32) -> bool {
        let into_tree = || {
            let mut tree = lock(&self.tree);
            if let Some(present) = tree.now {
                return Ok(Inserted::Exists(RecordId(present)));
            }
            tree.set(Some(id));
            Ok(Inserted::New)
        };
        let inserted = match self.planted {
            Planted::FilledLate => {
                let inserted = into_tree();
                self.front.insert(&key(), RecordId(id), || inserted)
            }
            _ => self.front.insert(&key(), RecordId(id), into_tree),
        };
        inserted == Ok(Inserted::New)
    }

    fn remove(&self, id: u32) -> bool {
        let from_tree = || {
            let mut tree = lock(&self.tree);
            let is_there = tree.now == Some(id);
            if is_there {
                tree.set(None);
            }
            is_there
        };
        match self.planted {
            Planted::RemovedLate => {
                self.front.remove(&key(), RecordId(id), || true);
                from_tree()
            }
            _ => self.front.remove(&key(), RecordId(id), from_tree),
        }
    }

    /// Looks up the key, as an index does.
    fn look(&self) -> Option<u32> {
        let key = key();
        let bucket = self.front.bucket_of(&key).expect("a short key");
        let from = lock(&self.tree).past.len();
        if let Some(RecordId(id)) = self.front.find(bucket, &key) {
            let tree = lock(&self.tree);
            let was = |moment: usize| moment.checked_sub(1).and_then(|last| tree.past[last]);
            assert!((from..=tree.past.len()).any(|moment| was(moment) == Some(id)), "a stale entry is found");
            return Some(id);
        }
        let found = lock(&self.tree).now.map(RecordId);
        if found.is_some() {
            self.front.note(&key, || match self.planted {
                Planted::NotedUnseen => found,
                _ => lock(&self.tree).now.map(RecordId),
            });
        }
        found.map(|RecordId(id)| id)
    }

    /// Removes the present record, and puts another one there.
    fn replace(&self, id: u32) {
        if let Some(present) = self.look() {
            self.remove(present);
        }
        self.insert(id);
    }
}

impl Tree {
    fn set(&mut self, now: Option<u32>) {
        self.now = now;
        self.past.push(now);
    }
}

fn run(planted: Planted) {
    let model = Model::new(planted);
    let spawn = |work: fn(&Model)| {
        let model = Arc::clone(&model);
        shuttle::thread::spawn(move || work(&model))
    };
    let threads = [
        spawn(|model| _ = model.insert(1)),
        spawn(|model| model.replace(2)),
        spawn(|model| _ = (model.look(), model.look())),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model failed"));
    let entries = model.front.check_structure();
    let found = model.front.look_up(&key()).map(|RecordId(id)| id);
    assert!(found.is_none() || found == lock(&model.tree).now, "a stale entry stays");
    assert_eq!(entries, u64::from(found.is_some()));
    assert_eq!(model.look(), lock(&model.tree).now);
}

fn check<S: Scheduler + 'static>(scheduler: S, run: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    let schedules = Runner::new(scheduler, config).run(run);
    assert_eq!(schedules, SCHEDULES, "all schedules were tried");
}

/// Proves over many random schedules that everything in a front is in its tree.
#[test]
fn front_random() {
    check(RandomScheduler::new(SCHEDULES), || run(Planted::Nothing));
}

/// Proves the same over schedules that switch seldom, at places chosen to find deep errors.
#[test]
fn front_few_switches() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::Nothing));
}

/// Proves that the model notices a key that is put into the front after its removal.
#[test]
#[should_panic(expected = "a stale entry")]
fn planted_filled_late() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::FilledLate));
}

/// Proves that the model notices a removal that other threads may interrupt.
#[test]
#[should_panic(expected = "a stale entry")]
fn planted_removed_late() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::RemovedLate));
}

/// Proves that the model notices a key that is added without a look at the tree.
#[test]
#[should_panic(expected = "a stale entry")]
fn planted_noted_unseen() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::NotedUnseen));
}

/// The models of schedules on trees, with a front. Keys that stay are found at any time.
mod trees {
    use crate::index::schedules::{Act, check, inserts, removes};
    use crate::index::{Front, IndexKind, IndexOptions, Nodes, TableIndex};
    use crate::memory::Memory;
    use crate::sync::Arc;

    fn make(memory: &Arc<Memory>) -> TableIndex {
        let options =
            IndexOptions { kind: IndexKind::default(), front: Front::Hash, fixed8: true, number: 0 };
        TableIndex::new(&Nodes::new(memory, 256), options).expect("memory")
    }

    /// Proves that the front may grow and the tree's border split while two threads insert, one removes, and another
    /// looks.
    #[test]
    fn growth_meets_all() {
        let before = inserts(0..47);
        let threads = vec![inserts(50..53), removes(40..42), vec![Act::Look]];
        check(make, before, threads);
    }
}
