//! Tests of the completions and pages that are generated from the command's definition.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn printed(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_braid")).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_know_the_commands() {
    // Proves that the scripts of all shells have the commands, their subcommands and their flags.
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in ["salvage", "ycsb", "durability"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn man_knows_the_commands() {
    // Proves that each command has a page with its description and flags.
    let directory = std::env::temp_dir().join(format!("braid-man-{}", std::process::id()));
    printed(&["man", directory.to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert!(page("braid.1").contains("main\\-memory database engine"));
    assert!(page("braid-scan.1").contains("\\-\\-reverse"));
    assert!(page("braid-check-db.1").contains("\\-\\-json"));
    std::fs::remove_dir_all(directory).unwrap();
}
