//! Indexes that are declared and dropped while rows are written.

use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Ends the writers, also if a check fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns a person in one of three cities, with a name that no other key has.
fn any(key: u64, turn: u64) -> Person {
    person(&format!("name {key}"), ["London", "Paris", "Rome"][(key + turn) as usize % 3])
}

/// Checks that, at one moment, the index has the row's key for each row of the table, and no other key.
fn check_same(db: &Database, people: People, by_city: ByCity) {
    let (by_index, by_table) = db
        .transact(|tx| {
            let (mut by_index, mut by_table) = (BTreeSet::new(), BTreeSet::new());
            let mut rows = tx.scan_by(by_city, ("", "")..);
            while let Some(((city, name), key, _)) = rows.next()? {
                by_index.insert((key, city, name));
            }
            let mut rows = tx.scan(people, 0..);
            while let Some((key, person)) = rows.next()? {
                by_table.insert((key, person.city, person.name));
            }
            Ok((by_index, by_table))
        })
        .unwrap();
    assert_eq!(by_index, by_table);
}

/// Declares and drops an index again and again under writers. Proves that the index has the table's rows whenever it
/// exists, and that writers meet nothing but conflicts. A database that is killed meanwhile comes back with the index
/// complete, if it was declared.
#[test]
fn declared_and_dropped_under_writers() {
    let storage = disk();
    let db = open(&storage);
    let people: People = db.table("people").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ending = Ending(&is_over);
        for writer in 0..2 {
            let (db, is_over) = (&db, &is_over);
            threads.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = turn * 7 % 40 + writer * 40;
                    db.transact(|tx| match turn % 5 {
                        0 => tx.delete(people, key).map(|_| ()),
                        _ => tx.put(people, key, &any(key, turn)),
                    })
                    .unwrap();
                    std::thread::sleep(Duration::from_micros(200)); // the disk is in memory, and small
                }
            });
        }
        for _ in 0..12 {
            let by_city: ByCity = db.index_on(people, "by city", &["city", "name"]).unwrap();
            check_same(&db, people, by_city);
            let again = open(&killed(&storage));
            // The declaration, and at first the table, may still be on their way to the log.
            assert!(again.tables().iter().all(|table| table.indexes.len() <= 1));
            let people_again: People = again.table("people").unwrap();
            let by_city = again.index_on(people_again, "by city", &["city", "name"]).unwrap();
            check_same(&again, people_again, by_city);
            db.drop_index("people", "by city").unwrap();
        }
    });
}
