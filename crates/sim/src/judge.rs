//! Judges the recorded history of a simulation, after its end. Every history: what a committed transaction has read
//! was written by one that committed, as its last word. A history under snapshot isolation is also replayed, which
//! leaves nothing open.

use crate::record::{Operation, Outcome, Record, Tag};
use crate::replay::replay;
use crate::scheme::Isolation;
use std::collections::{BTreeMap, BTreeSet};

/// Checks a history, in the order of its records' ends, by what the engine promises.
pub(crate) fn judge(records: &[Record], isolation: Isolation) -> Result<(), String> {
    check_reads(records)?;
    if isolation == Isolation::Snapshot { replay(records) } else { Ok(()) }
}

/// Whoever commits has read what others have committed. (G1a and G1b of Adya's thesis, MIT 1999.)
fn check_reads(records: &[Record]) -> Result<(), String> {
    let may_have_committed = records.iter().filter(|record| record.outcome != Outcome::Aborted);
    let committed: BTreeSet<Tag> = may_have_committed.flat_map(last_writes).collect();
    for record in records.iter().filter(|record| record.outcome == Outcome::Committed) {
        let own: BTreeSet<Tag> = record.operations.iter().filter_map(written).collect();
        let mut tags = record.operations.iter().flat_map(read);
        if let Some(tag) = tags.find(|tag| !own.contains(tag) && !committed.contains(tag)) {
            return Err(format!("write {tag} was read and never committed: {record:?}"));
        }
    }
    Ok(())
}

/// What the record leaves behind if it commits.
fn last_writes(record: &Record) -> Vec<Tag> {
    let (mut rows, mut all) = (BTreeMap::new(), Vec::new());
    for operation in &record.operations {
        match *operation {
            Operation::Put { key, tag } | Operation::Insert { key, tag: Some(tag) } => {
                rows.insert(key, tag);
            }
            Operation::Delete { key, .. } => {
                rows.remove(&key);
            }
            Operation::Append { tag, .. } => all.push(tag),
            _ => {}
        }
    }
    all.extend(rows.into_values());
    all
}

fn written(operation: &Operation) -> Option<Tag> {
    match *operation {
        Operation::Put { tag, .. } | Operation::Append { tag, .. } => Some(tag),
        Operation::Insert { tag, .. } => tag,
        _ => None,
    }
}

fn read(operation: &Operation) -> Vec<Tag> {
    match operation {
        Operation::Get { tag, .. } => tag.iter().copied().collect(),
        Operation::Scan { rows, .. } => rows.iter().map(|(_, tag)| *tag).collect(),
        Operation::List { elements, .. } => elements.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begin: u64, outcome: Outcome, operations: Vec<Operation>) -> Record {
        Record {
            session: 0,
            begin,
            end: begin + 1,
            outcome,
            operations,
            snapshot_timestamp: None,
            commit_timestamp: None,
        }
    }

    /// Proves that under any isolation only the last committed word of another transaction may be read.
    #[test]
    fn reads_of_the_uncommitted_are_found() {
        let put = |tag| Operation::Put { key: 7, tag };
        let cases = [
            (Outcome::Committed, 2, true),
            (Outcome::Unknown, 2, true),
            (Outcome::Committed, 1, false),
            (Outcome::Aborted, 2, false),
            (Outcome::Committed, 9, false),
        ];
        for (outcome, seen, is_good) in cases {
            let writer = record(1, outcome, vec![put(1), put(2)]);
            let scan = Operation::Scan { from: 0, to: 9, rows: vec![(7, seen)] };
            let get = Operation::Get { key: 7, tag: Some(seen) };
            for operation in [scan, get, Operation::List { key: 7, elements: vec![seen] }] {
                let reader = record(3, Outcome::Committed, vec![operation]);
                let judged = judge(&[writer.clone(), reader], Isolation::Serializable);
                assert_eq!(judged.is_ok(), is_good, "{outcome:?}, {seen}: {judged:?}");
            }
        }
    }
}
