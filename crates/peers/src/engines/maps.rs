//! Concurrent maps without transactions. Each operation is atomic, and a transaction is only a sequence of operations.
//! Their throughput is the ceiling for a structure in memory.

use crate::peer::{self, Attempt, Class, Facts, Peer, Session, Setting, Tried, perform, retry};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use congee::{Congee, epoch};
use crossbeam_skiplist::SkipMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A map from number to number.
pub trait Map: Sync + Sized {
    /// Its name as a peer.
    const NAME: &'static str;
    /// True if the map is ordered by key.
    const ORDERED: bool;
    /// Keeps memory from being reused while it is read.
    type Guard<'a>
    where
        Self: 'a;
    /// Makes an empty map.
    fn make() -> Self;
    /// Makes a guard, once per transaction.
    fn guard(&self) -> Self::Guard<'_>;
    /// Returns the value of a key.
    fn get(&self, key: u64, guard: &Self::Guard<'_>) -> Option<u64>;
    /// Replaces an existing value.
    fn update(&self, key: u64, value: u64, guard: &Self::Guard<'_>);
    /// Adds to an existing value, and returns the new value.
    fn add(&self, key: u64, delta: u64, guard: &Self::Guard<'_>) -> Option<u64>;
    /// Adds a key.
    fn insert(&self, key: u64, value: u64, guard: &Self::Guard<'_>);
    /// Passes values in key order, starting at a key, to `seen`.
    fn scan(&self, from: u64, rows: usize, guard: &Self::Guard<'_>, seen: impl FnMut(u64));
}

/// Values are changed in place.
impl Map for papaya::HashMap<u64, AtomicU64> {
    const NAME: &'static str = "papaya";
    const ORDERED: bool = false;
    type Guard<'a> = papaya::LocalGuard<'a>;

    fn make() -> Self {
        papaya::HashMap::new()
    }

    fn guard(&self) -> papaya::LocalGuard<'_> {
        papaya::HashMap::guard(self)
    }

    fn get(&self, key: u64, guard: &papaya::LocalGuard<'_>) -> Option<u64> {
        Some(self.get(&key, guard)?.load(Ordering::Relaxed)) // values are independent, here and below
    }

    fn update(&self, key: u64, value: u64, guard: &papaya::LocalGuard<'_>) {
        if let Some(place) = self.get(&key, guard) {
            place.store(value, Ordering::Relaxed);
        }
    }

    fn add(&self, key: u64, delta: u64, guard: &papaya::LocalGuard<'_>) -> Option<u64> {
        Some(self.get(&key, guard)?.fetch_add(delta, Ordering::Relaxed).wrapping_add(delta))
    }

    fn insert(&self, key: u64, value: u64, guard: &papaya::LocalGuard<'_>) {
        self.insert(key, AtomicU64::new(value), guard);
    }

    fn scan(&self, _: u64, _: usize, _: &papaya::LocalGuard<'_>, _: impl FnMut(u64)) {
        unreachable!("a map without an order is given no scans");
    }
}

/// Values are changed in place.
impl Map for SkipMap<u64, AtomicU64> {
    const NAME: &'static str = "crossbeam-skiplist";
    const ORDERED: bool = true;
    type Guard<'a> = ();

    fn make() -> Self {
        SkipMap::new()
    }

    // The map pins an epoch in each call.
    fn guard(&self) {}

    fn get(&self, key: u64, (): &()) -> Option<u64> {
        Some(self.get(&key)?.value().load(Ordering::Relaxed)) // values are independent, here and below
    }

    fn update(&self, key: u64, value: u64, (): &()) {
        if let Some(entry) = self.get(&key) {
            entry.value().store(value, Ordering::Relaxed);
        }
    }

    fn add(&self, key: u64, delta: u64, (): &()) -> Option<u64> {
        Some(self.get(&key)?.value().fetch_add(delta, Ordering::Relaxed).wrapping_add(delta))
    }

    fn insert(&self, key: u64, value: u64, (): &()) {
        self.insert(key, AtomicU64::new(value));
    }

    fn scan(&self, from: u64, rows: usize, (): &(), mut seen: impl FnMut(u64)) {
        for entry in self.range(from..).take(rows) {
            seen(entry.value().load(Ordering::Relaxed));
        }
    }
}

/// Values are stored in the tree's own pointers.
impl Map for Congee<usize, usize> {
    const NAME: &'static str = "congee";
    const ORDERED: bool = true;
    type Guard<'a> = epoch::Guard;

    fn make() -> Self {
        Congee::default()
    }

    fn guard(&self) -> epoch::Guard {
        self.pin()
    }

    fn get(&self, key: u64, guard: &epoch::Guard) -> Option<u64> {
        self.get(&(key as usize), guard).map(|value| value as u64)
    }

    fn update(&self, key: u64, value: u64, guard: &epoch::Guard) {
        self.compute_if_present(&(key as usize), |_| Some(value as usize), guard);
    }

    fn add(&self, key: u64, delta: u64, guard: &epoch::Guard) -> Option<u64> {
        let add = |value: usize| Some(value.wrapping_add(delta as usize));
        self.compute_if_present(&(key as usize), add, guard)?.1.map(|value| value as u64)
    }

    fn insert(&self, key: u64, value: u64, guard: &epoch::Guard) {
        self.insert(key as usize, value as usize, guard)
            .expect("there is memory, or the process ends anyway");
    }

    fn scan(&self, from: u64, rows: usize, guard: &epoch::Guard, mut seen: impl FnMut(u64)) {
        let mut found = vec![(0, 0); rows];
        let count = self.range(&(from as usize), &usize::MAX, &mut found, guard);
        found[..count].iter().for_each(|(_, value)| seen(*value as u64));
    }
}

/// A map for each table.
pub struct Maps<M>([M; 5]);

impl<M: Map> Peer for Maps<M> {
    const FACTS: Facts = Facts {
        name: M::NAME,
        isolation: "atomic operations only",
        transactional: false,
        ordered: M::ORDERED,
        classes: &[Class::Memory],
        multiplexes: false,
        server: false,
    };

    type Session<'a>
        = &'a Maps<M>
    where
        M: 'a;

    fn open(_: &Setting) -> Result<Self> {
        Ok(Maps(std::array::from_fn(|_| M::make())))
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let map = &self.0[table.index()];
        peer::in_groups(rows, |group| {
            let guard = map.guard();
            group.iter().for_each(|(key, value)| map.insert(*key, *value, &guard));
            Ok(())
        })
    }

    fn session(&self, _: Option<usize>) -> Result<&Maps<M>> {
        Ok(self)
    }
}

impl<M: Map> Session for &Maps<M> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            let guards = std::array::from_fn(|_| None);
            perform(&mut Open { maps: &self.0, guards }, work.operations(task))
        })
    }
}

/// A transaction, which guards each map from its first use to the end.
struct Open<'a, M: Map + 'a> {
    maps: &'a [M; 5],
    guards: [Option<M::Guard<'a>>; 5],
}

impl<'a, M: Map> Open<'a, M> {
    #[inline(always)]
    fn table(&mut self, table: Table) -> (&'a M, &M::Guard<'a>) {
        let map = &self.maps[table.index()];
        (map, self.guards[table.index()].get_or_insert_with(|| map.guard()))
    }
}

impl<M: Map> Attempt for Open<'_, M> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        let (map, guard) = self.table(table);
        Ok(map.get(key, guard))
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        let (map, guard) = self.table(table);
        map.update(key, value, guard);
        Ok(())
    }

    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        let (map, guard) = self.table(table);
        Ok(map.add(key, delta, guard))
    }

    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        let (map, guard) = self.table(table);
        map.insert(key, value, guard);
        Ok(())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        let (map, guard) = self.table(table);
        map.scan(from, rows, guard, seen);
        Ok(())
    }
}
