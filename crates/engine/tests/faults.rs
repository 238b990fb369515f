//! Faults and limits: every public error is provoked, and the database continues after each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{
    Database, Error, Index, KEY_BYTES_MAX, Key, KeyAs, Options, Result, Table, Txn, VALUE_BYTES_MAX, Value,
};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn local() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

fn threaded(workers: usize) -> Database {
    Database::in_memory(Options { workers, pin_workers: false, ..Options::default() }).unwrap()
}

/// Proves that keys and values at the limit are stored. One byte more is refused where it would be stored. Nothing is
/// found under such a key: `tests/key_limits.rs`.
#[test]
fn keys_and_values_too_long() {
    let db = local();
    let t: Table<Vec<u8>, [u8]> = db.table("t").unwrap();
    let (most, more) = (vec![7; KEY_BYTES_MAX], vec![7; KEY_BYTES_MAX + 1]);
    let largest = vec![1; VALUE_BYTES_MAX + 1];
    let too_long = |error| match error {
        Error::KeyTooLong { bytes, bytes_max } => (bytes, bytes_max) == (KEY_BYTES_MAX + 1, KEY_BYTES_MAX),
        Error::ValueTooLong { bytes, bytes_max } => {
            (bytes, bytes_max) == (VALUE_BYTES_MAX + 1, VALUE_BYTES_MAX)
        }
        _ => false,
    };
    let mut worker = db.worker();
    worker.run(async |tx| tx.insert(t, &most, &largest[1..]).await).unwrap();
    worker
        .run(async |tx| {
            assert_eq!(tx.get(t, &more).await?, None);
            assert_eq!(tx.get(t, &most).await?.map(<[u8]>::len), Some(VALUE_BYTES_MAX));
            Err::<(), _>(Error::user("seen enough"))
        })
        .unwrap_err();
    assert!(too_long(worker.run(async |tx| tx.insert(t, &more, b"").await).unwrap_err()));
    assert!(too_long(worker.run(async |tx| tx.put(t, &most, &largest).await).unwrap_err()));
    assert!(too_long(worker.run(async |tx| tx.update(t, &most, &largest).await).unwrap_err()));
    assert!(too_long(db.begin().unwrap().put(t, b"new", &largest).unwrap_err()));
    let left = worker.run(async |tx| Ok((tx.contains(t, &most).await?, tx.contains(t, b"new").await?)));
    assert_eq!(left.unwrap(), (true, false));
}

/// Proves that at the memory limit the transaction that needs more fails and is undone, and that there is room again
/// then.
#[test]
fn out_of_memory() {
    const LIMIT: u64 = 16 << 20;
    let options = Options { workers: 0, memory_limit_bytes: LIMIT, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 0, &[7; 1000]).await).unwrap();
    for round in 0..5 {
        let stored = std::cell::Cell::new(0);
        let failed = worker.run(async |tx| {
            loop {
                stored.set(stored.get() + 1);
                tx.insert(t, stored.get(), &[1; 1000]).await?;
            }
        });
        let Err::<(), _>(error) = failed else { unreachable!("it inserts until it fails") };
        assert!(matches!(error, Error::OutOfMemory { limit_bytes: LIMIT }), "{error}");
        assert!(stored.get() > 8_000, "round {round}: only {} rows fit", stored.get());
        assert_eq!(db.statistics().aborts_out_of_memory, round + 1);
        const RESERVE: u64 = 1 << 20;
        assert!(db.statistics().memory.total_bytes() <= LIMIT + RESERVE);
        for _ in 0..1000 {
            worker.maintain();
        }
        assert_eq!(db.statistics().memory.records, 1, "round {round}");
        worker.run(async |tx| tx.put(t, 0, &[round as u8; 1000]).await).unwrap();
    }
}

/// Proves that deletes still work at the memory limit, and make room again.
#[test]
fn out_of_memory_and_back() {
    const LIMIT: u64 = 16 << 20;
    let options = Options { workers: 0, memory_limit_bytes: LIMIT, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    for round in 0..3 {
        let mut stored = 0;
        let error = loop {
            match worker.run(async |tx| tx.insert(t, stored, &[1; 1000]).await) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory { limit_bytes: LIMIT }), "{error}");
        assert!(stored > 8_000, "round {round}: only {stored} rows fit");
        const RESERVE: u64 = 1 << 20;
        assert!(db.statistics().memory.total_bytes() <= LIMIT + RESERVE);
        assert!(db.statistics().aborts_out_of_memory > round);
        let seen =
            worker.run(async |tx| Ok((tx.contains(t, stored).await?, tx.contains(t, stored - 1).await?)));
        assert_eq!(seen.unwrap(), (false, true));
        // A delete needs a little memory itself, which is reserved beyond the limit.
        for key in 0..stored {
            let mut done = worker.run(async |tx| tx.delete(t, key).await);
            while let Err(Error::OutOfMemory { .. }) = done {
                assert!(worker.garbage() > 0, "round {round}: no room to delete row {key} of {stored}");
                worker.maintain();
                done = worker.run(async |tx| tx.delete(t, key).await);
            }
            assert!(done.unwrap());
        }
        while worker.maintain() || worker.garbage() > 0 {}
        assert_eq!(db.statistics().memory.records, 0);
    }
}

/// Proves that a table works only in its own database, and opens only with its own types.
#[test]
fn tables_of_others() {
    let (db, other) = (local(), local());
    let t: Table<u64, u64> = other.table("t").unwrap();
    let error = db.worker().run(async |tx| tx.get(t, 1).await).unwrap_err();
    assert!(matches!(error, Error::WrongDatabase), "{error}");
    let error = db.worker().run(async |tx| tx.put(t, 1, 1).await).unwrap_err();
    assert!(matches!(error, Error::WrongDatabase), "{error}");
    let error = db.worker().run(async |tx| tx.scan_all(t).next().await).unwrap_err();
    assert!(matches!(error, Error::WrongDatabase), "{error}");
    assert!(matches!(
        other.table::<u64, str>("t"),
        Err(Error::TableMismatch { existing, requested, .. })
            if existing == "u64 by u64" && requested == "string by u64"
    ));
    assert!(matches!(
        other.table::<u32, u64>("t"),
        Err(Error::TableMismatch { existing, requested, .. })
            if existing == "u64 by u64" && requested == "u64 by u32"
    ));
}

/// Proves that a transaction that was declared read-only cannot write, and that the next transaction in the same slot
/// can.
#[test]
fn read_only() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    for _ in 0..100 {
        let read = worker.run(async |tx| {
            tx.declare_read_only();
            tx.get(t, 1).await
        });
        read.unwrap();
        worker.run(async |tx| tx.put(t, 1, 1).await).unwrap();
        let refused = worker.run(async |tx| {
            tx.declare_read_only();
            tx.put(t, 1, 2).await
        });
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    let tx = db.begin().unwrap();
    tx.declare_read_only();
    assert!(matches!(tx.delete(t, 1), Err(Error::ReadOnly)));
    assert_eq!(tx.get(t, 1).unwrap(), Some(1));
}

/// Proves that `with` awaits only the transaction's operations, and that the transaction stays usable.
#[test]
fn waiting_inside_of_with() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.put(t, 1, 1).unwrap();
    let waited = tx.with(async |tx| {
        tx.put(t, 2, 2).await?;
        std::future::pending::<()>().await;
        Ok(())
    });
    assert!(matches!(waited, Err(Error::WouldWait)), "{waited:?}");
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), Some(1));
}

/// Proves that options that cannot work are refused, by name.
#[test]
fn options() {
    let refused = |options: Options| match Database::in_memory(options).unwrap_err() {
        Error::InvalidOption { option, reason } if !reason.is_empty() => option,
        other => panic!("{other}"),
    };
    assert_eq!(refused(Options { batch: 0.into(), ..Options::default() }), "batch");
    assert_eq!(refused(Options { batch: (1 << 20).into(), ..Options::default() }), "batch");
    assert_eq!(refused(Options { inbox_capacity: 0, ..Options::default() }), "inbox_capacity");
    assert_eq!(refused(Options { workers: 1 << 20, ..Options::default() }), "workers");
}

/// Values of any even length. Reading refuses values of odd length.
struct Even;
impl Value for Even {
    const NAME: &'static str = "bytes"; // shares its table with plain bytes
    type Input<'v> = &'v [u8];
    type Encoded<'v> = &'v [u8];
    type View<'t> = &'t [u8];
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    fn view(bytes: &[u8]) -> Result<&[u8]> {
        match bytes.len() % 2 {
            0 => Ok(bytes),
            _ => Err(Error::malformed("even bytes", bytes.len())),
        }
    }
}

/// Proves that stored bytes that are not a value of the type are an error of every kind of read, and that the error
/// names table and key.
#[test]
fn malformed() {
    fn check<K: Key>(key: &K, shown: &str) {
        let db = local();
        let bytes: Table<K, [u8]> = db.table("t").unwrap();
        let index = db.unique_index(bytes, "length", |_, value| Some(value.len() as u64)).unwrap();
        let odd = db.index(bytes, "odd", |_, value| Some(value.len() % 2 == 1)).unwrap();
        let tx = db.begin().unwrap();
        tx.put(bytes, key, b"odd").unwrap();
        tx.commit().unwrap();

        let even: Table<K, Even> = db.table("t").unwrap();
        let by_length: Index<u64, K, Even> =
            db.unique_index(even, "length", |_, value| Some(value.len() as u64)).unwrap();
        let by_odd: Index<bool, K, Even> = db.index(even, "odd", |_, _| Some(true)).unwrap();
        let tx = db.begin().unwrap();
        let check = |how: &str, error: Option<Error>| {
            let Some(Error::Malformed { expected: "even bytes", bytes: 3, row: Some(row) }) = error else {
                panic!("{how}: {error:?}");
            };
            assert_eq!((row.table.as_str(), row.key.as_str()), ("t", shown), "{how}");
        };
        check("get", tx.get(even, key).err());
        check("get_many", tx.get_many(even, &[key]).err());
        check("get_into", tx.get_into(even, &[key], &mut [None]).err());
        check("get_for_update", tx.get_for_update(even, key).err());
        check("scan", tx.scan::<_, _, &K>(even, key..).next().err());
        check("scan_by", tx.scan_by(by_length, 0..).next().err());
        check("get_by", tx.get_by(by_length, 3).err());
        check("scan_by, not unique", tx.scan_by(by_odd, true..).next().err());
        let all = tx.with(async |tx| tx.scan::<_, _, &K>(even, key..).for_each(|_, _| ()).await);
        check("for_each", all.err());
        assert_eq!(tx.get(bytes, key).unwrap(), Some(&b"odd"[..]));
        assert!(tx.get_by(index, 3).unwrap().is_some() && tx.scan_by(odd, true..).next().unwrap().is_some());
        let message = tx.get(even, key).unwrap_err().to_string();
        assert_eq!(message, format!("row {shown} of table \"t\": 3 bytes are not valid as: even bytes"));
    }
    check(&1u64, "0x0000000000000001");
    check(&"long enough to be copied".to_string(), "\"long enough to be copied\"");

    // So is a key that is not a key of the type.
    let db = local();
    let id: Table<Id, u64> = db.table("ids").unwrap();
    let number: Table<u64, u64> = db.table("ids").unwrap();
    let tx = db.begin().unwrap();
    tx.put(number, 7, 1).unwrap();
    let Err(Error::Malformed { row: Some(row), .. }) = tx.scan(id, Id(0)..).next() else {
        panic!("7 is odd")
    };
    assert_eq!((row.table.as_str(), row.key.as_str()), ("ids", "0x0000000000000007"));
}

/// Even numbers.
#[derive(Debug)]
struct Id(u64);
impl KeyAs for Id {
    type As = u64;
    fn to_key(&self) -> u64 {
        self.0
    }
    fn from_key(key: u64) -> Option<Id> {
        key.is_multiple_of(2).then_some(Id(key))
    }
}

/// Proves that conflicts reach the caller if they are not retried, can be distinguished, and end when the other
/// transaction ends.
#[test]
fn conflicts() {
    let options = Options { workers: 1, pin_workers: false, retries_max: u32::MAX, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.set_retries_max(0);
    let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
    first.put(t, 1, 1).unwrap();
    let error = second.put(t, 1, 2).unwrap_err();
    assert!(matches!(error, Error::Conflict) && error.is_retryable());
    assert!(matches!(second.commit(), Err(Error::Conflict)));
    let once = db.run_once(async move |tx| tx.put(t, 1, 3).await).wait();
    assert!(matches!(once, Err(Error::Conflict)), "{once:?}");
    assert!(matches!(worker.run(async |tx| tx.put(t, 1, 4).await), Err(Error::Conflict)));
    let retried = db.run(async move |tx| tx.put(t, 1, 5).await);
    first.commit().unwrap();
    retried.wait().unwrap();
    let exists = worker.run(async |tx| tx.insert(t, 1, 6).await);
    assert!(matches!(exists, Err(Error::KeyExists)));
    assert!(db.statistics().aborts_conflict >= 3);
}

/// Proves that a transaction whose conflicts are retried waits for an open transaction for as long as the options say.
#[test]
fn a_conflict_that_lasts() {
    for lock_wait_ms in [0, 20] {
        let options = Options { workers: 0, lock_wait_ms, ..Options::default() };
        let db = Database::in_memory(options).unwrap();
        let t: Table<u64, u64> = db.table("t").unwrap();
        let first = db.begin().unwrap();
        first.put(t, 1, 1).unwrap();
        let mut worker = db.worker();
        worker.set_retries_max(3);
        let error = worker.run(async |tx| tx.put(t, 1, 2).await).unwrap_err();
        match lock_wait_ms {
            0 => assert!(matches!(error, Error::Conflict), "{error}"),
            _ => assert!(matches!(error, Error::LockTimeout(_)), "{error}"),
        }
    }
}

/// Proves the same for a closure of plain calls, whose error names the row. The closure waits for an open transaction,
/// however few retries it has.
#[test]
fn a_conflict_that_lasts_for_plain_calls() {
    for lock_wait_ms in [0, 50, 60_000] {
        let options = Options { workers: 0, lock_wait_ms, retries_max: 20, ..Options::default() };
        let db = Database::in_memory(options).unwrap();
        let t: Table<u64, u64> = db.table("numbers").unwrap();
        let first = db.begin().unwrap();
        first.put(t, 1, 1).unwrap();
        let second = thread::scope(|scope| {
            let second = scope.spawn(|| db.transact(|tx| tx.put(t, 1, 2)));
            if lock_wait_ms == 60_000 {
                thread::sleep(Duration::from_millis(100)); // longer than twenty pauses
                first.commit().unwrap();
            }
            second.join().unwrap()
        });
        match (lock_wait_ms, second) {
            (0, Err(Error::Conflict)) | (60_000, Ok(())) => {}
            (50, Err(Error::LockTimeout(row))) => {
                assert_eq!((row.table.as_str(), row.key.as_str()), ("numbers", "0x0000000000000001"));
                assert!(row.waited >= Duration::from_millis(50) && row.holder.is_some(), "{row:?}");
            }
            (_, second) => panic!("{lock_wait_ms} ms: {second:?}"),
        }
    }
}

/// Proves that a closure that waits for another transaction of its own worker gets an error, and does not hang.
#[test]
fn would_deadlock() {
    let db = threaded(1);
    let inner = db.clone();
    let told = db.run(async move |_| {
        let waited = inner.run(async |_| Ok(())).wait();
        Ok(matches!(waited, Err(Error::WouldDeadlock)))
    });
    assert!(told.wait().unwrap());
}

/// Proves that a full inbox pushes back: a worker, which must not wait for itself, gets an error.
#[test]
fn busy() {
    let db = Database::in_memory(Options { workers: 1, inbox_capacity: 1, ..Options::default() }).unwrap();
    let inner = db.clone();
    let refused = db.run(async move |_| {
        let handles: Vec<_> = (0..20).map(|_| inner.run(async |_| Ok(()))).collect();
        let mut refused = 0;
        for handle in handles {
            match handle.await {
                Ok(()) => {}
                Err(error @ Error::Busy) => {
                    assert!(error.is_retryable());
                    refused += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    });
    assert_eq!(refused.wait().unwrap(), 19);
}

/// Proves that open and waiting transactions get an answer when a database closes.
#[test]
fn closing_answers_everyone() {
    let db = threaded(1);
    let (entered, is_entered) = mpsc::channel();
    let open = db.run(async move |_| {
        entered.send(()).unwrap();
        std::future::pending::<()>().await;
        Ok(())
    });
    is_entered.recv().unwrap();
    let (told, is_told) = mpsc::channel();
    let waiting = thread::spawn(move || told.send(open.wait()));
    drop(db);
    let answer = is_told.recv_timeout(Duration::from_secs(10)).expect("an answer");
    assert!(matches!(answer, Err(Error::Cancelled | Error::Closed)), "{answer:?}");
    waiting.join().unwrap().unwrap();
    let db = local();
    let handle = db.run(async |_| Ok(())); // it would never run
    drop(db);
    assert!(matches!(handle.wait(), Err(Error::Closed | Error::Busy)));
}

/// Proves that more transactions than there is room for are refused, and that there is room when one ends.
#[test]
fn too_many_transactions() {
    let db = local();
    let mut open = Vec::new();
    let error = loop {
        match db.begin() {
            Ok(tx) => open.push(tx),
            Err(error) => break error,
        }
        assert!(open.len() < 5_000_000, "there is a limit");
        if open.len() > 200_000 {
            return; // the limit is far beyond what a test should open
        }
    };
    assert!(matches!(error, Error::TooManyTransactions { open_max } if open_max == open.len()), "{error}");
    assert!(error.is_retryable());
    open.pop();
    db.begin().unwrap();
}

/// Proves that an interactive transaction that is dropped or aborted is undone, in whatever state it is.
#[test]
fn interactive_transactions_undone() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    for ends in [drop, braiddb::Transaction::abort] {
        let tx = db.begin().unwrap();
        tx.put(t, 1, 1).unwrap();
        let mut rows = tx.scan(t, 0..);
        assert_eq!(rows.next().unwrap(), Some((1, 1)));
        drop(rows);
        ends(tx);
        assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), None);
    }
    let panicked = thread::spawn({
        let db = db.clone();
        move || {
            let tx = db.begin().unwrap();
            tx.put(t, 1, 1).unwrap();
            panic!("planted");
        }
    });
    assert!(panicked.join().is_err());
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(t, 1).unwrap(), None);
    tx.put(t, 1, 2).unwrap();
    tx.commit().unwrap();
}

/// Proves that a transaction that moves from thread to thread sees its snapshot and its writes on each.
#[test]
fn moved_between_threads() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 0, 7).await).unwrap();
    let mut tx = db.begin().unwrap();
    for i in 1..=20 {
        let other = db.clone();
        let moved = thread::spawn(move || {
            tx.put(t, i, i).unwrap();
            assert_eq!(tx.get(t, 0).unwrap(), Some(7));
            assert_eq!(tx.get(t, i - 1).unwrap(), Some(if i == 1 { 7 } else { i - 1 }));
            other.worker().run(async |tx| tx.put(t, 0, 100 + i).await).unwrap();
            tx
        });
        tx = moved.join().unwrap();
    }
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    assert_eq!((tx.get(t, 0).unwrap(), tx.get(t, 20).unwrap()), (Some(120), Some(20)));
}

/// Proves that an idle transaction holds its snapshot, but neither an epoch nor what the snapshot does not see: index
/// nodes and versions are reclaimed while it is open.
#[test]
fn idle_across_many_updates() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let churn: Table<String, [u8]> = db.table("churn").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 1, 1).await).unwrap();
    let idle = db.begin().unwrap();
    assert_eq!(idle.get(t, 1).unwrap(), Some(1));
    let (mut nodes, mut bytes) = (0, 0);
    for round in 0..20 {
        let keys = || (0..2000).map(|i| format!("a layer of its own {round:08} and one more {i:08}"));
        worker.run_each(keys(), async |tx, key| tx.put(churn, key, &[1; 300]).await, |done| done.unwrap());
        worker.run_each(0..2000u64, async |tx, i| tx.put(t, 1, *i).await, |done| done.unwrap());
        worker.run_each(keys(), async |tx, key| tx.delete(churn, key).await, |done| assert!(done.unwrap()));
        while worker.maintain() {}
        let memory = db.statistics().memory;
        if round == 4 {
            (nodes, bytes) = (memory.nodes, memory.versions_bytes);
        } else if round > 4 {
            assert!(memory.versions_bytes < 2 * bytes, "round {round}: {memory:?} after {bytes} bytes");
        }
    }
    assert_eq!(idle.get(t, 1).unwrap(), Some(1));
    assert_eq!(idle.scan_prefix(churn, b"a").next().unwrap(), None);
    idle.commit().unwrap();
    for _ in 0..10_000 {
        if !worker.maintain() && worker.garbage() == 0 {
            break;
        }
    }
    let memory = db.statistics().memory;
    assert_eq!(memory.records, 1, "{memory:?} after {nodes} nodes");
    assert!(memory.nodes < 20, "{memory:?}");
}

/// Proves that a rollback that uncovers a tombstone, after garbage collection has passed, gives the tombstone's record
/// back.
#[test]
fn a_tombstone_uncovered_by_a_rollback() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 1, 1).await).unwrap();
    worker.run(async |tx| tx.delete(t, 1).await).unwrap();
    let slot = worker.spawn(
        async move |tx: &Txn| {
            tx.insert(t, 1, 2).await?;
            std::future::pending::<()>().await;
            Ok(())
        },
        |_| (),
    );
    for _ in 0..20 {
        worker.step();
    }
    for _ in 0..100 {
        worker.maintain();
    }
    assert!(worker.cancel(slot.unwrap()));
    for _ in 0..100 {
        worker.maintain();
    }
    assert_eq!(worker.run(async |tx| tx.get(t, 1).await).unwrap(), None);
    assert_eq!((worker.garbage(), db.statistics().memory.records), (0, 0));
}

/// Proves that transactions of many writes leave no more garbage behind than transactions of few, however they are
/// run.
#[test]
fn garbage_keeps_up_with_large_transactions() {
    let db = local();
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    let mut garbage_max = 0;
    for i in 0..300 {
        worker
            .run(async |tx| {
                for key in 0..200 {
                    tx.put(t, key, &[i as u8; 500]).await?;
                }
                Ok(())
            })
            .unwrap();
        garbage_max = garbage_max.max(worker.garbage());
    }
    assert!(garbage_max < 10_000, "{garbage_max} changes wait");
    for i in 0..300 {
        let tx = db.begin().unwrap();
        for key in 0..200 {
            tx.put(t, key, &[i as u8; 500]).unwrap();
        }
        tx.commit().unwrap();
    }
    let memory = db.statistics().memory;
    assert!(memory.versions_bytes < 16 << 20, "{memory:?}");
}

/// Proves that an interactive transaction may be used inside its own `with`.
#[test]
fn within_itself() {
    let db = local();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.with(async |inside| {
        tx.put(t, 1, 10)?;
        let seen = inside.get(t, 1).await?;
        inside.put(t, 2, seen.unwrap() + 1).await?;
        assert_eq!(tx.get(t, 2)?, Some(11));
        Ok(())
    })
    .unwrap();
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(t, 2).unwrap(), Some(11));
}

/// Proves that a key that claims to be short and is not is encoded as it is, and that nothing is read beyond its end.
#[test]
fn a_key_that_lies() {
    struct Liar;
    impl braiddb::AsKey<Vec<u8>> for Liar {
        fn short(&self) -> Option<(u64, u32)> {
            Some((0, 100))
        }
        fn encode_as(&self, _: bool, out: &mut Vec<u8>) {
            out.extend_from_slice(b"the truth");
        }
    }
    let db = local();
    let t: Table<Vec<u8>, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.put(t, Liar, 1).unwrap();
    assert_eq!(tx.get(t, b"the truth").unwrap(), Some(1));
}

/// Proves that statistics distinguish transactions that the program refuses from transactions that were given up
/// because of others, for closures of both kinds.
#[test]
fn refusals_are_not_given_up() {
    let options = Options { workers: 0, retries_max: 0, lock_wait_ms: 1, ..Options::default() };
    let db = Database::in_memory(options).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| tx.put(t, 1, 1)).unwrap();
    let mut worker = db.worker();
    let counted = || {
        let statistics = db.statistics();
        (statistics.aborts_user, statistics.given_up)
    };
    let refused: Result<()> = worker.run(async |tx| {
        tx.put(t, 1, 2).await?;
        Err(Error::user("no"))
    });
    assert!(matches!(refused, Err(Error::User(_))));
    assert_eq!(counted(), (1, 0));
    assert!(matches!(worker.run(async |tx| tx.insert(t, 1, 2).await), Err(Error::KeyExists)));
    db.transact::<()>(|_| Err(Error::user("no"))).unwrap_err();
    assert_eq!(counted(), (3, 0));
    let holder = db.begin().unwrap();
    holder.put(t, 1, 3).unwrap();
    assert!(worker.run(async |tx| tx.put(t, 1, 4).await).is_err());
    assert_eq!(counted(), (3, 1));
    assert!(db.transact(|tx| tx.put(t, 1, 4)).is_err());
    assert_eq!(counted(), (3, 2));
    let waited = worker.run(async |tx| tx.get_for_update(t, 1).await.map(drop));
    assert!(matches!(waited, Err(Error::LockTimeout(_))), "{waited:?}");
    assert_eq!(counted().1, 3);
}
