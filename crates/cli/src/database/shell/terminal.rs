//! Runs commands from a terminal, with line editing.

use super::completion::Words;
use super::history;
use super::session::{Next, Progress, Session};
use crate::database::open::Failure;
use braid_bench::ending;
use braid_bench::text::printable;
use rustyline::completion::{Completer, Pair};
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::fs;
use std::io::{self, BufWriter, StdoutLock, Write};

/// The number of lines that are kept for later shells.
const HISTORY_LINES_MAX: usize = 10_000;

/// Reads and runs commands until `exit` or the end of the input. An interrupt abandons the line, or the output of a
/// command. A failed command is reported, and does not make the shell fail. A transaction that is still open at the end
/// is rolled back.
pub fn run(session: &mut Session) -> Result<(), Failure> {
    ending::note_interrupts();
    let names = session.db().tables().into_iter().map(|table| table.name);
    let mut editor = editor(Words::new(names.collect()))?;
    let file = history::file();
    if let Some(file) = &file {
        let _ = editor.load_history(file); // the file may not exist yet
    }
    println!("`help` lists the commands");
    let ended = read_lines(session, &mut editor);
    if let Some(file) = file {
        let made = file.parent().map(fs::create_dir_all);
        let _ = made.map(|_| editor.append_history(&file)); // if this fails, the lines are missing next time
    }
    if !matches!(session.progress(), Progress::None) {
        session.abandon();
        println!("the open transaction was rolled back");
    }
    ended
}

fn read_lines(session: &mut Session, editor: &mut Editor<Completing, FileHistory>) -> Result<(), Failure> {
    loop {
        let line = match editor.readline(prompt(session.progress())) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ending::take_interrupt(); // drop an interrupt that came while no command was running
        let mut to = BufWriter::new(Interruptible(io::stdout().lock()));
        let done = session.run(&line, &mut to);
        drop(to); // the output comes before the error
        match done {
            Ok(Next::Line) => {}
            Ok(Next::End) => return Ok(()),
            Err(error) if ending::is_unread(&*error) => return Err(error),
            Err(error) => eprintln!("{}", printable(&error.to_string())),
        }
    }
}

fn prompt(progress: &Progress) -> &'static str {
    match progress {
        Progress::None => "braid> ",
        Progress::Open(_) => "braid (transaction)> ",
        Progress::Failed => "braid (rolled back)> ",
    }
}

fn editor(words: Words) -> Result<Editor<Completing, FileHistory>, Failure> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES_MAX)?
        .history_ignore_space(true)
        .auto_add_history(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Completing(words)));
    Ok(editor)
}

/// Standard output that fails after an interrupt.
struct Interruptible<'o>(StdoutLock<'o>);

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if ending::take_interrupt() {
            return Err(io::Error::other("interrupted"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The helper of the line editor.
struct Completing(Words);

impl Completer for Completing {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = self.0.complete(&line[..at]);
        let pair = |replacement: String| Pair { display: replacement.trim_end().into(), replacement };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completing {
    type Hint = String;
}

impl Highlighter for Completing {}

impl Validator for Completing {}

impl Helper for Completing {}
