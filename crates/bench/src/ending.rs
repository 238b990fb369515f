//! How a command begins and ends: from its command line to its exit code, also on an interrupt and on a closed output pipe.
//!
//! The commands `braid` and `braid-lab` call `run`, once in a process.

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

/// What went wrong, with what to do about it.
pub type Failure = Box<dyn Error>;

/// The exit code if the output pipe was closed.
const UNREAD: u8 = 141;

/// The exit code after an interrupt.
pub const INTERRUPTED: u8 = 130;

/// The exit code if there is no such row.
pub const NO_ROW: u8 = 2;

/// A failure with an exit code of its own.
#[derive(Debug)]
pub struct Coded {
    /// The exit code.
    pub code: u8,
    /// What went wrong.
    pub said: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Coded {}

/// Parses the command line of this process, and runs what it asks for.
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
            let _ = writeln!(io::stderr(), "{name}: {}", printable(&said)); // closed as well, perhaps
            error.downcast_ref().map_or(ExitCode::FAILURE, |coded: &Coded| ExitCode::from(coded.code))
        }
    }
}

/// Set before the temporary directories are removed: what fails afterwards may fail for the want of them.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code after an interrupt, or [`NOTED`].
static ON_INTERRUPT: AtomicI32 = AtomicI32::new(INTERRUPTED as i32);

/// In place of an exit code: the command goes on, and asks by [`take_interrupt`].
const NOTED: i32 = -1;

static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// On SIGINT, removes the temporary directories and exits with code 130. (Other signals leave them.)
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

/// From now on an interrupt is how the command ends that is under way: with code 0.
pub fn succeed_on_interrupt() {
    ON_INTERRUPT.store(0, Ordering::SeqCst);
}

/// From now on an interrupt is only noted.
pub fn note_interrupts() {
    ON_INTERRUPT.store(NOTED, Ordering::SeqCst);
}

/// Returns true if there was an interrupt since the last call, and forgets it.
pub fn take_interrupt() -> bool {
    IS_NOTED.swap(false, Ordering::SeqCst)
}

/// Returns true after an interrupt, until `take_interrupt` takes it.
pub fn is_interrupted() -> bool {
    IS_NOTED.load(Ordering::SeqCst)
}

/// Runs a command. `println!` panics if the output pipe is closed; that is an error like any other here, without a message. A
/// command that fails after an interrupt does not return: the process is about to exit with the interrupt's code.
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

/// Whether an error is that the output pipe is closed.
pub fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The standard library's words for it.
fn is_unread_panic(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to stdout") && text.contains("Broken pipe"))
}
