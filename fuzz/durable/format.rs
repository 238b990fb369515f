//! The formats of `docs/design`, stated a second time. The functions write whatever they are given. By default,
//! lengths and checksums are right, although the contents need not be.

use super::input::Input;
use crc32c::{crc32c, crc32c_append};

/// The identity of the database whose files the readers are told to expect.
pub const DATABASE: u128 = 1;

pub fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The first 32 bytes of every file except a segment. [`seal`] makes the checksum.
pub fn head(input: &mut Input<'_>, magic: &[u8; 8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend((input.mostly(1) as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(u128::from(input.mostly(DATABASE as u64)).to_le_bytes());
    bytes
}

/// Puts the checksum into its place after magic and version.
pub fn seal(input: &mut Input<'_>, bytes: &mut [u8]) -> u32 {
    let right = crc32c_append(crc32c(&bytes[..12]), &bytes[16..]);
    let checksum = input.mostly(right.into()) as u32;
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The catalog entry of a table, or any bytes.
pub fn catalog_entry(input: &mut Input<'_>, table: u64) -> Vec<u8> {
    if input.is_rare() {
        return input.bytes(40).to_vec();
    }
    let mut bytes = Vec::new();
    push_varint(&mut bytes, input.mostly(table));
    bytes.push(if input.is_rare() { input.byte() } else { (table % 2) as u8 });
    push_varint(&mut bytes, 1);
    bytes.push(b'a' + (table % 26) as u8);
    for _ in 0..2 {
        let text = input.bytes(6);
        push_varint(&mut bytes, input.mostly(text.len() as u64));
        bytes.extend(text);
    }
    push_varint(&mut bytes, input.mostly(0));
    bytes
}

/// A key of a table. It has eight bytes if the table's number is odd, as the table's catalog entry says.
fn key(input: &mut Input<'_>, table: u64) -> Vec<u8> {
    match (table % 2, input.is_rare()) {
        (1, false) => input.below(8).to_be_bytes().to_vec(),
        _ => input.bytes(20).to_vec(),
    }
}

/// The body of a commit in a database with this many tables: changes, or any bytes.
pub fn changes(input: &mut Input<'_>, tables: u64) -> Vec<u8> {
    if input.is_rare() {
        return input.bytes(60).to_vec();
    }
    let mut bytes = Vec::new();
    for _ in 0..input.below(6) {
        let table = input.below(tables.max(1));
        push_varint(&mut bytes, input.mostly(table));
        let (key, value) = (key(input, table), input.bytes(30));
        push_varint(&mut bytes, input.mostly(key.len() as u64));
        bytes.extend(key);
        if input.below(4) == 0 {
            push_varint(&mut bytes, 0);
        } else {
            push_varint(&mut bytes, input.mostly(value.len() as u64 + 1));
            bytes.extend(value);
        }
    }
    bytes
}

/// The body of a block of rows, or any bytes, and the number of its rows.
pub fn rows(input: &mut Input<'_>, table: u64) -> (Vec<u8>, u64) {
    let count = input.below(8);
    if input.is_rare() {
        return (input.bytes(60).to_vec(), count);
    }
    let mut bytes = Vec::new();
    for _ in 0..count {
        let (key, value) = (key(input, table), input.bytes(30));
        if table.is_multiple_of(2) {
            push_varint(&mut bytes, input.mostly(key.len() as u64));
        }
        bytes.extend(key);
        push_varint(&mut bytes, input.mostly(value.len() as u64));
        bytes.extend(value);
    }
    (bytes, count)
}

/// A place in the log, which the next segment or record must continue.
#[derive(Clone, Copy)]
pub struct Place {
    pub lsn: u64,
    pub chain: u32,
}

/// The header of a segment whose file has this length.
pub fn segment_header(input: &mut Input<'_>, number: u64, place: Place, len_bytes: u64) -> Vec<u8> {
    let mut bytes = head(input, b"BRAIDLOG");
    bytes.extend(input.mostly(number).to_le_bytes());
    bytes.extend(input.mostly(place.lsn).to_le_bytes());
    bytes.extend((input.mostly(place.chain.into()) as u32).to_le_bytes());
    bytes.resize(56, 0);
    bytes.extend(input.mostly(len_bytes).to_le_bytes());
    seal(input, &mut bytes);
    bytes.resize(512, 0);
    bytes
}

/// A record that continues at `place`. Moves `place` behind the record.
pub fn record(input: &mut Input<'_>, place: &mut Place, segment_lsn: u64, tables: &mut u64) -> Vec<u8> {
    let kind = match input.byte() % 16 {
        0..3 => 2,
        3..15 => {
            if *tables == 0 {
                2
            } else {
                1
            }
        }
        _ => input.byte(),
    };
    let body = match kind {
        2 => {
            *tables += 1;
            catalog_entry(input, *tables - 1)
        }
        _ => changes(input, *tables),
    };
    let run = if input.below(3) == 0 { place.lsn.saturating_sub(segment_lsn) } else { 0 };
    let mut bytes = vec![0; 4];
    bytes.extend((input.mostly(body.len() as u64) as u32).to_le_bytes());
    bytes.extend((input.mostly(crc32c(&body).into()) as u32).to_le_bytes());
    bytes.extend((input.mostly(place.chain.into()) as u32).to_le_bytes());
    bytes.extend((input.mostly(run) as u32).to_le_bytes());
    let timestamp = input.below(200);
    bytes.extend(input.mostly(timestamp).to_le_bytes());
    bytes.extend([kind, 0, 0, 0]);
    let mut belongs = DATABASE.to_le_bytes().to_vec();
    belongs.extend(place.lsn.to_le_bytes());
    let right = crc32c_append(crc32c(&belongs), &bytes[4..]);
    let checksum = input.mostly(right.into()) as u32;
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend(body);
    *place = Place { lsn: place.lsn.wrapping_add(bytes.len() as u64), chain: checksum };
    bytes
}

/// What a manifest says of a file of rows: checkpoint, part, rows, blocks, bytes, checksum of the footer.
pub type Promise = (u64, u64, u64, u64, u64, u32);

/// A file of rows.
pub fn rows_file(input: &mut Input<'_>, checkpoint: u64, table: u64, part: u64) -> (Vec<u8>, Promise) {
    let mut bytes = head(input, b"BRAIDROW");
    bytes.extend(input.mostly(checkpoint).to_le_bytes());
    bytes.extend((input.mostly(table) as u32).to_le_bytes());
    bytes.extend([(table % 2) as u8, 0, 0, 0]);
    bytes.extend((input.mostly(part) as u32).to_le_bytes());
    bytes.resize(64, 0);
    let mut previous = seal(input, &mut bytes);
    let belongs = |offset: usize| {
        let mut place = DATABASE.to_le_bytes().to_vec();
        place.extend(checkpoint.to_le_bytes());
        place.extend((table as u32).to_le_bytes());
        place.extend((part as u32).to_le_bytes());
        place.extend((offset as u64).to_le_bytes());
        crc32c(&place)
    };
    let (mut footer, mut row_count, blocks) = (Vec::new(), 0, input.below(4));
    for _ in 0..blocks {
        let (body, rows) = rows(input, table);
        let mut header = vec![0; 4];
        header.extend((input.mostly(body.len() as u64) as u32).to_le_bytes());
        header.extend((input.mostly(rows) as u32).to_le_bytes());
        header.extend((input.mostly(crc32c(&body).into()) as u32).to_le_bytes());
        header.extend((input.mostly(previous.into()) as u32).to_le_bytes());
        previous = crc32c_append(belongs(bytes.len()), &header[4..]);
        header[..4].copy_from_slice(&previous.to_le_bytes());
        footer.extend(&header[4..8]);
        footer.extend(&header[8..12]);
        footer.extend(previous.to_le_bytes());
        row_count += rows;
        bytes.extend(header);
        bytes.extend(body);
    }
    let checksum = crc32c_append(belongs(bytes.len()), &footer);
    bytes.extend(footer);
    let len = bytes.len() as u64;
    (bytes, (checkpoint, part, row_count, blocks, len, checksum))
}

/// A manifest of these tables, or with any bytes in their place.
pub fn manifest(input: &mut Input<'_>, number: u64, log: (u64, u64), tables: &[Vec<Promise>]) -> Vec<u8> {
    let mut bytes = head(input, b"BRAIDCKP");
    bytes.extend(input.mostly(number).to_le_bytes());
    bytes.extend(input.mostly(log.0).to_le_bytes());
    bytes.extend(input.mostly(log.1).to_le_bytes());
    bytes.extend(input.mostly(200).to_le_bytes());
    bytes.extend((input.mostly(tables.len() as u64) as u32).to_le_bytes());
    if input.is_rare() {
        bytes.extend(input.bytes(80));
    }
    for (table, promises) in tables.iter().enumerate() {
        let entry = catalog_entry(input, table as u64);
        push_varint(&mut bytes, input.mostly(entry.len() as u64));
        bytes.extend(entry);
        push_varint(&mut bytes, input.mostly(promises.len() as u64));
        for (checkpoint, part, rows, blocks, len_bytes, checksum) in promises {
            let from = vec![input.mostly(*part) as u8; *part as usize];
            push_varint(&mut bytes, input.mostly(from.len() as u64));
            bytes.extend(from);
            for number in [checkpoint, part, rows, blocks, len_bytes] {
                push_varint(&mut bytes, input.mostly(*number));
            }
            bytes.extend((input.mostly((*checksum).into()) as u32).to_le_bytes());
        }
    }
    seal(input, &mut bytes);
    bytes
}
