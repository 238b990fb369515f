//! `cargo xtask tidy`: checks the habits of STYLE.md on the whole workspace.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let tree = match xtask::Tree::load(&xtask::workspace_root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("cannot read the workspace: {error}");
            return ExitCode::from(2);
        }
    };
    let violations = xtask::violations(&tree);
    for violation in &violations {
        eprintln!("{violation}");
    }
    println!("{}", xtask::lengths::summary(&tree));
    if violations.is_empty() {
        println!("tidy: no violations");
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} violations", violations.len());
    ExitCode::FAILURE
}
