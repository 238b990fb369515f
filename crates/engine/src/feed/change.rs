//! Committed transactions and their changes.

use super::tables::{ChangedTable, TableChange, Tables};
use crate::error::{Error, Result};
use crate::table::{Key, Value, decode_whole};
use crate::wal::{ChangePosition, Record};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A transaction that was committed and is durable, or a change of one table as a whole.
pub struct ChangedTransaction {
    tables: Tables,
    position: ChangePosition,
    commit_timestamp: u64,
    entries: Vec<Entry>,
    /// Keys and values. Values begin at multiples of eight bytes, because some types need it.
    words: Vec<u64>,
}

/// The place of a change.
struct Entry {
    table: u32,
    what: What,
}

enum What {
    /// Its key, and its value if the row exists.
    Row(Range<usize>, Option<Range<usize>>),
    Table(TableChange),
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The changed table, with its name at that place in the log.
    pub table: &'a Arc<ChangedTable>,
    /// The kind of change.
    pub kind: ChangeKind<'a>,
}

/// A change of a row or a table. Each states the new condition, so applying it twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind<'a> {
    /// The row exists, with this value.
    Put {
        /// The encoded key.
        key: &'a [u8],
        /// The encoded value.
        value: &'a [u8],
    },
    /// There is no row under this key.
    Delete {
        /// The encoded key.
        key: &'a [u8],
    },
    /// [`Change::table`] describes the table. It was made, renamed or retyped, or has another version of a type of
    /// its values.
    Described,
    /// All rows that the table had before are gone.
    Cleared,
    /// The table is gone with all its rows.
    Dropped,
}

/// Returns a place for `bytes` more after `at`, on a multiple of eight if `is_aligned`.
fn place(at: &mut usize, bytes: usize, is_aligned: bool) -> Range<usize> {
    let start = if is_aligned { at.next_multiple_of(size_of::<u64>()) } else { *at };
    *at = start + bytes;
    start..*at
}

impl ChangedTransaction {
    /// Returns the changes of a commit, if all their tables are known.
    pub(super) fn of_commit(
        tables: &Tables,
        position: ChangePosition,
        record: &Record<'_>,
    ) -> Option<ChangedTransaction> {
        let (mut entries, mut bytes) = (Vec::with_capacity(record.changes().count()), 0);
        for change in record.changes() {
            tables.get(change.table)?;
            let value = change.value.map(|value| place(&mut bytes, value.len(), true));
            let key = place(&mut bytes, change.key.len(), false);
            entries.push(Entry { table: change.table, what: What::Row(key, value) });
        }
        let mut words = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        let target = words.as_mut_bytes();
        for (change, entry) in record.changes().zip(&entries) {
            let What::Row(key, value) = &entry.what else { continue };
            target[key.clone()].copy_from_slice(change.key);
            if let (Some(place), Some(value)) = (value, change.value) {
                target[place.clone()].copy_from_slice(value);
            }
        }
        let (tables, commit_timestamp) = (tables.clone(), record.commit_timestamp);
        Some(ChangedTransaction { tables, position, commit_timestamp, entries, words })
    }

    /// Returns a change of one table.
    pub(super) fn of_table(
        tables: &Tables,
        position: ChangePosition,
        table: u32,
        changes: Vec<TableChange>,
    ) -> ChangedTransaction {
        debug_assert!(tables.get(table).is_some(), "it was noted");
        let entries = changes.into_iter().map(|change| Entry { table, what: What::Table(change) }).collect();
        ChangedTransaction {
            tables: tables.clone(),
            position,
            commit_timestamp: 0,
            entries,
            words: Vec::new(),
        }
    }

    /// Returns the position after this transaction, from which to continue. Store it together with what was applied.
    pub fn position(&self) -> ChangePosition {
        self.position
    }

    /// Returns the timestamp of the commit. `None` for a change of a table. Of two commits that have written the same
    /// row, the later one's is not smaller. Otherwise it says nothing about the order in which transactions arrive
    /// here.
    pub fn commit_timestamp(&self) -> Option<u64> {
        (self.commit_timestamp > 0).then_some(self.commit_timestamp)
    }

    /// Returns the changes: each row once, as it is after the transaction.
    pub fn changes(&self) -> ChangeIter<'_> {
        ChangeIter { transaction: self, entries: self.entries.iter() }
    }
}

impl<'a> IntoIterator for &'a ChangedTransaction {
    type Item = Change<'a>;
    type IntoIter = ChangeIter<'a>;

    fn into_iter(self) -> ChangeIter<'a> {
        self.changes()
    }
}

impl fmt::Debug for ChangedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = self.entries.len();
        f.debug_struct("ChangedTransaction")
            .field("position", &self.position)
            .field("changes", &changes)
            .finish()
    }
}

/// The changes of a transaction, one after the other.
#[derive(Clone)]
pub struct ChangeIter<'a> {
    transaction: &'a ChangedTransaction,
    entries: std::slice::Iter<'a, Entry>,
}

impl<'a> Iterator for ChangeIter<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let Entry { table, what } = self.entries.next()?;
        let ChangedTransaction { tables, words, .. } = self.transaction;
        let bytes = words.as_bytes();
        let kind = match what {
            What::Row(key, Some(value)) => {
                ChangeKind::Put { key: &bytes[key.clone()], value: &bytes[value.clone()] }
            }
            What::Row(key, None) => ChangeKind::Delete { key: &bytes[key.clone()] },
            What::Table(TableChange::Described) => ChangeKind::Described,
            What::Table(TableChange::Cleared) => ChangeKind::Cleared,
            What::Table(TableChange::Dropped) => ChangeKind::Dropped,
        };
        let table = tables.get(*table).expect("looked up when the transaction was made");
        Some(Change { table, kind })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl fmt::Debug for ChangeIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> Change<'a> {
    /// Decodes the row with these types: its key, and its value, or `None` if the row no longer exists. The outer
    /// `None`: the table as a whole has changed. Returns [`Error::TableMismatch`] unless the table has these types.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let directory = std::env::temp_dir().join(format!("braid-decode-{}", std::process::id()));
    /// # let options = || Options { workers: 1, log_segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&directory, options())?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// let mut changes = db.changes(db.change_position()?)?;
    /// db.transact(|tx| tx.put(names, 1, "Ada"))?;
    /// let transaction = changes.wait_next()?.expect("it is open to be written");
    /// let change = transaction.changes().next().expect("it has changed a row");
    /// assert_eq!(change.table.name, "names");
    /// assert_eq!(change.decode::<u64, str>()?, Some((1, Some("Ada"))));
    /// # drop((changes, db));
    /// # std::fs::remove_dir_all(directory).expect("it was made above");
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn decode<K: Key, V: Value + ?Sized>(&self) -> Result<Option<(K, Option<V::View<'a>>)>> {
        let (key, value) = match self.kind {
            ChangeKind::Put { key, value } => (key, Some(value)),
            ChangeKind::Delete { key } => (key, None),
            ChangeKind::Described | ChangeKind::Cleared | ChangeKind::Dropped => return Ok(None),
        };
        let (key_type, value_type) = (K::type_name(), V::type_name());
        if (&self.table.key_type, &self.table.value_type) != (&key_type, &value_type) {
            let existing = format!("{} → {}", self.table.key_type, self.table.value_type);
            let requested = format!("{key_type} → {value_type}");
            return Err(Error::TableMismatch { name: self.table.name.clone(), existing, requested });
        }
        Ok(Some((decode_whole(key)?, value.map(V::view).transpose()?)))
    }
}
