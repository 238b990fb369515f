//! The real program on the real file system, with failing syncs: strace answers them with an error. If strace is
//! installed, run `cargo test -p braid-cli --test failing_syncs -- --ignored`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Directory;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

const ROWS: usize = 20_000;

fn braid(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braid")).current_dir(directory).args(words).output().unwrap()
}

/// Loads rows into a new database. All syncs of a thread fail from its `nth` on.
fn load_with_failure(directory: &Path, calls: &str, nth: usize) -> Output {
    let _ = std::fs::remove_dir_all(directory.join("db"));
    let inject = format!("inject={calls}:error=EIO:when={nth}+");
    Command::new("strace")
        .current_dir(directory)
        .args(["-f", "-qq", "-o", "calls", "-e", "trace=fdatasync,fsync", "-e", &inject])
        .arg(env!("CARGO_BIN_EXE_braid"))
        .args(["load", "db", "rows"])
        .output()
        .unwrap()
}

/// Proves that a failing sync, of a file or of the directory, ends the load with an error that reports it, and that no
/// row is lost that was reported as loaded, whichever sync is the first to fail.
#[test]
#[ignore = "needs strace"]
fn a_failing_sync_is_reported_and_loses_nothing() {
    let directory = Directory::new("failing-syncs");
    let mut rows = "{\"table\":\"t\",\"key_type\":\"u64\",\"value_type\":\"u64\"}\n".to_string();
    for key in 0..ROWS {
        writeln!(rows, "{{\"table\":\"t\",\"key\":{key},\"value\":{key}}}").unwrap();
    }
    std::fs::write(directory.0.join("rows"), rows).unwrap();
    for calls in ["fdatasync", "fsync"] {
        let (mut failures, mut successes) = (0, 0);
        for nth in [1, 2, 3, 4, 6, 12] {
            let output = load_with_failure(&directory.0, calls, nth);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                successes += 1;
                let dump = braid(&directory.0, &["dump", "db"]);
                let dumped = String::from_utf8_lossy(&dump.stdout).matches("\"key\":").count();
                assert_eq!(dumped, ROWS, "{calls} {nth}");
                continue;
            }
            failures += 1;
            assert_eq!(output.status.code(), Some(1), "{calls} {nth}: an error, and no panic: {text}");
            let says_so = text.contains("(os error 5)") || text.contains("durable");
            assert!(says_so, "{calls} {nth}: {text}");
            // If the database was created, it opens and its rows can be read.
            if directory.0.join("db/database").exists() {
                let check = braid(&directory.0, &["check", "db", "db"]);
                assert!(check.status.success(), "{calls} {nth}: {}", String::from_utf8_lossy(&check.stdout));
                assert!(braid(&directory.0, &["dump", "db"]).status.success(), "{calls} {nth}");
            }
        }
        assert!(failures > 0 && successes > 0, "{calls}: {failures} failed, {successes} did not");
    }
}
