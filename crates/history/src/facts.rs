//! What the later passes share: compact columns of the transactions, and the findings up to now.

use crate::keys::Keys;
use crate::model::{History, Status};
use crate::verdict::{Anomaly, Class, Model, Order};
use std::collections::BTreeMap;

/// No stamp, no time.
pub(crate) const NONE: u64 = u64::MAX;

/// The number of anomalies of one class that are put into words. All anomalies are counted.
const WORDED_MAX: u64 = 100;

/// The columns that the hot passes read, indexed by place in the history.
pub(crate) struct Facts<'h> {
    pub history: &'h History,
    pub keys: Keys<'h>,
    pub order: Order,
    pub status: Vec<Status>,
    /// True if the transaction counts as committed. A transaction of `Unknown` outcome counts once its writes were
    /// seen.
    pub counted: Vec<bool>,
    pub snapshot: Vec<u64>,
    pub commit: Vec<u64>,
}

impl<'h> Facts<'h> {
    pub fn of(history: &'h History, order: Order) -> Self {
        let all = history.transactions();
        let stamp = |stamp: Option<u64>| match order {
            Order::Stamps => stamp.unwrap_or(NONE),
            Order::Values => NONE,
        };
        Self {
            history,
            keys: Keys::of(history),
            order,
            status: all.iter().map(|transaction| transaction.status).collect(),
            counted: all.iter().map(|transaction| transaction.status == Status::Committed).collect(),
            snapshot: all.iter().map(|transaction| stamp(transaction.snapshot)).collect(),
            commit: all.iter().map(|transaction| stamp(transaction.commit)).collect(),
        }
    }

    /// The id of the transaction at a place.
    pub fn id(&self, place: u32) -> u64 {
        self.history.transactions()[place as usize].id
    }
}

/// The models that an observation violates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Strict,
    Snapshot,
}

impl Scope {
    pub fn concerns(self, model: Model) -> bool {
        match self {
            Self::All => true,
            Self::Strict => model == Model::StrictSerializable,
            Self::Snapshot => model == Model::SnapshotIsolation,
        }
    }
}

/// Anomalies that need no cycle.
#[derive(Default)]
pub(crate) struct Findings {
    pub found: Vec<(Scope, Anomaly)>,
    counts: BTreeMap<Class, (u64, u64, u64)>,
}

impl Findings {
    /// Counts an anomaly. While there are few of its class, also puts it into words.
    pub fn add(
        &mut self,
        scope: Scope,
        class: Class,
        facts: &Facts<'_>,
        who: &[u32],
        text: impl FnOnce() -> String,
    ) {
        let (all, strict, snapshot) = self.counts.entry(class).or_default();
        let count = match scope {
            Scope::All => all,
            Scope::Strict => strict,
            Scope::Snapshot => snapshot,
        };
        *count += 1;
        if *count <= WORDED_MAX {
            let transactions = who.iter().map(|place| facts.id(*place)).collect();
            self.found.push((scope, Anomaly { class, transactions, text: text(), cycle: Vec::new() }));
        }
    }

    /// The number of anomalies that concern a model.
    pub fn count(&self, model: Model) -> u64 {
        let scoped = |count: u64, scope: Scope| if scope.concerns(model) { count } else { 0 };
        self.counts
            .values()
            .map(|(all, strict, snapshot)| {
                all + scoped(*strict, Scope::Strict) + scoped(*snapshot, Scope::Snapshot)
            })
            .sum()
    }
}
