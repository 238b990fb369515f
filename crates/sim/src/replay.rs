//! Replays a history under snapshot isolation. A commit is made and acknowledged in one step. The events of the records
//! therefore say which commits a snapshot contains, and in which order they happened. Every attempt, whatever its
//! outcome, must have seen its snapshot and its own changes. No two overlapping attempts may have committed changes of
//! the same row.

use crate::record::{Operation, Outcome, Record, Tag};
use std::collections::{BTreeMap, BTreeSet};

/// Checks a history, in the order of its records' ends.
pub(crate) fn replay(history: &[Record]) -> Result<(), String> {
    Replay::default().run(history).map_err(|(record, what)| format!("{what}: {record:?}"))
}

/// The offending record, and what is wrong.
type Bad<'r> = (&'r Record, String);

/// All committed versions so far, with the events of their commits.
#[derive(Default)]
struct Replay {
    rows: BTreeMap<u64, Vec<(u64, Option<Tag>)>>,
    lists: BTreeMap<u64, Vec<(u64, Tag)>>,
}

/// The changes of one attempt.
#[derive(Default)]
struct Own {
    rows: BTreeMap<u64, Option<Tag>>,
    lists: BTreeMap<u64, Vec<Tag>>,
}

impl Replay {
    fn run(mut self, history: &[Record]) -> Result<(), Bad<'_>> {
        for record in history {
            let mut own = Own::default();
            for operation in &record.operations {
                self.replay(record.begin, &mut own, operation).map_err(|what| (record, what))?;
            }
            if record.outcome == Outcome::Committed {
                self.commit(record, own).map_err(|what| (record, what))?;
            }
        }
        Ok(())
    }

    /// Returns the row as in the snapshot taken at this event, or as the attempt itself has changed it.
    fn row(&self, begin: u64, own: &Own, key: u64) -> Option<Tag> {
        own.rows.get(&key).copied().unwrap_or_else(|| {
            let versions = self.rows.get(&key)?;
            versions.iter().rev().find(|(end, _)| *end < begin)?.1
        })
    }

    fn list(&self, begin: u64, own: &Own, key: u64) -> Vec<Tag> {
        let committed = self.lists.get(&key).into_iter().flatten();
        let snapshot = committed.filter(|(end, _)| *end < begin).map(|(_, tag)| *tag);
        snapshot.chain(own.lists.get(&key).into_iter().flatten().copied()).collect()
    }

    fn replay(&self, begin: u64, own: &mut Own, operation: &Operation) -> Result<(), String> {
        let expected = |holds, what: &dyn std::fmt::Debug| {
            if holds { Ok(()) } else { Err(format!("{operation:?} should have met {what:?}")) }
        };
        match operation {
            Operation::Get { key, tag } => {
                let row = self.row(begin, own, *key);
                expected(row == *tag, &row)
            }
            Operation::Put { key, tag } => {
                own.rows.insert(*key, Some(*tag));
                Ok(())
            }
            Operation::Insert { key, tag } => {
                let row = self.row(begin, own, *key);
                if tag.is_some() {
                    own.rows.insert(*key, *tag);
                }
                expected(row.is_none() == tag.is_some(), &row)
            }
            Operation::Delete { key, existed } => {
                let row = self.row(begin, own, *key);
                if *existed {
                    own.rows.insert(*key, None);
                }
                expected(row.is_some() == *existed, &row)
            }
            Operation::Scan { from, to, rows } => {
                let keys: BTreeSet<u64> =
                    self.rows.range(from..=to).map(|(key, _)| *key).chain(own.rows.keys().copied()).collect();
                let keys = keys.range(from..=to);
                let all: Vec<(u64, Tag)> =
                    keys.filter_map(|&key| Some((key, self.row(begin, own, key)?))).collect();
                expected(*rows == all, &all)
            }
            Operation::List { key, elements } => {
                let list = self.list(begin, own, *key);
                expected(*elements == list, &list)
            }
            Operation::Append { key, tag } => {
                own.lists.entry(*key).or_default().push(*tag);
                Ok(())
            }
        }
    }

    /// Commits an attempt. Of two overlapping transactions, only one may have changed a row.
    fn commit(&mut self, record: &Record, own: Own) -> Result<(), String> {
        let overlaps = |key, last: u64| {
            if last < record.begin {
                Ok(())
            } else {
                Err(format!("an update of {key} at event {last} is lost"))
            }
        };
        for (key, tag) in own.rows {
            let versions = self.rows.entry(key).or_default();
            overlaps(key, versions.last().map_or(0, |last| last.0))?;
            versions.push((record.end, tag));
        }
        for (key, tags) in own.lists {
            let elements = self.lists.entry(key).or_default();
            overlaps(key, elements.last().map_or(0, |last| last.0))?;
            elements.extend(tags.into_iter().map(|tag| (record.end, tag)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begin: u64, end: u64, operations: Vec<Operation>) -> Record {
        let (outcome, session) = (Outcome::Committed, begin as u32);
        Record { session, begin, end, outcome, operations, snapshot_timestamp: None, commit_timestamp: None }
    }

    fn put(tag: Tag) -> Operation {
        Operation::Put { key: 7, tag }
    }

    fn get(tag: Option<Tag>) -> Operation {
        Operation::Get { key: 7, tag }
    }

    fn scan(rows: &[(u64, Tag)]) -> Operation {
        Operation::Scan { from: 0, to: 9, rows: rows.to_vec() }
    }

    fn check(history: &[Record], is_good: bool) {
        let replayed = replay(history);
        assert_eq!(replayed.is_ok(), is_good, "{replayed:?}");
    }

    /// Proves that reads of a snapshot and of own writes pass, and that all other reads are found.
    #[test]
    fn reads_are_replayed() {
        let first = || record(1, 2, vec![get(None), put(1), get(Some(1)), put(2)]);
        for (seen, is_good) in [(None, false), (Some(1), false), (Some(2), true), (Some(9), false)] {
            check(&[first(), record(3, 4, vec![get(seen)])], is_good);
        }
        // The reader began before the commit, so it reads the state before.
        for (seen, is_good) in [(None, true), (Some(2), false)] {
            check(&[record(1, 3, vec![put(2)]), record(2, 4, vec![get(seen)])], is_good);
        }
    }

    /// Proves that scans miss no row, invent none, and reflect the transaction's own deletions.
    #[test]
    fn scans_are_replayed() {
        let first = || record(1, 2, vec![put(1), Operation::Insert { key: 3, tag: Some(2) }]);
        let delete = Operation::Delete { key: 7, existed: true };
        check(&[first(), record(3, 4, vec![scan(&[(3, 2), (7, 1)]), delete, scan(&[(3, 2)])])], true);
        check(&[first(), record(3, 4, vec![scan(&[(3, 2)])])], false);
        check(&[first(), record(3, 4, vec![scan(&[(2, 1), (3, 2), (7, 1)])])], false);
    }

    /// Proves that a lost update is found, and that undone writes are neither read nor in the way.
    #[test]
    fn lost_and_aborted_writes() {
        check(&[record(1, 3, vec![put(1)]), record(2, 4, vec![put(2)])], false);
        let undone = || Record { outcome: Outcome::Aborted, ..record(1, 3, vec![put(1)]) };
        check(&[undone(), record(2, 4, vec![put(2)])], true);
        check(&[undone(), record(4, 5, vec![get(Some(1))])], false);
    }

    /// Proves that lists hold the committed elements in the order of their commits, followed by the transaction's own
    /// elements.
    #[test]
    fn lists_are_replayed() {
        let append = |tag| Operation::Append { key: 7, tag };
        let list = |elements: &[Tag]| Operation::List { key: 7, elements: elements.to_vec() };
        let first = || record(1, 2, vec![append(1)]);
        check(&[first(), record(3, 4, vec![append(2), list(&[1, 2])])], true);
        check(&[first(), record(3, 4, vec![append(2), list(&[2, 1])])], false);
        check(&[record(1, 3, vec![append(1)]), record(2, 4, vec![append(2)])], false);
    }
}
