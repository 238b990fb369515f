//! What a run of a script has shown: observations, outcomes, the order of events in time, and the last state.

use super::program::{Script, Seen, State};
use std::fmt;

/// Everything that is judged.
#[derive(Clone, Debug)]
pub struct History {
    /// One per transaction of the script.
    pub transactions: Vec<Observed>,
    /// What was there when all had ended.
    pub last: State,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in.
    Committed,
    /// Its script gave it up.
    GaveUp,
    /// The scheme gave it up.
    Conflict,
}

/// What one transaction has shown.
///
/// Invariant: `begins < begun < ends < ended`, where both of a pair are known. Times are those of one clock that
/// ticks at each event; what really happens between two of them happens at an unknown time between.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What its operations have shown, in order.
    pub seen: Vec<Seen>,
    /// The values that looks at the commit have seen, in the order of tables and keys.
    pub looked: Vec<Option<i64>>,
    /// How it ended.
    pub outcome: Outcome,
    /// It was about to begin.
    pub begins: u32,
    /// It had begun.
    pub begun: u32,
    /// It was about to commit; 0: it never was.
    pub ends: u32,
    /// It had ended.
    pub ended: u32,
}

impl Observed {
    /// It committed.
    pub fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// It wanted to commit, and something that it had left for its commit failed.
    pub fn is_refused(&self) -> bool {
        self.outcome == Outcome::GaveUp && self.ends > 0
    }
}

/// A history in words, beside its script.
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
