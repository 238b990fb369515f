//! Errors planted in the engine's serializable scheme. The scripts have to find each of them. Otherwise they would
//! prove nothing about the scheme without errors.

use braid_sim::Kind;
use braid_sim::script::program::Script;
use braid_sim::script::{History, Player, Schedule, check_random, check_script, play, spec};
use braid_sim::{Isolation, SCHEMES};
use braiddb::metrics::SystemClock;
use braiddb::suspend::OnMiss;
use braiddb::testing::{CHOSEN, Planted, choose, planted};
use braiddb::worker::Worker;
use braiddb::{ConcurrencyControl, Database, Options, Serializable, Table};
use std::sync::Arc;

/// The scheme with an error. It has the promise of the scheme without errors.
struct Erring(u32);

impl Player for Erring {
    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        choose(self.0);
        play::<Planted<CHOSEN>>(script, schedule, Kind::default())
    }
}

/// The number of seeds of random scripts within which an error has to be found.
const SEEDS_MAX: u64 = 200_000;

/// Returns how a random script shows an error.
fn at_random(error: u32) -> Option<String> {
    let failure = |seed| check_random(&Erring(error), seed..seed + 1).failures.pop();
    (0..SEEDS_MAX).find_map(failure).map(|failure| failure.what)
}

/// Returns how one script shows an error in all its interleavings.
fn in_spec(error: u32, name: &str) -> Option<String> {
    let script = spec(name).expect("there is a script of that name").expect("it can be read");
    let mut failures = Vec::new();
    check_script(&Erring(error), &script, u64::MAX, &mut failures);
    failures.first().map(|failure| failure.what.clone())
}

macro_rules! planted_tests {
    ($($(#[$doc:meta])* $test:ident: $bug:ident, $($spec:literal)?;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            let found = planted_tests!(@find planted::$bug, $($spec)?);
            println!("{}: {}", stringify!($bug), found.expect("the error is found"));
        }
    )*};
    (@find $bug:expr,) => { at_random($bug) };
    (@find $bug:expr, $spec:literal) => { in_spec($bug, $spec) };
}

planted_tests! {
    /// Proves that the loss of a commit's early order is found (a stamp for which 0 means unset).
    stamp_lost: STAMP_LOST, "g2-two-edges";
    /// Proves that a scan that leaves no trace of what it could not see yet is found.
    invisible_untracked: INVISIBLE_UNTRACKED, "receipt-report";
    /// Proves that an insert that does not ask for earlier readers of the gap is found.
    gap_readers_forgotten: GAP_READERS_FORGOTTEN, "g2";
    /// Proves that an unannounced declared reader is found (Fekete's anomaly).
    read_only_unannounced: READ_ONLY_UNANNOUNCED, "g2-read-only";
    /// Proves that snapshots that see half of a commit are found.
    torn_commit: TORN_COMMIT,;
    /// Proves that invisible readers are found.
    readers_on_a_copy: READERS_ON_A_COPY, "simple-write-skew";
    /// Proves that a commit without validation is found.
    no_validation: NO_VALIDATION, "simple-write-skew";
    /// Proves that ranges that are not scanned again are found.
    no_rescan: NO_RESCAN, "g2";
    /// Proves that a timestamp drawn before the reader is in the log is found.
    drawn_too_early: DRAWN_TOO_EARLY,;
    /// Proves that a reader that is removed too early is found.
    reader_cleared_early: READER_CLEARED_EARLY, "simple-write-skew";
    /// Proves that a commit that does not wait for an earlier commit is found.
    no_wait: NO_WAIT,;
    /// Proves that an order that contradicts real time is found.
    no_real_time: NO_REAL_TIME,;
    /// Proves that readers that are never validated are found.
    readers_not_validated: READERS_NOT_VALIDATED, "receipt-report";
    /// Proves that a read of nothing that leaves no trace is found.
    absence_untracked: ABSENCE_UNTRACKED, "update-conflict-out";
    /// Proves that a split that loses the stamp of a node is found.
    split_loses_stamp: SPLIT_LOSES_STAMP,;
    /// Proves that an overwriter whose order is ignored is found.
    overwriter_not_followed: OVERWRITER_NOT_FOLLOWED, "simple-write-skew";
    /// Proves that reads of columns that leave no trace are found.
    copies_untracked: COPIES_UNTRACKED,;
    /// Proves that an addition to a value written after the snapshot is found if its transaction is ordered before this
    /// write.
    late_ordered_early: LATE_ORDERED_EARLY, "increase-late";
    /// Proves that a look at the commit that leaves no trace is found.
    left_rows_untracked: LEFT_ROWS_UNTRACKED, "look-write-skew";
}

/// Proves that logs that wrap around all the time cause conflicts, and nothing else.
#[test]
fn small_logs_are_no_error() {
    let report = check_random(&Erring(planted::SMALL_LOGS), 0..5_000);
    assert_eq!(report.failures.len(), 0, "{}", report.failures[0]);
    let usual = check_random(&SCHEMES[0], 0..5_000);
    assert!(report.aborted >= usual.aborted, "{} and {}", report.aborted, usual.aborted);
}

/// A reader's snapshot lies between two writers, of which one must be ordered before the other. What the reader has
/// read is then overwritten so often that versions in between are unlinked while it is open. Returns true if the reader
/// commits.
fn reader_among_many_versions<C: ConcurrencyControl>() -> bool {
    const UPDATES: u64 = 10_000; // enough that versions between open snapshots are unlinked
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<C> =
        Database::in_memory_with(options, Arc::new(SystemClock::default())).expect("memory");
    let t: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker: Worker<C, OnMiss> = db.worker();
    let mut put =
        |key, value| worker.run(async |tx| tx.put(t, key, value).await).expect("nobody is in the way");
    put(1, 0);
    put(2, 0);
    let early = db.begin().expect("few are open");
    assert_eq!(early.get(t, 2).expect("it is there"), Some(0));
    put(2, 1); // so that `early`, if it commits, is ordered before this
    let reader = db.begin().expect("few are open");
    assert_eq!(reader.get(t, 2).expect("it is there"), Some(1));
    assert_eq!(reader.get(t, 1).expect("it is there"), Some(0));
    early.put(t, 1, 1).expect("nobody has written it");
    early.commit().expect("the reader has not committed"); // and the reader is ordered before this
    for value in 2..UPDATES {
        put(1, value);
    }
    worker.maintain();
    reader.commit().is_ok()
}

/// Proves that unlinking a version is found if a transaction has read the version that it superseded.
#[test]
fn successor_unlinked() {
    assert!(reader_among_many_versions::<braiddb::Snapshot>(), "a reader of a snapshot never gives way");
    assert!(!reader_among_many_versions::<Serializable>(), "no serial order explains what it has read");
    choose(planted::SUCCESSOR_UNLINKED);
    assert!(reader_among_many_versions::<Planted<CHOSEN>>(), "the error is not found");
}

/// Runs a reader that finds nothing under a key, like `reader_among_many_versions` with a value. The key is then
/// inserted, and is deleted again if it `goes`. Returns true if the reader commits.
fn reader_of_a_gap<C: ConcurrencyControl>(goes: bool) -> bool {
    let (db, t) = table::<C>();
    let mut worker: Worker<C, OnMiss> = db.worker();
    put(&mut worker, t, 2, 0);
    let early = db.begin().expect("few are open");
    assert_eq!(early.get(t, 2).expect("it is there"), Some(0));
    put(&mut worker, t, 2, 1); // so that `early`, if it commits, is ordered before this
    let reader = db.begin().expect("few are open");
    assert_eq!(reader.get(t, 2).expect("it is there"), Some(1));
    assert_eq!(reader.get(t, 1).expect("a table"), None);
    early.put(t, 1, 1).expect("nobody has written it");
    early.commit().expect("the reader has not committed"); // and the reader is ordered before this
    if goes {
        worker.run(async |tx| tx.delete(t, 1).await.map(drop)).expect("nobody is in the way");
    } else {
        put(&mut worker, t, 1, 2);
    }
    make_garbage(&db, &mut worker, t);
    reader.commit().is_ok()
}

/// Proves that a reader is ordered before the first writer of a key that it had not found, whatever has become of this
/// key.
#[test]
fn first_versions_stay() {
    for goes in [false, true] {
        assert!(reader_of_a_gap::<braiddb::Snapshot>(goes), "a reader of a snapshot never gives way");
        assert!(!reader_of_a_gap::<Serializable>(goes), "no serial order explains what it has read");
    }
}

/// A transaction T has found nothing under a key. The transaction that inserts the key is ordered before a second
/// transaction, the second before a third, and the third before T. The transaction that deletes the key is ordered
/// after T. Returns true if T commits.
fn gap_in_a_circle<C: ConcurrencyControl>() -> bool {
    const Q: u64 = 1;
    const Y: u64 = 2;
    const Z: u64 = 3;
    const KEY: u64 = 4;
    let (db, t) = table::<C>();
    let mut worker: Worker<C, OnMiss> = db.worker();
    [Q, Y, Z].into_iter().for_each(|key| put(&mut worker, t, key, 0));
    let begin = || db.begin().expect("few are open");
    let (late, inserts) = (begin(), begin());
    assert_eq!(late.get(t, KEY).expect("a table"), None);
    assert_eq!(late.get(t, Z).expect("it is there"), Some(0));
    assert_eq!(inserts.get(t, Q).expect("it is there"), Some(0));
    put(&mut worker, t, Q, 1); // after `inserts`
    let third = begin();
    assert_eq!(third.get(t, Q).expect("it is there"), Some(1));
    assert_eq!(third.get(t, Y).expect("it is there"), Some(0)); // before `late`
    put(&mut worker, t, 98, 0); // else it is ordered at its snapshot, as a reader of everything
    third.commit().expect("nothing is in its way");
    inserts.put(t, KEY, 1).expect("nobody has written it");
    inserts.commit().expect("it comes before what has overwritten its read");
    put(&mut worker, t, Z, 1); // after `late`
    let deletes = begin();
    assert_eq!(deletes.get(t, Z).expect("it is there"), Some(1));
    assert!(deletes.delete(t, KEY).expect("nobody has written it"));
    deletes.commit().expect("nothing is in its way");
    make_garbage(&db, &mut worker, t);
    let is_written = late.put(t, Y, 1).is_ok();
    is_written && late.commit().is_ok()
}

/// Proves that a deleted key that is taken for a key that never existed is found.
#[test]
fn departed_forgotten() {
    assert!(gap_in_a_circle::<braiddb::Snapshot>(), "snapshots allow it");
    assert!(!gap_in_a_circle::<Serializable>(), "no serial order explains what it has read");
    choose(planted::DEPARTED_FORGOTTEN);
    assert!(gap_in_a_circle::<Planted<CHOSEN>>(), "the error is not found");
}

/// Opens a snapshot just after a row was written, and writes the row many times. Returns the value that the snapshot
/// reads.
fn read_after_many_versions<C: ConcurrencyControl>() -> Option<u64> {
    let (db, t) = table::<C>();
    let mut worker: Worker<C, OnMiss> = db.worker();
    put(&mut worker, t, 1, 1);
    put(&mut worker, t, 1, 2);
    let reader = db.begin().expect("few are open");
    put(&mut worker, t, 1, 3);
    make_garbage(&db, &mut worker, t);
    reader.get(t, 1).expect("a table")
}

/// Proves that an interval that begins too late is found.
#[test]
fn interval_late() {
    assert_eq!(read_after_many_versions::<Serializable>(), Some(2));
    choose(planted::INTERVAL_LATE);
    let found = read_after_many_versions::<Planted<CHOSEN>>();
    assert_ne!(found, Some(2), "the error is not found");
}

fn table<C: ConcurrencyControl>() -> (Database<C>, Table<u64, u64>) {
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<C> =
        Database::in_memory_with(options, Arc::new(SystemClock::default())).expect("memory");
    let t = db.table("t").expect("memory");
    (db, t)
}

fn put<C: ConcurrencyControl>(worker: &mut Worker<C, OnMiss>, t: Table<u64, u64>, key: u64, value: u64) {
    worker.run(async |tx| tx.put(t, key, value).await).expect("nobody is in the way");
}

/// Writes another row so often that versions that no snapshot sees are removed.
fn make_garbage<C: ConcurrencyControl>(db: &Database<C>, worker: &mut Worker<C, OnMiss>, t: Table<u64, u64>) {
    for value in 3..3000 {
        put(worker, t, 99, value);
    }
    for _ in 0..10 {
        worker.maintain();
        db.maintain();
    }
}

/// Proves that every error that can be planted has a test.
#[test]
fn none_is_left_out() {
    let source = include_str!("planted_schemes.rs");
    for (_, name) in planted::ALL {
        assert!(
            source.contains(&format!(": {name},")) || source.contains(&format!("planted::{name});")),
            "{name}"
        );
    }
}
