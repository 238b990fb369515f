//! Compares the whole engine with a `BTreeMap`. Random transactions run in every way of running a transaction, with
//! readers interleaved and snapshots held open across later transactions. At the end everything is deleted, and its
//! memory is given back.

use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::{Worker, WorkerOptions};
use braiddb::{AsKey, Database, Error, Front, Key, Options, Result, Table, TableOptions, Transaction, Txn};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

type Rows<K> = BTreeMap<K, Vec<u8>>;
type Place = (u32, String);

/// The expected contents of the three tables.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    numbers: Rows<u64>,
    names: Rows<String>,
    places: Rows<Place>,
}

#[derive(Clone, Copy)]
struct Tables {
    numbers: Table<u64, [u8]>,
    names: Table<String, [u8]>,
    places: Table<Place, [u8]>,
}

#[derive(Clone, Debug)]
enum Act {
    Get,
    GetMany,
    Contains,
    Insert(Vec<u8>),
    Put(Vec<u8>),
    Update(Vec<u8>),
    Delete,
    Scan { to: u16, exclusive: (bool, bool), open: (bool, bool), reverse: bool, limit: Option<usize> },
    Prefix { bytes: usize, reverse: bool, keys_only: bool },
}

#[derive(Clone, Debug)]
struct Op {
    table: u8,
    key: u16,
    act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Interleaved,
    Naive,
    Prefetching,
    Seeded,
    Interactive,
}

#[derive(Clone, Debug)]
struct Plan {
    ops: Vec<Op>,
    way: Way,
    commits: bool,
    /// Opens a snapshot before the plan, and closes the oldest after it.
    opens: bool,
    closes: bool,
}

// ---- the keys that numbers stand for: few, so that they meet again, and similar
fn number(n: u16) -> u64 {
    match n % 8 {
        0..4 => u64::from(n),
        4 | 5 => u64::from(n) << 45,
        6 => u64::from(n) << 20,
        _ => u64::MAX - u64::from(n),
    }
}

fn name(n: u16) -> String {
    let prefix = ["", "a", "8 bytes.", "8 bytes.and more", "8 bytes.and more", "\0\0"][usize::from(n % 6)];
    let n = n / 6;
    match n % 3 {
        0 => format!("{prefix}{}", "x".repeat(usize::from(n))),
        1 => format!("{prefix}{n:03}"),
        _ => format!("{prefix}{}", "\0".repeat(usize::from(n % 17))),
    }
}

fn place(n: u16) -> Place {
    (u32::from(n % 4) << 7, name(n / 4))
}

// ---- one operation, on the engine and on the model
fn encoded<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = vec![];
    key.encode(true, &mut bytes);
    bytes
}

async fn apply<K>(
    tx: &Txn,
    table: Table<K, [u8]>,
    rows: &mut Rows<K>,
    op: &Op,
    key_of: fn(u16) -> K,
) -> Result<()>
where
    K: Key + AsKey<K> + Ord + Clone + Debug,
{
    let key = key_of(op.key);
    let expected = rows.get(&key).cloned();
    match &op.act {
        Act::Get => assert_eq!(tx.get(table, &key).await?, expected.as_deref(), "{key:?}"),
        Act::GetMany => {
            let keys: [K; 11] = std::array::from_fn(|i| key_of(op.key.wrapping_add(i as u16 * 3)));
            let found = tx.get_many(table, &keys).await?;
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found, rows.get(key).map(Vec::as_slice), "{key:?}");
            }
        }
        Act::Contains => assert_eq!(tx.contains(table, &key).await?, expected.is_some(), "{key:?}"),
        Act::Insert(value) => match tx.insert(table, &key, value).await {
            Ok(()) => assert_eq!(rows.insert(key, value.clone()), None),
            Err(Error::KeyExists) => assert!(expected.is_some(), "{key:?}"),
            Err(error) => return Err(error),
        },
        Act::Put(value) => {
            tx.put(table, &key, value).await?;
            rows.insert(key, value.clone());
        }
        Act::Update(value) => {
            assert_eq!(tx.update(table, &key, value).await?, expected.is_some(), "{key:?}");
            rows.entry(key).and_modify(|row| row.clone_from(value));
        }
        Act::Delete => {
            assert_eq!(tx.delete(table, &key).await?, expected.is_some(), "{key:?}");
            rows.remove(&key);
        }
        Act::Scan { .. } => scan(tx, table, rows, op, key_of).await?,
        Act::Prefix { bytes, reverse, keys_only } => {
            let mut prefix = encoded(&key);
            prefix.truncate(*bytes);
            let mut found = tx.scan_prefix(table, &prefix);
            if *reverse {
                found = found.reverse();
            }
            let has_prefix = |(key, _): &(&K, &Vec<u8>)| encoded(*key).starts_with(&prefix);
            let mut expected: Vec<_> = rows.iter().filter(has_prefix).collect();
            if *reverse {
                expected.reverse();
            }
            for (key, value) in expected {
                match *keys_only {
                    true => assert_eq!(found.next_key().await?.as_ref(), Some(key)),
                    false => assert_eq!(found.next().await?, Some((key.clone(), value.as_slice()))),
                }
            }
            assert_eq!(found.next().await?, None, "after all with {prefix:?}");
        }
    }
    Ok(())
}

async fn scan<K>(tx: &Txn, table: Table<K, [u8]>, rows: &Rows<K>, op: &Op, key_of: fn(u16) -> K) -> Result<()>
where
    K: Key + AsKey<K> + Ord + Clone + Debug,
{
    let Act::Scan { to, exclusive, open, reverse, limit } = op.act else { unreachable!("a scan") };
    let bound = |key: K, open, exclusive| match (open, exclusive) {
        (true, _) => Bound::Unbounded,
        (_, true) => Bound::Excluded(key),
        (_, false) => Bound::Included(key),
    };
    let from = bound(key_of(op.key), open.0, exclusive.0);
    let to = bound(key_of(to), open.1, exclusive.1);
    let is_inside = |key: &K| {
        (match &from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        }) && match &to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        }
    };
    let mut expected: Vec<_> = rows.iter().filter(|(key, _)| is_inside(key)).collect();
    let mut found = tx.scan(table, (from.clone(), to.clone()));
    if reverse {
        expected.reverse();
        found = found.reverse();
    }
    if let Some(limit) = limit {
        expected.truncate(limit);
        found = found.limit(limit);
    }
    for (key, value) in expected {
        assert_eq!(found.next().await?, Some((key.clone(), value.as_slice())), "{from:?} {to:?} {op:?}");
    }
    assert_eq!(found.next().await?, None, "{op:?}");
    Ok(())
}

async fn run_plan(tx: &Txn, tables: Tables, model: &mut Model, plan: &Plan) -> Result<()> {
    for op in &plan.ops {
        match op.table {
            0 => apply(tx, tables.numbers, &mut model.numbers, op, number).await?,
            1 => apply(tx, tables.names, &mut model.names, op, name).await?,
            _ => apply(tx, tables.places, &mut model.places, op, place).await?,
        }
    }
    if plan.commits { Ok(()) } else { Err(Error::user("given up")) }
}

async fn all_rows<K: Key + AsKey<K> + Ord>(
    tx: &Txn,
    table: Table<K, [u8]>,
    reverse: bool,
) -> Result<Rows<K>> {
    let mut rows = tx.scan_all(table);
    if reverse {
        rows = rows.reverse();
    }
    let (mut all, mut count) = (Rows::new(), 0);
    while let Some((key, value)) = rows.next().await? {
        all.insert(key, value.to_vec());
        count += 1;
    }
    assert_eq!(all.len(), count, "no key twice");
    Ok(all)
}

async fn everything(tx: &Txn, tables: Tables, reverse: bool) -> Result<Model> {
    Ok(Model {
        numbers: all_rows(tx, tables.numbers, reverse).await?,
        names: all_rows(tx, tables.names, reverse).await?,
        places: all_rows(tx, tables.places, reverse).await?,
    })
}

// ---- the ways of running a transaction
/// Runs the plan in a worker, beside readers that see the state before it or after it.
fn in_worker<S: Suspend>(
    worker: &mut Worker<braiddb::Serializable, S>,
    tables: Tables,
    model: &mut Model,
    plan: &Plan,
) {
    let before = model.clone();
    let after = RefCell::new(None);
    let seen = RefCell::new(vec![]);
    let run = async |tx: &Txn, i: &usize| {
        if *i == 1 {
            let mut mine = before.clone();
            let result = run_plan(tx, tables, &mut mine, plan).await;
            *after.borrow_mut() = Some(mine);
            return result;
        }
        let first = everything(tx, tables, *i == 0).await?;
        assert!(first == everything(tx, tables, *i != 0).await?, "a snapshot changed");
        seen.borrow_mut().push(first);
        Ok(())
    };
    worker.run_each(0..4, run, |result| match result {
        Ok(()) => {}
        Err(Error::User(_)) => assert!(!plan.commits),
        Err(error) => panic!("{error}"),
    });
    let after = after.into_inner().expect("it has run");
    let is_known = |seen: &Model| *seen == before || plan.commits && *seen == after;
    assert!(seen.borrow().iter().all(is_known), "a reader saw half of a transaction");
    if plan.commits {
        *model = after;
    }
}

fn interactively(db: &Database, tables: Tables, model: &mut Model, plan: &Plan) {
    let mut mine = model.clone();
    let tx = db.begin().expect("room");
    let result = tx.with(async |tx| run_plan(tx, tables, &mut mine, plan).await);
    if plan.commits {
        result.expect("nothing is in its way");
        tx.commit().expect("nothing is in its way");
        *model = mine;
    } else {
        result.expect_err("given up");
        tx.abort();
    }
}

/// Checks that an open snapshot sees what it saw when it began.
fn check_snapshot(snapshot: &(Transaction, Model), tables: Tables, reverse: bool) {
    let found = snapshot.0.with(async |tx| everything(tx, tables, reverse).await).expect("it only reads");
    assert!(found == snapshot.1, "a held snapshot changed");
}

struct Workers {
    interleaved: Worker,
    naive: Worker<braiddb::Serializable, Never>,
    prefetching: Worker<braiddb::Serializable, PrefetchOnly>,
    seeded: Worker<braiddb::Serializable, Seeded>,
}

impl Workers {
    fn new(db: &Database, seed: u64) -> Workers {
        let options = WorkerOptions::default;
        Workers {
            interleaved: db.worker_with(OnMiss, options()),
            naive: db.worker_with(Never, options()),
            prefetching: db.worker_with(PrefetchOnly, options()),
            seeded: db.worker_with(Seeded::new(seed), options()),
        }
    }

    fn maintain(&mut self) -> usize {
        self.interleaved.maintain();
        self.naive.maintain();
        self.prefetching.maintain();
        self.seeded.maintain();
        self.interleaved.garbage() + self.naive.garbage() + self.prefetching.garbage() + self.seeded.garbage()
    }
}

/// Deletes what is left. Then all memory is given back, except the empty tables'.
fn check_reclamation(db: &Database, workers: &mut Workers, tables: Tables, model: &Model) {
    let delete = async |tx: &Txn, _: &usize| {
        for key in model.numbers.keys() {
            assert!(tx.delete(tables.numbers, key).await?);
        }
        for key in model.names.keys() {
            assert!(tx.delete(tables.names, key).await?);
        }
        for key in model.places.keys() {
            assert!(tx.delete(tables.places, key).await?);
        }
        Ok(())
    };
    workers.interleaved.run_each(0..1, delete, |result| result.expect("nothing is in its way"));
    // Later interactive transactions clean up what earlier ones left.
    let flush: Table<u64, u64> = db.table("flush").expect("memory");
    for i in 0..100 {
        let tx = db.begin().expect("room");
        tx.put(flush, 0, i).expect("memory");
        tx.commit().expect("nothing is in its way");
    }
    let cleared = async |tx: &Txn| tx.delete(flush, 0).await;
    assert!(workers.interleaved.run(cleared).expect("nothing is in its way"));
    let is_clean = |_| {
        let garbage = workers.maintain();
        // An operation of an interactive transaction lets the epoch of its context continue.
        drop(db.begin());
        garbage == 0 && db.statistics().memory.records == 0
    };
    assert!((0..200).any(is_clean), "garbage is left: {:?}", db.statistics().memory);
    let memory = db.statistics().memory;
    assert!(memory.nodes <= 16, "four empty tables: {memory:?}");
}

/// Runs the plans on a new database.
fn check(plans: &[Plan], seed: u64) {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory");
    let fronted = TableOptions { front: Front::Hash, ..TableOptions::default() };
    let tables = Tables {
        numbers: db.table_with("numbers", fronted).expect("memory"),
        names: db.table_with("names", fronted).expect("memory"),
        places: db.table("places").expect("memory"),
    };
    let mut workers = Workers::new(&db, seed);
    let mut model = Model::default();
    let mut held = vec![];
    for (i, plan) in plans.iter().enumerate() {
        if plan.opens {
            held.push((db.begin().expect("room"), model.clone()));
        }
        match plan.way {
            Way::Interleaved => in_worker(&mut workers.interleaved, tables, &mut model, plan),
            Way::Naive => in_worker(&mut workers.naive, tables, &mut model, plan),
            Way::Prefetching => in_worker(&mut workers.prefetching, tables, &mut model, plan),
            Way::Seeded => in_worker(&mut workers.seeded, tables, &mut model, plan),
            Way::Interactive => interactively(&db, tables, &mut model, plan),
        }
        workers.maintain();
        if plan.closes && !held.is_empty() {
            check_snapshot(&held.swap_remove(0), tables, i % 2 == 0);
        }
    }
    held.push((db.begin().expect("room"), model.clone()));
    held.iter().for_each(|snapshot| check_snapshot(snapshot, tables, false));
    drop(held);
    check_reclamation(&db, &mut workers, tables, &model);
}

// ---- what proptest makes
fn values() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![
        1 => Just(0usize), 1 => Just(1), 4 => Just(8), 3 => Just(9), 2 => Just(100), 1 => Just(9000),
    ];
    (length, any::<u8>()).prop_map(|(length, seed)| (0..length).map(|i| seed.wrapping_add(i as u8)).collect())
}

fn acts() -> impl Strategy<Value = Act> {
    let scan = (any::<u16>(), any::<(bool, bool)>(), any::<(bool, bool)>(), any::<bool>());
    let limit = prop_oneof![2 => Just(None), 1 => (0..40usize).prop_map(Some)];
    prop_oneof![
        2 => Just(Act::Get),
        1 => Just(Act::GetMany),
        1 => Just(Act::Contains),
        5 => values().prop_map(Act::Insert),
        5 => values().prop_map(Act::Put),
        3 => values().prop_map(Act::Update),
        4 => Just(Act::Delete),
        2 => (scan, limit).prop_map(|((to, exclusive, open, reverse), limit)| {
            Act::Scan { to: to % KEYS, exclusive, open, reverse, limit }
        }),
        1 => (0..20usize, any::<bool>(), any::<bool>()).prop_map(|(bytes, reverse, keys_only)| {
            Act::Prefix { bytes, reverse, keys_only }
        }),
    ]
}

const KEYS: u16 = 300;

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    // Few keys in some transactions, so that one record is changed again and again.
    let key = prop_oneof![2 => 0..KEYS, 1 => 0..8u16];
    let op = (0..3u8, key, acts()).prop_map(|(table, key, act)| Op { table, key, act });
    let way = prop_oneof![
        Just(Way::Interleaved),
        Just(Way::Naive),
        Just(Way::Prefetching),
        Just(Way::Seeded),
        Just(Way::Interactive)
    ];
    let chances = (prop::bool::weighted(0.8), prop::bool::weighted(0.3), prop::bool::weighted(0.25));
    let plan = (vec(op, 0..40), way, chances).prop_map(|(ops, way, (commits, opens, closes))| Plan {
        ops,
        way,
        commits,
        opens,
        closes,
    });
    vec(plan, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves that the engine behaves like the model in every way of running a transaction.
    #[test]
    fn as_the_model(plans in plans(), seed in any::<u64>()) {
        check(&plans, seed);
    }
}

/// Proves that growth to many nodes in all tables, and shrinking back, match the model.
#[test]
fn grows_and_shrinks() {
    let op = |i: u16, act: Act| Op { table: (i % 3) as u8, key: i / 3, act };
    let plan = |ops, way| Plan { ops, way, commits: true, opens: true, closes: true };
    let ways = [Way::Interleaved, Way::Seeded, Way::Interactive, Way::Naive, Way::Prefetching];
    let mut plans = vec![];
    for (round, way) in ways.into_iter().enumerate() {
        let length = [8, 9, 0, 100, 5][round];
        let puts = (0..6000).map(|i| op(i, Act::Put(vec![i as u8; length]))).collect();
        let deletes = (0..6000).filter(|i| i % 7 != 0).map(|i| op(i, Act::Delete)).collect();
        plans.push(plan(puts, way));
        plans.push(plan(deletes, way));
    }
    check(&plans, 1);
}

/// Proves that a declaration to be read-only ends with its transaction.
#[test]
fn read_only_ends_with_its_transaction() {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory");
    let table: Table<u64, u64> = db.table("t").expect("memory");
    let mut worker = db.worker();
    let refused = worker.run(async |tx| {
        tx.declare_read_only();
        tx.put(table, 1, 1).await
    });
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    worker
        .run(async |tx| {
            tx.declare_read_only();
            tx.get(table, 1).await.map(drop)
        })
        .expect("it only reads");
    worker.run(async |tx| tx.put(table, 1, 1).await).expect("another transaction, in the same slot");
}
