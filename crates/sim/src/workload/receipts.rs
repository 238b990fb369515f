//! Receipts go into the open batch, batches are closed, and the report of a closed batch must never change
//! (PostgreSQL's test `receipt-report`). Under snapshot isolation a receipt can still enter a batch that another
//! transaction has closed and a third one has reported.

use super::{Made, Workload, digest, digest_rows};
use crate::isolation::Isolation;
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::recording::{Recording, Rows};
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

struct Receipts {
    rows: Rows,
    ledger: Ledger,
    reports: Rc<RefCell<Reports>>,
    begun: u64,
}

/// The receipts of each closed batch, as in its first report.
type Reports = BTreeMap<u32, Vec<(u64, u32)>>;

/// The key of the open batch's number, below all receipts. If it has no row, the number is 0.
const OPEN_BATCH: u64 = 0;

/// The workload.
pub fn receipts<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let (rows, ledger, reports) = (database.table("receipts")?, ledger.clone(), Rc::default());
    Ok(Box::new(Receipts { rows, ledger, reports, begun: 0 }))
}

fn key(batch: u32, receipt: u64) -> u64 {
    u64::from(batch + 1) << 32 | receipt
}

/// Notes that a committed transaction has reported these batches.
fn report(reports: &RefCell<Reports>, ledger: &Ledger, batches: Reports) {
    for (batch, receipts) in batches {
        let mut reports = reports.borrow_mut();
        let before = reports.entry(batch).or_insert_with(|| receipts.clone());
        ledger.check_under(Isolation::Serial, *before == receipts, || {
            format!("closed batch {batch} was reported as {before:?} and as {receipts:?}")
        });
    }
}

/// Returns the receipts of the batches from one up to, but not including, another.
async fn closed<C: ConcurrencyControl>(
    recording: &Recording<'_, C>,
    rows: Rows,
    from: u32,
    to: u32,
    is_reverse: bool,
) -> Result<Reports> {
    let mut batches: Reports = (from..to).map(|batch| (batch, Vec::new())).collect();
    if from < to {
        for (key, amount) in recording.scan(rows, key(from, 0)..=key(to, 0) - 1, is_reverse).await? {
            batches.entry((key >> 32) as u32 - 1).or_default().push((key, amount));
        }
    }
    Ok(batches)
}

impl<C: ConcurrencyControl> Workload<C> for Receipts {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, receipt, amount) = (self.rows, self.begun, random.below(100) as u32);
        self.begun += 1;
        let (kind, is_reverse) = (random.below(10), random.chance(50));
        let body = async move |recording: &Recording<'_, C>| {
            let open = recording.get(rows, OPEN_BATCH).await?.unwrap_or(0);
            match kind {
                0..5 => recording.insert(rows, key(open, receipt), amount).await.map(|_| Reports::new()),
                5..7 => recording.put(rows, OPEN_BATCH, open + 1).await.map(|()| Reports::new()),
                _ => closed(recording, rows, open.saturating_sub(1), open, is_reverse).await,
            }
        };
        let (reports, ledger) = (self.reports.clone(), self.ledger.clone());
        submitter.spawn_recorded(body, move |batches| report(&reports, &ledger, batches));
    }

    /// Reports every closed batch.
    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let rows = self.rows;
        let batches = observer.recorded(async |recording| {
            let open = recording.get(rows, OPEN_BATCH).await?.unwrap_or(0);
            closed(recording, rows, 0, open, false).await
        })?;
        let seen = batches.values().fold(0, |seen, rows| digest(seen, &digest_rows(rows).to_le_bytes()));
        let (reports, ledger) = (self.reports.clone(), self.ledger.clone());
        let committed = move || report(&reports, &ledger, batches);
        Ok(Look { digest: seen, committed: Some(Box::new(committed)) })
    }
}
