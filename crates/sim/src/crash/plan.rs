//! The plan of each transaction of a durable workload, by seed, and its execution.

use super::tables::{ACCOUNTS, AMOUNT, Act, JOURNAL, Row, TABLES_FIRST, Table, stamp, value};
use super::trace::Shared;
use crate::Random;
use braiddb::{ConcurrencyControl, Durability, Error, Result, Txn};

/// Accounts to transfer between.
const ACCOUNTS_COUNT: u64 = 6;
/// Keys of each general table. There are few, so that transactions depend on one another.
const KEYS: u64 = 12;
/// The maximum number of writes of one transaction.
const WRITES_MAX: u64 = 4;
/// The length of long values, which span sectors and soon fill a segment.
const LONG_BYTES: u64 = 1500;

/// The work of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Makes the accounts.
    Found,
    /// Moves an amount from one account to another.
    Transfer { from: u64, to: u64, amount: u64 },
    /// Writes rows, with values of these lengths in bytes.
    Write(Vec<(Act, Row, usize)>),
    /// Reads rows.
    Read(Vec<Row>),
}

impl Plan {
    /// Draws a plan on this many tables.
    pub(super) fn random(random: &mut Random, tables: usize) -> Plan {
        match random.below(100) {
            0..30 => {
                let (from, to) = (random.below(ACCOUNTS_COUNT), random.below(ACCOUNTS_COUNT));
                Plan::Transfer { from, to, amount: random.between(1, 20) }
            }
            30..75 => {
                let mut write = |_| {
                    let act = *random.one_of(&[Act::Put, Act::Put, Act::Insert, Act::Update, Act::Delete]);
                    (act, Plan::row(random, tables), Plan::value_bytes(random))
                };
                let first = write(0);
                let more = random_count(first.2);
                Plan::Write(std::iter::once(first).chain((0..more).map(write)).collect())
            }
            _ => Plan::Read((0..random.between(1, 5)).map(|_| Plan::row(random, tables)).collect()),
        }
    }

    fn row(random: &mut Random, tables: usize) -> Row {
        let table = random.between(TABLES_FIRST as u64 - 1, tables as u64 - 1) as usize;
        Row { table, key: random.below(KEYS) }
    }

    fn value_bytes(random: &mut Random) -> usize {
        let longest = *random.one_of(&[0, 16, 16, 100, 100, 100, 600, LONG_BYTES]);
        random.between(longest / 2, longest) as usize
    }

    /// Returns true if the plan only reads.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Plan::Read(_))
    }
}

/// Returns how many more writes follow a write of this many bytes.
fn random_count(bytes: usize) -> u64 {
    bytes as u64 % WRITES_MAX
}

/// One attempt of a transaction. It notes what it sees and writes.
pub(super) struct Attempt<'t, C: ConcurrencyControl> {
    pub(super) tx: &'t Txn<C>,
    pub(super) tables: &'t [Table],
    pub(super) trace: &'t Shared,
    pub(super) number: u64,
}

impl<C: ConcurrencyControl> Attempt<'_, C> {
    /// Performs the plan.
    pub(super) async fn perform(&self, plan: &Plan, durability: Durability) -> Result<()> {
        self.tx.set_durability(durability)?;
        match plan {
            Plan::Found => {
                for key in 0..ACCOUNTS_COUNT {
                    let row = Row { table: ACCOUNTS, key };
                    self.write(Act::Insert, row, value(self.number, AMOUNT, 40)).await?;
                }
            }
            Plan::Transfer { from, to, amount } => self.transfer(*from, *to, *amount).await?,
            Plan::Write(writes) => {
                for (act, row, bytes) in writes {
                    self.write(*act, *row, value(self.number, 0, *bytes)).await?;
                }
            }
            Plan::Read(rows) => {
                for row in rows {
                    self.get(*row).await?;
                }
                return Ok(());
            }
        }
        let row = Row { table: JOURNAL, key: self.number };
        self.write(Act::Insert, row, value(self.number, 0, 16)).await
    }

    async fn transfer(&self, from: u64, to: u64, amount: u64) -> Result<()> {
        let row = |key| Row { table: ACCOUNTS, key };
        let (Some(in_from), Some(in_to)) = (self.get(row(from)).await?, self.get(row(to)).await?) else {
            return Err(Error::user("no such account"));
        };
        if from == to || in_from < amount {
            return Err(Error::user("no such transfer"));
        }
        self.write(Act::Put, row(from), value(self.number, in_from - amount, 40)).await?;
        self.write(Act::Update, row(to), value(self.number, in_to + amount, 40)).await
    }

    /// Reads a row and returns the amount in it.
    async fn get(&self, row: Row) -> Result<Option<u64>> {
        let found = self.tables[row.table].get(self.tx, row.key).await?;
        let stamp = found.and_then(stamp);
        if let Some((number, _)) = stamp.filter(|(number, _)| *number != self.number) {
            self.trace.borrow_mut().sees(self.number, number);
        }
        Ok(stamp.map(|(_, amount)| amount))
    }

    async fn write(&self, act: Act, row: Row, value: Vec<u8>) -> Result<()> {
        if act == Act::Insert {
            self.get(row).await?; // notes whose row may be in the way
        }
        if self.tables[row.table].write(self.tx, act, row.key, &value).await? {
            let value = (act != Act::Delete).then_some(value);
            self.trace.borrow_mut().writes(self.number, row, value);
        }
        Ok(())
    }
}
