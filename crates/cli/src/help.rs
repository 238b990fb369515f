//! `braid completions` and `braid man`: shell completions and `man` pages, generated from the command's definition.

use crate::database::open::Failure;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Arguments of `braid completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell to generate the script for
    shell: Shell,
}

/// Arguments of `braid man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The directory for the pages; created if missing, and pages of the same names are replaced
    directory: PathBuf,
}

/// Runs `braid completions`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}

/// Runs `braid man`.
pub fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(command, &args.directory)?;
    let path = args.directory.join("braid.1");
    println!("wrote {}, and a page for each subcommand next to it", path.display());
    Ok(())
}
