//! Rows that expire, and other rows that are deleted with them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::{under, under_all_schemes};
use braiddb::metrics::Clock;
use braiddb::{AnyScheme, Database, Error, Expiry, Options, SchemeName, Table, Txn};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that stands at the second 100.
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_ns(&self) -> u64 {
        100_000_000_000
    }
}

/// Orders, whose value is the second at which they expire. The ordered items are in lines, by order and number.
struct Shop {
    db: Database<AnyScheme>,
    orders: Table<u64, u64>,
    lines: Table<(u64, u64), u64>,
    expiry: Expiry<u64, u64, AnyScheme>,
}

const LINES: u64 = 3;
const EXPIRED: u64 = 50;
const VALID: u64 = 500;

fn second(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

impl Shop {
    /// Makes a shop with `expired` expired orders, and with an unexpired order under the next number.
    fn new(scheme: SchemeName, expired: u64) -> Shop {
        let options = Options { workers: 0, ..Options::default() };
        let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(Still)).unwrap();
        let (orders, lines) = (db.table("orders").unwrap(), db.table("lines").unwrap());
        let expiry = db.expiry(orders, "orders by expiry", |_, seconds| second(seconds)).unwrap();
        for order in 0..=expired {
            db.transact(|tx| {
                tx.put(orders, order, if order < expired { EXPIRED } else { VALID })?;
                (0..LINES).try_for_each(|line| tx.put(lines, (order, line), 1))
            })
            .unwrap();
        }
        Shop { db, orders, lines, expiry }
    }

    /// Returns the orders. Each must have all its lines, and each line must have an order.
    fn orders(&self) -> Vec<u64> {
        let (mut orders, mut lines) = (Vec::new(), Vec::new());
        self.db
            .transact(|tx| {
                orders.clear();
                lines.clear();
                tx.scan_all(self.orders).for_each(|order, _| orders.push(order))?;
                tx.scan_all(self.lines).for_each(|line, _| lines.push(line))
            })
            .unwrap();
        let expected: Vec<_> =
            orders.iter().flat_map(|&order| (0..LINES).map(move |line| (order, line))).collect();
        assert_eq!(lines, expected);
        orders
    }
}

async fn delete_lines(tx: &Txn<AnyScheme>, lines: Table<(u64, u64), u64>, order: u64) -> braiddb::Result<()> {
    for line in 0..LINES {
        assert!(tx.delete(lines, (order, line)).await?);
    }
    Ok(())
}

fn goes_along(scheme: SchemeName) {
    let shop = Shop::new(scheme, 200);
    let lines = shop.lines;
    let (calls, value) = (Cell::new(0), Cell::new(0));
    let with = async |tx: &Txn<AnyScheme>, order: &u64, seconds: u64| {
        calls.set(calls.get() + 1);
        value.set(seconds);
        delete_lines(tx, lines, *order).await
    };
    assert_eq!(shop.expiry.sweep_with(3, with).unwrap(), 3);
    assert_eq!((shop.orders().len(), calls.get(), value.get()), (198, 3, EXPIRED));
    assert_eq!(shop.expiry.sweep_with(1000, with).unwrap(), 197);
    assert_eq!((shop.orders(), calls.get()), (vec![200], 200));
    assert_eq!(shop.expiry.sweep_with(1000, with).unwrap(), 0);
}

#[test]
fn what_hangs_on_a_row_goes_along() {
    under_all_schemes!(goes_along());
}

fn bad_rows_stay(scheme: SchemeName) {
    let shop = Shop::new(scheme, 150);
    let lines = shop.lines;
    let is_mended = Cell::new(false);
    let with = async |tx: &Txn<AnyScheme>, order: &u64, _: u64| {
        delete_lines(tx, lines, *order).await?;
        match order {
            7 if !is_mended.get() => Err(Error::user("seven is bad")),
            70 if !is_mended.get() => panic!("seventy is worse"),
            90 if !is_mended.get() => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let swept = shop.expiry.sweep_with(1000, with);
    assert!(matches!(&swept, Err(Error::User(error)) if error.to_string() == "seven is bad"), "{swept:?}");
    assert_eq!(shop.orders(), [7, 70, 90, 150]);
    shop.db.transact(|tx| tx.put(shop.orders, 7, VALID)).unwrap();
    let swept = shop.expiry.sweep_with(1000, with);
    let Err(Error::Panicked(text)) = &swept else { panic!("{swept:?}") };
    assert!(text.contains("\"orders\"") && text.contains("seventy is worse"), "{text}");
    shop.db.transact(|tx| tx.put(shop.orders, 70, VALID)).unwrap();
    let swept = shop.expiry.sweep_with(1000, with);
    assert!(matches!(swept, Err(Error::WouldWait)), "{swept:?}");
    assert_eq!(shop.orders(), [7, 70, 90, 150]);
    is_mended.set(true);
    assert_eq!(shop.expiry.sweep_with(1000, with).unwrap(), 1);
    assert_eq!(shop.orders(), [7, 70, 150]);
}

#[test]
fn rows_with_which_it_fails_stay_whole() {
    under_all_schemes!(bad_rows_stay());
}

/// Proves that a row counts as deleted if the function has deleted it itself, and that a row is passed over if another
/// transaction has its line.
fn meets_others(scheme: SchemeName) {
    let shop = Shop::new(scheme, 5);
    let (orders, lines) = (shop.orders, shop.lines);
    let with = async |tx: &Txn<AnyScheme>, order: &u64, _: u64| {
        delete_lines(tx, lines, *order).await?;
        tx.delete(orders, order).await.map(drop)
    };
    assert_eq!(shop.expiry.sweep_with(2, with).unwrap(), 2);
    assert_eq!(shop.orders(), [2, 3, 4, 5]);
    let other = shop.db.begin().unwrap();
    other.put(lines, (3, 1), 2).unwrap();
    // Where a write shows only at its commit, the other transaction fails. Where partitions are taken, the other
    // transaction has them all.
    let swept = shop.expiry.sweep_with(1000, with).unwrap_or(0);
    let committed = other.commit();
    let left = shop.orders();
    match swept {
        3 => assert!(committed.is_err() && left == [5], "{left:?}"),
        2 => assert!(committed.is_ok() && left == [3, 5], "{left:?}"),
        _ => assert_eq!((swept, left), (0, vec![2, 3, 4, 5])),
    }
}

#[test]
fn rows_that_others_use_are_passed_over() {
    under_all_schemes!(meets_others());
}

#[test]
fn the_thread_takes_along_what_hangs_on_rows() {
    let shop = Shop::new(SchemeName::Serializable, 100);
    let (lines, is_bad) = (shop.lines, Arc::new(AtomicBool::new(true)));
    let bad = is_bad.clone();
    let with = async move |tx: &Txn<AnyScheme>, order: &u64, _: u64| {
        if *order == 9 && bad.load(Relaxed) {
            return Err(Error::user("nine is bad"));
        }
        delete_lines(tx, lines, *order).await
    };
    let sweeper = shop.expiry.sweep_every_with(Duration::from_millis(1), with).unwrap();
    let begin = Instant::now();
    let wait = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| sweeper.deleted() == 99);
    wait(&|| matches!(sweeper.take_error(), Some(Error::User(error)) if error.to_string() == "nine is bad"));
    assert_eq!(shop.orders(), [9, 100]);
    is_bad.store(false, Relaxed);
    wait(&|| sweeper.deleted() == 100);
    assert_eq!(shop.orders(), [100]);
}

/// Proves that a name stands for one function: the same function finds the existing expiry, and another is refused.
#[test]
fn another_function_under_the_name_is_refused() {
    let shop = Shop::new(SchemeName::Serializable, 3);
    let declare = |name: &str| shop.db.expiry(shop.orders, name, |_, seconds| second(seconds));
    let (first, again) = (declare("by moment").unwrap(), declare("by moment").unwrap());
    let other = shop.db.expiry(shop.orders, "by moment", |_, _| None);
    let Err(Error::IndexMismatch { name, .. }) = &other else { panic!("{other:?}") };
    assert_eq!(name, "by moment");
    assert_eq!((first.sweep(1).unwrap(), again.sweep(1000).unwrap()), (1, 2));
    // An index for reading finds the expiry by its keys.
    shop.db.index(shop.orders, "by moment", |_, _| Some(0_u64)).unwrap();
}

/// Proves that a panic of the expiry's function is an error of the call, and that nothing of the sweep's transaction
/// remains.
#[test]
fn a_panic_of_the_expiry_is_an_error() {
    let shop = Shop::new(SchemeName::Serializable, 10);
    let is_bad = Arc::new(AtomicBool::new(false));
    let bad = is_bad.clone();
    let expires = move |order: &u64, seconds: u64| {
        assert!(!(*order == 5 && bad.load(Relaxed)), "five is bad");
        second(seconds)
    };
    let expiry = shop.db.expiry(shop.orders, "by moment", expires).unwrap();
    is_bad.store(true, Relaxed);
    let swept = expiry.sweep(1000);
    let Err(Error::Panicked(text)) = &swept else { panic!("{swept:?}") };
    assert!(text.contains("\"orders\"") && text.contains("five is bad"), "{text}");
    assert_eq!(shop.orders().len(), 11);
    is_bad.store(false, Relaxed);
    let with = async |tx: &Txn<AnyScheme>, order: &u64, _: u64| delete_lines(tx, shop.lines, *order).await;
    assert_eq!(expiry.sweep_with(1000, with).unwrap(), 10);
    assert_eq!(shop.orders(), [10]);
}
