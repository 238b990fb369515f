#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::metrics::SystemClock;
use crate::storage::{MemoryStorage, Storage};
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(0x1234);

fn small() -> Options {
    let mark_interval_ns = u64::MAX;
    Options { segment_bytes: 1536, buffer_bytes_max: 4096, mark_interval_ns, ..Options::new(DATABASE) }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 24))
}

fn open_log(storage: &Arc<dyn Storage>) -> (Writer, Flusher) {
    let tail = Reader::open(&**storage, DATABASE, Lsn(0)).unwrap().finish().unwrap();
    open(Arc::clone(storage), small(), Arc::new(SystemClock::default()), tail).unwrap()
}

/// Returns a record's changes. Some are several times what a follower reads at once.
fn changes(i: u64) -> Changes {
    let mut changes = Changes::new();
    let value = vec![i as u8; (i * 137 % 900) as usize];
    changes.push(Change { table: i as u32, key: &i.to_be_bytes(), value: Some(&value) });
    changes
}

/// Returns the timestamps and ends of the records before `until`, read in steps of the requested buffer.
fn follow(follower: &mut Follower, until: Lsn) -> Result<Vec<(u64, Lsn)>> {
    let mut found = Vec::new();
    loop {
        let room_bytes = match follower.next_record(until)? {
            Next::End => return Ok(found),
            Next::Room(bytes) => bytes,
            Next::Record(record, _) => {
                let expected = changes(record.commit_timestamp);
                assert!(record.changes().eq(ChangeIter::new(expected.as_bytes()).unwrap()));
                found.push((record.commit_timestamp, record.end_lsn));
                continue;
            }
        };
        assert!(room_bytes > follower.room_bytes(), "it is asked for once");
        follower.make_room(room_bytes);
    }
}

fn follower(storage: &Arc<dyn Storage>, start: Lsn, chain: Option<u32>) -> Follower {
    Follower::new(Arc::clone(storage), DATABASE, start, chain)
}

/// Proves that a follower of a log gets exactly its records in order, from wherever it begins, step by step and at
/// once, over segments and openings, and with the checksum of the record before.
#[test]
fn logs_are_followed() {
    let storage = memory();
    let (mut all, mut places) = (Vec::new(), Vec::new());
    let mut live = follower(&storage, Lsn(0), Some(0));
    for opening in 0..5 {
        let (writer, mut flusher) = open_log(&storage);
        for i in opening * 12..opening * 12 + 12 {
            let end = writer.try_append(i, &changes(i)).unwrap();
            assert_eq!(follow(&mut live, writer.durable_lsn()).unwrap(), [], "it is not durable");
            flusher.flush_once().unwrap();
            places.push(live.place());
            assert_eq!(follow(&mut live, writer.durable_lsn()).unwrap(), [(i, end)]);
            all.push((i, end));
        }
        if opening % 2 == 0 {
            flusher.close().unwrap();
        }
    }
    let (writer, _flusher) = open_log(&storage);
    let end = writer.durable_lsn();
    for (at, (lsn, chain)) in places.into_iter().enumerate() {
        for chain in [None, chain] {
            assert_eq!(follow(&mut follower(&storage, lsn, chain), end).unwrap(), all[at..]);
        }
        let other = follow(&mut follower(&storage, lsn, Some(chain.unwrap_or(0) ^ 1)), end);
        assert!(matches!(other, Err(Error::Damaged { .. })), "{other:?}");
    }
    // The buffer of a long record is not kept.
    assert!(live.room_bytes() < 2000, "{}", live.room_bytes());
}

/// Proves that a hold keeps what lies behind it, moves, and is cut if it keeps too much.
#[test]
fn logs_are_held() {
    let storage = memory();
    let (writer, mut flusher) = open_log(&storage);
    let mut write = |from: u64| {
        for i in from..from + 40 {
            writer.try_append(i, &changes(i)).unwrap();
            flusher.flush_once().unwrap();
        }
        writer.truncate_before(writer.durable_lsn());
        flusher.flush_once().unwrap();
    };
    assert_eq!(writer.oldest_lsn(), Lsn(0));
    let mut hold = writer.hold(Lsn(0)).unwrap();
    write(0);
    assert_eq!((writer.oldest_lsn(), hold.lsn()), (Lsn(0), Lsn(0)));
    let mut live = follower(&storage, Lsn(0), None);
    assert_eq!(follow(&mut live, writer.durable_lsn()).unwrap().len(), 40);
    let reached = live.place().0;
    hold.move_to(reached).unwrap();
    write(40);
    assert_eq!(writer.oldest_lsn(), reached);
    assert_eq!(writer.hold(Lsn(0)).unwrap_err(), reached, "that is gone");
    assert_eq!(follow(&mut live, writer.durable_lsn()).unwrap().len(), 40);
    assert_eq!(writer.statistics().held_bytes, writer.durable_lsn().0 - reached.0);
    drop(hold);
    assert_eq!(writer.oldest_lsn(), writer.durable_lsn());
    let gone = follow(&mut follower(&storage, Lsn(0), None), writer.durable_lsn());
    assert!(gone.is_err(), "segments have been given up");
}
