//! TPC-C on the harness: the flags, the mixes that run on one load, and the twelve conditions. The transactions come
//! from the crate `braid-tpcc`.

mod args;
mod check;
#[cfg(test)]
mod tests;

pub use args::TpccArgs;
pub use braid_tpcc::{Mix, Scale};
pub use check::{Run, RunPlan, run_all};

use crate::Failure;
use crate::engine::{self, Database, Result, Scheme, Txn};
use crate::machine::progress;
use crate::suite::outcome::Outcome;
use crate::suite::show::show;
use crate::suite::worker::{Job, Measured, execute};
use crate::suite::{self, Benchmark, Condition, Conflicts, Loaded, Suite, Transactions};
use crate::workloads::ProcedureKind;
use braid_tpcc::{CONDITIONS, Input, KINDS, Settings, Source, Tpcc};

/// Runs `braid bench tpcc`.
pub(crate) fn bench(args: &TpccArgs) -> crate::Result<()> {
    show(&run(args)?, "TPC-C", &args.kinds.suite.run)
}

/// Runs the benchmark without showing its results.
pub(crate) fn run(args: &TpccArgs) -> crate::Result<Outcome> {
    args.scale()?;
    args.mixes()?;
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
        let tpcc = load(db, settings, args.kinds.suite.seed, crate::args::processors(), &|done, of| {
            bar.set_length(of);
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        if args.freeze {
            tpcc.freeze(db).map_err(engine::failure)?;
        }
        let of_mix = |(mix, procedure): (Mix, ProcedureKind)| Loaded {
            parameters: vec![
                ("warehouses", args.warehouses.into()),
                ("scale-down", args.scale_down.into()),
                ("suppliers", settings.scale.suppliers.into()),
                ("remote-items", args.remote_items.into()),
                ("remote-payments", args.remote_payments.into()),
                ("home", args.home.name().into()),
                ("freeze", args.freeze.into()),
                ("sorted", args.sorted.into()),
                ("mix", mix.name().into()),
                ("procedure", procedure.name().into()),
            ],
            suite: tpcc.with(Settings {
                mix,
                interpreted: procedure == ProcedureKind::Interpreted,
                ..settings
            }),
        };
        Ok(args.mixes()?.into_iter().map(of_mix).collect())
    }
}

/// Fills an empty database.
fn load<C: Scheme>(
    db: &Database<C>,
    settings: Settings,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> crate::Result<Tpcc> {
    let loaded = Tpcc::load(db, settings, seed, threads, progress);
    loaded.map_err(|error| Failure::new(format!("loading failed: {error}")))
}

impl Suite for Tpcc {
    type Input = Input;
    type Source = Source;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS[self.settings().mix.kinds()]
    }

    fn source(&self, worker: usize, workers: usize, seed: u64) -> Source {
        self.inputs((worker, workers), seed)
    }

    #[inline]
    fn next(&self, source: &mut Source) -> Input {
        source.next()
    }

    #[inline(always)]
    fn kind(&self, input: &Input) -> usize {
        input.kind() - self.settings().mix.kinds().start
    }

    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>> {
        let violations = self.violations(db, crate::args::processors()).map_err(engine::failure)?;
        let conditions = CONDITIONS.iter().zip(violations).enumerate();
        let condition = |(index, (name, violation)): (usize, (&&str, Option<String>))| Condition {
            name: format!("{}. {name}", index + 1),
            holds: violation.is_none(),
            detail: violation.unwrap_or_else(|| "everywhere".into()),
        };
        Ok(conditions.map(condition).collect())
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured> {
        execute(job)
    }
}

impl Transactions for Tpcc {
    fn rolls_back(&self, input: &Input) -> bool {
        input.rolls_back()
    }

    #[inline(always)]
    fn only_reads(&self, input: &Input) -> bool {
        input.only_reads()
    }

    #[inline(always)]
    fn conflicts(&self, input: &Input) -> Conflicts {
        input.conflicts()
    }

    #[inline]
    fn run<C: Scheme>(&self, tx: &Txn<C>, input: &Input, many: bool) -> impl Future<Output = Result<()>> {
        self.transaction(tx, input, many)
    }
}
