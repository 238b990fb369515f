//! Helpers for the tests of several commands.

use std::fs;
use std::path::PathBuf;

/// A directory that is removed when dropped.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Creates an empty directory; `name` distinguishes the directories of one process.
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("braid-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the system's directory for temporary files can be written");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
