//! The fuzzer's calls for the readers of durable files. Bytes become the files of a database, which are read as after
//! a crash. Parts of a file are arbitrary bytes. Other parts follow the formats with arbitrary contents, and their
//! lengths and checksums are made valid, because no reader continues after a wrong checksum.
//!
//! No input may make a reader panic, or ask for more memory than the length of the files times a constant.

mod format;
mod input;

use braiddb::checkpoint::{self, Block, CatalogEntry, Identity, RowsReader};
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::testing::PlantedDurability;
use braiddb::wal::{DatabaseId, Lsn, Reader};
use braiddb::{Database, Options, Serializable};
use format::{DATABASE, Place, Promise};
use input::Input;
use std::sync::Arc;

/// Files that are ready to be read.
pub struct Case {
    /// Their total length.
    pub bytes: u64,
    read: Box<dyn FnOnce() -> u64>,
}

impl Case {
    /// Reads the files. Returns the number of good records, blocks or tables.
    pub fn read(self) -> u64 {
        (self.read)()
    }
}

/// Files of a directory, while they are being made.
struct Files {
    storage: MemoryStorage,
    bytes: u64,
}

impl Files {
    fn new() -> Files {
        Files { storage: MemoryStorage::new(1 << 24), bytes: 0 }
    }

    /// Adds a file. Rarely, a part of the file is missing, or a byte is wrong.
    fn add(&mut self, input: &mut Input<'_>, name: &str, mut bytes: Vec<u8>) {
        if input.is_rare() {
            bytes.truncate(usize::from(input.byte()) * 4);
        }
        if input.is_rare() {
            let at = usize::from(input.byte()) << (input.byte() % 4);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (at % 8));
        }
        // Names may repeat if their numbers have no successor.
        let Ok(file) = self.storage.open(name, OpenMode::CreateNew) else { return };
        file.write_all_at(0, &bytes).expect("there is room");
        self.bytes += bytes.len() as u64;
    }

    fn add_identity(&mut self, input: &mut Input<'_>) {
        let bytes = if input.is_rare() {
            input.bytes(200).to_vec()
        } else {
            let mut bytes = format::head(input, b"BRAIDDIR");
            bytes.resize(64, 0);
            format::seal(input, &mut bytes);
            bytes
        };
        self.add(input, "database", bytes);
    }

    /// Adds the segments of a log that begins at `first_lsn` in a database with this many tables. Returns the log's
    /// end.
    fn add_log(&mut self, input: &mut Input<'_>, first_lsn: u64, mut tables: u64) -> u64 {
        let mut place = Place { lsn: first_lsn, chain: 0 };
        let mut number = 1u64.saturating_add(input.position());
        for _ in 0..input.below(4) {
            let (begin, mut records) = (place, Vec::new());
            for _ in 0..input.below(12) {
                records.extend(format::record(input, &mut place, begin.lsn, &mut tables));
            }
            if input.byte().is_multiple_of(4) {
                records.extend(input.bytes(255));
            }
            // Whole sectors, and at least two with the header.
            records.resize(records.len().next_multiple_of(512).max(512), 0);
            let mut bytes = if input.is_rare() {
                input.bytes(255).to_vec()
            } else {
                format::segment_header(input, number, begin, 512 + records.len() as u64)
            };
            bytes.extend(records);
            self.add(input, &format!("log-{number:020}"), bytes);
            number = number.saturating_add(1 + u64::from(input.is_rare()));
        }
        place.lsn
    }

    /// Adds a checkpoint with a file of rows for some of its tables, over this part of the log.
    fn add_checkpoint(&mut self, input: &mut Input<'_>, number: u64, log: (u64, u64), tables: u64) {
        let mut promises: Vec<Vec<Promise>> = Vec::new();
        for table in 0..tables {
            let parts = input.below(4);
            let mut part = |part| {
                let (bytes, promise) = format::rows_file(input, number, table, part);
                self.add(input, &format!("rows-{number:020}-{table:010}-{part:010}"), bytes);
                promise
            };
            promises.push((0..parts).map(&mut part).collect());
        }
        let bytes = if input.is_rare() {
            input.bytes(255).to_vec()
        } else {
            format::manifest(input, number, log, &promises)
        };
        self.add(input, &format!("checkpoint-{number:020}"), bytes);
    }
}

/// Makes a log alone.
pub fn log(bytes: &[u8]) -> Case {
    let mut input = Input::new(bytes);
    let (mut files, first_lsn) = (Files::new(), input.position());
    let end_lsn = files.add_log(&mut input, first_lsn, 0);
    let starts = [0, first_lsn, end_lsn, input.number()].map(Lsn);
    let storage = files.storage;
    let read = move || starts.into_iter().map(|start| read_log(&storage, start)).sum();
    Case { bytes: files.bytes, read: Box::new(read) }
}

fn read_log(storage: &dyn Storage, start: Lsn) -> u64 {
    let Ok(mut reader) = Reader::open(storage, DatabaseId(DATABASE), start) else { return 0 };
    let (mut count, mut end) = (0, start);
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.lsn >= end, "records follow each other");
        assert!(record.end_lsn > record.lsn);
        end = record.end_lsn;
        count += 1;
        let changes: usize = record.changes().map(|change| change.key.len() + 3).sum();
        assert!(changes as u64 <= end.0 - record.lsn.0, "a record holds its changes");
        let _entry = record.catalog().and_then(CatalogEntry::decode);
    }
    if let Ok(tail) = reader.finish() {
        assert!(tail.lsn() >= end, "the log ends behind its records");
    }
    count
}

/// Makes an identity, and checkpoints with their files of rows.
pub fn checkpoints(bytes: &[u8]) -> Case {
    let mut input = Input::new(bytes);
    let mut files = Files::new();
    files.add_identity(&mut input);
    for _ in 0..1 + input.below(3) {
        let tables_max = if input.is_rare() { 200 } else { 5 };
        let (tables, number) = (input.below(tables_max), 1u64.saturating_add(input.position()));
        let log = (input.position(), u64::MAX);
        files.add_checkpoint(&mut input, number, log, tables);
    }
    let storage = files.storage;
    Case { bytes: files.bytes, read: Box::new(move || read_checkpoints(&storage)) }
}

fn read_checkpoints(storage: &dyn Storage) -> u64 {
    let database = DatabaseId(DATABASE);
    let mut good =
        u64::from(matches!(Identity::read(storage), Ok(Some(identity)) if identity.database == database));
    let mut block = Block::new();
    for number in checkpoint::list(storage).expect("it lists") {
        let Ok(manifest) = checkpoint::read(storage, database, number) else { continue };
        assert!(manifest.start_lsn <= manifest.end_lsn);
        for entry in &manifest.tables {
            assert!(entry.ranges.is_sorted_by(|a, b| a.from < b.from), "ranges ascend");
            let fixed8 = entry.table.fixed8;
            for file in entry.files() {
                let Ok(reader) = RowsReader::open(storage, database, file, fixed8) else { continue };
                for number in 0..reader.blocks() {
                    let is_good = reader.read_block(number, &mut block).is_ok();
                    assert!(is_good || block.rows().len() == 0, "a bad block has no rows");
                    assert!(block.rows().all(|(key, _)| !fixed8 || key.len() == 8));
                    assert_eq!(block.rows().count(), block.rows().len());
                    good += u64::from(is_good);
                }
            }
        }
    }
    let _number = checkpoint::number_next(storage);
    good
}

/// Makes a catalog entry of exactly these bytes.
pub fn catalog(bytes: &[u8]) -> Case {
    let mut input = Input::new(bytes);
    let entry = if input.below(2) == 0 { bytes.to_vec() } else { format::catalog_entry(&mut input, 7) };
    let read = move |entry: &[u8]| {
        let Some(found) = CatalogEntry::decode(entry) else { return 0 };
        let mut again = Vec::new();
        found.encode(&mut again);
        assert_eq!(CatalogEntry::decode(&again), Some(found), "an entry is read as it was written");
        1
    };
    Case { bytes: entry.len() as u64, read: Box::new(move || read(&entry)) }
}

/// Makes a whole directory, which is opened as a database.
pub fn directory(bytes: &[u8]) -> Case {
    let mut input = Input::new(bytes);
    let mut files = Files::new();
    if !input.is_rare() {
        files.add_identity(&mut input);
    }
    let (first_lsn, checkpoints) = (input.position(), input.below(3));
    let tables = if checkpoints > 0 { input.below(4) } else { 0 };
    let end_lsn = files.add_log(&mut input, first_lsn, tables);
    let mut number = 1u64.saturating_add(input.position());
    for _ in 0..checkpoints {
        files.add_checkpoint(&mut input, number, (first_lsn, end_lsn), tables);
        number = number.saturating_add(1);
    }
    let (storage, is_extreme) = (files.storage, input.is_extreme);
    Case { bytes: files.bytes, read: Box::new(move || open_twice(Arc::new(storage), is_extreme)) }
}

/// Opens the files twice. If they open once, they must open again, unless their numbers are used up.
fn open_twice(storage: Arc<MemoryStorage>, is_extreme: bool) -> u64 {
    let open = || {
        let options = Options {
            workers: 0,
            log_segment_bytes: 1024,
            log_buffer_bytes: 4096,
            memory_limit_bytes: 64 << 20,
            ..Options::default()
        };
        let clock = Arc::new(SystemClock::default());
        let opened =
            Database::<Serializable>::open_stepped(storage.clone(), options, clock, PlantedDurability::None);
        let (db, stepped) = opened?;
        let recovery = db.recovery().expect("it is durable");
        drop(stepped);
        Ok::<_, braiddb::Error>((recovery.rows, recovery.transactions, recovery.checkpoint))
    };
    let Ok(first) = open() else { return 0 };
    match open() {
        Ok(again) => assert_eq!(again, first, "what was recovered is recovered again"),
        Err(error) => assert!(is_extreme, "{error}"),
    }
    1
}
