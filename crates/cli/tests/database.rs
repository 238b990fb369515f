//! The commands for a database on disk, run as a user runs them: their output, messages and exit status.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use braiddb::{Database, Key, Options, Plain, Table, Value};
use common::Directory;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

impl Directory {
    /// Creates a file in the directory.
    fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).unwrap();
        path
    }
}

/// Runs `braid` with these words and paths, in the directory.
fn braid(directory: &Directory, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.current_dir(&directory.0).args(line.split(' ')).output().unwrap()
}

/// The output of a command that succeeds.
fn printed(directory: &Directory, line: &str) -> String {
    let output = braid(directory, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of a command that fails.
fn refused(directory: &Directory, line: &str) -> String {
    let output = braid(directory, line);
    assert_eq!(output.status.code(), Some(1), "{line}");
    String::from_utf8(output.stderr).unwrap()
}

fn open(path: &Path) -> Database {
    let options =
        Options { workers: 1, pin_workers: false, log_segment_bytes: 1 << 20, ..Options::default() };
    Database::open(path, options).unwrap()
}

/// A key that consists of keys.
type Nested = (i32, (Vec<u8>, String), u64);

/// Creates tables of many types, with awkward strings, and an empty table.
fn fill(path: &Path) {
    let db = open(path);
    let words: Table<String, str> = db.table("words, \"quoted\"\n").unwrap();
    let pairs: Table<Nested, i128> = db.table("pairs").unwrap();
    let floats: Table<u64, f64> = db.table("floats").unwrap();
    let small: Table<i8, f32> = db.table("small").unwrap();
    let set: Table<Vec<u8>, ()> = db.table("set").unwrap();
    let plain: Table<u16, Plain<[u32; 2]>> = db.table("plain").unwrap();
    let (arrays, eight): (Table<[u8; 3], u8>, Table<[u8; 8], u8>) =
        (db.table("arrays").unwrap(), db.table("eight").unwrap());
    db.table::<i64, [u8]>("empty").unwrap();
    db.run(async move |tx| {
        for text in ["", "a", "\0", "line\nline", "cr\rlf\r\n", "\"quoted\", and é", "hex:00", " "] {
            tx.put(words, text, text).await?;
        }
        for (i, bytes) in [vec![], vec![0], vec![0, 255, 0]].into_iter().enumerate() {
            let key = (i as i32 - 1, (bytes, "x\0y".to_string()), u64::MAX);
            tx.put(pairs, key, i128::MIN + i as i128).await?;
        }
        let odd = [0.1, -0.0, 1e300, 5e-324, f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001), f64::INFINITY];
        for (key, value) in odd.into_iter().enumerate() {
            tx.put(floats, key as u64, value).await?;
        }
        tx.put(small, i8::MIN, f32::MIN_POSITIVE).await?;
        tx.put(small, 0, 0.1).await?;
        tx.put(set, [0u8, 1], ()).await?;
        tx.put(arrays, [1, 0, 255], 1).await?;
        tx.put(eight, [9; 8], 2).await?;
        tx.put(plain, 7, &[1, u32::MAX]).await
    })
    .wait()
    .unwrap();
    db.close().unwrap();
}

#[test]
fn what_is_dumped_and_loaded_is_dumped_again() {
    // Proves that all types survive JSON byte for byte, and that the tables are the same.
    let directory = Directory::new("json");
    fill(&directory.0.join("db"));
    let first = printed(&directory, "dump db");
    assert!(
        first.contains(r#"{"table":"pairs","key":[-1,["","x\u0000y"],18446744073709551615],"value":-1701"#)
    );
    assert!(first.contains(r#"{"table":"empty","key_type":"i64","value_type":"bytes"}"#), "{first}");
    fs::write(directory.0.join("dump"), &first).unwrap();
    let loaded = printed(&directory, "load copy dump");
    assert_eq!(loaded, "loaded 24 rows into 9 tables\n");
    assert_eq!(printed(&directory, "dump copy"), first);
    assert_eq!(open(&directory.0.join("copy")).tables(), open(&directory.0.join("db")).tables());
    // Rows that are loaded again replace themselves.
    printed(&directory, "load copy dump");
    printed(&directory, "dump copy --output again");
    assert_eq!(fs::read_to_string(directory.0.join("again")).unwrap(), first);
}

#[test]
fn a_table_survives_csv() {
    // Proves the same for CSV, table by table.
    let directory = Directory::new("csv");
    fill(&directory.0.join("db"));
    for table in ["pairs", "floats", "small", "set", "plain", "arrays", "eight", "empty"] {
        let first = printed(&directory, &format!("dump db --format csv --table {table}"));
        assert!(first.lines().next().unwrap().contains("key: "), "{first}");
        fs::write(directory.0.join("dump"), &first).unwrap();
        printed(&directory, &format!("load copy dump --format csv --table {table}"));
        assert_eq!(printed(&directory, &format!("dump copy --format csv --table {table}")), first, "{table}");
    }
    let db = open(&directory.0.join("words"));
    let words: Table<String, str> = db.table("words").unwrap();
    let texts = ["", "a", "\0", "line\nline", "cr\rlf\r\n", "\"quoted\", and é", "hex:00", " "];
    db.run(async move |tx| {
        for text in texts {
            tx.put(words, text, text).await?;
        }
        Ok(())
    })
    .wait()
    .unwrap();
    db.close().unwrap();
    let first = printed(&directory, "dump words --format csv");
    fs::write(directory.0.join("dump"), &first).unwrap();
    printed(&directory, "load copy dump --format csv --table words");
    let db = open(&directory.0.join("copy"));
    let words: Table<String, str> = db.table("words").unwrap();
    let tx = db.begin().unwrap();
    for text in texts {
        assert_eq!(tx.get(words, text).unwrap(), Some(text));
    }
    drop((tx, db));
    let error = refused(&directory, "dump db --format csv");
    assert!(error.contains("CSV takes one table"), "{error}");
}

#[test]
fn keys_of_types_that_are_not_known_survive_csv() {
    // Proves that the header says whether keys of an unknown type have eight bytes each, so that a dump can be loaded.
    let directory = Directory::new("mine");
    for (fixed8, key) in [(true, "0001020304050607"), (false, "00")] {
        let text = format!(
            "{{\"table\":\"t\",\"key_type\":\"mine\",\"value_type\":\"u8\",\"fixed8\":{fixed8}}}\n\
             {{\"table\":\"t\",\"key\":{{\"hex\":\"{key}\"}},\"value\":1}}\n"
        );
        directory.file("dump", &text);
        let text = format!("{{\"trailer\":true}}\n{text}{{\"rows\":{{\"t\":1}}}}\n"); // the form of a dump
        printed(&directory, &format!("load db-{fixed8} dump"));
        let first = printed(&directory, &format!("dump db-{fixed8} --format csv"));
        directory.file("csv", &first);
        printed(&directory, &format!("load copy-{fixed8} csv --format csv --table t"));
        assert_eq!(printed(&directory, &format!("dump copy-{fixed8}")), text);
    }
}

#[test]
fn many_rows_are_loaded_and_the_last_of_a_key_wins() {
    // Proves that a load over many transactions has all rows, and that the last row in the file with a given key wins.
    let directory = Directory::new("many");
    let mut text = String::from("{\"table\":\"t\",\"key_type\":\"u32\",\"value_type\":\"u64\"}\n");
    for value in 0..50_000u64 {
        text.push_str(&format!("{{\"table\":\"t\",\"key\":{},\"value\":{value}}}\n", value % 20_000));
    }
    directory.file("dump", &text);
    assert_eq!(printed(&directory, "load db dump"), "loaded 50,000 rows into 1 table\n");
    let db = open(&directory.0.join("db"));
    let table: Table<u32, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    for key in 0..20_000 {
        let last = if key < 10_000 { 40_000 } else { 20_000 } + u64::from(key);
        assert_eq!(tx.get(table, key).unwrap(), Some(last));
    }
}

#[test]
fn lines_that_are_no_rows_are_named() {
    // Proves that the message has the file, the line and the fault.
    let directory = Directory::new("bad");
    let table = r#"{"table":"t","key_type":"(u32, string)","value_type":"u8"}"#;
    let row = r#"{"table":"t","key":[1,"a"],"value":1}"#;
    for (line, expected) in [
        ("{", "column 1: EOF while parsing"),
        ("[]", "column 2: "),
        (r#"{"table":"t"}"#, "a line must have either"),
        (r#"{"table":"t","key":[1,"a"],"value":1,"more":2}"#, "unknown field `more`"),
        (r#"{"table":"u","key":1,"value":1}"#, "there is no table \"u\""),
        (r#"{"table":"t","key":[1],"value":1}"#, "the key: [1] is not a list of length 2"),
        (r#"{"table":"t","key":[1,"b"],"value":256}"#, "the value: 256 is not a number of type u8"),
        (r#"{"table":"t","key":[1,"b"],"value":null}"#, "the value: null is not"),
        (r#"{"table":"t","key_type":"u8","value_type":"u8"}"#, "table \"t\" holds u8 by (u32, string)"),
        (r#"{"table":"u","key_type":"mine","value_type":"u8"}"#, "the key type mine is unknown"),
        (
            r#"{"table":"u","key_type":"u64","value_type":"u8","fixed8":false}"#,
            "contradicts the key type u64",
        ),
    ] {
        directory.file("dump", &format!("{table}\n{row}\n\n{line}\n{row}\n"));
        let error = refused(&directory, "load db dump");
        assert!(error.contains("dump, line 4: ") && error.contains(expected), "{line}: {error}");
    }
    for (csv, line, expected) in [
        ("", 1, "the first line of CSV"),
        ("1,2\n", 1, "the first line of CSV"),
        ("key: u8,value: u8\n1,2\n\"3\n\",4\n", 3, "the key: "),
        ("key: u8,value: u8\n1,2\n1,2,3\n", 3, "this row has 3"),
    ] {
        directory.file("dump", csv);
        let error = refused(&directory, "load db dump --format csv --table c");
        assert!(
            error.contains(&format!("dump, line {line}: ")) && error.contains(expected),
            "{csv}: {error}"
        );
    }
    let usage = braid(&directory, "load db dump --format csv");
    assert_eq!(usage.status.code(), Some(1), "CSV does not say which table");
}

#[test]
fn a_database_is_checked_copied_and_salvaged() {
    // Proves that the commands check, copy and restore a good database, and find and salvage the readable part of a
    // damaged one.
    let directory = Directory::new("tools");
    fill(&directory.0.join("db"));
    assert!(printed(&directory, "check db db").ends_with("the database opens, from the log alone\n"));
    assert!(printed(&directory, "backup db copy").starts_with("copied and checked: no checkpoint, "));
    assert!(refused(&directory, "backup db copy").contains("not empty"));
    let first = printed(&directory, "dump copy");
    for line in ["backup db copied --json", "restore copied restored --json"] {
        let json: serde_json::Value = serde_json::from_str(&printed(&directory, line)).unwrap();
        assert_eq!((&json["checkpoint"], &json["rows"]), (&serde_json::Value::Null, &0.into()), "{json:#}");
    }
    assert_eq!(printed(&directory, "dump restored"), first);
    directory.file("dump", &first);
    let json: serde_json::Value =
        serde_json::from_str(&printed(&directory, "load loaded dump --json")).unwrap();
    assert_eq!((&json["rows"], &json["tables"]), (&24.into(), &9.into()));
    let log = directory.0.join("db").join("log-00000000000000000001");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(9).position(|window| window == b"line\nline").unwrap();
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    let output = braid(&directory, "check db db --json");
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["good"], &found["opens"]), (&false.into(), &false.into()), "{found:#}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("braid salvage db NEW"));
    assert!(refused(&directory, "dump db").contains("`braid check db db` shows what is wrong"));
    let json = printed(&directory, "salvage db other --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["complete"], &json["tables"][0]["rows"]), (&false.into(), &0.into()), "{json:#}");
    assert_eq!(
        json["damages"][0]["file"].as_str().map(|file| file.ends_with("log-00000000000000000001")),
        Some(true),
        "{json:#}"
    );
    let salvaged = printed(&directory, "salvage db new");
    assert!(salvaged.contains("damaged: log-00000000000000000001 at offset "), "{salvaged}");
    assert!(refused(&directory, "salvage db new").contains("is not empty"));
    // Nothing is left of the only transaction. All tables are left.
    let tables_of = |dump: &str| {
        dump.lines().filter(|line| line.contains("key_type")).map(String::from).collect::<Vec<_>>()
    };
    let left = printed(&directory, "dump new");
    assert_eq!(tables_of(&left), tables_of(&first));
    assert!(left.lines().count() == 9 + 2 && !left.contains("\"key\":"), "{left}");
}

#[test]
fn what_is_no_database_or_in_use_is_refused() {
    // Proves that messages say what is wrong and what to do, and that nothing is created where there was nothing.
    let directory = Directory::new("refused");
    for line in ["dump none", "check db none", "salvage none new", "backup none new"] {
        assert!(refused(&directory, line).contains("there is no database in none"), "{line}");
    }
    assert!(!directory.0.join("none").exists() && !directory.0.join("new").exists());
    directory.file("file", "text");
    assert!(refused(&directory, "dump file").contains("there is no database in file"));
    assert!(refused(&directory, "load db none").contains("none: "));
    assert!(!directory.0.join("db").exists(), "the file is looked at first");
    let db = open(&directory.0.join("db"));
    db.table::<u64, u64>("t").unwrap();
    for line in ["dump db", "check db db", "salvage db new"] {
        let error = refused(&directory, line);
        let pid = std::process::id().to_string();
        assert!(error.contains(&pid) && error.contains("stop that process first"), "{line}: {error}");
    }
    printed(&directory, "backup db copy");
    drop(db);
    for begun in [&["lock"][..], &["lock", "database.new"]] {
        let path = directory.0.join("begun");
        fs::create_dir_all(&path).unwrap();
        begun.iter().for_each(|name| fs::write(path.join(name), "").unwrap());
        for line in ["dump begun", "check db begun"] {
            let error = refused(&directory, line);
            assert!(error.contains("before it stored anything: run it again"), "{line}: {error}");
        }
    }
    fs::write(directory.0.join("begun").join("diary"), "").unwrap();
    assert!(refused(&directory, "dump begun").contains("the directory has no database files"));
    let copy = directory.0.join("copy");
    fs::write(copy.join("unfinished"), "").unwrap();
    for line in ["dump copy", "check db copy", "backup copy more", "load copy dump"] {
        directory.file("dump", "");
        let error = refused(&directory, line);
        assert!(
            error.contains("was not finished: remove the directory") && !error.contains("salvage"),
            "{error}"
        );
    }
    fs::remove_file(copy.join("unfinished")).unwrap();
    let error = refused(&directory, "dump copy --table u");
    assert!(error.contains("there is no table \"u\"; the tables are [\"t\"]"), "{error}");
}

fn crc32c(bytes: Vec<u8>) -> u32 {
    let shift = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), shift))
}

/// Sets the version in a file's head to 9 and mends the checksum, which covers the file's first `sealed_bytes` bytes,
/// or the whole file.
fn make_later(path: &Path, sealed_bytes: Option<usize>) {
    let mut bytes = fs::read(path).unwrap();
    bytes[8] = 9;
    let end = sealed_bytes.unwrap_or(bytes.len());
    let checksum = crc32c([&bytes[..12], &bytes[16..end]].concat());
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_later_version_is_no_damage() {
    // Proves that errors about files of a later version name the version, and do not advise salvage.
    for (file, sealed_bytes) in [("database", None), ("log-00000000000000000001", Some(64))] {
        let directory = Directory::new("later");
        fill(&directory.0.join("db"));
        make_later(&directory.0.join("db").join(file), sealed_bytes);
        let error = refused(&directory, "dump db");
        assert!(error.contains(file) && error.contains("version 9"), "{error}");
        assert!(error.contains("use the software that wrote it") && !error.contains("salvage"), "{error}");
        if file == "database" {
            for line in ["check db db", "salvage db new"] {
                let error = refused(&directory, line);
                assert!(error.contains("version 9") && !error.contains("braid salvage"), "{line}: {error}");
            }
        }
    }
}

#[test]
fn a_database_is_restored() {
    // Proves that the command restores everything, or the state at a given point. If it cannot, it says what can be
    // restored.
    let directory = Directory::new("restore");
    fill(&directory.0.join("db"));
    let first = printed(&directory, "dump db");
    let restored = printed(&directory, "restore db all");
    assert!(restored.starts_with("restored to lsn ") && restored.ends_with("1 transactions from the log\n"));
    assert_eq!(printed(&directory, "dump all"), first);
    assert!(
        printed(&directory, "check db all").contains("the database opens, with 24 rows from checkpoint 1")
    );
    printed(&directory, "restore db none --lsn 0");
    assert_eq!(printed(&directory, "dump none"), "");
    for point in [
        "--lsn 99999999",
        "--lsn 18446744073709551615",
        "--time 1999-12-31T23:59:59Z",
        "--time 2400-01-01T00:00:00Z",
    ] {
        let error = refused(&directory, &format!("restore db other {point}"));
        let is_clear = error.contains("cannot be restored to") && error.contains("reaches from lsn 0 (20");
        assert!(is_clear && !error.contains("salvage"), "{error}");
        assert!(!directory.0.join("other").exists());
    }
    assert!(refused(&directory, "restore db all").contains("is not empty"));
    // The log is in two parts: one in the copy, one in the archive.
    fs::create_dir(directory.0.join("archive")).unwrap();
    let log = "log-00000000000000000001";
    fs::rename(directory.0.join("db").join(log), directory.0.join("archive").join(log)).unwrap();
    printed(&directory, "restore db joined --archive archive");
    assert_eq!(printed(&directory, "dump joined"), first);
    assert_eq!(braid(&directory, "restore db x --time yesterday").status.code(), Some(1));
    assert_eq!(braid(&directory, "restore db x --time 2400-01-01T00:00:00Z --lsn 1").status.code(), Some(1));
}

#[test]
fn tables_and_rows_are_looked_at() {
    // Proves that keys are given as they are printed, that scans have bounds, prefixes, a direction and a limit, and
    // that errors name missing tables and rows.
    let directory = Directory::new("look");
    fill(&directory.0.join("db"));
    let tables = printed(&directory, "tables db");
    assert!(tables.contains("u64 -> f64  7 rows  masstree\n"), "{tables}");
    assert_eq!(tables.matches(" rows  ").count(), 9, "{tables}");
    let tables = printed(&directory, "tables db --json");
    assert!(tables.contains(r#""front":"none","index":"masstree","indexes":[],"key_type":"u64","rows":7,"table":"floats","value_type":"f64""#), "{tables}");

    assert_eq!(printed(&directory, "get db floats 2"), "1e300\n");
    assert_eq!(printed(&directory, "get db small -128"), format!("{:?}\n", f32::MIN_POSITIVE));
    assert_eq!(printed(&directory, "get db arrays 0100ff"), "1\n");
    assert!(refused(&directory, "get db words x").contains("there is no table \"words\"; the tables are ["));
    let missing = braid(&directory, "get db floats 99");
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(2) && said.contains("no row with key 99"), "{said}");
    assert_eq!(braid(&directory, "get db floats").status.code(), Some(1), "there is no key");
    assert!(refused(&directory, "get db floats x").contains("the key: x is not a number of type u64"));

    let keys = |line: &str| {
        let rows = printed(&directory, line);
        let key =
            |row: &str| row.split("\"key\":").nth(1).unwrap().split(",\"value\"").next().unwrap().to_owned();
        rows.lines().map(key).collect::<Vec<_>>()
    };
    assert_eq!(keys("scan db floats --from 2 --to 5"), ["2", "3", "4"]);
    assert_eq!(keys("scan db floats --from 2 --reverse --limit 2"), ["6", "5"]);
    assert_eq!(keys("scan db set --prefix 00"), ["\"0001\""]);
    assert_eq!(keys("scan db set --prefix 01"), [""; 0]);
    assert_eq!(keys("scan db pairs --prefix [-1]").len(), 1);
    assert_eq!(keys("scan db pairs"), keys("scan db pairs --reverse").into_iter().rev().collect::<Vec<_>>());
    assert_eq!(printed(&directory, "scan db small --format csv --limit 1").lines().count(), 2);
    assert!(refused(&directory, "scan db floats --prefix 1").contains("keys of type u64 have no prefixes"));
    assert!(
        refused(&directory, "scan db pairs --from [1]").contains("--from: [1] is not a list of length 3")
    );
}

#[test]
fn a_database_says_what_it_is_made_of() {
    let directory = Directory::new("info");
    fill(&directory.0.join("db"));
    let info = printed(&directory, "info db");
    let line =
        |what: &str| info.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{info}"));
    assert!(line("closed").ends_with("in order") && line("checkpoint").ends_with("none"), "{info}");
    assert!(line("tables").contains("9 with ") && line("log").contains(" in 1 files"), "{info}");
    open(&directory.0.join("db")).checkpoint().unwrap();
    let info: serde_json::Value = serde_json::from_str(&printed(&directory, "info db --json")).unwrap();
    assert_eq!((&info["checkpoint"], &info["tables"]), (&1.into(), &9.into()), "{info}");
    assert_eq!(
        (&info["rows"], &info["replayed_transactions"]),
        (&info["checkpoint_rows"], &0.into()),
        "{info}"
    );
    assert!(
        info["rows_bytes"].as_u64() > Some(0) && info["identity"].as_str().unwrap().len() == 32,
        "{info}"
    );
    assert!(refused(&directory, "info nowhere").contains("there is no database in nowhere"));
}

#[test]
fn a_table_is_dropped() {
    let directory = Directory::new("drop");
    fill(&directory.0.join("db"));
    let error = refused(&directory, "drop db floats");
    assert!(
        error.contains("this would drop table \"floats\" with its 7 rows: without a terminal"),
        "{error}"
    );
    assert!(error.contains("--yes is required"), "{error}");
    assert_eq!(printed(&directory, "get db floats 2"), "1e300\n");
    assert_eq!(printed(&directory, "drop db floats --yes"), "dropped table \"floats\" with its 7 rows\n");
    assert!(refused(&directory, "get db floats 2").contains("there is no table \"floats\""));
    assert!(refused(&directory, "drop db floats --yes").contains("there is no table \"floats\""));
    assert!(refused(&directory, "drop nowhere floats").contains("there is no database in nowhere"));
    assert_eq!(printed(&directory, "tables db").matches(" rows  ").count(), 8);
    printed(&directory, "check db db");
}

#[test]
fn structs_are_objects_with_their_fields() {
    // Proves that rows of derived types, including earlier versions, survive both formats byte for byte and can be
    // written by hand.
    let directory = Directory::new("structs");
    let definitions = concat!(
        r#"["address 1: {town: string}","user 1: {name: string}","#,
        r#""user 2: {name: string, logins: list of u16, home: option of address}"]"#
    );
    let dump = [
        r#"{"trailer":true}"#.into(),
        format!(r#"{{"table":"users","key_type":"u32","value_type":"user","definitions":{definitions}}}"#),
        r#"{"table":"users","key":1,"value":{"name":"Ada","logins":[7,8],"home":{"town":"London"}}}"#.into(),
        r#"{"table":"users","key":2,"value":{"@version":1,"name":"Alan"}}"#.into(),
        r#"{"table":"users","key":3,"value":{"name":"","logins":[],"home":null}}"#.into(),
        r#"{"table":"users","key":4,"value":{"hex":"00"}}"#.into(),
        r#"{"rows":{"users":4}}"#.into(),
    ]
    .join("\n")
        + "\n";
    directory.file("dump", &dump);
    printed(&directory, "load db dump");
    assert_eq!(printed(&directory, "dump db"), dump);
    let csv = printed(&directory, "dump db --format csv");
    assert!(
        csv.contains("\"value: user where address 1: {town: string}; user 1: {name: string}; user 2: "),
        "{csv}"
    );
    directory.file("csv", &csv);
    printed(&directory, "load copy csv --format csv --table users");
    assert_eq!(printed(&directory, "dump copy"), dump);

    assert_eq!(printed(&directory, "get db users 2"), "{\"@version\":1,\"name\":\"Alan\"}\n");
    let tables = printed(&directory, "tables db");
    assert!(
        tables.contains("u32 -> user  4 rows") && tables.contains("\n         user 1: {name: string}\n"),
        "{tables}"
    );

    // Fields come in any order, and each must be present.
    let row = |value: &str| {
        directory.file("row", &format!("{{\"table\":\"users\",\"key\":9,\"value\":{value}}}\n"));
        "load db row"
    };
    printed(&directory, row(r#"{"home":null,"logins":[1],"name":"Eve"}"#));
    assert_eq!(printed(&directory, "get db users 9"), "{\"name\":\"Eve\",\"logins\":[1],\"home\":null}\n");
    for (value, why) in [
        (r#"{"name":"Eve","logins":[1]}"#, "has no field \"home\""),
        (r#"{"name":"Eve","logins":[1],"home":null,"age":1}"#, "no field \"age\""),
        (r#"{"name":"Eve","logins":[65536],"home":null}"#, "logins: 65536 is not"),
        (r#"{"name":"Eve","logins":[1],"home":{"town":1}}"#, "home: town: 1 is not a string"),
        (r#"{"@version":3,"name":"Eve"}"#, "no version 3"),
        (r#"["Eve",[1],null]"#, "not an object"),
    ] {
        let error = refused(&directory, row(value));
        assert!(error.contains(why), "{value}: {error}");
    }
    // In a dump that knows fewer versions, a row without a version has the newest version of the dump.
    directory.file(
        "older",
        concat!(
            r#"{"table":"users","key_type":"u32","value_type":"user","definitions":["user 1: {name: string}"]}"#,
            "\n",
            r#"{"table":"users","key":10,"value":{"name":"Kay"}}"#,
            "\n"
        ),
    );
    printed(&directory, "load db older");
    assert_eq!(printed(&directory, "get db users 10"), "{\"@version\":1,\"name\":\"Kay\"}\n");
    // Definitions that are circular, malformed or contradictory.
    for (definitions, why) in [
        (r#"["user 1: {friend: option of user}"]"#, None),
        (r#"["user 1: {a: u8}","user 2 {}"]"#, Some("\"user 2 {}\" is no definition")),
        (r#"["user 1: {a: u8}","user 1: {a: u16}"]"#, Some("user 1: {a: u8}")),
    ] {
        directory.file(
            "circle",
            &format!(
                "{{\"table\":\"t\",\"key_type\":\"u8\",\"value_type\":\"user\",\"definitions\":{definitions}}}\n\
                 {{\"table\":\"t\",\"key\":1,\"value\":{{\"hex\":\"00\"}}}}\n"
            ),
        );
        match why {
            None => assert!(printed(&directory, "load circle-db circle").contains("1 rows")),
            Some(why) => {
                let error = refused(&directory, "load other-db circle");
                assert!(error.contains(why), "{error}");
            }
        }
    }
}

#[derive(Key, Value, Clone)]
#[braid(name = "event")]
#[repr(u8)]
enum EventV1 {
    Created { at: u64, by: String } = 1,
    Closed = 2,
}

#[derive(Value)]
#[braid(name = "event", version = 2, previous = EventV1)]
#[repr(u8)]
enum Event {
    Created { at: u64, by: Vec<String> } = 1,
    Renamed(String) = 2,
}

impl From<EventV1> for Event {
    fn from(event: EventV1) -> Event {
        match event {
            EventV1::Created { at, by } => Event::Created { at, by: vec![by] },
            EventV1::Closed => Event::Renamed(String::new()),
        }
    }
}

#[test]
fn enums_are_objects_with_their_variant() {
    // Proves that keys and values of derived enums, including earlier versions, are shown with their variants and
    // fields, survive both formats byte for byte, and can be written by hand.
    let directory = Directory::new("enums");
    let created = |at| EventV1::Created { at, by: "Ada".into() };
    {
        let db = open(&directory.0.join("db"));
        let table: Table<EventV1, EventV1> = db.table("events").unwrap();
        db.transact(|tx| {
            tx.put(table, created(5), &created(5))?;
            tx.put(table, EventV1::Closed, &EventV1::Closed)
        })
        .unwrap();
        let table: Table<EventV1, Event> = db.table("events").unwrap();
        db.transact(|tx| {
            tx.put(table, created(6), &Event::Renamed("x".into()))?;
            tx.put(table, created(7), &Event::Created { at: 7, by: vec!["Ada".into(), String::new()] })
        })
        .unwrap();
        db.close().unwrap();
    }
    let rows = [
        r#"{"Created":{"at":5,"by":"Ada"}}|{"@version":1,"Created":{"at":5,"by":"Ada"}}"#,
        r#"{"Created":{"at":6,"by":"Ada"}}|{"Renamed":{"0":"x"}}"#,
        r#"{"Created":{"at":7,"by":"Ada"}}|{"Created":{"at":7,"by":["Ada",""]}}"#,
        r#"{"Closed":{}}|{"@version":1,"Closed":{}}"#,
    ]
    .map(|row| row.split_once('|').unwrap());
    let dump = printed(&directory, "dump db");
    let as_dumped =
        |(key, value): &(&str, &str)| format!("{{\"table\":\"events\",\"key\":{key},\"value\":{value}}}");
    assert!(dump.lines().skip(2).take(4).eq(rows.iter().map(as_dumped)), "{dump}");
    assert!(dump.lines().nth(1).unwrap().starts_with(
        r#"{"table":"events","key_type":"one of u8 (Created {at: u64, by: string} = 1, Closed = 2)","value_type":"event","#
    ));
    for (key, value) in rows {
        assert_eq!(printed(&directory, &format!("get db events {key}")), format!("{value}\n"));
    }
    let scanned =
        printed(&directory, r#"scan db events --from {"Created":{"at":6,"by":""}} --to {"Closed":{}}"#);
    assert!(
        scanned.contains(rows[1].1) && scanned.contains(rows[2].1) && scanned.lines().count() == 2,
        "{scanned}"
    );
    let scanned = printed(&directory, r#"scan db events --prefix {"Closed":{}}"#);
    assert!(scanned.contains(rows[3].0) && scanned.lines().count() == 1, "{scanned}");
    let tables = printed(&directory, "tables db");
    assert!(
        tables.contains("event 2: one of u8 (Created {at: u64, by: list of string} = 1, Renamed"),
        "{tables}"
    );

    directory.file("dump", &dump);
    printed(&directory, "load copy dump");
    assert_eq!(printed(&directory, "dump copy"), dump);
    directory.file("csv", &printed(&directory, "dump db --format csv"));
    printed(&directory, "load other csv --format csv --table events");
    assert_eq!(printed(&directory, "dump other"), dump);

    directory
        .file("row", r#"{"table":"events","key":{"Closed":{}},"value":{"Created":{"by":["Eve"],"at":1}}}"#);
    printed(&directory, "load db row");
    let read = printed(&directory, r#"get db events {"Closed":{}}"#);
    assert_eq!(read, "{\"Created\":{\"at\":1,\"by\":[\"Eve\"]}}\n");
    directory.file("row", r#"{"table":"events","key":{"Closed":{}},"value":{"Closed":{}}}"#);
    assert!(refused(&directory, "load db row").contains("no variant \"Closed\""));
    let db = open(&directory.0.join("db"));
    let table: Table<EventV1, Event> = db.table("events").unwrap();
    assert!(
        matches!(db.transact(|tx| tx.get(table, created(6))).unwrap(), Some(Event::Renamed(name)) if name == "x")
    );
}

#[test]
fn indexes_by_columns_are_shown_and_obeyed() {
    // Proves that the commands that write rows maintain the database's indexes by columns and enforce uniqueness, and
    // that these indexes are shown, dumped and loaded.
    let directory = Directory::new("indexes");
    let db = open(&directory.0.join("db"));
    let people: Table<u64, (String, String, bool)> = db.table("people").unwrap();
    let by_name = db.unique_index_on::<String, _, _>(people, "by name", &["0"]).unwrap();
    db.index_on::<(String, bool), _, _>(people, "by city", &["1", "2"]).unwrap();
    db.transact(|tx| {
        tx.put(people, 1, ("Ada", "London", true))?;
        tx.put(people, 2, ("Grace", "New York", false))
    })
    .unwrap();
    assert_eq!(db.transact(|tx| tx.get_by(by_name, "Ada").map(|row| row.unwrap().0)).unwrap(), 1);
    db.close().unwrap();

    let tables = printed(&directory, "tables db");
    assert!(tables.contains("\n          index \"by name\" unique by (0)\n"), "{tables}");
    assert!(tables.contains("\n          index \"by city\" by (1, 2)\n"), "{tables}");
    let tables = printed(&directory, "tables db --json");
    assert!(tables.contains(r#"{"columns":["0"],"name":"by name","unique":true}"#), "{tables}");
    assert!(printed(&directory, "info db").contains("indexes     2 by columns\n"));

    let dump = printed(&directory, "dump db");
    directory.file("dump", &dump);
    printed(&directory, "load copy dump");
    assert_eq!(printed(&directory, "dump copy"), dump);
    directory.file("row", "{\"table\":\"people\",\"key\":3,\"value\":[\"Ada\",\"Paris\",true]}\n");
    for database in ["db", "copy"] {
        let error = refused(&directory, &format!("load {database} row"));
        assert!(error.contains("another row has this key of index \"by name\""), "{error}");
        assert_eq!(printed(&directory, &format!("dump {database}")), dump);
    }
    directory.file("moved", "{\"table\":\"people\",\"key\":1,\"value\":[\"Eve\",\"Paris\",true]}\n");
    printed(&directory, "load db moved");
    printed(&directory, "load db row"); // the name is free now

    // Indexes that are declared by hand: the same as existing ones, different ones, and impossible ones.
    let declare = |indexes: &str| {
        let types = r#""table":"people","key_type":"u64","value_type":"fields (string, string, bool)""#;
        directory.file("types", &format!("{{{types},\"indexes\":[{indexes}]}}\n"));
        "load db types"
    };
    printed(&directory, declare(r#"{"name":"by name","columns":["0"],"unique":true}"#));
    let error = refused(&directory, declare(r#"{"name":"by name","columns":["0"]}"#));
    assert!(error.contains("\"by name\" is unique by (0), not by (0)"), "{error}");
    let error = refused(&directory, declare(r#"{"name":"by town","columns":["town"]}"#));
    assert!(error.contains("there is no column \"town\""), "{error}");
    printed(&directory, declare(r#"{"name":"towns","columns":["1"]}"#));
    let dropped = printed(&directory, "drop db people --index towns --yes");
    assert_eq!(dropped, "dropped index \"towns\" of table \"people\"\n");
    assert!(refused(&directory, "drop db people --index towns").contains("has no index \"towns\""));
    assert_eq!(printed(&directory, "tables db").matches(" index ").count(), 2);
    printed(&directory, "check db db");
}

#[test]
fn what_was_committed_is_printed() {
    // Proves that `changes` prints transactions with typed rows, continues from a position, and says why it cannot
    // continue.
    let directory = Directory::new("changes");
    let db = open(&directory.0.join("db"));
    let names: Table<(u32, String), str> = db.table("names").unwrap();
    db.transact(|tx| {
        tx.put(names, (1, "a".to_string()), "Ada")?;
        tx.put(names, (2, "b".to_string()), "Eve")
    })
    .unwrap();
    db.transact(|tx| tx.delete(names, (1, "a".to_string()))).unwrap();
    db.rename_table("names", "people").unwrap();
    db.clear(names).unwrap();
    db.close().unwrap();
    let all = printed(&directory, "changes db");
    let lines: Vec<_> = all.lines().filter(|line| !line.starts_with("position ")).collect();
    let expected = [
        r#"{"table":"names","number":0,"key_type":"(u32, string)","value_type":"string","definitions":[]}"#,
        r#"{"table":"names","key":[1,"a"],"value":"Ada"}"#,
        r#"{"table":"names","key":[2,"b"],"value":"Eve"}"#,
        r#"{"table":"names","key":[1,"a"],"deleted":true}"#,
        r#"{"table":"people","number":0,"key_type":"(u32, string)","value_type":"string","definitions":[]}"#,
        r#"{"table":"people","cleared":true}"#,
    ];
    assert_eq!(lines, expected);
    let positions: Vec<_> = all.lines().filter_map(|line| line.strip_prefix("position ")).collect();
    assert_eq!(positions.len(), 5);
    let rest = printed(&directory, &format!("changes db --from {} --limit 1 --json", positions[1]));
    assert!(rest.starts_with(&format!(r#"{{"position":"{}","commit_timestamp":"#, positions[2])), "{rest}");
    let deleted = r#""changes":[{"table":"people","key":[1,"a"],"deleted":true}]}"#; // by its present name
    assert!(rest.trim_end().ends_with(deleted), "{rest}");
    assert_eq!(printed(&directory, &format!("changes db --from {}", positions[4])), "");
    assert_eq!(braid(&directory, "changes db --from 12").status.code(), Some(1));
    fs::create_dir(directory.0.join("other")).unwrap();
    open(&directory.0.join("other")).close().unwrap();
    let foreign = refused(&directory, &format!("changes other --from {}", positions[0]));
    assert!(foreign.contains("another database"), "{foreign}");
}
