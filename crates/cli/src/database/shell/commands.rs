//! The commands of the shell. They have the words of the commands of `braid`, without the directory.

use crate::database::info;
use crate::database::look::{Listing, OneRow, SomeRows};
use crate::database::open::Failure;
use crate::database::stats;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

/// Commands for the open database
#[derive(Parser, Debug)]
#[command(multicall = true, subcommand_help_heading = "Commands")]
pub struct Line {
    #[command(subcommand)]
    pub command: Command,
}

/// A command of the shell.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the tables
    Tables(Listing),
    /// Print the value of one row
    Get(OneRow),
    /// Print rows of a table, in key order
    Scan(SomeRows),
    /// Add a row; fails if there is one with this key
    Insert(NewRow),
    /// Set the value of a row, or add the row if there is none
    Put(NewRow),
    /// Delete a row; fails if there is none
    Delete(OldRow),
    /// Begin a transaction that includes all following commands; without one, each command is its own transaction
    Begin,
    /// Commit the transaction and make its changes durable
    Commit,
    /// Roll back the transaction
    Rollback,
    /// Print statistics since the shell opened the database
    Stats(stats::Form),
    /// Describe the database: tables, checkpoint, log
    Info(info::Form),
    /// End the shell; an open transaction is rolled back
    #[command(alias = "quit")]
    Exit,
}

/// A row to write.
#[derive(Args, Debug)]
pub struct NewRow {
    /// The table
    pub table: String,
    /// The key: text without quotes, a number, bytes as hexadecimal digits; other types as JSON
    #[arg(allow_hyphen_values = true)]
    pub key: String,
    /// The value, in the format that `get` prints
    #[arg(allow_hyphen_values = true)]
    pub value: String,
}

/// A row to delete.
#[derive(Args, Debug)]
pub struct OldRow {
    /// The table
    pub table: String,
    /// The key, written like a key of `get`
    #[arg(allow_hyphen_values = true)]
    pub key: String,
}

/// The result of reading a line.
#[derive(Debug)]
pub enum Read {
    /// An empty line or a comment.
    Nothing,
    /// A request for this help text.
    Help(String),
    Command(Command),
}

/// The beginning of the advice that ends each clap message about a wrong line. The shell leaves this advice out.
const ADVICE: &str = "\n\nFor more information, try";

/// Reads a line: words as in a shell, with quotes, and `#` before comments.
pub fn read(line: &str) -> Result<Read, Failure> {
    let words =
        shlex::split(line).ok_or("a quotation mark is not closed, or the line ends with a backslash")?;
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

/// The commands and their descriptions, for the help of `braid shell`.
pub fn summary() -> String {
    let line = Line::command();
    let names = line.get_subcommands().map(|command| command.get_name().len());
    let width = names.max().unwrap_or(0);
    let mut text = String::from("Shell commands (`help COMMAND` describes one):\n");
    for command in line.get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!("  {:width$}  {about}\n", command.get_name());
    }
    text + "\nWords are split as in a Unix shell, for example: put users 1 '{\"name\": \"Ada\"}'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        // Proves that no two words clash, that quotes and comments are understood, and that errors are named.
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
            ("put 'a", "is not closed"),
            ("fetch", "'fetch'"),
            ("get t", "<KEY>"),
            ("tables --wide", "'--wide'"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(why) && !error.starts_with("error"), "{error}");
        }
        assert!(summary().contains("rollback  Roll back"), "{}", summary());
    }
}
