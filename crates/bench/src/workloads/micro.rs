//! The micro-benchmark of Sirin, Tözün, Porobic, Yasin and Ailamaki, "Micro-architectural analysis of in-memory OLTP:
//! Revisited" (VLDB Journal 30, 2021). Transactions read or update a few random rows of a table of two columns. The
//! size of the table, the number of rows, the type of the columns, and whether transactions are compiled with the
//! program or interpreted can vary.

use super::ProcedureKind;
use super::interpreter::{Datum, Expression, Function, Names, Procedure, Statement, Type};
use super::text::Text;
use crate::Failure;
use crate::args::{parse_count, parse_within};
use crate::distribution::Rng;
use crate::engine::{self, Database, Result, Scheme, Txn};
use crate::report::environment::memory_available_bytes;
use crate::report::size;
use crate::suite::args::KindsArgs;
use crate::suite::load::fill;
use crate::suite::outcome::Outcome;
use crate::suite::plan::Plan;
use crate::suite::show::show;
use crate::suite::worker::{Job, Measured, execute};
use crate::suite::{Benchmark, Condition, Ledger, Loaded, Suite, Transactions, driver};
use braiddb::tools::RawTable;
use braiddb::{AsKey, Error, Key, Table, Value};
use clap::{Args, ValueEnum};
use std::cell::Cell;
use std::sync::Arc;

/// The number of rows that modes with multi-gets read at a time.
const TOGETHER: usize = 10;
/// Share of the available memory that the tables may take, in percent.
const MEMORY_PERCENT_MAX: u64 = 70;

/// The type of both columns. The second column counts the updates of its row.
pub(crate) trait Column: Send + Sync + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// Bytes of both columns of a row.
    const ROW_BYTES: u64;
    /// An upper bound of a row's memory, the index included.
    const MEMORY_BYTES_MAX: u64;
    type Key: Key + AsKey<Self::Key>;
    type Value: Value + ?Sized;
    /// For interpreted procedures: the type, and a function that adds one to a count.
    const INTERPRETED: (Type, Function);
    /// A key on the stack.
    type At: AsKey<Self::Key>;
    /// A value on the stack.
    type Held;

    /// Returns the key of a row, by its number.
    fn key(number: u64) -> Self::At;
    /// Returns the value with this count.
    fn hold(count: u64) -> Self::Held;
    /// Returns a value in the form that a write takes.
    fn input(held: &Self::Held) -> <Self::Value as Value>::Input<'_>;
    /// Returns the count of a value.
    fn count(view: <Self::Value as Value>::View<'_>) -> u64;
    /// Returns the key of a row as an argument of a procedure.
    fn argument(number: u64) -> Datum;
}

/// Whole numbers of 8 bytes.
pub(crate) struct Long;

impl Column for Long {
    const NAME: &'static str = "long";
    const ROW_BYTES: u64 = 16;
    const MEMORY_BYTES_MAX: u64 = 72;
    type Key = u64;
    type Value = u64;
    const INTERPRETED: (Type, Function) = (Type::Long, |value| match value {
        Datum::Long(count) => Ok(Datum::Long(count + 1)),
        Datum::Text(_) => Err(Error::user("a count is no text")),
    });
    type At = u64;
    type Held = u64;

    #[inline(always)]
    fn key(number: u64) -> u64 {
        engine::mix(number)
    }
    #[inline(always)]
    fn hold(count: u64) -> u64 {
        count
    }
    #[inline(always)]
    fn input(held: &u64) -> u64 {
        *held
    }
    #[inline(always)]
    fn count(view: u64) -> u64 {
        view
    }
    fn argument(number: u64) -> Datum {
        Datum::Long(engine::mix(number))
    }
}

/// Strings of 50 bytes.
pub(crate) struct Text50;

/// Digits of a count in a text value.
const DIGITS: usize = 20;

impl Column for Text50 {
    const NAME: &'static str = "text50";
    const ROW_BYTES: u64 = 100;
    const MEMORY_BYTES_MAX: u64 = 256;
    type Key = String;
    type Value = str;
    const INTERPRETED: (Type, Function) = (Type::Text, |value| match value {
        Datum::Text(text) => Ok(Datum::Text(Self::hold(Self::count(&text) + 1).as_str().to_owned())),
        Datum::Long(_) => Err(Error::user("a count is text here")),
    });
    type At = Text<50>;
    type Held = Text<50>;

    /// Returns letters and digits that look random. All keys differ in the first eleven.
    fn key(number: u64) -> Text<50> {
        const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";
        let mut text = [0; 50];
        let mut bits = engine::mix(number);
        for part in text.chunks_mut(11) {
            let mut rest = bits;
            for letter in part {
                *letter = LETTERS[(rest & 63) as usize];
                rest >>= 6;
            }
            bits = engine::mix(bits.wrapping_add(1));
        }
        Text(text)
    }
    fn hold(count: u64) -> Text<50> {
        let mut text = Text([b'v'; 50]);
        text.set_digits(0, DIGITS, count);
        text
    }
    fn input(held: &Text<50>) -> &str {
        held.as_str()
    }
    fn count(view: &str) -> u64 {
        view.bytes().take(DIGITS).fold(0, |count, digit| count * 10 + u64::from(digit & 15))
    }
    fn argument(number: u64) -> Datum {
        Datum::Text(Self::key(number).as_str().to_owned())
    }
}

/// The suite.
pub(crate) struct Micro<T: Column> {
    pub(crate) table: Table<T::Key, T::Value>,
    /// Rows in the table.
    records: u64,
    /// Rows that a transaction touches.
    rows: u64,
    writes: bool,
    /// The procedure that is called for each row, if transactions are interpreted.
    procedure: Option<Arc<Procedure>>,
    /// Shared by all suites of a table.
    ledger: Arc<Ledger>,
}

/// The input of a transaction: the seed from which its rows are drawn.
pub(crate) struct Input {
    pub(crate) seed: u64,
    /// Updates made so far.
    updated: Cell<i64>,
}

/// `braid bench micro`.
#[derive(Args, Clone, Debug)]
pub struct MicroArgs {
    /// Rows that a transaction reads or updates
    #[arg(long, default_value = "1,10,100", value_delimiter = ',', value_parser = parse_rows_touched)]
    pub rows: Vec<u64>,
    /// Bytes of the table's keys and values together, for instance 1Mi, 10Mi, 1Gi
    #[arg(long, default_value = "1Mi,10Mi,100Mi", value_delimiter = ',', value_parser = parse_count)]
    pub size: Vec<u64>,
    /// The type of both columns
    #[arg(long, default_value = "long", value_delimiter = ',')]
    pub column: Vec<ColumnKind>,
    /// Makes transactions update the rows instead of only reading them
    #[arg(long)]
    pub write: bool,
    /// How transactions are implemented: compiled with the program, or as interpreted statements that use names; both
    /// are compared
    #[arg(long, default_value = "compiled", value_delimiter = ',')]
    pub procedure: Vec<ProcedureKind>,
    /// Flags of every workload with several kinds of transactions.
    #[command(flatten)]
    pub kinds: KindsArgs,
}

/// The columns of the micro-benchmark's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColumnKind {
    /// Whole numbers of 8 bytes
    Long,
    /// Strings of 50 bytes
    Text50,
}

fn parse_rows_touched(text: &str) -> Result<u64, String> {
    parse_within(text, 1, 100_000).map(|n| n as u64)
}

/// How a table is made, and what runs on it.
pub(crate) struct Setup<T: Column> {
    pub(crate) size_bytes: u64,
    pub(crate) rows: Vec<u64>,
    pub(crate) writes: bool,
    pub(crate) procedures: Vec<ProcedureKind>,
    pub(crate) column: std::marker::PhantomData<T>,
}

/// Runs `braid bench micro`.
pub(crate) fn bench(args: &MicroArgs) -> crate::Result<()> {
    show(&run(args)?, "Micro-benchmark: a few random rows of two columns", &args.kinds.suite.run)
}

/// Runs the benchmark without showing its results.
pub(crate) fn run(args: &MicroArgs) -> crate::Result<Outcome> {
    let plan = Plan::of_kinds(&args.kinds)?;
    for &column in &args.column {
        for &size in &args.size {
            match column {
                ColumnKind::Long => affordable::<Long>(size, &plan, memory_available_bytes())?,
                ColumnKind::Text50 => affordable::<Text50>(size, &plan, memory_available_bytes())?,
            }
        }
    }
    let mut outcome = Outcome::new("micro", &plan);
    for &column in &args.column {
        for &size in &args.size {
            outcome.extend(match column {
                ColumnKind::Long => driver::run(&Setup::<Long>::new(args, size), &plan)?,
                ColumnKind::Text50 => driver::run(&Setup::<Text50>::new(args, size), &plan)?,
            });
        }
    }
    Ok(outcome)
}

/// Refuses tables that do not fit in memory. There is a table in each database that the plan has open at once.
fn affordable<T: Column>(size_bytes: u64, plan: &Plan, memory_bytes: Option<u64>) -> crate::Result<()> {
    let Some(memory_bytes) = memory_bytes else { return Ok(()) };
    let databases = plan.databases().len() as u64;
    let needed = u128::from(records::<T>(size_bytes)) * u128::from(T::MEMORY_BYTES_MAX * databases);
    let most = memory_bytes / 100 * MEMORY_PERCENT_MAX;
    if needed <= u128::from(most) {
        return Ok(());
    }
    let needed = size(u64::try_from(needed).unwrap_or(u64::MAX));
    Err(Failure::new(format!(
        "--size {size_bytes} with columns {} takes up to {needed} of memory in {databases} database{}, more than \
         {MEMORY_PERCENT_MAX} % of the {} that are free: choose a smaller one",
        T::NAME,
        if databases == 1 { "" } else { "s" },
        size(memory_bytes)
    )))
}

/// Returns the number of rows in a table of this many bytes.
fn records<T: Column>(size_bytes: u64) -> u64 {
    (size_bytes / T::ROW_BYTES).max(1)
}

impl<T: Column> Setup<T> {
    fn new(args: &MicroArgs, size_bytes: u64) -> Self {
        Setup {
            size_bytes,
            rows: args.rows.clone(),
            writes: args.write,
            procedures: args.procedure.clone(),
            column: std::marker::PhantomData,
        }
    }
}

impl<T: Column> Benchmark for Setup<T> {
    type Suite = Micro<T>;

    fn name(&self) -> &'static str {
        "micro"
    }

    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Micro<T>>>> {
        let table: Table<T::Key, T::Value> =
            db.partitioned_table("rows", u64::BITS).map_err(engine::failure)?;
        let records = records::<T>(self.size_bytes);
        fill(db, "rows", records, None, async |tx, &number| {
            tx.insert(table, T::key(number), T::input(&T::hold(0))).await
        })?;
        let (writes, ledger) = (self.writes, Arc::new(Ledger::default()));
        let raw = db.raw_table("rows").expect("it has just been opened");
        let interpreted = Arc::new(procedure::<T>(raw, writes));
        let suite = |rows: u64, kind: ProcedureKind| {
            let procedure = (kind == ProcedureKind::Interpreted).then(|| interpreted.clone());
            Loaded {
                parameters: vec![
                    ("column", T::NAME.into()),
                    ("size", self.size_bytes.into()),
                    ("rows", rows.into()),
                    ("write", writes.into()),
                    ("procedure", kind.name().into()),
                ],
                suite: Micro { table, records, rows, writes, procedure, ledger: ledger.clone() },
            }
        };
        let of_rows = |&rows: &u64| self.procedures.iter().map(move |&kind| (rows, kind));
        Ok(self.rows.iter().flat_map(of_rows).map(|(rows, kind)| suite(rows, kind)).collect())
    }
}

/// Makes the procedure that reads the count of row `which`, and adds one to it if `writes` is true.
fn procedure<T: Column>(rows: RawTable, writes: bool) -> Procedure {
    let (kind, add_one) = T::INTERPRETED;
    let mut names = Names::default();
    names.table("rows", rows, kind, ("count", kind));
    names.function("add_one", add_one);
    let variable = |name: &str| Expression::Variable(name.into());
    let (table, column) = (String::from("rows"), String::from("count"));
    let mut statements = vec![Statement::Select {
        table: table.clone(),
        column: column.clone(),
        key: variable("which"),
        into: "found".into(),
    }];
    if writes {
        let value = Expression::Call { function: "add_one".into(), argument: Box::new(variable("found")) };
        statements.push(Statement::Update { table, column, key: variable("which"), value });
    }
    Procedure { names, statements }
}

impl<T: Column> Micro<T> {
    /// Draws a row's number.
    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        rng.below(self.records)
    }

    /// Sets the count of an existing row.
    async fn set<C: Scheme>(&self, tx: &Txn<C>, number: u64, count: u64) -> Result<()> {
        let held = T::hold(count);
        let is_there = tx.update(self.table, T::key(number), T::input(&held)).await?;
        if is_there { Ok(()) } else { Err(absent(number)) }
    }

    /// Reads ten rows together, and then updates them if the suite writes.
    async fn together<C: Scheme>(&self, tx: &Txn<C>, rng: &mut Rng) -> Result<u64> {
        let mut numbers = [0; TOGETHER];
        numbers.fill_with(|| self.draw(rng));
        let mut counts = [0; TOGETHER];
        let views = tx.get_many(self.table, &numbers.map(T::key)).await?;
        for (at, view) in views.into_iter().enumerate() {
            counts[at] = view.map(T::count).ok_or_else(|| absent(numbers[at]))?;
        }
        if self.writes {
            for at in 0..TOGETHER {
                // The same row may have been drawn and updated earlier in this transaction.
                let before = numbers[..at].iter().rposition(|&number| number == numbers[at]);
                counts[at] = before.map_or(counts[at], |before| counts[before]) + 1;
                self.set(tx, numbers[at], counts[at]).await?;
            }
        }
        Ok(counts.iter().sum())
    }
}

/// Returns the number of rows in the table, in the order of its index, and the sum of their counts.
fn counted<T: Column, C: Scheme>(db: &Database<C>) -> Result<(i128, i128)> {
    let tx = db.begin()?;
    tx.declare_read_only();
    let mut rows = db.raw_table("rows").expect("it was loaded").scan(&tx);
    let (mut found, mut counted) = (0, 0);
    while let Some((_, value)) = rows.next()? {
        found += 1;
        counted += i128::from(T::count(T::Value::view(value)?));
    }
    Ok((found, counted))
}

#[cold]
fn absent(number: u64) -> Error {
    Error::user(format!("row {number} is missing"))
}

impl<T: Column> Suite for Micro<T> {
    type Input = Input;
    type Source = Rng;

    fn kinds(&self) -> &'static [&'static str] {
        if self.writes { &["update"] } else { &["read"] }
    }

    fn source(&self, _: usize, _: usize, seed: u64) -> Rng {
        Rng::new(seed)
    }

    #[inline(always)]
    fn next(&self, rng: &mut Rng) -> Input {
        Input { seed: rng.next_u64(), updated: Cell::new(0) }
    }

    #[inline(always)]
    fn kind(&self, _: &Input) -> usize {
        0
    }

    fn settle(&self, commits: u64, effects: i64) {
        self.ledger.add(commits, effects);
    }

    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        let (rows, counted) = counted::<T, C>(db).map_err(engine::failure)?;
        Ok(vec![
            Condition::equal("all rows are there", ("rows", rows), ("loaded", i128::from(self.records))),
            Condition::equal(
                "every acknowledged update is in its row",
                ("updates in the rows", counted),
                ("acknowledged", self.ledger.effects()),
            ),
        ])
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl<T: Column> Transactions for Micro<T> {
    fn only_reads(&self, _: &Input) -> bool {
        !self.writes
    }

    async fn run<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> Result<()> {
        input.updated.set(if self.writes { self.rows as i64 } else { 0 });
        let (mut rng, mut sum, mut left) = (Rng::new(input.seed), 0u64, self.rows);
        if let Some(procedure) = &self.procedure {
            for _ in 0..left {
                let which = T::argument(self.draw(&mut rng));
                std::hint::black_box(procedure.call(tx, &[("which", which)]).await?);
            }
            return Ok(());
        }
        while many && left >= TOGETHER as u64 {
            sum = sum.wrapping_add(self.together(tx, &mut rng).await?);
            left -= TOGETHER as u64;
        }
        for _ in 0..left {
            let number = self.draw(&mut rng);
            let Some(view) = tx.get(self.table, T::key(number)).await? else { return Err(absent(number)) };
            let count = T::count(view);
            sum = sum.wrapping_add(count);
            if self.writes {
                self.set(tx, number, count + 1).await?;
            }
        }
        std::hint::black_box(sum);
        Ok(())
    }

    #[inline(always)]
    fn effect(&self, input: &Input) -> i64 {
        input.updated.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;

    #[test]
    fn columns_keep_their_counts_and_tell_their_keys_apart() {
        // Proves that a count survives both forms of a value, and that text keys differ and have 50 letters.
        for count in [0, 1, 9_876_543_210, u64::MAX] {
            assert_eq!(Long::count(Long::input(&Long::hold(count))), count);
            assert_eq!(Text50::count(Text50::input(&Text50::hold(count))), count);
        }
        let keys: BTreeSet<String> = (0..10_000).map(|n| Text50::key(n).as_str().to_owned()).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.len() == 50 && key.is_ascii()));
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        micro: MicroArgs,
    }

    #[test]
    fn tables_that_memory_does_not_hold_are_refused() {
        // Proves the limit, that it counts every database, and that the message says how much memory there is.
        let plan = |line: &[&str]| {
            let words = ["micro"].iter().chain(line);
            Plan::of_kinds(&Line::try_parse_from(words).unwrap().micro.kinds).unwrap()
        };
        let (one, two) = (plan(&[]), plan(&["--cc", "serializable,snapshot"]));
        let memory = Some(8 << 30);
        assert!(affordable::<Long>(1 << 30, &one, memory).is_ok());
        assert!(affordable::<Long>(1 << 30, &two, memory).is_err());
        let error = affordable::<Text50>(100 << 30, &one, memory).unwrap_err().to_string();
        assert!(error.contains("70 % of the 8.0 GiB"), "{error}");
        assert!(affordable::<Long>(u64::MAX / 2, &one, memory).is_err());
    }
}
