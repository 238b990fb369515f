//! `braid-lab check crash`, run as a user runs it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::process::Command;

/// Proves that processes are killed under every scheme without a loss, and that the directories of good runs are
/// removed afterwards.
#[test]
fn processes_are_killed() {
    let directory = std::env::temp_dir().join(format!("braid-crash-test-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-lab"));
    command
        .args([
            "check",
            "crash",
            "--cc",
            "all",
            "--states",
            "20",
            "--corruptions",
            "20",
            "--kills",
            "4",
            "--json",
            "--directory",
        ])
        .arg(&directory);
    let output = command.output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{json}");
    assert_eq!(
        (&json["lost"], &json["killed"]["kills"], &json["simulated"]["states"]),
        (&0.into(), &4.into(), &20.into())
    );
    assert!(json["killed"]["acknowledged"].as_u64() > Some(0), "{json}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}
