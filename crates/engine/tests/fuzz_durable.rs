//! Runs the fuzzer's targets for durable files on pseudo-random bytes, so they are exercised without the fuzzer. All
//! memory that the readers ask for is counted. The engine's own memory is bounded by its limit.

use braiddb::suspend::Seeded;
use durable::Case;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "../../../fuzz/durable/mod.rs"]
mod durable;

struct Counting;

thread_local! {
    /// The memory that the thread has in use, and its maximum. Other tests and the harness do not count. The count
    /// would be wrong if another thread freed the memory, but the readers start no threads.
    static USED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn take(bytes: usize) {
    let used = USED.get() + bytes as isize;
    USED.set(used);
    PEAK.set(PEAK.get().max(used));
}

fn give(bytes: usize) {
    USED.set(USED.get() - bytes as isize);
}

// SAFETY: every call goes to the system's allocator, and is only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        take(bytes);
        give(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(p, layout, bytes) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Reads what each seed makes of a target. The memory in use at a time stays below `base_bytes` plus `factor` times
/// the files. The readers must find enough that is good, or the target would not get far.
fn check(target: fn(&[u8]) -> Case, seeds: u64, factor: u64, base_bytes: u64, good_min: u64) {
    let mut good = 0;
    for seed in 0..seeds {
        let mut random = Seeded::new(seed);
        let len = random.next_u64() % 3000;
        // A third of the inputs has only small numbers, so no rare choices are made in them.
        let mask = [0xff, 0xff, 0x0f][seed as usize % 3];
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8 & mask).collect();
        let case = target(&bytes);
        let (file_bytes, before) = (case.bytes, USED.get());
        PEAK.set(before);
        let outcome = catch_unwind(AssertUnwindSafe(|| case.read()));
        let peak_bytes = (PEAK.get() - before) as u64;
        assert!(outcome.is_ok(), "seed {seed}");
        assert!(
            peak_bytes <= base_bytes + factor * file_bytes,
            "seed {seed}: {peak_bytes} bytes of memory for {file_bytes} of files"
        );
        good += outcome.unwrap_or_default();
    }
    assert!(good >= good_min, "{good} good");
}

/// Proves that no files of a log make their reader panic, or take more than twice the files' memory.
#[test]
fn logs() {
    check(durable::log, 6000, 2, 2 << 10, 20_000);
}

/// Proves the same of identities, manifests and files of rows. A table without rows takes eight bytes of a manifest
/// and about 180 in memory, twice while a list of tables grows.
#[test]
fn checkpoints() {
    check(durable::checkpoints, 6000, 48, 4 << 10, 5_000);
}

/// Proves the same of catalog entries.
#[test]
fn catalog_entries() {
    check(durable::catalog, 6000, 3, 512, 1000);
}

/// Proves the same of a whole directory that is opened, apart from the memory that any database takes. Also proves that
/// what opens once opens again with the same content.
#[test]
fn directories() {
    check(durable::directory, 3000, 8, 256 << 10, 400);
}
