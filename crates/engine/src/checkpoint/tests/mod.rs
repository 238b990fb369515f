#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;

use super::*;
use crate::storage::{MemoryStorage, OpenMode, Storage};
use crate::wal::{DatabaseId, Lsn};
use std::collections::BTreeSet;
use std::io::ErrorKind;

const DATABASE: DatabaseId = DatabaseId(0x1234_5678_9abc_def0);

type Row = (Vec<u8>, Vec<u8>);

fn memory() -> MemoryStorage {
    MemoryStorage::new(1 << 24)
}

/// Returns rows with keys of eight bytes or of any length. Some are longer than a block.
fn rows(count: u64, fixed8: bool) -> Vec<Row> {
    let key = |i: u64| if fixed8 { i.to_be_bytes().to_vec() } else { vec![i as u8; i as usize % 300] };
    (0..count).map(|i| (key(i), vec![i as u8 ^ 0x55; (i * 37 % 600) as usize])).collect()
}

fn write(storage: &dyn Storage, checkpoint: u64, table: u32, fixed8: bool, rows: &[Row]) -> RowsFile {
    write_part(storage, RowsOf { checkpoint, table, part: 0 }, fixed8, rows)
}

fn write_part(storage: &dyn Storage, of: RowsOf, fixed8: bool, rows: &[Row]) -> RowsFile {
    let mut writer = RowsWriter::create(storage, DATABASE, of, fixed8).unwrap();
    for (key, value) in rows {
        writer.push(key, value).unwrap();
    }
    writer.finish().unwrap()
}

/// Reads all rows of a file, block by block.
fn read_rows(storage: &dyn Storage, file: &RowsFile, fixed8: bool) -> Result<Vec<Row>> {
    rows_of(&RowsReader::open(storage, DATABASE, file, fixed8)?)
}

fn rows_of(reader: &RowsReader) -> Result<Vec<Row>> {
    let (mut block, mut found) = (Block::new(), Vec::new());
    for number in 0..reader.blocks() {
        reader.read_block(number, &mut block)?;
        found.extend(block.rows().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    Ok(found)
}

/// Returns a table whose rows, if there are any, are in this file.
fn table(number: u32, fixed8: bool, file: Option<RowsFile>) -> TableEntry {
    let (name, key_type) = (format!("table {number}"), "u64".to_string());
    let value_type = "bytes, ä".to_string();
    let table = CatalogEntry { number, fixed8, name, key_type, value_type, ..CatalogEntry::default() };
    let ranges = file.into_iter().map(|file| RowsRange { from: Vec::new(), file }).collect();
    TableEntry { table, ranges }
}

fn manifest(number: u64, tables: Vec<TableEntry>) -> Manifest {
    Manifest { number, start_lsn: Lsn(number / 2), end_lsn: Lsn(number), timestamp: !number, tables }
}

fn contents(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = storage.open(name, OpenMode::ReadWrite).unwrap();
    file.truncate(0).unwrap();
    file.write_all_at(0, bytes).unwrap();
}

/// Proves that rows come back as they were pushed, whatever their number and lengths, and that the writer reports
/// what it writes.
#[test]
fn rows_round_trip() {
    let storage = memory();
    let mut blocks = BTreeSet::new();
    for (checkpoint, (count, fixed8)) in
        [(0, true), (0, false), (1, true), (1, false), (2, false), (500, true), (500, false)]
            .into_iter()
            .enumerate()
    {
        let rows = rows(count, fixed8);
        let file = write(&storage, checkpoint as u64, 3, fixed8, &rows);
        assert_eq!((file.checkpoint, file.table, file.rows), (checkpoint as u64, 3, count));
        assert_eq!(file.bytes, contents(&storage, &file.name().to_string()).len() as u64);
        assert_eq!(read_rows(&storage, &file, fixed8).unwrap(), rows);
        blocks.insert(file.blocks);
    }
    assert!(blocks.len() >= 4 && blocks.contains(&0), "{blocks:?}");
    let mut writer =
        RowsWriter::create(&storage, DATABASE, RowsOf { checkpoint: 1, table: 4, part: 0 }, true).unwrap();
    let written: u64 = (0..100u64).map(|i| writer.push(&i.to_be_bytes(), &[1; 8]).unwrap()).sum();
    let file = writer.finish().unwrap();
    assert!(written > 0 && written < file.bytes && file.blocks > 5);
}

/// Proves that several threads read the blocks of a file at once, and that memory is used again.
#[test]
fn blocks_are_read_independently() {
    let storage = memory();
    let rows = rows(300, false);
    let file = write(&storage, 1, 1, false, &rows);
    let reader = RowsReader::open(&storage, DATABASE, &file, false).unwrap();
    // Each thread reads from its last block to its first, so that long and short blocks follow each other in other
    // orders.
    let read_all_from = |first: usize| -> Vec<(usize, Vec<Row>)> {
        let mut block = Block::new();
        let mut read = |number: usize| {
            reader.read_block(number as u64, &mut block).unwrap();
            assert_eq!(block.rows().len(), block.rows().count());
            block.rows().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
        };
        (first..file.blocks as usize).step_by(2).rev().map(|number| (number, read(number))).collect()
    };
    let mut parts = std::thread::scope(|scope| {
        let odd = scope.spawn(|| read_all_from(1));
        let even = read_all_from(0);
        [even, odd.join().unwrap()].concat()
    });
    parts.sort_by_key(|(number, _)| *number);
    let found: Vec<Row> = parts.into_iter().flat_map(|(_, rows)| rows).collect();
    assert_eq!(found, rows);
}

/// Proves that further parts of a catalog entry and of a manifest are skipped if their kind allows that, and are
/// refused otherwise.
#[test]
fn further_parts() {
    let entry = table(3, true, None).table;
    let mut plain = Vec::new();
    entry.encode(&mut plain);
    assert_eq!(plain.pop(), Some(0), "the number of parts comes last");
    for (parts, is_good) in [
        (&[0u8][..], true),
        (&[1, 128, 0], true),
        (&[2, 255, 3, 1, 2, 3, 128, 1, 0], true),
        (&[1, 127, 0], false),
        (&[2, 1, 1, b'x', 1, 1, b'y'], false),
        (&[1, 1, 1, 0xff], false),
        (&[2, 2, 1, b'x', 2, 1, b'y'], false),
        (&[2, 128, 0, 6, 1, 9], false),
        (&[1, 4, 1, b'x'], false),
        (&[2, 5, 0, 5, 0], false),
        (&[1, 3, 1, 0xff], false),
        (&[1, 128, 2, 0], false),
        (&[1], false),
        (&[0, 0], false),
        (&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1], false),
    ] {
        let bytes = [&plain, parts].concat();
        assert_eq!(CatalogEntry::decode(&bytes), is_good.then(|| entry.clone()), "{parts:?}");
        let (storage, manifest) = (memory(), manifest(4, vec![table(6, false, None)]));
        publish(&storage, DATABASE, &manifest).unwrap();
        let mut bytes = contents(&storage, &Manifest::file(4));
        assert_eq!(bytes.pop(), Some(0), "the number of parts comes last");
        bytes.extend_from_slice(parts);
        super::format::seal(&mut bytes);
        replace(&storage, &Manifest::file(4), &bytes);
        assert_eq!(read(&storage, DATABASE, 4).ok(), is_good.then_some(manifest), "{parts:?}");
    }
}

/// Proves that a manifest comes back as it was, is listed, and leaves nothing under a temporary name.
#[test]
fn manifests_round_trip() {
    let storage = memory();
    assert_eq!((list(&storage).unwrap(), number_next(&storage).unwrap()), (vec![], 1));
    let file = write(&storage, 2, 5, true, &rows(9, true));
    assert_eq!(number_next(&storage).unwrap(), 3, "an unfinished checkpoint has its number too");
    let mut many = table(5, true, Some(file));
    for (part, from) in [(1, vec![0]), (2, vec![0, 1]), (u32::MAX, vec![7; 300])] {
        let of = RowsOf { checkpoint: 2, table: 5, part };
        many.ranges.push(RowsRange { from, file: write_part(&storage, of, true, &rows(2, true)) });
    }
    let tables = vec![table(4, true, None), many, table(u32::MAX, false, None)];
    for manifest in [manifest(3, tables), manifest(12, vec![])] {
        publish(&storage, DATABASE, &manifest).unwrap();
        assert_eq!(read(&storage, DATABASE, manifest.number).unwrap(), manifest);
    }
    assert_eq!((list(&storage).unwrap(), number_next(&storage).unwrap()), (vec![3, 12], 13));
    assert!(matches!(read(&storage, DATABASE, 4), Err(Error::Storage(e)) if e.kind() == ErrorKind::NotFound));
    assert_eq!(unneeded(&storage, &[]).unwrap().len(), 6);
    let last = manifest(u64::MAX, vec![]);
    publish(&storage, DATABASE, &last).unwrap();
    assert!(matches!(number_next(&storage), Err(Error::Damaged { .. })));
}

/// Proves that a manifest is refused if its ranges leave keys out, overlap, or belong to another table.
#[test]
fn unsound_ranges_are_refused() {
    let storage = memory();
    let part = |part| write_part(&storage, RowsOf { checkpoint: 1, table: 5, part }, true, &rows(3, true));
    let (first, second) = (part(0), part(1));
    let of = |ranges: &[(&[u8], RowsFile)]| {
        let range = |(from, file): &(&[u8], RowsFile)| RowsRange { from: from.to_vec(), file: *file };
        TableEntry { ranges: ranges.iter().map(range).collect(), ..table(5, true, None) }
    };
    assert!(of(&[(b"", first), (b"a", second)]).is_sound(1));
    assert!(!of(&[(b"a", first), (b"b", second)]).is_sound(1), "keys before all ranges");
    assert!(!of(&[(b"", first), (b"", second)]).is_sound(1), "an empty range");
    assert!(!of(&[(b"", first), (b"b", second), (b"a", second)]).is_sound(1), "descending");
    assert!(!of(&[(b"", first)]).is_sound(0), "a file of a later checkpoint");
    assert!(!of(&[(b"", RowsFile { table: 6, ..first })]).is_sound(1), "a file of another table");
}

/// Proves that a table's entry comes back alone, and that bytes that are not exactly one entry are refused.
#[test]
fn catalog_entries_round_trip() {
    for (fixed8, index) in [(true, None), (false, None), (true, Some("btree")), (false, Some(""))] {
        let index = index.map(String::from);
        let front = fixed8.then(|| "hash".to_string());
        let definitions = vec!["user 1: {}".to_string(); if fixed8 { 0 } else { 2 }];
        let (is_cleared, is_dropped) = (fixed8 && index.is_some(), !fixed8 && index.is_some());
        let flags = CatalogEntry { is_cleared, is_dropped, ..table(u32::MAX - 1, fixed8, None).table };
        let columns = vec![("name".to_string(), "string".to_string()); if fixed8 { 1 } else { 2 }];
        let of_table = IndexEntry { name: "by, \"é\": ".into(), is_unique: fixed8, columns };
        let indexes = vec![of_table; if flags.is_dropped { 0 } else { 2 }];
        let entry = CatalogEntry { index, front, definitions, indexes, ..flags };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(CatalogEntry::decode(&bytes), Some(entry));
        assert!((0..bytes.len()).all(|len| CatalogEntry::decode(&bytes[..len]).is_none()));
        bytes.push(0);
        assert_eq!(CatalogEntry::decode(&bytes), None);
    }
}

/// Proves that an identity is made once and found, and that a directory which has lost it, or belongs to others, is
/// no place for a new database.
#[test]
fn identities_round_trip() {
    let storage = memory();
    assert_eq!(Identity::read(&storage).unwrap(), None);
    // What an earlier attempt has left does not matter.
    storage.open("database.new", OpenMode::CreateNew).unwrap().write_all_at(0, &[1; 100]).unwrap();
    assert_eq!(Identity::read(&storage).unwrap(), None);
    let identity = Identity::create(&storage, DATABASE).unwrap();
    assert_eq!(Identity::read(&storage).unwrap(), Some(identity));
    assert_eq!((identity.database, storage.list().unwrap()), (DATABASE, vec!["database".to_string()]));
    let again = Identity::create(&storage, DatabaseId(1));
    assert!(matches!(again, Err(Error::Storage(error)) if error.kind() == ErrorKind::AlreadyExists));
    replace(&storage, "database", b"PostgreSQL 9");
    assert!(matches!(Identity::read(&storage), Err(Error::NotADatabase { .. })));
    for left in [
        "log-00000000000000000001",
        "checkpoint-00000000000000000001",
        "rows-00000000000000000001-0000000001-0000000000",
    ] {
        let storage = memory();
        storage.open("log-1", OpenMode::CreateNew).unwrap();
        assert_eq!(Identity::read(&storage).unwrap(), None);
        storage.open(left, OpenMode::CreateNew).unwrap();
        assert!(matches!(Identity::read(&storage), Err(Error::Damaged { .. })), "{left}");
    }
}

/// Proves that the files that kept checkpoints need stay, including files of older checkpoints, that all other files
/// of checkpoints are removed, and that nothing else is.
#[test]
fn unneeded_files_are_removed() {
    let storage = memory();
    Identity::create(&storage, DATABASE).unwrap();
    let rows = rows(20, true);
    let old = write(&storage, 1, 1, true, &rows);
    let mut manifests = Vec::new();
    for number in 1..=4 {
        let own = write(&storage, number, 2, true, &rows);
        let tables = vec![table(1, true, Some(old)), table(2, true, Some(own))];
        manifests.push(manifest(number, tables));
        publish(&storage, DATABASE, &manifests[number as usize - 1]).unwrap();
    }
    write(&storage, 5, 1, true, &rows);
    for name in ["checkpoint-00000000000000000005.new", "log-00000000000000000001", "rows-1-1-1", "notes.new"]
    {
        storage.open(name, OpenMode::CreateNew).unwrap();
    }
    let keep = &manifests[2..];
    let before = storage.list().unwrap();
    let unneeded = unneeded(&storage, keep).unwrap();
    assert!(unneeded[..2].iter().all(|name| name.starts_with("checkpoint-")), "{unneeded:?}");
    assert_eq!(unneeded.len(), 6);
    remove_unneeded(&storage, keep).unwrap();
    let after = storage.list().unwrap();
    assert!(before.iter().all(|name| after.contains(name) != unneeded.contains(name)));
    for manifest in keep {
        let read = read(&storage, DATABASE, manifest.number).unwrap();
        for table in &read.tables {
            assert_eq!(read_rows(&storage, &table.ranges[0].file, true).unwrap(), rows);
        }
    }
}

/// Proves that a name is used once, and that what cannot be held is refused.
#[test]
fn misuse_is_refused() {
    let storage = memory();
    write(&storage, 1, 1, true, &[]);
    let of = |table| RowsOf { checkpoint: 1, table, part: 0 };
    let again = RowsWriter::create(&storage, DATABASE, of(1), true);
    assert!(matches!(again, Err(Error::Storage(error)) if error.kind() == ErrorKind::AlreadyExists));
    let mut writer = RowsWriter::create(&storage, DATABASE, of(2), true).unwrap();
    let error = writer.push(&[0; 8], &[0; block::BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes_max: 4096, .. }), "{error}");
    writer.push(&[1; 8], &[1; block::BYTES_MAX]).unwrap();
    let file = writer.finish().unwrap();
    let found = read_rows(&storage, &file, true).unwrap();
    assert_eq!(found, [(vec![1; 8], vec![1; block::BYTES_MAX])]);
}
