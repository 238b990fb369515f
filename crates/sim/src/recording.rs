//! A transaction whose operations are recorded. A row holds a number of the workload in its high bits and the tag of
//! the write in its low bits. All values therefore differ, and the workload need not take care of it.

use crate::attempts::Attempts;
use crate::leak::Leaks;
use crate::ledger::Ledger;
use crate::record::{Operation, Outcome, Tag};
use braiddb::{ConcurrencyControl, Database, Error, Result, Table, Txn, Value};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::PoisonError;

/// A table whose rows can be recorded. A workload has at most one, because keys are recorded without their table.
pub type Rows = Table<u64, u64>;
/// A table of lists.
pub type Lists = Table<u64, [u8]>;

/// The session of the transaction that loads the first rows. No worker and no observer has it.
const LOADER_SESSION: u32 = 1 << 31;

/// A transaction, and the attempts that record its operations.
pub struct Recording<'t, C: ConcurrencyControl> {
    tx: &'t Txn<C>,
    attempts: &'t Attempts,
    leaks: Option<&'t Leaks>,
}

impl<C: ConcurrencyControl> fmt::Debug for Recording<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attempts.fmt(f)
    }
}

fn stored(number: u32, tag: Tag) -> u64 {
    u64::from(number) << 32 | u64::from(tag)
}

fn tag_in(value: u64) -> Tag {
    value as u32
}

fn number_in(value: u64) -> u32 {
    (value >> 32) as u32
}

impl<'t, C: ConcurrencyControl> Recording<'t, C> {
    pub(crate) fn new(tx: &'t Txn<C>, attempts: &'t Attempts) -> Self {
        Recording { tx, attempts, leaks: None }
    }

    /// Returns this recording, which now also leaks operations beside the recorded ones.
    pub(crate) fn leaking(self, leaks: Option<&'t Leaks>) -> Self {
        Recording { leaks, ..self }
    }

    /// May leak an operation on the same row as the next recorded operation.
    async fn leak<V: Value + ?Sized>(&self, table: Table<u64, V>, key: u64) {
        if let Some(leaks) = self.leaks {
            leaks.read(self.tx, table, key).await;
        }
    }

    /// Returns the transaction itself. Operations through it are not recorded.
    pub fn tx(&self) -> &'t Txn<C> {
        self.tx
    }

    fn note(&self, operation: Operation, seen: u64) {
        self.attempts.ledger().note(seen);
        self.attempts.operation(operation, self.tx.snapshot_timestamp());
    }

    /// Returns the number in a row.
    pub async fn get(&self, rows: Rows, key: u64) -> Result<Option<u32>> {
        self.leak(rows, key).await;
        let value = self.tx.get(rows, key).await?;
        self.note(Operation::Get { key, tag: value.map(tag_in) }, value.unwrap_or(0));
        Ok(value.map(number_in))
    }

    /// Returns the numbers in two rows, read concurrently.
    pub async fn get_both(&self, rows: Rows, keys: [u64; 2]) -> Result<[Option<u32>; 2]> {
        self.leak(rows, keys[0]).await;
        let values = self.tx.get_many(rows, &keys).await?;
        for (key, value) in keys.into_iter().zip(values) {
            self.note(Operation::Get { key, tag: value.map(tag_in) }, value.unwrap_or(0));
        }
        Ok(values.map(|value| value.map(number_in)))
    }

    /// Writes a row.
    pub async fn put(&self, rows: Rows, key: u64, number: u32) -> Result<()> {
        let tag = self.attempts.ledger().next_tag();
        self.leak(rows, key).await;
        self.tx.put(rows, key, stored(number, tag)).await?;
        self.note(Operation::Put { key, tag }, key);
        Ok(())
    }

    /// Inserts a row. Returns false if there was one.
    pub async fn insert(&self, rows: Rows, key: u64, number: u32) -> Result<bool> {
        let tag = self.attempts.ledger().next_tag();
        self.leak(rows, key).await;
        let tag = match self.tx.insert(rows, key, stored(number, tag)).await {
            Ok(()) => Some(tag),
            Err(Error::KeyExists) => None,
            Err(error) => return Err(error),
        };
        self.note(Operation::Insert { key, tag }, key);
        Ok(tag.is_some())
    }

    /// Deletes a row. Returns false if there was none.
    pub async fn delete(&self, rows: Rows, key: u64) -> Result<bool> {
        self.leak(rows, key).await;
        let existed = self.tx.delete(rows, key).await?;
        self.note(Operation::Delete { key, existed }, key);
        Ok(existed)
    }

    /// Looks at the number in a row when the transaction commits, and leaves the row unchanged. If `look`
    /// returns an error, the commit fails.
    pub fn look_at_commit(
        &self,
        rows: Rows,
        key: u64,
        look: impl FnOnce(Option<u32>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let looked = self.attempts.looked().clone();
        self.tx.update_at_commit(rows, key, move |value, _| {
            looked.lock().unwrap_or_else(PoisonError::into_inner).push((key, value.map(tag_in)));
            look(value.map(number_in))
        })
    }

    /// Returns the rows between two keys with their numbers, in the order of their keys however they are scanned.
    pub async fn scan(
        &self,
        rows: Rows,
        range: RangeInclusive<u64>,
        is_reverse: bool,
    ) -> Result<Vec<(u64, u32)>> {
        let (from, to) = (*range.start(), *range.end());
        self.leak(rows, from).await;
        let scan = self.tx.scan::<_, _, u64>(rows, range);
        let mut scan = if is_reverse { scan.reverse() } else { scan };
        let mut found = Vec::new();
        while let Some(row) = scan.next().await? {
            found.push(row);
        }
        if is_reverse {
            found.reverse();
        }
        let tags = found.iter().map(|&(key, value)| (key, tag_in(value))).collect();
        self.note(Operation::Scan { from, to, rows: tags }, found.len() as u64);
        Ok(found.into_iter().map(|(key, value)| (key, number_in(value))).collect())
    }

    /// Returns the elements of a list. They are empty if there is no list.
    pub async fn list(&self, lists: Lists, key: u64) -> Result<Vec<Tag>> {
        let elements = self.elements(lists, key).await?;
        self.note(Operation::List { key, elements: elements.clone() }, elements.len() as u64);
        Ok(elements)
    }

    /// Adds an element to a list, and returns it.
    pub async fn append(&self, lists: Lists, key: u64) -> Result<Tag> {
        let tag = self.attempts.ledger().next_tag();
        let mut elements = self.elements(lists, key).await?;
        elements.push(tag);
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        self.tx.put(lists, key, &bytes).await?;
        self.note(Operation::Append { key, tag }, elements.len() as u64);
        Ok(tag)
    }

    async fn elements(&self, lists: Lists, key: u64) -> Result<Vec<Tag>> {
        self.leak(lists, key).await;
        let bytes = self.tx.get(lists, key).await?.unwrap_or(&[]);
        let (elements, rest) = bytes.as_chunks();
        self.attempts.ledger().check(rest.is_empty(), || format!("list {key} holds {} bytes", bytes.len()));
        Ok(elements.iter().map(|element| Tag::from_le_bytes(*element)).collect())
    }
}

/// Loads a workload's first rows, in one recorded transaction before all others.
pub fn load<C: ConcurrencyControl>(
    database: &Database<C>,
    ledger: &Ledger,
    mut rows: impl AsyncFnMut(&Recording<'_, C>) -> Result<()>,
) -> Result<()> {
    // On a worker, because a worker reports the commit timestamp.
    let (mut worker, attempts) = (database.worker(), Attempts::new(ledger, LOADER_SESSION));
    worker.run(async |tx| {
        attempts.begin();
        rows(&Recording::new(tx, &attempts)).await
    })?;
    attempts.end(Outcome::Committed);
    ledger.stamp_last(worker.last_commit_timestamp());
    Ok(())
}
