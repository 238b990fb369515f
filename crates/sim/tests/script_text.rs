//! Scripts as text: valid scripts are read, and invalid ones are refused with a line and a reason.

use braid_sim::script::{SPECS, count, interleavings, is_serial, parse, spec};
use std::collections::BTreeSet;
use std::path::Path;

/// Proves that each file of the folder is in the table, so that none is left out.
#[test]
fn every_file_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".spec").map(str::to_string))
        .collect();
    let table: BTreeSet<String> = SPECS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(files, table);
    assert_eq!(table.len(), SPECS.len(), "a script is there twice");
}

/// Proves that the text made from a script reads as the same script.
#[test]
fn scripts_survive_as_text() {
    for (name, text) in SPECS {
        let script = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        let again = parse(name, &script.to_string()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.to_string(), script.to_string());
        let inside =
            |script| format!("{:?}", braid_sim::script::program::Script { expectations: vec![], ..script });
        assert_eq!(inside(again), inside(script));
    }
}

/// Proves that mistakes are refused, with the line and the reason.
#[test]
fn mistakes_are_refused() {
    let cases = [
        ("", "0: there is no transaction"),
        ("row t[1] = 1", "1: there is no transaction"),
        ("row t[1] = 1\nrow t[1] = 2", "2: there is such a row already"),
        ("row t[1] 5", "1: `5` where `=` is expected"),
        ("row t[1] = ", "1: the line ends where a value is expected"),
        ("row t[1] = x", "1: `x` has no value here"),
        ("row t[1] = 99999999999999999999", "1: the number 99999999999999999999 is too large"),
        ("filler 1000", "1: more than 200 rows between two keys"),
        ("phases 5", "1: more than 4 phases of a commit"),
        ("phases", "1: the number of phases of a commit is missing"),
        ("transaction a readonly\n  lock t[1]\n  commit", "3: transaction a is read-only, and writes"),
        ("transaction a\n  lock t[1] soon\n  commit", "2: `soon` where the end of the line is expected"),
        ("expect chaos none", "1: unknown scheme \"chaos\": expected one of snapshot, serializable"),
        ("expect snapshot some", "1: `some` where `anomaly` or `none` is expected"),
        ("expect snapshot none\nexpect snapshot none", "2: there is an expectation for snapshot already"),
        ("get t[1]", "1: a statement outside of any transaction"),
        ("transaction a\n  get t[1]", "2: transaction a does not end in `commit` or `abort`"),
        (
            "transaction a\n  get t[1]\n\ntransaction b\n",
            "4: transaction a does not end in `commit` or `abort`",
        ),
        ("transaction a\n  if 1 then commit", "2: transaction a does not end in `commit` or `abort`"),
        ("transaction a\n  commit\n  get t[1]", "3: a statement after the transaction's end"),
        ("transaction a\n  commit; get t[1]", "2: a statement after the transaction's end"),
        ("transaction a\n  commit\ntransaction a", "3: there is a transaction a already"),
        ("transaction a readonly\n  delete t[1]\n  commit", "3: transaction a is read-only, and writes"),
        ("transaction a readonly\n  look t[1]\n  commit", "3: transaction a is read-only, and writes"),
        ("transaction a\n  insert t[1] = 1 else put", "2: `put` where `abort` is expected"),
        ("transaction a\n  jump t[1]", "2: there is no statement `jump`"),
        (
            "transaction a\n  x = most t[1]",
            "2: `most` where `get`, `peek`, `lock`, `count`, `sum`, `first` or `last` is expected",
        ),
        ("transaction a\n  value = get t[1]", "2: `value` is the row at hand, and no variable"),
        ("transaction a\n  put t[1] = value", "2: `value` has no value here"),
        ("transaction a\n  get t[1", "2: the line ends where `]` is expected"),
        ("transaction a\n  get t[1] get t[2]", "2: `get` where the end of the line is expected"),
        ("transaction a\n  scan t[1]", "2: `]` where `..` is expected"),
        ("transaction a\n  get t[1] ?", "2: `?` begins nothing"),
        ("transaction a\n  if 1 get t[1]", "2: `get` where `then` is expected"),
    ];
    for (text, expected) in cases {
        let error = parse("x.spec", text).expect_err(text);
        assert_eq!(error.to_string(), format!("x.spec:{expected}"), "{text}");
    }
    let many: String = (0..5).map(|name| format!("transaction t{name}\n  commit\n")).collect();
    assert_eq!(parse("x", &many).unwrap_err().to_string(), "x:9: more than 4 transactions");
}

/// Proves that every interleaving is generated exactly once, including the serial ones.
#[test]
fn interleavings_are_complete() {
    let script = spec("receipt-report").unwrap().unwrap();
    let all: Vec<_> = interleavings(&script).collect();
    assert_eq!(all.len(), 210, "7! / (2! 2! 3!)");
    assert_eq!(count(&script), 210);
    let distinct: BTreeSet<String> = all.iter().map(|moves| format!("{moves:?}")).collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(all.iter().filter(|moves| is_serial(moves)).count(), 6, "3!");
}
