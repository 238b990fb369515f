//! Makes correct histories by seed: what a faultless store would have answered. The tests plant anomalies in them, and
//! an example measures the checker with such a history.

use crate::model::{History, Key, Op, Status, Transaction};

/// How the simulated store executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// One transaction after another. The times say nothing about that order.
    Serial,
    /// Each transaction runs at one moment between its begin and its end.
    Strict,
    /// Snapshot isolation: reads see the snapshot taken at begin, and the first committer wins.
    Snapshot,
}

/// The size and mix of a history.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The number of transactions.
    pub transactions: u64,
    /// The number of clients, each with one transaction at a time.
    pub sessions: usize,
    /// The number of registers, with keys from 0.
    pub registers: u64,
    /// The number of lists. Their keys follow the keys of the registers.
    pub lists: u64,
    /// The most operations in a transaction; the fewest is 1.
    pub ops_max: u64,
    /// The number of registers that a scan covers. 0: no scans.
    pub scan_length: u64,
    /// The percentage of writes of registers that delete.
    pub deletes_percent: u64,
    /// The percentage of transactions that abort of their own accord.
    pub aborts_percent: u64,
    /// The percentage of transactions whose answer is lost.
    pub unknown_percent: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            transactions: 40,
            sessions: 4,
            registers: 8,
            lists: 3,
            ops_max: 6,
            scan_length: 4,
            deletes_percent: 10,
            aborts_percent: 5,
            unknown_percent: 3,
        }
    }
}

/// Numbers by seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator that always gives the same numbers for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which is above 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0);
        self.next_number() % limit
    }

    /// Returns true in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Makes a correct history.
pub fn generate(seed: u64, shape: &Shape, execution: Execution) -> History {
    let mut store = Store::new(seed, shape, execution);
    let mut open: Vec<Option<Open>> = (0..shape.sessions.max(1)).map(|_| None).collect();
    let mut history = History::new();
    let mut begun = 0;
    while history.len() < shape.transactions as usize {
        let session = store.random.below(open.len() as u64) as usize;
        store.time += 1;
        match &mut open[session] {
            None if begun < shape.transactions => {
                begun += 1;
                open[session] = Some(store.begin(begun, session as u64));
            }
            None => {}
            Some(txn) if !txn.executed => store.execute(txn),
            Some(_) => {
                if let Some(txn) = open[session].take() {
                    history.push(store.end(txn));
                }
            }
        }
    }
    if execution == Execution::Serial {
        forget_times(&mut history, &mut store.random);
    }
    history
}

/// Replaces the times by times that say nothing about the order of execution, as if each client had its own clock.
fn forget_times(history: &mut History, random: &mut Random) {
    let span = 4 * history.len() as u64;
    for transaction in history.transactions_mut() {
        let begin = random.below(span.max(1));
        transaction.session = random.below(4);
        transaction.begin = Some(begin);
        transaction.end = Some(begin + random.below(10));
    }
}

struct Open {
    transaction: Transaction,
    snapshot: u64,
    executed: bool,
    commits: bool,
}

/// A multi-version store. Each item has the commit stamp and the value of each of its versions.
struct Store<'s> {
    shape: &'s Shape,
    execution: Execution,
    random: Random,
    registers: Vec<Vec<(u64, Option<i64>)>>,
    lists: Vec<Vec<(u64, i64)>>,
    time: u64,
    clock: u64,
    value: i64,
}

impl<'s> Store<'s> {
    fn new(seed: u64, shape: &'s Shape, execution: Execution) -> Self {
        Self {
            shape,
            execution,
            random: Random::new(seed),
            registers: vec![Vec::new(); shape.registers as usize],
            lists: vec![Vec::new(); shape.lists as usize],
            time: 0,
            clock: 0,
            value: 0,
        }
    }

    fn begin(&mut self, id: u64, session: u64) -> Open {
        let mut transaction = Transaction::new(id, session);
        transaction.begin = Some(self.time);
        Open { transaction, snapshot: self.clock, executed: false, commits: false }
    }

    /// Runs all operations, and commits if it can.
    fn execute(&mut self, txn: &mut Open) {
        txn.executed = true;
        if self.execution != Execution::Snapshot {
            txn.snapshot = self.clock;
        }
        for _ in 0..=self.random.below(self.shape.ops_max.max(1)) {
            self.operate(txn);
        }
        let conflict = txn.transaction.ops.iter().any(|op| self.is_newer(op, txn.snapshot));
        txn.commits = !conflict && !self.random.percent(self.shape.aborts_percent);
        txn.transaction.snapshot = Some(txn.snapshot);
        if txn.commits {
            self.clock += 1;
            txn.transaction.commit = Some(self.clock);
            self.install(&txn.transaction.ops);
        }
    }

    fn end(&mut self, txn: Open) -> Transaction {
        let mut transaction = txn.transaction;
        transaction.end = Some(self.time);
        transaction.status = if self.random.percent(self.shape.unknown_percent) {
            Status::Unknown
        } else if txn.commits {
            Status::Committed
        } else {
            Status::Aborted
        };
        transaction
    }

    fn operate(&mut self, txn: &mut Open) {
        let choice = self.random.below(100);
        if self.shape.lists > 0 && (choice < 25 || self.shape.registers == 0) {
            let list = self.random.below(self.shape.lists);
            let key = Key::Number(self.shape.registers + list);
            if self.random.percent(50) {
                self.value += 1;
                txn.transaction.push(Op::Append { key, value: self.value });
            } else {
                let values = self.list(&key, list as usize, txn);
                txn.transaction.push(Op::List { key, values });
            }
            return;
        }
        if self.shape.registers == 0 {
            return;
        }
        let register = self.random.below(self.shape.registers);
        let key = Key::Number(register);
        if choice < 40 && self.shape.scan_length > 0 {
            let last = register.saturating_add(self.shape.scan_length - 1);
            let all = register..=last.min(self.shape.registers - 1);
            let seen = |number: u64| Some((Key::Number(number), self.register(number, txn)?));
            let rows = all.filter_map(seen).collect();
            txn.transaction.push(Op::Scan { from: key, to: Key::Number(last), rows });
        } else if choice < 70 {
            let value = self.register(register, txn);
            txn.transaction.push(Op::Read { key, value });
        } else {
            if self.random.percent(60) {
                let value = self.register(register, txn);
                txn.transaction.push(Op::Read { key: key.clone(), value });
            }
            self.value += 1;
            let deletes = self.random.percent(self.shape.deletes_percent);
            txn.transaction.push(Op::Write { key, value: (!deletes).then_some(self.value) });
        }
    }

    /// The value of a register that a transaction sees: its own, or the value in its snapshot.
    fn register(&self, register: u64, txn: &Open) -> Option<i64> {
        let own = txn.transaction.ops.iter().rev().find_map(|op| match op {
            Op::Write { key: Key::Number(key), value } if *key == register => Some(*value),
            _ => None,
        });
        let versions = self.registers[register as usize].iter().rev();
        let mut visible = versions.filter(|(commit, _)| *commit <= txn.snapshot);
        own.unwrap_or_else(|| visible.next().and_then(|(_, value)| *value))
    }

    fn list(&self, list: &Key, number: usize, txn: &Open) -> Vec<i64> {
        let visible = self.lists[number].iter().filter(|(commit, _)| *commit <= txn.snapshot);
        let own = txn.transaction.ops.iter().filter_map(|op| match op {
            Op::Append { key, value } if key == list => Some(*value),
            _ => None,
        });
        visible.map(|(_, value)| *value).chain(own).collect()
    }

    /// Returns true if the item of a write has a version that the snapshot does not contain.
    fn is_newer(&self, op: &Op, snapshot: u64) -> bool {
        let newest = match op {
            Op::Write { key: Key::Number(key), .. } => {
                self.registers[*key as usize].last().map(|(commit, _)| *commit)
            }
            Op::Append { key: Key::Number(key), .. } => {
                self.lists[(*key - self.shape.registers) as usize].last().map(|(commit, _)| *commit)
            }
            _ => None,
        };
        newest.is_some_and(|commit| commit > snapshot)
    }

    fn install(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Write { key: Key::Number(key), value } => {
                    let versions = &mut self.registers[*key as usize];
                    versions.retain(|(commit, _)| *commit != self.clock);
                    versions.push((self.clock, *value));
                }
                Op::Append { key: Key::Number(key), value } => {
                    self.lists[(*key - self.shape.registers) as usize].push((self.clock, *value));
                }
                _ => {}
            }
        }
    }
}
