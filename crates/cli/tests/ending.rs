//! How the command ends when the user ends it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn braid(line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit code of the command and its error output.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("braid-ending-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    // Proves that a closed pipe causes no error message, whether `println!` or a writer meets it.
    let directory = directory("pipe");
    let rows: String =
        (0..100_000).map(|key| format!("{{\"table\":\"t\",\"key\":{key},\"value\":{key}}}\n")).collect();
    let types = "{\"table\":\"t\",\"key_type\":\"u64\",\"value_type\":\"u64\"}\n";
    std::fs::write(directory.join("dump"), types.to_owned() + &rows).unwrap();
    let (db, dump) =
        (directory.join("db").display().to_string(), directory.join("dump").display().to_string());
    let load = braid(&format!("load {db} {dump}")).wait_with_output().unwrap();
    assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
    for line in
        [format!("dump {db}"), format!("dump {db} --format csv"), format!("scan {db} t --limit 90000")]
    {
        let mut child = braid(&line);
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.ends_with('\n'));
        assert_eq!(end(child), (Some(141), String::new()), "{line}");
    }
    let mut child = braid(&format!("man {}", directory.join("man").display()));
    drop(child.stdout.take());
    assert_eq!(end(child), (Some(141), String::new()));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn an_interrupt_removes_what_was_made() {
    // Proves that a benchmark on disk leaves no database behind, whenever it is interrupted. It creates one database to
    // check that it can, and another one to measure.
    let directory = directory("interrupt");
    let place = directory.display();
    let is_empty = || std::fs::read_dir(&directory).unwrap().next().is_none();
    for later_ms in [0, 1, 2, 5, 10, 20, 50, 100] {
        let child = braid(&format!(
            "bench ycsb --records 1K --workload m --mode naive --durability async --seconds 60 --repeats 1 --directory {place}"
        ));
        let begin = Instant::now();
        while is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no database was made");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(later_ms));
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert_eq!(end(child).0, Some(130), "{later_ms} ms later");
        assert!(is_empty(), "{later_ms} ms later");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
