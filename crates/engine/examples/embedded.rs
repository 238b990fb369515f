//! A program without async code. It opens a database, and each of its functions runs a transaction by calls.
//!
//! `cargo run --example embedded`

use braiddb::{Database, Error, KeyAs, Options, Result, Table};

/// A separate key type, so that keys are not mixed up with other numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NoteId(u64);

impl KeyAs for NoteId {
    type As = u64;
    fn to_key(&self) -> u64 {
        self.0
    }
    fn from_key(key: u64) -> Option<NoteId> {
        Some(NoteId(key))
    }
}

/// The program's database and table.
struct Notes {
    db: Database,
    notes: Table<NoteId, str>,
}

impl Notes {
    fn open(path: &std::path::Path) -> Result<Notes> {
        // There are no threads for transactions: the calling threads do the work.
        let db = Database::open(path, Options { workers: 0, ..Options::default() })?;
        let notes = db.table("notes")?;
        Ok(Notes { db, notes })
    }

    fn add(&self, text: &str) -> Result<NoteId> {
        loop {
            let tx = self.db.begin()?;
            let last = tx.scan(self.notes, ..=NoteId(u64::MAX)).reverse().limit(1).next()?;
            let id = NoteId(last.map_or(1, |(NoteId(last), _)| last + 1));
            let added = tx.insert(self.notes, id, text).and_then(|()| tx.commit());
            match added {
                Ok(()) => return Ok(id),                 // on disk
                Err(error) if error.is_retryable() => {} // another thread was faster
                Err(error) => return Err(error),
            }
        }
    }

    fn find(&self, word: &str) -> Result<Vec<NoteId>> {
        let tx = self.db.begin()?;
        tx.declare_read_only();
        let (mut rows, mut found) = (tx.scan(self.notes, NoteId(0)..), Vec::new());
        while let Some((id, text)) = rows.next()? {
            if text.contains(word) {
                found.push(id);
            }
        }
        Ok(found)
    }
}

/// Runs the example.
pub fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("braid-notes-{}", std::process::id()));
    let notes = Notes::open(&path)?;
    notes.add("buy milk")?;
    let id = notes.add("call Ada about the milk")?;
    notes.add("sleep")?;
    notes.db.close()?;

    let notes = Notes::open(&path)?;
    let found = notes.find("milk")?;
    println!("of milk: {found:?}");
    assert_eq!(found, [NoteId(1), id]);
    drop(notes);
    std::fs::remove_dir_all(path).map_err(Error::user)
}
