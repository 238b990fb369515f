//! `braid stats`: shows published statistics, and reports missing or outdated ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use braiddb::{Database, Options, Table};
use common::Directory;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

fn command(directory: &Directory, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.current_dir(&directory.0).args(line.split(' '));
    command
}

fn braid(directory: &Directory, line: &str) -> Output {
    command(directory, line).output().unwrap()
}

fn printed(directory: &Directory, line: &str) -> String {
    let output = braid(directory, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

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

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn what_is_published_is_printed() {
    // Proves that the figures are those of the program that has the database open, as lines and as JSON, and that
    // missing statistics are reported.
    let directory = Directory::new("printed");
    let path = directory.0.join("db");
    assert!(refused(&directory, "stats db").contains("there is no database in db"));
    let db = open(&path);
    let error = refused(&directory, "stats db");
    assert!(
        error.contains("no statistics are published in db") && error.contains("publish_statistics"),
        "{error}"
    );
    let table: Table<u64, u64> = db.table("t").unwrap();
    (0..12).for_each(|key| db.transact(|tx| tx.put(table, key, key)).unwrap());
    let publisher = db.publish_statistics(LONG).unwrap();
    let text = printed(&directory, "stats db");
    assert!(text.starts_with(&format!("process      {} (stats-", std::process::id())), "{text}");
    assert!(text.contains("\ntransactions 12 committed, 0 conflicts"), "{text}");
    assert!(text.contains("\nlog          good; ") && text.contains("\ncheckpoints  0 made"), "{text}");
    let json: Value = serde_json::from_str(&printed(&directory, "stats db --json")).unwrap();
    let (pid, statistics) = (&json["pid"], &json["statistics"]);
    assert_eq!((pid, &statistics["commits"]), (&std::process::id().into(), &12.into()));
    let log = db.statistics().log;
    assert_eq!(
        (&statistics["log"]["records"], &statistics["log_condition"]),
        (&log.records.into(), &"Good".into())
    );
    drop(publisher);
    assert!(refused(&directory, "stats db --watch").contains("no statistics are published"));
    db.close().unwrap();
    printed(&directory, "check db db");
    for line in
        ["stats db --watch 0", "stats db --watch x", "stats db --count 2", "stats db --watch 1 --count 0"]
    {
        assert_eq!(braid(&directory, line).status.code(), Some(1), "{line}");
    }
}

#[test]
fn rates_are_printed_line_by_line() {
    // Proves that there is a line, or an object, for each reading, up to the count.
    let directory = Directory::new("rates");
    let db = open(&directory.0.join("db"));
    let table: Table<u64, u64> = db.table("t").unwrap();
    let _publisher = db.publish_statistics(SHORT).unwrap();
    let watching = std::thread::scope(|scope| {
        let lines = scope.spawn(|| printed(&directory, "stats db --watch 0.05 --count 3"));
        let objects = scope.spawn(|| printed(&directory, "stats db --watch 0.05 --json --count 3"));
        let mut key = 0;
        while !(lines.is_finished() && objects.is_finished()) {
            db.transact(|tx| tx.put(table, key % 100, key)).unwrap();
            key += 1;
        }
        [lines.join().unwrap(), objects.join().unwrap()]
    });
    let lines: Vec<_> = watching[0].lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].trim_start().starts_with("commits/s") && lines[3].ends_with("good"), "{lines:?}");
    let objects: Vec<Value> = watching[1].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3);
    assert!(objects[0]["rates"].is_null());
    for (before, now) in objects.iter().zip(&objects[1..]) {
        let (commits, seconds) = (&now["rates"]["commits_per_s"], &now["rates"]["seconds"]);
        let grown = now["statistics"]["commits"].as_f64().unwrap()
            - before["statistics"]["commits"].as_f64().unwrap();
        let expected = grown / seconds.as_f64().unwrap();
        assert!(grown > 0.0 && (commits.as_f64().unwrap() - expected).abs() < 1e-6 * expected, "{now}");
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), shift))
}

/// The text of a statistics file, changed to be from another process.
fn of_process(text: &str, pid: u32) -> String {
    let (body, _) = text.split_once("crc32c ").unwrap();
    let body = body.replace(&format!("pid {}\n", std::process::id()), &format!("pid {pid}\n"));
    format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()))
}

#[test]
fn what_is_out_of_date_is_said() {
    // Proves that figures of a process that has ended or no longer publishes are not taken for current ones, and that
    // damage is reported.
    let directory = Directory::new("stale");
    let path = directory.0.join("db");
    let file = path.join("statistics");
    let db = open(&path);
    let publisher = db.publish_statistics(SHORT).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    publisher.stop().unwrap();
    let mut child = command(&directory, "tables --help").stdout(std::process::Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    // The database is open in another process than the file names.
    fs::write(&file, of_process(&text, child.id())).unwrap();
    if Path::new("/proc/self").exists() {
        let error = refused(&directory, "stats db");
        assert!(error.contains("which ended without closing the database"), "{error}");
        assert!(error.contains(&format!("process {} (stats-", std::process::id())), "{error}");
        assert!(error.contains("has the database open, but publishes no statistics"), "{error}");
    }
    // Later than three intervals and two seconds.
    std::thread::sleep(Duration::from_millis(2100));
    fs::write(&file, &text).unwrap();
    let error = refused(&directory, "stats db");
    assert!(error.contains("s ago, but should publish every 0.01 s"), "{error}");
    db.close().unwrap();
    fs::write(&file, &text).unwrap();
    let error = refused(&directory, "stats db --watch --json");
    assert!(
        error.contains("which ended without closing the database")
            && !error.contains("has the database open"),
        "{error}"
    );
    fs::write(&file, text.replace("commits 0", "commits 1")).unwrap();
    let error = refused(&directory, "stats db");
    assert!(error.contains("statistics") && error.contains("it is damaged"), "{error}");
    // Damaged statistics disturb no other command.
    printed(&directory, "check db db");
    printed(&directory, "info db");
    printed(&directory, "backup db copy");
    assert!(!directory.0.join("copy").join("statistics").exists());
}

#[cfg(unix)]
mod ending {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, Stdio};

    /// A watch that has printed its first line, and the rest of its output.
    fn watch(directory: &Directory) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut command = command(directory, "stats db --watch 0.02");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("commits/s"), "{line}");
        (child, lines)
    }

    fn end(mut child: Child) -> (Option<i32>, String) {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code(), said)
    }

    #[test]
    fn watching_ends() {
        // Proves that an interrupt and a closed pipe end a watch quietly and successfully, and that the end of
        // publishing ends it with a message.
        let directory = Directory::new("ending");
        let db = open(&directory.0.join("db"));
        let publisher = db.publish_statistics(SHORT).unwrap();
        let (child, lines) = watch(&directory);
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert_eq!(end(child), (Some(0), String::new()));
        drop(lines);
        let (child, lines) = watch(&directory);
        drop(lines);
        assert_eq!(end(child), (Some(0), String::new()));
        let (child, mut lines) = watch(&directory);
        publisher.stop().unwrap();
        lines.read_to_end(&mut Vec::new()).unwrap();
        let (code, said) = end(child);
        assert_eq!(code, Some(1));
        assert!(said.contains("no statistics are published"), "{said}");
        db.close().unwrap();
    }
}
