//! Models of appending against flushing. Run with `--cfg braid_shuttle`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::metrics::SystemClock;
use crate::storage::MemoryStorage;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

const ITERATIONS: usize = 3000;
const DATABASE: DatabaseId = DatabaseId(5);

/// Returns changes that tell the record's number, from an appender with its own lane.
fn changes(appender: u64, i: u64, value: &[u8]) -> Changes {
    let mut changes = Changes::of_appender(appender as usize);
    changes.push(Change { table: appender as u32, key: &[i as u8], value: Some(value) });
    changes
}

/// Returns options under which nothing is flushed that no thread waits for.
fn paced() -> Options {
    Options { pace_ns: u64::MAX, paced_records_min: 0, ..Options::new(DATABASE) }
}

fn open_log(options: Options) -> (Arc<dyn crate::storage::Storage>, Writer, Flusher) {
    let storage: Arc<dyn crate::storage::Storage> = Arc::new(MemoryStorage::new(1 << 20));
    let clock = Arc::new(SystemClock::default());
    let (writer, flusher) = open(Arc::clone(&storage), options, clock, Tail::default()).unwrap();
    (storage, writer, flusher)
}

fn spawn_flushing(mut flusher: Flusher) -> shuttle::thread::JoinHandle<()> {
    shuttle::thread::spawn(move || {
        while flusher.wait_for_work() {
            flusher.flush_once().unwrap();
        }
        flusher.close().unwrap();
    })
}

/// Returns the ends and timestamps of the records in a log that was closed in order.
fn read_closed(storage: &dyn crate::storage::Storage) -> Vec<(Lsn, u64)> {
    let mut reader = Reader::open(storage, DATABASE, Lsn(0)).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        found.push((record.end_lsn, record.commit_timestamp));
    }
    assert_eq!(reader.finish().unwrap().cut(), None, "nothing lies behind the last record");
    found
}

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), ITERATIONS);
    shuttle::check_pct(model, ITERATIONS, 3);
}

/// Proves that two threads append through a buffer of two records and segments of one, while each waits for its
/// records and a third thread flushes whenever it is told that there is something to do: no thread waits for ever,
/// the log holds every record, and a record that was appended after another comes behind it.
#[test]
fn appends_meet_flushes() {
    check(|| {
        let options = Options { segment_bytes: 1024, buffer_bytes_max: 700, ..paced() };
        let (storage, writer, flusher) = open_log(options);
        let shared = flusher.shared();
        let flushing = spawn_flushing(flusher);
        let latest = Arc::new(AtomicU64::new(0));
        let appending: Vec<_> = (0..2)
            .map(|thread| {
                let (writer, latest) = (writer.clone(), latest.clone());
                shuttle::thread::spawn(move || {
                    for i in 0..3 {
                        let before = latest.load(Ordering::SeqCst);
                        let end = writer.append(thread * 3 + i, &changes(thread, i, &[7; 300])).unwrap();
                        assert!(end.0 > before && writer.appended_lsn() >= end);
                        latest.fetch_max(end.0, Ordering::SeqCst);
                        if i != 1 {
                            writer.wait_durable(end).unwrap();
                            assert!(writer.durable_lsn() >= end);
                        }
                    }
                })
            })
            .collect();
        appending.into_iter().for_each(|thread| thread.join().unwrap());
        shared.close();
        flushing.join().unwrap();
        let found = read_closed(&*storage);
        for thread in 0..2 {
            let of_thread = found.iter().map(|(_, number)| *number).filter(|number| *number / 3 == thread);
            assert!(of_thread.eq(thread * 3..thread * 3 + 3), "{found:?}");
        }
    });
}

/// Proves that what was appended to a log that is closed meanwhile is present at the place that was returned, that
/// the rest was refused, and that the record that closes the log is the last. Two threads append short records, in
/// lanes of their own or in one, through a buffer with room for all, so that most places are reserved without the
/// lock.
#[test]
fn appends_meet_closing() {
    for lanes in [1, 2] {
        check(move || {
            let (storage, writer, flusher) = open_log(Options { segment_bytes: 1024, ..paced() });
            // The first append moves the limit.
            let first = writer.try_append(100, &changes(0, 0, &[])).unwrap();
            let shared = flusher.shared();
            let flushing = spawn_flushing(flusher);
            let appending: Vec<_> = (0..2)
                .map(|thread| {
                    let writer = writer.clone();
                    shuttle::thread::spawn(move || {
                        let numbers = (0..3).map(|i| thread * 3 + i);
                        let append = |number| {
                            let appended = writer.try_append(number, &changes(thread % lanes, 0, &[]));
                            assert!(matches!(appended, Ok(_) | Err(Error::Closed)), "{appended:?}");
                            Some((appended.ok()?, number))
                        };
                        numbers.map_while(append).collect::<Vec<_>>()
                    })
                })
                .collect();
            shared.close();
            flushing.join().unwrap();
            let mut appended = vec![(first, 100)];
            appending.into_iter().for_each(|thread| appended.extend(thread.join().unwrap()));
            appended.sort_unstable();
            assert_eq!(read_closed(&*storage), appended);
        });
    }
}

/// Proves that what a hold keeps is present, in order. One thread appends, and gives up whatever is durable, in
/// segments of one record that are used again. Another thread takes holds where the log begins at that moment, unless
/// that is given up in between, and reads on from there.
#[test]
fn what_is_held_is_there() {
    check(|| {
        let options = Options { segment_bytes: 1024, held_bytes_max: u64::MAX, ..paced() };
        let (storage, writer, flusher) = open_log(options);
        let shared = flusher.shared();
        let flushing = spawn_flushing(flusher);
        let of_reader = writer.clone();
        let reading = shuttle::thread::spawn(move || {
            let mut taken = 0;
            for _ in 0..3 {
                let Ok(mut hold) = of_reader.hold(of_reader.oldest_lsn()) else { continue };
                taken += 1;
                let mut follower = Follower::new(Arc::clone(&storage), DATABASE, hold.lsn(), None);
                let mut before = None;
                // Each turn makes one step, so that the rest is given up meanwhile.
                for _ in 0..4 {
                    let until = of_reader.durable_lsn();
                    let room_bytes = match follower.next_record(until).unwrap() {
                        Next::End => break,
                        Next::Room(bytes) => bytes,
                        Next::Record(record, _) => {
                            let number = record.commit_timestamp;
                            assert!(before.replace(number).is_none_or(|before| before + 1 == number));
                            0
                        }
                    };
                    follower.make_room(room_bytes);
                    hold.move_to(follower.place().0).unwrap();
                }
            }
            taken
        });
        for i in 0..5 {
            let end = writer.append(i, &changes(0, i, &[7; 300])).unwrap();
            writer.wait_durable(end).unwrap();
            writer.truncate_before(end);
        }
        assert!(reading.join().unwrap() <= 3);
        shared.close();
        flushing.join().unwrap();
    });
}
