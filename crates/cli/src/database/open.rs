//! Opening the database in a directory, with a progress bar where a terminal shows it.

pub use braid_bench::ending::Failure;

use super::progress::Watched;
use braiddb::checkpoint::{self, Identity};
use braiddb::metrics::{LogCondition, SystemClock};
use braiddb::recovery::{Progress, RecoveryStage};
use braiddb::storage::{Cause, FileStorage, LOCK_NAME, Storage, StorageError};
use braiddb::{Database, Error, Options, wal};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Arc;

/// The database in this directory, recovered to be read.
pub fn read(path: &Path) -> Result<Database, Failure> {
    let ((storage, watch), clock) = (Watched::new(existing(path)?), Arc::new(SystemClock::default()));
    let (storage, options) = (Arc::new(storage), Options::default());
    let opened = Database::read_with(storage, options, clock, &mut |progress| watch.show(progress));
    opened.map_err(|error| advise(error, path))
}

/// The database in this directory, which is created if there is none.
pub fn open_or_create(path: &Path) -> Result<Database, Failure> {
    recover(FileStorage::create(path)?, path)
}

/// A new database in an empty directory.
pub fn create(path: &Path) -> Result<Database, Failure> {
    fill_empty(path, |storage| recover(storage.clone(), path))
}

/// A directory that its files show to be a database's.
pub fn existing(path: &Path) -> Result<FileStorage, Failure> {
    let none = |why: &str| format!("there is no database in {}: {why}", path.display());
    let storage = FileStorage::open(path).map_err(|error| none(&error.to_string()))?;
    match Identity::read(&storage) {
        Ok(None) if was_begun(&storage, path) => Err(none(
            "what was to make one, such as `braid load`, ended before it had begun to store anything: run it again",
        )
        .into()),
        Ok(None) => Err(none("it has none of the files of one").into()),
        // The caller reports damage.
        Ok(Some(_)) | Err(_) => Ok(storage),
    }
}

/// Returns true if a database was being created in the directory: it has the files from before anything is stored, the lock
/// and an identity that was not published.
fn was_begun(storage: &FileStorage, path: &Path) -> bool {
    let has_lock = path.join(LOCK_NAME).is_file();
    has_lock && storage.list().is_ok_and(|names| names.iter().all(|name| name == "database.new"))
}

/// Fills a directory that is empty or not there. A directory that is created for that goes again if nothing comes of it.
pub fn fill_empty<R>(
    path: &Path,
    fill: impl FnOnce(&FileStorage) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let is_empty = match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true, // or no directory, as creating it will say
    };
    if !is_empty {
        return Err(
            format!("{} is not empty: choose a directory that is not there yet", path.display()).into()
        );
    }
    FileStorage::create_for(path, fill)
}

fn recover(storage: FileStorage, path: &Path) -> Result<Database, Failure> {
    let bar = Bar::new();
    let clock = Arc::new(SystemClock::default());
    let opened =
        Database::open_with(Arc::new(storage), Options::default(), clock, &mut |progress| bar.show(progress));
    let db = opened.map_err(|error| advise(error, path))?;
    drop(bar);
    tell(&db);
    Ok(db)
}

/// Messages on what recovery has skipped or cut off, and on missing disk space.
fn tell(db: &Database) {
    let Some(recovery) = db.recovery() else { return };
    for (number, error) in &recovery.damaged_checkpoints {
        eprintln!("checkpoint {number} is not used, an older one and the log stand in for it: {error}");
    }
    if let Some(cut) = &recovery.cut {
        eprintln!("the database was not closed in order: {cut}");
    }
    // It is open all the same, to be read and for checkpoints.
    if let LogCondition::Refusing { cause } = db.statistics().log_condition {
        eprintln!("nothing can be committed for now: {cause}");
    }
}

/// The error, with advice.
pub fn advise(error: Error, path: &Path) -> Failure {
    let path = path.display();
    let advice = match &error {
        Error::Storage(error) if is_locked(error) => {
            "stop that process first; `braid backup` copies a database that is in use".to_string()
        }
        // Nothing is damaged; the message says what to do.
        Error::Checkpoint(checkpoint::Error::UnsupportedVersion { .. })
        | Error::Log(wal::Error::UnsupportedVersion { .. } | wal::Error::UnknownRecord { .. }) => {
            return error.into();
        }
        Error::Checkpoint(_) | Error::Log(_) | Error::CatalogDamaged { .. } => format!(
            "`braid check db {path}` shows what is wrong, `braid salvage {path} NEW` copies what can be read"
        ),
        _ => return error.into(),
    };
    format!("{error}\n{advice}").into()
}

fn is_locked(error: &StorageError) -> bool {
    matches!(error.cause(), Cause::Locked(_))
}

/// A progress bar on the terminal, if there is one.
struct Bar(ProgressBar);

impl Bar {
    /// At the beginning.
    fn new() -> Bar {
        Bar(ProgressBar::no_length())
    }

    /// Shows it.
    fn show(&self, progress: &Progress) {
        let (what, template) = match (progress.stage, progress.total) {
            (RecoveryStage::Checkpoint, Some(_)) => {
                ("rows of the checkpoint", "{wide_bar} {human_pos}/{human_len} {msg}")
            }
            (RecoveryStage::Checkpoint, None) => ("rows of the checkpoint", "{spinner} {human_pos} {msg}"),
            (RecoveryStage::Log, _) => ("changes of the log", "{spinner} {human_pos} {msg}"),
        };
        if self.0.message() != what {
            self.0.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
            self.0.set_message(what);
        }
        self.0.update(|state| {
            state.set_pos(progress.done);
            if let Some(total) = progress.total {
                state.set_len(total);
            }
        });
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
