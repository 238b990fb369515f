//! Tests that take transactions step by step.

use super::MultiVersion;
use crate::cc::{Abort, Change, ConcurrencyControl, Intent, Refused, TimestampOrdering, Written, models};

type Bench = models::Bench<MultiVersion>;
type Hand<'b> = models::Hand<'b, MultiVersion>;
type Txn = <MultiVersion as ConcurrencyControl>::Txn;

const LONG: [u8; 2000] = [7; 2000];

fn late<T>() -> Result<T, Refused> {
    Err(Refused::Abort(Abort::WriteConflict))
}

/// Runs a transaction that reads a record which has been overwritten since it began, with no other transaction open
/// then. Returns true if it commits.
fn older_reader_commits<C: ConcurrencyControl>(hand: &models::Hand<'_, C>) -> bool {
    hand.commit_change(1, Change::Insert(b"0"));
    let mut older = hand.begin();
    hand.commit_change(1, Change::Update(b"1"));
    let id = hand.find(1).expect("it is there");
    let (mut access, record) = (C::Access::default(), hand.bench.record(id));
    // SAFETY: the record was found inside the hand's epoch.
    let has_ended = unsafe {
        C::access(&mut access, record, Intent::Read, hand.env(), &mut older, &mut crate::suspend::Never)
    };
    assert!(has_ended, "nobody is in its way");
    // SAFETY: the access has ended.
    let value = unsafe { C::value(&access, record, Intent::Read, &mut older) };
    // SAFETY: the transaction is open.
    let has_read = value.is_ok_and(|value| value.is_some_and(|value| unsafe { &*value } == b"0"));
    if has_read {
        hand.commit(older);
    } else {
        hand.abort(older);
    }
    has_read
}

/// Proves what several versions are for: an older transaction reads what was there. With one version it is refused.
#[test]
fn older_readers_are_not_refused() {
    assert!(older_reader_commits(&Bench::new().hand()));
    assert!(!older_reader_commits(&models::Bench::<TimestampOrdering>::new().hand()));
}

/// Proves that a write is refused if the record has been read or written as of a later time, and only then.
#[test]
fn late_writes_give_way() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"0"));
    hand.commit_change(2, Change::Insert(b"0"));
    let (mut older, mut reader) = (hand.begin(), hand.begin());
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(b"0".to_vec())));
    assert_eq!(hand.change(&mut older, 1, Change::Put(b"1")), late());
    assert_eq!(hand.change(&mut older, 2, Change::Put(b"1")), Ok(Written::Done));
    assert_eq!(hand.try_read(&mut reader, 2), None, "it waits for the earlier one");
    assert_eq!(hand.change(&mut older, 2, Change::Put(b"2")), Ok(Written::Done), "its own is not late");
    hand.commit(older);
    assert_eq!(hand.try_read(&mut reader, 2), Some(Some(b"2".to_vec())));
    let mut older = hand.begin();
    hand.commit_change(2, Change::Put(b"3"));
    assert_eq!(hand.change(&mut older, 2, Change::Put(b"4")), late());
    hand.abort(older);
    hand.commit(reader);
}

/// Proves that a transaction passes over versions of later transactions, committed or not, and that what it reads is
/// not reclaimed.
#[test]
fn later_writes_are_passed_over() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(&LONG));
    let mut others: Vec<Txn> = Vec::new();
    let mut reader = hand.begin();
    others.push(hand.begin());
    assert_eq!(hand.change(&mut others[0], 1, Change::Delete), Ok(Written::Done));
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(LONG.to_vec())));
    hand.commit(others.remove(0));
    (0..3).for_each(|_| hand.clean());
    assert_eq!(hand.try_read(&mut reader, 1), Some(Some(LONG.to_vec())));
    hand.commit(reader);
    (0..3).for_each(|_| hand.clean());
    assert_eq!(hand.find(1), None, "the record goes when nobody may see it");
}

/// Proves that a transaction does not bring a key that has been found absent as of a later time, whether there was no
/// record, a deleted record, or a record that is gone again.
#[test]
fn absent_keys_stay_absent() {
    let bench = Bench::new();
    let hand = bench.hand();
    let (mut first, mut second, mut third) = (hand.begin(), hand.begin(), hand.begin());
    let mut reader = hand.begin();
    assert_eq!(hand.try_read(&mut reader, 1), Some(None));
    assert_eq!(hand.change(&mut first, 1, Change::Put(b"1")), Err(Refused::Abort(Abort::Unserializable)));
    hand.abort(first);
    // A later transaction makes a record, of which the reader sees nothing. Then the record is gone.
    let mut later = hand.begin();
    assert_eq!(hand.change(&mut later, 2, Change::Put(b"1")), Ok(Written::Done));
    assert_eq!(hand.try_read(&mut reader, 2), Some(None));
    hand.abort(later);
    assert_eq!(hand.find(2), None);
    assert_eq!(hand.change(&mut second, 2, Change::Put(b"1")), Err(Refused::Abort(Abort::Unserializable)));
    hand.abort(second);
    hand.commit_change(3, Change::Put(b"1"));
    hand.commit_change(3, Change::Delete);
    assert_eq!(hand.change(&mut third, 3, Change::Put(b"1")), late(), "deleted as of later");
    hand.abort(third);
    hand.commit(reader);
}

/// Proves that what was read without a note stays as it was, although it is superseded as of an earlier time and
/// reclaimed.
#[test]
fn untracked_reads_are_kept() {
    for value in [&LONG[..], b"0"] {
        let bench = Bench::new();
        let hand: Hand<'_> = bench.hand();
        hand.commit_change(1, Change::Insert(value));
        let (mut writer, mut reader) = (hand.begin(), hand.begin());
        let record = bench.record(hand.find(1).expect("it is there"));
        let mut access = Default::default();
        let (env, never) = (hand.env(), &mut crate::suspend::Never);
        // SAFETY: the record was found inside the hand's epoch, and the access ends at once.
        let read = unsafe {
            assert!(MultiVersion::access(&mut access, record, Intent::Untracked, env, &mut reader, never));
            MultiVersion::value(&access, record, Intent::Untracked, &mut reader)
        };
        assert_eq!(hand.change(&mut writer, 1, Change::Delete), Ok(Written::Done), "nobody has read it");
        hand.commit(writer);
        (0..3).for_each(|_| hand.clean());
        assert_eq!(hand.find(1), None, "it is gone for all that are open");
        hand.commit_change(2, Change::Insert(&[1; 2000]));
        let read = read.expect("it is not refused").expect("it was there");
        // SAFETY: the transaction is open.
        assert_eq!(unsafe { &*read }, value);
        hand.commit(reader);
    }
}

/// Proves that a lock still counts as a read when it is gone, and that a transaction does not forget what it knew
/// when it rolls back.
#[test]
fn what_was_known_stays_known() {
    let bench = Bench::new();
    let hand = bench.hand();
    hand.commit_change(1, Change::Insert(b"0"));
    let (mut first, mut second, mut third) = (hand.begin(), hand.begin(), hand.begin());
    let mut locks = hand.begin();
    assert_eq!(hand.change(&mut locks, 1, Change::Lock), Ok(Written::Done));
    hand.commit(locks);
    assert_eq!(hand.change(&mut first, 1, Change::Put(b"1")), late());
    hand.commit_change(2, Change::Insert(b"0"));
    let mut later = hand.begin();
    assert_eq!(hand.change(&mut later, 3, Change::Insert(b"1")), Ok(Written::Done));
    MultiVersion::rollback_to(hand.env(), &mut later, 0, false).expect("memory");
    assert_eq!(hand.find(3), None);
    assert_eq!(hand.change(&mut second, 3, Change::Put(b"1")), Err(Refused::Abort(Abort::Unserializable)));
    hand.commit(later);
    assert_eq!(hand.change(&mut third, 1, Change::Update(b"1")), late());
    [first, second, third].into_iter().for_each(|txn| hand.abort(txn));
}
