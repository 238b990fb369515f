//! Keys and extractors that contradict themselves. Operations on their own tables fail or find other rows than
//! intended. Other tables' rows are never seen, and no scan, build or checkpoint continues for ever.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::worker::Worker;
use braiddb::{AsKey, Database, Error, Index, Key, Options, Result, Table, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn database() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

/// The number of rows that a scan may show, many more than any test has.
const ROWS_MAX: usize = 100_000;

/// Returns all rows that a scan shows, in each direction, if none is an error.
fn scan_all<K: Key>(tx: &Transaction, table: Table<K, [u8]>) -> Result<Vec<Vec<u8>>>
where
    Vec<u8>: AsKey<K>,
{
    let mut found = vec![];
    for is_reverse in [false, true] {
        let rows = tx.scan::<K, [u8], Vec<u8>>(table, ..);
        let mut rows = if is_reverse { rows.reverse() } else { rows };
        while let Some((_, value)) = rows.next()? {
            found.push(value.to_vec());
            assert!(found.len() < ROWS_MAX, "the scan goes on for ever");
        }
    }
    Ok(found)
}

/// A key that claims to have other bytes than it has.
struct Lie<const EIGHT: bool> {
    bytes: Vec<u8>,
    short: Option<(u64, u32)>,
}

impl<const EIGHT: bool> Lie<EIGHT> {
    fn of(bytes: &[u8]) -> Self {
        Lie { bytes: bytes.to_vec(), short: None }
    }
}

impl<const EIGHT: bool> Key for Lie<EIGHT> {
    const FIXED8: bool = EIGHT;
    const NAME: &'static str = "lie";
    fn encode(&self, _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
    fn decode(_: bool, bytes: &mut &[u8]) -> Option<Self> {
        Some(Lie::of(std::mem::take(bytes)))
    }
}

impl<const EIGHT: bool> AsKey<Lie<EIGHT>> for Lie<EIGHT> {
    fn short(&self) -> Option<(u64, u32)> {
        self.short
    }
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        self.encode(last, out);
    }
}

impl<const EIGHT: bool> AsKey<Lie<EIGHT>> for Vec<u8> {
    fn encode_as(&self, _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Proves that a type is refused that claims that all its keys have eight bytes and has others, whatever is done with
/// such a key. Rows with honest keys are there.
#[test]
fn keys_not_of_eight() {
    let db = database();
    let table: Table<Lie<true>, [u8]> = db.table("lies").unwrap();
    let tx = db.begin().unwrap();
    tx.put(table, Lie::of(b"8 bytes!"), b"honest").unwrap();
    for bytes in [&b""[..], b"short", b"more than eight bytes", &[b'x'; 300]] {
        let shorts =
            [None, Some((7, bytes.len() as u32)), Some((u64::MAX, 3)), Some((1, 9)), Some((1, u32::MAX))];
        for short in shorts {
            let key = || Lie { bytes: bytes.to_vec(), short };
            let refused = |result: Result<()>| {
                assert!(matches!(result, Err(Error::Malformed { .. })), "{result:?} {short:?}");
            };
            let tx = db.begin().unwrap();
            refused(tx.put(table, key(), b"x"));
            refused(db.begin().unwrap().insert(table, key(), b"x"));
            refused(db.begin().unwrap().get(table, key()).map(drop));
            refused(db.begin().unwrap().contains(table, key()).map(drop));
            refused(db.begin().unwrap().get_for_update(table, key()).map(drop));
            refused(db.begin().unwrap().get_many(table, &[key(), key()]).map(drop));
            refused(db.begin().unwrap().update(table, key(), b"x").map(drop));
            refused(db.begin().unwrap().delete(table, key()).map(drop));
            refused(db.begin().unwrap().scan(table, key()..).next().map(drop));
            refused(db.begin().unwrap().scan(table, ..key()).next().map(drop));
        }
    }
    assert_eq!(scan_all(&tx, table).unwrap(), [b"honest", b"honest"]);
    tx.commit().unwrap();
}

/// Proves that a short form with more bytes in it than its length says is the key that its length gives. Scans of the
/// table end, and so do checkpoints, after which the same rows are there.
#[test]
fn short_forms_with_more() {
    const KEYS: u64 = if cfg!(miri) { 30 } else { 1000 };
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    let open = || {
        let options = Options { workers: 1, pin_workers: false, ..Options::default() };
        Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {}).unwrap()
    };
    let db = open();
    let table: Table<Lie<false>, [u8]> = db.table("lies").unwrap();
    let tx = db.begin().unwrap();
    for more in 0..KEYS {
        for len in 0..8 {
            let word = u64::from_be_bytes(*b"abcdefgh") & !(u64::MAX >> (8 * len)) | more;
            let key = Lie { bytes: vec![b'x'; len as usize + 1], short: Some((word, len)) };
            tx.put(table, key, &more.to_be_bytes()).unwrap();
        }
    }
    // Seven bytes of eight give the key. For the last keys, the eighth bits of `more` count, too.
    let rows = scan_all(&tx, table).unwrap();
    assert!(rows.len() >= 2 * 8 && rows.len() <= 2 * (7 + KEYS as usize), "{}", rows.len());
    tx.commit().unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = open();
    let table: Table<Lie<false>, [u8]> = db.table("lies").unwrap();
    let tx = db.begin().unwrap();
    assert_eq!(scan_all(&tx, table).unwrap(), rows);
    drop(tx);
    db.close().unwrap();
}

/// A key that is different each time that it is asked.
struct Fickle<'c>(&'c AtomicU32);

impl AsKey<Vec<u8>> for Fickle<'_> {
    fn short(&self) -> Option<(u64, u32)> {
        let n = self.0.fetch_add(1, Relaxed);
        (!n.is_multiple_of(3)).then_some((u64::from(n) << 32, n % 12))
    }
    fn encode_as(&self, _: bool, out: &mut Vec<u8>) {
        let n = self.0.fetch_add(1, Relaxed);
        out.extend((0..n % 40).map(|i| (n / 40 + i) as u8));
    }
}

/// Proves that keys that are never the same twice do no harm: the table stays in order.
#[test]
fn fickle_keys() {
    let (db, count) = (database(), AtomicU32::new(0));
    let table: Table<Vec<u8>, [u8]> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
        tx.put(table, Fickle(&count), b"a value").unwrap();
        tx.get(table, Fickle(&count)).unwrap();
        tx.delete(table, Fickle(&count)).unwrap();
    }
    let mut rows = tx.scan::<Vec<u8>, [u8], Fickle<'_>>(table, ..);
    let mut last = None;
    while let Some((key, value)) = rows.next().unwrap() {
        assert_eq!(value, b"a value");
        assert!(last < Some(key.clone()), "in ascending order, hence to an end");
        last = Some(key);
    }
    assert!(last.is_some());
}

/// Enough rows that the places of removed rows are used again.
const ROWS: u64 = if cfg!(miri) { 20 } else { 500 };
const SECRET: &[u8] = b"another table's row, which is none of the index's business";

/// Cleans up after deletions.
fn clean(worker: &mut Worker) {
    for _ in 0..1000 {
        worker.maintain();
    }
    assert_eq!(worker.garbage(), 0);
}

/// Checks that whatever an index of `lies` finds belongs to no other table.
fn check_own<I: Key + AsKey<I>>(db: &Database, index: Index<I, u64, [u8]>, unique: Option<I>) {
    let tx = db.begin().unwrap();
    for is_reverse in [false, true] {
        let rows = tx.scan_by::<I, u64, [u8], I>(index, ..);
        let mut rows = if is_reverse { rows.reverse() } else { rows };
        let mut count = 0;
        loop {
            match rows.next() {
                Ok(Some((_, _, value))) => assert_ne!(value, SECRET, "a row of another table"),
                Ok(None) | Err(Error::Malformed { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            count += 1;
            assert!(count < ROWS_MAX, "the scan goes on for ever");
        }
    }
    if let Some(key) = unique
        && let Some((_, value)) = tx.get_by(index, key).unwrap()
    {
        assert_ne!(value, SECRET, "a row of another table");
    }
}

/// Indexes whose extractors change their answers keep entries of removed rows. Proves that such an entry never leads
/// to what other tables have put in the rows' places.
#[test]
fn extractors_that_change_their_answer() {
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    let db = database();
    let table: Table<u64, [u8]> = db.table("lies").unwrap();
    let secrets: Table<u64, [u8]> = db.table("secrets").unwrap();
    let mut worker = db.worker();
    // The extractors also lie about rows that were there before the index.
    let put =
        |worker: &mut Worker, table: Table<u64, [u8]>, keys: std::ops::Range<u64>, value: &'static [u8]| {
            worker.run_each(keys, async move |tx, key| tx.put(table, key, value).await, |put| put.unwrap());
        };
    put(&mut worker, table, 0..ROWS / 2, b"own");
    drop(worker);
    let many = db.index(table, "many", |_, _: &[u8]| Some(ANSWER.load(Relaxed))).unwrap();
    let one =
        db.unique_index(table, "one", |key, _: &[u8]| Some((u64::from(ANSWER.load(Relaxed)), *key))).unwrap();
    let some = db
        .index(table, "some", |key, _: &[u8]| {
            ANSWER.load(Relaxed).is_multiple_of(2).then_some([*key as u8; 12])
        })
        .unwrap();
    let mut worker = db.worker();
    put(&mut worker, table, ROWS / 2..ROWS, b"own");
    for round in 1..6 {
        ANSWER.store(round, Relaxed);
        worker.run_each(0..ROWS, async |tx, key| tx.delete(table, key).await.map(drop), |gone| gone.unwrap());
        clean(&mut worker);
        put(&mut worker, secrets, u64::from(round) * 2 * ROWS..u64::from(round + 1) * 2 * ROWS, SECRET);
        check_own(&db, many, None);
        check_own(&db, one, Some((0, 7)));
        check_own(&db, some, None);
        // The places are used again by the table itself.
        put(&mut worker, table, 0..ROWS, b"own");
        check_own(&db, many, None);
        check_own(&db, one, Some((0, 7)));
        check_own(&db, some, None);
    }
}

/// Proves that the places of the rows of a table with indexes are used again by the table's own rows: it takes no more
/// places than it has rows at a time.
#[test]
fn kept_places_are_used_again() {
    let db = database();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    db.index(table, "none", |_, _: &[u8]| None::<u64>).unwrap();
    let mut worker = db.worker();
    let mut records = vec![];
    for _ in 0..5 {
        worker.run_each(0..ROWS, async |tx, key| tx.put(table, key, b"own").await, |put| put.unwrap());
        worker.run_each(0..ROWS, async |tx, key| tx.delete(table, key).await.map(drop), |gone| gone.unwrap());
        clean(&mut worker);
        records.push(db.statistics().memory.records);
    }
    assert!(records.iter().all(|&n| n == records[0]), "{records:?}");
}

/// An index key that removes, when it is encoded, the bytes that were there before it.
struct Greedy;

impl Key for Greedy {
    const NAME: &'static str = "greedy";
    fn encode(&self, _: bool, out: &mut Vec<u8>) {
        out.clear();
    }
    fn decode(_: bool, _: &mut &[u8]) -> Option<Self> {
        Some(Greedy)
    }
}

impl AsKey<Greedy> for Greedy {
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        self.encode(last, out);
    }
}

/// Proves that such keys make writes fail with an error, or leave rows that are found under no key, and that nothing
/// panics.
#[test]
fn greedy_keys() {
    let db = database();
    let table: Table<u64, [u8]> = db.table("lies").unwrap();
    let index = db.index(table, "greedy", |_, value: &[u8]| Some((value.to_vec(), Greedy))).unwrap();
    for key in 0..20 {
        let tx = db.begin().unwrap();
        match tx.put(table, key, b"a").and_then(|()| tx.put(table, key, b"another")) {
            Ok(()) => tx.commit().unwrap(),
            Err(error) => assert!(matches!(error, Error::Malformed { .. }), "{error}"),
        }
    }
    check_own(&db, index, None);
}
