//! Tests of the oracle: outcomes written by hand, which it must accept or reject.

use braid_history::Model;
use braid_sim::script::program::{Seen, State};
use braid_sim::script::{History, Observed, Outcome, holds, parse};

const NONE: Seen = Seen::Value(None);

fn value(value: i64) -> Seen {
    Seen::Value(Some(value))
}

fn rows(rows: &[(u32, i64)]) -> Seen {
    Seen::Rows(rows.to_vec())
}

/// Makes a transaction that was open between two times, both of which are instants. A transaction that gave up never
/// tried to commit.
fn open(from: u32, to: u32, outcome: Outcome, seen: &[Seen]) -> Observed {
    let (begins, begun, ends, ended) = (from * 10, from * 10 + 1, to * 10 - 1, to * 10);
    let ends = if outcome == Outcome::GaveUp { 0 } else { ends };
    Observed { seen: seen.to_vec(), looked: Vec::new(), outcome, begins, begun, ends, ended }
}

fn committed(from: u32, to: u32, seen: &[Seen]) -> Observed {
    open(from, to, Outcome::Committed, seen)
}

/// Returns the judgments in the order serializable, strictly serializable, snapshot.
fn judge(text: &str, transactions: Vec<Observed>, last: &[(u32, i64)]) -> [bool; 3] {
    let script = parse("by hand", text).unwrap_or_else(|error| panic!("{error}"));
    let last: State = last.iter().map(|(key, value)| ((0, *key), *value)).collect();
    let history = History { transactions, last };
    [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation]
        .map(|model| holds(model, &script, &history))
}

const INCREMENTS: &str = "row t[1] = 10\n\
    transaction a\n x = get t[1]\n put t[1] = x + 1\n commit\n\
    transaction b\n x = get t[1]\n put t[1] = x + 2\n commit";

/// Proves that a serial history is accepted, and that a wrong last state or an impossible read is not.
#[test]
fn serial_histories() {
    let a = || committed(1, 2, &[value(10), Seen::Done]);
    let b = |seen| committed(3, 4, &[value(seen), Seen::Done]);
    assert_eq!(judge(INCREMENTS, vec![a(), b(11)], &[(1, 13)]), [true; 3]);
    assert_eq!(judge(INCREMENTS, vec![a(), b(11)], &[(1, 11)]), [false; 3], "a lost write");
    assert_eq!(judge(INCREMENTS, vec![a(), b(11)], &[(1, 13), (2, 0)]), [false; 3], "a row from nowhere");
    assert_eq!(judge(INCREMENTS, vec![a(), b(12)], &[(1, 14)]), [false; 3], "a value from nowhere");
}

/// Proves that every judgment rejects a lost update, overlapping or not.
#[test]
fn lost_updates() {
    let read = [value(10), Seen::Done];
    assert_eq!(
        judge(INCREMENTS, vec![committed(1, 3, &read), committed(2, 4, &read)], &[(1, 12)]),
        [false; 3]
    );
    assert_eq!(
        judge(INCREMENTS, vec![committed(1, 2, &read), committed(3, 4, &read)], &[(1, 12)]),
        [false; 3]
    );
}

/// Proves that write skew is not serializable, and that snapshot isolation allows it for overlapping transactions.
#[test]
fn write_skew() {
    let text = "row t[1] = 1\nrow t[2] = 1\n\
        transaction a\n get t[1]\n get t[2]\n put t[1] = 0\n commit\n\
        transaction b\n get t[1]\n get t[2]\n put t[2] = 0\n commit";
    let seen = [value(1), value(1), Seen::Done];
    let last = [(1, 0), (2, 0)];
    assert_eq!(
        judge(text, vec![committed(1, 3, &seen), committed(2, 4, &seen)], &last),
        [false, false, true]
    );
    assert_eq!(judge(text, vec![committed(1, 2, &seen), committed(3, 4, &seen)], &last), [false; 3]);
}

/// Proves that a phantom, a row that appears between two scans, is rejected.
#[test]
fn phantoms() {
    let text = "transaction a\n scan t[1..9]\n scan t[1..9]\n commit\n\
        transaction b\n insert t[5] = 50\n commit";
    let insert = committed(2, 3, &[Seen::Done]);
    let scans = |first: &[_], second: &[_]| committed(1, 4, &[rows(first), rows(second)]);
    assert_eq!(judge(text, vec![scans(&[], &[(5, 50)]), insert.clone()], &[(5, 50)]), [false; 3]);
    assert_eq!(judge(text, vec![scans(&[], &[]), insert.clone()], &[(5, 50)]), [true; 3]);
    // Serializable, but not the state when the transaction began:
    assert_eq!(judge(text, vec![scans(&[(5, 50)], &[(5, 50)]), insert], &[(5, 50)]), [true, true, false]);
}

/// Proves that a stale read is serializable, but neither strictly nor a read of the newest snapshot.
#[test]
fn real_time() {
    let text = "transaction a\n put t[1] = 1\n commit\ntransaction b\n get t[1]\n commit";
    let write = committed(1, 2, &[Seen::Done]);
    assert_eq!(judge(text, vec![write.clone(), committed(3, 4, &[NONE])], &[(1, 1)]), [true, false, false]);
    assert_eq!(judge(text, vec![write.clone(), committed(3, 4, &[value(1)])], &[(1, 1)]), [true; 3]);
    assert_eq!(
        judge(text, vec![committed(3, 4, &[Seen::Done]), committed(1, 2, &[value(1)])], &[(1, 1)]),
        [true, false, false],
        "a read of what is written later"
    );
    // It begins while the other transaction commits, so it may see that commit or not.
    let committing = Observed { ends: 11, ended: 40, ..write };
    for seen in [NONE, value(1)] {
        assert_eq!(judge(text, vec![committing.clone(), committed(2, 3, &[seen])], &[(1, 1)]), [true; 3]);
    }
}

/// Proves that blind writes of one key are serializable, and that under snapshot isolation they must not overlap.
#[test]
fn first_writer_wins() {
    let text = "transaction a\n put t[1] = 1\n commit\ntransaction b\n put t[1] = 2\n commit";
    let put = [Seen::Done];
    assert_eq!(
        judge(text, vec![committed(1, 3, &put), committed(2, 4, &put)], &[(1, 2)]),
        [true, true, false]
    );
    assert_eq!(judge(text, vec![committed(1, 2, &put), committed(3, 4, &put)], &[(1, 2)]), [true; 3]);
    assert_eq!(
        judge(text, vec![committed(1, 2, &put), committed(3, 4, &put)], &[(1, 1)]),
        [true, false, false]
    );
}

/// Proves that aborted transactions have no effect, and read from a snapshot.
#[test]
fn aborted_transactions() {
    let text = "row t[1] = 1\nrow t[2] = 1\n\
        transaction a\n put t[1] = 2\n put t[2] = 2\n commit\n\
        transaction b\n get t[1]\n get t[2]\n put t[1] = 3\n commit";
    let write = |outcome| open(1, 4, outcome, &[Seen::Done, Seen::Done]);
    let read = |first, second| open(5, 6, Outcome::Conflict, &[value(first), value(second)]);
    let (old, new) = ([(1, 1), (2, 1)], [(1, 2), (2, 2)]);
    assert_eq!(judge(text, vec![write(Outcome::Committed), read(2, 2)], &new), [true; 3]);
    assert_eq!(judge(text, vec![write(Outcome::Committed), read(2, 1)], &new), [true, true, false], "torn");
    assert_eq!(judge(text, vec![write(Outcome::Conflict), read(1, 1)], &old), [true; 3]);
    assert_eq!(judge(text, vec![write(Outcome::Conflict), read(1, 1)], &new), [false; 3], "an effect");
    assert_eq!(
        judge(text, vec![write(Outcome::GaveUp), read(2, 2)], &old),
        [true, true, false],
        "a dirty read"
    );
    let both = committed(5, 6, &[value(2), value(2), Seen::Done]);
    assert_eq!(
        judge(text, vec![write(Outcome::GaveUp), both], &[(1, 3), (2, 1)]),
        [false; 3],
        "a dirty read"
    );
}

/// Proves that the read-only anomaly is not serializable, and that only all three transactions together show it.
#[test]
fn read_only_anomaly() {
    let text = "row t[1] = 0\nrow t[2] = 0\n\
        transaction deposit\n add t[2] by 20\n commit\n\
        transaction withdraw\n get t[1]\n get t[2]\n put t[1] = -11\n commit\n\
        transaction report readonly\n get t[1]\n get t[2]\n commit";
    let deposit = committed(2, 3, &[value(0), Seen::Found(true)]);
    let withdraw = committed(1, 6, &[value(0), value(0), Seen::Done]);
    let report = |outcome| open(4, 5, outcome, &[value(0), value(20)]);
    let last = [(1, -11), (2, 20)];
    let all = |outcome| vec![deposit.clone(), withdraw.clone(), report(outcome)];
    assert_eq!(judge(text, all(Outcome::Committed), &last), [false, false, true]);
    assert_eq!(judge(text, all(Outcome::GaveUp), &last), [true; 3]);
}

/// Proves that a look at the commit is judged there: in a serial order together with the transaction's reads, and under
/// snapshot isolation by the last commit before it. This also holds for a transaction whose commit fails because of the
/// look.
#[test]
fn looks_are_of_the_commit() {
    let script = |look: &str| {
        format!(
            "row t[1] = 10\ntransaction a\n x = get t[1]\n {look} t[1]\n commit\n\
            transaction b\n put t[1] = 20\n commit"
        )
    };
    let judge_looks = |look: &str, outcome, looked: &[Option<i64>]| {
        let seen = [value(10), Seen::Done];
        let a = Observed { outcome, looked: looked.to_vec(), ..open(1, 4, Outcome::Committed, &seen) };
        judge(&script(look), vec![a, committed(2, 3, &[Seen::Done])], &[(1, 20)])
    };
    let (both, committed, gave_up) = ([Some(10), Some(20)], Outcome::Committed, Outcome::GaveUp);
    assert_eq!(judge_looks("look", committed, &both[..1]), [true, true, false], "the snapshot's value");
    assert_eq!(judge_looks("look", committed, &both[1..]), [false, false, true], "the present's value");
    assert_eq!(judge_looks("look", committed, &[]), [false; 3], "a look is missing");
    assert_eq!(judge_looks("look", committed, &both), [false; 3], "a look too many");
    assert_eq!(judge_looks("look", gave_up, &both[..1]), [false, false, true], "nothing has failed");
    assert_eq!(judge_looks("refuse", gave_up, &both[..1]), [true; 3]);
    assert_eq!(judge_looks("refuse", gave_up, &both[1..]), [false, false, true], "it does not fit the read");
    assert_eq!(judge_looks("refuse", committed, &both[..1]), [false; 3], "it has failed");
}

/// Proves that all judgments reject two readers that see two writes in different orders (a long fork).
#[test]
fn long_fork() {
    let text = "transaction a\n put t[1] = 1\n commit\ntransaction b\n put t[2] = 1\n commit\n\
        transaction c\n get t[1]\n get t[2]\n commit\ntransaction d\n get t[1]\n get t[2]\n commit";
    let put = committed(1, 4, &[Seen::Done]);
    let fork = vec![
        put.clone(),
        put.clone(),
        committed(2, 5, &[value(1), NONE]),
        committed(2, 5, &[NONE, value(1)]),
    ];
    assert_eq!(judge(text, fork, &[(1, 1), (2, 1)]), [false; 3]);
    let one_way =
        vec![put.clone(), put, committed(2, 5, &[value(1), NONE]), committed(2, 5, &[value(1), value(1)])];
    assert_eq!(judge(text, one_way, &[(1, 1), (2, 1)])[..2], [true, true]);
}

/// Proves that an insert may not meet a key that its transaction does not see.
#[test]
fn unseen_keys() {
    let text = "transaction a\n insert t[1] = 1\n commit\n\
        transaction b\n get t[1]\n insert t[1] = 2\n commit";
    let insert = committed(1, 3, &[Seen::Done]);
    let meets = committed(2, 4, &[NONE, Seen::Exists]);
    assert_eq!(judge(text, vec![insert.clone(), meets], &[(1, 1)]), [false; 3]);
    let sees = committed(4, 5, &[value(1), Seen::Exists]);
    assert_eq!(judge(text, vec![insert, sees], &[(1, 1)]), [true; 3]);
}

/// Proves that a lock is a read, and that no other transaction may have written the row before the lock's holder has
/// committed. A lock that was refused, or skipped its row, says nothing.
#[test]
fn locks() {
    let text = |how: &str| {
        format!(
            "row t[1] = 1\ntransaction a\n lock t[1]{how}\n commit\ntransaction b\n put t[1] = 2\n commit"
        )
    };
    let b = |from, to| committed(from, to, &[Seen::Done]);
    let judge = |how, a, b| judge(&text(how), vec![a, b], &[(1, 2)]);
    let a = |seen: &Seen| committed(1, 4, std::slice::from_ref(seen));
    assert_eq!(judge("", a(&value(1)), b(5, 6)), [true; 3]);
    assert_eq!(judge("", a(&value(1)), b(3, 5)), [true; 3], "the lock was released first");
    assert_eq!(judge("", a(&value(1)), b(2, 3)), [true, true, false], "written under the lock");
    assert_eq!(judge("", a(&value(3)), b(2, 3)), [false; 3], "a value from nowhere");
    for how in [" nowait", " skip"] {
        assert_eq!(judge(how, a(&Seen::Refused), b(2, 3)), [true; 3], "{how}");
        assert_eq!(judge(how, a(&NONE), b(2, 3)), [false; 3], "{how}: a row that is there is not absent");
        assert_eq!(judge(how, a(&value(3)), b(2, 3)), [false; 3], "{how}: a value from nowhere");
    }
    assert_eq!(judge("", a(&NONE), b(2, 3)), [false; 3], "no lock that waits skips its row");
}

/// Proves that in a serial order an untracked read may be of any state, that under snapshot isolation it is of the
/// snapshot, and that writes that follow from it are judged.
#[test]
fn peeks() {
    let text = "row t[1] = 1\nrow t[2] = 1\n\
        transaction a\n x = peek t[1]\n put t[2] = x + 10\n commit\n\
        transaction b\n x = peek t[2]\n put t[1] = x + 10\n commit";
    let saw = |seen| [value(seen), Seen::Done];
    let skew = vec![committed(1, 3, &saw(1)), committed(2, 4, &saw(1))];
    assert_eq!(judge(text, skew.clone(), &[(1, 11), (2, 11)]), [true; 3]);
    assert_eq!(judge(text, skew, &[(1, 11), (2, 21)]), [false; 3], "it does not follow from what was read");
    let odd = vec![committed(1, 3, &saw(5)), committed(2, 4, &saw(1))];
    assert_eq!(judge(text, odd, &[(1, 11), (2, 15)]), [true, true, false], "of no snapshot");
}
