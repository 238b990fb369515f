//! Writes the databases that the test `golden` opens, each into its own directory:
//! `cargo run -p braiddb --example golden -- crates/engine/tests/golden/v2`. This is done once, when a version of the
//! format is declared stable. Databases that are kept are never written again.

#[path = "../tests/golden/contents.rs"]
mod contents;

use braiddb::storage::OpenMode;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let to = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: golden DIRECTORY")?;
    for name in contents::NAMES {
        let (storage, directory) = (contents::make(name), to.join(name));
        fs::create_dir_all(&directory)?;
        for file in storage.list()? {
            let from = storage.open(&file, OpenMode::Read)?;
            let mut bytes = vec![0; usize::try_from(from.len_bytes()?)?];
            from.read_exact_at(0, &mut bytes)?;
            File::create_new(directory.join(&file))?.write_all(&bytes)?;
        }
    }
    Ok(())
}
