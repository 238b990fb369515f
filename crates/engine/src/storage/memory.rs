//! A directory in memory, for databases that need not outlive their process, and for tests.

use super::{
    Cause, File, Holder, LockGuard, OpenMode, Operation, Result, Space, Storage, StorageError, check_name,
};
use crate::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;

/// A directory in memory with a limit on its bytes. Clones are the same directory. It is gone with the last clone and
/// the last handle of its files. Nothing survives a crash, so a sync does nothing.
#[derive(Clone)]
pub struct MemoryStorage {
    shared: Arc<Shared>,
}

struct Shared {
    limit_bytes: u64,
    state: Mutex<State>,
}

/// `used_bytes` is what all contents take, including removed files that are still open. `used_bytes <= limit_bytes`.
#[derive(Default)]
struct State {
    files: BTreeMap<String, Arc<Contents>>,
    used_bytes: u64,
    holder: Option<Holder>,
}

/// The bytes of a file, under a lock of their own. If both locks are held, this one is the outer.
struct Contents {
    shared: Arc<Shared>,
    bytes: Mutex<Bytes>,
}

/// What a file holds, and its length. Beyond `held` it reads as zeros, which take no memory.
#[derive(Default)]
struct Bytes {
    held: Vec<u8>,
    len_bytes: u64,
}

impl MemoryStorage {
    /// Makes an empty directory for at most `limit_bytes` bytes.
    pub fn new(limit_bytes: u64) -> MemoryStorage {
        MemoryStorage { shared: Arc::new(Shared { limit_bytes, state: Mutex::new(State::default()) }) }
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.shared.state);
        let names: Vec<&String> = state.files.keys().collect();
        f.debug_struct("MemoryStorage").field("files", &names).field("used_bytes", &state.used_bytes).finish()
    }
}

impl Storage for MemoryStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let create = mode == OpenMode::CreateNew;
        let operation = if create { Operation::Create } else { Operation::Open };
        check_name(operation, name)?;
        let mut state = lock(&self.shared.state);
        let contents = match (state.files.get(name), create) {
            (Some(_), true) => return Err(failed(operation, name, ErrorKind::AlreadyExists)),
            (None, false) => return Err(failed(operation, name, ErrorKind::NotFound)),
            (Some(contents), false) => Arc::clone(contents),
            (None, true) => {
                let contents = Contents { shared: Arc::clone(&self.shared), bytes: Mutex::default() };
                let contents = Arc::new(contents);
                state.files.insert(name.to_string(), Arc::clone(&contents));
                contents
            }
        };
        let is_writable = mode != OpenMode::Read;
        Ok(Box::new(MemoryFile { name: name.to_string(), is_writable, contents }))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(lock(&self.shared.state).files.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, name)?;
        // The contents are dropped after the lock is released, because their last owner takes it again.
        let removed = lock(&self.shared.state).files.remove(name);
        removed.map(drop).ok_or_else(|| failed(Operation::Remove, name, ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        let mut state = lock(&self.shared.state);
        let Some(contents) = state.files.remove(from) else {
            return Err(failed(Operation::Rename, from, ErrorKind::NotFound));
        };
        let replaced = state.files.insert(to.to_string(), contents);
        drop(state);
        drop(replaced); // after the lock, as in `remove`
        Ok(())
    }

    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        let mut state = lock(&self.shared.state);
        if let Some(other) = &state.holder {
            let cause = Cause::Locked(Some(other.clone()));
            return Err(StorageError::new(Operation::Lock, "memory", cause));
        }
        state.holder = Some(holder.clone());
        Ok(LockGuard::new(Held(Arc::clone(&self.shared))))
    }

    fn space(&self) -> Result<Option<Space>> {
        let total_bytes = self.shared.limit_bytes;
        Ok(Some(Space { total_bytes, free_bytes: total_bytes - lock(&self.shared.state).used_bytes }))
    }
}

struct Held(Arc<Shared>);

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.0.state).holder = None;
    }
}

impl Contents {
    /// Makes `bytes`, which belong to these contents, hold the first `len_bytes` bytes of the file, if there is room.
    fn hold(&self, bytes: &mut Bytes, len_bytes: u64) -> Result<(), ErrorKind> {
        let held = &mut bytes.held;
        let old = held.len() as u64;
        let len = usize::try_from(len_bytes).map_err(|_| ErrorKind::StorageFull)?;
        let mut state = lock(&self.shared.state);
        let used = state.used_bytes - old;
        if used.checked_add(len_bytes).is_none_or(|used| used > self.shared.limit_bytes) && len_bytes > old {
            return Err(ErrorKind::StorageFull);
        }
        held.try_reserve(len.saturating_sub(held.len())).map_err(|_| ErrorKind::OutOfMemory)?;
        held.resize(len, 0);
        if len < held.capacity() / 2 {
            held.shrink_to_fit();
        }
        bytes.len_bytes = bytes.len_bytes.max(len_bytes);
        state.used_bytes = used + len_bytes;
        assert!(state.used_bytes <= self.shared.limit_bytes, "the limit holds");
        Ok(())
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        let bytes = lock(&self.bytes).held.len() as u64;
        lock(&self.shared.state).used_bytes -= bytes;
    }
}

struct MemoryFile {
    name: String,
    is_writable: bool,
    contents: Arc<Contents>,
}

impl MemoryFile {
    /// Makes the file hold everything before `end`.
    fn grow(&self, bytes: &mut Bytes, end: Option<u64>) -> Result<(), ErrorKind> {
        match end {
            None => Err(ErrorKind::FileTooLarge),
            Some(end) if end > bytes.held.len() as u64 => self.contents.hold(bytes, end),
            Some(_) => Ok(()),
        }
    }

    fn check_writable(&self, operation: Operation) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(StorageError::new(operation, &self.name, Cause::ReadOnly))
    }
}

impl File for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = lock(&self.contents.bytes);
        let left = usize::try_from(bytes.len_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        let buffer = &mut buffer[..len];
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.held.len());
        let held = buffer.len().min(bytes.held.len() - start);
        buffer[..held].copy_from_slice(&bytes.held[start..start + held]);
        buffer[held..].fill(0);
        Ok(buffer.len())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.check_writable(Operation::Write)?;
        if data.is_empty() {
            return Ok(0);
        }
        let mut bytes = lock(&self.contents.bytes);
        self.grow(&mut bytes, offset.checked_add(data.len() as u64))
            .map_err(|kind| failed(Operation::Write, &self.name, kind).at(offset))?;
        let start = usize::try_from(offset).expect("the file has grown beyond the offset");
        bytes.held[start..start + data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.check_writable(Operation::Preallocate)?;
        self.grow(&mut lock(&self.contents.bytes), offset.checked_add(bytes))
            .map_err(|kind| failed(Operation::Preallocate, &self.name, kind).at(offset))
    }

    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.check_writable(Operation::Truncate)?;
        // As in file systems, lengths are signed.
        if i64::try_from(len_bytes).is_err() {
            return Err(failed(Operation::Truncate, &self.name, ErrorKind::FileTooLarge).at(len_bytes));
        }
        let mut bytes = lock(&self.contents.bytes);
        if len_bytes < bytes.held.len() as u64 {
            self.contents
                .hold(&mut bytes, len_bytes)
                .map_err(|kind| failed(Operation::Truncate, &self.name, kind).at(len_bytes))?;
        }
        bytes.len_bytes = len_bytes;
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(lock(&self.contents.bytes).len_bytes)
    }

    fn disk_bytes(&self) -> Result<u64> {
        Ok(lock(&self.contents.bytes).held.len() as u64)
    }

    fn id(&self) -> Result<Option<u128>> {
        Ok(Some(Arc::as_ptr(&self.contents) as usize as u128))
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFile").field("name", &self.name).finish_non_exhaustive()
    }
}

fn failed(operation: Operation, name: &str, kind: ErrorKind) -> StorageError {
    StorageError::io(operation, name, kind.into())
}
