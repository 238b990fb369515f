//! Keys that are inserted and deleted where a transaction has looked, in tables whose keys are longer than a slice of
//! the index. Keys that share their first eight or sixteen bytes are in layers that appear and disappear with them.

use super::database;
use braiddb::{
    ConcurrencyControl, Database, Front, Result, Serializable, Snapshot, Table, TableOptions, Transaction,
};

/// What the reader looks at.
#[derive(Clone, Copy, Debug)]
enum Look {
    /// A key.
    Get(&'static str),
    /// The keys from one key up to another, ascending or descending, with a limit.
    Scan(&'static str, &'static str, usize),
    Reverse(&'static str, &'static str, usize),
    Prefix(&'static str),
    ReversePrefix(&'static str),
}

/// What the other transaction does there.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(&'static str),
    /// Inserts this many keys with this prefix, so that nodes split.
    InsertMany(&'static str, usize),
    Delete(&'static str),
    Update(&'static str),
}

/// Present rows; former rows, whose records and layers may be gone; the reader's look; the change.
struct Case(&'static [&'static str], &'static [&'static str], Look, Change);

use Change::{Delete, Insert, InsertMany, Update};
use Look::{Get, Prefix, Reverse, ReversePrefix, Scan};

const ALL: usize = usize::MAX;

const CASES: &[Case] = &[
    // An absent key is inserted: alone, beside others, and into layers that appear with it.
    Case(&[], &[], Get("k"), Insert("k")),
    Case(&["a", "z"], &[], Get("k"), Insert("k")),
    Case(&["abcdefgh"], &[], Get("abcdefghi"), Insert("abcdefghi")),
    Case(&["abcdefghi"], &[], Get("abcdefgh"), Insert("abcdefgh")),
    Case(&["abcdefghi"], &[], Get("abcdefghj"), Insert("abcdefghj")),
    Case(&["abcdefghi", "abcdefghj"], &[], Get("abcdefghk"), Insert("abcdefghk")),
    Case(&["abcdefghijklmnopq"], &[], Get("abcdefghijklmnopr"), Insert("abcdefghijklmnopr")),
    Case(&["abcdefghijklmnopq"], &[], Get("abcdefghijklmnop"), Insert("abcdefghijklmnop")),
    Case(
        &["abcdefghijklmnopqrstuvwxy"],
        &[],
        Get("abcdefghijklmnopqrstuvwxz"),
        Insert("abcdefghijklmnopqrstuvwxz"),
    ),
    // Layers that are gone, or disappear while the reader is open.
    Case(&[], &["abcdefghi", "abcdefghj"], Get("abcdefghi"), Insert("abcdefghi")),
    Case(&[], &["abcdefghi", "abcdefghj"], Get("abcdefghk"), Insert("abcdefghk")),
    Case(&["abcdefghi"], &["abcdefghj", "abcdefghk"], Get("abcdefghj"), Insert("abcdefghj")),
    Case(
        &[],
        &["abcdefghijklmnopq", "abcdefghijklmnopr"],
        Get("abcdefghijklmnops"),
        Insert("abcdefghijklmnops"),
    ),
    Case(&["k"], &["abcdefghi", "abcdefghj"], Scan("a", "b", ALL), Insert("abcdefghl")),
    Case(
        &[],
        &["abcdefghijklmnopq", "abcdefghijklmnopr"],
        Reverse("a", "b", ALL),
        Insert("abcdefghijklmnopq"),
    ),
    Case(&[], &["abcdefghi", "abcdefghj"], Prefix("abcdefgh"), Insert("abcdefgh")),
    // Ranges.
    Case(&[], &[], Scan("a", "b", ALL), Insert("abcdefghi")),
    Case(&["abcdefghi"], &[], Scan("a", "b", ALL), Insert("abcdefghj")),
    Case(&["abcdefghi"], &[], Reverse("a", "b", ALL), Insert("abcdefghj")),
    Case(&["abcdefghi"], &[], Scan("abcdefghj", "abcdefghl", ALL), Insert("abcdefghk")),
    Case(&["abcdefghijklmnopq"], &[], Scan("abcdefghijkl", "abcdefghijkm", ALL), Insert("abcdefghijklmnopr")),
    Case(&["abcdefghijklmnopq"], &[], Reverse("abcdefgh", "abcdefgi", ALL), Insert("abcdefghijklmnop")),
    Case(&["abcdefghi"], &[], Prefix("abcdefgh"), Insert("abcdefgh")),
    Case(&["abcdefghi"], &[], Prefix("abcdefghj"), Insert("abcdefghjk")),
    Case(&["abcdefghijklmnopq"], &[], Prefix("abcdefghijklmnop"), Insert("abcdefghijklmnopr")),
    Case(&["abcdefghijklmnopq"], &[], ReversePrefix("abcdefghijklmnop"), Insert("abcdefghijklmnop")),
    Case(&["abcdefghi"], &[], Scan("a", "b", ALL), InsertMany("abcdefgh", 60)),
    Case(&["abcdefghi"], &[], Get("abcdefgh-17"), InsertMany("abcdefgh-", 60)),
    Case(&["a", "c"], &[], Reverse("a", "c", ALL), InsertMany("b", 40)),
    // Limits: everything before the last returned row counts as read.
    Case(&["b", "c", "d"], &[], Scan("a", "z", 1), Insert("abcdefghi")),
    Case(&["b", "c", "d"], &[], Reverse("a", "z", 1), Insert("defghijklmnop")),
    Case(&["b", "d"], &[], Scan("a", "z", 2), Insert("c")),
    // Rows that are deleted or changed.
    Case(&["abcdefghi", "abcdefghj"], &[], Scan("a", "b", ALL), Delete("abcdefghj")),
    Case(&["abcdefghi"], &[], Prefix("abcdefgh"), Delete("abcdefghi")),
    Case(
        &["abcdefghijklmnopq", "abcdefghijklmnopr"],
        &[],
        Reverse("a", "b", ALL),
        Delete("abcdefghijklmnopq"),
    ),
    Case(&["abcdefghijklmnopq", "abcdefghijklmnopr"], &[], Scan("a", "b", ALL), Update("abcdefghijklmnopr")),
    Case(&["abcdefghijklmnopq"], &[], Get("abcdefghijklmnopq"), Delete("abcdefghijklmnopq")),
];

type Rows = Table<String, u64>;

fn look<C: ConcurrencyControl>(tx: &Transaction<C>, table: Rows, look: Look) -> Result<()> {
    let mut rows = match look {
        Get(key) => return tx.get(table, key).map(drop),
        Scan(from, to, limit) => tx.scan(table, from..to).limit(limit),
        Reverse(from, to, limit) => tx.scan(table, from..to).reverse().limit(limit),
        Prefix(prefix) => tx.scan_prefix(table, prefix.as_bytes()),
        ReversePrefix(prefix) => tx.scan_prefix(table, prefix.as_bytes()).reverse(),
    };
    while rows.next()?.is_some() {}
    Ok(())
}

fn change<C: ConcurrencyControl>(tx: &Transaction<C>, table: Rows, change: Change) -> Result<()> {
    match change {
        Insert(key) => tx.insert(table, key, 1),
        InsertMany(prefix, count) => (0..count).try_for_each(|i| tx.insert(table, format!("{prefix}{i}"), 1)),
        Delete(key) => tx.delete(table, key).map(|found| assert!(found)),
        Update(key) => tx.update(table, key, 2).map(|found| assert!(found)),
    }
}

/// When removed rows are cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleans {
    First,
    AfterTheLook,
    Never,
}

const SIDE: &str = "side";

/// Plays a write skew: the looker looks and writes a row that the changer reads, and the changer changes what the
/// looker looks at.
fn play<C: ConcurrencyControl>(case: &Case, cleans: Cleans, looks_first: bool, changer_first: bool) -> usize {
    let Case(rows, gone, looked, changed) = *case;
    let db: Database<C> = database();
    let fronted = TableOptions { front: Front::Hash, ..TableOptions::default() };
    let (table, side): (Rows, Rows) = (db.table_with("t", fronted).unwrap(), db.table("side").unwrap());
    let mut worker = db.worker();
    let put = async |tx: &braiddb::Txn<C>| {
        tx.put(side, SIDE, 0).await?;
        for key in rows.iter().chain(gone) {
            tx.put(table, *key, 0).await?;
        }
        Ok(())
    };
    worker.run(put).unwrap();
    for key in gone {
        assert!(worker.run(async |tx| tx.delete(table, *key).await).unwrap());
    }
    let mut clean = |now: Cleans| {
        for _ in 0..if now == cleans { 50 } else { 0 } {
            worker.maintain();
        }
    };
    clean(Cleans::First);
    let (looker, changer) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(changer.get(side, SIDE).unwrap(), Some(0));
    if looks_first {
        look(&looker, table, looked).unwrap();
        clean(Cleans::AfterTheLook);
    }
    change(&changer, table, changed).unwrap();
    if !looks_first {
        look(&looker, table, looked).unwrap();
        clean(Cleans::AfterTheLook);
    }
    looker.put(side, SIDE, 1).unwrap();
    let results = match changer_first {
        true => [changer.commit(), looker.commit()],
        false => [looker.commit(), changer.commit()],
    };
    assert!(results[0].is_ok(), "nobody has committed before it");
    results.iter().filter(|result| result.is_ok()).count()
}

fn check<C: ConcurrencyControl>(expected: usize) {
    for case in CASES {
        for cleans in [Cleans::First, Cleans::AfterTheLook, Cleans::Never] {
            for (looks_first, changer_first) in [(true, true), (true, false), (false, true), (false, false)] {
                let Case(rows, gone, look, change) = case;
                assert_eq!(
                    play::<C>(case, cleans, looks_first, changer_first),
                    expected,
                    "{rows:?} without {gone:?}, cleaned {cleans:?}: {look:?} and {change:?}, looks first: \
                     {looks_first}, changer commits first: {changer_first}"
                );
            }
        }
    }
}

/// Proves that one transaction of a write skew over inserted, deleted or changed keys aborts, whichever looks, changes
/// or commits first.
#[test]
fn phantoms_are_found() {
    check::<Serializable>(1);
}

/// Proves that each of these cases is a write skew: without tracking, both transactions commit.
#[test]
fn phantoms_are_there() {
    check::<Snapshot>(2);
}
