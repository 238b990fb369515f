//! A transaction is left open and idle, and other transactions want what it has touched, under every scheme. Each of
//! these gets what it wants at once, or sleeps and is told after `lock_wait_ms` which row it has waited for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Transaction, Txn};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            #[test]
            fn each_is_answered_in_time() {
                super::each_is_answered_in_time(SCHEME);
            }

            #[test]
            fn waits_end_with_the_holder() {
                super::waits_end_with_the_holder(SCHEME);
            }

            #[test]
            fn waits_end_with_a_reader_that_has_written() {
                super::waits_end_with_a_reader_that_has_written(SCHEME);
            }

            #[test]
            fn indexes_lead_to_held_rows() {
                super::indexes_lead_to_held_rows(SCHEME);
            }

            #[test]
            fn entries_that_go_are_waited_for() {
                super::entries_that_go_are_waited_for(SCHEME);
            }

            #[test]
            fn readers_come_back_when_a_writer_has_given_up() {
                super::readers_come_back_when_a_writer_has_given_up(SCHEME, $name == "hstore");
            }

            #[test]
            fn waits_are_asleep() {
                super::waits_are_asleep(SCHEME);
            }

            #[test]
            fn many_in_the_way_are_waited_for_once_each() {
                super::many_in_the_way_are_waited_for_once_each(SCHEME);
            }
        }
    )*};
}
braiddb::schemes!(tests);

/// An operation of the idle transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Read,
    Missed,
    Scanned,
    Put,
    Inserted,
    Deleted,
    Locked,
    Added,
}

const DID: [Did; 8] =
    [Did::Read, Did::Missed, Did::Scanned, Did::Put, Did::Inserted, Did::Deleted, Did::Locked, Did::Added];

/// An operation of a later transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Get,
    Scan,
    Put,
    Insert,
    Update,
    Delete,
    Lock,
    Add,
}

const WANTS: [Wants; 8] = [
    Wants::Get,
    Wants::Scan,
    Wants::Put,
    Wants::Insert,
    Wants::Update,
    Wants::Delete,
    Wants::Lock,
    Wants::Add,
];

/// How the later transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Workers,
    CallersWorker,
    Calls,
    /// By single calls: the engine does not run it again.
    Interactive,
}

const BY: [By; 4] = [By::Workers, By::CallersWorker, By::Calls, By::Interactive];

/// One meeting of the two transactions.
#[derive(Clone, Copy, Debug)]
struct Cell {
    did: Did,
    wants: Wants,
    /// The first of the cell's keys.
    base: u64,
    /// If true, the later transaction has written another row before.
    holds: bool,
}

/// Among the keys of a cell, the row that exists.
const ROW: u64 = 2;
/// Among the keys of a cell, the key that does not exist.
const GAP: u64 = 4;
/// From this key on, rows of the later transactions.
const OTHERS: u64 = 1 << 32;
/// The number of keys of a cell that the idle transaction may touch.
const SPAN: u64 = 8;

type Rows = Table<u64, u64>;

fn database(scheme: SchemeName, lock_wait_ms: u64) -> (Database<AnyScheme>, Rows) {
    let options = Options { workers: 1, lock_wait_ms, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows = db.table("rows").unwrap();
    (db, rows)
}

fn fill(db: &Database<AnyScheme>, rows: Rows, base: u64) {
    let filled = db.transact(|tx| {
        tx.put(rows, base + ROW, 1)?;
        tx.delete(rows, base + GAP)
    });
    filled.unwrap();
}

fn touch(tx: &Transaction<AnyScheme>, rows: Rows, did: Did, base: u64) {
    let row = base + ROW;
    match did {
        Did::Read => drop(tx.get(rows, row).unwrap()),
        Did::Missed => assert_eq!(tx.get(rows, base + GAP).unwrap(), None),
        Did::Scanned => tx.scan(rows, base..base + SPAN).for_each(|_, _| ()).unwrap(),
        Did::Put => tx.put(rows, row, 2).unwrap(),
        Did::Inserted => tx.insert(rows, base + GAP, 2).unwrap(),
        Did::Deleted => assert!(tx.delete(rows, row).unwrap()),
        Did::Locked => drop(tx.get_for_update(rows, row).unwrap()),
        Did::Added => tx.add(rows, row, 2).unwrap(),
    }
}

async fn want(tx: &Txn<AnyScheme>, rows: Rows, cell: Cell) -> Result<()> {
    let Cell { did, wants, base, holds } = cell;
    if holds {
        tx.put(rows, base + OTHERS, 1).await?;
    }
    let key = if matches!(did, Did::Missed | Did::Inserted) { base + GAP } else { base + ROW };
    match wants {
        Wants::Get => drop(tx.get(rows, key).await?),
        Wants::Scan => tx.scan(rows, base..base + SPAN).for_each(|_, _| ()).await?,
        Wants::Put => tx.put(rows, key, 3).await?,
        // After a scan, a key that did not exist.
        Wants::Insert => tx.insert(rows, if did == Did::Scanned { base + GAP } else { key }, 3).await?,
        Wants::Update => drop(tx.update(rows, key, 3).await?),
        Wants::Delete => drop(tx.delete(rows, key).await?),
        Wants::Lock => drop(tx.get_for_update(rows, key).await?),
        Wants::Add => tx.add(rows, key, 3)?,
    }
    Ok(())
}

fn run(db: &Database<AnyScheme>, rows: Rows, by: By, cell: Cell) -> Result<()> {
    match by {
        By::Workers => db.run(async move |tx| want(tx, rows, cell).await).wait(),
        By::CallersWorker => db.worker().run(async |tx| want(tx, rows, cell).await),
        By::Calls => db.transact(|tx| tx.with(async |tx| want(tx, rows, cell).await)),
        By::Interactive => {
            let tx = db.begin()?;
            tx.with(async |tx| want(tx, rows, cell).await)?;
            tx.commit()
        }
    }
}

/// The number of times that a transaction may begin anew because of one idle transaction, and of rounds of its worker
/// meanwhile.
const RETRIES_MAX: u64 = 20;
const ROUNDS_MAX: u64 = 60_000;

/// Runs a transaction beside an idle one. The error says what is wrong with the answer.
fn judge(
    db: &Database<AnyScheme>,
    rows: Rows,
    by: By,
    cell: Cell,
    lock_wait_ms: u64,
) -> std::result::Result<(), String> {
    let before = db.statistics();
    let began = Instant::now();
    let answer = run(db, rows, by, cell);
    let took = began.elapsed();
    let after = db.statistics();
    let (retries, rounds) = (after.retries - before.retries, after.rounds - before.rounds);
    let is_right = match &answer {
        Ok(()) | Err(Error::KeyExists) => took < Duration::from_millis(500),
        Err(Error::Conflict) if by == By::Interactive => took < Duration::from_millis(500),
        Err(Error::LockTimeout(row)) => {
            let key = |at: u64| format!("0x{:016x}", cell.base + at);
            let is_row = row.table == "rows" && [ROW, GAP].map(key).contains(&row.key);
            (is_row || row.table == "(partitions)")
                && row.holder.is_some()
                && row.waited >= Duration::from_millis(lock_wait_ms)
                && took < Duration::from_millis(lock_wait_ms + 480)
        }
        Err(_) => false,
    };
    if is_right && retries <= RETRIES_MAX && rounds <= ROUNDS_MAX {
        return Ok(());
    }
    Err(format!("{cell:?} {by:?}: {answer:?} after {took:?}, {retries} retries, {rounds} rounds"))
}

/// Proves that a transaction gets a row at once, or is told after `lock_wait_ms` which row was not released. This
/// holds whatever the idle transaction did, whatever the other transaction wants of the same row, and however it is
/// run. When the idle transaction has ended, the other transaction gets the row.
fn each_is_answered_in_time(scheme: SchemeName) {
    const LOCK_WAIT_MS: u64 = 20;
    /// Each may take seconds.
    const WRONG_MAX: usize = 8;
    let (db, rows) = database(scheme, LOCK_WAIT_MS);
    let mut wrong = Vec::new();
    for (number, (did, wants)) in DID.iter().flat_map(|did| WANTS.map(|wants| (*did, wants))).enumerate() {
        let base = number as u64 * SPAN;
        for by in BY {
            fill(&db, rows, base);
            let idle = db.begin().unwrap();
            touch(&idle, rows, did, base);
            for holds in [false, true] {
                wrong.extend(judge(&db, rows, by, Cell { did, wants, base, holds }, LOCK_WAIT_MS).err());
            }
            drop(idle);
            match run(&db, rows, by, Cell { did, wants, base, holds: false }) {
                Ok(()) | Err(Error::KeyExists) => {}
                Err(error) => wrong.push(format!("{did:?} {wants:?} {by:?}: {error:?} when it was free")),
            }
            assert!(wrong.len() < WRONG_MAX, "{}\n...", wrong.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Proves that a waiting transaction is woken when the idle transaction ends, long before its time is over.
fn waits_end_with_the_holder(scheme: SchemeName) {
    let (db, rows) = database(scheme, 60_000);
    let dids = [Did::Read, Did::Scanned, Did::Put, Did::Inserted, Did::Locked];
    let wants = [Wants::Get, Wants::Scan, Wants::Put, Wants::Delete, Wants::Lock];
    for (did, wants) in dids.into_iter().flat_map(|did| wants.map(|wants| (did, wants))) {
        fill(&db, rows, 0);
        let idle = db.begin().unwrap();
        touch(&idle, rows, did, 0);
        let (cell, began) = (Cell { did, wants, base: 0, holds: true }, Instant::now());
        let waits = db.run(async move |tx| want(tx, rows, cell).await);
        let calls = std::thread::scope(|scope| {
            let calls = scope.spawn(|| run(&db, rows, By::Calls, Cell { holds: false, ..cell }));
            std::thread::sleep(Duration::from_millis(30));
            drop(idle);
            calls.join().unwrap()
        });
        assert!(matches!((waits.wait(), calls), (Ok(()), Ok(()))), "{did:?} {wants:?}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{did:?} {wants:?} after {took:?}");
    }
}

/// Proves that a transaction that waits for a reader is woken when the reader ends, even if the reader has written the
/// row meanwhile, which turned its share of the lock into the whole lock.
fn waits_end_with_a_reader_that_has_written(scheme: SchemeName) {
    let (db, rows) = database(scheme, 60_000);
    let dids = [Did::Read, Did::Scanned];
    for (did, wants) in dids.into_iter().flat_map(|did| [Wants::Put, Wants::Lock].map(|wants| (did, wants))) {
        fill(&db, rows, 0);
        let reader = db.begin().unwrap();
        touch(&reader, rows, did, 0);
        let (cell, began) = (Cell { did, wants, base: 0, holds: false }, Instant::now());
        let waits = db.run(async move |tx| want(tx, rows, cell).await);
        std::thread::sleep(Duration::from_millis(30));
        // This fails under schemes where the other transaction did not have to wait.
        match reader.put(rows, ROW, 4) {
            Ok(()) => drop(reader.commit()),
            Err(_) => drop(reader),
        }
        let (answer, took) = (waits.wait(), began.elapsed());
        assert!(
            answer.is_ok() && took < Duration::from_secs(10),
            "{did:?} {wants:?}: {answer:?} after {took:?}"
        );
    }
}

/// Proves that a transaction waits in the same way for a row that is found through an index, and that the row is named
/// by the index's entry or its own key.
fn indexes_lead_to_held_rows(scheme: SchemeName) {
    let (db, rows) = database(scheme, 20);
    let by_value = db.unique_index(rows, "by value", |_, value| Some(value)).unwrap();
    db.transact(|tx| tx.put(rows, 1, 5)).unwrap();
    let idle = db.begin().unwrap();
    idle.put(rows, 1, 6).unwrap();
    let before = db.statistics().retries;
    let began = Instant::now();
    let scanned = db.run(async move |tx| tx.scan_by(by_value, 0..10).next().await.map(drop)).wait();
    let found = db.run(async move |tx| tx.get_by(by_value, 5).await.map(drop)).wait();
    let put = db.run(async move |tx| tx.put(rows, 1, 7).await).wait();
    let called = db.transact(|tx| tx.scan_by(by_value, 0..10).next().map(drop));
    for answer in [scanned, found, put, called] {
        match answer {
            Ok(()) => {}
            Err(Error::LockTimeout(row)) => {
                assert!(["rows", "by value", "(partitions)"].contains(&&*row.table), "{row:?}");
                assert!(row.waited >= Duration::from_millis(20) && row.holder.is_some(), "{row:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(
        began.elapsed() < Duration::from_millis(1000) && db.statistics().retries - before <= 4 * RETRIES_MAX
    );
}

/// Proves that a transaction sleeps when its write would remove an index entry that an idle transaction holds. The idle
/// transaction has been refused the key of that entry, and may rely on it.
fn entries_that_go_are_waited_for(scheme: SchemeName) {
    let (db, rows) = database(scheme, 20);
    db.unique_index(rows, "by value", |_, value| Some(value)).unwrap();
    db.transact(|tx| tx.put(rows, 1, 5)).unwrap();
    let idle = db.begin().unwrap();
    let refused = idle.insert(rows, 2, 5);
    assert!(matches!(refused, Err(Error::UniqueViolation { .. })), "{refused:?}");
    let before = db.statistics().retries;
    let began = Instant::now();
    let put = db.run(async move |tx| tx.put(rows, 1, 6).await).wait();
    let deleted = db.run(async move |tx| tx.delete(rows, 1).await.map(drop)).wait();
    let called = db.transact(|tx| tx.put(rows, 1, 7));
    for answer in [put, deleted, called] {
        match answer {
            Ok(()) => {}
            Err(Error::LockTimeout(row)) => {
                assert!(row.waited >= Duration::from_millis(20) && row.holder.is_some(), "{row:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(
        began.elapsed() < Duration::from_millis(1000) && db.statistics().retries - before <= 3 * RETRIES_MAX
    );
}

/// Proves that after a writer has waited in vain for a reader of a row, other transactions can read the row at once.
fn readers_come_back_when_a_writer_has_given_up(scheme: SchemeName, is_partitioned: bool) {
    let (db, rows) = database(scheme, 20);
    fill(&db, rows, 0);
    let idle = db.begin().unwrap();
    touch(&idle, rows, Did::Read, 0);
    for by in BY {
        for wants in [Wants::Put, Wants::Lock, Wants::Delete] {
            let cell = Cell { did: Did::Read, wants, base: 0, holds: false };
            let written = run(&db, rows, by, cell);
            assert!(matches!(written, Ok(()) | Err(Error::LockTimeout(_) | Error::Conflict)), "{written:?}");
            let read = run(&db, rows, by, Cell { wants: Wants::Get, ..cell });
            let is_right = read.is_ok()
                || is_partitioned && matches!(read, Err(Error::LockTimeout(_) | Error::Conflict));
            assert!(is_right, "{by:?} {wants:?}: {read:?}");
        }
    }
    drop(idle);
}

/// Proves that a long wait takes no more retries and rounds of the worker than a short one.
fn waits_are_asleep(scheme: SchemeName) {
    const LOCK_WAIT_MS: u64 = 400;
    let (db, rows) = database(scheme, LOCK_WAIT_MS);
    let mut wrong = Vec::new();
    let cells = [
        (Did::Read, Wants::Put),
        (Did::Put, Wants::Get),
        (Did::Put, Wants::Scan),
        (Did::Inserted, Wants::Scan),
        (Did::Locked, Wants::Put),
        (Did::Locked, Wants::Lock),
    ];
    for (did, wants) in cells {
        for by in [By::Workers, By::CallersWorker, By::Calls] {
            fill(&db, rows, 0);
            let idle = db.begin().unwrap();
            touch(&idle, rows, did, 0);
            let cell = Cell { did, wants, base: 0, holds: false };
            wrong.extend(judge(&db, rows, by, cell, LOCK_WAIT_MS).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Proves that many transactions that want rows of many idle transactions all get an answer, each after `lock_wait_ms`
/// at most.
fn many_in_the_way_are_waited_for_once_each(scheme: SchemeName) {
    const IDLE: u64 = 10;
    const TRANSACTIONS: u64 = 40;
    const LOCK_WAIT_MS: u64 = 10;
    let (db, rows) = database(scheme, LOCK_WAIT_MS);
    (0..IDLE).for_each(|number| fill(&db, rows, number * SPAN));
    let idle: Vec<_> = (0..IDLE)
        .map(|number| {
            let tx = db.begin().unwrap();
            let did = [Did::Read, Did::Put, Did::Locked, Did::Scanned][number as usize % 4];
            // Under some schemes, one of these transactions keeps the others out.
            let _ = tx.with(async |tx| match did {
                Did::Put => tx.put(rows, number * SPAN + ROW, 2).await,
                Did::Locked => tx.get_for_update(rows, number * SPAN + ROW).await.map(drop),
                Did::Scanned => tx.scan(rows, number * SPAN..(number + 1) * SPAN).for_each(|_, _| ()).await,
                _ => tx.get(rows, number * SPAN + ROW).await.map(drop),
            });
            tx
        })
        .collect();
    let began = Instant::now();
    for number in 0..TRANSACTIONS {
        let (wants, base) = (WANTS[number as usize / 10], number % IDLE * SPAN);
        let cell = Cell { did: Did::Read, wants, base, holds: false };
        let answer = run(&db, rows, By::Workers, cell);
        assert!(
            matches!(answer, Ok(()) | Err(Error::LockTimeout(_) | Error::KeyExists)),
            "{cell:?} {answer:?}"
        );
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(TRANSACTIONS * (LOCK_WAIT_MS + 40)), "{took:?}");
    drop(idle);
}

/// A transaction sleeps for a row that another transaction deletes. The row is inserted again, and other transactions
/// share the new row before the sleeper looks again.
fn a_row_made_anew(scheme: SchemeName) {
    let options = Options { workers: 0, lock_wait_ms: 600_000, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| tx.put(t, 4, 1)).unwrap();
    let deleting = db.begin().unwrap();
    assert!(deleting.delete(t, 4).unwrap());
    let mut worker = db.worker();
    let got = Rc::new(std::cell::Cell::new(None));
    let ended = got.clone();
    let body = async move |tx: &Txn<AnyScheme>| tx.get_for_update(t, 4).await;
    worker.spawn(body, move |result| ended.set(Some(result.unwrap()))).unwrap();
    // More rounds than the transaction looks before it sleeps.
    let mut rounds = || (0..40_000).for_each(|_| _ = worker.round());
    rounds();
    assert_eq!(got.get(), None);
    deleting.commit().unwrap();
    db.transact(|tx| tx.insert(t, 4, 2)).unwrap();
    let sharing = db.begin().unwrap();
    assert_eq!(sharing.get(t, 4).unwrap(), Some(2));
    rounds();
    sharing.commit().unwrap();
    rounds();
    assert_eq!(got.get(), Some(Some(2)), "it sleeps in the queue of the row that was deleted");
}

/// Proves that a transaction that waits for a row waits for the present row once the row that it waited for is gone.
#[test]
fn rows_made_anew_are_waited_for() {
    a_row_made_anew(SchemeName::DlDetect);
    a_row_made_anew(SchemeName::WaitDie);
    a_row_made_anew(SchemeName::NoWait);
}
