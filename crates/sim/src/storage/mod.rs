//! A directory that fails and crashes in every way that the contract of [`braiddb::storage`] allows, and in some ways
//! that no contract can exclude. Everything follows from a seed and the operations.
//!
//! An engine or a test uses [`SimulatedStorage`] like any storage, with [`FaultRule`]s for the faults to come. The
//! storage logs what each operation did to the disk. From the log, [`SimulatedStorage::crash_states`] builds the states
//! that a crash of the machine could have left after any operation. Each state is a storage to recover from, with a log
//! of its own. States share what they have in common, so a small state takes microseconds.
//!
//! `disk` is the disk and how effects change it, `image` the bytes of a file, `crash` the choice of a state, and
//! `fault` what goes wrong and when. `file` and `state` turn calls into effects. `docs/design/storage.md` gives the
//! reasons for these faults.
//!
//! ```
//! use braid_sim::storage::SimulatedStorage;
//! use braiddb::storage::{OpenMode, Storage};
//!
//! let storage = SimulatedStorage::new(1, 1 << 20);
//! let file = storage.open("greeting", OpenMode::CreateNew)?;
//! file.write_all_at(0, b"hello")?;
//! file.sync_data()?;
//! let unsynced = storage.boundary();
//! storage.sync_directory()?;
//! for crash in storage.crash_states(7, 10) {
//!     let found = crash.storage.open("greeting", OpenMode::Read);
//!     // Without its name the file may be gone, though its data is durable.
//!     assert!(found.is_ok() || crash.boundary <= unsynced);
//! }
//! # Ok::<(), braiddb::storage::StorageError>(())
//! ```

mod crash;
mod disk;
mod fault;
mod file;
mod image;
mod state;

pub use crash::{Crash, CrashStates, EVERYTHING, NOTHING};
pub use fault::{Fault, FaultRule};

use self::disk::{Disk, Effect, NameChange};
use self::file::SimulatedFile;
use self::state::{Entry, State, failed, injected};
use crate::Random;
use braiddb::storage::{
    Cause, File, Holder, LockGuard, OpenMode, Operation, Result, SECTOR_BYTES, Space, Storage, StorageError,
    check_name,
};
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the directory in errors.
const DIRECTORY: &str = "simulated";

/// The maximum number of files.
const FILES_MAX: usize = 4096;

/// A simulated directory. Clones are the same directory.
#[derive(Clone)]
pub struct SimulatedStorage {
    shared: Arc<Mutex<State>>,
}

impl SimulatedStorage {
    /// Makes an empty directory on a device of `capacity_bytes`. The seed decides what faults leave to chance.
    pub fn new(seed: u64, capacity_bytes: u64) -> SimulatedStorage {
        SimulatedStorage { shared: Arc::new(Mutex::new(State::new(Disk::default(), seed, capacity_bytes))) }
    }

    /// Makes the directory that a newly started process finds.
    fn restarted(disk: Disk, capacity_bytes: u64) -> SimulatedStorage {
        SimulatedStorage { shared: Arc::new(Mutex::new(State::new(disk, 0, capacity_bytes))) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    /// Adds a rule for faults to come. If several rules strike at once, the first one added counts.
    pub fn inject(&self, rule: FaultRule) {
        self.state().rules.push(rule);
    }

    /// Removes all rules, so there are no more faults. What was lost stays lost.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// Returns the number of operations that a fault struck, slow ones included.
    pub fn faults_injected(&self) -> u64 {
        self.state().faults_injected
    }

    /// Returns how many operations of the kind were called.
    pub fn operations(&self, operation: Operation) -> u64 {
        self.state().operations.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the virtual time: one tick for each operation, and more for slow ones.
    pub fn ticks(&self) -> u64 {
        self.state().ticks
    }

    /// Returns how many operations have changed something so far. A crash lies between two of them.
    pub fn boundary(&self) -> u64 {
        self.state().boundary()
    }

    /// Returns the first boundary that is still known. Of a long history the oldest part is forgotten.
    pub fn boundary_first(&self) -> u64 {
        self.state().base_boundary
    }

    /// Describes the operation before this boundary, for messages.
    pub fn describe(&self, boundary: u64) -> String {
        let state = self.state();
        let entry =
            boundary.checked_sub(state.base_boundary + 1).and_then(|at| state.history.get(at as usize));
        entry.map_or_else(
            || format!("boundary {boundary}"),
            |entry| format!("boundary {boundary}, after {entry}"),
        )
    }

    /// Returns what a crash at this boundary may leave behind. With [`NOTHING`] only what was synced survives, with
    /// [`EVERYTHING`] everything does; any other seed chooses. The boundary must still be known.
    pub fn crash(&self, boundary: u64, seed: u64) -> SimulatedStorage {
        let state = self.state();
        assert!(
            (state.base_boundary..=state.boundary()).contains(&boundary),
            "boundary {boundary} is not known"
        );
        let mut disk = state.base.clone();
        for entry in state.history.iter().take((boundary - state.base_boundary) as usize) {
            disk.apply(&entry.effect);
        }
        SimulatedStorage::restarted(crash::crash(&disk, seed), state.capacity_bytes)
    }

    /// Returns crashes at each boundary from the first to the latest, this many at each. At each boundary the first is
    /// [`NOTHING`] and the second is [`EVERYTHING`]; the seed chooses the others.
    pub fn crash_states(&self, seed: u64, states_per_boundary: u64) -> CrashStates {
        assert!(states_per_boundary > 0, "there are states to make");
        let state = self.state();
        let effects: Vec<Arc<Entry>> = state.history.iter().cloned().collect();
        CrashStates {
            disk: state.base.clone(),
            effects: effects.into_iter(),
            capacity_bytes: state.capacity_bytes,
            boundary: state.base_boundary,
            random: Random::new(seed),
            states_per_boundary,
            made: 0,
        }
    }
}

impl Storage for SimulatedStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let create = mode == OpenMode::CreateNew;
        let operation = if create { Operation::Create } else { Operation::Open };
        check_name(operation, name)?;
        let mut state = self.state();
        state.begin(operation, name)?;
        let name: Arc<str> = Arc::from(name);
        let inode = match (state.disk.names.get(&name).copied(), create) {
            (Some(_), true) => return Err(failed(operation, &name, ErrorKind::AlreadyExists)),
            (None, false) => return Err(failed(operation, &name, ErrorKind::NotFound)),
            (Some(inode), false) => inode,
            (None, true) if state.disk.inodes.len() >= FILES_MAX => {
                return Err(failed(operation, &name, ErrorKind::StorageFull));
            }
            (None, true) => {
                let inode = state.new_inode();
                let change = NameChange::Create { name: Arc::clone(&name), inode };
                state.commit(operation, &name, None, Effect::Name(change));
                inode
            }
        };
        state.handle_opened(inode);
        drop(state);
        let is_writable = mode != OpenMode::Read;
        Ok(Box::new(SimulatedFile { shared: Arc::clone(&self.shared), name, inode, is_writable }))
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut state = self.state();
        state.begin(Operation::List, DIRECTORY)?;
        Ok(state.disk.names.keys().map(ToString::to_string).collect())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, name)?;
        let mut state = self.state();
        state.begin(Operation::Remove, name)?;
        let Some(inode) = state.disk.names.get(name).copied() else {
            return Err(failed(Operation::Remove, name, ErrorKind::NotFound));
        };
        state.commit(Operation::Remove, name, None, Effect::Name(NameChange::Remove { inode }));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        let mut state = self.state();
        state.begin(Operation::Rename, from)?;
        let Some(inode) = state.disk.names.get(from).copied() else {
            return Err(failed(Operation::Rename, from, ErrorKind::NotFound));
        };
        if from != to {
            let replaced = state.disk.names.get(to).copied();
            let change = NameChange::Rename { to: Arc::from(to), inode, replaced };
            state.commit(Operation::Rename, from, None, Effect::Name(change));
        }
        Ok(())
    }

    fn sync_directory(&self) -> Result<()> {
        let mut state = self.state();
        if state.begin(Operation::SyncDirectory, DIRECTORY)?.is_none() {
            state.commit(Operation::SyncDirectory, DIRECTORY, None, Effect::SyncNames);
            state.forget_lost();
            return Ok(());
        }
        // The one fault that the operation itself handles: `DropUnsynced`.
        let changes = state.disk.unsynced_names.len();
        let kept = (0..changes).map(|_| state.random.chance(50)).collect();
        state.commit(Operation::SyncDirectory, DIRECTORY, None, Effect::DropNames { kept });
        state.forget_lost();
        Err(injected(Operation::SyncDirectory, DIRECTORY))
    }

    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        let mut state = self.state();
        state.begin(Operation::Lock, DIRECTORY)?;
        if let Some(other) = &state.holder {
            return Err(StorageError::new(Operation::Lock, DIRECTORY, Cause::Locked(Some(other.clone()))));
        }
        state.holder = Some(holder.clone());
        Ok(LockGuard::new(Held(Arc::clone(&self.shared))))
    }

    fn space(&self) -> Result<Option<Space>> {
        let mut state = self.state();
        state.begin(Operation::Space, DIRECTORY)?;
        let free_bytes = state.blocks_free() * SECTOR_BYTES as u64;
        Ok(Some(Space { total_bytes: state.capacity_bytes, free_bytes }))
    }
}

impl fmt::Debug for SimulatedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let files =
            state.disk.names.iter().map(|(name, inode)| (name, state.disk.inode(*inode).seen.len_bytes()));
        f.debug_map().entries(files).finish()
    }
}

struct Held(Arc<Mutex<State>>);

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.0).holder = None;
    }
}

/// The state is consistent between any two calls, even if a caller's assertion failed in between.
fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
