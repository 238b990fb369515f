//! The benchmark's only table, whose records have numbers, and the operations of transactions on it.
//!
//! A record's number becomes its key through a bijective mixer, so neighbors by number are far apart by key. Numbers in
//! ascending order insert in random order, and popular records lie anywhere in the index.

use crate::engine::{Database, Result, Scheme, Txn, failure, mix};
use braiddb::{Error, NewValue, Table, research};

/// The longest key that `--key-bytes` accepts.
pub(crate) const KEY_BYTES_MAX: usize = 64;

/// The table's name.
const TABLE: &str = "usertable";

/// A table whose records have numbers. Operations are those of the engine. With fixed keys, the engine's own future is
/// returned without a wrapper.
pub(crate) trait Access: Copy + Send + Sync {
    /// Reads one record.
    fn get<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>>;
    /// Reads one record through nested coroutines.
    fn get_nested<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>>;
    /// Reads several records by step machines.
    fn get_many<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Reads several records by coroutines.
    fn get_many_coroutines<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Reads several records by nested coroutines.
    fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> impl Future<Output = Result<[Option<&'t [u8]>; N]>>;
    /// Writes a record, whether or not it exists.
    fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>>;
    /// Replaces a record. Returns false if it does not exist.
    fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<bool>>;
    /// Adds one to the first byte of a record when the transaction commits.
    fn increase<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<()>;
    /// Adds a record.
    fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>>;
    /// Looks only into the index. Returns false if the index does not have the key.
    fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<bool>>;
    /// Reads up to `rows` records in key order, starting at a record, and sums their first bytes.
    fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> impl Future<Output = Result<u64>>;
    /// Does the same with rows that are passed to a closure.
    fn scan_each<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize)
    -> impl Future<Output = Result<u64>>;
}

/// Keys of 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct FixedKeys(Table<u64, [u8]>);

impl FixedKeys {
    pub(crate) fn table(self) -> Table<u64, [u8]> {
        self.0
    }
}

/// Longer keys: constant bytes, then the 8 bytes that differ. The prefix of a tenant or a relation would make such
/// keys.
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
pub(crate) fn open_table<C: Scheme>(db: &Database<C>, key_bytes: usize) -> crate::Result<AnyTable> {
    if key_bytes == 8 {
        return Ok(AnyTable::Fixed(FixedKeys(db.table(TABLE).map_err(failure)?)));
    }
    Ok(AnyTable::Long(LongKeys { table: db.table(TABLE).map_err(failure)?, key_bytes }))
}

impl Access for FixedKeys {
    #[inline(always)]
    fn get<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>> {
        tx.get(self.0, mix(number))
    }
    #[inline(always)]
    fn get_nested<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<Option<&[u8]>>> {
        research::get_nested(tx, self.0, mix(number))
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
        research::get_many_coroutines(tx, self.0, &numbers.map(mix)).await
    }
    async fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        research::get_many_nested(tx, self.0, &numbers.map(mix)).await
    }
    #[inline(always)]
    fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>> {
        tx.put(self.0, mix(number), value)
    }
    #[inline(always)]
    fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<bool>> {
        tx.update(self.0, mix(number), value)
    }
    fn increase<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<()> {
        tx.update_at_commit(self.0, mix(number), increased)
    }
    #[inline(always)]
    fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> impl Future<Output = Result<()>> {
        tx.insert(self.0, mix(number), value)
    }
    #[inline(always)]
    fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> impl Future<Output = Result<bool>> {
        research::probe(tx, self.0, mix(number))
    }
    async fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut scan = tx.scan(self.0, mix(number)..).limit(rows);
        let mut sum = 0u64;
        while let Some((_, value)) = scan.next().await? {
            sum = sum.wrapping_add(first(value));
        }
        Ok(sum)
    }

    async fn scan_each<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut sum = 0u64;
        let mut scan = tx.scan(self.0, mix(number)..).limit(rows);
        scan.for_each(|_, value| sum = sum.wrapping_add(first(value))).await?;
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
        research::get_nested(tx, self.table, self.key(number).bytes()).await
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
        research::get_many_coroutines(tx, self.table, &keys.each_ref().map(KeyBuffer::bytes)).await
    }
    async fn get_many_nested<'t, C: Scheme, const N: usize>(
        self,
        tx: &'t Txn<C>,
        numbers: &[u64; N],
    ) -> Result<[Option<&'t [u8]>; N]> {
        let keys = numbers.map(|n| self.key(n));
        research::get_many_nested(tx, self.table, &keys.each_ref().map(KeyBuffer::bytes)).await
    }
    async fn put<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<()> {
        tx.put(self.table, self.key(number).bytes(), value).await
    }
    async fn update<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<bool> {
        tx.update(self.table, self.key(number).bytes(), value).await
    }
    fn increase<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<()> {
        tx.update_at_commit(self.table, self.key(number).bytes(), increased)
    }
    async fn insert<C: Scheme>(self, tx: &Txn<C>, number: u64, value: &[u8]) -> Result<()> {
        tx.insert(self.table, self.key(number).bytes(), value).await
    }
    async fn probe<C: Scheme>(self, tx: &Txn<C>, number: u64) -> Result<bool> {
        research::probe(tx, self.table, self.key(number).bytes()).await
    }
    async fn scan<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut scan = tx.scan(self.table, self.key(number).bytes().to_vec()..).limit(rows);
        let mut sum = 0u64;
        while let Some((_, value)) = scan.next().await? {
            sum = sum.wrapping_add(first(value));
        }
        Ok(sum)
    }

    async fn scan_each<C: Scheme>(self, tx: &Txn<C>, number: u64, rows: usize) -> Result<u64> {
        let mut sum = 0u64;
        let mut scan = tx.scan(self.table, self.key(number).bytes().to_vec()..).limit(rows);
        scan.for_each(|_, value| sum = sum.wrapping_add(first(value))).await?;
        Ok(sum)
    }
}

/// Adds one to the first byte of a value.
pub(super) fn increased(value: Option<&[u8]>, new: NewValue<'_, [u8]>) -> Result<()> {
    let mut bytes = value.ok_or_else(|| Error::user("there is no such record"))?.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first = first.wrapping_add(1);
    }
    new.set(&bytes)
}

/// Returns the first byte of a value, so that a read really touches it.
#[inline(always)]
pub(crate) fn first(value: &[u8]) -> u64 {
    value.first().copied().map_or(0, u64::from)
}
