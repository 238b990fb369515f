#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, name};
use super::*;
use crate::metrics::SystemClock;
use crate::storage::{File, FileStorage, MemoryStorage, OpenMode, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Wake, Waker};

const DATABASE: DatabaseId = DatabaseId(0x1234_5678_9abc_def0);
const START: Lsn = Lsn(0);

fn small() -> Options {
    let mark_interval_ns = u64::MAX;
    Options { segment_bytes: 1536, buffer_bytes_max: 4096, mark_interval_ns, ..Options::new(DATABASE) }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 24))
}

fn open_log(storage: &Arc<dyn Storage>, options: Options) -> Result<(Writer, Flusher)> {
    let tail = Reader::open(&**storage, options.database, START)?.finish()?;
    open(Arc::clone(storage), options, Arc::new(SystemClock::default()), tail)
}

/// Returns a record's changes, which tell its number. Some are larger than a sector.
fn changes(i: u64) -> Changes {
    let mut changes = Changes::new();
    let value = vec![i as u8; (i * 37 % 600) as usize];
    changes.push(Change { table: i as u32, key: &i.to_be_bytes(), value: Some(&value) });
    changes.push(Change { table: u32::MAX, key: &[], value: None });
    changes
}

/// Returns the timestamps of the records from `start` on. Each must hold what was appended with it.
fn read(storage: &dyn Storage, start: Lsn) -> Result<Vec<u64>> {
    read_all(Reader::open(storage, DATABASE, start)?, start)
}

fn read_all(mut reader: Reader<'_>, start: Lsn) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        assert!(record.lsn >= start && record.end_lsn > record.lsn);
        let expected = changes(record.commit_timestamp);
        assert!(record.changes().eq(record::ChangeIter::new(expected.as_bytes()).unwrap()));
        found.push(record.commit_timestamp);
    }
    Ok(found)
}

fn up_to(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// Appends and flushes records one by one.
fn write(writer: &Writer, flusher: &mut Flusher, records: std::ops::Range<u64>) -> Vec<Lsn> {
    let mut ends = Vec::new();
    for i in records {
        ends.push(writer.try_append(i, &changes(i)).unwrap());
        assert_eq!(flusher.flush_once().unwrap(), ends[ends.len() - 1]);
    }
    ends
}

/// Proves that records come back as they were, over many segments and reopenings, from any record's start.
#[test]
fn round_trips() {
    check_round_trips(&memory());
}

/// Proves the same over a file system, and for threads that append.
#[test]
fn logs_in_files() {
    for check in [check_round_trips, check_threads] {
        let path = std::env::temp_dir().join(format!("braid-log-{}", std::process::id()));
        let _left = std::fs::remove_dir_all(&path);
        check(&(Arc::new(FileStorage::create(&path).unwrap()) as Arc<dyn Storage>));
        std::fs::remove_dir_all(&path).unwrap();
    }
}

fn check_round_trips(storage: &Arc<dyn Storage>) {
    let mut ends = vec![START];
    for opening in 0..4 {
        let (writer, mut flusher) = open_log(storage, small()).unwrap();
        ends.extend(write(&writer, &mut flusher, opening * 10..opening * 10 + 10));
        assert_eq!(writer.durable_lsn(), ends[ends.len() - 1]);
        if opening % 2 == 0 {
            let ended = flusher.close().unwrap();
            assert!(matches!(writer.try_append(0, &changes(0)), Err(Error::Closed)));
            let tail = Reader::open(&**storage, DATABASE, START).unwrap().finish().unwrap();
            assert_eq!(tail.end(), ended.end());
            // This record follows the record of the time, which closing appends.
            ends.pop();
            ends.push(tail.lsn());
        }
    }
    for (i, start) in ends.iter().enumerate() {
        assert_eq!(read(&**storage, *start).unwrap(), (i as u64..40).collect::<Vec<_>>());
    }
    let beyond = Lsn(ends[40].0 + 1);
    assert!(matches!(read(&**storage, beyond), Err(Error::Missing { .. })));
}

/// Proves that one step puts everything appended into one group, that the buffer has its bound, and that the
/// statistics say so.
#[test]
fn groups_gather_and_are_bounded() {
    let storage = memory();
    let options = Options { segment_bytes: 1 << 16, ..small() };
    let (writer, mut flusher) = open_log(&storage, options).unwrap();
    let mut count = 0;
    let full = loop {
        match writer.try_append(count, &changes(count)) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::WouldBlock), "{full}");
    let end = flusher.flush_once().unwrap();
    let statistics = writer.statistics();
    assert_eq!((statistics.groups, statistics.records, statistics.bytes), (1, count, end.0));
    assert!(end.0 <= 4096 && statistics.flush_ns_min == statistics.flush_ns_max);
    writer.try_append(count, &changes(count)).unwrap();
    flusher.flush_once().unwrap();
    assert_eq!(read(&*storage, START).unwrap(), up_to(count + 1));
    let mut large = Changes::new();
    large.push(Change { table: 0, key: &[], value: Some(&vec![0; 1 << 16]) });
    assert!(matches!(writer.try_append(0, &large), Err(Error::RecordTooLarge { .. })));
}

/// Proves that segments are given back and used again, and that the rest of the log can be read from the cut on.
#[test]
fn truncation_recycles() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    let mut files = BTreeMap::new();
    for i in 0..200 {
        let end = write(&writer, &mut flusher, i..i + 1)[0];
        if i % 8 == 7 {
            writer.truncate_before(end);
            flusher.flush_once().unwrap();
            *files.entry(storage.list().unwrap().len()).or_insert(0) += 1;
            assert_eq!(read(&*storage, end).unwrap(), []);
        }
        if i % 8 == 3 {
            let start = Lsn(end.0 - (changes(i).as_bytes().len() + RECORD_HEADER_BYTES) as u64);
            assert_eq!(read(&*storage, start).unwrap(), [i]);
        }
    }
    assert!(files.keys().all(|count| *count <= 5), "{files:?}");
    assert!(matches!(read(&*storage, START), Err(Error::Missing { .. })));
}

/// Proves that all records of many threads are present, each thread's in its order, and that an append that begins
/// after another has returned comes later in the log.
#[test]
fn threads_append_in_order() {
    check_threads(&memory());
}

fn check_threads(storage: &Arc<dyn Storage>) {
    const THREADS: u64 = 4;
    const RECORDS: u64 = 300;
    let (writer, flusher) = open_log(storage, Options { segment_bytes: 8192, ..small() }).unwrap();
    let flusher = FlusherThread::spawn(flusher, (), u64::MAX).unwrap();
    let latest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (writer, latest) = (writer.clone(), &latest);
            scope.spawn(move || {
                for i in 0..RECORDS {
                    let before = latest.load(Ordering::SeqCst);
                    let number = thread * RECORDS + i;
                    let end = writer.append(number, &changes(number)).unwrap();
                    assert!(end.0 > before);
                    latest.fetch_max(end.0, Ordering::SeqCst);
                    if i % 16 == 0 {
                        writer.wait_durable(end).unwrap();
                        assert!(writer.durable_lsn() >= end);
                    }
                }
            });
        }
    });
    flusher.close().unwrap();
    let found = read(&**storage, START).unwrap();
    for thread in 0..THREADS {
        let of_thread = found.iter().filter(|number| **number / RECORDS == thread).copied();
        assert!(of_thread.eq(thread * RECORDS..(thread + 1) * RECORDS));
    }
    assert_eq!(found.len() as u64, THREADS * RECORDS);
    let statistics = writer.statistics();
    // The record of the time is included.
    assert_eq!(statistics.records, THREADS * RECORDS + 1);
}

#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Proves that a waiting task is woken once, when its record is durable, and that all tasks are told when no flush
/// will follow any more.
#[test]
fn tasks_are_woken() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    let (count, end) = (Arc::new(Count::default()), writer.try_append(0, &changes(0)).unwrap());
    let waker = Waker::from(Arc::clone(&count));
    assert!(writer.poll_durable(end, &waker).is_pending() && writer.poll_durable(end, &waker).is_pending());
    flusher.flush_once().unwrap();
    assert!(matches!(writer.poll_durable(end, &waker), Poll::Ready(Ok(()))));
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    let end = writer.try_append(1, &changes(1)).unwrap();
    assert!(writer.poll_durable(end, &waker).is_pending());
    drop(flusher);
    assert!(matches!(writer.poll_durable(end, &waker), Poll::Ready(Err(Error::Closed))));
    assert!(matches!(writer.wait_durable(end), Err(Error::Closed)));
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
}

fn contents(storage: &dyn Storage, name: &str) -> (Box<dyn File>, Vec<u8>) {
    let file = storage.open(name, OpenMode::ReadWrite).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    (file, bytes)
}

/// Reads like [`read`] from the start of a log that was closed at `closed`, if it was closed.
fn read_to(storage: &dyn Storage, closed: Option<End>) -> Result<Vec<u64>> {
    let open = || Reader::with_ending(storage, DATABASE, START, Ending::of(closed));
    let tail = open()?.finish()?;
    let is_whole = closed.map_or(Ok(true), |end| tail.check(&end))?;
    assert!(is_whole, "no change makes a log longer");
    read_all(open()?, START)
}

/// Proves that every bit flip of a closed log is an error or changes nothing that is read, and that a bit flip of a
/// log that was not closed may cost only the last run.
#[test]
fn bit_flips_are_found() {
    for is_closed in [true, false] {
        let storage = memory();
        let (writer, mut flusher) = open_log(&storage, small()).unwrap();
        write(&writer, &mut flusher, 0..7);
        let end = if is_closed { Some(flusher.close().unwrap().end()) } else { None };
        let mut errors = 0;
        for name in storage.list().unwrap() {
            let (file, bytes) = contents(&*storage, &name);
            for (at, byte) in bytes.iter().enumerate() {
                for bit in 0..8 {
                    file.write_all_at(at as u64, &[byte ^ 1 << bit]).unwrap();
                    match read_to(&*storage, end) {
                        Ok(found) if found == up_to(7) => {}
                        Ok(found) => assert!(!is_closed && found == up_to(6), "{name} {at} {bit}: {found:?}"),
                        Err(_) => errors += 1,
                    }
                }
                file.write_all_at(at as u64, &[*byte]).unwrap();
            }
        }
        assert!(errors > 5000, "{errors}");
    }
}

/// Proves that damage is told from a torn tail: a bad durable part is an error with file, offset and lsn. If nothing
/// shows that a bad part was durable, the dropped bytes are reported.
#[test]
fn damage_is_no_torn_tail() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    writer.try_append(1, &changes(1)).unwrap();
    let first = flusher.flush_once().unwrap();
    let middle = writer.try_append(2, &changes(2)).unwrap();
    let last = writer.try_append(3, &changes(3)).unwrap();
    flusher.flush_once().unwrap();
    let (file, bytes) = contents(&*storage, &name(1));
    let middle_at = SEGMENT_HEADER_BYTES as u64 + first.0;
    // This flips a byte of the middle record's body, then of the first one's. The last record is whole, in a run with
    // the middle one.
    file.write_all_at(middle_at + 40, &[!bytes[middle_at as usize + 40]]).unwrap();
    let tail = Reader::open(&*storage, DATABASE, START).unwrap().finish().unwrap();
    let cut = tail.cut().unwrap();
    assert_eq!((tail.lsn(), cut.lsn, cut.bytes), (first, first.0, last.0 - first.0));
    assert_eq!((cut.file, cut.offset), (name(1), SEGMENT_HEADER_BYTES as u64 + first.0));
    file.write_all_at(SEGMENT_HEADER_BYTES as u64 + 40, &[0xff]).unwrap();
    let error = read(&*storage, START).unwrap_err();
    let Error::Damaged { file, offset, lsn, .. } = error else { panic!("{error}") };
    assert_eq!((file, offset, lsn), (name(1), SEGMENT_HEADER_BYTES as u64, START));
    assert!(middle < last);
}

/// Proves that a closed log is as it was, or that an error names the file: for each segment that is missing, cut off
/// anywhere, zeroed, exchanged with another one, from an earlier state of the log, or from another database.
#[test]
fn what_is_missing_of_a_closed_log_is_named() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    write(&writer, &mut flusher, 0..14);
    let earlier: Vec<_> =
        storage.list().unwrap().iter().map(|name| (name.clone(), contents(&*storage, name).1)).collect();
    write(&writer, &mut flusher, 14..16);
    let mut ended = flusher.close().unwrap();
    let end = ended.end();
    ended.remove_spare().and_then(|()| ended.trim()).unwrap();
    let foreign = memory();
    let (writer, mut flusher) = open_log(&foreign, Options { database: DatabaseId(5), ..small() }).unwrap();
    write(&writer, &mut flusher, 0..16);
    let names = storage.list().unwrap();
    assert!(names.len() > 2, "{names:?}");
    for name in &names {
        let (_, bytes) = contents(&*storage, name);
        let of = |from: &dyn Storage, other: &str| contents(from, other).1;
        let mut others = vec![vec![0; bytes.len()], vec![0xa5; bytes.len()], of(&*foreign, name)];
        others.extend((0..bytes.len()).step_by(37).map(|at| bytes[..at].to_vec()));
        others.extend(names.iter().filter(|other| *other != name).map(|other| of(&*storage, other)));
        others.extend(earlier.iter().filter(|(other, _)| other == name).map(|(_, bytes)| bytes.clone()));
        let changed = others.into_iter().filter(|other| *other != bytes).map(Some).chain([None]);
        for change in changed {
            storage.remove(name).unwrap();
            if let Some(other) = &change {
                storage.open(name, OpenMode::CreateNew).unwrap().write_all_at(0, other).unwrap();
            }
            match read_to(&*storage, Some(end)) {
                Ok(found) => assert_eq!(found, up_to(16), "{name}"),
                Err(error) => assert!(error.to_string().contains(name.as_str()), "{name}: {error}"),
            }
            let _ = storage.remove(name);
            storage.open(name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
        }
    }
    assert_eq!(read_to(&*storage, Some(end)).unwrap(), up_to(16));
}

/// Proves that a file in the place of the next segment is an error that says so, and is left unchanged, if it is
/// another database's, is nothing that a crash can leave, or is shorter than its header says.
#[test]
fn nothing_is_taken_that_may_hold_something() {
    let (storage, foreign) = (memory(), memory());
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    write(&writer, &mut flusher, 0..3);
    drop(flusher);
    let (_writer, flusher) = open_log(&foreign, Options { database: DatabaseId(5), ..small() }).unwrap();
    drop(flusher);
    let spare = storage.list().unwrap().pop().unwrap();
    let (file, prepared) = contents(&*storage, &spare);
    let header = contents(&*foreign, &name(1)).1;
    for (bytes, said) in
        [(header, "00000005"), (vec![0xa5; 1536], "good header"), (vec![0; 1536], "good header")]
    {
        file.truncate(0).unwrap();
        file.write_all_at(0, &bytes).unwrap();
        let error = open_log(&storage, small()).unwrap_err().to_string();
        assert!(error.contains(&spare) && error.contains(said), "{error}");
        assert_eq!(contents(&*storage, &spare).1, bytes);
    }
    file.truncate(0).unwrap();
    file.write_all_at(0, &prepared).unwrap();
    let (current, _) = contents(&*storage, &name(1));
    current.truncate(1024).unwrap();
    let error = read(&*storage, START).unwrap_err();
    let Error::Damaged { file, offset, .. } = error else { panic!("{error}") };
    assert_eq!((file, offset), (name(1), 1024));
}

/// Proves that what is read into memory has the length that headers name, whatever the length of the file.
#[test]
fn a_file_that_is_too_long_is_not_read_whole() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 31));
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    write(&writer, &mut flusher, 0..7);
    for name in storage.list().unwrap() {
        contents(&*storage, &name).0.truncate(1 << 20).unwrap();
    }
    let mut reader = Reader::open(&*storage, DATABASE, START).unwrap();
    while reader.next_record().unwrap().is_some() {
        assert!(reader.memory_bytes() <= 1536);
    }
    assert_eq!(read(&*storage, START).unwrap(), up_to(7));
}

/// Proves that another database's log and another version are not read.
#[test]
fn foreign_logs_are_refused() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    write(&writer, &mut flusher, 0..3);
    let error = Reader::open(&*storage, DatabaseId(1), START).unwrap_err();
    assert!(matches!(error, Error::Foreign { other: DATABASE, database: DatabaseId(1), .. }), "{error}");
    let (file, mut bytes) = contents(&*storage, &name(1));
    bytes[8] = 9;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(0, &bytes).unwrap();
    assert!(matches!(read(&*storage, START), Err(Error::UnsupportedVersion { version: 9, .. })));
}

/// Proves that an idle log gets exactly one mark of the time behind the last append, that closing leaves nothing
/// without a mark, and that marks are read in order and told from transactions.
#[test]
fn marks_follow_what_is_appended() {
    let storage = memory();
    let options = Options { mark_interval_ns: 1_000_000, segment_bytes: 1 << 16, ..small() };
    let (writer, flusher) = open_log(&storage, options).unwrap();
    let thread = FlusherThread::spawn(flusher, (), u64::MAX).unwrap();
    let mark_bytes = (RECORD_HEADER_BYTES + 8) as u64;
    for i in 0..3 {
        let end = writer.append(i, &changes(i)).unwrap();
        // The mark is in the group of the record, or in a group of its own.
        let has_mark = || writer.durable_lsn() == Lsn(end.0 + mark_bytes);
        for _ in 0..10_000 {
            if has_mark() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(has_mark(), "{} {end}", writer.durable_lsn());
    }
    drop(thread);
    let (writer, flusher) = open_log(&storage, Options { mark_interval_ns: u64::MAX, ..options }).unwrap();
    writer.try_append(3, &changes(3)).unwrap();
    flusher.close().unwrap();
    assert_eq!(read(&*storage, START).unwrap(), up_to(4));
    let mut reader = Reader::open(&*storage, DATABASE, START).unwrap();
    let mut marks = Vec::new();
    while let Some(mark) = reader.next_mark().unwrap() {
        marks.push(mark);
    }
    assert_eq!(marks.len(), 4);
    assert!(marks.is_sorted_by_key(|mark| (mark.unix_ns, mark.lsn)) && marks[0].unix_ns > 1 << 60);
    // Closing appends the last mark, and nothing behind it.
    assert_eq!(reader.finish().unwrap().lsn(), marks[3].end_lsn);
}

/// Proves that a record of an unknown kind is skipped, wherever it lies, if its number allows that, and that any
/// other unknown kind is an error that says where it is.
#[test]
fn unknown_kinds() {
    for (kind, is_optional) in [(4, false), (127, false), (129, true), (255, true)] {
        for changed in 0..4 {
            let storage = memory();
            let (writer, mut flusher) =
                open_log(&storage, Options { segment_bytes: 1 << 16, ..small() }).unwrap();
            let ends = write(&writer, &mut flusher, 0..4);
            let (file, mut bytes) = contents(&*storage, &name(1));
            let (mut lsn, mut previous) = (0, 0);
            for (i, end) in ends.iter().enumerate() {
                let at = SEGMENT_HEADER_BYTES + lsn as usize;
                let (header, _) = RecordHeader::decode(&bytes[at..], DATABASE, lsn).unwrap();
                let kind = if i == changed { Kind::Other(kind) } else { header.kind };
                let (header, checksum) = RecordHeader { kind, previous, ..header }.encode(DATABASE, lsn);
                bytes[at..at + RECORD_HEADER_BYTES].copy_from_slice(&header);
                (lsn, previous) = (end.0, checksum);
            }
            file.write_all_at(0, &bytes).unwrap();
            let found = read(&*storage, START);
            if is_optional {
                assert_eq!(found.unwrap(), (0..4).filter(|i| *i != changed as u64).collect::<Vec<_>>());
                continue;
            }
            let at = changed.checked_sub(1).map_or(START, |before| ends[before]);
            let error = found.unwrap_err();
            assert!(matches!(error, Error::UnknownRecord { lsn, kind: of, .. } if lsn == at && of == kind));
            assert!(
                error.to_string().contains("version 1") && error.to_string().contains(&name(1)),
                "{error}"
            );
        }
    }
}

/// Proves that no bytes make the reader panic, and that mutations of a log give a prefix of it or an error.
#[test]
fn any_bytes_are_read_safely() {
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage, small()).unwrap();
    write(&writer, &mut flusher, 0..9);
    let names = storage.list().unwrap();
    for round in 0..3000 {
        let chosen = random(names.len() as u64) as usize;
        let (file, bytes) = contents(&*storage, &names[chosen]);
        let start = random(bytes.len() as u64);
        let mut changed = bytes[start as usize..].to_vec();
        changed.truncate(1 + random(200) as usize);
        changed
            .iter_mut()
            .for_each(|byte| *byte = if round % 2 == 0 { random(256) as u8 } else { random(3) as u8 });
        file.write_all_at(start, &changed).unwrap();
        if round % 5 == 0 {
            file.truncate(start).unwrap();
        }
        if let Ok(found) = read(&*storage, START) {
            assert_eq!(found, up_to(found.len() as u64), "round {round}");
        }
        file.truncate(0).unwrap();
        file.write_all_at(0, &bytes).unwrap();
    }
    assert_eq!(read(&*storage, START).unwrap(), up_to(9));
    for round in 0..3000 {
        let bytes: Vec<u8> =
            (0..random(80)).map(|_| if round % 2 == 0 { random(256) } else { random(2) } as u8).collect();
        if let Some(changes) = record::ChangeIter::new(&bytes) {
            assert!(changes.count() * 3 <= bytes.len());
        }
    }
}
