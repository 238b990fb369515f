//! Every call of the engine: opening, loading's inserts, and the operations of transactions, under record
//! numbers.
//!
//! A record's number becomes its key through a bijective mixer, so neighbours by number are strangers by key:
//! numbers in ascending order insert in random order, and popular records lie anywhere in the index.

use crate::Failure;
use crate::args::{DurabilityKind, RefillKind};
use braiddb::storage::FileStorage;
use braiddb::suspend::Suspend;
pub(crate) use braiddb::worker::BatchSize;
use braiddb::worker::{Refill, WorkerOptions};
use braiddb::{Durability, Table, variants};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use crate::raw::{RawReader, raw_reader};
pub(crate) use braiddb::metrics::{Breakdown, LogStatistics, SystemClock};
pub(crate) use braiddb::suspend::{Never, OnMiss, PrefetchOnly};
pub(crate) use braiddb::worker::Worker;
pub(crate) use braiddb::{
    ConcurrencyControl as Scheme, Database, IndexKind, Options, Result, Serializable, Txn,
};

/// The longest key that `--key-bytes` accepts.
pub(crate) const KEY_BYTES_MAX: usize = 64;

/// The name of the one table.
const TABLE: &str = "usertable";

/// An empty database that starts no workers, and its directory if it has one, to be made in `parent`.
pub(crate) fn open<C: Scheme>(
    index: IndexKind,
    durability: DurabilityKind,
    parent: &Path,
) -> crate::Result<(Database<C>, Option<Directory>)> {
    if durability == DurabilityKind::Memory {
        let options = Options { workers: 0, index, ..Options::default() };
        let db = Database::in_memory_with(options, Arc::new(SystemClock::default())).map_err(failure)?;
        return Ok((db, None));
    }
    let directory = Directory::new(parent);
    Ok((open_again(&directory, index, durability)?, Some(directory)))
}

/// The database that `open` has made in this directory, which is not open any more. Tables that there are keep their
/// kind of index.
pub(crate) fn open_again<C: Scheme>(
    directory: &Directory,
    index: IndexKind,
    durability: DurabilityKind,
) -> crate::Result<Database<C>> {
    let durability = match durability {
        DurabilityKind::Memory | DurabilityKind::None => Durability::None,
        DurabilityKind::Async => Durability::Async,
        DurabilityKind::Sync => Durability::Sync,
    };
    // Checkpoints are made when the plan says so.
    let options = Options {
        workers: 0,
        index,
        durability,
        checkpoint_log_bytes: 0,
        checkpoint_interval_s: 0,
        ..Options::default()
    };
    open_in(directory, options)
}

/// The database in a directory.
pub(crate) fn open_in<C: Scheme>(directory: &Directory, options: Options) -> crate::Result<Database<C>> {
    let storage = FileStorage::create(&directory.0).map_err(|error| failure(error.into()))?;
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage), options, clock, &mut |_| {}).map_err(failure)
}

/// A directory that is removed with it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// One within `parent`, of a name that no other process uses.
    pub(crate) fn new(parent: &Path) -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // only uniqueness counts
        Directory(parent.join(format!("braid-bench-{}-{number}", std::process::id())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left is the user's to remove
    }
}

/// The most that `BatchSize::Auto` has open at once.
pub(crate) const AUTO_BATCH_MAX: usize = 64;

/// The calling thread as a worker of `batch` places.
pub(crate) fn worker<C: Scheme, S: Suspend>(
    db: &Database<C>,
    policy: S,
    batch: BatchSize,
    refill: RefillKind,
) -> Worker<C, S> {
    let batch_max = match batch {
        BatchSize::Auto => AUTO_BATCH_MAX,
        BatchSize::Fixed(batch) => batch,
    };
    let refill = match refill {
        RefillKind::Immediate => Refill::Immediate,
        RefillKind::Strict => Refill::Strict,
    };
    db.worker_with(policy, WorkerOptions { batch, batch_max, refill, ..WorkerOptions::default() })
}

/// Counters of the database, now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: u64,
    pub(crate) aborts: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) log: LogStatistics,
    pub(crate) breakdown: Breakdown,
}

pub(crate) fn counters<C: Scheme>(db: &Database<C>) -> Counters {
    let s = db.statistics();
    Counters {
        commits: s.commits,
        aborts: s.aborts_conflict,
        memory_bytes: s.memory.total_bytes(),
        log: s.log,
        breakdown: s.breakdown,
    }
}

/// An error of the engine, for the user.
pub(crate) fn failure(error: braiddb::Error) -> Failure {
    Failure::new(format!("the engine failed: {error}"))
}

/// A table whose records have numbers. Operations are those of the engine, with nothing in between where keys
/// are fixed: the engine's own future is returned, not one around it.
pub(crate) trait Access: Copy + Send + Sync {
    /// Reads one record.
    fn get<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>>;
    /// Reads one record through nested coroutines.
    fn get_nested<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>>;
    /// Reads several by step machines.
    fn get_many<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Reads several by coroutines.
    fn get_many_coroutines<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Reads several by nested coroutines.
    fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Writes a record, there or not.
    fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>>;
    /// Replaces a record; false: it is absent.
    fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<bool>>;
    /// Adds a record.
    fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>>;
    /// Asks the index alone; false: it has no such key.
    fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<bool>>;
    /// Reads up to `rows` records in the order of keys from a record on, and adds up their first bytes.
    fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> impl Future<Output = Result<u64>>;
}

/// Keys of 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct FixedKeys(Table<u64, [u8]>);

impl FixedKeys {
    pub(crate) fn table(self) -> Table<u64, [u8]> {
        self.0
    }
}

/// Longer keys: constant bytes, then the 8 bytes that differ, as a tenant's or a relation's prefix would make
/// them.
#[derive(Clone, Copy)]
pub(crate) struct LongKeys {
    table: Table<Vec<u8>, [u8]>,
    key_bytes: usize,
}

/// A table of either kind.
#[derive(Clone, Copy)]
pub(crate) enum AnyTable {
    Fixed(FixedKeys),
    Long(LongKeys),
}

/// Opens the table for keys of this length.
pub(crate) fn table<C: Scheme>(db: &Database<C>, key_bytes: usize) -> crate::Result<AnyTable> {
    if key_bytes == 8 {
        return Ok(AnyTable::Fixed(FixedKeys(db.table(TABLE).map_err(failure)?)));
    }
    Ok(AnyTable::Long(LongKeys { table: db.table(TABLE).map_err(failure)?, key_bytes }))
}

/// A bijection of 64-bit numbers that looks random (the finisher of MurmurHash3).
#[inline(always)]
pub fn mix(number: u64) -> u64 {
    let mut k = number;
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

impl Access for FixedKeys {
    #[inline(always)]
    fn get<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>> {
        tx.get(self.0, mix(number))
    }
    #[inline(always)]
    fn get_nested<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>> {
        variants::get_nested(tx, self.0, mix(number))
    }
    async fn get_many<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        tx.get_many(self.0, &numbers.map(mix)).await
    }
    async fn get_many_coroutines<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        variants::get_many_coroutines(tx, self.0, &numbers.map(mix)).await
    }
    async fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        variants::get_many_nested(tx, self.0, &numbers.map(mix)).await
    }
    #[inline(always)]
    fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>> {
        tx.put(self.0, mix(number), value)
    }
    #[inline(always)]
    fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<bool>> {
        tx.update(self.0, mix(number), value)
    }
    #[inline(always)]
    fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>> {
        tx.insert(self.0, mix(number), value)
    }
    #[inline(always)]
    fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<bool>> {
        variants::probe(tx, self.0, mix(number))
    }
    async fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut scan = tx.scan(self.0, mix(number)..).limit(rows);
        let mut sum = 0u64;
        while let Some((_, value)) = scan.next().await? {
            sum = sum.wrapping_add(first(value));
        }
        Ok(sum)
    }
}

/// A long key on the stack.
struct KeyBuffer([u8; KEY_BYTES_MAX], usize);

impl KeyBuffer {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl LongKeys {
    #[inline(always)]
    fn key(self, number: u64) -> KeyBuffer {
        let mut buffer = [b'k'; KEY_BYTES_MAX];
        buffer[self.key_bytes - 8..self.key_bytes].copy_from_slice(&mix(number).to_be_bytes());
        KeyBuffer(buffer, self.key_bytes)
    }
}

impl Access for LongKeys {
    async fn get<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<Option<&[u8]>> {
        tx.get(self.table, self.key(number).bytes()).await
    }
    async fn get_nested<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<Option<&[u8]>> {
        variants::get_nested(tx, self.table, self.key(number).bytes()).await
    }
    async fn get_many<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        let keys = numbers.map(|n| self.key(n));
        tx.get_many(self.table, &keys.each_ref().map(KeyBuffer::bytes)).await
    }
    async fn get_many_coroutines<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        let keys = numbers.map(|n| self.key(n));
        variants::get_many_coroutines(tx, self.table, &keys.each_ref().map(KeyBuffer::bytes)).await
    }
    async fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        let keys = numbers.map(|n| self.key(n));
        variants::get_many_nested(tx, self.table, &keys.each_ref().map(KeyBuffer::bytes)).await
    }
    async fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<()> {
        tx.put(self.table, self.key(number).bytes(), value).await
    }
    async fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<bool> {
        tx.update(self.table, self.key(number).bytes(), value).await
    }
    async fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<()> {
        tx.insert(self.table, self.key(number).bytes(), value).await
    }
    async fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<bool> {
        variants::probe(tx, self.table, self.key(number).bytes()).await
    }
    async fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut scan = tx.scan(self.table, self.key(number).bytes().to_vec()..).limit(rows);
        let mut sum = 0u64;
        while let Some((_, value)) = scan.next().await? {
            sum = sum.wrapping_add(first(value));
        }
        Ok(sum)
    }
}

/// The first byte of a value: reading it is what makes a read real.
#[inline(always)]
pub(crate) fn first(value: &[u8]) -> u64 {
    value.first().copied().map_or(0, u64::from)
}
