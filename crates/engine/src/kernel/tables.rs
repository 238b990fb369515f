//! The tables of a database, by number and by name, and the tables that were dropped.
//!
//! Numbers are assigned in order and never reused. Records of the log, and readers of the log, know a table only by its
//! number, and a handle of a dropped table leads to what is left of that table. A dropped table is therefore put aside,
//! where no search finds it. Checkpoints and readers of changes need its description until the log has forgotten it.

use crate::sync::Fixed;
use crate::table::{Description, TableInner, TableState};
use crate::wal::Lsn;
use std::collections::{BTreeMap, BTreeSet};

/// Tables stay where they are until the whole list is dropped, because their addresses are handed out.
#[derive(Default)]
pub(crate) struct Tables {
    /// The tables that are not dropped, by their numbers.
    there: BTreeMap<u32, Fixed<TableInner>>,
    /// The names of these tables. While a log is replayed, two tables may have the same name.
    names: BTreeSet<(String, u32)>,
    /// Dropped tables that the log may still mention, and the position up to which it may.
    dropped: BTreeMap<u32, (Fixed<TableInner>, Option<Lsn>)>,
    /// Dropped tables that the log does not mention any more.
    forgotten: Vec<Fixed<TableInner>>,
    /// No table has had this number or a higher one.
    next: u32,
}

impl Tables {
    /// Returns the tables that are not dropped, in the order of their numbers.
    pub(crate) fn there(&self) -> impl Iterator<Item = &TableInner> {
        self.there.values().map(|table| &**table)
    }

    /// Returns the table with this number. A dropped table is returned until it is forgotten.
    pub(crate) fn get(&self, number: u32) -> Option<&TableInner> {
        let dropped = || self.dropped.get(&number).map(|(table, _)| &**table);
        self.there.get(&number).map(|table| &**table).or_else(dropped)
    }

    /// Returns the table with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&TableInner> {
        let first = (name.to_owned(), 0);
        let (found, number) = self.names.range(first..).next()?;
        if found == name { self.get(*number) } else { None }
    }

    /// Returns the number of the next table.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Adds a new table. Its number is [`next`](Self::next), or higher if a checkpoint has left out dropped tables.
    pub(crate) fn add(&mut self, table: TableInner) -> &TableInner {
        let (number, description) = (table.number(), table.description().clone());
        assert!(number >= self.next, "a number is given once");
        self.next = number + 1;
        let table = Fixed::new(table);
        if description.state == TableState::Dropped {
            &self.dropped.entry(number).or_insert((table, None)).0
        } else {
            self.names.insert((description.name, number));
            self.there.entry(number).or_insert(table)
        }
    }

    /// Gives the table with this number a new description. `end` is the end of the log, which contains this
    /// description.
    pub(crate) fn describe(&mut self, number: u32, description: Description, end: Option<Lsn>) {
        let there = self.there.remove(&number);
        let was_there = there.is_some();
        let table = there.or_else(|| self.dropped.remove(&number).map(|(table, _)| table));
        let table = table.expect("the caller has looked");
        let (name, state) = (description.name.clone(), description.state);
        let before = std::mem::replace(&mut *table.description(), description);
        if was_there {
            let is_known = self.names.remove(&(before.name, number));
            debug_assert!(is_known, "names are of the tables that are there");
        }
        // A table that a checkpoint knows as dropped comes back while the older part of the log is replayed.
        if state == TableState::Dropped {
            self.dropped.insert(number, (table, end));
        } else {
            self.names.insert((name, number));
            self.there.insert(number, table);
        }
    }

    /// Forgets the tables that were dropped before `oldest`, where the kept log begins. `end` is where the log ends.
    /// The last table is never forgotten, because the numbers continue from it. Returns the dropped tables that are
    /// left.
    pub(crate) fn forget(&mut self, oldest: Lsn, end: Lsn) -> impl Iterator<Item = &TableInner> {
        let last = self.next.wrapping_sub(1);
        let is_old = |number: &u32, (_, told): &mut (Fixed<TableInner>, Option<Lsn>)| {
            // The table was found dropped by recovery. The log that existed then may mention it.
            *told.get_or_insert(end) <= oldest && *number != last
        };
        let old = self.dropped.extract_if(.., is_old).map(|(_, (table, _))| table);
        self.forgotten.extend(old);
        self.dropped.values().map(|(table, _)| &**table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use crate::db::Database;
    use crate::options::Options;
    use crate::table::Table;

    /// Proves that the time for searches and the lists for checkpoints depend only on the tables that exist, however
    /// many were dropped, and that a dropped table keeps little memory.
    #[test]
    fn dropped_tables_are_out_of_the_way() {
        const DROPPED: u64 = 500;
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let kept: Table<u64, u64> = db.table("kept").unwrap();
        db.transact(|tx| tx.put(kept, 1, 1)).unwrap();
        let used = || db.statistics().memory.index_bytes + db.statistics().memory.other_bytes;
        let before = used();
        for round in 0..DROPPED {
            let table: Table<u64, u64> = db.table(&format!("table {}", round % 3)).unwrap();
            db.transact(|tx| tx.put(table, round, 1)).unwrap();
            db.drop_table(&format!("table {}", round % 3)).unwrap();
        }
        let engine = db.engine();
        assert_eq!(engine.all_tables().len(), 1);
        let mut tables = engine.tables.lock().unwrap();
        assert_eq!((tables.names.len(), tables.there.len(), tables.next), (1, 1, DROPPED as u32 + 1));
        assert_eq!(tables.forget(crate::wal::Lsn(u64::MAX), crate::wal::Lsn(0)).count(), 1, "the last one");
        assert_eq!(tables.forgotten.len() as u64, DROPPED - 1);
        drop(tables);
        let each = (used() - before) / DROPPED;
        assert!(each <= 1024, "{each} bytes for each table");
        assert_eq!(db.transact(|tx| tx.get(kept, 1)).unwrap(), Some(1));
    }
}
