//! The commands of the shell: their words are those of the commands of `braid`, without the directory.

use crate::database::info;
use crate::database::look::{Listing, OneRow, SomeRows};
use crate::database::open::Failure;
use crate::database::stats;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

/// Commands for the database that is open
#[derive(Parser, Debug)]
#[command(multicall = true, subcommand_help_heading = "Commands")]
pub struct Line {
    #[command(subcommand)]
    pub command: Command,
}

/// What a line says.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Lists the tables
    Tables(Listing),
    /// Prints the value of one row
    Get(OneRow),
    /// Prints rows of a table, in the order of their keys
    Scan(SomeRows),
    /// Adds a row; an error if there is one with this key
    Insert(NewRow),
    /// Sets the value of a row, whether or not there is one
    Put(NewRow),
    /// Deletes a row; an error if there is none
    Delete(OldRow),
    /// Begins a transaction, which all that follows is part of; without one, each command is a transaction of its own
    Begin,
    /// Commits the transaction: its changes are durable afterwards
    Commit,
    /// Undoes the transaction
    Rollback,
    /// Prints what was counted since the database was opened here
    Stats(stats::Form),
    /// Says what the database is made of: tables, checkpoint, log
    Info(info::Form),
    /// Ends the shell; an open transaction is undone
    #[command(alias = "quit")]
    Exit,
}

/// A row to be written.
#[derive(Args, Debug)]
pub struct NewRow {
    /// The table
    pub table: String,
    /// The key: text without quotes, a number, bytes as hexadecimal digits, anything else as JSON
    #[arg(allow_hyphen_values = true)]
    pub key: String,
    /// The value, written as `get` prints it
    #[arg(allow_hyphen_values = true)]
    pub value: String,
}

/// A row to be deleted.
#[derive(Args, Debug)]
pub struct OldRow {
    /// The table
    pub table: String,
    /// The key, written as for `get`
    #[arg(allow_hyphen_values = true)]
    pub key: String,
}

/// What came of reading a line.
#[derive(Debug)]
pub enum Read {
    /// There is nothing on it, or a comment.
    Nothing,
    /// It asks for this text.
    Help(String),
    Command(Command),
}

/// How the last line of each message on a wrong line begins, which says nothing new.
const ADVICE: &str = "\n\nFor more information, try";

/// Reads a line: words as in a shell, with quotes, and `#` before comments.
pub fn read(line: &str) -> Result<Read, Failure> {
    let words = shlex::split(line).ok_or("a quotation mark has no partner, or a backslash ends the line")?;
    if words.is_empty() {
        return Ok(Read::Nothing);
    }
    match Line::try_parse_from(words) {
        Ok(line) => Ok(Read::Command(line.command)),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(Read::Help(error.render().to_string())),
        Err(error) => {
            let text = error.render().to_string();
            let text = text.split_once(ADVICE).map_or(&*text, |(what, _)| what);
            Err(text.strip_prefix("error: ").unwrap_or(text).trim_end().into())
        }
    }
}

/// The commands and what they do, for the help of `braid shell`.
pub fn summary() -> String {
    let line = Line::command();
    let names = line.get_subcommands().map(|command| command.get_name().len());
    let width = names.max().unwrap_or(0);
    let mut text = String::from("Commands of the shell, of which `help COMMAND` tells more:\n");
    for command in line.get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!("  {:width$}  {about}\n", command.get_name());
    }
    text + "\nWords are separated as in a shell, such as: put users 1 '{\"name\": \"Ada\"}'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        // Proves that no two words clash, that quotes and comments are understood, and that what is wrong is named.
        Line::command().debug_assert();
        assert!(matches!(read("  # nothing").unwrap(), Read::Nothing));
        let Read::Command(Command::Put(row)) = read(r#"put "a table" -1 '{"name": "Ada"}' # why"#).unwrap()
        else {
            panic!("a row is put")
        };
        let expected = ("a table", "-1", "{\"name\": \"Ada\"}");
        assert_eq!((&*row.table, &*row.key, &*row.value), expected);
        assert!(matches!(read("quit").unwrap(), Read::Command(Command::Exit)));
        for line in ["help", "help scan", "scan --help"] {
            let Read::Help(text) = read(line).unwrap() else { panic!("{line} asks for help") };
            assert!(text.contains("Usage: "), "{text}");
        }
        for (line, why) in [
            ("put 'a", "no partner"),
            ("fetch", "'fetch'"),
            ("get t", "<KEY>"),
            ("tables --wide", "'--wide'"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(why) && !error.starts_with("error"), "{error}");
        }
        assert!(summary().contains("rollback  Undoes"), "{}", summary());
    }
}
