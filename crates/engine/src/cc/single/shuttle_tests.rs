//! Models of what may meet in the commits of schemes with one value per record, over many schedules. At every atomic
//! access another thread may run. Each model fails with the planted error that it is meant to notice.

use super::super::dl_detect::ByGraph;
use super::super::locking::{self, Locking, Meeting, OnConflict};
use super::super::no_wait::GiveWay;
use super::super::occ::ByBeginning;
use super::super::optimistic::{Optimistic, Scope, Validation, draw};
use super::super::silo::ByNewest;
use super::super::tictoc;
use super::super::timestamp::ByTime;
use super::super::wait_die::ByAge;
use super::{
    Access, CommitStage, Env, Held, Intent, Policy, Refused, Shared, Single, Txn, read_committed, record_of,
};
pub(in crate::cc) use crate::cc::models::read;
use crate::cc::models::{Bench, Hand, PLANTED_SCHEDULES_MAX, check, check_both};
use crate::cc::{
    Abort, AllHot, Change, ConcurrencyControl, Declared, DlDetect, HotByChance, NoWait, Occ, Scanned, Silo,
    TicToc, TimestampOrdering, WaitDie, Written,
};
use crate::index::Key;
use crate::record::{Record, Timestamp};
use crate::suspend::{Never, Suspend};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::marker::PhantomData;
use std::ops::Bound;

/// A policy that does what the policy `P` does, except for one error.
pub(super) struct Careless<P, const BUG: u32>(PhantomData<fn() -> P>);

/// Reads are validated before what is written is latched.
const VALIDATED_TOO_EARLY: u32 = 1;
/// A record is unlocked as soon as it has been read.
const UNLOCKED_TOO_EARLY: u32 = 2;
/// Reads that take no part in validation do not wait for a commit under way.
const LATCH_IGNORED: u32 = 3;
/// Reads do not wait for a pending write of an earlier time.
const PENDING_IGNORED: u32 = 12;
/// Reads leave no time behind.
const READ_TIMES_FORGOTTEN: u32 = 13;
/// Reads of absent keys leave no time behind.
const ABSENCE_FORGOTTEN: u32 = 14;
/// A record is assumed to have come with its newest value.
const COMES_WITH_NEWEST: u32 = 15;
/// A record that has been removed again is assumed never to have been there.
const REMOVED_UNSEEN: u32 = 16;

/// Ranges are looked at after the records, by their content then.
pub(super) const RANGES_BY_CONTENT: u32 = 17;

/// Returns the environment for the policy that does the work.
fn env_of<'e, P: Policy, const BUG: u32>(env: Env<'e, Single<Careless<P, BUG>>>) -> Env<'e, Single<P>> {
    Env { shared: env.shared, worker: env.worker, local: env.local }
}

impl<P: Policy, const BUG: u32> Policy for Careless<P, BUG> {
    const INLINES: bool = P::INLINES;
    const HAS_RANGE_TIMES: bool = P::HAS_RANGE_TIMES;
    const HELD_WHEN_NEW: Held = P::HELD_WHEN_NEW;

    fn begun(env: Env<'_, Single<Self>>, txn: &mut Txn, declared: Declared) {
        P::begun(env_of(env), txn, declared);
    }

    fn ends(env: Env<'_, Single<Self>>, txn: &mut Txn) {
        P::ends(env_of(env), txn);
    }

    fn comes_later(shared: &Shared, age: u64, record: *const Record) -> bool {
        BUG == COMES_WITH_NEWEST && record_of(record).at().0 > age || P::comes_later(shared, age, record)
    }

    fn look_at_ranges(shared: &Shared, txn: &mut Txn) -> Result<bool, crate::memory::OutOfMemory> {
        if BUG == RANGES_BY_CONTENT || !txn.has_ranges() {
            return Ok(true);
        }
        txn.look_at_ranges(shared, Self::comes_later)
    }

    fn ranges_hold(shared: &Shared, txn: &mut Txn) -> bool {
        if BUG == RANGES_BY_CONTENT {
            txn.forget_look();
            return txn.look_at_ranges(shared, Self::comes_later) == Ok(true);
        }
        txn.ranges_hold(shared, Self::comes_later)
    }

    fn is_late(env: Env<'_, Single<Self>>, txn: &Txn) -> bool {
        BUG != REMOVED_UNSEEN && P::is_late(env_of(env), txn)
    }

    fn lock_of_new(env: Env<'_, Single<Self>>, txn: &mut Txn) -> u64 {
        P::lock_of_new(env_of(env), txn)
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
            let content = record_of(record).content();
            // SAFETY: the content was read in this epoch.
            let copied = unsafe { txn.copy_content(content) };
            *access = copied.ok().flatten().map_or(Access::Absent, Access::Value);
            return true;
        }
        let until = record_of(record).read_until();
        if BUG == PENDING_IGNORED && intent == Intent::Read {
            record_of(record).raise_read_until(txn.age);
            // SAFETY: the caller has made the promise that `access` asks for, and `read_committed` asks for the same.
            return unsafe { read_committed::<P, S>(access, record, txn, s, |_, _| Ok(())) };
        }
        // SAFETY: the caller has made the promise that `access` asks for, and `P` asks for the same.
        let has_ended = unsafe { P::access(access, record, intent, env_of(env), txn, s) };
        if BUG == READ_TIMES_FORGOTTEN && intent == Intent::Read {
            record_of(record).extend(record_of(record).read_until(), Timestamp(until));
        }
        if BUG == UNLOCKED_TOO_EARLY && intent == Intent::Read && has_ended {
            let entry = txn.accesses.entries.iter_mut().find(|entry| std::ptr::eq(entry.record, record));
            let shared = entry.filter(|entry| entry.held == Held::Shared);
            if let Some(entry) = shared {
                entry.held = Held::Not;
                record_of(record).unshare();
            }
        }
        has_ended
    }

    unsafe fn will_write(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `will_write` asks for, and `P` asks for the same.
        unsafe { P::will_write(env_of(env), txn, record, depends) }
    }

    unsafe fn lock(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Option<bool>, Refused> {
        // SAFETY: the caller has made the promise that `lock` asks for, and `P` asks for the same.
        unsafe { P::lock(env_of(env), txn, record) }
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if BUG == ABSENCE_FORGOTTEN {
            let at = Timestamp(txn.age);
            return txn.try_latch().then(|| Ok(env.shared.registry.commit_at(txn.member.place(), at, false)));
        }
        if BUG != VALIDATED_TOO_EARLY {
            return P::decide(stage, env_of(env), txn, s);
        }
        let is_valid = txn.accesses.entries.iter().all(|entry| {
            let (at, is_latched) = record_of(entry.record).at();
            entry.seen.is_none_or(|seen| at == seen && !is_latched)
        });
        if !is_valid {
            return Some(Err(Abort::Unserializable));
        }
        if !txn.try_latch() {
            return None;
        }
        Some(Ok(env.shared.registry.draw(txn.member.place())))
    }
}

type CarelessSilo<const BUG: u32> = Single<Careless<Optimistic<ByNewest>, BUG>>;
type CarelessTimestamp<const BUG: u32> = Single<Careless<ByTime, BUG>>;
type CarelessTicToc<const BUG: u32> = Single<Optimistic<CarelessTimes<BUG>>>;
type CarelessNoWait<const BUG: u32> = Single<Careless<Locking<GiveWay>, BUG>>;
type CarelessWaitDie<const BUG: u32> = Single<Careless<Locking<ByAge>, BUG>>;
type CarelessDlDetect<const BUG: u32> = Single<Careless<Locking<ByGraph>, BUG>>;

/// Locks with an error in the rule that says which transactions wait.
#[derive(Debug)]
struct CarelessWaits<W, const BUG: u32>(PhantomData<fn() -> W>);

/// All transactions wait.
const ALL_WAIT: u32 = 7;
/// No transaction waits.
const NOBODY_WAITS: u32 = 8;

impl<W: OnConflict, const BUG: u32> OnConflict for CarelessWaits<W, BUG> {
    fn begun(env: locking::Scope<'_, Self>, txn: &mut Txn, declared: Declared) {
        W::begun(Env { shared: env.shared, worker: env.worker, local: env.local }, txn, declared);
    }

    fn may_wait(
        _: locking::Scope<'_, Self>,
        _: &mut Txn,
        _: &Meeting,
    ) -> Result<bool, crate::memory::OutOfMemory> {
        Ok(BUG == ALL_WAIT)
    }

    fn ends(env: locking::Scope<'_, Self>, txn: &mut Txn) {
        W::ends(Env { shared: env.shared, worker: env.worker, local: env.local }, txn);
    }
}

type CarelessQueue<W, const BUG: u32> = Single<Locking<CarelessWaits<W, BUG>>>;

/// TicToc with an error in its times.
#[derive(Debug)]
struct CarelessTimes<const BUG: u32>;

/// The time until which records have been read is not noted.
const NOT_EXTENDED: u32 = 9;
/// The time is noted without a look whether the record is latched by then.
const EXTENDED_UNSEEN: u32 = 10;
/// The time of a commit does not exceed the times until which overwritten records were read.
const READ_TIMES_IGNORED: u32 = 11;

impl<const BUG: u32> Validation for CarelessTimes<BUG> {
    const NOTES_READ_TIMES: bool = true;

    fn admits(_: &Txn, _: u64) -> bool {
        true
    }

    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>> {
        let at = match BUG {
            READ_TIMES_IGNORED if !txn.accesses.writes.is_empty() => {
                env.shared.registry.commit_at(txn.member.place(), txn.member.begin.tick(), false)
            }
            _ => tictoc::time_of(env, txn),
        };
        let is_valid = tictoc::reads(txn).all(|read| {
            let record = record_of(read.record);
            match BUG {
                _ if !read.is_written && read.until >= at.0 => true,
                NOT_EXTENDED => record.at().0 == read.seen,
                EXTENDED_UNSEEN if !read.is_written => {
                    let until = record.read_until();
                    record.at() == (read.seen, false) && (until >= at.0 || record.extend(until, at))
                }
                _ if read.is_written => record.at().0 == read.seen,
                _ => tictoc::extend(read.record, read.seen, at),
            }
        });
        Some(if is_valid { Ok(at) } else { Err(Abort::Unserializable) })
    }
}

/// OCC with an error in its validation.
#[derive(Debug)]
struct CarelessValidation<const BUG: u32>;

/// What the transaction has read is not latched while it is compared.
const NOT_LATCHED: u32 = 4;
/// What the transaction has read is latched, but not compared.
const NOT_COMPARED: u32 = 5;
/// What the transaction also writes is not compared, although it is latched.
const WRITTEN_NOT_COMPARED: u32 = 6;

impl<const BUG: u32> Validation for CarelessValidation<BUG> {
    fn admits(txn: &Txn, at: u64) -> bool {
        ByBeginning::admits(txn, at)
    }

    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>> {
        let is_written = |number| txn.accesses.last_write(number).is_some();
        let read = || txn.accesses.entries.iter().zip(0..).filter(|(entry, _)| entry.seen.is_some());
        let latched = || read().filter(|(_, number)| BUG != NOT_LATCHED && !is_written(*number));
        let count = latched().take_while(|(entry, _)| record_of(entry.record).try_latch()).count();
        let decided = (count == latched().count()).then(|| {
            let at = draw(env, txn);
            let compares = |number| match BUG {
                NOT_COMPARED => is_written(number),
                WRITTEN_NOT_COMPARED => !is_written(number),
                _ => true,
            };
            let mut compared = read().filter(|(_, number)| compares(*number));
            let is_newest = compared.all(|(entry, _)| entry.seen == Some(record_of(entry.record).at().0));
            if is_newest { Ok(at) } else { Err(Abort::Unserializable) }
        });
        latched().take(count).for_each(|(entry, _)| record_of(entry.record).unlatch());
        decided
    }
}

type CarelessOcc<const BUG: u32> = Single<Optimistic<CarelessValidation<BUG>>>;

/// Each of two transactions reads what the other writes, which exists or not. If both commit, one has missed the other.
pub(in crate::cc) fn skew<C: ConcurrencyControl>(is_there: bool) {
    let bench = Arc::new(Bench::<C>::new());
    if is_there {
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
            if seen.is_err() || hand.change(&mut txn, writes, Change::Put(b"1")).is_err() {
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) && seen != Ok(Some(b'1')) {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let threads = [thread::spawn(one(1, 2)), thread::spawn(one(2, 1))];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's write");
}

/// Proves that a transaction looks at the latch of a missed record before it looks whether the record has a value. In
/// this schedule, one of some ten thousand, the other transaction commits between the two looks.
#[test]
fn latches_are_looked_at_first() {
    check(RandomScheduler::new_from_seed(457_081_136_292_648_994, 1), || skew::<DlDetect>(false));
}

/// A first transaction reads what a second writes, and inserts a record that the second misses. A third changes that
/// record, and another that the second has read. If the first two commit, each has missed the other in any case.
fn arrivals<C: ConcurrencyControl>(third: &'static [(u64, Change<'static>)]) {
    let bench = Arc::new(Bench::<C>::new());
    let hand = bench.hand();
    [1, 3].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(b"0")));
    drop(hand);
    let committed = Arc::new(AtomicU64::new(0));
    let one = |reads: &'static [(u64, Option<u8>)], writes: &'static [(u64, Change<'static>)]| {
        let (bench, committed) = (bench.clone(), committed.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let has_missed =
                reads.iter().all(|&(key, seen)| read(&hand, &mut txn, key, Intent::Read) == Ok(seen));
            let has_written = writes.iter().all(|&(key, change)| hand.change(&mut txn, key, change).is_ok());
            if !has_written {
                return hand.abort(txn);
            }
            if hand.try_commit(txn, thread::yield_now) && has_missed && !reads.is_empty() {
                committed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let inserts = one(&[(1, Some(b'0'))], &[(2, Change::Insert(b"1"))]);
    let misses = one(&[(3, Some(b'0')), (2, None)], &[(1, Change::Update(b"1"))]);
    let follows = one(&[], third);
    let threads = [thread::spawn(inserts), thread::spawn(misses), thread::spawn(follows)];
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.load(Ordering::SeqCst) < 2, "both have missed the other's write");
}

const REPLACES: &[(u64, Change<'static>)] = &[(2, Change::Update(b"2")), (3, Change::Update(b"2"))];
const REMOVES: &[(u64, Change<'static>)] = &[(2, Change::Delete), (3, Change::Update(b"2"))];

/// Two transactions move 1 between two records, in opposite directions. A third reads both records and a range in which
/// a key comes with the first transfer. It commits only if what it has read fits together.
pub(in crate::cc) fn transfers<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    {
        let hand = bench.hand();
        [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(&[10])));
    }
    let transfer = |from: u64, to: u64, mark: Option<u64>| {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let mut both = || {
                let (a, b) =
                    (read(&hand, &mut txn, from, Intent::Read)?, read(&hand, &mut txn, to, Intent::Read)?);
                let (a, b) = (a.expect("it is there") - 1, b.expect("it is there") + 1);
                hand.change(&mut txn, from, Change::Update(&[a]))?;
                hand.change(&mut txn, to, Change::Update(&[b]))?;
                mark.map_or(Ok(()), |mark| hand.change(&mut txn, mark, Change::Insert(&[a])).map(drop))
            };
            match both() {
                Ok(()) => _ = hand.try_commit(txn, thread::yield_now),
                Err(_) => hand.abort(txn),
            }
        }
    };
    let threads = [thread::spawn(transfer(1, 2, Some(5))), thread::spawn(transfer(2, 1, None))];
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    let mut all = || {
        let known = C::accessed(&txn);
        let mark = hand.find(5).is_some();
        if !mark {
            let (from, to) = (Key::from_u64(3), Key::from_u64(9));
            let (mut short, mut other) = ([0; 8], [0; 8]);
            let (from, to) = (Bound::Included(from.bytes(&mut short)), Bound::Included(to.bytes(&mut other)));
            let index = &raw const hand.bench.index;
            let scanned = Scanned { index, from, to, is_reverse: false, marks: &[], rows: 0, known };
            C::read_range(&mut txn, &scanned);
        }
        let mark = if mark { read(&hand, &mut txn, 5, Intent::Read)? } else { None };
        Ok::<_, Refused>([1, 2].map(|key| read(&hand, &mut txn, key, Intent::Read)).map(|one| (one, mark)))
    };
    match all() {
        Ok([(Ok(Some(a)), mark), (Ok(Some(b)), _)]) if hand.try_commit_open(&mut txn, thread::yield_now) => {
            assert_eq!(a + b, 20, "a transfer was read in part");
            // The mark has what its transfer has left in the first record. The other transfer adds 1 to it.
            let fits = mark.map_or(a >= 10, |mark| a == mark || a == mark + 1);
            assert!(fits, "the range {mark:?} does not fit {a}");
        }
        _ => C::abort(hand.env(), &mut txn),
    }
    C::drop_txn(&bench.shared, &mut txn);
    threads.into_iter().for_each(|thread| thread.join().expect("its assertions hold"));
}

/// Two transactions each add 1 to what they have read of a record. The sum equals the number of commits.
pub(in crate::cc) fn increments<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(&[0]));
    let add = || {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let added = read(&hand, &mut txn, 1, Intent::Read)
                .and_then(|seen| hand.change(&mut txn, 1, Change::Update(&[seen.expect("it is there") + 1])));
            // The record is being changed: the key would have to be looked for again.
            if added != Ok(Written::Done) {
                hand.abort(txn);
                return 0;
            }
            u8::from(hand.try_commit(txn, thread::yield_now))
        }
    };
    let threads = [thread::spawn(add()), thread::spawn(add())];
    let committed: u8 = threads.into_iter().map(|thread| thread.join().expect("its assertions hold")).sum();
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    assert_eq!(read(&hand, &mut txn, 1, Intent::Read), Ok(Some(committed)), "an update was lost");
    hand.abort(txn);
}

/// Two transactions lock the same two records in opposite orders. Both end. If the scheme lets transactions wait, one
/// of them commits.
pub(in crate::cc) fn crossing<C: ConcurrencyControl>(waits: bool) {
    let bench = Arc::new(Bench::<C>::new());
    {
        let hand = bench.hand();
        [1, 2].into_iter().for_each(|key| hand.commit_change(key, Change::Insert(&[0])));
    }
    let lock_both = |keys: [u64; 2]| {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let locked = keys.iter().try_for_each(|&key| {
                let seen = read(&hand, &mut txn, key, Intent::Covered)?;
                hand.change(&mut txn, key, Change::Update(&[seen.expect("it is there") + 1])).map(drop)
            });
            if let Err(refused) = locked {
                assert_ne!(refused, Refused::Abort(Abort::WaitTimeout), "they wait for each other");
                hand.abort(txn);
                return false;
            }
            hand.try_commit(txn, thread::yield_now)
        }
    };
    let threads = [thread::spawn(lock_both([1, 2])), thread::spawn(lock_both([2, 1]))];
    let committed = threads.into_iter().map(|thread| thread.join().expect("its assertions hold"));
    assert!(committed.filter(|&has| has).count() > 0 || !waits, "neither has waited");
}

/// Two transactions share a record, and then want it alone.
fn upgrades<C: ConcurrencyControl>() {
    let bench = Arc::new(Bench::<C>::new());
    bench.hand().commit_change(1, Change::Insert(&[0]));
    let upgrade = || {
        let bench = bench.clone();
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            let changed = read(&hand, &mut txn, 1, Intent::Read).and_then(|seen| {
                read(&hand, &mut txn, 1, Intent::Covered)?;
                hand.change(&mut txn, 1, Change::Update(&[seen.expect("it is there") + 1]))
            });
            if let Err(refused) = changed {
                assert_ne!(refused, Refused::Abort(Abort::WaitTimeout), "they wait for each other");
                hand.abort(txn);
                return 0;
            }
            u8::from(hand.try_commit(txn, thread::yield_now))
        }
    };
    let threads = [thread::spawn(upgrade()), thread::spawn(upgrade())];
    let committed: u8 = threads.into_iter().map(|thread| thread.join().expect("its assertions hold")).sum();
    let hand: Hand<'_, C> = bench.hand();
    let mut txn = hand.begin();
    assert_eq!(read(&hand, &mut txn, 1, Intent::Read), Ok(Some(committed)), "an update was lost");
    assert!(committed > 0, "neither has waited");
    hand.abort(txn);
}

/// A commit is appended to the log, then made. A checkpoint that begins at a later position of the log reads records
/// one by one, whichever of them changes.
pub(in crate::cc) fn checkpoint<C: ConcurrencyControl>(change: Change<'static>) {
    let bench = Arc::new(Bench::<C>::new());
    {
        let hand = bench.hand();
        if !matches!(change, Change::Insert(_)) {
            hand.commit_change(1, Change::Insert(b"0"));
        }
    }
    let appended = Arc::new(AtomicU64::new(0));
    let writer = thread::spawn({
        let (bench, appended) = (bench.clone(), appended.clone());
        move || {
            let hand: Hand<'_, C> = bench.hand();
            let mut txn = hand.begin();
            assert!(hand.change(&mut txn, 1, change).is_ok());
            let mut prepare = C::Prepare::default();
            let at = loop {
                if let Some(at) = C::prepare(&mut prepare, hand.env(), &mut txn, &mut Never) {
                    break at.expect("nobody is in its way");
                }
                thread::yield_now();
            };
            appended.store(1, Ordering::SeqCst);
            C::finish(hand.env(), &mut txn, at);
            C::drop_txn(&bench.shared, &mut txn);
        }
    });
    let hand: Hand<'_, C> = bench.hand();
    let start = appended.load(Ordering::SeqCst);
    let mut txn = hand.begin();
    let found = read(&hand, &mut txn, 1, Intent::Untracked).expect("it is not refused");
    let end = appended.load(Ordering::SeqCst);
    let (before, after) = match change {
        Change::Insert(_) => (None, Some(b'1')),
        Change::Delete => (Some(b'0'), None),
        _ => (Some(b'0'), Some(b'1')),
    };
    assert!(start == 0 || found == after, "the checkpoint lacks a change from before its start");
    assert!(end == 1 || found == before, "the checkpoint has a change from behind its end");
    hand.abort(txn);
    writer.join().expect("its assertions hold");
}

macro_rules! models {
    ($($module:ident $scheme:ty;)*) => {$(
        mod $module {
            use super::*;

            /// Proves that of two transactions, each of which reads a record that the other writes, one notices.
            #[test]
            fn commits_meet() {
                check_both(|| skew::<$scheme>(true));
            }

            /// Proves that the same holds if both insert what the other has found absent.
            #[test]
            fn inserts_meet() {
                check_both(|| skew::<$scheme>(false));
            }

            /// Proves that the same holds if the inserted record is changed or removed before the other transaction
            /// commits.
            #[test]
            fn inserts_meet_beside_a_third() {
                check_both(|| arrivals::<$scheme>(REPLACES));
                check_both(|| arrivals::<$scheme>(REMOVES));
            }

            /// Proves that no update is lost.
            #[test]
            fn updates_add_up() {
                check_both(increments::<$scheme>);
            }

            /// Proves that a committed reader has read whole transfers, and a range that fits them.
            #[test]
            fn transfers_are_read_whole() {
                check_both(transfers::<$scheme>);
            }

            /// Proves that a checkpoint has all that was appended before its start, and nothing from after its end.
            #[test]
            fn checkpoints_and_commits() {
                check_both(|| checkpoint::<$scheme>(Change::Update(b"1")));
                check_both(|| checkpoint::<$scheme>(Change::Update(b"1 of nine")));
                check_both(|| checkpoint::<$scheme>(Change::Insert(b"1")));
                check_both(|| checkpoint::<$scheme>(Change::Delete));
            }
        }
    )*};
}

models! {
    silo Silo;
    occ Occ;
    tictoc_scheme TicToc;
    timestamp TimestampOrdering;
    no_wait NoWait;
    wait_die WaitDie;
    dl_detect DlDetect;
    all_hot AllHot;
    hot_by_chance HotByChance;
}

/// Proves that transactions that lock the same records in opposite orders end, and that one commits if the scheme lets
/// transactions wait.
#[test]
fn crossing_locks() {
    check_both(|| crossing::<NoWait>(false));
    check_both(|| crossing::<WaitDie>(true));
    check_both(|| crossing::<DlDetect>(true));
    check_both(|| crossing::<AllHot>(true));
}

/// Proves that of two transactions that share a record and want it alone one waits and the other aborts.
#[test]
fn crossing_upgrades() {
    check_both(upgrades::<WaitDie>);
    check_both(upgrades::<DlDetect>);
    check_both(upgrades::<AllHot>);
}

pub(in crate::cc) fn notices(run: fn()) {
    check(RandomScheduler::new(PLANTED_SCHEDULES_MAX), run);
}

/// Proves that the models notice validation before the latches.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_validated_too_early() {
    notices(|| skew::<CarelessSilo<VALIDATED_TOO_EARLY>>(true));
}

/// Proves that the models notice records that are unlocked as soon as they have been read.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_unlocked_too_early() {
    notices(|| skew::<CarelessNoWait<UNLOCKED_TOO_EARLY>>(true));
}

/// Proves the same for a scheme in which the older transaction waits.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_unlocked_too_early_where_the_older_waits() {
    notices(|| skew::<CarelessWaitDie<UNLOCKED_TOO_EARLY>>(true));
}

/// Proves the same for a scheme in which any transaction waits.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_unlocked_too_early_where_any_waits() {
    notices(|| skew::<CarelessDlDetect<UNLOCKED_TOO_EARLY>>(true));
}

/// Proves that the models notice transactions that wait for each other.
#[test]
#[should_panic(expected = "they wait for each other")]
fn planted_all_wait() {
    notices(|| crossing::<CarelessQueue<ByAge, ALL_WAIT>>(true));
}

/// Proves that the models notice transactions that wait for each other at a lock that they share.
#[test]
#[should_panic(expected = "they wait for each other")]
fn planted_all_wait_to_be_alone() {
    notices(upgrades::<CarelessQueue<ByGraph, ALL_WAIT>>);
}

/// Proves that the models notice transactions that do not wait although they should.
#[test]
#[should_panic(expected = "neither has waited")]
fn planted_nobody_waits() {
    notices(|| crossing::<CarelessQueue<ByAge, NOBODY_WAITS>>(true));
}

/// Proves the same for transactions that should wait for shares.
#[test]
#[should_panic(expected = "neither has waited")]
fn planted_nobody_waits_for_shares() {
    notices(upgrades::<CarelessQueue<ByGraph, NOBODY_WAITS>>);
}

/// Proves that the models notice a commit of TicToc that leaves no trace of what it has read.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_not_extended() {
    notices(|| skew::<CarelessTicToc<NOT_EXTENDED>>(true));
}

/// Proves that the models notice a commit of TicToc that does not look whether what it has read is being overwritten.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_extended_unseen() {
    notices(|| skew::<CarelessTicToc<EXTENDED_UNSEEN>>(true));
}

/// Proves that the models notice a commit of TicToc as of a time at which others have read what it overwrites.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_read_times_ignored() {
    notices(|| skew::<CarelessTicToc<READ_TIMES_IGNORED>>(true));
}

/// Proves that the models notice a read under timestamp ordering that does not wait for an earlier write.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_pending_ignored() {
    notices(|| skew::<CarelessTimestamp<PENDING_IGNORED>>(true));
}

/// Proves that the models notice a read that an earlier write does not find.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_read_times_forgotten() {
    notices(|| skew::<CarelessTimestamp<READ_TIMES_FORGOTTEN>>(true));
}

/// Proves that the models notice a read of an absent key that leaves no time.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_absence_forgotten() {
    notices(|| arrivals::<CarelessTimestamp<ABSENCE_FORGOTTEN>>(REPLACES));
}

/// Proves that the models notice a record that came behind a reader's back and is assumed to be newer than the reader.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_comes_with_newest() {
    notices_with_few_switches(|| arrivals::<CarelessTimestamp<COMES_WITH_NEWEST>>(REPLACES));
}

/// Proves that the models notice such a record that has gone again.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_removed_unseen() {
    notices_with_few_switches(|| arrivals::<CarelessTimestamp<REMOVED_UNSEEN>>(REMOVES));
}

/// Proves that the models notice early unlocking in what several records say together.
#[test]
#[should_panic(expected = "read in part")]
fn planted_unlocked_too_early_in_transfers() {
    notices(transfers::<CarelessNoWait<UNLOCKED_TOO_EARLY>>);
}

/// Proves that the models notice a validation without latches.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_not_latched() {
    notices(|| skew::<CarelessOcc<NOT_LATCHED>>(true));
}

/// Proves that the models notice a validation that does not compare.
#[test]
#[should_panic(expected = "both have missed")]
fn planted_not_compared() {
    notices(|| skew::<CarelessOcc<NOT_COMPARED>>(true));
}

/// Proves that the models notice a validation that does not compare what is also written.
#[test]
#[should_panic(expected = "an update was lost")]
fn planted_written_not_compared() {
    notices(increments::<CarelessOcc<WRITTEN_NOT_COMPARED>>);
}

/// Checks schedules in which the reader takes many steps between two steps of the writer.
pub(super) fn notices_with_few_switches(run: fn()) {
    check(PctScheduler::new(5, PLANTED_SCHEDULES_MAX), run);
}

/// Proves that the models notice a checkpoint that does not wait for a commit, under Silo.
#[test]
#[should_panic(expected = "from before its start")]
fn planted_latch_ignored() {
    notices_with_few_switches(|| checkpoint::<CarelessSilo<LATCH_IGNORED>>(Change::Update(b"1")));
}

/// Proves the same under NO_WAIT.
#[test]
#[should_panic(expected = "from before its start")]
fn planted_latch_ignored_with_locks() {
    notices_with_few_switches(|| checkpoint::<CarelessNoWait<LATCH_IGNORED>>(Change::Update(b"1")));
}
