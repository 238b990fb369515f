//! Shows the progress of a command, if there is a terminal.

use braiddb::recovery::{Progress, RecoveryStage};
use braiddb::storage::{File, FileStorage, Holder, LockGuard, OpenMode, Result, Space, Storage};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the display is refreshed while nothing arrives.
const TICK: Duration = Duration::from_millis(200);

/// A counter of bytes with a known or unknown total. Shows the rate and the remaining time.
#[derive(Debug)]
pub struct Bytes(ProgressBar);

impl Bytes {
    /// Starts at zero. `total` is the number of bytes to expect, and `what` is shown after the numbers.
    pub fn new(what: &'static str, total: Option<u64>) -> Bytes {
        let template = match total {
            Some(_) => "{wide_bar} {bytes}/{total_bytes} {msg}, {bytes_per_sec}, {eta} left",
            None => "{spinner} {bytes} {msg}, {bytes_per_sec}, for {elapsed}",
        };
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        bar.set_message(what);
        bar.enable_steady_tick(TICK);
        Bytes(bar)
    }

    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A writer of rows as text. Shows the number of rows, the bytes with their rate, and the remaining time, estimated
/// from the rows.
pub struct Written<W> {
    to: W,
    bar: ProgressBar,
    bytes: u64,
}

impl<W: Write> Written<W> {
    /// Starts at zero. `rows` is the number of rows to expect; without it, nothing is shown.
    pub fn new(to: W, rows: Option<u64>) -> Written<W> {
        let bar = rows.map_or_else(ProgressBar::hidden, ProgressBar::new);
        let style =
            ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} rows, {msg}, {eta} left");
        bar.set_style(style.expect("the template is well formed"));
        Written { to, bar, bytes: 0 }
    }

    /// Counts a row that was written.
    pub fn row(&self) {
        self.bar.inc(1);
    }
}

impl<W: Write> Write for Written<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        if !self.bar.is_hidden() {
            let rate = self.bytes as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
            self.bar.set_message(format!("{}, {}/s", HumanBytes(self.bytes), HumanBytes(rate as u64)));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W> Drop for Written<W> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The storage of a database that is read. Counts how much of its files was read.
#[derive(Debug)]
pub struct Watched {
    files: FileStorage,
    reading: Arc<Reading>,
}

/// Counts the bytes read from all files.
#[derive(Debug)]
struct Reading {
    bar: ProgressBar,
    /// The offset up to which each file was read.
    read: Mutex<HashMap<String, u64>>,
}

#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn File>,
    reading: Arc<Reading>,
}

/// Removes the progress bar when dropped. The directory may be read further.
#[derive(Debug)]
pub struct Watch(Arc<Reading>);

impl Watched {
    /// Starts at zero. The bar is shown until the [`Watch`] is dropped.
    pub fn new(files: FileStorage) -> (Watched, Watch) {
        let bar = ProgressBar::new(total_bytes(&files).unwrap_or(0));
        let template = "{wide_bar} {bytes}/{total_bytes} {msg}, {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
        bar.set_message("read");
        let reading = Arc::new(Reading { bar, read: Mutex::default() });
        (Watched { files, reading: reading.clone() }, Watch(reading))
    }
}

/// The size of all files in bytes.
fn total_bytes(files: &FileStorage) -> Result<u64> {
    files.list()?.iter().map(|name| files.open(name, OpenMode::Read)?.len_bytes()).sum()
}

impl Watch {
    /// Shows what is being read.
    pub fn show(&self, progress: &Progress) {
        let of = match progress.stage {
            RecoveryStage::Checkpoint => "checkpoint rows",
            // Recovery counts changes, verification and salvage count records.
            RecoveryStage::Log => "log entries",
        };
        self.0.bar.set_message(format!("read, {} {of}", indicatif::HumanCount(progress.done)));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.bar.finish_and_clear();
    }
}

impl Reading {
    /// Records that a file was read up to `end`. Bytes that are read again do not count.
    fn note(&self, name: &str, end: u64) {
        if self.bar.is_finished() {
            return;
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let before = read.entry(name.to_owned()).or_default();
        self.bar.inc(end.saturating_sub(*before));
        *before = end.max(*before);
    }
}

impl Storage for Watched {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.files.open(name, mode)?;
        Ok(Box::new(WatchedFile { file, reading: self.reading.clone() }))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.files.list()
    }

    fn strangers(&self) -> Result<Vec<String>> {
        self.files.strangers()
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }

    fn sync_directory(&self) -> Result<()> {
        self.files.sync_directory()
    }

    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        self.files.lock(holder)
    }

    fn space(&self) -> Result<Option<Space>> {
        self.files.space()
    }

    fn path(&self) -> Option<&Path> {
        self.files.path()
    }
}

impl File for WatchedFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.file.read_at(offset, buffer)?;
        self.reading.note(self.file.name(), offset + bytes as u64);
        Ok(bytes)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.file.write_at(offset, data)
    }

    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.file.preallocate(offset, bytes)
    }

    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.file.truncate(len_bytes)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn write_back(&self, offset: u64, bytes: u64) {
        self.file.write_back(offset, bytes);
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Proves that each byte of a directory counts once, however often it is read, up to the size of all files, and
    /// that reads after the end of the bar change nothing.
    #[test]
    fn bytes_count_once() {
        let path = std::env::temp_dir().join(format!("braid-watched-{}", std::process::id()));
        let files = FileStorage::create(&path).unwrap();
        for (name, bytes) in [("a", 100), ("b", 50)] {
            files.open(name, OpenMode::CreateNew).unwrap().write_all_at(0, &vec![1; bytes]).unwrap();
        }
        let (watched, watch) = Watched::new(files);
        let bar = watched.reading.bar.clone();
        assert_eq!((bar.length(), bar.position()), (Some(150), 0));
        let read = |name: &str, from: u64, bytes: usize| {
            let file = watched.open(name, OpenMode::Read).unwrap();
            file.read_exact_at(from, &mut vec![0; bytes]).unwrap();
            bar.position()
        };
        assert_eq!(
            [read("a", 0, 10), read("a", 0, 60), read("b", 0, 50), read("a", 20, 30)],
            [10, 60, 110, 110]
        );
        assert_eq!(read("a", 60, 40), 150);
        drop(watch);
        assert!(bar.is_finished());
        std::fs::remove_dir_all(path).unwrap();
    }
}
