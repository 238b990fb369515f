//! What is not as it was written is noticed: flipped bits, bytes of other places, arbitrary bytes.

use super::*;

/// A small checkpoint: an identity, a manifest, and a file of rows with several blocks.
struct Small {
    storage: MemoryStorage,
    manifest: Manifest,
    rows: Vec<Row>,
}

const IDENTITY: &str = "database";
const MANIFEST: &str = "checkpoint-00000000000000000002";
const ROWS: &str = "rows-00000000000000000001-0000000007-0000000000";

/// Makes blocks of equal lengths, so that they can be exchanged.
fn small() -> Small {
    let storage = memory();
    Identity::create(&storage, DATABASE).unwrap();
    let rows: Vec<Row> = (0..40u8).map(|i| (vec![i; 8], vec![i + 1; 8])).collect();
    let file = write(&storage, 1, 7, true, &rows);
    assert!(file.blocks >= 3);
    let manifest = manifest(2, vec![table(6, false, None), table(7, true, Some(file))]);
    publish(&storage, DATABASE, &manifest).unwrap();
    Small { storage, manifest, rows }
}

impl Small {
    fn file(&self) -> &RowsFile {
        &self.manifest.tables[1].ranges[0].file
    }

    /// Reads everything. What is found must be what was written.
    fn check(&self) -> Result<()> {
        assert_eq!(Identity::read(&self.storage)?, Some(Identity { database: DATABASE }));
        assert_eq!(read(&self.storage, DATABASE, 2)?, self.manifest);
        assert_eq!(read_rows(&self.storage, self.file(), true)?, self.rows);
        Ok(())
    }

    fn read_planted(&self, planted: Planted) -> Result<Vec<Row>> {
        rows_of(&planted.open(&self.storage, DATABASE, self.file(), true)?)
    }

    /// Returns where the first block's header begins, and the length of the block.
    fn block(&self) -> (usize, usize) {
        let bytes = contents(&self.storage, ROWS);
        (64, 20 + crate::wal::codec::u32_at(&bytes, 64 + 4) as usize)
    }
}

fn is_damaged(result: Result<()>, file: &str) -> bool {
    matches!(result, Err(Error::Damaged { file: found, .. }) if found == file)
}

/// Proves that every flipped bit of every file is noticed, and in which file.
#[test]
fn bit_flips_are_found() {
    let small = small();
    for name in [IDENTITY, MANIFEST, ROWS] {
        let bytes = contents(&small.storage, name);
        let file = small.storage.open(name, OpenMode::ReadWrite).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            for bit in 0..8 {
                file.write_all_at(at as u64, &[byte ^ 1 << bit]).unwrap();
                let found = small.check();
                let is_foreign =
                    matches!(found, Err(Error::NotADatabase { .. })) && name == IDENTITY && at < 8;
                assert!(is_foreign || is_damaged(found, name), "{name} {at} {bit}");
            }
            file.write_all_at(at as u64, &[*byte]).unwrap();
        }
        small.check().unwrap();
    }
}

/// Proves that files that end too early, at any length, or go on for longer, are damaged.
#[test]
fn other_lengths_are_found() {
    let small = small();
    for name in [IDENTITY, MANIFEST, ROWS] {
        let bytes = contents(&small.storage, name);
        for len in 0..bytes.len() {
            replace(&small.storage, name, &bytes[..len]);
            assert!(is_damaged(small.check(), name), "{name} {len}");
        }
        replace(&small.storage, name, &[&bytes[..], &[0]].concat());
        assert!(is_damaged(small.check(), name), "{name} with a byte more");
        replace(&small.storage, name, &bytes);
        small.check().unwrap();
    }
    small.storage.remove(ROWS).unwrap();
    assert!(is_damaged(small.check(), ROWS));
}

/// Proves that exchanged blocks are found, and that the check of their places is needed for it.
#[test]
fn exchanged_blocks_are_found() {
    let small = small();
    let (start, block) = small.block();
    let mut bytes = contents(&small.storage, ROWS);
    let (first, second) = bytes[start..start + 2 * block].split_at_mut(block);
    first.swap_with_slice(second);
    replace(&small.storage, ROWS, &bytes);
    assert!(is_damaged(small.check(), ROWS));
    assert_ne!(small.read_planted(Planted::AnyPlace).unwrap(), small.rows);
}

/// Proves that a wrong byte in a block is found, and that the checksum is needed for it.
#[test]
fn wrong_rows_are_found() {
    let small = small();
    let (start, _) = small.block();
    let mut bytes = contents(&small.storage, ROWS);
    bytes[start + 20] ^= 1;
    replace(&small.storage, ROWS, &bytes);
    assert!(small.check().is_err());
    assert_ne!(small.read_planted(Planted::NoChecksum).unwrap(), small.rows);
}

/// Proves that an earlier file of rows for the same checkpoint and table is not taken for the file that the manifest
/// names, and that the manifest's checksum of it is needed for that.
#[test]
fn stale_rows_are_found() {
    let small = small();
    small.storage.remove(ROWS).unwrap();
    let stale: Vec<Row> =
        small.rows.iter().map(|(key, value)| (key.clone(), vec![value[0] ^ 1; 8])).collect();
    let file = write(&small.storage, 1, 7, true, &stale);
    assert_eq!(RowsFile { checksum: 0, ..file }, RowsFile { checksum: 0, ..*small.file() });
    assert!(is_damaged(small.check(), ROWS));
    assert_eq!(small.read_planted(Planted::StaleRows).unwrap(), stale);
}

/// Proves that files of another database, another checkpoint, another table, and of keys of another kind are refused,
/// and that a later version is told from damage.
#[test]
fn foreign_files_are_refused() {
    let small = small();
    let other = DatabaseId(1);
    assert!(is_damaged(read(&small.storage, other, 2).map(drop), MANIFEST));
    assert!(is_damaged(RowsReader::open(&small.storage, other, small.file(), true).map(drop), ROWS));
    assert!(is_damaged(RowsReader::open(&small.storage, DATABASE, small.file(), false).map(drop), ROWS));
    small.storage.rename(MANIFEST, "checkpoint-00000000000000000003").unwrap();
    assert!(read(&small.storage, DATABASE, 3).is_err());
    small.storage.rename("checkpoint-00000000000000000003", MANIFEST).unwrap();
    let own = *small.file();
    for file in [RowsFile { checkpoint: 2, ..own }, RowsFile { table: 8, ..own }, RowsFile { part: 1, ..own }]
    {
        let name = file.name().to_string();
        small.storage.rename(ROWS, &name).unwrap();
        let opened = RowsReader::open(&small.storage, DATABASE, &file, true);
        assert!(is_damaged(opened.map(drop), &name));
        small.storage.rename(&name, ROWS).unwrap();
    }
    small.check().unwrap();
    for (name, head_bytes) in [(IDENTITY, usize::MAX), (MANIFEST, usize::MAX), (ROWS, 64)] {
        let bytes = contents(&small.storage, name);
        let mut later = bytes.clone();
        later[8] = 9;
        format::seal(&mut later[..head_bytes.min(bytes.len())]);
        replace(&small.storage, name, &later);
        let found = small.check();
        assert!(matches!(found, Err(Error::UnsupportedVersion { version: 9, .. })), "{name}");
        replace(&small.storage, name, &bytes);
    }
}

/// Proves that no bytes make a reader panic or read something else than was written.
#[test]
fn any_bytes_are_read_safely() {
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let small = small();
    for round in 0..6000 {
        let name = [IDENTITY, MANIFEST, ROWS][random(3) as usize];
        let bytes = contents(&small.storage, name);
        let mut changed = bytes.clone();
        let start = random(bytes.len() as u64) as usize;
        let end = bytes.len().min(start + 1 + random(100) as usize);
        let below = if round % 2 == 0 { 256 } else { 3 };
        changed[start..end].iter_mut().for_each(|byte| *byte = random(below) as u8);
        // Some mutations get right checksums, so that what lies behind the checksums is reached.
        let head_bytes = if name == ROWS { 64 } else { changed.len() };
        let is_sealed = round % 3 == 0;
        if is_sealed {
            format::seal(&mut changed[..head_bytes]);
        }
        if round % 5 == 0 {
            changed.truncate(start);
        }
        replace(&small.storage, name, &changed);
        if !is_sealed || name == ROWS {
            assert_eq!(small.check().is_ok(), changed == bytes, "round {round}");
        } else {
            let manifest = read(&small.storage, DATABASE, 2);
            let _ = (Identity::read(&small.storage), manifest);
        }
        // Without their checksums, lengths and rows are whatever they happen to be.
        let _ = (small.read_planted(Planted::NoChecksum), small.read_planted(Planted::StaleRows));
        replace(&small.storage, name, &bytes);
        let noise: Vec<u8> = (0..random(80)).map(|_| random(below) as u8).collect();
        let rows = random(10) as u32;
        if block::is_rows(&noise, rows, false) {
            assert_eq!(block::Rows::new(&noise, rows, false).count(), rows as usize);
        }
        assert!(CatalogEntry::decode(&noise).is_none_or(|entry| entry.name.len() < noise.len()));
    }
    small.check().unwrap();
}

/// Proves that a manifest that promises more than there is costs no more memory than the file is long: lengths and
/// counts are compared with the existing bytes before anything is reserved.
#[test]
fn promises_are_not_believed() {
    let small = small();
    let bytes = contents(&small.storage, MANIFEST);
    for at in 32..bytes.len() {
        for value in [0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            let end = bytes.len().min(at + 4);
            changed[at..end].fill(value);
            format::seal(&mut changed);
            replace(&small.storage, MANIFEST, &changed);
            let Ok(found) = read(&small.storage, DATABASE, 2) else { continue };
            for file in found.tables.iter().flat_map(TableEntry::files) {
                if let Ok(reader) = RowsReader::open(&small.storage, DATABASE, file, true) {
                    assert!(reader.blocks() * 32 <= file.bytes);
                }
            }
        }
    }
    for huge in [1 << 40, u64::MAX / 12, u64::MAX] {
        let file = RowsFile { blocks: huge, ..*small.file() };
        assert!(is_damaged(RowsReader::open(&small.storage, DATABASE, &file, true).map(drop), ROWS));
        assert!(Planted::StaleRows.open(&small.storage, DATABASE, &file, true).is_err());
    }
    let file = small.storage.open(MANIFEST, OpenMode::Read).unwrap();
    assert!(is_damaged(files::read_all(&*file, bytes.len() as u64 - 1).map(drop), MANIFEST));
}
