//! The directory of a database that may be new, and what of it goes away again.

use braiddb::checkpoint::Identity;
use braiddb::storage::FileStorage;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory as it was before a database was opened or made in it.
pub struct Place {
    pub path: PathBuf,
    /// There was no database.
    pub is_new: bool,
    /// The directory was there.
    was_there: bool,
    /// Files that were in the directory before the load.
    before: HashSet<OsString>,
}

impl Place {
    pub fn look(path: &Path) -> Place {
        let has_database = FileStorage::open(path).is_ok_and(|storage| {
            // (What cannot be read is somebody's.)
            !matches!(Identity::read(&storage), Ok(None))
        });
        Place {
            path: path.into(),
            is_new: !has_database,
            was_there: path.exists(),
            before: names(path).unwrap_or_default().into_iter().collect(),
        }
    }

    /// Removes the files of the new database, which must be closed, and its directory if the load has made that, too.
    pub fn clear(&self) -> io::Result<()> {
        assert!(self.is_new, "only what was made is removed");
        for name in names(&self.path)? {
            if !self.before.contains(&name) {
                fs::remove_file(self.path.join(name))?;
            }
        }
        if self.was_there { Ok(()) } else { fs::remove_dir(&self.path) }
    }
}

fn names(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
}
