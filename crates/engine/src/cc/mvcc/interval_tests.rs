//! Tests of which versions and keys stay between snapshots. They use a random model of snapshots and writes, and the
//! number of records of a queue.

use super::tests::Hand;
use super::*;
use crate::cc::multi_version::MultiVersion;
use crate::cc::serializable::{Planted, Serializable, planted};
use crate::cc::{Snapshot, models};
use std::collections::{BTreeMap, BTreeSet};

type Bench<T> = models::Bench<Mvcc<T>>;

/// The number of keys of the model. There are few, so that each has a history. No two share a place in an index's
/// notes of keys that are gone.
const KEYS: u64 = 6;
const READERS_MAX: usize = 12;

/// An open snapshot, and what it must see.
struct Reader<T: Tracker> {
    txn: Txn<T>,
    sees: BTreeMap<u64, u8>,
    /// Keys that were written since the snapshot was opened.
    written: BTreeSet<u64>,
}

struct Model<'b, T: Tracker> {
    hand: models::Hand<'b, Mvcc<T>>,
    random: u64,
    state: BTreeMap<u64, u8>,
    /// Each key's commits since it had no record: the time, and whether the key had a value then.
    commits: BTreeMap<u64, Vec<(Timestamp, bool)>>,
    readers: Vec<Reader<T>>,
}

impl<'b, T: Tracker> Model<'b, T> {
    fn new(bench: &'b Bench<T>, seed: u64) -> Self {
        Model {
            hand: bench.hand(),
            random: seed,
            state: BTreeMap::new(),
            commits: BTreeMap::new(),
            readers: vec![],
        }
    }

    /// Returns a random number less than `below`, by SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % below
    }

    fn step(&mut self) {
        self.note_removed();
        let key = self.random(KEYS);
        match self.random(16) {
            0..=2 if self.readers.len() < READERS_MAX => {
                let (txn, sees) = (self.hand.begin(), self.state.clone());
                self.readers.push(Reader { txn, sees, written: BTreeSet::new() });
            }
            3..=4 if !self.readers.is_empty() => {
                let reader = self.take_reader();
                self.hand.abort(reader.txn);
            }
            5 if !self.readers.is_empty() => self.write_late(key),
            6..=7 => _ = Mvcc::<T>::maintain(self.hand.env()),
            8..=9 => self.prune(),
            _ => self.write(key),
        }
        self.read(key);
    }

    fn take_reader(&mut self) -> Reader<T> {
        let at = self.random(self.readers.len() as u64) as usize;
        self.readers.swap_remove(at)
    }

    /// Commits a change in a new transaction.
    fn write(&mut self, key: u64) {
        let value = self.random(256) as u8;
        let bytes = [value; 9];
        let change = if self.random(2) == 0 { Change::Delete } else { Change::Put(&bytes) };
        let mut txn = self.hand.begin();
        let begin = txn.begin();
        if self.change(&mut txn, key, change) != Ok(Written::Done) {
            return self.hand.abort(txn);
        }
        self.hand.commit(txn);
        let at = if T::IS_TIMED { begin } else { self.hand.bench.shared.now().tick() };
        let is_value = change != Change::Delete;
        self.commits.entry(key).or_default().push((at, is_value));
        match is_value {
            true => self.state.insert(key, value),
            false => self.state.remove(&key),
        };
        self.readers.iter_mut().for_each(|reader| _ = reader.written.insert(key));
    }

    fn change(&self, txn: &mut Txn<T>, key: u64, change: Change<'_>) -> Result<Written, Refused> {
        loop {
            match self.hand.change(txn, key, change) {
                Ok(Written::Gone) => {}
                made => return made,
            }
        }
    }

    /// Writes in a transaction that began long ago. The write is refused if the key was written since, and under
    /// schemes with times also if the key was read.
    fn write_late(&mut self, key: u64) {
        let Reader { mut txn, written, .. } = self.take_reader();
        let made = self.change(&mut txn, key, Change::Put(&[0; 9]));
        if written.contains(&key) {
            assert!(matches!(made, Err(Refused::Abort(_))), "a write since its snapshot was missed");
        } else if !T::IS_TIMED {
            assert_eq!(made, Ok(Written::Done), "nothing is in the way");
        }
        txn.has_missed = false;
        self.hand.abort(txn);
    }

    /// Checks that records that are gone had to go. The next commit of their keys is the first of another record.
    fn note_removed(&mut self) {
        let begins = self.begins();
        for (&key, commits) in &mut self.commits {
            if !commits.is_empty() && self.hand.find(key).is_none() {
                assert_eq!(stays::<T>(commits, &begins), 0, "what a snapshot sees is gone");
                commits.clear();
            }
        }
    }

    fn begins(&self) -> Vec<Timestamp> {
        self.readers.iter().map(|reader| reader.txn.begin()).collect()
    }

    /// Checks that each open snapshot sees what there was.
    fn read(&mut self, key: u64) {
        for reader in &mut self.readers {
            let value = self.hand.try_read(&mut reader.txn, key).expect("nothing to wait for");
            let sees = reader.sees.get(&key).map(|&value| vec![value; 9]);
            assert_eq!(value, sees, "what a snapshot sees is gone");
        }
    }

    /// Cleans up, and compares the chains with what has to stay.
    fn prune(&mut self) {
        Mvcc::<T>::relieve(self.hand.env());
        let begins = self.begins();
        for (&key, commits) in &mut self.commits {
            let (stays, stay) = (stays::<T>(commits, &begins), chain_len(&self.hand, key));
            assert!(stay >= stays, "what a snapshot sees is gone, of {commits:?} beside {begins:?}");
            assert_eq!(stay, stays, "what no snapshot sees is there, of {commits:?} beside {begins:?}");
            if stays == 0 {
                commits.clear();
            }
        }
    }
}

/// Counts the versions that a record with these commits has to keep.
fn stays<T: Tracker>(commits: &[(Timestamp, bool)], begins: &[Timestamp]) -> usize {
    let Some((_, has_value)) = commits.last() else { return 0 };
    // The number of the version that a snapshot sees, counted from 1.
    let seen = |begin: Timestamp| commits.partition_point(|&(at, _)| at <= begin);
    let sees_value = |begin| seen(begin).checked_sub(1).is_some_and(|i| commits[i].1);
    if !has_value && !begins.iter().any(|&begin| sees_value(begin)) {
        return 0;
    }
    let mut stay = BTreeSet::from([commits.len()]);
    for &begin in begins {
        stay.insert(seen(begin));
        if T::TRACKS_READS && !T::IS_TIMED {
            stay.insert(commits.len().min(seen(begin) + 1));
        }
    }
    stay.remove(&0);
    stay.len()
}

fn chain_len<T: Tracker>(hand: &models::Hand<'_, Mvcc<T>>, key: u64) -> usize {
    let Some(id) = hand.find(key) else { return 0 };
    let next = |v: &*const Version| {
        // SAFETY: no other thread runs in these tests.
        unsafe { v.as_ref() }.map(Version::next)
    };
    let head = slot_of(hand.bench.record(id)).head();
    std::iter::successors(Some(head), next).take_while(|v| !v.is_null()).count()
}

/// Runs the model with many seeds.
fn model<T: Tracker>() {
    const SEEDS: u64 = 60;
    const STEPS: usize = 400;
    for seed in 0..SEEDS {
        println!("seed {seed}"); // shown if it fails
        let bench = Bench::<T>::new();
        let mut model = Model::new(&bench, seed);
        (0..STEPS).for_each(|_| model.step());
        while let Some(reader) = model.readers.pop() {
            model.hand.abort(reader.txn);
            model.prune();
        }
        model.hand.clean();
        assert_eq!(bench.records.used(), model.state.len() as u64);
        assert_eq!(Mvcc::<T>::garbage(&bench.shared, &model.hand.worker), 0);
    }
}

type TrackerOf<C> = <C as Scheme>::Tracker;

/// Names the tracker of a scheme.
trait Scheme {
    type Tracker: Tracker;
}

impl<T: Tracker> Scheme for Mvcc<T> {
    type Tracker = T;
}

/// Proves that exactly what open snapshots see stays: versions, deleted records and their keys. A transaction that
/// began before a record came and went does not write as if the record had never been there.
#[test]
fn nothing_visible_goes_and_all_else_does() {
    model::<TrackerOf<Snapshot>>();
    model::<TrackerOf<Serializable>>();
    model::<TrackerOf<MultiVersion>>();
}

/// Proves that the model notices an interval that begins too late.
#[test]
#[should_panic(expected = "what a snapshot sees is gone")]
fn planted_interval() {
    model::<TrackerOf<Planted<{ planted::INTERVAL_LATE }>>>();
}

/// Proves that the model notices a write by a transaction that treats a key that came and went as if it had never
/// been there.
#[test]
#[should_panic(expected = "a write since its snapshot was missed")]
fn planted_departed() {
    model::<TrackerOf<Planted<{ planted::DEPARTED_FORGOTTEN }>>>();
}

/// Runs a queue of some rows, of which the first is taken and another is added, beside open snapshots of different
/// ages. Some snapshots close in between, but not the oldest. Returns the largest number of records beyond the rows,
/// and the number of versions looked at for each taken row.
fn queue(snapshots: usize) -> (u64, usize) {
    const ROWS: u64 = 100;
    const TAKEN: u64 = 12_000;
    let bench = models::Bench::<Snapshot>::new();
    let hand: Hand<'_> = bench.hand();
    let mut open = vec![];
    for _ in 0..snapshots {
        open.push(hand.begin());
        hand.commit_change(u64::MAX, Change::Put(b"other"));
    }
    (0..ROWS).for_each(|key| hand.commit_change(key, Change::Insert(b"row")));
    let mut beyond = 0;
    for key in 0..TAKEN {
        let mut txn = hand.begin();
        assert_eq!(hand.change(&mut txn, key, Change::Delete), Ok(Written::Done));
        assert_eq!(hand.change(&mut txn, key + ROWS, Change::Insert(b"row")), Ok(Written::Done));
        hand.commit(txn);
        hand.local.refresh(None);
        beyond = bench.records.used().saturating_sub(ROWS).max(beyond);
        if key % 100 == 0 && open.len() > 2 {
            hand.commit(open.swap_remove(open.len() / 2));
        }
    }
    open.into_iter().for_each(|txn| hand.commit(txn));
    let looked_at = bench.shared.reclaimer.looked_at.load(Ordering::Relaxed);
    (beyond, looked_at / TAKEN as usize)
}

/// Proves that a queue leaves at most a few hundred more records behind when snapshots are open, however old, than
/// when none is open. Finding out what may go takes a few looks at versions for each taken row.
#[test]
fn queues_stay_short() {
    for snapshots in [0, 1, 10, 1000] {
        let (beyond, looked_at) = queue(snapshots);
        assert!(beyond <= 1000, "{beyond} records too many beside {snapshots} snapshots");
        assert!(looked_at <= 8, "{looked_at} looks for each row beside {snapshots} snapshots");
    }
}

/// Proves that a transaction that aborted because of a key that came and went keeps such keys when it is run again,
/// so it does not abort because of them for ever. The keys go when it has ended.
#[test]
fn one_that_gave_way_keeps_keys() {
    let bench = models::Bench::<Snapshot>::new();
    let hand: Hand<'_> = bench.hand();
    let come_and_go = || {
        hand.commit_change(1, Change::Insert(b"a"));
        hand.commit_change(1, Change::Delete);
        hand.prune();
    };
    let mut txn = hand.begin();
    come_and_go();
    assert_eq!(hand.find(1), None, "no snapshot sees it");
    let conflict = Err(Refused::Abort(Abort::WriteConflict));
    assert_eq!(hand.change(&mut txn, 1, Change::Insert(b"b")), conflict);
    Snapshot::abort(hand.env(), &mut txn);
    let begin = |txn: &mut Txn<_>| {
        let begun = Snapshot::begin(hand.env(), txn, Declared::default(), &mut crate::suspend::Never);
        assert_eq!(begun, Some(Ok(())));
    };
    begin(&mut txn);
    come_and_go();
    assert!(hand.find(1).is_some(), "it is kept");
    assert_eq!(hand.change(&mut txn, 2, Change::Insert(b"b")), Ok(Written::Done));
    assert!(hand.try_commit_open(&mut txn, || unreachable!("no other is open")));
    hand.prune();
    assert_eq!(hand.find(1), None);
    begin(&mut txn);
    come_and_go();
    assert_eq!(hand.find(1), None, "once is enough");
    hand.abort(txn);
}
