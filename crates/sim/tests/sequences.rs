//! Sequences on a disk that crashes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::storage::SimulatedStorage;
use braiddb::metrics::Clock;
use braiddb::testing::{PlantedDurability, Stepped};
use braiddb::{Database, Durability, Options, Sequence, Serializable, Table};
use std::sync::Arc;

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }
    fn unix_ns(&self) -> u64 {
        0
    }
}

struct Opened {
    db: Database,
    stepped: Stepped<Serializable>,
    rows: Table<u64, u64>,
    numbers: Sequence<u64>,
}

fn open(storage: SimulatedStorage) -> Opened {
    let options =
        Options { workers: 0, log_segment_bytes: 4096, durability: Durability::Async, ..Options::default() };
    let opened = Database::open_stepped(Arc::new(storage), options, Arc::new(Still), PlantedDurability::None);
    let (db, stepped): (Database, Stepped<Serializable>) = opened.unwrap();
    let numbers = db.sequence(db.table("sequences").unwrap(), 7);
    Opened { rows: db.table("rows").unwrap(), db, stepped, numbers }
}

impl Opened {
    /// Takes a number, and uses it in a row.
    fn use_number(&self) -> u64 {
        let number = self.numbers.next().unwrap();
        self.db.transact(|tx| tx.insert(self.rows, number, 1)).unwrap();
        number
    }
}

/// After a crash, no number is given out again that a surviving row has. A number that nothing durable has used may be.
#[test]
fn numbers_after_a_crash() {
    let storage = SimulatedStorage::new(1, 1 << 20);
    let mut opened = open(storage.clone());
    opened.stepped.flush().unwrap();
    let before = storage.boundary();
    assert_eq!([opened.use_number(), opened.use_number()], [0, 1]);
    let lost = storage.crash(before, 1);
    opened.stepped.flush().unwrap();
    let kept = storage.crash(storage.boundary(), 1);
    drop(opened);

    let opened = open(lost);
    assert!(!opened.db.transact(|tx| tx.contains(opened.rows, 0)).unwrap());
    assert_eq!(opened.numbers.next().unwrap(), 0, "given out before, and used by nothing that is there");
    let opened = open(kept);
    assert!(
        opened.db.transact(|tx| Ok(tx.contains(opened.rows, 0)? && tx.contains(opened.rows, 1)?)).unwrap()
    );
    assert_eq!(opened.numbers.next().unwrap(), 1024, "the next block: all before it may be used");
}
