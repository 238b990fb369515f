//! Columns of texts.

use super::*;
use braiddb::Text;

/// Proves that random texts, short, empty and long, are found in columns as in the table: in unchanged blocks, in
/// patched blocks and in ranges that are read. Blocks whose texts cannot match are skipped. An array of texts makes
/// columns, too.
#[test]
fn texts() {
    let db = Database::in_memory(options()).unwrap();
    let table: Table<u64, (String, i32)> = db.table("notes").unwrap();
    let make = |_: &u64, (note, number): (String, i32)| Some((Text::from(note), number));
    let notes = db.projection_with(table, "notes", blocks_of(64), make).unwrap();
    let mut random = Seeded::new(7);
    let mut write = |from: u64, to: u64, step: usize| {
        for key in (from..to).step_by(step) {
            let length = [0, 1, 5, 30, 300][(random.next_u64() % 5) as usize];
            let note = ["x", "\u{e9}", "\u{1f980}"][(random.next_u64() % 3) as usize].repeat(length);
            db.transact(|tx| tx.put(table, key, (format!("{key:04}{note}").as_str(), key as i32))).unwrap();
        }
    };
    let check = || {
        let (tx, mut found, mut expected) = (reader(&db), vec![], vec![]);
        let mut scan = notes.scan(&tx, 10..900).unwrap();
        while let Some(batch) = scan.next().unwrap() {
            let (texts, numbers) = batch.columns();
            assert_eq!((texts.len(), texts.iter().len()), (batch.len(), batch.len()));
            for (row, text) in texts.iter().enumerate() {
                assert_eq!(texts.get(row), text);
                found.push((batch.key(row).unwrap(), text.to_owned(), numbers[row]));
            }
        }
        let collect = |key, (note, number): (String, i32)| expected.push((key, note, number));
        tx.scan(table, 10..900).for_each(collect).unwrap();
        assert_eq!(found, expected);
    };
    write(0, 1000, 2);
    check();
    assert_eq!(notes.refresh().unwrap(), 500);
    check();
    write(0, 1000, 97); // patched
    check();
    write(100, 300, 1); // read
    check();
    notes.refresh().unwrap();
    check();

    let tx = reader(&db);
    let (mut scan, mut read, mut found) = (notes.scan_all(&tx).unwrap(), 0, vec![]);
    while let Some(batch) = scan.next_where(|(text, _)| text.meets_prefix("0420")).unwrap() {
        read += batch.len();
        let (texts, _) = batch.columns();
        found.extend(texts.iter().filter(|text| text.starts_with("0420")).map(str::to_owned));
    }
    assert!((1..=128).contains(&read), "{read}");
    assert_eq!(found.len(), 1);
    drop(scan);
    drop(tx);

    let make = |_: &u64, (note, _): (String, i32)| Some([Text::from(&note[..4]), Text::from(note)]);
    let pairs = db.projection(table, "pairs", make).unwrap();
    pairs.refresh().unwrap();
    let tx = reader(&db);
    let mut scan = pairs.scan_all(&tx).unwrap();
    let [numbers, notes] = scan.next().unwrap().unwrap().columns();
    assert!(numbers.iter().zip(notes.iter()).all(|(number, note)| note.starts_with(number)));
}

/// Proves that texts are in the memory account with all their bytes, and that at the limit a refresh is refused.
#[test]
fn memory_of_texts() {
    let db = Database::in_memory(Options { memory_limit_bytes: 48 << 20, ..options() }).unwrap();
    let table: Numbers = db.table("numbers").unwrap();
    fill(&db, table, 0..1000);
    let used = || db.statistics().memory.other_bytes;
    let before = used();
    let texts = |bytes: usize| move |_: &u64, _| Some((Text::from("x".repeat(bytes)),));
    let some = db.projection(table, "some", texts(1000)).unwrap();
    some.refresh().unwrap();
    let bytes = used() - before;
    assert!((1_000_000..1_200_000).contains(&bytes), "{bytes}");
    let all = db.projection(table, "all", texts(100_000)).unwrap();
    assert!(matches!(all.refresh(), Err(Error::OutOfMemory { .. })));
    assert_eq!(used() - before, bytes, "nothing is left of it");
    some.discard();
    assert!(used() - before < 10_000, "{}", used() - before);
}
