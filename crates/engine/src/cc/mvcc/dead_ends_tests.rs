//! Tests of the dead ends of queues, as walks find them.

use crate::metrics::SystemClock;
use crate::{ConcurrencyControl, Database, MultiVersion, Options, Serializable, Snapshot, Table};
use std::sync::Arc;

/// Takes rows from one end of a queue and adds rows at the other, beside transactions that see what was taken.
/// Returns how many rows behind the last taken row a walk from that end begins.
fn distance<C: ConcurrencyControl>(is_reverse: bool) -> Option<u64> {
    const ROWS: u64 = 100;
    const TAKEN: u64 = 2000;
    let options = Options { workers: 0, ..Options::default() };
    let db = Database::<C>::in_memory_with(options, Arc::new(SystemClock::default())).expect("a database");
    let queue: Table<u64, u64> = db.table("queue").expect("a table");
    let key = |number: u64| if is_reverse { u64::MAX / 2 - number } else { number };
    let mut worker = db.worker();
    let put = |number| async move |tx: &crate::Txn<C>| tx.put(queue, key(number), number).await;
    (0..ROWS).for_each(|number| worker.run(put(number)).expect("no conflict"));
    let mut old = Vec::new();
    for number in 0..TAKEN {
        if number % 400 == 0 {
            old.push(db.begin().expect("room"));
            assert_eq!(old[old.len() - 1].get(queue, key(number)).expect("a snapshot"), Some(number));
        }
        let taken = worker.run(async |tx| match is_reverse {
            true => tx.pop_last(queue).await,
            false => tx.pop_first(queue).await,
        });
        assert_eq!(taken.expect("no conflict"), Some((key(number), number)));
        worker.run(put(number + ROWS)).expect("no conflict");
    }
    for (i, old) in (0..).zip(&old) {
        let mut seen = Vec::new();
        old.scan_all(queue).for_each(|_, number| seen.push(number)).expect("a snapshot");
        let mut right: Vec<u64> = (400 * i..400 * i + ROWS).collect();
        right.sort_unstable_by_key(|number| key(*number));
        assert_eq!(seen, right, "an old transaction sees what was taken");
    }
    let tx = old[0].txn().state();
    let end = queue.inner(tx.database).expect("open").index.dead_end(is_reverse).expect("in order");
    let bound = u64::from_be_bytes(end.bound()?.try_into().expect("eight bytes"));
    Some(TAKEN - if is_reverse { u64::MAX / 2 - bound } else { bound })
}

/// Proves that walks from either end begin near the first row if transactions read as of their beginning, and skip
/// nothing if versions are written as of earlier times.
#[test]
fn queues_have_dead_ends() {
    for is_reverse in [false, true] {
        for behind in [distance::<Serializable>(is_reverse), distance::<Snapshot>(is_reverse)] {
            assert!(behind.is_some_and(|rows| rows < 40), "{behind:?}, {is_reverse}");
        }
        assert_eq!(distance::<MultiVersion>(is_reverse), None);
    }
}
