//! The concurrency control schemes: the promise of each, and how it runs workloads, plays scripts and is checked with
//! crashes. Workloads, scripts and checks do not know the schemes. They take a type, which is [`AnyScheme`] here, or a
//! [`Player`].

use crate::crash;
use crate::isolation::Isolation;
use crate::kind::Kind;
use crate::ledger::Report;
use crate::scheduler::{Settings, Violation, run};
use crate::script::program::Script;
use crate::script::{History, Player, Schedule, play};
use crate::workload::{Entry, WorkloadId};
use braiddb::{AnyScheme, IndexKind, SchemeName};

/// A scheme with its promise.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// Its name.
    pub name: SchemeName,
    /// The promise by which its transactions are judged.
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
    /// Returns the scheme with this name.
    pub fn named(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name.name() == name).copied()
    }

    /// Returns the same engine, judged by another promise. A promise stronger than the engine's own must be found
    /// broken.
    pub fn judged_by(self, isolation: Isolation) -> Scheme {
        Scheme { isolation, ..self }
    }

    /// Returns the scheme with this kind of index for all tables.
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

    /// Checks crashes of a durable database, as [`crash::check`] does. The settings say which index its tables have.
    pub fn check_crashes(&self, settings: &crash::Settings) -> Result<crash::Report, Box<crash::Failure>> {
        crash::check::<AnyScheme>(&self.with_crashes(settings))
    }

    /// Looks at one of these crashes again, as [`crash::replay`] does.
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
