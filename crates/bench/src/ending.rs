//! The life of a command, from its command line to its exit code. Interrupts and a closed output pipe are handled here.
//!
//! The commands `braid` and `braid-lab` call `run` once per process.

use crate::temporary;
use crate::text::printable;
use clap::Parser;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// An error message that says what went wrong and what to do about it.
pub type Failure = Box<dyn Error>;

/// The exit code if the output pipe is closed.
const UNREAD: u8 = 141;

/// The exit code after an interrupt.
pub const INTERRUPTED: u8 = 130;

/// The exit code if the requested row does not exist.
pub const NO_ROW: u8 = 2;

/// A failure with an exit code of its own.
#[derive(Debug)]
pub struct Coded {
    /// The exit code.
    pub code: u8,
    /// The message.
    pub said: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Coded {}

/// Parses the command line of this process, and runs the command.
pub fn run<C: Parser>(command: impl FnOnce(&C) -> Result<(), Failure>) -> ExitCode {
    let asked = match C::try_parse() {
        Ok(asked) => asked,
        Err(answer) => {
            let _ = answer.print(); // the pipe may be closed
            return if answer.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    remove_on_interrupt();
    match quietly(|| command(&asked)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&*error) => ExitCode::from(UNREAD),
        Err(error) => {
            let (name, said) = (C::command().get_name().to_owned(), error.to_string());
            let _ = writeln!(io::stderr(), "{name}: {}", printable(&said)); // standard error may be closed as well
            error.downcast_ref().map_or(ExitCode::FAILURE, |coded: &Coded| ExitCode::from(coded.code))
        }
    }
}

/// Set before the temporary directories are removed, because threads that still use a directory may fail afterwards.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code after an interrupt, or [`NOTED`].
static ON_INTERRUPT: AtomicI32 = AtomicI32::new(INTERRUPTED as i32);

/// Stored instead of an exit code: the command continues, and polls [`take_interrupt`].
const NOTED: i32 = -1;

static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// Installs a handler for SIGINT that removes the temporary directories and exits, with code 130 by default. Other
/// signals leave the directories.
fn remove_on_interrupt() {
    let end = || {
        let code = ON_INTERRUPT.load(Ordering::SeqCst);
        if code == NOTED {
            IS_NOTED.store(true, Ordering::SeqCst);
            return;
        }
        IS_INTERRUPTED.store(true, Ordering::SeqCst);
        temporary::remove_all();
        process::exit(code);
    };
    if let Err(error) = ctrlc::set_handler(end) {
        eprintln!("an interrupt will leave temporary files: {error}");
    }
}

/// Makes an interrupt end the running command successfully, with code 0.
pub fn succeed_on_interrupt() {
    ON_INTERRUPT.store(0, Ordering::SeqCst);
}

/// Makes an interrupt set a flag instead of ending the process.
pub fn note_interrupts() {
    ON_INTERRUPT.store(NOTED, Ordering::SeqCst);
}

/// Returns true if an interrupt occurred since the last call, and clears the flag.
pub fn take_interrupt() -> bool {
    IS_NOTED.swap(false, Ordering::SeqCst)
}

/// Returns true if an interrupt occurred that `take_interrupt` has not yet taken.
pub fn is_interrupted() -> bool {
    IS_NOTED.load(Ordering::SeqCst)
}

/// Runs a command. `println!` panics if the output pipe is closed; this function turns the panic into an error, and
/// prints no panic message. A command that fails after an interrupt does not return, because the process is about to
/// exit with the interrupt's code.
fn quietly(command: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let loud = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_unread_panic(info.payload()) && !IS_INTERRUPTED.load(Ordering::SeqCst) {
            loud(info);
        }
    }));
    let ended = panic::catch_unwind(AssertUnwindSafe(command));
    while IS_INTERRUPTED.load(Ordering::SeqCst) && !matches!(ended, Ok(Ok(()))) {
        thread::park();
    }
    match ended {
        Ok(done) => done,
        Err(payload) if is_unread_panic(&*payload) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Returns true if the error means that the output pipe is closed.
pub fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Recognizes the standard library's message for a closed output pipe.
fn is_unread_panic(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to stdout") && text.contains("Broken pipe"))
}
