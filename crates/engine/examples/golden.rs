//! Writes the databases that the test `golden` opens, each into a directory of its own:
//! `cargo run -p braiddb --example golden -- crates/engine/tests/golden/v2`, once, when a version of the format is declared
//! stable. What was kept is never written again.
#![allow(clippy::unwrap_used, reason = "it is run by hand")]

#[path = "../tests/golden/contents.rs"]
mod contents;

use braiddb::storage::OpenMode;
use std::path::PathBuf;

fn main() {
    let Some(to) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: golden DIRECTORY");
        std::process::exit(2);
    };
    for name in contents::NAMES {
        let (storage, directory) = (contents::make(name), to.join(name));
        std::fs::create_dir_all(&directory).unwrap();
        for file in storage.list().unwrap() {
            let path = directory.join(&file);
            assert!(!path.exists(), "{} is there, and is not written again", path.display());
            let from = storage.open(&file, OpenMode::Read).unwrap();
            let mut bytes = vec![0; from.len_bytes().unwrap() as usize];
            from.read_exact_at(0, &mut bytes).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}
