//! Rows that get, lose or keep and change an index key that a transaction has looked for.

use super::*;
use braiddb::{Serializable, Snapshot, Transaction};

/// What the reader looks at.
#[derive(Clone, Copy, Debug)]
enum Look {
    /// Rows of one color, ascending or descending, with a limit.
    Color(u32, usize),
    Reverse(u32, usize),
    /// Rows whose name begins with this text.
    Name(&'static str),
    /// The row that has this number.
    Number(u32),
}

/// What the other transaction does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Insert(u32, Row),
    Delete(u32),
    Update(u32, Row),
}

const fn row(color: u32, number: u32, payload: u64) -> Row {
    Row { color, number, payload }
}

const ALL: usize = usize::MAX;

/// The present rows, the reader's look, and the change.
type Case = (&'static [(u32, Row)], Look, Act);

const CASES: &[Case] = &[
    // A row of that color is inserted.
    (&[], Look::Color(7, ALL), Act::Insert(1, row(7, 1, 1))),
    (&[(2, row(6, 0, 0)), (3, row(8, 0, 0))], Look::Color(7, ALL), Act::Insert(1, row(7, 1, 1))),
    (&[(2, row(7, 0, 0))], Look::Color(7, ALL), Act::Insert(1, row(7, 1, 1))),
    (&[(2, row(7, 0, 0))], Look::Reverse(7, ALL), Act::Insert(1, row(7, 1, 1))),
    (&[(1, row(6, 0, 0))], Look::Color(7, ALL), Act::Update(1, row(7, 0, 0))),
    (&[(1, row(6, 0, 0))], Look::Reverse(7, ALL), Act::Update(1, row(7, 0, 0))),
    (&[(2, row(1, 0, 0))], Look::Name("a color"), Act::Insert(1, row(2, 0, 0))),
    (&[(2, row(0, 0, 0))], Look::Name("a color"), Act::Update(2, row(2, 0, 0))),
    // A row leaves, by changing its color or by deletion.
    (&[(1, row(7, 0, 0))], Look::Color(7, ALL), Act::Update(1, row(6, 0, 0))),
    (&[(1, row(7, 0, 0)), (4, row(7, 0, 0))], Look::Reverse(7, 1), Act::Update(4, row(6, 0, 0))),
    (&[(1, row(7, 0, 0))], Look::Color(7, ALL), Act::Delete(1)),
    (&[(1, row(2, 0, 0))], Look::Name("a color"), Act::Delete(1)),
    // A column changes that the index does not use.
    (&[(1, row(7, 0, 0))], Look::Color(7, ALL), Act::Update(1, row(7, 0, 1))),
    (&[(1, row(7, 0, 0))], Look::Reverse(7, 1), Act::Update(1, row(7, 0, 1))),
    (&[(1, row(2, 0, 0))], Look::Name("a color"), Act::Update(1, row(2, 0, 1))),
    // One row by a unique key.
    (&[], Look::Number(5), Act::Insert(1, row(7, 5, 0))),
    (&[(1, row(7, 4, 0))], Look::Number(5), Act::Update(1, row(7, 5, 0))),
    (&[(1, row(7, 5, 0))], Look::Number(5), Act::Update(1, row(7, 4, 0))),
    (&[(1, row(7, 5, 0))], Look::Number(5), Act::Update(1, row(7, 5, 1))),
    (&[(1, row(7, 5, 0))], Look::Number(5), Act::Delete(1)),
];

fn look<C: ConcurrencyControl>(tx: &Transaction<C>, t: Tables, look: Look) -> Result<()> {
    let mut rows = match look {
        Look::Number(number) => return tx.get_by(t.by_number, number).map(drop),
        Look::Name(name) => {
            let mut rows = tx.scan_by_prefix(t.by_name, name.as_bytes());
            while rows.next()?.is_some() {}
            return Ok(());
        }
        Look::Color(color, limit) => tx.scan_by(t.by_color, color..=color).limit(limit),
        Look::Reverse(color, limit) => tx.scan_by(t.by_color, color..color + 1).reverse().limit(limit),
    };
    while rows.next()?.is_some() {}
    Ok(())
}

fn act<C: ConcurrencyControl>(tx: &Transaction<C>, t: Tables, act: Act) -> Result<()> {
    match act {
        Act::Insert(n, row) => tx.insert(t.rows, id(n), &row),
        Act::Delete(n) => tx.delete(t.rows, id(n)).map(|found| assert!(found)),
        Act::Update(n, row) => tx.update(t.rows, id(n), &row).map(|found| assert!(found)),
    }
}

/// Plays a write skew: the looker looks by an index and writes a row that the actor reads, and the actor changes what
/// the looker looks at.
fn play<C: ConcurrencyControl>((rows, looked, acted): Case, looks_first: bool, actor_first: bool) -> usize {
    let db: Database<C> = database(0);
    let t = Tables::new(&db);
    let side: Table<u64, u64> = db.table("side").unwrap();
    let setup = db.begin().unwrap();
    setup.put(side, 1, 0).unwrap();
    for (n, row) in rows {
        setup.put(t.rows, id(*n), row).unwrap();
    }
    setup.commit().unwrap();
    let (looker, actor) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(actor.get(side, 1).unwrap(), Some(0));
    if looks_first {
        look(&looker, t, looked).unwrap();
    }
    act(&actor, t, acted).unwrap();
    if !looks_first {
        look(&looker, t, looked).unwrap();
    }
    looker.put(side, 1, 1).unwrap();
    let results = match actor_first {
        true => [actor.commit(), looker.commit()],
        false => [looker.commit(), actor.commit()],
    };
    assert!(results[0].is_ok(), "nobody has committed before it");
    results.iter().filter(|result| result.is_ok()).count()
}

fn check<C: ConcurrencyControl>(expected: usize) {
    for case in CASES {
        for (looks_first, actor_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let committed = play::<C>(*case, looks_first, actor_first);
            let order = (looks_first, actor_first);
            assert_eq!(committed, expected, "{case:?}; looks first, actor commits first: {order:?}");
        }
    }
}

/// Proves that one transaction of a write skew over what an index was asked for aborts.
#[test]
fn phantoms_are_found() {
    check::<Serializable>(1);
}

/// Proves that each of these cases is a write skew: without tracking, both transactions commit.
#[test]
fn phantoms_are_there() {
    check::<Snapshot>(2);
}

/// Proves that untracked reads by an index cause no conflict.
#[test]
fn untracked_reads_are_free() {
    let db: Database = database(0);
    let t = Tables::new(&db);
    let other = db.begin().unwrap();
    let tx = db.begin().unwrap();
    tx.with(async |tx| {
        assert!(tx.scan_by(t.by_color, 1u32..3).untracked().next().await?.is_none());
        assert!(tx.get_by(t.by_number, 3).untracked().await?.is_none());
        tx.put(t.rows, id(9), &row(9, 9, 9)).await
    })
    .unwrap();
    assert!(other.scan_by(t.by_color, 9u32..10).next().unwrap().is_none());
    other.put(t.rows, id(1), &row(1, 3, 0)).unwrap();
    other.commit().unwrap();
    tx.commit().unwrap();
}
