//! Models of what may meet in the scheme, over many schedules. At every atomic access another thread may run. Where
//! possible, the same model with a planted error must fail.

use super::tests::{Bench, Hand};
use super::*;
use crate::cc::models::{PLANTED_SCHEDULES_MAX, check, check_both, lock_in_queue};
use crate::cc::serializable::{Planted, planted};
use crate::cc::snapshot::Untracked;
use crate::cc::{Snapshot, models};

type Txn = super::Txn<Untracked>;
use crate::memory::Memory;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;

fn spawn(bench: &Arc<Bench>, work: impl FnOnce(&Hand<'_>) + Send + 'static) -> thread::JoinHandle<()> {
    let bench = bench.clone();
    thread::spawn(move || work(&bench.hand()))
}

fn read(hand: &Hand<'_>, txn: &mut Txn, key: u64) -> Option<Vec<u8>> {
    loop {
        match hand.try_read(txn, key) {
            Some(value) => return value,
            None => thread::yield_now(),
        }
    }
}

/// Reads without waiting for a committing writer: the error that a correct reader must not make.
fn read_carelessly(hand: &Hand<'_>, txn: &mut Txn, key: u64) -> Option<Vec<u8>> {
    hand.try_read(txn, key).unwrap_or_else(|| Some(b"0".to_vec()))
}

/// A writer commits two keys. A reader sees both changes or none.
fn pair(read: fn(&Hand<'_>, &mut Txn, u64) -> Option<Vec<u8>>) {
    let bench = Arc::new(Bench::new());
    {
        let hand = bench.hand();
        hand.commit_change(1, Change::Insert(b"0"));
        hand.commit_change(2, Change::Insert(b"0"));
    }
    let writer = spawn(&bench, |hand| {
        let mut txn = hand.begin();
        assert_eq!(hand.change(&mut txn, 1, Change::Update(b"1")), Ok(Written::Done));
        assert_eq!(hand.change(&mut txn, 2, Change::Update(b"1")), Ok(Written::Done));
        hand.commit(txn);
    });
    let reader = spawn(&bench, move |hand| {
        let mut txn = hand.begin();
        let (x, y) = (read(hand, &mut txn, 1), read(hand, &mut txn, 2));
        assert_eq!(x, y, "half of a commit was seen");
        hand.commit(txn);
    });
    writer.join().expect("its assertions hold");
    reader.join().expect("its assertions hold");
}

/// Proves that no reader sees half of a commit.
#[test]
fn commit_is_atomic() {
    check_both(|| pair(read));
}

/// Proves that the model notices a reader that does not wait.
#[test]
#[should_panic(expected = "half of a commit was seen")]
fn planted_no_wait() {
    check(PctScheduler::new(4, PLANTED_SCHEDULES_MAX), || pair(read_carelessly));
}

/// A worker opens a snapshot while other threads commit and look for the oldest snapshot.
fn oldest_and_begin<const RAISES: bool>() {
    let registry = Arc::new(Registry::new(&Memory::new(u64::MAX)));
    let [place, later, other] = [(); 3].map(|()| registry.join().expect("room"));
    let begun = Arc::new(AtomicU64::new(0));
    let opener = thread::spawn({
        let (registry, begun) = (registry.clone(), begun.clone());
        move || {
            let floor = registry.floor();
            if RAISES {
                registry.raise(&floor);
            }
            let begin = registry.open(place);
            if RAISES {
                registry.follow(&floor, begin);
                registry.follow(&floor, registry.open(later));
                registry.close(later);
            }
            begun.store(begin.0, Ordering::SeqCst);
            registry.lower(&floor); // the snapshot stays open
        }
    });
    let committer = thread::spawn({
        let registry = registry.clone();
        move || (0..2).for_each(|_| _ = registry.draw(other))
    });
    let (oldest, mut open) = (registry.oldest(), vec![]);
    let floor = registry.snapshots(&mut open, &mut vec![]);
    opener.join().expect("it cannot fail");
    committer.join().expect("it cannot fail");
    let begun = Timestamp(begun.load(Ordering::SeqCst));
    assert!(begun >= oldest, "a snapshot is older than the oldest");
    assert!(begun >= floor || open.contains(&begun), "a snapshot is older than the floor");
    assert_eq!(registry.oldest(), begun);
}

/// Proves that no snapshot is opened below the oldest that was found.
#[test]
fn oldest_is_a_bound() {
    check_both(oldest_and_begin::<true>);
}

/// Proves that the model notices a worker that publishes no floor.
#[test]
#[should_panic(expected = "a snapshot is older than")]
fn planted_no_floor() {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), oldest_and_begin::<false>);
}

/// Proves that a snapshot keeps what it sees while two workers collect from one chain at once.
#[test]
fn prune_and_reader() {
    check_both(|| {
        let bench = Arc::new(Bench::new());
        let first = bench.hand();
        for i in 0..3u8 {
            first.commit_change(1, Change::Put(&[i; 9]));
        }
        let mut txn = first.begin();
        let collector = |bench: &Arc<Bench>| {
            spawn(bench, |hand| {
                hand.commit_change_if_free(1, &[7; 9]);
                hand.prune();
                hand.local.refresh(None);
                hand.prune();
            })
        };
        let threads = [collector(&bench), collector(&bench)];
        for _ in 0..2 {
            assert_eq!(read(&first, &mut txn, 1), Some(vec![2; 9]));
        }
        threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
        assert_eq!(read(&first, &mut txn, 1), Some(vec![2; 9]));
        first.commit(txn);
    });
}

/// Proves that an insertion that meets the removal of its key's tombstone is not lost.
#[test]
fn insert_and_removal() {
    check_both(|| {
        let bench = Arc::new(Bench::new());
        let first = bench.hand();
        first.commit_change(1, Change::Insert(b"a"));
        first.commit_change(1, Change::Delete);
        let inserter = spawn(&bench, |hand| {
            let mut txn = hand.begin();
            loop {
                match hand.change(&mut txn, 1, Change::Insert(b"b")) {
                    Ok(Written::Done) => break,
                    Ok(Written::Gone) => thread::yield_now(),
                    // The removal came between the look and the write.
                    Err(Refused::Abort(_)) => hand.abort(std::mem::replace(&mut txn, hand.begin())),
                    other => panic!("{other:?}"),
                }
            }
            hand.commit(txn);
        });
        Snapshot::maintain(first.env());
        inserter.join().expect("its assertions hold");
        let mut txn = first.begin();
        assert_eq!(read(&first, &mut txn, 1), Some(b"b".to_vec()), "the insertion was lost");
        first.commit(txn);
        first.clean();
        assert_eq!(bench.records.used(), 1);
    });
}

/// A transaction begins. A key comes and goes, and is removed. Then the transaction inserts the key. At most one of
/// the two may have written the key. `IN_STEP`: the key goes before the transaction inserts it, and is removed at any
/// moment from then on. Otherwise all of this may happen at any moment.
fn key_comes_and_goes<C: ConcurrencyControl, const IN_STEP: bool>() {
    let bench = Arc::new(models::Bench::<C>::new());
    let (gone, refreshed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let await_step = |step: &AtomicU64| {
        while IN_STEP && step.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    };
    let hand = bench.hand();
    let mut txn = hand.begin();
    let other = thread::spawn({
        let (bench, gone, refreshed) = (bench.clone(), gone.clone(), refreshed.clone());
        move || {
            let hand = bench.hand();
            let mut txn = hand.begin();
            let has_come = hand.change(&mut txn, 1, Change::Insert(b"a")) == Ok(Written::Done)
                && hand.try_commit(txn, thread::yield_now);
            if has_come {
                let mut txn = hand.begin();
                let is_deleted = hand.change(&mut txn, 1, Change::Delete) == Ok(Written::Done);
                _ = is_deleted && hand.try_commit(txn, thread::yield_now);
            }
            gone.store(1, Ordering::SeqCst);
            await_step(&refreshed);
            C::relieve(hand.env());
            has_come
        }
    });
    await_step(&gone);
    C::refresh(hand.env()); // otherwise no record goes that was deleted later
    refreshed.store(1, Ordering::SeqCst);
    let inserts = loop {
        C::refresh(hand.env());
        match hand.change(&mut txn, 1, Change::Insert(b"b")) {
            Ok(Written::Gone) => thread::yield_now(),
            made => break made == Ok(Written::Done),
        }
    };
    let has_inserted = match inserts {
        true => hand.try_commit(txn, thread::yield_now),
        false => {
            hand.abort(txn);
            false
        }
    };
    let has_come = other.join().expect("it cannot fail");
    assert!(!(has_come && has_inserted), "a key that came and went was missed");
}

/// Proves that a transaction does not insert a key that another transaction has inserted and deleted since it began,
/// whenever the key is removed.
#[test]
fn departed_keys_are_noticed() {
    check_both(key_comes_and_goes::<Snapshot, false>);
    check_both(key_comes_and_goes::<Snapshot, true>);
    check_both(key_comes_and_goes::<crate::cc::MultiVersion, true>);
}

/// Proves that the model notices a transaction that does not look for such keys.
#[test]
#[should_panic(expected = "a key that came and went was missed")]
fn planted_departed_forgotten() {
    check(
        PctScheduler::new(3, PLANTED_SCHEDULES_MAX),
        key_comes_and_goes::<Planted<{ planted::DEPARTED_FORGOTTEN }>, true>,
    );
}

/// After a reader has begun, a key that it sees is deleted, and a key that it does not see comes and goes. Two
/// workers clean up, and another snapshot opens and closes meanwhile.
fn reader_of_what_goes() {
    let bench = Arc::new(Bench::new());
    let first = bench.hand();
    first.commit_change(1, Change::Insert(b"a"));
    let mut txn = first.begin();
    let other = spawn(&bench, |hand| {
        hand.commit_change(1, Change::Delete);
        hand.commit_change(2, Change::Insert(b"b"));
        let between = hand.begin();
        hand.commit_change(2, Change::Delete);
        hand.prune();
        hand.commit(between);
        hand.prune();
    });
    let cleaner = spawn(&bench, |hand| hand.prune());
    for _ in 0..2 {
        Snapshot::refresh(first.env()); // otherwise no record goes that was deleted later
        assert_eq!(read(&first, &mut txn, 1), Some(b"a".to_vec()));
        assert_eq!(read(&first, &mut txn, 2), None);
    }
    [other, cleaner].into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    first.prune();
    assert_eq!(first.find(2), None, "no snapshot sees it");
    assert_eq!(read(&first, &mut txn, 1), Some(b"a".to_vec()));
    first.commit(txn);
    first.prune();
    assert_eq!(first.find(1), None);
}

/// Proves that what a snapshot sees stays and the rest goes while other threads begin, delete and clean up.
#[test]
fn deletions_between_snapshots() {
    check_both(reader_of_what_goes);
}

/// Three transactions lock one key, each in its turn. One commits a change, one commits nothing, one aborts.
fn line<const LOOKS: bool>() {
    let bench = Arc::new(Bench::new());
    bench.hand().commit_change(1, Change::Insert(b"0"));
    let inside = Arc::new(AtomicU64::new(0));
    let threads = [0, 1, 2].map(|number| {
        let inside = inside.clone();
        spawn(&bench, move |hand| {
            let mut txn = hand.begin();
            if lock_in_queue(hand, &mut txn, 1, LOOKS) {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                if number == 0 {
                    assert_eq!(hand.change(&mut txn, 1, Change::Update(b"1")), Ok(Written::Done));
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                if number < 2 {
                    return hand.commit(txn);
                }
            }
            hand.abort(txn);
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(!Snapshot::waits(&bench.shared).is_any(), "nobody is left in the queue");
}

/// Proves that a transaction that waits for a lock is woken however the holder ends, and whenever it joins the queue.
#[test]
fn nobody_waits_for_ever() {
    check_both(line::<true>);
}

/// Proves that the model notices a transaction that does not look again when it is in the queue.
#[test]
#[should_panic(expected = "deadlock")]
fn planted_no_second_look() {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), line::<false>);
}

/// Three transactions lock two keys each, in a cycle.
fn cycle() {
    let bench = Arc::new(Bench::new());
    (0..3).for_each(|key| bench.hand().commit_change(key, Change::Insert(b"0")));
    let gave_way = Arc::new(AtomicU64::new(0));
    let threads = [0, 1, 2].map(|number| {
        let gave_way = gave_way.clone();
        spawn(&bench, move |hand| {
            let mut txn = hand.begin();
            let first = lock_in_queue(hand, &mut txn, number, true);
            if first && lock_in_queue(hand, &mut txn, (number + 1) % 3, true) {
                return hand.commit(txn);
            }
            gave_way.fetch_add(1, Ordering::SeqCst);
            hand.abort(txn);
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(gave_way.load(Ordering::SeqCst) <= 1, "one that gives way is enough");
    assert!(!Snapshot::waits(&bench.shared).is_any(), "nobody is left in the queue");
}

/// Proves that transactions that would wait for each other in a cycle end in every schedule, and that at most one
/// aborts.
#[test]
fn cycles_are_broken() {
    check_both(cycle);
}
