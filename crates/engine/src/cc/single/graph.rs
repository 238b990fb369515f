//! The graph of transactions that wait for each other. A waiting transaction says what it wants, and what it holds.
//!
//! A transaction that holds what another wants, and itself waits for nothing, ends some day. A deadlock is therefore
//! a cycle of transactions that all wait, and the graph contains all of it. What a transaction holds changes only by
//! its own steps. It tells the graph what it holds with the wait. It does so again when one of its several waits is
//! over and others are not. The last edge of a cycle comes with one of these calls, under the lock of the graph, and
//! that call finds the cycle.
//!
//! An access that is dropped while it waits leaves its wait here until its transaction ends. At worst this shows a
//! cycle that does not exist: a transaction aborts without need.

use crate::memory::{Kind, Memory, OutOfMemory};
use crate::record::Record;
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What an entry of a table takes. It is charged to the account while it is there.
const ENTRY_BYTES: u64 = 48;

/// A record that a transaction wants to lock.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Wanted {
    pub(in crate::cc) record: *const Record,
    /// The transaction wants to be the only one.
    pub(in crate::cc) alone: bool,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Standing {
    /// The transaction waits for others.
    Waits,
    /// The transaction would wait for itself, and has to abort.
    InCircle,
    /// The transaction no longer waits for anything, and is not in the graph.
    Gone,
}

/// The graph. One per database.
pub(in crate::cc) struct Graph {
    edges: Mutex<Edges>,
    memory: Arc<Memory>,
}

/// The edges. Records are known by their addresses, transactions by their places.
#[derive(Default)]
struct Edges {
    /// What each waiting transaction holds, by record.
    holders: BTreeSet<(usize, u32)>,
    /// The same, by transaction.
    held: BTreeSet<(u32, usize)>,
    /// What each transaction wants, and whether alone.
    wanted: BTreeMap<(u32, usize), bool>,
    /// Which transactions want a record alone.
    writers: BTreeSet<(usize, u32)>,
    /// The number of entries that are charged to the account.
    charged: u64,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").finish_non_exhaustive()
    }
}

impl Edges {
    fn entries(&self) -> usize {
        self.holders.len() + self.held.len() + self.wanted.len() + self.writers.len()
    }

    /// Returns the waiting transactions for which the transaction at `place` waits, perhaps including itself.
    fn awaited_by(&self, place: u32) -> Vec<u32> {
        let mut awaited = Vec::new();
        for (&(_, record), &alone) in self.wanted.range((place, 0)..=(place, usize::MAX)) {
            let all = (record, 0)..=(record, u32::MAX);
            awaited.extend(self.holders.range(all.clone()).map(|&(_, holder)| holder));
            // A transaction that would share the record lets those that want it alone go first.
            if !alone {
                awaited.extend(self.writers.range(all).map(|&(_, writer)| writer));
            }
        }
        awaited
    }

    /// Returns true if the transaction at `place` waits for itself, by way of others.
    fn is_in_circle(&self, place: u32) -> bool {
        let mut seen = BTreeSet::from([place]); // what it shares already is not in its own way
        let mut next = self.awaited_by(place);
        while let Some(other) = next.pop() {
            if seen.insert(other) {
                let awaited = self.awaited_by(other);
                if awaited.contains(&place) {
                    return true;
                }
                next.extend(awaited);
            }
        }
        false
    }

    fn standing(&self, place: u32) -> Standing {
        let waits = self.wanted.range((place, 0)..=(place, usize::MAX)).next().is_some();
        match waits {
            false => Standing::Gone,
            true if self.is_in_circle(place) => Standing::InCircle,
            true => Standing::Waits,
        }
    }

    fn hold(&mut self, place: u32, record: usize) {
        self.holders.insert((record, place));
        self.held.insert((place, record));
    }

    fn want(&mut self, place: u32, wanted: Wanted) {
        let record = wanted.record.addr();
        self.wanted.insert((place, record), wanted.alone);
        if wanted.alone {
            self.writers.insert((record, place));
        }
    }

    fn forget_wanted(&mut self, place: u32, record: usize) {
        self.wanted.remove(&(place, record));
        self.writers.remove(&(record, place));
    }

    fn forget(&mut self, place: u32) {
        let all = (place, 0)..=(place, usize::MAX);
        let held: Vec<_> = self.held.range(all.clone()).copied().collect();
        for (_, record) in held {
            self.held.remove(&(place, record));
            self.holders.remove(&(record, place));
        }
        let wanted: Vec<_> = self.wanted.range(all).map(|(&(_, record), _)| record).collect();
        wanted.into_iter().for_each(|record| self.forget_wanted(place, record));
    }
}

impl Graph {
    /// Makes a graph in which no transaction waits. What is noted is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Graph {
        Graph { edges: Mutex::default(), memory: memory.clone() }
    }

    /// Makes the transaction at `place`, which holds what `held` lists, wait for what it wants, unless it would wait
    /// for itself.
    #[cold]
    pub(in crate::cc) fn wait(
        &self,
        place: u32,
        wanted: Wanted,
        held: impl Iterator<Item = *const Record> + Clone,
    ) -> Result<Standing, OutOfMemory> {
        let most = 2 * (held.clone().count() + 1);
        let mut edges = self.reserve(most)?;
        held.for_each(|record| edges.hold(place, record.addr()));
        edges.want(place, wanted);
        let standing = edges.standing(place);
        if standing == Standing::InCircle {
            edges.forget_wanted(place, wanted.record.addr());
        }
        self.settle(edges);
        Ok(standing)
    }

    /// Notes that the transaction has got a record, whether or not it has waited for it. If it still waits for
    /// others, it may now wait for itself.
    #[cold]
    pub(in crate::cc) fn got(&self, place: u32, record: *const Record) -> Result<Standing, OutOfMemory> {
        let mut edges = self.reserve(2)?;
        edges.forget_wanted(place, record.addr());
        edges.hold(place, record.addr());
        let standing = edges.standing(place);
        if standing == Standing::Gone {
            edges.forget(place);
        }
        self.settle(edges);
        Ok(standing)
    }

    /// Notes that the transaction no longer waits for anything.
    #[cold]
    pub(in crate::cc) fn leave(&self, place: u32) {
        let mut edges = lock(&self.edges);
        edges.forget(place);
        self.settle(edges);
    }

    /// Returns the edges, with room for `more` further entries.
    fn reserve(&self, more: usize) -> Result<MutexGuard<'_, Edges>, OutOfMemory> {
        let mut edges = lock(&self.edges);
        self.memory.charge(Kind::Transactions, more as u64 * ENTRY_BYTES)?;
        edges.charged += more as u64;
        Ok(edges)
    }

    /// Gives back what was charged for entries that do not exist.
    fn settle(&self, mut edges: MutexGuard<'_, Edges>) {
        let entries = edges.entries() as u64;
        debug_assert!(entries <= edges.charged, "room for entries is reserved");
        self.memory.release(Kind::Transactions, (edges.charged - entries) * ENTRY_BYTES);
        edges.charged = entries;
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Returns a record of this number.
    fn record(number: usize) -> *const Record {
        std::ptr::without_provenance(number)
    }

    /// Returns true if the transaction may wait for a record.
    fn waits(graph: &Graph, place: u32, wanted: usize, alone: bool, held: &[usize]) -> bool {
        let wanted = Wanted { record: record(wanted), alone };
        let held = held.iter().map(|&held| record(held));
        graph.wait(place, wanted, held).expect("there is memory") == Standing::Waits
    }

    /// If transactions wait for each other in a cycle, the last one may not wait. All that was charged is given back.
    #[test]
    fn circles_are_found() {
        let memory = Memory::new(u64::MAX);
        let graph = Graph::new(&memory);
        assert!(waits(&graph, 1, 20, true, &[10]));
        assert!(waits(&graph, 2, 30, false, &[20]));
        assert!(!waits(&graph, 3, 10, false, &[30, 40]));
        assert!(waits(&graph, 3, 50, true, &[30, 40]), "nobody that waits has it");
        [1, 2, 3].into_iter().for_each(|place| graph.leave(place));
        assert_eq!(memory.total_used_bytes(), 0);
    }

    /// If two transactions share a record and both want it alone, the second may not wait. A transaction that has a
    /// share waits only for others.
    #[test]
    fn shares_and_writers() {
        let graph = Graph::new(&Memory::new(u64::MAX));
        assert!(waits(&graph, 1, 10, true, &[10]));
        assert!(!waits(&graph, 2, 10, true, &[10]));
        graph.leave(2);
        assert!(waits(&graph, 2, 10, false, &[20]), "it lets the first go first");
        assert!(!waits(&graph, 1, 20, true, &[10]), "which must not wait for it, then");
    }

    /// A transaction that waits for two records gets one of them, for which another transaction waits. It aborts if
    /// that transaction is in the way of its second record.
    #[test]
    fn several_waits() {
        let graph = Graph::new(&Memory::new(u64::MAX));
        assert!(waits(&graph, 1, 10, true, &[]) && waits(&graph, 1, 20, true, &[]));
        assert!(waits(&graph, 2, 10, true, &[20]));
        assert_eq!(graph.got(1, record(10)), Ok(Standing::InCircle));
        graph.leave(2);
        assert_eq!(
            (graph.got(1, record(30)), graph.got(1, record(20))),
            (Ok(Standing::Waits), Ok(Standing::Gone))
        );
    }

    /// If there is no memory, nothing is noted.
    #[test]
    fn memory_is_charged() {
        let graph = Graph::new(&Memory::new(0));
        let wanted = Wanted { record: record(10), alone: true };
        assert_eq!(graph.wait(1, wanted, std::iter::once(record(20))), Err(OutOfMemory));
        assert_eq!(lock(&graph.edges).entries(), 0);
    }
}
