//! What only a real file system shows. What every implementation has in common is in the table of
//! `sim/tests/storage_contract.rs`.

use super::*;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory of a test's own, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braid-storage-{test}-{}", std::process::id()));
        let _left = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a scratch directory can be made");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn holder(program: &str) -> Holder {
    Holder { pid: 7, program: program.to_string(), started_s: 0 }
}

/// Blocks that the file really has, in bytes.
#[cfg(unix)]
fn reserved(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).expect("the file is there")) * 512
}

/// Proves that a directory is removed again if it was created for work that fails before it has made a file, and only then.
#[test]
fn directories_for_refused_work_go_again() {
    let scratch = Scratch::new("refused");
    let refused = |name: &str, fills: &dyn Fn(&FileStorage)| {
        let path = scratch.0.join(name);
        let refused = FileStorage::create_for(&path, |storage| -> Result<()> {
            fills(storage);
            Err(StorageError::new(Operation::Lock, "it", Cause::Locked(None)))
        });
        assert!(refused.is_err());
        path.exists()
    };
    let lock = |storage: &FileStorage| drop(storage.lock(&holder("a")).unwrap());
    assert!(!refused("new", &|_| ()));
    assert!(!refused("locked", &lock));
    assert!(refused("begun", &|storage| drop(storage.open("a", OpenMode::CreateNew).unwrap())));
    assert!(refused("of-others", &|_| fs::write(scratch.0.join("of-others/letter"), "").unwrap()));
    fs::create_dir(scratch.0.join("there")).unwrap();
    assert!(refused("there", &lock));
    let done: Result<()> = FileStorage::create_for(scratch.0.join("done"), |_| Ok(()));
    assert!(done.is_ok() && scratch.0.join("done").exists());
}

/// Proves that preallocation reserves blocks, and that a longer length alone does not.
#[cfg(unix)]
#[test]
fn preallocation_reserves_blocks() {
    let scratch = Scratch::new("reserve");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let file = storage.open("a", OpenMode::CreateNew).unwrap();
    file.truncate(1 << 20).unwrap();
    assert!(reserved(&scratch.0.join("a")) < 1 << 20);
    file.preallocate(0, 1 << 20).unwrap();
    assert!(reserved(&scratch.0.join("a")) >= 1 << 20);
    file.preallocate(1 << 20, 5000).unwrap();
    assert_eq!(file.len_bytes().unwrap(), (1 << 20) + 5000);
}

/// Proves that preallocation by writing, for file systems that cannot do better, keeps what was there, fills
/// holes, and reserves blocks.
#[cfg(unix)]
#[test]
fn preallocation_by_writing_keeps_what_is_there() {
    let scratch = Scratch::new("zeros");
    let path = scratch.0.join("a");
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    let file = system::Positioned::new(file);
    let (hole, end) = (300_000, 700_001);
    assert_eq!(file.write_at(0, b"begin").unwrap(), 5);
    assert_eq!(file.write_at(hole, b"middle").unwrap(), 6);
    file.preallocate_by_writing(2, end - 2).unwrap();
    let bytes = fs::read(&path).unwrap();
    let mut expected = vec![0; end as usize];
    expected[..5].copy_from_slice(b"begin");
    expected[hole as usize..hole as usize + 6].copy_from_slice(b"middle");
    assert!(bytes == expected, "the bytes are those from before, and zeros");
    assert!(reserved(&path) >= end);
}

/// Proves that a directory is created once, opened again, and that a file is none.
#[test]
fn directories_are_opened_and_created() {
    let scratch = Scratch::new("create");
    let inner = scratch.0.join("inner");
    let missing = FileStorage::open(&inner).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(missing.to_string().contains("inner"), "{missing}");
    FileStorage::create(&inner).unwrap().open("a", OpenMode::CreateNew).unwrap();
    assert_eq!(FileStorage::create(&inner).unwrap().list().unwrap(), ["a"]);
    assert_eq!(FileStorage::open(inner.join("a")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    let orphan = FileStorage::create(scratch.0.join("x").join("y")).unwrap_err();
    assert_eq!((orphan.operation(), orphan.kind()), (Operation::Create, io::ErrorKind::NotFound));
}

/// Proves that what others put into the directory is not taken for a file: it is passed over, or cannot be opened.
#[test]
fn strange_entries_are_passed_over() {
    let scratch = Scratch::new("strange");
    let storage = FileStorage::open(&scratch.0).unwrap();
    fs::create_dir(scratch.0.join("folder")).unwrap();
    fs::write(scratch.0.join("with space"), "").unwrap();
    fs::write(scratch.0.join(".hidden"), "").unwrap();
    let _guard = storage.lock(&holder("me")).unwrap();
    assert_eq!(storage.list().unwrap(), ["folder"]);
    assert_eq!(storage.strangers().unwrap(), [".hidden", "with space"]);
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        let error = storage.open("folder", mode).unwrap_err();
        assert!(error.to_string().contains("it is a directory"), "{error}");
    }
}

/// Proves that a lock left behind by a process that was killed holds nobody up, and that its text is believed
/// only while the lock is held.
#[test]
fn a_lock_file_left_behind_is_no_lock() {
    let scratch = Scratch::new("left");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let path = scratch.0.join(LOCK_NAME);
    fs::write(&path, holder("killed").text()).unwrap();
    let guard = storage.lock(&holder("second")).unwrap();
    let error = FileStorage::open(&scratch.0).unwrap().lock(&holder("third")).unwrap_err();
    assert!(matches!(error.cause(), Cause::Locked(Some(other)) if *other == holder("second")), "{error}");
    assert!(error.to_string().contains("in use by second (process 7) since 1970-01-01"), "{error}");
    fs::write(&path, "nonsense").unwrap();
    let error = storage.lock(&holder("third")).unwrap_err();
    assert!(matches!(error.cause(), Cause::Locked(None)), "{error}");
    fs::write(&path, holder("second").text()).unwrap();
    drop(guard);
    assert_eq!(fs::read(&path).unwrap(), b"");
    drop(storage.lock(&holder("third")).unwrap());
    // What a crash of the machine may leave of a text.
    fs::write(&path, [0; 40]).unwrap();
    drop(storage.lock(&holder("third")).unwrap());
}

/// Proves that a file of somebody's that is called as the lock is, is neither written nor cut, whether it was there
/// before the lock was taken or has come since.
#[test]
fn somebodys_file_is_no_lock() {
    let scratch = Scratch::new("somebodys");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let path = scratch.0.join(LOCK_NAME);
    for text in ["my notes".to_string(), "x".repeat(5000), holder("me").text() + "and more\n"] {
        fs::write(&path, &text).unwrap();
        let error = storage.lock(&holder("me")).unwrap_err();
        assert_eq!(error.operation(), Operation::Lock);
        assert!(error.to_string().contains("lock\": it holds something else than the lock"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
    }
    fs::remove_file(&path).unwrap();
    let guard = storage.lock(&holder("me")).unwrap();
    fs::write(&path, "my notes").unwrap();
    drop(guard);
    assert_eq!(fs::read(&path).unwrap(), b"my notes");
}

/// Proves that a symbolic link, a directory or a pipe in the lock's place is an error that says so, at once, and that
/// what a link leads to stays as it is, or is not made.
#[cfg(unix)]
#[test]
fn only_a_regular_file_is_a_lock() {
    let scratch = Scratch::new("irregular");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let (path, other) = (scratch.0.join(LOCK_NAME), scratch.0.join("other"));
    let refused = |what: &str| {
        let error = storage.lock(&holder("me")).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains("lock\""), "{error}");
    };
    std::os::unix::fs::symlink(&other, &path).unwrap();
    refused("it is a symbolic link");
    assert!(!other.exists());
    fs::write(&other, "").unwrap();
    refused("it is a symbolic link");
    assert_eq!(fs::read(&other).unwrap(), b"");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("it is a directory");
    fs::remove_dir(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    refused("it is no regular file");
}

/// Proves that a link that takes the lock's place after it was looked at is not followed.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_link_is_not_followed() {
    let scratch = Scratch::new("followed");
    let (path, other) = (scratch.0.join("link"), scratch.0.join("other"));
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let directory = directory::Directory::open(&scratch.0).unwrap();
    for access in [directory::Access::Read, directory::Access::ReadWrite, directory::Access::Lock] {
        assert!(directory.open_file("link", access).is_err());
    }
    assert!(!other.exists());
}

/// Proves that a lock holds between processes, names the other one, and ends when that one is killed.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_holds_between_processes() {
    const DIRECTORY: &str = "BRAID_TEST_LOCK_DIRECTORY";
    if let Ok(directory) = std::env::var(DIRECTORY) {
        // The child: takes the lock, says so, and waits to be killed.
        let _guard = FileStorage::open(directory).unwrap().lock(&Holder::this_process(1)).unwrap();
        fs::write(Path::new(&std::env::var(DIRECTORY).unwrap()).join("held"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let scratch = Scratch::new("processes");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "storage::tests::a_lock_holds_between_processes"])
        .env(DIRECTORY, &scratch.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let tries = (0..6000).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        scratch.0.join("held").exists()
    });
    let error = storage.lock(&holder("second"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(tries.is_some(), "the child has taken the lock");
    let error = error.unwrap_err();
    assert!(matches!(error.cause(), Cause::Locked(Some(other)) if other.pid == child.id()), "{error}");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    storage.lock(&holder("second")).unwrap();
}

/// Proves that a lock ends when its guard is dropped, although a process that is being started by another thread has
/// the lock's file open for a moment.
#[cfg(unix)]
#[test]
fn a_lock_ends_while_processes_are_started() {
    let scratch = Scratch::new("starts");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let failed = (0..2000).find_map(|_| storage.lock(&holder("me")).err());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

/// Proves that a directory that cannot be written can be listed, and that the rest fails and says why. The
/// directory is one of the kernel's, which refuses even the superuser.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_directory_says_so() {
    let storage = FileStorage::open("/proc/self").unwrap();
    assert!(storage.list().unwrap().contains(&"stat".to_string()));
    let file = storage.open("stat", OpenMode::Read).unwrap();
    assert_ne!(file.read_at(0, &mut [0; 8]).unwrap(), 0);
    let error = file.write_at(0, b"x").unwrap_err();
    assert_eq!(error.to_string(), "cannot write \"/proc/self/stat\": it was opened only to read");
    for (error, operation) in [
        (storage.open("new", OpenMode::CreateNew).unwrap_err(), Operation::Create),
        (storage.lock(&holder("me")).unwrap_err(), Operation::Lock),
        (storage.remove("stat").unwrap_err(), Operation::Remove),
        (storage.rename("stat", "other").unwrap_err(), Operation::Rename),
    ] {
        assert_eq!(error.operation(), operation);
        assert!(matches!(error.cause(), Cause::Io(_)), "{error}");
        assert!(error.to_string().starts_with(&format!("cannot {operation} \"/proc/self/")), "{error}");
    }
}

/// Proves that calls that signals interrupt are made again, but not for ever.
#[test]
fn interrupted_calls_are_made_again() {
    let calls_of = |interrupts: u32| {
        let mut calls = 0;
        let done = uninterrupted(|| {
            calls += 1;
            if calls > interrupts { Ok(5) } else { Err(io::Error::from(io::ErrorKind::Interrupted)) }
        });
        (done.ok(), calls)
    };
    assert_eq!(calls_of(0), (Some(5), 1));
    assert_eq!(calls_of(3), (Some(5), 4));
    assert_eq!(calls_of(u32::MAX), (None, INTERRUPTS_MAX + 1));
}

/// Proves that a link, a pipe or a socket in the place of a file is listed, and an error at once to open, to read or to
/// write; that nothing is created through a dangling link; and that none is replaced by a new file.
#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let scratch = Scratch::new("irregular");
    let storage = FileStorage::open(&scratch.0).unwrap();
    let path = |name: &str| scratch.0.join(name);
    fs::write(path("file"), "content").unwrap();
    std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
    std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(storage.list().unwrap(), ["dangling", "file", "link", "pipe", "socket"]);
    for (name, said) in
        [("link", "symbolic"), ("dangling", "symbolic"), ("socket", "no regular"), ("pipe", "no regular")]
    {
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = storage.open(name, mode).unwrap_err();
            assert!(error.to_string().contains(said), "{name} {mode:?}: {error}");
        }
        assert_eq!(storage.open(name, OpenMode::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
    assert!(!path("nowhere").exists());
}
