//! What an error says of a row that another transaction has.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

/// A row that another transaction has locked or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedRow {
    /// The table's name.
    pub table: String,
    /// The row's key as the index has it: in quotation marks if all its bytes are letters and the like, else in
    /// hexadecimal digits; a long one is cut.
    pub key: String,
    /// The transaction that has it. `None`: the row was passing from one to the next of those in the queue for it.
    pub holder: Option<LockHolder>,
    /// How long it was waited for.
    pub waited: Duration,
}

/// A transaction that has locked or written a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Tells it from others that were open at the time; 0 of [`HolderKind::Readers`].
    pub transaction: u64,
    /// What drives it.
    pub kind: HolderKind,
    /// How long it has been open, if it is interactive.
    pub open_for: Option<Duration>,
}

/// What drives a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// A worker: it ends as soon as its closure does.
    Worker,
    /// Whoever has begun it by `Database::begin`.
    Interactive,
    /// Transactions that have read the row share its lock. The lock counts them, and does not say which they are.
    Readers,
}

impl LockedRow {
    /// Bytes of a key that are shown.
    pub(crate) const KEY_BYTES_SHOWN: usize = 32;

    /// A key of `len` bytes that begins with these, for people.
    pub(crate) fn show(bytes: &[u8], len: usize) -> String {
        let mut shown = String::new();
        let is_text = !bytes.is_empty() && bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if is_text {
            let _ = write!(shown, "{:?}", String::from_utf8_lossy(bytes));
        } else {
            shown.push_str("0x");
            for byte in bytes {
                let _ = write!(shown, "{byte:02x}");
            }
        }
        if bytes.len() < len {
            let _ = write!(shown, "... ({len} bytes)");
        }
        shown
    }
}

impl fmt::Display for LockedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of table {:?}", self.key, self.table)?;
        self.holder.iter().try_for_each(|holder| write!(f, ", which {holder} has,"))
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            HolderKind::Worker => "a worker's",
            HolderKind::Interactive => "interactive",
            HolderKind::Readers => return f.write_str("a transaction that has read it"),
        };
        write!(f, "{kind} transaction {:#x}", self.transaction)?;
        match self.open_for {
            Some(open_for) => write!(f, " (open for {} ms)", open_for.as_millis()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that keys are shown in a bounded number of characters, as text where they are text.
    #[test]
    fn keys_are_shown() {
        assert_eq!(LockedRow::show(b"apples", 6), "\"apples\"");
        assert_eq!(LockedRow::show(&[0, 0, 1, 255], 4), "0x000001ff");
        assert_eq!(LockedRow::show(&[b'x'; 4], 1000), "\"xxxx\"... (1000 bytes)");
        assert_eq!(LockedRow::show(&[], 0), "0x");
    }
}
