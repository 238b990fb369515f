//! The input of `braid load`: a file or the standard input, with a check that it ends at the end of a row.

use crate::database::progress::Bytes;
use braid_bench::ending::{self, Failure};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

const CHUNK_BYTES: usize = 256 << 10;
/// The maximum number of chunks that wait in the channel.
const CHUNKS_MAX: usize = 4;
/// The maximum time until an interrupt is noticed while no input arrives.
const LOOK: Duration = Duration::from_millis(50);
/// The byte order mark that some programs write before text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes of a file, without a byte order mark. A separate thread reads them, so that an interrupt ends the input
/// with an error even while no input arrives.
pub struct Input {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    has_begun: bool,
    bar: Bytes,
}

impl Input {
    /// Opens a file, or the standard input if the name is `-`.
    pub fn open(file: &Path) -> Result<Input, Failure> {
        let (from, bytes): (Box<dyn Read + Send>, _) = match file.as_os_str() == "-" {
            true => (Box::new(io::stdin()), None),
            false => {
                let failed = |error: io::Error| format!("{}: {error}", file.display());
                let opened = File::open(file).map_err(failed)?;
                let is_file = opened.metadata().map_err(failed)?;
                (Box::new(opened), Some(is_file).filter(|about| about.is_file()).map(|about| about.len()))
            }
        };
        let (send, chunks) = sync_channel(CHUNKS_MAX);
        thread::spawn(move || {
            let mut from = from;
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = from.read(&mut chunk).map(|bytes| {
                    chunk.truncate(bytes);
                    chunk
                });
                match read {
                    Ok(chunk) if chunk.is_empty() => return,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => {
                        let is_last = read.is_err();
                        if send.send(read).is_err() || is_last {
                            return; // the reader has stopped
                        }
                    }
                }
            }
        });
        Ok(Input { chunks, chunk: Vec::new(), at: 0, has_begun: false, bar: Bytes::new("read", bytes) })
    }

    /// Waits for the next chunk. Returns false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        loop {
            if ending::is_interrupted() {
                return Err(io::Error::other("interrupted"));
            }
            match self.chunks.recv_timeout(LOOK) {
                Ok(chunk) => {
                    let chunk = chunk?;
                    self.bar.add(chunk.len() as u64);
                    self.chunk.drain(..self.at);
                    self.at = 0;
                    self.chunk.extend_from_slice(&chunk);
                    return Ok(true);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.has_begun {
            while self.chunk.len() < BYTE_ORDER_MARK.len() && self.refill()? {}
            self.at = if self.chunk.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
            self.has_begun = true;
        }
        if self.at == self.chunk.len() && !self.refill()? {
            return Ok(0);
        }
        let bytes = out.len().min(self.chunk.len() - self.at);
        out[..bytes].copy_from_slice(&self.chunk[self.at..][..bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

/// The state of the CSV text after the bytes that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Between two rows, or before the first row.
    #[default]
    Rows,
    /// At the beginning of a field that is not the first.
    Field,
    Unquoted,
    Quoted,
    /// After a quotation mark in a quoted field, which either ends the field or is the first of two.
    Quote,
}

/// CSV that is being read, with the state at its end. The CSV reader accepts a partial row at the end as a whole row.
pub struct Ended<R> {
    from: R,
    place: Place,
    bytes: u64,
}

impl<R: Read> Ended<R> {
    pub fn new(from: R) -> Ended<R> {
        Ended { from, place: Place::Rows, bytes: 0 }
    }

    /// Says what the last row lacks, if the row that ends at `position` is the last one and was cut off.
    pub fn cut(&self, position: u64) -> Option<&'static str> {
        match self.place {
            Place::Rows => None,
            _ if position < self.bytes => None, // more rows follow that row
            Place::Quoted => Some("the file ends within a field in quotes"),
            Place::Field | Place::Unquoted | Place::Quote => {
                Some("the file ends within this row, or before the end of its line")
            }
        }
    }
}

impl Place {
    fn behind(self, byte: u8) -> Place {
        match (self, byte) {
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) => Place::Quoted,
            (Place::Rows | Place::Field | Place::Quote, b'"') => Place::Quoted,
            (_, b',') => Place::Field,
            (_, b'\n' | b'\r') => Place::Rows,
            _ => Place::Unquoted,
        }
    }
}

impl<R: Read> Read for Ended<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(out)?;
        self.place = out[..bytes].iter().fold(self.place, |place, byte| place.behind(*byte));
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Proves that a beginning of a CSV text counts as whole exactly if it ends at the end of a row.
    #[test]
    fn ends_of_csv() {
        let rows = ["a,b\r", "\n", "\"a\",\"b\"\"c\n,\"\n", "\n", "x\"y,z\"\n", "\"q\"r,\"\"\n", ",\n"];
        let (text, mut ends) = (rows.concat(), vec![0]);
        rows.iter().for_each(|row| ends.push(ends[ends.len() - 1] + row.len()));
        for end in 0..=text.len() {
            let mut from = Ended::new(&text.as_bytes()[..end]);
            io::copy(&mut from, &mut io::sink()).unwrap();
            assert_eq!(from.cut(end as u64).is_none(), ends.contains(&end), "{:?}", &text[..end]);
            if end > 0 {
                assert_eq!(from.cut(end as u64 - 1), None, "another row is behind");
            }
        }
    }
}
