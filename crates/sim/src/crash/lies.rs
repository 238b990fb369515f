//! Disks that report success falsely. Recovery must notice it, or nothing was harmed.

use super::explore::{CAPACITY, copy_of};
use super::life::{Course, live, open};
use super::oracle::judge;
use super::trace::Trace;
use super::{Failure, Mistake, Place};
use crate::kind::Kind;
use crate::storage::{Fault, FaultRule, SimulatedStorage};
use braiddb::Serializable;
use braiddb::storage::Operation;

/// The outcome of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The lie never happened, because the disk got fewer writes.
    Untold,
    /// Nothing was harmed.
    Harmless,
    /// The newest checkpoint was damaged, and recovery used the checkpoint before it.
    Replaced,
    /// The database or its recovery said what is damaged.
    Refused,
}

/// Lives on a disk whose n-th write is a lie, closes the database in order, and recovers. Recovery gives the right
/// state, or fails with an error that says where the damage is. The close is needed: in a log that was not closed,
/// damage in the last run cannot be told from a write that was never completed.
pub fn check_lie(seed: u64, fault: Fault, nth: u64) -> Result<Lie, Box<Failure>> {
    let storage = SimulatedStorage::new(seed ^ nth << 32, CAPACITY);
    storage.inject(FaultRule::once(Operation::Write, nth, fault));
    let fails = |what: String| {
        let what = format!("{fault:?} at write {nth}: {what}");
        Box::new(Failure { seed, place: Place::default(), after: String::new(), what })
    };
    let course = Course {
        seed,
        transactions: 30,
        mistake: Mistake::None,
        others: false,
        may_fail: false,
        reopens: false,
        closes: true,
        kind: Kind::default(),
    };
    let lived = live::<Serializable>(&storage, &Trace::default(), 0, &course);
    if storage.faults_injected() == 0 {
        return lived.map(|_| Lie::Untold).map_err(fails);
    }
    let trace = match lived {
        Ok(trace) => trace,
        Err(what) => return if says_where(&what) { Ok(Lie::Refused) } else { Err(fails(what)) },
    };
    let (boundary, copy) = (storage.boundary(), copy_of(&storage));
    match open::<Serializable>(&copy, Mistake::None, seed, Kind::default()) {
        Err(error) if says_where(&error.to_string()) => Ok(Lie::Refused),
        Err(error) => Err(fails(format!("an error that does not say where: {error}"))),
        Ok((database, stepped)) => {
            let is_replaced = !database.recovery().expect("durable").damaged_checkpoints.is_empty();
            let judged = judge(&trace, boundary, &database);
            drop((stepped, database));
            judged.map_err(fails)?;
            Ok(if is_replaced { Lie::Replaced } else { Lie::Harmless })
        }
    }
}

/// Returns true if an error names a file, or a position in the log.
fn says_where(error: &str) -> bool {
    ["log-", "rows-", "checkpoint-", "\"database\"", "\"closed\"", "lsn"]
        .iter()
        .any(|name| error.contains(name))
}
