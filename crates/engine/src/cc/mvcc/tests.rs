//! Tests that take transactions and passes of garbage collection step by step, and look at the chains that they leave.

use super::*;
use crate::cc::{Serializable, Snapshot, Target, models};
use crate::index::Key;
use crate::suspend::Never;

pub(super) type Bench = models::Bench<Snapshot>;
pub(super) type Hand<'b> = models::Hand<'b, Snapshot>;

impl Bench {
    fn chain(&self, id: RecordId) -> Vec<*const Version> {
        let (mut chain, mut v) = (vec![], self.head(id));
        while !v.is_null() {
            chain.push(v);
            // SAFETY: no other thread runs in these tests.
            v = unsafe { &*v }.next();
        }
        chain
    }

    fn head(&self, id: RecordId) -> *const Version {
        slot_of(self.record(id)).head()
    }
}

impl Hand<'_> {
    /// Makes a pass around the open snapshots, as when many changes wait.
    pub(super) fn prune(&self) {
        Snapshot::maintain(self.env());
        collect(self.env(), true);
    }
}

const LONG: [u8; 40] = [9; 40];

/// Proves that a chain is cut after the version that the oldest snapshot sees, and to one version if there is no
/// snapshot.
#[test]
fn cut() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"0"));
    hand.commit_change(1, Change::Update(&LONG));
    let mut reader = hand.begin();
    for i in 0..5u8 {
        hand.commit_change(1, Change::Update(&[i]));
    }
    let id = hand.find(1).expect("it is there");
    assert_eq!(bench.chain(id).len(), 7);
    hand.clean();
    assert_eq!(bench.chain(id).len(), 6, "the first version is seen by nobody");
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(LONG.to_vec())));
    hand.commit(reader);
    hand.clean();
    assert_eq!(bench.chain(id).len(), 1);
    assert_eq!((Snapshot::garbage(&bench.shared, &hand.worker), hand.local.pending()), (0, 0));
}

/// Proves that a pass around snapshots keeps what each snapshot sees and nothing else, and that what a snapshot holds
/// goes when it closes.
#[test]
fn prune_between_snapshots() {
    let bench = Bench::new();
    let hand = bench.hand();
    let mut held = vec![];
    for i in 0..20u8 {
        hand.commit_change(1, Change::Put(&[i; 9]));
        if i % 8 == 2 {
            held.push((hand.begin(), i));
        }
    }
    let id = hand.find(1).expect("it is there");
    hand.prune();
    assert_eq!(bench.chain(id).len(), 1 + held.len());
    for (reader, i) in &mut held {
        assert_eq!(hand.try_read(reader, 1), Some(Some(vec![*i; 9])));
    }
    assert_eq!(Snapshot::garbage(&bench.shared, &hand.worker), held.len(), "one change for each snapshot");
    while let Some((reader, _)) = held.pop() {
        hand.commit(reader);
        hand.prune();
        assert_eq!(bench.chain(id).len(), 1 + held.len());
    }
    hand.clean();
    assert_eq!((Snapshot::garbage(&bench.shared, &hand.worker), hand.local.pending()), (0, 0));
}

/// Proves that the work of cleaning up a row that is written all the time grows in proportion to the writes, although
/// each pass finds many versions that a lagging worker may still see: behind the oldest snapshot, and around one.
#[test]
fn hot_rows() {
    const WRITES: usize = 3000;
    for is_around in [false, true] {
        let bench = Bench::new();
        let (hand, lagging) = (bench.hand(), bench.hand());
        let write = || (0..WRITES).for_each(|_| hand.commit_change(1, Change::Put(&LONG)));
        hand.commit_change(1, Change::Put(&LONG));
        let mut reader = hand.begin();
        write();
        Snapshot::refresh(lagging.env());
        if is_around {
            write();
            hand.prune();
            assert_eq!(hand.try_read(&mut reader, 1), Some(Some(LONG.to_vec())));
        }
        hand.commit(reader);
        write();
        let looked_at = bench.shared.reclaimer.looked_at.load(Ordering::Relaxed);
        assert!((1..20 * WRITES).contains(&looked_at), "{looked_at} versions looked at");
        Snapshot::refresh(lagging.env());
        hand.clean();
        let id = hand.find(1).expect("it is there");
        assert_eq!(bench.chain(id).len(), 1);
    }
}

/// Proves that a worker holds back collection no longer than until the begin of its latest transaction.
#[test]
fn floors_follow_begins() {
    let bench = Bench::new();
    let (hand, other) = (bench.hand(), bench.hand());
    (0..10).for_each(|_| hand.commit_change(1, Change::Put(&LONG)));
    let id = hand.find(1).expect("it is there");
    hand.clean();
    assert_eq!(bench.chain(id).len(), 10, "the other one entered before them");
    let reader = other.begin();
    other.commit(reader);
    (0..3).for_each(|_| hand.commit_change(1, Change::Put(&LONG)));
    hand.clean();
    assert_eq!(bench.chain(id).len(), 1 + 3);
}

/// Proves that a deleted record goes, key and slot, when no snapshot sees it any more, and not before. It stays if a
/// new value is put on its tombstone.
#[test]
fn tombstones() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"a"));
    let mut reader = hand.begin();
    hand.commit_change(1, Change::Delete);
    hand.clean();
    hand.prune();
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(b"a".to_vec())));
    assert_eq!(bench.records.used(), 1);
    hand.commit(reader);
    let mut writer = hand.begin();
    assert_eq!(hand.change(&mut writer, 1, Change::Insert(b"b")), Ok(Written::Done));
    hand.clean();
    assert!(hand.find(1).is_some(), "a tombstone with something on it stays");
    hand.abort(writer);
    hand.clean();
    assert_eq!((hand.find(1), bench.records.used()), (None, 0), "nothing is on it any more");
    hand.commit_change(1, Change::Insert(b"c"));
    hand.commit_change(1, Change::Delete);
    hand.clean();
    assert_eq!((hand.find(1), bench.records.used()), (None, 0));
    assert_eq!((Snapshot::garbage(&bench.shared, &hand.worker), hand.local.pending()), (0, 0));
}

/// Proves that a record that was made in vain is given back only after the operations in flight, because a pass over
/// garbage of the slot's former record may be looking at its version.
#[test]
fn discarded_records_wait() {
    let bench = Bench::new();
    let hand = bench.hand();
    let mut txn = hand.begin();
    let id = RecordId(bench.records.allocate().expect("memory"));
    let record = bench.record(id).cast_mut();
    // SAFETY: the record was allocated just now, so no other thread has it.
    unsafe { Snapshot::create(hand.env(), &mut txn, record, &LONG) }.expect("memory");
    let target = Target { index: &raw const bench.index, key: Key::from_u64(1), id };
    // SAFETY: the record was made by `create` just now, and no index names it.
    unsafe { Snapshot::discard(hand.env(), record, &target) };
    assert!(bench.head(id).is_null());
    assert_eq!((bench.records.used(), hand.local.pending()), (1, 2));
    hand.abort(txn);
    hand.clean();
    assert_eq!((bench.records.used(), hand.local.pending()), (0, 0));
}

/// Proves that what a departing worker had to clean up, and what it held for a snapshot, passes to other workers.
#[test]
fn orphans() {
    let bench = Bench::new();
    let (left, right) = (bench.hand(), bench.hand());
    left.commit_change(1, Change::Insert(b"a"));
    let reader = right.begin();
    left.commit_change(1, Change::Update(b"b"));
    left.commit_change(1, Change::Delete);
    left.prune();
    assert!(Snapshot::garbage(&bench.shared, &left.worker) > 0);
    drop(left);
    right.clean();
    assert_eq!(bench.records.used(), 1, "the snapshot holds it");
    right.commit(reader);
    right.clean();
    right.clean();
    assert_eq!((right.find(1), bench.records.used()), (None, 0));
    assert_eq!(Snapshot::garbage(&bench.shared, &right.worker), 0);
}

/// Proves that a refused latch stays with its holder.
#[test]
fn prune_latch() {
    let bench = Bench::new();
    let (reclaimer, slot) = (&bench.shared.reclaimer, bench.record(RecordId(1)).cast());
    let held = reclaimer.latch(slot);
    assert!(held.is_some());
    assert!(reclaimer.latch(slot).is_none());
    assert!(reclaimer.latch(slot).is_none(), "the refusal did not let it go");
    drop(held);
    assert!(reclaimer.latch(slot).is_some());
}

/// Proves that a reader treats a mark by its transaction's outcome: active, committing (the reader waits), committed
/// before or after the snapshot, ended.
#[test]
fn visibility() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"old"));
    let mut before = hand.begin();
    let mut writer = hand.begin();
    assert_eq!(hand.change(&mut writer, 1, Change::Update(b"new")), Ok(Written::Done));
    assert_eq!(hand.try_read(&mut writer, 1), Some(Some(b"new".to_vec())), "its own write");
    assert_eq!(hand.try_read(&mut before, 1), Some(Some(b"old".to_vec())), "active");
    let registry = &bench.shared.registry;
    registry.pretend_committing(writer.member.place());
    assert_eq!(hand.try_read(&mut before, 1), None, "committing: wait");
    let other = &mut hand.begin();
    assert_eq!(
        hand.change(other, 1, Change::Update(b"x")),
        Err(Refused::Abort(Abort::WriteConflict)),
        "a writer does not wait"
    );
    // The writer has a timestamp, though its versions do not say so yet.
    let at = registry.draw(writer.member.place());
    let mut after = hand.begin();
    assert_eq!(after.begin(), at.after());
    assert_eq!(hand.try_read(&mut after, 1), None, "it may still abort: wait");
    registry.settle(writer.member.place(), at);
    assert_eq!(hand.try_read(&mut before, 1), Some(Some(b"old".to_vec())));
    assert_eq!(hand.try_read(&mut after, 1), Some(Some(b"new".to_vec())));
    // SAFETY: it is the head, and no other thread runs.
    unsafe { &*bench.head(hand.find(1).expect("it is there")) }.set_committed(at);
    writer.writes.clear();
    writer.end(&bench.shared);
    assert_eq!(hand.try_read(&mut before, 1), Some(Some(b"old".to_vec())));
    assert_eq!(hand.try_read(&mut after, 1), Some(Some(b"new".to_vec())));
    Snapshot::abort(hand.env(), other);
    hand.commit(before);
    hand.commit(after);
}

/// Proves that an aborted version inside the slot frees its place for later versions, and only once. A stale release
/// must not free the place under another version.
#[test]
fn inline_places() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(&LONG));
    let id = hand.find(1).expect("it is there");
    let slot = slot_of(bench.record(id));
    let mut writer = hand.begin();
    assert_eq!(hand.change(&mut writer, 1, Change::Update(b"a")), Ok(Written::Done));
    assert!(slot.is_inline(slot.head()));
    let tag = writer.tag();
    hand.abort(writer);
    assert!(!slot.is_inline(slot.head()));
    hand.commit_change(1, Change::Update(b"b"));
    assert!(!slot.is_inline(slot.head()), "a reader may still be at the aborted version");
    hand.clean();
    hand.commit_change(1, Change::Update(b"c"));
    assert!(slot.is_inline(slot.head()));
    slot.free_inline(Stamp::aborted(tag));
    slot.free_inline(Stamp(tag.word()));
    let mut again = hand.begin();
    assert_eq!(hand.change(&mut again, 1, Change::Update(b"d")), Ok(Written::Done));
    assert!(!slot.is_inline(slot.head()), "the place was freed under the version in it");
    assert_eq!(hand.try_read(&mut again, 1), Some(Some(b"d".to_vec())));
    hand.abort(again);
    let mut reader = hand.begin();
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(b"c".to_vec())));
    hand.commit(reader);
}

/// Proves that a slot that serves another record is not disturbed by what its former record left behind.
#[test]
fn slots_are_used_again() {
    let bench = Bench::new();
    let (left, right) = (bench.hand(), bench.hand());
    left.commit_change(1, Change::Insert(b"a"));
    left.commit_change(1, Change::Update(b"b"));
    right.commit_change(1, Change::Delete);
    let id = right.find(1).expect("it is there");
    // The right worker removes the record. The left worker still has garbage of it.
    for _ in 0..6 {
        Snapshot::maintain(left.env());
        right.clean();
        left.local.refresh(None);
    }
    assert_eq!(right.find(1), None);
    right.commit_change(2, Change::Insert(b"c"));
    assert_eq!(right.find(2), Some(id), "the slot is used again");
    left.clean();
    left.prune();
    assert_eq!(bench.chain(id).len(), 1);
    let mut reader = left.begin();
    assert_eq!(left.try_read(&mut reader, 2), Some(Some(b"c".to_vec())));
    left.commit(reader);
}

/// Proves the result of each kind of write: on nothing, on a value, on a tombstone, after a commit since the
/// snapshot, and under another transaction's open write.
#[test]
fn first_updater_wins() {
    let changes = || [Change::Put(b"n"), Change::Update(b"n"), Change::Insert(b"n"), Change::Delete];
    let conflict = Err(Refused::Abort(Abort::WriteConflict));
    use Written::{Absent, Done, Exists};
    for (i, change) in changes().into_iter().enumerate() {
        let bench = Bench::new();
        let hand = bench.hand();
        let check = |key: u64, expected: [Result<Written, Refused>; 4], when: &str| {
            let mut txn = hand.begin();
            assert_eq!(hand.change(&mut txn, key, change), expected[i], "{change:?} {when}");
            hand.abort(txn);
        };
        check(1, [Ok(Done), Ok(Absent), Ok(Done), Ok(Absent)], "where nothing is");
        hand.commit_change(1, Change::Put(b"v"));
        check(1, [Ok(Done), Ok(Done), Ok(Exists), Ok(Done)], "on a value");
        let mut old = hand.begin();
        hand.commit_change(1, Change::Update(b"w"));
        assert_eq!(hand.change(&mut old, 1, change), conflict, "{change:?} after a later commit");
        hand.abort(old);
        let mut open = hand.begin();
        assert_eq!(hand.change(&mut open, 1, Change::Update(b"x")), Ok(Done));
        check(1, [conflict; 4], "under an open write");
        assert_eq!(hand.change(&mut open, 1, change), [Ok(Done), Ok(Done), Ok(Exists), Ok(Done)][i]);
        hand.abort(open);
        check(1, [Ok(Done), Ok(Done), Ok(Exists), Ok(Done)], "after the open write was undone");
        let _held = hand.begin();
        hand.commit_change(1, Change::Delete);
        check(1, [Ok(Done), Ok(Absent), Ok(Done), Ok(Absent)], "on a tombstone");
    }
}

/// Proves that a transaction that has entered the present sees a committed value although its version does not say so
/// yet. A lock before the version, and a change that is undone, are notes of that value, and transactions that
/// overwrite the value later are met.
#[test]
fn commits_that_are_not_stamped_yet() {
    for overwritten in [false, true] {
        let bench = models::Bench::<Serializable>::new();
        let (writer, looker) = (bench.hand(), bench.hand());
        looker.commit_change(1, Change::Insert(b"0"));
        let mut open = writer.begin();
        assert_eq!(writer.change(&mut open, 1, Change::Put(b"1")), Ok(Written::Done));
        let prepared = Serializable::prepare(&mut Default::default(), writer.env(), &mut open, &mut Never);
        let at = Timestamp(prepared.expect("nothing else is open").expect("no conflict"));
        bench.shared.registry.settle(open.member.place(), at);
        let mut look = looker.begin();
        Serializable::see_newest(&mut look);
        if overwritten {
            let savepoint = Serializable::savepoint(&look);
            assert_eq!(looker.change(&mut look, 1, Change::Put(b"2")), Ok(Written::Done));
            assert_eq!(Serializable::rollback_to(looker.env(), &mut look, savepoint, false), Ok(()));
        } else {
            assert_eq!(looker.change(&mut look, 1, Change::Lock), Ok(Written::Done));
        }
        assert_eq!(looker.change(&mut look, 2, Change::Insert(b"3")), Ok(Written::Done));
        looker.commit(look);
        for write in open.writes.drain(..) {
            // SAFETY: the version is the writer's own, and in its chain.
            unsafe { &*write.new }.set_committed(at);
        }
        open.end(&bench.shared);
        Serializable::drop_txn(&bench.shared, &mut open);
    }
}
