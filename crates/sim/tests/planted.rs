//! Planted bugs that the simulator must find: a check that has never failed shows little.

use braid_sim::workload::Made;
use braid_sim::workload::{
    MakeWorkload, counters_losing_updates, fork_torn, indexed_torn, monotonic_stale, moves_torn, pairs_torn,
    sets_losing_elements,
};
use braid_sim::{
    Entry, Isolation, Ledger, Look, Observer, Random, Recording, Rows, Scheme, Settings, Submitter,
    Violation, Workload, WorkloadId, run,
};
use braiddb::{Database, Error, Result, Snapshot};
use std::cell::Cell;

const SEEDS: u64 = 20;

/// Checks that a bug in a workload is found. `is_recorded` says whether the workload records.
fn finds(make: MakeWorkload<Snapshot>, is_recorded: bool, what: &str) {
    let entry = Entry::new("planted", Isolation::Snapshot, is_recorded, make);
    check(what, |settings| run(&entry, settings, Isolation::Snapshot).map(drop));
}

/// Checks that most seeds find the bug and describe it with these words.
fn check(what: &str, run: impl Fn(&Settings) -> Result<(), Violation>) {
    let violations: Vec<_> =
        (0..SEEDS).filter_map(|seed| run(&Settings { seed, ..Settings::default() }).err()).collect();
    let found = violations.iter().filter(|violation| violation.what.contains(what)).count() as u64;
    assert!(found > SEEDS / 2, "{found} of {SEEDS} seeds found {what:?}: {violations:?}");
}

/// A reader that is split over two transactions is found.
#[test]
fn torn_pairs_are_found() {
    finds(pairs_torn, false, "a pair is torn");
}

/// An increment whose read and write are two transactions is found.
#[test]
fn lost_updates_are_found() {
    finds(counters_losing_updates, false, "two increments made");
}

/// A sum that two transactions read is found.
#[test]
fn torn_sums_are_found() {
    finds(moves_torn, true, "rows scanned in two transactions add up to");
}

/// An index that is read in another transaction than its rows is found.
#[test]
fn torn_indexes_are_found() {
    finds(indexed_torn, false, "the indexes find");
}

/// Readers that disagree on an order, because each reads in two transactions, are found.
#[test]
fn long_forks_are_found() {
    finds(fork_torn, true, "each came first to some reader");
}

/// An element that was acknowledged and is missing is found.
#[test]
fn lost_elements_are_found() {
    finds(sets_losing_elements, true, "element");
}

/// A reader that answers from a cache is found.
#[test]
fn stale_reads_are_found() {
    finds(monotonic_stale, true, "had been acknowledged");
}

/// Snapshot isolation judged as serializable is found by the workloads that need serializability.
#[test]
fn snapshot_isolation_is_not_serializable() {
    let claims = Scheme::named("snapshot").expect("the engine has it").judged_by(Isolation::Serializable);
    let needing: Vec<_> =
        WorkloadId::all().filter(|workload| workload.needs() == Isolation::Serial).collect();
    assert_eq!(needing.len(), 4, "the table below names each");
    let messages = [
        ("skew", "nobody is left"),
        ("receipts", "was reported as"),
        ("sets", "and both added to it"),
        ("indexed", "at most 4 should"),
    ];
    for (name, what) in messages {
        let workload = WorkloadId::named(name).expect("it is in the table");
        assert!(needing.contains(&workload), "{name}");
        check(what, |settings| claims.run(workload, settings).map(drop));
    }
}

/// The fault of a [`Faulty`] workload.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// It panics.
    Panics,
    /// Each look sees something else.
    LooksDiffer,
    /// Each look is refused.
    LooksConflict,
    /// Some of its writes are not recorded, as if the engine had invented them.
    WritesByItself,
}

/// A workload that writes rows, with a fault.
struct Faulty {
    rows: Rows,
    fault: Fault,
    looks: Cell<u64>,
}

fn faulty<const FAULT: u8>(database: &Database<Snapshot>, _: &mut Random, _: &Ledger) -> Made<Snapshot> {
    let faults = [Fault::Panics, Fault::LooksDiffer, Fault::LooksConflict, Fault::WritesByItself];
    let (rows, fault) = (database.table("rows")?, faults[FAULT as usize]);
    Ok(Box::new(Faulty { rows, fault, looks: Cell::new(0) }))
}

impl Workload<Snapshot> for Faulty {
    fn begin(&mut self, submitter: &mut Submitter<'_, Snapshot>, random: &mut Random) {
        let (rows, fault, key) = (self.rows, self.fault, random.below(5));
        assert!(fault != Fault::Panics, "planted");
        let is_own = fault == Fault::WritesByItself && random.chance(10);
        let body = async move |recording: &Recording<'_, Snapshot>| {
            recording.get(rows, key).await?;
            if is_own { recording.tx().put(rows, key, 0).await } else { recording.put(rows, key, 0).await }
        };
        submitter.spawn_recorded(body, |()| ());
    }

    fn look(&self, _: &Observer<Snapshot>) -> Result<Look> {
        self.looks.set(self.looks.get() + 1);
        match self.fault {
            Fault::LooksDiffer => Ok(self.looks.get().into()),
            Fault::LooksConflict => Err(Error::Conflict),
            _ => Ok(0.into()),
        }
    }
}

/// A panic, a changing snapshot of an observer, and unrecorded writes are found, whatever the workload says.
#[test]
fn the_simulator_finds_by_itself() {
    finds(faulty::<0>, true, "a panic: planted");
    finds(faulty::<1>, true, "an interactive transaction's snapshot has changed");
    finds(faulty::<3>, true, "the history is wrong: not snapshot isolation");
    finds(faulty::<3>, false, "the workload records, or does not");
}

/// A refused reader breaks the promise of snapshot isolation. Where readers may be refused, it is counted.
#[test]
fn refused_readers() {
    finds(faulty::<2>, true, "a look from outside failed");
    let entry = Entry::new("planted", Isolation::Snapshot, true, faulty::<2>);
    let report = run(&entry, &Settings::default(), Isolation::Serializable).expect("readers may be refused");
    assert!(report.refused > 0 && report.looks == 0, "{report:?}");
}

/// Proves that the recorded history alone shows that snapshot isolation is not serializable.
#[test]
fn histories_show_write_skew() {
    let claims = Scheme::named("snapshot").expect("the engine has it").judged_by(Isolation::Serializable);
    for name in ["mixed", "append"] {
        let workload = WorkloadId::named(name).expect("it is in the table");
        check("not strict serializable", |settings| claims.run(workload, settings).map(drop));
    }
}
