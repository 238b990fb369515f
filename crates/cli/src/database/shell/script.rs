//! Runs commands from an input that is not a terminal: line by line, without a prompt.

use super::session::{Next, Session, UNDONE};
use crate::database::load::LINE_BYTES_MAX;
use crate::database::open::Failure;
use braid_bench::ending;
use braid_bench::text::printable;
use std::io::{self, BufRead, BufWriter, Read, Write};

/// Runs the lines up to the last one or `exit`, and reports failures on standard error. A failed command rolls back the
/// transaction that it is part of, because the rest of the script may depend on it. Returns an error if any command has
/// failed.
pub fn run(session: &mut Session, from: &mut dyn BufRead) -> Result<(), Failure> {
    let mut to = BufWriter::new(io::stdout().lock());
    let (mut failures, mut number, mut bytes) = (0u64, 0u64, Vec::new());
    loop {
        number += 1;
        bytes.clear();
        if from.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(format!("line {number} is longer than {LINE_BYTES_MAX} bytes").into());
        }
        let line = str::from_utf8(&bytes).map_err(|_| Failure::from("the line is not UTF-8"));
        match line.and_then(|line| session.run(line, &mut to)) {
            Ok(Next::Line) => {}
            Ok(Next::End) => break,
            Err(error) if ending::is_unread(&*error) => return Err(error),
            Err(error) => {
                failures += 1;
                to.flush()?; // earlier output comes first
                let undone = if session.fail() { UNDONE } else { "" };
                let said = error.to_string();
                writeln!(io::stderr(), "braid: line {number}: {}{undone}", printable(&said))?;
            }
        }
    }
    to.flush()?;
    match failures {
        0 => Ok(()),
        1 => Err("a command failed".into()),
        failures => Err(format!("{failures} commands failed").into()),
    }
}
