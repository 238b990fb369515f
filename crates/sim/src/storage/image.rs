//! The bytes of a file by sectors, shared between all states of a disk that have the same bytes.

use braiddb::storage::SECTOR_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Sector = [u8; SECTOR_BYTES];

const ZEROS: Sector = [0; SECTOR_BYTES];

/// Sectors per chunk, which is the unit of sharing. A change copies this many references.
const CHUNK_SECTORS: u64 = 64;

/// The content of a sector.
#[derive(Clone, Debug, Default)]
pub(super) enum Content {
    /// Certainly zeros, without a block.
    #[default]
    Hole,
    /// A block to which nothing was written: zeros to a reader, and any content after a crash.
    Unwritten,
    /// These bytes.
    Data(Arc<Sector>),
}

impl Content {
    /// Returns what a reader sees.
    pub(super) fn bytes(&self) -> &Sector {
        match self {
            Content::Data(sector) => sector,
            Content::Hole | Content::Unwritten => &ZEROS,
        }
    }

    pub(super) fn has_block(&self) -> bool {
        !matches!(self, Content::Hole)
    }

    /// Returns the content with `data` from byte `at` on.
    pub(super) fn patched(&self, at: usize, data: &[u8]) -> Content {
        let mut sector = *self.bytes();
        sector[at..at + data.len()].copy_from_slice(data);
        Content::Data(Arc::new(sector))
    }

    /// Returns the content with zeros from byte `at` on.
    fn cut(&self, at: usize) -> Content {
        match self {
            Content::Data(sector) if sector[at..] != ZEROS[at..] => self.patched(at, &ZEROS[at..]),
            content => content.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    sectors: [Content; CHUNK_SECTORS as usize],
    /// The number of blocks to which nothing was written.
    unwritten: usize,
}

/// A file's bytes. Bytes beyond `len_bytes` in its last sector are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    len_bytes: u64,
    /// The chunks by number. Each has at least one block.
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// The number of sectors that have a block.
    blocks: u64,
}

impl Image {
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Sets only the length. The caller sets the sectors that this cuts off.
    pub(super) fn set_len_bytes(&mut self, len_bytes: u64) {
        self.len_bytes = len_bytes;
    }

    pub(super) fn get(&self, sector: u64) -> &Content {
        let chunk = self.chunks.get(&(sector / CHUNK_SECTORS));
        chunk.map_or(&Content::Hole, |chunk| &chunk.sectors[(sector % CHUNK_SECTORS) as usize])
    }

    pub(super) fn set(&mut self, sector: u64, content: Content) {
        let (number, at) = (sector / CHUNK_SECTORS, (sector % CHUNK_SECTORS) as usize);
        let is_removed = !content.has_block();
        if is_removed && !self.chunks.contains_key(&number) {
            return;
        }
        let empty = || Arc::new(Chunk { sectors: std::array::from_fn(|_| Content::Hole), unwritten: 0 });
        let chunk = Arc::make_mut(self.chunks.entry(number).or_insert_with(empty));
        let old = &mut chunk.sectors[at];
        self.blocks += u64::from(content.has_block());
        self.blocks -= u64::from(old.has_block());
        chunk.unwritten += usize::from(matches!(content, Content::Unwritten));
        chunk.unwritten -= usize::from(matches!(old, Content::Unwritten));
        *old = content;
        if is_removed && !chunk.sectors.iter().any(Content::has_block) {
            self.chunks.remove(&number);
        }
    }

    /// Copies bytes from `offset` on, up to the end of the file, and returns how many.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = self.len_bytes.saturating_sub(offset);
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        for piece in pieces(offset, len) {
            let sector = self.get(piece.sector).bytes();
            buffer[piece.from..piece.from + piece.len].copy_from_slice(&sector[piece.at..][..piece.len]);
        }
        len
    }

    /// Returns the numbers of the sectors from `first` on that have a block.
    pub(super) fn blocks_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let chunks = self.chunks.range(first / CHUNK_SECTORS..);
        let sectors = chunks.flat_map(|(number, chunk)| {
            let sectors = chunk.sectors.iter().zip(number * CHUNK_SECTORS..);
            sectors.filter(|(content, _)| content.has_block()).map(|(_, sector)| sector)
        });
        sectors.skip_while(move |sector| *sector < first)
    }

    /// Returns the numbers of the chunks with blocks to which nothing was written.
    pub(super) fn unwritten_chunks(&self) -> Vec<u64> {
        self.chunks.iter().filter(|(_, chunk)| chunk.unwritten > 0).map(|(number, _)| *number).collect()
    }

    /// Gives the content that `choose` returns to each block of the chunk to which nothing was written.
    pub(super) fn fill_unwritten(&mut self, number: u64, mut choose: impl FnMut() -> Content) {
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        let chunk = Arc::make_mut(chunk);
        for content in chunk.sectors.iter_mut().filter(|content| matches!(content, Content::Unwritten)) {
            *content = choose();
            assert!(content.has_block(), "a block stays a block");
            chunk.unwritten -= usize::from(!matches!(content, Content::Unwritten));
        }
    }

    /// Sets the length of the file and makes everything beyond it zeros.
    pub(super) fn cut(&mut self, len_bytes: u64) {
        for (sector, content) in self.cut_sectors(len_bytes) {
            self.set(sector, content);
        }
        self.len_bytes = len_bytes;
    }

    /// Returns what a cut to this length changes.
    pub(super) fn cut_sectors(&self, len_bytes: u64) -> Vec<(u64, Content)> {
        let (last, at) = (len_bytes / SECTOR_BYTES as u64, (len_bytes % SECTOR_BYTES as u64) as usize);
        let first_gone = last + u64::from(at > 0);
        let gone = self.blocks_from(first_gone).map(|sector| (sector, Content::Hole));
        let kept = self.get(last);
        let tail = (at > 0 && kept.has_block()).then(|| (last, kept.cut(at)));
        tail.into_iter().chain(gone).collect()
    }
}

/// The part of one sector in a range of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) sector: u64,
    /// Its first byte in the sector.
    pub(super) at: usize,
    /// Its first byte in the range.
    pub(super) from: usize,
    pub(super) len: usize,
}

/// A range of bytes, sector by sector.
pub(super) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if from == len {
            return None;
        }
        let byte = offset + from as u64;
        let at = (byte % SECTOR_BYTES as u64) as usize;
        let piece =
            Piece { sector: byte / SECTOR_BYTES as u64, at, from, len: (SECTOR_BYTES - at).min(len - from) };
        from += piece.len;
        debug_assert!(from <= len);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(byte: u8) -> Content {
        Content::Data(Arc::new([byte; SECTOR_BYTES]))
    }

    /// Proves that a range of bytes is divided at the borders of sectors.
    #[test]
    fn ranges_fall_into_sectors() {
        let of = |offset, len| {
            pieces(offset, len)
                .map(|piece| (piece.sector, piece.at, piece.from, piece.len))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0), []);
        assert_eq!(of(10, 20), [(0, 10, 0, 20)]);
        assert_eq!(of(500, 1036), [(0, 500, 0, 12), (1, 0, 12, 512), (2, 0, 524, 512)]);
    }

    /// Proves that blocks are counted, that a copy shares what it does not change, and that a cut leaves zeros.
    #[test]
    fn copies_share_and_cuts_leave_zeros() {
        let mut image = Image::default();
        for (sector, content) in [(0, data(1)), (1, data(2)), (70, data(3)), (71, Content::Unwritten)] {
            image.set(sector, content);
        }
        image.set_len_bytes(72 * 512);
        assert_eq!(image.blocks(), 4);
        assert_eq!(image.blocks_from(1).collect::<Vec<_>>(), [1, 70, 71]);
        assert_eq!(image.unwritten_chunks(), [1]);
        let mut copy = image.clone();
        copy.cut(600);
        assert!(Arc::ptr_eq(&image.chunks[&1], &image.clone().chunks[&1]));
        assert_eq!((copy.blocks(), copy.len_bytes(), copy.chunks.len()), (2, 600, 1));
        copy.set_len_bytes(1024);
        let mut read = [9; 600];
        assert_eq!(copy.read(500, &mut read), 524);
        let expected: Vec<u8> = [vec![1; 12], vec![2; 88], vec![0; 424], vec![9; 76]].concat();
        assert_eq!(read.to_vec(), expected);
        assert_eq!((image.blocks(), image.get(1).bytes()[511]), (4, 2));
    }
}
