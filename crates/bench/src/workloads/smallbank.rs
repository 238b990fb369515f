//! SmallBank (Alomari, Cahill, Fekete, Röhm: "The Cost of Serializability on Platforms That Use Snapshot Isolation",
//! ICDE 2008): six short transactions on customers, each with a savings and a checking account. Amounts are in cents.

use super::parse_rows;
use super::text::Text;
use crate::Failure;
use crate::distribution::Rng;
use crate::engine::{self, Database, Result, Scheme, Txn};
use crate::suite::args::KindsArgs;
use crate::suite::load::{fill, read_all};
use crate::suite::outcome::Outcome;
use crate::suite::show::show;
use crate::suite::worker::{Job, Measured, execute};
use crate::suite::{self, Benchmark, Condition, Conflicts, Ledger, Loaded, Parameters, Suite, Transactions};
use braiddb::{Error, Table};
use clap::Args;
use std::cell::Cell;

/// The initial balance of each account: 10,000.00 to 50,000.00.
const FIRST_BALANCE: std::ops::RangeInclusive<i64> = 1_000_000..=5_000_000;
/// The largest amount that one transaction moves.
const AMOUNT_MAX: u64 = 10_000;
/// The penalty for a check that the balances do not cover.
const PENALTY: i64 = 100;

/// With more customers than this, hints would separate more transactions that do not conflict than transactions that
/// do.
const CONTENDED_MAX: u64 = 1000;

/// The transactions, in the order of `KINDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Reads both balances.
    Balance,
    /// Adds to the checking account.
    DepositChecking,
    /// Adds to the savings, or withdraws from them if they cover the amount.
    TransactSavings,
    /// Moves all money of one customer to the checking account of another.
    Amalgamate,
    /// Withdraws from the checking account, with a penalty if both accounts together have less.
    WriteCheck,
    /// Moves money from one checking account to another, if the first covers the amount.
    SendPayment,
}

const KINDS: [&str; 6] =
    ["balance", "deposit-checking", "transact-savings", "amalgamate", "write-check", "send-payment"];

/// Shares in percent, as in H-Store and its successors.
const MIX: [(Act, u64); 6] = [
    (Act::Balance, 15),
    (Act::DepositChecking, 15),
    (Act::TransactSavings, 15),
    (Act::Amalgamate, 15),
    (Act::WriteCheck, 15),
    (Act::SendPayment, 25),
];

/// The suite.
pub(crate) struct Smallbank {
    /// Customers' numbers by their names.
    pub(crate) accounts: Table<String, u64>,
    pub(crate) savings: Table<u64, i64>,
    pub(crate) checking: Table<u64, i64>,
    customers: u64,
    hot: Hot,
    /// The first customers, this many, are few enough to be named in hints.
    contended: u64,
    /// The sum of all initial balances.
    loaded: i128,
    ledger: Ledger,
}

/// The hot customers: the first `customers`, to which this share of the transactions goes.
#[derive(Clone, Copy)]
pub(crate) struct Hot {
    pub(crate) customers: u64,
    pub(crate) share: f64,
}

/// The input of a transaction.
pub(crate) struct Input {
    pub(crate) act: Act,
    pub(crate) customer: u64,
    /// A customer other than `customer`.
    pub(crate) other: u64,
    amount: i64,
    /// The transaction's change to the sum of all balances.
    effect: Cell<i64>,
}

/// `braid bench smallbank`.
#[derive(Args, Clone, Debug)]
pub struct SmallbankArgs {
    /// Customers, each with a savings and a checking account; 2 or more
    #[arg(long, default_value = "1M", value_parser = parse_rows)]
    pub accounts: u64,
    /// Number of hot customers [default: none]
    #[arg(long, value_parser = parse_rows)]
    pub hot: Option<u64>,
    /// Share of the transactions that go only to hot customers
    #[arg(long, default_value = "0.9", value_parser = parse_share)]
    pub hot_share: f64,
    /// Flags of every workload with several kinds of transactions.
    #[command(flatten)]
    pub kinds: KindsArgs,
}

fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected 0 to 1".into())
}

/// How the tables are made.
pub(crate) struct Setup {
    pub(crate) customers: u64,
    pub(crate) hot: Option<Hot>,
}

/// Runs `braid bench smallbank`.
pub(crate) fn bench(args: &SmallbankArgs) -> crate::Result<()> {
    show(&run(args)?, "SmallBank", &args.kinds.suite.run)
}

/// Runs the benchmark without showing its results.
pub(crate) fn run(args: &SmallbankArgs) -> crate::Result<Outcome> {
    if args.accounts < 2 {
        return Err(Failure::new("a payment needs two customers: --accounts must be 2 or more"));
    }
    let hot = args.hot.map(|customers| Hot { customers, share: args.hot_share });
    if hot.is_some_and(|hot| !(2..=args.accounts).contains(&hot.customers)) {
        return Err(Failure::new(format!(
            "--hot must be from 2 to the number of accounts, {}",
            args.accounts
        )));
    }
    suite::run(&Setup { customers: args.accounts, hot }, &args.kinds)
}

impl Benchmark for Setup {
    type Suite = Smallbank;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Smallbank>>> {
        let mut parameters: Parameters = vec![("accounts", self.customers.into())];
        if let Some(hot) = self.hot {
            parameters.extend([("hot", hot.customers.into()), ("hot-share", hot.share.into())]);
        }
        Ok(vec![Loaded { parameters, suite: Smallbank::load(db, self)? }])
    }
}

/// Returns the name of a customer.
fn name(customer: u64) -> Text<20> {
    let mut text = Text(*b"customer 00000000000");
    text.set_digits(9, 20, customer);
    text
}

/// Returns a customer's initial balances, in savings and in checking.
fn first_balances(customer: u64) -> (i64, i64) {
    let mut rng = Rng::new(customer);
    let width = (FIRST_BALANCE.end() - FIRST_BALANCE.start() + 1) as u64;
    let mut draw = || FIRST_BALANCE.start() + rng.below(width) as i64;
    (draw(), draw())
}

impl Smallbank {
    /// Makes and fills the tables.
    pub(crate) fn load<C: Scheme>(db: &Database<C>, setup: &Setup) -> crate::Result<Smallbank> {
        let accounts = db.table("accounts").map_err(engine::failure)?;
        let savings = db.partitioned_table("savings", u64::BITS).map_err(engine::failure)?;
        let checking = db.partitioned_table("checking", u64::BITS).map_err(engine::failure)?;
        fill(db, "customers", setup.customers, None, async |tx, &customer| {
            let balances = first_balances(customer);
            tx.insert(accounts, name(customer), customer).await?;
            tx.insert(savings, customer, balances.0).await?;
            tx.insert(checking, customer, balances.1).await
        })?;
        let both = |customer| i128::from(first_balances(customer).0) + i128::from(first_balances(customer).1);
        Ok(Smallbank {
            accounts,
            savings,
            checking,
            customers: setup.customers,
            contended: Some(setup.hot.map_or(setup.customers, |hot| hot.customers))
                .filter(|&customers| customers <= CONTENDED_MAX)
                .unwrap_or(0),
            hot: setup.hot.unwrap_or(Hot { customers: 0, share: 0.0 }),
            loaded: (0..setup.customers).map(both).sum(),
            ledger: Ledger::default(),
        })
    }

    /// Looks up the number of a customer.
    async fn customer<C: Scheme>(&self, tx: &Txn<C>, customer: u64) -> Result<u64> {
        found(tx.get(self.accounts, name(customer)).await?)
    }

    /// Looks up the numbers of two customers, one after the other or together.
    async fn customers<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<(u64, u64)> {
        if many {
            let [a, b] = tx.get_many(self.accounts, &[name(input.customer), name(input.other)]).await?;
            return Ok((found(a)?, found(b)?));
        }
        Ok((self.customer(tx, input.customer).await?, self.customer(tx, input.other).await?))
    }

    /// Reads the balances of two checking accounts, one after the other or together.
    async fn checking_of<C: Scheme>(&self, tx: &Txn<C>, of: (u64, u64), many: bool) -> Result<(i64, i64)> {
        if many {
            let [a, b] = tx.get_many(self.checking, &[of.0, of.1]).await?;
            return Ok((found(a)?, found(b)?));
        }
        Ok((found(tx.get(self.checking, of.0).await?)?, found(tx.get(self.checking, of.1).await?)?))
    }

    async fn transact_savings<C: Scheme>(&self, tx: &Txn<C>, input: &Input) -> Result<()> {
        let of = self.customer(tx, input.customer).await?;
        let left = found(tx.get(self.savings, of).await?)? + input.amount;
        if left < 0 {
            return Err(Error::user("the savings do not cover the withdrawal"));
        }
        input.effect.set(input.amount);
        set(tx, self.savings, of, left).await
    }

    async fn amalgamate<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        let (from, to) = self.customers(tx, input, many).await?;
        let savings = found(tx.get(self.savings, from).await?)?;
        let (checking, others) = self.checking_of(tx, (from, to), many).await?;
        set(tx, self.savings, from, 0).await?;
        set(tx, self.checking, from, 0).await?;
        set(tx, self.checking, to, others + savings + checking).await
    }

    async fn write_check<C: Scheme>(&self, tx: &Txn<C>, input: &Input) -> Result<()> {
        let of = self.customer(tx, input.customer).await?;
        let savings = found(tx.get(self.savings, of).await?)?;
        let checking = found(tx.get(self.checking, of).await?)?;
        let is_covered = savings + checking >= input.amount;
        let taken = if is_covered { input.amount } else { input.amount + PENALTY };
        input.effect.set(-taken);
        set(tx, self.checking, of, checking - taken).await
    }

    async fn send_payment<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        let (from, to) = self.customers(tx, input, many).await?;
        let (balance, others) = self.checking_of(tx, (from, to), many).await?;
        if balance < input.amount {
            return Err(Error::user("the checking account does not cover the payment"));
        }
        set(tx, self.checking, from, balance - input.amount).await?;
        set(tx, self.checking, to, others + input.amount).await
    }
}

/// Unwraps a row that exists for every customer.
#[inline(always)]
fn found<T>(row: Option<T>) -> Result<T> {
    row.ok_or_else(|| Error::user("a row of a customer is missing"))
}

/// Writes a balance.
async fn set<C: Scheme>(tx: &Txn<C>, table: Table<u64, i64>, of: u64, balance: i64) -> Result<()> {
    found(tx.update(table, of, balance).await?.then_some(()))
}

impl Suite for Smallbank {
    type Input = Input;
    type Source = Rng;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn source(&self, _: usize, _: usize, seed: u64) -> Rng {
        Rng::new(seed)
    }

    #[inline(always)]
    fn next(&self, rng: &mut Rng) -> Input {
        let mut draw = rng.below(100);
        let mut act = Act::Balance;
        for (one, share) in MIX {
            act = one;
            if draw < share {
                break;
            }
            draw -= share;
        }
        let among = if rng.unit() < self.hot.share { self.hot.customers } else { self.customers };
        let customer = rng.below(among);
        let other = (customer + 1 + rng.below(among - 1)) % among;
        let amount = 1 + rng.below(AMOUNT_MAX) as i64;
        let takes = act == Act::TransactSavings && rng.below(2) == 0;
        Input { act, customer, other, amount: if takes { -amount } else { amount }, effect: Cell::new(0) }
    }

    #[inline(always)]
    fn kind(&self, input: &Input) -> usize {
        input.act as usize
    }

    fn settle(&self, commits: u64, effects: i64) {
        self.ledger.add(commits, effects);
    }

    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        let (sums, rows, overdrawn) = read_all(db, async |tx| {
            let (mut sums, mut rows, mut overdrawn) = ([0; 2], [0; 2], 0);
            for (at, table) in [self.savings, self.checking].into_iter().enumerate() {
                let mut scan = tx.scan_all(table);
                while let Some((_, balance)) = scan.next().await? {
                    sums[at] += i128::from(balance);
                    rows[at] += 1;
                    overdrawn += i128::from(at == 0 && balance < 0);
                }
            }
            Ok((sums, rows, overdrawn))
        })?;
        let customers = ("customers", i128::from(self.customers));
        Ok(vec![
            Condition::equal(
                "all money is what was loaded, deposited and withdrawn",
                ("in the accounts", sums[0] + sums[1]),
                ("loaded and acknowledged", self.loaded + self.ledger.effects()),
            ),
            Condition::equal("no savings are below zero", ("below zero", overdrawn), ("expected", 0)),
            Condition::equal("each customer has savings", ("savings", rows[0]), customers),
            Condition::equal(
                "each customer has a checking account",
                ("checking accounts", rows[1]),
                customers,
            ),
        ])
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl Transactions for Smallbank {
    #[inline(always)]
    fn conflicts(&self, input: &Input) -> Conflicts {
        let sides = match input.act {
            // Rows that are only read do not abort transactions. They only order them.
            Act::Balance => 0,
            Act::DepositChecking | Act::TransactSavings | Act::WriteCheck => 1,
            Act::Amalgamate | Act::SendPayment => 2,
        };
        let (mut keys, mut count) = ([0; 4], 0);
        for customer in [input.customer, input.other].into_iter().take(sides) {
            if customer < self.contended {
                keys[count] = customer;
                count += 1;
            }
        }
        (keys, count)
    }

    fn rolls_back(&self, input: &Input) -> bool {
        input.act == Act::SendPayment || (input.act == Act::TransactSavings && input.amount < 0)
    }

    fn only_reads(&self, input: &Input) -> bool {
        input.act == Act::Balance
    }

    async fn run<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        let sides = if matches!(input.act, Act::Amalgamate | Act::SendPayment) { 2 } else { 1 };
        let customers = [input.customer, input.other].into_iter().take(sides);
        tx.declare_partitions(customers.filter_map(|of| tx.partition_of(self.savings, of))).await?;
        match input.act {
            Act::Balance => {
                let of = self.customer(tx, input.customer).await?;
                let savings = found(tx.get(self.savings, of).await?)?;
                std::hint::black_box(savings + found(tx.get(self.checking, of).await?)?);
                Ok(())
            }
            Act::DepositChecking => {
                let of = self.customer(tx, input.customer).await?;
                let balance = found(tx.get(self.checking, of).await?)?;
                input.effect.set(input.amount);
                set(tx, self.checking, of, balance + input.amount).await
            }
            Act::TransactSavings => self.transact_savings(tx, input).await,
            Act::Amalgamate => self.amalgamate(tx, input, many).await,
            Act::WriteCheck => self.write_check(tx, input).await,
            Act::SendPayment => self.send_payment(tx, input, many).await,
        }
    }

    #[inline(always)]
    fn effect(&self, input: &Input) -> i64 {
        input.effect.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DurabilityKind;
    use crate::engine::Serializable;
    use braiddb::TableOptions;

    #[test]
    fn inputs_have_the_usual_mix_and_the_hot_customers() {
        // Proves the shares of the transactions and of the hot customers, that a payment has two sides, and that a
        // transaction's hints name the hot customers whose balances it changes.
        let (db, _) = engine::open::<Serializable>(
            TableOptions::default(),
            DurabilityKind::Memory,
            &std::env::temp_dir(),
        )
        .unwrap();
        let hot = Some(Hot { customers: 10, share: 0.9 });
        let suite = Smallbank::load(&db, &Setup { customers: 1000, hot }).unwrap();
        let (mut rng, mut acts, mut of_hot) = (suite.source(0, 1, 3), [0u64; 6], 0);
        for _ in 0..20_000 {
            let input = suite.next(&mut rng);
            assert!(input.customer != input.other && input.customer.max(input.other) < 1000);
            assert!(input.amount != 0 && input.amount.unsigned_abs() <= AMOUNT_MAX);
            assert!(input.amount > 0 || input.act == Act::TransactSavings);
            acts[suite.kind(&input)] += 1;
            let sides = [0, 1, 1, 2, 1, 2][input.act as usize];
            let (keys, count) = suite.conflicts(&input);
            let mut named = [input.customer, input.other][..sides].to_vec();
            named.retain(|&customer| customer < 10);
            assert_eq!(&keys[..count], &named);
            of_hot += u64::from(input.customer < 10 && input.other < 10);
        }
        for (act, share) in MIX {
            let count = acts[act as usize];
            assert!((share * 200 - 200..share * 200 + 200).contains(&count), "{act:?} {count}");
        }
        assert!((17_700..18_300).contains(&of_hot), "{of_hot}");
    }
}
