//! What a checkpoint consists of: the positions in the log that it stands for, the catalog, the files of rows.

use super::error::damaged;
use super::format::{HEAD_BYTES, Name, head, seal, unseal, unseal_of};
use super::{CatalogEntry, Result, files};
use crate::storage::{OpenMode, Storage};
use crate::wal::codec::{pass_parts, push_varint, take, take_varint, u32_at, u64_at};
use crate::wal::{DatabaseId, Lsn};

const MAGIC: [u8; 8] = *b"BRAIDCKP";
/// The head and what has a place of its own; the tables follow.
const FIXED_BYTES: usize = HEAD_BYTES + 36;
/// The longest manifest: a reader holds one in memory, and believes no file that is longer.
const BYTES_MAX: u64 = 1 << 28;

/// A checkpoint: `start_lsn <= end_lsn`, and the tables' numbers ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The checkpoint's number; later ones have higher numbers.
    pub number: u64,
    /// From where on the log is to be replayed over the rows.
    pub start_lsn: Lsn,
    /// How far the log must reach: all that is in the rows lies before.
    pub end_lsn: Lsn,
    /// A timestamp that no commit in the rows exceeds.
    pub timestamp: u64,
    /// All tables.
    pub tables: Vec<TableEntry>,
}

/// A table in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// What it is.
    pub table: CatalogEntry,
    /// Its rows, in files for consecutive ranges of keys; none if it has no rows. The first range begins before all
    /// keys, and `from` ascends.
    pub ranges: Vec<RowsRange>,
}

/// The rows of a table whose keys lie in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsRange {
    /// No key of the range comes before this, in the order of bytes. The range ends where the next one of the table
    /// begins, and the last one behind all keys.
    pub from: Vec<u8>,
    /// The file.
    pub file: RowsFile,
}

/// A finished file of rows: what a manifest says of it, so that no other is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsFile {
    /// The checkpoint for which it was written: that of the manifest, or an older one.
    pub checkpoint: u64,
    /// The table's number.
    pub table: u32,
    /// Which of the files that this checkpoint wrote for the table.
    pub part: u32,
    /// How many rows it has.
    pub rows: u64,
    /// In how many blocks.
    pub blocks: u64,
    /// How long it is.
    pub bytes: u64,
    /// The checksum of its footer, and by way of it of all its blocks.
    pub checksum: u32,
}

impl RowsFile {
    pub(super) fn name(&self) -> Name {
        Name::Rows(self.checkpoint, self.table, self.part)
    }

    /// What the file is called.
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
    /// How many rows the table has.
    pub fn rows(&self) -> u64 {
        self.files().map(|file| file.rows).sum()
    }

    /// Where the ranges begin, but for the first.
    pub fn bounds(&self) -> Vec<&[u8]> {
        self.ranges.iter().skip(1).map(|range| &*range.from).collect()
    }

    /// The files that have them, in the order of keys.
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
        // Grows with what is there, not with what is promised.
        let mut ranges = Vec::new();
        for _ in 0..take_varint(bytes)? {
            ranges.push(RowsRange::take(bytes, table.number)?);
        }
        Some(TableEntry { table, ranges })
    }

    /// Whether what the type says holds, in a checkpoint of this number.
    pub(super) fn is_sound(&self, number: u64) -> bool {
        let ascend = self.ranges.windows(2).all(|pair| pair[0].from < pair[1].from);
        let is_own = |file: &RowsFile| file.table == self.table.number && file.checkpoint <= number;
        ascend && self.ranges.first().is_none_or(|first| first.from.is_empty()) && self.files().all(is_own)
    }
}

impl Manifest {
    /// What the file of the checkpoint of this number is called.
    pub fn file(number: u64) -> String {
        Name::Manifest(number).to_string()
    }

    /// How many rows all tables have.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(TableEntry::rows).sum()
    }

    /// The files that the checkpoint needs: its own, and those of rows.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        let rows = self.tables.iter().flat_map(TableEntry::files).map(RowsFile::name);
        std::iter::once(Name::Manifest(self.number)).chain(rows)
    }

    /// Whether what the type says holds.
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
        // How many further parts follow: there are none yet.
        push_varint(&mut bytes, 0);
        seal(&mut bytes);
        bytes
    }

    /// The manifest, if these bytes, whose checksum is right, are one.
    fn decode(bytes: &[u8]) -> Option<Manifest> {
        let (fixed, mut rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let mut manifest = Manifest {
            number: u64_at(fixed, HEAD_BYTES),
            start_lsn: Lsn(u64_at(fixed, HEAD_BYTES + 8)),
            end_lsn: Lsn(u64_at(fixed, HEAD_BYTES + 16)),
            timestamp: u64_at(fixed, HEAD_BYTES + 24),
            // Grows with what is there, not with what is promised.
            tables: Vec::new(),
        };
        for _ in 0..u32_at(fixed, HEAD_BYTES + 32) {
            manifest.tables.push(TableEntry::take(&mut rest)?);
        }
        pass_parts(&mut rest)?;
        (rest.is_empty() && manifest.is_sound()).then_some(manifest)
    }
}

/// Makes a checkpoint of files that are finished: their names, and the manifest, are durable when this returns. Its
/// number is [`number_next`](super::number_next)'s from before its first file was written.
///
/// After an error the checkpoint may or may not be there after a restart; older ones must be kept. If a sync of the
/// directory failed, names of other files may be lost with it, the log's among them: nothing that is written in the
/// directory is to be trusted any more by this process.
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

/// The numbers of the checkpoints that have been published, the oldest first.
pub fn list(storage: &dyn Storage) -> Result<Vec<u64>> {
    let number = |name| if let Name::Manifest(number) = name { Some(number) } else { None };
    Ok(files::names(storage)?.into_iter().filter_map(number).collect())
}

/// The database whose checkpoints are here, by what the newest good manifest says.
pub fn claimed_database(storage: &dyn Storage) -> Option<DatabaseId> {
    list(storage).ok()?.into_iter().rev().find_map(|number| {
        let name = Name::Manifest(number);
        let file = storage.open(&name.to_string(), OpenMode::Read).ok()?;
        unseal(name, &files::read_all(&*file, BYTES_MAX).ok()?, MAGIC).ok()
    })
}

/// The checkpoint of this number and database.
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
