//! Checks that a dump is whole. Its first line says that the numbers of its rows come at its end.

use std::collections::BTreeMap;

/// A description of a fault in a dump.
type Wrong = String;

/// Counts the rows of a dump while it is read.
#[derive(Debug, Default)]
pub struct Dump {
    /// Its trailer is still to come.
    is_open: bool,
    /// Since it began: rows by the names of their tables.
    rows: BTreeMap<String, u64>,
}

impl Dump {
    /// A dump with a trailer begins.
    pub fn begin(&mut self) -> Result<(), Wrong> {
        self.end()?;
        self.is_open = true;
        self.rows.clear();
        Ok(())
    }

    /// A row was read.
    pub fn count(&mut self, table: &str) {
        if !self.is_open {
            return;
        }
        match self.rows.get_mut(table) {
            Some(rows) => *rows += 1,
            None => _ = self.rows.insert(table.to_owned(), 1),
        }
    }

    /// Compares the trailer, which says how many rows each table has, with the rows that were read.
    pub fn close(&mut self, said: &BTreeMap<String, u64>) -> Result<(), Wrong> {
        if !self.is_open {
            return Err(
                "the numbers of a dump's rows are its last line, and none has begun that has them".into()
            );
        }
        self.is_open = false;
        let names = said.keys().chain(self.rows.keys());
        for table in names {
            let of = |rows: &BTreeMap<String, u64>| rows.get(table).copied().unwrap_or(0);
            if of(said) != of(&self.rows) {
                return Err(format!(
                    "the dump had {} rows of table {table:?}, and there are {}",
                    of(said),
                    of(&self.rows)
                ));
            }
        }
        Ok(())
    }

    /// The input, or another dump, begins behind it.
    pub fn end(&self) -> Result<(), Wrong> {
        match self.is_open {
            true => {
                Err("the dump was cut off: its last line, with the numbers of its rows, is not there".into())
            }
            false => Ok(()),
        }
    }
}
