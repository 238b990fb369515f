//! Directories of databases that are made for a measurement or a check and removed with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Those that are there.
static THERE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory that is removed with it.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// One within `parent`, named after this process.
    pub fn new(parent: &Path) -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // only uniqueness counts
        Directory::at(parent.join(format!("braid-bench-{}-{number}", std::process::id())))
    }

    /// This one, which need not be there yet.
    pub fn at(path: PathBuf) -> Directory {
        there().insert(path.clone());
        Directory(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves it where it is.
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

/// Removes all that are there: the process is about to end.
pub fn remove_all() {
    let paths = there().clone();
    paths.iter().for_each(|path| remove(path));
}

/// Removes a directory, in which threads of an engine may still be making files. What is left is the user's to remove.
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
        // Proves that each goes with its value, wherever it is dropped, and one that is kept stays.
        let made = || {
            let directory = Directory::new(&std::env::temp_dir());
            std::fs::create_dir_all(directory.path().join("inside")).unwrap();
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
