//! An open file. It turns calls into effects, with the faults that strike them.

use super::disk::{Effect, InodeId};
use super::fault::Fault;
use super::image::{Content, Image, Piece, pieces};
use super::lock;
use super::state::{State, failed, injected};
use braiddb::storage::{Cause, File, Operation, Result, SECTOR_BYTES, StorageError};
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: u64 = SECTOR_BYTES as u64;

pub(super) struct SimulatedFile {
    pub(super) shared: Arc<Mutex<State>>,
    pub(super) name: Arc<str>,
    pub(super) inode: InodeId,
    pub(super) is_writable: bool,
}

impl SimulatedFile {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    fn check_writable(&self, operation: Operation) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(StorageError::new(operation, &*self.name, Cause::ReadOnly))
    }

    /// Returns the end of a range, if a file can be this long.
    fn end(&self, operation: Operation, offset: u64, bytes: u64) -> Result<u64> {
        let too_large = || failed(operation, &self.name, ErrorKind::FileTooLarge).at(offset);
        offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64).ok_or_else(too_large)
    }

    /// Changes sectors of the file, and its length.
    fn commit(
        &self,
        state: &mut State,
        what: (Operation, u64),
        sectors: Vec<(u64, Content)>,
        len_bytes: u64,
    ) {
        let effect = Effect::Write { inode: self.inode, sectors, len_bytes };
        state.commit(what.0, &self.name, Some(what.1), effect);
    }

    /// Returns how many of the bytes there is room for.
    fn fitting(&self, state: &State, offset: u64, len: usize) -> usize {
        let seen = &state.disk.inode(self.inode).seen;
        let mut free = state.blocks_free();
        for piece in pieces(offset, len) {
            if !seen.get(piece.sector).has_block() {
                if free == 0 {
                    return piece.from;
                }
                free -= 1;
            }
        }
        len
    }

    /// Returns what a write leaves if its data never arrived: the blocks that the file system has already given to the
    /// file.
    fn unwritten(&self, state: &State, offset: u64, len: usize) -> Vec<(u64, Content)> {
        let seen = &state.disk.inode(self.inode).seen;
        let new = pieces(offset, len).filter(|piece| !seen.get(piece.sector).has_block());
        new.map(|piece| (piece.sector, Content::Unwritten)).collect()
    }

    /// Writes the data to a wrong place, in this file or another.
    fn misdirect(&self, state: &mut State, offset: u64, data: &[u8]) {
        let mut places: Vec<InodeId> = state.disk.names.values().copied().collect();
        places.retain(|inode| state.disk.inode(*inode).seen.len_bytes() > 0);
        if places.is_empty() {
            return;
        }
        let inode = *state.random.one_of(&places);
        let len_bytes = state.disk.inode(inode).seen.len_bytes();
        let sectors = len_bytes.div_ceil(SECTOR);
        let mut sector = state.random.below(sectors);
        if inode == self.inode && sector == offset / SECTOR {
            sector = (sector + 1) % sectors;
        }
        let at = sector * SECTOR + offset % SECTOR;
        if inode == self.inode && at == offset {
            return; // the file has no other place: the data is lost
        }
        let room = usize::try_from(len_bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let data = &data[..data.len().min(room)];
        let sectors = written(&state.disk.inode(inode).seen, at, data);
        let effect = Effect::Write { inode, sectors, len_bytes };
        state.commit(Operation::Write, "a misdirected write", Some(at), effect);
    }
}

/// Returns the sectors of a write with the new bytes in them.
fn written(seen: &Image, offset: u64, data: &[u8]) -> Vec<(u64, Content)> {
    let patch = |piece: Piece| {
        let new = &data[piece.from..piece.from + piece.len];
        (piece.sector, seen.get(piece.sector).patched(piece.at, new))
    };
    pieces(offset, data.len()).map(patch).collect()
}

fn flip_bit(state: &mut State, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let bit = state.random.below(8 * bytes.len() as u64);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

/// Returns a part of `len` that is less than all of it, unless it cannot be divided.
fn part(state: &mut State, len: usize) -> usize {
    if len < 2 { len } else { state.random.between(1, len as u64 - 1) as usize }
}

impl File for SimulatedFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut state = self.state();
        let fault = state.begin(Operation::Read, &self.name).map_err(|error| error.at(offset))?;
        let len = if fault == Some(Fault::Short) { part(&mut state, buffer.len()) } else { buffer.len() };
        let read = state.disk.inode(self.inode).seen.read(offset, &mut buffer[..len]);
        if fault == Some(Fault::BitFlip) {
            flip_bit(&mut state, &mut buffer[..read]);
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.check_writable(Operation::Write)?;
        self.end(Operation::Write, offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(0);
        }
        let mut state = self.state();
        let fault = state.begin(Operation::Write, &self.name).map_err(|error| error.at(offset))?;
        let mut len = self.fitting(&state, offset, data.len());
        if len == 0 {
            return Err(failed(Operation::Write, &self.name, ErrorKind::StorageFull).at(offset));
        }
        if fault == Some(Fault::Short) {
            len = part(&mut state, len);
        }
        let mut data = data[..len].to_vec();
        if fault == Some(Fault::BitFlip) {
            flip_bit(&mut state, &mut data);
        }
        let sectors = match fault {
            Some(Fault::Misdirected | Fault::Lost) => self.unwritten(&state, offset, len),
            Some(Fault::Torn) => {
                let mut sectors = written(&state.disk.inode(self.inode).seen, offset, &data);
                sectors.retain(|_| state.random.chance(50));
                sectors
            }
            _ => written(&state.disk.inode(self.inode).seen, offset, &data),
        };
        let len_bytes = state.disk.inode(self.inode).seen.len_bytes().max(offset + len as u64);
        self.commit(&mut state, (Operation::Write, offset), sectors, len_bytes);
        match fault {
            Some(Fault::Torn) => return Err(injected(Operation::Write, &self.name).at(offset)),
            Some(Fault::Misdirected) => self.misdirect(&mut state, offset, &data),
            _ => {}
        }
        Ok(len)
    }

    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.check_writable(Operation::Preallocate)?;
        let end = self.end(Operation::Preallocate, offset, bytes)?;
        let mut state = self.state();
        state.begin(Operation::Preallocate, &self.name).map_err(|error| error.at(offset))?;
        if bytes == 0 {
            return Ok(());
        }
        let seen = &state.disk.inode(self.inode).seen;
        let (range, have) = (offset / SECTOR..end.div_ceil(SECTOR), seen.blocks());
        // Checked before the sectors are listed, because there may be any number of them.
        if range.end - range.start > have.saturating_add(state.blocks_free()) {
            return Err(failed(Operation::Preallocate, &self.name, ErrorKind::StorageFull).at(offset));
        }
        let missing = range.filter(|sector| !seen.get(*sector).has_block());
        let sectors: Vec<_> = missing.map(|sector| (sector, Content::Unwritten)).collect();
        if sectors.len() as u64 > state.blocks_free() {
            return Err(failed(Operation::Preallocate, &self.name, ErrorKind::StorageFull).at(offset));
        }
        let len_bytes = seen.len_bytes().max(end);
        self.commit(&mut state, (Operation::Preallocate, offset), sectors, len_bytes);
        Ok(())
    }

    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.check_writable(Operation::Truncate)?;
        self.end(Operation::Truncate, len_bytes, 0)?;
        let mut state = self.state();
        state.begin(Operation::Truncate, &self.name).map_err(|error| error.at(len_bytes))?;
        let seen = &state.disk.inode(self.inode).seen;
        let is_shorter = len_bytes < seen.len_bytes();
        let sectors = if is_shorter { seen.cut_sectors(len_bytes) } else { Vec::new() };
        self.commit(&mut state, (Operation::Truncate, len_bytes), sectors, len_bytes);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state();
        if state.begin(Operation::SyncData, &self.name)?.is_none() {
            state.commit(Operation::SyncData, &self.name, None, Effect::Sync { inode: self.inode });
            return Ok(());
        }
        // The one fault that the operation itself handles: `DropUnsynced`.
        let mut kept: Vec<u64> = state.disk.inode(self.inode).unsynced.keys().copied().collect();
        kept.retain(|_| state.random.chance(50));
        let (keeps_len, evicts) = (state.random.chance(50), state.random.chance(50));
        let effect = Effect::Drop { inode: self.inode, kept, keeps_len, evicts };
        state.commit(Operation::SyncData, &self.name, None, effect);
        Err(injected(Operation::SyncData, &self.name))
    }

    fn len_bytes(&self) -> Result<u64> {
        let mut state = self.state();
        state.begin(Operation::Len, &self.name)?;
        Ok(state.disk.inode(self.inode).seen.len_bytes())
    }

    fn disk_bytes(&self) -> Result<u64> {
        let mut state = self.state();
        state.begin(Operation::Len, &self.name)?;
        Ok(state.disk.inode(self.inode).seen.blocks() * SECTOR)
    }

    fn id(&self) -> Result<Option<u128>> {
        Ok(Some(self.inode.0.into()))
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.state().handle_closed(self.inode);
    }
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedFile").field("name", &self.name).finish_non_exhaustive()
    }
}
