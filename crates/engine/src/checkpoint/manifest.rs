//! What a checkpoint consists of: the positions in the log that it stands for, the catalog, and the files of rows.

use super::error::damaged;
use super::format::{HEAD_BYTES, Name, head, seal, unseal, unseal_of};
use super::{CatalogEntry, Result, files};
use crate::storage::{OpenMode, Storage};
use crate::wal::codec::{pass_parts, push_varint, take, take_varint, u32_at, u64_at};
use crate::wal::{DatabaseId, Lsn};

const MAGIC: [u8; 8] = *b"BRAIDCKP";
/// The length of the head and of the fields with a fixed place. The tables follow.
const FIXED_BYTES: usize = HEAD_BYTES + 36;
/// The longest manifest. A reader holds a whole manifest in memory, and accepts no longer file.
const BYTES_MAX: u64 = 1 << 28;

/// A checkpoint: `start_lsn <= end_lsn`, and the tables' numbers ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The checkpoint's number. Later checkpoints have higher numbers.
    pub number: u64,
    /// Where replay of the log over the rows starts.
    pub start_lsn: Lsn,
    /// How far the log must reach. Everything in the rows lies before this position.
    pub end_lsn: Lsn,
    /// A timestamp that no commit in the rows exceeds.
    pub timestamp: u64,
    /// All tables.
    pub tables: Vec<TableEntry>,
}

/// A table in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// The table's entry in the catalog.
    pub table: CatalogEntry,
    /// The table's rows, in files for consecutive ranges of keys; empty if it has no rows. The first range begins
    /// before all keys, and `from` ascends.
    pub ranges: Vec<RowsRange>,
}

/// The rows of a table whose keys lie in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsRange {
    /// No key of the range is less than this, in the order of bytes. The range ends where the table's next range
    /// begins; the last range ends behind all keys.
    pub from: Vec<u8>,
    /// The file.
    pub file: RowsFile,
}

/// A finished file of rows. It has what a manifest says of the file, so that no other file is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsFile {
    /// The checkpoint for which the file was written: the manifest's, or an older one.
    pub checkpoint: u64,
    /// The table's number.
    pub table: u32,
    /// The number of the file among those that this checkpoint wrote for the table.
    pub part: u32,
    /// How many rows the file has.
    pub rows: u64,
    /// How many blocks the file has.
    pub blocks: u64,
    /// The file's length.
    pub bytes: u64,
    /// The checksum of the file's footer, and through it of all its blocks.
    pub checksum: u32,
}

impl RowsFile {
    pub(super) fn name(&self) -> Name {
        Name::Rows(self.checkpoint, self.table, self.part)
    }

    /// Returns the name of the file.
    pub fn file(&self) -> String {
        self.name().to_string()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        for number in [self.checkpoint, self.part.into(), self.rows, self.blocks, self.bytes] {
            push_varint(bytes, number);
        }
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
    }

    fn take(bytes: &mut &[u8], table: u32) -> Option<RowsFile> {
        let checkpoint = take_varint(bytes)?;
        let part = u32::try_from(take_varint(bytes)?).ok()?;
        let rows = take_varint(bytes)?;
        let blocks = take_varint(bytes)?;
        let file_bytes = take_varint(bytes)?;
        let checksum = u32_at(take(bytes, 4)?, 0);
        Some(RowsFile { checkpoint, table, part, rows, blocks, bytes: file_bytes, checksum })
    }
}

impl RowsRange {
    fn encode(&self, bytes: &mut Vec<u8>) {
        push_varint(bytes, self.from.len() as u64);
        bytes.extend_from_slice(&self.from);
        self.file.encode(bytes);
    }

    fn take(bytes: &mut &[u8], table: u32) -> Option<RowsRange> {
        let from_bytes = take_varint(bytes)?;
        let from = take(bytes, from_bytes)?.to_vec();
        Some(RowsRange { from, file: RowsFile::take(bytes, table)? })
    }
}

impl TableEntry {
    /// Returns how many rows the table has.
    pub fn rows(&self) -> u64 {
        self.files().map(|file| file.rows).sum()
    }

    /// Returns where the ranges begin, except for the first.
    pub fn bounds(&self) -> Vec<&[u8]> {
        self.ranges.iter().skip(1).map(|range| &*range.from).collect()
    }

    /// Returns the files with the table's rows, in the order of keys.
    pub fn files(&self) -> impl Iterator<Item = &RowsFile> {
        self.ranges.iter().map(|range| &range.file)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut table = Vec::new();
        self.table.encode(&mut table);
        push_varint(bytes, table.len() as u64);
        bytes.extend_from_slice(&table);
        push_varint(bytes, self.ranges.len() as u64);
        self.ranges.iter().for_each(|range| range.encode(bytes));
    }

    fn take(bytes: &mut &[u8]) -> Option<TableEntry> {
        let table_bytes = take_varint(bytes)?;
        let table = CatalogEntry::decode(take(bytes, table_bytes)?)?;
        // The list grows with what exists, not with the count.
        let mut ranges = Vec::new();
        for _ in 0..take_varint(bytes)? {
            ranges.push(RowsRange::take(bytes, table.number)?);
        }
        Some(TableEntry { table, ranges })
    }

    /// Returns true if what the type promises holds, in a checkpoint of this number.
    pub(super) fn is_sound(&self, number: u64) -> bool {
        let ascend = self.ranges.windows(2).all(|pair| pair[0].from < pair[1].from);
        let is_own = |file: &RowsFile| file.table == self.table.number && file.checkpoint <= number;
        ascend && self.ranges.first().is_none_or(|first| first.from.is_empty()) && self.files().all(is_own)
    }
}

impl Manifest {
    /// Returns the name of the manifest's file for the checkpoint of this number.
    pub fn file(number: u64) -> String {
        Name::Manifest(number).to_string()
    }

    /// Returns how many rows all tables have.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(TableEntry::rows).sum()
    }

    /// Returns the files that the checkpoint needs: its own, and the files of rows.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        let rows = self.tables.iter().flat_map(TableEntry::files).map(RowsFile::name);
        std::iter::once(Name::Manifest(self.number)).chain(rows)
    }

    /// Returns true if what the type promises holds.
    fn is_sound(&self) -> bool {
        let ascend = self.tables.windows(2).all(|pair| pair[0].table.number < pair[1].table.number);
        let are_sound = self.tables.iter().all(|entry| entry.is_sound(self.number));
        ascend && self.start_lsn <= self.end_lsn && are_sound
    }

    fn encode(&self, database: DatabaseId) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&head(MAGIC, database));
        for number in [self.number, self.start_lsn.0, self.end_lsn.0, self.timestamp] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let tables = u32::try_from(self.tables.len()).expect("tables have numbers of 32 bits");
        bytes.extend_from_slice(&tables.to_le_bytes());
        debug_assert_eq!(bytes.len(), FIXED_BYTES);
        self.tables.iter().for_each(|table| table.encode(&mut bytes));
        // The number of further parts: there are none yet.
        push_varint(&mut bytes, 0);
        seal(&mut bytes);
        bytes
    }

    /// Decodes the manifest from these bytes, whose checksum is right.
    fn decode(bytes: &[u8]) -> Option<Manifest> {
        let (fixed, mut rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let mut manifest = Manifest {
            number: u64_at(fixed, HEAD_BYTES),
            start_lsn: Lsn(u64_at(fixed, HEAD_BYTES + 8)),
            end_lsn: Lsn(u64_at(fixed, HEAD_BYTES + 16)),
            timestamp: u64_at(fixed, HEAD_BYTES + 24),
            // The list grows with what exists, not with the count.
            tables: Vec::new(),
        };
        for _ in 0..u32_at(fixed, HEAD_BYTES + 32) {
            manifest.tables.push(TableEntry::take(&mut rest)?);
        }
        pass_parts(&mut rest)?;
        (rest.is_empty() && manifest.is_sound()).then_some(manifest)
    }
}

/// Makes a checkpoint of finished files. Their names and the manifest are durable when this returns. The checkpoint's
/// number came from [`number_next`](super::number_next), before the checkpoint's first file was written.
///
/// After an error the checkpoint may or may not exist after a restart, so older checkpoints must be kept. If a sync
/// of the directory failed, names of other files may be lost with it, the log's among them. This process must then
/// trust nothing more that is written in the directory.
pub fn publish(storage: &dyn Storage, database: DatabaseId, manifest: &Manifest) -> Result<()> {
    assert!(
        manifest.is_sound(),
        "tables and ranges ascend, files of rows are their tables' and no newer, and the log goes on"
    );
    let bytes = manifest.encode(database);
    let name = Name::Manifest(manifest.number);
    files::check_bytes(&name.to_string(), bytes.len() as u64, BYTES_MAX)?;
    files::publish_file(storage, Name::NewManifest(manifest.number), name, &bytes)
}

/// Returns the numbers of the published checkpoints, the oldest first.
pub fn list(storage: &dyn Storage) -> Result<Vec<u64>> {
    let number = |name| if let Name::Manifest(number) = name { Some(number) } else { None };
    Ok(files::names(storage)?.into_iter().filter_map(number).collect())
}

/// Returns the database that the newest good manifest names.
pub fn claimed_database(storage: &dyn Storage) -> Option<DatabaseId> {
    list(storage).ok()?.into_iter().rev().find_map(|number| {
        let name = Name::Manifest(number);
        let file = storage.open(&name.to_string(), OpenMode::Read).ok()?;
        unseal(name, &files::read_all(&*file, BYTES_MAX).ok()?, MAGIC).ok()
    })
}

/// Reads the manifest of the checkpoint of this number and database.
pub fn read(storage: &dyn Storage, database: DatabaseId, number: u64) -> Result<Manifest> {
    let name = Name::Manifest(number);
    let file = storage.open(&name.to_string(), OpenMode::Read)?;
    let bytes = files::read_all(&*file, BYTES_MAX)?;
    unseal_of(name, &bytes, MAGIC, database)?;
    let manifest = Manifest::decode(&bytes)
        .ok_or_else(|| damaged(name.to_string(), HEAD_BYTES as u64, "it is no list of tables"))?;
    if manifest.number != number {
        return Err(damaged(name.to_string(), HEAD_BYTES as u64, "it is another checkpoint's"));
    }
    Ok(manifest)
}
