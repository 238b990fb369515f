//! Files in memory on a disk that fails when a test says so.
#![allow(dead_code, reason = "each test file has its own troubles")]

use braiddb::storage::{
    File, Holder, LockGuard, MemoryStorage, OpenMode, Operation, Result, Space, Storage, StorageError,
};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What goes wrong with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A sync does not return before the trouble ends.
    SyncsHang,
    /// Like `SyncsHang`, but for files other than the log's.
    OtherSyncsHang,
    /// A sync fails.
    SyncsFail,
    /// A write finds no room.
    Full,
}

/// The troubles that the disk is in.
#[derive(Debug, Default)]
struct Troubles {
    hangs: Mutex<Option<Trouble>>,
    released: Condvar,
    syncs_fail: AtomicBool,
    is_full: AtomicBool,
}

#[derive(Clone, Debug)]
pub struct Troubled {
    under: MemoryStorage,
    troubles: Arc<Troubles>,
}

impl Troubled {
    pub fn new() -> Troubled {
        Troubled { under: MemoryStorage::new(1 << 28), troubles: Arc::default() }
    }

    pub fn begin(&self, trouble: Trouble) {
        self.set(trouble, true);
    }

    pub fn end(&self, trouble: Trouble) {
        self.set(trouble, false);
    }

    fn set(&self, trouble: Trouble, begins: bool) {
        let troubles = &self.troubles;
        match trouble {
            Trouble::SyncsHang | Trouble::OtherSyncsHang => {
                *troubles.hangs.lock().unwrap() = begins.then_some(trouble);
                troubles.released.notify_all();
            }
            Trouble::SyncsFail => troubles.syncs_fail.store(begins, Ordering::SeqCst),
            Trouble::Full => troubles.is_full.store(begins, Ordering::SeqCst),
        }
    }
}

impl Storage for Troubled {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(TroubledFile { under: self.under.open(name, mode)?, troubles: self.troubles.clone() }))
    }
    fn list(&self) -> Result<Vec<String>> {
        self.under.list()
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.under.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.under.rename(from, to)
    }
    fn sync_directory(&self) -> Result<()> {
        self.under.sync_directory()
    }
    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        self.under.lock(holder)
    }
    fn space(&self) -> Result<Option<Space>> {
        self.under.space()
    }
}

#[derive(Debug)]
struct TroubledFile {
    under: Box<dyn File>,
    troubles: Arc<Troubles>,
}

impl TroubledFile {
    fn hangs(&self, trouble: Option<Trouble>) -> bool {
        match trouble {
            Some(Trouble::OtherSyncsHang) => !self.name().starts_with("log"),
            trouble => trouble.is_some(),
        }
    }
}

impl File for TroubledFile {
    fn name(&self) -> &str {
        self.under.name()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.under.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        if self.troubles.is_full.load(Ordering::SeqCst) {
            return Err(StorageError::io(Operation::Write, self.name(), ErrorKind::StorageFull.into()));
        }
        self.under.write_at(offset, data)
    }
    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.under.preallocate(offset, bytes)
    }
    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.under.truncate(len_bytes)
    }
    fn sync_data(&self) -> Result<()> {
        let hangs = self.troubles.hangs.lock().unwrap();
        drop(self.troubles.released.wait_while(hangs, |trouble| self.hangs(*trouble)).unwrap());
        if self.troubles.syncs_fail.load(Ordering::SeqCst) {
            let error = io::Error::other("the disk is broken");
            return Err(StorageError::io(Operation::SyncData, self.name(), error));
        }
        self.under.sync_data()
    }
    fn len_bytes(&self) -> Result<u64> {
        self.under.len_bytes()
    }
}
