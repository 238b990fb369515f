//! TPC-B: deposits and withdrawals. Each is booked to an account, to the teller where it was made, to the teller's
//! branch, and into a history. There is one kind of transaction, all of whose operations write.

use crate::args::parse_within;
use crate::distribution::Rng;
use crate::engine::{self, Database, Result, Scheme, Txn};
use crate::suite::args::KindsArgs;
use crate::suite::load::{fill, read_all};
use crate::suite::outcome::Outcome;
use crate::suite::show::show;
use crate::suite::worker::{Job, Measured, execute};
use crate::suite::{self, Benchmark, Condition, Conflicts, Ledger, Loaded, Suite, Transactions};
use braiddb::{Error, Plain, Table};
use clap::Args;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Tellers of a branch, by the standard.
const TELLERS: u64 = 10;
/// Percentage of transactions whose account is in the teller's own branch, if there are other branches.
const OWN_BRANCH_PERCENT: u64 = 85;
/// Deltas are between the negation of this value and the value itself.
const DELTA_MAX: i64 = 999_999;

/// A branch, teller or account. With its key it has 104 bytes; the standard requires 100 or more.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Holder {
    pub(crate) balance: i64,
    /// The branch that the teller or account belongs to, or the branch itself.
    branch: u64,
    filler: [u8; 80],
}

/// A line of the history. With its key it has 56 bytes; the standard requires 50 or more.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Entry {
    account: u64,
    teller: u64,
    branch: u64,
    delta: i64,
    /// The input's number, instead of the time of day.
    time: u64,
    filler: [u8; 8],
}

/// The suite.
pub(crate) struct Tpcb {
    pub(crate) branches: Table<u64, Plain<Holder>>,
    pub(crate) tellers: Table<u64, Plain<Holder>>,
    pub(crate) accounts: Table<u64, Plain<Holder>>,
    pub(crate) history: Table<u64, Plain<Entry>>,
    scale: u64,
    accounts_of_branch: u64,
    /// Each source writes history under a stream number of its own.
    next_stream: AtomicU32,
    ledger: Ledger,
}

/// The input: a deposit or a withdrawal.
pub(crate) struct Input {
    pub(crate) account: u64,
    pub(crate) teller: u64,
    pub(crate) branch: u64,
    pub(crate) delta: i64,
    /// The key of the transaction's history line.
    pub(crate) entry: u64,
}

/// A source of inputs.
pub(crate) struct Source {
    rng: Rng,
    /// The next key in the history: the stream in the high bits, the number of the input in the low bits.
    next_entry: u64,
}

/// `braid bench tpcb`.
#[derive(Args, Clone, Debug)]
pub struct TpcbArgs {
    /// Branches, with 10 tellers each
    #[arg(long, default_value = "10", value_parser = parse_scale)]
    pub scale: u64,
    /// Accounts per branch
    #[arg(long, default_value = "100K", value_parser = super::parse_rows)]
    pub accounts: u64,
    /// Flags of every workload with several kinds of transactions.
    #[command(flatten)]
    pub kinds: KindsArgs,
}

fn parse_scale(text: &str) -> Result<u64, String> {
    parse_within(text, 1, 1_000_000).map(|n| n as u64)
}

/// How the tables are made.
pub(crate) struct Setup {
    pub(crate) scale: u64,
    pub(crate) accounts_of_branch: u64,
}

/// Runs `braid bench tpcb`.
pub(crate) fn bench(args: &TpcbArgs) -> crate::Result<()> {
    show(&run(args)?, "TPC-B", &args.kinds.suite.run)
}

/// Runs the benchmark without showing its results.
pub(crate) fn run(args: &TpcbArgs) -> crate::Result<Outcome> {
    let setup = Setup { scale: args.scale, accounts_of_branch: args.accounts };
    suite::run(&setup, &args.kinds)
}

impl Benchmark for Setup {
    type Suite = Tpcb;

    fn name(&self) -> &'static str {
        "tpcb"
    }

    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Tpcb>>> {
        let parameters = vec![("scale", self.scale.into()), ("accounts", self.accounts_of_branch.into())];
        Ok(vec![Loaded { parameters, suite: Tpcb::load(db, self)? }])
    }
}

impl Tpcb {
    /// Makes and fills the tables. All balances are zero.
    pub(crate) fn load<C: Scheme>(db: &Database<C>, setup: &Setup) -> crate::Result<Tpcb> {
        let table = |name| db.table(name).map_err(engine::failure);
        let suite = Tpcb {
            branches: table("branches")?,
            tellers: table("tellers")?,
            accounts: table("accounts")?,
            history: db.table("history").map_err(engine::failure)?,
            scale: setup.scale,
            accounts_of_branch: setup.accounts_of_branch,
            next_stream: AtomicU32::new(0),
            ledger: Ledger::default(),
        };
        suite.fill(db, suite.branches, "branches", 1)?;
        suite.fill(db, suite.tellers, "tellers", TELLERS)?;
        suite.fill(db, suite.accounts, "accounts", setup.accounts_of_branch)?;
        Ok(suite)
    }

    fn fill<C: Scheme>(
        &self,
        db: &Database<C>,
        table: Table<u64, Plain<Holder>>,
        what: &str,
        of_branch: u64,
    ) -> crate::Result<()> {
        fill(db, what, self.scale * of_branch, None, async |tx, &key| {
            tx.insert(table, key, &Holder { balance: 0, branch: key / of_branch, filler: [b' '; 80] }).await
        })
        .map(|_| ())
    }
}

/// Adds to a balance, and returns the new balance.
async fn add<C: Scheme>(tx: &Txn<C>, table: Table<u64, Plain<Holder>>, key: u64, delta: i64) -> Result<i64> {
    let Some(row) = tx.get(table, key).await? else { return Err(absent(key)) };
    let row = Holder { balance: row.balance + delta, ..*row };
    if tx.update(table, key, &row).await? { Ok(row.balance) } else { Err(absent(key)) }
}

#[cold]
fn absent(key: u64) -> Error {
    Error::user(format!("row {key} of a branch, teller or account is missing"))
}

impl Suite for Tpcb {
    type Input = Input;
    type Source = Source;

    fn kinds(&self) -> &'static [&'static str] {
        &["transfer"]
    }

    fn source(&self, _: usize, _: usize, seed: u64) -> Source {
        let stream = self.next_stream.fetch_add(1, Ordering::Relaxed); // the number must only be unique
        Source { rng: Rng::new(seed), next_entry: u64::from(stream) << 32 }
    }

    #[inline(always)]
    fn next(&self, source: &mut Source) -> Input {
        let rng = &mut source.rng;
        let teller = rng.below(self.scale * TELLERS);
        let branch = teller / TELLERS;
        let is_own = self.scale == 1 || rng.below(100) < OWN_BRANCH_PERCENT;
        // A branch other than the teller's, all equally likely.
        let of = if is_own { branch } else { (branch + 1 + rng.below(self.scale - 1)) % self.scale };
        let account = of * self.accounts_of_branch + rng.below(self.accounts_of_branch);
        let delta = rng.below(2 * DELTA_MAX as u64 + 1) as i64 - DELTA_MAX;
        let entry = source.next_entry;
        source.next_entry += 1;
        Input { account, teller, branch, delta, entry }
    }

    #[inline(always)]
    fn kind(&self, _: &Input) -> usize {
        0
    }

    fn settle(&self, commits: u64, effects: i64) {
        self.ledger.add(commits, effects);
    }

    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        let found = read_all(db, async |tx| {
            let mut found = Found::new(self.scale as usize);
            for (table, sums) in [
                (self.branches, &mut found.branches),
                (self.tellers, &mut found.tellers),
                (self.accounts, &mut found.accounts),
            ] {
                let mut rows = tx.scan_all(table);
                while let Some((_, row)) = rows.next().await? {
                    sums[row.branch as usize] += i128::from(row.balance);
                }
            }
            let mut rows = tx.scan_all(self.history);
            while let Some((_, line)) = rows.next().await? {
                found.lines += 1;
                found.history_by_branch[line.branch as usize] += i128::from(line.delta);
                found.history_by_account[(line.account / self.accounts_of_branch) as usize] +=
                    i128::from(line.delta);
            }
            Ok(found)
        })?;
        Ok(self.conditions(&found))
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl Transactions for Tpcb {
    #[inline(always)]
    fn conflicts(&self, input: &Input) -> Conflicts {
        // Transactions that share a teller also share the branch. Few share an account.
        ([input.branch, 0, 0, 0], 1)
    }

    async fn run<C: Scheme>(&self, tx: &Txn<C>, input: &Input, _: bool) -> Result<()> {
        let &Input { account, teller, branch, delta, entry } = input;
        // In the order of the standard. The row that most other transactions want comes last.
        std::hint::black_box(add(tx, self.accounts, account, delta).await?);
        add(tx, self.tellers, teller, delta).await?;
        add(tx, self.branches, branch, delta).await?;
        let line = Entry { account, teller, branch, delta, time: entry, filler: [b' '; 8] };
        tx.insert(self.history, entry, &line).await
    }

    #[inline(always)]
    fn effect(&self, input: &Input) -> i64 {
        input.delta
    }
}

/// Sums of balances and deltas by branch.
struct Found {
    branches: Vec<i128>,
    tellers: Vec<i128>,
    accounts: Vec<i128>,
    /// Deltas of the history, by the branch that a line names.
    history_by_branch: Vec<i128>,
    /// Deltas of the history, by the branch of the account that a line names.
    history_by_account: Vec<i128>,
    lines: i128,
}

impl Found {
    fn new(scale: usize) -> Found {
        let zeros = || vec![0; scale];
        Found {
            branches: zeros(),
            tellers: zeros(),
            accounts: zeros(),
            history_by_branch: zeros(),
            history_by_account: zeros(),
            lines: 0,
        }
    }
}

impl Tpcb {
    fn conditions(&self, found: &Found) -> Vec<Condition> {
        let total = |sums: &[i128]| sums.iter().sum::<i128>();
        let wrong = |a: &[i128], b: &[i128]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        let by_branch = |name: &str, a: &[i128], b: &[i128]| Condition {
            name: name.to_owned(),
            holds: a == b,
            detail: format!(
                "{} branches, {} wrong; the sums are {} and {}",
                a.len(),
                wrong(a, b),
                total(a),
                total(b)
            ),
        };
        vec![
            by_branch("each branch has the sum of its tellers", &found.branches, &found.tellers),
            by_branch(
                "each branch has the sum of its lines in the history",
                &found.branches,
                &found.history_by_branch,
            ),
            by_branch(
                "the accounts of each branch have the sum of their lines in the history",
                &found.accounts,
                &found.history_by_account,
            ),
            Condition::equal(
                "the accounts have the sum of all that was acknowledged",
                ("accounts", total(&found.accounts)),
                ("acknowledged", self.ledger.effects()),
            ),
            Condition::equal(
                "the history has a line for each commit",
                ("lines", found.lines),
                ("commits", self.ledger.commits()),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DurabilityKind;
    use crate::engine::Serializable;
    use braiddb::TableOptions;

    #[test]
    fn inputs_have_the_profile_of_the_standard() {
        // Proves the share of accounts of the teller's own branch, that a teller belongs to its branch, the bounds of
        // deltas, that two sources share no key of the history, and that hints name the branch.
        let (db, _) = engine::open::<Serializable>(
            TableOptions::default(),
            DurabilityKind::Memory,
            &std::env::temp_dir(),
        )
        .unwrap();
        let suite = Tpcb::load(&db, &Setup { scale: 4, accounts_of_branch: 100 }).unwrap();
        let mut source = suite.source(0, 2, 7);
        let (mut own, mut lowest, mut highest) = (0, 0, 0);
        for _ in 0..20_000 {
            let input = suite.next(&mut source);
            assert!(input.teller / TELLERS == input.branch && input.branch < 4 && input.account < 400);
            own += u64::from(input.account / 100 == input.branch);
            (lowest, highest) = (input.delta.min(lowest), input.delta.max(highest));
        }
        assert!((16_700..17_300).contains(&own), "{own}");
        assert!(lowest >= -DELTA_MAX && highest <= DELTA_MAX && lowest < -900_000 && highest > 900_000);
        let other = suite.next(&mut suite.source(1, 2, 7));
        let (keys, count) = suite.conflicts(&other);
        assert_eq!(&keys[..count], [other.branch]);
        assert_ne!(other.entry >> 32, source.next_entry >> 32);
    }
}
