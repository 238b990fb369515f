//! A small edit plants one anomaly of each class into correct histories. The checker must find it and name its class.

use braid_history::generate::{Execution, Random, Shape, generate};
use braid_history::{Class, History, Key, Model, Op, Order, Status, Transaction, check};

const SEEDS: u64 = 1_000;
const SERIALIZABLE: Model = Model::Serializable;
const STRICT: Model = Model::StrictSerializable;
const SNAPSHOT: Model = Model::SnapshotIsolation;
const BOTH: &[Order] = &[Order::Stamps, Order::Values];
const STAMPS: &[Order] = &[Order::Stamps];
const ALL: &[Model] = &[SERIALIZABLE, STRICT, SNAPSHOT];

/// The distance between two stamps or times of the history. It leaves room for the planted transactions.
const GAP: u64 = 1_000;

/// A correct history, and the transactions that are added to it.
struct Bed {
    base: History,
    /// A stamp and a time within the history. The stamps and times of the planted transactions count from here.
    stamp: u64,
    time: u64,
    added: Vec<Transaction>,
}

impl Bed {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let shape = Shape { transactions: 5 + random.below(25), ..Shape::default() };
        let mut base = generate(seed, &shape, Execution::Strict);
        for transaction in base.transactions_mut() {
            for number in [
                &mut transaction.begin,
                &mut transaction.end,
                &mut transaction.snapshot,
                &mut transaction.commit,
            ] {
                *number = number.map(|number| number * GAP);
            }
        }
        let (stamp, time) = (random.below(shape.transactions) * GAP, random.below(90) * GAP);
        Self { base, stamp, time, added: Vec::new() }
    }

    /// Adds a committed transaction. It sees all transactions that were added before it, and is concurrent with them.
    fn add(&mut self, ops: Vec<Op>) {
        let number = self.added.len() as u64;
        let mut transaction = Transaction::new(1_000_000 + number, 1_000 + number);
        transaction.begin = Some(self.time + 1 + number);
        transaction.end = Some(self.time + 100 + number);
        transaction.snapshot = Some(self.stamp + 10 * number + 5);
        transaction.commit = Some(self.stamp + 10 * number + 10);
        transaction.ops = ops;
        self.added.push(transaction);
    }

    /// Makes an added transaction begin after all earlier added transactions ended.
    fn later(&mut self, number: usize) {
        self.added[number].begin = Some(self.time + 300);
        self.added[number].end = Some(self.time + 400);
    }

    /// Gives an added transaction a snapshot that contains only the first `seen` of the added transactions.
    fn snapshot(&mut self, number: usize, seen: u64) {
        self.added[number].snapshot = Some(self.stamp + 10 * seen + 5);
    }

    fn history(&self, seed: u64) -> History {
        let mut all = self.base.transactions().to_vec();
        let at = Random::new(seed).below(all.len() as u64) as usize;
        all.splice(at..at, self.added.iter().cloned());
        all.into_iter().collect()
    }
}

const A: u64 = 100_000;
const B: u64 = 100_100;
const C: u64 = 100_200;

fn read(key: u64, value: impl Into<Option<i64>>) -> Op {
    Op::Read { key: key.into(), value: value.into() }
}

fn write(key: u64, value: i64) -> Op {
    Op::Write { key: key.into(), value: Some(value) }
}

fn append(key: u64, value: i64) -> Op {
    Op::Append { key: key.into(), value }
}

fn list(key: u64, values: &[i64]) -> Op {
    Op::List { key: key.into(), values: values.to_vec() }
}

/// Checks one plant over all seeds. The history is correct before the edit. After the edit, the models `fails` find
/// the anomaly, the models `holds` accept the history, and only planted transactions are accused.
fn check_plant(
    class: Class,
    orders: &[Order],
    fails: &[Model],
    holds: &[Model],
    plant: fn(&mut Bed),
    edit: fn(&mut Bed),
) {
    for seed in 0..SEEDS {
        let mut bed = Bed::new(seed);
        plant(&mut bed);
        for (order, model) in orders.iter().flat_map(|order| ALL.iter().map(move |model| (order, model))) {
            let verdict = check(&bed.history(seed), *model, *order);
            assert!(verdict.holds(), "{class:?}, seed {seed}, before the edit: {verdict}");
        }
        edit(&mut bed);
        let history = bed.history(seed);
        for order in orders {
            for model in fails {
                let verdict = check(&history, *model, *order);
                assert!(verdict.has(class), "{class:?}, seed {seed}: {verdict}");
                let mut accused = verdict.anomalies.iter().flat_map(|anomaly| &anomaly.transactions);
                assert!(accused.all(|id| *id >= 1_000_000), "{class:?}, seed {seed}: {verdict}");
            }
            for model in holds {
                let verdict = check(&history, *model, *order);
                assert!(verdict.holds(), "{class:?}, seed {seed}: {verdict}");
            }
        }
    }
}

#[test]
fn write_cycles() {
    // Proves that lists that contradict each other on the order of two writers are G0.
    let plant = |bed: &mut Bed| {
        bed.add(vec![append(A, 1), append(B, 3)]);
        bed.add(vec![append(A, 2), append(B, 4)]);
        bed.add(vec![list(A, &[1, 2]), list(B, &[3, 4])]);
    };
    check_plant(Class::G0, BOTH, ALL, &[], plant, |bed| bed.added[2].ops[1] = list(B, &[4, 3]));
}

#[test]
fn aborted_reads() {
    // Proves that a value of an aborted transaction is G1a, in a register and in a list.
    let registers = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1)]);
    };
    let lists = |bed: &mut Bed| {
        bed.add(vec![append(A, 1)]);
        bed.add(vec![list(A, &[1])]);
    };
    for plant in [registers, lists] {
        check_plant(Class::G1a, BOTH, ALL, &[], plant, |bed| bed.added[0].status = Status::Aborted);
    }
}

#[test]
fn intermediate_reads() {
    // Proves that a value that its writer replaced later is G1b, in a register and in a list.
    let registers = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1)]);
    };
    check_plant(Class::G1b, BOTH, ALL, &[], registers, |bed| bed.added[0].push(write(A, 2)));
    let lists = |bed: &mut Bed| {
        bed.add(vec![append(A, 1), append(A, 2)]);
        bed.add(vec![list(A, &[1, 2])]);
        bed.add(vec![list(A, &[1, 2])]);
    };
    check_plant(Class::G1b, BOTH, ALL, &[], lists, |bed| bed.added[1].ops[0] = list(A, &[1]));
}

#[test]
fn circular_information_flow() {
    // Proves that two transactions that read each other's writes are G1c.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1), read(B, None)]);
        bed.add(vec![read(A, 1), write(B, 2)]);
    };
    check_plant(Class::G1c, BOTH, ALL, &[], plant, |bed| bed.added[0].ops[1] = read(B, 2));
}

#[test]
fn read_skew() {
    // Proves that a transaction that sees half of another transaction's update is G-single.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1), write(B, 2)]);
        bed.add(vec![read(A, 1), read(B, 2)]);
        bed.add(vec![read(A, 1), read(B, 2), write(A, 3), write(B, 4)]);
    };
    check_plant(Class::GSingle, BOTH, ALL, &[], plant, |bed| bed.added[1].ops[1] = read(B, 4));
}

#[test]
fn long_forks() {
    // Proves that two readers that contradict each other on which of two writes came first fail snapshot isolation too.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), read(B, None)]);
        bed.add(vec![write(B, 2)]);
        bed.add(vec![read(A, 1), read(B, 2)]);
    };
    let edit = |bed: &mut Bed| bed.added[3].ops[0] = read(A, None);
    check_plant(Class::GNonadjacent, BOTH, &[SNAPSHOT], &[], plant, edit);
    check_plant(Class::G2Item, BOTH, &[SERIALIZABLE, STRICT], &[], plant, edit);
}

#[test]
fn write_skew() {
    // Proves that write skew fails serializability and passes snapshot isolation.
    let plant = |bed: &mut Bed| {
        bed.add(vec![read(A, None), read(B, None), write(A, 1)]);
        bed.add(vec![read(A, 1), read(B, None), write(B, 2)]);
    };
    check_plant(Class::WriteSkew, BOTH, &[SERIALIZABLE, STRICT], &[SNAPSHOT], plant, |bed| {
        bed.added[1].ops[0] = read(A, None);
        bed.snapshot(1, 0);
    });
}

#[test]
fn rings_of_three() {
    // Proves that a ring of three anti-dependencies is G2-item, which snapshot isolation allows.
    let plant = |bed: &mut Bed| {
        bed.add(vec![read(B, None), write(C, 1)]);
        bed.add(vec![read(A, None), write(B, 2)]);
        bed.add(vec![read(C, 1), write(A, 3)]);
    };
    check_plant(Class::G2Item, BOTH, &[SERIALIZABLE, STRICT], &[SNAPSHOT], plant, |bed| {
        bed.added[2].ops[0] = read(C, None);
        bed.snapshot(2, 0);
    });
}

#[test]
fn phantoms() {
    // Proves that a row missing from a range is an anti-dependency, and that the cycle through it is G2.
    let plant = |bed: &mut Bed| {
        let rows = Vec::new();
        bed.add(vec![Op::Scan { from: A.into(), to: Key::Number(A + 9), rows }, write(B, 1)]);
        bed.add(vec![read(B, 1), write(A + 3, 2)]);
    };
    check_plant(Class::G2, BOTH, &[SERIALIZABLE, STRICT], &[SNAPSHOT], plant, |bed| {
        bed.added[1].ops[0] = read(B, None);
        bed.snapshot(1, 0);
    });
}

#[test]
fn lost_updates() {
    // Proves that two updates of one version are a lost update, of a register and of a list.
    let registers = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), write(A, 2)]);
        bed.add(vec![read(A, 2), write(A, 3)]);
    };
    check_plant(Class::LostUpdate, BOTH, ALL, &[], registers, |bed| bed.added[2].ops[0] = read(A, 1));
    let lists = |bed: &mut Bed| {
        bed.add(vec![list(A, &[]), append(A, 1)]);
        bed.add(vec![list(A, &[1]), append(A, 2)]);
        bed.add(vec![list(A, &[1, 2])]);
    };
    check_plant(Class::LostUpdate, BOTH, ALL, &[], lists, |bed| bed.added[1].ops[0] = list(A, &[]));
}

#[test]
fn stale_reads() {
    // Proves that a read of an old version violates only real time or the session's order.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), write(A, 2)]);
        bed.add(vec![read(A, 2)]);
        bed.later(2);
    };
    let edit = |bed: &mut Bed| {
        bed.added[2].ops[0] = read(A, 1);
        bed.snapshot(2, 1);
    };
    check_plant(Class::RealTimeViolation, BOTH, &[STRICT], &[SERIALIZABLE, SNAPSHOT], plant, edit);
    let one_session = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), write(A, 2)]);
        bed.add(vec![read(A, 2)]);
        bed.added[2].session = bed.added[1].session;
    };
    check_plant(Class::SessionViolation, BOTH, &[STRICT], &[SERIALIZABLE, SNAPSHOT], one_session, edit);
}

#[test]
fn lost_writes() {
    // Proves that an acknowledged append is lost if no later read contains it.
    let plant = |bed: &mut Bed| {
        bed.add(vec![append(A, 1)]);
        bed.add(vec![list(A, &[1])]);
        bed.later(1);
    };
    check_plant(Class::LostWrite, BOTH, &[STRICT], &[SERIALIZABLE, SNAPSHOT], plant, |bed| {
        bed.added[1].ops[0] = list(A, &[]);
        bed.snapshot(1, 0);
        bed.added[1].snapshot = Some(bed.stamp + 1);
    });
    let middle = |bed: &mut Bed| {
        bed.add(vec![append(A, 1)]);
        bed.add(vec![append(A, 2)]);
        bed.add(vec![list(A, &[1, 2])]);
    };
    let part = |bed: &mut Bed| {
        bed.add(vec![append(A, 1), append(A, 2)]);
        bed.add(vec![list(A, &[1, 2])]);
    };
    check_plant(Class::LostWrite, BOTH, ALL, &[], part, |bed| bed.added[1].ops[0] = list(A, &[2]));
    check_plant(Class::LostWrite, STAMPS, ALL, &[], middle, |bed| bed.added[2].ops[0] = list(A, &[2]));
}

#[test]
fn what_a_single_transaction_shows() {
    // Proves the classes that need no cycle: duplicates, garbage, own writes, repeated reads, orders.
    let two = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), read(A, 1), write(A, 2), read(A, 2)]);
    };
    check_plant(Class::Duplicate, BOTH, ALL, &[], two, |bed| {
        bed.added[1].ops[2] = write(A, 1);
        bed.added[1].ops[3] = read(A, 1);
    });
    check_plant(Class::NonRepeatableRead, BOTH, ALL, &[], two, |bed| bed.added[1].ops[1] = read(A, None));
    check_plant(Class::OwnWrite, BOTH, ALL, &[], two, |bed| bed.added[1].ops[3] = read(A, 1));
    check_plant(Class::GarbageRead, BOTH, ALL, &[], two, |bed| {
        bed.added[1].ops[0] = read(A, 9);
        bed.added[1].ops[1] = read(A, 9);
    });
    let lists = |bed: &mut Bed| {
        bed.add(vec![append(A, 1)]);
        bed.add(vec![list(A, &[1])]);
        bed.add(vec![append(A, 2)]);
        bed.add(vec![list(A, &[1, 2])]);
    };
    check_plant(Class::Duplicate, BOTH, ALL, &[], lists, |bed| bed.added[3].ops[0] = list(A, &[1, 1]));
    check_plant(Class::GarbageRead, BOTH, ALL, &[], lists, |bed| bed.added[3].ops[0] = list(A, &[1, 2, 9]));
    check_plant(Class::IncompatibleOrder, BOTH, ALL, &[], lists, |bed| bed.added[1].ops[0] = list(A, &[2]));
}

#[test]
fn unknown_outcomes() {
    // Proves that a transaction of unknown outcome counts once a chain of such transactions, which ends in a committed
    // one, saw its writes. Before that, the transaction is not judged.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), write(B, 2)]);
        bed.add(vec![read(B, 2), write(C, 3)]);
        bed.add(vec![read(C, 3)]);
        bed.added[1].status = Status::Unknown;
        bed.added[2].status = Status::Unknown;
    };
    check_plant(Class::GarbageRead, BOTH, ALL, &[], plant, |bed| bed.added[1].ops[0] = read(A, 9));
    check_plant(Class::GarbageRead, BOTH, &[], ALL, plant, |bed| {
        bed.added[1].ops[0] = read(A, 9);
        bed.added[3].ops.clear();
    });
}

#[test]
fn stamps_that_lie() {
    // Proves that stamps are compared with what was seen, and snapshots with what must be seen.
    let plant = |bed: &mut Bed| {
        bed.add(vec![write(A, 1)]);
        bed.add(vec![read(A, 1), write(B, 2)]);
        bed.add(vec![write(B, 3)]);
    };
    check_plant(Class::StampMismatch, STAMPS, ALL, &[], plant, |bed| {
        bed.added[0].commit = Some(bed.stamp + 900);
    });
    let edit = |bed: &mut Bed| bed.added[1].snapshot = Some(bed.stamp + 1);
    check_plant(Class::SnapshotMismatch, STAMPS, &[SNAPSHOT], &[SERIALIZABLE, STRICT], plant, edit);
    let edit = |bed: &mut Bed| bed.added[2].snapshot = Some(bed.stamp + 1);
    check_plant(Class::Interference, STAMPS, &[SNAPSHOT], &[SERIALIZABLE, STRICT], plant, edit);
}
