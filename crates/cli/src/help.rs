//! `braid completions` and `braid man`: what shells and `man` know of the command, made from its definition.

use crate::database::open::Failure;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Which shell.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Where to.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The directory for the pages, which is made if it is not there; pages of these names are replaced
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
    println!("wrote {} and a page for each command beside it", path.display());
    Ok(())
}
