//! Fills a database past transactions, and checks what transactions then find.

use super::replay::{for_each_parallel, replay};
use super::restore::{Restorer, resume};
use crate::cc::{ConcurrencyControl, RESTORED_AT_MAX, Serializable, Snapshot};
use crate::db::Database;
use crate::error::Error;
use crate::metrics::SystemClock;
use crate::options::Options;
use crate::record::VALUE_BYTES_MAX;
use crate::suspend::Seeded;
use crate::table::{AsKey, KEY_BYTES_MAX, Key, Table, TableInner};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A commit's timestamp, with a note of how far it reaches back.
const AT: u64 = 1000 * 256 + 3;

fn database<C: ConcurrencyControl>(memory_limit_bytes: u64) -> Database<C> {
    let options = Options { workers: 0, memory_limit_bytes, ..Options::default() };
    Database::in_memory_with(options, Arc::new(SystemClock::default())).expect("memory")
}

fn table<C: ConcurrencyControl, K: Key>(db: &Database<C>) -> Table<K, [u8]> {
    db.table("t").expect("memory")
}

const LONG: &str =
    "a beginning which is longer than eight layers of an index, of eight bytes each, are together";

/// What a test does to a table. A model keeps the same.
struct Fixture<'d, C: ConcurrencyControl, K> {
    db: &'d Database<C>,
    table: Table<K, [u8]>,
    model: Model,
    random: Seeded,
}

impl<'d, C: ConcurrencyControl, K: Key> Fixture<'d, C, K> {
    fn new(db: &'d Database<C>, seed: u64) -> Self {
        println!("seed {seed}");
        Fixture { db, table: table(db), model: Model::new(), random: Seeded::new(seed) }
    }

    fn inner(&self) -> &'d TableInner {
        let table: *const TableInner = self.table.inner(self.db.engine().id).expect("its own table");
        // SAFETY: tables live as long as their database.
        unsafe { &*table }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    /// Returns one of `keys` keys: numbers, or strings of up to a hundred bytes that share long beginnings.
    fn key(&mut self, keys: u64) -> Vec<u8> {
        let number = self.below(keys);
        if K::FIXED8 {
            return (number * 7).to_be_bytes().to_vec();
        }
        let prefix = ["", "12345678", "a beginning of twenty", LONG][number as usize % 4];
        format!("{prefix}{number}").into_bytes()
    }

    /// Returns a value of no bytes, of as many as fit a slot, of more, or of many.
    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.below(20) {
            0..4 => 0,
            4..10 => self.below(9),
            10..18 => self.below(200),
            18 => self.below(20_000),
            _ => self.below(100_000),
        };
        vec![self.below(256) as u8; bytes as usize]
    }

    /// Loads `blocks` blocks of sorted rows on several threads.
    fn load(&mut self, keys: u64, blocks: usize, threads: usize) {
        for _ in 0..keys {
            let (key, value) = (self.key(keys), self.value());
            self.model.insert(key, value);
        }
        let rows: Vec<(&[u8], &[u8])> = self.model.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let parts: Vec<_> = rows.chunks(rows.len().div_ceil(blocks)).collect();
        let table = self.inner();
        for_each_parallel(self.db.engine(), threads, parts.len(), |restorer, i| {
            restorer.load(table, parts[i].iter().copied(), AT)
        })
        .expect("memory");
    }

    /// Returns a change of one of `keys` keys, and makes it to the model.
    fn change(&mut self, keys: u64) -> (Vec<u8>, Option<Vec<u8>>) {
        let key = self.key(keys);
        let value = (self.below(3) > 0).then(|| self.value());
        match &value {
            Some(value) => _ = self.model.insert(key.clone(), value.clone()),
            None => _ = self.model.remove(&key),
        }
        (key, value)
    }

    fn replay(&mut self, keys: u64, changes: usize, threads: usize) {
        let (db, inner, made) = (self.db, self.inner(), AtomicUsize::new(0));
        let progress = |n| _ = made.fetch_add(n, Ordering::Relaxed);
        replay(db.engine(), threads, &progress, |feed| {
            (0..changes).try_for_each(|i| {
                let (key, value) = self.change(keys);
                feed.push(inner, &key, value.as_deref(), AT + i as u64)
            })
        })
        .expect("memory");
        assert_eq!(made.into_inner(), changes);
    }

    /// Opens the database to transactions and compares what they find with the model.
    fn check(&self)
    where
        K: AsKey<K>,
    {
        resume(self.db.engine(), AT + 1_000_000).expect("a timestamp");
        let encoded = |key: &K| {
            let mut bytes = vec![];
            key.encode(true, &mut bytes);
            bytes
        };
        let scanned = self.db.worker().run(async |tx| {
            let mut expected = self.model.iter();
            let mut rows = tx.scan_all(self.table);
            while let Some((key, value)) = rows.next().await? {
                assert_eq!(Some((&encoded(&key), &value.to_vec())), expected.next());
                assert_eq!(tx.get(self.table, &key).await?, Some(value));
            }
            assert_eq!(expected.next(), None);
            let (mut rows, mut expected) = (tx.scan_all(self.table).reverse(), self.model.iter().rev());
            while let Some((key, _)) = rows.next().await? {
                assert_eq!(Some(&encoded(&key)), expected.next().map(|(key, _)| key));
            }
            Ok(())
        });
        scanned.expect("nothing is in its way");
    }
}

/// Tends until nothing is left to clean up.
fn clean<C: ConcurrencyControl>(db: &Database<C>) {
    let mut worker = db.worker();
    for _ in 0..100_000 {
        worker.maintain();
        db.maintain();
        if worker.garbage() == 0 {
            return;
        }
    }
    panic!("{} changes are never cleaned up", worker.garbage());
}

fn check_restored<C: ConcurrencyControl, K: Key + AsKey<K>>(seed: u64, threads: usize) {
    let db = database::<C>(u64::MAX);
    let mut fixture = Fixture::<C, K>::new(&db, seed);
    fixture.load(3000, 20, threads);
    clean(&db);
    fixture.check();
    assert_eq!(db.statistics().memory.records, fixture.model.len() as u64, "no slot is lost");
    fixture.replay(4000, 10_000, threads); // most of them once or twice
    fixture.replay(10, 10_000, threads); // many times in a group
    clean(&db);
    fixture.check();
    assert_eq!(db.statistics().memory.records, fixture.model.len() as u64, "no slot is lost");
}

/// Proves that transactions find exactly what was loaded and replayed, whatever the lengths of keys and values,
/// however often a key comes in a group, on one thread and on several.
#[test]
fn restored_is_as_committed() {
    for (seed, threads) in [(1, 1), (2, 3)] {
        check_restored::<Serializable, u64>(seed, threads);
        check_restored::<Serializable, String>(seed, threads);
        check_restored::<Snapshot, u64>(seed, threads);
    }
}

/// Proves that every group of changes ends as if they were made one by one: the last change of each key counts,
/// wherever in the group it stands and whatever came before.
#[test]
fn groups_end_as_one_by_one() {
    let db = database::<Serializable>(u64::MAX);
    let (mut eight, threads) = (Fixture::<_, u64>::new(&db, 5), [1, 1, 1, 2]);
    for round in 0..400 {
        let (keys, changes) = (1 + eight.below(5), 1 + eight.below(100));
        eight.replay(keys, changes as usize, threads[round % 4]);
        eight.check();
    }
}

/// Proves that rows and changes that come again, as after a checkpoint that was written while transactions ran, end
/// in the same state.
#[test]
fn replay_is_idempotent() {
    let db = database::<Serializable>(u64::MAX);
    let mut fixture = Fixture::<_, u64>::new(&db, 3);
    fixture.load(500, 4, 1);
    let changes: Vec<_> = (0..5000).map(|_| fixture.change(600)).collect();
    let table = fixture.inner();
    for round in 0..3 {
        replay(db.engine(), 2, &|_| {}, |feed| {
            let mut all = changes[if round == 0 { 2000 } else { 0 }..].iter();
            all.try_for_each(|(key, value)| feed.push(table, key, value.as_deref(), AT))
        })
        .expect("memory");
    }
    clean(&db);
    fixture.check();
    assert_eq!(db.statistics().memory.records, fixture.model.len() as u64, "no slot is lost");
}

/// Runs transactions over restored rows. They conflict, commit, and leave as little behind as over any other rows.
fn check_transactions<C: ConcurrencyControl>(allows_write_skew: bool) {
    let db = database::<C>(u64::MAX);
    let mut fixture = Fixture::<C, u64>::new(&db, 4);
    fixture.load(1000, 8, 2);
    fixture.replay(1000, 3000, 1);
    fixture.check();
    let table = fixture.table;
    let mut keys =
        fixture.model.keys().map(|key| u64::from_be_bytes(key[..].try_into().expect("eight bytes")));
    let (a, b) = (keys.next().expect("many"), keys.next().expect("many"));

    let (first, second) = (db.begin().expect("room"), db.begin().expect("room"));
    assert!(first.update(table, a, b"first").expect("nothing in its way"));
    assert!(matches!(second.update(table, a, b"second"), Err(Error::Conflict)));
    drop(second);
    let reader = db.begin().expect("room");
    assert_eq!(
        reader.get(table, a).expect("it reads").map(<[u8]>::to_vec),
        fixture.model.values().next().cloned()
    );
    first.commit().expect("nothing in its way");
    drop(reader);
    assert_eq!(db.begin().expect("room").get(table, a).expect("it reads"), Some(&b"first"[..]));

    let (left, right) = (db.begin().expect("room"), db.begin().expect("room"));
    for (tx, read, written) in [(&left, a, b), (&right, b, a)] {
        assert!(tx.get(table, read).expect("it reads").is_some());
        tx.put(table, written, b"skewed").expect("nothing in its way");
    }
    left.commit().expect("the first");
    assert_eq!(right.commit().is_ok(), allows_write_skew);

    let mut worker = db.worker();
    for length in [8, 100, 0] {
        let value = vec![1; length];
        worker.run_each(0..7000, async |tx, key| tx.put(table, key, &value).await, |r| r.expect("alone"));
    }
    worker.run_each(0..7000, async |tx, key| tx.delete(table, key).await, |r| assert!(r.expect("alone")));
    drop(worker);
    clean(&db);
    let memory = db.statistics().memory;
    assert_eq!(memory.records, 0);
    assert!(memory.nodes < 20, "{memory:?}");
}

/// Proves that restored rows are rows like any others to later transactions.
#[test]
fn transactions_go_on() {
    check_transactions::<Serializable>(false);
    check_transactions::<Snapshot>(true);
}

/// Proves that timestamps continue behind those of restored commits, and that all of these commits are visible.
#[test]
fn timestamps_go_on() {
    let db = database::<Serializable>(u64::MAX);
    let table = table::<_, u64>(&db);
    let inner = table.inner(db.engine().id).expect("its own table");
    let mut restorer = Restorer::new(db.engine()).expect("room");
    let stamps = [0, 1, 255, 256, 511, AT, AT | 255, RESTORED_AT_MAX];
    for (key, at) in stamps.iter().enumerate() {
        let key = (key as u64).to_be_bytes();
        restorer.load(inner, [(&key[..], &b"value"[..])].into_iter(), *at).expect("memory");
    }
    drop(restorer);
    for at in [AT, 5, RESTORED_AT_MAX] {
        resume(db.engine(), at).expect("a timestamp");
        let began = db.worker().run(async |tx| Ok(tx.snapshot_timestamp()));
        assert!(began.expect("nothing is in its way") >= at);
    }
    let before = db.begin().expect("room");
    let mut worker = db.worker();
    for key in 0..stamps.len() as u64 {
        worker
            .run(async |tx| tx.update(table, key, b"later").await.map(|found| assert!(found)))
            .expect("alone");
        assert!(worker.last_commit_timestamp() > RESTORED_AT_MAX);
        assert_eq!(
            worker
                .run(async |tx| Ok(tx.get(table, key).await?.map(<[u8]>::to_vec)))
                .expect("alone")
                .as_deref(),
            Some(&b"later"[..])
        );
    }
    for key in 0..stamps.len() as u64 {
        assert_eq!(
            before.get(table, key).expect("it reads"),
            Some(&b"value"[..]),
            "as of before the updates"
        );
    }
    for at in [RESTORED_AT_MAX + 1, 1 << 62, u64::MAX] {
        assert!(matches!(resume(db.engine(), at), Err(Error::Malformed { .. })));
    }
}

/// Proves that memory does not grow with changes of the same keys, however long their values and the log.
#[test]
fn replay_takes_no_more_memory() {
    let db = database::<Serializable>(u64::MAX);
    let table = table::<_, u64>(&db);
    let inner = table.inner(db.engine().id).expect("its own table");
    let round = |threads, length: usize| {
        let value = vec![1; length];
        replay(db.engine(), threads, &|_| {}, |feed| {
            (0..20_000u64).try_for_each(|i| {
                let key = (i % 100).to_be_bytes();
                feed.push(inner, &key, (i / 100 % 4 > 0).then_some(&value), AT + i)
            })
        })
        .expect("memory");
        db.statistics().memory.total_bytes()
    };
    for threads in [1, 3] {
        for length in [0, 8, 9, 3000] {
            let before = round(threads, length);
            let after = (0..5).map(|_| round(threads, length)).max().expect("five");
            assert!(after <= before + (4 << 20), "{length} bytes: {before} bytes grew to {after}");
        }
    }
    clean(&db);
    assert_eq!(db.statistics().memory.records, 100);
}

/// Proves that short values lie in their slots again, whatever came before, and that reads find them there.
#[test]
fn short_values_stay_in_their_slots() {
    let db = database::<Serializable>(u64::MAX);
    let table = table::<_, u64>(&db);
    let inner = table.inner(db.engine().id).expect("its own table");
    let rounds = |value: &[u8]| {
        replay(db.engine(), 1, &|_| {}, |feed| {
            let mut all = 0..100_000u64;
            all.try_for_each(|i| feed.push(inner, &(i % 50_000).to_be_bytes(), Some(value), AT))
        })
        .expect("memory");
    };
    rounds(b"8 bytes.");
    assert_eq!(db.statistics().memory.versions_bytes, 0);
}

/// Proves that impossible keys, values and timestamps are refused, and that rows that occur twice are harmless, even
/// on several threads.
#[test]
fn bad_input() {
    let db = database::<Serializable>(u64::MAX);
    let (eight, any) = (table::<_, u64>(&db), db.table::<String, [u8]>("any").expect("memory"));
    let id = db.engine().id;
    let (eight, any) = (eight.inner(id).expect("its own"), any.inner(id).expect("its own"));
    let (long_key, long_value) = (vec![1; KEY_BYTES_MAX + 1], vec![1; VALUE_BYTES_MAX + 1]);
    let check = |table: &TableInner, key: &[u8], value: &[u8], at| {
        let loaded = Restorer::new(db.engine()).expect("room").load(table, [(key, value)].into_iter(), at);
        let replayed = replay(db.engine(), 1, &|_| {}, |feed| feed.push(table, key, Some(value), at));
        assert_eq!(format!("{loaded:?}"), format!("{replayed:?}"));
        loaded
    };
    assert!(matches!(check(any, &long_key, b"", AT), Err(Error::KeyTooLong { .. })));
    assert!(matches!(check(any, b"", &long_value, AT), Err(Error::ValueTooLong { .. })));
    for key in [&[][..], &[0; 7], &[0; 9], &long_key] {
        assert!(check(eight, key, b"", AT).is_err());
    }
    assert!(matches!(check(any, b"", b"", RESTORED_AT_MAX + 1), Err(Error::Malformed { .. })));
    assert_eq!(db.statistics().memory.records, 0);
    check(any, &long_key[1..], &long_value[1..], AT).expect("as long as they may be");

    let values = [&b"short"[..], &[7; 100]];
    let keys: Vec<_> = (0..300u64).rev().map(u64::to_be_bytes).collect();
    for_each_parallel(db.engine(), 4, 40, |restorer, i| {
        restorer.load(eight, keys.iter().map(|key| (&key[..], values[i % 2])), AT)
    })
    .expect("memory");
    clean(&db);
    assert_eq!(db.statistics().memory.records, 301);
}

/// Proves that the first error ends everything, on one thread and on several, and is the error that is returned.
#[test]
fn errors_end_it() {
    for threads in [1, 3] {
        let db = database::<Serializable>(4 << 20);
        let table = table::<_, u64>(&db);
        let inner = table.inner(db.engine().id).expect("its own table");
        let mut pushed = 0u64;
        let filled = replay(db.engine(), threads, &|_| {}, |feed| {
            for key in 0..10_000_000u64 {
                feed.push(inner, &key.to_be_bytes(), Some(&[1; 50]), AT)?;
                pushed += 1;
            }
            Ok(())
        });
        assert!(
            matches!(filled, Err(Error::OutOfMemory { limit_bytes }) if limit_bytes == 4 << 20),
            "{filled:?}"
        );
        assert!(pushed < 1_000_000, "the feed went on");
        let refused = replay(db.engine(), threads, &|_| {}, |_| Err(Error::user("a bad log")));
        assert!(matches!(refused, Err(Error::User(_))));
        let begun = AtomicUsize::new(0);
        let failed = for_each_parallel(db.engine(), threads, 1000, |_, i| {
            begun.fetch_add(1, Ordering::Relaxed);
            if i == 10 { Err(Error::user("a bad block")) } else { Ok(()) }
        });
        assert!(matches!(failed, Err(Error::User(_))));
        assert!(begun.into_inner() <= 1000);
    }
}

/// Proves that each number is given out once, whatever the number of threads.
#[test]
fn numbers_are_given_out_once() {
    let db = database::<Serializable>(u64::MAX);
    for (threads, n) in [(0, 5), (1, 5), (4, 0), (4, 1), (3, 1000)] {
        let given: Vec<_> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        for_each_parallel(db.engine(), threads, n, |_, i| {
            given[i].fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .expect("nothing fails");
        assert!(given.into_iter().all(|count| count.into_inner() == 1));
    }
}
