//! The oracle: does some order explain what was seen? By brute force over all orders, on the model; it knows
//! nothing of how the engine works.

use super::history::{History, Observed, Outcome};
use super::model::{Peeks, replay};
use super::program::{Place, Script, State};
use braid_history::Model;

/// Judges a history of `script`, also by what only the engine's user can see, the last state.
///
/// Serializable: some serial order of the committed transactions shows each of them what it saw, and leaves the last
/// state. Strict: one that also keeps real time, who had committed before another began comes before it. Snapshot
/// isolation (Berenson et al., SIGMOD 1995) with the newest snapshots: each transaction, whether or not it commits,
/// reads the state that those committed before it began have left, and its own writes; of those that overlap and
/// commit, no two write the same key. Nor does anybody write, and commit before it, a row that a transaction has
/// locked.
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

/// Strict serializability, also of what transactions have seen that gave up by themselves: the engine answers an error
/// only when it has found that what led to it is as if run one after another with those that committed.
pub fn answers_hold(script: &Script, history: &History) -> bool {
    assert_eq!(script.transactions.len(), history.transactions.len());
    let search = Search { script, history, model: Model::StrictSerializable, judges_given_up: true };
    search.serial_order(0, &script.rows)
}

struct Search<'h> {
    script: &'h Script,
    history: &'h History,
    model: Model,
    /// What those have seen that gave up by themselves has to be explained as well.
    judges_given_up: bool,
}

/// One more committed transaction.
struct Committed {
    /// What it and those before it have left.
    state: State,
    /// What it has written.
    written: Vec<Place>,
    /// It and those before it, a bit each.
    mask: u32,
}

impl<'h> Search<'h> {
    fn committed(&self) -> impl Iterator<Item = (usize, &'h Observed)> {
        self.history.transactions.iter().enumerate().filter(|(_, observed)| observed.is_committed())
    }

    /// Those that an order has to explain.
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

    /// Those that may come next after those in `mask`: none of those left has to come before them.
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

    /// Commits a transaction that read from number `from` of the line.
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
        // On what the last one has left, whatever its snapshot. (A row that is not there is not locked: one may have come since.)
        let may_miss = |place: &Place| {
            !touched_before.contains(place) && line[from..].iter().any(|one| !one.state.contains_key(place))
        };
        if !touched.conclude(observed, &mut state, may_miss) {
            return None;
        }
        Some(Committed { state, written: touched.written, mask: last.mask | 1 << at })
    }

    /// May those in `mask`, and no others, be what this transaction reads from?
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
