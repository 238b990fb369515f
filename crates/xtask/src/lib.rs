//! Tasks of the workspace. `tidy` checks the habits of STYLE.md and the module law of ARCHITECTURE.md. `cache` and
//! `teams` count under valgrind, and `builds` compares two builds.
//!
//! Each check of `tidy` is a function from a [`Tree`] to its violations, `file:line: message`. A tree is plain data, so
//! the tests of the checks plant violations in trees that never touch a disk.
#![forbid(unsafe_code)]

pub mod builds;
pub mod cache;
pub mod circles;
pub mod dependencies;
pub mod documents;
pub mod instructions;
pub mod law;
pub mod lengths;
mod rust;
pub mod teams;
mod tree;
pub mod unsafety;
pub mod words;

pub use tree::{File, Tree};

use std::path::{Path, PathBuf};

/// Runs every check, in the order in which violations are reported.
pub fn violations(tree: &Tree) -> Vec<String> {
    let checks: [fn(&Tree) -> Vec<String>; 8] = [
        rust::unparsable,
        law::check,
        circles::check,
        lengths::check,
        unsafety::check,
        words::check,
        documents::check,
        dependencies::check,
    ];
    checks.iter().flat_map(|check| check(tree)).collect()
}

/// The folder of the workspace's `Cargo.toml`, two levels above this crate's folder.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate lies in crates/xtask").to_path_buf()
}
