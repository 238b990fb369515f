//! Compares other engines with Braid. Each engine runs the same transactions through its own natural interface, in
//! turns.
//!
//! - `args` says what to run, and `work` what transactions do.
//! - `peer` is what an engine offers, and `engines` are the engines.
//! - `compare` gives each engine its turns in its own process, in which `measure` does the work.
//! - `report` shows the results.
#![deny(unsafe_code)]

mod args;
mod compare;
mod engines;
mod measure;
mod peer;
mod report;
mod work;

use args::{Args, Inner};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.inner {
        Some(Inner::Measure { order, answer }) => compare::serve(order, answer),
        None => compare::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
