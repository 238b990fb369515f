//! `braid advise` as a program: its input, its output and its errors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Directory;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Two queries, each of fields that the other does not read, and a field that no query reads.
const WORKLOAD: &str = r#"{"rows": 1000000, "fields": {"a": 8, "b": 8, "c": 8, "d": 48},
    "queries": [{"reads": ["a", "b"], "share": 0.1}, {"reads": ["c"], "weight": 3}]}"#;

fn advise(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.arg("advise").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    _ = child.stdin.take().unwrap().write_all(input.as_bytes()); // the child may exit without reading it
    child.wait_with_output().unwrap()
}

fn answer(args: &[&str], input: &str) -> String {
    let output = advise(args, input);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(args: &[&str], input: &str) -> String {
    let output = advise(args, input);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Fields that are read together form one column, whether the workload comes from a file or from the standard input.
#[test]
fn columns_for_queries() {
    let text = answer(&["-"], WORKLOAD);
    assert!(text.contains("((a, b), c)") && text.contains("d"), "{text}");
    let directory = Directory::new("advise");
    let file = directory.0.join("workload.json");
    std::fs::write(&file, WORKLOAD).unwrap();
    assert_eq!(answer(&[file.to_str().unwrap()], ""), text);
    let json: serde_json::Value = serde_json::from_str(&answer(&["-", "--json"], WORKLOAD)).unwrap();
    assert!(json.to_string().contains(r#"["a","b"]"#), "{json}");
}

/// A workload without an answer is refused. The error names the file and the fault.
#[test]
fn refusals() {
    for (input, reason) in [
        ("", "EOF"),
        (r#"{"rows": 1, "fields": {}, "queries": []}"#, "field"),
        (r#"{"rows": 1, "fields": {"a": 8}, "queries": [{"reads": ["b"]}]}"#, "b"),
    ] {
        let text = refusal(&["-"], input);
        assert!(text.contains("-: ") && text.contains(reason), "{input}: {text}");
    }
    let text = refusal(&["nowhere.json"], "");
    assert!(text.contains("nowhere.json"), "{text}");
}
