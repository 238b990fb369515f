//! The directory of a database that may be new, and the removal of a new database after a failed load.

use braiddb::checkpoint::Identity;
use braiddb::storage::FileStorage;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The state of a directory before a database was opened or created in it.
pub struct Place {
    pub path: PathBuf,
    /// The directory had no database.
    pub is_new: bool,
    /// The directory existed.
    was_there: bool,
    /// Files that were in the directory before the load.
    before: HashSet<OsString>,
}

impl Place {
    pub fn look(path: &Path) -> Place {
        let has_database = FileStorage::open(path).is_ok_and(|storage| {
            // An unreadable identity counts as a database: it may belong to someone.
            !matches!(Identity::read(&storage), Ok(None))
        });
        Place {
            path: path.into(),
            is_new: !has_database,
            was_there: path.exists(),
            before: names(path).unwrap_or_default().into_iter().collect(),
        }
    }

    /// Removes the files of the new database, which must be closed. Also removes the directory if the load created it.
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
