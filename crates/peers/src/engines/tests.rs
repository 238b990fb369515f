//! Tests that every peer passes: it behaves like a map, and if it claims transactions, it has them.

use super::{PEERS, Visitor, visit};
use crate::measure::{check_tpcb, load_tpcb};
use crate::peer::{Class, Facts, Peer, Session, Setting};
use crate::work::{Operation, Outcome, Table, Task, Work, shape_of};
use braid_bench::distribution::{Kind, Rng};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Peers that need a server, and the environment variables that name one.
const SERVERS: [(&str, &str); 2] = [("postgres", "BRAID_PEERS_POSTGRES"), ("redis", "BRAID_PEERS_REDIS")];

/// A setting whose folder is removed with it.
struct Place(Setting);

impl Place {
    fn new(class: Class) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("braid-peers-test-{}-{number}", std::process::id());
        let directory: PathBuf = std::env::temp_dir().join(name);
        let [postgres, redis] = SERVERS.map(|(_, variable)| std::env::var(variable).ok());
        Place(Setting { class, directory, records: 10_000, threads: 4, postgres, redis })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0.directory);
    }
}

/// Returns the peers that can be opened here. A peer that needs a server is included if a server is named.
fn peers() -> impl Iterator<Item = &'static Facts> {
    PEERS.iter().filter(|facts| {
        let needs = SERVERS.iter().find(|(name, _)| *name == facts.name);
        needs.is_none_or(|(_, variable)| std::env::var(variable).is_ok())
    })
}

/// Runs a transaction on the model.
fn on_model(model: &mut [BTreeMap<u64, u64>; 5], operations: &[Operation]) -> Outcome {
    let mut outcome = Outcome::default();
    for operation in operations {
        match *operation {
            Operation::Get(table, key) => outcome.saw(model[table.index()].get(&key).copied()),
            Operation::Update(table, key, value) | Operation::Insert(table, key, value) => {
                model[table.index()].insert(key, value);
            }
            Operation::Add(table, key, delta) => {
                let value = model[table.index()].get_mut(&key).expect("only what is there is added to");
                *value = value.wrapping_add(delta);
                outcome.saw(Some(*value));
            }
            Operation::Scan(table, from, rows) => {
                model[table.index()]
                    .range(from..)
                    .take(rows)
                    .for_each(|(_, value)| outcome.saw(Some(*value)));
            }
        }
    }
    outcome
}

/// Makes random transactions over keys, some of which exist. Keys are spread over the whole range, including the
/// highest and the lowest.
fn transactions(rng: &mut Rng, ordered: bool, loaded: &[(Table, u64)]) -> Vec<Vec<Operation>> {
    let mut there: Vec<(Table, u64)> = loaded.to_vec();
    let mut transactions = Vec::new();
    for _ in 0..400 {
        let mut operations: Vec<Operation> = Vec::new();
        for _ in 0..1 + rng.below(6) {
            let (table, key) = there[rng.below(there.len() as u64) as usize];
            let value = rng.next_u64() >> 32;
            operations.push(match rng.below(if ordered { 6 } else { 5 }) {
                0 => Operation::Get(table, key),
                1 => Operation::Get(table, rng.next_u64()),
                2 => Operation::Update(table, key, value),
                3 => Operation::Add(table, key, value),
                4 => {
                    let new = (table, rng.next_u64() - 1);
                    if there.contains(&new) {
                        continue;
                    };
                    there.push(new);
                    Operation::Insert(table, new.1, value)
                }
                _ => Operation::Scan(
                    table,
                    if rng.below(2) == 0 { key } else { rng.next_u64() },
                    rng.below(30) as usize + 1,
                ),
            });
        }
        transactions.push(operations);
    }
    transactions
}

struct Model(Class);

impl Visitor for Model {
    type Answer = ();

    fn visit<P: Peer>(self) {
        let place = Place::new(self.0);
        let peer = P::open(&place.0).unwrap();
        let mut model: [BTreeMap<u64, u64>; 5] = Default::default();
        let mut rng = Rng::new(7);
        let mut there = Vec::new();
        for table in [Table::Records, Table::Accounts] {
            let mut rows: Vec<(u64, u64)> = (0..500).map(|n| (rng.next_u64() - 1, n)).collect();
            rows.extend([(0, 1), (u64::MAX - 1, 2)]);
            for (key, value) in &rows {
                model[table.index()].insert(*key, *value);
            }
            peer.load(table, &mut rows.iter().copied()).unwrap();
            there.extend(rows.iter().map(|(key, _)| (table, *key)));
        }
        peer.settle().unwrap();
        let transactions = transactions(&mut rng, P::FACTS.ordered, &there);
        let work = Work::script(transactions.clone());
        let mut session = peer.session(Some(1)).unwrap();
        for (number, operations) in transactions.iter().enumerate() {
            let outcome = session.execute(&work, &work.task(number as u64, 0)).unwrap();
            let expected = on_model(&mut model, operations);
            assert_eq!(outcome, expected, "{}, transaction {number}: {operations:?}", P::FACTS.name);
        }
        drop(session);
        peer.close().unwrap();
    }
}

#[test]
fn every_peer_does_what_a_map_does() {
    // Proves that each peer answers random transactions over two tables like a BTreeMap, in every class.
    for facts in peers() {
        for class in facts.classes {
            visit(facts.name, Model(*class)).unwrap();
        }
    }
}

/// Several threads add to the same few records, several at a time.
struct Increments;

impl Visitor for Increments {
    type Answer = ();

    fn visit<P: Peer>(self) {
        const THREADS: u64 = 4;
        const EACH: u64 = 300;
        let place = Place::new(Class::Memory);
        let peer = P::open(&place.0).unwrap();
        peer.load(Table::Records, &mut (0..4).map(|key| (key, 0))).unwrap();
        let add = |first: u64| [0, 1].map(|n| Operation::Add(Table::Records, (first + n) % 4, 1)).to_vec();
        let work = Work::script((0..4).map(add).collect());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (peer, work) = (&peer, &work);
                scope.spawn(move || {
                    let mut session = peer.session(None).unwrap();
                    let tasks = (0..EACH).map(|n| Task { seed: (n + thread) % 4, fresh: 0, started_ns: 0 });
                    let mut count = 0;
                    session.stream(work, tasks, |_, outcome| count += 1 + outcome.missing).unwrap();
                    assert_eq!(count, EACH);
                });
            }
        });
        let work = Work::script(vec![(0..4).map(|key| Operation::Get(Table::Records, key)).collect()]);
        let outcome = peer.session(Some(1)).unwrap().execute(&work, &work.task(0, 0)).unwrap();
        assert_eq!(outcome.sum, THREADS * EACH * 2, "{} has lost increments", P::FACTS.name);
        peer.close().unwrap();
    }
}

#[test]
fn concurrent_increments_are_not_lost() {
    // Proves that each peer that claims transactions keeps each addition of four threads to four records. The ceilings
    // keep them too, because each of their additions is atomic.
    peers().for_each(|facts| visit(facts.name, Increments).unwrap());
}

/// TPC-B from two threads.
struct TpcB;

impl Visitor for TpcB {
    type Answer = ();

    fn visit<P: Peer>(self) {
        let place = Place::new(Class::Memory);
        let peer = P::open(&place.0).unwrap();
        load_tpcb(&peer, 1).unwrap();
        let work = Work::new(shape_of("tpcb", 1).unwrap(), 1, 0, Kind::Uniform, 0.0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (peer, work) = (&peer, &work);
                scope.spawn(move || {
                    let mut session = peer.session(None).unwrap();
                    let tasks = (0..200).map(|n| work.task(n * 2 + thread, 0));
                    session.stream(work, tasks, |_, outcome| assert_eq!(outcome.missing, 0)).unwrap();
                });
            }
        });
        check_tpcb(&peer, 1).unwrap();
        // One more addition to an account must fail the check.
        let work = Work::script(vec![vec![Operation::Add(Table::Accounts, 5, 1)]]);
        peer.session(Some(1)).unwrap().execute(&work, &work.task(0, 0)).unwrap();
        assert!(check_tpcb(&peer, 1).is_err(), "{}: the check sees nothing", P::FACTS.name);
        peer.close().unwrap();
    }
}

#[test]
fn tpcb_adds_up() {
    // Proves that branches, tellers and accounts agree after concurrent transactions over four tables.
    let transactional = peers().filter(|facts| facts.transactional);
    transactional.for_each(|facts| visit(facts.name, TpcB).unwrap());
}

#[test]
fn names_are_unique() {
    // Proves that a name leads to one peer, and that an unknown name leads to none.
    let mut names: Vec<&str> = PEERS.iter().map(|facts| facts.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PEERS.len());
    assert!(visit("nobody", Increments).is_none());
}
