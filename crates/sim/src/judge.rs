//! Judges the recorded history of a simulation after its end, by the checker of histories, which knows nothing of the
//! simulation. Under snapshot isolation a replay also judges the history, and leaves nothing open.

use crate::isolation::Isolation;
use crate::record::{Operation, Outcome, Record, Tag};
use crate::replay::replay;
use braid_history::{Anomaly, Checker, History, Model, Op, Order, Status, Transaction, check};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Checks a history, in the order of its records' ends, by what the engine promises. Returns the number of anomalies
/// that the promise allows: tangles of transactions that no serial order in real time explains.
pub(crate) fn judge(records: &[Record], isolation: Isolation) -> Result<u64, String> {
    let history: History = records.iter().zip(0..).map(|(record, id)| transaction(record, id)).collect();
    let answers = answers(records, isolation);
    // Once with the engine's timestamps and once without, so that an engine that reports wrong ones is caught.
    for order in [Order::Stamps, Order::Values] {
        for model in isolation.models() {
            let judged = if *model == Model::StrictSerializable { &answers } else { &history };
            let verdict = Checker::new(judged, order).verdict(*model);
            if let Some(anomaly) = verdict.anomalies.first() {
                return Err(format!("not {model} (order by {order}): {}", described(anomaly, records)));
            }
            assert!(verdict.holds(), "a violation comes with its anomaly");
        }
    }
    if isolation.is_serial() {
        return Ok(0);
    }
    replay(records)?;
    Ok(check(&history, Model::StrictSerializable, Order::Stamps).violations)
}

/// Returns the anomaly and what its transactions did.
fn described(anomaly: &Anomaly, records: &[Record]) -> String {
    let mut text = anomaly.to_string();
    for id in &anomaly.transactions {
        write!(text, "\n  {id} is {:?}", records[*id as usize]).expect("a text takes what is written");
    }
    text
}

/// Returns the record in the checker's form.
fn transaction(record: &Record, id: u64) -> Transaction {
    Transaction {
        begin: Some(record.begin),
        end: Some(record.end),
        status: match record.outcome {
            Outcome::Committed => Status::Committed,
            Outcome::Aborted | Outcome::GaveUp => Status::Aborted,
            Outcome::Unknown => Status::Unknown,
        },
        snapshot: record.snapshot_timestamp,
        commit: record.commit_timestamp,
        ops: record.operations.iter().flat_map(ops).collect(),
        ..Transaction::new(id, record.session.into())
    }
}

/// Returns the history that a serializable engine answers for. A transaction that was answered with its own error
/// counts as a committed reader, up to its first write. Where transactions read no snapshot and it is unknown whether a
/// transaction has committed, its reads count if others have seen its writes.
fn answers(records: &[Record], isolation: Isolation) -> History {
    let seen = seen_by_committed(records);
    let of = |(record, id)| answered(record, id, isolation, &seen);
    records.iter().zip(0..).map(of).collect()
}

fn answered(record: &Record, id: u64, isolation: Isolation, seen: &BTreeSet<Tag>) -> Transaction {
    let has_snapshot = isolation.reads_snapshots();
    let whole = transaction(record, id);
    let whole = if has_snapshot { whole } else { Transaction { snapshot: None, ..whole } };
    let is_read = |op: &Op| !matches!(op, Op::Write { .. } | Op::Append { .. });
    match record.outcome {
        Outcome::GaveUp => {
            let ops = whole.ops.into_iter().take_while(is_read).collect();
            Transaction { status: Status::Committed, commit: None, ops, ..whole }
        }
        Outcome::Unknown
            if !has_snapshot
                && !record.operations.iter().filter_map(written).any(|tag| seen.contains(&tag)) =>
        {
            let ops = whole.ops.into_iter().filter(|op| !is_read(op)).collect();
            Transaction { ops, ..whole }
        }
        Outcome::Committed | Outcome::Aborted | Outcome::Unknown => whole,
    }
}

/// Returns the writes that committed transactions have seen.
fn seen_by_committed(records: &[Record]) -> BTreeSet<Tag> {
    let committed = records.iter().filter(|record| record.outcome == Outcome::Committed);
    let mut seen = BTreeSet::new();
    for operation in committed.flat_map(|record| &record.operations) {
        match operation {
            Operation::Get { tag, .. } => seen.extend(*tag),
            Operation::Scan { rows, .. } => seen.extend(rows.iter().map(|(_, tag)| *tag)),
            Operation::List { elements, .. } => seen.extend(elements),
            _ => {}
        }
    }
    seen
}

/// Returns the write that an operation has made.
fn written(operation: &Operation) -> Option<Tag> {
    match operation {
        Operation::Put { tag, .. } | Operation::Append { tag, .. } => Some(*tag),
        Operation::Insert { tag, .. } => *tag,
        _ => None,
    }
}

fn ops(operation: &Operation) -> Vec<Op> {
    let read = |key: u64, tag: Option<Tag>| Op::Read { key: key.into(), value: tag.map(i64::from) };
    let write = |key: u64, tag: Option<Tag>| Op::Write { key: key.into(), value: tag.map(i64::from) };
    match operation {
        Operation::Get { key, tag } => vec![read(*key, *tag)],
        Operation::Put { key, tag } => vec![write(*key, Some(*tag))],
        Operation::Insert { key, tag: Some(tag) } => vec![read(*key, None), write(*key, Some(*tag))],
        Operation::Insert { tag: None, .. } => Vec::new(), // it saw that there is a row, not whose row it is
        Operation::Delete { key, existed: true } => vec![write(*key, None)],
        Operation::Delete { key, existed: false } => vec![read(*key, None)],
        Operation::Scan { from, to, rows } => {
            let rows = rows.iter().map(|(key, tag)| ((*key).into(), i64::from(*tag))).collect();
            vec![Op::Scan { from: (*from).into(), to: (*to).into(), rows }]
        }
        Operation::List { key, elements } => {
            let values = elements.iter().copied().map(i64::from).collect();
            vec![Op::List { key: (*key).into(), values }]
        }
        Operation::Append { key, tag } => vec![Op::Append { key: (*key).into(), value: i64::from(*tag) }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begin: u64, end: u64, outcome: Outcome, operations: Vec<Operation>) -> Record {
        let (snapshot_timestamp, commit_timestamp) = (None, None);
        let session = begin as u32;
        Record { session, begin, end, outcome, operations, snapshot_timestamp, commit_timestamp }
    }

    fn put(key: u64, tag: Tag) -> Operation {
        Operation::Put { key, tag }
    }

    fn get(key: u64, tag: Option<Tag>) -> Operation {
        Operation::Get { key, tag }
    }

    /// Proves that under any isolation a transaction may read only the last committed write of another transaction, by
    /// any kind of read.
    #[test]
    fn reads_of_the_uncommitted_are_found() {
        let cases = [
            (Outcome::Committed, 2, true),
            (Outcome::Unknown, 2, true),
            (Outcome::Committed, 1, false),
            (Outcome::Aborted, 2, false),
            (Outcome::Committed, 9, false),
        ];
        let append = |tag| Operation::Append { key: 7, tag };
        for (outcome, seen, is_good) in cases {
            let elements = if seen == 2 { vec![1, 2] } else { vec![seen] };
            let ways = [
                (vec![put(7, 1), put(7, 2)], Operation::Scan { from: 0, to: 9, rows: vec![(7, seen)] }),
                (vec![put(7, 1), put(7, 2)], get(7, Some(seen))),
                (vec![append(1), append(2)], Operation::List { key: 7, elements }),
            ];
            for (writes, read) in ways {
                let history = [record(1, 2, outcome, writes), record(3, 4, Outcome::Committed, vec![read])];
                let judged = judge(&history, Isolation::Serializable);
                assert_eq!(judged.is_ok(), is_good, "{outcome:?}, {seen}: {judged:?}");
            }
        }
    }

    /// Proves that a write skew is counted where it is allowed and found where it is not, and that the report says what
    /// its transactions did.
    #[test]
    fn write_skew_is_judged_by_the_promise() {
        let skew = |begin, key: u64| {
            let operations = vec![get(1, None), get(2, None), put(key, key as u32)];
            record(begin, begin + 2, Outcome::Committed, operations)
        };
        let history = [skew(1, 1), skew(2, 2)];
        assert_eq!(judge(&history, Isolation::Snapshot), Ok(1));
        assert_eq!(judge(&history[..1], Isolation::Snapshot), Ok(0));
        let found = judge(&history, Isolation::Serializable).unwrap_err();
        assert!(
            found.starts_with("not strict serializable (order by stamps): G2-item (write skew)"),
            "{found}"
        );
        assert!(found.contains("\n  1 is Record {"), "{found}");
    }

    /// Proves which reads are judged under every serializable scheme. Of a transaction that was answered with an error,
    /// the reads up to its first write are judged. A transaction that never committed is judged only as a snapshot. Of
    /// a transaction whose end is unknown, only what must have committed is judged.
    #[test]
    fn answers_are_judged() {
        let torn = || vec![get(1, Some(1)), get(2, None)];
        let own = |tag| vec![put(3, tag), get(1, Some(1)), get(2, None)];
        let both = || record(1, 2, Outcome::Committed, vec![put(1, 1), put(2, 2)]);
        let reader = |tag| record(6, 7, Outcome::Committed, vec![get(3, tag)]);
        let cases = [
            (record(3, 4, Outcome::GaveUp, torn()), None, false),
            (record(3, 4, Outcome::GaveUp, own(9)), None, true),
            (record(3, 4, Outcome::Aborted, torn()), None, true),
            (record(3, 4, Outcome::Unknown, own(9)), None, true),
            (record(3, 4, Outcome::Unknown, own(9)), Some(9), false),
        ];
        for (middle, seen, is_good) in cases {
            let history = [both(), middle.clone(), reader(seen)];
            let judged = judge(&history, Isolation::Serial);
            assert_eq!(judged.is_ok(), is_good, "{middle:?}: {judged:?}");
        }
    }

    /// Proves that a transaction that ended with an error is judged by the serial order, and not only by its snapshot.
    /// Here a reader sees the deposit and not the withdrawal, which has not seen the deposit.
    #[test]
    fn answers_from_a_snapshot_are_judged() {
        let deposit = record(2, 3, Outcome::Committed, vec![put(2, 2)]);
        let withdraw = record(1, 6, Outcome::Committed, vec![get(2, None), put(1, 1)]);
        let reader = |outcome| record(4, 5, outcome, vec![get(1, None), get(2, Some(2))]);
        for (outcome, is_good) in
            [(Outcome::Committed, false), (Outcome::GaveUp, false), (Outcome::Aborted, true)]
        {
            let history = [deposit.clone(), reader(outcome), withdraw.clone()];
            for isolation in [Isolation::Serial, Isolation::Serializable] {
                let judged = judge(&history, isolation);
                assert_eq!(judged.is_ok(), is_good, "{outcome:?}, {isolation:?}: {judged:?}");
            }
            assert!(judge(&history, Isolation::Snapshot).is_ok(), "{outcome:?}");
        }
    }

    /// Proves that timestamps are believed in only one of the judgments: a history fails where they contradict what was
    /// seen, and where they say that a read's snapshot did not contain what was read.
    #[test]
    fn stamps_are_judged() {
        let stamped = |mut record: Record, snapshot, commit| {
            (record.snapshot_timestamp, record.commit_timestamp) = (Some(snapshot), Some(commit));
            record
        };
        for (snapshot, is_good) in [(4, false), (5, true), (6, true)] {
            let write = stamped(record(1, 2, Outcome::Committed, vec![put(7, 1)]), 0, 5);
            let read = stamped(record(3, 4, Outcome::Committed, vec![get(7, Some(1))]), snapshot, snapshot);
            let history = [write, read];
            for isolation in Isolation::ALL {
                assert_eq!(judge(&history, isolation).is_ok(), is_good, "{isolation:?}, {snapshot}");
            }
        }
    }
}
