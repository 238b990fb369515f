//! Every kind of fault strikes, and is reported as documented.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::storage::{EVERYTHING, Fault, FaultRule, NOTHING, SimulatedStorage};
use braiddb::storage::{File, Holder, OpenMode, Operation, Storage};
use std::io::ErrorKind;

const CAPACITY: u64 = 1 << 20;

fn create(storage: &dyn Storage, name: &str) -> Box<dyn File> {
    storage.open(name, OpenMode::CreateNew).unwrap()
}

fn bytes(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// Makes a durable file `a` of `sectors` sectors of ones.
fn with_ones(seed: u64, sectors: usize) -> (SimulatedStorage, Box<dyn File>) {
    let storage = SimulatedStorage::new(seed, CAPACITY);
    let file = create(&storage, "a");
    file.write_all_at(0, &vec![1; sectors * 512]).unwrap();
    file.sync_data().unwrap();
    storage.sync_directory().unwrap();
    (storage, file)
}

/// Returns what a crash at this moment leaves in file `a`.
fn after_crash(storage: &SimulatedStorage, seed: u64) -> Vec<u8> {
    let storage = storage.crash(storage.boundary(), seed);
    bytes(&*storage.open("a", OpenMode::Read).unwrap())
}

/// Every operation can be made to fail. The error names the operation, nothing is done, and the next call succeeds.
#[test]
fn every_operation_can_fail() {
    type Call = fn(&SimulatedStorage, &dyn File) -> braiddb::storage::Result<()>;
    let calls: [(Operation, Call); 14] = [
        (Operation::Open, |storage, _| storage.open("a", OpenMode::Read).map(drop)),
        (Operation::Create, |storage, _| storage.open("b", OpenMode::CreateNew).map(drop)),
        (Operation::List, |storage, _| storage.list().map(drop)),
        (Operation::Rename, |storage, _| storage.rename("a", "c")),
        (Operation::Remove, |storage, _| storage.remove("c")),
        (Operation::SyncDirectory, |storage, _| storage.sync_directory()),
        (Operation::Lock, |storage, _| {
            storage.lock(&Holder { pid: 1, program: String::new(), started_s: 0 }).map(drop)
        }),
        (Operation::Space, |storage, _| storage.space().map(drop)),
        (Operation::Read, |_, file| file.read_at(0, &mut [0]).map(drop)),
        (Operation::Write, |_, file| file.write_at(0, b"x").map(drop)),
        (Operation::Preallocate, |_, file| file.preallocate(0, 4096)),
        (Operation::Truncate, |_, file| file.truncate(0)),
        (Operation::SyncData, |_, file| file.sync_data()),
        (Operation::Len, |_, file| file.len_bytes().map(drop)),
    ];
    let (storage, file) = with_ones(1, 1);
    for (i, (operation, call)) in calls.into_iter().enumerate() {
        storage.inject(FaultRule::once(operation, 1, Fault::Fail));
        let boundary = storage.boundary();
        let error = call(&storage, &*file).unwrap_err();
        assert_eq!(error.operation(), operation);
        assert!(error.to_string().contains("injected fault"), "{error}");
        assert_eq!((storage.boundary(), storage.faults_injected()), (boundary, i as u64 + 1));
        call(&storage, &*file).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A rule strikes once, forever, or every n-th time, and a healed device works again.
#[test]
fn faults_come_once_for_ever_or_every_so_often() {
    let outcomes = |rule: FaultRule| {
        let (storage, file) = with_ones(1, 1);
        storage.inject(rule);
        let outcomes: Vec<bool> = (0..6).map(|_| file.write_at(0, b"x").is_ok()).collect();
        storage.heal();
        file.write_at(0, b"x").unwrap();
        outcomes
    };
    let (t, f) = (true, false);
    assert_eq!(outcomes(FaultRule::once(Operation::Write, 2, Fault::Fail)), [t, f, t, t, t, t]);
    assert_eq!(outcomes(FaultRule::for_ever(Operation::Write, 4, Fault::Fail)), [t, t, t, f, f, f]);
    assert_eq!(outcomes(FaultRule::every(None, 3, Fault::Fail)), [t, t, f, t, t, f]);
}

/// A device that says that it is full does nothing, and the error can be told from others.
#[test]
fn a_full_device_is_told_from_a_broken_one() {
    let (storage, file) = with_ones(1, 1);
    storage.inject(FaultRule::once(Operation::Write, 1, Fault::Full));
    storage.inject(FaultRule::once(Operation::Preallocate, 1, Fault::Full));
    storage.inject(FaultRule::once(Operation::Create, 1, Fault::Full));
    for error in [
        file.write_all_at(0, b"x").unwrap_err(),
        file.preallocate(0, 1024).unwrap_err(),
        storage.open("b", OpenMode::CreateNew).unwrap_err(),
    ] {
        assert!(error.is_full(), "{error}");
    }
    assert_eq!((bytes(&*file), storage.list().unwrap().len()), (vec![1; 512], 1));
}

/// Short reads and writes do some of the work, say so, and are completed by the calls that promise it.
#[test]
fn short_calls_are_completed() {
    let (storage, file) = with_ones(1, 4);
    storage.inject(FaultRule::for_ever(Operation::Write, 1, Fault::Short));
    storage.inject(FaultRule::for_ever(Operation::Read, 1, Fault::Short));
    let written = file.write_at(0, &[2; 2048]).unwrap();
    assert!((1..2048).contains(&written), "{written}");
    let read = file.read_at(0, &mut [0; 2048]).unwrap();
    assert!((1..2048).contains(&read), "{read}");
    let boundary = storage.boundary();
    file.write_all_at(0, &[3; 2048]).unwrap();
    assert!(storage.boundary() - boundary > 1, "a crash can come between the parts");
    assert_eq!(bytes(&*file), [3; 2048]);
}

/// A torn write fails and leaves some of its sectors.
#[test]
fn torn_writes_leave_some_sectors() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (storage, file) = with_ones(seed, 3);
        storage.inject(FaultRule::once(Operation::Write, 1, Fault::Torn));
        let error = file.write_at(0, &[2; 3 * 512]).unwrap_err();
        assert_eq!((error.operation(), error.offset()), (Operation::Write, Some(0)));
        let bytes = bytes(&*file);
        for sector in bytes.chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "no sector is torn");
        }
        seen.insert([bytes[0], bytes[512], bytes[1024]]);
    }
    assert_eq!(seen.len(), 8, "every subset comes: {seen:?}");
}

/// After a failed sync of a file, later syncs succeed, and yet the unsynced data may be lost. Reads may still see it,
/// or not.
#[test]
fn a_failed_sync_loses_data_although_later_ones_succeed() {
    let (mut lost, mut kept, mut lost_unseen, mut len_lost) = (0, 0, 0, 0);
    for seed in 0..200 {
        let (storage, file) = with_ones(seed, 2);
        file.write_all_at(0, &[2; 1200]).unwrap();
        storage.inject(FaultRule::once(Operation::SyncData, 1, Fault::DropUnsynced));
        assert_eq!(file.sync_data().unwrap_err().operation(), Operation::SyncData);
        file.sync_data().unwrap();
        let (seen, durable) = (bytes(&*file), after_crash(&storage, EVERYTHING));
        assert_eq!(durable, after_crash(&storage, NOTHING), "nothing is on its way any more");
        lost += u32::from(durable[0] == 1);
        kept += u32::from(durable[0] == 2);
        lost_unseen += u32::from(durable[0] == 1 && seen[0] == 2);
        len_lost += u32::from(durable.len() == 1024);
        // Data written from now on becomes durable again: the device is not broken, only not to be trusted.
        file.write_all_at(0, &[3; 512]).unwrap();
        file.sync_data().unwrap();
        assert_eq!(after_crash(&storage, NOTHING)[..512], [3; 512]);
    }
    assert!(
        lost > 50 && kept > 50 && lost_unseen > 20 && len_lost > 50,
        "{lost} {kept} {lost_unseen} {len_lost}"
    );
}

/// After a failed sync of the directory, later syncs succeed, and yet names may be lost.
#[test]
fn a_failed_directory_sync_loses_names() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..100 {
        let (storage, file) = with_ones(seed, 1);
        storage.rename("a", "b").unwrap();
        storage.inject(FaultRule::once(Operation::SyncDirectory, 1, Fault::DropUnsynced));
        assert_eq!(storage.sync_directory().unwrap_err().operation(), Operation::SyncDirectory);
        storage.sync_directory().unwrap();
        assert_eq!(storage.list().unwrap(), ["b"]);
        let names = storage.crash(storage.boundary(), EVERYTHING).list().unwrap();
        lost += u32::from(names == ["a"]);
        kept += u32::from(names == ["b"]);
        assert_eq!(bytes(&*file), [1; 512]);
    }
    assert_eq!(lost + kept, 100);
    assert!(lost > 20 && kept > 20, "{lost} {kept}");
}

/// A sync that fails without losing anything can be repeated.
#[test]
fn a_sync_that_fails_may_lose_nothing() {
    let (storage, file) = with_ones(1, 1);
    file.write_all_at(0, &[2; 512]).unwrap();
    storage.inject(FaultRule::once(Operation::SyncData, 1, Fault::Fail));
    file.sync_data().unwrap_err();
    assert_eq!(after_crash(&storage, NOTHING), [1; 512]);
    file.sync_data().unwrap();
    assert_eq!(after_crash(&storage, NOTHING), [2; 512]);
}

/// A slow operation costs virtual ticks and nothing else.
#[test]
fn slow_operations_take_ticks() {
    let (storage, file) = with_ones(1, 1);
    let before = storage.ticks();
    file.write_all_at(0, b"x").unwrap();
    assert_eq!(storage.ticks(), before + 1);
    storage.inject(FaultRule::once(None, 1, Fault::Slow { ticks: 1000 }));
    file.write_all_at(0, b"y").unwrap();
    assert_eq!((storage.ticks(), storage.operations(Operation::Write)), (before + 1002, 3));
    assert_eq!(bytes(&*file)[0], b'y');
}

fn bits_that_differ(a: &[u8], b: &[u8]) -> u32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// A flipped bit of a write stays, and a flipped bit of a read does not. Both report success.
#[test]
fn bits_flip() {
    for seed in 0..20 {
        let (storage, file) = with_ones(seed, 2);
        storage.inject(FaultRule::once(Operation::Write, 1, Fault::BitFlip));
        file.write_all_at(0, &[2; 1024]).unwrap();
        file.sync_data().unwrap();
        let wrong = bytes(&*file);
        assert_eq!(bits_that_differ(&wrong, &[2; 1024]), 1);
        assert_eq!(after_crash(&storage, NOTHING), wrong);
        storage.inject(FaultRule::once(Operation::Read, 1, Fault::BitFlip));
        assert_eq!(bits_that_differ(&bytes(&*file), &wrong), 1);
        assert_eq!(bytes(&*file), wrong);
    }
}

/// A misdirected write reports success, is missing in its intended place, and is found at the same place of another
/// sector, in this file or the other.
#[test]
fn writes_are_misdirected() {
    let (mut here, mut there) = (0, 0);
    for seed in 0..100 {
        let (storage, file) = with_ones(seed, 3);
        let other = create(&storage, "b");
        other.write_all_at(0, &[1; 1024]).unwrap();
        storage.inject(FaultRule::once(Operation::Write, 1, Fault::Misdirected));
        file.write_all_at(512 + 7, &[2; 100]).unwrap();
        let (a, b) = (bytes(&*file), bytes(&*other));
        assert_eq!((a.len(), b.len()), (3 * 512, 2 * 512));
        assert_eq!(a[512..1024], [1; 512], "nothing is where it should be");
        let strays = |bytes: &[u8]| bytes.chunks(512).filter(|sector| sector[7..107] == [2; 100]).count();
        assert_eq!(strays(&a) + strays(&b), 1);
        here += strays(&a);
        there += strays(&b);
    }
    assert!(here > 20 && there > 20, "{here} {there}");
}

/// A lost write reports success and is nowhere: later reads, also after a crash, are stale.
#[test]
fn writes_are_lost() {
    let (storage, file) = with_ones(1, 2);
    storage.inject(FaultRule::once(Operation::Write, 1, Fault::Lost));
    file.write_all_at(512, &[2; 1024]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(bytes(&*file), [vec![1; 1024], vec![0; 512]].concat());
    assert_eq!(after_crash(&storage, EVERYTHING)[..1024], [1; 1024]);
}

/// The same seed makes the same faults and the same crashes. Another seed makes others.
#[test]
fn a_seed_decides_everything() {
    let run = |seed: u64| {
        let (storage, file) = with_ones(seed, 8);
        storage.inject(FaultRule::every(Operation::Write, 3, Fault::Short));
        storage.inject(FaultRule::every(Operation::Write, 5, Fault::Misdirected));
        storage.inject(FaultRule::once(Operation::SyncData, 1, Fault::DropUnsynced));
        for i in 0..20 {
            file.write_all_at(i * 100, &[i as u8; 300]).unwrap();
        }
        file.sync_data().unwrap_err();
        file.preallocate(0, 40_000).unwrap();
        file.write_all_at(0, &[9; 3000]).unwrap();
        let crashes = storage.crash_states(seed, 4);
        let states: Vec<Vec<u8>> = crashes
            .map(|crash| {
                // A single state can be made again from its boundary and seed.
                let again = storage.crash(crash.boundary, crash.seed);
                let of = |storage: &SimulatedStorage| {
                    storage.open("a", OpenMode::Read).ok().map(|file| bytes(&*file)).unwrap_or_default()
                };
                assert_eq!(of(&crash.storage), of(&again), "{}", storage.describe(crash.boundary));
                of(&again)
            })
            .collect();
        (bytes(&*file), states)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}

/// A long history forgets its oldest part, so memory stays bounded, and what is left is still right.
#[test]
fn a_long_history_is_bounded() {
    let (storage, file) = with_ones(1, 1);
    let data = vec![7; 128 << 10];
    for _ in 0..1100 {
        file.write_all_at(0, &data).unwrap();
        file.sync_data().unwrap();
    }
    let (first, last) = (storage.boundary_first(), storage.boundary());
    assert!(first > 0 && last - first > 1000, "{first} {last}");
    let file = storage.crash(first, NOTHING).open("a", OpenMode::Read).unwrap();
    assert_eq!(bytes(&*file).len(), data.len());
    assert_eq!(storage.crash(last, NOTHING).list().unwrap(), ["a"]);
    assert_eq!(storage.open("b", OpenMode::Read).unwrap_err().kind(), ErrorKind::NotFound);
}
