use super::local::free_versions;
use super::{Epochs, Local};
use crate::memory::Memory;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

fn database() -> (Arc<Epochs>, Arc<Memory>) {
    (Epochs::new(), Memory::new(1 << 30))
}

/// Counts its calls in the `AtomicU64` at `p`.
unsafe fn count(_: &Local, p: *mut u8, word: u64) {
    // SAFETY: the tests retire pointers to counters, which outlive the participants.
    unsafe { &*p.cast::<AtomicU64>() }.fetch_add(word, Ordering::Relaxed);
}

fn retire_count(local: &Local, counter: &AtomicU64) {
    let p = (&raw const *counter).cast::<u8>().cast_mut();
    // SAFETY: `count` may run at any time on any thread while the counter lives.
    unsafe { local.retire(p, 1, count) };
}

/// Proves that a lone participant reclaims its retired objects after its operations are over, not before.
#[test]
fn reclaims_after_grace() {
    let (epochs, memory) = database();
    let (local, counter) = (Local::new(&epochs, &memory), AtomicU64::new(0));
    local.enter();
    let stamp = local.now();
    retire_count(&local, &counter);
    for _ in 0..10 {
        local.refresh(Some(stamp));
    }
    assert_eq!((counter.load(Ordering::Relaxed), local.pending()), (0, 1));
    for _ in 0..3 {
        local.refresh(None);
    }
    assert_eq!((counter.load(Ordering::Relaxed), local.pending()), (1, 0));
    assert!(local.now() > stamp);
    local.leave();
}

/// Proves that another participant's operation holds reclamation back until it ends.
#[test]
fn waits_for_others() {
    let (epochs, memory) = database();
    let (writer, reader) = (Local::new(&epochs, &memory), Local::new(&epochs, &memory));
    let counter = AtomicU64::new(0);
    reader.enter();
    let stamp = reader.now();
    writer.enter();
    retire_count(&writer, &counter);
    for _ in 0..10 {
        writer.refresh(None);
        reader.refresh(Some(stamp));
    }
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    reader.leave();
    for _ in 0..3 {
        writer.refresh(None);
    }
    assert_eq!(counter.load(Ordering::Relaxed), 1);
    writer.leave();
}

/// Proves that an operation that started later does not hold reclamation back once the older ones have ended.
#[test]
fn operations_overlap() {
    let (epochs, memory) = database();
    let local = Local::new(&epochs, &memory);
    let counter = AtomicU64::new(0);
    local.enter();
    for _ in 0..20 {
        let stamp = local.now();
        retire_count(&local, &counter);
        local.refresh(Some(stamp));
    }
    assert!(counter.load(Ordering::Relaxed) >= 15);
    local.leave();
}

/// Proves that a participant that has left can still retire, refresh and reclaim.
#[test]
fn works_while_left() {
    let (epochs, memory) = database();
    let (local, counter) = (Local::new(&epochs, &memory), AtomicU64::new(0));
    retire_count(&local, &counter);
    assert!(!local.is_entered());
    for _ in 0..4 {
        local.refresh(None);
    }
    assert_eq!(counter.load(Ordering::Relaxed), 1);
}

/// Proves that other participants reclaim what a participant leaves behind, and not too early.
#[test]
fn orphans_are_adopted() {
    let (epochs, memory) = database();
    let (heir, reader) = (Local::new(&epochs, &memory), Local::new(&epochs, &memory));
    let counter = AtomicU64::new(0);
    reader.enter();
    let gone = Local::new(&epochs, &memory);
    gone.enter();
    (0..1000).for_each(|_| retire_count(&gone, &counter));
    drop(gone);
    (0..10).for_each(|_| heir.refresh(None));
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    reader.leave();
    (0..20).for_each(|_| heir.refresh(None));
    assert_eq!((counter.load(Ordering::Relaxed), heir.pending()), (1000, 0));
}

/// Proves that a participant that leaves with much retired hands it to others, and one with little keeps it.
#[test]
fn much_is_left_to_others() {
    const BYTES: u64 = 16 << 10;
    let (epochs, memory) = (Epochs::new(), Memory::new(4 << 20)); // much is 64 KiB
    let (leaver, other) = (Local::new(&epochs, &memory), Local::new(&epochs, &memory));
    other.enter();
    for (count, kept) in [(1, 1), (8, 0)] {
        leaver.enter();
        for _ in 0..count {
            let p = leaver.allocate(BYTES as usize).expect("memory");
            // SAFETY: no thread reaches it.
            unsafe { leaver.retire_version(p, BYTES) };
        }
        leaver.leave();
        leaver.entrust();
        assert_eq!((leaver.pending(), leaver.awaits_memory(), other.awaits_memory()), (kept, true, true));
    }
    other.leave();
    other.adopt();
    assert_eq!(other.pending(), 9);
    (0..4).for_each(|_| other.refresh(None));
    assert_eq!((other.pending(), other.awaits_memory()), (0, false));
}

/// Proves that one refresh reclaims a bounded number of objects, and a backlog still shrinks to nothing.
#[test]
fn work_is_bounded() {
    let (epochs, memory) = database();
    let (local, counter) = (Local::new(&epochs, &memory), AtomicU64::new(0));
    local.enter();
    (0..10_000).for_each(|_| retire_count(&local, &counter));
    let mut last = 0;
    for _ in 0..60 {
        local.refresh(None);
        let done = counter.load(Ordering::Relaxed);
        assert!(done - last <= 5000);
        last = done;
    }
    assert_eq!(last, 10_000);
}

/// Proves that the objects that wait are at most twice those that are retired between two refreshes, which their grace
/// takes.
#[test]
fn what_waits_follows_what_comes() {
    const EACH: usize = 2000;
    let (epochs, memory) = database();
    let (local, counter) = (Local::new(&epochs, &memory), AtomicU64::new(0));
    local.enter();
    for _ in 0..50 {
        (0..EACH).for_each(|_| retire_count(&local, &counter));
        local.refresh(None);
        assert!(local.pending() <= 2 * EACH, "{}", local.pending());
    }
}

/// Proves that reclamations may free and retire.
#[test]
fn reclamations_call_back() {
    thread_local!(static FREED: Cell<u64> = const { Cell::new(0) });
    unsafe fn again(local: &Local, p: *mut u8, word: u64) {
        if word > 0 {
            // SAFETY: only these tests know of the object.
            unsafe { local.retire(p, word - 1, again) };
        } else {
            FREED.set(FREED.get() + 1);
            // SAFETY: the object was allocated below with 100 bytes, and this is its last use.
            unsafe { local.free(p, 100) };
        }
    }
    let (epochs, memory) = database();
    let local = Local::new(&epochs, &memory);
    for _ in 0..10 {
        let p = local.allocate(100).unwrap();
        // SAFETY: never published.
        unsafe { local.retire(p, 3, again) };
    }
    (0..20).for_each(|_| local.refresh(None));
    assert_eq!((local.pending(), FREED.get()), (0, 10));
}

/// Proves that a participant may move between threads while it has left.
#[test]
fn moves_between_threads() {
    let (epochs, memory) = database();
    let mut local = Local::new(&epochs, &memory);
    for _ in 0..5 {
        local = std::thread::spawn(move || {
            local.enter();
            let p = local.allocate(64).unwrap();
            // SAFETY: never published.
            unsafe { local.retire(p, 64, free_versions) };
            local.refresh(None);
            local.leave();
            local
        })
        .join()
        .unwrap();
    }
    (0..4).for_each(|_| local.refresh(None));
    assert_eq!(local.pending(), 0);
}

/// Proves that retired objects and participants left at the end are neither reclaimed twice nor touched.
#[test]
fn may_end_with_something_retired() {
    let (epochs, memory) = database();
    let local = Local::new(&epochs, &memory);
    for bytes in [64, 100_000] {
        let p = local.allocate(bytes).unwrap();
        // SAFETY: never published.
        unsafe { local.retire(p, bytes as u64, free_versions) };
    }
    drop((epochs, memory));
    drop(local);
}

const OBJECT_BYTES: usize = 64;
const STRESS_TURNS: u64 = 30_000;

struct Stress {
    cells: [AtomicPtr<u64>; 4],
    stop: AtomicBool,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}

impl Stress {
    fn object(local: &Local, value: u64) -> *mut u64 {
        let p = local.allocate(OBJECT_BYTES).expect("the stress is bounded").cast::<u64>();
        for word in 0..OBJECT_BYTES / 8 {
            // SAFETY: just allocated with these bytes.
            unsafe { p.add(word).write(value) };
        }
        p
    }

    /// Checks that all words of an object are equal, and differ from the filling of freed memory.
    fn check(p: *const u64) {
        for word in (1..OBJECT_BYTES / 8).rev() {
            // SAFETY: an operation that started before the load of `p` is in flight.
            let (first, other) = unsafe { (p.read_volatile(), p.add(word).read_volatile()) };
            assert_eq!(first, other, "read after reclamation");
            assert_ne!(other, 0xDDDD_DDDD_DDDD_DDDD, "read after reclamation");
        }
    }

    /// Runs a worker that keeps two operations in flight, each holding what it read, and swaps now and then.
    fn work(&self, seed: u64, writes: bool) {
        let local = Local::new(&self.epochs, &self.memory);
        let mut random = seed;
        let mut turn = 0;
        local.enter();
        let mut held: [(u64, *const u64); 2] = [(local.now(), std::ptr::null()); 2];
        while if writes { turn < STRESS_TURNS } else { !self.stop.load(Ordering::Relaxed) } {
            turn += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let cell = &self.cells[(random >> 33) as usize % 4];
            let (_, p) = held[turn as usize % 2];
            if !p.is_null() {
                Self::check(p);
            }
            held[turn as usize % 2] = (local.now(), cell.load(Ordering::Acquire));
            if writes {
                let old = cell.swap(Self::object(&local, turn), Ordering::AcqRel);
                // SAFETY: the swap has unlinked it, and only this participant did so.
                unsafe { local.retire(old.cast(), OBJECT_BYTES as u64, free_versions) };
            }
            match random >> 60 {
                0 => {
                    local.leave();
                    local.enter();
                    held = [(local.now(), std::ptr::null()); 2];
                }
                1..8 => local.refresh(Some(held[0].0.min(held[1].0))),
                _ => {}
            }
        }
        local.leave();
    }
}

/// Proves that readers never see reclaimed memory while writers swap, retire and end, and that memory stays bounded.
#[test]
fn stress() {
    let (epochs, memory) = (Epochs::new(), Memory::new(64 << 20));
    let first = Local::new(&epochs, &memory);
    let cells = std::array::from_fn(|_| AtomicPtr::new(Stress::object(&first, 0)));
    let stress = Stress { cells, stop: AtomicBool::new(false), epochs, memory };
    std::thread::scope(|scope| {
        let readers: Vec<_> = [1, 2]
            .map(|seed| {
                scope.spawn({
                    let stress = &stress;
                    move || stress.work(seed, false)
                })
            })
            .into();
        for round in 0..3 {
            let writers = [3, 4].map(|seed| {
                scope.spawn({
                    let stress = &stress;
                    move || stress.work(seed + round, true)
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        }
        stress.stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    (0..2000).for_each(|_| first.refresh(None));
    assert_eq!(first.pending(), 0);
}
