//! Secondary indexes by columns, whose definitions the database keeps. Under every scheme, they are built when the
//! database is opened, maintained by all writers, and unique.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{AnyScheme, Database, Error, Index, Options, Result, SchemeName, Table, Txn, Value};
use std::sync::Arc;

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        #[test]
        fn $module() {
            kept(braiddb::SchemeName::$scheme);
        }
    )*};
}

braiddb::schemes!(tests);

/// A name and a color.
type Row = (String, u8);

const ROWS: u64 = 40;

fn open(scheme: SchemeName, disk: &Arc<dyn Storage>) -> Database<AnyScheme> {
    let options = Options {
        workers: 1,
        pin_workers: false,
        log_segment_bytes: 1 << 20,
        retries_max: u32::MAX,
        ..Options::default()
    };
    Database::open_with(disk.clone(), under(scheme, options), Arc::new(SystemClock::default()), &mut |_| {})
        .unwrap()
}

fn name(n: u64) -> String {
    format!("a name that has more than eight bytes {n:04}")
}

fn color(n: u64, round: u64) -> u8 {
    ((n + round) % 3) as u8
}

/// Gives each row the name of the row after it. In descending order of rows, each name is free by then. In ascending
/// order, it is not.
async fn rename(
    tx: &Txn<AnyScheme>,
    rows: Table<u64, Row>,
    round: u64,
    numbers: impl Iterator<Item = u64>,
) -> Result<()> {
    for n in numbers {
        tx.put(rows, n, (&name(n + round), color(n, round))).await?;
    }
    Ok(())
}

/// Opens a database several times, by a program that declares its indexes only the first time.
fn kept(scheme: SchemeName) {
    let disk: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1 << 30));
    for round in 0..3u64 {
        let db = open(scheme, &disk);
        let rows: Table<u64, Row> = db.table("rows").unwrap();
        if round == 0 {
            db.unique_index_on::<String, _, _>(rows, "by name", &["0"]).unwrap();
            db.index_on::<(u8, String), _, _>(rows, "by color", &["1", "0"]).unwrap();
        }
        let upwards = db.run(async move |tx: &Txn<AnyScheme>| rename(tx, rows, round, 0..ROWS).await).wait();
        assert_eq!(matches!(upwards, Err(Error::UniqueViolation { .. })), round > 0, "{upwards:?}");
        db.run(async move |tx: &Txn<AnyScheme>| rename(tx, rows, round, (0..ROWS).rev()).await)
            .wait()
            .unwrap();
        let raw = db.raw_table("rows").unwrap();
        let taken = db.run(async move |tx: &Txn<AnyScheme>| {
            raw.insert(tx, &ROWS.to_be_bytes(), &Row::encode((&name(round), 0))?).await
        });
        assert!(matches!(taken.wait(), Err(Error::UniqueViolation { .. })));
        if round == 1 {
            db.checkpoint().unwrap();
        }
        check(&db, rows, round);
        db.close().unwrap();
    }
}

fn check(db: &Database<AnyScheme>, rows: Table<u64, Row>, round: u64) {
    let by_name: Index<String, _, _> = db.unique_index_on(rows, "by name", &["0"]).unwrap();
    let by_color: Index<(u8, String), _, _> = db.index_on(rows, "by color", &["1", "0"]).unwrap();
    let found = db.run(async move |tx: &Txn<AnyScheme>| {
        let mut by_names = Vec::new();
        for n in 0..ROWS + round {
            by_names.push(tx.get_by(by_name, &*name(n)).await?.map(|(key, _)| key));
        }
        let (mut red, mut by_colors) = (tx.scan_by(by_color, (1, "")..(2, "")), Vec::new());
        while let Some((_, key, _)) = red.next().await? {
            by_colors.push(key);
        }
        Ok((by_names, by_colors))
    });
    let (by_names, by_colors) = found.wait().unwrap();
    let expected: Vec<_> = (0..ROWS + round).map(|n| n.checked_sub(round)).collect();
    assert_eq!(by_names, expected);
    assert_eq!(by_colors, (0..ROWS).filter(|&n| color(n, round) == 1).collect::<Vec<_>>());
}
