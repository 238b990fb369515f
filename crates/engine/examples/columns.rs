//! Columns beside rows: some threads take orders while another thread adds up the open ones, by a projection.
//!
//! `cargo run --release --example columns`

use braiddb::{Database, Options, Result, Selection, Table};
use std::time::Instant;

/// Customer, sum in cents, a flag that says if the order is paid, and a note that the sums do not use.
type Order = (u32, u64, bool, String);

const ORDERS: u64 = 200_000;
const PAID: u64 = 20_000;

/// Runs the example.
pub fn main() -> Result<()> {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let orders: Table<u64, Order> = db.table("orders")?;
    let sums = db.projection(orders, "sums", |_, (_, cents, is_paid, _)| Some((cents, is_paid)))?;
    for first in (0..ORDERS).step_by(1000) {
        db.transact(|tx| (first..first + 1000).try_for_each(|key| tx.put(orders, key, order(key))))?;
    }
    println!("{} orders read into columns", sums.refresh()?);

    std::thread::scope(|scope| {
        // Customers pay, one order after the other.
        let paying = scope.spawn(|| {
            (0..PAID).try_for_each(|number| {
                db.transact(|tx| {
                    let key = number * 7919 % ORDERS;
                    let (customer, cents, _, note) = tx.get(orders, key)?.expect("each one is there");
                    tx.put(orders, key, (customer, cents, true, &note))
                })
            })
        });
        for round in 0..5 {
            let begun = Instant::now();
            let (open, cents) = unpaid(&db, &sums)?;
            println!(
                "{open} open orders, {}.{:02} in all, in {:?}",
                cents / 100,
                cents % 100,
                begun.elapsed()
            );
            if round == 2 {
                println!("{} rows read again", sums.refresh()?);
            }
        }
        paying.join().expect("no panic")
    })?;

    // The table gives the same result.
    let (tx, mut open) = (db.begin()?, 0);
    tx.scan_all(orders).for_each(|_, (_, _, is_paid, _)| open += usize::from(!is_paid))?;
    drop(tx);
    assert_eq!(unpaid(&db, &sums)?.0, open);
    Ok(())
}

fn order(key: u64) -> (u32, u64, bool, &'static str) {
    (key as u32 % 5000, 100 + key * 37 % 10_000, key.is_multiple_of(3), "to be delivered in the morning")
}

/// Returns the number of unpaid orders and their sum, both as of one moment, whatever is paid meanwhile.
fn unpaid(db: &Database, sums: &braiddb::Projection<u64, Order, (u64, bool)>) -> Result<(usize, u64)> {
    let tx = db.begin()?;
    tx.declare_read_only();
    let (mut scan, mut selection, mut open, mut sum) = (sums.scan_all(&tx)?, Selection::default(), 0, 0);
    while let Some(batch) = scan.next()? {
        let (cents, is_paid) = batch.columns();
        selection.select(is_paid, |is_paid| !is_paid);
        open += selection.len();
        sum += selection.iter().map(|&row| cents[row as usize]).sum::<u64>();
    }
    Ok((open, sum))
}
