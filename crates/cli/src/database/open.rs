//! Opens the database in a directory, with a progress bar if there is a terminal.

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

/// Recovers the database in this directory for reading.
pub fn read(path: &Path) -> Result<Database, Failure> {
    let ((storage, watch), clock) = (Watched::new(existing(path)?), Arc::new(SystemClock::default()));
    let (storage, options) = (Arc::new(storage), Options::default());
    let opened = Database::read_with(storage, options, clock, &mut |progress| watch.show(progress));
    opened.map_err(|error| advise(error, path))
}

/// Opens the database in this directory, or creates it if there is none.
pub fn open_or_create(path: &Path) -> Result<Database, Failure> {
    recover(FileStorage::create(path)?, path)
}

/// Creates a new database in an empty directory.
pub fn create(path: &Path) -> Result<Database, Failure> {
    fill_empty(path, |storage| recover(storage.clone(), path))
}

/// Opens a directory whose files show that it is a database's.
pub fn existing(path: &Path) -> Result<FileStorage, Failure> {
    let none = |why: &str| format!("there is no database in {}: {why}", path.display());
    let storage = FileStorage::open(path).map_err(|error| none(&error.to_string()))?;
    match Identity::read(&storage) {
        Ok(None) if was_begun(&storage, path) => Err(none(
            "the program that should create it, such as `braid load`, ended before it stored anything: run it again",
        )
        .into()),
        Ok(None) => Err(none("the directory has no database files").into()),
        // The caller reports damage.
        Ok(Some(_)) | Err(_) => Ok(storage),
    }
}

/// Returns true if the creation of a database in the directory was interrupted. The directory then has only the files
/// from before anything is stored: the lock, and an identity that was not published.
fn was_begun(storage: &FileStorage, path: &Path) -> bool {
    let has_lock = path.join(LOCK_NAME).is_file();
    has_lock && storage.list().is_ok_and(|names| names.iter().all(|name| name == "database.new"))
}

/// Fills a directory that is empty or missing. If `fill` fails, a directory that was created for this is removed again.
pub fn fill_empty<R>(
    path: &Path,
    fill: impl FnOnce(&FileStorage) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let is_empty = match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true, // or it is no directory, as creating it will report
    };
    if !is_empty {
        return Err(format!("{} is not empty: choose a new or empty directory", path.display()).into());
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

/// Prints what recovery has skipped or cut off, and whether disk space is missing.
fn tell(db: &Database) {
    let Some(recovery) = db.recovery() else { return };
    let used =
        recovery.checkpoint.map_or("the log alone".into(), |used| format!("checkpoint {used} and the log"));
    for (number, error) in &recovery.damaged_checkpoints {
        eprintln!("checkpoint {number} cannot be used, so the database was opened from {used}: {error}");
    }
    if let Some(cut) = &recovery.cut {
        eprintln!("the database was not closed in order: {cut}");
    }
    // The database is open nevertheless, for reads and checkpoints.
    if let LogCondition::Refusing { cause } = db.statistics().log_condition {
        eprintln!("changes cannot be committed at present: {cause}");
    }
}

/// Adds advice to the error.
pub fn advise(error: Error, path: &Path) -> Failure {
    let path = path.display();
    let advice = match &error {
        Error::Storage(error) if is_locked(error) => {
            "stop that process first; `braid backup` can copy a database that is in use".to_string()
        }
        // Nothing is damaged, and the message says what to do.
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
    fn new() -> Bar {
        Bar(ProgressBar::no_length())
    }

    fn show(&self, progress: &Progress) {
        let (what, template) = match (progress.stage, progress.total) {
            (RecoveryStage::Checkpoint, Some(_)) => {
                ("checkpoint rows", "{wide_bar} {human_pos}/{human_len} {msg}")
            }
            (RecoveryStage::Checkpoint, None) => ("checkpoint rows", "{spinner} {human_pos} {msg}"),
            (RecoveryStage::Log, _) => ("log changes", "{spinner} {human_pos} {msg}"),
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
