//! The state behind a simulated directory and its files: the disk, its history, and the faults to come.

use super::disk::{Disk, Effect, InodeId};
use super::fault::{Fault, FaultRule};
use crate::Random;
use braiddb::storage::{Holder, Operation, Result, SECTOR_BYTES, StorageError};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The maximum sum of sectors and operations that the history keeps (128 MiB of sectors). Beyond it, the oldest part of
/// the history is merged into the disk that it begins with.
const HISTORY_WEIGHT_MAX: usize = 1 << 18;

/// One operation that changed something.
#[derive(Debug)]
pub(super) struct Entry {
    operation: Operation,
    file: Arc<str>,
    offset: Option<u64>,
    pub(super) effect: Effect,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.operation, self.file)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " at {offset}"))
    }
}

/// `disk` is `base` with every effect of `history` applied.
pub(super) struct State {
    pub(super) disk: Disk,
    pub(super) base: Disk,
    pub(super) base_boundary: u64,
    pub(super) history: VecDeque<Arc<Entry>>,
    history_weight: usize,
    pub(super) capacity_bytes: u64,
    pub(super) rules: Vec<FaultRule>,
    pub(super) faults_injected: u64,
    pub(super) operations: BTreeMap<Operation, u64>,
    pub(super) ticks: u64,
    pub(super) random: Random,
    pub(super) holder: Option<Holder>,
    inode_next: u64,
    /// The number of handles of each open file.
    handles: BTreeMap<InodeId, u64>,
}

impl State {
    pub(super) fn new(disk: Disk, seed: u64, capacity_bytes: u64) -> State {
        let inode_next = disk.inodes.keys().next_back().map_or(0, |last| last.0 + 1);
        State {
            base: disk.clone(),
            disk,
            base_boundary: 0,
            history: VecDeque::new(),
            history_weight: 0,
            capacity_bytes,
            rules: Vec::new(),
            faults_injected: 0,
            operations: BTreeMap::new(),
            ticks: 0,
            random: Random::new(seed),
            holder: None,
            inode_next,
            handles: BTreeMap::new(),
        }
    }

    /// Counts an operation and finds the fault that strikes it. Handles the faults that are the same for all
    /// operations, and returns the others.
    pub(super) fn begin(&mut self, operation: Operation, file: &str) -> Result<Option<Fault>> {
        self.ticks += 1;
        *self.operations.entry(operation).or_default() += 1;
        // Every rule counts every operation, whichever rule strikes.
        let mut fault = None;
        for rule in &mut self.rules {
            let met = rule.meet(operation);
            fault = fault.or(met);
        }
        self.faults_injected += u64::from(fault.is_some());
        match fault {
            Some(Fault::Fail) => Err(injected(operation, file)),
            Some(Fault::Full) => Err(failed(operation, file, ErrorKind::StorageFull)),
            Some(Fault::Slow { ticks }) => {
                self.ticks += ticks;
                Ok(None)
            }
            fault => Ok(fault),
        }
    }

    /// Applies an effect and adds it to the history.
    pub(super) fn commit(&mut self, operation: Operation, file: &str, offset: Option<u64>, effect: Effect) {
        self.disk.apply(&effect);
        self.history_weight += effect.weight();
        self.history.push_back(Arc::new(Entry { operation, file: Arc::from(file), offset, effect }));
        while self.history_weight > HISTORY_WEIGHT_MAX {
            let oldest = self.history.pop_front().expect("a history with weight has entries");
            self.base.apply(&oldest.effect);
            self.base_boundary += 1;
            self.history_weight -= oldest.effect.weight();
        }
    }

    pub(super) fn boundary(&self) -> u64 {
        self.base_boundary + self.history.len() as u64
    }

    pub(super) fn new_inode(&mut self) -> InodeId {
        self.inode_next += 1;
        InodeId(self.inode_next - 1)
    }

    pub(super) fn handle_opened(&mut self, inode: InodeId) {
        *self.handles.entry(inode).or_default() += 1;
    }

    pub(super) fn handle_closed(&mut self, inode: InodeId) {
        let handles = self.handles.get_mut(&inode).expect("an open file is counted");
        *handles -= 1;
        if *handles == 0 {
            self.handles.remove(&inode);
            self.forget_if_lost(inode);
        }
    }

    /// Forgets files to which neither a name nor a handle leads. A removed name is gone for good only after a sync.
    pub(super) fn forget_lost(&mut self) {
        let inodes: Vec<InodeId> = self.disk.inodes.keys().copied().collect();
        for inode in inodes {
            self.forget_if_lost(inode);
        }
    }

    fn forget_if_lost(&mut self, inode: InodeId) {
        if !self.handles.contains_key(&inode) && !self.disk.is_named(inode) {
            self.commit(Operation::Remove, "a file without a name", None, Effect::Forget { inode });
        }
    }

    /// Returns the number of free sectors. Files that the process sees or holds open take the others.
    pub(super) fn blocks_free(&self) -> u64 {
        let names = &self.disk.names;
        let mut inodes: Vec<InodeId> = names.values().chain(self.handles.keys()).copied().collect();
        inodes.sort_unstable();
        inodes.dedup();
        let used: u64 = inodes.iter().map(|inode| self.disk.inode(*inode).seen.blocks()).sum();
        (self.capacity_bytes / SECTOR_BYTES as u64).saturating_sub(used)
    }
}

/// Returns the error of an operation that failed as it would on a real system.
pub(super) fn failed(operation: Operation, file: &str, kind: ErrorKind) -> StorageError {
    StorageError::io(operation, file, kind.into())
}

/// Returns the error of an operation on which a fault was injected.
pub(super) fn injected(operation: Operation, file: &str) -> StorageError {
    StorageError::io(operation, file, io::Error::other("injected fault"))
}
