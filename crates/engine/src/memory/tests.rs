use super::chunks::Chunks;
use super::classes::{
    BATCH_OBJECTS, CLASSES, POOLED_BYTES_MAX, SMALL_BYTES_MAX, batch_objects, class_bytes, class_of,
    class_within,
};
use super::rest::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use super::{Kind, Memory, OutOfMemory, Pool, Slab};
use std::collections::HashSet;
use std::sync::Arc;

const PLENTY: u64 = 1 << 30;

/// A small generator for random tests (xorshift). Its seed is printed.
struct Random(u64);
impl Random {
    fn new(seed: u64) -> Random {
        println!("seed {seed}");
        Random(seed)
    }
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Proves that every size has the least class that it fits in, aligned, and that the class wastes at most a quarter.
#[test]
fn classes_fit_tightly() {
    for bytes in 1..=POOLED_BYTES_MAX {
        let class = class_of(bytes);
        assert!(class < CLASSES && class_bytes(class) >= bytes);
        assert!(class_bytes(class).is_multiple_of(16));
        assert!(class == 1 || class_bytes(class - 1) < bytes, "{bytes}");
        assert!(bytes < SMALL_BYTES_MAX || class_bytes(class) - bytes <= bytes / 4);
    }
    assert_eq!(class_bytes(CLASSES - 1), POOLED_BYTES_MAX);
    for bytes in (16..=2 * POOLED_BYTES_MAX).step_by(16) {
        let class = class_within(bytes);
        assert!(class_bytes(class) <= bytes);
        assert!(class + 1 == CLASSES || class_bytes(class + 1) > bytes);
    }
    for class in 0..=class_of(SMALL_BYTES_MAX) {
        assert_eq!(batch_objects(class), BATCH_OBJECTS, "the hot path takes it for granted");
    }
}

/// Proves that charges beyond the limit are refused whatever their kind, and that bytes are counted by kind.
#[test]
fn account_keeps_the_limit() {
    let memory = Memory::new(100);
    memory.charge(Kind::Index, 60).unwrap();
    assert_eq!(memory.charge(Kind::Other, 41), Err(OutOfMemory));
    assert_eq!(memory.charge(Kind::Other, u64::MAX), Err(OutOfMemory));
    memory.charge(Kind::Other, 40).unwrap();
    assert_eq!((memory.used_bytes(Kind::Index), memory.used_bytes(Kind::Other)), (60, 40));
    memory.release(Kind::Index, 60);
    assert_eq!((memory.total_used_bytes(), memory.limit_bytes()), (40, 100));
}

/// Proves that slab ids start at 1, are unique, and name zeroed blocks that do not overlap.
#[test]
fn slab_hands_out_each_block_once() {
    let memory = Memory::new(PLENTY);
    let slab = Slab::reserve(&memory, Kind::Records, 64, 1 << 20).unwrap();
    for expected in 1..=100_000u32 {
        let id = slab.allocate().unwrap();
        assert_eq!(id, expected);
        let words = slab.at(id).cast::<[u64; 8]>();
        // SAFETY: this test has allocated the block.
        assert_eq!(unsafe { words.read() }, [0; 8]);
        // SAFETY: this test has allocated the block.
        unsafe { words.write([u64::from(id); 8]) };
    }
    for id in 1..=100_000u32 {
        // SAFETY: this test has allocated the block.
        assert_eq!(unsafe { slab.at(id).cast::<[u64; 8]>().read() }, [u64::from(id); 8]);
    }
    assert_eq!(slab.used(), 100_000);
    assert!(memory.used_bytes(Kind::Records) >= 6_400_000);
    drop(slab);
    assert_eq!(memory.total_used_bytes(), 0);
}

/// Proves that runs of blocks overlap neither each other nor single blocks, up to the last block, and that freed blocks
/// come first.
#[test]
fn slab_runs() {
    let memory = Memory::new(PLENTY);
    let slab = Slab::reserve(&memory, Kind::Records, 64, 10_000).unwrap();
    let mut random = Random::new(7);
    let mut last = 0;
    loop {
        let count = 1 + random.below(200) as u32;
        match slab.allocate_run(count) {
            Ok(run) => {
                assert!(run.start == last + 1 && run.end > run.start && run.end <= run.start + count);
                last = run.end - 1;
            }
            Err(OutOfMemory) => break,
        }
        if let Ok(id) = slab.allocate_next() {
            last += 1;
            assert_eq!(id, last);
        }
    }
    assert_eq!((u64::from(last), slab.used()), (slab.capacity(), slab.capacity()));
    // SAFETY: no thread uses the block.
    unsafe { slab.free(17) };
    assert_eq!(slab.allocate_run(5), Ok(17..18));
    assert_eq!(slab.allocate_run(5), Err(OutOfMemory));
}

/// Proves that a small slab takes little memory, though it reserves much.
#[test]
fn slab_starts_small() {
    let memory = Memory::new(PLENTY);
    let slab = Slab::reserve(&memory, Kind::Records, 32, u32::MAX).unwrap();
    assert_eq!(memory.total_used_bytes(), 0);
    slab.allocate().unwrap();
    assert_eq!(memory.used_bytes(Kind::Records), 64 << 10);
}

/// Proves that freed blocks are handed out again before new ones.
#[test]
fn slab_reuses() {
    let memory = Memory::new(PLENTY);
    let slab = Slab::reserve(&memory, Kind::Records, 64, 1000).unwrap();
    let ids: Vec<u32> = (0..10).map(|_| slab.allocate().unwrap()).collect();
    for &id in &ids[3..6] {
        // SAFETY: no thread uses the block.
        unsafe { slab.free(id) };
    }
    assert_eq!(slab.used(), 7);
    let again: HashSet<u32> = (0..3).map(|_| slab.allocate().unwrap()).collect();
    assert_eq!(again, ids[3..6].iter().copied().collect());
    assert_eq!(slab.allocate(), Ok(11));
}

/// Proves that a slab uses the account to the last page, fails cleanly, and works again after a free and after other
/// memory was released.
#[test]
fn slab_survives_out_of_memory() {
    let memory = Memory::new(300 << 10);
    let slab = Slab::reserve(&memory, Kind::Records, 64, 1 << 20).unwrap();
    memory.charge(Kind::Other, 100 << 10).unwrap();
    let mut ids = Vec::new();
    while let Ok(id) = slab.allocate() {
        ids.push(id);
    }
    assert_eq!(memory.used_bytes(Kind::Records), 200 << 10);
    assert_eq!(ids.len(), (200 << 10) / 64 - 1);
    assert_eq!(slab.allocate(), Err(OutOfMemory));
    // SAFETY: no thread uses the block.
    unsafe { slab.free(ids[7]) };
    assert_eq!(slab.allocate(), Ok(ids[7]));
    assert_eq!(slab.allocate(), Err(OutOfMemory));
    memory.release(Kind::Other, 100 << 10);
    assert_eq!(slab.allocate(), Ok(ids.len() as u32 + 1));
}

/// Proves that a slab hands out exactly as many blocks as were asked for.
#[test]
fn slab_ends_at_its_capacity() {
    let memory = Memory::new(PLENTY);
    for (bytes, blocks) in [(64, 100u32), (8, 1), (1 << 20, 5), (4096, 17)] {
        let slab = Slab::reserve(&memory, Kind::Index, bytes, blocks).unwrap();
        assert_eq!(slab.capacity(), u64::from(blocks));
        for expected in 1..=blocks {
            assert_eq!(slab.allocate(), Ok(expected));
        }
        assert_eq!(slab.allocate(), Err(OutOfMemory));
    }
    assert_eq!(memory.total_used_bytes(), 0);
}

/// Proves that blocks larger than a page are handed out while memory is short.
#[test]
fn slab_of_big_blocks_near_the_limit() {
    let memory = Memory::new(3 << 20);
    let slab = Slab::reserve(&memory, Kind::Index, 1 << 20, 100).unwrap();
    assert_eq!((slab.allocate(), slab.allocate()), (Ok(1), Ok(2)));
    assert_eq!(slab.allocate(), Err(OutOfMemory));
}

/// Proves that a reservation that the system cannot grant is halved until it can.
#[test]
fn slab_halves_its_reservation() {
    let memory = Memory::new(PLENTY);
    let slab = Slab::reserve(&memory, Kind::Other, 1 << 20, u32::MAX).unwrap();
    assert!(slab.capacity() < u64::from(u32::MAX));
    let id = slab.allocate().unwrap();
    // SAFETY: this test has allocated the block.
    unsafe { slab.at(id).write_bytes(1, 1 << 20) };
}

/// Proves that threads never get the same block at the same time, while some blocks are freed and the limit is reached.
#[test]
fn slab_is_concurrent() {
    let memory = Memory::new(1 << 20);
    let slab = Arc::new(Slab::reserve(&memory, Kind::Records, 16, 1 << 20).unwrap());
    let threads: Vec<_> = (1..=4u64)
        .map(|thread| {
            let slab = Arc::clone(&slab);
            std::thread::spawn(move || {
                let mut random = Random::new(thread);
                let mut mine = Vec::new();
                for _ in 0..100_000 {
                    match slab.allocate() {
                        Ok(id) if random.below(3) > 0 => {
                            // SAFETY: the block is allocated to this thread.
                            unsafe { slab.at(id).cast::<u64>().write(thread << 32 | u64::from(id)) };
                            mine.push(id);
                        }
                        // SAFETY: the block is allocated to this thread, which does not use it.
                        Ok(id) => unsafe { slab.free(id) },
                        Err(OutOfMemory) => {
                            for id in mine.drain(..) {
                                // SAFETY: the block is allocated to this thread.
                                let word = unsafe { slab.at(id).cast::<u64>().read() };
                                assert_eq!(word, thread << 32 | u64::from(id));
                                // SAFETY: the block is allocated to this thread, which forgets it.
                                unsafe { slab.free(id) };
                            }
                        }
                    }
                }
                mine.len() as u64
            })
        })
        .collect();
    let kept: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(slab.used(), kept);
}

/// Proves that live objects keep their contents through random allocations and frees of all sizes, between two pools.
#[test]
fn pool_objects_do_not_overlap() {
    let memory = Memory::new(PLENTY);
    let mut pools = [Pool::new(&memory, Kind::Versions), Pool::new(&memory, Kind::Versions)];
    let mut random = Random::new(42);
    let mut live: Vec<(*mut u8, usize, u8)> = Vec::new();
    for round in 0..200_000usize {
        if live.len() < 100 || random.below(2) == 0 {
            let bytes = [40, SMALL_BYTES_MAX, 3000, POOLED_BYTES_MAX + 100][round % 4];
            let bytes = 1 + random.below(bytes);
            let p = pools[random.below(2)].allocate(bytes).unwrap();
            assert!(p.addr().is_multiple_of(16));
            // SAFETY: the object was just allocated with these bytes.
            unsafe { p.write_bytes(round as u8, bytes) };
            live.push((p, bytes, round as u8));
        } else {
            let (p, bytes, mark) = live.swap_remove(random.below(live.len()));
            // SAFETY: the object is live, and was written with these bytes.
            let contents = unsafe { std::slice::from_raw_parts(p, bytes) };
            assert!(contents.iter().all(|&byte| byte == mark));
            // SAFETY: the object is from a pool of this memory, and is forgotten.
            unsafe { pools[random.below(2)].free(p, bytes) };
        }
    }
}

/// Proves that a worker that allocates and another that frees need no more than a few batches, for small and for big
/// classes.
#[test]
fn pools_feed_each_other() {
    for bytes in [48, 2000, 30_000] {
        let memory = Memory::new(16 << 20);
        let mut producer = Pool::new(&memory, Kind::Versions);
        let mut consumer = Pool::new(&memory, Kind::Versions);
        for _ in 0..200_000 {
            let p = producer.allocate(bytes).unwrap();
            // SAFETY: the object was just allocated, and is not used.
            unsafe { consumer.free(p, bytes) };
        }
        assert!(memory.used_bytes(Kind::Versions) <= 2 << 20, "{memory:?}");
    }
}

/// Proves that the next pool uses everything that a dropped pool had, down to the last rest of a chunk.
#[test]
fn pools_leave_everything_behind() {
    let memory = Memory::new(PLENTY);
    for round in 0..10_000 {
        let mut pool = Pool::new(&memory, Kind::Other);
        let p = pool.allocate(16 + round % 700).unwrap();
        // SAFETY: the object was just allocated, and is not used.
        unsafe { pool.free(p, 16 + round % 700) };
    }
    assert!(memory.total_used_bytes() <= 512 << 10, "{memory:?}");
}

/// Proves that a pool takes nothing before it is used, little at first, and whole huge pages later.
#[test]
fn pool_chunks_grow() {
    let memory = Memory::new(PLENTY);
    let mut pool = Pool::new(&memory, Kind::Index);
    assert_eq!(memory.total_used_bytes(), 0);
    pool.allocate(100).unwrap();
    assert_eq!(memory.total_used_bytes(), CHUNK_BYTES_MIN as u64);
    let mut last = memory.total_used_bytes();
    let mut steps = Vec::new();
    for _ in 0..100_000 {
        pool.allocate(100).unwrap();
        let total = memory.total_used_bytes();
        if total != last {
            steps.push(total - last);
        }
        last = total;
    }
    assert!(steps.is_sorted() && steps.last() == Some(&(CHUNK_BYTES_MAX as u64)), "{steps:?}");
}

/// Proves that a pool fails at the limit, changes nothing by failing, and works again after a free.
#[test]
fn pool_survives_out_of_memory() {
    let memory = Memory::new(1 << 20);
    let mut pool = Pool::new(&memory, Kind::Versions);
    let mut objects = Vec::new();
    while let Ok(p) = pool.allocate(64) {
        objects.push(p);
    }
    assert_eq!(objects.len(), (1 << 20) / 64, "the limit is used to the last chunk");
    assert_eq!(pool.allocate(10_000), Err(OutOfMemory));
    assert_eq!(pool.allocate(1 << 20), Err(OutOfMemory));
    assert_eq!(memory.total_used_bytes(), 1 << 20);
    for p in objects.drain(..) {
        // SAFETY: the object was allocated above with 64 bytes, and is forgotten.
        unsafe { pool.free(p, 64) };
    }
    for _ in 0..(1 << 20) / 64 {
        pool.allocate(64).unwrap();
    }
    assert_eq!(pool.allocate(64), Err(OutOfMemory));
}

/// Proves that large objects are charged by size, and given back when freed or else with the account.
#[test]
fn large_objects_are_counted() {
    let memory = Memory::new(1 << 20);
    let mut pool = Pool::new(&memory, Kind::Versions);
    let p = pool.allocate(600_000).unwrap();
    assert_eq!(memory.used_bytes(Kind::Versions), 600_000);
    assert_eq!(pool.allocate(600_000), Err(OutOfMemory));
    // SAFETY: the object was allocated above, and is forgotten.
    unsafe { pool.free(p, 600_000) };
    assert_eq!(memory.total_used_bytes(), 0);
    pool.allocate(600_000).unwrap();
}

/// Proves that pools of several threads never hand out an object twice while they exchange batches.
#[test]
fn pools_are_concurrent() {
    let memory = Memory::new(PLENTY);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..3).map(|_| std::sync::mpsc::sync_channel::<(usize, usize, u64)>(1000)).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(me, receiver)| {
            let (memory, next) = (Arc::clone(&memory), senders[(me + 1) % 3].clone());
            std::thread::spawn(move || {
                let mut pool = Pool::new(&memory, Kind::Versions);
                for turn in 0..50_000u64 {
                    let (bytes, mark) = (16 + (turn as usize % 20) * 16, (me as u64) << 32 | turn);
                    let p = pool.allocate(bytes).unwrap();
                    // SAFETY: the object was just allocated.
                    unsafe { p.cast::<u64>().write(mark) };
                    // The receiver may have ended; then the object goes with the account.
                    let _ = next.try_send((p.expose_provenance(), bytes, mark));
                    if let Ok((address, bytes, mark)) = receiver.try_recv() {
                        let p = std::ptr::with_exposed_provenance_mut::<u8>(address);
                        // SAFETY: the sender gave the object to this thread.
                        assert_eq!(unsafe { p.cast::<u64>().read() }, mark);
                        // SAFETY: the sender gave the object to this thread, which forgets it.
                        unsafe { pool.free(p, bytes) };
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Proves that debug builds overwrite freed objects.
#[cfg(debug_assertions)]
#[test]
fn freed_objects_are_poisoned() {
    let memory = Memory::new(PLENTY);
    let mut pool = Pool::new(&memory, Kind::Versions);
    let p = pool.allocate(64).unwrap();
    // SAFETY: the object was just allocated. It is read below as bytes of the chunk, which lives as long as the memory.
    unsafe { pool.free(p, 64) };
    // SAFETY: the bytes belong to the chunk, which lives as long as the memory.
    let beyond_link = unsafe { std::slice::from_raw_parts(p.add(8), 56) };
    assert!(beyond_link.iter().all(|&byte| byte == 0xDD));
}

/// Proves that the chunks of many small pools share huge pages, and lie side by side without overlapping.
#[test]
fn small_chunks_share_regions() {
    let mut chunks = Chunks::new();
    let sizes = [CHUNK_BYTES_MIN, 4 * CHUNK_BYTES_MIN, CHUNK_BYTES_MIN, CHUNK_BYTES_MAX / 2];
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for _ in 0..10 {
        for bytes in sizes {
            let chunk = chunks.take(bytes).unwrap();
            assert_eq!(chunk.bytes, bytes);
            // SAFETY: the chunk was just taken, and no other pool has it.
            assert!(unsafe { std::slice::from_raw_parts(chunk.next, bytes) }.iter().all(|&b| b == 0));
            taken.push((chunk.next.addr(), bytes));
        }
    }
    taken.sort_unstable();
    assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{taken:x?}");
    let pages: HashSet<usize> = taken.iter().map(|(at, _)| at / CHUNK_BYTES_MAX).collect();
    let bytes: usize = taken.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(pages.len(), bytes.div_ceil(CHUNK_BYTES_MAX), "no huge page is taken before it is needed");
}
