//! Tests that take transactions step by step. By its counters the scheme follows the phases of a workload. Transactions
//! that would conflict line up. Transactions that lock and transactions that do not are safe beside each other.

use super::super::models::{Bench, Hand};
use super::{Adaptive, AllHot};
use crate::cc::single::{Access, Held};
use crate::cc::{Abort, Change, ConcurrencyControl, Declared, Intent, Refused, Written};
use crate::suspend::Never;

type Txn = <Adaptive as ConcurrencyControl>::Txn;

/// Makes one step of an access; `None`: the access has to wait.
fn access<C: ConcurrencyControl<Txn = Txn, Access = Access>>(
    hand: &Hand<'_, C>,
    txn: &mut Txn,
    key: u64,
    intent: Intent,
    access: &mut Access,
) -> Option<Result<(), Refused>> {
    let record = hand.bench.record(hand.find(key).expect("it is there"));
    // SAFETY: found inside the hand's epoch.
    let has_ended = unsafe { C::access(access, record, intent, hand.env(), txn, &mut Never) };
    has_ended.then_some(if let Access::Refused(refused) = *access { Err(refused) } else { Ok(()) })
}

fn held<C: ConcurrencyControl>(hand: &Hand<'_, C>, txn: &Txn, key: u64) -> Held {
    let record = hand.bench.record(hand.find(key).expect("it is there"));
    txn.accesses.find(record).map_or(Held::Not, |at| txn.accesses.entries[at].held)
}

/// Runs a transaction that reads a row and changes it, while another transaction has changed it in between. Returns
/// true if the first commits.
fn meet(hand: &Hand<'_, Adaptive>, key: u64) -> bool {
    let mut txn = hand.begin();
    hand.try_read(&mut txn, key).expect("nobody has it").expect("it is there");
    hand.commit_change(key, Change::Put(b"other"));
    assert_eq!(hand.change(&mut txn, key, Change::Put(b"own")), Ok(Written::Done));
    hand.try_commit(txn, || unreachable!("no other commits"))
}

/// Runs transactions that meet no others.
fn calm(hand: &Hand<'_, Adaptive>, transactions: u32) {
    for _ in 0..transactions {
        let mut txn = hand.begin();
        hand.try_read(&mut txn, 2).expect("nobody has it");
        hand.commit(txn);
    }
}

fn is_heeding(hand: &Hand<'_, Adaptive>) -> bool {
    let txn = hand.begin();
    let heeds = txn.heeds;
    hand.abort(txn);
    heeds
}

/// Proves that transactions soon line up where they fail, that no counter is looked at when they no longer meet, and
/// that both repeat.
#[test]
fn phases_are_followed() {
    let bench = Bench::<Adaptive>::new();
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"first")));
    for _ in 0..3 {
        assert!(!is_heeding(&hand), "calm");
        let failures = (0..1000).take_while(|_| !is_heeding(&hand) && !meet(&hand, 1)).count();
        assert!(is_heeding(&hand) && failures < 100, "{failures}");
        line_up(&hand);
        calm(&hand, 100_000);
    }
}

/// Makes row 1 hot. After one transaction has shown what follows a read, the next transactions wait for each other.
fn line_up(hand: &Hand<'_, Adaptive>) {
    let mut txn = hand.begin();
    hand.try_read(&mut txn, 1).expect("nobody has it");
    assert_eq!(hand.change(&mut txn, 1, Change::Put(b"a")), Ok(Written::Done));
    assert_eq!(held(hand, &txn, 1), Held::Alone);
    hand.commit(txn);
    let (mut one, mut two, mut other) = (hand.begin(), hand.begin(), hand.begin());
    assert_eq!(hand.try_read(&mut one, 1).expect("nobody has it").expect("it is there"), b"a");
    assert_eq!((held(hand, &one, 1), held(hand, &one, 2)), (Held::Alone, Held::Not));
    let mut waiting = Access::New;
    assert_eq!(access(hand, &mut two, 1, Intent::Read, &mut waiting), None);
    assert_eq!(hand.try_read(&mut other, 2).expect("it is cold").expect("it is there"), b"first");
    assert_eq!(held(hand, &other, 2), Held::Not);
    hand.commit(other);
    assert_eq!(access(hand, &mut two, 1, Intent::Read, &mut waiting), None);
    assert_eq!(hand.change(&mut one, 1, Change::Put(b"b")), Ok(Written::Done));
    hand.commit(one);
    assert_eq!(access(hand, &mut two, 1, Intent::Read, &mut waiting), Some(Ok(())));
    assert_eq!(hand.change(&mut two, 1, Change::Put(b"c")), Ok(Written::Done));
    hand.commit(two);
}

/// Proves that a transaction that began in a calm phase respects the locks of transactions that line up, and that these
/// notice if it was first.
#[test]
fn calm_and_hot_transactions_meet() {
    let bench = Bench::<Adaptive>::new();
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"first")));
    let (mut calm, mut late) = (hand.begin(), hand.begin());
    while !is_heeding(&hand) {
        meet(&hand, 1);
    }
    let mut hot = hand.begin();
    assert!(!calm.heeds && !late.heeds && hot.heeds);
    let mut at_once = Access::New;
    assert_eq!(access(&hand, &mut hot, 1, Intent::Write, &mut at_once), Some(Ok(())));
    assert_eq!(hand.change(&mut calm, 1, Change::Put(b"calm")), Ok(Written::Done));
    assert!(!hand.try_commit(calm, || unreachable!("no other commits")), "the row is locked");
    assert_eq!(hand.change(&mut hot, 1, Change::Put(b"hot")), Ok(Written::Done));
    hand.commit(hot);
    hand.try_read(&mut late, 1).expect("nobody has it");
    hand.commit(late);
}

/// Proves that of two transactions that want what the other has, the younger aborts when both wait, and the older
/// continues.
#[test]
fn circles_are_broken() {
    let bench = Bench::<AllHot>::new();
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"first")));
    let (mut old, mut young) = (hand.begin(), hand.begin());
    let mut waits = [Access::New; 2];
    assert_eq!(access(&hand, &mut old, 1, Intent::Write, &mut Access::New), Some(Ok(())));
    assert_eq!(access(&hand, &mut young, 2, Intent::Write, &mut Access::New), Some(Ok(())));
    assert_eq!(access(&hand, &mut young, 1, Intent::Write, &mut waits[1]), None, "the holder does not wait");
    assert_eq!(access(&hand, &mut old, 2, Intent::Write, &mut waits[0]), None);
    let refused = Some(Err(Refused::Abort(Abort::WriteConflict)));
    assert_eq!(access(&hand, &mut young, 1, Intent::Write, &mut waits[1]), refused);
    hand.abort(young);
    assert_eq!(access(&hand, &mut old, 2, Intent::Write, &mut waits[0]), Some(Ok(())));
    hand.commit(old);
}

/// Proves that a waiting transaction shares nothing. Transactions that share a lock therefore do not wait, and what the
/// waiting transaction has shared is validated.
#[test]
fn waiting_gives_shares_back() {
    let bench = Bench::<AllHot>::new();
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"first")));
    let (mut one, mut two) = (hand.begin(), hand.begin());
    for (txn, key) in [(&mut one, 1), (&mut two, 2)] {
        hand.try_read(txn, key).expect("nobody has it");
        assert_eq!(held(&hand, txn, key), Held::Shared);
    }
    let mut waiting = Access::New;
    assert_eq!(access(&hand, &mut one, 2, Intent::Write, &mut waiting), None);
    assert_eq!(held(&hand, &one, 1), Held::Not);
    assert_eq!(access(&hand, &mut two, 1, Intent::Write, &mut Access::New), Some(Ok(())));
    assert_eq!(hand.change(&mut two, 1, Change::Put(b"two")), Ok(Written::Done));
    hand.commit(two);
    assert_eq!(access(&hand, &mut one, 2, Intent::Write, &mut waiting), Some(Ok(())));
    assert_eq!(hand.change(&mut one, 2, Change::Put(b"one")), Ok(Written::Done));
    assert!(!hand.try_commit(one, || unreachable!("no other commits")), "row 1 has changed");
}

/// Proves that a transaction that is run again keeps its age.
#[test]
fn ages_are_kept() {
    let bench = Bench::<AllHot>::new();
    let hand = bench.hand();
    let mut txn = hand.begin();
    let age = txn.age;
    for (is_retry, keeps) in [(true, true), (false, false)] {
        hand.commit_change(1, Change::Put(b"time passes"));
        AllHot::abort(hand.env(), &mut txn);
        let declared = Declared { is_retry, ..Declared::default() };
        let begun = AllHot::begin(hand.env(), &mut txn, declared, &mut Never);
        begun.expect("nothing to wait for").expect("room");
        assert_eq!(txn.age == age, keeps);
    }
    hand.abort(txn);
}
