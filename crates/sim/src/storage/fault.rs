//! What goes wrong, and when.

use braiddb::storage::Operation;

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and has done nothing. Any operation.
    Fail,
    /// There is no room: it fails and has done nothing. Create, write, preallocate.
    Full,
    /// It does only a part, and says how much. Read, write.
    Short,
    /// It writes any of its sectors, and fails. Write.
    Torn,
    /// It fails; some of what was to be synced is durable, and the rest will never be, although later syncs
    /// succeed. By seed, reads go on seeing what was written, or what is on the disk. Sync of data or names.
    DropUnsynced,
    /// It takes so many virtual ticks more, and succeeds. Any operation.
    Slow {
        /// How many.
        ticks: u64,
    },
    /// One bit is wrong: for good if it is a write, this once if it is a read. It reports success.
    BitFlip,
    /// The data lands somewhere else, in this file or another; where it should be, all stays as it was, but
    /// for the length of the file. It reports success. Write.
    Misdirected,
    /// Nothing is written, so that later reads are stale; the file has its new length. It reports success.
    Lost,
}

impl Fault {
    /// Whether this can happen to such an operation.
    pub fn applies_to(self, operation: Operation) -> bool {
        use Operation::{Create, Preallocate, Read, SyncData, SyncDirectory, Write};
        match self {
            Fault::Fail | Fault::Slow { .. } => true,
            Fault::Full => matches!(operation, Create | Write | Preallocate),
            Fault::Short | Fault::BitFlip => matches!(operation, Read | Write),
            Fault::Torn | Fault::Misdirected | Fault::Lost => operation == Write,
            Fault::DropUnsynced => matches!(operation, SyncData | SyncDirectory),
        }
    }
}

/// How often a fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    Once,
    ForEver,
    Every,
}

/// A fault that comes with the n-th operation of a kind, counted from 1 when the rule is given.
#[derive(Clone, Debug)]
pub struct FaultRule {
    operation: Option<Operation>,
    nth: u64,
    repeat: Repeat,
    fault: Fault,
    seen: u64,
}

impl FaultRule {
    fn new(operation: Option<Operation>, nth: u64, repeat: Repeat, fault: Fault) -> FaultRule {
        assert!(nth > 0, "operations are counted from 1");
        match operation {
            Some(operation) => assert!(fault.applies_to(operation), "{fault:?} cannot happen to {operation}"),
            None => assert!(
                matches!(fault, Fault::Fail | Fault::Slow { .. }),
                "{fault:?} cannot happen to every operation"
            ),
        }
        FaultRule { operation, nth, repeat, fault, seen: 0 }
    }

    /// The n-th operation of the kind, or of any kind, and no other.
    pub fn once(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::Once, fault)
    }

    /// The n-th operation of the kind, or of any kind, and all that follow.
    pub fn for_ever(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::ForEver, fault)
    }

    /// Every n-th operation of the kind, or of any kind.
    pub fn every(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::Every, fault)
    }

    /// Whether names are lost by it that can be seen for as long as the machine runs.
    pub fn loses_names(&self) -> bool {
        (self.operation, self.fault) == (Some(Operation::SyncDirectory), Fault::DropUnsynced)
    }

    /// Counts an operation, and says what happens to it.
    pub(super) fn meet(&mut self, operation: Operation) -> Option<Fault> {
        if self.operation.is_some_and(|of| of != operation) {
            return None;
        }
        self.seen += 1;
        let is_hit = match self.repeat {
            Repeat::Once => self.seen == self.nth,
            Repeat::ForEver => self.seen >= self.nth,
            Repeat::Every => self.seen.is_multiple_of(self.nth),
        };
        is_hit.then_some(self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves at which operations each kind of rule strikes.
    #[test]
    fn rules_strike_when_they_should() {
        let hits = |mut rule: FaultRule| -> Vec<u64> {
            (1..=7)
                .filter(|_| {
                    assert_eq!(rule.meet(Operation::Read), None);
                    rule.meet(Operation::Write).is_some()
                })
                .collect()
        };
        assert_eq!(hits(FaultRule::once(Operation::Write, 3, Fault::Torn)), [3]);
        assert_eq!(hits(FaultRule::for_ever(Operation::Write, 5, Fault::Torn)), [5, 6, 7]);
        assert_eq!(hits(FaultRule::every(Operation::Write, 3, Fault::Torn)), [3, 6]);
        let mut any = FaultRule::once(None, 2, Fault::Fail);
        assert_eq!((any.meet(Operation::Read), any.meet(Operation::List)), (None, Some(Fault::Fail)));
    }

    /// Proves that a fault is refused where it cannot happen.
    #[test]
    #[should_panic(expected = "Torn cannot happen to sync")]
    fn impossible_faults_are_refused() {
        FaultRule::once(Operation::SyncData, 1, Fault::Torn);
    }
}
