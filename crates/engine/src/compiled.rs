//! The engine's operations, compiled once for debug builds of programs and tests.
//!
//! The engine is generic, so each program that uses it would compile it. A crate that is compiled with `opt-level` 0 or 1 uses the functions that a
//! crate which it depends on has compiled for the same types. So this module uses each operation under the default scheme.
//! It never runs. (Release builds share only what `once!` declares, and leave this module out.)

use crate::cc::{ConcurrencyControl, Serializable};
use crate::db::Database;
use crate::error::Result;
use crate::metrics::SystemClock;
use crate::options::Options;
use crate::storage::MemoryStorage;
use crate::table::Table;
use crate::txn::{Transaction, Txn};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Uses each operation under the default scheme.
pub fn use_default() -> Result<()> {
    use_all::<Serializable>()
}

/// Uses each operation under a scheme. A crate that calls this compiles them for the crates that depend on it.
pub fn use_all<C: ConcurrencyControl>() -> Result<()> {
    let clock = Arc::new(SystemClock::default());
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let in_memory = Database::<C>::in_memory_with(Options::default(), clock.clone())?;
    let db = Database::<C>::open_with(disk, Options::default(), clock, &mut |_| {})?;
    let (numbers, words) = (db.table::<u64, u64>("numbers")?, db.table::<String, u64>("words")?);
    let by_number = db.index(numbers, "by number", |_, number| Some(number))?;
    let tx = db.begin()?;
    calls(&tx, numbers)?;
    tx.get_by(by_number, 1)?;
    tx.scan_by(by_number, 1..).next()?;
    tx.with(async |tx| awaited(tx, numbers).await)?;
    tx.commit()?;
    db.transact(|tx| tx.put(numbers, 1, 1))?;
    by_worker(&db, numbers)?;
    db.run(async move |tx| tx.get(numbers, 1).await).wait()?;
    drop(db.run_each(vec![1], async move |tx, key| tx.get(numbers, key).await));
    whole_tables(&db, numbers, words)?;
    in_memory.close()?;
    db.close()
}

/// Plain calls.
fn calls<C: ConcurrencyControl>(tx: &Transaction<C>, numbers: Table<u64, u64>) -> Result<()> {
    let before = tx.savepoint();
    tx.get(numbers, 1)?;
    tx.get_for_update(numbers, 1)?;
    tx.get_many(numbers, &[1])?;
    tx.get_into(numbers, &[1], &mut [None])?;
    tx.contains(numbers, 1)?;
    tx.put(numbers, 1, 1)?;
    tx.insert(numbers, 1, 1)?;
    tx.update(numbers, 1, 1)?;
    tx.update_at_commit(numbers, 1, |_, new| new.set(1))?;
    tx.add(numbers, 1, 1)?;
    tx.compare_and_set(numbers, 1, Some(1), None)?;
    tx.delete(numbers, 1)?;
    tx.scan(numbers, 1..).reverse().limit(1).next()?;
    tx.scan_all(numbers).try_for_each(|_, _| Ok(()))?;
    tx.first(numbers)?;
    tx.last(numbers)?;
    tx.pop_first(numbers)?;
    tx.pop_last(numbers)?;
    tx.count(numbers)?;
    tx.delete_range(numbers, 1..)?;
    tx.rollback_to(&before)
}

/// The same operations awaited.
async fn awaited<C: ConcurrencyControl>(tx: &Txn<C>, numbers: Table<u64, u64>) -> Result<()> {
    let before = tx.savepoint();
    tx.get(numbers, 1).await?;
    tx.get_for_update(numbers, 1).await?;
    tx.get_many(numbers, &[1]).await?;
    tx.get_into(numbers, &[1], &mut [None]).await?;
    tx.contains(numbers, 1).await?;
    tx.put(numbers, 1, 1).await?;
    tx.insert(numbers, 1, 1).await?;
    tx.update(numbers, 1, 1).await?;
    tx.update_at_commit(numbers, 1, |_, new| new.set(1))?;
    tx.add(numbers, 1, 1)?;
    tx.compare_and_set(numbers, 1, Some(1), None).await?;
    tx.delete(numbers, 1).await?;
    tx.scan(numbers, 1..).reverse().limit(1).next().await?;
    tx.scan_all(numbers).try_for_each(|_, _| Ok(())).await?;
    tx.first(numbers).await?;
    tx.last(numbers).await?;
    tx.pop_first(numbers).await?;
    tx.pop_last(numbers).await?;
    tx.count(numbers).await?;
    tx.delete_range(numbers, 1..).await?;
    tx.rollback_to(&before)
}

/// Closures on this thread, interleaved.
fn by_worker<C: ConcurrencyControl>(db: &Database<C>, numbers: Table<u64, u64>) -> Result<()> {
    let mut worker = db.worker();
    worker.run(async |tx| awaited(tx, numbers).await)?;
    worker.run_each([1], async |tx, key| tx.get(numbers, *key).await, |_| ());
    drop(worker.spawn(async move |tx: &Txn<C>| tx.get(numbers, 1).await, |_| ()));
    worker.maintain();
    Ok(())
}

/// What is done with tables and databases as a whole.
fn whole_tables<C: ConcurrencyControl>(
    db: &Database<C>,
    numbers: Table<u64, u64>,
    words: Table<String, u64>,
) -> Result<()> {
    let expiry = db.expiry(numbers, "expiry", |_, _| Some(SystemTime::UNIX_EPOCH))?;
    expiry.sweep(1)?;
    drop(expiry.sweep_every(Duration::from_secs(1))?);
    db.sequence(words, "a".to_owned()).next()?;
    db.sequence(numbers, 1).next()?;
    db.freeze(numbers)?;
    db.thaw(numbers)?;
    db.clear(numbers)?;
    db.clear(words)?;
    db.drop_table("numbers")?;
    db.checkpoint()?;
    db.backup("")?;
    db.changes(db.change_position()?)?;
    Ok(())
}
