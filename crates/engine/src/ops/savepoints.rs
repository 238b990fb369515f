//! The points to which a transaction can be rolled back.
//!
//! A savepoint records how many changes the transaction had made by then, and how many updates it had left for its
//! commit. A rollback undoes what lies behind these numbers, the last first. Each savepoint also has a number. The
//! numbers of a transaction's state ascend, also from one transaction in the state to the next.
//!
//! A savepoint is valid as long as the transaction has not been rolled back to an earlier one. *Cuts* tell this. There
//! is one cut for each rollback that counts: the number of the last savepoint made before the rollback, and the
//! position to which the rollback led.
//!
//! Invariants:
//! - Numbers ascend along the cuts, and so do positions. A new cut removes the cuts that led to the same or a later
//!   position.

use crate::memory::{Charge, Memory, OutOfMemory};
use std::sync::Arc;

/// A point in a transaction: see [`Txn::savepoint`](crate::Txn::savepoint).
///
/// It is only a note. It holds nothing, and need not be given back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    pub(super) database: u64,
    /// The number of the transaction's state.
    pub(super) state: u32,
    /// The number of the savepoint among those of this state.
    pub(super) number: u64,
    pub(super) at: Position,
}

/// How far a transaction had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) changes: usize,
    /// Updates left for the commit.
    pub(super) updates: usize,
}

impl Position {
    /// Returns true if something was done after `other`.
    fn is_behind(self, other: Position) -> bool {
        self.changes > other.changes || self.updates > other.updates
    }
}

/// A rollback. Savepoints up to this number are invalid if they were made after this position.
#[derive(Clone, Copy, Debug)]
struct Cut {
    number: u64,
    at: Position,
}

/// The room at first, and the room that is kept for the next transaction, in cuts.
const CUTS_FIRST: usize = 4;
const CUTS_KEPT: usize = 16;

/// The savepoints of the transactions of one state.
pub(crate) struct Savepoints {
    /// The number of the last savepoint.
    last: u64,
    /// Savepoints up to this number belong to earlier transactions.
    earlier: u64,
    cuts: Vec<Cut>,
    charge: Charge,
}

impl Savepoints {
    /// Starts without savepoints. The room for cuts is charged to `memory`.
    pub(crate) fn new(memory: &Arc<Memory>) -> Savepoints {
        Savepoints { last: 0, earlier: 0, cuts: Vec::new(), charge: Charge::new(memory) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns true if the transaction can be rolled back to the savepoint with this number.
    pub(super) fn has(&self, number: u64, at: Position) -> bool {
        if number <= self.earlier {
            return false;
        }
        // The first cut since then has the earliest position, because positions ascend.
        let first = self.cuts.partition_point(|cut| cut.number < number);
        self.cuts.get(first).is_none_or(|cut| !at.is_behind(cut.at))
    }

    /// Makes room for one more cut.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.cuts.len() < self.cuts.capacity() {
            return Ok(());
        }
        self.charge.grow(&mut self.cuts, 1, CUTS_FIRST)
    }

    /// Notes that the transaction has been rolled back to this position. Room for the cut has been reserved.
    pub(super) fn cut(&mut self, at: Position) {
        while self.cuts.pop_if(|cut| !at.is_behind(cut.at)).is_some() {}
        debug_assert!(self.cuts.len() < self.cuts.capacity());
        debug_assert!(self.cuts.last().is_none_or(|cut| !cut.at.is_behind(at)));
        self.cuts.push(Cut { number: self.last, at });
    }

    /// Ends all savepoints, because the transaction has ended.
    pub(crate) fn end(&mut self) {
        self.earlier = self.last;
        self.charge.clear(&mut self.cuts, CUTS_KEPT);
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    fn position(changes: usize) -> Position {
        Position { changes, updates: 0 }
    }

    /// A savepoint is valid until the transaction is rolled back to an earlier one, whatever comes in between, and
    /// until the transaction ends.
    #[test]
    fn rollbacks_cut_what_comes_behind() {
        let mut savepoints = Savepoints::new(&Memory::new(u64::MAX));
        let cut = |savepoints: &mut Savepoints, changes| {
            savepoints.reserve().expect("memory");
            savepoints.cut(position(changes));
        };
        let [a, b, c] = [1, 2, 3].map(|changes| (savepoints.next(), position(changes)));
        cut(&mut savepoints, 2);
        let has = |savepoints: &Savepoints, all: &[(u64, Position)]| -> Vec<bool> {
            all.iter().map(|&(number, at)| savepoints.has(number, at)).collect()
        };
        assert_eq!(has(&savepoints, &[a, b, c]), [true, true, false]);
        let [d, e] = [3, 5].map(|changes| (savepoints.next(), position(changes)));
        assert_eq!(has(&savepoints, &[a, b, c, d, e]), [true, true, false, true, true]);
        cut(&mut savepoints, 3); // back to `d`: this does not bring `c` back
        assert_eq!(has(&savepoints, &[a, b, c, d, e]), [true, true, false, true, false]);
        cut(&mut savepoints, 1);
        assert_eq!(has(&savepoints, &[a, b, c, d, e]), [true, false, false, false, false]);
        assert_eq!(savepoints.cuts.len(), 1);
        savepoints.end();
        assert_eq!(has(&savepoints, &[a]), [false]);
    }
}
