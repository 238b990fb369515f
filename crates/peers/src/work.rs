//! What transactions do, independent of any engine. A task unfolds into operations, which are the same on each attempt,
//! without allocation.

use braid_bench::distribution::{Kind, Rng, Source};
use braid_bench::workload::{self, Workload};
use braid_bench::{Failure, Result, mix};
use std::iter::Peekable;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tables of every peer. Keys and values are numbers of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The table of all workloads except TPC-B.
    Records,
    /// Balances of TPC-B's branches.
    Branches,
    /// Balances of TPC-B's tellers, 10 per branch.
    Tellers,
    /// Balances of TPC-B's accounts, 100,000 per branch.
    Accounts,
    /// Amounts in TPC-B's history.
    History,
}

impl Table {
    /// Every table, in the order of `index`.
    pub const ALL: [Table; 5] =
        [Table::Records, Table::Branches, Table::Tellers, Table::Accounts, Table::History];

    /// Returns the position in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name, for engines whose tables have names.
    pub fn name(self) -> &'static str {
        ["records", "branches", "tellers", "accounts", "history"][self.index()]
    }
}

/// Tellers per branch.
pub const TELLERS: u64 = 10;
/// Accounts per branch.
pub const ACCOUNTS: u64 = 100_000;

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Reads a record.
    Get(Table, u64),
    /// Replaces an existing record without reading it. An engine without such an operation puts.
    Update(Table, u64, u64),
    /// Reads a record, adds to its value and writes it back.
    Add(Table, u64, u64),
    /// Adds a record with a new key.
    Insert(Table, u64, u64),
    /// Reads this many records in key order, starting at a key.
    Scan(Table, u64, usize),
}

/// The work of the transactions of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Point reads, then reads followed by writes of the same record.
    Point {
        /// Reads.
        reads: usize,
        /// Reads that are followed by a write.
        rmws: usize,
    },
    /// Blind updates.
    Update(usize),
    /// One scan of this many records.
    Scan(usize),
    /// Inserts of new records.
    Insert(usize),
    /// TPC-B with this many branches.
    TpcB(u64),
    /// Explicit operations, chosen by the seed of the task, for checks.
    Script(Vec<Vec<Operation>>),
}

/// A workload over a number of records.
#[derive(Debug)]
pub struct Work {
    shape: Shape,
    source: Source,
    /// The next number that no record and no task has. It must only be unique.
    next: AtomicU64,
}

/// The parameters from which a transaction unfolds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Seed of its draws.
    pub seed: u64,
    /// The first number reserved for it, if it inserts.
    pub fresh: u64,
    /// Nanoseconds from the start of the run; 0 if its latency is not measured.
    pub started_ns: u64,
}

/// The result of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The sum of all values read, so that a read really touches its value.
    pub sum: u64,
    /// Records that should exist but were not found.
    pub missing: u64,
    /// Number of retries.
    pub retries: u64,
}

impl Outcome {
    /// Records a value that was read.
    #[inline(always)]
    pub fn saw(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.sum = self.sum.wrapping_add(value),
            None => self.missing += 1,
        }
    }
}

/// Returns the shape of a workload by its name. `branches` is used for TPC-B.
pub fn shape_of(name: &str, branches: u64) -> Result<Shape> {
    if name == "tpcb" {
        return Ok(Shape::TpcB(branches));
    }
    match Workload::parse(name, None)?.shape {
        workload::Shape::Point { reads, rmws } => Ok(Shape::Point { reads, rmws }),
        workload::Shape::Update { updates } => Ok(Shape::Update(updates)),
        workload::Shape::Scan { rows, for_each: false } => Ok(Shape::Scan(rows)),
        workload::Shape::Insert { inserts } => Ok(Shape::Insert(inserts)),
        _ => Err(Failure::new(format!(
            "no peer runs workload {name:?}: expected rN, rmwN, m, uN, sN, iN or tpcb, N a number"
        ))),
    }
}

impl Shape {
    /// Returns roughly how many records a transaction touches.
    pub fn weight(&self) -> usize {
        match self {
            Shape::Point { reads, rmws } => reads + rmws,
            Shape::Update(n) | Shape::Scan(n) | Shape::Insert(n) => *n,
            Shape::TpcB(_) => 5,
            Shape::Script(_) => 1,
        }
    }

    /// Returns true if the workload needs keys in order.
    pub fn scans(&self) -> bool {
        matches!(self, Shape::Scan(_) | Shape::Script(_))
    }

    /// Returns how much the workload changes what later workloads find, which decides their order: 0, nothing; 1,
    /// values of records; 2, the number of records.
    pub fn change(&self) -> u8 {
        match self {
            Shape::Point { rmws: 0, .. } | Shape::Scan(_) => 0,
            Shape::Point { .. } | Shape::Update(_) | Shape::TpcB(_) | Shape::Script(_) => 1,
            Shape::Insert(_) => 2,
        }
    }

    /// Returns how many numbers a task reserves.
    fn fresh(&self) -> u64 {
        match self {
            Shape::Insert(n) => *n as u64,
            Shape::TpcB(_) => 1,
            _ => 0,
        }
    }
}

impl Work {
    /// Makes work of this shape over records numbered from 0. New records are numbered from `next`.
    pub fn new(shape: Shape, records: u64, next: u64, kind: Kind, theta: f64) -> Self {
        Work { shape, source: Source::new(kind, records, theta), next: AtomicU64::new(next) }
    }

    /// Makes work of explicit transactions. A task with seed `n` runs the transaction at index `n`.
    pub fn script(transactions: Vec<Vec<Operation>>) -> Self {
        Work::new(Shape::Script(transactions), 1, 0, Kind::Uniform, 0.0)
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the first number that no record has.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed) // it is only a number
    }

    /// Makes a task with this seed.
    #[inline(always)]
    pub fn task(&self, seed: u64, started_ns: u64) -> Task {
        let fresh = match self.shape.fresh() {
            0 => 0,
            n => self.next.fetch_add(n, Ordering::Relaxed), // the numbers must only be unique
        };
        Task { seed, fresh, started_ns }
    }

    /// Returns true if the task's transaction only reads.
    #[inline(always)]
    pub fn only_reads(&self, task: &Task) -> bool {
        match &self.shape {
            Shape::Point { rmws, .. } => *rmws == 0,
            Shape::Scan(_) => true,
            Shape::Update(_) | Shape::Insert(_) | Shape::TpcB(_) => false,
            Shape::Script(transactions) => transactions[task.seed as usize]
                .iter()
                .all(|operation| matches!(operation, Operation::Get(..) | Operation::Scan(..))),
        }
    }

    /// Returns true if the task's transaction is one operation, which needs no begin and commit.
    #[inline(always)]
    pub fn is_single(&self, task: &Task) -> bool {
        match &self.shape {
            Shape::Point { reads, rmws } => reads + rmws == 1,
            Shape::Update(n) | Shape::Insert(n) => *n == 1,
            Shape::Scan(_) => true,
            Shape::TpcB(_) => false,
            Shape::Script(transactions) => transactions[task.seed as usize].len() == 1,
        }
    }

    /// Returns the operations of a task, the same on each call.
    #[inline(always)]
    pub fn operations(&self, task: &Task) -> Operations<'_> {
        let mut operations =
            Operations { work: self, rng: Rng::new(task.seed), task: *task, at: 0, tpcb: TpcB::default() };
        if let Shape::TpcB(branches) = self.shape {
            operations.tpcb = TpcB::draw(&mut operations.rng, branches);
        }
        operations
    }

    #[inline(always)]
    fn draw(&self, rng: &mut Rng) -> u64 {
        mix(self.source.number(rng, 0))
    }
}

/// The operations of one task.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    work: &'a Work,
    rng: Rng,
    task: Task,
    at: usize,
    tpcb: TpcB,
}

impl Iterator for Operations<'_> {
    type Item = Operation;

    #[inline(always)]
    fn next(&mut self) -> Option<Operation> {
        // Values are small, so that sums stay within signed numbers, which some engines have.
        let (at, seed) = (self.at, self.task.seed);
        let value = seed >> 32;
        self.at += 1;
        match &self.work.shape {
            Shape::Point { reads, .. } if at < *reads => {
                Some(Operation::Get(Table::Records, self.work.draw(&mut self.rng)))
            }
            Shape::Point { reads, rmws } if at < reads + rmws => {
                Some(Operation::Add(Table::Records, self.work.draw(&mut self.rng), value))
            }
            Shape::Update(updates) if at < *updates => {
                Some(Operation::Update(Table::Records, self.work.draw(&mut self.rng), value))
            }
            Shape::Scan(rows) if at == 0 => {
                Some(Operation::Scan(Table::Records, self.work.draw(&mut self.rng), *rows))
            }
            Shape::Insert(inserts) if at < *inserts => {
                Some(Operation::Insert(Table::Records, mix(self.task.fresh + at as u64), value))
            }
            Shape::TpcB(_) => self.tpcb.operation(at, self.task.fresh),
            Shape::Script(transactions) => transactions[seed as usize].get(at).copied(),
            _ => None,
        }
    }
}

/// After a read of `key`, returns this key and those of the reads of the same table that follow immediately.
pub fn gets_in_a_row(
    operations: &mut Peekable<Operations<'_>>,
    (table, key): (Table, u64),
    mut found: impl FnMut(u64),
) {
    found(key);
    while let Some(Operation::Get(_, key)) =
        operations.next_if(|next| matches!(next, Operation::Get(other, _) if *other == table))
    {
        found(key);
    }
}

/// The amount of one TPC-B transaction, and its account, teller and branch.
#[derive(Clone, Copy, Debug, Default)]
struct TpcB {
    branch: u64,
    teller: u64,
    account: u64,
    delta: u64,
}

impl TpcB {
    /// Draws as the standard does: a teller, and an account, which is of the teller's branch in 85 of 100 cases.
    fn draw(rng: &mut Rng, branches: u64) -> Self {
        let teller = rng.below(branches * TELLERS);
        let branch = teller / TELLERS;
        let account = if branches == 1 || rng.below(100) < 85 {
            branch * ACCOUNTS + rng.below(ACCOUNTS)
        } else {
            // One of the other branches: numbers from `branch` on move up by one.
            let other = rng.below(branches - 1);
            (other + u64::from(other >= branch)) * ACCOUNTS + rng.below(ACCOUNTS)
        };
        let delta = rng.below(1_999_999).wrapping_sub(999_999);
        TpcB { branch, teller, account, delta }
    }

    fn operation(&self, at: usize, fresh: u64) -> Option<Operation> {
        match at {
            0 => Some(Operation::Add(Table::Accounts, self.account, self.delta)),
            1 => Some(Operation::Get(Table::Accounts, self.account)),
            2 => Some(Operation::Add(Table::Tellers, self.teller, self.delta)),
            3 => Some(Operation::Add(Table::Branches, self.branch, self.delta)),
            4 => Some(Operation::Insert(Table::History, fresh, self.delta)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str) -> Work {
        Work::new(shape_of(name, 3).unwrap(), 1000, 1000, Kind::Uniform, 0.0)
    }

    #[test]
    fn a_task_unfolds_alike_each_time() {
        // Proves that a retry repeats the first attempt, for every shape, and that lengths match the names.
        for (name, length) in
            [("r1", 1), ("r10", 10), ("m", 10), ("u10", 10), ("s100", 1), ("i", 1), ("tpcb", 5)]
        {
            let work = work(name);
            let task = work.task(7, 0);
            let once: Vec<Operation> = work.operations(&task).collect();
            assert_eq!(once.len(), length, "{name}");
            assert!(once.iter().copied().eq(work.operations(&task)), "{name}");
            assert_eq!(work.is_single(&task), length == 1, "{name}");
        }
    }

    #[test]
    fn tasks_that_insert_have_numbers_of_their_own() {
        // Proves that no two inserts have the same key.
        let work = work("i");
        let keys: Vec<Operation> =
            (0..100).flat_map(|seed| work.operations(&work.task(seed, 0)).collect::<Vec<_>>()).collect();
        let mut keys: Vec<u64> = keys
            .iter()
            .map(|operation| match operation {
                Operation::Insert(Table::Records, key, _) => *key,
                other => panic!("{other:?} is no insert"),
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100);
        assert_eq!(work.next(), 1100);
    }

    #[test]
    fn tpcb_moves_the_same_amount_everywhere() {
        // Proves that a transaction's account, teller and branch are within the scale, and that its teller belongs to
        // its branch.
        let work = work("tpcb");
        for seed in 0..1000 {
            let operations: Vec<Operation> = work.operations(&work.task(seed, 0)).collect();
            let [
                Operation::Add(Table::Accounts, account, a),
                Operation::Get(Table::Accounts, again),
                Operation::Add(Table::Tellers, teller, t),
                Operation::Add(Table::Branches, branch, b),
                Operation::Insert(Table::History, _, h),
            ] = operations[..]
            else {
                panic!("not TPC-B: {operations:?}")
            };
            assert!(account < 3 * ACCOUNTS && branch < 3);
            assert_eq!((again, teller / TELLERS), (account, branch));
            assert!(a == t && t == b && b == h);
        }
    }

    #[test]
    fn other_workloads_are_refused() {
        // Proves that a workload that is not supported here is an error, and that no other workload runs instead.
        for name in ["a", "e", "probe", "x", "r0"] {
            assert!(shape_of(name, 1).is_err(), "{name}");
        }
    }
}
