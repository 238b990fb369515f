//! Copies a log while another process may be writing it, without any communication between the two.
//!
//! The writer writes one run behind the other, each only when the previous run is whole, and a segment's header
//! before its records. So it is safe to read backwards: if a byte of a run has been seen, every earlier run was whole
//! by then, and is read later.
//!
//! 1. Segments are read from the last to the first, and each segment from its end to its beginning.
//! 2. A chunk is not read at one moment. It is read until two consecutive reads agree. The second read then comes
//!    after everything that the first read has seen.
//! 3. A segment that is taken for another use meanwhile gets its new header first. Its header is read last here. If
//!    the header is still the old one, everything behind it that was read was old, too.

use super::format::{self, Decoded, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::head::{Head, read_header};
use super::{DatabaseId, End, Lsn, Result};
use crate::storage::{File, OpenMode, Storage};
use std::io::ErrorKind;

/// How many bytes are read at once.
const CHUNK_BYTES: u64 = if cfg!(test) { 512 } else { 64 << 10 };

/// How often a chunk is read until two reads agree. The writer changes a chunk only while the log's end is in it.
const READS_MAX: u32 = 1000;

/// Copies the log from `start` on and makes the data durable. The copy ends at or behind the end of what was durable
/// when this began. The caller makes the names durable. Returns false if part of the needed log has been given up
/// meanwhile; the copy is then useless.
pub fn copy(from: &dyn Storage, to: &dyn Storage, database: DatabaseId, start: Lsn) -> Result<bool> {
    let names = from.list()?;
    let mut is_any = false;
    for number in names.iter().rev().filter_map(|name| format::number(name)) {
        let file = match from.open(&format::name(number), OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        // A segment that has not begun holds nothing that was durable when this began.
        let header = match read_header(&*file, database, number)? {
            Head::Begun(header, _) => header,
            Head::Prepared | Head::Bad => continue,
        };
        // When a later segment has begun, this segment has ended.
        let is_changing = !is_any;
        if !copy_segment(&*file, to, database, header, is_changing)? {
            return Ok(false);
        }
        is_any = true;
        if header.first_lsn <= start.0 {
            return Ok(true);
        }
    }
    Ok(start == Lsn(0) && !is_any)
}

/// Cuts off, behind the end of a copied log, the segment in which the log ends. Something else durable must vouch for
/// that end.
pub fn trim(copy: &dyn Storage, database: DatabaseId, end: &End) -> Result<()> {
    if end.segment == 0 {
        return Ok(());
    }
    let file = copy.open(&format::name(end.segment), OpenMode::ReadWrite)?;
    if let Some((header, bytes)) = read_header(&*file, database, end.segment)?.begun() {
        let used = header.used_bytes(end.lsn.0);
        if bytes > used {
            file.truncate(used)?;
        }
    }
    Ok(())
}

/// Copies a segment from its end to its beginning. Returns false if it has become another segment.
fn copy_segment(
    file: &dyn File,
    to: &dyn Storage,
    database: DatabaseId,
    header: SegmentHeader,
    is_changing: bool,
) -> Result<bool> {
    // Room that was given back is no longer part of the file, although the header's length includes it.
    let len_bytes = file.len_bytes()?.min(header.bytes);
    let copy = to.open(&format::name(header.number), OpenMode::CreateNew)?;
    // If the last file is shorter than its header says, it counts as damaged until something vouches for the log's
    // end.
    copy.truncate(if is_changing { header.bytes } else { len_bytes })?;
    let (mut chunk, mut again) = (Vec::new(), Vec::new());
    for offset in (0..len_bytes.div_ceil(CHUNK_BYTES)).rev().map(|at| at * CHUNK_BYTES) {
        let bytes = (len_bytes - offset).min(CHUNK_BYTES) as usize;
        chunk.resize(bytes, 0);
        file.read_exact_at(offset, &mut chunk)?;
        if is_changing && !read_again(file, offset, &mut chunk, &mut again)? {
            return Ok(false);
        }
        // What was never written stays a hole.
        if chunk.iter().any(|byte| *byte != 0) {
            copy.write_all_at(offset, &chunk)?;
        }
    }
    copy.sync_data()?;
    let head = chunk.get(..SEGMENT_HEADER_BYTES).unwrap_or_default();
    Ok(matches!(
        SegmentHeader::decode(head, database, header.number),
        Decoded::Begun(again) if again == header
    ))
}

/// Reads a chunk until two consecutive reads agree. Returns false if it changes too often.
fn read_again(file: &dyn File, offset: u64, chunk: &mut Vec<u8>, again: &mut Vec<u8>) -> Result<bool> {
    again.resize(chunk.len(), 0);
    for _ in 0..READS_MAX {
        file.read_exact_at(offset, again)?;
        if chunk == again {
            return Ok(true);
        }
        std::mem::swap(chunk, again);
    }
    Ok(false)
}
