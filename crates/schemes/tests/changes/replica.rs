//! A consumer beside a database that works, crashes, is closed and is opened again.

use crate::lossy::Lossy;
use crate::{Random, Replica, memory, open_as, open_async, options};
use braid_schemes::{under, under_all_schemes};
use braiddb::storage::Storage;
use braiddb::{AnyScheme, Database, Durability, Error, Options, SchemeName, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Runs one transaction of some changes. Some conflict, some are long.
fn work(db: &Database<AnyScheme>, numbers: Table<u64, u64>, words: Table<String, [u8]>, random: &mut Random) {
    let seed = random.next(u64::MAX >> 33) | 1;
    let worked = db.transact(|tx| {
        let random = &mut Random(seed);
        for _ in 0..=random.next(4) {
            let key = random.next(60);
            match random.next(6) {
                0 => drop(tx.delete(numbers, key)?),
                1 => drop(tx.delete(words, format!("word {key}"))?),
                2 | 3 => {
                    let before = tx.get(numbers, key)?.unwrap_or(0);
                    tx.put(numbers, key, before + 1)?;
                }
                _ => {
                    let value = vec![key as u8; random.next(700) as usize];
                    tx.put(words, format!("word {key}"), &value)?;
                }
            }
        }
        Ok(())
    });
    match worked {
        Ok(()) | Err(Error::Conflict | Error::TableInUse { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Makes and drops tables in one thread.
fn change_tables(db: &Database<AnyScheme>, random: &mut Random) {
    let name = |number: u64| format!("extra {number}");
    let (one, other) = (random.next(3), random.next(3));
    let changed = match random.next(4) {
        0 => db.table::<u64, u64>(&name(one)).and_then(|table| db.transact(|tx| tx.put(table, other, one))),
        1 => db.rename_table(&name(one), &name(other)),
        2 => db.drop_table(&name(one)),
        _ => db.table::<u64, u64>(&name(one)).and_then(|table| {
            db.clear(table)?;
            db.transact(|tx| tx.put(table, one, other))
        }),
    };
    match changed {
        Ok(()) | Err(Error::NoTable { .. } | Error::TableExists { .. } | Error::TableInUse { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Tells other threads to end, also after a panic.
struct Ending<'e>(&'e AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Several threads work for a while, with checkpoints and changes of tables in between. `follow` is called meanwhile,
/// and is told when the threads have ended.
fn work_for_a_while(db: &Database<AnyScheme>, seed: u64, rounds: u64, mut follow: impl FnMut(bool)) {
    let numbers: Table<u64, u64> = db.table("numbers").unwrap();
    let words: Table<String, [u8]> = db.table("words").unwrap();
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                scope.spawn(move || {
                    let mut random = Random(seed * 10 + worker + 1);
                    (0..rounds).for_each(|_| work(db, numbers, words, &mut random));
                })
            })
            .collect();
        let has_ended = &has_ended;
        scope.spawn(move || {
            let mut random = Random(seed * 10 + 7);
            while !has_ended.load(Relaxed) {
                change_tables(db, &mut random);
                if random.next(8) == 0 {
                    db.clear(numbers).unwrap();
                }
                if random.next(4) == 0 {
                    db.checkpoint().unwrap();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let ending = Ending(has_ended);
        while workers.iter().any(|worker| !worker.is_finished()) {
            follow(false);
        }
        drop(ending);
    });
    follow(true);
}

/// A consumer follows a database over many lives, some of which end by a crash. Proves that the consumer has what the
/// database has whenever they are compared. After a crash it has exactly what was recovered: it can continue at its
/// position, so it was never ahead.
fn follows_over_lives(first: u64, lives: u64, rounds: u64) {
    let mut storage = Lossy::new();
    let mut replica = None;
    for life in first..first + lives {
        eprintln!("seed {life}");
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let db: Database<AnyScheme> = open_async(&shared);
        let mut follower: Replica = replica.take().unwrap_or_else(|| Replica::from_oldest(&db));
        follower.catch_up(&db).unwrap();
        follower.check(&db);
        let mut changes = db.changes(follower.position).unwrap();
        let mut random = Random(life + 1);
        let mut crashed = None;
        work_for_a_while(&db, life, rounds, |is_over| {
            if crashed.is_some() {
                return; // later changes belong to no life
            }
            while let Some(transaction) = changes.try_next().unwrap() {
                follower.apply(&transaction);
            }
            // The consumer stores its state before the crash.
            if random.next(40) == 0 && life % 2 == 0 || is_over && life % 4 == 0 {
                crashed = Some(storage.crash(&mut random));
            }
            thread::yield_now();
        });
        match crashed {
            Some(left) => {
                drop((changes, db));
                storage = left;
            }
            None => {
                follower.catch_up_with(&db, &mut changes).unwrap();
                follower.check(&db);
                if life % 3 == 0 {
                    drop(changes);
                    db.close().unwrap();
                }
            }
        }
        replica = Some(follower);
    }
}

#[test]
fn a_replica_over_lives() {
    follows_over_lives(1, 12, 150);
}

#[test]
fn a_replica_over_many_short_lives() {
    follows_over_lives(1000, 40, 12);
}

/// Follows under each scheme.
fn follows(scheme: SchemeName) {
    let storage = memory();
    for life in 0..2 {
        let db = open_under(scheme, &storage);
        let mut replica = Replica::from_oldest(&db);
        if life > 0 {
            // Nothing was given up, because no two checkpoints were made.
            assert_eq!(replica.position.lsn().0, 0);
        }
        let mut changes = db.changes(replica.position).unwrap();
        let numbers: Table<u64, u64> = db.table("numbers").unwrap();
        let words: Table<String, [u8]> = db.table("words").unwrap();
        thread::scope(|scope| {
            for worker in 0..3 {
                let db = &db;
                scope.spawn(move || {
                    let mut random = Random(worker + 1);
                    (0..60).for_each(|_| work(db, numbers, words, &mut random));
                });
            }
            while let Some(transaction) = changes.next_timeout(Duration::from_millis(5)).unwrap() {
                replica.apply(&transaction);
            }
        });
        db.clear(words).unwrap();
        crate::put(&db, numbers, 1, 1);
        replica.catch_up_with(&db, &mut changes).unwrap();
        replica.check(&db);
        drop(changes);
        db.close().unwrap();
    }
}

#[test]
fn every_scheme_is_followed() {
    under_all_schemes!(follows());
}

fn open_under(scheme: SchemeName, storage: &Arc<dyn Storage>) -> Database<AnyScheme> {
    let options = Options { durability: Durability::Async, ..options() };
    open_as(storage, under(scheme, options)).unwrap()
}

/// Proves that a consumer that begins with the present rows, while others write, misses nothing.
fn begins(scheme: SchemeName) {
    let storage = memory();
    let db = open_under(scheme, &storage);
    let numbers: Table<u64, u64> = db.table("numbers").unwrap();
    let words: Table<String, [u8]> = db.table("words").unwrap();
    let raw = [db.raw_table("numbers").unwrap(), db.raw_table("words").unwrap()];
    thread::scope(|scope| {
        for worker in 0..2 {
            let db = &db;
            scope.spawn(move || {
                let mut random = Random(worker + 1);
                (0..150).for_each(|_| work(db, numbers, words, &mut random));
            });
        }
        for _ in 0..5 {
            let start = db.change_position().unwrap();
            let mut changes = db.changes(start).unwrap();
            let mut replica = Replica::new(start);
            for (number, raw) in raw.iter().enumerate() {
                let read = db.transact(|tx| {
                    let (mut rows, mut found) = (raw.scan(tx), crate::Rows::new());
                    while let Some((key, value)) = rows.next()? {
                        found.insert(key, value.to_vec());
                    }
                    Ok(found)
                });
                let name = ["numbers", "words"][number].to_string();
                replica.tables.insert(number as u32, (name, read.unwrap()));
            }
            // The replica's state is not that of one moment yet. From here on it is.
            replica.catch_up_with(&db, &mut changes).unwrap();
            let mut whole = Replica::from_oldest(&db);
            let mut all = db.changes(whole.position).unwrap();
            while let Some(transaction) = all.next_before(replica.position).unwrap() {
                whole.apply(&transaction);
            }
            assert_eq!(replica.tables, whole.tables);
        }
    });
}

#[test]
fn a_replica_that_begins_with_the_present_rows() {
    under_all_schemes!(begins());
}

/// Proves that under `Durability::Sync` a row that a transaction has read is durable when the transaction has ended,
/// so the copy can be relied on at once.
#[test]
fn a_second_database_is_a_replica() {
    let (from, to) = (memory(), memory());
    let source = crate::open(&from);
    let copy = open_as(&to, braiddb::Options { durability: Durability::Async, ..crate::options() });
    let copy = copy.unwrap();
    let orders: Table<(u32, u32), str> = source.table("orders").unwrap();
    let copied: Table<(u32, u32), str> = copy.table("orders").unwrap();
    let mut changes = source.changes(source.oldest_change_position().unwrap()).unwrap();
    for number in 0..50 {
        source
            .transact(|tx| {
                tx.put(orders, (number % 7, number), "apples")?;
                tx.delete(orders, (number % 7, number / 2)).map(drop)
            })
            .unwrap();
    }
    let reached = source.change_position().unwrap();
    while let Some(transaction) = changes.next_before(reached).unwrap() {
        copy.transact(|tx| {
            for change in &transaction {
                match change.decode::<(u32, u32), str>()? {
                    Some((key, Some(value))) => tx.put(copied, key, value)?,
                    Some((key, None)) => drop(tx.delete(copied, key)?),
                    None => {}
                }
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(crate::contents(&source), crate::contents(&copy));
    assert!(crate::contents(&copy)["orders"].len() > 20);
}
