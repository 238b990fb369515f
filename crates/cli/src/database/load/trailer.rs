//! Checks that a dump is complete. The first line of a dump announces that the row counts come at its end.

use std::collections::BTreeMap;

/// A description of a fault in a dump.
type Wrong = String;

/// Counts the rows of a dump while it is read.
#[derive(Debug, Default)]
pub struct Dump {
    /// The trailer of the dump has not been read yet.
    is_open: bool,
    /// The rows since the dump began, by table name.
    rows: BTreeMap<String, u64>,
}

impl Dump {
    /// Begins a dump that has a trailer.
    pub fn begin(&mut self) -> Result<(), Wrong> {
        self.end()?;
        self.is_open = true;
        self.rows.clear();
        Ok(())
    }

    /// Counts a row.
    pub fn count(&mut self, table: &str) {
        if !self.is_open {
            return;
        }
        match self.rows.get_mut(table) {
            Some(rows) => *rows += 1,
            None => _ = self.rows.insert(table.to_owned(), 1),
        }
    }

    /// Compares the trailer's row count of each table with the rows that were read.
    pub fn close(&mut self, said: &BTreeMap<String, u64>) -> Result<(), Wrong> {
        if !self.is_open {
            return Err("this line has row counts, but no dump with row counts has begun".into());
        }
        self.is_open = false;
        let names = said.keys().chain(self.rows.keys());
        for table in names {
            let of = |rows: &BTreeMap<String, u64>| rows.get(table).copied().unwrap_or(0);
            if of(said) != of(&self.rows) {
                return Err(format!(
                    "the dump should have {} rows of table {table:?}, but has {}",
                    of(said),
                    of(&self.rows)
                ));
            }
        }
        Ok(())
    }

    /// Checks that the dump is complete. Called when the input ends or another dump begins.
    pub fn end(&self) -> Result<(), Wrong> {
        match self.is_open {
            true => Err("the dump was cut off: its last line, with the row counts, is missing".into()),
            false => Ok(()),
        }
    }
}
