//! RocksDB, with its optimistic and its pessimistic transactions. Each table is a column family. Reads use the snapshot
//! that each transaction has, and several reads in a row are one call. What is read to be written is validated at the
//! commit, or locked at once.

use crate::measure::file_bytes;
use crate::peer::{
    self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, in_groups, perform, read_only, retry,
};
use crate::work::{Operation, Outcome, Table, Task, Work};
use braid_bench::Result;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor, DBAccess,
    Error, ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions,
    SnapshotWithThreadMode, Transaction, TransactionDB, TransactionDBOptions, TransactionOptions,
    WriteBatchWithTransaction, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

fn failed(error: Error) -> braid_bench::Failure {
    peer::failed("rocksdb", error)
}

fn fault(error: Error) -> Fault {
    match error.kind() {
        // A failed validation, an unavailable lock, or a history that is too short to decide.
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::Aborted => Fault::Conflict,
        _ => Fault::Failed(failed(error)),
    }
}

/// A function that receives the values read, in the order of their keys.
type Show<'a> = &'a mut dyn FnMut(std::result::Result<Option<&[u8]>, Error>) -> Tried<()>;

/// Multi-gets, for each type that has them.
pub trait Reads: DBAccess {
    /// Reads these keys. The default works for all types. RocksDB has a faster call, which not all types have here.
    fn get_many(
        &self,
        family: &ColumnFamily,
        keys: &[[u8; 8]],
        options: &ReadOptions,
        show: Show<'_>,
    ) -> Tried<()> {
        let values = self.multi_get_cf_opt(keys.iter().map(|key| (&family, key)), options);
        values.into_iter().try_for_each(|value| match value {
            Ok(value) => show(Ok(value.as_deref())),
            Err(error) => show(Err(error)),
        })
    }
}

impl<D> Reads for Transaction<'_, D> {}

impl Reads for TransactionDB {}

impl Reads for OptimisticTransactionDB {
    /// Looks up all keys block by block, without copying values.
    fn get_many(
        &self,
        family: &ColumnFamily,
        keys: &[[u8; 8]],
        options: &ReadOptions,
        show: Show<'_>,
    ) -> Tried<()> {
        let values = self.batched_multi_get_cf_opt(&family, keys, false, options);
        values.into_iter().try_for_each(|value| match value {
            Ok(value) => show(Ok(value.as_deref())),
            Err(error) => show(Err(error)),
        })
    }
}

/// Operations that the two kinds of databases have under different names.
pub trait Kind: Reads + Sync + Sized {
    /// Its name as a peer.
    const NAME: &'static str;
    /// Opens the database.
    fn open(
        options: &Options,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> std::result::Result<Self, Error>;
    /// Returns the column family of a table.
    fn family(&self, name: &str) -> Option<&ColumnFamily>;
    /// Begins a transaction that has a snapshot.
    fn begin(&self, options: &WriteOptions) -> Transaction<'_, Self>;
    /// Writes many records at once.
    fn store(
        &self,
        batch: WriteBatchWithTransaction<true>,
        options: &WriteOptions,
    ) -> std::result::Result<(), Error>;
    /// Writes everything in memory to files.
    fn flush(&self, family: &ColumnFamily) -> std::result::Result<(), Error>;
}

impl Kind for OptimisticTransactionDB {
    const NAME: &'static str = "rocksdb-optimistic";

    fn open(
        options: &Options,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> std::result::Result<Self, Error> {
        Self::open_cf_descriptors(options, path, families)
    }

    fn family(&self, name: &str) -> Option<&ColumnFamily> {
        self.cf_handle(name)
    }

    fn begin(&self, options: &WriteOptions) -> Transaction<'_, Self> {
        let mut own = OptimisticTransactionOptions::default();
        own.set_snapshot(true);
        self.transaction_opt(options, &own)
    }

    fn store(
        &self,
        batch: WriteBatchWithTransaction<true>,
        options: &WriteOptions,
    ) -> std::result::Result<(), Error> {
        self.write_opt(batch, options)
    }

    fn flush(&self, family: &ColumnFamily) -> std::result::Result<(), Error> {
        self.flush_cf(family)?;
        let mut options = rocksdb::CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }
}

impl Kind for TransactionDB {
    const NAME: &'static str = "rocksdb-pessimistic";

    fn open(
        options: &Options,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> std::result::Result<Self, Error> {
        Self::open_cf_descriptors(options, &TransactionDBOptions::default(), path, families)
    }

    fn family(&self, name: &str) -> Option<&ColumnFamily> {
        self.cf_handle(name)
    }

    fn begin(&self, options: &WriteOptions) -> Transaction<'_, Self> {
        let mut own = TransactionOptions::default();
        own.set_snapshot(true);
        self.transaction_opt(options, &own)
    }

    fn store(
        &self,
        batch: WriteBatchWithTransaction<true>,
        options: &WriteOptions,
    ) -> std::result::Result<(), Error> {
        self.write_opt(batch, options)
    }

    // This type has no call for a manual compaction.
    fn flush(&self, family: &ColumnFamily) -> std::result::Result<(), Error> {
        self.flush_cf(family)
    }
}

/// A database of either kind.
pub struct Rocks<D> {
    db: D,
    class: Class,
    directory: PathBuf,
}

impl<D: Kind> Rocks<D> {
    fn families(&self) -> Result<[&ColumnFamily; 5]> {
        let mut families = Vec::new();
        for table in Table::ALL {
            let missing = || peer::failed("rocksdb", format!("there is no family {}", table.name()));
            families.push(self.db.family(table.name()).ok_or_else(missing)?);
        }
        Ok(families.try_into().unwrap_or_else(|_| unreachable!("a family for each")))
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        match self.class {
            Class::Memory => options.disable_wal(true),
            Class::Sync => options.set_sync(true),
        }
        options
    }
}

/// Options with a cache that holds all data, filters for point reads, and no compression.
fn options(setting: &Setting) -> Options {
    let mut blocks = BlockBasedOptions::default();
    let cache = Cache::new_hyper_clock_cache(setting.records as usize * 64 + (1 << 28), 8192);
    blocks.set_block_cache(&cache);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_data_block_index_type(rocksdb::DataBlockIndexType::BinaryAndHash);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.increase_parallelism(setting.threads.max(2) as i32);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_write_buffer_size(128 << 20);
    options.set_max_write_buffer_number(4);
    options
}

impl<D: Kind> Peer for Rocks<D> {
    const FACTS: Facts = Facts {
        name: D::NAME,
        isolation: "snapshot",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes: false,
        server: false,
    };

    type Session<'a>
        = Open<'a, D>
    where
        D: 'a;

    fn open(setting: &Setting) -> Result<Self> {
        let options = options(setting);
        let family = |table: Table| ColumnFamilyDescriptor::new(table.name(), options.clone());
        let families = Table::ALL.map(family).into_iter().collect();
        let db = D::open(&options, &setting.directory, families).map_err(failed)?;
        Ok(Rocks { db, class: setting.class, directory: setting.directory.clone() })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let family = self.families()?[table.index()];
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        in_groups(rows, |group| {
            let mut batch = WriteBatchWithTransaction::<true>::default();
            for (key, value) in group {
                batch.put_cf(family, key.to_be_bytes(), value.to_le_bytes());
            }
            self.db.store(batch, &options).map_err(failed)
        })
    }

    fn settle(&self) -> Result<()> {
        for family in self.families()? {
            self.db.flush(family).map_err(failed)?;
        }
        // Compaction after loading is done when the files no longer change. Two minutes are enough.
        let (mut bytes, mut rounds_alike) = (0, 0);
        for _ in 0..1200 {
            let now = file_bytes(&self.directory);
            rounds_alike = if now == bytes { rounds_alike + 1 } else { 0 };
            if rounds_alike == 10 {
                break;
            }
            bytes = now;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn session(&self, _: Option<usize>) -> Result<Open<'_, D>> {
        let (families, write) = (self.families()?, self.write_options());
        Ok(Open { db: &self.db, families, write, read: ReadOptions::default() })
    }
}

/// A thread's use of the database.
pub struct Open<'a, D> {
    db: &'a D,
    families: [&'a ColumnFamily; 5],
    write: WriteOptions,
    /// Options of a read that is a transaction by itself.
    read: ReadOptions,
}

impl<D: Kind> Session for Open<'_, D> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        let families = &self.families;
        if work.is_single(task)
            && let Some(Operation::Get(table, key)) = work.operations(task).next()
        {
            return retry(|| {
                let mut outcome = Outcome::default();
                outcome.saw(get(self.db, families[table.index()], key, &self.read)?);
                Ok(outcome)
            });
        }
        if work.only_reads(task) {
            let snapshot = SnapshotWithThreadMode::new(self.db);
            let mut view = View::new(self.db, families, &snapshot);
            return retry(|| perform(&mut view, work.operations(task)));
        }
        retry(|| {
            let txn = self.db.begin(&self.write);
            let snapshot = txn.snapshot();
            let mut writing = Writing(View::new(&txn, families, &snapshot));
            let outcome = perform(&mut writing, work.operations(task))?;
            drop(snapshot);
            txn.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

/// Reads from a snapshot, of a database or of a transaction.
struct View<'a, D: DBAccess> {
    on: &'a D,
    families: &'a [&'a ColumnFamily; 5],
    snapshot: &'a SnapshotWithThreadMode<'a, D>,
    /// Options with that snapshot.
    options: ReadOptions,
}

impl<'a, D: DBAccess> View<'a, D> {
    fn new(
        on: &'a D,
        families: &'a [&'a ColumnFamily; 5],
        snapshot: &'a SnapshotWithThreadMode<'a, D>,
    ) -> Self {
        let mut options = ReadOptions::default();
        options.set_snapshot(snapshot);
        View { on, families, snapshot, options }
    }
}

fn number(bytes: &[u8]) -> Tried<u64> {
    let bytes = bytes.try_into().map_err(|_| peer::failed("rocksdb", "a value is not of 8 bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn get(on: &impl DBAccess, family: &ColumnFamily, key: u64, options: &ReadOptions) -> Tried<Option<u64>> {
    let value = on.get_pinned_cf_opt(&family, key.to_be_bytes(), options).map_err(fault)?;
    value.map(|bytes| number(&bytes)).transpose()
}

impl<D: Reads> Attempt for View<'_, D> {
    const READS_TOGETHER: bool = true;

    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        get(self.on, self.families[table.index()], key, &self.options)
    }

    fn get_many(&mut self, table: Table, keys: &[u64], mut seen: impl FnMut(Option<u64>)) -> Tried<()> {
        let keys: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
        self.on.get_many(self.families[table.index()], &keys, &self.options, &mut |value| {
            seen(value.map_err(fault)?.map(number).transpose()?);
            Ok(())
        })
    }

    fn update(&mut self, _: Table, _: u64, _: u64) -> Tried<()> {
        Err(read_only())
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, mut seen: impl FnMut(u64)) -> Tried<()> {
        let mut iterator = self.snapshot.raw_iterator_cf(&self.families[table.index()]);
        iterator.seek(from.to_be_bytes());
        for _ in 0..rows {
            let Some(value) = iterator.value() else { break };
            seen(number(value)?);
            iterator.next();
        }
        iterator.status().map_err(fault)
    }
}

/// A transaction that writes.
struct Writing<'a, D>(View<'a, Transaction<'a, D>>);

impl<D: Kind> Attempt for Writing<'_, D> {
    const READS_TOGETHER: bool = true;

    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        self.0.get(table, key)
    }

    fn get_many(&mut self, table: Table, keys: &[u64], seen: impl FnMut(Option<u64>)) -> Tried<()> {
        self.0.get_many(table, keys, seen)
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        let family = self.0.families[table.index()];
        self.0.on.put_cf(&family, key.to_be_bytes(), value.to_le_bytes()).map_err(fault)
    }

    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        let (family, key_bytes) = (self.0.families[table.index()], key.to_be_bytes());
        let old = self.0.on.get_pinned_for_update_cf_opt(&family, key_bytes, true, &self.0.options);
        let Some(old) = old.map_err(fault)? else { return Ok(None) };
        let new = number(&old)?.wrapping_add(delta);
        self.update(table, key, new)?;
        Ok(Some(new))
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()> {
        self.0.scan(table, from, rows, seen)
    }
}
