//! A storage in memory. A crash leaves what was synced, and perhaps some of the rest.

use crate::Random;
use braiddb::storage::{
    File, Holder, LockGuard, MemoryStorage, OpenMode, Operation, Result, Space, Storage, StorageError,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

/// The contents of a file, and the part that is durable.
#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
}

type Shared = Arc<Mutex<Contents>>;

#[derive(Debug, Default)]
struct Names {
    now: BTreeMap<String, Shared>,
    synced: BTreeMap<String, Shared>,
}

#[derive(Clone, Debug)]
pub(crate) struct Lossy {
    names: Arc<Mutex<Names>>,
    /// Held while anything changes, because a crash happens at one moment.
    moment: Arc<Mutex<()>>,
    /// Holds the lock file.
    locks: MemoryStorage,
}

impl Lossy {
    pub(crate) fn new() -> Lossy {
        Lossy { names: Arc::default(), moment: Arc::default(), locks: MemoryStorage::new(1 << 20) }
    }

    /// Returns what a crash at this moment leaves. Each sector that was not synced has its old or its new contents.
    pub(crate) fn crash(&self, random: &mut Random) -> Lossy {
        const SECTOR: usize = 512;
        let _moment = self.moment.lock().unwrap();
        let names = self.names.lock().unwrap();
        let kept = if random.next(2) == 0 { &names.now } else { &names.synced };
        let mut left = Names::default();
        for (name, contents) in kept {
            let contents = contents.lock().unwrap();
            let mut bytes = contents.synced.clone();
            if random.next(2) == 0 {
                bytes.resize(contents.now.len(), 0);
            }
            for at in (0..bytes.len().min(contents.now.len())).step_by(SECTOR) {
                let end = (at + SECTOR).min(bytes.len()).min(contents.now.len());
                if random.next(2) == 0 {
                    bytes[at..end].copy_from_slice(&contents.now[at..end]);
                }
            }
            let file = Arc::new(Mutex::new(Contents { now: bytes.clone(), synced: bytes }));
            left.now.insert(name.clone(), file);
        }
        left.synced.clone_from(&left.now);
        Lossy { names: Arc::new(Mutex::new(left)), ..Lossy::new() }
    }
}

fn missing(operation: Operation, name: &str) -> StorageError {
    StorageError::io(operation, name, ErrorKind::NotFound.into())
}

impl Storage for Lossy {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let _moment = self.moment.lock().unwrap();
        let mut names = self.names.lock().unwrap();
        let contents = match (names.now.get(name), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(StorageError::io(Operation::Create, name, ErrorKind::AlreadyExists.into()));
            }
            (Some(contents), _) => contents.clone(),
            (None, OpenMode::CreateNew) => {
                names.now.insert(name.into(), Shared::default());
                names.now[name].clone()
            }
            (None, _) => return Err(missing(Operation::Open, name)),
        };
        Ok(Box::new(LossyFile { name: name.into(), contents, moment: self.moment.clone() }))
    }
    fn list(&self) -> Result<Vec<String>> {
        Ok(self.names.lock().unwrap().now.keys().cloned().collect())
    }
    fn remove(&self, name: &str) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        let removed = self.names.lock().unwrap().now.remove(name);
        removed.map(drop).ok_or_else(|| missing(Operation::Remove, name))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        let mut names = self.names.lock().unwrap();
        let contents = names.now.remove(from).ok_or_else(|| missing(Operation::Rename, from))?;
        names.now.insert(to.into(), contents);
        Ok(())
    }
    fn sync_directory(&self) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        let mut names = self.names.lock().unwrap();
        names.synced = names.now.clone();
        Ok(())
    }
    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        self.locks.lock(holder)
    }
    fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct LossyFile {
    name: String,
    contents: Shared,
    moment: Arc<Mutex<()>>,
}

impl File for LossyFile {
    fn name(&self) -> &str {
        &self.name
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let contents = self.contents.lock().unwrap();
        let rest = contents.now.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let _moment = self.moment.lock().unwrap();
        let mut contents = self.contents.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        let len_bytes = contents.now.len().max(end);
        contents.now.resize(len_bytes, 0);
        contents.now[start..end].copy_from_slice(data);
        Ok(data.len())
    }
    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        let mut contents = self.contents.lock().unwrap();
        let len_bytes = contents.now.len().max((offset + bytes) as usize);
        contents.now.resize(len_bytes, 0);
        Ok(())
    }
    fn truncate(&self, len_bytes: u64) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        self.contents.lock().unwrap().now.resize(len_bytes as usize, 0);
        Ok(())
    }
    fn sync_data(&self) -> Result<()> {
        let _moment = self.moment.lock().unwrap();
        let mut contents = self.contents.lock().unwrap();
        contents.synced = contents.now.clone();
        Ok(())
    }
    fn len_bytes(&self) -> Result<u64> {
        Ok(self.contents.lock().unwrap().now.len() as u64)
    }
}
