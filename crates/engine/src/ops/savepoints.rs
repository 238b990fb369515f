//! Points of a transaction that it can be rolled back to.
//!
//! A savepoint is how many changes the transaction had made by then, and how many updates it had left for its commit; what comes
//! behind these numbers is undone, the last first. It has a number of its own: those of a transaction's state ascend, also from one
//! transaction in it to the next.
//!
//! A savepoint can be rolled back to as long as the transaction has not been rolled back to an earlier one. That is told by *cuts*,
//! one for each rollback that counts: the last savepoint made before it, and where it led.
//!
//! Invariants:
//! - Along the cuts numbers ascend, and so do the places where they led: a cut makes those needless that led as far or farther.

use crate::memory::{Charge, Memory, OutOfMemory};
use std::sync::Arc;

/// A point in a transaction: see [`Txn::savepoint`](crate::Txn::savepoint).
///
/// It is no more than a note: it holds nothing, and need not be given back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    pub(super) database: u64,
    /// The number of the transaction's state,
    pub(super) state: u32,
    /// and of the savepoint among those made there.
    pub(super) number: u64,
    pub(super) at: Position,
}

/// How far a transaction had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) changes: usize,
    /// Left for the commit.
    pub(super) updates: usize,
}

impl Position {
    /// Something was done behind `other`.
    fn is_behind(self, other: Position) -> bool {
        self.changes > other.changes || self.updates > other.updates
    }
}

/// A rollback: savepoints up to this number lead to nothing if they were made behind this place.
#[derive(Clone, Copy, Debug)]
struct Cut {
    number: u64,
    at: Position,
}

/// Room at first, and room that is kept for the next transaction.
const CUTS_FIRST: usize = 4;
const CUTS_KEPT: usize = 16;

/// Of the transactions of one state.
pub(crate) struct Savepoints {
    /// The number of the last one.
    last: u64,
    /// Those up to this number are of earlier transactions.
    earlier: u64,
    cuts: Vec<Cut>,
    charge: Charge,
}

impl Savepoints {
    /// None; what is noted of rollbacks is charged to `memory`.
    pub(crate) fn new(memory: &Arc<Memory>) -> Savepoints {
        Savepoints { last: 0, earlier: 0, cuts: Vec::new(), charge: Charge::new(memory) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The transaction can be rolled back to the savepoint of this number.
    pub(super) fn has(&self, number: u64, at: Position) -> bool {
        if number <= self.earlier {
            return false;
        }
        // Of the rollbacks since then the one that led least far: later ones led farther.
        let first = self.cuts.partition_point(|cut| cut.number < number);
        self.cuts.get(first).is_none_or(|cut| !at.is_behind(cut.at))
    }

    /// Makes room for one more rollback.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.cuts.len() < self.cuts.capacity() {
            return Ok(());
        }
        self.charge.grow(&mut self.cuts, 1, CUTS_FIRST)
    }

    /// The transaction has been rolled back to there. Room for the note has been reserved.
    pub(super) fn cut(&mut self, at: Position) {
        while self.cuts.pop_if(|cut| !at.is_behind(cut.at)).is_some() {}
        debug_assert!(self.cuts.len() < self.cuts.capacity());
        debug_assert!(self.cuts.last().is_none_or(|cut| !cut.at.is_behind(at)));
        self.cuts.push(Cut { number: self.last, at });
    }

    /// The transaction has ended.
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

    /// A savepoint is good until the transaction is rolled back to one from before, whatever comes in between, and until it ends.
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
        cut(&mut savepoints, 3); // back to `d`: `c` does not come back by that
        assert_eq!(has(&savepoints, &[a, b, c, d, e]), [true, true, false, true, false]);
        cut(&mut savepoints, 1);
        assert_eq!(has(&savepoints, &[a, b, c, d, e]), [true, false, false, false, false]);
        assert_eq!(savepoints.cuts.len(), 1);
        savepoints.end();
        assert_eq!(has(&savepoints, &[a]), [false]);
    }
}
