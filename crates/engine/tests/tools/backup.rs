use super::*;
use braiddb::recovery::{Past, restore};
use braiddb::storage::{self, File, FileStorage, Holder, LockGuard, Space};
use braiddb::tools::backup;
use braiddb::{Durability, Serializable};
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: u64 = 500;
const EACH: i64 = 100;

/// A directory that is removed when this is dropped.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("braid-tools-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn accounts(db: &Database) -> Table<u64, i64> {
    db.table("accounts").unwrap()
}

fn filled(storage: &Arc<dyn Storage>) -> Database {
    let db = open(storage).unwrap();
    let table = accounts(&db);
    let filled =
        db.run_each((0..ACCOUNTS).collect(), async move |tx, key: &u64| tx.insert(table, *key, EACH).await);
    assert!(filled.wait().unwrap().iter().all(Result::is_ok));
    db
}

/// Moves money, and counts what it has done, until it is told to stop.
fn transfer(db: &Database, thread: u64, counted: &AtomicU64, stop: &AtomicBool) {
    let (table, counters): (_, Table<u64, u64>) = (accounts(db), db.table("counters").unwrap());
    for i in 1.. {
        let (from, to) = (i * 7 % ACCOUNTS, i * 13 % ACCOUNTS);
        let moved = db.run(async move |tx| {
            tx.put(counters, thread, i).await?;
            let (a, b) = (tx.get(table, from).await?.unwrap(), tx.get(table, to).await?.unwrap());
            if from != to {
                tx.put(table, from, a - 1).await?;
                tx.put(table, to, b + 1).await?;
            }
            Ok(())
        });
        moved.wait().unwrap();
        counted.store(i, Ordering::SeqCst);
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Runs writers, checkpoints, and copies by `copy`. Each copy must open, be consistent, and have what was acknowledged
/// before it began.
fn check_while_in_use(storage: &Arc<dyn Storage>, copy: impl Fn(&Database, u64) -> Arc<dyn Storage>) {
    let db = filled(storage);
    db.table::<u64, u64>("counters").unwrap();
    let (counted, stop) = ([AtomicU64::new(0), AtomicU64::new(0)], AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (thread, counted) in counted.iter().enumerate() {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || transfer(db, thread as u64, counted, stop));
        }
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                db.checkpoint().unwrap();
            }
        });
        for round in 0..20 {
            let before: Vec<u64> = counted.iter().map(|counted| counted.load(Ordering::SeqCst)).collect();
            let copied = open(&copy(&db, round)).unwrap();
            let tx = copied.begin().unwrap();
            let (mut sum, mut rows) = (0, tx.scan::<u64, i64, u64>(accounts(&copied), ..));
            while let Some((_, amount)) = rows.next().unwrap() {
                sum += amount;
            }
            assert_eq!(sum, ACCOUNTS as i64 * EACH);
            let counters: Table<u64, u64> = copied.table("counters").unwrap();
            for (thread, before) in before.into_iter().enumerate() {
                let after = tx.get(counters, thread as u64).unwrap().unwrap_or(0);
                assert!(after >= before, "writer {thread}: {after} of {before} acknowledged");
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_copy_in_memory_while_it_is_in_use() {
    // Proves it without the owner's help: only the files are read.
    let storage = memory();
    check_while_in_use(&storage, |_, _| {
        let to = memory();
        backup(&*storage, &*to).unwrap();
        to
    });
}

#[test]
fn a_copy_on_disk_while_it_is_in_use() {
    // Proves it on a file system, for the call of a database that has the files open.
    let directory = Directory::new("in-use");
    std::fs::create_dir_all(&directory.0).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::create(directory.0.join("database")).unwrap());
    check_while_in_use(&storage, |db, round| {
        let path = directory.0.join(format!("copy-{round}"));
        db.backup(&path).unwrap();
        Arc::new(FileStorage::open(path).unwrap())
    });
}

/// A directory in which something happens before every read and during it.
struct Restless {
    storage: Arc<dyn Storage>,
    happen: Arc<dyn Fn() + Send + Sync>,
}

struct RestlessFile {
    file: Box<dyn File>,
    happen: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl fmt::Debug for RestlessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl Storage for Restless {
    fn open(&self, name: &str, mode: OpenMode) -> storage::Result<Box<dyn File>> {
        assert_eq!(mode, OpenMode::Read, "a backup only reads");
        (self.happen)();
        let file = self.storage.open(name, mode)?;
        Ok(Box::new(RestlessFile { file, happen: self.happen.clone() }))
    }
    fn list(&self) -> storage::Result<Vec<String>> {
        self.storage.list()
    }
    fn remove(&self, _: &str) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn rename(&self, _: &str, _: &str) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn sync_directory(&self) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn lock(&self, _: &Holder) -> storage::Result<LockGuard> {
        panic!("a backup does without the lock")
    }
    fn space(&self) -> storage::Result<Option<Space>> {
        self.storage.space()
    }
}

impl File for RestlessFile {
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<usize> {
        (self.happen)();
        // A part of what was asked for. The rest is read later.
        let part = if buffer.len() > 512 { buffer.len().div_ceil(2) } else { buffer.len() };
        self.file.read_at(offset, &mut buffer[..part])
    }
    fn write_at(&self, _: u64, _: &[u8]) -> storage::Result<usize> {
        panic!("a backup only reads")
    }
    fn preallocate(&self, _: u64, _: u64) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn truncate(&self, _: u64) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn sync_data(&self) -> storage::Result<()> {
        panic!("a backup only reads")
    }
    fn len_bytes(&self) -> storage::Result<u64> {
        self.file.len_bytes()
    }
}

/// Copies a database. At every read, or at one only, this many keys are written and made durable, one by one. After
/// each `keys_per_step` keys, a step of a checkpoint is made. Returns the number of attempts.
fn check_restless(segment_bytes: u64, keys_per_read: u64, keys_per_step: u64, only: Option<u64>) -> u32 {
    let storage = memory();
    let options = Options { workers: 0, log_segment_bytes: segment_bytes, ..options() };
    let clock = Arc::new(SystemClock::default());
    let opened = Database::<Serializable>::open_stepped(
        storage.clone(),
        options,
        clock,
        braiddb::testing::PlantedDurability::None,
    );
    let (db, stepped) = opened.unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let (stepped, steps) = (Mutex::new(stepped), AtomicU64::new(0));
    let keys = Arc::new(AtomicU64::new(0));
    let written = keys.clone();
    let write = move || {
        let key = written.load(Ordering::SeqCst);
        let tx = db.begin().unwrap();
        tx.set_durability(Durability::Async).unwrap();
        tx.put(table, key, &value(1, segment_bytes as usize / 12)).unwrap();
        tx.commit().unwrap();
        let mut stepped = stepped.lock().unwrap();
        stepped.flush().unwrap();
        // Not for ever: a copy that is overtaken again and again is given up.
        if key.is_multiple_of(keys_per_step) && steps.fetch_add(1, Ordering::SeqCst) < 24 {
            stepped.checkpoint_step().unwrap();
        }
        written.store(key + 1, Ordering::SeqCst);
    };
    (0..50).for_each(|_| write());
    let reads = AtomicU64::new(0);
    let happen = Arc::new(move || {
        let read = reads.fetch_add(1, Ordering::SeqCst);
        let is_time = only.is_none_or(|only| only == read);
        (0..if is_time { keys_per_read } else { 0 }).for_each(|_| write());
    });
    let restless = Restless { storage: storage.clone(), happen };
    let (to, before) = (memory(), keys.load(Ordering::SeqCst));
    let done = backup(&restless, &*to).unwrap();
    let after = keys.load(Ordering::SeqCst);
    let copied: Vec<u64> = rows(&open(&to).unwrap(), "t").into_keys().collect();
    let count = copied.len() as u64;
    assert_eq!(copied, (0..count).collect::<Vec<_>>(), "a beginning of what was written");
    assert!((before..=after).contains(&count), "{before} were durable, {after} in the end: {count}");
    done.attempts
}

#[test]
fn a_copy_while_something_happens_at_every_read() {
    // Proves, without threads, that a copy is a beginning of what was committed, with everything that was durable
    // before, and that a copy begins again when its files are given up.
    let mut attempts = 0;
    for segment_bytes in [2048, 1 << 18] {
        for keys_per_read in [1, 3, 10] {
            let again = check_restless(segment_bytes, keys_per_read, u64::MAX, None);
            assert_eq!(again, 1, "as long as nothing is given up, the first copy is whole");
            for keys_per_step in [10, 30, 100] {
                attempts += check_restless(segment_bytes, keys_per_read, keys_per_step, None) - 1;
            }
        }
        for only in 0..100 {
            let again = check_restless(segment_bytes, 9, u64::MAX, Some(only));
            assert_eq!(again, 1, "nor if nothing happens but at read {only}");
        }
    }
    assert!(attempts > 0, "some copy has begun again");
}

#[test]
fn only_what_is_needed_is_copied() {
    // Proves that a copy has the newest checkpoint and the log from the checkpoint's start on, and that the copy
    // itself is good.
    let storage = memory();
    let db = filled(&storage);
    for round in 0..3 {
        put_all(&db, "t", 0..100, &value(round, 1000));
        db.checkpoint().unwrap();
    }
    put_all(&db, "t", 0..10, &value(9, 1000));
    let to = memory();
    let done = backup(&*storage, &*to).unwrap();
    assert_eq!((done.checkpoint, done.rows, done.records, done.attempts), (Some(3), ACCOUNTS + 100, 10, 1));
    assert_eq!((names(&*to, "checkpoint-").len(), names(&*to, "rows-").len()), (1, 2));
    assert!(names(&*to, "log-").len() < names(&*storage, "log-").len());
    assert_eq!(rows(&open(&to).unwrap(), "t"), rows(&db, "t"));
    let error = backup(&*storage, &*to).unwrap_err();
    assert!(matches!(error, Error::NotEmpty), "{error}");
}

#[test]
fn a_refused_copy_leaves_the_place_as_it_was() {
    // Proves that neither a backup nor a restoration leaves anything if the target has other files, or if there is
    // nothing to copy.
    let directory = Directory::new("refused");
    let (of_others, nothing, target) =
        (directory.0.join("others"), directory.0.join("nothing"), directory.0.join("target"));
    for path in [&of_others, &nothing, &target] {
        std::fs::create_dir_all(path).unwrap();
    }
    std::fs::write(of_others.join("letter"), "dear").unwrap();
    let database = directory.0.join("database");
    let db = Database::open(&database, options()).unwrap();
    put_all(&db, "t", 0..10, &value(1, 5));
    db.close().unwrap();
    let storage = |path: &Path| -> Arc<dyn Storage> { Arc::new(FileStorage::open(path).unwrap()) };
    let restored = |from: &Path, to: &Path| {
        let past = Past { from: storage(from), logs: Vec::new(), until: braiddb::wal::Until::End };
        restore(&past, storage(to), &options(), Arc::new(SystemClock::default()), &mut |_| {}).map(drop)
    };
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    let copied = backup(&*storage(&database), &*storage(&of_others));
    assert!(matches!(copied, Err(Error::NotEmpty)), "{copied:?}");
    let copied = restored(&database, &of_others);
    assert!(matches!(copied, Err(Error::NotEmpty)), "{copied:?}");
    assert_eq!(names(&of_others), 1);
    let copied = backup(&*storage(&nothing), &*storage(&target));
    assert!(matches!(copied, Err(Error::NoDatabase)), "{copied:?}");
    let made = restored(&nothing, &target);
    assert!(matches!(made, Err(Error::NoDatabase)), "{made:?}");
    assert_eq!((names(&target), names(&nothing)), (0, 0));
}

#[test]
fn a_database_without_a_log_or_a_checkpoint_or_files() {
    // Proves the ends of the range: the log alone, a checkpoint alone, and nothing.
    let storage = memory();
    let db = filled(&storage);
    let to = memory();
    assert_eq!(backup(&*storage, &*to).unwrap().checkpoint, None);
    assert_eq!(open(&to).unwrap().tables(), db.tables());
    assert!(matches!(backup(&*memory(), &*memory()), Err(Error::NoDatabase)));

    let directory = Directory::new("unlogged");
    std::fs::create_dir_all(&directory.0).unwrap();
    let unlogged = || Options { durability: Durability::None, ..options() };
    let db = Database::open(directory.0.join("database"), unlogged()).unwrap();
    put_all(&db, "t", 0..10, &value(1, 5));
    assert_eq!(db.backup(directory.0.join("copy")).unwrap().rows, 10);
    assert_eq!(rows(&Database::open(directory.0.join("copy"), unlogged()).unwrap(), "t").len(), 10);
    let in_memory = Database::in_memory(options()).unwrap();
    assert!(matches!(in_memory.backup(directory.0.join("none")), Err(Error::InMemory)));
}

#[test]
fn a_damaged_database_is_not_copied() {
    // Proves that damage is found when the copy is read, and that the copy is then removed.
    let storage = memory();
    drop(filled(&storage));
    let (segment, offset) = place_of(&*storage, 250);
    damage(&*storage, &segment, offset + 3);
    let to = memory();
    let error = backup(&*storage, &*to).unwrap_err();
    assert!(matches!(&error, Error::BackupFailed { reason, .. } if reason.contains(&segment)), "{error}");
    assert!(to.list().unwrap().is_empty());
}
