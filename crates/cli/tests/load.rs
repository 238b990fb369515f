//! `braid load` of cut-off, refused or interrupted input, and the state that it leaves; also the output of unusual text
//! to a terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use braiddb::{Database, Options, Table};
use common::Directory;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `braid` with these words, in the directory.
fn braid(directory: &Directory, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.current_dir(&directory.0).stdin(Stdio::null()).args(line.split(' ')).output().unwrap()
}

fn printed(directory: &Directory, line: &str) -> String {
    let output = braid(directory, line);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{line}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(directory: &Directory, line: &str) -> String {
    let output = braid(directory, line);
    assert_eq!(output.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn write(directory: &Directory, name: &str, text: impl AsRef<[u8]>) {
    fs::write(directory.0.join(name), text).unwrap();
}

fn open(path: &Path) -> Database {
    let options =
        Options { workers: 1, pin_workers: false, log_segment_bytes: 1 << 20, ..Options::default() };
    Database::open(path, options).unwrap()
}

/// Creates a table of texts with quotation marks, commas and line ends, and another table.
fn fill(directory: &Directory) {
    let db = open(&directory.0.join("db"));
    let texts: Table<String, str> = db.table("texts").unwrap();
    let numbers: Table<u64, u32> = db.table("numbers").unwrap();
    db.transact(|tx| {
        for (key, text) in [("a", "one, \"two\"\nthree"), ("b\nc", ""), ("d", "é\u{80}"), ("e", "plain")] {
            tx.put(texts, key, text)?;
        }
        (0..5).try_for_each(|key| tx.put(numbers, key, 10 * key as u32))
    })
    .unwrap();
    db.close().unwrap();
}

fn lines_of(text: &str, end: usize) -> usize {
    text[..end].matches('\n').count()
}

#[test]
fn dumps_that_were_cut_off_are_not_loaded() {
    // Proves, in both formats, that a dump that was cut off anywhere is not loaded at all and that the message has a
    // line at or before the cut, and that the whole dump is loaded.
    let directory = Directory::new("cut");
    fill(&directory);
    for format in ["json", "csv --table texts"] {
        let whole = printed(&directory, &format!("dump db --format {format}"));
        let ends = (1..whole.len()).filter(|end| whole.is_char_boundary(*end)).step_by(7);
        let between_lines = whole.match_indices('\n').map(|(at, _)| at + 1).filter(|end| *end < whole.len());
        for end in ends.chain(between_lines).chain([whole.len() - 2]) {
            write(&directory, "dump", &whole[..end]);
            let error = refused(&directory, &format!("load copy dump --format {format}"));
            let line = error.split("dump, line ").nth(1).and_then(|rest| rest.split(':').next());
            let line: usize = line.unwrap_or_else(|| panic!("{error}")).parse().unwrap();
            assert!((1..=lines_of(&whole, end) + 2).contains(&line), "{end}: {error}");
            assert!(error.contains("nothing was loaded, and there is no database in copy"), "{end}: {error}");
            assert!(!directory.0.join("copy").exists(), "{end}");
        }
        write(&directory, "dump", &whole);
        printed(&directory, &format!("load copy dump --format {format}"));
        assert_eq!(printed(&directory, &format!("dump copy --format {format}")), whole);
        fs::remove_dir_all(directory.0.join("copy")).unwrap();
    }
}

#[test]
fn trailers_are_compared() {
    // Proves that a dump with a row too many or too few is refused, wherever its trailer is, that dumps can follow each
    // other, and that a dump without a trailer is loaded.
    let directory = Directory::new("trailer");
    fill(&directory);
    let whole = printed(&directory, "dump db");
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(
        (lines[0], lines[lines.len() - 1]),
        (r#"{"trailer":true}"#, r#"{"rows":{"texts":4,"numbers":5}}"#)
    );
    let load = |lines: &[&str]| {
        write(&directory, "dump", lines.join("\n"));
        "load copy dump"
    };
    let row = r#"{"table":"numbers","key":1,"value":2}"#;
    let fewer = [&lines[..3], &lines[4..]].concat();
    let error = refused(&directory, load(&fewer));
    assert!(error.contains("the dump should have 4 rows of table \"texts\", but has 3"), "{error}");
    let more = [&lines[..lines.len() - 1], &[row], &lines[lines.len() - 1..]].concat();
    let error = refused(&directory, load(&more));
    assert!(
        error.contains("dump, line 14: ") && error.contains("5 rows of table \"numbers\", but has 6"),
        "{error}"
    );
    let error = refused(&directory, load(&[&lines[1..], &lines[..1]].concat()));
    assert!(error.contains("line 12: ") && error.contains("no dump with row counts has begun"), "{error}");
    let error = refused(&directory, load(&[&lines[..5], &lines[..]].concat()));
    assert!(error.contains("line 6: the dump was cut off"), "{error}");
    assert!(!directory.0.join("copy").exists());
    assert_eq!(
        printed(&directory, load(&[&lines[..], &[row], &lines[..]].concat())),
        "loaded 19 rows into 2 tables\n"
    );
    fs::remove_dir_all(directory.0.join("copy")).unwrap();
    printed(&directory, load(&lines[1..lines.len() - 1]));
    assert_eq!(printed(&directory, "dump copy"), whole);

    let whole = printed(&directory, "dump db --format csv --table numbers");
    assert_eq!(whole, "counted key: u64,value: u32\n0,0\n1,10\n2,20\n3,30\n4,40\nrows: 5\n");
    for (text, why) in [
        (whole.replace("2,20\n", ""), "line 6: the dump should have 5 rows, but has 4"),
        (whole.clone() + "5,50\n", "line 8: there are rows after the row count"),
        (whole.replace("rows: 5\n", ""), "the dump was cut off"),
        (
            whole.replace("counted ", ""),
            "line 7: a row must have two fields, a key and a value; this row has 1",
        ),
    ] {
        write(&directory, "csv", text);
        let error = refused(&directory, "load other csv --format csv --table numbers");
        assert!(error.contains(why), "{error}");
    }
    write(&directory, "csv", whole.replace("counted ", "").replace("rows: 5\n", ""));
    assert_eq!(
        printed(&directory, "load other csv --format csv --table numbers"),
        "loaded 5 rows into 1 table\n"
    );
}

#[test]
fn csv_by_hand_needs_its_last_line_end() {
    // Proves that a possibly partial row is never loaded, even without a trailer.
    let directory = Directory::new("by-hand");
    for (text, line, why) in [
        ("key: u8,value: string\n1,a\n2,\"bc", 3, "within a field in quotes"),
        ("key: u8,value: string\n1,a\n2,\"b\nc", 3, "within a field in quotes"),
        ("key: u8,value: string\n1,a\n2,\"bc\"", 3, "within this row"),
        ("key: u8,value: string\n1,a\n2,bc", 3, "within this row"),
        ("key: u8,value: string\n1,a\n2,", 3, "within this row"),
        ("key: u8,value: string\n1,a\n2", 3, "within this row"),
        ("key: u8,value: string", 1, "within this row"),
    ] {
        write(&directory, "csv", text);
        let error = refused(&directory, "load db csv --format csv --table t");
        assert!(error.contains(&format!("csv, line {line}: ")) && error.contains(why), "{text:?}: {error}");
        assert!(!directory.0.join("db").exists());
    }
    write(&directory, "csv", "key: u8,value: string\r\n1,a\r\n\r\n2,\"b\"\"c\"\r\n");
    printed(&directory, "load db csv --format csv --table t");
    assert_eq!(printed(&directory, "get db t 2"), "b\"c\n");
    // In an existing table, the rows before the cut row stay, and nothing of the cut row is loaded.
    write(&directory, "csv", "key: u8,value: string\n3,x\n2,\"b");
    refused(&directory, "load db csv --format csv --table t");
    assert_eq!(printed(&directory, "get db t 2"), "b\"c\n");
}

#[test]
fn byte_order_marks_are_passed_over() {
    // Proves that both formats may begin with a byte order mark, also directly before a quoted cell and as the only
    // content.
    let directory = Directory::new("mark");
    let json = "\u{feff}{\"table\":\"t\",\"key_type\":\"u8\",\"value_type\":\"u8\"}\n{\"table\":\"t\",\"key\":1,\"value\":2}\n";
    write(&directory, "json", json);
    printed(&directory, "load db json");
    write(&directory, "csv", "\u{feff}\"key: u8\",value: u8\n3,4\n");
    printed(&directory, "load db csv --format csv --table t");
    assert_eq!(
        (printed(&directory, "get db t 1"), printed(&directory, "get db t 3")),
        ("2\n".into(), "4\n".into())
    );
    write(&directory, "json", "\u{feff}");
    printed(&directory, "load db json");
    write(&directory, "json", "{\"table\":\"t\",\"key\":1,\"value\":2}\n\u{feff}{}\n");
    assert!(refused(&directory, "load db json").contains("json, line 2: "));
}

#[test]
fn a_load_that_fails_leaves_what_was_there() {
    // Proves that new tables, indexes and databases are removed again, whatever stops the load, and that the message
    // says which rows of earlier tables stay.
    let directory = Directory::new("undone");
    fill(&directory);
    let before = printed(&directory, "dump db");
    let types = r#"{"table":"new","key_type":"u8","value_type":"u8"}"#;
    let index =
        r#"{"table":"numbers","key_type":"u64","value_type":"u32","indexes":[{"name":"i","columns":["0"]}]}"#;
    write(&directory, "bad", format!("{types}\n{{\"table\":\"new\",\"key\":1,\"value\":1}}\n{{\n"));
    let error = refused(&directory, "load db bad");
    assert!(
        error.contains("bad, line 3: ")
            && error.contains("nothing was loaded, and the database is unchanged"),
        "{error}"
    );
    assert_eq!(printed(&directory, "dump db"), before);
    write(&directory, "bad", format!("{types}\n{index}\n"));
    refused(&directory, "load db bad");
    assert_eq!(printed(&directory, "dump db"), before);
    write(&directory, "bad", format!("{types}\n{{\"table\":\"numbers\",\"key\":0,\"value\":1}}\n{{\n"));
    let error = refused(&directory, "load db bad");
    assert!(error.contains("line 3: "), "{error}");
    assert!(!printed(&directory, "tables db").contains("new"), "{error}");

    let error = refused(&directory, "load none bad");
    assert!(error.contains("nothing was loaded, and there is no database in none"), "{error}");
    assert!(!directory.0.join("none").exists());
    // Other files in the directory stay.
    fs::create_dir(directory.0.join("mine")).unwrap();
    write(&directory, "mine/diary", "dear");
    refused(&directory, "load mine bad");
    let left: Vec<_> =
        fs::read_dir(directory.0.join("mine")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["diary"]);
    printed(&directory, "check db db");
}

#[test]
fn rows_of_earlier_tables_that_stay_are_told() {
    // Proves that after a late failure the message says how many rows are in the database, and that the number is
    // right.
    let directory = Directory::new("stay");
    fill(&directory);
    let mut rows: String =
        (0..50_000).map(|key| format!("{{\"table\":\"numbers\",\"key\":{key},\"value\":7}}\n")).collect();
    rows += "{}\n";
    write(&directory, "bad", rows);
    let error = refused(&directory, "load db bad");
    let told = error.split("these rows stay: ").nth(1).unwrap_or_else(|| panic!("{error}"));
    let told: u64 = told.split(" of table \"numbers\"").next().unwrap().replace(',', "").parse().unwrap();
    let db = open(&directory.0.join("db"));
    let numbers: Table<u64, u32> = db.table("numbers").unwrap();
    let tx = db.begin().unwrap();
    assert_eq!((0..50_000).filter(|key| tx.get(numbers, *key).unwrap() == Some(7)).count() as u64, told);
    assert!(told > 0);
}

#[test]
fn a_violated_unique_index_says_where() {
    // Proves that the message has the file, line and key of the refused row, however much later the violation is
    // noticed.
    let directory = Directory::new("unique");
    let people = r#"{"table":"people","key_type":"u64","value_type":"fields (string, string)","indexes":[{"name":"by name","columns":["0"],"unique":true}]}"#;
    let mut text = format!("{people}\n");
    for key in 0..20_000 {
        let name = if key == 12_345 { "name 77".into() } else { format!("name {key}") };
        text += &format!("{{\"table\":\"people\",\"key\":{key},\"value\":[\"{name}\",\"\"]}}\n");
    }
    write(&directory, "dump", text);
    let error = refused(&directory, "load db dump");
    // Either row may be put first, because several transactions load rows concurrently.
    let first = error.contains(
        "dump, line 79: row with key 77 of table \"people\": another row has this key of index \"by name\"",
    );
    let second = error.contains("dump, line 12347: row with key 12345 of table \"people\": another row has this key of index \"by name\"");
    assert!(first || second, "{error}");
    assert!(!directory.0.join("db").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_load_says_what_is_in() {
    // Proves that an interrupt ends a load that waits for its input, and that exactly the reported rows are in the
    // database.
    let directory = Directory::new("interrupted");
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.current_dir(&directory.0).args(["load", "db"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut text = String::from("{\"table\":\"t\",\"key_type\":\"u32\",\"value_type\":\"u64\"}\n");
    (0..50_000).for_each(|key| text += &format!("{{\"table\":\"t\",\"key\":{key},\"value\":{key}}}\n"));
    input.write_all(text.as_bytes()).unwrap();
    // By now the load has read more than fits between the two processes.
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap(); // the child's input is still open
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let told = said.split(" rows are in the database: ").next().unwrap().rsplit(' ').next().unwrap();
    let told: usize = told.replace(',', "").parse().unwrap_or_else(|_| panic!("{said}"));
    assert!(told > 0 && said.contains(" of table \"t\""), "{said}");
    let db = open(&directory.0.join("db"));
    let t: Table<u32, u64> = db.table("t").unwrap();
    assert_eq!(db.begin().unwrap().count(t).unwrap(), told as u64, "{said}");
    drop(input);
}

#[test]
fn control_characters_are_escaped() {
    // Proves that no command sends control characters to the terminal when it prints rows or names or reports errors,
    // and that dumps are loaded to the same bytes.
    let directory = Directory::new("control");
    let strange = "\u{1b}[2J\u{7}\u{7f}\u{9b}31m\u{80}\té";
    {
        let db = open(&directory.0.join("db"));
        let table: Table<String, str> = db.table(&format!("t{strange}")).unwrap();
        let chars: Table<char, (String, char)> = db.table("chars").unwrap();
        db.transact(|tx| {
            tx.put(table, strange, strange)?;
            tx.put(chars, '\u{9b}', (strange, '\u{85}'))
        })
        .unwrap();
        db.close().unwrap();
    }
    let is_plain = |text: &str| !text.chars().any(|char| char.is_control() && char != '\n');
    let name = format!("t{strange}");
    let run = |words: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
        command.current_dir(&directory.0).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(is_plain(&text), "{words:?}: {text:?}");
        text
    };
    let escaped = r"\u001b[2J\u0007\u007f\u009b31m\u0080\té";
    for words in [&["tables", "db"][..], &["tables", "db", "--json"], &["changes", "db"]] {
        assert!(run(words, "").contains(escaped), "{words:?}");
    }
    assert_eq!(run(&["get", "db", &name, strange], ""), format!("{escaped}\n"));
    assert_eq!(run(&["get", "db", &name, strange, "--json"], ""), format!("\"{escaped}\"\n"));
    assert!(run(&["get", "db", "chars", "\"\u{9b}\""], "").contains(r#",""#));
    assert!(run(&["scan", "db", &name], "").contains(escaped));
    assert!(run(&["get", "db", &name, "x\u{9b}"], "").contains(r"no row with key x\u009b"));
    let script = format!("tables\nget '{name}' '{strange}'\nget '{name}' 'x\u{9b}'\nscan '{name}'\n");
    assert!(run(&["shell", "db"], &script).matches(escaped).count() >= 4);
    write(&directory, "bad", "{\"table\":\"chars\",\"key\":\"\u{9b}\u{9b}\",\"value\":1}\n");
    assert!(run(&["load", "db", "bad"], "").contains(r"\u009b"));
    let dump = run(&["dump", "db"], "");
    write(&directory, "dump", &dump);
    printed(&directory, "load copy dump");
    assert_eq!(run(&["dump", "copy"], ""), dump);
    let db = open(&directory.0.join("copy"));
    let table: Table<String, str> = db.table(&name).unwrap();
    assert_eq!(db.begin().unwrap().get(table, strange).unwrap(), Some(strange));
}
