//! TPC-C (revision 5.11) with its nine tables and five transactions, and what the papers add: Q2* of TPC-CH, and the
//! read-only mix TPC-CR. There is no terminal, hence no keying and thinking times: these are no official results.
//!
//! `schema` has the tables and the ways to their rows, `populate` and `load` the rows to begin with, `inputs` what
//! transactions get; each transaction has a file; `conditions` has what holds at any time.

mod args;
mod check;
mod conditions;
mod delivery;
mod digest;
mod inputs;
mod keys;
mod load;
mod many;
mod new_order;
mod order_status;
mod payment;
mod populate;
mod query2;
mod random;
mod regions;
mod rows;
mod scale;
mod schema;
mod stock_level;
#[cfg(test)]
mod tests;

pub use args::TpccArgs;
pub use check::{Run, RunPlan, run_all};
pub use scale::Scale;

use crate::engine::{Database, Result, Scheme, Txn};
use crate::machine::progress;
use crate::suite::outcome::Outcome;
use crate::suite::show::show;
use crate::suite::worker::{Job, Measured, execute};
use crate::suite::{self, Benchmark, Condition, Conflicts, Loaded, Suite, Transactions};
use inputs::{Input, KINDS, Source};
use random::Constants;
use schema::Tables;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which transactions, and how many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// TPC-C: 45 % NewOrder, 43 % Payment, 4 % each of the others
    Full,
    /// NewOrder and Payment, half and half
    Narrow,
    /// TPC-CR: StockLevel and OrderStatus, half and half; nothing is written
    #[value(name = "cr")]
    #[serde(rename = "cr")]
    Reads,
    /// TPC-CH: 10 % Q2*, 40 % NewOrder, 38 % Payment, 4 % each of the others
    #[value(name = "ch")]
    #[serde(rename = "ch")]
    Hybrid,
    /// NewOrder alone
    NewOrder,
    /// Payment alone
    Payment,
    /// OrderStatus alone
    OrderStatus,
    /// Delivery alone
    Delivery,
    /// StockLevel alone
    StockLevel,
    /// Q2* alone
    #[value(name = "query2")]
    #[serde(rename = "query2")]
    Query2,
}

impl Mix {
    /// All of them.
    pub const ALL: [Mix; 10] = [
        Mix::Full,
        Mix::Narrow,
        Mix::Reads,
        Mix::Hybrid,
        Mix::NewOrder,
        Mix::Payment,
        Mix::OrderStatus,
        Mix::Delivery,
        Mix::StockLevel,
        Mix::Query2,
    ];

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Full => "full",
            Mix::Narrow => "narrow",
            Mix::Reads => "cr",
            Mix::Hybrid => "ch",
            Mix::NewOrder => "new-order",
            Mix::Payment => "payment",
            Mix::OrderStatus => "order-status",
            Mix::Delivery => "delivery",
            Mix::StockLevel => "stock-level",
            Mix::Query2 => "query2",
        }
    }
}

/// Which warehouses are at home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// Each worker has warehouses of its own
    Worker,
    /// Every transaction is at home in any warehouse
    #[default]
    Uniform,
}

/// How transactions are made up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The size of the database.
    pub scale: Scale,
    /// Shares of the kinds.
    pub mix: Mix,
    /// Percent of an order's lines that another warehouse supplies.
    pub remote_items: u32,
    /// Percent of payments by customers of another warehouse.
    pub remote_payments: u32,
    /// Which warehouses are at home.
    pub home: Home,
}

impl Home {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Home::Worker => "worker",
            Home::Uniform => "uniform",
        }
    }
}

impl Settings {
    /// The specification's.
    pub fn new(scale: Scale) -> Settings {
        let (mix, home) = (Mix::Full, Home::Uniform);
        Settings { scale, mix, remote_items: 1, remote_payments: 15, home }
    }
}

/// The tables of a filled database, and the transactions on them.
#[derive(Debug)]
pub(crate) struct Tpcc {
    tables: Tables,
    settings: Settings,
    constants: Constants,
    /// The number of the next source of this database; sources write into the history under their numbers.
    next_source: Arc<AtomicU64>,
}

/// Runs `braid bench tpcc`.
pub(crate) fn bench(args: &TpccArgs) -> crate::Result<()> {
    show(&run(args)?, "TPC-C", &args.kinds.suite.run)
}

/// The same without showing anything.
pub(crate) fn run(args: &TpccArgs) -> crate::Result<Outcome> {
    args.scale()?;
    suite::run(&Setup(args), &args.kinds)
}

/// How the tables are made, and the mixes that run on them.
struct Setup<'a>(&'a TpccArgs);

impl Benchmark for Setup<'_> {
    type Suite = Tpcc;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Tpcc>>> {
        let args = self.0;
        let settings = args.settings(Mix::Full)?;
        let bar = progress(0, "loading {msg} [{bar:40}] {percent}% {eta}");
        bar.set_message(format!("{} warehouses", args.warehouses));
        let tpcc =
            Tpcc::load(db, settings, args.kinds.suite.seed, crate::args::processors(), &|done, of| {
                bar.set_length(of);
                bar.set_position(done);
            })?;
        bar.finish_and_clear();
        let mut mixes: Vec<Mix> = Vec::new();
        args.mix.iter().for_each(|mix| {
            if !mixes.contains(mix) {
                mixes.push(*mix)
            }
        });
        let of_mix = |mix: Mix| Loaded {
            parameters: vec![
                ("warehouses", args.warehouses.into()),
                ("scale-down", args.scale_down.into()),
                ("suppliers", settings.scale.suppliers.into()),
                ("remote-items", args.remote_items.into()),
                ("remote-payments", args.remote_payments.into()),
                ("home", args.home.name().into()),
                ("mix", mix.name().into()),
            ],
            suite: tpcc.with(Settings { mix, ..settings }),
        };
        Ok(mixes.into_iter().map(of_mix).collect())
    }
}

impl Tpcc {
    /// Fills an empty database.
    pub(crate) fn load<C: Scheme>(
        db: &Database<C>,
        settings: Settings,
        seed: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> crate::Result<Tpcc> {
        let tables = Tables::open(db)?;
        load::load(db, &tables, &settings.scale, seed, threads, progress)?;
        Ok(Tpcc {
            tables,
            settings,
            constants: Constants::new(seed),
            next_source: Arc::new(AtomicU64::new(1)),
        })
    }

    /// The same in another database: the one that was filled, opened again.
    pub(crate) fn of<C: Scheme>(self, db: &Database<C>) -> crate::Result<Tpcc> {
        Ok(Tpcc { tables: Tables::open(db)?, ..self })
    }

    /// Other transactions on the same tables.
    pub(crate) fn with(&self, settings: Settings) -> Tpcc {
        assert_eq!(self.settings.scale, settings.scale, "the database is loaded");
        let (tables, constants, next_source) = (self.tables, self.constants, self.next_source.clone());
        Tpcc { tables, settings, constants, next_source }
    }
}

impl Suite for Tpcc {
    type Input = Input;
    type Source = Source;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS[self.settings.mix.kinds()]
    }

    fn source(&self, worker: usize, workers: usize, seed: u64) -> Source {
        // Relaxed: only uniqueness is asked for.
        let number = self.next_source.fetch_add(1, Ordering::Relaxed);
        Source::new(self.settings, &self.constants, number, (worker, workers), seed)
    }

    #[inline]
    fn next(&self, source: &mut Source) -> Input {
        source.next()
    }

    #[inline(always)]
    fn kind(&self, input: &Input) -> usize {
        input.kind() - self.settings.mix.kinds().start
    }

    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        conditions::check(db, &self.tables, &self.settings.scale, crate::args::processors())
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl Transactions for Tpcc {
    fn rolls_back(&self, input: &Input) -> bool {
        matches!(input, Input::NewOrder(order) if order.rolls_back)
    }

    #[inline(always)]
    fn only_reads(&self, input: &Input) -> bool {
        matches!(input, Input::OrderStatus(_) | Input::StockLevel(_))
    }

    #[inline(always)]
    fn conflicts(&self, input: &Input) -> Conflicts {
        inputs::conflicts(input)
    }

    #[inline]
    async fn run<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        let (tables, scale) = (&self.tables, &self.settings.scale);
        let shown = match input {
            Input::NewOrder(input) => new_order::new_order(tables, tx, input, many).await?,
            Input::Payment(input) => payment::payment(tables, tx, input).await?,
            Input::OrderStatus(input) => order_status::order_status(tables, tx, input).await?,
            Input::Delivery(input) => delivery::delivery(tables, tx, input, scale.districts as u8).await?,
            Input::StockLevel(input) => stock_level::stock_level(tables, tx, input, many).await?,
            Input::Query2(input) => query2::query2(tables, scale, tx, input, many).await?,
        };
        std::hint::black_box(shown);
        Ok(())
    }
}
