//! Models of reads and overwriters under weak memory: each publishes first, and then looks.

use super::reader_log::{ReaderLog, Readers};
use crate::record::{TICK, Timestamp};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::loom::{Planted, check};
use loom::thread;

const RECORD: u32 = 7;
const NEVER: Timestamp = Timestamp(0);

/// The clock, and one worker's log, as the scheme uses them.
struct Model {
    clock: AtomicU64,
    log: ReaderLog,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model { clock: AtomicU64::new(TICK), log: ReaderLog::new(2, 4) })
    }

    /// Returns the moment just after the last commit, as the registry does.
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.load(Ordering::Acquire)).after()
    }

    /// Overwrites the record: draws a timestamp, and looks which transactions have read the record.
    fn overwrite(&self) -> (Timestamp, Readers) {
        let at = Timestamp(self.clock.fetch_add(TICK, Ordering::AcqRel) + TICK);
        fence(Ordering::SeqCst); // as in `last_reader`
        (at, self.log.readers(NEVER, at, |id| id == RECORD))
    }
}

/// Checks that the reader, which committed at `read_at`, was found if it committed earlier.
fn judge(read_at: Timestamp, (at, readers): (Timestamp, Readers)) {
    if read_at < at {
        let is_found = match readers {
            Readers::Until(last) => last >= read_at,
            Readers::Wait => true,
        };
        assert!(is_found, "read at {read_at:?}, overwritten at {at:?}: {readers:?}");
    }
}

/// Proves that a transaction that overwrites what a reader has read finds the reader in the log, if the reader commits
/// earlier.
#[test]
fn readers_are_found() {
    check("publish, then look", &[Planted::Fences], || {
        let model = Model::new();
        let overwriter = thread::spawn({
            let model = Arc::clone(&model);
            move || model.overwrite()
        });
        let entry = model.log.enter([RECORD].into_iter(), false, false);
        fence(Ordering::SeqCst); // as in `draw`
        let at = model.now();
        assert!(model.log.stamp(entry, at));
        judge(at, overwriter.join().expect("no panic"));
    });
}

/// Proves the same for readers that are in no log because they were declared read-only.
#[test]
fn untracked_readers_are_found() {
    check("announce, then look", &[Planted::Fences], || {
        let model = Model::new();
        let overwriter = thread::spawn({
            let model = Arc::clone(&model);
            move || model.overwrite()
        });
        let at = model.log.open_untracked(|| model.now());
        judge(at, overwriter.join().expect("no panic"));
    });
}
