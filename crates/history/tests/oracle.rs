//! Compares the checker with brute force on tiny histories: every serial order of the committed transactions is tried.
//! With stamps on every transaction, the checker must agree in both directions. By values alone, it must never accuse
//! a history that some order explains.

use braid_history::generate::{Execution, Random, Shape, generate};
use braid_history::{History, Key, Model, Op, Order, Status, Transaction, check};
use std::collections::BTreeMap;

const HISTORIES: u64 = 60_000;

/// An item's state in a replay: its value and its writer (0: none). Lists have values only.
#[derive(Clone, Default)]
struct State {
    registers: BTreeMap<Key, (Option<i64>, u64)>,
    lists: BTreeMap<Key, Vec<i64>>,
}

/// Runs a transaction on a state. Returns true if the transaction sees what it says it saw. `absence` names the writer
/// of the absence that a read of nothing must meet. `None`: any writer.
fn replay(transaction: &Transaction, state: &mut State, absence: &dyn Fn(&Key) -> Option<u64>) -> bool {
    let id = transaction.id;
    let sees = |state: &State, key: &Key, value: Option<i64>| {
        let (now, writer) = state.registers.get(key).copied().unwrap_or((None, 0));
        let right_absence = value.is_some() || writer == id || absence(key).is_none_or(|who| who == writer);
        now == value && right_absence
    };
    transaction.ops.iter().all(|op| match op {
        Op::Read { key, value } => sees(state, key, *value),
        Op::Write { key, value } => {
            state.registers.insert(key.clone(), (*value, id));
            true
        }
        Op::Append { key, value } => {
            state.lists.entry(key.clone()).or_default().push(*value);
            true
        }
        Op::List { key, values } => state.lists.get(key).map_or(&[][..], |list| list) == &values[..],
        Op::Scan { from, to, rows } => {
            (0..8).map(Key::Number).filter(|key| from <= key && key <= to).all(|key| {
                let row = rows.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
                sees(state, &key, row)
            })
        }
    })
}

fn stamp(stamp: Option<u64>) -> u64 {
    stamp.expect("the generator stamps what commits")
}

fn written(transaction: &Transaction) -> Vec<(bool, Key)> {
    let keys = transaction.ops.iter().filter_map(|op| match op {
        Op::Write { key, .. } => Some((false, key.clone())),
        Op::Append { key, .. } => Some((true, key.clone())),
        _ => None,
    });
    keys.collect()
}

fn share_an_item(first: &Transaction, second: &Transaction) -> bool {
    let others = written(second);
    written(first).iter().any(|item| others.contains(item))
}

/// The value that a transaction leaves in a register.
fn last_write(transaction: &Transaction, register: &Key) -> Option<Option<i64>> {
    transaction.ops.iter().rev().find_map(|op| match op {
        Op::Write { key, value } if key == register => Some(*value),
        _ => None,
    })
}

/// The writer of the absence that a snapshot contains: the newest committed deletion in the snapshot, or 0.
fn absence_at(committed: &[&Transaction], snapshot: u64, key: &Key) -> u64 {
    let deleted = committed.iter().filter(|transaction| last_write(transaction, key) == Some(None));
    let visible = deleted.filter(|transaction| stamp(transaction.commit) <= snapshot);
    visible.max_by_key(|transaction| transaction.commit).map_or(0, |transaction| transaction.id)
}

/// Returns true if some order of the remaining transactions explains what they saw.
fn explained(
    committed: &[&Transaction],
    done: &mut Vec<usize>,
    state: &State,
    stamped: bool,
    strict: bool,
) -> bool {
    if done.len() == committed.len() {
        return true;
    }
    (0..committed.len()).filter(|next| !done.contains(next)).collect::<Vec<_>>().into_iter().any(|next| {
        let transaction = committed[next];
        let mut waiting = (0..committed.len()).filter(|other| *other != next && !done.contains(other));
        let too_early = waiting.any(|place| {
            let other = committed[place];
            let stamps = stamped && share_an_item(other, transaction) && other.commit < transaction.commit;
            let session =
                other.session == transaction.session && (other.begin, place) < (transaction.begin, next);
            stamps || strict && (session || other.end < transaction.begin)
        });
        let mut after = state.clone();
        let absence = |key: &Key| stamped.then(|| absence_at(committed, stamp(transaction.snapshot), key));
        if too_early || !replay(transaction, &mut after, &absence) {
            return false;
        }
        done.push(next);
        let found = explained(committed, done, &after, stamped, strict);
        done.pop();
        found
    })
}

/// Returns true if a transaction saw a value of a transaction with a larger commit stamp.
fn reads_the_future(committed: &[&Transaction]) -> bool {
    let writes = |transaction: &Transaction, key: &Key, value: i64| {
        transaction
            .ops
            .iter()
            .any(|op| matches!(op, Op::Write { key: other, value: Some(it) } if other == key && *it == value))
    };
    committed.iter().any(|reader| {
        let later = || committed.iter().filter(|writer| writer.commit > reader.commit);
        let mut seen: Vec<(Key, i64)> = Vec::new();
        for op in &reader.ops {
            match op {
                Op::Read { key, value: Some(value) } => seen.push((key.clone(), *value)),
                Op::Scan { rows, .. } => seen.extend(rows.iter().cloned()),
                Op::List { key, values } => {
                    let appended = |writer: &&&Transaction, value: i64| {
                        writer.ops.contains(&Op::Append { key: key.clone(), value })
                    };
                    if values.iter().any(|value| later().any(|writer| appended(&writer, *value))) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        let absent = reader.ops.iter().any(|op| match op {
            Op::Read { key, value: None } => {
                later().any(|writer| writer.id == absence_at(committed, stamp(reader.snapshot), key))
            }
            _ => false,
        });
        absent || seen.iter().any(|(key, value)| later().any(|writer| writes(writer, key, *value)))
    })
}

/// Snapshot isolation by its definition: each transaction runs on the state of its snapshot, and no two transactions
/// that overlap write the same item.
fn is_snapshot_isolated(committed: &[&Transaction]) -> bool {
    let mut order = committed.to_vec();
    order.sort_by_key(|transaction| transaction.commit);
    committed.iter().all(|transaction| {
        let snapshot = stamp(transaction.snapshot);
        let mut state = State::default();
        for before in order.iter().filter(|before| stamp(before.commit) <= snapshot) {
            let writes = before.ops.iter().filter(|op| matches!(op, Op::Write { .. } | Op::Append { .. }));
            let writer = Transaction { ops: writes.cloned().collect(), ..(*before).clone() };
            assert!(replay(&writer, &mut state, &|_| None));
        }
        let alone = order.iter().all(|other| {
            let overlaps = stamp(other.commit) > snapshot && other.commit < transaction.commit;
            !overlaps || !share_an_item(other, transaction)
        });
        alone && replay(transaction, &mut state, &|_| None)
    })
}

/// A correct history of two to four transactions, in which up to three observations or stamps are then changed.
fn tiny(seed: u64) -> History {
    let mut random = Random::new(seed);
    let shape = Shape {
        transactions: 2 + random.below(3),
        sessions: 3,
        registers: 1 + random.below(3),
        lists: random.below(2),
        ops_max: 4,
        scan_length: random.below(4),
        deletes_percent: 20,
        aborts_percent: 8,
        unknown_percent: 0,
    };
    let execution = [Execution::Serial, Execution::Strict, Execution::Snapshot][random.below(3) as usize];
    let mut history = generate(random.next_number(), &shape, execution);
    for _ in 0..random.below(4) {
        disturb(&mut history, &mut random);
    }
    history
}

fn disturb(history: &mut History, random: &mut Random) {
    let place = random.below(history.len() as u64) as usize;
    let values: Vec<i64> = history
        .transactions()
        .iter()
        .flat_map(|transaction| &transaction.ops)
        .filter_map(|op| match op {
            Op::Write { value: Some(value), .. } | Op::Append { value, .. } => Some(*value),
            _ => None,
        })
        .collect();
    let any = |random: &mut Random| values.get(random.below(values.len() as u64 + 1) as usize).copied();
    let transactions = history.transactions_mut();
    if random.percent(15) {
        // Swaps two commit stamps. Snapshots stay below them.
        let other = random.below(transactions.len() as u64) as usize;
        let (first, second) = (transactions[place].commit, transactions[other].commit);
        if let (Some(_), Some(_)) = (first, second) {
            (transactions[place].commit, transactions[other].commit) = (second, first);
            for at in [place, other] {
                let below = stamp(transactions[at].commit) - 1;
                transactions[at].snapshot = transactions[at].snapshot.map(|snapshot| snapshot.min(below));
            }
        }
        return;
    }
    let ops = &mut transactions[place].ops;
    let at = random.below(ops.len() as u64) as usize;
    match &mut ops[at] {
        Op::Read { value, .. } => *value = any(random),
        Op::List { values: seen, .. } => match random.below(3) {
            0 => drop(seen.pop()),
            1 => seen.extend(any(random)),
            _ => seen.reverse(),
        },
        Op::Scan { rows, .. } => drop(rows.pop()),
        Op::Write { .. } | Op::Append { .. } => {}
    }
}

fn committed(history: &History) -> Vec<&Transaction> {
    history.transactions().iter().filter(|transaction| transaction.status == Status::Committed).collect()
}

#[test]
fn with_stamps_the_checker_equals_brute_force() {
    // Proves, for all three models, that the graph finds exactly the histories that no serial order explains.
    let mut accepted = [0; 3];
    for seed in 0..HISTORIES {
        let history = tiny(seed);
        let committed = committed(&history);
        let future = reads_the_future(&committed);
        let serial =
            |strict| !future && explained(&committed, &mut Vec::new(), &State::default(), true, strict);
        let expected = [serial(false), serial(true), is_snapshot_isolated(&committed)];
        let models = [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation];
        for (at, model) in models.into_iter().enumerate() {
            let verdict = check(&history, model, Order::Stamps);
            assert_eq!(verdict.holds(), expected[at], "seed {seed}: {verdict}\n{history:#?}");
            accepted[at] += u64::from(expected[at]);
        }
    }
    for accepted in accepted {
        assert!(accepted > HISTORIES / 10, "too few accepted: {accepted}");
        assert!(accepted < HISTORIES * 9 / 10, "too few rejected: {accepted}");
    }
}

#[test]
fn by_values_nothing_is_invented() {
    // Proves that the checker never accuses a history that some order explains, and accuses most others.
    let (mut bad, mut found) = (0, 0);
    for seed in 0..HISTORIES {
        let history = tiny(seed);
        let committed = committed(&history);
        for (strict, model) in [(false, Model::Serializable), (true, Model::StrictSerializable)] {
            let verdict = check(&history, model, Order::Values);
            if explained(&committed, &mut Vec::new(), &State::default(), false, strict) {
                assert!(verdict.holds(), "seed {seed}: {verdict}\n{history:#?}");
            } else {
                bad += 1;
                found += u64::from(!verdict.holds());
            }
        }
    }
    assert!(found * 10 > bad * 6, "{found} of {bad} found");
    println!("{found} of {bad} found");
}
