//! Other engines beside Braid: the same transactions, each engine through its own natural interface, in turns.
//!
//! `args` says what to run, `work` what transactions do, `peer` what an engine offers, `engines` are the engines;
//! `compare` lets each take its turns in a process of its own, in which `measure` does the work; `report` shows what
//! came out.
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
