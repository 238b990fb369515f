//! The oracle, which decides whether some order explains what was seen. It tries all orders on the model, by brute
//! force, and knows nothing of how the engine works.

use super::history::{History, Observed, Outcome};
use super::model::{Peeks, replay};
use super::program::{Place, Script, State};
use braid_history::Model;

/// Judges a history of `script`, including its last state, which only the engine's user can see.
///
/// - Serializable: some serial order of the committed transactions shows each of them what it saw, and leaves the last
///   state.
/// - Strict serializable: such an order also keeps real time. A transaction that had committed before another began
///   comes first.
/// - Snapshot isolation (Berenson et al., SIGMOD 1995) with the newest snapshots: each transaction, whether or not it
///   commits, reads its own writes and the state left by the transactions that committed before it began. No two
///   transactions that overlap and commit write the same key. If a transaction has locked a row, no other transaction
///   writes this row and commits before it.
pub fn holds(model: Model, script: &Script, history: &History) -> bool {
    assert_eq!(script.transactions.len(), history.transactions.len());
    assert!(script.transactions.len() <= u32::BITS as usize);
    let search = Search { script, history, model, judges_given_up: false };
    match model {
        Model::SnapshotIsolation => {
            let mut line = vec![Committed { state: script.rows.clone(), written: Vec::new(), mask: 0 }];
            search.snapshot_order(&mut line)
        }
        _ => search.serial_order(0, &script.rows),
    }
}

/// Judges strict serializability, including the reads of transactions that gave up by themselves. The engine answers
/// with an error only after it has found that the reads that led to it are as if run one after another with the
/// committed transactions.
pub fn answers_hold(script: &Script, history: &History) -> bool {
    assert_eq!(script.transactions.len(), history.transactions.len());
    let search = Search { script, history, model: Model::StrictSerializable, judges_given_up: true };
    search.serial_order(0, &script.rows)
}

struct Search<'h> {
    script: &'h Script,
    history: &'h History,
    model: Model,
    /// True if the order also has to explain what transactions have seen that gave up by themselves.
    judges_given_up: bool,
}

/// A committed transaction in the order.
struct Committed {
    /// The state that it and the transactions before it have left.
    state: State,
    /// The places that it has written.
    written: Vec<Place>,
    /// The set of it and the transactions before it, one bit each.
    mask: u32,
}

impl<'h> Search<'h> {
    fn committed(&self) -> impl Iterator<Item = (usize, &'h Observed)> {
        self.history.transactions.iter().enumerate().filter(|(_, observed)| observed.is_committed())
    }

    /// Returns the transactions that an order has to explain.
    fn judged(&self) -> impl Iterator<Item = (usize, &'h Observed)> {
        // A transaction that fails at its commit has been validated.
        let judges_refused = self.model != Model::SnapshotIsolation;
        let is_judged = move |observed: &Observed| match observed.outcome {
            Outcome::Committed => true,
            Outcome::GaveUp => self.judges_given_up || judges_refused && observed.is_refused(),
            Outcome::Conflict => false,
        };
        self.history.transactions.iter().enumerate().filter(move |(_, observed)| is_judged(observed))
    }

    /// Returns the transactions that can come next after those in `mask`: no remaining transaction has to precede them.
    fn next(&self, mask: u32) -> impl Iterator<Item = (usize, &'h Observed)> {
        let left = move |(at, _): &(usize, &Observed)| mask >> at & 1 == 0;
        let is_before = |a: &Observed, b: &Observed| match self.model {
            Model::Serializable => false,
            Model::StrictSerializable => a.ended < b.begins,
            Model::SnapshotIsolation => a.ended < b.ends, // the order of commits
        };
        self.judged()
            .filter(left)
            .filter(move |(_, one)| !self.judged().filter(left).any(|(_, other)| is_before(other, one)))
    }

    fn serial_order(&self, mask: u32, state: &State) -> bool {
        if self.judged().all(|(at, _)| mask >> at & 1 == 1) {
            return *state == self.history.last;
        }
        self.next(mask).any(|(at, observed)| {
            let mut after = state.clone();
            let Some(mut touched) = replay(&self.script.transactions[at], observed, Peeks::Guess, &mut after)
            else {
                return false;
            };
            let commits = observed.is_committed() || observed.is_refused();
            if commits && !touched.conclude(observed, &mut after, |_| false) {
                return false;
            }
            self.serial_order(mask | 1 << at, if observed.is_committed() { &after } else { state })
        })
    }

    fn snapshot_order(&self, line: &mut Vec<Committed>) -> bool {
        let last = line.last().expect("it begins with the rows of the script");
        let mask = last.mask;
        if self.committed().all(|(at, _)| mask >> at & 1 == 1) {
            return last.state == self.history.last && self.aborted_saw_snapshots(line);
        }
        self.next(mask).any(|(at, observed)| {
            (0..line.len()).any(|from| {
                let Some(next) = self.commit_from(line, from, at, observed) else { return false };
                line.push(next);
                let holds = self.snapshot_order(line);
                line.pop();
                holds
            })
        })
    }

    /// Commits a transaction that read the state at position `from` of the line.
    fn commit_from(
        &self,
        line: &[Committed],
        from: usize,
        at: usize,
        observed: &Observed,
    ) -> Option<Committed> {
        if !self.is_snapshot_of(line[from].mask, observed) {
            return None;
        }
        let mut seen = line[from].state.clone();
        let mut touched = replay(&self.script.transactions[at], observed, Peeks::See, &mut seen)?;
        let mut overlaps = line[from + 1..].iter().flat_map(|other| &other.written);
        if overlaps.any(|place| touched.written.contains(place) || touched.locked.contains(place)) {
            return None;
        }
        let (last, touched_before) = (line.last().expect("not empty"), touched.written.clone());
        let mut state = last.state.clone();
        for place in &touched.written {
            match seen.get(place) {
                Some(value) => state.insert(*place, *value),
                None => state.remove(place),
            };
        }
        // The updates at the commit run on the state that the last commit has left, whatever the snapshot. A missing
        // row is not locked, so one may have been inserted since.
        let may_miss = |place: &Place| {
            !touched_before.contains(place) && line[from..].iter().any(|one| !one.state.contains_key(place))
        };
        if !touched.conclude(observed, &mut state, may_miss) {
            return None;
        }
        Some(Committed { state, written: touched.written, mask: last.mask | 1 << at })
    }

    /// Returns true if this transaction may read from exactly the transactions in `mask`.
    fn is_snapshot_of(&self, mask: u32, observed: &Observed) -> bool {
        self.committed().all(|(at, other)| match mask >> at & 1 {
            1 => other.ends < observed.begun,
            _ => other.ended > observed.begins,
        })
    }

    fn aborted_saw_snapshots(&self, line: &[Committed]) -> bool {
        let transactions = self.history.transactions.iter().enumerate();
        transactions.filter(|(_, observed)| !observed.is_committed()).all(|(at, observed)| {
            line.iter().any(|snapshot| {
                self.is_snapshot_of(snapshot.mask, observed)
                    && replay(
                        &self.script.transactions[at],
                        observed,
                        Peeks::See,
                        &mut snapshot.state.clone(),
                    )
                    .is_some()
            })
        })
    }
}
