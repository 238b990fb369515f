//! Keys that only one row may have.

use super::*;
use braiddb::Error;

const fn numbered(number: u32) -> Row {
    Row { color: 1, number, payload: 3 }
}

fn is_violation(result: Result<()>) -> bool {
    matches!(result, Err(Error::UniqueViolation { index }) if index == "by number")
}

/// Proves that a second row with a key is refused, whichever transaction has written the first. The refusal changes
/// nothing, and the transaction continues. A key is free again when its row is deleted or has another key.
#[test]
fn violations() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let tx = db.begin().unwrap();
    tx.put(t.rows, id(1), &numbered(5)).unwrap();
    // The transaction's own row.
    assert!(is_violation(tx.put(t.rows, id(2), &numbered(5))));
    assert!(is_violation(tx.insert(t.rows, id(2), &numbered(5))));
    assert_eq!(tx.get(t.rows, id(2)).unwrap(), None);
    tx.put(t.rows, id(2), &numbered(6)).unwrap();
    assert!(is_violation(tx.update(t.rows, id(2), &numbered(5)).map(drop)));
    assert_eq!(tx.get(t.rows, id(2)).unwrap(), Some(&numbered(6)));
    tx.with(async |tx| check_consistent(tx, t).await).unwrap();
    tx.commit().unwrap();
    // Another transaction's row, which has committed.
    let tx = db.begin().unwrap();
    assert!(is_violation(tx.put(t.rows, id(3), &numbered(5))));
    tx.put(t.rows, id(1), &numbered(7)).unwrap();
    tx.put(t.rows, id(3), &numbered(5)).unwrap();
    assert!(tx.delete(t.rows, id(2)).unwrap());
    tx.put(t.rows, id(4), &numbered(6)).unwrap();
    tx.commit().unwrap();
    let rows = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
    assert_eq!(rows.values().map(|row| row.number).sum::<u32>(), 7 + 5 + 6);
}

/// Proves that a key that another open transaction has taken is a conflict, and afterwards a violation, or nothing if
/// that transaction was rolled back.
#[test]
fn open_transactions() {
    for commits in [true, false] {
        let db: Database = database(0);
        let t = Tables::new(&db);
        let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
        first.put(t.rows, id(1), &numbered(5)).unwrap();
        assert!(matches!(second.put(t.rows, id(2), &numbered(5)), Err(Error::Conflict)));
        assert!(second.commit().is_err(), "it has met a conflict");
        match commits {
            true => first.commit().unwrap(),
            false => first.abort(),
        }
        let third = db.begin().unwrap();
        assert_eq!(is_violation(third.put(t.rows, id(2), &numbered(5))), commits);
        third.commit().unwrap();
        let rows = db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
        assert_eq!(rows.len(), 1);
    }
}

/// Proves that a transaction that takes a key which a row gives up, before this is committed, gets a conflict.
#[test]
fn a_key_given_up() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    db.worker().run(async |tx| tx.put(t.rows, id(1), &numbered(5)).await).unwrap();
    let (giver, taker) = (db.begin().unwrap(), db.begin().unwrap());
    giver.put(t.rows, id(1), &numbered(6)).unwrap();
    assert!(matches!(taker.put(t.rows, id(2), &numbered(5)), Err(Error::Conflict)));
    giver.commit().unwrap();
    drop(taker);
    let taker = db.begin().unwrap();
    taker.put(t.rows, id(2), &numbered(5)).unwrap();
    taker.commit().unwrap();
    db.worker().run(async |tx| check_consistent(tx, t).await).unwrap();
}

/// Proves that after a violation among interleaved writes a worker's transactions are right, and that the engine
/// returns the violation to the caller instead of retrying.
#[test]
fn interleaved() {
    let db: Database = database(1);
    let t = Tables::new(&db);
    let results = db.run_each((0..200u32).collect(), async move |tx, n: &u32| {
        tx.put(t.rows, id(*n), &numbered(1 + n % 50)).await
    });
    let results = results.wait().unwrap();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 50);
    assert!(results.into_iter().all(|result| result.is_ok() || is_violation(result)));
    let rows = db.run(async move |tx| check_consistent(tx, t).await).wait().unwrap();
    assert_eq!(rows.len(), 50);
}
