//! Models of appending against flushing: run with `--cfg braid_shuttle`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::metrics::SystemClock;
use crate::storage::MemoryStorage;
use std::sync::Arc;

const ITERATIONS: usize = 3000;
const DATABASE: DatabaseId = DatabaseId(5);

fn changes(i: u64) -> Changes {
    let mut changes = Changes::new();
    changes.push(Change { table: 0, key: &[i as u8; 300], value: None });
    changes
}

/// Two threads append through a buffer of two records and segments of one, and each waits for its records; the
/// third flushes whenever it is told that there is something to do. Nobody waits for ever, and the log holds
/// every record, each thread's in order.
#[test]
fn appends_meet_flushes() {
    let model = || {
        let storage: Arc<dyn crate::storage::Storage> = Arc::new(MemoryStorage::new(1 << 20));
        let options = Options {
            database: DATABASE,
            segment_bytes: 1024,
            buffer_bytes_max: 700,
            ..Options::new(DATABASE)
        };
        let clock = Arc::new(SystemClock::default());
        let (writer, mut flusher) = open(Arc::clone(&storage), options, clock, Tail::default()).unwrap();
        let shared = flusher.shared();
        let flushing = shuttle::thread::spawn(move || {
            while flusher.wait_for_work() {
                flusher.flush_once().unwrap();
            }
            flusher.close().unwrap();
        });
        let appending: Vec<_> = (0..2)
            .map(|thread| {
                let writer = writer.clone();
                shuttle::thread::spawn(move || {
                    for i in 0..3 {
                        let end = writer.append(thread * 3 + i, &changes(i)).unwrap();
                        if i != 1 {
                            writer.wait_durable(end).unwrap();
                            assert!(writer.durable_lsn() >= end);
                        }
                    }
                })
            })
            .collect();
        appending.into_iter().for_each(|thread| thread.join().unwrap());
        shared.state().is_closed = true;
        shared.work.notify_all();
        flushing.join().unwrap();
        let mut reader = Reader::open(&*storage, DATABASE, Lsn(0)).unwrap();
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            found.push(record.commit_timestamp);
        }
        for thread in 0..2 {
            let of_thread = found.iter().filter(|number| **number / 3 == thread).copied();
            assert!(of_thread.eq(thread * 3..thread * 3 + 3), "{found:?}");
        }
    };
    shuttle::check_random(model, ITERATIONS);
    shuttle::check_pct(model, ITERATIONS, 3);
}
