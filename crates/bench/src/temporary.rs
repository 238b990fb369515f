//! Temporary directories of databases. Each is removed together with the measurement or check that it was made for.

use crate::{Failure, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The directories that exist. The lock is never released after all have been removed, so that no directory is made
/// afterwards.
static THERE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes a directory within `parent`, named after this process.
    ///
    /// # Errors
    ///
    /// `parent` is not a directory, or does not let this process make one.
    pub fn new(parent: &Path) -> Result<Directory> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // the number must only be unique
        let path = parent.join(format!("braid-bench-{}-{number}", std::process::id()));
        let mut there = there();
        std::fs::create_dir(&path)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", path.display())))?;
        there.insert(path.clone());
        Ok(Directory(path))
    }

    /// Takes this directory, which need not exist yet.
    pub fn at(path: PathBuf) -> Directory {
        there().insert(path.clone());
        Directory(path)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps the directory.
    pub fn keep(self) {
        there().remove(&self.0);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if there().contains(&self.0) {
            remove(&self.0);
            there().remove(&self.0);
        }
    }
}

/// Removes all directories, because the process is about to end. A thread that makes or drops one afterwards waits
/// until the process ends.
pub fn remove_all() {
    let there = there();
    there.iter().for_each(|path| remove(path));
    std::mem::forget(there);
}

/// Removes a directory in which threads of an engine may still be making files. If files remain, the user has to remove
/// them.
fn remove(path: &Path) {
    for _ in 0..100 {
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn there() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_go_unless_they_are_kept() {
        // Proves that each directory is removed with its value, wherever it is dropped, and that a kept directory
        // stays.
        let made = || {
            let directory = Directory::new(&std::env::temp_dir()).unwrap();
            std::fs::create_dir(directory.path().join("inside")).unwrap();
            directory
        };
        let (gone, kept) = (made(), made());
        let paths = [gone.path().to_owned(), kept.path().to_owned()];
        drop(gone);
        kept.keep();
        assert!(!paths[0].exists() && paths[1].exists());
        std::fs::remove_dir_all(&paths[1]).unwrap();
    }
}
