//! `braid shell` with commands from a pipe.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use braiddb::{Database, Options, Table};
use common::Directory;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `braid` with these words, in the directory, with this input.
fn braid(directory: &Directory, line: &str, input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.current_dir(&directory.0).args(line.split(' '));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input); // the child may have exited before
    child.wait_with_output().unwrap()
}

/// The output of a shell without failing commands.
fn printed(directory: &Directory, input: &str) -> String {
    let output = braid(directory, "shell db", input.as_bytes());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The output of a shell with failing commands, and the error messages without the last line.
fn failing(directory: &Directory, line: &str, input: &str) -> (String, Vec<String>) {
    let output = braid(directory, line, input.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let mut said: Vec<_> = said.lines().map(String::from).collect();
    let last = said.pop().unwrap();
    assert!(last.starts_with("braid: ") && !last.contains("line "), "{last}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

fn open(path: &Path) -> Database {
    let options =
        Options { workers: 1, pin_workers: false, log_segment_bytes: 1 << 20, ..Options::default() };
    Database::open(path, options).unwrap()
}

const USERS: &str = concat!(
    r#"{"table":"users","key_type":"u32","value_type":"user","definitions":["user 1: {name: string}","#,
    r#""user 2: {name: string, logins: list of u16}"]}"#,
    "\n",
    r#"{"table":"users","key":1,"value":{"@version":1,"name":"Ada"}}"#,
    "\n",
);

/// Creates a database with users, and an empty table of pairs with an awkward name.
fn fill(directory: &Directory) {
    let output = braid(directory, "load db", USERS.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let db = open(&directory.0.join("db"));
    let _pairs: Table<(String, i8), str> = db.table("the pairs").unwrap();
    db.close().unwrap();
}

#[test]
fn rows_are_read_and_written_as_text() {
    // Proves that commands do the same as those of `braid`, that rows have the types of the catalog, and that writes
    // persist.
    let directory = Directory::new("rows");
    fill(&directory);
    let script = r#"
        # Of two types.
        tables
        get users 1
        insert users 2 '{"name": "it''s Eve", "logins": [7, 8]}'
        put users 1 "{\"name\": \"Ada\", \"logins\": []}"
        put 'the pairs' '["a b", -1]' "text with spaces"
        put "the pairs" '["b", 2]' -2
        scan users --json
        scan users --format csv --from 2
        scan "the pairs" --prefix '["a b"]'
        scan 'the pairs' --reverse --limit 1
        get 'the pairs' '["a b",-1]' --json
        delete 'the pairs' '["b",2]'
        exit
        this is not read
    "#;
    let expected = [
        r#"the pairs  (string, i8) -> string  0 rows  masstree"#,
        r#"users      u32 -> user  1 rows  masstree"#,
        r#"             user 1: {name: string}"#,
        r#"             user 2: {name: string, logins: list of u16}"#,
        r#"{"@version":1,"name":"Ada"}"#,
        r#"{"table":"users","key":1,"value":{"name":"Ada","logins":[]}}"#,
        r#"{"table":"users","key":2,"value":{"name":"its Eve","logins":[7,8]}}"#,
        r#"key: u32,"value: user where user 1: {name: string}; user 2: {name: string, logins: list of u16}""#,
        r#"2,"{""name"":""its Eve"",""logins"":[7,8]}""#,
        r#"{"table":"the pairs","key":["a b",-1],"value":"text with spaces"}"#,
        r#"{"table":"the pairs","key":["b",2],"value":"-2"}"#,
        r#""text with spaces""#,
    ];
    let found = printed(&directory, script);
    let mut lines: Vec<_> = found.lines().collect();
    lines[..4].sort_by_key(|line| !line.starts_with("the pairs")); // the order of the tables varies
    assert_eq!(lines, expected);
    assert_eq!(printed(&directory, "scan 'the pairs'"), format!("{}\n", expected[9]));
    let dumped = braid(&directory, "dump db --table users", b"").stdout;
    assert!(String::from_utf8(dumped).unwrap().contains("its Eve"));
}

#[test]
fn what_fails_is_told_with_its_line() {
    // Proves that a script continues after a failure, that each message has the line and the reason, and which exit
    // status follows.
    let directory = Directory::new("failing");
    fill(&directory);
    let lines = [
        ("get users 7", "table \"users\" has no row with key 7"),
        ("get user 1", "there is no table \"user\"; the tables are ["),
        ("get users Ada", "the key: Ada is not a number of type u32"),
        ("put users 2 '{}'", "the value: {} has no field \"name\""),
        ("put users 2 '{", "a quotation mark is not closed"),
        ("fetch users 2", "unrecognized subcommand 'fetch'"),
        ("scan", "<TABLE>"),
        ("insert users 1 '{\"name\":\"Eve\",\"logins\":[]}'", "key"),
        ("delete users 9", "no row with key 9"),
        ("commit", "no transaction is open: `begin` starts one"),
        ("rollback", "no transaction is open"),
        ("scan users --prefix 1", "keys of type u32 have no prefixes"),
    ];
    let script: String = lines.iter().map(|(line, _)| format!("{line}\nget users 1\n")).collect();
    let (out, said) = failing(&directory, "shell db", &script);
    assert_eq!(out, "{\"@version\":1,\"name\":\"Ada\"}\n".repeat(lines.len()));
    let said = said.join("\n") + "\n";
    let mut said: Vec<&str> = said.split("braid: line ").skip(1).collect();
    said.retain(|message| !message.is_empty());
    assert_eq!(said.len(), lines.len(), "{said:?}");
    for (at, (message, (_, why))) in said.iter().zip(lines).enumerate() {
        assert!(message.starts_with(&format!("{}: ", 2 * at + 1)) && message.contains(why), "{message}");
    }
    let output = braid(&directory, "shell db", b"get users 1\n\xff\nget users 1\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("braid: line 2: the line is not UTF-8"));
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    let output = braid(&directory, "shell nowhere", b"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no database in nowhere"));
    assert!(!directory.0.join("nowhere").exists());
}

#[test]
fn transactions_are_all_or_nothing() {
    // Proves that a transaction sees its own writes, that it is rolled back by `rollback`, by a failing command and by
    // the end of the script, and that commands after a failure do not run as transactions of their own.
    let directory = Directory::new("transactions");
    fill(&directory);
    let put = |key: u32| format!("put users {key} '{{\"name\":\"{key}\",\"logins\":[]}}'\n");
    let count = || printed(&directory, "scan users").lines().count();
    let script = format!("begin\n{}{}get users 3\ncommit\n", put(2), put(3));
    assert_eq!(printed(&directory, &script), "{\"name\":\"3\",\"logins\":[]}\n");
    assert_eq!(count(), 3);
    assert_eq!(printed(&directory, &format!("begin\ndelete users 1\n{}rollback\n", put(4))), "");
    assert_eq!(count(), 3);
    let script = format!("begin\n{}begin\n{}get users 1\ncommit\n{}", put(4), put(5), put(6));
    let (out, said) = failing(&directory, "shell db", &script);
    assert_eq!(out, "");
    let expected = [
        "braid: line 3: a transaction is already open: `commit` or `rollback` ends it; the transaction was rolled back",
        "braid: line 4: the transaction was rolled back because of an earlier error: `rollback` ends it",
        "braid: line 5: the transaction was rolled back because of an earlier error: `rollback` ends it",
        "braid: line 6: nothing was committed: the transaction was rolled back because of an earlier error",
    ];
    assert_eq!(said, expected);
    assert_eq!(count(), 4); // commands after the transaction take effect
    for end in ["", "exit\n"] {
        let output = braid(&directory, "shell db", format!("begin\n{}{end}", put(9)).as_bytes());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "braid: the transaction was not committed, and was rolled back\n");
        assert_eq!((output.status.code(), count()), (Some(1), 4));
    }
}

#[test]
fn a_database_is_only_read() {
    // Proves that a shell opened for reading only writes nothing, and that all other commands work.
    let directory = Directory::new("read-only");
    fill(&directory);
    let before = fs::read_dir(directory.0.join("db")).unwrap().count();
    let script = "begin\nget users 1\ncommit\ndelete users 1\ninfo --json\nstats --json\nget users 1\n";
    let (out, said) = failing(&directory, "shell db --read-only", script);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, lines[3]));
    assert!(said.len() == 1 && said[0].contains("opened to be read"), "{said:?}");
    let info: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    let statistics: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((&info["tables"], &statistics["log"]["records"]), (&2.into(), &0.into()));
    assert_eq!(fs::read_dir(directory.0.join("db")).unwrap().count(), before);
}

#[test]
fn help_is_made_from_the_definitions() {
    // Proves that the commands of the shell are listed by the shell, by `braid shell --help` and by its `man` page.
    let directory = Directory::new("help");
    fill(&directory);
    let help = printed(&directory, "help\nhelp scan\nstats\ninfo");
    for word in ["rollback", "--prefix <PREFIX>", "transactions 0 committed", "closed      in order"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = String::from_utf8(braid(&directory, "shell --help", b"").stdout).unwrap();
    assert!(
        help.contains("  rollback  Roll back the transaction\n") && help.contains("--read-only"),
        "{help}"
    );
    assert!(braid(&directory, "man pages", b"").status.success());
    let page = fs::read_to_string(directory.0.join("pages").join("braid-shell.1")).unwrap();
    assert!(page.contains("Roll back the transaction"), "{page}");
}
