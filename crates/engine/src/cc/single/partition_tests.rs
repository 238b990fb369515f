//! Models of transactions that have partitions to themselves, and of the queues of partitions, over many schedules.
//! Each model fails with the planted error that it is meant to notice.

use super::super::hstore::ByPartition;
use super::shuttle_tests::{checkpoint, notices, notices_with_few_switches, read};
use super::{Access, CommitStage, Env, Held, Intent, Policy, Refused, Shared, Single, Txn, record_of};
use crate::cc::models::{Bench, Hand, check_both};
use crate::cc::{Abort, Admission, Change, ConcurrencyControl, Declared, HStore};
use crate::record::{Record, Timestamp};
use crate::suspend::{Never, Suspend};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

/// The policy with an error.
#[derive(Debug)]
struct Careless<const BUG: u32>;

/// Transactions without a partition are admitted.
const NOT_ASKED: u32 = 1;
/// Partitions are given back before the writes are installed.
const GIVEN_BACK_EARLY: u32 = 2;
/// Reads without partitions do not wait for a commit under way.
const LATCH_IGNORED: u32 = 3;
/// A transaction stays in the queue when it ends.
const STAYS_QUEUED: u32 = 4;
/// A transaction's own write is not found by the record's word.
const OWN_FORGOTTEN: u32 = 5;
/// An aborted transaction that is run again does not first take the partitions that it needed.
const SAME_AGAIN: u32 = 6;

type CarelessHStore<const BUG: u32> = Single<Careless<BUG>>;

fn env_of<'e, const BUG: u32>(env: Env<'e, CarelessHStore<BUG>>) -> Env<'e, HStore> {
    Env { shared: env.shared, worker: env.worker, local: env.local }
}

impl<const BUG: u32> Policy for Careless<BUG> {
    const TRACKS_READS: bool = false;
    const HAS_PARTITIONS: bool = true;
    const HELD_WHEN_NEW: Held = Held::Not;

    fn begun(env: Env<'_, Single<Self>>, txn: &mut Txn, declared: Declared) {
        let is_retry = declared.is_retry && BUG != SAME_AGAIN;
        ByPartition::begun(env_of(env), txn, Declared { is_retry, ..declared });
    }

    fn ends(env: Env<'_, Single<Self>>, txn: &mut Txn) {
        if BUG == STAYS_QUEUED {
            txn.claims.forget_queue();
        }
        ByPartition::ends(env_of(env), txn);
    }

    fn declare_partitions(shared: &Shared, txn: &mut Txn, partitions: u64) {
        ByPartition::declare_partitions(shared, txn, partitions);
    }

    fn admit<S: Suspend>(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        need: u64,
        waits: bool,
        s: &mut S,
    ) -> Admission {
        if BUG == NOT_ASKED {
            return Admission::Granted;
        }
        ByPartition::admit(env_of(env), txn, need, waits, s)
    }

    fn refused(txn: &Txn) -> Option<Refused> {
        ByPartition::refused(txn)
    }

    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        if BUG == LATCH_IGNORED && intent == Intent::Untracked {
            // SAFETY: the content was read in this epoch.
            let copied = unsafe { txn.copy_content(record_of(record).content()) };
            *access = copied.ok().flatten().map_or(Access::Absent, Access::Value);
            return true;
        }
        // SAFETY: the caller has made the promise that `access` asks for, and `ByPartition` asks for the same.
        unsafe { ByPartition::access(access, record, intent, env_of(env), txn, s) }
    }

    unsafe fn will_write(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `will_write` asks for, and `ByPartition` asks for the same.
        unsafe { ByPartition::will_write(env_of(env), txn, record, depends) }
    }

    unsafe fn lock(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `lock` asks for, and `ByPartition` asks for the same.
        unsafe { ByPartition::lock(env_of(env), txn, record) }
    }

    fn find(txn: &Txn, record: *const Record) -> Option<usize> {
        if BUG == OWN_FORGOTTEN { None } else { ByPartition::find(txn, record) }
    }

    fn reserve(txn: &mut Txn) -> Result<(), crate::memory::OutOfMemory> {
        ByPartition::reserve(txn)
    }

    fn enter_reserved(txn: &mut Txn, record: *const Record) -> usize {
        if BUG == OWN_FORGOTTEN {
            return txn.accesses.add(record);
        }
        ByPartition::enter_reserved(txn, record)
    }

    fn lock_of_new(env: Env<'_, Single<Self>>, txn: &mut Txn) -> u64 {
        ByPartition::lock_of_new(env_of(env), txn)
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if BUG == GIVEN_BACK_EARLY {
            txn.claims.end(txn.member.tag, env.shared.partitions());
        }
        if BUG == GIVEN_BACK_EARLY || BUG == NOT_ASKED {
            // Latches are tried, so that an update is lost and no latch is met.
            return txn.try_latch().then(|| Ok(env.shared.registry.draw(txn.member.place())));
        }
        ByPartition::decide(stage, env_of(env), txn, s)
    }
}

/// Returns the partition of a key.
fn partition_of(key: u64) -> u64 {
    1 << (key % u64::from(crate::cc::models::PARTITIONS))
}

/// Declares partitions, and waits until the transaction has them. Returns false if it is refused.
fn take<C: ConcurrencyControl>(hand: &Hand<'_, C>, txn: &mut C::Txn, partitions: u64) -> bool {
    C::declare_partitions(&hand.bench.shared, txn, partitions);
    admitted(hand, txn, partitions)
}

/// Waits until the transaction has these partitions. Returns false if it is refused.
fn admitted<C: ConcurrencyControl>(hand: &Hand<'_, C>, txn: &mut C::Txn, partitions: u64) -> bool {
    loop {
        match C::admit(hand.env(), txn, partitions, true, &mut Never) {
            Admission::Granted => return true,
            Admission::Suspended => thread::yield_now(),
            Admission::Refused | Admission::Busy => return false,
        }
    }
}

/// Transactions move 1 from key to key, each with the partitions of both keys. A transaction with all partitions
/// finds the sum unchanged.
fn moves<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    [1, 2, 3].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(&[10])));
    drop(hand);
    let transfer = |from: u64, to: u64| {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            assert!(take(&hand, &mut txn, partition_of(from) | partition_of(to)), "they wait for each other");
            let mut add = |key, more: u8| {
                let old = read(&hand, &mut txn, key, Intent::Read).expect("it is not refused");
                let new = old.expect("it is there").wrapping_add(more);
                assert!(hand.change(&mut txn, key, Change::Update(&[new])).is_ok());
                let seen = read(&hand, &mut txn, key, Intent::Read);
                assert_eq!(seen, Ok(Some(new)), "its own write is not seen");
            };
            add(from, 255);
            add(to, 1);
            assert!(hand.try_commit(txn, thread::yield_now));
        }
    };
    let threads = [thread::spawn(transfer(1, 2)), thread::spawn(transfer(2, 3))];
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    assert!(take(&hand, &mut txn, u64::MAX), "they wait for each other");
    let mut sum = || {
        let each = [1, 2, 3].map(|key| read(&hand, &mut txn, key, Intent::Read));
        each.into_iter().map(|one| one.expect("not refused").map_or(0, u32::from)).sum::<u32>()
    };
    assert_eq!((sum(), sum()), (30, 30), "a transfer was read in part");
    hand.abort(txn);
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    let last = [1, 2, 3].map(|key| {
        let mut txn = hand.begin();
        let value = read(&hand, &mut txn, key, Intent::Untracked).expect("not refused");
        hand.abort(txn);
        value.expect("it is there")
    });
    assert_eq!(last, [9, 10, 11], "an update was lost");
}

/// Two transactions each add 1 to a record.
fn adds<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(&[0]));
    let add = || {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            assert!(take(&hand, &mut txn, partition_of(1)), "it never comes");
            let old = read(&hand, &mut txn, 1, Intent::Read).expect("it is not refused");
            let new = old.expect("it is there") + 1;
            assert!(hand.change(&mut txn, 1, Change::Update(&[new])).is_ok());
            assert!(hand.try_commit(txn, thread::yield_now));
        }
    };
    let threads = [thread::spawn(add()), thread::spawn(add())];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    assert_eq!(read(&hand, &mut txn, 1, Intent::Untracked), Ok(Some(2)), "an update was lost");
    hand.abort(txn);
}

/// Two transactions declare nothing and take two partitions in opposite orders. A transaction that aborts takes both
/// first when it is run again. All end.
fn undeclared<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(&[0])));
    drop(hand);
    let add_to_both = |keys: [u64; 2]| {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let attempt = |mut txn: C::Txn| {
                for key in keys {
                    if !admitted(&hand, &mut txn, partition_of(key)) {
                        return Err(txn);
                    }
                    let old = read(&hand, &mut txn, key, Intent::Read).expect("it is not refused");
                    let new = old.expect("it is there") + 1;
                    assert!(hand.change(&mut txn, key, Change::Update(&[new])).is_ok());
                }
                assert!(hand.try_commit(txn, thread::yield_now));
                Ok(())
            };
            if let Err(txn) = attempt(hand.begin()) {
                assert!(attempt(hand.begin_again(txn)).is_ok(), "with both it goes on");
            }
        }
    };
    let threads = [thread::spawn(add_to_both([1, 2])), thread::spawn(add_to_both([2, 1]))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    let hand: Hand<'_, C> = bench.hand();
    for key in [1, 2] {
        let mut txn = hand.begin();
        assert_eq!(read(&hand, &mut txn, key, Intent::Untracked), Ok(Some(2)), "an update was lost");
        hand.abort(txn);
    }
}

/// A first transaction has a partition. A second joins its queue and gives up, or has got the partition by then. A
/// third waits until it gets the partition.
fn queue<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    let got = Arc::new(AtomicU64::new(0));
    let holder = {
        let (bench, got) = (bench.clone(), got.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            assert!(take(&hand, &mut txn, 1), "it never comes");
            assert_eq!(got.fetch_add(1, Ordering::SeqCst), 0, "two have it");
            got.fetch_sub(1, Ordering::SeqCst);
            hand.abort(txn);
        }
    };
    let leaver = {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            C::declare_partitions(&bench.shared, &mut txn, 1);
            let _ = C::admit(hand.env(), &mut txn, 1, true, &mut Never);
            hand.abort(txn);
        }
    };
    let threads = [thread::spawn(holder.clone()), thread::spawn(leaver), thread::spawn(holder)];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
}

/// Proves that transactions with partitions of their own lose no update, see no half of another transaction, and end in
/// any order of their declarations.
#[test]
fn partitions_are_moved_between() {
    check_both(moves::<HStore>);
}

/// Proves that no update is lost.
#[test]
fn updates_add_up() {
    check_both(adds::<HStore>);
}

/// Proves that transactions that take partitions as they need them lose no update, and end.
#[test]
fn partitions_as_they_are_needed() {
    check_both(undeclared::<HStore>);
}

/// Proves that a partition goes to all transactions that wait for it, past those that have left.
#[test]
fn queues_go_on() {
    check_both(queue::<HStore>);
}

/// Proves that a checkpoint has all that was appended before its start, and nothing that was appended after its end.
#[test]
fn checkpoints_and_commits() {
    check_both(|| checkpoint::<HStore>(Change::Update(b"1")));
    check_both(|| checkpoint::<HStore>(Change::Update(b"1 of nine")));
    check_both(|| checkpoint::<HStore>(Change::Insert(b"1")));
    check_both(|| checkpoint::<HStore>(Change::Delete));
}

/// Proves that the models notice transactions without partitions.
#[test]
#[should_panic(expected = "an update was lost")]
fn planted_not_asked() {
    notices(adds::<CarelessHStore<NOT_ASKED>>);
}

/// Proves that the models notice partitions that are given back too early.
#[test]
#[should_panic(expected = "an update was lost")]
fn planted_given_back_early() {
    notices(adds::<CarelessHStore<GIVEN_BACK_EARLY>>);
}

/// Proves that the models notice a checkpoint that does not wait for a commit.
#[test]
#[should_panic(expected = "from before its start")]
fn planted_latch_ignored() {
    notices_with_few_switches(|| checkpoint::<CarelessHStore<LATCH_IGNORED>>(Change::Update(b"1")));
}

/// Proves that the models notice an aborted transaction that takes partitions in the same order when it is run again.
#[test]
#[should_panic(expected = "with both it goes on")]
fn planted_same_again() {
    notices(undeclared::<CarelessHStore<SAME_AGAIN>>);
}

/// Proves that the models notice a transaction that ends and stays in the queue.
#[test]
#[should_panic(expected = "it never comes")]
fn planted_stays_queued() {
    notices(queue::<CarelessHStore<STAYS_QUEUED>>);
}

/// Proves that the models notice a transaction that does not see its own write.
#[test]
#[should_panic(expected = "its own write is not seen")]
fn planted_own_forgotten() {
    notices(moves::<CarelessHStore<OWN_FORGOTTEN>>);
}
