//! How the command ends if its output is not read, or if it fails.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    // Proves that a closed pipe causes no error message, whether `println!` or a writer meets it.
    let lines = [
        "sim --workload pairs --seeds 1 --transactions 20",
        "check isolation --spec g0 --random 0 --seeds 1",
    ];
    for line in lines {
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid-lab"));
        let mut child =
            command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said), (Some(141), String::new()), "{line}");
    }
}

#[test]
fn errors_name_the_command() {
    // Proves that an error message begins with the command's own name, with exit code 1.
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-lab"));
    let output = command.args(["check", "crash", "--replay", "999999:9"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.starts_with("braid-lab: "), "{said}");
}
