//! Numbers that are each given out once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::{under, under_all_schemes};
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::{AnyScheme, Database, Durability, Error, Options, SchemeName, Table};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

const BLOCK: u64 = 1024;

/// Several threads take numbers from two objects of one sequence. Proves that no number comes twice, and that each
/// thread's numbers ascend.
fn unique(scheme: SchemeName) {
    let clock = Arc::new(SystemClock::default());
    let db = Database::<AnyScheme>::in_memory_with(
        under(scheme, Options { workers: 0, ..Options::default() }),
        clock,
    )
    .unwrap();
    let table: Table<String, u64> = db.table("sequences").unwrap();
    let sequences = [0, 1].map(|_| db.sequence(table, "orders".to_string()));
    let take = |of: usize| {
        let numbers: Vec<u64> = (0..3000).map(|_| sequences[of].next().unwrap()).collect();
        assert!(numbers.is_sorted());
        numbers
    };
    let taken = thread::scope(|scope| {
        let threads: Vec<_> = [0, 0, 1, 1].map(|of| scope.spawn(move || take(of))).into();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let numbers: BTreeSet<u64> = taken.iter().flatten().copied().collect();
    assert_eq!(numbers.len(), 4 * 3000);
    let other = db.sequence(table, "customers".to_string());
    assert_eq!((0..3).map(|_| other.next().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn no_number_comes_twice() {
    under_all_schemes!(unique());
}

#[test]
fn sequences_go_on_when_the_database_is_opened_again() {
    for durability in [Durability::Sync, Durability::Async, Durability::None] {
        let storage = MemoryStorage::new(1 << 30);
        let mut taken = BTreeSet::new();
        for _ in 0..4 {
            let options =
                Options { workers: 0, log_segment_bytes: 1 << 16, durability, ..Options::default() };
            let (storage, clock) = (Arc::new(storage.clone()), Arc::new(SystemClock::default()));
            let db: Database = Database::open_with(storage, options, clock, &mut |_| {}).unwrap();
            let table: Table<u64, u64> = db.table("sequences").unwrap();
            let sequence = db.sequence(table, 7);
            assert!((0..10).all(|_| taken.insert(sequence.next().unwrap())));
            db.close().unwrap();
            // Reserved numbers are given out. Then an error says that there are no more.
            let rest = (0..).map(|_| sequence.next()).take_while(Result::is_ok).count() as u64;
            assert_eq!(rest, BLOCK - 10);
            assert!(matches!(sequence.next(), Err(Error::Closed)));
        }
        assert_eq!(taken.last(), Some(&(3 * BLOCK + 9)));
    }
}

#[test]
fn a_sequence_begins_where_its_row_says() {
    let db = Database::in_memory(Options { workers: 1, ..Options::default() }).unwrap();
    let table: Table<u64, u64> = db.table("sequences").unwrap();
    db.transact(|tx| tx.put(table, 1, 1000).and_then(|()| tx.put(table, 2, u64::MAX - BLOCK))).unwrap();
    assert_eq!(db.sequence(table, 1).next().unwrap(), 1000);
    // The last possible block, and nothing behind it.
    let last = db.sequence(table, 2);
    assert!((0..BLOCK).all(|at| last.next().unwrap() == u64::MAX - BLOCK + at));
    for _ in 0..2 {
        assert!(matches!(last.next(), Err(Error::Overflow { table }) if table == "sequences"));
    }
    // From inside a transaction that is undone: its numbers are gone.
    let inside = Arc::new(db.sequence(table, 3));
    for expected in 0..3 {
        let inside = inside.clone();
        let number = db.run(async move |_| Err::<(), _>(Error::user(inside.next()?.to_string()))).wait();
        assert_eq!(number.unwrap_err().to_string(), expected.to_string());
    }
    db.drop_table("sequences").unwrap();
    assert!(matches!(db.sequence(table, 9).next(), Err(Error::TableDropped)));
}

#[test]
fn a_database_that_is_gone_is_closed() {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let sequence = db.sequence(db.table::<u64, u64>("sequences").unwrap(), 7);
    drop(db);
    assert!(matches!(sequence.next(), Err(Error::Closed)));
}
