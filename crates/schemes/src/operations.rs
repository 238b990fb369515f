//! A function for each scheme that uses each of the engine's operations.

use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::{
    AsKey, ConcurrencyControl, Database, Index, Key, Options, Result, Table, Transaction, Txn, Value,
};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

macro_rules! instances {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        #[doc = concat!("The operations under `", $name, "`.")]
        ///
        /// # Errors
        ///
        /// Those of the operations.
        pub fn $module() -> Result<()> {
            operations::<braiddb::$scheme>()
        }
    )*};
}
braiddb::schemes!(instances);

fn operations<C: ConcurrencyControl>() -> Result<()> {
    let clock = Arc::new(SystemClock::default());
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let in_memory = Database::<C>::in_memory_with(Options::default(), clock.clone())?;
    let db = Database::<C>::open_with(disk, Options::default(), clock, &mut |_| {})?;
    let (numbers, words) = (db.table::<u64, u64>("numbers")?, db.table::<String, u64>("words")?);
    let by_number = db.index(numbers, "by number", |_, number| Some(number))?;
    let tx = db.begin()?;
    calls(&tx, numbers, 1, 1)?;
    tx.add(numbers, 1, 1)?;
    indexed(&tx, by_number, 1)?;
    tx.with(async |tx| awaited(tx, numbers, 1, 1).await)?;
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
fn calls<C: ConcurrencyControl, K: Key, V: Value + ?Sized, A: AsKey<K> + Copy>(
    tx: &Transaction<C>,
    table: Table<K, V>,
    key: A,
    value: V::Input<'static>,
) -> Result<()>
where
    V::Input<'static>: Copy + Send,
    for<'v> V::View<'v>: PartialEq,
{
    let before = tx.savepoint();
    tx.get(table, key)?;
    tx.get_for_update(table, key)?;
    tx.get_many(table, &[key])?;
    tx.get_into(table, &[key], &mut [None])?;
    tx.contains(table, key)?;
    tx.put(table, key, value)?;
    tx.insert(table, key, value)?;
    tx.update(table, key, value)?;
    tx.update_at_commit(table, key, move |_, new| new.set(value))?;
    tx.compare_and_set(table, key, Some(value), None)?;
    tx.delete(table, key)?;
    tx.scan(table, key..).reverse().limit(1).next()?;
    tx.scan_all(table).try_for_each(|_, _| Ok(()))?;
    tx.first(table)?;
    tx.last(table)?;
    tx.pop_first(table)?;
    tx.pop_last(table)?;
    tx.count(table)?;
    tx.delete_range(table, key..)?;
    tx.rollback_to(&before)
}

/// Reading by an index.
fn indexed<C: ConcurrencyControl, I: Key, K: Key, V: Value + ?Sized, A: AsKey<I> + Copy>(
    tx: &Transaction<C>,
    index: Index<I, K, V>,
    key: A,
) -> Result<()> {
    tx.get_by(index, key)?;
    tx.scan_by(index, key..).next()?;
    Ok(())
}

/// The same operations awaited.
async fn awaited<C: ConcurrencyControl, K: Key, V: Value + ?Sized, A: AsKey<K> + Copy>(
    tx: &Txn<C>,
    table: Table<K, V>,
    key: A,
    value: V::Input<'static>,
) -> Result<()>
where
    V::Input<'static>: Copy + Send,
    for<'v> V::View<'v>: PartialEq,
{
    let before = tx.savepoint();
    tx.get(table, key).await?;
    tx.get_for_update(table, key).await?;
    tx.get_many(table, &[key]).await?;
    tx.get_into(table, &[key], &mut [None]).await?;
    tx.contains(table, key).await?;
    tx.put(table, key, value).await?;
    tx.insert(table, key, value).await?;
    tx.update(table, key, value).await?;
    tx.update_at_commit(table, key, move |_, new| new.set(value))?;
    tx.compare_and_set(table, key, Some(value), None).await?;
    tx.delete(table, key).await?;
    tx.scan(table, key..).reverse().limit(1).next().await?;
    tx.scan_all(table).try_for_each(|_, _| Ok(())).await?;
    tx.first(table).await?;
    tx.last(table).await?;
    tx.pop_first(table).await?;
    tx.pop_last(table).await?;
    tx.count(table).await?;
    tx.delete_range(table, key..).await?;
    tx.rollback_to(&before)
}

/// Closures on this thread, interleaved.
fn by_worker<C: ConcurrencyControl>(db: &Database<C>, numbers: Table<u64, u64>) -> Result<()> {
    let mut worker = db.worker();
    worker.run(async |tx| awaited(tx, numbers, 1, 1).await)?;
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
