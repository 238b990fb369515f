//! The history of a script's run: observations, outcomes, the order of events in time, and the last state.

use super::program::{Script, Seen, State};
use std::fmt;

/// The history that is judged.
#[derive(Clone, Debug)]
pub struct History {
    /// One per transaction of the script.
    pub transactions: Vec<Observed>,
    /// The state after all transactions had ended.
    pub last: State,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has committed.
    Committed,
    /// Its script aborted it.
    GaveUp,
    /// The scheme aborted it.
    Conflict,
}

/// The observations of one transaction.
///
/// Invariant: `begins < begun < ends < ended`, where both of a pair are known. The times are those of one clock, which
/// ticks at each event. An act between two events happens at an unknown time between them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The results of its operations, in order.
    pub seen: Vec<Seen>,
    /// The values that its looks at the commit have seen, in the order of tables and keys.
    pub looked: Vec<Option<i64>>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was about to begin.
    pub begins: u32,
    /// When it had begun.
    pub begun: u32,
    /// When it was about to commit. 0 if it never was.
    pub ends: u32,
    /// When it had ended.
    pub ended: u32,
}

impl Observed {
    /// Returns true if it committed.
    pub fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// Returns true if it tried to commit, and an update that it had left for the commit failed.
    pub fn is_refused(&self) -> bool {
        self.outcome == Outcome::GaveUp && self.ends > 0
    }
}

/// A history as text, together with its script.
#[derive(Debug)]
pub struct Described<'h>(pub &'h Script, pub &'h History);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described(script, history) = self;
        for (transaction, observed) in script.transactions.iter().zip(&history.transactions) {
            let Observed { outcome, begins, begun, ends, ended, .. } = observed;
            writeln!(
                f,
                "{}: {outcome:?}, began at {begins}..{begun}, ended at {ends}..{ended}",
                transaction.name
            )?;
            writeln!(f, "  saw {:?}", observed.seen)?;
            if !observed.looked.is_empty() {
                writeln!(f, "  looked at {:?}", observed.looked)?;
            }
        }
        write!(f, "last:")?;
        for ((table, key), value) in &history.last {
            write!(f, " {}[{key}]={value}", script.tables[*table as usize])?;
        }
        Ok(())
    }
}
