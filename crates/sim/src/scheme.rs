//! The schemes of concurrency control, with what each promises, and how it runs workloads and plays scripts. They come
//! from the engine's own table.

use crate::crash;
use crate::isolation::Isolation;
use crate::ledger::Report;
use crate::scheduler::{Settings, Violation, run};
use crate::script::program::Script;
use crate::script::{History, Schedule, answers_hold, holds, play};
use crate::workload::{Entry, WorkloadId};
use braid_history::Model;
use braiddb::{ConcurrencyControl, IndexKind};

/// A scheme.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// As on the command line.
    pub name: &'static str,
    /// What its transactions are judged by.
    pub isolation: Isolation,
    /// The kind of index of all tables.
    pub index: IndexKind,
    run: Run,
    play: Play,
    crash: Crash,
}

/// How a scheme runs a workload.
type Run = fn(WorkloadId, &Settings, Isolation) -> Result<Report, Violation>;
/// How crashes of a durable database are checked under a scheme: those of a seed, or one of them again.
type Crash = fn(&crash::Settings, Option<&crash::Place>) -> Result<crash::Report, Box<crash::Failure>>;
/// How a scheme plays a script.
type Play = fn(&Script, &Schedule, IndexKind) -> Result<History, String>;

macro_rules! all {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
        /// Every scheme that the engine has.
        pub const SCHEMES: &[Scheme] =
            &[$(Scheme::of::<braiddb::$scheme>($name, Isolation::$promise)),*];
    };
}
braiddb::schemes!(all);

impl Scheme {
    /// A scheme under a name.
    pub const fn of<C: ConcurrencyControl>(name: &'static str, isolation: Isolation) -> Scheme {
        let run: Run = |workload, settings, isolation| run(Entry::<C>::of(workload), settings, isolation);
        let crash = crash::check_crashes::<C>;
        Scheme { name, isolation, index: IndexKind::Masstree, run, play: play::<C>, crash }
    }

    /// One that plays scripts only, and refuses to run workloads: all of those, compiled for each error that can be
    /// planted in a scheme, would take minutes.
    pub const fn of_scripts<C: ConcurrencyControl>(name: &'static str, isolation: Isolation) -> Scheme {
        let run: Run = |workload, settings, _| {
            let what = "the scheme plays scripts only".to_string();
            Err(Violation { workload: workload.name(), seed: settings.seed, what })
        };
        let crash: Crash = |_, _| unreachable!("the scheme plays scripts only");
        Scheme { name, isolation, index: IndexKind::Masstree, run, play: play::<C>, crash }
    }

    /// The scheme of this name.
    pub fn named(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name == name).copied()
    }

    /// The same engine, judged by another promise: a stronger one than it makes must be found to be broken.
    pub fn judged_by(self, isolation: Isolation) -> Scheme {
        Scheme { isolation, ..self }
    }

    /// The same, with tables that have an index of this kind.
    pub fn indexed_by(self, index: IndexKind) -> Scheme {
        Scheme { index, ..self }
    }

    /// Runs one workload from one seed.
    pub fn run(&self, workload: WorkloadId, settings: &Settings) -> Result<Report, Violation> {
        (self.run)(workload, &Settings { index: self.index, ..*settings }, self.isolation)
    }

    /// Checks crashes of a durable database; or one of them again.
    pub(crate) fn check_crashes(
        &self,
        settings: &crash::Settings,
        place: Option<&crash::Place>,
    ) -> Result<crash::Report, Box<crash::Failure>> {
        (self.crash)(settings, place)
    }

    /// Runs a script once. An error says what the engine did that no transaction may.
    pub fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        (self.play)(script, schedule, self.index)
    }

    /// Can others move within its commits? (Under schemes with one value per record a commit is decided and made in one
    /// step.)
    pub fn has_phases(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    /// A promise that a script's history breaks.
    pub fn broken(&self, script: &Script, history: &History) -> Option<Model> {
        let is_broken = |model: &Model| match model {
            Model::StrictSerializable if !self.isolation.reads_snapshots() => !answers_hold(script, history),
            _ => !holds(*model, script, history),
        };
        self.isolation.models().iter().copied().find(is_broken)
    }
}
