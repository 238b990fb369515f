//! Faults, and when they strike.

use braiddb::storage::Operation;

/// A fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails without an effect. Any operation.
    Fail,
    /// There is no room, so it fails without an effect. Create, write, preallocate.
    Full,
    /// It does only a part, and says how much. Read, write.
    Short,
    /// It writes some of its sectors and fails. Write.
    Torn,
    /// It fails. Some of the pending changes are durable, and the others never will be, although later syncs succeed.
    /// The seed decides whether reads still see what was written or see what is on the disk. Sync of data or names.
    DropUnsynced,
    /// It takes additional virtual ticks and succeeds. Any operation.
    Slow {
        /// The number of additional ticks.
        ticks: u64,
    },
    /// One bit is wrong: permanently in a write, once in a read. It reports success.
    BitFlip,
    /// The data is written to another place, in this file or another. The intended place stays as it was, except that
    /// the file has its new length. It reports success. Write.
    Misdirected,
    /// Nothing is written, so later reads are stale. The file has its new length. It reports success. Write.
    Lost,
}

impl Fault {
    /// Returns true if this fault can happen to this operation.
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

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    Once,
    ForEver,
    Every,
}

/// A fault that strikes the n-th operation of a kind, counted from 1 when the rule is given.
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

    /// Strikes the n-th operation of the kind, or of any kind, and no other.
    pub fn once(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::Once, fault)
    }

    /// Strikes the n-th operation of the kind, or of any kind, and all that follow.
    pub fn for_ever(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::ForEver, fault)
    }

    /// Strikes every n-th operation of the kind, or of any kind.
    pub fn every(operation: impl Into<Option<Operation>>, nth: u64, fault: Fault) -> FaultRule {
        FaultRule::new(operation.into(), nth, Repeat::Every, fault)
    }

    /// Returns true if the fault loses names that stay visible while the machine runs.
    pub fn loses_names(&self) -> bool {
        (self.operation, self.fault) == (Some(Operation::SyncDirectory), Fault::DropUnsynced)
    }

    /// Counts an operation, and returns the fault that strikes it.
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
