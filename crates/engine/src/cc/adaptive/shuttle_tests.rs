//! Models of transactions that line up, over many schedules. Each model fails with the planted error that it is meant
//! to notice. `single/shuttle_tests.rs` models what all schemes with one value per record keep, for this scheme with
//! all records hot, and with some.

use super::rules::{Rules, Standing};
use super::{AllHot, Heeding, HotByChance};
use crate::cc::models::{Bench, Hand, check_both};
use crate::cc::optimistic::draw;
use crate::cc::silo::stale;
use crate::cc::single::shuttle_tests::{crossing, notices, read, skew};
use crate::cc::single::{Access, CommitStage, Group, Heat, Held, Policy, Single, Txn, Wants};
use crate::cc::{Abort, Change, ConcurrencyControl, Declared, Env, Intent, Refused, Waiting};
use crate::memory::OutOfMemory;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

/// All records are hot, and a rule of waiting is broken.
struct Erring<const BUG: u32>;

/// Transactions wait for each other.
const ALL_WAIT: u32 = 1;
/// A waiting transaction keeps its shares.
const SHARES_KEPT: u32 = 2;

impl<const BUG: u32> Rules for Erring<BUG> {
    const LOOKS_RARELY: bool = false;
    const KEEPS_SHARES: bool = BUG == SHARES_KEPT;

    fn heeds(_: &Heat) -> bool {
        true
    }

    fn is_hot(_: &Heat, _: &Group, _: Wants, _: &Txn, _: u32) -> bool {
        true
    }

    fn may_wait(standing: Standing) -> bool {
        BUG == ALL_WAIT || super::rules::ByMeetings::may_wait(standing)
    }
}

type CarelessWaits<const BUG: u32> = Single<Heeding<Erring<BUG>>>;

/// All records are hot, and a step of the commit is done wrong.
struct Careless<const BUG: u32>;

/// A record that was locked when it was read is not validated.
const LOCKED_NOT_VALIDATED: u32 = 3;
/// A commit does not look whether other transactions have locked what it writes.
const LOCKS_IGNORED: u32 = 4;
/// Reads are validated before what is written is latched.
const VALIDATED_TOO_EARLY: u32 = 5;

type Right = Heeding<super::rules::Everywhere>;

fn right<const BUG: u32>(env: Env<'_, Single<Careless<BUG>>>) -> Env<'_, Single<Right>> {
    Env { shared: env.shared, worker: env.worker, local: env.local }
}

impl<const BUG: u32> Policy for Careless<BUG> {
    const HAS_HEAT: bool = true;
    const HELD_WHEN_NEW: Held = Right::HELD_WHEN_NEW;

    fn begun(env: Env<'_, Single<Self>>, txn: &mut Txn, declared: Declared) {
        Right::begun(right(env), txn, declared);
    }

    fn ends(env: Env<'_, Single<Self>>, txn: &mut Txn) {
        Right::ends(right(env), txn);
    }

    fn may_queue(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        Right::may_queue(right(env), txn, record)
    }

    fn lock_of_new(env: Env<'_, Single<Self>>, txn: &mut Txn) -> u64 {
        Right::lock_of_new(right(env), txn)
    }

    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        // SAFETY: the caller has made the promise that `access` asks for, and `Right` asks for the same.
        unsafe { Right::access(access, record, intent, right(env), txn, s) }
    }

    unsafe fn will_write(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `will_write` asks for, and `Right` asks for the same.
        unsafe { Right::will_write(right(env), txn, record, depends) }
    }

    unsafe fn lock(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `lock` asks for, and `Right` asks for the same.
        unsafe { Right::lock(right(env), txn, record) }
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        let was_stale = stale(txn).is_some();
        match BUG {
            LOCKED_NOT_VALIDATED => {
                txn.accesses
                    .entries
                    .iter_mut()
                    .filter(|entry| entry.path != 0)
                    .for_each(|entry| entry.seen = None);
                Right::decide(stage, right(env), txn, s)
            }
            _ if !txn.try_latch() => None,
            VALIDATED_TOO_EARLY if was_stale => Some(Err(Abort::Unserializable)),
            LOCKS_IGNORED if stale(txn).is_some() => Some(Err(Abort::Unserializable)),
            _ => Some(Ok(draw(env, txn))),
        }
    }
}

type CarelessCommits<const BUG: u32> = Single<Careless<BUG>>;

/// Each of two transactions shares what the other wants alone. Neither waits for the other for ever. If both commit,
/// one has missed what the other has written.
fn shares_cross<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    {
        let hand = bench.hand();
        [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"0")));
    }
    let committed = Arc::new(AtomicU64::new(0));
    let one = |reads: u64, writes: u64| {
        let (bench, committed) = (bench.clone(), committed.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let seen = read(&hand, &mut txn, reads, Intent::Read);
            let done = seen.and_then(|_| {
                read(&hand, &mut txn, writes, Intent::Write)?;
                hand.change(&mut txn, writes, Change::Put(b"1"))
            });
            if let Err(refused) = done {
                assert_ne!(refused, Refused::Abort(Abort::WaitTimeout), "they wait for each other");
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) && seen == Ok(Some(b'0')) {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let threads = [thread::spawn(one(1, 2)), thread::spawn(one(2, 1))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's write");
}

/// A transaction that has locked a row alone commits, whatever is written by another transaction that looks at no locks
/// before its commit.
fn locked_rows_stay<C: ConcurrencyControl<Txn = Txn>>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(b"0"));
    let calm = {
        let bench = bench.clone();
        thread::spawn(move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            txn.heeds = false;
            match hand.change(&mut txn, 1, Change::Put(b"1")) {
                Ok(_) => _ = hand.try_commit(txn, thread::yield_now),
                Err(_) => hand.abort(txn),
            }
        })
    };
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    let seen = read(&hand, &mut txn, 1, Intent::Covered);
    seen.expect("nobody else locks").expect("it is there");
    // If a commit latched the row before it was locked, the key would have to be looked for again.
    match hand.change(&mut txn, 1, Change::Put(b"2")) {
        Ok(crate::cc::Written::Done) => {
            assert!(hand.try_commit(txn, thread::yield_now), "it was overtaken");
        }
        _ => hand.abort(txn),
    }
    calm.join().expect("its assertions hold");
}

/// Proves that transactions end and notice each other if each shares what the other wants alone.
#[test]
fn shares_and_locks() {
    check_both(shares_cross::<AllHot>);
    check_both(shares_cross::<HotByChance>);
}

/// Proves that transactions that do not line up leave locked rows alone.
#[test]
fn calm_and_hot_transactions_meet() {
    check_both(locked_rows_stay::<AllHot>);
}

/// Proves that the models notice transactions that wait for each other.
#[test]
#[should_panic(expected = "they wait for each other")]
fn planted_all_wait() {
    notices(|| crossing::<CarelessWaits<ALL_WAIT>>(true));
}

/// Proves that the models notice a waiting transaction that keeps its shares.
#[test]
#[should_panic(expected = "they wait for each other")]
fn planted_shares_kept() {
    notices(shares_cross::<CarelessWaits<SHARES_KEPT>>);
}

/// Proves that the models notice it if what was once locked is assumed to be unchanged.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_locked_not_validated() {
    notices(shares_cross::<CarelessCommits<LOCKED_NOT_VALIDATED>>);
}

/// Proves that the models notice a commit that does not look for locks.
#[test]
#[should_panic(expected = "it was overtaken")]
fn planted_locks_ignored() {
    notices(locked_rows_stay::<CarelessCommits<LOCKS_IGNORED>>);
}

/// Proves that the models notice a validation before the latches.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_validated_too_early() {
    notices(|| skew::<CarelessCommits<VALIDATED_TOO_EARLY>>(true));
}
