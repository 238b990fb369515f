//! The standard library's tree behind one lock, which is held from a transaction's beginning to its end. Nothing is
//! rolled back, so these are not transactions, although no thread sees half of one.

use crate::peer::{self, Attempt, Class, Facts, Peer, Session, Setting, Tried, perform, read_only, retry};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The tables.
pub type Trees = [BTreeMap<u64, u64>; 5];

/// A reader-writer lock, or a mutex.
pub trait Lock: Default + Sync {
    /// Its name as a peer.
    const NAME: &'static str;
    /// The guard of a reader.
    type Shared<'a>: Deref<Target = Trees>
    where
        Self: 'a;
    /// The guard of a writer.
    type Exclusive<'a>: DerefMut<Target = Trees>
    where
        Self: 'a;
    /// Waits for a reader's guard.
    fn shared(&self) -> Self::Shared<'_>;
    /// Waits for a writer's guard.
    fn exclusive(&self) -> Self::Exclusive<'_>;
}

// A thread that panicked leaves whole trees behind, so poisoning is ignored. The run fails elsewhere.
impl Lock for Mutex<Trees> {
    const NAME: &'static str = "mutex-btreemap";
    type Shared<'a> = MutexGuard<'a, Trees>;
    type Exclusive<'a> = MutexGuard<'a, Trees>;

    fn shared(&self) -> MutexGuard<'_, Trees> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> MutexGuard<'_, Trees> {
        self.shared()
    }
}

impl Lock for RwLock<Trees> {
    const NAME: &'static str = "rwlock-btreemap";
    type Shared<'a> = RwLockReadGuard<'a, Trees>;
    type Exclusive<'a> = RwLockWriteGuard<'a, Trees>;

    fn shared(&self) -> RwLockReadGuard<'_, Trees> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Trees> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Trees behind a lock.
pub struct Locked<L>(L);

impl<L: Lock> Peer for Locked<L> {
    const FACTS: Facts = Facts {
        name: L::NAME,
        isolation: "one lock, nothing undone",
        transactional: false,
        ordered: true,
        classes: &[Class::Memory],
        multiplexes: false,
        server: false,
    };

    type Session<'a>
        = &'a Locked<L>
    where
        L: 'a;

    fn open(_: &Setting) -> Result<Self> {
        Ok(Locked(L::default()))
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let mut trees = self.0.exclusive();
        for (key, value) in rows {
            trees[table.index()].insert(key, value);
        }
        Ok(())
    }

    fn session(&self, _: Option<usize>) -> Result<&Locked<L>> {
        Ok(self)
    }
}

impl<L: Lock> Session for &Locked<L> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            if work.only_reads(task) {
                perform(&mut Reading(&self.0.shared()), work.operations(task))
            } else {
                perform(&mut Writing(&mut self.0.exclusive()), work.operations(task))
            }
        })
    }
}

fn scan(tree: &BTreeMap<u64, u64>, from: u64, rows: usize, seen: impl FnMut(u64)) {
    tree.range(from..).take(rows).map(|(_, value)| *value).for_each(seen);
}

struct Reading<'a>(&'a Trees);

impl Attempt for Reading<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        Ok(self.0[table.index()].get(&key).copied())
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.0[table.index()], from, rows, seen);
        Ok(())
    }
}

struct Writing<'a>(&'a mut Trees);

impl Writing<'_> {
    fn value(&mut self, table: Table, key: u64) -> Option<&mut u64> {
        self.0[table.index()].get_mut(&key)
    }
}

impl Attempt for Writing<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        Ok(self.value(table, key).copied())
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        let absent = || peer::failed("btreemap", "the record to update is absent");
        *self.value(table, key).ok_or_else(absent)? = value;
        Ok(())
    }

    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        Ok(self.value(table, key).map(|value| {
            *value = value.wrapping_add(delta);
            *value
        }))
    }

    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.0[table.index()].insert(key, value);
        Ok(())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        scan(&self.0[table.index()], from, rows, seen);
        Ok(())
    }
}
