//! Keys that are longer than any row's key can be. No row has such a key, and it bounds a scan like any other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{
    Claim, Database, Error, Index, IndexKind, KEY_BYTES_MAX, Options, Result, Table, TableOptions,
    Transaction,
};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

fn local() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

/// Keys that differ late, or only in their lengths: keys that rows can have, and longer ones.
fn keys(lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut keys = vec![];
    for &length in lengths {
        for byte in [0, 1, 254, 255] {
            keys.push(vec![byte; length]);
            let mut other = vec![255; length];
            other[KEY_BYTES_MAX - 1] = byte;
            keys.push(other);
        }
    }
    keys
}

fn stored() -> Vec<Vec<u8>> {
    let mut all = keys(&[KEY_BYTES_MAX]);
    all.extend([0, 1, 254, 255].map(|byte| vec![byte; KEY_BYTES_MAX - 1]));
    all.extend([vec![], vec![0], vec![255], b"a".to_vec()]);
    all
}

fn too_long() -> Vec<Vec<u8>> {
    keys(&[KEY_BYTES_MAX + 1, KEY_BYTES_MAX + 2, 5000])
}

fn is_too_long<T>(result: Result<T>, key: &[u8]) -> bool {
    matches!(result, Err(Error::KeyTooLong { bytes, bytes_max: KEY_BYTES_MAX }) if bytes == key.len())
}

/// Proves that every operation on one key finds nothing under a key that is too long, in every kind of table, and that
/// only operations that would add a row are refused.
#[test]
fn absent() {
    for &index in IndexKind::ALL {
        let db = local();
        let options = TableOptions { index, ..TableOptions::default() };
        let t: Table<Vec<u8>, u64> = db.table_with("t", options).unwrap();
        let by_value = db.unique_index(t, "by value", |key: &Vec<u8>, _| Some(key.clone())).unwrap();
        let tx = db.begin().unwrap();
        stored().iter().for_each(|key| tx.put(t, key, 1).unwrap());
        tx.commit().unwrap();
        let tx = db.begin().unwrap();
        for key in &too_long() {
            assert_eq!(tx.get(t, key).unwrap(), None);
            assert!(!tx.contains(t, key).unwrap());
            assert_eq!(tx.get_for_update(t, key).unwrap(), None);
            assert_eq!(
                tx.with(async |tx| tx.get_for_update(t, key).skip_locked().await).unwrap(),
                Claim::Absent
            );
            assert!(!tx.update(t, key, 2).unwrap());
            assert!(!tx.delete(t, key).unwrap());
            assert_eq!(tx.get_many(t, &[&stored()[0], key, &stored()[1]]).unwrap(), [Some(1), None, Some(1)]);
            let mut out = [Some(7); 2];
            tx.get_into(t, &[key, &stored()[0]], &mut out).unwrap();
            assert_eq!(out, [None, Some(1)]);
            assert_eq!(tx.get_by(by_value, key).unwrap(), None);
            let raw = db.raw_table("t").unwrap();
            assert!(!tx.with(async |tx| Ok(raw.get(tx, key).await?.is_some())).unwrap());
        }
        tx.commit().unwrap();
        for key in &too_long() {
            assert!(is_too_long(db.begin().unwrap().put(t, key, 1), key));
            assert!(is_too_long(db.begin().unwrap().insert(t, key, 1), key));
            assert!(is_too_long(db.begin().unwrap().add(t, key, 1), key));
            let tx = db.begin().unwrap();
            assert!(is_too_long(tx.with(async |tx| tx.compare_and_set(t, key, None, Some(1)).await), key));
        }
        let tx = db.begin().unwrap();
        assert!(stored().iter().all(|key| tx.get(t, key).unwrap() == Some(1)), "{index:?}");
    }
}

type Found = Vec<(Vec<u8>, u64)>;

fn check_range(
    tx: &Transaction,
    t: Table<Vec<u8>, u64>,
    model: &BTreeMap<Vec<u8>, u64>,
    range: (Bound<&Vec<u8>>, Bound<&Vec<u8>>),
) {
    let mut expected: Found = model
        .iter()
        .filter(|(key, _)| range.contains(key))
        .map(|(key, value)| (key.clone(), *value))
        .collect();
    for is_reverse in [false, true] {
        let mut rows = tx.scan::<_, _, &Vec<u8>>(t, range);
        if is_reverse {
            rows = rows.reverse();
            expected.reverse();
        }
        let mut found = vec![];
        while let Some(row) = rows.next().unwrap() {
            found.push(row);
        }
        assert!(found == expected, "{:?}", shortened(range));
    }
}

/// A range, shortened for messages.
fn shortened(range: (Bound<&Vec<u8>>, Bound<&Vec<u8>>)) -> impl std::fmt::Debug {
    let short = |key: &Vec<u8>| (key.len(), key.first().copied(), key.last().copied());
    (range.0.map(short), range.1.map(short))
}

fn ranges<'k>(keys: &'k [Vec<u8>]) -> impl Iterator<Item = (Bound<&'k Vec<u8>>, Bound<&'k Vec<u8>>)> {
    let both = |key: &'k Vec<u8>| [Bound::Included(key), Bound::Excluded(key)];
    let open = keys.iter().flat_map(both).flat_map(|one| [(one, Bound::Unbounded), (Bound::Unbounded, one)]);
    let few = move || keys.iter().step_by(3).flat_map(both);
    open.chain(few().flat_map(move |from| few().map(move |to| (from, to))))
}

/// Proves that a scan with a bound that is too long for a key has the rows on its side of the bound, in every ordered
/// table.
#[test]
fn bounds() {
    for index in IndexKind::ordered() {
        let db = local();
        let t: Table<Vec<u8>, u64> =
            db.table_with("t", TableOptions { index, ..TableOptions::default() }).unwrap();
        let model: BTreeMap<Vec<u8>, u64> = (0..).zip(stored()).map(|(n, key)| (key, n)).collect();
        let tx = db.begin().unwrap();
        model.iter().for_each(|(key, value)| tx.put(t, key, *value).unwrap());
        let mut all = too_long();
        all.extend(stored());
        ranges(&all).for_each(|range| check_range(&tx, t, &model, range));
    }
}

/// Proves the same of scans by secondary indexes, one of which writes NULs in index keys as two bytes.
#[test]
fn bounds_of_indexes() {
    let db = local();
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let by_text = db.index(t, "by text", |_, text: &[u8]| Some(text.to_vec())).unwrap();
    let by_own_text = db.unique_index(t, "by own text", |_, text: &[u8]| Some(text.to_vec())).unwrap();
    // As many as an index takes if something follows them.
    let texts = [
        &[][..],
        &[0; 500],
        &[0; 511],
        &[1; 1022],
        &[1, 0, 2],
        &[254; 1022],
        &[255; 1021],
        &[255; 1022],
        b"a",
    ];
    let tx = db.begin().unwrap();
    for (key, text) in (0..).zip(texts) {
        tx.put(t, key, text).unwrap();
    }
    let mut all: Vec<Vec<u8>> = too_long();
    all.extend(
        [0, 1, 254, 255]
            .into_iter()
            .flat_map(|byte| [511, 512, 600, 1021, 1022, 1023, 1024].map(|n| vec![byte; n])),
    );
    let check = |index: Index<Vec<u8>, u64, [u8]>, range: (Bound<&Vec<u8>>, Bound<&Vec<u8>>)| {
        let mut expected: Vec<&[u8]> =
            texts.into_iter().filter(|text| range.contains(&text.to_vec())).collect();
        expected.sort();
        for is_reverse in [false, true] {
            let mut rows = tx.scan_by::<_, _, _, &Vec<u8>>(index, range);
            if is_reverse {
                rows = rows.reverse();
                expected.reverse();
            }
            let mut found = vec![];
            while let Some((_, _, text)) = rows.next().unwrap() {
                found.push(text);
            }
            assert!(found == expected, "{:?}", shortened(range));
        }
    };
    for range in ranges(&all) {
        check(by_text, range);
        check(by_own_text, range);
    }
}
