//! Histories as JSON lines, one transaction per line. `docs/design/history-format.md` describes the fields.

use crate::model::{History, Transaction};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufRead, Write};

/// Why a history could not be read.
#[derive(Debug)]
pub struct ReadError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Debug)]
pub enum Problem {
    /// The input could not be read, or is not UTF-8.
    Io(io::Error),
    /// The line is not a transaction of the format.
    Format(serde_json::Error),
    /// The id was used on an earlier line.
    RepeatedId(u64),
    /// The transaction ends before it begins.
    EndBeforeBegin,
    /// There are more transactions, or more operations in one transaction, than the checker can number.
    TooLarge,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::Io(error) => write!(f, "cannot be read ({error}); give a UTF-8 text file"),
            Problem::Format(error) => {
                // The parser sees one line at a time, so only its column is of use.
                let text = error.to_string();
                let what = text.split(" at line ").next().unwrap_or(&text);
                write!(
                    f,
                    "not a transaction: {what} (column {}); write one JSON object a line, with the fields of \
                     docs/design/history-format.md",
                    error.column()
                )
            }
            Problem::RepeatedId(id) => {
                write!(f, "id {id} was used on an earlier line; give each transaction an id of its own")
            }
            Problem::EndBeforeBegin => {
                f.write_str("end is smaller than begin; take both from one clock that never steps back")
            }
            Problem::TooLarge => f.write_str("too much for one history; cut it into several"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            Problem::Format(error) => Some(error),
            _ => None,
        }
    }
}

impl History {
    /// Reads JSON lines. Empty lines are skipped.
    ///
    /// # Errors
    /// Names the first line that is not a transaction, repeats an id or ends before it begins.
    pub fn read(from: impl BufRead) -> Result<Self, ReadError> {
        let mut history = Self::new();
        let mut ids = HashSet::new();
        for (index, text) in from.lines().enumerate() {
            let fail = |problem| ReadError { line: index + 1, problem };
            let text = text.map_err(|error| fail(Problem::Io(error)))?;
            if text.trim().is_empty() {
                continue;
            }
            let transaction: Transaction =
                serde_json::from_str(&text).map_err(|error| fail(Problem::Format(error)))?;
            if !ids.insert(transaction.id) {
                return Err(fail(Problem::RepeatedId(transaction.id)));
            }
            if let (Some(begin), Some(end)) = (transaction.begin, transaction.end)
                && end < begin
            {
                return Err(fail(Problem::EndBeforeBegin));
            }
            if history.len() >= crate::TRANSACTIONS_MAX {
                return Err(fail(Problem::TooLarge));
            }
            history.push(transaction);
        }
        Ok(history)
    }

    /// Writes JSON lines, which [`History::read`] reads back to an equal history.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        for transaction in self.transactions() {
            serde_json::to_writer(&mut to, transaction)?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }
}
