//! What every storage does while nothing crashes and nothing fails, as one table that each implementation passes. A new
//! implementation adds its line to `implementations`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::storage::SimulatedStorage;
use braiddb::storage::{
    Cause, File, FileStorage, Holder, LOCK_NAME, MemoryStorage, NAME_BYTES_MAX, OpenMode, Operation, Storage,
};
use std::io::ErrorKind;
use std::path::PathBuf;

type Case = (&'static str, fn(&dyn Storage));

const CASES: [Case; 16] = [
    ("created files are listed, sorted", created_files_are_listed),
    ("a name is created once", a_name_is_created_once),
    ("missing files are reported", missing_files_are_reported),
    ("bad names are refused", bad_names_are_refused),
    ("what was written is read", what_was_written_is_read),
    ("a gap is zeros", a_gap_is_zeros),
    ("reads end with the file", reads_end_with_the_file),
    ("handles see each other's writes", handles_see_each_other),
    ("a handle opened to read writes nothing", read_only_handles_write_nothing),
    ("a cut file grows by zeros", a_cut_file_grows_by_zeros),
    ("preallocation keeps what is there", preallocation_keeps_what_is_there),
    ("a rename replaces", a_rename_replaces),
    ("handles outlive names", handles_outlive_names),
    ("the lock is exclusive", the_lock_is_exclusive),
    ("threads write side by side", threads_write_side_by_side),
    ("limits are errors", limits_are_errors),
];

/// A directory of a test's own, removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch(case: usize) -> Scratch {
    let path = std::env::temp_dir().join(format!("braid-contract-{case}-{}", std::process::id()));
    let _left = std::fs::remove_dir_all(&path);
    Scratch(path)
}

/// Runs every case on a storage of its own.
fn check(implementation: &str, storage: impl Fn(usize) -> Box<dyn Storage>) {
    for (number, (name, case)) in CASES.iter().enumerate() {
        println!("{implementation}: {name}");
        case(&*storage(number));
    }
}

/// The file system's storage keeps the contract.
#[test]
fn the_file_system() {
    for (number, (name, case)) in CASES.iter().enumerate() {
        println!("file system: {name}");
        let scratch = scratch(number);
        case(&FileStorage::create(&scratch.0).unwrap());
    }
}

/// The storage in memory keeps the contract.
#[test]
fn memory() {
    check("memory", |_| Box::new(MemoryStorage::new(1 << 20)));
}

/// The simulated storage keeps the contract while no fault is injected.
#[test]
fn simulated() {
    check("simulated", |case| Box::new(SimulatedStorage::new(case as u64, 1 << 20)));
}

/// The simulated storage keeps the contract when reads and writes are short and slow: callers notice nothing.
#[test]
fn simulated_with_short_calls() {
    use braid_sim::storage::{Fault, FaultRule};
    let mut struck = 0;
    for (number, (name, case)) in CASES.iter().enumerate() {
        println!("simulated, short: {name}");
        let storage = SimulatedStorage::new(number as u64, 1 << 20);
        storage.inject(FaultRule::every(Operation::Read, 2, Fault::Short));
        storage.inject(FaultRule::every(Operation::Write, 2, Fault::Short));
        storage.inject(FaultRule::every(None, 3, Fault::Slow { ticks: 10 }));
        case(&storage);
        struck += storage.faults_injected();
    }
    assert!(struck > 100, "{struck} faults");
}

fn create(storage: &dyn Storage, name: &str) -> Box<dyn File> {
    storage.open(name, OpenMode::CreateNew).unwrap()
}

/// Returns all bytes of a file.
fn bytes(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len_bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn holder(program: &str) -> Holder {
    Holder { pid: 17, program: program.to_string(), started_s: 1 }
}

fn created_files_are_listed(storage: &dyn Storage) {
    assert!(storage.list().unwrap().is_empty());
    for name in ["b", "a", "wal-00000001.log", "C_d"] {
        assert_eq!(create(storage, name).len_bytes().unwrap(), 0);
    }
    storage.sync_directory().unwrap();
    assert_eq!(storage.list().unwrap(), ["C_d", "a", "b", "wal-00000001.log"]);
    storage.remove("a").unwrap();
    assert_eq!(storage.list().unwrap(), ["C_d", "b", "wal-00000001.log"]);
}

fn a_name_is_created_once(storage: &dyn Storage) {
    create(storage, "a").write_all_at(0, b"first").unwrap();
    let error = storage.open("a", OpenMode::CreateNew).unwrap_err();
    assert_eq!((error.operation(), error.kind()), (Operation::Create, ErrorKind::AlreadyExists));
    assert!(error.file().ends_with('a'), "{error}");
    assert_eq!(bytes(&*storage.open("a", OpenMode::Read).unwrap()), b"first");
}

fn missing_files_are_reported(storage: &dyn Storage) {
    create(storage, "there");
    for (error, operation) in [
        (storage.open("a", OpenMode::Read).unwrap_err(), Operation::Open),
        (storage.open("a", OpenMode::ReadWrite).unwrap_err(), Operation::Open),
        (storage.remove("a").unwrap_err(), Operation::Remove),
        (storage.rename("a", "there").unwrap_err(), Operation::Rename),
    ] {
        assert_eq!((error.operation(), error.kind()), (operation, ErrorKind::NotFound));
        assert!(error.to_string().starts_with(&format!("cannot {operation} \"")), "{error}");
        assert!(error.file().ends_with('a'), "{error}");
    }
    assert_eq!(storage.list().unwrap(), ["there"]);
}

fn bad_names_are_refused(storage: &dyn Storage) {
    create(storage, &"n".repeat(NAME_BYTES_MAX));
    create(storage, "good");
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    for name in ["", ".", "..", ".hidden", "a/b", "../a", "a b", "é", "a\0", LOCK_NAME, &long] {
        let refused = [
            storage.open(name, OpenMode::CreateNew).map(drop),
            storage.open(name, OpenMode::Read).map(drop),
            storage.remove(name),
            storage.rename(name, "other"),
            storage.rename("good", name),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert!(matches!(error.cause(), Cause::Name), "{name:?}: {error}");
        }
    }
    assert_eq!(storage.list().unwrap().len(), 2);
}

fn what_was_written_is_read(storage: &dyn Storage) {
    let file = create(storage, "a");
    let data: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
    file.write_all_at(0, &data).unwrap();
    file.write_all_at(700, b"over").unwrap();
    file.write_all_at(data.len() as u64, b"end").unwrap();
    file.write_all_at(3, b"").unwrap();
    file.sync_data().unwrap();
    let mut expected = data;
    expected[700..704].copy_from_slice(b"over");
    expected.extend_from_slice(b"end");
    assert_eq!(bytes(&*file), expected);
    drop(file);
    let file = storage.open("a", OpenMode::ReadWrite).unwrap();
    assert_eq!(bytes(&*file), expected);
    let mut middle = [0; 600];
    file.read_exact_at(400, &mut middle).unwrap();
    assert_eq!(middle, expected[400..1000]);
}

fn a_gap_is_zeros(storage: &dyn Storage) {
    let file = create(storage, "a");
    file.write_all_at(3, b"x").unwrap();
    file.write_all_at(5000, b"y").unwrap();
    let mut expected = vec![0; 5001];
    (expected[3], expected[5000]) = (b'x', b'y');
    assert_eq!(bytes(&*file), expected);
}

fn reads_end_with_the_file(storage: &dyn Storage) {
    let file = create(storage, "a");
    file.write_all_at(0, b"12345").unwrap();
    let mut buffer = [9; 8];
    let read = file.read_at(3, &mut buffer).unwrap();
    assert!((1..=2).contains(&read), "{read}");
    assert_eq!(buffer[..read], b"45"[..read]);
    assert_eq!(buffer[read..], [9; 8][read..]);
    for offset in [5, 6, 1 << 40] {
        assert_eq!(file.read_at(offset, &mut buffer).unwrap(), 0);
    }
    assert_eq!(file.read_at(0, &mut []).unwrap(), 0);
    let error = file.read_exact_at(2, &mut buffer).unwrap_err();
    assert!(matches!(error.cause(), Cause::EndOfFile { len_bytes: 5 }), "{error}");
    assert_eq!((error.operation(), error.offset()), (Operation::Read, Some(2)));
}

fn handles_see_each_other(storage: &dyn Storage) {
    let writer = create(storage, "a");
    let reader = storage.open("a", OpenMode::Read).unwrap();
    writer.write_all_at(0, b"one").unwrap();
    assert_eq!(bytes(&*reader), b"one");
    writer.truncate(2).unwrap();
    assert_eq!(bytes(&*reader), b"on");
}

fn read_only_handles_write_nothing(storage: &dyn Storage) {
    create(storage, "a").write_all_at(0, b"kept").unwrap();
    let file = storage.open("a", OpenMode::Read).unwrap();
    for (error, operation) in [
        (file.write_at(0, b"x").unwrap_err(), Operation::Write),
        (file.write_all_at(0, b"x").unwrap_err(), Operation::Write),
        (file.truncate(0).unwrap_err(), Operation::Truncate),
        (file.preallocate(0, 9).unwrap_err(), Operation::Preallocate),
    ] {
        assert_eq!(error.operation(), operation);
        assert!(matches!(error.cause(), Cause::ReadOnly), "{error}");
    }
    assert_eq!(bytes(&*file), b"kept");
}

fn a_cut_file_grows_by_zeros(storage: &dyn Storage) {
    let file = create(storage, "a");
    file.write_all_at(0, &[7; 2000]).unwrap();
    file.truncate(600).unwrap();
    assert_eq!(bytes(&*file), [7; 600]);
    file.truncate(1500).unwrap();
    assert_eq!(bytes(&*file), [[7; 600].to_vec(), vec![0; 900]].concat());
    file.truncate(100).unwrap();
    file.write_all_at(300, &[8; 300]).unwrap();
    assert_eq!(bytes(&*file), [vec![7; 100], vec![0; 200], vec![8; 300]].concat());
    file.truncate(0).unwrap();
    assert!(bytes(&*file).is_empty());
}

fn preallocation_keeps_what_is_there(storage: &dyn Storage) {
    let file = create(storage, "a");
    file.preallocate(0, 0).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 0);
    file.write_all_at(100, &[7; 1000]).unwrap();
    file.preallocate(50, 5000).unwrap();
    let expected = [vec![0; 100], vec![7; 1000], vec![0; 3950]].concat();
    assert_eq!(bytes(&*file), expected);
    file.preallocate(0, 10).unwrap();
    assert_eq!(bytes(&*file), expected);
}

fn a_rename_replaces(storage: &dyn Storage) {
    create(storage, "old").write_all_at(0, b"old").unwrap();
    let new = create(storage, "new");
    new.write_all_at(0, b"new").unwrap();
    let old = storage.open("old", OpenMode::Read).unwrap();
    storage.rename("new", "old").unwrap();
    storage.sync_directory().unwrap();
    assert_eq!(storage.list().unwrap(), ["old"]);
    assert_eq!(bytes(&*storage.open("old", OpenMode::Read).unwrap()), b"new");
    assert_eq!(bytes(&*old), b"old");
    storage.rename("old", "old").unwrap();
    storage.rename("old", "third").unwrap();
    new.write_all_at(3, b"er").unwrap();
    assert_eq!(storage.list().unwrap(), ["third"]);
    assert_eq!(bytes(&*storage.open("third", OpenMode::Read).unwrap()), b"newer");
}

fn handles_outlive_names(storage: &dyn Storage) {
    let first = create(storage, "a");
    first.write_all_at(0, b"first").unwrap();
    storage.remove("a").unwrap();
    let second = create(storage, "a");
    second.write_all_at(0, b"2nd").unwrap();
    storage.sync_directory().unwrap();
    first.write_all_at(5, b"!").unwrap();
    first.sync_data().unwrap();
    assert_eq!(bytes(&*first), b"first!");
    drop(first);
    assert_eq!(bytes(&*second), b"2nd");
}

fn the_lock_is_exclusive(storage: &dyn Storage) {
    let guard = storage.lock(&holder("first")).unwrap();
    let error = storage.lock(&holder("second")).unwrap_err();
    assert_eq!((error.operation(), error.kind()), (Operation::Lock, ErrorKind::WouldBlock));
    let Cause::Locked(Some(other)) = error.cause() else { panic!("{error}") };
    assert_eq!(*other, holder("first"));
    assert!(error.to_string().contains("first (process 17) since 1970-01-01 00:00:01 UTC"), "{error}");
    assert!(storage.list().unwrap().is_empty());
    drop(guard);
    let _guard = storage.lock(&holder("second")).unwrap();
    let error = storage.lock(&holder("first")).unwrap_err();
    assert!(error.to_string().contains("second"), "{error}");
}

fn threads_write_side_by_side(storage: &dyn Storage) {
    let file = create(storage, "a");
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let file = &file;
            scope.spawn(move || {
                for i in 0..50 {
                    let offset = (4 * i + thread) * 512;
                    file.write_all_at(offset, &[thread as u8 + 1; 512]).unwrap();
                    let mut read = [0; 512];
                    file.read_exact_at(offset, &mut read).unwrap();
                    assert_eq!(read, [thread as u8 + 1; 512]);
                }
                file.sync_data().unwrap();
            });
        }
    });
    for (sector, bytes) in bytes(&*file).chunks(512).enumerate() {
        assert_eq!(bytes, [sector as u8 % 4 + 1; 512]);
    }
    assert_eq!(file.len_bytes().unwrap(), 200 * 512);
}

fn limits_are_errors(storage: &dyn Storage) {
    let file = create(storage, "a");
    file.write_all_at(0, b"kept").unwrap();
    for error in [
        file.write_at(u64::MAX - 1, b"xyz").unwrap_err(),
        file.preallocate(u64::MAX - 1, 3).unwrap_err(),
        file.truncate(u64::MAX).unwrap_err(),
    ] {
        let kind = error.kind();
        let is_known =
            matches!(kind, ErrorKind::FileTooLarge | ErrorKind::InvalidInput | ErrorKind::StorageFull);
        assert!(is_known, "{error}: {kind:?}");
        assert!(error.offset().is_some(), "{error}");
    }
    assert_eq!(bytes(&*file), b"kept");
    let space = storage.space().unwrap();
    assert!(space.is_none_or(|space| space.free_bytes <= space.total_bytes && space.total_bytes > 0));
}

/// A storage with a limit takes what fits, says when it is full, stays whole, and continues when files are removed.
#[test]
fn a_full_storage_says_so() {
    let storages: [Box<dyn Storage>; 2] =
        [Box::new(MemoryStorage::new(8192)), Box::new(SimulatedStorage::new(1, 8192))];
    for storage in storages {
        let free = || storage.space().unwrap().unwrap().free_bytes;
        let (a, b) = (create(&*storage, "a"), create(&*storage, "b"));
        a.preallocate(0, 4096).unwrap();
        b.write_all_at(0, &[1; 2048]).unwrap();
        assert_eq!(free(), 2048);
        for error in [b.preallocate(2048, 4096).unwrap_err(), b.write_all_at(2048, &[1; 4096]).unwrap_err()] {
            assert!(error.is_full(), "{error}");
        }
        a.write_all_at(0, &[1; 4096]).unwrap();
        b.truncate(1024).unwrap();
        assert_eq!(free(), 3072);
        storage.remove("a").unwrap();
        assert_eq!(free(), 3072, "a handle is open still");
        drop(a);
        assert_eq!(free(), 7168);
        b.write_all_at(1024, &[2; 7168]).unwrap();
        assert_eq!(free(), 0);
        assert_eq!(bytes(&*b), [vec![1; 1024], vec![2; 7168]].concat());
    }
}
