//! What transactions do, apart from any engine: a task unfolds into operations, the same ones whenever it is tried
//! again, and nothing is allocated for it.

use braid_bench::distribution::{Kind, Rng, Source};
use braid_bench::workload::{self, Workload};
use braid_bench::{Failure, Result, mix};
use std::iter::Peekable;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tables that every peer has. Keys and values are numbers of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// What all workloads but TPC-B work on.
    Records,
    /// TPC-B's branches: their balances.
    Branches,
    /// TPC-B's tellers, 10 to a branch.
    Tellers,
    /// TPC-B's accounts, 100,000 to a branch.
    Accounts,
    /// TPC-B's history: what was moved.
    History,
}

impl Table {
    /// Every table, in the order of `index`.
    pub const ALL: [Table; 5] =
        [Table::Records, Table::Branches, Table::Tellers, Table::Accounts, Table::History];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name, where tables have names.
    pub fn name(self) -> &'static str {
        ["records", "branches", "tellers", "accounts", "history"][self.index()]
    }
}

/// Tellers of a branch.
pub const TELLERS: u64 = 10;
/// Accounts of a branch.
pub const ACCOUNTS: u64 = 100_000;

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Reads a record.
    Get(Table, u64),
    /// Replaces a record that is there, without reading it. (An engine without such an operation puts.)
    Update(Table, u64, u64),
    /// Reads a record, adds to its value and writes it back.
    Add(Table, u64, u64),
    /// Adds a record under a key that has none.
    Insert(Table, u64, u64),
    /// Reads so many records in the order of keys, from a key on.
    Scan(Table, u64, usize),
}

/// What the transactions of a workload do.
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
    /// One scan of so many records.
    Scan(usize),
    /// Inserts of new records.
    Insert(usize),
    /// TPC-B with so many branches.
    TpcB(u64),
    /// Operations spelled out, by the seed of the task: for checks.
    Script(Vec<Vec<Operation>>),
}

/// A workload over so many records.
#[derive(Debug)]
pub struct Work {
    shape: Shape,
    source: Source,
    /// The next number that no record and no task has; only uniqueness is asked for.
    next: AtomicU64,
}

/// One transaction to be: what it needs to unfold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Of its draws.
    pub seed: u64,
    /// The first of the numbers that are its own, if it inserts.
    pub fresh: u64,
    /// Nanoseconds from the start of the run; 0: its latency is not measured.
    pub started_ns: u64,
}

/// What a transaction has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// All values read, added up: reading them is what makes a read real.
    pub sum: u64,
    /// Records that should have been there and were not.
    pub missing: u64,
    /// How often it was begun again.
    pub retries: u64,
}

impl Outcome {
    /// Takes note of a value.
    #[inline(always)]
    pub fn saw(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.sum = self.sum.wrapping_add(value),
            None => self.missing += 1,
        }
    }
}

/// The shape behind a workload's name; `branches` is for TPC-B.
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
    /// Roughly how many records a transaction touches.
    pub fn weight(&self) -> usize {
        match self {
            Shape::Point { reads, rmws } => reads + rmws,
            Shape::Update(n) | Shape::Scan(n) | Shape::Insert(n) => *n,
            Shape::TpcB(_) => 5,
            Shape::Script(_) => 1,
        }
    }

    /// True where the order of keys is needed.
    pub fn scans(&self) -> bool {
        matches!(self, Shape::Scan(_) | Shape::Script(_))
    }

    /// How much it changes what the others find, for the order in which they run: 0, nothing; 1, what records hold;
    /// 2, how many there are.
    pub fn change(&self) -> u8 {
        match self {
            Shape::Point { rmws: 0, .. } | Shape::Scan(_) => 0,
            Shape::Point { .. } | Shape::Update(_) | Shape::TpcB(_) | Shape::Script(_) => 1,
            Shape::Insert(_) => 2,
        }
    }

    /// Numbers that a task needs for itself.
    fn fresh(&self) -> u64 {
        match self {
            Shape::Insert(n) => *n as u64,
            Shape::TpcB(_) => 1,
            _ => 0,
        }
    }
}

impl Work {
    /// Work of this shape over records numbered from 0; new ones are numbered from `next`.
    pub fn new(shape: Shape, records: u64, next: u64, kind: Kind, theta: f64) -> Self {
        Work { shape, source: Source::new(kind, records, theta), next: AtomicU64::new(next) }
    }

    /// Transactions spelled out: the one of seed `n` does what is in place `n`.
    pub fn script(transactions: Vec<Vec<Operation>>) -> Self {
        Work::new(Shape::Script(transactions), 1, 0, Kind::Uniform, 0.0)
    }

    /// What its transactions do.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The first number that no record has.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed) // only a number
    }

    /// A task of this seed.
    #[inline(always)]
    pub fn task(&self, seed: u64, started_ns: u64) -> Task {
        let fresh = match self.shape.fresh() {
            0 => 0,
            n => self.next.fetch_add(n, Ordering::Relaxed), // only uniqueness is asked for
        };
        Task { seed, fresh, started_ns }
    }

    /// True if the task's transaction only reads.
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

    /// True if the task's transaction is one operation: then it needs no bracket around it.
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

    /// The operations of a task, the same ones each time.
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
        // Values are small, so that additions to them stay within signed numbers, which some engines have.
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

/// After a read of `key`: its key, and those of the reads of the same table that follow at once.
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

/// What one transaction of TPC-B moves, and where.
#[derive(Clone, Copy, Debug, Default)]
struct TpcB {
    branch: u64,
    teller: u64,
    account: u64,
    delta: u64,
}

impl TpcB {
    /// As the standard draws: a teller, and of 100 accounts 85 of the teller's branch.
    fn draw(rng: &mut Rng, branches: u64) -> Self {
        let teller = rng.below(branches * TELLERS);
        let branch = teller / TELLERS;
        let account = if branches == 1 || rng.below(100) < 85 {
            branch * ACCOUNTS + rng.below(ACCOUNTS)
        } else {
            // One of the others: those from the branch on move up by one.
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
        // Proves that a retry does what the first try did, for every shape, and that lengths are as named.
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
        // Proves that a transaction's account, teller and branch belong to the scale, and its teller to its branch.
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
        // Proves that a workload without a form here is an error and not something else run in its place.
        for name in ["a", "e", "probe", "x", "r0"] {
            assert!(shape_of(name, 1).is_err(), "{name}");
        }
    }
}
