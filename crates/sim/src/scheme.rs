//! The schemes of concurrency control, with what each promises, and how it runs workloads, plays scripts and is checked with
//! crashes. What they run does not know them: it takes a type, which is [`AnyScheme`] here, or a [`Player`].

use crate::crash;
use crate::isolation::Isolation;
use crate::kind::Kind;
use crate::ledger::Report;
use crate::scheduler::{Settings, Violation, run};
use crate::script::program::Script;
use crate::script::{History, Player, Schedule, play};
use crate::workload::{Entry, WorkloadId};
use braiddb::{AnyScheme, IndexKind, SchemeName};

/// A scheme.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// Its name.
    pub name: SchemeName,
    /// What its transactions are judged by.
    pub isolation: Isolation,
    /// The kind of index of all tables.
    pub index: IndexKind,
}

macro_rules! all {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
        /// Every scheme that the engine has.
        pub const SCHEMES: &[Scheme] = &[$(Scheme {
            name: SchemeName::$scheme,
            isolation: Isolation::$promise,
            index: IndexKind::Masstree,
        }),*];
    };
}
braiddb::schemes!(all);

impl Scheme {
    /// The scheme of this name.
    pub fn named(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name.name() == name).copied()
    }

    /// The same engine, judged by another promise: a stronger one than it makes must be found to be broken.
    pub fn judged_by(self, isolation: Isolation) -> Scheme {
        Scheme { isolation, ..self }
    }

    /// The same, with tables that have an index of this kind.
    pub fn indexed_by(self, index: IndexKind) -> Scheme {
        Scheme { index, ..self }
    }

    fn kind(&self) -> Kind {
        Kind { scheme: self.name, index: self.index }
    }

    fn with_crashes(&self, settings: &crash::Settings) -> crash::Settings {
        crash::Settings { kind: Kind { scheme: self.name, ..settings.kind }, ..settings.clone() }
    }

    /// Runs one workload from one seed.
    pub fn run(&self, workload: WorkloadId, settings: &Settings) -> Result<Report, Violation> {
        run(Entry::<AnyScheme>::of(workload), &Settings { kind: self.kind(), ..*settings }, self.isolation)
    }

    /// Checks crashes of a durable database, as [`crash::check`]. (The settings say which index its tables have.)
    pub fn check_crashes(&self, settings: &crash::Settings) -> Result<crash::Report, Box<crash::Failure>> {
        crash::check::<AnyScheme>(&self.with_crashes(settings))
    }

    /// Looks at one of these crashes again, as [`crash::replay`].
    pub fn replay_crash(
        &self,
        settings: &crash::Settings,
        place: &crash::Place,
    ) -> Result<crash::Report, Box<crash::Failure>> {
        crash::replay::<AnyScheme>(&self.with_crashes(settings), place)
    }
}

impl Player for Scheme {
    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        play::<AnyScheme>(script, schedule, self.kind())
    }
}
